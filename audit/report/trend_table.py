"""The table of a trend: a row for each number that was measured, a column for each checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.attacks.text import AttackText
from audit.measurements import Estimate, Unresolved
from audit.policy import Limit, Overall
from audit.report import compact, numbers
from audit.report.labels import UTILITY
from audit.report.sweep_page import Stop

MOST_COLUMNS = 5
"""Checkpoints beside each other (chosen here): what fits on the page at this size of type."""
USEFULNESS = "What the model is good for"


@dataclass(frozen=True)
class TrendCell:
    """A number of one checkpoint, and what became of its limit there; empty without one."""

    number: compact.TableCell
    outcome: str


@dataclass(frozen=True)
class TrendRow:
    """A number at every checkpoint of a block; `limit` is empty where the policy sets none."""

    label: str
    limit: str
    cells: tuple[TrendCell, ...]


@dataclass(frozen=True)
class TrendGroup:
    """The rows of one attack, or of usefulness."""

    title: str
    rows: tuple[TrendRow, ...]


@dataclass(frozen=True)
class TrendHead:
    """A checkpoint at the head of its column."""

    x: str
    label: str
    verdict: Overall


@dataclass(frozen=True)
class TrendBlock:
    """As many checkpoints as fit beside each other; `title` says which, and is empty where there is one block."""

    title: str
    heads: tuple[TrendHead, ...]
    groups: tuple[TrendGroup, ...]


@dataclass(frozen=True)
class _Number:
    """A number that has a row; `attack` is empty for usefulness."""

    attack: str
    name: str
    report: AttackText
    limit: Limit | None = None

    def find(self, stop: Stop) -> Estimate | Unresolved | None:
        """What one checkpoint has of it."""
        return stop.measured(self.attack, self.name) if self.attack else stop.useful(self.name)


@dataclass(frozen=True)
class TrendTable:
    """Everything that the table is made of; arguments as of `panels_of`."""

    stops: Sequence[Stop]
    axis: str
    reports: Mapping[str, AttackText]
    limits: Sequence[Limit]
    useful: Sequence[str]

    def blocks(self) -> list[TrendBlock]:
        """Return the table, divided where there are more checkpoints than fit beside each other."""
        count = -(-len(self.stops) // MOST_COLUMNS)
        size = -(-len(self.stops) // count)
        starts = range(0, len(self.stops), size)
        return [self._block(start, self.stops[start : start + size], count > 1) for start in starts]

    def gaps(self) -> list[str]:
        """Why numbers are missing, each with its label."""
        gaps: dict[str, None] = {}
        for number in self._numbers():
            found = [item for stop in self.stops if isinstance(item := number.find(stop), Unresolved)]
            gaps |= {f"{number.report.label(number.name)}: {compact.gap(item)}": None for item in found}
        return list(gaps)

    def _block(self, start: int, stops: Sequence[Stop], divided: bool) -> TrendBlock:
        title = f"Checkpoints {start + 1} to {start + len(stops)} of {len(self.stops)}" if divided else ""
        if divided and len(stops) == 1:
            title = f"Checkpoint {start + 1} of {len(self.stops)}"
        heads = tuple(TrendHead(numbers.axis_value(stop.x), stop.label, stop.verdict.overall) for stop in stops)
        measured = [number for number in self._numbers() if self._is_measured(number)]
        titles = dict.fromkeys(number.attack for number in measured)
        groups = tuple(
            TrendGroup(
                (self.reports[attack].title or attack) if attack else USEFULNESS,
                tuple(_row(number, stops) for number in measured if number.attack == attack),
            )
            for attack in titles
        )
        return TrendBlock(title, heads, groups)

    def _is_measured(self, number: _Number) -> bool:
        return any(isinstance(number.find(stop), Estimate) for stop in self.stops)

    def _numbers(self) -> list[_Number]:
        """Usefulness; then by attack the limited numbers, and those that its report names for a trend."""
        found = [_Number("", name, UTILITY) for name in self.useful]
        for attack, report in self.reports.items():
            own = {limit.metric: limit for limit in self.limits if limit.attack == attack}
            names = dict.fromkeys([*own, *(column.metric for column in report.trend.shown)])
            found += [_Number(attack, name, report, own.get(name)) for name in names]
        return found


def _row(number: _Number, stops: Sequence[Stop]) -> TrendRow:
    limit = ""
    if number.limit is not None:
        form, upper = number.report.form(number.name), number.limit.max
        bound = upper if upper is not None else (number.limit.min or 0.0)
        limit = f"limit: at {'most' if upper is not None else 'least'} {numbers.limit_text(bound, form)}"
    return TrendRow(number.report.label(number.name), limit, tuple(_cell(number, stop) for stop in stops))


def _cell(number: _Number, stop: Stop) -> TrendCell:
    decision = None if number.limit is None else stop.decision(number.limit)
    outcome = "" if decision is None else {"passed": "met"}.get(decision.outcome, decision.outcome)
    return TrendCell(compact.cell(number.find(stop), number.report), outcome)
