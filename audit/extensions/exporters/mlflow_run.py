"""Write an audit as a run of MLflow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from audit.errors import EngineError
from audit.report.exporting import TrackedAudit, check_options, load_tool, need_network

NAME = "mlflow"
OPTIONS = ("experiment", "uri", "run")
LOCAL = ("", "file", "sqlite")
"""Schemes of tracking servers that are files of this machine."""
NOTE = "mlflow.note.content"
"""The tag that MLflow shows as the description of a run."""
LONGEST_TAG = 5_000
"""Characters that every server of MLflow takes in a tag."""


def export(audit: TrackedAudit, options: Mapping[str, str], *, network: bool) -> str:
    """Log numbers as metrics, digests as parameters, outcomes as tags, and files as artifacts.

    Args:
        audit: what MLflow gets.
        options: "experiment", by default docaudit; "uri" of the tracking server, by default that
            of MLflow; "run", the id of a run that is there already.
        network: whether the server may be another machine.

    Raises:
        UsageError: an option is unknown, MLflow is not installed, or the server needs the network.
        EngineError: MLflow refused the run.
    """
    check_options(NAME, options, OPTIONS)
    # MLflow reports each use to its makers unless it is told not to.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = load_tool(NAME, "mlflow", "mlflow-skinny")
    uri = options.get("uri") or mlflow.get_tracking_uri()
    if urlsplit(uri).scheme not in LOCAL:
        need_network(NAME, uri, network=network)
    try:
        return _log_run(mlflow, audit, options, uri)
    except mlflow.exceptions.MlflowException as error:
        raise EngineError(f"--to {NAME}: {error}", "give another uri=ADDRESS") from error


def _log_run(mlflow: Any, audit: TrackedAudit, options: Mapping[str, str], uri: str) -> str:
    """Write the run, and name it.

    Args:
        mlflow: the module.
        audit: what MLflow gets.
        options: see `export`.
        uri: address of the tracking server.
    """
    client = mlflow.MlflowClient(tracking_uri=uri)
    run_id = options.get("run")
    if run_id is None:
        experiment = _experiment(client, options.get("experiment", "docaudit"))
        run_id = client.create_run(experiment, run_name=audit.name).info.run_id
    for name, value in audit.parameters.items():
        client.log_param(run_id, f"docaudit.{name}", value)
    for name, number in audit.metrics.items():
        client.log_metric(run_id, f"docaudit/{name}", number)
    for name, outcome in audit.outcomes.items():
        client.set_tag(run_id, f"docaudit/{name}", outcome)
    client.set_tag(run_id, NOTE, audit.note[:LONGEST_TAG])
    for path in audit.files:
        client.log_artifact(run_id, str(path), "docaudit")
    if "run" not in options:
        client.set_terminated(run_id)
    return f"MLflow run {run_id} of {uri}"


def _experiment(client: Any, name: str) -> str:
    """Return the id of an experiment, which is made where it is missing."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name))
    return str(experiment.experiment_id)
