"""How many trials of each attack a scan takes, and how many documents usefulness is measured on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.attacks.budget import BY_TIME, SHARES, sample
from audit.cards import Bounds
from audit.corpus.documents import Corpus
from audit.engine.interface import Trial
from audit.workflows.options import ScanOptions

_USEFULNESS = b"useful"
"""Separates the draw of documents for usefulness from every other draw of the same seed."""


@dataclass(frozen=True)
class Sampling:
    """The trials that a scan takes of all that could be tried, and what bounds them.

    Attributes:
        budget: name of the budget.
        share: least share of each attack's trials, in (0, 1].
        seed: seed of every draw.
        documents: units of member and held-out documents together, at most; None: no bound.
        seconds: time of the attacks; None: no bound.
        part: part of the units of each side that fits into that time, in (0, 1].
        shares: share of the trials of attacks that take another one, by their names; None: time is
            still to choose them, where the budget leaves that to time.
    """

    budget: str
    share: float
    seed: int
    documents: int | None = None
    seconds: float | None = None
    part: float = 1.0
    shares: Mapping[str, float] | None = None

    @classmethod
    def of(cls, options: ScanOptions) -> Sampling:
        """Read the sampling from the options of a scan, whose budget exists."""
        return cls(
            budget=options.budget,
            share=SHARES[options.budget],
            seed=options.seed,
            documents=options.documents,
            seconds=options.seconds,
        )

    @property
    def awaits_time(self) -> bool:
        """Test whether the budget leaves the shares to time, and nothing has settled them."""
        unbounded = self.documents is None and self.seconds is None
        return self.budget == BY_TIME and self.shares is None and unbounded

    @property
    def bounds(self) -> Bounds | None:
        """Return what bounds the trials beside the budget, for a record; None without bounds."""
        bounds = Bounds(self.documents, self.seconds, self.part)
        if bounds == Bounds(None, None, 1.0):
            return None
        return bounds

    def with_least_shares(self) -> Sampling:
        """Return the sampling that takes the least share of every attack, however fast each is."""
        return replace(self, shares={})

    def share_of(self, attack: str) -> float:
        """Return the share of an attack's trials that is taken.

        Args:
            attack: name of the attack.
        """
        if self.shares is None:
            return self.share
        return self.shares.get(attack, self.share)

    def sample(self, attack: str, trials: Sequence[Trial]) -> list[Trial]:
        """Return the trials of an attack that the sampling takes.

        Args:
            attack: name of the attack.
            trials: all that it could try.
        """
        return sample(trials, self.share_of(attack), self.seed, self.documents, self.part)

    def with_fewer_unseen(self, corpus: Corpus) -> Corpus:
        """Draw as many held-out documents of a data set as the bounds leave, two at least."""
        heldout = [document.id for document in corpus.of("heldout")]
        most = math.ceil(self.part * len(heldout))
        if self.documents is not None:
            most = min(most, self.documents)
        if most >= len(heldout):
            return corpus
        rng = np.random.default_rng([self.seed, *_USEFULNESS])
        drawn = rng.permutation(len(heldout))[: max(2, most)]
        drawn_ids = {heldout[index] for index in drawn}
        documents = tuple(
            document
            for document in corpus.documents
            if document.split != "heldout" or document.id in drawn_ids
        )
        return replace(corpus, documents=documents)
