"""Label Studio's exports: each result goes to its region, its page and its annotation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from imported_files import import_files, refusal_of
from imported_sources import as_json

from audit.importers.assemble import LINKS_LEFT_OUT
from audit.importers.formats import label_studio, label_studio_results

IMAGES = {"p$n.png": "200x400"}
PLACE = {"x": 10, "y": 10, "width": 20, "height": 5}
"""Place of a region: 20, 40, 60, 60 in pixels of the page."""


def region(
    name: str,
    label: str = "TOTAL",
    text: str = "14.20",
    *,
    place: Mapping[str, float] = PLACE,
    **more: Any,
) -> list[dict[str, Any]]:
    """The results of a rectangle with a label and a transcription."""
    shape = {"original_width": 200, "original_height": 400}
    base = {"id": name, "to_name": "image", **shape, **more}
    return [
        {**base, "type": "rectanglelabels", "value": {**place, "rectanglelabels": [label]}},
        {**base, "type": "textarea", "value": {**place, "text": [text]}},
    ]


def span(start: int, end: int, text: str, label: str = "PER") -> dict[str, Any]:
    """The result of marked characters of a text."""
    value = {"start": start, "end": end, "text": text, "labels": [label]}
    return {"id": f"{start}-{end}", "to_name": "text", "type": "labels", "value": value}


def task(data: Mapping[str, Any], *annotations: Sequence[Any] | Mapping[str, Any]) -> str:
    """An export of one task; an annotation is the list of its results, or is whole."""
    full: list[Any] = []
    for entry in annotations:
        if isinstance(entry, dict):
            full.append(entry)
        else:
            full.append({"result": entry})
    return as_json([{"id": 7, "data": data, "annotations": full}])


def page(*results: Any) -> dict[str, str]:
    """The files of an export of one task with one image and these results."""
    return {**IMAGES, "export.json": task({"ocr": "/data/upload/1/abcdef12-p0.png"}, results)}


def test_a_choice_of_a_region_is_no_class_of_its_page(tmp_path: Path) -> None:
    choice = {"id": "a", "type": "choices", "value": {**PLACE, "choices": ["handwritten"]}}
    imported = import_files("label-studio", page(*region("a"), choice), tmp_path)
    assert imported.documents["p0"].label is None
    assert imported.fields("p0") == [("TOTAL", "14.20")]
    assert imported.notes[label_studio_results.REGION_CHOICES] == 1


def test_a_choice_labels_a_region_that_has_no_label(tmp_path: Path) -> None:
    choice = {"id": "a", "type": "choices", "value": {**PLACE, "choices": ["stamp"]}}
    imported = import_files("label-studio", page(region("a")[1], choice), tmp_path)
    assert imported.fields("p0") == [("stamp", "14.20")]
    assert imported.notes[label_studio_results.CHOSEN_LABELS] == 1


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"type": "choices", "value": {"choices": ["invoice"]}}, id="choices"),
        pytest.param({"type": "taxonomy", "value": {"taxonomy": [["invoice"]]}}, id="taxonomy"),
    ],
)
def test_a_choice_without_a_place_is_the_class_of_its_page(
    result: dict[str, Any], tmp_path: Path
) -> None:
    more = {"type": "choices", "from_name": "quality", "value": {"choices": ["good"]}}
    files = page(*region("a"), {"from_name": "kind", **result}, more)
    imported = import_files("label-studio", files, tmp_path)
    assert imported.documents["p0"].label == "invoice"
    assert imported.notes[label_studio.MORE_CHOICES] == 1


def test_the_owner_says_which_choice_is_the_class(tmp_path: Path) -> None:
    first = {"type": "choices", "from_name": "quality", "value": {"choices": ["good"]}}
    second = {"type": "choices", "from_name": "kind", "value": {"choices": ["invoice"]}}
    files = page(*region("a"), first, second)
    imported = import_files("label-studio", files, tmp_path, columns={"label": "kind"})
    assert imported.documents["p0"].label == "invoice"


@pytest.mark.parametrize(
    ("place", "box"),
    [
        pytest.param({**PLACE, "rotation": 0}, (20, 40, 60, 60), id="upright"),
        pytest.param({**PLACE, "rotation": 90}, (0, 40, 20, 80), id="quarter"),
        pytest.param({**PLACE, "x": 50, "y": 50, "rotation": 270}, (100, 160, 120, 200), id="back"),
        pytest.param({**PLACE, "x": 50, "y": 50, "rotation": 180}, (60, 180, 100, 200), id="over"),
        pytest.param(
            {"x": 50, "y": 50, "radiusX": 10, "radiusY": 5}, (80, 180, 120, 220), id="ellipse"
        ),
        pytest.param(
            {"x": 50, "y": 50, "radiusX": 10, "radiusY": 10, "rotation": 90},
            (60, 180, 140, 220),
            id="ellipse on its side",
        ),
        pytest.param({"points": [[10, 10], [30, 10], [20, 15]]}, (20, 40, 60, 60), id="polygon"),
    ],
)
def test_a_region_has_the_box_around_its_turned_shape(
    place: dict[str, Any], box: tuple[int, ...], tmp_path: Path
) -> None:
    files = page(*region("a", text="14.20", place=place))
    imported = import_files("label-studio", files, tmp_path)
    (word,) = imported.documents["p0"].words
    assert word.box == pytest.approx(box, abs=0.2)


def test_words_on_their_side_all_have_the_box_of_the_region(tmp_path: Path) -> None:
    files = page(*region("a", text="Sum 14.20", place={**PLACE, "rotation": 90}))
    first, second = import_files("label-studio", files, tmp_path).documents["p0"].words
    assert first.box == second.box == (0, 40, 20, 80)


def test_a_turned_region_without_the_size_of_its_page_is_refused(tmp_path: Path) -> None:
    place = {**PLACE, "rotation": 90}
    files = page(*region("a", place=place, original_width=None))
    assert "no original_width" in refusal_of("label-studio", files, tmp_path)


def test_a_page_that_the_annotator_turned_is_left_out_and_counted(tmp_path: Path) -> None:
    data = task({"image": "p1.png"}, region("b"))
    files = {**page(*region("a", image_rotation=90)), "upright.json": data}
    imported = import_files("label-studio", files, tmp_path)
    assert imported.documents.keys() == {"p1"}
    assert imported.notes[label_studio_results.TURNED_TASK] == 1


@pytest.mark.parametrize(
    ("annotations", "label", "notes"),
    [
        pytest.param(
            [{"ground_truth": True, "result": region("a", "TRUE")}, region("b", "LAST")],
            "TRUE",
            {label_studio.GROUND_TRUTH: 1},
            id="the marked one",
        ),
        pytest.param(
            [region("a", "FIRST"), region("b", "LAST")],
            "LAST",
            {label_studio.LAST: 1},
            id="the last",
        ),
        pytest.param(
            [region("a", "FIRST"), {"was_cancelled": True, "result": region("b", "CANCELLED")}],
            "FIRST",
            {},
            id="no cancelled one",
        ),
    ],
)
def test_one_annotation_of_several_counts(
    annotations: list[Any], label: str, notes: dict[str, int], tmp_path: Path
) -> None:
    files = {**IMAGES, "export.json": task({"image": "p0.png"}, *annotations)}
    imported = import_files("label-studio", files, tmp_path)
    assert imported.fields("p0") == [(label, "14.20")]
    assert imported.notes == notes


@pytest.mark.parametrize(
    ("data", "columns"),
    [
        pytest.param({"content": "Anna pays"}, {}, id="the only text"),
        pytest.param({"title": "A letter", "content": "Anna pays"}, {}, id="where the mark stands"),
        pytest.param(
            {"text": "A letter", "content": "Anna pays"}, {"text": "content"}, id="as named"
        ),
        pytest.param({"text": "Anna pays", "copy": "Anna pays"}, {}, id="of two that fit"),
    ],
)
def test_a_text_stands_under_any_key(
    data: dict[str, str], columns: dict[str, str], tmp_path: Path
) -> None:
    files = {"export.json": task(data, [span(0, 4, "Anna")])}
    imported = import_files("label-studio", files, tmp_path, columns=columns)
    assert imported.text("task-7") == "Anna pays"
    assert imported.fields("task-7") == [("PER", "Anna")]


def test_characters_may_be_counted_as_a_browser_counts_them(tmp_path: Path) -> None:
    files = {"export.json": task({"note": "\U0001f600 Anna pays"}, [span(3, 7, "Anna")])}
    imported = import_files("label-studio", files, tmp_path)
    assert imported.fields("task-7") == [("PER", "Anna")]


def test_a_mark_of_other_words_is_refused(tmp_path: Path) -> None:
    files = {"export.json": task({"text": "Bert pays"}, [span(0, 4, "Anna")])}
    assert "no text of its data has the marked words" in refusal_of("label-studio", files, tmp_path)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        pytest.param({"pages": ["p0.png", "p1.png"]}, {"item_index": 1}, id="item of a list"),
        pytest.param(
            {"images": [{"url": "http://a.b/p0.png"}, {"url": "http://a.b/p1.png"}]},
            {"to_name": "page_1"},
            id="repeated object",
        ),
        pytest.param({"page1": "p0.png", "page2": "p1.png"}, {"to_name": "img2"}, id="keys"),
    ],
)
def test_a_task_of_several_images_is_as_many_pages_of_one_source(
    data: dict[str, Any], place: dict[str, Any], tmp_path: Path
) -> None:
    files = {"p0.png": "200x400", "p1.png": "200x390"}
    files["export.json"] = task(data, region("a", **place))
    imported = import_files("label-studio", files, tmp_path)
    assert (imported.fields("p0"), imported.fields("p1")) == ([], [("TOTAL", "14.20")])


def test_an_image_that_no_result_is_of_is_no_page(tmp_path: Path) -> None:
    data = {"thumbnail": "p0.png", "image": "p1.png"}
    files = {**IMAGES, "export.json": task(data, region("a"))}
    imported = import_files("label-studio", files, tmp_path)
    assert imported.documents.keys() == {"p1"}
    assert imported.notes[label_studio.MORE_IMAGES] == 1


def test_a_region_of_no_page_is_counted(tmp_path: Path) -> None:
    results = [*region("a", item_index=0), *region("b", item_index=4)]
    files = {**IMAGES, "export.json": task({"pages": ["p0.png"]}, results)}
    imported = import_files("label-studio", files, tmp_path)
    assert imported.fields("p0") == [("TOTAL", "14.20")]
    assert imported.notes == {label_studio.OTHER_OBJECTS: 1}


@pytest.mark.parametrize(
    ("direction", "links"),
    [
        pytest.param("right", (("e1", "e2"),), id="right"),
        pytest.param("left", (("e2", "e1"),), id="left"),
        pytest.param("bi", (("e1", "e2"),), id="both"),
    ],
)
def test_relations_of_regions_are_links(
    direction: str, links: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    below = {**PLACE, "y": 40}
    relation = {"type": "relation", "from_id": "a", "to_id": "b", "direction": direction}
    lost = {"type": "relation", "from_id": "a", "to_id": "nowhere"}
    results = [*region("a", "KEY"), *region("b", "VALUE", place=below), relation, lost]
    imported = import_files("label-studio", page(*results), tmp_path)
    assert imported.documents["p0"].links == links
    assert imported.notes == {"links": 1, LINKS_LEFT_OUT: 1}


def test_relations_of_spans_are_links(tmp_path: Path) -> None:
    relation = {"type": "relation", "from_id": "0-4", "to_id": "11-15", "direction": "right"}
    spans = [span(0, 4, "Anna"), span(11, 15, "Bern", "LOC")]
    files = {"export.json": task({"text": "Anna is in Bern"}, [*spans, relation])}
    imported = import_files("label-studio", files, tmp_path)
    assert imported.documents["task-7"].links == (("e1", "e2"),)


def test_a_relation_to_a_region_without_words_is_counted(tmp_path: Path) -> None:
    relation = {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"}
    below = {**PLACE, "y": 40}
    results = [*region("a", "KEY"), *region("b", "VALUE", "", place=below), relation]
    imported = import_files("label-studio", page(*results), tmp_path)
    assert imported.documents["p0"].links == ()
    assert imported.notes == {LINKS_LEFT_OUT: 1}


def test_a_text_about_a_whole_page_is_a_field_or_an_answer(tmp_path: Path) -> None:
    written = {"type": "textarea", "from_name": "total", "value": {"text": ["14.20"]}}
    field = import_files("label-studio", page(*region("a", "X"), written), tmp_path / "field")
    assert field.report.fields == {"X": 1, "total": 1}
    data = {"image": "p0.png", "question": "What is the total?"}
    files = {**IMAGES, "export.json": task(data, [written])}
    asked = import_files("label-studio", files, tmp_path / "asked")
    assert asked.questions("p0") == [("What is the total?", ("14.20",))]


def test_what_is_neither_label_nor_text_nor_choice_is_counted(tmp_path: Path) -> None:
    mask = {"id": "m", "type": "brushlabels", "value": {"rle": [1], "brushlabels": ["INK"]}}
    stars = {"type": "rating", "value": {"rating": 4}}
    imported = import_files("label-studio", page(*region("a"), mask, stars), tmp_path)
    assert imported.notes == {
        label_studio_results.UNPLACED: 1,
        label_studio_results.OTHER_RESULTS: 1,
    }
