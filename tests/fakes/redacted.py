"""Data sets of which it is known what the text around a hidden value tells, and targets that say a planted thing."""

import numpy as np
import planted
from attempts import run

from audit.attacks.redaction import RedactionContext
from audit.case import Case
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Redaction,
    Task,
    Word,
)
from audit.targets.encoded_page import Encoding
from audit.targets.interface import Candidates, FillMask, TagProbabilities

KINDS = ("person", "location", "datetime")
LABELS = ("O", *(f"{prefix}-{kind}" for kind in KINDS for prefix in "BI"))
CUES = {"person": "greets", "location": "near", "datetime": "since"}
FILLERS = ("the", "court", "then", "heard", "all", "parties", "again", "there", "today", "yet")


def document(name, sentences, split="member", provider=None):
    """A text: each sentence is (words before, category, hidden words, words after)."""
    words = []
    entities = []
    for number, (before, category, hidden, after) in enumerate(sentences):
        words += before
        span = tuple(range(len(words), len(words) + len(hidden)))
        entities.append(Entity(f"e{number}", category, category, span))
        words += [*hidden, *after, "."]
    return Document(
        name,
        split,
        tuple(map(Word, words)),
        entities=tuple(entities),
        provider=provider,
        paragraphs=(0,) * bool(words),
    )


def corpus(documents, mask="fixed", task="token-classification"):
    redaction = None if mask is None else Redaction(mask)
    labels = LABELS if task == "token-classification" else ()
    manifest = Manifest(
        1, "redacted", Task(task, labels), Membership("random"), redaction=redaction
    )
    return Corpus(None, manifest, tuple(documents), "0" * 64)


def texts(n_documents, told, seed=0, per_document=6, mask="fixed", lengths=False):
    """Texts of `per_document` sentences.

    The word before the value tells its kind when `told`, else it is drawn.

    The values of each kind have the same lengths, unless `lengths`: then the length tells the kind.
    """
    rng = np.random.default_rng(seed)
    made = []
    for number in range(n_documents):
        sentences = []
        for _ in range(per_document):
            kind = KINDS[rng.integers(len(KINDS))]
            cue = CUES[kind] if told else FILLERS[rng.integers(len(FILLERS))]
            before = ["Then", *rng.choice(FILLERS, 3), cue]
            size = 3 + 4 * KINDS.index(kind) if lengths else int(rng.integers(3, 9))
            value = "".join(rng.choice(list("abcdefgh"), size)).capitalize()
            sentences.append((before, kind, [value], list(rng.choice(FILLERS, 3))))
        made.append(document(f"d{number:03}", sentences, ("member", "heldout")[number % 2]))
    return corpus(made, mask)


class Silent:
    """A target that can be asked nothing that matters here."""

    answers = frozenset()
    labels = ()

    def __init__(self):
        self.card = planted.card("question-answering")

    def ask(self, queries):
        raise AssertionError("this target must not be asked")


class Tagging(Silent):
    """A tagger that knows the kinds of the values of some documents, and finds all tags alike in the others.

    A word is a token. Which page was asked about stands in `Encoding.intent`.
    """

    answers = frozenset({TagProbabilities})
    labels = LABELS

    def __init__(self, known=()):
        super().__init__()
        self.known = {
            (
                entity.words[0],
                *(word.text for index, word in enumerate(one.words) if index not in entity.words),
            ): entity
            for one in known
            for entity in one.entities
        }
        self.pages = []

    def encode(self, one, around=()):
        n_words = len(one.words)
        self.pages.append([word.text for word in one.words])
        places = np.arange(n_words)
        return Encoding(
            places + 10, np.zeros((n_words, 4)), places, None, 0, 1, intent=len(self.pages) - 1
        )

    def ask(self, queries):
        return [self.answer(query.page) for query in queries]

    def answer(self, page):
        hidden = np.flatnonzero(page.ids == page.mask_id).tolist()
        assert hidden, "the value must be hidden"
        left = [text for index, text in enumerate(self.pages[page.intent]) if index not in hidden]
        found = np.full((len(page.ids), len(LABELS)), 1.0)
        entity = self.known.get((hidden[0], *left))
        if entity is not None:
            found[:, LABELS.index(f"B-{entity.label}")] = 100.0
        return found / found.sum(axis=1, keepdims=True)


class Filling(Tagging):
    """A masked language model that puts token 100 + place of the kind where it knows the document, else token 500."""

    answers = frozenset({FillMask})
    labels = ()

    def ask(self, queries):
        return [self.fill(query) for query in queries]

    def fill(self, query):
        probabilities = self.answer(query.page)[query.position]
        best = int(probabilities.argmax())
        token = 500 if np.ptp(probabilities) == 0 else 100 + best
        return Candidates(np.array([token, 7]), np.array([3.0, 0.0]))


def findings(data, target=None):
    return run(RedactionContext(), Case(target or Silent(), data))[2]
