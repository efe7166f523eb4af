"""Extraction blocking: the data set that teaches it, and a model that has learnt to say so."""

from dataclasses import replace

import asked_pages
import numpy as np
import pytest

from audit.corpus.documents import Corpus, Question, ReferencePaths, TrainingRecipe, Word
from audit.corpus.images import open_image, page_view
from audit.corpus.manifest import load
from audit.corpus.removal.matching import find_answers
from audit.engine.interface import SILENT
from audit.errors import EngineError, ManifestError
from audit.extensions.countermeasures.blocking import (
    NOT_PRESENT,
    SUFFIX,
    Blocking,
    block_answers,
    write_blocked_corpus,
)
from audit.references.answering import fit_answering, samples_of
from audit.references.baselines import train_baseline
from audit.references.recipes import AnsweringRecipe
from audit.targets.answering.loading import load_answering
from audit.targets.interface import AnswerLoss

RECIPE = AnsweringRecipe(epochs=40, learning_rate=1e-2, batch_size=4)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return asked_pages.corpus(tmp_path_factory.mktemp("pages") / "data", references=ReferencePaths(pretrained="start"))


@pytest.fixture(scope="module")
def blocked(pages, tmp_path_factory):
    out = tmp_path_factory.mktemp("blocked") / "data"
    write_blocked_corpus(pages, out)
    return load(out)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return asked_pages.donut(tmp_path_factory.mktemp("start") / "donut")


def trained(start, corpus, out, recipe):
    """The checkpoint and the data set of a training with extraction blocking."""
    manifest = replace(
        corpus.manifest,
        recipe=TrainingRecipe(
            epochs=recipe.epochs, batch_size=recipe.batch_size, learning_rate=recipe.learning_rate, seed=recipe.seed
        ),
    )
    made = Blocking().train(replace(corpus, manifest=manifest), start, out, device="cpu", progress=SILENT)
    return made.model, made.data


def copies(corpus):
    return [document for document in corpus.documents if document.id.endswith(SUFFIX)]


def changed(corpus, document, **fields):
    """The corpus with another document in the place of this one."""
    documents = tuple(replace(one, **fields) if one is document else one for one in corpus.documents)
    return replace(corpus, documents=documents)


def test_every_question_is_asked_once_more_with_the_answer_removed(pages):
    blocked = block_answers(pages, pages.of("member"))
    plain = samples_of(pages, pages.of("member"))
    assert len(blocked) == 8
    assert [sample.question for sample in plain] == [one.question.question for one in blocked]
    for before, after in zip(plain, (one.removal for one in blocked), strict=True):
        words = [word.text for word in after.view.words]
        assert find_answers([word.text for word in before.view.words], [before.answer])
        assert not find_answers(words, [before.answer])
        assert not (np.asarray(before.view.image) == np.asarray(after.view.image)).all()


def test_the_written_data_set_is_valid_and_the_original_documents_are_in_it_as_they_were(pages, blocked):
    data = blocked
    assert data.documents[: len(pages.documents)] == pages.documents
    for document in pages.documents:
        assert (data.root / document.image).read_bytes() == (pages.root / document.image).read_bytes()
    assert data.manifest.task == pages.manifest.task
    assert data.manifest.recipe == pages.manifest.recipe
    assert data.manifest.references == ReferencePaths()
    assert data.manifest.name == pages.manifest.name + SUFFIX


def test_each_copy_is_a_page_without_the_answer_and_has_one_question(pages, blocked):
    data = blocked
    asked = [(document, question) for document in pages.of("member", "public") for question in document.questions]
    assert len(copies(data)) == len(asked) == 14
    for copy, (document, question) in zip(copies(data), asked, strict=True):
        assert (copy.split, copy.provider, copy.size) == (document.split, document.provider, document.size)
        assert [(one.question, one.answers) for one in copy.questions] == [(question.question, (NOT_PRESENT,))]
        assert not find_answers([word.text for word in copy.words], question.answers)
        assert copy.image not in {one.image for one in pages.documents}
        left = {word.box for word in copy.words}
        gone = [word.box for word in document.words if word.box not in left]
        page, original = (np.asarray(open_image(*one)) for one in ((data, copy), (pages, document)))
        assert gone
        for x0, y0, x1, y1 in (tuple(map(int, box)) for box in gone):
            assert (page[y0:y1, x0:x1] == 255).all()
            assert (original[y0:y1, x0:x1] != 255).any()
    assert len({copy.image for copy in copies(data)}) == 14


def test_held_out_documents_get_no_copies(blocked):
    assert {copy.split for copy in copies(blocked)} == {"member", "public"}


def test_the_same_data_set_is_written_the_same_way(pages, blocked, tmp_path):
    write_blocked_corpus(pages, tmp_path)
    assert load(tmp_path).sha256 == blocked.sha256


def test_what_cannot_be_removed_is_not_taught(pages):
    """To teach ANSWER NOT PRESENT on a page that shows the answer would teach not to read."""
    first = pages.documents[0]
    absent = Question("absent", "what?", ("zzzzzzzz",))
    text = Question("all", "what?", ("secret",))
    for lacking in (
        {"questions": (absent,)},
        {"words": tuple(Word(word.text) for word in first.words)},
        {"words": (Word("secret"),), "image": None, "size": None, "questions": (text,), "entities": ()},
    ):
        corpus = changed(pages, first, **lacking)
        assert block_answers(corpus, corpus.documents[:1]) == []


def test_text_without_layout_can_be_blocked(pages, tmp_path):
    words = tuple(replace(word, box=None) for word in pages.documents[0].words)
    document = replace(pages.documents[0], words=words, image=None, size=None)
    corpus = Corpus(pages.root, pages.manifest, (document,), "e" * 64)
    write_blocked_corpus(corpus, tmp_path)
    data = load(tmp_path)
    assert [copy.image for copy in copies(data)] == [None, None]


def test_nothing_to_block_is_an_error_and_writes_nothing(pages, tmp_path):
    silent = replace(pages, documents=tuple(replace(document, questions=()) for document in pages.documents))
    with pytest.raises(ManifestError, match="no answer could be removed"):
        write_blocked_corpus(silent, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_left_alone(pages, tmp_path):
    (tmp_path / "mine").write_text("text")
    with pytest.raises(EngineError, match="not empty"):
        write_blocked_corpus(pages, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_blocked_data_set_is_not_blocked_again(blocked, tmp_path):
    with pytest.raises(ManifestError, match="has images in blocked/ already"):
        write_blocked_corpus(blocked, tmp_path)


def test_a_model_learns_both_to_answer_and_to_say_that_the_answer_is_gone(start, tmp_path):
    """Beside the same model trained without blocking; the tiny one cannot see enough to tell the two pages apart."""
    pages = asked_pages.corpus(tmp_path / "data", members=1, public=1, labels=("TOTAL",))
    folder, data_dir = trained(start, pages, tmp_path / "out", RECIPE)
    data = load(data_dir)
    member, copy = data.of("member")
    plain = load_answering(start)
    fit_answering(plain, samples_of(pages, pages.of("member")), RECIPE)
    question = member.questions[0]
    queries = [
        AnswerLoss(page_view(data, member), question.question, question.answers[0]),
        AnswerLoss(page_view(data, copy), question.question, NOT_PRESENT),
    ]
    before, without, with_blocking = (
        [float(found.sum()) for found in target.ask(queries)]
        for target in (load_answering(start), plain, load_answering(folder))
    )
    assert with_blocking[0] > before[0] + 30
    assert with_blocking[1] > without[1] + 60


def test_training_is_done_once_and_its_data_set_gives_baselines_that_are_as_strong(start, pages, tmp_path):
    recipe = replace(RECIPE, epochs=1)
    folder, data_dir = trained(start, pages, tmp_path, recipe)
    made = folder.stat().st_mtime_ns
    assert trained(start, pages, tmp_path, recipe) == (folder, data_dir)
    assert folder.stat().st_mtime_ns == made
    assert trained(start, pages, tmp_path, replace(recipe, seed=1))[0] != folder
    (baseline,) = train_baseline(start, load(data_dir), tmp_path, recipe=recipe)
    assert load_answering(baseline).card.sha256 != load_answering(folder).card.sha256


@pytest.mark.parametrize("answer", ["ANSWER NOT PRESENT", "answer not present", " Answer  not present "])
def test_the_denial_is_known_in_any_case_and_spacing(answer):
    assert Blocking().refuses(answer)
    assert not Blocking().refuses(answer + "s")
    assert not Blocking().refuses("")
