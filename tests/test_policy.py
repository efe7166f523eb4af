"""The verdict: a table of every way a limit can end, Holm by hand, and policies that are wrong."""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from audit.attacks import known_metrics
from audit.errors import PolicyError
from audit.measurements import ALPHAS, Bound, Estimate, Measurement, Unresolved
from audit.policy import EXIT_CODES, Gap, Limit, Policy, Verdict, Waiver, check_names, check_ranges, evaluate, load
from audit.record import Reason, Result
from audit.resources import folder
from audit.stats.multiplicity import holm

TODAY = dt.date(2026, 3, 2)
RANK = {"passed": 0, "undecided": 1, "violated": 2}
METRICS = ("leak", "other", "accuracy", "power")


def estimate(name: str, low: float, high: float, *, lower_p: float = 1.0, upper_p: float = 1.0, edge: float = 0.05):
    """An interval whose one-sided bounds lie over (under) `edge` at every level from `lower_p` (`upper_p`) on.

    Value and interval lie within them, as a scan's do.
    """
    bounds = tuple(
        Bound(
            alpha,
            edge + 1e-6 if alpha >= lower_p else min(low, edge),
            edge - 1e-6 if alpha >= upper_p else max(high, edge),
        )
        for alpha in ALPHAS
    )
    (own,) = (bound for bound in bounds if bound.alpha == 0.025)
    widest = max(bounds, key=lambda bound: bound.alpha)
    value = min(max((low + high) / 2, widest.lower), widest.upper)
    low, high = max(low, own.lower), min(high, own.upper)
    return Estimate(name, value, low, high, 100, "fields", 50, "made up", 0.0, "held-out", bounds=bounds)


def measured(name: str, value: float, low: float, high: float, *rest: Any) -> Estimate:
    """An interval that is its own bound at every level."""
    bounds = tuple(Bound(alpha, low, high) for alpha in ALPHAS)
    return Estimate(name, value, low, high, *rest, bounds=bounds)


def normal(name: str, value: float, error: float) -> Estimate:
    """A coherent estimate with normal bounds of standard error `error`."""
    z = NormalDist().inv_cdf
    bounds = tuple(Bound(alpha, value - z(1 - alpha) * error, value + z(1 - alpha) * error) for alpha in ALPHAS)
    reach = z(0.975) * error
    return Estimate(name, value, value - reach, value + reach, 100, "fields", 50, "normal", bounds=bounds)


def power(value: float) -> Estimate:
    return measured("power", value, value - 0.05, value + 0.05, 100, "fields", 50, "made up")


def completed(*measurements: Measurement, attack: str = "reconstruction", strength: str | None = "power") -> Result:
    return Result(attack, measurements=measurements, power=strength)


def limit(metric: str = "leak", attack: str = "reconstruction", **settings: Any) -> Limit:
    asked = {"max": 0.05} if not {"max", "min"} & set(settings) else {}
    return Limit(attack, metric, "because", **asked, **settings)


GAPS = (Gap("reconstruction", ("mlm",), "made up"),)
"""Attacks that the model of these records cannot be put to, and that the policies of these tests do without."""


def judge(
    results: Sequence[Result],
    *limits: Limit,
    battery: tuple[str, ...] = ("reconstruction",),
    utility: tuple[Measurement, ...] = (tiny.USEFUL,),
    left_out: tuple[Result, ...] = (),
    **settings: Any,
) -> Verdict:
    policy = Policy(schema=1, name="test", limits=limits or (limit(),), **{"gaps": GAPS, **settings})
    return evaluate(tiny.record(*results, battery=battery, utility=utility, left_out=left_out), policy, TODAY)


SAFE = estimate("leak", -0.01, 0.05)
LEAKY = estimate("leak", 0.2, 0.3, lower_p=0.001)
WIDE = estimate("leak", 0.0, 0.0501)
STRONG, WEAK = power(0.5), power(0.49)
NONE = Unresolved("leak", "fewer than two documents", 1, 20)
NO_POWER = Unresolved("power", "no such field", 0)
ASKS_POWER = limit(min_power=0.5)
INAPPLICABLE = Result("reconstruction", status="inapplicable", reason=Reason("model", "no such head"))
SKIPPED = Result(
    "reconstruction", status="skipped", reason=Reason("missing", "it needs a reference", "--reference auxiliary=PATH")
)
NO_DATA = Result("reconstruction", status="skipped", reason=Reason("data", "no canaries", "plant some"))
FAILED = Result("reconstruction", status="failed", reason=Reason("error", "IndexError at audit/x.py:3"))
ACCURATE = limit("accuracy", min=0.7)
ACCURACY = estimate("accuracy", 0.7, 0.9, edge=0.7)
BARELY, ALMOST = (estimate("leak", 0.04, 0.3, lower_p=p) for p in (0.05, 0.1))

ENDINGS: dict[str, tuple[list[Result], Limit, str, str, str]] = {
    # what the attack gave, the limit, its outcome, the overall verdict, a part of the reason
    "within": ([completed(SAFE)], limit(), "passed", "passed", "whole interval is within"),
    "within, strong": ([completed(SAFE, STRONG)], ASKS_POWER, "passed", "passed", "whole interval is within"),
    "within, weak": ([completed(SAFE, WEAK)], ASKS_POWER, "undecided", "undecided", "power 0.49, the policy asks"),
    "within, power unresolved": ([completed(SAFE, NO_POWER)], ASKS_POWER, "undecided", "undecided", "not be measured"),
    "within, power missing": ([completed(SAFE)], ASKS_POWER, "undecided", "undecided", "not be measured"),
    "within, attack without power": (
        [completed(SAFE, strength=None)], ASKS_POWER, "undecided", "undecided", "not be measured",
    ),
    "within, weakened on purpose": (
        [replace(completed(SAFE), ablations=("no image",))], limit(), "undecided", "undecided", "weakened: no image",
    ),
    "over, weakened on purpose": (
        [replace(completed(LEAKY), ablations=("no image",))], limit(), "violated", "violated", "confirmed",
    ),
    "weak, nothing asked": ([completed(SAFE, WEAK)], limit(), "passed", "passed", "within"),
    "reaches over": ([completed(WIDE)], limit(), "undecided", "undecided", "reaches over the limit"),
    "reaches over, strong": ([completed(WIDE, STRONG)], ASKS_POWER, "undecided", "undecided", "reaches over"),
    "over, confirmed": ([completed(LEAKY)], limit(), "violated", "violated", "confirmed over the limit"),
    "over, confirmed by a weak attacker": ([completed(LEAKY, WEAK)], ASKS_POWER, "violated", "violated", "confirmed"),
    "over, confirmed, not required": ([completed(LEAKY)], limit(required=False), "violated", "violated", "confirmed"),
    "over, at 0.05": ([completed(BARELY)], limit(), "violated", "violated", "confirmed"),
    "over, at 0.1 only": ([completed(ALMOST)], limit(), "undecided", "undecided", "reaches over"),
    "unresolved": ([completed(NONE)], limit(), "undecided", "undecided", "fewer than two documents (n = 1; 20"),
    "unresolved, not required, none left": (
        [completed(NONE)], limit(required=False), "not run", "undecided", "fewer than two documents",
    ),
    "not in the record": ([completed(STRONG)], limit(), "undecided", "undecided", "lacks this number"),
    "skipped": ([SKIPPED], limit(), "undecided", "undecided", "skipped: it needs a reference"),
    "failed": ([FAILED], limit(), "undecided", "undecided", "broke down (IndexError at audit/x.py:3)"),
    "not run": ([], limit(), "undecided", "undecided", "not run"),
    "inapplicable, none left": ([INAPPLICABLE], limit(), "inapplicable", "undecided", "no such head"),
    "skipped, not required": ([SKIPPED], limit(required=False), "undecided", "undecided", "skipped"),
    "skipped, the data set has none, not required": (
        [NO_DATA], limit(required=False), "not run", "undecided", "no canaries",
    ),
    "failed, not required": ([FAILED], limit(required=False), "undecided", "undecided", "broke down"),
    "not run, not required": ([], limit(required=False), "undecided", "undecided", "not run"),
    "unresolved for another reason, not required": (
        [completed(replace(NONE, needed=None))], limit(required=False), "undecided", "undecided", "fewer than two",
    ),
    "unresolved, weakened, not required": (
        [replace(completed(NONE), ablations=("no image",))], limit(required=False), "undecided", "undecided", "fewer",
    ),
    "at least, met": ([completed(ACCURACY)], ACCURATE, "passed", "passed", "within"),
    "at least, reaches under": (
        [completed(estimate("accuracy", 0.69, 0.9, edge=0.7))], ACCURATE, "undecided", "undecided", "reaches over",
    ),
    "at least, confirmed under": (
        [completed(estimate("accuracy", 0.3, 0.5, upper_p=0.01, edge=0.7))],
        ACCURATE, "violated", "violated", "confirmed",
    ),
    "at least, bounds over it say nothing": (
        [completed(estimate("accuracy", 0.3, 0.9, lower_p=0.05, edge=0.7))], ACCURATE, "undecided", "undecided", "",
    ),
    "at least a negative number": (
        [completed(estimate("accuracy", -0.9, 0.9, edge=-1.0))], limit("accuracy", min=-1.0), "passed", "passed", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("undecided", ["fail", "warn"])
@pytest.mark.parametrize("name", ENDINGS)
def test_every_way_a_limit_can_end(name: str, undecided: str) -> None:
    results, asked, outcome, overall, reason = ENDINGS[name]
    verdict = judge(results, asked, undecided=undecided)
    (decision,) = verdict.decisions
    assert (decision.outcome, verdict.overall) == (outcome, overall)
    assert reason in decision.reason
    assert decision.limit == asked
    # Width alone is let through with a warning; see test_policy_demands.py for every other cause.
    warned = undecided == "warn" and decision.cause in ("wide", "unresolved")
    assert verdict.exit_code == (0 if warned else EXIT_CODES[verdict.overall])
    if outcome == "undecided":
        assert decision.remedy
    if outcome in ("passed", "violated"):
        assert decision.measured is not None


def test_exit_codes_are_those_of_the_design() -> None:
    assert EXIT_CODES == {"passed": 0, "waived": 0, "violated": 10, "undecided": 11}


OTHER_SAFE = completed(estimate("leak", -0.01, 0.05), attack="membership")
OTHER_LEAKY = completed(estimate("leak", 0.2, 0.3, lower_p=0.001), attack="membership")
OTHER_NO_DATA = replace(NO_DATA, attack="membership")
SECOND = limit(attack="membership")


@pytest.mark.parametrize(
    ("results", "second", "overall", "reason"),
    [
        ([completed(SAFE), OTHER_SAFE], SECOND, "passed", "2 of 2 limits met"),
        ([INAPPLICABLE, OTHER_SAFE], SECOND, "passed", "1 of 2 limits met, 1 not applicable"),
        ([INAPPLICABLE, OTHER_LEAKY], SECOND, "violated", "1 of 2 limits violated"),
        ([completed(WIDE), OTHER_SAFE], SECOND, "undecided", "1 of 2 limits undecided"),
        ([completed(WIDE), OTHER_LEAKY], SECOND, "violated", "1 of 2 limits violated"),
        ([SKIPPED, OTHER_LEAKY], SECOND, "violated", "1 of 2 limits violated"),
        ([FAILED, OTHER_SAFE], SECOND, "undecided", "1 of 2 limits undecided"),
        ([completed(LEAKY), OTHER_LEAKY], SECOND, "violated", "2 of 2 limits violated"),
        ([completed(SAFE)], SECOND, "undecided", "1 of 2 limits undecided"),
        ([completed(SAFE)], replace(SECOND, required=False), "undecided", "1 of 2 limits undecided"),
        (
            [completed(SAFE), OTHER_NO_DATA],
            replace(SECOND, required=False),
            "passed",
            "1 of 2 limits met, 1 not tested",
        ),
        ([INAPPLICABLE, OTHER_NO_DATA], replace(SECOND, required=False), "undecided", "no limit of the policy could"),
    ],
)
def test_the_worst_limit_wins(results: list[Result], second: Limit, overall: str, reason: str) -> None:
    for limits in ((limit(), second), (second, limit())):
        verdict = judge(results, *limits, battery=("reconstruction", "membership"))
        assert verdict.overall == overall
        assert reason in verdict.reason
        assert [decision.limit for decision in verdict.decisions] == list(limits)


@pytest.mark.parametrize("p", [*ALPHAS, 1.0])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_p_value_is_the_smallest_level_whose_bound_is_beyond_the_limit(p: float, kind: str) -> None:
    # Between two levels of the record the larger one is read.
    reading = {"lower_p": p} if kind == "max" else {"upper_p": p}
    (decision,) = judge([completed(estimate("leak", 0.0, 1.0, **reading))], limit(**{kind: 0.05})).decisions
    assert decision.p_value == p
    assert (decision.outcome == "violated") == (p <= 0.05)


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ([0.05], [0.05]),
        ([0.05, 0.05], [0.1, 0.1]),
        ([0.025, 0.05], [0.05, 0.05]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # R: p.adjust(c(.01, .04, .03, .005), "holm")
        ([0.5, 0.9, 0.001], [1.0, 1.0, 0.003]),
        ([1.0, 1.0], [1.0, 1.0]),
    ],
)
def test_holm_by_hand(raw: list[float], adjusted: list[float]) -> None:
    assert holm(dict(enumerate(raw))) == pytest.approx(dict(enumerate(adjusted)))


@given(st.lists(st.floats(0, 1) | st.none(), max_size=8))
def test_holm_raises_every_p_and_keeps_their_order(raw: list[float | None]) -> None:
    adjusted = holm(dict(enumerate(raw)))
    tested = {index: p for index, p in enumerate(raw) if p is not None}
    assert set(adjusted) == set(tested)
    for index, p in tested.items():
        assert p <= adjusted[index] <= min(1.0, p * len(tested)) + 1e-12
        # Its definition: the largest step of all that are no later.
        earlier = [other for other in tested.values() if other <= p]
        steps = [min(1.0, other * sum(third >= other for third in tested.values())) for other in earlier]
        assert adjusted[index] == pytest.approx(max(steps))
    for (i, p), (j, q) in itertools.combinations(tested.items(), 2):
        if p < q:
            assert adjusted[i] <= adjusted[j]


def test_holm_runs_over_all_limits_that_have_a_number() -> None:
    other = replace(BARELY, name="other")
    alone = judge([completed(BARELY, other)], limit())
    both = judge([completed(BARELY, other)], limit(), limit("other"))
    assert [decision.outcome for decision in alone.decisions] == ["violated"]
    assert [decision.outcome for decision in both.decisions] == ["undecided", "undecided"]
    assert [decision.p_value for decision in both.decisions] == [0.1, 0.1]
    unresolved = judge([completed(BARELY, Unresolved("other", "few", 1))], limit(), limit("other"))
    assert [decision.outcome for decision in unresolved.decisions] == ["violated", "undecided"]


numbers = st.builds(normal, st.just("x"), st.floats(-0.1, 0.4), st.floats(0.001, 0.1))
gated = st.lists(st.tuples(numbers, st.floats(0.0, 0.3), st.sampled_from(["max", "min"])), min_size=1, max_size=5)


def verdict_of(chosen: Sequence[tuple[Estimate, float, str]]) -> Verdict:
    metrics = tuple(f"m{index}" for index in range(len(chosen)))
    found = tuple(replace(number, name=name) for name, (number, _, _) in zip(metrics, chosen, strict=True))
    limits = tuple(limit(name, **{kind: edge}) for name, (_, edge, kind) in zip(metrics, chosen, strict=True))
    policy = Policy(schema=1, name="test", limits=limits)
    return evaluate(tiny.record(Result("reconstruction", measurements=found)), policy, TODAY)


@given(gated)
def test_the_overall_verdict_is_the_worst_one(chosen: list[tuple[Estimate, float, str]]) -> None:
    verdict = verdict_of(chosen)
    assert RANK[verdict.overall] == max(RANK[decision.outcome] for decision in verdict.decisions)
    assert verdict.exit_code == EXIT_CODES[verdict.overall]


@given(gated, st.tuples(numbers, st.floats(0.0, 0.3), st.sampled_from(["max", "min"])))
def test_a_verdict_never_becomes_better_when_a_violated_limit_is_added(
    chosen: list[tuple[Estimate, float, str]], added: tuple[Estimate, float, str]
) -> None:
    # A limit that is violated alone may be undecided beside others (Holm), but nothing passes that did not before.
    larger = verdict_of([*chosen, added])
    if larger.decisions[-1].outcome == "violated":
        assert larger.overall == "violated"
    if verdict_of([added]).overall == "violated":
        assert larger.overall != "passed"
    if verdict_of(chosen).overall != "passed":
        assert larger.overall != "passed"


@given(gated, st.data())
def test_the_order_of_limits_does_not_matter(chosen: list[tuple[Estimate, float, str]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(chosen))
    assert verdict_of(shuffled).overall == verdict_of(chosen).overall


def waiver(days: int, metric: str = "leak", owner: str = "A. Officer") -> Waiver:
    return Waiver(
        "reconstruction",
        metric,
        owner,
        "head of data",
        "the weights stay here",
        "one locked machine",
        TODAY + dt.timedelta(days),
    )


def test_a_waiver_holds_to_the_end_of_its_day() -> None:
    for days in (0, 1, 300):
        verdict = judge([completed(LEAKY)], waivers=(waiver(days),))
        (decision,) = verdict.decisions
        assert (decision.outcome, verdict.overall, verdict.exit_code) == ("waived", "waived", 0)
        assert decision.waiver == waiver(days)
        assert decision.measured == LEAKY
        assert decision.reason == "the leak is confirmed over the limit"
        assert "waived" in verdict.reason


def test_an_expired_waiver_is_named_and_waives_nothing() -> None:
    verdict = judge([completed(LEAKY)], waivers=(waiver(-1),))
    (decision,) = verdict.decisions
    assert (decision.outcome, verdict.overall, decision.waiver) == ("violated", "violated", None)
    assert "a waiver by A. Officer expired on 2026-03-01" in decision.reason


def test_a_waiver_for_more_than_a_year_waives_nothing() -> None:
    verdict = judge([completed(LEAKY)], waivers=(waiver(367),))
    assert (verdict.overall, verdict.exit_code) == ("violated", 10)
    assert "until 2027-03-04 is longer than 12 months" in verdict.decisions[0].reason


def test_a_renewed_waiver_holds_whatever_the_order() -> None:
    for waivers in itertools.permutations([waiver(-9, owner="old"), waiver(9, owner="new"), waiver(-1, owner="last")]):
        (decision,) = judge([completed(LEAKY)], waivers=waivers).decisions
        assert decision.outcome == "waived"
        assert decision.waiver is not None
        assert decision.waiver.owner == "new"


def test_a_waiver_is_for_its_own_limit_and_leaves_what_passed_alone() -> None:
    verdict = judge(
        [completed(LEAKY, estimate("other", 0.0, 0.01))], limit(), limit("other"), waivers=(waiver(9, "other"),)
    )
    assert [decision.outcome for decision in verdict.decisions] == ["violated", "passed"]
    (decision,) = judge([INAPPLICABLE], waivers=(waiver(9),)).decisions
    assert decision.outcome == "inapplicable"


def test_only_a_violation_can_be_waived_not_ignorance() -> None:
    for results in ([completed(WIDE)], [completed(NONE)], [SKIPPED], [FAILED], []):
        verdict = judge(results, waivers=(waiver(9),))
        assert (verdict.decisions[0].outcome, verdict.overall) == ("undecided", "undecided")
        assert verdict.decisions[0].waiver is None


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (limit("leek"), "reconstruction has no metric 'leek'; did you mean 'leak'?"),
        (limit("zzz"), "reconstruction has no metric 'zzz'"),
        (limit(attack="reconstructon"), "no attack is called 'reconstructon'"),
    ],
)
def test_a_misspelt_name_is_an_error(asked: Limit, problem: str) -> None:
    for results in ([completed(SAFE)], [SKIPPED], [FAILED], [INAPPLICABLE]):
        known = {result.attack: ("leak",) for result in results}
        with pytest.raises(PolicyError) as raised:
            check_names(Policy(schema=1, name="test", limits=(asked, limit())), known, complete=False)
        assert raised.value.problems == (f"policy test: {problem}",)
        assert "reconstruction" in raised.value.hint
        assert raised.value.exit_code == 2


def test_every_misspelt_name_is_reported() -> None:
    policy = Policy(schema=1, name="test", limits=(limit("leek"), limit(attack="a"), limit()))
    with pytest.raises(PolicyError) as raised:
        check_names(policy, {"reconstruction": METRICS})
    assert len(raised.value.problems) == 2


def test_an_attack_that_was_left_out_is_taken_at_its_word() -> None:
    verdict = judge([], limit("anything"))
    assert verdict.decisions[0].outcome == "undecided"


TOML = """
schema = 1
name = "mine"
[[limits]]
attack = "reconstruction"
metric = "leak"
max = 0.05
rationale = "because"
[[waivers]]
attack = "reconstruction"
metric = "leak"
owner = "me"
role = "head of data"
reason = "why"
measure = "one locked machine"
expires = 2026-12-31
"""


def test_a_policy_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    policy = load(str(path))
    assert policy.limits == (limit(),)
    assert policy.waivers[0].expires == dt.date(2026, 12, 31)
    assert policy.undecided == "fail"
    assert policy.origin is not None
    assert (policy.origin.toml, policy.origin.shipped) == (TOML, False)
    assert policy.origin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_shipped_policy_is_known_as_such_even_from_a_copy(tmp_path: Path) -> None:
    shipped = load("strict")
    assert shipped.origin is not None
    copy = tmp_path / "copy.toml"
    copy.write_text(shipped.origin.toml)
    assert shipped.origin.shipped
    assert load(str(copy)).origin == shipped.origin


def test_bits_may_be_more_than_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML.replace('metric = "leak"', 'metric = "exposure"').replace("max = 0.05", "max = 4.5"))
    policy = load(str(path))
    assert policy.limits[0].max == 4.5
    canaries = replace(policy, limits=(replace(policy.limits[0], attack="canaries"),))
    check_ranges(canaries, known_metrics())


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("schema = 1", "schema = 2", "schema: Input should be 1"),
        ("schema = 1", "", "schema: "),
        ('name = "mine"', "", "name: "),
        ('name = "mine"', 'name = "mine"\nundecided = "maybe"', "undecided: Input should be 'fail' or 'warn'"),
        ('name = "mine"', 'name = "mine"\nlimit = 3', "limit: "),
        ("max = 0.05", "max = 0.05\nmin = 0.01", "limits.0: give either max or min"),
        ("max = 0.05", "", "limits.0: give either max or min"),
        ("max = 0.05", "max = nan", "limits.0.max: Input should be a finite number"),
        ("max = 0.05", "max = inf", "limits.0.max: Input should be a finite number"),
        ("max = 0.05", 'max = "0.05"', "limits.0.max: Input should be a valid number"),
        ("max = 0.05", "max = true", "limits.0.max: Input should be a valid number"),
        ("max = 0.05", "maximum = 0.05", "limits.0.maximum: "),
        ("max = 0.05", "max = 0.05\nmin_power = -0.5", "limits.0.min_power: "),
        ("max = 0.05", "max = 0.05\nmin_coverage = 1.5", "limits.0.min_coverage: "),
        ("max = 0.05", 'max = 0.05\nholds = "upper"', "limits.0.holds: "),
        ("max = 0.05", 'min = 0.05\nholds = "lower"', "limits.0: holds: a lower bound is held against a max"),
        ("max = 0.05", f"max = 0.{'1' * 9}\nmin_power = {'1' * 9999}", "not TOML"),
        ('name = "mine"', 'name = "default"', "name: docaudit ships a policy 'default'; one that differs from it"),
        ('owner = "me"', 'owner = " "', "waivers.0.owner: "),
        ('reason = "why"', 'reason = ""', "waivers.0.reason: "),
        ("max = 0.05", 'max = 0.05\nrequired = "no"', "limits.0.required: "),
        ('rationale = "because"', "", "limits.0.rationale: "),
        ('owner = "me"', "", "waivers.0.owner: "),
        ('role = "head of data"', "", "waivers.0.role: "),
        ('role = "head of data"', 'role = ""', "waivers.0.role: "),
        ('measure = "one locked machine"', "", "waivers.0.measure: "),
        ('measure = "one locked machine"', 'measure = " "', "waivers.0.measure: "),
        ("schema = 1", 'schema = 1\norigin = {toml = "", shipped = true}', "origin: is written by docaudit"),
        ("expires = 2026-12-31", 'expires = "soon"', "waivers.0.expires: "),
        ("expires = 2026-12-31", "", "waivers.0.expires: "),
        ('metric = "leak"\nowner', 'metric = "leek"\nowner', "waivers.0: no limit on reconstruction leek"),
        ("schema = 1", "schema = ", "not TOML"),
        ("schema = 1", f"schema = {'[' * 9999}", "not TOML"),
        ("[[limits]]", "[limits]", "limits: "),
    ],
)
def test_a_wrong_policy_is_refused_with_the_place(old: str, new: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert old in TOML
    path.write_text(TOML.replace(old, new, 1))
    with pytest.raises(PolicyError) as raised:
        load(str(path))
    assert any(problem in line for line in raised.value.problems), raised.value.problems
    assert all(line.startswith(f"policy {path}") for line in raised.value.problems)


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        ("max = 65", "limits.0: max 65: leak lies between 0 and 1, so that 65 % is 0.65"),
        ("max = -0.1", "limits.0: max -0.1: leak lies between 0 and 1"),
        ("min = 65", "limits.0: min 65: leak lies between 0 and 1"),
    ],
)
def test_a_limit_that_a_metric_can_never_reach_is_refused(new: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML.replace("max = 0.05", new, 1))
    policy = load(str(path))
    for metrics in ({"reconstruction": {"leak": 1.0}}, {}):  # what is not known is taken for a share
        with pytest.raises(PolicyError) as raised:
            check_ranges(policy, metrics)
        assert [line.startswith(f"policy mine {problem}") for line in raised.value.problems] == [True]
    with pytest.raises(PolicyError) as raised:
        check_ranges(policy, {"reconstruction": {"leak": 50.0}})
    assert raised.value.problems[0].endswith("leak lies between 0 and 50")
    check_ranges(policy, {"reconstruction": {"leak": None}})


COUNTS = ("documents_identified", "values_identified")


def test_attacks_say_which_of_their_metrics_are_no_shares() -> None:
    unbounded = {
        (attack, metric.partition(".")[0])
        for attack, metrics in known_metrics().items()
        for metric, upper in metrics.items()
        if upper is None
    }
    assert unbounded == {
        *(("reconstruction", name) for name in COUNTS),
        ("memorisation", "identified"),
        ("membership", "documents_identified"),
        *(("attribute_inference", name) for name in ("candidates", *COUNTS)),
        ("provider_membership", "questions_a_provider"),
        *(("canaries", name) for name in ("excess_exposure", "exposure", "most_bits")),
    }


def test_a_policy_without_limits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('schema = 1\nname = "mine"\nlimits = []\n')
    with pytest.raises(PolicyError, match="there is none, so nothing could ever be violated"):
        load(str(path))


def test_every_problem_of_a_policy_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('schema = 1\n[[limits]]\nattack = "a"\nmetric = 3\n')
    with pytest.raises(PolicyError) as raised:
        load(str(path))
    assert len(raised.value.problems) == 3  # name, metric, rationale


def test_a_file_that_is_no_policy_names_the_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"name = '\xff'")
    for path, reason in (
        (tmp_path / "missing.toml", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "latin", "not UTF-8"),
        (Path("x" * 300), "File name too long"),
        (Path("defenses"), "No such file"),  # it lies beside the policies and is none
        (Path("frameworks"), "No such file"),
        (Path("../policies/default"), "No such file"),
    ):
        with pytest.raises(PolicyError, match=reason) as raised:
            load(str(path))
        assert raised.value.hint == "shipped policies: default, strict"


SHIPPED = sorted(path.stem for path in folder("policies").glob("*.toml") if path.stem not in ("defenses", "frameworks"))


def test_a_required_limit_that_the_data_set_cannot_feed_is_undecided_unless_a_gap_permits_it() -> None:
    verdict = judge([NO_DATA], gaps=())
    assert verdict.overall == "undecided"
    assert [(decision.outcome, decision.cause) for decision in verdict.decisions] == [("undecided", "unmeasured")]
    assert "no canaries" in verdict.decisions[0].reason
    # Of models of this task some can be asked and some cannot; where the data set marks nothing to ask for, all alike.
    assert [decision.outcome for decision in judge([NO_DATA]).decisions] == ["not run"]
    assert [decision.outcome for decision in judge([SKIPPED]).decisions] == ["undecided"]
    assert judge([NO_DATA]).overall == "undecided", "nothing could be decided at all"


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_name_only_what_exists(name: str) -> None:
    policy = load(name)
    assert policy.name == name
    assert policy.undecided == "fail"
    assert policy.waivers == ()
    assert all(len(asked.rationale) > 20 for asked in policy.limits)
    check_names(policy, known_metrics())
    check_ranges(policy, known_metrics())


@pytest.mark.parametrize(
    ("battery", "later"),
    [
        (("reconstruction",), "membership"),
        (("reconstruction", "memorisation", "membership"), "provider_membership"),
    ],
)
def test_a_record_from_before_an_attack_existed_is_undecided_on_it_not_refused(
    battery: tuple[str, ...], later: str
) -> None:
    older = tiny.record(completed(SAFE), battery=battery)
    asked = (limit(attack=later, metric="auc"),)
    verdict = evaluate(older, replace(load("default"), limits=asked), TODAY)
    assert [(decision.outcome, decision.reason) for decision in verdict.decisions] == [
        ("undecided", "the docaudit that wrote the record had no such attack")
    ]


def test_the_strict_policy_asks_for_no_less_than_the_default_one() -> None:
    strict = {(asked.attack, asked.metric): asked for asked in load("strict").limits}
    for asked in load("default").limits:
        other = strict[asked.attack, asked.metric]
        assert asked.max is not None
        assert other.max is not None
        assert other.max <= asked.max
        assert (other.min_power or 0) >= (asked.min_power or 0)


def test_a_verdict_is_reached_without_heavy_libraries() -> None:
    program = (
        "import sys, audit.policy\n"
        "heavy = {'torch', 'transformers', 'scipy', 'sklearn', 'matplotlib', 'weasyprint'} & set(sys.modules)\n"
        "sys.exit(str(sorted(heavy)) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
