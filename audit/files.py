"""Read and write files safely: size caps, atomic writes, private folders, and the folders that docaudit ships."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from audit.errors import EngineError, UsageError

if sys.platform != "win32":
    import fcntl

_FULL = (errno.ENOSPC, errno.EDQUOT)
NO_FILES = "no file can be written there"
SCAN_OUT = "docaudit-report"
"""The folder of a scan whose command line names none."""
FORGET_OUT = "docaudit-forget"
"""The same of a forget-check."""
EXPORT_OUT = "docaudit-export"
"""The same of a scan of an export of an audited model."""
FIX_OUT = "docaudit-fix"
"""The same of the countermeasures that are tried."""
DEFENCE_OUT = "docaudit-defence"
"""The same of the countermeasures that are measured."""
EVIDENCE = "evidence"
"""The folder, in that of a scan, of what its owner alone may read."""
RECOVERED = "recovered.jsonl"
"""The file in it of what attacks recovered, a line each."""
OWNING_SCAN = "scan.json"
"""The file of this folder that says which scan it is of, and how that was called."""
_LARGEST_OTHER = 2048
_LARGEST = {
    ".toml": 16,
    ".xml": 64,
    ".hocr": 64,
    ".html": 64,
    ".tsv": 64,
    ".txt": 64,
    ".jsonl": 4096,
}
"""MiB of a file that is read at once, by its ending: settings, the words of a page, records of a
data set."""
Fetch = Callable[[Path, Sequence[str]], Path]
"""Has files of a folder of the driver, by their paths within it, at hand where a worker runs;
returns their folder."""


def read_file(path: Path) -> bytes:
    """Read a file that `refuse_boundless` lets through.

    Raises:
        OSError: it does not, or the file cannot be read.
    """
    refuse_boundless(path)
    return path.read_bytes()


def refuse_boundless(path: Path) -> None:
    """Refuse a pipe or device, and a file larger than `_LARGEST`, before it is opened.

    A pipe or device may never end.

    Raises:
        OSError: it is one, or nothing is there.
    """
    state = path.stat()
    if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
        raise OSError(errno.EINVAL, "not a regular file")
    most = _LARGEST.get(path.suffix.lower(), _LARGEST_OTHER)
    if state.st_size > most << 20:
        raise OSError(errno.EFBIG, f"larger than {most} MiB, the most that is read of such a file")


def encoding_of(beginning: bytes) -> str:
    """Return the encoding of a text file, by the mark or the zero bytes that it begins with.

    Editors and PowerShell on Windows write UTF-16. Without a mark or such bytes it is UTF-8.

    Args:
        beginning: its first four bytes, or more.
    """
    return json.detect_encoding(beginning)


def decode_text(content: bytes) -> str:
    """Return the text of a file in the encoding that its beginning says (`encoding_of`).

    Raises:
        UnicodeDecodeError: the file is not in this encoding.
    """
    return content.decode(encoding_of(content))


def read_toml(content: bytes) -> dict[str, Any]:
    """Read TOML.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
        ValueError: it is not TOML, or nested too deeply.
    """
    try:
        return tomllib.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def table_beside(module: str, name: str) -> dict[str, Any]:
    """Read a TOML file of the package that lies beside a module (its `__file__`)."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write `content` to a neighbour of `path`, and rename it there once it is on the disk.

    Its file mode is `mode`, less what the user's umask takes away.

    What a killed process left of an earlier attempt goes.

    Raises:
        EngineError: the disk is full or the folder cannot be written; nothing is left behind.
    """
    beginning = f".{path.name}."
    end = ".tmp"
    temporary = None
    try:
        remove_abandoned(path.parent.glob(f"{glob.escape(beginning)}*{end}"))
        handle, name = tempfile.mkstemp(prefix=beginning, suffix=end, dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream, mark_underway(temporary):
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            os.chmod(temporary, mode & ~_umask())
            os.replace(temporary, path)
    except OSError as error:
        raise _write_error(path, error) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    """Read the user's umask, which is possible only by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def write_output(path: Path, content: bytes) -> None:
    """Write a file that was asked for, and make its folder where that is missing.

    Raises:
        EngineError: it cannot be written; see `check_file`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _write_error(path, error) from None
    write_atomically(path, content)


def _write_error(path: Path, error: OSError) -> EngineError:
    """Return the error for a file that could not be written, with what mends it."""
    mend = "free some space" if error.errno in _FULL else "choose a place that you can write to"
    return EngineError(f"{path}: {error.strerror}", mend)


def check_file(option: str, path: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed for it.

    Its folder is not made yet.

    Raises:
        UsageError: it is a folder, or lies where nothing can be written.
    """
    if path.is_dir():
        empty = ", or its name is empty" if path == Path() else ""
        raise UsageError(f"{option} {path}: is a folder{empty}", "name a file")
    if not takes_files(path.parent):
        raise UsageError(
            f"{option} {path}: {NO_FILES}", "name a file in a folder that you can write into"
        )


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that can take no files, before anything is computed for it.

    It is not made yet.

    Raises:
        UsageError: it is no folder, or nothing can be written into it.
    """
    if not takes_files(folder):
        raise UsageError(f"{option} {folder}: {NO_FILES}", "name a folder that you can write into")


def takes_files(folder: Path) -> bool:
    """Test whether files can be written into a folder, or into one that would be made there."""
    there = next(
        (parent for parent in (folder, *folder.absolute().parents) if parent.exists()), folder
    )
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def digest_of_files(digests: Mapping[str, str], base: str | None = None) -> str:
    """Compute the sha256 of a checkpoint, over the names and the sha256 of its files.

    Args:
        digests: the sha256 of each file, by its name, in the order in which they count.
        base: the same of the model that an adapter was trained on.
    """
    whole = hashlib.sha256()
    for name, digest in digests.items():
        whole.update(name.encode() + b"\0" + bytes.fromhex(digest))
    if base is not None:
        whole.update(base.encode())
    return whole.hexdigest()


_SNAPSHOT = re.compile(r"/(?:models--|(?=datasets--))([\w.-]+)/snapshots/([0-9a-f]{40})(?:/|$)")


def hub_revision(folder: Path) -> str | None:
    """Name the commit of the Hub whose snapshot holds a folder, as ORG/MODEL@COMMIT.

    None for any other folder.
    """
    match = _SNAPSHOT.search(folder.resolve().as_posix())
    return match and f"{match[1].replace('--', '/')}@{match[2]}"


@contextmanager
def mark_underway(path: Path) -> Iterator[None]:
    """Mark a file or folder as being filled by this process, until the context or the process ends.

    Where the file system has no such locks it stays unmarked, and `remove_abandoned` leaves it
    alone.
    """
    handle = try_lock(path)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def remove_abandoned(paths: Iterable[Path]) -> None:
    """Remove those of these files and folders that no process is filling.

    One that was killed left them.
    """
    for path in paths:
        handle = try_lock(path)
        if handle is None:
            continue
        try:
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def try_lock(path: Path) -> int | None:
    """Open a handle that holds a file's or folder's lock.

    None where another has it, or where there are none.
    """
    if sys.platform == "win32":
        return None
    try:
        # Never the target of a link, and no wait for the other end of a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


# Waits until its standard input ends, which it does with the process at the other end, however that
# one ends; then removes the folder, patiently, as others may still write there. Forks first: Ray
# kills the children of its workers.
_REMOVES = """
import os, shutil, sys, time
if os.fork():
    os._exit(0)
sys.stdin.read()
for _ in range(50):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.2)
"""


class PrivateFolder:
    """A new folder of mode 0700, removed on leaving the context, or when this process ends in any way.

    Args:
        within: folder that it goes into; None: the system's folder for temporary files.

    Attributes:
        path: where it is.
    """

    def __init__(self, within: Path | None = None) -> None:
        """Make a private temporary folder, and a process that removes it if this one dies.

        Args:
            within: the folder to make it in; None takes the system's folder for temporary files.
        """
        self.path = Path(tempfile.mkdtemp(prefix="docaudit-", dir=within))
        try:
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _REMOVES, str(self.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._watcher.wait()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def __enter__(self) -> Path:
        """Return the path of the folder."""
        return self.path

    def __exit__(self, *_: object) -> None:
        """Remove the folder."""
        self.remove()

    def remove(self) -> None:
        """Remove the folder now; it may have been removed before."""
        shutil.rmtree(self.path, ignore_errors=True)
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()


_PACKAGE = Path(__file__).resolve().parent


def shipped_folder(name: str) -> Path:
    """Find the folder of shipped files called `name` ("templates", "policies" or "sample_models").

    Raises:
        FileNotFoundError: the installation lacks it.
    """
    for path in (_PACKAGE / name, _PACKAGE.parent / name):
        if path.is_dir():
            return path
    raise FileNotFoundError(
        f"docaudit's {name}/ folder is missing from this installation: install it again"
    )
