"""The demonstration: a scan of the sample that comes with docaudit."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import tomli_w

from audit import __version__
from audit.errors import EngineError, UsageError
from audit.files import shipped_folder, write_atomically
from audit.record import AuditRecord, read
from audit.report.files import HTML_NAME, PDF_NAME
from audit.report.leaks import leaks
from audit.targets.opening import use_threads
from audit.workflows.options import ScanOptions
from audit.workflows.setup import ScanSetup, open_scan

DOCUMENTS = 144
"""Documents that are tried (ours: as few as decide every limit that the sample can decide)."""
SAMPLE = "sample"
"""The folder of the sample's model and data, in the folder of the reports."""
MODEL = "leaky-model"
"""The folder of the model there, by which the report names it."""
NAME = "receipts-demo"
"""The name of its data set, by which a record tells that it is of the demonstration."""
REPORTS = (PDF_NAME, HTML_NAME)
"""What a demonstration that is done has drawn."""
_REFERENCE = "references/public-mlm"


def find_demo(out: Path) -> AuditRecord | None:
    """Read the record of a demonstration that this version finished; None where it is to be begun, or to go on.

    Raises:
        UsageError: the folder holds something else.
        EngineError: it is no folder.
    """
    try:
        held = {path.name for path in out.iterdir()} if out.exists() else set()
    except OSError as error:
        raise EngineError(f"{out}: {error.strerror or error}", "choose another --out") from None
    if not held:
        return None
    record = read(out) if "record.json" in held else None
    if not (out / SAMPLE / MODEL).is_dir() or (record is not None and record.corpus.name != NAME):
        raise UsageError(
            f"--out {out}: holds something else than a demo", "name a folder that is empty or not there yet"
        )
    if record is None or record.environment.docaudit != __version__ or not held.issuperset(REPORTS):
        return None
    return record


def open_demo(out: Path, documents: int = DOCUMENTS, only: tuple[str, ...] = ()) -> ScanSetup:
    """Copy the sample into the folder of the reports, and open a scan of it on the CPU.

    Args:
        out: the folder of the reports.
        documents: that are tried.
        only: the attacks to run; all when empty.

    Raises:
        DocauditError: the folder cannot be written.
    """
    copied = out / SAMPLE
    try:
        copy_sample(copied)
    except OSError as error:
        raise EngineError(f"{out}: {error.strerror or error}", "choose another --out") from None
    # The model is so small that a second thread only waits, for minutes where the machine is busy.
    use_threads(1)
    return open_scan(
        ScanOptions(
            model_dir=copied / MODEL,
            data_dir=copied / "data",
            out=out,
            budget="quick",
            documents=documents,
            only=only,
            device="cpu",
        )
    )


def copy_sample(destination: Path) -> None:
    """Write model and data of the sample: the receipts without their pictures, which this model does not see.

    Raises:
        OSError: a file cannot be written.
    """
    for name, content in _files():
        path = destination / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def _files() -> Iterator[tuple[str, bytes]]:
    source = shipped_folder("sample_models") / "receipts"
    for name, there in (("model", MODEL), (f"data/{_REFERENCE}", f"data/{_REFERENCE}")):
        for path in sorted((source / name).iterdir()):
            yield f"{there}/{path.name}", path.read_bytes()
    rows = map(json.loads, (source / "data" / "documents.jsonl").read_text(encoding="utf-8").splitlines())
    pages = ({key: value for key, value in row.items() if key != "image"} for row in rows)
    yield "data/documents.jsonl", "".join(json.dumps(page, ensure_ascii=False) + "\n" for page in pages).encode()
    manifest = tomllib.loads((source / "data" / "manifest.toml").read_text(encoding="utf-8"))
    manifest |= {"name": NAME, "references": {"auxiliary": _REFERENCE}}
    yield "data/manifest.toml", tomli_w.dumps(manifest).encode()


def describe(record: AuditRecord) -> Iterator[str]:
    """Say what was done, and in a line for each attack the worst that it found."""
    ran = [*record.completed]
    yield (
        f"A small LayoutLM, trained on {record.corpus.documents['member']} made-up receipts until it knew them by "
        f"heart, was attacked as by somebody who has the model and wants the receipts: {len(ran)} attacks took"
        f" {record.timing.seconds:.0f} s on this machine alone."
    )
    worst: dict[str, str] = {}
    for leak in leaks(record):
        worst.setdefault(leak.attack, leak.sentence)
    for attack in ran:
        yield f"{attack}: {worst.get(attack, 'no leak shown')}"
