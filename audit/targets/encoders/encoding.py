"""From a document to the tokens, boxes, labels and links that a checkpoint reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from audit.arrays import Floats, Ints
from audit.corpus.documents import Document
from audit.corpus.tagging import Scheme, scheme_of
from audit.corpus.validation import links_to_itself, words_in_two_entities
from audit.errors import TargetError
from audit.targets import wording
from audit.targets.checkpoint.loading import unpadded
from audit.targets.encoded_page import NO_LINK, NOT_READ, Encoding
from audit.targets.encoders.families import PageImageReader
from audit.targets.encoders.heads import HeadName

ADVICE = "use these names in the documents (docaudit import --labels MODEL_DIR mends their case)"
NAMING: tuple[HeadName, ...] = ("token-classification", "spade-extraction")
"""Heads that name entities."""


def first_tokens(words: Ints) -> Ints:
    """Return the positions of the first token of each word, left to right."""
    return np.flatnonzero((words >= 0) & np.append(True, words[1:] != words[:-1]))


def tag_labels(
    document: Document, words: Ints, label_ids: Mapping[str, int], scheme: Scheme, all_tokens: bool
) -> Ints:
    """Return the id of the BIO tag of each token (n_tokens,), from the document's entities.

    Special tokens are not read.
    """
    tags = [scheme.outside] * len(document.words)
    for entity in document.entities:
        for index, tag in zip(
            entity.words, scheme.tags_of(entity.label, len(entity.words)), strict=True
        ):
            tags[index] = tag if tag in label_ids else scheme.outside
    labels = np.full(len(words), NOT_READ, np.int64)
    if all_tokens:
        of_words = np.flatnonzero(words >= 0)
        labels[of_words] = [label_ids[scheme.continued(tags[index])] for index in words[of_words]]
    first = first_tokens(words)
    labels[first] = [label_ids[tags[index]] for index in words[first]]
    return labels


def spade_classes(document: Document, words: Ints, label_ids: Mapping[str, int]) -> Ints:
    """Return the id of the class of each word's first token (n_tokens,), for SPADE.

    It is the entity's at the entity's first word, "O" elsewhere.
    """
    outside = label_ids["O"]
    classes = {
        entity.words[0]: label_ids.get(entity.label, outside) for entity in document.entities
    }
    labels = np.full(len(words), NOT_READ, np.int64)
    first = first_tokens(words)
    labels[first] = [classes.get(index, outside) for index in words[first].tolist()]
    return labels


def predecessors(document: Document, words: Ints) -> Ints:
    """Return each token's predecessor in its entity, as positions (n_tokens,).

    `NO_LINK` where it has none.
    """
    links = np.full(len(words), NO_LINK, np.int64)
    for entity in document.entities:
        chain = np.concatenate([np.flatnonzero(words == index) for index in entity.words])
        links[chain[1:]] = chain[:-1]
    return links


def parents(document: Document, words: Ints) -> Ints:
    """Return, at the first token of each entity, the position of its parent's first token.

    `NO_LINK` at the first token of every other word, and where the page does not hold the parent;
    `NOT_READ` elsewhere. An entity has one parent, that of its first link.
    """
    links = np.full(len(words), NOT_READ, np.int64)
    first = first_tokens(words)
    links[first] = NO_LINK
    position_of = dict(zip(words[first].tolist(), first.tolist(), strict=True))
    start_of = {entity.id: position_of.get(entity.words[0]) for entity in document.entities}
    parent_of: dict[str, str] = {}
    for parent, child in document.links:
        parent_of.setdefault(child, parent)
    for child, parent in parent_of.items():
        child_start = start_of[child]
        parent_start = start_of[parent]
        if child_start is not None and parent_start is not None:
            links[child_start] = parent_start
    return links


def unknown_labels(
    task: HeadName, labels: Sequence[str], documents: Sequence[Document]
) -> Mapping[str, frozenset[str]]:
    """Return, by document id, the labels for which the model has no tag or class.

    They are those of its entities.

    A document without any is no key.

    Its training loss would be read as if these fields were outside every entity. For classifiers of
    pages it is the page's own class.
    """
    if task == "document-classification":
        return _unknown_classes(labels, documents)
    if task not in NAMING:
        return {}
    used: set[str] = set()
    for document in documents:
        used |= _labels_of(document)
    is_known = scheme_of(labels).knows if task == "token-classification" else labels.__contains__
    strange = {label for label in used if not is_known(label)}
    unknown: dict[str, frozenset[str]] = {}
    for document in documents:
        strange_here = _labels_of(document) & strange
        if strange_here:
            unknown[document.id] = strange_here
    return unknown


def _labels_of(document: Document) -> frozenset[str]:
    """Return the set of labels of a document's entities."""
    return frozenset(entity.label for entity in document.entities)


def _unknown_classes(
    labels: Sequence[str], documents: Sequence[Document]
) -> dict[str, frozenset[str]]:
    """Return, by document id, its class where the model has no such class."""
    return {
        document.id: frozenset({document.label})
        for document in documents
        if document.label is not None and document.label not in labels
    }


Problem = tuple[str, str]
"""What is wrong, and what to do."""


def label_problem(
    task: HeadName, labels: Sequence[str], documents: Sequence[Document]
) -> Problem | None:
    """Return why documents give the training loss no labels, and what to do; None if they do.

    None when it can.

    A manifest for another task has not been held against what this one needs. Documents whose
    labels the model lacks are no problem as long as others with entities are left among the
    members, or among all where there are no members.
    """
    if task == "mlm":
        return None
    annotated = documents
    if task != "document-classification":
        annotated = [document for document in documents if document.entities]
    elif any(document.label is None for document in documents):
        return (
            "the model classifies pages, and some documents have no class",
            "give each document its label",
        )
    unknown = unknown_labels(task, labels, documents)
    if unknown and not _some_left(annotated, unknown):
        return _nothing_known(task, labels, sorted(set().union(*unknown.values())))
    return _spade_problem(task, documents) if task.startswith("spade") else None


def _some_left(annotated: Sequence[Document], unknown: Mapping[str, object]) -> bool:
    """Test whether the model knows all labels of at least one member.

    Any document, where no member has any.
    """
    members = [document for document in annotated if document.split == "member"]
    return any(document.id not in unknown for document in members or annotated)


def _spade_problem(task: HeadName, documents: Sequence[Document]) -> Problem | None:
    """Return why documents give SPADE's loss nothing to read; None where they do."""
    if task == "spade-linking" and not any(document.links for document in documents):
        return (
            "the model links entities, and no document has links",
            "add them: pairs of entity ids, the parent first",
        )
    for document in documents:
        problems = [*words_in_two_entities(document)]
        if task == "spade-linking":
            problems += links_to_itself(document)
        if problems:
            return f"document {document.id} {problems[0]}", "correct the data set"
    return None


def _nothing_known(task: HeadName, labels: Sequence[str], unknown: Sequence[str]) -> Problem:
    """Return the problem of documents of whose labels the model knows none."""
    strange = ", ".join(unknown)
    if task == "document-classification":
        return (
            f"the model has no class {strange}",
            f"it has {', '.join(labels)}; use these names as labels",
        )
    what = "tag" if task == "token-classification" else "class"
    return (
        f"the model has no {what} for entities labelled {strange}",
        f"it has {', '.join(labels)}; {ADVICE}",
    )


BOX_SCALE = 1000
"""Tokenizers of layout models give the boxes of special tokens in thousandths of the page."""
NO_UNKNOWN = -1
"""In place of the id of [UNK], for byte-level tokenizers, which know every word."""
UNKNOWN_SHARE = 0.01
"""A tokenizer that turns more than this share of a corpus's words into [UNK] is refused
(methods/reconstruction.md)."""


def ends_of(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids of the special tokens before and after a page.

    These are [CLS] and [SEP], begin and end, or none.
    """
    return (
        _first_token(tokenizer, "cls_token_id", "bos_token_id"),
        _first_token(tokenizer, "sep_token_id", "eos_token_id"),
    )


def _first_token(tokenizer: Any, *names: str) -> list[int]:
    """Return the id of the first special token of `names` that a tokenizer has, in a list."""
    for name in names:
        token = getattr(tokenizer, name, None)
        if token is not None:
            return [token]
    return []


@dataclass(eq=False)
class Encoder:
    """Turns documents into `Encoding`s with one checkpoint's tokenizer.

    Args:
        tokenizer: a fast Hugging Face tokenizer with [MASK]. Pages begin with its [CLS] and end
            with its [SEP], or with what stands for them where there is none (`ends_of`).
        max_tokens: the longest page, special tokens included; longer documents are cut to a window.
        labels: the tags or classes in the order of the model's outputs, "O" outside of entities
            (`tagging.canonical`); empty for untagged tasks.
        label_all_tokens: whether training labelled every token of a word, or the first one only
            (the default of Hugging Face's token classification scripts); the training loss must
            read what training read.
        needs_boxes: whether the model reads layout.
        task: what the pages are labelled for; token classification where there are labels and
            nothing is named.
        page_images: makes the picture of a page, for models that see it.
    """

    tokenizer: Any
    max_tokens: int
    labels: Sequence[str] = ()
    label_all_tokens: bool = False
    needs_boxes: bool = True
    task: HeadName = "mlm"
    page_images: PageImageReader | None = None

    def __post_init__(self) -> None:
        """Read special tokens from the tokenizer, and the tag scheme from the labels."""
        tokenizer = self.tokenizer
        self.labels = tuple(self.labels)
        if self.labels and self.task == "mlm":
            self.task = "token-classification"
        # The last token's box is the page's far corner (LayoutLM, BROS), unless the tokenizer has
        # another one.
        box = getattr(tokenizer, "sep_token_box", None) or [BOX_SCALE] * 4
        self._sep_box = np.array([box], float) / BOX_SCALE
        self._scheme = scheme_of(self.labels) if self.task == "token-classification" else None
        self._ends = ends_of(tokenizer)
        self._unknown_id: int = (
            NO_UNKNOWN if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        )
        self._label_ids = {label: index for index, label in enumerate(self.labels)}
        # Fields of one document are encoded one after the other, by trial listing and by the
        # attack.
        self._tokens = lru_cache(maxsize=4096)(self._tokenise)
        # So are their pages, by every attack; pictures are too large to be kept.
        self._page = self._encode if self.page_images else lru_cache(maxsize=4096)(self._encode)

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """Return the document's tokens as the model reads them; None where it reads none."""
        _, words = self._tokens(document)
        if around and len(words) <= self._room:
            # Whatever the field, the window is the whole page, which is encoded once.
            return self._page(document, ()) if not set(around).isdisjoint(words.tolist()) else None
        return self._page(document, tuple(around))

    def _encode(self, document: Document, around: tuple[int, ...]) -> Encoding | None:
        """Return the tokens of the document's window around these words, with labels and links."""
        ids, words = self._tokens(document)
        window = self._window(words, around)
        if window is None or not len(ids):
            return None
        ids, words = ids[window], words[window]
        first, last = self._ends
        row = np.concatenate([[-1] * len(first), words, [-1] * len(last)]).astype(np.int64)
        labels, links = self._read_by_the_loss(document, row)
        page_class = None
        if self.task == "document-classification":
            page_class = self._label_ids.get(document.label or "")
        boxes = self._boxes(document, words)
        return Encoding(
            ids=np.concatenate([first, ids, last]).astype(np.int64),
            boxes=np.concatenate([np.zeros((len(first), 4)), boxes, self._sep_box[: len(last)]]),
            words=row,
            labels=labels,
            mask_id=self.tokenizer.mask_token_id,
            unknown_id=self._unknown_id,
            links=links,
            page_image=None if self.page_images is None else self.page_images(document),
            page_class=page_class,
        )

    def _tokenise(self, document: Document) -> tuple[Ints, Ints]:
        """Return the ids of a document's tokens, and the index of each token's word."""
        texts = [word.text for word in document.words]
        if not texts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        # The tokenizers of layout models ask for boxes only to hand them back; what is under them
        # asks for none.
        encoded = unpadded(self.tokenizer).encode(
            texts, is_pretokenized=True, add_special_tokens=False
        )
        return np.array(encoded.ids, np.int64), np.array(encoded.word_ids, np.int64)

    @property
    def _room(self) -> int:
        """Return how many tokens of words fit a row beside the special tokens."""
        return self.max_tokens - sum(map(len, self._ends))

    def _window(self, words: Ints, around: Sequence[int]) -> slice | None:
        """Return the slice of tokens that the model reads; None if it cannot hold `around`.

        All of them when they fit, else a window with the field in its middle.

        Classifiers of pages were trained on the beginning of long ones, and read that alone.
        """
        room = self._room
        if around:
            positions = np.flatnonzero(np.isin(words, list(around)))
            if not len(positions) or positions[-1] - positions[0] + 1 > room:
                return None
            if self.task == "document-classification":
                return slice(0, room) if positions[-1] < room else None
            centre = int(positions[0] + positions[-1] + 1) // 2
        else:
            centre = 0
        start = max(0, min(centre - room // 2, len(words) - room))
        return slice(start, start + room)

    def _boxes(self, document: Document, words: Ints) -> Floats:
        """Return the box of each token's word in shares of the page; zeros where it has none."""
        if document.size is None:
            return np.zeros((len(words), 4))
        width, height = document.size
        scale = np.array([width, height, width, height], float)
        page = document.words
        boxes = np.array([page[index].box or (0, 0, 0, 0) for index in words], float).reshape(-1, 4)
        shares: Floats = np.clip(boxes / scale, 0.0, 1.0)
        return shares

    def _read_by_the_loss(self, document: Document, words: Ints) -> tuple[Ints | None, Ints | None]:
        """Return the labels and the links of the tokens, as the task's loss reads them."""
        if self.task == "spade-extraction":
            return spade_classes(document, words, self._label_ids), predecessors(document, words)
        if self.task == "spade-linking":
            return None, parents(document, words)
        if self.task == "token-classification":
            assert self._scheme is not None
            return tag_labels(
                document, words, self._label_ids, self._scheme, self.label_all_tokens
            ), None
        return None, None

    def check_vocabulary(self, documents: Sequence[Document]) -> None:
        """Refuse a tokenizer or tags that do not cover the data set's words and labels.

        Raises:
            TargetError: more than `UNKNOWN_SHARE` of the words hold an unknown token or give none,
                the model reads layout or images and the documents have none, or its training loss
                cannot be told from what the documents say.
        """
        self._check_words(documents)
        if self.needs_boxes:
            bare = [document.id for document in documents if _lacks_boxes(document)]
            if bare:
                raise TargetError(*wording("no_boxes", n=len(bare), first=bare[0]))
        if self.page_images is not None and any(map(_lacks_image, documents)):
            raise TargetError(
                "this model sees page images, and some documents have none", "add images and sizes"
            )
        problem = label_problem(self.task, self.labels, documents)
        if problem:
            raise TargetError(*problem)

    def _check_words(self, documents: Sequence[Document]) -> None:
        """Refuse a tokenizer that knows less than 99 % of the documents' words."""
        n_words = sum(len(document.words) for document in documents)
        if not n_words:
            return
        share = sum(self._count_unknown(document) for document in documents) / n_words
        if share > UNKNOWN_SHARE:
            raise TargetError(*wording("unknown_words", share=share, words=n_words))

    def _count_unknown(self, document: Document) -> int:
        """Return how many words of a document give an unknown token or none.

        Some tokenizers leave out what they do not know, so that a word may have no token at all.
        """
        ids, token_words = self._tokens(document)
        with_unknown = {*token_words[ids == self._unknown_id].tolist()}
        readable = {*token_words.tolist()} - with_unknown
        return sum(
            index not in readable for index, word in enumerate(document.words) if word.text.strip()
        )


def _lacks_boxes(document: Document) -> bool:
    """Test whether a document has words but lacks their boxes or its size."""
    return bool(document.words) and (document.size is None or document.words[0].box is None)


def _lacks_image(document: Document) -> bool:
    """Test whether a document has words but no image."""
    return bool(document.words) and document.image is None
