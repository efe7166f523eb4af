"""Character evasion of redacted text, and the attacker who folds it back (Beltrame et al. 2024, section 6, appendix B).

Letters are exchanged for letters of other scripts that look the same: a person reads on, a classifier trained on
ordinary text does not. Whoever knows of it folds the letters back in one step, so no evasion is credited without that
attacker (methods.md#redaction-context). An image of the page is not changed: what OCR reads from it is ordinary text
again.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from audit.errors import ManifestError

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus, Document

EVASION: Mapping[str, str] = MappingProxyType(
    {"a": "\u0430", "e": "\u0435", "i": "\u0456", "n": "\u0578", "o": "\u043e"}
)
"""Each exchanged letter and what replaces it: Cyrillic, and for n Armenian (appendix B, table 6). Capitals stay."""

LOOKALIKES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "A": (0x0391, 0x0410),
        "B": (0x0392, 0x0412),
        "C": (0x0421,),
        "E": (0x0395, 0x0415),
        "F": (0x03DC,),
        "G": (0x050C,),
        "H": (0x0397, 0x041D),
        "I": (0x0399, 0x0406),
        "J": (0x037F, 0x0408),
        "K": (0x039A, 0x041A),
        "M": (0x039C, 0x03FA, 0x041C),
        "N": (0x039D,),
        "O": (0x039F, 0x041E, 0x0555),
        "P": (0x03A1, 0x0420),
        "S": (0x0405, 0x054F),
        "T": (0x03A4, 0x0422),
        "U": (0x054D,),
        "V": (0x0474,),
        "W": (0x051C,),
        "X": (0x03A7, 0x0425),
        "Y": (0x03A5, 0x0423, 0x04AE),
        "Z": (0x0396,),
        "a": (0x0251, 0x03B1, 0x0430),
        "b": (0x042C,),
        "c": (0x0441,),
        "d": (0x0501,),
        "e": (0x0435, 0x04BD),
        "f": (0x0584,),
        "g": (0x0261, 0x0581),
        "h": (0x04BB, 0x0570),
        "i": (0x0131, 0x03B9, 0x0456, 0x04CF),
        "j": (0x03F3, 0x0458),
        "l": (0x04C0,),
        "n": (0x0578, 0x057C),
        "o": (0x03BF, 0x03C3, 0x043E, 0x0585),
        "p": (0x03C1, 0x0440),
        "q": (0x051B, 0x0563, 0x0566),
        "r": (0x0433,),
        "s": (0x0455,),
        "u": (0x03C5, 0x057D),
        "v": (0x03BD, 0x0475),
        "w": (0x0461, 0x051D, 0x0561),
        "x": (0x0445,),
        "y": (0x03B3, 0x0443, 0x04AF),
    }
)
"""By Latin letter, the code points that look like it: Greek, Cyrillic and Armenian letters (and three Latin ones) to
which the confusables table of Unicode Technical Standard 39 gives one Latin letter. One difference, ours: the capital
iotas are read as I, where that table has one prototype for I, l and 1."""

NOTHING = f"no word of the data set holds any of {', '.join(EVASION)}: there is nothing to exchange"
SUFFIX = ", evaded"
"""What the name of an evaded data set ends with."""

_EVADE = str.maketrans(dict(EVASION))
_FOLD = {code: letter for letter, codes in LOOKALIKES.items() for code in codes}


@dataclass(frozen=True)
class EvasionCost:
    """Changes and losses through evasion, counted over whole documents.

    Attributes:
        characters: of all words, without the spaces between them.
        changed: of them, exchanged ones.
        non_ascii_before: of them, outside ASCII before the exchange.
        non_ascii_after: and after it.
        searched: words that a person could look for, those with a letter or a digit; a word that occurs several times
            in a document counts as often.
        lost: of them, those that a plain search (anywhere in the document's text, whatever the case) no longer matches.
        answers: questions with an accepted answer among the words of their page.
        answers_lost: of them, those with none any more.
    """

    characters: int
    changed: int
    non_ascii_before: int
    non_ascii_after: int
    searched: int
    lost: int
    answers: int
    answers_lost: int


def evade(text: str) -> str:
    """`text` with the letters of `EVASION` exchanged; as long as before, and it looks the same."""
    return text.translate(_EVADE)


def fold_confusables(text: str) -> str:
    """`text` with look-alikes turned into the Latin letters they look like: what an attacker who knows evasion reads.

    Compatibility forms (full width, mathematical letters, ligatures) are resolved first, letters come apart from their
    accents so that an exchanged letter under one is found, and are composed again last: the result is in NFKC. Text in
    Greek, Cyrillic or Armenian becomes unreadable, which an attacker on Latin text does not mind. For every text
    `fold_confusables(evade(text)) == fold_confusables(text)`.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", text).translate(_FOLD))


def evaded(document: Document) -> Document:
    """The document as it would be shared: the letters of all its words exchanged.

    Also those under redactions, which nobody sees: the copy then has one alphabet, and a mask as long as before. Boxes,
    entities, paragraphs, tags, intent and image stay: the page looks the same. Questions and answers stay as well, for
    they are what people type and expect in ordinary letters; that an answer is no longer on its page is a cost
    (`EvasionCost.answers_lost`), not to be hidden by exchanging its letters too.
    """
    return replace(document, words=tuple(replace(word, text=evade(word.text)) for word in document.words))


def folded(document: Document) -> Document:
    """The document with the look-alikes of all its words turned back, all else as it was."""
    return replace(document, words=tuple(replace(word, text=fold_confusables(word.text)) for word in document.words))


def evasion_cost(documents: Iterable[Document]) -> EvasionCost:
    """Count what evading these documents changes and breaks."""
    from audit.corpus.answers import is_on_page

    characters = changed = before = after = searched = lost = answers = answers_lost = 0
    for document in documents:
        words = [word.text for word in document.words]
        text, evaded_text = "".join(words), "".join(map(evade, words))
        characters += len(text)
        changed += sum(one != other for one, other in zip(text, evaded_text, strict=True))
        before += _non_ascii(text)
        after += _non_ascii(evaded_text)
        wanted = [word.casefold() for word in words if any(map(str.isalnum, word))]
        page = " ".join(map(evade, words)).casefold()
        missing = {word for word in set(wanted) if word not in page}
        searched += len(wanted)
        lost += sum(word in missing for word in wanted)
        standing = [question for question in document.questions if is_on_page(question, document.words)]
        copy = evaded(document)
        answers += len(standing)
        answers_lost += sum(not is_on_page(question, copy.words) for question in standing)
    return EvasionCost(characters, changed, before, after, searched, lost, answers, answers_lost)


def write_evaded(corpus: Corpus, dst: Path) -> None:
    """Write the data set with every document evaded; `dst` appears whole or not at all.

    Page images are copied as they are. References and canaries are left out: their paths lead into the data set as it
    was, and canaries were inserted into its own letters.

    Args:
        corpus: what is to be shared.
        dst: a new folder.

    Raises:
        UsageError: `dst` is not empty.
        ManifestError: no word holds a letter of `EVASION`.
        EngineError: the files cannot be written.
    """
    from audit.corpus import manifest as manifests
    from audit.corpus.documents import ReferencePaths
    from audit.corpus.images import image_path
    from audit.corpus.publishing import check_destination, copy_image, draft_of

    check_destination(dst)
    documents = [evaded(document) for document in corpus.documents]
    if all(copy == document for copy, document in zip(documents, corpus.documents, strict=True)):
        raise ManifestError(NOTHING, "evasion is for text in small Latin letters")
    name = f"{corpus.manifest.name}{SUFFIX}"
    manifest = replace(corpus.manifest, name=name, references=ReferencePaths(), canaries=None)
    with draft_of(dst, "evasion") as draft:
        for document in documents:
            if document.image is not None:
                copy_image(image_path(corpus, document), draft, document.image)
        manifests.write(draft, manifest, documents)


def _non_ascii(text: str) -> int:
    return sum(not character.isascii() for character in text)
