"""Word files of pages whose text stands elsewhere than in plain words: hOCR, PAGE and ALTO.

No text is lost or misread in silence. The finest text and box count, and choices are counted.
"""

import pytest

from audit.errors import ManifestError
from audit.importers.hocr import read_hocr
from audit.importers.pages import ALTERNATIVES, LEFT_OUT, LINES, REGIONS, Page
from audit.importers.words import fill, read_xml

PAGE_XML = "http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15"
ALTO = "http://www.loc.gov/standards/alto/ns-v3#"
LINE = "50,50 400,80"
"""Points of a line on a page of 600 x 400."""


def hocr(content: str, title: str = "bbox 0 0 600 400") -> Page:
    """Read an hOCR page with this content."""
    markup = f"<html><body><div class='ocr_page' title='{title}'>{content}</div></body></html>"
    (page,) = read_hocr(markup)
    return page


def page_xml(content: str, points: str = LINE) -> Page:
    """Read a page of PAGE whose one region has this content."""
    region = f"<TextRegion><Coords points='{points}'/>{content}</TextRegion>"
    page = f"<Page imageWidth='600' imageHeight='400'>{region}</Page>"
    (only,) = read_xml(f"<PcGts xmlns='{PAGE_XML}'>{page}</PcGts>")
    return only


def line(content: str, points: str = LINE) -> str:
    """Write a line of PAGE."""
    return f"<TextLine><Coords points='{points}'/>{content}</TextLine>"


def text(content: str, index: int | None = None) -> str:
    """Write a text of PAGE."""
    attribute = "" if index is None else f" index='{index}'"
    return f"<TextEquiv{attribute}><Unicode>{content}</Unicode></TextEquiv>"


def alto(content: str, page: str = "WIDTH='600' HEIGHT='400'", unit: str = "pixel") -> Page:
    """Read an ALTO page with this content."""
    description = f"<Description><MeasurementUnit>{unit}</MeasurementUnit></Description>"
    layout = f"<Layout><Page {page}>{content}</Page></Layout>"
    (only,) = read_xml(f"<alto xmlns='{ALTO}'>{description if unit else ''}{layout}</alto>")
    return only


def place(left: float, top: float, width: float, height: float) -> str:
    """Write the place of an element of ALTO."""
    return f"HPOS='{left}' VPOS='{top}' WIDTH='{width}' HEIGHT='{height}'"


def words_of(page: Page) -> list[tuple[str, tuple[int, ...] | None]]:
    """List the words of a page with their boxes in pixels of 600 x 400."""
    words: list[tuple[str, tuple[int, ...] | None]] = []
    width, height = (600.0, 400.0) if page.unit == "shares" else (1.0, 1.0)
    for word in page.words:
        if word.box is None:
            words.append((word.text, None))
        else:
            left, top, right, bottom = word.box
            scaled = (left * width, top * height, right * width, bottom * height)
            words.append((word.text, tuple(map(round, scaled))))
    return words


def texts_of(page: Page) -> str:
    """Join the words of a page that have a text by spaces."""
    return " ".join(word.text for word in page.words if word.text)


@pytest.mark.parametrize(
    "name", ["ocr_line", "ocrx_line", "ocr_header", "ocr_footer", "ocr_caption", "ocr_textfloat"]
)
def test_an_hocr_line_without_words_is_divided_by_its_characters(name):
    page = hocr(f"<span class='{name}' title='bbox 50 50 400 80'>Gardenia bakery 4.20</span>")
    assert words_of(page) == [
        ("Gardenia", (50, 50, 190, 80)),
        ("bakery", (207, 50, 312, 80)),
        ("4.20", (330, 50, 400, 80)),
    ]
    assert page.notes[LINES] + page.notes[REGIONS] == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(
            "<p class='ocr_par' title='bbox 0 0 300 100'>Gardenia<br>bakery</p>",
            "Gardenia bakery",
            id="a paragraph without lines, a line break between words",
        ),
        pytest.param(
            "<div class='ocr_carea' title='bbox 0 0 300 100'><p>Gardenia</p><p>4.20</p></div>",
            "Gardenia 4.20",
            id="an area without lines, paragraphs without a box",
        ),
        pytest.param(
            "<p class='ocr_par' title='bbox 0 0 9 9'>one"
            "<p class='ocr_par' title='bbox 0 9 9 9'>two",
            "one two",
            id="paragraphs that nobody closes",
        ),
        pytest.param(
            "<span class='ocr_line' title='bbox 0 0 300 20'>Gar<b>den</b>ia</span>",
            "Gardenia",
            id="letters in bold divide no word",
        ),
        pytest.param(
            "<span class='ocr_line' title='bbox 0 0 300 20'>Total"
            "<span class='ocrx_word' title='bbox 0 0 9 9'> </span></span>",
            "Total",
            id="a line whose words are blank",
        ),
        pytest.param(
            "<div class='ocr_par' title='bbox 0 0 300 40'>"
            "<span class='ocr_line'>no box of its own</span></div>",
            "no box of its own",
            id="a line without a box, in a paragraph with one",
        ),
        pytest.param("Total <b>4.20</b>", "Total 4.20", id="a text of the page alone"),
    ],
)
def test_text_of_hocr_above_words_is_read_once(content, words):
    page = hocr(content)
    assert texts_of(page) == words
    assert page.notes[LEFT_OUT] == 0


def test_hocr_words_count_where_a_line_has_them_and_the_next_line_is_divided():
    word = "<span class='ocrx_word' title='bbox 50 50 90 80'>Total</span>"
    page = hocr(
        f"<div class='ocr_carea' title='bbox 0 0 600 400'>"
        f"<span class='ocr_line' title='bbox 50 50 400 80'>{word}</span>"
        "<span class='ocr_line' title='bbox 50 90 150 120'>4.20 EUR..</span></div>"
    )
    assert words_of(page) == [
        ("Total", (50, 50, 90, 80)),
        ("4.20", (50, 90, 90, 120)),
        ("EUR..", (100, 90, 150, 120)),
    ]
    assert page.notes == {LINES: 1}


def test_an_hocr_word_behind_the_end_of_its_page_is_still_read():
    page = hocr("</div><span class='ocrx_word' title='bbox 50 50 90 80'>Total</span>")
    assert words_of(page) == [("Total", (50, 50, 90, 80))]


def test_hocr_text_beside_words_is_counted_where_it_is_left_out():
    word = "<span class='ocrx_word' title='bbox 50 50 90 80'>Total</span>"
    page = hocr(f"<span class='ocr_line' title='bbox 50 50 400 80'>{word} 4.20</span>")
    assert texts_of(page) == "Total"
    assert page.notes == {LEFT_OUT: 1}


def test_an_hocr_alternative_is_no_text_of_the_page():
    chosen = "<ins class='alt'>Gardenia</ins>"
    other = "<del class='alt'>Gardenla</del>"
    word = f"<span class='alternatives'>{chosen}{other}</span>"
    page = hocr(f"<span class='ocrx_word' title='bbox 50 50 90 80'>{word}</span>")
    assert words_of(page) == [("Gardenia", (50, 50, 90, 80))]
    assert page.notes == {ALTERNATIVES: 1}


@pytest.mark.parametrize("title", ["", "bbox 0 0 0 0"])
def test_an_hocr_page_without_a_size_has_boxes_in_pixels_of_its_image(title):
    page = hocr("<span class='ocrx_word' title='bbox 50 50 90 80'>Total</span>", title)
    assert page.unit == "pixels"
    assert page.shape is None
    assert words_of(page) == [("Total", (50, 50, 90, 80))]


def test_the_text_of_lowest_index_is_the_main_one_of_page():
    alternatives = text("Gardenla bakcry", 1) + text("Gardenia bakery", 0)
    page = page_xml(line(alternatives))
    assert texts_of(page) == "Gardenia bakery"
    assert page.notes == {ALTERNATIVES: 1, LINES: 1}


@pytest.mark.parametrize(
    ("alternatives", "words"),
    [
        pytest.param(text("second", 10) + text("first", 9), "first", id="a number, no text"),
        pytest.param(text("second", 0) + text("first"), "first", id="no index is the lowest"),
        pytest.param(text("first") + text("second"), "first", id="else the first of the file"),
        pytest.param(
            "<TextEquiv><PlainText>plain</PlainText></TextEquiv>", "plain", id="plain text alone"
        ),
    ],
)
@pytest.mark.parametrize("level", ["word", "line", "region", "glyph"])
def test_alternatives_are_chosen_on_every_level_of_page(alternatives, words, level):
    word = f"<Word><Coords points='{LINE}'/>{alternatives}</Word>"
    glyph = f"<Word><Coords points='{LINE}'/><Glyph>{alternatives}</Glyph></Word>"
    content = {
        "word": line(word),
        "glyph": line(glyph),
        "line": line(alternatives),
        "region": alternatives,
    }
    assert texts_of(page_xml(content[level])) == words


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(text("Gardenia bakery"), "Gardenia bakery", id="a region alone"),
        pytest.param(
            line("") + text("Gardenia bakery"), "Gardenia bakery", id="a region with empty lines"
        ),
        pytest.param(
            line(f"<Word><Coords points='{LINE}'/></Word>{text('Gardenia bakery')}"),
            "Gardenia bakery",
            id="a line with empty words",
        ),
        pytest.param(
            line(text("Gardenia")) + text("Gardenia bakery"), "Gardenia", id="lines count first"
        ),
        pytest.param(
            f"<TextRegion><Coords points='{LINE}'/>{text('inner')}</TextRegion>{text('outer')}",
            "inner",
            id="a region in a region",
        ),
        pytest.param(
            f"<TextRegion>{line(text('inner'))}</TextRegion>{line(text('next'))}{text('outer')}",
            "inner next",
            id="in the order of the file",
        ),
        pytest.param(f"<TextLine>{text('Total')}</TextLine>", "Total", id="a line without a place"),
    ],
)
def test_text_of_page_is_that_of_the_finest_level(content, words):
    assert texts_of(page_xml(content)) == words


def test_a_region_of_several_lines_is_the_place_of_each_of_its_words():
    page = page_xml(text("Gardenia\nbakery 4.20"), "50,50 400,200")
    assert words_of(page) == [
        ("Gardenia", (50, 50, 400, 200)),
        ("bakery", (50, 50, 400, 200)),
        ("4.20", (50, 50, 400, 200)),
    ]
    assert page.notes == {REGIONS: 1}


def test_points_of_page_are_elements_in_its_first_versions():
    points = "<Coords><Point x='50' y='50'/><Point x='400' y='80'/></Coords>"
    page = page_xml(f"<TextLine>{points}{text('Gardenia bakery')}</TextLine>")
    assert words_of(page) == [("Gardenia", (50, 50, 237, 80)), ("bakery", (260, 50, 400, 80))]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("<TextLine><Coords/>" + text("Total") + "</TextLine>", id="no points"),
        pytest.param(
            line(text("Total", 0) + text("Total", 1).replace("'1'", "'x'")), id="an index"
        ),
    ],
)
def test_a_place_or_index_of_page_that_is_none_is_refused(content):
    with pytest.raises(ManifestError, match="PAGE"):
        page_xml(content)


@pytest.mark.parametrize(
    ("string", "box"),
    [
        pytest.param(
            "<Shape><Polygon POINTS='60,52 90,52 90,70 60,70'/></Shape>",
            (60, 52, 90, 70),
            id="shape",
        ),
        pytest.param(
            "<Shape><Polygon POINTS='60 52 90 70'/></Shape>", (60, 52, 90, 70), id="shape, spaces"
        ),
        pytest.param(
            f"<Glyph CONTENT='T' {place(60, 50, 9, 20)}/>"
            f"<Glyph CONTENT='o' {place(70, 52, 9, 20)}/>",
            (60, 50, 79, 72),
            id="glyphs",
        ),
        pytest.param("", (50, 50, 150, 70), id="half of the line"),
    ],
)
def test_a_string_of_alto_without_numbers_has_the_finest_box_around(string, box):
    second = f"<String CONTENT='9.005' {place(160, 50, 90, 20)}/>"
    first = f"<String CONTENT='Total'>{string}</String>"
    page = alto(f"<TextLine {place(50, 50, 220, 20)}>{first}{second}</TextLine>")
    assert words_of(page) == [("Total", box), ("9.005", (160, 50, 250, 70))]


def test_a_string_of_alto_without_content_is_that_of_its_glyphs():
    glyphs = (
        f"<Glyph CONTENT='4' {place(60, 50, 9, 20)}/><Glyph CONTENT='2' {place(70, 50, 9, 20)}/>"
    )
    page = alto(f"<TextLine><String CONTENT=''>{glyphs}</String></TextLine>")
    assert words_of(page) == [("42", (60, 50, 79, 70))]


def test_a_string_of_alto_with_no_place_around_is_refused():
    with pytest.raises(ManifestError, match="String: it has no place"):
        alto("<TextLine><String CONTENT='Total'/></TextLine>")


@pytest.mark.parametrize(
    ("unit", "page", "space", "shape"),
    [
        pytest.param("pixel", "", place(0, 0, 600, 400), None, id="pixels of the image"),
        pytest.param("", "", place(0, 0, 600, 400), (600, 400), id="no unit, the print space"),
        pytest.param("", "", place(9, 9, 500, 300), None, id="no unit, a space with margins"),
        pytest.param("mm10", "", place(0, 0, 600, 400), (600, 400), id="tenths of millimetres"),
        pytest.param("mm10", "WIDTH='0' HEIGHT='0'", place(0, 0, 60, 40), (60, 40), id="zeros"),
        pytest.param(
            "pixel",
            "WIDTH='1200' HEIGHT='800'",
            place(0, 0, 9, 9),
            (1200, 800),
            id="the page's own",
        ),
    ],
)
def test_the_size_of_an_alto_page_may_be_that_of_its_space_or_image(unit, page, space, shape):
    string = f"<String CONTENT='Total' {place(50, 50, 80, 20)}/>"
    read_page = alto(f"<PrintSpace {space}><TextLine>{string}</TextLine></PrintSpace>", page, unit)
    assert read_page.shape == shape
    assert read_page.unit == ("pixels" if shape is None else "shares")


def test_an_alto_page_without_a_size_in_millimetres_is_refused():
    with pytest.raises(ManifestError, match="nor its PrintSpace says its size"):
        alto(f"<PrintSpace {place(9, 9, 500, 300)}/>", "", "mm10")


NAMES = "Zoë Müller"
STRING = f"<String CONTENT='{NAMES}' {place(50, 50, 80, 20)}/>"
ALTO_PAGE = (
    f"<alto xmlns='{ALTO}'><Layout><Page WIDTH='600' HEIGHT='400'>{STRING}</Page></Layout></alto>"
)
HOCR_PAGE = (
    f"<body><p class='ocr_page' title='bbox 0 0 600 400'>"
    f"<b class='ocrx_word' title='bbox 5 5 9 9'>{NAMES}</b></p></body>"
)


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("a.xml", f"<?xml version='1.0' encoding='ISO-8859-1'?>{ALTO_PAGE}", "latin-1"),
        ("a.xml", f'<?xml version="1.0" encoding="windows-1252"?>{ALTO_PAGE}', "cp1252"),
        ("a.xml", f"<?xml version='1.0' encoding='IBM850'?>{ALTO_PAGE}", "cp850"),
        ("a.xml", f"<?xml version='1.0' encoding='UTF-8'?>{ALTO_PAGE}", "utf-8-sig"),
        ("a.xml", f"<?xml version='1.0' encoding='ISO-8859-1'?>{ALTO_PAGE}", "utf-8-sig"),
        ("a.xml", ALTO_PAGE, "utf-8"),
        ("a.xml", f"<?xml version='1.0' encoding='UTF-16'?>{ALTO_PAGE}", "utf-16"),
        ("a.xml", f"<?xml version='1.0' encoding='UTF-8'?>{ALTO_PAGE}", "utf-16"),
        ("a.xml", f"<?xml version='1.0'?>{ALTO_PAGE}", "utf-16-be"),
        ("a.hocr", HOCR_PAGE, "utf-16"),
        ("a.hocr", f"<?xml version='1.0' encoding='ISO-8859-15'?>{HOCR_PAGE}", "iso8859-15"),
        ("a.html", f"<head><meta charset=ISO-8859-2></head>{HOCR_PAGE}", "iso8859-2"),
        (
            "a.html",
            f"<meta http-equiv='Content-Type' content='text/html; charset=cp1252'>{HOCR_PAGE}",
            "cp1252",
        ),
    ],
    ids=str,
)
def test_markup_is_decoded_once_as_it_declares(name, content, encoding, tmp_path):
    (tmp_path / name).write_bytes(content.encode(encoding))
    page = Page("a")
    fill(page, tmp_path / name)
    assert texts_of(page) == NAMES


@pytest.mark.parametrize("encoding", ["idna", "rot13", "unicode_escape", "nothing-known"])
def test_an_encoding_that_is_none_of_text_is_refused(encoding, tmp_path):
    content = f"<?xml version='1.0' encoding='{encoding}'?>{ALTO_PAGE}"
    (tmp_path / "a.xml").write_bytes(content.encode())
    with pytest.raises(ManifestError, match="not XML: it declares an encoding"):
        fill(Page("a"), tmp_path / "a.xml")
