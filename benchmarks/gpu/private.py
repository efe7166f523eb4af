"""The VT5 that reads, trained with a guarantee for whole providers, and attacked: beside tables A2 and A6."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from audit import record as records
from audit.errors import TargetError
from audit.extensions.private.train import train_private
from audit.measurements import Estimate
from audit.references.recipes import made_once
from audit.targets.checkpoint.folder import privacy_card
from benchmarks.gpu.learning import read
from benchmarks.gpu.reading import FINE_RATE, attack_of, shared_data
from benchmarks.gpu.work import Json, NotTestedError, Result, Work
from benchmarks.papers import provider_invoices, provider_invoices_dp
from benchmarks.papers.provider_invoices_report import METHODS

HEAD = ("training", "epsilon", "sigma", "held-out ANLS", *METHODS.values(), "user inference AUC")
NOTE = (
    "Ten rounds of one local pass, the paper's rates and largest norms, the noise that each epsilon takes by our "
    "accounting. Balanced accuracy in per cent at s = 5, 95 % intervals over providers, one training; the paper's are "
    "accuracy of answers (table A2) and plain accuracy of AZK (table A6)."
)
TINY_ROUNDS = 2
TINY_NORM = 0.3


def train_and_attack(work: Work, *, argument: tuple[str, float]) -> Result:
    """Train one model, which goes on from its ledger after a kill, then scan it."""
    corpus, _ = shared_data(work)
    run = provider_invoices_dp.Run(argument[0], "full", argument[1])
    model = work.folder / "model"
    result = work.folder / "model.json"

    def train() -> Json:
        names = sorted({document.provider for document in corpus.of("member") if document.provider})
        clients = provider_invoices_dp.write_clients(names, work.folder / "clients.toml")
        options = replace(run.options(len(names), clients), learning_rate=FINE_RATE)
        if work.tiny:
            # Everybody takes part: the coins are never seeded, and a model that nobody trained is
            # refused.
            options = replace(
                options,
                steps=TINY_ROUNDS,
                expected_units=float(len(names)),
                client_rate=1.0,
                max_norm=TINY_NORM,
            )
        start = corpus.root / "references" / "pretrained"
        trained = train_private(start, corpus, work.folder / "private", options, device=work.device)
        made_once(model, partial(shutil.copytree, trained, dirs_exist_ok=True))
        card = privacy_card(model)
        return {"dp": None if card is None else asdict(card)}

    training = work.step("train", train)
    anls = work.step("read", partial(read, model, corpus, work.device), 60.0)

    def audit() -> Json:
        try:
            provider_invoices.audit(
                model, corpus.root, work.folder / "report", result, work.device, attack_of(work)
            )
        except TargetError as error:
            raise NotTestedError(
                f"the model moved too little from its start, which is its reference: {error.hint}"
            ) from error
        return {}

    work.step("audit", audit)
    record = records.read(result)
    found = {
        name: provider_invoices_dp.found(record, f"balanced_accuracy.{name}.s5") for name in METHODS
    }
    return Result(
        {"training": training, "anls": anls, "attacks": json.loads(result.read_text())["attacks"]},
        [
            NOTE,
            "",
            *row(run, training["dp"], anls, found, provider_invoices_dp.found(record, "auc")),
        ],
    )


def row(
    run: provider_invoices_dp.Run,
    card: dict[str, Any] | None,
    anls: Json,
    found: dict[str, Estimate | None],
    auc: Estimate | None,
) -> list[str]:
    """One training beside the paper's."""
    accuracy, azk = provider_invoices_dp.PAPER[f"{run.where}-{run.epsilon:g}"]
    promised = "none" if card is None or card["epsilon"] is None else f"{card['epsilon']:.2f}"
    cells = [run.name, promised, "-" if card is None else f"{card['noise_multiplier']:.2f}"]
    cells += [f"{anls['anls']:.3f} [{anls['low']:.3f}, {anls['high']:.3f}]"]
    cells += [provider_invoices_dp.shown(found[name], 100) for name in METHODS]
    cells += [provider_invoices_dp.shown(auc), str(accuracy), str(azk)]
    head = (*HEAD, "paper: accuracy", "paper: AZK")
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", f"| {' | '.join(cells)} |"]
