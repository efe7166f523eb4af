"""Machine formats of a verdict, all drawn from the one `Verdict`, none with a criterion of its own.

json         verdict.schema.json
markdown     the summary of a job, a comment
junit        JUnit XML: a test suite an attack, a test case a limit
sarif        SARIF 2.1.0: open limits at the file of the policy
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from audit.errors import printable
from audit.policy import EXIT_CODES, Decision, Limit, Outcome, Verdict
from audit.record import AuditRecord
from audit.report.answer import name_documents

FORMATS = {"json": "document", "markdown": "texts", "junit": "texts", "sarif": "texts"}
"""The module whose function `as_NAME` draws a format, by the format's name; it is imported when it
is asked for."""
OPEN: tuple[Outcome, ...] = ("violated", "undecided")
"""Outcomes that keep a model from being let through."""


@dataclass(frozen=True)
class Check:
    """What became of one limit, or of a verdict that no single limit explains.

    Attributes:
        attack, metric: of the limit; "verdict", and "overall" or "text", where there is none.
        sentence: the reason, and what would decide it.
        counts: whether an open outcome has its part in the exit code: findings on the text alone
            may have none, and a policy may let undecided ones pass.
        decision: on the limit.
    """

    attack: str
    metric: str
    outcome: Outcome
    sentence: str
    counts: bool
    decision: Decision | None = None


@dataclass(frozen=True)
class Judged:
    """A record with the verdict on it.

    `place` is the file of the repository where SARIF shows open limits.
    """

    record: AuditRecord
    verdict: Verdict
    place: str | None = None

    @property
    def limits(self) -> tuple[Check, ...]:
        """Return a check for each limit, in the policy's order."""
        return tuple(self._check_of(decision) for decision in self.verdict.decisions)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the checks of limits, then one for each verdict that no single limit explains."""
        verdict, found = self.verdict, [*self.limits]
        for name, outcome, reason in (
            ("overall", verdict.overall, verdict.reason),
            ("text", verdict.text, verdict.text_reason),
        ):
            own = {one.outcome for one in verdict.decisions if name == "overall" or one.about_text}
            if outcome is not None and outcome in OPEN and outcome not in own:
                found.append(
                    Check(
                        "verdict", name, outcome, printable(reason), self._counts_for_exit(outcome)
                    )
                )
        return tuple(found)

    def _check_of(self, decision: Decision) -> Check:
        by, counts = decision.waiver, self._counts_for_exit(decision.outcome)
        helps = f"; to decide it: {decision.remedy}" if decision.remedy else ""
        waived = f"; waived by {by.owner} ({by.role}) until {by.expires}" if by is not None else ""
        unseen = (
            "; it does not count for the exit code"
            if decision.outcome in OPEN and not counts
            else ""
        )
        sentence = printable(f"{decision.reason}{helps}{waived}{unseen}")
        return Check(
            decision.limit.attack,
            decision.limit.metric,
            decision.outcome,
            sentence,
            counts,
            decision,
        )

    def _counts_for_exit(self, outcome: Outcome) -> bool:
        """Test whether an open outcome has its part in the exit code."""
        return outcome in OPEN and self.verdict.exit_code in (
            EXIT_CODES["violated"],
            EXIT_CODES["violated" if outcome == "violated" else "undecided"],
        )


def render(name: str, judged: Judged) -> str:
    """Draw a verdict in a format.

    Raises:
        RenderError: the format cannot hold this verdict, see `sarif.as_sarif`.
    """
    draw: Callable[[Judged], str] = getattr(
        import_module(f"{__name__}.{FORMATS[name]}"), f"as_{name}"
    )
    return draw(judged) if name == "json" else name_documents(judged.record, draw(judged))


def find_place(policy: Path, data: Path | None = None) -> str | None:
    """Find the file that stands for the limits in the repository that holds the current directory.

    Args:
        policy: its file; a shipped one lies elsewhere.
        data: the folder of the data set, whose manifest.toml stands for such a policy, else the
            README of the root.

    Returns:
        Its path relative to the root, with slashes; None where there is none of these.
    """
    start = Path.cwd().resolve()
    root = next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
    manifest = [] if data is None else [data / "manifest.toml"]
    for path in (
        policy,
        *manifest,
        *(root / name for name in ("README.md", "README.rst", "README.txt", "README")),
    ):
        found = path.resolve()
        if found.is_file() and found.is_relative_to(root):
            return found.relative_to(root).as_posix()
    return None


def bound(limit: Limit) -> str:
    """Return what a limit allows, in words."""
    return f"at most {limit.max:g}" if limit.max is not None else f"at least {limit.min:g}"


def compared(decision: Decision) -> str:
    """Return what was measured against a limit, in words."""
    item = decision.measured
    if item is None:
        return f"nothing measured, limit {bound(decision.limit)}"
    by = "" if item.name == decision.limit.metric else f" by {item.name}"
    ends = f"at least {item.low:.3f}" if item.open_above else f"{item.low:.3f} to {item.high:.3f}"
    level = decision.count_range or f"{100 * item.level:g} % interval {ends}"
    of = "" if item.total is None else f" of {item.total}"
    return f"measured {item.value:.3f}{of} ({level}, n = {item.n} {item.unit}){by}, limit {bound(decision.limit)}"
