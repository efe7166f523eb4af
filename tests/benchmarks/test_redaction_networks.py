"""`redaction_tab`: networks trained for a number of steps, and what is called reached."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.papers import redaction_tab_learners as learners
from benchmarks.papers import redaction_tab_steps
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
    ("low", "high", "steps", "words"),
    [
        (0.9, 0.99, PAPER_STEPS, "reached"),
        (0.8, 0.9, PAPER_STEPS, "not reached"),
        (0.96, 0.99, PAPER_STEPS, "surpassed"),
        (0.8, 0.9, PAPER_STEPS - 1, "undecided: stopped early"),
    ],
)
def test_verdict(low, high, steps, words):
    assert verdict(0.945, low, high, steps) == words


def test_a_network_by_document_is_not_asked_about_training_samples(tmp_path, monkeypatch):
    line = {
        "embedding": "minilm-tuned",
        "protocol": "balanced",
        "classifier": "mlp",
        "steps": PAPER_STEPS,
        "n_training": 2000,
        "seconds": 60.0,
    }
    (tmp_path / "cells.jsonl").write_text(json.dumps(line) + "\n")
    asked = []

    class Recorder:
        def __init__(self, settings):
            assert settings.steps == PAPER_STEPS

        def row(self, protocol, embedding, mask, network, tested):
            asked.append((protocol, tested))

    monkeypatch.setattr(redaction_tab_steps, "Numbers", Recorder)
    settings = Settings(tmp_path, tmp_path, tmp_path, steps=PAPER_STEPS)
    assert list(redaction_tab_steps.rows_of(settings)) == []
    assert asked == [("balanced", "clean")]


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_an_unfinished_fit_goes_on_where_it_ended(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(learners, "_PASSES_OF_A_STATE", 2)
    rows = RNG.normal(size=(60, 96))
    labels = RNG.integers(2, size=60)

    def weights(steps, state):
        network = fit_network(
            kind, rows, labels, n_classes=2, seed=0, steps=steps, batch_size=20, state=state
        )
        return [part.detach().numpy() for part in network._layers.parameters()]

    whole = weights(14, None)
    state = tmp_path / "states" / "network.pt"
    weights(8, state)
    assert torch.load(state)["step"] == 6
    resumed = weights(14, state)
    assert not differ(whole, resumed)


def test_a_state_of_more_steps_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(learners, "_PASSES_OF_A_STATE", 1)
    state = tmp_path / "network.pt"
    logits(steps=10, state=state)
    assert not differ(logits(steps=2, state=state), logits(steps=2))


def test_the_convolutional_network_is_the_papers():
    """The same numbers as one-dimensional convolutions with ReLU before pooling."""
    layers = learners._cnn(384, 8)
    first, second = (part for part in layers if isinstance(part, torch.nn.Conv2d))
    dense = layers[7:]
    rows = torch.randn(5, 384)
    hidden = rows[:, None]
    for part, stride in ((first, 1), (second, 2)):
        weights = part.weight.squeeze(2)
        hidden = torch.relu(torch.nn.functional.conv1d(hidden, weights, part.bias, stride))
        hidden = torch.nn.functional.max_pool1d(hidden, 8, 2)
    torch.testing.assert_close(layers(rows), dense(hidden))
