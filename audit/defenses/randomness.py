"""Random choices that follow from the question, so that an answer depends on its query alone."""

from __future__ import annotations

import hashlib


def seed_of(seed: int, name: str, question: str) -> int:
    """A seed for this question: 63 bits that follow from (seed, name of the countermeasure, question)."""
    digest = hashlib.sha256(f"{seed}\0{name}\0{question}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1
