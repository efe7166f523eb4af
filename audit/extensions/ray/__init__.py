"""Run trials on Ray workers, on this machine or on a cluster."""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from audit.engine.interface import WIDTH, EngineSettings, Json, Outcomes, Trial, WorkSource
from audit.errors import EngineError, UsageError
from audit.extensions.ray.workers import Files, Worker
from audit.files import PrivateFolder, table_beside

CHUNKS_PER_WORKER = 4
"""Into how many chunks a worker's share is cut: small, so that a lost worker costs little and all end together,
yet as large as the width where there are trials enough, so that targets are asked in large
batches."""
MAX_LOSSES = 3
"""Workers that may be lost in a row over one chunk, or before any work."""
PATIENCE = 600.0
"""Seconds within which a first worker must be at work: a cluster may have to start a machine."""

_SETTINGS: Mapping[str, Mapping[str, str]] = table_beside(__file__, "ray.toml")
"""For Ray started here or elsewhere (`all`), and for Ray started here (`here`)."""


def make_engine(settings: EngineSettings) -> RayEngine:
    """Make the engine of `--engine ray[:address=HOST:PORT,workers=N,gpus=N,shared=DIR]`.

    Raises:
        UsageError: Ray is not installed here, or takes no such option.
    """
    lacking = [name for name in ("ray", "tblib") if importlib.util.find_spec(name) is None]
    if lacking:
        raise UsageError(
            f"the engine Ray needs {' and '.join(lacking)}: not installed",
            "pip install 'docaudit[ray]'",
        )
    try:
        options = _Options.model_validate(settings.options)
    except ValidationError as error:
        problems = [
            f"--engine ray: {item['loc'][0]}={item['input']}: {item['msg']}"
            for item in error.errors()
        ]
        # Ray Client (ray://) cannot stream outcomes.
        hint = (
            "address=HOST:PORT, workers=N, gpus=N and shared=DIR, as workers=4,gpus=0.5; on a machine of the cluster "
            "address=auto"
        )
        raise UsageError(problems, hint) from None
    return RayEngine(
        **dict(options), width=settings.width, threads=settings.threads, gpu=settings.gpu
    )


def _checked_gpus(gpus: float) -> float:
    """Return a number of GPUs; refuse one above 1 that is not whole."""
    if gpus > 1 and gpus % 1:
        raise ValueError("a part of one GPU, or a whole number of them")
    return gpus


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid")
    address: Annotated[str, Field(pattern=r"^(auto|[^/]+:\d+)$")] | None = None
    workers: Annotated[int, Field(ge=1)] | None = None
    gpus: (
        Annotated[float, Field(gt=0, allow_inf_nan=False), AfterValidator(_checked_gpus)] | None
    ) = None
    shared: Annotated[str, Field(pattern=r"^(true$|/)")] | None = None


@dataclass(eq=False)
class RayEngine:
    """The engine for several processes or machines; implements `audit.engine.interface.Engine`.

    Attributes:
        address: address of a running cluster that this machine is part of, "host:port" or "auto";
            None starts Ray here.
        workers: number of workers; None: as many as the CPUs, or GPUs, allow.
        gpus: number of GPUs of a worker, which may be a part of one; None: one, or a part where
            there are more workers than GPUs.
        shared: the folder below which all nodes have the same files; "true": they have the same
            everywhere.
        width: attempts in flight of one worker.
        threads: CPU threads that the work uses in one worker.
        gpu: whether a worker needs a GPU.
    """

    address: str | None = None
    workers: int | None = None
    gpus: float | None = None
    shared: str | None = None
    width: int = WIDTH
    threads: int = 1
    gpu: bool = False
    _started: ExitStack = field(default_factory=ExitStack, init=False)
    _pool: _Pool | None = field(default=None, init=False)

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """Run trials on the workers of a cluster, which are started when they are first needed.

        An exception of a trial is raised here, with its own type and traceback.

        Raises:
            EngineError: Ray cannot be started or reached, or workers are lost again and again.
        """
        if not trials:
            return
        pool = self._pool = self._pool or self._start()
        n_workers, resources = self._plan(pool.ray.cluster_resources(), len(trials))
        size = min(self.width, math.ceil(len(trials) / (CHUNKS_PER_WORKER * n_workers)))
        chunks = [trials[start : start + size] for start in range(0, len(trials), size)]
        try:
            yield from pool.outcomes(source, chunks, n_workers, resources)
        except SystemExit:
            # Only a signal's handler raises it here, and Ray has lost the exit code.
            raise SystemExit(128 + signal.SIGTERM) from None

    def close(self) -> None:
        """Stop the workers, and disconnect from the cluster."""
        self._pool = None
        self._started.close()

    def _start(self) -> _Pool:
        """Connect to the cluster, and return the pool that will hold its workers."""
        with ExitStack() as stack:
            own = stack.enter_context(PrivateFolder(_short_temporary()))
            spilled = stack.enter_context(PrivateFolder(None))
            ray = stack.enter_context(self._connected(own, spilled))
            shared = "/" if self.address is None or self.shared == "true" else self.shared
            pool = _Pool(ray, self.width, None if shared is None else Path(shared))
            stack.callback(pool.close)
            self._started = stack.pop_all()
        return pool

    @contextmanager
    def _connected(self, own: Path, spilled: Path) -> Iterator[Any]:
        """Connect to Ray, and disconnect at the end.

        When there is no address, Ray is started here, with its sockets and logs in `own` and what
        its object store does not hold in memory in `spilled`.
        """
        host, separator, port = (self.address or "").rpartition(":")
        if separator:
            try:  # at once: Ray would try for minutes, without an interrupt
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            except (OSError, ValueError) as error:
                raise _not_reached(str(self.address), error) from None
        ray = _library(local=self.address is None)
        before = signal.getsignal(signal.SIGTERM)
        try:
            if self.address is None:
                n_cpus = None
                if self.workers is not None:
                    n_cpus = self.workers * (1 if self.gpu else self.threads)
                ray.init(
                    address="local",
                    num_cpus=n_cpus,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    # A folder within: Ray opens its own to everybody (mode 0777).
                    _temp_dir=str(own / "ray"),
                    object_spilling_directory=str(spilled),
                )
            else:
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            if self.address is not None:
                raise _not_reached(self.address, error) from error
            raise EngineError(
                f"Ray cannot be started: {_lines(error)[0]}", "scan with --engine local"
            ) from error
        finally:
            # Ray puts a handler of its own there, which would change the exit code.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)
        try:
            yield ray
        finally:
            ray.shutdown()

    def _plan(self, available: Mapping[str, float], n_trials: int) -> tuple[int, dict[str, float]]:
        """Return the number of workers, and the resources that each asks of Ray.

        Raises:
            UsageError: GPUs are asked for, and the model is on a CPU.
            EngineError: there is no GPU, and none will come.
        """
        if self.gpu:
            return self._plan_gpus(available.get("GPU", 0.0), n_trials)
        if self.gpus is not None:
            raise UsageError(
                f"--engine ray: gpus={self.gpus:g}, and the model is on a CPU",
                "scan with --device cuda",
            )
        n_cpus = int(available.get("CPU", 1))
        cpus = max(1, min(self.threads, n_cpus))
        n_workers = min(self.workers or max(1, n_cpus // cpus), n_trials)
        return n_workers, {"num_cpus": cpus, "num_gpus": 0}

    def _plan_gpus(self, gpus: float, n_trials: int) -> tuple[int, dict[str, float]]:
        """Return the number of workers on GPUs, and the share of a GPU for each."""
        # A cluster may start a machine once workers wait for it.
        if not gpus and (self.address is None or self.workers is None):
            hint = "scan with --device cpu, add a machine with a GPU to the cluster, or give workers=N to wait for one"
            raise EngineError("Ray finds no GPU", hint)
        fits = int(gpus / (self.gpus or 1))
        n_workers = min(self.workers or max(1, fits), n_trials)
        share = self.gpus or (1 / math.ceil(n_workers / gpus) if gpus else 1)
        return n_workers, {"num_cpus": 1, "num_gpus": share}


@dataclass
class _Chunk:
    """Trials that go to one worker together.

    Those without an outcome, by id, and how often a worker was lost.
    """

    unfinished: dict[str, Trial]
    losses: int = 0


@dataclass(eq=False)
class _Hired:
    """A worker, the node it runs on once that is known, and its work.

    The work is the number of what it has open.
    """

    actor: Any
    node: str = ""
    work: int = 0


class _Pool:
    """Hands chunks to workers as they get free, and starts another worker for each that is lost.

    Workers live on from one work to the next.

    Args:
        ray: the library, connected.
        width: attempts in flight of one worker.
        shared: the folder below which all nodes have the same files; None: there is none.
    """

    def __init__(self, ray: Any, width: int, shared: Path | None) -> None:
        """Start a pool without workers; workers reach the files in `shared` directly."""
        self.ray = ray
        self.width = width
        self.shared = shared
        self.home = ray.get_runtime_context().get_node_id()
        self.files: dict[str, Any] = {}
        self.waiting: deque[_Chunk] = deque()
        self.idle: list[_Hired] = []
        # By what Ray is waited upon for: the worker, and its chunk, or the number of the work that
        # it opens; None: it starts.
        self.under_way: dict[Any, tuple[_Hired, _Chunk | int | None]] = {}
        self.lost_while_opening = self.number = self.kept = 0
        self.keeps = b""

    def outcomes(
        self,
        source: WorkSource,
        chunks: Sequence[Sequence[Trial]],
        n_workers: int,
        resources: Mapping[str, float],
    ) -> Iterator[tuple[str, Json]]:
        """Yield (trial's key, outcome) of all trials as workers finish them."""
        keeps = self.ray.cloudpickle.dumps(source.keeps)
        if keeps != self.keeps:
            self.kept_reference = self.ray.put(source.keeps)
            self.keeps = keeps
            self.kept += 1
        self.number += 1
        self.elsewhere = self.ray.put(source.elsewhere)
        self.waiting = deque(_Chunk({trial.id: trial for trial in chunk}) for chunk in chunks)
        self.resources = resources
        n_more = max(0, n_workers - len(self.under_way))
        free = self.idle[:n_more]
        self.idle = self.idle[n_more:]
        for hired in free:
            self._hand_out(hired)
        for _ in range(n_more - len(free)):
            self._start_worker()
        try:
            while self.waiting or self._busy():
                yield from self._step()
        finally:
            for reference, (hired, step) in [*self.under_way.items()]:
                if isinstance(step, _Chunk):
                    del self.under_way[reference]
                    self.ray.kill(hired.actor)

    def close(self) -> None:
        """Stop all processes of the pool."""
        hired = (*self.idle, *(hired for hired, _ in self.under_way.values()))
        for actor in (*(one.actor for one in hired), *self.files.values()):
            self.ray.kill(actor)

    def _busy(self) -> bool:
        """Test whether a worker is at a chunk of trials."""
        return any(isinstance(step, _Chunk) for _, step in self.under_way.values())

    def _start_worker(self) -> None:
        """Ask Ray for one more worker, which is under way until it names its node."""
        actor = (
            self.ray.remote(Worker)
            .options(max_restarts=0, **self.resources)
            .remote(self.width, self.shared)
        )
        self.under_way[actor.node.remote()] = (_Hired(actor), None)

    def _files_of(self, node: str) -> tuple[Any, ...]:
        """Return the `Files` of a node and of the driver's, started when first asked for.

        None for the driver's own.
        """
        if node == self.home or self.shared == Path("/"):
            return ()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        for place in {node, self.home} - self.files.keys():
            # One that is lost starts again, and copies again.
            options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
            there = NodeAffinitySchedulingStrategy(place, soft=False)
            self.files[place] = (
                self.ray.remote(Files).options(scheduling_strategy=there, **options).remote()
            )
        return self.files[node], self.files[self.home]

    def _step(self) -> Iterator[tuple[str, Json]]:
        """Wait for the next event of any worker, and yield outcomes that it brings.

        An outcome, the end of a chunk, a worker that is open, or the loss of one.
        """
        errors = self.ray.exceptions
        timeout = None if self._busy() else PATIENCE
        ready, _ = self.ray.wait(list(self.under_way), num_returns=1, timeout=timeout)
        if not ready:
            raise EngineError(
                f"no Ray worker could start within {PATIENCE:.0f} s",
                "are CPUs free? see: ray status",
            )
        hired, step = self.under_way.pop(ready[0])
        try:
            if not isinstance(step, _Chunk):
                found = self.ray.get(ready[0])
                if step is None:
                    hired.node = found
                else:
                    hired.work = step
                    self.lost_while_opening = 0
                self._hand_out(hired)
                return
            trial_id, outcome = self.ray.get(next(ready[0]))
        except StopIteration:
            self._hand_out(hired)
        except errors.RayError as error:
            self.ray.kill(hired.actor)
            cause = (
                getattr(error, "cause", None) if isinstance(error, errors.RayTaskError) else error
            )
            if not isinstance(cause, errors.RayError):
                raise (cause if isinstance(cause, Exception) else error) from None
            self._lost(hired, step, cause)
        else:
            del step.unfinished[trial_id]
            # At the end of the line, so that no worker waits behind a faster one.
            self.under_way[ready[0]] = (hired, step)
            yield trial_id, outcome

    def _hand_out(self, hired: _Hired) -> None:
        """Give a free worker the next chunk, or the work to open first.

        One for which nothing is left waits.
        """
        if not self.waiting:
            self.idle.append(hired)
        elif hired.work != self.number:
            files = self._files_of(hired.node)
            opening = hired.actor.open.remote(
                self.kept, [self.kept_reference], self.elsewhere, files
            )
            self.under_way[opening] = (hired, self.number)
        else:
            chunk = self.waiting.popleft()
            running = hired.actor.run.options(num_returns="streaming").remote(
                list(chunk.unfinished.values())
            )
            self.under_way[running] = (hired, chunk)

    def _lost(self, hired: _Hired, step: _Chunk | int | None, error: Exception) -> None:
        """Give a lost worker's trials to an idle one, and start a new worker."""
        if not isinstance(step, _Chunk):
            # A node that is lost with all its workers is one loss of each, and no fault of theirs.
            self.lost_while_opening += all(
                one["Alive"] for one in self.ray.nodes() if one["NodeID"] == hired.node
            )
            losses = self.lost_while_opening
            doing = "before they could begin"
            hint = "every machine needs this docaudit and its libraries; when memory is short, use fewer workers"
        else:
            step.losses += 1
            self.waiting.appendleft(step)
            losses = step.losses
            doing = f"over the same trials, {len(step.unfinished)} of them left"
            hint = (
                "when memory is short, use fewer workers or a lower --batch-size; "
                "the same command goes on where it was"
            )
        if losses >= MAX_LOSSES:
            raise EngineError(f"{losses} Ray workers were lost {doing}: {_lines(error)[-1]}", hint)
        self._start_worker()
        if self.idle:
            self._hand_out(self.idle.pop())


def _library(local: bool) -> Any:
    """Import and return Ray, with docaudit's settings; refuse where it is missing."""
    os.environ.update(_SETTINGS["all"])
    # Ray reads these once a process, at its import: a program that has imported it already has made
    # its own choice.
    if local and "ray" not in sys.modules:
        os.environ.update(_SETTINGS["here"], RAY_AUTH_TOKEN=secrets.token_hex(32))
    import ray

    return ray


def _not_reached(address: str, error: Exception) -> EngineError:
    """Return the error that the cluster at this address cannot be reached."""
    return EngineError(
        f"Ray cannot be reached at {address}: {_lines(error)[0]}", "look at it with: ray status"
    )


def _short_temporary() -> Path:
    """Return a short folder for Ray's sockets.

    A path has at most 103 characters, of which 88 are needed.
    """
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) <= 15 else "/tmp")


def _lines(error: Exception) -> list[str]:
    """Return the printable lines of an error's message."""
    lines = (
        "".join(filter(str.isprintable, line)).strip()[:200] for line in str(error).splitlines()
    )
    return [line for line in lines if line] or [type(error).__name__]
