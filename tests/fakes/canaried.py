"""Small data sets to put canaries into: utterances, text, pages with and without images, questions."""

from dataclasses import replace
from pathlib import Path

import tiny

from audit.corpus import manifest as manifests
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Question,
    Task,
    TaskKind,
    Word,
)

UTTERANCES = (
    ("play ella", ("O", "B-artist"), "PlayMusic"),
    ("rate it five", ("O", "O", "B-rating"), "RateBook"),
    ("add this song", ("O", "O", "B-item"), "AddToPlaylist"),
)
SLOTS = ("B-artist", "B-item", "B-rating", "O")


def utterances(folder: Path) -> Corpus:
    """Write a small data set of utterances: two members, the others held out."""
    documents = [
        Document(f"u{number}", split, tuple(map(Word, text.split())), tags=tags, intent=intent)
        for number, (text, tags, intent) in enumerate(UTTERANCES)
        for split in ("member" if number < 2 else "heldout",)
    ]
    return _written(folder, "intent-slots", documents, SLOTS)


def texts(folder: Path) -> Corpus:
    """Text without layout; two paragraphs."""
    words = tuple(map(Word, ["The", "case", "of", "Smith", "began", "in", "May"]))
    name = Entity("e1", "NAME", "person", (3,))
    documents = [Document("t1", "member", words, entities=(name,), paragraphs=(0, 4))]
    return _written(folder, "token-classification", documents, ("O", "B-NAME", "I-NAME"))


def pages(folder: Path, *, images: bool = True, kind: TaskKind = "token-classification") -> Corpus:
    """The receipts of `tiny`; for question-answering, each with a question."""
    corpus = manifests.load(
        tiny.corpus(folder, images=images, kind="mlm" if kind == "mlm" else "token-classification")
    )
    if kind in ("token-classification", "mlm"):
        return corpus
    asked = [
        replace(
            d,
            questions=(
                Question("total", "What is the total?", (d.text_of(d.entities[3]),), entity="e3"),
            ),
        )
        for d in corpus.documents
    ]
    manifests.write(folder, replace(corpus.manifest, task=Task(kind)), asked)
    return manifests.load(folder)


def _written(
    folder: Path, kind: TaskKind, documents: list[Document], labels: tuple[str, ...]
) -> Corpus:
    """Write a data set of these documents, and load it."""
    manifests.write(
        folder, Manifest(1, "small", Task(kind, labels), Membership("random")), documents
    )
    return manifests.load(folder)
