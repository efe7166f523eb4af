"""The other process of a quick audit: options as JSON from stdin, a record on disk; nothing is drawn."""

from __future__ import annotations

import sys

from audit import record as records
from audit.engine.interface import SILENT
from audit.errors import DocauditError
from audit.integrations.quick_audit import OPTIONS
from audit.workflows.folders import claim_folder, protect
from audit.workflows.gate import load_policy
from audit.workflows.options import ScanOptions
from audit.workflows.scan import run_scan
from audit.workflows.setup import open_scan


def write_record(options: ScanOptions, policy: str) -> None:
    """Scan a checkpoint and write its record, last of all.

    Raises:
        DocauditError: the audit could not start, or could not go on.
    """
    declared = load_policy(policy)
    opened = open_scan(options)
    if options.cache is not None:
        # Models trained on the data set, which is why it is as private as what an audit finds.
        options.cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        protect(options.cache.parent)
    with claim_folder(options.out, options.evidence):
        records.write(run_scan(opened, SILENT, policy=declared), options.out / "record.json")


def main() -> int:
    """Return 0 where a record was written, else the exit code of the error, whose lines go to stderr."""
    try:
        write_record(OPTIONS.validate_json(sys.stdin.buffer.read()), sys.argv[1])
    except DocauditError as error:
        sys.stderr.write("\n".join(error.lines) + "\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
