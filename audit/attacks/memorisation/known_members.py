"""Whether the generalisation baseline knows the documents that it is said never to have seen."""

from __future__ import annotations

from collections.abc import Sequence

from audit.measurements import Estimate, Measurement


def baseline_knows_members(measured: Sequence[Measurement]) -> str | None:
    """Why the baselines look trained on the audited documents; None when they do not.

    Never having seen either, they answer as often about member pages as about held-out ones when the answer is gone:
    what they answer more often about members hides as much of the model's memory. The two 95 % intervals must not
    overlap (ours; equal rates do that in under 1 % of audits).

    Args:
        measured: the attack's measurements.
    """
    found = {item.name: item for item in measured}
    member, heldout = (found.get(f"baseline_extracted.{split}") for split in ("member", "heldout"))
    if not (isinstance(member, Estimate) and isinstance(heldout, Estimate)) or member.low <= heldout.high:
        return None
    return (
        "the baseline looks trained on the audited documents: with the answer off the page it gives"
        f" {member.value:.3f} [{member.low:.3f}, {member.high:.3f}] of those of member pages and"
        f" {heldout.value:.3f} [{heldout.low:.3f}, {heldout.high:.3f}] of those of held-out ones"
    )
