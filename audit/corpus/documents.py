"""The contents of a data set: frozen dataclasses, validated in place when a manifest is read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, ConfigDict
from pydantic import Field as PydanticField
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.cards import AuditSheet, Revision

T = TypeVar("T")

Split = Literal["member", "heldout", "public"]
Category = Literal[
    "person",
    "organization",
    "location",
    "datetime",
    "amount",
    "code",
    "contact",
    "url",
    "demographic",
    "quantity",
    "misc",
]
TaskKind = Literal[
    "mlm",
    "token-classification",
    "spade-extraction",
    "spade-linking",
    "question-answering",
    "extractive-qa",
    "parsing",
    "document-classification",
    "intent-slots",
]
Mask = Literal["length", "fixed", "all"]

SPLITS: tuple[Split, ...] = get_args(Split)
CATEGORIES: tuple[Category, ...] = get_args(Category)
Assignment = Literal["random", "by-provider", "by-date", "official"]
Drawer = Literal["docaudit import", "docaudit init"]
Box = tuple[float, float, float, float]

ASKING: tuple[TaskKind, ...] = ("question-answering", "extractive-qa", "parsing")
"""Tasks whose models are asked about a page: what an attack on answers applies to."""
WRITING: tuple[TaskKind, ...] = ("question-answering", "parsing")
"""Tasks of models that write; their configuration does not tell which."""
STRICT = ConfigDict(extra="forbid", hide_input_in_errors=True, defer_build=True)


@strict_dataclass(frozen=True, config=STRICT)
class Word:
    """One word of a page as the OCR gives it.

    `box` is (x0, y0, x1, y1) in pixels of the document's `size`; `after` the white space behind the
    word in a text.
    """

    text: str
    box: Box | None = None
    after: Annotated[str, PydanticField(pattern="^[ \t\r\n]{0,99}$")] = " "


@strict_dataclass(frozen=True, config=STRICT)
class Entity:
    """A labelled field: the indices of its words in reading order.

    `attack` says whether an attack may try to reconstruct it; `person` whose value it is, by a name
    or number of the owner's choice, where that is another person than the document's.
    """

    id: str
    label: str
    category: Category
    words: tuple[int, ...]
    attack: bool = True
    person: str | None = None


@strict_dataclass(frozen=True, config=STRICT)
class Question:
    """A question about the page and its accepted answers.

    `entity` is the one that holds the answer, when known; `category` says what kind of information
    the answer is, where there is no such entity (its category holds otherwise). `paraphrases` ask
    the same in other words.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    entity: str | None = None
    category: Category | None = None
    paraphrases: tuple[str, ...] = ()


@strict_dataclass(frozen=True, config=STRICT)
class Document:
    """One page (or utterance) of the data set.

    `size` is (width, height) in pixels; `image` a path inside DATA_DIR; `links` hold the ids of two
    entities, the parent (in a form, the question) first. Entity linking gives an entity one parent,
    that of its first link. `paragraphs` hold the index of the first word of each paragraph of a
    running text, a heading being one: no sentence goes on across them. Empty where they are not
    known: one paragraph. `label` is the page's class, for document classification; `output` the
    text that a parsing model is trained to write for the page, JSON or markup, whose fields are its
    questions. `person` is whom the document is about, by a name or number of the owner's choice: it
    is compared and counted, and stands in no report.
    """

    id: str
    split: Split
    words: tuple[Word, ...] = ()
    image: str | None = None
    size: tuple[int, int] | None = None
    provider: str | None = None
    entities: tuple[Entity, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    questions: tuple[Question, ...] = ()
    tags: tuple[str, ...] | None = None
    intent: str | None = None
    paragraphs: tuple[int, ...] = ()
    label: str | None = None
    output: str | None = None
    person: str | None = None

    def __hash__(self) -> int:
        """Hash id, split, numbers of words and questions, and the first and the last word."""
        # What tells pages apart nearly always: the hash of every word would be counted each time a
        # cache is asked. A page that is written in other ways, as checks of a scan write it,
        # differs in its first word or its last.
        ends = (self.words[0], self.words[-1]) if self.words else ()
        return hash((self.id, self.split, len(self.words), len(self.questions), ends))

    def text_of(self, entity: Entity) -> str:
        """Return the entity's value: its words joined by single spaces."""
        words = self.words
        return " ".join(words[index].text for index in entity.words)


@strict_dataclass(frozen=True, config=STRICT)
class Task:
    """What the target was trained to do.

    `labels` are in the order of the model's outputs, or are empty: tags in a scheme of
    `audit.corpus.tagging`, or for SPADE extraction plain classes with "O" among them. `outside`
    names the tag of words outside of entities, where its own name does not tell.
    """

    kind: TaskKind
    labels: tuple[str, ...] = ()
    outside: str | None = None

    @property
    def asks(self) -> bool:
        """Test whether documents come with questions and answers."""
        return self.kind in ASKING


@strict_dataclass(frozen=True, config=STRICT)
class Membership:
    """How documents were assigned to the splits.

    Every comparison of members with others rests on it.

    Attributes:
        assigned: rule by which documents were assigned.
        drawn: the day (YYYY-MM-DD) on which docaudit drew them; only a model that was trained later
            can have been trained on its members.
        drawn_by: the command that drew them.
        left_out: number of training documents that a list left out of the next training.
    """

    assigned: Assignment
    drawn: Annotated[str, AfterValidator(lambda text: str(dt.date.fromisoformat(text)))] | None = (
        None
    )
    drawn_by: Drawer | None = None
    left_out: Annotated[int, PydanticField(ge=0)] = 0

    @classmethod
    def drawn_now(cls, assigned: Assignment, command: Drawer) -> Membership:
        """Return the membership that a command has just drawn, dated in UTC."""
        return cls(assigned, str(dt.datetime.now(dt.UTC).date()), command)


@strict_dataclass(frozen=True, config=STRICT)
class Redaction:
    """How entities are hidden in what is shared of the data set.

    The attack on redactions is gated by it. `mask` is "length" (as long as the value), "fixed" (of
    one length), or "all" (of one length, and every other entity of the sentence, or the line and
    block, hidden with it).
    """

    mask: Mask


@strict_dataclass(frozen=True, config=STRICT)
class CanaryPath:
    """The file of the canaries that the data set was given, relative to DATA_DIR."""

    file: str


@strict_dataclass(frozen=True, config=STRICT)
class ReferencePaths:
    """Folders of models that never saw the audited documents, relative to DATA_DIR."""

    pretrained: str | None = None
    auxiliary: str | None = None
    baselines: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()


@strict_dataclass(frozen=True, config=STRICT)
class TrainingRecipe:
    """How the target was trained, where an attack must do alike or a reader must know.

    Attributes:
        label_all_tokens: a tagger's loss read every token of a word, not only the first.
        checkpoint_chosen_on: the split whose documents chose the checkpoint, when one did.
        prompt: what a question-answering model is given, with "{question}" in place of the
            question, and for models of text "{text}" in place of the page's words; for parsing the
            whole prompt. None: what its family is trained with.
        system: the text of the system turn that a model asked in turns was trained with; None: what
            its chat template writes.
        max_new_tokens: the longest output of a parsing model, tokens; None: what its settings and
            positions allow.
        epochs: passes over the members.
        learning_rate: the peak of AdamW's.
        batch_size: samples (questions, or pages of a tagger) a step.
        seed: seed of the training.
        window: what training read of pages longer than the model takes: their beginning ("first",
            the usual truncation, and what docaudit's own training does), or windows all over them
            ("sliding"); None: not known.
    """

    label_all_tokens: bool = PydanticField(default=False, strict=True)
    checkpoint_chosen_on: Split | None = None
    prompt: str | None = None
    max_new_tokens: int | None = PydanticField(default=None, ge=1, le=100_000)
    system: str | None = None
    epochs: int | None = PydanticField(default=None, ge=1, le=100_000)
    learning_rate: float | None = PydanticField(default=None, gt=0, le=100)
    batch_size: int | None = PydanticField(default=None, ge=1, le=1_000_000)
    seed: int | None = PydanticField(default=None, ge=0)
    window: Literal["first", "sliding"] | None = None


@strict_dataclass(frozen=True, config=STRICT)
class Manifest:
    """`manifest.toml`, schema 1.

    `revision` is the commit of the Hub that the documents were imported from.
    """

    schema: Literal[1]
    name: str
    task: Task
    membership: Membership
    documents: str = "documents.jsonl"
    references: ReferencePaths = ReferencePaths()
    canaries: CanaryPath | None = None
    redaction: Redaction | None = None
    recipe: TrainingRecipe = TrainingRecipe()
    audit: AuditSheet = AuditSheet()
    revision: Revision | None = None


@dataclass(frozen=True)
class Corpus:
    """A data set that passed validation.

    Attributes:
        root: DATA_DIR, resolved.
        manifest: the content of `manifest.toml`.
        documents: all documents, in file order.
        sha256: over the manifest (without its table [audit]), the documents file and every image
            file, in that order, and the canary file where there is one.
        hashes: the sha256 of each image file, by its path within DATA_DIR.
        bring: has an image at hand where this process runs, and returns its path; None: it lies in
            `root`.
    """

    root: Path
    manifest: Manifest
    documents: tuple[Document, ...]
    sha256: str
    hashes: Mapping[str, str] = field(repr=False, compare=False, default_factory=dict)
    bring: Callable[[str], Path] | None = field(repr=False, compare=False, default=None)
    _computed: dict[Hashable, Any] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _by_id: dict[str, Document] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Index the documents by their ids."""
        self._by_id.update((document.id, document) for document in self.documents)

    def document(self, document_id: str) -> Document:
        """Return the document with this id (KeyError when there is none)."""
        return self._by_id[document_id]

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of `compute`, which is called once for each `key` and corpus.

        Args:
            key: names the result, and all that it depends on beside the documents.
            compute: computes it.
        """
        if key not in self._computed:
            self._computed[key] = compute()
        result: T = self._computed[key]
        return result

    def of(self, *splits: Split) -> tuple[Document, ...]:
        """Return the documents of these splits, in file order."""
        return tuple(document for document in self.documents if document.split in splits)
