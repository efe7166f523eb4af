"""Models that transformers lacks: SPADE on LayoutLM, a masked BROS, image branches.

On disk, and against formulas.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from checkpoint_faults import change
from safetensors.torch import load_file, save_file

from audit.errors import TargetError
from audit.extensions.papers.image_branch import BINS, ImageBranch, LayoutLMImageConfig, roi_align
from audit.references.recipes import starting_model
from audit.targets.checkpoint.loading import load_model
from audit.targets.encoders.families import VisualInputs, family_named
from audit.targets.encoders.loading import load
from audit.targets.encoders.models import LayoutLMSpadeForLinking
from benchmarks.tools.starts import start_with_images

PAIRS = [
    *(
        (family, head)
        for family in tiny.IMAGE_FAMILIES
        for head in (*tiny.HEADS, *tiny.SPADE_HEADS)
    ),
    *(("layoutlm", head) for head in tiny.SPADE_HEADS),
    ("bros", "mlm"),
]


def page(family: str, n: int = 12) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    boxes = torch.rand(2, n, 4, generator=generator).sort(dim=-1).values
    made = {
        "input_ids": torch.randint(5, len(tiny.VOCABULARY), (2, n), generator=generator),
        "bbox": boxes if "bros" in family else (boxes * 1000).long(),
        "attention_mask": torch.ones(2, n, dtype=torch.int64),
    }
    pixels = torch.rand(2, 3, tiny.PICTURE, tiny.PICTURE, generator=generator) * 2 - 1
    return {**made, "pixel_values": pixels} if "image" in family else made


@pytest.mark.parametrize(("family", "head"), PAIRS)
def test_a_model_survives_saving_bit_by_bit(family, head, tmp_path):
    model = tiny.model(family, head).eval()
    if (family, head) == ("bros", "mlm"):
        with torch.no_grad():
            model.cls.predictions.bias += torch.arange(len(tiny.VOCABULARY)) / 100
    model.save_pretrained(tmp_path)
    again, missing = load_model(tmp_path, family_named(family).heads[head])
    assert missing == []
    assert getattr(again.config, "image_channels", None) == getattr(
        model.config, "image_channels", None
    )
    with torch.inference_mode():
        before, after = (m(**page(family)).to_tuple() for m in (model, again.eval()))
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    tiny.tokenizer().save_pretrained(tmp_path)
    target = load(tmp_path)
    assert (target.card.family, target.card.task) == (family_named(family).name, head)
    assert target.labels == tiny.LABELS_OF.get(head, ())


def test_a_masked_bross_decoder_is_tied_to_its_words(tmp_path):
    model = tiny.model("bros", "mlm").eval()
    model.save_pretrained(tmp_path)
    assert "cls.predictions.decoder.weight" not in load_file(tmp_path / "model.safetensors")
    for one in (model, load_model(tmp_path, type(model))[0]):
        head = one.cls.predictions
        assert one.get_output_embeddings() is head.decoder
        assert head.decoder.weight is one.bros.embeddings.word_embeddings.weight
        assert head.decoder.bias is head.bias


def test_the_loss_of_a_masked_bros_is_the_mean_cross_entropy_of_the_labelled_tokens():
    model = tiny.model("bros", "mlm").eval()
    inputs = page("bros")
    labels = torch.full_like(inputs["input_ids"], -100)
    labels[0, 3] = 7
    labels[1, 5] = 8
    with torch.inference_mode():
        output = model(**inputs, labels=labels)
        log_p = torch.log_softmax(output.logits, dim=-1)
    assert float(output.loss) == pytest.approx(
        -float(log_p[0, 3, 7] + log_p[1, 5, 8]) / 2, rel=1e-5
    )
    assert model(**inputs).loss is None


def inputs(lengths: tuple[int, ...] = (9, 6)) -> dict[str, torch.Tensor]:
    """Pages of these lengths, padded to the longest; every other token begins a word."""
    generator = torch.Generator().manual_seed(3)
    n = max(lengths)
    attended = torch.arange(n) < torch.tensor(lengths)[:, None]
    return {
        "input_ids": torch.randint(5, len(tiny.VOCABULARY), (len(lengths), n), generator=generator),
        "bbox": torch.randint(0, 1001, (len(lengths), n, 4), generator=generator)
        .sort(dim=-1)
        .values,
        "attention_mask": attended.long(),
        "bbox_first_token_mask": attended & (torch.arange(n) % 2 == 0),
    }


def scores_by_hand(
    model: Any, head: Any, batch: dict[str, torch.Tensor], page: int, length: int
) -> torch.Tensor:
    """(length, length + 1) dot products of a page alone, the dummy last."""
    alone = {
        name: batch[name][page : page + 1, :length]
        for name in ("input_ids", "bbox", "attention_mask")
    }
    hidden = model.layoutlm(**alone).last_hidden_state[0]
    keys = head.key(torch.cat([hidden, head.dummy_node]))
    return head.query(hidden) @ keys.T


def cross_entropy(scores: torch.Tensor, own: int, allowed: list[int], label: int) -> float:
    """The cost of `label` among the allowed keys except the token itself."""
    keys = [key for key in allowed if key != own]
    return -float(torch.log_softmax(scores[own, keys], dim=0)[keys.index(label)])


def test_the_loss_of_linking_is_the_formulas():
    model = tiny.model("layoutlm", "spade-linking").eval()
    batch = inputs()
    labels = torch.full((2, 9), 9)  # 9 is "none"
    labels[0, 2] = 0
    labels[0, 8] = 4
    labels[1, 4] = 2
    with torch.inference_mode():
        loss = float(model(**batch, labels=labels).loss)
        costs = []
        for page, length in enumerate((9, 6)):
            scores = scores_by_hand(model, model.entity_linker, batch, page, length)
            first = list(range(0, length, 2))
            for own in first:
                label = int(labels[page, own])
                costs.append(
                    cross_entropy(scores, own, [*first, length], length if label == 9 else label)
                )
    assert loss == pytest.approx(sum(costs) / len(costs), rel=1e-4)


def test_the_loss_of_extraction_is_the_sum_of_both_formulas():
    model = tiny.model("layoutlm", "spade-extraction").eval()
    batch = inputs()
    classes = torch.where(batch["bbox_first_token_mask"], torch.arange(9) % 5, -100)
    before = torch.where(batch["attention_mask"] == 1, 9, -100)
    before[0, 3] = 2
    before[1, 5] = 1
    with torch.inference_mode():
        output = model(**batch, initial_token_labels=classes, subsequent_token_labels=before)
        log_p = torch.log_softmax(output.initial_token_logits, dim=-1)
        read = batch["bbox_first_token_mask"].nonzero().tolist()
        initial = [-float(log_p[page, place, classes[page, place]]) for page, place in read]
        subsequent = []
        for page, length in enumerate((9, 6)):
            scores = scores_by_hand(model, model.subsequent_token_classifier, batch, page, length)
            for own in range(length):
                label = int(before[page, own])
                every = list(range(length + 1))
                subsequent.append(
                    cross_entropy(scores, own, every, length if label == 9 else label)
                )
    expected = sum(initial) / len(initial) + sum(subsequent) / len(subsequent)
    assert float(output.loss) == pytest.approx(expected, rel=1e-4)
    hidden = model.layoutlm(
        **{name: batch[name] for name in ("input_ids", "bbox", "attention_mask")}
    ).last_hidden_state
    _, first, _, second = model.initial_token_classifier
    torch.testing.assert_close(
        second(first(hidden)), output.initial_token_logits
    )  # two layers, nothing between


def test_a_fresh_head_on_a_trained_encoder_starts_like_the_rest_of_it(tmp_path):
    source = tiny.model("layoutlm", "mlm")
    source.save_pretrained(tmp_path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, missing = load_model(tmp_path, LayoutLMSpadeForLinking)
    assert sorted(name for name in missing if "pooler" not in name) == [
        f"entity_linker.{name}"
        for name in ("dummy_node", "key.bias", "key.weight", "query.bias", "query.weight")
    ]
    for weights in (model.entity_linker.dummy_node, model.entity_linker.key.weight):
        assert float(weights.detach().std()) == pytest.approx(
            source.config.initializer_range, rel=0.4
        )
    embeddings = model.layoutlm.embeddings.word_embeddings.weight
    assert torch.equal(embeddings, source.layoutlm.embeddings.word_embeddings.weight)


OWN = ("O", "B-A", "I-A")
UNNAMED = ("LABEL_0", "LABEL_1", "LABEL_2")
TWO = ("LABEL_0", "LABEL_1")
BIO = "token-classification"
SPADE = "spade-extraction"


@pytest.mark.parametrize(
    ("family", "head", "model_labels", "manifest_labels", "expected"),
    [
        pytest.param("bert", BIO, OWN, (), OWN, id="a model names its labels"),
        pytest.param(
            "bert",
            BIO,
            OWN,
            ("B-A", "I-A", "O"),
            OWN,
            id="the manifest names them in another order",
        ),
        pytest.param(
            "bert",
            BIO,
            OWN,
            ("O", "B-B", "I-B"),
            "labels are not the manifest's",
            id="the manifest names other labels",
        ),
        pytest.param(
            "bert",
            BIO,
            OWN,
            ("O", "B-A"),
            "labels are not the manifest's",
            id="the manifest names fewer labels",
        ),
        pytest.param(
            "bert", BIO, UNNAMED, OWN, OWN, id="the manifest names those of a model without names"
        ),
        pytest.param(
            "bert",
            BIO,
            UNNAMED,
            ("O", "B-A"),
            "3 unnamed labels, the manifest names 2",
            id="the manifest names too few of them",
        ),
        pytest.param(
            "bert",
            BIO,
            UNNAMED,
            (),
            "3 unnamed labels, the manifest names 0",
            id="nobody names them",
        ),
        pytest.param(
            "bert", BIO, ("HEADER", "ANSWER"), (), "no label is O", id="a tagger without O"
        ),
        pytest.param(
            "bert",
            BIO,
            TWO,
            ("HEADER", "ANSWER"),
            "no label is O",
            id="two unnamed labels are no names of a tagger",
        ),
        pytest.param(
            "layoutlm", SPADE, ("O", "A", "B"), (), ("O", "A", "B"), id="SPADE classes of the model"
        ),
        pytest.param(
            "bros",
            SPADE,
            ("A", "O", "B"),
            ("O", "A", "B"),
            ("A", "O", "B"),
            id="SPADE classes in another order",
        ),
        pytest.param(
            "layoutlm", SPADE, TWO, ("O", "A"), ("O", "A"), id="SPADE classes of the manifest"
        ),
        pytest.param(
            "layoutlm",
            SPADE,
            ("A", "B"),
            (),
            "no label is O, so these are no classes of SPADE extraction",
            id="SPADE classes of a model without O",
        ),
        pytest.param(
            "bros",
            SPADE,
            TWO,
            ("A", "B"),
            "no label is O, so these are no classes",
            id="SPADE classes of a manifest without O",
        ),
        pytest.param(
            "layoutlm",
            SPADE,
            ("O", "A"),
            OWN,
            "labels are not the manifest's",
            id="SPADE classes of the model and other ones of the manifest",
        ),
        pytest.param("bros", "spade-linking", (), OWN, (), id="linking needs no labels"),
    ],
)
def test_labels_are_the_models_or_where_it_names_none_the_manifests(
    family, head, model_labels, manifest_labels, expected, tmp_path
):
    tiny.checkpoint(tmp_path, family, head, labels=model_labels or None)
    if isinstance(expected, tuple):
        assert load(tmp_path, labels=manifest_labels).labels == expected
        return
    with pytest.raises(TargetError, match=expected):
        load(tmp_path, labels=manifest_labels)


def test_heads_of_several_relations_are_refused(tmp_path):
    tiny.checkpoint(tmp_path, "bros", "spade-linking")
    change(tmp_path / "config.json", n_relations=2)
    with pytest.raises(TargetError, match="SPADE head of 2 relations"):
        load(tmp_path)


def test_on_a_ramp_each_bin_is_the_value_at_its_centre():
    """Where a map is linear bilinear values are exact, and the mean over a bin is the value at its centre."""
    height = 8
    width = 10
    x = (torch.arange(width) + 0.5) / width
    y = (torch.arange(height) + 0.5) / height
    ramps = torch.stack([x.expand(height, width), y[:, None].expand(height, width)])
    boxes = torch.tensor([[0.15, 0.2, 0.75, 0.5], [0.31, 0.33, 0.34, 0.93]])
    taken = roi_align(ramps[None], boxes[None]).reshape(2, 2, BINS, BINS)
    for box, (across, down) in zip(boxes, taken, strict=True):
        x0, y0, x1, y1 = box
        centres = (torch.arange(BINS) + 0.5) / BINS
        torch.testing.assert_close(
            across, (x0 + (x1 - x0) * centres).expand(BINS, BINS), atol=1e-6, rtol=0
        )
        torch.testing.assert_close(
            down, (y0 + (y1 - y0) * centres)[:, None].expand(BINS, BINS), atol=1e-6, rtol=0
        )


def test_a_box_takes_nothing_from_elsewhere_and_beyond_the_edge_the_map_goes_on():
    features = torch.zeros(1, 1, 8, 8)
    features[0, 0, 2, 3] = 1.0
    boxes = torch.tensor([[[3 / 8, 2 / 8, 4 / 8, 3 / 8], [5 / 8, 5 / 8, 1.0, 1.0]]])
    over, beside = roi_align(features, boxes).reshape(2, BINS, BINS)
    # Points at 1/12, 3/12 ... of the cell: bilinear weights fall linearly from its centre.
    weights = 1 - (torch.tensor([1, 3, 5, 7, 9, 11]) / 12 - 0.5).abs()
    expected = weights.reshape(BINS, 2).mean(1)
    torch.testing.assert_close(over, expected[:, None] * expected)
    assert (beside == 0).all()
    flat = roi_align(torch.full((1, 1, 4, 4), 7.0), torch.tensor([[[0.0, 0.0, 1.0, 1.0]]]))
    assert (flat == 7).all()


def test_tokens_without_area_see_nothing():
    branch = ImageBranch(LayoutLMImageConfig(hidden_size=16, image_channels=[8]))
    boxes = torch.tensor(
        [[[0, 0, 0, 0], [1, 1, 1, 1], [0.2, 0.2, 0.2, 0.6], [0.2, 0.2, 0.6, 0.6]]],
        dtype=torch.float32,
    )
    visual = branch(torch.rand(1, 3, 16, 16), boxes)[0]
    assert (visual[:3] == 0).all()
    assert (visual[3] != 0).all()


@pytest.mark.parametrize("family", tiny.IMAGE_FAMILIES)
def test_embeddings_made_beforehand_are_those_of_the_pixels(family):
    model = tiny.model(family, "mlm").eval()
    encoder = getattr(model, family_named(family).encoder)
    inputs = page(family)
    with torch.inference_mode():
        whole = model(**inputs).logits
        pixels = inputs.pop("pixel_values")
        made = encoder.visual_embeddings(pixels, inputs["bbox"])
        torch.testing.assert_close(
            model(**inputs, visual_embeds=made).logits, whole, rtol=0, atol=0
        )
        assert not torch.equal(model(**inputs, pixel_values=-pixels).logits, whole)
    with pytest.raises(ValueError, match="pixel_values"):
        model(**inputs)


@pytest.mark.parametrize(
    ("own", "image"), [("layoutlm", tiny.IMAGE_FAMILIES[0]), ("bros", tiny.IMAGE_FAMILIES[1])]
)
def test_a_text_and_layout_model_gains_a_fresh_image_branch_for_training(own, image, tmp_path):
    tiny.checkpoint(tmp_path / "own", own, "mlm")
    settings: Any = {"image_size": 64, "image_channels": (8, 16, 24), "seed": 4}
    model = start_with_images(
        tmp_path / "own", "token-classification", labels=tiny.LABELS, **settings
    )
    assert type(model) is family_named(image).heads["token-classification"]
    assert model.config.model_type == image
    assert (model.config.image_size, list(model.config.image_channels)) == (64, [8, 16, 24])
    assert model.config.id2label == dict(enumerate(tiny.LABELS))
    before, _ = load_model(tmp_path / "own", family_named(own).heads["mlm"])
    encoder = family_named(own).encoder
    kept = {
        name for name in before.state_dict() if name.startswith(encoder) and "pooler" not in name
    }
    for name in kept:
        assert torch.equal(before.state_dict()[name], model.state_dict()[name]), name
    # A fresh embedding is about as large as a word's, whatever the number of features under a
    # token.
    visual = getattr(model, encoder).visual_embeddings(
        torch.rand(1, 3, 64, 64) * 2 - 1, page(own)["bbox"][:1]
    )
    assert 0.2 < float(visual.detach().std()) / model.config.initializer_range < 2
    again = start_with_images(
        tmp_path / "own", "token-classification", labels=tiny.LABELS, **settings
    )
    other = start_with_images(
        tmp_path / "own", "token-classification", labels=tiny.LABELS, **{**settings, "seed": 5}
    )
    weights = [getattr(m, encoder).visual.projection.weight for m in (model, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_what_cannot_start_a_training_is_refused(tmp_path):
    bert = tiny.checkpoint(tmp_path / "bert", "bert", "mlm")
    with pytest.raises(TargetError, match="BERT has no image branch"):
        start_with_images(bert, "mlm")
    with pytest.raises(TargetError, match="BERT has no head for spade-linking"):
        starting_model(bert, "spade-linking")
    lilt = tiny.checkpoint(tmp_path / "lilt", "lilt", "token-classification")
    with pytest.raises(TargetError, match="LiLT has no head for mlm"):
        starting_model(lilt, "mlm")
    weights = load_file(bert / "model.safetensors")
    del weights["bert.encoder.layer.1.output.dense.bias"]
    save_file(weights, bert / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TargetError, match="the encoder lacks 1 parameters"):
        starting_model(bert, "mlm")


def test_an_audit_of_missing_image_weights_is_refused(tmp_path):
    tiny.checkpoint(tmp_path, tiny.IMAGE_FAMILIES[0], "mlm")
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    save_file(
        {n: w for n, w in weights.items() if ".visual." not in n}, path, metadata={"format": "pt"}
    )
    with pytest.raises(
        TargetError,
        match=r"the weights of \d+ parameters are missing, the first is layoutlm\.visual",
    ):
        load(tmp_path)


@pytest.mark.parametrize("family", [tiny.IMAGE_FAMILIES[0], "layoutlmv3"])
def test_the_same_picture_over_other_boxes_is_seen_anew(family, tmp_path):
    """Two windows of a document share its picture, not what lies under their tokens."""
    target = load(tiny.checkpoint(tmp_path, family, "token-classification"), images=tiny.page_image)
    kind = family_named(family)
    sight = kind.sight_of(target.model.config)
    assert kind.boxes is not None
    first = target.encode(replace(tiny.documents(1, 0, 0)[0], image="m0.png"))
    assert first is not None
    second = replace(first, boxes=np.clip(first.boxes + 0.1, 0, 1))
    visual = VisualInputs(getattr(target.model, kind.encoder), sight, kind.boxes, "cpu")
    with torch.inference_mode():
        made = visual.batch([first, second, first], 128)[sight.argument]
    assert torch.equal(made[0], made[1]) == (
        family == "layoutlmv3"
    )  # it takes the picture as a whole
    assert torch.equal(made[0], made[2])
