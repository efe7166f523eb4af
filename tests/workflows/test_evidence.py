"""Evidence is for its owner alone: where it is kept, who can read it, and when its outcomes were computed."""

import datetime as dt
import json
import os
import shutil
import subprocess
from dataclasses import replace

import example_records
import pytest
import tiny
from commands import docaudit

from audit import record as records
from audit.cards import Timing
from audit.compare.paired import read_scores
from audit.errors import EngineError, UsageError
from audit.workflows.execution import Origin, open_journal
from audit.workflows.options import claim_folder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_candidates")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.corpus(tmp_path_factory.mktemp("evidence") / "data", members=3, heldout=3, public=2)


@pytest.fixture(scope="module")
def scan(checkpoints, data):
    model = checkpoints("layoutlm", "mlm", 1)
    public = checkpoints("layoutlm", "mlm", 3)

    def run(out, *more):
        fixed = (
            "--reference",
            f"auxiliary={public}",
            "--budget",
            "quick",
            "--only",
            "reconstruction",
        )
        result = docaudit("scan", model, data, "--out", out, *fixed, *more)
        assert result.exit_code == 11, result.output
        return result.output

    return run


@pytest.fixture
def scanned(scan, tmp_path):
    """A scan whose evidence is kept elsewhere, with the values.

    The modes are not those of a careful shell.
    """
    before = os.umask(0)
    try:
        out = tmp_path / "out"
        kept = tmp_path / "deep" / "kept"
        scan(out, "--evidence", kept)
        output = docaudit("report", out, "--reveal", "--evidence", kept).output
    finally:
        os.umask(before)
    return out, kept, output


def test_evidence_goes_where_it_is_told_and_nowhere_else(scanned):
    out, kept, output = scanned
    assert {path.name for path in out.iterdir()} >= {"record.json", "report.html", "report.pdf"}
    assert not (out / "evidence").exists()
    rows = map(json.loads, (kept / "recovered.jsonl").read_text().splitlines())
    # Numbers alone could stand anywhere.
    values = {row["value"] for row in rows if len(row["value"]) > 5 and row["value"][0].isalpha()}
    assert values
    assert not any(
        value in path.read_text("utf-8", "replace") for path in out.iterdir() for value in values
    )
    assert {path.suffix for path in kept.iterdir()} >= {".jsonl", ".html"}
    assert str(kept / "report-revealed.html") in output
    (result,) = [one for one in records.read(out).attacks if one.status == "completed"]
    scores = read_scores(kept, result)
    # 64 bits of a hash for each field: no name of a document.
    assert scores
    assert {len(unit) for own in scores.values() for unit in own.units} == {16}
    # The place is nobody else's business.
    for name in ("record.json", "report.html", "report.pdf"):
        assert str(kept).encode() not in (out / name).read_bytes()


def test_every_file_of_evidence_is_for_its_owner_alone_and_git_leaves_it_out(scanned):
    _, kept, _ = scanned
    assert kept.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in kept.rglob("*") if path.is_file()}
    assert len(modes) >= 5
    assert ({*modes.values()}, (kept / ".gitignore").read_text()) == ({0o600}, "*\n")
    subprocess.run(["git", "init", "--quiet", kept.parent], check=True)
    listed = ["git", "-C", str(kept.parent), "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(listed, check=True, capture_output=True, text=True).stdout == ""


def test_an_older_evidence_folder_is_made_private_in_whole(tmp_path):
    models = tmp_path / "evidence" / "references" / "public-mlm"
    models.mkdir(parents=True)
    (models / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "evidence" / "journal-a-b.jsonl").write_text("{}\n")
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (models / "link").symlink_to(tmp_path / "elsewhere")
    with claim_folder(tmp_path):
        pass
    for path in (tmp_path / "evidence").rglob("*"):
        if not path.is_symlink():
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o755


def test_a_folder_of_something_else_is_refused_and_left_as_it_is(tmp_path):
    other = tmp_path / "home"
    other.mkdir(mode=0o755)
    (other / "letter.txt").write_text("Dear Sir")
    for wrong, error in {
        other: UsageError,
        tmp_path: UsageError,
        tmp_path / "out": UsageError,
        other / "letter.txt": EngineError,
    }.items():
        with pytest.raises(error, match="--evidence|letter"), claim_folder(tmp_path / "out", wrong):  # noqa: RUF043
            pass
    assert ([path.name for path in other.iterdir()], other.stat().st_mode & 0o777) == (
        ["letter.txt"],
        0o755,
    )
    for _ in range(2):  # its own, the second time
        with claim_folder(tmp_path / "out", tmp_path / "own"):
            pass


def test_values_are_revealed_from_where_they_are_kept_and_the_command_says_where(
    scanned, tmp_path, data, scan
):
    out, kept, _ = scanned
    (kept / "report-revealed.html").unlink()
    (kept / ".gitignore").unlink()  # as an older version left it
    (kept / "recovered.jsonl").chmod(0o644)
    missing = docaudit("report", out, "--reveal")
    assert "nothing to reveal" in missing.output
    assert "for you alone" not in missing.output
    shown = docaudit("report", out, "--reveal", "--evidence", kept)
    assert shown.exit_code == 0
    assert str(kept / "report-revealed.html") in shown.output
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}
    assert (kept / ".gitignore").exists()
    assert docaudit("report", out, "--evidence", kept).exit_code == 2
    assert docaudit("report", out, "--reveal", "--evidence", tmp_path / "nowhere").exit_code == 2
    # The values of another scan are not shown as this one's.
    scan(tmp_path / "other", "--seed", "1", "--evidence", kept)
    refused = docaudit("report", out, "--reveal", "--evidence", kept)
    assert "another scan" in refused.output
    assert not (kept / "report-revealed.html").exists()


def test_a_sweep_keeps_the_evidence_of_every_checkpoint_apart(checkpoints, data, tmp_path):
    for number in (1, 2):
        shutil.copytree(
            checkpoints("layoutlm", "mlm", number), tmp_path / "run" / f"checkpoint-{number}"
        )
    references = ("--reference", f"auxiliary={checkpoints('layoutlm', 'mlm', 3)}")
    more = ("--budget", "quick", "--only", "reconstruction", "--evidence", tmp_path / "kept")
    arguments = (
        "scan",
        "--checkpoints",
        tmp_path / "run" / "*",
        data,
        "--out",
        tmp_path / "out",
        *references,
        *more,
    )
    assert docaudit(*arguments).exit_code == 11
    assert [*(tmp_path / "out").rglob("evidence")] == [*(tmp_path / "out").rglob("*.jsonl")] == []
    assert {path.parent.name for path in (tmp_path / "kept").rglob("recovered.jsonl")} == {
        "checkpoint-1",
        "checkpoint-2",
    }
    assert docaudit(*arguments).exit_code == 11
    for name in ("checkpoint-1", "checkpoint-2"):
        timing = records.read(tmp_path / "out" / name).timing
        assert timing.resumed == timing.outcomes > 0


# When outcomes were computed.


def test_a_second_run_says_that_its_outcomes_were_read_from_the_journal_and_when_they_were_computed(
    scan, tmp_path
):
    first = scan(tmp_path)
    timing = records.read(tmp_path).timing
    assert timing.outcomes > 0
    assert (timing.resumed, timing.oldest, timing.origin) == (0, None, "")
    assert "journal" not in first
    assert "read from the journal" not in (tmp_path / "report.html").read_text()
    (journal,) = (tmp_path / "evidence").glob("journal-*.jsonl")
    journal.with_suffix(".begun").write_text("2026-01-05T23:59:00+00:00")
    os.utime(journal, (0, dt.datetime(2026, 1, 6, 8, tzinfo=dt.UTC).timestamp()))
    second = scan(tmp_path)
    again = records.read(tmp_path).timing
    count = f"{again.outcomes:,} of {again.outcomes:,} outcomes"
    said = f"{count} were computed from 2026-01-05 to 2026-01-06 and read from the journal"
    assert again.origin == said
    assert said in second
    assert said in docaudit("gate", tmp_path).output
    assert (tmp_path / "report.html").read_text().count(said) >= 2
    assert records.read(tmp_path / "record.previous.json").attacks == records.read(tmp_path).attacks
    assert "journal" not in scan(tmp_path, "--fresh")
    assert records.read(tmp_path).timing.resumed == 0


def test_outcomes_of_a_day_are_said_to_be_of_that_day():
    timing = Timing(
        "", "", 2.5, 1234, 1000, "2026-11-20T09:00:00+00:00", "2026-11-20T10:00:00+00:00"
    )
    assert (
        timing.origin
        == "1,000 of 1,234 outcomes were computed on 2026-11-20 and read from the journal"
    )


def test_a_journal_without_its_beginning_does_not_say_when_it_was_begun(tmp_path):
    path = tmp_path / "journal-a-b.jsonl"
    open_journal(path, fresh=False).journal.append("t1", 1)
    path.with_suffix(".begun").unlink()
    os.utime(path, (0, dt.datetime(2026, 1, 6, 8, tzinfo=dt.UTC).timestamp()))
    opened = open_journal(path, fresh=False)
    assert (opened.oldest, opened.newest) == (None, "2026-01-06T08:00:00+00:00")
    origin = Origin()
    origin.add(5, 0, opened)
    assert origin.timing("", "", 1.0) == Timing("", "", 1.0, 5)
    origin.add(3, 1, opened)
    origin.add(3, 1, replace(opened, oldest="2026-01-05T08:00:00+00:00"))
    timing = origin.timing("", "", 1.0)
    assert timing == Timing("", "", 1.0, 11, 2, None, opened.newest)
    assert timing.origin == (
        "2 of 11 outcomes were read from the journal, which does not say when the first of them was computed"
    )


def test_a_scan_that_goes_on_with_its_policy_is_not_suspected_and_with_another_is(scan, tmp_path):
    late = "may have been chosen after the results were known"
    assert late not in scan(tmp_path)
    (begun,) = (tmp_path / "evidence").glob("journal-*.begun")
    begun.write_text(begun.read_text().replace(begun.read_text()[:10], "2026-01-05"))
    assert late not in scan(tmp_path)
    timing = records.read(tmp_path).timing
    assert (timing.oldest[:10], timing.same_policy) == ("2026-01-05", True)
    assert "declared before the scan" in " ".join(docaudit("gate", tmp_path, "-v").output.split())
    assert late in scan(tmp_path, "--policy", "strict")
    assert not records.read(tmp_path).timing.same_policy


@pytest.mark.parametrize(("declared", "same"), [("a" * 64, True), ("b" * 64, False), (None, False)])
def test_every_journal_that_was_read_must_have_begun_under_the_policy(declared, same, tmp_path):
    journals = []
    for name, policy in (("j1", "a" * 64), ("j2", declared)):
        open_journal(tmp_path / f"{name}.jsonl", fresh=False, policy=policy).journal.append("t1", 1)
        # What the run that goes on declares changes nothing.
        journals.append(open_journal(tmp_path / f"{name}.jsonl", fresh=False, policy="a" * 64))
    origin = Origin(policy="a" * 64)
    for opened in journals:
        origin.add(2, 1, opened)
    assert origin.timing("", "", 1.0).same_policy is same
    new = Origin(policy="a" * 64)
    new.add(2, 0, journals[0])
    assert not new.timing("", "", 1.0).same_policy


@pytest.mark.parametrize("dated", ["journal", "beginning"])
def test_a_journal_of_the_future_is_refused(dated, tmp_path):
    path = tmp_path / "journal-a-b.jsonl"
    open_journal(path, fresh=False).journal.append("t1", 1)
    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    if dated == "journal":
        os.utime(path, (0, ahead.timestamp()))
    else:
        path.with_suffix(".begun").write_text(ahead.isoformat())
    with pytest.raises(EngineError, match="in the future") as it:
        open_journal(path, fresh=False)
    assert "--fresh" in it.value.hint
    assert open_journal(path, fresh=True).journal.outcomes == {}


def test_a_journal_is_private_from_its_first_byte_on(tmp_path):
    before = os.umask(0)
    try:
        open_journal(tmp_path / "j.jsonl", fresh=False).journal.append("t1", 1)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


# Exit codes of commands that print a verdict.


def test_report_prints_no_exit_code_that_it_does_not_return(tmp_path):
    records.write(example_records.CASES["violated"]()[0], tmp_path / "record.json")
    reported = docaudit("report", tmp_path)
    gated = docaudit("gate", tmp_path)
    assert (reported.exit_code, gated.exit_code) == (0, 10)
    assert "EXCEEDED" in reported.output
    assert "exit code" not in reported.output
    assert "exit code 10" in gated.output
