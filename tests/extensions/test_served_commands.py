"""What is printed about a served model names its address as it was given, and runs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import answering
import pytest
import served
from commands import docaudit

from audit.corpus.documents import ReferencePaths
from audit.corpus.manifest import load, write
from audit.extensions import remote

COLLAPSED = re.compile(r"https?:/(?!/)")
"""An address that lost a slash, as a `Path` writes it."""
IS_TEXT = (".html", ".md", ".json", ".csv", ".txt")


@dataclass(frozen=True)
class Scanned:
    """A leaking served model that was scanned.

    Attributes:
        model: its address.
        baseline: address of its baseline.
        data: its data set.
        folder: folder of the scan.
        printed: what the scan printed.
    """

    model: str
    baseline: str
    data: Path
    folder: Path
    printed: str


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanned]:
    """Scan a served model that knows the answers of its documents by heart."""
    folder = tmp_path_factory.mktemp("served")
    data = folder / "data"
    planted = answering.corpus(90, 90)
    write(data, replace(planted.manifest, references=ReferencePaths()), planted.documents)
    memory = answering.memory_of(load(data).of("member"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "PAUSES", (0.0, 0.0))
        with served.serve(leaky=served.planted(memory), clean=served.planted()) as server:
            model = f"{server.address}#leaky"
            baseline = f"{server.address}#clean"
            out = folder / "scan"
            options = ("--reference", f"baselines={baseline}", "--budget", "quick", "--out", out)
            result = docaudit("scan", model, data, *options)
            assert result.exit_code == 10, result.output
            yield Scanned(model, baseline, data, out, result.output)


def test_a_report_holds_no_address_that_lost_a_slash(scanned: Scanned) -> None:
    assert not COLLAPSED.search(scanned.printed)
    files = [path for path in scanned.folder.iterdir() if path.suffix in IS_TEXT]
    assert len(files) > 3
    for path in files:
        assert not COLLAPSED.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("command", "place"),
    [
        pytest.param(
            "references DATA MODEL --reference baselines=BASE", "BASE", id="a reference there"
        ),
        pytest.param(
            "scan MODEL DATA --only memorisation --budget quick --reference pretrained=BASE",
            "MODEL",
            id="how a missing baseline is trained",
        ),
        pytest.param("scan DATA MODEL", "MODEL", id="swapped"),
        pytest.param("init DATA MODEL", "MODEL", id="the source first"),
        pytest.param("init MODEL", "MODEL", id="no source"),
        pytest.param("inspect MODEL", "MODEL", id="a model as data"),
        pytest.param("gate SCAN --model MODEL", "MODEL", id="files of a server"),
        pytest.param(
            "fix SCAN --try blocking --reference pretrained=BASE", "BASE", id="a start to train"
        ),
    ],
)
def test_a_command_prints_an_address_as_it_was_given(
    command: str, place: str, scanned: Scanned, tmp_path: Path
) -> None:
    places = {
        "MODEL": scanned.model,
        "BASE": scanned.baseline,
        "DATA": str(scanned.data),
        "SCAN": str(scanned.folder),
    }
    words = []
    for word in command.split():
        name, equals, value = word.rpartition("=")
        words.append(f"{name}{equals}{places.get(value, value)}")
    if words[0] in ("scan", "fix"):
        words += ["--out", str(tmp_path / "out")]
    printed = "".join(docaudit(*words).output.split())
    assert not COLLAPSED.search(printed), printed
    assert places[place] in printed


def test_a_scan_of_a_leaking_server_prints_a_fix_that_runs(
    scanned: Scanned, tmp_path: Path
) -> None:
    fix = f"docaudit fix {scanned.folder}"
    assert fix in "".join(scanned.printed.split("\n")), scanned.printed
    assert "BASE" not in scanned.printed
    result = docaudit("fix", scanned.folder, "--out", tmp_path / "fix")
    assert result.exit_code in (0, 11), result.output
    printed = " ".join(result.output.split())
    assert "random-before: " in printed
    assert "docaudit scan CHECKPOINT_DIR" in printed
    assert "fine-tuned from" not in printed
    assert not COLLAPSED.search(printed)


def test_what_trains_weights_is_refused_for_a_served_model(
    scanned: Scanned, tmp_path: Path
) -> None:
    result = docaudit("fix", scanned.folder, "--try", "blocking", "--out", tmp_path / "fix")
    assert result.exit_code == 2, result.output
    printed = " ".join(result.output.split())
    assert "blocking trains weights, and a server gives none" in printed
    assert f"docaudit scan CHECKPOINT_DIR {scanned.data} --policy default" in printed
