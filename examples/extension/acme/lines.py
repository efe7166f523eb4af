"""An audit as lines of a text file."""

from collections.abc import Mapping
from pathlib import Path

from audit.report.exporting import TrackedAudit, check_options


def write(audit: TrackedAudit, options: Mapping[str, str], *, network: bool) -> str:
    """Write every number."""
    check_options("lines", options, ["file"])
    path = Path(options.get("file", "audit.txt"))
    lines = [f"{name} {number:.3f}" for name, number in audit.metrics.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return f"{len(lines)} numbers in {path}"
