"""Models that answer questions about a page."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.corpus.documents import Corpus, Document
from audit.extensions.private.units import Batch, Learner
from audit.references.answering import samples_of, save_answering
from audit.targets.answering.reader import Sample
from audit.targets.answering.rows import share, unopened
from audit.targets.answering.target import AnsweringTarget
from audit.targets.encoded_page import NOT_READ


class AnsweringLearner(Learner):
    """A model that answers questions; a sample is a page and one question with its first accepted answer.

    Args:
        target: gives the model and the reader that makes its inputs.
        corpus: opens the pages' images.
        start: the checkpoint that it starts from: its tokenizer and processor go along.
    """

    def __init__(self, target: AnsweringTarget, corpus: Corpus, start: Path) -> None:
        self.model: Any = target.model
        self.device = target.card.device
        self._reader = target.reader
        self._share = share(target.reader)
        self._corpus = corpus
        self._start = start

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Sample, ...]:
        """See `Learner.samples_of`; opens no image."""
        return samples_of(self._corpus, [document])

    def alike(self, sample: Sample) -> Hashable:
        """See `Learner.alike`: any samples can be taught together, unless padding would change what the model says."""
        return None if self._share else self._reader.alike(sample)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """See `Learner.collate`; images are opened here, and let go with the batch."""
        return {name: value.to(self.device) for name, value in self._reader.taught(unopened(samples)).items()}

    def losses(self, batch: Batch) -> torch.Tensor:
        """See `Learner.losses`."""
        logits, labels = self.model(**batch).logits, batch["labels"]
        if not self.model.config.is_encoder_decoder:
            # A decoder's scores at one position are for the token at the next one.
            logits, labels = logits[:, :-1], labels[:, 1:]
        return mean_costs(logits, labels)

    def save(self, folder: Path, *, half: bool = False) -> None:
        """See `Learner.save`."""
        save_answering(self.model, self._start, folder, half=half)


def mean_costs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Compute the mean cross-entropy of each sample's labels where they are read: (n_samples,), nats; 0 where none is.

    Args:
        logits: (n_samples, n_tokens, n_classes).
        labels: (n_samples, n_tokens), `NOT_READ` where not read.
    """
    read = labels != NOT_READ
    chosen = torch.log_softmax(logits.float(), dim=-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    means: torch.Tensor = -torch.where(read, chosen, 0.0).sum(dim=-1) / read.sum(dim=-1).clamp(min=1)
    return means
