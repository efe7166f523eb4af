"""Train models like the audited one, with its start and recipe, on other documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import numpy as np

from audit.corpus.documents import Corpus, Document
from audit.corpus.images import open_image
from audit.corpus.tagging import canonical
from audit.engine.interface import SILENT, Progress
from audit.errors import ManifestError, TargetError, typed
from audit.references import TEXTS, trainer
from audit.references.encoders import BestLoss, fit, save
from audit.references.recipes import (
    AnsweringRecipe,
    Recipe,
    adapting,
    starting_model,
    without_weights,
)
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.checkpoint.safety import hub_hint, refuse_training
from audit.targets.encoders.encoding import Encoder, unknown_labels
from audit.targets.encoders.families import family_of
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.loading import max_tokens_of, page_images_of
from audit.targets.extractive import ExtractiveTarget, load_extractive
from audit.targets.opening import answering_of, open_model, target_of, trainer_of

AnyRecipe = AnsweringRecipe | Recipe | Any
"""Of another kind: what an extension trains its models with."""
Item = TypeVar("Item")
Folder = TypeVar("Folder", bound=AnyFolder)
_LABELLED = ("token-classification", "document-classification", "spade-extraction")


@dataclass(frozen=True)
class Retraining:
    """How models like the audited one are trained; can be pickled.

    Attributes:
        recipe: an `AnsweringRecipe` for models that answer questions, a `Recipe` for encoders under
            a head, or that of an extension's models (`Opener.recipe`).
        device: "cpu", "cuda" or "mps".
        half: store weights in float16.
    """

    recipe: AnyRecipe
    device: str = "cpu"
    half: bool = False

    def with_seed(self, seed: int) -> Retraining:
        """Return this training with another seed."""
        return replace(self, recipe=replace(self.recipe, seed=seed))

    @property
    def continues(self) -> bool:
        """Test whether training goes on from the weights of the start.

        An extension's model takes its sizes alone.
        """
        return isinstance(self.recipe, AnsweringRecipe | Recipe)

    def as_json(self) -> dict[str, Any]:
        """Return the training's settings by name, for a cache key."""
        return asdict(self)


def recipe_for(corpus: Corpus) -> AnyRecipe:
    """Return the recipe of the manifest's task, with docaudit's defaults for what it leaves out.

    Raises:
        ManifestError: docaudit trains no models of this task.
    """
    task = corpus.manifest.task
    settings = ["epochs", "learning_rate", "batch_size", "seed"]
    if task.asks:
        settings += ["prompt", "system"]
    stated = {name: getattr(corpus.manifest.recipe, name) for name in settings}
    values = {name: value for name, value in stated.items() if value is not None}
    if task.asks:
        return AnsweringRecipe(**values)
    extension = trainer_of(task.kind)
    if extension is None and task.kind not in get_args(HeadName):
        raise ManifestError(f"manifest.toml task.kind: docaudit trains no models for {task.kind}")
    if extension is None or extension.recipe is None:
        return Recipe(**values)
    return extension.recipe(**values)


def start_of(corpus: Corpus, given: Folder | None) -> Folder | Path:
    """Return the folder that the audited model was fine-tuned from.

    It is `given`, or the manifest's `references.pretrained`.

    Raises:
        TargetError: neither names it, or there is no such folder.
    """
    in_manifest = corpus.manifest.references.pretrained
    if isinstance(given, CheckpointFolder):
        return given
    if given is None and in_manifest is None:
        is_continued = trainer_of(corpus.manifest.task.kind) is None
        raise TargetError(*TEXTS["no_start" if is_continued else "no_size"])
    start = given if given is not None else corpus.root / str(in_manifest)
    if not start.is_dir():
        raise TargetError(f"reference pretrained: {typed(start)} is not a folder", hub_hint(start))
    return start


def check_start(corpus: Corpus, start: Path, model_dir: Path) -> None:
    """Refuse to train on from the audited model: what comes of it knows what the model remembers.

    Raises:
        TargetError: the start holds the audited model's weights.
    """
    if trainer_of(corpus.manifest.task.kind) is not None:
        return  # its sizes alone are taken
    if open_model(start, corpus).beginning.weights & open_model(model_dir, corpus, start).weights:
        raise TargetError(
            f"reference pretrained: {typed(start)} holds the audited model's own weights",
            "name what the model was fine-tuned from: --reference pretrained=PATH",
        )


def n_samples(corpus: Corpus, documents: Sequence[Document]) -> int:
    """Return the number of training samples that these documents make.

    They are questions with an answer, pages with words for an encoder, or for parsing pages with an
    output.
    """
    if corpus.manifest.task.kind == "parsing":
        return sum(document.output is not None for document in documents)
    if corpus.manifest.task.asks:
        return sum(map(_count_answered, documents))
    return sum(bool(document.words) for document in documents)


def _count_answered(document: Document) -> int:
    """Return the number of a document's questions that have an answer."""
    return sum(bool(question.answers) for question in document.questions)


def repeat_to(items: Sequence[Item], n: int, seed: int) -> tuple[Item, ...]:
    """Return `n` drawn items in their order; each is drawn again only after all others."""
    rng = np.random.default_rng([seed, *b"repeated"])
    drawn: list[int] = []
    while len(drawn) < n:
        drawn += [int(index) for index in rng.permutation(len(items))]
    return tuple(items[index] for index in sorted(drawn[:n]))


def retrain(
    how: Retraining,
    start: AnyFolder,
    corpus: Corpus,
    documents: Sequence[Document],
    folder: Path,
    *,
    n: int | None = None,
    progress: Progress = SILENT,
) -> None:
    """Train a model on these documents and write its checkpoint.

    Args:
        how: the recipe, of the kind that the corpus's task needs (`recipe_for`).
        start: what the audited model was fine-tuned from; for an extension's one of its sizes, such
            as itself; an adapter stands for its base, and says how an adapter over that is to be
            trained.
        corpus: the documents' data set.
        documents: what to train on.
        folder: folder that the checkpoint goes into; made when missing.
        n: samples an epoch: they are repeated or cut to so many. None: as many as there are.
        progress: advanced after every epoch; the stage is the caller's.

    Raises:
        TargetError: the start cannot be loaded or trained, or the documents make no sample.
        ManifestError: pages lack the images that the model reads, or the labels that it is to give.
    """
    start = without_weights(open_model(start, corpus))
    refuse_training(start, start.config)
    recipe = how.recipe
    extension = trainer_of(corpus.manifest.task.kind)
    train = None if extension is None else extension.train
    if train is not None and not isinstance(recipe, AnsweringRecipe):
        model = target_of(start, corpus)
        assert not isinstance(model, AnsweringTarget | ExtractiveTarget)
        labelled = _with_known_labels(documents, model.unknown_names(documents))
        samples = _as_many(labelled, n, recipe.seed)
        train(start, samples, recipe, folder, progress, half=how.half)
        return
    learner = _learner_of(how, start, corpus, documents, n)
    with adapting(learner.model, start, how.recipe.seed):
        learner.fit(BestLoss(progress.advance))
    learner.save(folder)


def time_training(
    how: Retraining, start: AnyFolder, corpus: Corpus, seconds: float
) -> trainer.TrainingTime:
    """Return the estimated time of training on the members, from a few steps that are run.

    They are run for so many seconds at most.

    For the errors see `retrain`; models that an extension trains are not timed.
    """
    began = time.perf_counter()
    watch = BestLoss(lambda: None, seconds=seconds)
    start = without_weights(open_model(start, corpus))
    learner = _learner_of(how, start, corpus, corpus.of("member"), None)
    with adapting(learner.model, start, how.recipe.seed):
        learner.fit(watch)
    return watch.time_since(began)


@dataclass(frozen=True)
class _Learner:
    """A model that is about to be trained.

    Attributes:
        model: the model.
        fit: fits it in place.
        save: writes its checkpoint into a folder.
    """

    model: Any
    fit: Callable[[BestLoss], object]
    save: Callable[[Path], None]


def _learner_of(
    how: Retraining,
    start: CheckpointFolder,
    corpus: Corpus,
    documents: Sequence[Document],
    n: int | None,
) -> _Learner:
    """Return the start under the task's head, with the samples of the documents."""
    recipe = how.recipe
    if isinstance(recipe, AnsweringRecipe):
        return _asked_learner(how, recipe, start, corpus, documents, n)
    model, encoder = under_head(start, corpus, recipe.seed)
    labelled = _with_known_labels(
        documents, unknown_labels(encoder.task, encoder.labels, documents)
    )
    pages = [page for page in map(encoder.encode, labelled) if page is not None]
    if encoder.task == "document-classification":
        pages = [page for page in pages if page.has_loss]
    samples = _as_many(pages, n, recipe.seed)
    return _Learner(
        model,
        lambda watch: fit(
            model, encoder.tokenizer, samples, recipe, device=how.device, watch=watch
        ),
        lambda folder: save(
            model, encoder.tokenizer, folder, half=how.half, processor_of=start.path
        ),
    )


def _asked_learner(
    how: Retraining,
    recipe: AnsweringRecipe,
    start: CheckpointFolder,
    corpus: Corpus,
    documents: Sequence[Document],
    n: int | None,
) -> _Learner:
    """Return the start as a model that is asked questions, with the documents' samples."""
    target: Any
    samples: Sequence[Any]
    fit_target: Callable[..., object]
    if trainer.trains_pointing(start, corpus):
        target = load_extractive(start, device=how.device, fresh_head=recipe.seed)
        samples = trainer.pointed_samples(corpus, documents)
        fit_target = trainer.fit_extractive
    else:
        target = answering_of(start, corpus, how.device)
        samples = trainer.samples_of(corpus, documents)
        fit_target = trainer.fit_answering
        if start.adapter is None:
            target.model.float()  # small steps vanish in the rounding of half-precision weights
    target.check(corpus)
    taught: Any = _as_many(samples, n, recipe.seed)
    return _Learner(
        target.model,
        lambda watch: fit_target(target, taught, recipe, watch),
        lambda folder: trainer.save_answering(target.model, start.path, folder, half=how.half),
    )


def _with_known_labels(
    documents: Sequence[Document], unknown: Mapping[str, object]
) -> Sequence[Document]:
    """Return the documents all of whose labels the model has.

    Others would teach it that their fields are none.
    """
    return [document for document in documents if document.id not in unknown]


def _as_many(items: Sequence[Item], n: int | None, seed: int) -> Sequence[Item]:
    """Return `n` items, repeated where there are fewer; all of them where `n` is None."""
    return items if n is None or not items else repeat_to(items, n, seed)


def under_head(start: CheckpointFolder, corpus: Corpus, seed: int) -> tuple[Any, Encoder]:
    """Return the start's model under the task's head, and the encoder of its pages.

    Args:
        start: a checkpoint of a known family, with any head or none.
        corpus: names the task and its labels, and opens the pages' images.
        seed: what is fresh of the head follows from it.

    Raises:
        TargetError: see `starting_model`.
        ManifestError: the manifest lacks the labels that the model is to give.
    """
    task = corpus.manifest.task
    if task.kind in _LABELLED and not task.labels:
        raise ManifestError(
            "manifest.toml task.labels: missing, and a model is to be trained to give them"
        )
    head = cast("HeadName", task.kind)
    labels = task.labels if task.kind in _LABELLED else ()
    model = starting_model(start, head, labels=task.labels, seed=seed)
    tokenizer = load_tokenizer(start)
    family = family_of(model.config.model_type)
    assert family is not None
    encoder = Encoder(
        tokenizer,
        max_tokens_of(model.config, tokenizer),
        labels=canonical(labels, task.outside) if task.kind == "token-classification" else labels,
        label_all_tokens=corpus.manifest.recipe.label_all_tokens,
        needs_boxes=family.boxes is not None,
        task=head,
        page_images=page_images_of(start, model.config, partial(open_image, corpus)),
    )
    return model, encoder
