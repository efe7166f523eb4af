"""Say what a scan tells nothing about, and what remains whatever is decided."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from audit.attacks import TEXTS, text_of
from audit.policy import Policy, Verdict
from audit.record import AuditRecord
from audit.report.answer import LABELS
from audit.report.coverage import CoverageRow, coverage, why_not_run
from audit.report.leaks import tried_in_part

REMAINS = LABELS["remains"]
"""Sentences on what remains, and their beginnings by what became of limits, the gravest first."""


@dataclass(frozen=True)
class Gap:
    """What could have been examined.

    Attributes:
        question: that stays open.
        reason: why it was not examined.
        remedy: what would let it be; empty where nothing would.
    """

    title: str
    question: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class Unexamined:
    """What was not examined: gaps, what does not apply by reason, and in sentences what was examined in part."""

    gaps: tuple[Gap, ...]
    harmless: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]


def unexamined(record: AuditRecord, verdict: Verdict) -> Unexamined:
    """List what a record says nothing about.

    Args:
        record: the scan.
        verdict: on it: what a policy asks for all the same is a gap.
    """
    wanted = {
        decision.limit.attack: decision.remedy
        for decision in verdict.decisions
        if decision.cause == "gap"
    }
    gaps: list[Gap] = []
    harmless: dict[str, list[str]] = {}
    if not record.target.is_model:
        question = "What does a model that was trained on these documents give away?"
        gaps.append(
            Gap("Any model", question, "no model was audited", "docaudit scan MODEL_DIR DATA_DIR")
        )
    named = [*(result.attack for result in record.attacks), *record.battery]
    for attack in dict.fromkeys([*named, *(TEXTS if record.target.is_model else ())]):
        if attack in record.completed:
            continue
        state, reason, remedy = why_not_run(record, attack)
        text = text_of(attack)
        title = text.title or attack
        if state == "not applicable" and attack not in wanted:
            harmless.setdefault(reason, []).append(title)
        else:
            gaps.append(Gap(title, text.question, reason, wanted.get(attack, remedy)))
    return Unexamined(
        tuple(gaps),
        tuple((", ".join(titles), reason) for reason, titles in harmless.items()),
        (*_in_part(record), REMAINS["never"]),
    )


def _in_part(record: AuditRecord) -> Iterator[str]:
    """Yield a sentence on whatever was examined, and not as far as it could be."""
    yield from tried_in_part(record)
    for untested in record.untested:
        yield f"Not tested: {untested}."
    for result in record.completed.values():
        title = text_of(result.attack).title or result.attack
        for ablation in result.ablations:
            yield f"{title}, with the attacker weakened: {ablation}. Nothing is passed on that."
        if result.parameters_file:
            yield f"{title}, with parameters that a file set in place of the usual ones."


def residual_risk(record: AuditRecord, verdict: Verdict, policy: Policy) -> tuple[str, ...]:
    """Say what remains, the gravest first: a paragraph each, as plain text.

    Args:
        record: the scan.
        verdict: on it.
        policy: that it was held against.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    rows = coverage(record, verdict)
    told = list(_limits(verdict, policy))
    if verdict.contradicted:
        told.insert(
            0,
            f"The guarantee that the model’s training claims does not hold: {verdict.contradicted}.",
        )
    outside = _join_unique(
        row.outside for row in rows if row.state != "out of scope" and row.outside
    )
    remains = (
        *told,
        _not_examined(rows),
        _declared(record),
        REMAINS["outside"].format(outside=outside),
    )
    return tuple(filter(None, remains))


def _limits(verdict: Verdict, policy: Policy) -> Iterator[str]:
    """Yield a paragraph on the limits of each outcome that leaves something: their attacks, and how many of each."""
    met = sum(one.outcome == "passed" for one in verdict.decisions)
    counted = "One limit is" if met == 1 else f"{met} limits are"
    groups: dict[str, Counter[str]] = {}
    for one in verdict.decisions:
        name = "violated by text" if one.outcome == "violated" and one.about_text else one.outcome
        if name in REMAINS:
            groups.setdefault(name, Counter())[
                text_of(one.limit.attack).title or one.limit.attack
            ] += 1
    for head in sorted(groups, key=[*REMAINS].index):
        listed = "; ".join(
            f"{title} ({n} {'limit' if n == 1 else 'limits'})" for title, n in groups[head].items()
        )
        yield REMAINS[head].format(counted=counted, policy=policy.name, listed=listed)


def _join_unique(items: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(items))


def _not_examined(rows: tuple[CoverageRow, ...]) -> str:
    gaps = _join_unique(
        tried.title for row in rows for tried in row.tried if tried.state == "not tested"
    )
    return REMAINS["not tested"].format(listed=gaps) if gaps else ""


def _declared(record: AuditRecord) -> str:
    if not record.target.is_model:
        return REMAINS["no model"]
    return (
        REMAINS["forgotten" if record.corpus.forgotten else "declared"] if record.completed else ""
    )
