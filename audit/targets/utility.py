"""Utility of a checkpoint at its own task, to weigh a leak against what the model is good for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats, Ints
from audit.corpus.documents import Document
from audit.corpus.tagging import BIO, Span, scheme_of
from audit.measurements import ALPHAS, Bound, Estimate, Measurement, Unresolved
from audit.stats.clusters import cluster_sums
from audit.stats.intervals import Interval, agreement_interval, proportion
from audit.stats.paired import Ratios
from audit.stats.resampling import bootstrap
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.interface import BestClass, BestIntent, BestLinks, BestTokens, TagProbabilities, TokenTarget

MASK_PROBABILITY = 0.15
"""Share of tokens that are hidden, as in BERT's training (Devlin et al. 2019)."""
MAX_DOCUMENTS = 200
"""Documents that the utility is measured on, at most (ours): enough for an interval of a few points."""

MASKED, INTENT, CLASS = "masked_token_accuracy", "intent_accuracy", "class_accuracy"

Entities = Set[Any]
Finder = Callable[[TokenTarget, Sequence[Encoding]], list[tuple[Entities, Entities]]]
"""For each page, what is true of it and what the target found there; two finds are the same when they are equal."""
UNITS = {"entity_f1": "entities", "link_f1": "links"}


def estimate(name: str, interval: Interval, unit: str, null: float, null_kind: str) -> Estimate:
    """A record's estimate from an interval."""
    return Estimate(
        name,
        interval.value,
        interval.low,
        interval.high,
        interval.n,
        unit,
        interval.clusters,
        interval.method,
        null,
        null_kind,  # type: ignore[arg-type]
        interval.level,
        tuple(Bound(*bound) for bound in interval.bounds),
    )


def utility(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Measure a target's own task on documents it did not train on.

    Masked-token accuracy of a masked language model, entity F1 of a tagger or of SPADE extraction, link F1 of SPADE
    linking.
    """
    if BestTokens in target.answers:
        return masked_token_accuracy(MASKED, target, documents, seed)
    if BestLinks not in target.answers:
        return tagging_f1(target, documents, seed)
    if TagProbabilities in target.answers:
        return extraction_f1(target, documents, seed)
    return linking_f1(target, documents, seed)


def utility_by_document(target: TokenTarget, documents: Sequence[Document], seed: int) -> dict[str, Ratios]:
    """The sums behind `utility`, or `class_accuracy`, and `intent_accuracy` where the model names intents, by document.

    Args:
        target: as it is measured.
        documents: that it did not train on.
        seed: the same as there: then the same pages and tokens are asked about.
    """
    rng = np.random.default_rng(seed)
    named = _named_pages(target, documents, rng)
    names, pages = [name for name, _ in named], [page for _, page in named]
    if not pages:
        return {}
    if BestTokens in target.answers:
        _, hits, clusters = _masked_hits(target, pages, rng)
        return {MASKED: Ratios(names, *sum_by_document(hits, clusters))}
    if BestClass in target.answers:
        best = target.ask([BestClass(page) for page in pages])
        named_right = [float(own == page.page_class) for own, page in zip(best, pages, strict=True)]
        return {CLASS: Ratios(names, np.array(named_right), np.ones(len(pages)))}
    find = _finder(target)
    counts = _counts(find(target, pages))
    name = "link_f1" if find is _linked else "entity_f1"
    found = {name: Ratios(names, 2 * counts[:, 0], counts[:, 1] + counts[:, 2])}
    asked = [(name, page) for name, page in named if page.intent is not None]
    if BestIntent in target.answers and asked:
        best = target.ask([BestIntent(page) for _, page in asked])
        right = [float(own == page.intent) for own, (_, page) in zip(best, asked, strict=True)]
        found[INTENT] = Ratios([name for name, _ in asked], np.array(right), np.ones(len(asked)))
    return found


def sum_by_document(values: npt.ArrayLike, clusters: Ints) -> tuple[Floats, Floats]:
    """The sum and the number of the values of each document, (n_documents,) each; documents are 0, 1, and so on."""
    rows = np.asarray(values, np.float64)
    sums = cluster_sums([rows, np.ones_like(rows)], clusters)
    return sums[:, 0], sums[:, 1]


def _finder(target: TokenTarget) -> Finder:
    if BestLinks not in target.answers:
        return _tagged
    return _extracted if TagProbabilities in target.answers else _linked


def masked_token_accuracy(name: str, target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Share of hidden tokens that the model names first, 15 % of each page hidden; null: naming the commonest.

    Where the model sees the page, white patches hide them in the image too, as the attack does.
    """
    rng = np.random.default_rng(seed)
    pages = _pages(target, documents, rng)
    if not pages:
        return Unresolved(name, "no held-out document to measure on", 0)
    truth, hits, clusters = _masked_hits(target, pages, rng)
    commonest = np.unique(np.concatenate(truth), return_counts=True)[1].max() / len(hits)
    return estimate(name, proportion(hits, clusters, alphas=ALPHAS), "tokens", float(commonest), "chance")


def _masked_hits(
    target: TokenTarget, pages: Sequence[Encoding], rng: np.random.Generator
) -> tuple[list[Ints], Bools, Ints]:
    """The true tokens of each page that are hidden; and for every one if it was named first, and its page."""
    hidden = [_hidden_positions(page, rng) for page in pages]
    queries = [BestTokens(page.scrubbed(positions), positions) for page, positions in zip(pages, hidden, strict=True)]
    truth = [page.ids[list(positions)] for page, positions in zip(pages, hidden, strict=True)]
    hits = np.concatenate([a == b for a, b in zip(target.ask(queries), truth, strict=True)])
    return truth, hits, np.repeat(np.arange(len(pages)), [len(positions) for positions in hidden])


def tagging_f1(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Micro F1 of whole entities (same label, same words) on held-out pages; null: naming the commonest on each."""
    return _micro_f1("entity_f1", "labelled entity", _tagged, target, documents, seed)


def extraction_f1(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """As `tagging_f1`, of SPADE's entities: each begins where a class says so and follows the predecessors."""
    return _micro_f1("entity_f1", "labelled entity", _extracted, target, documents, seed)


def linking_f1(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Micro F1 of links (same child, same parent) on held-out pages; null: naming the commonest on each."""
    return _micro_f1("link_f1", "link", _linked, target, documents, seed)


def intent_accuracy(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Share of held-out utterances whose intent the model puts first; null: naming the commonest."""
    pages = [page for page in _pages(target, documents, np.random.default_rng(seed)) if page.intent is not None]
    if len(pages) < 2:
        return Unresolved(INTENT, "fewer than two held-out utterances with an intent", len(pages))
    best = target.ask([BestIntent(page) for page in pages])
    return _share_right(INTENT, "utterances", best, [page.intent for page in pages])


def class_accuracy(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Share of held-out pages whose class the model puts first; null: naming the commonest.

    Pages of a class that the model does not have count as wrong.
    """
    pages = _pages(target, documents, np.random.default_rng(seed))
    if len(pages) < 2:
        return Unresolved(CLASS, "fewer than two held-out documents to measure on", len(pages))
    best = target.ask([BestClass(page) for page in pages])
    return _share_right(CLASS, "documents", best, [page.page_class for page in pages])


def _share_right(name: str, unit: str, best: Sequence[int], truth: Sequence[int | None]) -> Measurement:
    """The share of pages, one in each cluster, of which the model's best class is the true one."""
    hits = np.array([own == true for own, true in zip(best, truth, strict=True)])
    commonest = Counter(truth).most_common(1)[0][1] / len(truth)
    return estimate(name, proportion(hits, np.arange(len(hits)), alphas=ALPHAS), unit, commonest, "chance")


def spade_entities(words: Ints, classes: Ints, links: Ints, labels: Sequence[str]) -> set[tuple[str, frozenset[int]]]:
    """The entities of a page as (label, its words).

    One begins at each token whose class is not "O" and goes on to the token that names it as its predecessor, until
    there is none, or it begins another entity. When several tokens name one predecessor the last one counts, as in the
    original code.

    Args:
        words: (n_tokens,) index of each token's word, -1 for special tokens.
        classes: (n_tokens,) index into `labels`, `NOT_READ` where no entity can begin.
        links: (n_tokens,) position of each token's predecessor, `NO_LINK` for none.
        labels: the names of the classes.
    """
    begins = {int(position) for position in np.flatnonzero(classes >= 0) if labels[classes[position]] != "O"}
    successor = {
        int(before): position for position, before in enumerate(links) if before >= 0 and position not in begins
    }
    entities = set()
    for first in begins:
        tokens = [first]
        # A token that was taken already closes a circle.
        while (after := successor.get(tokens[-1])) is not None and after not in tokens:
            tokens.append(after)
        entities.add((labels[classes[first]], frozenset(int(word) for word in words[tokens] if word >= 0)))
    return entities


def _micro_f1(
    name: str, thing: str, find: Finder, target: TokenTarget, documents: Sequence[Document], seed: int
) -> Measurement:
    """F1 over all pages; the interval draws pages."""
    rng = np.random.default_rng(seed)
    pages = _pages(target, documents, rng)
    if len(pages) < 2:
        return Unresolved(name, "fewer than two held-out documents to measure on", len(pages))
    sets = find(target, pages)
    counts = _counts(sets)
    if not counts[:, 1].sum():
        return Unresolved(name, f"no {thing} in the held-out documents", 0)
    sums, n = cluster_sums(list(counts.T), np.arange(len(counts))), int(counts[:, 1].sum())
    interval = bootstrap([sums], _f1, rng, n=n, alphas=ALPHAS, limits=(0.0, 1.0))
    if interval is None:
        value = float(_f1(sums.sum(axis=0)[None, None])[0])
        # Pages without anything true or found agree with whatever there is.
        n_pages = int((counts[:, 1:] > 0).any(axis=1).sum())
        interval = agreement_interval(value, n=n, clusters=n_pages, alphas=ALPHAS, unit="page")
    return estimate(name, interval, UNITS[name], _commonest_f1([true for true, _ in sets]), "chance")


def _counts(sets: Sequence[tuple[Entities, Entities]]) -> Floats:
    """By page: what is right, what is true and what was found; (n_pages, 3)."""
    return np.array([(len(true & predicted), len(true), len(predicted)) for true, predicted in sets], float)


def _commonest_f1(truths: Sequence[Entities]) -> float:
    """The F1 of naming on every page what the most pages hold, at the same place, and nothing else."""
    counts = Counter(thing for true in truths for thing in true)
    right = max(counts.values())
    return 2 * right / (counts.total() + len(truths))


def _pages(target: TokenTarget, documents: Sequence[Document], rng: np.random.Generator) -> list[Encoding]:
    return [page for _, page in _named_pages(target, documents, rng)]


def _named_pages(
    target: TokenTarget, documents: Sequence[Document], rng: np.random.Generator
) -> list[tuple[str, Encoding]]:
    """The pages that the target reads, with the names of their documents."""
    pages = ((document.id, target.encode(document)) for document in _chosen(documents, rng))
    return [(name, page) for name, page in pages if page is not None]


def _chosen(documents: Sequence[Document], rng: np.random.Generator) -> list[Document]:
    order = rng.permutation(len(documents))[:MAX_DOCUMENTS]
    return [documents[index] for index in sorted(order)]


def _hidden_positions(page: Encoding, rng: np.random.Generator) -> tuple[int, ...]:
    own = np.flatnonzero(page.words >= 0)
    n_hidden = max(1, round(MASK_PROBABILITY * len(own)))
    return tuple(sorted(int(position) for position in rng.choice(own, n_hidden, replace=False)))


def _tagged(target: TokenTarget, pages: Sequence[Encoding]) -> list[tuple[Entities, Entities]]:
    """Entities of tags, see `tagging.Scheme.spans`."""
    spans_of = scheme_of(target.labels).spans
    sets: list[tuple[Entities, Entities]] = []
    for page, probabilities in zip(pages, target.ask([TagProbabilities(page) for page in pages]), strict=True):
        assert page.labels is not None
        read = np.flatnonzero(page.labels >= 0)
        best = probabilities[read].argmax(axis=1)
        true, predicted = (spans_of([target.labels[index] for index in tags]) for tags in (page.labels[read], best))
        sets.append((true, predicted))
    return sets


def _extracted(target: TokenTarget, pages: Sequence[Encoding]) -> list[tuple[Entities, Entities]]:
    """Entities of SPADE's classes and predecessors, see `spade_entities`."""
    tables = target.ask([TagProbabilities(page) for page in pages])
    links = target.ask([BestLinks(page) for page in pages])
    sets: list[tuple[Entities, Entities]] = []
    for page, table, best in zip(pages, tables, links, strict=True):
        assert page.labels is not None
        assert page.links is not None
        classes = np.where(page.labels == NOT_READ, NOT_READ, table.argmax(axis=1))
        true = spade_entities(page.words, page.labels, page.links, target.labels)
        sets.append((true, spade_entities(page.words, classes, best, target.labels)))
    return sets


def _linked(target: TokenTarget, pages: Sequence[Encoding]) -> list[tuple[Entities, Entities]]:
    """(child, parent) of every link."""
    sets: list[tuple[Entities, Entities]] = []
    for page, best in zip(pages, target.ask([BestLinks(page) for page in pages]), strict=True):
        assert page.links is not None
        true, predicted = (
            {(int(child), int(links[child])) for child in np.flatnonzero(links >= 0)} for links in (page.links, best)
        )
        sets.append((true, predicted))
    return sets


def bio_spans(tags: Sequence[str]) -> set[Span]:
    """Entities of a BIO sequence as (label, first, after last); an I without its B begins one, as in CoNLL's scorer."""
    return BIO.spans(tags)


def _f1(totals: Floats) -> Floats:
    right, true, predicted = totals[:, 0, 0], totals[:, 0, 1], totals[:, 0, 2]
    f1: Floats = 2 * right / np.maximum(true + predicted, 1)
    return f1
