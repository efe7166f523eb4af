"""The folder that is imported: the owner's options, its images, records and word files."""

import posixpath
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from audit.cards import AuditSheet
from audit.corpus.documents import (
    WRITING,
    Assignment,
    Drawer,
    Redaction,
    TaskKind,
    TrainingRecipe,
    Word,
)
from audit.corpus.images import decode, kind_of
from audit.corpus.problems import inside
from audit.errors import ManifestError, UsageError
from audit.importers.faults import NAMES, name_of, refusing, shown_path
from audit.importers.files import (
    IMAGES,
    TEXTS,
    files_in,
    form_of,
    page_size,
    parse_json,
    read_text,
    table_rows,
)
from audit.importers.layers import CHOSEN, WORD_FILES, Layers, layers_of
from audit.importers.pages import Page, Size, Unit, ids_of, part_of, shares_of
from audit.importers.reading import SourceProblems, spend
from audit.importers.services.azure import add_labels
from audit.importers.services.programs import LABELS
from audit.importers.unread import UnreadColumns
from audit.importers.words import PageReader, fill_all
from audit.progress import steps

PERSON_KEYS: Sequence[str] = NAMES["table"]["person"]
"""Names of columns and keys that say whose a page or a value is."""
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
        name: name of the data set; None: that of the format.
        command: command that divides the documents.
        draws: whether members may be drawn of a source that names none.
        sheet: what only the owner knows of the audit.
        tasks: tasks that the model can have, of which the source tells which; empty: any.
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
    sheet: AuditSheet = field(default_factory=AuditSheet)
    tasks: tuple[TaskKind, ...] = ()


@dataclass(frozen=True)
class SourceSettings:
    """What an import knows of all its sources before it reads them.

    Attributes:
        task: the audited model's task; None: to be recognised.
        official: whether the source's own division is wanted.
        seed: seed of every draw.
        options: options of the owner.
        word_files: endings of the word files that may lie beside images.
        format: name of the format.
    """

    task: TaskKind | None = None
    official: bool = False
    seed: int = 0
    options: Options = field(default_factory=Options)
    word_files: Sequence[str] = ()
    format: str = ""


class Source:
    """A folder, or one file of it, as an importer reads it.

    An importer collects here what is no page: problems, counts and sentences for the report,
    settings of the manifest.

    Args:
        path: the folder, or the one file that is imported.
        scratch: a private folder for images that are in no file of the source; gone after the
            import.
        settings: what the import knows of all its sources.
        kept: what the importer keeps of one source for the next one of the same import.

    Attributes:
        task: the audited model's task; None: to be recognised.
        official: whether the source's own division is wanted.
        seed: seed of every draw.
        options: options of the owner.
        format: name of the format.
        root: the folder.
        problems: problems with which the import ends.
        notes: counts for the report.
        advice: sentences that the owner should read.
        tags: names of a tagger's labels in the model's order, where the source says them.
        unread: columns that have no meaning for the import.
        recipe: recipe of the manifest.
        redaction: redaction of the manifest.
    """

    def __init__(
        self,
        path: Path,
        scratch: Path,
        settings: SourceSettings = SourceSettings(),
        kept: list[Any] | None = None,
    ) -> None:
        """Open a source at a path; images that it contains as bytes go to `scratch`."""
        self.path = path
        self.scratch = scratch
        self.task = settings.task
        self.official = settings.official
        self.seed = settings.seed
        self.options = settings.options
        self.format = settings.format
        self.kept: list[Any] = [] if kept is None else kept
        self.root = path.parent if path.is_file() else path
        self.problems = SourceProblems()
        self.notes: Counter[str] = Counter()
        self.advice: list[str] = []
        self.tags: tuple[str, ...] = ()
        self.unread = UnreadColumns()
        self.recipe = TrainingRecipe()
        self.redaction: Redaction | None = None
        self._word_files = settings.word_files
        self._pages: dict[str, Page] = {}
        self._files_beside: dict[str, Layers] = {}
        self._n_saved = 0

    @property
    def writes(self) -> bool:
        """Test whether the model is known to write pages, or answers about them."""
        return self.task == "parsing" or self.options.tasks == WRITING

    @property
    def may_write(self) -> bool:
        """Test whether the model may write pages."""
        return self.task == "parsing" or (self.task is None and self.options.tasks in ((), WRITING))

    def files(self, *suffixes: str, hint: str = "") -> list[str]:
        """List the files with any of these endings, within the source.

        Only the imported file where it is a file.

        Raises:
            UsageError: there is no such folder, or none of them and a hint what to do.
            ManifestError: a file leads out of the source through a symbolic link.
        """
        if not self.path.is_file():
            paths = files_in(self.root, suffixes)
        elif hint or self.path.suffix.lower() in suffixes:
            paths = [self.path.name]
        else:
            paths = []
        if hint and not paths:
            raise UsageError(f"{self.path} holds no {' or '.join(suffixes)}", hint)
        return paths

    def at(self, relative: str) -> Path:
        """Return the file at a path within the source.

        Raises:
            ManifestError: it leads out of the source.
        """
        return inside(self.root.resolve(), relative)

    def files_by_stem(self, suffixes: Sequence[str], *layouts: Sequence[str]) -> dict[str, Path]:
        """List the files with one of these suffixes, by stem, sorted.

        They are those of the first layout that there is.

        Args:
            suffixes: endings in lower case, with their dots.
            *layouts: each the folders that hold the files in it; of a layout, those that exist are
                read.

        Raises:
            UsageError: there is no such folder, or nothing in it.
            ManifestError: two files share a stem, or one leads out of the source through a symbolic
                link.
        """
        for folders in layouts:
            paths = self._layout_by_stem(suffixes, folders)
            if paths:
                return paths
        names = ", ".join(f"{folder}/" for folder in chain.from_iterable(layouts))
        reason = f"{self.path} has no folder {names} with a file of type {', '.join(suffixes)}"
        raise UsageError(reason, TEXTS["other_folders"])

    def _layout_by_stem(self, suffixes: Sequence[str], folders: Sequence[str]) -> dict[str, Path]:
        """Return the files of one layout's folders by stem; refuse two of one stem."""
        paths: dict[str, Path] = {}
        for folder in folders:
            if not (self.root / folder).is_dir():
                continue
            for path in sorted((self.root / folder).iterdir()):
                if path.suffix.lower() not in suffixes:
                    continue
                relative = f"{folder}/{path.name}"
                if path.stem in paths:
                    raise ManifestError(f"{relative}: another file of this name is there")
                paths[path.stem] = self.at(relative)
        return paths

    def records(self, relative: str) -> Iterator[tuple[str, Any]]:
        """Yield the values of a JSON file, each with its place, for messages.

        The file is a list, or an object that holds one under data, annotations or rows. Of a
        JSON-lines file a value each line, of a table each row.

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
            table = _list_in(parse_json(read_text(path), f"{name} is not JSON"))
            if table is None:
                raise ManifestError(f"{name} is not a list of records")
            for number, value in enumerate(table):
                yield f"{name}[{number}]", value

    @cached_property
    def ids(self) -> Mapping[str, str]:
        """Return the document id of each image, by its path within the source, sorted."""
        return ids_of(files_in(self.root, IMAGES))

    @cached_property
    def _images(self) -> Mapping[str, list[str]]:
        """Return the paths of images, by their name with and without its ending."""
        return group_by_name(self.ids, lambda path: {path.name, path.stem})

    @cached_property
    def _words(self) -> Mapping[str, list[str]]:
        """Return the paths of word files, by each name that their page may have."""
        files = files_in(self.root, self._word_files)
        return group_by_name(files, _names_of_page)

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
        candidates = self._images.get(path.name)
        if not candidates:
            candidates = self._images.get(path.name.partition("-")[2], [])
        same_path = [candidate for candidate in candidates if candidate.endswith(path.as_posix())]
        return choose_one(same_path or candidates, "its image")

    def has_image(self, named: str, beside: str = "") -> bool:
        """Test whether the source has the one image that a record names, as `find_image` does."""
        try:
            self.find_image(named, beside)
        except ManifestError:
            return False
        return True

    def find_words(self, image: str) -> str | None:
        """Return the path of the word file of an image or PDF, by name (a.jpg: a.txt, a.jpg.json).

        Those in its own folder come first, then those of the format that the owner named.

        Raises:
            ManifestError: several files may be it.
        """
        candidates = self._layers(image).words
        if not candidates:
            return None
        path = PurePosixPath(image)
        same_name = [name for name in candidates if PurePosixPath(name).name.startswith(path.name)]
        candidates = same_name or candidates
        stems = (path.stem, path.name)
        same_stem = [name for name in candidates if PurePosixPath(name).stem in stems]
        return choose_one(same_stem or candidates, shown_path(image))

    def _layers(self, image: str) -> Layers:
        """Return the files of words and of labels beside an image or PDF; those nearby if any."""
        if image not in self._files_beside:
            path = PurePosixPath(image)
            names = [*self._words.get(path.name, ()), *self._words.get(path.stem, ())]
            candidates = list(dict.fromkeys(names))
            nearby = [name for name in candidates if PurePosixPath(name).parent == path.parent]
            layers = layers_of(self.root, nearby or candidates, self.format)
            self._files_beside[image] = layers
            self.notes[CHOSEN] += bool(layers.n_left)
        return self._files_beside[image]

    def fill(self, pages: Sequence[Page], image: str) -> None:
        """Add what lies beside an image or PDF to its pages: words, and labels as fields.

        Raises:
            ManifestError: a file cannot be read, or is of another number of pages.
        """
        words = self.find_words(image)
        if words is None:
            return
        with _place_of(words), refusing("cannot be read"):
            fill_all(pages, self.root / words, self.format if self.format in WORD_FILES else "")
        for labels in self._layers(image).labels:
            with _place_of(labels), form_of(LABELS.name):
                add_labels(pages, parse_json(read_text(self.root / labels), "not JSON"))

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
            page.person = person_of(record)
            self._pages[image] = page
            self.fill([page], image)
        return self._pages[image]

    def read_words(self, pages: Sequence[Page]) -> None:
        """Read pages with an image and no words by Tesseract.

        Only where the owner asks for it, or the task needs words.

        Raises:
            UsageError: Tesseract or its language is missing.
        """
        needs_words = self.task in ("token-classification", "spade-extraction")
        if not (self.options.ocr or needs_words):
            return
        unread = _unread(pages)
        if not unread:
            return
        reader = PageReader(self.options.ocr or "eng")
        reader.check()
        images = [(str(number), partial(decode, image)) for number, (_, image) in enumerate(unread)]
        for name, words in steps("reading pages", reader.read(images), len(images)):
            page, image = unread[int(name)]
            size = page_size(image)
            page.unit = page.unit or "shares"
            page.words = _in_unit(words or (), page.unit, size)
            self.notes["pages whose words were read by Tesseract"] += bool(page.words)

    @property
    def pages(self) -> Sequence[Page]:
        """Return the pages of all images that `page` was called for."""
        return [*self._pages.values()]

    def provider(self, record: Mapping[str, Any] | None, image: str | None = None) -> str | None:
        """Return the provider of a page, from the key or folder that the owner states.

        A record may have keys nested under "data".
        """
        column = self.options.provider
        if column == FOLDER and image is not None:
            return PurePosixPath(image).parent.name or None
        return _named_by(record, column or "")

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


@contextmanager
def _place_of(path: str) -> Iterator[None]:
    """Add the path of a file within the source to the problems of the block."""
    try:
        yield
    except ManifestError as error:
        raise ManifestError(
            [f"{shown_path(path)}: {problem}" for problem in error.problems]
        ) from None


def _names_of_page(path: PurePosixPath) -> set[str]:
    """Return the names that the page of a word file may have: less one ending, or two.

    PaddleOCR writes a_res.json for a.png.
    """
    return {path.stem, PurePosixPath(path.stem).stem, path.stem.removesuffix("_res")}


def _list_in(table: Any) -> list[Any] | None:
    """Return the list that a JSON value is, or has as data, annotations or rows; else None."""
    if isinstance(table, dict):
        lists = (table[key] for key in ("data", "annotations", "rows") if table.get(key))
        table = next(lists, None)
    return table if isinstance(table, list) else None


def _unread(pages: Sequence[Page]) -> list[tuple[Page, Path]]:
    """List (page, image) for the pages with an image and no words."""
    return [(page, page.image) for page in pages if page.image is not None and not page.words]


def _in_unit(words: Iterable[Word], unit: Unit, size: Size) -> list[Word]:
    """Return the words with a box, in shares of a page of this size unless `unit` is pixels.

    Pixels stay where that is the unit of the page.
    """
    converted: list[Word] = []
    for word in words:
        if word.box:
            box = word.box if unit == "pixels" else shares_of(word.box, size)
            converted.append(Word(word.text, box))
    return converted


def group_by_name(
    paths: Iterable[str], names: Callable[[PurePosixPath], set[str]]
) -> Mapping[str, list[str]]:
    """Group paths by the names that `names` gives each of them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for name in names(PurePosixPath(path)):
            groups[name].append(path)
    return groups


def choose_one(paths: Sequence[str], what: str) -> str:
    """Return the only path of a list; refuse an empty list or several paths.

    Args:
        paths: paths of files of the source.
        what: the thing looked for, in the message; no value of the source.

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
    """Return the path in a record's name of an image, also where the name is a web address.

    Of an address it is its path, or the file that its query names.
    """
    text = named.replace("\\", "/")
    if "://" not in text and not text.startswith("/data/") and "?" not in text:
        return text.removeprefix("./")
    address = urlsplit(text)
    query = parse_qs(address.query)
    for key in ("d", "file", "path"):
        if key in query:
            return unquote(query[key][0]).lstrip("/")
    return unquote(address.path).lstrip("/")


def person_of(record: Mapping[str, Any] | None) -> str | None:
    """Return whose a page or a value is, where its record says so (`names.toml`); else None."""
    for key in PERSON_KEYS:
        person = _named_by(record, key)
        if person is not None:
            return person
    return None


def _named_by(record: Mapping[str, Any] | None, key: str) -> str | None:
    """Return the name or number under a key of a record, or nested under its "data"."""
    if record is None:
        return None
    value = record.get(key)
    nested = record.get("data")
    if value is None and isinstance(nested, dict):
        value = nested.get(key)
    if not isinstance(value, str | int):
        return None
    return " ".join(str(value).split()) or None
