"""A source as it was read, before it is divided: its documents, what the owner wants of it, two of them as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

from audit.corpus.documents import Assignment, Document, Membership, Redaction, Split, Task, TaskKind, TrainingRecipe
from audit.importers.providers import ByProvider
from audit.importers.report import FieldTally
from audit.importers.splits import Division, NamedMembers, OfficialPart

T = TypeVar("T")
Rule = Division | ByProvider | NamedMembers
"""By what documents become members: a draw, the source's own parts, providers, or the owner's word."""
FOLDER = "folder"
"""As the provider's column: the folder that the image is in."""
MakeDocument = Callable[[str, Split], Document]
"""Makes a document, given its id and its split, such as `functools.partial(Document, words=...)`."""


@dataclass(frozen=True)
class SourceOptions:
    """What the owner says about a source where its format leaves it open.

    Attributes:
        labels: names of a tagger's labels, in the order of the model's outputs.
        provider: the column or key that names a page's provider, or `FOLDER`: the folder of its image.
        boxes: the unit of boxes; None: recognised by their range.
        assigned: the rule by which the documents of training were chosen, where the import draws none.
    """

    labels: tuple[str, ...] = ()
    provider: str | None = None
    boxes: Literal["pixels", "thousandths", "shares"] | None = None
    assigned: Assignment | None = None


@dataclass(frozen=True)
class ImportRequest:
    """What the owner wants made of a source.

    Attributes:
        shares: by split, of what `rule` says.
        seed: of the draw.
        rule: by what documents become members.
        task: what the audited model was trained to do.
        task_given: the owner named the task; else a source that recognises tasks may take another.
        options: what the owner says about the source, for sources that recognise what they read.
        scratch: a private folder for images that are in no file of the source; gone after the import.
    """

    shares: Mapping[Split, float]
    seed: int
    rule: Rule
    task: TaskKind
    task_given: bool
    options: SourceOptions
    scratch: Path

    @property
    def membership(self) -> Membership:
        """How documents came to be members, for the manifest; dated where they are drawn."""
        if isinstance(self.rule, ByProvider):
            return Membership.drawn_now("by-provider", "docaudit import")
        if self.rule == "drawn":
            return Membership.drawn_now("random", "docaudit import")
        return Membership(self.options.assigned or "official")


@dataclass(frozen=True)
class SourceContents:
    """A source as it was read: all of its documents, not yet divided.

    Attributes:
        task: of the manifest.
        documents: every document, by its id.
        fields: of all documents, for the report.
        images: the source image of each document that has one: equal images stay in one split.
        texts: of documents whose equal texts, but for case and spacing, stay in one split.
        sources: by id, the document that a page is of; its pages stay in one split.
        parts: by id, of the source's own division.
        providers: by id, as the source spells them.
        n_unusable: more of the source that make no document; they are counted as left out.
        notes: other counts that an owner wants to know.
        redaction: of the manifest.
        recipe: of the manifest.
        advice: sentences that the owner should read.
    """

    task: Task
    documents: Mapping[str, MakeDocument]
    fields: FieldTally
    images: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, OfficialPart] = field(default_factory=dict)
    providers: Mapping[str, str | None] = field(default_factory=dict)
    n_unusable: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)
    redaction: Redaction | None = None
    recipe: TrainingRecipe = field(default_factory=TrainingRecipe)
    advice: tuple[str, ...] = ()


def join_contents(trained: SourceContents, others: SourceContents) -> tuple[SourceContents, NamedMembers]:
    """Make one source of two, of which all documents of the first are members.

    A document of the second whose id the first has too gets "2-" before it.

    Args:
        trained: what the model was trained on.
        others: documents of the same task that it was not trained on.
    """
    taken = {*trained.documents}
    names = {name: _free(name, taken) for name in others.documents}
    documents = {
        names[name]: make if names[name] == name else _renamed(make, names[name])
        for name, make in others.documents.items()
    }
    labels = trained.task.labels
    more = tuple(label for label in others.task.labels if label not in labels)
    joined = SourceContents(
        Task(trained.task.kind, (*labels, *more)),
        {**trained.documents, **documents},
        FieldTally.joined(trained.fields, others.fields, names),
        images={**trained.images, **_by(names, others.images)},
        texts={**trained.texts, **_by(names, others.texts)},
        sources={**trained.sources, **{names[name]: f"2-{source}" for name, source in others.sources.items()}},
        providers={**trained.providers, **_by(names, others.providers)},
        n_unusable=trained.n_unusable + others.n_unusable,
        notes={
            note: trained.notes.get(note, 0) + others.notes.get(note, 0)
            for note in dict.fromkeys([*trained.notes, *others.notes])
        },
        redaction=trained.redaction,
        recipe=trained.recipe,
        advice=tuple(dict.fromkeys([*trained.advice, *others.advice])),
    )
    return joined, NamedMembers(tuple(trained.documents))


def _by(names: Mapping[str, str], values: Mapping[str, T]) -> dict[str, T]:
    return {names[name]: value for name, value in values.items()}


def _free(name: str, taken: set[str]) -> str:
    """The name, with "2-" before it until no other document has it; it is then taken."""
    while name in taken:
        name = f"2-{name}"
    taken.add(name)
    return name


def _renamed(make: MakeDocument, name: str) -> MakeDocument:
    """`make` whose document has an image of its own name."""

    def made(identifier: str, split: Split) -> Document:
        document = make(identifier, split)
        image = document.image
        if image is None:
            return document
        return dataclasses.replace(document, image=f"images/{name}{PurePosixPath(image).suffix}")

    return made
