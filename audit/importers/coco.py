"""COCO's JSON: images, categories, and annotations with a box (x, y, width, height) in pixels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.contents import ImportRequest, SourceContents
from audit.importers.gathering.assembly import Assembly
from audit.importers.gathering.choosing import TASKS
from audit.importers.gathering.drafts import DraftField, DraftPage, clean
from audit.importers.gathering.files import relative_files
from audit.importers.gathering.parts import check_parts, part_of
from audit.importers.interface import Source
from audit.importers.source_files import read_json, read_text
from audit.importers.words.image_pages import ImagePages

_LOOSE = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)


@strict_dataclass(frozen=True, config=_LOOSE)
class _Image:
    id: int | str
    file_name: str
    width: float = Field(gt=0)
    height: float = Field(gt=0)


@strict_dataclass(frozen=True, config=_LOOSE)
class _Category:
    id: int | str
    name: str


@strict_dataclass(frozen=True, config=_LOOSE)
class _Annotation:
    image_id: int | str
    category_id: int | str
    bbox: tuple[float, float, float, float]


@strict_dataclass(frozen=True, config=_LOOSE)
class _File:
    images: tuple[_Image, ...]
    annotations: tuple[_Annotation, ...]
    categories: tuple[_Category, ...]


_type = TypeAdapter(_File)


class COCO(Source):
    """One document an image, whose boxes are fields: of the words inside them."""

    name = "coco"
    description = "COCO's .json, the images, and word files beside these"
    tasks = TASKS
    divisions = frozenset({"official", "by-provider"})
    recognises = True

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        root, files = (src.parent, [src.name]) if src.is_file() else (src, relative_files(src, (".json",)))
        own = [path for path in files if '"categories"' in read_text(inside(root.resolve(), path))]
        if not own:
            raise UsageError(f"{src} holds no .json with categories", "give the folder of the annotations and images")
        problems, images = Problems(), ImagePages(root, request)
        for path in own:
            with problems.catch():
                _add(read_json(root / path, _type), path, images, problems)
        pages = [*images.pages.values()]
        check_parts(src, pages, request)
        return Assembly(self.name, pages, request, problems).contents()


def _add(table: _File, path: str, images: ImagePages, problems: Problems) -> None:
    """Add the images of a file, each with its annotations."""
    categories = {category.id: clean(category.name) for category in table.categories}
    pages: dict[int | str, tuple[DraftPage, _Image]] = {}
    folder = PurePosixPath(path).parent.as_posix()
    for image in table.images:
        with problems.catch(f"{path}: image {image.id}:"):
            page = images.page(images.finder.find(image.file_name, folder), {})
            page.part = page.part or part_of(path)
            page.unit, page.shape = "shares", page.shape or (image.width, image.height)
            pages[image.id] = page, image
    known = {image.id for image in table.images}
    for number, one in enumerate(table.annotations):
        with problems.catch(f"{path}: annotations.{number}:"):
            if one.image_id not in known:
                raise ManifestError("no image has its image_id")
            if one.image_id in pages:
                page, image = pages[one.image_id]
                page.fields.append(_field(one, image, categories))


def _field(one: _Annotation, image: _Image, categories: Mapping[int | str, str]) -> DraftField:
    if not categories.get(one.category_id):
        raise ManifestError("no category has its category_id")
    x, y, width, height = one.bbox
    box = (x / image.width, y / image.height, (x + width) / image.width, (y + height) / image.height)
    return DraftField(categories[one.category_id], box=box)
