"""Train references: baselines (f_G) on public documents, split models on halves of the members.

What a model trained as the audited one was, on public documents, also answers with the answer
removed, is generalisation or chance; only the rest can be memory (Pinto et al. 2024, section 3.1;
methods/memorisation.md). To be that yardstick it must be as strong: the same start, recipe, number
of samples and steps.

Extractable memorisation and simplicity (Pinto et al. 2024, appendix C) and the likelihood-ratio
attacks of methods/document-membership.md rest on split models. Each document, with all its
questions, is in exactly half of them.
"""

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from audit import __version__
from audit.arrays import Bools
from audit.corpus.documents import Corpus, Document
from audit.corpus.manifest import open_elsewhere
from audit.engine.driver import LocalEngine
from audit.engine.interface import SILENT, Attempt, Engine, Progress, Trial, Work, WorkSource
from audit.engine.journal import exclusive
from audit.errors import DocauditError, EngineError, ManifestError, UsageError
from audit.files import Fetch, write_atomically
from audit.references import provenance, wording
from audit.references.recipes import key_of, made_once
from audit.references.retrain import (
    AnyRecipe,
    Retraining,
    n_samples,
    recipe_for,
    retrain,
    start_of,
    time_training,
)
from audit.targets.checkpoint.folder import AnyFolder, Places, open_checkpoint, places_of
from audit.targets.opening import open_model, threads, use_threads


@dataclass(frozen=True)
class Material:
    """What a baseline may learn from.

    Attributes:
        documents: the public ones that make samples, in file order, without copies of audited ones.
        n_samples: number of samples that the audited model was trained on: those of the members.
    """

    documents: tuple[Document, ...]
    n_samples: int


def material(corpus: Corpus) -> Material:
    """Return the public documents that stand in for the members, and the number of samples.

    Raises:
        ManifestError: the members make no sample, so that there is nothing to be as strong as; no
            public document makes one; or those that do are all copies of audited documents.
    """
    sample = _sample_words(corpus)
    n_taught = n_samples(corpus, corpus.of("member"))
    if not n_taught:
        raise ManifestError(
            f"no member document has a {sample}", "give what the audited model was trained on"
        )
    useful = [document for document in corpus.of("public") if n_samples(corpus, [document])]
    if not useful:
        raise ManifestError(*wording("nothing_public", sample=sample))
    audited = {
        provenance.content_of(corpus, document) for document in corpus.of("member", "heldout")
    }
    documents = tuple(
        document for document in useful if provenance.content_of(corpus, document) not in audited
    )
    if not documents:
        raise ManifestError(*wording("all_copies", n=len(useful), sample=sample))
    return Material(documents, n_taught)


def _sample_words(corpus: Corpus) -> str:
    """Return in words what a document must have to make a sample."""
    task = corpus.manifest.task
    if task.kind == "parsing":
        return "output"
    return "question with an answer" if task.asks else "word"


def train_baseline(
    start: AnyFolder | None,
    corpus: Corpus,
    out: Path,
    *,
    count: int = 1,
    seed: int | None = None,
    recipe: AnyRecipe | None = None,
    device: str = "cpu",
    half: bool = False,
    progress: Progress = SILENT,
) -> tuple[Path, ...]:
    """Return the folders of baselines, trained or found in `out` by their content.

    Args:
        start: what the audited model was fine-tuned from, or for an NLU model one of its sizes,
            such as itself; None: the manifest's `references.pretrained`.
        corpus: its public documents are learnt from; its member documents say how many samples that
            takes.
        out: holds one folder a baseline, named after everything it depends on; made when missing.
        count: number of models, 1 or more.
        seed: seed of the first one; the next ones count on from it. None: the recipe's.
        recipe: recipe of the training; None: the manifest's `[recipe]`, see `recipe_for`.
        device: "cpu", "cuda" or "mps".
        half: store weights in float16.
        progress: receiver of the progress, told of every epoch.

    Returns:
        The folders of the checkpoints, in the order of their seeds.

    Raises:
        ManifestError: see `material` and `recipe_for`.
        TargetError: see `start_of`; or the start cannot be loaded.
        EngineError: `out` cannot be written.
        ValueError: `count` is under 1.
    """
    if count < 1:
        raise ValueError("count must be 1 or more")
    recipe = recipe_for(corpus) if recipe is None else recipe
    how = Retraining(recipe, device, half)
    learnt = material(corpus)
    folder = start_of(corpus, start)
    first = recipe.seed if seed is None else seed
    return tuple(
        _train_one(how.with_seed(first + n), folder, corpus, learnt, out, progress)
        for n in range(count)
    )


def _train_one(
    how: Retraining,
    start: AnyFolder,
    corpus: Corpus,
    learnt: Material,
    out: Path,
    progress: Progress,
) -> Path:
    """Return the folder of one baseline, trained or found by its inputs.

    Return its folder.
    """
    opened = open_model(start, corpus)
    key = key_of([opened.sha256, corpus.sha256, how.as_json(), __version__])

    def make(folder: Path) -> None:
        """Train the baseline on the public documents and write it to `folder`."""
        progress.stage(f"training a baseline (seed {how.recipe.seed}), epochs", how.recipe.epochs)
        documents = learnt.documents
        retrain(how, opened, corpus, documents, folder, n=learnt.n_samples, progress=progress)
        provenance.write_origin(folder, corpus, documents, opened if how.continues else None)

    return made_once(out / f"baseline-{key}", make)


SECONDS = 5.0
"""For the steps of one training that is timed; a step that was begun is finished."""
N_SPLITS = 16
"""Split models, unless somebody asks for another number."""


def time_references(
    names: Collection[str],
    start: AnyFolder | None,
    corpus: Corpus,
    device: str,
    prepared: Callable[[], Any],
) -> dict[str, tuple[float, float]]:
    """Return the least and the most seconds of training each reference, by name.

    What cannot be trained is left out: it is refused where its training is asked for.

    Args:
        names: "auxiliary", "baselines", "splits".
        start: start of the training, see `train_baseline`.
        corpus: the data set.
        device: "cpu", "cuda" or "mps".
        prepared: gives the `ReferencePlan` by which the auxiliary is trained.
    """
    times: dict[str, tuple[float, float]] = {}
    with suppress(DocauditError):
        if {"baselines", "splits"} & {*names}:
            time = time_training(
                Retraining(recipe_for(corpus), device), start_of(corpus, start), corpus, SECONDS
            )
            times["baselines"] = time.of()
            divisible(corpus)
            times["splits"] = time.of(N_SPLITS, 0.5)
    with suppress(DocauditError):
        if "auxiliary" in names:
            times["auxiliary"] = prepared().time_training(device, SECONDS)
    return {name: seconds for name, seconds in times.items() if name in names}


MIN_DOCUMENTS = 10
"""Fewer member documents, copies counted once, say nothing about membership."""


def halves_of(n_units: int, count: int, seed: int) -> Bools:
    """Return which units each model is trained on: each unit is in half of the models.

    Each unit is in exactly half of them, at random and independently of the others.

    Carlini et al. 2022, section V, as Pinto et al. 2024 use it (appendix C). A draw that leaves a
    model without documents, which happens to a handful of documents only, is drawn again.

    Args:
        n_units: number of units, `MIN_DOCUMENTS` or more.
        count: the number of models, even.
        seed: seed of the draw.

    Returns:
        Shape (n_units, count).
    """
    rng = np.random.default_rng([seed, *b"splits"])
    half = np.arange(count) < count // 2
    while True:
        drawn: Bools = rng.permuted(np.tile(half, (n_units, 1)), axis=1)
        if drawn.any(axis=0).all():
            return drawn


def divisible(corpus: Corpus) -> tuple[list[Document], list[list[int]]]:
    """Return the members that make samples, and the positions of each one and its copies.

    Raises:
        ManifestError: too few of them differ.
    """
    documents = [document for document in corpus.of("member") if n_samples(corpus, [document])]
    copies: dict[Hashable, list[int]] = defaultdict(list)
    for index, document in enumerate(documents):
        copies[provenance.content_of(corpus, document)].append(index)
    if len(copies) < MIN_DOCUMENTS:
        raise ManifestError(*wording("too_few", n=len(copies), least=MIN_DOCUMENTS))
    return documents, [*copies.values()]


def plan(
    corpus: Corpus, how: Retraining, start: AnyFolder, count: int, seed: int
) -> provenance.Splits:
    """Return the plan of split models: their members, with copies in the same models.

    Raises:
        UsageError: `count` is odd or under 2.
        ManifestError: too few member documents make samples.
    """
    if count < 2 or count % 2:
        raise UsageError(
            f"{count} models: each document is to be in half of them",
            "give an even number of models",
        )
    documents, copies = divisible(corpus)
    drawn = np.empty((len(documents), count), bool)
    for indices, row in zip(copies, halves_of(len(copies), count, seed), strict=True):
        drawn[indices] = row
    members = tuple(
        tuple(documents[index].id for index in np.flatnonzero(column)) for column in drawn.T
    )
    key = key_of(
        [open_model(start, corpus).sha256, corpus.sha256, how.as_json(), members, __version__]
    )
    return provenance.Splits(1, corpus.sha256, key, members)


def train_splits(
    start: AnyFolder | None,
    corpus: Corpus,
    out: Path,
    *,
    count: int,
    seed: int = 0,
    recipe: AnyRecipe | None = None,
    device: str = "cpu",
    half: bool = False,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> list[tuple[Path, frozenset[str]]]:
    """Return the folders of K models trained on halves of the members, with their members.

    Those that are in `out` already are not trained again.

    Each has a seed of its own: the recipe's, plus its number.

    Args:
        start: start of the training, see `train_baseline`; None: the manifest's
            `references.pretrained`.
        corpus: the data set.
        out: gets `splits.json` and one folder a model; made when missing. Workers on other machines
            must see it.
        count: K, even (the paper has 50).
        seed: seed of the assignment of documents.
        recipe: recipe of the training; None: the manifest's `[recipe]`, see `recipe_for`.
        device: "cpu", "cuda" or "mps".
        half: store weights in float16.
        engine: runs the trainings; None: one after the other, in this process.
        progress: receiver of the progress, told of every model.

    Returns:
        What `read_splits` does.

    Raises:
        UsageError: `count` is not even, or `out` holds models of another data set, recipe, start or
            assignment.
        ManifestError: too few member documents, or no recipe for the task.
        TargetError: see `start_of`; or the start cannot be loaded.
        EngineError: `out` cannot be written, is held by another run, or is not seen by a worker.
    """
    how = Retraining(recipe_for(corpus) if recipe is None else recipe, device, half)
    folder = start_of(corpus, start)
    splits = plan(corpus, how, folder, count, seed)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(f"{out}: {error.strerror}", "choose another folder") from None
    with exclusive(out):
        _claim(out, splits)
        trials = [
            Trial(str(number), provenance.folder_of(number))
            for number in range(count)
            if not (out / provenance.folder_of(number)).is_dir()
        ]
        progress.stage("training split models", len(trials))
        work = _Training(how, splits, folder, corpus, out)
        distant = places_of(open_model(folder, corpus)), open_elsewhere(corpus)
        source = WorkSource(
            work, _Elsewhere(how, splits.key, out.resolve(), threads(), *distant), _same
        )
        with closing((engine or LocalEngine()).run(source, trials)) as done:
            for _ in done:
                progress.advance()
    return provenance.read_splits(out)


def _claim(out: Path, splits: provenance.Splits) -> None:
    """Write the plan of split models to `out`, or check that it holds the same one."""
    path = out / provenance.SPLITS_FILE
    if path.exists():
        if provenance.read_plan(out).key != splits.key:
            raise UsageError(*wording("other_splits", out=out))
    elif (out / provenance.folder_of(0)).exists():
        raise UsageError(
            f"{out} holds {provenance.folder_of(0)} without {provenance.SPLITS_FILE}",
            "choose another folder",
        )
    else:
        write_atomically(path, (json.dumps(asdict(cast("Any", splits)), indent=1) + "\n").encode())
    for unfinished in out.glob("unfinished-*"):
        shutil.rmtree(unfinished, ignore_errors=True)


@dataclass(frozen=True)
class _Training(Work):
    """The trainings as work for an engine: a trial is a model's number."""

    how: Retraining
    splits: provenance.Splits
    start: AnyFolder
    corpus: Corpus
    out: Path

    def attempt(self, trial: Trial) -> Attempt:
        """Train the model of the trial's number into its folder; no query is yielded."""
        yield from ()
        number = int(trial.id)
        how = self.how.with_seed(self.how.recipe.seed + number)
        documents = [self.corpus.document(name) for name in self.splits.members[number]]
        made_once(
            self.out / provenance.folder_of(number),
            lambda folder: retrain(how, self.start, self.corpus, documents, folder),
        )
        return {"documents": len(documents)}


@dataclass(frozen=True)
class _Elsewhere:
    """Opens the work in another process; models go to the folder all share."""

    how: Retraining
    key: str
    out: Path
    threads: int
    start: Places
    corpus: Callable[[Fetch], Corpus]

    def __call__(self, fetch: Fetch) -> Work:
        """Return the trainings as work of this process, with the start and corpus fetched.

        Raises:
            EngineError: the other process does not see the folder, or got other files.
        """
        use_threads(self.threads)
        splits = (
            provenance.read_plan(self.out)
            if (self.out / provenance.SPLITS_FILE).is_file()
            else None
        )
        if splits is None or splits.key != self.key:
            raise EngineError(
                f"a worker does not see {self.out}", "choose a folder that all machines share"
            )
        start = open_checkpoint(*(fetch(*place) for place in self.start))
        return _Training(self.how, splits, start, self.corpus(fetch), self.out)


def _same(work: Work) -> Work:
    """Return the work unchanged."""
    return work
