"""Guarantees that their own numbers, or the membership of documents, show to be false."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import example_private
import example_records
import pytest

from audit.cards import PrivacyCard
from audit.errors import RecordError
from audit.measurements import ALPHAS, Bound, Estimate
from audit.policy.guarantee import contradiction, follows
from audit.policy.of_attacks import check_against_attacks
from audit.record import AuditRecord, Completed


def card(epsilon: float, noise: float, rate: float, steps: int) -> PrivacyCard:
    return replace(
        example_private.card(epsilon, 1e-6), noise_multiplier=noise, sample_rate=rate, steps=steps, expected_units=1.0
    )


@pytest.mark.parametrize(
    ("epsilon", "noise", "rate", "steps", "possible"),
    [
        (0.01, 0.0001, 1.0, 100_000, False),  # forged
        (0.5, 0.5, 0.1, 100_000, False),
        (0.1, 1.0, 1.0, 100, False),
        (20.0, 0.82, 0.16, 200, True),
        (120.0, 1.0, 1.0, 100, True),
        (0.9, 50.0, 1.0, 100, True),
        (2.0, 100.0, 0.01, 10_000, True),
    ],
)
def test_an_epsilon_that_so_little_noise_cannot_give_is_known_without_an_accountant(
    epsilon: float, noise: float, rate: float, steps: int, possible: bool
) -> None:
    assert follows(card(epsilon, noise, rate, steps)) is possible


def test_a_point_of_the_curve_that_so_little_noise_cannot_give_is_known() -> None:
    honest = card(5.0, 1.0, 1.0, 1)
    assert follows(replace(honest, curve=((0.0, 0.3829249 + 1e-6), (1.0, 0.1269368 + 1e-6))))
    assert not follows(replace(honest, curve=((0.0, 0.38),)))
    assert not follows(replace(honest, curve=((1.0, 0.12),)))


def test_gate_refuses_a_guarantee_that_does_not_follow_from_its_noise() -> None:
    record = example_records.one_shot()[0]
    now = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    forged = replace(record, policy=None, dp=card(0.01, 0.0001, 1.0, 100_000))
    with pytest.raises(RecordError, match=r"epsilon 0\.01 does not follow from noise 0\.0001"):
        check_against_attacks(forged, {}, now)
    check_against_attacks(replace(forged, dp=card(8.0, 50.0, 1.0, 100)), {}, now)


def told(low: float, assigned: str = "random", confounded: str | None = None) -> AuditRecord:
    record = example_records.one_shot()[0]
    bounds = tuple(Bound(alpha, low, 1.0) for alpha in ALPHAS)
    auc = Estimate("auc.loss", 0.99, low, 1.0, 400, "documents", 400, "x", 0.5, "chance", bounds=bounds)
    result = Completed("membership", ("auc",), {}, (auc,), confounded=confounded)
    return replace(
        record, attacks=(result,), dp=card(1.0, 50.0, 1.0, 100), corpus=replace(record.corpus, assigned=assigned)
    )


def test_documents_told_better_than_the_guarantee_allows_contradict_it() -> None:
    said = contradiction(told(0.95))
    assert said is not None
    assert said.startswith("the training claims epsilon 1 at delta 1e-06 for each document, which allows")
    assert "it was not as private as it says" in said
    assert contradiction(told(0.6)) is None
    assert contradiction(told(0.95, assigned="by hand")) is None, "other documents differ in other ways"
    assert contradiction(told(0.95, confounded="they differ")) is None
