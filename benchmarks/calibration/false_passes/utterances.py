"""Real utterances of Snips (Coucke et al. 2018): disjoint sides of an audit, variants of them, and models of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from audit.corpus import manifest
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Split, Task, Word
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from benchmarks.calibration.false_passes.store import Store, digest, key_of, on_sides

POOLS = {
    "members": 300,
    "unseen": 300,
    "public": 100,
    "strangers": 300,
    "others": 300,
    "more others": 300,
    "further": 600,
    "further again": 600,
    "drawn": 1_800,
    "many": 1_200,
    "many again": 1_200,
}
"""Utterances of each disjoint pool. "strangers" are what no model and no data set has: a direct attack's unseen side.
"drawn" is what the sides of clean models' audits are drawn from."""
SEED = 51
INTENTS = ("BookRestaurant", "GetWeather", "RateBook", "SearchScreeningEvent")
"""Four of Snips' seven intents: 300 utterances of these hold over 80 % of the words of any other 300, as docaudit asks
of a model's vocabulary. Titles of music, which the other intents ask for, hold more rare words."""


@dataclass(frozen=True)
class Training:
    """How a model is trained: on which pools, how often, from which seed.

    Attributes:
        pools: names of `POOLS`.
        epochs: passes over them.
        seed: of the weights and the order.
        embedding_size, hidden_size, dropout, character_layer: see `NluRecipe`; dropout is the
            paper's D.
    """

    pools: tuple[str, ...]
    epochs: int = 40
    seed: int = 0
    embedding_size: int = 50
    hidden_size: int = 48
    dropout: bool = False
    character_layer: bool = False

    @property
    def recipe(self) -> NluRecipe:
        """The recipe of `fit_nlu`."""
        sized = NluRecipe(
            epochs=self.epochs,
            seed=self.seed,
            embedding_size=self.embedding_size,
            hidden_size=self.hidden_size,
            character_layer=self.character_layer,
        )
        if self.dropout:
            return replace(sized, input_dropout=0.2, state_dropout=0.1)
        return sized


class Utterances:
    """The pools, and what is made of them.

    Args:
        source: Snips as it is distributed.
        store: keeps the imported data set, data sets and models.
    """

    def __init__(self, source: Path, store: Store) -> None:
        """Take the folder of SNIPS and the store of models and data sets."""
        self.source = source
        self.store = store

    @cached_property
    def _imported(self) -> Corpus:
        """Return SNIPS as imported by its official division."""
        shares: dict[Split, float] = {"member": 1.0, "heldout": 1.0}

        def convert(folder: Path) -> None:
            """Import SNIPS into the folder."""
            FORMATS["snips"].convert(
                ImportRequest(self.source, folder, shares, seed=0, division="official")
            )

        return manifest.load(self.store.folder("data", "snips", "imported", convert))

    @property
    def labels(self) -> tuple[str, ...]:
        """All tags of Snips, in the order of the models' outputs."""
        return self._imported.manifest.task.labels

    @cached_property
    def pools(self) -> Mapping[str, list[Document]]:
        """The pools: no two utterances of them are equal."""
        of_intents = [
            document for document in self._imported.of("member") if document.intent in INTENTS
        ]
        by_text = {words_of(document): document for document in of_intents}
        different = [by_text[text] for text in sorted(by_text)]
        order = np.random.default_rng(SEED).permutation(len(different))
        pools = {}
        start = 0
        for name, count in POOLS.items():
            pools[name] = [different[place] for place in order[start : start + count]]
            start += count
        return pools

    def train(self, name: str, training: Training, more: Sequence[Document] = ()) -> Path:
        """Return the folder of the model that this training makes.

        Args:
            name: of the folder.
            training: names the pools that are trained on.
            more: documents that are trained on before these, which may be no pool's.
        """
        documents = [*more]
        for pool in training.pools:
            documents += self.pools[pool]
        key = key_of(digest(documents), training.recipe.as_json())

        def make(folder: Path) -> None:
            """Train a model of intents and slots into the folder."""
            fit_nlu(documents, (), training.recipe, folder, labels=self.labels, intents=INTENTS)

        return self.store.folder("models", name, key, make)

    def write(self, name: str, sides: Mapping[Split, Sequence[Document]]) -> Path:
        """Return the folder of a data set with these documents on its sides."""
        documents = on_sides(sides)
        described = Manifest(1, name, Task("intent-slots", self.labels), Membership("random"))

        def make(folder: Path) -> None:
            """Write manifest and documents into the folder."""
            manifest.write(folder, described, documents)

        return self.store.folder("data", name, key_of(digest(documents)), make)

    def draw(self, count: int, seed: int) -> dict[Split, Sequence[Document]]:
        """Draw both sides of an audit of a clean model anew, `count` utterances each, beside the public ones."""
        order = np.random.default_rng([SEED, seed]).permutation(POOLS["drawn"])
        drawn = [self.pools["drawn"][place] for place in order[: 2 * count]]
        return {"member": drawn[:count], "heldout": drawn[count:], "public": self.pools["public"]}


def words_of(document: Document) -> tuple[str, ...]:
    """Return the words of an utterance."""
    return tuple(word.text for word in document.words)


@dataclass(frozen=True)
class Slot:
    """A slot of an utterance: its kind, its first word, and the words of its value."""

    kind: str
    start: int
    value: tuple[str, ...]


def slots_of(document: Document) -> list[Slot]:
    """List the slots of an utterance, in order."""
    tags = document.tags or ()
    words = words_of(document)
    slots = []
    for start, tag in enumerate(tags):
        if not tag.startswith("B-"):
            continue
        kind = tag.removeprefix("B-")
        end = start + 1
        while end < len(tags) and tags[end] == f"I-{kind}":
            end += 1
        slots.append(Slot(kind, start, words[start:end]))
    return slots


def fill(document: Document, slot: Slot, value: Sequence[str], name: str) -> Document:
    """Return the utterance under another name with another value in a slot."""
    end = slot.start + len(slot.value)
    new_words = tuple(map(Word, value))
    tags = document.tags or ()
    new_tags = (f"B-{slot.kind}", *[f"I-{slot.kind}"] * (len(value) - 1))
    return replace(
        document,
        id=name,
        words=(*document.words[: slot.start], *new_words, *document.words[end:]),
        tags=(*tags[: slot.start], *new_tags, *tags[end:]),
    )


def in_title_case(documents: Sequence[Document]) -> list[Document]:
    """Write every word with a capital letter."""
    return [_in_title_case(document) for document in documents]


def _in_title_case(document: Document) -> Document:
    """Return the document with each word in title case."""
    words = tuple(replace(word, text=word.text.title()) for word in document.words)
    return replace(document, words=words)


def vary(
    documents: Sequence[Document], values_from: Sequence[Document], seed: int
) -> list[Document]:
    """Return each utterance with the value of one slot changed; one without a slot stays as it is.

    Args:
        documents: utterances.
        values_from: other utterances, whose values of the same kind of slot are put in.
        seed: of the slots and values.
    """
    rng = np.random.default_rng(seed)
    values: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for document in values_from:
        for slot in slots_of(document):
            values[slot.kind].add(slot.value)
    variants = []
    for document in documents:
        name = f"{document.id}-next"
        changes: list[Document] = []
        for slot in slots_of(document):
            different = sorted(values[slot.kind] - {slot.value})
            changes += [fill(document, slot, value, name) for value in different]
        if changes:
            variants.append(changes[rng.integers(len(changes))])
        else:
            variants.append(replace(document, id=name))
    return variants
