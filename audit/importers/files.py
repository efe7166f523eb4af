"""Files of a source, which nobody has checked: listed, read as text, JSON or tables.

They are always inside the source.
"""

import csv
import datetime
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from audit.corpus.images import read_header
from audit.corpus.problems import inside, reason_refused
from audit.corpus.validation import orientation_problem
from audit.errors import ManifestError, UsageError
from audit.files import encoding_of, refuse_boundless, table_beside
from audit.importers.faults import name_of, problems_of_form, refusing, type_of
from audit.importers.pages import keep_lines, replace_controls
from audit.importers.reading import note_opened

T = TypeVar("T")
IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
TEXTS: Mapping[str, str] = table_beside(__file__, "texts.toml")
"""What imports say; names in braces are filled in."""
_MOST_DIGITS = 100
"""Of an integer: products of three still become floats, which end at 308."""
JSON_TYPES = (list, tuple, dict, bool, int, float, type(None))
FAULTS = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""What code that takes a JSON value apart raises, where the value has another form."""


def files_in(folder: Path, suffixes: Sequence[str]) -> list[str]:
    """List the files of a folder, and of the folders in it, with one of these suffixes.

    They are sorted; hidden ones are left out.

    Args:
        folder: folder of the source.
        suffixes: endings in lower case, with their dots.

    Returns:
        Paths within the folder, with "/".

    Raises:
        UsageError: there is no such folder.
        ManifestError: a file leads out of it through a symbolic link.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder", "give the folder that holds the files")
    files: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in suffixes or not path.is_file():
            continue
        relative = path.relative_to(folder)
        is_hidden = any(name[0] == "." for name in relative.parts)
        if not is_hidden:
            inside(folder.resolve(), relative.as_posix())
            files.append(relative.as_posix())
    return files


def place_named(root: Path, relative: str) -> Path:
    """Return the path of a file that the source names; refuse one outside of `root`.

    Raises:
        ManifestError: it is no path inside; the message does not have it.
    """
    reason = reason_refused(root, relative)
    if reason is not None:
        raise ManifestError(f"a path that the source names is refused: {reason}")
    return root / relative


@contextmanager
def open_source(path: Path) -> Iterator[BinaryIO]:
    """Yield a file of the source, open for reading; count its bytes against the budget.

    Raises:
        ManifestError: it is no regular file, is too large, or cannot be read.
    """
    try:
        refuse_boundless(path)
        note_opened(path)
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise ManifestError(
            f"{name_of(path)}: cannot be read: {error.strerror or 'not a file'}"
        ) from None


def read_source(path: Path) -> bytes:
    """Return the bytes of a file of the source."""
    with open_source(path) as stream:
        return stream.read()


def lines_of(stream: BinaryIO) -> Iterator[bytes | str]:
    """Yield the lines of an open file: bytes of UTF-8, or texts of UTF-16 or UTF-32."""
    encoding = encoding_of(stream.read(4))
    stream.seek(0)
    if encoding.startswith("utf-8"):
        yield from stream
    else:
        yield from io.TextIOWrapper(stream, encoding)


def read_text(path: Path) -> str:
    """Return the text of a file: UTF-8, UTF-16 or UTF-32, else Windows-1252, else Latin-1.

    Control characters become spaces, except line ends. Errors as of `open_source`.
    """
    return "\n".join(map(replace_controls, _decode_file(path).replace("\r\n", "\n").split("\n")))


def read_tabbed(path: Path) -> str:
    """Return the text of a file as `read_text` does, with its tabs."""
    return keep_lines(_decode_file(path).replace("\r\n", "\n"))


def _decode_file(path: Path) -> str:
    """Return the text of a file in the first encoding that fits; Latin-1 fits any."""
    content = read_source(path)
    for encoding in (encoding_of(content), "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding)
    return content.decode("latin-1")


def table_rows(
    path: Path, name: str, separator: str | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a table with their places.

    Args:
        path: path of the table.
        name: name of the table, for messages.
        separator: separator of cells, which then are not quoted; None: a comma, semicolon or tab,
            as in its head.

    Raises:
        ManifestError: a row has more cells than there are columns, or the table cannot be read as
            one.
    """
    lines = _decode_file(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if separator is None else csv.QUOTE_NONE
    table = csv.DictReader(
        lines, delimiter=separator or max(",;\t", key=lines[0].count), restval="", quoting=quoting
    )
    try:
        for row in table:
            if None in row:
                raise ManifestError(f"{name}:{table.line_num}: more cells than columns")
            yield (
                f"{name}:{table.line_num}",
                {column: text or "" for column, text in row.items() if column},
            )
    except csv.Error as error:
        raise ManifestError(f"{name}:{table.line_num}: {error}") from None


def read_json(path: Path, kind: TypeAdapter[T]) -> T:
    """Return the JSON of a file, checked for the form of `kind`.

    Raises:
        ManifestError: no JSON, or of another form; each problem with its path in the JSON, no
            value.
    """
    content = parse_json(read_text(path), f"{name_of(path)} is not JSON")
    try:
        return kind.validate_python(content)
    except ValidationError as error:
        raise ManifestError(
            [f"{name_of(path)} {problem}" for problem in problems_of_form(error)]
        ) from None


def parse_json(content: str | bytes, problem: str) -> Any:
    """Parse JSON; refuse with `problem` what is none, and refuse integers of too many digits.

    Raises:
        ManifestError: with this problem, as it is no JSON; or an integer has more than
            `_MOST_DIGITS` digits.
    """
    try:
        return json.loads(content, parse_int=_parse_integer)
    except (ValueError, RecursionError):
        raise ManifestError(problem) from None


def _parse_integer(text: str) -> int:
    """Convert digits to an integer; refuse more than `_MOST_DIGITS` of them."""
    if len(text) > _MOST_DIGITS:
        raise ManifestError(f"an integer of {len(text)} digits, and {_MOST_DIGITS} are the most")
    return int(text)


@contextmanager
def form_of(form: str) -> Iterator[None]:
    """Turn errors of the block into a refusal that the value is "not {form}".

    Raises:
        ManifestError: it is not of this form.
    """
    with refusing(f"not {form}"):
        yield


def as_text(value: Any) -> str:
    """Return a value of a row as text.

    A text is itself; a number is as written, true and false in words, a date in ISO form.

    Raises:
        ManifestError: it is of a type that has no text.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, JSON_TYPES):
        return json.dumps(value, ensure_ascii=False, default=_plain_text)
    return _plain_text(value)


def _plain_text(value: Any) -> str:
    """Return as text a value that JSON has no type for: a date, a time, a decimal, bytes.

    It is a date, a time, a span of time, a decimal, or bytes of text.
    """
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta | Decimal | UUID):
        return str(value)
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode("utf-8")
        raise ManifestError("bytes that are no text in UTF-8")
    raise ManifestError(f"{type_of(value)} where a text is expected")


def page_size(image: Path) -> tuple[int, int]:
    """Read width and height of a page's image in pixels, from its header.

    Raises:
        ManifestError: as `images.read_header`, or an EXIF orientation turns the page for some
            readers only: then it is not known which way round the words' boxes are.
    """
    header = read_header(image)
    if header.orientation != 1:
        raise ManifestError(orientation_problem(header))
    return (header.width, header.height)
