"""The cells of `redaction_tab.py`: contexts as numbers, a classifier fitted, and what it says of the test values.

Cells of one group have their features in common, which are made once for all classifiers and kept
on disk where making them is slow. Every cell that is done leaves its predictions in a file, so that
nothing is done twice.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from audit.arrays import Ints
from audit.attacks.redaction.contexts import tfidf
from audit.corpus.documents import CATEGORIES, Mask
from audit.corpus.redaction import RedactedSpan
from benchmarks.papers.redaction_tab_classifiers import (
    TAKES_SPARSE,
    Classifier,
    by_length,
    dense,
    fit,
)
from benchmarks.papers.redaction_tab_embedder import EmbedderTarget, load_embedder
from benchmarks.papers.redaction_tab_evasion import Text
from benchmarks.papers.redaction_tab_learners import (
    NetworkKind,
    fit_network,
    steps_of,
    tune,
)
from benchmarks.papers.redaction_tab_samples import (
    OVERSAMPLED,
    TEST_SHARE,
    Protocol,
    Split,
    Values,
    oversampled,
    split,
    values_of,
)

Embedding = Literal["tfidf", "minilm", "minilm-tuned"]
NETWORKS: tuple[NetworkKind, ...] = ("mlp", "cnn")
SEED = 0


@dataclass(frozen=True)
class Settings:
    """Where things are, and how much of them is used.

    Attributes:
        data: TAB, imported.
        embedder: the folder of MiniLM.
        work: where features and predictions are kept.
        n_documents: of TAB; None: all.
        epochs: of the two networks.
        steps: batches of the two networks, in place of `epochs`.
    """

    data: Path
    embedder: Path
    work: Path
    n_documents: int | None = None
    epochs: int = 200
    steps: int | None = None


@dataclass(frozen=True)
class Group:
    """Cells that differ in the classifier alone.

    Attributes:
        protocol: see `redaction_tab_samples.split`.
        embedding: what makes numbers of contexts.
        mask: how values are hidden.
        trained: how the training text reads.
        tested: how the test text reads, one set of predictions each.
        fold: which one, or which draw.
    """

    protocol: Protocol
    embedding: Embedding
    mask: Mask
    trained: Text
    tested: tuple[Text, ...]
    fold: int

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.protocol}.{self.embedding}.{self.mask}.{self.trained}.{self.fold}"


@dataclass(frozen=True)
class Features:
    """What classifiers of a group are fitted on and tried on.

    Attributes:
        training: (n_training, n_dimensions), dense or sparse.
        classes: (n_training,).
        origins: (n_training,) the value that each sample is, or was made from.
        testing: by text (n_testing, n_dimensions).
        tested: (n_testing,) the value that each test sample is, or was made from.
    """

    training: Any
    classes: Ints
    origins: Ints
    testing: dict[Text, Any]
    tested: Ints


def prediction_of(settings: Settings, group: Group, classifier: str) -> Path:
    """Where the predictions of a cell are kept."""
    name = f"{group.name}.{classifier}"
    if classifier in NETWORKS and settings.steps is not None:
        name += f".{settings.steps}-steps"
    return settings.work / "predictions" / f"{name}.npz"


def run_group(settings: Settings, group: Group, classifiers: Sequence[str]) -> None:
    """Do the cells of a group that are not done yet; each adds a line to `work`/cells.jsonl.

    A line has the cell, its sizes, the accuracies of the fold and processor seconds, those of the
    features once.
    """
    missing = [name for name in classifiers if not prediction_of(settings, group, name).exists()]
    if not missing:
        return
    values = values_of(settings.data, group.mask, settings.n_documents)
    divided = split(values, group.protocol, group.fold, tuned=group.embedding == "minilm-tuned")
    began = time.process_time()
    made = _made(settings, group, values, divided)
    table: Features | None = None
    seconds = time.process_time() - began
    for name in missing:
        if name in TAKES_SPARSE or group.embedding != "tfidf":
            features = made
        else:
            features = table = table or _projected(made)
        line = _cell(settings, group, name, values, features) | {
            "feature_seconds": round(seconds, 1)
        }
        seconds = 0.0
        with (settings.work / "cells.jsonl").open("a") as lines:
            lines.write(
                json.dumps(line) + "\n"
            )  # one short write: lines of several processes do not mix


def _cell(
    settings: Settings, group: Group, name: str, values: Values, features: Features
) -> dict[str, Any]:
    state = settings.work / "states" / f"{group.name}.{name}.pt"
    began = time.process_time()
    classifier = _fitted(name, features, settings, state)
    said = {text: np.asarray(classifier.predict(rows)) for text, rows in features.testing.items()}
    content = {f"told_{text}": told.astype(np.int8) for text, told in said.items()}
    content["tested"] = features.tested.astype(np.int32)
    content |= _blind(values, features)
    if group.protocol == "flawed":
        content["training"] = features.origins.astype(np.int32)
        content["told_training"] = np.asarray(classifier.predict(features.training)).astype(np.int8)
    seconds = time.process_time() - began
    _save(prediction_of(settings, group, name), content)
    right = {
        text: round(float((told == values.classes[features.tested]).mean()), 4)
        for text, told in said.items()
    }
    return {
        **asdict(group),
        "classifier": name,
        "n_training": len(features.classes),
        "n_testing": len(features.tested),
        "steps": _steps(name, len(features.classes), settings),
        "accuracy": right,
        "seconds": round(seconds, 1),
    }


def _steps(name: str, n_samples: int, settings: Settings) -> int | None:
    """Count the batches that a network was fitted with; None of other classifiers."""
    if name not in NETWORKS:
        return None
    return settings.steps or steps_of(n_samples, settings.epochs)


def _fitted(name: str, features: Features, settings: Settings, state: Path) -> Classifier:
    """Fit a classifier; `state` is where an unfinished network is kept."""
    if name in NETWORKS:
        return fit_network(
            name,
            features.training,
            features.classes,
            n_classes=len(CATEGORIES),
            seed=SEED,
            epochs=settings.epochs,
            steps=settings.steps,
            state=state,
        )
    return fit(name, features.training, features.classes, SEED)


def _blind(values: Values, features: Features) -> dict[str, npt.NDArray[np.int8]]:
    """What those say who see only lengths, and who know only how common each class is."""
    classes = values.classes[features.origins]
    length = by_length(values.lengths[features.origins], classes).predict(
        values.lengths[features.tested]
    )
    prior = np.full(len(features.tested), int(np.bincount(classes).argmax()))
    return {"told_length": np.asarray(length).astype(np.int8), "told_prior": prior.astype(np.int8)}


def _projected(features: Features) -> Features:
    """TF-IDF as a table, fitted on the training share, for classifiers that need one."""
    from scipy import sparse

    first, second = dense(
        features.training, sparse.vstack([*features.testing.values()], format="csr"), SEED
    )
    parts = np.split(second, len(features.testing))  # every text has the same test values
    testing = dict(zip(features.testing, parts, strict=True))
    return Features(first, features.classes, features.origins, testing, features.tested)


def _made(settings: Settings, group: Group, values: Values, divided: Split) -> Features:
    """The features of a group; oversampled as its protocol says."""
    rng = np.random.default_rng([SEED, group.fold])
    classes = values.classes
    training = divided.training
    testing = divided.testing
    if group.protocol == "flawed":
        # Everything before the split, as in the public notebooks: features, then oversampling, then
        # who tests.
        both = np.sort(np.concatenate([training, testing]))
        first, _ = _embedded(settings, group, values, divided.tuning, both, {"clean": both[:1]})
        rows, labels, origins = oversampled(first, classes[both], _size(divided, classes), rng)
        order = rng.permutation(len(labels))
        held, learnt = np.split(order, [round(TEST_SHARE * len(order))])
        return Features(
            rows[learnt],
            labels[learnt],
            both[origins[learnt]],
            {"clean": rows[held]},
            both[origins[held]],
        )
    first, others = _embedded(
        settings, group, values, divided.tuning, training, dict.fromkeys(group.tested, testing)
    )
    labels = classes[training]
    origins = np.arange(len(training))
    if group.protocol != "document":
        first, labels, origins = oversampled(first, labels, _size(divided, classes), rng)
    return Features(first, labels, training[origins], others, testing)


def _size(divided: Split, classes: Ints) -> int:
    """Samples of a class after oversampling: as in the paper the same with a tuned embedder as without."""
    parts = np.concatenate([divided.tuning, divided.training, divided.testing])
    return round(OVERSAMPLED * int(np.unique(classes[parts], return_counts=True)[1].min()))


def _embedded(
    settings: Settings,
    group: Group,
    values: Values,
    tuning: Ints,
    training: Ints,
    testing: dict[Text, Ints],
) -> tuple[Any, dict[Text, Any]]:
    """Features of the training values, and by text of the test values."""
    learnt = _of(values, group.trained, training)
    held = [span for text, rows in testing.items() for span in _of(values, text, rows)]
    first, second = _numbers(settings, group, values, tuning, learnt, held)
    ends = np.cumsum([len(rows) for rows in testing.values()])[:-1]
    parts = (second[rows] for rows in np.split(np.arange(second.shape[0]), ends))
    return first, dict(zip(testing, parts, strict=True))


def _numbers(
    settings: Settings,
    group: Group,
    values: Values,
    tuning: Ints,
    learnt: Sequence[RedactedSpan],
    held: Sequence[RedactedSpan],
) -> tuple[Any, Any]:
    """Features of what is learnt from and of what is told."""
    if group.embedding == "tfidf":
        return tfidf(learnt, held)
    first, second = ([span.text for span in part] for part in (learnt, held))
    if group.embedding == "minilm":
        return frozen(settings, group.mask, first), frozen(settings, group.mask, second)
    texts = [span.text for span in _of(values, group.trained, tuning)]
    distinct = sorted({*first, *second})
    classes = values.classes[tuning]

    def make() -> npt.NDArray[np.float32]:
        return _vectors(tune(_minilm(settings.embedder), texts, classes, seed=group.fold), distinct)

    vectors = _kept(
        settings, ["tuned", str(group.fold), *map(str, classes), *texts, "", *distinct], make
    )
    return _rows(distinct, vectors, first), _rows(distinct, vectors, second)


def _of(values: Values, text: Text, rows: Ints) -> list[RedactedSpan]:
    return [values.spans[text][row] for row in rows]


def frozen(settings: Settings, mask: Mask, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Embeddings of contexts under this mask by MiniLM as it is.

    Those of all values are kept on disk.

    Folded contexts are mostly the clean ones: these two are kept together. Evaded ones are kept
    apart.
    """
    values = values_of(settings.data, mask, settings.n_documents)
    found: dict[str, npt.NDArray[np.float32]] = {}
    for readings in (("clean", "folded"), ("evaded",)):
        distinct = sorted({span.text for name in readings for span in values.spans[name]})
        if not {*texts} & {*distinct} - found.keys():
            continue
        vectors = _kept(
            settings, ["minilm", *distinct], partial(_vectors, _minilm(settings.embedder), distinct)
        )
        found.update(zip(distinct, vectors, strict=True))
    return np.array([found[text] for text in texts])


def _rows(
    distinct: Sequence[str], vectors: npt.NDArray[np.float32], texts: Sequence[str]
) -> npt.NDArray[np.float32]:
    places = {text: place for place, text in enumerate(distinct)}
    return vectors[[places[text] for text in texts]]


@cache
def _minilm(folder: Path) -> EmbedderTarget:
    return load_embedder(folder)


def _vectors(embedder: EmbedderTarget, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    return np.array(embedder.embed(texts), np.float32)


def _kept(
    settings: Settings, key: Sequence[str], make: Callable[[], npt.NDArray[np.float32]]
) -> npt.NDArray[np.float32]:
    """What `make` gives, from disk when it was made before from the same."""
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
    path = settings.work / "embeddings" / f"{key[0]}-{digest}.npz"
    if not path.exists():
        _save(path, {"vectors": make()})
    with np.load(path) as content:
        vectors: npt.NDArray[np.float32] = content["vectors"]
    return vectors


def _save(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all: a killed run leaves nothing that looks done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.tmp.npz")
    np.savez_compressed(draft, **content)
    draft.replace(path)
