"""Private training of a linear learner, held against the bound on epsilon from one run: never more, and not nothing."""

import numpy as np
import pytest
from scipy.stats import binom

from audit.extensions.private.options import noise_for
from benchmarks.calibration.dp_one_run import Setting, one_run


@pytest.mark.parametrize("n_runs", [30, 60, 100])
def test_one_run_shows_no_more_than_was_promised_and_a_fifth_of_it(n_runs: int) -> None:
    setting = Setting(4.0, canaries=600)
    noise = noise_for(setting.epsilon, setting.delta, setting.sample_rate, setting.steps)
    shown = np.array([one_run(setting, noise) for _ in range(n_runs)])
    # At 95 % confidence one run of twenty may; 1e-6: false alarms of this test.
    assert (shown > setting.epsilon).sum() <= binom.isf(1e-6, n_runs, 0.05)
    assert shown.mean() >= 0.2 * setting.epsilon


def test_one_run_shows_that_a_training_without_noise_is_not_private() -> None:
    assert one_run(Setting(1.0, canaries=600), 0.0) > 3.0
