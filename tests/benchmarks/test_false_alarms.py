"""The committed evidence on false alarms: 1,000 leak-free audits for every number that a limit is held against."""

import json
from pathlib import Path

import pytest

from audit.policy import load
from benchmarks.calibration import membership_calibration
from benchmarks.calibration import reconstruction_calibration as calibration

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "calibration"
DEFAULT = load("default")
STRICT = load("strict")


def committed(name):
    return json.loads((BENCHMARKS / f"{name}_calibration.json").read_text())


def limits_of(attack, policy=DEFAULT):
    return {limit.metric: limit.max for limit in policy.limits if limit.attack == attack}


def test_reconstruction_is_calibrated_on_the_shipped_limits():
    written = committed("reconstruction")
    assert limits_of(calibration.ATTACK) == calibration.LIMITS
    assert {metric: calibration.LIMITS[metric] for metric in written["limits"]} == written["limits"]
    assert calibration.SHARES.keys() <= written["limits"].keys()
    for name in calibration.LEAK_FREE:
        row = written["settings"][name]
        assert row["audits"] == 1000
        assert max(row["bounds"]["over 0"].values()) <= calibration.ALLOWED, name
        for policy in ("default", "strict"):
            for metric in written["limits"]:
                assert row["policies"][policy][metric]["violated"] <= calibration.ALLOWED, (
                    name,
                    policy,
                    metric,
                )


@pytest.mark.parametrize("name", calibration.PLANTED)
def test_what_leaks_as_much_as_a_reconstruction_limit_is_neither_passed_nor_violated(name):
    row = committed("reconstruction")["settings"][name]
    metric = name.partition(": ")[0]
    factor = int(name.partition(": ")[2][0])
    counts = row["policies"]["default"][metric]
    assert sum(counts.values()) == row["audits"] == 200
    if factor == 1:
        assert counts["violated"] <= 16  # 97.5 % quantile of 200 at 5 %
        assert counts["passed"] <= 16
    else:
        assert counts["passed"] == 0


@pytest.mark.parametrize("name", calibration.COUNTED)
def test_as_many_known_values_or_documents_as_a_limit_are_rarely_more_than_it(name):
    metric = name.partition(": ")[0]
    factor = int(name.partition(": ")[2][0])
    with calibration.fewer_resamples(500):
        counts = calibration.tally(calibration.COUNTED[name], 10)["policies"]["default"][metric]
    if factor == 1:
        assert counts["violated"] <= 3  # of 10 at 5 %: more have a chance of 1 in 1,000
    else:
        assert counts["violated"] >= 5


def test_membership_is_calibrated_on_the_shipped_limits():
    written = committed("membership")
    for policy in (DEFAULT, STRICT):
        judged = {limit.metric: limit.max for limit in membership_calibration.LIMITS[policy.name]}
        assert judged == limits_of("membership", policy)
        # The limits are read from the policies, so that only the file of results can hold older
        # ones.
        assert written["limits"][policy.name] == membership_calibration.bounds_of(policy.name)
    settings = written["settings"]
    alarming = [row for row in settings.values() if "alarms" in row and not row["setting"]["leak"]]
    judged = [row for row in settings.values() if "verdicts" in row and not row["setting"]["known"]]
    assert alarming
    assert judged
    for row in (*alarming, *judged):
        assert row["audits"] == 1000
        assert max(row.get("alarms", {}).values(), default=0) <= calibration.ALLOWED
        assert all(
            counts.get("violated", 0) <= calibration.ALLOWED
            for counts in row.get("verdicts", {}).values()
        )


def test_provider_membership_is_calibrated_on_the_shipped_limits():
    written = committed("provider")["no leak"]
    assert len(written) == 5
    for name, row in written.items():
        assert (row["limits"], row["audits"]) == (limits_of("provider_membership"), 1000)
        assert max(row["violated"].values()) <= calibration.ALLOWED, name


def test_attribute_inference_is_calibrated_on_the_shipped_limits():
    written = committed("attribute")
    quiet = [
        row
        for row in written["without a leak"]
        if row["policy"] == "default" and row["documents"] < 1000
    ]
    assert {row["documents"] for row in quiet} == {40, 75, 150, 300}
    for row in quiet:
        assert row["audits"] == 1000
        assert row["both limits"].get("violated", 0) <= calibration.ALLOWED, row
    passed = {
        row["documents"]: row["both limits"]["passed"] for row in quiet if not row["correlation"]
    }
    assert passed[150] >= 975
    assert passed[75] >= 825
    for row in written["with a leak"]:
        counts = row["limits"]["attribute_inference excess.unique"]
        assert (
            row["leak"]["attribute_inference excess"]
            == row["times"] * limits_of("attribute_inference")["excess.unique"]
        )
        assert counts.get("passed", 0) <= (10 if row["times"] == 1 else 0)
        assert row["times"] > 1 or counts.get("violated", 0) <= 16


def test_leak_free_audits_violate_no_reconstruction_limit_and_large_leaks_pass_none():
    """A small version of `reconstruction_calibration`, which has 1,000 audits of each kind."""
    with calibration.fewer_resamples(500):
        quiet = calibration.tally(
            calibration.LEAK_FREE["no leak, 300 documents, correlation 0.3"], 20
        )
        loud = calibration.tally(
            calibration.PLANTED[
                "excess_hamming.unique: 4 x the limit, 150 documents, correlation 0.3"
            ],
            10,
        )
    for metric in calibration.LIMITS:
        assert quiet["policies"]["default"][metric]["violated"] == 0
        assert quiet["policies"]["default"][metric]["passed"] >= 14
    assert (
        max(quiet["bounds"]["over 0"].values()) <= 5
    )  # of 20 at 5 %: more have a chance of 1 in 3,000
    assert loud["policies"]["default"]["excess_hamming.unique"] == {
        "violated": 10,
        "undecided": 0,
        "passed": 0,
    }
