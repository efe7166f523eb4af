"""The command line as a user meets it: exit codes, error lines, and what is left on the disk."""

import json
import shutil
import signal
import time

import example_records
import pytest
from commands import docaudit
from policy_texts import write_policy
from stoppable_command import StoppableCommand

from audit import record as records
from audit.errors import EngineError, RenderError
from audit.files import write_atomically
from audit.report.files import pdf

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_candidates")]


@pytest.fixture(scope="module")
def models(checkpoints):
    return {
        "model": checkpoints("layoutlm", "mlm", 1),
        "auxiliary": checkpoints("layoutlm", "mlm", 3),
        "classifier": checkpoints("layoutlm", "token-classification", 2),
    }


@pytest.fixture
def data(tiny_corpus, tmp_path):
    return shutil.copytree(tiny_corpus, tmp_path / "data")


def scan(models, data, out, *more, model="model", only=("--only", "reconstruction")):
    reference = f"auxiliary={models['auxiliary']}"
    return docaudit(
        "scan", models[model], data, "--reference", reference, "--out", out, *only, *more
    )


def without_times(path):
    record = json.loads((path / "record.json").read_text())
    del record["timing"]
    return record


def test_a_scan_writes_record_and_reports_and_exits_11_when_it_cannot_decide(
    models, data, tmp_path, monkeypatch
):
    monkeypatch.setattr("audit.report.files.pdf", pdf)
    out = tmp_path / "out"
    result = scan(models, data, out, only=())
    assert result.exit_code == 11, result.output
    assert "UNDECIDED" in result.output
    reports = {"report.pdf", "report.html", "measurements.csv", "leaks.csv"}
    assert {path.name for path in out.iterdir()} == {".lock", "record.json", "evidence", *reports}
    assert (out / "evidence").stat().st_mode & 0o777 == 0o700
    record = records.read(out)
    statuses = {"memorisation": "inapplicable"}
    statuses |= dict.fromkeys(("reconstruction", "attribute_inference", "membership"), "completed")
    statuses |= dict.fromkeys(("provider_membership", "redaction", "canaries"), "skipped")
    assert {attack.attack: attack.status for attack in record.attacks} == statuses
    assert record.references[0].source == "command line"
    paths = {"MODEL_DIR": str(models["model"]), "DATA_DIR": str(data)}
    assert json.loads((out / "evidence" / "scan.json").read_text())["paths"] == paths


def test_a_scan_prints_its_verdict_in_the_chosen_format_alone(models, data, tmp_path):
    out = tmp_path / "out"
    xml = tmp_path / "verdict.xml"
    # Without its reference the attack is skipped: the formats are all that this is about.
    scanned = ("scan", models["model"], data, "--out", out, "--only", "reconstruction")
    result = docaudit(*scanned, "--format", f"junit={xml}", "--format", "json")
    assert result.exit_code == 11, result.output
    verdict = json.loads(result.stdout)
    assert (verdict["verdict"], verdict["exit_code"]) == ("undecided", 11)
    assert [one["status"] for one in verdict["attacks"]] == ["skipped"]
    assert "--reference pretrained=PATH" in records.read(out).attacks[0].reason.fix
    assert 'type="undecided"' in xml.read_text()
    quiet = docaudit(*scanned, "--quiet")
    assert (quiet.exit_code, quiet.stdout) == (11, "")
    many = docaudit("scan", data, "--checkpoints", "run/*", "--format", "json")
    assert (many.exit_code, many.stdout) == (2, "")


def test_the_same_scan_gives_the_same_record_whatever_the_batch_size(models, data, tmp_path):
    quick = ("--budget", "quick")
    for name, more in {"a": (), "b": ("--batch-size", 128), "c": ("--seed", 1)}.items():
        scan(models, data, tmp_path / name, *quick, *more, model="classifier")
    assert without_times(tmp_path / "a") == without_times(tmp_path / "b")
    assert without_times(tmp_path / "c") != without_times(tmp_path / "a")


def test_an_older_record_is_moved_aside_and_a_smaller_budget_is_part_of_a_larger_one(
    models, data, tmp_path, monkeypatch
):
    # So dear that the time allows no more than a quarter.
    monkeypatch.setattr("audit.workflows.planning.estimate", lambda *_: 1e6)
    out = tmp_path / "out"
    scan(models, data, out, "--budget", "quick")
    quick = records.read(out)
    scan(models, data, out)
    assert records.read(out / "record.previous.json") == quick
    counts = {count.name: count.value for count in quick.attacks[0].counts}
    fields = counts["member fields, unique"] + counts["member fields, repeated"]
    assert (quick.share, counts["member documents"]) == (0.25, fields)
    evidence = (out / "evidence" / "recovered.jsonl").read_text().splitlines()
    assert len(evidence) == counts["fields within reach"]


def test_reveal_writes_the_values_into_evidence_only(models, data, tmp_path):
    plain = tmp_path / "plain"
    revealed = tmp_path / "revealed"
    scan(models, data, plain)
    scan(models, data, revealed)
    assert docaudit("report", revealed, "--reveal").exit_code == 0
    page = revealed / "evidence" / "report-revealed.html"
    assert page.stat().st_mode & 0o777 == 0o600
    value = json.loads((revealed / "evidence" / "recovered.jsonl").read_text().splitlines()[0])[
        "value"
    ]
    assert value in page.read_text()
    assert not (plain / "evidence" / "report-revealed.html").exists()
    assert without_times(plain) == without_times(revealed)


def test_an_auxiliary_is_trained_from_the_public_split_and_cached(models, data, tmp_path):
    arguments = (
        "scan",
        models["model"],
        data,
        "--reference",
        f"pretrained={models['auxiliary']}",
        "--out",
        tmp_path,
    )
    assert docaudit(*arguments, "--budget", "quick").exit_code == 11
    references = records.read(tmp_path).references
    # What it was fine-tuned from is a masked language model too: the membership attack compares the
    # target with it.
    assert [(one.role, one.source) for one in references] == [
        ("pretrained", "command line"),
        ("auxiliary", "trained"),
    ]
    trained = list((tmp_path / "evidence" / "references").iterdir())
    before = trained[0].stat().st_mtime_ns
    assert docaudit(*arguments, "--budget", "quick", "--fresh").exit_code == 11
    assert [
        path.stat().st_mtime_ns for path in (tmp_path / "evidence" / "references").iterdir()
    ] == [before]
    assert records.read(tmp_path).references == references


def test_a_broken_attack_is_in_the_record_and_its_story_in_evidence(
    models, data, tmp_path, monkeypatch
):
    def broken(*_):
        raise ZeroDivisionError("Gardenia paid 9.00")

    monkeypatch.setattr("audit.attacks.reconstruction.methods.nucleus", broken)
    assert scan(models, data, tmp_path).exit_code == 11
    failed, *_ = records.read(tmp_path).attacks
    assert (failed.status, failed.reason.kind) == ("failed", "error")
    assert failed.reason.why.startswith(
        "ZeroDivisionError at audit/attacks/reconstruction/methods.py:"
    )
    assert "Gardenia" not in (tmp_path / "record.json").read_text()
    assert "Gardenia" in (tmp_path / "evidence" / "failure-reconstruction.txt").read_text()


def test_two_scans_never_share_a_folder(models, data, tmp_path):
    from audit.engine.journal import exclusive

    tmp_path.joinpath("out").mkdir()
    with exclusive(tmp_path / "out"):
        result = scan(models, data, tmp_path / "out")
    assert result.exit_code == 1
    assert "another scan" in result.output
    assert not (tmp_path / "out" / "record.json").exists()


# Exit codes of the command line, for gate and report; scans of each kind are above, below and in
# samples.


@pytest.mark.parametrize(("case", "code"), [("met", 0), ("exceeded", 10), ("undecided", 11)])
def test_gate_exits_with_the_verdict(case, code, tmp_path):
    limits = {"met": 0.9, "exceeded": 0.0001, "undecided": 0.05}
    record = tmp_path / "record.json"
    policy = write_policy(
        tmp_path / "policy.toml", f"reconstruction excess_pr.unique max = {limits[case]}"
    )
    records.write(
        example_records.CASES["violated" if case != "undecided" else "skipped"]()[0], record
    )
    result = docaudit("gate", record, "--policy", policy)
    assert result.exit_code == code, result.output
    assert case.upper() in result.output
    drawn = docaudit("report", record, "--policy", policy, "--out", tmp_path / "again")
    assert drawn.exit_code == 0
    undecided = ["To decide 1 of 1 undecided limit" in one.output for one in (result, drawn)]
    assert undecided == [case == "undecided"] * 2
    assert (tmp_path / "again" / "report.pdf").read_bytes().startswith(b"%PDF")


def weights_elsewhere(models, tmp_path):
    """The target under another name: its weights, another configuration."""
    copy = shutil.copytree(models["model"], tmp_path / "copy")
    edit_config(copy, hidden_dropout_prob=0.2)
    return copy


BAD_REFERENCES = {
    "the target itself": (
        lambda models, _: ("auxiliary", models["model"]),
        "the target's own weights",
    ),
    "the target's weights": (
        lambda models, tmp: ("auxiliary", weights_elsewhere(models, tmp)),
        "own weights",
    ),
    "trained from the target": (
        lambda models, _: ("pretrained", models["model"]),
        "nothing of the training is in it",
    ),
    "a classifier": (
        lambda models, _: ("auxiliary", models["classifier"]),
        "no masked-language-model head",
    ),
    "no folder": (lambda _, tmp: ("auxiliary", tmp / "nowhere"), "not a folder"),
}


@pytest.mark.parametrize("name", BAD_REFERENCES)
def test_references_that_cannot_serve_exit_2_and_leave_earlier_reports_alone(
    name, models, data, tmp_path
):
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.pdf").write_bytes(b"an earlier one")
    (out / ".lock").touch()
    make, told = BAD_REFERENCES[name]
    role, path = make(models, tmp_path)
    result = docaudit("scan", models["model"], data, "--reference", f"{role}={path}", "--out", out)
    assert result.exit_code == 2, result.output
    assert told in result.output
    assert sorted(item.name for item in out.iterdir()) == [".lock", "report.pdf"]


def rewrite(data, change, most=None):
    documents = [json.loads(line) for line in (data / "documents.jsonl").read_text().splitlines()]
    for document in documents[:most]:
        change(document)
    (data / "documents.jsonl").write_text(
        "".join(json.dumps(document) + "\n" for document in documents)
    )


def break_index(data):
    rewrite(data, lambda document: document["entities"][0].update(words=[93]), most=1)


def unmarked_fields(data):
    rewrite(data, lambda document: [entity.update(attack=False) for entity in document["entities"]])


def unknown_words(data):
    rewrite(data, lambda document: [word.update(text="漢字") for word in document["words"]])


def edit_config(model, **changes):
    (model / "config.json").write_text(
        json.dumps({**json.loads((model / "config.json").read_text()), **changes})
    )


BAD = {
    "word index out of range": (
        "data",
        break_index,
        "documents.jsonl:1 entities[0].words: index 93 of",
    ),
    "tokenizer that knows no word": ("data", unknown_words, "tokenizer does not know"),
    "no field to attack": ("data", unmarked_fields, "no field to attack in training documents"),
    "remote code": (
        "model",
        lambda model: edit_config(model, model_type="evil", auto_map={"AutoModel": "evil.Model"}),
        "its own code",
    ),
    "unknown architecture": (
        "model",
        lambda model: edit_config(model, model_type="gpt2"),
        "architecture 'gpt2'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_and_models_are_one_line_exit_2_and_nothing_written(name, models, data, tmp_path):
    kind, breaks, told = BAD[name]
    model = shutil.copytree(models["model"], tmp_path / "model")
    breaks(model if kind == "model" else data)
    result = scan({**models, "model": model}, data, tmp_path / "out")
    assert result.exit_code == 2, result.output
    errors = [line for line in result.output.splitlines() if line.startswith("error:")]
    assert any(told in line for line in errors), result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_options_that_name_nothing_exit_2(models, data, tmp_path):
    for wrong in (
        ("scan",),
        ("scan", "a", "b", "--budget", "endless"),
        ("gate", "/no/such/record.json"),
    ):
        assert docaudit(*wrong).exit_code == 2
    for more in (
        ("--only", "reconstrction"),
        ("--reference", "auxilary=x"),
        ("--reference", "x"),
        ("--device", "tpu"),
    ):
        result = scan(models, data, tmp_path / "out", *more)
        assert result.exit_code == 2, more
        assert "\nerror:" in f"\n{result.output}"
    policy = write_policy(tmp_path / "policy.toml", "reconstruction exces_pr.unique max = 0.1")
    result = scan(models, data, tmp_path / "out", "--policy", policy)
    assert result.exit_code == 2
    assert "did you mean 'excess_pr.unique'" in result.output
    assert not (tmp_path / "out").exists()


# Real processes: kill, interrupt, terminate, a disk that takes no more.


def start(models, data, out, room=None):
    arguments = [
        "scan",
        models["classifier"],
        data,
        "--reference",
        f"auxiliary={models['auxiliary']}",
        "--out",
        out,
    ]
    return StoppableCommand(
        [*map(str, arguments), "--budget", "quick", "--only", "reconstruction"], room
    )


def wait_for_outcomes(out, process, at_least=1):
    for _ in range(1200):
        journals = list(out.glob("evidence/journal-*.jsonl"))
        if journals and journals[0].read_bytes().count(b"\n") >= at_least:
            return
        assert not process.ended(), process.wait(1)
        time.sleep(0.1)
    raise AssertionError("no outcome within two minutes")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_scan_says_how_to_go_on(sent, code, models, data, tmp_path):
    process = start(models, data, tmp_path / "out")
    wait_for_outcomes(tmp_path / "out", process)
    process.send(sent)
    returned, output = process.wait(60)
    assert returned == code, output
    assert "run the same command again" in output
    assert "Traceback" not in output
    assert not (tmp_path / "out" / "record.json").exists()


def test_a_disk_that_takes_no_more_exits_1_without_a_record(models, data, tmp_path):
    returned, output = start(models, data, tmp_path / "out", room=200).wait(300)
    assert returned == 1, output
    assert "error:" in output
    assert "Traceback" not in output
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {".lock", "evidence"}


def test_inspect_prints_what_is_there_and_all_problems(data, models):
    result = docaudit("inspect", data, "--model", models["model"], "-v")
    assert result.exit_code == 0, result.output
    for told in ("organization", "heldout", "attacks can run", "trials"):
        assert told in result.output
    assert len(docaudit("inspect", data).output.splitlines()) <= 22
    break_index(data)
    next((data / "images").iterdir()).unlink()
    result = docaudit("inspect", data)
    assert result.exit_code == 2
    assert len([line for line in result.output.splitlines() if line.startswith("error:")]) == 2


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_a_reference_that_is_not_there_is_refused_before_any_model_runs(data, command):
    path = data / "manifest.toml"
    path.write_text(path.read_text() + '\n[references]\npretrained = "references/nothere"\n')
    result = docaudit(command, data)
    assert result.exit_code == 2
    assert (
        "manifest.toml references.pretrained: references/nothere is not a folder" in result.output
    )


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("report.html", RenderError("the template is broken")),
        ("measurements.csv", EngineError("No space left")),
    ],
)
def test_a_report_that_cannot_be_written_leaves_the_record_and_the_verdict(
    name, error, models, data, tmp_path, monkeypatch
):
    def full(path, *content):
        if path.name == name:
            raise error
        write_atomically(path, *content)

    monkeypatch.setattr("audit.report.files.write_atomically", full)
    result = scan(models, data, tmp_path, "--budget", "quick")
    assert result.exit_code == 11
    assert str(error) in result.output
    assert (tmp_path / "record.json").exists()
    assert not (tmp_path / name).exists()
