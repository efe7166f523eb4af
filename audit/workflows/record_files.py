"""The records in a folder and in all folders below it, found and read within fixed bounds.

Links are not followed, and folders of evidence are not opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from audit.errors import DocauditError, RecordError, UsageError, printable
from audit.files import EVIDENCE
from audit.record import AuditRecord, loads
from audit.report.view.audits import LeftOut

RECORD = "record.json"
MOST_RECORDS = 300
"""Records that are read, the newest first (chosen here): a page of them opens in a second."""
MOST_ENTRIES = 100_000
"""Files and folders that are looked at (chosen here)."""
DEEPEST = 12
"""Folders below the first one (chosen here)."""
MOST_BYTES = 16 << 20
"""Bytes of a record that is read (chosen here): about 50 times an ordinary one."""
MOST_LISTED = 200
"""Reasons that are listed one by one (chosen here); further ones are counted."""
MOST_PROBLEMS = 2
"""Problems of a record that its reason states (chosen here)."""
LONGEST_REASON = 300
"""Letters of a reason (chosen here)."""


@dataclass(frozen=True)
class RecordFile:
    """The file of a record.

    Attributes:
        name: path of its folder within the folder that is searched; "." for that folder itself.
        path: path of the file.
        changed: when it was last changed, in nanoseconds.
        size: its bytes.
    """

    name: str
    path: Path
    changed: int
    size: int


@dataclass
class FolderSearch:
    """What a search through a folder has found.

    Attributes:
        folder: the folder that is searched.
        files: records, the newest first once the search has ended.
        left_out: what was left out, and why.
        n_more: further files that were left out and are not listed.
    """

    folder: Path
    files: list[RecordFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    n_more: int = 0
    _entries: int = 0

    def leave_out(self, name: str, reason: str) -> None:
        """List a file or a folder as left out; count it where the list is full."""
        if len(self.left_out) < MOST_LISTED:
            self.left_out.append(LeftOut(name, printable(reason)[:LONGEST_REASON]))
        else:
            self.n_more += 1

    def run(self) -> None:
        """Search the folder, and keep the newest records."""
        folders = [(self.folder, 0)]
        while folders:
            folder, depth = folders.pop()
            folders += [(below, depth + 1) for below in self._folders_in(folder, depth)]
            if self._entries > MOST_ENTRIES:
                self.leave_out(".", f"only the first {MOST_ENTRIES:,} files were looked at")
                break
        self.files.sort(key=lambda file: (-file.changed, file.name))
        for file in self.files[MOST_RECORDS:]:
            self.leave_out(file.name, f"older than the newest {MOST_RECORDS} records")
        del self.files[MOST_RECORDS:]

    def _entries_of(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        """Yield what is in a folder, by name, until enough was looked at."""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > MOST_ENTRIES:
                        return
                    yield entry
        except OSError as error:
            self.leave_out(self._name_of(folder), error.strerror or "cannot be read")

    def _folders_in(self, folder: Path, depth: int) -> Iterator[Path]:
        """Yield the folders in a folder that are searched too, and note its record."""
        for entry in self._entries_of(folder):
            path = Path(entry.path)
            try:
                is_folder = self._is_folder(entry)
            except OSError as error:
                self.leave_out(self._name_of(path), error.strerror or "cannot be read")
                continue
            if not is_folder or entry.name == EVIDENCE or entry.name.startswith("."):
                continue
            if depth < DEEPEST:
                yield path
            else:
                self.leave_out(self._name_of(path), f"more than {DEEPEST} folders deep")

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        """Test whether an entry is a folder and no link; note a record, and links left out."""
        path = Path(entry.path)
        is_record = entry.name == RECORD
        if entry.is_symlink():
            if is_record or entry.is_dir():
                self.leave_out(self._name_of(path), "a link, which is not followed")
            return False
        if is_record:
            self._note_record(path)
            return False
        return entry.is_dir(follow_symlinks=False)

    def _note_record(self, path: Path) -> None:
        """Note the file of a record, or why it is none that can be read."""
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            self.leave_out(self._name_of(path), "not a regular file")
        elif state.st_size > MOST_BYTES:
            self.leave_out(self._name_of(path), f"larger than {MOST_BYTES >> 20} MiB")
        else:
            name = self._name_of(path.parent)
            self.files.append(RecordFile(name, path, state.st_mtime_ns, state.st_size))

    def _name_of(self, path: Path) -> str:
        """Return a path within the searched folder, in characters that can be seen."""
        return printable(path.relative_to(self.folder).as_posix())


def search(folder: Path) -> FolderSearch:
    """Find the records in a folder and below it.

    Raises:
        UsageError: there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder", "name a folder that holds scans")
    found = FolderSearch(folder)
    found.run()
    return found


def read(file: RecordFile) -> AuditRecord:
    """Read the record of a file that was found.

    Raises:
        RecordError: it cannot be read, or is no record of this version.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(os.open(file.path, flags), "rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise RecordError(error.strerror or "cannot be read") from None
    if len(content) > MOST_BYTES:
        raise RecordError(f"larger than {MOST_BYTES >> 20} MiB")
    return loads(content, RECORD)


def reason_of(error: DocauditError) -> str:
    """Say in one line why a record cannot be read, with the command that mends it."""
    problems = list(error.problems[:MOST_PROBLEMS])
    n_more = len(error.problems) - len(problems)
    if n_more:
        problems.append(f"{n_more} more problems")
    return "; ".join(filter(None, ["; ".join(problems), error.hint]))
