"""What an annotation of Label Studio holds: regions, relations of them, and facts of a page.

Results of one id describe one region. A result that has no place is about its whole page.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from audit.corpus.documents import Box
from audit.errors import ManifestError
from audit.importers.files import form_of
from audit.importers.pages import Span, bounds, clean

TURNED_TASK = "pages turned in Label Studio, whose boxes are of the turned page, left out"
OTHER_RESULTS = "results of Label Studio that are no label, text or choice, left out"
UNPLACED = "regions without a box or a span of the text, left out"
MORE_LABELS = "labels beside the first of a region, left out"
REGION_CHOICES = "choices about a region that has a label, left out"
CHOSEN_LABELS = "regions labelled by a choice"
_PLACES = ("x", "points", "start", "rle")
"""Keys of a value that places a region."""
_UPRIGHT = 45.0
"""Degrees up to which the words of a turned rectangle stand side by side."""
_LAST_NUMBER = re.compile(r"\d+$")
Direction = Literal["right", "left", "bi"]


@dataclass
class Region:
    """The results of one id together.

    Attributes:
        target: name of the object in the labelling interface that it is of.
        item: number of the page, where the object is a list of them.
        box: place on the page, as shares of it.
        is_upright: whether its words stand side by side.
        labels: its labels.
        choices: choices about it alone.
        texts: its transcription.
        span: characters of the text that it marks.
        marked: the text that it marks, as Label Studio repeats it.
        page_turn: degrees by which the annotator turned the page.
    """

    target: str = ""
    item: int | None = None
    box: Box | None = None
    is_upright: bool = True
    labels: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    span: Span | None = None
    marked: str = ""
    page_turn: float = 0.0

    @property
    def label(self) -> str | None:
        """Return its label: the first one, else its first choice; None without any."""
        return next(filter(None, map(clean, (*self.labels, *self.choices))), None)

    @property
    def text(self) -> str:
        """Return its transcription as one line."""
        return clean(" ".join(self.texts))

    def count(self, notes: Counter[str]) -> None:
        """Count what of the region is left out, or was chosen among several."""
        notes[MORE_LABELS] += max(len(self.labels) - 1, 0)
        if self.choices and self.labels:
            notes[REGION_CHOICES] += len(self.choices)
        elif self.choices:
            notes[CHOSEN_LABELS] += 1
        notes[UNPLACED] += self.box is None and self.span is None


@dataclass(frozen=True)
class Fact:
    """A choice or a text about a whole page.

    Attributes:
        kind: whether it is one of given choices or a text.
        name: name of the question in the labelling interface.
        target: name of the object that it is about.
        item: number of the page, where the object is a list of them.
        values: the choices, or the texts.
    """

    kind: Literal["choice", "text"]
    name: str
    target: str
    item: int | None
    values: Sequence[str]


@dataclass(frozen=True)
class Relation:
    """A relation between two regions, from the parent to the child."""

    parent: str
    child: str


@dataclass
class Annotation:
    """What an annotator said about a task.

    Attributes:
        regions: regions by id.
        facts: what is about whole pages.
        relations: relations of regions.
        notes: counts of what was left out.
    """

    regions: dict[str, Region] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def targets(self) -> set[str]:
        """Return the names of the objects that anything is said about."""
        of_regions = {region.target for region in self.regions.values()}
        return of_regions | {fact.target for fact in self.facts}

    @property
    def spans(self) -> list[Region]:
        """List the regions that mark characters of a text."""
        return [region for region in self.regions.values() if region.span]


def read_results(results: Sequence[Any]) -> Annotation:
    """Read the results of an annotation.

    Raises:
        ManifestError: a result has another form.
    """
    annotation = Annotation()
    for number, result in enumerate(results):
        if result.get("type") == "relation":
            annotation.relations.append(_relation(result))
            continue
        value = result.get("value")
        if not isinstance(value, dict):
            raise ManifestError(f"result {number}: no value")
        if _is_of_region(result, value, annotation.regions):
            name = str(result.get("id", f"#{number}"))
            region = annotation.regions.setdefault(name, Region())
            with form_of(f"result {number}: a region of numbers"):
                _add_place(region, result, value)
            _add_contents(region, result.get("type"), value)
        else:
            _add_fact(annotation, result, value)
    for region in annotation.regions.values():
        region.count(annotation.notes)
    return annotation


def last_number(name: str) -> int | None:
    """Return the number that a name ends with; None without one."""
    match = _LAST_NUMBER.search(name)
    if match is None:
        return None
    return int(match[0])


def _relation(result: Mapping[str, Any]) -> Relation:
    """Return the relation of a result; an arrow to the left makes the second one the parent."""
    ends = [str(result.get("from_id")), str(result.get("to_id"))]
    if result.get("direction") == "left":
        ends.reverse()
    return Relation(*ends)


def _is_of_region(
    result: Mapping[str, Any], value: Mapping[str, Any], regions: Mapping[str, Region]
) -> bool:
    """Test whether a result is about a region: it has a place, or the id of one."""
    return not {*value}.isdisjoint(_PLACES) or str(result.get("id")) in regions


def _add_place(region: Region, result: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    """Add to a region the object and the place that a result is of."""
    region.target = str(result.get("to_name", region.target))
    region.item = _item_of(result)
    region.page_turn = float(result.get("image_rotation") or 0) or region.page_turn
    turn = float(value.get("rotation") or 0)
    shape = (float(result.get("original_width") or 0), float(result.get("original_height") or 0))
    region.box = _box(value, turn, shape) or region.box
    region.is_upright = abs((turn + 90) % 180 - 90) <= _UPRIGHT
    if isinstance(value.get("start"), int) and isinstance(value.get("end"), int):
        region.span = (value["start"], value["end"])
        region.marked = str(value.get("text") or "")


def _item_of(result: Mapping[str, Any]) -> int | None:
    """Return the number of the page that a result is of; None where it does not say."""
    item = result.get("item_index")
    if isinstance(item, int):
        return item
    return None


def _box(value: Mapping[str, Any], turn: float, shape: tuple[float, float]) -> Box | None:
    """Return the upright box around a region as shares of the page; None of one without a box.

    Args:
        value: value of a result: a rectangle, an ellipse, or a polygon's points.
        turn: degrees by which the region is turned clockwise.
        shape: width and height of the page in pixels; a turn is one of pixels.

    Raises:
        ManifestError: it is turned, and no shape says how far.
    """
    if value.get("points"):
        return bounds([(float(x) / 100, float(y) / 100) for x, y in value["points"]])
    corners = _corners(value)
    if not corners:
        return None
    if turn:
        corners = _turned(corners, turn, shape)
    x = float(value["x"]) / 100
    y = float(value["y"]) / 100
    return bounds([(x + across, y + down) for across, down in corners])


def _corners(value: Mapping[str, Any]) -> list[tuple[float, float]]:
    """List corners of a rectangle or an ellipse from its own point, x and y; none of others."""
    if value.keys() >= {"x", "y", "radiusX", "radiusY"}:
        wide = float(value["radiusX"]) / 100
        high = float(value["radiusY"]) / 100
        return [(-wide, 0.0), (wide, 0.0), (0.0, -high), (0.0, high)]
    if value.keys() >= {"x", "y", "width", "height"}:
        wide = float(value["width"]) / 100
        high = float(value["height"]) / 100
        return [(0.0, 0.0), (wide, 0.0), (wide, high), (0.0, high)]
    return []


def _turned(
    points: Sequence[tuple[float, float]], turn: float, shape: tuple[float, float]
) -> list[tuple[float, float]]:
    """Turn points about (0, 0), clockwise, as pixels of a page; they are shares of it."""
    if not (shape[0] > 0 and shape[1] > 0):
        raise ManifestError("a turned region, and no original_width and original_height")
    cosine = math.cos(math.radians(turn))
    sine = math.sin(math.radians(turn))
    stretch = shape[1] / shape[0]
    return [
        (across * cosine - down * stretch * sine, across / stretch * sine + down * cosine)
        for across, down in points
    ]


def _add_contents(region: Region, kind: object, value: Mapping[str, Any]) -> None:
    """Add the labels, choices and transcription of a result to its region.

    Raises:
        ManifestError: they are no texts.
    """
    for key, content in value.items():
        if key.endswith("labels"):
            region.labels = [*dict.fromkeys([*region.labels, *_texts(content)])]
    if kind in ("choices", "taxonomy"):
        region.choices += _chosen(kind, value)
    elif kind == "textarea":
        region.texts += _written(value)


def _add_fact(annotation: Annotation, result: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    """Add a result about a whole page; count one that is neither a choice nor a text."""
    kind = result.get("type")
    name = str(result.get("from_name", ""))
    target = str(result.get("to_name", ""))
    item = _item_of(result)
    if kind in ("choices", "taxonomy"):
        annotation.facts.append(Fact("choice", name, target, item, _chosen(kind, value)))
    elif kind == "textarea":
        annotation.facts.append(Fact("text", name, target, item, _written(value)))
    else:
        annotation.notes[OTHER_RESULTS] += 1


def _chosen(kind: object, value: Mapping[str, Any]) -> list[str]:
    """Return the choices of a result; those of a tree have the names of all its branches."""
    if kind == "choices":
        return _texts(value.get("choices", []))
    return [" / ".join(_texts(branch)) for branch in value.get("taxonomy", [])]


def _written(value: Mapping[str, Any]) -> list[str]:
    """Return the texts that an annotator wrote: one, or a list."""
    text = value.get("text") or []
    if isinstance(text, str):
        return [text]
    return _texts(text)


def _texts(value: Any) -> list[str]:
    """Return a value that is a list of texts; refuse any other.

    Raises:
        ManifestError: it is none.
    """
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ManifestError("labels, choices and transcriptions are lists of texts")
    return value
