"""Labels of a training loss: tags of any scheme, SPADE classes and predecessors, SPADE parents.

Everywhere `words` is (n_tokens,), the index of each token's word in the document, -1 for special tokens, and what comes
back is (n_tokens,) too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from audit.arrays import Ints
from audit.corpus.documents import Document
from audit.corpus.tagging import Scheme, scheme_of
from audit.corpus.validation import links_to_itself, words_in_two_entities
from audit.targets.encoded_page import NO_LINK, NOT_READ
from audit.targets.encoders.heads import HeadName

NAMING: tuple[HeadName, ...] = ("token-classification", "spade-extraction")
"""Heads that name entities."""


def first_tokens(words: Ints) -> Ints:
    """Positions of the first token of each word, left to right."""
    return np.flatnonzero((words >= 0) & np.append(True, words[1:] != words[:-1]))


def tag_labels(document: Document, words: Ints, label_ids: Mapping[str, int], scheme: Scheme, all_tokens: bool) -> Ints:
    """Tags of the first token of each word, or of all its tokens; special tokens are not read."""
    tags = [scheme.outside] * len(document.words)
    for entity in document.entities:
        for index, tag in zip(entity.words, scheme.tags_of(entity.label, len(entity.words)), strict=True):
            tags[index] = tag if tag in label_ids else scheme.outside
    labels = np.full(len(words), NOT_READ, np.int64)
    if all_tokens:
        own = np.flatnonzero(words >= 0)
        labels[own] = [label_ids[scheme.continued(tags[index])] for index in words[own]]
    first = first_tokens(words)
    labels[first] = [label_ids[tags[index]] for index in words[first]]
    return labels


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


def unknown_labels(
    task: HeadName, labels: Sequence[str], documents: Sequence[Document]
) -> Mapping[str, frozenset[str]]:
    """By the id of a document, the labels of its entities that the model has no tag or class for; none: it is no key.

    Its training loss would be read as if these fields were outside every entity. For classifiers of pages it is the
    page's own class.
    """
    if task == "document-classification":
        return {
            one.id: frozenset({one.label}) for one in documents if one.label is not None and one.label not in labels
        }
    if task not in NAMING:
        return {}
    known = _knows(task, labels)
    used = {entity.label for document in documents for entity in document.entities}
    strange = {label for label in used if not known(label)}
    found = {document.id: {entity.label for entity in document.entities} & strange for document in documents}
    return {name: frozenset(own) for name, own in found.items() if own}


def _knows(task: HeadName, labels: Sequence[str]) -> Callable[[str], bool]:
    """A test of whether the model has a tag or class for a label."""
    return scheme_of(labels).knows if task == "token-classification" else labels.__contains__


def label_problem(task: HeadName, labels: Sequence[str], documents: Sequence[Document]) -> tuple[str, str] | None:
    """Why the training loss cannot be told from what the documents say, and what to do; None when it can.

    A manifest for another task has not been held against what this one needs. Documents whose labels the model lacks
    are no problem as long as others with entities are left among the members, or among all where there are no members.
    """
    if task == "mlm":
        return None
    if task == "document-classification" and any(document.label is None for document in documents):
        return "the model classifies pages, and some documents have no class", "give each document its label"
    unknown = unknown_labels(task, labels, documents)
    annotated = [document for document in documents if document.entities or task == "document-classification"]
    members = [document for document in annotated if document.split == "member"]
    if unknown and all(document.id in unknown for document in members or annotated):
        return _nothing_known(task, labels, sorted(set().union(*unknown.values())))
    if task == "document-classification":
        return None
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


def _nothing_known(task: HeadName, labels: Sequence[str], unknown: Sequence[str]) -> tuple[str, str]:
    """See `label_problem`: no document is left."""
    named = ", ".join(unknown)
    if task == "document-classification":
        return f"the model has no class {named}", f"it has {', '.join(labels)}; use these names as labels"
    what = "tag" if task == "token-classification" else "class"
    by_case = all(any(_knows(task, labels)(form) for form in (one.upper(), one.lower())) for one in unknown)
    advice = (
        "in another case, which docaudit import --labels MODEL_DIR mends"
        if by_case
        else "use these names in the documents"
    )
    return f"the model has no {what} for entities labelled {named}", f"it has {', '.join(labels)}; {advice}"
