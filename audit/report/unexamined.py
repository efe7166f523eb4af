"""Everything that a scan says nothing about: gaps that could have been examined, and what does not apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from audit.attacks import TEXTS
from audit.policy import Verdict
from audit.record import AttackResult, AuditRecord, Completed, Failed, Inapplicable, LeftOut, Skipped
from audit.report import numbers
from audit.report.attack_text import AttackMacros

TOO_OLD, SCAN_AGAIN = "not in the version that scanned", "scan again"
NEVER = (
    "No attack tries to give back pictures, such as signatures or photographs: what is attacked is words. Attacks that "
    "nobody has published yet are not among those that were run."
)


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


def unexamined(record: AuditRecord, verdict: Verdict, texts: Mapping[str, AttackMacros]) -> Unexamined:
    """List what a record says nothing about.

    Args:
        record: the scan.
        verdict: on it: what a policy asks for all the same is a gap.
        texts: of every attack that the record names.
    """
    left_out = {item.attack: item for item in record.left_out}
    asked = {result.attack for result in record.attacks}
    results: dict[str, AttackResult | LeftOut | None] = {
        **{result.attack: result for result in record.attacks if not isinstance(result, Completed)},
        **{name: left_out.get(name) for name in record.battery if name not in asked},
    }
    wanted = {decision.limit.attack: decision.remedy for decision in verdict.decisions if decision.cause == "gap"}
    gaps: list[Gap] = []
    harmless: dict[str, list[str]] = {}
    if not record.target.is_model:
        gaps.append(_no_model())
    for attack, result in results.items():
        text = texts[attack]
        absent = _inapplicable(result)
        if absent is not None and attack not in wanted:
            harmless.setdefault(absent, []).append(text.title)
        else:
            reason, remedy = (absent, wanted[attack]) if absent is not None else _why(result)
            gaps.append(Gap(text.title, text.report.question, reason, remedy))
    if record.target.is_model:
        reports = [(name, text) for name, text in TEXTS.items() if name not in record.battery]
        gaps += [Gap(one.title or name, one.question, TOO_OLD, SCAN_AGAIN) for name, one in reports]
    return Unexamined(
        tuple(gaps),
        tuple((", ".join(titles), reason) for reason, titles in harmless.items()),
        (*_in_part(record, texts), NEVER),
    )


def _no_model() -> Gap:
    return Gap(
        "Any model",
        "What does a model that was trained on these documents give away?",
        "no model was audited",
        "docaudit scan MODEL_DIR DATA_DIR",
    )


def _inapplicable(result: AttackResult | LeftOut | None) -> str | None:
    """Why an attack is none on this model or data set; None where it is one."""
    if isinstance(result, Inapplicable):
        return result.reason
    return result.inapplicable if isinstance(result, LeftOut) else None


def _why(result: AttackResult | LeftOut | None) -> tuple[str, str]:
    """Why an attack gave no result, and what would let it."""
    match result:
        case Skipped():
            return result.reason, result.provide
        case Failed():
            return f"broke down ({result.type} at {result.place})", "report this failure with the record"
        case LeftOut(lacks=str(lacks)):
            return f"not asked for in this scan; {lacks}", "scan without --only"
        case _:
            return "not asked for in this scan", "scan without --only"


def _in_part(record: AuditRecord, texts: Mapping[str, AttackMacros]) -> Iterator[str]:
    """What was examined, and not as far as it could be, a sentence each."""
    if record.share < 1:
        share = numbers.show(record.share, "share")
        yield f"A part of the values: the budget “{record.budget}” took {share} of what could be tried."
    for untested in record.untested:
        yield f"Not tested: {untested}."
    bounds = record.bounds
    if bounds is not None and bounds.documents is not None:
        yield f"A part of the documents: at most {bounds.documents:,} of those trained on and never seen were tried."
    elif bounds is not None and bounds.seconds is not None:
        yield f"A part of the documents: they were tried as far as {numbers.duration(bounds.seconds)} allowed."
    for result in record.attacks:
        if isinstance(result, Completed):
            title = texts[result.attack].title
            for ablation in result.ablations:
                yield f"{title}, with the attacker weakened: {ablation}. Nothing is passed on that."
            if result.parameters_file:
                yield f"{title}, with parameters that a file set in place of the usual ones."
