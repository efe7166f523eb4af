"""Forms of many pages in one file, links between items, and lines of tokens."""

from pathlib import Path
from typing import Any

import pytest
from imported_files import import_files, refusal_of
from imported_sources import as_json

from audit.importers.assemble import LINKS_LEFT_OUT
from audit.importers.formats import forms, token_lines
from audit.workflows.init import guess_format

IMAGES = {"de.train/p$n.jpg": "400x200"}
FIELDS = [("question", "Name:"), ("answer", "Zoe")]
DOCBANK = (
    "Name:\t100\t50\t200\t100\t0\t0\t0\tCMR9\ttitle\nZoe\t250\t50\t300\t100\t0\t0\t0\tCMR9\tdate\n"
)


def item(number: int, label: str, text: str, left: int, *links: list[int]) -> dict[str, Any]:
    """An item of a form with one word."""
    box = [left, 20, left + 100, 40]
    words = [{"box": box, "text": text}]
    base = {"id": number, "label": label, "text": text, "box": box}
    return {**base, "words": words, "linking": list(links)}


def form(*links: list[int]) -> list[dict[str, Any]]:
    """The items of a form: a question, its answer, and text that is neither."""
    question = item(0, "question", "Name:", 20, *links)
    answer = item(1, "answer", "Zoe", 140, *links)
    return [question, answer, item(2, "other", "page 1", 260)]


def xfund(*names: str) -> str:
    """The file of a language as XFUND has it."""
    documents: list[dict[str, Any]] = []
    for name in names:
        image = {"fname": name, "width": 400, "height": 200}
        documents.append({"id": name, "document": form([0, 1]), "img": image})
    return as_json({"lang": "de", "documents": documents})


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(xfund("p0.jpg", "p1.jpg", "p2.jpg"), id="XFUND"),
        pytest.param(
            as_json([{"image": f"de.train/p{n}.jpg", "form": form([0, 1])} for n in range(3)]),
            id="a list of forms",
        ),
        pytest.param(
            as_json({f"p{n}.jpg": {"form": form([0, 1])} for n in range(3)}), id="by image"
        ),
        pytest.param(as_json({f"p{n}.jpg": form([0, 1]) for n in range(3)}), id="items by image"),
    ],
)
def test_one_file_holds_the_forms_of_many_pages(content: str, tmp_path: Path) -> None:
    imported = import_files("forms", {**IMAGES, "de.train.json": content}, tmp_path)
    assert imported.documents.keys() == {"p0", "p1", "p2"}
    assert imported.fields("p1") == FIELDS
    assert imported.documents["p1"].words[0].box == (20, 20, 120, 40)
    assert imported.documents["p1"].links == (("e1", "e2"),)
    assert imported.notes["links"] == 3


def test_boxes_of_a_larger_page_are_those_of_its_image(tmp_path: Path) -> None:
    images = {"p0.jpg": "200x100"}
    imported = import_files("forms", {**images, "de.json": xfund("p0.jpg")}, tmp_path)
    assert imported.documents["p0"].words[0].box == (10, 10, 60, 20)


def test_images_that_no_form_names_are_counted(tmp_path: Path) -> None:
    imported = import_files("forms", {**IMAGES, "de.json": xfund("p0.jpg")}, tmp_path)
    assert imported.documents.keys() == {"p0"}
    assert imported.notes[forms.UNNAMED] == 2


def test_init_recognises_a_file_of_many_forms(tmp_path: Path) -> None:
    (tmp_path / "de.json").write_text(xfund("p0.jpg"))
    assert guess_format(tmp_path) == "forms"


def test_links_of_a_form_are_kept_where_both_are_fields(tmp_path: Path) -> None:
    files = {"p0.png": "400x200", "p0.json": as_json({"form": form([0, 1], [1, 2])})}
    imported = import_files("forms", files, tmp_path)
    assert imported.documents["p0"].links == (("e1", "e2"),)
    assert imported.notes[LINKS_LEFT_OUT] == 1


def test_links_that_are_no_pairs_are_refused(tmp_path: Path) -> None:
    files = {"p0.png": "400x200", "p0.json": as_json({"form": form([0])})}
    assert "not pairs of ids: linking" in refusal_of("forms", files, tmp_path)


def test_lines_of_docbank_are_words_in_thousandths_with_labels(tmp_path: Path) -> None:
    drawn = "##LTFigure##\t0\t500\t900\t900\t0\t0\t0\tdefault\tfigure\n"
    files = {"p0.jpg": "2000x3000", "p0.txt": DOCBANK + drawn}
    imported = import_files("forms", files, tmp_path)
    assert imported.fields("p0") == [("title", "Name:"), ("date", "Zoe")]
    assert imported.documents["p0"].words[0].box == (200, 150, 400, 300)
    assert imported.notes[token_lines.DRAWN_LEFT_OUT] == 1


def test_lines_of_tokens_without_a_colour_are_in_any_unit(tmp_path: Path) -> None:
    files = {"p0.png": "400x200", "p0.txt": "Total sum\t20\t20\t390\t190\tB-TOTAL\n"}
    imported = import_files("forms", files, tmp_path)
    assert imported.fields("p0") == [("TOTAL", "Total sum")]
    assert imported.documents["p0"].words[0].box == (20, 20, 390, 190)


def test_a_line_of_other_columns_is_refused(tmp_path: Path) -> None:
    files = {"p0.png": "400x200", "p0.txt": f"{DOCBANK}Zoe\t1\t2\t3\n"}
    assert "p0.txt:3 is no token with a box" in refusal_of("forms", files, tmp_path)


@pytest.mark.parametrize(
    ("images", "name", "copies"),
    [
        pytest.param(("p.jpg", "p_ann.jpg", "p_ori.jpg"), "p", 2, id="the plain one"),
        pytest.param(("p_ann.jpg", "p_ori.jpg"), "p_ori", 1, id="the original"),
    ],
)
def test_one_picture_of_a_page_of_docbank_counts(
    images: tuple[str, ...], name: str, copies: int, tmp_path: Path
) -> None:
    files = dict.fromkeys(images, "400x200")
    imported = import_files("forms", {**files, "p.txt": DOCBANK}, tmp_path)
    assert imported.documents.keys() == {name}
    assert imported.notes[forms.COPIES] == copies


def test_init_recognises_docbank(tmp_path: Path) -> None:
    (tmp_path / "p0.txt").write_text(DOCBANK)
    assert guess_format(tmp_path) == "forms"
