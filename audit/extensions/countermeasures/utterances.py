"""The defences of Parikh et al. (2022, section 6), all together.

They are for models that name intents and slots.

Dropout of 20 % on what goes into the first BiLSTM and of 10 % on the last one's states, early
stopping with a patience of 20 epochs, and a layer that reads words' characters: singly they are not
dependable. An attacker who knows of the character layer searches among words instead of vectors;
the audit's attack on canaries does so for every model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit import __version__
from audit.errors import ManifestError, TargetError
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus, Document
    from audit.engine.interface import Progress
    from audit.extensions.papers.utterance_target import NluTarget
    from audit.extensions.papers.utterance_training import NluRecipe

SETTINGS: Mapping[str, Any] = {
    "input_dropout": 0.2,
    "state_dropout": 0.1,
    "patience": 20,
    "character_layer": True,
}
"""Of `audit.extensions.papers.utterance_training.NluRecipe`, in place of the audited model's."""
HELD_ASIDE = 0.2
"""The share of public utterances that early stopping looks at; no baseline learns from them."""


class Regularisation(TrainingDefense):
    """Train with dropout, early stopping and a character layer together."""

    name = "regularisation"
    title = "Dropout, early stopping and character layer"
    description = "trained with dropout, early stopping and a character layer together (for intents and slots)"

    def check(self, corpus: Corpus, start: Path) -> None:
        """Refuse a model or documents that early stopping cannot work with."""
        other = _load_utterance_model(self.name, corpus, start)
        held_aside(corpus, other.labels, other.intents, self._recipe(corpus, other).seed)

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        """Train a model with regularisation and early stopping.

        It runs on the CPU whatever `device` is, as all training of these models does.

        Raises:
            TargetError: `start` names no intents and slots, or cannot be loaded.
            ManifestError: early stopping has too few public utterances to look at.
        """
        from audit.corpus.manifest import load
        from audit.extensions.countermeasures.changed_data import write_changed
        from audit.extensions.papers.utterance_training import fit_nlu
        from audit.references.recipes import key_of, made_once
        from audit.targets.checkpoint.folder import open_checkpoint

        opened = open_checkpoint(start)
        other = _load_utterance_model(self.name, corpus, start)
        recipe = self._recipe(corpus, other)
        validation = held_aside(corpus, other.labels, other.intents, recipe.seed)
        aside = {document.id for document in validation}
        left = [document for document in corpus.documents if document.id not in aside]
        write_data = partial(write_changed, corpus, left, suffix="validated")
        key = key_of([corpus.sha256, opened.sha256, recipe.seed, __version__])
        data = load(made_once(out / f"{self.name}-data-{key}", write_data))

        def train(folder: Path) -> None:
            """Train the members' model with early stopping into `folder`."""
            progress.stage(f"training with {self.name}, epochs", recipe.epochs)
            members = corpus.of("member")
            intents = other.intents
            fit_nlu(
                members, validation, recipe, folder, progress, labels=other.labels, intents=intents
            )

        key = key_of([opened.sha256, corpus.sha256, recipe.as_json(), __version__])
        model = made_once(out / f"{self.name}-{key}", train)
        # A baseline takes its sizes, dropout and character layer from what it starts from.
        return RetrainedModel(model, data.root, model)

    def _recipe(self, corpus: Corpus, other: NluTarget) -> NluRecipe:
        """Return the audited model's recipe and sizes, with the settings of this countermeasure."""
        from audit.extensions.papers.utterance_training import NluRecipe
        from audit.references.retrain import recipe_for

        plain = recipe_for(corpus)
        assert isinstance(plain, NluRecipe)  # `_load_utterance_model` refuses other tasks
        return replace(plain.sized_like(other.model.config), **SETTINGS)


def held_aside(
    corpus: Corpus, labels: Sequence[str], intents: Sequence[str], seed: int
) -> tuple[Document, ...]:
    """Return the public utterances on which early stopping measures the loss.

    They are among those whose tags and intent the model knows.

    Raises:
        ManifestError: there are fewer than two: baselines need one as well.
    """
    import numpy as np

    known = [
        document
        for document in corpus.of("public")
        if document.words and set(document.tags or ()) <= set(labels) and document.intent in intents
    ]
    if len(known) < 2:
        raise ManifestError(
            f"early stopping needs public utterances to look at, and {len(known)} have tags and intents of the model",
            "add documents of split public: members must not be looked at, nor held-out ones, which are audited",
        )
    n = max(1, round(HELD_ASIDE * len(known)))
    chosen = np.random.default_rng([seed, *b"held aside"]).permutation(len(known))[:n]
    return tuple(known[index] for index in sorted(chosen))


def _load_utterance_model(name: str, corpus: Corpus, start: Path) -> NluTarget:
    """Load the audited model of intents and slots; refuse any other model."""
    from audit.extensions.papers.utterance_target import is_nlu, load_nlu

    if corpus.manifest.task.kind != "intent-slots" or not is_nlu(start):
        raise TargetError(
            f"{name} is for models that name intents and slots",
            "models of pages are trained by transformers with the dropout of their own configuration",
        )
    return load_nlu(start)
