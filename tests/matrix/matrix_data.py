"""Tiny data sets of every kind of task: four members, four held-out, six public documents."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import asked_pages
import encoder_zoo
import nlu_models
import parsed_pages
import tiny

from audit.attacks.interface import AUDITED
from audit.corpus.canaries.insertion import insert
from audit.corpus.documents import Manifest, Membership, Redaction, Task, TaskKind, TrainingRecipe
from audit.corpus.manifest import load, write

COUNTS = {"members": 4, "heldout": 4, "public": 6}
Data = Callable[[Path], object]


def pages(kind: TaskKind) -> Data:
    """Receipts with boxes and images for an encoder under this head."""
    return lambda folder: provided(tiny.corpus(folder, **COUNTS, kind=kind, images=True))


def classified(folder: Path) -> None:
    """Receipts with a class."""
    made = load(tiny.corpus(folder, **COUNTS, kind="mlm", images=True))
    labelled = [
        replace(one, label=encoder_zoo.CLASSES[n % 3]) for n, one in enumerate(made.documents)
    ]
    task = Task("document-classification", encoder_zoo.CLASSES)
    write(folder, replace(made.manifest, task=task), labelled)
    provided(folder)


def asked(prompt: str | None = None, kind: TaskKind = "question-answering") -> Data:
    """Receipts with a question each."""
    recipe = TrainingRecipe(prompt=prompt, epochs=1, batch_size=4, learning_rate=1e-3)

    def make(folder: Path) -> None:
        made = asked_pages.corpus(folder, **COUNTS, labels=("TOTAL",), recipe=recipe)
        write(folder, replace(made.manifest, task=Task(kind)), made.documents)
        provided(folder)

    return make


def parsed(prompt: str | None) -> Data:
    """Receipts with their fields as JSON."""
    recipe = TrainingRecipe(prompt=prompt, epochs=1, batch_size=4, learning_rate=1e-3)

    def make(folder: Path) -> None:
        parsed_pages.corpus(folder, **COUNTS, recipe=recipe)
        provided(folder)

    return make


def utterances(folder: Path) -> None:
    """Short texts with slots and an intent."""
    splits = ("member",) * 4 + ("heldout",) * 4 + ("public",) * 6
    texts = nlu_models.documents()[: len(splits)]
    made = [replace(one, split=split) for one, split in zip(texts, splits, strict=True)]
    task = Task("intent-slots", nlu_models.TAGS)
    write(folder, Manifest(1, "utterances", task, Membership("random")), made)
    provided(folder)


def provided(folder: Path) -> None:
    """Name providers, two of them in training with documents kept aside, and say that values are hidden."""
    made = load(folder)
    names = {"member": ("one", "one", "two", "two"), "heldout": ("one", "two", "three", "three")}
    given = {
        one.id: name
        for split in AUDITED
        for one, name in zip(made.of(split), names[split], strict=True)
    }
    documents = [replace(one, provider=given.get(one.id)) for one in made.documents]
    write(folder, replace(made.manifest, redaction=Redaction("length")), documents)


def planted(folder: Path, out: Path) -> None:
    """Write a copy with canaries."""
    insert(load(folder), out, pattern="pin", count=4, repeat=1, length=1, seed=0)
