"""The kinds that a manifest tells apart: splits, categories of values, tasks, masks. Names alone, quick to import."""

from __future__ import annotations

from typing import Literal, get_args

Split = Literal["member", "heldout", "public"]
Category = Literal[
    "person",
    "organization",
    "location",
    "datetime",
    "amount",
    "code",
    "contact",
    "url",
    "demographic",
    "quantity",
    "misc",
]
TaskKind = Literal[
    "mlm",
    "token-classification",
    "spade-extraction",
    "spade-linking",
    "question-answering",
    "extractive-qa",
    "parsing",
    "document-classification",
    "intent-slots",
]
Mask = Literal["length", "fixed", "all"]

SPLITS: tuple[Split, ...] = get_args(Split)
CATEGORIES: tuple[Category, ...] = get_args(Category)
