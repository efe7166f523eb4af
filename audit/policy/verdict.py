"""Evaluation of a record against a policy, step by step.

Facts are gathered, rules decide each limit, sentences are written, and the verdict follows.
"""

import datetime as dt
from dataclasses import replace

from audit.policy.checks import settle
from audit.policy.decision import Verdict
from audit.policy.demands import hold_demands
from audit.policy.exports import hold_against_audited
from audit.policy.facts import gather
from audit.policy.guarantees import contradiction
from audit.policy.limits import Policy
from audit.policy.overall import register, verdict_on_model, verdict_on_text, waive
from audit.policy.reading import check_for_record, identify
from audit.policy.reasons import write_decision
from audit.policy.remedies import with_remedy_at_hand
from audit.policy.rules import decide
from audit.record import AuditRecord


def today() -> dt.date:
    """Return the day that waivers are held against (UTC)."""
    return dt.datetime.now(dt.UTC).date()


def finished_on(record: AuditRecord) -> dt.date:
    """Return the day on which the scan ended (UTC): no verdict on it can be of an earlier one."""
    try:
        ended = dt.datetime.fromisoformat(record.timing.finished)
    except ValueError:
        return dt.date.min
    if ended.tzinfo:
        ended = ended.astimezone(dt.UTC)
    return ended.date()


def evaluate(record: AuditRecord, policy: Policy, today: dt.date) -> Verdict:
    """Return the verdict of a policy on a record, as of a day.

    A limit is held against every method of its attack that answers its question. It is *violated*
    when the leak is confirmed over it for any (one-sided p at most 0.05, adjusted for all
    methods of the gated limits; areas count on both sides of chance). It is *passed*
    when the one-sided bounds of all methods (`Estimate.pass_bound`), or of a count their estimates
    (`Limit.holds`), are within it and nothing speaks against a pass (see `rules.HINDRANCES`), and
    *undecided* otherwise. The overall verdict is the worst one, of the limits on the model and of
    those on the documents' own text apart. A record that contradicts the guarantee which the
    model's training claims is violated, whatever the limits. So is an export that leaks more than
    the audited model.

    A clock that is set back revives no waiver: the day is never one before the end of the scan.

    Args:
        record: record of a scan.
        policy: policy that it is held against.
        today: day that waivers are held against.

    Raises:
        PolicyError: the policy is for other records, or misspells an attack that the record's
            version knows.
    """
    today = max(today, finished_on(record))
    check_for_record(policy, record)
    identity = identify(record, policy)
    settled = settle(record, policy.limits)
    contradicted = None
    if record.dp is not None:
        contradicted = contradiction(settled)
    findings = [decide(facts) for facts in gather(settled, policy)]
    findings = [with_remedy_at_hand(finding) for finding in findings]
    findings, unasked = hold_demands(record, policy, findings)
    decisions = [waive(write_decision(finding), policy, today) for finding in findings]
    if record.target.is_model:
        verdict = verdict_on_model(settled, policy, decisions, unasked, contradicted)
    else:
        verdict = verdict_on_text(settled, policy, decisions)
    waivers = tuple(register(decisions, policy, today))
    verdict = replace(verdict, waivers=waivers, identity=identity)
    if record.derived_from is None:
        return verdict
    return hold_against_audited(verdict, record.derived_from)
