"""Demands of a policy: questions that a pass must answer, by a limit on one attack at least."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from audit.policy.findings import Finding
from audit.policy.limits import Demand, Policy
from audit.record import AuditRecord


def hold_demands(
    record: AuditRecord, policy: Policy, findings: Sequence[Finding]
) -> tuple[list[Finding], list[Demand]]:
    """Leave undecided what a demand needs, and list the demands that nothing can answer.

    Args:
        record: record of a scan; a text alone answers no demand.
        policy: policy that the record is held against.
        findings: one for each limit.

    Returns:
        The findings, and the demands that the gaps permit to stay open.
    """
    if not record.target.is_model:
        return [*findings], []
    answering = set()
    excused = set()
    for finding in findings:
        attack = finding.facts.limit.attack
        if finding.facts.about_text:
            continue
        if finding.outcome not in ("inapplicable", "not run"):
            answering.add(attack)
        elif finding.outcome == "not run":
            excused.add(attack)
    needed: dict[str, Demand] = {}
    permitted = []
    for demand, first_attack in unanswered(policy, record.target.task, answering, excused):
        if first_attack is None:
            permitted.append(demand)
        else:
            needed[first_attack] = demand
    return [_leave_open(finding, needed) for finding in findings], permitted


def unanswered(
    policy: Policy, task: str, answering: Collection[str], excused: Collection[str]
) -> Iterator[tuple[Demand, str | None]]:
    """Yield the demands that no attack answers, each with the attack that would.

    None where the gaps permit them all.

    Args:
        policy: policy with demands and gaps.
        task: task of the model.
        answering: attacks with a limit that was decided, or that is undecided already.
        excused: attacks that the policy excuses for what the data set does not hold.
    """
    permitted = {gap.attack for gap in policy.gaps if task in gap.tasks}
    for demand in policy.demands:
        if set(demand.any_of) & set(answering):
            continue
        possible = [name for name in demand.any_of if name in excused and name not in permitted]
        yield demand, next(iter(possible), None)


def _leave_open(finding: Finding, needed: Mapping[str, Demand]) -> Finding:
    """Make a limit that was not run undecided where a demand needs its attack.

    Keep all other findings.
    """
    demand = needed.get(finding.facts.limit.attack)
    if demand is None or finding.outcome != "not run" or finding.facts.about_text:
        return finding
    return replace(finding, outcome="undecided", cause="unmeasured", demand=demand)
