r"""Record-level private training of a LayoutLM on SROIE: reconstruction before and after, and the time it takes.

    python -m benchmarks.papers.dp_sroie --sroie sroie \
        --backbone minilm-l6-h384

Data, start and audit are those of `cdmi_tables.py` (a LayoutLM made of two layers of the backbone,
BIO tags of the four fields, pages of at most 255 tokens; a share of the fields, N_c = 16). The
model before is trained for as long as `--epochs` says; those after are trained from the same start
with a guarantee for every document, all weights but the embeddings or adapters, at epsilon 8 and
without noise. Then each engine computes the clipped gradients of the same documents, beside a plain
batch. What is already in `--work` is not made again; writes `dp_sroie/`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from audit import record as records
from audit.attacks.reconstruction import Reconstruction
from audit.cli.console import Reporter
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.extensions.private.learners import open_learner
from audit.extensions.private.options import DpOptions
from audit.extensions.private.train import train_private
from audit.extensions.private.units import DrawnUnit
from audit.measurements import Estimate
from audit.references.encoders import fit
from audit.references.recipes import Recipe
from audit.targets.checkpoint.folder import privacy_card
from audit.targets.encoders.loading import load
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session
from benchmarks.papers.cdmi_numbers import Number, write_numbers
from benchmarks.papers.cdmi_report import numbers_in
from benchmarks.papers.cdmi_tables import Setting, make_data, make_pretrained, make_start, train
from benchmarks.performance.dp_engines import measure as measure_engines
from benchmarks.performance.dp_engines import trained as trained_parameters
from benchmarks.tools.scanning import scan_once

HERE = Path(__file__).parent
OUT = HERE / "dp_sroie"
SEED = 0
LEARNING_RATE = 5e-4
BATCH = 8
SHARE = 0.04
N_CANDIDATES = 16
"""Of the fields, and of the attack's candidates, as in `cdmi_tables.py`."""
ENGINE_PAGES = 16
ENGINE_ROUNDS = 2
METRICS = (
    "pr.member.attack",
    "excess_hamming.unique",
    "hamaac.member.attack",
    "ipf.member",
    "ipf.heldout",
)


@dataclass(frozen=True)
class Run:
    """One training with a guarantee, or without noise where epsilon is infinite."""

    trained: str
    epsilon: float

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.trained.partition(':')[0]}-{self.epsilon:g}"


RUNS = (Run("full", 8.0), Run("full", math.inf), Run("lora:16", 8.0))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sroie", type=Path, default=Path("sroie"))
    parser.add_argument("--backbone", type=Path, default=Path("minilm-l6-h384"))
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/dp_sroie"))
    parser.add_argument("--epochs", type=int, default=40, help="of the model before")
    parser.add_argument(
        "--public-epochs", type=int, default=12, help="of the attacker's public model"
    )
    parser.add_argument("--steps", type=int, default=150, help="of private training")
    parser.add_argument(
        "--only", action="append", choices=["before", "engines", *(run.name for run in RUNS)]
    )
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    options.work.mkdir(parents=True, exist_ok=True)
    make_pretrained(options.backbone, options.work / "pretrained")
    public = Setting(
        "sroie", "mlm", False, replace(_recipe(options.public_epochs), bf16=True), public=True
    )
    train(
        public, manifest.load(make_data(public, options.sroie, options.work)), options.work, "cpu"
    )
    tagger = Setting("sroie", "token-classification", False, _recipe(options.epochs))
    data = make_data(tagger, options.sroie, options.work)
    corpus = manifest.load(data)
    start = make_start(tagger, corpus, options.work)
    chosen = options.only or ["before", *(run.name for run in RUNS), "engines"]
    if "before" in chosen:
        model, before_seconds = train_plainly(start, corpus, options.work, tagger.recipe)
        training = {"seconds": before_seconds, "epochs": options.epochs, "dp": None}
        audit(model, data, options.work, "before", training)
    for run in RUNS:
        if run.name not in chosen:
            continue
        model, seconds = train_with_guarantee(start, corpus, options.work, run, options.steps)
        card = privacy_card(model)
        audit(
            model,
            data,
            options.work,
            run.name,
            {"seconds": seconds, "dp": None if card is None else asdict(card)},
        )
    if "engines" in chosen and not (OUT / "engines.json").exists():
        (OUT / "engines.json").write_text(json.dumps(engines(start, corpus), indent=1) + "\n")
    (OUT / "README.md").write_text("\n".join(page(options.machine)))


def _recipe(epochs: int) -> Recipe:
    return Recipe(epochs=epochs, learning_rate=LEARNING_RATE, batch_size=BATCH, seed=SEED)


def train_plainly(start: Path, corpus: Corpus, work: Path, recipe: Recipe) -> tuple[Path, float]:
    """The model before, and the seconds of its training."""
    folder = work / "before"
    log = work / "before.seconds.json"
    if not log.exists():
        target = load(start, labels=corpus.manifest.task.labels)
        pages = [page for page in map(target.encode, corpus.of("member")) if page is not None]
        began = time.monotonic()
        fit(target.model, target.encoder.tokenizer, pages, recipe, device="cpu")
        seconds = time.monotonic() - began
        target.model.save_pretrained(folder)
        target.encoder.tokenizer.save_pretrained(folder)
        log.write_text(json.dumps(round(seconds, 1)))
    return folder, float(json.loads(log.read_text()))


def train_with_guarantee(
    start: Path, corpus: Corpus, work: Path, run: Run, steps: int
) -> tuple[Path, float | None]:
    """A model after, and the seconds of its training: none where it was interrupted and went on."""
    folder = work / run.name
    log = work / f"{run.name}.seconds.json"
    making = work / f"private-{run.name}"
    if not log.exists():
        in_one_go = not making.exists()
        options = DpOptions(
            unit="document", epsilon=run.epsilon, trained=run.trained, steps=steps, seed=SEED
        )
        began = time.monotonic()
        with Reporter() as progress:
            made = train_private(start, corpus, making, options, progress=progress)
        seconds = time.monotonic() - began
        shutil.copytree(made, folder, dirs_exist_ok=True)
        log.write_text(json.dumps(round(seconds, 1) if in_one_go else None))
    return folder, json.loads(log.read_text())


def audit(model: Path, data: Path, work: Path, name: str, training: dict[str, Any]) -> None:
    """Scan a model for reconstruction; its record and training go into `OUT`."""
    out = work / f"report-{name}"
    references = {"auxiliary": [work / "sroie-public-mlm-loss"]}
    opened = open_session(
        ScanOptions(model_dir=model, data_dir=data, out=out, device="cpu", references=references)
    )
    attack = Reconstruction(n_candidates=N_CANDIDATES)
    opened = replace(
        opened,
        sampling=replace(opened.sampling, budget="benchmark", share=SHARE),
        attacks=(attack,),
    )
    records.write(scan_once(opened), OUT / f"{name}.json")
    write_numbers(opened, attack, OUT / f"{name}.numbers.json")
    (OUT / f"{name}.training.json").write_text(json.dumps(training, indent=1) + "\n")


def engines(start: Path, corpus: Corpus) -> dict[str, Any]:
    """Processor seconds of each engine on the same member documents, and their ratios to a plain batch."""
    torch.set_num_threads(1)
    learner = open_learner(start, corpus)
    rng = np.random.default_rng(SEED)
    drawn = [
        (learner.samples_of(document, rng), (1.0,))
        for document in corpus.of("member")[:ENGINE_PAGES]
    ]
    units = [DrawnUnit(samples, weights) for samples, weights in drawn if samples]
    return {
        words: measure_engines(learner, own, units, ENGINE_ROUNDS)
        for words, own in trained_parameters(learner.model).items()
    }


def page(machine: str) -> Iterator[str]:
    """The README."""
    yield from ("# Private training of a LayoutLM on SROIE, document by document", "")
    yield (
        f"Made by `dp_sroie.py` on a {machine}, {time.strftime('%Y-%m-%d')}, other jobs running beside it. "
        "Intervals are 95 %, over documents; one training each. The model has two layers and saw no pages before, the "
        f"audit takes {SHARE:.0%} of the fields: compare before with after, not with the paper."
    )
    yield ""
    head = ("model", "epsilon", "engine", "training, s", "entity F1", *METRICS)
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for name in ("before", *(run.name for run in RUNS)):
        if (OUT / f"{name}.training.json").exists():
            yield row(name)
    if (OUT / "engines.json").exists():
        yield from (
            "",
            "Processor seconds of one pass over the same documents, and the ratio to a plain batch:",
            "",
        )
        for words, found in json.loads((OUT / "engines.json").read_text()).items():
            yield f"- {words}: {json.dumps(found)}"
    yield ""


def row(name: str) -> str:
    """One model."""
    record = records.read(OUT / f"{name}.json")
    training = json.loads((OUT / f"{name}.training.json").read_text())
    card = training["dp"]
    promised = "none" if card is None or card["epsilon"] is None else f"{card['epsilon']:.2f}"
    useful = next((item for item in record.utility if isinstance(item, Estimate)), None)
    found = numbers_in(OUT / f"{name}.json")
    cells = [
        name,
        promised,
        "-" if card is None else str(card.get("engine", "exact")),
        str(training["seconds"] or "interrupted"),
        shown(useful),
    ]
    return f"| {' | '.join([*cells, *(shown(found.get(metric)) for metric in METRICS)])} |"


def shown(item: Estimate | Number | None) -> str:
    """A number with its interval."""
    if item is None:
        return "-"
    return f"{item.value:.3f} [{item.low:.3f}, {item.high:.3f}]"


if __name__ == "__main__":
    main()
