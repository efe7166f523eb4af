"""Models that answer questions from a page's words: what the attack may know, and what it finds in planted memories."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import planted
import pytest
import tiny
import torch
from test_reconstruction_planted import measured, run, verdict
from text_answering_checkpoints import make_sentinel_vt5, make_t5

from audit.attacks.fields import N_QUESTIONS, all_fields, without_telling_questions
from audit.attacks.interface import why
from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Question,
    Split,
    Task,
    Word,
)
from audit.record import Result
from audit.targets.answering.denoiser import load_denoiser
from audit.targets.answering.loading import load_answering
from audit.targets.answering.target import AnsweringTarget, AskedPage
from audit.targets.interface import Answer, AnswerLoss, TrainingLoss

pytestmark = pytest.mark.slow

FIELD = Entity("e0", "TOTAL", "amount", (1, 2))
PAGE = Document(
    "d", "member", (Word("total"), Word("12"), Word("Main-St"), Word("paid")), entities=(FIELD,)
)


def asked(*answers: str, question: str = "which?", entity: str | None = None) -> Question:
    return Question("q", question, answers, entity=entity)


FINE = [asked("blue"), asked("blue", entity="e1")]
TELLING = [
    asked(*own)
    for own in (["12 Main-St"], ["at 12 MAIN-ST, Leeds"], ["main-st"], ["blue", "12main-st"], [])
]
TELLING += [asked("blue", entity="e0"), asked("blue", question="who lives at 12 main-st?")]


@pytest.mark.parametrize(("question", "used"), [(one, one in FINE) for one in FINE + TELLING])
def test_a_question_that_gives_the_field_away_is_not_used(question: Question, used: bool) -> None:
    kept = without_telling_questions(
        replace(PAGE, questions=(question, asked("green"))), FIELD
    ).questions
    assert (question in kept) == used
    assert asked("green") in kept


def test_the_first_few_questions_are_used_that_give_nothing_away() -> None:
    questions = [asked(f"blue{number}") for number in range(2 * N_QUESTIONS)]
    document = replace(PAGE, questions=(asked("12 Main-St"), *questions))
    assert without_telling_questions(document, FIELD).questions == tuple(questions[:N_QUESTIONS])


class Reads(planted.Planted):
    """A planted target that answers questions; keeps the answers that its losses were read of."""

    def __init__(self, documents, remembered=(), **settings):
        super().__init__(documents, remembered, task="question-answering", **settings)
        self.answers = frozenset({Answer, AnswerLoss, TrainingLoss})
        self.seen: set[str] = set()

    def encode(self, document, around=()):
        if hasattr(self, "seen"):
            self.seen |= {answer for question in document.questions for answer in question.answers}
        return super().encode(document, around)


def with_questions(corpus: Corpus, others: bool = True) -> Corpus:
    """Every document gets a question about its field, one whose answer holds it, and two others (or none)."""
    documents = []
    for document in corpus.documents:
        value = document.text_of(document.entities[0])
        telling = (
            asked(value, entity="e0"),
            asked(f"it is {value}"),
            asked("told", question=f"is it {value}?"),
        )
        more = (asked("blue"), asked("green")) if others else ()
        documents.append(replace(document, questions=(*telling, *more)))
    return replace(corpus, documents=tuple(documents))


def test_a_model_that_remembers_k_documents_is_scored_k_of_n_through_its_answers() -> None:
    corpus = with_questions(planted.corpus(120, 120))
    public = planted.Planted(corpus.documents, seed=5)
    attack = Reconstruction()
    leaky = Reads(corpus.documents, {f"d{index}" for index in range(40)})
    leaky.seen.clear()
    _, findings = run(attack, planted.case(leaky, public, corpus))
    assert leaky.seen == {"blue", "green"}, "an answer that gives the field away was used"
    assert measured(findings, "excess_pr.unique.lowest_loss").value == pytest.approx(40 / 120)
    assert verdict(attack, findings).exit_code == 10
    _, findings = run(attack, planted.case(Reads(corpus.documents, seed=9), public, corpus))
    assert verdict(attack, findings).exit_code == 0


def test_a_field_whose_questions_all_give_it_away_is_left_out_and_counted() -> None:
    corpus = planted.corpus(6, 6)
    mixed = replace(
        corpus,
        documents=(*with_questions(corpus, others=False).documents[:2], *corpus.documents[2:4]),
    )
    rest = with_questions(corpus).documents[4:]
    whole = replace(corpus, documents=(*mixed.documents, *rest))
    case = planted.case(Reads(whole.documents), planted.Planted(whole.documents, seed=5), whole)
    attack = Reconstruction()
    assert [field.left_out for field in all_fields(case, 3, 15)] == ["no question"] * 4 + [None] * 8
    counts = {count.name: count.value for count in run(attack, case)[1].counts}
    assert (counts["left out: no question"], counts["fields attacked"]) == (4, 8)
    bare = replace(corpus, documents=mixed.documents[2:])
    assert attack.trials(planted.case(Reads(bare.documents), case.references.auxiliary, bare)) == []


N_TRAINED = 6


def marked(number: int, split: Split) -> Document:
    """A page on which nothing but its field, three letters of its own, tells which answer was taught about it."""
    value = tiny.CHARACTERS[3 * number : 3 * number + 3]
    texts = ["note", value, "end"]
    words = tuple(
        Word(text, (10.0 + 60 * place, 20.0, 60.0 + 60 * place, 32.0))
        for place, text in enumerate(texts)
    )
    code = str(number) * 4
    questions = (asked(value, question="mark?", entity="e0"), asked(code, question="code?"))
    entities = (Entity("e0", "MARK", "code", (1,)),)
    return Document(
        f"{split}{number}", split, words, size=tiny.SIZE, entities=entities, questions=questions
    )


DOCUMENTS = tuple(
    marked(number, "member" if number < N_TRAINED else "heldout") for number in range(2 * N_TRAINED)
)


def learn(target: AnsweringTarget, documents: Sequence[Document]) -> None:
    """Fit the model to the answers of these documents until it knows them by the first letter of their field."""
    pages = []
    for document in documents:
        page = target.encode(document)
        assert isinstance(page, AskedPage)
        pages += [page, page.masked(page.positions_of((1,))[1:])]
    inputs = target.reader.taught([sample for page in pages for sample in page.samples()])
    optimizer = torch.optim.AdamW(target.model.parameters(), lr=1e-2)
    for _ in range(300):
        loss = target.model(**inputs).loss
        if loss.item() < 0.03:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("asked")
    make_sentinel_vt5(root / "vt5", 1, visual=False)
    make_t5(root / "t5", 2)
    return root


def attacked(place: Path, *, trained: bool) -> tuple[dict[str, float], Result]:
    """The share of fields whose first token is put back by the lowest loss, by split and player.

    And all findings.
    """
    target = load_answering(place / "vt5")
    if trained:
        learn(target, DOCUMENTS[:N_TRAINED])
    manifest = Manifest(1, "marked", Task("question-answering"), Membership("random"))
    case = Case(
        target,
        Corpus(place, manifest, DOCUMENTS, "0" * 64),
        References(load_denoiser(place / "t5")),
    )
    attack = Reconstruction(n_candidates=200, n_attempts=1)
    assert why(attack, case, "model") is None
    outcomes, findings = run(attack, case)
    right: dict[str, list[bool]] = defaultdict(list)
    for outcome, field in zip(outcomes, all_fields(case, 3, 15), strict=True):
        for player, (shot,) in outcome["methods"]["lowest_loss"].items():
            right[f"{field.document.split} {player}"].append(
                shot["tokens"][0] == outcome["truth"][0]
            )
    return {name: float(np.mean(hits)) for name, hits in right.items()}, findings


def test_a_vt5_that_learnt_its_members_by_heart_gives_their_fields_back(place: Path) -> None:
    found, findings = attacked(place, trained=True)
    assert found["member attack"] >= 0.8
    assert max(found["heldout attack"], found["member baseline"], found["heldout baseline"]) <= 0.2
    assert measured(findings, "planted_detection.unique").value >= 0.5


def test_a_vt5_that_never_saw_them_gives_nothing_back(place: Path) -> None:
    found, _ = attacked(place, trained=False)
    assert max(found.values()) <= 0.2
