"""A record with its verdict and the places of its limits, as every machine format is drawn from it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from audit.corpus.paths import printable
from audit.measurements import Estimate
from audit.policy import EXIT_CODES, Decision, Limit, Outcome, Verdict
from audit.record import AuditRecord, Failed

_TABLE = re.compile(r"\s*\[\[\s*limits\s*\]\]")


@dataclass(frozen=True)
class Place:
    """A line of a file; the path is relative to the root of the repository, with slashes."""

    path: str
    line: int = 1


@dataclass(frozen=True)
class Places:
    """Where limits lie.

    Attributes:
        limits: of each limit of the policy, in its order; empty where the policy lies outside the repository.
        whole: stands for all that has no line of its own; None: there is no such file.
        in_git: whether there is a repository at all.
    """

    limits: tuple[Place, ...] = ()
    whole: Place | None = None
    in_git: bool = True

    def of(self, index: int) -> Place | None:
        """Where the limit of this index lies."""
        return self.limits[index] if index < len(self.limits) else self.whole


NOWHERE = Places()
ANCHORS = ("README.md", "README.rst", "README.txt", "README", "pyproject.toml", ".gitignore", "LICENSE")
"""Files at the root of a repository that stand for limits of a policy outside of it, the first that is there."""


def find_places(policy: Path, data: Path | None = None) -> Places:
    """Find where limits lie in the repository that holds the current directory.

    Args:
        policy: its file.
        data: the folder of the data set, whose manifest.toml stands for the limits of a policy that lies elsewhere;
            where it does so too, a file at the root of the repository.
    """
    root = repository(Path.cwd())
    own = _inside(root, policy)
    if own is not None:
        limits = tuple(Place(own, line) for line in lines_of_limits(policy.read_text(encoding="utf-8")))
        return Places(limits, Place(own))
    for other in (*([data / "manifest.toml"] if data else []), *(root / name for name in ANCHORS)):
        path = _inside(root, other)
        if path is not None:
            return Places(whole=Place(path))
    return Places(in_git=(root / ".git").exists())


def repository(start: Path) -> Path:
    """The root of the git work tree that holds a folder; without one the folder itself."""
    start = start.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def _inside(root: Path, path: Path) -> str | None:
    """The path of a file relative to the root; None where it is no file or lies elsewhere."""
    found = path.resolve()
    return found.relative_to(root).as_posix() if found.is_file() and found.is_relative_to(root) else None


def lines_of_limits(toml: str) -> list[int]:
    """The line, from 1, of each table `[[limits]]`; empty where a policy writes its limits otherwise.

    A heading counts only where the lines before it are whole TOML, so that none is found within a text.
    """
    lines = toml.splitlines()
    found: list[int] = []
    for number, line in enumerate(lines):
        if _TABLE.match(line) and _count_limits(lines[:number]) == len(found):
            found.append(number + 1)
    return found if len(found) == _count_limits(lines) else []


def _count_limits(lines: list[str]) -> int:
    """The number of limits in these lines; -1 where they are no whole TOML."""
    try:
        return len(tomllib.loads("\n".join(lines)).get("limits", ()))
    except ValueError:
        return -1


OPEN: tuple[Literal["violated", "undecided"], ...] = ("violated", "undecided")
"""Outcomes that keep a model from being let through."""


@dataclass(frozen=True)
class Check:
    """What became of one limit, as a pipeline lists it.

    Attributes:
        decision: on the limit.
        metric: its name; a second limit on the same metric is told by a number.
        index: of the limit in the policy.
        counts: whether an open outcome has its part in the exit code: findings on the text alone may have none, and a
            policy may let undecided ones pass.
        broke: what became of the attack when it broke down.
    """

    decision: Decision
    metric: str
    index: int
    counts: bool
    broke: Failed | None

    @property
    def attack(self) -> str:
        """Of the limit."""
        return self.decision.limit.attack

    @property
    def open(self) -> bool:
        """Whether the limit is violated or undecided."""
        return self.decision.outcome in OPEN

    @property
    def sentence(self) -> str:
        """The outcome with its reason, and what would decide it."""
        decision = self.decision
        helps = f"; to decide it: {decision.remedy}" if decision.remedy else ""
        by = decision.waiver
        waived = f"; waived by {by.owner} ({by.role}) until {by.expires}" if by is not None else ""
        counts = "; it does not count for the exit code" if self.open and not self.counts else ""
        return printable(f"{decision.reason}{helps}{waived}{counts}")


@dataclass(frozen=True)
class Whole:
    """A verdict that no single limit explains: none could be checked, or a claimed guarantee is false.

    Attributes:
        name: "overall", or "text" of what the documents' own text gives away.
        outcome: of all limits together.
        reason: one sentence.
        counts: see `Check`.
    """

    name: str
    outcome: Outcome
    reason: str
    counts: bool


@dataclass(frozen=True)
class Judged:
    """A record with the verdict on it.

    Attributes:
        places: where the limits lie in the repository.
        decides_exit: False for a command whose exit code is not the verdict's.
    """

    record: AuditRecord
    verdict: Verdict
    places: Places = NOWHERE
    decides_exit: bool = True

    @property
    def checks(self) -> tuple[Check, ...]:
        """One for each limit, in the policy's order."""
        broken = {result.attack: result for result in self.record.attacks if isinstance(result, Failed)}
        seen: Counter[tuple[str, str]] = Counter()
        checks = []
        for index, decision in enumerate(self.verdict.decisions):
            limit = decision.limit
            seen[limit.attack, limit.metric] += 1
            number = seen[limit.attack, limit.metric]
            metric = limit.metric if number == 1 else f"{limit.metric} {number}"
            undecided = decision.outcome == "undecided"
            broke = broken.get(limit.attack) if undecided else None
            checks.append(Check(decision, metric, index, self._counts(decision.outcome), broke))
        return tuple(checks)

    @property
    def wholes(self) -> Iterator[Whole]:
        """Verdicts that no single limit explains."""
        verdict = self.verdict
        for name, outcome, reason in (
            ("overall", verdict.overall, verdict.reason),
            ("text", verdict.text, verdict.text_reason),
        ):
            own = {one.outcome for one in verdict.decisions if name == "overall" or one.about_text}
            if outcome in OPEN and outcome not in own:
                yield Whole(name, outcome, printable(reason), self._counts(outcome))

    def _counts(self, outcome: Outcome) -> bool:
        """Whether an open outcome is in the exit code: one that is better than it cannot be."""
        return outcome in OPEN and self.verdict.exit_code in (EXIT_CODES["violated"], EXIT_CODES[outcome])


def bound(limit: Limit) -> str:
    """What a limit allows, in words."""
    return f"at most {limit.max:g}" if limit.max is not None else f"at least {limit.min:g}"


def measured(estimate: Estimate) -> str:
    """A value with its interval and the number of units, in words."""
    level = f"{100 * estimate.level:g} % interval {estimate.low:.3f} to {estimate.high:.3f}"
    return f"{estimate.value:.3f} ({level}, n = {estimate.n} {estimate.unit})"


def compared(decision: Decision) -> str:
    """What was measured against a limit, in words."""
    if decision.measured is None:
        return f"nothing measured, limit {bound(decision.limit)}"
    by = "" if decision.measured.name == decision.limit.metric else f" by {decision.measured.name}"
    return f"measured {measured(decision.measured)}{by}, limit {bound(decision.limit)}"
