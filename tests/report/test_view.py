"""The page over all scans of a folder: what it shows, and what it never reads."""

import dataclasses
import json
from pathlib import Path

import example_records as examples
import pytest
import scan_folders
from shown_pages import HOSTILE, Seen

from audit.errors import RecordError, UsageError
from audit.report.checkpoints import BY_TIME
from audit.report.view.audits import Audits
from audit.report.view.page import charts_of
from audit.workflows import record_files
from audit.workflows.diff import diff_scans
from audit.workflows.view import View, write_page


def audits_of(folder: Path) -> Audits:
    return View(folder, "default").page().audits


def html_of(folder: Path) -> str:
    return View(folder, "default").page().html


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with five scans in it, and seven files that no page can show."""
    return scan_folders.everything(tmp_path_factory.mktemp("view") / "scans")


def test_every_scan_stands_on_the_page_with_its_verdict_the_newest_first(folder):
    audits = audits_of(folder)
    text = Seen(html_of(folder)).text
    assert [run.name for run in audits.runs] == [
        "releases/v2",
        "releases/v1",
        "training/checkpoint-150",
        "training/checkpoint-100",
        "training/checkpoint-50",
    ]
    for run in audits.runs:
        assert run.name in text
        assert run.verdict.counts.sentence in text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unshown/broken", "record.json: Invalid JSON"),
        ("unshown/empty", "record.json: Invalid JSON"),
        ("unshown/old", "docaudit 0.5.0 wrote it"),
        ("unshown/large/record.json", "larger than 16 MiB"),
        ("unshown/pipe/record.json", "not a regular file"),
        ("unshown/linked/record.json", "a link, which is not followed"),
        ("unshown/elsewhere", "a link, which is not followed"),
    ],
)
def test_what_is_left_out_is_listed_with_the_reason(folder, name, reason):
    audits = audits_of(folder)
    assert len(audits.left_out) == 7
    assert reason in {item.name: item.reason for item in audits.left_out}[name]
    text = Seen(html_of(folder)).text
    assert name in text
    assert reason in text


def test_evidence_is_not_opened(tmp_path):
    scan = scan_folders.saved(tmp_path / "scan", examples.violated()[0], "2026-03-02T10:00:00")
    (scan / "evidence").mkdir()
    (scan / "evidence" / "record.json").write_text("{")
    (scan / "evidence" / "units-reconstruction.json").write_text("{")
    audits = audits_of(tmp_path)
    assert [run.name for run in audits.runs] == ["scan"]
    assert audits.left_out == ()


def test_nothing_is_written_into_the_folder(folder):
    before = sorted(folder.rglob("*"))
    html_of(folder)
    assert sorted(folder.rglob("*")) == before


def test_checkpoints_beside_each_other_are_a_series_by_epoch_and_others_one_by_time(folder):
    by_epoch, by_time = audits_of(folder).series
    assert by_epoch.axis == "epoch"
    assert [stop.x for stop in by_epoch.stops] == [4.0, 8.0, 12.0]
    assert by_time.axis == BY_TIME
    assert [run.name for run in by_time.runs] == ["releases/v1", "releases/v2"]


@pytest.mark.parametrize("changed", [{"seed": 7}, {"budget": "quick"}])
def test_scans_that_differ_in_more_than_the_model_are_no_series(tmp_path, changed):
    first = scan_folders.released(1, 0.6)
    other = dataclasses.replace(scan_folders.released(2, 0.0), **changed)
    scan_folders.saved(tmp_path / "first", first, "2026-04-01T10:00:00")
    scan_folders.saved(tmp_path / "other", other, "2026-05-01T10:00:00")
    audits = audits_of(tmp_path)
    assert audits.series == ()
    assert audits.pairs == ()
    assert "No two scans of this folder differ in the model alone" in Seen(html_of(tmp_path)).text


def test_the_page_says_which_checkpoint_passes_and_where_a_limit_is_exceeded(folder):
    text = Seen(html_of(folder)).text
    assert "None of 3 checkpoints passes." in text
    assert "is confirmed over its limit of 5 points at 2 of 3 checkpoints (epoch 8, 12)." in text
    assert "is confirmed over its limit of 5 points at 1 of 2 scans (scan 1)." in text


def test_charts_have_values_intervals_and_limits_of_the_records(folder):
    by_epoch, _ = audits_of(folder).series
    chart = {chart["title"]: chart for chart in charts_of(by_epoch)}[
        "Values restored because of training: in one document only"
    ]
    assert chart["places"] == [4.0, 8.0, 12.0]
    assert chart["limit"] == 5.0
    assert chart["limit_text"] == "5\N{NO-BREAK SPACE}points"
    (line,) = chart["lines"]
    assert line["value"] == pytest.approx([0.0, 10.0, 60.0])
    for low, value, high in zip(line["low"], line["value"], line["high"], strict=True):
        assert low < value < high
    assert line["text"][2].startswith("60\N{NO-BREAK SPACE}points (")


def test_two_scans_are_compared_as_diff_compares_them_without_evidence(folder):
    pairs = {(pair.old.name, pair.new.name): pair for pair in audits_of(folder).pairs}
    assert len(pairs) == 4
    pair = pairs["releases/v1", "releases/v2"]
    expected = diff_scans(folder / "releases" / "v1", folder / "releases" / "v2")
    assert pair.comparison.changes == expected.changes
    assert pair.comparison.of("better") != []
    assert pair.comparison.summary in Seen(html_of(folder)).text.lower()


def test_names_of_strangers_are_shown_as_text(tmp_path):
    record = scan_folders.released(1, 0.6)
    target = dataclasses.replace(record.target, name=HOSTILE)
    hostile = dataclasses.replace(record, target=target)
    scan_folders.saved(tmp_path / "<img src=x>", hostile, "2026-04-01T10:00:00")
    scan_folders.saved(tmp_path / "<script>\u202e", hostile, "2026-05-01T10:00:00")
    page = html_of(tmp_path)
    assert "<script>alert" not in page
    assert "<img src=x>" not in page
    assert page.count("</script>") == 2
    seen = Seen(page).text
    assert HOSTILE in seen
    assert "\\u202e" in seen
    assert "\u202e" not in page


def test_only_the_newest_records_are_read(folder, monkeypatch):
    monkeypatch.setattr(record_files, "MOST_RECORDS", 4)
    found = record_files.search(folder)
    assert len(found.files) == 4
    assert sum(item.reason == "older than the newest 4 records" for item in found.left_out) == 4


def test_a_search_ends_in_a_folder_without_end(folder, monkeypatch):
    monkeypatch.setattr(record_files, "MOST_ENTRIES", 5)
    found = record_files.search(folder)
    assert found.left_out[-1].reason == "only the first 5 files were looked at"


def test_reasons_beyond_those_that_are_listed_are_counted(folder, monkeypatch):
    monkeypatch.setattr(record_files, "MOST_LISTED", 2)
    audits = audits_of(folder)
    assert len(audits.left_out) == 2
    assert audits.n_more == 5
    assert "5 more are not listed." in Seen(html_of(folder)).text


def test_folders_too_deep_are_left_out(tmp_path):
    deep = tmp_path.joinpath(*["down"] * (record_files.DEEPEST + 1))
    scan_folders.saved(deep, scan_folders.released(1, 0.6), "2026-04-01T10:00:00")
    found = record_files.search(tmp_path)
    assert found.files == []
    assert found.left_out[0].reason == "more than 12 folders deep"


def test_a_record_that_became_a_link_is_not_read(tmp_path):
    folder = scan_folders.saved(tmp_path / "a", scan_folders.released(1, 0.6), "2026-04-01")
    (file,) = record_files.search(tmp_path).files
    (folder / "record.json").rename(tmp_path / "moved.json")
    (folder / "record.json").symlink_to(tmp_path / "moved.json")
    with pytest.raises(RecordError):
        record_files.read(file)


def test_the_page_is_drawn_again_once_a_scan_has_ended(tmp_path):
    scan_folders.saved(tmp_path / "v1", scan_folders.released(1, 0.6), "2026-04-01T10:00:00")
    view = View(tmp_path, "default")
    first = view.page()
    assert view.page() is first
    scan_folders.saved(tmp_path / "v2", scan_folders.released(2, 0.0), "2026-05-01T10:00:00")
    assert [run.name for run in view.page().audits.runs] == ["v2", "v1"]


def test_a_folder_without_scans_is_refused_with_what_was_found(tmp_path):
    scan_folders.unshown(tmp_path / "unshown")
    with pytest.raises(RecordError) as refused:
        audits_of(tmp_path)
    assert refused.value.problems[0] == f"{tmp_path}: no record.json that can be read"
    assert len(refused.value.problems) == 6
    assert refused.value.hint == "name a folder that holds scans: docaudit view DIR"


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        audits_of(tmp_path / "nowhere")


def test_the_page_is_one_file_that_names_no_other(folder, tmp_path):
    path, page = write_page(folder, "default", tmp_path / "out")
    assert [item.name for item in (tmp_path / "out").iterdir()] == ["index.html"]
    written = path.read_text(encoding="utf-8")
    assert written == page.html
    assert "default-src 'none'" in written
    assert " src=" not in written.partition("<script type")[0]
    data = written.partition('id="charts">')[2].partition("</script>")[0]
    assert sorted(json.loads(data)) == ["1", "2"]


def test_the_page_is_not_written_into_a_model(folder, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match="--out"):
        write_page(folder, "default", tmp_path / "page")
