"""Adapters over bases in half precision: what training added is not rounded away when it is merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adapters
import peft
import pytest
import tiny
import torch
from transformers import BertForTokenClassification

from audit.targets.checkpoint import weights
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.checkpoint.safety import quiet
from audit.targets.encoders.loading import load

FORMS: dict[str, Any] = {
    "LoRA": lambda: peft.LoraConfig(r=4, target_modules=adapters.TARGETS, task_type="TOKEN_CLS"),
    "DoRA": lambda: peft.LoraConfig(r=4, target_modules=adapters.TARGETS, task_type="TOKEN_CLS", use_dora=True),
    "LoHa": lambda: peft.LoHaConfig(r=4, target_modules=adapters.TARGETS, modules_to_save=["classifier"]),
}


@pytest.fixture
def halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base that is stored in bfloat16 and taken for a large one."""
    made = tiny.checkpoint(tmp_path / "float32", "bert", "token-classification")
    with quiet():
        model = BertForTokenClassification.from_pretrained(made, dtype=torch.bfloat16)
        model.save_pretrained(tmp_path / "base")
    for path in made.glob("*.json"):
        if not (tmp_path / "base" / path.name).exists():
            (tmp_path / "base" / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(weights, "LARGE", 1000)
    return tmp_path / "base"


def adapter_over(base: Path, folder: Path, form: str, size: float) -> Any:
    """An adapter that training moved so far; gives the model that PEFT wrapped, in float32."""

    def move(model: Any) -> None:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, values in model.named_parameters():
                if values.requires_grad and "classifier" not in name:
                    values.add_(size * torch.randn(values.shape, generator=generator))

    with quiet():
        model = BertForTokenClassification.from_pretrained(base, dtype=torch.float32)
    return adapters.adapted(model, folder, FORMS[form](), move)


@pytest.mark.parametrize("form", FORMS)
def test_a_small_change_of_a_base_in_bfloat16_is_kept(form: str, halved: Path, tmp_path: Path) -> None:
    wrapped = adapter_over(halved, tmp_path / "adapter", form, 2e-2 if form == "LoHa" else 2e-3)
    target = load(open_checkpoint(tmp_path / "adapter", halved))
    name = "bert.encoder.layer.0.attention.self.query.weight"
    own = target.model.get_parameter(name).detach()
    before = wrapped.base_model.model.get_parameter(name.replace("query.", "query.base_layer.")).detach().clone()
    with quiet():
        wanted = wrapped.merge_and_unload().get_parameter(name).detach() - before
    assert 0 < wanted.norm() < 0.01 * before.norm()
    assert (own.float() - before - wanted).norm() < 0.1 * wanted.norm()
    assert target.card.dtype == "float32"


def test_a_large_change_leaves_the_base_in_bfloat16(halved: Path, tmp_path: Path) -> None:
    adapter_over(halved, tmp_path / "adapter", "LoRA", 0.5)
    target = load(open_checkpoint(tmp_path / "adapter", halved))
    assert target.model.get_parameter("bert.encoder.layer.0.attention.self.query.weight").dtype == torch.bfloat16
