"""Answer an audit in plain sentences: what was found, and what to do first.

For page one and for a terminal.
"""

from collections.abc import Iterator, Sequence

from audit.attacks import text_of
from audit.attacks.text import sentence_case
from audit.policy import Verdict
from audit.policy.grounds import Remedy
from audit.policy.reasons import rerun_without
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.facts.definitions import Facts, NextStep, QuestionFacts
from audit.report.labels import LABELS
from audit.report.numbers import NBSP, interval, reached, show
from audit.report.sentences import finding_sentence

HOLDERS = LABELS["holders"]


def headline(facts: Facts) -> str:
    """Return the answer in a sentence: what an attacker can do, or what the limits say."""
    verdict = facts.verdict
    words = LABELS["headlines"]
    if verdict.contradicted is not None:
        return words["contradicted"]
    derived = facts.record.derived_from
    if derived is not None and derived.outcome == "more":
        return words["export leaks more"]
    subject = _subject(facts)
    if facts.outcome not in ("violated", "waived"):
        return words[f"{facts.outcome} {subject}"].format(policy=verdict.policy)
    kind = subject
    who = _holder(facts.rows_on_model)
    if subject == "model":
        kind = "extracting" if facts.gives_values_back else "recognising"
    sentence = _counted_headline(facts) or words[f"violated {kind}"].format(who=who)
    if facts.outcome == "waived":
        return f"{sentence} {sentence_case(_name_waivers(verdict))}."
    return sentence


def headline_row(facts: Facts) -> QuestionFacts | None:
    """Return the attack that page one's first sentence counts: the worst one that got values back.

    None where no leak of values of the model is confirmed, or none is counted.
    """
    if facts.outcome not in ("violated", "waived") or _subject(facts) != "model":
        return None
    for row in facts.rows:
        is_counted = row.trained is not None and numbers.exact_count(row.trained) is not None
        if row.leaks and is_counted and text_of(row.attack).headline:
            return row
    return None


def _counted_headline(facts: Facts) -> str:
    """Say how many values an attacker gets back; empty where no such leak is counted."""
    row = headline_row(facts)
    if row is None or row.trained is None:
        return ""
    n_member = f"{numbers.exact_count(row.trained):,}"
    template = text_of(row.attack).headline
    who = _holder([row])
    return template.format(who=who, n_member=n_member, of_member=f"{row.trained.n:,}")


def _holder(rows: Sequence[QuestionFacts]) -> str:
    """Say who attacks, by what the deciding number of the first confirmed leak needs."""
    for row in rows:
        if row.leaks:
            return HOLDERS[row.access]
    return HOLDERS["weights"]


def _subject(facts: Facts) -> str:
    """Name what the answer is about: the model, the documents to be forgotten, or the text."""
    if facts.record.corpus.forgotten:
        return "forgotten"
    if facts.record.target.is_model and facts.verdict.overall == facts.outcome:
        return "model"
    return "text"


def _name_waivers(verdict: Verdict) -> str:
    """Say who accepted the leaks, and until when."""
    acceptances: dict[str, None] = {}
    for decision in verdict.decisions:
        waiver = decision.waiver
        if waiver is not None:
            until = numbers.day(str(waiver.expires))
            acceptances[f"{waiver.owner} ({waiver.role}) accepts this until {until}"] = None
    return f"the waiver states: {' and '.join(acceptances)}"


def explanation(facts: Facts) -> str:
    """Write the sentences below the answer: what follows from it, and what it leaves open."""
    record = facts.record
    verdict = facts.verdict
    outcome = facts.outcome
    if verdict.contradicted is not None:
        return f"{sentence_case(verdict.contradicted)}. Nobody should rely on the guarantee."
    if outcome == "undecided":
        return _explain_undecided(verdict)
    words = LABELS["explanations"]
    by_text_alone = outcome == "violated" and verdict.overall != "violated"
    if by_text_alone and record.target.is_model:
        return words["violated by text"]
    kind = LABELS["families"].get(record.target.family, "")
    if record.corpus.forgotten:
        kind = " forgotten"
    sentence = words.get(f"{outcome}{kind}", words[outcome])
    return sentence.format(policy=verdict.policy, corpus=record.corpus)


def name_documents(record: AuditRecord | None, text: str) -> str:
    """Call the members of a record documents to be forgotten where the model was to forget them."""
    if record is None or not record.corpus.forgotten:
        return text
    for usual, forgotten in LABELS["forgotten"].items():
        text = text.replace(usual, forgotten)
    return text


def _explain_undecided(verdict: Verdict) -> str:
    """Return the reason of an undecided verdict, with what it means for the pass, as sentences."""
    reason = verdict.reason_with("").strip(" :,;")
    sentences = f"{sentence_case(reason)}. " if reason else ""
    if verdict.exit_code == 0:
        return f"{sentences}Undecided is not a pass. The policy lets it through with a warning."
    return f"{sentences}Undecided is not a pass. Take the first action below and scan again."


def findings(facts: Facts) -> Iterator[str]:
    """Say in a line what each attack found that has an undecided limit, with count and interval."""
    for row in facts.in_order:
        if row.open_causes:
            few = "; too few to say more" if row.open_causes <= {"wide", "unresolved"} else ""
            yield f"{row.attack}: {_found_sentence(row)}{few}"


def _found_sentence(row: QuestionFacts) -> str:
    """Write the plainest number of an attack, and what its attacker reaches without the leak."""
    if row.plainest is None:
        return "nothing could be measured"
    return f"{finding_sentence(row.attack, row.plainest)}{_compare_with_unseen(row)}"


def _compare_with_unseen(row: QuestionFacts) -> str:
    """Write what the same attacker reaches on unseen documents, else without the model."""
    unseen = row.plainest_unseen
    if unseen is not None:
        share = f"{reached(unseen)} ({interval(unseen, 'share')})"
        return f", against {share} declared as never seen".replace(NBSP, " ")
    if row.without_model is not None:
        share = show(row.without_model, "share")
        return f", against {share} without the model".replace(NBSP, " ")
    return ""


def decides_most(facts: Facts) -> str:
    """Name the one thing to do about undecided limits; empty where none is undecided.

    An alarm is named instead, of a leak that is confirmed too.
    """
    if facts.alarm is not None:
        return f"{sentence_case(facts.alarm.reason)}. {sentence_case(facts.alarm.remedy)}."
    step = facts.next_step
    if step is None:
        return ""
    remedy = step.remedy
    rerun = _rerun_hint(facts.record, step)
    if step.remedy_id is Remedy.ALL:
        remedy = rerun or remedy
    more = ""
    if step.documents is not None and rerun:
        more = f" (the data set holds {step.documents:,}: {rerun})"
    return f"{_to_decide(step)}: {remedy}{more}."


def _to_decide(step: NextStep) -> str:
    """Write how many undecided limits a step decides: "To decide 2 of 3 undecided limits"."""
    limits = "limit" if step.open == 1 else "limits"
    return f"To decide {step.decides} of {step.open} undecided {limits}"


def _rerun_hint(record: AuditRecord, step: NextStep) -> str:
    """Say without which options a scan tries all documents; empty where it tried all."""
    options: dict[str, None] = {}
    for attack, _ in sorted(step.limits):
        options.update(dict.fromkeys(record.limiting_options(attack)))
    if not options:
        return ""
    return rerun_without([*options])
