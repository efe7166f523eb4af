"""Teaching a fresh model to read, in rounds that are kept, until it reads pages that it never saw."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from receipts_generator import Receipt

from audit.corpus import manifest
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Task
from audit.measurements import Estimate
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import samples_of
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.utility import usefulness
from benchmarks.gpu.work import Json, NotTestedError, Work
from benchmarks.papers.provider_invoices_data import Sizes, png, pretraining
from benchmarks.papers.provider_invoices_training import fit
from benchmarks.papers.vqa_sroie_guessing import guesses

ROUND_SECONDS = 240.0
"""Kept free for a round: it is not begun with less."""
DRAWN_BY = 8
"""Processes that draw pages."""


def write_others(
    folder: Path, sizes: Sizes, *, drawn: bool, change: Callable[[Document], Document] | None = None
) -> None:
    """Write invoices of providers that nobody audits, as a corpus of its own.

    Args:
        folder: a new one, or empty.
        sizes: how many.
        drawn: with the pictures of their pages.
        change: made of each document, such as what an OCR misreads.
    """
    (folder / "images").mkdir(parents=True)
    made = list(pretraining(sizes))
    if drawn:
        jobs = [(receipt, folder / str(document.image)) for receipt, document in made]
        count = min(DRAWN_BY, os.cpu_count() or 1)
        if count == 1 or len(jobs) < 100:
            for job in jobs:
                _draw(job)
        else:
            with multiprocessing.get_context("fork").Pool(count) as pool:
                pool.map(_draw, jobs, chunksize=20)
    documents = [
        replace(document, split="member", image=document.image if drawn else None)
        for _, document in made
    ]
    documents = documents if change is None else [*map(change, documents)]
    about = Manifest(1, "other invoices", Task("question-answering"), Membership("by-provider"))
    manifest.write(folder, about, documents)


def _draw(job: tuple[Receipt, Path]) -> None:
    receipt, path = job
    path.write_bytes(png(receipt))


def texts_of(corpus: Corpus) -> list[str]:
    """What a vocabulary is learnt from: words, questions and answers of documents that nobody audits."""
    asked = {
        text
        for document in corpus.documents
        for one in document.questions
        for text in (one.question, *one.answers)
    }
    return [
        *sorted(asked),
        *(" ".join(word.text for word in document.words) for document in corpus.documents),
    ]


def draw_samples(corpus: Corpus, number: int, count: int, only: str | None = None) -> list[Sample]:
    """The samples of a round, drawn anew for each; `only` the questions of this name."""
    rng = random.Random(f"round {number}")
    documents = list(corpus.documents)
    if only is not None:
        documents = [
            replace(one, questions=tuple(asked for asked in one.questions if asked.id == only))
            for one in documents
        ]
    samples = list(samples_of(corpus, documents))
    return rng.sample(samples, min(count, len(samples)))


def learn_to_read(
    work: Work,
    start: Path,
    draw: Callable[[int], Sequence[Sample]],
    corpus: Corpus,
    recipe: AnsweringRecipe,
    enough: Callable[[Json], bool],
    most: int,
) -> tuple[Path, list[Json]]:
    """Train in rounds until a model reads well enough.

    Args:
        work: keeps the rounds.
        start: the fresh checkpoint.
        draw: gives the samples of a round.
        corpus: its held-out documents say how well the model reads.
        recipe: of a round.
        enough: judges what `read` gives.
        most: rounds; in a tiny run one is taken, whatever it reaches.

    Returns:
        The checkpoint, and what each round reached.

    Raises:
        NotTestedError: no round reached enough.
    """
    reached: list[Json] = []
    folder = start
    for number in range(most):
        before = folder
        folder = work.folder / f"round-{number}"
        job = partial(_one_round, before, folder, draw, number, recipe, corpus, work)
        reached.append(work.step(f"round-{number}", job, ROUND_SECONDS))
        if enough(reached[-1]) or work.tiny:
            return folder, reached
        if number and before.exists():
            shutil.rmtree(before)
    raise NotTestedError(
        f"after {most} rounds the model does not read well enough: "
        + ", ".join(f"ANLS {one['anls']:.3f}, guessing {one['guess']:.3f}" for one in reached[-1:])
    )


def _one_round(
    before: Path,
    folder: Path,
    draw: Callable[[int], Sequence[Sample]],
    number: int,
    recipe: AnsweringRecipe,
    corpus: Corpus,
    work: Work,
) -> Json:
    log = work.folder / f"round-{number}.json"
    fit(before, folder, draw(number), replace(recipe, seed=recipe.seed + number), log, work.device)
    return read(folder, corpus, work.device)


def read(model: Path, corpus: Corpus, device: str) -> dict[str, Any]:
    """Held-out ANLS with its interval, and what the strongest way to guess without a page reaches."""
    (found,) = usefulness(load_answering(model, device=device), corpus, 0)
    assert isinstance(found, Estimate), found
    return {
        "anls": found.value,
        "low": found.low,
        "high": found.high,
        "guess": max(guesses(corpus).values()),
    }


def beats_guessing(reached: Json) -> bool:
    """Whether the whole interval lies above guessing."""
    return bool(reached["low"] > reached["guess"])


def round_lines(reached: Sequence[Json]) -> list[str]:
    """A row a round."""
    text = ["| round | held-out ANLS | guessing without a page |", "|---|---|---|"]
    for number, one in enumerate(reached, start=1):
        text.append(
            f"| {number} | {one['anls']:.3f} [{one['low']:.3f}, {one['high']:.3f}] | {one['guess']:.3f} |"
        )
    return text
