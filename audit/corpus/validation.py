"""Problems of one document, beyond the types of its fields.

Messages name paths, ids and labels, never the text of a word.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from audit.corpus.documents import Document, Entity, Question, Task
from audit.corpus.folding import fold
from audit.corpus.images import ImageFile, read_header
from audit.corpus.outputs import output_problems
from audit.corpus.problems import inside, reason_refused
from audit.corpus.tagging import scheme_of, scheme_problems
from audit.errors import ManifestError

MAX_CHARACTERS = 5_000  # of a question or an answer: a densely written page has about as many
MAX_SIDE = 1_000_000  # pixels of a page: beyond any scan, and a number that can be calculated with
BOX_TOLERANCE = 2.0  # pixels a box may reach over the edge: what rounding in OCR output does
_PLAIN = {
    "missing": "missing",
    "unexpected_keyword_argument": "unknown key",
    "dataclass_type": "must be a table or object",
}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BETWEEN_LINES = re.compile("[\t\r\n]")
"""What markup may hold, and a word or an answer may not."""


def text_problem(text: str) -> str | None:
    """Why a text of the data set is refused, or None."""
    if not text.strip():
        return "empty"
    if _CONTROL.search(text):
        return "holds a control character or half a surrogate pair"
    return None


def _in_one_line(markup: str) -> str:
    return _BETWEEN_LINES.sub(" ", markup)


def is_bio(tag: str) -> bool:
    """Test whether a tag has the form O, B-LABEL or I-LABEL."""
    return tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)


def label_problems(task: Task) -> Iterator[str]:
    """List the problems of a task's labels."""
    for label, count in Counter(task.labels).items():
        if count > 1:
            yield f"task.labels: {label} occurs {count} times"
    if task.kind == "token-classification" and task.labels:
        yield from (f"task.labels: {problem}" for problem in scheme_problems(task.labels, task.outside))
    if task.kind == "spade-extraction" and task.labels:
        yield from (
            f"task.labels: {label} is a BIO tag; give the names of the classes, each once"
            for label in task.labels
            if label[:2] in ("B-", "I-")
        )
        if "O" not in task.labels:
            yield "task.labels: no label is O, the class of words that begin no entity"
    if task.kind == "spade-linking" and task.labels:
        yield "task.labels: entity linking has no labels; leave them out"


def form_problems(error: ValidationError) -> Iterator[str]:
    """List pydantic's problems with the form of a value, as `path: problem`, without any of its content."""
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        path = ""
        for part in problem["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
        message = _PLAIN.get(problem["type"], problem["msg"])
        yield f"{path}: {message}" if path else message


def problems_of(document: Document, task: Task | None) -> Iterator[str]:
    """List the problems of a document but for its image's, as `path: problem`; no task: the manifest is broken."""
    yield from _texts(document)
    yield from _words(document)
    yield from _boxes(document)
    yield from _paragraphs(document)
    yield from _repeated("entities", [entity.id for entity in document.entities])
    yield from _repeated("questions", [question.id for question in document.questions])
    for number, entity in enumerate(document.entities):
        yield from _entity(entity, f"entities[{number}]", len(document.words))
    yield from _references(document)
    for number, question in enumerate(document.questions):
        yield from _question(question, f"questions[{number}]", document)
    if task is not None:
        yield from _problems_for(document, task)


def _problems_for(document: Document, task: Task) -> Iterator[str]:
    """List what keeps the document from serving its data set's task."""
    if task.kind in ("token-classification", "spade-extraction", "spade-linking"):
        yield from words_in_two_entities(document)
    if task.kind == "spade-linking":
        yield from links_to_itself(document)
    if task.asks and document.questions and not document.words and document.image is None:
        yield "questions: asked on a page with neither words nor image"
    if task.kind == "parsing" and (document.output is None or text_problem(_in_one_line(document.output)) is None):
        yield from output_problems(document)
    if task.kind == "document-classification":
        yield from _classified(document)
    if task.kind == "intent-slots":
        yield from _tagged(document)


def image_problems(root: Path, document: Document) -> tuple[list[str], ImageFile | None]:
    """List the problems of the document's image, and give its header where it could be read; `root` is DATA_DIR."""
    if document.image is None:
        return [], None
    reason = reason_refused(root, document.image)
    if reason is not None:
        return [f"image: {reason}"], None
    try:
        header = read_header(inside(root, document.image))
    except ManifestError as error:
        return [f"image: {problem}" for problem in error.problems], None
    actual = (header.width, header.height)
    # Half of all readers apply an EXIF orientation. `size` shows which raster is meant, unless both have the same.
    settled = document.size == actual != header.turned_size
    if header.orientation != 1 and not settled:
        return [f"image: {orientation_problem(header)}"], header
    if document.size is None or actual == document.size:
        return [], header
    hint = " (is it of the page before it was turned?)" if actual[::-1] == document.size else ""
    width, height = document.size
    return [f"size: {width} x {height}, but the image has {actual[0]} x {actual[1]}{hint}"], header


def orientation_problem(header: ImageFile) -> str:
    """Why an image with an EXIF orientation other than 1 is refused, and what to do."""
    return (
        f"EXIF orientation {header.orientation} turns the page for some readers and not for others: "
        "save it upright, without that tag"
    )


def _texts(document: Document) -> Iterator[str]:
    named: list[tuple[str, str | None]] = [
        ("id", document.id),
        ("provider", document.provider),
        ("intent", document.intent),
        ("label", document.label),
        ("output", None if document.output is None else _in_one_line(document.output)),
    ]
    for number, entity in enumerate(document.entities):
        named += [(f"entities[{number}].id", entity.id), (f"entities[{number}].label", entity.label)]
    for number, question in enumerate(document.questions):
        named += [(f"questions[{number}].id", question.id), (f"questions[{number}].question", question.question)]
        named += [(f"questions[{number}].answers[{index}]", text) for index, text in enumerate(question.answers)]
        named += [
            (f"questions[{number}].paraphrases[{index}]", text) for index, text in enumerate(question.paraphrases)
        ]
    named += [(f"tags[{number}]", tag) for number, tag in enumerate(document.tags or ())]
    for path, text in named:
        problem = None if text is None else text_problem(text)
        if problem is not None:
            yield f"{path}: {problem}"


def _words(document: Document) -> Iterator[str]:
    for number, word in enumerate(document.words):
        problem = text_problem(word.text)
        if problem is not None:
            yield f"words[{number}].text: {problem}"
    if document.tags is not None and len(document.tags) != len(document.words):
        yield f"tags: {len(document.tags)} tags for {len(document.words)} words"


def _boxes(document: Document) -> Iterator[str]:
    size = document.size
    if size is not None and min(size) < 1:
        yield "size: width and height must be at least 1"
    if size is not None and max(size) > MAX_SIDE:
        yield f"size: width and height may be {MAX_SIDE} at most"
        return
    without = sum(word.box is None for word in document.words)
    if without == len(document.words):
        return
    if without:
        yield f"words: {without} of {len(document.words)} words have no box; give all of them one, or none"
    if size is None:
        yield "size: missing, but the words have boxes"
    right, bottom = (math.inf, math.inf) if size is None else (size[0] + BOX_TOLERANCE, size[1] + BOX_TOLERANCE)
    for number, word in enumerate(document.words):
        if word.box is None:
            continue
        x0, y0, x1, y1 = word.box
        if not (x0 <= x1 and y0 <= y1):  # written so that NaN fails
            yield f"words[{number}].box: corners out of order; give x0, y0, x1, y1"
        elif x0 < -BOX_TOLERANCE or y0 < -BOX_TOLERANCE or not (x1 <= right and y1 <= bottom) or math.isinf(x1 + y1):
            yield f"words[{number}].box: outside the page"


def _paragraphs(document: Document) -> Iterator[str]:
    """Paragraphs cover all words, each once, so that what is read by paragraph loses none."""
    if not document.paragraphs:
        return
    if document.paragraphs[0] != 0:
        yield "paragraphs: the first must begin at word 0"
    if any(later <= earlier for earlier, later in pairwise(document.paragraphs)):
        yield "paragraphs: the indices must increase"
    if document.paragraphs[-1] >= len(document.words):
        yield f"paragraphs: index {document.paragraphs[-1]} of {len(document.words)} words"


def _repeated(path: str, ids: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(ids).items():
        if count > 1:
            yield f"{path}: id {name} occurs {count} times"


def _entity(entity: Entity, path: str, n_words: int) -> Iterator[str]:
    if not entity.words:
        yield f"{path}.words: empty"
    for index in entity.words:
        if not 0 <= index < n_words:
            yield f"{path}.words: index {index} of {n_words} words"
    repeated = sorted(index for index, count in Counter(entity.words).items() if count > 1)
    if repeated:
        yield f"{path}.words: index {repeated[0]} is repeated"


def _references(document: Document) -> Iterator[str]:
    known = {entity.id for entity in document.entities}
    for number, link in enumerate(document.links):
        for name in link:
            if name not in known:
                yield f"links[{number}]: no entity {name}"
    for number, question in enumerate(document.questions):
        if question.entity is not None and question.entity not in known:
            yield f"questions[{number}].entity: no entity {question.entity}"


def _question(question: Question, path: str, document: Document) -> Iterator[str]:
    """What is wrong with a question beyond empty texts and unknown entities; its page need not hold an answer."""
    if not question.answers:
        yield f"{path}.answers: none; give at least one, or leave the question out"
    named = [
        (f"{path}.question", question.question),
        *((f"{path}.answers[{number}]", text) for number, text in enumerate(question.answers)),
        *((f"{path}.paraphrases[{number}]", text) for number, text in enumerate(question.paraphrases)),
    ]
    for where, text in named:
        if len(text) > MAX_CHARACTERS:
            yield f"{where}: {len(text)} characters, and {MAX_CHARACTERS} are the most"
    # Same words, same question: a context of other words would then measure nothing else.
    seen = {fold(question.question): "the question"}
    for number, text in enumerate(question.paraphrases):
        earlier = seen.setdefault(fold(text), f"paraphrases[{number}]")
        if text.strip() and earlier != f"paraphrases[{number}]":
            yield f"{path}.paraphrases[{number}]: the same words as {earlier}"
    owner = next((entity for entity in document.entities if entity.id == question.entity), None)
    if owner is not None and question.category not in (None, owner.category):
        yield f"{path}.category: {question.category}, but entity {owner.id} is {owner.category}"


def words_in_two_entities(document: Document) -> Iterator[str]:
    """Entities that share a word: neither a tag nor a predecessor can say so."""
    owner: dict[int, str] = {}
    for number, entity in enumerate(document.entities):
        shared = sorted(index for index in entity.words if owner.setdefault(index, entity.id) != entity.id)
        if shared:
            yield (
                f"entities[{number}].words: word {shared[0]} belongs to entity {owner[shared[0]]} too, "
                "but a word belongs to one"
            )


def links_to_itself(document: Document) -> Iterator[str]:
    """Entities that are linked to themselves: no SPADE head can say so."""
    for number, (parent, child) in enumerate(document.links):
        if parent == child:
            yield f"links[{number}]: entity {child} cannot be its own parent"


def _classified(document: Document) -> Iterator[str]:
    """A page needs its class."""
    if document.label is None:
        yield "label: missing, and task.kind is document-classification"


def _tagged(document: Document) -> Iterator[str]:
    """An utterance needs an intent and BIO tags."""
    if document.intent is None:
        yield "intent: missing, and task.kind is intent-slots"
    if document.tags is None:
        yield "tags: missing, and task.kind is intent-slots"
        return
    for number, tag in enumerate(document.tags):
        if not is_bio(tag):
            yield f"tags[{number}]: none of O, B-..., I-..."


def unknown_names(document: Document, task: Task | None) -> list[str]:
    """List the labels and tags of a document that the manifest does not name, as `path: problem`.

    Such a document is left out of an audit of a model that lacks them too; it is no problem where others are left.
    """
    if task is None:
        return []
    if task.kind in ("token-classification", "spade-extraction"):
        return [*_needed_labels(document, task)]
    if task.kind == "document-classification" and document.label is not None and document.label not in task.labels:
        return [f"label: {document.label} is not among task.labels of the manifest"] if task.labels else []
    if task.kind != "intent-slots" or not task.labels:
        return []
    return [
        f"tags[{number}]: {tag} is not among task.labels of the manifest"
        for number, tag in enumerate(document.tags or ())
        if is_bio(tag) and tag not in task.labels
    ]


def _needed_labels(document: Document, task: Task) -> Iterator[str]:
    """Each entity's label needs its tags or its class (SPADE extraction), where the manifest names them."""
    labels = frozenset(task.labels)
    if not labels or (task.kind == "token-classification" and [*scheme_problems(task.labels, task.outside)]):
        return
    for number, entity in enumerate(document.entities):
        needed: tuple[str, ...] = (entity.label,)
        if task.kind == "token-classification":
            needed = scheme_of(task.labels, task.outside).tags_of(entity.label, len(entity.words))
        missing = [label for label in dict.fromkeys(needed) if label not in labels]
        if missing:
            yield (f"entities[{number}].label: {' and '.join(missing)} not among task.labels of the manifest")


class UnknownMembers:
    """By place, labels of members that the manifest does not name, where every annotated member has some."""

    def __init__(self, task: Task | None) -> None:
        self.found: dict[str, list[str]] = {}
        self._task = task
        self._known = False

    def look_at(self, prefix: str, document: Document) -> None:
        """Look at one more document."""
        if self._known or document.split != "member" or not (document.entities or document.tags):
            return
        names = unknown_names(document, self._task)
        self._known = not names
        if self._known:
            self.found.clear()
        else:
            self.found[prefix] = names
