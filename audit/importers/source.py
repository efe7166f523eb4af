"""The folder that is imported: the owner's options, its images, records and word files."""

import posixpath
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from audit.corpus.documents import Assignment, Drawer, Redaction, TaskKind, TrainingRecipe, Word
from audit.corpus.images import decode, kind_of
from audit.corpus.problems import inside
from audit.errors import ManifestError, UsageError
from audit.importers.faults import name_of, refusing, shown_path
from audit.importers.files import (
    IMAGES,
    TEXTS,
    files_in,
    page_size,
    parse_json,
    read_text,
    table_rows,
)
from audit.importers.pages import Page, Unit, ids_of, part_of, shares_of
from audit.importers.reading import SourceProblems, spend
from audit.importers.words import PageReader, fill
from audit.progress import steps

FOLDER = "folder"
"""As the provider's column: the folder that the image is in."""


@dataclass(frozen=True)
class Options:
    """The owner's options for a source that is recognised.

    Attributes:
        labels: names of a tagger's labels, in the order of the model's outputs.
        provider: the column or key that names a page's provider, or `FOLDER`: the folder of its
            image. For plain pages also what folders mean: "provider", "label" or "none".
        boxes: the unit of boxes; None: recognised by their range.
        assigned: the rule by which the documents of training were chosen, where the import draws
            none.
        columns: names of columns or keys by meaning (`names.toml`), where they are not recognised.
        ocr: the language in which Tesseract reads pages without words; None: English, where the
            task needs words.
        redaction: how values are hidden in what is shared.
        name: of the data set; None: that of the format.
        command: that divides the documents.
        draws: whether members may be drawn of a source that names none.
        generative: the model answers questions or writes pages, and the source tells which.
    """

    labels: tuple[str, ...] = ()
    provider: str | None = None
    boxes: Unit | None = None
    assigned: Assignment | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    ocr: str | None = None
    redaction: Redaction | None = None
    name: str | None = None
    command: Drawer = "docaudit import"
    draws: bool = False
    generative: bool = False


class Source:
    """A folder, or one file of it, as an importer reads it.

    An importer collects here what is no page: problems, counts and sentences for the report,
    settings of the manifest.

    Args:
        path: the folder, or the one file that is imported.
        scratch: a private folder for images that are in no file of the source; gone after the
            import.
        task: the audited model's task; None: to be recognised.
        official: the source's own division is wanted.
        seed: of every draw.
        options: of the owner.
        word_files: endings of the word files that may lie beside images.
        kept: what the importer keeps of one source for the next one of the same import.

    Attributes:
        root: the folder.
        problems: the import ends with them.
        notes: counts for the report.
        advice: sentences that the owner should read.
        tags: names of a tagger's labels in the model's order, where the source says them.
        recipe: of the manifest.
        redaction: of the manifest.
    """

    def __init__(
        self,
        path: Path,
        scratch: Path,
        task: TaskKind | None = None,
        official: bool = False,
        seed: int = 0,
        options: Options = Options(),
        word_files: Sequence[str] = (),
        kept: list[Any] | None = None,
    ) -> None:
        self.path, self.scratch, self.task, self.official, self.seed = (
            path,
            scratch,
            task,
            official,
            seed,
        )
        self.options, self.kept = options, [] if kept is None else kept
        self.root = path.parent if path.is_file() else path
        self.problems = SourceProblems()
        self.notes: Counter[str] = Counter()
        self.advice: list[str] = []
        self.tags: tuple[str, ...] = ()
        self.recipe = TrainingRecipe()
        self.redaction: Redaction | None = None
        self._word_files = word_files
        self._pages: dict[str, Page] = {}
        self._n_saved = 0

    def files(self, *suffixes: str, hint: str = "") -> list[str]:
        """List the files with any of these endings, within the source.

        Only the imported file where it is a file.

        Raises:
            UsageError: there is no such folder, or none of them and a hint what to do.
            ManifestError: a file leads out of the source through a symbolic link.
        """
        whole = self.path.is_file() and (bool(hint) or self.path.suffix.lower() in suffixes)
        found = (
            [self.path.name]
            if whole
            else []
            if self.path.is_file()
            else files_in(self.root, suffixes)
        )
        if hint and not found:
            raise UsageError(f"{self.path} holds no {' or '.join(suffixes)}", hint)
        return found

    def at(self, relative: str) -> Path:
        """Return the file at a path within the source.

        Raises:
            ManifestError: it leads out of the source.
        """
        return inside(self.root.resolve(), relative)

    def files_by_stem(self, suffixes: Sequence[str], *layouts: Sequence[str]) -> dict[str, Path]:
        """List the files with one of these suffixes in the first layout that there is, by stem, sorted.

        Args:
            suffixes: in lower case, with their dots.
            *layouts: each the folders that hold the files in it; of a layout, those that exist are
                read.

        Raises:
            UsageError: there is no such folder, or nothing in it.
            ManifestError: two files share a stem, or one leads out of the source through a symbolic
                link.
        """
        for folders in layouts:
            found: dict[str, Path] = {}
            for folder in filter(lambda folder: (self.root / folder).is_dir(), folders):
                for path in sorted((self.root / folder).iterdir()):
                    if path.suffix.lower() in suffixes:
                        if path.stem in found:
                            raise ManifestError(
                                f"{folder}/{path.name}: another file of this name is there"
                            )
                        found[path.stem] = self.at(f"{folder}/{path.name}")
            if found:
                return found
        names = ", ".join(f"{folder}/" for folders in layouts for folder in folders)
        reason = f"{self.path} has no folder {names} with a file of type {', '.join(suffixes)}"
        raise UsageError(reason, TEXTS["other_folders"])

    def records(self, relative: str) -> Iterator[tuple[str, Any]]:
        """Yield the values of a JSON file (a list, or an object that holds one under data, annotations or rows).

        Of a JSON-lines file a value each line, of a table each row. Each comes with its place, for
        messages.

        Raises:
            ManifestError: no JSON, no list, or no table.
        """
        path = self.at(relative)
        name = name_of(path)
        if path.suffix.lower() == ".csv":
            yield from table_rows(path, relative)
        elif path.suffix.lower() == ".jsonl":
            for number, line in enumerate(read_text(path).split("\n"), start=1):
                if line.strip():
                    yield f"{name}:{number}", parse_json(line, f"{name}:{number} is not JSON")
        else:
            table = parse_json(read_text(path), f"{name} is not JSON")
            if isinstance(table, dict):
                table = next(
                    (table[key] for key in ("data", "annotations", "rows") if table.get(key)), None
                )
            if not isinstance(table, list):
                raise ManifestError(f"{name} is not a list of records")
            yield from ((f"{name}[{number}]", value) for number, value in enumerate(table))

    @cached_property
    def ids(self) -> Mapping[str, str]:
        """The id of each image's document, by its path within the source, sorted."""
        return ids_of(files_in(self.root, IMAGES))

    @cached_property
    def _images(self) -> Mapping[str, list[str]]:
        return group_by_name(self.ids, lambda path: {path.name, path.stem})

    @cached_property
    def _words(self) -> Mapping[str, list[str]]:
        """The paths of word files, by name without one ending, and without two."""
        files = files_in(self.root, self._word_files)
        return group_by_name(files, lambda path: {path.stem, PurePosixPath(path.stem).stem})

    def find_image(self, named: str, beside: str = "") -> str:
        """Find the path, within the source, of the image that a record names.

        Args:
            named: a path within the source, or one from anywhere else or an address, of which the
                file name counts.
            beside: the folder of the file that holds the record, within the source.

        Raises:
            ManifestError: it is no path or address, the path leaves the source through "..", there
                is no such image, or there are several.
        """
        with refusing("the name of its image is neither a path nor an address"):
            path = PurePosixPath(_path_of(named))
        joined = posixpath.normpath(PurePosixPath(beside) / path)
        if joined.startswith(".."):
            raise ManifestError("the path of its image leaves the source through '..'")
        for candidate in (joined, path.as_posix()):
            if candidate in self.ids:
                return candidate
        # Label Studio puts eight characters and a hyphen before the name of an uploaded file.
        found = self._images.get(path.name) or self._images.get(path.name.partition("-")[2], [])
        return choose_one(
            [one for one in found if one.endswith(path.as_posix())] or found, "its image"
        )

    def find_words(self, image: str) -> str | None:
        """Find the word file of an image: of its name with another or a second ending, in its folder first.

        Raises:
            ManifestError: several files may be it.
        """
        path = PurePosixPath(image)
        found = self._words.get(path.name) or self._words.get(path.stem, [])
        found = [one for one in found if PurePosixPath(one).parent == path.parent] or found
        found = [one for one in found if PurePosixPath(one).stem in (path.stem, path.name)] or found
        return choose_one(found, shown_path(image)) if found else None

    def page(self, image: str, record: Mapping[str, Any] | None = None) -> Page:
        """Return the page of an image, with the words of its word file.

        The same each time it is asked for.

        Args:
            image: path within the source.
            record: an entry of the source about it, which may name the provider.

        Raises:
            ManifestError: its word file cannot be read, or several may be it.
        """
        if image not in self._pages:
            page = Page(self.ids[image], self.root / image, part=part_of(image), place=image)
            page.provider = self.provider(record, image)
            self._pages[image] = page
            words = self.find_words(image)
            if words is not None:
                try:
                    with refusing("cannot be read"):
                        fill(page, self.root / words)
                except ManifestError as error:
                    place = shown_path(words)
                    raise ManifestError(
                        [f"{place}: {problem}" for problem in error.problems]
                    ) from None
        return self._pages[image]

    def read_words(self, pages: Sequence[Page]) -> None:
        """Read pages with an image and no words by Tesseract, where the owner asks for it, or the task needs words.

        Raises:
            UsageError: Tesseract or its language is missing.
        """
        wanted = [page for page in pages if page.image is not None and not page.words]
        if not wanted or not (
            self.options.ocr or self.task in ("token-classification", "spade-extraction")
        ):
            return
        reader = PageReader(self.options.ocr or "eng")
        reader.check()
        images = [
            (str(number), partial(decode, page.image))
            for number, page in enumerate(wanted)
            if page.image
        ]
        for name, words in steps("reading pages", reader.read(images), len(images)):
            page = wanted[int(name)]
            size, page.unit = page_size(images[int(name)][1].args[0]), page.unit or "shares"
            boxes = ((word.text, word.box) for word in words or () if word.box)
            page.words = [
                Word(text, box if page.unit == "pixels" else shares_of(box, size))
                for text, box in boxes
            ]
            self.notes["pages whose words were read by Tesseract"] += bool(page.words)

    @property
    def pages(self) -> Sequence[Page]:
        """The pages of images that were asked for."""
        return [*self._pages.values()]

    def provider(self, record: Mapping[str, Any] | None, image: str | None = None) -> str | None:
        """Read the provider of a page where the owner says.

        A record may have keys nested under "data".
        """
        column = self.options.provider
        if column == FOLDER and image is not None:
            return PurePosixPath(image).parent.name or None
        record = record or {}
        nested = record["data"] if isinstance(record.get("data"), dict) else {}
        value = {**nested, **record}.get(column or "")
        return (" ".join(str(value).split()) if isinstance(value, str | int) else "") or None

    def save_image(self, content: bytes) -> Path:
        """Write the bytes of an image to a new file of the kind that they are.

        Raises:
            ManifestError: it is neither PNG, JPEG, TIFF nor WEBP.
        """
        spend("bytes", len(content))
        self._n_saved += 1
        path = self.scratch / f"{self._n_saved:08d}.{kind_of(content)}"
        path.write_bytes(content)
        return path


def group_by_name(
    paths: Iterable[str], names: Callable[[PurePosixPath], set[str]]
) -> Mapping[str, list[str]]:
    """Group paths by the names that each has."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for name in names(PurePosixPath(path)):
            found[name].append(path)
    return found


def choose_one(paths: Sequence[str], what: str) -> str:
    """Return the only path of a list.

    Args:
        paths: of files of the source.
        what: is looked for, in the message; no value of the source.

    Raises:
        ManifestError: there is none, or there are several.
    """
    if not paths:
        raise ManifestError(f"{what}: the file is missing; no folder of SRC holds it")
    if len(paths) > 1:
        raise ManifestError(
            f"{what}: several files may be it: {', '.join(map(shown_path, paths[:3]))}"
        )
    return paths[0]


def _path_of(named: str) -> str:
    """Return the path in a record's name of an image: of an address its path, or the file that its query names."""
    text = named.replace("\\", "/")
    if "://" in text or text.startswith("/data/") or "?" in text:
        address = urlsplit(text)
        query = parse_qs(address.query)
        return unquote(
            next((query[key][0] for key in ("d", "file", "path") if key in query), address.path)
        ).lstrip("/")
    return text.removeprefix("./")
