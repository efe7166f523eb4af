"""Processes of a pool: workers, and those that bring the driver's files to a node."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.engine.driver import drive
from audit.engine.interface import Json, Trial, Work
from audit.errors import EngineError
from audit.files import PrivateFolder

CHUNK = 64 << 20
"""Bytes of a file that are sent at once."""


@dataclass(eq=False)
class Worker:
    """One process of the pool.

    It opens each work with what it has kept of those before, then drives chunks of trials.

    Attributes:
        width: attempts in flight.
        shared: the folder below which all nodes have the same files; None: there is none.
    """

    width: int
    shared: Path | None
    kept: dict[int, Any] = field(default_factory=dict)
    files: Sequence[Any] = ()
    folder: PrivateFolder | None = None

    def node(self) -> str:
        """Return the id of the node that this runs on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def open(
        self,
        number: int,
        keeps: Sequence[Any],
        elsewhere: Callable[[Any], Work],
        files: Sequence[Any],
    ) -> None:
        """Open a work under a number, here or from files, and keep it for its trials.

        Args:
            number: number of what it shares with others.
            keeps: the reference to what opens that.
            elsewhere: see `WorkSource`.
            files: the `Files` of this node and of the driver's; none where these are the same.
        """
        import ray

        self.files = files
        with traceback_kept():
            if number not in self.kept:
                self.kept = {number: ray.get(keeps[0])(self.fetch)}
            self.work = elsewhere(self.kept[number])

    def fetch(self, root: Path, names: Sequence[str]) -> Path:
        """Bring files to where this worker runs, and return their folder."""
        import ray

        if self.files and not (self.shared and root.is_relative_to(self.shared)):
            self.folder = self.folder or PrivateFolder()
            try:
                return Path(
                    ray.get(self.files[0].copy.remote(self.files[1], root, names, self.folder.path))
                )
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
        if not root.is_dir():
            raise EngineError(
                f"a worker does not see {root}", "mount it on every node, or leave shared=DIR out"
            )
        return root

    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[str, Json]]:
        """Yield the outcome of each trial as soon as it is complete."""
        with traceback_kept():
            yield from drive(self.work, trials, self.width)


class Files:
    """One process of a node.

    It gives the driver's files away, or copies them to its node, once for all workers there.
    """

    folder: PrivateFolder | None = None

    def read(self, path: Path, start: int) -> bytes:
        """Read a part of a file of the driver's node."""
        with traceback_kept():
            try:
                with path.open("rb") as stream:
                    stream.seek(start)
                    return stream.read(CHUNK)
            except OSError as error:
                raise EngineError(f"{path}: {error.strerror}") from None

    def copy(self, source: Any, root: Path, names: Sequence[str], into: Path) -> Path:
        """Copy files of a folder that are not here yet from the driver's `Files`.

        Link a worker's folder to them.

        A worker needs links of its own: on a lost node it may outlive this process, which takes its
        folder with it.

        Returns:
            The folder of the links, below `into`.
        """
        import ray

        self.folder = self.folder or PrivateFolder()
        place = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        for name in names:
            file = self.folder.path / place / name
            link = into / place / name
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.with_name(f"{file.name}.part").open("wb") as stream:
                    while part := ray.get(source.read.remote(root / name, stream.tell())):
                        stream.write(part)
                os.replace(stream.name, file)
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.hardlink_to(file)
        return into / place


@contextmanager
def traceback_kept() -> Iterator[None]:
    """Make exceptions of the block picklable with their traceback."""
    from tblib import pickling_support

    try:
        yield
    except Exception as error:
        pickling_support.install(error)
        raise
