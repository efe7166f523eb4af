"""Words for documents that have an image and none: read by Tesseract, answers located among them."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from audit.corpus import manifest as manifests
from audit.corpus.documents import Corpus, Document, Entity, Question, Word
from audit.corpus.images import image_path, open_image, read_header
from audit.corpus.removal.tesseract import Tesseract
from audit.engine.interface import Progress
from audit.engine.journal import Journal
from audit.errors import ManifestError
from audit.files import write_atomically
from audit.importers.locate import QUALITIES, Location, Quality, locate, quality_of
from audit.importers.words import PageReader

LABEL = "ANSWER"
"""Of the entities that hold answers."""
ORIGINAL = "documents.before-ocr.jsonl"
"""What the documents file was, beside the new one."""


@dataclass(frozen=True)
class WordsAdded:
    """What came of reading a data set.

    Attributes:
        read: documents that got words.
        words: how many, all together.
        had_words: documents that had some, and are as they were.
        without_image: documents with neither words nor image.
        empty: ids of documents on whose pages nothing was read.
        failed: ids of documents whose pages Tesseract could not be made to read.
        answers: answers of the pages that were read, by how they were located.
        not_located: answers that were not.
        unclassified: located answers of questions without a category: no field is made of them.
    """

    read: int
    words: int
    had_words: int
    without_image: int
    empty: tuple[str, ...]
    failed: tuple[str, ...]
    answers: Mapping[Quality, int]
    not_located: int
    unclassified: int


def add_words(
    data_dir: Path, progress: Progress, *, reader: PageReader | None = None
) -> WordsAdded:
    """Read the pages that have an image and no words, locate the answers of their questions, write the data set.

    What was read is kept as it comes, so that a run that was ended goes on where it was. The
    documents file is replaced at once and whole, and what it was stays beside it as `ORIGINAL`;
    images are not touched.

    Args:
        data_dir: the data set.
        progress: told of every page.
        reader: of the pages; None: one for English.

    Raises:
        UsageError: Tesseract or its language is missing.
        ManifestError: the data set is broken.
        EngineError: it cannot be written.
    """
    reader = reader or PageReader()
    corpus = manifests.load(data_dir)
    wanted = [
        document
        for document in corpus.documents
        if document.image is not None and not document.words
    ]
    words: Mapping[str, tuple[Word, ...] | None] = {}
    if wanted:
        reader.check()
        words = _read(corpus, wanted, reader, _journal_path(corpus, reader), progress)
    tally: Counter[str] = Counter()
    documents = [
        _with_words(corpus, document, words.get(document.id), tally)
        for document in corpus.documents
    ]
    if any(words.values()):
        _replace(corpus, documents)
    _journal_path(corpus, reader).unlink(missing_ok=True)
    return WordsAdded(
        read=sum(bool(found) for found in words.values()),
        words=sum(len(found or ()) for found in words.values()),
        had_words=sum(bool(document.words) for document in corpus.documents),
        without_image=sum(
            document.image is None and not document.words for document in corpus.documents
        ),
        empty=tuple(name for name, found in words.items() if found == ()),
        failed=tuple(name for name, found in words.items() if found is None),
        answers={quality: tally[quality] for quality in QUALITIES},
        not_located=tally["not located"],
        unclassified=tally["unclassified"],
    )


def _journal_path(corpus: Corpus, reader: PageReader) -> Path:
    version = Tesseract(reader.command).version()
    key = hashlib.sha256(f"{reader.language}\0{version}".encode()).hexdigest()[:16]
    return corpus.root / f".ocr-{key}.jsonl"


def _read(
    corpus: Corpus, wanted: Sequence[Document], reader: PageReader, kept: Path, progress: Progress
) -> dict[str, tuple[Word, ...] | None]:
    """Read the words of each document by OCR, equal images once; None where OCR failed."""
    images = {document.id: read_header(image_path(corpus, document)).sha256 for document in wanted}
    journal = Journal(kept)
    todo = {
        images[document.id]: document
        for document in wanted
        if images[document.id] not in journal.outcomes
    }
    progress.stage("pages to read", len(todo))
    for name, words in reader.read(
        (name, partial(open_image, corpus, document)) for name, document in todo.items()
    ):
        if words is not None:
            journal.append(name, [[word.text, word.box] for word in words])
        progress.advance()
    found = {name: journal.outcomes.get(image) for name, image in images.items()}
    return {
        name: own if own is None else tuple(Word(text, tuple(box)) for text, box in own)
        for name, own in found.items()
    }


def _with_words(
    corpus: Corpus, document: Document, words: tuple[Word, ...] | None, tally: Counter[str]
) -> Document:
    """Add words, and the places of answers among them, to a document; unchanged without words."""
    if not words:
        return document
    header = None if document.size else read_header(image_path(corpus, document))
    size = document.size if header is None else (header.width, header.height)
    texts, taken = [word.text for word in words], set[int]()
    entities, questions = list(document.entities), []
    for question in document.questions:
        found = _locate_answer(question, texts, taken)
        if found is None:
            tally["not located"] += 1
        else:
            tally[quality_of(found.rule)] += 1
            if question.category is None:
                tally["unclassified"] += 1
            else:
                taken.update(found.words)
                name = question.id
                while name in {entity.id for entity in entities}:
                    name += "'"
                entities.append(Entity(name, LABEL, question.category, found.words))
                question = replace(question, entity=name)
        questions.append(question)
    return replace(
        document, size=size, words=words, entities=tuple(entities), questions=tuple(questions)
    )


def _locate_answer(question: Question, texts: Sequence[str], taken: set[int]) -> Location | None:
    """Locate the first accepted answer, trying better match qualities first."""
    places = [
        locate(answer, question.category or "misc", texts, taken) for answer in question.answers
    ]
    found = [place for place in places if isinstance(place, Location)]
    return min(found, key=lambda place: QUALITIES.index(quality_of(place.rule)), default=None)


def _replace(corpus: Corpus, documents: Sequence[Document]) -> None:
    """Put a new documents file in place of the old one, which is kept.

    Back again where the new one is refused.
    """
    path = corpus.root / corpus.manifest.documents
    original = path.with_name(ORIGINAL)
    before = path.read_bytes()
    if not original.exists():
        write_atomically(original, before)
    write_atomically(path, manifests.lines_of(documents))
    try:
        manifests.load(corpus.root)
    except ManifestError:
        write_atomically(path, before)
        raise
