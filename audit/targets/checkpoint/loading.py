"""The weights of a checkpoint: read as transformers reads them, with an adapter merged in."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from tokenizers import normalizers
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.pre_tokenizers import Sequence as SplitterSequence

from audit.errors import TargetError
from audit.targets import TABLE, wording
from audit.targets.batching import out_of_memory
from audit.targets.checkpoint.adapters import PREFIX, merge_adapter, resize
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.safety import DAMAGE, method_of, one_line, quiet, refuse_panics
from audit.targets.checkpoint.tree import files_of
from audit.targets.checkpoint.wrappers import LIGHTNING, may_be_of_lightning, renamings
from audit.targets.encoders.families import family_of

LARGE = 2_000_000_000
"""Parameters of a model that is too large for most machines in float32: 8 GB."""
_LAYERS = (".layer.", ".layers.", "albert_layer_groups.")  # parts of the names of encoders' weights
_NUMBER = re.compile(r"\.[1-9]\d*\.")


def not_finite(model: Any) -> list[str]:
    """Return the names of parameters of a model that hold infinite numbers or NaN."""
    return [
        name
        for name, weights in model.named_parameters()
        if not bool(torch.isfinite(weights).all())
    ]


LEAST_ROWS = 4
"""Rows of usual pages for which a GPU beside a model's weights must have room: as one page at twice
the resolution."""


def bytes_of_row(config: Any, n_tokens: int, n_answer: int) -> int:
    """Return about how many bytes a row of a batch takes on a GPU, from the model's shape.

    One layer has its values (8 times its width and 3 times its inner width), all layers have their
    keys and values, and each token of an answer has its scores; in float32.
    """
    text = config.get_text_config(decoder=True)
    names = (
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
        "num_hidden_layers",
    )
    given = (getattr(text, name, None) or 0 for name in names)
    # Some families have a number for each layer.
    wide, inner, n_heads, n_kept, n_layers = (
        own if isinstance(own, int) else max(own) for own in given
    )
    cached = 2 * wide * (n_kept or n_heads) // max(1, n_heads) * n_layers
    return int(
        4 * (n_tokens * (8 * wide + 3 * (inner or 4 * wide) + cached) + n_answer * text.vocab_size)
    )


def place(model: Any, device: str, row: int = 0, n_rows: int = 1) -> Any:
    """Return the model on its device, spread over several GPUs where one is too small.

    One that the first GPU cannot hold goes where `places_of` says.

    Args:
        model: model in the memory of the CPU, where its files are mapped, not copied.
        device: the kind of device.
        row: row, see `bytes_of_row`; 0: it is never spread.
        n_rows: number of rows of a batch.

    Raises:
        TargetError: the device has no room for it.
    """
    try:
        whole = device != "cuda" or not row or getattr(model, "hf_quantizer", None) is not None
        if whole or model.get_memory_footprint() + row * LEAST_ROWS <= torch.cuda.mem_get_info()[0]:
            return model.to(device)
        with quiet():
            from accelerate.utils import get_max_memory

            return spread(model, places_of(model, get_max_memory(), row, n_rows))
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise TargetError(
            "the model does not fit into the memory of the device", "use --device cpu"
        ) from None


def places_of(
    model: Any, free: Mapping[int | str, int], row: int, n_rows: int
) -> dict[str, int | str]:
    """Return the device of each part of a model that is too large for one GPU.

    On one GPU, on several, or some in the memory of the CPU as a last resort.

    Whole layers fill one GPU after the other; GPUs that are left over can hold the models that it
    is compared with.

    Args:
        model: model of any device, "meta" too.
        free: bytes by device: the number of a GPU, or "cpu".
        row: row, see `bytes_of_row`.
        n_rows: number of rows of a batch; each GPU keeps free what they take, or a half, a quarter
            and so on, as far as `LEAST_ROWS`.

    Returns:
        A GPU's number or "cpu" by the name of a part.

    Raises:
        TargetError: a GPU has no room for a single layer, or all devices together have none for the
            model.
    """
    from accelerate import infer_auto_device_map

    gpus = {gpu: room for gpu, room in free.items() if isinstance(gpu, int)}
    freest = max(gpus, key=gpus.__getitem__)
    size = model.get_memory_footprint()
    if size + row * LEAST_ROWS <= gpus[freest]:
        return {"": freest}
    unsplit = _layer_classes(model)
    for n_kept, in_memory in _attempts(n_rows, free.get("cpu", 0)):
        most: dict[int | str, int] = {}
        for gpu, room in gpus.items():
            most[gpu] = max(0, room - row * n_kept)
        if in_memory:
            most["cpu"] = in_memory
        places: dict[str, int | str] = infer_auto_device_map(model, most, unsplit)
        if "disk" not in places.values() and gpus.keys() & {*places.values()}:
            return places
    raise TargetError(
        *wording(
            "no_gpu_room",
            n=len(gpus),
            needed=size / 1e9,
            kept=row * LEAST_ROWS / 1e9,
            room=sum(gpus.values()) / 1e9,
        )
    )


def _layer_classes(model: Any) -> list[str]:
    """Return the class names of layers that must stay whole on one GPU."""
    classes = set(model._no_split_modules or ())
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList):
            classes.update(type(layer).__name__ for layer in module)
    return list(classes)


def _attempts(n_rows: int, in_memory: int) -> Iterator[tuple[int, int]]:
    """Yield what to try in turn: rows that each GPU keeps room for, and bytes for the CPU.

    Args:
        n_rows: rows of a batch: all of them, then a half, a quarter and so on.
        in_memory: free bytes of the CPU's memory, which is used last.
    """
    n_kept = n_rows
    while n_kept > LEAST_ROWS:
        yield n_kept, 0
        n_kept >>= 1
    yield LEAST_ROWS, 0
    yield LEAST_ROWS, in_memory


def spread(model: Any, places: Mapping[str, int | str], device: str = "cuda") -> Any:
    """Return the model with each of its parts on its device.

    What is put in goes from one to the next, and comes back at the end.

    transformers' tensor-parallel plan would need a process for each GPU, begun by torchrun;
    docaudit is one process.
    """
    from accelerate import dispatch_model

    named = {
        name: place if isinstance(place, str) else f"{device}:{place}"
        for name, place in places.items()
    }
    first = next(place for place in named.values() if place != "cpu")
    return dispatch_model(
        model, named, first, skip_keys=model._skip_keys_device_placement, force_hooks=True
    )


def is_offloaded(model: Any) -> bool:
    """Test whether a model is spread so that some of it waits in the CPU's memory.

    It comes to a GPU when it runs.
    """
    places = {*getattr(model, "hf_device_map", {}).values()}
    return len(places) > 1 and "cpu" in places


def load_whole_model(folder: AnyFolder, model_class: type[Any]) -> Any:
    """Return the loaded model; refuse one whose files lack parameters or hold NaN.

    Raises:
        TargetError: they do not, or see `load_model`.
    """
    model, missing = load_model(folder, model_class)
    if missing:
        raise TargetError(
            *wording("weights_missing", folder=folder, n=len(missing), first=missing[0])
        )
    broken = not_finite(model)
    if broken:
        raise TargetError(
            *wording("weights_not_finite", folder=folder, n=len(broken), first=broken[0])
        )
    return model


def load_model(
    folder: AnyFolder, model_class: type[Any], settings: Mapping[str, Any] | None = None
) -> tuple[Any, list[str]]:
    """Return the loaded model, and the names of the parameters that its files lack.

    In float32; in bfloat16 when it is large and stored so; or as the folder says. An adapter is
    merged into its base.

    Args:
        folder: the checkpoint.
        model_class: what to load it as.
        settings: take the place of those in its configuration.

    Raises:
        TargetError: no safetensors, or they cannot be read, do not fit the configuration, or cannot
            be merged.
    """
    folder = open_checkpoint(folder)
    folder.seal()
    model, missing = _read_whole(folder, model_class, settings)
    if method_of(folder.config) is None:
        score_exactly(model.get_output_embeddings())
    return model, missing


def _read_whole(
    folder: CheckpointFolder, model_class: type[Any], settings: Mapping[str, Any] | None
) -> tuple[Any, list[str]]:
    """Return a checkpoint's model with its adapter merged in, and the names of missing weights."""
    if folder.adapter is None or folder.base is None:
        return _read(folder, model_class, settings)
    wanted = {**_adapted_labels(folder), **(settings or {})}
    model, missing = _read(folder.base, model_class, wanted)
    resize(model, folder.adapter)
    if folder.fresh:
        return model, missing
    merged = merge_adapter(model, folder.adapter)
    return merged, sorted(
        set(missing) - {name.removeprefix(PREFIX) for name in folder.adapter.shapes}
    )


def score_exactly(scores: Any) -> None:
    """Convert to float32, in place, the layer that scores tokens or positions.

    None is left alone.
    """
    weights = getattr(scores, "weight", None)
    if weights is not None and weights.dtype in (torch.bfloat16, torch.float16):
        scores.weight = torch.nn.Parameter(weights.detach().float())
        if getattr(scores, "bias", None) is not None:
            scores.bias = torch.nn.Parameter(scores.bias.detach().float())


def _adapted_labels(folder: CheckpointFolder) -> dict[str, Any]:
    """Return the label settings of an adapted model that differ from its base's."""
    assert folder.base is not None
    config = json.loads((folder.path / "config.json").read_text(encoding="utf-8"))
    changed = {
        key: config[key]
        for key in ("id2label", "label2id")
        if config.get(key) != folder.base.config.get(key)
    }
    if "id2label" in changed:
        changed["id2label"] = {int(index): name for index, name in changed["id2label"].items()}
    return {key: value for key, value in changed.items() if value}


def _read(
    folder: CheckpointFolder, model_class: type[Any], settings: Mapping[str, Any] | None
) -> tuple[Any, list[str]]:
    """Return the model loaded by transformers, and the names of the parameters its files lack.

    The names of tensors are taken without those of the wrappers that they were saved from.
    """
    names = folder.weight_names
    patterns = renamings(names)
    model, report = _load_renamed(folder, model_class, settings, patterns)
    missing = sorted(report["missing_keys"])
    if missing and may_be_of_lightning(names):
        other = _load_renamed(folder, model_class, settings, {**patterns, LIGHTNING: ""})
        if len(other[1]["missing_keys"]) < len(missing):
            model, report = other
            missing = sorted(report["missing_keys"])
    left_over = _layers_beyond(folder, model, report["unexpected_keys"])
    if left_over:
        raise TargetError(
            f"{folder}: config.json describes fewer layers than the weights have, no {left_over[0]}"
        )
    return model, missing


def _load_renamed(
    folder: CheckpointFolder,
    model_class: type[Any],
    settings: Mapping[str, Any] | None,
    patterns: Mapping[str, str],
) -> tuple[Any, Mapping[str, Any]]:
    """Return the model loaded by transformers, and its report on the names of tensors.

    Args:
        folder: the checkpoint.
        model_class: what to load it as.
        settings: take the place of those in its configuration.
        patterns: patterns in the names of tensors, and what takes their place.

    Raises:
        TargetError: the weights cannot be loaded.
    """
    more: dict[str, Any] = dict(settings or {})
    if patterns:
        more["key_mapping"] = dict(patterns)
    with quiet():
        try:
            n_parameters, n_rounded = _count_numbers(folder.path)
            dtype = _dtype_of(folder, n_parameters, n_rounded)
            model, report = model_class.from_pretrained(
                folder.path,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                # The configuration may name a kernel of the Hub here, which transformers would
                # download and run.
                attn_implementation=None,
                dtype=dtype,
                output_loading_info=True,
                **more,
            )
        except DAMAGE as error:
            shapes = "ignore_mismatched_sizes" in str(error)
            reason = "their shapes are not those of config.json" if shapes else one_line(error)
            raise TargetError(f"{folder}: the weights cannot be loaded: {reason}") from None
    _forget_renamings(model, patterns)
    return model, report


def _forget_renamings(model: Any, patterns: Mapping[str, str]) -> None:
    """Forget the names of wrappers, which transformers would write again where it saves a model."""
    conversions = getattr(model, "_weight_conversions", None)
    if not conversions or not patterns:
        return
    model._weight_conversions = [
        conversion
        for conversion in conversions
        if not patterns.keys() & {*getattr(conversion, "_original_source_patterns", ())}
    ]


def _layers_beyond(folder: CheckpointFolder, model: Any, unexpected: Collection[str]) -> list[str]:
    """Return the names of weights of layers that the configuration does not describe.

    A layer before them is part of the model.
    """
    of_layers = _LAYERS if family_of(str(folder.config.get("model_type"))) else (".layer.",)
    read = ({*folder.weight_names} - {*unexpected}) | {*model.state_dict()}
    return sorted(
        name
        for name in unexpected
        if any(part in name for part in of_layers)
        or any(
            name[: place.start()] + ".0." + name[place.end() :] in read
            for place in _NUMBER.finditer(name)
        )
    )


def _dtype_of(folder: CheckpointFolder, n_parameters: int, n_rounded: int) -> torch.dtype:
    """Return the number format to load weights in: the one asked for, else by the model's size.

    That is bfloat16 for a large model that is stored so, float32 for others.

    float16 has three more bits than bfloat16: rounding them off would change what is audited.
    """
    if folder.number_format != "auto":
        return torch.bfloat16 if folder.number_format == "bfloat16" else torch.float32
    return (
        torch.bfloat16 if n_parameters > LARGE and 2 * n_rounded > n_parameters else torch.float32
    )


def _count_numbers(folder: Path) -> tuple[int, int]:
    """Return how many numbers the weight files hold, and how many of them are bfloat16."""
    n_all = n_rounded = 0
    for path in files_of(folder).values():
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (no mapping)
                    part = tensors.get_slice(name)
                    size = math.prod(part.get_shape())
                    n_all += size
                    n_rounded += size if part.get_dtype() == "BF16" else 0
    return n_all, n_rounded


_VOCABULARIES: list[str] = TABLE["files"]["vocabularies"]
_LENGTHS = ("padding", "truncation", "max_length", "pad_to_multiple_of", "stride")
_UNUSUAL = "\N{SNOWMAN}"
_SAVE_TOKENIZER = (
    "save the tokenizer that the model was trained with beside it: tokenizer.save_pretrained(DIR)"
)


def load_tokenizer(folder: AnyFolder, n_tokens: int | None = None) -> Any:
    """Return the checkpoint's fast tokenizer, for an encoder, which needs [MASK] and [PAD].

    Raises:
        TargetError: there is none, or it lacks [MASK], [PAD], or [UNK] where it is not one of
            bytes.
    """
    tokenizer = open_tokenizer(folder, ("mask", "pad"), n_tokens)
    of_bytes = _by_words(tokenizer.backend_tokenizer)
    if tokenizer.unk_token_id is None and not of_bytes:
        raise TargetError(f"{folder}: the tokenizer lacks the unk token", _SAVE_TOKENIZER)
    return tokenizer


def _by_words(backend: Any) -> bool:
    """Set a byte tokenizer to spell words as after a space; return True for such a tokenizer.

    True for a tokenizer of bytes, which knows every word.

    Words come one by one here: without it each would be spelled as if it continued the one before.
    """
    splitter: Any = backend.pre_tokenizer
    if isinstance(splitter, ByteLevel):
        splitter.add_prefix_space = True
        return True
    of_bytes = isinstance(splitter, SplitterSequence) and any(
        isinstance(part, ByteLevel) for part in iter(splitter)
    )
    normalizer = backend.normalizer
    if of_bytes and (normalizer is None or not normalizer.normalize_str("a").startswith(" ")):
        # Its own switch would put a space before every piece that the splitters before it cut from
        # a word.
        before = [] if normalizer is None else [normalizer]
        backend.normalizer = normalizers.Sequence([*before, normalizers.Prepend(" ")])
    return of_bytes


def open_tokenizer(folder: AnyFolder, needed: Sequence[str], n_tokens: int | None = None) -> Any:
    """Return the checkpoint's fast tokenizer, checked against the model's vocabulary.

    Args:
        folder: the checkpoint.
        needed: the special tokens it must have, such as "pad".
        n_tokens: tokens that the model knows; None: not checked.

    Raises:
        TargetError: there is none, it lacks a special token, or has tokens that the model does not
            know.
    """
    folder = open_checkpoint(folder)
    if not any((folder.path / name).is_file() for name in _VOCABULARIES):
        # transformers would make up a tokenizer without a vocabulary.
        raise TargetError(f"{folder}: no {' or '.join(_VOCABULARIES)}", _SAVE_TOKENIZER)
    _check_convertible(folder)
    tokenizer = _load_fast_tokenizer(folder)
    lacking = [name for name in needed if getattr(tokenizer, f"{name}_token_id") is None]
    if lacking:
        raise TargetError(
            f"{folder}: the tokenizer lacks the {', '.join(lacking)} token", _SAVE_TOKENIZER
        )
    if not tokenizer.is_fast:
        raise TargetError(f"{folder}: the tokenizer is not a fast tokenizer", _SAVE_TOKENIZER)
    if n_tokens is not None:
        check_vocabulary(folder, tokenizer, n_tokens)
    return tokenizer


def _load_fast_tokenizer(folder: CheckpointFolder) -> Any:
    """Return a folder's fast tokenizer as transformers loads it.

    A vocabulary without its own unknown token is found out here, not at the first word that it
    lacks.

    Raises:
        TargetError: it cannot be loaded.
    """
    with quiet(), refuse_panics(folder, "the tokenizer cannot be loaded", _SAVE_TOKENIZER):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder.path, local_files_only=True, trust_remote_code=False, use_fast=True
            )
            if tokenizer.is_fast:
                unpadded(tokenizer).encode(_UNUSUAL)
        except Exception as error:
            # The tokenizers library raises bare `Exception`s; anything of another class goes on as
            # a bug.
            if not (isinstance(error, DAMAGE) or type(error) is Exception):
                raise
            raise TargetError(
                f"{folder}: the tokenizer cannot be loaded: {one_line(error)}"
            ) from None
    return tokenizer


def unpadded(tokenizer: Any) -> Any:
    """Return the tokenizer's backend with padding and truncation switched off.

    A few bytes of tokenizer.json or tokenizer_config.json may ask for padding of gigabytes.

    Returns:
        The inner tokenizer.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    for name in _LENGTHS:
        # A processor takes them for its calls of the tokenizer.
        tokenizer.init_kwargs.pop(name, None)
    return backend


def check_vocabulary(folder: AnyFolder, tokenizer: Any, n_tokens: int) -> None:
    """Refuse a tokenizer with tokens for which the model has no embedding.

    Raises:
        TargetError: it has some.
    """
    if len(tokenizer) > n_tokens:
        raise TargetError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens, the model {n_tokens}"
        )
    # What is put around a text is numbered in a place of its own.
    with refuse_panics(folder, "the tokenizer cannot be used", _SAVE_TOKENIZER):
        around = unpadded(tokenizer).encode(_UNUSUAL).ids
    last = max([*tokenizer.get_vocab().values(), *around], default=0)
    if last >= n_tokens:
        raise TargetError(
            f"{folder}: a token of the tokenizer has the number {last}, the model {n_tokens} tokens"
        )


def _check_convertible(folder: CheckpointFolder) -> None:
    """Refuse files of a slow tokenizer that cannot be converted to a fast one.

    Raises:
        TargetError: the library that reads them is missing, or one of them is.
    """
    names = {path.name for path in folder.path.iterdir()}
    if "tokenizer.json" in names or "vocab.txt" in names:
        return
    if "vocab.json" in names and "merges.txt" not in names:
        raise TargetError(f"{folder}: vocab.json without merges.txt", _SAVE_TOKENIZER)
    if "vocab.json" not in names and find_spec("sentencepiece") is None:
        raise TargetError(*wording("no_sentencepiece", folder=folder))
