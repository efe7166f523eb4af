"""Values of units behind metrics, kept in the evidence, and the differences of two scans that they give as pairs.

Units and clusters are hashed: only their identity is needed. A file names the result that it
belongs to, so that values of another scan are never taken for it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit.errors import RecordError
from audit.files import write_atomically
from audit.measurements import STRICT, Estimate, Measurement
from audit.record import Result
from audit.report.comparison import Effect
from audit.stats.estimates import estimate
from audit.stats.paired import Difference, Kind, UnitScores, joined_difference, paired_difference

NOT_RESOLVED = "not resolved"
_RESULT: TypeAdapter[Result] = TypeAdapter(Result)


@dataclass(frozen=True, config=STRICT)
class _Column:
    """`UnitScores` as JSON; None stands for a value that is not finite."""

    units: tuple[str, ...]
    clusters: tuple[str, ...]
    member: tuple[bool, ...]
    values: tuple[float | None, ...]
    kind: Kind
    limits: tuple[float, float]


@dataclass(frozen=True, config=STRICT)
class _Kept:
    result: str
    metrics: dict[str, _Column]


_KEPT: TypeAdapter[_Kept] = TypeAdapter(_Kept)


def write_scores(evidence: Path, result: Result, scores: Mapping[str, UnitScores]) -> None:
    """Keep the values behind a result.

    Args:
        evidence: the folder for the owner alone.
        result: of the attack.
        scores: by metric, see `Attack.evidence`.

    Raises:
        EngineError: the file cannot be written.
    """
    columns = {metric: _column(own) for metric, own in scores.items()}
    content = {"result": _identity(result), "metrics": columns}
    path = _path(evidence, result.attack)
    write_atomically(path, json.dumps(content, allow_nan=False).encode() + b"\n", mode=0o600)


def read_scores(evidence: Path, result: Result) -> dict[str, UnitScores] | None:
    """Read the values behind a result.

    None where the evidence holds none, or those of another scan.

    Raises:
        RecordError: the file is damaged or cannot be read.
    """
    path = _path(evidence, result.attack)
    if not path.is_file():
        return None
    try:
        kept = _KEPT.validate_json(path.read_bytes())
        scores = {metric: _scores(own) for metric, own in kept.metrics.items()}
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except (ValidationError, ValueError):
        raise RecordError(
            f"{path}: damaged", "scan again into the same folder: outcomes are in its journal"
        ) from None
    return scores if kept.result == _identity(result) else None


def _path(evidence: Path, attack: str) -> Path:
    return evidence / f"units-{attack}.json"


def _identity(result: Result) -> str:
    """Hash a result as its attack returned it, without what the checks of the scan change."""
    result = replace(result, checks=(), confounded=None, unvouched=False)
    return hashlib.sha256(
        json.dumps(_RESULT.dump_python(result, mode="json"), sort_keys=True).encode()
    ).hexdigest()


def _column(scores: UnitScores) -> dict[str, Any]:
    return {
        "units": _hashed(scores.units),
        "clusters": _hashed(scores.clusters),
        "member": [bool(own) for own in scores.member],
        "values": [float(value) if np.isfinite(value) else None for value in scores.values],
        "kind": scores.kind,
        "limits": [float(limit) for limit in scores.limits],
    }


def _scores(column: _Column) -> UnitScores:
    n = len(column.units)
    if len(set(column.units)) != n or {
        len(column.clusters),
        len(column.member),
        len(column.values),
    } != {n}:
        raise ValueError("columns of different lengths, or a unit twice")
    values = np.array([np.nan if value is None else value for value in column.values], np.float64)
    return UnitScores(
        column.units,
        column.clusters,
        np.array(column.member, bool),
        values,
        column.kind,
        column.limits,
    )


def _hashed(names: Sequence[str]) -> list[str]:
    return [hashlib.sha256(str(name).encode()).hexdigest()[:16] for name in names]


def effect_of(
    effect: Effect, scores: tuple[UnitScores | None, UnitScores | None], rng: np.random.Generator
) -> Effect:
    """Fill in the difference, or why there is none.

    Args:
        effect: with the number before and after.
        scores: the values by unit behind it, before and after; None: there are none.
        rng: the source of randomness.
    """
    one, other = effect.before, effect.after
    if not (isinstance(one, Estimate) and isinstance(other, Estimate)):
        reasons = (
            "not measured" if item is None else f"{NOT_RESOLVED}: {getattr(item, 'reason', '')}"
            for item in (one, other)
            if not isinstance(item, Estimate)
        )
        return replace(effect, note="; ".join(dict.fromkeys(reasons)))
    before, after = scores
    paired = None if before is None or after is None else paired_difference(before, after, rng)
    return filled(effect, paired or joined_difference(one, other), one)


def filled(effect: Effect, found: Difference, before: Estimate) -> Effect:
    """Fill a difference and its p-value into an effect."""
    difference = estimate(f"{effect.metric}.change", found.interval, before.unit, 0.0, "chance")
    return replace(effect, difference=difference, p=found.p, paired=found.paired, note="")


def measurement(result: Result, metric: str) -> Measurement | None:
    """Look up a measurement of an attack by name; None where the record lacks it."""
    return next((item for item in result.measurements if item.name == metric), None)
