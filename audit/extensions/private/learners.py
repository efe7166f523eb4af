"""Models that private training takes.

One learner for each way in which the audited ones learn from a document.
"""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.corpus.documents import Corpus, Document
from audit.errors import TargetError
from audit.extensions.private.units import Batch, Learner
from audit.references.encoders import Collator, save
from audit.references.recipes import AnsweringRecipe
from audit.references.retrain import recipe_for, under_head
from audit.references.trainer import samples_of, save_answering, trains_pointing
from audit.targets.answering.reader import Sample
from audit.targets.answering.rows import share, unopened
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint
from audit.targets.checkpoint.safety import refuse_training
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.encoding import Encoder, unknown_labels
from audit.targets.encoders.families import family_of
from audit.targets.encoders.models import masked_relations
from audit.targets.opening import answering_of, trainer_of


def open_learner(start: AnyFolder, corpus: Corpus, seed: int = 0, device: str = "cpu") -> Learner:
    """Open the model that a private training starts from, with the losses of its task.

    It is for what it learns from the documents of this data set.

    Args:
        start: a public checkpoint; for intents and slots any NLU model: only its sizes are read.
        corpus: its task says what the model is to do.
        seed: seed of fresh weights: a head that the start lacks, or a whole NLU model.
        device: "cpu", "cuda" or "mps".

    Raises:
        TargetError: the start cannot be loaded, or cannot read the documents.
        ManifestError: docaudit trains no models of this task, or the manifest or the public
            documents lack the labels or images that it needs.
    """
    start = open_checkpoint(start)
    refuse_training(start, start.config)
    recipe = recipe_for(corpus)
    if isinstance(recipe, AnsweringRecipe) and trains_pointing(start, corpus):
        raise TargetError(
            f"{start}: docaudit trains no models that point at answers with differential privacy",
            "it trains models that write answers, taggers, masked language models and models of utterances so",
        )
    if isinstance(recipe, AnsweringRecipe):
        target = answering_of(start, corpus, device)
        target.check(corpus)
        return AnsweringLearner(target, corpus, start.path)
    other = trainer_of(corpus.manifest.task.kind)
    if other is not None and other.open_learner is not None:
        learner: Learner = other.open_learner(start, corpus, seed, device)
        return learner
    model, encoder = under_head(start, corpus, seed)
    encoder.check_vocabulary(corpus.documents)
    strange = unknown_labels(encoder.task, encoder.labels, corpus.of("member"))
    if strange:
        raise TargetError(
            f"{len(strange)} training documents have labels that [task] labels lacks, the first is {min(strange)}",
            "leave them out of the data set: which units a training has follows from its documents",
        )
    return EncoderLearner(model, encoder, start.path, recipe.mask_probability, device)


class AnsweringLearner(Learner):
    """A model that answers questions.

    A sample is a page and one question with its first accepted answer.

    Args:
        target: gives the model and the reader that makes its inputs.
        corpus: opens the pages' images.
        start: the checkpoint that it starts from: its tokenizer and processor go along.
    """

    def __init__(self, target: AnsweringTarget, corpus: Corpus, start: Path) -> None:
        """Take the model that answers questions about the corpus, loaded from `start`."""
        self.model: Any = target.model
        self.device = target.card.device
        self._reader = target.reader
        self._share = share(target.reader)
        self._corpus = corpus
        self._start = start

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Sample, ...]:
        """List the questions of a document as samples; opens no image."""
        return samples_of(self._corpus, [document])

    def alike(self, sample: Sample) -> Hashable:
        """Return a key of the samples that can be taught together.

        Any samples can be taught together, unless padding would change what the model says.
        """
        return None if self._share else self._reader.alike(sample)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Return the inputs of samples; their images are opened for this batch only."""
        return {
            name: value.to(self.device)
            for name, value in self._reader.taught(unopened(samples)).items()
        }

    def losses(self, batch: Batch) -> torch.Tensor:
        """Compute the mean loss of each sample's answer."""
        logits = self.model(**batch).logits
        labels = batch["labels"]
        if not self.model.config.is_encoder_decoder:
            # A decoder's scores at one position are for the token at the next one.
            logits = logits[:, :-1]
            labels = labels[:, 1:]
        return mean_costs(logits, labels)

    def save(self, folder: Path, *, half: bool = False) -> None:
        """Save the model with the other files of the checkpoint that it began from."""
        save_answering(self.model, self._start, folder, half=half)


def mean_costs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Compute the mean cross-entropy of each sample's labels where they are read.

    Shape (n_samples,), nats; 0 where none is.

    Args:
        logits: (n_samples, n_tokens, n_classes).
        labels: (n_samples, n_tokens), `NOT_READ` where not read.
    """
    is_read = labels != NOT_READ
    chosen = torch.log_softmax(logits.float(), dim=-1).gather(-1, labels.clamp(min=0)[..., None])[
        ..., 0
    ]
    means: torch.Tensor = -torch.where(is_read, chosen, 0.0).sum(dim=-1) / is_read.sum(
        dim=-1
    ).clamp(min=1)
    return means


LENGTHS = 64
"""Pages share a batch when their lengths lie between the same multiples of this: padding stays
small."""
_TARGETS = (
    "labels",
    "initial_token_labels",
    "subsequent_token_labels",
    "bbox_first_token_mask",
    "read_at",
)


class EncoderLearner(Learner):
    """An encoder under a head; a sample is a page.

    Args:
        model: a transformers model of a known family.
        encoder: makes its pages.
        start: the checkpoint that it starts from: the settings of its image processor go along.
        mask_probability: the share of tokens predicted on a page (masked language models only).
        device: "cpu", "cuda" or "mps".
    """

    def __init__(
        self, model: Any, encoder: Encoder, start: Path, mask_probability: float, device: str
    ) -> None:
        """Take the encoder, and choose the loss of its task."""
        self.model: Any = model.to(device).eval()
        self.device = device
        self._encoder = encoder
        self._start = start
        family = family_of(model.config.model_type)
        assert family is not None, "only models of known families are put under a head"
        self._family = family
        self._collator = self._collate_with(mask_probability, seed=0)
        self._mask_probability = mask_probability
        self._costs_of = {
            "mlm": self._masked_costs,
            "token-classification": self._tag_costs,
            "document-classification": self._class_costs,
            "spade-extraction": self._extraction_costs,
            "spade-linking": self._linking_costs,
        }[encoder.task]

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Encoding, ...]:
        """Return the document's page as a sample; none where the loss reads nothing of it.

        Of a longer one its beginning.
        """
        page = self._encoder.encode(document)
        if page is None:
            return ()
        if self._encoder.task == "mlm":
            return (self._masked(page, rng),)
        return (page,) if page.has_loss else ()

    def alike(self, sample: Encoding) -> Hashable:
        """Return a key of pages that are about as long."""
        return len(sample.ids) // LENGTHS

    def collate(self, samples: Sequence[Encoding]) -> Batch:
        """Return a batch of pages padded to one length, with the labels of their losses."""
        batch = self._collator(samples)
        if self._encoder.task == "mlm":
            # The positions with a label, and the labels: (n_pages, most labels of a page) each.
            labels = batch["labels"]
            is_read = labels != NOT_READ
            order = torch.argsort((~is_read).long(), dim=1, stable=True)[
                :, : int(is_read.sum(dim=1).max())
            ]
            batch["read_at"] = order
            batch["labels"] = labels.gather(1, order)
        return {name: value.to(self.device) for name, value in batch.items()}

    def losses(self, batch: Batch) -> torch.Tensor:
        """Compute the training loss of each page."""
        return self._costs_of(
            {name: value for name, value in batch.items() if name not in _TARGETS}, batch
        )

    def save(self, folder: Path, *, half: bool = False) -> None:
        """Save the model with its tokenizer."""
        save(self.model, self._encoder.tokenizer, folder, half=half, processor_of=self._start)

    def _collate_with(self, mask_probability: float, seed: int) -> Collator:
        """Return the collator of pages that masks this share of tokens."""
        sees_images = self._family.sight_of(self.model.config) is not None
        return Collator(self._family, self._encoder.tokenizer, mask_probability, seed, sees_images)

    def _masked(self, page: Encoding, rng: np.random.Generator) -> Encoding:
        """Mask a page, with at least one hidden token, so that it has a loss."""
        masker = self._collate_with(self._mask_probability, int(rng.integers(2**31)))
        masked = masker.masked(page)
        while masked.labels is None or not (masked.labels != NOT_READ).any():
            masked = masker.masked(page)
        return masked

    def _masked_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        """Return each page's mean cross-entropy of its masked tokens.

        Scores are those of the masked tokens only, where possible.
        """
        named = self._family.vocabulary_head
        if named is None:
            found = self.model(**inputs).logits
        else:
            found = getattr(self.model, self._family.encoder)(**inputs).last_hidden_state
        states = found.gather(1, batch["read_at"][..., None].expand(-1, -1, found.shape[-1]))
        return mean_costs(
            states if named is None else getattr(self.model, named)(states), batch["labels"]
        )

    def _tag_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        """Return each page's mean cross-entropy of the tags of its words."""
        return mean_costs(self.model(**inputs).logits, batch["labels"])

    def _class_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        """Return each page's cross-entropy of its class."""
        return mean_costs(self.model(**inputs).logits[:, None], batch["labels"][:, None])

    def _extraction_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        """Return each page's mean cost of first tokens plus that of next tokens."""
        output = self.model(**inputs)
        classes = mean_costs(output.initial_token_logits, batch["initial_token_labels"])
        return classes + mean_costs(
            output.subsequent_token_logits, batch["subsequent_token_labels"]
        )

    def _linking_costs(self, inputs: Batch, batch: Batch) -> torch.Tensor:
        """Return each page's mean cross-entropy of the links between its fields."""
        # transformers' BROS masks its scores only where it is to compute its own loss.
        scores = masked_relations(self.model(**inputs).logits, batch["bbox_first_token_mask"])
        return mean_costs(scores, batch["labels"])
