"""A folder with scans of several models, and with files that no page can show."""

import dataclasses
import os
from pathlib import Path

import example_records as examples

from audit import record as records
from audit.record import AuditRecord

LEAKS = (0.0, 0.1, 0.6)
"""The leak of each checkpoint of the training."""


def saved(folder: Path, record: AuditRecord, finished: str) -> Path:
    """Write a record that a scan finished at this time; return its folder."""
    folder.mkdir(parents=True)
    timing = dataclasses.replace(record.timing, finished=finished)
    records.write(dataclasses.replace(record, timing=timing), folder / "record.json")
    return folder


def training(folder: Path) -> None:
    """Write the scans of three checkpoints of one training."""
    for place, (_, name, record, _) in enumerate(examples.training(*LEAKS)):
        saved(folder / name, record, f"2026-03-0{place + 1}T10:00:00+00:00")


def released(version: int, leak: float) -> AuditRecord:
    """The record of a released model that states no place in its training."""
    record = examples.record(examples.reconstruction(leak, n=400), documents=400)
    digest = f"{version:064x}"
    target = dataclasses.replace(record.target, name=f"release-{version}", sha256=digest)
    return dataclasses.replace(record, target=target)


def releases(folder: Path) -> None:
    """Write the scans of two released models, the later of which leaks less."""
    saved(folder / "v1", released(1, 0.6), "2026-04-01T10:00:00+00:00")
    saved(folder / "v2", released(2, 0.0), "2026-05-01T10:00:00+00:00")


def unshown(folder: Path) -> None:
    """Write what no page can show: broken, old, too large, no file, and links."""
    for name in ("broken", "empty", "old", "large", "pipe", "linked"):
        (folder / name).mkdir(parents=True)
    (folder / "broken" / "record.json").write_text('{"schema_version": 2,')
    (folder / "empty" / "record.json").write_text("")
    old = '{"schema_version": 1, "environment": {"docaudit": "0.5.0"}}'
    (folder / "old" / "record.json").write_text(old)
    with open(folder / "large" / "record.json", "wb") as stream:
        stream.truncate(1 << 30)
    os.mkfifo(folder / "pipe" / "record.json")
    (folder / "linked" / "record.json").symlink_to(folder / "broken" / "record.json")
    (folder / "elsewhere").symlink_to(folder.parent)


def everything(folder: Path) -> Path:
    """Write a training, releases, and what no page can show; return the folder."""
    training(folder / "training")
    releases(folder / "releases")
    unshown(folder / "unshown")
    return folder
