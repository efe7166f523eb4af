"""Canaries in a data set, and targets of which it is known what they make of every completion."""

import dataclasses
import math
from functools import cache

import numpy as np
import planted
from pydantic import TypeAdapter

from audit.attacks.canaries import Canaries
from audit.attacks.canaries.measures import Outcome, Ranked, truth_of
from audit.case import Case
from audit.corpus.canaries.pages import question_of
from audit.corpus.canaries.schema import PATTERNS, Canary, CanarySet
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Task, Word
from audit.targets.encoded_page import Encoding
from audit.targets.interface import (
    AnswerLoss,
    CandidateLogits,
    CompletionLoss,
    FillMask,
    Relaxed,
    RelaxedLoss,
)

MASK = 0
UNKNOWN = 1
VOCABULARY: dict[str, int] = {}
WORDS: dict[int, str] = {}
"""Of all targets: a word has the same token in each."""
DIGITS = PATTERNS["pin"].candidates
EVERY = {
    word: number for number, word in enumerate(sorted({*DIGITS, *PATTERNS["color"].candidates}))
}
PREFIX = PATTERNS["pin"].words
LIMIT = 0.2
"""On the excess, of the default policy."""
QUICK = Canaries(n_epochs=3, exhaustive_limit=1_000, answers_limit=1_000, n_references=200)
"""Few steps: most of what is tested is not the optimiser."""


def canary_set(
    n, length=3, *, seed=0, pattern="pin", repeat=10, printed=True, included=None, completions=None
):
    """Canaries with coins; `included` and `completions` may be given."""
    rng = np.random.default_rng(seed)
    words = PATTERNS[pattern].candidates
    coins = rng.random(n) < 0.5 if included is None else included
    drawn = (
        [tuple(rng.choice(words, length)) for _ in range(n)] if completions is None else completions
    )
    canaries = tuple(
        Canary(
            f"c{number}",
            pattern,
            PATTERNS[pattern].prefix(f"name{number}"),
            tuple(str(word) for word in completion),
            bool(coin),
            repeat if coin else 0,
            printed=printed,
        )
        for number, (coin, completion) in enumerate(zip(coins, drawn, strict=True))
    )
    return CanarySet("audit", 0, repeat, length, canaries)


def corpus(root, drawn, task="intent-slots"):
    """A data set in `root` with these canaries; None: without any."""
    content = None
    if drawn is not None:
        content = {"file": "canaries.json"}
        (root / "canaries.json").write_bytes(TypeAdapter(CanarySet).dump_json(drawn))
    manifest = Manifest(1, "planted", Task(task), Membership("random"), canaries=content)
    return Corpus(root, manifest, (Document("d", "member", (Word("hello"),)),), "0" * 64)


@cache
def _drawn(seed, prefix, n_places):
    """(n_places, n_words): what every word costs behind a prefix that nothing is remembered of."""
    return np.random.default_rng([seed, *" ".join(prefix).encode()]).random((n_places, len(EVERY)))


class Knowing:
    """Gives every completion a loss that is a sum over its places, lowest for what it remembers of a canary.

    `remembered`: by prefix, the completion it knows; `strength`: how much lower the loss is at each
    right place.
    """

    answers = frozenset({RelaxedLoss, CompletionLoss})
    labels = ()

    def __init__(self, remembered=None, strength=10.0, seed=0):
        self.card = planted.card("intent-slots")
        self.remembered = remembered or {}
        self.strength = strength
        self.seed = seed

    def token(self, word):
        number = VOCABULARY.setdefault(word, 2 + len(VOCABULARY))
        WORDS[number] = word
        return number

    def tokens(self, word):
        return [self.token(word)]

    def encode(self, document, around=()):
        places = []
        ids = []
        for place, word in enumerate(document.words):
            own = self.tokens(word.text)
            ids += own
            places += [place] * len(own)
        labels = np.zeros(len(ids), np.int64)
        return Encoding(
            np.array(ids), np.zeros((len(ids), 4)), np.array(places), labels, MASK, UNKNOWN
        )

    def word_of(self, token):
        return WORDS[token]

    def costs(self, prefix, n_places, words):
        """(n_places, n_words): the loss that a word adds at each place, behind this prefix."""
        costs = _drawn(self.seed, prefix, n_places)[:, [EVERY[word] for word in words]]
        for place, word in enumerate(self.remembered.get(prefix, ())):
            costs[place, [own == word for own in words]] -= self.strength
        return costs

    def ask(self, queries):
        return [self.answer(query) for query in queries]

    def answer(self, query):
        start = query.positions[0]
        prefix = tuple(self.word_of(token) for token in query.page.ids[:start])
        tokens = (
            query.candidates if isinstance(query, RelaxedLoss) else np.unique(query.completions)
        )
        costs = self.costs(prefix, len(query.positions), [self.word_of(token) for token in tokens])
        if isinstance(query, RelaxedLoss):
            return self.relaxed(query, costs)
        places = np.searchsorted(tokens, query.completions)
        return self.losses(prefix, costs[np.arange(len(query.positions)), places].sum(axis=1))

    def losses(self, prefix, losses):
        return losses

    def relaxed(self, query, costs):
        return Relaxed(float((query.weights * costs).sum()), costs)


class Writing(Knowing):
    """The same as a model that writes answers: the log-probability of each word, then of the end."""

    answers = frozenset({AnswerLoss})

    def __init__(self, drawn, remembered=None, strength=10.0, seed=0):
        super().__init__(remembered, strength, seed)
        self.prefixes = {question_of(canary): canary.prefix for canary in drawn.canaries}
        self.length = drawn.length

    def answer(self, query):
        words = query.answer.split()
        costs = self.costs(self.prefixes[query.question], self.length, [*DIGITS])
        found = [-costs[place, DIGITS.index(word)] for place, word in enumerate(words)]
        return np.array([*found, -0.1 if len(words) == self.length else -9.0])


class Masking(Knowing):
    """The same as a masked language model: the logit of each word at a place, whatever stands in the others.

    `beside`: whether it knows a word only where the rest of what it remembers stands around it.
    """

    answers = frozenset({FillMask, CandidateLogits})

    def __init__(self, remembered=None, strength=10.0, seed=0, beside=False):
        super().__init__(remembered, strength, seed)
        self.beside = beside

    def encode(self, document, around=()):
        page = super().encode(document, around)
        return page and dataclasses.replace(page, labels=None)

    def answer(self, query):
        prefix = query.page.ids[: len(PREFIX)]
        completion = query.page.ids[len(PREFIX) :]
        words = tuple(self.word_of(token) for token in prefix)
        place = query.position - len(PREFIX)
        assert completion[place] == MASK
        costs = self.costs(
            words, len(completion), [self.word_of(token) for token in query.candidates]
        )[place]
        known = self.remembered.get(words, ())
        around = [self.token(word) for number, word in enumerate(known) if number != place]
        if self.beside and known and around != np.delete(completion, place).tolist():
            costs = np.zeros(len(costs))
        return -costs


def remembering(drawn, chosen, kind=Knowing, **options):
    """A target that knows the completions of the chosen canaries."""
    known = {canary.prefix: canary.completion for canary in chosen}
    return kind(drawn, known, **options) if kind is Writing else kind(known, **options)


def case_of(root, drawn, target, task="intent-slots"):
    return Case(target, corpus(root, drawn, task))


def outcome(canary, rank, *, n_references=999):
    """Ranked so among all completions.

    The strongest attack returns the true one at the first rank.
    """
    truth = truth_of(canary)
    found = truth if rank == 1 else tuple((number + 1) % len(DIGITS) for number in truth)
    bits = math.log2(n_references + 1) - math.log2(rank)
    ranked = Ranked(rank, 0, n_references, bits, rank / (n_references + 1))
    losses = {"strongest_loss": 0.0, "true_loss": float(rank - 1)}
    return Outcome(
        n_candidates=len(DIGITS), strongest=found, enumerated=True, ranked=ranked, **losses
    )


def outcomes_of(drawn, rng, leak, ranks=(1, 1), n_references=999):
    """With `leak` 0 every rank is equally likely.

    With 1 the canaries that were put in rank within `ranks`.
    """
    drawn_ranks = []
    for canary in drawn.canaries:
        first, behind = (
            (ranks[0], ranks[1] + 1)
            if canary.included and rng.random() < leak
            else (1, n_references + 2)
        )
        drawn_ranks.append(int(rng.integers(first, behind)))
    both = zip(drawn.canaries, drawn_ranks, strict=True)
    return [outcome(canary, rank, n_references=n_references) for canary, rank in both]
