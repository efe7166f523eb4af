"""Lay out what the owner states of an audit: the title of its reports, and the facts of page one.

docaudit verifies none of it, so it stands in quotation marks everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from audit.cards import AuditSheet
from audit.errors import printable
from audit.record import AuditRecord
from audit.report.labels import LABELS

LONGEST_TITLE = 64
"""Signs of a title: two lines of page one."""
LONGEST_FACT = 90
"""Signs of a fact on page one; page two has the whole of it."""
WORDS = LABELS["owner"]


@dataclass(frozen=True)
class OwnerFact:
    """Something that only the owner knows.

    Attributes:
        label: what it is.
        value: what the owner states, in quotation marks; empty while it is missing.
    """

    label: str
    value: str


@dataclass(frozen=True)
class Title:
    """The title of a report.

    Attributes:
        text: name and version of what was audited, as its owner calls it; what kind of thing it is
            while the owner gives no name. Never the name of a folder.
        missing: whether the owner gives no name.
    """

    text: str
    missing: bool


def title_of(record: AuditRecord) -> Title:
    """Return the title of the reports on a record."""
    sheet = record.audit
    kind = kind_of(record)
    if not sheet.model_name:
        return Title(_cut(kind[:1].upper() + kind[1:], LONGEST_TITLE), missing=True)
    name = f"“{printable(sheet.model_name)}”"
    if sheet.model_version:
        name = f"{name}, version “{printable(sheet.model_version)}”"
    return Title(_cut(name, LONGEST_TITLE), missing=False)


def kind_of(record: AuditRecord) -> str:
    """Say what was audited in a few words: the family of the model, or the text of a data set."""
    if not record.target.is_model:
        return WORDS["text"]
    family = record.target.architecture.partition(",")[0]
    return WORDS["model"].format(family=printable(family))


def owner_facts(record: AuditRecord) -> tuple[OwnerFact, ...]:
    """Return the facts on page one that only the owner knows, those that are missing among them."""
    sheet = record.audit
    facts = [
        OwnerFact(WORDS["system"], _quoted(sheet.system)),
        OwnerFact(WORDS["purpose"], _quoted(sheet.purpose)),
        OwnerFact(WORDS["controller"], _quoted(sheet.controller)),
    ]
    if record.target.is_model:
        facts.append(OwnerFact(WORDS["release"], release_of(sheet)))
    return tuple(facts)


def release_of(sheet: AuditSheet) -> str:
    """Say in a few words who gets the model; empty where the owner does not state it."""
    if sheet.release is None:
        return ""
    return LABELS["gets"][sheet.release]


def _quoted(text: str | None) -> str:
    """Put what the owner states in quotation marks, cut; empty where nothing is stated."""
    return f"“{_cut(printable(text), LONGEST_FACT)}”" if text else ""


def _cut(text: str, longest: int) -> str:
    """Cut a text at a number of signs."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 1]}…"
