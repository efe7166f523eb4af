"""Ray over two nodes, one of which is lost while trials run: the record is the one of a scan on one machine."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tiny
from scanned_by_engines import Scans

from audit.engine.interface import Progress

if any(find_spec(name) is None for name in ("ray", "tblib")):
    pytest.skip("needs the extra: pip install 'docaudit[ray]'", allow_module_level=True)

pytestmark = [pytest.mark.night, pytest.mark.slow]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes with one CPU each, on this machine."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "fakes"))
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield nodes
    nodes.shutdown()


@dataclass
class Outage(Progress):
    """Takes a node off the cluster as soon as there is an outcome."""

    cluster: Any
    node: Any
    lost: list[int] = field(default_factory=list)

    def advance(self, steps: int = 1) -> None:
        if not self.lost:
            self.lost.append(steps)
            self.cluster.remove_node(self.node, allow_graceful=False)


def test_two_nodes_give_the_local_record_even_when_one_is_lost(checkpoints: Any, tmp_path: Path, cluster: Any) -> None:
    data = tiny.corpus(tmp_path / "data", members=3, heldout=3, public=1, images=True)
    scans = Scans(checkpoints("layoutlm", "token-classification", 2), data, checkpoints("layoutlm", "mlm", 3), tmp_path)
    local = scans.record("local")
    assert len(local[1]) >= 12
    outage = Outage(cluster, cluster.add_node(num_cpus=1))
    assert scans.record("nodes", outage, engine=f"ray:address={cluster.address},workers=2") == local
    assert outage.lost
