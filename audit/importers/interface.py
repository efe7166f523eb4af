"""The base class of importers: a format that people have, read page by page, and its conversion into a data set."""

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, Manifest, Membership, Split, TaskKind
from audit.corpus.folding import fold
from audit.corpus.manifest import check_destination, copy_image, draft_of
from audit.corpus.validation import EMPTY_SHEET
from audit.errors import UsageError, listed
from audit.files import PrivateFolder, hub_revision, read_file
from audit.importers import divide
from audit.importers.arrow import SPLITS as DATASET_DICT
from audit.importers.assemble import TASKS, Assembly, ImportReport, choose_task
from audit.importers.files import TEXTS
from audit.importers.named import NamedMembers
from audit.importers.pages import Page, part_named
from audit.importers.reading import reading, spend
from audit.importers.source import Options, Source
from audit.progress import observer, steps
from audit.stats.intervals import join_groups

DEFAULT_TASK: TaskKind = "token-classification"
PARTS = ("train", "validation")
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
        recognises: the task, and the meaning of columns and boxes, are read off the source; it
            takes `Options`, and boxes must be boxes of their page.
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

    def convert(
        self,
        src: Path,
        dst: Path,
        shares: divide.Shares,
        seed: int,
        division: divide.Rule | None = "drawn",
        task: TaskKind | None = None,
        options: Options | None = None,
        heldout_from: Path | None = None,
    ) -> ImportReport:
        """Make a data set of the source.

        Args:
            src: the folder that holds it.
            dst: a new folder; for plain pages also the source, which then gets a manifest.
            shares: by split: of all documents; with "official" member of the training part, heldout
                and public of the unseen one; by provider, of the providers
                (`divide.divide_by_provider`); with members that are given, heldout and public of
                the others. The rest is left out.
            seed: of the draw.
            division: "official" where the audited model was trained on the source's training part:
                held-out documents come from its other parts alone. "drawn" where it was trained on
                the members of this very draw. By provider: providers are drawn, and of each some
                documents. Or the members that are given. None: "official" where the source has a
                training part, else as `options.draws` permits.
            task: what the audited model was trained to do; None: as found, or token classification
                where the format fixes its tasks and that is one of them, else the first.
            options: what the owner says about a source that is recognised.
            heldout_from: a second folder of the format: all documents of `src` are then members,
                those of the second are not, and `shares` of heldout and public are of these;
                `division` is not heeded.

        Raises:
            UsageError: `src` has another layout, `dst` is not empty, the shares cannot be honoured,
                the source cannot be divided so, or has nothing to learn the task from.
            ManifestError: files of the source are missing or broken; all problems are listed.
            EngineError: the data set cannot be written.
        """
        if division == "by-provider" and not self.providers:
            raise UsageError(f"{self.name} names no providers", divide.WITHOUT_NAMES)
        if division == "official" and not self.parts:
            raise UsageError(f"{self.name} has one part only")
        divide.check_division(shares, division or "official")
        if heldout_from is not None:
            _check_parts(self.name, src, heldout_from)
        if task is not None and task not in self.tasks:
            raise UsageError(
                f"{self.name} cannot teach the task {task}", f"one of {', '.join(self.tasks)}"
            )
        if task is None and not self.recognises:
            task = DEFAULT_TASK if DEFAULT_TASK in self.tasks else self.tasks[0]
        if not self.whole or dst.resolve() != src.resolve() or (dst / manifests.FILE_NAME).exists():
            check_destination(dst)
        with PrivateFolder() as scratch, reading():
            sources, kept = list[Source](), list[Any]()
            for number, place in enumerate((src,) if heldout_from is None else (src, heldout_from)):
                (scratch / str(number)).mkdir()
                own = (division == "official", seed, options or Options(), self.word_files, kept)
                sources.append(Source(place, scratch / str(number), task, *own))
            groups = [self._read(source) for source in sources]
            if heldout_from is not None:
                division = NamedMembers(tuple(page.name for page in groups[0]))
                _rename(groups[1], {page.name for page in groups[0]})
            if division is None:
                division, shares = _found_division(groups[0], sources[0], shares)
            return self._publish(dst, sources, groups, shares, division, task)

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
        divided = {page.part for page in pages} - {"public"} == {"train", "validation"}
        if not pages or (source.official and not divided):
            source.problems.raise_if_any()
            reason = (
                TEXTS["one_part"].format(path=source.path)
                if pages
                else f"{self.name}: no page was found"
            )
            raise UsageError(reason, TEXTS["parts_from"] if pages else "")
        return pages

    def _task(self, pages: Sequence[Page], task: TaskKind | None, source: Source) -> TaskKind:
        """Return the task that is made of the pages.

        Of plain ones any that is named, as they may be filled in.
        """
        if task is None and source.options.generative:
            task = "parsing" if any(page.output for page in pages) else "question-answering"
        if task is not None and (self.whole or not self.recognises):
            return task
        try:
            return choose_task(self.name, pages, task)
        except UsageError:
            source.problems.raise_if_any()  # for want of pages that could not be read
            raise

    def _publish(
        self,
        dst: Path,
        sources: Sequence[Source],
        groups: Sequence[Sequence[Page]],
        shares: divide.Shares,
        rule: divide.Rule,
        task: TaskKind | None,
    ) -> ImportReport:
        """Make documents of the pages, divide them, and write those that got a split."""
        source, problems, options = sources[0], sources[0].problems, sources[0].options
        for other in sources[1:]:
            problems.merge(other.problems)
        pages = [page for group in groups for page in group]
        task = self._task(pages, task, source)
        report = ImportReport(task=task)
        assembly = Assembly(
            task, report, self.labels, options.labels or source.tags, options.boxes, self.recognises
        )
        documents = assembly.documents(groups, problems)
        advice = [sentence for one in sources for sentence in one.advice] + report.warnings
        for one in sources:
            report.notes.update(one.notes)
        if isinstance(rule, NamedMembers) and len(groups) == 1:
            rule.refuse_shared(page.path for page in pages)
        splits = _divide(
            [page for page in pages if page.name in documents], report, shares, source.seed, rule
        )
        must = divide.demands(rule, report.documents["member"], has_official=self.parts)
        report.documents["left out"] = len(pages) - len(splits)
        report.notes = +report.notes
        report.warnings = [*dict.fromkeys([*must, *advice])]
        membership = Membership(options.assigned or "official")
        if rule in ("drawn", "by-provider"):
            membership = Membership.drawn_now(
                "random" if rule == "drawn" else "by-provider", options.command
            )
        name, hidden = options.name or self.name, options.redaction or source.redaction
        described = assembly.described_task(documents)
        made = Manifest(1, name, described, membership, redaction=hidden, recipe=source.recipe)
        manifest = replace(made, revision=hub_revision(source.root))
        chosen = [
            replace(one, split=splits[name]) for name, one in documents.items() if name in splits
        ]
        if dst.resolve() == source.path.resolve():
            paths = {page.name: page.path for page in pages}
            chosen = [replace(one, image=one.image and paths[one.id]) for one in chosen]
            manifests.write(dst, manifest, chosen, must, EMPTY_SHEET)
            return report
        with draft_of(dst, "import") as draft:
            images = {page.name: page.image for page in pages if page.image is not None}
            for document in steps("copying images", chosen, len(chosen)):
                if document.image is not None:
                    copy_image(images[document.id], draft, document.image)
            manifests.write(draft, manifest, chosen, must)
            text = json.dumps(
                {"fields": report.fields, **vars(report)}, indent=2, ensure_ascii=False
            )
            (draft / REPORT_NAME).write_text(text + "\n", encoding="utf-8")
            manifests.load(draft)  # as `docaudit scan` does, before the data set gets its name
        return report


def _check_parts(name: str, src: Path, heldout_from: Path) -> None:
    """Refuse folders of which one holds the other, or several splits: all their documents would be of one side.

    Raises:
        UsageError: they do, with a command that takes one split each.
    """
    for place in (src, heldout_from):
        try:
            names = [str(split) for split in json.loads(read_file(place / DATASET_DICT))["splits"]]
            splits = [name for name in names if (place / name).is_dir()]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
        if len(splits) > 1:
            seen, unseen = (
                next((one for one in splits if part_named(one) == part), "SPLIT") for part in PARTS
            )
            hint = f"docaudit import {name} {place / seen} DST --heldout-from {place / unseen}, or {place} --official"
            raise UsageError(
                f"{place} holds the splits {listed(splits, 'and')}; one is meant", hint
            )
    if (
        heldout_from.resolve().is_relative_to(src.resolve())
        and heldout_from.resolve() != src.resolve()
    ):
        reason = f"{heldout_from} is in {src}, so its documents would count as trained on too"
        raise UsageError(reason, "give two folders, neither in the other; or --official")


def _found_division(
    pages: Sequence[Page], source: Source, shares: divide.Shares
) -> tuple[divide.Rule, divide.Shares]:
    """Return the division of a source that says which pages are of its training part, else a draw, and the shares.

    Raises:
        UsageError: it does not say so, and no draw is permitted: it would invent members of a
            trained model.
    """
    parts = {page.part for page in pages}
    if "train" in parts and None not in parts:
        return "official", shares
    if not source.options.draws:
        raise UsageError(
            TEXTS["undivided"].format(path=source.path), TEXTS["divide"].format(path=source.path)
        )
    return "drawn", divide.DRAWN


def _divide(
    pages: Sequence[Page], report: ImportReport, shares: divide.Shares, seed: int, rule: divide.Rule
) -> dict[str, Split]:
    """Divide the documents of these pages, and count them in the report."""
    same_image = divide.equal_images(
        {page.name: page.image for page in pages if page.image is not None}
    )
    texts = {
        page.name: " ".join(word.text for word in page.words)
        for page in pages
        if page.image is None
    }
    same_text = _group(texts, fold)
    alike = join_groups([[page.name] for page in pages] + [*map(list, same_image), *same_text])
    whole = _group({page.name: page.source for page in pages if page.source is not None}, str)
    if rule == "by-provider":
        providers = {page.name: page.provider for page in pages}
        splits, counted = divide.divide_by_provider(
            join_groups([*alike, *whole]), providers, shares, seed
        )
        report.notes.update(counted)
    else:
        parts = {page.name: page.part or "train" for page in pages}
        splits = divide.divide(alike, whole, parts, shares, seed, rule)
        if rule == "official":
            report.notes["copies of documents of the training part, left out"] = len(
                divide.copies_of_trained(alike, parts)
            )
    report.notes["texts that occur several times, never in two splits"] = sum(
        len(group) > 1 for group in same_text
    )
    report.duplicates = [group for group in same_image if len(group) > 1]
    report.documents = {split: list(splits.values()).count(split) for split in SPLITS}
    return splits


def _rename(pages: Sequence[Page], taken: set[str]) -> None:
    """Put "2-" before the names of a second source's pages that are taken."""
    for page in pages:
        while page.name in taken:
            page.name = f"2-{page.name}"
        page.source = page.source and f"2-{page.source}"


def _group(values: Mapping[str, str], key: Callable[[str], str]) -> list[list[str]]:
    """Group the names of values that are equal as `key` compares them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, value in values.items():
        groups[key(value)].append(name)
    return list(groups.values())
