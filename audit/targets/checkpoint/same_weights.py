"""Whether the weights of one checkpoint are those of another, but for the format of its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.targets.checkpoint.safety import DAMAGE


@dataclass(frozen=True)
class SharedWeights:
    """The tensors that two checkpoints share by name and shape.

    Attributes:
        are_equal: whether each has the same numbers in both, once they are in one format.
        is_whole: whether the first checkpoint has no other tensors.
    """

    are_equal: bool
    is_whole: bool


def compare_weights(export: Path, base: Path) -> SharedWeights | None:
    """Compare the weights of an export with those of a base.

    The numbers of the base are brought into the format of the export first, so that an export in
    bfloat16 equals its base in float32. Tensors are read one after the other, up to the first that
    differs.

    Args:
        export: folder of the export.
        base: folder of the base.

    Returns:
        None where nothing can be said: weights of either are missing, damaged or packed by a
        quantisation, or they share no tensor.
    """
    with ExitStack() as stack:
        try:
            own = _open_tensors(export, stack)
            others = _open_tensors(base, stack)
            return _compare(own, others)
        except DAMAGE:
            return None


def _open_tensors(folder: Path, stack: ExitStack) -> dict[str, Any]:
    """Open the weights of a folder; the file that holds each tensor, by its name."""
    from safetensors import safe_open

    files: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        opened = stack.enter_context(safe_open(path, "pt"))
        files.update(dict.fromkeys(opened.keys(), opened))
    return files


def _compare(own: Mapping[str, Any], others: Mapping[str, Any]) -> SharedWeights | None:
    """Compare opened weights; see `compare_weights`."""
    partners = dict(_pair_names(own, others))
    if not partners:
        return None
    for name, other_name in partners.items():
        tensor = own[name].get_tensor(name)
        other = others[other_name].get_tensor(other_name)
        if not (tensor.is_floating_point() and other.is_floating_point()):
            return None
        if tensor.shape != other.shape:
            return None
        if not tensor.equal(other.to(tensor.dtype)):
            return SharedWeights(are_equal=False, is_whole=False)
    return SharedWeights(are_equal=True, is_whole=len(partners) == len(own))


def _pair_names(own: Mapping[str, Any], others: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names of a tensor in both; one may have a further part in front."""
    shortened = {name.partition(".")[2]: name for name in others}
    for name in own:
        rest = name.partition(".")[2]
        for candidate in (name, rest, shortened.get(name, "")):
            if candidate in others:
                yield name, candidate
                break
