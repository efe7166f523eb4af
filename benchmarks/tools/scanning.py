"""Scan a model once, as the command does."""

from __future__ import annotations

import time

from audit import record as records
from audit.cli.console import Reporter
from audit.record import AuditRecord
from audit.workflows.options import claim_folder
from audit.workflows.run import run_scan
from audit.workflows.scan import Labelled
from audit.workflows.session import Session


def scan_once(opened: Session, title: str = "") -> AuditRecord:
    """Run a scan, or read the record that an earlier call left in its folder.

    Args:
        opened: the scan.
        title: name of the model, which its progress shows; empty: none.
    """
    out = opened.options.out
    if not (out / "record.json").exists():
        start = time.monotonic()
        with claim_folder(out), Reporter() as reporter:
            progress = Labelled(reporter, title) if title else reporter
            records.write(run_scan(opened, progress), out / "record.json")
        if title:
            print(f"{title}: audited in {(time.monotonic() - start) / 60:.1f} min", flush=True)
    return records.read(out)
