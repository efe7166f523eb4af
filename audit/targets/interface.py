"""Queries to a checkpoint, numpy in and numpy out, and the one method that answers them.

A new attack may add a query type, never a method. Batching, windows, dtype and device stay behind
`ask`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from audit.arrays import Floats, Ints
from audit.cards import NO_MODEL, TargetCard
from audit.corpus.documents import Corpus, Document
from audit.corpus.images import PageView
from audit.targets.encoded_page import Encoding
from audit.targets.reference_rules import ReferenceRules

A = TypeVar("A", covariant=True)


@dataclass(frozen=True, eq=False)
class Query(Generic[A]):
    """A question to a target; `A` is the type of its answer."""


@dataclass(frozen=True, eq=False)
class PageQuery(Query[A]):
    """A query about a page that the target has read."""

    page: Encoding


@dataclass(frozen=True, eq=False)
class PageViewQuery(Query[A]):
    """A query about a question on a page view, for models that answer questions."""

    view: PageView
    question: str


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best tokens at a position, best first, ties to the lower id.

    Attributes:
        ids: (n_candidates,) token ids.
        logits: (n_candidates,).
    """

    ids: Ints
    logits: Floats


@dataclass(frozen=True, eq=False)
class FillMask(PageQuery[Candidates]):
    """The `n_candidates` best tokens at `position`.

    Special tokens and [UNK] are never candidates.
    """

    position: int
    n_candidates: int


@dataclass(frozen=True, eq=False)
class BestTokens(PageQuery[Ints]):
    """The most likely token at each of `positions`: shape (n_positions,), ties to the lower id."""

    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MaskedLoss(PageQuery[Floats]):
    """The cross-entropy of the tokens at `positions` while all of them are hidden.

    Shape (n_positions,), nats.

    `page` holds the true tokens; the target hides them. The mean is the training loss of a masked
    language model under this mask.
    """

    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MaskedCompletionLoss(PageQuery[Floats]):
    """The mean cross-entropy of each of `completions` while `positions` are hidden.

    Shape (n_completions,), nats.

    That of what stands on `page` is the mean of its `MaskedLoss`; all are read off one forward
    pass.

    Attributes:
        positions: positions of the unknown tokens, hidden by the target.
        completions: (n_completions, n_positions) token ids.
    """

    positions: tuple[int, ...]
    completions: Ints


@dataclass(frozen=True, eq=False)
class BestIntent(PageQuery[int]):
    """The most likely intent of an utterance, as `Encoding.intent` has it.

    Ties to the lower index.
    """


@dataclass(frozen=True, eq=False)
class BestClass(PageQuery[int]):
    """The most likely class of a page, as `Encoding.page_class` has it; ties to the lower index."""


@dataclass(frozen=True, eq=False)
class CandidateLogits(PageQuery[Floats]):
    """The masked language model's logit of each of `candidates` at `position`.

    Shape (n_candidates,).
    """

    position: int
    candidates: Ints


@dataclass(frozen=True, eq=False)
class TrainingLoss(PageQuery[Floats]):
    """The training loss of `page` with each of `candidates` at `position`.

    Shape (n_candidates,), nats.
    """

    position: int
    candidates: Ints


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The loss of a page with mixed tokens.

    Attributes:
        loss: nats.
        gradient: gradient of the loss with respect to each weight, shape (n_positions,
            n_candidates).
    """

    loss: float
    gradient: Floats


@dataclass(frozen=True, eq=False)
class RelaxedLoss(PageQuery[Relaxed]):
    """The training loss of `page` with mixtures of `candidates` at `positions`.

    It is that of Parikh et al. 2022, equation 2.

    The input at a position is the sum of the candidates' embeddings, weighted. Unlike other answers
    it may depend on the queries beside it, by rounding.

    Attributes:
        positions: positions of the unknown tokens.
        candidates: (n_candidates,) token ids that may stand there.
        weights: (n_positions, n_candidates), each row a distribution.
        mix_characters: for models with a character layer: what it makes of the candidates is mixed
            with the same weights (the attacker who knows the model); False: unknown tokens show it
            no characters, as in the paper.
    """

    positions: tuple[int, ...]
    candidates: Ints
    weights: Floats
    mix_characters: bool = True


@dataclass(frozen=True, eq=False)
class CompletionLoss(PageQuery[Floats]):
    """The training loss of `page` with each of `completions` at `positions`.

    Shape (n_completions,), nats.

    Attributes:
        positions: positions of the unknown tokens.
        completions: (n_completions, n_positions) token ids.
    """

    positions: tuple[int, ...]
    completions: Ints


@dataclass(frozen=True, eq=False)
class TagProbabilities(PageQuery[Floats]):
    """The probability of each tag for each token: shape (n_tokens, n_labels), rows sum to 1."""


@dataclass(frozen=True, eq=False)
class BestLinks(PageQuery[Ints]):
    """The most likely predecessor or parent of each token.

    Shape (n_tokens,), `NO_LINK` for none, `NOT_READ` unread.
    """


@dataclass(frozen=True, eq=False)
class Reply:
    """What a model answered.

    Attributes:
        text: the answer, without special tokens, white space at its ends taken off.
        confidence: the product of the probabilities of its tokens, special tokens left out; in [0,
            1].
        n_tokens: number of tokens of the answer, special tokens left out.
        ended: whether the model ended it; False: it was cut off at the longest answer it may give.
    """

    text: str
    confidence: float
    n_tokens: int
    ended: bool


@dataclass(frozen=True, eq=False)
class Answer(PageViewQuery[Reply]):
    """The model's greedy answer to the question."""


@dataclass(frozen=True, eq=False)
class AnswerLoss(PageViewQuery[Floats]):
    """The log-probability of each token of `answer`, given those before it.

    Shape (n_tokens,), nats, all <= 0.

    The last one is the token that ends an answer. Minus their mean is the training loss of the
    sample, their sum the log-probability that sampling at temperature 1 gives this answer. An
    answer longer than the model may give is cut: its last token then is not the end.
    """

    answer: str


@dataclass(frozen=True, eq=False)
class RowLoss(AnswerLoss):
    """The log-probability of every token of page, question and answer but the first.

    Each is given those before it.
    """


class PageEndLoss(AnswerLoss):
    """The log-probability of each token of `answer` behind the page's last word.

    The page has a word. The question is not asked, and no token ends the answer.
    """


class Target(Protocol):
    """A checkpoint as an attacker sees it. A defense that wraps a target implements this too.

    Attributes:
        card: what it is.
        answers: the query types it can answer.
    """

    card: TargetCard
    answers: frozenset[type[Query[Any]]]

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """Return one answer for each query, in order; all are of one type.

        An answer depends on its query alone.
        """
        ...


def type_asked(target: Target, queries: Sequence[Query[Any]]) -> type[Query[Any]] | None:
    """Return the type that all queries are of; None when there are none.

    Raises:
        ValueError: a query of a type that the target cannot answer, or queries of several types.
    """
    kinds = {type(query) for query in queries}
    if not kinds:
        return None
    kind = kinds.pop()
    if kinds or kind not in target.answers:
        raise ValueError(f"{target.card.architecture} cannot answer this mix of queries")
    return kind


class TokenTarget(Target, Protocol):
    """A target that reads pages as tokens: it answers queries about an `Encoding` of its own.

    Attributes:
        labels: the tags or classes in the order of its outputs; empty for tasks without.
    """

    labels: tuple[str, ...]

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """Return the document's tokens as the target reads them; None where it reads none.

        When it is too long, the window around the words `around`.

        None when these words do not fit into one window or have no tokens.
        """
        ...

    def token_strings(self, ids: Sequence[int]) -> str:
        """Return the text of these tokens, for the owner's evidence only."""
        ...


NONE_AUDITED = "no model was audited"
"""Why whatever needs a model is inapplicable."""


class NoModel(ReferenceRules):
    """The place of the model in an audit that has none.

    Args:
        corpus: the data set whose text is audited.
    """

    answers: frozenset[type[Query[Any]]] = frozenset()
    labels: tuple[str, ...] = ()
    batch_rows = 1
    lowered = 0

    def __init__(self, corpus: Corpus) -> None:
        """Make a card that says that no model is audited, with the data set's task."""
        texts: dict[str, Any] = {
            "name": NO_MODEL,
            "family": NO_MODEL,
            "architecture": NONE_AUDITED,
            "sha256": "0" * 64,
        }
        numbers: dict[str, Any] = dict.fromkeys(("parameters", "vocabulary", "max_tokens"), 0)
        self.card = TargetCard(
            task=corpus.manifest.task.kind, device="cpu", dtype="float32", **texts, **numbers
        )

    def ask(self, queries: Sequence[Query[Any]]) -> NoReturn:
        """Refuse all queries: there is no model to answer them.

        Raises:
            ValueError: always.
        """
        raise ValueError(NONE_AUDITED)

    def rounded(self, dtype: str) -> NoModel:
        """Return this target unchanged: it has no weights to round."""
        return self
