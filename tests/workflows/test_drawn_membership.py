"""Membership that docaudit drew is dated: older weights cannot have been trained on it, and reports say so."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import example_records
import pytest
from PIL import Image
from shown_pages import Seen
from typer.testing import CliRunner

from audit import policy as policies
from audit import record as records
from audit.cli import app, console
from audit.corpus import manifest as manifests
from audit.corpus.documents import Membership, Split
from audit.corpus.summary import card
from audit.errors import ManifestError
from audit.importers.named import NamedMembers
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.policy import today
from audit.report.html import html
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session

DAY = "2026-03-02"
SHARES: dict[Split, float] = {"member": 0.5, "heldout": 0.25, "public": 0.25}
NOTE = f"membership was drawn by docaudit import on {DAY}"


def docaudit(*arguments: object) -> str:
    return " ".join(CliRunner().invoke(app, [*map(str, arguments)]).output.split())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("snips") / "snips"
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
        (folder / part / "seq.in").write_text(
            "".join(f"play {part} {number}\n" for number in range(8))
        )
        (folder / part / "seq.out").write_text("O B-track I-track\n" * 8)
        (folder / part / "label").write_text("PlayMusic\n" * 8)
    return folder


@pytest.fixture
def drawn(tiny_corpus: Path, tmp_path: Path) -> Path:
    """A data set whose membership docaudit drew."""
    data = shutil.copytree(tiny_corpus, tmp_path / "data")
    corpus = manifests.load(data)
    membership = Membership("random", DAY, "docaudit import")
    manifests.write(data, replace(corpus.manifest, membership=membership), corpus.documents)
    return data


def test_an_import_that_draws_dates_it_and_one_that_is_told_does_not(
    source: Path, tmp_path: Path
) -> None:
    given = NamedMembers(("train-00001", "test-00003"))
    for name, rule in (("drawn", "drawn"), ("official", "official"), ("given", given)):
        FORMATS["snips"].convert(ImportRequest(source, tmp_path / name, SHARES, 0, rule))
        membership = manifests.load(tmp_path / name).manifest.membership
        dated = (str(today()), "docaudit import") if name == "drawn" else (None, None)
        assert (membership.drawn, membership.drawn_by) == dated, name
    assert f'drawn = "{today()}"' in (tmp_path / "drawn" / "manifest.toml").read_text()


def test_inspect_plan_and_scan_warn_of_weights_older_than_the_draw(
    checkpoints, drawn: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(checkpoints("layoutlm", "mlm"), tmp_path / "model")
    for written, warned in (
        (1_767_225_600, True),
        (1_775_000_000, False),
    ):  # 2026-01-01 and 2026-03-31
        os.utime(model / "model.safetensors", (written, written))
        # The warnings of the scan that a plan opens are the plan's.
        for said in (
            docaudit("inspect", drawn, "--model", model),
            " ".join(open_session(ScanOptions(model, drawn, tmp_path / "out")).warnings),
        ):
            assert ("last written on 2026-01-01" in said) == warned, said
            assert ("which copying changes" in said) == warned, said
    assert f"membership assigned random, drawn by docaudit import on {DAY}" in docaudit(
        "inspect", drawn
    )


def test_page_one_and_the_console_say_that_membership_was_drawn(drawn: Path, capsys) -> None:
    assert (card(manifests.load(drawn)).drawn, card(manifests.load(drawn)).drawn_by) == (
        DAY,
        "docaudit import",
    )
    plain = example_records.record()
    dated = replace(plain, corpus=replace(plain.corpus, drawn=DAY, drawn_by="docaudit import"))
    for record, told in ((plain, False), (records.loads(records.dumps(dated)), True)):
        verdict = policies.evaluate(record, policies.load("default"), policies.today())
        page, _, _ = html(record, verdict, policies.load("default")).partition("</section>")
        assert (NOTE in Seen(page).text) == told
        console.show_verdict(verdict, None, record)
        assert (NOTE in " ".join(capsys.readouterr().out.lower().split())) == told


@pytest.mark.parametrize(
    "lines",
    [
        'drawn = "yesterday"',
        'drawn = "2026-02-30"',
        f'drawn = "{DAY}"',
        f'drawn = "{DAY}"\ndrawn_by = "Mr Tan"',
    ],
)
def test_a_draw_is_a_day_and_one_of_docaudits_commands(drawn: Path, lines: str) -> None:
    settings = (drawn / "manifest.toml").read_text()
    dated = f'drawn = "{DAY}"\ndrawn_by = "docaudit import"'
    assert dated in settings
    (drawn / "manifest.toml").write_text(settings.replace(dated, lines))
    with pytest.raises(ManifestError, match=r"membership"):
        manifests.load(drawn)


def test_init_dates_its_draw(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    for name in ("a.png", "b.png"):
        Image.new("L", (60, 40), ord(name[0])).save(root / name)
    docaudit("init", root, "--task", "mlm", "--yes")
    assert manifests.load(root).manifest.membership == Membership(
        "random", str(today()), "docaudit init"
    )
