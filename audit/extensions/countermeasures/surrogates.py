"""Surrogates of values: drawn, not computed from them.

So they say of a value what it looks like and no more.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from audit.corpus.documents import Category
from audit.corpus.folding import MIN_TEXT_LENGTH, fold
from audit.corpus.removal.matching import normalise_ocr
from audit.files import table_beside

_CORE = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_VOWELS = "aeiou"
_CONSONANTS = "bcdfghjklmnpqrstvwxz"
_NUMBERED: tuple[Category, ...] = ("amount", "quantity")
_TRIES = 20
Draw = Callable[[str], str]
TABLES: Mapping[str, Mapping[Category | None, str]] = table_beside(__file__, "surrogates.toml")
"""Names that take the place of names, by category, and the words that tell which slots hold values
to replace."""


class Surrogates:
    """The surrogates of one document.

    The same value, and the same longer word of a value, always has the same one.

    A surrogate is a function of the generator's state and of the value's form: its number of words,
    its signs, upper and lower case, where digits and letters stand. Of names the letters' number
    changes.

    Args:
        rng: what is drawn from.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        """Start without surrogates; `rng` draws them, each value once."""
        self._rng = rng
        self._values: dict[tuple[str, int], tuple[str, ...]] = {}
        self._words: dict[str, str] = {}
        self.names: set[str] = set()
        """Folded words of persons' names, `MIN_TEXT_LENGTH` characters or more."""

    def of_value(self, words: Sequence[str], category: Category | None) -> tuple[str, ...]:
        """Return the surrogate of a value, with as many words.

        Words without letters and digits stay.

        Args:
            words: words of the value, as they are written.
            category: its kind; None: not known, letters and digits are drawn by pattern.
        """
        key = fold("".join(words)), len(words)
        if key not in self._values:
            self._values[key] = self._surrogate_words(words, category)
        return tuple(_cased(new, word) for new, word in zip(self._values[key], words, strict=True))

    def anew(self, word: str) -> str:
        """Return a word with new letters and digits by pattern, drawn anew at each call."""
        return _differing_draw(word, self._by_pattern)

    def of_word(self, word: str) -> str:
        """Return the surrogate of a word that holds a value or a part of it."""
        before, core, after = _parts(word)
        known = self._words.get(fold(core))
        new = _differing_draw(core, self._by_pattern) if known is None else _cased(known, core)
        return before + new + after

    def _surrogate_words(self, words: Sequence[str], category: Category | None) -> tuple[str, ...]:
        """Draw surrogates that do not show the words; return the words where no draw does."""
        for draw in (self._draw_of_category(category), self._by_pattern):
            for _ in range(_TRIES):
                drawn = tuple(self._word(word, draw, category) for word in words)
                if not _shows("".join(drawn), "".join(words)):
                    return drawn
        return tuple(words)

    def _word(self, word: str, draw: Draw, category: Category | None) -> str:
        """Return the surrogate of a single word.

        Short words, which many values share, are drawn anew.
        """
        before, core, after = _parts(word)
        folded = fold(core)
        if len(folded) < MIN_TEXT_LENGTH:
            return before + draw(core) + after
        if folded not in self._words:
            new = _differing_draw(core, draw)
            if _shows(new, core):
                return word  # the currency of an amount: nothing to be remembered
            self._words[folded] = new
        if category == "person":
            self.names.add(folded)
        return before + _cased(self._words[folded], core) + after

    def _draw_of_category(self, category: Category | None) -> Draw:
        """Return how texts of a category are drawn: numbers, names, or by pattern."""
        if category in _NUMBERED:
            return lambda text: _DIGITS.sub(lambda found: self._number(found[0]), text)
        names = TABLES["names"].get(category, "").split()
        return (lambda text: self._by_names(text, names)) if names else self._by_pattern

    def _by_names(self, text: str, names: Sequence[str]) -> str:
        """Replace words of letters by drawn names, digits and single letters by pattern."""

        def name(found: re.Match[str]) -> str:
            """Return the replacement of one run of letters."""
            return (
                self._by_pattern(found[0])
                if len(found[0]) == 1
                else _like(str(self._rng.choice(names)), found[0])
            )

        return _LETTERS.sub(name, _DIGITS.sub(lambda found: self._by_pattern(found[0]), text))

    def _by_pattern(self, text: str) -> str:
        """Replace digits by digits, vowels by vowels and consonants by consonants.

        Letters keep their case.
        """
        return "".join(map(self._draw_character, text))

    def _draw_character(self, character: str) -> str:
        """Draw a letter or digit of the same kind and case; keep other characters."""
        if not replaceable(character):
            return character
        if character.isnumeric():
            return str(self._rng.integers(10))
        letters = _VOWELS if character.casefold() in _VOWELS else _CONSONANTS
        drawn = str(self._rng.choice([*letters]))
        return drawn.upper() if character.isupper() else drawn

    def _number(self, run: str) -> str:
        """Draw a number of as many digits, with a leading zero only where the original has one."""
        first = "0" if run[0] == "0" and len(run) > 1 else str(self._rng.integers(len(run) > 1, 10))
        return first + "".join(str(self._rng.integers(10)) for _ in run[1:])


def replaceable(text: str) -> bool:
    """Return whether a text has a letter or a digit after Unicode decomposition."""
    return any(map(str.isalnum, unicodedata.normalize("NFKD", text)))


def _parts(word: str) -> tuple[str, str, str]:
    """Split a word into leading signs, core and trailing signs."""
    found = _CORE.match(word)
    assert found is not None  # the pattern takes every text
    return found[1], found[2], found[3]


def core_of(word: str) -> str:
    """Fold a word, without the signs before and after it."""
    return fold(_parts(word)[1])


def _differing_draw(text: str, draw: Draw) -> str:
    """Draw a replacement that differs from the text, if a few draws give one."""
    for _ in range(_TRIES):
        drawn = draw(text)
        if not _shows(drawn, text):
            return drawn
    return draw(text)


def _shows(new: str, old: str) -> bool:
    """Return whether `find_answers` would find `old` in `new`; short texts are compared whole."""
    wanted = normalise_ocr(old)
    return (
        wanted in normalise_ocr(new) if len(wanted) >= MIN_TEXT_LENGTH else fold(new) == fold(old)
    )


def _like(new: str, old: str) -> str:
    """Give `new` the upper and lower case of `old`."""
    if not any(map(str.isalpha, old)):
        return new
    if old.isupper():
        return new.upper()
    return new.lower() if old.islower() else new[:1].upper() + new[1:]


def _cased(new: str, old: str) -> str:
    """Adapt the case of a surrogate that was drawn for another spelling of `old`."""
    return _like(new, old) if old.isupper() or old.islower() else new
