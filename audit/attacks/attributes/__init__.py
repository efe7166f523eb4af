"""Attribute inference, closed set: which of a few plausible values stood under the bar (EDPB Opinion 28/2024, 55)."""

from audit.attacks.attributes.attack import AttributeInference
