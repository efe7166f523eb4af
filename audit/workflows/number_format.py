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
from audit.targets.encoders.compiling import COMPILED, WORTH_TOKENS
from audit.targets.encoders.target import EncoderTarget
from audit.targets.opening import Checkpoint
from audit.workflows.defended import wrap_target
from audit.workflows.session import Session
from audit.workflows.workers import AttackWork

N_ANSWERS = 64
"""Answers that are compared in all."""
N_PER_TRIAL = 16
"""Answers of one trial that are compared, at least where it has so many."""
MIN_AGREEMENT = 0.99
COMPILED_ON = "cuda"
"""Device whose encoders are compiled: on a CPU a batch's shape would change its last bits."""
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
    preflight = _Comparison(session, attack, case, trials, progress)
    rounded = session.target.rounded(number_format)
    compared = preflight.compare(rounded)
    if not compared.n_answers:
        # No trial asks the target anything: it is left as it is.
        return session.target, ()
    if not compared.agrees:
        return session.target, (compared.diagnostic,)
    if not _compiling_pays(session, compared, len(trials)):
        return rounded, (compared.diagnostic,)
    compiled = session.target.rounded(COMPILED)
    try:
        compiling = preflight.compare(compiled)
    except Exception:  # noqa: BLE001 (compilers throw whatever they like, and nobody asked for one)
        return rounded, (compared.diagnostic,)
    if not compiling.agrees:
        return rounded, (compared.diagnostic,)
    return compiled, (compiling.diagnostic,)


def _compiling_pays(session: Session, compared: _Compared, n_trials: int) -> bool:
    """Test whether an attack reads so much that a compiled encoder is faster in the end.

    Args:
        session: the scan; a number format that somebody named is not changed.
        compared: the trials that were compared, which tell how much a trial reads.
        n_trials: number of trials of the attack.
    """
    target = session.target
    if session.options.dtype != "auto" or not isinstance(target, EncoderTarget):
        return False
    if target.card.device != COMPILED_ON or target.forward.through_head:
        return False
    return compared.n_tokens / compared.n_trials * n_trials >= WORTH_TOKENS


@dataclass(frozen=True)
class _Compared:
    """How alike a target answers in two number formats.

    Attributes:
        dtype: the coarser format.
        alike: sum of how alike each answer is, in [0, 1].
        n_answers: answers that were compared.
        n_trials: trials that asked for them.
        n_tokens: tokens that the target read for them, in all rows.
    """

    dtype: str
    alike: float
    n_answers: int
    n_trials: int
    n_tokens: int

    @property
    def agrees(self) -> bool:
        """Test whether the coarser format makes no difference."""
        return self.alike / self.n_answers >= MIN_AGREEMENT

    @property
    def diagnostic(self) -> Diagnostic:
        """Return the agreement for the record."""
        meaning = f"share of {self.n_answers} answers that are alike in {self.dtype} and in float32"
        return Diagnostic(f"{self.dtype} agreement", self.alike / self.n_answers, meaning)


@dataclass(frozen=True)
class _Comparison:
    """The first trials of an attack, to be asked of the target in another number format.

    Attributes:
        session: the scan.
        attack: the attack.
        case: the target in float32, and the rest of the case.
        trials: trials of the attack.
        progress: receiver of the progress.
    """

    session: Session
    attack: Attack
    case: Case
    trials: Sequence[Trial]
    progress: Progress

    def compare(self, rounded: Checkpoint) -> _Compared:
        """Ask the first trials of each stratum in both formats."""
        session = self.session
        work = Preflight(
            AttackWork(self.attack, self.case, session.options.seed),
            self.case.target,
            wrap_target(session.defense, rounded),
        )
        dtype = rounded.card.dtype
        self.progress.stage(f"{session.stage_of(self.attack)}: answers in {dtype}", N_ANSWERS)
        compared = _Compared(dtype, 0.0, 0, 0, 0)
        for trial in _in_turn(self.trials):
            ((_, outcome),) = drive(work, [trial], 1)
            compared = _Compared(
                dtype,
                compared.alike + sum(outcome.alike),
                compared.n_answers + len(outcome.alike),
                compared.n_trials + 1,
                compared.n_tokens + outcome.n_tokens,
            )
            self.progress.advance(len(outcome.alike))
            if compared.n_answers >= N_ANSWERS:
                break
        return compared


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
        """Attempt a trial until enough answers are compared; its outcome is a `Likeness`."""
        attempt = self.work.attempt(trial)
        answers = None
        alike: list[float] = []
        n_tokens = 0
        with suppress(StopIteration):
            while len(alike) < N_PER_TRIAL:
                request = attempt.send(answers)
                answers = yield request
                if request.answerer is self.target:
                    coarse = yield Request(self.rounded, request.queries)
                    alike += map(likeness, request.queries, answers, coarse)
                    n_tokens += sum(map(count_tokens, request.queries))
        attempt.close()
        return Likeness(tuple(alike), n_tokens)


@dataclass(frozen=True)
class Likeness:
    """How alike the answers of a trial are in two number formats.

    Attributes:
        alike: of each answer, in [0, 1].
        n_tokens: tokens that the target read for them in one format, in all rows.
    """

    alike: tuple[float, ...]
    n_tokens: int


def count_tokens(query: object) -> int:
    """Count the tokens that an encoder reads for a query: a page once for each candidate."""
    if not isinstance(query, interface.PageQuery):
        return 0
    rows = 1
    if isinstance(query, interface.TrainingLoss):
        rows = len(query.candidates)
    if isinstance(query, interface.CompletionLoss):
        rows = len(query.completions)
    return rows * len(query.page.ids)


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
