"""Problems of one document, beyond the types of its fields; the audit sheet of a manifest.

Messages name paths, ids and labels, never the text of a word.
"""

import codecs
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from audit.cards import AuditSheet
from audit.corpus.documents import Box, Document, Task
from audit.corpus.images import ImageFile, read_header
from audit.corpus.outputs import output_problems
from audit.corpus.problems import TEXTS, Problems, reason_refused, repeated
from audit.corpus.tagging import scheme_of, scheme_problems
from audit.errors import ManifestError, has_unseen_characters

MAX_CHARACTERS = 5_000  # of a question or an answer: a densely written page has about as many
MAX_SIDE = 1_000_000  # pixels of a page: beyond any scan, and a number that can be calculated with
GRID = 1000  # the largest coordinate of boxes in thousandths of the page
BOX_TOLERANCE = 2.0  # pixels a box may reach over the edge: what rounding in OCR output does
_PLAIN = {
    "missing": "missing",
    "unexpected_keyword_argument": "unknown key",
    "dataclass_type": "must be a table or object",
}
_INDEX = re.compile(r"\[\d+\]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BETWEEN_LINES = re.compile("[\t\r\n]")
"""Characters that markup may hold, and a word or an answer may not."""
_TEXTS = {
    "words": ("text",),
    "entities": ("id", "label", "person"),
    "questions": ("id", "question", "answers", "paraphrases"),
}
"""The texts of a document's parts."""
_NEEDED = {"document-classification": ("label",), "intent-slots": ("intent", "tags")}
"""The fields that a document has, by the kind of its task."""


def text_problem(text: str, longest: int | None = None) -> str | None:
    """Explain why a text of the data set is refused; None when it is not.

    Args:
        text: text as it stands there.
        longest: the most characters that it may have.
    """
    if not text.strip():
        return "empty"
    if _CONTROL.search(text):
        return "holds a control character or half a surrogate pair"
    if longest is not None and len(text) > longest:
        return f"longer than {longest:,} characters"
    return None


def markup_problem(markup: str) -> str | None:
    """Explain why a text of several lines is refused; None when it is not."""
    return text_problem(_BETWEEN_LINES.sub(" ", markup))


def is_bio(tag: str) -> bool:
    """Test whether a tag has the form O, B-LABEL or I-LABEL."""
    return tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)


def label_problems(task: Task) -> Iterator[str]:
    """List the problems of a task's labels."""
    labels = task.labels
    for label, count in repeated(labels):
        yield f"task.labels: {label} occurs {count} times"
    if not labels:
        return
    if task.kind == "token-classification":
        for problem in scheme_problems(labels, task.outside):
            yield f"task.labels: {problem}"
    if task.kind == "spade-extraction":
        yield from _class_problems(labels)
    if task.kind == "spade-linking":
        yield "task.labels: entity linking has no labels; leave them out"


def _class_problems(labels: Sequence[str]) -> Iterator[str]:
    """List the problems of labels that should be classes of words, "O" among them."""
    for label in labels:
        if label[:2] in ("B-", "I-"):
            yield f"task.labels: {label} is a BIO tag; give the names of the classes, each once"
    if "O" not in labels:
        yield "task.labels: no label is O, the class of words that begin no entity"


def form_problems(error: ValidationError, key: Callable[[str], str] = str) -> Iterator[str]:
    """List pydantic's problems with the form of a value, as `path: problem`.

    They hold nothing of its content.

    Args:
        error: error of pydantic.
        key: writes a key of the value in a path.
    """
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        path = ""
        for step in problem["loc"]:
            if isinstance(step, int):
                path += f"[{step}]"
            else:
                path += f".{key(step)}" if path else key(step)
        kind = problem["type"]
        message = TEXTS.get(f"{_INDEX.sub('', path)} {kind}", _PLAIN.get(kind, problem["msg"]))
        yield f"{path}: {message}" if path else message


def encoding_problem(line: bytes, file: str) -> list[str]:
    """Explain where a line of a documents file is not UTF-8, and how to convert the file.

    Empty where it is.
    """
    try:
        line.decode()
    except UnicodeDecodeError as error:
        encoding = "WINDOWS-1252"
        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding = "UTF-16"
        return [
            TEXTS["not_utf8"].format(
                line[error.start], column=error.start + 1, encoding=encoding, file=file
            )
        ]
    return []


def problems_of(document: Document, task: Task | None) -> Iterator[str]:
    """List the problems of a document but for its image's, as `path: problem`.

    No task: the manifest is broken.
    """
    yield from _text_problems(document)
    yield from _box_problems(document)
    n_words = len(document.words)
    if document.paragraphs and not _are_starts(document.paragraphs, n_words):
        yield f"paragraphs: give increasing indices of the {n_words} words, the first 0"
    if document.tags is not None and len(document.tags) != n_words:
        yield f"tags: {len(document.tags)} tags for {n_words} words"
    yield from _repeated_ids("entities", [entity.id for entity in document.entities])
    yield from _repeated_ids("questions", [question.id for question in document.questions])
    for number, entity in enumerate(document.entities):
        yield from _index_problems(entity.words, f"entities[{number}].words", n_words)
    yield from _reference_problems(document)
    if task is not None:
        yield from _task_problems(document, task)


def _are_starts(starts: Sequence[int], n_words: int) -> bool:
    """Test whether indices are increasing ones of so many words, the first of them 0."""
    if starts[0] != 0 or starts[-1] >= n_words:
        return False
    return all(start < following for start, following in pairwise(starts))


def _repeated_ids(name: str, ids: Sequence[str]) -> Iterator[str]:
    """List the ids of a document's parts of this name that occur several times."""
    for identifier, count in repeated(ids):
        yield f"{name}: id {identifier} occurs {count} times"


def image_problems(root: Path, document: Document) -> tuple[list[str], ImageFile | None]:
    """List the problems of the document's image, and give its header where it could be read.

    `root` is DATA_DIR.
    """
    if document.image is None:
        return [], None
    reason = reason_refused(root, document.image)
    if reason is not None:
        return [f"image: {reason}"], None
    try:
        header = read_header(root / document.image)
    except ManifestError as error:
        problems: list[str] = []
        for problem in error.problems:
            what, mark, remedy = problem.partition("; ")
            problems.append(f"image: {what} ({root / document.image}){mark}{remedy}")
        return problems, None
    return _size_problems(header, document.size), header


def _size_problems(header: ImageFile, size: tuple[int, int] | None) -> list[str]:
    """List the problems of an image's orientation, and of its size against that of the document."""
    actual = (header.width, header.height)
    # Half of all readers apply an EXIF orientation. `size` shows which raster is meant, unless both
    # have the same.
    if header.orientation != 1 and not size == actual != header.turned_size:
        return [f"image: {orientation_problem(header)}"]
    if size is None or actual == size:
        return []
    text = TEXTS["turned_size" if actual[::-1] == size else "other_size"]
    return [text.format(*size, *actual)]


def orientation_problem(header: ImageFile) -> str:
    """Explain why an image with an EXIF orientation other than 1 is refused, and what to do."""
    return TEXTS["orientation"].format(orientation=header.orientation)


def _text_problems(document: Document) -> Iterator[str]:
    """List the problems of a document's texts."""
    texts = {
        name: getattr(document, name) for name in ("id", "provider", "person", "intent", "label")
    }
    if document.output is not None:
        texts["output"] = _BETWEEN_LINES.sub(" ", document.output)
    for number, tag in enumerate(document.tags or ()):
        texts[f"tags[{number}]"] = tag
    for path, text in texts.items():
        if text is not None and (problem := text_problem(text)):
            yield f"{path}: {problem}"
    yield from _problems_of_parts(document)


def _problems_of_parts(document: Document) -> Iterator[str]:
    """List the problems of the texts of words, entities and questions."""
    for name, keys in _TEXTS.items():
        longest = MAX_CHARACTERS if name == "questions" else None
        for path, text in _texts_in(name, getattr(document, name), keys):
            if problem := text_problem(text, longest):
                yield f"{path}: {problem}"


def _texts_in(name: str, parts: Sequence[object], keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a document's parts, each with its path; a key may have several.

    Args:
        name: name of the parts in the document.
        parts: words, entities or questions.
        keys: keys of a part that hold texts.
    """
    for number, entry in enumerate(parts):
        for key in keys:
            path = f"{name}[{number}].{key}"
            value = getattr(entry, key)
            if value is None:
                continue
            if not isinstance(value, tuple):
                yield path, value
                continue
            for index, text in enumerate(value):
                yield f"{path}[{index}]", text


def _box_problems(document: Document) -> Iterator[str]:
    """List the problems of a page's size and of the boxes of its words."""
    size = document.size
    if size is not None and not (min(size) >= 1 and max(size) <= MAX_SIDE):
        yield f"size: width and height must be 1 to {MAX_SIDE}"
        return
    boxes = {number: word.box for number, word in enumerate(document.words) if word.box is not None}
    if not boxes:
        return
    n_words = len(document.words)
    if len(boxes) < n_words:
        without = n_words - len(boxes)
        yield f"words: {without} of {n_words} words have no box; give all of them one, or none"
    if size is None:
        yield "size: missing, but the words have boxes; give width and height in pixels"
        return
    yield from _corner_problems(boxes, size)


def _corner_problems(boxes: Mapping[int, Box], size: tuple[int, int]) -> Iterator[str]:
    """List the problems of boxes, by the number of their word, on a page of this size."""
    corners = list(chain.from_iterable(boxes.values()))
    if _are_shares(corners):
        yield TEXTS["shares"].format(width=size[0], height=size[1])
    are_thousandths = all(0 <= corner <= GRID for corner in corners)
    outside = TEXTS["thousandths" if are_thousandths else "off_page"]
    for number, box in boxes.items():
        x0, y0, x1, y1 = box
        if not (x0 <= x1 and y0 <= y1):  # written so that NaN fails
            yield f"words[{number}].box: corners out of order; give x0, y0, x1, y1"
        elif _is_off_page(box, size):
            yield f"words[{number}].box: {outside.format(width=size[0], height=size[1])}"


def _are_shares(corners: Sequence[float]) -> bool:
    """Test whether coordinates of boxes look like shares of the page in place of pixels."""
    return all(0 <= corner <= 1 for corner in corners) and any(corner % 1 for corner in corners)


def _is_off_page(box: Box, size: tuple[int, int]) -> bool:
    """Test whether a box reaches over the edge of a page of this size, by more than rounding."""
    x0, y0, x1, y1 = box
    if min(x0, y0) < -BOX_TOLERANCE:
        return True
    return x1 > size[0] + BOX_TOLERANCE or y1 > size[1] + BOX_TOLERANCE


def _index_problems(indices: Sequence[int], path: str, n_words: int) -> Iterator[str]:
    """List the problems of indices of so many words."""
    if not indices:
        yield f"{path}: empty"
    for index, count in Counter(indices).items():
        if not 0 <= index < n_words:
            yield f"{path}: index {index} of {n_words} words"
        elif count > 1:
            yield f"{path}: index {index} is repeated"


def _reference_problems(document: Document) -> Iterator[str]:
    """List the entities that links and questions name and the document lacks.

    Also the questions without an answer.
    """
    ids = {entity.id for entity in document.entities}
    for number, link in enumerate(document.links):
        for name in link:
            if name not in ids:
                yield f"links[{number}]: no entity {name}"
    for number, question in enumerate(document.questions):
        if not question.answers:
            yield f"questions[{number}].answers: none; give at least one, or leave the question out"
        if question.entity is not None and question.entity not in ids:
            yield f"questions[{number}].entity: no entity {question.entity}"


def _task_problems(document: Document, task: Task) -> Iterator[str]:
    """List what keeps the document from serving its data set's task."""
    if task.kind in ("token-classification", "spade-extraction", "spade-linking"):
        yield from words_in_two_entities(document)
    if task.kind == "spade-linking":
        yield from links_to_itself(document)
    is_asked = task.asks and document.questions
    if is_asked and not document.words and document.image is None:
        yield "questions: asked on a page with neither words nor image"
    if task.kind == "parsing":
        yield from _output_problems(document)
    yield from _missing_fields(document, task)
    if task.kind == "intent-slots":
        yield from _tag_problems(document.tags or ())


def _tag_problems(tags: Sequence[str]) -> Iterator[str]:
    """List the tags of words that are none of BIO."""
    for number, tag in enumerate(tags):
        if not is_bio(tag):
            yield f"tags[{number}]: none of O, B-..., I-..."


def _missing_fields(document: Document, task: Task) -> Iterator[str]:
    """List the fields that every document of a task needs, and that this one lacks."""
    for name in _NEEDED.get(task.kind, ()):
        if getattr(document, name) is None:
            yield f"{name}: missing, and task.kind is {task.kind}"


def _output_problems(document: Document) -> Iterator[str]:
    """List the problems of what a document's parsing model writes, where its text has none."""
    if document.output is None or markup_problem(document.output) is None:
        yield from output_problems(document)


def words_in_two_entities(document: Document) -> Iterator[str]:
    """List entities that share a word: neither a tag nor a predecessor can say so."""
    owner: dict[int, str] = {}
    for number, entity in enumerate(document.entities):
        shared = sorted(
            index for index in entity.words if owner.setdefault(index, entity.id) != entity.id
        )
        if shared:
            yield TEXTS["shared_word"].format(number=number, word=shared[0], other=owner[shared[0]])


def links_to_itself(document: Document) -> Iterator[str]:
    """List entities that are linked to themselves: no SPADE head can say so."""
    for number, (parent, child) in enumerate(document.links):
        if parent == child:
            yield f"links[{number}]: entity {child} cannot be its own parent"


def unknown_names(document: Document, task: Task) -> list[str]:
    """List the labels and tags of a document that the manifest does not name, as `path: problem`.

    Such a document is left out of an audit of a model that lacks them too; it is no problem where
    others are left.
    """
    labels = frozenset(task.labels)
    if not labels:
        return []
    problems: list[str] = []
    for path, names in _needed_names(document, task).items():
        missing = [name for name in dict.fromkeys(names) if name not in labels]
        if missing:
            listing = " and ".join(missing)
            problems.append(f"{path}: {listing} not among task.labels of the manifest")
    return problems


def _needed_names(document: Document, task: Task) -> dict[str, tuple[str, ...]]:
    """Return the labels and tags that a document needs of its task, by path."""
    needed: dict[str, tuple[str, ...]] = {}
    if task.kind == "document-classification" and document.label is not None:
        needed["label"] = (document.label,)
    elif task.kind == "intent-slots":
        for number, tag in enumerate(document.tags or ()):
            if is_bio(tag):
                needed[f"tags[{number}]"] = (tag,)
    elif task.kind == "spade-extraction":
        for number, entity in enumerate(document.entities):
            needed[f"entities[{number}].label"] = (entity.label,)
    elif task.kind == "token-classification":
        needed = _needed_tags(document, task)
    return needed


def _needed_tags(document: Document, task: Task) -> dict[str, tuple[str, ...]]:
    """Return the tags that a document's entities need, by path.

    None, where the task's labels are in no scheme.
    """
    if any(scheme_problems(task.labels, task.outside)):
        return {}
    scheme = scheme_of(task.labels, task.outside)
    needed: dict[str, tuple[str, ...]] = {}
    for number, entity in enumerate(document.entities):
        tags = scheme.tags_of(entity.label, len(entity.words))
        needed[f"entities[{number}].label"] = tags
    return needed


def unknown_to_all(documents: Iterable[Document], task: Task) -> dict[str, list[str]]:
    """Map each annotated member to its names missing from the task; empty if any has none."""
    problems: dict[str, list[str]] = {}
    for document in documents:
        if document.split == "member" and (document.entities or document.tags):
            names = unknown_names(document, task)
            if not names:
                return {}
            problems[document.id] = names
    return problems


SHEET_KEY = "audit"
LONGEST_ENTRY = 160
"""Characters of an entry: what page one of a report holds."""
MOST_CATEGORIES = 30
"""Categories of data that are listed."""
EMPTY_SHEET = "\n" + Path(__file__).with_name("audit_sheet.toml").read_text(encoding="utf-8")
"""The table as comments, for the end of a new manifest."""
_sheet_type = TypeAdapter(AuditSheet)
_SHEET = re.compile(
    r"\s*^[ \t]*#?[ \t]*\[[ \t]*audit[ \t]*\].*?(?=(?:^[ \t]*(?:#.*)?\n)*^[ \t]*\[|\Z)", re.M | re.S
)
"""The table with the blank lines above it, up to the next table."""


def sheet_of(table: object, problems: Problems, place: str = "") -> AuditSheet:
    """Read the sheet from a table; an empty one where there are problems, which are collected.

    Args:
        table: the content of [audit], or of a file.
        problems: list that problems are added to.
        place: before the name of each key.
    """
    try:
        sheet = _sheet_type.validate_python(table)
    except ValidationError as error:
        problems.add(place, form_problems(error))
        return AuditSheet()
    problems.add(place, _sheet_problems(sheet))
    return sheet


def without_sheet(content: bytes, table: Mapping[str, Any]) -> bytes:
    """Return a manifest's bytes without its table [audit], or the same in comments.

    The sheet is no part of the data. What remains is compared with the parsed manifest, so that
    nothing else can be hidden this way.

    Args:
        content: valid TOML in UTF-8.
        table: what it says.
    """
    remaining = _SHEET.sub("\n", content.decode("utf-8"), count=1)
    expected = {key: value for key, value in table.items() if key != SHEET_KEY}
    try:
        same = tomllib.loads(remaining) == expected
    except tomllib.TOMLDecodeError:
        same = False
    return remaining.encode() if same else content


def _sheet_problems(sheet: AuditSheet) -> Iterator[str]:
    """List the problems of a sheet's entries, as `key: problem`."""
    if len(sheet.data_categories) > MOST_CATEGORIES:
        yield f"data_categories: more than {MOST_CATEGORIES}"
    for key, value in vars(sheet).items():
        if value is None:
            continue
        for text in value if isinstance(value, tuple) else (value,):
            problem = entry_problem(text)
            if problem:
                yield f"{key}: {problem}"


def entry_problem(text: str) -> str:
    """Say why page one cannot show an entry of the sheet; empty where it can."""
    problem = text_problem(text, LONGEST_ENTRY)
    if problem:
        return problem
    if has_unseen_characters(text):
        return "holds a character that cannot be seen, or that turns the direction of text"
    return ""
