"""A taught refusal as a sign of membership."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from audit.extensions.countermeasures.effects import side_channel


def rng():
    return np.random.default_rng(7)


@given(said_m=st.lists(st.booleans(), min_size=4, max_size=30), said_h=st.lists(st.booleans(), min_size=4, max_size=30))
@settings(max_examples=30, deadline=None)
def test_the_side_channel_is_the_auc_of_scikit_learn(said_m, said_h):
    found = side_channel(
        said_m,
        [str(place) for place in range(len(said_m))],
        said_h,
        [str(place) for place in range(len(said_h))],
        rng(),
    )
    truth = [1] * len(said_m) + [0] * len(said_h)
    assert found.value == pytest.approx(roc_auc_score(truth, [*said_m, *said_h]))
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert (found.null, found.null_kind, found.name) == (0.5, "chance", "auc.not_present")


def test_a_side_channel_is_seen_and_its_absence_too():
    documents = [str(place) for place in range(100)]
    open_channel = side_channel([1] * 90 + [0] * 10, documents, [1] * 30 + [0] * 70, documents, rng())
    assert open_channel.value == pytest.approx(0.8)
    assert open_channel.low > 0.7
    closed = side_channel([1] * 100, documents, [1] * 100, documents, rng())
    assert closed.low < closed.value == 0.5 < closed.high
