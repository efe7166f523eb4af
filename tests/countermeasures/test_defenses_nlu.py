"""Dropout, early stopping and a character layer: what is trained, on what, and for which models."""

import json
from dataclasses import replace

import nlu_models
import pytest

from audit.corpus.documents import Manifest, Membership, Task, TrainingRecipe
from audit.corpus.manifest import load, write
from audit.engine.interface import SILENT
from audit.errors import ManifestError, TargetError
from audit.extensions.countermeasures.utterances import (
    CharacterEmbeddings,
    Dropout,
    EarlyStopping,
    NluTraining,
    Regularisation,
    held_aside,
)
from audit.extensions.papers.utterance_target import load_nlu
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu
from audit.references.baselines import train_baseline
from audit.targets.checkpoint.content import TRAINER_STATE

RECIPE = TrainingRecipe(epochs=3, batch_size=4, learning_rate=1e-2)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    public = [nlu_models.play(f"pub{number}", name, "public") for number, name in enumerate(("ann lee", "bo", "cy"))]
    public += [nlu_models.rate(f"stars{number}", str(number), "public") for number in (10, 12, 15)]
    folder = tmp_path_factory.mktemp("data")
    own = Manifest(1, "utterances", Task("intent-slots", nlu_models.TAGS), Membership("random"), recipe=RECIPE)
    write(folder, own, [*nlu_models.documents(), *public, nlu_models.play("held", "dee", "heldout")])
    return load(folder)


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    recipe = NluRecipe(epochs=3, batch_size=4, learning_rate=1e-2, embedding_size=12, hidden_size=8)
    folder = tmp_path_factory.mktemp("model")
    fit_nlu(data.of("member"), (), recipe, folder, labels=nlu_models.TAGS)
    return folder


def trained(defense: NluTraining, data, model, out):
    return defense.train(data, model, out, device="cpu", progress=SILENT)


@pytest.mark.parametrize(
    ("defense", "dropout", "characters"),
    [
        (Dropout(), (0.2, 0.1), False),
        (EarlyStopping(), (0.0, 0.0), False),
        (CharacterEmbeddings(), (0.0, 0.0), True),
        (Regularisation(), (0.2, 0.1), True),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_model_is_of_the_audited_ones_sizes_and_has_the_papers_settings(
    defense, dropout, characters, data, model, tmp_path
):
    made = trained(defense, data, model, tmp_path)
    before, after = load_nlu(model), load_nlu(made.model)
    config = after.model.config
    assert (config.input_dropout, config.state_dropout) == dropout
    assert (config.n_characters > 0) == characters
    assert (config.embedding_size, config.hidden_size) == (12, 8)
    assert (after.labels, after.intents) == (before.labels, before.intents)
    assert trained(defense, data, model, tmp_path) == made
    # Its baselines are made in the same way.
    (baseline,) = train_baseline(made.start, load(made.data), tmp_path / "baselines")
    assert load_nlu(baseline).model.config.input_dropout == dropout[0]
    assert (load_nlu(baseline).model.config.n_characters > 0) == characters


def test_early_stopping_looks_at_public_utterances_that_no_baseline_learns_from(data, model, tmp_path):
    made = trained(EarlyStopping(), data, model, tmp_path)
    state = json.loads((made.model / TRAINER_STATE).read_text())
    assert all("eval_loss" in epoch for epoch in state["log_history"])
    left = load(made.data)
    aside = {document.id for document in data.documents} - {document.id for document in left.documents}
    assert aside == {document.id for document in held_aside(data, nlu_models.TAGS, nlu_models.INTENTS, 0)}
    assert {data.document(name).split for name in aside} == {"public"}
    assert left.of("member", "heldout") == data.of("member", "heldout")


def test_early_stopping_asks_for_public_utterances_that_the_model_can_name(data, model, tmp_path):
    strange = tuple(replace(one, intent="Unheard") if one.split == "public" else one for one in data.documents)
    with pytest.raises(ManifestError, match="early stopping needs public utterances"):
        trained(EarlyStopping(), replace(data, documents=strange), model, tmp_path)


def test_a_model_that_has_it_already_is_refused(data, model, tmp_path):
    made = trained(Dropout(), data, model, tmp_path)
    with pytest.raises(TargetError, match="dropout already: nothing would change"):
        trained(Dropout(), data, made.model, tmp_path)


def test_other_models_are_refused(data, model, tiny_corpus, checkpoints, tmp_path):
    for corpus, start in ((load(tiny_corpus), model), (data, checkpoints("bert", "mlm"))):
        with pytest.raises(TargetError, match="dropout is for models that name intents and slots"):
            trained(Dropout(), corpus, start, tmp_path)
        with pytest.raises(TargetError, match="dropout is for models"):
            Dropout().check(corpus, start)
    Regularisation().check(data, model)
