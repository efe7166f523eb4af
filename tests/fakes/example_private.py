"""Records of models that were trained with differential privacy, made from plain numbers."""

import dataclasses

import example_canaries
import example_providers
from example_answers import answering
from example_numbers import PRIVATE_CARD
from example_records import Case, judged, mean

from audit.cards import PrivacyCard
from audit.measurements import Diagnostic, Estimate
from audit.policy import Limit, Policy
from audit.record import Result

LIMITS = (
    Limit("membership", "auc", "A document must not be told from others.", max=0.65),
    Limit(
        "membership",
        "low_fpr_advantage",
        "None must be told for certain.",
        max=0.15,
        required=False,
    ),
    Limit(
        "provider_membership",
        "balanced_accuracy",
        "No company must be told.",
        max=0.65,
        required=False,
    ),
    Limit("provider_membership", "auc", "Nor by a ranking.", max=0.7, required=False),
    Limit("canaries", "excess", "Planted secrets must not come out.", max=0.2, required=False),
    Limit("canaries", "excess_exposure", "Nor be likelier than others.", max=2.0, required=False),
)
BATTERY = ("reconstruction", "memorisation", "membership", "provider_membership", "canaries")


def card(
    epsilon: float | None = 8.0,
    delta: float = 6.4e-4,
    *,
    unit: str = "document",
    n_units: int = 800,
) -> PrivacyCard:
    """The card of a central training."""
    return PrivacyCard(
        unit=unit,  # type: ignore[arg-type]
        n_units=n_units,
        epsilon=epsilon,
        delta=delta,
        per_unit=None,
        clients=None,
        secure=epsilon is not None,
        weights="91be04d2" * 8,
        **PRIVATE_CARD,
    )


def membership(lead: float = 0.03, n: int = 300) -> Result:
    """The attack on documents, with an AUC of 0.5 and `lead`."""
    items = (
        _of_documents(mean("auc", 0.5 + lead, 0.3 / n**0.5, n, 0.5, "chance")),
        _of_documents(mean("low_fpr_advantage", lead, 0.5 / n**0.5, n, 0.0, "chance")),
    )
    rate = Diagnostic("low_fpr", 0.01, "the false-positive rate of low_fpr_advantage")
    return Result("membership", parameters={}, measurements=items, diagnostics=(rate,))


def _of_documents(item: Estimate) -> Estimate:
    return dataclasses.replace(item, unit="documents")


def held(
    dp: PrivacyCard | None, *results: Result, limits: tuple[Limit, ...] = LIMITS, **settings: str
) -> Case:
    """A record with a privacy card, held against limits on membership, providers and canaries."""
    audited = dataclasses.replace(
        answering(*results, name="invoices-private"), battery=BATTERY, dp=dp
    )
    return judged(audited, Policy(1, "private", limits, **settings))  # type: ignore[arg-type]


def private(
    epsilon: float | None = 8.0, *, unit: str = "document", leak: float = 0.0, repeat: int = 1
) -> Case:
    """A model whose guarantee is measured from all three sides.

    `leak`: the share of planted secrets that come out.
    """
    results = (
        membership(),
        example_providers.providers(0.0, n=1600),
        example_canaries.canaries(leak, repeat=repeat),
    )
    return held(card(epsilon, unit=unit), *results)


def contradicted() -> Case:
    """Planted secrets that all come out of a training that claims epsilon 0.5 for a document of one copy."""
    results = (
        membership(),
        example_providers.providers(0.0, n=1600),
        example_canaries.canaries(1.0, n=256, repeat=1),
    )
    return held(card(0.5, 1e-5), *results)
