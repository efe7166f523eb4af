"""The names of the outputs of a tagger or classifier, and a sentence about all models that can be audited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.corpus.documents import Task
from audit.corpus.tagging import canonical, scheme_problems
from audit.errors import TargetError
from audit.targets import TABLE
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.encoders.heads import HeadName

_UNNAMED = "LABEL_"
"""What transformers calls outputs that nobody has named."""
_KINDS = {"token-classification": "BIO tags", "spade-extraction": "classes of SPADE extraction"}


def labels_of(config: Any, given: Sequence[str] | Task, folder: CheckpointFolder, head: HeadName) -> tuple[str, ...]:
    """The labels in the order of the model's outputs, "O" for the class outside of entities whatever its name.

    Args:
        config: the model's.
        given: the manifest's task, or labels alone, which may then be told from their form to be another task's. Used
            where the checkpoint's own names are the placeholders LABEL_0 ...
        folder: for messages.
        head: the model's; those that name no entities have no labels.

    Raises:
        TargetError: the manifest's labels are not the model's, or the labels are in no scheme.
    """
    if head == "document-classification":
        return _class_names(config, given.labels if isinstance(given, Task) else tuple(given), folder)
    if head not in _KINDS:
        return ()
    outside = given.outside if isinstance(given, Task) else None
    named = given.labels if isinstance(given, Task) else tuple(given)
    own = tuple(str(config.id2label.get(index, f"{_UNNAMED}{index}")) for index in range(config.num_labels))
    unnamed = any(label.startswith(_UNNAMED) for label in own)
    if not unnamed:
        if named and sorted(named) != sorted(own):
            raise TargetError(f"{folder}: the model's labels are not the manifest's", f"the model has {', '.join(own)}")
        return _checked(own, outside, head, f"{folder}: ", f"the model has {', '.join(own)}")
    if len(named) != len(own):
        raise TargetError(
            f"{folder}: the model has {len(own)} unnamed labels, the manifest names {len(named)}",
            "list the labels in the order of the model's outputs in manifest.toml [task] labels",
        )
    return _checked(named, outside, head, "manifest.toml [task] labels: ", "")


def _class_names(config: Any, named: tuple[str, ...], folder: CheckpointFolder) -> tuple[str, ...]:
    """The names of a classifier's classes: its own, or the manifest's where it has none."""
    own = tuple(str(config.id2label.get(index, f"{_UNNAMED}{index}")) for index in range(config.num_labels))
    if config.num_labels < 2 or config.problem_type in ("regression", "multi_label_classification"):
        raise TargetError(
            f"{folder}: the model does not put pages into one of several classes",
            "models that give a number, or several classes at once, cannot be audited",
        )
    if not any(label.startswith(_UNNAMED) for label in own):
        return own
    if len(named) != len(own):
        raise TargetError(
            f"{folder}: the model does not name its {len(own)} classes",
            "name them, in the order of the model's outputs, in manifest.toml [task] labels",
        )
    return named


def _checked(labels: tuple[str, ...], outside: str | None, head: HeadName, where: str, hint: str) -> tuple[str, ...]:
    if head == "spade-extraction":
        if "O" not in labels:
            raise TargetError(f"{where}no label is O, so these are no {_KINDS[head]}", hint)
        return labels
    for problem in scheme_problems(labels, outside):
        raise TargetError(f"{where}{problem}", hint)
    return canonical(labels, outside)


KNOWN = "README lists the models that docaudit audits"


def unknown_hint(kind: str) -> str:
    """Say what to do about a checkpoint of a `model_type` that docaudit does not know."""
    if kind in TABLE["refused"]:
        return str(TABLE["refused"][kind])
    why = TABLE["left_out"].get(kind)
    return f"{kind} cannot be audited: {why}; {KNOWN}" if why else KNOWN
