"""The base class of sources: a format that people have, what it holds, and its conversion into a data set."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from audit.corpus import manifest as manifests
from audit.corpus.documents import (
    SPLITS,
    Document,
    Manifest,
    Split,
    TaskKind,
)
from audit.corpus.folding import fold
from audit.corpus.publishing import check_destination, copy_image, draft_of
from audit.errors import ManifestError, UsageError
from audit.files import refuse_pipes
from audit.importers.contents import (
    FOLDER,
    ImportRequest,
    MakeDocument,
    Rule,
    SourceContents,
    SourceOptions,
    join_contents,
)
from audit.importers.providers import WITHOUT_NAMES, ByProvider, check_provider_shares, divide_by_provider
from audit.importers.report import ImportReport
from audit.importers.splits import (
    check_division,
    copies_of_trained,
    demands,
    divide,
    equal_images,
)
from audit.private import PrivateFolder
from audit.progress import observer, steps
from audit.stats.clusters import join_groups

Way = Literal["official", "by-provider"]
"""A division that a source must have something for: parts of its own, or providers that it names."""
__all__ = ["FOLDER", "ImportRequest", "MakeDocument", "Rule", "Source", "SourceContents", "SourceOptions"]
DEFAULT_TASK: TaskKind = "token-classification"
REPORT_NAME = "import-report.json"


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
        recognises: the task, and the meaning of columns and boxes, are read off the source; it takes `SourceOptions`.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    tasks: ClassVar[tuple[TaskKind, ...]]
    divisions: ClassVar[frozenset[Way]] = frozenset()
    holds: ClassVar[str] = ""
    lacks: ClassVar[str] = "no labels"
    repeated: ClassVar[str] = "texts that stand several times, never in two splits"
    copied: ClassVar[str] = "copies of training pages"
    recognises: ClassVar[bool] = False

    def convert(
        self,
        src: Path,
        dst: Path,
        shares: Mapping[Split, float],
        seed: int,
        division: Rule = "drawn",
        task: TaskKind | None = None,
        options: SourceOptions | None = None,
        heldout_from: Path | None = None,
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
                source can teach it, else its first task; the task that is recognised, where the source does that.
            options: what the owner says about a source that recognises what it reads.
            heldout_from: a second folder of the format: all documents of `src` are then members, those of the second
                are not, and `shares` of heldout and public are of these; `division` is not heeded.

        Raises:
            UsageError: `src` has another layout, `dst` is not empty, the shares cannot be honoured, the source cannot
                be divided so, or has nothing to learn the task from.
            ManifestError: files of the source are missing or broken; all problems are listed.
            EngineError: the data set cannot be written.
        """
        self._check_rule(shares, division)
        check_destination(dst)
        with PrivateFolder() as scratch:
            stated = (self._task(task), task is not None, options or SourceOptions())
            request = ImportRequest(shares, seed, division, *stated, scratch)
            contents = self._read(src, request)
            if heldout_from is not None:
                second = scratch / "second"
                second.mkdir()
                again = replace(request, task=contents.task.kind, task_given=True, scratch=second)
                contents, members = join_contents(contents, self._read(heldout_from, again))
                request = replace(request, rule=members)
            return self._publish(dst, contents, request)

    def _publish(self, dst: Path, contents: SourceContents, request: ImportRequest) -> ImportReport:
        """Divide the documents and write those that got a split."""
        same_image, same_text = equal_images(contents.images), _grouped(contents.texts, fold)
        splits, notes = self._divide(contents, join_groups([*same_image, *same_text]), request)
        if contents.texts:
            notes[self.repeated] = sum(len(group) > 1 for group in same_text)
        counts: dict[str, int] = {split: list(splits.values()).count(split) for split in SPLITS}
        counts["left out"] = len(contents.documents) - len(splits) + contents.n_unusable
        duplicates = (group for group in same_image if len(group) > 1)
        must = demands(request.rule, counts, has_official="official" in self.divisions)
        report = contents.fields.report(
            counts, duplicates, {**contents.notes, **notes}, (*must, *contents.advice), contents.task.kind
        )
        manifest = Manifest(
            1,
            self.name,
            contents.task,
            request.membership,
            redaction=contents.redaction,
            recipe=contents.recipe,
        )
        wanted = [(name, make) for name, make in contents.documents.items() if name in splits]
        documents = [make(name, splits[name]) for name, make in steps("making documents", wanted, len(wanted))]
        _write(dst, manifest, documents, contents.images, report, must)
        return report

    def _read(self, src: Path, request: ImportRequest) -> SourceContents:
        """As `read`; values nested so deeply that Python gives up are the source's fault."""
        observer().stage("reading the source")
        refuse_pipes(src)
        try:
            return self.read(src, request)
        except RecursionError:
            raise ManifestError("a JSON value of the source is nested too deeply") from None

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


def _write(
    dst: Path,
    manifest: Manifest,
    documents: Sequence[Document],
    images: Mapping[str, Path],
    report: ImportReport,
    comments: Sequence[str],
) -> None:
    """Write the data set, and validate it as `docaudit scan` would before it gets its name."""
    with draft_of(dst, "import") as draft:
        for document in steps("copying images", documents, len(documents)):
            if document.image is not None:
                copy_image(images[document.id], draft, document.image)
        manifests.write(draft, manifest, documents, comments)
        text = json.dumps(dataclasses.asdict(report), indent=2, ensure_ascii=False)
        (draft / REPORT_NAME).write_text(text + "\n", encoding="utf-8")
        manifests.load(draft)
