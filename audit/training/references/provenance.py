"""What a trained reference was made of, beside its weights: so that one that saw what is audited later is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from audit.corpus.documents import Corpus, Document
from audit.errors import TargetError
from audit.targets.checkpoint.loading import weights_of
from audit.training.references.copies import content_of
from audit.training.references.likeness import refuse_a_noisy_copy

FILE_NAME = "docaudit-origin.json"


@dataclass(frozen=True)
class Origin:
    """Hashes only, hexadecimal, sorted.

    Attributes:
        documents: of the content of every document that it was trained on; copies share a hash.
        start: of the weight files of the checkpoint that its training began with.
    """

    documents: tuple[str, ...]
    start: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus, documents: Sequence[Document], start: Path) -> Origin:
        """What is written down about a training on these documents."""
        return cls(tuple(sorted(_hashes(corpus, documents))), tuple(sorted(_weights(start))))


def write_origin(folder: Path, origin: Origin) -> None:
    """Write it beside the checkpoint."""
    (folder / FILE_NAME).write_text(json.dumps(asdict(origin), indent=1) + "\n", encoding="utf-8")


def refuse_the_target(role: str, folder: Path, target_dir: Path) -> None:
    """Refuse the target as its own reference: a baseline with the target's own memory would hide every leak.

    Raises:
        TargetError: the reference holds the target's weights, or the same but for rounding.
    """
    if weights_of(folder) & weights_of(target_dir):
        raise TargetError(
            f"reference {role}: {folder} holds the target's own weights",
            "a reference is a model that never saw the audited documents",
        )
    refuse_a_noisy_copy(role, folder, target_dir)


def refuse_unfit(role: str, folder: Path, corpus: Corpus, target_dir: Path) -> None:
    """Refuse a reference that is known to have learnt audited documents, or to come from the target itself.

    A checkpoint that docaudit did not train says nothing about it, and is taken at its owner's word.

    Raises:
        TargetError: it is unfit, or the file cannot be read.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        documents, start = frozenset(map(str, found["documents"])), frozenset(map(str, found["start"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise TargetError(f"reference {role}: {path} cannot be read") from None
    shared = documents & _hashes(corpus, corpus.of("member", "heldout"))
    if shared:
        raise TargetError(
            f"reference {role}: {folder} was trained on {len(shared)} documents that are members or held-out now",
            "train it anew on this data set: docaudit train-baseline",
        )
    if start & _weights(target_dir):
        raise TargetError(
            f"reference {role}: {folder} was trained from the target itself, and knows what it knows",
            "train it from what the target was fine-tuned from",
        )


def _hashes(corpus: Corpus, documents: Sequence[Document]) -> frozenset[str]:
    return frozenset(hashlib.sha256(repr(content_of(corpus, document)).encode()).hexdigest() for document in documents)


def _weights(folder: Path) -> frozenset[str]:
    return frozenset(digest.hex() for digest in weights_of(folder))
