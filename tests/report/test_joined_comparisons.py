"""Measured effects of countermeasures that join a report: another scan's are refused."""

from __future__ import annotations

from dataclasses import replace

import example_records
import pytest

from audit import __version__
from audit.errors import RecordError
from audit.measurements import ALPHAS, Bound, Estimate
from audit.record import AuditRecord
from audit.report.comparison import Comparison, Effect, LimitChange, LimitUse
from audit.report.recommend import effect_sentence
from audit.workflows.report import refuse_other_audit

METRIC = "excess_pr.unique"


@pytest.fixture(scope="module")
def record() -> AuditRecord:
    return example_records.one_shot()[0]


def before_of(record: AuditRecord) -> Estimate:
    (result,) = (one for one in record.completed.values() if one.attack == "reconstruction")
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
        2, __version__, "scrub", "Scrub", "data", "k", "default", record.target.sha256, record.corpus.sha256,
        "1" * 64, record.budget, record.seed, "violated", "passed", (limit,), (effect,), (), (),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_comparison_of_another_model_or_data_set_is_refused(record: AuditRecord) -> None:
    refuse_other_audit(comparison(record), record)
    for changes in ({"target": "0" * 64}, {"data": "0" * 64}):
        with pytest.raises(RecordError, match="was measured on another"):
            refuse_other_audit(comparison(record, **changes), record)


def test_the_sentence_says_that_usefulness_was_not_measured(record: AuditRecord) -> None:
    assert "usefulness was not measured" in effect_sentence(comparison(record), ())
