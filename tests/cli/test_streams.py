"""Outputs that cannot be written: a sentence, a hint and an exit code, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import example_records
import pytest
import typer
from commands import run_python

from audit import record as records
from audit.cli.options import show_errors
from audit.errors import EngineError
from audit.report.files import write_pages

full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def docaudit(
    redirected: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run docaudit with its streams as a shell redirects them, and with these variables in its environment."""
    command = ["bash", "-c", f'"$0" -m audit "$@" {redirected}', sys.executable, *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )


@pytest.fixture(scope="module")
def violated(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("violated") / "record.json"
    records.write(example_records.violated()[0], path)
    return str(path)


@full
def test_a_full_disk_under_standard_output_is_told_in_a_sentence(violated):
    for arguments in (
        ("gate", violated),
        ("gate", violated, "--format", "json"),
        ("diff", violated, violated),
        ("--help",),
    ):
        found = docaudit("> /dev/full", *arguments)
        # A stage that takes its time leaves a line of progress.
        problem, hint = (
            line for line in found.stderr.splitlines() if line.startswith(("error: ", "hint: "))
        )
        assert (found.returncode, problem) == (
            1,
            "error: standard output: No space left on device",
        ), arguments
        assert hint.startswith("hint: ")


def test_a_closed_standard_output_is_told_in_a_sentence(violated):
    for arguments in (("gate", violated), ("gate", violated, "--format", "json"), ("--help",)):
        found = docaudit(">&-", *arguments)
        assert (found.returncode, found.stderr.splitlines()[0]) == (
            1,
            "error: standard output: closed",
        ), arguments


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "ascii:strict", "utf-8:strict"])
def test_an_encoding_that_lacks_letters_leaves_the_exit_code(violated, encoding):
    """Arrows, quotation marks and the sign of the verdict are no letters of latin-1."""
    found = docaudit("", "gate", violated, "-v", PYTHONIOENCODING=encoding)
    assert (found.returncode, found.stderr) == (10, "")
    assert "EXCEEDED" in found.stdout


@pytest.mark.parametrize("redirected", ["2>&-", pytest.param("2> /dev/full", marks=full)])
def test_without_standard_error_the_exit_code_is_the_verdicts(violated, redirected):
    found = docaudit(redirected, "gate", violated, "--format", "json")
    assert found.returncode == 10
    assert '"exceeded"' in found.stdout
    assert docaudit(redirected, "gate", "nowhere").returncode == 2


SPILL = """
import os, sys
from audit import cli
from audit.workflows import gate
def spill(*_, **__):
    os.write(2, b"Applicant Nadia Orton")
    sys.stderr.write("a warning of Python\\n")
    raise KeyError("Nadia Orton")
gate.gate_record = spill
sys.argv = ["docaudit", "gate", "record.json"]
cli.main()
"""


@pytest.mark.parametrize(("debug", "shown"), [("", False), ("1", True)])
def test_what_compiled_code_writes_past_python_is_not_shown(debug, shown, tmp_path):
    found = run_python(
        "-c", SPILL, env={**os.environ, "DOCAUDIT_DEBUG": debug, "TMPDIR": str(tmp_path)}
    )
    assert (found.returncode, "Nadia Orton" in found.stderr) == (1, shown), found.stderr
    assert "a warning of Python" in found.stderr


INTERRUPTED = """
import signal, sys, time
class Finder:
    def find_spec(self, name, *_):
        if name == "{name}":
            signal.raise_signal(signal.SIGINT)
# A shell that starts tests in the background has them ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
from audit import cli
print_help = cli._run
def work_for_minutes():
    # A signal within an import is raised a moment later, and the help alone may end before.
    try:
        print_help()
    except SystemExit as ended:
        if ended.code:
            raise
        time.sleep(60)
cli._run = work_for_minutes
sys.argv = ["docaudit", "--help"]
cli.main()
"""


@pytest.mark.parametrize(
    "name",
    ["audit.cli.stopping", "audit.cli.console", "rich.console", "typer", "audit.cli.options"],
)
def test_an_interrupt_of_the_first_second_is_no_traceback(name):
    found = run_python("-c", INTERRUPTED.format(name=name), timeout=60)
    assert (found.returncode, "Traceback" in found.stderr) == (130, False), found.stderr


def test_a_missing_package_is_named_without_a_traceback(capsys):
    with pytest.raises(typer.Exit) as ended, show_errors():
        import_missing("jinja2.sandbox")
    told = capsys.readouterr().err
    assert ended.value.exit_code == 1
    assert told.startswith("error: jinja2 is not installed")
    assert "hint: " in told


def test_a_package_of_an_extra_is_named_with_the_line_that_adds_it(capsys):
    with pytest.raises(typer.Exit) as ended, show_errors():
        import_missing("scipy.stats")
    told = capsys.readouterr().err
    assert ended.value.exit_code == 2
    assert "this needs scipy" in told
    assert "hint: pip install 'docaudit[diff]'" in told


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_is_told_without_a_traceback(error, capsys):
    with pytest.raises(typer.Exit) as ended, show_errors():
        raise error
    told = capsys.readouterr().err
    assert ended.value.exit_code == 1
    assert told.startswith("error: there is not enough memory")


def import_missing(name: str) -> None:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_page_that_cannot_be_replaced_keeps_the_reason_beside_the_stale_file(tmp_path):
    for name in ("report.html", "report.pdf"):
        (tmp_path / name).mkdir()
    with pytest.raises(EngineError) as caught:
        write_pages("<p>", tmp_path / "report.html", tmp_path / "report.pdf")
    told = "\n".join(caught.value.problems)
    assert "report.html: Is a directory" in told
    assert "report.pdf: of an earlier run, cannot be removed" in told


def test_what_is_written_into_a_file_alone_needs_no_standard_output(violated, tmp_path):
    found = docaudit(
        ">&-", "gate", violated, "--format", f"json={tmp_path / 'verdict.json'}", "--quiet"
    )
    assert (found.returncode, found.stderr) == (10, "")
    assert (tmp_path / "verdict.json").read_text().endswith("}\n")
