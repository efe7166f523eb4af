"""The attack interface: trials, an attempt at each, a measure of all outcomes.

It also names the sides that attacks compare, and the references that they take.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

from numpy.random import Generator as Rng

from audit.attacks import text_of
from audit.attacks.text import SHARED
from audit.cards import SERVED
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Split, TaskKind
from audit.corpus.near_copies import Copies
from audit.engine.interface import Attempt, Json, Progress, Request, Trial
from audit.record import Reason, Result
from audit.stats.paired import UnitScores
from audit.stats.power import MetricKind
from audit.targets.interface import (
    NONE_AUDITED,
    AnswerLoss,
    MaskedLoss,
    NoModel,
    Query,
    Target,
    TrainingLoss,
)

AUDITED: tuple[Split, Split] = ("member", "heldout")
BARRIERS = ("model", "budget")
"""Kinds of reasons for which no trial of an attack is run on a model."""
LABELS: Mapping[Split, str] = {"member": "member", "heldout": "held-out"}
"""The splits as labels name them."""
WORDS: Mapping[Split, str] = {"member": "training", "heldout": "unseen"}
"""The splits as sentences name them."""


def missing_split(documents: Iterable[Document]) -> str | None:
    """Name the first of `AUDITED` that none of the documents is of; None when both are there."""
    present = {document.split for document in documents}
    return next((WORDS[split] for split in AUDITED if split not in present), None)


A = TypeVar("A")


@dataclass(frozen=True)
class Units:
    """Units of a corpus for one metric, from which `docaudit plan` computes its resolution.

    Attributes:
        metric: the metric's name.
        kind: what it is.
        unit: what is independent of each other, plural ("documents", "providers").
        members: units that training saw.
        others: units that it never saw, which the members are compared with.
        methods: measurements that a limit on it is held against (`Result.methods`), at most: all
            must be within it.
        about_text: whether it says what the documents give away, whatever the model; no budget
            samples for these.
    """

    metric: str
    kind: MetricKind
    unit: str
    members: int
    others: int
    _: KW_ONLY
    methods: int = 1
    about_text: bool = False


def kind_of_difference(corpus: Corpus) -> MetricKind:
    """Return the kind of metric that an excess is: plain where a lot chose the members.

    Where a lot chose the members, it can do without a baseline within each side.
    """
    return "plain difference" if corpus.manifest.membership.assigned == "random" else "difference"


Sides = tuple[int, int]
"""Of members and of others."""
Outcomes = Sequence[Json]
"""An outcome for each trial, in their order."""
Evidence = dict[str, Any] | tuple[str, UnitScores]
"""An object about one trial, or a metric with the values of single units behind it."""


@dataclass(frozen=True)
class Attack(ABC):
    """A frozen dataclass whose fields are the attack's parameters; they go into the record.

    The range of a parameter is a `pydantic.Field` in its type: `n_folds: Annotated[int,
    Field(ge=2)] = 5`.

    What policies and reports need of it, as its metrics and their labels, is in its text
    (`audit.attacks.text`).

    Attributes:
        name: name as policies write it.
        needs: the references it cannot do without ("auxiliary", ...); the scan fills them before
            any trial.
        uses: the references it takes when somebody gave them.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    uses: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def trials(self, case: Case) -> list[Trial]:
        """List all that can be tried, in a fixed order.

        Where `case.target` is no model, the most that there can be, as far as the data set tells.
        """

    @abstractmethod
    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Run one trial as if it ran alone; its outcome depends on the trial and `rng` only."""

    @abstractmethod
    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes, rng: Rng, progress: Progress
    ) -> Result:
        """Reduce all outcomes, in trial order, to a result."""

    @classmethod
    def preset(cls, budget: str) -> Self:
        """Return the attack with the parameters of a budget: "quick", "standard" or "full".

        Budgets are "quick", "standard" and "full".
        """
        return cls(**text_of(cls.name).budgets.get(budget, {}))

    @property
    def ablations(self) -> tuple[str, ...]:
        """Describe how these parameters weaken the attacker; no limit is passed with any."""
        usual = type(self).preset("quick")
        weaker = text_of(self.name).weaker
        weaknesses = []
        for name in (*weaker.below, *weaker.above, *weaker.changed):
            value = getattr(self, name)
            least = getattr(usual, name)
            if isinstance(value, tuple):
                weaknesses += [f"{name} without {item}" for item in least if item not in value]
            elif weaker.is_weaker(name, value, least):
                weaknesses.append(f"{name} {value} instead of {least}")
        return tuple(weaknesses)

    def applies(self, case: Case) -> list[Reason]:
        """Return why the attack cannot be run on the case, or not at full strength.

        Reasons are of the kinds "model", "budget", "data" and "missing", or "weak".

        Where `case.target` is no model, before there is one, this is what data set and manifest
        tell. Only what the data set never held ("data") excuses a limit.
        """
        return []

    def compared_with(self, case: Case) -> tuple[str, ...]:
        """Return the roles of references that the model is compared with."""
        return (*self.needs, *self.uses)

    def parameters_on(self, case: Case) -> dict[str, Any]:
        """Return the parameters that bear on the model, by name, for the record."""
        return asdict(self)

    def unlimited(self, case: Case) -> str | None:
        """Return why no limit is held against what it measures of a model; None: limits are."""
        return None

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """Return the most that this data set holds for the metrics that policies ask for.

        That is before any model runs.
        """
        return ()

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes
    ) -> Iterator[Evidence]:
        """Yield the recovered values, one object a trial. For the owner's `evidence/` folder only.

        A pair of a metric and its `UnitScores` lets two scans be compared unit by unit: the metric
        is their mean difference, or area. Metrics without are compared by their intervals alone.
        """
        return iter(())


def needed_references(attack: Attack, case: Case) -> list[str]:
    """List the roles of references that an attack cannot do without on this case."""
    taken = attack.compared_with(case)
    return [role for role in attack.needs if role in taken]


def why_inapplicable(attack: Attack, case: Case) -> str | None:
    """Return why this attack is not run on the audited model; None when it is.

    It cannot be, or the budget leaves it out.
    """
    reason = barrier(attack, case)
    return None if reason is None else reason.why


def barrier(attack: Attack, case: Case) -> Reason | None:
    """Return the reason for which no trial of an attack is run on the audited model.

    It is of the kind "model" or "budget"; None where trials are run.
    """
    if text_of(attack.name).needs_model and not case.target.card.is_model:
        return Reason("model", NONE_AUDITED)
    reasons = attack.applies(case)
    reason = first_reason(reasons, *BARRIERS)
    if reason is None:
        return None
    return replace(reason, why=first_of(reasons, case, *BARRIERS) or reason.why)


def why(attack: Attack, case: Case, *kinds: str) -> str | None:
    """Return the first reason of these kinds against an attack on a case; None without any."""
    return first_of(attack.applies(case), case, *kinds)


def first_of(reasons: Iterable[Reason], case: Case, *kinds: str) -> str | None:
    """Return the first of the reasons that is of these kinds, as text; None without any."""
    reason = first_reason(reasons, *kinds)
    if reason is not None and reason.kind == "model" and case.target.card.family == SERVED:
        return str(SHARED["refusals"]["black_box"])
    if reason is None:
        return None
    if reason.kind == "weak":
        return f"{reason.why} {reason.fix}".rstrip()
    return reason.why


def first_reason(reasons: Iterable[Reason], *kinds: str) -> Reason | None:
    """Return the first of the reasons that is of these kinds; None without any."""
    return next((reason for reason in reasons if reason.kind in kinds), None)


def nothing_to_try(attack: Attack, case: Case) -> Reason:
    """Return why a case gives nothing to try, and what the owner can add."""
    reason = first_reason(attack.applies(case), "data", "missing")
    return reason or Reason(
        "missing", "the model can answer nothing about the data set", text_of(attack.name).add
    )


def ask(target: Target, query: Query[A]) -> Generator[Request, Any, A]:
    """Ask a target one query within an attempt and wait for the answer; used with `yield from`."""
    (answer,) = yield Request(target, (query,))
    return cast("A", answer)


def ask_all(target: Target, queries: Sequence[Query[A]]) -> Generator[Request, Any, list[A]]:
    """Ask a target several queries of one type and wait for the answers, in order.

    Used with `yield from`.
    """
    if not queries:
        return []
    answers = yield Request(target, tuple(queries))
    return cast("list[A]", answers)


def most_units(attack: Attack, corpus: Corpus) -> Sides:
    """Count the units of either side that a data set holds for an attack, before any model runs."""
    units = attack.units(corpus)
    return max((unit.members for unit in units), default=0), max(
        (unit.others for unit in units), default=0
    )


def may_try(attack: Attack, corpus: Corpus) -> list[Trial]:
    """List the most trials that a data set gives an attack, before any model runs."""
    return attack.trials(Case(NoModel(corpus), corpus))


COMPARED = ("documents", "providers")
"""Units that lie in held-out documents where they are not members'."""


def compared_units(attack: Attack, corpus: Corpus) -> str | None:
    """Name the units of which the model's members are compared with held-out ones.

    None where none are.
    """
    units = (unit.unit for unit in attack.units(corpus) if unit.others and not unit.about_text)
    return next((unit for unit in units if unit in COMPARED), None)


def confounded_by_copies(copies: Copies, attack: Attack, corpus: Corpus) -> str | None:
    """Return why near copies leave everything that an attack measures undecided.

    None when they do not.

    Args:
        copies: what was found in the data set.
        attack: attack that compares members with held-out documents, or the model with others, or
            neither.
        corpus: the data set.
    """
    compares = any(unit.others and unit.unit in COMPARED for unit in attack.units(corpus))
    if compares and copies.heldout_confounded is not None:
        return copies.heldout_confounded
    return copies.public_confounded if attack.needs or attack.uses else None


GIVE_REFERENCE = (
    "(give --reference baselines=PATH, see docaudit references --train, or pretrained=PATH)"
)
"""How an owner adds a reference that can be asked."""
LossKind = Literal["answers", "pages", "masks"]
POINTING: TaskKind = "extractive-qa"
"""The task of models that point at words of a page."""
POINTS: str = SHARED["refusals"]["points"]
"""Why such a model is not asked for values that are off the page."""


HELDOUT_GAIN = "the model restores no more held-out values than the public model"
HELDOUT_CHOICES = "the model chooses held-out values as the public model does"
"""Names of conditions (`audit.measurements.Condition`): target and reference do alike on held-out
documents."""


def points(target: Target) -> bool:
    """Test whether a model points at words of the page, so that no answer is off the page."""
    return target.card.task == POINTING


def loss_kind(target: Target) -> LossKind | None:
    """Return the kind of a target's loss of a document: of answers, pages or masked pages.

    None where it gives none.
    """
    kinds: dict[type[Query[Any]], LossKind] = {
        AnswerLoss: "answers",
        TrainingLoss: "pages",
        MaskedLoss: "masks",
    }
    return next((kind for query, kind in kinds.items() if query in target.answers), None)


def given_in_vain(case: Case) -> str:
    """Name, in a clause, the given references that lack the loss that the target gives.

    Empty without any.
    """
    target_kind = loss_kind(case.target)
    names = []
    for name, models in _references(case).items():
        kinds = {loss_kind(model) for model in models if model is not None}
        if name != "auxiliary" and kinds - {target_kind}:
            names.append(name)
    if not names:
        return ""
    return f"; not counted, because it lacks the head for the task: {', '.join(names)}"


def given(case: Case) -> dict[str, int]:
    """Count, by role, the references that give the loss that the target gives.

    Without a model those of the manifest.
    """
    if not case.target.card.is_model:
        references = case.corpus.manifest.references
        auxiliary = int(
            references.auxiliary is not None and case.corpus.manifest.task.kind == "mlm"
        )
        pretrained = int(references.pretrained is not None)
        return {
            "baselines": len(references.baselines),
            "pretrained": pretrained,
            "auxiliary": auxiliary,
        }
    target_kind = loss_kind(case.target)
    counts = {}
    for name, models in _references(case).items():
        kinds = [loss_kind(model) for model in models if model is not None]
        counts[name] = kinds.count(target_kind)
    return counts


def _references(case: Case) -> dict[str, tuple[Target | None, ...]]:
    """Return the reference models of a case, given or not, by the name of their role."""
    references = case.references
    return {
        "baselines": references.baselines,
        "pretrained": (references.pretrained,),
        "auxiliary": (references.auxiliary,),
    }
