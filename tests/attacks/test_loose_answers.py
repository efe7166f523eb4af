"""Answers that were located loosely: their words are what goes, and near copies that stay are no proof."""

import pytest

from audit.attacks.questions import ABSENT, PROVEN, SURVIVES, AskedQuestion, Cleared, clear
from audit.corpus.documents import Document, Entity, Question, Word
from audit.corpus.images import PageView
from audit.importers.locate import Location, locate

LABEL = "17 Jalan Bukit Indah 3/2 81200 Johor Bahru"
PRINTED = "No 17 JLN BKT 1NDAH 3/2, 81200 JOHR BAHRU"


def _asked(text: str, entity: tuple[int, ...] | None) -> AskedQuestion:
    words = tuple(Word(word) for word in text.split())
    entities = () if entity is None else (Entity("e", "ADDRESS", "location", entity),)
    question = Question("q", "address?", (LABEL,), entity=None if entity is None else "e")
    return AskedQuestion(
        Document("d", "member", words, entities=entities, questions=(question,)), question
    )


def _cleared(asked: AskedQuestion) -> Cleared:
    asking = clear(PageView(asked.document.words), asked.spellings)
    with pytest.raises(StopIteration) as ended:
        next(asking)
    cleared = ended.value.value
    assert isinstance(cleared, Cleared)
    return cleared


def _loose(page: str) -> tuple[int, ...]:
    found = locate(LABEL, "location", page.split())
    assert isinstance(found, Location)
    assert found.rule == "loose"
    return found.words


def test_the_words_of_a_loosely_located_answer_go_and_are_proven_gone() -> None:
    page = f"MEGAH TRADING {PRINTED} total 9.00"
    assert _cleared(_asked(page, None)).status == ABSENT
    cleared = _cleared(_asked(page, _loose(page)))
    assert cleared.status == PROVEN
    assert not {*["17", "JLN", "BKT", "1NDAH", "81200", "JOHR"]} & {
        word.text for word in cleared.view.words
    }
    assert {"MEGAH", "TRADING", "total", "9.00"} <= {word.text for word in cleared.view.words}


def test_a_near_copy_that_stays_is_no_proof() -> None:
    page = f"MEGAH TRADING {PRINTED} total 9.00 branch 17 JALN BKT INDH 3/2 81200 JHR BHRU"
    words = tuple(range(page.split().index("17"), page.split().index("total")))
    assert _cleared(_asked(page, words)).status == SURVIVES


def test_answers_that_stand_on_their_page_are_removed_as_they_were() -> None:
    asked = _asked(f"MEGAH TRADING {LABEL} total 9.00", (0, 1, *range(2, 10)))
    assert asked.spellings == asked.answers
