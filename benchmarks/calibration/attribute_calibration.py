"""False alarms, passes and power of the limits on attribute inference on simulated audits.

Method: methods/index.md#limits-and-methods.

No model is trained: `simulated_attacks.attributes` draws the losses of 16 candidates a value, four
values a document, one in five of which stands in several documents; target and public model share
what is likely anyway. Values are picked, measured and held against the limits by the attack's and
the policy's own code, Holm over all limits and both methods. A leak is a share of the members' true
values that the target remembers. The blind check is left out.

    python -m benchmarks.calibration.attribute_calibration  # writes attribute_calibration.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from audit.policy import Policy, load
from benchmarks.calibration import simulated_attacks as attacks
from benchmarks.calibration.simulated_attacks import Audit
from benchmarks.calibration.simulated_audits import decisions_of, fewer_resamples, worst

SIZES = (40, 75, 150, 300, 1000)
CORRELATIONS = (0.0, 0.3)
TIMES = (1, 2, 4)
KNOWN = (10, 50)
"""Documents known in all values, of 1,000."""
ATTACK = "attribute_inference"
METRIC = "excess.unique"
RESAMPLES = 1000
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (methods/index.md#limits-and-methods)."""


def own_limits(policy: Policy) -> Policy:
    """The policy with the limits on this attack alone."""
    return replace(policy, limits=tuple(limit for limit in policy.limits if limit.attack == ATTACK))


def tally(audit: Audit, audits: int, policy: Policy) -> dict[str, Any]:
    """Outcomes over so many audits: of both limits together, and of each."""
    overall = Counter[str]()
    limits = dict[str, Counter[str]]()
    for seed in range(audits):
        rng = np.random.default_rng([seed, audit.documents, round(10 * audit.correlation)])
        decisions = decisions_of("tagger", {ATTACK: attacks.attributes(audit, rng)}, policy)
        overall[worst([decision.outcome for decision in decisions.values()])] += 1
        for name, decision in decisions.items():
            limits.setdefault(name, Counter())[decision.outcome] += 1
    return {
        "documents": audit.documents,
        "correlation": audit.correlation,
        "leak": dict(audit.leak),
        "audits": audits,
        "both limits": dict(overall),
        "limits": {name: dict(found) for name, found in limits.items()},
    }


def words_of_alarms(row: dict[str, Any], audits: int) -> str:
    """Say where more audits without a leak are violated than at most 5 % may show."""
    alarms = row["both limits"].get("violated", 0)
    return " (too many false alarms)" if alarms > ALLOWED * audits / 1000 else ""


def main() -> None:
    """Simulate, and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=1000, help="without a leak; with one a fifth")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {
        "without a leak": [],
        "with a leak": [],
        "known documents": [],
    }
    with fewer_resamples(RESAMPLES):
        for name in ("default", "strict"):
            policy = own_limits(load(name))
            for documents in SIZES if name == "default" else SIZES[-1:]:
                for correlation in CORRELATIONS:
                    audits = options.audits // 5
                    if name == "default" and documents < max(SIZES):
                        audits = options.audits
                    counts = tally(Audit(documents, correlation=correlation), audits, policy)
                    row = {"policy": name, **counts}
                    rows["without a leak"].append(row)
                    print(f"{row}{words_of_alarms(row, audits)}", flush=True)
        policy = own_limits(load("default"))
        most = next(limit.max for limit in policy.limits if limit.metric == METRIC)
        assert most is not None
        for documents in (150, 300):
            for factor in TIMES:
                leak = {f"{ATTACK} excess": factor * most}
                rows["with a leak"].append(
                    {
                        "times": factor,
                        **tally(Audit(documents, leak=leak), max(1, options.audits // 5), policy),
                    }
                )
                print(rows["with a leak"][-1], flush=True)
        for known in KNOWN:
            counts = tally(Audit(documents=1000, known=known), max(1, options.audits // 5), policy)
            rows["known documents"].append({"known": known, **counts})
            print(rows["known documents"][-1], flush=True)
    content = {
        "machine": "2-core CPU",
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.process_time()),
        "resamples": RESAMPLES,
        **rows,
    }
    options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
