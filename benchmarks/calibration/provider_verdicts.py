"""What the shipped limits on provider membership make of simulated numbers: the product's own verdict."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.provider_membership.measures import POWER
from audit.cards import CorpusCard, Environment, TargetCard, Timing
from audit.measurements import Estimate
from audit.policy import Outcome, Overall, evaluate, load
from audit.record import AuditRecord, Result

DEFAULT = load("default")
POLICY = replace(
    DEFAULT,
    name="providers",
    limits=tuple(limit for limit in DEFAULT.limits if limit.attack == ProviderMembership.name),
)
LIMITS = {limit.metric: limit.max for limit in POLICY.limits if limit.max is not None}
_SHA256 = "0" * 64
_CARD = TargetCard(
    "simulated", "simulated", "question-answering", "none", 1, 1, 1, _SHA256, "cpu", "float32"
)
_CORPUS = CorpusCard(
    "simulated", _SHA256, "question-answering", "by-provider", {"heldout": 1}, {}, 2, 0
)
_USEFUL = Estimate("anls", 0.9, 0.8, 1.0, 100, "documents", 100, "simulated", 0.1, "public model")


def decided(found: Result) -> tuple[Overall, dict[str, tuple[Outcome, str]]]:
    """The verdict, and of each limit what became of it and the name of the method that decides."""
    result = Result(
        "provider_membership",
        parameters={},
        measurements=found.measurements,
        power=POWER,
        methods={**found.methods},
        checks=found.checks,
    )
    record = AuditRecord(
        2,
        _CARD,
        _CORPUS,
        (),
        "standard",
        1.0,
        0,
        ("provider_membership",),
        (result,),
        (_USEFUL,),
        Environment("simulated", "3", "simulated", "cpu", 1, {}),
        Timing("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00", 0.0),
    )
    verdict = evaluate(record, POLICY, dt.date(2026, 1, 1))
    return verdict.overall, {
        decision.limit.metric: (
            decision.outcome,
            decision.measured.name if decision.measured else "",
        )
        for decision in verdict.decisions
    }
