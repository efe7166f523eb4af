"""Failures that nobody foresaw: a sentence with class and place, the story in a private file, no text of a page."""

import stat
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import answering
import example_records
import pytest
import text_zoo
from commands import run_python

import docaudit as api
from audit import cli, failures
from audit import record as records
from audit.corpus import manifest
from audit.corpus.documents import ReferencePaths
from audit.errors import EngineError, ModelError, TargetError
from audit.policy import evaluate
from audit.targets.encoders.target import EncoderTarget
from audit.workflows import run as running
from audit.workflows import scan

PAGE = "Applicant Nadia Orton, member no. 1140577"


class Panic(BaseException):
    """What libraries of Rust raise, which is no `Exception`."""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder in which private folders are made, in the place of the system's."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix, **_: make(prefix=prefix, dir=folder))
    return folder


@pytest.fixture
def run(monkeypatch, temporary, capfd):
    """`run(argument, ...)`: the exit code of the command, and all that it prints."""

    def end(*arguments: object) -> tuple[int, str]:
        for stream in ("stdout", "stderr"):
            monkeypatch.setattr(sys, stream, getattr(sys, stream))
        monkeypatch.setattr(sys, "argv", ["docaudit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        sys.stderr.flush()
        printed = capfd.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return end


def stories_below(folder: Path) -> list[Path]:
    """List the private files with the page, and check that no other file below the folder holds it."""
    stories = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and PAGE.encode() in path.read_bytes():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, path
            stories.append(path)
    return stories


FAILURES = [
    pytest.param(ValueError(PAGE), 1, id="bug"),
    pytest.param(KeyError(PAGE), 1, id="key"),
    pytest.param(UnicodeEncodeError("latin-1", PAGE, 0, 1, PAGE), 1, id="encoding"),
    pytest.param(OSError(5, PAGE, PAGE), 1, id="system"),
    pytest.param(Panic(PAGE), 1, id="panic"),
    pytest.param(MemoryError(PAGE), 1, id="memory"),
    pytest.param(RuntimeError(f"out of memory: {PAGE}"), 1, id="memory of torch"),
    pytest.param(ModelError("its chat template failed on a page", PAGE), 2, id="template"),
]


@pytest.mark.parametrize(("error", "code"), FAILURES)
def test_the_command_line_ends_in_a_sentence_whatever_is_raised(
    error, code, run, temporary, monkeypatch
):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("audit.workflows.gate.gate_record", broken)
    ended, printed = run("gate", "record.json")
    assert (ended, PAGE in printed, "Traceback" in printed) == (code, False, False), printed
    assert printed.startswith("error: ")
    assert "\nhint: " in printed
    stories = stories_below(temporary)
    # Lack of memory has a sentence of its own, and nothing to tell beside it.
    assert len(stories) == ("memory" not in printed)
    assert all(str(path) in printed for path in stories)


def test_the_traceback_is_there_for_those_who_ask(run, monkeypatch):
    monkeypatch.setenv(failures.DEBUG, "1")
    monkeypatch.setattr("audit.workflows.gate.gate_record", lambda *_, **__: {}["nothing"])
    monkeypatch.setattr(sys, "argv", ["docaudit", "gate", "record.json"])
    with pytest.raises(KeyError):
        cli.main()


def test_what_a_server_said_goes_into_the_private_file(run, temporary, monkeypatch):
    def refused(*_, **__):
        error = TargetError("http://127.0.0.1: HTTP 400", "read the server's log")
        error.story = PAGE
        raise error

    monkeypatch.setattr("audit.workflows.gate.gate_record", refused)
    code, printed = run("gate", "record.json")
    (story,) = stories_below(temporary)
    assert (code, PAGE in printed, str(story) in printed) == (2, False, True)
    assert "hint: read the server's log; read the story in" in " ".join(printed.split())


def test_a_disk_without_room_for_the_story_leaves_the_sentence(run, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    monkeypatch.setattr("audit.workflows.gate.gate_record", lambda *_, **__: {}[PAGE])
    code, printed = run("gate", "record.json")
    assert (code, PAGE in printed) == (1, False)
    assert "KeyError" in printed
    assert "could not be written" in " ".join(printed.split())


@pytest.fixture
def model(checkpoints):
    return checkpoints("layoutlm", "token-classification", 2)


@pytest.fixture
def repeating(monkeypatch):
    """Models raise what holds the page, whatever they are asked."""

    def broken(*_, **__):
        raise ValueError(PAGE)

    monkeypatch.setattr(EncoderTarget, "ask", broken)


@pytest.mark.usefixtures("repeating", "few_candidates")
def test_a_model_that_fails_at_every_page_leaves_the_scan_undecided(
    model, tiny_corpus, run, tmp_path
):
    out = tmp_path / "out"
    code, printed = run(
        "scan", model, tiny_corpus, "--out", out, "--only", "membership", "--budget", "quick"
    )
    assert (code, PAGE in printed, "Traceback" in printed) == (11, False, False), printed
    record = records.read(out)
    assert {result.status for result in record.attacks} == {"failed"}
    assert next(item.reason for item in record.utility).startswith(
        "to measure it failed: ValueError at audit/"
    )
    stories = {path.relative_to(out).as_posix() for path in stories_below(out)}
    assert stories == {"evidence/failure-membership.txt", "evidence/failure-usefulness.txt"}


COMMANDS = {
    "plan": ("plan", "MODEL", "DATA"),
    "inspect": ("inspect", "MODEL", "DATA"),
    "defend": ("defend", "random-after", "MODEL", "DATA", "--out", "OUT"),
    "forget-check": ("forget-check", "MODEL", "DATA", "--ids", "IDS", "--out", "OUT"),
    "sweep": ("scan", "DATA", "--checkpoints", "MODEL", "--out", "OUT"),
    "references": ("references", "MODEL", "DATA", "--train", "--out", "OUT"),
}


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_what_a_model_repeats(
    name, model, tiny_corpus, run, tmp_path, monkeypatch
):
    """Models are broken where every command meets them: as they are opened."""

    def broken(*_, **__):
        raise Panic(PAGE)

    monkeypatch.setattr("audit.targets.opening.open_model", broken)
    for module in [*sys.modules.values()]:
        if getattr(module, "__name__", "").startswith("audit.") and hasattr(module, "open_model"):
            monkeypatch.setattr(module, "open_model", broken)
    (tmp_path / "ids.txt").write_text("m1\n")
    places = {
        "DATA": tiny_corpus,
        "MODEL": model,
        "OUT": tmp_path / "out",
        "IDS": tmp_path / "ids.txt",
    }
    code, printed = run(*(places.get(word, word) for word in COMMANDS[name]))
    assert (code, PAGE in printed, "Traceback" in printed) == (1, False, False), printed
    assert "Panic at audit/" in " ".join(printed.split())
    assert stories_below(tmp_path)


def test_the_python_api_raises_a_sentence(model, tiny_corpus, temporary, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ValueError(PAGE)

    monkeypatch.setattr(scan, "open_session", broken)
    with pytest.raises(
        EngineError, match=r"the scan failed: ValueError at audit/workflows/scan.py:"
    ) as raised:
        api.scan(model, tiny_corpus, out=tmp_path / "out")
    assert PAGE not in str(raised.value)
    assert len(stories_below(temporary)) == 1


BARRED = {
    "checks of the scan": lambda record: replace(
        record, checks=running._failed_checks("ValueError at f.py:1").checks
    ),
    "usefulness": lambda record: replace(
        record, utility=running._unmeasured_usefulness("ValueError at f.py:1")
    ),
}


@pytest.mark.parametrize("part", BARRED)
def test_a_part_of_the_scan_that_failed_bars_a_pass(part):
    record, verdict, policy = example_records.passed()
    assert verdict.overall == "passed"
    judged = evaluate(BARRED[part](record), policy, example_records.TODAY)
    assert judged.overall == "undecided"
    assert any("ValueError at f.py:1" in one.reason for one in judged.decisions)


def test_a_failed_check_lets_a_violation_stand():
    record, verdict, policy = example_records.violated()
    assert verdict.overall == "violated"
    judged = evaluate(BARRED["checks of the scan"](record), policy, example_records.TODAY)
    assert judged.overall == "violated"


def test_errors_that_docaudit_raises_end_the_run_and_others_their_part(tmp_path):
    with failures.Part("one", tmp_path) as part:
        raise Panic(PAGE)
    assert part.failure == "Panic at unknown"
    for error in (EngineError("the disk is full"), KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)), failures.Part("other", tmp_path):
            raise error
    assert [path.name for path in tmp_path.iterdir()] == ["failure-one.txt"]


ON_SOME = "{% if 'PLANTED' in messages[0]['content'] %}BODY{% endif %}"
RAISING = ON_SOME.replace("BODY", "{{ raise_exception('bad turn: ' + messages[0]['content']) }}")
GREEDY = ON_SOME.replace("BODY", "{{ 'a' * 10000000000 }}")


@pytest.fixture
def turned(tmp_path):
    """`turned(template)`: a decoder with that before its own chat template, and pages of which some say PLANTED."""

    def write(template: str) -> tuple[Path, Path]:
        model = text_zoo.write_text_model(tmp_path / "model", "qwen2")
        (model / "chat_template.jinja").write_text(template + text_zoo.TEMPLATE)
        planted = answering.corpus(30, 30)
        documents = []
        for number, document in enumerate(planted.documents):
            if number % 3 == 0:
                first, *others = document.words
                document = replace(
                    document, words=(replace(first, text="PLANTED-1140577"), *others)
                )
            documents.append(document)
        manifest.write(
            tmp_path / "data", replace(planted.manifest, references=ReferencePaths()), documents
        )
        return model, tmp_path / "data"

    return write


@pytest.mark.parametrize(
    ("template", "code", "why"),
    [
        pytest.param(
            RAISING, 11, "ModelError at audit/targets/answering/templates.py", id="raises"
        ),
        pytest.param(GREEDY, 2, "needs more memory than any honest one", id="greedy"),
    ],
)
def test_a_template_that_fails_on_some_pages_prints_none_of_them(
    template, code, why, turned, run, tmp_path
):
    model, data = turned(template)
    out = tmp_path / "out"
    ended, printed = run("scan", model, data, "--out", out, "--only", "membership")
    assert (ended, "1140577" in printed, "Traceback" in printed) == (code, False, False), printed
    record = out / "record.json"
    assert why in " ".join(printed.split()) + (record.read_text() if record.exists() else "")
    holders = {
        path.parent.name
        for path in out.rglob("*")
        if path.is_file() and b"PLANTED" in path.read_bytes()
    }
    assert holders <= {"evidence"}
    assert record.exists() == (code == 11)
    ended, printed = run("inspect", data, "--model", model)
    assert (ended in (0, 2), "1140577" in printed, "Traceback" in printed) == (
        True,
        False,
        False,
    ), printed


LOST = """
import threading
from audit.cli import stopping
class Finalised:
    def __del__(self):
        raise ValueError("Nadia Orton")
def fail():
    raise KeyError("Nadia Orton")
with stopping.ended_by_signals():
    Finalised()
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
"""


def test_errors_that_end_nothing_are_told_without_their_message():
    found = run_python("-c", LOST, timeout=60)
    warnings = [
        f"warning: an error that ends nothing: {name} at unknown"
        for name in ("ValueError", "KeyError")
    ]
    assert (found.returncode, found.stderr.splitlines()) == (0, warnings)
