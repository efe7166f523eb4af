"""A manifest for a folder of pages: task, splits and providers as the owner says or the folder shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Literal

from audit.corpus import manifest as manifests
from audit.corpus.documents import (
    SPLITS,
    Assignment,
    Document,
    Manifest,
    Mask,
    Membership,
    Redaction,
    Split,
    Task,
    TaskKind,
)
from audit.corpus.problems import Problems
from audit.corpus.validation import EMPTY_SHEET
from audit.errors import ManifestError, UsageError, printable
from audit.importers.divide import assign
from audit.importers.named import find_named, read_names
from audit.importers.page_folder import FoundPage, find_pages, read_document
from audit.progress import steps
from audit.targets.checkpoint.content import recognise_task

GroupMeaning = Literal["provider", "label", "none"]
"""The meaning of the folders that pages lie in: who issued them, their class, or nothing."""
SHARES: Mapping[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.4}
"""Of a draw; as an import draws."""
INVENTED = (
    "The division was drawn just now. For a model that was trained before, it invents membership, and its audit means "
    "nothing. Name its training documents (--members FILE), or train it again on the members of this data set."
)


@dataclass(frozen=True)
class Answers:
    """What the owner says; None: not said.

    Attributes:
        task: of the model.
        name: of the data set.
        members: a file that names the pages of training, one id or file name a line.
        heldout: a file that names pages never trained on.
        groups: the meaning of the folders that pages lie in.
        mask: how values are hidden in what is shared.
        seed: of the draw, where nothing says the splits.
        assigned: the rule by which the documents of training were chosen.
    """

    task: Task | None = None
    name: str | None = None
    members: Path | None = None
    heldout: Path | None = None
    groups: GroupMeaning | None = None
    mask: Mask | None = None
    seed: int = 0
    assigned: Assignment | None = None


@dataclass(frozen=True)
class Initialised:
    """What was written.

    Attributes:
        manifest: as it was written.
        documents: as they were written.
        todo: what is still to be filled in before a scan, from the validation of what was written.
        drawn: whether the splits were drawn.
    """

    manifest: Manifest
    documents: tuple[Document, ...]
    todo: tuple[str, ...]
    drawn: bool

    @property
    def splits(self) -> dict[Split, int]:
        """Count the documents of each split."""
        return {split: sum(document.split == split for document in self.documents) for split in SPLITS}

    @property
    def without_words(self) -> int:
        """Count documents that have an image and no words."""
        return sum(document.image is not None and not document.words for document in self.documents)


@dataclass(frozen=True)
class PageFolder:
    """A folder that is to become a data set, as it was found."""

    root: Path
    pages: tuple[FoundPage, ...]

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """List the page folders that name no split; empty where there are fewer than two."""
        names = {page.group for page in self.pages if page.group is not None}
        return tuple(sorted(names)) if len(names) > 1 else ()

    @property
    def says_splits(self) -> bool:
        """Return whether folders name the pages of training."""
        return any(page.split == "member" for page in self.pages)

    @cached_property
    def usual_task(self) -> Task | None:
        """Suggest a task from the content of the pages; None where nothing suggests one."""
        documents = [read_document(self.root, page, "member", {}) for page in self.pages]
        kinds: tuple[tuple[TaskKind, bool], ...] = (
            ("parsing", any(document.output for document in documents)),
            ("question-answering", any(document.questions for document in documents)),
            ("intent-slots", any(document.intent for document in documents)),
            ("document-classification", any(document.label for document in documents)),
            ("token-classification", any(document.entities for document in documents)),
        )
        return next((Task(kind) for kind, suggested in kinds if suggested), None)


def open_folder(path: Path, *, ignore_format: bool = False) -> PageFolder:
    """Find the pages of a folder that has no manifest.

    Args:
        path: the folder.
        ignore_format: take it as a folder of pages even where it looks like a format that can be imported.

    Raises:
        UsageError: it is none, has a manifest, looks like a format to import, or holds no page.
        ManifestError: an image cannot be read.
    """
    if not path.is_dir():
        raise UsageError(f"{path}: no such folder", "give the folder of your page images")
    if (path / manifests.FILE_NAME).exists():
        raise UsageError(f"{path} has a {manifests.FILE_NAME} already", f"look at it with: docaudit inspect {path}")
    # Importers are many and heavy.
    from audit.importers.registry import guess_format, suggest_import

    found = None if ignore_format else guess_format(path)
    if found is not None:
        raise UsageError(
            f"{path} looks like the format {found}, whose labels would be lost here",
            f"docaudit import {suggest_import(found, path)}; to import it as plain pages: --ignore-format",
        )
    return PageFolder(path.resolve(), find_pages(path.resolve()))


def task_of(model: Path, folder: PageFolder) -> tuple[Task, str]:
    """Return the task of a checkpoint on these pages, and the name of what it was told by.

    Configurations do not tell models that write pages from those that answer questions: the pages do, by their outputs.

    Raises:
        TargetError: it cannot be told.
    """
    found = recognise_task(model)
    usual = folder.usual_task
    if found.task.kind == "question-answering" and usual is not None and usual.kind == "parsing":
        return usual, f"{found.architecture}, and the pages have outputs"
    return found.task, found.architecture


def initialise(folder: PageFolder, answers: Answers) -> Initialised:
    """Write manifest.toml and documents.jsonl into the folder, and validate them; no page is touched.

    Raises:
        UsageError: the task is not known, or a file of names cannot be read.
        ManifestError: a file names a page that there is not, or what lies beside a page cannot be read.
        EngineError: the folder cannot be written.
    """
    task = answers.task or folder.usual_task
    if task is None:
        raise UsageError("the task of the model is not known", "give --model MODEL_DIR or --task KIND")
    splits, membership = _divide(folder, answers)
    usual: GroupMeaning = "label" if task.kind == "document-classification" else "provider"
    meaning = answers.groups or (usual if folder.groups else "none")
    problems, documents = Problems(), []
    for page in steps("reading pages", folder.pages, len(folder.pages)):
        named: dict[str, Any] = {} if page.group is None or meaning == "none" else {meaning: page.group}
        with problems.catch():
            documents.append(read_document(folder.root, page, splits[page.id], named))
    problems.raise_if_any()
    if task.kind == "document-classification" and not task.labels:
        task = replace(task, labels=tuple(sorted({document.label for document in documents if document.label})))
    redaction = None if answers.mask is None else Redaction(answers.mask)
    name = answers.name or folder.root.name
    manifest = Manifest(1, name, task, membership, redaction=redaction)
    manifests.write(folder.root, manifest, documents, ending=EMPTY_SHEET)
    todo: tuple[str, ...] = ()
    try:
        manifests.load(folder.root)
    except ManifestError as error:
        todo = error.problems
    return Initialised(manifest, tuple(documents), todo, membership.drawn is not None)


def _divide(folder: PageFolder, answers: Answers) -> tuple[dict[str, Split], Membership]:
    """Return the split of every page: as files name them, else as folders do, else drawn, equal images together."""
    ids, stated = [page.id for page in folder.pages], Membership(answers.assigned or "official")
    if answers.members is not None:
        members = _find_pages(folder, answers.members, "--members")
        held = answers.heldout and _find_pages(folder, answers.heldout, "--heldout")
        both = sorted(members & (held or frozenset()))
        if both:
            raise UsageError(f"{both[0]} and {len(both) - 1} more pages are named by --members and by --heldout")
        others: Split = "heldout" if held is None else "public"
        named: dict[str, Split] = {name: "heldout" if name in (held or ()) else others for name in ids}
        return named | dict.fromkeys(members, "member"), stated
    if answers.heldout is not None:
        raise UsageError("--heldout names pages that were not trained on", "name those that were: --members FILE")
    if folder.says_splits:
        return {page.id: page.split or "public" for page in folder.pages}, stated
    if answers.assigned is not None:
        raise UsageError(
            "--assigned says how the pages of training were chosen, and nothing names them", "name them: --members FILE"
        )
    alike: dict[str, list[str]] = defaultdict(list)
    for page in folder.pages:
        alike[page.id if page.header is None else page.header.sha256].append(page.id)
    return assign(alike.values(), SHARES, answers.seed), Membership.drawn_now("random", "docaudit init")


def _find_pages(folder: PageFolder, path: Path, option: str) -> frozenset[str]:
    """Find the ids of the pages that a file names; refuse the name of two files in two folders."""
    names = read_names(path, option)
    files = Counter(form for page in folder.pages for form in {PurePath(page.path).name, PurePath(page.path).stem})
    for name in names:
        if (several := files[str(PurePath(name))]) > 1:
            raise ManifestError(f"{option} {printable(name)} names {several} pages", "give its path")
    return find_named(names, [page.id for page in folder.pages], option)
