"""A data set and a model as a scan would find them, before any scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.attacks.battery import BATTERY
from audit.attacks.interface import why_inapplicable
from audit.corpus.documents import Corpus


@dataclass(frozen=True)
class InspectedModel:
    """A model that a scan takes.

    Attributes:
        architecture: family and head.
        inapplicable: by attack, why the model cannot be attacked this way.
        trials: attack, stratum and number of trials.
        warnings: those that a scan gives.
        lacking: for each reference that an attack cannot run without, what to do, a line each.
    """

    architecture: str
    inapplicable: Mapping[str, str]
    trials: tuple[tuple[str, str, int], ...]
    warnings: tuple[str, ...]
    lacking: tuple[str, ...]


def outlook_of_attacks(corpus: Corpus, model: InspectedModel | None = None) -> list[tuple[str, str]]:
    """Name every attack with what keeps it from this data set and model, or that it can be fed."""
    task = corpus.manifest.task.kind
    usual = {kind.name: kind.inapplicable_tasks.get(task) for kind in BATTERY}
    barred = usual if model is None else model.inapplicable
    found = []
    for attack in (kind.preset("standard") for kind in BATTERY):
        # References of a model may be given beside the manifest: what they lack is listed with it.
        unprovided = attack.unprovided(corpus) if model is None else None
        found.append((attack.name, barred.get(attack.name) or attack.lacks(corpus) or unprovided or "can be fed"))
    return found


def inspect_model(
    model_dir: Path, corpus: Corpus, data_dir: Path, given: Mapping[str, Sequence[Path]] | None = None
) -> InspectedModel:
    """Check a model as a scan does, and count what each attack finds to try.

    Args:
        model_dir: the checkpoint.
        corpus: the data set.
        data_dir: its folder.
        given: references by name, as a scan is given them.

    Raises:
        DocauditError: what a scan would raise.
    """
    # Loads torch, which an inspection without a model does without.
    from audit.case import Case
    from audit.targets.opening import open_model
    from audit.workflows.checking import check_model, doubt_draw, stated_guarantee, trial_counts
    from audit.workflows.plan.references import missing, needs_of

    given = given or {}
    folder = open_model(model_dir, corpus, next(iter(given.get("pretrained", ())), None))
    attacks = [kind.preset("standard") for kind in BATTERY]
    checked = check_model(folder, corpus, attacks)
    case = Case(checked.target, checked.corpus)
    reasons = {attack.name: why_inapplicable(attack, case) for attack in attacks}
    _, doubts = stated_guarantee(folder)
    return InspectedModel(
        checked.target.card.architecture,
        {name: reason for name, reason in reasons.items() if reason is not None},
        tuple(trial_counts(checked)),
        (*checked.copies.warnings, *checked.unread.warnings, *doubts, *doubt_draw(folder, corpus)),
        tuple(missing(needs_of(checked, data_dir, model_dir, given))),
    )
