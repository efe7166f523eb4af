"""Guarantees that the membership of documents shows to be false."""

from dataclasses import replace

import example_private
import example_records

from audit.measurements import ALPHAS, Bound, Estimate
from audit.policy.checks import SettledRecord, settle
from audit.policy.guarantees import contradiction
from audit.record import Result


def told(low: float, assigned: str = "random", confounded: str | None = None) -> SettledRecord:
    record = example_records.one_shot()[0]
    bounds = tuple(Bound(alpha, low, 1.0) for alpha in ALPHAS)
    auc = Estimate(
        "auc.loss", 0.99, low, 1.0, 400, "documents", 400, "x", 0.5, "chance", bounds=bounds
    )
    result = Result("membership", measurements=(auc,), confounded=confounded)
    record = replace(
        record,
        attacks=(result,),
        dp=example_private.card(1.0, 1e-6),
        corpus=replace(record.corpus, assigned=assigned),
    )
    return settle(record, ())


def test_documents_told_better_than_the_guarantee_allows_contradict_it() -> None:
    said = contradiction(told(0.95))
    assert said is not None
    assert said.startswith(
        "the training claims epsilon 1 at delta 1e-06 for each document. This allows"
    )
    assert "was not as private as it claims" in said
    assert contradiction(told(0.6)) is None
    assert contradiction(told(0.95, assigned="by hand")) is None, (
        "other documents differ in other ways"
    )
    assert contradiction(told(0.95, confounded="they differ")) is None
