"""Measurements: numbers with what one needs to trust them, and what is drawn and counted beside them.

No field holds text of documents or of models.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)
ALPHAS = (0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001, 0.0005, 0.0002, 0.0001, 0.00005)
"""One-sided levels at which every estimate carries its bounds; `policy` reads p-values from them, conservatively.

Holm's first step asks 30 tests for p = 0.001 and 31 for less. The levels under it lie close, so
that a test more costs little power (`benchmarks/calibration/ladder.py`). Records of older
versions hold fewer levels, and are read all the same.
"""


PASS_ALPHA = 0.05
"""One-sided level of the bounds that must lie within a limit for a pass.

Of models at a limit, at most 5 % pass it. A pass needs all limits met, so that no limit's level is
shared among them (Berger 1982).
"""
CAUTIOUS_PASS_ALPHA = 0.025
"""One-sided level for a pass of numbers whose bounds are known to be somewhat short."""
CHECKS_ALPHA = 0.05
"""Family-wise false-positive rate of all checks of a scan."""


@dataclass(frozen=True, config=STRICT)
class Bound:
    """One-sided confidence bounds at level 1 - alpha.

    The truth is above `lower` and, on its own, below `upper`.
    """

    alpha: float
    lower: float
    upper: float


@dataclass(frozen=True, config=STRICT)
class Estimate:
    """A number with what one needs to trust it.

    Attributes:
        name: the metric, with dotted qualifiers, e.g. `excess_pr.unique` or
            `pr.member.attack.amount`.
        low, high: two-sided interval at `level`.
        n: number of `unit` that the value averages; of a count, number of `total` that were tried.
        clusters: number of independent units (documents or providers) these come from.
        null: what someone without the model reaches, or what no leak would give; None where the
            number has none.
        null_kind: source of `null`.
        method: method of the interval, in words.
        bounds: one-sided bounds at `ALPHAS`, for tests against a limit. A level that the data
            cannot give is left out.
        total: number of `unit`, for a count, that the documents of training hold that could be
            tried: what it counts, and what it is scaled to. None: it is no count, or one of an
            older version, of what was tried.
        open_above: whether nothing bounds the number from above: it is at least `low`, and `high`
            and upper bounds are of what the test could see.
        pass_alpha: the one-sided level of the bounds that must lie within a limit for a pass. None:
            of an older version, whose two-sided interval must.
    """

    name: str
    value: float
    low: float
    high: float
    n: Annotated[int, Field(ge=1)]
    unit: str
    clusters: Annotated[int, Field(ge=1)]
    method: str
    null: float | None = None
    null_kind: Literal["chance", "public model", "held-out", "blind"] | None = None
    level: float = 0.95
    bounds: tuple[Bound, ...] = ()
    total: Annotated[int, Field(ge=1)] | None = None
    open_above: bool = False
    pass_alpha: float | None = None
    kind: Literal["estimate"] = "estimate"

    @property
    def is_area(self) -> bool:
        """Test whether 0.5 is chance (AUC, accuracy).

        A number far under it then shows as much as one far above.
        """
        return self.null == 0.5 and self.null_kind == "chance"

    @property
    def is_below_chance(self) -> bool:
        """Test whether it is an area whose whole interval lies under chance."""
        return self.is_area and self.high < 0.5

    @property
    def pass_bound(self) -> Bound:
        """Return the bounds that must lie within a limit for a pass, at the level `pass_alpha`."""
        for bound in self.bounds:
            if bound.alpha == self.pass_alpha:
                return bound
        return Bound((1 - self.level) / 2, self.low, self.high)

    def p_above(self, threshold: float) -> float:
        """Return a one-sided p-value against "at most `threshold`".

        It is the smallest recorded level, 1 without any.
        """
        return min((bound.alpha for bound in self.bounds if bound.lower > threshold), default=1.0)

    def p_below(self, threshold: float) -> float:
        """Return a one-sided p-value against "at least `threshold`".

        It is the smallest recorded level, 1 without any.
        """
        return min((bound.alpha for bound in self.bounds if bound.upper < threshold), default=1.0)

    def p_outside(self, low: float, high: float) -> float:
        """Return a two-sided p-value against "between `low` and `high`"."""
        return min(1.0, 2 * min(self.p_above(high), self.p_below(low)))


Role = Literal["baselines", "splits"]
"""What a reference is for: models trained alike without the documents, or each on half of them."""


@dataclass(frozen=True, config=STRICT)
class Unresolved:
    """A number that this data cannot give, why, and how many units would be needed (None: not known).

    Attributes:
        needed: set where more units of the same kind would give the number, and nowhere else.
        inapplicable: whether this kind of target cannot be asked for it, so that no data set would
            help.
        lacks: the role of the reference without which no number of units gives it.
    """

    name: str
    reason: str
    n: int
    needed: int | None = None
    inapplicable: bool = False
    lacks: Role | None = None
    kind: Literal["unresolved"] = "unresolved"


Measurement = Annotated[Estimate | Unresolved, Field(discriminator="kind")]


def format_value(item: Measurement | None) -> str:
    """Write a measured number; a dash where there is none."""
    if not isinstance(item, Estimate):
        return "-"
    return format_number(item.value)


def format_change(item: Estimate | None) -> str:
    """Write a change with its 95 % interval; a dash where there is none."""
    if item is None:
        return "-"
    sign = ""
    if item.value > 0:
        sign = "+"
    ends = f"[{format_number(item.low)}, {format_number(item.high)}]"
    return f"{sign}{format_number(item.value)} {ends}"


def format_number(value: float) -> str:
    """Write a number in four digits or three decimals, whichever is shorter."""
    size = abs(value)
    if size < 9.9995:
        return f"{value:.3f}"
    if size < 99.995:
        return f"{value:.2f}"
    return f"{value:.1f}"


WAY_OF_WRITING = "way of writing"
"""Name of the check of pages written otherwise than in training, for which a model can fail at its
task."""
LABEL_ORDER = "label order"
"""Name of the check of names of labels that stand in another order than the model's outputs."""
REFUSALS = "refusals"
"""Name of the check of a model that refuses to answer."""
KNOWS_A_SIDE = frozenset(
    {
        "baseline knows one side",
        "public model knows one side",
        "reference knows providers",
        "reference membership",
        "reference: auxiliary",
        "reference: baselines",
        "reference: pretrained",
        "reference: splits",
    }
)
"""Names of the checks of references that know audited documents."""
UNLIKE_SIDES = frozenset({"held-out documents", "held-out gain"})
"""Names of the checks of unseen documents that look trained on."""
READS_ALIKE = "the reference reads like the model"
"""Name of the condition that a reference reads unseen documents as the model does."""


@dataclass(frozen=True, config=STRICT)
class Check:
    """A test that can only leave limits undecided.

    All checks of a scan share 5 % (`audit.policy.checks`).

    A check is reported whether or not it sees anything, so that Holm's rule counts all checks that
    were made.

    Attributes:
        name: unique within an attack.
        p_value: one-sided, for a model that leaks nothing and data that are as declared.
        cause: "confounded": something else can explain the numbers, and no violation is confirmed;
            "alarm": something beside the limited numbers speaks for a leak, and no limit is passed;
            "wrong side": a number lies where neither a leak nor chance puts it, and its limit is
            not passed.
        reason: one sentence, printed when the check fires.
        remedy: what would settle it.
        metrics: the limited metrics that it bears on; empty: all of its attack.
        attacks: attacks that a check of the whole scan bears on; empty: all.
        spares: measurements, as attack.name, that what it finds cannot explain, though it is
            "confounded": they may confirm a violation.
        weight: its share of the 5 %, against the others' (Holm's weighted rule).
        p_adjusted: after Holm's rule over all checks of the scan; None before that.
    """

    name: str
    p_value: float
    cause: Literal["confounded", "alarm", "wrong side"]
    reason: str
    remedy: str
    metrics: tuple[str, ...] = ()
    weight: float = 1.0
    p_adjusted: float | None = None
    attacks: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()

    @property
    def fires(self) -> bool:
        """Tell whether the settled check is significant among all checks of its scan."""
        if self.p_adjusted is None:
            return False
        return self.p_adjusted <= CHECKS_ALPHA

    def bears_on(self, metric: str) -> bool:
        """Test whether the check concerns a limit on this metric."""
        return not self.metrics or metric in self.metrics

    def concerns(self, attack: str) -> bool:
        """Test whether a check of the whole scan concerns this attack."""
        return not self.attacks or attack in self.attacks


@dataclass(frozen=True, config=STRICT)
class Condition:
    """What a pass rests on, and whether this scan shows it.

    A check needs proof that something is wrong, and shares 5 % with all others. A condition needs
    proof that something is right: without that nothing passes, and a violation stands.

    Attributes:
        name: unique in a record.
        state: "met": measured, and shown; "unmet": measured, and not shown; "unmeasured": not
            measured.
        attacks: their limits pass only if it is met, or all of `substitutes` are; empty: it only
            stands in for others.
        substitutes: names of conditions that together stand in for it; empty: none do.
        reason: one sentence, printed where it keeps a limit from being passed.
        remedy: what would show it.
    """

    name: str
    state: Literal["met", "unmet", "unmeasured"]
    attacks: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, config=STRICT)
class Control:
    """A bound on what explains a number without the target's memory, so that a leak can be confirmed over it.

    Attributes:
        kind: "reference": the same measurement by a model that saw neither side; "blind": what
            somebody without any model can make of the documents.
        measurements: names of the measurements that it bears on.
        bounds: one-sided bounds on the difference between the two sides; 0 where they are alike.
        condition: the name of the `Condition` without which it shows nothing: a reference that does
            its task otherwise than the target makes less, or more, of how documents differ. Empty:
            it needs none.
    """

    kind: Literal["reference", "blind"]
    measurements: tuple[str, ...]
    bounds: tuple[Bound, ...]
    condition: str = ""

    def p_explains(self, measured: Estimate, limit: float, *, mirrored: bool = False) -> float:
        """Return a one-sided p-value against "the control explains what lies over the limit".

        The leak must stay over the limit less the reference's difference, of either sign: an
        equivalence test with the excess over the limit as its margin. Over the blind check's
        difference it must lie. Both bounds are one-sided at the same level, and Bonferroni's rule
        adds these levels.

        Args:
            measured: one of `measurements`.
            limit: the most that the policy allows.
            mirrored: an area under chance is held against the limit.
        """
        chance = 0.5 if measured.is_area else 0.0
        by_alpha = {bound.alpha: bound for bound in self.bounds}
        leaks = {
            bound.alpha: chance - bound.upper if mirrored else bound.lower - chance
            for bound in measured.bounds
        }
        levels = [
            a
            for a, leak in leaks.items()
            if a in by_alpha and self._clears(leak, by_alpha[a], limit - chance)
        ]
        return min(1.0, 2 * min(levels, default=1.0))

    def _clears(self, leak: float, own: Bound, most: float) -> bool:
        """Test whether a leak lies further over the control's own bound than it can explain."""
        return (
            leak - max(own.upper, -own.lower) > most
            if self.kind == "reference"
            else leak > max(own.upper, most)
        )


@dataclass(frozen=True, config=STRICT)
class Histogram:
    """Counts of a quantity in bins; `edges` has one entry more than each series in `counts`."""

    name: str
    quantity: str
    edges: tuple[float, ...]
    counts: dict[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        """Refuse edges that are not one more than the counts of each series."""
        if any(len(series) + 1 != len(self.edges) for series in self.counts.values()):
            raise ValueError("edges must have one entry more than each series of counts")


@dataclass(frozen=True, config=STRICT)
class CurvePoint:
    """A point of a curve with its own interval at 95 %; `n` units make up its value."""

    x: float
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, config=STRICT)
class Curve:
    """A quantity along an axis, for a figure: `axis` and `quantity` in words, one line for each entry of `series`."""

    name: str
    axis: str
    quantity: str
    series: dict[str, tuple[CurvePoint, ...]]


@dataclass(frozen=True, config=STRICT)
class Count:
    """A plain count of what was done or left out (not a measurement): what it counts, in words."""

    name: str
    value: int
    meaning: str


@dataclass(frozen=True, config=STRICT)
class Diagnostic:
    """A property of this run's own computation, not an estimate of anything in the world.

    Its meaning in words.
    """

    name: str
    value: float
    meaning: str


@dataclass(frozen=True, config=STRICT)
class Coverage:
    """How much of what could leak an attack tried, of documents of training.

    Attributes:
        category: a field category, or "all".
        attacked: fields, values, questions or documents of training that this scan attacked.
        total: number of them in the documents of training, attacked or not.
        unit: what is counted, plural.
        unique: those of the attacked whose value occurs in no other document; None: the attack does
            not count them.
    """

    category: str
    attacked: int
    total: int
    unit: str = "fields"
    unique: int | None = None

    def behind(self, metric: str) -> int:
        """Count the attacked values behind a metric.

        For a metric on unique values, only those that are unique.
        """
        return (
            self.unique if self.unique is not None and metric.endswith(".unique") else self.attacked
        )


By = Literal["kind", "copies", "length", "position", "documents"]
"""What values are divided by: their kind, the documents that hold them, their length and place; or
documents by how many of their values came back."""


@dataclass(frozen=True, config=STRICT)
class Share:
    """What came back of all that was tried.

    Attributes:
        hits: number of what came back; a value chosen among equals counts as a part.
        tried: number of what was tried.
    """

    hits: Annotated[float, Field(ge=0)]
    tried: Annotated[int, Field(ge=0)]


@dataclass(frozen=True, config=STRICT)
class Group:
    """A group of values, or of documents, with its share on both sides.

    Attributes:
        name: a category of the manifest, or the group's range of numbers; never text of documents.
        member: of documents of training.
        heldout: of unseen documents.
    """

    name: str
    member: Share
    heldout: Share


@dataclass(frozen=True, config=STRICT)
class Breakdown:
    """Where an attack found something: the shares of groups, by one method.

    Attributes:
        by: what the groups are of.
        method: the end of the names of the method's measurements, such as ".lowest_loss"; empty for
            the first one.
        unit: what is counted, plural.
        groups: in a fixed order.
    """

    by: By
    method: str
    unit: str
    groups: tuple[Group, ...]


@dataclass(frozen=True, config=STRICT)
class PeopleCount:
    """The people that an attack reached, by one method.

    Attributes:
        method: as of `Breakdown`.
        source: "declared": the data set says whose a document or a value is; "names": distinct
            names stand for people.
        member: the share of people of training documents of whom anything came back, or who were
            recognised.
        heldout: the same of people whom unseen documents alone name.
    """

    method: str
    source: Literal["declared", "names"]
    member: Measurement
    heldout: Measurement
