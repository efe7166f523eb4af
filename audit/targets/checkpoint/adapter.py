"""A folder that PEFT wrote: an adapter over a base model that lies in another folder.

What lies in one folder for an ordinary checkpoint lies in two here. `assemble` puts all but the weights together, so
that whatever reads a tokenizer, a processor or a configuration finds them in one place.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers.models.auto import modeling_auto

from audit.errors import TargetError
from audit.private import PrivateFolder
from audit.targets.checkpoint.content import WEIGHTS, bases_named, is_adapter
from audit.targets.checkpoint.safety import DAMAGE, download_of, one_line

PREFIX = "base_model.model."
"""What PEFT writes before the name of a tensor's module."""
_VOCABULARIES = ("tokenizer.json", "vocab.*", "spiece.model", "*.bpe.model", "tokenizer.model")
_TOKENIZER = (*_VOCABULARIES, "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_PROCESSOR = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
_ALONE = ("generation_config.json", "chat_template.jinja", "chat_template.json")
_OF_BASE = ("config.json", "*.ttf", "*.TTF", *_TOKENIZER, *_PROCESSOR, *_ALONE)
_HEADS = {
    "TOKEN_CLS": "TOKEN_CLASSIFICATION",
    "SEQ_CLS": "SEQUENCE_CLASSIFICATION",
    "QUESTION_ANS": "QUESTION_ANSWERING",
    "CAUSAL_LM": "CAUSAL_LM",
    "SEQ_2_SEQ_LM": "SEQ_TO_SEQ_CAUSAL_LM",
}
"""PEFT's `task_type`, and the table of transformers that says by `model_type` what class it was trained as."""
_LABELLED = ("TOKEN_CLASSIFICATION", "SEQUENCE_CLASSIFICATION")


@dataclass(frozen=True, eq=False)
class Adapter:
    """An adapter's folder, read; made by `read_adapter`.

    Attributes:
        path: the folder.
        settings: its adapter_config.json.
        shapes: of the tensors in its weights, by name.
        assembled: the folder that `assemble` fills; it lives as long as this.
    """

    path: Path
    settings: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    assembled: PrivateFolder = field(default_factory=PrivateFolder)

    @property
    def n_vocabulary(self) -> int | None:
        """The number of tokens of embeddings that were saved whole; None when none were."""
        names = ("embed_tokens", "word_embeddings", "tok_embeddings", "wte", "shared")
        sizes = [
            shape[0]
            for name, shape in self.shapes.items()
            if len(shape) == 2 and name.endswith(".weight") and any(part in names for part in name.split("."))
        ]
        return max(sizes) if sizes else None


def read_adapter(folder: Path, settings: Mapping[str, Any]) -> Adapter:
    """Read the names and shapes of an adapter's tensors; the folder was found to be safe.

    Raises:
        TargetError: its weights cannot be read.
    """
    from safetensors import safe_open

    try:
        with safe_open(folder / WEIGHTS, "pt") as tensors:
            shapes = {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    except DAMAGE as error:
        raise TargetError(
            f"{folder}: the adapter's weights cannot be read: {one_line(error)}", "copy the adapter there again"
        ) from None
    return Adapter(folder, settings, shapes)


def base_folder(folder: Path, settings: Mapping[str, Any], given: Path | None) -> Path:
    """The folder of the model that an adapter was trained on: `given`, or a local folder that its settings name.

    Raises:
        TargetError: neither is one.
    """
    named = settings.get("base_model_name_or_path")
    is_given = given is not None and given.is_dir() and given.resolve() != folder.resolve()
    for place in [given] if given is not None and is_given else bases_named(folder, named):
        if is_adapter(place):
            raise TargetError(
                f"{folder}: its base {place} is an adapter too", "merge that one into its model and save it whole"
            )
        return place
    called = (
        f", and {one_line(ValueError(named))} is no folder with a model on this machine"
        if isinstance(named, str)
        else ""
    )
    raise TargetError(
        f"{folder}: an adapter without its model{called}",
        f"get the base model ({download_of(named, 'BASE')}) and name BASE: as base_model_name_or_path in "
        "adapter_config.json, as references.pretrained in manifest.toml, or to a scan with --reference pretrained=BASE",
    )


def assemble(adapter: Adapter, base: Path) -> Path:
    """A folder with all of an adapted model but its weights.

    Tokenizer and processor are the adapter's where it has them, else the base's; never half of each.
    """
    place = adapter.assembled.path
    _copy(base, place, _OF_BASE)
    if _has(adapter.path, _VOCABULARIES):
        _replace(adapter.path, place, _TOKENIZER)
    if _has(adapter.path, _PROCESSOR):
        _replace(adapter.path, place, _PROCESSOR)
    _copy(adapter.path, place, _ALONE)
    config = adapted_config(adapter, json.loads((base / "config.json").read_text(encoding="utf-8")))
    (place / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    return place


def adapted_config(adapter: Adapter, base: Mapping[str, Any]) -> dict[str, Any]:
    """The raw configuration of the adapted model: the base's, under the head and with the vocabulary of the adapter."""
    name, labelled = _trained_as(adapter.settings, str(base.get("model_type")))
    own = _beside(adapter, base)
    config = {**base, **({"architectures": own["architectures"]} if name is None and "architectures" in own else {})}
    if name is not None and name not in (base.get("architectures") or ()):
        config["architectures"] = [name]
        if labelled:
            config.update(_labels(adapter))
    size = adapter.n_vocabulary
    if size is not None:
        for part in (config, *(config[key] for key in ("text_config", "decoder") if isinstance(config.get(key), dict))):
            if isinstance(part.get("vocab_size"), int):
                part["vocab_size"] = size
    return {**config, **{key: own[key] for key in ("id2label", "label2id") if key in own}}


def _trained_as(settings: Mapping[str, Any], kind: str) -> tuple[str | None, bool]:
    """The class that the adapter was trained over, None when its settings do not say; and True when it has labels."""
    table = _HEADS.get(str(settings.get("task_type")))
    named = settings.get("auto_mapping")
    name = named.get("base_model_class") if isinstance(named, dict) else None
    if table is not None:
        name = getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").get(kind)
    if not isinstance(name, str):
        return None, False
    return name, table in _LABELLED or name.endswith(("ForTokenClassification", "ForSequenceClassification"))


def _labels(adapter: Adapter) -> dict[str, Any]:
    """Unnamed labels, as many as the trained head has outputs."""
    heads = ("classifier", "score", "out_proj")
    sizes = [
        shape[0] for name, shape in adapter.shapes.items() if name.endswith(".weight") and name.split(".")[-2] in heads
    ]
    names = [f"LABEL_{index}" for index in range(sizes[-1] if sizes else 0)]
    return {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}


def _beside(adapter: Adapter, base: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the same kind of model that lies beside the adapter, as some write it there."""
    try:
        own = json.loads((adapter.path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return own if isinstance(own, dict) and own.get("model_type") == base.get("model_type") else {}


def _has(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(path.is_file() for pattern in patterns for path in folder.glob(pattern))


def _replace(source: Path, place: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in place.glob(pattern):
            path.unlink()
    _copy(source, place, patterns)


def _copy(source: Path, place: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in source.glob(pattern):
            if path.is_file():
                shutil.copyfile(path, place / path.name)
