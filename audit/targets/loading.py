"""Loading a checkpoint from a local folder, safely: safetensors only, no code from the folder, nothing made up."""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from safetensors import SafetensorError

from audit.errors import TargetError, UsageError
from audit.record import TargetCard
from audit.targets.batching import longest_row
from audit.targets.encoder_target import EncoderTarget
from audit.targets.encoding import Encoder
from audit.targets.families import FAMILIES, HEAD_NAMES, Family, Head

DEVICES = ("auto", "cpu", "cuda", "mps")
_CONTENT = ("*.json", "*.txt", "*.safetensors", "*.model")
"""Files that decide what a checkpoint does; their content makes up its sha256."""


def device_named(name: str) -> str:
    """The device to run on: `auto` takes CUDA, then Apple's MPS, then the CPU.

    Raises:
        UsageError: an unknown name, or a device this machine lacks.
    """
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if present[device])
    if not present.get(name, False):
        raise UsageError(f"device {name!r} is not available here", f"one of {', '.join(DEVICES)}")
    return name


def device_words(device: str) -> str:
    """The device in general terms, for the record."""
    return str(torch.cuda.get_device_name()) if device == "cuda" else {"mps": "Apple GPU"}.get(device, "CPU")


def threads() -> int:
    """CPU threads that a forward pass uses."""
    return int(torch.get_num_threads())


def sha256_of(folder: Path) -> str:
    """The sha256 of a checkpoint: over names and content of its configuration, tokenizer and weights."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _CONTENT for path in folder.glob(pattern)}):
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def load(
    folder: Path,
    *,
    device: str = "cpu",
    labels: Sequence[str] = (),
    label_all_tokens: bool = False,
    batch_tokens: int | None = None,
) -> EncoderTarget:
    """Load a checkpoint as a target.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        device: "cpu", "cuda" or "mps" (see `device_named`).
        labels: the corpus's BIO tags; used when the checkpoint's own label names are the placeholders LABEL_0 ...
        label_all_tokens: see `Encoder`.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: the folder is not a checkpoint docaudit knows, would run code, or lacks weights.
    """
    config, family, head = _recognised(folder)
    model, missing = load_model(folder, family.heads[head])
    if missing:
        raise TargetError(
            f"{folder}: the weights of {len(missing)} parameters are missing, the first is {missing[0]}",
            "an audit of randomly initialised weights would mean nothing; save the fine-tuned model whole",
        )
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) > config.vocab_size:
        raise TargetError(f"{folder}: the tokenizer has {len(tokenizer)} tokens, the model {config.vocab_size}")
    encoder = Encoder(
        tokenizer,
        max_tokens=_max_tokens(config, tokenizer),
        labels=_labels(config, labels, folder) if head == "token-classification" else (),
        label_all_tokens=label_all_tokens,
        needs_boxes=family.boxes is not None,
    )
    card = TargetCard(
        name=folder.resolve().name,
        family=family.name,
        task=head,
        architecture=f"{family.name}, {HEAD_NAMES[head]}",
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        vocabulary=len(tokenizer),
        max_tokens=encoder.max_tokens,
        sha256=sha256_of(folder),
        device=device,
        dtype="float32",
    )
    return EncoderTarget(model.to(device), family, encoder, card, batch_tokens)


def load_model(folder: Path, model_class: type[Any]) -> tuple[Any, list[str]]:
    """The model in float32 and the names of the parameters that its files lack (initialised at random).

    Raises:
        TargetError: no safetensors, or they cannot be read.
    """
    _refuse_unsafe(folder)
    with _quiet():
        try:
            model, report = model_class.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError, SafetensorError, KeyError, TypeError) as error:
            raise TargetError(f"{folder}: the weights cannot be loaded: {_first_line(error)}") from None
    return model, sorted(report["missing_keys"])


def load_tokenizer(folder: Path) -> Any:
    """The checkpoint's own fast tokenizer.

    Raises:
        TargetError: there is none, or it lacks [CLS], [SEP], [MASK], [PAD] or [UNK].
    """
    _refuse_unsafe(folder)
    with _quiet():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, use_fast=True
            )
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, ImportError) as error:
            raise TargetError(f"{folder}: the tokenizer cannot be loaded: {_first_line(error)}") from None
    lacking = [name for name in ("cls", "sep", "mask", "pad", "unk") if getattr(tokenizer, f"{name}_token_id") is None]
    if lacking or not tokenizer.is_fast:
        what = f"lacks the {', '.join(lacking)} token" if lacking else "is not a fast tokenizer"
        raise TargetError(f"{folder}: the tokenizer {what}", "save the tokenizer beside the model")
    return tokenizer


def _recognised(folder: Path) -> tuple[Any, Family, Head]:
    """The configuration, family and head of a checkpoint."""
    raw = _refuse_unsafe(folder)
    known = ", ".join(family.name for family in FAMILIES.values())
    family = FAMILIES.get(str(raw.get("model_type")))
    if family is None:
        raise TargetError(f"{folder}: unknown architecture {raw.get('model_type')!r}", f"docaudit knows {known}")
    architectures = raw.get("architectures") or []
    for head, model_class in family.heads.items():
        if model_class.__name__ in architectures:
            return model_class.config_class.from_pretrained(folder, local_files_only=True), family, head
    classes = ", ".join(model_class.__name__ for model_class in family.heads.values())
    raise TargetError(
        f"{folder}: unknown architecture {', '.join(architectures) or 'none'}", f"docaudit knows {classes}"
    )


def _refuse_unsafe(folder: Path) -> dict[str, Any]:
    """The raw configuration, once it is clear that loading runs no code and reads no pickle.

    Raises:
        TargetError: with what is unsafe or missing.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder", "give a local Hugging Face checkpoint")
    configs = {}
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / name
        try:
            configs[name] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        except (OSError, ValueError):
            raise TargetError(f"{path}: not readable as JSON") from None
        if not isinstance(configs[name], dict):
            raise TargetError(f"{path}: not a JSON object")
        if "auto_map" in configs[name]:
            raise TargetError(
                f"{path}: the checkpoint wants to run its own code (auto_map)",
                "docaudit never runs code from a checkpoint; convert it to a transformers architecture",
            )
    if not configs["config.json"]:
        raise TargetError(f"{folder}: no config.json", "give a local Hugging Face checkpoint")
    if (folder / "adapter_config.json").exists():
        raise TargetError(f"{folder}: an adapter without its model", "merge the adapter into the model and save that")
    _refuse_weights(folder)
    return cast("dict[str, Any]", configs["config.json"])


def _refuse_weights(folder: Path) -> None:
    weights = list(folder.glob("*.safetensors"))
    outside = [path.name for path in folder.iterdir() if not path.resolve().is_relative_to(folder.resolve())]
    if outside:
        raise TargetError(f"{folder}: {outside[0]} links out of the checkpoint's folder", "copy the files themselves")
    if not weights:
        pickles = [path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern)]
        raise TargetError(
            f"{folder}: no model.safetensors" + (f", only {pickles[0]}" if pickles else ""),
            "pickled weights can run code when loaded: save the model with save_pretrained(safe_serialization=True)",
        )
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError):
            raise TargetError(f"{index}: not an index of shards") from None
        missing = sorted(shard for shard in shards if shard not in {path.name for path in weights})
        if missing:
            raise TargetError(f"{folder}: the shard {missing[0]} is missing or lies elsewhere")


def _labels(config: Any, corpus_labels: Sequence[str], folder: Path) -> tuple[str, ...]:
    own = tuple(config.id2label[index] for index in range(config.num_labels))
    if not any(label.startswith("LABEL_") for label in own):
        if corpus_labels and set(corpus_labels) != set(own):
            raise TargetError(f"{folder}: the model's labels are not the manifest's", f"the model has {', '.join(own)}")
        return own
    if len(corpus_labels) != len(own):
        raise TargetError(
            f"{folder}: the model has {len(own)} unnamed labels, the manifest names {len(corpus_labels)}",
            "list the labels in the order of the model's outputs in manifest.toml [task] labels",
        )
    return tuple(corpus_labels)


def _max_tokens(config: Any, tokenizer: Any) -> int:
    """The longest page the model and its tokenizer take, special tokens included."""
    return min(longest_row(config.max_position_embeddings), int(tokenizer.model_max_length))


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps transformers from writing into the user's terminal while it loads; what matters is raised as an error."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.setLevel(level)
