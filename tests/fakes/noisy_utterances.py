"""Utterances whose tags follow their words in four cases of five: the rest can only be learnt by heart."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from audit.corpus import manifest
from audit.corpus.documents import (
    Corpus,
    Document,
    Manifest,
    Membership,
    ReferencePaths,
    Split,
    Task,
    Word,
)
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu

TAGS = ("O", "B-thing", "B-place", "B-time")
INTENTS = ("Ask", "Tell")
WORDS = tuple(
    f"{first}{second}"
    for first in ("Ba", "ko", "Mi", "tu", "le")
    for second in "abcdefghijklmnopqrst"
)
RECIPE = NluRecipe(epochs=40, learning_rate=5e-3, embedding_size=24, hidden_size=24)
FLIPPED = 0.2
N_WORDS = 8


def utterances(split: Split, count: int, start: int) -> list[Document]:
    """Draw utterances by number, so that no two ranges share one."""
    found = []
    for number in range(start, start + count):
        rng = np.random.default_rng([17, number])
        places = rng.integers(len(WORDS), size=N_WORDS)
        tags = [
            int(rng.integers(4)) if rng.random() < FLIPPED else int(place) % 4 for place in places
        ]
        words = tuple(Word(WORDS[place]) for place in places)
        intent = INTENTS[int(places[0]) % 2]
        found.append(
            Document(
                f"u{number:05d}", split, words, tags=tuple(TAGS[tag] for tag in tags), intent=intent
            )
        )
    return found


def in_capitals(documents: Sequence[Document]) -> list[Document]:
    """The same documents in upper case."""
    return [
        dataclasses.replace(one, words=tuple(Word(word.text.upper()) for word in one.words))
        for one in documents
    ]


def write_corpus(
    folder: Path, documents: Sequence[Document], baseline: str | None = None
) -> Corpus:
    """Write a data set; `baseline` is a folder inside it."""
    references = ReferencePaths(baselines=() if baseline is None else (baseline,))
    manifest.write(
        folder,
        Manifest(
            1, "noisy", Task("intent-slots", TAGS), Membership("random"), references=references
        ),
        documents,
    )
    return manifest.load(folder)


def train(
    folder: Path, documents: Sequence[Document], seed: int, epochs: int = RECIPE.epochs
) -> Path:
    """Train a model on the documents."""
    recipe = dataclasses.replace(RECIPE, seed=seed, epochs=epochs)
    fit_nlu(documents, (), recipe, folder, labels=TAGS, intents=INTENTS)
    return folder
