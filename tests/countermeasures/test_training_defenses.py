"""Countermeasures that train a model again: one contract for all, and the data set or model that each of them makes."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import asked_pages
import canaried
import nlu_models
import numpy as np
import pytest
import tiny
from sklearn.metrics import roc_auc_score

from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.schema import load_canaries
from audit.corpus.documents import (
    Manifest,
    Membership,
    Question,
    ReferencePaths,
    Task,
    TrainingRecipe,
    Word,
)
from audit.corpus.images import open_image, page_view
from audit.corpus.manifest import load, write
from audit.corpus.removal.matching import find_answers
from audit.defenses.interface import DEFENSES
from audit.engine.interface import SILENT
from audit.errors import ManifestError, TargetError
from audit.extensions.countermeasures.changed_data import (
    BLOCKED,
    MOST,
    NOT_PRESENT,
    cap,
    write_blocked,
    write_capped,
)
from audit.extensions.countermeasures.interface import TrainingDefense
from audit.extensions.countermeasures.scans import side_channel
from audit.extensions.countermeasures.scrubbing import FOLDER, write_scrubbed
from audit.extensions.countermeasures.utterances import held_aside
from audit.extensions.papers.utterance_target import load_nlu
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import fit_answering, samples_of
from audit.references.training import train_baseline
from audit.report.facts.recommend import remedies
from audit.targets.answering.loading import load_answering
from audit.targets.interface import AnswerLoss
from audit.targets.opening import open_model

ONCE = TrainingRecipe(epochs=1, batch_size=4)
NAMES = [
    name for name, one in DEFENSES.items() if isinstance(one, TrainingDefense) and name != "dp"
]
"""Private training has tests of its own."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages") / "data"
    return asked_pages.corpus(folder, recipe=ONCE, references=ReferencePaths(pretrained="start"))


@pytest.fixture(scope="module")
def receipts(tmp_path_factory):
    """Twelve members of three vendors with images.

    The last one is a copy of the first, of a vendor of its own.
    """
    folder = tiny.corpus(
        tmp_path_factory.mktemp("receipts") / "data", members=12, public=8, images=True
    )
    made = load(folder)
    copy = replace(made.of("member")[0], id="copy", provider="another")
    write(folder, replace(made.manifest, recipe=ONCE), [*made.documents, copy])
    return load(folder)


@pytest.fixture(scope="module")
def utterances(tmp_path_factory):
    """Utterances, and a model that was trained on the members."""
    public = [
        nlu_models.play(f"pub{number}", name, "public")
        for number, name in enumerate(("ann lee", "bo", "cy"))
    ]
    public += [nlu_models.rate(f"stars{number}", str(number), "public") for number in (10, 12, 15)]
    folder = tmp_path_factory.mktemp("utterances")
    recipe = TrainingRecipe(epochs=3, batch_size=4, learning_rate=1e-2)
    own = Manifest(
        1, "utterances", Task("intent-slots", nlu_models.TAGS), Membership("random"), recipe=recipe
    )
    write(
        folder / "data",
        own,
        [*nlu_models.documents(), *public, nlu_models.play("held", "dee", "heldout")],
    )
    data = load(folder / "data")
    recipe = NluRecipe(epochs=3, batch_size=4, learning_rate=1e-2, embedding_size=12, hidden_size=8)
    (folder / "model").mkdir()
    fit_nlu(data.of("member"), (), recipe, folder / "model", labels=nlu_models.TAGS)
    return data, folder / "model"


@pytest.fixture(scope="module")
def made(pages, receipts, utterances, checkpoints, tmp_path_factory):
    """By name, what each countermeasure trained, on what, from which start, and where."""
    donut = asked_pages.donut(tmp_path_factory.mktemp("start") / "donut")
    worlds = {
        "cap-providers": (receipts, checkpoints("bert", "token-classification")),
        "regularisation": utterances,
    }

    def train(name):
        corpus, start = worlds.get(name, (pages, donut))
        DEFENSES[name].check(corpus, start)
        out = tmp_path_factory.mktemp(name)
        found = DEFENSES[name].train(corpus, start, out, device="cpu", progress=SILENT)
        return SimpleNamespace(
            corpus=corpus, start=start, out=out, found=found, data=load(found.data)
        )

    return {name: train(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_each_trains_another_model_once_and_its_baselines_alike(name, made, tmp_path):
    one = made[name]
    before = one.found.model.stat().st_mtime_ns
    again = DEFENSES[name].train(one.corpus, one.start, one.out, device="cpu", progress=SILENT)
    assert (again, one.found.model.stat().st_mtime_ns) == (one.found, before)
    (baseline,) = train_baseline(one.found.start or one.start, one.data, tmp_path)
    sums = [
        open_model(folder, one.corpus).sha256 for folder in (one.start, one.found.model, baseline)
    ]
    assert len(set(sums)) == 3


@pytest.mark.parametrize("name", NAMES)
def test_each_leaves_the_audited_documents_and_drops_references(name, made):
    one = made[name]
    assert (one.data.manifest.task, one.data.manifest.recipe) == (
        one.corpus.manifest.task,
        one.corpus.manifest.recipe,
    )
    if one.data.root != one.corpus.root:
        assert one.data.manifest.references == ReferencePaths()
        assert one.data.manifest.name.startswith(f"{one.corpus.manifest.name}-")
    if name != "scrub":
        assert one.data.of("heldout") == one.corpus.of("heldout")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_recommended_with_the_command_that_measures_it(name):
    checks = [remedy.check for remedy in remedies() if name in remedy.measured_by]
    assert checks
    assert all("docaudit defend" in check and name in check for check in checks)
    assert {name for remedy in remedies() for name in remedy.measured_by} <= {*DEFENSES}


# Extraction blocking


def changed(corpus, document, **fields):
    """The corpus with another document in the place of this one."""
    documents = tuple(
        replace(one, **fields) if one is document else one for one in corpus.documents
    )
    return replace(corpus, documents=documents)


def test_each_blocked_copy_is_a_page_without_the_answer_and_has_one_question(made):
    pages = made["blocking"].corpus
    data = made["blocking"].data
    assert data.documents[: len(pages.documents)] == pages.documents
    copies = data.documents[len(pages.documents) :]
    asked = [
        (document, question)
        for document in pages.of("member", "public")
        for question in document.questions
    ]
    assert len(copies) == len(asked) == len({copy.image for copy in copies}) == 14
    for copy, (document, question) in zip(copies, asked, strict=True):
        assert (copy.split, copy.provider, copy.size) == (
            document.split,
            document.provider,
            document.size,
        )
        assert [(one.question, one.answers) for one in copy.questions] == [
            (question.question, (NOT_PRESENT,))
        ]
        assert find_answers([word.text for word in document.words], question.answers)
        assert not find_answers([word.text for word in copy.words], question.answers)
        left = {word.box for word in copy.words}
        gone = [word.box for word in document.words if word.box not in left]
        page, original = (np.asarray(open_image(*one)) for one in ((data, copy), (pages, document)))
        assert gone
        for x0, y0, x1, y1 in (tuple(map(int, box)) for box in gone):
            assert (page[y0:y1, x0:x1] == 255).all()
            assert (original[y0:y1, x0:x1] != 255).any()


def test_an_answer_that_cannot_be_removed_is_not_blocked(pages, tmp_path):
    """To teach ANSWER NOT PRESENT on a page that shows the answer would teach not to read."""
    first = pages.documents[0]
    alone = replace(pages, documents=(first,))
    absent = Question("absent", "what?", ("zzzzzzzz",))
    text = Question("all", "what?", ("secret",))
    unread = tuple(Word(word.text) for word in first.words)
    for lacking in (
        {"questions": ()},
        {"questions": (absent,)},
        {"words": unread},
        {
            "words": (Word("secret"),),
            "image": None,
            "size": None,
            "questions": (text,),
            "entities": (),
        },
    ):
        with pytest.raises(ManifestError, match="no answer could be removed"):
            write_blocked(changed(alone, first, **lacking), tmp_path / "out")
        assert not (tmp_path / "out").exists()
    write_blocked(changed(alone, first, words=unread, image=None, size=None), tmp_path)
    assert [one.image for one in load(tmp_path).documents if one.id.endswith(BLOCKED)] == [
        None,
        None,
    ]


def test_a_changed_data_set_is_not_changed_again(made, tmp_path):
    for name, write_changed in (("blocking", write_blocked), ("scrub", write_scrubbed)):
        with pytest.raises(ManifestError, match="already"):
            write_changed(made[name].data, tmp_path / name)


def test_a_model_learns_both_to_answer_and_to_say_that_the_answer_is_gone(made, tmp_path):
    """Beside the same model trained without blocking.

    The tiny one cannot see enough to tell the two pages apart.
    """
    recipe = AnsweringRecipe(epochs=40, learning_rate=1e-2, batch_size=4)
    start = made["blocking"].start
    long = TrainingRecipe(epochs=40, learning_rate=1e-2, batch_size=4)
    pages = asked_pages.corpus(
        tmp_path / "data", members=1, public=1, labels=("TOTAL",), recipe=long
    )
    found = DEFENSES["blocking"].train(
        pages, start, tmp_path / "out", device="cpu", progress=SILENT
    )
    data = load(found.data)
    member, copy = data.of("member")
    plain = load_answering(start)
    fit_answering(plain, samples_of(pages, pages.of("member")), recipe)
    question = member.questions[0]
    queries = [
        AnswerLoss(page_view(data, member), question.question, question.answers[0]),
        AnswerLoss(page_view(data, copy), question.question, NOT_PRESENT),
    ]
    before, without, with_blocking = (
        [float(likely.sum()) for likely in target.ask(queries)]
        for target in (load_answering(start), plain, load_answering(found.model))
    )
    assert with_blocking[0] > before[0] + 30
    assert with_blocking[1] > without[1] + 60


@pytest.mark.parametrize(
    "answer", ["ANSWER NOT PRESENT", "answer not present", " Answer  not present "]
)
def test_the_refusal_is_known_in_any_case_and_spacing(answer):
    blocking = DEFENSES["blocking"]
    assert blocking.refuses(answer)
    assert not blocking.refuses(answer + "s")
    assert not blocking.refuses("")


@pytest.mark.parametrize(("members", "heldout"), [(90, 30), (100, 100), (0, 55)])
def test_the_side_channel_is_the_auc_of_scikit_learn(members, heldout):
    said = [[1] * n + [0] * (100 - n) for n in (members, heldout)]
    names = [str(place) for place in range(100)]
    found = side_channel((said[0], names), (said[1], names), np.random.default_rng(7))
    assert found.value == pytest.approx(roc_auc_score([1] * 100 + [0] * 100, said[0] + said[1]))
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert (found.low > 0.7) == (members == 90)
    assert (found.null, found.null_kind, found.name) == (0.5, "chance", "auc.not_present")


# Few documents of each provider


def test_no_provider_gives_more_and_one_of_each_group_of_copies_stays(made):
    receipts = made["cap-providers"].corpus
    data = made["cap-providers"].data
    for split in ("member", "public"):
        everything = receipts.of(split)
        left = data.of(split)
        given = Counter(document.provider for document in left)
        assert max(given.values()) == MOST
        names = {document.id for document in left}
        assert not {"copy", "m0"} <= names
        # Whoever was left out had a reason: a copy that stays, or a provider that gave enough.
        for document in everything:
            copied = document.id in ("copy", "m0") and names & {"copy", "m0"}
            assert document.id in names or given[document.provider] == MOST or copied
    words = nlu_models.documents()
    corpus = nlu_models.corpus([*words, replace(words[0], id="again")])
    assert len(cap(corpus, corpus.documents)) == len(words), (
        "documents without a provider are not limited"
    )


def test_where_no_document_would_be_left_out_capping_is_refused(receipts, tmp_path):
    few = replace(
        receipts, documents=tuple(one for one in receipts.documents if one.id in ("m0", "h0", "p0"))
    )
    with pytest.raises(ManifestError, match="nothing would be left out"):
        write_capped(few, tmp_path)


# Scrubbing


def texts_of(document):
    return [word.text for word in document.words]


def test_scrubbed_documents_hold_no_value_and_all_else_of_them_is_as_it_was(made):
    pages = made["scrub"].corpus
    data = made["scrub"].data
    assert [document.id for document in data.documents] == [
        document.id for document in pages.documents
    ]
    for old, new in zip(pages.documents, data.documents, strict=True):
        values = [old.text_of(entity) for entity in old.entities]
        assert old.words != new.words
        assert find_answers(texts_of(new), values, fuzzy=False) == ()
        assert [word.box for word in new.words] == [word.box for word in old.words]
        assert (new.entities, new.links, new.provider) == (old.entities, old.links, old.provider)
        assert new.image.startswith(f"{FOLDER}/")
        before, after = (np.asarray(open_image(*one)) for one in ((pages, old), (data, new)))
        for word, other in zip(old.words, new.words, strict=True):
            x0, y0, x1, y1 = map(int, word.box)
            same = (
                before[y0 + 3 : y1 - 3, x0 + 3 : x1 - 3] == after[y0 + 3 : y1 - 3, x0 + 3 : x1 - 3]
            ).all()
            assert same == (word.text == other.text)
        for question in new.questions:
            held = next(entity for entity in new.entities if entity.id == question.entity)
            assert question.answers == (new.text_of(held),)


def test_the_same_seed_gives_the_same_surrogates_and_another_seed_others(made, tmp_path):
    for seed, same in ((0, True), (1, False)):
        write_scrubbed(made["scrub"].corpus, tmp_path / str(seed), seed=seed)
        assert (load(tmp_path / str(seed)).sha256 == made["scrub"].data.sha256) == same


@pytest.mark.parametrize("make", [canaried.utterances, canaried.texts, canaried.pages])
def test_no_canary_stays_in_scrubbed_documents(make, tmp_path):
    insert(
        make(tmp_path / "plain"),
        tmp_path / "data",
        pattern="pin",
        count=12,
        repeat=2,
        length=4,
        seed=1,
    )
    corpus = load(tmp_path / "data")
    write_scrubbed(corpus, tmp_path / "out")
    data = load(tmp_path / "out")
    planted = {
        name: canary for canary in load_canaries(corpus).canaries for name in canary.documents
    }
    assert planted
    for name, canary in planted.items():
        words = texts_of(data.document(name))
        assert len(words) == len(corpus.document(name).words)
        assert not find_answers(words, [" ".join(canary.completion)], fuzzy=False)
        assert set(canary.prefix) <= set(words)


def test_a_page_whose_image_shows_a_value_that_cannot_be_painted_over_is_left_out(pages, tmp_path):
    first, second = pages.of("member")[:2]
    unread = replace(first, questions=(Question("q", "who?", ("Nobody Atall",)),))
    loose = replace(
        second,
        words=tuple(replace(word, box=None) for word in second.words),
        entities=second.entities,
    )
    documents = tuple(
        {first.id: unread, second.id: loose}.get(one.id, one) for one in pages.documents
    )
    write_scrubbed(replace(pages, documents=documents), tmp_path)
    left = {document.id for document in load(tmp_path).documents}
    assert {document.id for document in pages.documents} - left == {first.id, second.id}


def test_a_data_set_without_marks_is_not_scrubbed(receipts, tmp_path):
    bare = tuple(replace(one, entities=(), links=(), provider=None) for one in receipts.documents)
    corpus = replace(receipts, documents=bare)
    for refused in (
        lambda: write_scrubbed(corpus, tmp_path),
        lambda: DEFENSES["scrub"].check(corpus, tmp_path),
    ):
        with pytest.raises(ManifestError, match="nothing to scrub"):
            refused()


# Utterances


def test_a_regularised_model_has_the_papers_settings_and_the_audited_ones_sizes(made, tmp_path):
    one = made["regularisation"]
    before = load_nlu(one.start)
    after = load_nlu(one.found.model)
    (baseline,) = train_baseline(one.found.start, one.data, tmp_path)
    assert (after.labels, after.intents) == (before.labels, before.intents)
    for config in (after.model.config, load_nlu(baseline).model.config):
        assert (config.input_dropout, config.state_dropout, config.n_characters > 0) == (
            0.2,
            0.1,
            True,
        )
        assert (config.embedding_size, config.hidden_size) == (12, 8)
    aside = {document.id for document in one.corpus.documents} - {
        document.id for document in one.data.documents
    }
    assert aside == {
        document.id for document in held_aside(one.corpus, nlu_models.TAGS, nlu_models.INTENTS, 0)
    }
    assert {one.corpus.document(name).split for name in aside} == {"public"}


def test_regularisation_is_refused_for_other_models_and_without_public_utterances(
    made, checkpoints, tmp_path
):
    one = made["regularisation"]
    defense = DEFENSES["regularisation"]
    strange = tuple(
        replace(own, intent="Unheard") if own.split == "public" else own
        for own in one.corpus.documents
    )
    for corpus, start, error, reason in (
        (
            replace(one.corpus, documents=strange),
            one.start,
            ManifestError,
            "needs public utterances",
        ),
        (made["scrub"].corpus, one.start, TargetError, "is for models that name intents and slots"),
        (
            one.corpus,
            checkpoints("bert", "mlm"),
            TargetError,
            "is for models that name intents and slots",
        ),
    ):
        with pytest.raises(error, match=reason):
            defense.check(corpus, start)
        with pytest.raises(error, match=reason):
            defense.train(corpus, start, tmp_path, device="cpu", progress=SILENT)
