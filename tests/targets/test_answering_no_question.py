"""Every family of models that answer can be asked nothing at all: the memorisation test of provider membership does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_answering_contract import FAMILIES, opened, view

from audit.targets.interface import Answer


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_answers_an_empty_question_as_it_does_among_others(family: str, tmp_path: Path) -> None:
    target = opened(FAMILIES[family].make(tmp_path / "model"), FAMILIES[family])
    pages = [view(0), replace(view(0), words=()), view(1)]
    alone = [target.ask([Answer(page, "")])[0] for page in pages]
    among = target.ask([Answer(page, text) for page in pages for text in ("", "What?")])[::2]
    assert [given.text for given in alone] == [given.text for given in among]
    assert [given.confidence for given in alone] == [given.confidence for given in among]
    assert all(0 <= given.confidence <= 1 for given in alone)
