"""Answers of a model as wide as BERT-base, which depend neither on the batch nor on the threads."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from test_encoders_contract import opened, own_tokens, pages_of

from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import FillMask, Query, TrainingLoss

WIDE = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 1,
}
THREADS = (1, 2, 4)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def wide(folder: Path, task: str) -> EncoderTarget:
    tiny.checkpoint(folder, "layoutlm", task)
    narrow = tiny.model("layoutlm", task)
    config = narrow.config.__class__(**{**narrow.config.to_dict(), **WIDE})
    torch.manual_seed(0)
    type(narrow)(config).save_pretrained(folder)
    return opened(folder)


def values_of(target: EncoderTarget, queries: list[Query]) -> list[bytes]:
    answers = target.ask(queries)
    return [np.asarray(getattr(answer, "logits", answer)).tobytes() for answer in answers]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("task", ["token-classification", "mlm"])
def test_an_answer_of_a_wide_model_is_the_same_alone_and_among_others(task, tmp_path):
    target = wide(tmp_path / task, task)
    tokens = own_tokens(target)
    queries: list[Query] = []
    for page, position in pages_of(target)[4:]:
        if task == "mlm":
            queries.append(FillMask(page.masked([position]), position, 9))
        else:
            queries.append(TrainingLoss(page, position, tokens[:7]))
    torch.set_num_threads(1)
    expected = values_of(target, queries)
    for count in THREADS:
        torch.set_num_threads(count)
        assert values_of(target, queries) == expected
        alone = [values_of(target, [query])[0] for query in queries]
        assert alone == expected
