"""How long `docaudit plan --model` takes on a base-size model, and how near its estimates come to real scans.

    python -m benchmarks.performance.plan_time  # writes plan_time.json
    # a pass of that model alone, on this device (for a GPU)
    python -m benchmarks.performance.plan_time --pass

The base-size model has LayoutLMv3-base's sizes and random weights (125 million parameters), its
public model those of RoBERTa-base; the data set is 60 + 40 forms of about 500 tokens with 10 fields
each, made here. The scans are those of the samples. Both in one process, one after the other.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
from PIL import Image

from audit.corpus.documents import Document, Entity, Manifest, Membership, Split, Task, Word
from audit.corpus.manifest import write
from audit.progress import Progress
from audit.targets.opening import device_words, instructions, threads
from audit.workflows.options import ScanOptions, claim_folder
from audit.workflows.planning import time_attacks
from audit.workflows.run import run_scan
from audit.workflows.session import open_session

HERE = Path(__file__).parent
SAMPLES = ("letters", "utterances", "receipts", "questions")
LABELS = ("O", "B-KEY", "I-KEY", "B-VALUE", "I-VALUE")
SIZE = (762, 1000)
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Stages(Progress):
    """A `Progress` that notes how long each stage took."""

    def __init__(self) -> None:
        """Start with no stage timed."""
        self.seconds: dict[str, float] = {}
        self._name = ""
        self._began = 0.0

    def stage(self, name: str, total: int = 0) -> None:
        """See `Progress.stage`."""
        self._name = name
        self._began = time.perf_counter()
        self.seconds.setdefault(name, 0.0)

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        self.seconds[self._name] = time.perf_counter() - self._began


def main() -> None:
    """Measure, and write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=HERE / "plan_time.json")
    parser.add_argument("--pass", dest="alone", action="store_true")
    parser.add_argument("--samples", nargs="*", default=list(SAMPLES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base_model(folder)
        if options.alone:
            print(json.dumps(one_pass(folder), indent=1))
            return
        found: dict[str, Any] = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "machine": f"{os.cpu_count()} CPU cores, {instructions()}, {threads()} threads",
            "LayoutLMv3-base": plan_base(folder),
        }
    found["scans"] = {
        sample: compare(HERE.parents[1] / "sample_models" / sample) for sample in options.samples
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def compare(sample: Path) -> dict[str, Any]:
    """Planned and real seconds of the trials of each attack of a sample's scan, budget quick."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        opened = open_session(
            ScanOptions(sample / "model", sample / "data", out, budget="quick", device="cpu")
        )
        began = time.perf_counter()
        costs = time_attacks(opened, Stages())
        planning = time.perf_counter() - began
        stages = Stages()
        with claim_folder(out):
            run_scan(opened, stages)
    rows = {}
    for attack, cost in zip(opened.attacks, costs, strict=True):
        if cost.seconds is not None:
            real = stages.seconds[opened.stage_of(attack)]
            rows[cost.attack] = {"planned": round(cost.seconds, 2), "real": round(real, 2)}
    planned, real = (sum(row[key] for row in rows.values()) for key in ("planned", "real"))
    return {
        "planning": round(planning, 1),
        "attacks": rows,
        "planned": round(planned, 1),
        "real": round(real, 1),
        "ratio": round(planned / real, 2),
    }


def plan_base(folder: Path) -> dict[str, Any]:
    """Seconds of the whole command on the base-size model, and what it says."""
    out = folder / "plan.json"
    command = [
        sys.executable,
        "-m",
        "audit",
        "plan",
        folder / "data",
        "--model",
        folder / "model",
        "--out",
        out,
    ]
    command += ["--reference", f"auxiliary={folder / 'public'}", "--budget", "quick"]
    began = time.perf_counter()
    before = os.times()
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    seconds = time.perf_counter() - began
    after = os.times()
    worked = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    plan = json.loads(out.read_text())
    hours = {
        one["attack"]: round(one["seconds"] / 3600, 2) for one in plan["costs"] if one["seconds"]
    }
    return {
        "seconds": round(seconds, 1),
        "processor seconds": round(worked, 1),
        "hours of a quick scan": hours,
    }


def one_pass(folder: Path) -> dict[str, Any]:
    """Milliseconds of a forward pass of one page, in batches as a scan asks them, on this device."""
    found: dict[str, Any] = {}
    for device in ("cpu", "cuda"):
        try:
            options = ScanOptions(
                folder / "model", folder / "data", folder, only=("membership",), device=device
            )
            opened = open_session(options)
        except Exception as error:  # noqa: BLE001 (no such device here)
            found[device] = str(error)
            continue
        target = opened.target.rounded("bfloat16") if device == "cuda" else opened.target
        page = opened.target.encode(opened.corpus.documents[0])
        assert page is not None
        from audit.targets.interface import TrainingLoss

        n = 512 if device == "cuda" else 4
        for _ in range(2):
            began = time.perf_counter()
            target.ask([TrainingLoss(page, 5, np.arange(10, 10 + n))])
            taken = time.perf_counter() - began
        found[device_words(device)] = {
            "tokens": len(page.ids),
            "ms a row": round(1000 * taken / n, 2),
        }
    return found


def base_model(folder: Path) -> None:
    """Make the model, its public model and the data set."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import (
        LayoutLMv3Config,
        LayoutLMv3ForTokenClassification,
        LayoutLMv3Tokenizer,
        RobertaConfig,
        RobertaForMaskedLM,
        RobertaTokenizer,
    )

    tokens = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        *sorted(ByteLevel.alphabet()),
        *(f"\u0120{c}" for c in LETTERS),
        "<mask>",
    ]
    words = {
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": [("\u0120", c) for c in LETTERS],
    }
    torch.manual_seed(0)
    names = {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {label: index for index, label in enumerate(LABELS)},
    }
    ends = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    model = LayoutLMv3ForTokenClassification(LayoutLMv3Config(max_position_embeddings=514, **names))
    model.save_pretrained(folder / "model")
    LayoutLMv3Tokenizer(**words, model_max_length=512).save_pretrained(folder / "model")
    public = RobertaForMaskedLM(
        RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, **ends)
    )
    public.save_pretrained(folder / "public")
    RobertaTokenizer(**words, model_max_length=512).save_pretrained(folder / "public")
    (folder / "data" / "images").mkdir(parents=True)
    rng = np.random.default_rng(0)
    sides: tuple[tuple[Split, int], ...] = (("member", 60), ("heldout", 40))
    pages = [
        form(folder / "data", f"{split}-{n}", split, rng)
        for split, count in sides
        for n in range(count)
    ]
    write(
        folder / "data",
        Manifest(1, "forms", Task("token-classification", LABELS), Membership("random")),
        pages,
    )


def form(folder: Path, name: str, split: Split, rng: np.random.Generator) -> Document:
    """A form of 100 words, ten of which are values of 3 to 8 characters, in noise of its own."""
    words = []
    entities = []
    for index in range(100):
        text = "".join(rng.choice([*LETTERS], int(rng.integers(3, 9))))
        x = 20 + 140 * (index % 5)
        y = 20 + 45 * (index // 5)
        words.append(Word(text, (x, y, x + 120, y + 30)))
        if index % 10 == 5:
            entities.append(Entity(f"e{index}", "VALUE", "code", (index,)))
    noise = rng.integers(0, 256, (SIZE[1] // 10, SIZE[0] // 10, 3), np.uint8)
    Image.fromarray(noise).resize(SIZE).save(folder / "images" / f"{name}.png")
    return Document(
        name, split, tuple(words), size=SIZE, image=f"images/{name}.png", entities=tuple(entities)
    )


if __name__ == "__main__":
    main()
