"""Proof that an answer is gone from a page, in its pixels, in its words and for a reader.

And answers that follow.

Method: methods/memorisation.md#proof-of-removal.

The three parts look for the answer in other ways than `redact` takes it away, so that they can
fail.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from audit.corpus.documents import Box
from audit.corpus.images import PageView
from audit.corpus.removal import Removal, matching, runs
from audit.corpus.removal.tesseract import ReadCrop

Reading = Literal["gone", "still read", "no control", "not installed", "no image"]
Status = Literal["proven", "unproven", "survives"]
Texts = Sequence[str | None]
"""What Tesseract read in each crop; None: it is not installed, or failed."""

MIN_SIMILAR = 6
"""Folded characters from which something similar to the answer counts as the answer
(methods/memorisation.md#proof-of-removal)."""
SIMILARITY = 80.0
"""What rapidfuzz's `partial_ratio` then has to reach, of 100.

See methods/memorisation.md#proof-of-removal."""
MAX_CROPS = 16
"""Crops of a page that are read; an answer that is in more is never proven removed, to bound the
time."""


@dataclass(frozen=True)
class Proof:
    """The result of each part of the proof.

    Attributes:
        pixels: every removed word has a box, and each box is one colour in the changed image; None:
            there is no image.
        words: no rest of an answer is left among the words, by a wider rule than the one that
            removed them.
        reading: "gone": Tesseract read the answer in every crop before, and at none after; "still
            read" in some crop after; "no control": not read in every crop before, so that silence
            after says nothing; "not installed"; "no image".
    """

    pixels: bool | None
    words: bool
    reading: Reading

    @property
    def status(self) -> Status:
        """Return "proven" where all parts that apply prove the removal.

        It is "survives" when one of them shows the answer, else "unproven".
        """
        if self.pixels is False or not self.words or self.reading == "still read":
            return "survives"
        return "proven" if self.reading in ("gone", "no image") else "unproven"


def crops_of(view: PageView, removal: Removal) -> tuple[ReadCrop, ...]:
    """Cut out the places of the removed words, to be read on `view`.

    That is the page as it was, or `removal.view`. Words that were next to each other make one crop.
    Put to `TESSERACT` both before and after:

        before = yield Request(TESSERACT, crops_of(view, removal))
        after = yield Request(TESSERACT, crops_of(removal.view, removal))
        proof = proof_of(view, removal, answers, before, after)

    Returns:
        At most `MAX_CROPS`; none without an image, or without boxes.
    """
    if view.open_page is None or len(removal.boxes) != len(removal.words):
        return ()
    boxes = dict(zip(removal.words, removal.boxes, strict=True))
    first_runs = runs(removal.words)[:MAX_CROPS]
    return tuple(_crop(view, list(map(boxes.__getitem__, run))) for run in first_runs)


def _crop(view: PageView, boxes: Sequence[Box]) -> ReadCrop:
    """Cut out the box around boxes; its line is as high as the lowest of them."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    around = (min(lefts), min(tops), max(rights), max(bottoms))
    return ReadCrop(view, around, min(box[3] - box[1] for box in boxes))


def prove_removal(
    before: PageView,
    removal: Removal,
    answers: Sequence[str],
    texts_before: Texts,
    texts_after: Texts,
) -> Proof:
    """Check that the answers are gone; opens the changed image.

    Args:
        before: the page as it was.
        removal: what was done to it.
        answers: answers that were removed.
        texts_before: what `TESSERACT` answered to `crops_of(before, removal)`.
        texts_after: what it answered to `crops_of(removal.view, removal)`.
    """
    image = removal.view.image
    pixels = None
    if image is not None:
        boxed = all(before.words[index].box is not None for index in removal.words)
        pixels = boxed and all(image.crop(box).getcolors(1) is not None for box in removal.boxes)
    words = not survives([word.text for word in removal.view.words], answers)
    return Proof(pixels, words, _reading(removal, answers, texts_before, texts_after))


def _reading(removal: Removal, answers: Sequence[str], before: Texts, after: Texts) -> Reading:
    """Say what OCR of the crops before and after a removal shows: the answer still read, or not."""
    if removal.view.open_page is None:
        return "no image"
    if any(text is not None and survives(text.split(), answers) for text in after):
        return "still read"
    texts = [*before, *after]
    if texts and texts.count(None) == len(texts):
        return "not installed"
    everywhere = 0 < len(runs(removal.words)) == len(before) == len(after)
    if everywhere and _all_hold(before, answers) and None not in after:
        return "gone"
    return "no control"


def _all_hold(texts: Texts, answers: Sequence[str]) -> bool:
    """Test whether every crop was read, and an answer in it."""
    return all(text is not None and matching.find_answers(text.split(), answers) for text in texts)


def survives(words: Sequence[str], answers: Sequence[str]) -> bool:
    """Test whether anything like an answer is left among these words: the wider rule.

    Every window of words is looked at, however long. Of `MIN_SIMILAR` folded characters and more,
    an answer is there when some stretch of the page is similar to it, wherever words begin and end;
    of fewer, down to `MIN_INSIDE`, when a window contains it or is one error away; still shorter
    ones as whole words, also from several of them.
    """
    left = _Left(words)
    return any(left.holds(answer) for answer in matching.prepare_answers(answers))


class _Left:
    """The words that are left, joined in every way."""

    def __init__(self, words: Sequence[str]) -> None:
        """Prepare the words that are left on a page for comparison with answers."""
        self.words = words
        self.bare = [text for word in words if (text := matching.letters_and_digits(word))]
        self.folded = [matching.normalise_ocr(text) for text in self.bare]
        self.page = "".join(self.folded)

    def holds(self, answer: matching.Wanted) -> bool:
        """Test whether anything like an answer is left among the words."""
        size = len(answer.folded)
        if size < matching.MIN_INSIDE:
            windows = _join_windows(self.bare, len(answer.bare))
            return answer.bare in self.words or any(
                matching.whole_word(window, answer.bare) for window in windows
            )
        if answer.folded in self.page:
            return True
        # The shorter text slides along the longer; a page shorter than the answer is compared
        # whole.
        similarity = fuzz.partial_ratio if len(self.page) >= size else fuzz.ratio
        if size >= MIN_SIMILAR and similarity(answer.folded, self.page) >= SIMILARITY:
            return True
        errors = answer.errors
        windows = _join_windows(self.folded, size + errors)
        return any(
            Levenshtein.distance(window, answer.folded, score_cutoff=errors) <= errors
            for window in windows
        )


def _join_windows(words: Sequence[str], longest: int) -> Iterator[str]:
    """Yield consecutive words, joined, of at most `longest` characters."""
    for start in range(len(words)):
        window = ""
        for word in words[start:]:
            window += word
            if len(window) > longest:
                break
            yield window


YES_OR_NO = "yes or no"
SUM = "sum of visible amounts"
MIN_ADDENDS = 3
"""Amounts that follow each other, as in a column, and add up to the answer; two may be anywhere."""
_YES_OR_NO = frozenset(map(matching.normalise_ocr, ("yes", "no")))
_AMOUNT = re.compile(r"(?:[^\d.,]*[^\d.,-])?(\d{1,3}(?:,\d{3})+|\d+)\.(\d{2})[^\w.,]*")


def why_derivable(sheet_words: Sequence[str], answers: Sequence[str]) -> str | None:
    """Return the reason why an answer follows from the page without it; None where it does not.

    An answer that follows is no memory. The rules are few and strict: what they miss, the
    generalisation baseline catches; what they name is dropped from the test and listed, so each
    must be plain to whoever reads the page.

    - `YES_OR_NO`: an accepted answer is "yes" or "no".
    - `SUM`: it is an amount with two decimals, and the sum or the difference of two visible ones
      ("total" of "cash" and "change"), or the sum of at least `MIN_ADDENDS` that follow each other
      among the amounts of the page. Amounts of 0.00 are no addends.

    Args:
        sheet_words: what is left of the page, in reading order.
        answers: the accepted answers; one that follows is enough.
    """
    if any(matching.normalise_ocr(answer) in _YES_OR_NO for answer in answers):
        return YES_OR_NO
    amounts = [amount for word in sheet_words if (amount := _parse_amount(word))]
    sums = frozenset(_sums(amounts))
    for answer in matching.prepare_answers(answers):
        amount = _parse_amount(answer.text)
        if amount and amount in sums:
            return SUM
    return None


def _parse_amount(text: str) -> Decimal | None:
    """Parse a positive number with two decimals, whatever currency precedes it.

    None for all else.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return None
    return Decimal(f"{match[1].replace(',', '')}.{match[2]}") or None


def _sums(amounts: Sequence[Decimal]) -> Iterator[Decimal]:
    """Yield the sum and difference of every two amounts, and sums of several in a row."""
    for index, amount in enumerate(amounts):
        total = amount
        for number, addend in enumerate(amounts[index + 1 :], start=2):
            yield amount + addend
            yield abs(amount - addend)
            total += addend
            if number >= MIN_ADDENDS:
                yield total
