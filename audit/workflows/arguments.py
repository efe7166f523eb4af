"""Arguments of a scan, which its evidence keeps for the commands that go on from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from audit import record as records
from audit.errors import RecordError, is_address
from audit.files import EVIDENCE, OWNING_SCAN, read_file
from audit.record import AuditRecord
from audit.report.commands import Called
from audit.workflows.options import ScanOptions

KEY = "arguments"
"""The name of the arguments in the file that says whose the evidence is."""
HINT = "scan again, or name the folder of the scan's evidence: --evidence FOLDER"
_OPTIONS: TypeAdapter[ScanOptions] = TypeAdapter(ScanOptions)


def arguments_of(options: ScanOptions) -> dict[str, Any]:
    """Return the options of a scan as JSON holds them, with absolute paths.

    Commands that go on from the scan of an export are about the export alone.
    """
    alone = replace(options, derived_from=None)
    written: dict[str, Any] = _OPTIONS.dump_python(_with_paths(alone, _absolute), mode="json")
    return written


def read_arguments(folder: Path, record: AuditRecord, evidence: Path | None = None) -> ScanOptions:
    """Read the options of a scan from its evidence.

    Paths below the working folder are relative, so that commands show them as somebody types them.

    Args:
        folder: folder of the scan, or its record.
        record: the scan's record, whose evidence it must be.
        evidence: folder of the evidence; None: beside the record.

    Raises:
        RecordError: the evidence is missing, of another scan, or of an older version.
    """
    stored = _read_owner(folder, record, evidence)
    try:
        options = _OPTIONS.validate_python(stored[KEY])
    except (ValidationError, LookupError):
        raise _untold(_evidence_of(folder, evidence)) from None
    return _with_paths(options, _relative)


def called_by(folder: Path, record: AuditRecord, evidence: Path | None = None) -> Called:
    """Return how a scan was called, as far as its evidence says it.

    Args:
        folder: folder of the scan, or its record.
        record: record of the scan.
        evidence: folder of the evidence; None: beside the record.
    """
    place = str(records.file_of(folder).parent)
    try:
        stored = _read_owner(folder, record, evidence)
    except RecordError:
        return Called({"SCAN_DIR": place})
    paths = _paths_in(stored)
    places = {name: path for name, path in paths.items() if Path(path).is_dir()}
    called = Called()
    with suppress(ValidationError, LookupError):
        called = _OPTIONS.validate_python(stored[KEY]).called()
    return replace(called, places={**called.places, **places, "SCAN_DIR": place})


def places_beside(folder: Path, evidence: Path | None = None) -> Mapping[str, str]:
    """Return where model and data of a scan lie, although its record cannot be read.

    Args:
        folder: folder of the scan, or its record.
        evidence: folder of the evidence; None: beside the record.
    """
    try:
        stored = json.loads(read_file(_evidence_of(folder, evidence)))
    except (OSError, ValueError):
        return {}
    if not isinstance(stored, Mapping):
        return {}
    return _paths_in(stored)


def _paths_in(stored: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the folders of model and data as the evidence names them; none where it is broken."""
    paths = stored.get("paths")
    if not isinstance(paths, Mapping):
        return {}
    return paths


def _evidence_of(folder: Path, evidence: Path | None) -> Path:
    """Return the file that says whose the evidence is."""
    place = evidence or records.file_of(folder).parent / EVIDENCE
    return place / OWNING_SCAN


def _untold(path: Path) -> RecordError:
    """Return the error that a file does not say how its scan was called."""
    return RecordError(f"{path}: does not say how the scan was called", HINT)


def _read_owner(folder: Path, record: AuditRecord, evidence: Path | None) -> Mapping[str, Any]:
    """Read what the evidence of a scan says of it.

    Raises:
        RecordError: the evidence is missing, broken, or of another scan.
    """
    path = _evidence_of(folder, evidence)
    try:
        stored: Mapping[str, Any] = json.loads(read_file(path))
        same_model = stored["model"] == record.target.sha256
        same_data = stored["data"] == record.corpus.sha256
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or 'cannot be read'}", HINT) from None
    except (ValueError, LookupError, TypeError):
        raise _untold(path) from None
    if not (same_model and same_data):
        raise RecordError(f"{path.parent}: the evidence of another scan than {folder}", HINT)
    return stored


def _with_paths(options: ScanOptions, change: Callable[[Path], Path]) -> ScanOptions:
    """Return options with each of their paths changed."""
    references = {}
    for name, folders in options.references.items():
        references[name] = tuple(change(folder) for folder in folders)

    def change_any(path: Path | None) -> Path | None:
        return None if path is None else change(path)

    return replace(
        options,
        model_dir=change(options.model_dir),
        data_dir=change(options.data_dir),
        out=change(options.out),
        references=references,
        cache=change_any(options.cache),
        attack_parameters=change_any(options.attack_parameters),
        evidence_dir=change_any(options.evidence_dir),
        start=change_any(options.start),
        forgotten=change_any(options.forgotten),
    )


def _absolute(path: Path) -> Path:
    """Return an absolute path; addresses of servers and the empty path stay as they are."""
    if path == Path() or is_address(path):
        return path
    return path.absolute()


def _relative(path: Path) -> Path:
    """Return a path below the working folder relative to it; other paths stay as they are."""
    here = Path.cwd()
    if path == here or not path.is_relative_to(here):
        return path
    return path.relative_to(here)
