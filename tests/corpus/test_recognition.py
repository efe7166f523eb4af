"""Recognition of a format reads files of strangers: patterns take linear time."""

import resource
import subprocess
import sys

import pytest

SECONDS = 240
"""Of the processor for all patterns together: linear ones take a tenth, a quadratic one takes
days."""
PIECES = (
    *(
        '"spans":[{',
        '"spans":[{"start',
        '"labels": [ ',
        '"messages":',
        '"messages": ',
        " key ",
        ",value key",
        "\n key",
    ),
    *(
        " O\n",
        " O\nx ",
        " O\nx B-",
        "-DOCSTART",
        '"prompt" ',
        '{"prompt"',
        "[",
        "[ ",
        "[[[[1.",
        "<alto",
        "<",
        "file_",
    ),
    *('"pages": [ ', '"pages": [{', '"text', "{", "\n", " ", "\t", "x"),
)
SEARCH = """
import re, sys
from audit.importers.registry import FORMATS
pieces, length = eval(sys.argv[1]), int(sys.argv[2])
patterns = dict.fromkeys(content for importer in FORMATS.values() for _, content in importer.marks if content)
assert len(patterns) > 10
for piece in pieces:
    text = piece * (length // len(piece))
    for pattern in patterns:
        re.search(pattern, text)
print("searched")
"""


def in_bounds() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are Linux's")
@pytest.mark.parametrize("length", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.night)])
def test_patterns_of_formats_take_linear_time(length: int) -> None:
    command = [sys.executable, "-c", SEARCH, repr(PIECES), str(length)]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=in_bounds
    )
    assert (result.returncode, result.stdout) == (0, "searched\n"), result.stderr[-500:]
