"""Text that a reader sees as it is: no sign that hides, reorders or breaks what stands beside it."""

from __future__ import annotations

import unicodedata

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of what is not drawn: controls, formats (zero width, direction), line and paragraph separators."""
_FILLERS = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
_BLANK = {*_FILLERS, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)}
"""Letters, marks and symbols that are drawn as nothing: fillers, the empty braille cell, selectors of variants."""


def has_unseen_characters(text: str) -> bool:
    """Test whether a text holds a character that cannot be seen, or that changes how its neighbours are read."""
    return any(unicodedata.category(one) in _UNSEEN or ord(one) in _BLANK for one in text)


def count_visible_letters(text: str) -> int:
    """Count the letters of a text that can be seen."""
    return sum(one.isalpha() and ord(one) not in _BLANK for one in text)


def printable(text: str) -> str:
    """Return a text on one line for a message: what cannot be seen is written as its escape."""
    return "".join(one.encode("unicode_escape").decode("ascii") if has_unseen_characters(one) else one for one in text)
