"""The attack at the size of the paper's largest experiment, on random weights and invented pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import cdmi_speed
import torch

from audit.attacks.reconstruction import Reconstruction
from audit.case import Case
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Trial
from audit.targets.encoders.target import EncoderTarget
from audit.workflows.number_format import Preflight
from benchmarks.gpu.memory import peak_megabytes, reset_peak
from benchmarks.gpu.passes import TINY_WAYS, WAYS, compiled, failure_of, paper_case
from benchmarks.gpu.work import Json, Result, Work

FIELDS = {False: 790, True: 4}
BLOCK = {False: 79, True: 2}
"""Fields of a step."""
CANDIDATES = {False: 128, True: 16}
ATTEMPTS = (1, 8)
PREFLIGHT = 64
"""Decisions."""
GOAL = "goal: under 3 minutes and 0.65 of the matmul rate, on a device of an H100's class"


def measure_attack(work: Work) -> Result:
    """Preflight, blocks of fields with one attempt and with eight, and one block through every compiled encoder."""
    case, target, dtype = paper_case(work, FIELDS[work.tiny])
    trials = cdmi_speed.trials_of(case, FIELDS[work.tiny])
    rounded = replace(case, target=target)
    rate = work.step("rate", partial(cdmi_speed.matmul_rate, target, dtype, 0.2 if work.tiny else 3.0))
    attack = {count: published(work, count) for count in ATTEMPTS}
    values: dict[str, Any] = {"dtype": dtype, "matmul FLOP/s": rate, "fields": len(trials)}
    values["preflight"] = work.step("preflight", partial(preflight, case, attack[1], trials, work), 60.0)
    size = BLOCK[work.tiny]
    firsts: list[dict[str, Any]] = []
    for count in ATTEMPTS:
        blocks = []
        for start in range(0, len(trials), size):
            part = trials[start : start + size]
            blocks.append(
                work.step(f"attempts-{count}-{start:03d}", partial(block, rounded, attack[count], part), 60.0)
            )
        values[f"attempts {count}"] = total(blocks, rate)
        firsts.append(blocks[0])
    ways = TINY_WAYS if work.tiny else WAYS
    part = trials[:size]
    values["encoders"] = {
        name: work.step(f"encoder-{name.split()[0]}", partial(through, rounded, attack[1], part, given), 200.0)
        for name, given in ways.items()
        if name != "compiled, tuned"
    }
    return Result(values, lines(values, firsts[0]))


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
    summed = {name: sum(one[name] for one in blocks) for name in ("seconds", "prefixes", "candidates", "FLOP")}
    return {
        **summed,
        "share of the matmul rate": summed["FLOP"] / summed["seconds"] / rate,
        "peak memory MB": max(one["peak memory MB"] for one in blocks),
    }


def preflight(case: Case, attack: Reconstruction, trials: Sequence[Trial], work: Work) -> Json:
    """How many of the first decisions bfloat16 takes as float32 does; weights are random, so losses are all alike."""
    exact: Any = case.target
    rounded = exact.rounded("bfloat16")

    class One:
        def attempt(self, trial: Trial) -> Attempt:
            return attack.attempt(case, trial, cdmi_speed.source_of(trial))

    alike, steps = 0.0, 0
    for _, outcome in drive(Preflight(One(), exact, rounded), trials, 1):
        alike, steps = alike + sum(outcome), steps + len(outcome)
        if steps >= (8 if work.tiny else PREFLIGHT):
            break
    return {"alike": alike, "decisions": steps}


def through(case: Case, attack: Reconstruction, trials: Sequence[Trial], given: dict[str, Any]) -> Json:
    """A block whose passes go through a compiled encoder."""
    target: Any = case.target
    if given.get("mode") == "reduce-overhead" and target.card.device != "cuda":
        return {"failure": "needs CUDA"}
    try:
        with replaced_encoder(target, given):
            cdmi_speed.product(case, attack, trials)  # compiles every bucket
            return block(case, attack, trials)
    except Exception as error:  # noqa: BLE001 (whatever compilers throw is the finding)
        return {"failure": failure_of(error)}


@contextmanager
def replaced_encoder(target: EncoderTarget, given: dict[str, Any]) -> Iterator[None]:
    """Within, the target's passes go through torch.compile."""
    torch.compiler.reset()
    own = target.forward._encoder
    target.forward._encoder = compiled(own, given)
    try:
        yield
    finally:
        target.forward._encoder = own


def lines(values: dict[str, Any], first: dict[str, Any]) -> list[str]:
    """Seconds and shares, and the first block through compiled encoders."""
    text = [
        f"{values['fields']} fields, {values['dtype']}; the device's own matmul rate "
        f"{values['matmul FLOP/s'] / 1e12:.3g} TFLOP/s ({GOAL}).",
        "",
        "| attempts | seconds | prefixes | candidates/s | share of the matmul rate | peak MB |",
        "|---" * 6 + "|",
    ]
    for count in ATTEMPTS:
        found = values[f"attempts {count}"]
        text.append(
            f"| {count} | {found['seconds']:.1f} | {found['prefixes']:,} | "
            f"{found['candidates'] / found['seconds']:,.0f} | {found['share of the matmul rate']:.2f} | "
            f"{found['peak memory MB']:,.0f} |"
        )
    agreed = values["preflight"]
    text += [
        "",
        f"Preflight: bfloat16 takes {agreed['alike']} of {agreed['decisions']} decisions as float32 does. Weights are "
        "random here, so that no candidate stands out: trained models agree more often.",
        "",
        f"The first {first['fields']} fields, one attempt, through other encoders:",
        "",
        "| encoder | seconds | times as fast | fields with the same tokens | peak MB |",
        "|---" * 5 + "|",
        f"| eager | {first['seconds']:.2f} | 1 | {first['fields']} | {first['peak memory MB']:,.0f} |",
    ]
    for name, found in values["encoders"].items():
        if "failure" in found:
            text.append(f"| {name} | failed: {found['failure'].replace('|', '/')} | | | |")
            continue
        same = sum(one == other for one, other in zip(found["tokens"], first["tokens"], strict=True))
        faster = first["seconds"] / found["seconds"]
        text.append(f"| {name} | {found['seconds']:.2f} | {faster:.2f} | {same} | {found['peak memory MB']:,.0f} |")
    return text
