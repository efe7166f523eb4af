"""The report of an import: counts of documents and fields, for the owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from audit.corpus.documents import TaskKind
from audit.importers.locating import QUALITIES, quality_of


@dataclass(frozen=True)
class ImportReport:
    """Counts of an import. Counts of fields cover every document of the source, also those left out of all splits.

    Attributes:
        documents: by split, and "left out".
        fields: by label, located or not.
        located: by label, then by the rule that located the field's words.
        qualities: by label, how many were located exactly, after normalisation, and loosely (`locating`).
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
    """The fields of a source, counted one by one as they are read.

    Args:
        labels: all labels, in the order of the report.
        rules: rules that are listed even where they located nothing.
    """

    def __init__(self, labels: Iterable[str], rules: Iterable[str] = ()) -> None:
        self._located = {label: Counter(dict.fromkeys(rules, 0)) for label in labels}
        self._not_located: dict[str, Counter[str]] = {label: Counter() for label in self._located}
        self._unlocated: list[tuple[str, str, str]] = []
        self._loose: list[tuple[str, str, float]] = []

    def locate(self, label: str, rule: str, document: str = "", score: float = 1.0) -> None:
        """Count a field whose words are known; the report lists those of a score below 1, with their document."""
        self._located[label][rule] += 1
        if score < 1:
            self._loose.append((document, label, round(score, 3)))

    def miss(self, document: str, label: str, reason: str, name: str | None = None) -> None:
        """Count a field without words; the report names it by `name`, else by its label."""
        self._not_located[label][reason] += 1
        self._unlocated.append((document, name or label, reason))

    @classmethod
    def joined(cls, one: FieldTally, other: FieldTally, names: Mapping[str, str]) -> FieldTally:
        """Add up two tallies; `names` gives the document ids of the second."""
        tally = cls([*one._located, *(label for label in other._located if label not in one._located)])
        for part, renamed in ((one, None), (other, names)):
            for label in part._located:
                tally._located[label] += part._located[label]
                tally._not_located[label] += part._not_located[label]
            tally._unlocated += [
                (document if renamed is None else renamed[document], label, reason)
                for document, label, reason in part._unlocated
            ]
            tally._loose += [
                (document if renamed is None else renamed.get(document, document), label, score)
                for document, label, score in part._loose
            ]
        return tally

    def report(
        self,
        documents: Mapping[str, int],
        duplicates: Iterable[tuple[str, ...]],
        notes: Mapping[str, int],
        warnings: tuple[str, ...] = (),
        task: TaskKind | None = None,
    ) -> ImportReport:
        """Make the report; the arguments are its attributes."""
        return ImportReport(
            documents=documents,
            fields={
                label: counts.total() + self._not_located[label].total() for label, counts in self._located.items()
            },
            located={label: dict(counts) for label, counts in self._located.items()},
            qualities={label: _by_quality(counts) for label, counts in self._located.items()},
            not_located={label: dict(counts) for label, counts in self._not_located.items()},
            duplicates=tuple(duplicates),
            unlocated=tuple(self._unlocated),
            loose=tuple(self._loose),
            notes=notes,
            warnings=warnings,
            task=task,
        )


def _by_quality(rules: Mapping[str, int]) -> dict[str, int]:
    """Counts by quality, of counts by rule."""
    return {name: sum(count for rule, count in rules.items() if quality_of(rule) == name) for name in QUALITIES}
