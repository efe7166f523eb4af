"""Checks of a whole scan, which bear on several attacks and are made once, whichever attacks run.

They ask whether held-out documents were trained on (`refit`), whether references know audited
documents (`innocence`), whether held-out documents resemble training ones (`resemblance`), and
whether pages are written otherwise than in training (`writing`);
methods/checks.md#checks-of-the-documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.attacks.interface import Attack, loss_kind
from audit.attacks.membership import innocence, refit, resemblance
from audit.attacks.membership.documents import choose_readable, reference_of
from audit.attacks.membership.writing import N_MEMBERS, Asking, check_writing
from audit.case import Case
from audit.engine.interface import Progress
from audit.measurements import Check, Condition

LOSSLESS = "the model gives no loss of a document"
WRITING = "pages written otherwise than in training"


@dataclass(frozen=True)
class ScanChecks:
    """Hold the checks of a whole scan.

    Attributes:
        checks: checks that were made.
        conditions: what a pass rests on, and whether it is shown.
        untested: what was not tested and why, in sentences.
    """

    checks: tuple[Check, ...] = ()
    conditions: tuple[Condition, ...] = ()
    untested: tuple[str, ...] = ()


def untested_scan(why: str) -> ScanChecks:
    """Return the checks of a scan that could make none of them, for one reason."""
    return ScanChecks(
        conditions=(refit.condition_of(why),), untested=(f"checks of the scan: {why}",)
    )


def check_scan(
    case: Case, width: int, progress: Progress, attacks: Sequence[Attack] = ()
) -> ScanChecks:
    """Make the checks of a whole scan.

    Args:
        case: the audit.
        width: documents that are asked about at a time.
        progress: advanced by every document.
        attacks: attacks of the scan, for which references are tested.
    """
    likeness = resemblance.check_heldout(case.corpus)
    if loss_kind(case.target) is None:
        checks = _join(
            {refit.SUBJECT: [LOSSLESS], WRITING: [LOSSLESS], resemblance.SUBJECT: [likeness]}
        )
        return ScanChecks(checks.checks, (refit.condition_of(LOSSLESS),), checks.untested)
    compared = refit.choose_compared(case)
    losses = innocence.ask_own_losses(case, compared, width, progress)
    of_target = losses.pop(innocence.TARGET, {})
    knowledge = {
        role: innocence.examine(role, compared, role_losses) for role, role_losses in losses.items()
    }
    role = reference_of(case)[0]
    unseen = refit.check_heldout(
        compared, of_target, refit.Reference(role, losses.get(role, {}), knowledge.get(role))
    )
    members = choose_readable(case, case.corpus.of("member"), N_MEMBERS)
    progress.stage("ways of writing")
    checks = _join(
        {
            refit.SUBJECT: [unseen if isinstance(unseen, str) else unseen.check],
            WRITING: [*check_writing(Asking(case, width, progress), members)],
            resemblance.SUBJECT: [likeness],
        }
    )
    guilt = {name: facts for name, facts in knowledge.items() if facts is not None}
    references = innocence.check_references(case, compared, guilt, users_of(case, attacks))
    return ScanChecks((*checks.checks, *references), (refit.condition_of(unseen),), checks.untested)


def users_of(case: Case, attacks: Sequence[Attack]) -> dict[str, tuple[str, ...]]:
    """Name by role of reference the attacks that compare the target with it.

    Document membership takes the first role that can be asked what the target is asked, and split
    models.
    """
    users: dict[str, tuple[str, ...]] = {}
    for role in innocence.ROLES:
        names = [attack.name for attack in attacks if role in attack.compared_with(case)]
        if role not in (reference_of(case)[0], innocence.SPLITS):
            names = [name for name in names if name != innocence.MEMBERSHIP]
        users[role] = tuple(names)
    return users


def _join(outcomes_by_subject: Mapping[str, Sequence[Check | str]]) -> ScanChecks:
    """Separate checks that were made from sentences on what could not be tested."""
    checks: list[Check] = []
    untested: list[str] = []
    for subject, outcomes in outcomes_by_subject.items():
        checks += [outcome for outcome in outcomes if isinstance(outcome, Check)]
        untested += [f"{subject}: {outcome}" for outcome in outcomes if isinstance(outcome, str)]
    return ScanChecks(tuple(checks), untested=tuple(untested))
