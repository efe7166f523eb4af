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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from audit.engine.driver import drive
from audit.engine.interface import WIDTH, EngineSettings, Json, Outcomes, Trial, Work, WorkSource
from audit.errors import EngineError, UsageError
from audit.files import PrivateFolder, table_beside

CHUNKS_PER_WORKER = 4
"""Into how many chunks a worker's share is cut: small, so that a lost worker costs little and all end together,
yet as large as the width where there are trials enough, so that targets are asked in large batches."""
MAX_LOSSES = 3
"""Workers that may be lost in a row over one chunk, or before any work."""
PATIENCE = 600.0
"""Seconds within which a first worker must be at work: a cluster may have to start a machine."""

_SETTINGS: Mapping[str, Mapping[str, str]] = table_beside(__file__, "ray.toml")
"""For Ray started here or elsewhere (`all`), and for Ray started here (`here`)."""

Files = Mapping[str, Mapping[str, Any]]
"""By folder and path within it: a reference to the content in Ray's object store."""


def make_engine(settings: EngineSettings) -> RayEngine:
    """Make the engine of `--engine ray[:address=HOST:PORT,workers=N]`.

    Raises:
        UsageError: Ray is not installed here, or takes no such option.
    """
    lacking = [name for name in ("ray", "tblib") if importlib.util.find_spec(name) is None]
    if lacking:
        raise UsageError(f"the engine Ray needs {' and '.join(lacking)}: not installed", "pip install 'docaudit[ray]'")
    try:
        options = _Options.model_validate(settings.options)
    except ValidationError as error:
        problems = [f"--engine ray: {item['loc'][0]}={item['input']}: {item['msg']}" for item in error.errors()]
        # Ray Client (ray://) cannot stream outcomes.
        hint = "address=HOST:PORT and workers=N, as workers=4; on a machine of the cluster address=auto"
        raise UsageError(problems, hint) from None
    return RayEngine(options.address, options.workers, settings.width, settings.threads, settings.gpu)


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid")
    address: Annotated[str, Field(pattern=r"^(auto|[^/]+:\d+)$")] | None = None
    workers: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True)
class RayEngine:
    """The engine for several processes or machines; implements `audit.engine.interface.Engine`.

    Attributes:
        address: of a running cluster that this machine is part of, "host:port" or "auto"; None starts Ray here.
        workers: how many; None: as many as the CPUs, or GPUs, allow.
        width: attempts in flight of one worker.
        threads: CPU threads that the work uses in one worker.
        gpu: whether a worker needs a GPU; when there are fewer, they are shared.
    """

    address: str | None = None
    workers: int | None = None
    width: int = WIDTH
    threads: int = 1
    gpu: bool = False

    def run(self, source: WorkSource, trials: Sequence[Trial]) -> Outcomes:
        """See `Engine.run`. An exception of a trial is raised here, with its own type and traceback.

        Raises:
            EngineError: Ray cannot be started or reached, or workers are lost again and again.
        """
        if not trials:
            return
        with PrivateFolder(_short_temporary()) as own, PrivateFolder() as copies, self._connected(own, copies) as ray:
            files = {
                name: {path: ray.put(_content(file)) for path, file in files.items()}
                for name, files in source.folders.items()
            }
            n_workers, resources = self._plan(ray.cluster_resources(), len(trials))
            size = min(self.width, math.ceil(len(trials) / (CHUNKS_PER_WORKER * n_workers)))
            chunks = [list(trials[start : start + size]) for start in range(0, len(trials), size)]
            actor = ray.remote(Worker).options(max_restarts=0, **resources)
            within = copies if self.address is None else None
            pool = _Pool(ray, lambda: actor.remote(files, source.elsewhere, self.width, within), chunks)
            yield from pool.outcomes(n_workers)

    @contextmanager
    def _connected(self, own: Path, copies: Path) -> Iterator[Any]:
        """Connect to Ray, and disconnect at the end.

        When there is no address, Ray is started here, with its sockets and logs in `own` and what its object store
        does not hold in memory in `copies`.
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
                ray.init(
                    address="local",
                    num_cpus=None if self.workers is None else self.workers * (1 if self.gpu else self.threads),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    # A folder within: Ray opens its own to everybody (mode 0777).
                    _temp_dir=str(own / "ray"),
                    object_spilling_directory=str(copies),
                )
            else:
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            if self.address is not None:
                raise _not_reached(self.address, error) from error
            raise EngineError(f"Ray cannot be started: {_lines(error)[0]}", "scan with --engine local") from error
        finally:
            # Ray puts a handler of its own there, which would change the exit code.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)
        try:
            yield ray
        except SystemExit:
            # Only a signal's handler raises it here, and Ray has lost the exit code.
            raise SystemExit(128 + signal.SIGTERM) from None
        finally:
            ray.shutdown()

    def _plan(self, available: Mapping[str, float], n_trials: int) -> tuple[int, dict[str, float]]:
        """Choose the number of workers and the resources of each."""
        gpus = int(available.get("GPU", 0))
        if self.gpu and gpus == 0:
            raise EngineError("Ray finds no GPU", "scan with --device cpu, or add a machine with a GPU to the cluster")
        cpus = 1 if self.gpu else max(1, min(self.threads, int(available.get("CPU", 1))))
        fits = gpus if self.gpu else int(available.get("CPU", 1)) // cpus
        n_workers = min(self.workers or max(1, fits), n_trials)
        share = 1 / math.ceil(n_workers / gpus) if self.gpu else 0
        return n_workers, {"num_cpus": cpus, "num_gpus": share}


@dataclass(eq=False)
class Worker:
    """One process of the pool: opens the work from the files sent to it, then drives chunks of trials.

    Attributes:
        files: what to open the work from.
        elsewhere: see `WorkSource`.
        width: attempts in flight.
        within: where its own folder goes; None: this machine's folder for temporary files.
    """

    files: Files
    elsewhere: Callable[[Mapping[str, Path]], Work]
    width: int
    within: Path | None

    def open(self) -> None:
        """Unpack the files into a private folder, which goes when this process does, and open the work."""
        import ray

        self.folder = PrivateFolder(self.within)
        folders = {}
        for name, files in self.files.items():
            folders[name] = self.folder.path / name
            folders[name].mkdir()
            for path, content in files.items():
                file = folders[name] / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(ray.get(content))
        with _traceback_kept():
            self.work = self.elsewhere(folders)

    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[str, Json]]:
        """Yield the outcome of each trial as soon as it is complete."""
        with _traceback_kept():
            yield from drive(self.work, trials, self.width)


@contextmanager
def _traceback_kept() -> Iterator[None]:
    """Make exceptions picklable with their traceback, so that the driver knows their position."""
    from tblib import pickling_support

    try:
        yield
    except Exception as error:
        pickling_support.install(error)
        raise


@dataclass
class _Chunk:
    """Trials that go to one worker together: those without an outcome, by id, and how often a worker was lost."""

    unfinished: dict[str, Trial]
    losses: int = 0


class _Pool:
    """Hands chunks to workers as they get free, and starts another worker for each that is lost.

    Args:
        ray: the library, connected.
        start: starts a worker; it may take a while until there is room for it.
        chunks: all trials.
    """

    def __init__(self, ray: Any, start: Callable[[], Any], chunks: Sequence[Sequence[Trial]]) -> None:
        self.ray = ray
        self.start = start
        self.waiting = deque(_Chunk({trial.id: trial for trial in chunk}) for chunk in chunks)
        # By what Ray is waited upon for: the worker, and its chunk, or None while it opens the work.
        self.under_way: dict[Any, tuple[Any, _Chunk | None]] = {}
        self.lost_while_opening = 0

    def outcomes(self, n_workers: int) -> Iterator[tuple[str, Json]]:
        """Yield all outcomes; see `Engine.run`."""
        for _ in range(n_workers):
            self._start_worker()
        try:
            while self.waiting or self._busy():
                yield from self._step()
        finally:
            for worker, _ in self.under_way.values():
                self.ray.kill(worker)

    def _busy(self) -> bool:
        return any(chunk is not None for _, chunk in self.under_way.values())

    def _start_worker(self) -> None:
        worker = self.start()
        self.under_way[worker.open.remote()] = (worker, None)

    def _step(self) -> Iterator[tuple[str, Json]]:
        """Wait for whatever comes next: an outcome, the end of a chunk, a worker that is open, or the loss of one."""
        errors = self.ray.exceptions
        timeout = None if self._busy() else PATIENCE
        ready, _ = self.ray.wait(list(self.under_way), num_returns=1, timeout=timeout)
        if not ready:
            raise EngineError(f"no Ray worker could start within {PATIENCE:.0f} s", "are CPUs free? see: ray status")
        worker, chunk = self.under_way.pop(ready[0])
        try:
            if chunk is None:
                self.ray.get(ready[0])
                self.lost_while_opening = 0
                self._hand_out(worker)
                return
            trial_id, outcome = self.ray.get(next(ready[0]))
        except StopIteration:
            self._hand_out(worker)
        except errors.RayTaskError as error:
            self.ray.kill(worker)
            cause = error.cause
            raise (cause if isinstance(cause, Exception) else error) from None
        except errors.RayError as error:
            self.ray.kill(worker)
            self._lost(chunk, error)
        else:
            del chunk.unfinished[trial_id]
            # At the end of the line, so that no worker waits behind a faster one.
            self.under_way[ready[0]] = (worker, chunk)
            yield trial_id, outcome

    def _hand_out(self, worker: Any) -> None:
        """Give a free worker the next chunk; one for which nothing is left ends."""
        if not self.waiting:
            self.ray.kill(worker)
            return
        chunk = self.waiting.popleft()
        running = worker.run.options(num_returns="streaming").remote(list(chunk.unfinished.values()))
        self.under_way[running] = (worker, chunk)

    def _lost(self, chunk: _Chunk | None, error: Exception) -> None:
        """Hand the trials of a lost worker to a new one."""
        if chunk is None:
            self.lost_while_opening += 1
            losses, doing = self.lost_while_opening, "before they could begin"
            hint = "every machine needs this docaudit and its libraries; when memory is short, use fewer workers"
        else:
            chunk.losses += 1
            self.waiting.appendleft(chunk)
            losses, doing = chunk.losses, f"over the same trials, {len(chunk.unfinished)} of them left"
            hint = (
                "when memory is short, use fewer workers or a lower --batch-size; the same command goes on where it was"
            )
        if losses >= MAX_LOSSES:
            raise EngineError(f"{losses} Ray workers were lost {doing}: {_lines(error)[-1]}", hint)
        self._start_worker()


def _library(local: bool) -> Any:
    """Import Ray with docaudit's settings."""
    os.environ.update(_SETTINGS["all"])
    # Ray reads these once a process, at its import: a program that has imported it already has made its own choice.
    if local and "ray" not in sys.modules:
        os.environ.update(_SETTINGS["here"], RAY_AUTH_TOKEN=secrets.token_hex(32))
    import ray

    return ray


def _not_reached(address: str, error: Exception) -> EngineError:
    return EngineError(f"Ray cannot be reached at {address}: {_lines(error)[0]}", "look at it with: ray status")


def _short_temporary() -> Path:
    """Return a short folder for Ray's sockets: a path has at most 103 characters, of which 88 are needed."""
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) <= 15 else "/tmp")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from None


def _lines(error: Exception) -> list[str]:
    """Split an error's message into printable lines."""
    lines = ("".join(filter(str.isprintable, line)).strip()[:200] for line in str(error).splitlines())
    return [line for line in lines if line] or [type(error).__name__]
