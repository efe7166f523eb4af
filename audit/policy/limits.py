"""A policy: what an owner accepts, read from a file."""

from __future__ import annotations

import datetime as dt
import hashlib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit.errors import PolicyError
from audit.measurements import STRICT
from audit.resources import folder

MISSPELT = 0.8
"""Likeness of two names from which one is taken for a mistake (ours): provider_membership and membership are less."""
LONGEST_WAIVER = dt.timedelta(days=366)
"""How far ahead a waiver may end, from the day it is held against (ours): a year later somebody looks again."""
Written = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text that says something."""


@dataclass(frozen=True, config=STRICT)
class Limit:
    """One thing the policy asks: `metric` of `attack` at most `max` (or at least `min`).

    A metric names a question. The limit is held against every method of the attack that answers it
    (`record.Completed.methods`), and the strongest decides.

    Attributes:
        required: False: a data set that does not hold what the attack is about (no canaries, no providers) leaves the
            limit out. Nothing else excuses it: an attack that failed, was left out or was weakened decides nothing.
        min_power: the attack's own strength under which nothing can be passed.
        min_coverage: the share of what could leak that a pass must rest on, see `record.Coverage`.
        min_category_coverage: the same for each category of values that the documents of training hold.
        holds: "interval": passed when the whole interval is within the limit. "lower": only a lower bound is limited,
            as of a count of people who can be named: violated when it is confirmed over the limit, else passed.
        rationale: why this limit, printed in the report.
    """

    attack: str
    metric: str
    rationale: str
    max: float | None = Field(default=None, strict=True)
    min: float | None = Field(default=None, strict=True)
    required: bool = Field(default=True, strict=True)
    min_power: float | None = Field(default=None, ge=0, strict=True)
    min_coverage: float | None = Field(default=None, ge=0, le=1, strict=True)
    min_category_coverage: float | None = Field(default=None, ge=0, le=1, strict=True)
    holds: Literal["interval", "lower"] = "interval"


@dataclass(frozen=True, config=STRICT)
class Gap:
    """An attack that kinds of models cannot be put to, and that the policy does without for them.

    Attributes:
        tasks: of the models, as their card has them ("mlm", "token-classification", ...).
        rationale: why nothing is lost, printed in the report.
    """

    attack: str
    tasks: tuple[str, ...]
    rationale: Written


@dataclass(frozen=True, config=STRICT)
class Waiver:
    """A violation that somebody takes responsibility for, until a day at most a year ahead (`LONGEST_WAIVER`).

    Attributes:
        owner: who answers for it.
        role: of the owner, so that a reader can tell whether it was theirs to decide.
        reason: why the leak is accepted.
        measure: what is done instead of mending it.
        expires: the last day that it holds.
    """

    attack: str
    metric: str
    owner: Written
    role: Written
    reason: Written
    measure: Written
    expires: dt.date


@dataclass(frozen=True, config=STRICT)
class Origin:
    """The file that a policy was read from.

    Attributes:
        toml: its whole text.
        shipped: whether docaudit ships this very file.
    """

    toml: str
    shipped: bool

    @property
    def sha256(self) -> str:
        """The sha256 of the file, as `sha256sum` prints it."""
        return hashlib.sha256(self.toml.encode()).hexdigest()


@dataclass(frozen=True, config=STRICT)
class Policy:
    """What an owner accepts.

    Attributes:
        undecided: "warn" lets an audit without a decision exit 0; the default fails closed.
        text: what limits on the documents' own text (`record.Completed.about_text`) do. They have a verdict of their
            own; with "fail" the exit code is that of the worse one of both.
        gaps: attacks that models of some kinds cannot be put to. An inapplicable attack without one is undecided.
        min_examined: so many limits on the model, or such a share of them (a number with a point), must be met or
            violated; with fewer an audit that would pass is undecided.
        origin: the file it was read from; `load` sets it, a file cannot.
    """

    schema: Literal[1]
    name: str
    limits: tuple[Limit, ...]
    description: str = ""
    undecided: Literal["fail", "warn"] = "fail"
    text: Literal["report", "fail"] = "report"
    gaps: tuple[Gap, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    min_examined: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)] | None = None
    origin: Origin | None = None


_POLICY: TypeAdapter[Policy] = TypeAdapter(Policy)


def _shipped() -> dict[str, Path]:
    """The shipped policies, by name."""
    others = ("defenses", "frameworks")
    return {item.stem: item for item in folder("policies").glob("*.toml") if item.stem not in others}


def shipped_names() -> frozenset[str]:
    """The names of the shipped policies."""
    return frozenset(_shipped())


def path_of(name_or_path: str) -> Path:
    """The file of a policy: of a shipped one by its name, else the path itself."""
    return _shipped().get(name_or_path, Path(name_or_path))


def load(name_or_path: str) -> Policy:
    """Read a policy: the name of a shipped one ("default", "strict") or the path of a TOML file.

    Raises:
        PolicyError: every problem of the file.
    """
    shipped, path = _shipped(), path_of(name_or_path)
    try:
        text = path.read_bytes().decode("utf-8")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise PolicyError(f"policy {path}: {reason}", f"shipped policies: {', '.join(sorted(shipped))}") from None
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, and a number of thousands of digits
        raise PolicyError(f"policy {path}: not TOML: {error}") from None
    try:
        policy = _POLICY.validate_python(content)
    except ValidationError as error:
        raise PolicyError(
            [f"policy {path} {'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
        ) from None
    problems = _contradictions(policy)
    if policy.origin is not None:
        problems.append("origin: is written by docaudit, not by a policy")
    original = shipped.get(policy.name)
    if original is not None and original.read_bytes() != path.read_bytes():
        waived = ", as by waivers," if policy.waivers else ""
        problems.append(
            f"name: docaudit ships a policy {policy.name!r}; one that differs from it{waived} needs another name"
        )
    if problems:
        hint = f'say name = "{policy.name}-own" in it, and give --policy FILE' if original is not None else ""
        raise PolicyError([f"policy {path} {problem}" for problem in problems], hint)
    return replace(policy, origin=Origin(text, shipped=original is not None))


def _contradictions(policy: Policy) -> list[str]:
    problems = []
    if not policy.limits:
        problems.append("limits: there is none, so nothing could ever be violated")
    for index, limit in enumerate(policy.limits):
        if (limit.max is None) == (limit.min is None):
            problems.append(f"limits.{index}: give either max or min")
        if limit.holds == "lower" and limit.max is None:
            problems.append(f"limits.{index}: holds: a lower bound is held against a max")
    if isinstance(policy.min_examined, int) and policy.min_examined > len(policy.limits):
        problems.append(
            f"min_examined: {policy.min_examined} of {len(policy.limits)} limits; a share has a point, as 0.5"
        )
    gated = {(limit.attack, limit.metric) for limit in policy.limits}
    problems += [
        f"waivers.{index}: no limit on {waiver.attack} {waiver.metric}"
        for index, waiver in enumerate(policy.waivers)
        if (waiver.attack, waiver.metric) not in gated
    ]
    return problems


def check_names(policy: Policy, metrics: Mapping[str, Collection[str]], complete: bool = True) -> None:
    """Refuse a policy that misspells something; called before a scan too, which may take hours.

    Args:
        policy: what to check.
        metrics: the metrics a policy may ask for, by attack.
        complete: whether these are all the attacks there are. An older record does not know those that came later: only
            a name close to one that it knows is then taken for a mistake.

    Raises:
        PolicyError: the policy names an attack or a metric that does not exist.
    """
    problems = []
    for limit in policy.limits:
        if limit.attack not in metrics and (complete or get_close_matches(limit.attack, metrics, 1, MISSPELT)):
            problems.append(f"policy {policy.name}: no attack is called {limit.attack!r}")
        elif limit.attack in metrics and limit.metric not in metrics[limit.attack]:
            close = get_close_matches(limit.metric, metrics[limit.attack], 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            problems.append(f"policy {policy.name}: {limit.attack} has no metric {limit.metric!r}{meant}")
    if problems:
        raise PolicyError(problems, f"attacks: {', '.join(metrics)}")


def check_ranges(policy: Policy, metrics: Mapping[str, Mapping[str, float | None]]) -> None:
    """Refuse limits that a metric can never reach: 65 where 65 % is meant would pass every model.

    Args:
        policy: what to check.
        metrics: the most that a metric can be, by attack and metric: 1 for shares and areas; None: any number. One that
            is not among them is taken for a share.

    Raises:
        PolicyError: every limit out of its metric's range.
    """
    problems = []
    for index, limit in enumerate(policy.limits):
        for name, bound in (("max", limit.max), ("min", limit.min)):
            upper = metrics.get(limit.attack, {}).get(limit.metric, 1.0)
            if bound is not None and upper is not None and not 0 <= bound <= upper:
                percent = ", so that 65 % is 0.65" if upper == 1 else ""
                problems.append(
                    f"policy {policy.name} limits.{index}: {name} {bound:g}: {limit.metric} lies between 0 and "
                    f"{upper:g}{percent}"
                )
    if problems:
        raise PolicyError(problems)
