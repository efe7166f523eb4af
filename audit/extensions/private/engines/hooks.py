"""Gradients of single samples by Opacus (Yousefpour et al. 2021): hooks on every layer that is trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from opacus.grad_sample import GradSampleHooks
from opacus.grad_sample.gsm_base import OPACUS_PARAM_MONKEYPATCH_ATTRS

from audit.extensions.private.engines.clipping import Gradients
from audit.extensions.private.engines.grouped import PerSampleEngine
from audit.extensions.private.interface import Batch

_LEFT_ON_MODULES = ("activations", "max_batch_len", "ft_compute_sample_grad", "autograd_grad_sample_hooks")


class HooksEngine(PerSampleEngine):
    """Takes models whose trained layers all see the sample as their first dimension and hold no buffers.

    Where they do not, Opacus raises, or silently gives gradients of something else: `preflight` tells.
    """

    name = "hooks"

    def sample_gradients(self, batch: Batch, n_samples: int) -> Gradients:
        """See `PerSampleEngine.sample_gradients`.

        Raises:
            RuntimeError: Opacus gave no gradients of a parameter, or of another number of samples.
        """
        parameters = [*self.parameters.values()]
        try:
            used = torch.autograd.grad(self.learner.losses(batch).sum(), parameters, allow_unused=True)
            return {
                name: _gradients(name, parameter, n_samples, gradient is not None)
                for (name, parameter), gradient in zip(self.parameters.items(), used, strict=True)
            }
        finally:
            for parameter in parameters:
                parameter.grad_sample = None  # type: ignore[attr-defined]

    @contextmanager
    def differentiating(self) -> Iterator[None]:
        """See `PerSampleEngine.differentiating`; within, the model has Opacus's hooks."""
        model = self.learner.model
        with super().differentiating():
            # Opacus's hooks do nothing in layers in evaluation mode; their children, such as dropout, stay in it.
            layers = [layer for layer in model.modules() if any(True for _ in _own_trained(layer))]
            before = [(layer, layer.training) for layer in layers]
            try:
                for layer in layers:
                    layer.training = True
                GradSampleHooks(model, loss_reduction="sum")
                yield
            finally:
                for layer, training in before:
                    layer.training = training
                _unhook(model)


def _gradients(name: str, parameter: torch.nn.Parameter, n_samples: int, is_used: bool) -> torch.Tensor:
    gradients = getattr(parameter, "grad_sample", None)
    if gradients is None:
        if is_used:
            raise RuntimeError(f"no gradients of single samples for {name}")
        return parameter.new_zeros((n_samples, *parameter.shape))
    if not isinstance(gradients, torch.Tensor) or gradients.shape != (n_samples, *parameter.shape):
        raise RuntimeError(f"the gradients of {name} are not those of {n_samples} samples")
    return gradients.detach()


def _own_trained(layer: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    return (parameter for parameter in layer.parameters(recurse=False) if parameter.requires_grad)


def _unhook(model: torch.nn.Module) -> None:
    """Take away all that Opacus leaves on a model, also where its own constructor failed halfway."""
    for handle in vars(model).get("autograd_grad_sample_hooks", ()):
        handle.remove()
    for module in model.modules():
        for name in _LEFT_ON_MODULES:
            vars(module).pop(name, None)
        if not module._backward_hooks:
            # Otherwise the module would refuse backward hooks of the other kind for ever.
            module._is_full_backward_hook = None
    for parameter in model.parameters():
        for name in OPACUS_PARAM_MONKEYPATCH_ATTRS:
            vars(parameter).pop(name, None)
