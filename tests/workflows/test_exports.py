"""An export of an audited model: it leaks more, no more, or it is undecided."""

import json
from dataclasses import replace

import numpy as np
import pytest
from commands import docaudit
from example_records import mean
from policy_texts import policy_text
from scipy import stats
from two_scans import N, auc, gone, membership, reconstruction, saved, scan

from audit import record as records
from audit.cards import Bounds
from audit.engine.interface import SILENT
from audit.measurements import Check
from audit.policy import evaluate, load, today
from audit.report.facts.build import facts_of
from audit.report.leaks import notes
from audit.stats.paired import UnitScores
from audit.workflows.exports import compare_with_audited
from audit.workflows.options import ScanOptions

POLICY = policy_text(
    "membership auc max = 0.65",
    "membership documents_identified max = 10\nshare = 0.05\nfloor = 7\nmin_power = 0.3\n"
    'holds = "estimate"',
    "reconstruction excess_pr.unique max = 0.05\nrequired = false",
    name="own",
)
ALARM = Check("epsilon", 0.001, "alarm", "epsilon is over 0", "train again", p_adjusted=0.001)


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(POLICY)
    return load(str(path))


def scored(shift, noise=0.0, **more):
    """A scan whose members score this much over the others, and its values by document."""
    member = np.arange(2 * N) < N
    rng = np.random.default_rng(0)
    values = rng.normal(size=2 * N) + shift * member + noise * rng.normal(size=2 * N)
    names = [f"d{place}" for place in range(2 * N)]
    area = stats.mannwhitneyu(values[member], values[~member]).statistic / N**2
    count = replace(mean("documents_identified", 3.0, 1.0, N), total=N)
    audited = scan(membership(auc(area), count, **more))
    return audited, {"membership": {"auc": UnitScores(names, names, member, values, "auc")}}


def compared(tmp_path, policy, old, new):
    """The record of the export `new` of the audited model `old`, each with its values."""
    audited = saved(tmp_path / "audited", *old)
    export = saved(tmp_path / "export", *new)
    options = ScanOptions(tmp_path, tmp_path, export, derived_from=audited)
    return compare_with_audited(records.read(export), options, policy, SILENT)


def verdict_on(record, policy):
    return evaluate(record, policy, today())


def test_a_rounded_export_leaks_no_more_and_the_verdict_is_that_of_the_policy(tmp_path, policy):
    record = compared(tmp_path, policy, scored(1.0), scored(1.0, noise=1e-4))
    derived = record.derived_from
    number = derived.deciding("membership")
    assert (derived.outcome, number.outcome, number.paired) == ("no more", "no more", True)
    assert number.margin == pytest.approx(0.075)
    assert number.difference.low <= 0 <= number.difference.high < number.margin
    alone = verdict_on(replace(record, derived_from=None), policy)
    verdict = verdict_on(record, policy)
    assert (verdict.overall, verdict.exit_code) == (alone.overall, alone.exit_code)


def test_an_export_that_leaks_more_never_passes(tmp_path, policy):
    record = compared(tmp_path, policy, scored(0.0), scored(0.25))
    assert record.derived_from.outcome == "more"
    alone = verdict_on(replace(record, derived_from=None), policy)
    assert alone.overall != "violated"
    verdict = verdict_on(record, policy)
    assert (verdict.overall, verdict.exit_code) == ("violated", 10)
    assert verdict.reason.startswith("1 limit is worse than in the audited model: membership auc;")
    assert f"by the policy alone: {alone.word}" in verdict.reason


def test_fewer_documents_leave_it_undecided(tmp_path, policy):
    record = compared(tmp_path, policy, scored(1.0), scored(2.5, noise=1.5))
    derived = record.derived_from
    assert derived.outcome == "undecided"
    assert "too few documents" in derived.deciding("membership").reason
    assert (
        "To decide, scan the audited model on more documents, then this export again"
        in derived.notes
    )


@pytest.mark.parametrize(
    ("bounded", "way"),
    [
        ({"budget": "quick"}, "with --budget standard"),
        ({"bounds": Bounds(60, None, 0.5)}, "without --documents or --time"),
    ],
)
def test_an_undecided_export_of_a_part_names_the_scan_that_can_decide(
    tmp_path, policy, bounded, way
):
    old = scored(1.0)
    new = scored(2.5, noise=1.5)
    pair = [(replace(record, **bounded), values) for record, values in (old, new)]
    record = compared(tmp_path, policy, *pair)
    remedy = f"To decide, scan the audited model {way}, then this export again"
    assert record.derived_from.notes.count(remedy) == 1
    decided = compared(tmp_path / "more", policy, pair[0], (pair[0][0], scored(1.0)[1]))
    assert remedy not in decided.derived_from.notes


@pytest.mark.parametrize(
    ("weaker", "reason"),
    [
        pytest.param({"confounded": "splits differ"}, "splits differ", id="confounded"),
        pytest.param({"ablations": ("half",)}, "weakened", id="a weakened attacker"),
        pytest.param({"checks": (ALARM,)}, "epsilon is over 0", id="an alarm"),
    ],
)
def test_a_weaker_attack_on_the_export_shows_nothing(tmp_path, policy, weaker, reason):
    record = compared(tmp_path, policy, scored(1.0), scored(1.0, noise=1e-4, **weaker))
    number = record.derived_from.deciding("membership")
    assert (record.derived_from.outcome, number.outcome) == ("undecided", "undecided")
    assert reason in number.reason


def test_an_attack_that_did_not_run_on_the_export_leaves_its_limits_open(tmp_path, policy):
    export = scan(gone("membership", "skipped", "missing"))
    record = compared(tmp_path, policy, scored(0.0), (export, {}))
    verdict = verdict_on(record, policy)
    assert record.derived_from.outcome == "undecided"
    assert (verdict.overall, verdict.exit_code) == ("undecided", 11)
    assert "measured in the audited model and not in this record" in verdict.reason


def test_a_growing_count_shows_a_leak_and_one_that_stays_decides_nothing(tmp_path, policy):
    old, scores = scored(1.0)
    (result,) = old.attacks
    area, count = result.measurements
    larger = replace(result, measurements=(area, replace(mean(count.name, 60.0, 3.0, N), total=N)))
    record = compared(tmp_path, policy, (old, scores), (replace(old, attacks=(larger,)), scores))
    number = record.derived_from.deciding("membership")
    assert (number.metric, number.outcome, number.margin) == ("documents_identified", "more", None)


def test_records_without_values_of_units_are_compared_by_their_intervals(tmp_path, policy):
    old = (scan(membership(auc(0.6, 0.01)), reconstruction(0.02, 0.002)), None)
    record = compared(tmp_path, policy, old, old)
    derived = record.derived_from
    assert derived.outcome == "no more"
    assert not derived.deciding("membership").paired
    assert any("no values of units" in note for note in derived.notes)


def test_scans_that_cannot_be_compared_keep_the_record_and_pass_nothing(tmp_path, policy):
    old, scores = scored(0.0)
    record = compared(tmp_path, policy, (replace(old, seed=3), scores), (old, scores))
    assert record.derived_from.incomparable == (
        "the seed differs: the audited model 3, the export 0"
    )
    assert verdict_on(record, policy).exit_code == 11


def test_the_record_keeps_the_statement_and_older_records_have_none(tmp_path, policy):
    record = compared(tmp_path, policy, scored(1.0), scored(1.0, noise=1e-4))
    assert records.loads(records.dumps(record)) == record
    older = json.loads(records.dumps(scored(1.0)[0]))
    del older["derived_from"]
    assert records.loads(json.dumps(older)).derived_from is None


def test_notes_and_formats_say_what_an_export_leaks(tmp_path, policy):
    record = compared(tmp_path, policy, scored(0.0), scored(0.25))
    lines = [note.text for note in notes(facts_of(record, verdict_on(record, policy)))]
    sentence = "leaks more than the audited model"
    assert sum(sentence in line for line in lines) == 1
    assert any(line.startswith("  membership: more: auc ") for line in lines)
    folder = tmp_path / "written"
    folder.mkdir()
    records.write(record, folder / "record.json")
    asked = ("gate", folder, "--policy", tmp_path / "own.toml")
    for form in ("text", "markdown", "comment"):
        shown = docaudit(*asked, "--format", form)
        assert (shown.exit_code, sentence in shown.stdout) == (10, True), shown.output
    told = json.loads(docaudit(*asked, "--format", "json").stdout)
    assert told["derived_from"]["numbers"][0]["outcome"] == "more"
    assert told["baseline"]["role"] == "audited model"
    difference = docaudit("diff", tmp_path / "audited", folder, "--policy", tmp_path / "own.toml")
    assert f"NEW is an export of receipts-model: {sentence}" in " ".join(difference.stdout.split())
