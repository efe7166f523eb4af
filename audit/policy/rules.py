"""The rules by which limits are decided, in their order: the first that finds something decides.

A rule reads facts and writes no sentence, see `audit.policy.reasons`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from audit.cards import SERVED
from audit.measurements import (
    LABEL_ORDER,
    REFUSALS,
    UNLIKE_SIDES,
    WAY_OF_WRITING,
    Check,
    Count,
    Coverage,
    Estimate,
    Role,
    Unresolved,
)
from audit.policy.checks import UNDER_CHANCE
from audit.policy.decision import Cause
from audit.policy.facts import LimitFacts
from audit.policy.findings import Finding, LeftOut, OtherAttacks, Shortfall
from audit.policy.grounds import Ground, Remedy
from audit.record import SIGNIFICANCE, AuditRecord

Rule = Callable[[LimitFacts], Finding | None]
QUESTIONS = (
    ("reconstruction", "memorisation", "attribute_inference", "canaries"),
    ("membership", "provider_membership"),
)
"""Attacks that ask one question each: what a model gives back, and what it was trained on."""
MOST_DOCUMENTS = 0.1
"""Share of the member, or of the held-out, documents that a pass may do without."""
MOST_QUESTIONS = 0.5
"""The same of questions: the documents are judged by the others that they are asked."""
REFERENCES: dict[Role, Remedy] = {
    "baselines": Remedy.GIVE_BASELINE,
    "splits": Remedy.TRAIN_SPLITS,
}
"""What gives a reference that a number lacks, by its role."""
MISUNDERSTANDINGS = (LABEL_ORDER, REFUSALS, WAY_OF_WRITING)
"""Checks of why a model fails at its task, the first one first."""
OF_ANSWERS = "anls"
"""The measure of usefulness of models that answer questions."""
REFERENCE_POWER = "reference_power"
"""The power of attacks that a better reference makes stronger."""


def decide(facts: LimitFacts) -> Finding:
    """Return the finding of the first rule that applies to one limit."""
    finding = _first_finding(RULES, facts)
    assert finding is not None
    return finding


def hindrance(facts: LimitFacts) -> Finding | None:
    """Return what speaks against a pass whatever the interval; None where nothing does."""
    return _first_finding(HINDRANCES, facts)


def _first_finding(rules: Sequence[Rule], facts: LimitFacts) -> Finding | None:
    """Return the finding of the first rule that makes one; None where none does."""
    for rule in rules:
        finding = rule(facts)
        if finding is not None:
            return finding
    return None


# Rules on attacks that gave no number.


def attack_is_unknown(facts: LimitFacts) -> Finding | None:
    """Leave open a limit on an attack that the version of the record did not have."""
    if facts.limit.attack in facts.record.battery:
        return None
    remedy = Remedy.SCAN_WITH_THIS_VERSION
    if not facts.limit.required:
        return _excused_finding(facts, Ground.UNKNOWN_ATTACK, remedy)
    return _undecided_finding(facts, Ground.UNKNOWN_ATTACK, remedy, "unmeasured")


def number_is_lacking(facts: LimitFacts) -> Finding | None:
    """Leave open a limit on a number that a completed attack did not give."""
    if facts.result.reason is not None or facts.number is not None:
        return None
    return _undecided_finding(facts, Ground.NO_NUMBER, Remedy.RUN_AGAIN, "unmeasured")


def attack_does_not_apply(facts: LimitFacts) -> Finding | None:
    """Leave out a limit that could not be held against this kind of model."""
    if not facts.result.lifts_limits:
        return None
    return _inapplicable(facts)


def attack_failed(facts: LimitFacts) -> Finding | None:
    """Leave open a limit on an attack that broke down."""
    if facts.result.reason is None or facts.result.status != "failed":
        return None
    return _undecided_finding(facts, Ground.FAILED, Remedy.REPORT_FAILURE, "unmeasured")


def attack_was_not_run(facts: LimitFacts) -> Finding | None:
    """Leave open a limit on an attack that was skipped or left out, unless the policy excuses it.

    A gap that is permitted to models of this task whatever they read is permitted to those that
    could be asked, and of whose pages the data set says nothing that can be asked.
    """
    reason = facts.result.reason
    if reason is None:
        return None
    ground = Ground.NOT_RUN
    if facts.result.status == "skipped":
        ground = Ground.SKIPPED
    elif reason.kind == "data":
        ground = Ground.NO_DATA
    is_optional = not facts.limit.required or facts.permitted
    if reason.kind == "data" and is_optional:
        return _excused_finding(facts, ground, Remedy.OF_ATTACK)
    return _undecided_finding(facts, ground, Remedy.OF_ATTACK, "unmeasured")


def _undecided_finding(facts: LimitFacts, ground: Ground, remedy: Remedy, cause: Cause) -> Finding:
    """Leave a limit undecided without a number."""
    return Finding(facts, "undecided", ground, remedy, cause)


def _excused_finding(facts: LimitFacts, ground: Ground, remedy: Remedy) -> Finding:
    """Call a limit not run, as the policy does without it."""
    return Finding(facts, "not run", ground, remedy)


def _inapplicable(facts: LimitFacts) -> Finding:
    """Leave out what this model cannot be asked, or leave it open where no gap permits that."""
    record = facts.record
    if not record.target.is_model or facts.permitted:
        return Finding(facts, "inapplicable", Ground.INAPPLICABLE)
    if record.target.family == SERVED:
        return _undecided_finding(facts, Ground.GAP, Remedy.AUDIT_WEIGHTS, "gap")
    possible = []
    for attack in _asking_the_same(facts.limit.attack):
        result = record.results.get(attack)
        if result is None or not result.lifts_limits:
            possible.append(attack)
    if not possible:
        return _undecided_finding(facts, Ground.GAP, Remedy.NO_OTHER_ATTACK, "gap")
    finding = _undecided_finding(facts, Ground.GAP, Remedy.OTHER_ATTACK, "gap")
    return replace(finding, source=OtherAttacks(tuple(possible)))


def _asking_the_same(attack: str) -> list[str]:
    """List the other attacks that ask the question of an attack; empty where it asks one alone."""
    for attacks in QUESTIONS:
        if attack in attacks:
            return [name for name in attacks if name != attack]
    return []


# Rules on numbers that could not be had, or that no model could exceed.


def count_cannot_exceed(facts: LimitFacts) -> Finding | None:
    """Leave open a count of so few units that none could violate the limit."""
    number = facts.number
    most = facts.limit.max
    if not isinstance(number, Estimate) or most is None:
        return None
    total = number.n
    if number.total is not None:
        total = number.total
    if total > most:
        return None
    if number.total is None and facts.untried:
        # It counts what was tried alone, as records of older versions do.
        finding = _undecided_finding(facts, Ground.CANNOT_EXCEED, Remedy.ALL, "unresolved")
        return _with_objection(finding)
    if not facts.limit.required:
        return _excused_finding(facts, Ground.CANNOT_EXCEED, Remedy.MORE)
    finding = _undecided_finding(facts, Ground.CANNOT_EXCEED, Remedy.MORE, "unresolved")
    return _with_objection(finding)


def number_does_not_apply(facts: LimitFacts) -> Finding | None:
    """Leave out a limit on a number that this kind of model cannot be asked for."""
    number = facts.number
    if not isinstance(number, Unresolved) or not number.inapplicable:
        return None
    return _inapplicable(facts)


def number_lacks_a_reference(facts: LimitFacts) -> Finding | None:
    """Leave open a number that no larger number of units gives without a reference."""
    number = facts.number
    if not isinstance(number, Unresolved) or number.needed is not None or number.lacks is None:
        return None
    return _undecided_finding(facts, Ground.NO_UNITS, REFERENCES[number.lacks], "unmeasured")


def number_cannot_be_had(facts: LimitFacts) -> Finding | None:
    """Leave open a number that no larger number of units would give."""
    number = facts.number
    if not isinstance(number, Unresolved) or number.needed is not None:
        return None
    remedy = _remedy_for_units(facts, number, Remedy.MEASURABLE)
    finding = _undecided_finding(facts, Ground.NO_UNITS, remedy, "unmeasured")
    return replace(finding, source=_count_left_out(facts, number))


def units_were_left_untried(facts: LimitFacts) -> Finding | None:
    """Leave open a number whose lacking units the data set may hold, untried."""
    number = facts.number
    if not isinstance(number, Unresolved) or number.needed is None or facts.about_text:
        return None
    if facts.smaller_side < number.needed or not facts.untried:
        return None
    finding = _undecided_finding(facts, Ground.UNTRIED_UNITS, Remedy.ALL, "unresolved")
    return _with_objection(finding)


def units_are_too_few(facts: LimitFacts) -> Finding | None:
    """Leave open a number that needs more units than the data set holds.

    What is not required does without. Other reasons can be mended.
    """
    number = facts.number
    if not isinstance(number, Unresolved):
        return None
    remedy = _remedy_for_units(facts, number, Remedy.MORE)
    source = _count_left_out(facts, number)
    if not facts.limit.required and not facts.result.ablations:
        return replace(_excused_finding(facts, Ground.FEW_UNITS, remedy), source=source)
    finding = _undecided_finding(facts, Ground.FEW_UNITS, remedy, "unresolved")
    return _with_objection(replace(finding, source=source))


def _remedy_for_units(facts: LimitFacts, number: Unresolved, usual: Remedy) -> Remedy:
    """Return what helps where not one unit was there; the usual remedy elsewhere."""
    if number.n:
        return usual
    if not facts.record.corpus.documents.get("heldout"):
        return Remedy.NO_HELDOUT
    if _count_left_out(facts, number) is not None:
        return Remedy.MEASURABLE
    return usual


def _count_left_out(facts: LimitFacts, number: Unresolved) -> Count | None:
    """Return the largest count of units left out, where not one unit was there for that."""
    if number.n or not facts.record.corpus.documents.get("heldout"):
        return None
    counts = [
        count for count in facts.result.counts if count.name.startswith("left out") and count.value
    ]
    return max(counts, key=lambda count: count.value, default=None)


def _with_objection(finding: Finding) -> Finding:
    """Add to an undecided number what speaks against a pass: more units would not be enough."""
    facts = finding.facts
    if facts.about_text:
        return finding
    rules = (*ALARMS, numbers_are_confounded, *OBJECTIONS)
    objection = _first_finding(rules, facts)
    if objection is None:
        return finding
    remedy = objection.remedy_id
    if objection.ground is Ground.CONFOUNDED:
        remedy = finding.remedy_id
        if facts.confounding is not None:
            remedy = Remedy.OF_RECORD
    return replace(finding, also=objection, remedy_id=remedy, cause=objection.cause)


# Rules on estimates.


def leak_is_confirmed(facts: LimitFacts) -> Finding | None:
    """Find a limit violated where a leak over it is confirmed for any method."""
    if not facts.p_values:
        return None
    name, side = min(
        facts.p_values,
        key=lambda test: (facts.p_values[test], -facts.limit.reach(facts.methods[test[0]])),
    )
    p_value = facts.p_values[name, side]
    if p_value > SIGNIFICANCE:
        return None
    ground = Ground.CONFIRMED
    if side == "mirror":
        ground = Ground.CONFIRMED_MIRRORED
    measured = facts.methods[name]
    return Finding(facts, "violated", ground, measured=measured, p_value=p_value)


def numbers_are_confounded(facts: LimitFacts) -> Finding | None:
    """Leave open a number that something other than memory can explain."""
    if facts.confounded is None or facts.about_text:
        return None
    remedy = Remedy.OTHER_DOCUMENTS
    if facts.is_unvouched:
        remedy = Remedy.STATE_RULE
    elif facts.confounding is not None:
        remedy = Remedy.OF_RECORD
    finding = _open_with_number(facts, Ground.CONFOUNDED, remedy, "confounded")
    return replace(finding, source=facts.confounding)


def sides_look_swapped(facts: LimitFacts) -> Finding | None:
    """Leave open an area whose whole interval lies under chance, and that is not within its limit.

    Documents that a model forgets too well are told apart too, and nothing is swapped. Nor is it
    where something else explains the numbers. That the unseen documents look trained on does not:
    it is what swapped sides look like.
    """
    worst = facts.worst
    is_forgotten = facts.record.corpus.forgotten is not None
    if worst is None or facts.are_within or facts.about_text or is_forgotten:
        return None
    if not worst.is_below_chance or _is_explained(facts):
        return None
    finding = _open_with_number(facts, Ground.SWAPPED, Remedy.CHECK_SIDES, "confounded")
    if facts.over is None:
        return finding
    return replace(finding, measured=facts.over, p_value=facts.p_of(facts.over))


def _is_explained(facts: LimitFacts) -> bool:
    """Tell whether something else than swapped sides explains an area under chance."""
    if facts.confounding is not None:
        return facts.confounding.name not in UNLIKE_SIDES
    return facts.confounded is not None


def interval_lies_over(facts: LimitFacts) -> Finding | None:
    """Leave open a number over the limit that is not significant among all limits.

    An alarm of its attack is named first.
    """
    if facts.over is None:
        return None
    check = facts.check
    if check is not None and check.cause == "alarm":
        finding = _open_with_number(facts, Ground.NOT_CONFIRMED, Remedy.OF_RECORD, "alarm")
        finding = replace(finding, source=check)
    else:
        finding = _open_with_number(facts, Ground.NOT_CONFIRMED, Remedy.MORE, "wide")
    return replace(finding, measured=facts.over, p_value=facts.p_of(facts.over))


def _open_with_number(facts: LimitFacts, ground: Ground, remedy: Remedy, cause: Cause) -> Finding:
    """Leave a limit undecided, with the number that stands most against a pass."""
    return Finding(facts, "undecided", ground, remedy, cause, facts.worst, facts.p_worst)


def attacker_was_weakened(facts: LimitFacts) -> Finding | None:
    """Let nothing pass that a weakened attacker measured."""
    if not facts.result.ablations:
        return None
    remedy = Remedy.STRENGTHEN
    if facts.is_unvouched:
        remedy = Remedy.STATE_RULE
    return _open_with_number(facts, Ground.WEAKENED, remedy, "weakened")


def attacker_is_too_weak(facts: LimitFacts) -> Finding | None:
    """Let nothing pass whose attacker is weaker than the policy asks, or of unknown strength."""
    if facts.limit.min_power is None:
        return None
    remedy = Remedy.STRONGER
    if facts.result.power == REFERENCE_POWER:
        remedy = Remedy.STRONGER_REFERENCE
    if facts.power is None:
        return _open_with_number(facts, Ground.UNMEASURED_POWER, remedy, "weak")
    if facts.power.value >= facts.limit.min_power:
        return None
    return _open_with_number(facts, Ground.WEAK, remedy, "weak")


def model_is_misunderstood(facts: LimitFacts) -> Finding | None:
    """Let nothing pass where a check says why the model fails at its task, or seems to.

    It is named before the model that fails at its task, which is its effect.
    """
    if facts.about_text:
        return None
    fired = {check.name: check for check in _alarms_of_scan(facts)}
    for name in MISUNDERSTANDINGS:
        if name in fired:
            return _open_by_check(facts, fired[name])
    return None


def model_does_not_do_its_task(facts: LimitFacts) -> Finding | None:
    """Let nothing pass where the model does not do its task: then its silence says nothing."""
    if facts.about_text:
        return None
    item = useless_measure(facts.record)
    if item is None:
        return None
    remedy = remedy_of_useless(item)
    return replace(_open_with_number(facts, Ground.USELESS, remedy, "useless"), source=item)


def remedy_of_useless(item: Estimate) -> Remedy:
    """Return what may mend a model that fails at its task, by the measure that shows it."""
    if item.name == OF_ANSWERS:
        return Remedy.ASK_ALIKE
    return Remedy.FIT_ALIKE


def useless_measure(record: AuditRecord) -> Estimate | None:
    """Return the first measure by which the model does no better than the commonest answer."""
    for item in record.utility:
        if isinstance(item, Estimate) and item.null is not None and item.low <= item.null:
            return item
    return None


def usefulness_is_unknown(facts: LimitFacts) -> Finding | None:
    """Let nothing pass where it is not known whether the model does its task."""
    utility = facts.record.utility
    if not utility:
        return _open_with_number(facts, Ground.UNMEASURED_USEFULNESS, Remedy.ASK_ALIKE, "useless")
    for item in utility:
        if isinstance(item, Unresolved):
            finding = _open_with_number(
                facts, Ground.UNRESOLVED_USEFULNESS, Remedy.ASK_ALIKE, "useless"
            )
            return replace(finding, source=item)
    return None


ALARMS: tuple[Rule, ...] = (model_is_misunderstood, model_does_not_do_its_task)
"""What makes every number of a scan mean something else than it says: named before all that else
keeps a limit open."""


def scan_raises_an_alarm(facts: LimitFacts) -> Finding | None:
    """Let nothing pass where a check of the whole scan speaks for a leak."""
    for check in _alarms_of_scan(facts):
        return _open_by_check(facts, check)
    return None


def _alarms_of_scan(facts: LimitFacts) -> Iterator[Check]:
    """Yield the checks of the whole scan that raise an alarm about the limit's attack."""
    for check in facts.record.checks:
        if check.cause == "alarm" and check.concerns(facts.limit.attack) and check.fires:
            yield check


def _open_by_check(facts: LimitFacts, check: Check) -> Finding:
    """Leave a limit undecided, with the reason of a check that speaks against a pass."""
    cause: Cause = "confounded"
    if check.cause == "alarm":
        cause = "alarm"
    remedy = Remedy.OF_RECORD
    if check.name == UNDER_CHANCE and facts.record.corpus.forgotten is None:
        remedy = Remedy.CHECK_SIDES
    finding = _open_with_number(facts, Ground.CHECK, remedy, cause)
    return replace(finding, source=check)


def too_much_was_left_out(facts: LimitFacts) -> Finding | None:
    """Let nothing pass where too much was left out, as the model cannot name what it says."""
    corpus = facts.record.corpus
    documents = ("documents", corpus.unread, corpus.documents, MOST_DOCUMENTS)
    questions = ("questions", corpus.unread_questions, corpus.questions, MOST_QUESTIONS)
    for unit, unread, compared, most in (documents, questions):
        for side in ("member", "heldout"):
            gone = unread.get(side, 0)
            total = gone + compared.get(side, 0)
            if gone > most * total:
                finding = _open_with_number(
                    facts, Ground.LEFT_OUT, Remedy.TRAINING_LABELS, "uncovered"
                )
                return replace(finding, source=LeftOut(gone, total, side, unit, most))
    return None


def attack_raises_a_check(facts: LimitFacts) -> Finding | None:
    """Let nothing pass where a check of the attack fires that bears on the metric."""
    if facts.check is None:
        return None
    return _open_by_check(facts, facts.check)


def condition_is_not_shown(facts: LimitFacts) -> Finding | None:
    """Let nothing pass that rests on a condition which the scan does not show."""
    if facts.condition is None:
        return None
    cause: Cause = "weak"
    if facts.condition.state == "unmeasured":
        cause = "unmeasured"
    finding = _open_with_number(facts, Ground.CONDITION, Remedy.OF_RECORD, cause)
    return replace(finding, source=facts.condition)


OBJECTIONS: tuple[Rule, ...] = (
    usefulness_is_unknown,
    scan_raises_an_alarm,
    too_much_was_left_out,
    attack_raises_a_check,
    condition_is_not_shown,
)
"""What speaks against a pass beside the limited number; a check that fires says more than a
condition that nothing shows."""


def scan_objects(facts: LimitFacts) -> Finding | None:
    """Let nothing pass that the scan objects to.

    Of findings on the documents' own text only a check of the attack says something.
    """
    if facts.about_text:
        return attack_raises_a_check(facts)
    return _first_finding(OBJECTIONS, facts)


def too_little_is_covered(facts: LimitFacts) -> Finding | None:
    """Let nothing pass that rests on fewer of the possible leaks than the policy asks for."""
    overall = []
    categories = []
    for item in facts.result.coverage:
        if item.category == "all":
            overall.append(item)
        else:
            categories.append(item)
    return _falls_short(facts, facts.limit.min_coverage, overall) or _falls_short(
        facts, facts.limit.min_category_coverage, categories
    )


def _falls_short(
    facts: LimitFacts, share: float | None, places: Sequence[Coverage]
) -> Finding | None:
    """Find that less than a share of the possible leaks was tried in any of the places."""
    if share is None:
        return None
    if not places:
        return _open_with_number(facts, Ground.UNKNOWN_COVERAGE, Remedy.RUN_AGAIN, "uncovered")
    short = [item for item in places if item.behind(facts.limit.metric) < share * item.total]
    if not short:
        return None
    finding = _open_with_number(facts, Ground.UNCOVERED, Remedy.MORE_OF_THEM, "uncovered")
    return replace(finding, source=Shortfall(tuple(short), share))


_OTHER_HINDRANCES: tuple[Rule, ...] = (
    attacker_was_weakened,
    attacker_is_too_weak,
    scan_objects,
    too_little_is_covered,
)
HINDRANCES = (*ALARMS, *_OTHER_HINDRANCES)
"""What speaks against a pass, whatever the interval."""


def numbers_lie_within(facts: LimitFacts) -> Finding | None:
    """Find a limit met where a pass has all that it needs of the numbers."""
    if not facts.are_within:
        return None
    return Finding(facts, "passed", Ground.WITHIN, measured=facts.worst, p_value=facts.p_worst)


def interval_crosses(facts: LimitFacts) -> Finding:
    """Leave open a number that is too wide to be within its limit."""
    remedy = Remedy.MORE
    if facts.worst is not None and facts.worst.unit == "providers":
        remedy = Remedy.MORE_PROVIDERS
    return _open_with_number(facts, Ground.CROSSES, remedy, "wide")


RULES: tuple[Rule, ...] = (
    attack_is_unknown,
    number_is_lacking,
    attack_does_not_apply,
    attack_failed,
    attack_was_not_run,
    count_cannot_exceed,
    number_does_not_apply,
    number_lacks_a_reference,
    number_cannot_be_had,
    units_were_left_untried,
    units_are_too_few,
    leak_is_confirmed,
    *ALARMS,
    sides_look_swapped,
    numbers_are_confounded,
    interval_lies_over,
    *_OTHER_HINDRANCES,
    numbers_lie_within,
    interval_crosses,
)
