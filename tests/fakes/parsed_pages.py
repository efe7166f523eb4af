"""Tiny data sets for parsing, and tiny checkpoints that write pages: a Donut with marks of fields, models of text."""

import json
from dataclasses import replace
from pathlib import Path

import tiny
from answering_checkpoints import make_donut
from safetensors.torch import load_file, save_file

from audit.corpus.documents import Corpus, Document, ReferencePaths, Task, TrainingRecipe
from audit.corpus.manifest import load, write

PROMPT = "<s_cord>"
KEYS = ("receipt", "total", "clerk")
MARKS = (PROMPT, "<sep/>", *(mark for key in KEYS for mark in (f"<s_{key}>", f"</s_{key}>")))
RECIPE = TrainingRecipe(prompt=PROMPT, epochs=1, batch_size=4, learning_rate=1e-3)


def donut(folder: Path, seed: int = 0) -> Path:
    """A tiny Donut that knows the marks of these data sets, with small weights, so that it learns in seconds."""
    make_donut(folder, seed, ends="", marks=MARKS)
    path = folder / "model.safetensors"
    weights = {
        name: 0.3 * values if values.dim() > 1 else values
        for name, values in load_file(path).items()
    }
    save_file(weights, path, {"format": "pt"})
    return folder


def parsed(document: Document) -> Document:
    """The receipt with its total and its clerk as JSON."""
    named = {entity.label.lower(): document.text_of(entity) for entity in document.entities}
    fields = {key: named[key] for key in KEYS if key in named}
    return replace(document, output=json.dumps({"receipt": fields}))


def corpus(
    folder: Path,
    *,
    members: int = 4,
    heldout: int = 2,
    public: int = 3,
    recipe: TrainingRecipe = RECIPE,
    references: ReferencePaths | None = None,
) -> Corpus:
    """Write and load such a data set."""
    made = load(
        tiny.corpus(
            folder, members=members, heldout=heldout, public=public, kind="mlm", images=True
        )
    )
    manifest = replace(
        made.manifest,
        task=Task("parsing"),
        recipe=recipe,
        references=references or ReferencePaths(),
    )
    write(folder, manifest, [parsed(document) for document in made.documents])
    return load(folder)
