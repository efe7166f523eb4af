"""Models that `docaudit train-splits` left in a folder, and which documents each was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import STRICT, Corpus
from audit.errors import ManifestError, TargetError

FILE_NAME = "splits.json"


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
    path = folder / FILE_NAME
    try:
        return _splits_type.validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ManifestError(f"{folder}: no {FILE_NAME}", "train such models with: docaudit train-splits") from None
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from None
    except ValidationError:
        raise ManifestError(f"{path}: not a list of the documents of split models") from None
