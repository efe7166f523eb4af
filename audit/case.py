"""What one audit examines: a target, a corpus, and models that never saw the audited documents."""

from __future__ import annotations

from dataclasses import dataclass

from audit.corpus.documents import Corpus
from audit.targets.interface import Target


@dataclass(frozen=True)
class References:
    """Models that never saw the audited documents.

    Attributes:
        auxiliary: the adversary's masked language model, trained on public documents (PUB-MLM).
    """

    auxiliary: Target | None = None


@dataclass(frozen=True)
class Case:
    """One audit's subject. Attacks read it; they never train or change anything in it."""

    target: Target
    corpus: Corpus
    references: References = References()
