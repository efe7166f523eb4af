"""Hand an audit over to the tool that a team looks at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from audit import plugins
from audit.errors import UsageError
from audit.record import file_of
from audit.report.exporting import TrackedAudit
from audit.report.verdicts import Judged
from audit.workflows.gate import gate_record

GROUP: plugins.Group = "docaudit.exporters"


def names() -> tuple[str, ...]:
    """Name the exporters that are installed."""
    return tuple(plugins.entries(GROUP))


def export(path: Path, policy: str, to: str, *, network: bool) -> str:
    """Hand the record of a scan over, with the verdict on it, and say where it is now.

    Args:
        path: path of the record, or of the folder that a scan wrote.
        policy: name of a shipped policy, or path of a file.
        to: name of an exporter, then its options: NAME[:KEY=VALUE,...].
        network: whether the exporter may use the network.

    Raises:
        UsageError: no exporter has this name, or it refuses its options.
        DocauditError: the record or the policy cannot be read.
    """
    name, _, text = to.partition(":")
    exporter: Callable[..., str] | None = plugins.find(GROUP, name)
    if exporter is None:
        raise UsageError(
            f"--to {to}: no exporter is called {name!r}", f"one of {', '.join(names())}"
        )
    pairs = [option.partition("=") for option in text.split(",") if option]
    options = {key: value for key, _, value in pairs}
    record, verdict = gate_record(path, policy, no_model=False)
    identity = verdict.identity
    audit = TrackedAudit(
        judged=Judged(record, verdict),
        folder=file_of(path).parent,
        has_reports=identity is not None and identity.state == "declared",
    )
    return exporter(audit, options, network=network)
