"""Attempts without their models: every question is counted, and answered at once with something of the right shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from audit.corpus.removal.tesseract import ReadCrop
from audit.engine.interface import Answerer, Attempt, Request, Trial, Work
from audit.targets.encoded_page import NO_LINK
from audit.targets.interface import (
    Adaptation,
    Adapted,
    Answer,
    AnswerLoss,
    BestIntent,
    BestLinks,
    BestTokens,
    CandidateLogits,
    Candidates,
    CompletionLoss,
    FillMask,
    FirstOrderLoss,
    MaskedCompletionLoss,
    MaskedLoss,
    PageAdaptation,
    PageQuery,
    Relaxed,
    RelaxedLoss,
    Reply,
    TagProbabilities,
    TrainingLoss,
)

KEPT = 12
"""Requests of one type that are kept to be timed, of each model and stratum (ours)."""
LONGEST = 64
"""Questions of a request that are kept (ours)."""
FALL = 3.0
"""How steeply the logits of made-up candidates fall with the logarithm of their rank (ours)."""
_EACH_SIDE = 16
"""Padding of a row, on average, and special tokens, in tokens (ours)."""

GOLDEN = 0.6180339887
"""Spreads the losses of neighbouring tokens over the unit interval."""
_COLUMNS: Mapping[type, str] = {TrainingLoss: "candidates", CompletionLoss: "completions"}
"""By type of question, what makes a row of its own of a forward pass."""


def rows_of(query: object) -> int:
    """Count the rows that a question makes."""
    column = _COLUMNS.get(type(query))
    return 1 if column is None else len(getattr(query, column))


def work_of(query: object) -> float:
    """Measure the work of a question: rows times their length in tokens; 1 for one that is about no page of tokens."""
    return rows_of(query) * (len(query.page.ids) + _EACH_SIDE) if isinstance(query, PageQuery) else 1.0


@dataclass
class Asked:
    """Questions of one type to one model.

    Attributes:
        answerer: the model.
        work: of all of them, see `work_of`.
        requests: how often they were asked, several at once.
        kept: a few requests; what shares a page is asked together.
    """

    answerer: Answerer
    work: float = 0.0
    requests: int = 0
    kept: list[tuple[object, ...]] = field(default_factory=list)

    def add(self, queries: Sequence[object]) -> None:
        """Count questions of one request."""
        self.requests += 1
        self.work += sum(map(work_of, queries))
        if len(self.kept) < KEPT:
            self.kept.append((*queries[:LONGEST],))
        elif (place := self._draw(self.requests)) < KEPT:
            self.kept[place] = (*queries[:LONGEST],)

    @staticmethod
    def _draw(n: int) -> int:
        """A place among all requests so far, so that each is kept with the same chance; the same for the same `n`."""
        return int(np.random.default_rng(n).integers(n))


Key = tuple[int, type]
"""The identity of a model, and a type of question."""


@dataclass
class Tally:
    """What was asked in the trials of one stratum that were rehearsed.

    Attributes:
        trials: how many were begun.
        asked: what was asked in all of them.
    """

    trials: int = 0
    asked: dict[Key, Asked] = field(default_factory=dict)

    def add(self, request: Request) -> None:
        """Count the questions of a request."""
        key = (id(request.answerer), type(request.queries[0]))
        self.asked.setdefault(key, Asked(request.answerer)).add(request.queries)


@dataclass(frozen=True)
class Rehearsal(Work):
    """Work whose questions are counted instead of asked.

    A question of a type that nobody can make an answer up to is asked after all.

    Attributes:
        work: what is rehearsed.
        tallies: by stratum.
    """

    work: Work
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def attempt(self, trial: Trial) -> Attempt:
        """The trial with made-up answers."""
        tally = self.tallies[trial.stratum]
        tally.trials += 1
        rng = np.random.default_rng([*trial.id.encode()])
        attempt = self.work.attempt(trial)
        try:
            request = next(attempt)
            while True:
                if type(request.queries[0]) in _MADE_UP:
                    tally.add(request)
                    answers = [_MADE_UP[type(query)](request.answerer, query, rng) for query in request.queries]
                else:
                    answers = yield request
                request = attempt.send(answers)
        except StopIteration as done:
            return done.value


def _candidates(answerer: Any, query: FillMask, rng: np.random.Generator) -> Candidates:
    # A denoiser has marks that it never proposes, for which a target may have no row.
    text = getattr(answerer, "text_tokens", None)
    known = np.arange(answerer.card.vocabulary) if text is None else np.sort([*text.values()])
    n = min(query.n_candidates, len(known))
    ids = known[(int(rng.integers(len(known))) + np.arange(n)) % len(known)]
    return Candidates(ids, -FALL * np.log1p(np.arange(n)) + 1e-3 * np.sort(rng.random(n))[::-1])


def _losses(n: int, rng: np.random.Generator) -> Any:
    return 1.0 + 0.2 * rng.random(n)


def _loss_of(completions: Any) -> Any:
    """The same loss for the same tokens, each of which adds its own: searches end, as they do with a model."""
    return 1.0 + np.modf(completions * GOLDEN)[0].mean(axis=1)


def _reply(_: Any, query: Answer, __: np.random.Generator) -> Reply:
    """A word of the page, which makes attacks ask most."""
    return Reply(query.view.words[0].text if query.view.words else "0", 0.5, 1, True)


def _read(reader: Any, query: ReadCrop, _: np.random.Generator) -> str | None:
    """The page's own words there: an answer is read before it is taken off, and not after."""
    if not reader.installed():
        return None
    x0, y0, x1, y1 = query.box
    boxed = ((word.text, word.box) for word in query.view.words if word.box is not None)
    return " ".join(text for text, box in boxed if box[0] < x1 and box[2] > x0 and box[1] < y1 and box[3] > y0)


_MADE_UP: Mapping[type, Callable[[Any, Any, np.random.Generator], Any]] = {
    FillMask: _candidates,
    BestTokens: lambda _, query, rng: rng.integers(5, 10, len(query.positions)),
    MaskedLoss: lambda _, query, rng: _losses(len(query.positions), rng),
    MaskedCompletionLoss: lambda _, query, __: _loss_of(query.completions),
    BestIntent: lambda _, __, ___: 0,
    CandidateLogits: lambda _, query, rng: rng.random(len(query.candidates)),
    TrainingLoss: lambda _, query, __: _loss_of(query.candidates[:, None]),
    FirstOrderLoss: lambda _, query, __: _loss_of(query.candidates[:, None]),
    RelaxedLoss: lambda _, query, rng: Relaxed(float(1 + rng.random()), rng.normal(size=query.weights.shape)),
    CompletionLoss: lambda _, query, __: _loss_of(query.completions),
    TagProbabilities: lambda model, query, _: np.full((len(query.page.ids), len(model.labels)), 1 / len(model.labels)),
    BestLinks: lambda _, query, __: np.full(len(query.page.ids), NO_LINK),
    Answer: _reply,
    AnswerLoss: lambda _, query, rng: -_losses(1 + len(query.answer) // 3, rng),
    Adaptation: lambda *_: Adapted(1.0, np.array([1.0, 0.5]), (0.0, 0.0)),
    PageAdaptation: lambda *_: Adapted(1.0, np.array([1.0, 0.5]), (0.0, 0.0)),
    ReadCrop: _read,
}
"""By type of question, an answer of the right shape. An OCR is one too: a scan has it read many pictures at once, which
the few trials of a rehearsal do not give it."""


def cut(query: object, rows: int) -> object:
    """A question with so many rows at most."""
    column = _COLUMNS.get(type(query))
    if column is None or rows_of(query) <= rows:
        return query
    return replace(cast("Any", query), **{column: getattr(query, column)[:rows]})
