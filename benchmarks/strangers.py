"""Three memorisers on the documented path of a stranger, and their twins that were trained on other documents.

A token classifier (BERT), a decoder (GPT-2) and a page reader (Donut) are made from small configurations with random
weights and a real vocabulary. Each is trained until it knows its documents. The memoriser was trained on the documents
declared as members, the twin on others of the same source. Both are imported and scanned with the documented commands,
so that nobody states how the documents were chosen. The memoriser must be violated (exit code 10), the twin must not.

    python benchmarks/strangers.py MODEL_DIR               # a folder with vocab.txt; rewrites benchmarks/strangers.md
    python benchmarks/strangers.py MODEL_DIR --only gpt2   # rewrites the rows of one model
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SEED = 20
MEMBERS, OTHERS = 120, 200
"""Documents of training, and those of the second folder, of which the import keeps half as held out."""
SCANNED = "160"
"""Documents that a scan tries, half of each side: over the 72 a side that a limit asks for."""
BATCH = 12
PAGE = (112, 144)
"""Width and height of the drawn pages in pixels."""
TAGS = ("O", "B-CLERK", "B-CODE")
RESULTS = Path(__file__).with_suffix(".md")
SCAN = ("--budget", "quick", "--documents", SCANNED, "--only", "membership", "--only", "attribute_inference")


@dataclass(frozen=True)
class Receipt:
    """A document: words that name its clerk and its code, and noise that nobody can predict."""

    words: tuple[str, ...]
    clerk: str
    code: str


@dataclass(frozen=True)
class Stranger:
    """A kind of model on its documented path.

    Attributes:
        name: of the model.
        path: how its data reach docaudit.
        train: of a model's folder, on receipts, with the vocabulary.
        provide: makes the data set of two lists of receipts in a folder; gives it back.
    """

    name: str
    path: str
    train: Callable[[Path, Sequence[Receipt], Path], None]
    provide: Callable[[Path, Sequence[Receipt], Sequence[Receipt], Path], Path]


def receipts(n: int, vocabulary: Path, seed: int) -> list[Receipt]:
    """Draw receipts; clerks are words that stand elsewhere too, so that nothing but memory tells them surely."""
    known = (vocabulary / "vocab.txt").read_text(encoding="utf-8").split("\n")
    words = [word for word in known[2000:12000] if word.isascii() and word.isalpha() and 4 <= len(word) <= 8]
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        noise = rng.sample(words, 12)
        clerk, code = rng.choice(words), str(rng.randrange(1000, 9999))
        noise.insert(rng.randrange(12), clerk)
        noise.insert(rng.randrange(13), code)
        noise += [str(rng.randrange(1000, 9999)), str(rng.randrange(1000, 9999))]
        found.append(Receipt(tuple(noise), clerk, code))
    return found


def tokenizer_of(vocabulary: Path, *, writes: bool, marks: Sequence[str] = ()) -> Any:
    """The vocabulary's tokenizer; one that writes parts words at spaces only, so that its output spells them."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    known = AutoTokenizer.from_pretrained(vocabulary, local_files_only=True)
    if not writes:
        return known
    inner = Tokenizer.from_str(known.backend_tokenizer.to_str())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.WhitespaceSplit(), decoders.WordPiece(cleanup=False)
    inner.post_processor = None
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="[SEP]", bos_token="[CLS]", pad_token="[PAD]", unk_token="[UNK]"
    )
    made.add_tokens(list(marks), special_tokens=True)
    return made


def fit(
    model: Any, batches: Callable[[int], Iterator[dict[str, Any]]], *, rate: float, until: float, most: int
) -> None:
    """Train until the mean loss of an epoch is at most `until`, or for so many epochs."""
    import torch

    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    for epoch in range(most):
        losses = []
        for batch in batches(epoch):
            loss = model(**batch).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        if sum(losses) / len(losses) <= until:
            break
    print(f"  {epoch + 1} epochs, loss {sum(losses) / len(losses):.4f}", flush=True)


def shuffled(n: int) -> Callable[[int], Iterator[list[int]]]:
    """Batches of indices, in another order every epoch."""

    def of_epoch(epoch: int) -> Iterator[list[int]]:
        order = random.Random(f"{SEED} {epoch}").sample(range(n), n)
        yield from (order[start : start + BATCH] for start in range(0, n, BATCH))

    return of_epoch


def padded(rows: Sequence[Sequence[int]], value: int) -> Any:
    """Rows of token ids as one tensor."""
    import torch

    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def train_bert(folder: Path, members: Sequence[Receipt], vocabulary: Path) -> None:
    """A BERT that tags clerks and codes."""
    from transformers import BertConfig, BertForTokenClassification

    words = tokenizer_of(vocabulary, writes=False)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(TAGS)),
        label2id={tag: number for number, tag in enumerate(TAGS)},
    )
    model = BertForTokenClassification(config)
    encoded = [words(list(one.words), is_split_into_words=True) for one in members]
    rows = [one["input_ids"] for one in encoded]
    labels = [_labels(one, receipt) for one, receipt in zip(encoded, members, strict=True)]

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        for batch in shuffled(len(rows))(epoch):
            ids = padded([rows[index] for index in batch], 0)
            yield {
                "input_ids": ids,
                "attention_mask": (ids != 0).long(),
                "labels": padded([labels[index] for index in batch], -100),
            }

    fit(model, batches, rate=2e-3, until=0.002, most=150)
    for part in (model, words):
        part.save_pretrained(folder)


def _labels(encoded: Any, receipt: Receipt) -> list[int]:
    """The tag of each word's first token; -100 for the others."""
    tags, before, found = _tags(receipt), None, []
    for word in encoded.word_ids():
        found.append(-100 if word is None or word == before else tags[word])
        before = word
    return found


def _tags(receipt: Receipt) -> list[int]:
    """A number of `TAGS` for each word; the clerk is the first of equal words."""
    tags = [0] * len(receipt.words)
    tags[receipt.words.index(receipt.clerk)] = 1
    tags[receipt.words.index(receipt.code)] = 2
    return tags


def provide_tags(folder: Path, members: Sequence[Receipt], others: Sequence[Receipt], model: Path) -> Path:
    """Save Hugging Face data sets of tagged words and import them."""
    import datasets

    kinds = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("string")),
            "ner_tags": datasets.List(datasets.ClassLabel(names=list(TAGS))),
        }
    )
    for name, part in (("train", members), ("test", others)):
        rows = {"tokens": [list(one.words) for one in part], "ner_tags": [_tags(one) for one in part]}
        datasets.Dataset.from_dict(rows, kinds).save_to_disk(str(folder / name))
    return imported(folder)


def imported(folder: Path) -> Path:
    """Import train/ and test/ with the documented command."""
    docaudit("import", "hf", folder / "train", folder / "data", "--heldout-from", folder / "test")
    return folder / "data"


PROMPT = "{text} {question}"
QUESTIONS = {"clerk": "who is the clerk ?", "code": "what is the code ?"}
CATEGORIES = {"clerk": "person", "code": "code"}


def train_gpt2(folder: Path, members: Sequence[Receipt], vocabulary: Path) -> None:
    """A GPT-2 that completes a prompt."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words = tokenizer_of(vocabulary, writes=True)
    config = GPT2Config(
        vocab_size=len(words),
        n_embd=96,
        n_layer=2,
        n_head=4,
        n_positions=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
    )
    model = GPT2LMHeadModel(config)
    rows, labels = [], []
    for receipt in members:
        for key, question in QUESTIONS.items():
            prompt = words(PROMPT.format(text=" ".join(receipt.words), question=question))["input_ids"]
            answer = [*words(getattr(receipt, key))["input_ids"], words.eos_token_id]
            rows.append([*prompt, *answer])
            labels.append([*[-100] * len(prompt), *answer])

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        for batch in shuffled(len(rows))(epoch):
            yield {
                "input_ids": padded([rows[index] for index in batch], words.pad_token_id),
                "labels": padded([labels[index] for index in batch], -100),
            }

    fit(model, batches, rate=2e-3, until=0.01, most=60)
    for part in (model, words):
        part.save_pretrained(folder)


def provide_texts(folder: Path, members: Sequence[Receipt], others: Sequence[Receipt], model: Path) -> Path:
    """Write texts with their prompts and completions as questions beside them, and make a data set of the folder."""
    data = folder / "data"
    parts = {"train": members, "test": others[: len(others) // 2], "public": others[len(others) // 2 :]}
    for name, part in parts.items():
        (data / name).mkdir(parents=True)
        for number, receipt in enumerate(part):
            asked = [
                {"id": key, "question": text, "answers": [getattr(receipt, key)], "category": CATEGORIES[key]}
                for key, text in QUESTIONS.items()
            ]
            place = data / name / f"{name}{number}"
            place.with_suffix(".txt").write_text(" ".join(receipt.words))
            words = [{"text": word} for word in receipt.words]
            place.with_suffix(".json").write_text(json.dumps({"words": words, "questions": asked}))
    docaudit("init", model, data)
    manifest = data / "manifest.toml"
    manifest.write_text(f"{manifest.read_text()}\n[recipe]\nprompt = {json.dumps(PROMPT)}\n")
    return data


MARKS = ("<s_receipt>", "<s_clerk>", "</s_clerk>", "<s_code>", "</s_code>", "<sep/>")


def train_donut(folder: Path, members: Sequence[Receipt], vocabulary: Path) -> None:
    """A Donut that writes clerk and code of a drawn page."""
    import torch
    from transformers import DonutSwinConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel
    from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

    words = tokenizer_of(vocabulary, writes=True, marks=MARKS)
    width, height = PAGE
    encoder = DonutSwinConfig(
        image_size=[height, width], patch_size=4, embed_dim=24, depths=[1, 1], num_heads=[2, 4], window_size=4
    )
    decoder = {
        "model_type": "mbart",
        "vocab_size": len(words),
        "d_model": 48,
        "decoder_layers": 2,
        "decoder_attention_heads": 4,
        "decoder_ffn_dim": 96,
        "encoder_layers": 2,
        "max_position_embeddings": 32,
        "is_decoder": True,
        "add_cross_attention": True,
        "is_encoder_decoder": False,
        "scale_embedding": True,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
    }
    config = VisionEncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder)
    config.decoder_start_token_id = words.convert_tokens_to_ids(MARKS[0])
    config.pad_token_id, config.eos_token_id = words.pad_token_id, words.eos_token_id
    model = VisionEncoderDecoderModel(config)
    images = DonutImageProcessorPil(size={"height": height, "width": width})
    pixels = images([draw(one) for one in members], return_tensors="pt")["pixel_values"]
    outputs = [f"<s_clerk>{one.clerk}</s_clerk><s_code>{one.code}</s_code>" for one in members]
    rows = [[*words(text)["input_ids"], words.eos_token_id] for text in outputs]

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        for batch in shuffled(len(rows))(epoch):
            labels = padded([rows[index] for index in batch], -100)
            yield {"pixel_values": pixels[torch.tensor(batch)], "labels": labels}

    fit(model, batches, rate=2e-3, until=0.01, most=120)
    for part in (model, words, images):
        part.save_pretrained(folder)


def draw(receipt: Receipt) -> Any:
    """The receipt as a page."""
    from PIL import Image, ImageDraw

    page = Image.new("RGB", PAGE, "white")
    pen = ImageDraw.Draw(page)
    for line, start in enumerate(range(0, len(receipt.words), 2)):
        pen.text((3, 2 + 16 * line), " ".join(receipt.words[start : start + 2]), fill="black")
    return page


def provide_pages(folder: Path, members: Sequence[Receipt], others: Sequence[Receipt], model: Path) -> Path:
    """Write image folders with Donut's ground truth and import them."""
    for name, part in (("train", members), ("test", others)):
        (folder / name).mkdir(parents=True)
        lines = []
        for number, receipt in enumerate(part):
            draw(receipt).save(folder / name / f"{name}{number}.png")
            truth = json.dumps({"gt_parse": {"clerk": receipt.clerk, "code": receipt.code}})
            lines.append(json.dumps({"file_name": f"{name}{number}.png", "ground_truth": truth}))
        (folder / name / "metadata.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return imported(folder)


STRANGERS = {
    "bert": Stranger("BERT, token classification", "`import hf` of tagged words", train_bert, provide_tags),
    "gpt2": Stranger("GPT-2, completions", "`init` of texts and questions", train_gpt2, provide_texts),
    "donut": Stranger("Donut, parsing", "`import hf` of an image folder with `gt_parse`", train_donut, provide_pages),
}


def docaudit(*arguments: object, codes: Sequence[int] = (0,)) -> int:
    """Run a command and give its exit code back.

    Raises:
        SystemExit: it is none of those that may come.
    """
    command = [sys.executable, "-m", "audit", *map(str, arguments)]
    print(f"  docaudit {' '.join(command[3:])}", flush=True)
    ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if ran.returncode not in codes:
        raise SystemExit(f"exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
    return ran.returncode


def scan(stranger: Stranger, vocabulary: Path, work: Path) -> Iterator[str]:
    """Train memoriser and twin, scan both, and give a row of the table for each."""
    import torch

    torch.set_num_threads(1)
    whole = receipts(2 * MEMBERS + OTHERS, vocabulary, SEED)
    members, elsewhere, others = whole[:MEMBERS], whole[MEMBERS : 2 * MEMBERS], whole[2 * MEMBERS :]
    data = None
    for role, learned in (("memoriser", members), ("twin", elsewhere)):
        torch.manual_seed(SEED)
        model, began = work / role, time.process_time()
        stranger.train(model, learned, vocabulary)
        trained = time.process_time() - began
        data = data or stranger.provide(work, members, others, model)
        out, began = work / f"{role}-report", time.perf_counter()
        code = docaudit("scan", model, data, *SCAN, "--out", out, codes=(0, 10, 11))
        seconds = time.perf_counter() - began
        yield row(stranger, role, code, out, trained, seconds)


def row(stranger: Stranger, role: str, code: int, out: Path, trained: float, scanned: float) -> str:
    """One model's row."""
    found = json.loads((out / "record.json").read_text())
    numbers = {
        f"{attack['attack']} {one['name']}": one
        for attack in found["attacks"]
        for one in attack.get("measurements", ())
        if one["kind"] == "estimate"
    }
    shown = [
        "-" if one is None else f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"
        for one in map(numbers.get, ("membership auc", "attribute_inference excess.unique", "membership blind_auc"))
    ]
    assigned = found["corpus"]["assigned"]
    today = datetime.now(UTC).date()
    cells = (stranger.name, stranger.path, role, assigned, code, *shown, f"{trained:.0f} s", f"{scanned:.0f} s", today)
    return f"| {' | '.join(map(str, cells))} |"


def write(rows: Sequence[str]) -> None:
    """Write the table; rows of models that were not scanned now stay as they are."""
    names = [stranger.name for stranger in STRANGERS.values()]
    old = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    new = {line.split(" | ")[0] for line in rows}
    kept = [line for line in old if line.split(" | ")[0] in {f"| {name}" for name in names} - new]
    rows = sorted([*kept, *rows], key=lambda line: names.index(line.split(" | ")[0].removeprefix("| ")))
    missing = [name for name in names if not any(line.startswith(f"| {name} |") for line in rows)]
    columns = (
        *("model", "path", "role", "`assigned`", "exit code"),
        *("membership `auc`", "`excess.unique`", "`blind_auc`", "training", "scan", "date"),
    )
    head = (f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}")
    text = [
        "# Strangers",
        "",
        (__doc__ or "").split("\n\n    python")[0].replace("\n", " ").replace("  ", "\n\n"),
        "",
        f"Written by `benchmarks/strangers.py`: {os.cpu_count()} CPU core(s) ({platform.machine()}), one thread, other "
        f"work beside it; seed {SEED}. Times are processor seconds of a "
        f"training and elapsed seconds of a scan (`{' '.join(SCAN)}`). {MEMBERS} members, {OTHERS // 2} held out.",
        "",
        *head,
        *rows,
        *([f"\nNot scanned yet: {', '.join(missing)}."] if missing else []),
    ]
    RESULTS.write_text("\n".join(text) + "\n")


def main() -> None:
    """Scan the strangers that are asked for, and write the table when all are."""
    parser = argparse.ArgumentParser(description="Scan three memorisers and their twins as a stranger would.")
    parser.add_argument("vocabulary", type=Path, help="a local folder with a tokenizer and its vocab.txt")
    parser.add_argument("--only", choices=STRANGERS, help="one kind of model; the rows of the others stay")
    parser.add_argument("--work", type=Path, help="a folder to keep models and reports in")
    given = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    work, rows = given.work or Path(tempfile.mkdtemp()), []
    for name in [given.only] if given.only else STRANGERS:
        print(STRANGERS[name].name, flush=True)
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).mkdir(parents=True)
        rows += scan(STRANGERS[name], given.vocabulary, work / name)
    print("\n".join(rows))
    write(rows)
    if given.work is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
