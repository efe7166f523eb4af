"""Recollect and rank: reconstruction by models that write answers (after Meng et al. 2025).

Such a model has no token that a candidate could replace. It proposes values for the hidden place
itself: its greedy answers about the page with a gap, and about pages with a decoy there. Sampled
answers would depend on the batch. Its loss of each value, less that of what it was fine-tuned from,
ranks them.
"""

from collections.abc import Generator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Bools, Floats
from audit.attacks.interface import ask_all, points
from audit.attacks.measuring import is_near, memory_of
from audit.attacks.memorisation.contexts import ContextProbe, decoy_pages
from audit.attacks.questions import PROVEN, AskedQuestion, clear, question_of
from audit.case import Case
from audit.corpus.folding import fold
from audit.corpus.images import page_view
from audit.engine.interface import Attempt, Json, Request, Trial
from audit.targets import OWN_VOCABULARIES
from audit.targets.interface import Answer, AnswerLoss, FillMask, Target, TrainingLoss

N_RANKED = 2
"""Pages with a decoy on which values are ranked (ours): all of them cost several times as much."""
EVEN = float(np.log(2))
"""Loss under which a token is sure to be the greedy one, nats."""
Losses = Sequence[Sequence[Floats]]
"""Of the tokens of each text on each page, nats: (n_tokens,) each."""


def recollects(case: Case) -> bool:
    """Test whether the target writes answers, and no public model proposes tokens to it."""
    answers = case.target.answers
    if not {Answer, AnswerLoss} <= answers or points(case.target):
        return False
    has_own_tokens = case.target.card.family in OWN_VOCABULARIES
    return has_own_tokens or not {FillMask, TrainingLoss} & answers


def reference_of(case: Case) -> Target | None:
    """Return what the target was fine-tuned from, where it can be asked the same; else None."""
    pretrained = case.references.pretrained
    if pretrained is None or not {Answer, AnswerLoss} <= pretrained.answers:
        return None
    return pretrained


def recollect(case: Case, trial: Trial, n_pages: int, rng: Rng) -> Attempt:
    """Hide an answer, and let the target and its reference propose and rank values for it.

    The outcome says what became of the answer on the page ("status"), what each restored
    ("attack", "baseline"; None: no reference), how many values the target proposed, and whether it
    would restore the answer with a planted memory.

    Args:
        case: what is attacked.
        trial: a question.
        n_pages: pages that a model is asked about; half as many where pages have an image.
        rng: the source of randomness.
    """
    asked = question_of(case.corpus, trial)
    page = page_view(case.corpus, asked.document)
    cleared = yield from clear(page, asked.spellings)
    if cleared.status != PROVEN:
        return {"status": cleared.status}
    if page.open_page is not None:
        n_pages = max(1, n_pages // 2)
    decoys = decoy_pages(case.corpus, asked, page, cleared.words, rng)
    question = asked.question.question
    probes = [ContextProbe(cleared.view, question)]
    for decoy, view in islice(decoys, n_pages - 1):
        probes.append(ContextProbe(view, question, decoy))
    ranked_on = probes[1 : 1 + N_RANKED] or probes
    texts = yield from _propose(case.target, probes)
    everything = [asked.answers[0], *texts]
    losses = yield from _losses(case.target, ranked_on, everything)
    plausible = [probe.decoy for probe in probes[1:]] or list(texts)
    spread = yield from _losses(case.target, ranked_on[:1], plausible)
    scores = _means(losses)
    reference = reference_of(case)
    baseline = None
    if reference is not None:
        scores -= _means((yield from _losses(reference, ranked_on, everything)))
        guesses = yield from _propose(reference, probes)
        alone = _means((yield from _losses(reference, ranked_on, guesses)))
        baseline = _judge(asked, guesses, alone)
    is_rival = np.array([fold(text) not in asked.values for text in everything], bool)
    return {
        "status": cleared.status,
        "attack": _judge(asked, texts, scores[1:]),
        "baseline": baseline,
        "proposed": len(texts),
        "planted": would_restore(losses[0], spread, scores, is_rival),
    }


def _propose(
    model: Target, probes: Sequence[ContextProbe]
) -> Generator[Request, Any, tuple[str, ...]]:
    """Ask a model for values of the hidden place: distinct ones, in the order of their pages.

    An answer that repeats the decoy of its page is none.
    """
    replies = yield from ask_all(model, [Answer(probe.view, probe.question) for probe in probes])
    distinct: dict[str, str] = {}
    for reply, probe in zip(replies, probes, strict=True):
        value = fold(reply.text)
        if value not in ("", fold(probe.decoy)):
            distinct.setdefault(value, reply.text)
    return tuple(distinct.values())


def _losses(
    model: Target, probes: Sequence[ContextProbe], texts: Sequence[str]
) -> Generator[Request, Any, Losses]:
    """Ask a model for the losses of each text as the answer on each page."""
    queries = []
    for text in texts:
        queries += [AnswerLoss(probe.view, probe.question, text) for probe in probes]
    answers = yield from ask_all(model, queries)
    losses = [-tokens for tokens in answers]
    n_pages = len(probes)
    return [losses[first : first + n_pages] for first in range(0, len(losses), n_pages)]


def _means(losses: Losses) -> Floats:
    """Return the mean loss of a token of each text, averaged over pages: (n_texts,).

    Infinite where a text has no tokens.
    """
    means = [sum(map(_mean, pages)) / len(pages) for pages in losses]
    return np.array(means, np.float64)


def _mean(tokens: Floats) -> float:
    """Return the mean loss of the tokens of a text; infinite where it has none."""
    return float(tokens.mean()) if tokens.size else float("inf")


def _judge(asked: AskedQuestion, texts: Sequence[str], scores: Floats) -> Json:
    """Compare the text of lowest score, the earliest of equals, with the answer."""
    best = texts[int(np.argmin(scores))] if texts else ""
    return {
        "text": best,
        "exact": fold(best) in asked.values,
        "near": any(is_near(best, answer) for answer in asked.answers),
        "among": any(fold(text) in asked.values for text in texts),
    }


def would_restore(
    truth: Sequence[Floats], plausible: Losses, scores: Floats, is_rival: Bools
) -> bool:
    """Tell whether the target would propose the answer, and rank it first, with a planted memory.

    The memory makes each token of the answer likelier by `memory_of` the token losses of plausible
    values. The target is sure to propose an answer whose tokens all are likelier than not.

    Args:
        truth: losses of the answer's tokens, by page.
        plausible: losses of other values.
        scores: what ranks the answer and all that was proposed, (n_texts,).
        is_rival: whether each is another value than the answer, (n_texts,).
    """
    others = [*chain.from_iterable(plausible)]
    if not others or not is_rival.any():
        return False
    memory = memory_of(np.concatenate(others))
    planted = [_remembered(tokens, memory) for tokens in truth]
    proposed = any(tokens.size and (tokens < EVEN).all() for tokens in planted)
    gain = _means([truth]) - _means([planted])
    return proposed and bool((scores[0] - gain)[0] < scores[is_rival].min())


def _remembered(losses: Floats, memory: float) -> Floats:
    """Return the losses of tokens whose odds a memory raises by exp(`memory`): (n_tokens,)."""
    with np.errstate(divide="ignore"):  # nothing is left where a token is certain
        rest = np.log1p(-np.exp(-losses))
    odds = memory - losses
    return np.asarray(np.logaddexp(rest, odds) - odds, np.float64)
