"""Label Studio's JSON export.

Its tasks have regions in percent of the image, transcriptions, choices, and spans of texts.
"""

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
        """Yield the pages of an export of Label Studio."""
        texts: list[Page] = []
        for path in source.files(
            ".json", hint="export the project as JSON, and put the file beside the images"
        ):
            with source.problems.catch():
                for place, task in source.records(path):
                    with source.problems.catch(f"{place}:"):
                        _add_task(source, place, task, texts)
        yield from source.pages
        yield from texts


def _add_task(source: Source, place: str, task: Any, texts: list[Page]) -> None:
    """Make a page of a task, or add the task to the page of its image.

    Raises:
        ManifestError: it has another form, or its image is not there.
    """
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise ManifestError('not a task: it has no "data"; export as JSON, not as JSON_MIN')
    with form_of("an annotation"):
        regions, choices = _regions(_results_of(task))
    data = task["data"]
    image = _image_in(data)
    text = data.get("text")
    if image is not None:
        page = source.page(source.find_image(image), task)
        _add_regions(page, regions)
    elif isinstance(text, str):
        name = f"task-{task.get('id', len(texts) + 1)}"
        page = Page(name, provider=source.provider(task), place=place)
        _mark_spans(page, text, regions)
        texts.append(page)
    else:
        raise ManifestError("its data name neither an image nor a text")
    if choices:
        page.label = clean(choices[0]) or None


def _results_of(task: Mapping[str, Any]) -> Sequence[Any]:
    """Return the results of a task's last annotation that was not cancelled."""
    annotations: Any = task.get("annotations", task.get("completions", []))
    valid = [
        annotation
        for annotation in annotations
        if isinstance(annotation, dict) and not annotation.get("was_cancelled")
    ]
    results: Sequence[Any] = valid[-1].get("result", []) if valid else []
    return results


def _image_in(data: Mapping[str, Any]) -> str | None:
    """Return the first value of a task's data that names an image; None without one."""
    for value in data.values():
        if not isinstance(value, str):
            continue
        if value.lower().split("?d=")[-1].split("?")[0].endswith(IMAGES):
            return value
    return None


def _mark_spans(page: Page, text: str, regions: Sequence[_Region]) -> None:
    """Set a page's text to `text`, and add its marked spans as fields."""
    marked: list[tuple[Span, str]] = []
    for region in regions:
        if region.span:
            marked += [(region.span, label) for label in region.labels]
    words = page.mark(text, [span for span, _ in marked])
    for ((start, end), label), inside in zip(marked, words, strict=True):
        if inside:
            page.fields.append(Field(label, inside, value=text[start:end]))


def _regions(results: Sequence[Any]) -> tuple[list[_Region], list[str]]:
    """Return the regions, results of one id joined into one, and the choices for the page."""
    regions: dict[str, _Region] = {}
    choices: list[str] = []
    for number, result in enumerate(results):
        kind = result.get("type")
        value = result.get("value")
        if kind == "relation":
            continue
        if not isinstance(value, dict):
            raise ManifestError(f"result {number}: no value")
        if kind == "choices":
            choices += _texts(value.get("choices", []))
            continue
        region = regions.setdefault(str(result.get("id", f"#{number}")), _Region())
        _add_texts(region, kind, value)
        with form_of(f"result {number}: a region of numbers"):
            region.box = _box(value) or region.box
        if isinstance(value.get("start"), int) and isinstance(value.get("end"), int):
            region.span = (value["start"], value["end"])
    return [*regions.values()], choices


def _add_texts(region: _Region, kind: object, value: Mapping[str, Any]) -> None:
    """Add the labels of a result, and its transcription, to its region.

    Raises:
        ManifestError: they are no texts.
    """
    for key in LABELS:
        region.labels += _texts(value.get(key, []))
    if kind == "textarea":
        text = value.get("text") or []
        region.texts += [text] if isinstance(text, str) else _texts(text)


def _texts(value: Any) -> list[str]:
    """Return a value that is a list of texts; refuse any other.

    Raises:
        ManifestError: it is none.
    """
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ManifestError("labels, choices and transcriptions are lists of texts")
    return value


def _box(value: Mapping[str, Any]) -> Box | None:
    """Return a region's box as shares of the image; None of a region without a box.

    It is that of a rectangle, upright, or around a polygon's points.
    """
    if value.get("points"):
        return bounds([(float(x) / 100, float(y) / 100) for x, y in value["points"]])
    if "width" not in value or "x" not in value:
        return None
    x, y, width, height = (float(value[key]) / 100 for key in ("x", "y", "width", "height"))
    return (x, y, x + width, y + height)


def _add_regions(page: Page, regions: Sequence[_Region]) -> None:
    """Give a page its regions as fields, and as words too where it has no word file."""
    page.unit = "shares"
    words = [*page.words]
    has_word_file = bool(page.words)
    for region in regions:
        if region.box is None:
            continue
        text = clean(" ".join(region.texts))
        first = len(words)
        if not has_word_file:
            words += line_words(text, region.box)
        label = next(filter(None, map(clean, region.labels)), None)
        if label is not None:
            inside = tuple(range(first, len(words)))
            page.fields.append(Field(label, inside, region.box, text or None))
    page.words = words
