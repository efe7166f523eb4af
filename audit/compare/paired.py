"""Values of units behind metrics, kept in the evidence.

Values of two scans give their difference as pairs. Units and clusters are hashed: only their
identity is needed. A file names the result that it belongs to, so that values of another scan are
never taken for it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit.errors import RecordError
from audit.files import write_atomically
from audit.measurements import STRICT, Estimate, Measurement
from audit.record import Result
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
class _Stored:
    """The values behind a result as a file holds them.

    Attributes:
        result: digest of the result that they belong to.
        metrics: values by metric.
    """

    result: str
    metrics: dict[str, _Column]


_STORED: TypeAdapter[_Stored] = TypeAdapter(_Stored)


def write_scores(evidence: Path, result: Result, scores: Mapping[str, UnitScores]) -> None:
    """Keep the values behind a result.

    Args:
        evidence: folder for the owner alone.
        result: result of the attack.
        scores: values by metric, see `Attack.evidence`.

    Raises:
        EngineError: the file cannot be written.
    """
    columns = {metric: _to_column(unit_scores) for metric, unit_scores in scores.items()}
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
        stored = _STORED.validate_json(path.read_bytes())
        scores = {metric: _from_column(column) for metric, column in stored.metrics.items()}
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except (ValidationError, ValueError):
        raise RecordError(
            f"{path}: damaged", "scan again into the same folder: outcomes are in its journal"
        ) from None
    return scores if stored.result == _identity(result) else None


def _path(evidence: Path, attack: str) -> Path:
    """Name the file with the values behind an attack's result."""
    return evidence / f"units-{attack}.json"


def _identity(result: Result) -> str:
    """Hash a result as its attack returned it, without what the checks of the scan change."""
    result = replace(result, checks=(), confounded=None, unvouched=False)
    content = _RESULT.dump_python(result, mode="json")
    # Evidence of versions before 0.14 knows no such fields.
    for newer in ("breakdowns", "people"):
        content.pop(newer)
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _to_column(scores: UnitScores) -> dict[str, Any]:
    """Turn values into JSON, units and clusters hashed; see `_Column`."""
    return {
        "units": _hash_names(scores.units),
        "clusters": _hash_names(scores.clusters),
        "member": [bool(is_member) for is_member in scores.member],
        "values": [float(value) if np.isfinite(value) else None for value in scores.values],
        "kind": scores.kind,
        "limits": [float(limit) for limit in scores.limits],
    }


def _from_column(column: _Column) -> UnitScores:
    """Turn JSON into values.

    Raises:
        ValueError: the columns do not belong together.
    """
    n_units = len(column.units)
    lengths = {len(column.clusters), len(column.member), len(column.values)}
    if lengths != {n_units} or len(set(column.units)) != n_units:
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


def _hash_names(names: Sequence[str]) -> list[str]:
    """Hash names, so that their identity alone is left."""
    return [hashlib.sha256(str(name).encode()).hexdigest()[:16] for name in names]


class NumberChange(NamedTuple):
    """The change of a number from one scan to another.

    Attributes:
        difference: later minus earlier, null 0; None where there is none.
        p: two-sided, of a difference as large without any effect.
        paired: whether units were compared one by one; False: both intervals were joined, which is
            wider.
        note: why there is no difference; or empty.
    """

    difference: Estimate | None = None
    p: float | None = None
    paired: bool = False
    note: str = ""


def change_of(
    metric: str,
    measured: tuple[Measurement | None, Measurement | None],
    scores: tuple[UnitScores | None, UnitScores | None],
    rng: np.random.Generator,
) -> NumberChange:
    """Compute the change of a number, or why there is none.

    Args:
        metric: name of the number.
        measured: the number before and after.
        scores: values by unit behind it, before and after; None: there are none.
        rng: source of randomness.
    """
    old, new = measured
    if not isinstance(old, Estimate) or not isinstance(new, Estimate):
        return NumberChange(note=_why_no_difference(old, new))
    before, after = scores
    difference: Difference | None = None
    if before is not None and after is not None:
        difference = paired_difference(before, after, rng)
    if difference is None:
        difference = joined_difference(old, new)
    return describe_difference(metric, difference, old)


def _why_no_difference(*measured: Measurement | None) -> str:
    """Say why measurements make no difference, each reason once."""
    reasons: list[str] = []
    for item in measured:
        if item is None:
            reasons.append("not measured")
        elif not isinstance(item, Estimate):
            reasons.append(f"{NOT_RESOLVED}: {getattr(item, 'reason', '')}")
    return "; ".join(dict.fromkeys(reasons))


def describe_difference(metric: str, difference: Difference, before: Estimate) -> NumberChange:
    """Return a difference of a number as an estimate with its p-value."""
    change = estimate(f"{metric}.change", difference.interval, before.unit, 0.0, "chance")
    return NumberChange(change, difference.p, difference.paired)


def measurement(result: Result, metric: str) -> Measurement | None:
    """Look up a measurement of an attack by name; None where the record lacks it."""
    return next((item for item in result.measurements if item.name == metric), None)
