"""Verdicts on models that remember values exactly or with wrong letters, with and without near-verbatim extraction.

Method: methods.md#near-verbatim. No model is trained: `simulated_attacks` draws what leaks. A
leaked value is one of the receipts sample (a customer, an address, a code or a date). Each letter
and digit of it is wrong with some probability, and the attack's own rule says whether that is near.
Codes and dates, half of the values, have to be exact. Membership and attribute inference are drawn
without a leak, since all limits of the default policy are corrected for together. "before" is exact
extraction alone.

    python -m benchmarks.near_verbatim          # writes benchmarks/near_verbatim.md; 10 minutes
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from audit.attacks.measuring import NEAR
from audit.policy import load
from audit.record import Result
from benchmarks import simulated_attacks
from benchmarks.simulated_attacks import Audit
from benchmarks.simulated_audits import decisions_of, fewer_resamples, worst

POLICY = replace(load("default"), demands=())
LEAKS = {"reconstruction": "excess_pr", "memorisation": "net"}
LIMIT = 0.05
OUTCOMES = ("passed", "undecided", "violated")
HEAD = """# Near-verbatim extraction

`python -m benchmarks.near_verbatim` (2-core CPU, {date}). {audits} simulated audits a row, twice as many without a
leak. Each document holds four values. A model remembers a share of the members' values. Each letter and digit of a
remembered value is wrong with the probability in the column "wrong letters". *Before* counts exact answers and fields
alone, *after* near ones as well. Counts are verdicts of the default policy on all its limits of the attack: passed,
undecided, violated.

| attack | documents | correlation | remembered | wrong letters | before | after |
| --- | --- | --- | --- | --- | --- | --- |
"""


def verdicts(attack: str, audit: Audit, seed: int) -> tuple[str, str]:
    """The worst outcome of the limits on an attack in one audit, without and with near-verbatim extraction."""
    rng = np.random.default_rng([seed, audit.documents])
    if attack == "memorisation":
        found = simulated_attacks.memorisation(audit, rng)
    else:
        found = simulated_attacks.reconstruction(audit, rng, [one.metric for one in POLICY.limits])
    exact = {
        metric: tuple(name for name in names if NEAR not in name)
        for metric, names in found.methods.items()
    }
    kind = "question answering" if attack == "memorisation" else "tagger"
    outcomes = []
    for own in (replace(found, methods=exact), found):
        decided = decisions_of(
            kind, {attack: own, **beside(audit.documents, audit.correlation, seed)}, POLICY
        )
        outcomes.append(
            worst([one.outcome for one in decided.values() if one.limit.attack == attack])
        )
    return outcomes[0], outcomes[1]


@cache
def beside(documents: int, correlation: float, seed: int) -> dict[str, Result]:
    """What the other attacks of a scan measure where nothing leaks."""
    audit, rng = (
        Audit(documents, correlation=correlation),
        np.random.default_rng([seed, documents, 1]),
    )
    return {
        "attribute_inference": simulated_attacks.attributes(audit, rng),
        "membership": simulated_attacks.membership(audit, rng),
    }


def main() -> None:
    """Simulate every setting and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=40, help="with a leak; twice as many without")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    options = parser.parse_args()
    cases = [(0, 0.0), *((3, errors) for errors in (0.0, 0.05, 0.1, 0.2))]
    lines = []
    with fewer_resamples(2000):
        for attack, metric in LEAKS.items():
            for documents, correlation in ((150, 0.3),):
                for factor, errors in cases:
                    leak = {f"{attack} {metric}": factor * LIMIT}
                    audit = Audit(documents, correlation=correlation, leak=leak, errors=errors)
                    audits = options.audits * (1 if factor else 2)
                    sides = zip(
                        *(verdicts(attack, audit, seed) for seed in range(audits)), strict=True
                    )
                    cells = [", ".join(str(Counter(own)[one]) for one in OUTCOMES) for own in sides]
                    row = (
                        attack,
                        documents,
                        correlation,
                        f"{factor * LIMIT:.0%}",
                        f"{errors:.0%}",
                        *cells,
                    )
                    lines.append(f"| {' | '.join(map(str, row))} |")
                    print(lines[-1], flush=True)
    head = HEAD.format(date=dt.datetime.now(dt.UTC).date().isoformat(), audits=options.audits)
    options.out.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
