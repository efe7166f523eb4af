"""CDMI's effect: LayoutLM from a small BERT, the paper's splits and epochs, every field, beside its table 5."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from audit.corpus import manifest
from audit.corpus.documents import Split, TaskKind
from audit.references.recipes import Recipe
from audit.targets.batching import longest_row
from benchmarks.gpu.tiny_inputs import tiny_inputs
from benchmarks.gpu.work import Json, Result, Work
from benchmarks.papers import cdmi_report, cdmi_tables
from benchmarks.papers.cdmi_tables import CRITERIA, Setting

SHARES: dict[str, Mapping[Split, float]] = {
    "sroie": {"heldout": 100 / 626, "public": 263 / 626, "member": 263 / 626},
    "funsd": {"heldout": 50 / 199, "public": 74 / 199, "member": 75 / 199},
}
"""The paper's: validation (which the held-out documents are), public, private."""
EPOCHS = {"mlm": 300, "token-classification": 150}
BATCH = 32
LEARNING_RATE = 2e-4
"""Ours."""
POSITIONS = 512
TINY_EPOCHS = 2
NOTE = (
    "A LayoutLM of all layers of the backbone (box embeddings, image branch and heads fresh), pages of up to 511 "
    "tokens, the paper's splits and epochs, N_c 128, every field of 3 to 15 tokens. Held-out documents "
    "chose the epoch, as the paper's validation documents did. 95 % intervals over documents; one training."
)


def train_public(work: Work, *, argument: str) -> Result:
    """The public model of one corpus."""
    setting = _setting(argument, "mlm", bimodal=False, tiny=work.tiny, public=True)
    log = _train(setting, work)
    return Result(log, _log_lines(log))


def attack_model(work: Work, *, argument: tuple[str, TaskKind, bool]) -> Result:
    """Train one row of table 5 and audit it by both criteria, bimodal masked language models with noise too."""
    corpus, task, bimodal = argument
    setting = _setting(corpus, task, bimodal=bimodal, tiny=work.tiny)
    log = _train(setting, work)
    kept = work.folder_of("cdmi")
    results = work.folder / "records"
    results.mkdir(exist_ok=True)
    data = cdmi_tables.make_data(setting, sources(work)[corpus], kept, SHARES[corpus])

    def audit(criterion: str, *, noise: bool = False) -> Json:
        cdmi_tables.audit_model(
            setting, criterion, data, kept, work.device, "auto", noise=noise, results=results
        )
        return {}

    # A scan that is killed goes on from its journal, so that any time left is of use.
    for criterion in CRITERIA:
        work.step(f"audit-{criterion}", partial(audit, criterion))
    if bimodal and task == "mlm":
        work.step("audit-noise", partial(audit, "precision", noise=True))
    text = [NOTE, "", *_log_lines(log), ""]
    every_row = cdmi_report.rows_in(results, kept)
    rows = [row for row in every_row if (row.corpus, row.task) == (corpus, task)]
    text += [*cdmi_report.table(rows), "", *cdmi_report.control(rows)]
    text += ["", *cdmi_report.differences(rows)]
    if bimodal and task == "mlm":
        text += ["", *cdmi_report.noise(results, rows)]
    return Result({"training": log, "attacks": _attacks_in(results)}, text)


def _attacks_in(results: Path) -> Json:
    """Read what the attacks of each record measured, by the name of its file."""
    attacks = {}
    for path in sorted(results.glob("*.json")):
        if not path.name.endswith(".numbers.json"):
            attacks[path.stem] = json.loads(path.read_text())["attacks"]
    return attacks


def _setting(
    corpus: str, task: TaskKind, *, bimodal: bool, tiny: bool, public: bool = False
) -> Setting:
    epochs = TINY_EPOCHS if tiny else EPOCHS[task]
    recipe = Recipe(epochs=epochs, learning_rate=LEARNING_RATE, batch_size=BATCH, bf16=True)
    # A tiny run takes a part of the fields, and so few candidates that it is soon over.
    return Setting(corpus, task, bimodal, recipe, 0.3 if tiny else 1.0, 4 if tiny else 128, public)


def sources(work: Work) -> dict[str, Path]:
    """Name the folders of the corpora and the backbone."""
    inputs = tiny_inputs(work.root) if work.tiny else work.inputs
    found = {"sroie": inputs.sroie, "funsd": inputs.funsd, "backbone": inputs.backbone}
    return {name: folder for name, folder in found.items() if folder is not None}


def _train(setting: Setting, work: Work) -> Json:
    """Import the corpus, make the start and train, each once; what came of it."""
    kept = work.folder_of("cdmi")
    given = sources(work)

    def make() -> Json:
        data = cdmi_tables.make_data(setting, given[setting.corpus], kept, SHARES[setting.corpus])
        cdmi_tables.make_pretrained(
            given["backbone"], kept / "pretrained", None, longest_row(POSITIONS)
        )
        cdmi_tables.train(setting, manifest.load(data), kept, work.device)
        log = json.loads((kept / f"{setting.name}.json").read_text())
        chosen = {name: log["history"][log[name] - 1] for name in CRITERIA}
        return {
            **{name: value for name, value in log.items() if name != "history"},
            "chosen": chosen,
        }

    return work.step("train", make, 300.0)


def _log_lines(log: Json) -> list[str]:
    best = log["chosen"]["precision"]
    return [
        f"{log['pages']} pages, {log['epochs']} epochs in {log['minutes']:.1f} min; validation accuracy "
        f"{best['validation_accuracy']:.3f} at epoch {log['precision']} (paper's public models: 0.54), lowest "
        f"validation loss at epoch {log['loss']}."
    ]
