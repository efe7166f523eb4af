"""References that are the target with noise are refused; models that were trained alike are not."""

import shutil
from pathlib import Path

import asked_pages
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from audit.errors import TargetError
from audit.references.provenance import (
    NEAR,
    NOISE,
    Suspect,
    distance_of_weights,
    refuse_a_near_copy,
    refuse_the_target,
)
from audit.references.recipes import AnsweringRecipe
from audit.references.training import train_baseline
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint.folder import open_checkpoint
from audit.workflows.options import ScanOptions
from audit.workflows.session import Session, open_session

SAMPLES = Path(__file__).parents[2] / "sample_models"


def noisy(source: Path, copy: Path, noise: float | str) -> Path:
    """A checkpoint with relative noise on every tensor, or rounded to a number format."""
    shutil.copytree(source, copy)
    name = "model.safetensors"
    generator = torch.Generator().manual_seed(0)
    changed = {}
    for key, tensor in load_file(source / name).items():
        if not tensor.is_floating_point():
            changed[key] = tensor
        elif isinstance(noise, str):
            changed[key] = tensor.to(getattr(torch, noise)).float()
        else:
            size = noise * tensor.norm() / tensor.numel() ** 0.5
            changed[key] = tensor + size * torch.randn(tensor.shape, generator=generator)
    with safe_open(source / name, "pt") as opened:
        save_file(changed, copy / name, metadata=opened.metadata())
    return copy


def opened(sample: str, **references: Path) -> Session:
    folder = SAMPLES / sample
    given = {name: [path] for name, path in references.items()}
    return open_session(
        ScanOptions(folder / "model", folder / "data", Path(), budget="quick", references=given)
    )


NOISY = [
    *(
        (sample, "baselines", noise)
        for sample in ("letters", "utterances")
        for noise in (1e-4, 1e-3, "float16", "bfloat16")
    ),
    # Models that answer questions; with the start of the target more noise is seen.
    *(("questions", "baselines", noise) for noise in (1e-4, 1e-3, "bfloat16", 1e-2)),
    *(("questions", "pretrained", noise) for noise in (1e-4, "bfloat16")),
    ("receipts", "auxiliary", 1e-4),
]


@pytest.mark.parametrize(("sample", "role", "noise"), NOISY)
def test_a_reference_that_is_the_target_with_noise_is_refused(sample, role, noise, tmp_path):
    copy = noisy(SAMPLES / sample / "model", tmp_path / "copy", noise)
    name = "baseline-0" if role == "baselines" else role
    said = rf"reference {name}: .* is the target itself but for noise"
    if (role, noise) == ("pretrained", 1e-4):
        said = "holds the weights of its own start, .*: nothing of the training is in it"
    with pytest.raises(TargetError, match=said):
        opened(sample, **{role: copy})


def test_where_the_guard_ends(tmp_path):
    """Without its start a baseline cannot be told from the target with noise of one part in 100."""
    copy = noisy(SAMPLES / "letters" / "model", tmp_path / "copy", 1e-2)
    assert [card.role for card in opened("letters", baselines=copy).prepared.same_kind] == [
        "baseline-0"
    ]


@pytest.mark.parametrize(
    ("sample", "reference"),
    [
        ("receipts", "pretrained"),
        ("receipts", "public-mlm"),
        ("questions", "pretrained"),
        ("questions", "baseline"),
        ("letters", "baseline"),
        ("utterances", "baseline"),
    ],
)
def test_true_references_are_far_away(sample, reference):
    folder = SAMPLES / sample
    distance = distance_of_weights(folder / "model", folder / "data" / "references" / reference)
    assert distance is not None
    assert distance > 20 * NEAR


@pytest.mark.parametrize("learning_rate", [5e-5, 1e-3])
def test_one_epoch_is_enough_to_be_told_from_what_a_model_was_trained_from(learning_rate, tmp_path):
    corpus = asked_pages.corpus(tmp_path / "data", members=16, heldout=2, public=16)
    start = asked_pages.donut(tmp_path / "start")
    recipe = AnsweringRecipe(epochs=1, learning_rate=learning_rate, batch_size=4)
    (trained,) = train_baseline(start, corpus, tmp_path / "trained", recipe=recipe)
    distance = distance_of_weights(trained, start)
    assert distance is not None
    assert distance > NOISE
    assert (
        refuse_the_target("pretrained", open_checkpoint(start), open_checkpoint(trained))
        == distance
    )
    models = (load_answering(trained), load_answering(start))
    suspect = Suspect("pretrained", start, models[1], distance)
    refuse_a_near_copy(suspect, models[0], trained, corpus, None)


@pytest.mark.parametrize("stored", ["float16", "bfloat16", "float16 in float32"])
def test_an_export_of_an_adapter_is_no_start_although_most_of_it_was_only_rounded(
    stored, checkpoints, tmp_path
):
    start = checkpoints("bert", "token-classification")
    name = "model.safetensors"
    shutil.copytree(start, tmp_path / "export")
    number_format = getattr(torch, stored.split()[0])
    weights = {key: tensor.to(number_format) for key, tensor in load_file(start / name).items()}
    merged = [key for key in weights if "query.weight" in key]
    assert 0 < len(merged) < len(weights) / 4
    for key in merged:
        weights[key] = 1.1 * weights[key]
    if stored == "float16 in float32":
        weights = {key: tensor.float() for key, tensor in weights.items()}
    save_file(weights, tmp_path / "export" / name, metadata={"format": "pt"})
    folders = [open_checkpoint(place) for place in (start, tmp_path / "export")]
    assert refuse_the_target("pretrained", *folders) == pytest.approx(0.1, rel=0.1)


def test_models_of_another_form_are_not_compared(checkpoints):
    tagger = checkpoints("layoutlm", "token-classification")
    masked = checkpoints("layoutlm", "mlm")
    assert distance_of_weights(tagger, masked.parent / "nothing") is None
    assert distance_of_weights(masked, SAMPLES / "letters" / "model") is None
    assert distance_of_weights(tagger, tagger) == 0
    assert distance_of_weights(tagger, tagger.parent / "nothing") is None
