"""Files that a source names or holds: images by name or by their bytes, tables, always inside the source."""

from __future__ import annotations

import csv
import io
import json
import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from PIL import Image, UnidentifiedImageError

from audit.corpus.images import FORMATS
from audit.corpus.paths import inside, printable
from audit.errors import ManifestError, UsageError
from audit.importers.contents import FOLDER
from audit.importers.source_files import parse_json, read_source, read_text

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
_SUFFIXES = {"PNG": ".png", "JPEG": ".jpg", "TIFF": ".tiff", "WEBP": ".webp"}


def relative_files(src: Path, suffixes: Sequence[str]) -> list[str]:
    """List the files of a folder and of the folders in it with one of these suffixes, sorted, hidden ones left out.

    Args:
        src: the folder.
        suffixes: in lower case, with their dots.

    Returns:
        Paths within `src`, with "/".

    Raises:
        UsageError: there is no such folder.
        ManifestError: a file leads out of it through a symbolic link.
    """
    if not src.is_dir():
        raise UsageError(f"{src}: no such folder", "give the folder that holds the files")
    found = []
    for path in sorted(src.rglob("*")):
        relative = path.relative_to(src)
        if path.suffix.lower() in suffixes and path.is_file() and not any(part[0] == "." for part in relative.parts):
            inside(src.resolve(), relative.as_posix())
            found.append(relative.as_posix())
    return found


class ImageFinder:
    """Images of a source, found by what a record calls them.

    Args:
        src: the folder, with its images anywhere in it.
    """

    def __init__(self, src: Path) -> None:
        self._src = src
        self.paths = relative_files(src, IMAGES)
        self._known = frozenset(self.paths)
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for path in self.paths:
            for name in {PurePosixPath(path).name, PurePosixPath(path).stem}:
                self._by_name[name].append(path)

    def find(self, named: str, beside: str = "") -> str:
        """The path, within the source, of the image that a record names.

        Args:
            named: a path within the source, or one from anywhere else or an address, of which the file name counts.
            beside: the folder of the file that holds the record, within the source.

        Raises:
            ManifestError: the path leaves the source through "..", there is no such image, or there are several.
        """
        path = PurePosixPath(_path_of(named))
        joined = posixpath.normpath(PurePosixPath(beside) / path)
        if joined.startswith(".."):
            raise ManifestError(f"{printable(named)}: the path leaves the source through '..'")
        for candidate in (joined, path.as_posix()):
            if candidate in self._known:
                return candidate
        found = self._by_name.get(path.name, [])
        # Label Studio puts eight characters and a hyphen before the name of an uploaded file.
        if not found and "-" in path.name:
            found = self._by_name.get(path.name.split("-", 1)[1], [])
        ending = [one for one in found if one.endswith(path.as_posix())]
        if len(ending or found) != 1:
            reason = f"{len(found)} images have this name" if found else "the image is missing"
            raise ManifestError(f"{printable(path.as_posix())}: {reason}")
        return (ending or found)[0]

    def at(self, path: str) -> Path:
        """The file at a path that `find` gave."""
        return self._src / path


def _path_of(named: str) -> str:
    """The path in what a record calls an image: of an address its path, or the file that its query names."""
    text = named.replace("\\", "/")
    if "://" in text or text.startswith("/data/") or "?" in text:
        address = urlsplit(text)
        query = parse_qs(address.query)
        return unquote(next((query[key][0] for key in ("d", "file", "path") if key in query), address.path)).lstrip("/")
    return text.removeprefix("./")


def save_image(content: bytes, folder: Path, number: int) -> Path:
    """Write the bytes of an image to a file of the kind that they are.

    Args:
        content: PNG, JPEG, TIFF or WEBP.
        folder: exists.
        number: the file's name.

    Raises:
        ManifestError: it is none of these.
    """
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            suffix = _SUFFIXES[image.format or ""]
    except (UnidentifiedImageError, OSError, KeyError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise ManifestError(f"not readable as an image ({', '.join(FORMATS)})") from None
    path = folder / f"{number:08d}{suffix}"
    path.write_bytes(content)
    return path


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The values of a JSON file (a list, or an object that holds one under data, annotations or rows) or JSONL file.

    Returns:
        Each value with its place, for messages.

    Raises:
        ManifestError: no JSON, or no list.
    """
    text = read_text(path)
    if path.suffix.lower() == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"{path.name}:{number}", parse_json(line, f"{path.name}:{number} is not JSON")
        return
    table = parse_json(text, f"{path.name} is not JSON")
    if isinstance(table, dict):
        table = next((table[key] for key in ("data", "annotations", "rows") if isinstance(table.get(key), list)), None)
    if not isinstance(table, list):
        raise ManifestError(f"{path.name} is not a list of records")
    yield from ((f"{path.name}[{number}]", value) for number, value in enumerate(table))


def table_text(path: Path) -> str:
    """The text of a table, UTF-8 or else Latin-1, its lines ended alike; tabs stay, as they may separate cells."""
    content = read_source(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def csv_rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table with the numbers of their lines; separated by commas, semicolons or tabs, as its head is.

    Args:
        path: of the file.
        name: for messages.

    Raises:
        ManifestError: a row has more cells than there are columns, or the table cannot be read as one.
    """
    lines = table_text(path).split("\n")
    table = csv.DictReader(lines, delimiter=max(",;\t", key=lines[0].count), restval="")
    try:
        for row in table:
            if None in row:
                raise ManifestError(f"{name}:{table.line_num}: more cells than columns")
            yield table.line_num, {column: text or "" for column, text in row.items() if column}
    except csv.Error as error:
        raise ManifestError(f"{name}:{table.line_num}: {error}") from None


def provider_of(column: str | None, record: Any, image: str | None) -> str | None:
    """The provider of a page, as the owner says where it stands.

    Args:
        column: a key of the record, or `FOLDER`; None: providers are not known.
        record: with its keys, which may have others nested under "data".
        image: the path of the page's image within the source.
    """
    if column is None:
        return None
    if column == FOLDER:
        return None if image is None else PurePosixPath(image).parent.name or None
    value = record.get(column)
    if value is None and isinstance(record.get("data"), dict):
        value = record["data"].get(column)
    text = " ".join(str(value).split()) if isinstance(value, str | int) else ""
    return text or None


def as_text(value: Any) -> str:
    """A JSON value as the text that stands for it: a text itself, a number as written, true and false in words."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
