"""Image-text-to-text models of every family in the zoo: read, asked and taught as transformers itself does it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from answering_checkpoints import ENDS
from PIL import Image
from vlm_zoo import TEMPLATES, ZOO, lacking, write_vlm

from audit.corpus.page_view import PageView
from audit.errors import TargetError
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.answering.target import AnsweringTarget
from audit.targets.encoded_page import NOT_READ
from audit.targets.interface import Adaptation, AdaptationRule, Answer, AnswerLoss
from audit.targets.table import TABLE

LONGEST = 6
SIZES = ((40, 60), (60, 40))
QUESTIONS = ("What?", "Total!", "Who is it?")
ANSWER = "Anna 9.00"
Folders = Callable[[str], Path]


def view(number: int, size: tuple[int, int] | None = None) -> PageView:
    """A page of noise."""
    width, height = size or SIZES[number % 2]

    def open_page() -> Image.Image:
        noise = np.random.default_rng(number).integers(0, 255, (height, width, 3), dtype=np.uint8)
        return Image.fromarray(noise)

    return PageView((), (width, height), open_page)


ASKED = [Answer(view(number), question) for number, question in enumerate(QUESTIONS)]
TAUGHT = [AnswerLoss(asked.view, asked.question, ANSWER) for asked in ASKED]
SAMPLES = [Sample(taught.view, taught.question, taught.answer) for taught in TAUGHT]


def opened(folder: Path, family: str) -> AnsweringTarget:
    zoo = ZOO[family]
    target = load_answering(folder, prompt=zoo.prompt, batch_rows=1 if zoo.large else None)
    target.reader.max_new_tokens = LONGEST
    return target


@pytest.fixture(scope="module", params=ZOO)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def target(family: str, vlms: Folders) -> AnsweringTarget:
    return opened(vlms(family), family)


def by_hand(folder: Path, family: str, asked: Answer) -> dict[str, torch.Tensor]:
    """What transformers' own processor makes of a page's image and a question, for `generate`."""
    from transformers import AutoProcessor

    processor, zoo = AutoProcessor.from_pretrained(folder), ZOO[family]
    if zoo.template is None:
        text = str(zoo.prompt).replace("{question}", asked.question)
        read = processor(images=asked.view.image, text=text, return_tensors="pt")
        return {name: read[name] for name in read if name not in ("labels", "width", "height")}
    content = [{"type": "image", "image": asked.view.image}, {"type": "text", "text": asked.question}]
    return dict(
        processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
    )


def test_a_batch_of_many_is_as_many_batches_of_one(target: AnsweringTarget) -> None:
    together, losses = target.ask(ASKED), target.ask(TAUGHT)
    assert len({loss.mean() for loss in losses}) == len(TAUGHT)
    assert [vars(target.ask([asked])[0]) for asked in ASKED] == [vars(reply) for reply in together]
    for taught, loss in zip(TAUGHT, losses, strict=True):
        np.testing.assert_array_equal(target.ask([taught])[0], loss)


def test_answers_are_those_of_generate_on_what_the_processor_makes(
    family: str, target: AnsweringTarget, vlms: Folders
) -> None:
    model = type(target.model).from_pretrained(vlms(family)).eval()
    ends = sorted({*target.reader.ends, *np.atleast_1d(model.generation_config.eos_token_id).tolist()})
    for asked, reply in zip(ASKED[:2], target.ask(ASKED[:2]), strict=True):
        inputs = by_hand(vlms(family), family, asked)
        sequence = model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=LONGEST, eos_token_id=ends)
        begin = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
        own = sequence[0, begin:].tolist()
        assert reply.ended == (own[-1] in ends)
        assert reply.text == target.reader.text_of(own[:-1] if reply.ended else own)


def test_losses_are_the_models_own_and_read_the_answer_and_its_end_alone(target: AnsweringTarget) -> None:
    for taught, sample in zip(TAUGHT, SAMPLES, strict=True):
        inputs = target.reader.taught([sample])
        with torch.no_grad():
            own = target.model(**inputs).loss.item()
        assert -target.ask([taught])[0].mean() == pytest.approx(own, rel=1e-4)
    target.reader.max_new_tokens = 20
    try:
        labels = target.reader.taught(SAMPLES[:1])["labels"][0]
    finally:
        target.reader.max_new_tokens = LONGEST
    read = labels[labels != NOT_READ].tolist()
    assert target.reader.text_of(read) == ANSWER
    assert read[-1] in target.reader.ends
    assert len(read) <= len(ANSWER) + 2  # with its end, and the space that some templates put before it


def test_pages_of_all_sizes_are_trained_on_together_as_alone(family: str, target: AnsweringTarget) -> None:
    samples = SAMPLES[:2] if ZOO[family].large else SAMPLES
    inputs = target.reader.taught(samples)
    n_read = [(target.reader.taught([sample])["labels"] != NOT_READ).sum().item() for sample in samples]
    with torch.no_grad():
        alone = [target.model(**target.reader.taught([sample])).loss.item() for sample in samples]
        together = target.model(**inputs).loss.item()
    assert together == pytest.approx(np.average(alone, weights=n_read), rel=1e-3)


def test_a_model_takes_to_an_answer_and_is_put_back(target: AnsweringTarget) -> None:
    before = target.ask(TAUGHT[:1])[0]
    (adapted,) = target.ask([Adaptation(ASKED[0].view, ASKED[0].question, ANSWER, AdaptationRule(max_steps=2))])
    assert adapted.losses[-1] < adapted.losses[0]
    assert adapted.distance > 0
    np.testing.assert_array_equal(target.ask(TAUGHT[:1])[0], before)


def test_the_page_decides_the_answer(target: AnsweringTarget) -> None:
    pages = [view(number, SIZES[0]) for number in (5, 6)]
    one, other = target.ask([AnswerLoss(page, "What?", ANSWER) for page in pages])
    assert not np.array_equal(one, other)


def test_the_zoo_holds_every_family_that_messages_name() -> None:
    assert {family.removesuffix("-t5") for family in ZOO} == set(TABLE["answering"]["seeing"])


@pytest.mark.parametrize("family", [name for name in ZOO if lacking(name)])
def test_a_missing_library_is_named_with_the_command_that_installs_it(family: str, tmp_path: Path) -> None:
    folder = write_vlm(tmp_path / family, family)
    with pytest.raises(
        TargetError, match=f"its processor needs {lacking(family)[0]}, which is not installed"
    ) as caught:
        load_answering(folder)
    assert caught.value.hint == "pip install 'docaudit[vision]'"


def test_a_processor_that_asks_for_torchvision_where_there_is_none_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    def refuse(*_: Any, **__: Any) -> None:
        raise ImportError("PixtralProcessor requires the Torchvision library but it was not found.")

    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", refuse)
    monkeypatch.setattr("audit.targets.answering.processed.find_spec", lambda name: None)
    folder = write_vlm(tmp_path / "mistral3", "mistral3")
    with pytest.raises(TargetError, match="its processor needs torchvision, which is not installed") as caught:
        load_answering(folder)
    assert caught.value.hint == "pip install 'docaudit[vision]'"


@pytest.mark.parametrize("family", [name for name, zoo in ZOO.items() if zoo.template is None])
def test_without_template_and_prompt_the_hint_is_a_prompt_that_works(family: str, vlms: Folders) -> None:
    with pytest.raises(TargetError, match="no chat template") as caught:
        load_answering(vlms(family))
    example = caught.value.hint.partition('prompt = "')[2].partition('"')[0].replace("\\n", "\n")
    assert load_answering(vlms(family), prompt=example).card.task == "question-answering"


def test_paligemma_is_taught_with_the_suffix_of_its_own_processor(vlms: Folders) -> None:
    from transformers import AutoProcessor

    reader = load_answering(vlms("paligemma"), prompt=ZOO["paligemma"].prompt).reader
    taught = reader.taught(SAMPLES[:1])
    own = AutoProcessor.from_pretrained(vlms("paligemma"))(
        images=SAMPLES[0].view.image, text="<image>answer en What?", suffix=ANSWER, return_tensors="pt"
    )
    assert set(own) == set(taught)
    assert all(torch.equal(taught[name], own[name]) for name in own)


def first_turn(target: AnsweringTarget) -> str:
    ids = target.reader.prompts([Sample(ASKED[0].view, "What?")])["input_ids"][0].tolist()
    return str(target.reader._tokenizer.decode(ids))  # type: ignore[attr-defined]


def test_a_recipe_may_name_the_system_turn_and_the_users(vlms: Folders) -> None:
    target = load_answering(vlms("gemma3"), prompt="Q: {question} A:", system="Read the bill.")
    assert "<start_of_turn>system\nRead the bill.<end_of_turn>" in first_turn(target)
    assert first_turn(target).endswith("Q: What? A:<end_of_turn>\n<start_of_turn>model\n")
    bare = load_answering(vlms("gemma3"))
    losses = [one.ask(TAUGHT[:1])[0] for one in (bare, target)]
    assert not np.array_equal(*losses)


def test_a_system_turn_that_no_one_would_read_is_refused(vlms: Folders, tmp_path: Path) -> None:
    deaf = TEMPLATES["spoken"].replace("in messages %}", "in messages if turn.role != 'system' %}")
    folder = write_vlm(tmp_path / "llava", "llava", template=deaf)
    assert load_answering(folder).card.family == "llava"
    with pytest.raises(TargetError, match="no system turn"):
        load_answering(folder, system="Read the bill.")
    with pytest.raises(TargetError, match="no system turn"):
        load_answering(vlms("paligemma"), prompt=ZOO["paligemma"].prompt, system="Read the bill.")


def test_a_prompt_with_the_mark_of_the_image_is_the_whole_text(vlms: Folders) -> None:
    target = load_answering(vlms("llava"), prompt="<s><image>\nQ: {question}\nA:")
    text = first_turn(target)
    assert "USER" not in text
    assert text.startswith("<s><image><image>")
    assert text.endswith("\nQ: What?\nA:")
    labels = target.reader.taught(SAMPLES[:1])["labels"][0]
    assert target.reader.text_of(labels[labels != NOT_READ].tolist()) == ANSWER


def test_a_prompt_without_a_place_for_the_image_is_refused(tmp_path: Path) -> None:
    folder = write_vlm(tmp_path / "llava", "llava")
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(TargetError) as caught:
        load_answering(folder, prompt="Q: {question} A:")
    assert "<image>" in caught.value.hint
    assert "[recipe] prompt" in caught.value.hint
    assert load_answering(folder, prompt="<image>Q: {question} A:").card.family == "llava"


def test_a_processor_of_another_model_is_refused_when_it_is_loaded(vlms: Folders, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(vlms("llava"), tmp_path / "llava"))
    settings = json.loads((folder / "processor_config.json").read_text())
    (folder / "processor_config.json").write_text(json.dumps({**settings, "patch_size": 4}))
    with pytest.raises(TargetError, match="cannot read what its processor makes of a page") as caught:
        load_answering(folder)
    assert "processor" in caught.value.hint


def test_a_page_that_becomes_too_many_tokens_is_refused_with_both_sizes(tmp_path: Path) -> None:
    folder = write_vlm(tmp_path / "idefics3", "idefics3", ends=ENDS)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps({**settings, "size": {"longest_edge": 320}}))
    with pytest.raises(TargetError, match=r"a page of 850 x 1100 pixels .* become \d+ tokens, the model takes 1024"):
        load_answering(folder)


def test_large_pages_are_made_as_small_as_the_processors_settings_say(vlms: Folders) -> None:
    reader = load_answering(vlms("idefics3")).reader
    small, large = (reader.prompts([Sample(view(0, size), "What?")]) for size in ((60, 80), (1200, 1600)))
    assert small["pixel_values"].shape == large["pixel_values"].shape
    assert small["input_ids"].shape == large["input_ids"].shape
