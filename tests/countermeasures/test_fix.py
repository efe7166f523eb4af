"""`docaudit fix`: what is tried, in which order, what is reused, and how it ends."""

import json
from dataclasses import replace
from pathlib import Path

import example_answers as answers
import example_records as examples
import pytest
from answering_checkpoints import make_donut
from scanned_worlds import make_questions
from typer.testing import CliRunner

from audit import record as records
from audit.attacks.budget import budget_that_can_pass
from audit.cards import ReferenceCard
from audit.cli import app
from audit.compare.defended import LimitChange, LimitUse, MeasuredDefense
from audit.corpus.documents import Corpus
from audit.defenses.interface import DEFENSES
from audit.engine.interface import SILENT, Progress
from audit.errors import RecordError, UsageError
from audit.extensions.countermeasures import fix as fixing
from audit.extensions.countermeasures.fix import (
    Fixed,
    Scanned,
    Tried,
    adopt_journals,
    candidates_of,
    find_candidates,
    read_scan,
)
from audit.extensions.countermeasures.fix_command import (
    _with_references,
    closing_lines,
    next_step,
    show_fixed,
)
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense
from audit.extensions.countermeasures.scans import count_baselines
from audit.policy import load
from audit.workflows.arguments import arguments_of, read_arguments
from audit.workflows.options import ScanOptions


class Unlearned(TrainingDefense):
    """Other random weights: a model that saw nothing of the data set."""

    name = "unlearned"
    title = "No training at all"
    description = "not trained"

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        return RetrainedModel(make_donut(out / "unlearned", 9), corpus.root)


def docaudit(*arguments: object) -> tuple[str, int]:
    """Run a command; return its output on one line, and its exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return " ".join(result.output.split()), result.exit_code


def scanned_of(record, verdict, tmp_path, budget="standard"):
    """Make a finished scan of made-up numbers."""
    options = ScanOptions(tmp_path / "model", tmp_path / "data", tmp_path / "scan", budget=budget)
    return Scanned(tmp_path / "scan", record, verdict, options, load("default"), "default")


def tried(label, outcomes, verdict, tmp_path, record):
    """Make a measured countermeasure with these outcomes of limits."""
    limits = tuple(
        LimitChange("membership", f"m{place}", LimitUse("violated"), LimitUse(outcome))
        for place, outcome in enumerate(outcomes)
    )
    comparison = MeasuredDefense(
        schema_version=3,
        docaudit="0",
        name=label,
        title=label,
        kind="training",
        key=label,
        policy="default",
        target="t",
        data="d",
        result="r",
        budget="standard",
        seed=0,
        verdict_before="violated",
        verdict_after=verdict,
        limits=limits,
        effects=(),
        usefulness=(),
        missing=(),
    )
    return Tried(label, comparison, record, 3.0, tmp_path / "models" / label)


def test_only_what_may_lift_a_violation_is_tried_and_the_least_effort_first(tmp_path):
    record, verdict, _ = answers.leaky()
    labels = [item.label for item in find_candidates(scanned_of(record, verdict, tmp_path))]
    assert labels.index("blocking") < labels.index("scrub")  # that needs a pass over the data too
    assert {"dp:8", "dp:2"} <= {*labels}
    assert "random-before" not in labels  # it helps beside another countermeasure alone


def test_private_training_is_tried_with_less_noise_first(tmp_path):
    record, verdict, _ = answers.leaky()
    scanned = scanned_of(record, verdict, tmp_path)
    assert [item.label for item in candidates_of("dp", scanned)] == ["dp:8", "dp:2"]
    (chosen,) = candidates_of("dp:3.5", scanned)
    assert chosen.label == "dp:3.5"
    assert chosen.defense.options.epsilon == 3.5


@pytest.mark.parametrize(("name", "problem"), [("dp:0", "dp:0"), ("dp:x", "dp:x"), ("no", "'no'")])
def test_a_name_that_is_no_countermeasure_is_refused(tmp_path, name, problem):
    record, verdict, _ = answers.leaky()
    with pytest.raises(UsageError, match=problem):
        candidates_of(name, scanned_of(record, verdict, tmp_path))


@pytest.mark.parametrize(
    ("outcomes", "verdict", "code"),
    [
        pytest.param(("passed", "passed"), "passed", 0, id="passes"),
        pytest.param(("passed", "undecided"), "undecided", 11, id="nothing is exceeded any more"),
        pytest.param(("passed", "violated"), "violated", 10, id="a limit stays exceeded"),
    ],
)
def test_the_exit_code_is_that_of_the_best_countermeasure(tmp_path, outcomes, verdict, code):
    record, audited, _ = answers.leaky()
    worse = tried("worse", ("violated", "violated"), "violated", tmp_path, record)
    better = tried("better", outcomes, verdict, tmp_path, record)
    scanned = scanned_of(record, audited, tmp_path)
    fixed = Fixed(scanned, (worse, better), {}, (), "standard")
    assert fixed.best is better
    assert fixed.exit_code == code


def test_a_quick_scan_ends_with_the_command_that_confirms_the_best(tmp_path):
    record, verdict, _ = answers.leaky()
    scanned = scanned_of(record, verdict, tmp_path, budget="quick")
    best = tried("scrub", ("undecided",), "undecided", tmp_path, record)
    step = next_step(Fixed(scanned, (best,), {}, (), "standard"), Path("docaudit-fix"))
    assert step is not None
    title, command = step
    assert title.startswith("A quick scan cannot pass.")
    assert command == f"docaudit fix {tmp_path / 'scan'} --confirm scrub"


def test_a_budget_can_pass_from_the_share_on_that_limits_ask_for():
    default = load("default")
    asked = max(limit.min_coverage or 0 for limit in default.limits)
    assert asked > 0.25
    assert budget_that_can_pass(default.limits, "quick") == "standard"
    assert budget_that_can_pass(default.limits, "full") == "full"
    undemanding = tuple(
        replace(limit, min_coverage=None, min_category_coverage=None) for limit in default.limits
    )
    assert budget_that_can_pass(undemanding, "quick") == "quick"


def test_arguments_of_a_scan_are_read_as_they_were_given(tmp_path, monkeypatch):
    record, _, _ = answers.leaky()
    options = ScanOptions(
        Path("model"),
        Path("data"),
        tmp_path,
        budget="quick",
        only=("membership",),
        seed=7,
        references={"pretrained": (Path("base"),)},
        documents=40,
    )
    identity = {"model": record.target.sha256, "data": record.corpus.sha256}
    (tmp_path / "evidence").mkdir()
    stored = {**identity, "arguments": arguments_of(options)}
    (tmp_path / "evidence" / "scan.json").write_text(json.dumps(stored))
    assert read_arguments(tmp_path, record) == options
    here = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert read_arguments(tmp_path, record) == replace(
        options,
        model_dir=here / "model",
        data_dir=here / "data",
        references={"pretrained": (here / "base",)},
    )


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        pytest.param(None, "scan.json", id="no evidence"),
        pytest.param(
            {"model": "other", "data": "x", "arguments": {}}, "another scan", id="another"
        ),
        pytest.param({"paths": {}}, "how the scan was called", id="an older version"),
    ],
)
def test_evidence_that_does_not_say_how_the_scan_was_called_is_refused(tmp_path, stored, problem):
    record, _, _ = answers.leaky()
    (tmp_path / "evidence").mkdir()
    if stored is not None:
        (tmp_path / "evidence" / "scan.json").write_text(json.dumps(stored))
    with pytest.raises(RecordError, match=problem) as error:
        read_arguments(tmp_path, record)
    assert "--evidence" in str(error.value.hint)


def test_the_scan_of_another_version_is_to_be_scanned_again(tmp_path):
    record, _, _ = answers.leaky()
    content = json.loads(records.dumps(record)) | {"of_old": 1}
    content["environment"]["docaudit"] = "0.13.1"
    (tmp_path / "record.json").write_text(json.dumps(content))
    (tmp_path / "evidence").mkdir()
    places = {"MODEL_DIR": "my model", "DATA_DIR": "data"}
    (tmp_path / "evidence" / "scan.json").write_text(json.dumps({"paths": places}))
    with pytest.raises(RecordError, match=r"docaudit 0\.13\.1 made this scan") as error:
        read_scan(tmp_path)
    assert error.value.hint == "scan again: docaudit scan 'my model' data"


def test_the_baselines_of_a_scan_are_counted():
    record, _, _ = answers.leaky()
    roles = ("pretrained", "baseline-0", "baseline-1", "split-0")
    cards = tuple(ReferenceCard(role, "manifest", record.target) for role in roles)
    assert count_baselines(replace(record, references=cards)) == 2


def test_what_the_model_was_fine_tuned_from_starts_the_training_and_makes_no_other_scan(tmp_path):
    scanned = ScanOptions(Path("m"), Path("d"), tmp_path, references={"splits": (Path("s"),)})
    options = _with_references(scanned, ["pretrained=base"])
    assert options.start == Path("base")
    assert options.references == scanned.references


def test_journals_are_copied_and_what_is_there_stays(tmp_path):
    source = tmp_path / "scan"
    target = tmp_path / "fix" / "before" / "evidence"
    source.mkdir()
    (source / "journal-membership-1.jsonl").write_text("of the scan")
    (source / "recovered.jsonl").write_text("personal")
    adopt_journals(source, target)
    (target / "journal-membership-1.jsonl").write_text("gone on")
    adopt_journals(source, target)
    assert [path.name for path in target.iterdir()] == ["journal-membership-1.jsonl"]
    assert (target / "journal-membership-1.jsonl").read_text() == "gone on"
    assert (source / "journal-membership-1.jsonl").read_text() == "of the scan"


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """A finished quick scan of random weights, with the policy that is shipped."""
    root = tmp_path_factory.mktemp("fix")
    make_questions(root)
    output, code = docaudit(
        "scan", root / "model", root / "data", "--budget", "quick", "--out", root / "scan"
    )
    assert code in (10, 11), output
    return root / "scan"


def test_a_named_countermeasure_is_measured_without_scanning_the_model_again(
    scan, tmp_path, monkeypatch
):
    monkeypatch.setitem(DEFENSES, "unlearned", Unlearned())
    output, code = docaudit("fix", scan, "--try", "unlearned", "--out", tmp_path / "out")
    assert code in (10, 11), output
    assert "Its model:" in output
    before = records.read(tmp_path / "out" / "before")
    assert before.timing.resumed == before.timing.outcomes > 0
    assert records.read(tmp_path / "out" / "unlearned" / "after").derived_by == (
        "No training at all",
    )
    assert (tmp_path / "out" / "defences.html").exists()


def test_a_second_run_reads_what_was_measured(scan, tmp_path, monkeypatch):
    monkeypatch.setitem(DEFENSES, "unlearned", Unlearned())
    docaudit("fix", scan, "--try", "unlearned", "--out", tmp_path / "out")
    monkeypatch.setattr(Unlearned, "train", None)
    output, _ = docaudit("fix", scan, "--try", "unlearned", "--out", tmp_path / "out")
    assert "measured before" in output


def test_where_no_limit_is_exceeded_nothing_is_tried(scan, tmp_path):
    scanned = read_scan(scan)
    if scanned.verdict.overall == "violated":
        pytest.skip("random weights exceeded a limit by chance")
    output, code = docaudit("fix", scan, "--out", tmp_path / "out")
    assert code == 2
    assert "no limit is exceeded" in output


def test_a_confirmation_needs_what_was_measured(scan, tmp_path):
    output, code = docaudit("fix", scan, "--confirm", "scrub", "--out", tmp_path / "out")
    assert code == 2
    assert "no countermeasure was measured there" in output
    assert "opening the model" not in output


@pytest.mark.parametrize(("after", "shown"), [(0.0, "0"), (-0.02, "0"), (1234.4, "1,234")])
def test_the_table_shows_the_count_of_the_method_that_decides(
    after, shown, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "120")
    record, verdict, _ = examples.violated()
    limit = LimitChange(
        "reconstruction",
        "values_identified",
        LimitUse("violated", number=390.08),
        LimitUse("undecided", number=after),
    )
    item = tried("dp:1", (), "undecided", tmp_path, record)
    item = replace(item, comparison=replace(item.comparison, limits=(limit,)))
    scanned = scanned_of(record, verdict, tmp_path)
    monkeypatch.setattr(
        "audit.extensions.countermeasures.fix.headline_limit",
        lambda _: ("reconstruction", "values_identified"),
    )
    show_fixed(Fixed(scanned, (item,), {}, (), "standard"), tmp_path / "out")
    assert f"390 → {shown} " in capsys.readouterr().out


def test_the_last_lines_say_that_the_report_of_the_scan_was_drawn_again(tmp_path):
    record, verdict, _ = answers.leaky()
    best = tried("scrub", ("undecided",), "undecided", tmp_path, record)
    fixed = Fixed(scanned_of(record, verdict, tmp_path), (best,), {}, (), "standard")
    assert not any("report" in line for line in closing_lines(fixed))
    report = tmp_path / "scan" / "report.pdf"
    report.parent.mkdir()
    report.touch()
    assert f"The report of the scan shows what was tried, too: {report}" in closing_lines(fixed)


class Strong(Unlearned):
    """The same countermeasure at two strengths."""

    name = "strong"


def with_share(item, share):
    """Return a measured countermeasure whose numbers use up this share of each limit."""
    limits = ()
    for limit in item.comparison.limits:
        used_up = replace(limit.after, value=share)
        limits += (replace(limit, after=used_up),)
    return replace(item, comparison=replace(item.comparison, limits=limits))


def test_of_two_that_stop_the_leak_the_one_that_leaves_room_below_the_limits_is_best(tmp_path):
    record, verdict, _ = answers.leaky()
    near = with_share(tried("dp:8", ("undecided",), "undecided", tmp_path, record), 0.83)
    far = with_share(tried("dp:2", ("undecided",), "undecided", tmp_path, record), 0.2)
    fixed = Fixed(scanned_of(record, verdict, tmp_path), (near, far), {}, (), "standard")
    assert fixed.best is far


def test_limits_on_the_text_that_the_policy_only_reports_keep_no_leak_open(tmp_path):
    record, verdict, _ = answers.leaky()
    item = tried("dp:8", ("passed", "violated"), "undecided", tmp_path, record)
    assert item.n_exceeded == 0, "the verdict on the model does not count them"
    assert Fixed(scanned_of(record, verdict, tmp_path), (item,), {}, (), "standard").exit_code == 11


def test_room_is_asked_only_below_the_limits_that_the_leak_exceeded(tmp_path):
    record, _, _ = answers.leaky()
    item = with_share(tried("scrub", ("undecided",), "undecided", tmp_path, record), 0.2)
    noisy = LimitChange("membership", "n", LimitUse("undecided", 0.0), LimitUse("undecided", 4.8))
    limits = (*item.comparison.limits, noisy)
    assert replace(item, comparison=replace(item.comparison, limits=limits)).leaves_room


@pytest.mark.parametrize(
    ("share", "labels"), [(0.2, ["strong:8"]), (0.83, ["strong:8", "strong:2"])]
)
def test_more_of_what_stops_the_leak_is_tried_only_near_a_limit(
    tmp_path, monkeypatch, share, labels
):
    record, verdict, _ = answers.leaky()
    weak = tried("strong:8", ("undecided",), "undecided", tmp_path, record)
    weak = with_share(weak, share)

    def measure(candidate, before, plan):
        yield "measuring"
        return replace(weak, label=candidate.label)

    monkeypatch.setattr(fixing, "_try", measure)
    chosen = [fixing.Candidate("strong:8", Strong()), fixing.Candidate("strong:2", Strong())]
    scanned = scanned_of(record, verdict, tmp_path)
    plan = fixing.Plan(scanned.options, scanned.policy, SILENT)
    steps = fixing._try_in_turn(chosen, None, plan)
    assert [item.label for item in steps if isinstance(item, Tried)] == labels
