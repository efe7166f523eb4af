"""Whether a PDF is what it says: PDF/A-3a and PDF/UA-1, by page-validation; its marked content, by pypdf."""

from __future__ import annotations

from pathlib import Path

import page
from pypdf import PdfReader
from pypdf.generic import ContentStream, IndirectObject

PROFILES = (page.ValidationProfile.PDF_A_3A, page.ValidationProfile.PDF_UA_1)


def failures(path: Path) -> list[str]:
    """Every failed check of both profiles; the XMP has to claim both."""
    claims = PdfReader(path).trailer["/Root"]["/Metadata"].get_data().decode()
    missing = [
        claim for claim in ('pdfaid:part="3"', 'pdfaid:conformance="A"', "<pdfuaid:part>1<") if claim not in claims
    ]
    reports = [page.validate_pdf(path, profile=profile) for profile in PROFILES]
    return missing + [f"{report.profile}: {one.message}" for report in reports for one in report.failures]


def elements(path: Path, kind: str) -> list[dict]:
    """The structure elements of one kind, in the order of reading."""
    found: list[dict] = []
    below = [PdfReader(path).trailer["/Root"]["/StructTreeRoot"]]
    while below:
        element = below.pop(0)
        kids = element.get("/K", [])
        kids = kids if isinstance(kids, list) else [kids]
        below = [kid.get_object() for kid in kids if isinstance(kid, IndirectObject)] + below
        found += [element] if element.get("/S") == kind else []
    return found


def marked(path: Path) -> list[str]:
    """The tags of the marked content of the first page, in the order in which it is drawn."""
    reader = PdfReader(path)
    drawn = ContentStream(reader.pages[0].get_contents(), reader)
    return [operands[0] for operands, operator in drawn.operations if operator in (b"BDC", b"BMC")]
