"""Figure 7 of the CDMI paper on two cores: exact recovery of SROIE's fields after more and more epochs.

    python benchmarks/cdmi_epochs.py --sroie ../shared/data/sroie --backbone ../shared/models/minilm-l6-h384

The smallest setting in which the paper's effect can appear: 130 receipts, a LayoutLM without images from a small BERT,
150 epochs, every field, one attempt. `benchmarks/gpu/epochs.py` is the larger setting. Each step is kept in `--work`,
so that a run that is stopped goes on. Writes `benchmarks/cdmi_epochs/`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "sample_models"))

import cdmi_report
import cdmi_tables
from cdmi_numbers import Number
from cdmi_tables import Setting

from audit.corpus import manifest
from audit.corpus.documents import Split
from audit.references.encoders import BestLoss, fit
from audit.references.recipes import Recipe
from audit.targets.batching import longest_row
from audit.targets.encoders.loading import load

HERE = Path(__file__).parent / "cdmi_epochs"
RECEIPTS = 453
"""The first of SROIE's 626: 130 private, 263 public as in the paper, 60 held out."""
SHARES: dict[Split, float] = {"member": 130 / RECEIPTS, "public": 263 / RECEIPTS, "heldout": 60 / RECEIPTS}
EPOCHS = (150, 30, 75, 10)
"""The checkpoints, in the order in which they are attacked."""
PUBLIC_EPOCHS = 60
"""Of 300 epochs on a GPU, the validation loss was lowest after 94 (benchmarks/gpu/h100)."""
POSITIONS = 512


class Epochs(Setting):
    """A setting with folders of its own."""

    @property
    def name(self) -> str:
        """See `Setting.name`."""
        return f"{self.corpus}-epochs"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sroie", type=Path, default=Path("../shared/data/sroie"))
    parser.add_argument("--backbone", type=Path, default=Path("../shared/models/minilm-l6-h384"))
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/cdmi-epochs"))
    options = parser.parse_args()
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    recipe = Recipe(epochs=max(EPOCHS), learning_rate=2e-4, batch_size=16, bf16=True)
    private = Epochs("sroie", "mlm", False, recipe, share=1.0, n_candidates=128)
    public = Setting("sroie", "mlm", False, replace(recipe, epochs=PUBLIC_EPOCHS), public=True)
    data = cdmi_tables.make_data(private, first_receipts(options.sroie, work / "receipts"), work, SHARES)
    cdmi_tables.make_pretrained(options.backbone, work / "pretrained", None, longest_row(POSITIONS))
    train(private, data, work)
    cdmi_tables.train(public, manifest.load(data), work, "cpu")
    HERE.mkdir(exist_ok=True)
    for epoch in EPOCHS:
        cdmi_tables.audit_model(private, f"epoch-{epoch}", data, work, "cpu", "float32", results=HERE, n_attempts=1)
        write_table(work)


def first_receipts(source: Path, folder: Path) -> Path:
    """Copy the first receipts, in the order of their names."""
    if not folder.exists():
        names = sorted(path.stem for path in (source / "img").iterdir())[:RECEIPTS]
        draft = folder.with_name("receipts.tmp")
        for kind in ("img", "box", "key"):
            (draft / kind).mkdir(parents=True, exist_ok=True)
            for path in (source / kind).iterdir():
                if path.stem in names:
                    shutil.copy(path, draft / kind)
        draft.rename(folder)
    return folder


def train(setting: Setting, data: Path, work: Path, epochs: Sequence[int] = EPOCHS, device: str = "cpu") -> None:
    """Train the private model once, and keep the weights after each of these epochs."""
    log = work / f"{setting.name}.json"
    if log.exists():
        return
    corpus = manifest.load(data)
    start = load(cdmi_tables.make_start(setting, corpus, work))
    pages = [page for page in map(start.encode, corpus.of("member")) if page is not None]
    passed = 0
    began = time.monotonic()

    def keep() -> None:
        nonlocal passed
        passed += 1
        print(f"epoch {passed}, {time.monotonic() - began:.0f} s", flush=True)
        if passed in epochs:
            folder = work / f"{setting.name}-epoch-{passed}"
            start.model.save_pretrained(folder)
            start.encoder.tokenizer.save_pretrained(folder)

    fitted = fit(start.model, start.encoder.tokenizer, pages, setting.recipe, device=device, watch=BestLoss(keep))
    losses = {f"training loss {epoch}": fitted.history[epoch - 1].training_loss for epoch in epochs}
    minutes = (time.monotonic() - began) / 60
    chosen = {f"epoch-{epoch}": epoch for epoch in epochs}
    log.write_text(json.dumps({"minutes": minutes, "pages": len(pages), **chosen, **losses}))


COLUMNS = {
    "prec": "masked tokens right",
    "candidate_recall": "truth among the candidates",
    "acc_at_100.member.attack": "exact, members",
    "acc_at_100.member.baseline": "exact, members, without the model",
    "acc_at_100.heldout.attack": "exact, held out",
    "hamaac.member.attack": "HamAAC, members",
    "hamaac.member.baseline": "HamAAC, without the model",
    "ipf.member": "IpF, members",
}


def table(rows: list[tuple[int, Mapping[str, Number]]]) -> list[str]:
    """Print a row for each epoch."""
    text = [f"| epoch | fields | {' | '.join(COLUMNS.values())} |", "|---" * (2 + len(COLUMNS)) + "|"]
    for epoch, numbers in rows:
        exact = numbers.get("acc_at_100.member.attack")
        cells = [cdmi_report.number(numbers, name) for name in COLUMNS]
        text.append(f"| {epoch} | {exact.n if exact else '-'} | {' | '.join(cells)} |")
    return text


def write_table(work: Path) -> None:
    """Write the table of the epochs that were attacked."""
    paths = {epoch: HERE / f"sroie-epochs-epoch-{epoch}.json" for epoch in sorted(EPOCHS)}
    rows = [(epoch, cdmi_report.numbers_in(path)) for epoch, path in paths.items() if path.exists()]
    shutil.copy(work / "sroie-epochs.json", HERE / "training.json")
    date = time.strftime("%Y-%m-%d")
    head = [f"# Exact recovery by epoch, SROIE, {date}, 2-core CPU", "", "Made by `benchmarks/cdmi_epochs.py`.", ""]
    (HERE / "README.md").write_text("\n".join([*head, *table(rows), ""]))


if __name__ == "__main__":
    main()
