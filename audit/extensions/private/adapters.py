"""What is trained of a model (methods/dp-training.md).

Adapters on its attention, its head, or everything.

Noise grows with the number of trained parameters, and the gradient's norm does not: fewer are
better served. Adapters are low-rank changes (Hu et al. 2022) of the projections to queries and
values; they are merged into the weights they change before a model is saved, so that its checkpoint
is an ordinary one.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from audit.errors import UsageError

_KINDS = (
    "query",
    "value",
    "layout_query",
    "layout_value",
    "q",
    "v",
    "q_proj",
    "v_proj",
    "q_lin",
    "v_lin",
)
ADAPTED = frozenset({*_KINDS, "query_proj", "value_proj"})
"""The last part of the names of adapted layers, in every family: queries and values, as Hu et al.
chose."""
FUSED = frozenset({"Wqkv", "qkv_proj", "in_proj"})
"""Those of layers that make queries, keys and values in one: adapters would change keys too."""


@dataclass(frozen=True)
class Trained:
    """What is trained.

    Attributes:
        parameters: parameters by their names in the model, in its order.
        code: "lora:RANK", "head" or "full"; "full" too where adapters were asked for and there is
            no attention.
        embeddings: whether embeddings are among the parameters.
        head: whether the head is.
        frozen: number of the model's other parameters.
    """

    parameters: dict[str, nn.Parameter]
    code: str
    embeddings: bool
    head: bool
    frozen: int

    @property
    def count(self) -> int:
        """Return the number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters.values())


class LoraLinear(nn.Module):
    """A linear layer plus a change of low rank; it has the layer's attributes.

    `down` is uniform as the layer itself would start, `up` is zero, so that the change is zero at
    first.

    Args:
        base: left as it is.
        rank: rank of the change.
        generator: draws the start of `down`.
    """

    def __init__(self, base: nn.Linear, rank: int, generator: torch.Generator) -> None:
        """Put an adapter of this rank on a linear layer; at first it changes nothing."""
        super().__init__()
        self.base = base
        place = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Linear(base.in_features, rank, bias=False, **place)
        self.up = nn.Linear(rank, base.out_features, bias=False, **place)
        bound = 1 / math.sqrt(base.in_features)
        with torch.no_grad():
            self.down.weight.copy_(
                torch.empty(self.down.weight.shape).uniform_(-bound, bound, generator=generator)
            )
            self.up.weight.zero_()

    @property
    def weight(self) -> torch.Tensor:
        """Return the layer's own weight, which some models look at for its type and device."""
        return self.base.weight

    @property
    def bias(self) -> torch.Tensor | None:
        """Return the layer's own bias."""
        return self.base.bias

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the layer's output plus the adapter's change."""
        changed: torch.Tensor = self.base(inputs) + self.up(self.down(inputs))
        return changed

    def merged(self) -> nn.Linear:
        """Return the base layer, with the adapter's change added to its weight."""
        with torch.no_grad():
            change = self.up.weight.double() @ self.down.weight.double()
            self.base.weight.copy_(self.base.weight.double() + change)
        return self.base


def choose_trained(
    model: nn.Module,
    trained: str,
    *,
    embeddings: bool = False,
    seed: int = 0,
    held: Collection[str] = (),
) -> Trained:
    """Freeze all parameters of a model but those that `trained` names, and return these.

    Adapters are put in, and a fresh head is trained with them.

    Embeddings, and weights that are tied to them, stay frozen unless they are asked for; buffers
    always do.

    Args:
        model: changed in place.
        trained: "lora:RANK", "head" or "full".
        embeddings: train them too ("lora" and "head" too).
        seed: seed of the adapters' start.
        held: names of the parameters that the start holds: with adapters, a head that is among them
            stays as it is, for every trained number costs as much noise as any other.

    Raises:
        UsageError: adapters have no place, or nothing but embeddings would be trained.
    """
    rank = _rank_of(trained)
    if rank is not None:
        _refuse_fused(model, trained)
    head = _head_ids(model, held if rank is not None else ())
    model.requires_grad_(False)
    adapted = _insert_adapters(model, rank, seed) if rank is not None else set()
    code = trained if rank is None or adapted else "full"
    chosen = _trainable_by_name(model, None if code == "full" else head | adapted, embeddings)
    if not chosen:
        raise UsageError(
            f"trained={trained}: all of the model's head is tied to its embeddings, which are frozen",
            "give --set trained=lora:16 or trained=full",
        )
    for parameter in chosen.values():
        parameter.requires_grad_(True)
    learns_head = any(id(parameter) in head for parameter in chosen.values())
    return Trained(chosen, code, embeddings, learns_head, _count_frozen(model))


def _rank_of(trained: str) -> int | None:
    """Return the rank of adapters, "lora:RANK"; None where there are none."""
    return int(trained.removeprefix("lora:")) if trained.startswith("lora:") else None


def _head_ids(model: nn.Module, held: Collection[str]) -> set[int]:
    """Return the ids of the head's parameters, but of those that the start holds, by name."""
    head = {id(parameter) for parameter in head_parameters(model)}
    return head - {id(parameter) for name, parameter in model.named_parameters() if name in held}


def _trainable_by_name(
    model: nn.Module, learning: Set[int] | None, embeddings: bool
) -> dict[str, nn.Parameter]:
    """Return the parameters that are to learn, by name.

    Args:
        model: the model, with adapters where it gets some.
        learning: ids of parameters of the head and of adapters; None: all learn.
        embeddings: whether embeddings learn.
    """
    embedded = _embedding_ids(model)
    chosen: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        if id(parameter) in embedded:
            if embeddings:
                chosen[name] = parameter
        elif learning is None or id(parameter) in learning:
            chosen[name] = parameter
    return chosen


def _embedding_ids(model: nn.Module) -> set[int]:
    """Return the ids of the parameters of embeddings."""
    ids: set[int] = set()
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            ids.update(id(parameter) for parameter in module.parameters())
    return ids


def _count_frozen(model: nn.Module) -> int:
    """Return how many numbers of a model are not trained."""
    return sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)


def head_parameters(model: Any) -> Iterator[nn.Parameter]:
    """Yield the parameters of the head: those above the encoder, or of the output layer."""
    base = getattr(model, "base_model", model)
    if base is not model:
        in_base = {id(parameter) for parameter in base.parameters()}
        yield from (parameter for parameter in model.parameters() if id(parameter) not in in_base)
        return
    output = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if output is not None:
        yield from output.parameters()


def merge_adapters(model: nn.Module) -> None:
    """Merge every adapter into the weight of its layer, which restores the architecture."""
    for parent, name, layer in _layers_of_type(model, LoraLinear):
        setattr(parent, name, layer.merged())
    model.requires_grad_(True)


def _refuse_fused(model: nn.Module, trained: str) -> None:
    """Refuse adapters for a model where one matrix makes queries, keys and values.

    Raises:
        UsageError: it does.
    """
    names = {name for _, name, _ in _layers_of_type(model, nn.Linear)}
    if names & FUSED and not names & ADAPTED:
        raise UsageError(
            f"trained={trained}: this model makes queries, keys and values with one matrix, and adapters are for "
            "queries and values",
            "give --set trained=head or trained=full",
        )


def _insert_adapters(model: nn.Module, rank: int, seed: int) -> set[int]:
    """Insert adapters of this rank, and return the ids of their parameters."""
    generator = torch.Generator().manual_seed(seed)
    adapted: set[int] = set()
    for parent, name, layer in _layers_of_type(model, nn.Linear):
        if name in ADAPTED:
            change = LoraLinear(layer, min(rank, layer.in_features, layer.out_features), generator)
            change.train(layer.training)
            setattr(parent, name, change)
            adapted |= {id(change.down.weight), id(change.up.weight)}
    return adapted


def _layers_of_type(model: nn.Module, kind: type[Any]) -> Iterable[tuple[nn.Module, str, Any]]:
    """Yield (parent, name, layer) for the model's layers of a type."""
    layers = []
    for parent in model.modules():
        for name, child in parent.named_children():
            if isinstance(child, kind):
                layers.append((parent, name, child))
    return layers
