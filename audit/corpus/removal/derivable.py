"""Answers that follow from what is left on the page: to give one of them is no memory (methods.md#memorisation).

The rules are few and strict (ours): what they miss, the generalisation baseline catches; what they name is dropped from
the test and listed, so each must be plain to whoever reads the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise

from audit.corpus.removal.matching import normalise_ocr, prepare_answers

YES_OR_NO = "yes or no"
SUM = "sum of visible amounts"
SEQUENCE = "member of a visible sequence"

MIN_TERMS = 4
"""Terms of an arithmetic sequence, the answer among them."""
MIN_ADDENDS = 3
"""Amounts that follow each other, as in a column, and add up to the answer; two may be anywhere."""

_YES_OR_NO = frozenset(map(normalise_ocr, ("yes", "no")))
_AMOUNT = re.compile(r"(?:[^\d.,]*[^\d.,-])?(\d{1,3}(?:,\d{3})+|\d+)\.(\d{2})[^\w.,]*")
_NUMBERED = re.compile(r"(\D*)(\d{1,9})(\D*)")


def why_derivable(sheet_words: Sequence[str], answers: Sequence[str]) -> str | None:
    """Reason why the answer follows without reading it, or None.

    - `YES_OR_NO`: an accepted answer is "yes" or "no".
    - `SUM`: it is an amount with two decimals, and the sum or the difference of two visible ones ("total" of "cash" and
      "change"), or the sum of at least `MIN_ADDENDS` that follow each other among the amounts of the page.
      Amounts of 0.00 are no addends.
    - `SEQUENCE`: it is a number, and three visible ones of one form ("1.", "2.", "4.") make an arithmetic sequence with
      it, where they follow each other among the numbers of that form.

    Args:
        sheet_words: what is left of the page, in reading order.
        answers: the accepted answers; one that follows is enough.
    """
    if any(normalise_ocr(answer) in _YES_OR_NO for answer in answers):
        return YES_OR_NO
    amounts = [amount for word in sheet_words if (amount := _amount(word))]
    sums = frozenset(_sums(amounts))
    if any(amount in sums for answer in prepare_answers(answers) if (amount := _amount(answer.text))):
        return SUM
    if any(_continues(sheet_words, answer) for answer in answers):
        return SEQUENCE
    return None


def _amount(text: str) -> Decimal | None:
    """A positive number with two decimals, whatever currency precedes it; None for all else."""
    match = _AMOUNT.fullmatch(text.strip())
    return None if match is None else Decimal(f"{match[1].replace(',', '')}.{match[2]}") or None


def _sums(amounts: Sequence[Decimal]) -> Iterator[Decimal]:
    for index, amount in enumerate(amounts):
        total = amount
        for number, other in enumerate(amounts[index + 1 :], start=2):
            yield amount + other
            yield abs(amount - other)
            total += other
            if number >= MIN_ADDENDS:
                yield total


def _continues(words: Sequence[str], answer: str) -> bool:
    match = _NUMBERED.fullmatch(answer.strip())
    if match is None:
        return False
    own, value = (normalise_ocr(match[1]), normalise_ocr(match[3])), int(match[2])
    numbers: dict[tuple[str, str], list[int]] = {}
    for word in words:
        seen = _NUMBERED.fullmatch(word)
        if seen is not None and (normalise_ocr(seen[1]), normalise_ocr(seen[3])) == own:
            numbers.setdefault((seen[1], seen[3]), []).append(int(seen[2]))
    return any(_fits(row, value) for row in numbers.values())


def _fits(row: Sequence[int], value: int) -> bool:
    """Whether `value`, put in somewhere, is one of `MIN_TERMS` equally distant numbers side by side."""
    visible = MIN_TERMS - 1
    for start in range(len(row) - visible + 1):
        for index in range(MIN_TERMS):
            terms = [*row[start : start + index], value, *row[start + index : start + visible]]
            steps = {later - earlier for earlier, later in pairwise(terms)}
            if len(steps) == 1 and steps != {0}:
                return True
    return False
