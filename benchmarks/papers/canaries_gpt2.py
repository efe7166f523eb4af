"""Canaries in a small GPT-2 that it must remember, beside the values of its pages.

A GPT-2 of 2 layers x 96, trained from random weights for 40 epochs on 160 rows of forms (80 pages,
two questions each) and on 64 canaries, of which a coin puts each in: pins, made-up names and codes
in 1, 4 and 16 copies, which no page prints. A second model, the baseline, has the rows of 80 other
forms and no canaries. The Trainer's batches go through `CanaryCallback`.
    python -m benchmarks.papers.canaries_gpt2  # writes canaries_gpt2.json; 6 minutes
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from audit.attacks.canaries import Canaries
from audit.attacks.interface import Attack
from audit.attacks.memorisation import Memorisation
from audit.case import Case, References
from audit.corpus import manifest
from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.schema import read_proof
from audit.corpus.documents import (
    Corpus,
    Document,
    Manifest,
    Membership,
    Question,
    Split,
    Task,
    TrainingRecipe,
    Word,
)
from audit.corpus.images import page_view
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Attempt, Trial
from audit.extensions.callbacks.canary_loss import CanaryCallback
from audit.measurements import Estimate
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample

PROMPT = "{text}\nQuestion: {question}\nAnswer:"
N_PAGES = 80
N_CANARIES = 64
EPOCHS = 40
SPLITS: tuple[Split, ...] = ("member", "heldout", "public")
DESIGNS: Mapping[str, Mapping[str, Any]] = {
    "remembered": {"pattern": ("pin", "names", "mixed"), "repeat": (1, 4, 16)},
}
SHOWN = (
    "extracted",
    "extracted.control",
    "excess",
    "exposure",
    "exposure.control",
    "excess_exposure",
)
"""Measurements of the canary attack."""
OF_VALUES = (
    *(
        f"{what}.{split}{context}"
        for context in ("", ".decoy")
        for what in ("extracted", "memorised")
        for split in ("member", "heldout")
    ),
    "net",
    "net.heldout",
    "net.decoy",
    "net.heldout.decoy",
    "discoverable.member",
    "discoverable.heldout",
    "net.discoverable",
    "net.heldout.discoverable",
)
"""Measurements of memorisation."""


class Work:
    """An attack on a case, as work for the engine's driver."""

    def __init__(self, attack: Attack, case: Case) -> None:
        self.attack = attack
        self.case = case

    def attempt(self, trial: Trial) -> Attempt:
        """One trial, with random numbers of its own."""
        return self.attack.attempt(self.case, trial, np.random.default_rng([0, *trial.id.encode()]))


def forms(folder: Path, *, seed: int = 7, numbers: Sequence[int] = range(3 * N_PAGES)) -> Corpus:
    """Pages of text: a person, one of 40 towns and a number, and two questions about them.

    `numbers` of the forms.
    """
    rng = np.random.default_rng(seed)
    syllables = ["ka", "lo", "mir", "ten", "var", "sol", "ber", "nid", "fa", "gru", "hol", "wick"]
    towns = ["".join(rng.choice(syllables, 3)).capitalize() for _ in range(40)]
    documents = []
    for index in range(3 * N_PAGES):
        split = SPLITS[index // N_PAGES]
        name = " ".join("".join(rng.choice(syllables, 2)).capitalize() for _ in range(2))
        town = str(rng.choice(towns))
        number = "".join(rng.choice([*"0123456789"], 7))
        text = f"Request form {numbers[index]} of {name} : the town is {town} , the number is {number} . Signed {name}"
        asked = (
            Question("town", "What is the town?", (town,), category="location"),
            Question("number", "What is the number?", (number,), category="code"),
        )
        documents.append(
            Document(f"d{index:03}", split, tuple(map(Word, text.split())), questions=asked)
        )
    task = Task("question-answering")
    manifest.write(
        folder,
        Manifest(1, "forms", task, Membership("random"), recipe=TrainingRecipe(prompt=PROMPT)),
        documents,
    )
    return manifest.load(folder)


def text_of(document: Document) -> str:
    """Return a page's words and its questions with their answers."""
    return " ".join(
        [
            *(word.text for word in document.words),
            *(f"{q.question} {q.answers[0]}" for q in document.questions),
        ]
    )


def start(folder: Path, texts: Sequence[str]) -> Path:
    """A GPT-2 with random weights, and a byte-level BPE of these texts."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    # ASCII alone: secrets that memaudit draws from single bytes of other letters do not survive
    # their spelling.
    letters = [one for one in pre_tokenizers.ByteLevel.alphabet() if one.isascii()]
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<pad>", "</s>"],
        initial_alphabet=[*letters, "\u0120", "\u010a"],
    )
    inner.train_from_iterator(texts, trainer)
    words = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", bos_token="</s>"
    )
    torch.manual_seed(0)
    sizes = {"n_embd": 96, "n_layer": 2, "n_head": 4, "n_positions": 192}
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(words), bos_token_id=1, eos_token_id=1, pad_token_id=0, **sizes)
    )
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def collate(batch: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
    """Pad the rows of a batch to its longest."""
    longest = max(len(row["input_ids"]) for row in batch)
    columns: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for row in batch:
        ids = row["input_ids"]
        gap = longest - len(ids)
        columns["input_ids"].append(ids + [0] * gap)
        columns["attention_mask"].append([1] * len(ids) + [0] * gap)
        columns["labels"].append(ids + [-100] * gap)
    return {name: torch.tensor(values) for name, values in columns.items()}


def train(
    begun: Path,
    folder: Path,
    corpus: Corpus,
    documents: Sequence[Document],
    texts: Sequence[str],
    *,
    seed: int = 0,
    saves: int = 1,
) -> dict[str, Any]:
    """Train on the questions of documents, and on other texts.

    Save the model in `folder`, `saves` times in all.
    """
    reader = load_answering(begun, prompt=PROMPT).reader
    words = PreTrainedTokenizerFast.from_pretrained(begun)
    rows = []
    for document in documents:
        view = page_view(corpus, document)
        for asked in document.questions:
            inputs = reader.taught([Sample(view, asked.question, asked.answers[0])])
            ids = inputs["input_ids"][0][inputs["attention_mask"][0].bool()].tolist()[:192]
            rows.append({"input_ids": ids, "labels": ids})
    for text in texts:
        ids = (words(text)["input_ids"] + [words.eos_token_id])[:192]
        rows.append({"input_ids": ids, "labels": ids})
    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=EPOCHS, per_device_train_batch_size=16, learning_rate=2e-3, seed=seed,
        save_strategy="steps" if saves > 1 else "no", save_steps=1 / saves, save_only_model=True,
        logging_strategy="epoch", report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    trainer = Trainer(
        GPT2LMHeadModel.from_pretrained(begun), arguments, train_dataset=rows, data_collator=collate,
        processing_class=words,
    )  # fmt: skip
    if corpus.manifest.canaries is not None:
        trainer.add_callback(CanaryCallback(trainer, corpus.root))
    began = time.process_time()
    trainer.train()
    trainer.save_model(str(folder))
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {
        "rows": len(rows),
        "cpu_seconds": round(time.process_time() - began, 1),
        "loss": round(losses[-1], 3),
    }


def asked(attack: Attack, case: Case, names: Sequence[str]) -> dict[str, Any]:
    """What an attack measures on a case."""
    began = time.process_time()
    trials = attack.trials(case)
    outcomes = dict(drive(Work(attack, case), trials, 32))
    ordered = [json.loads(json.dumps(outcomes[trial.id])) for trial in trials]
    found = attack.measure(case, trials, ordered, np.random.default_rng(0), SILENT)
    measured = {item.name: item for item in found.measurements}
    numbers = {
        name: [round(item.value, 3), round(item.low, 3), round(item.high, 3), item.n]
        for name in names
        if isinstance(item := measured.get(name), Estimate)
    }
    seconds = round(time.process_time() - began, 1)
    return {"cpu_seconds": seconds, "measured": numbers, "weaknesses": found.ablations}


def main() -> None:
    """Train, ask, and write what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": "2-core CPU, one thread", "date": time.strftime("%Y-%m-%d")}
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        plain = forms(root / "plain")
        drawn = {}
        for name, design in DESIGNS.items():
            insert(plain, root / name, count=N_CANARIES, length=4, seed=1, **design)
            drawn[name] = manifest.load(root / name)
        texts = [text_of(document) for corpus in drawn.values() for document in corpus.documents]
        begun = start(root / "start", [*texts, "Question: Answer:"])
        found["baseline"] = train(begun, root / "m-baseline", plain, plain.of("public"), ())
        baseline = load_answering(root / "m-baseline", prompt=PROMPT)
        for name, corpus in drawn.items():
            model = root / f"m-{name}"
            trained = train(begun, model, corpus, corpus.of("member"), ())
            proof = read_proof(model, corpus)
            target = load_answering(model, prompt=PROMPT)
            case = Case(target, corpus, References(baselines=(baseline,)), proof)
            found[name] = {
                "training": trained,
                "proof": None if proof is None else asdict(replace(proof, canaries="")),
                "canaries": asked(Canaries.preset("standard"), case, SHOWN),
                "values": asked(Memorisation(contexts=("exact", "decoy")), case, OF_VALUES),
            }
            print(name, json.dumps(found[name], indent=1), flush=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
