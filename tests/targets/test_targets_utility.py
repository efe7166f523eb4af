"""Utility against fakes whose answers are known, and F1 against counts made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from scipy import stats
from sklearn.metrics import f1_score

from audit.cards import TargetCard
from audit.corpus import manifest
from audit.corpus.documents import Document
from audit.measurements import ALPHAS, Estimate, Unresolved
from audit.policy.checks import LEVEL
from audit.targets.encoded_page import NO_LINK, NOT_READ, Encoding
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.heads import HEADS, HeadName
from audit.targets.interface import Answer, BestClass, BestLinks, BestTokens, TagProbabilities
from audit.targets.utility import (
    MASK_PROBABILITY,
    MAX_DOCUMENTS,
    measure_and_check,
    measure_task,
    spade_entities,
    usefulness,
)

LABELS = ("O", "B-A", "I-A", "B-B", "I-B")
DOCUMENTS = tiny.documents(0, 30, 0)


class Fake:
    """Encodes like a checkpoint; answers from the truth, or as it is told."""

    def __init__(self, labels: Sequence[str] = (), **answers: Any) -> None:
        self.encoder = Encoder(tiny.tokenizer(), 127, labels)
        self.labels = tuple(labels)
        self.answers = frozenset({TagProbabilities} if labels else {BestTokens})
        self.card = TargetCard(
            "fake", "fake", "mlm", "fake", 0, len(tiny.VOCABULARY), 127, "0" * 64, "cpu", "float32"
        )
        self.true_pages: list[Encoding] = []
        self.asked: list[Any] = []
        self.answer = answers.get("answer")

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        page = self.encoder.encode(document, around)
        if page is not None:
            self.true_pages.append(page)
        return page

    def token_strings(self, ids: Sequence[int]) -> str:
        return ""

    def ask(self, queries: Sequence[Any]) -> list[Any]:
        self.asked += queries
        return [
            self.answer(query, page) for query, page in zip(queries, self.true_pages, strict=True)
        ]


def knows_all(query: BestTokens, page: Encoding) -> Any:
    return page.ids[list(query.positions)]


def says_mask(query: BestTokens, page: Encoding) -> Any:
    return query.page.ids[list(query.positions)]


def measured(target: Any, documents: Sequence[Document] = DOCUMENTS, seed: int = 0) -> Any:
    return measure_task(target, documents, seed)[0][0]


@pytest.mark.parametrize(("answer", "value"), [(knows_all, 1.0), (says_mask, 0.0)])
def test_fifteen_percent_of_each_page_are_hidden_and_what_is_named_is_counted(
    answer: Any, value: float
) -> None:
    target = Fake(answer=answer)
    result = measured(target)
    hidden = [
        page.ids[p]
        for query, page in zip(target.asked, target.true_pages, strict=True)
        for p in query.positions
    ]
    assert (result.name, result.value, result.clusters, result.n) == (
        "masked_token_accuracy",
        value,
        30,
        len(hidden),
    )
    assert result.low < 1
    assert result.high > 0
    assert [bound.alpha for bound in result.bounds] == list(ALPHAS)
    assert result.null == pytest.approx(
        max(hidden.count(token) for token in set(hidden)) / len(hidden)
    )
    assert result.null_kind == "chance"
    for query, page in zip(target.asked, target.true_pages, strict=True):
        own = int((page.words >= 0).sum())
        assert len(query.positions) == round(MASK_PROBABILITY * own)
        assert (query.page.ids[list(query.positions)] == page.mask_id).all()
        assert (page.words[list(query.positions)] >= 0).all()
        kept = np.setdiff1d(np.arange(len(page.ids)), query.positions)
        np.testing.assert_array_equal(query.page.ids[kept], page.ids[kept])


def test_the_seed_decides_what_is_hidden_and_which_of_many_documents_are_asked() -> None:
    def positions(seed: int) -> list[tuple[int, ...]]:
        target = Fake(answer=knows_all)
        measure_task(target, DOCUMENTS, seed)
        return [query.positions for query in target.asked]

    assert positions(1) == positions(1) != positions(2)
    target = Fake(answer=knows_all)
    measured(target, tiny.documents(0, MAX_DOCUMENTS + 30, 0))
    assert len(target.asked) == MAX_DOCUMENTS


def test_without_documents_there_is_no_number() -> None:
    perfect = tagged(lambda page, read: page.labels[read])
    unlabelled = [
        Document(f"d{i}", "heldout", tiny.laid_out(["ab"]), size=tiny.SIZE) for i in range(5)
    ]
    cases: list[tuple[Fake, Sequence[Document], str]] = [
        (Fake(answer=knows_all), [], "no held-out document"),
        (Fake(tiny.LABELS), [], "fewer than two"),
        (Fake(tiny.LABELS, answer=perfect), DOCUMENTS[:1], "fewer than two"),
        (Fake(tiny.LABELS, answer=perfect), unlabelled, "no labelled entities"),
    ]
    for target, documents, reason in cases:
        result = measured(target, documents)
        assert isinstance(result, Unresolved)
        assert reason in result.reason


class Silent:
    """A model that nobody has a question or a page for."""

    labels: tuple[str, ...] = ()

    def __init__(self, *answers: type) -> None:
        self.answers = frozenset(answers)

    def ask(self, queries: Sequence[Any]) -> list[Any]:
        return [pytest.fail("there is nothing to ask") for _ in queries]


@pytest.mark.parametrize("query", [Answer, BestClass])
def test_a_model_with_no_unseen_document_is_unmeasured_and_does_not_fail(
    query: type, tmp_path: Path
) -> None:
    corpus = manifest.load(tiny.corpus(tmp_path / "data", heldout=0))
    (measurement,) = usefulness(Silent(query), corpus, 0)
    assert isinstance(measurement, Unresolved)
    assert measurement.reason.startswith("fewer than two")


def tagged(choose: Any) -> Any:
    """Answers with certainty the tags that `choose(page, read positions)` gives."""

    def answer(query: TagProbabilities, page: Encoding) -> Any:
        assert page.labels is not None
        read = np.flatnonzero(page.labels >= 0)
        table = np.zeros((len(page.ids), len(tiny.LABELS)))
        table[:, 1] = 1.0  # what is said of tokens that are not read does not matter
        table[read] = np.eye(len(tiny.LABELS))[choose(page, read)]
        return table

    return answer


def test_a_perfect_tagger_has_the_interval_of_as_many_hits_as_pages() -> None:
    result = measured(Fake(tiny.LABELS, answer=tagged(lambda page, read: page.labels[read])))
    exact = stats.binomtest(result.clusters, result.clusters).proportion_ci(0.95, "exact")
    assert ((result.value, result.high), result.low) == ((1.0, 1.0), pytest.approx(exact.low))
    assert "all agree" in result.method
    bare = [replace(document, id=f"bare {document.id}", entities=()) for document in DOCUMENTS]
    again = measured(
        Fake(tiny.LABELS, answer=tagged(lambda page, read: page.labels[read])), [*DOCUMENTS, *bare]
    )
    assert isinstance(again, Estimate)
    assert (again.clusters, again.low) == (
        result.clusters,
        result.low,
    )  # pages with nothing to find show nothing


def test_f1_of_single_words_is_that_of_scikit_learn() -> None:
    # Entities of one word each: entity F1 is then micro F1 over words without the class O.
    rng = np.random.default_rng(0)
    begin = [index for index, label in enumerate(tiny.LABELS) if label.startswith("B-")]
    true: list[int] = []
    said: list[int] = []

    def choose(page: Encoding, read: Any) -> Any:
        said.extend(rng.choice([0, *begin], len(read)))
        true.extend(page.labels[read])
        return said[-len(read) :]

    documents = []
    for page in DOCUMENTS:
        short = tuple(entity for entity in page.entities if len(entity.words) == 1)
        documents.append(Document(page.id, "heldout", page.words, size=page.size, entities=short))
    result = measured(Fake(tiny.LABELS, answer=tagged(choose)), documents)
    assert result.value == pytest.approx(f1_score(true, said, labels=begin, average="micro"))


class SpadeFake(Fake):
    """Answers as `choose(page)` says: links, and classes with certainty."""

    def __init__(self, head: HeadName, choose: Any) -> None:
        super().__init__(tiny.LABELS_OF.get(head, ()))
        self.encoder = Encoder(tiny.tokenizer(), 127, self.labels, task=head)
        self.answers = HEADS[head].answers
        self.choose = choose

    def ask(self, queries: Sequence[Any]) -> list[Any]:
        chosen = [self.choose(number, query.page) for number, query in enumerate(queries)]
        if isinstance(queries[0], BestLinks):
            return [links for _, links in chosen]
        return [np.eye(len(self.labels))[np.maximum(classes, 0)] for classes, _ in chosen]


def truth(page: Encoding) -> tuple[Any, Any]:
    return (np.zeros(0) if page.labels is None else page.labels.copy()), page.links.copy()


def test_extraction_f1_counts_whole_entities_of_the_right_class() -> None:
    # On every third page the first entity gets another class, on every third page the last one
    # loses its last word. By hand: 4 entities a page, 120 true and 120 found, 20 of them wrong.
    def choose(number: int, page: Encoding) -> tuple[Any, Any]:
        classes, links = truth(page)
        starts = np.flatnonzero(classes > 0)
        if number % 3 == 0:
            classes[starts[0]] = classes[starts[0]] % 4 + 1
        if number % 3 == 1:
            vendor = page.positions_of([1])[
                0
            ]  # the second word of the vendor, of which every page has two
            links[vendor] = NO_LINK
        return classes, links

    result = measured(SpadeFake("spade-extraction", choose))
    assert (result.name, result.unit, result.n, result.clusters) == (
        "entity_f1",
        "entities",
        120,
        30,
    )
    assert result.value == pytest.approx(100 / 120)
    assert result.low < 100 / 120 < result.high


def test_linking_f1_counts_links_to_the_right_parent() -> None:
    # On even pages one of two links leads to the wrong word, on odd ones a word too many is linked.
    # By hand: 60 true, 30 + 30 found right... of 15 pages each: right 15 + 30, found 30 + 45.
    def choose(number: int, page: Encoding) -> tuple[Any, Any]:
        _, links = truth(page)
        children = np.flatnonzero(links >= 0)
        read = np.flatnonzero(links != NOT_READ)
        if number % 2 == 0:
            links[children[0]] = read[-1]
        else:
            links[read[links[read] == NO_LINK][-1]] = read[0]
        return (), links

    result = measured(SpadeFake("spade-linking", choose))
    assert (result.name, result.unit, result.n) == ("link_f1", "links", 60)
    # The commonest link stands at one place on 13 of the 30 pages.
    assert result.null == pytest.approx(2 * 13 / (60 + 30))
    assert result.value == pytest.approx(2 * (15 + 30) / (60 + 30 + 45))


@pytest.mark.parametrize("head", ["spade-extraction", "spade-linking"])
def test_spade_is_perfect_or_has_nothing_to_find(head: HeadName) -> None:
    target = SpadeFake(head, lambda number, page: truth(page))
    perfect = measured(target)
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert 0 < perfect.low < 1
    assert "fewer than two" in measured(target, DOCUMENTS[:1], 0).reason
    bare = [Document(f"d{i}", "heldout", tiny.laid_out(["ab"]), size=tiny.SIZE) for i in range(5)]
    assert "in the unseen documents" in measured(target, bare, 0).reason


# words: 0 0 1 2 2 between special tokens; class 0 is "O"; -1 is no link
@pytest.mark.parametrize(
    ("classes", "links", "entities"),
    [
        pytest.param("- 0 - 0 0 - -", "-1 -1 -1 -1 -1 -1 -1", [], id="no entity"),
        pytest.param(
            "- 1 - 0 0 - -", "-1 -1 -1 -1 -1 -1 -1", [["A", [0]]], id="an entity of one word"
        ),
        pytest.param(
            "- 1 - 0 0 - -", "-1 -1 1 2 3 4 -1", [["A", [0, 1, 2]]], id="an entity of three words"
        ),
        pytest.param(
            "- 1 - 2 0 - -",
            "-1 -1 1 2 3 4 -1",
            [["A", [0]], ["B", [1, 2]]],
            id="another entity begins",
        ),
        pytest.param(
            "- 0 - 0 1 - -", "-1 4 -1 1 -1 -1 -1", [["A", [0, 1, 2]]], id="backwards on the page"
        ),
        pytest.param(
            "- 1 - 0 0 - -",
            "-1 -1 1 1 -1 -1 -1",
            [["A", [0, 1]]],
            id="two successors: the last one",
        ),
        pytest.param("- 1 - 0 0 - -", "-1 3 -1 1 -1 -1 -1", [["A", [0, 1]]], id="a circle"),
        pytest.param(
            "- 1 - 0 0 - -", "-1 -1 1 -1 -1 -1 2", [["A", [0]]], id="a special token is no word"
        ),
    ],
)
def test_entities_of_spade(classes: str, links: str, entities: list[tuple[str, list[int]]]) -> None:
    words = np.array([-1, 0, 0, 1, 2, 2, -1])
    own = np.array([NOT_READ if value == "-" else int(value) for value in classes.split()])
    found = spade_entities(
        words, own, np.array([int(value) for value in links.split()]), ("O", "A", "B")
    )
    assert found == {(label, frozenset(places)) for label, places in entities}


@pytest.mark.parametrize("labels", [(), tiny.LABELS])
def test_sums_by_document_make_up_the_number(labels: tuple[str, ...]) -> None:
    def guessing() -> Fake:
        rng = np.random.default_rng(0)

        def guess(query: BestTokens, page: Encoding) -> Any:
            right = page.ids[list(query.positions)]
            return right + (rng.random(len(right)) < 0.5)

        chosen = (
            tagged(lambda page, read: rng.integers(len(tiny.LABELS), size=len(read)))
            if labels
            else guess
        )
        return Fake(labels, answer=chosen)

    ((number, sums),) = measure_task(guessing(), DOCUMENTS, 3)
    assert isinstance(number, Estimate)
    assert sums is not None
    assert sums.numerator.sum() / sums.denominator.sum() == pytest.approx(number.value)
    assert (sums.numerator <= sums.denominator).all()
    assert len(set(sums.documents)) == len(sums.numerator)
    assert measure_task(guessing(), [], 3)[0][1] is None


@pytest.mark.parametrize(
    ("shift", "fires"), [pytest.param(0, False, id="own"), pytest.param(1, True, id="the next")]
)
def test_names_of_tags_in_another_order_are_found_while_usefulness_is_measured(
    shift: int, fires: bool
) -> None:
    def choose(page: Encoding, read: Any) -> Any:
        assert page.labels is not None
        return (page.labels[read] + shift) % len(tiny.LABELS)

    target: Any = Fake(tiny.LABELS, answer=tagged(choose))
    (check,) = measure_and_check(target, DOCUMENTS, 0).checks
    assert (check.p_value <= LEVEL) is fires
    assert ("output 1 fits the name of output 0" in check.reason) is fires


def test_f1_counts_whole_entities() -> None:
    # Right on even pages; on odd ones every word is O but the first, wrongly. By hand: 4 entities a
    # page, 60 found right of 120; 15 wrong ones found more: F1 = 2 * 60 / (120 + 75).
    def choose(page: Encoding, read: Any) -> Any:
        choose.calls += 1
        if choose.calls % 2:
            return page.labels[read]
        wrong = np.zeros(len(read), int)
        wrong[0] = tiny.LABELS.index("B-TOTAL")
        return wrong

    choose.calls = 0
    result = measured(Fake(tiny.LABELS, answer=tagged(choose)))
    assert result.value == pytest.approx(120 / 195)
    assert result.low < 120 / 195 < result.high
    assert (result.n, result.unit, result.clusters) == (120, "entities", 30)
    # Every page begins with a vendor of two words: naming that alone is right 30 times of 30, of
    # 120 entities.
    assert result.null == pytest.approx(2 * 30 / (120 + 30))
