"""One case of the matrix: inspect, plan and a quick scan, or the sentence that refuses the model."""

from pathlib import Path
from typing import Any

import matrix_data
from matrix_cases import Case

from audit.corpus.manifest import load
from audit.engine.interface import SILENT
from audit.errors import DocauditError, ManifestError, TargetError
from audit.record import AuditRecord, Result
from audit.workflows.options import ScanOptions, claim_folder
from audit.workflows.planning import plan_audit
from audit.workflows.references import inspect_model
from audit.workflows.run import run_scan
from audit.workflows.session import open_session

UNITS = 2
"""Documents that an attack tries: one of each side."""


def run_case(case: Case, root: Path) -> dict[str, Any]:
    """Write the case's files below a new folder, put the model to all that it is for, and give what came of it."""
    place = root / "data"
    case.data(root / "plain")
    try:
        matrix_data.planted(root / "plain", place)
    except ManifestError:  # a task that has no canaries
        (root / "plain").rename(place)
    labels = load(place).manifest.task.labels
    case.write(root / "model", 0, labels)
    found: dict[str, Any] = {"family": case.family, "task": case.task, "needs": [*case.needs]}
    try:
        trials = inspect_model(root / "model", load(place), place, {}).trials
    except TargetError as error:
        return {**found, "refusal": _sentence(error, root), "attacks": {}}
    assert trials
    references = {}
    for seed, (name, write) in enumerate(case.references.items(), 1):
        write(root / name, seed, labels)
        references[name] = [root / name]
    options = ScanOptions(
        root / "model", place, root / "out", "quick", references=references, documents=UNITS
    )
    (*_, plan) = plan_audit(options, "default")
    assert not isinstance(plan, str)
    assert any(cost.trials for cost in plan.costs)
    record = _scan(options)
    return {
        **found,
        "refusal": None,
        "attacks": {one.attack: _status(one) for one in record.attacks},
    }


def _scan(options: ScanOptions) -> AuditRecord:
    with claim_folder(options.out):
        return run_scan(open_session(options), SILENT)


def _status(result: Result) -> dict[str, str]:
    """An attack's status, with the reason of one that did not run."""
    return {"status": result.status, **({"reason": result.why} if result.why else {})}


def _sentence(error: DocauditError, root: Path) -> str:
    """What a refusal says, without the folders of this run."""
    hint = f"; {error.hint}" if error.hint else ""
    return f"{error}{hint}".replace(f"{root}/", "")
