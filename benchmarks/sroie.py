"""CDMI on real receipts: a small LayoutLM fine-tuned on SROIE, audited beside the paper's table 5.

    python benchmarks/sroie.py --corpus ../shared/data/sroie --backbone ../shared/models/minilm-l6-h384

imports SROIE, makes a LayoutLM out of a BERT-like backbone (box embeddings and heads start fresh), fine-tunes it on
the member split (masked language model and EE-BIO) and the public masked language model on the public split, audits
each model at the epoch of best validation accuracy ("Precision") and of lowest validation loss ("Loss"), and writes the
records and the table into `benchmarks/sroie/`. The validation documents are the held-out ones, as in the paper, where
the validation set chooses the checkpoint: the held-out control has seen that choice, and no weight. Models that are
already in `--work` are not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import BertModel, LayoutLMConfig, LayoutLMForMaskedLM, LayoutLMForTokenClassification

from audit import record as records
from audit import runner
from audit.attacks.reconstruction import Reconstruction
from audit.console import Reporter
from audit.corpus import manifest
from audit.corpus.documents import Corpus, Split, TrainingRecipe
from audit.corpus.importers import sroie
from audit.record import AuditRecord, Completed, Estimate
from audit.targets.encoding import Encoder
from audit.targets.loading import load_tokenizer
from audit.training.fitting import Fitted, Recipe, fit

HERE = Path(__file__).parent
SHARES: dict[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.4}
MAX_TOKENS = 255
MIN_POWER = 0.5
"""The candidate recall under which the default policy passes nothing."""
PAPER_IPF = {
    ("mlm", "precision"): 1.081,
    ("mlm", "loss"): 0.977,
    ("ee-bio", "precision"): 1.252,
    ("ee-bio", "loss"): 1.246,
}
"""Dentan et al. 2024, table 5: LayoutLM, SROIE, unimodal."""


@dataclass(frozen=True)
class Plan:
    """One model: how it is fitted, and how much of the corpus its audit takes."""

    name: str
    recipe: Recipe
    n_candidates: int
    share: float


PLANS = {
    "public-mlm": Plan("public-mlm", Recipe(epochs=10, learning_rate=5e-4, batch_size=8, bf16=True), 0, 0.0),
    "mlm": Plan("mlm", Recipe(epochs=10, learning_rate=5e-4, batch_size=8, bf16=True), 128, 0.25),
    "ee-bio": Plan("ee-bio", Recipe(epochs=6, learning_rate=2e-4, batch_size=8, bf16=True), 32, 0.08),
}


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=Path("../shared/data/sroie"))
    parser.add_argument("--backbone", type=Path, default=Path("../shared/models/minilm-l6-h384"))
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/sroie"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms, for the table")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    data = options.work / "data"
    if not data.exists():
        sroie.convert(options.corpus, data, SHARES, seed=0)
        imported = manifest.load(data)
        recipe = TrainingRecipe(checkpoint_chosen_on="heldout")
        manifest.write(data, replace(imported.manifest, recipe=recipe), imported.documents)
    corpus = manifest.load(data)
    make_pretrained(options.backbone, options.work / "pretrained")
    for task in PLANS:
        train(task, corpus, options.work, options.device)
    rows = [
        audit_model(task, criterion, data, options.work, options.device)
        for task in ("mlm", "ee-bio")
        for criterion in ("precision", "loss")
    ]
    write_table(rows, options.work, options.machine)


def make_pretrained(backbone: Path, folder: Path) -> None:
    """A LayoutLM with the backbone's encoder; box embeddings and the masked-language-model head start fresh."""
    if folder.exists():
        return
    torch.manual_seed(0)
    bert = BertModel.from_pretrained(backbone, dtype=torch.float32, local_files_only=True)
    shared = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    # Without dropout on attention weights PyTorch takes its fused kernel: half the time on a CPU.
    config = LayoutLMConfig(
        **{name: getattr(bert.config, name) for name in shared},
        max_position_embeddings=512,
        attention_probs_dropout_prob=0.0,
    )
    model = LayoutLMForMaskedLM(config)
    missing = model.layoutlm.load_state_dict(bert.state_dict(), strict=False).missing_keys
    assert all("position_embeddings" in name for name in missing), missing
    tokenizer = load_tokenizer(backbone)
    tokenizer.model_max_length = MAX_TOKENS
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def train(task: str, corpus: Corpus, work: Path, device: str) -> None:
    """Fine-tune and keep the epochs of best validation accuracy and of lowest validation loss."""
    if (work / f"{task}-loss").exists():
        return
    plan = PLANS[task]
    labels = corpus.manifest.task.labels if task == "ee-bio" else ()
    tokenizer = load_tokenizer(work / "pretrained")
    encoder = Encoder(tokenizer, MAX_TOKENS, labels)
    members: Split = "public" if task == "public-mlm" else "member"
    training = [encoder.encode(document) for document in corpus.of(members)]
    validation = [encoder.encode(document) for document in corpus.of("heldout")]
    torch.manual_seed(0)
    if task == "ee-bio":
        model: Any = LayoutLMForTokenClassification.from_pretrained(
            work / "pretrained", id2label=dict(enumerate(labels)), label2id={name: i for i, name in enumerate(labels)}
        )
    else:
        model = LayoutLMForMaskedLM.from_pretrained(work / "pretrained")
    began = time.monotonic()
    fitted = fit(model, tokenizer, training, plan.recipe, validation=validation, device=device)
    minutes = (time.monotonic() - began) / 60
    for criterion in ("precision", "loss"):
        model.load_state_dict(getattr(fitted, criterion))
        model.save_pretrained(work / f"{task}-{criterion}")
        tokenizer.save_pretrained(work / f"{task}-{criterion}")
    log = {"minutes": minutes, "epochs": plan.recipe.epochs, "pages": len(training), **chosen_epochs(fitted)}
    (work / f"{task}.json").write_text(json.dumps({**log, "history": [asdict(e) for e in fitted.history]}, indent=1))


def chosen_epochs(fitted: Fitted) -> dict[str, int]:
    """The epochs (from 1) that the two criteria choose, the first of equals."""
    best = max(fitted.history, key=lambda score: score.validation_accuracy or 0.0)
    lowest = min(fitted.history, key=lambda score: score.validation_loss or float("inf"))
    return {"precision": best.epoch, "loss": lowest.epoch}


def audit_model(task: str, criterion: str, data: Path, work: Path, device: str) -> tuple[str, str, AuditRecord]:
    """Scan one checkpoint through the library's own runner; the record goes to `benchmarks/sroie/`."""
    plan = PLANS[task]
    epoch = json.loads((work / f"{task}.json").read_text())[criterion]
    out = work / f"report-{task}-epoch-{epoch}"
    committed = HERE / "sroie" / f"{task}-{criterion}.json"
    committed.parent.mkdir(exist_ok=True)
    if (out / "record.json").exists():
        # Both criteria may choose the same epoch: the same weights, the same record.
        record = records.read(out)
        records.write(record, committed)
        return task, criterion, record
    options = runner.Options(
        model_dir=work / f"{task}-{criterion}",
        data_dir=data,
        out=out,
        device=device,
        references={"auxiliary": work / "public-mlm-precision"},
    )
    opened = runner.open_scan(options)
    opened = replace(
        opened,
        budget="benchmark",
        share=plan.share,
        attacks=(Reconstruction(n_candidates=plan.n_candidates),),
    )
    with runner.claimed(out), Reporter() as progress:
        record = runner.run(opened, progress)
        records.write(record, out / "record.json")
    records.write(record, committed)
    return task, criterion, record


def write_table(rows: list[tuple[str, str, AuditRecord]], work: Path, machine: str) -> None:
    """`benchmarks/sroie/README.md`: every number from the records written beside it."""
    lines = [TABLE_HEAD.format(machine=machine, system=platform.system(), torch=torch.__version__)]
    for task in PLANS:
        log = json.loads((work / f"{task}.json").read_text())
        best = max(score["validation_accuracy"] for score in log["history"])
        lines.append(
            f"- {task}: {log['pages']} receipts, {log['epochs']} epochs in {log['minutes']:.0f} min; best "
            f"validation accuracy {best:.3f} at epoch {log['precision']}, lowest loss at epoch {log['loss']}."
        )
    lines += ["", "What the audits show:", "", *reading(rows)]
    lines += ["", *audit_rows(rows), "", *ipf_rows(rows), "", *control_rows(rows), ""]
    (HERE / "sroie" / "README.md").write_text("\n".join(lines))


TABLE_HEAD = """# CDMI on SROIE

Made by `benchmarks/sroie.py` on a {machine} ({system}, torch {torch}), other jobs running beside it. A LayoutLM made
of a 6-layer, 384-wide BERT-like encoder (box embeddings and heads fresh), pages of at most 255 tokens. SROIE's 626
receipts, 40 % member, 20 % held-out (they also choose the checkpoint, as the paper's validation set does), 40 % public.
The paper: LayoutLM-base pre-trained on millions of pages, 300 epochs (MLM) or 150 (EE-BIO), N_c = 128, all fields.

Training:
"""


def reading(rows: list[tuple[str, str, AuditRecord]]) -> list[str]:
    """The result in sentences, one a model and checkpoint, drawn from the records."""
    lines = []
    for task, criterion, record in rows:
        exact, power = measured(record, "pr.member.attack"), measured(record, "candidate_recall.unique")
        ipf, excess = measured(record, "ipf.member"), measured(record, "excess_hamming.unique")
        assert exact is not None
        assert power is not None
        assert ipf is not None
        assert excess is not None
        better = "better than" if ipf.low > 1 else "not shown to be better than"
        memory = "memory is confirmed" if excess.low > 0 else "no memory of unique values is shown"
        strength = "strong enough to pass a limit" if power.value >= MIN_POWER else "too weak to pass any limit"
        lines.append(
            f"- {task}, {criterion}: {round(exact.value * exact.n)} of {exact.n} member fields recovered exactly; the "
            f"attack is {better} the public model (IpF); against held-out documents {memory}; the attacker is "
            f"{strength} (candidate recall {power.value:.2f} on unique fields)."
        )
    return lines


def audit_rows(rows: list[tuple[str, str, AuditRecord]]) -> list[str]:
    """PR, HD, LD, JWD of attack and baseline, member and held-out, with 95 % intervals."""
    lines = [
        "| model | checkpoint | split | fields (documents) | who | PR | HD | LD | JWD |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task, criterion, record in rows:
        for split in ("member", "heldout"):
            for player in ("attack", "baseline"):
                cells = [number(record, f"{score}.{split}.{player}") for score in ("pr", "hd", "ld", "jwd")]
                found = measured(record, f"pr.{split}.{player}")
                units = f"{found.n} ({found.clusters})" if found else "-"
                lines.append(f"| {task} | {criterion} | {split} | {units} | {player} | {' | '.join(cells)} |")
    return lines


def ipf_rows(rows: list[tuple[str, str, AuditRecord]]) -> list[str]:
    """IpF beside the paper's."""
    lines = [
        "| model | checkpoint | fields tried | N_c | IpF member | IpF held-out | paper's IpF | candidate recall | "
        "PUB-MLM accuracy | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for task, criterion, record in rows:
        names = ("ipf.member", "ipf.heldout")
        cells = [number(record, name) for name in names]
        n_candidates = completed(record).parameters["n_candidates"]
        lines.append(
            f"| {task} | {criterion} | {record.share:.0%} | {n_candidates} | {' | '.join(cells)} | "
            f"{PAPER_IPF[task, criterion]} | {number(record, 'candidate_recall')} | "
            f"{number(record, 'public_accuracy')} | {record.timing.seconds / 60:.0f} |"
        )
    return lines


def control_rows(rows: list[tuple[str, str, AuditRecord]]) -> list[str]:
    """The held-out control: what is left when the target's better language is taken off."""
    lines = [
        "| model | checkpoint | excess PR, unique | excess PR, repeated | excess 1-HD, unique | "
        "excess 1-HD, repeated |",
        "|---|---|---|---|---|---|",
    ]
    for task, criterion, record in rows:
        names = ("excess_pr.unique", "excess_pr.repeated", "excess_hamming.unique", "excess_hamming.repeated")
        lines.append(f"| {task} | {criterion} | {' | '.join(number(record, name) for name in names)} |")
    return lines


def completed(record: AuditRecord) -> Completed:
    """The reconstruction attack's result."""
    (result,) = record.attacks
    assert isinstance(result, Completed), result
    return result


def measured(record: AuditRecord, name: str) -> Estimate | None:
    """An estimate by name; None where it is unresolved."""
    found = next(item for item in completed(record).measurements if item.name == name)
    return found if isinstance(found, Estimate) else None


def number(record: AuditRecord, name: str) -> str:
    """An estimate with its interval, in text."""
    found = measured(record, name)
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]" if found else "unresolved"


if __name__ == "__main__":
    main()
