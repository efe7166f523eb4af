"""Provider membership as an attack: what is tried, what is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks import blind_baseline
from audit.attacks.blind_baseline import blind_controls
from audit.attacks.budget import SEED, sample
from audit.attacks.interface import Attack, Findings, Units, weaker
from audit.attacks.measuring import compare_losses
from audit.attacks.provider_membership import absent_keys
from audit.attacks.provider_membership.features import IN, MEMORY, OUT, ProviderTable, match_sides, table_of, tabulate
from audit.attacks.provider_membership.measures import (
    NO_NUMBER,
    STRONGEST,
    Measured,
    count_providers,
    entries,
    measure_table,
)
from audit.attacks.provider_membership.providers import (
    Provider,
    askable,
    askable_documents,
    describe_unnamed,
    knows_public,
    min_providers,
    perhaps_askable,
    providers_of,
    select_tried,
    shortage,
)
from audit.attacks.provider_membership.queries import (
    GIVE,
    NO_REFERENCE,
    ask_about,
    loss_of,
    missing_reference,
    reference_of,
)
from audit.attacks.score_figures import LOW
from audit.attacks.usable import loss_kind
from audit.case import Case
from audit.corpus.documents import Corpus, Document
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.measurements import ResultTable
from audit.stats.power import MetricKind
from audit.targets.interface import Target

N_PERMUTATIONS = {"quick": 50, "standard": 200, "full": 500}
"""Permutations of the labels, by budget (ours)."""


@dataclass(frozen=True)
class ProviderMembership(Attack):
    """Did documents of a provider train the model (Tito et al. 2024, section 5.2; methods.md#provider-membership)?

    The adversary holds documents of the provider that were kept aside. What the model makes of them, alone, beside what
    a model makes of them that knows none of the providers (`asking.reference_of`), and with the answers taken off the
    page, is averaged over the provider's questions, of as many documents and questions of providers in as of providers
    out (`matching`), and providers are told apart by that. Names of providers that differ by case or spacing only are
    one provider. The primary method, fixed before the scan, is APK where there is such a model, else AZK.

    Attributes:
        n_seeds: of the training shares of APK, and of K-means up to `inference.CLUSTERED` (ours). What a forest reaches
            hangs on whom it knows: on SROIE, with ten of 69 providers known, it spread by 8 points from share to share.
        n_permutations: of the labels of providers judged (ours).
        share: of the providers, whose membership the adversary of APK knows (methods.md: 0.15, ours).
        n_absent: documents of a provider that are asked for keys they lack, at most; 0: none.
        n_absent_keys: such keys of a document, at most (appendix D.1.4: two questions a document).
    """

    n_seeds: Annotated[int, Field(ge=1)] = 25
    n_permutations: Annotated[int, Field(ge=1)] = 200
    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    n_absent: Annotated[int, Field(ge=0)] = 5
    n_absent_keys: Annotated[int, Field(ge=1)] = 2

    name: ClassVar[str] = "provider_membership"
    uses: ClassVar[tuple[str, ...]] = ("pretrained", "baselines")
    sides: ClassVar[tuple[str, str]] = (IN, OUT)

    @property
    def ablations(self) -> tuple[str, ...]:
        """See `Attack.ablations`."""
        return weaker(self, more=("n_seeds", "n_permutations"), kept=("share",))

    @classmethod
    def preset(cls, budget: str) -> Self:
        """See `Attack.preset`."""
        return cls(n_permutations=N_PERMUTATIONS[budget])

    def lacks(self, corpus: Corpus) -> str | None:
        """See `Attack.lacks`."""
        lacking = shortage(providers_of(corpus, perhaps_askable(corpus)), min_providers(corpus))
        return None if lacking is None else lacking[0]

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """See `Attack.units`."""
        asked = [provider for provider in providers_of(corpus, perhaps_askable(corpus)) if provider.asked]
        members = sum(provider.member for provider in asked)
        sides = (members, len(asked) - members)
        kinds: dict[str, MetricKind] = {
            "balanced_accuracy": "balanced accuracy",
            "auc": "auc",
            LOW: "low advantage",
        }
        answering = corpus.manifest.task.asks
        return tuple(
            Units(metric, kind, "providers", *sides, methods=sum(answering or not _remembers(name) for name in names))
            for metric, kind in kinds.items()
            for names in [STRONGEST[metric]]
        )

    def weakened(self, corpus: Corpus, given: Mapping[str, int]) -> str | None:
        """See `Attack.weakened`."""
        unnamed = describe_unnamed(corpus)
        if unnamed is not None or given["pretrained"]:
            return unnamed
        if not given["baselines"]:
            return f"no reference: {NO_REFERENCE} ({GIVE}: --reference pretrained=PATH or baselines=PATH)"
        if knows_public(corpus):
            saw = "baselines saw public documents of providers that are asked about"
            return f"no reference: {NO_REFERENCE}, for {saw} ({GIVE})"
        return None

    def weakened_in(self, case: Case) -> str | None:
        """See `Attack.weakened_in`."""
        return describe_unnamed(case.corpus) or missing_reference(case)

    def blind_baseline(self, corpus: Corpus, share: float, progress: Progress) -> blind_baseline.Blind:
        """See `Attack.blind_baseline`: before questions are cut to as many on both sides, which takes the model's."""
        providers = {
            one.name: one for one in select_tried(providers_of(corpus, perhaps_askable(corpus)), min_providers(corpus))
        }
        trials = [Trial(one.name, one.name, IN if one.member else OUT) for one in providers.values()]
        taken = [providers[trial.unit] for trial in sample(trials, share, SEED)]
        return _blind(corpus, [(one, document) for one in taken for document in one.asked], progress)

    def inapplicable(self, case: Case) -> str | None:
        """See `Attack.inapplicable`."""
        asked = loss_kind(case.target) is not None
        return None if asked else "the model neither answers questions nor gives a loss of a page"

    def trials(self, case: Case) -> list[Trial]:
        """One for each provider with a kept-aside document to ask about; none where a side has too few."""
        return [
            Trial(provider.name, provider.name, IN if provider.member else OUT)
            for provider in select_tried(providers_of(case.corpus, askable(case)), min_providers(case.corpus))
        ]

    def no_trials(self, case: Case) -> tuple[str, str]:
        """See `Attack.no_trials`."""
        lacking = shortage(providers_of(case.corpus, askable(case)), min_providers(case.corpus))
        assert lacking is not None
        return lacking

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Ask about each kept-aside document of the provider, one after the other; see `queries.ask_about`."""
        documents = askable_documents(case, trial.unit)
        probes: Mapping[str, Sequence[absent_keys.AbsentKeyProbe]] = {}
        if self._probes_nothing(case) is None:
            probes = absent_keys.probes_for(case.corpus, documents, self.n_absent, self.n_absent_keys)
        reference = reference_of(case)
        found: list[Json] = []
        for document in documents:
            found += [(yield from ask_about(case, document, probes.get(document.id, ()), reference))]
        return {"documents": found}

    def _probes_nothing(self, case: Case) -> str | None:
        """Why documents are not asked for keys that they lack; None when they are."""
        if loss_kind(case.target) != "answers":
            return absent_keys.PAGES
        if not self.n_absent:
            return "n_absent is 0: none was asked"
        return absent_keys.NOT_COMPARED if reference_of(case) is None else None

    def preflight(self, case: Case, rounded: Target, trial: Trial, rng: Rng) -> Attempt:
        """See `Attack.preflight`; a decision is the loss of the provider's first document."""
        document = askable_documents(case, trial.unit)[0]
        exact = yield from loss_of(case, case.target, document)
        coarse = yield from loss_of(case, rounded, document)
        return compare_losses(exact, coarse)

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], rng: Rng, progress: Progress
    ) -> Findings:
        """See `Attack.measure`; the metrics are described in `measures`, `absent` and `blindness`."""
        providers = providers_of(case.corpus, askable(case))
        compared = match_sides(trials, outcomes)
        table = tabulate(compared)
        lacking = missing_reference(case)
        measured = measure_table(
            table,
            rng,
            progress,
            n_seeds=self.n_seeds,
            n_permutations=self.n_permutations,
            share=self.share,
            missing_reference=lacking,
        )
        looked_at = {document["id"] for outcome in compared.outcomes for document in outcome["documents"]}
        asked = [
            (provider, document)
            for provider in _tried(providers, trials)
            for document in provider.asked
            if document.id in looked_at
        ]
        blind = _blind(case.corpus, asked, progress)
        found, counts = absent_keys.measure_absent(case.corpus, trials, outcomes, self._probes_nothing(case))
        return replace(
            measured.findings,
            measurements=(*measured.findings.measurements, blind.estimate, found),
            counts=(*count_providers(case.corpus, providers, compared), *counts),
            diagnostics=(*measured.findings.diagnostics, *blind.diagnostics),
            confounded=blind.confounded,
            controls=blind_controls(blind, (*STRONGEST["balanced_accuracy"], *STRONGEST["auc"]), STRONGEST[LOW]),
            checks=(*blind.checks, *measured.findings.checks),
            weaknesses=_weaknesses(lacking, describe_unnamed(case.corpus), compared.starved(), table),
            tables=_surest(measured, table, providers),
        )

    def evidence(self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]) -> Iterator[dict[str, Any]]:
        """The key from numbers to names, and what the attack made of each provider; see `evidence.entries`."""
        providers = providers_of(case.corpus, askable(case))
        values = absent_keys.AbsentKeyAnswers.of(case.corpus, outcomes)
        replies = absent_keys.judge_replies(case.corpus, values, trials, outcomes)
        rows = entries(table_of(trials, outcomes), providers, replies, n_seeds=self.n_seeds, share=self.share)
        for row in rows:
            yield {"attack": self.name, **row}


def _blind(corpus: Corpus, asked: Sequence[tuple[Provider, Document]], progress: Progress) -> blind_baseline.Blind:
    """Whether providers in and out can be told apart without the model, by these documents."""
    return blind_baseline.by_provider(
        corpus,
        [document for _, document in asked],
        [provider.name for provider, _ in asked],
        [provider.member for provider, _ in asked],
        progress,
    )


def _remembers(name: str) -> bool:
    """Whether a method rests on the memorisation tests, which only models that answer are put to."""
    return name.endswith(("_ensemble", *MEMORY))


def _tried(providers: Sequence[Provider], trials: Sequence[Trial]) -> list[Provider]:
    """The providers that a budget took."""
    taken = {trial.unit for trial in trials}
    return [provider for provider in providers if provider.name in taken]


def _weaknesses(lacking: str | None, unnamed: str | None, starved: str | None, table: ProviderTable) -> tuple[str, ...]:
    """That there is no model to compare with, or that it said nothing; that it is not known who is in; a deep cut."""
    compared = table.user is not None or any(name in table.features for name in ("loss_change", "confidence_change"))
    silent = None if compared else NO_NUMBER
    return tuple(words for words in (lacking or silent, unnamed, starved) if words is not None)


def _surest(measured: Measured, table: ProviderTable, providers: Sequence[Provider]) -> tuple[ResultTable, ...]:
    """The surest rightly named members, by number."""
    if measured.score is None or not measured.surest.size:
        return ()
    numbers = {provider.name: provider.number for provider in providers}
    columns = (measured.scores[measured.score], table.n_documents, table.n_questions)
    rows = {numbers[table.names[row]]: tuple(float(column[row]) for column in columns) for row in measured.surest}
    return (ResultTable("surest providers", ("score", "documents", "questions"), rows),)
