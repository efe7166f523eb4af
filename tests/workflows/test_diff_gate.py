"""The gate with a baseline: what is worse than before is refused, and what is missing too."""

import hashlib
import json
from dataclasses import replace

import pytest
from commands import docaudit
from two_scans import (
    BOTH,
    NOT_ASKED,
    POLICY,
    QUIET,
    SKIPPED,
    UNRESOLVED,
    area,
    auc,
    change,
    gone,
    membership,
    reconstruction,
    saved,
    scan,
)

from audit.policy import today
from audit.workflows.diff import diff_scans, gate_against_baseline

WAIVER = f"""
[[waivers]]
attack = "reconstruction"
metric = "excess_pr.unique"
owner = "A. Owner"
role = "head"
reason = "known since the pilot"
measure = "access is logged"
expires = {today().year}-12-31
"""


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(POLICY)
    return path


LEFT = gone("membership", "left out", "data", "documents")


def gated(tmp_path, policy, old, new):
    places = [saved(tmp_path / name, one) for name, one in zip("ab", (old, new), strict=True)]
    return gate_against_baseline(places[1], str(policy), places[0])[1]


WARNS = 'name = "own"\nundecided = "warn"'
SAME, LARGER = (scan(reconstruction(value), membership(auc(0.5))) for value in (0.7, 0.95))
AGAIN = replace(SAME, timing=replace(SAME.timing, seconds=SAME.timing.seconds + 1))
WAYS = {"auc": ("auc.loss", "auc.calibrated")}
TWO_WAYS = scan(
    membership(auc(0.6), auc(0.6, name="auc.loss"), auc(0.6, name="auc.calibrated"), methods=WAYS)
)
ONE_WAY = scan(membership(auc(0.6), auc(0.6, name="auc.loss"), methods={"auc": ("auc.loss",)}))
LOST = "measured in the baseline and not in this record: membership auc"
NOTHING = scan(
    left_out=tuple(gone(name, "left out", "left out") for name in ("membership", "reconstruction"))
)
GONE = scan(reconstruction(0.1), left_out=(LEFT,))
UNSHARED = "no limit could be compared with the baseline; by the policy alone: met"


def two(found):
    return scan(reconstruction(found), membership(auc(0.5)))


@pytest.mark.parametrize(
    ("extra", "old", "new", "code", "reason"),
    [
        pytest.param("", two(0.4), two(0.1), 0, "", id="a smaller leak"),
        pytest.param("", two(0.1), two(0.13), 0, "", id="a change within chance"),
        pytest.param(
            "",
            scan(reconstruction(0.9)),
            scan(reconstruction(0.8)),
            10,
            "1 of 2 limits exceeded",
            id="a smaller leak over its limit",
        ),
        pytest.param("", area(0.5), GONE, 11, LOST, id="an attack is gone"),
        pytest.param(
            WARNS, area(0.5), GONE, 11, LOST, id="an attack is gone, and only undecided limits warn"
        ),
        pytest.param(
            WARNS,
            QUIET,
            two(0.4),
            10,
            "1 limit is worse",
            id="a larger leak, and only undecided limits warn",
        ),
        pytest.param("", BOTH, SKIPPED, 11, LOST, id="an attack was skipped"),
        pytest.param("", BOTH, UNRESOLVED, 11, LOST, id="a number is unresolved"),
        pytest.param("", BOTH, NOT_ASKED, 11, LOST, id="an attack was left out"),
        pytest.param("", TWO_WAYS, ONE_WAY, 11, "measured in the baseline", id="a method is gone"),
        pytest.param(WAIVER, SAME, AGAIN, 0, "waived", id="a waived leak as before"),
        pytest.param(WAIVER, SAME, LARGER, 10, "1 limit is worse", id="a waived leak grew"),
        pytest.param("", NOTHING, GONE, 11, UNSHARED, id="nothing is shared"),
    ],
)
def test_the_gate_with_a_baseline(tmp_path, policy, extra, old, new, code, reason):
    name = extra if extra == WARNS else 'name = "own"'
    policy.write_text(POLICY.replace('name = "own"', name) + (WAIVER if extra == WAIVER else ""))
    verdict = gated(tmp_path, policy, old, new)
    assert (verdict.exit_code, reason in verdict.reason) == (code, True), verdict.reason
    if new is LARGER:
        assert "its waiver accepts the leak, not a larger one" in verdict.decisions[1].reason
    if new is ONE_WAY:
        assert change(diff_scans(tmp_path / "a", tmp_path / "b"), "auc.calibrated").limits == (
            "auc",
        )


def test_a_pass_with_a_regression_is_violated(tmp_path, policy):
    old = scan(reconstruction(0.1), membership(auc(0.5)))
    new = scan(reconstruction(0.4), membership(auc(0.5)))
    verdict = gated(tmp_path, policy, old, new)
    assert (verdict.overall, verdict.exit_code) == ("violated", 10)
    assert verdict.reason.startswith(
        "1 limit is worse than in the baseline: reconstruction excess_pr.unique; by the policy alone: met, 2 of 2"
    )
    assert verdict.reason.endswith("limits met")
    assert verdict.decisions[1].reason.startswith(
        "worse than in the baseline, beyond the interval of the change: excess_pr.unique 0.100 before, 0.400 now, "
        "change +0.300 ["
    )
    assert [one.outcome for one in verdict.decisions] == ["passed", "violated"]
    assert (verdict.counts.met, verdict.counts.violated) == (1, 1)
    shown = docaudit("gate", tmp_path / "b", "--policy", policy, "--baseline", tmp_path / "a")
    assert shown.exit_code == 10
    assert "worse than in the baseline" in shown.stdout
    assert docaudit("gate", tmp_path / "b", "--policy", policy).exit_code == 0


def test_a_gate_that_finds_nothing_worse_still_says_what_was_compared(tmp_path, policy):
    old, new = (scan(reconstruction(value), membership(auc(0.5))) for value in (0.10, 0.13))
    held = gated(tmp_path, policy, old, new).baseline
    assert (
        held.record_sha256 == hashlib.sha256((tmp_path / "a/record.json").read_bytes()).hexdigest()
    )
    assert [(one.attack, one.outcome) for one in held.limits] == [
        ("membership", "cannot be told"),
        ("reconstruction", "cannot be told"),
    ]
    counted = "2 limits: 2 cannot be told"
    asked = ("gate", tmp_path / "b", "--policy", policy, "--baseline", tmp_path / "a")
    for form in ("text", "markdown"):
        shown = docaudit(*asked, "--format", form)
        assert shown.exit_code == 0
        assert held.record_sha256[:12] in shown.stdout
        assert counted in shown.stdout, form
    told = json.loads(docaudit(*asked, "--format", "json").stdout)["baseline"]
    assert told["record_sha256"] == held.record_sha256
    assert [one["outcome"] for one in told["limits"]] == ["cannot be told"] * 2
    alone = docaudit("gate", tmp_path / "b", "--policy", policy, "--format", "json")
    assert json.loads(alone.stdout)["baseline"] is None


def test_each_limit_is_told_by_its_worst_method_and_what_is_left_out_is_counted(tmp_path, policy):
    ways = {"auc": ("auc.loss", "auc.calibrated")}

    def audited(loss, calibrated):
        numbers = (auc(0.6), auc(loss, name="auc.loss"), auc(calibrated, name="auc.calibrated"))
        return scan(membership(*numbers, methods=ways))

    held = gated(tmp_path / "one", policy, audited(0.9, 0.6), audited(0.6, 0.6)).baseline
    assert [one.outcome for one in held.limits] == ["cannot be told", "not compared"]
    assert held.limits[1].reason
    held = gated(tmp_path / "two", policy, audited(0.9, 0.9), audited(0.6, 0.6)).baseline
    assert held.limits[0].outcome == "better"
    held = gated(tmp_path / "three", policy, audited(0.9, 0.6), audited(0.6, 0.9)).baseline
    assert (held.limits[0].outcome, "auc.calibrated 0.600 before" in held.limits[0].reason) == (
        "worse",
        True,
    )
    shown = docaudit(
        "gate", tmp_path / "three/b", "--policy", policy, "--baseline", tmp_path / "three/a"
    ).stdout
    assert "2 limits: 1 worse, 1 not compared" in shown
    assert "  worse: membership auc: auc.calibrated 0.600 before, 0.900 now" in shown


def test_a_record_is_no_baseline_of_itself(tmp_path, policy):
    """A pipeline whose baseline is the new record would be green for good."""
    place = saved(tmp_path / "a", scan(reconstruction(0.1), membership(auc(0.5))))
    shown = docaudit(
        "gate", place, "--policy", policy, "--baseline", place / "record.json", "--format", "json"
    )
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "the baseline is the record itself" in shown.stderr
