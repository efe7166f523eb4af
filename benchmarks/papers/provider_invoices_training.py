"""How the models of `provider_invoices.py` are trained, and what is written down of it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.progress import Progress
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import fit_answering, save_answering
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample


@dataclass
class Epochs(Progress):
    """Progress that prints every epoch."""

    name: str
    total: int
    done: int = 0

    def stage(self, name: str, total: int = 0) -> None:
        """See `Progress.stage`."""

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        self.done += steps
        print(f"{self.name}: epoch {self.done} of {self.total}", flush=True)


def fit(
    start: Path,
    folder: Path,
    samples: Sequence[Sample],
    recipe: AnsweringRecipe,
    log: Path,
    device: str = "cpu",
) -> None:
    """Train the checkpoint `start` on samples and save it in `folder`.

    How that went goes into `log`.
    """
    began = time.monotonic()
    target = load_answering(start, device=device)
    losses = fit_answering(target, samples, recipe, Epochs(folder.name, recipe.epochs))
    save_answering(target.model, start, folder)
    content = {
        "epochs": recipe.epochs,
        "batch_size": recipe.batch_size,
        "learning_rate": recipe.learning_rate,
        "samples": len(samples),
        "parameters": target.card.parameters,
        "losses": losses,
        "seconds": round(time.monotonic() - began, 1),
    }
    log.write_text(json.dumps(content, indent=1) + "\n")
    print(
        f"{folder.name}: loss {losses[0]:.2f} -> {losses[-1]:.2f} in {content['seconds']} s",
        flush=True,
    )
