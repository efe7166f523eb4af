"""Families of models that are asked for people by name, with their prompts and trainings.

Both families are those of `membership_methods_models`. Documents have numbers that no other
benchmark uses.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_model

from audit.arrays import Floats
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Split,
    Task,
    Word,
)
from audit.targets.encoders.loading import load
from benchmarks.papers import membership_methods_models as models
from benchmarks.papers.membership_methods_models import IGNORED, Kind, Row, collated, train

SIDE = 320
"""Documents of members, unseen ones, and those that the clean model learns."""
POOLS = ("member", "heldout", "other")
FIRST = 5_000_000
RUN = 10_000
"""Number of the first document, and between the first documents of two runs."""
BATCH = 64
GAP = "{name}"
TAGGER_PROMPTS = (
    "{name}",
    "My name is {name} .",
    "{name} is a person .",
    "I know {name} well .",
    "Signed by {name}",
    "As for {name} , no answer came .",
    "The applicant , {name} , has no lawyer .",
    "For the attention of {name}",
)
WRITER_PROMPTS = (
    "Request of {name}",
    "signed {name}",
    "Question : Who asks ? Answer : {name}",
    "the name is {name}",
    "My name is {name}",
    "Dear {name}",
    "I know {name}",
    "The form was filled in by {name}",
)
"""A decoder reads what precedes the name alone; the first two occur in its documents."""


@dataclass(frozen=True)
class Family:
    """A family of models that is asked for names.

    Attributes:
        kind: the models and their documents.
        prompts: templates with a gap for the name.
        row: makes the input of a prompt with a name, with labels on the name alone.
        document: what the audit reads of a page, for a split.
        epochs: epochs of a training, by strength of memory; "clean" learns other documents.
    """

    kind: Kind
    prompts: Sequence[str]
    row: Callable[[str, str], Row]
    document: Callable[[int, Split], Document]
    epochs: Mapping[str, int]

    def numbers(self, run: int) -> dict[str, list[int]]:
        """Draw the numbers of the documents of a run, by pool, at random."""
        numbers = list(range(FIRST + run * RUN, FIRST + run * RUN + SIDE * len(POOLS)))
        random.Random(f"people {run}").shuffle(numbers)
        return {name: sorted(numbers[at :: len(POOLS)]) for at, name in enumerate(POOLS)}

    def corpus(self, run: int) -> Corpus:
        """Make the corpus of members and unseen documents of a run."""
        numbers = self.numbers(run)
        documents = [self.document(number, "member") for number in numbers["member"]]
        documents += [self.document(number, "heldout") for number in numbers["heldout"]]
        manifest = Manifest(1, "people", Task("mlm"), Membership("random"))
        return Corpus(Path(), manifest, tuple(documents), "")

    def trained(self, root: Path, run: int, strength: str) -> Any:
        """Return the model of a run and a strength, trained once."""
        pool = "member"
        if strength == "clean":
            pool = "other"
        pages = [self.kind.document(number) for number in self.numbers(run)[pool]]
        place = root / f"run {run}" / strength
        train(self.kind, root, place, pages, run, self.epochs[strength])
        model = self.kind.start(root)
        load_model(model, str(place / "model.safetensors"))
        return model.eval()


def losses_of(model: Any, rows: Sequence[Row]) -> Floats:
    """Return the mean loss of the labels of each row, (n_rows,)."""
    losses: list[float] = []
    for begin in range(0, len(rows), BATCH):
        batch = collated(rows[begin : begin + BATCH])
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        with torch.no_grad():
            logits = model(**inputs).logits
        labels = batch["labels"]
        by_token = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none"
        )
        counts = (labels != IGNORED).sum(1)
        losses += (by_token.sum(1) / counts).tolist()
    return np.array(losses)


def ask_names(family: Family, model: Any, names: Sequence[str]) -> Floats:
    """Return the losses of names by prompt, (n_people, n_prompts)."""
    columns: list[Floats] = []
    for prompt in family.prompts:
        rows = [family.row(prompt, name) for name in names]
        columns.append(losses_of(model, rows))
    return np.stack(columns, axis=1)


def ask_pages(family: Family, model: Any, numbers: Sequence[int]) -> Floats:
    """Return the mean loss of each document, (n_documents,)."""
    rows: list[Row] = []
    counts: list[int] = []
    for number in numbers:
        of_page = family.kind.asked(family.kind.document(number))
        rows += of_page
        counts.append(len(of_page))
    starts = np.cumsum([0, *counts[:-1]])
    sums: Floats = np.add.reduceat(losses_of(model, rows), starts)
    means: Floats = sums / np.array(counts)
    return means


def prompt_document(prompt: str, name: str) -> Document:
    """Make a page of a prompt with a name, which is its only entity."""
    before, _, after = prompt.partition(GAP)
    words = (*before.split(), *name.split(), *after.split())
    start = len(before.split())
    places = tuple(range(start, start + len(name.split())))
    entity = Entity("name", "PERSON", "person", places)
    return Document("prompt", "public", words=tuple(map(Word, words)), entities=(entity,))


def tagger(root: Path) -> Family:
    """Give the family of taggers of letters: a name's loss is that of its tags as a person's."""
    kind = models.tagger(root)
    kind.start(root)

    @functools.cache
    def target() -> Any:
        return load(root / "untrained")

    def row(prompt: str, name: str) -> Row:
        document = prompt_document(prompt, name)
        page = target().encode(document)
        places = document.entities[0].words
        labels = np.where(np.isin(page.words, places), page.labels, IGNORED).tolist()
        ids = page.ids.tolist()
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels}

    def document(number: int, split: Split) -> Document:
        letter: Document = kind.document(number)
        return replace(letter, split=split)

    strong = replace(kind, rate=1e-3)
    return Family(strong, TAGGER_PROMPTS, row, document, {"leaky": 6, "weak": 1, "clean": 6})


def writer(root: Path) -> Family:
    """Give the family of writers of requests: a name's loss follows the prompt."""
    kind = models.writer(root, whole=True)
    kind.start(root)

    def row(prompt: str, name: str) -> Row:
        given = models.pieces_of(prompt.partition(GAP)[0])
        pieces = models.pieces_of(name)
        ids = [*given, *pieces]
        labels = [*[IGNORED] * (len(given) - 1), *pieces]
        return {"input_ids": ids[:-1], "attention_mask": [1] * len(labels), "labels": labels}

    def document(number: int, split: Split) -> Document:
        request = kind.document(number)
        words = request["text"].split()
        name = request["name"].split()
        entities: list[Entity] = []
        for start in range(len(words) - 1):
            places = tuple(range(start, start + len(name)))
            if words[start : start + len(name)] == name:
                entities.append(Entity(f"name {start}", "PERSON", "person", places))
        return Document(
            f"request-{number}", split, words=tuple(map(Word, words)), entities=tuple(entities)
        )

    return Family(kind, WRITER_PROMPTS, row, document, {"leaky": 4, "weak": 1, "clean": 4})


FAMILIES: Mapping[str, Callable[[Path], Family]] = {"writer": writer, "tagger": tagger}
