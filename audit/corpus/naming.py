"""Labels and tags of documents that the manifest does not name."""

from __future__ import annotations

from collections.abc import Iterator

from audit.corpus.documents import Document, Task
from audit.corpus.tagging import scheme_of, scheme_problems
from audit.corpus.validation import is_bio


def unknown_names(document: Document, task: Task | None) -> list[str]:
    """List the labels and tags of a document that the manifest does not name, as `path: problem`.

    Such a document is left out of an audit of a model that lacks them too; it is no problem where others are left.
    """
    if task is None:
        return []
    if task.kind in ("token-classification", "spade-extraction"):
        return [*_needed_labels(document, task)]
    if task.kind == "document-classification" and document.label is not None and document.label not in task.labels:
        return [f"label: {document.label} is not among task.labels of the manifest"] if task.labels else []
    if task.kind != "intent-slots" or not task.labels:
        return []
    return [
        f"tags[{number}]: {tag} is not among task.labels of the manifest"
        for number, tag in enumerate(document.tags or ())
        if is_bio(tag) and tag not in task.labels
    ]


def _needed_labels(document: Document, task: Task) -> Iterator[str]:
    """Each entity's label needs its tags or its class (SPADE extraction), where the manifest names them."""
    labels = frozenset(task.labels)
    if not labels or (task.kind == "token-classification" and [*scheme_problems(task.labels, task.outside)]):
        return
    for number, entity in enumerate(document.entities):
        needed: tuple[str, ...] = (entity.label,)
        if task.kind == "token-classification":
            needed = scheme_of(task.labels, task.outside).tags_of(entity.label, len(entity.words))
        missing = [label for label in dict.fromkeys(needed) if label not in labels]
        if missing:
            yield (f"entities[{number}].label: {' and '.join(missing)} not among task.labels of the manifest")


class UnknownMembers:
    """By place, labels of members that the manifest does not name, where every annotated member has some."""

    def __init__(self, task: Task | None) -> None:
        self.found: dict[str, list[str]] = {}
        self._task = task
        self._known = False

    def look_at(self, prefix: str, document: Document) -> None:
        """Look at one more document."""
        if self._known or document.split != "member" or not (document.entities or document.tags):
            return
        names = unknown_names(document, self._task)
        self._known = not names
        if self._known:
            self.found.clear()
        else:
            self.found[prefix] = names
