"""Records of simulated audits, held against a policy: what `leak_free_audits.py` and `published_leaks.py` share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from audit.attacks import text_of
from audit.attacks.battery import BATTERY
from audit.cards import CorpusCard, Environment, TargetCard, Timing
from audit.measurements import Bound, Check, Estimate
from audit.policy import Decision, Policy, evaluate
from audit.policy.checks import LEVEL
from audit.record import AuditRecord, Reason, Result
from audit.stats import resampling
from audit.stats.p_values import holm

TASKS = {
    "tagger": "token-classification",
    "question answering": "question-answering",
    "utterances": "intent-slots",
    "parsing": "parsing",
}
USEFUL = {
    "tagger": "entity_f1",
    "question answering": "anls",
    "utterances": "intent_accuracy",
    "parsing": "anls",
}
TODAY = dt.date(2026, 11, 22)


@contextmanager
def fewer_resamples(n: int) -> Iterator[None]:
    """Let the product's bootstrap draw so many resamples where nobody says how many (10,000 in a scan)."""
    with patch.dict(resampling.bootstrap.__kwdefaults__, n_resamples=n):
        yield


def fired(checks: Sequence[Check]) -> list[Check]:
    """Return the checks that fire where a scan makes no others."""
    adjusted = holm(
        {check.name: check.p_value for check in checks},
        {check.name: check.weight for check in checks},
    )
    return [check for check in checks if adjusted[check.name] <= LEVEL]


def confounded_of(found: Result) -> str | None:
    """Return why nothing can be decided on an attack's numbers; None when they can."""
    reasons = [check.reason for check in fired(found.checks) if check.cause == "confounded"]
    return next(iter(reasons), found.confounded)


def completed(attack: str, found: Result) -> Result:
    """An attack that measured this."""
    return replace(found, power=text_of(attack).power)


def record_of(kind: str, found: Mapping[str, Result], policy: Policy) -> AuditRecord:
    """The record of an audit of this kind of model.

    What was not simulated is a permitted gap, or not in the data.
    """
    task = TASKS[kind]
    gaps = {gap.attack for gap in policy.gaps if task in gap.tasks}
    attacks: list[Result] = []
    for one in BATTERY:
        if one.name in found:
            attacks.append(completed(one.name, found[one.name]))
        elif one.name in gaps:
            attacks.append(
                Result(
                    one.name,
                    status="inapplicable",
                    reason=Reason("model", "no such question can be asked"),
                )
            )
        else:
            attacks.append(
                Result(
                    one.name, status="skipped", reason=Reason("data", "not simulated", "nothing")
                )
            )
    bounds = tuple(Bound(alpha, 0.5, 0.7) for alpha in (0.25, 0.05))
    useful = Estimate(
        USEFUL[kind], 0.6, 0.5, 0.7, 500, "rows", 100, "simulated", 0.05, "chance", bounds=bounds
    )
    return AuditRecord(
        schema_version=2,
        target=TargetCard(
            "simulated", "simulated", task, "simulated", 1, 1, 512, "0" * 64, "cpu", "float32"
        ),
        corpus=CorpusCard(
            "simulated", "0" * 64, task, "random", {"member": 1, "heldout": 1}, {}, 0, 0
        ),
        references=(),
        budget="standard",
        share=1.0,
        seed=0,
        battery=tuple(one.name for one in BATTERY),
        attacks=tuple(attacks),
        utility=(useful,),
        environment=Environment("simulated", "simulated", "simulated", "cpu", 1, {}),
        timing=Timing("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00", 0.0),
    )


def decisions_of(kind: str, found: Mapping[str, Result], policy: Policy) -> dict[str, Decision]:
    """What became of each limit that could be held against these findings, by "attack metric".

    A limit that is not required and whose attack was not simulated is left out.
    """
    verdict = evaluate(record_of(kind, found, policy), policy, TODAY)
    return {
        f"{decision.limit.attack} {decision.limit.metric}": decision
        for decision in verdict.decisions
        if decision.limit.attack in found
    }


def worst(outcomes: Sequence[str]) -> str:
    """The worst outcome of several limits: that of the verdict."""
    return next(name for name in ("violated", "undecided", "passed", "not run") if name in outcomes)
