"""Pages as tokens for models that answer from a page's words: what stands there, and what they are asked about it.

The training loss of such a page is the mean, over the questions that the page comes with, of the loss of their answers
(ours: the published attacks on page losses know models with one loss a page only).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from audit.corpus.documents import Corpus, Document
from audit.corpus.page_view import PageView
from audit.corpus.removal.redact import cover
from audit.errors import ManifestError
from audit.targets.answering.layout import BOX_SCALE, boxes_of
from audit.targets.answering.reader import PageTokens, Reader, Sample, TokenReader
from audit.targets.answering.rows import NO_IMAGE
from audit.targets.encoded_page import Encoding

SENTINEL = "<extra_id_0>"
"""What stands in T5's inputs where tokens are missing (Raffel et al. 2020, section 3.1.4)."""


@dataclass(frozen=True, eq=False)
class AskedPage(Encoding):
    """A page of words, and the questions about it that its training loss reads.

    Attributes:
        view: the page; `ids` replace the tokens of its words.
        asked: questions, each with the answer that training taught.
    """

    _: KW_ONLY
    view: PageView = field(default_factory=lambda: PageView(()))
    asked: tuple[tuple[str, str], ...] = ()

    @property
    def has_loss(self) -> bool:
        """See `Encoding.has_loss`."""
        return bool(self.asked)

    def scrubbed(self, positions: Sequence[int]) -> Self:
        """See `Encoding.scrubbed`; what is painted white are whole words, as in a removal."""
        words = sorted({int(word) for word in self.words[list(positions)] if word >= 0})
        return replace(self.masked(positions), view=cover(self.view, words))

    def samples(self) -> list[Sample]:
        """The samples of a reader, one a question."""
        own = tuple(self.ids[self.words >= 0].tolist())
        return [Sample(self.view, question, answer, own) for question, answer in self.asked]


def refuse_unreadable(reader: Reader, corpus: Corpus, architecture: str) -> None:
    """Refuse a corpus with questions on pages that the reader's model sees nothing of.

    Raises:
        ManifestError: documents that are asked about have no image, or no words, and the model reads nothing else.
    """
    asked = [document for document in corpus.documents if document.questions]
    blank = [document.id for document in asked if document.image is None]
    if reader.needs_image and blank:
        raise ManifestError(
            f"{len(blank)} documents with questions have no image, the first is {blank[0]};"
            f" {architecture} reads pages from their images",
            NO_IMAGE,
        )
    wordless = [document.id for document in asked if not document.words]
    if getattr(reader, "needs_words", False) and wordless:
        raise ManifestError(
            f"{len(wordless)} documents with questions have no words, the first is {wordless[0]};"
            f" {architecture} reads pages as text",
            "add the words that an OCR reads: docaudit ocr DATA_DIR",
        )


def asked_of(document: Document) -> tuple[tuple[str, str], ...]:
    """The questions of a document that have an answer, each with the first one, which training takes."""
    return tuple((question.question, question.answers[0]) for question in document.questions if question.answers)


def read_page(
    reader: TokenReader, view: PageView, asked: tuple[tuple[str, str], ...], around: Sequence[int]
) -> AskedPage | None:
    """The page as far as a row of the reader holds it; rows with longer questions may hold less of its end.

    Args:
        reader: lays out its rows.
        view: the page.
        asked: what is asked about it.
        around: indices of words.

    Returns:
        None when the page or these words have no tokens, or when a row does not hold all of theirs.
    """
    rows = [reader.page_tokens(view, question) for question, _ in asked] or [reader.page_tokens(view, "")]
    longest, shortest = (choose(rows, key=lambda row: len(row.ids)) for choose in (max, min))
    held = [word for word in shortest.words if word in around]
    # Words are tokenised one by one: alone they have the tokens that they have on their page.
    alone = reader.page_tokens(replace(view, words=tuple(view.words[word] for word in around)), "")
    if not longest.ids or (around and not held) or len(held) < len(alone.ids):
        return None
    return page_of(reader.tokenizer, view, longest, asked)


def page_of(tokenizer: Any, view: PageView, tokens: PageTokens, asked: tuple[tuple[str, str], ...] = ()) -> AskedPage:
    """The page of these tokens.

    Hidden tokens are T5's first sentinel, one for each, or [MASK] where the vocabulary has that. There, as in BERT's,
    the page begins and ends as its masked language models read it, which no reader does.
    """
    ids, words = [*tokens.ids], [*tokens.words]
    known = view.size is not None and all(word.box is not None for word in view.words)
    places = boxes_of(view) if known else [(0.0, 0.0, 0.0, 0.0)] * len(view.words)
    boxes = np.array(places, float).reshape(-1, 4)[words] / BOX_SCALE
    around = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    if tokenizer.mask_token_id is not None and None not in around:
        ids, words = [around[0], *ids, around[1]], [-1, *words, -1]
        boxes = np.concatenate([np.zeros((1, 4)), boxes, np.ones((1, 4))])
    return AskedPage(
        ids=np.array(ids, np.int64),
        boxes=boxes,
        words=np.array(words, np.int64),
        labels=None,
        mask_id=mask_of(tokenizer),
        unknown_id=tokenizer.unk_token_id,
        view=view,
        asked=asked,
    )


def mask_of(tokenizer: Any) -> int:
    """The token that hidden ones are replaced by; [UNK] where the vocabulary has nothing better."""
    sentinel = tokenizer.get_vocab().get(SENTINEL)
    candidates = (sentinel, tokenizer.mask_token_id, tokenizer.unk_token_id)
    return int(next(token for token in candidates if token is not None))
