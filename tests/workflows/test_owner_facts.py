"""Facts that only the owner knows: `docaudit report --set` fills them in, `docaudit init` asks."""

import json
from pathlib import Path

import example_records as examples
import pytest
from commands import docaudit
from shown_pages import Seen

from audit import record as records
from audit.cards import AuditSheet
from audit.errors import UsageError
from audit.workflows.owner_sheet import KEYS, with_statements

pytestmark = pytest.mark.slow


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """The folder of a scan."""
    folder = tmp_path / "scan"
    folder.mkdir()
    records.write(examples.violated()[0], folder / "record.json")
    return folder


def page_one(folder: Path) -> str:
    page = (folder / "report.html").read_text(encoding="utf-8")
    return Seen(page).text.partition("Decision The stamp")[0]


def test_a_fact_that_is_missing_is_named_and_filled_in(scan: Path) -> None:
    assert docaudit("report", scan).exit_code == 0
    assert "name and version are missing" in page_one(scan)
    assert page_one(scan).count(" missing") == 5
    ran = docaudit(
        "report",
        scan,
        *("--set", "model_name=Receipt reader"),
        *("--set", "model_version=3"),
        *("--set", "system=Expense app"),
        *("--set", "purpose=Fills in amounts and dates"),
        *("--set", "controller=Example Ltd"),
        *("--set", "release=api"),
    )
    assert ran.exit_code == 0, ran.output
    page = page_one(scan)
    assert "missing" not in page
    assert "“Receipt reader”, version “3”" in page
    assert "“Example Ltd”" in page
    assert "strangers can query it" in page


def test_only_what_the_owner_states_changes_in_the_record(scan: Path) -> None:
    before = json.loads((scan / "record.json").read_text())
    assert docaudit("report", scan, "--set", "controller=Example Ltd").exit_code == 0
    after = json.loads((scan / "record.json").read_text())
    assert after.pop("audit") == before.pop("audit") | {"controller": "Example Ltd"}
    assert after == before


def test_another_folder_leaves_the_record_of_the_scan_as_it_is(scan: Path, tmp_path: Path) -> None:
    before = (scan / "record.json").read_bytes()
    out = tmp_path / "out"
    assert docaudit("report", scan, "--out", out, "--set", "system=Expense app").exit_code == 0
    assert (scan / "record.json").read_bytes() == before
    assert records.read(out).audit.system == "Expense app"


def test_an_empty_value_takes_a_statement_back() -> None:
    record = with_statements(examples.violated()[0], ["system=A", "data_categories=names, totals"])
    assert record.audit == AuditSheet(system="A", data_categories=("names", "totals"))
    assert with_statements(record, ["system=", "data_categories="]).audit == AuditSheet()


@pytest.mark.parametrize("setting", ["owner=me", "system", "=me", "release=everybody"])
def test_what_is_no_statement_is_refused_with_an_example(setting: str) -> None:
    with pytest.raises(UsageError) as refused:
        with_statements(examples.violated()[0], [setting])
    assert "--set controller=" in refused.value.hint


def test_a_text_that_page_one_cannot_show_is_refused() -> None:
    for text in ("x" * 161, "a\u202eb"):
        with pytest.raises(UsageError, match="controller"):
            with_statements(examples.violated()[0], [f"controller={text}"])


def test_every_key_of_the_help_is_one() -> None:
    shown = docaudit("report", "--help-all").output
    assert [key for key in KEYS if key not in shown] == []
