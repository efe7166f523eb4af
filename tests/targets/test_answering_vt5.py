"""VT5 as the paper describes it and what its reader lays before it.

UDOP's reader beside transformers' processor.
"""

from pathlib import Path
from typing import Any

import pytest
import text_answering_checkpoints as tiny_text
import tiny
import torch
from transformers import BeitModel, T5Config, T5ForConditionalGeneration

from audit.corpus.documents import Word
from audit.corpus.images import PageView
from audit.errors import TargetError
from audit.extensions.papers import vt5_reader
from audit.extensions.papers.vt5 import VT5ForConditionalGeneration
from audit.targets.answering.layout import UdopReader, boxes_of, udop_reader
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.batching import STEP
from audit.targets.encoded_page import NOT_READ
from benchmarks.tools.starts import start_words_from

N_PAGES = 3
N_TOKENS = 20
N_ANSWER = 5
OWN_TOKENS = (11, 15, 20)
PAGE = PageView(
    (Word("total", (10.0, 26.0, 50.0, 39.0)), Word("9.00", (150.0, 26.0, 200.0, 260.0))),
    tiny.SIZE,
    lambda: tiny.page_image(tiny.documents(1, 0, 0)[0]),
)
ASKED = Sample(PAGE, "what total?", "9.00")


def inputs(visual: bool = True) -> dict[str, torch.Tensor]:
    """Pages of `OWN_TOKENS` tokens, padded on the right."""
    rng = torch.Generator().manual_seed(1)
    mask = (torch.arange(N_TOKENS)[None] < torch.tensor(OWN_TOKENS)[:, None]).long()
    made = {
        "input_ids": torch.randint(3, 60, (N_PAGES, N_TOKENS), generator=rng) * mask,
        "bbox": torch.randint(0, 1001, (N_PAGES, N_TOKENS, 4), generator=rng) * mask[..., None],
        "attention_mask": mask,
    }
    size = (N_PAGES, 3, tiny_text.PICTURE, tiny_text.PICTURE)
    return {**made, "pixel_values": torch.randn(size, generator=rng)} if visual else made


def labels() -> torch.Tensor:
    made = torch.randint(3, 60, (N_PAGES, N_ANSWER), generator=torch.Generator().manual_seed(2))
    made[0, 3:] = NOT_READ
    return made


def one(
    page: int, of: dict[str, torch.Tensor], n_tokens: int | None = None
) -> dict[str, torch.Tensor]:
    """One page, cut or padded to `n_tokens`; None: without any padding."""
    length = OWN_TOKENS[page] if n_tokens is None else n_tokens
    row = {name: value[page : page + 1] for name, value in of.items()}
    for name in ("input_ids", "bbox", "attention_mask"):
        wide = torch.zeros((1, length, *row[name].shape[2:]), dtype=torch.long)
        kept = min(length, N_TOKENS)
        wide[:, :kept] = row[name][:, :kept]
        row[name] = wide
    return row


@pytest.fixture(scope="module", params=[True, False], ids=["seeing", "blind"])
def visual(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def model(visual: bool) -> Any:
    return tiny_text.vt5_model(visual=visual)


@pytest.fixture(scope="module")
def vt5_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_text.make_vt5(tmp_path_factory.mktemp("vt5"))


@pytest.fixture(scope="module")
def udop_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_text.make_udop(tmp_path_factory.mktemp("udop"))


def vt5_reader_of(folder: Path, prompt: str | None = None, **settings: Any) -> vt5_reader.VT5Reader:
    return vt5_reader.reader_of(folder, tiny_text.vt5_config(**settings), prompt)


def test_the_encoder_reads_words_plus_boxes_then_visual_tokens() -> None:
    """Its input, made by hand as the paper writes it, through transformers' plain T5."""
    model = tiny_text.vt5_model()
    made = one(0, inputs())
    settings = {
        **tiny_text.SIZES,
        "vocab_size": model.config.vocab_size,
        "decoder_start_token_id": 0,
    }
    plain = T5ForConditionalGeneration(T5Config(**settings))
    lacking = plain.load_state_dict(model.state_dict(), strict=False).missing_keys
    assert not lacking
    x0, y0, x1, y1 = made["bbox"].unbind(-1)
    horizontal = model.encoder.boxes.horizontal.weight
    vertical = model.encoder.boxes.vertical.weight
    text = (
        model.shared.weight[made["input_ids"]]
        + horizontal[x0]
        + vertical[y0]
        + horizontal[x1]
        + vertical[y1]
    )
    patches = model.encoder.visual.patches(made["pixel_values"]).last_hidden_state
    assert patches.shape[1] == 1 + (tiny_text.PICTURE // 8) ** 2 == model.config.n_visual
    joined = torch.cat([text, model.encoder.visual.projection(patches)], 1)
    want = plain.eval()(inputs_embeds=joined, labels=labels()[:1])
    got = model(**made, labels=labels()[:1])
    torch.testing.assert_close(got.logits, want.logits)
    torch.testing.assert_close(got.loss, want.loss)


@pytest.mark.parametrize("n_tokens", [None, 20, 40])
def test_padding_changes_nothing(model: Any, visual: bool, n_tokens: int | None) -> None:
    made = inputs(visual)
    want = model(**made, labels=labels()).logits
    for page in range(N_PAGES):
        got = model(**one(page, made, n_tokens), labels=labels()[page : page + 1]).logits
        torch.testing.assert_close(got, want[page : page + 1], rtol=1e-4, atol=1e-4)


def test_gradients_reach_every_parameter(visual: bool) -> None:
    model = tiny_text.vt5_model(visual=visual)
    model(**inputs(visual), labels=labels()).loss.backward()
    untouched = [
        name
        for name, weights in model.named_parameters()
        if weights.grad is None or not weights.grad.any()
    ]
    # A bias of keys shifts all scores of a query alike, so its gradient is zero but for rounding.
    assert [name for name in untouched if not name.endswith("k_proj.bias")] == []


def test_what_is_missing_is_refused(model: Any, visual: bool) -> None:
    made = inputs(visual)
    with pytest.raises(ValueError, match="bbox is missing"):
        model(**{name: value for name, value in made.items() if name != "bbox"}, labels=labels())
    other = inputs(not visual)
    with pytest.raises(ValueError, match="visual branch"):
        model(**other, labels=labels())


def test_words_can_start_as_another_models(visual: bool) -> None:
    model = tiny_text.vt5_model(visual=visual)
    matrix = (
        torch.randn(model.shared.weight.shape, generator=torch.Generator().manual_seed(3)) * 0.05
    )
    start_words_from(model, matrix)
    words = model.shared.weight
    assert float(words.detach().square().mean().sqrt()) == pytest.approx(
        model.config.initializer_factor
    )
    torch.testing.assert_close(words / words[0].norm(), matrix / matrix[0].norm())
    for tied in (model.encoder.embed_tokens, model.decoder.embed_tokens, model.lm_head):
        assert tied.weight is words
    with pytest.raises(ValueError, match="the matrix is"):
        start_words_from(model, matrix[:, :-1])
    with pytest.raises(ValueError, match="not finite"):
        start_words_from(model, matrix * float("nan"))


def test_t5_and_dit_weights_can_be_its_start(tmp_path: Path) -> None:
    """The two procedures of the module's documentation."""
    settings = {
        **tiny_text.SIZES,
        "vocab_size": len(tiny_text.t5_tokenizer()),
        "decoder_start_token_id": 0,
    }
    t5 = T5ForConditionalGeneration(T5Config(**settings))
    config = tiny_text.vt5_config()
    t5.save_pretrained(tmp_path)
    known = T5Config.from_pretrained(tmp_path).to_dict() | {
        "model_type": "docaudit-vt5",
        "visual": config.visual,
    }
    model = VT5ForConditionalGeneration.from_pretrained(tmp_path, config=type(config)(**known))
    for name, weights in t5.state_dict().items():
        assert torch.equal(model.state_dict()[name], weights)
    dit = BeitModel(config.visual, add_pooling_layer=False)
    model.encoder.visual.patches.load_state_dict(dit.state_dict())
    pixels = inputs()["pixel_values"][:1]
    want = dit.eval()(pixels).last_hidden_state
    assert torch.equal(model.eval().encoder.visual.patches(pixels).last_hidden_state, want)


def test_the_reader_lays_out_question_words_end_and_padding(vt5_folder: Path) -> None:
    reader = vt5_reader_of(vt5_folder)
    made = reader.taught([ASKED])
    tokenizer = tiny_text.t5_tokenizer()
    prompt = tokenizer.encode("question: what total? context:", add_special_tokens=False)
    total, amount = (tokenizer.encode(word, add_special_tokens=False) for word in ("total", "9.00"))
    ids = [*prompt, *total, *amount, 1]
    boxes = (
        [[0, 0, 1000, 1000]] * len(prompt)
        + [[50, 100, 250, 150]] * len(total)
        + [[750, 100, 1000, 1000]] * len(amount)
    )
    n = len(ids)
    assert (made["input_ids"][0, :n].tolist(), made["bbox"][0, : n - 1].tolist()) == (ids, boxes)
    assert made["attention_mask"][0].tolist() == [1] * n + [0] * (made["input_ids"].shape[1] - n)
    assert made["input_ids"].shape[1] > n
    assert not made["input_ids"][0, n:].any()
    assert not made["bbox"][0, n - 1 :].any()
    assert made["labels"].tolist() == [[*amount, 1]]
    assert made["pixel_values"].shape == (1, 3, *(reader.resolution or ()))


def test_samples_that_are_alike_are_padded_as_if_alone(vt5_folder: Path) -> None:
    reader = vt5_reader_of(vt5_folder)
    samples = [Sample(PAGE, "w" * n) for n in (1, 2, 40)]
    first, second, long = map(reader.alike, samples)
    assert first == second != long
    together = reader.prompts(samples[:2])
    for row, sample in enumerate(samples[:2]):
        for name, value in reader.prompts([sample]).items():
            assert torch.equal(together[name][row], value[0])
    assert reader.alike(Sample(PAGE, "w", "ab")) != reader.alike(Sample(PAGE, "w", "abc"))


def test_a_long_page_loses_its_last_words_but_not_its_end(vt5_folder: Path) -> None:
    words = tuple(Word("total", (0.0, 0.0, 100.0, 10.0)) for _ in range(100))
    reader = vt5_reader_of(vt5_folder, max_input_tokens=64)
    made = reader.prompts([Sample(PageView(words, PAGE.size, PAGE.open_page), "who?")])
    assert int(made["attention_mask"].sum()) == 64 == reader.max_tokens
    assert (made["input_ids"][0, 63], made["bbox"][0, 62].tolist()) == (1, [0, 0, 500, 38])


@pytest.mark.parametrize("module", ["vt5", "udop"])
def test_marks_of_special_tokens_on_a_page_are_text(
    module: Any, vt5_folder: Path, udop_folder: Path
) -> None:
    reader = vt5_reader_of(vt5_folder) if module == "vt5" else udop_reader_of(udop_folder)
    page = PageView((Word("</s>", (0.0, 0.0, 10.0, 10.0)),), PAGE.size, PAGE.open_page)
    n_ends = [
        int((reader.prompts([Sample(view, "who?")])["input_ids"] == 1).sum())
        for view in (page, PAGE)
    ]
    assert n_ends[0] == n_ends[1]
    answered = reader.taught([Sample(PAGE, "</s>", "</s>")])["labels"][0].tolist()
    assert answered.index(1) == len(answered) - 1


@pytest.mark.parametrize("answer", ["9.00", "anna berg", "http://a.b/c", "rm 1,234.50"])
@pytest.mark.parametrize("module", ["vt5", "udop"])
def test_an_answers_tokens_spell_it(
    module: Any, answer: str, vt5_folder: Path, udop_folder: Path
) -> None:
    reader = vt5_reader_of(vt5_folder) if module == "vt5" else udop_reader_of(udop_folder)
    assert (
        reader.text_of([0, *reader.taught([Sample(PAGE, "who?", answer)])["labels"][0].tolist(), 0])
        == answer
    )


def test_pages_without_words_or_image(vt5_folder: Path, udop_folder: Path) -> None:
    empty = PageView((), PAGE.size, PAGE.open_page)
    for reader in (vt5_reader_of(vt5_folder), udop_reader_of(udop_folder)):
        assert reader.prompts([Sample(empty, "who?")])["attention_mask"].sum() > 4
        with pytest.raises(TargetError, match="without an image"):
            reader.prompts([Sample(PageView(PAGE.words, PAGE.size), "who?")])
        with pytest.raises(TargetError, match="without boxes"):
            reader.prompts([Sample(PageView((Word("a"),), PAGE.size, PAGE.open_page), "who?")])


def test_a_blind_vt5_needs_no_image(tmp_path: Path) -> None:
    tiny_text.make_vt5(tmp_path, visual=False)
    reader = vt5_reader_of(tmp_path, visual=False)
    assert (reader.needs_image, reader.resolution) == (False, None)
    assert "pixel_values" not in reader.prompts([Sample(PageView(PAGE.words, PAGE.size), "who?")])


@pytest.mark.parametrize(
    "prompt", ["context: {words}", "question: {question}", "{words} question: {question}"]
)
def test_a_prompt_without_its_places_is_refused(
    vt5_folder: Path, udop_folder: Path, prompt: str
) -> None:
    for reader_of, folder in ((vt5_reader_of, vt5_folder), (udop_reader_of, udop_folder)):
        if "{question}" not in prompt or reader_of is vt5_reader_of:
            with pytest.raises(TargetError, match=r"holds \{question\}"):
                reader_of(folder, prompt)


def test_an_image_processor_of_another_size_is_refused(vt5_folder: Path) -> None:
    config = tiny_text.vt5_config()
    config.visual.image_size = 64
    with pytest.raises(TargetError, match="image processor makes images of"):
        vt5_reader.reader_of(vt5_folder, config, None)


def test_boxes_are_thousandths_within_the_page() -> None:
    words = (Word("a", (0.7, 0.0, 50.0, 100.0)), Word("b", (-3.0, 20.0, 130.0, 101.0)))
    assert boxes_of(PageView(words, (100, 100))) == [(7, 0, 500, 1000), (0, 200, 1000, 1000)]


def udop_reader_of(folder: Path, prompt: str | None = None) -> UdopReader:
    return udop_reader(folder, tiny_text.udop_model().config, prompt)


def test_udops_input_is_that_of_transformers_processor(udop_folder: Path) -> None:
    from transformers import AutoImageProcessor, UdopProcessor, UdopTokenizer

    images = AutoImageProcessor.from_pretrained(udop_folder, backend="pil", apply_ocr=False)
    processor = UdopProcessor(images, UdopTokenizer.from_pretrained(udop_folder))
    want = processor(
        images=[PAGE.image],
        text=["Question answering. what total?"],
        text_pair=[[word.text for word in PAGE.words]],
        boxes=[[[50, 100, 250, 150], [750, 100, 1000, 1000]]],
        return_tensors="pt",
    )
    got = udop_reader_of(udop_folder).prompts([ASKED])
    assert {*got} == {*want}
    for name, value in want.items():
        assert torch.equal(got[name], value), name
    labels = processor.tokenizer(text_target="9.00", return_tensors="pt")["input_ids"]
    assert torch.equal(udop_reader_of(udop_folder).taught([ASKED])["labels"], labels)


def test_transformers_udop_sees_no_more_of_thousandths_than_their_order(udop_folder: Path) -> None:
    """What `udop`'s documentation says of boxes: when this fails, transformers takes thousandths and it must change."""
    model = tiny_text.udop_model()
    boxes = (
        (20.0, 40.0, 60.0, 50.0),
        (100.0, 100.0, 180.0, 200.0),
    )  # in the same order from left to right, and down
    words = tuple(Word(word.text, box) for word, box in zip(PAGE.words, boxes, strict=True))
    moved = PageView(words, PAGE.size, PAGE.open_page)

    reader = udop_reader_of(udop_folder)
    inputs = [reader.taught([Sample(view, "who?", "x")]) for view in (PAGE, moved)]
    assert torch.equal(*[model(**given).logits for given in inputs])
    for given in inputs:
        given["bbox"] = given["bbox"] / 1000
    assert not torch.allclose(*[model(**given).logits for given in inputs])


def test_a_udop_sample_fills_a_forward_pass_alone(udop_folder: Path, vt5_folder: Path) -> None:
    assert (load_answering(udop_folder).batch_rows, load_answering(vt5_folder).batch_rows) == (
        1,
        STEP,
    )


def test_a_picture_that_rows_share_is_encoded_once() -> None:
    visual = tiny_text.vt5_model().encoder.visual
    pixels = inputs()["pixel_values"][[0, 0, 1, 1, 0]]
    calls = []
    handle = visual.patches.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        found = visual(pixels)
        handle.remove()
        alone = torch.cat([visual(page[None]) for page in pixels])
    assert len(calls) == 3
    assert torch.equal(found, alone)
