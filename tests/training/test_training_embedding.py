"""Fine-tuning a sentence embedder on classes of texts, and the embedder as a reference."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import embedders
import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.case import References
from audit.corpus.documents import ReferencePaths
from audit.corpus.manifest import load as load_corpus
from audit.engine.interface import SILENT
from audit.errors import TargetError, UsageError
from audit.references.embedder import choose_texts, pairs, tune
from audit.references.resolve import complete, prepare
from audit.targets.embedder import EmbedderTarget, load_embedder
from audit.targets.interface import Embed
from audit.targets.opening import target_of

CLASSES = st.lists(st.integers(0, 4), max_size=60).map(np.array)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> EmbedderTarget:
    return load_embedder(embedders.checkpoint(tmp_path_factory.mktemp("embedder")))


def sentences(n: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Two classes, told apart by which of two words they hold among others."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 2, n)
    others = ["ab", "cd", "1", "22", "x", "yz"]
    texts = [" ".join([*rng.choice(others, 3), ("qqq", "kkk")[own], *rng.choice(others, 3)]) for own in classes]
    return texts, classes


def separation(target: EmbedderTarget, texts: list[str], classes: np.ndarray) -> float:
    """Mean cosine similarity within classes minus that between them."""
    vectors = np.array(target.ask([Embed(text) for text in texts]))
    similarity, same = vectors @ vectors.T, classes[:, None] == classes
    np.fill_diagonal(same, False)
    return float(similarity[same].mean() - similarity[classes[:, None] != classes].mean())


def test_texts_of_one_class_come_closer_together_also_those_it_was_not_tuned_on(embedder: EmbedderTarget) -> None:
    before = {name: tensor.clone() for name, tensor in embedder.model.state_dict().items()}
    texts, classes = sentences(80, 0)
    tuned = tune(embedder, texts, classes, seed=0, learning_rate=1e-3, epochs=5)
    others = sentences(60, 1)
    assert separation(tuned, *others) > separation(embedder, *others) + 0.2
    assert all(torch.equal(tensor, before[name]) for name, tensor in embedder.model.state_dict().items())
    assert not tuned.model.training
    assert tuned.card.sha256 != embedder.card.sha256
    assert tuned.reading == embedder.reading


def test_seed_and_input_decide_the_result(embedder: EmbedderTarget) -> None:
    state = torch.random.get_rng_state()
    hashes = [tune(embedder, *sentences(20, 0), seed=seed).card.sha256 for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert torch.equal(torch.random.get_rng_state(), state)


@given(CLASSES, st.integers(0, 3))
def test_at_most_a_third_of_a_class_is_chosen(classes: np.ndarray, seed: int) -> None:
    rows = choose_texts(classes, np.random.default_rng(seed))
    assert (np.diff(rows) > 0).all()
    for own in set(classes.tolist()):
        assert (classes[rows] == own).sum() == (classes == own).sum() // 3


def test_at_most_250_of_a_class_are_chosen() -> None:
    classes = np.repeat([0, 1], [900, 600])
    rows = choose_texts(classes, np.random.default_rng(0))
    assert Counter(classes[rows].tolist()) == {0: 250, 1: 200}
    assert not np.array_equal(rows, choose_texts(classes, np.random.default_rng(1)))


@given(CLASSES, st.integers(0, 3))
def test_pairs_are_those_of_the_paper(classes: np.ndarray, seed: int) -> None:
    found = pairs(classes, np.random.default_rng(seed))
    first, second = classes[found.first].tolist(), classes[found.second].tolist()
    same = found.similarity == 0.8
    assert set(found.similarity[~same].tolist()) <= {0.2}
    assert [a == b for a, b in zip(first, second, strict=True)] == same.tolist()
    sizes = Counter(classes.tolist())
    assert Counter(np.array(first)[same].tolist()) == {own: size // 2 for own, size in sizes.items() if size > 1}
    if len(sizes) > 1:
        assert Counter(np.array(first)[~same].tolist()) == {own: size // 2 for own, size in sizes.items() if size > 1}
    else:
        assert same.all()
    within = [*found.first[same], *found.second[same]]
    assert len(set(within)) == len(within)


@pytest.mark.parametrize(
    ("classes", "settings", "message"),
    [
        ([0, 1], {}, "one class for each text"),
        ([0, 1, 2], {}, "no class has two texts"),
        ([0, 0, 1], {"epochs": 0}, "above zero"),
        ([0, 0, 1], {"batch_size": 0}, "above zero"),
        ([0, 0, 1], {"learning_rate": 0.0}, "above zero"),
    ],
)
def test_bad_input_is_refused(embedder: EmbedderTarget, classes: Any, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(embedder, ["a", "b", "c"], np.array(classes), seed=0, **settings)


def test_classes_of_two_texts_are_enough(embedder: EmbedderTarget) -> None:
    assert tune(embedder, ["a", "b", "c", "d"], np.array([3, 3, 8, 8]), seed=0).card.name.endswith("fine-tuned")


def test_only_embedders_are_tuned(checkpoints: Any) -> None:
    target: Any = target_of(checkpoints("bert", "mlm"), load_corpus_of_no_use())
    with pytest.raises(TargetError, match="cannot be fine-tuned"):
        tune(target, ["a", "b"], np.array([0, 0]), seed=0)


def load_corpus_of_no_use() -> Any:
    from pathlib import Path

    from audit.corpus.documents import Corpus, Manifest, Membership, Task

    return Corpus(Path(), Manifest(1, "none", Task("mlm"), Membership("random")), (), "")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return embedders.checkpoint(tmp_path / "embedder")


def filled(checkpoints: Any, data: Path, needs: set[str], **given: list[Path]) -> Any:
    corpus = load_corpus(data)
    folder = checkpoints("bert", "token-classification")
    target = target_of(folder, corpus)
    prepared = prepare(needs, target, folder, corpus, given)
    return complete(prepared, needs, target, data / "cache", 0, SILENT)


def test_an_attack_that_asks_for_an_embedder_gets_the_one_that_was_given(
    checkpoints: Any, tiny_corpus: Path, place: Path
) -> None:
    found = filled(checkpoints, tiny_corpus, {"embedder"}, embedder=[place])
    target = found.references.embedder
    assert target.answers == {Embed}
    (card,) = found.cards
    assert (card.role, card.source, card.card) == ("embedder", "command line", target.card)
    assert found.completed(References()).embedder is target
    assert found.missing == {}
    unused = filled(checkpoints, tiny_corpus, set(), embedder=[place])
    assert (unused.references.embedder, unused.cards, unused.missing) == (None, (), {})


def test_the_manifest_may_name_it(checkpoints: Any, tmp_path: Path) -> None:
    data = tiny.corpus(tmp_path / "data", references=ReferencePaths(embedder="references/embedder"))
    embedders.checkpoint(data / "references/embedder")
    (card,) = filled(checkpoints, data, {"embedder"}).cards
    assert (card.role, card.source) == ("embedder", "manifest")


def test_without_one_the_owner_is_told_what_to_give(checkpoints: Any, tiny_corpus: Path) -> None:
    found = filled(checkpoints, tiny_corpus, {"embedder", "baselines"})
    assert set(found.missing) == {"embedder", "baselines"}
    assert "--reference embedder=PATH" in found.missing["embedder"]
    assert found.references.embedder is None


def test_the_target_or_two_embedders_are_refused(checkpoints: Any, tiny_corpus: Path, place: Path) -> None:
    with pytest.raises(TargetError, match="the target's own weights"):
        filled(checkpoints, tiny_corpus, {"embedder"}, embedder=[checkpoints("bert", "token-classification")])
    with pytest.raises(UsageError, match="2 folders"):
        filled(checkpoints, tiny_corpus, {"embedder"}, embedder=[place, place])
