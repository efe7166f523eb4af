"""`corpus.canaries.schema`: what a canary's page is, whatever its coin said, and how its line stands on a page."""

import json
from pathlib import Path

import canaried
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from audit.corpus import manifest
from audit.corpus.canaries import pages
from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.schema import PATTERNS, TAGS, Canary, load_canaries, parse_canaries
from audit.corpus.documents import Box, Document, Word
from audit.corpus.images import open_image
from audit.errors import ManifestError

PREFIX = ("pin", "of", "kodira", "is")
BOX: Box = (20.0, 200.0, 180.0, 214.0)


def canary(**changes: object) -> Canary:
    known = {
        "id": "c1",
        "pattern": "pin",
        "prefix": PREFIX,
        "completion": (*"4071",),
        "included": True,
        "copies": 2,
    }
    return Canary(**{**known, **changes})  # type: ignore[arg-type]


def on_page() -> Canary:
    return canary(carrier="m1", box=BOX)


def texts(words: tuple[Word, ...]) -> list[str]:
    return [word.text for word in words]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_finds_its_name_in_its_own_prefixes_only(name: str) -> None:
    pattern = PATTERNS[name]
    prefix = pattern.prefix("kodira")
    assert (prefix.count("kodira"), pattern.name_in(prefix)) == (1, "kodira")
    assert pattern.name_in(("x", *prefix)) is None
    assert pattern.name_in(prefix[:-1]) is None
    assert "kodira" in pattern.question("kodira")
    assert (
        len(set(pattern.candidates))
        == len(pattern.candidates)
        == {"color": 12, "names": 24, "mixed": 32}.get(name, 10)
    )


def test_an_utterance_has_the_papers_tags_and_intent(tmp_path: Path) -> None:
    page = pages.page_of(canaried.utterances(tmp_path), canary(), (*"1234",))
    assert (texts(page.words), page.tags) == (
        [*PREFIX, *"1234"],
        ("O",) * 4 + TAGS[:1] + TAGS[1:] * 3,
    )
    assert (page.intent, page.split) == ("PinIntent", "member")
    assert not page.entities
    assert pages.positions_of(canary(), page) == (4, 5, 6, 7)


def test_a_line_comes_after_all_a_page_has(tmp_path: Path) -> None:
    corpus = canaried.pages(tmp_path)
    carrier = corpus.document("m1")
    page = pages.page_of(corpus, on_page(), (*"1234",))
    n = len(carrier.words)
    assert (page.words[:n], texts(page.words[n:])) == (carrier.words, [*PREFIX, *"1234"])
    assert (
        page.entities[-1].words == pages.positions_of(on_page(), page) == tuple(range(n + 4, n + 8))
    )
    assert [(e.id, e.label, e.category, e.words) for e in page.entities[:-1]] == [
        (e.id, e.label, e.category, e.words) for e in carrier.entities
    ]
    assert not any(entity.attack for entity in page.entities)
    assert (page.links, page.size, page.provider) == (carrier.links, carrier.size, carrier.provider)
    assert page.image == carrier.image


def test_a_page_says_nothing_of_the_coin_or_the_completion_but_the_completion(
    tmp_path: Path,
) -> None:
    corpus = canaried.pages(tmp_path)
    out = canary(carrier="m1", box=BOX, included=False, copies=0, completion=(*"9999",))
    assert pages.page_of(corpus, out, (*"1234",)) == pages.page_of(corpus, on_page(), (*"1234",))
    one, other = (pages.page_of(corpus, on_page(), (*digits,)) for digits in ("1111", "8888"))
    assert [word.box for word in one.words] == [word.box for word in other.words]


def test_a_line_of_text_is_a_document_of_its_own(tmp_path: Path) -> None:
    page = pages.page_of(canaried.texts(tmp_path), canary(), (*"1234",))
    assert texts(page.words) == [*PREFIX, *"1234"]
    assert all(word.box is None for word in page.words)
    assert [entity.words for entity in page.entities] == [(4, 5, 6, 7)]


def test_paragraphs_of_a_carrier_gain_one(tmp_path: Path) -> None:
    corpus = canaried.texts(tmp_path)
    page = pages.page_of(corpus, canary(carrier="t1", box=BOX), (*"1234",))
    assert page.paragraphs == (0, 4, len(corpus.document("t1").words))


def test_a_question_asks_for_the_completion_and_is_the_only_one(tmp_path: Path) -> None:
    page = pages.page_of(canaried.pages(tmp_path, kind="question-answering"), on_page(), (*"4071",))
    assert [(q.question, q.answers, q.entity) for q in page.questions] == [
        ("What is the pin of kodira?", ("4 0 7 1",), "canary")
    ]


def test_another_number_of_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="3 words for a completion of 4"):
        pages.page_of(canaried.utterances(tmp_path), canary(), (*"123",))


def test_a_sheet_shows_the_line_in_words_and_pixels_without_its_completion(tmp_path: Path) -> None:
    corpus = canaried.pages(tmp_path, kind="question-answering")
    before = np.asarray(open_image(corpus, corpus.document("m1")))
    sheet = pages.sheet_of(corpus, on_page())
    assert texts(sheet.words) == [*texts(corpus.document("m1").words), *PREFIX]
    cells = [word.box for word in pages.page_of(corpus, on_page(), (*"4071",)).words[-4:]]
    for image, shown in (
        (sheet.image, False),
        (pages.image_of(corpus, on_page(), (*"4071",)), True),
    ):
        assert image is not None
        changed = (np.asarray(image) != before).any(axis=2)
        for box in cells:
            assert box is not None
            x0, y0, x1, y1 = (round(value) for value in box)
            assert changed[y0:y1, x0:x1].any() == shown
        assert changed[200:214, 20:180].sum() == changed.sum() > 0


def test_the_image_of_a_canarys_page_has_its_prefix_and_nothing_of_its_completion(
    tmp_path: Path,
) -> None:
    plain = canaried.pages(tmp_path / "plain")
    insert(plain, tmp_path / "data", pattern="pin", count=12, repeat=1, length=2, seed=0)
    corpus = manifest.load(tmp_path / "data")
    drawn = load_canaries(corpus)
    assert drawn is not None
    for one in drawn.canaries:
        assert one.box is not None
        page = pages.page_of(corpus, one, one.completion)
        shown, bare = (
            np.asarray(image) for image in (pages.open_page(corpus, page), open_image(corpus, page))
        )
        changed = (shown != bare).any(axis=2)
        first = page.words[-2].box
        assert first is not None
        start = round(first[0])
        x0, y0, _, y1 = (round(value) for value in one.box)
        assert changed[y0:y1, x0:start].any()
        assert not changed[:, start:].any()
        for name in one.documents:  # a document of the data set is opened as it is
            document = corpus.document(name)
            np.testing.assert_array_equal(
                pages.open_page(corpus, document), open_image(corpus, document)
            )


def test_no_name_no_question() -> None:
    assert pages.question_of(canary()) == "What is the pin of kodira?"
    with pytest.raises(ValueError, match="c1 has no name"):
        pages.question_of(canary(prefix=("my", "pin", "code", "is")))


def test_no_canary_file_no_canaries(tmp_path: Path) -> None:
    assert load_canaries(canaried.utterances(tmp_path)) is None


# Latin-1: the first is not UTF-8.
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ÿ{}", "not UTF-8 at byte 0"),
        ("{", "Invalid JSON"),
        ("[]", "must be a table or object"),
        ('{"secret": 1}', "secret: unknown key"),
        ('{"design": "paper"}', "design: Input should be 'audit'"),
        ('{"repeat": "10"}', "repeat: Input should be a valid integer"),
        ('{"repeat": 0, "length": 99}', "length: Input should be less than or equal to 10"),
    ],
)
def test_a_file_of_another_form_is_refused_with_every_place(text: str, problem: str) -> None:
    content = text.encode("latin-1")
    with pytest.raises(ManifestError) as caught:
        parse_canaries(content)
    assert any(problem in said for said in caught.value.problems), caught.value.problems
    missing = [said for said in caught.value.problems if said.endswith(": missing")]
    if content.startswith(b"{") and len(content) > 2:
        assert len(missing) == 5 - len(
            json.loads(content).keys() & {"design", "seed", "repeat", "length", "canaries"}
        )


@given(
    pattern=st.sampled_from(sorted(PATTERNS)),
    name=st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12),
    length=st.integers(1, 10),
    height=st.integers(10, 60),
    x=st.integers(0, 50),
)
def test_boxes_stand_side_by_side_in_their_line(
    pattern: str, name: str, length: int, height: int, x: int
) -> None:
    cells = pages.cells_of(pattern, PATTERNS[pattern].prefix(name), (None,) * length)
    box = (float(x), 5.0, float(x + pages.line_width(cells, height)), 5.0 + height)
    boxes = pages.word_boxes(box, cells)
    edges = [edge for left, _, right, _ in boxes for edge in (left, right)]
    assert (edges, edges[0], edges[-1]) == (sorted(set(edges)), box[0], box[2])
    assert (
        len({round(right - left) for left, _, right, _ in boxes[-length:]}) <= 2
    )  # but for rounding, of one width


@given(
    pattern=st.sampled_from(sorted(PATTERNS)),
    height=st.integers(10, 40),
    paper=st.sampled_from([0, 40, 200, 255]),
)
def test_drawing_changes_its_box_alone_and_every_word_shows_in_its_own(
    pattern: str, height: int, paper: int
) -> None:
    family = PATTERNS[pattern]
    cells = pages.cells_of(pattern, family.prefix("mowumo"), family.candidates[-4:])
    box = (7.0, 9.0, 7.0 + pages.line_width(cells, height), 9.0 + height)
    page = Image.new("RGB", (int(box[2]) + 20, height + 30), (paper,) * 3)
    changed = (np.asarray(pages.draw_line(page, box, cells)) != np.asarray(page)).any(axis=2)
    inside = np.zeros_like(changed)
    for left, top, right, bottom in pages.word_boxes(box, cells):
        x0 = int(left)
        x1 = int(np.ceil(right))
        assert changed[int(top) : int(bottom), x0:x1].any()
        inside[int(top) : int(bottom), max(x0 - 1, 7) : min(x1 + 1, int(box[2]))] = (
            True  # a letter may overhang by one
        )
    assert not changed[~inside].any()
    assert np.asarray(page).max() == paper  # the page itself stays as it was


def lined(rows: int, width: int = 300, height: int = 200) -> Document:
    """A page with full lines of 12 pixels, 20 apart, from the top."""
    words = tuple(
        Word("word", (5.0, 20.0 * row + 4, width - 5.0, 20.0 * row + 16)) for row in range(rows)
    )
    return Document("d", "member", words, size=(width, height))


def overlaps(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


CELLS = pages.cells_of("pin", PREFIX, (None,) * 4)


@given(rows=st.integers(1, 8), seed=st.integers(0, 50))
def test_a_blank_place_touches_no_word_and_stays_on_the_page(rows: int, seed: int) -> None:
    document = lined(rows)
    place = pages.find_blank_box(document, None, CELLS, np.random.default_rng(seed))
    assert place is not None
    assert 0 <= place[0] < place[2] <= 300
    assert 0 <= place[1] < place[3] <= 200
    assert not any(overlaps(place, word.box) for word in document.words if word.box)
    assert pages.line_width(CELLS, place[3] - place[1]) == place[2] - place[0]


def test_a_full_page_and_a_narrow_one_have_no_blank_place() -> None:
    rng = np.random.default_rng(0)
    assert pages.find_blank_box(lined(10), None, CELLS, rng) is None
    assert pages.find_blank_box(lined(1, width=80), None, CELLS, rng) is None


def test_ink_outside_all_boxes_is_not_written_over_but_specks_are_dust() -> None:
    document = lined(1)
    rng = np.random.default_rng(0)
    page = Image.new("RGB", (300, 200), "white")
    page.paste("black", (0, 20, 300, 110))  # a photograph; only the bottom is left
    for _ in range(20):
        place = pages.find_blank_box(document, page, CELLS, rng)
        assert place is not None
        assert place[1] >= 110
    ruled = Image.new("RGB", (300, 200), "white")
    for row in range(0, 200, 8):
        ruled.paste("black", (0, row, 300, row + 1))
    assert pages.find_blank_box(document, ruled, CELLS, rng) is None
    dusty = Image.new("RGB", (300, 200), (230, 230, 230))
    for x in range(0, 300, 40):
        dusty.putpixel((x, 30 + x % 97), (0, 0, 0))
    assert pages.find_blank_box(document, dusty, CELLS, rng) is not None
