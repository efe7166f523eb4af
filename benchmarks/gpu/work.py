"""What a piece is given to work with: folders, a device and a deadline.

And its steps, kept as they are done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.files import write_atomically

Json = Any


class OutOfTimeError(Exception):
    """The time of a piece is used up between two of its steps.

    The next run goes on with the step that waits.
    """


class NotTestedError(Exception):
    """What a piece is about cannot be tested yet: what it builds on does not hold.

    Its table says so.
    """


@dataclass(frozen=True)
class Inputs:
    """Folders that a person gives; None: there is none.

    Attributes:
        sroie: holds img/, box/ and key/.
        funsd: holds annotations/ and images/.
        backbone: a BERT-like checkpoint, such as MiniLM's.
    """

    sroie: Path | None = None
    funsd: Path | None = None
    backbone: Path | None = None

    def missing(self, names: tuple[str, ...]) -> list[str]:
        """Those of these inputs that are not there."""
        return [
            name for name in names if (folder := getattr(self, name)) is None or not folder.is_dir()
        ]


@dataclass(frozen=True)
class Result:
    """What a piece found.

    Attributes:
        values: for the JSON.
        lines: for the Markdown.
    """

    values: Json
    lines: list[str]


@dataclass
class Work:
    """One run of one piece.

    Attributes:
        name: the piece's.
        root: holds a folder for each piece, kept between runs.
        inputs: folders from outside.
        device: "cpu", "cuda" or "mps".
        tiny: tiny models and data: shows that everything runs, and no number of it is a result.
        seconds: the time of this run.
        log: told in one line what was done.
    """

    name: str
    root: Path
    inputs: Inputs
    device: str
    tiny: bool
    seconds: float = float("inf")
    log: Callable[[str], None] = print
    _began: float = field(default_factory=time.monotonic)
    _made: bool = False

    @property
    def folder(self) -> Path:
        """The piece's own."""
        return self.folder_of(self.name)

    def folder_of(self, piece: str) -> Path:
        """Where a piece keeps what it makes."""
        folder = self.root / piece
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def left(self) -> float:
        """Seconds until this run must end."""
        return self.seconds - (time.monotonic() - self._began)

    def step(self, name: str, make: Callable[[], Json], seconds: float = 0.0) -> Json:
        """Do a step once: what it gave in an earlier run, or what it gives now, which is kept.

        Args:
            name: of a file.
            make: the step; gives what JSON takes.
            seconds: what it may take. With less left it is not begun, unless it is the first step
                of this run.

        Raises:
            OutOfTimeError: it is not begun.
        """
        path = self.folder / f"{name}.step.json"
        if path.exists():
            return json.loads(path.read_text())
        # What needs more than any run has is begun first of all, or it would wait for ever.
        fresh = not self._made and self.left > FRESH * self.seconds
        if self.left <= 0 or (self.left < seconds and not fresh):
            raise OutOfTimeError(f"{name} waits: {self.left:.0f} s left")
        began = time.monotonic()
        self._made = True
        made = make()
        write_atomically(path, (json.dumps(made, indent=1) + "\n").encode())
        self.log(f"{self.name}: {name} in {time.monotonic() - began:.0f} s")
        return made


FRESH = 0.5
"""The part of its time that a run must have left for a first step that needs more."""
