"""Large models keep half-precision weights, quantised ones load where their library is; answers stay what they were."""

import json
import shutil
from pathlib import Path
from typing import Any

import answering_checkpoints
import asked_pages
import encoder_zoo
import numpy as np
import pytest
import text_zoo
import torch
from case_tables import table

from audit.corpus.documents import Corpus
from audit.corpus.images import page_view
from audit.errors import TargetError
from audit.references.provenance import distance_of_models, distance_of_weights
from audit.references.retrain import Retraining, recipe_for, retrain
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint import loading as weights
from audit.targets.checkpoint.folder import in_format, open_checkpoint
from audit.targets.checkpoint.safety import quiet
from audit.targets.extractive import load_extractive
from audit.targets.interface import Adaptation, AdaptationRule, Answer, AnswerLoss


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return answering_checkpoints.make_chat(tmp_path_factory.mktemp("chat") / "model")


@pytest.fixture(scope="module")
def half(chat: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, stored in bfloat16."""
    from transformers import LlavaForConditionalGeneration

    folder = Path(shutil.copytree(chat, tmp_path_factory.mktemp("half") / "model"))
    with quiet():
        LlavaForConditionalGeneration.from_pretrained(chat, dtype=torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return asked_pages.corpus(tmp_path_factory.mktemp("pages") / "data")


def losses(target: Any, corpus: Corpus) -> np.ndarray:
    """The loss of each page's first answer."""
    asked = [document for document in corpus.of("member") if document.questions][:4]
    queries = [
        AnswerLoss(page_view(corpus, one), one.questions[0].question, one.questions[0].answers[0]) for one in asked
    ]
    return np.array([float(loss.mean()) for loss in target.ask(queries)])


def test_a_large_model_keeps_its_half_precision(
    half: Path, chat: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = load_answering(half)
    assert exact.card.dtype == "float32"
    monkeypatch.setattr(weights, "LARGE", 1000)
    target = load_answering(half)
    assert target.card.dtype == "bfloat16"
    assert target.model.get_output_embeddings().weight.dtype == torch.float32
    assert target.model.get_input_embeddings().weight.dtype == torch.bfloat16
    found, wanted = losses(target, corpus), losses(exact, corpus)
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
    document = corpus.of("member")[0]
    (reply,) = target.ask([Answer(page_view(corpus, document), document.questions[0].question)])
    assert isinstance(reply.text, str)
    # What is stored in full precision stays in it.
    assert load_answering(chat).card.dtype == "float32"


def test_float16_is_not_rounded_to_the_coarser_bfloat16(
    chat: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlavaForConditionalGeneration

    folder = Path(shutil.copytree(chat, tmp_path / "model"))
    with quiet():
        LlavaForConditionalGeneration.from_pretrained(chat, dtype=torch.float16).save_pretrained(folder)
    exact = load_answering(folder)
    monkeypatch.setattr(weights, "LARGE", 1000)
    target = load_answering(folder)
    assert target.card.dtype == "float32"
    np.testing.assert_array_equal(losses(target, corpus), losses(exact, corpus))


@table("name, setting")
def test_a_model_that_writes_with_fewer_layers_than_its_weights_is_refused(
    name: str, setting: str, tmp_path: Path
) -> None:
    folder = text_zoo.write_text_model(tmp_path, name, **{setting: 2})
    load_answering(folder, prompt=text_zoo.prompt_of(name))
    settings = json.loads((folder / "config.json").read_text())
    settings.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps({**settings, setting: settings[setting] - 1}))
    with pytest.raises(TargetError, match="fewer layers than the weights have"):
        load_answering(folder, prompt=text_zoo.prompt_of(name))


@pytest.mark.parametrize("part", ["text_config", "vision_config"])
def test_a_chat_model_with_fewer_layers_than_its_weights_is_refused(part: str, tmp_path: Path) -> None:
    folder = answering_checkpoints.make_chat(tmp_path / "chat")
    settings = json.loads((folder / "config.json").read_text())
    settings[part].pop("layer_types", None)
    settings[part]["num_hidden_layers"] -= 1
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(TargetError, match="fewer layers than the weights have"):
        load_answering(folder)


@pytest.mark.parametrize("bits", [4, 8])
def test_quantised_weights_load_where_their_library_is_and_are_not_trained(
    bits: int, chat: Path, corpus: Corpus, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig, LlavaForConditionalGeneration

    folder = Path(shutil.copytree(chat, tmp_path / "model"))
    settings = BitsAndBytesConfig(load_in_4bit=bits == 4, load_in_8bit=bits == 8)
    with quiet():
        small = LlavaForConditionalGeneration.from_pretrained(chat, quantization_config=settings, device_map="cpu")
        small.save_pretrained(folder)
    target = load_answering(folder)
    assert target.card.architecture.endswith("weights quantised (bitsandbytes)")
    assert target.card.parameters == load_answering(chat).card.parameters
    ids = torch.tensor([[5, 6, 7, 8]])
    if bits == 8:  # on some processors 4 bits take layers of whole blocks, which the tiny ones are not
        with torch.no_grad():
            torch.testing.assert_close(target.model(ids).logits, small(ids).logits)
        assert np.isfinite(losses(target, corpus)).all()
    with pytest.raises(TargetError, match="cannot be trained"):
        retrain(Retraining(recipe_for(corpus)), folder, corpus, corpus.of("public"), tmp_path / "out")


def adapted(target: Any, corpus: Corpus) -> np.ndarray:
    """The losses of a training on one page."""
    document = corpus.of("member")[0]
    question = document.questions[0]
    rule = AdaptationRule(max_steps=2)
    (found,) = target.ask([Adaptation(page_view(corpus, document), question.question, question.answers[0], rule)])
    losses: np.ndarray = found.losses
    return losses


@pytest.mark.parametrize("asked", ["bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["t5", "pointing"])
def test_weights_are_held_in_the_format_that_was_asked_for(
    asked: Any, kind: str, tmp_path: Path, corpus: Corpus
) -> None:
    write = encoder_zoo.write_extractive if kind == "pointing" else text_zoo.write_text_model
    folder = write(tmp_path, "bert" if kind == "pointing" else "t5")
    load = load_extractive if kind == "pointing" else load_answering
    exact, target = load(folder), load(in_format(open_checkpoint(folder), asked))
    assert target.card.dtype == asked
    assert str(target.model.get_input_embeddings().weight.dtype) == f"torch.{asked}"
    assert target.card.sha256 == exact.card.sha256
    # Training on one page takes steps that half precision has not, and leaves the weights as they were.
    before = {name: own.clone() for name, own in target.model.named_parameters()}
    assert adapted(target, corpus) == pytest.approx(adapted(exact, corpus), rel=0.05)
    for name, own in target.model.named_parameters():
        assert own.dtype == before[name].dtype
        assert torch.equal(own, before[name])


def test_loaded_models_are_compared_by_drawn_numbers(tmp_path: Path) -> None:
    folders = [text_zoo.write_text_model(tmp_path / str(seed), "t5", seed) for seed in (1, 2)]
    one, other = (load_answering(folder).model for folder in folders)
    assert distance_of_models(one, one) == 0.0
    assert distance_of_models(one, other) == pytest.approx(distance_of_weights(*folders), rel=0.05)
