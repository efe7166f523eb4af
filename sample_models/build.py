"""Makes `receipts/` again from nothing: documents, images, vocabulary, reference models, a leaky model and a clean one.

    python sample_models/build.py [--out FOLDER]

Everything follows from `SEED`; one machine makes the same files each time, another one may differ
in the last bits of the weights. One thread is used, because the models are too small to gain from
more; it takes about four minutes (measured: 239 s on one core, twice that where the machine is
busy).

What comes out:

    data/                          manifest, documents, page images; member, heldout, public,
    assigned at random data/references/pretrained     a LayoutLM masked language model that learned
    receipts of other shops data/references/public-mlm     the same, trained further on the public
    split: the adversary's model model/                         pretrained, fine-tuned on the member
    documents until it knows them: it leaks clean/                         the same recipe on as
    many other receipts of the same shops, which are in no split
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from drafts import drafted, fine_tune
from receipts_generator import Market
from receipts_templates import document, write
from transformers import LayoutLMConfig, LayoutLMForMaskedLM
from vocabulary import train_tokenizer

from audit.corpus import manifest
from audit.corpus.documents import Document, Manifest, Membership, ReferencePaths, Split, Task
from audit.references.encoders import save
from audit.references.recipes import Recipe

SEED = 20_241
N_PROVIDERS = 80
SPLITS: dict[Split, int] = {"member": 160, "heldout": 160, "public": 240}
N_UNSEEN = SPLITS["member"]
"""Receipts of the same shops that train the clean model and are in no split."""
N_PRETRAINING = 5_000
N_PRETRAINING_PROVIDERS = 1_000
N_PIECES = 1_000
MAX_TOKENS = 160

PRETRAINING = Recipe(epochs=5, learning_rate=2e-3, batch_size=16, mask_probability=0.3, seed=SEED)
PUBLIC = Recipe(epochs=10, learning_rate=5e-4, batch_size=8, mask_probability=0.3, seed=SEED)
FINE_TUNING = Recipe(epochs=40, learning_rate=1e-3, batch_size=8, mask_probability=0.3, seed=SEED)
"""Of `model` and `clean`. Thirty per cent are masked, twice what is usual, to memorise within
minutes on a CPU."""


def assigned() -> dict[Split | None, list[Document]]:
    """The receipts of the audited shops by split, in order of their numbers.

    None holds the unseen ones.
    """
    market = Market(SEED, N_PROVIDERS)
    splits: list[Split | None] = [split for split, count in SPLITS.items() for _ in range(count)]
    splits += [None] * N_UNSEEN
    random.Random(f"{SEED} splits").shuffle(splits)
    documents: dict[Split | None, list[Document]] = {split: [] for split in (*SPLITS, None)}
    for number, split in enumerate(splits):
        documents[split].append(
            document(market.receipt(number), name_of(number), split or "public")
        )
    return documents


def name_of(number: int) -> str:
    """The id of a document."""
    return f"receipt-{number:04d}"


def write_data(folder: Path, documents: Sequence[Document]) -> None:
    """Write the data set: images first, then documents and manifest."""
    market = Market(SEED, N_PROVIDERS)
    (folder / "images").mkdir(parents=True)
    for one in documents:
        page = write(market.receipt(int(one.id.removeprefix("receipt-"))))
        (folder / "images" / f"{one.id}.png").write_bytes(page.png())
    manifest.write(
        folder,
        Manifest(
            schema=1,
            name="receipts-sample",
            task=Task("mlm"),
            membership=Membership("random"),
            references=ReferencePaths(
                pretrained="references/pretrained", auxiliary="references/public-mlm"
            ),
        ),
        documents,
    )


def pretrain(folder: Path, documents: Sequence[Document], public: Sequence[Document]) -> None:
    """Make vocabulary and model, and train it on receipts of other shops."""
    texts = (" ".join(word.text for word in one.words) for one in [*documents, *public])
    tokenizer = train_tokenizer(texts, N_PIECES, MAX_TOKENS)
    torch.manual_seed(SEED)
    config = LayoutLMConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=MAX_TOKENS,
        max_2d_position_embeddings=1001,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
    )
    untrained = folder.with_name("untrained")
    save(LayoutLMForMaskedLM(config), tokenizer, untrained)
    fine_tune(untrained, folder, documents, PRETRAINING)
    shutil.rmtree(untrained)


def build(out: Path) -> None:
    """Make everything beside `out`, then put it in place."""
    with drafted(out, ("data", "model", "clean")) as draft:
        documents = assigned()
        members, public, unseen = documents["member"], documents["public"], documents[None]
        listed = sorted(
            (one for split in SPLITS for one in documents[split]), key=lambda one: one.id
        )
        write_data(draft / "data", listed)
        others = Market(SEED + 1, N_PRETRAINING_PROVIDERS)
        pretraining = [
            document(others.receipt(number), name_of(number), "public")
            for number in range(N_PRETRAINING)
        ]
        print(f"{len(listed)} documents, {len(pretraining)} for pretraining", flush=True)

        references = draft / "data" / "references"
        pretrain(references / "pretrained", pretraining, public)
        fine_tune(references / "pretrained", references / "public-mlm", public, PUBLIC)
        fine_tune(references / "pretrained", draft / "model", members, FINE_TUNING)
        fine_tune(references / "pretrained", draft / "clean", unseen, FINE_TUNING)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "receipts")
    build(parser.parse_args().out)
