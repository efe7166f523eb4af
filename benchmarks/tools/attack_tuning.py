"""Choosing the attack's parameters on a shadow target: T, T_start, w and p (section 5.1, appendix A).

What a candidate is worth depends on the prefix only. So all that the attack would be told after the
true prefixes is asked once, and every setting of a grid is then judged without a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Floats, Ints
from audit.attacks.fields import field_of
from audit.attacks.interface import ask_all
from audit.attacks.measuring import combine, log_likelihood_of_losses, log_softmax
from audit.attacks.reconstruction.attack import Reconstruction
from audit.attacks.reconstruction.cdmi import Proposals
from audit.attacks.reconstruction.methods import nucleus, temperature_at
from audit.case import Case
from audit.engine.driver import LocalEngine
from audit.engine.interface import Attempt, Progress, Trial, Work, WorkSource
from audit.targets.interface import FillMask, TrainingLoss

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Step:
    """One token of a field: what the attack is told when every token before it is the true one.

    Attributes:
        ids: (n_candidates,) the proposed tokens.
        logits: (n_candidates,) the proposer's: the public model's, or the target's own where it is
            a masked language model.
        losses: (n_candidates,) the target's training loss with each of them; None where it proposes
            itself.
        truth: the index of the true token; None when it was not proposed.
    """

    ids: Ints
    logits: Floats
    losses: Floats | None
    truth: int | None


@dataclass(frozen=True, eq=False)
class TaughtField:
    """A field of the shadow target, its tokens left to right; `unit` is its document."""

    unit: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Grid:
    """The settings that are tried: around the ranges of appendix A, wider for what it leaves open (ours)."""

    temperatures: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.6)
    temperature_starts: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0)
    target_weights: tuple[float, ...] = (0.2, 0.3, 0.4, 0.5, 0.6)
    top_ps: tuple[float, ...] = (0.05, 0.10, 0.12, 0.20)

    def around(self, attack: Reconstruction, *, weighs: bool) -> Grid:
        """This grid with the attack's own setting in it.

        Without `weighs` the target's weight is not tried.
        """
        own = attack.target_weight
        return Grid(
            _sorted_with(self.temperatures, attack.temperature),
            _sorted_with(self.temperature_starts, attack.temperature_start),
            _sorted_with(self.target_weights, own) if weighs else (own,),
            _sorted_with(self.top_ps, attack.top_p),
        )

    def settings(self, attack: Reconstruction) -> list[Reconstruction]:
        """The attack with every setting, in the order of `chances`."""
        axes = product(self.temperatures, self.temperature_starts, self.target_weights, self.top_ps)
        return [
            replace(
                attack, temperature=t, temperature_start=start, target_weight=weight, top_p=top_p
            )
            for t, start, weight, top_p in axes
        ]


def _sorted_with(values: tuple[float, ...], own: float) -> tuple[float, ...]:
    """Return the values with one's own among them, sorted, each once."""
    return tuple(sorted({*values, own}))


@dataclass(frozen=True)
class Score:
    """What a setting reaches, in expectation over the attack's own sampling.

    Both numbers in [0, 1].

    Attributes:
        fields: mean over fields of 1 - (1 - pi)^n_a, pi the probability that one attempt samples
            the whole field: the share of fields that one of the n_a attempts gets exactly. Exact,
            not an estimate.
        tokens: mean over fields of the mean probability of the true token after the true prefix: 1
            - HD of one attempt, were its prefixes true.
    """

    fields: float
    tokens: float

    @property
    def objective(self) -> float:
        """The mean of both (ours).

        The first is what several attempts are for: it rewards a hot start, which makes them differ.
        Where whole fields are out of reach it is nearly 0 for every setting and the second one
        decides, which is what one attempt is measured by.
        """
        return (self.fields + self.tokens) / 2


@dataclass(frozen=True)
class Tuned:
    """The best setting and what it is worth.

    Attributes:
        attack: the attack with it.
        defaults: what the attack's own setting reaches on all fields.
        in_sample: what the best one reaches on the fields that chose it; the best of many, so too
            good.
        validated: chosen on four fifths of the documents, judged on the other fifth, over all five
            (ours): what to expect on documents that did not choose it.
        weighed: whether w was tuned.
    """

    attack: Reconstruction
    defaults: Score
    in_sample: Score
    validated: Score
    n_fields: int
    n_documents: int
    weighed: bool


def collect(case: Case, attack: Reconstruction, progress: Progress) -> list[TaughtField]:
    """Collect what the attack learns of every field of the case's member documents, after true prefixes.

    Args:
        case: a shadow target, its members, and (unless it is a masked language model) a public
            model.
        attack: its number of candidates and the lengths of fields it tries.
        progress: advanced for every field.
    """
    trials = [trial for trial in attack.usual_trials(case) if trial.stratum == "member"]
    progress.stage("asking the shadow target, fields", len(trials))
    work = _Teaching(case, attack)
    taught = {}
    for trial_id, found in LocalEngine().run(WorkSource(work, print, lambda _: work), trials):
        taught[trial_id] = found
        progress.advance()
    return [taught[trial.id] for trial in trials]


@dataclass(frozen=True)
class _Teaching(Work):
    case: Case
    attack: Reconstruction

    def attempt(self, trial: Trial) -> Attempt:
        """One field; gives a `TaughtField`."""
        attack = self.attack
        target = self.case.target
        field = field_of(self.case, trial, attack.min_tokens, attack.max_tokens)
        assert field.page is not None
        page = field.scrubbed()
        proposes_itself = FillMask in target.answers
        proposer = target if proposes_itself else self.case.references.auxiliary
        assert proposer is not None
        proposals = Proposals(proposer, page, field.positions, attack.n_candidates)
        truth = tuple(field.page.ids[list(field.positions)].tolist())
        prefixes = [truth[:step] for step in range(len(truth))]
        candidates = yield from proposals.after(prefixes)
        losses: list[Floats | None] = [None] * len(truth)
        if not proposes_itself:
            queries = [
                TrainingLoss(proposals.page_after(prefix), position, found.ids)
                for prefix, position, found in zip(
                    prefixes, field.positions, candidates, strict=True
                )
            ]
            losses = [*(yield from ask_all(target, queries))]
        steps = [
            Step(found.ids, found.logits, loss, _find(found.ids, token))
            for found, loss, token in zip(candidates, losses, truth, strict=True)
        ]
        return TaughtField(trial.cluster, tuple(steps))


def _find(ids: Ints, token: int) -> int | None:
    """Return the place of a token among ids; None where it is missing."""
    found = np.flatnonzero(ids == token)
    return int(found[0]) if len(found) else None


def chances(step: Step, position: int, grid: Grid, attack: Reconstruction) -> Floats:
    """Steps 3 to 6: the probability that the attack samples the true token, for every setting.

    Args:
        step: what it is told.
        position: t, the token's position in its field, from 0.
        grid: the settings.
        attack: which mean it takes.

    Returns:
        Shape (n_settings,), in the order of `Grid.settings`.
    """
    found: list[float] = []
    if step.truth is None:
        return np.zeros(len(grid.settings(attack)))
    for temperature in grid.temperatures:
        log_target = (
            None if step.losses is None else log_likelihood_of_losses(step.losses, temperature)[0]
        )
        for start in grid.temperature_starts:
            log_public = log_softmax(step.logits / temperature_at(position, temperature, start))
            for weight in grid.target_weights:
                log_p = (
                    log_public
                    if log_target is None
                    else combine(log_public, log_target, weight, attack.mean)
                )
                found += _chances_of_truth(np.exp(log_p), step.ids, step.truth, grid.top_ps)
    return np.array(found)


def _chances_of_truth(
    probabilities: Floats, ids: Ints, truth: int, top_ps: Sequence[float]
) -> list[float]:
    """Return the chance of drawing the true token, for each top-p."""
    kept = [nucleus(probabilities, ids, top_p) for top_p in top_ps]
    return [
        float(probabilities[truth] / probabilities[own].sum()) if truth in own else 0.0
        for own in kept
    ]


def tune(
    attack: Reconstruction,
    fields: Sequence[TaughtField],
    rng: Rng,
    progress: Progress,
    grid: Grid | None = None,
) -> Tuned:
    """The setting of the grid with the largest `Score.objective`; the attack's own one wins ties.

    Args:
        attack: what is tuned; its own setting is one of those that are tried.
        fields: at least one, from at least `FOLDS` documents.
        rng: deals the documents into folds.
        progress: advanced for every field.
        grid: None: the default one.

    Raises:
        ValueError: fewer documents than folds.
    """
    weighed = any(step.losses is not None for step in fields[0].steps)
    grid = (grid or Grid()).around(attack, weighs=weighed)
    settings = grid.settings(attack)
    progress.stage(f"weighing {len(settings)} settings, fields", len(fields))
    reached = np.empty((len(fields), len(settings), 2))
    for row, field in enumerate(fields):
        table = np.array(
            [chances(step, position, grid, attack) for position, step in enumerate(field.steps)]
        )
        reached[row, :, 0] = 1 - (1 - table.prod(axis=0)) ** attack.n_attempts
        reached[row, :, 1] = table.mean(axis=0)
        progress.advance()
    own = settings.index(attack)
    best = _best(reached, own)
    return Tuned(
        attack=settings[best],
        defaults=_score(reached[:, own]),
        in_sample=_score(reached[:, best]),
        validated=_cross_validated(reached, own, [field.unit for field in fields], rng),
        n_fields=len(fields),
        n_documents=len({field.unit for field in fields}),
        weighed=weighed,
    )


def _best(reached: Floats, own: int) -> int:
    """The best setting on these fields, shape (n_fields, n_settings, 2)."""
    objective = reached.mean(axis=(0, 2))
    best = int(objective.argmax())
    return (
        best if objective[best] > objective[own] + 1e-12 else own
    )  # rounding is no reason to leave the defaults


def _score(reached: Floats) -> Score:
    """Of (n_fields, 2)."""
    fields, tokens = reached.mean(axis=0)
    return Score(float(fields), float(tokens))


def _cross_validated(reached: Floats, own: int, units: Sequence[str], rng: Rng) -> Score:
    """What settings reach that other documents chose, over all fields."""
    names = sorted(set(units))
    if len(names) < FOLDS:
        raise ValueError(f"{len(names)} documents do not make {FOLDS} folds")
    fold_of = dict(zip(names, rng.permutation(len(names)) % FOLDS, strict=True))
    folds = np.array([fold_of[unit] for unit in units])
    judged = np.empty((len(units), 2))
    for fold in range(FOLDS):
        judged[folds == fold] = reached[folds == fold, _best(reached[folds != fold], own)]
    return _score(judged)
