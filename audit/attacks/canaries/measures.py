"""Outcomes of canaries in columns, and what is measured on them.

Extraction and exposure (methods/canaries.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import ConfigDict, TypeAdapter

from audit.arrays import Bools, Floats
from audit.attacks.measuring import Columns, Streams
from audit.corpus.canaries.schema import PATTERNS, Canary
from audit.engine.interface import Json
from audit.measurements import ALPHAS, STRICT, Bound, Estimate, Histogram, Measurement, Unresolved
from audit.stats import rates
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval, proportion
from audit.stats.likelihood_ratio import chance_exposure
from audit.stats.paired import UnitScores
from audit.stats.resampling import widen_to_welch

UNIT = "canaries"
POWER = "most_bits"
NEEDED_CANARIES = 32
"""Of a side: with as many put in as left out, none of which comes out, the excess is shown to be
under 0.16."""
NONE_IN = "no planted canary could be asked"
NONE_OUT = "no unplanted canary could be asked: there is no control"
ALONE = "one canary of a side does not show how canaries differ"
COUNTED = "counted, not estimated: the smallest exposure of first place over the ranked canaries"
NO_REFERENCES = "no other completion is left to rank the canaries"
TRIES = 3
"""Ranks that count as early: what a keypad allows before it locks."""
REASONS = ("split", "unknown", "unread", "alike", "single", "no finite loss")
"""Why a canary cannot be asked for; `text.toml` says what each means."""


@dataclass(frozen=True)
class Ranked:
    """Hold the rank of the true completion among the references behind the same prefix.

    Attributes:
        rank: 1 + the references that are at least as likely.
        ties: references that are exactly as likely.
        n_references: without the completions of the other canaries of the set, whichever were
            inserted.
        bits: bits of exposure (`audit.stats.likelihood_ratio`).
        p_value: p-value of no memory.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    rank: int
    ties: int
    n_references: int
    bits: float
    p_value: float


@dataclass(frozen=True)
class Outcome:
    """Hold the outcome of the search for one canary.

    Attributes:
        left_out: why it could not be asked for, a key of `REASONS`; None when it was. Then all
            below is empty.
        n_candidates: |V0|, of those that the model reads as one token each.
        n_unnamed: words of the prefix that the model does not know.
        strongest: the completion with the lowest loss of all that were scored, numbers of the
            pattern's candidates.
        strongest_loss: its loss, nats; None where it is not finite.
        true_loss: loss of the true completion.
        enumerated: whether every completion was scored.
        ranked: rank of the completion; None where no reference is left, or another canary has the
            same completion.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    left_out: str | None = None
    n_candidates: int = 0
    n_unnamed: int = 0
    strongest: tuple[int, ...] = ()
    strongest_loss: float | None = None
    true_loss: float | None = None
    enumerated: bool = False
    ranked: Ranked | None = None

    @property
    def missed(self) -> bool:
        """Return whether the search missed: the true completion is likelier than what it found."""
        return self.true_loss is not None and (
            self.strongest_loss is None or self.true_loss < self.strongest_loss
        )

    def as_json(self) -> Json:
        """Return the outcome as a JSON object for the journal."""
        return asdict(self)


_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)


def read_outcome(content: Json) -> Outcome:
    """Read the outcome that a journal holds.

    Raises:
        ValueError: it is no outcome of a canary: what is missing or damaged must never be read as
            left out.
    """
    outcome = _OUTCOME.validate_json(json.dumps(content), strict=True)
    if outcome.left_out is not None:
        searched = outcome.strongest or outcome.ranked is not None or outcome.true_loss is not None
        coherent = outcome.left_out in REASONS and not searched
    else:
        coherent = (
            outcome.n_candidates >= 2 and bool(outcome.strongest) and outcome.true_loss is not None
        )
    if not coherent or json.loads(json.dumps(outcome.as_json())) != json.loads(json.dumps(content)):
        raise ValueError("the outcome of a canary is damaged")
    return outcome


@dataclass(frozen=True, eq=False)
class CanaryTable(Columns):
    """Hold one row for each canary that could be asked for; all arrays of shape (n_canaries,).

    Attributes:
        included: whether its coin put it in.
        hits: whether the strongest attack returned the whole completion.
        chance: chance that guessing returns the completion, |V0| ** -n.
        early: whether the true completion is among the first `TRIES`; False where there is no
            reference.
        bits: bits of exposure; NaN where there is no reference.
        most_bits: the exposure of the first rank.
        chance_bits: the mean exposure of a canary the model knows nothing of.
        chance_early: chance that a canary the model knows nothing of is `early`.
    """

    included: Bools
    hits: Bools
    chance: Floats
    early: Bools
    bits: Floats
    most_bits: Floats
    chance_bits: Floats
    chance_early: Floats

    def __len__(self) -> int:
        """Count the canaries of the table."""
        return len(self.included)

    @property
    def ranked(self) -> CanaryTable:
        """Return the rows that have an exposure."""
        return self.where(np.isfinite(self.bits))


def table_of(canaries: Sequence[Canary], outcomes: Sequence[Outcome]) -> CanaryTable:
    """Make the table of the canaries that could be asked for.

    Args:
        canaries: canaries that were tried.
        outcomes: outcomes of each, in the same order.
    """
    askable = [pair for pair in zip(canaries, outcomes, strict=True) if pair[1].left_out is None]
    n_candidates = np.array([outcome.n_candidates for _, outcome in askable], float)
    lengths = np.array([len(canary.completion) for canary, _ in askable], float)
    ranks = [_exposure(outcome.ranked, outcome.enumerated) for _, outcome in askable]
    bits, most_bits, chance_bits, chance_early = np.array(ranks, float).reshape(-1, 4).T
    return CanaryTable(
        np.array([canary.included for canary, _ in askable], bool),
        np.array([outcome.strongest == truth_of(canary) for canary, outcome in askable], bool),
        n_candidates**-lengths,
        np.array(
            [outcome.ranked is not None and outcome.ranked.rank <= TRIES for _, outcome in askable],
            bool,
        ),
        bits,
        most_bits,
        chance_bits,
        chance_early,
    )


def truth_of(canary: Canary) -> tuple[int, ...]:
    """Return the index of each word of the secret completion among the pattern's candidates."""
    candidates = PATTERNS[canary.pattern].candidates
    return tuple(candidates.index(word) for word in canary.completion)


def _exposure(ranked: Ranked | None, enumerated: bool) -> tuple[float, float, float, float]:
    """Return exposure, its maximum, and exposure and chance of an early rank without memory.

    These are mean exposure and the chance of an early rank.
    """
    if ranked is None:
        return np.nan, np.nan, np.nan, np.nan
    n = ranked.n_references
    # Drawn or enumerated, every one of n + 1 ranks is equally likely.
    early = min(1.0, TRIES / (n + 1))
    return (
        ranked.bits,
        float(np.log2(n + enumerated)),
        chance_exposure(n, enumerated=enumerated),
        early,
    )


def measure_table(table: CanaryTable, rng: Generator) -> tuple[Measurement, ...]:
    """Measure extraction and exposure.

    Args:
        table: the canaries that could be asked for.
        rng: random generator of the resampling.
    """
    streams = Streams(rng)
    sides = table.where(table.included), table.where(~table.included)
    return (
        excess_of(*sides, streams["excess"]),
        excess_top3_of(*sides, streams["excess_top3"]),
        excess_exposure_of(*sides, streams["excess_exposure"]),
        *_rates_of_side(sides[0], "", NONE_IN, streams),
        *_rates_of_side(sides[1], ".control", NONE_OUT, streams),
        most_bits_of(table),
    )


def excess_of(included: CanaryTable, control: CanaryTable, rng: Generator) -> Measurement:
    """Measure how many more of those put in are extracted than of those left out.

    Null: no difference.
    """
    missing = _lacking("excess", included, control, UNASKED)
    return missing or _excess_rate("excess", included.hits, control.hits, rng)


def excess_top3_of(included: CanaryTable, control: CanaryTable, rng: Generator) -> Measurement:
    """Measure how many more of those put in rank among the first three than of those left out.

    Null: no difference.

    Whoever has three tries need not hit at once: a model that holds every secret second gives all
    of them away, and `excess_of` is 0.
    """
    ranked = included.ranked
    control_rank = control.ranked
    missing = _lacking("excess_top3", ranked, control_rank, _unranked(included, control))
    return missing or _excess_rate("excess_top3", ranked.early, control_rank.early, rng)


def excess_exposure_of(included: CanaryTable, control: CanaryTable, rng: Generator) -> Measurement:
    """Measure the mean exposure of those put in minus that of those left out, bits.

    Null: no difference.
    """
    ranked = included.ranked
    control_rank = control.ranked
    if (
        missing := _lacking("excess_exposure", ranked, control_rank, _unranked(included, control))
    ) is not None:
        return missing
    most = float(max(ranked.most_bits.max(), control_rank.most_bits.max()))
    if not most:
        return Unresolved("excess_exposure", NO_REFERENCES, len(ranked) + len(control_rank))
    pairs = [
        (rows.bits / most, np.zeros(len(rows)), np.arange(len(rows)))
        for rows in (ranked, control_rank)
    ]
    interval = rates.excess_mean(pairs, rng)
    interval = widen_to_welch(interval, pairs[0][0], pairs[1][0])
    return estimate(
        "excess_exposure", rates.scaled(_clip_to_unit(interval), most), UNIT, 0.0, "held-out"
    )


def most_bits_of(table: CanaryTable) -> Measurement:
    """Report the least of the largest exposures, bits, that the ranked canaries could reach."""
    is_ranked = table.ranked
    if not len(table):
        return Unresolved(POWER, NO_REFERENCES, 0, NEEDED_CANARIES)
    if not len(is_ranked):
        return Unresolved(POWER, NO_REFERENCES, len(table))
    least = float(is_ranked.most_bits.min())
    bounds = tuple(Bound(alpha, least, least) for alpha in ALPHAS)
    return Estimate(
        POWER, least, least, least, len(is_ranked), UNIT, len(is_ranked), COUNTED, bounds=bounds
    )


class _Empty(NamedTuple):
    """Why a side holds no canary, and how many would be needed.

    None: more canaries would not help.
    """

    reason: str
    needed: int | None = 2 * NEEDED_CANARIES


UNASKED = (_Empty(NONE_IN), _Empty(NONE_OUT))
UNRANKED = _Empty(NO_REFERENCES, needed=None)


def _lacking(
    name: str, included: CanaryTable, control: CanaryTable, empty: tuple[_Empty, _Empty]
) -> Unresolved | None:
    """Return why canaries put in and left out cannot be compared; None when they can."""
    n = len(included) + len(control)
    for rows, why in zip((included, control), empty, strict=True):
        if len(rows) == 1:
            return Unresolved(name, ALONE, n, 2 * NEEDED_CANARIES)
        if not len(rows):
            return Unresolved(name, why.reason, n, why.needed)
    return None


def _unranked(included: CanaryTable, control: CanaryTable) -> tuple[_Empty, _Empty]:
    """Return why no canary of each side is ranked: it has none, or no completion ranks them."""
    inside, outside = UNASKED
    if len(included):
        inside = UNRANKED
    if len(control):
        outside = UNRANKED
    return inside, outside


def _excess_rate(name: str, hits: Bools, control_hits: Bools, rng: Generator) -> Measurement:
    """Estimate the rate of hits on canaries put in minus that on those left out; null: 0."""
    sides: list[rates.Columns] = [
        (column, None, np.arange(len(column))) for column in (hits, control_hits)
    ]
    interval = rates.excess_rate(sides, rng)
    return estimate(name, _clip_to_unit(interval), UNIT, 0.0, "held-out")


def _clip_to_unit(interval: Interval) -> Interval:
    """Cut an interval made for differences of differences, which reach further, to [-1, 1]."""
    low = max(interval.low, -1.0)
    high = min(interval.high, 1.0)
    return replace(interval, lower=(low, *interval.lower[1:]), upper=(high, *interval.upper[1:]))


def _rates_of_side(
    rows: CanaryTable, suffix: str, missing: str, streams: Streams
) -> tuple[Measurement, ...]:
    """Measure extraction, rank among the first three, and exposure of one side.

    Extraction is the paper's Accuracy.

    Nulls: guessing; every rank equally likely; the exposure of canaries that the model knows
    nothing of.
    """
    is_ranked = rows.ranked
    names = f"extracted{suffix}", f"top3{suffix}", f"exposure{suffix}"
    if not len(rows):
        return tuple(Unresolved(name, missing, 0, NEEDED_CANARIES) for name in names)
    return (
        _measure_share(names[0], rows.hits, rows.chance),
        _measure_share(names[1], is_ranked.early, is_ranked.chance_early)
        if len(is_ranked)
        else Unresolved(names[1], NO_REFERENCES, len(rows)),
        exposure_of(names[2], rows, streams[names[2]]),
    )


def _measure_share(name: str, hits: Bools, chance: Floats) -> Measurement:
    """Estimate the share of hits among canaries; null: the mean of their chances by guessing."""
    interval = proportion(hits, np.arange(len(hits)))
    return estimate(name, interval, UNIT, float(chance.mean()), "chance")


def exposure_of(name: str, rows: CanaryTable, rng: Generator) -> Measurement:
    """Measure the mean exposure, bits; null: that of canaries the model knows nothing of."""
    is_ranked = rows.ranked
    if not len(is_ranked) or not is_ranked.most_bits.max():
        return Unresolved(name, NO_REFERENCES, len(rows))
    most = float(is_ranked.most_bits.max())
    interval = rates.rate(is_ranked.bits / most, np.arange(len(is_ranked)), rng)
    return estimate(
        name, rates.scaled(interval, most), UNIT, float(is_ranked.chance_bits.mean()), "chance"
    )


def histograms(table: CanaryTable) -> tuple[Histogram, ...]:
    """Draw exposure by bits, of canaries put in and left out."""
    is_ranked = table.ranked
    if not len(is_ranked):
        return ()
    edges = np.arange(math.ceil(float(is_ranked.most_bits.max())) + 1.0)
    if len(edges) < 2:
        return ()
    sides = {
        "included": is_ranked.bits[is_ranked.included],
        "control": is_ranked.bits[~is_ranked.included],
    }
    counts = {
        label: tuple(np.histogram(bits, edges)[0].tolist())
        for label, bits in sides.items()
        if bits.size
    }
    return (Histogram("exposure", "bits of exposure", tuple(edges.tolist()), counts),)


def paired_by_canary(
    canaries: Sequence[Canary], outcomes: Sequence[Outcome]
) -> Mapping[str, UnitScores]:
    """Return extraction, rank and exposure of each canary.

    Canaries left out by their coin are the others.

    Args:
        canaries: canaries that were tried.
        outcomes: outcomes of each, in the same order.
    """
    askable = [
        canary.id
        for canary, outcome in zip(canaries, outcomes, strict=True)
        if outcome.left_out is None
    ]
    if not askable:
        return {}
    table = table_of(canaries, outcomes)
    names = np.array(askable, object)
    ranked = np.isfinite(table.bits)
    columns = {"excess": (np.ones(len(askable), bool), table.hits.astype(float), 1.0)}
    if ranked.any():
        columns["excess_top3"] = ranked, table.early.astype(float), 1.0
        columns["excess_exposure"] = ranked, table.bits, float(table.most_bits[ranked].max()) or 1.0
    return {
        metric: UnitScores(
            names[rows].tolist(),
            names[rows].tolist(),
            table.included[rows],
            values[rows],
            limits=(0.0, most),
        )
        for metric, (rows, values, most) in columns.items()
    }
