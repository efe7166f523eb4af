"""Scrubbing: the data set a model is trained on, and that model."""

from dataclasses import replace

import asked_pages
import canaried
import numpy as np
import pytest
import tiny

from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.schema import load_canaries
from audit.corpus.documents import Question, ReferencePaths, TrainingRecipe
from audit.corpus.images import open_image
from audit.corpus.manifest import load, write
from audit.corpus.removal.matching import find_answers
from audit.engine.interface import SILENT
from audit.errors import ManifestError
from audit.extensions.countermeasures.scrubbing import FOLDER, SUFFIX, Scrubbing, write_scrubbed
from audit.references.baselines import train_baseline
from audit.targets.answering.loading import load_answering

RECIPE = TrainingRecipe(epochs=1, batch_size=4)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return asked_pages.corpus(
        tmp_path_factory.mktemp("pages") / "data", recipe=RECIPE, references=ReferencePaths(pretrained="start")
    )


@pytest.fixture(scope="module")
def scrubbed(pages, tmp_path_factory):
    out = tmp_path_factory.mktemp("scrubbed") / "data"
    write_scrubbed(pages, out)
    return load(out)


def values_of(document):
    return [document.text_of(entity) for entity in document.entities]


def texts_of(document):
    return [word.text for word in document.words]


def test_documents_hold_no_value_and_all_else_of_them_is_as_it_was(pages, scrubbed):
    data = scrubbed
    assert all(one.words != other.words for one, other in zip(data.documents, pages.documents, strict=True))
    assert [document.id for document in data.documents] == [document.id for document in pages.documents]
    for old, new in zip(pages.documents, data.documents, strict=True):
        assert find_answers(texts_of(new), values_of(old), fuzzy=False) == ()
        assert [word.box for word in new.words] == [word.box for word in old.words]
        assert (new.entities, new.links, new.provider) == (old.entities, old.links, old.provider)
        for question in new.questions:
            held = next(entity for entity in new.entities if entity.id == question.entity)
            assert question.answers == (new.text_of(held),)


def test_their_images_show_other_pixels_where_values_stood_and_the_same_elsewhere(pages, scrubbed):
    for old, new in zip(pages.of("member"), scrubbed.of("member"), strict=True):
        assert new.image.startswith(f"{FOLDER}/")
        before, after = (np.asarray(open_image(*one)) for one in ((pages, old), (scrubbed, new)))
        for word, other in zip(old.words, new.words, strict=True):
            x0, y0, x1, y1 = map(int, word.box)
            same = (before[y0 + 3 : y1 - 3, x0 + 3 : x1 - 3] == after[y0 + 3 : y1 - 3, x0 + 3 : x1 - 3]).all()
            assert same == (word.text == other.text)


def test_the_manifest_names_neither_references_nor_canaries(pages, scrubbed):
    assert scrubbed.manifest == replace(pages.manifest, name=pages.manifest.name + SUFFIX, references=ReferencePaths())


def test_the_same_seed_gives_the_same_data_set_and_another_seed_another(pages, scrubbed, tmp_path):
    for seed, same in ((0, True), (1, False)):
        write_scrubbed(pages, tmp_path / str(seed), seed=seed)
        assert (load(tmp_path / str(seed)).sha256 == scrubbed.sha256) == same


@pytest.mark.parametrize("make", [canaried.utterances, canaried.texts, canaried.pages])
def test_no_canary_is_trained_on(make, tmp_path):
    plain = make(tmp_path / "plain")
    insert(plain, tmp_path / "data", pattern="pin", count=12, repeat=2, length=4, seed=1)
    corpus = load(tmp_path / "data")
    write_scrubbed(corpus, tmp_path / "out")
    data = load(tmp_path / "out")
    planted = {name: canary for canary in load_canaries(corpus).canaries for name in canary.documents}
    assert planted
    for name, canary in planted.items():
        words = texts_of(data.document(name))
        assert len(words) == len(corpus.document(name).words)
        assert not find_answers(words, [" ".join(canary.completion)], fuzzy=False)
        assert set(canary.prefix) <= set(words)


def test_a_page_whose_image_shows_a_value_that_nobody_can_paint_over_is_left_out(pages, tmp_path):
    first, second = pages.of("member")[:2]
    unread = replace(first, questions=(Question("q", "who?", ("Nobody Atall",)),))
    loose = replace(second, words=tuple(replace(word, box=None) for word in second.words), entities=second.entities)
    documents = tuple({first.id: unread, second.id: loose}.get(one.id, one) for one in pages.documents)
    write_scrubbed(replace(pages, documents=documents), tmp_path)
    left = {document.id for document in load(tmp_path).documents}
    assert {document.id for document in pages.documents} - left == {first.id, second.id}


def test_a_data_set_without_marks_is_refused(tmp_path):
    plain = load(tiny.corpus(tmp_path / "data"))
    bare = [replace(document, entities=(), links=(), provider=None) for document in plain.documents]
    write(tmp_path / "bare", plain.manifest, bare)
    with pytest.raises(ManifestError, match="nothing to scrub"):
        write_scrubbed(load(tmp_path / "bare"), tmp_path / "out")
    with pytest.raises(ManifestError, match="nothing to scrub"):
        Scrubbing().check(load(tmp_path / "bare"), tmp_path)


def test_a_scrubbed_data_set_is_not_scrubbed_again(scrubbed, tmp_path):
    with pytest.raises(ManifestError, match="has images in scrubbed/ already"):
        write_scrubbed(scrubbed, tmp_path)


def test_a_model_is_trained_on_it_once_and_its_baselines_on_its_public_pages(pages, tmp_path):
    start = asked_pages.donut(tmp_path / "start")
    made = [Scrubbing().train(pages, start, tmp_path / "out", device="cpu", progress=SILENT) for _ in range(2)]
    assert made[0] == made[1]
    assert load_answering(made[0].model).card.sha256 != load_answering(start).card.sha256
    (baseline,) = train_baseline(start, load(made[0].data), tmp_path / "baselines")
    assert load_answering(baseline)
