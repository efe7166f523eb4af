"""Models that private training takes: one learner for each way in which the audited ones learn from a document."""

from __future__ import annotations

from audit.corpus.documents import Corpus
from audit.errors import TargetError
from audit.extensions.private.learners.answering import AnsweringLearner
from audit.extensions.private.learners.encoder import EncoderLearner
from audit.extensions.private.units import Learner
from audit.references.answering import trains_pointing
from audit.references.recipes import AnsweringRecipe
from audit.references.retrain import recipe_for, under_head
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint
from audit.targets.checkpoint.safety import refuse_training
from audit.targets.encoders.encoding import unknown_labels
from audit.targets.opening import answering_of, trainer_of


def open_learner(start: AnyFolder, corpus: Corpus, seed: int = 0, device: str = "cpu") -> Learner:
    """Open the model that a private training starts from, for what it learns from the documents of this data set.

    Args:
        start: a public checkpoint; for intents and slots any NLU model: only its sizes are read.
        corpus: its task says what the model is to do.
        seed: of fresh weights: a head that the start lacks, or a whole NLU model.
        device: "cpu", "cuda" or "mps".

    Raises:
        TargetError: the start cannot be loaded, or cannot read the documents.
        ManifestError: docaudit trains no models of this task, or the manifest or the public documents lack the labels
            or images that it needs.
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
            f"{len(strange)} member documents have labels that [task] labels lacks, the first is {min(strange)}",
            "leave them out of the data set: which units a training has follows from its documents",
        )
    return EncoderLearner(model, encoder, start.path, recipe.mask_probability, device)
