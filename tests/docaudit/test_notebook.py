"""What a notebook shows of results, verdicts and records of the Python API."""

from dataclasses import replace
from pathlib import Path

import example_records as examples
import pytest
from commands import run_python
from lxml import html as parser

import audit.record
from audit.record import AuditRecord
from audit.report.decision import question_rows
from audit.report.facts.build import facts_of
from audit.workflows.scan import ScanResult
from docaudit import evaluate, load_record
from docaudit.types import Verdict

HOSTILE = "<script>alert(1)</script>"


def cells(text: str) -> list[str]:
    """Return the texts of all cells of the tables."""
    return [
        " ".join(cell.text_content().split()) for cell in parser.fromstring(text).iter("td", "th")
    ]


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """Write the record of a leaking model."""
    audit.record.write(examples.violated()[0], tmp_path / "record.json")
    return tmp_path


def test_a_verdict_shows_its_outcome_and_what_each_attack_reached(scan: Path) -> None:
    verdict = evaluate(load_record(scan))
    shown = verdict._repr_html_()
    (row,) = question_rows(facts_of(load_record(scan), verdict))
    assert "EXCEEDED" in shown
    assert verdict.counts.sentence in shown
    assert {row.question, row.trained.replace("\u00a0", " ")} <= {*cells(shown)}


def test_a_result_shows_its_verdict(tmp_path: Path) -> None:
    record, verdict, _ = examples.violated()
    result = ScanResult(record, verdict, (), tmp_path)
    assert result._repr_html_() == Verdict.of(verdict)._repr_html_()


def test_a_record_shows_its_attacks_and_no_outcome(scan: Path) -> None:
    record = load_record(scan)
    shown = record._repr_html_()
    assert "completed" in cells(shown)
    assert "EXCEEDED" not in shown
    assert cells(shown)[3:4] == ["Restoring blacked-out values"]


def test_names_of_a_record_are_shown_as_text(scan: Path, tmp_path: Path) -> None:
    record = load_record(scan)
    odd: AuditRecord = replace(record, target=replace(record.target, name=HOSTILE))
    for shown in (odd._repr_html_(), evaluate(odd)._repr_html_()):
        assert HOSTILE not in shown
        assert "&lt;script&gt;" in shown


def test_what_the_api_returns_is_what_the_record_holds(scan: Path) -> None:
    record = load_record(scan)
    assert isinstance(record, AuditRecord)
    assert audit.record.dumps(record) == audit.record.dumps(audit.record.read(scan))


def test_a_notebook_loads_no_torch_to_show_a_verdict(scan: Path) -> None:
    program = (
        "import sys, docaudit; "
        f"docaudit.evaluate(docaudit.load_record({str(scan)!r}))._repr_html_(); "
        "print('torch' in sys.modules)"
    )
    done = run_python("-c", program)
    assert done.stdout.split() == ["False"], done.stderr
