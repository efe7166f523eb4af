"""Private training of a linear learner, held against the bound on epsilon from one run of it.

A linear learner is the auditor's best case: every canary pulls a weight of its own, by twice the
norm that it is cut to, and a fair coin puts it in. The whole mechanism runs: coins and noise from
the operating system, gradients, clips, steps. What one run shows must be at most the epsilon that
the noise was made for, in 95 % of runs; how near it comes is the strength of the bound, for
Gaussian noise about as in epsilon_calibration.json. Without noise it is far above.

    # writes dp_one_run.json; about ten minutes on one core
    python -m benchmarks.calibration.dp_one_run
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.corpus.documents import Document
from audit.engine.interface import SILENT
from audit.extensions.private.gradients import gradient_of
from audit.extensions.private.mechanism import SystemRandom, run_mechanism
from audit.extensions.private.options import DpOptions, noise_for, settle
from audit.extensions.private.units import Batch, DrawnUnit, Learner, Parameters, Unit
from audit.stats.epsilon import epsilon_bound


@dataclass(frozen=True)
class Setting:
    """One kind of training.

    Attributes:
        epsilon: for which its noise is made, at `delta`.
        sample_rate, steps: of the mechanism.
        canaries: each in by a fair coin.
    """

    epsilon: float
    delta: float = 1e-5
    sample_rate: float = 1.0
    steps: int = 1
    canaries: int = 1000


SETTINGS = (
    Setting(1.0, canaries=10_000),
    Setting(4.0),
    Setting(8.0),
    Setting(4.0, sample_rate=0.5, steps=4, canaries=4000),
    Setting(8.0, sample_rate=0.25, steps=20),
)


class Linear(Learner):
    """A sample is the number of a weight; its loss is minus twice that weight."""

    model: torch.nn.Linear

    def __init__(self, n_weights: int) -> None:
        """Build a linear model of this many weights, all 0."""
        self.model = torch.nn.Linear(n_weights, 1, bias=False)
        torch.nn.init.zeros_(self.model.weight)
        self.device = "cpu"

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Any, ...]:
        """See `Learner.samples_of`; there are no documents."""
        raise NotImplementedError

    def alike(self, sample: Any) -> Hashable:
        """See `Learner.alike`."""
        return None

    def collate(self, samples: Sequence[Any]) -> Batch:
        """See `Learner.collate`."""
        return {
            "input": torch.nn.functional.one_hot(
                torch.tensor(samples), self.model.in_features
            ).float()
        }

    def losses(self, batch: Batch) -> torch.Tensor:
        """See `Learner.losses`."""
        losses: torch.Tensor = -2 * self.model(batch["input"])[:, 0]
        return losses

    def save(self, folder: Path, *, half: bool = False) -> None:
        """See `Learner.save`; nothing is kept."""
        raise NotImplementedError


class _NoLedger:
    """See `Ledger`: nobody kills a benchmark."""

    def __init__(self) -> None:
        """Start with no step spent."""
        self.spent = 0

    def restore(self, parameters: Parameters, optimizer: torch.optim.Optimizer | None) -> int:
        """Return 0, as nothing was saved."""
        return 0

    def spend(self) -> int:
        """Count one more step in memory; return its number, from 0."""
        self.spent += 1
        return self.spent - 1

    def keep(
        self, parameters: Parameters, optimizer: torch.optim.Optimizer | None, *, last: bool
    ) -> None:
        """Save nothing."""
        pass


def one_run(setting: Setting, noise_multiplier: float) -> float:
    """What one training shows of its epsilon, at least, at 95 % confidence."""
    n = setting.canaries
    rng = np.random.default_rng()
    coins = rng.random(n) < 0.5
    learner = Linear(n)
    parameters = dict(learner.model.named_parameters())
    options = DpOptions(
        epsilon=math.inf,
        steps=setting.steps,
        expected_units=setting.sample_rate * n,
        optimizer="sgd",
        learning_rate=1.0,
    )
    card = replace(settle(options, "document", n), noise_multiplier=noise_multiplier)
    units = [Unit(str(index), ()) for index in np.flatnonzero(coins)]
    ledger: Any = _NoLedger()
    run_mechanism(
        parameters,
        [units],
        _drawn,
        lambda unit: gradient_of(learner, parameters, unit, 1),
        card,
        SystemRandom(),
        ledger,
        SILENT,
    )
    found = epsilon_bound(learner.model.weight.detach().numpy()[0], coins, rng, delta=setting.delta)
    assert found is not None
    return found.low


def _drawn(unit: Unit, step: int) -> DrawnUnit:
    """Return the unit's only sample: its own number, with weight 1."""
    return DrawnUnit((int(unit.name),), (1.0,))


def main() -> None:
    """Train with every setting and write what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    found = []
    for setting in SETTINGS:
        noise = noise_for(setting.epsilon, setting.delta, setting.sample_rate, setting.steps)
        shown = np.array([one_run(setting, noise) for _ in range(options.runs)])
        without = one_run(setting, 0.0)
        result = {
            "setting": asdict(setting),
            "noise_multiplier": round(noise, 4),
            "runs": options.runs,
            "above_epsilon": int((shown > setting.epsilon).sum()),
            "mean": round(float(shown.mean()), 3),
            "quantiles_5_50_95": [
                round(float(value), 3) for value in np.quantile(shown, (0.05, 0.5, 0.95))
            ],
            "mean_share_of_epsilon": round(float(shown.mean() / setting.epsilon), 3),
            "without_noise": round(without, 3),
        }
        found.append(result)
        print(json.dumps(result), flush=True)
    written = {"taken": "two cores, 2026-11-23", "results": found}
    options.out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
