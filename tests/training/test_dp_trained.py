"""What is trained: adapters that merge into an ordinary checkpoint, heads, everything.

Embeddings stay as they are.
"""

import dp_toy as toy
import pytest
import tiny
import torch

from audit.errors import UsageError
from audit.extensions.private.adapters import LoraLinear, choose_trained, merge_adapters
from audit.targets.encoders.families import family_named


def logits(model) -> torch.Tensor:
    ids = torch.arange(10, 22)[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if family_named(model.config.model_type).boxes is not None:
        inputs["bbox"] = torch.arange(4).repeat(12, 1)[None] * 100
    if family_named(model.config.model_type).sight_of(model.config) is not None:
        inputs["pixel_values"] = torch.rand(
            1, 3, tiny.PICTURE, tiny.PICTURE, generator=torch.Generator().manual_seed(0)
        )
    with torch.no_grad():
        return model(**inputs).logits


@pytest.mark.parametrize("family", [name for name in tiny.TAGGING_FAMILIES if "image" not in name])
def test_merged_adapters_answer_as_they_did_beside_the_weights(family) -> None:
    model = tiny.model(family, "token-classification").eval()
    before = logits(model)
    names = list(model.state_dict())
    trained = choose_trained(model, "lora:3", seed=1)
    assert trained.code == "lora:3"
    torch.testing.assert_close(logits(model), before, rtol=0, atol=0)  # the change is zero at first
    with torch.no_grad():
        for parameter in trained.parameters.values():
            parameter.add_(
                0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
            )
    changed = logits(model)
    assert (changed - before).abs().max() > 0.1
    merge_adapters(model)
    torch.testing.assert_close(logits(model), changed, rtol=1e-4, atol=1e-4)
    assert list(model.state_dict()) == names
    restored = tiny.model(family, "token-classification", seed=5).eval()
    restored.load_state_dict(model.state_dict())
    assert torch.equal(logits(restored), logits(model))


def test_adapters_train_queries_values_and_the_head_only() -> None:
    model = tiny.model("layoutlm", "token-classification")
    trained = choose_trained(model, "lora:2")
    adapted = {
        name.rsplit(".", 3)[-3] for name in trained.parameters if not name.startswith("classifier")
    }
    assert adapted == {"query", "value"}
    assert {"classifier.weight", "classifier.bias"} < set(trained.parameters)
    assert all(
        own.requires_grad == (name in trained.parameters) for name, own in model.named_parameters()
    )
    assert trained.count == 2 * 2 * (2 * 64 + 64 * 2) + 64 * len(tiny.LABELS) + len(tiny.LABELS)
    assert trained.frozen == sum(own.numel() for own in model.parameters()) - trained.count


def test_adapters_learn_through_the_model() -> None:
    model = tiny.model("bert", "token-classification").eval()
    trained = choose_trained(model, "lora:2")
    loss = model(input_ids=torch.arange(5)[None]).logits.square().sum()
    gradients = torch.autograd.grad(loss, list(trained.parameters.values()))
    moving = {
        name for name, own in zip(trained.parameters, gradients, strict=True) if own.abs().sum() > 0
    }
    assert all("down" in name or name in moving for name in trained.parameters)


@pytest.mark.parametrize("trained", ["head", "full", "lora:4"])
@pytest.mark.parametrize("head", ["mlm", "token-classification"])
def test_embeddings_and_what_is_tied_to_them_stay_frozen_unless_asked_for(
    trained: str, head
) -> None:
    chosen = choose_trained(tiny.model("layoutlm", head), trained)
    assert not any(
        "embeddings.weight" in name or "decoder.weight" in name for name in chosen.parameters
    )
    with_them = choose_trained(tiny.model("layoutlm", head), trained, embeddings=True)
    assert any("word_embeddings.weight" in name for name in with_them.parameters)
    assert set(chosen.parameters) < set(with_them.parameters)


def test_the_head_is_what_lies_on_the_encoder() -> None:
    assert set(
        choose_trained(tiny.model("roberta", "token-classification"), "head").parameters
    ) == {
        "classifier.weight",
        "classifier.bias",
    }
    masked = set(choose_trained(tiny.model("layoutlm", "mlm"), "head").parameters)
    assert all(name.startswith("cls.") for name in masked)
    assert masked


def test_a_head_that_the_start_holds_is_left_to_the_adapters() -> None:
    names = {name for name, _ in tiny.model("layoutlm", "mlm").named_parameters()}
    held = choose_trained(tiny.model("layoutlm", "mlm"), "lora:2", held=names)
    assert not held.head
    assert all("query" in name or "value" in name for name in held.parameters)
    bare = {name for name in names if not name.startswith("cls.")}
    fresh = choose_trained(tiny.model("layoutlm", "mlm"), "lora:2", held=bare)
    assert fresh.head
    assert set(fresh.parameters) - set(held.parameters) == {
        name for name in names if name.startswith("cls.") and "decoder.weight" not in name
    }
    assert choose_trained(tiny.model("layoutlm", "mlm"), "head", held=names).head


def test_everything_is_trained_where_there_is_no_attention_to_adapt() -> None:
    trained = choose_trained(toy.Line(), "lora:16")
    assert (trained.code, set(trained.parameters)) == ("full", {"line.weight", "line.bias"})


def test_a_head_that_is_all_embeddings_is_refused() -> None:
    with pytest.raises(UsageError, match="tied to its embeddings"):
        choose_trained(toy.Line(), "head")


def test_a_rank_beyond_the_layer_is_the_layer_s() -> None:
    layer = LoraLinear(torch.nn.Linear(4, 6), 4, torch.Generator().manual_seed(0))
    assert layer.weight is layer.base.weight
    assert layer.bias is layer.base.bias
    model = tiny.model("bert", "token-classification")
    choose_trained(model, "lora:9999")
    assert model.bert.encoder.layer[0].attention.self.query.down.out_features == 64
