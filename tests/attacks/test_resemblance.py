"""Held-out documents that resemble training documents: variants of them, or forms of the same people."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from test_membership_planted import corpus

from audit.attacks.battery import BATTERY
from audit.attacks.membership import resemblance
from audit.corpus import manifest
from audit.corpus.documents import Corpus, Document, Entity, Split, Word
from audit.measurements import Check

SAMPLES = Path(__file__).parents[2] / "sample_models"


def of_words(documents: list[tuple[str, Split, list[str]]]) -> Corpus:
    found = tuple(
        Document(name, split, tuple(map(Word, words))) for name, split, words in documents
    )
    return replace(corpus(1, 1), documents=found)


def drawn(seed: int, n: int = 60) -> list[list[str]]:
    """Letters from a few templates, each with names and numbers of its own."""
    rng = np.random.default_rng(seed)
    letters = []
    for _ in range(n):
        template = rng.integers(6)
        frame = [f"frame{template}word{place}" for place in range(12)]
        frame[3] = "".join(rng.choice([*"abcdefghij"], 8))
        frame[7] = f"street{rng.choice([*'abcdefghijklmnopqrstuvwxyz'])}"
        frame[9] = str(rng.integers(10_000))
        letters.append(frame)
    return letters


def divided(members: list[list[str]], heldout: list[list[str]]) -> Check:
    documents = [(f"m{place}", "member", words) for place, words in enumerate(members)]
    documents += [(f"h{place}", "heldout", words) for place, words in enumerate(heldout)]
    found = resemblance.check_heldout(of_words(documents))  # type: ignore[arg-type]
    assert isinstance(found, Check)
    return found


def one_slot_changed(members: list[list[str]]) -> list[list[str]]:
    return [[*words[:7], f"avenue{words[3]}", *words[8:]] for place, words in enumerate(members)]


def next_month(members: list[list[str]]) -> list[list[str]]:
    """The same people in another template, with other numbers."""
    others = []
    for place, words in enumerate(members):
        frame = [f"form{place % 6}word{number}" for number in range(12)]
        frame[3] = words[3]
        frame[7] = f"avenue{place}"
        frame[9] = str(20_000 + place)
        others.append(frame)
    return others


@pytest.mark.parametrize("vary", [one_slot_changed, next_month])
def test_variants_of_training_documents_bar_a_pass(
    vary: Callable[[list[list[str]]], list[list[str]]],
) -> None:
    members = drawn(1)
    found = divided(members, vary(members))
    assert (found.name, found.cause) == ("resemblance", "alarm")
    assert found.p_value <= 0.01
    assert "membership" in found.attacks
    assert "provider_membership" not in found.attacks, (
        "documents of one provider resemble each other"
    )
    assert "other people" in found.remedy


def test_a_few_changed_numbers_do_not_hide_a_variant() -> None:
    """Copies with other numbers are no copies to the search for these."""
    members = drawn(2)
    renumbered = [[*words[:9], f"9{words[9]}7", *words[10:]] for words in members]
    assert divided(members, renumbered).p_value <= 0.001


def test_documents_of_one_lot_are_rarely_taken_for_variants() -> None:
    audits = 150
    alarms = 0
    for seed in range(audits):
        letters = drawn(seed, 100)
        order = np.random.default_rng([9, seed]).permutation(100)
        members, heldout = ([letters[place] for place in side] for side in (order[:60], order[60:]))
        alarms += divided(members, heldout).p_value <= 0.05
    assert alarms <= stats.binom.ppf(0.999, audits, 0.05)


def test_unlike_documents_are_no_sign() -> None:
    members = drawn(3)
    strange = [[f"other{word}" for word in words] for words in drawn(4)]
    assert divided(members, strange).p_value > 0.5


def people(share: float) -> Corpus:
    """40 documents a side, of which a share of the held-out ones is about one member's person each."""
    documents: list[Document] = []
    for split, first in (("member", 0), ("heldout", 1000)):
        for number in range(40):
            of_member = split == "heldout" and number < share * 40
            person = f"Person{number if of_member else first + number}"
            words = (Word("Dear"), Word(person), Word(f"{split}{number}word"))
            entity = Entity("e", "NAME", "person", (1,))
            documents.append(Document(f"{split}{number}", split, words, entities=(entity,)))  # type: ignore[arg-type]
    return replace(corpus(1, 1), documents=tuple(documents))


def test_unseen_documents_about_the_same_people_bar_a_pass_whatever_chance_says() -> None:
    found = resemblance.check_heldout(people(0.6))
    assert isinstance(found, Check)
    assert found.p_value == 0.0
    assert (
        "24 of 40 unseen documents share a personal value with one training document"
        in found.reason
    )
    assert resemblance.count_sharing(people(0.25), people(0.25).of("heldout")) == 10
    other = resemblance.check_heldout(people(0.0))
    assert isinstance(other, Check)
    assert other.p_value > 0.05


def test_few_documents_or_pages_without_words_cannot_be_compared() -> None:
    assert "only 0 documents" in str(resemblance.check_heldout(corpus(20, 60)))
    bare = tuple(replace(document, words=()) for document in corpus(60, 60).documents)
    assert "only 0 documents with words" in str(
        resemblance.check_heldout(replace(corpus(1, 1), documents=bare))
    )


@pytest.mark.parametrize("sample", ["letters", "questions", "receipts", "utterances"])
def test_the_samples_are_innocent(sample: str) -> None:
    found = resemblance.check_heldout(manifest.load(SAMPLES / sample / "data"))
    assert isinstance(found, Check)
    assert found.p_value > 0.05


def test_the_check_names_attacks_of_the_battery() -> None:
    assert {*resemblance.ATTACKS} <= {attack.name for attack in BATTERY}
