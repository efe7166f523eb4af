"""Usefulness of a checkpoint at its own task, on documents that it did not train on, to weigh a leak against."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from typing import Any, cast

import numpy as np

from audit.arrays import Floats, Ints
from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import fold
from audit.corpus.images import page_view
from audit.corpus.tagging import scheme_of
from audit.measurements import Measurement, Unresolved
from audit.stats.distances import anls
from audit.stats.estimates import estimate as estimate
from audit.stats.intervals import beta_interval, cluster_sums, proportion
from audit.stats.paired import Ratios
from audit.stats.rates import mean
from audit.stats.resampling import bootstrap
from audit.targets import interface
from audit.targets.encoded_page import NOT_READ, Encoding

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


def usefulness(target: interface.Target, corpus: Corpus, seed: int) -> tuple[Measurement, ...]:
    """Measure the target's task on held-out documents: ANLS of questions and of fields, else see `measure_task`."""
    return tuple(measurement for measurement, _ in _measure(target, corpus, seed))


def usefulness_by_document(
    target: interface.Target, corpus: Corpus, seed: int
) -> dict[str, Ratios]:
    """Give the sums behind `usefulness` by held-out document, so that two models can be compared as pairs.

    With the same seed the same pages and tokens are asked about.
    """
    measures = usefulness_with_sums(target, corpus, seed)
    return {name: sums for name, (_, sums) in measures.items() if sums is not None}


def usefulness_with_sums(
    target: interface.Target, corpus: Corpus, seed: int
) -> dict[str, Measured]:
    """Measure `usefulness`, by name, each with the sums behind it."""
    return {
        measurement.name: (measurement, sums)
        for measurement, sums in _measure(target, corpus, seed)
    }


def _measure(target: interface.Target, corpus: Corpus, seed: int) -> list[Measured]:
    if interface.Answer in target.answers:
        return [_measure_answers(target, corpus, seed)]
    return measure_task(cast("interface.TokenTarget", target), corpus.of("heldout"), seed)


def measure_task(
    target: interface.TokenTarget, documents: Sequence[Document], seed: int
) -> list[Measured]:
    """Measure a target's own task on documents it did not train on.

    Masked-token accuracy of a masked language model, class accuracy of a classifier of pages,
    entity F1 of a tagger or of SPADE extraction, link F1 of SPADE linking; with intent accuracy
    where the model names intents.
    """
    rng = np.random.default_rng(seed)
    named = _pages(target, documents, rng)
    if interface.BestTokens in target.answers:
        return [_measure_masked(target, named, rng)]
    if interface.BestClass in target.answers:
        best = target.ask([interface.BestClass(page) for _, page in named])
        return [
            _share_right(
                "class_accuracy", "documents", named, best, [page.page_class for _, page in named]
            )
        ]
    measured = [_measure_f1(target, named, rng)]
    if interface.BestIntent in target.answers:
        meant = [(name, page) for name, page in named if page.intent is not None]
        intents = target.ask([interface.BestIntent(page) for _, page in meant])
        true = [page.intent for _, page in meant]
        measured.append(_share_right("intent_accuracy", "utterances", meant, intents, true))
    return measured


def _pages(
    target: interface.TokenTarget, documents: Sequence[Document], rng: np.random.Generator
) -> Named:
    """Draw documents, and give those that the target reads."""
    chosen = sorted(rng.permutation(len(documents))[:MAX_DOCUMENTS])
    pages = ((documents[index].id, target.encode(documents[index])) for index in chosen)
    return [(name, page) for name, page in pages if page is not None]


def _ratios(documents: Sequence[str], values: Any, clusters: Ints) -> Ratios | None:
    """Sum values by document; documents are 0, 1, and so on."""
    if not documents:
        return None
    rows = np.asarray(values, np.float64)
    sums = cluster_sums([rows, np.ones_like(rows)], clusters)
    return Ratios(documents, sums[:, 0], sums[:, 1])


def _measure_masked(
    target: interface.TokenTarget, named: Named, rng: np.random.Generator
) -> Measured:
    """Measure the share of hidden tokens that the model names first, 15 % of each page.

    Null: naming the commonest.

    Where the model sees the page, white patches hide them in the image too, as the attack does.
    """
    name = "masked_token_accuracy"
    if not named:
        return Unresolved(name, "no held-out document to measure on", 0), None
    pages = [page for _, page in named]
    hidden = [_hidden_positions(page, rng) for page in pages]
    queries = [
        interface.BestTokens(page.scrubbed(positions), positions)
        for page, positions in zip(pages, hidden, strict=True)
    ]
    truth = [page.ids[list(positions)] for page, positions in zip(pages, hidden, strict=True)]
    hits = np.concatenate([a == b for a, b in zip(target.ask(queries), truth, strict=True)])
    clusters = np.repeat(np.arange(len(pages)), [len(positions) for positions in hidden])
    commonest = float(np.unique(np.concatenate(truth), return_counts=True)[1].max() / len(hits))
    found = estimate(name, proportion(hits, clusters), "tokens", commonest, "chance")
    return found, _ratios([own for own, _ in named], hits, clusters)


def _hidden_positions(page: Encoding, rng: np.random.Generator) -> tuple[int, ...]:
    own = np.flatnonzero(page.words >= 0)
    n_hidden = max(1, round(MASK_PROBABILITY * len(own)))
    return tuple(sorted(int(position) for position in rng.choice(own, n_hidden, replace=False)))


def _share_right(
    name: str, unit: str, named: Named, best: Sequence[int], true: Sequence[int | None]
) -> Measured:
    """Measure the share of pages whose best class is the true one.

    A class that the model lacks is wrong.
    """
    hits = np.array([one == other for one, other in zip(best, true, strict=True)], bool)
    clusters = np.arange(len(hits))
    sums = _ratios([own for own, _ in named], hits, clusters)
    if len(named) < 2:
        return Unresolved(name, f"fewer than two held-out {unit} to measure on", len(named)), sums
    commonest = Counter(true).most_common(1)[0][1] / len(true)
    return estimate(name, proportion(hits, clusters), unit, commonest, "chance"), sums


def _measure_f1(target: interface.TokenTarget, named: Named, rng: np.random.Generator) -> Measured:
    """Measure the micro F1 of whole entities or links; the interval draws pages.

    Entities are the same with the same label and words, links with the same child and parent; null:
    naming the commonest on each page.
    """
    links_only = (
        interface.BestLinks in target.answers and interface.TagProbabilities not in target.answers
    )
    name, unit = ("link_f1", "links") if links_only else ("entity_f1", "entities")
    sets = _find(target, [page for _, page in named]) if named else []
    counts = np.array(
        [(len(true & found), len(true), len(found)) for true, found in sets], float
    ).reshape(-1, 3)
    ratios = (
        Ratios([own for own, _ in named], 2 * counts[:, 0], counts[:, 1] + counts[:, 2])
        if named
        else None
    )
    if len(named) < 2:
        return Unresolved(name, "fewer than two unseen documents to measure on", len(named)), ratios
    n = int(counts[:, 1].sum())
    if not n:
        return Unresolved(name, f"no labelled {unit} in the unseen documents", 0), ratios
    sums = cluster_sums(list(counts.T), np.arange(len(counts)))
    interval = bootstrap([sums], _f1, rng, n=n, limits=(0.0, 1.0))
    if interval is None:
        value = float(_f1(sums.sum(axis=0)[None, None])[0])
        # Pages without anything true or found agree with whatever there is.
        n_pages = int((counts[:, 1:] > 0).any(axis=1).sum())
        interval = beta_interval(value, n=n, clusters=n_pages)
    commonest = Counter(thing for true, _ in sets for thing in true)
    null = 2 * max(commonest.values()) / (n + len(sets))
    return estimate(name, interval, unit, null, "chance"), ratios


def _f1(totals: Floats) -> Floats:
    right, true, predicted = totals[:, 0, 0], totals[:, 0, 1], totals[:, 0, 2]
    return 2 * right / np.maximum(true + predicted, 1)


def spade_entities(
    words: Ints, classes: Ints, links: Ints, labels: Sequence[str]
) -> set[tuple[str, frozenset[int]]]:
    """Give the entities of a page as (label, its words).

    One begins at each token whose class is not "O" and goes on to the token that names it as its
    predecessor, until there is none, or it begins another entity. When several tokens name one
    predecessor the last one counts, as in the original code.

    Args:
        words: (n_tokens,) index of each token's word, -1 for special tokens.
        classes: (n_tokens,) index into `labels`, `NOT_READ` where no entity can begin.
        links: (n_tokens,) position of each token's predecessor, `NO_LINK` for none.
        labels: the names of the classes.
    """
    begins = {
        int(position)
        for position in np.flatnonzero(classes >= 0)
        if labels[classes[position]] != "O"
    }
    successor = {
        int(before): at for at, before in enumerate(links) if before >= 0 and at not in begins
    }
    entities = set()
    for first in begins:
        tokens = [first]
        # A token that was taken already closes a circle.
        while (after := successor.get(tokens[-1])) is not None and after not in tokens:
            tokens.append(after)
        entities.add(
            (labels[classes[first]], frozenset(int(word) for word in words[tokens] if word >= 0))
        )
    return entities


def _find(
    target: interface.TokenTarget, pages: Sequence[Encoding]
) -> list[tuple[Entities, Entities]]:
    """Ask the target for what `find_on_page` takes, of each page."""
    kinds: tuple[Any, ...] = (interface.TagProbabilities, interface.BestLinks)
    asked = ([kind(page) for page in pages] if kind in target.answers else None for kind in kinds)
    tables, links = (
        [None] * len(pages) if queries is None else target.ask(queries) for queries in asked
    )
    every = zip(pages, tables, links, strict=True)
    return [find_on_page(page, target.labels, table, own) for page, table, own in every]


def find_on_page(
    page: Encoding, labels: Sequence[str], table: Floats | None, links: Ints | None
) -> tuple[Entities, Entities]:
    """Give what is true of a page and what a model finds there: entities, or (child, parent) of links.

    Args:
        page: with its labels, or its links.
        labels: of the model.
        table: (n_tokens, n_labels) probabilities of tags, or of SPADE's classes; None for a model
            that only links.
        links: (n_tokens,) position of each token's predecessor, or parent; None for a model that
            links nothing.
    """
    if table is None:
        assert page.links is not None
        assert links is not None
        pairs = (
            {(int(child), int(own[child])) for child in np.flatnonzero(own >= 0)}
            for own in (page.links, links)
        )
        return next(pairs), next(pairs)
    assert page.labels is not None
    classes = np.where(page.labels == NOT_READ, NOT_READ, table.argmax(axis=1))
    if links is None:
        read, spans_of = page.labels >= 0, scheme_of(labels).spans
        return tuple(
            spans_of([labels[index] for index in own[read]]) for own in (page.labels, classes)
        )  # type: ignore[return-value]
    assert page.links is not None
    true = spade_entities(page.words, page.labels, page.links, labels)
    return true, spade_entities(page.words, classes, links, labels)


def _measure_answers(target: interface.Target, corpus: Corpus, seed: int) -> Measured:
    """Measure the mean ANLS on held-out documents' questions.

    Null: giving the members' commonest answer.

    The commonest to the same wording of the question, where members are asked it, else of all.
    """
    rng = np.random.default_rng(seed)
    documents = [document for document in corpus.of("heldout") if document.questions]
    if len(documents) > MAX_DOCUMENTS:
        documents = [
            documents[index] for index in sorted(rng.permutation(len(documents))[:MAX_DOCUMENTS])
        ]
    asked = [
        (n, document, question)
        for n, document in enumerate(documents)
        for question in document.questions
    ]
    replies: list[str] = []
    for start in range(0, len(asked), _AT_ONCE):
        part = asked[start : start + _AT_ONCE]
        queries = [
            interface.Answer(page_view(corpus, document), question.question)
            for _, document, question in part
        ]
        replies += [reply.text for reply in target.ask(queries)]
    scores = np.array(
        [
            anls(reply, question.answers)
            for reply, (_, _, question) in zip(replies, asked, strict=True)
        ]
    )
    clusters = np.array([number for number, _, _ in asked], np.int64)
    sums = _ratios([document.id for document in documents], scores, clusters)
    if len(documents) < 2:
        return Unresolved(
            "anls", "fewer than two unseen documents with questions", len(documents)
        ), sums
    guesses = _guesses(corpus)
    guessed = [
        guesses.get(fold(question.question), guesses.get("", "")) for _, _, question in asked
    ]
    null = np.mean(
        [
            anls(guess, question.answers)
            for guess, (_, _, question) in zip(guessed, asked, strict=True)
        ]
    )
    unit = "fields" if corpus.manifest.task.kind == "parsing" else "questions"
    return estimate("anls", mean(scores, clusters, rng), unit, float(null), "chance"), sums


def _guesses(corpus: Corpus) -> dict[str, str]:
    """Give the answer that members' questions of each wording have most often, and under "" that of all of them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for document in corpus.of("member"):
        for question in document.questions:
            if question.answers:
                counts[fold(question.question)][question.answers[0]] += 1
                counts[""][question.answers[0]] += 1
    return {wording: own.most_common(1)[0][0] for wording, own in counts.items()}
