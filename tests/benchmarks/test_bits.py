"""The page on last bits has the table of its numbers."""

import json

import pytest
import torch

from benchmarks.performance import bits


def test_the_page_has_the_tables_of_its_numbers():
    text = bits.PAGE.read_text(encoding="utf-8")
    numbers = json.loads(bits.RESULT.read_text(encoding="utf-8"))
    for name, lines in bits.tables_of(numbers).items():
        assert f"<!-- {name} -->\n\n" + "\n".join(lines) + "\n" in text


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_an_answer_that_depends_on_its_batch_is_noticed():
    inputs = torch.arange(6.0).reshape(3, 2)
    assert bits.check_bits(lambda batch: 2 * batch, inputs, (1, 2)) == {
        "rows": True,
        "threads": True,
    }
    assert bits.check_bits(lambda batch: batch + len(batch), inputs, (1,)) == {
        "rows": False,
        "threads": True,
    }
    assert bits.check_bits(lambda batch: batch + torch.get_num_threads(), inputs, (1,)) == {
        "rows": True,
        "threads": False,
    }
