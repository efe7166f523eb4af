"""Location of an answer among the words of a page, whatever an OCR made of it.

See methods/memorisation.md#proof-of-removal. Words and answers are compared after `normalise_ocr`.
A window of 1 to (answer words + 2) consecutive words, across lines, holds the answer when its
folded words, joined, equal it, contain it, or are within Levenshtein distance 1 (answers of 4 to 7
folded characters) or 2 (8 and more). Shorter answers are looked for as whole words only. Which
words of a window go:

- of a window that equals or contains the answer, those that the answer touches: what is next to it
  stays;
- of windows that are near the answer and overlap, the nearest one, then the one with as many words
  as the answer, then the shortest: a budget of two errors is no reason to take the short word next
  to it;
- then the same again on what is left, until nothing is matched: words that are neighbours only now
  count too.

Words without letters and digits neither begin nor end a window and are not counted;
what a sign like ":" sets off within a word ("TOTAL:9.00"), and an amount without its currency,
count as whole words; a word of ordinary letters is no short number ("is" is not 15, while "lS" and
"IS" are).
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain

from rapidfuzz.distance import Levenshtein

from audit.corpus.folding import begins_of

MIN_INSIDE = 4
"""Folded characters from which an answer counts inside a word too, and with errors; shorter ones
are whole words."""
MIN_TWO_ERRORS = 8
"""Folded characters from which an answer may have two errors."""
MORE_WORDS = 2
"""An OCR may have divided an answer into so many words more than it has."""

_NOT_BARE = re.compile(r"[^0-9A-Za-z|]+")
_LOOK_ALIKES = str.maketrans({"o": "0", "l": "1", "i": "1", "|": "1", "s": "5", "b": "8"})
_SETS_OFF = re.compile(r"(?<!\d)[:;,=()\[\]{}<>#*\"|~]+|[:;,=()\[\]{}<>#*\"|~]+(?!\d)")
# What the data sets at hand use. A digit may have been read as a letter, so look-alikes begin a
# number too.
_CURRENCY = (
    r"(?:rm|myr|us\$|usd|s\$|sgd|eur|gbp|chf|jpy|cny|inr|rs|idr|rp|thb|a\$|aud|c\$|cad|hk\$|hkd"
    r"|[$€£¥₹₩฿₫₱₽₪₺])"
)
_NUMBER = r"[-+]?(?=\D*\d)[\doil|sb][\doil|sb.,]*"
_CURRENCY_FIRST = re.compile(rf"\W*{_CURRENCY}[\s.:]*({_NUMBER})[^\w|]*", re.IGNORECASE)
_CURRENCY_LAST = re.compile(rf"[^\w|]*({_NUMBER})\s*{_CURRENCY}\W*", re.IGNORECASE)
_DECIMAL = re.compile(r"[-+]?(\d{1,3}(?:,\d{3})+|\d+)\.(\d{2})")
_DIGITS = re.compile(r"\d+(?:[.,:/-]\d+)*")


def letters_and_digits(text: str) -> str:
    """Remove accents, punctuation and white space; case stays, and a bar, which may be a one."""
    if text.isascii():
        return _NOT_BARE.sub("", text)
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(character for character in decomposed if character.isalnum() or character == "|")


def normalise_ocr(text: str) -> str:
    """Remove differences of case, accents, punctuation, spacing and OCR look-alikes.

    Look-alikes are 0O, 1lI|, 5S and 8B.
    """
    return _fold_look_alikes(letters_and_digits(text))


def _fold_look_alikes(bare: str) -> str:
    """Fold case, and replace letters and digits that OCR confuses by one of them."""
    return letters_and_digits(bare.casefold()).translate(_LOOK_ALIKES)


def whole_word(word: str, answer: str) -> bool:
    """Test whether these two are the same but for case and OCR look-alikes.

    They are as `letters_and_digits` gives them. A number is not the ordinary word that it looks
    like ("is" and 15); one letter, or one repeated, is no such word.
    """
    if len(word) != len(answer):
        return False
    if word.casefold() == answer.casefold():
        return True
    if (word.isdigit() and _is_ordinary_word(answer)) or (
        answer.isdigit() and _is_ordinary_word(word)
    ):
        return False
    return _fold_look_alikes(word) == _fold_look_alikes(answer)


def _is_ordinary_word(text: str) -> bool:
    """Test whether a text is of letters, not all alike, and lower case after the first."""
    return text.isalpha() and len(set(text.casefold())) > 1 and text[1:].islower()


def without_currency(text: str) -> str | None:
    """Return the number of an amount with a currency before or after it.

    None for all other texts.
    """
    match = _CURRENCY_FIRST.fullmatch(text) or _CURRENCY_LAST.fullmatch(text)
    return None if match is None else match[1]


def decimals_in(text: str) -> Iterator[Decimal]:
    """Yield the numbers with two decimals in a word ("RM9.00SR"), without sign.

    Not parts of longer numbers.
    """
    for digits in _DIGITS.finditer(text):
        match = _DECIMAL.fullmatch(digits[0])
        if match is not None:
            yield Decimal(f"{match[1].replace(',', '')}.{match[2]}")


@dataclass(frozen=True)
class Wanted:
    """An answer as it is looked for.

    Attributes:
        text: without an amount's currency.
        bare: `letters_and_digits` of it.
        folded: `normalise_ocr` of it. An answer that has none ("-", "%") is itself in all forms and
            equals itself only.
        n_words: number of its words.
        decimal: its value, where it is a number with two decimals.
    """

    text: str
    bare: str
    folded: str
    n_words: int
    decimal: Decimal | None

    @property
    def most_words(self) -> int:
        """Return the longest window that is looked at."""
        return self.n_words + MORE_WORDS

    @property
    def errors(self) -> int:
        """Return the Levenshtein distance within which a window is near."""
        return (len(self.folded) >= MIN_INSIDE) + (len(self.folded) >= MIN_TWO_ERRORS)


def prepare_answers(answers: Sequence[str]) -> tuple[Wanted, ...]:
    """Prepare answers for the search; an amount also without its currency.

    Empty answers are left out.
    """
    texts: list[str] = []
    for answer in answers:
        texts += filter(None, (answer, without_currency(answer.strip())))
    targets: list[Wanted] = []
    for text in dict.fromkeys(texts):
        decimals = list(decimals_in(text))
        bare = letters_and_digits(text) or "".join(text.split())
        decimal = decimals[0] if len(decimals) == 1 and _DECIMAL.fullmatch(text.strip()) else None
        if bare:
            targets.append(
                Wanted(text, bare, _fold_look_alikes(bare) or bare, len(text.split()), decimal)
            )
    return tuple(targets)


def find_answers(
    words: Sequence[str], answers: Sequence[str], *, fuzzy: bool = True
) -> tuple[int, ...]:
    """Find the indices of all words to remove so that no answer is left on the page, ascending.

    What is left holds nothing more: `find_answers` on it is empty.

    Args:
        words: words of the page, in reading order.
        answers: the accepted ones; all are taken away.
        fuzzy: whether windows near an answer go too; without it, only what equals or contains it.
    """
    page = _Page(words)
    sought = prepare_answers(answers)
    near = [answer for answer in sought if answer.errors]
    while True:
        hits = set(chain.from_iterable(map(page.find_holding, sought)))
        if not hits and fuzzy:
            hits = page.find_nearest(near)
        if not hits:
            return tuple(index for index in range(len(words)) if index not in page.left)
        page.take(hits)


class _Page:
    """The words of a page that are left, in the forms in which they are compared."""

    def __init__(self, words: Sequence[str]) -> None:
        """Prepare the words of a page for the search, with their normalised forms."""
        self.words = words
        self.bare = [letters_and_digits(word) for word in words]
        self.folded = [_fold_look_alikes(bare) for bare in self.bare]
        parts = [_split_parts(word) for word in words]
        self.forms = [_normalise_parts(own) for own in parts]
        self.heads = [_normalise_parts((own[0], own[-1])) for own in parts]
        self.left = dict.fromkeys(range(len(words)))
        self._order()

    def _order(self) -> None:
        """Join the words left on the page that hold letters or digits, and note where each ends."""
        self.order = [index for index in self.left if self.bare[index]]
        self.ends = []
        end = 0
        for index in self.order:
            end += len(self.folded[index])
            self.ends.append(end)
        self.text = "".join(self.folded[index] for index in self.order)

    def take(self, indices: set[int]) -> None:
        """Remove words from the page, so that those around them become neighbours."""
        for index in indices:
            del self.left[index]
        self._order()

    def _span(self, first: int, last: int) -> range:
        """Return the indices of words from the `first` to the `last` of `order`, signs included."""
        return range(self.order[first], self.order[last] + 1)

    def _within(self, first: int, last: int) -> Iterator[int]:
        """Return the words left between the `first` and the `last` of `order`."""
        return (index for index in self._span(first, last) if index in self.left)

    def find_holding(self, answer: Wanted) -> Iterator[int]:
        """Yield the words that an answer touches in windows that equal or contain it."""
        if not letters_and_digits(answer.text):
            yield from (
                index for index in self.left if "".join(self.words[index].split()) == answer.bare
            )
            return
        if answer.decimal is not None:
            yield from (
                index for index in self.left if answer.decimal in decimals_in(self.words[index])
            )
        if len(answer.folded) >= MIN_INSIDE:
            yield from self._find_containing(answer)
        else:
            yield from self._find_whole_words(answer)

    def _find_containing(self, answer: Wanted) -> Iterator[int]:
        """Yield the words of short windows whose joined text contains an answer."""
        for start in begins_of(answer.folded, self.text):
            first = bisect_right(self.ends, start)
            last = bisect_right(self.ends, start + len(answer.folded) - 1)
            if last - first < answer.most_words:
                yield from self._within(first, last)

    def _find_whole_words(self, answer: Wanted) -> Iterator[int]:
        """Yield the words that equal an answer, alone or joined, but for case and look-alikes."""
        for index in self.left:
            if any(whole_word(form, answer.bare) for form in self.forms[index]):
                yield index
        for text, first, last in self._windows(answer, len(answer.bare)):
            if whole_word(text, answer.bare):
                yield from self._within(first, last)

    def _windows(self, answer: Wanted, longest: int) -> Iterator[tuple[str, int, int]]:
        """Yield joined texts of several words in a row, with the first and the last word.

        They have at most `longest` characters.
        """
        for first, index in enumerate(self.order):
            for text in self.heads[index]:
                for last in range(first + 1, min(first + answer.most_words, len(self.order))):
                    text += self.bare[self.order[last]]
                    if len(text) > longest:
                        break
                    yield text, first, last

    def find_nearest(self, answers: Sequence[Wanted]) -> set[int]:
        """Return the words of windows near an answer; of overlapping windows the best only."""
        windows = sorted(chain.from_iterable(map(self._near_windows, answers)))
        indices: set[int] = set()
        for *_, first, last in windows:
            words = set(self._within(first, last))
            if not words & indices:
                indices |= words
        return indices

    def _near_windows(self, answer: Wanted) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield every window near the answer.

        As (errors, difference of word counts, words, first, last).
        """
        for first, index in enumerate(self.order):
            for form in self.forms[index]:
                yield from self._near_window(answer, form, first, first)
        for text, first, last in self._windows(answer, len(answer.folded) + answer.errors):
            yield from self._near_window(answer, text, first, last)

    def _near_window(
        self, answer: Wanted, bare: str, first: int, last: int
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield a window's distance from an answer, and its size and place, where it is near."""
        errors = answer.errors
        if abs(len(bare) - len(answer.folded)) <= errors:
            distance = Levenshtein.distance(
                _fold_look_alikes(bare), answer.folded, score_cutoff=errors
            )
            if distance <= errors:
                n_words = last - first + 1
                yield distance, abs(n_words - answer.n_words), n_words, first, last


def _split_parts(word: str) -> tuple[str, ...]:
    """Split a word where signs set something off in it ("TOTAL:9.00").

    The word itself comes first.
    """
    if word.isalnum():
        return (word,)
    parts = [part for part in _SETS_OFF.split(word) if letters_and_digits(part)]
    return (word, *parts) if len(parts) > 1 else (word,)


def _normalise_parts(texts: Sequence[str]) -> tuple[str, ...]:
    """Normalise texts by `letters_and_digits`.

    Also the amounts among them without their currency.
    """
    numbers = [
        number
        for text in texts
        if not text.isdigit() and (number := without_currency(text)) is not None
    ]
    return tuple(dict.fromkeys(letters_and_digits(text) for text in (*texts, *numbers)))
