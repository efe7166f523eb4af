"""The words that a model of utterances knows, one token each, and their file beside the weights."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from audit.arrays import Ints
from audit.errors import TargetError

FILE = "vocabulary.json"
UNKNOWN = "[UNK]"
UNKNOWN_ID = 0
_MAX_BYTES = 64 * 2**20
"""A larger file is not read (ours): a million words take some 10 MB."""


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their ids; the first one is [UNK], which stands for all others.

    Attributes:
        words: spelled exactly as in the documents.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, words: Iterable[str]) -> Self:
        """The vocabulary of these words, sorted, each once."""
        return cls((UNKNOWN, *sorted({*words} - {UNKNOWN})))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `vocabulary.json` of a checkpoint.

        Raises:
            TargetError: it is missing, too large, or no list of different words that begins with [UNK].
        """
        path = folder / FILE
        try:
            if not path.is_file() or path.stat().st_size > _MAX_BYTES:
                raise TargetError(f"{folder}: no {FILE}", "save the model's words beside its weights")
            words = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            raise TargetError(f"{path}: not readable as JSON") from None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise TargetError(f"{path}: not a list of words")
        if words[:1] != [UNKNOWN] or len(set(words)) != len(words):
            raise TargetError(f"{path}: the words must be different and begin with {UNKNOWN}")
        return cls(tuple(words))

    def save(self, folder: Path) -> None:
        """Write `vocabulary.json`."""
        content = json.dumps(self.words, ensure_ascii=False, indent=0)
        (folder / FILE).write_text(content + "\n", encoding="utf-8")

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}

    def ids_of(self, words: Iterable[str]) -> Ints:
        """The id of each word, that of [UNK] for those that are not here: (n_words,)."""
        return np.array([self._ids.get(word, UNKNOWN_ID) for word in words], np.int64)

    @cached_property
    def characters(self) -> tuple[str, ...]:
        """Every character of the words but [UNK], sorted; character number i + 1 stands here at place i."""
        return tuple(sorted({character for word in self.words[1:] for character in word}))

    def spellings(self, longest: int) -> Ints:
        """The characters of each word by number, 0 after its end: (n_words, longest); [UNK] has none.

        Args:
            longest: characters kept of a word.
        """
        numbers = {character: number for number, character in enumerate(self.characters, start=1)}
        table = np.zeros((len(self.words), longest), np.int64)
        for row, word in enumerate(self.words[1:], start=1):
            own = [numbers[character] for character in word[:longest]]
            table[row, : len(own)] = own
        return table

    def text_of(self, ids: Sequence[int]) -> str:
        """The words of these ids, joined by single spaces."""
        return " ".join(self.words[index] for index in ids)
