"""Specification of an attack's part of the report: labels, figures, tables, trend, glossary; checked when it is loaded.

An attack names its `AttackReport` as `Attack.report`. Sentences with logic are Jinja macros in
`templates/attacks/<attack>.html`: `leak(n)` for page one, `more(n)`, `check(n)`, `method(result)`, and the text of each
part, by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from audit.attacks.threats import Threat

Form = Literal["share", "points", "ratio", "number"]
"""share: a proportion, in percent; points: a difference of such; ratio: 1 means no difference; number: as it is."""
Shown = Literal["value", "counted", "count first", "null", "drawn"]
"""value: with its interval; counted: and the whole number of units behind a share; count first: that number leads;
null: what the measurement is compared with; drawn: its interval as a drawing."""

CATEGORY_LABELS = {
    "person": "people",
    "organization": "organisations",
    "location": "addresses and places",
    "datetime": "dates and times",
    "amount": "amounts of money",
    "code": "numbers and codes",
    "contact": "contact details",
    "url": "web addresses",
    "demographic": "personal traits",
    "quantity": "quantities",
    "misc": "other values",
}
"""The manifest's field categories, as a reader who knows no schema would call them."""
NAMED_CATEGORIES = {**CATEGORY_LABELS, "person": "names of people", "organization": "names of organisations"}
"""The same where the value itself is meant."""
GENERIC_QUALIFIERS = {
    "member": "documents declared as trained on",
    "heldout": "documents declared as never seen",
    "attack": "with the model",
    "baseline": "without the model",
    "all": "all values",
}


def name_parts(name: str) -> list[str]:
    """Split a dotted name; a dot before a digit belongs to a number ("ipf.member.e0.001")."""
    return re.split(r"\.(?!\d)", name)


def sentence_case(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class MetricText:
    """Label and print form of all measurements that share the first part of their name.

    Attributes:
        label: in headings and tables.
        short: the label where there is little room; empty: `label`.
        meaning: one sentence on what it is.
        listed: False keeps it out of the table of every measurement, because a part shows it.
        counted: False for a share that is no count of units.
    """

    label: str
    meaning: str = ""
    form: Form = "number"
    short: str = ""
    listed: bool = True
    counted: bool = True


@dataclass(frozen=True)
class NamedMetric:
    """A measurement by its full name, with its label in a figure or table."""

    label: str
    metric: str


@dataclass(frozen=True)
class MetricPanel:
    """A diagram with one line or kind of marker for each series; `complement` draws 1 - value."""

    title: str
    series: tuple[NamedMetric, ...]
    complement: bool = False


@dataclass(frozen=True)
class CategoryFigure:
    """Dots with intervals by category of value: the category is the last part of each measurement's name."""

    panels: tuple[MetricPanel, ...]
    caption: str


@dataclass(frozen=True)
class HistogramFigure:
    """A histogram of the record; `labels` are of its series and their parts, `height` is in inches."""

    histogram: str
    caption: str
    labels: Mapping[str, str] = field(default_factory=dict)
    height: float | None = None


@dataclass(frozen=True)
class CurvePanel:
    """A curve of the record; axis and quantity are the record's own where they are None."""

    curve: str
    title: str = ""
    axis: str | None = None
    quantity: str | None = None
    form: Form = "number"
    x_scale: float = 1
    diagonal: bool = False


@dataclass(frozen=True)
class CurveFigure:
    """Curves of the record, a panel each; `series` has their labels in order, `height` of a row is in inches."""

    panels: tuple[CurvePanel, ...]
    caption: str
    series: Mapping[str, str] = field(default_factory=dict)
    height: float | None = None


@dataclass(frozen=True)
class OverlapRow:
    """Names of the measurements that compare what two models answer of the same questions."""

    label: str
    first: str
    second: str
    only_first: str
    only_second: str
    net: str


@dataclass(frozen=True)
class OverlapFigure:
    """Diagram of what two models answer; `labels` are of first, second, only_first, both, only_second, neither."""

    rows: tuple[OverlapRow, ...]
    labels: Mapping[str, str]
    caption: str


@dataclass(frozen=True)
class PagesFigure:
    """Attacked pages as boxes, with labels for words that stayed and words that were taken away."""

    kept: str
    removed: str
    caption: str


Figure = CategoryFigure | HistogramFigure | CurveFigure | OverlapFigure | PagesFigure


@dataclass(frozen=True)
class TableColumn:
    """A column of a compact table: a measurement, or a diagnostic.

    Attributes:
        metric: the measurement's name without the row's suffix; empty in a column of diagnostics.
        after: the last part of the name, behind the row's suffix.
        shown: what is printed of the measurement.
        zero: where the drawing has its line of no difference.
        n: whether the number of units stands here instead of beside the row's label.
        diagnostic: the diagnostic's name without the row's suffix, printed in `form`.
        p: the diagnostic that is printed as p under the number.
    """

    label: str
    metric: str = ""
    after: str = ""
    shown: Shown = "value"
    zero: float = 0.0
    n: bool = False
    diagnostic: str = ""
    form: Form = "number"
    p: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row of a compact table, left out where nothing of it was measured.

    Attributes:
        suffix: of the names of all columns; empty asks for the metric itself.
        instead: other measurements by the metric of a column; all other columns are empty then.
    """

    label: str
    suffix: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)

    def name(self, base: str, after: str = "") -> str | None:
        """Return the full name of what a column asks for in this row; None for nothing."""
        if self.instead or not base:
            return self.instead.get(base)
        return ".".join(part for part in (base, self.suffix, after) if part)


def labelled_rows(labels: Mapping[str, str], label: str = "{}", suffix: str = "{}") -> tuple[TableRow, ...]:
    """Return a row for each entry, its key as the suffix; `label` and `suffix` are formats around both."""
    return tuple(TableRow(sentence_case(label.format(text)), suffix.format(name)) for name, text in labels.items())


@dataclass(frozen=True)
class TableSpec:
    """A few kinds of numbers side by side."""

    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]


@dataclass(frozen=True)
class PartMark:
    """A label on a part whose diagnostic is under a threshold, and the reason."""

    diagnostic: str
    under: float
    label: str
    reason: str


@dataclass(frozen=True)
class ReportPart:
    """A part of an attack's section.

    Attributes:
        text: the macro of its sentences.
        template: holds that macro; empty: the attack's own.
        mark: shown where a diagnostic is low.
    """

    title: str
    text: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    mark: PartMark | None = None
    template: str = ""


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result table; a count is printed without decimals."""

    name: str
    label: str
    count: bool = False


@dataclass(frozen=True)
class ResultTableText:
    """Labels of a `ResultTable`; `row` is a format of a row's number, `text` the macro of the table's sentences."""

    name: str
    title: str
    heading: str
    columns: tuple[ResultColumn, ...]
    row: str = "{}"
    text: str = ""


@dataclass(frozen=True)
class TrendSpec:
    """Several checkpoints side by side.

    Attributes:
        summary: metrics that sum the attack up, by heading: the columns of a sweep's table on the terminal.
        columns: of the trend's table; empty: `summary`.
    """

    panels: tuple[MetricPanel, ...] = ()
    columns: tuple[NamedMetric, ...] = ()
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> tuple[NamedMetric, ...]:
        """The columns of the trend's table."""
        return self.columns or tuple(NamedMetric(heading, metric) for heading, metric in self.summary.items())


@dataclass(frozen=True)
class AttackReport:
    """All that the report says about an attack, but for sentences; the default is generic.

    Attributes:
        title: empty: the attack's name.
        question: that the attack answers, one sentence.
        metrics: by the first part of a measurement's name; empty: measurements are printed by name.
        qualifiers: labels of all later parts of names (but `CATEGORY_LABELS`).
        tables: labels of the record's result tables.
        measured: measurements beside those that a policy may name (`Attack.metrics`).
        diagnostics: those that columns, marks and sentences read: names, or first parts of several.
        unlisted: later parts of names that the table of every measurement leaves out, because a part shows them.
        labels: labels that sentences or other pages loop over, by group: `n.labels.<group>` in a macro.
        found: the share that says most plainly what the attack found; empty: the first of the trend's summary.
        threat: what the attacker has and knows; None: not stated.
        tells: measurements that speak for a leak by themselves where they lie beyond their null, the plainest first; by
            each, the one that says it plainly, often itself. Empty: the trend's summary.
    """

    title: str = ""
    question: str = "What an attacker who holds the model learns about the documents it was trained on."
    metrics: Mapping[str, MetricText] = field(default_factory=dict)
    qualifiers: Mapping[str, str] = field(default_factory=lambda: GENERIC_QUALIFIERS)
    measured: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    parts: tuple[ReportPart, ...] = ()
    tables: tuple[ResultTableText, ...] = ()
    trend: TrendSpec = TrendSpec()
    glossary: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    found: str = ""
    threat: Threat | None = None
    tells: Mapping[str, str] = field(default_factory=dict)

    def form(self, name: str) -> Form:
        """Return the form in which a measurement is printed."""
        return self._metric(name).form

    def listed(self, name: str) -> bool:
        """Return True when the table of every measurement has it."""
        return self._metric(name).listed and not {*self.unlisted} & {*name_parts(name)[1:]}

    def counted(self, name: str) -> bool:
        """Return True for a share that stands for so many of its units."""
        return self._metric(name).form == "share" and self._metric(name).counted

    def family(self, name: str) -> str:
        """Return the label of the first part of a name."""
        return self._metric(name).label

    def meaning(self, name: str) -> str:
        """Return one sentence on what a measurement is; empty when the attack gives none."""
        return self._metric(name).meaning

    def qualifier(self, name: str) -> str:
        """Return the label of the rest of a name: which documents, which attacker, which category."""
        known = {**CATEGORY_LABELS, **self.qualifiers}
        return ", ".join(known.get(part, part) for part in name_parts(name)[1:])

    def label(self, name: str) -> str:
        """Return the label of a whole name."""
        return ": ".join(part for part in (self.family(name), self.qualifier(name)) if part)

    def short(self, name: str) -> str:
        """Return the shortest label of a whole name."""
        head = self._metric(name).short or self.family(name)
        return ", ".join(part for part in (head, self.qualifier(name)) if part)

    def _metric(self, name: str) -> MetricText:
        head = name_parts(name)[0]
        return self.metrics.get(head, MetricText(head))
