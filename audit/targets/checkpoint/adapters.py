"""A folder that PEFT wrote: an adapter over a base model, merged when it is loaded.

The base lies in another folder.

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
from collections.abc import Mapping, Set
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
        shapes: shapes of the tensors in its weights, by name.
        assembled: the folder that `assemble` fills; it lives as long as this.
    """

    path: Path
    settings: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    assembled: PrivateFolder = field(default_factory=PrivateFolder)

    @property
    def n_vocabulary(self) -> int | None:
        """Return the vocabulary's size by embeddings that were saved whole; None without them."""
        sizes = [
            shape[0]
            for name, shape in self.shapes.items()
            if len(shape) == 2 and _is_of_embeddings(name)
        ]
        return max(sizes, default=None)


def _is_of_embeddings(name: str) -> bool:
    """Test by its name whether a tensor holds the weights of token embeddings."""
    modules = ("embed_tokens", "word_embeddings", "tok_embeddings", "wte", "shared")
    return name.endswith(".weight") and not {*name.split(".")}.isdisjoint(modules)


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
    """Return the folder of the model that an adapter was trained on.

    It is `given`, or a local folder that its settings name.

    Raises:
        TargetError: neither is one.
    """
    stated = settings.get("base_model_name_or_path")
    if given is not None and given.is_dir() and given.resolve() != folder.resolve():
        places = [given]
    else:
        places = list(bases_named(folder, stated))
    if places:
        if is_adapter(places[0]):
            raise TargetError(*wording("adapter_on_adapter", folder=folder, place=places[0]))
        return places[0]
    name = " ".join(stated.split())[:200] if isinstance(stated, str) else ""
    called = f", and {name} is no folder with a model on this machine" if name else ""
    command = download_of(stated, "BASE")
    raise TargetError(
        *wording("adapter_without_base", folder=folder, called=called, command=command)
    )


def assemble(adapter: Adapter, base: Path) -> Path:
    """Write an adapted model's files but its weights to a folder, and return that folder.

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
    """Return the raw configuration of the base with the adapter's head and vocabulary.

    It is the base's, with the adapter's head and vocabulary.
    """
    name, labelled = _trained_as(adapter.settings, str(base.get("model_type")))
    beside = _saved_config(adapter, base)
    config = dict(base)
    if name is None and "architectures" in beside:
        config["architectures"] = beside["architectures"]
    if name is not None and name not in (base.get("architectures") or ()):
        config["architectures"] = [name]
        if labelled:
            config.update(_labels(adapter))
    _set_vocabulary(config, adapter.n_vocabulary)
    for key in ("id2label", "label2id"):
        if key in beside:
            config[key] = beside[key]
    return config


def _set_vocabulary(config: dict[str, Any], n_tokens: int | None) -> None:
    """Set the vocabulary's size in a raw configuration; None changes nothing."""
    if n_tokens is None:
        return
    inner = (config.get("text_config"), config.get("decoder"))
    for settings in (config, *inner):
        if isinstance(settings, dict) and isinstance(settings.get("vocab_size"), int):
            settings["vocab_size"] = n_tokens


def _trained_as(settings: Mapping[str, Any], kind: str) -> tuple[str | None, bool]:
    """Return the class name of an adapter's model, None if unknown, and whether it has labels."""
    table = _HEADS.get(str(settings.get("task_type")))
    mapped = settings.get("auto_mapping")
    name = mapped.get("base_model_class") if isinstance(mapped, dict) else None
    if table is not None:
        name = getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").get(kind)
    if not isinstance(name, str):
        return None, False
    return name, table in ("TOKEN_CLASSIFICATION", "SEQUENCE_CLASSIFICATION") or name.endswith(
        ("ForTokenClassification", "ForSequenceClassification")
    )


def _labels(adapter: Adapter) -> dict[str, Any]:
    """Return placeholder labels for a configuration, as many as the trained head has outputs."""
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


def _saved_config(adapter: Adapter, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that was saved in an adapter's folder; empty where none fits.

    Empty where it is of another kind of model.
    """
    config = read_settings(adapter.path / "config.json", damaged_is_empty=True)
    return config if config.get("model_type") == base.get("model_type") else {}


def _matching(files: Mapping[str, Path], patterns: tuple[str, ...]) -> dict[str, Path]:
    """Return the files whose names match one of the patterns."""
    return {
        name: path
        for name, path in files.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _copy(path: Path, place: Path) -> None:
    """Copy a file to `place`, whose folder is made where it is missing."""
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
            _load_tensors(peft, adapted, adapter)
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
    """Return PEFT's configuration object of an adapter.

    Args:
        adapter: adapter whose adapter_config.json says it.
        trains: whether the adapter is to be trained.

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
    fields = {setting.name for setting in dataclasses.fields(config_class)}
    computing = _computing_settings(settings)
    if issubclass(config_class, (peft.PromptLearningConfig, peft.AdaptionPromptConfig)):
        raise TargetError(*wording("adapter_is_prompt", where=where, kind=kind))
    strange = _strange_settings(computing, fields)
    if strange:
        raise TargetError(
            *wording("adapter_setting", where=where, name=strange[0], version=peft.__version__)
        )
    if settings.get("init_lora_weights") not in _STARTS:
        raise TargetError(
            *wording("adapter_start", where=where, start=settings["init_lora_weights"])
        )
    values = {name: value for name, value in computing.items() if name in fields}
    try:
        return config_class(**values, inference_mode=not trains)
    except DAMAGE as error:
        raise TargetError(
            f"{where}: adapter_config.json cannot be used: {one_line(error)}"
        ) from None


def _computing_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the adapter's settings that decide what it computes."""
    return {name: value for name, value in settings.items() if name not in _RUNTIME}


def _strange_settings(settings: Mapping[str, Any], fields: Set[str]) -> list[str]:
    """Return the names of settings that have a value and that PEFT does not know."""
    return sorted(
        name
        for name, value in settings.items()
        if name not in fields and value and name != "peft_version"
    )


def _load_tensors(peft: Any, adapted: Any, adapter: Adapter) -> None:
    """Load the adapter's tensors into the model; refuse missing, extra or untrained ones."""
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
    lacking = _unfilled(adapted, set(report.missing_keys))
    if lacking:
        raise TargetError(
            *wording("adapter_tensors", path=adapter.path, n=len(lacking), first=lacking[0])
        )


def _unfilled(adapted: Any, missing: Set[str]) -> list[str]:
    """Return the names of the adapter's parameters for which the file has no tensor.

    Args:
        adapted: the model with its adapter.
        missing: names that the file lacks; shared weights have several, and one fills them all.
    """
    parameters = dict(adapted.named_parameters(remove_duplicate=False))
    filled = {id(weights) for name, weights in parameters.items() if name not in missing}
    of_adapter = (name for name in missing if _NAME in name.split("."))
    return sorted(name for name in of_adapter if id(parameters.get(name)) not in filled)


def _without_copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors without the copies that PEFT writes of trained modules.

    It writes them when the vocabulary was resized. Of such a module it writes, beside the tensor
    that it reads, an equal one and the one from before training.
    """
    return {name: tensor for name, tensor in tensors.items() if not _is_copy(name, tensors)}


def _is_copy(name: str, tensors: Mapping[str, torch.Tensor]) -> bool:
    """Test whether a tensor is a copy that PEFT wrote of a trained module."""
    if _unwrapped_twin(name, "original_module", tensors) is not None:
        return True
    same = _unwrapped_twin(name, "modules_to_save", tensors)
    return same is not None and torch.equal(same, tensors[name])


def _unwrapped_twin(
    name: str, wrapper: str, tensors: Mapping[str, torch.Tensor]
) -> torch.Tensor | None:
    """Return the tensor whose name is `name` without PEFT's wrapper; None where there is none."""
    if f".{wrapper}." not in name:
        return None
    return tensors.get(name.replace(f".{wrapper}.", "."))


def resize(model: Any, adapter: Adapter) -> None:
    """Resize the model's vocabulary to that of the adapter's embeddings, in place.

    The new ones are always the same.
    """
    size = adapter.n_vocabulary
    if size is not None and model.get_input_embeddings().weight.shape[0] != size:
        with quiet(), torch.random.fork_rng():
            torch.manual_seed(0)
            model.resize_token_embeddings(size, mean_resizing=False)


def untie(model: Any, adapter: Adapter) -> None:
    """Give the output layer weights of its own where the adapter changes it or the embeddings.

    That is when the adapter changes one of them.
    """
    output = model.get_output_embeddings()
    embeddings = model.get_input_embeddings()
    if output is None or output.weight is not embeddings.weight:
        return
    if adapter.settings.get("ensure_weight_tying"):
        return
    names = {
        module: name for name, module in model.named_modules() if module in (output, embeddings)
    }
    if any(_has_tensors_on(adapter, name) for name in names.values()):
        output.weight = torch.nn.Parameter(embeddings.weight.detach().clone())
        for config in (model.config, model.config.get_text_config(decoder=True)):
            config.tie_word_embeddings = False
        getattr(model, "all_tied_weights_keys", {}).pop(f"{names[output]}.weight", None)


def _has_tensors_on(adapter: Adapter, name: str) -> bool:
    """Test whether an adapter has tensors of its own for the module `name`.

    Whole weights and single tokens stay tied.
    """
    prefix = f"{PREFIX}{name}."
    if name.split(".")[-1] in (adapter.settings.get("modules_to_save") or ()):
        return True
    tensors = (tensor for tensor in adapter.shapes if tensor.startswith(prefix))
    names = (tensor.removeprefix(prefix) for tensor in tensors)
    return any(tensor != "weight" and not tensor.startswith("token_adapter") for tensor in names)


def _fingerprints(model: Any) -> frozenset[int]:
    """Return the set of sums over the bits of each parameter, to tell models apart."""
    types = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    sums = set()
    for weights in model.parameters():
        bits = weights.detach().contiguous().view(types[weights.element_size()])
        sums.add(int(bits.sum(dtype=torch.int64)))
    return frozenset(sums)
