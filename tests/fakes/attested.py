"""A report folder as a scan leaves it, made from an example record, without a scan and without drawing a page."""

import shutil
from dataclasses import replace
from pathlib import Path

import example_records

from audit import record as records
from audit.attacks.battery import BATTERY
from audit.cards import AuditSheet, DeclaredPolicy
from audit.corpus.manifest import load as load_corpus
from audit.files import digest_of_files
from audit.policy import load
from audit.record import AuditRecord, Reason, Result
from audit.targets.checkpoint.content import hash_files

COUNTS = ("values_identified", "documents_identified")
KEPT = (
    "excess_pr.unique",
    "excess_pr.repeated",
    "excess_hamming.unique",
    "planted_detection.unique",
)


def model(folder: Path) -> Path:
    """Files that are hashed and never loaded."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "layoutlm"}')
    (folder / "model.safetensors").write_bytes(bytes(range(256)))
    return folder


def record(model_dir: Path, data_dir: Path) -> AuditRecord:
    """A violated one that says what it was scanned under; few numbers, so that it is read fast."""
    example, _, _ = example_records.one_shot()
    (result,) = (one for one in example.completed.values())
    others = [kind for kind in BATTERY if kind.name != result.attack]
    left_out = [
        Result(
            one.name,
            status="left out",
            reason=Reason("left out", "this attack was not run", "scan without --only"),
        )
        for one in others
    ]
    numbers = tuple(item for item in result.measurements if item.name in KEPT)
    known = {item.name for item in numbers}
    methods = {
        metric: tuple(name for name in names if name in known)
        for metric, names in result.methods.items()
    }
    kept = {metric: names for metric, names in methods.items() if names and metric in known}
    small = replace(result, measurements=numbers, histograms=(), curves=(), methods=kept)
    files = hash_files(model_dir)
    origin = load("default").origin
    assert origin is not None
    return replace(
        example,
        attacks=(small,),
        left_out=tuple(left_out),
        battery=(small.attack, *(item.attack for item in left_out)),
        target=replace(example.target, files=files, sha256=digest_of_files(files)),
        corpus=replace(example.corpus, sha256=load_corpus(data_dir).sha256),
        policy=DeclaredPolicy("default", origin.sha256, origin.shipped, origin.toml),
        audit=AuditSheet(auditor="A. Example"),
    )


def pdf(path: Path, attachments: dict[str, bytes]) -> None:
    """An empty page with these files inside."""
    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.add_blank_page(72, 72)
    for name, content in attachments.items():
        writer.add_attachment(name, content)
    writer.write(path)


def folder(root: Path, tiny_corpus: Path) -> Path:
    """A report folder, with the model and the data set beside it."""
    data = shutil.copytree(tiny_corpus, root / "data")
    out = root / "out"
    out.mkdir()
    written = record(model(root / "model"), data)
    records.write(written, out / "record.json")
    assert written.policy is not None
    inside = {
        "record.json": (out / "record.json").read_bytes(),
        "policy.toml": written.policy.toml.encode(),
    }
    pdf(out / "report.pdf", inside)
    (out / "report.html").write_text("<!doctype html><title>report</title>")
    return out
