"""Rows of a list of checkpoints: where model and data are, and whose claim the split is."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from audit.corpus.documents import TaskKind
from audit.errors import UsageError

_STRICT = ConfigDict(extra="forbid")
_Text = Annotated[str, Field(min_length=1)]
HUB = "hf://"
"""The beginning of an address of the Hub."""
READY = "docaudit"
"""The format of a data set that needs no import."""


@checked_dataclass(frozen=True, config=_STRICT)
class Data:
    """The documents that a checkpoint was trained on, and unseen ones.

    Attributes:
        name: of the data set.
        licence: of the data set, with where it was read.
        source: an address of the Hub, or a path below `--data`; of a data set in docaudit's own
            format a path below the root of the repository.
        format: as in `docaudit import`, or `READY`.
        split: who says which documents trained the model, and which did not.
        heldout: a path below `--data` with the unseen documents, where `source` has none.
        official: whether the source's own parts divide it.
        public: share of the unseen documents that become public: some attacks need values of these.
    """

    name: _Text
    licence: _Text
    source: _Text
    format: _Text
    split: _Text
    heldout: str = ""
    official: bool = False
    public: Annotated[float, Field(ge=0, lt=1)] = 0.0


@checked_dataclass(frozen=True, config=_STRICT)
class Checkpoint:
    """A row of the list.

    Attributes:
        name: of the row, and of its folder below `--work`.
        model: an address of the Hub, or a path below the root of the repository; empty where
            `build` names a recipe.
        publisher: who published the model.
        licence: of the model, with where it was read.
        checked: what was checked of the address, and where; empty: nothing was.
        task: what the model was trained to do.
        data: the documents.
        wrong: what would make a finding on this row wrong.
        budget: of plan and scan.
        time: a bound on the trials, as `--time` takes it; empty: none.
        build: the recipe that makes the model here from the training documents.
        backbone: a path below `--data`, from which a built model starts.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    publisher: _Text
    licence: _Text
    task: TaskKind
    data: Data
    wrong: tuple[_Text, ...]
    model: str = ""
    checked: str = ""
    budget: Literal["quick", "standard", "full"] = "quick"
    time: str = ""
    build: Literal["", "receipt-tagger"] = ""
    backbone: str = ""

    @property
    def is_published(self) -> bool:
        """Tell whether somebody else published the model."""
        return self.model.startswith(HUB)

    @property
    def limits(self) -> list[str]:
        """Return the options of plan and scan that bound their work."""
        options = ["--budget", self.budget]
        if self.time:
            options += ["--time", self.time]
        return options

    @property
    def digest(self) -> str:
        """Return the sha256 of the row: work that belongs to another row is done again."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


_checkpoints = TypeAdapter(tuple[Checkpoint, ...])


def load(path: Path) -> tuple[Checkpoint, ...]:
    """Read a list of checkpoints.

    Raises:
        UsageError: the file cannot be read, or a row is wrong.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = _checkpoints.validate_python(table.get("checkpoints", ()))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "give --list FILE") from None
    except ValidationError as error:
        problems = [
            f"{path}: {_place_of(fault['loc'])}: {fault['msg']}" for fault in error.errors()
        ]
        raise UsageError(problems, "correct the list") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", "correct the list") from None
    problems = [f"{path}: {problem}" for problem in _list_faults(rows)]
    if problems:
        raise UsageError(problems, "correct the list")
    return rows


def _place_of(location: tuple[int | str, ...]) -> str:
    """Write where in the list a fault is."""
    return ".".join(map(str, ("checkpoints", *location)))


def _list_faults(rows: tuple[Checkpoint, ...]) -> list[str]:
    """List what no single field shows: rows of one name, and models that come from nowhere."""
    names = Counter(row.name for row in rows)
    faults = [f"two rows are called {name}" for name, count in names.items() if count > 1]
    for row in rows:
        if bool(row.model) == bool(row.build):
            faults.append(f"{row.name}: give either model or build")
        if row.build and row.data.format == READY:
            faults.append(f"{row.name}: a built model needs a source that docaudit init divides")
    return faults
