"""Trains the leaky model of the receipts sample again, audited while it trains, and stopped where it leaks too much.

    python examples/while_training.py [--out FOLDER]

The recipe is that of `sample_models/receipts/model` (see `sample_models/build.py`): a small
LayoutLM learns the member documents by heart. transformers' Trainer runs it, and a `LeakCallback`
audits membership on 80 documents whenever a checkpoint is saved; once the default policy's limit is
confirmed to be exceeded, the training ends.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from transformers import Trainer, TrainingArguments

from audit.corpus import manifest
from audit.references.encoders import Collator
from audit.targets.encoders.families import family_named
from audit.targets.encoders.loading import load
from docaudit.integrations.transformers import LeakCallback

DATA = Path(__file__).resolve().parents[1] / "sample_models" / "receipts" / "data"
SEED = 20_241


def train(out: Path, epochs: int, documents: int) -> LeakCallback:
    """Train in `out` until the end or the leak."""
    start = load(DATA / "references" / "pretrained")
    tokenizer = start.encoder.tokenizer
    pages = [start.encode(document) for document in manifest.load(DATA).of("member")]
    arguments = TrainingArguments(
        output_dir=str(out),
        num_train_epochs=epochs,
        learning_rate=1e-3,
        per_device_train_batch_size=8,
        weight_decay=0.01,
        warmup_steps=0.1,
        seed=SEED,
        save_strategy="epoch",
        save_only_model=True,
        logging_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        use_cpu=True,
    )
    trainer = Trainer(
        model=start.model,
        args=arguments,
        train_dataset=[page for page in pages if page is not None],
        data_collator=Collator(family_named("layoutlm"), tokenizer, 0.3, SEED),
        processing_class=tokenizer,
    )
    callback = LeakCallback(
        trainer,
        DATA,
        only=["membership"],
        documents=documents,
        seed=1,
        device="cpu",
        stop_on="exceeded",
    )
    trainer.add_callback(callback)
    trainer.train()
    return callback


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docaudit-report-training") / "run")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--documents", type=int, default=80)
    given = parser.parse_args()
    train(given.out, given.epochs, given.documents)
