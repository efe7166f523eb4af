"""How well a checkpoint does its own task, so that a leak can be weighed against what the model is good for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.corpus.documents import Document
from audit.record import ALPHAS, Bound, Estimate, Measurement, Unresolved
from audit.stats.clusters import cluster_sums
from audit.stats.intervals import Interval, proportion
from audit.stats.resampling import NoSpreadError, bootstrap
from audit.targets.interface import BestTokens, Encoding, Floats, TagProbabilities, Target

MASK_PROBABILITY = 0.15
"""Share of tokens that are hidden, as in BERT's training (Devlin et al. 2019)."""
MAX_DOCUMENTS = 200
"""Documents that the utility is measured on, at most (ours): enough for an interval of a few points."""

Span = tuple[str, int, int]


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


def utility(target: Target, documents: Sequence[Document], seed: int) -> Measurement:
    """Masked-token accuracy of a masked language model, entity F1 of a tagger, on documents it did not train on."""
    if BestTokens in target.answers:
        return masked_token_accuracy("masked_token_accuracy", target, documents, seed)
    return tagging_f1(target, documents, seed)


def masked_token_accuracy(name: str, target: Target, documents: Sequence[Document], seed: int) -> Measurement:
    """Share of hidden tokens that the model names first, 15 % of each page hidden; null: naming the commonest."""
    rng = np.random.default_rng(seed)
    pages = [page for page in map(target.encode, _chosen(documents, rng)) if page is not None]
    hidden = [_hidden_positions(page, rng) for page in pages]
    if not pages:
        return Unresolved(name, "no held-out document to measure on", 0)
    queries = [BestTokens(page.masked(positions), positions) for page, positions in zip(pages, hidden, strict=True)]
    truth = [page.ids[list(positions)] for page, positions in zip(pages, hidden, strict=True)]
    hits = np.concatenate([a == b for a, b in zip(target.ask(queries), truth, strict=True)])
    clusters = np.repeat(np.arange(len(pages)), [len(positions) for positions in hidden])
    commonest = np.unique(np.concatenate(truth), return_counts=True)[1].max() / len(hits)
    return estimate(name, proportion(hits, clusters, alphas=ALPHAS), "tokens", float(commonest), "chance")


def tagging_f1(target: Target, documents: Sequence[Document], seed: int) -> Measurement:
    """Micro F1 of whole entities (same label, same words) on held-out pages; null: a tagger that finds nothing."""
    rng = np.random.default_rng(seed)
    pages = [page for page in map(target.encode, _chosen(documents, rng)) if page is not None]
    if len(pages) < 2:
        return Unresolved("entity_f1", "fewer than two held-out documents to measure on", len(pages))
    found = target.ask([TagProbabilities(page) for page in pages])
    counts = np.array([_counts(page, tags, target.labels) for page, tags in zip(pages, found, strict=True)], float)
    if not counts[:, 1].sum():
        return Unresolved("entity_f1", "no labelled entity in the held-out documents", 0)
    try:
        interval = bootstrap(
            [cluster_sums(list(counts.T), np.arange(len(counts)))],
            _f1,
            rng,
            n=int(counts[:, 1].sum()),
            alphas=ALPHAS,
            limits=(0.0, 1.0),
        )
    except NoSpreadError:
        return Unresolved("entity_f1", "every page gives the same F1: no interval can be drawn from that", len(pages))
    return estimate("entity_f1", interval, "entities", 0.0, "chance")


def _chosen(documents: Sequence[Document], rng: np.random.Generator) -> list[Document]:
    order = rng.permutation(len(documents))[:MAX_DOCUMENTS]
    return [documents[index] for index in sorted(order)]


def _hidden_positions(page: Encoding, rng: np.random.Generator) -> tuple[int, ...]:
    own = np.flatnonzero(page.words >= 0)
    n_hidden = max(1, round(MASK_PROBABILITY * len(own)))
    return tuple(sorted(int(place) for place in rng.choice(own, n_hidden, replace=False)))


def _counts(page: Encoding, probabilities: Floats, labels: Sequence[str]) -> tuple[int, int, int]:
    """Entities right, entities true, entities found on a page."""
    assert page.labels is not None
    read = np.flatnonzero(page.labels >= 0)
    true = _spans([labels[index] for index in page.labels[read]])
    found = _spans([labels[index] for index in probabilities[read].argmax(axis=1)])
    return len(true & found), len(true), len(found)


def _spans(tags: Sequence[str]) -> set[Span]:
    """Entities of a BIO sequence as (label, first, after last); an I without its B begins one, as in CoNLL's scorer."""
    spans: set[Span] = set()
    label, start = "", 0
    for place, tag in enumerate([*tags, "O"]):
        kind, _, name = tag.partition("-")
        if label and (kind != "I" or name != label):
            spans.add((label, start, place))
            label = ""
        if kind != "O" and not label:
            label, start = name, place
    return spans


def _f1(totals: Floats) -> Floats:
    right, true, found = totals[:, 0, 0], totals[:, 0, 1], totals[:, 0, 2]
    f1: Floats = 2 * right / np.maximum(true + found, 1)
    return f1
