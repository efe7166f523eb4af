"""How often staged scans pass, are undecided or violated, beside scans of all trials, and how many trials they take.

No model is trained. What the attacks would see is drawn (`simulated_attacks.py`), measured by the
attacks' own code and judged by `policies/default.toml`. Both kinds of scan see the same draws. A
stage tries the first rows of each document, or the first documents where each has one row.
Bootstraps draw fewer resamples than in a scan. Half of the audits are of taggers and half of models
that answer questions, with 200 documents a side. "Twice a limit" plants a leak of twice one limit,
which takes turns. "Memoriser" gives away half of everything.

    python benchmarks/stages.py                                # rewrites the first part of
    benchmarks/stages.md python benchmarks/stages.py --before TREE letters/model    # scans samples
    with all budgets, and rewrites the rest
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import simulated_attacks as attacks
from leak_free_audits import planted
from simulated_attacks import Audit
from simulated_audits import completed, decisions_of, fewer_resamples, worst

from audit.policy import STAGES, Policy, is_sure, load, p_of_all
from audit.policy.verdict import count_tests
from audit.record import Result
from audit.stats.intervals import clopper_pearson

KINDS = {
    "tagger": ("reconstruction", "attribute_inference", "membership"),
    "question answering": ("memorisation", "membership"),
}
TRIALS = {"reconstruction": 8, "attribute_inference": 8, "memorisation": 8, "membership": 2}
"""Trials of each pair of a member and a held-out document."""
DOCUMENTS, RESAMPLES = 200, 500
TWICE = 2
PARTS = {"clean": 1, "twice a limit": 1, "memoriser": 10}
"""Kinds of audits, and of `--audits` the part that is of this kind: one in so many."""
MEMORISER = dict.fromkeys(
    ("reconstruction excess_pr", "attribute_inference excess", "memorisation net"), 0.5
)
MEMORISER["membership auc"] = 0.4
HEAD = (
    "audits",
    "scan",
    "n",
    "violated (95 % CI)",
    "passed (95 % CI)",
    "undecided",
    "trials taken",
)
ROOT = Path(__file__).parents[1]
MARK = "<!-- samples -->\n"
"""In the page; what lies below it is of the samples, and stays."""


def found_by(name: str, audit: Audit, seed: int, policy: Policy) -> Result:
    """What an attack measures on the part of an audit that its share takes."""
    rng = np.random.default_rng([seed, *name.encode()])
    if name == "reconstruction":
        wanted = [limit.metric for limit in policy.limits if limit.attack == name]
        return completed(name, attacks.reconstruction(audit, rng, wanted))
    draw = {"memorisation": attacks.memorisation, "attribute_inference": attacks.attributes}
    return completed(name, draw.get(name, attacks.membership)(audit, rng))


def compare(
    kind: str, audit: Audit, seed: int, policy: Policy
) -> tuple[str, str, float, list[int]]:
    """The outcome of a scan of all trials and of a staged one, the share of trials of the latter, and its stages."""
    names = KINDS[kind]
    whole = {name: found_by(name, audit, seed, policy) for name in names}
    done: list[Result] = []
    for place, name in enumerate(names):
        to_come = sum(count_tests(policy.limits, whole[later]) for later in names[place + 1 :])
        p_value = 0.0
        for stage in STAGES:
            if stage.early and p_value == 1:
                continue
            part = (
                whole[name]
                if not stage.early
                else found_by(name, replace(audit, share=stage.share), seed, policy)
            )
            found = replace(part, stage=stage)
            p_value = p_of_all(policy.limits, found)
            if stage.early and is_sure(
                policy.limits, [*done, found], tuple, lambda count=to_come: count
            ):  # type: ignore[misc]
                break
        done.append(found)
    outcomes = []
    for results in (whole, {one.attack: one for one in done}):
        decisions = decisions_of(kind, results, policy)
        outcomes.append(worst([decision.outcome for decision in decisions.values()]))
        stopped = {name for name, one in results.items() if one.stage.early}
        wrong = [
            key
            for key, one in decisions.items()
            if one.limit.attack in stopped and one.outcome != "violated"
        ]
        assert not wrong, wrong
    taken = sum(TRIALS[one.attack] * one.stage.share for one in done) / sum(
        TRIALS[name] for name in names
    )
    return outcomes[0], outcomes[1], taken, [one.stage.number for one in done]


def run(policy: Policy, audits: int, kinds: list[str]) -> list[dict[str, Any]]:
    """The rows of these kinds of audits."""
    limits = [one for one in planted(policy, (TWICE,)) if one[0] in KINDS]
    rows = []
    for title, part in ((kind, PARTS[kind]) for kind in kinds):
        counts = {"all trials": Counter[str](), "staged": Counter[str]()}
        shares, stages, changed = [], Counter[int](), Counter[str]()
        n = audits // part
        for seed in range(n):
            kind, leak = [*KINDS][seed % 2], MEMORISER if title == "memoriser" else {}
            if title == "twice a limit":
                kind, name, _, size = limits[seed % len(limits)]
                leak = {name: size}
            audit = Audit(DOCUMENTS, correlation=0.3 * (seed // 2 % 2), leak=leak)
            one, other, taken, numbers = compare(kind, audit, seed, policy)
            counts["all trials"][one] += 1
            counts["staged"][other] += 1
            changed[f"{one} to {other}"] += one != other
            shares.append(taken)
            stages.update(numbers)
        row = {
            "audits": title,
            "n": n,
            "outcomes": {name: dict(own) for name, own in counts.items()},
        }
        row |= {
            "share": float(np.mean(shares)),
            "stages": dict(sorted(stages.items())),
            "changed": dict(+changed),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def page(rows: list[dict[str, Any]], machine: str) -> str:
    """The first part of the page."""
    lines = ["# Stages", "", str(__doc__).split("\n\n")[1].replace("\n", " "), ""]
    date = datetime.now(UTC).date()
    lines += [f"Measured on a {machine}, {date}, {RESAMPLES} resamples.", ""]
    lines += [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for row in rows:
        for scan, counts in row["outcomes"].items():
            cells = [row["audits"], scan, row["n"]]
            for name in ("violated", "passed"):
                interval = clopper_pearson(counts.get(name, 0), row["n"])
                cells.append(f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})")
            taken = 1.0 if scan == "all trials" else row["share"]
            cells += [f"{counts.get('undecided', 0) / row['n']:.3f}", f"{taken:.3f}"]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "Outcomes that differ between both scans, and attacks by the stage that decided them:",
        "",
    ]
    for row in rows:
        stages = ", ".join(f"stage {number}: {count}" for number, count in row["stages"].items())
        changed = (
            ", ".join(f"{name}: {count}" for name, count in row["changed"].items())
            or "none changed"
        )
        lines.append(f"- {row['audits']}: {changed}; {stages}.")
    return "\n".join([*lines, "", MARK])


def scan(tree: Path, sample: str, out: Path, *options: str) -> dict[str, Any]:
    """Scan a sample by the code of a tree: exit code, verdict by limit, trials taken, processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    folder = ROOT / "sample_models" / sample.partition("/")[0]
    command = [
        "-m",
        "audit",
        "scan",
        folder.parent / sample,
        folder / "data",
        "--out",
        out,
        "--quiet",
        *options,
    ]
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    record = json.loads((out / "record.json").read_text(encoding="utf-8"))
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stages = {
        one["attack"]: one.get("stage", {}).get("share", 1)
        for one in record["attacks"]
        if one["measurements"]
    }
    return {
        "code": done.returncode,
        "trials": record["timing"]["outcomes"],
        "seconds": seconds,
        "stages": stages,
    }


def compare_samples(samples: list[str], before: Path, budget: str) -> str:
    """A table of the samples: staged, with all trials, and by the code before stages."""
    lines = [
        "## Samples",
        "",
        "| sample | scan | exit code | trials | processor seconds | share of each attack |",
    ]
    lines += ["|---|---|---|---|---|---|"]
    for sample in samples:
        with tempfile.TemporaryDirectory() as place:
            for name, tree, options in (
                ("staged", ROOT, ()),
                ("--no-stages", ROOT, ("--no-stages",)),
                ("before", before, ()),
            ):
                found = scan(tree, sample, Path(place) / name, "--budget", budget, *options)
                shares = ", ".join(
                    f"{attack} {share:g}" for attack, share in found["stages"].items()
                )
                cells = [
                    sample,
                    name,
                    found["code"],
                    found["trials"],
                    f"{found['seconds']:.1f}",
                    shares,
                ]
                lines.append(f"| {' | '.join(map(str, cells))} |")
                print(lines[-1], flush=True)
    return "\n".join([*lines, ""])


def main() -> None:
    """Simulate or scan, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", default=[*PARTS], choices=[*PARTS], help="of audits")
    parser.add_argument(
        "--rows", type=argparse.FileType(), help="what earlier runs printed, instead of simulating"
    )
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    parser.add_argument("--before", type=Path, help="a checkout of the code before stages")
    parser.add_argument("--budget", default="standard")
    parser.add_argument("samples", nargs="*", help="SAMPLE/MODEL")
    given = parser.parse_args()
    first, mark, rest = (
        given.out.read_text(encoding="utf-8") if given.out.exists() else ""
    ).partition(MARK)
    if given.samples:
        rest = compare_samples(given.samples, given.before, given.budget)
        given.out.write_text(first + (mark or MARK) + rest, encoding="utf-8")
        return
    policy = load("default")
    with fewer_resamples(RESAMPLES):
        rows = (
            run(policy, given.audits, given.kinds)
            if given.rows is None
            else [*map(json.loads, given.rows)]
        )
    given.out.write_text(page(rows, given.machine) + rest, encoding="utf-8")


if __name__ == "__main__":
    main()
