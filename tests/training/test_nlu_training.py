"""Training of NLU models."""

import json
from dataclasses import replace
from pathlib import Path

import nlu_models
import numpy as np
import pytest

from audit.attacks.interface import why
from audit.attacks.membership import MembershipInference
from audit.case import Case
from audit.corpus.documents import Document
from audit.engine.driver import drive
from audit.errors import TargetError
from audit.extensions.papers.utterance_target import NluTarget, load_nlu
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu
from audit.targets.checkpoint.content import training_progress
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.interface import BestIntent, TrainingLoss
from audit.workflows.execution import AttackWork

SMALL = NluRecipe(epochs=25, batch_size=4, learning_rate=1e-2, embedding_size=12, hidden_size=8)


def loss_of(target: NluTarget, documents: list[Document]) -> float:
    pages = [target.encode(document) for document in documents]
    asked = target.ask([TrainingLoss(page, 0, page.ids[:1]) for page in pages if page is not None])
    return float(np.mean(asked))


def history_of(folder: Path) -> list[dict[str, float]]:
    return json.loads((folder / "trainer_state.json").read_text())["log_history"]


@pytest.mark.parametrize(
    "recipe", [SMALL, replace(SMALL, character_layer=True, input_dropout=0.2, state_dropout=0.1)]
)
def test_a_small_corpus_is_learnt(tmp_path: Path, recipe: NluRecipe) -> None:
    documents = nlu_models.documents()
    target = fit_nlu(documents, (), recipe, tmp_path, labels=nlu_models.TAGS)
    assert target.labels == nlu_models.TAGS
    history = history_of(tmp_path)
    assert history[-1]["loss"] < 0.2 * history[0]["loss"]
    assert loss_of(target, documents) < 0.3
    pages = [page for page in map(target.encode, documents) if page is not None]
    assert target.ask([BestIntent(page) for page in pages]) == [page.intent for page in pages]
    assert (target.card.epoch, target.card.step) == (25.0, history[-1]["step"])
    assert (target.model.characters is not None) == recipe.character_layer
    assert not target.model.training


def test_the_same_arguments_give_the_same_weights(tmp_path: Path) -> None:
    recipe = replace(SMALL, epochs=2, input_dropout=0.2, character_layer=True)
    seeds = (0, 0, 1)
    for place, seed in enumerate(seeds):
        fit_nlu(nlu_models.documents(), (), replace(recipe, seed=seed), tmp_path / str(place))
    first, again, other = (open_checkpoint(tmp_path / str(place)).sha256 for place in range(3))
    assert first == again != other


def test_early_stopping_keeps_the_weights_of_the_lowest_validation_loss(tmp_path: Path) -> None:
    documents = nlu_models.documents()
    # What validates contradicts what trains: the longer training goes on, the worse it gets.
    wrong = [
        replace(document, intent="Rate") for document in documents if document.intent != "Rate"
    ]
    stopping = replace(SMALL, epochs=40, patience=3)
    target = fit_nlu(documents, wrong, stopping, tmp_path)
    history = history_of(tmp_path)
    losses = [epoch["eval_loss"] for epoch in history]
    best = int(np.argmin(losses))
    assert len(history) == best + 1 + 3 < 40
    assert (training_progress(tmp_path).epoch, training_progress(tmp_path).step) == (
        best + 1,
        history[best]["step"],
    )
    assert loss_of(target, wrong) == pytest.approx(losses[best], rel=1e-4)
    whole = fit_nlu(documents, wrong, replace(stopping, patience=None), tmp_path / "whole")
    assert loss_of(whole, wrong) > loss_of(target, wrong)
    assert loss_of(whole, documents) < loss_of(target, documents)


def test_given_vectors_join_the_vocabulary_and_may_stay_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = {word: rng.normal(size=12) for word in ("play", "never", "seen")}
    still = replace(SMALL, epochs=1, train_embeddings=False)
    target = fit_nlu(
        nlu_models.documents(), (), still, tmp_path / "still", initial_embeddings=given
    )
    assert {"never", "seen", "anna"} <= {*target.vocabulary.words}
    table = target.model.words.weight.detach().numpy()
    for word, vector in given.items():
        np.testing.assert_allclose(table[target.vocabulary.ids_of([word])[0]], vector, rtol=1e-6)
    moved = fit_nlu(nlu_models.documents(), (), SMALL, tmp_path / "moved", initial_embeddings=given)
    (place,) = moved.vocabulary.ids_of(["play"])
    assert np.abs(moved.model.words.weight.detach().numpy()[place] - given["play"]).max() > 1e-3
    with pytest.raises(ValueError, match="vectors of 3 numbers"):
        fit_nlu(
            nlu_models.documents(),
            (),
            SMALL,
            tmp_path / "wrong",
            initial_embeddings={"play": np.ones(3)},
        )


def test_utterances_that_cannot_train_are_refused(tmp_path: Path) -> None:
    documents = nlu_models.documents()
    with pytest.raises(TargetError, match="no utterance to train on"):
        fit_nlu((), documents, SMALL, tmp_path)
    with pytest.raises(TargetError, match="early stopping needs"):
        fit_nlu(documents, (), replace(SMALL, patience=2), tmp_path)
    with pytest.raises(TargetError, match="p0 lacks words"):
        fit_nlu([replace(documents[0], intent=None), *documents[1:]], (), SMALL, tmp_path)
    with pytest.raises(TargetError, match="p0 has a tag"):
        fit_nlu(documents, (), SMALL, tmp_path, labels=("O", "B-number", "I-number"))


def test_membership_of_utterances_is_measured(tmp_path: Path) -> None:
    """Random labels can only be remembered: members' losses are the lowest, and the attack on documents sees it."""
    rng = np.random.default_rng(5)
    drawn = [
        nlu_models.utterance(
            f"u{place}",
            " ".join(rng.choice(nlu_models.WORDS, 4)),
            rng.choice(["O", "B-artist", "B-number"], 4).tolist(),
            str(rng.choice(nlu_models.INTENTS)),
            "member" if place % 2 else "heldout",
        )
        for place in range(40)
    ]
    members = [document for document in drawn if document.split == "member"]
    fit_nlu(
        members, (), replace(SMALL, epochs=60, hidden_size=16), tmp_path, labels=nlu_models.TAGS
    )
    case = Case(load_nlu(tmp_path), nlu_models.corpus(drawn))
    attack = MembershipInference()
    assert why(attack, case, "model") is None
    trials = attack.trials(case)
    assert len(trials) == 40
    outcomes = dict(drive(AttackWork(attack, case, 0), trials, 16))
    losses = {
        split: [outcomes[t.id]["target"]["loss"] for t in trials if t.stratum == split]
        for split in ("member", "heldout")
    }
    assert np.median(losses["member"]) < 0.2 * np.median(losses["heldout"])
