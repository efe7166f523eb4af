"""The attacks of `canaries_snips.py` on one model, and how good the model is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from audit.arrays import Floats, Ints
from audit.attacks.canaries.pages import Inversion, completion_scorer, invert
from audit.attacks.canaries.search import losses_of_all
from audit.corpus.canaries.schema import PATTERNS
from audit.corpus.documents import Document
from audit.corpus.tagging import BIO
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Trial
from audit.extensions.papers.utterance_target import NluTarget
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.forward import frozen
from audit.targets.interface import BestIntent, CompletionLoss, TagProbabilities
from benchmarks.papers.canaries_snips_models import (
    PATTERN_NAMES,
    PREFIXES,
    Cell,
    completions,
    utterance,
)

SETTINGS = Inversion()
"""The paper's, with four starts near 0 in place of one."""


MOST_COMPLETIONS = 100_000
"""Completions up to which every one is scored; canaries of six words have a million and more."""


@dataclass(frozen=True)
class Secret:
    """A canary as a model reads it: the page, where the unknown words stand, what may stand there, what does."""

    page: Encoding
    positions: tuple[int, ...]
    candidates: Ints
    true: Ints


@dataclass(frozen=True)
class Attacks:
    """All attacks on one model, as work for the engine's driver: one trial a pattern."""

    target: NluTarget
    secrets: dict[str, Secret]
    number: int

    def attempt(self, trial: Trial) -> Attempt:
        """What each attack finds of one canary."""
        secret = self.secrets[trial.id]
        given = self.target, secret.page, secret.positions, secret.candidates
        rng = np.random.default_rng([self.number, PATTERN_NAMES.index(trial.id), 1])
        numbers, losses = yield from invert(*given, SETTINGS, rng)
        outcome = {
            "relaxed": _best(secret, numbers, losses),
            "one start": _best(secret, numbers[:1], losses[:1]),
        }
        if self.target.model.characters is not None:
            bare = Inversion(mix_characters=False)
            outcome["without characters"] = _best(secret, *(yield from invert(*given, bare, rng)))
        if len(secret.candidates) ** len(secret.positions) > MOST_COMPLETIONS:
            return outcome
        losses = yield from losses_of_all(
            completion_scorer(*given), len(secret.candidates), len(secret.positions)
        )
        shape = (len(secret.candidates),) * len(secret.positions)
        best = np.array(np.unravel_index(int(losses.argmin()), shape))
        own = losses[
            np.ravel_multi_index(tuple(np.searchsorted(secret.candidates, secret.true)), shape)
        ]
        outcome["exact"] = {
            "hdt": _hdt(secret.candidates[best], secret),
            "loss": float(losses.min()),
            "true_loss": float(own),
            "median_loss": float(np.median(losses)),
            "rank": int((losses <= own).sum()),
            "completions": len(losses),
        }
        return outcome


def attack(cell: Cell, length: int, target: NluTarget) -> dict[str, Any]:
    """What every attack finds of each canary, by pattern."""
    began = time.process_time()
    secrets = {
        name: _secret(target, name, words)
        for name, words in completions(cell.number, length).items()
    }
    work = Attacks(target, secrets, cell.number)
    found = dict(drive(work, [Trial(name, name) for name in PATTERN_NAMES], len(PATTERN_NAMES)))
    for place, name in enumerate(PATTERN_NAMES):
        rng = np.random.default_rng([cell.number, place, 2])
        found[name]["continuous"] = {
            "hdt": _hdt(continuous(target, secrets[name], rng), secrets[name])
        }
    return {"patterns": found, "seconds": round(time.process_time() - began, 2)}


def continuous(target: NluTarget, secret: Secret, rng: np.random.Generator) -> Ints:
    """The paper's trivial attack (section 3.1): free vectors, then the nearest candidate to each: (n_positions,) ids.

    Vectors start as large as the table's; steps, starts and choice among them as in the relaxed
    attack.
    """
    model = target.model
    page = secret.page
    n_starts = SETTINGS.n_restarts
    with torch.no_grad():
        table = model.input_table().detach()
    shown = table[torch.from_numpy(secret.candidates)]
    shape = (n_starts, len(secret.positions), table.shape[1])
    free = torch.from_numpy(
        rng.normal(0.0, float(table.std()), shape).astype(np.float32)
    ).requires_grad_()
    labels = torch.from_numpy(page.labels).expand(n_starts, -1)
    intents = torch.full((n_starts,), page.intent or 0)
    optimizer = torch.optim.Adam([free], SETTINGS.learning_rate)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, SETTINGS.decay)
    with frozen(model):
        for _ in range(SETTINGS.n_epochs):
            inputs = table[torch.from_numpy(page.ids)].repeat(n_starts, 1, 1)
            inputs[:, list(secret.positions)] = free
            optimizer.zero_grad()
            model(None, labels, intents, inputs).losses.sum().backward()
            optimizer.step()
            schedule.step()
    nearest = torch.cdist(free.detach(), shown.expand(n_starts, -1, -1)).argmin(dim=-1).numpy()
    (losses,) = target.ask([CompletionLoss(page, secret.positions, secret.candidates[nearest])])
    chosen: Ints = secret.candidates[nearest[int(losses.argmin())]]
    return chosen


def usefulness(target: NluTarget, documents: Sequence[Document]) -> dict[str, float]:
    """Micro F1 of slots (likeliest tag of each word) and share of intents right, on utterances never trained on."""
    pages = [
        page
        for page in map(target.encode, documents)
        if page is not None and page.labels is not None
    ]
    right = true = said = 0
    for page, table in zip(
        pages, target.ask([TagProbabilities(page) for page in pages]), strict=True
    ):
        assert page.labels is not None
        a, b = (
            BIO.spans([target.labels[tag] for tag in tags])
            for tags in (page.labels, table.argmax(axis=1))
        )
        right += len(a & b)
        true += len(a)
        said += len(b)
    named = np.array(target.ask([BestIntent(page) for page in pages])) == np.array(
        [page.intent for page in pages]
    )
    return {
        "slot_f1": 2 * right / (true + said),
        "intent_accuracy": float(named.mean()),
        "utterances": len(pages),
    }


def _secret(target: NluTarget, name: str, completion: Sequence[str]) -> Secret:
    page = target.encode(utterance(completion, name))
    assert page is not None
    positions = tuple(range(len(PREFIXES[name]), len(page.ids)))
    candidates = np.sort(target.vocabulary.ids_of(PATTERNS[name].candidates))
    return Secret(page, positions, candidates, page.ids[list(positions)])


def _best(secret: Secret, numbers: Ints, losses: Floats) -> dict[str, float]:
    """What the restart with the lowest loss found, of equal ones the first."""
    best = int(losses.argmin())
    return {"hdt": _hdt(secret.candidates[numbers[best]], secret), "loss": float(losses[best])}


def _hdt(tokens: Ints, secret: Secret) -> float:
    """Hamming distance per token: the share of positions that are wrong."""
    return float((tokens != secret.true).mean())
