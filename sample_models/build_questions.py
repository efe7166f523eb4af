"""Makes `questions/` again from nothing: forms, their images, a vocabulary, a Donut that leaks and two that do not.

    python sample_models/build_questions.py [--out FOLDER]

Everything follows from `SEED`; one machine makes the same files each time, another one may differ in the last bits of
the weights. One thread is used.

What comes out:

    data/                          manifest, documents, page images; member, heldout, public, assigned at random
    data/references/pretrained     a Donut that learned to read forms of other people
    data/references/baseline       the same, trained further on public forms: the generalisation baseline
    model/                         the same, trained further on the member forms: it leaks
    baseline/                      another generalisation baseline, to be scanned in the model's place

The models see pages at a third of their size: they can read the town, which is large, and not the number.
"""

from __future__ import annotations

import argparse
import functools
import io
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from forms import QUESTIONS, TOWNS, Form, document, drawn, form
from PIL import Image
from transformers import DonutSwinConfig, MBartConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel
from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil
from vocabulary import train_tokenizer

from audit.corpus import manifest
from audit.corpus.documents import (
    Corpus,
    Document,
    Manifest,
    Membership,
    ReferencePaths,
    Split,
    Task,
    TrainingRecipe,
)
from audit.corpus.sheets import Sheet
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.training.answering import AnsweringRecipe, fit_answering, recipe_of, samples_of, save_answering
from audit.training.baseline import train_baseline

SEED = 20_244
SPLITS: dict[Split, int] = {"member": 100, "heldout": 100, "public": 100}
N_PRETRAINING = 1_200
MARKS = ("<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>", "</s_answer>")
IMAGE_SIZE = {"height": 64, "width": 96}
POSITIONS = 48
DIMENSION = 24
"""Of the first stage of the encoder; twice as many in the second and in the decoder."""
SPREAD = 0.1
"""Standard deviation of fresh weights: with the usual 0.02 a model this narrow does not begin to learn."""
PRETRAINING = AnsweringRecipe(epochs=20, learning_rate=1e-3, batch_size=32, seed=SEED)
FINE_TUNING = TrainingRecipe(epochs=100, learning_rate=1e-3, batch_size=16, seed=SEED)


def name_of(number: int) -> str:
    """The id of a document."""
    return f"form-{number:04d}"


def write_data(folder: Path) -> None:
    """Write the data set: images first, then documents and manifest."""
    splits = [split for split, count in SPLITS.items() for _ in range(count)]
    random.Random(f"{SEED} splits").shuffle(splits)
    (folder / "images").mkdir(parents=True)
    documents: list[Document] = []
    for number, split in enumerate(splits):
        one = form(SEED, number)
        documents.append(document(one, name_of(number), split))
        (folder / "images" / f"{name_of(number)}.png").write_bytes(drawn(one).png())
    manifest.write(
        folder,
        Manifest(
            schema=1,
            name="questions-sample",
            task=Task("question-answering"),
            membership=Membership("random"),
            references=ReferencePaths(pretrained="references/pretrained", baselines=("references/baseline",)),
            recipe=FINE_TUNING,
        ),
        documents,
    )


def start(folder: Path) -> None:
    """A Donut with fresh weights, its vocabulary and its image processor."""
    texts = [*QUESTIONS.values(), *TOWNS] * 50
    tokenizer = train_tokenizer(texts, n_pieces=400, max_tokens=POSITIONS)
    tokenizer.add_tokens(list(MARKS), special_tokens=True)
    tokenizer.bos_token, tokenizer.eos_token = tokenizer.cls_token, tokenizer.sep_token
    torch.manual_seed(SEED)
    encoder = DonutSwinConfig(
        image_size=[IMAGE_SIZE["height"], IMAGE_SIZE["width"]],
        patch_size=4,
        embed_dim=DIMENSION,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
        initializer_range=SPREAD,
    )
    decoder = MBartConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=POSITIONS,
        decoder_layers=2,
        d_model=2 * DIMENSION,
        decoder_ffn_dim=8 * DIMENSION,
        decoder_attention_heads=4,
        is_decoder=True,
        is_encoder_decoder=False,
        add_cross_attention=True,
        dropout=0.0,
        init_std=SPREAD,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=None,
    )
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id = tokenizer.convert_tokens_to_ids(MARKS[0])
    config.pad_token_id, config.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    for part in (VisionEncoderDecoderModel(config), tokenizer, DonutImageProcessorPil(size=IMAGE_SIZE)):
        part.save_pretrained(folder)


@functools.cache
def opened(one: Form) -> Image.Image:
    """A form's page, as it would be read from its file; drawn once."""
    return Image.open(io.BytesIO(drawn(one).png())).convert("RGB")


def pretrain(untrained: Path, folder: Path) -> None:
    """Learn to read forms of other people: the towns alone, as numbers cannot be read at this size."""
    others = [form(SEED + 1, number) for number in range(N_PRETRAINING)]
    samples = [
        Sample(Sheet((), None, functools.partial(opened, one)), question, value)
        for one in others
        for label, question, value in one.asked()
        if label == "TOWN"
    ]
    fit(untrained, folder, samples, PRETRAINING)


def fit(begin: Path, folder: Path, samples: Sequence[Sample], recipe: AnsweringRecipe) -> None:
    """Train the checkpoint `begin` on samples and save it in `folder`, in half precision."""
    target = load_answering(begin)
    losses = fit_answering(target, samples, recipe)
    save_answering(target.model, begin, folder, half=True)
    print(f"  {folder.name}: {len(samples)} samples, loss {losses[0]:.2f} -> {losses[-1]:.2f}", flush=True)


def build(out: Path) -> None:
    """Make everything beside `out`, then put it in place."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix=".build-", suffix=".tmp", dir=out.parent) as draft_name:
        draft = Path(draft_name)
        write_data(draft / "data")
        references = draft / "data" / "references"
        references.mkdir()
        start(draft / "untrained")
        pretrain(draft / "untrained", references / "pretrained")
        # Loaded without the reference that is not there yet: the manifest names it all the same.
        corpus = manifest.load(draft / "data")
        fine_tune(references / "pretrained", draft, corpus)
        for part in ("data", "model", "baseline"):
            shutil.rmtree(out / part, ignore_errors=True)
            (draft / part).rename(out / part)
    n_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {n_bytes / 1e6:.1f} MB in {time.monotonic() - started:.0f} s")


def fine_tune(pretrained: Path, draft: Path, corpus: Corpus) -> None:
    """Train the model on the members, and two baselines as `docaudit train-baseline` does."""
    recipe = recipe_of(corpus)
    fit(pretrained, draft / "model", samples_of(corpus, corpus.of("member")), recipe)
    places = train_baseline(pretrained, corpus, draft / "baselines", count=2, half=True)
    for place, folder in zip(places, (draft / "data" / "references" / "baseline", draft / "baseline"), strict=True):
        place.rename(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "questions")
    build(parser.parse_args().out)
