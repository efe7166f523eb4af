"""The neural classifiers of the redaction paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from audit.references.embedder import LEARNING_RATES, NetworkKind, _cnn, fit_network, flattened_size

KINDS: tuple[NetworkKind, ...] = ("mlp", "cnn")
N_DIMENSIONS = 96
QUICK: dict[str, Any] = {"epochs": 25, "learning_rate": 1e-3, "batch_size": 20}


def clouds(counts: tuple[int, ...], seed: int = 0, spread: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """So many samples of each class around a centre of its own; centres are the same for every seed."""
    centres = np.random.default_rng(99).normal(size=(len(counts), N_DIMENSIONS))
    classes = np.repeat(np.arange(len(counts)), counts)
    return centres[classes] + spread * np.random.default_rng(seed).normal(size=(len(classes), N_DIMENSIONS)), classes


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_classes_that_lie_apart(kind: NetworkKind) -> None:
    network = fit_network(kind, *clouds((40, 40, 40)), n_classes=3, seed=0, **QUICK)
    features, classes = clouds((30, 30, 30), seed=1)
    predicted = network.predict(features)
    assert predicted.dtype == np.int64
    assert (predicted == classes).mean() > 0.95
    shuffled = np.random.default_rng(2).permutation(len(classes))
    np.testing.assert_array_equal(network.predict(features[shuffled]), predicted[shuffled])


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_nothing_where_there_is_nothing_to_learn(kind: NetworkKind) -> None:
    rng = np.random.default_rng(3)
    features, classes = clouds((60, 60))
    network = fit_network(kind, features, rng.permutation(classes), n_classes=2, seed=0, **QUICK)
    features, classes = clouds((200, 200), seed=4)
    unrelated = rng.permutation(classes)
    assert abs((network.predict(features) == unrelated).mean() - 0.5) < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_input_decide_the_result_and_the_random_state_is_given_back(kind: NetworkKind) -> None:
    features, classes = clouds((20, 20), spread=3.0)
    before = torch.random.get_rng_state()
    one, same, other = (
        fit_network(kind, features, classes, n_classes=2, seed=seed, epochs=2)._layers for seed in (1, 1, 2)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    weights, equal, different = (torch.cat([p.flatten() for p in net.parameters()]) for net in (one, same, other))
    assert torch.equal(weights, equal)
    assert not torch.equal(weights, different)


@pytest.mark.parametrize(("n_dimensions", "expected"), [(768, 1376), (384, 608), (81, 16), (80, 0), (1, 0)])
def test_the_convolutions_leave_as_many_numbers_as_the_paper_says(n_dimensions: int, expected: int) -> None:
    assert flattened_size(n_dimensions) == expected
    if not expected:
        with pytest.raises(ValueError, match="too short"):
            fit_network("cnn", np.zeros((4, n_dimensions)), np.arange(4), n_classes=4, seed=0)
        return
    layers = _cnn(n_dimensions, 8)
    dense = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    assert [layer.in_features for layer in dense] == [expected, expected, expected // 2, expected // 4, expected // 8]
    assert layers(torch.zeros(2, n_dimensions)).shape == (2, 8)


def test_the_perceptron_has_the_papers_layers_and_rates() -> None:
    network = fit_network("mlp", np.eye(8, 768), np.arange(8), n_classes=8, seed=0, epochs=1)
    dense = [layer for layer in network._layers if isinstance(layer, torch.nn.Linear)]
    assert [layer.in_features for layer in dense] == [768, 512, 256, 128, 64]
    assert LEARNING_RATES == {"mlp": 5e-5, "cnn": 1e-4}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_let_a_class_of_two_samples_count_as_much_as_the_others(kind: NetworkKind) -> None:
    # At one place there are two samples of class 0 and six of class 1, which has 114 more elsewhere.
    place, elsewhere = np.random.default_rng(6).normal(size=(2, 1, N_DIMENSIONS))
    features = np.concatenate([place.repeat(8, axis=0), elsewhere.repeat(114, axis=0)])
    classes = np.array([0, 0] + [1] * 120)
    longer = {**QUICK, "epochs": 80}
    for weighted, best in ((True, 0), (False, 1)):
        network = fit_network(kind, features, classes, n_classes=2, seed=0, weighted=weighted, **longer)
        assert network.predict(place).tolist() == [best]
        assert network.predict(elsewhere).tolist() == [1]


def test_one_sample_one_class_and_classes_without_samples_are_taken() -> None:
    network = fit_network("mlp", np.ones((1, 5)), np.array([2]), n_classes=4, seed=0, epochs=60, learning_rate=1e-3)
    assert network.predict(np.ones((3, 5))).tolist() == [2, 2, 2]
    assert network.predict(np.ones((0, 5))).tolist() == []


@pytest.mark.parametrize(
    ("features", "classes", "settings", "message"),
    [
        (np.ones((3, 5)), [0, 1], {}, "one class for each sample"),
        (np.ones((0, 5)), [], {}, "at least one sample"),
        (np.ones(5), [0] * 5, {}, "must be a table"),
        (np.ones((2, 0)), [0, 1], {}, "must be a table"),
        (np.array([[0.0], [np.nan]]), [0, 1], {}, "finite"),
        (np.ones((2, 5)), [0, 2], {}, r"\[0, 2\)"),
        (np.ones((2, 5)), [-1, 1], {}, r"\[0, 2\)"),
        (np.ones((2, 5)), [0, 1], {"epochs": 0}, "above zero"),
        (np.ones((2, 5)), [0, 1], {"batch_size": 0}, "above zero"),
        (np.ones((2, 5)), [0, 1], {"learning_rate": 0.0}, "above zero"),
    ],
)
def test_bad_input_is_refused(features: Any, classes: Any, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_network("mlp", features, np.array(classes), n_classes=2, seed=0, **settings)


def test_features_of_another_width_are_refused() -> None:
    network = fit_network("mlp", np.eye(5), np.zeros(5), n_classes=2, seed=0, epochs=1)
    with pytest.raises(ValueError, match="fitted on 5"):
        network.predict(np.ones((1, 6)))
