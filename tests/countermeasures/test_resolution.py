"""Twice the resolution: models that can be trained so, and the reason where one cannot."""

from dataclasses import replace

import answering_checkpoints
import asked_pages
import pytest
import text_answering_checkpoints
import tiny

from audit.corpus.documents import TrainingRecipe
from audit.corpus.manifest import load
from audit.engine.interface import SILENT
from audit.errors import TargetError
from audit.extensions.countermeasures.resolution import HigherResolution
from audit.references.baselines import train_baseline
from audit.targets.answering.loading import load_answering
from audit.targets.encoders.loading import load as load_encoder

RECIPE = TrainingRecipe(epochs=1, batch_size=4)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages") / "data"
    return asked_pages.corpus(folder, members=2, heldout=1, public=1, labels=("TOTAL",), recipe=RECIPE)


@pytest.fixture(scope="module")
def receipts(tmp_path_factory):
    corpus = load(tiny.corpus(tmp_path_factory.mktemp("receipts") / "data", members=2, heldout=1, images=True))
    return replace(corpus, manifest=replace(corpus.manifest, recipe=RECIPE))


def trained(corpus, start, out):
    return HigherResolution().train(corpus, start, out, device="cpu", progress=SILENT)


def test_donut_and_its_baselines_see_twice_the_height_and_width(pages, tmp_path):
    start = answering_checkpoints.make_donut(tmp_path / "start")
    made = trained(pages, start, tmp_path / "out")
    height, width = load_answering(start).card.resolution
    assert load_answering(made.model).card.resolution == (2 * height, 2 * width)
    assert made.data == pages.root
    (baseline,) = train_baseline(made.start, load(made.data), tmp_path / "baselines")
    assert load_answering(baseline).card.resolution == (2 * height, 2 * width)
    assert trained(pages, start, tmp_path / "out") == made


def test_udop_does_too_and_pix2struct_reads_four_times_the_patches(pages, tmp_path):
    udop = text_answering_checkpoints.make_udop(tmp_path / "udop")
    assert load_answering(trained(pages, udop, tmp_path).model).card.resolution == (64, 64)
    patches = answering_checkpoints.make_pix2struct(tmp_path / "pix2struct")
    before, after = (load_answering(one).card.max_tokens for one in (patches, trained(pages, patches, tmp_path).model))
    assert after == 4 * before


@pytest.mark.parametrize("family", tiny.IMAGE_FAMILIES)
def test_an_encoders_image_branch_does_too(family, receipts, checkpoints, tmp_path):
    made = trained(receipts, checkpoints(family, "token-classification"), tmp_path)
    target = load_encoder(made.model)
    assert target.encoder.page_images.size == (2 * tiny.PICTURE, 2 * tiny.PICTURE)


@pytest.mark.parametrize("family", ["layoutlm", "layoutlmv3"])
def test_models_that_see_nothing_or_one_size_only_are_refused_with_the_reason(family, receipts, checkpoints, tmp_path):
    with pytest.raises(TargetError, match="it sees none, or its weights belong to one size"):
        trained(receipts, checkpoints(family, "token-classification"), tmp_path)


def test_a_vision_transformer_is_refused_for_its_positions(pages, tmp_path):
    start = answering_checkpoints.make_vit_decoder(tmp_path / "start")
    for refuse in (lambda: trained(pages, start, tmp_path), lambda: HigherResolution().check(pages, start)):
        with pytest.raises(TargetError, match="positions of this model's patches"):
            refuse()


def test_pages_without_more_pixels_are_refused(pages, tmp_path):
    start = answering_checkpoints.make_donut(tmp_path / "start", size=(320, 256))
    with pytest.raises(TargetError, match="no more pixels than the 256 x 320 that the model sees"):
        trained(pages, start, tmp_path)
