"""Which engine a scan takes that nobody asked for one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.nn import Linear, Sequential

from audit.engine.driver import LocalEngine
from audit.engine.growing import GrowingEngine
from audit.workflows.engines import EngineChoice, choose_engine
from audit.workflows.options import ScanOptions

GIB = 1 << 30
WITHOUT_RAY = "pip install 'docaudit[ray]'"


def choose(device: str, model: Any = None, **options: Any) -> EngineChoice:
    target: Any = SimpleNamespace(model=model or Linear(2, 2))
    return choose_engine(ScanOptions(Path(), Path(), Path(), **options), device, target)


def workers_of(engine: Any) -> int | None:
    pool = engine.make_pool() if isinstance(engine, GrowingEngine) else engine
    return getattr(pool, "workers", None)


@pytest.fixture
def ray(monkeypatch):
    """Have Ray, or have it not, whatever is installed."""

    def install(there: bool) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if there else None)

    install(True)
    return install


@pytest.fixture
def gpus(monkeypatch, ray):
    """Have so many GPUs of 80 GiB, of which this process takes some."""

    def put(count: int, taken: float) -> None:
        monkeypatch.setattr("torch.cuda.device_count", lambda: count)
        free = int((80 - taken) * GIB)
        monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (free, 80 * GIB))
        monkeypatch.setattr("torch.cuda.memory_allocated", lambda: int(taken * GIB))

    return put


@pytest.mark.parametrize(
    ("count", "taken", "workers", "notice"),
    [
        (8, 1.0, 16, "Using 8 GPUs: 2 workers each"),
        (8, 30.0, 8, "Using 8 GPUs: one worker each"),
        (8, 50.0, None, ""),
        (1, 1.0, 2, "Long attacks get 2 workers on the GPU"),
        (1, 30.0, None, ""),
    ],
)
def test_a_gpu_gets_two_workers_where_both_have_room(count, taken, workers, notice, gpus):
    gpus(count, taken)
    chosen = choose("cuda")
    assert (workers_of(chosen.engine), chosen.notice) == (workers, notice)
    assert isinstance(chosen.engine, GrowingEngine) == (count == 1 and workers is not None)


def test_a_model_over_several_devices_stays_in_this_process(gpus):
    gpus(8, 1.0)
    spread = Sequential(Linear(2, 2), Linear(2, 2, device="meta"))
    assert choose("cuda", spread).engine == LocalEngine()


@pytest.mark.parametrize(
    ("cores", "workers", "notice"),
    [
        (2, None, ""),
        (4, None, ""),
        (8, 8, "Long attacks get 8 processes, one for each core"),
    ],
)
def test_small_models_get_a_process_for_each_of_many_cores(
    cores, workers, notice, ray, monkeypatch
):
    monkeypatch.setattr("audit.targets.opening.threads", lambda: cores)
    chosen = choose("cpu")
    assert (workers_of(chosen.engine), chosen.notice) == (workers, notice)
    assert chosen.threads == (1 if workers else cores)


def test_a_large_model_takes_all_cores_itself(ray, monkeypatch):
    monkeypatch.setattr("audit.targets.opening.threads", lambda: 8)
    monkeypatch.setattr("audit.targets.opening.SMALL", 5)
    assert choose("cpu").engine == LocalEngine()


def test_models_that_would_fill_the_memory_stay_in_one_process(ray, monkeypatch):
    monkeypatch.setattr("audit.targets.opening.threads", lambda: 10**12)
    assert choose("cpu").engine == LocalEngine()


@pytest.mark.parametrize(
    ("device", "count", "notice"),
    [
        ("cuda", 8, f"Using 1 of 8 GPUs. For one worker each: {WITHOUT_RAY}"),
        ("cuda", 1, f"Using one worker. For 2: {WITHOUT_RAY}"),
        ("cpu", 8, f"Using one process. For one a core: {WITHOUT_RAY}"),
    ],
)
def test_without_ray_a_notice_says_what_to_install(device, count, notice, gpus, ray, monkeypatch):
    gpus(count, 1.0)
    monkeypatch.setattr("audit.targets.opening.threads", lambda: count)
    ray(False)
    chosen = choose(device)
    assert (chosen.engine, chosen.notice) == (LocalEngine(), notice)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("options", [{"engine": "local"}, {"seconds": 600.0}])
def test_one_process_that_was_asked_for_or_timed_stays_one(device, options, gpus, monkeypatch):
    gpus(8, 1.0)
    monkeypatch.setattr("audit.targets.opening.threads", lambda: 8)
    chosen = choose(device, **options)
    assert (chosen.engine, chosen.notice) == (LocalEngine(), "")


def test_workers_that_were_asked_for_are_taken(gpus):
    gpus(8, 1.0)
    chosen = choose("cuda", engine="ray:workers=3")
    assert (workers_of(chosen.engine), chosen.notice) == (3, "")
