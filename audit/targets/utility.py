"""Usefulness of a checkpoint at its own task, on documents that it did not train on, to weigh a leak against."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence, Set
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Floats, Ints
from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.folding import fold
from audit.corpus.page_view import page_view
from audit.corpus.tagging import scheme_of
from audit.measurements import ALPHAS, Bound, Estimate, Measurement, Unresolved
from audit.stats.distances import anls
from audit.stats.intervals import Interval, agreement_interval, cluster_sums, proportion
from audit.stats.means import mean
from audit.stats.paired import Ratios
from audit.stats.resampling import bootstrap
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.interface import (
    Answer,
    BestClass,
    BestIntent,
    BestLinks,
    BestTokens,
    TagProbabilities,
    Target,
    TokenTarget,
)

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
    return micro_f1(target, documents, seed)


def utility_by_document(target: TokenTarget, documents: Sequence[Document], seed: int) -> dict[str, Ratios]:
    """Give the sums behind `utility`, or `class_accuracy`, and `intent_accuracy`, by document.

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
        return {CLASS: Ratios(names, _right_classes(target, pages).astype(float), np.ones(len(pages)))}
    measure, _, find = _finder(target)
    counts = _counts(find(target, pages))
    found = {measure: Ratios(names, 2 * counts[:, 0], counts[:, 1] + counts[:, 2])}
    asked = [(name, page) for name, page in named if page.intent is not None]
    if BestIntent in target.answers and asked:
        right = _right_intents(target, [page for _, page in asked]).astype(float)
        found[INTENT] = Ratios([name for name, _ in asked], right, np.ones(len(asked)))
    return found


def sum_by_document(values: npt.ArrayLike, clusters: Ints) -> tuple[Floats, Floats]:
    """The sum and the number of the values of each document, (n_documents,) each; documents are 0, 1, and so on."""
    rows = np.asarray(values, np.float64)
    sums = cluster_sums([rows, np.ones_like(rows)], clusters)
    return sums[:, 0], sums[:, 1]


def _finder(target: TokenTarget) -> tuple[str, str, Finder]:
    """Give the name of a target's F1, the things that it is about, and what finds them."""
    if BestLinks not in target.answers:
        return "entity_f1", "labelled entity", _tagged
    if TagProbabilities in target.answers:
        return "entity_f1", "labelled entity", _extracted
    return "link_f1", "link", _linked


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


def intent_accuracy(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Measure the share of held-out utterances whose intent the model puts first; null: naming the commonest."""
    pages = [page for page in _pages(target, documents, np.random.default_rng(seed)) if page.intent is not None]
    if len(pages) < 2:
        return Unresolved(INTENT, "fewer than two held-out utterances with an intent", len(pages))
    return _share_right(INTENT, "utterances", _right_intents(target, pages), [page.intent for page in pages])


def class_accuracy(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Measure the share of held-out pages whose class the model puts first; null: naming the commonest.

    Pages of a class that the model does not have count as wrong.
    """
    pages = _pages(target, documents, np.random.default_rng(seed))
    if len(pages) < 2:
        return Unresolved(CLASS, "fewer than two held-out documents to measure on", len(pages))
    return _share_right(CLASS, "documents", _right_classes(target, pages), [page.page_class for page in pages])


def _right_intents(target: TokenTarget, pages: Sequence[Encoding]) -> Bools:
    best = target.ask([BestIntent(page) for page in pages])
    return np.array([own == page.intent for own, page in zip(best, pages, strict=True)])


def _right_classes(target: TokenTarget, pages: Sequence[Encoding]) -> Bools:
    best = target.ask([BestClass(page) for page in pages])
    return np.array([own == page.page_class for own, page in zip(best, pages, strict=True)])


def _share_right(name: str, unit: str, hits: Bools, truth: Sequence[int | None]) -> Measurement:
    """The share of pages, one in each cluster, of which the model's best class is the true one."""
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


def micro_f1(target: TokenTarget, documents: Sequence[Document], seed: int) -> Measurement:
    """Measure the micro F1 of whole entities or links on held-out pages; the interval draws pages.

    Entities are the same with the same label and words, links with the same child and parent; null: naming the
    commonest on each page.
    """
    name, thing, find = _finder(target)
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


def _f1(totals: Floats) -> Floats:
    right, true, predicted = totals[:, 0, 0], totals[:, 0, 1], totals[:, 0, 2]
    f1: Floats = 2 * right / np.maximum(true + predicted, 1)
    return f1


ANLS = "anls"
_AT_ONCE = 64
"""Questions asked together, so that few pages are open at a time (ours)."""


def usefulness(target: Target, corpus: Corpus, seed: int) -> tuple[Measurement, ...]:
    """The measures of the target's task on held-out documents.

    See `utility`, with `intent_accuracy` where the model names intents, `class_accuracy` where it classifies pages, and
    `held_out_anls` for questions.
    """
    if Answer in target.answers:
        return (held_out_anls(target, corpus, seed),)
    target_tokens, documents = cast("TokenTarget", target), corpus.of("heldout")
    if BestClass in target.answers:
        return (class_accuracy(target_tokens, documents, seed),)
    own = utility(target_tokens, documents, seed)
    return (own, intent_accuracy(target_tokens, documents, seed)) if BestIntent in target.answers else (own,)


def held_out_anls(target: Target, corpus: Corpus, seed: int) -> Measurement:
    """Mean ANLS on held-out documents' questions; null: giving the members' commonest answer.

    The commonest to the same wording of the question, where members are asked it, else of all.
    """
    rng = np.random.default_rng(seed)
    documents, asked = _asked(corpus, rng)
    if len(documents) < 2:
        return Unresolved(ANLS, "fewer than two held-out documents with questions", len(documents))
    scores = _scores(target, corpus, asked)
    clusters = np.array([number for number, _, _ in asked])
    guesses = _guesses(corpus)
    guessed = [guesses.get(fold(question.question), guesses.get("", "")) for _, _, question in asked]
    null = float(
        np.mean([anls(guess, question.answers) for guess, (_, _, question) in zip(guessed, asked, strict=True)])
    )
    unit = "fields" if corpus.manifest.task.kind == "parsing" else "questions"
    return estimate(ANLS, mean(scores, clusters, rng, alphas=ALPHAS), unit, null, "chance")


def usefulness_by_document(target: Target, corpus: Corpus, seed: int) -> dict[str, Ratios]:
    """The sums behind `usefulness` by held-out document, so that two models can be compared as pairs.

    The seed is the same as there.
    """
    if Answer not in target.answers:
        return utility_by_document(cast("TokenTarget", target), corpus.of("heldout"), seed)
    documents, asked = _asked(corpus, np.random.default_rng(seed))
    if not asked:
        return {}
    clusters = np.array([number for number, _, _ in asked])
    sums = sum_by_document(_scores(target, corpus, asked), clusters)
    return {ANLS: Ratios([document.id for document in documents], *sums)}


def _asked(corpus: Corpus, rng: np.random.Generator) -> tuple[list[Document], list[tuple[int, Document, Question]]]:
    """Held-out documents with questions, no more than are measured, and each question with its document's place."""
    documents = [document for document in corpus.of("heldout") if document.questions]
    if len(documents) > MAX_DOCUMENTS:
        documents = [documents[index] for index in sorted(rng.permutation(len(documents))[:MAX_DOCUMENTS])]
    asked = [
        (number, document, question) for number, document in enumerate(documents) for question in document.questions
    ]
    return documents, asked


def _scores(target: Target, corpus: Corpus, asked: Sequence[tuple[int, Document, Question]]) -> Floats:
    """ANLS of every question, (n_questions,)."""
    replies: list[str] = []
    for start in range(0, len(asked), _AT_ONCE):
        queries = [
            Answer(page_view(corpus, document), question.question)
            for _, document, question in asked[start : start + _AT_ONCE]
        ]
        replies += [reply.text for reply in target.ask(queries)]
    return np.array([anls(reply, question.answers) for reply, (_, _, question) in zip(replies, asked, strict=True)])


def _guesses(corpus: Corpus) -> dict[str, str]:
    """The answer that members' questions of each wording have most often, and under "" that of all of them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for document in corpus.of("member"):
        for question in document.questions:
            if question.answers:
                counts[fold(question.question)][question.answers[0]] += 1
                counts[""][question.answers[0]] += 1
    return {wording: own.most_common(1)[0][0] for wording, own in counts.items()}
