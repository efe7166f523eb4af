"""What libraries of training put before and into the names of a model's tensors.

Opacus, DistributedDataParallel, FSDP, DeepSpeed, torch.compile and Lightning keep the model in an
attribute of a wrapper, and save it under the wrapper's names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_INNER = (
    "_orig_mod",
    "_module",
    "_forward_module",
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
)
"""Attributes of wrappers that no model has, wherever in a name they stand."""
_WRAPPER = rf"(?<![^.])(?:{'|'.join(_INNER)})\."
_BEFORE_ALL = r"^(?:module\.)+"
"""DistributedDataParallel's, where it stands before every name."""
LIGHTNING = r"^model\."
"""A LightningModule's usual attribute. Many models have one of the same name, so it is taken away
only where the names fit better without."""


def unwrap(name: str) -> str:
    """Return the name of a tensor without the names of wrappers that no model has."""
    return re.sub(_WRAPPER, "", name)


def renamings(names: Collection[str]) -> Mapping[str, str]:
    """Return patterns in the names of tensors and what takes their place; none without wrappers.

    Args:
        names: names of all tensors of a checkpoint.
    """
    plain = [unwrap(name) for name in names]
    deepest = max((len(re.findall(_WRAPPER, name)) for name in names), default=0)
    # Each pattern takes one wrapper out of a name: a comment tells them apart.
    patterns = {f"{_WRAPPER}(?#{number})": "" for number in range(deepest)}
    if plain and all(name.startswith("module.") for name in plain):
        patterns[_BEFORE_ALL] = ""
    return patterns


def may_be_of_lightning(names: Collection[str]) -> bool:
    """Test whether every name begins as Lightning's do, wrappers of others left out."""
    patterns = renamings(names)
    plain = [unwrap(name) for name in names]
    if _BEFORE_ALL in patterns:
        plain = [re.sub(_BEFORE_ALL, "", name) for name in plain]
    return bool(plain) and all(name.startswith("model.") for name in plain)


def plain_names(names: Collection[str]) -> dict[str, str]:
    """Return each name by what it is without wrappers."""
    patterns = renamings(names)
    renamed = {}
    for name in names:
        plain = name
        for pattern, text in patterns.items():
            plain = re.sub(pattern, text, plain)
        renamed[plain] = name
    return renamed
