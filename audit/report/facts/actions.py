"""Define a finding that calls for an action, and the action that is recommended."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from audit.attacks import text_of
from audit.defenses.remedy import FindingState, Remedy
from audit.report.labels import LABELS

STATE_LABELS = LABELS["findings"]


@dataclass(frozen=True)
class Finding:
    """Something the audit found that may call for an action.

    Attributes:
        aside: whether the verdict is the same without it: it is waived, or of the text, and the
            policy only reports it.
    """

    attack: str
    metric: str
    state: FindingState
    aside: bool = False

    @property
    def words(self) -> str:
        """Name the metric and its state."""
        state = STATE_LABELS[self.state]
        return f"{text_of(self.attack).label(self.metric)} ({state})" if self.attack else state


@dataclass(frozen=True)
class Recommendation:
    """A remedy for this scan.

    Attributes:
        remedy: the remedy.
        findings: those that it answers; never empty.
        measured: in sentences, what it was measured to do to this model.
        expected: in sentences, its effect on other models.
        effect: the same in one sentence for page one; that none was measured, where none was.
        verdict: whether it can change the verdict, in one sentence.
        ends_leak: whether it was measured on this model to leave no limit that it answers exceeded.
        verdict_after: the verdict on this model with it, as measured; empty where it was not.
        command: what measures it on this model; empty where no command does.
        put_in: what a reader puts in for the names in the command; empty where it runs as it is.
        rank: the smallest first.
    """

    remedy: Remedy
    findings: tuple[Finding, ...]
    measured: tuple[str, ...]
    expected: tuple[str, ...]
    effect: str
    verdict: str
    command: str
    ends_leak: bool = False
    verdict_after: str = ""
    put_in: str = ""
    rank: tuple[int, ...] = field(repr=False, default=())

    @property
    def limits_access(self) -> bool:
        """Test whether it only keeps attackers away, so that no verdict changes."""
        return not self.remedy.lifts

    def answers_only(self, attacks: Collection[str]) -> bool:
        """Tell whether it answers findings of these attacks alone, on which no verdict rests."""
        return all(finding.aside and finding.attack in attacks for finding in self.findings)

    @property
    def lifts_exceeded(self) -> frozenset[str]:
        """Return the attacks that exceed a limit, which it may end; empty if it limits access."""
        if self.limits_access:
            return frozenset()
        exceeded = [item for item in self.findings if item.state == "violated" and not item.aside]
        return frozenset(finding.attack for finding in exceeded)

    @property
    def against(self) -> tuple[str, ...]:
        """Return the titles of the attacks whose findings it answers, each once."""
        attacks = dict.fromkeys(finding.attack for finding in self.findings if finding.attack)
        return tuple(text_of(attack).title or attack for attack in attacks)

    @property
    def in_short(self) -> str:
        """Return its name and its effect, as page one shows them."""
        return f"{self.remedy.name}. {self.effect}"
