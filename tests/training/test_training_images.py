"""Training of models that see pages, and public models for them."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tiny
from PIL import Image, ImageDraw

from audit.corpus.documents import Corpus, Document, Entity, Manifest, Membership, Task
from audit.corpus.images import open_image
from audit.corpus.manifest import load as load_corpus
from audit.engine.interface import SILENT
from audit.errors import TargetError
from audit.references.encoders import fit, save
from audit.references.recipes import Recipe
from audit.references.resolve import complete, fit_public_mlm, prepare
from audit.targets.encoded_page import PixelScale
from audit.targets.encoders.loading import load
from audit.targets.interface import FillMask, TagProbabilities
from benchmarks.tools.shadow_target import pretrained_of
from benchmarks.tools.starts import start_with_images

RECIPE = Recipe(epochs=1, batch_size=4)


def with_names(documents):
    return [replace(document, image=f"{document.id}.png") for document in documents]


def pages_of(folder, documents, images=tiny.page_image):
    encode = load(folder, images=images).encode
    return [encode(document) for document in with_names(documents)]


@pytest.mark.parametrize(
    ("family", "head"),
    [
        *(
            (family, head)
            for family in tiny.IMAGE_FAMILIES
            for head in (*tiny.HEADS, *tiny.SPADE_HEADS)
        ),
        ("roberta", "mlm"),
        ("layoutlmv3", "token-classification"),
        ("lilt", "token-classification"),
    ],
)
def test_every_kind_of_model_learns_from_its_pages(family, head, checkpoints):
    pages = pages_of(checkpoints(family, head), tiny.documents(6, 2, 0))
    recipe = Recipe(
        epochs=4, learning_rate=3e-3, batch_size=4, bf16=family == "docaudit-layoutlm-image"
    )
    fitted = fit(
        tiny.model(family, head), tiny.tokenizer_of(family), pages[:6], recipe, validation=pages[6:]
    )
    losses = [score.training_loss for score in fitted.history]
    assert losses[-1] < 0.9 * losses[0]
    assert all(score.validation_loss > 0 for score in fitted.history)


def marked(number):
    """The same words everywhere; what the first one is stands in the colour of its box alone."""
    labels = ("VENDOR", "CLERK")
    entity = Entity("e0", labels[number % 2], "organization", (0,))
    return Document(
        f"m{number}",
        "member",
        tiny.laid_out(["ab", "cd", "ef"]),
        size=tiny.SIZE,
        entities=(entity,),
    )


def marked_page(document):
    page = Image.new("RGB", tiny.SIZE, "white")
    # Neighbouring pages differ in brightness, so that the colour has to be read, not the page's
    # sum.
    number = int(document.id[1:])
    colour = ((200 + number % 5, 40, 40), (40, 40, 200 + number % 5))[number % 2]
    x0, y0, x1, y1 = document.words[0].box
    ImageDraw.Draw(page).rectangle((x0, y0, x1 - 1, y1 - 1), fill=colour)
    return page


def test_what_stands_in_the_image_alone_is_learned_by_the_models_that_see_it(checkpoints):
    wrong = {}
    for family in ("layoutlm", *tiny.IMAGE_FAMILIES):
        target = load(checkpoints(family, "token-classification"), images=marked_page)
        documents = with_names(marked(number) for number in range(24))
        pages = [target.encode(document) for document in documents]
        fit(
            target.model,
            target.encoder.tokenizer,
            pages[:16],
            Recipe(epochs=25, learning_rate=2e-3, batch_size=8),
        )
        tags = [
            tiny.LABELS[row[1].argmax()]
            for row in target.ask([TagProbabilities(page) for page in pages[16:]])
        ]
        truth = [f"B-{document.entities[0].label}" for document in documents[16:]]
        wrong[family] = sum(tag != true for tag, true in zip(tags, truth, strict=True))
        if family != "layoutlm":
            # Under the patch there is nothing to read: all pages get the same answer.
            hidden = [page.scrubbed([1]).with_tokens([1], page.ids[[1]]) for page in pages[16:]]
            same = [
                tiny.LABELS[row[1].argmax()]
                for row in target.ask([TagProbabilities(page) for page in hidden])
            ]
            assert len(set(same)) == 1
    assert wrong == {"layoutlm": 4, "docaudit-layoutlm-image": 0, "docaudit-bros-image": 0}


def test_a_page_without_the_picture_that_a_model_sees_is_an_error(checkpoints):
    target = load(checkpoints("docaudit-layoutlm-image", "mlm"))
    pages = [target.encode(document) for document in tiny.documents(2, 0, 0)]
    with pytest.raises(TargetError, match="sees page images, and some pages have none"):
        fit(target.model, target.encoder.tokenizer, pages, RECIPE)


def test_a_fine_tuned_model_that_gained_its_images_can_be_audited(checkpoints, tmp_path):
    start = start_with_images(
        checkpoints("bros", "mlm"), "mlm", image_size=tiny.PICTURE, image_channels=[8]
    )
    tokenizer = tiny.tokenizer()
    start.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    pages = pages_of(tmp_path / "start", tiny.documents(4, 0, 0))
    save(fit(start, tokenizer, pages, RECIPE).model, tokenizer, tmp_path / "fitted")
    target = load(tmp_path / "fitted", images=tiny.page_image)
    assert target.card.architecture == "BROS with images, masked language model"
    (candidates,) = target.ask([FillMask(pages[0].masked([3]), 3, 5)])
    assert np.isfinite(candidates.logits).all()


def test_the_public_model_of_a_checkpoint_that_sees_is_trained_on_images_and_keyed_by_them(
    checkpoints, tmp_path
):
    pretrained = checkpoints("docaudit-layoutlm-image", "mlm")
    documents = with_names(tiny.documents(0, 0, 6))

    def other_page(document):
        return tiny.page_image(replace(document, id="other"))

    made = [
        fit_public_mlm(pretrained, documents, tmp_path, recipe=RECIPE, images=images)
        for images in (tiny.page_image, other_page, tiny.page_image)
    ]
    assert made[0] == made[2] != made[1]
    weights = [load(folder).model.layoutlm.visual.projection.weight for folder in made[:2]]
    assert not weights[0].equal(weights[1])
    with pytest.raises(TargetError, match="some pages have none"):
        fit_public_mlm(
            pretrained, tiny.documents(0, 0, 6), tmp_path, recipe=RECIPE, images=tiny.page_image
        )


def test_a_roberta_becomes_the_public_model_of_a_layoutlmv3_which_has_no_such_head(
    checkpoints, tmp_path
):
    folder = fit_public_mlm(
        checkpoints("roberta", "mlm"), tiny.documents(0, 0, 6), tmp_path, recipe=RECIPE
    )
    public = load(folder)
    target = load(checkpoints("layoutlmv3", "token-classification"), images=tiny.page_image)
    assert public.encoder.tokenizer.get_vocab() == target.encoder.tokenizer.get_vocab()
    page = target.encode(with_names(tiny.documents(1, 0, 0))[0])
    assert page.ids.tolist() == public.encode(tiny.documents(1, 0, 0)[0]).ids.tolist()
    (candidates,) = public.ask([FillMask(page.scrubbed([4, 5]), 4, 1000)])
    assert not set(candidates.ids) & set(target.encoder.tokenizer.all_special_ids)
    with pytest.raises(TargetError, match="LayoutLMv3 has no head for mlm"):
        fit_public_mlm(
            checkpoints("layoutlmv3", "token-classification"),
            tiny.documents(0, 0, 6),
            tmp_path,
            recipe=RECIPE,
        )


@pytest.fixture(scope="module")
def seen_target(checkpoints, tiny_corpus):
    corpus = load_corpus(tiny_corpus)
    folder = checkpoints("docaudit-layoutlm-image", "token-classification")
    return load(folder, images=partial(open_image, corpus)), folder, corpus


def prepared(seen_target, folder, **given):
    target, own, corpus = seen_target
    named = given or {"auxiliary": folder}
    return prepare(
        {"auxiliary"}, target, own, corpus, {name: [place] for name, place in named.items()}
    )


def test_the_public_model_sees_no_images_or_the_targets_own(seen_target, checkpoints, tmp_path):
    for family in ("layoutlm", "bert", "docaudit-layoutlm-image", "docaudit-bros-image"):
        auxiliary = prepared(seen_target, checkpoints(family, "mlm")).auxiliary.target
        page = auxiliary.encode(seen_target[2].of("heldout")[0])
        assert (page.page_image is not None) == family.startswith("docaudit")
    other = start_with_images(
        checkpoints("layoutlm", "mlm"), "mlm", image_size=48, image_channels=[8]
    )
    save(other, tiny.tokenizer(), tmp_path)
    for given in ({"auxiliary": tmp_path}, {"pretrained": tmp_path}):
        with pytest.raises(
            TargetError, match="sees page images, and the target sees none or takes them otherwise"
        ):
            prepared(seen_target, None, **given)
    blind = load(checkpoints("layoutlm", "token-classification"))
    with pytest.raises(TargetError, match="sees page images"):
        prepare(
            {"auxiliary"},
            blind,
            *seen_target[1:3],
            {"auxiliary": [checkpoints("docaudit-bros-image", "mlm")]},
        )


def with_own_scale(folder, name):
    settings = {"image_mean": [0.4, 0.4, 0.4]}
    nested = {"image_processor": settings} if name == "processor_config.json" else settings
    (folder / name).write_text(json.dumps(nested))
    return folder


@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
def test_a_public_model_takes_pixels_as_what_it_was_trained_from(
    tiny_corpus, tmp_path, monkeypatch, name
):
    """Or else it would be trained, and then refused as the auxiliary of the target that takes them so."""
    monkeypatch.setattr("audit.references.resolve.Recipe", lambda seed: replace(RECIPE, seed=seed))
    corpus = load_corpus(tiny_corpus)
    target_dir, pretrained = (
        with_own_scale(tiny.checkpoint(tmp_path / head, "docaudit-layoutlm-image", head), name)
        for head in ("token-classification", "mlm")
    )
    target = load(target_dir, images=partial(open_image, corpus))
    ready = prepare({"auxiliary"}, target, target_dir, corpus, {"pretrained": [pretrained]})
    filled = complete(ready, {"auxiliary"}, target, tmp_path / "cache", 0, SILENT)
    scale = filled.references.auxiliary.encoder.page_images.scale
    assert scale == target.encoder.page_images.scale == PixelScale(mean=(0.4, 0.4, 0.4))


def test_what_would_become_a_public_model_with_another_sight_is_refused_before_training(
    checkpoints, tmp_path
):
    """For `benchmarks/tools/tune_attack.py`, which trains the shadow target first."""
    corpus = Corpus(None, Manifest(1, "tiny", Task("mlm"), Membership("random")), (), "c" * 64)
    own = "docaudit-layoutlm-image"
    pretrained = tmp_path / "pretrained"
    with_own_scale(tiny.checkpoint(pretrained, own, "mlm", 7), "processor_config.json")
    tagger = checkpoints(own, "token-classification")
    masked = checkpoints(own, "mlm")
    with pytest.raises(TargetError, match=r"reference pretrained: .* sees page images"):
        pretrained_of(load(tagger), tagger, corpus, {"pretrained": [pretrained]})
    # One that proposes its own candidates needs no public model, and one that sees as the target
    # does can serve.
    assert pretrained_of(load(masked), masked, corpus, {"pretrained": [pretrained]}) == pretrained
    with_own_scale(
        tiny.checkpoint(tmp_path / "tagger", own, "token-classification"),
        "preprocessor_config.json",
    )
    for folder in (tmp_path / "tagger", tagger):
        served = pretrained if folder != tagger else masked
        assert pretrained_of(load(folder), folder, corpus, {"pretrained": [served]}) == served


def test_a_public_model_is_trained_on_the_images_of_the_corpus(
    seen_target, checkpoints, tmp_path, monkeypatch
):
    monkeypatch.setattr("audit.references.resolve.Recipe", lambda seed: replace(RECIPE, seed=seed))
    target, _, corpus = seen_target
    ready = prepared(seen_target, None, pretrained=checkpoints("docaudit-layoutlm-image", "mlm"))
    filled = complete(ready, {"auxiliary"}, target, tmp_path, 0, SILENT)
    auxiliary = filled.references.auxiliary
    assert auxiliary.card.family == "LayoutLM with images"
    page = target.encode(corpus.of("member")[0]).scrubbed([3, 4])
    (candidates,) = auxiliary.ask([FillMask(page, 3, 5)])
    white = replace(page, page_image=page.page_image.painted(np.array([[0.0, 0.0, 1.0, 1.0]])))
    (blank,) = auxiliary.ask([FillMask(white, 3, 5)])
    assert not np.array_equal(candidates.logits, blank.logits)
