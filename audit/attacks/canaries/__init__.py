"""Canaries: can planted secrets be read back out of the model? (methods.md#canaries)."""

from audit.attacks.canaries.attack import Canaries
