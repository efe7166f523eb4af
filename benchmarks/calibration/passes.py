"""How often models without a leak pass the default policy, by documents a side, and models at a limit and at twice it.

No model is trained: outcomes are drawn and measured by the attacks' own code, as in
`leak_free_audits.py`. Of a leak only the attack that it is planted in is simulated, so that a whole
policy passes at most as often. Every cell has the same draws whatever the code that measures them:
run the script in an older checkout for the column "before".

    python -m benchmarks.calibration.passes --out before.json  # in a checkout of the older version
    python -m benchmarks.calibration.passes --before before.json  # rewrites passes.json and .md
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from audit.policy import Limit, load
from benchmarks.calibration.leak_free_audits import KINDS, leak_of, tally
from benchmarks.calibration.simulated_attacks import Audit
from benchmarks.calibration.simulated_audits import TASKS, USEFUL, fewer_resamples

SIZES = (75, 100, 150, 300)
CORRELATIONS = (0.0, 0.3)
MODELS = {
    "tagger": ("reconstruction", "attribute_inference", "membership"),
    "question answering": ("memorisation", "attribute_inference", "membership"),
    "parsing": ("memorisation", "attribute_inference", "membership"),
    "utterances": ("canaries", "membership"),
}
"""The attacks that are simulated for each kind of model."""
UNITS = {"canaries": "utterances", "memorisation": "question answering"}
"""The kind of model that a leak in an attack is planted in; "tagger" for all others."""
RESAMPLES = 300
TIMES = (1, 2)
LEAK_SIZES = (100, 150)


class Cell(NamedTuple):
    """Simulated audits of one kind.

    Attributes:
        model: a key of `MODELS`.
        documents: a side.
        correlation: of the rows of a document.
        limit: "attack metric" that a leak is planted in; empty without a leak.
        times: how many times the limit leaks.
    """

    model: str
    documents: int
    correlation: float
    limit: str = ""
    times: int = 0


def cells_without_a_leak() -> list[Cell]:
    """List the cells of the first table; utterances hold one row each, so nothing correlates."""
    cells: list[Cell] = []
    for model, documents in product(MODELS, SIZES):
        correlations = CORRELATIONS[:1] if model == "utterances" else CORRELATIONS
        cells += [Cell(model, documents, correlation) for correlation in correlations]
    return cells


def is_share(limit: Limit) -> bool:
    """Tell whether the whole interval of a number is limited, by a simulated attack."""
    simulated = {"reconstruction", "memorisation", "attribute_inference", "membership", "canaries"}
    return limit.attack in simulated and limit.holds == "interval" and limit.max is not None


def cells_with_a_leak() -> list[Cell]:
    """List the cells of the second table: each limit on a share or an area, once and twice."""
    cells = []
    for limit in load("default").limits:
        if not is_share(limit):
            continue
        for documents in LEAK_SIZES:
            for times in TIMES:
                if leak_of(limit, times) is not None:
                    model = UNITS.get(limit.attack, "tagger")
                    cells.append(
                        Cell(model, documents, 0.0, f"{limit.attack} {limit.metric}", times)
                    )
    return cells


def run_cell(audits: int, cell: Cell) -> dict[str, Any]:
    """Simulate a cell and count its outcomes."""
    started = time.process_time()
    policy = load("default")
    # What an older version does not simulate is added here.
    TASKS.setdefault("parsing", "parsing")
    USEFUL.setdefault("parsing", "anls")
    attacks = MODELS[cell.model]
    leak: dict[str, float] = {}
    if cell.limit:
        attack, _, metric = cell.limit.partition(" ")
        limit = next(
            limit for limit in policy.limits if (limit.attack, limit.metric) == (attack, metric)
        )
        size = leak_of(limit, cell.times)
        assert size is not None
        leak = {cell.limit: size}
        attacks = (attack,)
    KINDS[cell.model] = attacks
    with fewer_resamples(RESAMPLES):
        audit = Audit(cell.documents, correlation=cell.correlation, leak=leak)
        counted = tally(cell.model, audit, audits, policy)
    seconds = round(time.process_time() - started)
    return {**cell._asdict(), **counted, "seconds": seconds, "leak": leak}


def share(row: dict[str, Any], outcome: str) -> float:
    """Return the share of audits of a row whose whole policy, or planted limit, has an outcome."""
    counts = row["limits"][row["limit"]] if row["limit"] else row["whole policy"]
    return float(counts.get(outcome, 0)) / float(row["audits"])


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a cell from others."""
    return tuple(row[name] for name in Cell._fields)


def audits_of(rows: list[dict[str, Any]]) -> str:
    """Say how many audits the cells without and with a leak have."""
    clean = {row["audits"] for row in rows if not row["limit"]}
    leaking = {row["audits"] for row in rows if row["limit"]}
    return f"{min(clean, default=0)} without and {min(leaking, default=0)} with a leak"


def page(content: dict[str, Any]) -> str:
    """Write the tables in Markdown."""
    before = {key_of(row): row for row in content["before"]}
    lines = [
        "# Passes by the number of documents",
        "",
        str(__doc__).split("\n\n")[1].replace("\n", " "),
        "",
        f"Measured on a {content['machine']}, {content['date']}: {audits_of(content['rows'])} audits a cell, "
        f"before {audits_of(content['before'])}, {RESAMPLES} resamples.",
        "",
        "## Without a leak: share of audits that pass the whole policy",
        "",
        "| model | documents a side | correlation | before | now | violated | planned | what keeps from passing |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        if row["limit"]:
            continue
        earlier = before.get(key_of(row))
        was = "" if earlier is None else f"{share(earlier, 'passed'):.3f}"
        causes = sorted(row["causes"].items(), key=lambda item: -item[1])[:3]
        why = "; ".join(f"{cause} ({number})" for cause, number in causes)
        lines.append(
            f"| {row['model']} | {row['documents']} | {row['correlation']:g} | {was} | {share(row, 'passed'):.3f} "
            f"| {share(row, 'violated'):.3f} | {row['planned']:.3f} | {why} |"
        )
    lines += [
        "",
        "## With a leak: outcomes of the limit that it is planted in",
        "",
        "| limit | documents a side | leak, times the limit | passed before | passed | violated before | violated |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        if not row["limit"]:
            continue
        earlier = before.get(key_of(row))
        outcomes = (
            ["", ""]
            if earlier is None
            else [f"{share(earlier, name):.3f}" for name in ("passed", "violated")]
        )
        lines.append(
            f"| {row['limit']} | {row['documents']} | {row['times']} | {outcomes[0]} | {share(row, 'passed'):.3f} "
            f"| {outcomes[1]} | {share(row, 'violated'):.3f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Simulate, and write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--before", type=Path, help="the JSON of an older checkout")
    parser.add_argument("--only", choices=("leaks", "clean"), help="one of both tables")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    cells: list[Cell] = []
    if options.only != "leaks":
        cells += cells_without_a_leak()
    if options.only != "clean":
        cells += cells_with_a_leak()
    rows = []
    with ProcessPoolExecutor(options.workers) as pool:
        for row in pool.map(partial(run_cell, options.audits), cells):
            rows.append(row)
            print(json.dumps(row), flush=True)
    content = {
        "machine": "2-core CPU",
        "date": datetime.now(UTC).date().isoformat(),
        "audits": options.audits,
        "rows": rows,
        "before": []
        if options.before is None
        else json.loads(options.before.read_text(encoding="utf-8"))["rows"],
    }
    options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(page(content), encoding="utf-8")


if __name__ == "__main__":
    main()
