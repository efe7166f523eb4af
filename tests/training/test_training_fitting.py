"""Fitting: the loss falls, masks are BERT's, both heads learn, and the best epochs are kept."""

import numpy as np
import pytest
import tiny
import torch

from audit.errors import TargetError
from audit.references.encoders import Collator, fit, save
from audit.references.recipes import Recipe
from audit.targets.encoded_page import NOT_READ
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.families import family_named
from audit.targets.encoders.loading import load
from benchmarks.papers.cdmi_training import BestEpochs, ScoringTrainer

MAX_TOKENS = tiny.POSITIONS - 1


def _pages(documents, labels=()):
    encoder = Encoder(tiny.tokenizer(), MAX_TOKENS, labels)
    return [encoder.encode(document) for document in documents]


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_loss_of_a_masked_language_model_falls_within_few_epochs(family):
    model = tiny.model(family)
    fitted = fit(
        model,
        tiny.tokenizer(),
        _pages(tiny.documents()),
        Recipe(epochs=4, learning_rate=3e-3, batch_size=4),
    )
    losses = [score.training_loss for score in fitted.history]
    assert [score.epoch for score in fitted.history] == [1, 2, 3, 4]
    assert losses[-1] < 0.8 * losses[0]
    assert fitted.loss is None
    assert not fitted.model.training


def test_a_token_classifier_learns_its_tags_and_the_papers_two_epochs_are_kept():
    members = _pages(tiny.documents(members=12, heldout=0, public=0), tiny.LABELS)
    others = None
    others = _pages(tiny.documents(members=0, heldout=6, public=0, seed=1), tiny.LABELS)
    recipe = Recipe(epochs=8, learning_rate=3e-3, batch_size=4)
    model = tiny.model("layoutlm", "token-classification")
    watch = BestEpochs(lambda: None)
    fit(
        model,
        tiny.tokenizer(),
        members,
        recipe,
        validation=others,
        trainer=ScoringTrainer,
        watch=watch,
    )
    losses = [score.validation_loss for score in watch.history]
    assert max(watch.accuracies) > watch.accuracies[0]
    assert min(losses) < losses[0]
    last = model.state_dict()
    for kept, scores, best in ((watch.precision, watch.accuracies, max), (watch.loss, losses, min)):
        is_last = scores.index(best(scores)) == len(scores) - 1
        assert all(torch.equal(kept[name], last[name]) for name in last) == is_last


def test_kept_weights_stay_those_of_the_best_epoch_when_training_goes_on_and_gets_worse():
    """Validation pages carry tags that training teaches against, so the loss on them is lowest early on."""
    training = _pages(tiny.documents(members=8, heldout=0, public=0), tiny.LABELS)
    against = _pages(tiny.documents(members=8, heldout=0, public=0), tiny.LABELS)
    for page in against:
        read = page.labels != NOT_READ
        page.labels[read] = (page.labels[read] + 3) % len(tiny.LABELS)
    model = tiny.model("layoutlm", "token-classification")
    recipe = Recipe(epochs=8, learning_rate=1e-2, batch_size=4)
    fitted = fit(model, tiny.tokenizer(), training, recipe, validation=against)
    losses = [score.validation_loss for score in fitted.history]
    assert losses.index(min(losses)) < len(losses) - 1
    now = model.state_dict()
    assert any(not torch.equal(fitted.loss[name], now[name]) for name in now)
    model.load_state_dict(fitted.loss)
    again = fit(
        model,
        tiny.tokenizer(),
        training,
        Recipe(epochs=1, learning_rate=0.0, batch_size=4),
        validation=against,
    )
    assert again.history[0].validation_loss == pytest.approx(min(losses), rel=1e-5)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    def weights(seed):
        model = tiny.model("bert")
        recipe = Recipe(epochs=1, learning_rate=1e-3, batch_size=4, seed=seed)
        fit(model, tiny.tokenizer(), _pages(tiny.documents()), recipe)
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    first = weights(0)
    assert torch.equal(first, weights(0))
    assert not torch.equal(first, weights(1))


def test_training_gives_back_the_random_state_and_the_deterministic_setting():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(tiny.model("bert"), tiny.tokenizer(), _pages(tiny.documents(2, 0, 0)), Recipe(epochs=1))
    assert torch.equal(torch.rand(3), expected)
    assert not torch.are_deterministic_algorithms_enabled()


def test_masks_are_berts_and_never_touch_special_tokens_or_padding():
    tokenizer = tiny.tokenizer()
    collator = Collator(family_named("layoutlm"), tokenizer, 0.15, seed=3)
    pages = _pages(tiny.documents(members=40))
    chosen = masked = kept = total = 0
    for _ in range(20):
        batch = collator(pages)
        original = np.full(batch["input_ids"].shape, tokenizer.pad_token_id)
        for row, page in enumerate(pages):
            original[row, : len(page.ids)] = page.ids
        ids = batch["input_ids"].numpy()
        labels = batch["labels"].numpy()
        special = np.isin(original, tokenizer.all_special_ids)
        read = labels != NOT_READ
        assert not (read & special).any()
        assert (labels[read] == original[read]).all()
        assert (ids[~read] == original[~read]).all()
        total += int((~special).sum())
        chosen += int(read.sum())
        masked += int((ids[read] == tokenizer.mask_token_id).sum())
        kept += int((ids[read] == original[read]).sum())
    assert (chosen / total, masked / chosen) == (
        pytest.approx(0.15, abs=0.01),
        pytest.approx(0.8, abs=0.02),
    )
    assert kept / chosen == pytest.approx(0.1 + 0.1 / len(tokenizer), abs=0.02)


def test_a_batch_is_padded_to_its_longest_page_only():
    pages = sorted(_pages(tiny.documents()), key=lambda page: len(page.ids))[:2]
    collator = Collator(family_named("layoutlm"), tiny.tokenizer(), 0.15, seed=0)
    batch = collator(pages)
    lengths = [len(page.ids) for page in pages]
    assert (batch["input_ids"].shape, batch["bbox"].shape) == (
        (2, max(lengths)),
        (2, max(lengths), 4),
    )
    assert batch["attention_mask"].sum(1).tolist() == lengths
    assert int(batch["bbox"].max()) <= 1000


def test_a_half_precision_checkpoint_loads_in_float32_and_is_half_as_large(tmp_path):
    model = tiny.model("layoutlm")
    save(model, tiny.tokenizer(), tmp_path / "whole")
    save(model, tiny.tokenizer(), tmp_path / "half", half=True)
    sizes = {
        name: (tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")
    }
    assert sizes["half"] < 0.55 * sizes["whole"]
    assert next(model.parameters()).dtype == torch.float32
    loaded = load(tmp_path / "half").model
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype in (torch.float32, torch.int64)
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-3, atol=1e-3)


def test_nothing_to_train_on_is_an_error_and_so_is_an_unknown_family():
    with pytest.raises(TargetError, match="no page"):
        fit(tiny.model("bert"), tiny.tokenizer(), [], Recipe())
    stranger = tiny.model("bert")
    stranger.config.model_type = "gpt2"
    with pytest.raises(TargetError, match="gpt2"):
        fit(stranger, tiny.tokenizer(), _pages(tiny.documents()), Recipe())


def test_a_training_that_ran_away_is_not_kept(tmp_path):
    model = tiny.model("layoutlm", "mlm")
    with torch.no_grad():
        next(model.parameters())[0] = float("nan")
    with pytest.raises(TargetError, match="the training diverged"):
        save(model, tiny.tokenizer(), tmp_path / "diverged")
    assert not (tmp_path / "diverged").exists()
