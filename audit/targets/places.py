"""What a path is that somebody gives as a model or a data set, told by names and first bytes.

Nothing is loaded, neither torch nor transformers is imported, and each command asks this first. Of
what docaudit does not open it names the one way out: `audit.targets.ecosystems` lists those of
other libraries.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, Literal

from audit import plugins
from audit.errors import TargetError, is_address
from audit.targets import TABLE, wording
from audit.targets.checkpoint.content import HEADS, SETTINGS, WEIGHTS, bases_named, read_settings
from audit.targets.checkpoint.tree import refuse_links, refuse_unknown_folders
from audit.targets.ecosystems import Group, classes_of, names_in, refusal_of
from audit.targets.native import is_native

Kind = Literal[
    "address", "adapter", "checkpoint", "run", "data set", "documents", "foreign", "missing"
]
"""What a path may be. "foreign": a model, or a part of it, in a form that docaudit never opens."""
CONFIG = "config.json"
MANIFEST = "manifest.toml"
INDEX = "model.safetensors.index.json"
TENSORS = ".safetensors"
_MOST_BYTES = 8 * 2**20
"""Of a file of settings, and of a header of weights."""
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_POINTER = b"version https://git-lfs"
_DOCUMENTS = ("*.jsonl", "*.parquet", "*.arrow", "*.csv", "*.pdf", "*.tif", "*.tiff", "*.spacy")
"""Names of files of documents, which nobody keeps beside weights."""
_SENTENCES = ("config_sentence_transformers.json", "modules.json")
"""Settings of sentence-transformers."""
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*|[A-Za-z0-9][\w.-]*")
_ROUNDED = re.compile(r"[-_](?:unsloth-)?(?:bnb[-_])?(?:4bit|8bit|int4|int8|awq|gptq.*)$", re.I)
"""How the name of a model with quantised weights ends."""


@dataclass(frozen=True)
class Place:
    """What a path is.

    Attributes:
        path: path as it was given.
        kind: what it is.
        problem: why docaudit does not open it as a model; empty where it does.
        hint: way out, with one command.
        instead: path to give in its place; None where there is none.
        is_whole: whether it opens all the same, as a reference of another model.
    """

    path: Path
    kind: Kind
    problem: str = ""
    hint: str = ""
    instead: Path | None = None
    is_whole: bool = False

    @property
    def is_model(self) -> bool:
        """Test whether it is a model of transformers or a server's, though it may be refused."""
        return self.kind in ("address", "adapter", "checkpoint", "run")


def what_is(path: Path) -> Place:
    """Say what a path is; the first rule that knows it decides."""
    try:
        places = (rule(path) for rule in _RULES)
        return next(place for place in places if place is not None)
    except OSError as error:
        reason = error.strerror or "cannot be read"
        return _refusal(path, "missing", wording("place_unreadable", path=path, reason=reason))


def refuse_broken(path: Path) -> None:
    """Refuse a path that does not open as a model, be it audited or a reference.

    Raises:
        TargetError: it does not.
    """
    place = what_is(path)
    if place.problem and not place.is_whole:
        raise TargetError(place.problem, place.hint)


def _refusal(path: Path, kind: Kind, texts: Sequence[str], instead: Path | None = None) -> Place:
    """Return a place that is refused with a problem and its hint."""
    problem, hint = texts
    return Place(path, kind, problem, hint, instead)


def _unasked(path: Path, kind: Kind, texts: Sequence[str]) -> Place:
    """Return a place that opens, and that no attack can ask."""
    problem, hint = texts
    return Place(path, kind, problem, hint, is_whole=True)


def _address(path: Path) -> Place | None:
    """Know the address of a server."""
    return Place(path, "address") if is_address(path) else None


def _missing(path: Path) -> Place | None:
    """Know a path where nothing lies; it may be the name of a model of the Hub."""
    if path.exists():
        return None
    if _HUB.fullmatch(path.as_posix()):
        return _refusal(path, "missing", wording("place_of_hub", path=path))
    return _refusal(path, "missing", wording("place_missing", path=path))


def _file(path: Path) -> Place | None:
    """Know a single file: of a model's folder, of a data set, or of another ecosystem."""
    if path.is_dir():
        return None
    folder = path.parent
    if path.suffix == TENSORS or path.name in (CONFIG, SETTINGS, INDEX):
        return _refusal(path, "foreign", wording("place_file", path=path, folder=folder), folder)
    if path.name == MANIFEST:
        return _refusal(path, "data set", wording("place_data_set", path=path), folder)
    if _matches(path.name, _DOCUMENTS):
        return _refusal(path, "documents", wording("place_documents", path=path))
    other = _foreign(path, "weights")
    return other or _refusal(path, "missing", wording("place_other_file", path=path))


def _data_set(folder: Path) -> Place | None:
    """Know a data set by its manifest."""
    if not (folder / MANIFEST).is_file() or (folder / CONFIG).is_file():
        return None
    return _refusal(folder, "data set", wording("place_data_set", path=folder))


def _adapter(folder: Path) -> Place | None:
    """Know an adapter that PEFT wrote."""
    if not (folder / SETTINGS).is_file():
        return None
    unsafe = _linked(folder, "adapter")
    if unsafe is not None:
        return unsafe
    if {"model.safetensors", INDEX} & names_in(folder):
        return _refusal(folder, "adapter", wording("adapter_and_model", folder=folder))
    if not (folder / WEIGHTS).is_file():
        return _foreign(folder, "weights") or _without_weights(folder, "adapter", WEIGHTS)
    damage = _damaged(folder / WEIGHTS, "adapter")
    if damage is not None:
        return damage
    if _settings(folder / SETTINGS).get("task_type") != "FEATURE_EXTRACTION":
        return Place(folder, "adapter")
    return _unasked(folder, "adapter", wording("place_retriever", path=folder))


def _checkpoint(folder: Path) -> Place | None:
    """Know a folder of transformers by its configuration."""
    if not os.path.lexists(folder / CONFIG):
        return None
    unsafe = _linked(folder, "checkpoint")
    if unsafe is not None:
        return unsafe
    config = _settings(folder / CONFIG)
    if not config:
        # Damaged: whoever opens the folder says how.
        return Place(folder, "checkpoint")
    for rule in (_own_code, _weights_of, _foldered):
        refused = rule(folder, config)
        if refused is not None:
            return refused
    texts = _why_unaudited(folder, config)
    if texts is None:
        return Place(folder, "checkpoint")
    return _unasked(folder, "checkpoint", texts)


def _why_unaudited(folder: Path, config: Mapping[str, Any]) -> Sequence[str] | None:
    """Return why no attack can ask a model of transformers, and the way out; None where one can."""
    kind = str(config.get("model_type"))
    classes = classes_of(config)
    if kind in plugins.entries("docaudit.targets"):
        return None
    if kind in TABLE["tasks"]["retrievers"] or any("ForRetrieval" in name for name in classes):
        return wording("place_retriever", path=folder)
    if kind in TABLE["refused"]:
        return f"{folder}: unknown architecture {kind!r}", str(TABLE["refused"][kind])
    if not is_native(kind):
        return wording("place_of_no_kind", path=folder, kind=repr(config.get("model_type")))
    return _why_headless(folder, classes)


def _why_headless(folder: Path, classes: Sequence[str]) -> Sequence[str] | None:
    """Return that a model's classes have no head for a task; None where one has, or none is stated."""
    has_head = any(name.endswith(ending) for name in classes for ending in HEADS)
    if has_head or not classes:
        return None
    if any((folder / name).is_file() for name in _SENTENCES):
        return wording("place_embedder", path=folder)
    return wording("place_without_head", path=folder, classes=", ".join(classes))


def _own_code(folder: Path, config: Mapping[str, Any]) -> Place | None:
    """Refuse a model that only code of its folder can compute, which is never run."""
    model_type = config.get("model_type")
    if "auto_map" not in config or is_native(model_type):
        return None
    texts = own_code_texts(folder / CONFIG, model_type)
    return _refusal(folder, "checkpoint", texts)


def own_code_texts(path: Path, model_type: object) -> tuple[str, ...]:
    """Return why a file of settings that names code of its folder is refused, and the way out."""
    twin = TABLE["twins"].get(str(model_type))
    if twin is None:
        return wording("own_code", path=path)
    return wording("own_code_twin", path=path, twin=twin)


def _weights_of(folder: Path, config: Mapping[str, Any]) -> Place | None:
    """Refuse a checkpoint whose weights are missing, in another form, or damaged."""
    names = names_in(folder)
    weights = sorted(name for name in names if name.endswith(TENSORS))
    if not weights:
        return _other_weights(folder, config)
    shards = [name for name in weights if _SHARD.fullmatch(name)]
    if shards and names.isdisjoint((INDEX, "model.safetensors")):
        texts = wording("place_without_index", path=folder, first=shards[0])
        return _refusal(folder, "checkpoint", texts)
    for name in weights:
        damage = _damaged(folder / name, "checkpoint")
        if damage is not None:
            return damage
    return None


def _other_weights(folder: Path, config: Mapping[str, Any]) -> Place:
    """Refuse a checkpoint without safetensors, by what it has in their place."""
    other = _foreign(folder, "settings", config) or _foreign(folder, "weights", config)
    if other is None:
        return _without_weights(folder, "checkpoint", "model.safetensors")
    return replace(other, kind="checkpoint")


def _without_weights(folder: Path, kind: Kind, missing: str) -> Place:
    """Refuse a folder that has the settings of a model and no weights at all."""
    inside = _run(folder)
    if inside is not None:
        return inside
    texts = wording("place_without_weights", path=folder, missing=missing)
    return _refusal(folder, kind, texts)


def _damaged(path: Path, kind: Kind) -> Place | None:
    """Refuse a file of safetensors that is a pointer of Git, or that was cut off."""
    # A link is judged by whoever opens the folder.
    if path.is_symlink() or not path.is_file():
        return None
    folder = path.parent
    size = path.stat().st_size
    with path.open("rb") as stream:
        beginning = stream.read(len(_POINTER))
        if beginning == _POINTER:
            texts = wording("place_pointer", path=folder, first=path.name)
            return _refusal(folder, kind, texts)
        stream.seek(0)
        needed = _needed_bytes(stream)
    if needed is None or size >= needed:
        return None
    texts = wording("place_cut_off", path=folder, first=path.name, size=size, needed=needed)
    return _refusal(folder, kind, texts)


def _needed_bytes(stream: BinaryIO) -> int | None:
    """Return the bytes that a file of safetensors has by its header; None where that is none."""
    beginning = stream.read(8)
    if len(beginning) < 8:
        return 8
    n_header = int(struct.unpack("<Q", beginning)[0])
    if n_header > _MOST_BYTES:
        return None
    text = stream.read(n_header)
    if len(text) < n_header:
        return 8 + n_header
    try:
        header = json.loads(text)
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        ends = [int(entry["data_offsets"][1]) for entry in tensors]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return 8 + n_header + max(ends, default=0)


def _linked(folder: Path, kind: Kind) -> Place | None:
    """Refuse a folder with links out of it, before anything is read through them."""
    try:
        refuse_links(folder)
    except TargetError as error:
        return Place(folder, kind, error.problems[0], error.hint)
    return None


def _foldered(folder: Path, _: Mapping[str, Any]) -> Place | None:
    """Refuse a checkpoint with folders inside it that no hash covers."""
    try:
        refuse_unknown_folders(folder)
    except TargetError as error:
        return Place(folder, "checkpoint", error.problems[0], error.hint)
    return None


def _settings_of_others(folder: Path) -> Place | None:
    """Know the folder of another ecosystem by its files of settings."""
    return _foreign(folder, "settings")


def _run(folder: Path) -> Place | None:
    """Know the folder of a run, whose checkpoints lie in folders inside it."""
    paths = _glob(folder, f"*/{CONFIG}", f"*/{SETTINGS}")
    names = {path.parent.name for path in paths if _is_of_model(path)}
    inside = sorted(names, key=_number_behind, reverse=True)
    if not inside:
        return None
    last = folder / inside[0]
    texts = wording("place_run", path=folder, listed=", ".join(inside[:4]), last=last)
    return _refusal(folder, "run", texts, last)


def _is_of_model(path: Path) -> bool:
    """Test whether a file holds the settings of a model; none is read through a link."""
    if path.is_symlink() or path.parent.is_symlink():
        return False
    return path.name == SETTINGS or not {"model_type", "architectures"}.isdisjoint(_settings(path))


def _number_behind(name: str) -> tuple[int, str]:
    """Return what orders the names of checkpoints: the number that they end in, then the name."""
    digits = re.search(r"\d+$", name)
    return int(digits[0]) if digits else -1, name


def _cache_of_hub(folder: Path) -> Place | None:
    """Know the folder of a model in the Hub's cache, whose files lie in a snapshot."""
    snapshots = sorted(path.parent for path in _glob(folder, f"snapshots/*/{CONFIG}"))
    if not snapshots:
        return None
    last = snapshots[-1]
    return _refusal(folder, "run", wording("place_cache", path=folder, last=last), last)


def _weights_of_others(folder: Path) -> Place | None:
    """Know the folder of another ecosystem by its weights."""
    return _foreign(folder, "weights")


def _without_config(folder: Path) -> Place | None:
    """Know a folder that holds weights without a configuration, or a tokenizer alone."""
    names = names_in(folder)
    if any(name.endswith(TENSORS) for name in names):
        return _refusal(folder, "foreign", wording("place_without_config", path=folder))
    if names.isdisjoint(TABLE["files"]["vocabularies"]):
        return None
    return _refusal(folder, "foreign", wording("place_tokenizer", path=folder))


def _documents(folder: Path) -> Place | None:
    """Know a folder of documents, from which a data set can be made."""
    if not any(_matches(name, _DOCUMENTS) for name in names_in(folder)):
        return None
    return _refusal(folder, "documents", wording("place_documents", path=folder))


def _unknown(folder: Path) -> Place | None:
    """Refuse any other folder."""
    names = sorted(names_in(folder))
    if not names:
        return _refusal(folder, "missing", wording("place_empty", path=folder))
    return _refusal(folder, "missing", wording("place_unknown", path=folder, first=names[0]))


_RULES: tuple[Callable[[Path], Place | None], ...] = (
    _address,
    _missing,
    _file,
    _data_set,
    _adapter,
    _checkpoint,
    _settings_of_others,
    _run,
    _cache_of_hub,
    _weights_of_others,
    _without_config,
    _documents,
    _unknown,
)
"""Each knows some paths and returns None for others; the last one knows all."""


def base_refusal(folder: Path, base: Path | None) -> Place | None:
    """Refuse an adapter over a quantised base, which nothing can be merged into.

    Args:
        folder: folder of an adapter.
        base: base that somebody named beside it; None: the one that its settings name.
    """
    name = _stated_base(folder)
    places = bases_named(folder, name) if base is None else [base]
    if places:
        name = str(places[0])
        is_rounded = "quantization_config" in _settings(places[0] / CONFIG)
    else:
        is_rounded = base is None and _ROUNDED.search(name) is not None
    if not is_rounded:
        return None
    texts = wording("rounded_base", path=folder, base=name, command=_download(folder))
    return _refusal(folder, "adapter", texts)


def downloads_of(folder: Path) -> list[str]:
    """Return the command that downloads the base of an adapter, in full precision, to BASE.

    None for a model that needs no base, or whose base lies on this machine.
    """
    if not (folder / SETTINGS).is_file():
        return []
    is_there = bool(bases_named(folder, _stated_base(folder)))
    if is_there and base_refusal(folder, None) is None:
        return []
    return [_download(folder)]


def _download(folder: Path) -> str:
    """Return the command that downloads the base of an adapter in full precision."""
    full = _ROUNDED.sub("", _stated_base(folder))
    return f"hf download {full if _HUB.fullmatch(full) else 'NAME'} --local-dir BASE"


def _stated_base(folder: Path) -> str:
    """Return the base that an adapter's settings name, on one line; empty without one."""
    stated = _settings(folder / SETTINGS).get("base_model_name_or_path")
    return " ".join(stated.split())[:200] if isinstance(stated, str) else ""


def _foreign(path: Path, group: Group, config: Mapping[str, Any] | None = None) -> Place | None:
    """Return a place of another ecosystem, with its way out; None where it is of none."""
    texts = refusal_of(path, group, config or {})
    return None if texts is None else _refusal(path, "foreign", texts)


def _glob(folder: Path, *patterns: str) -> Iterator[Path]:
    """Yield files below a folder by patterns of their paths, but for those of hidden folders."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            if not path.parent.name.startswith("."):
                yield path


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Test whether a name fits one of the patterns, in any case."""
    return any(fnmatchcase(name.lower(), pattern) for pattern in patterns)


def _settings(path: Path) -> dict[str, Any]:
    """Return a file's JSON object; empty where there is none, or one of a size that none has."""
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return {}
    return read_settings(path, damaged_is_empty=True)
