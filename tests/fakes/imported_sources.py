"""Sources that an import becomes a data set of, or refuses.

Data sets are compared with the texts of tests/corpus/imports. `DOCAUDIT_WRITE_TEXTS=1` rewrites
them.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import docaudit
from hostile_sources import write_files

TEXTS = Path(__file__).parents[1] / "corpus" / "imports"
TESSERACT_WORDS = """\
level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext
1\t1\t0\t0\t0\t0\t0\t0\t600\t200\t-1\t
5\t1\t1\t1\t1\t1\t24\t61\t125\t29\t96.6\tInvoice
5\t1\t1\t1\t1\t2\t161\t59\t76\t31\t95.7\ttotal
5\t1\t1\t1\t1\t3\t249\t60\t74\t30\t95.7\t9.00
"""
"""Words of a page as Tesseract writes them, in a .tsv file."""


@dataclass(frozen=True)
class Source:
    """A source and how it is imported.

    Attributes:
        format: name of the format.
        files: contents by path, as of `write_files`; a size is that of a white image.
        arguments: further arguments of the import.
        path: path of the source.
    """

    format: str
    files: Mapping[str, str]
    arguments: Sequence[str] = ()
    path: str = "src"

    def convert(self) -> tuple[int, str]:
        """Import it as `out` in the current folder.

        Returns:
            The exit code and what is printed.
        """
        shares = ["--member", "1", "--heldout", "0", "--public", "0"]
        command = ["import", self.format, self.path, "out", *shares, *self.arguments]
        result = docaudit(*command, terminal_width=1000)
        return result.exit_code, result.output


def imported(
    name: str,
    format: str,
    files: Mapping[str, str],
    *,
    arguments: Sequence[str] = (),
    source: str = "src",
) -> Any:
    """Return a case of a source that becomes the data set of a text."""
    return pytest.param(name, Source(format, files, arguments, source), id=name)


def refused(
    name: str, format: str, files: Mapping[str, str], *, arguments: Sequence[str] = (), problem: str
) -> Any:
    """Return a case of a source that is refused for a problem."""
    return pytest.param(Source(format, files, arguments), problem, id=name)


def as_json(value: Any) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def as_lines(*values: Any) -> str:
    """Write values as JSON, each on a line."""
    return "".join(as_json(value) + "\n" for value in values)


def check_import(name: str, source: Source, folder: Path) -> None:
    """Fail unless a source, written into the current folder, becomes the data set of a text."""
    write_files(source.files, folder)
    code, output = source.convert()
    assert code == 0, output
    compare(name)


def check_refusal(source: Source, problem: str, folder: Path) -> None:
    """Fail unless a source, written into the current folder, is refused and leaves nothing."""
    write_files(source.files, folder)
    code, output = source.convert()
    assert code == 2, output
    assert not Path("out").exists()
    assert problem in output


def compare(name: str) -> None:
    """Compare the data set `out` with the text of a case, but for the day of its draw."""
    text = ""
    for file in ("manifest.toml", "documents.jsonl", "import-report.json"):
        text += f"== {file}\n{Path('out', file).read_text(encoding='utf-8')}"
    text = re.sub(r"\d{4}-\d\d-\d\d", "DAY", text)
    path = TEXTS / f"{name}.txt"
    if os.environ.get("DOCAUDIT_WRITE_TEXTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
