"""What a source is: a format that people have, what is in it, and how it becomes a data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from audit.corpus.documents import Assignment, Document, Manifest, Membership, Redaction, Split, Task, TaskKind
from audit.corpus.importers.conversion import ImportReport, check_destination, publish
from audit.corpus.importers.providers import WITHOUT_NAMES, ByProvider, check_provider_shares, divide_by_provider
from audit.corpus.importers.splits import (
    Division,
    NamedMembers,
    OfficialPart,
    assigned_of,
    check_division,
    divide,
    joined,
)
from audit.errors import UsageError

Rule = Division | ByProvider | NamedMembers
"""By what documents become members: a draw, the source's own parts, providers, or the owner's word."""
Way = Literal["official", "by-provider"]
"""A division that a source must have something for: parts of its own, or providers that it names."""
DEFAULT_TASK: TaskKind = "token-classification"


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
        """What the manifest says of how documents came to be members."""
        return "by-provider" if isinstance(self.rule, ByProvider) else assigned_of(self.rule)

    def divide(
        self,
        alike: Iterable[Collection[str]],
        *,
        sources: Iterable[Collection[str]] = (),
        parts: Mapping[str, OfficialPart] | None = None,
        providers: Mapping[str, str | None] | None = None,
    ) -> tuple[Mapping[str, Split], Mapping[str, int]]:
        """Draw the split of every document that gets one, and count what an owner wants to know of the draw.

        Args:
            alike: groups of documents of equal image or text: every document is in one.
            sources: groups of pages of one document.
            parts: of the source's own division, by document.
            providers: by document, as the source spells them.

        Raises:
            UsageError: as `splits.divide`, or as `providers.divide_by_provider`.
            ManifestError: a member is given that is no document of the source.
        """
        if isinstance(self.rule, ByProvider):
            drawn = divide_by_provider(joined([*alike, *sources]), providers or {}, self.shares, self.seed, self.rule)
            return drawn.splits, drawn.notes
        return divide(alike, sources, parts or {}, self.shares, self.seed, self.rule), {}


@dataclass(frozen=True)
class Collected:
    """A source that has been read and divided.

    Attributes:
        documents: those that are in a split.
        task: of the manifest.
        report: for the owner.
        images: the source image of each document that has one, by its id.
        redaction: of the manifest.
    """

    documents: Sequence[Document]
    task: Task
    report: ImportReport
    images: Mapping[str, Path] = field(default_factory=dict)
    redaction: Redaction | None = None


class Source(ABC):
    """A format that can be imported; documents of equal image or text stay in one split.

    Attributes:
        name: as the command line writes it, and the manifest.
        description: what lies in its folder, for the help.
        tasks: what a model can have been trained to do with it; where there are several, the owner says which.
        divisions: those it has something for, beside a draw and members that are given, which every source takes.
        holds: what it teaches, where that is one task ("questions and answers").
        lacks: what it has not for any other task.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    tasks: ClassVar[tuple[TaskKind, ...]]
    divisions: ClassVar[frozenset[Way]] = frozenset()
    holds: ClassVar[str] = ""
    lacks: ClassVar[str] = "no labels"

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
        found = self.collect(src, request)
        membership = Membership(request.assigned)
        manifest = Manifest(1, self.name, found.task, membership, redaction=found.redaction)
        publish(dst, manifest, found.documents, found.images, found.report)
        return found.report

    @abstractmethod
    def collect(self, src: Path, request: ImportRequest) -> Collected:
        """Read the source and divide it; see `convert` for what is raised."""

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
