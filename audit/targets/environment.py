"""The machine and the software an audit runs on, in general terms."""

from __future__ import annotations

import importlib.metadata
import platform

import torch

import audit
from audit.cards import Environment
from audit.corpus.removal.tesseract import TESSERACT
from audit.errors import UsageError
from audit.targets.encoders.target import EncoderTarget
from audit.targets.opening import Checkpoint

DEVICES = ("auto", "cpu", "cuda", "mps")
_PACKAGES = ("numpy", "pillow", "scipy", "tokenizers", "torch", "transformers")
"""The packages that a number can depend on."""


def device_named(name: str) -> str:
    """The device to run on: `auto` takes CUDA, then Apple's MPS, then the CPU.

    Raises:
        UsageError: an unknown name, or a device this machine lacks.
    """
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if present[device])
    if not present.get(name, False):
        raise UsageError(f"device {name!r} is not available here", f"one of {', '.join(DEVICES)}")
    return name


def device_words(device: str) -> str:
    """The device in general terms, for the record."""
    return str(torch.cuda.get_device_name()) if device == "cuda" else {"mps": "Apple GPU"}.get(device, "CPU")


def instructions() -> str:
    """The instructions that PyTorch uses on this CPU: others may round differently."""
    return str(torch.backends.cpu.get_cpu_capability())


def threads() -> int:
    """CPU threads that a forward pass uses."""
    return int(torch.get_num_threads())


def use_threads(count: int) -> None:
    """Have every forward pass use `count` CPU threads: the last bits of a result depend on it."""
    torch.set_num_threads(count)


def packages() -> dict[str, str]:
    """Versions of the packages that a number can depend on."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def environment(target: Checkpoint) -> Environment:
    """The machine and the packages of the audit, for the record."""
    return Environment(
        docaudit=audit.__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        device=device_words(target.card.device),
        threads=threads(),
        packages=packages(),
        ocr=TESSERACT.version(),
        **_batches(target),
    )


def _batches(target: Checkpoint) -> dict[str, int]:
    """What results depend on in their last bits: nothing for an encoder on a CPU."""
    if not target.card.is_model:
        return {}
    if isinstance(target, EncoderTarget):
        if target.card.device == "cpu":
            return {}
        return {"batch_tokens": target.batch_tokens, "batches_lowered": target.forward.lowered}
    return {"batch_rows": target.batch_rows, "batches_lowered": target.lowered}
