"""A sample is made beside its folder, and put in place when all of it is there."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from audit.corpus.documents import Document
from audit.references.encoders import fit, save
from audit.references.recipes import Recipe
from audit.targets.encoders.loading import load


@contextmanager
def drafted(out: Path, parts: Sequence[str]) -> Iterator[Path]:
    """A folder to make everything in, with one thread.

    Then its `parts` take the place of those in `out`.
    """
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix=".build-", suffix=".tmp", dir=out.parent) as draft_name:
        draft = Path(draft_name)
        yield draft
        for part in parts:
            shutil.rmtree(out / part, ignore_errors=True)
            (draft / part).rename(out / part)
    n_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {n_bytes / 1e6:.1f} MB in {time.monotonic() - started:.0f} s")


def fine_tune(start: Path, folder: Path, documents: Sequence[Document], recipe: Recipe) -> None:
    """Train the encoder `start` on documents and save it in `folder`, in half precision."""
    target = load(start)
    pages = [page for one in documents if (page := target.encode(one)) is not None]
    fitted = fit(target.model, target.encoder.tokenizer, pages, recipe)
    save(fitted.model, target.encoder.tokenizer, folder, half=True)
    losses = [round(score.training_loss, 3) for score in fitted.history]
    print(
        f"  {folder.name}: {len(pages)} pages, {recipe.epochs} epochs, loss {losses[0]} -> {losses[-1]}",
        flush=True,
    )
