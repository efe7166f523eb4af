"""Fine-tuning with transformers' Trainer.

Here are what all models share, and models that answer questions about a page. Those are of any
family, and read through the family's own reader. The loop is the Trainer's; docaudit makes the
batch: pages are opened with a batch and let go with it.
"""

import copy
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments

from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.folding import places_of
from audit.corpus.images import PageView, page_view
from audit.engine.interface import SILENT, Progress
from audit.errors import TargetError
from audit.files import PrivateFolder
from audit.references import wording
from audit.references.recipes import AnsweringRecipe, Schedule, reproducible
from audit.targets.answering.loading import is_answering
from audit.targets.answering.reader import Sample
from audit.targets.answering.rows import unopened
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint
from audit.targets.checkpoint.loading import not_finite
from audit.targets.checkpoint.safety import quiet
from audit.targets.checkpoint.tree import files_of
from audit.targets.extractive import TASK, ExtractiveTarget, is_extractive, may_point
from audit.targets.spans import SpanReader, WindowSample


@dataclass(frozen=True)
class EpochScore:
    """How an epoch ended: losses in nats per predicted token; None without validation pages."""

    epoch: int
    training_loss: float
    validation_loss: float | None = None


@dataclass(frozen=True)
class TrainingTime:
    """The duration of a training.

    Attributes:
        before: seconds before its first step.
        n_steps: its steps.
        least, most: seconds of each step.
    """

    before: float
    n_steps: int
    least: float
    most: float

    def of(self, n_models: int = 1, share: float = 1.0) -> tuple[float, float]:
        """Return the least and the most seconds of `n_models` trainings.

        Args:
            n_models: trainings, one after the other.
            share: share of the samples that each is on.
        """
        n_steps = share * self.n_steps
        least = n_models * (self.before + n_steps * self.least)
        return least, n_models * (self.before + n_steps * self.most)


TIMED = 16
"""Steps of a training that is timed, at most."""
SLOWER = 1.4
"""How much slower, or faster, a whole training may run than the steps that were timed (chosen
here)."""


@dataclass
class EpochWatch(TrainerCallback):  # type: ignore[misc]
    """Keeps the training loss of each epoch, and calls `on_epoch` after it.

    It times steps until `seconds` are over.
    """

    on_epoch: Callable[[], None]
    history: list[EpochScore] = field(default_factory=list)
    seconds: float = math.inf
    n_steps: int = 0
    ends: list[float] = field(default_factory=list)

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        """Record the time at which training begins, and its number of steps."""
        self.n_steps = state.max_steps
        self.ends = [time.perf_counter()]

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        """Record the time at which a step ends; stop the training once its time is over."""
        if self.seconds < math.inf and torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())
        if self.seconds < math.inf:
            is_over = self.ends[-1] - self.ends[0] > self.seconds
            control.should_training_stop = len(self.ends) > TIMED or is_over

    def time_since(self, began: float) -> TrainingTime:
        """Return the estimated time of the whole training, from its steps so far.

        The first step warms up.
        """
        steps = np.diff(self.ends)[min(1, len(self.ends) - 2) :]
        doubt = 2 * steps.std() / math.sqrt(len(steps)) if len(steps) > 2 else steps.mean() / 2
        least = (steps.mean() - doubt) / SLOWER
        most = (steps.mean() + doubt) * SLOWER
        return TrainingTime(self.ends[0] - began, self.n_steps, max(0.0, least), most)

    def on_log(
        self, args: Any, state: TrainerState, control: Any, logs: dict[str, float], **_: Any
    ) -> None:
        """Record the loss of an epoch that has ended, and report its progress."""
        if "loss" in logs:
            self.history.append(EpochScore(round(state.epoch or 0), logs["loss"]))
            self.on_epoch()


Follower = Progress | EpochWatch
"""What follows the epochs of a training."""


class MixedTrainer(Trainer):  # type: ignore[misc]
    """Computes in bfloat16 when the recipe says so.

    The Trainer's own switch does nothing on a CPU.
    """

    bf16 = False

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], *rest: Any, **more: Any
    ) -> Any:
        """Return the model's own loss of a batch, in bfloat16 where training uses it."""
        with torch.autocast(
            next(iter(inputs.values())).device.type, torch.bfloat16, enabled=self.bf16
        ):
            return super().compute_loss(model, inputs, *rest, **more)


def train(
    trainer: type[MixedTrainer],
    model: Any,
    samples: Sequence[Any],
    recipe: Schedule,
    device: str,
    *,
    collator: Callable[[Any], Any],
    watch: EpochWatch,
    validation: Sequence[Any] = (),
) -> None:
    """Train a model in place with a Trainer that keeps nothing on disk and prints nothing.

    Args:
        trainer: its class.
        model: any transformers model.
        samples: the training samples.
        recipe: recipe by which the weights are fitted.
        device: "cpu", "cuda" or "mps".
        collator: makes a batch of some samples.
        watch: follows the epochs.
        validation: samples whose loss is computed after every epoch, when there are some.
    """
    with PrivateFolder() as scratch, reproducible(device), quiet(warn=True):
        fitting = trainer(
            model=model,
            args=TrainingArguments(
                output_dir=str(scratch),
                num_train_epochs=recipe.epochs,
                learning_rate=recipe.learning_rate,
                per_device_train_batch_size=recipe.batch_size,
                per_device_eval_batch_size=recipe.batch_size,
                weight_decay=recipe.weight_decay,
                warmup_steps=recipe.warmup_share,
                seed=recipe.seed,
                use_cpu=device == "cpu",
                logging_strategy="epoch",
                eval_strategy="epoch" if validation else "no",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                remove_unused_columns=False,
                label_names=["labels"],
            ),
            data_collator=collator,
            train_dataset=list(samples),
            eval_dataset=list(validation) or None,
            callbacks=[watch],
        )
        fitting.bf16 = recipe.bf16
        fitting.remove_callback(PrinterCallback)
        fitting.train()


def store(model: Any, folder: Path, *, half: bool) -> None:
    """Write a model's configuration and weights to a folder.

    Args:
        model: any transformers model; left as it is.
        folder: folder that is made when it is missing.
        half: weights in float16, half the size (docaudit computes in float32 all the same).

    Raises:
        TargetError: the training ran away: a parameter is not finite.
    """
    broken = not_finite(model)
    if broken:
        raise TargetError(*wording("diverged", n=len(broken)))
    transformers.utils.logging.disable_progress_bar()
    stored = copy.deepcopy(model).half() if half else model
    stored.save_pretrained(folder)


_SHARDS = "model.safetensors.index.json"


def samples_of(corpus: Corpus, documents: Sequence[Document]) -> tuple[Sample, ...]:
    """Return the documents' questions, each with its first accepted answer.

    For parsing their whole outputs, one a document.
    """
    samples: list[Sample] = []
    parses = corpus.manifest.task.kind == "parsing"
    for document in documents:
        view = page_view(corpus, document)
        if not parses:
            samples += [
                Sample(view, question.question, question.answers[0])
                for question in document.questions
                if question.answers
            ]
        elif document.output is not None:
            samples.append(Sample(view, "", document.output))
    return tuple(samples)


def fit_answering(
    target: AnsweringTarget,
    samples: Sequence[Sample],
    recipe: AnsweringRecipe,
    progress: Follower = SILENT,
) -> tuple[float, ...]:
    """Fine-tune the target's model on samples, in place, and return the loss of each epoch.

    It ends in evaluation mode.

    On the CPU the same start, samples and recipe give the same weights.

    Args:
        target: gives the model and the reader that makes its inputs.
        samples: samples, at least one; each has an answer. Images are opened batch by batch and not
            kept.
        recipe: how.
        progress: advanced after every epoch; the stage is the caller's.

    Returns:
        The mean training loss of each epoch, nats per token of the answers: shape (n_epochs,).

    Raises:
        TargetError: there is no sample, or a sample without an answer.
    """
    if any(sample.answer is None for sample in samples):
        raise TargetError("a question to train on has no answer")
    # A page view keeps the image it has opened as long as it lives: these copies live as long as
    # the batch.
    return _fit(
        target, samples, recipe, lambda batch: target.reader.taught(unopened(batch)), progress
    )


def _fit(
    target: AnsweringTarget | ExtractiveTarget,
    samples: Sequence[Any],
    recipe: AnsweringRecipe,
    collator: Callable[[Any], Any],
    progress: Follower,
) -> tuple[float, ...]:
    """Fine-tune the model of a question-answering target, and return the loss of each epoch."""
    if not samples:
        raise TargetError(
            "there is no question to train on",
            "give documents with questions in the split that trains",
        )
    device = target.card.device
    watch = progress if isinstance(progress, EpochWatch) else EpochWatch(progress.advance)
    train(MixedTrainer, target.model, samples, recipe, device, collator=collator, watch=watch)
    target.model.to(device).eval()
    return tuple(score.training_loss for score in watch.history)


def save_answering(model: Any, start: Path, folder: Path, *, half: bool = False) -> None:
    """Write a checkpoint that `audit.targets.answering.loading.load_answering` reads.

    Args:
        model: a transformers model; left as it is.
        start: the checkpoint that it was fitted from: its tokenizer and processor go along as they
            are.
        folder: folder that is made when it is missing.
        half: weights in float16, half the size (docaudit computes in float32 all the same).

    Raises:
        TargetError: see `trainer.store`.
    """
    store(model, folder, half=half)
    # After the model: the start's own generation settings are the checkpoint's, not those that a
    # target is asked with.
    for name, path in files_of(start).items():
        if path.suffix != ".safetensors" and name not in ("config.json", _SHARDS):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / name)


@dataclass(frozen=True, eq=False)
class PointedSample:
    """A question, its page, and the first and last word of the answer.

    None: it does not stand on the page.
    """

    view: PageView
    question: str
    words: tuple[int, int] | None


def trains_pointing(start: AnyFolder, corpus: Corpus) -> bool:
    """Test whether models trained from this start point at answers, rather than write them.

    Raises:
        TargetError: the start is no checkpoint, or is unsafe to load.
    """
    start = open_checkpoint(start)
    if corpus.manifest.task.kind == TASK or is_extractive(start):
        return True
    return not is_answering(start) and may_point(start)


def pointed_samples(corpus: Corpus, documents: Sequence[Document]) -> tuple[PointedSample, ...]:
    """Return the documents' questions, each with the place of its first accepted answer.

    Opens no image.

    That is the question's entity where its words follow each other, else the first place where the
    page has the answer.
    """
    samples: list[PointedSample] = []
    for document in documents:
        if not document.words:
            continue
        view = page_view(corpus, document)
        samples += [
            PointedSample(view, question.question, _answer_words(document, question))
            for question in document.questions
            if question.answers
        ]
    return tuple(samples)


def _answer_words(document: Document, question: Question) -> tuple[int, int] | None:
    """Return the first and last word of a question's answer; None where it is not on the page."""
    entities = (entity for entity in document.entities if entity.id == question.entity)
    entity = next(entities, None)
    if entity is not None and entity.words[-1] - entity.words[0] == len(entity.words) - 1:
        return entity.words[0], entity.words[-1]
    return next(iter(places_of(question.answers[0], document.words)), None)


def fit_extractive(
    target: ExtractiveTarget,
    samples: Sequence[PointedSample],
    recipe: AnsweringRecipe,
    progress: Follower = SILENT,
) -> tuple[float, ...]:
    """Fine-tune an extractive target's model in place, and return the loss of each epoch.

    It ends in evaluation mode.

    A sample is one row: the first window that holds the answer, or the page's first window and "no
    answer" ( transformers' run_qa.py takes every window). On the CPU the same start, samples and
    recipe give the same weights.

    Args:
        target: gives the model and the reader that makes its inputs.
        samples: samples, at least one. Images are opened batch by batch and not kept.
        recipe: recipe of the training; its prompt is not read.
        progress: advanced after every epoch; the stage is the caller's.

    Returns:
        The mean training loss of each epoch, nats: shape (n_epochs,).

    Raises:
        TargetError: there is no sample.
    """
    return _fit(target, samples, recipe, _PointingCollator(target.reader), progress)


@dataclass(frozen=True)
class _PointingCollator:
    """Makes a batch. Pages are opened here."""

    reader: SpanReader

    def __call__(self, samples: Sequence[PointedSample]) -> dict[str, torch.Tensor]:
        """Return samples as one batch, with the positions of begin and end of answers."""
        rows, spans = zip(*map(self._row, samples), strict=True)
        batch = self.reader.batch(rows, max(len(row.window.ids) for row in rows))
        begins, ends = torch.tensor(spans, dtype=torch.long).T
        return {**batch, "start_positions": begins, "end_positions": ends}

    def _row(self, sample: PointedSample) -> tuple[WindowSample, tuple[int, int]]:
        """Return a sample's row, and the positions where its answer begins and ends."""
        # A page view keeps the image it has opened as long as it lives: this copy lives as long as
        # the batch.
        view = replace(sample.view)
        windows = self.reader.windows(view, sample.question)
        spans: list[Any] = [
            None if sample.words is None else window.span_of(*sample.words) for window in windows
        ]
        for window, span in zip(windows, spans, strict=True):
            if span is not None:
                return WindowSample(view, sample.question, window=window), span
        null = windows[0].null
        return WindowSample(view, sample.question, window=windows[0]), (null, null)
