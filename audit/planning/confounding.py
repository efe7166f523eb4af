"""What the blind check says of what attacks compare, before any model runs (METHODS.md, section 6)."""

from __future__ import annotations

from collections.abc import Sequence

from audit.attacks.attributes.offered import holding
from audit.attacks.blindness import Blind, by_document, by_provider
from audit.attacks.budget import SHARES, sample
from audit.attacks.membership.documents import compared
from audit.attacks.provider_membership.matching import IN, OUT
from audit.attacks.provider_membership.providers import least_of, perhaps_askable, providers_of, tried
from audit.attacks.reconstruction.fields import ATTACKED, trial_id
from audit.corpus.documents import Corpus
from audit.engine.interface import SILENT, Progress, Trial
from audit.planning.cost import Cost
from audit.policy import Policy

SEED = 0
"""Of a scan that is not told another: which trials a budget takes."""


def blind_checks(
    corpus: Corpus, policy: Policy, budget: str, costs: Sequence[Cost], progress: Progress = SILENT
) -> dict[str, Blind]:
    """The blind check of every attack that the policy limits and that makes one, by its name.

    It describes what a scan with this budget compares, but for documents that a model turns out not to read, or none of
    whose fields its tokens spell, and before those of providers are cut to as many on both sides, which takes the
    model's questions. Most of its time goes into opening page images (`blindness.MAX_UNITS`).

    Args:
        corpus: the data set.
        policy: what is asked for.
        budget: of the scan.
        costs: of every attack: one that cannot be fed, or is not applicable, needs no check.
        progress: told of every document described.

    Raises:
        ManifestError: an image is missing, damaged or too large.
    """
    limited = {limit.attack for limit in policy.limits if limit.max is not None}
    fed = {cost.attack for cost in costs if cost.lacks is None and cost.inapplicable is None} & limited
    found: dict[str, Blind] = {}
    if "membership" in fed:
        found["membership"] = _of_documents(corpus, SHARES[budget], progress)
    if "attribute_inference" in fed:
        found["attribute_inference"] = _of_values(corpus, SHARES[budget], progress)
    if "reconstruction" in fed:
        found["reconstruction"] = _of_fields(corpus, SHARES[budget], progress)
    if "provider_membership" in fed:
        found["provider_membership"] = _of_providers(corpus, SHARES[budget], progress)
    return found


def _of_documents(corpus: Corpus, share: float, progress: Progress) -> Blind:
    answering = corpus.manifest.task.kind == "question-answering"
    trials = [
        Trial(document.id, document.id, document.split)
        for document in compared(corpus)
        if not answering or any(question.answers for question in document.questions)
    ]
    documents = [corpus.document(trial.unit) for trial in sample(trials, share, SEED)]
    return by_document(corpus, documents, [document.split == "member" for document in documents], progress)


def _of_fields(corpus: Corpus, share: float, progress: Progress) -> Blind:
    trials = [
        Trial(trial_id(document, entity), document.id, document.split)
        for document in corpus.of(*ATTACKED)
        for entity in document.entities
        if entity.attack
    ]
    return _taken(corpus, trials, share, progress)


def _taken(corpus: Corpus, trials: Sequence[Trial], share: float, progress: Progress) -> Blind:
    """The check of the documents that a budget's trials are about."""
    taken = {trial.unit for trial in sample(trials, share, SEED)}
    documents = [document for document in corpus.documents if document.id in taken]
    return by_document(corpus, documents, [document.split == "member" for document in documents], progress)


def _of_values(corpus: Corpus, share: float, progress: Progress) -> Blind:
    return _taken(corpus, [Trial(name, name, split) for name, split in holding(corpus)], share, progress)


def _of_providers(corpus: Corpus, share: float, progress: Progress) -> Blind:
    providers = {one.name: one for one in tried(providers_of(corpus, perhaps_askable(corpus)), least_of(corpus))}
    trials = [Trial(one.name, one.name, IN if one.member else OUT) for one in providers.values()]
    taken = [providers[trial.unit] for trial in sample(trials, share, SEED)]
    asked = [(one, document) for one in taken for document in one.asked]
    return by_provider(
        corpus,
        [document for _, document in asked],
        [one.name for one, _ in asked],
        [one.member for one, _ in asked],
        progress,
    )
