"""Character evasion: what is exchanged, what folds back, and what it breaks."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.documents import Document, Entity, Question, Word
from audit.extensions.countermeasures.evasion import (
    EVASION,
    EVASION_DEFENSE,
    LOOKALIKES,
    evade,
    evasion_cost,
    fold_confusables,
)

ASCII = st.text(alphabet=st.characters(max_codepoint=127))


@given(ASCII)
def test_folding_gives_ascii_text_back(text: str) -> None:
    assert fold_confusables(evade(text)) == text


@given(st.text())
def test_the_attacker_reads_the_same_from_evaded_text_as_from_the_original(text: str) -> None:
    assert fold_confusables(evade(text)) == fold_confusables(text)


@given(st.text())
def test_evaded_text_is_as_long_and_holds_none_of_the_exchanged_letters(text: str) -> None:
    exchanged = evade(text)
    assert len(exchanged) == len(text)
    assert not set(exchanged) & set(EVASION)
    assert all(other == EVASION.get(one, one) for one, other in zip(text, exchanged, strict=True))


@given(st.text())
def test_folded_text_does_not_change_when_folded_again(text: str) -> None:
    once = fold_confusables(text)
    assert fold_confusables(once) == once


def test_the_letters_are_those_of_the_papers_table_6() -> None:
    codes = {letter: f"U+{ord(other):04X}" for letter, other in EVASION.items()}
    assert codes == {"a": "U+0430", "e": "U+0435", "i": "U+0456", "n": "U+0578", "o": "U+043E"}


def test_look_alikes_stand_for_one_letter_each_and_are_letters_of_the_scripts_named() -> None:
    codes = [code for several in LOOKALIKES.values() for code in several]
    assert len(codes) == len(set(codes))
    scripts = {unicodedata.name(chr(code)).split()[0] for code in codes}
    assert scripts == {"GREEK", "CYRILLIC", "ARMENIAN", "LATIN"}
    # Normalisation comes first: a code point that it changes would never be looked up.
    assert all(unicodedata.normalize("NFKD", chr(code)) == chr(code) for code in codes)


@pytest.mark.parametrize(
    ("hidden", "read"),
    [
        ("\u0421\u043eurt", "Court"),  # a capital, which evasion itself leaves alone
        ("\uff23ourt", "Court"),  # full width
        ("caf\u0435\u0301", "caf\u00e9"),  # an exchanged letter under an accent
        ("na\u0457ve", "na\u00efve"),  # one Cyrillic letter for i with diaeresis
        ("\U0001d41court", "court"),  # mathematical bold
    ],
)
def test_other_disguises_are_folded_too(hidden: str, read: str) -> None:
    assert fold_confusables(hidden) == read


def _document(*words: str, questions: tuple[Question, ...] = ()) -> Document:
    boxes = [(10.0 * place, 0.0, 10.0 * place + 8, 9.0) for place in range(len(words))]
    return Document(
        id="d",
        split="member",
        words=tuple(Word(text, box) for text, box in zip(words, boxes, strict=True)),
        size=(1000, 50),
        entities=(Entity("e", "PERSON", "person", (0,)),),
        questions=questions,
        tags=tuple("O" for _ in words),
        paragraphs=(0,),
    )


def test_only_the_words_of_a_document_change() -> None:
    asked = Question("q", "who signed?", ("Anna",), entity="e")
    document = _document("Anna", "signed", "it", questions=(asked,))
    shared = EVASION_DEFENSE.rewrite(document)
    assert [word.text for word in shared.words] == [evade("Anna"), evade("signed"), evade("it")]
    assert [word.box for word in shared.words] == [word.box for word in document.words]
    assert shared.questions == document.questions
    assert (shared.entities, shared.tags, shared.paragraphs) == (document.entities, document.tags, document.paragraphs)
    assert EVASION_DEFENSE.undo(shared) == document


def test_costs_are_counted() -> None:
    asked = (
        Question("lost", "where?", ("Oslo",)),
        Question("kept", "which number?", ("17",)),
        Question("never", "what else?", ("Bergen",)),
    )
    # "and" is found inside "AND"; "is" has no capital twin; a lone dot is nothing one looks for.
    cost = evasion_cost([_document("AND", "and", "is", "Oslo", "17", ".", questions=asked)])
    assert (cost.characters, cost.changed) == (15, 4)  # a and n, i, the last o
    assert (cost.non_ascii_before, cost.non_ascii_after) == (0, 4)
    assert (cost.searched, cost.lost) == (5, 2)  # "is" and "Oslo"
    assert (cost.answers, cost.answers_lost) == (2, 1)


def test_a_repeated_word_is_lost_as_often_as_it_stands() -> None:
    cost = evasion_cost([_document("note", "note", "the", "17")])
    assert (cost.searched, cost.lost) == (4, 3)
