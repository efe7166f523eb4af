"""Answer an audit in plain sentences: what was found, and what to do first.

For page one and for a terminal.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from audit.attacks import TEXTS, text_of
from audit.attacks.text import AttackText, Metric, sentence_case
from audit.errors import listed
from audit.measurements import Estimate
from audit.policy import Overall, Verdict
from audit.policy.checks import AGAIN, bounded
from audit.policy.reasons import ALL, MORE, NO_HELDOUT
from audit.record import AuditRecord, Result
from audit.report import numbers
from audit.report.numbers import amount, between, interval, reached, show

_TABLES = tomllib.loads((Path(__file__).parent / "labels.toml").read_text(encoding="utf-8"))
UTILITY = AttackText(
    metrics={name: Metric(**metric) for name, metric in _TABLES.pop("utility").items()}
)
"""Labels of the measurements of what the model is good for."""
LABELS: dict[str, dict[str, str]] = _TABLES
"""Words for names in records and verdicts: by kind of name, then by name."""


def deciding_outcome(verdict: Verdict) -> Overall:
    """Return the outcome that decides: of limits on the model, or on the text where these are worse and count."""
    if not verdict.text_counts or verdict.text is None:
        return verdict.overall
    worst: tuple[Overall, ...] = ("violated", "undecided", "waived", "passed")
    return min(verdict.overall, verdict.text, key=worst.index)


EXTRACTING = ("reconstruction", "memorisation", "attribute_inference", "canaries")
"""Attacks that give values back; the others recognise documents, companies or kinds of values."""


def headline(record: AuditRecord, verdict: Verdict) -> str:
    """Return the answer in a sentence: what an attacker can do, or what the limits say."""
    outcome, words = deciding_outcome(verdict), LABELS["headlines"]
    if verdict.contradicted is not None:
        return words["contradicted"]
    own = verdict.overall if record.target.is_model else None
    subject = "forgotten" if record.corpus.forgotten else "model" if own == outcome else "text"
    if outcome not in ("violated", "waived"):
        return words[f"{outcome} {subject}"].format(policy=verdict.policy)
    over = {one.limit.attack for one in verdict.decisions if one.outcome in ("violated", "waived")}
    kind = (
        subject if subject != "model" else "extracting" if over & {*EXTRACTING} else "recognising"
    )
    accepted = f" {sentence_case(_name_waivers(verdict))}." if outcome == "waived" else ""
    return f"{words[f'violated {kind}']}{accepted}"


def _name_waivers(verdict: Verdict) -> str:
    """Say who accepted the leaks, and until when."""
    waivers = list(
        dict.fromkeys(item.waiver for item in verdict.decisions if item.waiver is not None)
    )
    named = dict.fromkeys((waiver.owner, waiver.role, waiver.expires) for waiver in waivers)
    who = [
        f"{owner} ({role}) accepts this until {numbers.day(str(day))}" for owner, role, day in named
    ]
    return f"the waiver states: {' and '.join(who)}"


def explanation(record: AuditRecord, verdict: Verdict) -> str:
    """Say what follows from the answer, and what it does not say."""
    outcome = deciding_outcome(verdict)
    if verdict.contradicted is not None:
        return f"{sentence_case(verdict.contradicted)}. Nobody should rely on the guarantee."
    if outcome == "undecided":
        return _explain_undecided(verdict)
    told = LABELS["explanations"]
    if outcome == "violated" != verdict.overall and record.target.is_model:
        return told["violated by text"]
    kind = (
        " forgotten"
        if record.corpus.forgotten
        else LABELS["families"].get(record.target.family, "")
    )
    return told.get(outcome + kind, told[outcome]).format(
        policy=verdict.policy, corpus=record.corpus
    )


def name_documents(record: AuditRecord | None, text: str) -> str:
    """Call the members of a record documents to be forgotten where the model was to forget them."""
    for usual, own in LABELS["forgotten"].items() if record and record.corpus.forgotten else ():
        text = text.replace(usual, own)
    return text


def _explain_undecided(verdict: Verdict) -> str:
    reason = verdict.reason
    if verdict.counted:
        reason = reason.replace(verdict.counted, "")
    reason = reason.strip(" :,;")
    told = f"{sentence_case(reason)}. " if reason else ""
    if verdict.exit_code == 0:
        return f"{told}Undecided is not a pass. The policy lets it through with a warning."
    return f"{told}Undecided is not a pass. Take the first action below and scan again."


def findings(record: AuditRecord, verdict: Verdict) -> Iterator[str]:
    """Say in a line what each attack found that has an undecided limit, with count and interval.

    Args:
        record: the scan.
        verdict: on it.
    """
    undecided = [decision for decision in verdict.decisions if decision.outcome == "undecided"]
    for result in record.completed.values():
        causes = {
            decision.cause for decision in undecided if decision.limit.attack == result.attack
        }
        if causes:
            measured = plainest(result, verdict)
            few = "; too few to say more" if causes <= {"wide", "unresolved"} else ""
            if measured is None:
                yield f"{result.attack}: nothing could be measured{few}"
            else:
                beside = _compare_with_unseen(result, measured)
                yield f"{result.attack}: {finding_sentence(result.attack, measured)}{beside}{few}"


def deciding_numbers(verdict: Verdict | None) -> dict[tuple[str, str], Estimate]:
    """Return by attack and metric the number that decides a limit, under the metric's name, whatever its method."""
    return {
        (one.limit.attack, one.limit.metric): replace(one.measured, name=one.limit.metric)
        for one in (verdict.decisions if verdict is not None else ())
        if one.measured is not None
    }


def plainest(result: Result, verdict: Verdict | None = None) -> Estimate | None:
    """Return the number that says most plainly what an attack found: a share, else what sums the attack up.

    A number that a limit of the verdict is about is that of the method that decides.
    """
    text = TEXTS.get(result.attack)
    named = () if text is None else (text.found, *text.trend.summary.values())
    estimates = {item.name: item for item in result.measurements if isinstance(item, Estimate)}
    estimates |= {
        metric: item
        for (attack, metric), item in deciding_numbers(verdict).items()
        if attack == result.attack
    }
    wanted = [
        estimates[name] for name in (*named, *text_of(result.attack).names) if name in estimates
    ]
    return wanted[0] if wanted else None


def finding_sentence(attack: str, measured: Estimate) -> str:
    """Say what a measurement of an attack is, with count or value and interval."""
    text = TEXTS.get(attack)
    if text is None:
        return f"{measured.name} {show(measured.value, 'number')} ({between(measured, 'number')})"
    form = text.metric(measured.name).form
    counted = form == "share" and text.metric(measured.name).counted
    value = f"{reached(measured)} {measured.unit}" if counted else amount(measured, form)
    chance = f", {show(0.5, form)} is guessing" if measured.is_area else ""
    label = text.label(measured.name)
    return f"{label}: {value} ({interval(measured, form)}{chance})".replace("\u00a0", " ")


def _compare_with_unseen(result: Result, measured: Estimate) -> str:
    """Say what the same attacker reaches on held-out documents, else without the model."""
    known, name = TEXTS.get(result.attack), measured.name.replace(".member", ".heldout")
    if known is None or known.metric(measured.name).form != "share":
        return ""
    twin = next((item for item in result.measurements if item.name == name != measured.name), None)
    if isinstance(twin, Estimate):
        text = f", against {reached(twin)} ({interval(twin, 'share')}) declared as never seen"
    elif measured.null is not None and measured.null_kind == "public model":
        text = f", against {show(measured.null, 'share')} without the model"
    else:
        return ""
    return text.replace("\u00a0", " ")


def decides_most(record: AuditRecord, verdict: Verdict) -> str:
    """Name the one thing that would decide most undecided limits; empty where none is undecided.

    Unseen documents come first where there are none, then what the budget or a bound left untried,
    then the commonest remedy.
    """
    undecided = [decision for decision in verdict.decisions if decision.outcome == "undecided"]
    if not undecided:
        return ""
    alone = sum(one.remedy == NO_HELDOUT for one in undecided)
    if alone:
        return f"{_to_decide(alone, len(undecided))}: {NO_HELDOUT}."
    left = [one for one in undecided if one.remedy == ALL]
    if left:
        return f"{_to_decide(len(left), len(undecided))}: {_rerun(record) or ALL}."
    remedies = Counter(one.remedy for one in undecided if one.remedy)
    (remedy, count), *_ = [*remedies.most_common(1), ("", 0)]
    if not remedy:
        return ""
    told = (
        ""
        if remedy != AGAIN
        else f"{next(one.reason for one in undecided if one.remedy == AGAIN)}; "
    )
    there = sum(record.corpus.documents.get(split, 0) for split in ("member", "heldout"))
    rerun = _rerun(record) if remedy.endswith(MORE) else ""
    more = f" (the data set holds {there:,}: {rerun})" if rerun else ""
    return f"{_to_decide(count, len(undecided))}: {told}{remedy}{more}."


def _to_decide(count: int, all_of: int) -> str:
    return f"To decide {count} of {all_of} undecided {'limit' if all_of == 1 else 'limits'}"


def _rerun(record: AuditRecord) -> str:
    """Say without which options a scan tries all documents; empty where it tried all."""
    options = ["--budget quick"] if record.share < 1 else []
    options += ["--documents", "--time"] if bounded(record) else []
    return f"rerun without {listed(options, 'and')}" if options else ""
