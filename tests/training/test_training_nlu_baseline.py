"""The baseline of a model that names intents and slots, by the command that trains all baselines."""

from dataclasses import replace

import nlu_models
import pytest
from commands import docaudit

from audit.corpus import manifest
from audit.corpus.documents import Manifest, Membership, Task, TrainingRecipe
from audit.errors import TargetError
from audit.extensions.papers.utterance_target import load_nlu
from audit.extensions.papers.utterance_training import OPENER, NluRecipe, fit_nlu
from audit.references import retrain
from audit.references.provenance import FILE_NAME
from audit.references.training import train_baseline
from audit.targets.interface import BestIntent
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session

RECIPE = TrainingRecipe(epochs=25, batch_size=4, learning_rate=1e-2)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Members with all three intents; no public utterance has the intent "Pin"."""
    members = nlu_models.documents()
    others = [
        nlu_models.play(f"public{number}", name, "public")
        for number, name in enumerate(("ann lee", "bo", "cy"))
    ]
    others += [nlu_models.rate(f"stars{number}", str(number), "public") for number in (10, 12, 15)]
    others += [nlu_models.play("held", "dee", "heldout")]
    folder = tmp_path_factory.mktemp("data")
    own = Manifest(
        1, "utterances", Task("intent-slots", nlu_models.TAGS), Membership("random"), recipe=RECIPE
    )
    manifest.write(folder, own, [*members, *others])
    return manifest.load(folder)


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    recipe = NluRecipe(
        epochs=25, batch_size=4, learning_rate=1e-2, embedding_size=12, hidden_size=8
    )
    recipe = replace(recipe, character_layer=True, state_dropout=0.1)
    fit_nlu(data.of("member"), (), recipe, folder, labels=nlu_models.TAGS)
    return folder


def test_an_owner_trains_it_with_the_command_and_scans_with_it(data, model, tmp_path):
    arguments = [
        "references",
        str(data.root),
        str(model),
        "--train",
        "baselines",
        "--out",
        str(tmp_path),
    ]
    assert docaudit(*arguments, "--device", "cpu").exit_code == 0
    (folder,) = tmp_path.glob("baselines/baseline-*")
    own = load_nlu(folder)
    audited = load_nlu(model)
    assert (own.labels, own.intents) == (audited.labels, audited.intents)
    sizes = ("embedding_size", "hidden_size", "state_dropout", "input_dropout")
    assert all(
        getattr(own.model.config, size) == getattr(audited.model.config, size) for size in sizes
    )
    assert own.model.characters is not None
    public = [page for page in map(own.encode, data.of("public")) if page is not None]
    assert own.ask([BestIntent(page) for page in public]) == [page.intent for page in public]
    assert not {"sara", "abba"} & {*own.vocabulary.words}  # the members' artists
    assert (folder / FILE_NAME).is_file()
    # The audited model gave its sizes only, so this is no model that was trained from it.
    opened = open_session(
        ScanOptions(model, data.root, tmp_path / "out", "quick", references={"baselines": [folder]})
    )
    assert [reference.role for reference in opened.prepared.same_kind] == ["baseline-0"]


def test_it_sees_as_many_utterances_as_the_audited_model_and_only_public_ones(
    data, model, tmp_path, monkeypatch
):
    seen = []
    noted = replace(
        OPENER, train=lambda _, documents, recipe, *__, half: seen.append((documents, recipe, half))
    )
    monkeypatch.setattr(retrain, "trainer_of", lambda _: noted)
    train_baseline(model, data, tmp_path, seed=3)
    ((documents, recipe, half),) = seen
    assert len(documents) == len(data.of("member"))
    assert {document.id for document in documents} == {
        document.id for document in data.of("public")
    }
    assert (recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.seed, half) == (
        25,
        4,
        1e-2,
        3,
        False,
    )


def test_without_a_model_to_take_the_sizes_from_nothing_is_trained(data, tmp_path):
    with pytest.raises(TargetError, match="how large the audited model is"):
        train_baseline(None, data, tmp_path)
