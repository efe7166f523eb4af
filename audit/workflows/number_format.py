"""Number format of the audited encoder: a coarser one where an attack gets the same answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from audit.attacks.interface import Attack
from audit.case import Case
from audit.corpus.folding import fold
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Progress, Request, Trial, Work
from audit.measurements import Diagnostic
from audit.targets import interface
from audit.targets.opening import Checkpoint
from audit.workflows.defended import wrap_target
from audit.workflows.session import Session
from audit.workflows.workers import AttackWork

N_ANSWERS = 64
"""Answers that are compared in all."""
N_PER_TRIAL = 16
"""Answers of one trial that are compared, at least where it has so many."""
MIN_AGREEMENT = 0.99
ALIKE = 0.01
"""Share, or nats, by which two losses may differ: those of a model that knows anything do by far
more."""


def wanted_format(session: Session) -> str:
    """Return the number format to use: the one of `--dtype`, else the usual one of the device."""
    if session.options.dtype != "auto":
        return session.options.dtype
    return "bfloat16" if session.target.card.device == "cuda" else "float32"


def choose_number_format(
    session: Session, attack: Attack, case: Case, trials: Sequence[Trial], progress: Progress
) -> tuple[Checkpoint, tuple[Diagnostic, ...]]:
    """Return the target in the number format that is asked for, if that makes no difference.

    How alike the answers are comes with it. The first trials of each stratum are attempted, and
    what they ask the target is asked in both formats: the losses of remembered pages are the
    smallest, so members must be among them. Under `MIN_AGREEMENT` the encoder stays in float32
    (methods/reconstruction.md).
    """
    number_format = wanted_format(session)
    if number_format == "float32" or session.target.card.dtype != "float32":
        # The weights of a large model are in bfloat16 as they are: there is nothing to compare that
        # with.
        return session.target, getattr(session.target, "diagnostics", ())
    rounded = session.target.rounded(number_format)
    work = Preflight(
        AttackWork(attack, case, session.options.seed),
        case.target,
        wrap_target(session.defense, rounded),
    )
    progress.stage(f"{session.stage_of(attack)}: answers in {number_format}", N_ANSWERS)
    total = 0.0
    n_answers = 0
    for trial in _in_turn(trials):
        ((_, likenesses),) = drive(work, [trial], 1)
        total += sum(likenesses)
        n_answers += len(likenesses)
        progress.advance(len(likenesses))
        if n_answers >= N_ANSWERS:
            break
    if not n_answers:
        # No trial asks the target anything: it is left as it is.
        return session.target, ()
    meaning = f"share of {n_answers} answers that are alike in {number_format} and in float32"
    agreement = Diagnostic(f"{number_format} agreement", total / n_answers, meaning)
    if agreement.value >= MIN_AGREEMENT:
        return rounded, (agreement,)
    return session.target, (agreement,)


def _in_turn(trials: Sequence[Trial]) -> Iterator[Trial]:
    """Yield the first trial of each stratum, then the second of each, and so on."""
    strata: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        strata[trial.stratum].append(trial)
    for row in zip_longest(*strata.values()):
        for trial in row:
            if trial is not None:
                yield trial


@dataclass(frozen=True)
class Preflight(Work):
    """Trials that ask the same of the target in a coarser number format too.

    Attributes:
        work: the trials.
        target: target that they ask.
        rounded: the same target in the coarser format.
    """

    work: Work
    target: interface.Target
    rounded: interface.Target

    def attempt(self, trial: Trial) -> Attempt:
        """Attempt a trial until enough answers are compared.

        Its outcome is how alike each of them is, in [0, 1].
        """
        attempt = self.work.attempt(trial)
        answers = None
        alike: list[float] = []
        with suppress(StopIteration):
            while len(alike) < N_PER_TRIAL:
                request = attempt.send(answers)
                answers = yield request
                if request.answerer is self.target:
                    coarse = yield Request(self.rounded, request.queries)
                    alike += map(likeness, request.queries, answers, coarse)
        attempt.close()
        return alike


def likeness(query: object, exact: Any, coarse: Any) -> float:
    """Return how alike the answers in two number formats are, in [0, 1].

    Replies and best tokens are alike or not; of tags it is the share of tokens. Losses must be
    within `ALIKE`; where candidates are compared, the best one must be within `ALIKE` of the median
    loss from the best in the other format.
    """
    if isinstance(exact, interface.Reply):
        return float(fold(exact.text) == fold(coarse.text))
    if isinstance(exact, interface.Candidates):
        return float(exact.ids[0] == coarse.ids[0])
    if isinstance(exact, interface.Relaxed):
        return _losses_agree(exact.loss, coarse.loss)
    if isinstance(query, interface.AnswerLoss | interface.MaskedLoss):
        return _losses_agree(np.mean(exact), np.mean(coarse))
    if isinstance(query, interface.TagProbabilities):
        return float((exact.argmax(axis=1) == coarse.argmax(axis=1)).mean())
    if isinstance(query, interface.CandidateLogits):
        return float(exact.argmax() == coarse.argmax())
    if not np.issubdtype(np.asarray(exact).dtype, np.floating):
        return float(np.mean(exact == coarse))
    if np.size(exact) == 1:
        return _losses_agree(exact, coarse)
    return float(coarse[exact.argmin()] <= coarse.min() + ALIKE * np.median(coarse))


def _losses_agree(exact: npt.ArrayLike, coarse: npt.ArrayLike) -> float:
    """Return 1 where all losses agree within the tolerance of `ALIKE`, else 0."""
    exact_losses = np.asarray(exact, np.float64)
    coarse_losses = np.asarray(coarse, np.float64)
    tolerance = ALIKE * np.maximum(1.0, np.abs(exact_losses))
    return float((np.abs(exact_losses - coarse_losses) <= tolerance).all())
