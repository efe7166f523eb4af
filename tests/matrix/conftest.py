"""Attacks made small enough for four documents a side."""

from collections.abc import Iterator

import pytest

from audit.attacks import TEXTS
from audit.attacks.redaction import RedactionContext


@pytest.fixture(scope="module")
def few_pages(few_candidates: None) -> Iterator[None]:
    """Values that models propose themselves, on two pages: a quick scan would leave that out."""
    budgets = TEXTS["reconstruction"].budgets
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(budgets, "quick", {**budgets["quick"], "n_pages": 2})
        yield


@pytest.fixture(scope="module")
def few_providers() -> Iterator[None]:
    """Provider membership of any number of providers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.attacks.provider_membership.providers.min_providers", lambda corpus: 1)
        yield


@pytest.fixture(scope="module")
def few_folds() -> Iterator[None]:
    """The text around hidden values, read in two folds."""
    with pytest.MonkeyPatch.context() as patch:
        small = {"n_folds": 2}
        patch.setattr(RedactionContext, "preset", classmethod(lambda cls, budget: cls(**small)))
        yield
