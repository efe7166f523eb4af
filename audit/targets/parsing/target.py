"""Checkpoints that write a page as JSON or markup, asked for the fields of what they write.

Each page view is written once for all questions put together. A question is the path of a field: its answer is what the
output says there, its loss that of the value's tokens alone, within the output that the model was taught for the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from audit.arrays import Floats
from audit.corpus.outputs import find_field, with_value, without_copies
from audit.corpus.page_view import PageView
from audit.corpus.removal.matching import find_answers
from audit.errors import TargetError
from audit.targets.answering.adapting import adapt_to_answer
from audit.targets.answering.reader import Sample
from audit.targets.answering.target import AnsweringTarget
from audit.targets.encoded_page import NOT_READ
from audit.targets.interface import Adaptation, Adapted, Answer, AnswerLoss, Reply
from audit.targets.parsing.reader import ParsingReader


@dataclass(frozen=True, eq=False)
class WrittenOutput(Reply):
    """A whole output.

    Attributes:
        ids: its tokens, without silent ones.
        log_probabilities: of each, nats.
    """

    ids: tuple[int, ...] = ()
    log_probabilities: Floats = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False)
class _Placed:
    """A value in the output that is taught with it: the text, and the tokens that hold the value."""

    sample: Sample
    first: int
    last: int


class ParsingTarget(AnsweringTarget):
    """Writes page views with one generative checkpoint, and answers what stands in a field.

    A field that the output does not have is answered by nothing, with confidence 0. The log-probabilities of a value
    are of its own tokens only, without an end. Fields before it that hold the very same value are emptied where that
    value is not among the view's words: they would tell it.

    Its arguments are those of `AnsweringTarget`, with a `ParsingReader`.
    """

    reader: ParsingReader

    def _replies(self, queries: Sequence[Answer]) -> list[Reply]:
        views = {id(query.view): query.view for query in queries}
        written = self._each([Sample(view, "") for view in views.values()], self._generate)
        outputs: dict[int, WrittenOutput] = dict(zip(views, written, strict=True))
        return [self._reply_in(outputs[id(query.view)], query.question) for query in queries]

    def _reply_of(self, ids: list[int], log_probabilities: Floats) -> Reply:
        whole = super()._reply_of(ids, log_probabilities)
        end = next((index for index, token in enumerate(ids) if token in self._ends), len(ids))
        spoken = [index for index in range(end) if ids[index] not in self._unspoken]
        own = tuple(ids[index] for index in spoken)
        return WrittenOutput(whole.text, whole.confidence, whole.n_tokens, whole.ended, own, log_probabilities[spoken])

    def _reply_in(self, output: WrittenOutput, path: str) -> Reply:
        """The field of this path in an output."""
        found = find_field(output.text, path)
        if found is None:
            return Reply("", 0.0, 0, output.ended)
        first, last = (self._n_tokens_before(output, place) for place in (found.begin, found.end - 1))
        own = output.log_probabilities[first : last + 1]
        return Reply(found.value, float(np.exp(own.sum())), own.size, output.ended)

    def _n_tokens_before(self, output: WrittenOutput, place: int) -> int:
        """The number of tokens before the one that writes the character at `place`."""
        low, high = 0, len(output.ids) - 1
        while low < high:
            middle = (low + high) // 2
            if len(self.reader.text_of(output.ids[: middle + 1])) > place:
                high = middle
            else:
                low = middle + 1
        return low

    def _log_probabilities(self, queries: Sequence[AnswerLoss]) -> list[Floats]:
        placed = [self._placed(query.view, query.question, query.answer) for query in queries]
        unique = {(id(one.sample.view), one.sample.answer): one.sample for one in placed}
        scored = dict(zip(unique, self._each([*unique.values()], self._score_answers), strict=True))
        return [scored[id(one.sample.view), one.sample.answer][one.first : one.last] for one in placed]

    def _placed(self, view: PageView, path: str, value: str) -> _Placed:
        """The value in its field of the page's own output.

        Raises:
            TargetError: nobody knows the page's output, or it has no such field.
        """
        output = None if view.output is None else self.reader.written(view.output)
        place = None if output is None else find_field(output, path)
        if output is None or place is None:
            raise TargetError(
                "a parsing model is asked for a field that the page's output does not have",
                "questions of a parsing data set are the paths of fields, such as total.price",
            )
        if not find_answers([word.text for word in view.words], [place.value]):
            shorter = without_copies(output, place)
            moved = len(output) - len(shorter)
            output, place = shorter, replace(place, begin=place.begin - moved, end=place.end - moved)
        text, begin, end = with_value(output, place, value)
        return self._within_reach(Sample(view, "", text), begin, end)

    def _within_reach(self, sample: Sample, begin: int, end: int) -> _Placed:
        """The value's tokens; an output that goes on beyond the longest one loses its beginning before the value."""
        text = str(sample.answer)
        before = self.reader.n_before
        _, offsets = self.reader.tokens_of(text)
        first, last = _tokens_at(offsets, begin, end)
        too_long = last + before - self.reader.max_new_tokens
        if too_long > 0:
            cut = offsets[min(too_long, first)][0]
            text = text[cut:]
            _, offsets = self.reader.tokens_of(text)
            first, last = _tokens_at(offsets, begin - cut, end - cut)
        return _Placed(replace(sample, answer=text), first + before, last + before)

    def _adapt(self, query: Adaptation) -> Adapted:
        """How the model takes to one field; see `adapt_to_answer`."""
        view = replace(query.view)
        placed = self._placed(view, query.question, query.answer)
        inputs = self._inputs(self.reader.taught([placed.sample]), 1, 1)
        labels = inputs["labels"]
        (read,) = (labels[0] != NOT_READ).nonzero(as_tuple=True)
        silent = [*read[: placed.first], *read[placed.last :]]
        labels[0, silent] = NOT_READ

        def answered() -> str:
            (written,) = self._generate([Sample(view, "")], 1)
            assert isinstance(written, WrittenOutput)
            return self._reply_in(written, query.question).text

        return adapt_to_answer(self.model, inputs, answered, query.answer, query.rule, self.computing)


def _tokens_at(offsets: Sequence[tuple[int, int]], begin: int, end: int) -> tuple[int, int]:
    """The first token that holds a character of this part of a text, and the one behind the last."""
    holding = [number for number, (one, other) in enumerate(offsets) if one < end and other > begin]
    if not holding:
        # An empty value: the token that stands in its place.
        place = next((number for number, (_, other) in enumerate(offsets) if other > begin), len(offsets) - 1)
        return place, place + 1
    return holding[0], holding[-1] + 1
