"""What an attack is: trials, an attempt at each, and a measure of all outcomes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, cast

from numpy.random import Generator as Rng

from audit.case import Case
from audit.corpus.documents import Corpus
from audit.engine.interface import Attempt, Json, Progress, Request, Trial
from audit.record import Count, Coverage, Curve, Diagnostic, DrawnPage, Exposed, Histogram, Measurement
from audit.targets.interface import Query, Target

A = TypeVar("A")


@dataclass(frozen=True)
class Findings:
    """What an attack measured; the fields are those of `audit.record.Completed`.

    `weaknesses` say what the attacker lacked, in words: they join the attack's `ablations`.
    """

    measurements: tuple[Measurement, ...]
    counts: tuple[Count, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    curves: tuple[Curve, ...] = ()
    categories: tuple[str, ...] = ()
    pages: tuple[DrawnPage, ...] = ()
    confounded: str | None = None
    weaknesses: tuple[str, ...] = ()
    exposed: tuple[Exposed, ...] = ()
    methods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coverage: tuple[Coverage, ...] = ()
    about_text: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()


Kind = Literal["difference", "paired difference", "auc", "balanced accuracy", "low advantage"]
"""What a metric is: a difference between two shares, one between what two models do on the same members (`others` is
0), a chance to tell two units apart, a mean of two shares, or how many more are found than taken wrongly, at a low
false-positive rate."""


@dataclass(frozen=True)
class Units:
    """What a corpus holds for one metric: what `docaudit plan` computes its resolution from.

    Attributes:
        metric: the metric's name.
        kind: what it is.
        unit: what is independent of each other, plural ("documents", "providers").
        members: units that training saw.
        others: units that it never saw, which the members are compared with.
        methods: measurements that a limit on it is held against (`Findings.methods`), at most: all must be within it.
        most: the largest that the metric can be on this data set; None: what its kind allows.
        about_text: whether it says what the documents give away, whatever the model; no budget samples for these.
    """

    metric: str
    kind: Kind
    unit: str
    members: int
    others: int
    _: KW_ONLY
    methods: int = 1
    most: float | None = None
    about_text: bool = False


class Attack(Protocol):
    """A frozen dataclass whose fields are the attack's parameters; they go into the record.

    Attributes:
        name: as policies write it.
        needs: the references it cannot do without ("auxiliary", ...); the runner fills them before any trial.
        uses: the references it takes when somebody gave them.
        metrics: the metrics a policy may ask for.
        power: the metric that says how strong the attacker was; None when the attack has none.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]]
    metrics: ClassVar[tuple[str, ...]]
    power: ClassVar[str | None]

    @property
    def ablations(self) -> tuple[str, ...]:
        """How these parameters weaken the attacker on purpose, in words; no limit is passed with any."""
        ...

    @classmethod
    def preset(cls, budget: str) -> Self:
        """The attack with the parameters of a budget ("quick", "standard", "full")."""
        ...

    def lacks(self, corpus: Corpus) -> str | None:
        """What this data set lacks to feed the attack, whatever the model; None when nothing."""
        ...

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """What this data set holds for the metrics that policies ask for, before any model runs: at most so much."""
        ...

    def inapplicable(self, case: Case) -> str | None:
        """Why this kind of target cannot be attacked this way; None when it can."""
        ...

    def trials(self, case: Case) -> list[Trial]:
        """All that can be tried, in a fixed order."""
        ...

    def no_trials(self, case: Case) -> tuple[str, str]:
        """Why this corpus gives nothing to try, and what the owner can add."""
        ...

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """One trial, as if it ran alone; its outcome depends on the trial and `rng` only."""
        ...

    def preflight(self, case: Case, rounded: Target, trial: Trial, rng: Rng) -> Attempt:
        """One trial with the target and with `rounded`, the same in a coarser number format, side by side.

        Its outcome is {"alike": decisions that both take alike, "steps": decisions}.
        """
        ...

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], rng: Rng, progress: Progress
    ) -> Findings:
        """Reduce all outcomes, in trial order."""
        ...

    def evidence(self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]) -> Iterator[dict[str, Any]]:
        """What was recovered, in words, one object a trial. For the owner's `evidence/` folder only."""
        ...


def ask(target: Target, query: Query[A]) -> Generator[Request, Any, A]:
    """Put a question within an attempt and wait for the answer; used with `yield from`."""
    (answer,) = yield Request(target, (query,))
    return cast("A", answer)


def ask_all(target: Target, queries: Sequence[Query[A]]) -> Generator[Request, Any, list[A]]:
    """Put several questions of one type and wait for the answers, in order; used with `yield from`."""
    if not queries:
        return []
    answers = yield Request(target, tuple(queries))
    return cast("list[A]", answers)
