"""Words for documents that have an image alone: read by Tesseract, with the answers located."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
"""Label of the entities that hold answers."""
ORIGINAL = "documents.before-ocr.jsonl"
"""What the documents file was, beside the new one."""
_PageWords = tuple[Word, ...] | None
"""Words of a page; empty where nothing was read on it, None where Tesseract failed."""


@dataclass(frozen=True)
class WordsAdded:
    """What came of reading a data set.

    Attributes:
        read: number of documents that got words.
        words: number of words that all these got.
        had_words: number of documents that had some, and are as they were.
        without_image: number of documents with neither words nor image.
        empty: ids of documents on whose pages nothing was read.
        failed: ids of documents whose pages Tesseract could not be made to read.
        answers: number of answers of the pages that were read, by how they were located.
        not_located: number of answers that were not.
        unclassified: number of located answers of questions without a category: no field is made
            of them.
        original: what the documents file was, beside the new one.
        path: the documents file.
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
    original: Path
    path: Path


def add_words(
    data_dir: Path, progress: Progress, *, reader: PageReader | None = None
) -> WordsAdded:
    """Read the pages that have an image and no words, and write the data set with them.

    Answers of the questions are located among the words. What was read is kept as it comes, so that
    a run that was ended goes on where it was. The documents file is replaced at once and whole, and
    what it was stays beside it as `ORIGINAL`; images are not touched.

    Args:
        data_dir: folder of the data set.
        progress: receiver of the progress, told of every page.
        reader: reader of the pages; None: one for English.

    Raises:
        UsageError: Tesseract or its language is missing.
        ManifestError: the data set is broken.
        EngineError: it cannot be written.
    """
    reader = reader or PageReader()
    corpus = manifests.load(data_dir)
    unread = [
        document
        for document in corpus.documents
        if document.image is not None and not document.words
    ]
    words: Mapping[str, _PageWords] = {}
    if unread:
        reader.check()
        words = _read_documents(corpus, unread, reader, progress)
    tally: Counter[str] = Counter()
    documents = [
        _with_words(corpus, document, words.get(document.id), tally)
        for document in corpus.documents
    ]
    if any(words.values()):
        _replace(corpus, documents)
    _journal_path(corpus, reader).unlink(missing_ok=True)
    return _count_added(corpus, words, tally)


def _count_added(
    corpus: Corpus, words: Mapping[str, _PageWords], tally: Mapping[str, int]
) -> WordsAdded:
    """Count pages that got words, got none or failed, and answers by what became of them.

    Args:
        corpus: the data set as it was before.
        words: words of the documents that were read, by their ids.
        tally: number of answers, by what became of them.
    """
    n_words: list[int] = []
    empty: list[str] = []
    failed: list[str] = []
    for name, page in words.items():
        if page is None:
            failed.append(name)
        elif page:
            n_words.append(len(page))
        else:
            empty.append(name)
    had_words = [document for document in corpus.documents if document.words]
    blank = [
        document for document in corpus.documents if document.image is None and not document.words
    ]
    return WordsAdded(
        read=len(n_words),
        words=sum(n_words),
        had_words=len(had_words),
        without_image=len(blank),
        empty=tuple(empty),
        failed=tuple(failed),
        answers={quality: tally[quality] for quality in QUALITIES},
        not_located=tally["not located"],
        unclassified=tally["unclassified"],
        original=corpus.root / ORIGINAL,
        path=corpus.root / corpus.manifest.documents,
    )


def _journal_path(corpus: Corpus, reader: PageReader) -> Path:
    """Name the file that keeps what one version of Tesseract reads in one language."""
    version = Tesseract(reader.command).version()
    key = hashlib.sha256(f"{reader.language}\0{version}".encode()).hexdigest()[:16]
    return corpus.root / f".ocr-{key}.jsonl"


def _read_documents(
    corpus: Corpus, documents: Sequence[Document], reader: PageReader, progress: Progress
) -> dict[str, _PageWords]:
    """Read the words of each document by OCR, equal images once."""
    path = _journal_path(corpus, reader)
    images = {
        document.id: read_header(image_path(corpus, document)).sha256 for document in documents
    }
    journal = Journal(path)
    unread: dict[str, Document] = {}
    for document in documents:
        image = images[document.id]
        if image not in journal.outcomes:
            unread[image] = document
    progress.stage("pages to read", len(unread))
    pages = ((image, partial(open_image, corpus, document)) for image, document in unread.items())
    for image, words in reader.read(pages):
        if words is not None:
            journal.append(image, [[word.text, word.box] for word in words])
        progress.advance()
    return {name: _stored_words(journal, image) for name, image in images.items()}


def _stored_words(journal: Journal, image: str) -> _PageWords:
    """Return the words of an image as its journal keeps them; None where it keeps none."""
    stored = journal.outcomes.get(image)
    if stored is None:
        return None
    return tuple(Word(text, tuple(box)) for text, box in stored)


def _with_words(
    corpus: Corpus, document: Document, words: _PageWords, tally: Counter[str]
) -> Document:
    """Add words, and the places of answers among them, to a document; unchanged without words."""
    if not words:
        return document
    size = document.size
    if not size:
        header = read_header(image_path(corpus, document))
        size = (header.width, header.height)
    answers = _AnswerPlaces([word.text for word in words], list(document.entities), tally)
    questions = tuple(answers.add(question) for question in document.questions)
    entities = tuple(answers.entities)
    return replace(document, size=size, words=words, entities=entities, questions=questions)


@dataclass
class _AnswerPlaces:
    """Entities of one document, to which its answers are added in turn.

    Attributes:
        texts: texts of its words.
        entities: its entities.
        tally: number of answers of all documents, by what became of them.
        used: indices of words that hold answers already.
    """

    texts: Sequence[str]
    entities: list[Entity]
    tally: Counter[str]
    used: set[int] = field(default_factory=set)

    def add(self, question: Question) -> Question:
        """Locate the answer of a question, and name its new entity in the question."""
        location = _locate_answer(question, self.texts, self.used)
        if location is None:
            self.tally["not located"] += 1
            return question
        self.tally[quality_of(location.rule)] += 1
        if question.category is None:
            self.tally["unclassified"] += 1
            return question
        self.used.update(location.words)
        name = self._name_entity(question.id)
        self.entities.append(Entity(name, LABEL, question.category, location.words))
        return replace(question, entity=name)

    def _name_entity(self, name: str) -> str:
        """Return a name that no entity has, with a quotation mark more for each that has it."""
        names = {entity.id for entity in self.entities}
        while name in names:
            name += "'"
        return name


def _locate_answer(question: Question, texts: Sequence[str], used: set[int]) -> Location | None:
    """Locate the accepted answer of the best quality, the first of these.

    Args:
        question: question with its accepted answers.
        texts: texts of the words.
        used: indices of words that are not taken again.
    """
    category = question.category or "misc"
    places = [locate(answer, category, texts, used) for answer in question.answers]
    locations = [place for place in places if isinstance(place, Location)]
    return min(locations, key=lambda place: QUALITIES.index(quality_of(place.rule)), default=None)


def _replace(corpus: Corpus, documents: Sequence[Document]) -> None:
    """Put a new documents file in place of the old one, which is kept.

    The old one is put back where the new one is refused.
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
