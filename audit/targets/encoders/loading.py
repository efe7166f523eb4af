"""Loading a checkpoint from a local folder, safely.

Safetensors only, no code from the folder, nothing made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from audit.corpus.documents import Task
from audit.corpus.tagging import canonical, scheme_problems
from audit.errors import TargetError
from audit.targets import TABLE, wording
from audit.targets.batching import longest_row
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_tokenizer, load_whole_model, place
from audit.targets.checkpoint.safety import DAMAGE, one_line, quiet, refuse_training
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.families import (
    Family,
    OpenImage,
    PageImageReader,
    family_named,
    family_of,
)
from audit.targets.encoders.heads import HEADS, HeadName
from audit.targets.encoders.target import EncoderTarget

_MIN_TOKENS = 16
"""A model that reads no longer pages than this has a mistake in its settings."""


def load(
    folder: AnyFolder,
    *,
    device: str = "cpu",
    labels: Sequence[str] | Task = (),
    label_all_tokens: bool = False,
    batch_tokens: int | None = None,
    images: OpenImage | None = None,
) -> EncoderTarget:
    """Load a checkpoint as a target.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        device: "cpu", "cuda" or "mps" (see `device_named`).
        labels: labels, see `labels_of`.
        label_all_tokens: whether all tokens are labelled, see `Encoder`.
        batch_tokens: number of tokens of a batch, see `EncoderTarget`.
        images: opens a document's page, for models that see it; without it such a model can be
            asked nothing.

    Raises:
        TargetError: the folder is not a checkpoint docaudit knows, would run code, or lacks
            weights.
    """
    folder = open_checkpoint(folder)
    config, family, head = _recognise(folder)
    if head.startswith("spade") and getattr(config, "n_relations", 1) != 1:
        # transformers' BROS can score several at once; its own loss takes one only.
        problem = f"{folder}: a SPADE head of {config.n_relations} relations"
        raise TargetError(problem, "docaudit knows heads of one relation")
    refuse_training(folder, folder.config)  # attacks train encoders on pages
    model = load_whole_model(folder, family.heads[head])
    tokenizer = load_tokenizer(folder, config.vocab_size)
    encoder = Encoder(
        tokenizer,
        max_tokens=max_tokens_of(config, tokenizer),
        labels=labels_of(config, labels, folder, head),
        label_all_tokens=label_all_tokens,
        needs_boxes=family.boxes is not None,
        task=head,
        page_images=page_images_of(folder, config, images),
    )
    card = folder.card(
        model,
        family.name,
        head,
        HEADS[head].words,
        vocabulary=len(tokenizer),
        max_tokens=encoder.max_tokens,
        device=device,
    )
    return EncoderTarget(place(model, device), family, encoder, card, batch_tokens)


def _recognise(folder: CheckpointFolder) -> tuple[Any, Family, HeadName]:
    """Return the configuration, family and head of a checkpoint."""
    family = _family_of(folder)
    named = folder.config.get("architectures")
    architectures = [str(name) for name in named] if isinstance(named, list) else []
    for head, model_class in family.heads.items():
        if model_class.__name__ in architectures:
            return _configuration(folder, model_class), family, head
    classes = ", ".join(model_class.__name__ for model_class in family.heads.values())
    if "mlm" not in family.heads:
        classes += f"; transformers has no masked language model of {family.name}"
    if not architectures:
        raise TargetError(*wording("no_architecture", folder=folder, classes=classes))
    raise TargetError(
        f"{folder}: unknown architecture {', '.join(architectures)}", f"docaudit knows {classes}"
    )


def config_of(folder: AnyFolder) -> Any:
    """Return the configuration of a checkpoint of a known family, whatever its head.

    Raises:
        TargetError: the folder holds none.
    """
    folder = open_checkpoint(folder)
    return _configuration(folder, next(iter(_family_of(folder).heads.values())))


def _family_of(folder: CheckpointFolder) -> Family:
    """Return the family of a checkpoint; refuse a `model_type` of no known family."""
    kind = folder.config.get("model_type")
    family = family_of(str(kind))
    if family is None:
        raise TargetError(f"{folder}: unknown architecture {kind!r}", unknown_hint(str(kind)))
    return family


def _configuration(folder: CheckpointFolder, model_class: type[Any]) -> Any:
    """Return a checkpoint's configuration object, or refuse one that cannot be used."""
    with quiet():
        try:
            return model_class.config_class.from_pretrained(folder.path, local_files_only=True)
        except DAMAGE as error:
            raise TargetError(
                f"{folder}: the configuration cannot be used: {one_line(error)}"
            ) from None


def page_images_of(
    folder: AnyFolder, config: Any, images: OpenImage | None
) -> PageImageReader | None:
    """Return the reader of page images for a model; None where it sees none.

    Raises:
        TargetError: the settings of the checkpoint's image processor cannot be used.
    """
    sight = family_named(config.model_type).sight_of(config)
    return (
        None
        if sight is None
        else PageImageReader(images, sight.as_processed(open_checkpoint(folder).path))
    )


def max_tokens_of(config: Any, tokenizer: Any) -> int:
    """Return the most tokens of a page for the model and tokenizer, special ones included.

    Raises:
        TargetError: one of them takes no page worth the name.
    """
    limit = tokenizer.model_max_length
    family = family_named(config.model_type)
    sight = family.sight_of(config)
    longest = longest_row(family.n_positions(config), 0 if sight is None else sight.n_appended)
    # Tokenizers without a limit say 1e30.
    max_tokens = min(longest, int(limit) if isinstance(limit, int | float) and limit > 0 else 0)
    if max_tokens < _MIN_TOKENS:
        raise TargetError(*wording("short_pages", n=max(0, max_tokens)))
    return max_tokens


_UNNAMED = "LABEL_"
"""What transformers calls outputs that nobody has named."""
_KINDS = {"token-classification": "BIO tags", "spade-extraction": "classes of SPADE extraction"}


def labels_of(
    config: Any, given: Sequence[str] | Task, folder: CheckpointFolder, head: HeadName
) -> tuple[str, ...]:
    """Return the labels in the order of the model's outputs.

    "O" stands for the class outside of entities, whatever its name.

    Args:
        config: the model's.
        given: the manifest's task, or labels alone, which may then be told from their form to be
            another task's. Used where the checkpoint's own names are the placeholders LABEL_0 ...
        folder: folder that messages name.
        head: the model's; those that name no entities have no labels.

    Raises:
        TargetError: the manifest's labels are not the model's, or the labels are in no scheme.
    """
    if head not in (*_KINDS, "document-classification"):
        return ()
    outside, named = (
        (given.outside, given.labels) if isinstance(given, Task) else (None, tuple(given))
    )
    own = tuple(
        str(config.id2label.get(index, f"{_UNNAMED}{index}")) for index in range(config.num_labels)
    )
    if head == "document-classification":
        return _class_names(config, own, named, folder)
    unnamed = any(label.startswith(_UNNAMED) for label in own)
    if not unnamed:
        if named and sorted(named) != sorted(own):
            raise TargetError(
                f"{folder}: the model's labels are not the manifest's",
                f"the model has {', '.join(own)}",
            )
        return _checked_labels(own, outside, head, f"{folder}: ", f"the model has {', '.join(own)}")
    if len(named) != len(own):
        raise TargetError(*wording("unnamed_labels", folder=folder, n=len(own), named=len(named)))
    return _checked_labels(named, outside, head, "manifest.toml [task] labels: ", "")


def _class_names(
    config: Any, own: tuple[str, ...], named: tuple[str, ...], folder: CheckpointFolder
) -> tuple[str, ...]:
    """Return the names of a classifier's classes: its own, or else the manifest's."""
    if config.num_labels < 2 or config.problem_type in ("regression", "multi_label_classification"):
        raise TargetError(*wording("not_one_class", folder=folder))
    if not any(label.startswith(_UNNAMED) for label in own):
        return own
    if len(named) != len(own):
        raise TargetError(*wording("unnamed_classes", folder=folder, n=len(own)))
    return named


def _checked_labels(
    labels: tuple[str, ...], outside: str | None, head: HeadName, where: str, hint: str
) -> tuple[str, ...]:
    """Return the labels in their usual form; refuse ones that do not fit the head."""
    if head == "spade-extraction":
        if "O" not in labels:
            raise TargetError(f"{where}no label is O, so these are no {_KINDS[head]}", hint)
        return labels
    for problem in scheme_problems(labels, outside):
        raise TargetError(f"{where}{problem}", hint)
    return canonical(labels, outside)


KNOWN = "docs/model-types.md lists the models that docaudit audits"


def unknown_hint(kind: str) -> str:
    """Return advice about a checkpoint whose `model_type` docaudit does not know.

    Where the installed transformers does not know it either, that is the reason.
    """
    if kind in TABLE["refused"]:
        return str(TABLE["refused"][kind])
    if kind != str(None) and kind not in CONFIG_MAPPING_NAMES:
        twin = TABLE["twins"].get(kind)
        if twin is not None:
            return wording("own_code_twin", path=kind, twin=twin)[1]
        (hint,) = wording("no_class", kind=kind, version=transformers.__version__)
        return hint
    why = TABLE["left_out"].get(kind)
    return f"{kind} cannot be audited: {why}; {KNOWN}" if why else KNOWN
