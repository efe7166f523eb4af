"""Label Studio's JSON export: tasks with regions in percent of the image, transcriptions, choices, spans of texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.corpus.documents import Box
from audit.errors import ManifestError
from audit.importers.files import IMAGES, form_of
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, Span, bounds, clean, line_words
from audit.importers.source import Source
from audit.importers.words import BESIDE_JSON

LABELS = ("rectanglelabels", "labels", "polygonlabels", "ellipselabels", "hypertextlabels")


@dataclass
class _Region:
    """The results of one id together."""

    box: Box | None = None
    labels: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    span: Span | None = None


class LabelStudio(Importer):
    """One document a task.

    Words of a word file beside the image, else those transcribed in its regions.
    """

    name = "label-studio"
    description = "Label Studio's .json export and the images"
    word_files = BESIDE_JSON
    marks = (("*.json", '"from_name":|"was_cancelled":'),)

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        texts: list[Page] = []
        for path in source.files(
            ".json", hint="export the project as JSON, and put the file beside the images"
        ):
            with source.problems.catch():
                for place, task in source.records(path):
                    with source.problems.catch(f"{place}:"):
                        _add(source, place, task, texts)
        yield from source.pages
        yield from texts


def _add(source: Source, place: str, task: Any, texts: list[Page]) -> None:
    """Make a task a page, or add it to the page of its image.

    Raises:
        ManifestError: it has another form, or its image is not there.
    """
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise ManifestError('not a task: it has no "data"; export as JSON, not as JSON_MIN')
    with form_of("an annotation"):
        annotations: Any = task.get("annotations", task.get("completions", []))
        given = [
            one for one in annotations if isinstance(one, dict) and not one.get("was_cancelled")
        ]
        regions, choices = _regions(given[-1].get("result", []) if given else [])
    values = [value for value in task["data"].values() if isinstance(value, str)]
    image = next(
        (
            value
            for value in values
            if value.lower().split("?d=")[-1].split("?")[0].endswith(IMAGES)
        ),
        None,
    )
    text = task["data"].get("text")
    if image is not None:
        page = source.page(source.find_image(image), task)
        _add_regions(page, regions)
    elif isinstance(text, str):
        page = Page(
            f"task-{task.get('id', len(texts) + 1)}", provider=source.provider(task), place=place
        )
        marked = [(one.span, label) for one in regions if one.span for label in one.labels]
        words = page.mark(text, [span for span, _ in marked])
        for ((start, end), label), inside in zip(marked, words, strict=True):
            if inside:
                page.fields.append(Field(label, inside, value=text[start:end]))
        texts.append(page)
    else:
        raise ManifestError("its data name neither an image nor a text")
    page.label = clean(choices[0]) or None if choices else page.label


def _regions(results: Sequence[Any]) -> tuple[list[_Region], list[str]]:
    """Return the regions, results of one id joined, and the choices for the page."""
    regions: dict[str, _Region] = {}
    choices: list[str] = []
    for number, one in enumerate(results):
        kind, value = one.get("type"), one.get("value")
        if kind == "relation":
            continue
        if not isinstance(value, dict):
            raise ManifestError(f"result {number}: no value")
        if kind == "choices":
            choices += _texts(value.get("choices", []))
            continue
        region = regions.setdefault(str(one.get("id", f"#{number}")), _Region())
        region.labels += [text for key in LABELS for text in _texts(value.get(key, []))]
        if kind == "textarea":
            text = value.get("text") or []
            region.texts += [text] if isinstance(text, str) else _texts(text)
        with form_of(f"result {number}: a region of numbers"):
            region.box = _box(value) or region.box
        if isinstance(value.get("start"), int) and isinstance(value.get("end"), int):
            region.span = (value["start"], value["end"])
    return [*regions.values()], choices


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ManifestError("labels, choices and transcriptions are lists of texts")
    return value


def _box(value: Mapping[str, Any]) -> Box | None:
    """Return a region's box as shares of the image: of a rectangle, upright, or around a polygon's points."""
    if value.get("points"):
        return bounds([(float(x) / 100, float(y) / 100) for x, y in value["points"]])
    if "width" not in value or "x" not in value:
        return None
    x, y, width, height = (float(value[key]) / 100 for key in ("x", "y", "width", "height"))
    return (x, y, x + width, y + height)


def _add_regions(page: Page, regions: Sequence[_Region]) -> None:
    """Give a page its regions as fields, and as words too where it has no word file."""
    page.unit = "shares"
    words, transcribed = [*page.words], not page.words
    for region in (one for one in regions if one.box is not None):
        text, first = clean(" ".join(region.texts)), len(words)
        words += line_words(text, region.box) if transcribed else ()
        label = next(filter(None, map(clean, region.labels)), None)
        if label is not None:
            page.fields.append(
                Field(label, tuple(range(first, len(words))), region.box, text or None)
            )
    page.words = words
