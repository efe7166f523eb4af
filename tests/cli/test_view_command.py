"""`docaudit view`: served on this machine alone, ended by Ctrl-C, without the parts of a scan."""

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import scan_folders
from commands import docaudit

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with five scans in it, and seven files that no page can show."""
    return scan_folders.everything(tmp_path_factory.mktemp("view") / "scans")


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that serves the page of a folder, and its port."""
    command = [sys.executable, "-m", "audit", "view", str(folder), "--no-browser", *options]
    environment = {**os.environ, "COLUMNS": "200"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell starts jobs in the background with Ctrl-C ignored, and the process inherits it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            port = ADDRESS.search(line)
            assert port is not None, line
            yield process, int(port[1])
        finally:
            process.kill()


def asked(port: int, path: str = "/", host: str = "", method: str = "GET") -> tuple[int, bytes]:
    """Status and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_the_page_is_served_to_this_machine_alone_until_ctrl_c(folder):
    with served(folder) as (process, port):
        status, body = asked(port)
        assert status == 200
        assert b"releases/v2" in body
        assert asked(port, "/index.html?x") == (200, body)
        assert asked(port, method="HEAD") == (200, b"")
        assert asked(port, "/training/checkpoint-50/record.json")[0] == 404
        assert asked(port, "/../../etc/passwd")[0] == 404
        assert asked(port, method="POST")[0] == 501
        assert asked(port, host="stranger.example")[0] == 403
        assert asked(port, host=f"localhost:{port}")[0] == 200
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        assert rest == "The page is closed.\n"


def test_a_page_on_another_address_of_this_machine_is_not_served(folder):
    with served(folder) as (_, port), pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.2", port, timeout=5).connect()


def test_the_page_is_written_as_one_file(folder, tmp_path):
    result = docaudit("view", folder, "--out", tmp_path / "page")
    assert result.exit_code == 0
    assert f"5 scans, 7 left out: {tmp_path / 'page' / 'index.html'}" in result.output
    assert [path.name for path in (tmp_path / "page").iterdir()] == ["index.html"]


def test_a_port_that_is_taken_is_refused_with_what_mends_it(folder):
    with served(folder) as (_, port):
        result = docaudit("view", folder, "--no-browser", "--port", port)
    assert result.exit_code == 2
    assert f"--port {port}: " in result.output
    assert "leave --port out for a free one" in result.output


def test_a_folder_without_scans_is_refused(tmp_path):
    result = docaudit("view", tmp_path)
    assert result.exit_code == 2
    assert "no record.json that can be read" in result.output


@pytest.mark.slow
def test_no_library_of_a_scan_is_imported(folder, tmp_path):
    program = (
        "import atexit, sys; from audit.cli import main; "
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "view", str(folder), "--out", str(tmp_path / "page")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.split())
    for library in ("torch", "transformers", "accelerate", "opacus", "weasyprint", "sklearn"):
        assert library not in imported
