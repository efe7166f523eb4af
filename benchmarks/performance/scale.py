"""What a large data set costs: processor seconds, wall seconds and peak memory of `inspect`, `plan` and `scan`.

    python -m benchmarks.performance.scale  # 10,000 and 100,000 documents; writes scale.json
    python -m benchmarks.performance.scale --documents 1000 --out /tmp/scale.json

The data set is made here from a seed: receipts of about 40 words with boxes, five fields and a
provider, half of them members and half held out, and 100 public ones. Model and references are
tiny, with random weights, so that what the documents cost is not hidden behind forward passes.
Every command is a process of its own; its memory is the peak that the system counted. The scan
tries 500 documents under the budget `quick`, whatever the size of the data set.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import multiprocessing
import os
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np

SIZES = (10_000, 100_000)
TRIED = 500
PUBLIC = 100
A_PROVIDER = 20
"""Documents of one provider."""
LINES = (4, 9)
"""Items of a receipt, least and most."""
PAGE = (600, 800)
CLASSES = ("VENDOR", "DATE", "TOTAL", "CLERK", "CODE")
CATEGORIES = ("organization", "datetime", "amount", "person", "code")
LABELS = ("O", *(f"{begin}-{name}" for name in CLASSES for begin in "BI"))
SYLLABLES = (
    "ba",
    "ko",
    "li",
    "mer",
    "ta",
    "sun",
    "dor",
    "vi",
    "pel",
    "ra",
    "no",
    "gim",
    "he",
    "zu",
    "fal",
    "qui",
)
ITEMS = (
    "bread",
    "paper",
    "coffee",
    "battery",
    "pencil",
    "soap",
    "lamp",
    "cable",
    "water",
    "tape",
    "rice",
    "glue",
)
COMMANDS = ("inspect", "plan", "scan")


def main() -> None:
    """Measure every size, and write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--commands", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument(
        "--only", nargs="*", default=[], help="attacks of the scan; all of them where none is named"
    )
    parser.add_argument("--keep", type=Path, help="a folder for data sets and scans, which stay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name)
        measured = {
            str(n): measure(folder / str(n), n, options.commands, options.only)
            for n in options.documents
        }
    found = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} CPU cores, {os.environ.get('OMP_NUM_THREADS', 'all')} threads",
        "attacks of the scan": options.only or "all",
        "documents": measured,
        "of the largest to the smallest": ratios([*measured.values()]),
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def ratios(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """By command, the numbers of the last size over those of the first."""
    first = measured[0]
    last = measured[-1]
    return {
        command: {
            what: round(last[command][what] / first[command][what], 2) for what in first[command]
        }
        for command in COMMANDS
        if command in first
    }


def measure(folder: Path, n: int, commands: list[str], only: list[str]) -> dict[str, Any]:
    """What the commands cost on a data set of `n` documents, and what the scan wrote."""
    data = folder / "data"
    model = folder / "model"
    if not data.exists():
        # In a process of its own: the system would count this one's memory for the commands that it
        # starts.
        made = multiprocessing.get_context("spawn").Process(target=make, args=(folder, n))
        made.start()
        made.join()
    arguments = {
        "inspect": ("inspect", data),
        "plan": ("plan", data, "--documents", TRIED),
        "scan": (
            *(
                "scan",
                model,
                data,
                "--documents",
                TRIED,
                "--budget",
                "quick",
                "--seed",
                0,
                "--quiet",
                "--fresh",
            ),
            *("--out", folder / "out"),
            *(part for name in only for part in ("--only", name)),
        ),
    }
    found: dict[str, Any] = {"megabytes": round((data / "documents.jsonl").stat().st_size / 1e6, 1)}
    for command in commands:
        found[command] = cost([str(part) for part in arguments[command]])
        print(n, command, found[command], flush=True)
    if "scan" in commands:
        found["bytes"] = dict(sizes(folder / "out"))
    return found


def cost(arguments: list[str]) -> dict[str, float]:
    """Seconds and the peak of memory of one command, by what the system counted for its process."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "audit", *arguments], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 10, 11):
        raise SystemExit(f"docaudit {arguments[0]} ended with {process.returncode}")
    return {
        "processor seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "wall seconds": round(time.perf_counter() - began, 1),
        "peak megabytes": round(usage.ru_maxrss / 1e3),
    }


def sizes(out: Path) -> Iterator[tuple[str, int]]:
    """The files of a scan, journals without the key in their names, with their sizes."""
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.suffix in (".json", ".jsonl", ".html", ".pdf", ".csv"):
            name = path.name.rsplit("-", 1)[0] if path.name.startswith("journal-") else path.name
            yield name, path.stat().st_size


def make(folder: Path, n: int, width: int = 32, pieces: tuple[str, ...] = ()) -> None:
    """Make the data set and the model.

    Args:
        folder: gets both.
        n: documents.
        width: hidden size of all models.
        pieces: tokens beside letters, which make rows shorter.
    """
    data = folder / "data"
    model = folder / "model"
    (data / "references").mkdir(parents=True)
    checkpoint(model, 0, width=width, pieces=pieces)
    checkpoint(data / "references" / "baseline", 1, width=width, pieces=pieces)
    checkpoint(data / "references" / "public", 2, masked=True, width=width, pieces=pieces)
    labels = ", ".join(f'"{label}"' for label in LABELS)
    (data / "manifest.toml").write_text(
        f'schema = 1\nname = "receipts"\n\n[task]\nkind = "token-classification"\nlabels = [{labels}]\n\n'
        '[membership]\nassigned = "random"\n\n'
        '[references]\nauxiliary = "references/public"\nbaselines = ["references/baseline"]\n'
    )
    with (data / "documents.jsonl").open("w") as stream:
        for number in range(n):
            stream.write(json.dumps(receipt(number, n)) + "\n")


def checkpoint(
    folder: Path, seed: int, masked: bool = False, width: int = 32, pieces: tuple[str, ...] = ()
) -> None:
    """Save a LayoutLM of two layers with random weights and a tokenizer that spells."""
    import torch
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import (
        BertTokenizerFast,
        LayoutLMConfig,
        LayoutLMForMaskedLM,
        LayoutLMForTokenClassification,
    )

    letters = string.ascii_lowercase + string.digits
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    vocabulary = (*special, *letters, *(f"##{letter}" for letter in letters), *".,:;/-", *pieces)
    inner = Tokenizer(
        models.WordPiece(
            {token: index for index, token in enumerate(vocabulary)}, unk_token="[UNK]"
        )
    )
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    names = (
        {}
        if masked
        else {"id2label": dict(enumerate(LABELS)), "label2id": {k: i for i, k in enumerate(LABELS)}}
    )
    config = LayoutLMConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=width * 3 // 2,
        max_position_embeddings=320,
        **names,
    )
    torch.manual_seed(seed)
    (LayoutLMForMaskedLM if masked else LayoutLMForTokenClassification)(config).save_pretrained(
        folder
    )
    BertTokenizerFast(tokenizer_object=inner, model_max_length=320).save_pretrained(folder)


def receipt(number: int, n: int) -> dict[str, Any]:
    """One line of the documents file; every document has randomness of its own."""
    rng = np.random.default_rng([21, number])
    provider = int(rng.integers(max(1, n // A_PROVIDER)))
    vendor = [_name(provider, 7), _name(provider, 11)]
    fields = {
        "VENDOR": vendor,
        "DATE": [f"{rng.integers(1, 29):02}/{rng.integers(1, 13):02}/20{rng.integers(10, 27)}"],
        "CODE": [f"{rng.integers(10**9):09}"],
        "CLERK": [_name(int(rng.integers(10**6)), 3), _name(int(rng.integers(10**6)), 5)],
        "TOTAL": [f"{rng.integers(10, 10_000)}.{rng.integers(100):02}"],
    }
    words: list[str] = []
    entities: list[dict[str, Any]] = []
    for (name, value), category in zip(
        fields.items(), ("organization", "datetime", "code", "person", "amount"), strict=True
    ):
        if name == "CLERK":
            for _ in range(int(rng.integers(*LINES))):
                price = f"{rng.integers(1, 100)}.{rng.integers(100):02}"
                words += [
                    str(rng.integers(1, 10)),
                    "x",
                    ITEMS[int(rng.integers(len(ITEMS)))],
                    price,
                ]
        words += [] if name == "VENDOR" else [name.lower()]
        at = [*range(len(words), len(words) + len(value))]
        entities.append({"id": name.lower(), "label": name, "category": category, "words": at})
        words += value
    split = "public" if number < PUBLIC else "member" if number % 2 else "heldout"
    return {
        "id": f"r{number:06}",
        "split": split,
        "words": [{"text": text, "box": _box(index)} for index, text in enumerate(words)],
        "size": PAGE,
        "provider": " ".join(vendor),
        "entities": entities,
    }


def _name(number: int, salt: int) -> str:
    """Return a name of three syllables, drawn from a number and a salt."""
    rng = np.random.default_rng([number, salt])
    return "".join(SYLLABLES[int(index)] for index in rng.integers(len(SYLLABLES), size=3))


def _box(index: int) -> list[int]:
    """Return the box of the word at this index, four words a line."""
    x = 20 + 140 * (index % 4)
    y = 20 + 40 * (index // 4)
    return [x, y, x + 120, y + 25]


if __name__ == "__main__":
    main()
