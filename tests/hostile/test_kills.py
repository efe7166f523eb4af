"""Whatever trains, scans or writes is killed at drawn moments, and goes on to what it would have been."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from killed_workflows import WORKFLOWS, Workflow
from killing import Killed, Killing

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("DOCAUDIT_KILLS", "3"))
"""Of each workflow: one of each signal."""
SEED = int(os.environ.get("DOCAUDIT_KILLS_SEED", "0"))
TABLE = Path(__file__).parents[2] / "benchmarks" / "kills.md"


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


def kill(workflow: Workflow, world: Path, place: Path, count: int) -> list[Killed]:
    killing = Killing(workflow, world, place)
    first = WORKFLOWS.index(workflow)
    # Another signal and another kind of moment first in each workflow.
    return [killing.kill(first + number, SEED) for number in range(count)]


@pytest.mark.parametrize("workflow", [one for one in WORKFLOWS if one.gate], ids=lambda one: one.name)
def test_a_killed_command_goes_on_as_if_nothing_had_happened(workflow, world, tmp_path):
    done = kill(workflow, world(workflow), tmp_path, 2)
    assert [failure for one in done for failure in one.failures] == []


@pytest.mark.matrix
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_every_workflow_goes_on_after_every_signal(workflow, world, tmp_path, record_property):
    done = kill(workflow, world(workflow), tmp_path, KILLS)
    assert [failure for one in done for failure in one.failures] == []
