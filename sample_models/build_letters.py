"""Makes `letters/` again from nothing: invented letters with their values marked, and taggers that read them.

    python sample_models/build_letters.py [--out FOLDER]

Everything follows from `SEED`; one machine makes the same files each time, another one may differ
in the last bits of the weights. One thread is used; it takes under a minute (measured: 42 s on one
core).

What comes out:

    data/                          manifest and documents; member, heldout, public, assigned at
    random data/references/baseline       a small BERT that tags the values; it saw no letter of the
    data set model/                         the same, whose last epochs were on the member letters
    instead of others

Both learned to tag letters of the same tribunal first, which are in no split.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
from drafts import drafted, fine_tune
from letters_generator import LABELS, letter
from transformers import BertConfig, BertForTokenClassification, BertTokenizerFast
from vocabulary import train_tokenizer

from audit.corpus import manifest
from audit.corpus.documents import (
    Corpus,
    Document,
    Manifest,
    Membership,
    Redaction,
    ReferencePaths,
    Split,
    Task,
    TrainingRecipe,
)
from audit.references.encoders import save
from audit.references.recipes import Recipe

SEED = 20_245
SPLITS: dict[Split, int] = {"member": 75, "heldout": 75, "public": 20}
N_UNSEEN = SPLITS["member"]
"""Letters that train the baseline in the members' place and are in no split."""
N_PRETRAINING = 1_500
"""Still others, from which both models learn first, and the vocabulary its pieces of words."""
N_PIECES = 900
MAX_TOKENS = 256
TAGS = ("O", *(f"{prefix}-{label}" for label in LABELS for prefix in "BI"))
PRETRAINING = Recipe(epochs=6, learning_rate=2e-3, batch_size=4, seed=SEED)
FINE_TUNING = TrainingRecipe(epochs=6, learning_rate=1e-3, batch_size=8, seed=SEED)


def assigned() -> dict[Split | None, list[Document]]:
    """The letters by split, in order of their numbers; None holds the unseen ones."""
    splits: list[Split | None] = [split for split, count in SPLITS.items() for _ in range(count)]
    splits += [None] * N_UNSEEN
    random.Random(f"{SEED} splits").shuffle(splits)
    documents: dict[Split | None, list[Document]] = {split: [] for split in (*SPLITS, None)}
    for number, split in enumerate(splits):
        documents[split].append(letter(SEED, number, name_of(number), split or "public"))
    return documents


def name_of(number: int) -> str:
    """The id of a document."""
    return f"letter-{number:04d}"


def write_data(folder: Path, documents: dict[Split | None, list[Document]]) -> Corpus:
    """Write the data set, and read it."""
    listed = sorted((one for split in SPLITS for one in documents[split]), key=lambda one: one.id)
    manifest.write(
        folder,
        Manifest(
            schema=1,
            name="letters-sample",
            task=Task("token-classification", TAGS),
            membership=Membership("random"),
            references=ReferencePaths(baselines=("references/baseline",)),
            redaction=Redaction("fixed"),
            recipe=FINE_TUNING,
        ),
        listed,
    )
    return manifest.load(folder)


def write_untrained(folder: Path, tokenizer: BertTokenizerFast) -> None:
    """A small BERT with random weights and a head for the tags."""
    torch.manual_seed(SEED)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=MAX_TOKENS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(TAGS)),
        label2id={tag: number for number, tag in enumerate(TAGS)},
    )
    save(BertForTokenClassification(config), tokenizer, folder)


def fine_tuning(seed: int) -> Recipe:
    """The manifest's recipe, with a seed."""
    given = FINE_TUNING
    assert given.epochs is not None
    assert given.learning_rate is not None
    assert given.batch_size is not None
    return Recipe(given.epochs, given.learning_rate, given.batch_size, seed=seed)


def build(out: Path) -> None:
    """Make everything beside `out`, then put it in place."""
    with drafted(out, ("data", "model")) as draft:
        documents = assigned()
        corpus = write_data(draft / "data", documents)
        others = [
            letter(SEED + 1, number, name_of(number), "public") for number in range(N_PRETRAINING)
        ]
        texts = (
            " ".join(word.text for word in one.words) for one in [*others, *corpus.of("public")]
        )
        write_untrained(draft / "untrained", train_tokenizer(texts, N_PIECES, MAX_TOKENS))
        fine_tune(draft / "untrained", draft / "pretrained", others, PRETRAINING)
        baseline = draft / "data" / "references" / "baseline"
        fine_tune(draft / "pretrained", baseline, documents[None], fine_tuning(SEED + 1))
        fine_tune(draft / "pretrained", draft / "model", corpus.of("member"), fine_tuning(SEED))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "letters")
    build(parser.parse_args().out)
