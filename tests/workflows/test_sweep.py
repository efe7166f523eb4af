"""`docaudit scan --checkpoints`: order of the checkpoints, one record each, the same trials, and the exit code."""

import json
import os
import shutil
from dataclasses import replace

import pytest
import tiny
from commands import docaudit
from hypothesis import given
from hypothesis import strategies as st

from audit import cards
from audit import record as records
from audit.errors import UsageError
from audit.policy import Verdict
from audit.policy.checks import settle
from audit.targets.checkpoint import content
from audit.targets.checkpoint.content import TrainingProgress, training_progress
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.encoders.loading import load
from audit.workflows.sweep import Checkpoint, CheckpointAudit, exit_code, find_checkpoints

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_candidates")]


def folders(place, *names, **states):
    for name in names:
        (place / name).mkdir(parents=True)
    for name, state in states.items():
        (place / name.replace("_", "-") / "trainer_state.json").write_text(json.dumps(state))
    return str(place / "*")


def order(pattern):
    found = find_checkpoints(pattern)
    return found.axis, [(checkpoint.name, checkpoint.x) for checkpoint in found.checkpoints]


def test_checkpoints_are_in_the_order_of_their_training(tmp_path):
    names = ("c-9", "c-20", "c-100")
    pattern = folders(tmp_path / "numbers", *names)
    assert order(pattern) == (
        "number of the checkpoint",
        [("c-9", 9), ("c-20", 20), ("c-100", 100)],
    )
    states = {"c_9": {"epoch": 3.0, "global_step": 9}, "c_20": {"epoch": 0.5, "global_step": 20}}
    pattern = folders(tmp_path / "epochs", *names, **states, c_100={"epoch": 2, "global_step": 1})
    assert order(pattern) == ("epoch", [("c-20", 0.5), ("c-100", 2), ("c-9", 3)])
    pattern = folders(tmp_path / "steps", *names, **states, c_100={"global_step": 10})
    assert order(pattern) == ("training step", [("c-9", 9), ("c-100", 10), ("c-20", 20)])
    pattern = folders(tmp_path / "one has none", *names, **states)
    assert order(pattern)[0] == "number of the checkpoint"
    pattern = folders(tmp_path / "two at one place", *names, **states, c_100=states["c_9"])
    assert order(pattern)[0] == "number of the checkpoint"
    pattern = folders(tmp_path / "words", "best", "last", "c-1")
    assert order(pattern) == (
        "place of the checkpoint by name",
        [("best", 1), ("c-1", 2), ("last", 3)],
    )


def test_patterns_that_cannot_serve(tmp_path):
    folders(tmp_path, "a/model", "b/model", "c/evidence")
    with pytest.raises(UsageError, match="no folder matches"):
        find_checkpoints(str(tmp_path / "nothing-*"))
    with pytest.raises(UsageError, match="several folders are called model"):
        find_checkpoints(str(tmp_path / "*" / "model"))
    with pytest.raises(UsageError, match="evidence"):
        find_checkpoints(str(tmp_path / "c" / "*"))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("[1]", None, id="a list"),
        pytest.param("\ufeff", "utf-16-le", id="not text"),
        pytest.param('{"epoch": -1, "global_step": -2}', None, id="negative"),
        pytest.param('{"epoch": true, "global_step": false}', None, id="truths"),
        pytest.param("DEEP", None, id="too deep"),
        pytest.param('{"epoch": NaN, "global_step": Infinity}', None, id="not finite"),
        pytest.param('{"epoch": "3", "global_step": null}', None, id="words"),
        pytest.param('{"epoch": 1DIGITS, "global_step": 1DIGITS}', None, id="too large"),
    ],
)
def test_a_damaged_trainer_state_says_nothing(text, encoding, tmp_path):
    text = text.replace("DIGITS", "0" * 5000).replace("DEEP", "[" * 100_000)
    (tmp_path / "trainer_state.json").write_text(text, encoding or "utf-8")
    assert training_progress(tmp_path) == TrainingProgress()


def test_the_card_says_how_far_training_had_come_and_the_hash_does_not(tmp_path):
    folder = tiny.checkpoint(tmp_path / "model")
    before = open_checkpoint(folder).sha256
    assert (load(folder).card.epoch, load(folder).card.step) == (None, None)
    (folder / "trainer_state.json").write_text('{"epoch": 1.5, "global_step": 30}')
    card = load(folder).card
    assert (card.epoch, card.step, card.sha256) == (1.5, 30, before)


def verdict(code):
    overall = {0: "passed", 10: "violated", 11: "undecided"}[code]
    return Verdict("default", overall, (), code, "so it is", settle(tiny.record(), ()))


CODES = st.sampled_from([0, 10, 11, None])


@given(st.lists(CODES, min_size=1), st.randoms())
def test_the_exit_code_is_the_worst_and_no_order_changes_it(codes, random):
    results = [
        CheckpointAudit(Checkpoint(None, 0), None, None if code is None else verdict(code))
        for code in codes
    ]
    found = exit_code(results)
    shuffled = results[:]
    random.shuffle(shuffled)
    assert found == exit_code(shuffled)
    if set(codes) == {None}:
        assert found == 2
    elif 10 in codes:
        assert found == 10
    else:
        assert found == (0 if set(codes) == {0} else 11)


# The command.


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.corpus(tmp_path_factory.mktemp("sweep") / "data", members=4, heldout=4, public=4)


@pytest.fixture(scope="module")
def public_model(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("sweep") / "pretrained", head="mlm", seed=9)


@pytest.fixture(scope="module")
def training_run(tmp_path_factory):
    place = tmp_path_factory.mktemp("sweep") / "run"
    for number, epoch in ((100, 2.0), (50, 1.0)):
        folder = tiny.checkpoint(place / f"checkpoint-{number}", head="mlm", seed=number)
        (folder / "trainer_state.json").write_text(
            json.dumps({"epoch": epoch, "global_step": number})
        )
        (folder / "optimizer.pt").write_bytes(b"the Trainer's own pickle, never read")
    return place


def without_times(record):
    return replace(record, timing=cards.Timing("", "", 0.0))


def journal(out):
    (path,) = (out / "evidence").glob("journal-reconstruction-*.jsonl")
    return path


def ids(out):
    return sorted(json.loads(line)["id"] for line in journal(out).read_text().splitlines())


def test_a_sweep_is_one_scan_a_checkpoint_with_the_same_trials(
    training_run, public_model, data, tmp_path, monkeypatch
):
    runs = shutil.copytree(training_run, tmp_path / "run")
    out = tmp_path / "out"
    broken = shutil.copytree(runs / "checkpoint-50", runs / "checkpoint-75")
    (broken / "trainer_state.json").write_text('{"epoch": 1.5}')
    (broken / "tokenizer.json").unlink()
    more = ("--reference", f"pretrained={public_model}", "--budget", "quick")
    arguments = ("scan", "--checkpoints", runs / "checkpoint-*", data, "--out", out, *more)
    result = docaudit(*arguments)
    assert result.exit_code == 11, result.output
    # One that cannot be audited stops none of the others, and is told.
    assert "checkpoint-75 is not audited" in result.output
    assert "no tokenizer.json" in result.output
    rows = [
        line.split()[:2] for line in result.output.splitlines() if line.startswith("checkpoint-")
    ]
    assert [row for row in rows if row[1][0].isdigit()] == [
        ["checkpoint-50", "1"],
        ["checkpoint-75", "1.5"],
        ["checkpoint-100", "2"],
    ]
    names = ["checkpoint-50", "checkpoint-100"]
    # However fast each of them is: time decides for a scan alone.
    taken = [records.read(out / name) for name in names]
    assert [(one.share, one.shares) for one in taken] == [(0.25, {})] * 2
    assert "trend.pdf" in result.output
    page = (out / "trend.html").read_text()
    assert "epoch" in page
    assert [name in page for name in (*names, "checkpoint-75")] == [True, True, False]
    found = [records.read(out / name) for name in names]
    assert [(record.target.epoch, record.target.step) for record in found] == [(1, 50), (2, 100)]
    assert len({record.target.sha256 for record in found}) == 2
    assert ids(out / names[0]) == ids(out / names[1]) != []
    assert len({record.attacks[0].counts for record in found}) == 1
    # The public model is trained once, and only its owner can read it.
    assert len({public_of(record).card.sha256 for record in found}) == 1
    (reference,) = (out / "evidence" / "references").iterdir()
    assert reference.name.startswith("public-mlm-")
    assert not any((out / name / "evidence" / "references").exists() for name in names)
    assert (out / "evidence").stat().st_mode & 0o777 == 0o700
    assert all((out / name / "report.html").exists() for name in names)
    # As if each had been scanned on its own, and had time for no more.
    monkeypatch.setattr("audit.workflows.planning.estimate", lambda *_: 1e6)
    alone = tmp_path / "alone"
    docaudit("scan", runs / names[1], data, "--out", alone, *more)
    assert without_times(records.read(alone)) == without_times(found[1])
    # Run again, it only reads its journals.
    before = [journal(out / name).stat().st_mtime_ns for name in names]
    assert docaudit(*arguments).exit_code == 11
    assert [journal(out / name).stat().st_mtime_ns for name in names] == before
    assert without_times(records.read(out / names[0])) == without_times(found[0])


def test_no_older_verdict_stands_where_a_checkpoint_is_refused(
    training_run, public_model, data, tmp_path
):
    runs = shutil.copytree(training_run, tmp_path / "run")
    out = tmp_path / "out"
    for number, epoch in ((25, 0.5), (75, 1.5)):  # before and after one that can be audited
        broken = shutil.copytree(runs / "checkpoint-50", runs / f"checkpoint-{number}")
        (broken / "trainer_state.json").write_text(json.dumps({"epoch": epoch}))
        (broken / "tokenizer.json").unlink()
        folder = out / broken.name
        (folder / "evidence").mkdir(parents=True)
        for name in ("record.json", "report.html", "report.pdf", "evidence/report-revealed.html"):
            (folder / name).write_text("of an earlier sweep")
    arguments = (
        "scan",
        "--checkpoints",
        runs / "checkpoint-*",
        data,
        "--out",
        out,
        "--budget",
        "quick",
        "--reference",
    )
    # While nothing can be audited, all stays as it was: here for a mistake in the command.
    assert docaudit(*arguments, f"pretrained={tmp_path / 'nowhere'}").exit_code == 2
    assert (out / "checkpoint-25" / "report.pdf").exists()
    assert docaudit(*arguments, f"pretrained={public_model}").exit_code == 11
    for name in ("checkpoint-25", "checkpoint-75"):
        left = [
            path.name for path in (out / name).rglob("*") if path.is_file() and path.name[0] != "."
        ]
        assert left == ["record.previous.json"]
        assert (out / name / "record.previous.json").read_text() == "of an earlier sweep"


def test_records_that_make_no_picture_keep_their_verdicts(public_model, data, tmp_path):
    for number, head in enumerate(("mlm", "token-classification")):
        tiny.checkpoint(tmp_path / "run" / f"model-{number}", head=head, seed=number)
    out = tmp_path / "out"
    out.mkdir()
    (out / "trend.pdf").write_bytes(b"of an earlier run")
    (out / ".lock").touch()
    more = ("--reference", f"auxiliary={public_model}", "--budget", "quick")
    result = docaudit("scan", "--checkpoints", tmp_path / "run" / "*", data, "--out", out, *more)
    assert result.exit_code == 11, result.output
    assert "the kind of model" in result.output
    assert list(out.glob("trend.*")) == []
    assert sorted(path.parent.name for path in out.glob("*/record.json")) == ["model-0", "model-1"]


def test_when_no_checkpoint_can_be_audited_nothing_is_written(training_run, data, tmp_path):
    runs = shutil.copytree(training_run, tmp_path / "run")
    for folder in runs.iterdir():
        (folder / "model.safetensors").unlink()
    result = docaudit("scan", "--checkpoints", runs / "*", data, "--out", tmp_path / "out")
    assert (result.exit_code, result.output.count("no model.safetensors")) == (2, 2)
    assert not (tmp_path / "out").exists()


def test_wrong_usage_exits_2_and_says_what_to_do(training_run, data, tmp_path):
    out = ("--out", tmp_path / "out")
    one = training_run / "checkpoint-50"
    two = training_run / "checkpoint-100"
    wrong = {
        "in quotes": ("scan", "--checkpoints", one, two, data, *out),
        "no folder matches": ("scan", "--checkpoints", training_run / "epoch-*", data, *out),
        "MODEL_DIR and DATA_DIR, not 1": ("scan", data, *out),
        "MODEL_DIR and DATA_DIR, not 3": ("scan", one, two, data, *out),
        "manifest.toml": ("scan", "--checkpoints", training_run / "*", tmp_path, *out),
    }
    for told, arguments in wrong.items():
        result = docaudit(*arguments)
        assert result.exit_code == 2, result.output
        assert told in result.output
    assert not (tmp_path / "out").exists()


# The other ablations.


def public_of(record):
    (found,) = (reference for reference in record.references if reference.role == "auxiliary")
    return found


def test_the_public_model_can_be_trained_on_another_data_set(
    training_run, public_model, data, tmp_path
):
    other = tiny.corpus(tmp_path / "other", members=1, heldout=1, public=5, seed=7)
    common = (
        "scan",
        training_run / "checkpoint-50",
        data,
        "--reference",
        f"pretrained={public_model}",
    )
    common += ("--budget", "quick")
    docaudit(*common, "--out", tmp_path / "own")
    result = docaudit(*common, "--out", tmp_path / "shifted", "--reference", f"public={other}")
    assert result.exit_code == 11, result.output
    own, shifted = (public_of(records.read(tmp_path / name)) for name in ("own", "shifted"))
    assert own.corpus is None
    assert own.card.sha256 != shifted.card.sha256
    name, digest = shifted.corpus.split(", sha256 ")
    assert (name, len(digest)) == ("tiny-receipts", 64)
    assert shifted.corpus in (tmp_path / "shifted" / "report.html").read_text()


def test_a_trainer_state_that_would_never_end_is_not_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "trainer_state.json")
    assert training_progress(tmp_path) == TrainingProgress()
    (tmp_path / "trainer_state.json").unlink()
    (tmp_path / "trainer_state.json").write_text('{"epoch": 2.5, "global_step": 40}')
    assert training_progress(tmp_path) == TrainingProgress(epoch=2.5, global_step=40)
    monkeypatch.setattr(content, "_MAX_BYTES", 10)
    assert training_progress(tmp_path) == TrainingProgress()


def test_public_documents_that_cannot_serve_exit_2(training_run, public_model, data, tmp_path):
    text = (data / "documents.jsonl").read_text()
    seen = shutil.copytree(data, tmp_path / "seen")
    swapped = text.replace("public", "other").replace("member", "public").replace("other", "member")
    (seen / "documents.jsonl").write_text(swapped)
    none = tiny.corpus(tmp_path / "none", public=0, seed=7)
    other = tiny.corpus(tmp_path / "other", seed=7)
    pretrained, auxiliary = (
        ("--reference", f"{role}={public_model}") for role in ("pretrained", "auxiliary")
    )
    wrong = {
        "4 public documents have the words of a member": (seen, *pretrained),
        "no document of split public": (none, *pretrained),
        "give one of them": (other, *auxiliary),
        "add --reference pretrained=PATH": (other,),
    }
    for told, (folder, *more) in wrong.items():
        model = training_run / "checkpoint-50"
        result = docaudit(
            "scan", model, data, "--out", tmp_path / "out", "--reference", f"public={folder}", *more
        )
        assert result.exit_code == 2, result.output
        assert told in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()
