"""Ways of writing the same page: its words spelt otherwise, its boxes measured otherwise, another picture of it.

Method: methods/checks.md#checks-of-the-documents.
"""

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from audit.attacks.membership.pictures import PictureChange, picture_changes
from audit.corpus.boxes import box_changes, rewrite_boxes, with_cut_boxes, with_line_boxes
from audit.corpus.documents import Corpus, Document

Kind = Literal["text", "boxes", "picture"]


@dataclass(frozen=True)
class Way:
    """A way of writing pages.

    Attributes:
        name: name as the end of "pages written ...".
        kind: what it changes.
        rewrite: gives the document in this way; the same document where nothing changes.
        change_picture: change of the picture, for ways that change the picture alone.
        strong: whether it changes the loss of any model that looks at what it changes.
    """

    name: str
    kind: Kind
    rewrite: Callable[[Document], Document] = lambda document: document
    change_picture: PictureChange | None = None
    strong: bool = False


STRONG = frozenset({"with boxes upside down", "with boxes mirrored", "with inverted pictures"})
"""Names of strong ways, see `Way`."""


def ways_of_writing(corpus: Corpus) -> list[Way]:
    """List the ways of writing that are tried for a task: of its words, its boxes and its pictures.

    Answers are found on the page by their spelling, so that questions keep their punctuation. The
    output of a parsing model is markup, which has no other case.
    """
    ways = [*_spellings(corpus), *_box_ways()]
    ways += [
        Way(name, "picture", change_picture=change) for name, change in picture_changes().items()
    ]
    return [replace(way, strong=way.name in STRONG) for way in ways]


def _spellings(corpus: Corpus) -> Iterator[Way]:
    """Yield the ways of writing that change letters or punctuation and suit the task."""
    task = corpus.manifest.task
    if task.kind != "parsing":
        yield Way("in capitals", "text", partial(_spell, str.upper))
        yield Way("in lower case", "text", partial(_spell, str.lower))
        yield Way("with capital initials", "text", partial(_spell, string.capwords))
    if not task.asks:
        yield Way("without punctuation", "text", partial(_spell, _strip_punctuation))


def _strip_punctuation(text: str) -> str:
    """Remove punctuation from both ends of a word; one of punctuation alone stays."""
    return text.strip(string.punctuation) or text


def _spell(spell: Callable[[str], str], document: Document) -> Document:
    """Apply a change of spelling to every word, question and answer."""
    words = tuple(replace(word, text=spell(word.text)) for word in document.words)
    questions = tuple(
        replace(
            question, question=spell(question.question), answers=tuple(map(spell, question.answers))
        )
        for question in document.questions
    )
    return replace(document, words=words, questions=questions)


def _box_ways() -> Iterator[Way]:
    """Yield the ways of writing that change the boxes of words."""
    for name, change in box_changes():
        yield Way(f"with boxes {name}", "boxes", partial(rewrite_boxes, change))
    yield Way("with boxes of whole lines", "boxes", with_line_boxes)
    yield Way("with boxes of words cut out of those of lines", "boxes", with_cut_boxes)
