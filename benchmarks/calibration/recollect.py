"""Recollect and rank on small GPT-2s that know their rows, know them a little, or know others.

A GPT-2 of two layers learns to answer questions about 24 public rows: that is the pretrained model.
Three models go on from there. "leaky" learns the 16 audited rows until it gives every answer,
"weak" stops at a loss of 0.5, and "clean" learns 16 others. Each is attacked with 16 unseen rows as
the control.

Pilots chose the pages on which values are ranked, and the losses that set the strength of a planted
memory. They drew their rows with these seeds, so that most audited rows here are theirs. These
numbers describe the attack, and calibrate no limit.

    # writes recollect.json and recollect.md
    python -m benchmarks.calibration.recollect
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Word
from audit.corpus.images import page_view
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Json, Trial
from audit.measurements import Estimate
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.answering.target import AnsweringTarget

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "fakes"))
answering = import_module("answering")
text_zoo = import_module("text_zoo")

PLACE = Path(__file__).parent
SEEDS = (1, 2, 3)
ROWS = 16
"""Audited rows, and as many unseen ones."""
PUBLIC = 24
STEPS = 60
"""Of the pretrained model; the others stop at their loss, or after three times as many."""
STOPS = {"leaky": 0.005, "weak": 0.5, "clean": 0.005}
"""Mean loss of a token at which training ends."""
RATE = 4e-3
WIDTH = 16


def as_text(corpus: Corpus) -> Corpus:
    """Take the boxes off the pages."""
    documents = []
    for document in corpus.documents:
        words = tuple(Word(word.text) for word in document.words)
        documents.append(replace(document, words=words, size=None))
    return replace(corpus, documents=tuple(documents))


def write_untrained(folder: Path, seed: int) -> None:
    """Write a GPT-2 of two layers with fresh weights."""
    tokenizer = text_zoo.byte_tokenizer()
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=text_zoo.LONGEST,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def train(
    start: Path, folder: Path, corpus: Corpus, documents: Sequence[Document], stop: float, most: int
) -> AnsweringTarget:
    """Train a model on the questions of documents, and return it as attacks ask it.

    Args:
        start: folder of the model that training goes on from.
        folder: folder of the trained model.
        corpus: data set of the documents.
        documents: documents that it learns.
        stop: mean loss of a token at which training ends, nats.
        most: most steps.
    """
    reader = load_answering(start, prompt=text_zoo.PLAIN_PROMPT).reader
    samples: list[Sample] = []
    for document in documents:
        view = page_view(corpus, document)
        samples += [Sample(view, item.question, item.answers[0]) for item in document.questions]
    batch: dict[str, Any] = dict(reader.taught(samples))
    model = GPT2LMHeadModel.from_pretrained(start)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    model.train()
    for _ in range(most):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < stop:
            break
    model.save_pretrained(folder)
    text_zoo.byte_tokenizer().save_pretrained(folder)
    return load_answering(folder, prompt=text_zoo.PLAIN_PROMPT)


def attack_rows(target: AnsweringTarget, pretrained: AnsweringTarget, corpus: Corpus) -> Json:
    """Attack a model, and count what was restored."""
    attack = Reconstruction()
    case = Case(target, corpus, References(pretrained=pretrained))
    trials = attack.trials(case)

    def attempt(trial: Trial) -> Any:
        """Try one answer, with a source of randomness that follows from its id."""
        return attack.attempt(case, trial, np.random.default_rng([*trial.id.encode()]))

    began = time.perf_counter()
    found = dict(drive(SimpleNamespace(attempt=attempt), trials, WIDTH))
    seconds = time.perf_counter() - began
    outcomes = [found[trial.id] for trial in trials]
    result = attack.measure(case, trials, outcomes, np.random.default_rng(0), SILENT)
    measured = {item.name: item for item in result.measurements if isinstance(item, Estimate)}
    excess = measured["excess_pr.unique.recollected"]
    members = outcomes[:ROWS]
    return {
        "proposed": sum(outcome["attack"]["among"] for outcome in members),
        "found": sum(outcome["attack"]["exact"] for outcome in members),
        "false alarms": sum(outcome["attack"]["exact"] for outcome in outcomes[ROWS:]),
        "excess": [excess.value, excess.low, excess.high],
        "power": measured["planted_detection.unique"].value,
        "seconds": round(seconds, 1),
    }


def run_seed(seed: int, root: Path) -> dict[str, Json]:
    """Train the models of one seed, and attack each."""
    corpus = as_text(answering.corpus(ROWS, ROWS, seed=100 * seed))
    public = as_text(answering.corpus(PUBLIC, 0, seed=100 * seed + 1))
    others = as_text(answering.corpus(ROWS, 0, seed=100 * seed + 2))
    write_untrained(root / "untrained", seed)
    start = root / "pretrained"
    pretrained = train(root / "untrained", start, public, public.documents, 0.0, STEPS)
    rows = {}
    for name, stop in STOPS.items():
        learnt = others if name == "clean" else corpus
        documents = learnt.of("member")
        target = train(start, root / name, learnt, documents, stop, 3 * STEPS)
        rows[name] = attack_rows(target, pretrained, corpus)
        print(seed, name, rows[name], flush=True)
    return rows


def render(results: dict[str, Any]) -> str:
    """Write the table."""
    lines = [
        "# Recollect and rank on small GPT-2s",
        "",
        "`python -m benchmarks.calibration.recollect` wrote this page on a busy machine:",
        f"{results['machine']}.",
        f"Each model is attacked with {ROWS} audited and {ROWS} unseen rows.",
        "Pilots with the same seeds chose two settings of the attack.",
        "So it may fit these rows.",
        "These numbers calibrate no limit.",
        "",
        "| seed | model | answers proposed | found | missed | false alarms | excess, 95 % interval | power | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for seed, rows in results["seeds"].items():
        for name, row in rows.items():
            value, low, high = row["excess"]
            counts = [row["proposed"], row["found"], ROWS - row["found"], row["false alarms"]]
            cells = [seed, name, *counts, f"{value:.2f} [{low:.2f}, {high:.2f}]"]
            cells += [f"{row['power']:.2f}", row["seconds"]]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all seeds, and write both files."""
    seeds = {}
    for seed in SEEDS:
        with TemporaryDirectory() as folder:
            seeds[str(seed)] = run_seed(seed, Path(folder))
    day = dt.datetime.now(dt.UTC).date()
    machine = f"{day}, {os.cpu_count()}-core {platform.machine()}"
    results = {"machine": machine, "rows": ROWS, "seeds": seeds}
    (PLACE / "recollect.json").write_text(json.dumps(results, indent=1) + "\n")
    (PLACE / "recollect.md").write_text(render(results))


if __name__ == "__main__":
    main()
