"""A question and a page as rows of a model that points at words, and the choice of a span.

Question first, page second, page in windows: as transformers' document-question-answering pipeline,
only the page is cut, and windows of a long page overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from audit.arrays import Floats, Ints
from audit.corpus.folding import places_of
from audit.corpus.images import PageView
from audit.targets.answering.layout import BOX_SCALE, PageImages, boxes_of
from audit.targets.answering.reader import Sample, marks_of
from audit.targets.checkpoint.loading import unpadded
from audit.targets.encoders.encoding import ends_of
from audit.targets.interface import Reply

OVERLAP = 128
"""Page tokens that two windows of a long page share, half a window at most (transformers'
`doc_stride`)."""


@dataclass(frozen=True, eq=False)
class Window:
    """One row: a question, and as much of a page as fits beside it.

    Attributes:
        ids: (n_tokens,) token ids.
        types: (n_tokens,) segments, as the tokenizer numbers them.
        boxes: (n_tokens, 4) in thousandths of the page.
        words: (n_tokens,) the index of each token's word on the page, -1 for all other tokens.
        null: the position that stands for no answer: of [CLS], else of the token that begins texts,
            else the first.
    """

    ids: Ints
    types: Ints
    boxes: Ints
    words: Ints
    null: int

    def span_of(self, first: int, last: int) -> tuple[int, int] | None:
        """Return positions of word `first`'s first and word `last`'s last token.

        None if either is missing.
        """
        begins, ends = np.flatnonzero(self.words == first), np.flatnonzero(self.words == last)
        if not len(begins) or not len(ends):
            return None
        return int(begins[0]), int(ends[-1])


@dataclass(frozen=True, eq=False)
class WindowSample(Sample):
    """One window of a sample."""

    window: Window = field(kw_only=True)


@dataclass(frozen=True)
class Inputs:
    """What a model takes beside its tokens.

    Attributes:
        attention: whether it takes a mask of the tokens that are none.
        types: whether it takes segments.
        boxes: whether it reads layout.
        n_types: segments that it tells apart.
        pad_id: what rows are padded with.
        n_appended: positions that it puts after the row's own, for the patches of the page's image.
        alone: whether rows that share a forward pass change each other's last bits on a CPU, as
            where attention is computed in chunks.
    """

    attention: bool
    types: bool
    boxes: bool
    n_types: int
    pad_id: int
    n_appended: int = 0
    alone: bool = False


class SpanReader:
    """Lays questions and pages before one checkpoint.

    Args:
        tokenizer: its fast tokenizer.
        max_tokens: of a row, special tokens included.
        inputs: what its model takes.
        page_images: makes the pages' pictures, for a model that sees them.
    """

    def __init__(
        self, tokenizer: Any, max_tokens: int, inputs: Inputs, page_images: PageImages | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.inputs = inputs
        self.page_images = page_images
        self._marks = marks_of(tokenizer)
        self._nulls = ends_of(tokenizer)[0]

    @property
    def needs_image(self) -> bool:
        """True where a page without an image cannot be asked."""
        return self.page_images is not None

    def windows(self, view: PageView, question: str) -> list[Window]:
        """Return the rows of a question on a page, at least one, left to right.

        A question of more tokens than half a row is cut.

        Raises:
            TargetError: the model reads layout, and the page has none.
        """
        asked, texts = question.split(), [word.text for word in view.words]
        encoded = unpadded(self.tokenizer).encode(
            self._spelled(asked), self._spelled(texts), is_pretokenized=True
        )
        parts = np.array([-1 if part is None else part for part in encoded.sequence_ids], np.int64)
        kept = (parts != 0) | (np.cumsum(parts == 0) <= self.max_tokens // 2)
        own = np.flatnonzero(parts == 1)
        first = int(own[0]) if len(own) else len(parts)
        before = np.flatnonzero(kept & (np.arange(len(parts)) < first))
        after = np.flatnonzero(
            kept & (np.arange(len(parts)) > (own[-1] if len(own) else len(parts)))
        )
        ids = np.array(encoded.ids, np.int64)
        types = np.minimum(np.array(encoded.type_ids, np.int64), self.inputs.n_types - 1)
        words = np.array([-1 if word is None else word for word in encoded.word_ids], np.int64)
        words[parts != 1] = -1
        boxes = np.zeros((len(ids), 4), np.int64)
        if self.inputs.boxes:
            # The page's far corner (LayoutLM), unless the tokenizer has another one (LayoutLMv3's
            # is 0).
            boxes[ids == self.tokenizer.sep_token_id] = (
                getattr(self.tokenizer, "sep_token_box", None) or BOX_SCALE
            )
            boxes[words >= 0] = np.array(boxes_of(view), np.int64).reshape(-1, 4)[words[words >= 0]]
        columns = ids, types, boxes, words
        room = max(1, self.max_tokens - len(before) - len(after))
        return [
            self._window(columns, np.concatenate([before, part, after]))
            for part in _parts(own, room)
        ]

    def _spelled(self, words: Sequence[str]) -> list[str]:
        """Return the words as parts of one running text: all but the first have their space before them."""
        texts = [self._marks.sub(" ", word) for word in words]
        return [text if number == 0 else f" {text}" for number, text in enumerate(texts)]

    def _window(self, columns: tuple[Ints, ...], chosen: Ints) -> Window:
        ids, types, boxes, words = (column[chosen] for column in columns)
        null = np.flatnonzero(np.isin(ids, self._nulls))
        return Window(ids, types, boxes, words, int(null[0]) if len(null) else 0)

    def batch(self, samples: Sequence[WindowSample], length: int) -> dict[str, torch.Tensor]:
        """Return the model's inputs for these rows, each padded on the right to `length` tokens."""
        shape = (len(samples), length)
        ids = np.full(shape, self.inputs.pad_id, np.int64)
        mask, types, boxes = (
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            np.zeros((*shape, 4), np.int64),
        )
        for number, sample in enumerate(samples):
            row, n = sample.window, len(sample.window.ids)
            ids[number, :n], mask[number, :n] = row.ids, 1
            types[number, :n], boxes[number, :n] = row.types, row.boxes
        own = self.inputs
        taken = {"attention_mask": own.attention, "token_type_ids": own.types, "bbox": own.boxes}
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "bbox": boxes}
        made = {
            name: torch.from_numpy(value) for name, value in given.items() if taken.get(name, True)
        }
        return (
            made
            if self.page_images is None
            else {**made, "pixel_values": self.page_images(samples)}
        )


def _parts(own: Ints, room: int) -> Iterator[Ints]:
    """Yield windows of `room` of the page's tokens; the last one ends with the page."""
    step = room - min(OVERLAP, room // 2)
    yield own[:room]
    for start in range(step, max(0, len(own) - room) + step, step):
        begin = min(start, len(own) - room)
        yield own[begin : begin + room]


MAX_ANSWER = 64
"""Tokens of the longest span that is an answer (an address is longer than the pipeline's 15)."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says of one window: logits and log-probabilities of each token to begin and to end the answer.

    All are (n_tokens,). Probabilities are over the row's tokens and the patches of its image, as in
    training; padding is left out.
    """

    begins: Floats
    ends: Floats
    log_begins: Floats
    log_ends: Floats

    def of_span(self, first: int, last: int) -> Floats:
        """Return the log-probabilities of its beginning and its end, (2,), nats."""
        return np.array([self.log_begins[first], self.log_ends[last]])


@dataclass(frozen=True)
class Span:
    """A place on a page.

    Attributes:
        words: of the page, the first and the last; None: there is no answer.
        score: the logits of beginning and end, together.
        log_probability: nats.
        n_tokens: of the span.
    """

    words: tuple[int, int] | None
    score: float
    log_probability: float
    n_tokens: int = 0


def best_span(windows: Sequence[Window], scores: Sequence[Scores]) -> Span:
    """Return the span of highest logits over all windows, or none where "no answer" scores higher in each.

    Spans are of page tokens, of `MAX_ANSWER` tokens at most; ties go to the one that begins first,
    then to the shorter. "No answer" is the null position as beginning and end, as in SQuAD 2
    (transformers' run_qa.py): a model that was never taught it gives it low logits, and a page that
    is read in windows has an answer if one of them has.
    """
    nulls = [
        Span(None, float(own.begins[at] + own.ends[at]), float(own.of_span(at, at).sum()))
        for at, own in zip((window.null for window in windows), scores, strict=True)
    ]
    found = [
        span
        for window, own in zip(windows, scores, strict=True)
        if (span := _best_in(window, own)) is not None
    ]
    null = min(nulls, key=lambda span: span.score)
    best = max(found, key=lambda span: span.score, default=null)
    return best if best.score >= null.score else null


def _best_in(window: Window, scores: Scores) -> Span | None:
    own = np.flatnonzero(window.words >= 0)
    if not len(own):
        return None
    table = scores.begins[own][:, None] + scores.ends[own][None, :]
    length = own[None, :] - own[:, None] + 1
    table[(length < 1) | (length > MAX_ANSWER)] = -np.inf
    begin, end = divmod(int(table.argmax()), len(own))
    first, last = int(own[begin]), int(own[end])
    words = int(window.words[first]), int(window.words[last])
    log_probability = float(scores.of_span(first, last).sum())
    return Span(words, float(table[begin, end]), log_probability, last - first + 1)


def head_of(model: Any) -> torch.nn.Module:
    """Return the linear layer that gives beginnings and ends: the last one with two outputs."""
    return [
        layer
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear) and layer.out_features == 2
    ][-1]


Located = tuple[Window, tuple[int, int]]
"""A window, and the positions of a beginning and an end in it."""


def located(windows: Sequence[Window], view: PageView, answer: str) -> list[Located]:
    """Locate each place of an answer in the first window that holds it.

    Without any, "no answer" in the first window.

    Never empty.
    """
    places = []
    for first, last in places_of(answer, view.words):
        spans = ((window, window.span_of(first, last)) for window in windows)
        places += [(window, span) for window, span in spans if span is not None][:1]
    return places or [(windows[0], (windows[0].null, windows[0].null))]


def reply_of(view: PageView, windows: Sequence[Window], scores: Sequence[Scores]) -> Reply:
    """Give the answer that the best span of a page's windows spells."""
    best = best_span(windows, scores)
    confidence = float(np.exp(best.log_probability))
    if best.words is None:
        return Reply("", confidence, 0, ended=True)
    first, last = best.words
    text = " ".join(word.text for word in view.words[first : last + 1])
    return Reply(text.strip(), confidence, best.n_tokens, ended=True)


def scores_of(begins: Floats, ends: Floats, n_tokens: int, length: int) -> Scores:
    """Give the scores of one row: of its own tokens, beside patches of its image, which stand after `length`."""
    logs = []
    for logits in (begins, ends):
        read = np.concatenate([logits[:n_tokens], logits[length:]])
        logs.append(logits[:n_tokens] - read.max() - np.log(np.exp(read - read.max()).sum()))
    return Scores(begins[:n_tokens], ends[:n_tokens], *logs)
