"""Provider membership as an attack: what is tried, what is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks import blind_baseline
from audit.attacks.interface import Attack, Evidence, Units
from audit.attacks.provider_membership.measures import NO_NUMBER, STRONGEST, count_providers, entries, measure_table
from audit.attacks.provider_membership.methods import SHARE
from audit.attacks.provider_membership.providers import (
    IN,
    MEMORY,
    OUT,
    Provider,
    ProviderTable,
    askable,
    askable_documents,
    describe_unnamed,
    knows_public,
    match_sides,
    perhaps_askable,
    providers_of,
    select_compared,
    shortage,
    table_of,
)
from audit.attacks.provider_membership.queries import (
    GIVE,
    NO_REFERENCE,
    ask_about,
    missing_reference,
    reference_of,
)
from audit.attacks.score_figures import LOW
from audit.attacks.usable import given, loss_kind
from audit.case import Case
from audit.corpus.documents import Corpus, Document
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.record import Reason, Result
from audit.stats.power import MetricKind


@dataclass(frozen=True)
class ProviderMembership(Attack):
    """Did documents of a provider train the model (Tito et al. 2024, section 5.2; methods.md#provider-membership)?

    The adversary holds documents of the provider that were kept aside. What the model makes of them, alone, beside a
    model that knows none of the providers (`queries.reference_of`), and with the answers taken off the page, is
    averaged over the provider's questions, of as many documents and questions of providers in as of providers out
    (`providers.match_sides`). The primary method, fixed before the scan, is APK where there is such a model, else AZK.

    Attributes:
        n_seeds: of the training shares of APK, and of K-means up to `methods.CLUSTERED`. What a forest reaches depends
            on whom it knows: on SROIE, with ten of 69 providers known, it spread by 8 points from share to share.
        share: of the providers, whose membership the adversary of APK knows.
    """

    n_seeds: Annotated[int, Field(ge=1)] = 25
    share: Annotated[float, Field(gt=0, lt=1)] = SHARE

    name: ClassVar[str] = "provider_membership"
    uses: ClassVar[tuple[str, ...]] = ("pretrained", "baselines")

    def applies(self, case: Case) -> list[Reason]:
        """See `Attack.applies`."""
        known = case.target.card.is_model
        if known and loss_kind(case.target) is None:
            return [Reason("model", "the model neither answers questions nor gives a loss of a page")]
        reasons = []
        lacking = shortage(case.corpus, perhaps_askable(case.corpus))
        if lacking is not None:
            reasons.append(Reason("data", *lacking))
        elif known and (lacking := shortage(case.corpus, askable(case))) is not None:
            reasons.append(Reason("missing", *lacking))
        weak = describe_unnamed(case.corpus) or (missing_reference(case) if known else self._no_reference(case))
        return reasons if weak is None else [*reasons, Reason("weak", weak)]

    def _no_reference(self, case: Case) -> str | None:
        """Say that the manifest names no reference which knows none of the providers; None where it does."""
        there = given(case)
        if there["pretrained"]:
            return None
        if not there["baselines"]:
            return f"no reference: {NO_REFERENCE} ({GIVE}: --reference pretrained=PATH or baselines=PATH)"
        if knows_public(case.corpus):
            saw = "baselines saw public documents of providers that are asked about"
            return f"no reference: {NO_REFERENCE}, for {saw} ({GIVE})"
        return None

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

    def trials(self, case: Case) -> list[Trial]:
        """One for each provider with a kept-aside document to ask about; none where a side has too few."""
        return [
            Trial(provider.name, provider.name, IN if provider.member else OUT)
            for provider in select_compared(case.corpus, providers_of(case.corpus, askable(case)))
        ]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Ask about each kept-aside document of the provider, one after the other; see `queries.ask_about`."""
        reference, found = reference_of(case), list[Json]()
        for document in askable_documents(case, trial.unit):
            found += [(yield from ask_about(case, document, reference))]
        return {"documents": found}

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], rng: Rng, progress: Progress
    ) -> Result:
        """See `Attack.measure`; the metrics are described in `measures` and `blind_baseline`."""
        providers = providers_of(case.corpus, askable(case))
        compared = match_sides(trials, outcomes)
        table, lacking = table_of(compared), missing_reference(case)
        findings = measure_table(
            table, rng, progress, n_seeds=self.n_seeds, share=self.share, missing_reference=lacking
        )
        looked_at = {document["id"] for outcome in compared.outcomes for document in outcome["documents"]}
        taken = {trial.unit for trial in trials}
        asked = [
            (provider, document)
            for provider in providers
            if provider.name in taken
            for document in provider.asked
            if document.id in looked_at
        ]
        blind = _blind(case.corpus, asked, progress)
        silent = None if _is_compared(table) else NO_NUMBER
        weaknesses = (lacking or silent, describe_unnamed(case.corpus), compared.starved())
        result = replace(
            findings,
            counts=count_providers(case.corpus, providers, compared),
            ablations=tuple(words for words in weaknesses if words is not None),
        )
        return blind.beside(result, (*STRONGEST["balanced_accuracy"], *STRONGEST["auc"]), STRONGEST[LOW])

    def evidence(self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]) -> Iterator[Evidence]:
        """What the attack made of each provider; see `measures.entries`."""
        table, providers = table_of(match_sides(trials, outcomes)), providers_of(case.corpus, askable(case))
        for row in entries(table, providers, n_seeds=self.n_seeds, share=self.share):
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
    """Test whether a method rests on the memorisation tests, which only models that answer are put to."""
    return name.endswith(("_ensemble", *MEMORY))


def _is_compared(table: ProviderTable) -> bool:
    """Test whether the model to compare with gave any finite number."""
    return table.user is not None or any(name in table.features for name in ("loss_change", "confidence_change"))
