"""Image-text-to-text models: prompts, templates and processors.

Test_answering_contract.py asks every family.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from answering_checkpoints import ENDS
from checkpoint_faults import change
from PIL import Image
from vlm_zoo import TEMPLATES, ZOO, write_vlm

from audit.corpus.images import PageView
from audit.errors import TargetError
from audit.targets import TABLE
from audit.targets.answering.loading import _family_of, load_answering
from audit.targets.answering.processed import seeing_reader, stacked_samples
from audit.targets.answering.reader import Sample
from audit.targets.answering.rows import fill_rows
from audit.targets.answering.target import AnsweringTarget
from audit.targets.encoded_page import NOT_READ
from audit.targets.interface import Answer, AnswerLoss

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


def test_the_zoo_holds_every_family_that_messages_name():
    assert {family.removesuffix("-t5") for family in ZOO} == set(TABLE["answering"]["seeing"])


def test_a_processor_that_asks_for_torchvision_where_there_is_none_says_how_to_install_it(
    tmp_path, monkeypatch
):
    def refuse(*_: Any, **__: Any) -> None:
        raise ImportError("PixtralProcessor requires the Torchvision library but it was not found.")

    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", refuse)
    monkeypatch.setattr("audit.targets.answering.pictures.find_spec", lambda name: None)
    folder = write_vlm(tmp_path / "mistral3", "mistral3")
    with pytest.raises(
        TargetError, match="its processor needs torchvision, which is not installed"
    ) as caught:
        load_answering(folder)
    assert caught.value.hint == "pip install 'docaudit[vision]'"


def test_gemma_3n_without_timm_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr("audit.targets.answering.loading.find_spec", lambda name: None)
    folder = write_vlm(tmp_path / "llava", "llava")
    change(
        folder / "config.json",
        model_type="gemma3n",
        architectures=["Gemma3nForConditionalGeneration"],
    )
    with pytest.raises(TargetError, match="gemma3n needs timm, which is not installed") as caught:
        load_answering(folder)
    assert caught.value.hint == "pip install timm"


def test_phi_4_multimodal_is_read_through_its_processor_and_not_as_a_model_of_text():
    config = {"model_type": "phi4_multimodal", "architectures": ["Phi4MultimodalForCausalLM"]}
    family = _family_of(config)
    assert family is not None
    assert family.reader_of is seeing_reader


def test_pictures_that_a_model_packs_in_one_row_are_joined_and_filled_up_side_by_side():
    samples = [
        {"input_ids": torch.tensor([[n]]), "pixel_values": torch.full((1, 3, 2, 4), float(n))}
        for n in (1, 2)
    ]
    packed = frozenset({"pixel_values"})
    batch = fill_rows(stacked_samples(samples, {}, packed), 2, 4, packed)
    assert batch["input_ids"].tolist() == [[1], [2], [1], [1]]
    assert batch["pixel_values"].shape == (1, 3, 2, 16)
    assert batch["pixel_values"][0, 0, 0].tolist() == [1.0] * 4 + [2.0] * 4 + [1.0] * 8


@pytest.mark.parametrize("family", [name for name, zoo in ZOO.items() if zoo.template is None])
def test_without_template_and_prompt_the_hint_is_a_prompt_that_works(family, vlms):
    with pytest.raises(TargetError, match="no chat template") as caught:
        load_answering(vlms(family))
    example = caught.value.hint.partition('prompt = "')[2].partition('"')[0].replace("\\n", "\n")
    assert load_answering(vlms(family), prompt=example).card.task == "question-answering"


def test_paligemma_is_taught_with_the_suffix_of_its_own_processor(vlms):
    from transformers import AutoProcessor

    reader = load_answering(vlms("paligemma"), prompt=ZOO["paligemma"].prompt).reader
    taught = reader.taught(SAMPLES[:1])
    own = AutoProcessor.from_pretrained(vlms("paligemma"))(
        images=SAMPLES[0].view.image,
        text="<image>answer en What?",
        suffix=ANSWER,
        return_tensors="pt",
    )
    assert set(own) == set(taught)
    assert all(torch.equal(taught[name], own[name]) for name in own)


def first_turn(target: AnsweringTarget) -> str:
    ids = target.reader.prompts([Sample(ASKED[0].view, "What?")])["input_ids"][0].tolist()
    return str(target.reader.tokenizer.decode(ids))


def test_a_recipe_may_name_the_system_turn_and_the_users(vlms):
    target = load_answering(vlms("gemma3"), prompt="Q: {question} A:", system="Read the bill.")
    assert "<start_of_turn>system\nRead the bill.<end_of_turn>" in first_turn(target)
    assert first_turn(target).endswith("Q: What? A:<end_of_turn>\n<start_of_turn>model\n")
    bare = load_answering(vlms("gemma3"))
    losses = [one.ask(TAUGHT[:1])[0] for one in (bare, target)]
    assert not np.array_equal(*losses)


def test_a_system_turn_that_no_one_would_read_is_refused(vlms, tmp_path):
    deaf = TEMPLATES["spoken"].replace("in messages %}", "in messages if turn.role != 'system' %}")
    folder = write_vlm(tmp_path / "llava", "llava", template=deaf)
    assert load_answering(folder).card.family == "llava"
    with pytest.raises(TargetError, match="no system turn"):
        load_answering(folder, system="Read the bill.")
    with pytest.raises(TargetError, match="no system turn"):
        load_answering(vlms("paligemma"), prompt=ZOO["paligemma"].prompt, system="Read the bill.")


def test_a_prompt_with_the_mark_of_the_image_is_the_whole_text(vlms):
    target = load_answering(vlms("llava"), prompt="<s><image>\nQ: {question}\nA:")
    text = first_turn(target)
    assert "USER" not in text
    assert text.startswith("<s><image><image>")
    assert text.endswith("\nQ: What?\nA:")
    labels = target.reader.taught(SAMPLES[:1])["labels"][0]
    assert target.reader.text_of(labels[labels != NOT_READ].tolist()) == ANSWER


def test_a_prompt_without_a_place_for_the_image_is_refused(tmp_path):
    folder = write_vlm(tmp_path / "llava", "llava")
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(TargetError) as caught:
        load_answering(folder, prompt="Q: {question} A:")
    assert "<image>" in caught.value.hint
    assert "[recipe] prompt" in caught.value.hint
    assert load_answering(folder, prompt="<image>Q: {question} A:").card.family == "llava"


def test_a_processor_of_another_model_is_refused_when_it_is_loaded(vlms, tmp_path):
    folder = Path(shutil.copytree(vlms("llava"), tmp_path / "llava"))
    change(folder / "processor_config.json", patch_size=4)
    with pytest.raises(
        TargetError, match="cannot read what its processor makes of a page"
    ) as caught:
        load_answering(folder)
    assert "processor" in caught.value.hint


def test_a_page_that_becomes_too_many_tokens_is_refused_with_both_sizes(tmp_path):
    folder = write_vlm(tmp_path / "idefics3", "idefics3", ends=ENDS)
    change(folder / "preprocessor_config.json", size={"longest_edge": 320})
    with pytest.raises(
        TargetError, match=r"a page of 850 x 1100 pixels .* become \d+ tokens, the model takes 1024"
    ):
        load_answering(folder)
