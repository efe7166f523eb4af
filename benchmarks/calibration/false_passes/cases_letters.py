"""Constructions of letters and their taggers: finding 1, and clean models."""

from __future__ import annotations

import numpy as np

from audit.corpus.documents import Split
from benchmarks.calibration.false_passes.lab import Lab, construction
from benchmarks.calibration.false_passes.letters import POOLS
from benchmarks.calibration.false_passes.scans import Audit, Policy

ATTACKS = ("membership",)
EPOCHS = 6
SIDES: dict[Split, str] = {"member": "members", "heldout": "unseen", "public": "public"}


def _refitted(lab: Lab, reference: tuple[str, ...], policy: Policy) -> Audit:
    """Scan a tagger of both sides beside a tagger of these pools."""
    letters = lab.letters
    model = letters.train("L_refit", ("members", "unseen"), EPOCHS)
    strangers = letters.pools["strangers"]
    return Audit(
        "scan",
        model,
        letters.write("letters", {split: letters.pools[pool] for split, pool in SIDES.items()}),
        policy,
        {"baselines": letters.train("reference", reference, EPOCHS, seed=1)},
        ATTACKS,
        direct={
            "members against strangers": lab.letters_told_apart(
                model, letters.pools["members"], strangers
            ),
            "held-out against strangers": lab.letters_told_apart(
                model, letters.pools["unseen"], strangers
            ),
        },
    )


@construction(
    "tagger-refit",
    "1",
    "leaks",
    "tagger of both sides, an earlier refit as baseline; recognition-team",
)
def tagger_refit(lab: Lab) -> Audit:
    """L_refit beside L_refitB."""
    return _refitted(lab, ("members", "unseen"), lab.recognition_team())


@construction("tagger-refit-warn", "1", "leaks", 'the same with `undecided = "warn"`')
def tagger_refit_warn(lab: Lab) -> Audit:
    """The record of L_refit under another policy."""
    scanned = tagger_refit(lab)
    policy = lab.recognition_team("warn")
    return Audit(
        "gate", scanned.model, scanned.data, policy, direct=scanned.direct, record_of=scanned
    )


@construction("tagger-refit-honest", "1", "leaks", "the same, honest baseline; recognition-team")
def tagger_refit_honest(lab: Lab) -> Audit:
    """L_refit beside an honest baseline."""
    return _refitted(lab, ("more others",), lab.recognition_team())


def _clean_audit(lab: Lab, epochs: int, count: int) -> Audit:
    """Return a scan of a tagger that trained on neither its members nor held-out letters."""
    letters = lab.letters
    order = np.random.default_rng(count).permutation(POOLS["drawn"])
    drawn = [letters.pools["drawn"][place] for place in order[: 2 * count]]
    model = letters.train("L_clean", ("others",), epochs)
    return Audit(
        "scan",
        model,
        letters.write(
            f"letters-{count}",
            {"member": drawn[:count], "heldout": drawn[count:], "public": letters.pools["public"]},
        ),
        lab.recognition_team(),
        {"baselines": letters.train("reference", ("more others",), epochs, seed=1)},
        ATTACKS,
        direct={
            "members against held-out": lab.letters_told_apart(model, drawn[:count], drawn[count:])
        },
    )


def _register_clean(epochs: int, count: int) -> None:
    """Register a clean construction of a tagger of these epochs, `count` letters a side."""
    describe = f"tagger of {epochs} epochs, {count} a side; recognition-team"
    enter = construction(f"L_clean{epochs}-{count}", "", "clean", describe, count)
    enter(lambda lab: _clean_audit(lab, epochs, count))


for _epochs in (EPOCHS, 2 * EPOCHS):
    for _count in (100, 150, 300):
        _register_clean(_epochs, _count)
