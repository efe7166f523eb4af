"""Provider membership (Tito et al. 2024) on invoices of 640 synthetic providers, and on SROIE, which is too small.

    python -m benchmarks.papers.provider_invoices

makes invoices of the generator of `sample_models` (half of the providers are in, drawn at random),
pretrains a small Donut on invoices of other providers, trains it on the members' for long and
briefly, scans both models, and writes the records and a README in the shape of the paper's table A6
into `provider_invoices/`. Then it runs the whole pipeline on the long model's answers
with permuted labels. With `--sroie FOLDER --backbone FOLDER` SROIE is imported by company, planned,
trained on briefly and scanned too. What is already in `--work` is not made again. `--stage` and
`--only` make one part; stages "data" and "pretrain" go first, then "train" and "audit" of the
models can run side by side, each with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import io
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

from PIL import Image
from small_donut import Size, write_untrained

from audit import record as records
from audit.attacks.provider_membership import ProviderMembership
from audit.corpus import manifest
from audit.corpus.documents import Document, TrainingRecipe
from audit.corpus.images import PageView
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import samples_of
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.utility import usefulness
from audit.workflows.options import ScanOptions, claim_folder
from audit.workflows.run import read_outcomes
from audit.workflows.session import Session, open_session
from benchmarks.papers.provider_invoices_data import Sizes, png, pretraining, write_data
from benchmarks.papers.provider_invoices_permuted import rerun
from benchmarks.papers.provider_invoices_report import write_report
from benchmarks.papers.provider_invoices_sroie import run_sroie
from benchmarks.papers.provider_invoices_training import fit
from benchmarks.tools.scanning import scan_once

HERE = Path(__file__).parent
ATTACK = "provider_membership"
STAGES = ("data", "pretrain", "train", "audit", "permute", "report")
MODELS = ("long", "brief")
SEED = 0
N_RUNS = 200
"""Of the whole pipeline with permuted labels."""
MODEL_SIZE = Size(height=128, width=128, n_pieces=600, positions=64)
LEARNING_RATE = 1e-3
BATCH_SIZE = 16
FIRST_READ = "trade"
"""The question that pretraining begins with: eight answers, in letters large enough. A model that is asked everything
from the start learns which answers there are and never to look."""
SMOKE = {
    "providers": 8,
    "public": 2,
    "pretraining": 6,
    "first_epochs": 1,
    "pretraining_epochs": 1,
    "long": 2,
    "brief": 1,
    "permuted": 2,
}


def main() -> None:
    """See the module's docstring."""
    options = _options()
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    stages = options.stage or STAGES
    data: Path = options.work / "data"
    sizes = Sizes(options.providers // 2, options.public, options.pretraining)
    if "data" in stages and not (data / "manifest.toml").exists():
        write_data(
            data,
            sizes,
            TrainingRecipe(learning_rate=LEARNING_RATE, batch_size=BATCH_SIZE, seed=SEED),
        )
    if "pretrain" in stages:
        pretrain(data, sizes, options)
    for name in options.only or MODELS:
        if "train" in stages:
            train(name, data, options)
        if "audit" in stages:
            audit(
                options.work / f"model-{name}",
                data,
                options.work / f"report-{name}",
                options.out / f"{name}.json",
            )
    if "audit" in stages:
        read_before(data, options.out / "pretrained.anls.json")
    if "permute" in stages:
        permute(data, options)
    if options.sroie is not None and {"train", "audit"} <= {*stages}:
        run_sroie(
            options.sroie,
            options.backbone,
            options.work / "sroie",
            options.out,
            audit,
            smoke=options.smoke,
        )
    if "report" in stages:
        write_report(options.out, options.machine)


def _options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/providers"))
    parser.add_argument(
        "--out", type=Path, default=HERE / "provider_invoices", help="records and README"
    )
    parser.add_argument(
        "--stage", choices=STAGES, action="append", help="may be repeated; default: all"
    )
    parser.add_argument(
        "--only", choices=MODELS, action="append", help="may be repeated; default: both"
    )
    parser.add_argument(
        "--providers", type=int, default=640, help="audited ones; half of them are in"
    )
    parser.add_argument(
        "--public", type=int, default=40, help="public providers, with one invoice each"
    )
    parser.add_argument(
        "--pretraining", type=int, default=600, help="providers of the pretrained model, two each"
    )
    parser.add_argument(
        "--first-epochs", type=int, default=5, help=f"of pretraining on {FIRST_READ} alone"
    )
    parser.add_argument(
        "--pretraining-epochs", type=int, default=5, help="on all questions, after those"
    )
    parser.add_argument("--long", type=int, default=10, help="epochs")
    parser.add_argument("--brief", type=int, default=2, help="epochs")
    parser.add_argument(
        "--permuted", type=int, default=N_RUNS, help="runs of the pipeline with permuted labels"
    )
    parser.add_argument("--sroie", type=Path, help="SROIE's folder; without it SROIE is left out")
    parser.add_argument(
        "--backbone", type=Path, help="a BERT-like model whose vocabulary SROIE's model takes"
    )
    parser.add_argument(
        "--machine", default="2-core CPU", help="the machine in general terms, for the README"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="a few providers and one epoch: does everything run?"
    )
    options = parser.parse_args()
    if options.sroie is not None and options.backbone is None:
        parser.error("--sroie needs --backbone")
    if options.smoke:
        options.work = options.work.with_name(f"{options.work.name}-smoke")
        options.out = options.work / "out"
        for name, value in SMOKE.items():
            setattr(options, name, value)
    return options


def pretrain(data: Path, sizes: Sizes, options: argparse.Namespace) -> None:
    """Teach a fresh model to read invoices of shops that nobody audits: what the audited models start from."""
    folder = data / "references" / "pretrained"
    if folder.exists():
        return
    invoices = list(pretraining(sizes))
    untrained = options.work / "untrained"
    texts = [text for _, document in invoices for text in _texts(document)]
    write_untrained(untrained, MODEL_SIZE, texts, SEED)
    first: list[Sample] = []
    samples: list[Sample] = []
    for receipt, document in invoices:
        view = PageView((), None, partial(_opened, png(receipt)))
        asked = {one.id: Sample(view, one.question, one.answers[0]) for one in document.questions}
        first.append(asked[FIRST_READ])
        samples += asked.values()
    began = options.work / "began"
    fit(untrained, began, first, _recipe(options.first_epochs), options.out / "began.training.json")
    fit(
        began,
        folder,
        samples,
        _recipe(options.pretraining_epochs),
        options.out / "pretrained.training.json",
    )


def _texts(document: Document) -> list[str]:
    """Return all texts of a document: questions, answers and words."""
    asked = [text for one in document.questions for text in (one.question, *one.answers)]
    return [*asked, " ".join(word.text for word in document.words)]


def _opened(page: bytes) -> Image.Image:
    """Return the bytes of an image as an RGB image."""
    return Image.open(io.BytesIO(page)).convert("RGB")


def train(name: str, data: Path, options: argparse.Namespace) -> None:
    """Train the pretrained model on the members, for as many epochs as the option of that name says."""
    folder = options.work / f"model-{name}"
    if folder.exists():
        return
    corpus = manifest.load(data)
    samples = list(samples_of(corpus, corpus.of("member")))
    log = options.out / f"{name}.training.json"
    fit(data / "references" / "pretrained", folder, samples, _recipe(getattr(options, name)), log)


def _recipe(epochs: int) -> AnsweringRecipe:
    """Return the training recipe of this many epochs."""
    return AnsweringRecipe(
        epochs=epochs, learning_rate=LEARNING_RATE, batch_size=BATCH_SIZE, seed=SEED
    )


def read_before(data: Path, result: Path) -> None:
    """Write how well the pretrained model reads the held-out invoices, which its training on members starts from."""
    if result.exists():
        return
    target = load_answering(data / "references" / "pretrained", device="cpu")
    (found,) = usefulness(target, manifest.load(data), SEED)
    content = {name: getattr(found, name, None) for name in ("value", "low", "high", "null")}
    result.write_text(json.dumps(content, indent=1) + "\n")


def audit(
    model: Path,
    data: Path,
    out: Path,
    result: Path,
    device: str = "cpu",
    attack: ProviderMembership | None = None,
) -> None:
    """Scan a model for provider membership, as `docaudit scan --only provider_membership`.

    Its record is `result`.
    """
    opened = opened_scan(model, data, out, device, attack)
    records.write(scan_once(opened, model.name), result)


def permute(data: Path, options: argparse.Namespace) -> None:
    """Run the whole pipeline again on what the long model answered in its scan, with the providers' labels permuted."""
    out = options.work / f"report-{MODELS[0]}"
    opened = opened_scan(options.work / f"model-{MODELS[0]}", data, out)
    (attack,) = opened.attacks
    assert isinstance(attack, ProviderMembership)
    with claim_folder(out):
        # All from the journal of the scan.
        planned, outcomes = read_outcomes(opened, ATTACK)
    found = rerun(attack, planned.trials, outcomes, options.permuted, SEED)
    (options.out / f"{MODELS[0]}.permuted.json").write_text(json.dumps(found, indent=1) + "\n")


def opened_scan(
    model: Path,
    data: Path,
    out: Path,
    device: str = "cpu",
    attack: ProviderMembership | None = None,
) -> Session:
    """The scan for provider membership alone, with its usual parameters or those of this attack."""
    opened = open_session(
        ScanOptions(
            model_dir=model, data_dir=data, out=out, only=(ATTACK,), device=device, dtype="float32"
        )
    )
    if attack is None:
        return opened
    return replace(opened, attacks=(attack,))


if __name__ == "__main__":
    main()
