"""Large models keep half-precision weights, quantised ones load where their library is.

Answers stay what they were.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import answering_checkpoints
import asked_pages
import encoder_zoo
import numpy as np
import pytest
import text_zoo
import torch

from audit.corpus.documents import Corpus
from audit.corpus.images import page_view
from audit.errors import TargetError
from audit.references.provenance import distance_of_models, distance_of_weights
from audit.references.retrain import Retraining, recipe_for, retrain
from audit.targets import opening
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint import loading as weights
from audit.targets.checkpoint.folder import in_format, open_checkpoint
from audit.targets.checkpoint.safety import quiet
from audit.targets.extractive import load_extractive
from audit.targets.interface import Answer, AnswerLoss


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    return answering_checkpoints.make_chat(tmp_path_factory.mktemp("chat") / "model")


@pytest.fixture(scope="module")
def half(chat, tmp_path_factory):
    """The same model, stored in bfloat16."""
    from transformers import LlavaForConditionalGeneration

    folder = Path(shutil.copytree(chat, tmp_path_factory.mktemp("half") / "model"))
    with quiet():
        LlavaForConditionalGeneration.from_pretrained(chat, dtype=torch.bfloat16).save_pretrained(
            folder
        )
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return asked_pages.corpus(tmp_path_factory.mktemp("pages") / "data")


def losses(target: Any, corpus: Corpus) -> np.ndarray:
    """The loss of each page's first answer."""
    asked = [document for document in corpus.of("member") if document.questions][:4]
    queries = [
        AnswerLoss(page_view(corpus, one), one.questions[0].question, one.questions[0].answers[0])
        for one in asked
    ]
    return np.array([float(loss.mean()) for loss in target.ask(queries)])


def test_a_large_model_keeps_its_half_precision(half, chat, corpus, monkeypatch):
    exact = load_answering(half)
    assert exact.card.dtype == "float32"
    monkeypatch.setattr(weights, "LARGE", 1000)
    target = load_answering(half)
    assert (target.card.dtype, target.model.get_output_embeddings().weight.dtype) == (
        "bfloat16",
        torch.float32,
    )
    assert target.model.get_input_embeddings().weight.dtype == torch.bfloat16
    found = losses(target, corpus)
    wanted = losses(exact, corpus)
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
    document = corpus.of("member")[0]
    (reply,) = target.ask([Answer(page_view(corpus, document), document.questions[0].question)])
    assert isinstance(reply.text, str)
    # What is stored in full precision stays in it.
    assert load_answering(chat).card.dtype == "float32"


def test_float16_is_not_rounded_to_the_coarser_bfloat16(chat, corpus, tmp_path, monkeypatch):
    from transformers import LlavaForConditionalGeneration

    folder = Path(shutil.copytree(chat, tmp_path / "model"))
    with quiet():
        LlavaForConditionalGeneration.from_pretrained(chat, dtype=torch.float16).save_pretrained(
            folder
        )
    exact = load_answering(folder)
    monkeypatch.setattr(weights, "LARGE", 1000)
    target = load_answering(folder)
    assert target.card.dtype == "float32"
    np.testing.assert_array_equal(losses(target, corpus), losses(exact, corpus))


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("llama", "num_hidden_layers"),
        ("qwen2", "num_hidden_layers"),
        ("gpt2", "n_layer"),
        ("bloom", "n_layer"),
        ("t5", "num_layers"),
        ("bart", "encoder_layers"),
        ("pegasus", "decoder_layers"),
    ],
)
def test_a_model_that_writes_with_fewer_layers_than_its_weights_is_refused(name, setting, tmp_path):
    folder = text_zoo.write_text_model(tmp_path, name, **{setting: 2})
    load_answering(folder, prompt=text_zoo.prompt_of(name))
    settings = json.loads((folder / "config.json").read_text())
    settings.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps({**settings, setting: settings[setting] - 1}))
    with pytest.raises(TargetError, match="fewer layers than the weights have"):
        load_answering(folder, prompt=text_zoo.prompt_of(name))


@pytest.mark.parametrize("part", ["text_config", "vision_config"])
def test_a_chat_model_with_fewer_layers_than_its_weights_is_refused(part, tmp_path):
    folder = answering_checkpoints.make_chat(tmp_path / "chat")
    settings = json.loads((folder / "config.json").read_text())
    settings[part].pop("layer_types", None)
    settings[part]["num_hidden_layers"] -= 1
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(TargetError, match="fewer layers than the weights have"):
        load_answering(folder)


@pytest.mark.parametrize("bits", [4, 8])
def test_quantised_weights_load_where_their_library_is_and_are_not_trained(
    bits, chat, corpus, tmp_path
):
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig, LlavaForConditionalGeneration

    folder = Path(shutil.copytree(chat, tmp_path / "model"))
    settings = BitsAndBytesConfig(load_in_4bit=bits == 4, load_in_8bit=bits == 8)
    with quiet():
        small = LlavaForConditionalGeneration.from_pretrained(
            chat, quantization_config=settings, device_map="cpu"
        )
        small.save_pretrained(folder)
    target = load_answering(folder)
    assert target.card.architecture.endswith("weights quantised (bitsandbytes)")
    assert target.card.parameters == load_answering(chat).card.parameters
    ids = torch.tensor([[5, 6, 7, 8]])
    if (
        bits == 8
    ):  # on some processors 4 bits take layers of whole blocks, which the tiny ones are not
        with torch.no_grad():
            torch.testing.assert_close(target.model(ids).logits, small(ids).logits)
        assert np.isfinite(losses(target, corpus)).all()
    with pytest.raises(TargetError, match="cannot be trained"):
        retrain(
            Retraining(recipe_for(corpus)), folder, corpus, corpus.of("public"), tmp_path / "out"
        )


@pytest.mark.parametrize("asked", ["bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["t5", "pointing"])
def test_weights_are_held_in_the_format_that_was_asked_for(asked, kind, tmp_path, corpus):
    write = encoder_zoo.write_extractive if kind == "pointing" else text_zoo.write_text_model
    folder = write(tmp_path, "bert" if kind == "pointing" else "t5")
    load = load_extractive if kind == "pointing" else load_answering
    exact = load(folder)
    target = load(in_format(open_checkpoint(folder), asked))
    assert target.card.dtype == asked
    assert str(target.model.get_input_embeddings().weight.dtype) == f"torch.{asked}"
    assert target.card.sha256 == exact.card.sha256
    assert losses(target, corpus) == pytest.approx(losses(exact, corpus), rel=0.05)


def test_loaded_models_are_compared_by_drawn_numbers(tmp_path):
    folders = [text_zoo.write_text_model(tmp_path / str(seed), "t5", seed) for seed in (1, 2)]
    one, other = (load_answering(folder).model for folder in folders)
    assert distance_of_models(one, one) == 0.0
    distance = pytest.approx(distance_of_weights(*folders), rel=0.05)
    assert distance_of_models(one, other) == distance
    one.decoder.block.to("meta")  # as a part of a model that no GPU holds
    assert distance_of_models(one, other) == distance


@pytest.fixture(scope="module")
def llama():
    """A decoder of 8 billion parameters, 16.1 GB in bfloat16, without its weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    }
    with torch.device("meta"):
        return LlamaForCausalLM(
            LlamaConfig(**sizes, intermediate_size=14336, vocab_size=128256)
        ).bfloat16()


# `gpus` and `memory` are free gigabytes; `n_kept_rows` are the rows that the used places keep room
# for. Nothing is used where the model is refused.
@pytest.mark.parametrize(
    ("gpus", "memory", "n_rows", "used_places", "n_kept_rows"),
    [
        pytest.param([80.0], 0.0, 64, [0], 4, id="one is enough"),
        pytest.param([8.0, 80.0], 0.0, 16, [1], 4, id="the one with room"),
        pytest.param([19.0, 19.0], 0.0, 16, [0], 4, id="one with room for few rows"),
        pytest.param([17.0, 17.0, 17.0], 0.0, 16, [0, 1, 2], 16, id="no room for few rows"),
        pytest.param([12.0, 12.0], 0.0, 16, [0, 1], 4, id="no room for all rows"),
        pytest.param([13.0, 13.0, 13.0], 0.0, 16, [0, 1, 2], 8, id="room for a half of the rows"),
        pytest.param(
            [12.0, 12.0, 12.0, 12.0, 12.0, 12.0],
            64.0,
            16,
            [0, 1, 2],
            8,
            id="the last ones stay free",
        ),
        pytest.param([12.0], 64.0, 16, [0, "cpu"], 4, id="memory as a last resort"),
        pytest.param([2.0, 2.0], 64.0, 16, [], 0, id="no room for a layer"),
        pytest.param([12.0], 2.0, 16, [], 0, id="nowhere"),
    ],
)
def test_a_model_lies_on_as_few_gpus_as_hold_it_beside_a_batch(
    gpus, memory, n_rows, used_places, n_kept_rows, llama
):
    row = weights.bytes_of_row(llama.config, 1024, 128)
    assert 0.6e9 < row < 0.7e9
    uneven = SimpleNamespace(**{**llama.config.to_dict(), "intermediate_size": [9, 14336]})
    assert (
        weights.bytes_of_row(SimpleNamespace(get_text_config=lambda decoder: uneven), 1024, 128)
        == row
    )
    free: dict[int | str, int] = {number: int(room * 1e9) for number, room in enumerate(gpus)} | (
        {"cpu": int(memory * 1e9)} if memory else {}
    )
    if not used_places:
        with pytest.raises(TargetError, match="the model does not fit into"):
            weights.places_of(llama, free, row, n_rows)
        return
    places = weights.places_of(llama, free, row, n_rows)
    assert sorted({*places.values()}, key=str) == used_places
    taken: dict[int | str, int] = dict.fromkeys(used_places, 0)
    layers: dict[str, set[int | str]] = {}
    for name, own in llama.named_parameters():
        (place,) = [
            place for part, place in places.items() if not part or f"{name}.".startswith(f"{part}.")
        ]
        taken[place] += own.numel() * own.element_size()
        layers.setdefault(".".join(name.split(".")[:3]), set()).add(place)
    assert all(len(own) == 1 for own in layers.values())
    assert sum(taken.values()) == llama.get_memory_footprint(return_buffers=False)
    assert all(
        taken[place] + n_kept_rows * row <= free[place] for place in used_places if place != "cpu"
    )


# Free gigabytes of the first of two GPUs.
@pytest.mark.parametrize(
    ("gigabytes", "kind", "row_bytes", "expected"),
    [
        pytest.param(12.0, "plain", 100, "cuda", id="fits"),
        pytest.param(9.0, "plain", 100, "spread {'': 1}", id="another one"),
        pytest.param(9.0, "plain", 0, "cuda", id="an encoder"),
        pytest.param(9.0, "quantised", 100, "cuda", id="quantised"),
        pytest.param(9.0, "cpu", 100, "cpu", id="no GPU"),
    ],
)
def test_only_a_generative_model_that_the_first_gpu_cannot_hold_is_spread(
    gigabytes, kind, row_bytes, expected, monkeypatch
):
    class Model:
        hf_quantizer = object() if kind == "quantised" else None
        _no_split_modules = ("Layer",)

        def get_memory_footprint(self) -> int:
            return int(10e9)

        def to(self, device: str) -> str:
            return device

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(gigabytes * 1e9), int(80e9)))
    monkeypatch.setattr(
        "accelerate.utils.get_max_memory", lambda: {0: int(gigabytes * 1e9), 1: int(40e9)}
    )
    monkeypatch.setattr(weights, "spread", lambda model, places: f"spread {places}")
    assert weights.place(Model(), "cpu" if kind == "cpu" else "cuda", row_bytes, 4) == expected


def test_a_gpu_keeps_room_for_the_rows_of_a_batch(half, monkeypatch):
    asked: list[Any] = []

    def place(model: Any, device: str, row: int, n_rows: int) -> Any:
        asked.append((device, row > 0, n_rows))
        raise TargetError("placed")

    monkeypatch.setattr("audit.targets.answering.loading.place", place)
    for given in (None, 3):
        with pytest.raises(TargetError, match="placed"):
            load_answering(half, device="cuda", batch_rows=given)
    assert asked == [("cuda", True, 64), ("cuda", True, 3)]


@pytest.mark.parametrize("families", [("qwen2",), ("t5", "idefics3")], ids=" ".join)
def test_a_model_over_two_gpus_or_partly_in_memory_answers_bit_for_bit_as_on_one(families):
    tests = Path(__file__).parent.parent
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (tests.parent, tests, tests / "fakes")))}
    command = [sys.executable, "-m", "simulated_gpus", *families]
    done = subprocess.run(
        command, env=os.environ | paths, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = {"two GPUs": [["0", "1"], True], "memory": [["0", "cpu"], True]}
    assert json.loads(done.stdout) == dict.fromkeys(families, wanted)


def test_the_record_and_a_warning_name_where_a_model_lies(half, monkeypatch):
    target: Any = load_answering(half)
    monkeypatch.setattr(opening, "device_words", lambda device: "NVIDIA H100")
    target.model.hf_device_map = {"a": "cuda:0", "b": "cuda:1"}
    assert opening.environment(target).device == "2 x NVIDIA H100"
    assert not opening.warn_of_memory(target)
    target.model.hf_device_map["c"] = "cpu"
    assert "slow" in opening.warn_of_memory(target)[0]
