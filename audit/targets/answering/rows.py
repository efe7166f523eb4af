"""Batches of samples: how many share a forward pass, without changing each other's results.

A matrix kernel may treat a row by where it stands and by how many rows there are. So every forward
pass of a target has the same number of samples: those missing in a batch repeat its first one, and
what comes of them is thrown away. And only samples that need the same shapes share a batch
(`Reader.alike`), so that none is padded for another.

On a CPU kernels treat all rows of full blocks alike (see `audit.targets.batching`), as long as one
thread does them all: on two, the attention of the second thread's rows was seen to differ in its
last bits. So with a multiple of `STEP` samples in a forward pass, on one thread, an answer is the
same bit for bit whatever stands beside it (the contract tests check it). With one sample it is so
by construction, on any number of threads; readers whose samples are all unlike have one sample in a
forward pass, and one thread, so that their answers do not depend on the threads either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar, cast

import torch
from PIL import Image

from audit.cards import TargetCard
from audit.corpus.documents import Document, Word
from audit.corpus.images import PageView
from audit.errors import ManifestError, TargetError
from audit.targets.answering.reader import Inputs, Reader, Sample
from audit.targets.batching import STEP, Batch, unless_out_of_memory
from audit.targets.checkpoint.safety import quiet
from audit.targets.encoders.forward import DTYPES
from audit.targets.interface import Answer, AnswerLoss, Query, type_asked
from audit.targets.reference_rules import ReferenceRules

MOST_ROWS = {"cpu": STEP, "mps": STEP, "cuda": 64}
"""Samples of one forward pass, by kind of device, when they are small."""
VALUES = {"cpu": 16 * 2**20, "mps": 32 * 2**20, "cuda": 128 * 2**20}
"""Pixel values of one forward pass: each makes some fifty inside a model, a few gigabytes on a
CPU."""
VALUES_INSIDE = 50
"""Values inside a model that take as much memory as one pixel value makes."""
PAGES = 4
"""Batches of pages that are held encoded at a time (enough that questions of one length fill
theirs)."""
_PAGE = (850, 1100)
"""A letter page at 100 dpi, in pixels: what is laid before a reader to see how large its samples
are."""
A = TypeVar("A")
B = TypeVar("B")
NO_IMAGE = (
    "give every document with questions an image, or leave those without one out of documents.jsonl"
)
NO_WORDS = "add the words that an OCR reads: docaudit ocr DATA_DIR"


def refuse_documents(lacking: Sequence[Document], problem: str, hint: str) -> None:
    """Raise a `ManifestError` that counts and names the documents with a problem.

    Does nothing where there are none.
    """
    if lacking:
        raise ManifestError(
            f"{len(lacking)} documents with questions, the first is {lacking[0].id}, have {problem}",
            hint,
        )


@contextmanager
def steady(device: str) -> Iterator[None]:
    """Run forward passes within on a single thread where the device is a CPU.

    For several rows, and for readers whose samples share none.

    Models so small that several rows are taken are slower on two threads anyway (measured: 5 ms on
    one thread, 33 ms on two, for an answer of a tiny Donut).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if device == "cpu" else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def computing(card: TargetCard, head_of: Callable[[], Any]) -> Iterator[None]:
    """Compute a model's layers within in its card's dtype, but its head in float32.

    Not to be nested.

    Args:
        card: the model's.
        head_of: gives the layer of scores.
    """
    if card.dtype == "float32":
        yield
        return
    exact = ExitStack()

    def head_in_float32(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Switch autocast off for the head; return its inputs in float32."""
        exact.enter_context(torch.autocast(card.device, enabled=False))
        return tuple(value.float() for value in inputs)

    head = head_of()
    with (
        head.register_forward_pre_hook(head_in_float32),
        head.register_forward_hook(lambda *_: exact.close(), always_call=True),
        torch.autocast(card.device, DTYPES[card.dtype]),
    ):
        yield


def trial_sample() -> Sample:
    """Return a white page with one word, and a question: any reader must be able to read it."""
    page = PageView(
        (Word("a", (80.0, 80.0, 120.0, 100.0)),), _PAGE, lambda: Image.new("RGB", _PAGE, "white")
    )
    return Sample(page, "a", "a")


def share(reader: Reader) -> bool:
    """Test whether two equal samples of this reader share a forward pass."""
    return reader.alike(trial_sample()) == reader.alike(trial_sample())


def rows_for(reader: Reader, device: str) -> int:
    """Return how many samples a forward pass takes, from the size of the reader's images.

    On a CPU 1 or `STEP`; it follows from the checkpoint and the kind of device alone. 1 where no
    two samples are alike: more rows would repeat one sample.
    """
    if not share(reader):
        return 1
    inputs = reader.prompts([trial_sample()])
    values = sum(value.numel() for value in inputs.values() if value.is_floating_point())
    fitting = min(
        MOST_ROWS[device], VALUES[device] // max(1, values, reader.scores // VALUES_INSIDE)
    )
    return max(1, fitting if device != "cpu" else fitting // STEP * STEP)


def run_batches(
    samples: Sequence[Sample],
    alike: Callable[[Sample], object],
    rows: Batch,
    device: str,
    run: Callable[[Sequence[Sample], int], B],
) -> Iterator[tuple[list[int], B]]:
    """Yield per batch the indices of its samples, and what `run` returns for them.

    `run` takes the samples and a number of rows.

    When memory runs out the number of rows is lowered and stays so: on a CPU to one, elsewhere to
    half. Later answers may then differ from earlier ones in their last bits.

    Args:
        samples: samples of any keys; the images of a batch are opened when `run` asks for them, and
            let go with the batch.
        alike: a key: only samples of one key share a batch (`Reader.alike`).
        rows: the number of rows; lowered here.
        device: "cpu", "cuda" or "mps".
        run: takes at most as many samples as rows.

    Raises:
        EngineError: not even one sample fits into memory.
    """
    groups: dict[object, list[int]] = defaultdict(list)
    for index, sample in enumerate(samples):
        groups[alike(sample)].append(index)
    waiting = deque(groups.values())
    while waiting:
        group = waiting.popleft()
        batch, rest = group[: rows.size], group[rows.size :]
        outcome = unless_out_of_memory(
            partial(run, unopened([samples[index] for index in batch]), rows.size)
        )
        if outcome is None:
            rows.lower(min(1, rows.size - 1) if device == "cpu" else rows.size // 2, device)
            rest = group
        else:
            yield batch, outcome
        if rest:
            waiting.appendleft(rest)


def split_by_page(samples: Sequence[Sample], n_pages: int) -> Iterator[list[Sample]]:
    """Yield the samples in order, in parts of at most `n_pages` page views."""
    part: list[Sample] = []
    seen: set[int] = set()
    for sample in samples:
        if len(seen | {id(sample.view)}) > n_pages:
            yield part
            part, seen = [], set()
        part.append(sample)
        seen.add(id(sample.view))
    if part:
        yield part


def fill_rows(
    inputs: Inputs, n_samples: int, n_rows: int, packed: Set[str] = frozenset()
) -> Inputs:
    """Return these inputs with the first sample repeated until they are `n_rows`.

    A sample may have several rows of an input, such as the patches of its image, but all samples
    equally many. Inputs named by `packed` have one row, in which samples stand side by side.
    """
    filled: Inputs = {}
    for name, value in inputs.items():
        side = -1 if name in packed else 0
        first = value.narrow(side, 0, value.shape[side] // n_samples)
        filled[name] = torch.cat([value, *[first] * (n_rows - n_samples)], dim=side)
    return filled


def unopened(samples: Sequence[Sample]) -> list[Sample]:
    """Return copies of the samples whose page images are still to be opened.

    A page view keeps its own as long as it lives.
    """
    views = {id(sample.view): replace(sample.view) for sample in samples}
    return [replace(sample, view=views[id(sample.view)]) for sample in samples]


class RowTarget(ReferenceRules, ABC):
    """What targets that are asked about page views share.

    Implements part of `audit.targets.interface.TokenTarget`.

    Attributes:
        model: the transformers model, in evaluation mode.
        reader: lays page views before it.
        card: what it is.
        rows: samples of one forward pass; copies in other number formats share it.
    """

    labels: tuple[str, ...] = ()
    model: Any
    reader: Any
    card: TargetCard
    answers: frozenset[type[Query[Any]]] = frozenset({Answer, AnswerLoss})
    rows: Batch

    @property
    def batch_rows(self) -> int:
        """Return the present number of samples of one forward pass.

        It is what was asked for, or what suited the device, or lowered since.
        """
        return self.rows.size

    @property
    def lowered(self) -> int:
        """Return how often `batch_rows` was lowered because memory ran out."""
        return self.rows.lowered

    @property
    def needs_image(self) -> bool:
        """Test whether the model can read no page without its image."""
        return bool(self.reader.needs_image)

    def rounded(self, dtype: str) -> Self:
        """Return this checkpoint with its layers computing in `dtype`; the weights are shared.

        Matrix products up to the last hidden states are computed in `dtype`; sums, norms, the
        head's scores and all that follows from them stay in float32.
        """
        other = copy(self)
        other.card = replace(self.card, dtype=dtype)
        return other

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """Return one answer for each query about pages; all queries are of one type.

        Raises:
            ValueError: a query of a type this target cannot answer, or queries of several types.
            TargetError: a page without the image that this model sees.
        """
        kind = type_asked(self, queries)
        if kind is None:
            return []
        if self.needs_image and any(self._view_of(query).open_page is None for query in queries):
            raise TargetError(
                f"a page without an image: {self.card.architecture} reads pages from their images",
                NO_IMAGE,
            )
        with torch.inference_mode(), quiet():
            return cast("list[A]", self._methods()[kind](queries))

    def _run(
        self, samples: Sequence[Sample], run: Any, alike: Callable[[Any], object]
    ) -> list[Any]:
        """Return what `run` returns for each sample, batch by batch, in the order of samples.

        Args:
            samples: the samples.
            run: answers one batch, given its samples and a number of rows.
            alike: gives a sample's batching key.
        """
        answers: list[Any] = [None] * len(samples)
        for indices, replies in run_batches(samples, alike, self.rows, self.card.device, run):
            for index, answer in zip(indices, replies, strict=True):
                answers[index] = answer
        return answers

    @abstractmethod
    def _methods(self) -> dict[type[Query[Any]], Callable[[Any], list[Any]]]:
        """Map each type of query to the method that answers queries of that type."""

    def _view_of(self, query: Any) -> PageView:
        """Return the page view that a query is about."""
        view: PageView = query.view
        return view
