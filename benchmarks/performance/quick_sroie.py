"""A quick scan of a real model: a LayoutLM fine-tuned on SROIE's receipts, by an older checkout and by this one.

    git worktree add ../older COMMIT
    python -m benchmarks.performance.quick_sroie --before ../older  # writes quick_sroie.md

A lot divides 626 receipts: 251 train a tagger for five epochs, 125 are unseen, the others are
public. The tagger starts from MiniLM's layers with fresh boxes. A baseline of the same recipe is
trained on 125 of the public receipts. Both checkouts scan the same folders with `--budget quick`.
Nobody names what the tagger was fine-tuned from, so reconstruction lacks its public model and is
not tried.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audit.corpus import manifest
from audit.corpus.documents import Document, Split
from audit.references.encoders import fit
from audit.references.recipes import Recipe
from audit.targets.encoders.loading import load
from benchmarks.papers.cdmi_tables import Setting, make_data, make_pretrained, make_start
from benchmarks.tools.checkouts import scan_with

HERE = Path(__file__).resolve().parent
RECEIPTS = 626
SHARES: dict[Split, float] = {
    "member": 251 / RECEIPTS,
    "heldout": 125 / RECEIPTS,
    "public": 250 / RECEIPTS,
}
RECIPE = Recipe(epochs=5, learning_rate=1e-4, batch_size=8, seed=0)
SETTING = Setting("sroie", "token-classification", False, RECIPE)
N_BASELINE = 125


def train(start: Path, labels: tuple[str, ...], documents: list[Document], folder: Path) -> None:
    """Fine-tune a tagger on documents and save it; a folder that is there already is kept."""
    if folder.exists():
        return
    target = load(start, labels=labels)
    pages = [page for page in map(target.encode, documents) if page is not None]
    started = time.monotonic()
    fit(target.model, target.encoder.tokenizer, pages, RECIPE, device="cpu")
    draft = folder.with_name(f"{folder.name}.draft")
    target.model.save_pretrained(draft)
    target.encoder.tokenizer.save_pretrained(draft)
    draft.rename(folder)
    print(folder.name, round(time.monotonic() - started), "s", flush=True)


def scan(checkout: Path, work: Path, name: str) -> dict[str, Any]:
    """Scan with the package of a checkout.

    List what was tried, and the limits that have a number.
    """
    out = work / f"report-{name}"
    shutil.rmtree(out, ignore_errors=True)
    arguments = [work / "model", work / "data-sroie-token-classification"]
    baseline = f"baselines={work / 'baseline'}"
    # Without `pretrained`: the public model of reconstruction would be trained for a quarter of an
    # hour, and a quarter of its trials takes more than an hour on two cores.
    reference = ["--reference", baseline, "--budget", "quick"]
    scanned = scan_with(checkout, [*arguments, *reference], out)
    attacks = {}
    for result in scanned.record["attacks"]:
        coverage = next((item for item in result["coverage"] if item["category"] == "all"), None)
        if result["status"] == "completed" and coverage is not None:
            attacks[result["attack"]] = (
                f"{coverage['attacked']} of {coverage['total']} {coverage['unit']}"
            )
    limits = []
    for limit in scanned.verdict["limits"]:
        measured = limit["measured"]
        if measured is not None:
            interval = f"{measured['value']:.2f} [{measured['low']:.2f}, {measured['high']:.2f}]"
            limits.append(f"{limit['attack']} {limit['metric']}: {limit['outcome']}, {interval}")
    return {
        "code": scanned.code,
        "seconds": round(scanned.seconds),
        "attacks": attacks,
        "limits": limits,
    }


def page(rows: dict[str, dict[str, Any]], machine: str) -> str:
    """Write the table in Markdown."""
    lines = [
        "# A quick scan of a tagger of real receipts",
        "",
        str(__doc__).split("\n\n")[2].replace("\n", " "),
        "",
        f"Measured on a {machine}, {datetime.now(UTC).date()}.",
        "",
        "| | minutes | exit code | tried in training | limits with a number |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        tried = "; ".join(f"{attack}: {number}" for attack, number in row["attacks"].items())
        lines.append(
            f"| {name} | {row['seconds'] / 60:.1f} | {row['code']} | {tried} | {'; '.join(row['limits'])} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train the tagger and its baseline once, and scan with both checkouts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sroie", type=Path, default=Path("sroie"))
    parser.add_argument("--backbone", type=Path, default=Path("minilm-l6-h384"))
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/quick_sroie"))
    parser.add_argument("--before", type=Path)
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    make_pretrained(options.backbone, work / "pretrained")
    data = make_data(SETTING, options.sroie, work, SHARES)
    corpus = manifest.load(data)
    start = make_start(SETTING, corpus, work)
    labels = corpus.manifest.task.labels
    train(start, labels, list(corpus.of("member")), work / "model")
    train(start, labels, list(corpus.of("public"))[:N_BASELINE], work / "baseline")
    rows = {}
    if options.before is not None:
        rows["before"] = scan(options.before.resolve(), work, "before")
    rows["now"] = scan(HERE.parents[1], work, "now")
    (HERE / "quick_sroie.md").write_text(page(rows, options.machine), encoding="utf-8")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
