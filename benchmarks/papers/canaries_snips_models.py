"""The models of `canaries_snips.py`: which utterances, canaries and word vectors, and how one model is trained."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.corpus import manifest
from audit.corpus.canaries.schema import PATTERNS, TAGS
from audit.corpus.documents import Document, Word
from audit.extensions.papers.utterance_target import NluTarget
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

PATTERN_NAMES = ("color", "pin", "call")
PREFIXES = {
    "pin": ("my", "pin", "code", "is"),
    "call": ("call",),
    "color": ("color",),
    "names": ("my", "kin", "are"),
    "mixed": ("my", "code", "is"),
}
"""The words before the completion in the paper's design: one canary of each pattern, behind no name
of its own."""
ROWS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "none": {},
        "D": {"input_dropout": 0.2, "state_dropout": 0.1},
        "ES": {"patience": 20},
        "CE": {"character_layer": True},
        "D+ES": {"input_dropout": 0.2, "state_dropout": 0.1, "patience": 20},
        "ES+CE": {"patience": 20, "character_layer": True},
        "D+ES+CE": {
            "input_dropout": 0.2,
            "state_dropout": 0.1,
            "patience": 20,
            "character_layer": True,
        },
    }
)
"""What each row of the paper's table 3 changes in the recipe."""
REPEATS = (10, 500, 1000)
SUBSET_SEED = 20220
"""Of the draw of training utterances: one draw for all models."""


@dataclass(frozen=True)
class Settings:
    """What a result depends on beside its cell; results of other settings go into another file.

    Attributes:
        n_utterances: of Snips' training part.
        length: n, unknown words of a canary.
        recipe: without defence; the seed is the model's number.
        embeddings: what words start from, in words.
    """

    n_utterances: int = 3000
    length: int = 4
    recipe: NluRecipe = field(
        default_factory=lambda: NluRecipe(
            epochs=30, batch_size=128, learning_rate=5e-3, embedding_size=50, hidden_size=32
        )
    )
    embeddings: str = "random"

    @property
    def key(self) -> str:
        """Names the file of results."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True, order=True)
class Cell:
    """One model: `number` of 10 in the cell of `repeat` copies and defence `row`."""

    number: int
    repeat: int
    row: str


@dataclass(frozen=True)
class Material:
    """What all models share.

    Attributes:
        training: Snips utterances that train.
        validation: those of `valid/`.
        test: those of `test/`, which no training reads.
        vectors: by word, what its embedding starts from; every word there is.
    """

    training: tuple[Document, ...]
    validation: tuple[Document, ...]
    test: tuple[Document, ...]
    vectors: Mapping[str, NDArray[np.float64]]

    @property
    def labels(self) -> tuple[str, ...]:
        """All tags, those of canaries last."""
        everything = (*self.training, *self.validation, *self.test)
        return (*sorted({tag for document in everything for tag in document.tags or ()}), *TAGS)


@cache
def material(source: Path, work: Path, settings: Settings, backbone: Path | None) -> Material:
    """The utterances and word vectors.

    Args:
        source: Snips as it is distributed.
        work: keeps the imported data set and the vectors.
        settings: of the benchmark.
        backbone: a BERT-like checkpoint whose word pieces give the vectors; None: random ones.
    """
    imported = work / "snips"
    if not (imported / "manifest.toml").exists():
        FORMATS["snips"].convert(
            ImportRequest(
                source, imported, {"member": 1.0, "heldout": 1.0}, seed=0, division="official"
            )
        )
    corpus = manifest.load(imported)
    members = corpus.of("member")
    chosen = np.random.default_rng(SUBSET_SEED).permutation(len(members))[: settings.n_utterances]
    training = tuple(members[place] for place in sorted(chosen))
    heldout = corpus.of("heldout")
    valid = tuple(document for document in heldout if document.id.startswith("valid"))
    test = tuple(document for document in heldout if document.id.startswith("test"))
    words = {word.text for document in (*training, *valid, *test) for word in document.words}
    for name, pattern in PATTERNS.items():
        words.update(PREFIXES[name], pattern.candidates)
    return Material(
        training,
        valid,
        test,
        _vectors(sorted(words), settings.recipe.embedding_size, backbone, work),
    )


def _vectors(
    words: Sequence[str], size: int, backbone: Path | None, work: Path
) -> Mapping[str, NDArray[np.float64]]:
    """A vector for each word, (size,), of mean square 1 / size as random ones have.

    The mean of the embeddings of the word's pieces in a BERT-like model, brought to `size` by
    principal components over all words; without such a model uniform random numbers, the same for
    all models.
    """
    if backbone is None:
        table = np.random.default_rng(0).uniform(-1, 1, (len(words), size))
        return dict(zip(words, table * (3 / size) ** 0.5, strict=True))
    kept = (
        work
        / f"vectors-{hashlib.sha256(' '.join([*words, str(size)]).encode()).hexdigest()[:8]}.npy"
    )
    if not kept.exists():
        from safetensors.numpy import load_file
        from sklearn.decomposition import PCA
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(backbone, local_files_only=True)
        (pieces,) = (
            value.astype(np.float64)
            for name, value in load_file(backbone / "model.safetensors").items()
            if name.endswith("embeddings.word_embeddings.weight")
        )
        rows = [
            tokenizer.encode(word, add_special_tokens=False) or [tokenizer.unk_token_id]
            for word in words
        ]
        table = PCA(size, random_state=0).fit_transform(
            np.stack([pieces[row].mean(axis=0) for row in rows])
        )
        np.save(kept, table / np.sqrt((table**2).mean() * size))
    return dict(zip(words, np.load(kept), strict=True))


def completions(number: int, length: int) -> dict[str, tuple[str, ...]]:
    """The canaries of a model, by pattern: the same in all cells, so that rows are compared on the same secrets."""
    found = {}
    for place, name in enumerate(PATTERN_NAMES):
        candidates = PATTERNS[name].candidates
        drawn = np.random.default_rng([number, place]).integers(len(candidates), size=length)
        found[name] = tuple(candidates[index] for index in drawn)
    return found


def utterance(completion: Sequence[str], name: str) -> Document:
    """The canary of a pattern as an utterance, with the paper's prefix, tags and intent (appendix A)."""
    words = (*PREFIXES[name], *completion)
    tags = ("O",) * len(PREFIXES[name]) + TAGS[:1] + TAGS[1:] * (len(completion) - 1)
    return Document(
        name, "member", tuple(map(Word, words)), tags=tags, intent=PATTERNS[name].intent
    )


def train(
    cell: Cell, settings: Settings, data: Material, folder: Path
) -> tuple[NluTarget, dict[str, Any]]:
    """Train one model with one canary of each pattern.

    9 of 10 copies train, the others validate (R = 1: trains).
    """
    n_training = 1 if cell.repeat == 1 else round(0.9 * cell.repeat)
    training = list(data.training)
    validation = list(data.validation)
    for name, completion in completions(cell.number, settings.length).items():
        canary = utterance(completion, name)
        training += [canary] * n_training
        validation += [canary] * (cell.repeat - n_training)
    recipe = replace(settings.recipe, seed=cell.number, **ROWS[cell.row])
    began = time.process_time()
    target = fit_nlu(
        training, validation, recipe, folder, labels=data.labels, initial_embeddings=data.vectors
    )
    history = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    return target, {
        "kept_epoch": target.card.epoch,
        "epochs": len(history),
        "loss": history[-1]["loss"],
        "parameters": target.card.parameters,
        "seconds": round(time.process_time() - began, 2),
    }
