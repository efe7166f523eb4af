"""Attribute inference, closed set: which of a few plausible values stood under the bar.

After EDPB Opinion 28/2024, paragraph 55.
"""

from audit.attacks.attributes.attack import AttributeInference
