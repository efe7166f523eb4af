"""Reconstruction of scrubbed fields: CDMI, one-shot and multi-shot (Dentan, Paran & Shabou 2024)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.attacks.description import import_when_asked
from audit.attacks.reconstruction.description import ReconstructionDescription

if TYPE_CHECKING:
    from audit.attacks.reconstruction.attack import Reconstruction

__all__ = ["Reconstruction"]

__getattr__ = import_when_asked(ReconstructionDescription, "Reconstruction")
