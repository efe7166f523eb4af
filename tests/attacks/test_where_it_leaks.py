"""Where an attack found values, and whose they are: groups add up to what the method reports."""

from dataclasses import replace

import attempts
import example_records as examples
import numpy as np
import planted
import pytest
from attempts import measured
from shown_pages import decision

from audit.attacks import people
from audit.attacks.breakdown import (
    NOWHERE,
    MethodHits,
    Traits,
    Tried,
    break_down,
    position_of,
)
from audit.attacks.reconstruction import Reconstruction
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
from audit.corpus.folding import fold
from audit.measurements import Breakdown, Estimate, Unresolved
from audit.record import dumps
from audit.report import markdown
from audit.report.files import write as write_report_files
from benchmarks.calibration.simulated_audits import completed

ALICE = "Alice Example"
BOB = "Bob Sample"


def page(name: str, split: Split, *values: tuple[str, str], person: str | None = None) -> Document:
    """Return a document of values, each with its category, a line a value."""
    words: list[Word] = []
    entities = []
    for number, (category, text) in enumerate(values):
        start = len(words)
        for word in text.split():
            top = 100.0 * number
            words.append(Word(word, (0.0, top, 10.0, top + 10)))
        entities.append(Entity(f"e{number}", "X", category, tuple(range(start, len(words)))))
    return Document(
        name, split, tuple(words), size=(100, 400), entities=tuple(entities), person=person
    )


def data_set(*documents: Document) -> Corpus:
    """Return a data set of these documents."""
    return Corpus(
        None, Manifest(1, "people", Task("mlm"), Membership("random")), documents, "0" * 64
    )  # type: ignore[arg-type]


def by(
    breakdowns: tuple[Breakdown, ...], what: str, method: str = ""
) -> dict[str, tuple[float, int, float, int]]:
    """Return the groups of a division: hits and tried of training, then of unseen documents."""
    (division,) = [item for item in breakdowns if item.by == what and item.method == method]
    return {
        group.name: (group.member.hits, group.member.tried, group.heldout.hits, group.heldout.tried)
        for group in division.groups
    }


@pytest.mark.slow
@pytest.mark.parametrize("method", ["", ".lowest_loss", ".near"])
def test_the_kinds_of_a_method_add_up_to_its_shares(method):
    corpus = planted.corpus(20, 20, fields=2)
    target = planted.Planted(
        corpus.documents, {f"d{index}" for index in range(6)}, task="token-classification"
    )
    public = planted.Planted(corpus.documents, seed=5)
    findings = attempts.run(
        Reconstruction(target_weight=1.0), planted.case(target, public, corpus), 16, stream=(7,)
    )[2]
    kinds = by(findings.breakdowns, "kind", method)
    assert list(kinds) == ["amount", "person"]
    for side, place in (("member", 0), ("heldout", 2)):
        share = measured(findings, f"pr.{side}.attack.unique{method}")
        hits = sum(group[place] for group in kinds.values())
        assert hits == pytest.approx(share.value * share.n)
        assert sum(group[place + 1] for group in kinds.values()) == share.n
    for what in ("length", "position"):
        groups = by(findings.breakdowns, what, method).values()
        assert sum(group[1] for group in groups) == sum(group[1] for group in kinds.values())
    documents = by(findings.breakdowns, "documents", method)
    assert documents["2"][0] == 6
    assert sum(group[0] for group in documents.values()) == 20


def test_values_are_divided_by_what_is_known_of_them():
    traits = [
        Traits("amount", 1, 3, "first quarter"),
        Traits("person", 2, 14, "last quarter"),
        Traits("person", 11, 21, NOWHERE),
        Traits("person", 1, 9, "last quarter"),
    ]
    member = np.array([True, True, True, False])
    hits = np.array([1.0, 0.0, 1.0, 1.0])
    counted = np.array([True, True, False, True])
    tried = Tried(traits, member, np.arange(4), "values")
    found = break_down(tried, [MethodHits(".near", hits, counted, np.ones(4, bool))])
    assert by(found, "kind", ".near") == {"amount": (1, 1, 0, 0), "person": (0, 1, 1, 1)}
    assert by(found, "copies", ".near") == {
        "1": (1, 1, 1, 1),
        "2": (0, 1, 0, 0),
        "over 10": (1, 1, 0, 0),
    }, "copies divide all that were tried"
    assert by(found, "length", ".near") == {
        "1 to 4": (1, 1, 0, 0),
        "9 to 12": (0, 0, 1, 1),
        "13 to 20": (0, 1, 0, 0),
    }
    assert by(found, "documents", ".near") == {"0": (1, 2, 0, 1), "1": (1, 2, 1, 1)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [((0, 1), "first quarter"), ((2,), "second quarter"), ((4,), "last quarter"), ((), NOWHERE)],
)
def test_a_place_is_named_by_the_quarter_of_the_page(words, expected):
    lines = (("person", ALICE), ("amount", "9.00"), ("code", "17"), ("code", "X1"))
    assert position_of(page("p", "member", *lines), words) == expected


def test_distinct_names_stand_for_people_where_the_data_set_names_none():
    corpus = data_set(
        page("a", "member", ("person", ALICE)),
        page("b", "member", ("person", ALICE.upper())),
        page("c", "heldout", ("person", BOB)),
        page("d", "member", ("person", "Both Sides")),
        page("e", "heldout", ("person", "Both Sides")),
    )
    everybody = people.people_of(corpus)
    assert everybody.source == "names"
    assert {frozenset(names) for names in everybody.documents.values()} == {
        frozenset("ab"),
        frozenset("c"),
        frozenset("de"),
    }
    assert sorted(everybody.side.values()) == ["heldout", "member"], "both sides name one of them"


def test_a_person_of_the_data_set_owns_the_values_of_a_document_and_of_an_entity():
    shared = page("a", "member", ("person", ALICE), ("code", "4711"), person="p1")
    other = replace(shared.entities[1], person="p2")
    corpus = data_set(replace(shared, entities=(shared.entities[0], other)))
    everybody = people.people_of(corpus)
    assert everybody.source == "declared"
    document = corpus.documents[0]
    owners = [everybody.owner_of(document, entity) for entity in document.entities]
    assert owners == ["p1", "p2"]
    assert everybody.group["p1"] == everybody.group["p2"], "they share a document"


def test_people_are_counted_once_however_many_of_their_values_came_back():
    corpus = data_set(
        page("a", "member", ("person", ALICE), ("code", "4711"), person="p1"),
        page("b", "member", ("person", ALICE), ("code", "4712"), person="p1"),
        page("c", "member", ("person", BOB), person="p2"),
        page("d", "heldout", ("person", "Carol"), person="p3"),
        page("e", "heldout", ("person", "Dave"), person="p4"),
    )
    values = []
    for document in corpus.documents:
        for entity in document.entities:
            owner = people.people_of(corpus).owner_of(document, entity)
            values.append(
                people.OwnedValue("".join(document.text_of(entity).lower().split()), owner, False)
            )
    everything = np.ones(len(values), bool)
    hits = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    (count,) = people.count_returned(corpus, values, [MethodHits("", hits, everything, everything)])
    assert isinstance(count.member, Estimate)
    assert isinstance(count.heldout, Estimate)
    assert (count.source, count.member.unit) == ("declared", "people")
    assert (count.member.value, count.member.n, count.member.clusters) == (0.5, 2, 2)
    assert (count.heldout.value, count.heldout.n) == (0.0, 2)
    assert count.member.low < 0.5 < count.member.high


def test_a_value_that_documents_of_others_hold_counts_for_nobody():
    corpus = data_set(
        page("a", "member", ("code", "4711"), person="p1"),
        page("b", "member", ("code", "4711"), person="p2"),
    )
    values = [people.OwnedValue("4711", "p1", False), people.OwnedValue("4711", "p2", False)]
    hits = MethodHits("", np.ones(2), np.ones(2, bool), np.ones(2, bool))
    assert people.count_returned(corpus, values, [hits]) == ()


def test_the_name_that_answers_a_question_stands_for_a_person():
    question = Question("q", "Who?", (ALICE,), category="person")
    corpus = data_set(Document("a", "member", questions=(question,)))
    everybody = people.people_of(corpus)
    assert set(everybody.documents) == {"aliceexample"}
    assert everybody.owner_of_answer(corpus.documents[0], question) == "aliceexample"


def test_people_are_recognised_by_the_documents_above_most_unseen_ones():
    members = [page(f"m{n}", "member", ("person", f"Member {n // 2}")) for n in range(40)]
    others = [page(f"h{n}", "heldout", ("person", f"Other {n}")) for n in range(40)]
    corpus = data_set(*members, *others)
    ids = [document.id for document in corpus.documents]
    scores = np.concatenate([np.tile([0.0, 100.0], 20), np.arange(40.0)])
    scores[0] = np.nan
    (count,) = people.count_recognised(corpus, ids, {".loss": scores})
    assert isinstance(count.member, Estimate)
    assert isinstance(count.heldout, Estimate)
    assert (count.method, count.source) == (".loss", "names")
    assert (count.member.value, count.member.n) == (1.0, 20)
    assert (count.heldout.value, count.heldout.n) == (pytest.approx(0.075), 40)


def test_one_person_alone_gives_no_share():
    corpus = data_set(page("a", "member", ("person", ALICE)), page("b", "heldout", ("person", BOB)))
    values = [people.OwnedValue("aliceexample", "aliceexample", True)]
    (count,) = people.count_returned(
        corpus, values, [MethodHits("", np.ones(1), np.ones(1, bool), np.ones(1, bool))]
    )
    assert isinstance(count.member, Unresolved)
    assert "people" in count.member.reason


@pytest.mark.slow
def test_no_person_stands_in_record_report_or_table(tmp_path):
    drawn = planted.corpus(20, 20, fields=2)
    people_by_pages = []
    for number, document in enumerate(drawn.documents):
        people_by_pages.append(replace(document, person=f"Xanthippe {number // 2}"))
    corpus = replace(drawn, documents=tuple(people_by_pages))
    target = planted.Planted(
        corpus.documents, {f"d{index}" for index in range(6)}, task="token-classification"
    )
    public = planted.Planted(corpus.documents, seed=5)
    findings = attempts.run(
        Reconstruction(target_weight=1.0), planted.case(target, public, corpus), 16, stream=(7,)
    )[2]
    assert [count.source for count in findings.people] == ["declared"] * 3
    member = findings.people[1].member
    assert isinstance(member, Estimate)
    assert (member.value, member.n) == (pytest.approx(0.3), 10)
    record = examples.record(completed("reconstruction", findings))
    _, verdict, policy = examples.judged(record)
    write_report_files(record, verdict, policy, tmp_path)
    pages = ("report.html", "measurements.csv", "leaks.csv")
    texts = [(tmp_path / page).read_text(encoding="utf-8") for page in pages]
    texts.append(decision((record, verdict, policy)))
    texts.append(dumps(record))
    texts.append(markdown.model_card(record, verdict))
    texts.append(markdown.dpia(record, verdict, policy, ()))
    for text in texts:
        assert "xanthippe" not in text.lower()


def test_values_that_a_method_did_not_try_count_in_no_group_and_for_nobody():
    corpus = data_set(
        page("a", "member", ("person", ALICE)),
        page("b", "member", ("person", BOB)),
        page("c", "heldout", ("person", "Carol")),
    )
    names = ["alice example", "bob sample", "carol"]
    values = [people.OwnedValue(fold(name), fold(name), True) for name in names]
    hits = np.array([1.0, 0.0, 0.0])
    tried = np.array([True, False, True])
    method = MethodHits("", hits, tried, tried)
    (count,) = people.count_returned(corpus, values, [method])
    assert (count.member.n, count.heldout.n) == (1, 1)
    traits = [Traits("person", 1, 9, NOWHERE)] * 3
    member = np.array([True, True, False])
    (copies,) = by(
        break_down(Tried(traits, member, np.arange(3), "values"), [method]), "copies"
    ).values()
    assert copies == (1, 1, 0, 1)
