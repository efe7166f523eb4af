"""A policy, and what it says about a record. Pure: the one place where a verdict is reached."""

from audit.policy.decision import (
    EXIT_CODES,
    WORDS,
    Cause,
    Counts,
    Decision,
    Outcome,
    Overall,
    RegisteredWaiver,
    Verdict,
    Word,
)
from audit.policy.guarantees import contradiction
from audit.policy.limits import (
    Demand,
    Gap,
    Limit,
    Policy,
    Waiver,
    warn_of_few,
)
from audit.policy.reading import (
    MetricRules,
    PolicyIdentity,
    check_limits,
    check_made,
    check_names,
    check_subject,
    load,
    path_of,
)
from audit.policy.verdict import evaluate, finished_on, today
from audit.record import SIGNIFICANCE
