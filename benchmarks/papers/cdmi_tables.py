r"""Table 5 of the CDMI paper on SROIE and FUNSD, with a small backbone, and what the held-out control says about it.

    python -m benchmarks.papers.cdmi_tables --sroie sroie \
        --funsd funsd --backbone minilm-l6-h384

imports both corpora, makes a LayoutLM out of the first layers of a BERT-like backbone (box
embeddings, image branch and heads start fresh), fine-tunes it for every setting on the member split
and the public masked language models on the public split, audits each model at the epoch of best
validation accuracy ("Precision") and of lowest validation loss ("Loss"), one-shot and multi-shot,
and writes the records and the table into `cdmi_tables/`. The validation documents are
the held-out ones: the held-out control has seen the choice of the epoch, and no weight. What is
already in `--work` is not made again; `--only NAME` and `--stage` make one part, so that several
can run side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from transformers import BertModel, LayoutLMConfig, LayoutLMForMaskedLM

from audit import record as records
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.attack import N_ATTEMPTS
from audit.attacks.reconstruction.cdmi import JudgedCandidates, Proposals
from audit.case import Case
from audit.corpus import manifest
from audit.corpus.documents import Corpus, Split, Task, TaskKind, TrainingRecipe
from audit.corpus.images import open_image
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.references.encoders import fit
from audit.references.recipes import Recipe, starting_model
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.encoded_page import WHITE, Encoding, Pixels
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.loading import load
from audit.workflows.options import ScanOptions
from audit.workflows.session import Session, open_session
from benchmarks.papers.cdmi_numbers import write_numbers
from benchmarks.papers.cdmi_report import write_table
from benchmarks.papers.cdmi_training import BestEpochs, ScoringTrainer
from benchmarks.tools.scanning import scan_once
from benchmarks.tools.starts import start_with_images

HERE = Path(__file__).parent
SHARES: dict[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.4}
N_LAYERS = 2
MAX_TOKENS = 255
CRITERIA = ("precision", "loss")


def with_noise(page: Encoding) -> Encoding:
    """Replace the page's image by Gaussian noise that follows from its tokens; white patches stay.

    The mean is the middle of the range and two standard deviations reach its ends; the paper does
    not say.
    """
    picture = page.page_image
    if picture is None:
        return page

    def noise() -> Pixels:
        drawn = np.random.default_rng(page.ids).normal(WHITE / 2, WHITE / 4, (3, *picture.size))
        return np.clip(np.rint(drawn), 0, WHITE).astype(np.uint8)

    return replace(page, page_image=replace(picture, open_page=noise))


@dataclass(frozen=True)
class NoisyPictures(Reconstruction):
    """Reconstruct with noise in place of the page's image (Dentan et al. 2024, section 6.2)."""

    def _attacker(self, case: Case, page: Encoding, positions: tuple[int, ...]) -> JudgedCandidates:
        return super()._attacker(case, with_noise(page), positions)

    def _from_public(self, case: Case, page: Encoding, positions: tuple[int, ...]) -> Proposals:
        return super()._from_public(case, with_noise(page), positions)


@dataclass(frozen=True)
class Setting:
    """One row of the paper's table 5, for both criteria.

    `public-mlm` is the adversary's model, not a row.

    Attributes:
        corpus: "sroie" or "funsd".
        task: the task the model is fine-tuned for.
        bimodal: whether it sees the page's image.
        recipe: how it is fine-tuned.
        share: of the fields, the part that the audit takes.
        n_candidates: N_c.
        public: trained on the public split instead, for the adversary.
    """

    corpus: str
    task: TaskKind
    bimodal: bool
    recipe: Recipe
    share: float = 0.0
    n_candidates: int = 32
    public: bool = False

    @property
    def name(self) -> str:
        """As files and rows are called."""
        if self.public:
            return f"{self.corpus}-public-mlm"
        return f"{self.corpus}-{self.task}-{'bimodal' if self.bimodal else 'unimodal'}"


def _recipe(epochs: int, learning_rate: float = 5e-4) -> Recipe:
    return Recipe(epochs=epochs, learning_rate=learning_rate, batch_size=8, bf16=True)


SETTINGS = (
    Setting("sroie", "mlm", False, _recipe(20), public=True),
    Setting("funsd", "mlm", False, _recipe(20), public=True),
    *(
        Setting("sroie", "token-classification", bimodal, _recipe(8), 0.04, 16)
        for bimodal in (False, True)
    ),
    *(
        Setting("sroie", "spade-extraction", bimodal, _recipe(8), 0.04, 16)
        for bimodal in (False, True)
    ),
    *(
        Setting("funsd", "spade-linking", bimodal, _recipe(20), 0.04, 16)
        for bimodal in (False, True)
    ),
    *(Setting("sroie", "mlm", bimodal, _recipe(12), 0.12, 128) for bimodal in (False, True)),
    *(Setting("funsd", "mlm", bimodal, _recipe(20), 0.12, 128) for bimodal in (False, True)),
)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sroie", type=Path, default=Path("sroie"))
    parser.add_argument("--funsd", type=Path, default=Path("funsd"))
    parser.add_argument("--backbone", type=Path, default=Path("minilm-l6-h384"))
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/cdmi"))
    parser.add_argument("--only", action="append", help="a setting's name; may be repeated")
    parser.add_argument(
        "--stage", choices=("train", "audit", "table"), action="append", help="default: all three"
    )
    parser.add_argument("--criterion", choices=CRITERIA, action="append", help="default: both")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", help="of the encoder while attacking")
    parser.add_argument(
        "--machine", default="2-core CPU", help="the machine in general terms, for the table"
    )
    options = parser.parse_args()
    stages = options.stage or ["train", "audit", "table"]
    options.work.mkdir(parents=True, exist_ok=True)
    make_pretrained(options.backbone, options.work / "pretrained")
    chosen = [setting for setting in SETTINGS if not options.only or setting.name in options.only]
    for setting in chosen:
        data = make_data(setting, getattr(options, setting.corpus), options.work)
        if "train" in stages:
            train(setting, manifest.load(data), options.work, options.device)
        if "audit" in stages and not setting.public:
            audit_setting(setting, data, options)
    if "table" in stages:
        write_table(HERE / "cdmi_tables", options.work, options.machine)


def audit_setting(setting: Setting, data: Path, options: argparse.Namespace) -> None:
    """Attack the models of a setting, and one that sees pages with noisy pictures."""
    where = (data, options.work, options.device, options.dtype)
    for criterion in options.criterion or CRITERIA:
        audit_model(setting, criterion, *where)
    if setting.bimodal and setting.task == "mlm":
        audit_model(setting, "precision", *where, noise=True)


def make_data(
    setting: Setting, source: Path, work: Path, shares: Mapping[Split, float] = SHARES
) -> Path:
    """The corpus, imported once, with the task of the setting in its manifest."""
    imported = work / f"data-{setting.corpus}"
    if not imported.exists():
        draft = imported.with_name(f"{imported.name}.tmp")
        shutil.rmtree(draft, ignore_errors=True)
        FORMATS[setting.corpus].convert(ImportRequest(source, draft, shares, seed=0))
        draft.rename(imported)
    folder = work / f"data-{setting.corpus}-{setting.task}"
    if not (folder / "manifest.toml").exists():
        corpus = manifest.load(imported)
        shutil.copytree(
            imported,
            folder,
            ignore=lambda _, names: {"manifest.toml"}.intersection(names),
            dirs_exist_ok=True,
        )
        task = Task(setting.task, task_labels(corpus, setting.task))
        recipe = TrainingRecipe(checkpoint_chosen_on="heldout")
        manifest.write(folder, replace(corpus.manifest, task=task, recipe=recipe), corpus.documents)
    return folder


def task_labels(corpus: Corpus, task: TaskKind) -> tuple[str, ...]:
    """BIO tags, plain classes for SPADE extraction, none for the others."""
    names = sorted({entity.label for document in corpus.documents for entity in document.entities})
    return {
        "token-classification": ("O", *(f"{begin}-{name}" for name in names for begin in "BI")),
        "spade-extraction": ("O", *names),
    }.get(task, ())


def make_pretrained(
    backbone: Path, folder: Path, n_layers: int | None = N_LAYERS, max_tokens: int = MAX_TOKENS
) -> None:
    """A LayoutLM with the backbone's first layers.

    Box embeddings and the masked-language-model head start fresh.

    Args:
        backbone: a BERT-like checkpoint.
        folder: where it goes, once.
        n_layers: so many of its layers; None: all.
        max_tokens: of a page.
    """
    if folder.exists():
        return
    torch.manual_seed(0)
    bert = BertModel.from_pretrained(backbone, dtype=torch.float32, local_files_only=True)
    shared = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size")
    # Without dropout on attention weights PyTorch takes its fused kernel: half the time on a CPU.
    config = LayoutLMConfig(
        **{name: getattr(bert.config, name) for name in shared},
        num_hidden_layers=n_layers or bert.config.num_hidden_layers,
        max_position_embeddings=512,
        attention_probs_dropout_prob=0.0,
    )
    model = LayoutLMForMaskedLM(config)
    missing = model.layoutlm.load_state_dict(bert.state_dict(), strict=False).missing_keys
    assert all("position_embeddings" in name for name in missing), missing
    tokenizer = load_tokenizer(backbone)
    tokenizer.model_max_length = max_tokens
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_start(setting: Setting, corpus: Corpus, work: Path) -> Path:
    """What the setting is fine-tuned from: the pretrained encoder, the image branch and the task's head fresh."""
    folder = work / f"start-{setting.name}"
    if folder.exists():
        return folder
    pretrained = work / "pretrained"
    start = start_with_images if setting.bimodal else starting_model
    head = cast("HeadName", setting.task)
    model = start(pretrained, head, labels=corpus.manifest.task.labels)
    model.save_pretrained(folder)
    load_tokenizer(pretrained).save_pretrained(folder)
    return folder


def train(setting: Setting, corpus: Corpus, work: Path, device: str) -> None:
    """Fine-tune and keep the epochs of best validation accuracy and of lowest validation loss."""
    if (work / f"{setting.name}.json").exists():
        return
    start = load(
        make_start(setting, corpus, work),
        labels=corpus.manifest.task.labels,
        images=partial(open_image, corpus),
    )
    tokenizer = start.encoder.tokenizer
    members: Split = "public" if setting.public else "member"
    training = [page for page in map(start.encode, corpus.of(members)) if page is not None]
    validation = [page for page in map(start.encode, corpus.of("heldout")) if page is not None]
    began = time.monotonic()
    watch = BestEpochs(
        lambda: print(f"{setting.name}: {(time.monotonic() - began) / 60:.1f} min", flush=True)
    )
    fit(
        start.model,
        tokenizer,
        training,
        setting.recipe,
        validation=validation,
        device=device,
        trainer=ScoringTrainer,
        watch=watch,
    )
    minutes = (time.monotonic() - began) / 60
    for criterion in CRITERIA:
        start.model.load_state_dict(getattr(watch, criterion))
        start.model.save_pretrained(work / f"{setting.name}-{criterion}")
        tokenizer.save_pretrained(work / f"{setting.name}-{criterion}")
    log = {
        "minutes": minutes,
        "epochs": setting.recipe.epochs,
        "pages": len(training),
        **chosen_epochs(watch),
    }
    scores = zip(watch.history, watch.accuracies, strict=True)
    history = [{**asdict(score), "validation_accuracy": accuracy} for score, accuracy in scores]
    (work / f"{setting.name}.json").write_text(json.dumps({**log, "history": history}, indent=1))


def chosen_epochs(watch: BestEpochs) -> dict[str, int]:
    """The epochs (from 1) that the two criteria choose, the first of equals."""
    lowest = min(watch.history, key=lambda score: score.validation_loss or float("inf"))
    return {"precision": 1 + int(np.argmax(watch.accuracies)), "loss": lowest.epoch}


def open_audit(
    setting: Setting,
    criterion: str,
    data: Path,
    work: Path,
    device: str,
    dtype: str,
    *,
    noise: bool = False,
    n_attempts: int = N_ATTEMPTS,
    kind: type[Reconstruction] = Reconstruction,
) -> tuple[Session, Reconstruction]:
    """Open the scan of one checkpoint, and return it with its only attack."""
    epoch = json.loads((work / f"{setting.name}.json").read_text())[criterion]
    options = ScanOptions(
        model_dir=work / f"{setting.name}-{criterion}",
        data_dir=data,
        out=work / f"report-{setting.name}-epoch-{epoch}{'-noise' if noise else ''}",
        device=device,
        dtype=dtype,
        references={"auxiliary": [work / f"{setting.corpus}-public-mlm-loss"]},
    )
    attack = (NoisyPictures if noise else kind)(
        n_candidates=setting.n_candidates, n_attempts=n_attempts
    )
    session = open_session(options)
    sampling = replace(session.sampling, budget="benchmark", share=setting.share)
    return replace(session, sampling=sampling, attacks=(attack,)), attack


def audit_model(
    setting: Setting,
    criterion: str,
    data: Path,
    work: Path,
    device: str,
    dtype: str,
    *,
    results: Path = HERE / "cdmi_tables",
    noise: bool = False,
    **settings: Any,
) -> None:
    """Scan one checkpoint through the library's own workflow; the record goes to `results`.

    Both criteria may choose the same epoch: the same weights, the same record. `settings` are those
    of `open_audit`.
    """
    committed = results / f"{setting.name}-{'noise' if noise else criterion}.json"
    committed.parent.mkdir(exist_ok=True)
    opened, attack = open_audit(
        setting, criterion, data, work, device, dtype, noise=noise, **settings
    )
    records.write(scan_once(opened), committed)
    write_numbers(opened, attack, committed.with_suffix(".numbers.json"))


if __name__ == "__main__":
    main()
