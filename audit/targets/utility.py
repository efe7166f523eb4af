"""Usefulness of a checkpoint at its own task, to weigh a leak against.

It is measured on documents that the model did not train on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from audit.arrays import Floats, Ints
from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.folding import fold
from audit.corpus.images import page_view
from audit.corpus.tagging import scheme_of
from audit.measurements import Check, Measurement, Unresolved
from audit.stats.distances import anls
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval, beta_interval, cluster_sums, proportion
from audit.stats.paired import Ratios
from audit.stats.rates import mean
from audit.stats.resampling import bootstrap
from audit.targets import interface
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.label_order import LabelledPage, check_label_order
from audit.targets.refusals import Reply, check_replies

MASK_PROBABILITY = 0.15
"""Share of tokens that are hidden, as in BERT's training (Devlin et al. 2019)."""
MAX_DOCUMENTS = 200
"""Documents that the utility is measured on, at most: enough for an interval of a few points."""
_AT_ONCE = 64
"""Questions asked together, so that few pages are open at a time."""

Entities = Set[Any]
Named = list[tuple[str, Encoding]]
"""Pages with the names of their documents."""
Measured = tuple[Measurement, Ratios | None]
"""A measure, and the sums behind it by document; None without documents."""


class Usefulness(NamedTuple):
    """How well a target does its task, and what may keep it from that.

    Attributes:
        measured: measures of the task, the main one first.
        checks: checks of whether the target is asked and read as in its training.
    """

    measured: list[Measured]
    checks: tuple[Check, ...] = ()

    @property
    def measures(self) -> tuple[Measurement, ...]:
        """Return the measures without the sums behind them."""
        return tuple(measurement for measurement, _ in self.measured)


def usefulness(target: interface.Target, corpus: Corpus, seed: int) -> tuple[Measurement, ...]:
    """Return measures of how well the target does its task on held-out documents.

    ANLS of questions and of fields, else see `measure_task`.
    """
    return measure_usefulness(target, corpus, seed).measures


def usefulness_by_document(
    target: interface.Target, corpus: Corpus, seed: int
) -> dict[str, Ratios]:
    """Return, by measure, the sums behind `usefulness` for each held-out document.

    By them two models can be compared as pairs.

    With the same seed the same pages and tokens are asked about.
    """
    measures = usefulness_with_sums(target, corpus, seed)
    return {name: sums for name, (_, sums) in measures.items() if sums is not None}


def usefulness_with_sums(
    target: interface.Target, corpus: Corpus, seed: int
) -> dict[str, Measured]:
    """Return, by measure, its value and the sums behind it for each document."""
    return {
        measurement.name: (measurement, sums)
        for measurement, sums in measure_usefulness(target, corpus, seed).measured
    }


def measure_usefulness(target: interface.Target, corpus: Corpus, seed: int) -> Usefulness:
    """Measure the target's answers to questions, or else its own task, on held-out documents."""
    if interface.Answer in target.answers:
        return _measure_answers(target, corpus, seed)
    return measure_and_check(cast("interface.TokenTarget", target), corpus.of("heldout"), seed)


def measure_task(
    target: interface.TokenTarget, documents: Sequence[Document], seed: int
) -> list[Measured]:
    """Return the measures of a target's own task on documents, see `measure_and_check`."""
    return measure_and_check(target, documents, seed).measured


def measure_and_check(
    target: interface.TokenTarget, documents: Sequence[Document], seed: int
) -> Usefulness:
    """Measure a target's own task on documents, and check the order of the names of its labels.

    Masked-token accuracy of a masked language model, class accuracy of a classifier of pages,
    entity F1 of a tagger or of SPADE extraction, link F1 of SPADE linking; with intent accuracy
    where the model names intents.
    """
    rng = np.random.default_rng(seed)
    named = _pages(target, documents, rng)
    if interface.BestTokens in target.answers:
        return Usefulness([_measure_masked(target, named, rng)])
    if interface.BestClass in target.answers:
        return _measure_classes(target, named)
    answers = _ask_pages(target, [page for _, page in named])
    measured = [_measure_f1(target, named, answers, rng)]
    if interface.BestIntent in target.answers:
        meant = [(name, page) for name, page in named if page.intent is not None]
        intents = target.ask([interface.BestIntent(page) for _, page in meant])
        true = [page.intent for _, page in meant]
        measured.append(_share_right("intent_accuracy", "utterances", meant, intents, true))
    return Usefulness(measured, _check_tags(target.labels, answers))


def _measure_classes(target: interface.TokenTarget, named: Named) -> Usefulness:
    """Measure how many pages get their true class, and check the order of the classes' names."""
    best = target.ask([interface.BestClass(page) for _, page in named])
    classes = [page.page_class for _, page in named]
    accuracy = _share_right("class_accuracy", "documents", named, best, classes)
    return Usefulness([accuracy], _check_classes(target.labels, best, classes))


def _pages(
    target: interface.TokenTarget, documents: Sequence[Document], rng: np.random.Generator
) -> Named:
    """Return up to `MAX_DOCUMENTS` drawn documents by id, as the target reads them."""
    chosen = sorted(rng.permutation(len(documents))[:MAX_DOCUMENTS])
    pages = ((documents[index].id, target.encode(documents[index])) for index in chosen)
    return [(name, page) for name, page in pages if page is not None]


def _ratios(documents: Sequence[str], values: Any, clusters: Ints) -> Ratios | None:
    """Return sums of values by document; None where there is no document.

    Args:
        documents: ids of the documents, of which there are 0, 1, and so on.
        values: (n_values,) what is summed.
        clusters: (n_values,) number of the document of each value.
    """
    if not documents:
        return None
    rows = np.asarray(values, np.float64)
    sums = cluster_sums([rows, np.ones_like(rows)], clusters)
    return Ratios(documents, sums[:, 0], sums[:, 1])


def _measure_masked(
    target: interface.TokenTarget, named: Named, rng: np.random.Generator
) -> Measured:
    """Return the share of hidden tokens that the model guesses, 15 % of each page.

    Null: naming the commonest.

    Where the model sees the page, white patches hide them in the image too, as the attack does.
    """
    name = "masked_token_accuracy"
    if not named:
        return Unresolved(name, "no held-out document to measure on", 0), None
    queries: list[interface.BestTokens] = []
    truth: list[Ints] = []
    # All positions are drawn before the model is asked anything.
    for _, page in named:
        positions = _hidden_positions(page, rng)
        queries.append(interface.BestTokens(page.scrubbed(positions), positions))
        truth.append(page.ids[list(positions)])
    answers = target.ask(queries)
    hits = np.concatenate([best == true for best, true in zip(answers, truth, strict=True)])
    clusters = np.repeat(np.arange(len(named)), [len(true) for true in truth])
    commonest = float(np.unique(np.concatenate(truth), return_counts=True)[1].max() / len(hits))
    accuracy = estimate(name, proportion(hits, clusters), "tokens", commonest, "chance")
    return accuracy, _ratios([document for document, _ in named], hits, clusters)


def _hidden_positions(page: Encoding, rng: np.random.Generator) -> tuple[int, ...]:
    """Return the drawn positions of a page's words that are hidden."""
    of_words = np.flatnonzero(page.words >= 0)
    n_hidden = max(1, round(MASK_PROBABILITY * len(of_words)))
    drawn = rng.choice(of_words, n_hidden, replace=False)
    return tuple(sorted(int(position) for position in drawn))


def _share_right(
    name: str, unit: str, named: Named, best: Sequence[int], true: Sequence[int | None]
) -> Measured:
    """Return the share of pages whose best class is the true one.

    A class that the model lacks is wrong.
    """
    hits = np.array([guess == label for guess, label in zip(best, true, strict=True)], bool)
    clusters = np.arange(len(hits))
    sums = _ratios([document for document, _ in named], hits, clusters)
    if len(named) < 2:
        return Unresolved(name, f"fewer than two held-out {unit} to measure on", len(named)), sums
    commonest = Counter(true).most_common(1)[0][1] / len(true)
    return estimate(name, proportion(hits, clusters), unit, commonest, "chance"), sums


@dataclass(frozen=True)
class _PageAnswers:
    """What a target says of a page: see `find_on_page`."""

    page: Encoding
    table: Floats | None
    links: Ints | None


def _check_classes(
    labels: Sequence[str], best: Sequence[int], true: Sequence[int | None]
) -> tuple[Check, ...]:
    """Check the order of the names of a classifier's classes."""
    pages = [
        LabelledPage(np.array([page_class]), np.array([guess]))
        for guess, page_class in zip(best, true, strict=True)
        if page_class is not None and page_class >= 0
    ]
    return (check_label_order(len(labels), pages, _is_right),)


def _is_right(page: LabelledPage, classes: Ints) -> float:
    """Tell whether a page has its true class."""
    return float((page.true == classes).all())


@dataclass(frozen=True)
class _TaggedPage(LabelledPage):
    """A page of labelled tokens.

    Attributes:
        page: the page as the target reads it.
        links: position of each token's predecessor; None for a model that links nothing.
    """

    page: Encoding
    links: Ints | None


def _check_tags(labels: Sequence[str], answers: Sequence[_PageAnswers]) -> tuple[Check, ...]:
    """Check the order of the names of a tagger's labels; nothing for a model that only links."""
    pages = []
    for answer in answers:
        if answer.table is None or answer.page.labels is None:
            return ()
        labelled = answer.page.labels >= 0
        predicted = answer.table.argmax(axis=1)[labelled]
        pages.append(
            _TaggedPage(answer.page.labels[labelled], predicted, answer.page, answer.links)
        )

    def entities_right(page: _TaggedPage, tags: Ints) -> float:
        """Return the F1 of the entities of a page whose labelled tokens have these tags."""
        assert page.page.labels is not None
        classes = np.full(len(page.page.labels), NOT_READ)
        classes[page.page.labels >= 0] = tags
        true, predicted = _entities(page.page, labels, classes, page.links)
        return 2 * len(true & predicted) / max(1, len(true) + len(predicted))

    return (check_label_order(len(labels), pages, entities_right),)


def _measure_f1(
    target: interface.TokenTarget,
    named: Named,
    answers: Sequence[_PageAnswers],
    rng: np.random.Generator,
) -> Measured:
    """Return the micro F1 of whole entities or links; the interval draws pages.

    Entities are the same with the same label and words, links with the same child and parent; null:
    naming the commonest on each page.
    """
    name = "entity_f1"
    unit = "entities"
    if interface.TagProbabilities not in target.answers and interface.BestLinks in target.answers:
        name = "link_f1"
        unit = "links"
    if not named:
        return Unresolved(name, "fewer than two unseen documents to measure on", 0), None
    sets = [
        find_on_page(answer.page, target.labels, answer.table, answer.links) for answer in answers
    ]
    counts = np.array(
        [(len(true & predicted), len(true), len(predicted)) for true, predicted in sets], float
    )
    documents = [document for document, _ in named]
    ratios = Ratios(documents, 2 * counts[:, 0], counts[:, 1] + counts[:, 2])
    if len(named) < 2:
        return Unresolved(name, "fewer than two unseen documents to measure on", 1), ratios
    n_true = int(counts[:, 1].sum())
    if not n_true:
        return Unresolved(name, f"no labelled {unit} in the unseen documents", 0), ratios
    interval = _f1_interval(counts, n_true, rng)
    commonest: Counter[Any] = Counter()
    for true, _ in sets:
        commonest.update(true)
    null = 2 * max(commonest.values()) / (n_true + len(sets))
    return estimate(name, interval, unit, null, "chance"), ratios


def _f1_interval(counts: Floats, n_true: int, rng: np.random.Generator) -> Interval:
    """Return the micro F1 with its interval over drawn pages.

    Args:
        counts: (n_pages, 3) numbers of what is right, true, and predicted on each page.
        n_true: number of those that are true on all pages.
        rng: draws the pages.
    """
    sums = cluster_sums(list(counts.T), np.arange(len(counts)))
    interval = bootstrap([sums], _f1, rng, n=n_true, limits=(0.0, 1.0))
    if interval is not None:
        return interval
    value = float(_f1(sums.sum(axis=0)[None, None])[0])
    # Pages without anything true or predicted agree with whatever there is.
    n_pages = int((counts[:, 1:] > 0).any(axis=1).sum())
    return beta_interval(value, n=n_true, clusters=n_pages)


def _f1(totals: Floats) -> Floats:
    """Return the micro F1 of each draw from its totals (n_draws, 1, 3)."""
    right = totals[:, 0, 0]
    true = totals[:, 0, 1]
    predicted = totals[:, 0, 2]
    return 2 * right / np.maximum(true + predicted, 1)


def spade_entities(
    words: Ints, classes: Ints, links: Ints, labels: Sequence[str]
) -> set[tuple[str, frozenset[int]]]:
    """Return the entities of a page as (label, its words), from SPADE's classes and links.

    One begins at each token whose class is not "O" and goes on to the token that names it as its
    predecessor, until there is none, or it begins another entity. When several tokens name one
    predecessor the last one counts, as in the original code.

    Args:
        words: (n_tokens,) index of each token's word, -1 for special tokens.
        classes: (n_tokens,) index into `labels`, `NOT_READ` where no entity can begin.
        links: (n_tokens,) position of each token's predecessor, `NO_LINK` for none.
        labels: the names of the classes.
    """
    begins = _beginnings(classes, labels)
    successors: dict[int, int] = {}
    for position, before in enumerate(links):
        if before >= 0 and position not in begins:
            successors[int(before)] = position
    entities = set()
    for first in begins:
        tokens = _chain(first, successors)
        entity_words = frozenset(int(word) for word in words[tokens] if word >= 0)
        entities.add((labels[classes[first]], entity_words))
    return entities


def _beginnings(classes: Ints, labels: Sequence[str]) -> set[int]:
    """Return the positions of the tokens that begin an entity."""
    readable = np.flatnonzero(classes >= 0)
    return {int(position) for position in readable if labels[classes[position]] != "O"}


def _chain(first: int, successors: Mapping[int, int]) -> list[int]:
    """Return the tokens linked one to the next from `first`, up to the end or a circle."""
    tokens = [first]
    following = successors.get(first)
    while following is not None and following not in tokens:
        tokens.append(following)
        following = successors.get(following)
    return tokens


def _ask_pages(target: interface.TokenTarget, pages: Sequence[Encoding]) -> list[_PageAnswers]:
    """Ask a target for the tags and links of pages."""
    if not pages:
        return []
    tables: Sequence[Floats | None] = [None] * len(pages)
    if interface.TagProbabilities in target.answers:
        tables = target.ask([interface.TagProbabilities(page) for page in pages])
    links: Sequence[Ints | None] = [None] * len(pages)
    if interface.BestLinks in target.answers:
        links = target.ask([interface.BestLinks(page) for page in pages])
    return [
        _PageAnswers(page, table, page_links)
        for page, table, page_links in zip(pages, tables, links, strict=True)
    ]


def find_on_page(
    page: Encoding, labels: Sequence[str], table: Floats | None, links: Ints | None
) -> tuple[Entities, Entities]:
    """Return the true entities or links of a page, and those that a model finds.

    These are entities, or (child, parent) of links.

    Args:
        page: page with its labels, or its links.
        labels: labels of the model.
        table: (n_tokens, n_labels) probabilities of tags, or of SPADE's classes; None for a model
            that only links.
        links: (n_tokens,) position of each token's predecessor, or parent; None for a model that
            links nothing.
    """
    if table is None:
        assert page.links is not None
        assert links is not None
        return _pairs(page.links), _pairs(links)
    assert page.labels is not None
    classes = np.where(page.labels == NOT_READ, NOT_READ, table.argmax(axis=1))
    return _entities(page, labels, classes, links)


def _entities(
    page: Encoding, labels: Sequence[str], classes: Ints, links: Ints | None
) -> tuple[Entities, Entities]:
    """Return the true entities of a page, and those of these tags, or classes of SPADE."""
    assert page.labels is not None
    if links is None:
        labelled = page.labels >= 0
        spans_of = scheme_of(labels).spans
        true_tags = [labels[index] for index in page.labels[labelled]]
        predicted_tags = [labels[index] for index in classes[labelled]]
        return spans_of(true_tags), spans_of(predicted_tags)
    assert page.links is not None
    true = spade_entities(page.words, page.labels, page.links, labels)
    return true, spade_entities(page.words, classes, links, labels)


def _pairs(links: Ints) -> set[tuple[int, int]]:
    """Return the (child, parent) of each token that has a parent."""
    return {(int(child), int(links[child])) for child in np.flatnonzero(links >= 0)}


@dataclass(frozen=True)
class _Asked:
    """A question on an unseen document.

    Attributes:
        cluster: number of its document.
        document: the document.
        question: the question.
    """

    cluster: int
    document: Document
    question: Question


def _measure_answers(target: interface.Target, corpus: Corpus, seed: int) -> Usefulness:
    """Measure the mean ANLS on held-out documents' questions, and check whether it answers.

    Null: giving the members' commonest answer.

    The commonest to the same wording of the question, where members are asked it, else of all.
    """
    rng = np.random.default_rng(seed)
    documents = _draw_asked_documents(corpus, rng)
    asked = [
        _Asked(cluster, document, question)
        for cluster, document in enumerate(documents)
        for question in document.questions
    ]
    replies = _ask_in_parts(target, corpus, asked)
    scores = np.array(
        [anls(reply, row.question.answers) for reply, row in zip(replies, asked, strict=True)]
    )
    rows = [
        Reply(reply, row.question.answers[0], float(score))
        for reply, row, score in zip(replies, asked, scores, strict=True)
    ]
    checks = (check_replies(rows),)
    clusters = np.array([row.cluster for row in asked], np.int64)
    sums = _ratios([document.id for document in documents], scores, clusters)
    if len(documents) < 2:
        reason = "fewer than two unseen documents with questions"
        return Usefulness([(Unresolved("anls", reason, len(documents)), sums)], checks)
    unit = "fields" if corpus.manifest.task.kind == "parsing" else "questions"
    null = _anls_of_guessing(corpus, asked)
    anls_of_all = estimate("anls", mean(scores, clusters, rng), unit, null, "chance")
    return Usefulness([(anls_of_all, sums)], checks)


def _draw_asked_documents(corpus: Corpus, rng: np.random.Generator) -> list[Document]:
    """Return held-out documents with questions, `MAX_DOCUMENTS` drawn at most."""
    documents = [document for document in corpus.of("heldout") if document.questions]
    if len(documents) <= MAX_DOCUMENTS:
        return documents
    drawn = sorted(rng.permutation(len(documents))[:MAX_DOCUMENTS])
    return [documents[index] for index in drawn]


def _ask_in_parts(target: interface.Target, corpus: Corpus, asked: Sequence[_Asked]) -> list[str]:
    """Return the target's answers to all questions, asked a few pages at a time."""
    replies: list[str] = []
    for start in range(0, len(asked), _AT_ONCE):
        queries = [
            interface.Answer(page_view(corpus, row.document), row.question.question)
            for row in asked[start : start + _AT_ONCE]
        ]
        replies += [reply.text for reply in target.ask(queries)]
    return replies


def _anls_of_guessing(corpus: Corpus, asked: Sequence[_Asked]) -> float:
    """Return the mean ANLS of guessing the members' commonest answer to each question."""
    guesses = _commonest_answers(corpus)
    commonest = guesses.get("", "")
    scores = [
        anls(guesses.get(fold(row.question.question), commonest), row.question.answers)
        for row in asked
    ]
    return float(np.mean(scores))


def _commonest_answers(corpus: Corpus) -> dict[str, str]:
    """Return the members' commonest answer to each wording of a question.

    Under "" stands that of all of them.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for document in corpus.of("member"):
        for question in document.questions:
            if question.answers:
                counts[fold(question.question)][question.answers[0]] += 1
                counts[""][question.answers[0]] += 1
    return {wording: answers.most_common(1)[0][0] for wording, answers in counts.items()}
