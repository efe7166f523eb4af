"""Canaries: can planted secrets be read back out of the model? (methods/canaries.md)."""

from audit.attacks.canaries.attack import Canaries
