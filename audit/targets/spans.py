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
        """Return positions of the first token of word `first` and the last one of word `last`.

        None if either is missing.
        """
        begins = np.flatnonzero(self.words == first)
        ends = np.flatnonzero(self.words == last)
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


_QUESTION = 0
_PAGE = 1
"""Sides of a pair of texts, as a tokenizer numbers them."""


def _numbers_of(values: Sequence[int | None]) -> Ints:
    """Return the numbers as an array, -1 in place of None."""
    return np.array([-1 if value is None else value for value in values], np.int64)


class SpanReader:
    """Lays questions and pages before one checkpoint.

    Args:
        tokenizer: its fast tokenizer.
        max_tokens: largest number of tokens of a row, special tokens included.
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
        """Test whether the model can read no page without its image."""
        return self.page_images is not None

    def windows(self, view: PageView, question: str) -> list[Window]:
        """Return the rows that a question and its page are read in, left to right.

        A question of more tokens than half a row is cut.

        Raises:
            TargetError: the model reads layout, and the page has none.
        """
        encoded = unpadded(self.tokenizer).encode(
            self._spelled(question.split()),
            self._spelled([word.text for word in view.words]),
            is_pretokenized=True,
        )
        sides = _numbers_of(encoded.sequence_ids)
        ids = np.array(encoded.ids, np.int64)
        types = np.minimum(np.array(encoded.type_ids, np.int64), self.inputs.n_types - 1)
        words = _numbers_of(encoded.word_ids)
        words[sides != _PAGE] = -1
        columns = ids, types, self._boxes(view, ids, words), words
        of_page = np.flatnonzero(sides == _PAGE)
        before, after = self._beside_page(sides, of_page)
        room = max(1, self.max_tokens - len(before) - len(after))
        return [
            self._window(columns, np.concatenate([before, positions, after]))
            for positions in _overlapping_windows(of_page, room)
        ]

    def _beside_page(self, sides: Ints, of_page: Ints) -> tuple[Ints, Ints]:
        """Return the positions of a row's tokens before and after those of the page.

        Args:
            sides: sides of each token, `_QUESTION`, `_PAGE`, or -1 for special tokens.
            of_page: positions of the page's tokens.
        """
        is_question = sides == _QUESTION
        stays = ~is_question | (np.cumsum(is_question) <= self.max_tokens // 2)
        first = last = len(sides)
        if len(of_page):
            first = int(of_page[0])
            last = int(of_page[-1])
        positions = np.arange(len(sides))
        return np.flatnonzero(stays & (positions < first)), np.flatnonzero(
            stays & (positions > last)
        )

    def _boxes(self, view: PageView, ids: Ints, words: Ints) -> Ints:
        """Return the box of each token, zeros for a model that reads no layout.

        The end of a row is at the page's far corner (LayoutLM), unless the tokenizer has another
        one (LayoutLMv3's is 0).

        Raises:
            TargetError: the page has no layout, and the model reads it.
        """
        boxes = np.zeros((len(ids), 4), np.int64)
        if self.inputs.boxes:
            end_box = getattr(self.tokenizer, "sep_token_box", None) or BOX_SCALE
            boxes[ids == self.tokenizer.sep_token_id] = end_box
            boxes[words >= 0] = np.array(boxes_of(view), np.int64).reshape(-1, 4)[words[words >= 0]]
        return boxes

    def _spelled(self, words: Sequence[str]) -> list[str]:
        """Return the words without special tokens, all but the first after a space."""
        texts = [self._marks.sub(" ", word) for word in words]
        return [text if number == 0 else f" {text}" for number, text in enumerate(texts)]

    def _window(self, columns: tuple[Ints, ...], chosen: Ints) -> Window:
        """Return the row of the chosen positions of ids, types, boxes and words."""
        ids, types, boxes, words = (column[chosen] for column in columns)
        null = np.flatnonzero(np.isin(ids, self._nulls))
        return Window(ids, types, boxes, words, int(null[0]) if len(null) else 0)

    def batch(self, samples: Sequence[WindowSample], length: int) -> dict[str, torch.Tensor]:
        """Return the model's inputs of these rows, padded on the right to `length` tokens."""
        shape = (len(samples), length)
        ids = np.full(shape, self.inputs.pad_id, np.int64)
        mask = np.zeros(shape, np.int64)
        types = np.zeros(shape, np.int64)
        boxes = np.zeros((*shape, 4), np.int64)
        for number, sample in enumerate(samples):
            row = sample.window
            n_tokens = len(row.ids)
            ids[number, :n_tokens] = row.ids
            mask[number, :n_tokens] = 1
            types[number, :n_tokens] = row.types
            boxes[number, :n_tokens] = row.boxes
        batch = {"input_ids": torch.from_numpy(ids)}
        if self.inputs.attention:
            batch["attention_mask"] = torch.from_numpy(mask)
        if self.inputs.types:
            batch["token_type_ids"] = torch.from_numpy(types)
        if self.inputs.boxes:
            batch["bbox"] = torch.from_numpy(boxes)
        if self.page_images is not None:
            batch["pixel_values"] = self.page_images(samples)
        return batch


def _overlapping_windows(of_page: Ints, room: int) -> Iterator[Ints]:
    """Yield overlapping windows of `room` positions of the page's tokens."""
    step = room - min(OVERLAP, room // 2)
    yield of_page[:room]
    for start in range(step, max(0, len(of_page) - room) + step, step):
        begin = min(start, len(of_page) - room)
        yield of_page[begin : begin + room]


MAX_ANSWER = 64
"""Tokens of the longest span that is an answer (an address is longer than the pipeline's 15)."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says of one window.

    These are logits and log-probabilities of each token to begin and to end the answer.

    All are (n_tokens,). Probabilities are over the row's tokens and the patches of its image, as in
    training; padding is left out.
    """

    begins: Floats
    ends: Floats
    log_begins: Floats
    log_ends: Floats

    def of_span(self, first: int, last: int) -> Floats:
        """Return the log-probabilities of a span's beginning and end: (2,), nats."""
        return np.array([self.log_begins[first], self.log_ends[last]])


@dataclass(frozen=True)
class Span:
    """A place on a page.

    Attributes:
        words: words of the page, the first and the last; None: there is no answer.
        score: the logits of beginning and end, together.
        log_probability: nats.
        n_tokens: number of tokens of the span.
    """

    words: tuple[int, int] | None
    score: float
    log_probability: float
    n_tokens: int = 0


def best_span(windows: Sequence[Window], scores: Sequence[Scores]) -> Span:
    """Return the span of highest logits over all windows of a page.

    None where "no answer" scores higher in each.

    Spans are of page tokens, of `MAX_ANSWER` tokens at most; ties go to the one that begins first,
    then to the shorter. "No answer" is the null position as beginning and end, as in SQuAD 2
    (transformers' run_qa.py): a model that was never taught it gives it low logits, and a page that
    is read in windows has an answer if one of them has.
    """
    nulls: list[Span] = []
    spans: list[Span] = []
    for window, window_scores in zip(windows, scores, strict=True):
        nulls.append(_no_answer(window, window_scores))
        span = _best_in(window, window_scores)
        if span is not None:
            spans.append(span)
    null = min(nulls, key=lambda span: span.score)
    best = max(spans, key=lambda span: span.score, default=null)
    return best if best.score >= null.score else null


def _no_answer(window: Window, scores: Scores) -> Span:
    """Return the span that stands for "no answer" in one window, with its scores."""
    position = window.null
    score = float(scores.begins[position] + scores.ends[position])
    return Span(None, score, float(scores.of_span(position, position).sum()))


def _best_in(window: Window, scores: Scores) -> Span | None:
    """Return the best span of one window; None where it holds no token of the page."""
    of_page = np.flatnonzero(window.words >= 0)
    if not len(of_page):
        return None
    table = scores.begins[of_page][:, None] + scores.ends[of_page][None, :]
    length = of_page[None, :] - of_page[:, None] + 1
    table[(length < 1) | (length > MAX_ANSWER)] = -np.inf
    begin, end = divmod(int(table.argmax()), len(of_page))
    first = int(of_page[begin])
    last = int(of_page[end])
    words = int(window.words[first]), int(window.words[last])
    log_probability = float(scores.of_span(first, last).sum())
    return Span(words, float(table[begin, end]), log_probability, last - first + 1)


def head_of(model: Any) -> torch.nn.Module:
    """Return the model's last linear layer with two outputs, which points at answers."""
    return [
        layer
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear) and layer.out_features == 2
    ][-1]


Located = tuple[Window, tuple[int, int]]
"""A window, and the positions of a beginning and an end in it."""


def located(windows: Sequence[Window], view: PageView, answer: str) -> list[Located]:
    """Return each place of an answer: its first window, and its span there.

    Without any, "no answer" in the first window.

    Never empty.
    """
    places = []
    for first, last in places_of(answer, view.words):
        spans = ((window, window.span_of(first, last)) for window in windows)
        places += [(window, span) for window, span in spans if span is not None][:1]
    return places or [(windows[0], (windows[0].null, windows[0].null))]


def reply_of(view: PageView, windows: Sequence[Window], scores: Sequence[Scores]) -> Reply:
    """Return the answer that the best span of a page's windows spells."""
    best = best_span(windows, scores)
    confidence = float(np.exp(best.log_probability))
    if best.words is None:
        return Reply("", confidence, 0, ended=True)
    first, last = best.words
    text = " ".join(word.text for word in view.words[first : last + 1])
    return Reply(text.strip(), confidence, best.n_tokens, ended=True)


def scores_of(begins: Floats, ends: Floats, n_tokens: int, length: int) -> Scores:
    """Return the logits and log-probabilities of one row's tokens.

    Patches of its image stand after `length`, and share in the probability.
    """
    logs = []
    for logits in (begins, ends):
        unpadded_logits = np.concatenate([logits[:n_tokens], logits[length:]])
        best = unpadded_logits.max()
        logs.append(logits[:n_tokens] - best - np.log(np.exp(unpadded_logits - best).sum()))
    return Scores(begins[:n_tokens], ends[:n_tokens], *logs)
