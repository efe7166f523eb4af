"""Secure aggregation: the server learns the sum, and nothing of a term."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from audit.errors import TrainingError
from audit.extensions.private.federated.aggregation import FixedPoint, masked, pair_secrets, ring_sum
from audit.extensions.private.federated.parties import MaskedUpdate

NAMES = ("north", "south", "east", "west")
CODE = FixedPoint(largest=100.0, n_terms=len(NAMES))


def updates(n_clients, seed=0, shapes=((2, 3), (7,))):
    rng = np.random.default_rng(seed)
    return [[rng.uniform(-99, 99, shape).astype(np.float32) for shape in shapes] for _ in range(n_clients)]


def sent(values, round=0):
    names = NAMES[: len(values)]
    secrets = pair_secrets(names)
    encoded = [[CODE.encode(array) for array in update] for update in values]
    return encoded, [masked(e, name, secrets[name], round) for e, name in zip(encoded, names, strict=True)]


@given(st.integers(1, 4), st.integers(0, 10**6), st.integers(0, 20))
def test_masks_cancel_exactly_on_the_integers(n_clients, seed, round):
    encoded, messages = sent(updates(n_clients, seed), round)
    for hidden, plain in zip(ring_sum(messages), ring_sum(encoded), strict=True):
        np.testing.assert_array_equal(hidden, plain)


@given(st.integers(2, 4), st.integers(0, 10**6))
def test_the_secure_sum_is_the_plain_sum_within_half_a_step_a_client(n_clients, seed):
    values = updates(n_clients, seed)
    _, messages = sent(values)
    for index, total in enumerate(ring_sum(messages)):
        plain = sum(update[index].astype(np.float64) for update in values)
        assert np.abs(CODE.decode(total) - plain).max() <= n_clients * CODE.step / 2


@given(st.floats(1e-6, 1e9), st.integers(1, 5000))
def test_the_modulus_is_above_the_number_of_terms_times_the_largest(largest, n_terms):
    code = FixedPoint(largest, n_terms)
    assert math.log2(code.step).is_integer()
    assert n_terms * (largest / code.step + 0.5) < 2**63
    ends = code.encode(np.array([largest, -largest, 0.0]))
    np.testing.assert_allclose(code.decode(ends), [largest, -largest, 0], atol=code.step)


@pytest.mark.parametrize("value", [100.5, -101.0, math.nan, math.inf])
def test_a_number_that_does_not_fit_is_refused_instead_of_wrapping_around(value):
    with pytest.raises(TrainingError, match="too large"):
        CODE.encode(np.array([1.0, value]))


def test_a_masked_message_is_uniform_whatever_it_hides():
    zeros = [[np.zeros(40_000, np.float32)]] * 2
    for message in sent(zeros)[1]:
        (elements,) = message
        for shift in (0, 24, 56):
            counts = np.bincount(((elements >> np.uint64(shift)) & np.uint64(0xFF)).astype(int), minlength=256)
            assert chisquare(counts).pvalue > 1e-6
        assert kstest(elements / 2.0**64, "uniform").pvalue > 1e-6


def test_a_masked_message_does_not_follow_its_update():
    ramp = np.linspace(-99, 99, 20_000, dtype=np.float32)
    _, messages = sent([[ramp], [ramp]])
    for (elements,) in messages:
        assert abs(np.corrcoef(ramp, elements.astype(np.float64))[0, 1]) < 0.04


def test_all_but_one_of_the_clients_together_do_not_open_that_ones_message():
    zeros = [[np.zeros(20_000, np.float32)]] * 4
    _, messages = sent(zeros)
    (three,) = ring_sum(messages[1:])
    assert kstest(three / 2.0**64, "uniform").pvalue > 1e-6


def test_every_pair_and_every_round_has_its_own_secret():
    drawn = [pair_secrets(NAMES) for _ in range(2)]
    assert all(secrets[a][b] == secrets[b][a] for secrets in drawn for a in NAMES for b in NAMES if a != b)
    assert len({secret for secrets in drawn for row in secrets.values() for secret in row.values()}) == 2 * 6


def test_the_same_secret_gives_another_mask_in_another_round_and_for_another_array():
    zeros = [np.zeros(8, np.uint64)] * 2
    secrets = {"south": bytes(32)}
    first, second = (masked(zeros, "north", secrets, round) for round in (0, 1))
    arrays = [*first, *second]
    assert len({array.tobytes() for array in arrays}) == 4


def test_a_lone_client_has_nobody_to_hide_behind():
    encoded, messages = sent(updates(1))
    np.testing.assert_array_equal(messages[0][0], encoded[0][0])


def test_numbers_that_are_not_of_the_ring_are_no_message():
    with pytest.raises(TypeError, match="modulo"):
        MaskedUpdate(0, "north", (np.zeros(3),))
