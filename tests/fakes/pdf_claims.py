"""Whether a PDF is the PDF/UA-1 that it says, by page-validation; its structure, by pypdf."""

import re
from pathlib import Path

import page
from pypdf import PdfReader
from pypdf.generic import IndirectObject


def failures(path: Path) -> list[str]:
    """Every failed check of the profile; the XMP has to claim it."""
    claims = PdfReader(path).trailer["/Root"]["/Metadata"].get_data().decode()
    missing = (
        [] if re.search(r"<pdfuaid:part>1<|pdfuaid:part=.1.", claims) else ["no claim of PDF/UA-1"]
    )
    report = page.validate_pdf(path, profile=page.ValidationProfile.PDF_UA_1)
    return missing + [one.message for one in report.failures]


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
