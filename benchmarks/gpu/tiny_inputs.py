"""Folders in the shape of SROIE, FUNSD and a BERT checkpoint, made on the spot: a few invented receipts each."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from receipts_generator import Market, Receipt
from receipts_templates import write
from transformers import BertConfig, BertModel
from vocabulary import train_tokenizer

from audit.references.recipes import made_once
from benchmarks.gpu.work import Inputs

N_RECEIPTS = 12
SEED = 31
KEYS = ("company", "date", "address", "total")


def tiny_inputs(root: Path) -> Inputs:
    """Make the folders, once."""

    def make(folder: Path) -> None:
        receipts = [Market(SEED, N_RECEIPTS).receipt(number) for number in range(N_RECEIPTS)]
        write_sroie(folder / "sroie", receipts)
        write_funsd(folder / "funsd", receipts)
        write_backbone(folder / "backbone", receipts)

    folder = made_once(root / "tiny-inputs", make)
    return Inputs(folder / "sroie", folder / "funsd", folder / "backbone")


def write_sroie(folder: Path, receipts: list[Receipt]) -> None:
    """A word a row in place of a line, and the four values as they stand on the page."""
    for kind in ("img", "box", "key"):
        (folder / kind).mkdir(parents=True)
    for number, receipt in enumerate(receipts):
        page = write(receipt)
        name = f"{number:03d}"
        (folder / "img" / f"{name}.png").write_bytes(page.png())
        rows = []
        for word in page.words:
            x1, y1, x2, y2 = (round(side) for side in word.box)
            rows.append(f"{x1},{y1},{x2},{y1},{x2},{y2},{x1},{y2},{word.text}")
        (folder / "box" / f"{name}.csv").write_text("\n".join(rows) + "\n")
        values = {}
        for entity in page.entities:
            key = entity.label.lower()
            if key in KEYS and key not in values:
                values[key] = " ".join(page.words[index].text for index in entity.words)
        (folder / "key" / f"{name}.json").write_text(json.dumps(values))


def write_funsd(folder: Path, receipts: list[Receipt]) -> None:
    """Every value an answer, every other word a text of its own."""
    for kind in ("annotations", "images"):
        (folder / kind).mkdir(parents=True)
    for number, receipt in enumerate(receipts):
        page = write(receipt)
        name = f"{number:03d}"
        (folder / "images" / f"{name}.png").write_bytes(page.png())
        owner = {
            index: place for place, entity in enumerate(page.entities) for index in entity.words
        }
        grouped: dict[int, list[int]] = {}
        for index in range(len(page.words)):
            grouped.setdefault(owner.get(index, -1 - index), []).append(index)
        form = [
            {
                "id": place,
                "label": "answer" if of >= 0 else "question",
                "words": [
                    {"text": page.words[one].text, "box": list(page.words[one].box)}
                    for one in indices
                ],
                "linking": [],
            }
            for place, (of, indices) in enumerate(grouped.items())
        ]
        (folder / "annotations" / f"{name}.json").write_text(json.dumps({"form": form}))


def write_backbone(folder: Path, receipts: list[Receipt]) -> None:
    """A BERT of two narrow layers with random weights."""
    texts = [" ".join(word.text for word in write(receipt).words) for receipt in receipts]
    tokenizer = train_tokenizer(texts, n_pieces=100, max_tokens=512)
    torch.manual_seed(SEED)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
