"""A folder that PEFT wrote: an adapter over a base model that lies in another folder, merged when it is loaded.

`assemble` puts all but the weights together, so that whatever reads a tokenizer or a processor
finds one folder.

PEFT drops tensors that fit nowhere without an error, and leaves at their start those that a file
lacks: what is then audited is the base in place of the fine-tuned model (huggingface/peft #2699).
Merging into a tied output layer changes the embeddings too (#2018).
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers.models.auto import modeling_auto

from audit.errors import TargetError
from audit.files import PrivateFolder
from audit.targets import TABLE, wording
from audit.targets.checkpoint.content import WEIGHTS, bases_named, is_adapter, read_settings
from audit.targets.checkpoint.safety import DAMAGE, download_of, one_line, quiet
from audit.targets.checkpoint.tree import files_of

PREFIX = "base_model.model."
"""What PEFT writes before the name of a tensor's module."""
_VOCABULARIES = (
    "tokenizer.json",
    "tokenizer.*.json",
    "tekken.json",
    "vocab.*",
    "*.model",
    "*.tiktoken",
)
_TOKENIZER = (
    *_VOCABULARIES,
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_PROCESSOR = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates/*")
_GROUPS = ((_VOCABULARIES, _TOKENIZER), (_PROCESSOR, _PROCESSOR), (_TEMPLATES, _TEMPLATES))
"""Patterns of files that an adapter brings if it has one of the first, all from one folder, and all
such files."""
_ALONE = ("generation_config.json",)
_OWN = "docaudit"
"""How names of docaudit's own files begin, which say of a model who trained it, and of its adapted
model nothing."""
_HEADS: Mapping[str, str] = TABLE["tasks"]["adapted"]
"""PEFT's `task_type`, and the table of transformers that says by `model_type` what class it was
trained as."""


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
            if len(shape) == 2
            and name.endswith(".weight")
            and any(part in names for part in name.split("."))
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
            *wording("adapter_unreadable", folder=folder, reason=one_line(error))
        ) from None
    return Adapter(folder, settings, shapes)


def base_folder(folder: Path, settings: Mapping[str, Any], given: Path | None) -> Path:
    """Return the folder of the model that an adapter was trained on: `given`, or a local folder that its settings name.

    Raises:
        TargetError: neither is one.
    """
    named = settings.get("base_model_name_or_path")
    is_given = given is not None and given.is_dir() and given.resolve() != folder.resolve()
    for place in [given] if given is not None and is_given else bases_named(folder, named):
        if is_adapter(place):
            raise TargetError(*wording("adapter_on_adapter", folder=folder, place=place))
        return place
    name = " ".join(named.split())[:200] if isinstance(named, str) else ""
    called = f", and {name} is no folder with a model on this machine" if name else ""
    command = download_of(named, "BASE")
    raise TargetError(
        *wording("adapter_without_base", folder=folder, called=called, command=command)
    )


def assemble(adapter: Adapter, base: Path) -> Path:
    """Return a folder with all of an adapted model but its weights.

    Tokenizer, processor and templates are the adapter's where it has them, else the base's; never
    half of each.
    """
    place = adapter.assembled.path
    for name, path in files_of(base).items():
        is_of_weights = name.endswith((".safetensors", ".safetensors.index.json"))
        if not is_of_weights and not name.startswith(_OWN):
            _copy(path, place / name)
    own_files = files_of(adapter.path)
    for brought, group in _GROUPS:
        if not _matching(own_files, brought):
            continue
        for path in _matching(files_of(place), group).values():
            path.unlink()
        for name, path in _matching(own_files, group).items():
            _copy(path, place / name)
    for name, path in _matching(own_files, _ALONE).items():
        _copy(path, place / name)
    config = adapted_config(adapter, json.loads((base / "config.json").read_text(encoding="utf-8")))
    (place / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    return place


def adapted_config(adapter: Adapter, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the adapted model's raw configuration: the base's, with the adapter's head and vocabulary."""
    name, labelled = _trained_as(adapter.settings, str(base.get("model_type")))
    own = _beside(adapter, base)
    config = {
        **base,
        **(
            {"architectures": own["architectures"]}
            if name is None and "architectures" in own
            else {}
        ),
    }
    if name is not None and name not in (base.get("architectures") or ()):
        config["architectures"] = [name]
        if labelled:
            config.update(_labels(adapter))
    size = adapter.n_vocabulary
    if size is not None:
        for part in (
            config,
            *(
                config[key]
                for key in ("text_config", "decoder")
                if isinstance(config.get(key), dict)
            ),
        ):
            if isinstance(part.get("vocab_size"), int):
                part["vocab_size"] = size
    return {**config, **{key: own[key] for key in ("id2label", "label2id") if key in own}}


def _trained_as(settings: Mapping[str, Any], kind: str) -> tuple[str | None, bool]:
    """Return the class that the adapter was trained over, None if unknown, and whether it has labels."""
    table = _HEADS.get(str(settings.get("task_type")))
    named = settings.get("auto_mapping")
    name = named.get("base_model_class") if isinstance(named, dict) else None
    if table is not None:
        name = getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").get(kind)
    if not isinstance(name, str):
        return None, False
    return name, table in ("TOKEN_CLASSIFICATION", "SEQUENCE_CLASSIFICATION") or name.endswith(
        ("ForTokenClassification", "ForSequenceClassification")
    )


def _labels(adapter: Adapter) -> dict[str, Any]:
    """Unnamed labels, as many as the trained head has outputs."""
    heads = ("classifier", "score", "out_proj")
    sizes = [
        shape[0]
        for name, shape in adapter.shapes.items()
        if name.endswith(".weight") and name.split(".")[-2] in heads
    ]
    names = [f"LABEL_{index}" for index in range(sizes[-1] if sizes else 0)]
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def _beside(adapter: Adapter, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of the same kind of model that lies beside the adapter, as some write it there."""
    own = read_settings(adapter.path / "config.json", damaged_is_empty=True)
    return own if own.get("model_type") == base.get("model_type") else {}


def _matching(files: Mapping[str, Path], patterns: tuple[str, ...]) -> dict[str, Path]:
    """Select files by patterns of their names."""
    return {
        name: path
        for name, path in files.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _copy(path: Path, place: Path) -> None:
    """Copy a file, and make its folder where that is missing."""
    place.parent.mkdir(exist_ok=True)
    shutil.copyfile(path, place)


_NAME = "default"  # what PEFT calls the only adapter of a model
_RUNTIME = ("megatron_config", "megatron_core", "runtime_config", "inference_mode")
"""Settings that say how to train or what module to import, not what the adapter computes; they are
not followed."""
_STARTS = (None, True, False, "gaussian", "orthogonal", "eva", "pissa", "olora")
"""Values of `init_lora_weights` that change the base not at all, or the same way each time."""


def import_peft() -> Any:
    """Import PEFT, or raise a `TargetError` where it is not installed."""
    try:
        import peft
    except ImportError:
        raise TargetError(
            "this is an adapter, and PEFT is not installed", "pip install 'docaudit[peft]'"
        ) from None
    return peft


def merge_adapter(model: Any, adapter: Adapter) -> Any:
    """Return the model with the adapter merged into its weights.

    It takes the place of the model that is given.

    Raises:
        TargetError: PEFT is not installed or does not know the adapter, tensors are left over or
            missing, or the adapter changes nothing.
    """
    peft = import_peft()
    config = adapter_config(adapter)
    before = _fingerprints(model)
    with quiet():
        untie(model, adapter)
        try:
            adapted = peft.PeftModel(model, config, adapter_name=_NAME)
            _fill(peft, adapted, adapter)
            # A step of bfloat16 is 0.4 to 0.8 % of a weight, and what training added is often less.
            merged = adapted.float().merge_and_unload(safe_merge=True)
        except KeyError as error:
            raise TargetError(
                *wording("adapter_lacks", path=adapter.path, reason=one_line(error))
            ) from None
        except (*DAMAGE, NotImplementedError) as error:
            raise TargetError(
                *wording("adapter_unfit", path=adapter.path, reason=one_line(error))
            ) from None
    merged.requires_grad_(True)
    if hasattr(merged, "peft_config"):
        del merged.peft_config
    if before == _fingerprints(merged):
        raise TargetError(*wording("adapter_changes_nothing", path=adapter.path))
    return merged.eval()


def adapter_config(adapter: Adapter, *, trains: bool = False) -> Any:
    """PEFT's own configuration of an adapter.

    Args:
        adapter: says it in its adapter_config.json.
        trains: for an adapter that is to be trained.

    Raises:
        TargetError: this PEFT does not know the adapter or one of its settings, or it cannot be
            merged.
    """
    peft = import_peft()
    settings, where = adapter.settings, adapter.path
    kind = str(settings.get("peft_type"))
    config_class = peft.mapping.PEFT_TYPE_TO_CONFIG_MAPPING.get(kind)
    if config_class is None:
        raise TargetError(
            f"{where}: peft {peft.__version__} knows no adapter {kind}", "pip install -U peft"
        )
    known = {own.name for own in dataclasses.fields(config_class)}
    given = {name: value for name, value in settings.items() if name not in _RUNTIME}
    strange = sorted(
        name
        for name, value in given.items()
        if name not in known and value and name != "peft_version"
    )
    if issubclass(config_class, (peft.PromptLearningConfig, peft.AdaptionPromptConfig)):
        raise TargetError(*wording("adapter_is_prompt", where=where, kind=kind))
    if strange:
        raise TargetError(
            *wording("adapter_setting", where=where, name=strange[0], version=peft.__version__)
        )
    if settings.get("init_lora_weights") not in _STARTS:
        raise TargetError(
            *wording("adapter_start", where=where, start=settings["init_lora_weights"])
        )
    try:
        return config_class(
            **{name: one for name, one in given.items() if name in known}, inference_mode=not trains
        )
    except DAMAGE as error:
        raise TargetError(
            f"{where}: adapter_config.json cannot be used: {one_line(error)}"
        ) from None


def _fill(peft: Any, adapted: Any, adapter: Adapter) -> None:
    """Give the adapter its tensors, each of them and no other."""
    tensors = _without_copies(load_file(adapter.path / WEIGHTS))
    started = [bool(tensor.any()) for name, tensor in tensors.items() if ".lora_B." in name]
    if started and not any(started):
        raise TargetError(*wording("adapter_untrained", path=adapter.path, n=len(started)))
    report = peft.set_peft_model_state_dict(adapted, tensors, adapter_name=_NAME)
    extra = sorted(report.unexpected_keys)
    if extra:
        raise TargetError(
            *wording(
                "adapter_left_over",
                path=adapter.path,
                n=len(extra),
                of=len(tensors),
                first=extra[0],
            )
        )
    given = set(report.missing_keys)
    named = dict(adapted.named_parameters(remove_duplicate=False))
    filled = {id(weights) for name, weights in named.items() if name not in given}
    lacking = sorted(
        name for name in given if _NAME in name.split(".") and id(named.get(name)) not in filled
    )
    if lacking:
        raise TargetError(
            *wording("adapter_tensors", path=adapter.path, n=len(lacking), first=lacking[0])
        )


def _without_copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors without the copies that PEFT writes of trained modules when the vocabulary was resized.

    Of such a module it writes, beside the tensor that it reads, an equal one and the one from
    before training.
    """

    def twin(name: str, part: str) -> torch.Tensor | None:
        return tensors.get(name.replace(f".{part}.", ".")) if f".{part}." in name else None

    return {
        name: tensor
        for name, tensor in tensors.items()
        if twin(name, "original_module") is None
        and ((same := twin(name, "modules_to_save")) is None or not torch.equal(same, tensor))
    }


def resize(model: Any, adapter: Adapter) -> None:
    """Give the base as many tokens as the adapter's embeddings have.

    The new ones are always the same.
    """
    size = adapter.n_vocabulary
    if size is not None and model.get_input_embeddings().weight.shape[0] != size:
        with quiet(), torch.random.fork_rng():
            torch.manual_seed(0)
            model.resize_token_embeddings(size, mean_resizing=False)


def untie(model: Any, adapter: Adapter) -> None:
    """Part the output layer from the embeddings that it shares weights with, when the adapter changes one of them."""
    output, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if (
        output is None
        or output.weight is not embeddings.weight
        or adapter.settings.get("ensure_weight_tying")
    ):
        return
    names = {
        module: name for name, module in model.named_modules() if module in (output, embeddings)
    }
    if any(_changes(adapter, name) for name in names.values()):
        output.weight = torch.nn.Parameter(embeddings.weight.detach().clone())
        for config in (model.config, model.config.get_text_config(decoder=True)):
            config.tie_word_embeddings = False
        getattr(model, "all_tied_weights_keys", {}).pop(f"{names[output]}.weight", None)


def _changes(adapter: Adapter, name: str) -> bool:
    """Return True when an adapter has tensors of its own on this module.

    Whole weights and single tokens stay tied.
    """
    prefix = f"{PREFIX}{name}."
    own = [tensor.removeprefix(prefix) for tensor in adapter.shapes if tensor.startswith(prefix)]
    saved = name.split(".")[-1] in (adapter.settings.get("modules_to_save") or ())
    return saved or any(
        tensor != "weight" and not tensor.startswith("token_adapter") for tensor in own
    )


def _fingerprints(model: Any) -> frozenset[int]:
    types = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = (own.detach().contiguous().view(types[own.element_size()]) for own in model.parameters())
    return frozenset(int(own.sum(dtype=torch.int64)) for own in bits)
