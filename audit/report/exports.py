"""Say whether an export leaks more than the audited model, attack by attack."""

from dataclasses import dataclass

from audit.cards import EXPORT_WORDS, DerivedFrom, ExportOutcome
from audit.policy.reading import PREFIX
from audit.record import AuditRecord
from audit.report.facts.definitions import title_of


@dataclass(frozen=True)
class ExportRow:
    """What became of an attack in the export.

    Attributes:
        numbers: number that decides, before and after, and what counts as no more.
        reason: why it is undecided; empty otherwise.
    """

    attack: str
    title: str
    outcome: ExportOutcome
    numbers: str
    reason: str


@dataclass(frozen=True)
class ExportView:
    """What reports and a terminal show of an export.

    Attributes:
        sentence: the audited model, and whether the export leaks more.
        rows: attacks that the audited model was put to.
        notes: what differs between both scans all the same.
    """

    outcome: ExportOutcome
    sentence: str
    rows: tuple[ExportRow, ...]
    notes: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """Return the same as lines of text, those of attacks and notes indented."""
        lines = [f"Export of {self.sentence}"]
        for row in self.rows:
            reason = f": {row.reason}" if row.reason else ""
            lines.append(f"  {row.attack}: {row.outcome}{reason}: {row.numbers}")
        lines += [f"  {note}" for note in self.notes]
        return lines


def export_view(record: AuditRecord) -> ExportView | None:
    """Return what is shown of an export; None where a model was scanned on its own."""
    derived = record.derived_from
    if derived is None:
        return None
    scan = f"{derived.subject}, scanned {derived.scanned[:10]}"
    digest = f"sha256 of the record {derived.record_sha256[:PREFIX]}"
    sentence = f"{scan} ({digest}): {EXPORT_WORDS[derived.outcome]}"
    if derived.incomparable:
        sentence = f"{sentence}: {derived.incomparable}"
    rows = tuple(_row_of(derived, attack) for attack in derived.attacks)
    return ExportView(derived.outcome, sentence, rows, derived.notes)


def _row_of(derived: DerivedFrom, attack: str) -> ExportRow:
    """Return the row of an attack, by the number that decides about it."""
    number = derived.deciding(attack)
    return ExportRow(attack, title_of(attack), number.outcome, number.words, number.reason)
