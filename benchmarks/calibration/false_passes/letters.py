"""Letters of the letters generator, and small taggers of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from drafts import fine_tune
from letters_generator import letter
from vocabulary import train_tokenizer

from audit.corpus import manifest
from audit.corpus.documents import Document, Manifest, Membership, Split, Task
from benchmarks.calibration.false_passes import samples
from benchmarks.calibration.false_passes.store import Store, digest, key_of, on_sides

sample = samples.load_script("build_letters")

POOLS = {
    "members": 160,
    "unseen": 160,
    "public": 80,
    "strangers": 160,
    "others": 160,
    "more others": 160,
    "drawn": 600,
}
"""Letters of each disjoint pool; see `utterances.POOLS`."""
FIRST = 10_000
"""Number of the first letter: the sample's letters have lower ones."""


class Letters:
    """The pools, and what is made of them.

    Args:
        store: keeps data sets and models.
    """

    def __init__(self, store: Store) -> None:
        """Take the store that models and data sets are kept in."""
        self.store = store

    @property
    def labels(self) -> tuple[str, ...]:
        """The tags, in the order of the models' outputs."""
        return tuple(sample.TAGS)

    @cached_property
    def pools(self) -> Mapping[str, list[Document]]:
        """The pools.

        A letter is a draw of its own, so that ranges of numbers are random samples.
        """
        pools = {}
        start = FIRST
        for name, count in POOLS.items():
            numbers = range(start, start + count)
            pools[name] = [
                letter(sample.SEED, number, sample.name_of(number), "public") for number in numbers
            ]
            start += count
        return pools

    @cached_property
    def start(self) -> Path:
        """A tagger of other letters, from which all others are trained."""
        numbers = range(sample.N_PRETRAINING)
        documents = [
            letter(sample.SEED + 1, number, sample.name_of(number), "public") for number in numbers
        ]

        def make(folder: Path) -> None:
            """Write a pretrained model of letters into the folder."""
            texts = map(text_of, documents)
            untrained = folder.with_name(f"{folder.name}-untrained")
            sample.write_untrained(
                untrained, train_tokenizer(texts, sample.N_PIECES, sample.MAX_TOKENS)
            )
            fine_tune(untrained, folder, documents, sample.PRETRAINING)

        return self.store.folder(
            "models", "letters-start", key_of(digest(documents), sample.PRETRAINING), make
        )

    def train(self, name: str, pools: Sequence[str], epochs: int, seed: int = 0) -> Path:
        """Return the folder of a tagger of these pools."""
        documents: list[Document] = []
        for pool in pools:
            documents += self.pools[pool]
        recipe = replace(sample.fine_tuning(sample.SEED + seed), epochs=epochs)
        key = key_of(self.start.name, digest(documents), recipe)
        return self.store.folder(
            "models", name, key, lambda folder: fine_tune(self.start, folder, documents, recipe)
        )

    def write(self, name: str, sides: Mapping[Split, Sequence[Document]]) -> Path:
        """Return the folder of a data set with these letters on its sides."""
        documents = on_sides(sides)
        described = Manifest(
            schema=1,
            name=name,
            task=Task("token-classification", self.labels),
            membership=Membership("random"),
        )
        key = key_of(digest(documents))
        return self.store.folder(
            "data", name, key, lambda folder: manifest.write(folder, described, documents)
        )


def text_of(document: Document) -> str:
    """Return the words of a letter, joined by spaces."""
    return " ".join(word.text for word in document.words)
