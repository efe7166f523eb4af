"""Reconstruct scrubbed fields: CDMI, one-shot and multi-shot (Dentan, Paran & Shabou 2024)."""

from audit.attacks.reconstruction.attack import Reconstruction
