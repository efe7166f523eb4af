"""The commands that go on from a scan repeat its arguments, or say what to put in."""

import dataclasses
import shlex
from pathlib import Path

import example_records as examples
import pytest

from audit import record as records
from audit.cards import NO_MODEL, SERVED
from audit.defenses.remedy import Remedy
from audit.policy.grounds import Remedy as Remedies
from audit.policy.reasons import REMEDIES
from audit.report.commands import Called, Commands, left_to_put_in, put_in
from audit.workflows.options import ScanOptions


def commands_of(called=None, **changes):
    """Return the commands that go on from a leaking scan."""
    record, verdict, _ = examples.violated()
    return Commands(dataclasses.replace(record, **changes), verdict, called or Called())


def called_with(**options):
    """Return how a scan of made-up folders was called."""
    return ScanOptions(Path("my model"), Path("data"), Path("out"), **options).called("default")


@pytest.fixture(autouse=True)
def _no_folders(tmp_path, monkeypatch):
    """Run in a folder without results."""
    monkeypatch.chdir(tmp_path)


def test_the_next_scan_repeats_what_the_scan_was_called_with():
    called = called_with(
        references={"pretrained": (Path("base"),), "baselines": (Path("b1"), Path("b2"))},
        device="cpu",
        dtype="float32",
        evidence_dir=Path("private"),
    )
    assert shlex.split(commands_of(called, seed=7, budget="quick").scan("full")) == [
        *("docaudit", "scan", "my model", "data"),
        *("--policy", "default", "--budget", "full", "--seed", "7"),
        *("--out", "out-2", "--reference", "pretrained=base"),
        *("--reference", "baselines=b1", "--reference", "baselines=b2"),
        *("--evidence", "private-2", "--device", "cpu", "--dtype", "float32"),
    ]


def test_a_next_scan_tries_all_that_the_scan_left_out():
    called = called_with(only=("membership",), documents=40, seconds=60.0)
    command = commands_of(called, budget="quick").scan_that_can_pass()
    assert "--budget quick" in command or "--budget standard" in command
    for option in ("--only", "--documents", "--time"):
        assert option not in command


@pytest.mark.parametrize("out", ["docaudit-report", "out", "a b"])
@pytest.mark.parametrize("taken", [0, 1])
def test_no_command_names_the_folder_of_the_scan_or_one_that_exists(out, taken):
    called = ScanOptions(Path("m"), Path("d"), Path(out)).called()
    for number in range(2, 2 + taken):
        Path(f"{out}-{number}").mkdir()
    commands = commands_of(called)
    new = shlex.quote(f"{out}-{2 + taken}")
    scans = [commands.scan(), commands.scan_that_can_pass(), commands.scan_checkpoint()]
    again = remedy("another scan")
    kinds = ("scan", "scan longer", "scan at full strength", "scan at full budget")
    scans += [commands.of_remedy(dataclasses.replace(again, command=kind)) for kind in kinds]
    scans.append(commands.put_in("docaudit scan MODEL_DIR DATA_DIR"))
    for command in scans:
        assert command.count("--out") == 1
        assert f"--out {new}" in command


def test_countermeasures_of_another_scan_get_a_folder_of_their_own(tmp_path):
    record, verdict, _ = examples.violated()
    for folder, seed in {"docaudit-fix/before": 1, "scanned": 2}.items():
        Path(folder).mkdir(parents=True)
        records.write(dataclasses.replace(record, seed=seed), Path(folder, "record.json"))
    commands = Commands(record, verdict, Called({"SCAN_DIR": "scanned"}))
    assert commands.fix("--try", "dp") == ("docaudit fix scanned --try dp --out docaudit-fix-2")


def test_countermeasures_are_tried_on_the_folder_of_the_scan():
    called = called_with(references={"pretrained": (Path("base"),)}, evidence_dir=Path("e"))
    assert commands_of(called).fix("--try", "dp") == "docaudit fix out --try dp --evidence e"


def test_what_nothing_names_is_asked_for_in_words():
    command = commands_of(called_with(), references=()).fix()
    assert command == "docaudit fix out --reference pretrained=BASE"
    assert left_to_put_in(command) == "put in for BASE the model that yours was fine-tuned from"


def remedy(effort):
    """Return a remedy that a countermeasure measures, and that asks for this work."""
    return Remedy("id", "name", "does", "cost", "check", "source", (), ("dp",), effort=effort)


@pytest.mark.parametrize(
    ("family", "effort", "command"),
    [
        ("x", "training again", "docaudit fix out --try dp --reference pretrained=BASE"),
        ("x", "a setting, without training", "docaudit fix out --try dp"),
        (
            SERVED,
            "training again",
            "docaudit scan CHECKPOINT_DIR data --policy default --out out-2",
        ),
        (SERVED, "a setting, without training", "docaudit fix out --try dp"),
    ],
)
def test_a_start_is_asked_for_only_where_something_is_trained(family, effort, command):
    record, _, _ = examples.violated()
    target = dataclasses.replace(record.target, family=family)
    commands = commands_of(called_with(), target=target, references=())
    assert commands.of_remedy(remedy(effort)) == command


def test_of_a_record_alone_names_stand_for_its_arguments():
    command = commands_of().scan()
    assert command.startswith("docaudit scan MODEL_DIR DATA_DIR --policy default")
    assert " --out OUT" in command
    assert left_to_put_in(command) == (
        "put in for MODEL_DIR the folder of the model, for DATA_DIR the folder of the data set and "
        "for OUT a new folder"
    )


def test_a_policy_of_the_owner_is_named_by_its_file():
    record, verdict, _ = examples.violated()
    own = dataclasses.replace(verdict, policy="team")
    called = called_with().at(**{"POLICY.toml": "team.toml"})
    assert "--policy team.toml" in Commands(record, own, called).fix()
    assert "--policy POLICY.toml" in Commands(record, own, Called()).plan()


def test_a_scan_of_the_text_alone_names_no_model():
    record, verdict, _ = examples.violated()
    text = dataclasses.replace(record, target=dataclasses.replace(record.target, family=NO_MODEL))
    command = Commands(text, verdict, Called({"DATA_DIR": "d"})).scan()
    assert command.startswith("docaudit scan --no-model d ")


@pytest.mark.parametrize(
    ("address", "asks"),
    [("https://models.example/v1", True), ("http://localhost:8000", False), ("model", False)],
)
def test_a_model_of_another_machine_is_asked_over_the_network_again(address, asks):
    called = ScanOptions(Path(address), Path("d"), Path("out")).called()
    assert ("--allow-network" in commands_of(called).scan()) == asks


def test_names_in_a_sentence_are_put_in_as_a_shell_reads_them():
    places = {"DATA_DIR": "my data", "POLICY.toml": "own.toml"}
    text = "docaudit plan DATA_DIR --policy POLICY.toml, not NEW_POLICY.toml"
    assert put_in(text, places) == (
        "docaudit plan 'my data' --policy own.toml, not NEW_POLICY.toml"
    )


def test_who_is_sent_from_a_server_to_its_weights_is_not_sent_back_to_the_server():
    server = Called({"MODEL_DIR": "http://127.0.0.1:8000/v1#name", "DATA_DIR": "data"})
    advice = put_in(REMEDIES[Remedies.AUDIT_WEIGHTS], server.places)
    assert advice.endswith("docaudit scan CHECKPOINT_DIR data")
    assert left_to_put_in(advice) == (
        "put in for CHECKPOINT_DIR the folder of the checkpoint behind the server"
    )
