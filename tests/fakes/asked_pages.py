"""Tiny data sets with questions: receipts of `tiny` with images, one or two questions a page."""

import json
from dataclasses import replace
from pathlib import Path

import tiny
from answering_checkpoints import make_donut

from audit.corpus.documents import Corpus, Document, Question, ReferencePaths, Task, TrainingRecipe
from audit.corpus.manifest import load, write

ASKED = {"TOTAL": "total?", "CLERK": "clerk?"}


def donut(folder: Path, seed: int = 0) -> Path:
    """A tiny Donut that may end an answer in Donut's own way, and in no other."""
    make_donut(folder, seed, ends="")
    path = folder / "generation_config.json"
    settings = json.loads(path.read_text())
    del settings["suppress_tokens"]
    path.write_text(json.dumps(settings))
    return folder


def asked(document: Document, labels: tuple[str, ...] = ("TOTAL", "CLERK")) -> Document:
    """The receipt with a question for each of these fields, answered by its words."""
    questions = tuple(
        Question(
            f"q-{entity.id}", ASKED[entity.label], (document.text_of(entity),), entity=entity.id
        )
        for entity in document.entities
        if entity.label in labels
    )
    return replace(document, questions=questions)


def corpus(
    folder: Path,
    *,
    members: int = 4,
    heldout: int = 2,
    public: int = 3,
    labels: tuple[str, ...] = ("TOTAL", "CLERK"),
    images: bool = True,
    recipe: TrainingRecipe | None = None,
    references: ReferencePaths | None = None,
) -> Corpus:
    """Write and load such a data set."""
    made = load(
        tiny.corpus(
            folder, members=members, heldout=heldout, public=public, kind="mlm", images=images
        )
    )
    stated = {"recipe": recipe or TrainingRecipe(), "references": references or ReferencePaths()}
    manifest = replace(made.manifest, task=Task("question-answering"), **stated)
    write(folder, manifest, [asked(document, labels) for document in made.documents])
    return load(folder)
