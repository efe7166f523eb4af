"""A pass of membership rests on proof that the reference reads unseen documents like the model."""

import dataclasses
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import planted
import pytest
import tiny

from audit import policy as policies
from audit.attacks.membership import reading
from audit.attacks.membership.reading import examine_reading
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Question, Task, Word
from audit.measurements import Condition
from audit.policy import Decision
from audit.record import Result
from audit.targets.interface import Answer, AnswerLoss, Reply

UNSEEN = 150


class Reader:
    """Answers a share of the questions rightly, the hard ones last, with a little luck of its own."""

    answers = frozenset({Answer, AnswerLoss})

    def __init__(self, share: float, seed: int, luck: float = 0.2) -> None:
        self.card = planted.card("question-answering")
        self.share = share
        self.seed = seed
        self.luck = luck

    def ask(self, queries: Sequence[Any]) -> list[Reply]:
        return [self.answer(int(query.view.words[0].text)) for query in queries]

    def answer(self, number: int) -> Reply:
        hardness = float(np.random.default_rng([1, number]).random())
        own = float(np.random.default_rng([2, self.seed, number]).random())
        rank = (
            own if np.random.default_rng([3, self.seed, number]).random() < self.luck else hardness
        )
        return Reply("yes" if rank < self.share else "nothing", 1.0, 1, True)


def case_of(target: Reader, *baselines: Reader, n_unseen: int = UNSEEN) -> Case:
    documents = []
    for number in range(n_unseen + 20):
        split = "member" if number < 20 else "heldout"
        question = Question("q", "what?", ("yes",))
        documents.append(Document(f"d{number}", split, (Word(str(number)),), questions=(question,)))  # type: ignore[arg-type]
    settings = Manifest(1, "planted", Task("question-answering"), Membership("random"))
    return Case(
        target,
        Corpus(Path(), settings, tuple(documents), "0" * 64),
        References(baselines=baselines),
    )


def condition_of(case: Case) -> Condition:
    condition = examine_reading(case).conditions[0]
    assert condition.name == reading.READS_ALIKE
    assert condition.attacks == ("membership",)
    return condition


CASES = [
    pytest.param(0.8, UNSEEN, "met", "the reference reads like the model", id="equal"),
    pytest.param(0.75, UNSEEN, "met", "differs by", id="a little worse"),
    pytest.param(
        0.55,
        UNSEEN,
        "unmet",
        "the reference reads unseen documents much worse than the model",
        id="worse",
    ),
    pytest.param(
        1.0, UNSEEN, "unmet", "the reference reads unseen documents much better", id="better"
    ),
    pytest.param(
        0.8, 12, "unmet", "the unseen documents do not show that the reference reads like", id="few"
    ),
]


@pytest.mark.parametrize(("share", "n_unseen", "state", "words"), CASES)
def test_a_reference_is_shown_to_read_like_the_model(
    share: float, n_unseen: int, state: str, words: str
) -> None:
    condition = condition_of(case_of(Reader(0.8, 1), Reader(share, 2), n_unseen=n_unseen))
    assert condition.state == state
    assert words in condition.reason
    assert ("docaudit references" in condition.remedy) == (state != "met")


def test_models_that_read_every_document_alike_are_shown_to_do_so() -> None:
    """No document parts them, so that no paired interval is to be had."""
    assert condition_of(case_of(Reader(1.0, 1), Reader(1.0, 2))).state == "met"
    assert condition_of(case_of(Reader(1.0, 1), Reader(1.0, 2), n_unseen=6)).state == "unmet"


def test_every_reference_has_to_read_like_the_model() -> None:
    target = Reader(0.8, 1)
    assert condition_of(case_of(target, Reader(0.8, 2), Reader(0.8, 3))).state == "met"
    assert condition_of(case_of(target, Reader(0.8, 2), Reader(0.5, 3))).state == "unmet"


def test_without_a_reference_there_is_nothing_to_show() -> None:
    """Then the attack itself says that it is weak."""
    assert examine_reading(case_of(Reader(0.8, 1))) == ((), ())


def test_what_cannot_be_measured_is_not_shown() -> None:
    silent = Reader(0.8, 2)
    silent.answers = frozenset({AnswerLoss})
    condition = condition_of(case_of(Reader(0.8, 1), silent))
    assert condition.state == "unmeasured"
    assert (
        "could not be measured whether the reference reads unseen documents like the model"
        in condition.reason
    )


def test_a_gap_that_passed_once_holms_rule_took_its_p_away_passes_no_more() -> None:
    """S_b10 of the review: F1 differs by 0.208 [0.140, 0.274].

    Beside twenty other checks its p was over 0.05.
    """
    share = 0.8 - 0.208
    states = {
        condition_of(case_of(Reader(0.8, seed), Reader(share, seed + 100))).state
        for seed in range(5)
    }
    assert states == {"unmet"}


def test_a_reference_may_stand_for_the_model_only_within_ten_points() -> None:
    """The gap decides, and not what is shown of it; no limit asks for it by itself."""
    target = Reader(0.8, 1)
    for share, state in ((0.8, "met"), (0.6, "unmet")):
        close = examine_reading(case_of(target, Reader(share, 2))).conditions[1]
        assert (close.name, close.state, close.attacks) == (reading.READS_CLOSE, state, ())


def decided(condition: Condition) -> Decision:
    """Hold a number within its limit against it, beside a condition."""
    number = dataclasses.replace(
        tiny.record().utility[0], name="auc", value=0.5, low=0.45, high=0.55
    )
    found = Result("membership", measurements=(number,), conditions=(condition,))
    limit = policies.Limit("membership", "auc", "told apart", max=0.65)
    record = tiny.record(found, battery=("membership",))
    return policies.evaluate(
        record, policies.Policy(1, "mine", (limit,)), dt.date(2026, 1, 1)
    ).decisions[0]


def test_a_pass_needs_the_condition() -> None:
    target = Reader(0.8, 1)
    alike = decided(condition_of(case_of(target, Reader(0.8, 2))))
    otherwise = decided(condition_of(case_of(target, Reader(0.5, 2))))
    assert alike.outcome == "passed"
    assert (otherwise.outcome, otherwise.cause) == ("undecided", "weak")
    assert "much worse than the model" in otherwise.reason
    assert "docaudit references" in otherwise.remedy


@pytest.mark.parametrize("n_unseen", [75, 150, 300])
def test_honest_references_are_shown_to_read_alike_in_nine_of_ten_audits(n_unseen: int) -> None:
    """The same recipe on other documents, with a gap of training of 3 points (standard deviation)."""
    met = 0
    for seed in range(10):
        gap = float(np.random.default_rng([9, seed]).normal(0, 0.03))
        case = case_of(Reader(0.7, seed), Reader(0.7 + gap, seed + 1000), n_unseen=n_unseen)
        met += condition_of(case).state == "met"
    assert met >= 9
