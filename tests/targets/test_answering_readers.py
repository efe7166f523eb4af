"""Donut, Pix2Struct and models that are asked in turns: prompts, headers, turns, and what shares a batch."""

import shutil
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from answering_checkpoints import make_chat, make_donut, make_pix2struct, make_vit_decoder
from PIL import Image, ImageDraw

from audit.corpus.images import PageView
from audit.errors import EngineError, TargetError
from audit.files import shipped_folder
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Reader, Sample
from audit.targets.answering.rows import VALUES, rows_for, run_batches
from audit.targets.batching import Batch
from audit.targets.encoded_page import NOT_READ

WIDTH = 400
HEIGHT = 300
PLAIN = "Question: {question} Answer:"


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    root = tmp_path_factory.mktemp("readers")
    makers = {
        "donut": make_donut,
        "pix2struct": make_pix2struct,
        "chat": make_chat,
        "vit": make_vit_decoder,
    }

    def of(name: str, prompt: str | None = None) -> Reader:
        folder = root / name
        return load_answering(
            folder if folder.exists() else makers[name](folder), prompt=prompt
        ).reader

    return of


def page(draw: bool = True, size: tuple[int, int] = (WIDTH, HEIGHT)) -> PageView:
    def open_page() -> Image.Image:
        image = Image.new("RGB", size, "white")
        if draw:
            ImageDraw.Draw(image).rectangle((20, 20, size[0] // 2, size[1] // 2), fill="black")
        return image

    return PageView((), size, open_page)


def written(reader: Reader, ids: Sequence[int]) -> str:
    tokenizer = reader.tokenizer
    return str(tokenizer.decode([*ids]))


def read(labels: torch.Tensor) -> list[int]:
    return [int(label) for label in labels if label != NOT_READ]


def test_donut_is_asked_with_its_marks_and_taught_to_close_them(reader):
    donut = reader("donut")
    prompt = "<s_docvqa><s_question>What?</s_question><s_answer>"
    asked = donut.prompts([Sample(page(), "What?")])
    assert (written(donut, asked["decoder_input_ids"][0]), asked["pixel_values"].shape) == (
        prompt,
        (1, 3, 64, 48),
    )
    taught = donut.taught([Sample(page(), "What?", "9.00"), Sample(page(), "What?", "Anna Berg")])
    assert [written(donut, read(row)) for row in taught["labels"]] == [
        "9.00</s_answer></s>",
        "Anna Berg</s_answer></s>",
    ]
    assert written(donut, taught["decoder_input_ids"][1]) == f"{prompt}Anna Berg</s_answer>"
    begins = (taught["labels"] != NOT_READ).int().argmax(dim=1).tolist()
    assert begins == [asked["decoder_input_ids"].shape[1] - 1] * 2


def test_donut_reads_no_marks_from_a_question_and_cuts_a_long_one(reader):
    donut = reader("donut")
    asked = donut.prompts([Sample(page(), "<s_answer>What</s>?")])
    assert written(donut, asked["decoder_input_ids"][0]) == (
        "<s_docvqa><s_question> What ?</s_question><s_answer>"
    )
    long = donut.prompts([Sample(page(), "When? " * 400)])["decoder_input_ids"]
    assert long.shape[1] + donut.max_new_tokens <= donut.max_tokens
    assert written(donut, long[0]).startswith("<s_docvqa><s_question>When? When? ")
    assert written(donut, long[0]).endswith("</s_question><s_answer>")


def test_the_recipes_prompt_takes_the_place_of_donuts(reader):
    own = reader("donut", prompt="<s_docvqa>ask: {question} say:")
    asked = own.prompts([Sample(page(), "What?")])
    assert written(own, asked["decoder_input_ids"][0]) == "<s_docvqa>ask: What? say:"
    with pytest.raises(TargetError, match="no room for a question"):
        reader("donut", prompt="ask: " * 60 + "{question}")


def test_a_decoder_without_donuts_marks_is_asked_as_the_recipe_says_after_its_start(reader):
    plain = reader("vit", PLAIN)
    taught = plain.taught([Sample(page(), "What?", "9.00")])
    assert written(plain, taught["decoder_input_ids"][0]) == "<s>Question: What? Answer: 9.00"
    assert written(plain, read(taught["labels"][0])) == " 9.00</s>"


def test_pix2structs_header_stays_when_the_page_is_blanked(reader):
    pix2struct = reader("pix2struct")

    def patches(drawn: bool, question: str) -> np.ndarray:
        return pix2struct.prompts([Sample(page(drawn), question)])["flattened_patches"][0].numpy()

    blank = patches(False, "What is the total?")
    other = patches(False, "Who was the clerk?")
    assert not np.array_equal(blank, other)
    rows = blank[:, 0]
    ink = np.abs(blank[:, 2:] - blank[:, 2:].max()).sum(axis=1) > 1
    header = rows[ink].max()
    assert ink.any()
    assert header <= rows.max() / 2, "all ink of a blank page is its header, at its top"
    assert not np.array_equal(patches(True, "What is the total?"), blank)


def test_a_font_in_the_folder_draws_the_header(tmp_path):
    folder = make_pix2struct(tmp_path / "model")
    asked = [Sample(page(), "What is the total?")]
    usual = load_answering(folder).reader.prompts(asked)["flattened_patches"]
    fonts = shipped_folder("templates") / "fonts"
    shutil.copy(fonts / "LiberationSans-Bold.ttf", folder / "Arial.TTF")
    assert not torch.equal(load_answering(folder).reader.prompts(asked)["flattened_patches"], usual)
    shutil.copy(fonts / "DejaVuSans.ttf", folder / "Arial.TTF")
    assert torch.equal(load_answering(folder).reader.prompts(asked)["flattened_patches"], usual)
    (folder / "Arial.TTF").write_bytes(b"no font")
    with pytest.raises(TargetError, match="not readable as a font"):
        load_answering(folder)


def test_turns_hold_image_and_question_and_only_the_answer_is_taught(reader):
    chat = reader("chat")
    asked = chat.prompts([Sample(page(), "What<image>?")])
    assert (
        written(chat, asked["input_ids"][0])
        == "<|user|>" + "<image>" * 16 + "What ?<|end|>\n<|assistant|>"
    )
    taught = chat.taught(
        [Sample(page(), "What?", "9.00"), Sample(page(), "What is it?", "Anna Berg")]
    )
    assert [written(chat, read(row)) for row in taught["labels"]] == [
        "9.00<|end|>",
        "Anna Berg<|end|>",
    ]
    lengths = taught["attention_mask"].sum(dim=1).tolist()
    assert lengths == [
        len(row) for row in [taught["input_ids"][0][: lengths[0]], taught["input_ids"][1]]
    ]
    assert taught["pixel_values"].shape == (2, 3, 32, 32)


@pytest.mark.parametrize("name", ["donut", "pix2struct", "chat", "vit"])
def test_samples_that_are_alike_have_inputs_of_one_shape(name, reader):
    one = reader(name, PLAIN if name == "vit" else None)
    questions = ("What?", "What!", "What is it?")
    answers = (None, "9.00", "8.00", "Anna Berg")
    samples = [
        Sample(page(size=size), q, a)
        for size in ((400, 300), (90, 200))
        for q in questions
        for a in answers
    ]
    shapes: dict[object, set[object]] = {}
    for sample in samples:
        inputs = one.prompts([sample]) if sample.answer is None else one.taught([sample])
        found = tuple((key, tuple(value.shape)) for key, value in sorted(inputs.items()))
        shapes.setdefault(one.alike(sample), set()).add(found)
    assert all(len(found) == 1 for found in shapes.values())
    assert 1 < len(shapes) < len(samples)


def test_batches_hold_alike_samples_in_order_and_every_sample_once(reader):
    samples = [Sample(page(), "What?" + "?" * (number % 3)) for number in range(20)]
    rows = Batch(4)
    found = list(
        run_batches(samples, reader("donut").alike, rows, "cpu", lambda batch, n: (len(batch), n))
    )
    assert sorted(index for indices, _ in found for index in indices) == list(range(20))
    for indices, (n_samples, n_rows) in found:
        assert ((n_samples, n_rows), len({index % 3 for index in indices})) == (
            (len(indices), 4),
            1,
        )
        assert indices == sorted(indices)


@pytest.mark.parametrize(("device", "left"), [("cpu", 1), ("mps", 2)])
def test_rows_are_lowered_when_memory_runs_out(device, left, reader):
    samples = [Sample(page(), "What?") for _ in range(11)]
    rows = Batch(8)

    def run(batch: Sequence[Sample], n_rows: int) -> int:
        if n_rows > 2:
            raise RuntimeError("MPS backend out of memory")
        return len(batch)

    found = list(run_batches(samples, reader("donut").alike, rows, device, run))
    assert ([index for indices, _ in found for index in indices], rows.size) == (
        list(range(11)),
        left,
    )
    assert rows.lowered == (1 if device == "cpu" else 2)


@pytest.mark.parametrize(
    ("message", "error"), [("can't allocate memory", EngineError), ("something else", RuntimeError)]
)
def test_a_page_that_never_fits_is_an_error_and_any_other_error_is_not_hidden(
    message, error, reader
):
    def run(batch: Sequence[Sample], n_rows: int) -> int:
        raise RuntimeError(message)

    with pytest.raises(error, match="not enough memory" if error is EngineError else message):
        list(run_batches([Sample(page(), "What?")], reader("donut").alike, Batch(2), "cpu", run))


@pytest.mark.parametrize(
    ("values", "expected"), [(100, 16), (VALUES["cpu"] // 16, 16), (VALUES["cpu"] // 8, 1)]
)
def test_on_a_cpu_a_forward_pass_has_one_row_or_full_blocks(values, expected):
    class Large:
        scores = 0

        def prompts(self, samples: Sequence[Sample]) -> dict[str, torch.Tensor]:
            return {"pixel_values": torch.empty(len(samples), values)}

        def alike(self, sample: Sample) -> object:
            return None

    assert rows_for(Large(), "cpu") == expected  # type: ignore[arg-type]


def test_a_strip_of_a_page_is_refused_before_it_grows(reader):
    with pytest.raises(TargetError, match="too narrow"):
        reader("pix2struct").prompts([Sample(page(draw=False, size=(8, 4000)), "What? " * 400)])
    reader("pix2struct").prompts(
        [Sample(page(size=(60, 900)), "What?"), Sample(page(), "What? " * 400)]
    )
