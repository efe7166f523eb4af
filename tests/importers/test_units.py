"""The unit of boxes that state none: pixels, thousandths or shares, or in doubt a question."""

import json

import pytest
from commands import docaudit
from PIL import Image

from audit.corpus.documents import Box
from audit.importers.pages import Size, Unit
from audit.importers.units import SizedBoxes, recognise_unit

SCANS: list[Size] = [(1240, 1754), (1275, 1650), (1654, 2339), (1754, 1240), (2480, 3508)]
"""A4 and Letter at 150, 200 and 300 dots an inch, also across."""


def boxes_to(right: float, bottom: float, n: int = 10) -> list[Box]:
    """Return boxes of words of which the last ends at these coordinates."""
    corners = [(right * (i + 1) / n, bottom * (i + 1) / n) for i in range(n)]
    return [(x * 0.9, y * 0.9, x, y) for x, y in corners]


def pages_to(size: Size, right: float, bottom: float, unit: Unit, n: int = 5) -> list[SizedBoxes]:
    """Return pages whose boxes reach these shares of the page, in a unit."""
    across, down = size if unit == "pixels" else (1000, 1000)
    return [(size, boxes_to(right * across, bottom * down))] * n


@pytest.mark.parametrize("size", [*SCANS, (992, 1403), (762, 1000), (463, 1013)], ids=str)
@pytest.mark.parametrize("unit", ["pixels", "thousandths"])
def test_pages_that_are_filled_tell_their_unit(unit, size):
    pages = pages_to(size, 0.94, 0.95, unit)
    assert recognise_unit(pages) == unit


@pytest.mark.parametrize("size", SCANS, ids=str)
def test_one_page_of_thousandths_on_a_scan_is_no_page_of_pixels(size):
    assert recognise_unit(pages_to(size, 0.9, 0.95, "thousandths", n=1)) != "pixels"


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(pages_to((992, 1403), 0.93, 0.55, "pixels"), id="short pages at 120 dpi"),
        pytest.param(pages_to((1240, 1754), 0.92, 0.5, "thousandths"), id="short, thousandths"),
        pytest.param(pages_to((1240, 1754), 0.5, 0.5, "pixels"), id="receipts in a corner"),
        pytest.param(
            [((381, 500), boxes_to(710, 950))] * 5, id="pixels of the same pages in another size"
        ),
        pytest.param([((1240, 1754), boxes_to(95, 97, 30))] * 5, id="percentages on scans"),
        pytest.param([((600, 800), boxes_to(95, 97, 30))] * 5, id="percentages on small images"),
    ],
)
def test_what_fits_two_units_or_none_is_not_guessed(pages):
    assert recognise_unit(pages) is None


@pytest.mark.parametrize(
    ("pages", "unit"),
    [
        pytest.param(pages_to((1240, 1754), 0.9, 0.5, "pixels"), "pixels", id="one over 1000"),
        pytest.param(
            [
                *pages_to((1240, 1754), 0.3, 0.3, "pixels"),
                *pages_to((1240, 1754), 0.9, 0.9, "pixels"),
            ],
            "pixels",
            id="one page of the source tells for all",
        ),
        pytest.param(pages_to((400, 900), 0.4, 0.5, "pixels"), "pixels", id="small images"),
        pytest.param(
            pages_to((2480, 3508), 0.9, 0.4, "thousandths"), "thousandths", id="far off for pixels"
        ),
        pytest.param([((600, 800), [(0.1, 0.1, 0.2, 0.2)])], "shares", id="none over 1"),
        pytest.param([((463, 1013), boxes_to(930, 940))], "thousandths", id="off the image"),
    ],
)
def test_what_tells_the_unit(pages, unit):
    assert recognise_unit(pages) == unit


@pytest.fixture
def doubtful(tmp_path, monkeypatch):
    """A source, `src`, whose boxes fit pixels and thousandths, and a clear one, `clear`."""
    monkeypatch.chdir(tmp_path)
    for folder, bottom in (("src", 700), ("clear", 950)):
        (tmp_path / folder).mkdir()
        lines = []
        for number in range(4):
            name = f"{folder}{number}.png"
            Image.new("L", (1240, 1754), 255 - number).save(tmp_path / folder / name)
            boxes = boxes_to(900 - number, bottom)
            words = [f"{folder}{number}w{i}" for i in range(len(boxes))]
            lines.append(json.dumps({"file_name": name, "words": words, "boxes": boxes}))
        (tmp_path / folder / "metadata.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_a_doubtful_unit_is_asked_for(doubtful):
    result = docaudit("import", "hf", "src", "out", "--task", "mlm", terminal_width=1000)
    assert result.exit_code == 2, result.output
    assert "As pixels they reach 73% of the width and 40% of the height" in result.output
    assert "--boxes thousandths" in result.output
    assert not (doubtful / "out").exists()


@pytest.mark.parametrize("unit", ["pixels", "thousandths"])
def test_the_unit_that_the_owner_says_is_taken(unit, doubtful):
    result = docaudit(
        *("import", "hf", "src", "out", "--task", "mlm", "--boxes", unit), terminal_width=1000
    )
    assert result.exit_code == 0, result.output
    assert f"boxes in {unit} of the page: 40" in result.output


def test_a_doubtful_second_source_has_the_unit_of_the_first(doubtful):
    result = docaudit(
        *("import", "hf", "clear", "out", "--heldout-from", "src", "--task", "mlm"),
        terminal_width=1000,
    )
    assert result.exit_code == 0, result.output
    assert "boxes in thousandths of the page: 80" in result.output
