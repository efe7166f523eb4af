"""NLU checkpoints: saved, opened, refused."""

from __future__ import annotations

import json
from pathlib import Path

import nlu_models
import numpy as np
import pytest
import tiny

from audit.errors import TargetError
from audit.extensions.papers.utterance_model import UNKNOWN
from audit.extensions.papers.utterance_target import NluTarget, is_nlu, load_nlu
from audit.targets.interface import TrainingLoss
from audit.targets.opening import check, encoder_of, target_of


@pytest.mark.parametrize("characters", [False, True])
def test_a_saved_model_is_the_same_model(tmp_path: Path, characters: bool) -> None:
    made, vocabulary = nlu_models.model(characters=characters)
    folder = nlu_models.checkpoint(tmp_path, characters=characters)
    loaded = load_nlu(folder)
    for name, value in made.state_dict().items():
        np.testing.assert_array_equal(value, loaded.model.state_dict()[name], err_msg=name)
    assert loaded.vocabulary == vocabulary
    assert loaded.labels == nlu_models.TAGS
    assert loaded.intents == nlu_models.INTENTS
    assert (loaded.card.family, loaded.card.task) == ("BiLSTM-CRF", "intent-slots")
    assert loaded.card.vocabulary == len(vocabulary.words)
    assert ("character layer" in loaded.card.architecture) == characters
    assert not [path for path in folder.iterdir() if path.suffix not in (".json", ".safetensors")]


def test_it_is_opened_for_a_data_set_of_utterances(tmp_path: Path) -> None:
    folder = nlu_models.checkpoint(tmp_path)
    corpus = nlu_models.corpus(nlu_models.documents())
    target = target_of(folder, corpus, batch_rows=32)
    assert isinstance(target, NluTarget)
    assert target.batch_rows == 32
    check(target, corpus)
    page = target.encode(corpus.documents[0])
    assert page is not None
    (losses,) = target.ask([TrainingLoss(page, 0, page.ids[:1])])
    assert losses.shape == (1,)
    with pytest.raises(TargetError, match="only an encoder"):
        encoder_of(folder, corpus)


def test_other_checkpoints_are_no_nlu_models(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path, "bert", "mlm")
    assert not is_nlu(tmp_path)
    with pytest.raises(TargetError, match="no NLU model"):
        load_nlu(tmp_path)


def test_labels_of_the_manifest_must_be_the_models_in_any_order(tmp_path: Path) -> None:
    folder = nlu_models.checkpoint(tmp_path)
    assert load_nlu(folder, labels=nlu_models.TAGS[::-1]).labels == nlu_models.TAGS
    with pytest.raises(TargetError, match="labels are not the manifest's"):
        load_nlu(folder, labels=("O", "B-canary"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no vocabulary.json"),
        ("{", "not readable as JSON"),
        ('{"a": 1}', "not a list of words"),
        (json.dumps([UNKNOWN, 1]), "not a list of words"),
        (json.dumps(["play", UNKNOWN]), "begin with"),
        (json.dumps([UNKNOWN, "play", "play"]), "different"),
        (json.dumps([UNKNOWN, "play"]), "the vocabulary has 2 words"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused(tmp_path: Path, content: str | None, says: str) -> None:
    path = nlu_models.checkpoint(tmp_path) / "vocabulary.json"
    path.unlink()
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(TargetError, match=says):
        load_nlu(tmp_path)


def test_missing_and_left_over_weights_and_code_are_refused(tmp_path: Path) -> None:
    folder = nlu_models.checkpoint(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_layers": 3}))
    with pytest.raises(TargetError, match="parameters are missing"):
        load_nlu(folder)
    (folder / "config.json").write_text(json.dumps({**config, "n_layers": 1}))
    with pytest.raises(TargetError, match="less than the weights have, no lstm"):
        load_nlu(folder)
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "code.Model"}}))
    with pytest.raises(TargetError, match="own code"):
        load_nlu(folder)


def test_characters_that_the_layer_lacks_are_refused(tmp_path: Path) -> None:
    made, vocabulary = nlu_models.model(characters=True)
    made.spellings[3, 0] = made.config.n_characters
    made.save_pretrained(tmp_path)
    vocabulary.save(tmp_path)
    with pytest.raises(TargetError, match="characters that the model lacks"):
        load_nlu(tmp_path)
