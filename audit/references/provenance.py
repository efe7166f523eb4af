"""The origin of a trained reference, written into its folder: one that saw what is audited later is refused.

Copies of a document count as that document: a model that learnt one of them knows them all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from audit.corpus.documents import Corpus, Document
from audit.corpus.images import image_path, read_header
from audit.errors import TargetError
from audit.references.adapters import adapter_words
from audit.references.likeness import refuse_a_noisy_copy
from audit.targets.checkpoint.folder import CheckpointFolder

FILE_NAME = "docaudit-origin.json"


@dataclass(frozen=True)
class Origin:
    """Hashes only, hexadecimal, sorted.

    Attributes:
        documents: of the content of every document that it was trained on; copies share a hash.
        start: of the weight files of the checkpoint that its training began with.
        adapter: in words, the adapter that was trained; None: all weights were.
    """

    documents: tuple[str, ...]
    start: tuple[str, ...]
    adapter: str | None = None

    @classmethod
    def of(cls, corpus: Corpus, documents: Sequence[Document], start: CheckpointFolder | None) -> Origin:
        """The origin of a model that is trained on these documents, from the weights of `start` if from any."""
        hashes = tuple(sorted(_hashes(corpus, documents)))
        return cls(hashes, ()) if start is None else cls(hashes, _begun(start), adapter_words(start))


def write_origin(folder: Path, origin: Origin) -> None:
    """Write it into the checkpoint's folder."""
    (folder / FILE_NAME).write_text(json.dumps(asdict(origin), indent=1) + "\n", encoding="utf-8")


def refuse_the_target(role: str, folder: CheckpointFolder, target: CheckpointFolder) -> float | None:
    """Refuse the target as its own reference: a baseline with the target's own memory would hide every leak.

    Returns:
        The distance of the weights, see `distance_of_weights`.

    Raises:
        TargetError: the reference holds the target's weights, or the same but for rounding.
    """
    if folder.weights & target.weights:
        raise TargetError(
            f"reference {role}: {folder} holds the target's own weights",
            "a reference is a model that never saw the audited documents",
        )
    return refuse_a_noisy_copy(role, folder.path, target.path)


def adapter_of(folder: Path) -> str | None:
    """The adapter that docaudit trained a reference with, in words; None where it says none."""
    try:
        said = json.loads((folder / FILE_NAME).read_text(encoding="utf-8")).get("adapter")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return said if isinstance(said, str) else None


def refuse_unfit(role: str, folder: CheckpointFolder, corpus: Corpus, target: CheckpointFolder) -> None:
    """Refuse a reference that is known to have learnt audited documents, or to come from the target itself.

    A checkpoint that docaudit did not train says nothing about it, and is taken at its owner's word.

    Raises:
        TargetError: it is unfit, or the file cannot be read.
    """
    path = folder.path / FILE_NAME
    if not path.exists():
        return
    try:
        origin = json.loads(path.read_text(encoding="utf-8"))
        documents, start = frozenset(map(str, origin["documents"])), frozenset(map(str, origin["start"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise TargetError(f"reference {role}: {path} cannot be read") from None
    shared = documents & _hashes(corpus, corpus.of("member", "heldout"))
    if shared:
        raise TargetError(
            f"reference {role}: {folder} was trained on {len(shared)} documents that are members or held-out now",
            "train it anew on this data set: docaudit train-baseline",
        )
    if start & _weights(target):
        raise TargetError(
            f"reference {role}: {folder} was trained from the target itself, and knows what it knows",
            "train it from what the target was fine-tuned from",
        )


def content_of(corpus: Corpus, document: Document) -> Hashable:
    """A key that copies share: the document's words; without words its image file, byte for byte; else its id.

    Raises:
        ManifestError: the image of a document without words cannot be read.
    """
    if document.words:
        return tuple(word.text for word in document.words)
    if document.image is not None:
        return read_header(image_path(corpus, document)).sha256
    return ("id", document.id)


def _hashes(corpus: Corpus, documents: Sequence[Document]) -> frozenset[str]:
    return frozenset(hashlib.sha256(repr(content_of(corpus, document)).encode()).hexdigest() for document in documents)


def _begun(start: CheckpointFolder) -> tuple[str, ...]:
    return tuple(sorted(_weights(start.beginning)))


def _weights(folder: CheckpointFolder) -> frozenset[str]:
    return frozenset(digest.hex() for digest in folder.weights)
