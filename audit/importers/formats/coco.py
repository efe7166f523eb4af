"""COCO's JSON: images, categories, and annotations with a box (x, y, width, height) in pixels."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from audit.errors import ManifestError, UsageError
from audit.importers.files import form_of, parse_json, read_text
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, clean, part_of, shares_of
from audit.importers.source import Source
from audit.importers.words import SUFFIXES


class COCO(Importer):
    """One document an image, whose boxes are fields: of the words inside them."""

    name = "coco"
    description = "COCO's .json, the images, and word files beside these"
    word_files = SUFFIXES
    marks = (("*.json", '"category_id":|"categories":'),)

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of a COCO file."""
        annotations = {}
        for path in source.files(".json"):
            text = read_text(source.at(path))
            if '"categories"' in text:
                annotations[path] = text
        if not annotations:
            hint = "give the folder of the annotations and images"
            raise UsageError(f"{source.path} holds no .json with categories", hint)
        for path, text in annotations.items():
            with source.problems.catch(f"{path}:"), form_of("COCO's"):
                _add_images(source, path, parse_json(text, "not JSON"))
        yield from source.pages


def _add_images(source: Source, path: str, table: Mapping[str, Any]) -> None:
    """Add the images of a COCO file to the source's pages, each with its annotations."""
    categories = {category["id"]: clean(category["name"]) for category in table["categories"]}
    images = {image["id"]: image for image in table["images"]}
    pages: dict[Any, Page] = {}
    for number, (name, image) in enumerate(images.items()):
        with source.problems.catch(f"{path}: images.{number}:"), form_of("COCO's"):
            page = source.page(
                source.find_image(image["file_name"], PurePosixPath(path).parent.as_posix())
            )
            page.part = page.part or part_of(path)
            page.unit = "shares"
            page.shape = page.shape or (float(image["width"]), float(image["height"]))
            pages[name] = page
    for number, annotation in enumerate(table["annotations"]):
        with source.problems.catch(f"{path}: annotations.{number}:"), form_of("COCO's"):
            name = annotation["image_id"]
            if name not in images or not categories.get(annotation["category_id"]):
                raise ManifestError("no image has its image_id, or no category its category_id")
            category = categories[annotation["category_id"]]
            image = images[name]
            x, y, width, height = map(float, annotation["bbox"])
            box = shares_of(
                (x, y, x + width, y + height), (float(image["width"]), float(image["height"]))
            )
            if name in pages:
                pages[name].fields.append(Field(category, box=box))
