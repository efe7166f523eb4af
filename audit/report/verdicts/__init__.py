"""Machine formats of a verdict, all drawn from the one `Verdict`, none with a criterion of its own.

`audit.report.formats` names them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

from audit.errors import printable
from audit.policy import EXIT_CODES, WORDS, Decision, Limit, Outcome, Overall, Verdict, Word
from audit.record import AuditRecord
from audit.report.answer import name_documents
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import Facts
from audit.report.formats import FORMATS

READMES = ("README.md", "README.rst", "README.txt", "README")
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

    @property
    def word(self) -> Word:
        """Return what the formats call the outcome."""
        return WORDS[self.outcome]


@dataclass(frozen=True)
class Judged:
    """A record with the verdict on it.

    `place` is the file of the repository where SARIF shows open limits.
    """

    record: AuditRecord
    verdict: Verdict
    place: str | None = None

    @cached_property
    def facts(self) -> Facts:
        """Return the facts that every format draws from."""
        return facts_of(self.record, self.verdict)

    @property
    def limits(self) -> tuple[Check, ...]:
        """Return a check for each limit, in the policy's order."""
        return tuple(self._check_of(decision) for decision in self.verdict.decisions)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the checks of limits, then one for each verdict that no single limit explains."""
        verdict = self.verdict
        outcomes = {decision.outcome for decision in verdict.decisions}
        text_outcomes = {item.outcome for item in verdict.decisions if item.about_text}
        overall = [
            self._unexplained("overall", verdict.overall, verdict.reason, outcomes),
            self._unexplained("text", verdict.text, verdict.text_reason, text_outcomes),
        ]
        return (*self.limits, *(check for check in overall if check is not None))

    def _unexplained(
        self, name: str, outcome: Overall | None, reason: str, explained: Collection[Outcome]
    ) -> Check | None:
        """Return a check for an open verdict that no limit explains; None for any other verdict.

        Args:
            name: which verdict it is.
            outcome: the verdict; None where there is none.
            reason: why it was reached.
            explained: outcomes of the limits that it is reached on.
        """
        if outcome is None or outcome not in OPEN or outcome in explained:
            return None
        counts = self._counts_for_exit(outcome)
        return Check("verdict", name, outcome, printable(reason), counts)

    def _check_of(self, decision: Decision) -> Check:
        """Make the check of a limit's decision; its sentence has reason, remedy and waiver."""
        counts = self._counts_for_exit(decision.outcome)
        sentence = decision.reason
        if decision.remedy:
            sentence += f"; to decide it: {decision.remedy}"
        waiver = decision.waiver
        if waiver is not None:
            sentence += f"; waived by {waiver.owner} ({waiver.role}) until {waiver.expires}"
        if decision.outcome in OPEN and not counts:
            sentence += "; it does not count for the exit code"
        return Check(
            decision.limit.attack,
            decision.limit.metric,
            decision.outcome,
            printable(sentence),
            counts,
            decision,
        )

    def _counts_for_exit(self, outcome: Outcome) -> bool:
        """Test whether an open outcome has its part in the exit code."""
        if outcome not in OPEN:
            return False
        codes = [EXIT_CODES["violated"]]
        if outcome == "undecided":
            codes.append(EXIT_CODES["undecided"])
        return self.verdict.exit_code in codes


def render(name: str, judged: Judged) -> str:
    """Draw a verdict in a format.

    Raises:
        RenderError: the format cannot hold this verdict, see `sarif.as_sarif`.
    """
    module = import_module(f"{__name__}.{FORMATS[name]}")
    draw: Callable[[Judged], str] = getattr(module, f"as_{name}")
    text = draw(judged)
    return text if name == "json" else name_documents(judged.record, text)


def find_place(policy: Path, data: Path | None = None) -> str | None:
    """Find the file that stands for the limits in the repository that holds the current directory.

    Args:
        policy: its file; a shipped one lies elsewhere.
        data: the folder of the data set, whose manifest.toml stands for such a policy, else the
            README of the root.

    Returns:
        Its path relative to the root, with slashes; None where there is none of these.
    """
    root = _repository_root()
    candidates = [policy]
    if data is not None:
        candidates.append(data / "manifest.toml")
    candidates += [root / name for name in READMES]
    for candidate in candidates:
        path = candidate.resolve()
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return None


def _repository_root() -> Path:
    """Return the root of the repository around the current directory; this one without any."""
    start = Path.cwd().resolve()
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return start


def bound(limit: Limit) -> str:
    """Return what a limit allows, in words."""
    return f"at most {limit.max:g}" if limit.max is not None else f"at least {limit.min:g}"


def compared(decision: Decision) -> str:
    """Return what was measured against a limit, in words."""
    item = decision.measured
    if item is None:
        return f"nothing measured, limit {bound(decision.limit)}"
    method = "" if item.name == decision.limit.metric else f" by {item.name}"
    ends = f"at least {item.low:.3f}" if item.open_above else f"{item.low:.3f} to {item.high:.3f}"
    level = decision.count_range or f"{100 * item.level:g} % interval {ends}"
    total = "" if item.total is None else f" of {item.total}"
    number = f"{item.value:.3f}{total} ({level}, n = {item.n} {item.unit}){method}"
    return f"measured {number}, limit {bound(decision.limit)}"
