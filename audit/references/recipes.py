"""Describe how a model is trained: recipe, start, deterministic kernels, and a whole folder.

Imports nothing that trains, so that a scan that trains nothing starts sooner. Where the audited
model is an adapter, the same kind, rank and layers are trained over the same base, then merged: a
baseline whose weights are all trained is no yardstick for it.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from audit.errors import EngineError, TargetError
from audit.files import mark_underway, remove_abandoned
from audit.references import TEXTS
from audit.targets.checkpoint.adapters import adapter_config, import_peft, untie
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_model
from audit.targets.checkpoint.safety import DAMAGE, one_line, quiet
from audit.targets.encoders.families import family_of
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.loading import unknown_hint


@dataclass(frozen=True)
class Schedule:
    """How weights are fitted. The defaults suit a pretrained checkpoint of the usual sizes.

    Attributes:
        epochs: passes over the samples.
        learning_rate: the peak of AdamW's; it rises during `warmup_share` of the steps and falls
            linearly to 0.
        batch_size: samples a step.
        weight_decay: AdamW's.
        warmup_share: warmup share in [0, 1).
        seed: seed of the order of samples, of masks and of dropout.
        bf16: matrix products in bfloat16 (weights stay float32); several times faster where the
            processor has it.
    """

    epochs: int = 20
    learning_rate: float = 1e-4
    batch_size: int = 16
    weight_decay: float = 0.01
    warmup_share: float = 0.1
    seed: int = 0
    bf16: bool = False

    def as_json(self) -> dict[str, int | float | str | None]:
        """Return the recipe's values by name, for a record or a cache key."""
        return asdict(self)


@dataclass(frozen=True)
class Recipe(Schedule):
    """How an encoder is fitted; a sample is a page.

    Attributes:
        mask_probability: the share of tokens predicted on a page (masked language models only).
    """

    mask_probability: float = 0.15


@dataclass(frozen=True)
class AnsweringRecipe(Schedule):
    """How a question-answering model is fitted.

    A sample is a page and one question, for parsing a page.

    Dropout is as the model's configuration says.

    Attributes:
        prompt, system: prompt and system text, see `audit.corpus.documents.TrainingRecipe`; the
            target that is fitted must have been loaded with them.
    """

    learning_rate: float = 5e-5
    batch_size: int = 8
    prompt: str | None = None
    system: str | None = None


@contextmanager
def reproducible(device: str) -> Iterator[None]:
    """Use deterministic kernels within, and restore settings and random state afterwards.

    On a GPU kernels without a deterministic form only warn: the weights of a reference may then
    differ in the last bits between two trainings, and the record names a checkpoint by its hash.

    Args:
        device: "cpu", "cuda" or "mps".
    """
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    with torch.random.fork_rng(enabled=True):
        torch.use_deterministic_algorithms(True, warn_only=device != "cpu")
        # Nothing here reads memory it did not write; filling every new tensor costs a sixth of the
        # time.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        try:
            yield
        finally:
            torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
            torch.use_deterministic_algorithms(before, warn_only=warned)


UNFINISHED = "unfinished-"
"""What the names of folders begin with that are being filled, or were when the process was
killed."""


def key_of(depends_on: object) -> str:
    """Return a short hash of everything that a trained model depends on.

    `depends_on` is what `json.dumps` takes.
    """
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:16]


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder, filled by `make` unless it is there already.

    Args:
        folder: named after everything its content depends on.
        make: fills the empty folder that it is given; when it breaks down, nothing is left, and
            what is left when the process is killed goes with the next one that is filled.

    Raises:
        EngineError: the disk does not take it.
    """
    if folder.is_dir():
        return folder
    cache = folder.parent
    try:
        cache.mkdir(parents=True, exist_ok=True)
        remove_abandoned(cache.glob(f"{UNFINISHED}*"))
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=cache))
        try:
            with mark_underway(unfinished):
                make(unfinished)
                os.replace(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(
            f"{cache}: {reason}", "free some space or choose another folder"
        ) from None
    return folder


def starting_model(
    folder: AnyFolder, head: HeadName, *, labels: Sequence[str] = (), seed: int = 0
) -> Any:
    """Return the encoder in a folder under a head; a head that it lacks is drawn from `seed`.

    To audit such a model would mean nothing: `load` refuses a checkpoint that lacks weights.

    Args:
        folder: a checkpoint of a known family, with any head or none.
        head: the head it is to have.
        labels: the names of its outputs, for taggers, classifiers of pages and SPADE extraction.
        seed: what is fresh follows from it.

    Raises:
        TargetError: no such checkpoint, the family has no such head, or the encoder lacks weights.
    """
    folder = open_checkpoint(folder)
    kind = str(folder.config.get("model_type"))
    family = family_of(kind)
    if family is None:
        raise TargetError(f"{folder}: not a checkpoint of a known family", unknown_hint(kind))
    if head not in family.heads:
        hint = f"it has {', '.join(family.heads)}"
        hint = TEXTS["read_by"].get(kind, hint) if head == "mlm" else hint
        raise TargetError(f"{folder}: {family.name} has no head for {head}", hint)
    model, missing = under_fresh_head(folder, family.heads[head], labels, seed)
    # Nothing reads the pooler.
    inner = f"{family.encoder}."
    unread = f"{family.encoder}.pooler."
    lost = [name for name in missing if name.startswith(inner) and not name.startswith(unread)]
    if lost:
        raise TargetError(
            f"{folder}: the encoder lacks {len(lost)} parameters, the first is {lost[0]}"
        )
    return model


def under_fresh_head(
    folder: CheckpointFolder,
    model_class: type[Any],
    labels: Sequence[str],
    seed: int,
    **settings: Any,
) -> tuple[Any, list[str]]:
    """Return a checkpoint loaded as `model_class`, and the names of its missing parameters.

    Args:
        folder: the checkpoint.
        model_class: class of the model.
        labels: labels of its outputs, if it has some.
        seed: seed of what is fresh.
        **settings: settings that replace those of its configuration.
    """
    # The folder's own configuration names the family that it was.
    changed: dict[str, Any] = {"model_type": model_class.config_class.model_type, **settings}
    if labels:
        changed |= {
            "id2label": dict(enumerate(labels)),
            "label2id": {name: at for at, name in enumerate(labels)},
        }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return load_model(folder, model_class, changed)


_SAID = (
    "r",
    "lora_alpha",
    "lora_dropout",
    "use_dora",
    "use_rslora",
    "bias",
    "target_modules",
    "modules_to_save",
)


def without_weights(start: CheckpointFolder) -> CheckpointFolder:
    """Return the start of a similar training: an adapter's with fresh adapter weights.

    That is an adapter's base with the adapter's settings, else `start` itself.
    """
    return start if start.adapter is None else replace(start, fresh=True)


@contextmanager
def adapting(model: Any, start: CheckpointFolder, seed: int) -> Iterator[None]:
    """Train only a fresh adapter of the model within, and merge it afterwards.

    Then merge it.

    Args:
        model: the model of `start` without the adapter's weights (`without_weights`); changed in
            place.
        start: start of the training; where it is no adapter nothing is done.
        seed: seed of the adapter's fresh weights.

    Raises:
        TargetError: PEFT is not installed, or the settings do not fit the model.
    """
    if start.adapter is None:
        yield
        return
    peft = import_peft()
    config = adapter_config(start.adapter, trains=True)
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        untie(model, start.adapter)
        try:
            adapted = peft.get_peft_model(model, config)
        except DAMAGE as error:
            raise TargetError(
                f"{start}: such an adapter cannot be trained here: {one_line(error)}"
            ) from None
    yield
    with quiet():
        adapted.to("cpu").float().merge_and_unload(safe_merge=True)
    model.requires_grad_(True)
    if hasattr(model, "peft_config"):
        del model.peft_config


def adapter_words(start: CheckpointFolder) -> str | None:
    """Return the settings of the start's adapter in words, for a record.

    None for a start that is no adapter.
    """
    if start.adapter is None:
        return None
    settings = start.adapter.settings
    words = [
        f"{name} {_setting_text(settings[name])}"
        for name in _SAID
        if settings.get(name) not in (None, False, [], "none")
    ]
    return ", ".join([str(settings.get("peft_type")), *words])


def _setting_text(value: Any) -> str:
    """Return a setting's value as text; a list as its distinct values joined by "+"."""
    return "+".join(sorted(set(map(str, value)))) if isinstance(value, list) else str(value)
