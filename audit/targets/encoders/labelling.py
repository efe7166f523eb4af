"""Labels of a training loss: BIO tags, SPADE classes and predecessors, SPADE parents.

Everywhere `words` is (n_tokens,), the index of each token's word in the document, -1 for special tokens, and what comes
back is (n_tokens,) too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from audit.arrays import Ints
from audit.corpus.documents import Document
from audit.corpus.validation import links_to_itself, words_in_two_entities
from audit.targets.encoded_page import NO_LINK, NOT_READ
from audit.targets.encoders.heads import HeadName


def first_tokens(words: Ints) -> Ints:
    """Positions of the first token of each word, left to right."""
    return np.flatnonzero((words >= 0) & np.append(True, words[1:] != words[:-1]))


def bio_labels(document: Document, words: Ints, label_ids: Mapping[str, int], all_tokens: bool) -> Ints:
    """BIO tags of the first token of each word, or of all its tokens; special tokens are not read."""
    tags = ["O"] * len(document.words)
    for entity in document.entities:
        for number, index in enumerate(entity.words):
            tag = f"{'I' if number else 'B'}-{entity.label}"
            tags[index] = tag if tag in label_ids else "O"
    labels = np.full(len(words), NOT_READ, np.int64)
    if all_tokens:
        own = np.flatnonzero(words >= 0)
        labels[own] = [label_ids[_continued(tags[index], label_ids)] for index in words[own]]
    first = first_tokens(words)
    labels[first] = [label_ids[tags[index]] for index in words[first]]
    return labels


def _continued(tag: str, label_ids: Mapping[str, int]) -> str:
    """The tag of the tokens that continue a word: inside its entity, where there is such a tag (as run_ner.py)."""
    inside = f"I-{tag.removeprefix('B-')}" if tag.startswith("B-") else tag
    return inside if inside in label_ids else tag


def spade_classes(document: Document, words: Ints, label_ids: Mapping[str, int]) -> Ints:
    """Class of the first token of each word: its entity's at the entity's first word, "O" elsewhere."""
    outside = label_ids["O"]
    classes = {entity.words[0]: label_ids.get(entity.label, outside) for entity in document.entities}
    labels = np.full(len(words), NOT_READ, np.int64)
    first = first_tokens(words)
    labels[first] = [classes.get(index, outside) for index in words[first].tolist()]
    return labels


def predecessors(document: Document, words: Ints) -> Ints:
    """Position of the token before each one in its entity; `NO_LINK` for its first one and outside of entities."""
    links = np.full(len(words), NO_LINK, np.int64)
    for entity in document.entities:
        chain = np.concatenate([np.flatnonzero(words == index) for index in entity.words])
        links[chain[1:]] = chain[:-1]
    return links


def parents(document: Document, words: Ints) -> Ints:
    """Position of the first token of each entity's parent, at the entity's own first token.

    `NO_LINK` at the first token of every other word, and where the page does not hold the parent; `NOT_READ` elsewhere.
    An entity has one parent, that of its first link.
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
        child_start, parent_start = start_of[child], start_of[parent]
        if child_start is not None and parent_start is not None:
            links[child_start] = parent_start
    return links


def label_problem(task: HeadName, labels: Sequence[str], documents: Sequence[Document]) -> tuple[str, str] | None:
    """Why the training loss cannot be told from what the documents say, and what to do; None when it can.

    A manifest for another task has not been held against what this one needs.
    """
    if task == "mlm":
        return None
    if task == "document-classification":
        return _class_problem(labels, documents)
    if task != "spade-linking":
        prefix, what = ("B-", "tag") if task == "token-classification" else ("", "class")
        named = {entity.label for document in documents for entity in document.entities}
        unknown = sorted(label for label in named if f"{prefix}{label}" not in labels)
        if unknown:
            # Its training loss would be read as if these fields were outside every entity.
            return (
                f"the model has no {what} for entities labelled {', '.join(unknown)}",
                f"it has {', '.join(labels)}; use these names in the documents",
            )
    if task == "token-classification":
        return None
    if task == "spade-linking" and not any(document.links for document in documents):
        return "the model links entities, and no document has links", "add them: pairs of entity ids, the parent first"
    for document in documents:
        problems = [*words_in_two_entities(document)]
        if task == "spade-linking":
            problems += links_to_itself(document)
        if problems:
            return f"document {document.id} {problems[0]}", "correct the data set"
    return None


def _class_problem(labels: Sequence[str], documents: Sequence[Document]) -> tuple[str, str] | None:
    """See `label_problem`; classes of documents that it did not train on may be unknown to the model."""
    if any(document.label is None for document in documents):
        return "the model classifies pages, and some documents have no class", "give each document its label"
    unknown = sorted({document.label or "" for document in documents if document.split == "member"} - {*labels})
    if unknown:
        return f"the model has no class {', '.join(unknown)}", f"it has {', '.join(labels)}; use these names as labels"
    return None
