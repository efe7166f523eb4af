"""The base class of importers: a format that people have, read page by page into a data set."""

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

from audit.cards import AuditSheet
from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, WRITING, Document, Manifest, Membership, Split, TaskKind
from audit.corpus.folding import fold
from audit.corpus.manifest import check_destination, copy_image, draft_of
from audit.corpus.validation import EMPTY_SHEET
from audit.errors import UsageError
from audit.files import PrivateFolder, hub_revision
from audit.importers import divide
from audit.importers.assemble import Assembly, ImportReport
from audit.importers.files import TEXTS
from audit.importers.leave_out import check_rule, choose_left_out, write_training_names
from audit.importers.named import NamedMembers
from audit.importers.pages import Page
from audit.importers.reading import reading, spend
from audit.importers.request import ImportRequest
from audit.importers.source import Options, Source, SourceSettings
from audit.importers.tasks import TASKS, TaskChoice, choose_task
from audit.progress import observer, steps
from audit.stats.intervals import join_groups

DEFAULT_TASK: TaskKind = "token-classification"
REPORT_NAME = "import-report.json"


@dataclass(frozen=True)
class _Division:
    """How documents are divided into splits.

    Attributes:
        rule: rule by which documents become members.
        shares: shares of the splits, as `ImportRequest.shares`.
        seed: seed of the draw.
        without: names of members that go into no split.
    """

    rule: divide.Rule
    shares: divide.Shares
    seed: int
    without: tuple[str, ...] = ()


class Importer(ABC):
    """A format that can be imported; documents of equal image or text stay in one split.

    Attributes:
        name: name as the command line writes it, and the manifest.
        description: what its folder holds, for the help.
        tasks: tasks that a model can have been trained to do with it.
        labels: labels of its fields, where the format fixes them.
        parts: whether it has a division of its own.
        providers: whether it can name the provider of a document.
        recognises: whether the task, and the meaning of columns and boxes, are read off the
            source; it takes `Options`, and boxes must be boxes of their page.
        whole: its pages carry documents, and it can describe a folder in place, where problems are
            left to fill in.
        word_files: endings of the word files that may lie beside images.
        marks: patterns of file names, each with a regular expression that such a file holds, by any
            of which `docaudit init` recognises a folder of this format.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    tasks: ClassVar[tuple[TaskKind, ...]] = TASKS
    labels: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[bool] = True
    providers: ClassVar[bool] = True
    recognises: ClassVar[bool] = True
    whole: ClassVar[bool] = False
    word_files: ClassVar[tuple[str, ...]] = ()
    marks: ClassVar[tuple[tuple[str, str], ...]] = ()

    @abstractmethod
    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a source; problems of single ones go to `source.problems`.

        Raises:
            UsageError: the folder has another layout.
            ManifestError: files of the source are missing or broken.
        """

    def convert(self, request: ImportRequest) -> ImportReport:
        """Make a data set of a source: check the request, read, divide, write.

        Raises:
            UsageError: the source has another layout, the destination is not empty, the shares
                cannot be honoured, the source cannot be divided so, or has nothing to learn the
                task from.
            ManifestError: files of the source are missing or broken; all problems are listed.
            EngineError: the data set cannot be written.
        """
        request = self._checked(request)
        with PrivateFolder() as scratch, reading():
            sources = self._open_sources(request, scratch)
            groups = [self._read(source) for source in sources]
            division = _choose_division(request, groups)
            return self._publish(request, division, sources, groups)

    def _checked(self, request: ImportRequest) -> ImportRequest:
        """Return the request with its task settled; refuse what this format cannot do.

        Raises:
            UsageError: the format has no such division or task, the shares cannot be honoured, or
                the destination is not empty.
        """
        division = request.division
        if division == "by-provider" and not self.providers:
            raise UsageError(f"{self.name} names no providers", divide.WITHOUT_NAMES)
        if division == "official" and not self.parts:
            raise UsageError(f"{self.name} has one part only")
        divide.check_division(request.shares, division or "official")
        check_rule(division, request.without)
        request.check_folders(self.name)
        task = self._checked_task(request.task)
        may_stay = self.whole and request.is_in_place
        if not may_stay or (request.dst / manifests.FILE_NAME).exists():
            check_destination(request.dst)
        return replace(request, task=task)

    def _checked_task(self, task: TaskKind | None) -> TaskKind | None:
        """Return the task, or the usual one of a format that fixes its tasks.

        Raises:
            UsageError: the format has not this task.
        """
        if task is not None and task not in self.tasks:
            raise UsageError(
                f"{self.name} cannot teach the task {task}", f"one of {', '.join(self.tasks)}"
            )
        if task is not None or self.recognises:
            return task
        if DEFAULT_TASK in self.tasks:
            return DEFAULT_TASK
        return self.tasks[0]

    def _open_sources(self, request: ImportRequest, scratch: Path) -> list[Source]:
        """Open the folders of a request, each with a private folder of its own in `scratch`."""
        settings = SourceSettings(
            task=request.task,
            official=request.division == "official",
            seed=request.seed,
            options=request.options,
            word_files=self.word_files,
            format=self.name,
        )
        sources: list[Source] = []
        for number, folder in enumerate(request.folders):
            folder_scratch = scratch / str(number)
            folder_scratch.mkdir()
            earlier = sources[0].kept if sources else None
            sources.append(Source(folder, folder_scratch, settings, earlier))
        return sources

    def _read(self, source: Source) -> list[Page]:
        """Read all pages within the budget of a source.

        Whatever a file raises is a fault of the source.
        """
        observer().stage("reading the source")
        pages: list[Page] = []
        with source.problems.catch():
            for page in self.pages(source):
                spend("rows", 1)
                pages.append(page)
                page.place = page.place or f"page {len(pages)} of the source"
            source.read_words(pages)
        if not pages:
            source.problems.raise_if_any()
            raise UsageError(f"{self.name}: no page was found")
        is_divided = {page.part for page in pages} - {"public"} == {"train", "validation"}
        if source.official and not is_divided:
            source.problems.raise_if_any()
            raise UsageError(TEXTS["one_part"].format(path=source.path), TEXTS["parts_from"])
        return pages

    def _task(self, pages: Sequence[Page], task: TaskKind | None, source: Source) -> TaskKind:
        """Return the task that the pages' documents get, chosen by the format or its contents.

        Of plain ones any that is named, as they may be filled in.
        """
        if task is None and self.whole and source.options.tasks == WRITING:
            task = "parsing" if any(page.output for page in pages) else "question-answering"
        if task is not None and (self.whole or not self.recognises):
            return task
        try:
            choice = TaskChoice(task, source.options.tasks)
            return choose_task(self.name, pages, choice, source.unread)
        except UsageError:
            source.problems.raise_if_any()  # for want of pages that could not be read
            raise

    def _publish(
        self,
        request: ImportRequest,
        division: _Division,
        sources: Sequence[Source],
        groups: Sequence[Sequence[Page]],
    ) -> ImportReport:
        """Make documents of the pages, divide them, and write those that got a split.

        Args:
            request: the owner's request.
            division: the division of the documents.
            sources: the sources that were read; the first one also says what the manifest says.
            groups: pages of each source.
        """
        source = sources[0]
        _merge_problems(sources)
        pages = list(chain.from_iterable(groups))
        task = self._task(pages, request.task, source)
        is_drawn = division.rule in ("drawn", "by-provider")
        report = ImportReport(task=task, is_drawn=is_drawn)
        tags = source.options.labels or source.tags
        assembly = Assembly(task, report, self.labels, tags, source.options.boxes, self.recognises)
        documents = assembly.documents(groups, source.problems)
        advice = list(chain.from_iterable(source.advice for source in sources))
        advice += report.warnings
        _add_notes(sources, pages, report)
        if isinstance(division.rule, NamedMembers) and len(groups) == 1:
            division.rule.refuse_shared(page.path for page in pages)
        usable_pages = [page for page in pages if page.name in documents]
        division = replace(
            division,
            rule=_with_pages(division.rule, usable_pages),
            without=_pages_of(request.without, usable_pages),
        )
        splits = _divide(usable_pages, report, division)
        demands = divide.demands(division.rule, report.documents["member"], has_official=self.parts)
        report.documents["left out"] = len(pages) - len(splits)
        report.notes = +report.notes
        report.demands = demands
        report.warnings = list(dict.fromkeys((*demands, *advice)))
        manifest = Manifest(
            1,
            request.options.name or self.name,
            assembly.described_task(documents),
            _membership(division.rule, request.options, report.without),
            redaction=request.options.redaction or source.redaction,
            recipe=source.recipe,
            revision=hub_revision(source.root),
            audit=request.options.sheet,
        )
        data_set = _DataSet(manifest, _with_splits(documents, splits), demands)
        _write(request, data_set, pages, report)
        return report


@dataclass(frozen=True)
class _DataSet:
    """What is written.

    Attributes:
        manifest: its manifest.
        documents: its documents, each with a split.
        demands: sentences of what must be true of the audited model, for the manifest.
    """

    manifest: Manifest
    documents: list[Document]
    demands: tuple[str, ...]


def _merge_problems(sources: Sequence[Source]) -> None:
    """Add the problems of all other sources to those of the first."""
    for source in sources[1:]:
        sources[0].problems.merge(source.problems)


def _add_notes(sources: Sequence[Source], pages: Sequence[Page], report: ImportReport) -> None:
    """Add the counts of all sources, and of their pages, to the report."""
    for source in sources:
        report.notes.update(source.notes)
    for page in pages:
        report.notes.update(page.notes)


def _with_splits(documents: Mapping[str, Document], splits: Mapping[str, Split]) -> list[Document]:
    """Return copies of the documents that got a split, each with its split set."""
    return [
        replace(document, split=splits[name])
        for name, document in documents.items()
        if name in splits
    ]


def _write(
    request: ImportRequest, data_set: _DataSet, pages: Sequence[Page], report: ImportReport
) -> None:
    """Write a data set into the source, or into a new folder."""
    if request.is_in_place:
        _write_in_place(request.dst, data_set, pages)
    else:
        _write_folder(request.dst, data_set, pages, report)


def _write_in_place(dst: Path, data_set: _DataSet, pages: Sequence[Page]) -> None:
    """Write manifest and documents into the source, whose images stay where they are.

    Raises:
        UsageError: an image has several pages, each of which needs a file of its own.
    """
    if any(page.image is not None and not page.path for page in pages):
        raise UsageError(TEXTS["sheets"], TEXTS["sheets_hint"])
    paths = {page.name: page.path for page in pages}
    documents = [
        replace(document, image=document.image and paths[document.id])
        for document in data_set.documents
    ]
    ending = EMPTY_SHEET if data_set.manifest.audit == AuditSheet() else ""
    manifests.write(dst, data_set.manifest, documents, data_set.demands, ending)


def _write_folder(
    dst: Path, data_set: _DataSet, pages: Sequence[Page], report: ImportReport
) -> None:
    """Write a data set with its images and the report of the import into a new folder."""
    images = {page.name: page.image for page in pages if page.image is not None}
    documents = data_set.documents
    with draft_of(dst, "import") as draft:
        for document in steps("copying images", documents, len(documents)):
            if document.image is not None:
                copy_image(images[document.id], draft, document.image)
        manifests.write(draft, data_set.manifest, documents, data_set.demands)
        table = {"fields": report.fields, **vars(report)}
        del table["is_drawn"]  # the manifest says it
        del table["demands"]  # they are among the warnings
        text = json.dumps(table, indent=2, ensure_ascii=False)
        (draft / REPORT_NAME).write_text(text + "\n", encoding="utf-8")
        if report.without:
            write_training_names(draft, documents)
        manifests.load(draft)  # as `docaudit scan` does, before the data set gets its name


def _membership(rule: divide.Rule, options: Options, n_left_out: int) -> Membership:
    """Return what the manifest says about how documents became members.

    A list that leaves some of them out chose the others, so that no lot did.
    """
    membership = _division_of(rule, options)
    if not n_left_out:
        return membership
    return replace(membership, assigned="official", left_out=n_left_out)


def _division_of(rule: divide.Rule, options: Options) -> Membership:
    """Return what the manifest says about how documents were divided."""
    if rule == "drawn":
        return Membership.drawn_now("random", options.command)
    if rule == "by-provider":
        return Membership.drawn_now("by-provider", options.command)
    return Membership(options.assigned or "official")


def _choose_division(request: ImportRequest, groups: Sequence[Sequence[Page]]) -> _Division:
    """Return how documents are divided: as the request says, by parts, or drawn.

    With a second folder, all pages of the first are members. A source that says which pages are of
    its training part is divided so where the owner names no division, else drawn.

    Raises:
        UsageError: the source does not say so, and no draw is permitted: it would invent members of
            a trained model.
    """
    if request.heldout_from is not None:
        members, unseen_pages = groups
        names = tuple(page.name for page in members)
        _rename(unseen_pages, {*names})
        return _Division(NamedMembers(names), request.shares, request.seed)
    if request.division is not None:
        return _Division(request.division, request.shares, request.seed)
    parts = {page.part for page in groups[0]}
    if "train" in parts and None not in parts:
        return _Division("official", request.shares, request.seed)
    if not request.options.draws:
        raise UsageError(
            TEXTS["undivided"].format(path=request.src), TEXTS["divide"].format(path=request.src)
        )
    return _Division("drawn", {}, request.seed)


def _divide(pages: Sequence[Page], report: ImportReport, division: _Division) -> dict[str, Split]:
    """Divide the documents of these pages, and count them in the report."""
    same_image = _group_equal_images(pages)
    same_text = _group_equal_texts(pages)
    single_pages = [[page.name] for page in pages]
    alike = join_groups([*single_pages, *map(list, same_image), *same_text])
    if division.rule == "by-provider":
        splits = _divide_by_provider(pages, alike, report, division)
    else:
        parts = {page.name: page.part or "train" for page in pages}
        splits = divide.divide(
            alike, _group_by_source(pages), parts, division.shares, division.seed, division.rule
        )
        if division.rule == "official":
            n_copies = len(divide.copies_of_trained(alike, parts))
            report.notes["copies of documents of the training part, left out"] = n_copies
    splits = _leave_out(division.without, splits, alike, report)
    n_repeated = sum(len(group) > 1 for group in same_text)
    report.notes["texts that occur several times, never in two splits"] = n_repeated
    report.duplicates = [group for group in same_image if len(group) > 1]
    report.documents = {split: list(splits.values()).count(split) for split in SPLITS}
    return splits


def _leave_out(
    names: Sequence[str],
    splits: dict[str, Split],
    alike: divide.Groups,
    report: ImportReport,
) -> dict[str, Split]:
    """Return the splits without the named training documents; count these in the report."""
    left_out = choose_left_out(names, splits, alike)
    report.without = len(left_out.ids)
    report.notes["training documents left out by --without"] = len(left_out.listed)
    report.notes["copies of these, left out too"] = len(left_out.copies)
    return {name: split for name, split in splits.items() if name not in left_out.ids}


def _with_pages(rule: divide.Rule, pages: Sequence[Page]) -> divide.Rule:
    """Return a rule, with the pages of documents that it names in the place of these."""
    if not isinstance(rule, NamedMembers):
        return rule
    ids: dict[str, list[str]] = {}
    for page in pages:
        if page.source is not None:
            ids.setdefault(page.source, []).append(page.name)
    return rule.with_pages(ids)


def _pages_of(names: tuple[str, ...], pages: Sequence[Page]) -> tuple[str, ...]:
    """Return names, with the pages of documents in the place of these."""
    rule = _with_pages(NamedMembers(names), pages)
    assert isinstance(rule, NamedMembers)
    return rule.names


def _divide_by_provider(
    pages: Sequence[Page],
    alike: Sequence[Sequence[str]],
    report: ImportReport,
    division: _Division,
) -> dict[str, Split]:
    """Return splits of pages drawn by provider; add the providers' counts to the report."""
    groups = join_groups([*alike, *_group_by_source(pages)])
    providers = {page.name: page.provider for page in pages}
    splits, counts = divide.divide_by_provider(groups, providers, division.shares, division.seed)
    report.notes.update(counts)
    return splits


def _group_by_source(pages: Sequence[Page]) -> list[list[str]]:
    """Group the names of pages that belong to one document of the source."""
    return _group_by_key({page.name: page.source for page in pages if page.source is not None}, str)


def _group_equal_images(pages: Sequence[Page]) -> tuple[tuple[str, ...], ...]:
    """Group the names of pages with an image by equal images."""
    images = {page.name: page.image for page in pages if page.image is not None}
    return divide.equal_images(images)


def _group_equal_texts(pages: Sequence[Page]) -> list[list[str]]:
    """Group the names of pages without an image by equal words."""
    texts: dict[str, str] = {}
    for page in pages:
        if page.image is None:
            texts[page.name] = " ".join(word.text for word in page.words)
    return _group_by_key(texts, fold)


def _rename(pages: Sequence[Page], taken_names: set[str]) -> None:
    """Put "2-" before the names of a second source's pages that are taken."""
    for page in pages:
        while page.name in taken_names:
            page.name = f"2-{page.name}"
        page.source = page.source and f"2-{page.source}"


def _group_by_key(values: Mapping[str, str], key: Callable[[str], str]) -> list[list[str]]:
    """Group the names whose values have equal keys under `key`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, value in values.items():
        groups[key(value)].append(name)
    return list(groups.values())
