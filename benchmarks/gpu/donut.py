"""Donut-shaped models at three resolutions: taught to read first, then the trend of what they memorise."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from small_donut import Size, write_untrained

from audit.corpus import manifest
from audit.corpus.documents import Corpus, ReferencePaths, TrainingRecipe
from audit.references.recipes import AnsweringRecipe, made_once
from audit.targets.answering.reader import Sample
from benchmarks.gpu.learning import (
    beats_guessing,
    draw_samples,
    learn_to_read,
    round_lines,
    texts_of,
    write_others,
)
from benchmarks.gpu.work import Json, NotTestedError, Result, Work
from benchmarks.papers import vqa_sroie, vqa_sroie_report
from benchmarks.papers.provider_invoices_data import Sizes, write_data
from benchmarks.papers.vqa_sroie_findings import Audited, resolution_lines

SIDES = {
    False: {"low": (96, 96), "middle": (160, 160), "high": (256, 256)},
    True: {"low": (64, 64), "middle": (64, 96), "high": (96, 96)},
}
"""Height and width in pixels of what the model sees, by name, and by whether the run is tiny."""
SIZES = {False: Sizes(160, 340, 3000), True: Sizes(2, 6, 4)}
"""Providers in (two invoices each), public ones (one each), and those that it learns to read from
(two each)."""
DIMENSION = 64
PIECES = 600
POSITIONS = 64
EPOCHS = {False: 20, True: 2}
LEARNING_RATE = 1e-3
BATCH = {False: 32, True: 4}
ROUND = 24_000
MOST_ROUNDS = 10
"""Samples of a round, and rounds."""
FIRST_ROUNDS = 2
FIRST_READ = "trade"
"""A model that is asked everything from the start learns which answers there are and never to
look."""
CONTEXTS = ("exact", "paraphrased", "shuffled")
NOTE = (
    "Weights start fresh; the model learns to read invoices of other providers until its held-out ANLS beats every way "
    "to guess, then the members' (two invoices of each provider); one baseline, of public documents. Intervals (95 %) "
    "are over documents, not over trainings. All numbers are ours (`benchmarks/gpu/donut.py`), none was tuned on a GPU."
)


def audit_resolution(work: Work, *, argument: str) -> Result:
    """Teach, fine-tune and audit one resolution."""
    kept = work.folder_of("donut")
    corpus, others = shared_data(work)
    reading = AnsweringRecipe(
        epochs=1,
        learning_rate=LEARNING_RATE,
        batch_size=BATCH[work.tiny],
        bf16=work.device == "cuda",
    )
    size = SIDES[work.tiny][argument]
    start = work.folder / "start"
    work.step("start", partial(write_start, start, size, others))

    def draw(number: int) -> list[Sample]:
        return draw_samples(
            others, number, ROUND, FIRST_READ if number < FIRST_ROUNDS and not work.tiny else None
        )

    reads, reached = learn_to_read(work, start, draw, corpus, reading, beats_guessing, MOST_ROUNDS)
    setting = vqa_sroie.Setting("donut", size)
    options = SimpleNamespace(
        work=work.folder / "audited",
        out=kept / "records",
        device=work.device,
        bf16=work.device == "cuda",
        share=0.25 if work.tiny else 1.0,
        contexts=CONTEXTS,
    )
    for folder in (options.work, options.out):
        folder.mkdir(exist_ok=True)
    work.step("train", partial(_done, vqa_sroie.train, setting, corpus.root, reads, options), 240.0)
    work.step("audit", partial(_done, vqa_sroie.audit_model, setting, corpus.root, options))
    one = Audited.read(options.out, setting.name)
    text = [
        NOTE,
        "",
        *round_lines(reached),
        "",
        *vqa_sroie_report.readings([one]),
        "",
        vqa_sroie_report.SETS,
        "",
    ]
    text += [*vqa_sroie_report.sets([one]), "", vqa_sroie_report.PAPER]
    return Result(
        {
            "rounds": reached,
            "attacks": json.loads((options.out / f"{setting.name}.json").read_text()),
        },
        text,
    )


def trend(work: Work) -> Result:
    """What is memorised at neighbouring resolutions, paired by question."""
    folder = work.folder_of("donut") / "records"
    settings = [
        Audited.read(folder, path.name.removesuffix(".answers.json"))
        for path in folder.glob("*.answers.json")
    ]
    if len(settings) < 2:
        raise NotTestedError("fewer than two resolutions read better than guessing")
    settings.sort(key=lambda one: one.pixels)
    found = resolution_lines(settings)
    return Result(
        {"findings": found},
        [*vqa_sroie_report.sets(settings), "", *found, "", vqa_sroie_report.PAPER],
    )


def shared_data(work: Work) -> tuple[Corpus, Corpus]:
    """The audited corpus, and the invoices that models learn to read from.

    Made once for all resolutions.
    """
    kept = work.folder_of("donut")
    sizes = SIZES[work.tiny]
    data = kept / "data"
    others = kept / "others"

    def write(folder: Path) -> None:
        recipe = TrainingRecipe(
            epochs=EPOCHS[work.tiny],
            learning_rate=LEARNING_RATE,
            batch_size=BATCH[work.tiny],
            seed=0,
        )
        write_data(folder, sizes, recipe)
        corpus = manifest.load(folder)
        # The start of each resolution is its own.
        manifest.write(
            folder, replace(corpus.manifest, references=ReferencePaths()), corpus.documents
        )

    made_once(data, write)
    made_once(others, partial(write_others, sizes=sizes, drawn=True))
    return manifest.load(data), manifest.load(others)


def write_start(folder: Path, size: tuple[int, int], others: Corpus) -> Json:
    """A Donut with fresh weights at one resolution."""
    shape = Size(
        height=size[0], width=size[1], n_pieces=PIECES, positions=POSITIONS, dimension=DIMENSION
    )
    write_untrained(folder, shape, texts_of(others), 0)
    return {"height": size[0], "width": size[1]}


def _done(function: object, *given: object) -> Json:
    function(*given)  # type: ignore[operator]
    return {}
