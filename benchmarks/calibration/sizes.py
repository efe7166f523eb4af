"""Verdicts on the samples with fewer documents a side, by an older checkout and by this one.

    git worktree add ../older COMMIT
    python -m benchmarks.calibration.sizes --before ../older  # rewrites sizes.json and .md

Each data set keeps its first documents of either side and all public ones; planted secrets and the
documents that hold them stay. Both checkouts scan the same folders with the default policy and the
standard budget.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audit.policy.decision import word_of
from benchmarks.tools.checkouts import scan_with

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parents[1] / "sample_models"
MODELS = ("receipts/model", "receipts/clean", "utterances/model", "utterances/clean")
SIZES = (100, 150)


def cut(source: Path, folder: Path, size: int) -> None:
    """Copy a data set with so many documents a side."""
    shutil.copytree(source, folder)
    documents = folder / "documents.jsonl"
    planted = ""
    if (folder / "canaries.json").exists():
        planted = (folder / "canaries.json").read_text(encoding="utf-8")
    taken = Counter[str]()
    lines = []
    for line in documents.read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        if f'"{document["id"]}"' not in planted and document["split"] != "public":
            taken[document["split"]] += 1
            if taken[document["split"]] > size:
                continue
        lines.append(line)
    documents.write_text("\n".join(lines) + "\n", encoding="utf-8")


def scan(checkout: Path, model: Path, data: Path) -> dict[str, Any]:
    """Scan with the package of a checkout; name the limits that are not met."""
    with tempfile.TemporaryDirectory() as folder:
        scanned = scan_with(checkout, [model, data], Path(folder))
    open_limits = [
        limit
        for limit in scanned.verdict["limits"]
        if word_of(limit["outcome"]) in ("exceeded", "undecided")
    ]
    descriptions = [
        f"{limit['attack']} {limit['metric']}: {limit['outcome']}" for limit in open_limits
    ]
    return {"code": scanned.code, "seconds": round(scanned.seconds), "limits": descriptions}


def page(content: dict[str, Any]) -> str:
    """Write the table in Markdown."""
    lines = [
        "# Verdicts with fewer documents",
        "",
        str(__doc__).split("\n\n")[2].replace("\n", " "),
        "",
        f"Measured on a 2-core CPU, {content['date']}, with other work beside it: seconds are no measurement of speed.",
        "",
        "| model | documents a side | exit code before | exit code | undecided or exceeded |",
        "|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        limits = "; ".join(row["after"]["limits"])
        lines.append(
            f"| {row['model']} | {row['size']} | {row['before']['code']} | {row['after']['code']} | {limits} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Scan all samples at all sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    rows = []
    for model in options.models:
        for size in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder, "data")
                cut(SAMPLES / model.partition("/")[0] / "data", data, size)
                row = {"model": model, "size": size}
                row["before"] = scan(options.before.resolve(), SAMPLES / model, data)
                row["after"] = scan(HERE.parents[1], SAMPLES / model, data)
            rows.append(row)
            print(json.dumps(row), flush=True)
    content = {"date": datetime.now(UTC).date().isoformat(), "rows": rows}
    Path(HERE, "sizes.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    Path(HERE, "sizes.md").write_text(page(content), encoding="utf-8")


if __name__ == "__main__":
    main()
