"""Say what a scan tells nothing about, and what remains whatever is decided."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.attacks import TEXTS, text_of
from audit.policy import Decision, Policy, Verdict
from audit.record import AuditRecord
from audit.report.coverage import CoverageRow, coverage, why_not_run
from audit.report.facts.definitions import Facts
from audit.report.labels import LABELS
from audit.report.leaks import tried_in_part

REMAINS = LABELS["remains"]
"""Sentences on what remains, and their beginnings by what became of limits, the gravest first."""


@dataclass(frozen=True)
class Gap:
    """What could have been examined.

    Attributes:
        question: the question that stays open.
        reason: why it was not examined.
        remedy: what would let it be; empty where nothing would.
    """

    title: str
    question: str
    reason: str
    remedy: str


NO_MODEL = Gap(
    "Any model",
    "What does a model that was trained on these documents give away?",
    "no model was audited",
    "docaudit scan MODEL_DIR DATA_DIR, with its folder as MODEL_DIR",
)
"""The gap of a record of the documents' text alone."""


@dataclass(frozen=True)
class Unexamined:
    """What was not examined.

    Attributes:
        gaps: what could have been examined.
        harmless: what does not apply, by reason: titles of attacks, and the reason.
        parts: in sentences, what was examined in part.
    """

    gaps: tuple[Gap, ...]
    harmless: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]


def unexamined(record: AuditRecord, verdict: Verdict) -> Unexamined:
    """List what a record says nothing about.

    Args:
        record: the scan.
        verdict: on it: what a policy asks for all the same is a gap.
    """
    demanded = {
        decision.limit.attack: decision.remedy
        for decision in verdict.decisions
        if decision.cause == "gap"
    }
    gaps: list[Gap] = []
    harmless: dict[str, list[str]] = {}
    if not record.target.is_model:
        gaps.append(NO_MODEL)
    for attack in _attacks_not_run(record):
        state, reason, remedy = why_not_run(record, attack)
        text = text_of(attack)
        title = text.title or attack
        if state == "not applicable" and attack not in demanded:
            harmless.setdefault(reason, []).append(title)
        else:
            gaps.append(Gap(title, text.question, reason, demanded.get(attack, remedy)))
    return Unexamined(
        tuple(gaps),
        tuple((", ".join(titles), reason) for reason, titles in harmless.items()),
        (*_examined_in_part(record), REMAINS["never"]),
    )


def _attacks_not_run(record: AuditRecord) -> list[str]:
    """List the attacks that did not run to an end: of the record, of its battery, and all others.

    Of a record without a model the others are left out.
    """
    names = [*(result.attack for result in record.attacks), *record.battery]
    if record.target.is_model:
        names += TEXTS
    return [name for name in dict.fromkeys(names) if name not in record.completed]


def _examined_in_part(record: AuditRecord) -> Iterator[str]:
    """Yield a sentence on whatever was examined, and not as far as it could be."""
    yield from tried_in_part(record)
    for untested in record.untested:
        yield f"Not tested: {untested}."
    for result in record.completed.values():
        title = text_of(result.attack).title or result.attack
        for ablation in result.ablations:
            yield f"{title}, with the attacker weakened: {ablation}. No limit is met on that."
        if result.parameters_file:
            yield f"{title}, with parameters that a file set in place of the usual ones."


def residual_risk(facts: Facts, policy: Policy) -> tuple[str, ...]:
    """Say what remains, the gravest first: a paragraph each, as plain text.

    Args:
        facts: facts of the scan and of the verdict on it.
        policy: policy that it was held against.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    record = facts.record
    verdict = facts.verdict
    rows = coverage(facts)
    paragraphs: list[str] = []
    if verdict.contradicted:
        paragraphs.append(
            f"The guarantee that the model’s training claims does not hold: {verdict.contradicted}."
        )
    paragraphs += _limits(facts, policy)
    paragraphs.append(_not_examined(rows))
    paragraphs.append(_owner_declarations(record))
    paragraphs.append(_out_of_reach(rows))
    return tuple(filter(None, paragraphs))


def _limits(facts: Facts, policy: Policy) -> Iterator[str]:
    """Yield a paragraph on the limits of each outcome that leaves something.

    It names their attacks, and how many limits of each. Attacks that did not run are not among
    them.
    """
    verdict = facts.verdict
    n_met = sum(decision.outcome == "passed" for decision in verdict.decisions)
    counted = "One limit is" if n_met == 1 else f"{n_met} limits are"
    groups: dict[str, Counter[str]] = {}
    for decision in verdict.decisions:
        group = _group_of(decision)
        attack = decision.limit.attack
        if group == "not run" and attack not in facts.record.completed:
            continue
        if group in REMAINS:
            groups.setdefault(group, Counter())[text_of(attack).title or attack] += 1
    for group in sorted(groups, key=[*REMAINS].index):
        listed = "; ".join(_count_limits(*item) for item in groups[group].items())
        yield REMAINS[group].format(counted=counted, policy=policy.name, listed=listed)


def _group_of(decision: Decision) -> str:
    """Return the outcome of a limit; a violated one on the documents' text stands by itself."""
    if decision.outcome == "violated" and decision.about_text:
        return "violated by text"
    return decision.outcome


def _count_limits(title: str, n: int) -> str:
    """Write a title with its number of limits: "Membership (2 limits)"."""
    return f"{title} ({n} {'limit' if n == 1 else 'limits'})"


def _not_examined(rows: Sequence[CoverageRow]) -> str:
    """Name what was not tested; empty where all was."""
    titles: dict[str, None] = {}
    for row in rows:
        titles.update(
            dict.fromkeys(tried.title for tried in row.tried if tried.state == "not tested")
        )
    return REMAINS["not tested"].format(listed="; ".join(titles)) if titles else ""


def _out_of_reach(rows: Sequence[CoverageRow]) -> str:
    """Name what lies outside of any audit of a model."""
    outside = [row.outside for row in rows if row.state != "out of scope" and row.outside]
    return REMAINS["outside"].format(outside="; ".join(dict.fromkeys(outside)))


def _owner_declarations(record: AuditRecord) -> str:
    """Say what rests on the owner's declarations; empty where no attack ran to an end."""
    if not record.target.is_model:
        return REMAINS["no model"]
    if not record.completed:
        return ""
    return REMAINS["forgotten" if record.corpus.forgotten else "declared"]
