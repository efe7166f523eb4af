"""Large models that do not fit into memory together are read in turn; one that fits nowhere is spread over devices."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adapters
import asked_pages
import extractive_zoo
import numpy as np
import peft
import pytest
import tiny
import torch
from text_zoo import write_text_model

from audit.corpus.documents import Corpus
from audit.corpus.page_view import page_view
from audit.errors import TargetError
from audit.references.likeness import distance_of_drawn, distance_of_weights, drawn_weights
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint import memory
from audit.targets.checkpoint.folder import in_format, open_checkpoint
from audit.targets.checkpoint.memory import RESIDENTS
from audit.targets.checkpoint.safety import quiet
from audit.targets.encoders.loading import load
from audit.targets.extractive.loading import load_extractive
from audit.targets.interface import Adaptation, AdaptationRule, Answer, AnswerLoss


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return asked_pages.corpus(tmp_path_factory.mktemp("pages") / "data", images=False)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three models of text, of two families."""
    root = tmp_path_factory.mktemp("models")
    return [
        write_text_model(root / f"{name}-{seed}", name, seed) for name, seed in (("t5", 1), ("t5", 2), ("qwen2", 3))
    ]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every model is a large one, and there is room for one."""
    gc.collect()
    monkeypatch.setattr(RESIDENTS, "large", 1000)
    monkeypatch.setattr(RESIDENTS, "dropped", 0)
    monkeypatch.setattr(RESIDENTS, "most", 0)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 0.0)
    yield
    gc.collect()


def answers(target: Any, corpus: Corpus) -> tuple[list[str], list[bytes]]:
    """The reply and the bits of the loss for each of some questions."""
    asked = [document for document in corpus.of("member") if document.questions][:3]
    views = [page_view(corpus, document) for document in asked]
    questions = [document.questions[0] for document in asked]
    pairs = list(zip(views, questions, strict=True))
    replies = target.ask([Answer(view, one.question) for view, one in pairs])
    losses = target.ask([AnswerLoss(view, one.question, one.answers[0]) for view, one in pairs])
    return [reply.text for reply in replies], [np.asarray(loss).tobytes() for loss in losses]


def adapted(target: Any, corpus: Corpus) -> Any:
    document = corpus.of("member")[0]
    question = document.questions[0]
    rule = AdaptationRule(max_steps=2)
    (found,) = target.ask([Adaptation(page_view(corpus, document), question.question, question.answers[0], rule)])
    return found.losses.tobytes()


def test_models_that_do_not_fit_together_are_read_in_turn_and_answer_bit_for_bit(
    folders: list[Path], corpus: Corpus, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as roomy:
        roomy.setattr(memory, "free_bytes", lambda device: float("inf"))
        together = [load_answering(folder) for folder in folders]
        wanted = [answers(target, corpus) for target in together]
        changes = adapted(together[0], corpus)
    assert (RESIDENTS.most, RESIDENTS.dropped) == (3, 0)
    del together
    gc.collect()
    monkeypatch.setattr(RESIDENTS, "most", 0)
    targets = [load_answering(folder) for folder in folders]
    assert [answers(target, corpus) for target in targets] == wanted
    assert [answers(target, corpus) for target in reversed(targets)] == wanted[::-1]
    assert RESIDENTS.most == 1
    assert RESIDENTS.dropped >= 5
    # What was read again is trained on a page as before, and a copy in another number format shares its weights.
    assert adapted(targets[0], corpus) == changes
    answers(targets[1], corpus)
    assert answers(targets[0].rounded("bfloat16"), corpus)
    assert RESIDENTS.most == 1


def test_small_models_stay(folders: list[Path], corpus: Corpus, short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RESIDENTS, "large", memory.LARGE)
    for target in [load_answering(folder) for folder in folders[:2]]:
        answers(target, corpus)
    assert (RESIDENTS.most, RESIDENTS.dropped) == (0, 0)


def test_a_model_that_points_at_answers_and_an_adapter_come_back_as_they_were(
    corpus: Corpus, tmp_path: Path, folders: list[Path], short: None
) -> None:
    from transformers import AutoModelForCausalLM

    pointing = extractive_zoo.write_extractive(tmp_path / "pointing", "bert")
    with quiet():
        base = AutoModelForCausalLM.from_pretrained(folders[2])
    adapters.adapted(base, tmp_path / "adapter", peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    targets = [load_extractive(pointing), load_answering(open_checkpoint(tmp_path / "adapter", folders[2]))]
    first = [answers(target, corpus) for target in targets]
    assert [answers(target, corpus) for target in targets] == first
    assert RESIDENTS.most == 1


def test_a_model_that_is_about_to_be_trained_stays(folders: list[Path], corpus: Corpus, short: None) -> None:
    trained = load_answering(folders[0])
    RESIDENTS.keep(trained.model)
    with torch.no_grad():
        for weights in trained.model.parameters():
            weights.mul_(1.1)
    before = answers(trained, corpus)
    answers(load_answering(folders[1]), corpus)
    assert answers(trained, corpus) == before


def test_the_files_of_a_model_that_is_to_come_back_are_gone(
    tmp_path: Path, folders: list[Path], corpus: Corpus, short: None
) -> None:
    lost = load_answering(write_text_model(tmp_path / "model", "t5"))
    load_answering(folders[1])
    for path in (tmp_path / "model").glob("*.safetensors"):
        path.unlink()
    with pytest.raises(TargetError):
        answers(lost, corpus)


def test_loaded_models_are_compared_one_at_a_time(folders: list[Path], short: None) -> None:
    one, other = (load_answering(folder) for folder in folders[:2])
    drawn = drawn_weights(one.model)
    assert distance_of_drawn(drawn, drawn_weights(one.model)) == 0.0
    found = distance_of_drawn(drawn, drawn_weights(other.model))
    assert found == pytest.approx(distance_of_weights(folders[0], folders[1]), rel=0.05)
    assert RESIDENTS.most == 1


@pytest.mark.parametrize("room", [{"cpu": 2**20}, {"cpu": 30_000, "disk": 2**30}])
@pytest.mark.parametrize("name", [0, 2])
def test_a_model_that_is_spread_answers_as_a_whole_one_and_is_not_trained(
    folders: list[Path], corpus: Corpus, name: int, room: dict[int | str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU stands in for a GPU that is too small: layers in memory or on disk are brought to it when they run."""
    wanted = answers(load_answering(folders[name]), corpus)
    monkeypatch.setattr(memory, "put", lambda model, device: memory.spread(model, room, device))
    target = load_answering(folders[name])
    assert memory.is_spread(target.model)
    assert answers(target, corpus) == wanted
    assert Adaptation not in target.answers
    with pytest.raises(TargetError, match="asked, not trained"):
        RESIDENTS.keep(target.model)
    # It is compared like any other, and what was spread comes back after it was dropped.
    distance = distance_of_drawn(drawn_weights(load_answering(folders[name]).model), drawn_weights(target.model))
    assert distance == 0.0


def test_a_spread_model_is_dropped_and_comes_back(
    folders: list[Path], corpus: Corpus, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    room: dict[int | str, int] = {"cpu": 30_000, "disk": 2**30}
    monkeypatch.setattr(memory, "put", lambda model, device: memory.spread(model, room, device))
    targets = [load_answering(folder) for folder in folders[:2]]
    first = [answers(target, corpus) for target in targets]
    assert [answers(target, corpus) for target in targets] == first
    assert RESIDENTS.most == 1


def test_an_encoder_must_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "put", lambda model, device: memory.spread(model, {"cpu": 2**30}, device))
    with pytest.raises(TargetError, match="does not fit into the memory of the GPU"):
        load(tiny.checkpoint(tmp_path / "bert", "bert", "mlm"))


def test_only_a_gpu_without_room_has_a_model_spread(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_answering(folders[0]).model
    seen: list[Any] = []
    monkeypatch.setattr(memory, "spread", lambda *given: seen.append(given))
    monkeypatch.setattr(type(model), "to", lambda self, device: device)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1e12)
    assert memory.put(model, "cuda") == "cuda"
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000.0)
    memory.put(model, "cuda")
    ((_, room, computes),) = seen
    assert room == {0: 850, "cpu": 1000}
    assert computes == "cuda:0"


@pytest.mark.parametrize(("asked", "found"), [("bfloat16", torch.bfloat16), ("float32", torch.float32)])
def test_weights_are_held_in_the_format_that_was_asked_for(
    folders: list[Path], tmp_path: Path, asked: Any, found: torch.dtype, corpus: Corpus
) -> None:
    target = load_answering(in_format(open_checkpoint(folders[0]), asked))
    assert target.card.dtype == asked
    assert target.model.get_input_embeddings().weight.dtype == found
    assert target.card.sha256 == load_answering(folders[0]).card.sha256
    # Training on one page takes steps that half precision has, and leaves the weights as they were.
    before = {name: weights.clone() for name, weights in target.model.named_parameters()}
    exact, rounded = (adapted(one, corpus) for one in (load_answering(folders[0]), target))
    assert np.frombuffer(rounded) == pytest.approx(np.frombuffer(exact), rel=0.02)
    after = dict(target.model.named_parameters())
    assert all(torch.equal(weights, after[name]) for name, weights in before.items())
    assert [one.dtype for one in before.values()] == [one.dtype for one in after.values()]


def test_a_model_that_points_at_answers_is_trained_on_a_page_from_half_precision(
    corpus: Corpus, tmp_path: Path
) -> None:
    folder = open_checkpoint(extractive_zoo.write_extractive(tmp_path / "pointing", "bert"))
    exact, rounded = (adapted(load_extractive(one), corpus) for one in (folder, in_format(folder, "bfloat16")))
    assert np.frombuffer(rounded) == pytest.approx(np.frombuffer(exact), rel=0.05)


def test_the_free_memory_of_a_machine_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info, group = tmp_path / "meminfo", tmp_path / "group"
    group.mkdir()
    info.write_text("MemTotal:  900 kB\nMemAvailable:  500 kB\n")
    monkeypatch.setattr(memory, "_MEMINFO", info)
    monkeypatch.setattr(memory, "_CGROUP", group)
    assert memory.free_bytes("cpu") == 500 * 1024
    for name, text in (
        ("memory.max", "1000\n"),
        ("memory.current", "900\n"),
        ("memory.stat", "anon 5\ninactive_file 50\n"),
    ):
        (group / name).write_text(text)
    assert memory.free_bytes("cpu") == 150
    (group / "memory.max").write_text("max\n")
    assert memory.free_bytes("cpu") == 500 * 1024
    info.unlink()
    assert memory.free_bytes("cpu") == float("inf")
