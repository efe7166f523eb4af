"""A task that the owner states is held against the head of the model."""

from pathlib import Path

import pytest
from strange_models import safetensors

from audit.errors import TargetError
from audit.workflows.init import task_of


def tagger(folder: Path) -> Path:
    """A checkpoint of a tagger by its marks; it cannot be opened."""
    folder.mkdir()
    config = '{"architectures": ["BertForTokenClassification"], "model_type": "bert"}'
    (folder / "config.json").write_text(config)
    safetensors(folder / "model.safetensors")
    return folder


def test_a_task_that_the_head_cannot_do_is_refused_with_one_that_it_can(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="is one for token-classification") as refusal:
        task_of(tagger(tmp_path / "m"), "question-answering")
    assert refusal.value.hint.startswith("give --task token-classification")


def test_the_task_of_the_head_may_be_stated(tmp_path: Path) -> None:
    assert task_of(tagger(tmp_path / "m"), "token-classification").kind == "token-classification"
