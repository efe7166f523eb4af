"""What `docaudit forget-check` says of taggers that were to forget letters, and did or did not.

The letters are those of `sample_models/letters_generator.py`: 250 that are to be forgotten, 300
others of training, 600 unseen ones. A small BERT learns letters of the same tribunal first. All
models below go on from there with the sample's recipe of 6 epochs, but for "ascent":

- "full" learns all 550 letters, "retrained" the 300 others alone, "reference" these with another
  seed;
- "ten kept" learns the 300 others and 10 of the listed ones, 4 times each;
- "ascent" is "full" after one epoch of steps that raise the loss of the listed letters, at three
  rates.

    # writes forget_letters.json and its table; 4 minutes
    python -m benchmarks.calibration.forget_letters
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import build_letters as sample
import numpy as np
import torch
from drafts import fine_tune
from letters_generator import letter
from vocabulary import train_tokenizer

from audit import record as records
from audit.corpus import manifest
from audit.corpus.documents import Document, Manifest, Membership, Redaction, Split, Task
from audit.measurements import Estimate
from audit.references.encoders import save
from audit.targets.encoders.loading import load
from benchmarks.calibration.forget_calibration import write_table

LISTED = 250
KEPT = 300
UNSEEN = 600
PUBLIC = 20
TEN = 10
COPIES = 4
RATES = (0.002, 0.005, 0.01)
"""Learning rates of the ascent."""
SHOWN = ("auc", "low_fpr_advantage", "documents_identified", "documents_treated_worse")


def letters() -> dict[str, list[Document]]:
    """Write the letters: to be forgotten, others of training, unseen, public."""
    splits: dict[str, tuple[Split, int]] = {
        "listed": ("member", LISTED),
        "kept": ("member", KEPT),
        "unseen": ("heldout", UNSEEN),
        "public": ("public", PUBLIC),
    }
    order = np.random.default_rng(sample.SEED).permutation(LISTED + KEPT + UNSEEN + PUBLIC).tolist()
    made = {}
    for name, (split, count) in splits.items():
        own = sorted(order[:count])
        order = order[count:]
        made[name] = [letter(sample.SEED, number, sample.name_of(number), split) for number in own]
    return made


def write_data(folder: Path, documents: Sequence[Document]) -> None:
    """Write the data set."""
    description = Manifest(
        schema=1,
        name="letters-to-forget",
        task=Task("token-classification", sample.TAGS),
        membership=Membership("random"),
        redaction=Redaction("fixed"),
        recipe=sample.FINE_TUNING,
    )
    manifest.write(folder, description, sorted(documents, key=lambda one: one.id))


def ascend(start: Path, folder: Path, documents: Sequence[Document], rate: float) -> None:
    """Raise a tagger's loss of documents by one epoch of gradient ascent, one document a step."""
    target = load(start)
    torch.manual_seed(sample.SEED)
    optimizer = torch.optim.SGD(target.model.parameters(), lr=rate, maximize=True)
    target.model.train()
    for document in documents:
        page = target.encode(document)
        assert page is not None
        assert page.labels is not None
        ids, labels = (torch.tensor(np.asarray(one)[None]) for one in (page.ids, page.labels))
        target.model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    save(target.model, target.encoder.tokenizer, folder)


def train(root: Path, made: dict[str, list[Document]]) -> dict[str, Path]:
    """Train all models; return their folders."""
    others = [
        letter(sample.SEED + 1, number, sample.name_of(number), "public") for number in range(1_500)
    ]
    texts = (" ".join(word.text for word in one.words) for one in [*others, *made["public"]])
    sample.write_untrained(
        root / "untrained", train_tokenizer(texts, sample.N_PIECES, sample.MAX_TOKENS)
    )
    fine_tune(root / "untrained", root / "start", others, sample.PRETRAINING)
    learnt = {
        "full": [*made["listed"], *made["kept"]],
        "retrained": made["kept"],
        "reference": made["kept"],
        "ten kept": [*made["kept"], *made["listed"][:TEN] * COPIES],
    }
    for seed, (name, documents) in enumerate(learnt.items()):
        fine_tune(root / "start", root / name, documents, sample.fine_tuning(sample.SEED + seed))
    for rate in RATES:
        ascend(root / "full", root / f"ascent {rate}", made["listed"], rate)
    return {
        name: root / name
        for name in ("full", "retrained", "ten kept", *(f"ascent {rate}" for rate in RATES))
    }


def check(model: Path, root: Path) -> dict[str, Any]:
    """Run the command; return its exit code and numbers."""
    out = root / f"report of {model.name}"
    given = (
        "--ids",
        root / "ids.txt",
        "--reference",
        f"baselines={root / 'reference'}",
        "--out",
        out,
    )
    command = [
        Path(sys.executable).with_name("docaudit"),
        "forget-check",
        model,
        root / "data",
        *given,
    ]
    done = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True)
    record = records.read(out)
    numbers = {
        item.name: [round(item.value, 3), round(item.low, 3), round(item.high, 3)]
        for item in record.completed["membership"].measurements
        if isinstance(item, Estimate)
    }
    accuracy = [
        [item.name, round(item.value, 3)] for item in record.utility if isinstance(item, Estimate)
    ]
    return {
        "exit": done.returncode,
        "numbers": numbers,
        "usefulness": accuracy,
        "said": done.stdout.splitlines()[-1],
    }


def main() -> None:
    """Train, check, and write what comes out."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        made = letters()
        write_data(root / "data", [one for own in made.values() for one in own])
        (root / "ids.txt").write_text(
            "".join(f"{one.id}\n" for one in made["listed"]), encoding="utf-8"
        )
        models = train(root, made)
        found = {name: check(folder, root) for name, folder in models.items()}
    written = {
        "machine": "2-core CPU, one thread",
        "date": time.strftime("%Y-%m-%d"),
        "models": found,
    }
    Path(__file__).with_suffix(".json").write_text(
        json.dumps(written, indent=1) + "\n", encoding="utf-8"
    )
    lines = [f"| model | exit code | {' | '.join(SHOWN)} |", f"|---|---|{'---|' * len(SHOWN)}"]
    for name, one in found.items():
        cells = [
            f"{value} [{low}, {high}]"
            for value, low, high in (one["numbers"][metric] for metric in SHOWN)
        ]
        lines.append(f"| {name} | {one['exit']} | {' | '.join(cells)} |")
    write_table(lines, "letters")


if __name__ == "__main__":
    main()
