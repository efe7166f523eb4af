"""The package of `examples/extension`, installed beside docaudit: commands have what it adds."""

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest
import tiny
from answering_checkpoints import make_donut
from asked_pages import corpus as asked_corpus
from commands import run_commands, run_python
from PIL import Image
from policy_texts import write_policy

from audit.corpus import manifest as manifests

ROOT = Path(__file__).parents[2]
Outputs = dict[str, tuple[int, str]]
"""Exit code and output of every command, by name."""
EXAMPLE = ROOT / "examples" / "extension"


def install(folder: Path) -> list[str]:
    """Install the example package, as pip would, into a folder for `PYTHONPATH`.

    Return the names of its items.
    """
    shutil.copytree(EXAMPLE / "acme", folder / "acme")
    metadata = folder / "acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    groups = project["entry-points"]
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in own.items())
        for group, own in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("".join(lines))
    return [name for own in groups.values() for name in own]


def within(folder: Path) -> dict[str, object]:
    """What runs Python with the example package on its path."""
    paths = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {"cwd": folder, "env": {**os.environ, "PYTHONPATH": paths, "COLUMNS": "1000"}}


def make_coarse_layoutlm(folder: Path) -> Path:
    """A tiny tagger of a family that docaudit does not ship: LayoutLM's weights under another name."""
    tiny.checkpoint(folder, "layoutlm", "token-classification")
    path = folder / "config.json"
    named = {
        "model_type": "coarse-layoutlm",
        "architectures": ["CoarseLayoutLMForTokenClassification"],
    }
    path.write_text(json.dumps({**json.loads(path.read_text()), **named}))
    return folder


def make_export(folder: Path) -> None:
    """Invoices as a tool writes them that docaudit does not know."""
    folder.mkdir()
    with (folder / "pages.jsonl").open("w") as stream:
        for n in range(10):
            Image.new("L", (200, 100), 20 * n).save(folder / f"{n}.png")
            tokens = [
                {"t": text, "x": 60 * at + n, "y": 10, "w": 50, "h": 12}
                for at, text in enumerate(("Due", f"{n}.50"))
            ]
            row = {
                "id": f"n{n}",
                "scan": f"{n}.png",
                "set": "train" if n < 6 else "test",
                "supplier": f"Shop {n % 2}",
            }
            stream.write(json.dumps({**row, "tokens": tokens, "keys": {"total": [1]}}) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package, and with what its commands work on."""
    made = tmp_path_factory.mktemp("extended")
    installed = install(made)
    assert installed == [
        "loss_gap",
        "coarse-layoutlm",
        "invoices",
        "capitals",
        "greet",
        "backwards",
        "lines",
    ]
    tiny.corpus(made / "receipts")
    make_coarse_layoutlm(made / "coarse")
    make_donut(made / "donut", 0)
    asked_corpus(made / "questions", members=6, heldout=4, public=4)
    make_export(made / "export")
    write_policy(made / "mine.toml", "loss_gap auc max = 0.95")
    return made


@pytest.fixture(scope="module")
def outputs(folder: Path) -> Outputs:
    """Exit code and output of every command, by name."""
    receipts = folder / "receipts"
    coarse = folder / "coarse"
    policy = ("--policy", folder / "mine.toml")
    scan = ("scan", coarse, receipts, *policy, "--only", "loss_gap")
    behind = ("--defense", "capitals", "--only", "membership")
    commands = {
        "plan": ("plan", receipts, *policy),
        "scan": (*scan, "--out", folder / "scan"),
        "again": (*scan, "--out", folder / "again", "--engine", "backwards"),
        "gate": ("gate", folder / "scan", *policy, "-v"),
        "import": (
            "import",
            "invoices",
            folder / "export",
            folder / "imported",
            "--official",
            "--heldout",
            "1",
        ),
        "inspect": ("inspect", folder / "imported"),
        "behind": (
            "scan",
            folder / "donut",
            folder / "questions",
            "--out",
            folder / "behind",
            *behind,
        ),
        "defend": ("defend", "--help"),
        "help": ("--help",),
        "greet": ("greet", "Ada"),
        "export": ("export", folder / "scan", *policy, "--to", f"lines:file={folder / 'out.txt'}"),
    }
    return run_commands(commands, **within(folder))


def test_the_attack_is_planned_run_and_gated_on_the_new_family(
    outputs: Outputs, folder: Path
) -> None:
    assert "loss_gap" in outputs["plan"][1]
    record = json.loads((folder / "scan" / "record.json").read_text())
    assert record["target"]["family"] == "LayoutLM with coarse boxes"
    (result,) = record["attacks"]
    assert (result["attack"], result["status"], result["parameters"]) == (
        "loss_gap",
        "completed",
        {"least_words": 1},
    )
    assert [one["name"] for one in result["measurements"]] == ["auc", "blind_auc"]
    assert outputs["scan"][0] == outputs["gate"][0] in (0, 10, 11)
    assert "loss_gap [loss_gap] auc" in outputs["gate"][1]


def test_a_format_that_nobody_knew_is_imported_in_less_than_30_lines(
    outputs: Outputs, folder: Path
) -> None:
    assert len((folder / "acme" / "invoices.py").read_text().splitlines()) < 30
    assert outputs["import"][0] == 0, outputs["import"][1]
    assert outputs["inspect"][0] == 0, outputs["inspect"][1]
    heldout = manifests.load(folder / "imported").of("heldout")
    found = [(one.id, one.provider, one.text_of(one.entities[0])) for one in heldout]
    assert found == [(f"n{n}", f"Shop {n % 2}", f"{n}.50") for n in range(6, 10)]


def test_the_countermeasure_is_taken_by_scan_and_defend(outputs: Outputs, folder: Path) -> None:
    record = json.loads((folder / "behind" / "record.json").read_text())
    assert record["derived_by"] == ["Question in capitals"]
    assert "capitals" in outputs["defend"][1]


def test_the_command_stands_beside_the_shipped_ones(outputs: Outputs) -> None:
    assert outputs["greet"] == (0, "Good morning, Ada.")
    assert "Greet somebody." in outputs["help"][1]


def test_the_engine_gives_the_same_measurements_in_another_order(
    outputs: Outputs, folder: Path
) -> None:
    assert outputs["again"][0] == outputs["scan"][0]
    here, again = (
        json.loads((folder / out / "record.json").read_text())["attacks"]
        for out in ("scan", "again")
    )
    assert here == again
    journals = [
        [
            json.loads(line)["id"]
            for path in (folder / out / "evidence").glob("*.jsonl")
            for line in path.open()
        ]
        for out in ("scan", "again")
    ]
    assert journals[0] == journals[1][::-1]
    assert len(journals[0]) > 2


def test_the_exporter_gets_every_number_of_a_verdict(outputs: Outputs, folder: Path) -> None:
    code, printed = outputs["export"]
    assert code == 0, printed
    lines = (folder / "out.txt").read_text().splitlines()
    names = [line.split()[0] for line in lines]
    assert {"loss_gap/auc", "loss_gap/auc.low", "loss_gap/auc.limit", "exit_code"} <= {*names}
    assert f"{len(lines)} numbers" in printed


def test_an_item_that_cannot_be_imported_names_its_package(folder: Path) -> None:
    (folder / "broken-1.0.dist-info").mkdir()
    (folder / "broken-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n"
    )
    (folder / "broken-1.0.dist-info" / "entry_points.txt").write_text(
        "[docaudit.commands]\nlost = nowhere:add\n"
    )
    done = run_python("-m", "audit", "--help", **within(folder))
    assert done.returncode == 1
    assert (
        "broken: its commands 'lost' (nowhere:add) cannot be loaded: ModuleNotFoundError"
        in done.stderr
    )
    assert "update or uninstall broken" in done.stderr
