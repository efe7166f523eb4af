"""Exchange characters of redacted text, and fold them back (Beltrame et al. 2024, section 6, appendix B).

Letters are exchanged for letters of other scripts that look the same: a person reads on, a
classifier trained on ordinary text does not. Whoever knows of it folds the letters back in one
step, so no evasion is credited without that attacker (methods/redaction-context.md). An image of
the page is not changed: what OCR reads from it is ordinary text again.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from audit.corpus.documents import Document, Mask
from audit.corpus.redaction import RedactedSpan, redacted_spans

EVASION: Mapping[str, str] = MappingProxyType(
    {"a": "\u0430", "e": "\u0435", "i": "\u0456", "n": "\u0578", "o": "\u043e"}
)
"""Each exchanged letter and what replaces it: Cyrillic, and for n Armenian (appendix B, table 6).
Capitals stay."""

_LOOKALIKES = (
    "A 0391 0410; B 0392 0412; C 0421; E 0395 0415; F 03DC; G 050C; H 0397 041D; I 0399 0406; J 037F 0408; K 039A "
    "041A; M 039C 03FA 041C; N 039D; O 039F 041E 0555; P 03A1 0420; S 0405 054F; T 03A4 0422; U 054D; V 0474; W "
    "051C; X 03A7 0425; Y 03A5 0423 04AE; Z 0396; a 0251 03B1 0430; b 042C; c 0441; d 0501; e 0435 04BD; f 0584; "
    "g 0261 0581; h 04BB 0570; i 0131 03B9 0456 04CF; j 03F3 0458; l 04C0; n 0578 057C; o 03BF 03C3 043E 0585; p "
    "03C1 0440; q 051B 0563 0566; r 0433; s 0455; u 03C5 057D; v 03BD 0475; w 0461 051D 0561; x 0445; y 03B3 0443 "
    "04AF"
)
LOOKALIKES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {row[0]: tuple(int(code, 16) for code in row.split()[1:]) for row in _LOOKALIKES.split("; ")}
)
"""By Latin letter, the code points that look like it: Greek, Cyrillic and Armenian letters (and three Latin ones) to
which the confusables table of Unicode Technical Standard 39 gives one Latin letter. One difference:
the capital iotas are read as I, where that table has one prototype for I, l and 1."""

_EVADE = str.maketrans(dict(EVASION))
_FOLD = {code: letter for letter, codes in LOOKALIKES.items() for code in codes}


def evade(text: str) -> str:
    """`text` with the letters of `EVASION` exchanged; as long as before, and it looks the same."""
    return text.translate(_EVADE)


def fold_confusables(text: str) -> str:
    """`text` with look-alikes turned into the Latin letters they look like: what an attacker who knows evasion reads.

    Compatibility forms (full width, mathematical letters, ligatures) are resolved first, letters
    come apart from their accents so that an exchanged letter under one is found, and are composed
    again last: the result is in NFKC. Text in Greek, Cyrillic or Armenian becomes unreadable, which
    an attacker on Latin text does not mind. For every text `fold_confusables(evade(text)) ==
    fold_confusables(text)`.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", text).translate(_FOLD))


@dataclass(frozen=True)
class EvasionCost:
    """Changes and losses through evasion, counted over whole documents.

    Attributes:
        characters: of all words, without the spaces between them.
        changed: of them, exchanged ones.
        non_ascii_before: of them, outside ASCII before the exchange.
        non_ascii_after: and after it.
        searched: words that a person could look for, those with a letter or a digit; a word that
            occurs several times in a document counts as often.
        lost: of them, those that a plain search (anywhere in the document's text, whatever the
            case) no longer matches.
    """

    characters: int
    changed: int
    non_ascii_before: int
    non_ascii_after: int
    searched: int
    lost: int


def evasion_cost(documents: Iterable[Document]) -> EvasionCost:
    """Count what evading these documents changes and breaks."""
    characters = changed = before = after = searched = lost = 0
    for document in documents:
        words = [word.text for word in document.words]
        text = "".join(words)
        evaded_text = "".join(map(evade, words))
        characters += len(text)
        changed += sum(one != other for one, other in zip(text, evaded_text, strict=True))
        before += _non_ascii(text)
        after += _non_ascii(evaded_text)
        wanted = [word.casefold() for word in words if any(map(str.isalnum, word))]
        page = " ".join(map(evade, words)).casefold()
        missing = {word for word in set(wanted) if word not in page}
        searched += len(wanted)
        lost += sum(word in missing for word in wanted)
    return EvasionCost(characters, changed, before, after, searched, lost)


def _respelt(document: Document, respell: Callable[[str], str]) -> Document:
    return replace(
        document, words=tuple(replace(word, text=respell(word.text)) for word in document.words)
    )


def _non_ascii(text: str) -> int:
    return sum(not character.isascii() for character in text)


Text = Literal["clean", "evaded", "folded"]
"""How text reads: as it was, evaded, or as somebody reads it who folds the letters back."""


def readings(documents: Sequence[Document], mask: Mask) -> Mapping[Text, tuple[RedactedSpan, ...]]:
    """Return the redacted spans of the same values as they are, evaded, and folded back, in the same order.

    Whoever folds does so before sentences are divided. The mask stays the one that is seen: what is
    under it cannot be folded.

    Args:
        documents: as they are.
        mask: how values are hidden.
    """
    shared = [_respelt(document, evade) for document in documents]
    seen = redacted_spans(shared, mask)
    back = redacted_spans((_respelt(document, fold_confusables) for document in shared), mask)
    return {
        "clean": redacted_spans(documents, mask),
        "evaded": seen,
        "folded": tuple(
            replace(
                span,
                mask=other.mask,
                n_characters=other.n_characters,
                layout=other.layout,
                bar=other.bar,
            )
            for span, other in zip(back, seen, strict=True)
        ),
    }
