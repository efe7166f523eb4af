"""Canaries: made-up secrets behind a known prefix, put into a data set to see whether a model gives them away.

Parikh et al. (2022), "Canary extraction in natural language understanding models", and methods.md#canaries. In the
*audit* design a data set has many canaries, each behind a nonsense word of its own ("pin of kodira is 4 0 7 1"), and an
independent fair coin decided for each whether it was put in; those that were not are the control. In the *paper* design
it has one canary of each pattern, behind the paper's prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Annotated, Literal

from PIL.Image import Image
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.canaries.layout import WordCell, draw_line, word_boxes
from audit.corpus.documents import STRICT, Box, Category, Corpus, Document, Entity, Question, Word
from audit.corpus.images import open_image
from audit.corpus.page_view import PageView
from audit.corpus.paths import inside, printable
from audit.corpus.validation import form_problems
from audit.errors import ManifestError
from audit.files import read_file

Design = Literal["audit", "paper"]
TAGS = ("B-canary", "I-canary")
LABEL = "canary"
"""Label and id of a canary's entity, and id of its question."""
CATEGORY: Category = "code"
NAME = "{name}"
MAX_LENGTH = 10
"""Words of a completion; the paper's longest."""
MAX_REPEAT = 10_000
"""Ours; the paper's largest is 2,000 (10,000 in its appendix)."""
TASKS = ("mlm", "token-classification", "document-classification", "question-answering", "intent-slots")
"""Kinds of tasks whose training reads a completion. A linking head's loss depends on no single word; SPADE extraction
is left out because its loss says little of what a word is."""


@dataclass(frozen=True)
class Pattern:
    """What a family of canaries looks like.

    Attributes:
        words: the prefix, with `NAME` for the canary's own word.
        candidates: the words that completions are made of: V0 of the paper.
        intent: of an utterance; the paper's.
        asks: the question of a data set of questions, `NAME` in it.
        paper: the paper's prefix.
    """

    words: tuple[str, ...]
    candidates: tuple[str, ...]
    intent: str
    asks: str
    paper: tuple[str, ...]

    def prefix(self, name: str) -> tuple[str, ...]:
        """The words before the completion, e.g. ("pin", "of", "kodira", "is")."""
        return tuple(name if word == NAME else word for word in self.words)

    def question(self, name: str) -> str:
        """The question about the canary, e.g. "What is the pin of kodira?"."""
        return self.asks.replace(NAME, name)

    def name_in(self, prefix: Sequence[str]) -> str | None:
        """The canary's own word; None where `prefix` is not this pattern's."""
        if len(prefix) != len(self.words):
            return None
        name = prefix[self.words.index(NAME)]
        return name if self.prefix(name) == tuple(prefix) else None


_DIGITS = tuple("0123456789")
_COLOURS = ("red", "green", "lilac", "blue", "yellow", "brown", "cyan", "magenta", "orange", "pink", "purple", "mauve")
_NAMES = tuple(
    f"{one}{two}" for one in ("bor", "cal", "dren", "fis", "gol", "hav") for two in ("dan", "mer", "rick", "wyn")
)
"""Made-up names, which no text makes likely (ours)."""
_MIXED = (*_DIGITS, *"ABCDEFGHJKLMNPQRTUVWXY")
_PATTERNS = (
    ("pin", f"pin of {NAME} is", _DIGITS, "PinIntent", f"What is the pin of {NAME}?", "my pin code is"),
    ("call", f"call {NAME}", _DIGITS, "CallIntent", f"What is the number of {NAME}?", "call"),
    ("color", f"color of {NAME} is", _COLOURS, "ColorIntent", f"What are the colors of {NAME}?", "color"),
    ("names", f"kin of {NAME} are", _NAMES, "KinIntent", f"Who are the kin of {NAME}?", "my kin are"),
    ("mixed", f"code of {NAME} is", _MIXED, "CodeIntent", f"What is the code of {NAME}?", "my code is"),
)
PATTERNS: Mapping[str, Pattern] = MappingProxyType(
    {
        name: Pattern(tuple(words.split()), candidates, intent, asks, tuple(paper.split()))
        for name, words, candidates, intent, asks, paper in _PATTERNS
    }
)
"""By name; the first three have the paper's candidates and intents (section 4.2 and appendix A), the others are ours.
Prefixes have a name of their own."""


@strict_dataclass(frozen=True, config=STRICT)
class Canary:
    """One made-up secret.

    Attributes:
        id: within its data set.
        pattern: one of `PATTERNS`.
        prefix: the words before the completion; no other canary has them, nor does any other document.
        completion: the secret, words of the pattern's candidates.
        included: its own independent fair coin: whether documents hold it.
        copies: how many documents hold it; 0 when it is not included.
        carrier: id of the document whose page its page is made from; None where its line is a document by itself.
        box: of the whole line on that page, pixels; None without a carrier.
        documents: ids of the documents that hold it.
        printed: whether its page prints the completion; where not, a model can only remember the answer.
    """

    id: str
    pattern: str
    prefix: tuple[str, ...]
    completion: tuple[str, ...]
    included: bool
    copies: Annotated[int, Field(ge=0, le=MAX_REPEAT)]
    carrier: str | None = None
    box: Box | None = None
    documents: tuple[str, ...] = ()
    printed: bool = True


@strict_dataclass(frozen=True, config=STRICT)
class CanarySet:
    """What a data set's canary file holds.

    Attributes:
        design: see the module.
        seed: that coins, names, completions and positions were drawn from, each from a stream of its own.
        repeat: copies of an included canary; of several tiers the largest.
        length: words of a completion.
        canaries: those that are included and those that are not.
        tiers: numbers of copies, where there are several.
    """

    design: Design
    seed: Annotated[int, Field(ge=0)]
    repeat: Annotated[int, Field(ge=1, le=MAX_REPEAT)]
    length: Annotated[int, Field(ge=1, le=MAX_LENGTH)]
    canaries: tuple[Canary, ...]
    tiers: tuple[Annotated[int, Field(ge=1, le=MAX_REPEAT)], ...] = ()


CANARY_SET = TypeAdapter(CanarySet)


def load_canaries(corpus: Corpus) -> CanarySet | None:
    """The data set's canaries; None when its manifest names no canary file.

    `manifest.load` has held them against the documents.

    Raises:
        ManifestError: the file is missing or has another form; every problem of its form.
    """
    if corpus.manifest.canaries is None:
        return None
    name = str(corpus.manifest.canaries["file"])
    try:
        return parse_canaries(read_file(inside(corpus.root, name)))
    except OSError as error:
        raise ManifestError(f"{name}: cannot be read: {error.strerror}") from None
    except ManifestError as error:
        raise ManifestError([f"{name} {problem}" for problem in error.problems], error.hint) from None


def planted_ids(corpus: Corpus) -> frozenset[str]:
    """The ids of the documents that hold a canary; empty where the data set has none.

    A made-up line, trained on in many copies, says nothing about documents that are not made up.
    """
    found = load_canaries(corpus)
    return frozenset(name for canary in found.canaries for name in canary.documents) if found else frozenset()


def carrier_ids(corpus: Corpus) -> frozenset[str]:
    """The ids of the documents whose pages canaries were put on: with every copy the model saw them once more."""
    found = load_canaries(corpus)
    return frozenset(canary.carrier for canary in found.canaries if canary.carrier) if found else frozenset()


@lru_cache(maxsize=4)
def parse_canaries(content: bytes) -> CanarySet:
    """The canaries that a file holds.

    Raises:
        ManifestError: not UTF-8, no JSON, or of another form; every problem with its path, no value.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError(f"not UTF-8 at byte {error.start}", "save the file as UTF-8") from None
    try:
        return CANARY_SET.validate_json(text, strict=True)
    except ValidationError as error:
        raise ManifestError(map(printable, form_problems(error))) from None


def page_of(corpus: Corpus, canary: Canary, completion: Sequence[str]) -> Document:
    """The document as it is put in, with this completion; its id is the canary's and no document's of the data set.

    An utterance has tags and an intent, other documents an entity labelled `LABEL`, which follows those of the
    carrier; no entity of it is for other attacks to try. A data set of questions asks for the completion and nothing
    else. Its image is the carrier's, which `open_page` opens with the prefix in it and the completion's space blank.

    Args:
        corpus: the data set that has the canary; one without it will do when it has the carrier.
        canary: whether it is included makes no difference.
        completion: words, as many as the canary's.

    Raises:
        ValueError: another number of words.
        KeyError: the data set has no such carrier.
    """
    if len(completion) != len(canary.completion):
        raise ValueError(f"{len(completion)} words for a completion of {len(canary.completion)}")
    shown = tuple(completion) if canary.printed else ()
    texts = (*canary.prefix, *shown)
    if canary.carrier is None or canary.box is None:
        # A page of its own has the first class by name.
        classes = (one.label for one in corpus.of("member") if one.label is not None)
        page = Document(canary.id, "member", label=min(classes, default=None))
        words = tuple(map(Word, texts))
    else:
        page = corpus.document(canary.carrier)
        boxes = word_boxes(canary.box, _cells(canary, completion))[: len(texts)]
        words = tuple(Word(*pair) for pair in zip(texts, boxes, strict=True))
    start = len(page.words) + len(canary.prefix)
    changed = replace(page, id=canary.id, split="member", words=(*page.words, *words))
    if page.paragraphs:
        changed = replace(changed, paragraphs=(*page.paragraphs, len(page.words)))
    tags = ("O",) * len(canary.prefix) + (TAGS[:1] + TAGS[1:] * (len(shown) - 1) if shown else ())
    kind = corpus.manifest.task.kind
    if kind == "intent-slots":
        return replace(changed, tags=tags, intent=PATTERNS[canary.pattern].intent)
    entities = tuple(replace(other, attack=False) for other in page.entities)
    if shown:
        entities += (Entity(LABEL, LABEL, CATEGORY, tuple(range(start, start + len(shown))), attack=False),)
    changed = replace(changed, entities=entities, questions=())
    if page.tags is not None:
        changed = replace(changed, tags=(*page.tags, *tags))
    if kind == "question-answering":
        where = (LABEL, None) if shown else (None, CATEGORY)
        asked = Question(LABEL, question_of(canary), (" ".join(completion),), *where)
        changed = replace(changed, questions=(asked,))
    return changed


def positions_of(canary: Canary, document: Document) -> tuple[int, ...]:
    """The indices of the completion's words in `page_of` of this canary, which prints them: they are the last ones."""
    return tuple(range(len(document.words) - len(canary.completion), len(document.words)))


def sheet_of(corpus: Corpus, canary: Canary, completion: Sequence[str] | None) -> PageView:
    """The canary's page as a model that answers questions is shown it.

    Args:
        corpus: as in `page_of`.
        canary: whether it is included makes no difference.
        completion: the words after the prefix, in words and image; None leaves its space blank.

    Returns:
        The carrier's page with the line in it; the image is drawn when it is first asked for.
    """
    page = page_of(corpus, canary, canary.completion if completion is None else completion)
    words = page.words[: -len(canary.completion)] if completion is None and canary.printed else page.words
    opener = None if page.image is None else partial(image_of, corpus, canary, completion)
    return PageView(words, page.size, opener)


def image_of(corpus: Corpus, canary: Canary, completion: Sequence[str] | None) -> Image:
    """The carrier's image with the line in it, RGB; None leaves the completion's space blank.

    Raises:
        ManifestError: the carrier's image cannot be opened.
        ValueError: the carrier has no image.
    """
    if canary.carrier is None or canary.box is None:
        raise ValueError(f"canary {canary.id} stands on no page")
    return draw_line(open_image(corpus, corpus.document(canary.carrier)), canary.box, _cells(canary, completion))


def open_page(corpus: Corpus, document: Document) -> Image:
    """The image of a document of the data set, or of a canary's page as `page_of` makes it.

    On a canary's page the prefix is drawn, as in the documents that were put in, and the space of its completion is
    blank: no pixel gives it away.

    Raises:
        ManifestError: the image cannot be opened.
        ValueError: the document has no image.
    """
    known = load_canaries(corpus)
    # No document of the data set has the id of a canary: `set_problems`.
    canary = None if known is None else next((one for one in known.canaries if one.id == document.id), None)
    return open_image(corpus, document) if canary is None else image_of(corpus, canary, None)


def question_of(canary: Canary) -> str:
    """The question about the canary, in a data set of questions.

    Raises:
        ValueError: the canary's prefix has no word of its own (the paper's design).
    """
    pattern = PATTERNS[canary.pattern]
    name = pattern.name_in(canary.prefix)
    if name is None:
        raise ValueError(f"canary {canary.id} has no name to ask for")
    return pattern.question(name)


def _cells(canary: Canary, completion: Sequence[str] | None) -> tuple[WordCell, ...]:
    """The words of the canary's line."""
    return cells_of(canary.pattern, canary.prefix, completion or (None,) * len(canary.completion))


def cells_of(pattern: str, prefix: Sequence[str], completion: Sequence[str | None]) -> tuple[WordCell, ...]:
    """The words of a line; those of the completion have room for any candidate."""
    candidates = PATTERNS[pattern].candidates
    return (*(WordCell(word, (word,)) for word in prefix), *(WordCell(word, candidates) for word in completion))
