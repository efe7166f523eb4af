"""The head that transformers lacks: it is tied, it survives a round trip, and it learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from safetensors import safe_open

from audit.targets.checkpoint.loading import load_model
from audit.targets.encoders.models import BrosForMaskedLM


def page(n: int = 12) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {
        "input_ids": torch.randint(5, len(tiny.VOCABULARY), (2, n), generator=generator),
        "bbox": torch.rand(2, n, 4, generator=generator).sort(dim=-1).values,
    }


def is_tied(model: BrosForMaskedLM) -> bool:
    head = model.cls.predictions
    return (
        head.decoder.weight is model.bros.embeddings.word_embeddings.weight
        and head.decoder.bias is head.bias
        and model.get_output_embeddings() is head.decoder
    )


def test_weights_are_tied_and_survive_saving(tmp_path: Path) -> None:
    model = tiny.model("bros", "mlm").eval()
    assert is_tied(model)
    with torch.no_grad():
        model.cls.predictions.bias += torch.arange(len(tiny.VOCABULARY)) / 100
    model.save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as stream:
        names = set(stream.keys())
    assert "bros.embeddings.word_embeddings.weight" in names
    assert "cls.predictions.decoder.weight" not in names
    again, missing = load_model(tmp_path, BrosForMaskedLM)
    assert missing == []
    assert is_tied(again)
    with torch.inference_mode():
        torch.testing.assert_close(again.eval()(**page()).logits, model(**page()).logits, rtol=0, atol=0)


def test_the_loss_is_the_mean_cross_entropy_of_the_labelled_tokens() -> None:
    model = tiny.model("bros", "mlm").eval()
    inputs = page()
    labels = torch.full_like(inputs["input_ids"], -100)
    labels[0, 3], labels[1, 5] = 7, 8
    with torch.inference_mode():
        output = model(**inputs, labels=labels)
        log_p = torch.log_softmax(output.logits, dim=-1)
    assert float(output.loss) == pytest.approx(-float(log_p[0, 3, 7] + log_p[1, 5, 8]) / 2, rel=1e-5)
    assert model(**inputs).loss is None
