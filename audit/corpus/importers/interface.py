"""The base class of sources: a format that people have, what it holds, and its conversion into a data set."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from audit.corpus import manifest as manifests
from audit.corpus.documents import (
    SPLITS,
    Assignment,
    Document,
    Manifest,
    Membership,
    Redaction,
    Split,
    Task,
    TaskKind,
)
from audit.corpus.folding import fold
from audit.corpus.importers.providers import WITHOUT_NAMES, ByProvider, check_provider_shares, divide_by_provider
from audit.corpus.importers.report import FieldTally, ImportReport
from audit.corpus.importers.splits import (
    Division,
    NamedMembers,
    OfficialPart,
    assigned_of,
    check_division,
    copies_of_trained,
    divide,
    equal_images,
)
from audit.corpus.publishing import check_destination, copy_image, draft_of
from audit.errors import UsageError
from audit.stats.clusters import join_groups

Rule = Division | ByProvider | NamedMembers
"""By what documents become members: a draw, the source's own parts, providers, or the owner's word."""
Way = Literal["official", "by-provider"]
"""A division that a source must have something for: parts of its own, or providers that it names."""
DEFAULT_TASK: TaskKind = "token-classification"
REPORT_NAME = "import-report.json"
MakeDocument = Callable[[str, Split], Document]
"""Makes a document, given its id and its split, such as `functools.partial(Document, words=...)`."""


@dataclass(frozen=True)
class ImportRequest:
    """What the owner wants made of a source.

    Attributes:
        shares: by split, of what `rule` says.
        seed: of the draw.
        rule: by what documents become members.
        task: what the audited model was trained to do.
    """

    shares: Mapping[Split, float]
    seed: int
    rule: Rule
    task: TaskKind

    @property
    def assigned(self) -> Assignment:
        """Name, for the manifest, how documents came to be members."""
        return "by-provider" if isinstance(self.rule, ByProvider) else assigned_of(self.rule)


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


class Source(ABC):
    """A format that can be imported; documents of equal image or text stay in one split.

    Attributes:
        name: as the command line writes it, and the manifest.
        description: what its folder holds, for the help.
        tasks: what a model can have been trained to do with it; where there are several, the owner says which.
        divisions: those it has something for, beyond a draw and members that are given, which every source takes.
        holds: what it teaches, where that is one task ("questions and answers").
        lacks: what it has not for any other task.
        repeated: label, in the report, of texts that occur several times.
        copied: label, in the report, of documents left out of the official division, as they are copies.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    tasks: ClassVar[tuple[TaskKind, ...]]
    divisions: ClassVar[frozenset[Way]] = frozenset()
    holds: ClassVar[str] = ""
    lacks: ClassVar[str] = "no labels"
    repeated: ClassVar[str] = "texts that stand several times, never in two splits"
    copied: ClassVar[str] = "copies of training pages"

    def convert(
        self,
        src: Path,
        dst: Path,
        shares: Mapping[Split, float],
        seed: int,
        division: Rule = "drawn",
        task: TaskKind | None = None,
    ) -> ImportReport:
        """Make a data set of the source.

        Args:
            src: the folder that holds it.
            dst: a new folder.
            shares: by split: of all documents; with "official" member and public of those of the training part, heldout
                of all others; by provider, of the providers (`providers.divide_by_provider`); with members that are
                given, heldout and public of the others. The rest is left out.
            seed: of the draw.
            division: "official" where the audited model was trained on the source's training part: held-out documents
                come from its other parts alone. "drawn" where it was trained on the members of this very draw. By
                provider: providers are drawn, and of each some documents. Or the members that are given.
            task: what the manifest says that the audited model was trained to do; None: token classification where the
                source can teach it, else its first task.

        Raises:
            UsageError: `src` has another layout, `dst` is not empty, the shares cannot be honoured, the source cannot
                be divided so, or has nothing to learn the task from.
            ManifestError: files of the source are missing or broken; all problems are listed.
            EngineError: the data set cannot be written.
        """
        request = ImportRequest(shares, seed, division, self._task(task))
        self._check_rule(shares, division)
        check_destination(dst)
        contents = self.read(src, request)
        same_image, same_text = equal_images(contents.images), _grouped(contents.texts, fold)
        splits, notes = self._divide(contents, join_groups([*same_image, *same_text]), request)
        if contents.texts:
            notes[self.repeated] = sum(len(group) > 1 for group in same_text)
        counts: dict[str, int] = {split: list(splits.values()).count(split) for split in SPLITS}
        counts["left out"] = len(contents.documents) - len(splits) + contents.n_unusable
        duplicates = (group for group in same_image if len(group) > 1)
        report = contents.fields.report(counts, duplicates, {**contents.notes, **notes})
        membership = Membership(request.assigned)
        manifest = Manifest(1, self.name, contents.task, membership, redaction=contents.redaction)
        documents = [make(name, splits[name]) for name, make in contents.documents.items() if name in splits]
        _publish(dst, manifest, documents, contents.images, report)
        return report

    @abstractmethod
    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """Read all documents of the source; see `convert` for the errors."""

    def _divide(
        self, contents: SourceContents, alike: Sequence[Collection[str]], request: ImportRequest
    ) -> tuple[Mapping[str, Split], dict[str, int]]:
        """The split of every document that gets one, and counts for the report; `alike`: of equal image or text."""
        groups = join_groups([[name] for name in contents.documents] + [*map(list, alike)])
        same_source = _grouped(contents.sources, str)
        if isinstance(request.rule, ByProvider):
            whole = join_groups([*groups, *same_source])
            drawn = divide_by_provider(whole, contents.providers, request.shares, request.seed, request.rule)
            return drawn.splits, dict(drawn.notes)
        splits = divide(groups, same_source, contents.parts, request.shares, request.seed, request.rule)
        if request.rule == "official":
            return splits, {self.copied: len(copies_of_trained(groups, contents.parts))}
        return splits, {}

    def _task(self, task: TaskKind | None) -> TaskKind:
        if task is None:
            return DEFAULT_TASK if DEFAULT_TASK in self.tasks else self.tasks[0]
        if task not in self.tasks:
            problem = f"{self.name.upper()} has {self.lacks} for the task {task}"
            raise UsageError(problem, f"one of {', '.join(self.tasks)}")
        return task

    def _check_rule(self, shares: Mapping[Split, float], rule: Rule) -> None:
        if isinstance(rule, ByProvider):
            if "by-provider" not in self.divisions:
                raise UsageError(f"{self.name} names no providers", WITHOUT_NAMES)
            check_provider_shares(shares)
            return
        if rule == "official" and "official" not in self.divisions:
            raise UsageError(f"{self.name} has one part only")
        check_division(shares, rule)


def _grouped(values: Mapping[str, str], key: Callable[[str], str]) -> list[list[str]]:
    """The names of equal values, as `key` compares them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, value in values.items():
        groups[key(value)].append(name)
    return list(groups.values())


def _publish(
    dst: Path, manifest: Manifest, documents: Sequence[Document], images: Mapping[str, Path], report: ImportReport
) -> None:
    """Write the data set, and validate it as `docaudit scan` would before it gets its name."""
    with draft_of(dst, "import") as draft:
        for document in documents:
            if document.image is not None:
                copy_image(images[document.id], draft, document.image)
        manifests.write(draft, manifest, documents)
        text = json.dumps(dataclasses.asdict(report), indent=2, ensure_ascii=False)
        (draft / REPORT_NAME).write_text(text + "\n", encoding="utf-8")
        manifests.load(draft)
