"""Coins and noise: their distributions, and that the operating system's cannot be drawn again."""

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, kstest

from audit.extensions.private import mechanism
from audit.extensions.private.mechanism import SeededRandom, SystemRandom

FALSE_ALARM = 1e-7
SOURCES = (SystemRandom(), SeededRandom(5))


@pytest.mark.parametrize("source", SOURCES, ids=["system", "seeded"])
def test_noise_is_standard_normal_and_independent(source) -> None:
    drawn = source.normal((100, 300))
    assert (drawn.shape, drawn.dtype) == ((100, 300), torch.float64)
    flat = drawn.numpy().ravel()
    assert kstest(flat, "norm").pvalue > FALSE_ALARM
    assert kstest((flat[1:] + flat[:-1])[::2] / np.sqrt(2), "norm").pvalue > FALSE_ALARM
    assert np.isfinite(flat).all()


@pytest.mark.parametrize("source", SOURCES, ids=["system", "seeded"])
@pytest.mark.parametrize("probability", [0.02, 0.5])
def test_coins_fall_true_as_often_as_asked(source, probability: float) -> None:
    drawn = source.coins(20_000, probability)
    assert (drawn.shape, drawn.dtype) == ((20_000,), bool)
    assert binomtest(int(drawn.sum()), 20_000, probability).pvalue > FALSE_ALARM
    assert source.coins(50, 1.0).all()
    assert not source.coins(50, 0.0).any()
    assert source.coins(0, 0.5).shape == (0,)


def test_noise_is_the_same_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism, "_CHUNK", 64)
    assert kstest(SystemRandom().normal((5000,)).numpy(), "norm").pvalue > FALSE_ALARM
    assert SystemRandom().normal(()).shape == ()


def test_only_a_seed_draws_the_same_again() -> None:
    state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    torch.manual_seed(0)
    np.random.seed(0)
    first = SystemRandom().normal((50,))
    torch.manual_seed(0)
    np.random.seed(0)
    assert not torch.equal(SystemRandom().normal((50,)), first)
    assert torch.equal(SeededRandom(1).normal((50,)), SeededRandom(1).normal((50,)))
    assert not torch.equal(SeededRandom(2).normal((50,)), SeededRandom(1).normal((50,)))
    torch.random.set_rng_state(state[0])
