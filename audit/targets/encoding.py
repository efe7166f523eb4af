"""From a document to the tokens, boxes and labels that a checkpoint reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from audit.corpus.documents import Document
from audit.errors import TargetError
from audit.targets.interface import NOT_READ, Encoding, Floats, Ints

UNKNOWN_SHARE = 0.01
"""A tokenizer that turns more than this share of a corpus's words into [UNK] is refused (METHODS.md 1 d)."""


class Encoder:
    """Turns documents into `Encoding`s with one checkpoint's tokenizer.

    Args:
        tokenizer: a fast Hugging Face tokenizer with [CLS], [SEP], [MASK] and [UNK].
        max_tokens: the longest page, special tokens included; longer documents are cut to a window.
        labels: the tags in the order of the model's outputs; empty for untagged tasks.
        label_all_tokens: whether training labelled every token of a word, or the first one only (the default of
            Hugging Face's token classification scripts); the training loss must read what training read.
        needs_boxes: whether the model reads layout.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_tokens: int,
        labels: Sequence[str] = (),
        label_all_tokens: bool = False,
        needs_boxes: bool = True,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.labels = tuple(labels)
        self.label_all_tokens = label_all_tokens
        self.needs_boxes = needs_boxes
        self._label_ids = {label: index for index, label in enumerate(self.labels)}
        # Fields of one document are encoded one after the other, by trial listing and by the attack.
        self._tokens = lru_cache(maxsize=4096)(self._tokenise)

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """See `Target.encode`."""
        ids, words = self._tokens(document)
        window = self._window(words, around)
        if window is None or not len(ids):
            return None
        ids, words = ids[window], words[window]
        special = self.tokenizer
        return Encoding(
            ids=np.concatenate([[special.cls_token_id], ids, [special.sep_token_id]]).astype(np.int64),
            boxes=np.concatenate([np.zeros((1, 4)), self._boxes(document, words), np.ones((1, 4))]),
            words=np.concatenate([[-1], words, [-1]]).astype(np.int64),
            labels=self._token_labels(document, words) if self.labels else None,
            mask_id=special.mask_token_id,
            unknown_id=special.unk_token_id,
        )

    def _tokenise(self, document: Document) -> tuple[Ints, Ints]:
        texts = [word.text for word in document.words]
        if not texts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        encoded = self.tokenizer(texts, is_split_into_words=True, add_special_tokens=False, verbose=False)
        return np.array(encoded["input_ids"], np.int64), np.array(encoded.word_ids(), np.int64)

    def _window(self, words: Ints, around: Sequence[int]) -> slice | None:
        """The tokens to keep: all of them when they fit, else a window with the field in its middle."""
        room = self.max_tokens - 2
        if around:
            held = np.flatnonzero(np.isin(words, list(around)))
            if not len(held) or held[-1] - held[0] + 1 > room:
                return None
            centre = int(held[0] + held[-1] + 1) // 2
        else:
            centre = 0
        start = max(0, min(centre - room // 2, len(words) - room))
        return slice(start, start + room)

    def _boxes(self, document: Document, words: Ints) -> Floats:
        if document.size is None:
            return np.zeros((len(words), 4))
        width, height = document.size
        scale = np.array([width, height, width, height], float)
        boxes = np.array([document.words[index].box or (0, 0, 0, 0) for index in words], float).reshape(-1, 4)
        shares: Floats = np.clip(boxes / scale, 0.0, 1.0)
        return shares

    def _token_labels(self, document: Document, words: Ints) -> Ints:
        """BIO tags per token; the page's first and last token are special and not read."""
        tags = ["O"] * len(document.words)
        for entity in document.entities:
            for place, index in enumerate(entity.words):
                tag = f"{'I' if place else 'B'}-{entity.label}"
                tags[index] = tag if tag in self._label_ids else "O"
        first = np.append(True, words[1:] != words[:-1])
        labels = np.full(len(words) + 2, NOT_READ, np.int64)
        for place, (index, is_first) in enumerate(zip(words, first, strict=True)):
            if is_first:
                labels[place + 1] = self._label_ids[tags[index]]
            elif self.label_all_tokens:
                labels[place + 1] = self._label_ids[self._continued(tags[index])]
        return labels

    def _continued(self, tag: str) -> str:
        """The tag of the tokens that continue a word: inside its entity, where there is such a tag (as run_ner.py)."""
        inside = f"I-{tag.removeprefix('B-')}" if tag.startswith("B-") else tag
        return inside if inside in self._label_ids else tag

    def check_vocabulary(self, documents: Sequence[Document]) -> None:
        """Refuse a tokenizer, or tags, that do not know the corpus.

        Raises:
            TargetError: more than `UNKNOWN_SHARE` of the words hold an unknown token, the model reads layout and the
                documents have none, or it has no tag for a label of the documents.
        """
        words = unknown = 0
        for document in documents:
            ids, places = self._tokens(document)
            words += len(document.words)
            unknown += len(np.unique(places[ids == self.tokenizer.unk_token_id]))
        if words and unknown / words > UNKNOWN_SHARE:
            raise TargetError(
                f"the tokenizer does not know {unknown / words:.0%} of the corpus's {words} words",
                "give the checkpoint its own tokenizer.json (a bare vocab.txt without entries loads as all [UNK])",
            )
        if self.needs_boxes and any(document.words and document.size is None for document in documents):
            raise TargetError("this model reads layout, and some documents have no boxes", "add boxes and sizes")
        labels = {entity.label for document in documents for entity in document.entities}
        unknown_labels = sorted(label for label in labels if f"B-{label}" not in self._label_ids)
        if self.labels and unknown_labels:
            # Its training loss would be read as if these fields were outside every entity.
            raise TargetError(
                f"the model has no tag for entities labelled {', '.join(unknown_labels)}",
                f"its tags are {', '.join(self.labels)}; use these names in the documents",
            )
