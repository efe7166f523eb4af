"""What every importer does alike: read doubtful text, report what it found, and put a finished data set in place."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, Box, Document, Manifest, Split
from audit.corpus.images import read_header
from audit.corpus.paths import inside, printable
from audit.corpus.validation import orientation_problem
from audit.errors import EngineError, ManifestError, UsageError

T = TypeVar("T")
REPORT_NAME = "import-report.json"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class ImportReport:
    """What an import found. Counts of fields cover every document of the source, also those left out of all splits.

    Attributes:
        documents: by split, and "left out".
        fields: by label, found or not.
        located: by label, then by how the field's words were found.
        not_located: by label, then by reason.
        duplicates: groups of documents with equal images, which stay in one split.
        unlocated: (document id, label, reason) of every field without words; no text.
        notes: other counts that an owner wants to know.
    """

    documents: Mapping[str, int]
    fields: Mapping[str, int]
    located: Mapping[str, Mapping[str, int]]
    not_located: Mapping[str, Mapping[str, int]]
    duplicates: tuple[tuple[str, ...], ...]
    unlocated: tuple[tuple[str, str, str], ...]
    notes: Mapping[str, int]


def split_sizes(names: Iterable[str], drawn: Mapping[str, Split]) -> dict[str, int]:
    """How many of the documents `names` went into each split, and how many were left out."""
    sizes = dict.fromkeys((*SPLITS, "left out"), 0)
    for name in names:
        sizes[drawn.get(name, "left out")] += 1
    return sizes


def read_text(path: Path) -> str:
    """The text of a file that should be UTF-8; when it is not, every byte as Latin-1, which never fails.

    Control characters (also what Latin-1 makes of Windows' typographic quotes) become spaces, except line ends.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return "\n".join(printing(line) for line in text.replace("\r\n", "\n").split("\n"))


def read_json(path: Path, kind: TypeAdapter[T]) -> T:
    """What a JSON file holds, once it has the form of `kind`.

    Raises:
        ManifestError: no JSON, or of another form; each problem with its place, no value.
    """
    try:
        return kind.validate_python(json.loads(read_text(path)))
    except (json.JSONDecodeError, RecursionError):
        raise ManifestError(f"{path.name} is not JSON") from None
    except ValidationError as error:
        raise ManifestError([f"{path.name} {problem}" for problem in form_problems(error)]) from None


def form_problems(error: ValidationError) -> tuple[str, ...]:
    """Each problem of a JSON value that has another form than wanted, with its place and without the value."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return tuple(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)


def printing(text: str) -> str:
    """`text` with control characters and lone surrogates replaced by spaces."""
    return _CONTROL.sub(" ", text)


def clipped(box: Sequence[float], size: tuple[int, int]) -> Box:
    """A box inside the page, its corners in order, rounded to a tenth of a pixel.

    Args:
        box: x0, y0, x1, y1 in pixels, in any order of corners.
        size: width and height of the page in pixels.
    """
    width, height = size
    xs = sorted(min(max(x, 0.0), float(width)) for x in (box[0], box[2]))
    ys = sorted(min(max(y, 0.0), float(height)) for y in (box[1], box[3]))
    return (round(xs[0], 1), round(ys[0], 1), round(xs[1], 1), round(ys[1], 1))


def source_files(src: Path, folder: str, suffixes: Sequence[str]) -> dict[str, Path]:
    """The files of `src`/`folder` with one of these suffixes, by stem, in order of their names.

    Raises:
        UsageError: there is no such folder, or nothing in it.
        ManifestError: two files share a stem, or one leads out of `src` through a symbolic link.
    """
    if not (src / folder).is_dir():
        raise UsageError(f"{src} has no folder {folder}/", "give the folder that holds it")
    root = src.resolve()
    found: dict[str, Path] = {}
    for path in sorted((src / folder).iterdir()):
        if path.suffix.lower() not in suffixes:
            continue
        if path.stem in found:
            raise ManifestError(f"{folder}: two files are called {path.stem}")
        found[path.stem] = inside(root, f"{folder}/{path.name}")
    if not found:
        raise UsageError(f"{src / folder} holds no file of type {', '.join(suffixes)}")
    return found


def gathered(src: Path, folders: Sequence[Sequence[str]], suffixes: Sequence[str], what: str) -> dict[str, Path]:
    """The files with one of these suffixes in the first layout that `src` has, by stem, in order of their names.

    Args:
        src: the source.
        folders: layouts, each the folders that hold the files in it; of a layout, those that exist are read.
        suffixes: in lower case, with their dots.
        what: the files hold, for the message.

    Raises:
        UsageError: `src` has no such folder, or nothing in it.
        ManifestError: as `source_files`.
    """
    for layout in folders:
        present = [folder for folder in layout if (src / folder).is_dir()]
        found: dict[str, Path] = {}
        for folder in present:
            files = source_files(src, folder, suffixes)
            twice = sorted(found.keys() & files.keys())
            if twice:
                raise ManifestError([f"{folder}/{name}: stands in another folder too" for name in twice])
            found |= files
        if found:
            return found
    names = ", ".join(f"{folder}/" for layout in folders for folder in layout)
    raise UsageError(f"{src} has no folder of {what}: none of {names}", "give the folder that holds one")


def page_size(image: Path) -> tuple[int, int]:
    """Width and height of a page's image in pixels, from its header.

    Raises:
        ManifestError: as `images.read_header`, or an EXIF orientation turns the page for some readers only: then it is
            not known which way round the words' boxes are.
    """
    header = read_header(image)
    if header.orientation != 1:
        raise ManifestError(orientation_problem(header))
    return (header.width, header.height)


def raise_listed(problems: Sequence[str]) -> None:
    """Refuse a source for these problems, if any: the first `manifest.MAX_LISTED` in words, the others as a number.

    Raises:
        ManifestError: there is a problem.
    """
    more = len(problems) - manifests.MAX_LISTED
    listed = [printable(problem) for problem in problems[: manifests.MAX_LISTED]]
    if listed:
        raise ManifestError([*listed, *([f"... and {more} more problems"] if more > 0 else [])])


def check_destination(dst: Path) -> None:
    """Refuse a destination that holds anything: an import never mixes with what was there.

    Raises:
        UsageError: `dst` is a file, or a folder that is not empty.
    """
    if dst.is_symlink() or (dst.exists() and not dst.is_dir()):
        raise UsageError(f"{dst} is not a folder", "name a new folder")
    if dst.is_dir() and any(dst.iterdir()):
        raise UsageError(f"{dst} is not empty", "name a new folder")


def publish(
    dst: Path, manifest: Manifest, documents: Sequence[Document], images: Mapping[str, Path], report: ImportReport
) -> None:
    """Write a data set next to `dst`, validate it as `docaudit scan` would, and only then rename it to `dst`.

    Args:
        dst: does not exist, or is an empty folder.
        manifest: of the data set.
        documents: those that are in a split.
        images: the source image of each document, by document id; copied to the document's `image`.
        report: written as `import-report.json`, for the owner.

    Raises:
        ManifestError: what was read makes no valid data set.
        EngineError: the files cannot be written.
    """
    dst = dst.resolve()  # "." has no name to put a neighbour beside
    draft = dst.with_name(f".{dst.name}.import.tmp")
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise EngineError(f"{draft} cannot be made: {error.strerror}", "remove what an earlier import left") from error
    try:
        for document in documents:
            if document.image is not None:
                copy = draft / document.image
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(images[document.id], copy)
        manifests.write(draft, manifest, documents)
        text = json.dumps(dataclasses.asdict(report), indent=2, ensure_ascii=False)
        (draft / REPORT_NAME).write_text(text + "\n", encoding="utf-8")
        manifests.load(draft)
        draft.replace(dst)
    except OSError as error:
        raise EngineError(f"{dst}: the data set cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
