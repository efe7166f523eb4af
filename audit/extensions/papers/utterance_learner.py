"""Models of utterances for private training: their words, tags and intents are those of public utterances."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np
import torch

from audit.arrays import Ints
from audit.corpus.documents import Corpus, Document
from audit.errors import ManifestError
from audit.extensions.papers.utterance_model import UNKNOWN_ID, NluConfig, NluModel, Vocabulary
from audit.extensions.papers.utterance_target import UNKNOWN_SHARE, fresh_model, load_nlu
from audit.extensions.private.units import Batch, Learner
from audit.references.trainer import store
from audit.targets.checkpoint.folder import AnyFolder
from audit.targets.checkpoint.safety import quiet

_OWN = ("vocab_size", "n_characters", "intents")
"""What a fresh model's configuration has of its own."""
Utterance = tuple[Ints, Ints, int]
"""Ids of words and of tags, (n_words,) each, and the number of the intent."""


class NluLearner(Learner):
    """An NLU model; a sample is an utterance, of which the model's `max_tokens` first words are read.

    Args:
        model: knows the vocabulary's words.
        vocabulary: one that names no word of a private document.
        device: "cpu", "cuda" or "mps".
    """

    def __init__(self, model: NluModel, vocabulary: Vocabulary, device: str) -> None:
        self.model: NluModel = model.to(device).eval()
        self.device = device
        self._vocabulary = vocabulary
        self._tags = {tag: index for index, tag in model.config.id2label.items()}
        self._intents = {intent: index for index, intent in enumerate(model.config.intents)}

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Utterance, ...]:
        """See `Learner.samples_of`; none where tags or the intent are missing or unknown to the model."""
        longest = self.model.config.max_tokens
        tags = [self._tags.get(tag) for tag in (document.tags or ())[:longest]]
        intent = None if document.intent is None else self._intents.get(document.intent)
        if not tags or None in tags or intent is None:
            return ()
        ids = self._vocabulary.ids_of(word.text for word in document.words[:longest])
        return ((ids, np.array(tags, np.int64), intent),)

    def alike(self, sample: Utterance) -> Hashable:
        """See `Learner.alike`: these models have no padding."""
        return len(sample[0])

    def collate(self, samples: Sequence[Utterance]) -> Batch:
        """See `Learner.collate`."""
        columns = zip(("input_ids", "labels", "intents"), zip(*samples, strict=True), strict=True)
        return {name: torch.from_numpy(np.array(values, np.int64)).to(self.device) for name, values in columns}

    def losses(self, batch: Batch) -> torch.Tensor:
        """See `Learner.losses`."""
        losses: torch.Tensor = self.model(**batch).losses
        return losses

    def save(self, folder: Path, *, half: bool = False) -> None:
        """See `Learner.save`."""
        with quiet():
            store(self.model, folder, half=half)
        self._vocabulary.save(folder)


def fresh_nlu(start: AnyFolder, corpus: Corpus, seed: int) -> tuple[NluModel, Vocabulary]:
    """Return a model of the sizes of `start`, whose weights follow from the seed, and its words.

    Neither weights nor words, tags or intents of `start` are used: an audited model has the words of its members.

    Args:
        start: a checkpoint of an NLU model.
        corpus: its public documents give words and intents, and tags where the manifest names none.
        seed: of the weights.

    Raises:
        TargetError: the start cannot be loaded.
        ManifestError: there is no public utterance, a tag or an intent of the data set is not public, or the public
            words are too few of the members' (a scan would refuse the model).
    """
    sizes = load_nlu(start).model.config
    public = [document for document in corpus.of("public") if document.words]
    vocabulary = Vocabulary.of(word.text for document in public for word in document.words)
    tags = corpus.manifest.task.labels or tuple(sorted({tag for document in public for tag in document.tags or ()}))
    intents = sorted({document.intent for document in public if document.intent is not None})
    _refuse_private_names(corpus, tags, intents)
    _refuse_few_words(corpus, vocabulary)
    others = {name: getattr(sizes, name) for name in NluConfig.__annotations__ if name not in _OWN}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return fresh_model(vocabulary, tags, intents, characters=sizes.n_characters > 0, **others), vocabulary


def _refuse_private_names(corpus: Corpus, tags: Sequence[str], intents: Sequence[str]) -> None:
    """Refuse a data set whose tags and intents a model could know from private utterances only."""
    if not tags or not intents:
        raise ManifestError(
            "no public utterance names a tag and an intent, and the names of a private model must be public",
            'add utterances with split = "public", and the tags as [task] labels in manifest.toml',
        )
    hidden = {document.intent for document in corpus.documents if document.intent is not None} - {*intents}
    hidden |= {tag for document in corpus.documents for tag in document.tags or ()} - {*tags}
    if hidden:
        raise ManifestError(
            f"{len(hidden)} tags or intents occur in no public utterance, the first is {min(hidden)}",
            "add a public utterance with each intent, and name every tag as [task] labels in manifest.toml",
        )


def _refuse_few_words(corpus: Corpus, vocabulary: Vocabulary) -> None:
    """Refuse a data set whose members are mostly unknown words to a model of the public ones."""
    words = vocabulary.ids_of(word.text for document in corpus.of("member") for word in document.words)
    unknown = float((words == UNKNOWN_ID).mean()) if len(words) else 0.0
    if unknown > UNKNOWN_SHARE:
        raise ManifestError(
            f"the public utterances lack {unknown:.0%} of the members' words, and a model trained with privacy knows"
            " no further words",
            f"add public utterances of the same kind, until they lack at most {UNKNOWN_SHARE:.0%}",
        )
