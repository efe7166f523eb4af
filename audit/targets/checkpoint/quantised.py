"""Quantised checkpoints: loaded where the library of their format is installed, refused in one sentence elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from audit.errors import TargetError

_LIBRARIES: dict[str, tuple[tuple[str, ...], str]] = {
    "bitsandbytes": (("bitsandbytes",), "bitsandbytes"),
    "gptq": (("gptqmodel", "optimum"), "gptqmodel optimum"),
    "awq": (("gptqmodel",), "gptqmodel"),
    "compressed-tensors": (("compressed_tensors",), "compressed-tensors"),
    "torchao": (("torchao",), "torchao"),
    "quanto": (("optimum",), "optimum-quanto"),
    "hqq": (("hqq",), "hqq"),
}
"""By `quant_method`: modules that transformers needs, and the packages they come in."""


def method_of(config: Mapping[str, Any]) -> str | None:
    """The name of a configuration's quantisation; None for weights in full or half precision."""
    settings = config.get("quantization_config")
    if settings is None:
        return None
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    loads = isinstance(settings, dict) and (settings.get("load_in_8bit") or settings.get("load_in_4bit"))
    return str(method) if method is not None else "bitsandbytes" if loads else "unknown"


def refuse_unreadable(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse a quantised checkpoint that nothing installed here can read.

    Raises:
        TargetError: the library of its format is missing, or docaudit knows none.
    """
    method = method_of(config)
    if method is None:
        return
    modules, packages = _LIBRARIES.get(method, ((), ""))
    missing = [name for name in modules if find_spec(name) is None]
    if missing or not modules:
        hint = f"pip install {packages}, or " if packages else ""
        raise TargetError(
            f"{folder}: quantised weights ({method})"
            + (f", and {missing[0]} is not installed" if missing else ", which docaudit does not read"),
            f"{hint}give the checkpoint in full precision that was quantised",
        )


def refuse_training(folder: object, config: Mapping[str, Any]) -> None:
    """Refuse to change quantised weights: to train on from them, or to merge an adapter into them.

    Raises:
        TargetError: they are quantised.
    """
    method = method_of(config)
    if method is not None:
        raise TargetError(
            f"{folder}: quantised weights ({method}) cannot be trained, nor take an adapter in",
            "name the checkpoint in full precision that was quantised",
        )
