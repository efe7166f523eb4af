"""The one check of a model with a data set: what it refuses, every command refuses; and warnings about the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from audit.attacks.interface import Attack, nothing_to_try, why_inapplicable
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import Copies, find_copies, without_copies
from audit.engine.interface import Trial
from audit.errors import ManifestError, UsageError
from audit.references.provenance import FILE_NAME, adapter_of
from audit.references.resolve import ReferencePlan
from audit.report.remedies import QueryDefense
from audit.targets.answering.loading import is_answering
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, NumberFormat, in_format
from audit.targets.checkpoint.safety import method_of
from audit.targets.extractive.target import is_extractive
from audit.targets.interface import Target
from audit.targets.opening import Checkpoint, check, target_of
from audit.targets.unread import Unread, find_unread, without_unread

_BEFORE_DRAW = (
    "membership was drawn by {by} on {day}, and the weights of {model} were last written on {written}: by the dates of "
    "its files, which copying changes, this model was trained before there were these members, and every number would "
    "rest on invented membership; name the documents that it was trained on with docaudit import --members FILE, or "
    "those it never saw with --heldout-from SRC2"
)


@dataclass(frozen=True)
class CheckedModel:
    """A model that a scan takes with a data set.

    Attributes:
        target: the checkpoint.
        corpus: without the documents that `copies` and `unread` leave out.
        copies: those between splits.
        unread: documents and questions that the model has no name or no answer for.
        applicable: the attacks that can be put to it.
        trials: what each of them finds to try, by its name.
    """

    target: Checkpoint
    corpus: Corpus
    copies: Copies
    unread: Unread
    applicable: tuple[Attack, ...]
    trials: Mapping[str, Sequence[Trial]]


def check_model(
    folder: AnyFolder,
    whole: Corpus,
    attacks: Sequence[Attack],
    device: str = "cpu",
    batch_size: int | None = None,
    guard: QueryDefense | None = None,
) -> CheckedModel:
    """Load a model and refuse what no scan takes: the one check of `docaudit inspect`, `plan`, `references` and `scan`.

    Args:
        folder: the checkpoint.
        whole: the data set.
        attacks: those that are asked for.
        device: of the model.
        batch_size: tokens of an encoder, samples of another model in one forward pass.
        guard: the countermeasure that it is asked behind.

    Raises:
        TargetError: it cannot be loaded, or is for other documents or another task.
        ManifestError: the documents lack what it reads, or give no attack anything to try.
    """
    target = target_of(folder, whole, device, batch_size, batch_size)
    check(target, whole)
    copies = find_copies(whole)
    unread = find_unread(target, whole)
    corpus = without_unread(without_copies(whole, copies), unread)
    trials = find_trials(attacks, Case(wrap_target(guard, target), corpus))
    applicable = tuple(attack for attack in attacks if attack.name in trials)
    return CheckedModel(target, corpus, copies, unread, applicable, trials)


def find_trials(attacks: Sequence[Attack], case: Case) -> dict[str, Sequence[Trial]]:
    """List what each attack that the model can be put to finds to try, by its name.

    Raises:
        ManifestError: the data set gives none of them anything to try.
    """
    applicable = [attack for attack in attacks if why_inapplicable(attack, case) is None]
    trials: dict[str, Sequence[Trial]] = {attack.name: attack.trials(case) for attack in applicable}
    if applicable and not any(trials.values()):
        reasons = {attack.name: nothing_to_try(attack, case) for attack in applicable}
        raise ManifestError(
            [f"{name}: {reason.why}" for name, reason in reasons.items()], next(iter(reasons.values())).fix
        )
    return trials


def wrap_target(defense: QueryDefense | None, target: Checkpoint) -> Target:
    """The target behind a countermeasure, when there is one."""
    return target if defense is None else defense.wrap(target)


def trial_counts(model: CheckedModel) -> list[tuple[str, str, int]]:
    """Count the trials that each attack finds in a corpus with a checkpoint's tokens, by stratum; run no model."""
    return [
        (name, stratum, count)
        for name, trials in model.trials.items()
        for stratum, count in sorted(Counter(trial.stratum for trial in trials).items())
    ]


def doubt_draw(model: CheckpointFolder, corpus: Corpus) -> tuple[str, ...]:
    """Warn of weights that are older than the draw of membership: they cannot have been trained on it.

    The days of files are weak evidence, for copying changes them: the warning says so, and nothing is refused.
    """
    membership = corpus.manifest.membership
    written = model.weights_written
    if membership.drawn is None or written is None or str(written) >= membership.drawn:
        return ()
    return (_BEFORE_DRAW.format(day=membership.drawn, by=membership.drawn_by, model=model, written=written),)


def hold_weights(folder: CheckpointFolder, dtype: str, *, on_workers: bool) -> CheckpointFolder:
    """Return the folder of a model that answers, to be loaded in the number format that was asked for.

    Encoders keep float32 weights: attacks take their gradients, and compare losses that rounding would hide.

    Raises:
        UsageError: the weights are quantised, or workers elsewhere would choose for themselves.
    """
    if dtype == "auto" or not (is_answering(folder) or is_extractive(folder)):
        return folder
    if on_workers:
        raise UsageError(f"--dtype {dtype}: workers elsewhere load models by themselves", "leave it out, or scan here")
    if method_of(folder.config) is not None:
        raise UsageError(f"--dtype {dtype}: the weights of {folder} are quantised", "leave it out")
    return in_format(folder, cast("NumberFormat", dtype))


def warn_of_recipes(prepared: ReferencePlan) -> tuple[str, ...]:
    """A line for each reference that was trained here in another way than the audited adapter."""
    if prepared.adapter is None:
        return ()
    others = [
        (reference.role, adapter_of(reference.folder))
        for reference in prepared.same_kind
        if (reference.folder / FILE_NAME).is_file()
    ]
    return tuple(
        f"reference {role} was trained {'in all its weights' if own is None else f'with another adapter ({own})'}, the "
        f"audited model with {prepared.adapter}: it remembers otherwise and is no fair yardstick; train it with "
        "--reference pretrained=ADAPTER_DIR, the folder of the audited adapter"
        for role, own in others
        if own != prepared.adapter
    )
