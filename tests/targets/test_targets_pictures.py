"""Pictures: opened late and once, resized and scaled as the model's own processor does, patched and drowned."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers import LayoutLMv3Processor
from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import (
    LayoutLMv3ImageProcessorPil,
)

from audit.corpus.documents import Document
from audit.errors import TargetError
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.encoded_page import WHITE, PageImage, PixelScale
from audit.targets.encoders.families import REACH, ImageInput, PageImageReader
from audit.targets.encoders.loading import load

DOCUMENT = replace(tiny.documents(1, 0, 0)[0], image="m0.png")


def black(size: tuple[int, int] = (20, 40)) -> PageImage:
    return PageImage(lambda: np.zeros((3, *size), np.uint8), size)


SIDES = st.tuples(st.integers(0, 199), st.integers(0, 259), st.integers(1, 60), st.integers(1, 30))


@given(
    st.lists(SIDES, min_size=1, max_size=3),
    st.sampled_from([16, 32, 50, 230, 530]),
    st.sampled_from(list(REACH)),
)
def test_pages_that_differ_under_the_patches_only_are_the_same_picture(sides, size, resample):
    """The page was resized before it is painted: no neighbouring pixel may show a trace of what stood there."""
    boxes = np.array(
        [(x, y, min(200, x + width), min(260, y + height)) for x, y, width, height in sides], float
    )
    page = np.asarray(tiny.page_image(DOCUMENT))
    changed = page.copy()
    for x0, y0, x1, y1 in boxes.astype(int):
        changed[y0:y1, x0:x1] = 255 - changed[y0:y1, x0:x1]
    sight = ImageInput((size, size), "pixel_values", resample=resample)
    patched = []
    for pixels in (page, changed):
        page_image = PageImageReader(lambda _, own=pixels: Image.fromarray(own), sight)(DOCUMENT)
        assert page_image is not None
        patched.append(page_image.painted(boxes / [*tiny.SIZE, *tiny.SIZE]).pixels)
    np.testing.assert_array_equal(*patched)


def test_scrubbing_paints_the_fields_boxes_and_putting_tokens_in_place_leaves_the_patch(
    checkpoints,
):
    target = load(
        checkpoints("docaudit-layoutlm-image", "mlm"), images=lambda _: Image.new("RGB", tiny.SIZE)
    )
    page = target.encode(DOCUMENT)
    assert page is not None
    assert page.page_image is not None
    assert (page.page_image.pixels == 0).all()
    positions = page.positions_of(DOCUMENT.entities[0].words)
    scrubbed = page.scrubbed(positions)
    assert (scrubbed.ids[list(positions)] == page.mask_id).all()
    assert scrubbed.page_image is not None
    expected = black((tiny.PICTURE, tiny.PICTURE)).painted(page.boxes[list(positions)]).pixels
    np.testing.assert_array_equal(scrubbed.page_image.pixels, expected)
    assert 0 < (expected == WHITE).mean() < 0.3
    filled = scrubbed.with_tokens(positions[:1], page.ids[list(positions[:1])])
    assert filled.page_image is scrubbed.page_image  # so that what was made of it is used again
    assert (page.page_image.pixels == 0).all()


def test_the_image_is_opened_late_and_once(checkpoints):
    opened = []

    def images(document: Document) -> Image.Image:
        opened.append(document.id)
        return tiny.page_image(document)

    target = load(checkpoints("docaudit-layoutlm-image", "mlm"), images=images)
    pages = [target.encode(DOCUMENT, [index]) for index in (0, 3)]
    scrubbed = [page.scrubbed([1, 2]) for page in pages if page is not None]
    assert opened == []
    for page in (*pages, *scrubbed):
        assert page is not None
        assert page.page_image is not None
        assert page.page_image.pixels.shape == (3, tiny.PICTURE, tiny.PICTURE)
    assert opened == ["m0"]
    text_only = load(checkpoints("bert", "mlm"), images=images).encode(DOCUMENT)
    assert text_only is not None
    assert opened == ["m0"]


def test_pixels_are_those_of_transformers_own_processor():
    page = tiny.page_image(DOCUMENT)
    processor = LayoutLMv3ImageProcessorPil(apply_ocr=False)
    own = processor(page, return_tensors="np")["pixel_values"][0]
    page_image = PageImageReader(tiny.page_image, ImageInput((224, 224), "pixel_values", 197))(
        DOCUMENT
    )
    assert page_image is not None
    np.testing.assert_allclose(page_image.values(), own, atol=1e-6)
    assert page_image.values().dtype == np.float32


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        pytest.param({}, PixelScale(), id="no settings"),
        pytest.param(
            {"image_mean": (0.1, 0.2, 0.3), "image_std": (1, 2, 3)},
            PixelScale(mean=(0.1, 0.2, 0.3), std=(1, 2, 3)),
            id="mean and deviation",
        ),
        pytest.param(
            {"do_normalize": False}, PixelScale(mean=(0, 0, 0), std=(1, 1, 1)), id="not normalised"
        ),
        pytest.param(
            {"do_rescale": False, "rescale_factor": 0.5}, PixelScale(1.0), id="not rescaled"
        ),
        pytest.param({"rescale_factor": 0.5}, PixelScale(0.5), id="another factor"),
        pytest.param({"image_mean": (0.5,)}, None, id="a mean of one channel"),
        pytest.param({"image_std": (1, 0, 1)}, None, id="a deviation of zero"),
        pytest.param({"image_mean": ("a", "b", "c")}, None, id="a mean in letters"),
        pytest.param(
            {"image_mean": (math.nan, math.nan, math.nan)}, None, id="a mean that is no number"
        ),
        pytest.param({"resample": 99}, None, id="no such resampling"),
        pytest.param((1,), None, id="no table"),
    ],
)
def test_the_checkpoints_own_scale_is_used(settings, scale, tmp_path):
    tiny.checkpoint(tmp_path, "layoutlmv3", "token-classification")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    if scale is None:
        with pytest.raises(TargetError, match="not the settings of an image processor"):
            load(tmp_path, images=tiny.page_image)
        return
    page = load(tmp_path, images=tiny.page_image).encode(DOCUMENT)
    assert page is not None
    assert page.page_image is not None
    assert page.page_image.scale == scale
    mean = np.array(scale.mean)[:, None, None]
    std = np.array(scale.std)[:, None, None]
    np.testing.assert_allclose(
        page.page_image.values(),
        (page.page_image.pixels * scale.factor - mean) / std,
        rtol=1e-5,
        atol=1e-6,
    )


OTHER = {"image_mean": [0.1, 0.2, 0.3], "resample": 3}


def test_what_a_processor_of_transformers_5_writes_is_read(tmp_path):
    tiny.checkpoint(tmp_path, "layoutlmv3", "token-classification")
    before = open_checkpoint(tmp_path).sha256
    processor = LayoutLMv3Processor(
        LayoutLMv3ImageProcessorPil(apply_ocr=False, **OTHER), tiny.tokenizer_of("layoutlmv3")
    )
    processor.save_pretrained(tmp_path)
    assert not (tmp_path / "preprocessor_config.json").exists()
    reader = load(tmp_path, images=tiny.page_image).encoder.page_images
    assert reader is not None
    page_image = reader(DOCUMENT)
    assert page_image is not None
    assert (page_image.scale, page_image.reach) == (
        PixelScale(mean=(0.1, 0.2, 0.3)),
        1.5,
    )  # bicubic
    assert open_checkpoint(tmp_path).sha256 != before  # by which trained models are kept


@pytest.mark.parametrize(
    ("nested", "mean"),
    [
        pytest.param(
            {"image_processor": {"image_mean": [0.2, 0.2, 0.2], "resample": 3}},
            0.2,
            id="as transformers 5 reads them",
        ),
        pytest.param({"processor_class": "LayoutLMv3Processor"}, 0.1, id="before transformers 5"),
        pytest.param(
            {"image_processor": [1]}, None, id="a list as settings of the image processor"
        ),
        pytest.param([1], None, id="no table"),
    ],
)
def test_settings_of_the_whole_processor_come_first(nested, mean, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(OTHER))
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    sight = ImageInput((32, 32), "pixel_values")
    if mean is None:
        with pytest.raises(
            TargetError, match=r"processor_config.json: not the settings of an image processor"
        ):
            sight.as_processed(tmp_path)
        return
    assert sight.as_processed(tmp_path).scale.mean[0] == mean


def test_documents_without_images_are_refused_by_models_that_see_them(checkpoints):
    bare = replace(DOCUMENT, image=None)
    target = load(checkpoints("docaudit-bros-image", "mlm"), images=tiny.page_image)
    target.encoder.check_vocabulary([DOCUMENT, Document("empty", "member")])
    with pytest.raises(TargetError, match="sees page images, and some documents have none"):
        target.encoder.check_vocabulary([DOCUMENT, bare])
    load(checkpoints("bros", "mlm")).encoder.check_vocabulary([bare])


def test_a_model_that_sees_answers_nothing_about_a_page_without_its_picture(checkpoints):
    from audit.targets.interface import BestTokens

    target = load(
        checkpoints("docaudit-bros-image", "mlm")
    )  # as for listing trials: nothing opens images
    page = target.encode(DOCUMENT)
    assert page is not None
    with pytest.raises(TargetError, match="a page came without one"):
        target.ask([BestTokens(page, (1,))])
