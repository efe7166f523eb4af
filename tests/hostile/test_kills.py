"""Whatever trains, scans or writes is killed at drawn moments, and goes on to what it would have been.

Pull requests kill a few commands; `pytest tests/hostile/test_kills.py -m night` kills all of them
with every signal. DOCAUDIT_KILLS_SEED in the environment draws other moments.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from killed_workflows import WORKFLOWS, Workflow
from killing import SIGNALS, Killing

pytestmark = pytest.mark.slow
SEED = int(os.environ.get("DOCAUDIT_KILLS_SEED", "0"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Workflow], Path]:
    root = tmp_path_factory.mktemp("worlds")

    def make(workflow: Workflow) -> Path:
        folder = root / workflow.world.__name__
        if not folder.exists():
            folder.mkdir()
            workflow.world(folder)
        return folder

    return make


def kill(workflow: Workflow, world: Path, place: Path, count: int) -> list[str]:
    if workflow.needs is not None and shutil.which(workflow.needs) is None:
        pytest.skip(f"needs {workflow.needs}")
    killing = Killing(workflow, world, place)
    # Another signal, and another kind of moment, is the first of each workflow.
    first = WORKFLOWS.index(workflow)
    return [failure for number in range(count) for failure in killing.kill(first + number, SEED)]


@pytest.mark.parametrize(
    "workflow", [one for one in WORKFLOWS if one.gate], ids=lambda one: one.name
)
def test_a_killed_command_goes_on_as_if_nothing_had_happened(workflow, world, tmp_path):
    assert kill(workflow, world(workflow), tmp_path, 2) == []


@pytest.mark.night
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_every_workflow_goes_on_after_every_signal(workflow, world, tmp_path):
    assert kill(workflow, world(workflow), tmp_path, len(SIGNALS)) == []
