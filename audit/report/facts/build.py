"""Turn a record and the verdict on it into facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from audit.policy import Verdict
from audit.record import AuditRecord
from audit.report.commands import Called, Commands
from audit.report.facts.access import access_rows, releases_of
from audit.report.facts.definitions import Facts
from audit.report.facts.kinds import kinds_of, nothing_returned
from audit.report.facts.leaks import signs_of_training, unlimited, within
from audit.report.facts.questions import questions_of, questions_on_model
from audit.report.facts.recommend import recommend
from audit.report.facts.undecided import alarm_of, deciding_outcome, next_step, open_limits

if TYPE_CHECKING:  # It loads types that no gate needs.
    from audit.compare.defended import MeasuredDefense


def facts_of(
    record: AuditRecord,
    verdict: Verdict,
    comparisons: Sequence[MeasuredDefense] = (),
    called: Called | None = None,
) -> Facts:
    """Compute every number that outputs show of an audit.

    Args:
        record: the scan.
        verdict: on it.
        comparisons: what countermeasures were measured to do to this model.
        called: how the scan was called; None: names stand in commands for its arguments.

    Raises:
        RenderError: `policies/defenses.toml` cannot be read.
    """
    rows = questions_of(record, verdict)
    accepted = within(verdict)
    outside = unlimited(verdict)
    access = access_rows(record, verdict, rows, (*accepted, *outside))
    return Facts(
        record=record,
        verdict=verdict,
        outcome=deciding_outcome(verdict),
        rows=rows,
        rows_on_model=questions_on_model(record, verdict, rows),
        kinds=kinds_of(record, rows),
        nothing_returned=nothing_returned(record),
        actions=recommend(record, verdict, comparisons, called),
        open=open_limits(record, verdict),
        alarm=alarm_of(verdict),
        next_step=next_step(record, verdict),
        accepted=accepted,
        outside=outside,
        commands=Commands(record, verdict, called or Called()),
        signs=signs_of_training(verdict.settled),
        access=access,
        releases=releases_of(record, access),
    )
