"""The outcomes of the memorisation attack as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.arrays import Bools, Floats, Ints
from audit.attacks.measuring import Columns, DocumentColumns
from audit.attacks.questions import AskedQuestion, is_unique, question_of, trained_on
from audit.attacks.removal import ATTEMPTED, PROVEN
from audit.case import Case, SplitModel
from audit.corpus.folding import fold
from audit.engine.interface import Json, Trial


@dataclass(frozen=True, eq=False)
class Results(Columns):
    """What was given in one context; every column has shape (n_questions,).

    Attributes:
        tried: whether the question could be asked in it; elsewhere the other columns hold 0.
        target: 1 where the target gave the answer (E), 0 where not.
        baseline: the share of baselines that gave it (G), in [0, 1].
        target_anls, baseline_anls: similarity to the answer in [0, 1]; that of the baselines averaged.
    """

    tried: Bools
    target: Floats
    baseline: Floats
    target_anls: Floats
    baseline_anls: Floats

    @property
    def gained(self) -> Floats:
        """E - G, averaged over the baselines."""
        return self.target * (1 - self.baseline)

    @property
    def lost(self) -> Floats:
        """G - E, averaged over the baselines."""
        return (1 - self.target) * self.baseline


@dataclass(frozen=True, eq=False)
class QuestionTable(DocumentColumns):
    """One row a question; every column has shape (n_questions,) or (n_questions, ...).

    Attributes:
        asked: the questions.
        status: what became of the answer on the page.
        reason: why the answer can be told from what is left on the page, or "".
        reading: what an OCR made of its places, or "".
        member: whether the page is a member's.
        unique: whether training saw the answer on this page alone.
        pii: classes of personal information.
        cluster: the page.
        results: by context, and of the whole page (`WHOLE`).
        odds: probability that one sample gives the answer, (n_questions, 1 + n_baselines), target first; NaN: unknown.
        inside, outside: share of the split models trained with the page, and without it, that give the answer; NaN
            where there is none of either.
    """

    asked: NDArray[np.object_]
    status: NDArray[np.str_]
    reason: NDArray[np.str_]
    reading: NDArray[np.str_]
    member: Bools
    unique: Bools
    pii: NDArray[np.str_]
    cluster: Ints
    results: dict[str, Results]
    odds: Floats
    inside: Floats
    outside: Floats

    @property
    def proven(self) -> QuestionTable:
        """The questions whose answer is proven to be off the page."""
        return self.where(self.status == PROVEN)

    @property
    def attempted(self) -> QuestionTable:
        """The questions that were asked, proven or not."""
        return self.where(np.isin(self.status, list(ATTEMPTED)))


def build_table(case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], anls_threshold: float) -> QuestionTable:
    """The trials and their outcomes, in the same order, as a table."""
    asked = [question_of(case.corpus, trial) for trial in trials]
    trained = trained_on(case.corpus)
    documents = {document: index for index, document in enumerate(sorted({trial.unit for trial in trials}))}
    n_models = 1 + len(case.references.baselines)
    shares = [_shares(case.references.splits, one, outcome) for one, outcome in zip(asked, outcomes, strict=True)]
    column = np.empty(len(asked), object)
    column[:] = asked
    return QuestionTable(
        asked=column,
        status=np.array([outcome["status"] for outcome in outcomes], np.str_),
        reason=np.array([outcome["reason"] or "" for outcome in outcomes], np.str_),
        reading=np.array([outcome["reading"] or "" for outcome in outcomes], np.str_),
        member=np.array([one.document.split == "member" for one in asked], bool),
        unique=np.array([is_unique(one, trained) for one in asked], bool),
        pii=np.array([one.pii for one in asked], np.str_),
        cluster=np.array([documents[trial.unit] for trial in trials], np.int64),
        results=_results(asked, outcomes, n_models, anls_threshold),
        odds=np.array([outcome.get("odds", [np.nan] * n_models) for outcome in outcomes], float).reshape(-1, n_models),
        inside=np.array([inside for inside, _ in shares], float),
        outside=np.array([outside for _, outside in shares], float),
    )


def discoverable(odds: Floats, n_samples: int, min_probability: float) -> Results:
    """The answers that are (n, p)-discoverable (Hayes et al. 2025), as results of a context.

    Args:
        odds: of one sample, (n_questions, 1 + n_baselines), target first; NaN: not tried.
        n_samples: n.
        min_probability: p: n samples give the answer with this probability or more.
    """
    tried, none = ~np.isnan(odds[:, 0]), np.zeros(len(odds))
    found = np.where(tried[:, None], 1 - (1 - np.nan_to_num(odds)) ** n_samples >= min_probability, 0).astype(float)
    baselines = found[:, 1:].mean(axis=1) if odds.shape[1] > 1 else none
    return Results(tried, found[:, 0], baselines, none, none)


def _results(
    asked: Sequence[AskedQuestion], outcomes: Sequence[Json], n_models: int, anls_threshold: float
) -> dict[str, Results]:
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.get("replies", {}))
    accepted = _on_page(asked, outcomes)
    results = {}
    for name in names:
        exact, anls = np.zeros((2, len(outcomes), n_models))
        tried = np.zeros(len(outcomes), bool)
        for row, outcome in enumerate(outcomes):
            replies = outcome.get("replies", {}).get(name)
            if replies is None:
                continue
            tried[row] = True
            if name == "image_only":
                key = asked[row].document.id, outcome["status"]
                exact[row] = [fold(reply["text"]) in accepted[key] for reply in replies]
            else:
                exact[row] = [reply["exact"] for reply in replies]
                anls[row] = [reply["nls"] for reply in replies]
        near = np.where((anls >= anls_threshold) & tried[:, None], anls, 0.0)
        by_player = [(column[:, 0], column[:, 1:].mean(axis=1)) for column in (exact, near)]
        results[name] = Results(tried, *(column for pair in by_player for column in pair))
    return results


def _on_page(asked: Sequence[AskedQuestion], outcomes: Sequence[Json]) -> Mapping[tuple[str, str], set[str]]:
    """By document and status: the folded answers that are off its page as surely.

    On "image only" each of them counts (appendix D.4): all answers are off that page, and what is gone after one
    removal is gone after several.
    """
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one, outcome in zip(asked, outcomes, strict=True):
        values[one.document.id, outcome["status"]] |= one.values
    return values


def _shares(splits: Sequence[SplitModel], asked: AskedQuestion, outcome: Json) -> tuple[float, float]:
    """In-sample and out-sample extractability of one question (appendix C); NaN where they cannot be had."""
    replies = outcome.get("splits")
    hits: dict[bool, list[bool]] = {True: [], False: []}
    if replies is not None:
        for split, reply in zip(splits, replies, strict=True):
            hits[asked.document.id in split.members].append(reply["exact"])
    if not (hits[True] and hits[False]):
        return float("nan"), float("nan")
    return float(np.mean(hits[True])), float(np.mean(hits[False]))
