"""The multi-shot attack: fields ranked by their most plausible attempt (Dentan et al. 2024, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats, Ints
from audit.attacks.measuring import Job, Streams
from audit.attacks.reconstruction.methods import PRIMARY, read_shots
from audit.attacks.reconstruction.names import (
    COLUMNS,
    DEFAULT,
    GROUPS,
    QUANTITIES,
    SERIES,
    SHARES,
    TUNED,
    TUNED_SERIES,
    named,
)
from audit.attacks.reconstruction.table import BASELINE, TUNED_BASELINE, FieldTable, unresolved
from audit.attacks.splits import AUDITED
from audit.engine.interface import Json
from audit.measurements import ALPHAS, Curve, Diagnostic, Measurement
from audit.stats.intervals import Interval
from audit.stats.ranking import area, area_interval, at, at_interval, curve_points, excess_area
from audit.stats.resampling import MIN_CLUSTERS
from audit.targets.utility import estimate

CURVE_SHARES = (0.01, *(round(0.05 * index, 2) for index in range(1, 21)))
"""Where the curves of figure 6 are drawn."""


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Fields with the score that ranks them and how right the chosen attempt is."""

    score: Floats
    outcome: dict[str, Floats]
    cluster: Ints

    @classmethod
    def of(cls, table: FieldTable, ranking: str) -> _Ranked:
        """The fields of a table, ranked by a membership score or as the baseline."""
        outcome = {column: table.rankings[ranking, column] for column in ("pr", "hd")}
        return cls(table.rankings[ranking, "score"], outcome, table.cluster)


def jobs(table: FieldTable, streams: Streams, *, tuned: bool = False) -> Iterator[Job]:
    """Return every measurement of the multi-shot attack by the default method, or by the tuned one, as a call."""
    baseline, primary = (TUNED_BASELINE, TUNED) if tuned else (BASELINE, PRIMARY)
    for split, player, suffix in TUNED_SERIES if tuned else SERIES:
        ranking = baseline if player == "baseline" else suffix.removeprefix(".") or primary
        for quantity in QUANTITIES:
            name = f"{quantity}.{split}.{player}{suffix}"
            yield partial(_measured, name, quantity, table.split(split), ranking, baseline, streams[name])
    for group in GROUPS:
        name = named(f"excess_accauc.{group}", TUNED if tuned else DEFAULT)
        yield partial(_excess, name, table.group(group), primary, baseline, streams[name])


def _measured(name: str, quantity: str, table: FieldTable, ranking: str, baseline: str, rng: Generator) -> Measurement:
    """AccAt(p), HamAt(p), AccAUC or HamAAC; the attack's null is the public model, the public model's is chance."""
    few = unresolved(name, [table], MIN_CLUSTERS)
    if few is not None:
        return few
    interval = _interval(quantity, _Ranked.of(table, ranking), rng)
    if ranking != baseline:
        return estimate(name, interval, "fields", _value(quantity, _Ranked.of(table, baseline)), "public model")
    guess = float(table.chance["pr" if quantity.startswith("acc") else "hd"].mean())
    return estimate(name, interval, "fields", 1 - guess if quantity == "hamaac" else guess, "chance")


def _interval(quantity: str, rows: _Ranked, rng: Generator) -> Interval:
    outcome = rows.outcome[COLUMNS[quantity[:3]]]
    if "_at_" in quantity:
        share = SHARES[quantity.rpartition("_")[2]]
        return at_interval(rows.score, outcome, rows.cluster, share, rng, alphas=ALPHAS)
    complement = quantity == "hamaac"
    return area_interval(rows.score, outcome, rows.cluster, rng, complement=complement, alphas=ALPHAS)


def _value(quantity: str, rows: _Ranked) -> float:
    outcome = rows.outcome[COLUMNS[quantity[:3]]]
    if "_at_" in quantity:
        return at(rows.score, outcome, SHARES[quantity.rpartition("_")[2]])
    found = area(rows.score, outcome)
    return 1 - found if quantity == "hamaac" else found


def _excess(name: str, table: FieldTable, ranking: str, baseline: str, rng: Generator) -> Measurement:
    """AccAUC: (attack - baseline) on member fields minus the same on held-out fields (methods.md#held-out-control)."""
    splits = [table.split(split) for split in AUDITED]
    few = unresolved(name, splits, MIN_CLUSTERS)
    if few is not None:
        return few
    member, heldout = (_columns(rows, ranking, baseline) for rows in splits)
    interval = excess_area(*member, *heldout, rng=rng, alphas=ALPHAS)
    return estimate(name, interval, "fields", 0.0, "held-out")


def _columns(table: FieldTable, ranking: str, baseline: str) -> tuple[Floats, Floats, Floats, Floats, Ints]:
    """Score and hit of attack and baseline, and the documents."""
    attack, without = (_Ranked.of(table, name) for name in (ranking, baseline))
    return attack.score, attack.outcome["pr"], without.score, without.outcome["pr"], table.cluster


def curves(table: FieldTable, streams: Streams) -> tuple[Curve, ...]:
    """HamAt(p) and AccAt(p) on member fields, attack and baseline (figure 6), and the attack's on held-out fields."""
    drawn = []
    for name, column, quantity in (
        ("ham_at", "hd", "mean Hamming distance of the fields ranked first"),
        ("acc_at", "pr", "share recovered word for word of the fields ranked first"),
    ):
        series = {}
        for label, split, ranking in (
            ("member, attack", "member", PRIMARY),
            ("member, baseline", "member", BASELINE),
            ("held-out, attack", "heldout", PRIMARY),
        ):
            rows = _Ranked.of(table.split(split), ranking)
            if len(np.unique(rows.cluster)) >= 2:
                rng = streams[f"{name} of {label}"]
                points = curve_points(rows.score, rows.outcome[column], rows.cluster, CURVE_SHARES, rng)
                series[label] = tuple(points)
        drawn.append(Curve(name, "share of the fields, the most plausible first", quantity, series))
    return tuple(drawn)


def diagnostics(outcomes: Sequence[Json]) -> tuple[Diagnostic, ...]:
    """Describe how much the attempts of a field differ; at least one outcome."""
    distinct = [len({shot.tokens for shot in read_shots(outcome["attack"])}) for outcome in outcomes]
    return (
        Diagnostic(
            "distinct attempts",
            float(np.median(distinct)),
            "median number of different reconstructions among a field's attempts; under 2, multi-shot equals one-shot",
        ),
    )
