"""The reading of a sentence embedder, from the settings that sentence-transformers leaves in its folder.

They are modules.json, the pooling module's config.json, sentence_bert_config.json and
config_sentence_transformers.json. Another checkpoint is pooled by mean, and its vectors are scaled to length 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from audit.errors import TargetError

Pooling = Literal["mean", "cls"]

_MODULES = "modules.json"
_POOLING_FOLDER = "1_Pooling"
_SETTINGS = ("sentence_bert_config.json", "config_sentence_transformers.json")
_POOLINGS: dict[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_SAVE_ANEW = "docaudit reads a Transformer, mean or [CLS] pooling and normalisation, as most sentence embedders are"


@dataclass(frozen=True)
class Reading:
    """How an embedder turns a text into a vector.

    Attributes:
        pooling: the mean of the hidden states of all tokens, special ones included, or the state of the first token.
        normalised: whether vectors are scaled to length 1.
        lowered: whether texts are put into lower case before they are cut into tokens.
        max_tokens: the longest text, special tokens included; what comes after is cut off, as sentence-transformers do.
    """

    pooling: Pooling
    normalised: bool
    lowered: bool
    max_tokens: int


def reading_of(folder: Path, longest: int) -> Reading:
    """The settings by which the embedder in a folder reads.

    Args:
        folder: of sentence-transformers, or a bare checkpoint.
        longest: tokens that model and tokenizer take.

    Raises:
        TargetError: it pools in another way than by mean or [CLS], or its settings cannot be read.
    """
    pooling, normalised = _pooling(folder)
    settings, own = (_object(folder / name) for name in _SETTINGS)
    if own.get("default_prompt_name") is not None:
        raise TargetError(f"{folder}: the embedder puts a prompt of its own before texts", _SAVE_ANEW)
    limit = settings.get("max_seq_length")
    if limit is not None and (not isinstance(limit, int) or limit < 3):
        raise TargetError(f"{folder / _SETTINGS[0]}: max_seq_length is {limit!r}", "it must be a number of tokens")
    lowered = settings.get("do_lower_case") is True
    return Reading(pooling, normalised, lowered, min(longest, limit or longest))


def _pooling(folder: Path) -> tuple[Pooling, bool]:
    """How vectors are pooled, and whether they are normalised."""
    modules, file = _modules(folder), pooling_file(folder)
    normalised = modules is None or any(kind == "Normalize" for kind, _ in modules)
    if file is None:
        return "mean", normalised
    settings = _object(folder / file)
    named = settings.get("pooling_mode")
    modes = [name for name, chosen in settings.items() if name.startswith("pooling_mode_") and chosen is True]
    if named is not None:
        modes += [f"pooling_mode_{'cls_token' if named == 'cls' else f'{named}_tokens'}"]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise TargetError(f"{folder / file}: pools by {', '.join(modes) or 'nothing'}", _SAVE_ANEW)
    return _POOLINGS[modes[0]], normalised


def pooling_file(folder: Path) -> str | None:
    """The pooling module's settings, by path within the folder; None when nothing says how the checkpoint pools.

    Raises:
        TargetError: the file is missing or lies elsewhere, or see `reading_of`.
    """
    modules = _modules(folder)
    if modules is None:
        file = f"{_POOLING_FOLDER}/config.json"
        if not (folder / file).is_file():
            return None
    else:
        file = f"{modules[1][1]}/config.json"
    path = folder / file
    if not path.is_file():
        raise TargetError(f"{folder}: no {file}", "save the whole embedder")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise TargetError(f"{folder}: {file} leads out of the checkpoint's folder", "copy the files themselves")
    return file


def _modules(folder: Path) -> list[tuple[str, str]] | None:
    """Kind and folder of each module that sentence-transformers would run, in order; None when the folder names none.

    Raises:
        TargetError: they are not an encoder in the folder itself, a pooling, and perhaps a normalisation.
    """
    path = folder / _MODULES
    if not path.is_file():
        return None
    listed = _json(path)
    try:
        modules = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in listed]
    except (KeyError, TypeError):
        raise TargetError(f"{path}: not a list of modules") from None
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) or modules[0][1]:
        raise TargetError(f"{path}: modules {', '.join(kinds) or 'none'}", _SAVE_ANEW)
    return modules


def _object(path: Path) -> dict[str, Any]:
    """A file of settings; empty when there is none."""
    settings = _json(path) if path.is_file() else {}
    if not isinstance(settings, dict):
        raise TargetError(f"{path}: not a JSON object")
    return settings


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise TargetError(f"{path}: not readable as JSON") from None
