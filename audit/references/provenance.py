"""What a trained reference's folder says of it: its origin, and the documents of each split model.

A reference that saw what is audited later is refused. Copies of a document count as that document.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import STRICT, Corpus, Document
from audit.corpus.images import image_path, read_header
from audit.errors import ManifestError, TargetError
from audit.references.likeness import refuse_a_noisy_copy
from audit.references.starting import adapter_words
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


SPLITS_FILE = "splits.json"


@strict_dataclass(frozen=True, config=STRICT)
class Splits:
    """Which documents each model is trained on: the content of `splits.json`.

    Attributes:
        corpus: the data set's sha256.
        key: over all that the models depend on.
        members: for each model, the ids of its documents, in file order. Model i lies in `folder_of(i)`.
    """

    schema: Literal[1]
    corpus: str
    key: str
    members: tuple[tuple[str, ...], ...]


_splits_type = TypeAdapter(Splits)


def folder_of(number: int) -> str:
    """The name of a model's folder, beside `splits.json`."""
    return f"model-{number:02}"


def read_splits(folder: Path, corpus: Corpus | None = None) -> list[tuple[Path, frozenset[str]]]:
    """The models that `train_splits` left in a folder, each with the ids of the documents it was trained on.

    Args:
        folder: that of `train_splits`.
        corpus: the data set that they are to have been trained on; None: any.

    Raises:
        ManifestError: there is no `splits.json`, it cannot be used, or it is of another data set.
        TargetError: a model is missing.
    """
    splits = read_plan(folder)
    if corpus is not None and splits.corpus != corpus.sha256:
        raise ManifestError(
            f"{folder}: these models were trained on another data set, or on this one before it was changed",
            "train them anew: docaudit train-splits",
        )
    models = [(folder / folder_of(number), frozenset(members)) for number, members in enumerate(splits.members)]
    missing = [path.name for path, _ in models if not path.is_dir()]
    if missing:
        raise TargetError(
            f"{folder}: {len(missing)} of {len(models)} models are missing, the first is {missing[0]}",
            "run the same docaudit train-splits again: it goes on where it was",
        )
    return models


def read_plan(folder: Path) -> Splits:
    """Read which documents each model is trained on.

    Raises:
        ManifestError: there is no `splits.json`, or it cannot be used.
    """
    path = folder / SPLITS_FILE
    try:
        return _splits_type.validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ManifestError(f"{folder}: no {SPLITS_FILE}", "train such models with: docaudit train-splits") from None
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from None
    except ValidationError:
        raise ManifestError(f"{path}: not a list of the documents of split models") from None
