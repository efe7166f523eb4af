"""What importers of annotated pages share: units of boxes, tags, names, kinds of information."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from audit.corpus.documents import Box
from audit.errors import ManifestError
from audit.importers.columns import category_of, fields_of_tags, plain_words, task_labels
from audit.importers.pages import Unit, ids_of, in_pixels
from audit.importers.source import Source
from audit.importers.units import recognise_unit

FIELDS = st.lists(
    st.tuples(st.sampled_from(["A", "B-C"]), st.integers(1, 4), st.integers(0, 2)), max_size=6
)


def tags_of(
    fields: list[tuple[str, int, int]], scheme: str
) -> tuple[list[str], list[tuple[str, tuple[int, ...]]]]:
    """Tags of fields with words outside after each, and the fields as they should be read."""
    tags: list[str] = []
    expected = []
    for label, length, outside in fields:
        expected.append((label, tuple(range(len(tags), len(tags) + length))))
        if scheme == "IO":
            tags += [label] * length
        elif scheme == "BIOES":
            tags += (
                [f"S-{label}"]
                if length == 1
                else [f"B-{label}", *[f"I-{label}"] * (length - 2), f"E-{label}"]
            )
        else:
            tags += [f"B-{label}", *[f"I-{label}"] * (length - 1)]
        tags += ["O"] * (outside + (scheme == "IO"))
    return tags, expected


@given(FIELDS, st.sampled_from(["BIO", "BIOES"]))
def test_tags_are_read_as_the_fields_they_were_written_for(fields, scheme):
    tags, expected = tags_of(fields, scheme)
    assert fields_of_tags(tags) == expected


@given(
    st.lists(
        st.tuples(st.sampled_from(["total", "NAME"]), st.integers(1, 4), st.integers(0, 2)),
        max_size=6,
    )
)
def test_tags_without_prefixes_are_classes(fields):
    tags, expected = tags_of(fields, "IO")
    assert fields_of_tags(tags) == expected


def test_a_tag_that_goes_on_with_nothing_begins_a_field():
    assert fields_of_tags(["I-A", "I-A", "I-B", "outside", "E-A"]) == [
        ("A", (0, 1)),
        ("B", (2,)),
        ("A", (4,)),
    ]


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(("O", "B-A", "I-A"), id="BIO"),
        pytest.param(("O", "B-A", "I-A", "E-A", "S-A"), id="BIOES"),
        pytest.param(("O", "B-A", "I-A", "L-A", "U-A"), id="BILOU"),
        pytest.param(("other", "total", "date"), id="names alone"),
        pytest.param(("O", "I-A", "I-B"), id="I- alone"),
    ],
)
def test_labels_of_a_manifest_are_in_any_scheme(tags):
    assert task_labels([*tags, tags[0]]) == tags


@pytest.mark.parametrize(
    "tags", [(), ("A", "B"), ("O", "B-A", "M-A", "E-A"), ("O", "E-MAIL", "total")]
)
def test_labels_that_no_scheme_holds_are_left_to_the_model(tags):
    assert task_labels(tags) == ()


SHARES = st.tuples(st.floats(0, 0.9), st.floats(0, 0.9))


@given(
    st.lists(SHARES, min_size=1, max_size=5),
    st.sampled_from([(600, 800), (1240, 1754), (2480, 3508)]),
)
def test_boxes_all_over_a_page_mean_the_same_in_every_unit(corners, size):
    shares: list[Box] = [(x, y, x + 0.05, y + 0.05) for x, y in corners] + [(0.9, 0.9, 0.99, 0.99)]
    scales: dict[Unit, tuple[float, float]] = {
        "shares": (1, 1),
        "thousandths": (1000, 1000),
        "pixels": size,
    }
    for unit, (across, down) in scales.items():
        boxes = [(x0 * across, y0 * down, x1 * across, y1 * down) for x0, y0, x1, y1 in shares]
        found = recognise_unit([(size, boxes)])
        if size == (600, 800) or unit == "shares" or size == (2480, 3508):
            assert found == unit
        for box, share in zip(boxes, shares, strict=True):
            assert in_pixels(box, unit, size) == pytest.approx(
                in_pixels(share, "shares", size), abs=0.11
            )


def test_boxes_without_images_or_of_none():
    assert (recognise_unit([]), recognise_unit([(None, [(0, 0, 900, 10)])])) == (
        "shares",
        "thousandths",
    )
    assert recognise_unit([(None, [(0, 0, 1900, 10)])]) == "pixels"
    assert recognise_unit([((100, 100), [(0, 0, 40, 40)])]) == "pixels", (
        "few boxes, but within the page"
    )


@pytest.mark.parametrize(
    "box", [(5, 1, 2, 3), (1, 5, 2, 3), (float("nan"), 1, 2, 3), (0, 0, 300, 10)]
)
def test_boxes_that_are_none(box):
    with pytest.raises(ManifestError):
        in_pixels(box, "pixels", (100, 100))


@pytest.mark.parametrize(
    ("label", "category"),
    [
        ("invoice_date", "datetime"),
        ("companyName", "organization"),
        ("TOTAL", "amount"),
        ("menu.price", "amount"),
        ("B_PER", "person"),
        ("PhoneNumber", "contact"),
        ("IBAN", "code"),
        ("QUESTION", "misc"),
    ],
)
def test_labels_speak_of_a_kind(label, category):
    assert category_of(label) == category


def test_labels_as_words():
    assert [plain_words(label) for label in ("invoiceDate", "INVOICE_DATE", "§")] == [
        "invoice date",
        "invoice date",
        "§",
    ]


def test_names_of_files():
    assert ids_of(["a/1.png", "b/2.png"]) == {"a/1.png": "1", "b/2.png": "2"}
    assert ids_of(["a/1.png", "b/1.png"]) == {"a/1.png": "a-1", "b/1.png": "b-1"}
    assert ids_of(["a/1.png", "a/1.jpg"]) == {"a/1.png": "a-1.png", "a/1.jpg": "a-1.jpg"}


@pytest.mark.parametrize(
    ("name", "beside", "image_path"),
    [
        ("a/1.png", "", "a/1.png"),
        ("1.png", "a", "a/1.png"),
        ("../a/1.png", "labels", "a/1.png"),
        ("C:\\data\\2.png", "", "b/2.png"),
        ("/home/me/b/2.png", "", "b/2.png"),
        ("https://host.example/x/2.png?token=1", "", "b/2.png"),
        ("/data/local-files/?d=b/2.png", "", "b/2.png"),
        ("/data/upload/3/0a1b2c3d-2.png", "", "b/2.png"),
        ("2", "", "b/2.png"),
    ],
)
def test_images_are_found_by_what_records_call_them(name, beside, image_path, tmp_path):
    for path in ("a/1.png", "b/1.png", "b/2.png"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        Image.new("L", (2, 2)).save(tmp_path / path)
    source = Source(tmp_path, tmp_path)
    assert source.find_image(name, beside) == image_path
    with pytest.raises(ManifestError, match="several files may be it"):
        source.find_image("1.png")
    with pytest.raises(ManifestError, match="leaves the source"):
        source.find_image("../../1.png", "a")
