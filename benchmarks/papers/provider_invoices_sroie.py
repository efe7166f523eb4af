"""SROIE by company: the case that `docaudit plan` calls too small and a scan leaves undecided."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from audit import policy
from audit import record as records
from audit.corpus import manifest
from audit.corpus.documents import Split
from audit.importers.formats.sroie import PHRASINGS
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import samples_of
from benchmarks.papers.provider_invoices_training import fit
from benchmarks.papers.vqa_sroie_models import make_start

SEED = 0
SHARES: dict[Split, float] = {"member": 0.5, "heldout": 0.5}
"""Of the companies with two receipts or more: all of them are audited."""
SIZE = (128, 64)
"""Height and width of what the model sees, pixels; receipts are twice as high as wide."""
EPOCHS = 15
LEARNING_RATE = 1e-3
BATCH_SIZE = 8
SMOKE_COMPANIES = 12
SMOKE_RECEIPTS = 4
SMOKE_EPOCHS = 1
"""Companies, receipts of each, and epochs, when only trying whether everything runs."""
POLICY = "default"
Audit = Callable[[Path, Path, Path, Path], None]
"""Scans a model (its folder, the data, the report's folder) and writes the record to the last
path."""


def run_sroie(
    source: Path, backbone: Path, work: Path, out: Path, audit: Audit, *, smoke: bool
) -> None:
    """Import SROIE by company, plan, train briefly, scan, and write what the policy says of it into `out`.

    Args:
        source: SROIE's folder.
        backbone: a BERT-like model whose vocabulary the model takes
            (`vqa_sroie_models.make_start`).
        work: what is made on the way and kept.
        out: gets `sroie.plan.txt`, `sroie.json` (the record), `sroie.verdict.json` and
            `sroie.training.json`.
        audit: scans.
        smoke: few receipts, one epoch.
    """
    work.mkdir(parents=True, exist_ok=True)
    source = _first_receipts(source, work / "source") if smoke else source
    data = work / "data"
    start = work / "data" / "references" / "pretrained"
    model = work / "model"
    if not data.exists():
        FORMATS["sroie"].convert(
            ImportRequest(
                source, data, SHARES, SEED, task="question-answering", division="by-provider"
            )
        )
    if not start.exists():
        _write_start(source, data, backbone, start)
    if not model.exists():
        _train(data, start, model, SMOKE_EPOCHS if smoke else EPOCHS, out / "sroie.training.json")
    command = [sys.executable, "-m", "audit", "plan", str(data), "--policy", POLICY]
    planned = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "120"}
    )
    (out / "sroie.plan.txt").write_text(planned.stdout.replace(str(data), "sroie"))
    audit(model, data, work / "report", out / "sroie.json")
    verdict = policy.evaluate(records.read(out / "sroie.json"), policy.load(POLICY), policy.today())
    decisions = [
        {
            "metric": one.limit.metric,
            "outcome": one.outcome,
            "reason": one.reason,
            "remedy": one.remedy,
        }
        for one in verdict.decisions
        if one.limit.attack == "provider_membership"
    ]
    content = {"overall": verdict.overall, "reason": verdict.reason, "decisions": decisions}
    (out / "sroie.verdict.json").write_text(json.dumps(content, indent=1) + "\n")


def _first_receipts(source: Path, folder: Path) -> Path:
    """The source cut to a few receipts of the companies that it has most receipts of."""
    if folder.exists():
        return folder
    receipts: dict[str, list[str]] = defaultdict(list)
    for path in sorted((source / "key").iterdir()):
        receipts[json.loads(path.read_text())["company"]].append(path.stem)
    companies = sorted(receipts, key=lambda company: (-len(receipts[company]), company))[
        :SMOKE_COMPANIES
    ]
    chosen = {name for company in companies for name in receipts[company][:SMOKE_RECEIPTS]}
    for kind in ("img", "box", "key"):
        (folder / kind).mkdir(parents=True)
        for path in (source / kind).iterdir():
            if path.stem in chosen:
                shutil.copyfile(path, folder / kind / path.name)
    return folder


def _write_start(source: Path, data: Path, backbone: Path, start: Path) -> None:
    """The untrained checkpoint, which the manifest is made to name as the pretrained one."""
    corpus = manifest.load(data)
    make_start(
        "donut",
        SIZE,
        backbone,
        _texts(source, {document.id for document in corpus.documents}),
        start,
    )
    references = replace(corpus.manifest.references, pretrained="references/pretrained")
    manifest.write(data, replace(corpus.manifest, references=references), corpus.documents)


def _texts(source: Path, taken: set[str]) -> Iterable[str]:
    """What the vocabulary is cut to: the questions, and the text lines of receipts that are in no split."""
    yield from (words for asked in PHRASINGS.values() for words in asked)
    for path in sorted((source / "box").iterdir()):
        if path.stem not in taken:
            for row in path.read_text(encoding="utf-8", errors="replace").splitlines():
                yield row.split(",", 8)[-1]


def _train(data: Path, start: Path, folder: Path, epochs: int, log: Path) -> None:
    corpus = manifest.load(data)
    recipe = AnsweringRecipe(
        epochs=epochs, learning_rate=LEARNING_RATE, batch_size=BATCH_SIZE, seed=SEED
    )
    fit(start, folder, samples_of(corpus, corpus.of("member")), recipe, log)
