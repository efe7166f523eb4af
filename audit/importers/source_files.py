"""Files of a source, which nobody has checked: found by folder, read as text or JSON, boxes cut at their page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError

from audit.corpus.documents import Box
from audit.corpus.images import read_header
from audit.corpus.paths import inside
from audit.corpus.validation import orientation_problem
from audit.errors import ManifestError, UsageError
from audit.files import refuse_boundless

T = TypeVar("T")
_MOST_DIGITS = 100
"""Of an integer (ours): products of three still become floats, which end at 308."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@contextmanager
def open_source(path: Path) -> Iterator[BinaryIO]:
    """Open a file of a source for the bytes in it.

    Raises:
        ManifestError: it is no regular file, is too large, or cannot be read.
    """
    try:
        refuse_boundless(path)
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise ManifestError(f"{path.name}: cannot be read: {error.strerror or 'not a file'}") from None


def read_source(path: Path) -> bytes:
    """Read a file of a source.

    Raises:
        ManifestError: as `open_source`.
    """
    with open_source(path) as stream:
        return stream.read()


def read_text(path: Path) -> str:
    """Read the text of a file that should be UTF-8; when it is not, every byte as Latin-1, which never fails.

    Control characters (also what Latin-1 makes of Windows' typographic quotes) become spaces, except line ends.

    Raises:
        ManifestError: as `open_source`.
    """
    content = read_source(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return "\n".join(replace_controls(line) for line in text.replace("\r\n", "\n").split("\n"))


def read_json(path: Path, kind: TypeAdapter[T]) -> T:
    """Read a JSON file of the form of `kind`.

    Raises:
        ManifestError: no JSON, or of another form; each problem with its path in the JSON, no value.
    """
    content = parse_json(read_text(path), f"{path.name} is not JSON")
    try:
        return kind.validate_python(content)
    except ValidationError as error:
        raise ManifestError([f"{path.name} {problem}" for problem in source_problems(error)]) from None


def parse_json(content: str | bytes, problem: str) -> Any:
    """Parse JSON whose integers can be calculated with.

    Raises:
        ManifestError: with this problem, as it is no JSON; or an integer has more than `_MOST_DIGITS` digits.
    """
    try:
        return json.loads(content, parse_int=_integer)
    except (ValueError, RecursionError):
        raise ManifestError(problem) from None


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ManifestError(f"an integer of {len(text)} digits, and {_MOST_DIGITS} are the most")
    return int(text)


def texts_in(value: Any, name: str) -> list[str]:
    """The texts of a list in a source's JSON.

    Raises:
        ManifestError: it is no list of texts.
    """
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ManifestError(f"{name}: not a list of texts")
    return value


def source_problems(error: ValidationError) -> tuple[str, ...]:
    """Each problem of a JSON value that has another form than wanted, with its path and without the value."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return tuple(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)


def replace_controls(text: str) -> str:
    """`text` with control characters and lone surrogates replaced by spaces."""
    return _CONTROL.sub(" ", text)


def clip(box: Sequence[float], size: tuple[int, int]) -> Box:
    """Cut a box at the edges of the page, with its corners in order, rounded to a tenth of a pixel.

    Args:
        box: x0, y0, x1, y1 in pixels, in any order of corners.
        size: width and height of the page in pixels.
    """
    width, height = size
    xs = sorted(min(max(x, 0.0), float(width)) for x in (box[0], box[2]))
    ys = sorted(min(max(y, 0.0), float(height)) for y in (box[1], box[3]))
    return (round(xs[0], 1), round(ys[0], 1), round(xs[1], 1), round(ys[1], 1))


def source_files(src: Path, folder: str, suffixes: Sequence[str]) -> dict[str, Path]:
    """List the files of `src`/`folder` with one of these suffixes, by stem, in order of their names.

    Raises:
        UsageError: there is no such folder, or nothing in it.
        ManifestError: two files share a stem, or one leads out of `src` through a symbolic link.
    """
    if not (src / folder).is_dir():
        raise UsageError(
            f"{src} has no folder {folder}/",
            "give the folder that holds it; pages in other folders: docaudit import forms, see --help",
        )
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


def find_files(src: Path, folders: Sequence[Sequence[str]], suffixes: Sequence[str], what: str) -> dict[str, Path]:
    """List the files with one of these suffixes in the first layout that `src` has, by stem, in order of their names.

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
