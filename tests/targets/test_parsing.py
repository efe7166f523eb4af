"""Models that write pages: what was learnt by heart is found in their fields, and losses are of the value alone."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import parsed_pages
import pytest
import torch
from answering_checkpoints import make_chat, make_pix2struct, make_vit_decoder
from text_answering_checkpoints import make_vt5
from text_zoo import write_text_model

from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.images import PageView, page_view
from audit.errors import TargetError
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import fit_answering, samples_of, save_answering
from audit.targets.answering import target as answering
from audit.targets.answering.reader import Sample
from audit.targets.encoded_page import NOT_READ
from audit.targets.interface import Answer, AnswerLoss, Query, TrainingLoss
from audit.targets.opening import target_of
from audit.targets.parsing import ParsingTarget, load_parsing
from audit.targets.utility import usefulness

TEXT_PROMPT = "{text}\nJSON:"
FAMILIES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "donut": (parsed_pages.donut, parsed_pages.PROMPT),
    "chat": (make_chat, "Write the page as JSON."),
    "qwen2": (lambda folder: write_text_model(folder, "qwen2", ends=""), TEXT_PROMPT),
    "bart": (lambda folder: write_text_model(folder, "bart", ends=""), TEXT_PROMPT),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return parsed_pages.corpus(tmp_path_factory.mktemp("pages") / "data", members=3)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    made: dict[str, ParsingTarget] = {}
    root = tmp_path_factory.mktemp("models")

    def of(name: str) -> ParsingTarget:
        if name not in made:
            make, prompt = FAMILIES[name]
            make(root / name)
            made[name] = load_parsing(root / name, prompt=prompt)
            made[name].reader.max_new_tokens = 80
        return made[name]

    return of


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return parsed_pages.donut(tmp_path_factory.mktemp("start") / "donut")


@pytest.fixture(scope="module")
def learnt(start, corpus, tmp_path_factory):
    """A Donut that was trained on the first member until it knew it, saved and loaded again."""
    target = target_of(start, corpus)
    assert isinstance(target, ParsingTarget)
    recipe = AnsweringRecipe(epochs=60, learning_rate=2e-2, batch_size=1, weight_decay=0.0)
    fit_answering(target, samples_of(corpus, corpus.of("member")[:1]), recipe)
    folder = tmp_path_factory.mktemp("learnt") / "model"
    save_answering(target.model, start, folder)
    again = target_of(folder, corpus)
    assert isinstance(again, ParsingTarget)
    return again


def asked(corpus: Corpus, documents: Sequence[Document]) -> list[tuple[PageView, Question]]:
    return [
        (page_view(corpus, document), question)
        for document in documents
        for question in document.questions
    ]


def losses_of(target: ParsingTarget, pairs: list[tuple[PageView, Question]]) -> list[float]:
    found = target.ask(
        [AnswerLoss(view, question.question, question.answers[0]) for view, question in pairs]
    )
    return [-float(values.mean()) for values in found]


def test_a_model_that_learnt_outputs_by_heart_gives_their_fields_and_one_that_did_not_gives_none(
    learnt, start, corpus
):
    pairs = asked(corpus, corpus.of("member")[:1])
    assert {question.question for _, question in pairs} == {"receipt.total", "receipt.clerk"}
    replies = learnt.ask([Answer(view, question.question) for view, question in pairs])
    assert [reply.text for reply in replies] == [question.answers[0] for _, question in pairs]
    assert all(reply.confidence > 0.5 and reply.ended for reply in replies)
    assert [reply.n_tokens for reply in replies] == [
        len(question.answers[0]) for _, question in pairs
    ]
    fresh = target_of(start, corpus)
    assert isinstance(fresh, ParsingTarget)
    others = fresh.ask([Answer(view, question.question) for view, question in pairs])
    assert not any(
        reply.text == question.answers[0]
        for reply, (_, question) in zip(others, pairs, strict=True)
    )
    members = losses_of(learnt, pairs)
    heldout = losses_of(learnt, asked(corpus, corpus.of("heldout")))
    assert max(members) < 0.5 < min(heldout)
    assert min(losses_of(fresh, pairs)) > 1


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_and_losses_depend_on_their_queries_alone(name, opened, corpus):
    target = opened(name)
    pairs = asked(corpus, corpus.of("member"))
    kinds: list[list[Query[object]]] = [
        [Answer(view, question.question) for view, question in pairs],
        [AnswerLoss(view, question.question, question.answers[0]) for view, question in pairs],
    ]
    for queries in kinds:
        together = target.ask(queries)
        for found, other in zip(
            together, [target.ask([query])[0] for query in queries], strict=True
        ):
            if isinstance(found, np.ndarray):
                np.testing.assert_array_equal(found, other)
            else:
                assert vars(found) == vars(other)


@pytest.mark.parametrize("name", ["chat", "qwen2"])
def test_a_decoder_reads_its_prompt_once_for_all_outputs_of_a_page(
    name, opened, corpus, monkeypatch
):
    target = opened(name)
    pairs = asked(corpus, corpus.of("member")[:1])
    queries = [
        AnswerLoss(view, question.question, value)
        for view, question in pairs
        for value in ("5.00", "anna")
    ]
    plain = target.ask(queries)
    written = target.ask([Answer(*pairs[0][:1], pairs[0][1].question)])
    begun = []
    monkeypatch.setattr(answering, "SHORTEST", 1)
    monkeypatch.setattr(answering, "reads_beginnings", lambda *_: True)
    monkeypatch.setattr(
        target, "_begin", lambda row, n, own=target._begin: (begun.append(n), own(row, n))[1]
    )
    for one, other in zip(target.ask(queries), plain, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert target.ask([Answer(*pairs[0][:1], pairs[0][1].question)])[0].text == written[0].text
    assert len(begun) == len({id(view) for view, _ in pairs}) + 1


@pytest.mark.parametrize("name", FAMILIES)
def test_a_loss_is_that_of_the_values_tokens_in_the_models_own_loss_of_the_output(
    name, opened, corpus
):
    target = opened(name)
    document = corpus.of("member")[0]
    view = page_view(corpus, document)
    inputs = target.reader.taught([Sample(view, "", document.output)])
    labels = inputs["labels"]
    with torch.no_grad():
        logits = target.model(**inputs).logits
    if not target.model.config.is_encoder_decoder:
        logits = logits[:, :-1]
        labels = labels[:, 1:]
    read = labels != NOT_READ
    own = torch.log_softmax(logits[read], -1).gather(-1, labels[read][:, None])[:, 0].numpy()
    spelt = [target.reader.text_of([token]) for token in labels[read].tolist()]
    for question in document.questions:
        value = question.answers[0]
        place = next(n for n in range(len(spelt)) if "".join(spelt[n : n + len(value)]) == value)
        (found,) = target.ask([AnswerLoss(view, question.question, value)])
        np.testing.assert_allclose(found, own[place : place + len(value)], rtol=1e-3, atol=1e-5)


def test_donut_is_taught_marks_and_all_others_the_json_itself(opened, corpus):
    document = corpus.of("member")[0]
    total, clerk = (question.answers[0] for question in document.questions)
    texts = {}
    for name in ("donut", "qwen2", "chat"):
        reader = opened(name).reader
        labels = reader.taught([Sample(page_view(corpus, document), "", document.output)])[
            "labels"
        ][0]
        texts[name] = reader.text_of([token for token in labels.tolist() if token != NOT_READ])
        assert labels.tolist()[-1] in reader.ends
    marks = f"<s_receipt><s_total>{total}</s_total><s_clerk>{clerk}</s_clerk></s_receipt>"
    assert (texts["donut"], texts["qwen2"]) == (marks, document.output)


def test_a_page_is_written_once_for_all_its_fields(opened, corpus, monkeypatch):
    target = opened("donut")
    written: list[int] = []
    generate = target.model.generate
    monkeypatch.setattr(
        target.model, "generate", lambda **inputs: (written.append(1), generate(**inputs))[1]
    )
    view = page_view(corpus, corpus.of("member")[0])
    target.ask([Answer(view, path) for path in ("receipt.total", "receipt.clerk", "receipt.none")])
    assert len(written) == 1


def test_a_field_that_is_not_written_is_answered_by_nothing(learnt, corpus):
    view = page_view(corpus, corpus.of("member")[0])
    (reply,) = learnt.ask([Answer(view, "receipt.tax")])
    assert (reply.text, reply.confidence, reply.n_tokens) == ("", 0.0, 0)
    with pytest.raises(TargetError, match="does not have"):
        learnt.ask([AnswerLoss(view, "receipt.tax", "1")])


def test_a_copy_of_a_removed_value_earlier_in_the_output_does_not_tell_it(opened, corpus):
    target = opened("donut")
    view = page_view(corpus, corpus.of("member")[0])
    twice = replace(view, output='{"receipt": {"total": "12345", "clerk": "12345"}}', words=())
    other = replace(view, output='{"receipt": {"total": "", "clerk": "12345"}}', words=())
    copied, emptied = target.ask(
        [AnswerLoss(one, "receipt.clerk", "12345") for one in (twice, other)]
    )
    np.testing.assert_array_equal(copied, emptied)


def test_values_beyond_the_longest_output_have_a_loss_all_the_same(opened, corpus):
    view = page_view(corpus, corpus.of("member")[0])
    long = replace(view, output='{"receipt": {"total": "' + "9" * 300 + '", "clerk": "anna"}}')
    for name in ("donut", "qwen2"):
        (found,) = opened(name).ask([AnswerLoss(long, "receipt.clerk", "anna")])
        assert len(found) == 4
        assert np.isfinite(found).all()


def test_the_card_and_the_longest_output_are_those_of_a_parsing_model(start, corpus):
    target = load_parsing(start, prompt=parsed_pages.PROMPT)
    assert target.card.task == "parsing"
    assert target.card.architecture.endswith("parsing")
    assert target.reader.max_new_tokens == 128 - 2 - 1
    assert TrainingLoss not in target.answers
    assert load_parsing(start, max_new_tokens=7).reader.max_new_tokens == 7
    assert isinstance(target.rounded("bfloat16"), ParsingTarget)


@pytest.mark.parametrize("name", ["max_length", "max_new_tokens"])
def test_the_longest_output_is_that_of_the_generation_settings(name, start, tmp_path):
    shutil.copytree(start, tmp_path / "model")
    path = tmp_path / "model" / "generation_config.json"
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**settings, name: 9}))
    assert load_parsing(tmp_path / "model").reader.max_new_tokens == 9
    assert load_parsing(tmp_path / "model", max_new_tokens=7).reader.max_new_tokens == 7


def test_a_model_of_another_family_needs_its_prompt(tmp_path):
    with pytest.raises(TargetError, match="nothing says") as caught:
        load_parsing(write_text_model(tmp_path / "qwen2", "qwen2"))
    assert "[recipe]" in caught.value.hint


@pytest.mark.parametrize("make", [make_vit_decoder, make_pix2struct])
def test_a_model_that_transcribes_is_asked_for_its_whole_output(
    make: Callable[..., Path], corpus: Corpus, tmp_path: Path
) -> None:
    target = load_parsing(make(tmp_path / "model", ends=""), max_new_tokens=40)
    document = replace(corpus.of("member")[0], output="Rechnung Nr. 17", questions=())
    view = page_view(corpus, document)
    (reply,) = target.ask([Answer(view, "text")])
    assert reply.text
    (losses,) = target.ask([AnswerLoss(view, "text", "Rechnung Nr. 17")])
    tokens, _ = target.reader.tokens_of("Rechnung Nr. 17")
    assert np.isfinite(losses).all()
    assert len(losses) == len(tokens)


def test_usefulness_is_told_over_fields(learnt, corpus):
    (own,) = usefulness(learnt, corpus, 0)
    assert (own.name, own.unit, own.n) == (
        "anls",
        "fields",
        len(asked(corpus, corpus.of("heldout"))),
    )  # type: ignore[union-attr]


def test_a_vision_encoder_decoder_needs_no_prompt_and_a_model_that_writes_nothing_is_refused(
    corpus, tmp_path, checkpoints
):
    target = load_parsing(make_vit_decoder(tmp_path / "trocr", ends=""))
    view = page_view(corpus, corpus.of("member")[0])
    assert target.reader.prompts([Sample(view, "")])["decoder_input_ids"].tolist() == [[0]]
    assert len(target.ask([Answer(view, "receipt.total")])) == 1
    with pytest.raises(TargetError, match="writes no text"):
        target_of(checkpoints("layoutlm", "mlm"), corpus)
    with pytest.raises(TargetError, match="questions only"):
        load_parsing(make_vt5(tmp_path / "vt5"))
