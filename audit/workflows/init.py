"""The first command of an audit: a model's task, a source's format, a preview of the data set."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

from pydantic import TypeAdapter

from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, WRITING, Document, TaskKind
from audit.corpus.problems import reason_refused
from audit.corpus.replacing import set_aside, settle
from audit.errors import ManifestError, TargetError, UsageError, listed, typed
from audit.files import decode_text, encoding_of, read_file
from audit.importers.divide import MUST
from audit.importers.faults import shown_path
from audit.importers.interface import REPORT_NAME, Importer
from audit.importers.page_folder import unused_beside
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.targets.asked import lacks_prompt
from audit.targets.checkpoint.content import recognise_task
from audit.targets.places import downloads_of, what_is
from audit.workflows import wording
from audit.workflows.apart import refuse_audited
from audit.workflows.places import quoted, refuse_model

FORM = "docaudit init {model} {data}"
"""How the command is written."""
PLAIN = "pages"
"""The format of a folder that looks like no other."""
MAX_FILES = 20
"""Files of a pattern that are looked into to guess a format."""
MAX_CHARACTERS = 10_000_000
"""Characters of each that are looked at."""
DOCUMENTS = "documents.jsonl"
WRITTEN = {manifests.FILE_NAME, DOCUMENTS, "documents.before-ocr.jsonl", "images", REPORT_NAME}
"""What a data set holds that docaudit wrote and nobody has added to."""
MARK = f"# {MUST.partition('{')[0]}".encode()
"""How a manifest begins that docaudit wrote."""
PREVIEWED = 3
"""Documents that a preview shows."""
FIRST_WORDS = 8
"""Words of a document that a preview shows."""
SHOWN = 3
"""Fields, and questions, of a document that a preview shows."""
Row = tuple[str, str, str, str, str]
"""Id, split, first words, fields and questions of a document."""


@dataclass(frozen=True)
class ModelTask:
    """What a model was trained to do.

    Attributes:
        kind: kind of the task; None where nothing says it, or not which of several.
        labels: labels in the order of its outputs, where it names them.
        possible: the tasks that it can have: of a model that writes its configuration does not tell
            whether it answers questions; empty where nothing says them.
        architecture: architecture that says the kind; empty where the owner does.
    """

    kind: TaskKind | None
    labels: tuple[str, ...] = ()
    possible: tuple[TaskKind, ...] = ()
    architecture: str = ""

    @property
    def phrase(self) -> str:
        """Name the task for a message, or those that it may be."""
        return self.kind or listed(self.possible, "or")


def task_of(model: Path | None, stated: TaskKind | None) -> ModelTask:
    """Return the owner's task, else that of the model, with the labels that the model names for it.

    Raises:
        TargetError: neither says it, or the model cannot do the owner's task.
    """
    if model is None:
        return ModelTask(stated)
    if what_is(model).kind == "address":
        return ModelTask(stated, (), WRITING, "" if stated else "a served model")
    try:
        recognised = recognise_task(model)
    except TargetError:
        if stated is None:
            raise
        return ModelTask(stated)
    task = recognised.task
    if stated is None:
        kind = None
        if len(recognised.possible) == 1:
            kind = task.kind
        return ModelTask(kind, task.labels, recognised.possible, recognised.architecture)
    if stated not in recognised.possible:
        raise TargetError(
            *wording(
                "other_head",
                task=stated,
                model=model,
                architecture=recognised.architecture,
                possible=listed(recognised.possible, "or"),
                first=recognised.possible[0],
            )
        )
    labels: tuple[str, ...] = ()
    if stated == task.kind:
        labels = task.labels
    return ModelTask(stated, labels, recognised.possible)


def read_labels(given: str) -> tuple[str, ...]:
    """Read a model's labels in the order of its outputs.

    Args:
        given: names with commas between them, a file with a name a line, or a checkpoint's folder
            or config.json, whose id2label is read.

    Raises:
        UsageError: it is none of these, or holds no names.
    """
    try:
        names = _label_names(given)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        names = []
    stripped = [name.strip() for name in names]
    labels = tuple(name for name in stripped if name)
    if not labels:
        raise UsageError(*wording("no_labels", given=given))
    return labels


def _label_names(given: str) -> list[str]:
    """Read label names: a text with commas, a model's config.json, or a file with one a line."""
    path = Path(given)
    if path.is_dir():
        path = path / "config.json"
    if "," in given and not path.exists():
        return given.split(",")
    if path.suffix == ".json":
        id2label = json.loads(read_file(path))["id2label"]
        return [str(id2label[key]) for key in sorted(id2label, key=int)]
    return decode_text(read_file(path)).splitlines()


def places_of(first: Path, second: Path | None) -> tuple[Path | None, Path]:
    """Return the model and the source of two arguments; one alone may be either.

    Raises:
        UsageError: the source comes first, or there is none.
        TargetError: the model cannot be audited.
    """
    place = what_is(first)
    if second is None and not place.is_model:
        return None, first
    if second is not None and not place.is_model and what_is(second).is_model:
        right = f"docaudit init {quoted(second)} {quoted(first)}"
        raise UsageError(f"{typed(second)} is the model, which comes first", right)
    refuse_model(place, second or Path("SOURCE"), FORM)
    if second is None:
        told = task_of(first, None)
        name = typed(first)
        texts = wording("model_alone", model=name, task=told.phrase, architecture=told.architecture)
        raise UsageError(*texts)
    return first, second


def format_of(source: Path, named: str | None) -> Importer:
    """Return the importer of a source: as named, as its files look, else that of plain pages.

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
    name = named or guess_format(source)
    if name is None and source.is_dir():
        name = PLAIN
    if name is None:
        raise UsageError(
            f"{source} looks like no format that can be imported", "name it: --format NAME"
        )
    return FORMATS[name]


def check_unused(
    source: Path, importer: Importer, named: str | None, statements: Sequence[Path | None]
) -> list[str]:
    """Return the files beside plain pages that docaudit does not read.

    Args:
        source: the folder.
        importer: the importer of its format.
        named: the format that the owner names; None: it is guessed.
        statements: files in which the owner says what was trained on.

    Raises:
        UsageError: there are such files, and nobody says that the folder is one of plain pages.
    """
    if importer.name != PLAIN or not source.is_dir():
        return []
    allowed = {_real(path) for path in filter(None, statements)}
    allowed.update(_real(source) / name for name in WRITTEN)
    unused = [path for path in unused_beside(source) if _real(source / path) not in allowed]
    is_guess = named is None and not (source / manifests.FILE_NAME).exists()
    if unused and is_guess:
        raise _unused_error(source, unused)
    return unused


def _real(path: Path) -> Path:
    """Return a path without links; one of links that lead in a circle stays as it is."""
    return Path(os.path.realpath(path))


def _unused_error(source: Path, unused: Sequence[str]) -> UsageError:
    """Return the error of files beside plain pages that may describe them."""
    names = list(map(shown_path, unused[:SHOWN]))
    if len(unused) > SHOWN:
        names.append(f"{len(unused) - SHOWN} more")
    return UsageError(
        f"{source} looks like plain pages alone, which do not use {listed(names, 'and')}",
        "if these files describe the pages, name their format: --format NAME; "
        "if not: --format pages",
    )


def guess_format(path: Path) -> str | None:
    """Return the name of the import format that a folder or file looks like.

    None where it looks like none.
    """
    _read_beginning.cache_clear()
    for name, importer in FORMATS.items():
        if any(_has(path, *mark) for mark in importer.marks):
            return name
    return None


def _has(path: Path, pattern: str, content: str) -> bool:
    """Test whether a file of this name, in the folder or one below it, holds a text."""
    if not path.is_file():
        files = [*islice(_files_inside(path, pattern), MAX_FILES)]
    elif path.match(pattern):
        files = [path]
    else:
        files = []
    return any(not content or re.search(content, _read_beginning(file)) for file in files)


def _files_inside(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield files of this name in a folder or one below it.

    A link that leads out of the folder is not followed.
    """
    root = folder.resolve()
    patterns = [pattern]
    if "/" not in pattern:
        patterns.append(f"*/{pattern}")
    for file in chain.from_iterable(map(folder.glob, patterns)):
        leads_out = reason_refused(root, str(file.relative_to(folder))) is not None
        if not leads_out and file.is_file():
            yield file


@lru_cache(maxsize=MAX_FILES)
def _read_beginning(path: Path) -> str:
    """Read the beginning of a text file; nothing where it cannot be read."""
    try:
        with path.open("rb") as stream:
            encoding = encoding_of(stream.read(4))
        with path.open(encoding=encoding, errors="replace") as stream:
            return stream.read(MAX_CHARACTERS)
    except OSError:
        return ""


def place_beside(source: Path) -> Path:
    """Return the folder of a new data set that is named after its source.

    It lies in the current folder, or beside the source where that is inside of it.
    """
    name = f"{source.resolve().stem}-audit"
    if source.is_dir() and Path.cwd().is_relative_to(source.resolve()):
        return source.resolve().with_name(name)
    return Path(name)


def check_written(option: str, request: ImportRequest) -> None:
    """Refuse to write a data set into its source, into another data set, or into a model.

    Args:
        option: option or argument that names where it is written.
        request: what is imported, and to where; in place it is the source itself.

    Raises:
        UsageError: it would lie there.
    """
    written = request.dst
    refuse_audited(option, written.resolve().parent)
    for folder in request.folders:
        if request.is_in_place or not folder.is_dir():
            continue
        if written.resolve().is_relative_to(folder.resolve()):
            texts = wording("written_in_source", option=option, written=written, path=folder)
            raise UsageError(*texts)


@contextmanager
def replaced(dst: Path, *, overwrite: bool, in_place: bool = False) -> Iterator[None]:
    """Put a data set that docaudit wrote aside while the block writes another.

    It is put back where the block fails. What a killed run had put aside is put back first, or
    removed where its new data set is complete.

    Args:
        dst: folder of the data set; where it holds none, or need not be replaced, nothing is done.
        overwrite: whether it is to be replaced.
        in_place: whether only its manifest is, and the documents file with it.

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
    _refuse_foreign(dst, in_place)
    with set_aside(in_folder if in_place else [folder], manifest):
        yield


def _refuse_foreign(dst: Path, in_place: bool) -> None:
    """Refuse to replace a data set that docaudit did not write, or files that somebody added."""
    extra: list[str] = []
    if not in_place:
        extra = sorted({path.name for path in dst.iterdir()} - WRITTEN)
    if extra or dst.is_symlink() or not read_file(dst / manifests.FILE_NAME).startswith(MARK):
        more = f": {', '.join(extra[:3])}" if extra else ""
        raise UsageError(
            f"{dst} holds more than a data set that docaudit wrote{more}", "name a new folder"
        )


@dataclass(frozen=True)
class NextSteps:
    """Commands that follow, and the line above them."""

    title: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """A data set that was just written.

    Attributes:
        documents: its documents.
        drawn: whether its members were drawn.
        todo: what is still to be filled in.
    """

    documents: Sequence[Document]
    drawn: bool
    todo: Sequence[str] = ()


FIRST_COMMANDS = ("inspect", "plan", "scan")
"""Commands on a new data set and its model, in the order that README and guides show too."""
CHECK = "inspect"
"""The one of them that also serves while something is still to be filled in."""


def next_steps(dst: Path, model: Path | None, made: Made, look: str) -> NextSteps:
    """Return the commands that follow on a new data set.

    Where something is still to be filled in, the check of the data set is the last of them.

    Args:
        dst: folder of the data set.
        model: model that it is for; None while it is still to be trained.
        made: what was written.
        look: options of a first scan.
    """
    shown = "MODEL_DIR"
    commands: list[str] = []
    reference = ""
    if model is not None:
        shown = quoted(model)
        commands += downloads_of(model)
        if commands:
            reference = " --reference pretrained=BASE"
    for name in FIRST_COMMANDS:
        options = ""
        if name == "scan":
            options = f" {look}"
        if name == CHECK or not made.todo:
            commands.append(f"docaudit {name} {shown} {quoted(dst)}{options}{reference}")
    return _titled(commands, made)


def next_steps_of_text(dst: Path, made: Made) -> NextSteps:
    """Return the commands that follow on a new data set which is audited without a model."""
    commands = [f"docaudit {CHECK} {quoted(dst)}"]
    if not made.todo:
        commands.append(f"docaudit scan --no-model {quoted(dst)}")
    return _titled(commands, made)


def _titled(commands: Sequence[str], made: Made) -> NextSteps:
    """Put above the commands when to run them."""
    title = "When that is filled in:" if made.todo else "Next:"
    return NextSteps(title, tuple(commands))


def read_made(dst: Path, model: Path | None) -> Made:
    """Read a data set, also one that is not valid yet.

    Args:
        dst: its folder.
        model: model that it is for; None while it is still to be trained.
    """
    try:
        corpus = manifests.load(dst)
    except ManifestError as error:
        lines = (dst / DOCUMENTS).read_bytes().splitlines()
        return Made(
            [TypeAdapter(Document).validate_json(line) for line in lines], False, error.problems
        )
    todo: tuple[str, ...] = ()
    manifest = corpus.manifest
    has_prompt = manifest.recipe.prompt is not None
    if model is not None and not has_prompt and lacks_prompt(model, manifest.task.kind):
        todo = wording(f"no_prompt_of_{manifest.task.kind}", manifest=dst / manifests.FILE_NAME)
    return Made(corpus.documents, manifest.membership.drawn is not None, todo)


def preview(documents: Sequence[Document], *, with_text: bool) -> Iterator[Row]:
    """Yield the rows of a few documents, the first of each split before the others.

    Args:
        documents: documents of a data set.
        with_text: whether to show what stands on the pages; else numbers of it, as for a log that
            other people read.
    """
    for document in _choose_previewed(documents):
        fields = [f"{entity.label}: {document.text_of(entity)}" for entity in document.entities]
        if document.label:
            fields.append(f"class: {document.label}")
        questions = [
            f"{question.question} -> {' | '.join(question.answers)}"
            for question in document.questions
        ]
        if with_text:
            words = _first_words(document)
            yield document.id, document.split, words, _some(fields), _some(questions)
        else:
            n_words = str(len(document.words))
            n_fields = str(len(fields))
            n_questions = str(len(questions))
            yield document.id, document.split, n_words, n_fields, n_questions


def _choose_previewed(documents: Sequence[Document]) -> list[Document]:
    """Choose a few documents, the first of each split before the others."""
    firsts: list[Document] = []
    for split in SPLITS:
        of_split = (document for document in documents if document.split == split)
        firsts += islice(of_split, 1)
    return [*dict.fromkeys([*firsts, *documents])][:PREVIEWED]


def _first_words(document: Document) -> str:
    """Return how a document begins; a dash where it has no words."""
    beginning = " ".join(word.text for word in document.words[:FIRST_WORDS])
    if len(document.words) > FIRST_WORDS:
        beginning += " ..."
    return beginning or "-"


def _some(texts: Sequence[str]) -> str:
    """Join the first texts, with the number of the others; a dash where there are none."""
    lines = list(texts[:SHOWN])
    if len(texts) > SHOWN:
        lines.append(f"and {len(texts) - SHOWN} more")
    return "; ".join(lines) or "-"
