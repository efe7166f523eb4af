"""Checkpoints that answer questions: which folders are, and what is refused before a question is asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from answering_checkpoints import CHAT_TEMPLATE, make_chat, make_donut, make_pix2struct, make_vit_decoder
from safetensors.torch import load_file, save_file

from audit.errors import TargetError
from audit.targets.answering.loading import is_answering, load_answering
from audit.targets.checkpoint.folder import open_checkpoint


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("answering")
    makers = {"donut": make_donut, "pix2struct": make_pix2struct, "chat": make_chat}
    return {name: make(root / name) for name, make in makers.items()}


@pytest.fixture
def copied(made: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a checkpoint that a test may spoil."""
    return lambda name: Path(shutil.copytree(made[name], tmp_path / name))


def changed(path: Path, **settings: Any) -> None:
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**kept, **settings}))


def test_the_configuration_tells_models_that_answer_questions(
    made: dict[str, Path], copied: Callable[[str], Path], checkpoints: Callable[..., Path]
) -> None:
    assert all(is_answering(folder) for folder in made.values())
    assert not any(is_answering(checkpoints(family, "mlm")) for family in tiny.MASKED_FAMILIES)
    assert not is_answering(checkpoints("layoutlm", "token-classification"))
    folder = copied("pix2struct")
    changed(folder / "config.json", architectures=["Pix2StructVisionModel"])
    assert not is_answering(folder)
    with pytest.raises(TargetError, match="no model that answers questions"):
        load_answering(folder)


@pytest.mark.parametrize("size", [{"height": 10**6, "width": 48}, [30_000, 30_000], 30_000])
def test_pictures_beyond_measure_are_refused_before_one_is_made(size: object, copied: Callable[[str], Path]) -> None:
    folder = copied("donut")
    changed(folder / "preprocessor_config.json", size=size)
    with pytest.raises(TargetError, match=r"asks for pictures of [0-9,]+ pixels"):
        load_answering(folder)


@pytest.mark.parametrize("settings", [{"size": "large"}, {"size": {"height": "x", "width": []}}])
def test_odd_sizes_of_pictures_are_refused(settings: dict[str, Any], copied: Callable[[str], Path]) -> None:
    folder = copied("donut")
    changed(folder / "preprocessor_config.json", **settings)
    with pytest.raises(TargetError):
        load_answering(folder)


def test_the_card_says_what_was_loaded(made: dict[str, Path], copied: Callable[[str], Path]) -> None:
    card = load_answering(made["donut"]).card
    assert (card.task, card.dtype, card.device) == ("question-answering", "float32", "cpu")
    assert (card.resolution, card.max_tokens, card.vocabulary) == ((64, 48), 128, 91)
    assert card.sha256 == open_checkpoint(copied("donut")).sha256
    assert card.parameters == 15620
    assert load_answering(made["chat"]).card.architecture == "llava, question answering"
    assert load_answering(made["pix2struct"]).card.max_tokens == 48


@pytest.mark.parametrize("name", ["chat_template.jinja", "Arial.TTF"])
def test_what_decides_how_a_model_is_asked_is_part_of_its_hash(name: str, copied: Callable[[str], Path]) -> None:
    folder = copied("pix2struct")
    before = open_checkpoint(folder).sha256
    (folder / name).write_bytes(b"another")
    assert open_checkpoint(folder).sha256 != before


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def half_the_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(dict([*weights.items()][::2]), folder / "model.safetensors", {"format": "pt"})


def not_finite(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["decoder.model.decoder.layers.0.fc1.weight"].fill_(torch.nan)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def own_code(folder: Path) -> None:
    changed(folder / "config.json", auto_map={"AutoModel": "modeling.Evil"})


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def no_processor(folder: Path) -> None:
    (folder / "preprocessor_config.json").unlink()


def wrong_processor(folder: Path) -> None:
    changed(folder / "preprocessor_config.json", size="large")


def no_end(folder: Path) -> None:
    changed(folder / "tokenizer_config.json", eos_token=None)


def unknown_tokens(folder: Path) -> None:
    path = folder / "tokenizer.json"
    read = json.loads(path.read_text())
    read["model"]["vocab"]["\u00e9"] = len(read["model"]["vocab"]) + len(read["added_tokens"]) + 40
    read["added_tokens"] += [{**read["added_tokens"][-1], "id": 500 + n, "content": f"<{n}>"} for n in range(9)]
    path.write_text(json.dumps(read))


SPOILT = {
    "pickles only": (no_weights, "no model.safetensors, only pytorch_model.bin"),
    "missing weights": (half_the_weights, "parameters are missing"),
    "not finite": (not_finite, "not finite"),
    "own code": (own_code, "own code"),
    "no tokenizer": (no_tokenizer, "no tokenizer.json"),
    "no processor": (no_processor, "no preprocessor_config.json"),
    "wrong processor": (wrong_processor, "image processor cannot be loaded|cannot read a page"),
    "no end token": (no_end, "lacks the eos token"),
    "unknown tokens": (unknown_tokens, "the tokenizer has 101 tokens, the model 91"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_cannot_be_asked_is_refused_in_one_line(name: str, copied: Callable[[str], Path]) -> None:
    spoil, message = SPOILT[name]
    folder = copied("donut")
    spoil(folder)
    with pytest.raises(TargetError, match=message) as caught:
        load_answering(folder)
    assert "\n" not in str(caught.value) + caught.value.hint
    assert caught.value.hint or name in ("unknown tokens",)


def test_a_processor_without_chat_template_is_refused_and_says_what_to_add(tmp_path: Path) -> None:
    folder = make_chat(tmp_path / "chat", template=None)
    with pytest.raises(TargetError, match="no chat template") as caught:
        load_answering(folder)
    assert "chat_template.jinja" in caught.value.hint
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    assert load_answering(folder).card.family == "llava"


def test_a_prompt_without_a_place_for_the_question_is_refused(made: dict[str, Path]) -> None:
    with pytest.raises(TargetError, match=r"no \{question\}"):
        load_answering(made["donut"], prompt="What?")


def test_a_model_without_marks_of_a_question_is_refused_unless_the_recipe_says_how_it_is_asked(tmp_path: Path) -> None:
    folder = make_vit_decoder(tmp_path / "trocr")
    with pytest.raises(TargetError, match="no marks of a question") as caught:
        load_answering(folder)
    assert "[recipe]" in caught.value.hint
    assert "{question}" in caught.value.hint
    assert load_answering(folder, prompt="Q: {question} A:").card.task == "question-answering"


def test_rows_follow_from_the_size_of_the_images_or_are_as_told(made: dict[str, Path]) -> None:
    assert load_answering(made["donut"]).batch_rows == 16
    target = load_answering(made["donut"], batch_rows=3)
    assert target.batch_rows == 3
    target.batch_rows = 5
    assert target.rounded("bfloat16").batch_rows == 5
