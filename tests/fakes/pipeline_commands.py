"""Commands and records for tests of pipelines: docaudit, one that notes its arguments, verdicts."""

import json
from pathlib import Path

import example_records
from policy_texts import write_policy

from audit import record as records

ROOT = Path(__file__).parents[2]
DATA = ROOT / "sample_models" / "utterances" / "data"
VERDICTS = [("met", 0), ("exceeded", 10), ("undecided", 11)]
HOSTILE = [
    "a $(touch injected) `touch injected` '; touch injected; '",
    '"; touch injected; "',
    "--reveal",
    "*",
]
FAKE = r"""#!{python} -IS
import json, os, pathlib, sys
code, size = int(os.environ.get("FAKE_CODE", "0")), int(os.environ.get("FAKE_SIZE", "10"))
arguments = sys.argv[1:]
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write(json.dumps(arguments) + "\n")
for argument in arguments:
    name, _, value = argument.partition("=")
    if name == "--out" and code < 12 and code != 2:
        (pathlib.Path(value) / "evidence").mkdir()
        for file in ("record.json", "report.html", "report.pdf", "evidence/key.json"):
            (pathlib.Path(value) / file).write_text(file)
    if name == "--format":
        value = value.partition("=")[2]
        text = json.dumps({{"verdict": "met"}}) if value.endswith(".json") else "é\n" * size
        pathlib.Path(value).write_text(text, encoding="utf-8")
sys.exit(code)
"""
"""A program that stands for docaudit where only what it is asked matters.

It notes its arguments, and writes what it is told to. It runs without the modules of others, whose
folders Python would look through at each start.
"""
PLANTED = r"""
import os, pathlib, sys
pathlib.Path(__file__).with_name('ran').write_text(' '.join(sys.argv))
if os.fork() == 0:
    os.setsid()
    import time
    time.sleep(1)
    with open(os.environ.get('GITHUB_OUTPUT', os.devnull), 'a') as stream:
        stream.write('exit-code=0\nverdict=met\n')
    os._exit(0)
"""
"""A module under a name that Python imports as it starts or reads JSON; none may run."""
IMPORTED = """
import pathlib, sys
from audit.cli import app
app(sys.argv[2:], standalone_mode=False)
from audit.corpus.manifest import load
import audit.targets.checkpoint.content
load(pathlib.Path(sys.argv[1]))
print(*{name.partition(".")[0] for name in sys.modules})
"""
"""A program that prints what a gate imports.

It reads a data set and hashes a model, as --data and --model do.
"""


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
    limits = {"met": 0.9, "exceeded": 0.0001, "undecided": 0.05}
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
    folder = workspace / "docaudit-verdict"
    private = tmp_path / "private"
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
