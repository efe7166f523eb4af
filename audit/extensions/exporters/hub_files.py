"""Write the files of an audit for a model's repository on the Hugging Face Hub.

The Hub reads results of evaluations from `.eval_results/*.yaml`; its page "Evaluation results" has
the format. A section for the model card lies beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from audit.errors import UsageError
from audit.files import check_folder, write_atomically
from audit.policy import Decision
from audit.report.exporting import TrackedAudit, check_options
from audit.report.markdown import CARD_NAME, model_card
from audit.report.verdicts import bound

NAME = "hub"
OPTIONS = ("dataset", "out")
RESULTS = Path(".eval_results", "docaudit.yaml")
OUT = "docaudit-hub"


def export(audit: TrackedAudit, options: Mapping[str, str], *, network: bool) -> str:
    """Write the results and the section of the model card into a folder.

    Args:
        audit: what the files hold.
        options: "dataset", the data set of the Hub that the model was audited with; "out", the
            folder, by default docaudit-hub.
        network: unused: the files stay on this machine until somebody uploads them.

    Raises:
        UsageError: an option is unknown, "dataset" is missing, or no model was audited.
    """
    check_options(NAME, options, OPTIONS)
    dataset = options.get("dataset", "")
    if dataset.count("/") != 1:
        raise UsageError(
            f"--to {NAME}: a result of the Hub names the data set that it is of",
            f"write --to {NAME}:dataset=ORG/NAME",
        )
    folder = Path(options.get("out", OUT))
    check_folder("out", folder)
    card = model_card(audit.judged.record, audit.judged.verdict)
    texts = {RESULTS: "".join(_results(audit, dataset)), Path(CARD_NAME): card}
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    return f"Upload {folder / RESULTS}, and paste {folder / CARD_NAME} into README.md of the model"


def _results(audit: TrackedAudit, dataset: str) -> Iterator[str]:
    """Yield an entry of YAML for each limited number; a text in quotes of JSON is one of YAML."""
    day = audit.judged.record.timing.finished[:10]
    for decision in audit.decisions:
        measured = decision.measured
        assert measured is not None
        limit = decision.limit
        yield "- dataset:\n"
        yield f"    id: {json.dumps(dataset)}\n"
        yield f"    task_id: {json.dumps(f'{limit.attack}.{limit.metric}')}\n"
        yield f"  value: {json.dumps(measured.value)}\n"
        yield f"  date: {json.dumps(day)}\n"
        yield f"  notes: {json.dumps(_note(decision, audit.judged.verdict.policy))}\n"


def _note(decision: Decision, policy: str) -> str:
    """Write interval, limit and outcome of a number."""
    measured = decision.measured
    assert measured is not None
    interval = f"{measured.low:.4g} to {measured.high:.4g}"
    if measured.open_above:
        interval = f"at least {measured.low:.4g}"
    level = f"{100 * measured.level:g} % interval {interval}, n = {measured.n} {measured.unit}"
    return f"{level}; limit {bound(decision.limit)} (policy {policy}): {decision.word}"
