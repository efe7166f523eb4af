"""What is asked about a provider's documents, and what becomes of it.

See methods/provider-membership.md."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from answering import NOTHING, Answering, placed
from attempts import measured, run
from PIL import Image
from planted import card

from audit.attacks.provider_membership.attack import NO_QUESTION, ProviderMembership, reference_of
from audit.attacks.provider_membership.attack import ask_about as ask_about_it
from audit.attacks.provider_membership.providers import match_sides
from audit.attacks.provider_membership.providers import table_of as table_of_matched
from audit.case import Case, References
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Question,
    Task,
    Word,
)
from audit.engine.driver import drive
from audit.engine.interface import Trial
from audit.targets.encoded_page import NO_LINK, NOT_READ, Encoding
from audit.targets.interface import BestLinks, Reply, TagProbabilities, TrainingLoss

PAGE = Document(
    "d0",
    "heldout",
    placed(["Gardenia", "TOTAL:", "kqzvxwtr", "SELLER:", "bnmfgdhj"]),
    size=(800, 600),
    provider="Gardenia",
    questions=(
        Question("q0", "What is the total?", ("kqzvxwtr",), category="amount"),
        Question("q1", "What is the seller?", ("bnmfgdhj", "nobody"), category="person"),
        Question("q2", "What is the place?", ("zzzzwwww",), category="location"),
        Question("q3", "What is missing?", ("",)),
    ),
)


def corpus(*documents, kind="question-answering"):
    return Corpus(
        None, Manifest(1, "planted", Task(kind), Membership("by-provider")), documents, "0" * 64
    )


class Scripted(Answering):
    """Replies what the script says, by question; {question: [first reply, next reply, ...]}."""

    def __init__(self, script, loss=1.0):
        super().__init__()
        self.script = {question: list(replies) for question, replies in script.items()}
        self.loss = loss
        self.views = []

    def _given(self, query):
        self.views.append((query.question, query.view))
        replies = self.script[query.question]
        text = replies.pop(0) if len(replies) > 1 else replies[0]
        return Reply(text, 0.25 if text == NOTHING else 0.75, 1, True)

    def _losses(self, query):
        return np.array([0.0, -2 * self.loss])


SCRIPT = {
    "What is the total?": ["kqzvxwtr", "KQZVXWTR "],
    "What is the seller?": ["bnmfgdhx", NOTHING],
    "What is the place?": ["elsewhere"],
    NO_QUESTION: ["SELLER:", "SELLERS"],
}


class Work:
    def __init__(self, attempt):
        self.attempt = attempt


def told(attempt):
    """What an attempt returns, as the journal gives it back."""
    ((_, outcome),) = drive(Work(lambda trial: attempt), [Trial("t", "t")], 1)
    return json.loads(json.dumps(outcome, allow_nan=False))


def ask_about(case, document):
    return ask_about_it(case, document, reference_of(case))


def table_of(trials, outcomes):
    return table_of_matched(match_sides(trials, outcomes))


def asked(document=PAGE, script=SCRIPT, reference=None):
    target = Scripted(script)
    return target, told(
        ask_about(Case(target, corpus(document), References(pretrained=reference)), document)
    )


def test_a_question_gives_what_the_paper_compares():
    reference = Scripted({name: [NOTHING] for name in SCRIPT}, loss=4.0)
    _, outcome = asked(reference=reference)
    total, seller, place = outcome["questions"]
    right = dict.fromkeys(("loss", "accuracy", "similarity", "memory_similarity"), 1.0)
    assert total == right | {"confidence": 0.75, "pretrained": {"loss": 4.0, "confidence": 0.25}}
    assert (seller["accuracy"], seller["similarity"], seller["memory_similarity"]) == (
        0.0,
        7 / 8,
        0.0,
    )
    # Nothing on the page: nothing can be taken from it.
    assert (place["accuracy"], place["similarity"], place["memory_similarity"]) == (0.0, 0.0, None)
    # Without its output "SELLER:" on the page the model says "SELLERS": one of seven characters is
    # another.
    assert outcome["memory_change"] == pytest.approx(1 / 7)


def test_a_document_is_asked_with_each_answer_gone_and_with_no_question_before_and_after():
    target, _ = asked()
    views = {}
    for question, view in target.views:
        views.setdefault(question, []).append([word.text for word in view.words])
    page = [word.text for word in PAGE.words]
    assert views["What is the total?"] == [page, [word for word in page if word != "kqzvxwtr"]]
    assert views["What is the seller?"] == [page, [word for word in page if word != "bnmfgdhj"]]
    assert views["What is the place?"] == [page]
    assert views[NO_QUESTION] == [page, [word for word in page if word != "SELLER:"]]
    assert "What is missing?" not in views


def test_what_is_removed_is_blurred_in_the_image(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "page.png")
    document = replace(PAGE, image="page.png")
    target = Scripted(SCRIPT)
    told(ask_about(Case(target, replace(corpus(document), root=tmp_path)), document))
    (whole, cleared) = (
        np.asarray(view.image)
        for question, view in target.views
        if question == "What is the total?"
    )
    assert (whole == noise).all()
    x0, y0, x1, y1 = map(int, document.words[2].box)
    assert 0 < cleared[y0:y1, x0:x1].std() < 0.3 * noise[y0:y1, x0:x1].std()  # no paint


def test_words_without_a_place_in_the_image_cannot_be_taken_out_of_it(tmp_path):
    Image.new("RGB", (800, 600)).save(tmp_path / "page.png")
    words = tuple(Word(word.text) for word in PAGE.words)
    bare = replace(PAGE, words=words, size=None)
    _, outcome = asked(bare)  # words alone: they are gone once they are removed
    assert [question["memory_similarity"] for question in outcome["questions"]] == [1.0, 0.0, None]
    assert outcome["memory_change"] is not None
    drawn = replace(PAGE, words=words, image="page.png")
    outcome = told(ask_about(Case(Scripted(SCRIPT), replace(corpus(drawn), root=tmp_path)), drawn))
    assert [question["memory_similarity"] for question in outcome["questions"]] == [None] * 3
    assert outcome["memory_change"] is None


WORDS = PAGE.words


@pytest.mark.parametrize(
    ("output", "words", "change"),
    [
        pytest.param(("Gardenia", "Gardenia"), WORDS, 0.0, id="said again without the page"),
        pytest.param(("Gardenia", ""), WORDS, 1.0, id="not said without the page"),
        pytest.param(
            ("elsewhere", "never asked again"),
            WORDS,
            0.0,
            id="not read, so there is nothing to take away",
        ),
        pytest.param(("  ", "x"), WORDS, None, id="nothing said"),
        pytest.param(("Gardenia", "x"), (), None, id="nobody knows what words stand there"),
    ],
)
def test_the_output_to_no_question_is_taken_from_the_page(output, words, change):
    _, outcome = asked(replace(PAGE, words=words), {**SCRIPT, NO_QUESTION: output})
    assert outcome["memory_change"] == change


def test_a_loss_that_is_no_number_is_left_out():
    class Broken(Scripted):
        def _losses(self, query):
            return np.array(
                [
                    np.nan
                    if query.answer == "bnmfgdhj"
                    else -np.inf
                    if query.answer == "zzzzwwww"
                    else -1.0
                ]
            )

    case = Case(
        Broken(SCRIPT),
        corpus(PAGE),
        References(pretrained=Scripted({name: ["x"] for name in SCRIPT}, 3.0)),
    )
    outcome = told(ask_about(case, PAGE))
    assert [question["loss"] for question in outcome["questions"]] == [1.0, None, None]
    table = table_of([Trial("gardenia", "gardenia", "in")], [{"documents": [outcome]}])
    assert (table.features["loss"].tolist(), table.features["loss_change"].tolist()) == (
        [1.0],
        [2.0],
    )
    assert table.user is not None
    assert table.user.tolist() == [2.0]


def said(loss, before=None, accuracy=0.0, memory=None):
    known = None if before is None else {"loss": before, "confidence": 0.5}
    right = {"accuracy": accuracy, "similarity": accuracy, "memory_similarity": memory}
    return {"loss": loss, "confidence": 0.25, "pretrained": known, **right}


def document(*questions, change=None):
    return {"id": "d", "questions": [*questions], "memory_change": change}


def test_a_provider_is_the_mean_over_its_questions_and_user_inference_that_over_its_documents():
    trials = [Trial(name, name, stratum) for name, stratum in (("a", "in"), ("b", "out"))]
    outcomes = [
        {
            "documents": [
                document(said(1, 4, 1.0), said(2, 3), change=0.5),
                document(said(5, 4, memory=0.5), change=0),
            ]
        },
        {"documents": [document(said(None, 2), said(None, 1)), document(said(3, None, 1.0))]},
    ]
    table = table_of(trials, outcomes)
    assert (table.names, table.member.tolist()) == (("a", "b"), [True, False])
    assert (table.n_questions.tolist(), table.n_documents.tolist()) == ([3, 3], [2, 2])
    expected = {"accuracy": [1 / 3, 1 / 3], "loss": [8 / 3, 3], "confidence": [0.25, 0.25]}
    expected |= {"loss_change": [(3 + 1 + 1) / 3, np.nan], "confidence_change": [0.25, 0.25]}
    expected |= {"memory_similarity": [0.5, np.nan], "memory_change": [0.25, np.nan]}
    for name, values in expected.items():
        assert table.features[name] == pytest.approx(values, nan_ok=True), name
    # The first document's answers became likelier by 2 nats a token, the second's less likely by 1.
    assert table.user == pytest.approx([(2 - 1) / 2, np.nan], nan_ok=True)
    bare = table_of([Trial("a", "a", "in")], [{"documents": [document(said(1))]}])
    assert ({*bare.features}, bare.user) == ({"accuracy", "similarity", "loss", "confidence"}, None)


LABELS = ("O", "B-X", "I-X")


class Tagger:
    """Tags words right but for those that begin with "?", which it calls "O".

    Sure of the tag to 0.8.
    """

    labels = LABELS

    def __init__(self, loss, links=False):
        self.card = card("token-classification")
        self.answers = frozenset(
            {TrainingLoss, BestLinks} if links else {TrainingLoss, TagProbabilities}
        )
        self.loss = loss
        self.documents = {}

    def encode(self, document, around=()):
        tags = [0] * len(document.words)
        links = np.full(len(tags) + 1, NO_LINK)
        for entity in document.entities:
            for place, index in enumerate(entity.words):
                tags[index] = 2 if place else 1
            links[entity.words[-1] + 1] = entity.words[0] + 1
        links[0] = NOT_READ
        n = len(tags)
        read = np.array([NOT_READ, *tags]) if tags else np.full(1, NOT_READ)
        links = links if BestLinks in self.answers else None
        page = Encoding(np.arange(n + 1), np.zeros((n + 1, 4)), np.arange(-1, n), read, 0, 1, links)
        self.documents[id(page)] = (document, page)
        return page

    def ask(self, queries):
        return [self.answer(query) for query in queries]

    def answer(self, query):
        document, page = self.documents[id(query.page)]
        wrong = np.array([False, *(word.text.startswith("?") for word in document.words)])
        if isinstance(query, TrainingLoss):
            assert query.candidates.tolist() == [page.ids[query.position]]  # the page as it is
            return np.array([self.loss])
        if isinstance(query, BestLinks):
            return np.where(wrong, NO_LINK, page.links)
        tags = np.where(wrong, 0, np.maximum(page.labels, 0))
        return np.where(np.arange(3) == tags[:, None], 0.8, 0.1)


FORM = Document(
    "d0",
    "heldout",
    placed(["a", "b", "c", "?d", "e"]),
    provider="A",
    entities=(Entity("e0", "X", "misc", (0, 1)), Entity("e1", "X", "misc", (2, 3))),
)


PAGES = {
    # Entity a b is found, c ?d is cut short; of five words one is tagged wrong.
    "tags": (FORM, False, (0.5, 0.8, 0.8)),
    "no fields": (replace(FORM, entities=()), False, (None, 1.0, 0.8)),
    # Of two links (b to a, ?d to c) one is found; four of five words point right.
    "links": (FORM, True, (2 / 3, 0.8, None)),
}


@pytest.mark.parametrize(("form", "links", "expected"), PAGES.values(), ids=PAGES)
def test_a_page_of_a_token_classifier_is_one_question(form, links, expected):
    case = Case(Tagger(0.5, links), corpus(form), References(pretrained=Tagger(2.0, links)))
    outcome = told(ask_about(case, form))
    (page,) = outcome["questions"]
    assert (page["accuracy"], page["similarity"], page["confidence"]) == pytest.approx(expected)
    assert (page["loss"], page["pretrained"]["loss"]) == (0.5, 2.0)
    assert page["pretrained"]["confidence"] == pytest.approx(expected[2])
    assert (page["memory_similarity"], outcome["memory_change"]) == (None, None)


def test_token_classifiers_are_told_apart_by_loss_and_fields():
    rng = np.random.default_rng(0)
    documents = [replace(FORM, id="empty", words=(), entities=(), provider="p0")]
    for number, place in itertools.product(range(16), range(3)):
        split = "member" if number < 8 and not place else "heldout"
        words = [
            f"{'?' if rng.random() < (0.1 if number < 8 else 0.6) else ''}w{index}"
            for index in range(6)
        ]
        named = {"id": f"d{number}-{place}", "split": split, "provider": f"p{number}"}
        documents.append(replace(FORM, words=placed(words), **named))

    class Leaking(Tagger):
        def answer(self, query):
            known = int(self.documents[id(query.page)][0].provider[1:]) < 8
            return (
                np.array([self.loss - 1.0 * known])
                if isinstance(query, TrainingLoss)
                else super().answer(query)
            )

    data = corpus(*documents, kind="token-classification")
    case = Case(Leaking(1.5), data, References(pretrained=Tagger(2.0)))
    trials, outcomes, found = run(ProviderMembership(n_seeds=1, share=0.3), case)
    table = table_of(trials, outcomes)
    assert (
        table.n_questions.tolist() == [2] * 16
    )  # not the empty page; of providers out as many as of those in
    assert np.where(table.member, 1.5, 0.5) == pytest.approx(table.user)
    assert measured(found, "auc").value == measured(found, "auc.loss").value == 1
    assert measured(found, "balanced_accuracy.azk").low > 0.5
    assert "memorisation tests" in measured(found, "balanced_accuracy.apk_ensemble").reason
