"""Countermeasures around a target: they change the question and nothing else, and an answer follows from its query."""

import dataclasses
import re

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.documents import Word
from audit.corpus.images import PageView
from audit.defenses.interface import query_defense, query_defenses
from audit.defenses.rewording import Reworded
from audit.errors import TargetError, UsageError
from audit.extensions.countermeasures.wrappers import Paraphrase
from audit.targets import interface as queries

DEFENSES = query_defenses()
SHEET = PageView((Word("total"), Word("9.00")))
QUESTION = "What is the total amount?"
CARD = dataclasses.replace(tiny.record().target, architecture="Donut")
questions = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1, max_size=60
)


class Listening:
    """A target that keeps what it is asked."""

    def __init__(self, *answers):
        self.card = CARD
        self.answers = frozenset(answers or {queries.Answer, queries.AnswerLoss})
        self.heard = []

    def ask(self, heard):
        self.heard += heard
        return [queries.Reply(query.question, 1.0, 1, True) for query in heard]


def asked(name, question, seed=0):
    """What the model behind a countermeasure hears."""
    inner = Listening()
    query_defense(name, seed).wrap(inner).ask([queries.Answer(SHEET, question)])
    return inner.heard[0].question


@pytest.mark.parametrize("name", DEFENSES)
@pytest.mark.parametrize(
    "query", [queries.Answer(SHEET, QUESTION), queries.AnswerLoss(SHEET, QUESTION, "9.00")]
)
def test_only_the_question_is_changed(name, query):
    inner = Listening()
    (given,) = query_defense(name).wrap(inner).ask([query])
    (heard,) = inner.heard
    assert type(heard) is type(query)
    assert heard.question != query.question == QUESTION
    rest = [field.name for field in dataclasses.fields(query) if field.name != "question"]
    assert all(getattr(heard, field) is getattr(query, field) for field in rest)
    assert given.text == heard.question


@pytest.mark.parametrize("name", DEFENSES)
@given(question=questions, others=st.lists(questions, max_size=4))
def test_an_answer_depends_on_its_query_alone(name, question, others):
    inner = Listening()
    target = query_defense(name).wrap(inner)
    target.ask([queries.Answer(SHEET, text) for text in [*others, question]])
    target.ask([queries.Answer(SHEET, question)])
    target.ask([queries.Answer(SHEET, text) for text in reversed([*others, question])])
    alone = asked(name, question)
    places = (len(others), len(others) + 1, len(others) + 2)
    assert [inner.heard[place].question for place in places] == [alone] * 3


@given(question=questions, seed=st.integers(0, 2**32))
def test_six_digits_stand_before_or_after_the_question(question, seed):
    before = asked("random-before", question, seed)
    after = asked("random-after", question, seed)
    assert re.fullmatch(r"[0-9]{6}", before.removesuffix(f" {question}"))
    assert re.fullmatch(r"[0-9]{6}", after.removeprefix(f"{question} "))


def test_digits_differ_between_questions_and_between_seeds():
    texts = [f"What is in line {number}?" for number in range(200)]
    digits = [asked("random-before", text)[:6] for text in texts]
    assert len(set(digits)) > 190
    # All of 0 to 9 in every place, leading zeros too: none of them is known beforehand.
    assert all(len({string[place] for string in digits}) == 10 for place in range(6))
    assert asked("random-before", QUESTION, 0) != asked("random-before", QUESTION, 1)


def test_a_paraphrase_is_one_of_several_and_the_seed_chooses():
    ways = {asked("paraphrase", QUESTION, seed) for seed in range(40)}
    assert len(ways) > 2
    assert QUESTION not in ways


def test_only_questions_about_a_page_are_answered():
    inner = Listening(queries.Answer, queries.AnswerLoss, queries.FillMask)
    target = Paraphrase().wrap(inner)
    assert (target.answers, target.card) == ({queries.Answer, queries.AnswerLoss}, inner.card)
    with pytest.raises(TypeError, match="does not answer FillMask"):
        target.ask([queries.FillMask(SHEET, 0, 1)])
    assert inner.heard == []


@pytest.mark.parametrize("name", DEFENSES)
def test_a_target_without_questions_is_refused(name):
    with pytest.raises(TargetError, match=f"Donut answers no questions: {name}"):
        query_defense(name).wrap(Listening(queries.TagProbabilities))


def test_every_query_about_a_question_can_be_reworded():
    """A new type must have a `question` that can be replaced, or be withdrawn."""
    kinds = queries.PageViewQuery.__subclasses__()
    assert {queries.Answer, queries.AnswerLoss} <= set(kinds)
    for kind in kinds:
        inner = Listening(kind)
        names = [field.name for field in dataclasses.fields(kind)][2:]
        Reworded(inner, str.upper).ask([kind(SHEET, QUESTION, **dict.fromkeys(names, np.zeros(1)))])
        assert inner.heard[0].question == QUESTION.upper()


def test_names_are_those_of_the_registry_and_others_are_refused():
    assert [query_defense(name, 3).name for name in DEFENSES] == list(DEFENSES)
    assert {query_defense(name, 3).seed for name in DEFENSES} == {3}
    with pytest.raises(UsageError, match="'hope'") as refused:
        query_defense("hope")
    assert "paraphrase, random-after, random-before" in refused.value.hint
