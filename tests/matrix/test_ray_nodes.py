"""Ray over three nodes, one of which is lost while trials run: what comes of it is what one machine gives."""

import os
import shutil
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import adapters
import pytest
import tiny
from scanned_by_engines import Scans
from scripted_work import Spy, Spying, same
from temporaries import left_in

from audit.engine.interface import Progress, Trial, WorkSource

if any(find_spec(name) is None for name in ("ray", "tblib")):
    pytest.skip("needs the extra: pip install 'docaudit[ray]'", allow_module_level=True)

from audit.extensions.ray import RayEngine, _library

pytestmark = pytest.mark.slow
WEIGHTS = "adapter_model.safetensors"


@dataclass
class Nodes(Progress):
    """A head without room for workers, a node of one CPU and one of two.

    The first is lost at an outcome.

    Attributes:
        cluster: that this process is part of.
        first: the node that is lost.
        place: where nodes put what they hold in folders for temporary files.
        at: how many outcomes there are before.
        copies: of the adapter's weights, by inode, when the node was lost: workers link to the copy
            of their node.
    """

    cluster: Any
    first: Any
    place: Path
    at: int = 1
    done: int = 0
    counts: bool = True
    copies: set[int] = field(default_factory=set)

    def stage(self, name: str, total: int = 0) -> None:
        self.counts = name.startswith("attack")

    def advance(self, steps: int = 1) -> None:
        self.done += steps * self.counts
        if self.done == self.at:
            self.copies = {os.stat(path).st_ino for path in self.weights()}
            self.cluster.remove_node(self.first, allow_graceful=False)

    def weights(self) -> list[str]:
        return glob(
            f"{self.place}/docaudit-*/**/{WEIGHTS}", recursive=True
        )  # pathlib's fails at folders that go

    def lose_copies(self, pool: Any) -> None:
        """End the processes that copied, as a lost node does in any order, and wait until their folders are gone."""
        left = len(self.weights()) - len(pool.files) + 1  # the driver's node has none
        for files in pool.files.values():
            pool.ray.kill(files, no_restart=False)
        while len(self.weights()) > left:
            time.sleep(0.05)


@pytest.fixture
def nodes(monkeypatch, tmp_path_factory):
    """See `Nodes`."""
    tmp_path_factory.getbasetemp()  # before folders go elsewhere
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "fakes"))
    place = tempfile.mkdtemp(prefix="n", dir="/tmp")  # short enough for sockets
    monkeypatch.setenv("TMPDIR", place)
    monkeypatch.setattr(tempfile, "tempdir", place)
    _library(local=True)  # with a token of its own, before Ray is imported
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    first, _ = (cluster.add_node(num_cpus=count) for count in (1, 2))
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)  # as `ray job submit` does
    yield Nodes(cluster, first, Path(place))
    cluster.shutdown()
    shutil.rmtree(place, ignore_errors=True)  # processes of Ray may still remove what is theirs


def test_files_are_copied_once_a_node_and_a_lost_node_costs_no_outcome(nodes, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / WEIGHTS).write_text("weights" * 1000)
    source = WorkSource(Spy(), Spying(tmp_path / "model", (WEIGHTS,), meet=3), same)
    trials = [Trial(f"t{number}", "u") for number in range(60)]
    outcomes = []
    with closing(RayEngine("auto", workers=3, width=1)) as engine:
        for outcome in engine.run(source, trials):
            if not outcomes:
                nodes.lose_copies(engine._pool)
            outcomes.append(outcome)
            nodes.advance()
    assert sorted(name for name, _ in outcomes) == sorted(trial.id for trial in trials)
    assert {one["files"][WEIGHTS] for _, one in outcomes} == {"weights" * 1000}
    assert len(nodes.copies) == 2, "one on each node with workers"
    assert {one["mode"] for _, one in outcomes} == {0o700}
    assert not left_in(nodes.place, "docaudit-*")


@pytest.mark.night
def test_three_nodes_give_the_local_record_of_an_adapter_even_when_one_is_lost(
    nodes, checkpoints, tmp_path
):
    data = tiny.corpus(tmp_path / "data", members=4, heldout=4, public=1, images=True)
    base = checkpoints("bert", "mlm", 2)
    adapters.tagger(base, tmp_path / "adapter")
    adapters.tagger(base, tmp_path / "baseline", r=2)
    given = {"auxiliary": [checkpoints("bert", "mlm", 3)], "baselines": [tmp_path / "baseline"]}
    scans = Scans(tmp_path / "adapter", data, given, tmp_path, ("reconstruction", "membership"))
    local = scans.record("local")
    nodes.at = len(local[1]) // 2
    assert (
        scans.record("nodes", nodes, engine=f"ray:address={nodes.cluster.address},workers=3")
        == local
    )
    assert len(nodes.copies) == 4, "target and baseline, on two nodes"
    assert not glob(f"{nodes.place}/docaudit-*/*/*.png"), (
        "no page is sent to a model that sees none"
    )
    shared = scans.record(
        "shared", engine=f"ray:address={nodes.cluster.address},workers=2,shared=true"
    )
    assert shared == local
