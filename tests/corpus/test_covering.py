"""Text under the box: values painted over on their page while the data set still holds their text."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from audit.corpus.bars import Covered, count_covered
from audit.corpus.documents import Box, Corpus, Document, Entity, Manifest, Membership, Task, Word
from audit.errors import ManifestError

BOXES: tuple[Box, ...] = ((20, 20, 100, 40), (20, 60, 100, 80), (120, 60, 180, 80))
VALUES = (Entity("a", "X", "person", (0,)), Entity("b", "X", "amount", (1, 2)))


def drawn(path: Path, painted: tuple[Box, ...], colour: str = "black", noise: int = 0) -> None:
    """A page with a word in each box, some painted over, noise on top."""
    page = Image.new("RGB", (200, 100), "white")
    drawing = ImageDraw.Draw(page)
    for box in BOXES:
        drawing.text((box[0] + 2, box[1] + 2), "Zylkander", fill="black", font_size=14)
    for box in painted:
        drawing.rectangle(box, fill=colour)
    pixels = np.asarray(page, np.int16) + np.random.default_rng(0).integers(
        -noise, noise + 1, (100, 200, 3)
    )
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path)


def corpus(
    root: Path, entities: tuple[Entity, ...] = VALUES, image: str | None = "p.png"
) -> Corpus:
    words = tuple(Word("Zylkander", box) for box in BOXES)
    document = Document("p", "member", words, image=image, size=(200, 100), entities=entities)
    return Corpus(
        root, Manifest(1, "pages", Task("mlm"), Membership("random")), (document,), "0" * 64
    )


@pytest.mark.parametrize(
    ("painted", "expected"), [((), 0), (BOXES[:1], 1), (BOXES[:2], 1), (BOXES[1:], 1), (BOXES, 2)]
)
@pytest.mark.parametrize("colour", ["black", "white", "grey"])
def test_a_value_is_covered_when_all_of_its_words_are(tmp_path, painted, expected, colour):
    drawn(tmp_path / "p.png", painted, colour, noise=6)
    assert count_covered(corpus(tmp_path)) == Covered(seen=2, painted=expected)


def test_what_differs_more_than_compression_makes_is_not_one_colour(tmp_path):
    drawn(tmp_path / "p.png", BOXES, "grey", noise=40)
    assert count_covered(corpus(tmp_path)) == Covered(2, 0)


def test_values_that_are_not_attacked_and_pages_without_an_image_are_passed_over(tmp_path):
    drawn(tmp_path / "p.png", BOXES)
    hidden = Entity("a", "X", "person", (0,), attack=False)
    assert count_covered(corpus(tmp_path, (hidden,))) == Covered(0, 0)
    assert count_covered(corpus(tmp_path, image=None)) == Covered(0, 0)
    steps: list[int] = []
    count_covered(corpus(tmp_path), lambda: steps.append(1))
    assert steps == [1]


def test_an_image_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(ManifestError, match="missing"):
        count_covered(corpus(tmp_path))
