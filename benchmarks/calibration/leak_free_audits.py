"""How often whole audits pass, are undecided or violated: without a leak, and with one of 1, 2 and 4 times a limit.

No model is trained. What the attacks would see is drawn (`simulated_attacks.py`), measured by the
attacks' own code and held against `policies/default.toml`, whatever limits and methods it has on
the day. Units are independent, or rows of a document go together with a correlation of 0.3.
Bootstraps draw fewer resamples than in a scan. The blind check is not simulated: it is one of the
checks that share 5 %. "Planned" is what `docaudit plan` says of the same units: the product of the
chances to pass each limit that it has a plan for, times 0.95 for the checks. It takes a document's
rows for one unit, and knows nothing of their correlation. Companies take longest: few audits,
small.

    python -m benchmarks.calibration.leak_free_audits  # rewrites leak_free_audits.json and .md
    # the rows with a leak as they were
    python -m benchmarks.calibration.leak_free_audits --keep-leaks
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from audit.attacks.interface import Units
from audit.attacks.reconstruction.table import METHODS
from audit.policy import Decision, Limit, Policy, load
from audit.record import Result
from audit.stats.roc import lowest_resolved
from audit.workflows.outlook import joint_chance
from audit.workflows.plan import resolve
from benchmarks.calibration import simulated_attacks as attacks
from benchmarks.calibration.simulated_attacks import Audit
from benchmarks.calibration.simulated_audits import decisions_of, fewer_resamples, worst

KINDS = {
    "tagger": ("reconstruction", "attribute_inference", "membership"),
    "question answering": ("memorisation", "membership"),
    "question answering, companies": ("provider_membership",),
    "utterances": ("canaries", "membership"),
}
SIZES = (150, 300, 1000)
CORRELATIONS = (0.0, 0.3)
TIMES = (1, 2, 4)
CANARIES = 64
COMPANIES = 45
RESAMPLES = 500
AREAS = ("auc", "balanced_accuracy")
OUTCOMES = ("passed", "undecided", "violated")
UNIQUE = 0.8
"""Share of rows whose value stands in one document (`simulated_attacks`)."""


def simulate(kind: str, audit: Audit, seed: int, policy: Policy) -> dict[str, Decision]:
    """The decisions of one audit."""
    rng = np.random.default_rng([seed, audit.documents, round(10 * audit.correlation)])
    wanted = [limit.metric for limit in policy.limits if limit.attack == "reconstruction"]
    found: dict[str, Result] = {}
    for name in KINDS[kind]:
        if name == "reconstruction":
            found[name] = attacks.reconstruction(audit, rng, wanted)
        elif name == "memorisation":
            found[name] = attacks.memorisation(audit, rng)
        elif name == "attribute_inference":
            found[name] = attacks.attributes(audit, rng)
        elif name == "membership":
            found[name] = attacks.membership(audit, rng)
        elif name == "canaries":
            found[name] = attacks.canaries(replace(audit, documents=CANARIES), rng)
        else:
            found[name] = attacks.providers(replace(audit, documents=COMPANIES), rng)
    return decisions_of(kind.partition(",")[0], found, policy)


def tally(kind: str, audit: Audit, audits: int, policy: Policy) -> dict[str, Any]:
    """Outcomes over so many audits, of the whole policy and of each limit, and the causes of what is undecided."""
    overall = Counter[str]()
    limits = dict[str, Counter[str]]()
    causes = Counter[str]()
    for seed in range(audits):
        decisions = simulate(kind, audit, seed, policy)
        overall[worst([decision.outcome for decision in decisions.values()])] += 1
        for name, decision in decisions.items():
            limits.setdefault(name, Counter())[decision.outcome] += 1
            if decision.cause is not None:
                causes[f"{name}: {decision.cause}"] += 1
    return {
        "kind": kind,
        "documents": audit.documents,
        "correlation": audit.correlation,
        "leak": dict(audit.leak),
        "audits": audits,
        "planned": round(planned_chance(kind, audit, policy), 3) if not audit.leak else None,
        "whole policy": dict(overall),
        "limits": {name: dict(found) for name, found in limits.items()},
        "causes": dict(causes),
    }


def units_of(kind: str, audit: Audit) -> dict[str, list[Units]]:
    """What the simulated data set has for each attack, as `Attack.units` would count it."""
    n = audit.documents
    shared = round(n * (1 - UNIQUE**audit.rows))
    groups = {"unique": n, "repeated": shared, "all": n}

    def differences(names: Iterable[str], methods: int) -> list[Units]:
        """Return the units of plain differences between two sides of equal size, by name."""
        sizes = [(name, groups[name.partition(".")[2]]) for name in names]
        return [
            Units(name, "plain difference", "documents", size, size, methods=methods)
            for name, size in sizes
        ]

    found = {
        "reconstruction": differences(
            ("excess_pr.unique", "excess_hamming.unique", "excess_pr.repeated"), len(METHODS)
        ),
        "attribute_inference": differences(("excess.unique", "excess.all"), 2),
        "memorisation": [
            Units("net", "paired difference", "documents", n, 0, methods=len(audit.contexts))
        ],
        "membership": [
            Units("auc", "auc", "documents", n, n, methods=2),
            Units("low_fpr_advantage", "low advantage", "documents", n, n, methods=2),
        ],
        "provider_membership": [
            Units("balanced_accuracy", "balanced accuracy", "providers", n, n, methods=4),
            Units("auc", "auc", "providers", n, n, methods=4),
            Units("low_fpr_advantage", "low advantage", "providers", n, n),
        ],
        "canaries": [
            Units(name, "plain difference", "canaries", CANARIES // 2, CANARIES // 2)
            for name in ("excess", "excess_top3")
        ],
    }
    return {name: found[name] for name in KINDS[kind]}


def planned_chance(kind: str, audit: Audit, policy: Policy) -> float:
    """How often a leak-free model passes, as `docaudit plan` prints it."""
    most = {(limit.attack, limit.metric): limit.max for limit in policy.limits}
    chances = []
    for attack, units in units_of(kind, audit).items():
        for one in units:
            limit = most.get((attack, one.metric))
            if limit is not None and not (
                one.kind == "low advantage" and lowest_resolved(one.others) is None
            ):
                chances.append(resolve(limit, one).pass_power)
    return joint_chance(chances)


def leak_of(limit: Limit, times: int) -> float | None:
    """How large a leak of so many times a limit is, beyond what no leak gives.

    None where it cannot be so large.

    An area under a curve leaks by what it is above a coin flip.
    """
    if limit.max is None:
        return None
    size = times * (limit.max - 0.5 if limit.metric in AREAS else limit.max)
    most = {"excess_exposure": 12.0, "identified": 1e9, "excess_hamming": 0.45}.get(
        limit.metric.partition(".")[0]
    )
    return size if size < (most or (0.5 if limit.metric in AREAS else 0.9)) else None


def planted(policy: Policy, times: Iterable[int]) -> Iterator[tuple[str, str, int, float]]:
    """Kind of model, "attack metric", how many times its limit, and the leak."""
    for limit in policy.limits:
        kind = next((kind for kind, names in KINDS.items() if limit.attack in names), None)
        for factor in times:
            size = leak_of(limit, factor)
            if kind is not None and size is not None:
                yield kind, f"{limit.attack} {limit.metric}", factor, size


def _clear_audits(kind: str, options: argparse.Namespace) -> Iterator[tuple[Audit, int]]:
    """Yield the audits without a leak of a kind of model, and how many of each."""
    if "provider_membership" in KINDS[kind]:
        yield Audit(COMPANIES, correlation=0.0), options.company_audits
        return
    for documents in SIZES:
        n_audits = options.audits // 3 if documents == max(SIZES) else options.audits
        for correlation in (0.0,) if kind == "utterances" else CORRELATIONS:
            yield Audit(documents, correlation=correlation), n_audits


def run(policy: Policy, options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is counted."""
    before = json.loads(options.out.read_text(encoding="utf-8")) if options.keep_leaks else {}
    before.setdefault("leaks of", before.get("date"))
    clear = []
    leaking = []
    for kind in KINDS:
        for audit, n_audits in _clear_audits(kind, options):
            clear.append(tally(kind, audit, n_audits, policy))
            print(clear[-1], flush=True)
    if options.keep_leaks:
        return {
            "without a leak": clear,
            **{name: before[name] for name in ("with a leak", "leaks of")},
        }
    for kind, name, factor, size in planted(policy, TIMES):
        companies = "provider_membership" in KINDS[kind]
        audit = Audit(COMPANIES if companies else options.leak_documents, leak={name: size})
        found = tally(
            kind, audit, options.company_audits if companies else options.leak_audits, policy
        )
        leaking.append({"limit": name, "times": factor, **found})
        print(leaking[-1], flush=True)
    return {"without a leak": clear, "with a leak": leaking, "leaks of": None}


def page(content: dict[str, Any]) -> str:
    """The tables, in Markdown."""
    lines = [
        "# Whole audits, simulated",
        "",
        str(__doc__).split("\n\n")[1].replace("\n", " "),
        "",
        f"Measured on a {content['machine']}, {content['date']}, {content['seconds']} s of CPU, {RESAMPLES} resamples, "
        f"{CANARIES} canaries, {COMPANIES} + {COMPANIES} companies.",
        "",
        "## Without a leak",
        "",
        "| model | documents a side | correlation | audits | planned | passed | undecided | violated | undecided "
        "because |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in content["without a leak"]:
        why = sorted(row["causes"].items(), key=lambda item: -item[1])[:3]
        cells = [
            row["kind"],
            row["documents"],
            f"{row['correlation']:g}",
            row["audits"],
            f"{row['planned']:.3f}",
            shares(row["whole policy"], row),
        ]
        cells.append("; ".join(f"{cause} ({count})" for cause, count in why))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    violated = sum(row["whole policy"].get("violated", 0) for row in content["without a leak"])
    audits = sum(row["audits"] for row in content["without a leak"])
    lines += [
        "",
        f"Confirmed violations of any limit of the whole policy: {violated} of {audits} audits without a leak.",
        "",
        "## With a leak",
        "",
        f"{content['leak_documents']} documents a side, no correlation. The outcome is that of the limit in which the "
        "leak was planted.",
        *(
            [f"These rows are of an earlier run, {content['leaks of']}."]
            if content.get("leaks of")
            else []
        ),
        "",
        "| limit | leak, times the limit | audits | passed | undecided | violated | whole policy passed |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in content["with a leak"]:
        own = row["limits"].get(row["limit"], {})
        whole = row["whole policy"].get("passed", 0) / row["audits"]
        lines.append(
            f"| {row['limit']} | {row['times']} | {row['audits']} | {shares(own, row)} | {whole:.3f} |"
        )
    return "\n".join(lines) + "\n"


def shares(counts: dict[str, int], row: dict[str, Any]) -> str:
    """Three cells of a table."""
    return " | ".join(f"{counts.get(name, 0) / row['audits']:.3f}" for name in OUTCOMES)


def main() -> None:
    """Simulate, and write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--audits",
        type=int,
        default=300,
        help="without a leak, of each kind; a third with 1,000 a side",
    )
    parser.add_argument("--leak-audits", type=int, default=200)
    parser.add_argument("--leak-documents", type=int, default=300)
    parser.add_argument("--company-audits", type=int, default=30)
    parser.add_argument(
        "--keep-leaks", action="store_true", help="do not count the rows with a leak anew"
    )
    parser.add_argument("--policy", default="default")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    with fewer_resamples(RESAMPLES):
        counted = run(load(options.policy), options)
    content = {
        "machine": "2-core CPU",
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.process_time()),
        "policy": options.policy,
        "resamples": RESAMPLES,
        "leak_documents": options.leak_documents,
        **counted,
    }
    options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(page(content), encoding="utf-8")


if __name__ == "__main__":
    main()
