"""`redaction_tab`: networks trained for a number of steps, and what is called reached."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.redaction_tab_cells import Group, Settings, prediction_of
from benchmarks.papers.redaction_tab_learners import fit_network, steps_of
from benchmarks.papers.redaction_tab_steps import PAPER_STEPS, verdict

N_SAMPLES = 250
N_BATCHES = 3
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(N_SAMPLES, 12))
CLASSES = RNG.integers(2, size=N_SAMPLES)


def logits(**settings):
    network = fit_network("mlp", FEATURES, CLASSES, n_classes=2, seed=0, **settings)
    return [weights.detach().clone() for weights in network._layers.parameters()]


def differ(one, other):
    return any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_steps_of_whole_passes_are_epochs():
    assert steps_of(N_SAMPLES, epochs=2) == 2 * N_BATCHES
    assert not differ(logits(steps=2 * N_BATCHES), logits(epochs=2))


def test_a_last_pass_may_end_early():
    partly = logits(steps=N_BATCHES + 1)
    assert differ(partly, logits(epochs=1))
    assert differ(partly, logits(epochs=2))


def test_no_step_is_refused():
    with pytest.raises(ValueError, match="steps"):
        logits(steps=0)


def test_more_steps_learn_what_is_fitted():
    rows = RNG.normal(size=(40, 12))
    labels = RNG.integers(2, size=40)

    def right(steps):
        network = fit_network("mlp", rows, labels, n_classes=2, seed=0, steps=steps)
        return (network.predict(rows) == labels).mean()

    assert right(1500) == 1.0 > right(1)


def test_networks_of_other_steps_are_kept_apart():
    group = Group("flawed", "minilm", "length", "clean", ("clean",), 0)
    by_epochs = Settings(Path("data"), Path("embedder"), Path("work"))
    by_steps = Settings(Path("data"), Path("embedder"), Path("work"), steps=500)
    assert prediction_of(by_epochs, group, "cnn") != prediction_of(by_steps, group, "cnn")
    assert prediction_of(by_epochs, group, "linear-svm") == prediction_of(
        by_steps, group, "linear-svm"
    )


def test_the_papers_steps():
    assert PAPER_STEPS == 200 * 238


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.9, 0.99, "reached"), (0.8, 0.9, "not reached"), (0.96, 0.99, "surpassed")],
)
def test_verdict(low, high, words):
    assert verdict(0.945, low, high) == words
