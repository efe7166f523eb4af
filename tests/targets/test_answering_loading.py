"""Checkpoints that answer questions: which folders are, and what is refused before a question is asked."""

import json
import shutil
from pathlib import Path

import pytest
import tiny
import torch
from answering_checkpoints import (
    CHAT_TEMPLATE,
    make_chat,
    make_donut,
    make_pix2struct,
    make_vit_decoder,
)
from checkpoint_faults import Case, cases, change
from test_targets_loading import WEIGHTS, weights

from audit.errors import TargetError
from audit.targets.answering.loading import is_answering, load_answering
from audit.targets.checkpoint.folder import open_checkpoint


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("answering")
    makers = {"donut": make_donut, "pix2struct": make_pix2struct, "chat": make_chat}
    return {name: make(root / name) for name, make in makers.items()}


@pytest.fixture
def copied(made, tmp_path):
    """A copy of a checkpoint that a test may spoil."""
    return lambda name: Path(shutil.copytree(made[name], tmp_path / name))


def test_the_configuration_tells_models_that_answer_questions(made, copied, checkpoints):
    assert all(is_answering(folder) for folder in made.values())
    assert not any(is_answering(checkpoints(family, "mlm")) for family in tiny.MASKED_FAMILIES)
    assert not is_answering(checkpoints("layoutlm", "token-classification"))
    folder = copied("pix2struct")
    change(folder / "config.json", architectures=["Pix2StructVisionModel"])
    assert not is_answering(folder)
    with pytest.raises(TargetError, match="no model that answers questions"):
        load_answering(folder)


def test_the_card_says_what_was_loaded(made, copied):
    card = load_answering(made["donut"]).card
    assert (card.task, card.dtype, card.device) == ("question-answering", "float32", "cpu")
    assert (card.resolution, card.max_tokens, card.vocabulary) == ((64, 48), 128, 91)
    assert (card.sha256, card.parameters) == (open_checkpoint(copied("donut")).sha256, 15620)
    assert load_answering(made["chat"]).card.architecture == "llava, question answering"
    assert load_answering(made["pix2struct"]).card.max_tokens == 48


@pytest.mark.parametrize("name", ["chat_template.jinja", "Arial.TTF"])
def test_what_decides_how_a_model_is_asked_is_part_of_its_hash(name, copied):
    folder = copied("pix2struct")
    before = open_checkpoint(folder).sha256
    (folder / name).write_bytes(b"another")
    assert open_checkpoint(folder).sha256 != before


def unknown_tokens(folder: Path) -> None:
    path = folder / "tokenizer.json"
    read = json.loads(path.read_text())
    read["model"]["vocab"]["\u00e9"] = len(read["model"]["vocab"]) + len(read["added_tokens"]) + 40
    read["added_tokens"] += [
        {**read["added_tokens"][-1], "id": 500 + n, "content": f"<{n}>"} for n in range(9)
    ]
    path.write_text(json.dumps(read))


FIRST = "decoder.model.decoder.layers.0.fc1.weight"
SPOILT: dict[str, Case] = {
    **cases("answering"),
    "pickles only": (
        lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"),
        "in a pickle, .*pytorch_model.bin",
    ),
    "missing weights": (
        weights(lambda tensors: dict([*tensors.items()][::2])),
        "parameters are missing",
    ),
    "not finite": (
        weights(lambda tensors: {**tensors, FIRST: torch.full_like(tensors[FIRST], torch.nan)}),
        "not finite",
    ),
    "unknown tokens": (unknown_tokens, "the tokenizer has 101 tokens, the model 91"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_cannot_be_asked_is_refused_in_one_line(name, copied):
    spoil, message = SPOILT[name]
    folder = copied("donut")
    spoil(folder)
    with pytest.raises(TargetError, match=message) as caught:
        load_answering(folder)
    assert "\n" not in str(caught.value) + caught.value.hint


def test_a_processor_without_chat_template_is_refused_and_says_what_to_add(tmp_path):
    folder = make_chat(tmp_path / "chat", template=None)
    with pytest.raises(TargetError, match="no chat template") as caught:
        load_answering(folder)
    assert "chat_template.jinja" in caught.value.hint
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    assert load_answering(folder).card.family == "llava"


@pytest.mark.parametrize(
    "template", ["{{ raise_exception('no images here') }}", "{% for %}", "{{ 1 / 0 }}"]
)
def test_a_broken_chat_template_is_refused(template, tmp_path):
    with pytest.raises(TargetError, match="cannot read a page") as caught:
        load_answering(make_chat(tmp_path / "chat", template=template))
    assert "\n" not in str(caught.value) + caught.value.hint


def test_a_prompt_without_a_place_for_the_question_is_refused(made):
    with pytest.raises(TargetError, match=r"no \{question\}"):
        load_answering(made["donut"], prompt="What?")


def test_a_model_without_marks_of_a_question_is_refused_unless_the_recipe_says_how_it_is_asked(
    tmp_path,
):
    folder = make_vit_decoder(tmp_path / "trocr")
    with pytest.raises(TargetError, match="no marks of a question") as caught:
        load_answering(folder)
    assert "[recipe]" in caught.value.hint
    assert "{question}" in caught.value.hint
    assert load_answering(folder, prompt="Q: {question} A:").card.task == "question-answering"


def test_rows_follow_from_the_size_of_the_images_or_are_as_told(made):
    assert load_answering(made["donut"]).batch_rows == 16
    target = load_answering(made["donut"], batch_rows=3)
    target.rows.lower(2, "cpu")
    assert target.rounded("bfloat16").batch_rows == target.batch_rows == 2
