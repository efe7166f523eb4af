"""Documents that name something a model has no name for: counted, and left out of an audit.

Their training loss would be read as if an unknown field were outside every entity, or could not be read at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit.corpus.canaries.schema import planted_ids
from audit.corpus.documents import SPLITS, Corpus
from audit.errors import TargetError
from audit.targets.encoders.labelling import unknown_labels
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import Target
from audit.targets.nlu.target import NluTarget

MOST_NAMED = 5
"""Names that a warning lists (ours)."""
_TITLES = {"member": "member", "heldout": "held-out", "public": "public"}


@dataclass(frozen=True)
class Unread:
    """Documents that an audit does without.

    Attributes:
        documents: their ids.
        warnings: what they name, in plain sentences; none without such a document.
    """

    documents: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


NONE_UNREAD = Unread()


def find_unread(target: Target, corpus: Corpus) -> Unread:
    """Look for documents with labels, tags or an intent that the target lacks.

    Args:
        target: a loaded checkpoint that `audit.targets.opening.check` has let pass.
        corpus: the data set, whole.

    Raises:
        TargetError: canaries are among them: a model that has no tag for them was not trained on them.
    """
    if isinstance(target, EncoderTarget):
        found = unknown_labels(target.encoder.task, target.labels, corpus.documents)
    elif isinstance(target, NluTarget):
        found = target.unknown_names(corpus.documents)
    else:
        return NONE_UNREAD
    if not found:
        return NONE_UNREAD
    names = sorted(set().union(*found.values()))
    if planted_ids(corpus) & found.keys():
        raise TargetError(
            f"the model has no name for {', '.join(names)}, and documents with canaries need it",
            "scan the model that was trained on this data set, or the data set as it was before canaries were put in",
        )
    counts = [f"{n} {_TITLES[split]}" for split in SPLITS if (n := sum(one.id in found for one in corpus.of(split)))]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return Unread(
        frozenset(found),
        (
            f"{len(found)} documents are left out of the audit ({', '.join(counts)}): they name what the model does not"
            f" know ({', '.join(names[:MOST_NAMED])}{more}).",
        ),
    )


def without_unread(corpus: Corpus, unread: Unread) -> Corpus:
    """The data set as it is audited: without these documents, its sha256 unchanged."""
    if not unread.documents:
        return corpus
    return replace(corpus, documents=tuple(one for one in corpus.documents if one.id not in unread.documents))
