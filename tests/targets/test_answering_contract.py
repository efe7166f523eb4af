"""One contract for every family of models that answer questions.

A family joins by a row in `FAMILIES`, or in the zoo of models that read text or see pages through a
processor, which is asked less.
"""

import copy
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from answering_checkpoints import (
    DONUT_MARKS,
    make_chat,
    make_donut,
    make_pix2struct,
    make_vit_decoder,
)
from PIL import Image
from text_answering_checkpoints import make_udop, make_vt5
from text_zoo import NAMES, prompt_of, write_text_model
from transformers.models.pix2struct import image_processing_pil_pix2struct
from vlm_zoo import ZOO

from audit.corpus.documents import Corpus, Document, Manifest, Membership, Question, Task, Word
from audit.corpus.images import PageView
from audit.errors import ManifestError, TargetError
from audit.files import shipped_folder
from audit.targets import TABLE
from audit.targets.answering import target as answering
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import PictureReader, Sample, special_tokens
from audit.targets.answering.target import AnsweringTarget
from audit.targets.batching import STEP, Batch
from audit.targets.encoded_page import NOT_READ
from audit.targets.encoders.forward import outputs_of
from audit.targets.interface import Answer, AnswerLoss, BestTokens

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Family:
    """A family of models that answer questions.

    Attributes:
        make: writes a tiny checkpoint; None: one of the zoo that sees pages.
        by_hand: what transformers' own classes make of a page's image and a question, for
            `generate`; None: the family's inputs are compared with transformers' elsewhere, and
            what its reader gives is taken here.
        spells: whether an answer's text is taught as the very tokens that were generated (no space
            goes before it).
        prompt: what the manifest's recipe names, where the checkpoint itself does not say how it is
            asked.
        n: questions that it is asked.
        longest: tokens of an answer here, fewer than the readers ask for: some of these models
            never end one.
        rows: of a forward pass.
    """

    make: Callable[[Path], Path] | None
    by_hand: Callable[[Path, PageView, str], Inputs] | None = None
    spells: bool = False
    prompt: str | None = None
    n: int = 14
    longest: int = 24
    rows: int | None = None


def donut_by_hand(folder: Path, view: PageView, question: str) -> Inputs:
    from transformers import AutoImageProcessor, AutoTokenizer, DonutProcessor

    processor = DonutProcessor(
        AutoImageProcessor.from_pretrained(folder, backend="pil"),
        AutoTokenizer.from_pretrained(folder),
    )
    prompt = f"<s_docvqa><s_question>{question}</s_question><s_answer>"
    ids = processor.tokenizer(prompt, add_special_tokens=False, return_tensors="pt").input_ids
    return {
        "pixel_values": processor(view.image, return_tensors="pt").pixel_values,
        "decoder_input_ids": ids,
    }


def vit_by_hand(folder: Path, view: PageView, question: str) -> Inputs:
    from transformers import AutoImageProcessor, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(folder)(
        f"Question: {question} Answer:", return_tensors="pt"
    ).input_ids
    images = AutoImageProcessor.from_pretrained(folder, backend="pil")
    return {
        "pixel_values": images(view.image, return_tensors="pt").pixel_values,
        "decoder_input_ids": ids,
    }


def pix2struct_by_hand(folder: Path, view: PageView, question: str) -> Inputs:
    from transformers import AutoImageProcessor, AutoTokenizer, Pix2StructProcessor

    images = AutoImageProcessor.from_pretrained(folder, backend="pil")
    words = AutoTokenizer.from_pretrained(folder)
    # transformers would download the font of the header from the Hub.
    font = shipped_folder("templates") / "fonts" / "DejaVuSans.ttf"
    with patch.object(image_processing_pil_pix2struct, "hf_api") as hub:
        hub.return_value.hf_hub_download.return_value = str(font)
        return dict(
            Pix2StructProcessor(images, words)(
                view.image, question, max_patches=48, return_tensors="pt"
            )
        )


def chat_by_hand(folder: Path, view: PageView, question: str) -> Inputs:
    from transformers import AutoProcessor

    content = [{"type": "image", "image": view.image}, {"type": "text", "text": question}]
    processor = AutoProcessor.from_pretrained(folder)
    # Phi-4's processor leaves its template with the tokenizer.
    processor.chat_template = processor.chat_template or processor.tokenizer.chat_template
    return dict(
        processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
    )


def processed_by_hand(prompt: str | None, folder: Path, view: PageView, question: str) -> Inputs:
    if prompt is None:
        return chat_by_hand(folder, view, question)
    from transformers import AutoProcessor

    text = prompt.replace("{question}", question)
    read = AutoProcessor.from_pretrained(folder)(images=view.image, text=text, return_tensors="pt")
    return {name: read[name] for name in read if name not in ("labels", "width", "height")}


FAMILIES = {
    "donut": Family(make_donut, donut_by_hand, spells=True),
    "vit-decoder": Family(make_vit_decoder, vit_by_hand, prompt="Question: {question} Answer:"),
    "pix2struct": Family(make_pix2struct, pix2struct_by_hand, spells=True),
    "chat": Family(partial(make_chat, seed=1), chat_by_hand, spells=True),
    "vt5": Family(make_vt5),
    "udop": Family(make_udop),
}
SEEING = {
    name: Family(
        None,
        partial(processed_by_hand, None if zoo.template else zoo.prompt),
        prompt=zoo.prompt,
        n=3,
        longest=6,
        rows=1 if zoo.large else None,
    )
    for name, zoo in ZOO.items()
}
READING = {
    name: Family(partial(write_text_model, name=name), prompt=prompt_of(name), n=5, longest=12)
    for name in NAMES
}
EVERY = {**FAMILIES, **SEEING, **READING}
SIZES = ((200, 260), (120, 300), (300, 150))
QUESTIONS = ("What?", "What is the total?", "Who!", "date", "total", "Where was it?")
ANSWERS = ("x", "yy", "5.00", "anna berg", "2,000")


def drawn(number: int) -> Image.Image:
    """A page of grey noise over a gradient, another for every number."""
    width, height = SIZES[number % len(SIZES)]
    rng = np.random.default_rng(number)
    noise = rng.integers(0, 255, (height // 10 + 1, width // 10 + 1, 3), dtype=np.uint8)
    return (
        Image.fromarray(noise)
        .resize((width, height))
        .point(lambda value: value // (1 + number % 3))
    )


def view(number: int) -> PageView:
    """A page with an image and some words."""
    texts = ["total", str(number), "paid", "x" * (1 + number % 4)][: 2 + number % 3]
    words = tuple(
        Word(text, (10.0, 20.0 * row, 60.0, 20.0 * row + 12)) for row, text in enumerate(texts, 1)
    )
    return PageView(words, SIZES[number % len(SIZES)], lambda: drawn(number))


ASKED = [Answer(view(number), QUESTIONS[number % len(QUESTIONS)]) for number in range(14)]
TAUGHT = [
    AnswerLoss(asked.view, asked.question, ANSWERS[number % len(ANSWERS)])
    for number, asked in enumerate(ASKED)
]


full = pytest.mark.parametrize("name", FAMILIES, indirect=True)
"""For tests of what all families share a way of, on those with readers of their own."""


@pytest.fixture(scope="module", params=EVERY)
def name(request):
    return str(request.param)


@pytest.fixture(scope="module")
def family(name):
    return EVERY[name]


@pytest.fixture(scope="module")
def folder(name, family, tmp_path_factory, vlms):
    return (
        vlms(name)
        if family.make is None
        else family.make(tmp_path_factory.mktemp("answering") / "model")
    )


def opened(folder: Path, family: Family) -> AnsweringTarget:
    target = load_answering(folder, prompt=family.prompt, batch_rows=family.rows)
    target.reader.max_new_tokens = family.longest
    return target


@pytest.fixture(scope="module")
def target(folder, family):
    return opened(folder, family)


@pytest.fixture(scope="module")
def asked(family):
    return ASKED[: family.n]


@pytest.fixture(scope="module")
def given(target, asked):
    return target.ask(asked)


@pytest.fixture(scope="module")
def plain(target, folder):
    """The checkpoint as transformers alone loads it."""
    return type(target.model).from_pretrained(folder).eval()


def hand_inputs(family: Family, target: AnsweringTarget, folder: Path, asked: Answer) -> Inputs:
    if family.by_hand is not None:
        return family.by_hand(folder, asked.view, asked.question)
    inputs = target.reader.prompts([Sample(asked.view, asked.question)])
    if {*inputs} != {"input_ids", "attention_mask"}:
        return inputs
    row = inputs["attention_mask"][0].bool()
    return {name: value[:, row] for name, value in inputs.items()}


def generated(model: Any, inputs: Inputs, target: AnsweringTarget) -> tuple[torch.Tensor, int]:
    """One sequence as `generate` gives it, and how many of its tokens are the prompt's."""
    ends = sorted({*target.reader.ends, *np.atleast_1d(model.generation_config.eos_token_id)})
    sequence = model.generate(
        **inputs,
        do_sample=False,
        num_beams=1,
        max_new_tokens=target.reader.max_new_tokens,
        eos_token_id=[int(end) for end in ends],
    )
    if not model.config.is_encoder_decoder:
        return sequence, inputs["input_ids"].shape[1]
    prompt = inputs.get("decoder_input_ids", torch.zeros(1, 1)).shape[1]
    begun = "decoder_input_ids" in inputs and not torch.equal(
        sequence[:, :prompt], inputs["decoder_input_ids"]
    )
    return sequence, prompt + begun


def test_answers_and_losses_depend_on_their_queries_alone(target, asked, given):
    taught = TAUGHT[: len(asked)]
    losses = target.ask(taught)
    assert len({answer.text for answer in given}) > 4 or len(
        {loss.mean() for loss in losses}
    ) == len(losses)
    alone = [target.ask([query])[0] for query in asked]
    for others in (alone, target.ask(asked[::-1])[::-1]):
        assert [vars(answer) for answer in others] == [vars(answer) for answer in given]
    one_by_one = [target.ask([query])[0] for query in taught]
    for found, *others in zip(losses, one_by_one, target.ask(taught[::-1])[::-1], strict=True):
        for other in others:
            np.testing.assert_array_equal(found, other)


@full
def test_answers_do_not_depend_on_the_number_of_threads(target, given):
    before = torch.get_num_threads()
    losses = target.ask(TAUGHT[:6])
    torch.set_num_threads(2)
    try:
        answers = target.ask(ASKED)
        others = target.ask(TAUGHT[:6])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [vars(answer) for answer in answers] == [vars(answer) for answer in given]
    for found, other in zip(losses, others, strict=True):
        np.testing.assert_array_equal(found, other)


@full
def test_a_page_that_a_model_sees_by_itself_is_encoded_once_for_all_its_questions(
    target, monkeypatch
):
    if not isinstance(target.reader, PictureReader):
        pytest.skip("questions reach this model's encoder")
    encoded: list[int] = []
    encoder = target.model.get_encoder()
    own = encoder.forward
    monkeypatch.setattr(
        encoder, "forward", lambda *args, **kwargs: (encoded.append(1), own(*args, **kwargs))[1]
    )
    monkeypatch.setattr(target, "rows", Batch(1))
    views = [view(number) for number in range(3)]
    queries = [
        AnswerLoss(one, question, answer)
        for one in views
        for question in QUESTIONS
        for answer in ANSWERS[:2]
    ]
    together = target.ask(queries)
    assert len(encoded) == len(views)
    for query, answer in zip(queries[::7], together[::7], strict=True):
        np.testing.assert_array_equal(target.ask([query])[0], answer)


LONG = [replace(view(number), words=view(0).words * 9) for number in range(2)]
"""Pages with more words than a question has."""


def read_once(
    target: AnsweringTarget, monkeypatch: pytest.MonkeyPatch, device: str = "cuda"
) -> list[int]:
    """From now on what rows begin with is read as on this device.

    Gives how many tokens were read each time.
    """
    own = answering.reads_beginnings
    begin = target._begin
    read = list[int]()
    monkeypatch.setattr(answering, "SHORTEST", 1)
    monkeypatch.setattr(
        answering,
        "reads_beginnings",
        lambda config, card: own(config, replace(card, device=device)),
    )
    monkeypatch.setattr(target, "_begin", lambda row, n: (read.append(n), begin(row, n))[1])
    return read


def test_what_rows_of_a_page_begin_with_is_read_once_and_changes_no_answer(
    name, target, monkeypatch
):
    questions = [Answer(page, question) for page in LONG for question in QUESTIONS[:3]]
    taught = [
        AnswerLoss(one.view, one.question, answer) for one in questions for answer in ANSWERS[2:4]
    ]
    replies = target.ask(questions)
    losses = target.ask(taught)
    read = read_once(target, monkeypatch)
    found = target.ask(questions)
    scored = target.ask(taught)
    known = {
        target.model.config.model_type,
        target.model.config.get_text_config(decoder=True).model_type,
    }
    assert len(read) == (2 * len(LONG) if known <= {*TABLE["answering"]["causal"]} else 0)
    for one, loss in zip(scored, losses, strict=True):
        np.testing.assert_allclose(one, loss, rtol=1e-4, atol=1e-4)
    for reply, other in zip(found, replies, strict=True):
        assert (reply.text, reply.confidence) == (
            other.text,
            pytest.approx(other.confidence, abs=1e-4),
        )


@pytest.mark.parametrize("name", ["chat", "idefics3", "gpt2", "gemma3"], indirect=True)
def test_a_row_that_goes_on_from_what_was_read_depends_on_its_query_alone(target, monkeypatch):
    rounded = target.rounded("bfloat16")
    taught = [
        AnswerLoss(page, question, answer)
        for page in LONG
        for question in QUESTIONS
        for answer in ANSWERS[2:4]
    ]
    plain = rounded.ask(taught)
    assert read_once(rounded, monkeypatch, "cpu") == []
    together = rounded.ask(taught)
    alone = [rounded.ask([query])[0] for query in taught[::5]]
    for one, other, roughly in zip(together[::5], alone, plain[::5], strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, roughly, atol=0.3)


@pytest.mark.parametrize("name", ["chat", "idefics3", "gpt2", "donut"], indirect=True)
def test_a_decoder_scores_little_more_than_the_answer(target):
    with outputs_of(target.model.get_output_embeddings()) as scores:
        (loss,) = target.ask([AnswerLoss(LONG[0], "What?", "5.00")])
    assert scores[0].shape[1] <= len(loss) + 3 * STEP


@pytest.mark.parametrize(
    ("device", "dtype", "changes", "reads"),
    [
        ("cpu", "float32", {}, False),
        ("cpu", "bfloat16", {}, True),
        ("cuda", "float32", {}, True),
        ("cuda", "bfloat16", {"rope_parameters": {"rope_type": "longrope"}}, False),
        ("cuda", "bfloat16", {"model_type": "unheard-of"}, False),
    ],
)
@pytest.mark.parametrize("name", ["gpt2"], indirect=True)
def test_beginnings_are_read_once_where_no_last_bit_of_float32_on_a_cpu_changes(
    device, dtype, changes, reads, target
):
    config = copy.copy(target.model.config)
    vars(config).update(changes)
    assert (
        answering.reads_beginnings(config, replace(target.card, device=device, dtype=dtype))
        is reads
    )


def test_answers_are_those_of_generate_called_by_hand(family, folder, target, plain, asked, given):
    for query, answer in zip(asked, given, strict=True):
        sequence, n_prompt = generated(plain, hand_inputs(family, target, folder, query), target)
        own = sequence[0, n_prompt:].tolist()
        ended = own[-1] in {
            *target.reader.ends,
            *np.atleast_1d(plain.generation_config.eos_token_id),
        }
        assert (answer.text, answer.ended) == (
            target.reader.text_of(own[:-1] if ended else own),
            ended,
        )


@full
def test_confidence_is_the_product_of_the_probabilities_of_the_tokens(
    family, folder, target, plain, given
):
    for asked, answer in list(zip(ASKED, given, strict=True))[:6]:
        inputs = hand_inputs(family, target, folder, asked)
        sequence, n_prompt = generated(plain, inputs, target)
        name = "decoder_input_ids" if plain.config.is_encoder_decoder else "input_ids"
        whole = {**inputs, name: sequence}
        if name == "input_ids":
            whole["attention_mask"] = torch.ones_like(sequence)
        with torch.no_grad():
            log_probabilities = plain(**whole).logits[0, n_prompt - 1 : -1].double().log_softmax(-1)
        own = sequence[0, n_prompt:]
        silent = {*target.reader.forbidden, *np.atleast_1d(plain.generation_config.eos_token_id)}
        spoken = [
            row[token].item()
            for row, token in zip(log_probabilities, own, strict=True)
            if int(token) not in silent
        ]
        assert (answer.n_tokens, answer.confidence) == (
            len(spoken),
            pytest.approx(np.exp(sum(spoken)), rel=1e-4),
        )


def test_minus_the_mean_log_probability_is_the_models_own_loss(family, target, plain):
    for taught, found in zip(TAUGHT[: family.n], target.ask(TAUGHT[: family.n]), strict=True):
        inputs = target.reader.taught([Sample(taught.view, taught.question, taught.answer)])
        with torch.no_grad():
            assert -found.mean() == pytest.approx(plain(**inputs).loss.item(), rel=1e-4)
        assert (found <= 0).all()


def test_labels_are_the_answer_and_its_end(family, target, monkeypatch):
    monkeypatch.setattr(target.reader, "max_new_tokens", 24)
    for taught in TAUGHT[: family.n]:
        labels = target.reader.taught([Sample(taught.view, taught.question, taught.answer)])[
            "labels"
        ][0]
        read = labels[labels != NOT_READ].tolist()
        said = [token for token in read if token not in target.reader.forbidden]
        # Tokenizers of small letters only write what they know.
        assert (
            target.reader.text_of(said).replace(" ", "").lower()
            in taught.answer.replace(" ", "").lower()
        )
        assert len(said) >= len(taught.answer.replace(" ", "")) - 2
        assert read[-1] in target.reader.ends
        begin = read.index(said[0])
        assert begin <= 1, "BART is taught the token that begins a text too"
        assert read[begin : begin + len(said)] == said


@pytest.mark.parametrize(
    "name", [name for name, one in FAMILIES.items() if one.spells], indirect=True
)
def test_an_answer_given_and_taught_is_equally_likely(target, given):
    spelt = [
        (asked, answer)
        for asked, answer in zip(ASKED, given, strict=True)
        if answer.ended and len(answer.text) == answer.n_tokens > 0
    ]
    assert len(spelt) > 4
    losses = target.ask(
        [AnswerLoss(asked.view, asked.question, answer.text) for asked, answer in spelt]
    )
    for (_, answer), loss in zip(spelt, losses, strict=True):
        assert np.exp(loss[: answer.n_tokens].sum()) == pytest.approx(answer.confidence, rel=1e-4)


@full
def test_long_answers_and_questions_are_bounded(target):
    long = "9.00 and more " * 150
    (loss,) = target.ask([AnswerLoss(view(1), "What?", long)])
    assert len(loss) == target.reader.max_new_tokens
    assert np.isfinite(loss).all()
    (answer,) = target.ask([Answer(view(1), long)])
    assert 0 <= answer.confidence <= 1


@full
def test_a_generation_that_never_ends_is_cut_off(family, target, monkeypatch):
    settings = target.model.generation_config
    monkeypatch.setattr(
        settings, "suppress_tokens", [*settings.eos_token_id, *target.reader.forbidden]
    )
    for answer in target.ask(ASKED[:3]):
        assert not answer.ended
        assert answer.n_tokens == family.longest


@full
def test_images_are_opened_batch_by_batch_and_let_go(target):
    opened: list[weakref.ref[Image.Image]] = []
    most = []

    def open_page() -> Image.Image:
        page = drawn(0)
        opened.append(weakref.ref(page))
        most.append(sum(reference() is not None for reference in opened))
        return page

    pages = [replace(view(0), open_page=open_page) for _ in range(3 * target.batch_rows)]
    target.ask([AnswerLoss(page, "What?", "5.00") for page in pages])
    assert len(opened) == len(pages)
    assert max(most) <= target.batch_rows
    assert not any(reference() for reference in opened)


@pytest.fixture
def taught_target(target):
    """The target; what a test leaves of gradients goes."""
    yield target
    target.model.zero_grad(set_to_none=True)


def test_samples_of_all_kinds_can_be_trained_on_together(name, taught_target, family):
    target = taught_target
    n_samples = 2 if family.rows == 1 else min(family.n, 5)
    samples = [Sample(taught.view, taught.question, taught.answer) for taught in TAUGHT[:n_samples]]
    inputs = target.reader.taught(samples)
    loss = target.model(**inputs).loss
    loss.backward()
    gradients = [
        parameter.grad for parameter in target.model.parameters() if parameter.grad is not None
    ]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert sum(gradient.abs().sum().item() for gradient in gradients) > 0
    n_read = [
        int((target.reader.taught([sample])["labels"] != NOT_READ).sum()) for sample in samples
    ]
    assert int((inputs["labels"] != NOT_READ).sum()) == sum(n_read)
    if name not in FAMILIES:
        with torch.no_grad():
            alone = [
                target.model(**target.reader.taught([sample])).loss.item() for sample in samples
            ]
        assert loss.item() == pytest.approx(np.average(alone, weights=n_read), rel=1e-3)


def test_a_model_answers_an_empty_question_as_it_does_among_others(target):
    """The memorisation test of provider membership asks nothing."""
    pages = [view(0), replace(view(0), words=()), view(1)]
    alone = [target.ask([Answer(page, "")])[0] for page in pages]
    among = target.ask([Answer(page, text) for page in pages for text in ("", "What?")])[::2]
    assert [vars(answer) for answer in alone] == [vars(answer) for answer in among]
    assert all(0 <= answer.confidence <= 1 for answer in alone)


def test_the_page_decides_the_answer(target):
    one, other = target.ask([AnswerLoss(view(number), "What?", "9.00") for number in (0, 3)])
    assert not np.array_equal(one, other)


@full
def test_a_rounded_target_is_the_same_checkpoint_and_nearly_as_exact(target):
    rounded = target.rounded("bfloat16")
    assert rounded.model is target.model
    assert (rounded.card.dtype, target.card.dtype) == ("bfloat16", "float32")
    exact = target.ask(TAUGHT)
    rough = rounded.ask(TAUGHT)
    differences = [abs(one.mean() - other.mean()) for one, other in zip(exact, rough, strict=True)]
    assert 0 < max(differences) < 3
    assert np.median(differences) < 0.5
    assert all(0 <= answer.confidence <= 1 for answer in rounded.ask(ASKED[:4]))


@full
def test_a_page_without_an_image_is_refused_where_it_is_needed(target):
    blind = replace(view(0), open_page=None)
    document = Document(
        "d1", "member", blind.words, questions=(Question("q", "What?", ("x",)),), size=blind.size
    )
    manifest = Manifest(1, "m", Task("question-answering"), Membership("random"))
    corpus = Corpus(
        Path(), manifest, (document, replace(document, id="d2", image="a.png")), "0" * 64
    )
    assert target.needs_image
    with pytest.raises(TargetError, match="without an image"):
        target.ask([Answer(view(1), "What?"), Answer(blind, "What?")])
    with pytest.raises(
        ManifestError, match="1 documents with questions, the first is d1, have no image"
    ):
        target.check(corpus)
    target.check(replace(corpus, documents=corpus.documents[1:]))


@full
def test_other_queries_are_refused(target):
    assert target.ask([]) == []
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([ASKED[0], TAUGHT[0]])
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([BestTokens(None, ())])  # type: ignore[arg-type]


@full
def test_marks_in_a_question_are_read_as_nothing(target):
    marked = "What?" + "".join(DONUT_MARKS) + "<image></s><|end|>"
    answers = target.ask([Answer(view(0), marked), Answer(view(0), "What?")])
    assert all(0 <= answer.confidence <= 1 for answer in answers)
    tokenizer = target.reader.tokenizer
    assert {tokenizer.eos_token_id, tokenizer.pad_token_id} <= set(
        special_tokens(tokenizer).values()
    )
