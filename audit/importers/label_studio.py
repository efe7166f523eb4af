"""Label Studio's JSON export: tasks with regions in percent of the image, transcriptions, choices, spans of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.corpus.documents import Box
from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.contents import ImportRequest, SourceContents
from audit.importers.gathering.assembly import Assembly
from audit.importers.gathering.choosing import TASKS
from audit.importers.gathering.drafts import DraftField, DraftPage, DraftWord, clean
from audit.importers.gathering.files import json_lines, provider_of, relative_files
from audit.importers.gathering.parts import check_parts
from audit.importers.gathering.spans import Span, add_spans
from audit.importers.interface import Source
from audit.importers.source_files import texts_in
from audit.importers.words.image_pages import ImagePages

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
LABELS = ("rectanglelabels", "labels", "polygonlabels", "ellipselabels", "hypertextlabels")
WORD_FILES = (".hocr", ".tsv", ".xml")
"""Not .json, which the export itself is."""


@dataclass
class _Region:
    """What results of one id say together."""

    box: Box | None = None
    labels: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    span: tuple[int, int] | None = None


class LabelStudio(Source):
    """One document a task; words of a word file beside the image, else those transcribed in its regions."""

    name = "label-studio"
    description = "Label Studio's .json export and the images"
    tasks = TASKS
    divisions = frozenset({"official", "by-provider"})
    recognises = True

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        root, files = (src.parent, [src.name]) if src.is_file() else (src, relative_files(src, (".json",)))
        if not files:
            raise UsageError(f"{src} holds no .json", "export the project as JSON, and put the file beside the images")
        problems, images = Problems(), ImagePages(root, request, WORD_FILES)
        texts: list[DraftPage] = []
        for path in files:
            with problems.catch():
                for place, task in json_lines(inside(root.resolve(), path)):
                    with problems.catch(f"{place}:"):
                        _add(task, images, texts, request)
        pages = [*images.pages.values(), *texts]
        check_parts(src, pages, request)
        return Assembly(self.name, pages, request, problems).contents()


def _add(task: Any, images: ImagePages, texts: list[DraftPage], request: ImportRequest) -> None:
    """Make a task a page, or add it to the page of its image.

    Raises:
        ManifestError: it has another form, or its image is not there.
    """
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise ManifestError('not a task: it has no "data"; export as JSON, not as JSON_MIN')
    regions, choices = _regions(_result(task))
    data = task["data"]
    image = next((value for value in data.values() if _is_image(value)), None)
    if image is None:
        text = next((value for key, value in data.items() if key == "text" and isinstance(value, str)), None)
        if text is None:
            raise ManifestError("its data name neither an image nor a text")
        page = DraftPage(f"task-{task.get('id', len(texts) + 1)}", provider=_provider(request, task))
        spans = [Span(*one.span, label) for one in regions if one.span for label in one.labels]
        add_spans(page, text, spans)
        texts.append(page)
    else:
        page = images.page(images.finder.find(image), task)
        _add_regions(page, regions)
    if choices:
        page.label = clean(choices[0]) or None


def _provider(request: ImportRequest, task: Mapping[str, Any]) -> str | None:
    return provider_of(request.options.provider, task, None)


def _is_image(value: Any) -> bool:
    return isinstance(value, str) and value.lower().split("?d=")[-1].split("?")[0].endswith(IMAGE_ENDINGS)


def _result(task: Mapping[str, Any]) -> Sequence[Any]:
    """The results of the last annotation that was not cancelled; none where there is none."""
    given = task.get("annotations", task.get("completions", []))
    if not isinstance(given, list):
        raise ManifestError("annotations: not a list")
    kept = [one for one in given if isinstance(one, dict) and not one.get("was_cancelled")]
    result = kept[-1].get("result", []) if kept else []
    if not isinstance(result, list):
        raise ManifestError("result: not a list")
    return result


def _regions(results: Sequence[Any]) -> tuple[list[_Region], list[str]]:
    """The regions, results of one id joined, and the choices for the page."""
    regions: dict[str, _Region] = {}
    choices: list[str] = []
    for number, one in enumerate(results):
        value = one.get("value") if isinstance(one, dict) else None
        if not isinstance(value, dict):
            if isinstance(one, dict) and one.get("type") == "relation":
                continue
            raise ManifestError(f"result {number}: no value")
        if one.get("type") == "choices":
            choices += texts_in(value.get("choices", []), f"result {number}: choices")
            continue
        region = regions.setdefault(str(one.get("id", f"#{number}")), _Region())
        region.labels += [text for key in LABELS for text in texts_in(value.get(key, []), f"result {number}: {key}")]
        text = value.get("text")
        if one.get("type") == "textarea":
            region.texts += [text] if isinstance(text, str) else texts_in(text or [], f"result {number}: text")
        region.box = _box(value, number) or region.box
        if isinstance(value.get("start"), int) and isinstance(value.get("end"), int):
            region.span = (value["start"], value["end"])
    return [*regions.values()], choices


def _box(value: Mapping[str, Any], number: int) -> Box | None:
    """A region's box as shares of the image: of a rectangle, upright, or around a polygon's points."""
    points = value.get("points")
    try:
        if isinstance(points, list) and points:
            xs, ys = [float(x) for x, _ in points], [float(y) for _, y in points]
            return (min(xs) / 100, min(ys) / 100, max(xs) / 100, max(ys) / 100)
        if "width" not in value or "x" not in value:
            return None
        x, y = float(value["x"]), float(value["y"])
        return (x / 100, y / 100, (x + float(value["width"])) / 100, (y + float(value["height"])) / 100)
    except (TypeError, ValueError, KeyError):
        raise ManifestError(f"result {number}: its region is not of numbers") from None


def _add_regions(page: DraftPage, regions: Sequence[_Region]) -> None:
    """Give a page its regions as fields, and as words too where it has no word file."""
    page.unit = "shares"
    transcribed = not page.words
    words: list[DraftWord] = list(page.words)
    for region in regions:
        if region.box is None:
            continue
        text = clean(" ".join(region.texts))
        own: tuple[int, ...] = ()
        if transcribed and text:
            first = len(words)
            words += _words(text, region.box)
            own = tuple(range(first, len(words)))
        labels = [label for label in region.labels if clean(label)]
        page.fields += [DraftField(clean(label), own, region.box, text or None) for label in labels[:1]]
    page.words = words


def _words(text: str, box: Box) -> Iterator[DraftWord]:
    """The words of a transcription, its box divided by the number of characters."""
    step, place = (box[2] - box[0]) / len(text), 0
    for word in text.split(" "):
        if word:
            yield DraftWord(word, (box[0] + place * step, box[1], box[0] + (place + len(word)) * step, box[3]))
        place += len(word) + 1
