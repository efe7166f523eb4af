"""A small model that reads: questions about synthetic invoices, their text and layout, and what it gives away.

    python -m benchmarks.papers.invoices_read

The invoices are those of `provider_invoices.py`, but the model is given what an OCR makes of them,
a few characters of a hundred misread, and points at the answer among the words (LayoutLM of two
layers, fresh weights): a model this small learns to find an answer and not to write one. It is
trained on invoices of other providers until it reads, then on those of the providers that are in,
and scanned for provider and document membership with the model before as its reference. Writes
`invoices_read/`; what is already in `--work` is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import LayoutLMConfig, LayoutLMForQuestionAnswering
from vocabulary import train_tokenizer

from audit import record as records
from audit.corpus import manifest
from audit.corpus.documents import Corpus, Document, Task, TaskKind, TrainingRecipe, Word
from audit.measurements import Estimate
from audit.record import AuditRecord
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import fit_extractive, pointed_samples, save_answering
from audit.targets.extractive import load_extractive
from audit.targets.utility import usefulness
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session
from benchmarks.papers.provider_invoices_data import Sizes, pretraining, write_data
from benchmarks.papers.provider_invoices_report import METHODS, SUFFIXES
from benchmarks.papers.provider_invoices_training import Epochs
from benchmarks.tools.scanning import scan_once

HERE = Path(__file__).parent
SEED = 0
MISREAD = 0.02
"""The share of characters that have a look-alike and are read as it."""
ALIKE = str.maketrans("0158olieantsmgOLIBSZ", "OlSB01lcorf5nq011852")
TOKENS = 320
WIDTH = 96
LAYERS = 2
LEARNING_RATE = 2e-3
BATCH = 24
ATTACKS = ("provider_membership", "membership")


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/invoices_read"))
    parser.add_argument(
        "--out", type=Path, default=HERE / "invoices_read", help="records and README"
    )
    parser.add_argument(
        "--providers", type=int, default=640, help="audited ones; half of them are in"
    )
    parser.add_argument(
        "--pretraining",
        type=int,
        default=600,
        help="providers of the model before, two invoices each",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        nargs=2,
        default=(5, 10),
        help="of the model before, and of the audited",
    )
    parser.add_argument(
        "--machine", default="2-core CPU", help="the machine in general terms, for the README"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    data = options.work / "data"
    sizes = Sizes(options.providers // 2, 40, options.pretraining)
    if not data.exists():
        make_data(data, sizes)
    corpus = manifest.load(data)
    before = data / "references" / "pretrained"
    first, then = options.epochs
    if not before.exists():
        others = [misread(document, SEED + 1) for _, document in pretraining(sizes)]
        write_untrained(options.work / "untrained", others)
        apart = replace(corpus, documents=tuple(others))
        fit(
            options.work / "untrained",
            before,
            apart,
            others,
            first,
            options.out / "pretrained.training.json",
        )
    model = options.work / "model"
    if not model.exists():
        fit(before, model, corpus, corpus.of("member"), then, options.out / "model.training.json")
    for name, folder in (("pretrained", before), ("model", model)):
        write_anls(folder, corpus, options.out / f"{name}.anls.json")
    audit(model, data, options.work / "report", options.out / "model.json")
    (options.out / "README.md").write_text("\n".join(page(options.out, options.machine)) + "\n")


def misread(document: Document, seed: int) -> Document:
    """The document as an OCR reads it: look-alikes in place of a few characters.

    Answers stay as they are printed.
    """
    rng = random.Random(f"{seed} {document.id}")
    words = tuple(
        Word(
            "".join(one.translate(ALIKE) if rng.random() < MISREAD else one for one in word.text),
            word.box,
        )
        for word in document.words
    )
    return replace(document, words=words)


def make_data(folder: Path, sizes: Sizes, kind: TaskKind = "extractive-qa") -> None:
    """The invoices as they are read, for a model that answers from words and boxes: pages' images are left out."""
    draft = folder.with_name("draft")
    shutil.rmtree(draft, ignore_errors=True)
    write_data(
        draft, sizes, TrainingRecipe(learning_rate=LEARNING_RATE, batch_size=BATCH, seed=SEED)
    )
    corpus = manifest.load(draft)
    read = [replace(misread(document, SEED), image=None) for document in corpus.documents]
    manifest.write(folder, replace(corpus.manifest, task=Task(kind)), read)
    shutil.rmtree(draft)


def write_untrained(folder: Path, documents: Sequence[Document]) -> None:
    """A LayoutLM with fresh weights, its vocabulary learnt from these documents."""
    texts = [" ".join(word.text for word in document.words) for document in documents]
    tokenizer = train_tokenizer(texts, n_pieces=600, max_tokens=TOKENS)
    torch.manual_seed(SEED)
    config = LayoutLMConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=TOKENS,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
        initializer_range=0.05,
    )
    LayoutLMForQuestionAnswering(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def fit(
    start: Path, folder: Path, corpus: Corpus, documents: Sequence[Document], epochs: int, log: Path
) -> None:
    """Train the checkpoint `start` on the questions of these documents.

    How that went goes into `log`.
    """
    recipe = AnsweringRecipe(
        epochs=epochs, learning_rate=LEARNING_RATE, batch_size=BATCH, seed=SEED
    )
    target = load_extractive(start)
    samples = pointed_samples(corpus, documents)
    began = time.monotonic()
    losses = fit_extractive(target, samples, recipe, Epochs(folder.name, epochs))
    save_answering(target.model, start, folder)
    content = {
        "samples": len(samples),
        "epochs": epochs,
        "parameters": target.card.parameters,
        "losses": losses,
        "seconds": round(time.monotonic() - began, 1),
    }
    log.write_text(json.dumps(content, indent=1) + "\n")


def write_anls(model: Path, corpus: Corpus, result: Path) -> None:
    """How well a model reads the held-out invoices."""
    if result.exists():
        return
    (found,) = usefulness(load_extractive(model), corpus, SEED)
    content = {name: getattr(found, name, None) for name in ("value", "low", "high", "null")}
    result.write_text(json.dumps(content, indent=1) + "\n")


def audit(model: Path, data: Path, out: Path, result: Path) -> None:
    """Scan the model; its record is `result`."""
    opened = open_session(
        ScanOptions(model_dir=model, data_dir=data, out=out, only=ATTACKS, device="cpu")
    )
    records.write(scan_once(opened), result)


def page(folder: Path, machine: str) -> Iterator[str]:
    """The README, every number of it from the files in the folder."""
    record = records.read(folder / "model.json")
    yield from ("# A small model that reads invoices", "")
    yield (
        f"Made by `invoices_read.py` on a {machine}, {record.timing.finished[:10]}, other jobs running "
        f"beside it. {record.target.architecture}, {record.target.parameters:,} parameters; the words are as an OCR "
        f"reads them, {MISREAD:.0%} of the characters that have a look-alike read as it. Intervals are 95 %, over "
        "documents or providers; one training."
    )
    yield ""
    yield "| model | questions | epochs | seconds | held-out ANLS | commonest answers |"
    yield "|---|---|---|---|---|---|"
    for name in ("pretrained", "model"):
        training, anls = (
            json.loads((folder / f"{name}.{kind}.json").read_text())
            for kind in ("training", "anls")
        )
        read = f"{anls['value']:.3f} [{anls['low']:.3f}, {anls['high']:.3f}]"
        cells = [
            name,
            f"{training['samples']:,}",
            str(training["epochs"]),
            str(training["seconds"]),
            read,
            f"{anls['null']:.3f}",
        ]
        yield f"| {' | '.join(cells)} |"
    yield from (
        "",
        "Provider membership, balanced accuracy in per cent as table A6 of Tito et al. 2024 has it:",
        "",
    )
    found = measured(record, "provider_membership")
    yield from accuracy_table(intervals_of(found))
    yield ""
    yield f"- providers, user inference, AUC: {shown(found.get('auc'))}"
    yield f"- documents, AUC: {shown(measured(record, 'membership').get('auc'))}"


def measured(record: AuditRecord, attack: str) -> dict[str, Estimate]:
    """An attack's estimates by name."""
    result: Any = next(one for one in record.attacks if one.attack == attack)
    assert result.status == "completed", result
    return {one.name: one for one in result.measurements if isinstance(one, Estimate)}


def intervals_of(estimates: Mapping[str, Estimate]) -> dict[str, list[float]]:
    """Return value and ends of estimates, by name."""
    return {name: [item.value, item.low, item.high] for name, item in estimates.items()}


def accuracy_table(intervals: Mapping[str, Sequence[float]]) -> list[str]:
    """Write balanced accuracies in per cent, by method and number of documents."""
    lines = [f"| | {' | '.join(SUFFIXES)} |", "|---" * (len(SUFFIXES) + 1) + "|"]
    for method, words in METHODS.items():
        cells: list[str] = []
        for suffix in SUFFIXES.values():
            interval = intervals.get(f"balanced_accuracy.{method}{suffix}")
            cells.append(words_of_interval(interval, 100))
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return lines


def words_of_interval(interval: Sequence[float] | None, scale: float = 1.0) -> str:
    """Write a number with its interval."""
    if interval is None:
        return "-"
    digits = 1 if scale > 1 else 3
    value, low, high = (f"{scale * number:.{digits}f}" for number in interval)
    return f"{value} [{low}, {high}]"


def shown(item: Estimate | None, scale: float = 1.0) -> str:
    """Write an estimate with its interval."""
    if item is None:
        return "-"
    return words_of_interval([item.value, item.low, item.high], scale)


if __name__ == "__main__":
    main()
