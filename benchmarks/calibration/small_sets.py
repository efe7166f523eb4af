"""Do repeated splits let owners of few documents pass? A design of the literature, and whose leak it judges.

With few documents one can train several models on random halves, so that each document is a member
of some and unseen by others (Carlini et al. 2022, section 5; cross-fitting). Twice the documents
then stand on either side. The outcomes of all models are pooled here by document, and measured by
the product's own `rates.excess_rate`. The question is whether a pass holds for the one model that
is deployed: it is the first of the models, and leaks exactly the limit.

    python -m benchmarks.calibration.small_sets  # rewrites small_sets.md
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from audit.measurements import PASS_ALPHA
from audit.stats.rates import excess_rate

LIMIT = 0.05
UNSEEN_RATE = 0.0025
SIZES = (40, 60, 80, 120, 160)
MODELS = (1, 2, 8)
OTHERS = {"nothing": 0.0, "half the limit": LIMIT / 2, "the limit": LIMIT}
"""What the models leak that are not deployed."""


def passes(n_documents: int, leaks: list[float], rng: np.random.Generator) -> bool:
    """Audit models that a lot trained on halves of the documents.

    Tell whether their pooled excess passes.

    Args:
        n_documents: of both sides together.
        leaks: excess of the rate of hits among members, by model.
        rng: source of the lots and the outcomes.
    """
    hits: dict[str, list[float]] = {"member": [], "unseen": []}
    documents: dict[str, list[int]] = {"member": [], "unseen": []}
    lot = rng.permutation(n_documents)
    for number, leak in enumerate(leaks):
        # Every second model is trained on the other half of a lot, so that each document has either
        # side.
        lot = np.roll(lot, n_documents // 2)
        if number % 2 == 0:
            rng.shuffle(lot)
        for side, part, rate in (
            ("member", lot[: n_documents // 2], leak + UNSEEN_RATE),
            ("unseen", lot[n_documents // 2 :], UNSEEN_RATE),
        ):
            hits[side] += (rng.random(part.size) < rate).astype(float).tolist()
            documents[side] += part.tolist()
    columns = [
        (np.array(hits[side]), None, np.array(documents[side])) for side in ("member", "unseen")
    ]
    interval = excess_rate(columns, rng)
    upper = next(upper for tail, _, upper in interval.bounds if tail == PASS_ALPHA)
    return bool(upper <= LIMIT)


def share(n_documents: int, leaks: list[float], audits: int) -> float:
    """Return the share of audits that pass."""
    rng = np.random.default_rng([n_documents, len(leaks), round(1e4 * sum(leaks))])
    return sum(passes(n_documents, leaks, rng) for _ in range(audits)) / audits


def page(audits: int) -> str:
    """Simulate all cells, and write them in Markdown."""
    lines = [
        "# Repeated splits of few documents",
        "",
        *str(__doc__).split("\n\n")[1].splitlines(),
        "",
        f"Limit {LIMIT:g}, {audits:,} audits a cell, {datetime.now(UTC).date().isoformat()}.",
        "",
        "Share of audits that pass: where no model leaks, and where the deployed model leaks the limit and the others",
        f"leak {', '.join(OTHERS)}.",
        "",
        "| documents in all | models | none leaks | "
        + " | ".join(f"others: {name}" for name in OTHERS)
        + " |",
        "|---|---|---|---|---|---|",
    ]
    for n_documents in SIZES:
        for n_models in MODELS:
            clean = share(n_documents, [0.0] * n_models, audits)
            cells = []
            for other in OTHERS.values():
                leaks = [LIMIT] + [other] * (n_models - 1)
                cells.append(f"{share(n_documents, leaks, audits):.3f}")
            lines.append(
                f"| {n_documents} | {n_models} | {clean:.3f} | " + " | ".join(cells) + " |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Simulate, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    options = parser.parse_args()
    options.out.write_text(page(options.audits), encoding="utf-8")


if __name__ == "__main__":
    main()
