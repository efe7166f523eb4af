"""A list of the training documents that a training is about to memorise.

It costs no pass of the model: the audits of two checkpoints have scored the documents already.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.errors import UsageError, command_line
from audit.failures import class_and_place
from audit.files import EVIDENCE, RECOVERED, table_beside, write_atomically
from audit.stats.foresight import LEAST_UNSEEN, LEVEL, Foreseen, Scored, foresee
from audit.workflows.options import protect

TEXTS = table_beside(__file__, "texts.toml")
ATTACK = "membership"
SCORE = "calibrated"
"""The score that the list is made of: the loss of a reference minus the model's own."""


@dataclass(frozen=True)
class Listing:
    """What the audit of a checkpoint says about the documents that will be memorised.

    Attributes:
        step: step of the checkpoint.
        earlier: step of the checkpoint that it is compared with; None: there is none.
        foreseen: the documents, or why there are none.
        path: file of their ids, highest score first; None: there is none.
        n_training: number of training documents of the data set.
    """

    step: int
    earlier: int | None
    foreseen: Foreseen
    path: Path | None
    n_training: int

    @property
    def sentence(self) -> str:
        """Say how many documents are listed and how far two checkpoints agree, or why none are."""
        foreseen = self.foreseen
        facts = {
            "step": self.step,
            "earlier": self.earlier,
            "n": len(foreseen.listed),
            "scored": foreseen.n_scored,
            "training": self.n_training,
            "again": foreseen.n_again,
            "chance": f"{foreseen.by_chance:.1f}",
            "rate": f"{100 * LEVEL:.0f}",
            "least": LEAST_UNSEEN,
        }
        if foreseen.doubt is not None:
            return str(TEXTS["none_listed"][foreseen.doubt].format(**facts))
        without = command_line("import", "FORMAT", "SRC", "DST", "--without", self.path)
        return str(TEXTS["listed"].format(**facts, path=self.path, command=without))


class MemoryList:
    """Lists documents after each audit of a training, from its scores and those of the one before.

    Args:
        root: the folder of all audits.
        n_training: number of training documents of the data set.
        share: largest share of the audited training documents that is listed; 0: no list.
    """

    def __init__(self, root: Path, n_training: int, share: float) -> None:
        """Start before the first audit.

        Raises:
            UsageError: the share is not in [0, 1).
        """
        if not 0 <= share < 1:
            raise UsageError(f"listed={share!r}: no share below 1", "0.1, or 0 for no list")
        self._root = root
        self._n_training = n_training
        self._share = share
        self._earlier: tuple[int, Scored] | None = None

    def add(self, folder: Path, step: int) -> Listing | None:
        """Read the scores of an audit, and write the list where there is one.

        Args:
            folder: the folder of the audit.
            step: step of its checkpoint.

        Returns:
            None where no list is wanted.
        """
        if not self._share:
            return None
        now = read_scores(folder / EVIDENCE / RECOVERED)
        earlier, before = self._earlier or (None, None)
        foreseen = foresee(before, now, self._share)
        path = self._write(foreseen.listed, step) if foreseen.listed else None
        if now is not None:
            self._earlier = step, now
        return Listing(step, earlier, foreseen, path, self._n_training)

    def _write(self, ids: tuple[str, ...], step: int) -> Path:
        """Write ids, one a line, where their owner alone reads them."""
        folder = self._root / EVIDENCE
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        protect(folder)
        path = folder / f"memorised-step-{step}.txt"
        write_atomically(path, "".join(f"{name}\n" for name in ids).encode(), mode=0o600)
        return path


def read_scores(path: Path) -> Scored | None:
    """Read the scores of documents from an audit's evidence; None where it has none."""
    if not path.is_file():
        return None
    sides: dict[str, dict[str, float]] = {"member": {}, "heldout": {}}
    with path.open(encoding="ascii") as lines:
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            if row.get("attack") == ATTACK and SCORE in row["scores"]:
                sides[row["split"]][row["document"]] = row["scores"][SCORE]
    return Scored(sides["member"], sides["heldout"])


def describe_failure(error: Exception) -> str:
    """Say that no list could be made, without the text of an error, which may hold a page."""
    return str(TEXTS["failed"].format(why=class_and_place(error)))
