"""Commands and records for tests of pipelines: the real docaudit, one that only notes its arguments, verdicts."""

import json
from pathlib import Path

import example_records
from case_tables import read_tables
from policy_texts import write_policy

from audit import record as records

ROOT = Path(__file__).parents[2]
DATA = ROOT / "sample_models" / "utterances" / "data"
VERDICTS = [("passed", 0), ("violated", 10), ("undecided", 11)]
HOSTILE = [
    "a $(touch injected) `touch injected` '; touch injected; '",
    '"; touch injected; "',
    "--reveal",
    "*",
]
# Stands for docaudit where only what it is asked matters: it notes its arguments, and writes what
# it is told to.
PROGRAMS = read_tables(Path(__file__).with_suffix(".toml"))
FAKE = PROGRAMS["fake"]


def write_command(folder, text):
    """An executable called docaudit in this folder, which is new."""
    folder.mkdir()
    path = folder / "docaudit"
    path.write_text(text)
    path.chmod(0o755)
    return folder


def asked(tmp_path):
    log = tmp_path / "asked"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def write_record(folder, verdict):
    """A record and the policy under which it has this verdict, as a user commits them."""
    limits = {"passed": 0.9, "violated": 0.0001, "undecided": 0.05}
    (folder / "audits").mkdir()
    records.write(
        example_records.CASES["skipped" if verdict == "undecided" else "violated"]()[0],
        folder / "audits" / "record.json",
    )
    write_policy(folder / "mine.toml", f"reconstruction excess_pr.unique max = {limits[verdict]}")


def plant(tmp_path, workspace, names, left):
    """Plant links, files or folders of private text where a pipeline writes.

    Return its folder and the private file.
    """
    folder, private = workspace / "docaudit-verdict", tmp_path / "private"
    folder.mkdir()
    private.write_text("private")
    for name in names:
        if left == "link":
            (folder / name).symlink_to(private)
        elif left == "file":
            (folder / name).write_text("private")
        else:
            (folder / name).mkdir()
            (folder / name / "more").write_text("private")
    return folder, private


def refuse_planted(folder):
    """Fail where a folder still holds what was planted."""
    assert all(path.is_file() and not path.is_symlink() for path in folder.iterdir())
    assert not any("private" in path.read_text() for path in folder.iterdir())
