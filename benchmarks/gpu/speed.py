"""The attack at the size of the paper's largest experiment, on random weights and invented pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from audit.attacks.reconstruction import Reconstruction
from audit.case import Case
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Trial
from audit.workflows.number_format import Preflight
from benchmarks.gpu.memory import peak_megabytes, reset_peak
from benchmarks.gpu.passes import paper_case
from benchmarks.gpu.work import Json, Result, Work
from benchmarks.papers import cdmi_speed

FIELDS = {False: 790, True: 4}
BLOCK = {False: 79, True: 1}
"""Fields of a step."""
CANDIDATES = {False: 128, True: 16}
ATTEMPTS = {1: 4, 8: 1}
"""Blocks attacked, by attempts a field: all of them with eight attempts take ten minutes on any
GPU."""
PREFLIGHT = 64
"""Decisions."""
GOAL = "goal: under 3 minutes and 0.65 of the matmul rate, on a device of an H100's class"


def measure_attack(work: Work) -> Result:
    """Compare number formats, then attack blocks of fields with one attempt and with eight."""
    case, target, dtype = paper_case(work, FIELDS[work.tiny])
    trials = cdmi_speed.trials_of(case, FIELDS[work.tiny])
    rounded = replace(case, target=target)
    rate = work.step(
        "rate", partial(cdmi_speed.matmul_rate, target, dtype, 0.2 if work.tiny else 3.0)
    )
    attack = {count: published(work, count) for count in ATTEMPTS}
    values: dict[str, Any] = {"dtype": dtype, "matmul FLOP/s": rate, "fields": len(trials)}
    values["preflight"] = work.step(
        "preflight", partial(preflight, case, attack[1], trials, work), 60.0
    )
    size = BLOCK[work.tiny]
    for count, n_blocks in ATTEMPTS.items():
        blocks = []
        for start in range(0, size * n_blocks, size):
            part = trials[start : start + size]
            blocks.append(
                work.step(
                    f"attempts-{count}-{start:03d}",
                    partial(block, rounded, attack[count], part),
                    60.0,
                )
            )
        values[f"attempts {count}"] = total(blocks, rate)
    return Result(values, lines(values))


def published(work: Work, n_attempts: int) -> cdmi_speed.Published:
    """The paper's method with so many attempts."""
    return cdmi_speed.Published(n_candidates=CANDIDATES[work.tiny], n_attempts=n_attempts)


def block(case: Case, attack: Reconstruction, trials: Sequence[Trial]) -> Json:
    """Some fields: seconds, what was asked, the work in it, peak memory, and the tokens of the first attempts."""
    target: Any = case.target
    cdmi_speed.product(case, attack, trials[:1])  # kernels are chosen on first use
    cdmi_speed.wait_for(target.card.device)
    reset_peak(target.card.device)
    outcomes, counting, seconds = cdmi_speed.product(case, attack, trials)
    return {
        "seconds": seconds,
        "fields": len(trials),
        "prefixes": counting.prefixes,
        "candidates": counting.candidates,
        "FLOP": cdmi_speed.flop(target, counting.lengths),
        "peak memory MB": peak_megabytes(target.card.device),
        "tokens": [outcomes[trial.id]["attack"][0]["tokens"] for trial in trials],
    }


def total(blocks: Sequence[dict[str, Any]], rate: float) -> dict[str, float]:
    """All blocks together."""
    summed = {
        name: sum(one[name] for one in blocks)
        for name in ("seconds", "fields", "prefixes", "candidates", "FLOP")
    }
    return {
        **summed,
        "share of the matmul rate": summed["FLOP"] / summed["seconds"] / rate,
        "peak memory MB": max(one["peak memory MB"] for one in blocks),
    }


def preflight(case: Case, attack: Reconstruction, trials: Sequence[Trial], work: Work) -> Json:
    """How many of the first decisions bfloat16 takes as float32 does.

    Weights are random, so losses are all alike.
    """
    exact: Any = case.target
    rounded = exact.rounded("bfloat16")

    class One:
        def attempt(self, trial: Trial) -> Attempt:
            return attack.attempt(case, trial, cdmi_speed.source_of(trial))

    alike = 0.0
    steps = 0
    for _, outcome in drive(Preflight(One(), exact, rounded), trials, 1):
        alike += sum(outcome.alike)
        steps += len(outcome.alike)
        if steps >= (8 if work.tiny else PREFLIGHT):
            break
    return {"alike": alike, "decisions": steps}


def lines(values: dict[str, Any]) -> list[str]:
    """Print seconds and shares."""
    text = [
        f"{values['fields']} fields, {values['dtype']}; the device's own matmul rate "
        f"{values['matmul FLOP/s'] / 1e12:.3g} TFLOP/s ({GOAL}).",
        "",
        "| attempts | fields attacked | seconds | seconds for all fields | prefixes | candidates/s | share of the "
        "matmul rate | peak MB |",
        "|---" * 8 + "|",
    ]
    for count in ATTEMPTS:
        found = values[f"attempts {count}"]
        text.append(
            f"| {count} | {found['fields']} | {found['seconds']:.1f} | "
            f"{found['seconds'] / found['fields'] * values['fields']:.0f} | {found['prefixes']:,} | "
            f"{found['candidates'] / found['seconds']:,.0f} | {found['share of the matmul rate']:.2f} | "
            f"{found['peak memory MB']:,.0f} |"
        )
    agreed = values["preflight"]
    text += [
        "",
        f"Preflight: bfloat16 takes {agreed['alike']} of {agreed['decisions']} decisions as float32 does. Weights are "
        "random here, so that no candidate stands out: trained models agree more often.",
    ]
    return text
