"""The base class of importers: a format that people have, read page by page, and its conversion into a data set."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, Assignment, Document, Manifest, Membership, Split, TaskKind
from audit.corpus.folding import fold
from audit.corpus.publishing import check_destination, copy_image, draft_of
from audit.errors import ManifestError, UsageError
from audit.importers.assemble import TASKS, Assembly, choose_task
from audit.importers.divide import (
    WITHOUT_NAMES,
    ByProvider,
    Rule,
    check_division,
    copies_of_trained,
    demands,
    divide,
    divide_by_provider,
    equal_images,
)
from audit.importers.named import NamedMembers
from audit.importers.pages import Page
from audit.importers.peek import Peek
from audit.importers.report import ImportReport
from audit.importers.source import Options, Source
from audit.private import PrivateFolder
from audit.progress import observer, steps
from audit.stats.intervals import join_groups

DEFAULT_TASK: TaskKind = "token-classification"
REPORT_NAME = "import-report.json"


class Importer(ABC):
    """A format that can be imported; documents of equal image or text stay in one split.

    Attributes:
        name: as the command line writes it, and the manifest.
        description: of its folder, for the help.
        tasks: that a model can have been trained to do with it.
        labels: of its fields, where the format fixes them.
        parts: it has a division of its own.
        providers: it can name the provider of a document.
        recognises: the task, and the meaning of columns and boxes, are read off the source; it takes `Options`, and
            boxes must be boxes of their page.
        word_files: endings of the word files that may lie beside images.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    tasks: ClassVar[tuple[TaskKind, ...]] = TASKS
    labels: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[bool] = True
    providers: ClassVar[bool] = True
    recognises: ClassVar[bool] = True
    word_files: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a source; problems of single ones go to `source.problems`.

        Raises:
            UsageError: the folder has another layout.
            ManifestError: files of the source are missing or broken.
        """

    def looks_like(self, peek: Peek) -> bool:
        """Test whether a folder looks like this format: a suggestion."""
        return False

    def convert(
        self,
        src: Path,
        dst: Path,
        shares: Mapping[Split, float],
        seed: int,
        division: Rule = "drawn",
        task: TaskKind | None = None,
        options: Options | None = None,
        heldout_from: Path | None = None,
    ) -> ImportReport:
        """Make a data set of the source.

        Args:
            src: the folder that holds it.
            dst: a new folder.
            shares: by split: of all documents; with "official" member and public of those of the training part, heldout
                of all others; by provider, of the providers (`divide.divide_by_provider`); with members that are given,
                heldout and public of the others. The rest is left out.
            seed: of the draw.
            division: "official" where the audited model was trained on the source's training part: held-out documents
                come from its other parts alone. "drawn" where it was trained on the members of this very draw. By
                provider: providers are drawn, and of each some documents. Or the members that are given.
            task: what the audited model was trained to do; None: as found, or token classification where the format
                fixes its tasks and that is one of them, else the first.
            options: what the owner says about a source that is recognised.
            heldout_from: a second folder of the format: all documents of `src` are then members, those of the second
                are not, and `shares` of heldout and public are of these; `division` is not heeded.

        Raises:
            UsageError: `src` has another layout, `dst` is not empty, the shares cannot be honoured, the source cannot
                be divided so, or has nothing to learn the task from.
            ManifestError: files of the source are missing or broken; all problems are listed.
            EngineError: the data set cannot be written.
        """
        self._check_rule(shares, division)
        task = self._task(task)
        check_destination(dst)
        with PrivateFolder() as scratch:
            opened = partial(
                Source, official=division == "official", seed=seed, options=options, word_files=self.word_files
            )
            source = opened(src, scratch, task=task)
            pages = self._read(source)
            groups = [pages]
            if self.recognises:
                task = self._choose(source, pages, task)
            assert task is not None
            if heldout_from is not None:
                (scratch / "second").mkdir()
                second = opened(heldout_from, scratch / "second", task=task)
                division = NamedMembers(tuple(page.name for page in pages))
                groups.append(_renamed(self._read(second), pages))
                source.notes.update(second.notes)
                source.advice = [*dict.fromkeys([*source.advice, *second.advice])]
                source.problems.add("", second.problems.listed)
            tags = source.options.labels or source.tags
            boxes = source.options.boxes
            assembly = Assembly(task, labels=self.labels, tags=tags, boxes=boxes, strict=self.recognises)
            documents = assembly.documents(groups, source.problems)
            everything = [page for group in groups for page in group]
            return self._publish(dst, source, assembly, everything, documents, shares, division)

    def _read(self, source: Source) -> list[Page]:
        """Read all pages; values nested so deeply that Python gives up are the source's fault."""
        observer().stage("reading the source")
        pages: list[Page] = []
        try:
            with source.problems.catch():
                pages += self.pages(source)
        except RecursionError:
            raise ManifestError("a JSON value of the source is nested too deeply") from None
        if not pages:
            source.problems.raise_if_any()
            raise UsageError(f"{self.name}: no page was found")
        if source.official and {page.part for page in pages} != {"train", "validation"}:
            source.problems.raise_if_any()
            raise UsageError(
                f"{source.path} has one part only, or does not say of every page whether it is of the training part",
                "the official division reads it from folders, files or a column with train, and val or test",
            )
        return pages

    def _choose(self, source: Source, pages: Sequence[Page], task: TaskKind | None) -> TaskKind:
        try:
            return choose_task(self.name, pages, task)
        except UsageError:
            source.problems.raise_if_any()  # for want of what could not be read
            raise

    def _publish(
        self,
        dst: Path,
        source: Source,
        assembly: Assembly,
        pages: Sequence[Page],
        documents: Mapping[str, Document],
        shares: Mapping[Split, float],
        rule: Rule,
    ) -> ImportReport:
        """Divide the documents and write those that got a split."""
        kept = {page.name: page for page in pages if page.name in documents}
        images = {name: page.image for name, page in kept.items() if page.image is not None}
        texts = {name: " ".join(word.text for word in kept[name].words) for name in kept if name not in images}
        spellings = _spellings(page.provider for page in pages if page.provider is not None)
        same_image, same_text = equal_images(images), _grouped(texts, fold)
        alike = join_groups([[name] for name in documents] + [*map(list, same_image), *same_text])
        sources = _grouped({name: page.source for name, page in kept.items() if page.source is not None}, str)
        notes: dict[str, int] = {}
        if isinstance(rule, ByProvider):
            providers = {name: page.provider for name, page in kept.items()}
            splits, notes = divide_by_provider(join_groups([*alike, *sources]), providers, shares, source.seed, rule)
        else:
            parts = {name: page.part or "train" for name, page in kept.items()}
            splits = divide(alike, sources, parts, shares, source.seed, rule)
            if rule == "official":
                notes["copies of documents of the training part, left out"] = len(copies_of_trained(alike, parts))
        if texts:
            notes["texts that stand several times, never in two splits"] = sum(len(group) > 1 for group in same_text)
        counts: dict[str, int] = {split: list(splits.values()).count(split) for split in SPLITS}
        counts["left out"] = len(pages) - len(splits)
        must = demands(rule, counts["member"], has_official=self.parts)
        task = assembly.task(documents)
        report = assembly.fields.report(
            counts,
            (group for group in same_image if len(group) > 1),
            {**+assembly.notes, **+source.notes, **notes},
            (*must, *source.advice, *assembly.advice),
            task.kind,
        )
        membership = membership_of(rule, source.options.assigned)
        manifest = Manifest(1, self.name, task, membership, redaction=source.redaction, recipe=source.recipe)
        ordered = [(one, splits[name]) for name, one in documents.items() if name in splits]
        chosen = [
            dataclasses.replace(one, split=split, provider=one.provider and spellings[fold(one.provider)])
            for one, split in ordered
        ]
        _write(dst, manifest, chosen, images, report, must)
        return report

    def _task(self, task: TaskKind | None) -> TaskKind | None:
        """The task before the source is read; None: it is recognised."""
        if task is not None and task not in self.tasks:
            raise UsageError(f"{self.name} cannot teach the task {task}", f"one of {', '.join(self.tasks)}")
        if task is not None or self.recognises:
            return task
        return DEFAULT_TASK if DEFAULT_TASK in self.tasks else self.tasks[0]

    def _check_rule(self, shares: Mapping[Split, float], rule: Rule) -> None:
        if isinstance(rule, ByProvider) and not self.providers:
            raise UsageError(f"{self.name} names no providers", WITHOUT_NAMES)
        if rule == "official" and not self.parts:
            raise UsageError(f"{self.name} has one part only")
        check_division(shares, rule)


def membership_of(rule: Rule, assigned: Assignment | None = None) -> Membership:
    """Say how documents came to be members; dated where they are drawn, else `assigned` by somebody's rule."""
    if isinstance(rule, ByProvider):
        return Membership.drawn_now("by-provider", "docaudit import")
    return Membership.drawn_now("random", "docaudit import") if rule == "drawn" else Membership(assigned or "official")


def _renamed(pages: Sequence[Page], trained: Sequence[Page]) -> list[Page]:
    """The pages of a second source; one whose name is taken gets "2-" before it."""
    taken = {page.name for page in trained}
    for page in pages:
        while page.name in taken:
            page.name = f"2-{page.name}"
        page.source = page.source and f"2-{page.source}"
    return [*pages]


def _grouped(values: Mapping[str, str], key: Callable[[str], str]) -> list[list[str]]:
    """The names of equal values, as `key` compares them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, value in values.items():
        groups[key(value)].append(name)
    return list(groups.values())


def _spellings(providers: Iterable[str]) -> dict[str, str]:
    """One name for providers that differ in case or spacing only: the most frequent spelling, by folded name."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for provider in providers:
        spellings[fold(provider)][provider] += 1
    return {folded: min(counts, key=lambda one: (-counts[one], one)) for folded, counts in spellings.items()}


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
