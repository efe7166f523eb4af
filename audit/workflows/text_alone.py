"""The set-up of a scan without a model: what the documents' own text gives away."""

from __future__ import annotations

from typing import cast

from audit.attacks.battery import BATTERY
from audit.attacks.budget import SHARES
from audit.attacks.interface import Attack
from audit.attacks.parameters import read as read_parameters
from audit.case import Case
from audit.corpus.manifest import load as load_corpus
from audit.corpus.near_copies import find_copies, without_copies
from audit.engine.local import LOCAL
from audit.errors import UsageError
from audit.references.resolve import prepare_embedder
from audit.targets.interface import NONE_AUDITED, NoModel
from audit.targets.opening import Checkpoint, device_named
from audit.workflows.checking import find_trials
from audit.workflows.options import ScanOptions
from audit.workflows.setup import ScanSetup, choose_attacks, warn_of_parameters


def open_text_scan(options: ScanOptions) -> ScanSetup:
    """Load and check what an audit of the text alone needs; `options.model_dir` is not read.

    Raises:
        DocauditError: the scan cannot start; nothing was written.
    """
    given = read_parameters(options.attack_parameters) if options.attack_parameters is not None else None
    attacks = choose_attacks(options, given)
    refused = {
        "--engine": options.engine != LOCAL,
        "--defence": options.defense is not None,
        "--reference public": "public" in options.references,
        "--time": options.seconds is not None,
    }
    for name, wanted in refused.items():
        if wanted:
            raise UsageError(f"{name} says how a model is asked, and with --no-model there is none", "leave it out")
    whole = load_corpus(options.data_dir)
    copies = find_copies(whole)
    corpus = without_copies(whole, copies)
    # It answers nothing, so that nothing of a checkpoint is ever asked of it.
    target = cast("Checkpoint", NoModel(whole))
    if not find_trials(attacks, Case(target, corpus)):
        able = [attack.name for attack in attacks_on_text()]
        raise UsageError(f"{', '.join(options.only)}: {NONE_AUDITED}", f"without a model there is {', '.join(able)}")
    device = device_named(options.device)
    return ScanSetup(
        options,
        options.budget,
        SHARES[options.budget],
        attacks,
        corpus,
        target,
        prepare_embedder(corpus, options.references, device),
        (*copies.warnings, *warn_of_parameters(options.attack_parameters, given, corpus)),
        given.sha256 if given is not None else None,
        None,
        copies,
        whole,
    )


def attacks_on_text() -> list[type[Attack]]:
    """The attacks that need no model."""
    return [kind for kind in BATTERY if not kind.needs_model]
