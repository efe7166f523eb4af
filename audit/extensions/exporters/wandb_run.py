"""Write an audit as a run of Weights & Biases, or of Trackio, which has the same interface."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from audit.report.exporting import TrackedAudit, check_options, load_tool, need_network


def export_to_wandb(audit: TrackedAudit, options: Mapping[str, str], *, network: bool) -> str:
    """Log numbers, outcomes, digests and files as a run of Weights & Biases.

    Without the network the run is written into the folder `wandb`, for `wandb sync`.

    Args:
        audit: what Weights & Biases gets.
        options: "project", by default docaudit; "entity", the team.
        network: whether the run may be sent to the server.

    Raises:
        UsageError: an option is unknown, or wandb is not installed.
    """
    check_options("wandb", options, ("project", "entity"))
    wandb = load_tool("wandb", "wandb", "wandb")
    mode = "offline"
    if network:
        mode = "online"
    # Without these the run would hold the name of the machine, the command and what it printed.
    settings = wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        silent=True,
        x_disable_meta=True,
        x_save_requirements=False,
    )
    run = wandb.init(
        project=options.get("project", "docaudit"),
        entity=options.get("entity"),
        name=audit.name,
        notes=audit.note,
        config=audit.parameters,
        mode=mode,
        settings=settings,
    )
    _log_into(run, audit)
    artifact = wandb.Artifact("docaudit", type="audit")
    for path in audit.files:
        artifact.add_file(str(path))
    run.log_artifact(artifact)
    run.finish()
    return f"W&B run {run.id}, {mode}, in {run.dir}"


def export_to_trackio(audit: TrackedAudit, options: Mapping[str, str], *, network: bool) -> str:
    """Log numbers, outcomes and digests as a run of Trackio.

    Args:
        audit: what Trackio gets.
        options: "project", by default docaudit; "space", a Space of the Hub instead of this
            machine.
        network: whether the Space may be used.

    Raises:
        UsageError: an option is unknown, Trackio is not installed, or the Space needs the network.
    """
    check_options("trackio", options, ("project", "space"))
    space = options.get("space")
    if space is not None:
        need_network("trackio", f"the Space {space}", network=network)
    trackio = load_tool("trackio", "trackio", "trackio")
    project = options.get("project", "docaudit")
    # Trackio prints its own messages on standard output.
    with redirect_stdout(io.StringIO()):
        run = trackio.init(
            project=project,
            name=audit.name,
            space_id=space,
            config=audit.parameters,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        _log_into(run, audit)
        trackio.finish()
    return f"Trackio run {run.name} of the project {project}"


def _log_into(run: Any, audit: TrackedAudit) -> None:
    """Log the numbers of an audit into a run, and the outcomes into its settings."""
    outcomes = {f"outcome/{name}": outcome for name, outcome in audit.outcomes.items()}
    run.config.update(outcomes)
    run.log(audit.metrics)
