"""An attack on a case without a journal: its trials, its outcomes as a journal returns them, and its result."""

import json
from types import SimpleNamespace

import numpy as np

from audit.engine.driver import drive
from audit.engine.interface import SILENT


def outcomes_of(attack, case, trials, width=16, stream=()):
    """Attempt the trials, `width` at a time, each with random numbers from the stream of its id."""

    def attempt(trial):
        """Run the attack on a trial, with randomness that follows from the trial's id."""
        return attack.attempt(case, trial, np.random.default_rng([*stream, *trial.id.encode()]))

    found = dict(drive(SimpleNamespace(attempt=attempt), trials, width))
    return json.loads(json.dumps([found[trial.id] for trial in trials], allow_nan=False))


def run(attack, case, width=16, seed=1, stream=()):
    """Attempt all trials and measure them."""
    trials = attack.trials(case)
    outcomes = outcomes_of(attack, case, trials, width, stream)
    return (
        trials,
        outcomes,
        attack.measure(case, trials, outcomes, np.random.default_rng(seed), SILENT),
    )


def measured(result, name):
    """Return the result's measurement of this name."""
    return next(item for item in result.measurements if item.name == name)


def counts(result):
    """Return the values of a result's counts, by name."""
    return {count.name: count.value for count in result.counts}


def diagnostics(result):
    """Return the values of a result's diagnostics, by name."""
    return {item.name: item.value for item in result.diagnostics}
