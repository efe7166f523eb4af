"""Targets whose memory is planted, so that the right answer is known.

A word ends with the number of its one token.
"""

import numpy as np

from audit.cards import TargetCard
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Entity, Manifest, Membership, Task, Word
from audit.targets.encoded_page import Encoding
from audit.targets.interface import BestTokens, CandidateLogits, Candidates, FillMask, TrainingLoss

VOCABULARY = 1000
MASK = 0
UNKNOWN = 1
TOKENS = np.arange(2, VOCABULARY)
FIELD_TOKENS = 4


def card(task: str) -> TargetCard:
    return TargetCard(
        "planted", "planted", task, "planted", 0, VOCABULARY, 512, "0" * 64, "cpu", "float32"
    )


def corpus(
    n_member: int, n_heldout: int, seed: int = 0, fields: int = 1, repeated: bool = False
) -> Corpus:
    """Documents of 3 context words (the first one names the document) and `fields` fields of 4 words each."""
    rng = np.random.default_rng(seed)
    documents = []
    shared = rng.integers(10, VOCABULARY, FIELD_TOKENS)
    for index in range(n_member + n_heldout):
        tokens = [*rng.integers(10, VOCABULARY, 3)]
        entities = []
        for number in range(fields):
            start = len(tokens)
            tokens += [*(shared if repeated else rng.integers(10, VOCABULARY, FIELD_TOKENS))]
            category = ("amount", "person")[number % 2]
            entities.append(
                Entity(f"e{number}", "X", category, tuple(range(start, start + FIELD_TOKENS)))
            )
        words = tuple(Word(f"{token:04d}") for token in tokens)
        split = "member" if index < n_member else "heldout"
        documents.append(Document(f"d{index}", split, words, entities=tuple(entities)))
    return Corpus(
        None, Manifest(1, "planted", Task("mlm"), Membership("random")), tuple(documents), "0" * 64
    )


class Planted:
    """Knows by heart the documents in `remembered`.

    Elsewhere it proposes or scores at random, seeded by the page.

    As "mlm" it fills masks itself; as "token-classification" it gives a training loss that is low
    for the truth where it remembers the document.
    """

    def __init__(self, documents, remembered=(), task="mlm", reach=1.0, seed=0):
        self.card = card(task)
        self.answers = frozenset(
            {FillMask, BestTokens, CandidateLogits} if task == "mlm" else {TrainingLoss}
        )
        self.labels = ()
        self.reach = reach
        self.seed = seed
        self.asked = []
        self._stream = np.random.default_rng()
        self._start = np.random.PCG64(0).state
        self.truth = {}
        self.remembered = set()
        for document in documents:
            page = self.encode(document)
            self.truth[self._name(page)] = page.ids
            if document.id in remembered:
                self.remembered.add(self._name(page))

    def rank(self, rng, n_candidates):
        """The place of the truth among the candidates of a page that is not remembered."""
        return -1

    @staticmethod
    def _name(page):
        return tuple(page.ids[:3])

    def encode(self, document, around=()):
        ids = np.array([int(word.text[-4:]) for word in document.words])
        places = np.arange(len(ids))
        return Encoding(ids, np.zeros((len(ids), 4)), places, None, MASK, UNKNOWN)

    def token_strings(self, ids):
        return " ".join(str(token) for token in ids)

    def ask(self, queries):
        self.asked.append(len(queries))
        answer = {
            FillMask: self._fill,
            BestTokens: self._best,
            CandidateLogits: self._logits,
            TrainingLoss: self._loss,
        }
        return [answer[type(query)](query) for query in queries]

    def _rng(self, page, position):
        """The one generator, set to what this page and position draw: to seed a new one takes four times as long."""
        self._start["state"]["state"] = hash((self.seed, position, *page.ids.tolist())) % 2**64
        self._stream.bit_generator.state = self._start
        return self._stream

    def _fill(self, query):
        rng = self._rng(query.page, query.position)
        truth = int(self.truth[self._name(query.page)][query.position])
        # All others are a prime number, so that equal steps through them meet none twice.
        first, step = rng.integers(1, VOCABULARY - 3, 2)
        others = TOKENS[truth != TOKENS][
            (first + step * np.arange(query.n_candidates)) % (VOCABULARY - 3)
        ]
        logits = np.sort(rng.normal(0, 0.1, query.n_candidates))[::-1].copy()
        if self._name(query.page) in self.remembered:
            others[0] = truth
            logits[0] = 50.0
        elif rng.random() < self.reach:
            others[self.rank(rng, query.n_candidates)] = truth
        return Candidates(others, logits)

    def _logits(self, query):
        logits = self._rng(query.page, query.position).normal(0, 0.1, VOCABULARY)
        if self._name(query.page) in self.remembered:
            logits[self.truth[self._name(query.page)][query.position]] = 50.0
        return logits[query.candidates]

    def _best(self, query):
        return np.full(len(query.positions), 2)

    def _loss(self, query):
        losses = self._rng(query.page, query.position).uniform(0.5, 1.5, len(query.candidates))
        if self._name(query.page) in self.remembered:
            losses[query.candidates == self.truth[self._name(query.page)][query.position]] = 1e-5
        return losses


class Plausible(Planted):
    """As real models are: the truth of a page that is not remembered lies at any rank, hardly ever last."""

    def rank(self, rng, n_candidates):
        return int(n_candidates ** rng.random()) - 1


def case(target, public, planted_corpus) -> Case:
    return Case(target, planted_corpus, References(public))
