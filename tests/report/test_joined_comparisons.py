"""Measured effects of countermeasures that join a report: another scan's, and numbers that nobody measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import example_records
import pytest

from audit import __version__
from audit.defenses.measured import Comparison, Effect, LimitChange, LimitUse
from audit.errors import RecordError
from audit.measurements import ALPHAS, Bound, Estimate
from audit.record import AuditRecord, Completed
from audit.report.recommend import effect_sentence
from audit.workflows.joined import refuse_another_audit

METRIC = "excess_pr.unique"


@pytest.fixture(scope="module")
def record() -> AuditRecord:
    return example_records.one_shot()[0]


def before_of(record: AuditRecord) -> Estimate:
    (result,) = (one for one in record.attacks if isinstance(one, Completed) and one.attack == "reconstruction")
    (found,) = (item for item in result.measurements if item.name == METRIC)
    assert isinstance(found, Estimate)
    return replace(found, bounds=bounds(found.low, found.high))


def bounds(low: float, high: float) -> tuple[Bound, ...]:
    return tuple(Bound(alpha, low, high) for alpha in ALPHAS)


def comparison(record: AuditRecord, **changes: object) -> Comparison:
    before = before_of(record)
    after = replace(before, value=0.01, low=-0.02, high=0.03, bounds=bounds(-0.02, 0.03))
    effect = Effect("reconstruction", METRIC, before, after)
    limit = LimitChange("reconstruction", METRIC, LimitUse("violated", 8.0, 9.0), LimitUse("passed", 0.2, 0.6))
    made = Comparison(
        1, __version__, "scrub", "Scrub", "data", "k", "default", record.target.sha256, record.corpus.sha256,
        "1" * 64, record.budget, record.seed, "violated", "passed", (limit,), (effect,), (), (), (),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_comparison_of_this_record_joins_its_report(record: AuditRecord) -> None:
    refuse_another_audit(comparison(record), record)


def moved(one: Comparison) -> Comparison:
    (effect,) = one.effects
    before = effect.before
    assert isinstance(before, Estimate)
    other = replace(before, value=0.98, low=0.97, high=0.99, bounds=bounds(0.97, 0.99))
    return replace(one, effects=(replace(effect, before=other),))


def certain(one: Comparison) -> Comparison:
    (effect,) = one.effects
    assert isinstance(effect.after, Estimate)
    after = replace(effect.after, value=0.0, low=0.0, high=0.0, bounds=bounds(0.0, 0.0))
    return replace(one, effects=(replace(effect, after=after),))


def unbounded(one: Comparison) -> Comparison:
    (effect,) = one.effects
    assert isinstance(effect.after, Estimate)
    return replace(one, effects=(replace(effect, after=replace(effect.after, bounds=())),))


def outside(one: Comparison) -> Comparison:
    (effect,) = one.effects
    assert isinstance(effect.after, Estimate)
    return replace(one, effects=(replace(effect, after=replace(effect.after, value=0.5)),))


def passed_over_its_limit(one: Comparison) -> Comparison:
    (limit,) = one.limits
    return replace(one, limits=(replace(limit, after=LimitUse("passed", 2.0, 3.0)),))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (moved, "before: 0.980 [0.970, 0.990], and this record has"),
        (certain, "its interval has no width"),
        (unbounded, "it has bounds at 0 of 8 levels"),
        (outside, "lies outside its interval"),
        (passed_over_its_limit, "passed, and its interval reaches over the limit"),
    ],
)
def test_a_comparison_that_nobody_measured_on_this_model_is_refused(
    edit: Callable[[Comparison], Comparison], said: str, record: AuditRecord
) -> None:
    with pytest.raises(RecordError) as refused:
        refuse_another_audit(edit(comparison(record)), record)
    assert said in " ".join(refused.value.problems)


def test_the_sentence_says_that_usefulness_was_not_measured(record: AuditRecord) -> None:
    assert "usefulness was not measured" in effect_sentence(comparison(record), ())
