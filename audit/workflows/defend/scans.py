"""One of the two scans that a comparison needs: what it measured, and the values by unit behind that."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from audit.attacks.interface import Attack
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.table import build_table
from audit.engine.interface import Progress
from audit.policy import Policy, Verdict
from audit.record import AuditRecord, Completed
from audit.stats.paired import Ratios, UnitScores
from audit.targets.utility import usefulness_by_document
from audit.workflows.changes import completed, why_missing
from audit.workflows.defend.memory import Memory
from audit.workflows.options import ScanOptions
from audit.workflows.scan import audit_checkpoint, fill_references, read_outcomes
from audit.workflows.setup import ScanSetup, open_scan


@dataclass(frozen=True, eq=False)
class ScanOfSide:
    """A scan that has run.

    Attributes:
        scores: by attack and metric, see `Attack.paired_scores`.
        useful: by measure, the sums behind the usefulness.
        memory: of the memorisation attack; None where it did not run to its end.
        attacks: those of the scan, by name.
        n_baselines: how many it was held against.
    """

    record: AuditRecord
    verdict: Verdict
    scores: Mapping[str, Mapping[str, UnitScores]]
    useful: Mapping[str, Ratios]
    memory: Memory | None
    attacks: Mapping[str, Attack]
    n_baselines: int

    def completed(self, name: str) -> Completed | None:
        """The result of an attack that ran to its end."""
        return completed(self.record, name)

    def missing(self, name: str) -> str:
        """Why an attack did not run to its end; empty where it did."""
        return why_missing(self.record, name)


def run_side(options: ScanOptions, policy: Policy, progress: Progress) -> Generator[str, None, ScanOfSide]:
    """Run one scan, and read from its journals what came of every trial.

    Args:
        options: of the scan.
        policy: by which it is judged.
        progress: of every trial.

    Yields:
        Warnings as they arise.

    Raises:
        DocauditError: the scan cannot start or go on.
    """
    opened = open_scan(options)
    yield from opened.warnings
    result = audit_checkpoint(opened, policy, progress)
    yield from result.warnings
    scores, memory, n_baselines = _read_journals(opened, result.record, progress)
    useful = usefulness_by_document(opened.defended(opened.target), opened.corpus, options.seed)
    attacks = {attack.name: attack for attack in opened.attacks}
    return ScanOfSide(result.record, result.verdict, scores, useful, memory, attacks, n_baselines)


def _read_journals(
    opened: ScanSetup, record: AuditRecord, progress: Progress
) -> tuple[dict[str, Mapping[str, UnitScores]], Memory | None, int]:
    """The values by unit of every attack that ran to its end, the outcomes of memorisation, and how many baselines."""
    done = {result.attack for result in record.attacks if isinstance(result, Completed)}
    if not done:
        return {}, None, 0
    filled = fill_references(opened, progress)
    scores: dict[str, Mapping[str, UnitScores]] = {}
    memory, n_baselines = None, 0
    for attack in opened.attacks:
        if attack.name not in done:
            continue
        case, trials, outcomes = read_outcomes(opened, attack.name, progress, filled)
        n_baselines = len(case.references.baselines)
        scores[attack.name] = attack.paired_scores(case, trials, outcomes)
        if isinstance(attack, Memorisation):
            memory = Memory(trials, outcomes, build_table(case, trials, outcomes, attack.anls_threshold))
    return scores, memory, n_baselines
