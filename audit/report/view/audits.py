"""Scans of one folder, the series that they form, and the comparisons within each series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from pathlib import PurePosixPath

from audit.compare.comparison import Comparison
from audit.compare.conditions import differences
from audit.compare.scans import compare
from audit.engine.interface import SILENT
from audit.errors import RecordError
from audit.policy import Policy, Verdict
from audit.progress import steps
from audit.record import AuditRecord
from audit.report.checkpoints import (
    BY_TIME,
    IN_ORDER,
    Stop,
    axis_positions,
    check_comparable,
)
from audit.report.facts.definitions import Facts

MOST_PAIRS = 60
"""Comparisons on the page (chosen here); `docaudit diff` makes any other one."""


@dataclass(frozen=True)
class LeftOut:
    """A file or a folder that the page leaves out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Run:
    """One scan.

    Attributes:
        number: its number on the page, 1 for the newest.
        name: path of its folder within the folder of the page.
    """

    number: int
    name: str
    facts: Facts

    @property
    def record(self) -> AuditRecord:
        """Return the record of the scan."""
        return self.facts.record

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the scan, by the policy of the page."""
        return self.facts.verdict


@dataclass(frozen=True)
class Series:
    """Scans that differ in the model alone, in the order of an axis.

    Attributes:
        number: its number on the page.
        axis: what the positions count.
        runs: in the order of `stops`.
        stops: each scan with its position on the axis.
    """

    number: int
    axis: str
    runs: tuple[Run, ...]
    stops: tuple[Stop, ...]

    @property
    def is_training(self) -> bool:
        """Tell whether the scans are of checkpoints of one training."""
        return self.axis != BY_TIME

    @property
    def folder(self) -> str:
        """Return the folder that the first scan's folder lies in."""
        return PurePosixPath(self.runs[0].name).parent.as_posix()


@dataclass(frozen=True)
class Pair:
    """Two scans of one series, compared."""

    old: Run
    new: Run
    comparison: Comparison


@dataclass(frozen=True)
class Audits:
    """What the page shows.

    Attributes:
        folder: name of the folder.
        policy: that all verdicts are of.
        runs: the newest first.
        series: those of two scans or more, checkpoints of trainings first.
        n_more: further files that were left out and are not listed.
    """

    folder: str
    policy: Policy
    runs: tuple[Run, ...]
    series: tuple[Series, ...]
    pairs: tuple[Pair, ...]
    left_out: tuple[LeftOut, ...]
    n_more: int = 0


@dataclass
class _Group:
    """Scans that are alike but for their models, the oldest first."""

    runs: list[Run] = field(default_factory=list)

    def takes(self, run: Run) -> bool:
        """Test whether a scan differs from the first one in the model alone."""
        first = self.runs[0]
        if differences(first.record, run.record):
            return False
        stops = [Stop(0.0, item.name, item.record, item.verdict) for item in (first, run)]
        try:
            check_comparable(stops)
        except RecordError:
            return False
        return True


def series_of(runs: Sequence[Run]) -> tuple[Series, ...]:
    """Put scans into series, each of two scans or more.

    Scans beside each other whose models state different places in a training are taken for its
    checkpoints. All others stand in the order of time.
    """
    by_time = sorted(runs, key=lambda run: (run.record.timing.finished, run.name))
    trainings: list[_Group] = []
    others: list[Run] = []
    for run_group in _beside_each_other(by_time):
        for group in _alike(run_group):
            if _axis_of(group.runs) == BY_TIME:
                others += group.runs
            else:
                trainings.append(group)
    others.sort(key=by_time.index)
    groups = [*trainings, *_alike(others)]
    several = [group.runs for group in groups if len(group.runs) > 1]
    return tuple(_series(number, group_runs) for number, group_runs in enumerate(several, 1))


def _beside_each_other(runs: Sequence[Run]) -> list[list[Run]]:
    """Put scans together whose folders lie in one folder."""
    by_parent: dict[PurePosixPath, list[Run]] = {}
    for run in runs:
        by_parent.setdefault(PurePosixPath(run.name).parent, []).append(run)
    return [*by_parent.values()]


def _alike(runs: Sequence[Run]) -> list[_Group]:
    """Put scans together that differ in the model alone."""
    groups: list[_Group] = []
    for run in runs:
        group = next((group for group in groups if group.takes(run)), None)
        if group is None:
            group = _Group()
            groups.append(group)
        group.runs.append(run)
    return groups


def _axis_of(runs: Sequence[Run]) -> str:
    """Return the axis of scans that are alike; a single one has no place among others."""
    axis, _ = axis_positions([run.record for run in runs])
    if axis == IN_ORDER or len(runs) == 1:
        return BY_TIME
    return axis


def _series(number: int, runs: Sequence[Run]) -> Series:
    """Make a series of scans that are given in the order of their times."""
    axis = _axis_of(runs)
    positions = [float(place) for place in range(1, len(runs) + 1)]
    if axis != BY_TIME:
        _, positions = axis_positions([run.record for run in runs])
    placed = sorted(zip(positions, runs, strict=True), key=lambda place: place[0])
    stops = [Stop(x, run.name, run.record, run.verdict) for x, run in placed]
    return Series(number, axis, tuple(run for _, run in placed), tuple(stops))


def pairs_of(series: Sequence[Series], policy: Policy) -> tuple[Pair, ...]:
    """Compare the scans of each series in pairs, neighbours first, as many as the page takes."""
    pairs: list[Pair] = []
    chosen = list(islice(_ordered_pairs(series), MOST_PAIRS))
    for old, new in steps("comparing scans", chosen, len(chosen)):
        records = (old.record, new.record)
        pairs.append(Pair(old, new, compare(records, (None, None), policy, SILENT)))
    return tuple(pairs)


def _ordered_pairs(series: Sequence[Series]) -> Iterator[tuple[Run, Run]]:
    """Yield neighbours of every series, then the first and last, then all other pairs."""
    distant: list[tuple[int, Run, Run]] = []
    for item in series:
        places = enumerate(item.runs)
        for (place_old, old), (place_new, new) in combinations(places, 2):
            distant.append((place_new - place_old, old, new))
    distant.sort(key=lambda entry: (entry[0] > 1, -entry[0]))
    for _, old, new in distant:
        yield old, new
