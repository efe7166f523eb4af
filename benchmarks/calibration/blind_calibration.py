"""False alarms of the blind check, and what it makes of a split by date.

Method: methods/index.md#limits-and-methods.

Corpora are drawn from a pool of synthetic receipts (the generator of `sample_models`), pages and
images included, that `corpus/describe.py` describes once. Nothing is trained: the check never sees
a model. Where documents or providers were split by lot, a p of 5 % or less is a false alarm; where
documents were split by their date, it is what is wanted.

    python -m benchmarks.calibration.blind_calibration  # writes blind_calibration.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from receipts_generator import Market
from receipts_templates import document, write

from audit.arrays import Ints
from audit.corpus.documents import Corpus, Manifest, Membership, Task
from audit.corpus.features import describe
from audit.stats.blind import SIGNIFICANT, BlindCheck, blind_check

SEED = 3
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (methods/index.md#limits-and-methods)."""
RECEIPTS = 1_500
PROVIDERS = 200
DOCUMENTS = 60
"""A side, where documents are drawn by lot."""
DATED = 100
"""A side, where they are split by date, and by lot for comparison."""
IN = 40
"""Providers in, and as many out."""


@dataclass(frozen=True)
class Pool:
    """Receipts, described.

    Attributes:
        blocks: their features, as `Description.blocks`.
        provider: (n_receipts,) the number of each one's provider.
        date: (n_receipts,) seconds.
    """

    blocks: Mapping[str, Any]
    provider: Ints
    date: npt.NDArray[np.float64]

    def check(
        self, rows: Ints, member: npt.NDArray[np.bool_], rng: np.random.Generator, **more: Any
    ) -> BlindCheck:
        """The blind check on some of them."""
        blocks = {name: block[rows] for name, block in self.blocks.items()}
        found = blind_check(blocks, member, more.pop("units", rows), rng, **more)
        assert found is not None
        return found


def make_pool(receipts: int = RECEIPTS, providers: int = PROVIDERS) -> Pool:
    """Draw, print and describe the receipts."""
    market = Market(SEED, providers)
    drawn = [market.receipt(number) for number in range(receipts)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "images").mkdir()
        documents = tuple(
            document(one, f"r{number}", "heldout") for number, one in enumerate(drawn)
        )
        for page, one in zip(documents, drawn, strict=True):
            assert page.image is not None
            (root / page.image).write_bytes(write(one).png())
        corpus = Corpus(
            root, Manifest(1, "pool", Task("mlm"), Membership("random")), documents, "0" * 64
        )
        blocks = describe(corpus, documents).blocks
    names = np.unique([one.provider.name for one in drawn], return_inverse=True)[1]
    return Pool(blocks, names.astype(np.int64), np.array([one.date.timestamp() for one in drawn]))


def by_document(pool: Pool, rng: np.random.Generator, side: int = DOCUMENTS) -> BlindCheck:
    """Documents drawn by lot."""
    rows = rng.choice(len(pool.date), 2 * side, replace=False)
    return pool.check(rows, np.arange(2 * side) < side, rng)


def by_provider(pool: Pool, rng: np.random.Generator, side: int = IN) -> BlindCheck:
    """Providers drawn by lot, with all their documents, at most five."""
    chosen = rng.choice(np.unique(pool.provider), 2 * side, replace=False)
    rows = np.concatenate([np.flatnonzero(pool.provider == name)[:5] for name in chosen])
    return pool.check(
        rows,
        np.isin(pool.provider[rows], chosen[:side]),
        rng,
        units=pool.provider[rows],
        unit="provider",
    )


def within_providers(pool: Pool, rng: np.random.Generator) -> BlindCheck:
    """Two documents of each provider trained on and two kept aside, drawn by lot."""
    rows = np.concatenate(
        [
            rng.choice(own, 4, replace=False)
            for name in rng.permutation(np.unique(pool.provider))
            if len(own := np.flatnonzero(pool.provider == name)) >= 4
        ][: DOCUMENTS // 2]
    )
    return pool.check(rows, np.arange(len(rows)) % 4 < 2, rng, strata=pool.provider[rows])


def by_date(pool: Pool, rng: np.random.Generator) -> BlindCheck:
    """The later half of some receipts held out."""
    rows = rng.choice(len(pool.date), 2 * DATED, replace=False)
    return pool.check(rows, pool.date[rows] < np.median(pool.date[rows]), rng)


def same_at_random(pool: Pool, rng: np.random.Generator) -> BlindCheck:
    """The very receipts of `by_date`, split by lot."""
    rows = rng.choice(len(pool.date), 2 * DATED, replace=False)
    return pool.check(rows, rng.permutation(2 * DATED) < DATED, rng)


Kind = Callable[[Pool, np.random.Generator], BlindCheck]
LOTS: dict[str, Kind] = {
    f"documents by lot, {DOCUMENTS} + {DOCUMENTS}": by_document,
    f"providers by lot, {IN} + {IN}": by_provider,
    f"documents by lot within providers, {DOCUMENTS} + {DOCUMENTS}": within_providers,
}
DATES: dict[str, Kind] = {
    f"documents by date, {DATED} + {DATED}": by_date,
    f"the same documents by lot, {DATED} + {DATED}": same_at_random,
}


def checks(pool: Pool, kind: Kind, count: int) -> list[BlindCheck]:
    """So many checks of one kind; `by_date` and `same_at_random` draw the same receipts."""
    return [kind(pool, np.random.default_rng([SEED, seed])) for seed in range(count)]


def summary(found: list[BlindCheck]) -> dict[str, Any]:
    """How often members and others were told apart, and how well."""
    return {
        "corpora": len(found),
        "told apart": sum(check.p_value <= SIGNIFICANT for check in found),
        "mean AUC": round(float(np.mean([check.auc.value for check in found])), 4),
        "mean AUC of permuted labels": round(float(np.mean([check.chance for check in found])), 4),
        "median power for an AUC of 0.65": round(
            float(np.median([check.power for check in found])), 4
        ),
    }


def main() -> None:
    """Check every kind of corpus and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--by-lot", type=int, default=1000, help="corpora of each kind that was split by lot"
    )
    parser.add_argument(
        "--by-date", type=int, default=100, help="corpora split by date, and the same by lot"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    pool = make_pool()
    report: dict[str, Any] = {
        "receipts": RECEIPTS,
        "providers": PROVIDERS,
        "significant": SIGNIFICANT,
    }
    for kinds, count in ((LOTS, options.by_lot), (DATES, options.by_date)):
        for name, kind in kinds.items():
            report[name] = summary(checks(pool, kind, count))
            print(f"{name}: {report[name]}", flush=True)
    worst = max(report[name]["told apart"] for name in LOTS)
    print(f"false alarms, at most: {worst} of {options.by_lot} (allowed: {ALLOWED} of 1,000)")
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
