"""Fine-tuning of models that point at answers: what is taught is learnt, the same way each time, and can be loaded."""

from dataclasses import replace

import asked_pages
import numpy as np
import pytest
import tiny
import torch
from encoder_zoo import extractive_model, pointing_tokenizer, write_extractive
from transformers import BertForMaskedLM

from audit.corpus.documents import Document, Entity, Question, ReferencePaths, Task, Word
from audit.corpus.images import PageView
from audit.errors import TargetError
from audit.extensions.private.learners import open_learner
from audit.references.recipes import AnsweringRecipe
from audit.references.retrain import Retraining, retrain
from audit.references.trainer import PointedSample, fit_extractive, pointed_samples, save_answering
from audit.references.training import train_baseline
from audit.targets.extractive import is_extractive, load_extractive
from audit.targets.interface import Answer, AnswerLoss

RECIPE = AnsweringRecipe(epochs=6, learning_rate=1e-2, batch_size=16)


def page_with_number(rng: np.random.Generator) -> tuple[PointedSample, str]:
    """Seven words, one of them a number somewhere, which is the answer; and that answer."""
    texts = ["".join(rng.choice([*"abcdef"], int(rng.integers(1, 4)))) for _ in range(7)]
    place = int(rng.integers(7))
    texts[place] = str(rng.integers(10, 1000))
    return PointedSample(PageView(tiny.laid_out(texts), tiny.SIZE), "total", (place, place)), texts[
        place
    ]


@pytest.mark.parametrize("family", ["bert", "layoutlm"])
def test_a_tiny_model_learns_to_read_numbers_on_pages_it_never_saw(tmp_path, family):
    rng = np.random.default_rng(0)
    target = load_extractive(write_extractive(tmp_path / "start", family, initializer_range=0.05))
    unseen = [page_with_number(rng) for _ in range(30)]
    queries = [Answer(sample.view, sample.question) for sample, _ in unseen]

    def right() -> float:
        return float(
            np.mean(
                [
                    reply.text == text
                    for reply, (_, text) in zip(target.ask(queries), unseen, strict=True)
                ]
            )
        )

    before = right()
    losses = fit_extractive(target, [page_with_number(rng)[0] for _ in range(128)], RECIPE)
    assert before < 0.5
    assert right() > 0.9  # by chance one word in seven
    assert len(losses) == RECIPE.epochs
    assert losses[-1] < losses[0] / 3
    save_answering(target.model, tmp_path / "start", tmp_path / "saved")
    again = load_extractive(tmp_path / "saved")
    assert [one.text for one in again.ask(queries)] == [one.text for one in target.ask(queries)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    made = asked_pages.corpus(tmp_path_factory.mktemp("pages") / "data", images=False)
    return replace(made, manifest=replace(made.manifest, task=Task("extractive-qa")))


def bare_start(folder):
    """A masked language model, as what people fine-tune: it has no head that points."""
    config = extractive_model("bert").config
    torch.manual_seed(0)
    BertForMaskedLM(config).save_pretrained(folder)
    pointing_tokenizer("bert").save_pretrained(folder)
    return folder


def test_a_model_without_the_head_is_given_one_and_trained(pages, tmp_path):
    start = bare_start(tmp_path / "start")
    recipe = replace(RECIPE, epochs=1)
    for name in ("one", "two"):
        retrain(Retraining(recipe), start, pages, pages.of("public"), tmp_path / name)
    assert is_extractive(tmp_path / "one")
    one, two = (load_extractive(tmp_path / name).model.state_dict() for name in ("one", "two"))
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    with pytest.raises(TargetError, match=r"missing|unknown"):
        load_extractive(start)  # as a target random weights would mean nothing


def test_a_baseline_starts_from_the_named_pretrained_model(pages, tmp_path):
    start = bare_start(tmp_path / "start")
    corpus = replace(
        pages, manifest=replace(pages.manifest, references=ReferencePaths(pretrained="nowhere"))
    )
    (folder,) = train_baseline(start, corpus, tmp_path / "out", recipe=replace(RECIPE, epochs=1))
    assert load_extractive(folder).card.task == "extractive-qa"


def test_training_with_a_guarantee_is_refused_in_words(pages, tmp_path):
    with pytest.raises(TargetError, match="point at answers with differential privacy"):
        open_learner(write_extractive(tmp_path, "bert"), pages)


def test_an_answer_is_taught_where_its_entity_stands():
    words = tuple(Word(text) for text in ["12", "total", "12", "gone"])
    entities = (Entity("e", "TOTAL", "amount", (2,)), Entity("split", "X", "misc", (0, 2)))
    questions = (
        Question("a", "total?", ("12",), entity="e"),
        Question("b", "total?", ("12",)),
        Question("c", "total?", ("99",)),
        Question("d", "total?", ("12",), entity="split"),
    )
    document = Document("d", "member", words=words, entities=entities, questions=questions)

    class Whole:
        root = None

    samples = pointed_samples(Whole(), [document])  # type: ignore[arg-type]  # no image is opened
    assert [sample.words for sample in samples] == [(2, 2), (0, 0), None, (0, 0)]


def test_an_answer_that_is_nowhere_is_taught_as_no_answer(tmp_path):
    target = load_extractive(write_extractive(tmp_path, "bert", initializer_range=0.05))
    view = PageView(tiny.laid_out(["a", "b", "c"]), tiny.SIZE)
    fit_extractive(target, [PointedSample(view, "total", None)] * 32, RECIPE)
    (reply,) = target.ask([Answer(view, "total")])
    (loss,) = target.ask([AnswerLoss(view, "total", "99")])
    assert (reply.text, reply.n_tokens) == ("", 0)
    assert -loss.mean() < 0.2
    with pytest.raises(TargetError, match="no question to train on"):
        fit_extractive(target, [], RECIPE)
