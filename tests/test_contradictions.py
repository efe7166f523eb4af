"""Records edited by hand: what contradicts itself is refused by gate and report, by name, without any signature."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attested
import pytest
from typer.testing import CliRunner

from audit import __version__
from audit import record as records
from audit.attacks.battery import BATTERY
from audit.cli import app
from audit.files import digest_of_files
from audit.targets.checkpoint.content import hash_files
from audit.workflows.attest import attest
from audit.workflows.verify import verify

Content = dict[str, Any]
BATTERY_NAMES = tuple(kind.name for kind in BATTERY)


def docaudit(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Path) -> Path:
    return attested.folder(tmp_path_factory.mktemp("scanned"), tiny_corpus)


@pytest.fixture
def content(scanned: Path) -> Content:
    return json.loads((scanned / "record.json").read_text())  # type: ignore[no-any-return]


def number(content: Content, name: str = "excess_pr.unique") -> Content:
    (found,) = (item for item in content["attacks"][0]["measurements"] if item["name"] == name)
    return found  # type: ignore[no-any-return]


def put(part: str, **values: Any) -> Callable[[Content], None]:
    return lambda content: content[part].update(values)


def change(**values: Any) -> Callable[[Content], None]:
    return lambda content: number(content).update(values)


def below(content: Content) -> None:
    """Value, interval and all but the bounds under the limit."""
    number(content).update(value=0.0, low=-0.01, high=0.01)


def over_one(content: Content) -> None:
    bounds = [{**bound, "lower": 1.5, "upper": 3.0} for bound in number(content)["bounds"]]
    number(content).update(value=2.0, low=1.5, high=3.0, bounds=bounds)


def narrow(content: Content) -> None:
    bounds = number(content)["bounds"]
    bounds[-1]["lower"], bounds[-1]["upper"] = bounds[0]["lower"], bounds[0]["upper"]


def twice(part: str) -> Callable[[Content], None]:
    return lambda content: content["attacks"][0][part].append(content["attacks"][0][part][0])


def same_attack_again(content: Content) -> None:
    content["attacks"].append(content["attacks"][0])


def violated_attack_gone(content: Content) -> None:
    del content["attacks"][0]


def negative_count(content: Content) -> None:
    content["attacks"][0]["counts"] = [{"name": "fields", "value": -1, "meaning": "fields"}]


def covered(content: Content) -> None:
    content["attacks"][0]["coverage"] = [{"category": "all", "attacked": 9, "total": 8, "unit": "fields"}]


def tried(content: Content) -> None:
    trials = [{"attack": "reconstruction", "planned": 3, "tried": 4}]
    content["bounds"] = {"documents": 4, "seconds": None, "part": 1.0, "trials": trials}


def other_file(content: Content) -> None:
    content["target"]["files"]["model.safetensors"] = "0" * 64


def unknown_method(content: Content) -> None:
    content["attacks"][0]["methods"] = {"excess_pr.unique": ["made_up"]}


def histogram(content: Content) -> None:
    drawn = {"name": "h", "quantity": "distance", "edges": [0.0, 1.0], "counts": {"member": [1, 2]}}
    content["attacks"][0]["histograms"] = [drawn]


def page(**changes: Any) -> Callable[[Content], None]:
    drawn = {"document": 3, "ratio": 1.4, "boxes": [[0.0, 0.0, 0.5, 0.1]], "removed": [True], **changes}
    return lambda content: content["attacks"][0].update(pages=[drawn])


EDITS: dict[str, tuple[Callable[[Content], None], str]] = {
    "low above high, bounds dropped": (change(low=0.36, high=0.01, bounds=[]), "low 0.36 is above high 0.01"),
    "bounds dropped": (change(bounds=[]), "it has bounds at 0 of 8 levels"),
    "value outside": (change(value=0.0), "value 0 lies outside its interval"),
    "value negative": (change(value=-3), "value -3 lies outside its interval"),
    "value immense": (change(value=1e308), "value 1e+308 lies outside its interval"),
    "a share over 1": (over_one, "value 2 is beyond 1"),
    "interval moved, bounds left": (below, "its interval from -0.01 to 0.01 is wider than its bounds"),
    "bounds that do not nest": (narrow, "its bounds do not nest"),
    "level": (change(level=0.01), "level 0.01 is not 0.95"),
    "alpha of 2": (lambda content: number(content)["bounds"][0].update(alpha=2.0), "its bounds are at other levels"),
    "n of 0": (change(n=0), "it rests on nothing"),
    "n of -7": (change(n=-7), "it rests on nothing"),
    "more clusters than rows": (change(n=3, clusters=9), "3 fields come from 9 independent ones"),
    "a null without its kind": (change(null=0.0, null_kind=None), "its null and the kind of its null"),
    "an attack twice": (same_attack_again, "reconstruction has 2 results"),
    "a number twice": (twice("measurements"), "is measured 2 times"),
    "a metric twice": (twice("metrics"), "lists excess_pr.unique 2 times"),
    "the violated attack taken out": (violated_attack_gone, "reconstruction is in the battery and has no result"),
    "a method that is no number": (unknown_method, "made_up is none of its metrics"),
    "share": (lambda content: content.update(share=0), "share 0 does not lie between 0 and 1"),
    "no documents": (put("corpus", documents={}), "the corpus has no documents"),
    "negative documents": (put("corpus", documents={"member": 9, "heldout": -9}), "the corpus has a negative count"),
    "a negative count": (negative_count, "the count of fields is negative"),
    "more covered than there is": (covered, "it covers 9 of 8 fields of all"),
    "more tried than planned": (tried, "reconstruction tried 4 of 3 trials"),
    "no sha256": (put("target", sha256="x"), "the target's sha256 is none"),
    "another file's sha256": (other_file, "the target's sha256 is not that of its files"),
    "another model's sha256": (put("target", sha256="a" * 64), "the target's sha256 is not that of its files"),
    "a data set's sha256": (put("corpus", sha256="B" * 64), "the corpus's sha256 is none"),
    "no name": (put("target", name=""), "the target has no name"),
    "another policy": (put("policy", toml="schema = 1"), "the declared policy's sha256 is not that of its text"),
    "finished before started": (put("timing", finished="2020-01-01T00:00:00+00:00"), "finished before it started"),
    "a time that is none": (put("timing", started="today"), "the time when the scan started is none"),
    "a page without height": (page(ratio=0.0), "the drawing of page 3 does not hold together"),
    "more marks than boxes": (page(removed=[True, False]), "the drawing of page 3 does not hold together"),
    "bins and counts": (histogram, "the counts of the figure h do not fit its bins"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_record_that_contradicts_itself_is_refused_by_name(edit: str, content: Content, tmp_path: Path) -> None:
    change, told = EDITS[edit]
    change(content)
    (tmp_path / "record.json").write_text(json.dumps(content))
    for command in (("gate", tmp_path), ("report", tmp_path, "--out", tmp_path / "again")):
        result = docaudit(*command)
        assert result.exit_code == 2, result.output
        assert told in result.output
    assert not (tmp_path / "again").exists()


def test_a_record_as_it_was_written_is_judged(scanned: Path) -> None:
    assert docaudit("gate", scanned).exit_code == 10


def test_gate_prints_the_model_the_date_and_the_policy(scanned: Path) -> None:
    record = records.read(scanned)
    assert record.policy is not None
    printed = docaudit("gate", scanned).output
    for part in (
        f"model {record.target.name} (sha256 {record.target.sha256[:12]})",
        f"(sha256 {record.corpus.sha256[:12]})",
        f"scanned {record.timing.started}",
        f"policy default (sha256 {record.policy.sha256[:12]})",
    ):
        assert part in printed


def test_gate_refuses_the_record_of_another_model_or_data_set(scanned: Path, tmp_path: Path) -> None:
    model, data = scanned.parent / "model", scanned.parent / "data"
    assert docaudit("gate", scanned, "--model", model, "--data", data).exit_code == 10
    other = shutil.copytree(model, tmp_path / "model")
    (other / "model.safetensors").write_bytes(b"another")
    (other / "generation_config.json").write_text("{}")
    result = docaudit("gate", scanned, "--model", other)
    assert result.exit_code == 2
    assert "model.safetensors is not the file that was scanned" in result.output
    assert "generation_config.json is there, and not in the record" in result.output
    later = shutil.copytree(data, tmp_path / "data")
    (later / "manifest.toml").write_text((later / "manifest.toml").read_text() + "\n")
    result = docaudit("gate", scanned, "--model", model, "--data", later)
    assert (result.exit_code, "the record is of another data set" in result.output) == (2, True)


def test_gate_hashes_a_model_without_any_library_of_models(scanned: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from audit.workflows.gate import gate_record\n"
        f"gate_record(Path({str(scanned)!r}), 'default', Path({str(scanned.parent / 'model')!r}), "
        f"Path({str(scanned.parent / 'data')!r}))\n"
        "assert not {'torch', 'transformers', 'scipy'} & set(sys.modules), 'a heavy import'"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


FALSE = "\x1b[2J\nPASSED  every limit that applies is met  (policy default, exit code 0)"


def is_clean(printed: str) -> bool:
    return "\x1b[2J" not in printed and not any(line.startswith("PASSED") for line in printed.splitlines())


@pytest.mark.parametrize("place", ["target.name", "corpus.name", "timing.started", "policy.name", "corpus.documents"])
def test_no_text_of_a_record_writes_a_verdict_on_the_terminal(place: str, content: Content, tmp_path: Path) -> None:
    part, name = place.split(".")
    content[part][name] = {FALSE: "many"} if name == "documents" else FALSE
    (tmp_path / "record.json").write_text(json.dumps(content))
    result = docaudit("gate", tmp_path)
    assert result.exit_code in (2, 10)
    assert is_clean(result.output)


def test_no_text_of_a_policy_writes_a_verdict_on_the_terminal(scanned: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    name = json.dumps(f"mine{FALSE}")
    for limit in ('attack = "reconstruction"\nmetric = "excess_pr.unique"', f"attack = {name}\nmetric = 'x'"):
        policy.write_text(f"schema = 1\nname = {name}\n[[limits]]\n{limit}\nmax = 0.05\nrationale = 'ours'\n")
        result = docaudit("gate", scanned, "--policy", policy)
        assert result.exit_code != 0
        assert is_clean(result.output)


def test_no_text_of_an_attestation_writes_a_verdict_on_the_terminal(scanned: Path, tmp_path: Path) -> None:
    from audit.attestation import FILE_NAME
    from audit.workflows.attest import attest

    attest(scanned, out=tmp_path / FILE_NAME)
    statement = json.loads((tmp_path / FILE_NAME).read_text())
    statement["subject"][0]["name"] = FALSE
    statement["predicate"]["result"] = FALSE
    (tmp_path / FILE_NAME).write_text(json.dumps(statement))
    result = docaudit("verify", scanned, "--attestation", tmp_path / FILE_NAME)
    assert result.exit_code == 10
    assert is_clean(result.output)


def test_an_attack_that_the_battery_of_this_version_lacks_is_missed(content: Content, tmp_path: Path) -> None:
    """A policy that does without an attack would otherwise pass a record from which it was struck out."""
    content["environment"]["docaudit"] = __version__
    content["battery"] = list(BATTERY_NAMES)
    (tmp_path / "record.json").write_text(json.dumps(content))
    assert "is missing" not in docaudit("gate", tmp_path).output
    content["battery"] = [name for name in BATTERY_NAMES if name != "canaries"]
    content["attacks"] = [one for one in content["attacks"] if one["attack"] != "canaries"]
    content["left_out"] = [one for one in content["left_out"] if one["attack"] != "canaries"]
    (tmp_path / "record.json").write_text(json.dumps(content))
    refused = docaudit("gate", tmp_path)
    assert refused.exit_code == 2
    assert "canaries is missing from the battery of docaudit" in refused.output


# What only the attacks of this version can tell.


def late_by(days: int) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(days=days)).isoformat(timespec="seconds")


def excused_as_text(content: Content) -> None:
    content["attacks"][0]["about_text"] = ["excess_pr.unique"]


def documents_counted(content: Content) -> None:
    many = content["corpus"]["documents"]["member"] + 1
    content["attacks"][0]["counts"] = [{"name": "member documents", "value": many, "meaning": "documents"}]


def loosened(content: Content) -> None:
    content["environment"]["docaudit"] = __version__
    content["battery"] = list(BATTERY_NAMES)
    toml = content["policy"]["toml"].replace("max = 0.2\n", "max = 0.9\n")
    assert toml != content["policy"]["toml"]
    content["policy"].update(toml=toml, sha256=hashlib.sha256(toml.encode()).hexdigest())


def without_canaries(content: Content) -> None:
    """As a version before canaries would have written it; none of those declares a policy."""
    content["battery"].remove("canaries")
    content["left_out"] = [one for one in content["left_out"] if one["attack"] != "canaries"]


def unresolved_beside_estimates(content: Content) -> None:
    def estimate(name: str) -> Content:
        return {**number(content), "name": name, "unit": "canaries"}

    excess = {"kind": "unresolved", "name": "excess", "reason": "too few", "n": 64, "needed": 1000}
    (left_out,) = (one for one in content["left_out"] if one["attack"] == "canaries")
    content["left_out"].remove(left_out)
    found = {
        "status": "completed",
        "attack": "canaries",
        "metrics": ["excess"],
        "measurements": [excess, estimate("extracted"), estimate("extracted.control")],
    }
    content["attacks"].append({**content["attacks"][0], **found, "methods": {}, "coverage": [], "counts": []})


FORGED: dict[str, tuple[Callable[[Content], None], str]] = {
    "a number on the model as one on the text": (
        excused_as_text,
        "reconstruction excess_pr.unique tells of the model, and is listed as telling of the text alone",
    ),
    "another task": (
        put("target", task="extractive-qa"),
        "a model for extractive-qa was not scanned with documents for mlm",
    ),
    "the text of a shipped policy": (loosened, "policy default is not the one that docaudit ships"),
    "an attack that the version is said to lack": (
        without_canaries,
        "canaries is missing from the battery: every version that declares a policy has it",
    ),
    "finished in the future": (
        lambda content: content["timing"].update(started=late_by(9), finished=late_by(9)),
        "the scan finished in the future",
    ),
    "more documents than there are": (documents_counted, "member documents, and the corpus has"),
    "a number that follows from others": (
        unresolved_beside_estimates,
        "canaries excess could not be had, though extracted and extracted.control were",
    ),
}


@pytest.mark.parametrize("edit", FORGED)
def test_a_record_that_no_attack_of_this_version_gives_is_refused(edit: str, content: Content, tmp_path: Path) -> None:
    change_it, said = FORGED[edit]
    change_it(content)
    (tmp_path / "record.json").write_text(json.dumps(content))
    for command in ("gate", "report"):
        refused = docaudit(command, tmp_path)
        assert refused.exit_code == 2, refused.output
        assert said in " ".join(refused.output.split())


def test_gate_and_verify_name_weights_and_code_that_were_not_scanned(scanned: Path, tmp_path: Path) -> None:
    model = shutil.copytree(scanned.parent / "model", tmp_path / "model")
    for name in ("optimizer.pt", "training_args.bin", "rng_state.pth"):
        (model / name).write_bytes(b"left over from the training")
    (model / ".git").mkdir()
    (model / ".git" / "hook.py").write_text("pass")
    quiet = docaudit("gate", scanned, "--model", model)
    assert quiet.exit_code == 10
    assert "were not scanned" not in quiet.output
    (model / "onnx").mkdir()
    for name in ("model.gguf", "pytorch_model.bin", "onnx/model.onnx", "modeling_evil.py"):
        (model / name).write_bytes(b"what a loader may take")
    refused = docaudit("gate", scanned, "--model", model)
    assert refused.exit_code == 2
    assert "pytorch_model.bin was not scanned" in " ".join(refused.output.split())
    (model / "model.gguf").unlink()
    (model / "pytorch_model.bin").unlink()
    result = docaudit("gate", scanned, "--model", model)
    assert result.exit_code == 10
    said = "modeling_evil.py, onnx/model.onnx were not scanned: the verdict says nothing"
    assert said in " ".join(result.output.split())
    attest(scanned, out=tmp_path / "a.jsonl")
    notes = verify(scanned, model=model, attestation=tmp_path / "a.jsonl")[1].notes
    assert any("modeling_evil.py, onnx/model.onnx" in note for note in notes)


def test_gate_refuses_code_that_the_configuration_runs(scanned: Path, content: Content, tmp_path: Path) -> None:
    model = shutil.copytree(scanned.parent / "model", tmp_path / "model")
    (model / "config.json").write_text('{"model_type": "layoutlm", "auto_map": {"AutoModel": "modeling_evil.Evil"}}')
    files = hash_files(model)
    content["target"].update(files=files, sha256=digest_of_files(files))
    (tmp_path / "record.json").write_text(json.dumps(content))
    assert docaudit("gate", tmp_path, "--model", model).exit_code == 10
    (model / "modeling_evil.py").write_text("pass")
    refused = docaudit("gate", tmp_path, "--model", model)
    assert refused.exit_code == 2
    assert "modeling_evil.py is run by what config.json names, and was not scanned" in " ".join(refused.output.split())
