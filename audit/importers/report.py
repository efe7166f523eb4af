"""The report of an import: counts of documents and fields, for the owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from audit.corpus.documents import TaskKind
from audit.importers.locate import QUALITIES, quality_of


@dataclass(frozen=True)
class ImportReport:
    """Counts of an import. Counts of fields cover every document of the source, also those left out of all splits.

    Attributes:
        documents: by split, and "left out".
        fields: by label, located or not.
        located: by label, then by the rule that located the field's words.
        qualities: by label, how many were located exactly, after normalisation, and loosely (`locate`).
        not_located: by label, then by reason.
        duplicates: groups of documents with equal images, which stay in one split.
        unlocated: (document id, label, reason) of every field without words; no text.
        loose: (document id, label, likeness from 0 to 1) of every field that was located loosely; no text.
        notes: other counts that an owner wants to know.
        warnings: what must be true of the audited model, and what else the owner should read.
        task: of the manifest.
    """

    documents: Mapping[str, int]
    fields: Mapping[str, int]
    located: Mapping[str, Mapping[str, int]]
    qualities: Mapping[str, Mapping[str, int]]
    not_located: Mapping[str, Mapping[str, int]]
    duplicates: tuple[tuple[str, ...], ...]
    unlocated: tuple[tuple[str, str, str], ...]
    loose: tuple[tuple[str, str, float], ...]
    notes: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    task: TaskKind | None = None


class FieldTally:
    """The fields of a source, counted one by one as they are read; `labels` are listed first, in their order."""

    def __init__(self, labels: Iterable[str]) -> None:
        self.located: dict[str, Counter[str]] = {label: Counter() for label in labels}
        self.not_located: dict[str, Counter[str]] = {label: Counter() for label in self.located}
        self.unlocated: list[tuple[str, str, str]] = []
        self.loose: list[tuple[str, str, float]] = []

    def locate(self, label: str, rule: str, document: str = "", score: float = 1.0) -> None:
        """Count a field whose words are known; the report lists those of a score below 1, with their document."""
        self.located[label][rule] += 1
        if score < 1:
            self.loose.append((document, label, round(score, 3)))

    def miss(self, document: str, label: str, reason: str, name: str | None = None) -> None:
        """Count a field without words; the report names it by `name`, else by its label."""
        self.not_located[label][reason] += 1
        self.unlocated.append((document, name or label, reason))

    def report(
        self,
        documents: Mapping[str, int],
        duplicates: Iterable[tuple[str, ...]],
        notes: Mapping[str, int],
        warnings: tuple[str, ...],
        task: TaskKind,
    ) -> ImportReport:
        """Make the report; the arguments are its attributes."""
        return ImportReport(
            documents=documents,
            fields={label: counts.total() + self.not_located[label].total() for label, counts in self.located.items()},
            located={label: dict(counts) for label, counts in self.located.items()},
            qualities={label: _by_quality(counts) for label, counts in self.located.items()},
            not_located={label: dict(counts) for label, counts in self.not_located.items()},
            duplicates=tuple(duplicates),
            unlocated=tuple(self.unlocated),
            loose=tuple(self.loose),
            notes=notes,
            warnings=warnings,
            task=task,
        )


def _by_quality(rules: Mapping[str, int]) -> dict[str, int]:
    return {name: sum(count for rule, count in rules.items() if quality_of(rule) == name) for name in QUALITIES}
