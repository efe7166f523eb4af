"""Commands that docaudit prints: each writes beside the results of this machine, never over one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from audit.files import DEFENCE_OUT, EXPORT_OUT, FIX_OUT, FORGET_OUT, SCAN_OUT, read_file

OUT_OPTION = "--out"
"""The option that names the folder of a result."""
EVIDENCE_OPTION = "--evidence"
"""The option that names the folder of the evidence."""
FOLDERS = {
    "scan": SCAN_OUT,
    "forget-check": FORGET_OUT,
    "defend": DEFENCE_OUT,
    "fix": FIX_OUT,
}
"""The folder that a command writes into unless it is told another, by its name."""
_EXPORT_OPTION = "--derived-from"
_RESULTS = ("record.json", "*/record.json", "defences.html")
"""Files of a folder that are a result."""
_WORD = r"(?:[^\s'(),;]|[,;](?=\S)|'[^']*')+"
_COMMAND = re.compile(rf"\bdocaudit (?:{'|'.join(FOLDERS)})\b(?: {_WORD})+")
_SENTENCE_END = re.compile(r"(?<=[^\s.])[.:]$")
_NUMBERED = re.compile(r"(?P<name>.+)-(?P<number>\d{1,2})")
_SAME_SCAN = (
    ("target", "sha256"),
    ("corpus", "sha256"),
    ("budget",),
    ("share",),
    ("shares",),
    ("seed",),
)
"""Where a record says what the scan was of."""


def next_folder(folder: str | Path) -> str:
    """Return the first folder of NAME-2, NAME-3 and so on beside a folder that does not exist."""
    path = Path(folder)
    if path.name in ("", ".."):
        # The scan lies in the working folder itself, or above it.
        path = path / SCAN_OUT
    name = path.name
    number = 1
    numbered = _NUMBERED.fullmatch(name)
    if numbered is not None:
        name = numbered["name"]
        number = int(numbered["number"])
    while True:
        number += 1
        following = path.with_name(f"{name}-{number}")
        if not following.exists():
            return str(following)


def with_new_folder(text: str, folder: str) -> str:
    """Name a folder in each scan of a text that names none.

    Args:
        text: text with commands.
        folder: folder that does not exist yet, or a name that a reader puts one in for.
    """

    def change(words: Sequence[str]) -> list[str]:
        """Name the folder behind the words of a scan."""
        if words[1] in ("fix", "defend") or OUT_OPTION in words:
            return [*words]
        return [*words, OUT_OPTION, shlex.quote(folder)]

    return _change_commands(text, change)


def write_beside(text: str) -> str:
    """Name a new folder in each command of a text that would write over a result.

    Only what lies on this machine now counts.
    """
    if "docaudit " not in text:
        return text
    return _change_commands(text, _beside)


def _change_commands(text: str, change: Callable[[Sequence[str]], Sequence[str]]) -> str:
    """Change the words of each command in a text; the end of its sentence stays."""

    def changed(match: re.Match[str]) -> str:
        """Return one command, changed."""
        command = match[0]
        end = ""
        stop = _SENTENCE_END.search(command)
        if stop is not None:
            end = stop[0]
            command = command[: stop.start()]
        words = re.findall(_WORD, command)
        return " ".join(change(words)) + end

    return _COMMAND.sub(changed, text)


def _beside(words: Sequence[str]) -> list[str]:
    """Return the words of a command, with new folders in place of those that hold a result."""
    changed = [*words]
    if "--help" in words:
        return changed
    out = _value_of(OUT_OPTION, words)
    folder = out or FOLDERS[words[1]]
    if not out and _EXPORT_OPTION in words:
        folder = EXPORT_OUT
    if not _would_replace(Path(folder), words):
        return changed
    _set(changed, OUT_OPTION, next_folder(folder))
    evidence = _value_of(EVIDENCE_OPTION, words)
    # `fix` reads the evidence of the scan, and writes none there.
    if evidence and words[1] != "fix":
        _set(changed, EVIDENCE_OPTION, next_folder(evidence))
    return changed


def _value_of(option: str, words: Sequence[str]) -> str:
    """Return what stands behind an option, as the shell reads it; empty without one."""
    if option not in words[:-1]:
        return ""
    return "".join(shlex.split(words[words.index(option) + 1]))


def _set(words: list[str], option: str, value: str) -> None:
    """Give an option of a command this value."""
    if option in words:
        words[words.index(option) + 1] = shlex.quote(value)
    else:
        words += [option, shlex.quote(value)]


def _would_replace(folder: Path, words: Sequence[str]) -> bool:
    """Test whether a command would write over a result in a folder.

    Countermeasures of the same scan join those that were tried, and one of them is confirmed where
    it was tried.
    """
    if not any(next(folder.glob(pattern), None) for pattern in _RESULTS):
        return False
    if words[1] != "fix":
        return True
    scan = Path("".join(shlex.split(words[2])))
    if "--confirm" in words or not scan.exists():
        return False
    # Imported late: it loads pydantic, which most lines on a terminal do without.
    from audit.record import BEFORE

    return _subject(_read_record(scan)) != _subject(_read_record(folder / BEFORE))


def _read_record(folder: Path) -> Any:
    """Read the record of a folder, or a record, as JSON; None where there is none."""
    path = folder
    if folder.is_dir():
        path = folder / "record.json"
    try:
        return json.loads(read_file(path))
    except (OSError, ValueError):
        return None


def _subject(record: Any) -> list[Any]:
    """Return what a scan was of, as far as its record says it."""
    subject = []
    for keys in _SAME_SCAN:
        value = record
        for key in keys:
            if not isinstance(value, dict):
                value = None
                break
            value = value.get(key)
        subject.append(value)
    return subject
