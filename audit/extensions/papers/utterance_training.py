"""Training of the NLU model of Parikh et al. 2022 (section 4.1).

With the paper's defenses (section 6) where a recipe asks for them: dropout, early stopping, a
character layer. A plain loop: transformers' Trainer pads, and these models have no padding.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.arrays import Floats, Ints
from audit.corpus.documents import Corpus, Document
from audit.engine.interface import SILENT, Progress
from audit.errors import ManifestError, TargetError
from audit.extensions.papers.utterance_model import UNKNOWN_ID, NluConfig, NluModel, Vocabulary
from audit.extensions.papers.utterance_target import UNKNOWN_SHARE, NluTarget, fresh_model, load_nlu
from audit.extensions.private.units import Batch, Learner
from audit.references.recipes import reproducible
from audit.references.trainer import store
from audit.targets.checkpoint.content import TRAINER_STATE
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder
from audit.targets.checkpoint.safety import quiet
from audit.targets.opening import Opener

LARGEST_GRADIENT = 5.0
"""Gradients longer than this are shortened to it, as in Ma & Hovy (2016, section 3.2)."""
_VALIDATION_ROWS = 512
_SIZES = ("embedding_size", "hidden_size", "input_dropout", "state_dropout")
"""What a recipe and a model's configuration both name."""
Utterances = tuple[torch.Tensor, ...]
"""Utterances of one length: ids and labels (n, n_tokens), intents (n,)."""


@dataclass(frozen=True)
class NluRecipe:
    """How an NLU model is made and fitted.

    Attributes:
        epochs: passes over the utterances, at most.
        batch_size: utterances a step; all of one length, so that some steps take fewer.
        learning_rate: Adam's, the same throughout.
        seed: seed of the weights, the order and dropout.
        embedding_size: size of a word's vector.
        hidden_size: size of one direction of a BiLSTM layer.
        character_layer: whether words show their characters too (the paper's defense CE).
        input_dropout: before the first BiLSTM (with `state_dropout` the paper's defense D: 20 %
            here and 10 % there; the paper does not say where either stands).
        state_dropout: after the last BiLSTM.
        patience: epochs without a lower validation loss after which training stops, and the weights
            of the lowest one are kept (the paper's defense ES: 20); None: all epochs, and the last
            weights.
        train_embeddings: whether words' vectors learn; False: they stay as they start.
    """

    epochs: int = 30
    batch_size: int = 32
    learning_rate: float = 3e-3
    seed: int = 0
    embedding_size: int = 50
    hidden_size: int = 48
    character_layer: bool = False
    input_dropout: float = 0.0
    state_dropout: float = 0.0
    patience: int | None = None
    train_embeddings: bool = True

    def sized_like(self, config: NluConfig) -> NluRecipe:
        """Return the recipe with another model's sizes, character layer and dropout."""
        return replace(
            self,
            character_layer=config.n_characters > 0,
            **{name: getattr(config, name) for name in _SIZES},
        )

    def as_json(self) -> dict[str, int | float | bool | None]:
        """Return the recipe for a record or a cache key."""
        return asdict(self)


def fit_nlu(
    documents: Sequence[Document],
    validation: Sequence[Document],
    recipe: NluRecipe,
    folder: Path,
    progress: Progress = SILENT,
    *,
    labels: Sequence[str] = (),
    intents: Sequence[str] = (),
    initial_embeddings: Mapping[str, Floats] | None = None,
    half: bool = False,
) -> NluTarget:
    """Train a model on utterances and write it as a checkpoint.

    On the CPU, the same weights for the same arguments.

    Args:
        documents: utterances with tags and an intent; at least one.
        validation: utterances that early stopping looks at; nothing else reads them.
        recipe: recipe of the training.
        folder: folder that is made when it is missing.
        progress: advanced after every epoch; the stage is the caller's.
        labels: the tags in the order of the model's outputs; (): all of the documents, sorted.
        intents: likewise.
        initial_embeddings: vectors by word that words start from, (embedding_size,) each; all of
            them join the vocabulary. Words of `documents` without one start at random.
        half: store weights in float16.

    Raises:
        TargetError: there is no utterance to train on, or to validate on when training is to stop
            early; or one lacks words, tags or its intent, or has a tag or an intent that `labels`
            or `intents` leave out.
        ValueError: a vector of another size.
    """
    _refuse_unlearnable(documents, validation, recipe)
    vectors = initial_embeddings or {}
    vocabulary = Vocabulary.of([*_texts_of(documents), *vectors])
    everything = [*documents, *validation]
    tags = tuple(labels) or tuple(sorted(_tags_of(everything)))
    intents = tuple(intents) or tuple(sorted({str(document.intent) for document in everything}))
    with reproducible("cpu"):
        torch.manual_seed(recipe.seed)
        sizes = {name: getattr(recipe, name) for name in _SIZES}
        model = fresh_model(vocabulary, tags, intents, characters=recipe.character_layer, **sizes)
        if vectors:
            _set_words(model, vocabulary, vectors)
        model.words.weight.requires_grad_(recipe.train_embeddings)
        material = _by_length(documents, vocabulary, tags, intents)
        state = _fit_in_place(
            model, material, _by_length(validation, vocabulary, tags, intents), recipe, progress
        )
    with quiet():
        store(model.requires_grad_(True).eval(), folder, half=half)
    vocabulary.save(folder)
    (folder / TRAINER_STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    return load_nlu(folder, labels=tags)


def _texts_of(documents: Sequence[Document]) -> Iterator[str]:
    """Yield the words of documents."""
    for document in documents:
        for word in document.words:
            yield word.text


def _tags_of(documents: Sequence[Document]) -> set[str]:
    """Return the tags of documents."""
    tags: set[str] = set()
    for document in documents:
        tags.update(document.tags or ())
    return tags


def _set_words(model: NluModel, vocabulary: Vocabulary, vectors: Mapping[str, Floats]) -> None:
    """Set the embeddings of words to these vectors before training.

    Raises:
        ValueError: they are of another size than the model's.
    """
    matrix = np.stack([*vectors.values()]).astype(np.float32)
    size = model.words.weight.shape[1]
    if matrix.shape[1] != size:
        raise ValueError(f"vectors of {matrix.shape[1]} numbers for embeddings of {size}")
    with torch.no_grad():
        rows = torch.from_numpy(vocabulary.ids_of(vectors))
        model.words.weight[rows] = torch.from_numpy(matrix)


def fit_like(
    model: AnyFolder,
    documents: Sequence[Document],
    recipe: NluRecipe,
    folder: Path,
    progress: Progress = SILENT,
    *,
    half: bool = False,
) -> NluTarget:
    """Train a model of the sizes, tags and intents of another one.

    Its weights and words are not used.

    Args:
        model: the checkpoint of the other one.
        documents: documents, see `fit_nlu`.
        recipe: recipe of the training; sizes, character layer and dropout are the other one's.
        folder: folder, see `fit_nlu`.
        progress: receiver of progress, see `fit_nlu`.
        half: see `fit_nlu`.

    Raises:
        TargetError: the other one cannot be loaded, or see `fit_nlu`.
    """
    other = load_nlu(model)
    sized = recipe.sized_like(other.model.config)
    return fit_nlu(
        documents,
        (),
        sized,
        folder,
        progress,
        labels=other.labels,
        intents=other.intents,
        half=half,
    )


def _refuse_unlearnable(
    documents: Sequence[Document], validation: Sequence[Document], recipe: NluRecipe
) -> None:
    """Refuse utterances without words, intent or tags, and stopping without validation.

    Raises:
        TargetError: see `fit_nlu`.
    """
    if not documents:
        raise TargetError(
            "there is no utterance to train on", "give documents in the split that trains the model"
        )
    if recipe.patience is not None and not validation:
        raise TargetError(
            "early stopping needs utterances to validate on", "give some, or set no patience"
        )
    for document in (*documents, *validation):
        if (
            not document.words
            or document.intent is None
            or len(document.tags or ()) != len(document.words)
        ):
            raise TargetError(
                f"document {document.id} lacks words, an intent, or a tag for each word"
            )


def _by_length(
    documents: Sequence[Document],
    vocabulary: Vocabulary,
    tags: Sequence[str],
    intents: Sequence[str],
) -> list[Utterances]:
    """Return the utterances, those of one length together, shortest first.

    Raises:
        TargetError: a tag that is not among `tags`, or an intent that is not among `intents`.
    """
    tag_ids = {tag: index for index, tag in enumerate(tags)}
    groups: dict[int, list[tuple[Ints, list[int], int]]] = defaultdict(list)
    for document in documents:
        unknown = {*(document.tags or ())} - tag_ids.keys()
        if unknown:
            raise TargetError(f"document {document.id} has a tag that is not among the labels")
        if document.intent not in intents:
            raise TargetError(f"document {document.id} has an intent that the model does not know")
        ids = vocabulary.ids_of(word.text for word in document.words)
        labels = [tag_ids[tag] for tag in document.tags or ()]
        groups[len(ids)].append((ids, labels, intents.index(str(document.intent))))
    return [_tensors(groups[length]) for length in sorted(groups)]


def _tensors(rows: Sequence[tuple[Ints, list[int], int]]) -> Utterances:
    """Return utterances of one length as columns: their words, tags and intents."""
    columns = zip(*rows, strict=True)
    return tuple(torch.from_numpy(np.array(column, np.int64)) for column in columns)


def _batches(
    material: Sequence[Utterances], size: int, rng: np.random.Generator
) -> Iterator[Utterances]:
    """Yield one epoch: every utterance once, in batches of one length in random order."""
    batches = []
    for group in material:
        order = torch.from_numpy(rng.permutation(len(group[0])))
        batches += [(group, rows) for rows in torch.split(order, size)]
    for index in rng.permutation(len(batches)):
        group, rows = batches[index]
        yield tuple(values[rows] for values in group)


def _fit_in_place(
    model: NluModel,
    material: Sequence[Utterances],
    validation: Sequence[Utterances],
    recipe: NluRecipe,
    progress: Progress,
) -> dict[str, Any]:
    """Train `model` in place; return the kept epoch, its steps, and all epochs' losses.

    Return the epoch whose weights are kept, the steps until then, and all epochs' losses.
    """
    rng = np.random.default_rng(recipe.seed)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(learning, lr=recipe.learning_rate, fused=True)
    history: list[dict[str, float]] = []
    best: dict[str, torch.Tensor] | None = None
    best_step = (0, 0)
    lowest = float("inf")
    step = 0
    for epoch in range(1, recipe.epochs + 1):
        model.train()
        total = 0.0
        n = 0
        for batch in _batches(material, recipe.batch_size, rng):
            losses: Any = model(*batch).losses
            optimizer.zero_grad()
            # Divided by the size of a full batch, so that every utterance weighs the same.
            (losses.sum() / recipe.batch_size).backward()
            torch.nn.utils.clip_grad_norm_(learning, LARGEST_GRADIENT)
            optimizer.step()
            step += 1
            total += float(losses.detach().sum())
            n += len(losses)
        history.append({"epoch": epoch, "step": step, "loss": total / n})
        progress.advance()
        if recipe.patience is None:
            best_step = epoch, step
            continue
        history[-1]["eval_loss"] = _mean_loss(model, validation)
        if history[-1]["eval_loss"] < lowest:
            best_step = (epoch, step)
            lowest = history[-1]["eval_loss"]
            best = {name: value.clone() for name, value in model.state_dict().items()}
        elif epoch - best_step[0] >= recipe.patience:
            break
    if best is not None:
        model.load_state_dict(best)
    return {"epoch": best_step[0], "global_step": best_step[1], "log_history": history}


@torch.no_grad()
def _mean_loss(model: NluModel, material: Sequence[Utterances]) -> float:
    """Return the mean loss of an utterance, without dropout."""
    model.eval()
    parts = (
        zip(*(torch.split(values, _VALIDATION_ROWS) for values in group), strict=True)
        for group in material
    )
    losses = [model(*part).losses for rows in parts for part in rows]
    return float(torch.cat(losses).double().mean())


_OWN = ("vocab_size", "n_characters", "intents")
"""What a fresh model's configuration has of its own."""
Utterance = tuple[Ints, Ints, int]
"""Ids of words and of tags, (n_words,) each, and the number of the intent."""


class NluLearner(Learner):
    """An NLU model.

    A sample is an utterance, of which the model's `max_tokens` first words are read.

    Args:
        model: knows the vocabulary's words.
        vocabulary: vocabulary that names no word of a private document.
        device: "cpu", "cuda" or "mps".
    """

    def __init__(self, model: NluModel, vocabulary: Vocabulary, device: str) -> None:
        """Put a model on `device`, to learn utterances in the words of its vocabulary."""
        self.model: NluModel = model.to(device).eval()
        self.device = device
        self._vocabulary = vocabulary
        self._tags = {tag: index for index, tag in model.config.id2label.items()}
        self._intents = {intent: index for index, intent in enumerate(model.config.intents)}

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Utterance, ...]:
        """Return the sample of an utterance: its ids, tags and intent.

        There is none where tags or the intent are missing or unknown to the model.
        """
        longest = self.model.config.max_tokens
        tags = [self._tags.get(tag) for tag in (document.tags or ())[:longest]]
        intent = None if document.intent is None else self._intents.get(document.intent)
        if not tags or None in tags or intent is None:
            return ()
        ids = self._vocabulary.ids_of(word.text for word in document.words[:longest])
        return ((ids, np.array(tags, np.int64), intent),)

    def alike(self, sample: Utterance) -> Hashable:
        """Return the length of an utterance: these models have no padding."""
        return len(sample[0])

    def collate(self, samples: Sequence[Utterance]) -> Batch:
        """Stack the ids, tags and intents of samples on the device."""
        columns = zip(("input_ids", "labels", "intents"), zip(*samples, strict=True), strict=True)
        return {
            name: torch.from_numpy(np.array(values, np.int64)).to(self.device)
            for name, values in columns
        }

    def losses(self, batch: Batch) -> torch.Tensor:
        """Compute the training loss of each sample."""
        losses: torch.Tensor = self.model(**batch).losses
        return losses

    def save(self, folder: Path, *, half: bool = False) -> None:
        """Save the model and its vocabulary."""
        with quiet():
            store(self.model, folder, half=half)
        self._vocabulary.save(folder)


def fresh_nlu(start: AnyFolder, corpus: Corpus, seed: int) -> tuple[NluModel, Vocabulary]:
    """Return a model sized like `start` with weights drawn by the seed, and its vocabulary.

    Neither weights nor words, tags or intents of `start` are used: an audited model has the words
    of its members.

    Args:
        start: a checkpoint of an NLU model.
        corpus: its public documents give words and intents, and tags where the manifest names none.
        seed: seed of the weights.

    Raises:
        TargetError: the start cannot be loaded.
        ManifestError: there is no public utterance, a tag or an intent of the data set is not
            public, or the public words are too few of the members' (a scan would refuse the model).
    """
    sizes = load_nlu(start).model.config
    public = [document for document in corpus.of("public") if document.words]
    vocabulary = Vocabulary.of(_texts_of(public))
    tags = corpus.manifest.task.labels or tuple(sorted(_tags_of(public)))
    intents = sorted({document.intent for document in public if document.intent is not None})
    _refuse_private_names(corpus, tags, intents)
    _refuse_few_words(corpus, vocabulary)
    names = [name for name in NluConfig.__annotations__ if name not in _OWN]
    settings = {name: getattr(sizes, name) for name in names}
    has_characters = sizes.n_characters > 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = fresh_model(vocabulary, tags, intents, characters=has_characters, **settings)
        return model, vocabulary


def _refuse_private_names(corpus: Corpus, tags: Sequence[str], intents: Sequence[str]) -> None:
    """Refuse a data set whose tags and intents a model could know from private utterances only."""
    if not tags or not intents:
        raise ManifestError(
            "no public utterance names a tag and an intent, and the names of a private model must be public",
            'add utterances with split = "public", and the tags as [task] labels in manifest.toml',
        )
    hidden = {document.intent for document in corpus.documents if document.intent is not None} - {
        *intents
    }
    hidden |= _tags_of(corpus.documents) - {*tags}
    if hidden:
        raise ManifestError(
            f"{len(hidden)} tags or intents occur in no public utterance, the first is {min(hidden)}",
            "add a public utterance with each intent, and name every tag as [task] labels in manifest.toml",
        )


def _refuse_few_words(corpus: Corpus, vocabulary: Vocabulary) -> None:
    """Refuse a data set whose members are mostly unknown words to a model of the public ones."""
    words = vocabulary.ids_of(_texts_of(corpus.of("member")))
    unknown = float((words == UNKNOWN_ID).mean()) if len(words) else 0.0
    if unknown > UNKNOWN_SHARE:
        raise ManifestError(
            f"the public utterances lack {unknown:.0%} of the members' words, and a model trained with privacy knows"
            " no further words",
            f"add public utterances of the same kind, until they lack at most {UNKNOWN_SHARE:.0%}",
        )


def _open_target(
    folder: CheckpointFolder, corpus: Corpus, device: str, batch_rows: int | None
) -> NluTarget:
    """Load a model of utterances as the target of a scan."""
    return load_nlu(
        folder, device=device, labels=corpus.manifest.task.labels, batch_rows=batch_rows
    )


def _open_learner(start: CheckpointFolder, corpus: Corpus, seed: int, device: str) -> Any:
    """Open a fresh model like `start`, to be trained privately."""
    return NluLearner(*fresh_nlu(start, corpus, seed), device)


OPENER = Opener(_open_target, "intent-slots", NluRecipe, fit_like, _open_learner)
