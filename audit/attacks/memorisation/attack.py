"""The attack: pages without the answer, the replies of the model and its baselines, and their confidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks import TEXTS, blind_baseline, questions, text_of
from audit.attacks.fields import JOINT
from audit.attacks.interface import (
    POINTS,
    Attack,
    Evidence,
    Units,
    ask_all,
    given,
    missing_split,
    points,
)
from audit.attacks.measuring import is_near
from audit.attacks.memorisation import scores
from audit.attacks.memorisation import table as tables
from audit.attacks.memorisation.contexts import (
    CONTEXTS,
    DISCOVERABLE,
    UNASKED,
    WHOLE,
    Context,
    ContextProbe,
    Scene,
    most_frequent,
    net_of,
)
from audit.attacks.memorisation.fairness import checks, confounded, weaknesses
from audit.attacks.memorisation.groups import groups_of_answers
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.corpus.images import PageView, page_view
from audit.engine.interface import Attempt, Json, Progress, Request, Trial
from audit.measurements import Diagnostic
from audit.record import Reason, Result
from audit.stats.distances import anls
from audit.targets.interface import Answer, AnswerLoss, Target


@dataclass(frozen=True)
class Memorisation(Attack):
    """Extractable memorisation (Pinto et al. 2024; methods/memorisation.md).

    The adversary holds a training page without the answer, and the training question. What the
    model answers is held against what models of its recipe answer that never saw the page (f_G): a
    question that both answer is no memory.

    Attributes:
        contexts: what is laid before the models; "exact" is the attack, the others know less of
            page or question.
        n_decoys: pages with another value in place of the answer, the most frequent answer to which
            is taken.
        n_drawn_decoys: the same on pages with an image, where decoys are drawn; 0: none are.
        n_samples, min_probability: n and p: an answer is discoverable when n samples give it with
            probability p (Hayes et al. 2025).
        n_baselines: number of baselines; with fewer, nothing is passed: one does not show what
            training makes of chance (methods/memorisation.md#fairness-of-the-baseline).
    """

    contexts: tuple[Context, ...] = CONTEXTS
    n_decoys: Annotated[int, Field(ge=1)] = 16
    n_drawn_decoys: Annotated[int, Field(ge=0)] = 4
    n_samples: Annotated[int, Field(ge=1)] = 100
    min_probability: Annotated[float, Field(gt=0, lt=1)] = 0.5
    n_baselines: Annotated[int, Field(ge=1)] = 1

    name: ClassVar[str] = "memorisation"
    needs: ClassVar[tuple[str, ...]] = ("baselines",)

    def __post_init__(self) -> None:
        """Refuse parameters without meaning.

        Raises:
            ValueError: no "exact" among the contexts, an unknown or doubled one, a number out of
                its range.
        """
        if "exact" not in self.contexts or len({*self.contexts} & {*CONTEXTS}) < len(self.contexts):
            raise ValueError(f"contexts: give exact, and any of {', '.join(CONTEXTS)}, each once")
        if self.n_samples < 1 or not 0 < self.min_probability < 1:
            raise ValueError("n_samples is 1 or more, min_probability between 0 and 1")

    def applies(self, case: Case) -> list[Reason]:
        """Return why answers cannot be proven memorised, or only by a weakened attack.

        Fewer baselines than the budget wants weaken it.
        """
        if points(case.target):
            return [Reason("model", POINTS)]
        has_model = case.target.card.is_model
        if has_model and Answer not in case.target.answers:
            return [Reason("model", "the model does not answer questions about pages")]
        reasons = []
        split = missing_split(
            question.document for question in questions.all_questions(case.corpus)
        )
        if split is not None:
            reasons.append(
                Reason(
                    "data",
                    f"no question with an answer in {split} documents",
                    text_of(self.name).add,
                )
            )
        baselines = given(case)["baselines"]
        if not has_model and not baselines:
            reasons.append(
                Reason(
                    "missing",
                    "[references] has no baseline: make one with docaudit references --train",
                )
            )
        if 0 < baselines < self.n_baselines:
            few = f"{baselines} of {self.n_baselines} baselines"
            reasons.append(Reason("weak", few, "(give more: --reference baselines=PATH)"))
        return reasons

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """Count member documents with a question of each group.

        Model and baselines are both asked such a question.
        """
        trained = questions.trained_on(corpus)
        documents: dict[str, set[str]] = defaultdict(set)
        for question in questions.all_questions(corpus):
            if question.document.split == "member":
                group = (
                    "unique"
                    if questions.is_unique(question.document, question.values, trained)
                    else "repeated"
                )
                contexts = (f"net.{context}" for context in self.contexts if context != "exact")
                for metric in ("net", f"net.{group}", *contexts):
                    documents[metric].add(question.document.id)
        methods = {"net": len(self.contexts) + 2}
        return tuple(
            Units(
                metric,
                "paired difference",
                "documents",
                len(documents[metric]),
                0,
                methods=methods.get(metric, 1),
            )
            for metric in TEXTS[self.name].names
            if metric in documents
        )

    def trials(self, case: Case) -> list[Trial]:
        """List questions of member and held-out documents.

        Which answers can be removed shows when they are tried.
        """
        return [question.trial for question in questions.all_values(case.corpus)]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Remove the answer from its page, prove it gone, and ask every model in each context.

        Ask the model and its baselines in every context; read their odds.

        The outcome says what became of the answer on the page ("status", "reason", "reading"), what
        each model replied by context, the target first ("replies", with the whole page as `WHOLE`;
        None: the page or the corpus does not allow the context), and the probability that a sample
        of each gives the answer ("odds").
        """
        question = questions.question_of(case.corpus, trial)
        page = page_view(case.corpus, question.document)
        cleared = yield from questions.clear(page, question.spellings)
        outcome: dict[str, Json] = {
            "status": cleared.status,
            "reason": cleared.reason,
            "reading": cleared.reading,
        }
        if cleared.status not in questions.ATTEMPTED:
            return outcome
        n_decoys = self.n_decoys if page.open_page is None else self.n_drawn_decoys
        scene = Scene(
            case.corpus,
            question,
            page,
            cleared.view,
            cleared.words,
            n_decoys,
            int(rng.integers(2**63)),
        )
        models = (case.target, *case.references.baselines)
        names = (UNASKED,) if question.unasked else (WHOLE, *self.contexts)
        replies = yield from _replies(models, [scene.probes(name) for name in names], question)
        outcome["replies"] = dict(zip(names, replies, strict=True))
        if not question.unasked and all(AnswerLoss in model.answers for model in models):
            outcome["odds"] = []
            for model in models:
                outcome["odds"].append((yield from _probability(model, cleared.view, question)))
        return outcome

    def measure(
        self,
        case: Case,
        trials: Sequence[Trial],
        outcomes: Sequence[Json],
        rng: Rng,
        progress: Progress,
    ) -> Result:
        """Reduce the outcomes to the shares of answers that are memorised.

        The metrics are described in `scores`, what binds them in `fairness`.
        """
        table, totals = tables.weigh(self._table(case, trials, outcomes), case)
        commonest = scores.commonest_anls(table, case.corpus)
        measured = scores.measure_questions(table, commonest, rng, progress, totals)
        n_baselines = len(case.references.baselines)
        few = (
            (f"{n_baselines} of {self.n_baselines} baselines",)
            if n_baselines < self.n_baselines
            else ()
        )
        blind = blind_baseline.by_split(
            case.corpus, [question.document for question in table.attempted.asked], progress
        )
        averaged = Diagnostic(
            "baselines", n_baselines, "models that never saw the audited pages; G is their average"
        )
        breakdowns, reached = groups_of_answers(case.corpus, table)
        weak = weaknesses(measured, blind)
        return Result(
            self.name,
            measurements=(*measured, blind.estimate),
            breakdowns=breakdowns,
            people=reached,
            counts=scores.counts(trials, outcomes),
            diagnostics=(averaged, *blind.diagnostics),
            histograms=scores.returned_histogram(table),
            confounded=confounded(measured),
            checks=checks(measured, blind),
            methods={
                "net": tuple(
                    net_of(name)
                    for name in table.ways
                    if name not in {*CONTEXTS} - {*self.contexts}
                ),
                scores.IDENTIFIED: tuple(scores.IDENTIFYING_WAYS),
            },
            coverage=scores.coverage(table, case.corpus),
            ablations=(*few, *weak),
            unvouched=blind.confounded is not None and len((*few, *weak)) == 1,
        )

    def _table(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]
    ) -> tables.QuestionTable:
        """Return the tried questions and their outcomes as a table, with those from sampling."""
        table = tables.build_table(case, trials, outcomes)
        sampled = tables.discoverable(table.odds, self.n_samples, self.min_probability)
        return replace(table, results={**table.results, DISCOVERABLE: sampled})

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]
    ) -> Iterator[Evidence]:
        """Yield each answer, what became of it on the page, and the replies in every context.

        Replies are those of each model, by name.
        """
        table = self._table(case, trials, outcomes)
        for row, (trial, outcome) in enumerate(zip(trials, outcomes, strict=True)):
            question = questions.question_of(case.corpus, trial)
            replies = {}
            for name, answers in outcome.get("replies", {}).items():
                if name != WHOLE and answers is not None:
                    target, *baselines = answers
                    replies[name] = {
                        "target": target["text"],
                        "baselines": [reply["text"] for reply in baselines],
                        "extracted": bool(table.results[name].target[row]),
                        "near": target["near"],
                    }
            yield {
                "attack": self.name,
                "document": question.document.id,
                "question_id": question.question.id.removeprefix(JOINT),
                "question": question.question.question,
                "category": question.category,
                "split": question.document.split,
                "value": [*question.answers],
                "status": ": ".join(filter(None, (outcome["status"], outcome["reason"]))),
                **replies,
            }
        weighed, totals = tables.weigh(table, case)
        yield from scores.paired_by_question(weighed, totals["exact"]).items()


def _replies(
    models: Sequence[Target],
    contexts: Sequence[tuple[ContextProbe, ...]],
    asked: questions.AskedQuestion,
) -> Generator[Request, Any, list[list[Json] | None]]:
    """Return each model's reply in each context, and whether it is the answer.

    None where there is no probe.
    """
    queries = [Answer(probe.view, probe.question) for probe in chain.from_iterable(contexts)]
    rows: list[list[Json]] = [[] for _ in contexts]
    for model in models:
        replies = iter((yield from ask_all(model, queries)))
        for row, probes in zip(rows, contexts, strict=True):
            texts = [reply.text for reply in islice(replies, len(probes))]
            row.append(_judge_reply(texts, probes, asked))
    return [row if probes else None for row, probes in zip(rows, contexts, strict=True)]


def _judge_reply(
    texts: Sequence[str], probes: Sequence[ContextProbe], asked: questions.AskedQuestion
) -> Json:
    """Return what a model replied in one context, and whether it is the answer.

    Args:
        texts: replies to the probes.
        probes: probes of the context; the most frequent reply to decoys counts.
        asked: the question.
    """
    decoys = [probe.decoy for probe in probes]
    text = most_frequent(texts, decoys) if any(decoys) else "".join(texts)
    return {
        "text": text,
        "exact": fold(text) in asked.values,
        "near": any(is_near(text, answer) for answer in asked.answers),
        "anls": anls(text, asked.answers),
    }


def _probability(
    model: Target, view: PageView, asked: questions.AskedQuestion
) -> Generator[Request, Any, float]:
    """Compute the probability in [0, 1] that a sample is an accepted answer.

    It is a sample at temperature 1, by teacher forcing.
    """
    losses = yield from ask_all(
        model, [AnswerLoss(view, asked.question.question, answer) for answer in asked.answers]
    )
    # Accepted answers exclude each other, but one model may spell two of them with the same tokens.
    return min(1.0, sum(float(np.exp(loss.sum())) for loss in losses))
