"""Simulated GPUs: tensors whose values lie on the CPU, and that refuse to meet those of another device.

Torch gets a kind of device named "gpu", for good: `python -m simulated_gpus FAMILY ...` is a
process of its own. It prints for each family how a model that is spread over two GPUs, or partly
kept in memory, differs from one on a GPU.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import asked_pages
import numpy as np
import torch
import vision_operators
from text_zoo import prompt_of, write_text_model
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from vlm_zoo import ZOO, write_vlm

from audit.corpus.images import page_view
from audit.targets.answering import target as targets
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint.loading import places_of, spread
from audit.targets.interface import Answer, AnswerLoss

GPU = "gpu"
ANYWHERE = {"aten::copy_", "aten::_to_copy"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
"""Operators that take tensors of several devices, and those whose indices may lie on the CPU."""
ANSWERS = {"aten::_has_compatible_shallow_copy_type": False, "aten::_fused_sdp_choice": 0}
"""What some operators give that ask about a device: attention takes plain products."""


class OnGpu(torch.Tensor):
    """A tensor of a simulated GPU; `inner` has its values."""

    inner: torch.Tensor

    @staticmethod
    def __new__(
        cls, inner: torch.Tensor, device: torch.device | None = None, **settings: Any
    ) -> Any:
        if device is None:  # as accelerate makes a parameter, of the class of the one before
            return torch.nn.Parameter(inner, **settings)
        layout = inner.shape, inner.stride(), inner.storage_offset()
        made = torch.Tensor._make_wrapper_subclass(cls, *layout, dtype=inner.dtype, device=device)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, operator: Any, _: Any, given: Any = (), named: Any = None) -> Any:
        return compute(operator, given, named or {})


class Operators(TorchDispatchMode):
    """Within, every operator goes through `compute`."""

    def __torch_dispatch__(self, operator: Any, _: Any, given: Any = (), named: Any = None) -> Any:
        return compute(operator, given, named or {})


class Makers(TorchFunctionMode):
    """Within, `torch.tensor` makes its tensors on the CPU first: no mode sees what it calls."""

    def __torch_function__(self, function: Any, _: Any, given: Any = (), named: Any = None) -> Any:
        named = {**(named or {})}
        if function is torch.tensor and named.get("device") is not None:
            return function(*given, **{**named, "device": "cpu"}).to(named["device"])
        if function is torch.Tensor.tolist and isinstance(given[0], OnGpu):
            return given[0].inner.tolist()
        # Simulated GPUs have no threads for backward passes. (Only here: torch.inference_mode sets
        # this as well.)
        with torch.autograd.set_multithreading_enabled(False):
            return function(*given, **named)


def compute(operator: Any, given: Any, named: dict[str, Any]) -> Any:
    """Run an operator on the CPU, when its tensors lie on one device."""
    name = operator._schema.name
    if name in ANSWERS:
        return ANSWERS[name]
    if operator._can_decompose():
        with Operators():
            return operator.decompose(*given, **named)
    tensors = [one for one in tree_leaves((given, named)) if isinstance(one, torch.Tensor)]
    gpus = {one.device for one in tensors if isinstance(one, OnGpu)}
    others = [
        one for one in tensors if not isinstance(one, OnGpu) and one.dim() and name not in INDEXED
    ]
    if name not in ANYWHERE and len(gpus) + bool(gpus and others) > 1:
        raise RuntimeError(f"{name}: tensors of {[str(one.device) for one in tensors]}")
    changed = given[0] if operator._schema.is_mutable else None
    asked = named.get("device")
    place = next(iter(gpus), None) if asked is None else torch.device(asked)
    if asked is not None and place.type == GPU:
        named = {**named, "device": torch.device("cpu")}
    given, named = tree_map(
        lambda one: one.inner if isinstance(one, OnGpu) else one, (given, named)
    )
    made = operator(*given, **named)
    if changed is not None or place is None or place.type != GPU:
        return made if changed is None else changed
    place = torch.device(GPU, place.index or 0)
    return tree_map(lambda one: OnGpu(one, place) if isinstance(one, torch.Tensor) else one, made)


@contextmanager
def simulated() -> Iterator[None]:
    """Within, tensors may lie on simulated GPUs."""
    with Operators(), Makers():
        yield


def answers(target: Any, places: dict[str, int | str], queries: list[list[Any]]) -> str:
    """Return what the target answers with its model at these places, to the last bit."""
    model = spread(deepcopy(target.model), places, GPU)
    card = replace(target.card, device=GPU)
    made = type(target)(model, target.reader, card, target.batch_rows)
    found = [made.ask(own) for own in queries if type(own[0]) in made.answers]
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return repr(found)


def compare(family: str, folder: Path) -> dict[str, Any]:
    """Compare a model on one GPU with the same one over two, and with one that lies partly in memory."""
    write = write_vlm if family in ZOO else write_text_model
    target = load_answering(
        write(folder / family, family), prompt=None if family in ZOO else prompt_of(family)
    )
    corpus = asked_pages.corpus(folder / f"{family}-data")
    target.reader.max_new_tokens = 6
    asked = [(page_view(corpus, one), one.questions[0]) for one in corpus.of("member")][:2]
    queries: list[list[Any]] = [
        [Answer(view, one.question) for view, one in asked],
        [AnswerLoss(view, one.question, one.answers[0]) for view, one in asked],
    ]
    size = int(0.8 * target.model.get_memory_footprint())
    found = {}
    with simulated():
        plain = answers(target, {"": 0}, queries)
        for name, free in {
            "two GPUs": {0: size, 1: size},
            "memory": {0: size, "cpu": 10 * size},
        }.items():
            places = places_of(target.model, free, 0, 1)
            found[name] = [
                sorted({*map(str, places.values())}),
                answers(target, places, queries) == plain,
            ]
    return found


if __name__ == "__main__":
    vision_operators.declare_when_imported()
    targets.SHORTEST = 8
    _setup_privateuseone_for_python_backend(GPU)
    with tempfile.TemporaryDirectory() as root:
        print(json.dumps({family: compare(family, Path(root)) for family in sys.argv[1:]}))
