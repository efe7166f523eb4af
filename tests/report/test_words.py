"""Every output calls what became of a limit by the same words."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

import example_answers as answers
import example_providers as providers
import example_records as examples
import pytest
from example_records import Case
from shown_pages import Seen, decision

from audit.attacks import TEXTS
from audit.cli import console
from audit.extensions.countermeasures.page import cheapest_sentence
from audit.policy import WORDS, Outcome
from audit.policy.decision import word_of
from audit.report import trend
from audit.report.checkpoints import Stop
from audit.report.files import measurements_csv
from audit.report.html import GENERAL, html
from audit.report.labels import LABELS
from audit.report.markdown import dpia, model_card
from audit.report.verdicts import Judged, render

pytestmark = pytest.mark.usefixtures("undrawn")
MAIN = {"exceeded", "undecided", "met", "not tested"}
OTHERS = {"waived", "not applicable"}
FORMER = re.compile(r"\b(violat\w+|passed|inapplicable|not run)\b", re.IGNORECASE)
OF_PROSE = ("were not run", "not run in")
"""Words that say something else than the outcome of a limit."""
CASES: dict[str, Callable[[], Case]] = {
    **examples.CASES,
    **{f"providers {name}": make for name, make in providers.CASES.items()},
    "answers leaky": answers.leaky,
    "answers clean": answers.clean,
}


def former_words(text: str) -> list[str]:
    """List the words of a text that outcomes had before."""
    for prose in OF_PROSE:
        text = text.replace(prose, "")
    return [found[0] for found in FORMER.finditer(text)]


def visible(page: str) -> str:
    """Return what a reader sees or hears of a page, its title and descriptions among it."""
    seen = Seen(re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL))
    told = [value for name, value in seen.attributes if name in ("content", "aria-label", "title")]
    return " ".join([seen.text, *told])


def outcomes_in(node: Any) -> Iterator[str]:
    """Yield the outcomes that a JSON verdict states."""
    if isinstance(node, list):
        for item in node:
            yield from outcomes_in(item)
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("outcome", "verdict", "text_verdict") and value is not None:
                yield value
            yield from outcomes_in(value)


def test_the_words_of_outcomes_are_four_and_two_for_what_is_waived_or_does_not_apply() -> None:
    assert set(WORDS) == set(get_args(Outcome))
    assert set(WORDS.values()) == MAIN | OTHERS
    labels = {name: label.lower() for name, label in LABELS["outcomes"].items()}
    assert labels == dict(WORDS)


@pytest.mark.parametrize("former", ["violated", "passed", "not run", "inapplicable"])
def test_older_words_are_read_as_those_of_today(former: str) -> None:
    assert word_of(former) == WORDS[former]  # type: ignore[index]
    assert word_of(WORDS[former]) == WORDS[former]  # type: ignore[index]


@pytest.mark.parametrize("name", CASES)
def test_the_json_verdict_has_these_words_alone(name: str) -> None:
    record, verdict, _ = CASES[name]()
    content = json.loads(render("json", Judged(record, verdict)))
    assert set(outcomes_in(content)) <= MAIN | OTHERS
    assert "violated" not in content["counts"]


@pytest.mark.parametrize("name", CASES)
def test_no_output_has_a_former_word(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    record, verdict, policy = CASES[name]()
    judged = Judged(record, verdict, "README.md")
    console.show_verdict(verdict, record=record)
    outputs = {
        "terminal": capsys.readouterr().out,
        "markdown": render("markdown", judged),
        "junit": re.sub(r"\bskipped\b", "", render("junit", judged)),
        "sarif": render("sarif", judged),
        "csv": measurements_csv(record),
        "decision": visible(decision((record, verdict, policy))),
        "html": visible(html(record, verdict, policy)),
        "dpia": dpia(record, verdict, policy),
        "card": model_card(record, verdict),
    }
    former = {output: former_words(text) for output, text in outputs.items()}
    assert {output: words for output, words in former.items() if words} == {}


def test_no_output_states_the_share_of_a_budget_without_saying_of_what(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record, _, policy = examples.wide()
    quick = dataclasses.replace(record, budget="quick", share=0.27)
    case = examples.judged(quick, policy)
    console.show_verdict(case[1], record=quick)
    outputs = [
        capsys.readouterr().out,
        render("markdown", Judged(*case[:2])),
        visible(decision(case)),
        visible(html(*case)),
        dpia(*case),
        model_card(*case[:2]),
    ]
    stated = [re.findall(r"\b27\s%(.{0,4})", text) for text in outputs]
    assert any(stated)
    for shares in stated:
        assert all(follows.startswith(" of ") for follows in shares)


@pytest.mark.parametrize("name", ["violated", "answers leaky"])
def test_came_back_has_one_definition_that_the_report_links_to(name: str) -> None:
    page = html(*CASES[name]())
    assert page.count("The attacker got the value from the model, by the method that decides") <= 2
    _, _, glossary = page.partition('id="glossary"')
    assert "Came back" in glossary
    defined = [name for name in (*GENERAL, *texts_of_glossaries()) if "came back" in name.lower()]
    assert defined == ["Came back"]


def texts_of_glossaries() -> Iterator[str]:
    """Yield the terms that the texts of attacks define."""
    for text in TEXTS.values():
        yield from text.glossary


def test_comparisons_and_checkpoints_use_the_same_words() -> None:
    before = examples.comparison("scrub", verdict_before="violated", verdict_after="passed")
    stops = [Stop(*entry) for entry in examples.training(0.0, 0.6)]
    outputs = [cheapest_sentence((before,)), visible(trend.html(stops, "epoch"))]
    assert [former_words(text) for text in outputs] == [[], []]
