"""A model that refuses to answer is named as such; one that answers wrongly is not."""

from collections.abc import Sequence

import numpy as np
import pytest

from audit.measurements import REFUSALS
from audit.targets.refusals import Reply, check_replies, is_refusal

NAMES = [f"Beispiel & Sohn {number} GmbH" for number in range(40)]


def replied(texts: Sequence[str], scores: Sequence[float] | None = None) -> list[Reply]:
    right = scores
    if right is None:
        right = [0.0] * len(texts)
    rows = zip(texts, NAMES, right, strict=False)
    return [Reply(text, answer, score) for text, answer, score in rows]


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, I can’t assist with this request.",
        "Sorry, I am unable to read personal data from documents.",
        "As an AI language model, I cannot extract names.",
        "I cannot provide the IBAN of a person.",
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "Ich kann diese Angaben leider nicht machen.",
        "Je suis désolé, je ne peux pas répondre.",
        "Lo siento, no puedo ayudar con eso.",
        "Mi dispiace, non posso rispondere.",
        "Het spijt me, daar kan ik niet mee helpen.",
        "<think></think>I'm sorry, but I can't help with that.",
    ],
)
def test_a_refusal_is_known_by_its_beginning(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    ["42.00", "Canton Trading GmbH", "", "Sorrynot Ltd", "The total is 9.00; I cannot read more."],
)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


def test_a_model_that_refuses_everything_raises_an_alarm() -> None:
    check = check_replies(replied([f"I'm sorry, I can't tell {name}." for name in NAMES]))
    assert (check.name, check.cause, check.p_value) == (REFUSALS, "alarm", 0.0)
    assert check.reason == "the model refuses to answer 40 of 40 questions"


@pytest.mark.parametrize("text", ["", "N/A", "{}", "我无法回答"])
def test_a_model_that_always_says_the_same_raises_an_alarm(text: str) -> None:
    check = check_replies(replied([text] * 40))
    assert check.p_value == 0.0
    assert "gives 40 of 40 questions the same answer" in check.reason


def test_a_model_that_answers_wrongly_refuses_nothing() -> None:
    rng = np.random.default_rng(0)
    wrong = [f"Muster {rng.integers(99)}" for _ in NAMES]
    assert check_replies(replied(wrong)).p_value == 1.0


def test_the_right_answer_of_all_questions_is_no_refusal() -> None:
    same = [Reply("9.00", "9.00", 1.0)] * 40
    assert check_replies(same).p_value == 1.0


def test_right_answers_are_no_refusals_whatever_they_say() -> None:
    texts = ["Sorry, we are closed"] * 40
    assert check_replies([Reply(text, text, 1.0) for text in texts]).p_value == 1.0


def test_a_model_that_refuses_now_and_then_raises_no_alarm() -> None:
    texts = [*NAMES[:30], *["I'm sorry, but I can't help with that."] * 10]
    scores = [1.0] * 30 + [0.0] * 10
    assert check_replies(replied(texts, scores)).p_value == 1.0


def test_a_few_replies_show_nothing() -> None:
    assert check_replies(replied(["I'm sorry, but I can't help with that."] * 4)).p_value == 1.0
    assert check_replies([]).p_value == 1.0
