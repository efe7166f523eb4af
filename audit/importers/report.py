"""The report of an import: counts of documents and fields, for the owner."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from audit.corpus.documents import TaskKind
from audit.importers.locate import quality_of

Counts = defaultdict[str, Counter[str]]


def _counts() -> Counts:
    return defaultdict(Counter)


@dataclass
class ImportReport:
    """Counts of an import. Counts of fields cover every document of the source, also those left out of all splits.

    Attributes:
        documents: by split, and "left out".
        located: by label, fields whose words are known, by the quality of their location (`locate.QUALITIES`).
        not_located: by label, the other fields by reason.
        unlocated: (document id, label, reason) of every field without words; no text.
        loose: (document id, label, likeness from 0 to 1) of every field that was located loosely; no text.
        duplicates: groups of documents with equal images, which stay in one split.
        notes: other counts that an owner wants to know.
        warnings: what must be true of the audited model, and what else the owner should read.
        task: of the manifest.
    """

    documents: dict[str, int] = field(default_factory=dict)
    located: Counts = field(default_factory=_counts)
    not_located: Counts = field(default_factory=_counts)
    unlocated: list[tuple[str, str, str]] = field(default_factory=list)
    loose: list[tuple[str, str, float]] = field(default_factory=list)
    duplicates: list[tuple[str, ...]] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    task: TaskKind | None = None

    @property
    def fields(self) -> dict[str, int]:
        """Number of fields of each label, located or not, by name of the label."""
        labels = sorted(self.located.keys() | self.not_located.keys())
        return {label: self.located[label].total() + self.not_located[label].total() for label in labels}

    def locate(self, document: str, label: str, rule: str, score: float = 1.0) -> None:
        """Count a field whose words are known; those of a score below 1 are listed."""
        self.located[label][quality_of(rule)] += 1
        if score < 1:
            self.loose.append((document, label, round(score, 3)))

    def miss(self, document: str, label: str, reason: str, name: str | None = None) -> None:
        """Count and list a field without words, by `name` where it has one."""
        self.not_located[label][reason] += 1
        self.unlocated.append((document, name or label, reason))
