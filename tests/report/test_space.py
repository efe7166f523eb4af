"""The page of `examples/space`, without the server that shows it."""

from pathlib import Path

from pipeline_commands import write_record
from scripts import load

space = load(Path(__file__).parents[2] / "examples" / "space" / "app.py")


def test_an_uploaded_record_becomes_a_report_in_a_frame(tmp_path):
    write_record(tmp_path, "exceeded")
    verdict, frame = space.show(str(tmp_path / "audits" / "record.json"), "default")
    assert verdict == "Exit code 10, policy default"
    assert frame.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert [path.name for path in (tmp_path / "audits").iterdir()] == ["record.json"]


def test_another_file_is_an_error_in_a_line(tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    verdict, frame = space.show(str(other), "default")
    assert "record.json" in verdict
    assert frame == ""


def test_nothing_uploaded_asks_for_a_record():
    assert space.show(None, "default") == ("Upload record.json of a scan.", "")
