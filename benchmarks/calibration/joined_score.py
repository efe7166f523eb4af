"""Ways to decide a pass of `low_fpr_advantage` by several scores: all of them, their mean rank, or their best rank.

    python -m benchmarks.calibration.joined_score  # rewrites joined_score.md; ten minutes

Two scores of each document are drawn, the loss and the calibrated loss. Unseen documents have
normal scores, and the loss has as much noise again. The rule was fixed before: a way of joining is
taken if models at the limit pass in at most 5 % of audits whatever score shows the leak, and clean
models pass most often.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.membership.scores import join_scores
from audit.stats.roc import low_advantage
from benchmarks.calibration.low_fpr_errors import limit_of_default

AUDITS = 500
SIZES = (75, 100, 150, 300)
RATE = 0.1
"""The false-positive rate that so many unseen documents resolve."""
Leak = Literal["none", "both scores", "calibrated alone", "loss alone", "all members a little"]
LEAKS: tuple[Leak, ...] = (
    "none",
    "both scores",
    "calibrated alone",
    "loss alone",
    "all members a little",
)
"""Which scores know some members for certain; the last moves the calibrated loss of all members."""


class Drawn(NamedTuple):
    """The scores of an audit, (n_documents,) each, and which documents are members."""

    loss: Floats
    calibrated: Floats
    member: Bools


def draw(leak: Leak, documents: int, advantage: float, rng: np.random.Generator) -> Drawn:
    """Draw the scores of an audit whose leak has this advantage by the score that shows it."""
    member = np.arange(2 * documents) < documents
    calibrated = rng.normal(size=member.size)
    noise = rng.normal(size=member.size)
    sure = member & (rng.random(member.size) < advantage / (1 - RATE))
    if leak in ("both scores", "calibrated alone"):
        leaking = np.where(sure, 10 + rng.random(member.size), calibrated)
    elif leak == "all members a little":
        normal = NormalDist()
        leaking = calibrated + member * (normal.inv_cdf(RATE + advantage) - normal.inv_cdf(RATE))
    else:
        leaking = calibrated
    seen_by_loss = leaking
    if leak == "calibrated alone":
        seen_by_loss = calibrated
    loss = seen_by_loss + noise
    if leak == "loss alone":
        loss = np.where(sure, 20 + rng.random(member.size), loss)
    return Drawn(loss, leaking, member)


def passes(scores: list[Floats], singles: list[Floats], member: Bools, limit: float) -> bool:
    """Tell whether the bounds of `scores` are within the limit, and the numbers of `singles`."""
    for score in scores:
        found = low_advantage(score[member], score[~member])
        if found is None or found.advantage.high > limit:
            return False
    for score in singles:
        found = low_advantage(score[member], score[~member])
        if found is None or found.advantage.value > limit:
            return False
    return True


def all_scores(drawn: Drawn, limit: float) -> bool:
    """Decide by every score."""
    return passes([drawn.loss, drawn.calibrated], [], drawn.member, limit)


def mean_rank(drawn: Drawn, limit: float) -> bool:
    """Decide by the mean of ranks, and by the number of every score."""
    ranks = [np.argsort(np.argsort(score)) for score in (drawn.loss, drawn.calibrated)]
    return passes([np.mean(ranks, axis=0)], [drawn.loss, drawn.calibrated], drawn.member, limit)


def best_rank(drawn: Drawn, limit: float) -> bool:
    """Decide by the best rank, as docaudit does, and by the number of every score."""
    columns = {"loss": drawn.loss, "calibrated": drawn.calibrated}
    joined = join_scores(columns, tuple(columns))
    assert joined is not None
    return passes([joined], [drawn.loss, drawn.calibrated], drawn.member, limit)


WAYS: dict[str, Callable[[Drawn, float], bool]] = {
    "every score": all_scores,
    "mean rank": mean_rank,
    "best rank": best_rank,
}


def share_of_passes(way: str, leak: Leak, documents: int, times: int) -> float:
    """Simulate audits of a leak of so many times the limit."""
    limit = limit_of_default()
    rng = np.random.default_rng([documents, times, LEAKS.index(leak)])
    passed = 0
    for _ in range(AUDITS):
        passed += WAYS[way](draw(leak, documents, times * limit, rng), limit)
    return passed / AUDITS


def main() -> None:
    """Simulate all cells and write the table."""
    lines = [
        "# One score for a pass of `low_fpr_advantage`",
        "",
        str(__doc__).split("\n\n")[2].replace("\n", " "),
        "",
        f"Share of {AUDITS} audits that pass. Measured on a 2-core CPU, {datetime.now(UTC).date()}.",
        "",
        f"| documents a side | leak | times the limit | {' | '.join(WAYS)} |",
        f"|---|---|---|{'---|' * len(WAYS)}",
    ]
    for documents in SIZES:
        for leak in LEAKS:
            for times in (1, 2):
                if leak == "none" and times == 2:
                    continue
                shares = [f"{share_of_passes(way, leak, documents, times):.3f}" for way in WAYS]
                shown = "" if leak == "none" else times
                lines.append(f"| {documents} | {leak} | {shown} | {' | '.join(shares)} |")
                print(lines[-1], flush=True)
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
