"""The two folders of a scan: `--out`, which may be passed on, and the evidence, which its owner alone may read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from audit.engine.journal import exclusive
from audit.errors import EngineError, UsageError
from audit.files import EVIDENCE, check_folder
from audit.report.files import NAMES, TREND_NAMES
from audit.report.revealed import NAME

_IGNORE = ".gitignore"
_EVERYTHING = "*\n"
_REPORTS = (*NAMES, *TREND_NAMES)
_OF_A_SCAN = (".lock", "record.json", "record.previous.json", "*/record.json")


def check_folders(out: Path, evidence: Path | None = None) -> None:
    """Refuse folders that a scan cannot use, before anything is loaded; see `claim_folder`.

    Raises:
        UsageError: a folder takes no files, or holds those of somebody else.
    """
    check_folder("--out", out)
    _refuse_foreign(out)
    if evidence is None:
        _refuse_link(out / EVIDENCE)
    else:
        check_folder("--evidence", evidence)
        _refuse_shared(out, evidence)


def _refuse_foreign(out: Path) -> None:
    """Refuse a folder with files that a scan would replace, and that no scan has written."""
    if any(next(out.glob(name), None) for name in _OF_A_SCAN):
        return
    foreign = [name for name in _REPORTS if (out / name).exists()]
    if foreign:
        raise UsageError(
            f"--out {out}: holds {', '.join(foreign)}, and no record that they would be the report of",
            "name a folder of its own for the scan, or move the files away",
        )


def _refuse_link(evidence: Path) -> None:
    """Refuse a link in place of the folder for evidence: what it leads to would be closed, and take personal text."""
    if evidence.is_symlink():
        raise UsageError(f"{evidence}: is a link to another folder", "name that folder with --evidence")


@contextmanager
def claim_folder(out: Path, evidence: Path | None = None) -> Iterator[None]:
    """Hold `out` for one scan: made when missing, its older record moved aside, its older reports removed.

    Args:
        out: the folder of record and reports.
        evidence: see `hold_evidence`; None: within `out`.

    Raises:
        EngineError: a folder cannot be written, or another scan holds it.
        UsageError: a folder holds files of something else.
    """
    _refuse_foreign(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(f"{out}: {error.strerror or error}", "choose another --out") from None
    with exclusive(out), hold_evidence(out, evidence or out / EVIDENCE) as private:
        _clear(out, private)
        yield


@contextmanager
def hold_evidence(out: Path, evidence: Path) -> Iterator[Path]:
    """Hold a folder that its owner alone can read, and that git leaves out; all its files are private at the end.

    Args:
        out: the folder of what may be passed on, which is held already.
        evidence: made when missing.

    Raises:
        EngineError: it cannot be written, or another scan holds it.
        UsageError: it is no folder for evidence: it holds `out`, or files of something else.
    """
    own = evidence.absolute() == (out / EVIDENCE).absolute()
    try:
        if own:
            _refuse_link(evidence)
        else:
            _refuse_shared(out, evidence)
        evidence.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close(evidence)
    except OSError as error:
        raise EngineError(f"{evidence}: {error.strerror or error}", _elsewhere(own)) from None
    with ExitStack() as held:
        if not own:
            held.enter_context(exclusive(evidence))
        try:
            yield evidence
        finally:
            make_private(evidence)


def protect(evidence: Path) -> None:
    """Close a folder of evidence, whatever wrote it, to everybody but its owner, and to git.

    Raises:
        EngineError: it is not there, or it cannot be written.
    """
    try:
        _close(evidence)
    except OSError as error:
        raise EngineError(f"{evidence}: {error.strerror or error}") from None
    make_private(evidence)


def _close(evidence: Path) -> None:
    evidence.chmod(0o700)
    if not (evidence / _IGNORE).exists():
        (evidence / _IGNORE).write_text(_EVERYTHING, encoding="utf-8")


def _elsewhere(own: bool) -> str:
    return "choose another --out" if own else "choose another --evidence"


def _refuse_shared(out: Path, evidence: Path) -> None:
    """Refuse a folder whose other files would become private, and would be left out by git."""
    place = evidence.resolve()
    if place == out.resolve() or place in out.resolve().parents:
        raise UsageError(
            f"--evidence {evidence}: holds --out, which may be passed on", "name a folder of its own for the evidence"
        )
    if evidence.is_dir() and any(evidence.iterdir()) and not _is_evidence(evidence):
        raise UsageError(
            f"--evidence {evidence}: holds files of something else", "name a folder that is empty or not there yet"
        )


def _is_evidence(folder: Path) -> bool:
    ignore = folder / _IGNORE
    return ignore.is_file() and ignore.read_bytes() == _EVERYTHING.encode()


def make_private(folder: Path) -> None:
    """Take everything in a folder away from everybody but its owner."""
    for place, folders, files in os.walk(folder):
        for name, mode in (*((name, 0o700) for name in folders), *((name, 0o600) for name in files)):
            path = Path(place, name)
            # A file that goes meanwhile gives nothing away; the folder itself is closed in any case.
            with suppress(OSError):
                if not path.is_symlink():
                    path.chmod(mode)


def _clear(out: Path, evidence: Path) -> None:
    """Move an older record aside and remove what was drawn from it, so that nothing shows another scan's verdict."""
    try:
        if (out / "record.json").exists():
            os.replace(out / "record.json", out / "record.previous.json")
        for path in [*(out / name for name in _REPORTS), evidence / NAME, *evidence.glob("failure-*.txt")]:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise EngineError(f"{out}: {error.strerror or error}", "choose another --out") from None
