"""Results of the canary attack, measured by the attack itself on made-up outcomes, and records around them."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import planted_canaries as planted
from example_answers import answering
from example_records import Case, judged

from audit.attacks import TEXTS
from audit.attacks.canaries import Canaries
from audit.attacks.canaries.measures import Outcome
from audit.corpus.canaries.schema import CanarySet
from audit.engine.interface import SILENT
from audit.policy import Limit, Policy
from audit.record import Result

LIMIT = Limit("canaries", "excess", "Planted secrets must not come out.", max=planted.LIMIT)


def canaries(leak: float = 0.8, n: int = 64, *, unasked: int = 0, repeat: int = 10) -> Result:
    """The attack's result on `n` canaries, of which a share `leak` of those put in ranks first."""
    drawn = planted.canary_set(n, 4, seed=3, repeat=repeat)
    outcomes = planted.outcomes_of(drawn, np.random.default_rng(1), leak)
    outcomes[:unasked] = [Outcome("split")] * unasked
    return completed(drawn, outcomes)


def completed(drawn: CanarySet, outcomes: list[Outcome]) -> Result:
    """What a scan would write down of these outcomes."""
    attack = Canaries.preset("standard")
    with tempfile.TemporaryDirectory() as folder:
        case = planted.case_of(Path(folder), drawn, planted.Knowing())
        trials = attack.trials(case)
        rng = np.random.default_rng(2)
        findings = attack.measure(case, trials, [one.as_json() for one in outcomes], rng, SILENT)
    kept = ("measurements", "counts", "diagnostics", "histograms", "ablations", "checks")
    found = {name: getattr(findings, name) for name in kept}
    return Result(
        attack.name, parameters=dataclasses.asdict(attack), power=TEXTS["canaries"].power, **found
    )


def held(*results: Result) -> Case:
    """A record of a canaried model, held against one limit."""
    audited = answering(*results, name="invoices with canaries")
    audited = dataclasses.replace(
        audited, battery=("reconstruction", "memorisation", "membership", "canaries")
    )
    return judged(
        audited, Policy(1, "canaries", (LIMIT,), description="A limit for models with canaries.")
    )
