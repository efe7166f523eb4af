r"""Memorisation of question-answering models on real receipts (Pinto et al. 2024): two shapes, two image resolutions.

    python -m benchmarks.papers.vqa_sroie --sroie sroie \
        --backbone minilm-l6-h384

turns SROIE's keys into questions, makes small untrained checkpoints (`vqa_sroie_models.py`), trains
for every setting a model on the member split and a baseline on the public one, scans the model, and
writes the records and a README with the paper's two findings tested into `vqa_sroie/`.
What is already in `--work` is not made again. `--only NAME` and `--stage` make one part; stages
"data" and "start" go first, alone, then settings can run side by side, each with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

from audit import record as records
from audit.arrays import Bools, Floats
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.contexts import CONTEXTS, Context
from audit.attacks.memorisation.table import build_table
from audit.corpus import manifest
from audit.corpus.documents import Split, TrainingRecipe
from audit.importers.formats.sroie import PHRASINGS
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.progress import Progress
from audit.references.recipes import AnsweringRecipe
from audit.references.retrain import recipe_for
from audit.references.trainer import fit_answering, samples_of, save_answering
from audit.references.training import train_baseline
from audit.targets.answering.loading import load_answering
from audit.workflows.options import ScanOptions
from audit.workflows.run import read_outcomes
from audit.workflows.session import Session, open_session
from benchmarks.papers.vqa_sroie_guessing import guesses
from benchmarks.papers.vqa_sroie_models import Shape, make_start
from benchmarks.papers.vqa_sroie_report import write_report
from benchmarks.tools.scanning import scan_once

HERE = Path(__file__).parent
SEED = 0
STAGES = ("data", "start", "train", "audit", "report")
EPOCHS: dict[Shape, int] = {"donut": 30, "vt5": 12}
TRIED: tuple[Context, ...] = ("exact", "no_text", "paraphrased")
SMOKE = {
    "members": 4,
    "heldout": 3,
    "public": 4,
    "epochs": 1,
    "share": 0.5,
    "resolutions": "64x64,128x64",
}
SMOKE_CONTEXTS = "exact,paraphrased"
SMALLEST_SIDE = 64
"""In pixels: from here on the last stage of Donut's encoder fills a window of its attention."""
N_SMOKE = 24
"""Receipts that `--smoke` reads of the source."""


@dataclass(frozen=True)
class Setting:
    """A shape of model at one image resolution (height and width in pixels)."""

    shape: Shape
    size: tuple[int, int]

    @property
    def name(self) -> str:
        """As files and rows are called."""
        return f"{self.shape}-{self.size[0]}x{self.size[1]}"


@dataclass
class Epochs(Progress):
    """Progress that prints every epoch, and how long they took.

    Attributes:
        name: stands before each line.
        seconds: of each epoch.
    """

    name: str
    total: int
    seconds: list[float] = dataclasses.field(default_factory=list)
    began: float = dataclasses.field(default_factory=time.monotonic)

    def stage(self, name: str, total: int = 0) -> None:
        """See `Progress.stage`."""
        self.total = total
        self.began = time.monotonic()

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        now = time.monotonic()
        self.seconds.append(now - self.began)
        self.began = now
        left = (self.total - len(self.seconds)) * sum(self.seconds) / len(self.seconds) / 60
        print(
            f"{self.name}: epoch {len(self.seconds)} of {self.total}, {self.seconds[-1]:.1f} s, {left:.1f} min left",
            flush=True,
        )


def main() -> None:
    """Train, scan and report question-answering models on SROIE, as the options say."""
    options = _options()
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    sizes = [_size(text) for text in options.resolutions.split(",")]
    settings = [Setting(shape, size) for shape in get_args(Shape) for size in sizes]
    chosen = [setting for setting in settings if not options.only or setting.name in options.only]
    if not chosen:
        raise SystemExit(f"--only: one of {', '.join(setting.name for setting in settings)}")
    stages = options.stage or STAGES
    if {*stages} - {"report"}:
        for setting in chosen:
            run_stages(setting, stages, options)
    if "report" in stages:
        write_report(options.out, options.machine)


def run_stages(setting: Setting, stages: Sequence[str], options: argparse.Namespace) -> None:
    """Make the data of a setting, train its models and audit them, as far as stages say."""
    data = make_data(setting.shape, options)
    if {*stages} - {"data", "report"}:
        start = make_start_of(setting, data, options)
        if "train" in stages:
            train(setting, data, start, options)
    if "audit" in stages:
        audit_model(setting, data, options)


def _options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sroie", type=Path, default=Path("sroie"))
    parser.add_argument("--backbone", type=Path, default=Path("minilm-l6-h384"))
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("benchmarks/.work/vqa"),
        help="one for each set of options",
    )
    parser.add_argument("--out", type=Path, default=HERE / "vqa_sroie", help="records and README")
    parser.add_argument(
        "--only", action="append", help="a setting's name, such as donut-128x64; may be repeated"
    )
    parser.add_argument(
        "--stage", choices=STAGES, action="append", help="may be repeated; default: all"
    )
    parser.add_argument(
        "--resolutions",
        default="128x64,256x128",
        help="heights and widths; receipts are twice as high",
    )
    parser.add_argument("--members", type=int, default=100, help="documents")
    parser.add_argument("--heldout", type=int, default=100)
    parser.add_argument("--public", type=int, default=100)
    parser.add_argument("--epochs", type=int, help=f"default: {EPOCHS}")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--bf16", action="store_true", help="train in bfloat16")
    parser.add_argument(
        "--share", type=float, default=0.5, help="of the questions, asked by the audit"
    )
    parser.add_argument(
        "--contexts", default=",".join(TRIED), help=f"of {', '.join(CONTEXTS)}; or all"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--machine", default="2-core CPU", help="the machine in general terms, for the README"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="a few documents and one epoch: does everything run?"
    )
    options = parser.parse_args()
    if options.smoke:
        _make_smoke(options)
    options.contexts = CONTEXTS if options.contexts == "all" else tuple(options.contexts.split(","))
    return options


def _make_smoke(options: argparse.Namespace) -> None:
    """Tiny sizes, in folders of their own; the source is cut to its first receipts."""
    options.work = options.work.with_name(f"{options.work.name}-smoke")
    options.out = options.work / "out"
    source = options.work / "source"
    for kind in ("img", "box", "key"):
        if not (source / kind).exists():
            (source / kind).mkdir(parents=True)
            for path in sorted((options.sroie / kind).iterdir())[:N_SMOKE]:
                shutil.copyfile(path, source / kind / path.name)
    options.sroie = source
    options.contexts = SMOKE_CONTEXTS
    for name, value in SMOKE.items():
        setattr(options, name, value)


def _size(text: str) -> tuple[int, int]:
    """Return height and width of a text "HEIGHTxWIDTH"; refuse sides that are too short."""
    height, width = map(int, text.split("x"))
    if min(height, width) < SMALLEST_SIDE:
        raise SystemExit(f"--resolutions: {text} has a side under {SMALLEST_SIDE}")
    return height, width


def make_data(shape: Shape, options: argparse.Namespace) -> Path:
    """The corpus, imported once; in its manifest the recipe of the shape."""
    wanted: dict[Split, int] = {
        "member": options.members,
        "heldout": options.heldout,
        "public": options.public,
    }
    imported = options.work / "data"
    if not imported.exists():
        total = len(list((options.sroie / "img").iterdir()))
        shares = {split: n / total for split, n in wanted.items()}
        FORMATS["sroie"].convert(
            ImportRequest(options.sroie, imported, shares, seed=SEED, task="question-answering")
        )
    recipe = TrainingRecipe(
        epochs=options.epochs or EPOCHS[shape],
        learning_rate=options.learning_rate,
        batch_size=options.batch_size,
        seed=SEED,
    )
    folder: Path = options.work / f"data-{shape}"
    if not folder.exists():
        shutil.copytree(imported, folder)
        corpus = manifest.load(imported)
        manifest.write(folder, replace(corpus.manifest, recipe=recipe), corpus.documents)
    corpus = manifest.load(folder)
    found = {split: len(corpus.of(split)) for split in wanted}
    # Equal images stay in one split, so that sizes may be a document or two off.
    if corpus.manifest.recipe != recipe or any(
        abs(found[split] - n) > 2 for split, n in wanted.items()
    ):
        raise SystemExit(
            f"{folder} was made with other options ({found}, {corpus.manifest.recipe}): give another --work"
        )
    return folder


def make_start_of(setting: Setting, data: Path, options: argparse.Namespace) -> Path:
    """What model and baseline of the setting are trained from."""
    folder: Path = options.work / f"start-{setting.name}"
    if not folder.exists():
        taken = {document.id for document in manifest.load(data).documents}
        texts = [
            *_unused_lines(options.sroie, taken),
            *(words for asked in PHRASINGS.values() for words in asked),
        ]
        make_start(setting.shape, setting.size, options.backbone, texts, folder)
    return folder


def _unused_lines(source: Path, taken: set[str]) -> Iterator[str]:
    """Text lines of the receipts that are in no split."""
    for path in sorted((source / "box").iterdir()):
        if path.stem not in taken:
            for row in path.read_text(encoding="utf-8", errors="replace").splitlines():
                yield row.split(",", 8)[-1]


def train(setting: Setting, data: Path, start: Path, options: argparse.Namespace) -> None:
    """Train the model on the members and one baseline on public documents, by the same recipe."""
    log = options.work / f"{setting.name}.json"
    if log.exists():
        return
    corpus = manifest.load(data)
    recipe = recipe_for(corpus)
    assert isinstance(recipe, AnsweringRecipe)
    recipe = replace(recipe, bf16=options.bf16)
    samples = samples_of(corpus, corpus.of("member"))
    target = load_answering(start, device=options.device)
    epochs = Epochs(f"{setting.name}, model", recipe.epochs)
    losses = fit_answering(target, samples, recipe, epochs)
    save_answering(target.model, start, options.work / f"model-{setting.name}")
    on_public = Epochs(f"{setting.name}, baseline", recipe.epochs)
    (baseline,) = train_baseline(
        start,
        corpus,
        options.work / "baselines",
        recipe=recipe,
        device=options.device,
        progress=on_public,
    )
    content = {
        **_recipe_settings(recipe),
        "samples": len(samples),
        "vocabulary": target.card.vocabulary,
        "losses": losses,
        "seconds": sum(epochs.seconds),
        "baseline_seconds": sum(on_public.seconds) or None,
        "baseline": baseline.name,
    }
    log.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{setting.name}: loss {losses[0]:.2f} -> {losses[-1]:.2f}", flush=True)


def _recipe_settings(recipe: AnsweringRecipe) -> dict[str, int | float | bool]:
    """Return epochs, learning rate, batch size and bf16 of a recipe, by name."""
    return {
        name: getattr(recipe, name) for name in ("epochs", "learning_rate", "batch_size", "bf16")
    }


def _baseline(setting: Setting, options: argparse.Namespace) -> Path:
    """Return the folder of the baseline that was trained for a setting."""
    return Path(
        options.work
        / "baselines"
        / json.loads((options.work / f"{setting.name}.json").read_text())["baseline"]
    )


def audit_model(setting: Setting, data: Path, options: argparse.Namespace) -> None:
    """Scan the model.

    Its record, its training and the answers, question by question, go into `--out`.
    """
    out = options.work / f"report-{setting.name}"
    opened = open_session(
        ScanOptions(
            model_dir=options.work / f"model-{setting.name}",
            data_dir=data,
            out=out,
            only=("memorisation",),
            device=options.device,
            dtype="float32",
            references={"baselines": [_baseline(setting, options)]},
        )
    )
    attack = Memorisation(contexts=options.contexts)
    opened = replace(
        opened,
        sampling=replace(opened.sampling, budget="benchmark", share=options.share),
        attacks=(attack,),
    )
    records.write(scan_once(opened, setting.name), options.out / f"{setting.name}.json")
    shutil.copyfile(
        options.work / f"{setting.name}.json", options.out / f"{setting.name}.training.json"
    )
    content = {"guesses": guesses(opened.corpus), "splits": answers_of(opened, attack)}
    (options.out / f"{setting.name}.answers.json").write_text(json.dumps(content, indent=1) + "\n")


def answers_of(opened: Session, attack: Memorisation) -> dict[str, dict[str, object]]:
    """By split: the questions (page numbers and fields, no text) and by context who gave the answer.

    Only questions whose answer is proven to be gone; a digit each: 1 given, 0 not, "-" not asked in
    this context.
    """
    planned, outcomes = read_outcomes(opened, attack.name)
    case = planned.case
    trials = planned.trials
    table = build_table(case, trials, outcomes)
    places = {document.id: place for place, document in enumerate(opened.corpus.documents, start=1)}
    found: dict[str, dict[str, object]] = {}
    for split in ("member", "heldout"):
        rows = table.split(split).proven
        found[split] = {
            "questions": [
                f"{places[asked.document.id]} {asked.question.id}" for asked in rows.asked
            ],
            "contexts": {
                name: {
                    "target": _digits(given.tried, given.target),
                    "baseline": _digits(given.tried, given.baseline),
                }
                for name, given in rows.results.items()
            },
        }
    return found


def _digits(tried: Bools, given: Floats) -> str:
    """With one baseline every share is 0 or 1."""
    return "".join(
        str(int(value)) if asked else "-" for asked, value in zip(tried, given, strict=True)
    )


if __name__ == "__main__":
    main()
