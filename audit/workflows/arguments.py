"""Arguments of a scan, which its evidence keeps for the commands that go on from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from audit import record as records
from audit.errors import RecordError
from audit.files import EVIDENCE, read_file
from audit.record import AuditRecord
from audit.report.revealed import OWNER
from audit.workflows.options import ScanOptions

KEY = "arguments"
"""The name of the arguments in the file that says whose the evidence is."""
_OPTIONS: TypeAdapter[ScanOptions] = TypeAdapter(ScanOptions)


def arguments_of(options: ScanOptions) -> dict[str, Any]:
    """Return the options of a scan as JSON holds them, with absolute paths."""
    references = {}
    for name, folders in options.references.items():
        references[name] = tuple(_absolute(folder) for folder in folders)
    evidence = options.evidence_dir
    absolute = replace(
        options,
        model_dir=_absolute(options.model_dir),
        data_dir=_absolute(options.data_dir),
        out=_absolute(options.out),
        references=references,
        cache=_absolute_or_none(options.cache),
        attack_parameters=_absolute_or_none(options.attack_parameters),
        evidence_dir=_absolute_or_none(evidence),
        forgotten=_absolute_or_none(options.forgotten),
    )
    written: dict[str, Any] = _OPTIONS.dump_python(absolute, mode="json")
    return written


def read_arguments(folder: Path, record: AuditRecord, evidence: Path | None = None) -> ScanOptions:
    """Read the options of a scan from its evidence.

    Args:
        folder: folder of the scan, or its record.
        record: the scan's record, whose evidence it must be.
        evidence: folder of the evidence; None: beside the record.

    Raises:
        RecordError: the evidence is missing, of another scan, or of an older version.
    """
    place = evidence or records.file_of(folder).parent / EVIDENCE
    path = place / OWNER
    hint = "scan again, or name the folder of the scan's evidence: --evidence FOLDER"
    try:
        stored: Mapping[str, Any] = json.loads(read_file(path))
        same_model = stored["model"] == record.target.sha256
        same_data = stored["data"] == record.corpus.sha256
        arguments = stored[KEY]
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or 'cannot be read'}", hint) from None
    except (ValueError, LookupError, TypeError):
        raise RecordError(f"{path}: does not say how the scan was called", hint) from None
    if not (same_model and same_data):
        raise RecordError(f"{place}: the evidence of another scan than {folder}", hint)
    try:
        return _OPTIONS.validate_python(arguments)
    except ValidationError:
        raise RecordError(f"{path}: does not say how the scan was called", hint) from None


def _absolute(path: Path) -> Path:
    """Return an absolute path; addresses of servers and the empty path stay as they are."""
    if path == Path() or str(path).startswith(("http:/", "https:/")):
        return path
    return path.absolute()


def _absolute_or_none(path: Path | None) -> Path | None:
    """Return an absolute path; None for None."""
    return None if path is None else _absolute(path)
