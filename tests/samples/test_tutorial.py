"""docs/tutorial.md: it shows what was printed, today's code prints the same, and its commands run.

The night walks the page as it is (`python docs/walk.py --check`). Here the commands run in their
order on a few receipts, and the screens are printed again from the records of the walk.
"""

import hashlib
import json
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import yaml
from commands import docaudit, run_commands
from PIL import Image
from pypdf import PdfReader

from audit import record as records
from audit.cli import console
from audit.compare import defended
from audit.extensions.countermeasures.fix import Fixed, Scanned, Tried
from audit.extensions.countermeasures.fix_command import show_fixed
from audit.policy import evaluate, load, today
from audit.workflows.options import ScanOptions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
PAGE = (DOCS / "tutorial.md").read_text(encoding="utf-8")
WALK = runpy.run_path(str(DOCS / "walk.py"))
TRANSCRIPT = json.loads(WALK["TRANSCRIPT"].read_text(encoding="utf-8"))
STEPS = WALK["read_steps"](PAGE)
RECEIPTS = Path("sample_models", "receipts")
FIXED = WALK["FIXED"]
DOCUMENTS = 4
"""Receipts of each split that the commands run on here."""


def scanned_in(report, options, tmp_path):
    """Lay a report where the scan with these options put it, and read the record in it."""
    (tmp_path / options.out).mkdir(parents=True)
    shutil.copy(report, tmp_path / options.out / "report.pdf")
    path = tmp_path / "record.json"
    path.write_bytes(PdfReader(report).attachments["record.json"][0])
    record = records.read(path)
    policy = load("default")
    verdict = evaluate(record, policy, today())
    return Scanned(options.out, record, verdict, options, policy, "default")


def first_scan(tmp_path):
    """Return the scan of the leaking model, from the report that README shows too."""
    options = ScanOptions(
        RECEIPTS / "model", RECEIPTS / "data", Path("docaudit-report"), budget="quick"
    )
    return scanned_in(PICTURES / "sample-report.pdf", options, tmp_path)


def confirmed_scan(tmp_path):
    """Return the scan of the mended model."""
    out = FIXED / "confirmed"
    options = ScanOptions(Path(TRANSCRIPT["model"]), RECEIPTS / "data", out)
    return scanned_in(PICTURES / "fixed-report.pdf", options, tmp_path)


def lines_of(screen):
    return [line.rstrip() for line in screen.strip("\n").splitlines()]


def screen_behind(words):
    """Return the lines that the page shows of the command with these words."""
    (screen,) = [step.screen for step in STEPS if words in step.command]
    return lines_of(screen)


def print_verdict(scanned, capsys):
    """Return the lines that the end of this scan prints."""
    capsys.readouterr()
    called = scanned.options.called("default")
    console.show_verdict(scanned.verdict, scanned.folder, scanned.record, called=called)
    return lines_of(capsys.readouterr().out)


def words_of(lines):
    """Return the words of a screen, however its lines are folded, without its numbers."""
    return re.sub(r"\d[\d,.]*", "#", " ".join(lines)).split()


def test_the_page_shows_the_screens_and_times_of_the_walk():
    assert WALK["write_page"](PAGE, TRANSCRIPT) == PAGE, "run `python docs/walk.py`"
    assert [step.command for step in STEPS] == [step["command"] for step in TRANSCRIPT["steps"]]
    assert [step["exit_code"] for step in TRANSCRIPT["steps"]] == [10, 0, 0, 0]


def test_todays_code_prints_the_shown_leak_from_the_record_of_the_samples_report(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    scanned = first_scan(tmp_path)
    printed = print_verdict(scanned, capsys)
    assert words_of(printed) == words_of(screen_behind("--budget quick"))


def test_todays_code_prints_the_shown_pass_from_its_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    printed = print_verdict(confirmed_scan(tmp_path), capsys)
    assert printed == screen_behind("--confirm")


def test_todays_code_prints_the_shown_table_from_its_comparison(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "comparison.json").write_text(json.dumps(TRANSCRIPT["comparison"]))
    comparison = defended.read(tmp_path)
    shown = screen_behind("--try")
    minutes = float(re.search(r"(\d+)$", next(line for line in shown if "dp:1  " in line))[1])
    scanned = first_scan(tmp_path)
    tried = Tried("dp:1", comparison, scanned.record, minutes, Path(TRANSCRIPT["model"]))
    out = Path("docaudit-fix")
    files = (out / "defences.pdf", out / "defences.html")
    show_fixed(Fixed(scanned, (tried,), {}, (), "standard", files), out)
    printed = lines_of(capsys.readouterr().out)
    assert printed == shown[-len(printed) :]


def test_the_gate_passes_the_record_of_the_mended_model(tmp_path):
    confirmed_scan(tmp_path)
    result = docaudit("gate", tmp_path / "record.json")
    assert result.exit_code == 0
    assert "unsigned" in result.stdout


def test_the_picture_is_of_the_report_beside_it():
    report = PICTURES / "fixed-report.pdf"
    drawn_from = Image.open(PICTURES / "fixed-page-one.png").text["drawn-from"]
    assert drawn_from == hashlib.sha256(report.read_bytes()).hexdigest(), (
        "run `python docs/walk.py`"
    )


def test_the_workflow_gates_the_record_that_the_page_copies():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    steps = yaml.safe_load(block)["jobs"]["docaudit"]["steps"]
    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    assert {*steps[-1]["with"]} <= {*inputs}
    assert f"docaudit gate {steps[-1]['with']['record']}\n" in STEPS[-1].command


def test_the_page_runs_every_night():
    night = (ROOT / ".github" / "workflows" / "night.yml").read_text(encoding="utf-8")
    assert "run: python docs/walk.py --check\n" in night


def few_receipts(folder):
    """Copy the sample with a few documents of each split."""
    sample = ROOT / RECEIPTS
    copy = folder / RECEIPTS
    shutil.copytree(sample / "model", copy / "model")
    shutil.copytree(sample / "data" / "references", copy / "data" / "references")
    shutil.copy(sample / "data" / "manifest.toml", copy / "data")
    (copy / "data" / "images").mkdir()
    lines = []
    for split in ("member", "heldout", "public"):
        documents = (sample / "data" / "documents.jsonl").read_text(encoding="utf-8").splitlines()
        lines += [line for line in documents if json.loads(line)["split"] == split][:DOCUMENTS]
    for line in lines:
        image = json.loads(line)["image"]
        shutil.copy(sample / "data" / image, copy / "data" / image)
    (copy / "data" / "documents.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_commands_run_in_their_order(tmp_path):
    few_receipts(tmp_path)
    lines = "".join(step.command for step in STEPS).splitlines()
    *first, gate = [shlex.split(line)[1:] for line in lines if line.startswith("docaudit ")]
    ended = run_commands({" ".join(words): words for words in first}, cwd=tmp_path)
    for code, output in ended.values():
        assert code in (0, 10, 11), output
    for line in lines:
        if not line.startswith("docaudit "):
            subprocess.run(shlex.split(line), cwd=tmp_path, check=True)
    ended |= run_commands({"gate": gate}, cwd=tmp_path)
    (_, tried), (confirmed_code, _), (gate_code, _) = [*ended.values()][1:]
    assert "docaudit fix docaudit-report --confirm dp:1" in tried
    assert gate_code == confirmed_code
