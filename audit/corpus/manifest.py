"""Reading, validating and writing a data set: `manifest.toml` and one JSON object a line."""

import codecs
import dataclasses
import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import tomli_w
from pydantic import TypeAdapter, ValidationError

from audit.corpus import validation
from audit.corpus.canaries.schema import parse_canaries
from audit.corpus.canaries.validation import set_problems
from audit.corpus.documents import Corpus, Document, Manifest, Task
from audit.corpus.images import LARGE, DocumentFile, read_header
from audit.corpus.outputs import fields_of_output
from audit.corpus.problems import TEXTS, Problems, inside, reason_refused
from audit.errors import EngineError, ManifestError, UsageError, printable
from audit.files import (
    Fetch,
    mark_underway,
    read_file,
    read_toml,
    remove_abandoned,
    write_atomically,
)
from audit.progress import steps

FILE_NAME = "manifest.toml"
SCHEMA = 1
QUESTION = "{question}"
_LONGEST_LINE = 64 << 20
"""Bytes of a document in the documents file: a densely written page has under one million."""
_HINT = "correct the data set, then look at it with: docaudit inspect DATA_DIR"

_manifest_type = TypeAdapter(Manifest)
_document_type = TypeAdapter(Document)


def load(data_dir: Path, known: Mapping[str, str] | None = None) -> Corpus:
    """Read and validate a data set.

    Images are read once for their hash and header; no pixel is decoded (`images.open_image` does
    that). Reference paths must stay inside DATA_DIR; the code that opens them checks whether they
    exist. The corpus' sha256 is taken over the sha256 (raw bytes) of the manifest without its table
    [audit], of the documents file, of the image of every document that has one, in file order, and
    of the canary file where there is one.

    Args:
        data_dir: the folder that holds `manifest.toml`.
        known: the hashes of its images where they do not lie there, found when they were read
            elsewhere.

    Raises:
        ManifestError: one error with every problem and its path (the first 50 of many).
    """
    content = read_manifest(data_dir)
    root = data_dir.resolve()
    problems = Problems()
    table = _manifest_table(content)
    manifest = _manifest_of(root, table, problems)
    file_name = table.get("documents", "documents.jsonl")
    digests = [hashlib.sha256(validation.without_sheet(content, table)).digest()]
    hashes = dict(known or {})
    task = None if manifest is None else manifest.task
    documents: list[Document] = []
    if isinstance(file_name, str):
        documents = _documents(root, file_name, task, problems, digests, hashes)
    if manifest is not None and manifest.canaries is not None:
        corpus = Corpus(root, manifest, tuple(documents), "")
        _canaries(corpus, manifest.canaries.file, problems, digests)
    problems.raise_if_any(_HINT)
    assert manifest is not None  # its absence is a problem, and was raised
    sha256 = hashlib.sha256(b"".join(digests)).hexdigest()
    return Corpus(root, manifest, tuple(documents), sha256, hashes)


def check_references(corpus: Corpus) -> None:
    """Refuse a data set that names a reference model which is not there.

    `load` does not: a copy of a data set may come without its references, and some commands make
    them.

    Raises:
        ManifestError: one error with every problem.
    """
    missing: list[str] = []
    for key, path in _named_paths(corpus.manifest):
        if key.startswith("references.") and not (corpus.root / path).is_dir():
            missing.append(f"{FILE_NAME} {key}: {path} is not a folder")
    if missing:
        raise ManifestError(missing)


def open_elsewhere(corpus: Corpus) -> Callable[[Fetch], Corpus]:
    """Return a function that loads the data set in another process; it can be pickled.

    That process fetches an image when it looks at it. There an `EngineError` says that a file has
    changed.
    """
    canaries = () if corpus.manifest.canaries is None else (corpus.manifest.canaries.file,)
    names = (FILE_NAME, corpus.manifest.documents, *canaries)
    return partial(_open, corpus.root, names, corpus.hashes, corpus.sha256)


def _open(
    root: Path, names: Sequence[str], hashes: Mapping[str, str], sha256: str, fetch: Fetch
) -> Corpus:
    """Load a fetched data set in another process; fail where it has changed."""
    corpus = load(fetch(root, names), hashes)
    _refuse_changed("the data set", corpus.sha256, sha256)
    return dataclasses.replace(corpus, bring=partial(_fetch_image, root, hashes, fetch))


def _fetch_image(root: Path, hashes: Mapping[str, str], fetch: Fetch, name: str) -> Path:
    """Fetch one page image of a data set, and return its path; fail where it has changed."""
    path = fetch(root, (name,)) / name
    _refuse_changed(name, read_header(path).sha256, hashes[name])
    return path


def _refuse_changed(name: str, found: str, known: str) -> None:
    """Raise an error where the sha256 of a file differs from the one read before."""
    if found != known:
        raise EngineError(
            f"{name} has changed since it was read first", "start again, and leave it alone"
        )


def write(
    data_dir: Path,
    manifest: Manifest,
    documents: Sequence[Document],
    comments: Sequence[str] = (),
    ending: str = "",
) -> None:
    """Write `manifest.toml` and the documents file; fields that hold their default are left out.

    All content is made before a file is touched, and each file appears complete or not at all; the
    manifest comes last. What is written is not validated again beyond its types: `load` does that.

    Args:
        data_dir: an existing folder, or one to be made. Images are for the caller to put there.
        manifest: the settings; its `documents` says where the documents go.
        documents: the documents in the order of their lines.
        comments: lines for people, at the top of the manifest.
        ending: ending of the manifest, as it is written.

    Raises:
        ManifestError: `manifest.documents` leads out of `data_dir`.
        EngineError: the files cannot be written.
    """
    above = "".join(f"# {' '.join(comment.split())}\n" for comment in comments)
    settings = above + tomli_w.dumps(_plain(manifest)) + ending
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        documents_file = inside(data_dir.resolve(), manifest.documents)
        documents_file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(documents_file, lines_of(documents))
        write_atomically(data_dir / FILE_NAME, settings.encode())
    except OSError as error:
        raise EngineError(
            f"{data_dir}: the data set cannot be written: {error.strerror}"
        ) from error


def lines_of(documents: Sequence[Document]) -> bytes:
    """Return the content of a documents file; fields that hold their default are left out."""
    return "".join(
        json.dumps(_plain(document), ensure_ascii=False) + "\n" for document in documents
    ).encode()


def _plain(value: Any) -> Any:
    """Convert dataclasses to dicts without defaults, tuples to lists, whole floats to ints."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    defaults = _defaults(value.__class__)
    if not defaults:
        return value
    table: dict[str, Any] = {}
    for name, default in defaults.items():
        content = getattr(value, name)
        if content != default:
            table[name] = _plain(content)
    return table


@cache
def _defaults(kind: type) -> dict[str, Any]:
    """Return the default of each field of a dataclass; nothing for another type."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    # A bounded default (`ge=1`) is inside pydantic's description.
    return {field.name: getattr(field.default, "default", field.default) for field in fields}


def read_manifest(data_dir: Path) -> bytes:
    """Read the manifest of a data set, or explain what the folder holds in its place.

    Raises:
        ManifestError: there is no such folder, or no manifest in it.
    """
    if not data_dir.is_dir():
        raise ManifestError(f"{data_dir}: no such folder")
    root = data_dir.resolve()
    try:
        return _read(root, FILE_NAME)
    except ManifestError as error:
        reason = str(error)
    is_model = any((root / name).is_file() for name in ("config.json", "adapter_config.json"))
    hint = TEXTS["checkpoint_given" if is_model else "no_manifest"]
    there = (root / FILE_NAME).exists()
    raise ManifestError(
        f"{FILE_NAME}: {reason}" if there else f"{FILE_NAME} is missing in {data_dir}", hint
    )


def _refusal(root: Path, relative: str) -> str | None:
    """Explain why a file of the data set cannot be read; None when it can."""
    path = root / relative
    reason = reason_refused(root, relative)
    if reason is not None or path.is_file():
        return reason
    return "not a regular file" if path.exists() else f"{path.name} is missing in {path.parent}"


def _read(root: Path, relative: str) -> bytes:
    """Read a file of the data set.

    Raises:
        ManifestError: it is missing, is no regular file, leaves the folder, or cannot be read.
    """
    if reason := _refusal(root, relative):
        raise ManifestError(reason)
    try:
        return read_file(root / relative)
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}") from None


def _manifest_table(content: bytes) -> dict[str, Any]:
    """Parse a manifest.

    Raises:
        ManifestError: it is no TOML, or of another schema.
    """
    try:
        table = read_toml(content)
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{FILE_NAME}: not UTF-8 at byte {error.start}", "save the file as UTF-8"
        ) from None
    except ValueError as error:
        raise ManifestError(printable(f"{FILE_NAME}: broken TOML: {error}")) from None
    schema = table.get("schema")
    if schema is not None and (type(schema) is not int or schema != SCHEMA):
        raise ManifestError(
            f"{FILE_NAME} schema: this version of docaudit reads schema {SCHEMA} only"
        )
    return table


def _manifest_of(root: Path, table: dict[str, Any], problems: Problems) -> Manifest | None:
    """Make the manifest of its table and collect its problems; None where it has another form."""
    sheet = validation.sheet_of(
        table.get(validation.SHEET_KEY, {}), problems, f"{FILE_NAME} {validation.SHEET_KEY}"
    )
    try:
        manifest = _manifest_type.validate_python({**table, validation.SHEET_KEY: sheet})
    except ValidationError as error:
        problems.add(FILE_NAME, validation.form_problems(error))
        return None
    problems.add(FILE_NAME, validation.label_problems(manifest.task))
    problems.add(FILE_NAME, _setting_problems(manifest))
    for key, path in _named_paths(manifest):
        if reason := reason_refused(root, path):
            problems.add(FILE_NAME, [f"{key}: {reason}"])
    return manifest


def _setting_problems(manifest: Manifest) -> Iterator[str]:
    """List what is wrong with the name, the draw, and what a model is asked with."""
    membership = manifest.membership
    if problem := validation.text_problem(manifest.name):
        yield f"name: {problem}"
    if (membership.drawn is None) != (membership.drawn_by is None):
        yield "membership: drawn (a day) and drawn_by (a command of docaudit) go together"
    recipe = manifest.recipe
    if recipe.prompt is not None:
        yield from _prompt_problems(recipe.prompt, manifest.task)
    for name, text in (("prompt", recipe.prompt), ("system", recipe.system)):
        if text is not None and (problem := validation.markup_problem(text)):
            yield f"recipe.{name}: {problem}"


def _prompt_problems(prompt: str, task: Task) -> Iterator[str]:
    """Say how often the question occurs in a prompt, where that is not as often as it should.

    It stands there once; beside the text of a document it may be missing. A parsing model is asked
    none.
    """
    count = prompt.count(QUESTION)
    if task.kind == "parsing":
        fitting = {0}
        rule = "a parsing model is asked no question"
    else:
        fitting = {0, 1} if "{text}" in prompt else {1}
        rule = "a question occurs there once"
    if count not in fitting:
        yield f'recipe.prompt: holds "{QUESTION}" {count} times; {rule}'


def _named_paths(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """List every path of the manifest itself, with its key: references and canaries."""
    for name, value in vars(manifest.references).items():
        paths = value if isinstance(value, tuple) else () if value is None else (value,)
        yield from ((f"references.{name}", path) for path in paths)
    if manifest.canaries is not None:
        yield "canaries.file", manifest.canaries.file


def _documents(
    root: Path,
    name: str,
    task: Task | None,
    problems: Problems,
    digests: list[bytes],
    hashes: dict[str, str],
) -> list[Document]:
    """Read the documents; appends to `digests` the documents file's sha256 and each image's.

    `hashes` gets those of the images, by their paths; where it has some, no image is read.
    """
    if reason := _refusal(root, name):
        problems.add(FILE_NAME, [f"documents: {reason}"])
        return []
    lines = _DocumentLines(root, name, task, problems, hashes)
    try:
        with (root / name).open("rb") as stream:
            lines.read(stream)
    except OSError as error:
        problems.add(FILE_NAME, [f"documents: {name} cannot be read: {error.strerror}"])
        return []
    documents = lines.documents
    digests.append(lines.digest)
    images = (document.image for document in documents if document.image is not None)
    digests.extend(bytes.fromhex(hashes[image]) for image in images if image in hashes)
    if task is not None:
        for key, unknown in validation.unknown_to_all(documents, task).items():
            problems.add(f"{name}:{lines.numbers[key]}", unknown)
    problems.add(f"{name}:", _member_problems(documents, task))
    return documents


class _DocumentLines:
    """Reads and checks the lines of a documents file.

    Args:
        root: the folder of the data set.
        name: path of the file within it.
        task: the data set's task; None where the manifest is broken.
        problems: list that problems are added to.
        hashes: hashes of images by path, to be added to; where it has some, no image is read.

    Attributes:
        documents: the documents so far.
        numbers: the number of the first line of each document.
    """

    def __init__(
        self,
        root: Path,
        name: str,
        task: Task | None,
        problems: Problems,
        hashes: dict[str, str],
    ) -> None:
        """Prepare to read documents from lines of the file `name`; `hashes` are of its images."""
        self.documents: list[Document] = []
        self.numbers: dict[str, int] = {}
        self._root = root
        self._name = name
        self._task = task
        self._problems = problems
        self._hashes = hashes
        self._reads_images = not hashes
        self._sha256 = hashlib.sha256()

    @property
    def digest(self) -> bytes:
        """Return the sha256 of the lines that were read."""
        return self._sha256.digest()

    def read(self, stream: BinaryIO) -> None:
        """Read all lines; documents of a large file stay in it until they are looked at."""
        n_lines = _count_lines(stream)
        stored = None
        if stream.tell() >= LARGE:
            stored = DocumentFile(self._root / self._name, partial(_parse, task=self._task))
        start = stream.seek(0)
        for number, line in enumerate(steps("checking documents", stream, n_lines), start=1):
            self._sha256.update(line)
            document = self._checked(line, number) if line.strip() else None
            if document is not None:
                if stored is not None:
                    document = stored.document(document, start, line)
                self.documents.append(document)
            start += len(line)

    def _checked(self, line: bytes, number: int) -> Document | None:
        """Read a line and collect its problems; None where it is no document."""
        place = f"{self._name}:{number}"
        try:
            document = _parse(line, self._task)
        except ValidationError as error:
            problems = validation.encoding_problem(line, self._name)
            self._problems.add(place, problems or validation.form_problems(error))
            return None
        first = self.numbers.setdefault(document.id, number)
        if first != number:
            self._problems.add(place, [f"id: in line {first} already ({document.id})"])
        image_problems = self._check_image(document)
        self._problems.add(place, validation.problems_of(document, self._task))
        self._problems.add(place, image_problems)
        return document

    def _check_image(self, document: Document) -> list[str]:
        """Return the problems of a document's image, and note its hash, where images are read."""
        if not self._reads_images:
            return []
        problems, header = validation.image_problems(self._root, document)
        if header is not None:
            self._hashes[str(document.image)] = header.sha256
        return problems


def _count_lines(stream: BinaryIO) -> int:
    """Count the lines of a documents file, each bounded, so that no line fills the memory."""
    count = 0
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise OSError(errno.EFBIG, f"a line of {_LONGEST_LINE >> 20} MiB or more")
        count += 1
    return count


def _member_problems(documents: Sequence[Document], task: Task | None) -> Iterator[str]:
    """List what a task lacks of the documents that its model was trained on."""
    members = [document for document in documents if document.split == "member"]
    if not members:
        yield "no document of split member that could be read"
    if task is not None:
        yield from _lacking_members(members, task)


def _lacking_members(members: Sequence[Document], task: Task) -> Iterator[str]:
    """List what no document of training has, and this task needs."""
    if task.kind == "spade-linking" and not any(document.links for document in members):
        yield "no document of split member has links, and task.kind is spade-linking"
    if task.asks and not any(document.questions for document in members):
        yield f"no document of split member has questions, and task.kind is {task.kind}"


def _canaries(corpus: Corpus, name: str, problems: Problems, digests: list[bytes]) -> None:
    """Check the canary file against the documents, and append its sha256 to `digests`."""
    if reason_refused(corpus.root, name) is not None:
        return  # a problem of the manifest, which has it already
    with problems.catch(f"{FILE_NAME} canaries.file:"):
        content = _read(corpus.root, name)
        digests.append(hashlib.sha256(content).digest())
        with problems.catch(name):
            problems.add(name, set_problems(parse_canaries(content), corpus))


def _parse(line: bytes, task: Task | None) -> Document:
    """Parse a line as a document; backslashes in its image's path become slashes."""
    document = _document_type.validate_json(line.removeprefix(codecs.BOM_UTF8), strict=True)
    changed: dict[str, object] = {}
    if document.image is not None and "\\" in document.image:
        changed["image"] = document.image.replace("\\", "/")
    is_parsed = task is not None and task.kind == "parsing"
    if is_parsed and document.output is not None and not document.questions:
        changed["questions"] = fields_of_output(document.output)
    if not changed:
        return document
    return cast("Document", dataclasses.replace(cast("Any", document), **changed))


def check_destination(dst: Path) -> None:
    """Refuse a destination that holds anything: what is written never mixes with what was there.

    Raises:
        UsageError: `dst` is a file, or a folder that is not empty.
    """
    if dst.is_symlink() or (dst.exists() and not dst.is_dir()):
        raise UsageError(f"{dst} is not a folder", "name a new folder")
    if dst.is_dir() and any(dst.iterdir()):
        raise UsageError(f"{dst} is not empty", "name a new folder")


@contextmanager
def draft_of(dst: Path, purpose: str) -> Iterator[Path]:
    """Give a new folder beside `dst`, renamed to `dst` when the block ends without an error.

    Else it is removed. What a killed process left of one goes before.

    Args:
        dst: does not exist, or is an empty folder.
        purpose: one word in the draft's name, so that what a killed run left can be recognised.

    Raises:
        EngineError: another command is writing the draft, or something cannot be written.
    """
    dst = dst.resolve()  # "." has no name to put a neighbour beside
    draft = dst.with_name(f".{dst.name}.{purpose}.tmp")
    remove_abandoned([draft])
    try:
        draft.mkdir(parents=True)
    except FileExistsError:
        reason = f"{draft}: another command is writing it"
        raise EngineError(reason, "wait for it; remove it if there is none") from None
    except OSError as error:
        raise EngineError(
            f"{draft} cannot be made: {error.strerror}", "choose another place"
        ) from error
    try:
        with mark_underway(draft):
            yield draft
            draft.replace(dst)
    except OSError as error:
        raise EngineError(
            f"{dst}: the data set cannot be written: {error.strerror or error}"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def copy_image(image: Path, draft: Path, relative: str) -> None:
    """Copy a page image to its path within a draft, unless it is there."""
    copy = draft / relative
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, copy)
