"""A small Donut that learned pages by heart proposes their hidden values; one that learned others does not."""

from typing import NamedTuple

import answering
import pytest
from attempts import measured
from pictured_pages import Sharp, pictured, samples_of, teach, untrained_donut
from test_reconstruction_planted import run

from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.corpus.documents import Corpus
from audit.targets.answering.target import AnsweringTarget

pytestmark = pytest.mark.slow
ROWS = 8
STEPS = 200
LEARNT = 0.01
"""Mean loss of a model that gives every answer."""


class Learned(NamedTuple):
    """A model that knows the pages of the members, and one that knows others."""

    corpus: Corpus
    target: AnsweringTarget
    other: AnsweringTarget


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    root = tmp_path_factory.mktemp("pages")
    corpus = pictured(answering.corpus(ROWS, ROWS), root / "corpus")
    others = pictured(answering.corpus(ROWS, 0, seed=9), root / "others")
    start = untrained_donut(root / "untrained", 0)
    learnt = samples_of(corpus, corpus.of("member"))
    target = teach(start, root / "target", learnt, stop=LEARNT, most=STEPS)
    learnt = samples_of(others, others.of("member"))
    other = teach(start, root / "other", learnt, stop=LEARNT, most=STEPS)
    return Learned(corpus, target, other)


@pytest.fixture(autouse=True)
def sharp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the OCR read the words of these small pages."""
    monkeypatch.setattr("audit.attacks.questions.TESSERACT", Sharp())


def test_a_donut_that_knows_pages_proposes_what_is_hidden_on_them(pages: Learned) -> None:
    case = Case(pages.target, pages.corpus, References(pretrained=pages.other))
    outcomes, result = run(Reconstruction(), case)
    assert {outcome["status"] for outcome in outcomes} == {"proven"}
    assert measured(result, "excess_pr.unique.recollected").value >= 0.5
    assert measured(result, "pr.heldout.attack").value == 0
    assert measured(result, "pr.member.baseline").value == 0


def test_a_donut_that_knows_other_pages_proposes_none_of_these_values(pages: Learned) -> None:
    outcomes, result = run(Reconstruction(), Case(pages.other, pages.corpus))
    assert {outcome["status"] for outcome in outcomes} == {"proven"}
    assert not any(outcome["attack"]["among"] for outcome in outcomes)
    assert measured(result, "excess_pr.unique.recollected").value == 0
