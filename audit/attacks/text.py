"""Text of an attack: names and labels of its metrics, figures, tables, trend, glossary and threat model.

Each attack has a `text.toml` beside its code; `load` validates it, so that a misspelt name fails
there and not as "not measured" in a report. Parts that several attacks share are in `shared.toml`,
and a text names those that it takes. Sentences with logic are Jinja macros in
`templates/attacks/<attack>.html`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError, model_validator

from audit.attacks.figure_text import (
    Figures,
    Form,
    ReportPart,
    StrictModel,
    TableColumn,
    TableRow,
    TableSpec,
    TrendSpec,
)
from audit.measurements import Count

Access = Literal["weights", "scores", "answers", "copies"]
"""What an attacker has of a model, most first; copies: no model, redacted copies of its documents
alone."""
Protected = Literal["document", "provider"]
"""Whoever a metric is about."""


class Ask(StrictModel):
    """What an attack, or a part of it, asks of the model.

    Attributes:
        queries: names of query types (`audit.targets.interface`); none: the model is not asked.
        metrics: measurements of the part, by full name or first part; empty: all of the attack.
        tasks: tasks of the models that are asked so; empty: every task.
    """

    queries: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    @property
    def access(self) -> Access:
        """Return the access that answers to all of the queries need; of unknown ones the file."""
        levels = [QUERY_ACCESS.get(query, "weights") for query in self.queries]
        return min(levels, key=ACCESSES.index, default="copies")

    def is_about(self, metric: str, task: str) -> bool:
        """Test whether a measurement on a model of a task rests on these queries."""
        if not self.is_of_task(task):
            return False
        return not self.metrics or metric in self.metrics or name_parts(metric)[0] in self.metrics

    def is_of_task(self, task: str) -> bool:
        """Test whether models of a task are asked so."""
        return not self.tasks or task in self.tasks


class Threat(StrictModel):
    """Threat model, as the attack is run here.

    Attributes:
        knowledge: what the attacker knows beside the model, as the end of a sentence.
        in_short: the part of it that page one names; empty: it is not named there.
        asks: what the model is asked. Later entries override earlier ones; an attack without any
            counts as one that needs the model's file.
        least_for: description of the part that needs least, in a few words.
        effort: parameters that set the cost of one trial, by name, with labels that follow their
            number.
    """

    knowledge: str
    in_short: str = ""
    asks: tuple[Ask, ...] = ()
    least_for: str = ""
    effort: dict[str, str] = Field(default_factory=dict)

    @property
    def access(self) -> Access:
        """Return what all of the attack needs of the model."""
        levels = [asked.access for asked in self.asks if not asked.metrics]
        return min(levels, key=ACCESSES.index, default="weights")

    @property
    def least(self) -> Access | None:
        """Return what a weaker part of the attack can do with; None: no part can do with less."""
        levels = [asked.access for asked in self.asks]
        least = max(levels, key=ACCESSES.index, default=self.access)
        return None if least == self.access else least

    def access_of(self, metric: str, task: str) -> Access:
        """Return the access that a measurement on a model of a task needs."""
        access: Access = "weights"
        for asked in self.asks:
            if asked.is_about(metric, task):
                access = asked.access
        return access


class Provable(StrictModel):
    """The bound that a training's (epsilon, delta) puts on a metric, see `audit.stats.dp_bounds`.

    Attributes:
        kind: the bound; an advantage is a rate among those that are in minus that among those that
            are out.
        of: whoever is in or out.
        fpr: the largest rate among those that are out.
    """

    kind: Literal["tpr", "advantage", "balanced accuracy", "auc"]
    of: Protected
    fpr: float = 1.0


Kind = Literal["share", "points", "auc", "score", "ratio", "bits", "count", "number"]
"""share: a proportion; points: a difference of two; auc: an area, 0.5 is chance; score: 0 to 1; ratio: 1 means no
difference; count: units found, of which a policy may limit the estimate alone; bits and number: as
they are."""
SHARED: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("shared.toml").read_text(encoding="utf-8")
)
"""Parts of texts by name, and labels of categories."""
SENTENCES: Mapping[str, str] = SHARED["sentences"]
"""Why something is undecided or a leak, as formats of the numbers that show it."""
CATEGORY_LABELS: Mapping[str, str] = SHARED["categories"]
"""The manifest's field categories, as a reader who knows no schema would call them."""
ACCESS_LABELS: Mapping[Access, str] = SHARED["access"]
ACCESSES: tuple[Access, ...] = get_args(Access)
QUERY_ACCESS: Mapping[str, Access] = SHARED["queries"]
"""What an attacker needs for an answer to a query, by the name of its type."""
_UNBOUNDED = frozenset({"ratio", "bits", "count", "number"})


def name_parts(name: str) -> list[str]:
    """Split a dotted name; a dot before a digit belongs to a number ("ipf.member.e0.001")."""
    return re.split(r"\.(?!\d)", name)


def sentence_case(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


class Metric(StrictModel):
    """All measurements that share the first part of their name.

    Attributes:
        label: label in headings and tables.
        short: the label where there is little room; empty: `label`.
        meaning: one sentence on what it is.
        names: full names that a policy may limit.
        measured: full names beside those, which no policy limits.
        cap: the smallest maximum over data sets and budgets, where it is under that of the kind:
            there are scans in which nothing exceeds a limit there or beyond.
        about_text: whether it may be about what the documents give away, whatever the model.
        counted: False for a share that is no count of units.
    """

    label: str
    meaning: str = ""
    kind: Kind = "number"
    short: str = ""
    names: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    cap: float | None = None
    about_text: bool = False
    counted: bool = True

    @property
    def form(self) -> Form:
        """Return the form in which the metric's values are printed."""
        return self.kind if self.kind in ("share", "points", "ratio", "count") else "number"

    @property
    def upper(self) -> float | None:
        """Return the largest value of the metric: 1 for shares and areas; None for any number."""
        return None if self.kind in _UNBOUNDED else 1.0


class Weaker(StrictModel):
    """Parameters that weaken an attacker, by how they differ from those of the smallest budget.

    Attributes:
        below: a smaller number, or names that are left out.
        above: a larger number.
        changed: any other value.
    """

    below: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def is_weaker(self, name: str, value: Any, usual: Any) -> bool:
        """Test whether the value of a parameter makes a weaker attacker than the usual one."""
        if name in self.below:
            return bool(value < usual)
        if name in self.above:
            return bool(value > usual)
        return bool(value != usual)


class AttackText(StrictModel):
    """All that policies, verdicts and reports know of an attack without its code.

    The default is generic.

    Attributes:
        name: name as policies write it.
        title: empty: the attack's name.
        question: question that the attack answers, one sentence.
        short_question: what the attacker tries, as an order of at most 12 words for readers who
            know no model.
        procedure: what the attack does, in a few sentences for readers who know no model.
        consequence: one sentence on what a leak came to, with places for counts on training and
            unseen documents.
        consequence_of: the measurements of these counts, on training documents first; for planted
            secrets and control.
        headline: one sentence for page one on a leak over a limit, with places for who attacks and
            for counts on training documents; empty where the attack gives no values back.
        of_pairs: one sentence on an area, with a place for the share of pairs that it is.
        difference: the metric that is the difference of these counts as shares, less what no
            memory explains; empty where none is.
        power: the metric that measures how strong the attacker was; None when the attack has none.
        found: the share that says most plainly what the attack found; empty: the first of the
            trend's summary.
        tells: measurements that speak for a leak by themselves where they lie beyond their null,
            the plainest first; by each, the one that says it plainly, often itself. Empty: the
            trend's summary.
        metrics: metrics by the first part of a measurement's name; empty: measurements are printed
            by name.
        qualifiers: labels of all later parts of names (but `CATEGORY_LABELS`), by group.
        labels: other labels that sentences or other pages loop over, by group: `n.labels.<group>`
            in a macro.
        diagnostics: diagnostics that columns, marks and sentences read: names, or first parts of
            several.
        provable: metrics that a guarantee of the training bounds, by name or by its first part; no
            other is bounded.
        threat: what the attacker has and knows; None: not stated.
        counts: what each count counts, by its name.
        add: what an owner can add where the data set gives nothing to try.
        budgets: parameters that differ from the usual ones, by budget.
        weaker: parameters that weaken the attacker, so that no limit is passed.
    """

    name: str = ""
    title: str = ""
    question: str = "Does an attacker with the model learn anything about its training documents?"
    short_question: str = Field("", pattern=r"^(\S+( |$)){0,12}$")
    procedure: str = ""
    consequence: str = Field("", pattern=r"^([^{}]|\{(n|of)_(member|heldout)\})*$")
    consequence_of: tuple[str, ...] = ()
    headline: str = Field("", pattern=r"^([^{}]|\{((n|of)_member|who)\})*$")
    of_pairs: str = Field("", pattern=r"^([^{}]|\{share\})*$")
    difference: str = ""
    power: str | None = None
    found: str = ""
    tells: dict[str, str] = Field(default_factory=dict)
    metrics: dict[str, Metric] = Field(default_factory=dict)
    qualifiers: dict[str, dict[str, str]] = Field(
        default_factory=lambda: {"generic": SHARED["generic"]}
    )
    labels: dict[str, dict[str, str]] = Field(default_factory=dict)
    diagnostics: tuple[str, ...] = ()
    figures: Figures = ()
    parts: tuple[ReportPart, ...] = ()
    trend: TrendSpec = TrendSpec()
    glossary: dict[str, str] = Field(default_factory=dict)
    sources: tuple[str, ...] = ()
    provable: dict[str, Provable] = Field(default_factory=dict)
    threat: Threat | None = None
    counts: dict[str, str] = Field(default_factory=dict)
    add: str = "add documents that the attack can try"
    budgets: dict[str, dict[str, int | float | tuple[str, ...]]] = Field(default_factory=dict)
    weaker: Weaker = Weaker()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """List the metrics that a policy may limit, by full name."""
        return tuple(chain.from_iterable(metric.names for metric in self.metrics.values()))

    @cached_property
    def known(self) -> frozenset[str]:
        """Collect every measurement by full name, limited or not."""
        names: set[str] = set()
        for metric in self.metrics.values():
            names.update(metric.names, metric.measured)
        return frozenset(names)

    @cached_property
    def all_labels(self) -> dict[str, dict[str, str]]:
        """Return every group of labels: those of names, and others."""
        return {**self.qualifiers, **self.labels}

    @cached_property
    def _qualifiers(self) -> dict[str, str]:
        """Return the labels of all qualifiers of names, from every group."""
        labels: dict[str, str] = {}
        for group in (CATEGORY_LABELS, *self.qualifiers.values()):
            labels |= group
        return labels

    @property
    def needs_model(self) -> bool:
        """Test whether all of the attack needs a model.

        False where redacted copies alone give something away.
        """
        return self.threat is None or "copies" not in (self.threat.access, self.threat.least)

    def count(self, counts: Mapping[str, int]) -> tuple[Count, ...]:
        """Convert counted numbers, by name, to the counts of a record."""
        return tuple(Count(name, n, self.counts[name]) for name, n in counts.items())

    def metric(self, name: str) -> Metric:
        """Return the label and form of a measurement.

        Its name as the label where the text does not know it.
        """
        head = name_parts(name)[0]
        return self.metrics.get(head) or Metric(label=head)

    def cap(self, name: str) -> float | None:
        """Return the value that a limit on a metric must stay under; None: any number."""
        metric = self.metric(name)
        return metric.upper if metric.cap is None else metric.cap

    def tallies(self) -> tuple[str, ...]:
        """List the metrics that count what was found."""
        return tuple(
            head
            for head, metric in self.metrics.items()
            if metric.kind == "count" and head in metric.names
        )

    def leaks(self) -> tuple[str, ...]:
        """List the metrics that grow with the leak, less being better.

        Areas on either side of chance.

        Those that speak for a leak by themselves, and those that sum the attack up.
        """
        return tuple(dict.fromkeys([*self.tells, *self.trend.summary.values()]))

    def qualifier(self, name: str) -> str:
        """Return the label of the rest of a name.

        Which documents, which attacker, which category.
        """
        return ", ".join(self._qualifiers.get(key, key) for key in name_parts(name)[1:])

    def label(self, name: str) -> str:
        """Return the label of a whole name."""
        return ": ".join(
            words for words in (self.metric(name).label, self.qualifier(name)) if words
        )

    def short(self, name: str) -> str:
        """Return the shortest label of a whole name."""
        metric = self.metric(name)
        return ", ".join(
            words for words in (metric.short or metric.label, self.qualifier(name)) if words
        )

    @model_validator(mode="after")
    def _check(self) -> AttackText:
        """Refuse a text with names that are not measured, or measurements without a label."""
        if problems := dict.fromkeys(self._problems()):
            raise ValueError("; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        """List names that are not measured, and measurements without a label."""
        for head, metric in self.metrics.items():
            for name in (*metric.names, *metric.measured):
                if name_parts(name)[0] != head:
                    yield f"{name!r} does not begin with {head!r}"
                yield from self._unlabelled(name)
        yield from (
            f"{place}: no measurement {name!r}"
            for place, name in self._named()
            if name not in self.known
        )
        for section in self.parts:
            for table in section.tables:
                yield from self._in_table(table)

    def _unlabelled(self, name: str) -> Iterator[str]:
        """Yield what has no label in a dotted name: its metric, and each qualifier."""
        head, *qualifiers = name_parts(name)
        if head not in self.metrics:
            yield f"no label for the metric {head!r}"
        yield from (
            f"no label for {qualifier!r} of {name!r}"
            for qualifier in qualifiers
            if qualifier not in self._qualifiers
        )

    def _named(self) -> Iterator[tuple[str, str]]:
        """Yield (place, name) of each measurement that is named in full outside tables.

        With it comes the place that names it.
        """
        if self.power:
            yield "power", self.power
        if self.found:
            yield "found", self.found
        for name in self.consequence_of:
            yield "consequence", name
        for name in chain.from_iterable(self.tells.items()):
            yield "tells", name
        for column in self.trend.columns:
            yield "trend", column.metric
        for name in self.trend.summary.values():
            yield "trend", name
        for panel in self.trend.panels:
            for series in panel.series:
                yield "trend", series.metric

    def _in_table(self, table: TableSpec) -> Iterator[str]:
        """Yield the misspelt rows and columns of a table.

        A cell may stay empty, as not every measurement has every row.
        """
        for row in table.rows:
            yield from self._in_row(row, table.columns)
        for column in table.columns:
            names = {row.name(column.metric, column.after) for row in table.rows}
            if not names & self.known:
                yield f"table: no measurement in the column of {column.metric!r}"

    def _in_row(self, row: TableRow, columns: Sequence[TableColumn]) -> Iterator[str]:
        """Yield the misspelt names in one row of a table."""
        names = [row.name(column.metric, column.after) for column in columns]
        for name in filter(None, names):
            for problem in self._unlabelled(name):
                yield f"table: {problem}"
        if not {*names} & self.known:
            yield f"table: no measurement in the row {row.label!r}"
        bases = {column.metric for column in columns}
        for base in row.instead:
            if base not in bases:
                yield f"table: no column of {base!r}"


@cache
def load(path: Path) -> AttackText:
    """Read and validate the text of an attack.

    Raises:
        ValueError: a name is misspelt or has no label, with every problem.
    """
    return parse(tomllib.loads(path.read_text(encoding="utf-8")))


def parse(raw: Mapping[str, Any]) -> AttackText:
    """Validate a text as its file holds it.

    Raises:
        ValueError: see `load`.
    """
    text = {key: value for key, value in raw.items() if key != "shared"}
    for name in raw.get("shared", ()):
        text = _with_shared_part(SHARED[name], text)
    groups = {**text.get("qualifiers", {}), **text.get("labels", {})}
    sets = {
        **{name: tuple(group) for name, group in groups.items()},
        "split": ("member", "heldout"),
    }
    metrics = {}
    for head, metric in text.get("metrics", {}).items():
        names = _names(metric.get("names", [head]), sets)
        measured = _names(metric.get("measured", []), sets)
        metrics[head] = {**metric, "names": names, "measured": measured}
    text["metrics"] = metrics
    text["parts"] = [_expand_tables(section, groups) for section in text.get("parts", ())]
    try:
        return AttackText.model_validate(text)
    except ValidationError as error:
        problems = "; ".join(map(_describe_problem, error.errors()))
        raise ValueError(f"the text of {text.get('name')}: {problems}") from error


def _expand_tables(
    section: Mapping[str, Any], groups: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return a part of a report with the rows of its tables expanded, see `_rows`."""
    tables = [
        {**table, "rows": list(_rows(table["rows"], groups))} for table in section.get("tables", ())
    ]
    return {**section, "tables": tables}


def _describe_problem(problem: Mapping[str, Any]) -> str:
    """Describe what pydantic found wrong, after the place of it."""
    place = ".".join(map(str, problem["loc"]))
    return f"{place}: {problem['msg']}".removeprefix(": ")


def _with_shared_part(part: Mapping[str, Any], text: Mapping[str, Any]) -> dict[str, Any]:
    """Return a text with a shared part added: its tables in front, its lists behind."""
    joined = {**part, **text}
    for key in part.keys() & text.keys():
        first = part[key]
        value = text[key]
        if isinstance(first, dict):
            joined[key] = _with_shared_part(first, value)
        elif isinstance(first, list):
            joined[key] = [*value, *first]
    return joined


def _names(patterns: Sequence[str], sets: Mapping[str, Sequence[str]]) -> list[str]:
    """Expand patterns such as "chosen.{split}" over the keys of groups of labels."""
    expanded = []
    for pattern in patterns:
        keys = re.findall(r"{(\w+)}", pattern)
        chosen = product(*(sets[key] for key in keys))
        expanded += [pattern.format(**dict(zip(keys, values, strict=True))) for values in chosen]
    return expanded


def _rows(
    rows: Sequence[Mapping[str, Any]], groups: Mapping[str, Mapping[str, str]]
) -> Iterator[Mapping[str, Any]]:
    """Expand table rows that stand for a group of labels into a row for each label.

    `label` and `suffix` are formats around text and key of each entry.
    """
    for row in rows:
        if "each" not in row:
            yield row
            continue
        label = row.get("label", "{}")
        suffix = row.get("suffix", "{}")
        for key, text in groups[row["each"]].items():
            yield {"label": sentence_case(label.format(text)), "suffix": suffix.format(key)}
