"""Attribute inference, closed set: which of a few plausible values stood under the bar (EDPB Opinion 28/2024, 55)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.attacks.attributes.description import AttributeInferenceDescription
from audit.attacks.description import import_when_asked

if TYPE_CHECKING:
    from audit.attacks.attributes.attack import AttributeInference

__all__ = ["AttributeInference"]

__getattr__ = import_when_asked(AttributeInferenceDescription, "AttributeInference")
