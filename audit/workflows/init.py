"""The first command of an audit: the task of a model, the format of a source, and a preview of the data set."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

from pydantic import TypeAdapter

from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, Document, TaskKind
from audit.corpus.problems import reason_refused
from audit.corpus.replacing import set_aside, settle
from audit.errors import ManifestError, TargetError, UsageError, listed
from audit.files import read_file
from audit.importers.divide import MUST
from audit.importers.interface import REPORT_NAME, Importer
from audit.importers.registry import FORMATS
from audit.targets.checkpoint.content import recognise_task
from audit.workflows import wording

CONFIGURATIONS = ("config.json", "adapter_config.json")
PLAIN = "pages"
"""The format of a folder that looks like no other."""
MAX_FILES, MAX_CHARACTERS = 20, 10_000_000
"""Files of a pattern that are looked into to guess a format, and how far."""
DOCUMENTS = "documents.jsonl"
WRITTEN = {manifests.FILE_NAME, DOCUMENTS, "documents.before-ocr.jsonl", "images", REPORT_NAME}
"""What a data set holds that docaudit wrote and nobody has added to."""
MARK = f"# {MUST.partition('{')[0]}".encode()
"""How a manifest begins that docaudit wrote."""
PREVIEWED = 3
FIRST_WORDS, SHOWN = 8, 3
"""Words, and fields or questions, that a preview shows of a document."""
Row = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class ModelTask:
    """What a model was trained to do.

    Attributes:
        kind: None where nothing says it.
        labels: in the order of its outputs, where it names them.
        generative: it answers questions or writes pages, which its configuration does not tell.
        architecture: that says it; empty where the owner does.
    """

    kind: TaskKind | None
    labels: tuple[str, ...] = ()
    generative: bool = False
    architecture: str = ""


def task_of(model: Path | None, stated: TaskKind | None) -> ModelTask:
    """Return the owner's task, else that of the model, with the labels that the model names for it.

    Raises:
        TargetError: neither says it.
    """
    if model is None:
        return ModelTask(stated)
    try:
        found = recognise_task(model)
    except TargetError:
        if stated is None:
            raise
        return ModelTask(stated)
    if stated is not None and stated != found.task.kind:
        return ModelTask(stated)
    generative = stated is None and found.task.kind == "question-answering"
    return ModelTask(
        found.task.kind, found.task.labels, generative, "" if stated else found.architecture
    )


def read_labels(given: str) -> tuple[str, ...]:
    """Read a model's labels in the order of its outputs.

    Args:
        given: names with commas between them, a file with one a line, or a checkpoint's folder or
            config.json, whose id2label is read.

    Raises:
        UsageError: it is none of these, or holds no names.
    """
    path = Path(given)
    path = path / "config.json" if path.is_dir() else path
    try:
        if "," in given and not path.exists():
            names = given.split(",")
        elif path.suffix == ".json":
            found = json.loads(read_file(path))["id2label"]
            names = [str(found[key]) for key in sorted(found, key=int)]
        else:
            names = read_file(path).decode("utf-8-sig").splitlines()
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        names = []
    labels = tuple(name for text in names if (name := text.strip()))
    if not labels:
        raise UsageError(*wording("no_labels", given=given))
    return labels


def places_of(first: Path, second: Path | None) -> tuple[Path | None, Path]:
    """Return the model and the source of two arguments; one alone may be either.

    Raises:
        UsageError: the source comes first, or there is none.
    """
    is_model = any((first / name).is_file() for name in CONFIGURATIONS)
    if second is None and is_model:
        found = recognise_task(first)
        raise UsageError(
            *wording(
                "model_alone", model=first, task=found.task.kind, architecture=found.architecture
            )
        )
    if second is None:
        return None, first
    if not is_model and any((second / name).is_file() for name in CONFIGURATIONS):
        raise UsageError(
            f"{second} is the model, which comes first", f"docaudit init {second} {first}"
        )
    return first, second


def format_of(source: Path, named: str | None) -> Importer:
    """Return the importer of a source: as it is named, as its files look, else that of plain pages.

    Raises:
        UsageError: there is no such source or format, or a file looks like no format.
    """
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder", "give what the model was trained on")
    if named is not None and named not in FORMATS:
        raise UsageError(
            f"--format {named}: no format has this name", f"one of {listed(list(FORMATS), 'or')}"
        )
    if named is None and (source / manifests.FILE_NAME).exists():
        named = PLAIN
    found = named or guess_format(source) or (PLAIN if source.is_dir() else None)
    if found is None:
        raise UsageError(
            f"{source} looks like no format that can be imported", "name it: --format NAME"
        )
    return FORMATS[found]


def guess_format(path: Path) -> str | None:
    """Return the name of the import format that a folder or file looks like.

    None where it looks like none.
    """
    _read_beginning.cache_clear()
    return next(
        (name for name, one in FORMATS.items() if any(_has(path, *mark) for mark in one.marks)),
        None,
    )


def _has(path: Path, pattern: str, content: str) -> bool:
    """Test whether a file of this name, in the folder or one below it, holds a text."""
    if path.is_file():
        files = [path] if path.match(pattern) else []
    else:
        files = [*islice(_files_inside(path, pattern), MAX_FILES)]
    return any(not content or re.search(content, _read_beginning(file)) for file in files)


def _files_inside(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield files of this name in a folder or one below it.

    A link that leads out of the folder is not followed.
    """
    root = folder.resolve()
    below = folder.glob(f"*/{pattern}") if "/" not in pattern else ()
    for file in chain(folder.glob(pattern), below):
        leads_out = reason_refused(root, str(file.relative_to(folder))) is not None
        if not leads_out and file.is_file():
            yield file


@lru_cache(maxsize=MAX_FILES)
def _read_beginning(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_CHARACTERS)
    except OSError:
        return ""


@contextmanager
def replaced(dst: Path, *, overwrite: bool, in_place: bool = False) -> Iterator[None]:
    """Put a data set that docaudit wrote aside while the block writes another, and back where the block fails.

    What a killed run had put aside is put back first, or removed where its new data set is
    complete.

    Args:
        dst: the folder; where it holds no data set, or need not be replaced, nothing is done.
        overwrite: it is to be replaced.
        in_place: only its manifest is, and the documents file with it.

    Raises:
        UsageError: the folder holds more than a data set that docaudit wrote.
        EngineError: another command is replacing it.
    """
    file = dst / manifests.FILE_NAME
    folder = dst.resolve()
    manifest = folder / manifests.FILE_NAME
    in_folder = [manifest, folder / DOCUMENTS]
    for places in ([folder], in_folder):
        settle(places, manifest)
    if in_place and file.exists() and not overwrite:
        raise UsageError(*wording("data_set_there", dst=dst, file=manifests.FILE_NAME))
    if not overwrite or not file.is_file():
        yield
        return
    extra = [] if in_place else sorted({path.name for path in dst.iterdir()} - WRITTEN)
    if extra or dst.is_symlink() or not read_file(file).startswith(MARK):
        more = f": {', '.join(extra[:3])}" if extra else ""
        raise UsageError(
            f"{dst} holds more than a data set that docaudit wrote{more}", "name a new folder"
        )
    with set_aside(in_folder if in_place else [folder], manifest):
        yield


@dataclass(frozen=True)
class Made:
    """A data set that was just written: its documents, whether they were drawn, and what is still to be filled in."""

    documents: Sequence[Document]
    drawn: bool
    todo: Sequence[str] = ()


def read_made(dst: Path) -> Made:
    """Read a data set, also one that is not valid yet."""
    try:
        corpus = manifests.load(dst)
    except ManifestError as error:
        lines = (dst / DOCUMENTS).read_bytes().splitlines()
        return Made(
            [TypeAdapter(Document).validate_json(line) for line in lines], False, error.problems
        )
    return Made(corpus.documents, corpus.manifest.membership.drawn is not None)


def preview(documents: Sequence[Document], *, with_text: bool) -> Iterator[Row]:
    """Yield the rows of a few documents, one of each split first: id, split, first words, fields, questions.

    Args:
        documents: of a data set.
        with_text: show what stands on the pages; else numbers of it, as for a log that other people
            read.
    """
    firsts = (next((one for one in documents if one.split == split), None) for split in SPLITS)
    for one in [*dict.fromkeys([*filter(None, firsts), *documents])][:PREVIEWED]:
        fields = [f"{entity.label}: {one.text_of(entity)}" for entity in one.entities]
        fields += [f"class: {one.label}"] if one.label else []
        asked = [
            f"{question.question} -> {' | '.join(question.answers)}" for question in one.questions
        ]
        if with_text:
            words = " ".join(word.text for word in one.words[:FIRST_WORDS])
            more = " ..." if len(one.words) > FIRST_WORDS else ""
            yield one.id, one.split, words + more or "-", _some(fields), _some(asked)
        else:
            yield one.id, one.split, str(len(one.words)), str(len(fields)), str(len(asked))


def _some(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return "; ".join([*texts[:SHOWN], *more]) or "-"
