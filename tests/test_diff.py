"""Two scans compared: planted changes are found, none is made up, and nothing that is missing looks better."""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from case_tables import read_tables, table
from commands import docaudit, run_python
from example_records import mean, record, share
from policy_texts import policy_text
from scipy import stats

from audit import record as records
from audit.cards import Bounds
from audit.errors import RecordError
from audit.measurements import Check, Estimate, Unresolved
from audit.policy import today
from audit.record import Reason, Result
from audit.report.scan_diff import render, schema
from audit.stats.paired import UnitScores
from audit.workflows.diff import diff_scans, gate_against_baseline
from audit.workflows.unit_scores import read_scores, write_scores

N = 120
FOUND = "excess_pr.unique"
POLICY = policy_text(
    "membership auc max = 0.65\nrequired = false",
    "reconstruction excess_pr.unique max = 0.5\nrequired = false",
    name="own",
)
WAIVER = read_tables(Path(__file__).with_suffix(".toml"))["waiver"].format(today().year)


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(POLICY)
    return path


def auc(value: float, error: float = 0.02, name: str = "auc") -> Estimate:
    return replace(mean(name, value, error, N, 0.5, "chance"), unit="documents")


def membership(*measurements, **more) -> Result:
    return Result("membership", parameters={"n_masks": 7}, measurements=measurements, **more)


def reconstruction(value: float, error: float = 0.02, **more) -> Result:
    items = (mean("excess_pr.unique", value, error, N, 0.0, "held-out"),)
    return Result("reconstruction", parameters={"n_attempts": 8}, measurements=items, **more)


def scan(*attacks, **more):
    """A record of a docaudit that knows two attacks."""
    return replace(record(*attacks, battery=("reconstruction", "membership")), **more)


def gone(attack, status, kind, why="this attack was not run"):
    """An attack that gave no numbers."""
    return Result(attack, status=status, reason=Reason(kind, why, "scan without --only"))


LEFT = gone("membership", "left out", "data", "documents")


def saved(folder: Path, audited, scores=None) -> Path:
    """The folder of a scan; `scores` by attack and metric are its values of units."""
    (folder / "evidence").mkdir(parents=True)
    records.write(audited, folder / "record.json")
    for result in audited.attacks:
        if scores is not None and result.status == "completed":
            write_scores(folder / "evidence", result, scores.get(result.attack, {}))
    return folder


def compared(tmp_path, old, new, scores=(None, None), **more):
    places = [
        saved(tmp_path / name, one, own)
        for name, one, own in zip("ab", (old, new), scores, strict=True)
    ]
    return diff_scans(*places, **more)


def gated(tmp_path, policy, old, new):
    places = [saved(tmp_path / name, one) for name, one in zip("ab", (old, new), strict=True)]
    return gate_against_baseline(places[1], str(policy), places[0])[1]


def change(found, metric):
    return next(one for one in found.changes if one.metric == metric)


def fields(hits, seed=0, others=0):
    """Values of fields of N member documents and as many others; so many of either are found."""
    values = np.concatenate([np.arange(N) < hits, np.arange(N) < others])
    names, order = (
        [f"d{place}/e" for place in range(2 * N)],
        np.random.default_rng(seed).permutation(2 * N),
    )
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
    member, noise = np.arange(2 * N) < N, np.random.default_rng(0).normal(size=2 * N)
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
LEAKS, QUIET = scan(reconstruction(0.6)), scan(reconstruction(0.1))
BOTH = scan(membership(auc(0.9)), reconstruction(0.1))
SKIPPED = scan(gone("membership", "skipped", "missing"), reconstruction(0.1))
UNRESOLVED = scan(membership(Unresolved("auc", "too few documents", 3, 20)), reconstruction(0.1))
NOT_ASKED = scan(reconstruction(0.1), left_out=(gone("membership", "left out", "left out"),))
OLDER = scan(membership(auc(0.9, name="low_fpr_advantage")))
OLDER = replace(OLDER, environment=replace(OLDER.environment, docaudit="0.0.9"))
RENAMED = "the record has no such number; another version of docaudit may call it otherwise"
RENAMED_NEW, RENAMED_OLD = f"NEW: {RENAMED}", f"OLD: {RENAMED}"
MANY = tuple(f"auc.{place}" for place in range(8))


def with_power(value, power):
    own = reconstruction(value, power="planted_detection")
    return scan(
        replace(own, measurements=(*own.measurements, mean("planted_detection", power, 0.01, N)))
    )


def with_reference(audited):
    (card,) = audited.references
    return replace(audited, references=(replace(card, card=replace(card.card, sha256="ab" * 32)),))


def area(value, **more):
    return scan(membership(auc(value)), **more)


def many(first):
    items = [auc(first if name == MANY[0] else 0.7, name=name) for name in MANY]
    return scan(membership(auc(0.7), *items, methods={"auc": MANY}))


FIRST_OF_MANY = MANY[0]


def useful(hits):
    return scan(utility=(share("masked_token_accuracy", hits, 5000),))


@table("old, new, metric, outcome, reason", globals())
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


@table("made, metric, paired, unpaired", globals())
def test_pairs_tell_what_two_intervals_cannot(tmp_path, made, metric, paired, unpaired):
    sides, scores = made
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


def test_other_references_are_noted(tmp_path):
    found = compared(tmp_path, LEAKS, with_reference(QUIET))
    assert any("references differ (auxiliary)" in note for note in found.notes)


def test_values_of_another_scan_are_not_taken_for_this_one(tmp_path):
    (old, new), scores = both(50, 62)
    found_in, place = (
        saved(tmp_path / "old", old, scores[0]),
        saved(tmp_path / "new", new, scores[1]),
    )
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


@table("more, said", globals())
def test_scans_that_differ_in_more_than_the_model_are_refused_with_the_difference(
    tmp_path, more, said
):
    old = scan(reconstruction(0.1))
    with pytest.raises(RecordError) as refused:
        compared(tmp_path, old, replace(old, **more))
    (problem,) = refused.value.problems
    assert problem.startswith(said)


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
    labels, alarms = [f"d{place}" for place in range(24)], 0
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
UNSHARED = "no limit could be compared with the baseline; by the policy alone: passed"


def two(found):
    return scan(reconstruction(found), membership(auc(0.5)))


@table("extra, old, new, code, reason", globals())
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
    old, new = (
        scan(reconstruction(0.1), membership(auc(0.5))),
        scan(reconstruction(0.4), membership(auc(0.5))),
    )
    verdict = gated(tmp_path, policy, old, new)
    assert (verdict.overall, verdict.exit_code) == ("violated", 10)
    assert verdict.reason.startswith(
        "1 limit is worse than in the baseline: reconstruction excess_pr.unique; by the policy alone: passed, 2 of 2"
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
    published = Path(__file__).parents[1] / "audit" / "diff.schema.json"
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


def test_an_older_record_is_compared_and_its_version_said(tmp_path):
    old = json.loads(records.dumps(scan(reconstruction(0.1))))
    for later in ("left_out", "dp", "bounds", "policy", "audit", "derived_by"):
        old.pop(later)
    old["environment"]["docaudit"], old["battery"] = "0.0.9", ["reconstruction"]
    new = scan(reconstruction(0.6), membership(auc(0.5)))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "record.json").write_text(json.dumps(old))
    found = diff_scans(tmp_path / "old", saved(tmp_path / "new", new))
    assert change(found, "excess_pr.unique").outcome == "worse"
    assert change(found, "auc").reason == "OLD: docaudit 0.0.9 had no such attack"
    assert any(note.startswith("docaudit differs: OLD 0.0.9, NEW 0.1.0") for note in found.notes)
