"""Two scans compared: planted changes are found, none is made up, and nothing that is missing looks better."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from commands import docaudit, run_python
from example_records import mean, share
from scipy import stats
from two_scans import (
    BOTH,
    LEAKS,
    NOT_ASKED,
    POLICY,
    QUIET,
    SKIPPED,
    UNRESOLVED,
    N,
    area,
    auc,
    change,
    compared,
    membership,
    reconstruction,
    saved,
    scan,
)

from audit import record as records
from audit.cards import Bounds
from audit.compare.paired import read_scores, write_scores
from audit.errors import RecordError
from audit.measurements import Check
from audit.record import Result
from audit.report.scan_diff import render, schema
from audit.stats.paired import UnitScores
from audit.workflows.diff import diff_scans

FOUND = "excess_pr.unique"


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(POLICY)
    return path


def fields(hits, seed=0, others=0):
    """Values of fields of N member documents and as many others; so many of either are found."""
    values = np.concatenate([np.arange(N) < hits, np.arange(N) < others])
    names = [f"d{place}/e" for place in range(2 * N)]
    order = np.random.default_rng(seed).permutation(2 * N)
    return UnitScores(
        [names[place] for place in order],
        [names[place] for place in order],
        order < N,
        values[order].astype(float),
    )


def both(old_hits, new_hits, error=0.04, others=(0, 0)):
    """Two scans whose fields are told, with the values of units of both."""
    found = [*zip((old_hits, new_hits), (0, 1), others, strict=True)]
    attacks = [reconstruction((hits - more) / N, error) for hits, _, more in found]
    scores = [{"reconstruction": {"excess_pr.unique": fields(*own)}} for own in found]
    return [scan(one) for one in attacks], scores


def areas(*shifts):
    """Two scans of an area whose member documents lie this far from the others, with the values of units."""
    member = np.arange(2 * N) < N
    noise = np.random.default_rng(0).normal(size=2 * N)
    names = [f"d{place}" for place in range(2 * N)]
    columns = [UnitScores(names, names, member, noise + shift * member, "auc") for shift in shifts]
    values = [
        stats.mannwhitneyu(own.values[member], own.values[~member]).statistic / N**2
        for own in columns
    ]
    return [scan(membership(auc(value))) for value in values], [
        {"membership": {"auc": own}} for own in columns
    ]


def unfinished(broken):
    """Scans that are told apart by their fields, of which so many have no finite value in NEW."""
    sides, scores = both(60, 12)
    scores[1]["reconstruction"]["excess_pr.unique"].values[:broken] = np.nan
    return sides, scores


ALARM = Check("epsilon", 0.001, "alarm", "epsilon is over 0", "train again", p_adjusted=0.001)
USELESS = (share("masked_token_accuracy", 3, 5000, 0.05, "chance"),)
OLDER = scan(membership(auc(0.9, name="low_fpr_advantage")))
OLDER = replace(OLDER, environment=replace(OLDER.environment, docaudit="0.0.9"))
RENAMED = "the record has no such number; another version of docaudit may call it otherwise"
RENAMED_NEW = f"NEW: {RENAMED}"
RENAMED_OLD = f"OLD: {RENAMED}"
MANY = tuple(f"auc.{place}" for place in range(8))


def with_power(value, power):
    own = reconstruction(value, power="planted_detection")
    return scan(
        replace(own, measurements=(*own.measurements, mean("planted_detection", power, 0.01, N)))
    )


def with_reference(audited):
    (card,) = audited.references
    return replace(audited, references=(replace(card, card=replace(card.card, sha256="ab" * 32)),))


def many(first):
    items = [auc(first if name == MANY[0] else 0.7, name=name) for name in MANY]
    return scan(membership(auc(0.7), *items, methods={"auc": MANY}))


FIRST_OF_MANY = MANY[0]


def useful(hits):
    return scan(utility=(share("masked_token_accuracy", hits, 5000),))


@pytest.mark.parametrize(
    ("old", "new", "metric", "outcome", "reason"),
    [
        pytest.param(area(0.9), area(0.5), "auc", "better", "", id="a smaller area"),
        pytest.param(area(0.5), area(0.9), "auc", "worse", "", id="a larger area"),
        pytest.param(
            area(0.1), area(0.5), "auc", "better", "", id="an area nearer to chance from below"
        ),
        pytest.param(
            area(0.45), area(0.1), "auc", "worse", "", id="an area farther from chance below"
        ),
        pytest.param(area(0.3), area(0.95), "auc", "worse", "", id="from below chance to above it"),
        pytest.param(
            useful(3120),
            useful(2100),
            "masked_token_accuracy",
            "worse",
            "",
            id="a less useful model",
        ),
        pytest.param(BOTH, SKIPPED, "auc", "lost", "NEW: ", id="an attack was skipped"),
        pytest.param(BOTH, NOT_ASKED, "auc", "lost", "NEW: ", id="an attack was left out"),
        pytest.param(BOTH, UNRESOLVED, "auc", "lost", "NEW: ", id="a number is unresolved"),
        pytest.param(
            LEAKS,
            scan(reconstruction(0.1, ablations=("half",))),
            FOUND,
            "lower",
            "the attacker was weakened: half",
            id="the attacker was weakened",
        ),
        pytest.param(
            LEAKS,
            scan(reconstruction(0.1, confounded="splits differ")),
            FOUND,
            "",
            "NEW: splits differ",
            id="the splits differ",
        ),
        pytest.param(
            LEAKS,
            scan(reconstruction(0.1, checks=(ALARM,))),
            FOUND,
            "lower",
            "NEW: epsilon is over 0",
            id="an alarm",
        ),
        pytest.param(
            LEAKS,
            replace(QUIET, utility=USELESS),
            FOUND,
            "lower",
            "does not do its task",
            id="a useless model",
        ),
        pytest.param(
            with_power(0.6, 0.9),
            with_power(0.1, 0.05),
            FOUND,
            "lower",
            "too weak: power 0.05",
            id="an attacker without strength",
        ),
        pytest.param(
            LEAKS,
            with_reference(QUIET),
            FOUND,
            "",
            "",
            id="the baseline of NEW was measured otherwise",
        ),
        pytest.param(
            with_reference(QUIET),
            LEAKS,
            FOUND,
            "worse",
            "",
            id="the baseline of OLD was measured otherwise",
        ),
        # p about 0.02: chance among eight, and a change on its own.
        pytest.param(
            many(0.7),
            many(0.766),
            FIRST_OF_MANY,
            "",
            "no surprise among so many",
            id="p about 0.02: chance among eight",
        ),
        pytest.param(
            area(0.7, utility=()),
            area(0.766, utility=()),
            "auc",
            "worse",
            "",
            id="p about 0.02: a change on its own",
        ),
        # Neither name is compared with the other.
        pytest.param(
            OLDER,
            area(0.5),
            "low_fpr_advantage",
            "lost",
            RENAMED_NEW,
            id="the new name of a metric",
        ),
        pytest.param(OLDER, area(0.5), "auc", "", RENAMED_OLD, id="the older name of a metric"),
    ],
)
def test_nothing_that_is_missing_weaker_or_called_otherwise_looks_better(
    tmp_path, old, new, metric, outcome, reason
):
    one = change(compared(tmp_path, old, new), metric)
    assert (one.outcome, one.lost) == (
        ("cannot be told", True) if outcome == "lost" else (outcome or "cannot be told", False)
    )
    assert reason in one.reason
    assert (one.difference is None) == (outcome == "lost" or "OLD: " in reason)
    assert one.good == (
        "less" if metric == FOUND else "more" if metric.startswith("masked") else "nearer to chance"
    )
    if metric == "auc" and one.difference is not None:
        before, after = (side.attacks[0].measurements[0].value for side in (old, new))
        assert one.difference.value == pytest.approx(abs(after - 0.5) - abs(before - 0.5), abs=1e-9)
    if metric == FIRST_OF_MANY:
        assert one.p < 0.05 < one.p_adjusted
        assert one.difference.low > 0


@pytest.mark.parametrize(
    ("scans", "metric", "paired", "unpaired"),
    [
        pytest.param(
            both(60, 12, 0.09),
            "excess_pr.unique",
            "better",
            "better",
            id="fewer fields are rebuilt",
        ),
        pytest.param(
            both(12, 60, 0.09), "excess_pr.unique", "worse", "worse", id="more fields are rebuilt"
        ),
        pytest.param(
            both(50, 75, 0.09),
            "excess_pr.unique",
            "worse",
            "cannot be told",
            id="none less, and the intervals overlap",
        ),
        pytest.param(areas(-0.8, 2.5), "auc", "worse", "worse", id="an area on the other side"),
        pytest.param(
            unfinished(20), "excess_pr.unique", "better", "better", id="scans that did not finish"
        ),
        # Both sides fall: the interval is that of their difference, while p is of no change in any document.
        pytest.param(
            both(120, 18, 0.09, (120, 36)),
            "excess_pr.unique",
            "cannot be told",
            "cannot be told",
            id="both sides fall",
        ),
    ],
)
def test_pairs_tell_what_two_intervals_cannot(tmp_path, scans, metric, paired, unpaired):
    sides, scores = scans
    alone = compared(tmp_path / "alone", *sides)
    found = change(alone, metric)
    assert (found.outcome, found.paired, "not paired" in found.difference.method) == (
        unpaired,
        False,
        True,
    )
    assert any("OLD has no values of units in evidence/ for" in note for note in alone.notes)
    told = change(compared(tmp_path / "pairs", *sides, scores), metric)
    assert (told.outcome, told.paired) == (paired, True)
    assert ("exchanges" in told.reason) == (paired == "cannot be told")
    assert told.difference.low < told.difference.value < told.difference.high
    if told.difference.n == 2 * N:
        assert told.difference.value == pytest.approx(found.difference.value, abs=1e-9)


def test_values_that_are_not_finite_on_one_side_are_left_out_on_both(tmp_path):
    for broken, paired in ((20, True), (2 * N, False)):
        sides, scores = unfinished(broken)
        found = change(compared(tmp_path / str(broken), *sides, scores), FOUND)
        assert (found.paired, found.difference.n) == (
            paired,
            2 * N - 20 if paired else found.difference.n,
        )
        assert np.isfinite(found.difference.value)


def test_values_beside_a_record_without_groups_are_still_read(tmp_path):
    older = {
        "result": "d914bbaf64b315b1322e22f17f59fe46df7068ea29fac00e104d5a745f5f2ece",
        "metrics": {},
    }
    (tmp_path / "units-reconstruction.json").write_text(json.dumps(older))
    assert read_scores(tmp_path, Result("reconstruction")) == {}
    assert read_scores(tmp_path, Result("reconstruction", dtype="bfloat16")) is None


def test_other_references_are_noted(tmp_path):
    found = compared(tmp_path, LEAKS, with_reference(QUIET))
    assert any("references differ (auxiliary)" in note for note in found.notes)


def test_values_of_another_scan_are_not_taken_for_this_one(tmp_path):
    (old, new), scores = both(50, 62)
    found_in = saved(tmp_path / "old", old, scores[0])
    place = saved(tmp_path / "new", new, scores[1])
    records.write(scan(reconstruction(0.9)), place / "record.json")
    assert not change(diff_scans(found_in, place), "excess_pr.unique").paired


def test_a_scan_beside_itself_tells_nothing(tmp_path):
    (old, _), scores = both(60, 60)
    old = replace(old, attacks=(*old.attacks, membership(auc(1.0, 0.0), auc(0.7, name="auc.loss"))))
    found = compared(tmp_path, old, old, (scores[0], scores[0]))
    assert {one.outcome for one in found.changes} == {"cannot be told"}
    assert all(one.difference.value == 0 for one in found.changes)
    assert "same record" in found.notes[0]
    shown = render(found, "text", 80).replace("the same record", "")
    assert not {"same", "unchanged", "equal", "no change"} & {*shown.split()}


def test_damaged_values_of_units_are_refused(tmp_path):
    (old, _), scores = both(60, 12)
    place = saved(tmp_path / "a", old, scores[0])
    (place / "evidence" / "units-reconstruction.json").write_text('{"result": ""}')
    with pytest.raises(RecordError, match=r"units-reconstruction\.json: damaged"):
        diff_scans(place, place)


BOUND = Bounds(40, None, 1.0)


def with_parameters(**more):
    own = reconstruction(0.1)
    return {"attacks": (replace(own, parameters={**own.parameters, **more}),)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"shares": {"reconstruction": 0.5}},
            "reconstruction: the share of its trials differs",
            id="the share of trials",
        ),
        pytest.param({"seed": 1}, "the seed differs: OLD 0, NEW 1", id="the seed"),
        pytest.param(
            {"budget": "quick", "share": 0.25},
            "the budget differs: OLD standard, NEW quick",
            id="the budget",
        ),
        pytest.param(
            with_parameters(n_attempts=16),
            "reconstruction: the parameter n_attempts differs: OLD 8, NEW 16",
            id="a parameter",
        ),
        pytest.param(
            with_parameters(top_p=0.1),
            "reconstruction: the parameter top_p differs: OLD none, NEW 0.1",
            id="a parameter that was not set",
        ),
        pytest.param(
            {"bounds": BOUND},
            "the bound on trials differs: OLD none, NEW 40 documents",
            id="the bound on trials",
        ),
    ],
)
def test_scans_that_differ_in_more_than_the_model_are_refused_with_the_difference(
    tmp_path, changes, message
):
    old = scan(reconstruction(0.1))
    with pytest.raises(RecordError) as refused:
        compared(tmp_path, old, replace(old, **changes))
    (problem,) = refused.value.problems
    assert problem.startswith(message)


def test_every_difference_is_named_at_once_and_wrong_use_exits_2(tmp_path, policy):
    old = scan(reconstruction(0.1))
    other = replace(old, seed=1, corpus=replace(old.corpus, sha256="ab" * 32, name="letters"))
    places = [saved(tmp_path / name, one) for name, one in (("a", old), ("b", other))]
    for command in (
        ("diff", *places),
        ("gate", places[1], "--baseline", places[0], "--policy", policy),
    ):
        result = docaudit(*command)
        assert result.exit_code == 2
        assert (
            "the data set differs: OLD receipts-2026 (sha256 0c51e7aa0c51), NEW letters (sha256 ab"
            in result.stderr
        )
        assert "the seed differs" in result.stderr
        assert result.stdout == ""


def test_false_alarms_of_whole_comparisons_stay_rare(tmp_path):
    """Two models that find each field with the same chance, three groups of fields: a diff says a word in few of 30."""
    rng = np.random.default_rng(3)
    names = ("excess_pr.unique", "excess_pr.unique.lowest_loss", "excess_pr.repeated")
    labels = [f"d{place}" for place in range(24)]
    alarms = 0
    for index in range(30):
        sides = []
        for side in "ab":
            columns = {name: rng.random(24) < 0.3 for name in names}
            items = tuple(
                mean(name, float(own.mean()), 0.05, 24, 0.0, "held-out")
                for name, own in columns.items()
            )
            result = Result(
                "reconstruction",
                parameters={},
                measurements=items,
                methods={"excess_pr.unique": names[:2]},
            )
            scores = {
                name: UnitScores(labels, labels, np.ones(24, bool), own.astype(float))
                for name, own in columns.items()
            }
            sides.append(
                saved(tmp_path / f"{index}{side}", scan(result), {"reconstruction": scores})
            )
        found = diff_scans(*sides)
        assert all(one.paired for one in found.changes if one.attack)
        alarms += any(one.outcome != "cannot be told" for one in found.changes)
    assert alarms <= stats.binom.ppf(0.999, 30, 0.05)


def test_scans_are_compared_without_torch(tmp_path):
    place = str(saved(tmp_path / "a", scan(reconstruction(0.1))))
    found = run_python("-X", "importtime", "-m", "audit", "diff", place, place)
    assert found.returncode == 0, found.stderr
    assert not [
        heavy
        for heavy in ("torch", "transformers", "sklearn", "matplotlib")
        if f" {heavy}\n" in found.stderr
    ]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A comparison with all three outcomes, and names that would steer what shows them."""
    old = scan(reconstruction(0.1), membership(auc(0.9), auc(0.6, name="auc.|<img src=x>@here")))
    new = scan(reconstruction(0.6), membership(auc(0.5), auc(0.6, name="auc.|<img src=x>@here")))
    ways = {"auc": ("auc", "auc.|<img src=x>@here")}
    old, new = (
        replace(one, attacks=(one.attacks[0], replace(one.attacks[1], methods=ways)))
        for one in (old, new)
    )
    new = replace(new, target=replace(new.target, name="[model](http://x)"))
    return compared(tmp_path_factory.mktemp("shown"), old, new)


@pytest.mark.parametrize("width", [80, 60])
def test_text_fits_the_terminal(shown, width):
    lines = render(shown, "text", width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert [text.index(one) for one in ("Worse (1)", "Better (1)", "Cannot be told (2)")] == sorted(
        text.index(one) for one in ("Worse (1)", "Better (1)", "Cannot be told (2)")
    )
    row = next(line for line in lines if "excess_pr.unique" in line)
    assert row.split()[1:4] == ["0.100", "0.600", "+0.500"]
    assert row.endswith("]*")


def test_the_last_screen_names_each_attack_once_in_words(shown):
    """A terminal shows the end: without it, the last lines were the rules of the comparison."""
    *_, last = render(shown, "text", 80).split("\n\nIn short, by the first number of each attack\n")
    compared_places = {change.place for change in shown.changes if change.compared}
    lines = [line for line in last.splitlines() if line.startswith("  ") and line[2] != " "]
    assert len(lines) == len(compared_places)
    assert "  Restore a blacked-out value: 10\u00a0points → 60\u00a0points: worse" in lines
    assert last.rstrip().replace("\n  ", " ").endswith("numbers could be compared.")


def test_markdown_neither_links_nor_mentions_nor_draws(shown):
    text = render(shown, "markdown", 80)
    assert text.startswith("### docaudit: 1 worse, 1 better, 2 cannot be told")
    for live in ("<img", "@here", "](http"):
        assert live not in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "metric" not in line]
    assert (len(rows), {row.replace(r"\|", "").count("|") for row in rows}) == (
        len(shown.changes),
        {7},
    )
    assert len(text.encode()) < 60_000


def test_json_is_what_its_schema_says(shown, tmp_path):
    found = json.loads(render(shown, "json", 80))
    jsonschema.validate(found, schema())
    published = Path(__file__).parents[2] / "audit" / "diff.schema.json"
    assert json.loads(published.read_text()) == schema(), (
        'write it again: python -c "import json, pathlib; from audit.report.scan_diff import schema; '
        "pathlib.Path('audit/diff.schema.json').write_text(json.dumps(schema(), indent=1) + chr(10))\""
    )
    assert found["schema_version"] == 1
    assert [one["outcome"] for one in found["changes"]] == [one.outcome for one in shown.changes]
    assert json.loads(json.dumps(asdict(shown))) == found


def test_values_of_units_come_back_as_they_were(tmp_path):
    own = UnitScores(
        ["a", "b"],
        ["x", "x"],
        np.array([True, False]),
        np.array([0.1, -np.inf]),
        "auc",
        (-2.0, 3.0),
    )
    result = reconstruction(0.1)
    write_scores(tmp_path, result, {"m": own})
    path = tmp_path / "units-reconstruction.json"
    assert path.stat().st_mode & 0o777 == 0o600
    kept = read_scores(tmp_path, records.loads(records.dumps(scan(result))).attacks[0])["m"]
    assert len({*kept.units, *kept.clusters}) == 3
    assert not {"a", "b", "x"} & {*kept.units, *kept.clusters}, "names are hashed"
    assert (kept.member.tolist(), kept.kind, kept.limits) == ([True, False], "auc", (-2.0, 3.0))
    assert kept.values[0] == 0.1
    assert np.isnan(kept.values[1])
    assert read_scores(tmp_path, replace(result, dtype="bfloat16")) is None
    assert read_scores(tmp_path / "nowhere", result) is None


def test_an_older_record_is_compared_and_its_version_said(tmp_path):
    old = json.loads(records.dumps(scan(reconstruction(0.1))))
    for later in ("left_out", "dp", "bounds", "policy", "audit", "derived_by"):
        old.pop(later)
    old["environment"]["docaudit"] = "0.0.9"
    old["battery"] = ["reconstruction"]
    new = scan(reconstruction(0.6), membership(auc(0.5)))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "record.json").write_text(json.dumps(old))
    found = diff_scans(tmp_path / "old", saved(tmp_path / "new", new))
    assert change(found, "excess_pr.unique").outcome == "worse"
    assert change(found, "auc").reason == "OLD: docaudit 0.0.9 had no such attack"
    assert any(note.startswith("docaudit differs: OLD 0.0.9, NEW 0.1.0") for note in found.notes)
