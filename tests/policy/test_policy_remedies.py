"""Numbers that are missing: what a warning covers, and where a remedy sends an owner."""

import ast
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from judged import MET_BESIDE, completed, estimate, gone, judge, limit
from printed_commands import check_commands

from audit import attacks
from audit.cards import SERVED
from audit.measurements import Check, Count, Role, Unresolved
from audit.policy import Demand
from audit.policy.limits import TEXTS

LIRA = Unresolved("auc.lira", "needs split models", 0, lacks="splits")
"""What stood in the record of a model that 188 of 300 documents were recognised from: AUC 0.97
(#51)."""
FEW = Unresolved("leak", "fewer than two documents", 1, 20)
ALARM = Check(
    "certain documents", 0.0001, "alarm", "17 documents are known for certain", "train again"
)
CONFOUNDED = Check("blind", 0.0001, "confounded", "the documents differ", "draw other documents")


@dataclass(frozen=True)
class Constructor:
    """A place in the attacks that makes an unresolved number, and whether it says how many units are needed."""

    place: str
    has_needed: bool


def constructors() -> list[Constructor]:
    """Find every call of `Unresolved` in the attacks."""
    root = Path(attacks.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "Unresolved(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Unresolved":
                place = f"{path.relative_to(root)}:{node.lineno}"
                found.append(Constructor(place, _says_needed(node)))
    return found


def _says_needed(call: ast.Call) -> bool:
    given = [
        *call.args[3:4],
        *(keyword.value for keyword in call.keywords if keyword.arg == "needed"),
    ]
    return any(not (isinstance(value, ast.Constant) and value.value is None) for value in given)


@pytest.mark.parametrize("constructor", constructors(), ids=lambda constructor: constructor.place)
def test_a_warning_covers_an_unresolved_number_just_where_more_units_would_give_it(constructor):
    needed = 20 if constructor.has_needed else None
    number = Unresolved("leak", "made up", 1, needed)
    verdict = judge(
        [completed(number), MET_BESIDE], limit(), limit(attack="beside"), undecided="warn"
    )
    assert verdict.exit_code == (0 if constructor.has_needed else 11)
    assert verdict.decisions[0].cause == ("unresolved" if constructor.has_needed else "unmeasured")
    assert constructor.has_needed or "audit more" not in verdict.decisions[0].remedy


def test_both_kinds_of_unresolved_numbers_are_made():
    kinds = {constructor.has_needed for constructor in constructors()}
    assert kinds == {True, False}


def test_a_limit_that_this_audit_can_never_measure_is_no_pass():
    asked = limit("auc.lira", "membership", max=0.65)
    leaky = completed(LIRA, estimate("auc", 0.95, 0.99), attack="membership")
    alone = judge([leaky], asked, undecided="warn")
    assert (alone.overall, alone.exit_code, alone.decisions[0].cause) == (
        "undecided",
        11,
        "unmeasured",
    )
    assert "docaudit references MODEL_DIR DATA_DIR --train splits" in alone.decisions[0].remedy
    assert (
        judge([leaky, MET_BESIDE], asked, limit(attack="beside"), undecided="warn").exit_code == 11
    )
    optional = replace(asked, required=False)
    assert (
        judge([leaky, MET_BESIDE], optional, limit(attack="beside"), undecided="warn").exit_code
        == 11
    )


@pytest.mark.parametrize("role", get_args(Role))
def test_a_missing_reference_is_what_the_remedy_asks_for(role):
    number = Unresolved("leak", "made up", 0, lacks=role)
    (decision,) = judge([completed(number)]).decisions
    assert decision.cause == "unmeasured"
    assert decision.remedy == TEXTS["train_splits" if role == "splits" else "give_baseline"]


@pytest.mark.parametrize("check", [ALARM, CONFOUNDED], ids=lambda check: check.cause)
@pytest.mark.parametrize("of_scan", [False, True])
def test_a_check_that_fires_is_heard_on_a_limit_with_too_few_units(check, of_scan):
    settings = {"checks": (check,)} if of_scan else {}
    result = completed(FEW) if of_scan else completed(FEW, checks=(check,))
    both = (limit(), limit(attack="beside"))
    verdict = judge([result, MET_BESIDE], *both, undecided="warn", **settings)
    decision = verdict.decisions[0]
    assert (decision.cause, decision.remedy) == (check.cause, check.remedy)
    assert check.reason in decision.reason
    assert verdict.exit_code == 11
    assert judge([completed(FEW), MET_BESIDE], *both, undecided="warn").exit_code == 0


def test_a_warning_needs_a_met_limit_on_each_demanded_question():
    demands = (
        Demand("documents", ("reconstruction",), "why"),
        Demand("text", ("beside", "other"), "why"),
    )
    both = (limit(), limit(attack="beside"))
    results = [completed(FEW), MET_BESIDE]
    verdict = judge(results, *both, undecided="warn", demands=demands)
    assert verdict.exit_code == 11
    assert verdict.reason.endswith("not a question of which no limit is met (documents)")
    answered = judge([completed(FEW, estimate("other", 0, 0.01)), MET_BESIDE], *both, limit("other"),
                     undecided="warn", demands=demands)  # fmt: skip
    assert answered.exit_code == 0


REASONS = ("fewer than two documents", "needs a reference", "no such field")
KINDS = [
    Unresolved("leak", reason, n, needed, inapplicable, lacks)
    for reason, n, needed, inapplicable, lacks in product(
        REASONS, (0, 1), (None, 20), (False, True), (None, *get_args(Role))
    )
    if needed is None or lacks is None
]
GONE = [
    gone(status, kind, "made up", "add what is missing")
    for status, kind in (
        ("inapplicable", "model"),
        ("skipped", "missing"),
        ("skipped", "data"),
        ("failed", "error"),
    )
]
SETTINGS = (
    {},
    {"documents": {"member": 40}},
    {"documents": {"member": 100, "heldout": 100}, "share": 0.25},
    {"family": SERVED},
)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("attack", ["reconstruction", "membership", "canaries", "redaction"])
def test_no_remedy_permits_a_gap_or_asks_for_documents_where_a_reference_is_missing(
    attack, settings
):
    left_out = Count("left out: few plausible values", 9, "made up")
    results = [replace(one, attack=attack) for one in GONE]
    for number, counts in product(KINDS, ((), (left_out,))):
        results.append(completed(number, attack=attack, counts=counts))
    for result in results:
        (decision,) = judge([result], limit(attack=attack), gaps=(), **settings).decisions
        assert decision.outcome == "undecided"
        assert decision.remedy
        for words in ("permit", "[[gaps]]"):
            assert words not in decision.remedy
        check_commands(decision.remedy)
        number = next(iter(result.measurements), None)
        if number is not None and number.lacks is not None and not number.inapplicable:
            assert "audit more" not in decision.remedy


def test_a_model_that_cannot_be_asked_is_judged_by_another_attack_or_by_its_weights():
    inapplicable = gone("inapplicable", "model", "no such head")
    (decision,) = judge([inapplicable], limit(), gaps=()).decisions
    assert decision.remedy == TEXTS["other_attack"].format(
        attacks="memorisation or attribute_inference or canaries"
    )
    others = [
        replace(inapplicable, attack=name)
        for name in ("memorisation", "attribute_inference", "canaries")
    ]
    (decision,) = judge([inapplicable, *others], limit(), gaps=()).decisions
    assert decision.remedy == TEXTS["no_other_attack"]
    (decision,) = judge([inapplicable], limit(), gaps=(), family=SERVED).decisions
    assert decision.remedy == TEXTS["audit_weights"]


@pytest.mark.parametrize("name", sorted({*TEXTS} - {"shipped_name"}))
def test_every_command_in_the_sentences_of_verdicts_exists(name):
    check_commands(TEXTS[name])


def test_a_command_that_does_not_exist_is_noticed():
    assert (
        check_commands(
            "train them (docaudit references --train splits), or docaudit plan counts them"
        )
        == 2
    )
    for wrong in ("docaudit reference --train", "docaudit references --training"):
        with pytest.raises(AssertionError):
            check_commands(wrong)
