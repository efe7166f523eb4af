"""Check a model and a data set before anything is tried.

`inspect`, `plan`, `references` and `scan` refuse the same models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from audit.attacks import text_of
from audit.attacks.interface import Attack, nothing_to_try, why_inapplicable
from audit.cards import CorpusCard, Forgotten
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import (
    NO_COPIES,
    Copies,
    counts_left_out,
    find_copies,
    without_copies,
)
from audit.corpus.summary import card
from audit.defenses.interface import QueryDefense
from audit.engine.interface import Trial
from audit.errors import ManifestError, UsageError
from audit.files import table_beside
from audit.targets import opening
from audit.targets.answering.loading import is_answering
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, NumberFormat, in_format
from audit.targets.checkpoint.safety import method_of
from audit.targets.extractive import is_extractive
from audit.targets.interface import MaskedLoss, Target
from audit.workflows.defended import defended_case

TEXTS = table_beside(__file__, "checking.toml")


@dataclass(frozen=True)
class AuditedData:
    """A data set, and what an audit leaves out of it.

    Attributes:
        whole: the data set as it was loaded.
        corpus: the same without the documents that `copies` and `unread` leave out.
        copies: near copies between splits.
        unread: documents and questions that the model does not read.
        forgotten: counts of the documents that were to be forgotten; None where the audit is not
            about these.
    """

    whole: Corpus
    corpus: Corpus
    copies: Copies = NO_COPIES
    unread: opening.Unread = opening.NONE_UNREAD
    forgotten: Forgotten | None = None

    @classmethod
    def for_text(cls, whole: Corpus) -> AuditedData:
        """Leave near copies out of a data set whose text alone is audited."""
        copies = find_copies(whole)
        return cls(whole, without_copies(whole, copies), copies)

    @classmethod
    def for_model(cls, whole: Corpus, target: opening.Checkpoint) -> AuditedData:
        """Leave near copies out of a data set, and what the model does not read."""
        copies = find_copies(whole)
        unread = opening.find_unread(target, whole)
        corpus = opening.without_unread(without_copies(whole, copies), unread)
        return cls(whole, corpus, copies, unread)

    @property
    def left_out(self) -> frozenset[str]:
        """Return the ids of the documents that are left out."""
        return self.copies.left_out | self.unread.documents

    def card(self) -> CorpusCard:
        """Describe the audited documents for a record, and count those that are left out."""
        return replace(
            card(self.corpus),
            near_copies=counts_left_out(self.whole, self.copies.left_out),
            unread=counts_left_out(self.whole, self.unread.documents),
            unread_questions=opening.count_questions(self.whole, self.unread),
            forgotten=self.forgotten,
        )


@dataclass(frozen=True)
class Listing:
    """What attacks find to try of a case without references.

    Attributes:
        case: the case.
        attacks: the attacks that its model can be put to.
        trials: what each of these attacks finds to try, by its name.
    """

    case: Case
    attacks: tuple[Attack, ...]
    trials: Mapping[str, Sequence[Trial]]

    def trials_of(self, attack: Attack, case: Case) -> Sequence[Trial]:
        """Return all that an attack can try of a case, which may have references by now.

        They are listed again where the attack or the case may give others.
        """
        is_listed = attack in self.attacks and attack.name in self.trials
        if not is_listed or not self._is_of(case):
            return attack.trials(case)
        takes_references = bool(attack.needs or attack.uses)
        if takes_references and case.references != self.case.references:
            return attack.trials(case)
        return self.trials[attack.name]

    def _is_of(self, case: Case) -> bool:
        """Test whether a case is the listed one, whatever its references."""
        if case.target is not self.case.target or case.corpus is not self.case.corpus:
            return False
        return case.canary_loss == self.case.canary_loss


@dataclass(frozen=True)
class CheckedModel:
    """A model that a scan takes with a data set.

    Attributes:
        target: the model.
        data: the data set.
        listing: what attacks find to try of the model behind the countermeasure, and of the
            audited documents.
    """

    target: opening.Checkpoint
    data: AuditedData
    listing: Listing

    @property
    def case(self) -> Case:
        """Return what attacks are put to."""
        return self.listing.case

    @property
    def applicable(self) -> tuple[Attack, ...]:
        """Return the attacks that the model can be put to."""
        return self.listing.attacks

    @property
    def trials(self) -> Mapping[str, Sequence[Trial]]:
        """Return what each of these attacks finds to try, by its name."""
        return self.listing.trials

    @property
    def corpus(self) -> Corpus:
        """Return the audited documents."""
        return self.data.corpus


def check_model(
    folder: AnyFolder,
    whole: Corpus,
    attacks: Sequence[Attack],
    device: str = "cpu",
    batch_size: int | None = None,
    guard: QueryDefense | None = None,
) -> CheckedModel:
    """Load a model and refuse what no scan takes.

    Args:
        folder: folder of the model.
        whole: the data set as it was loaded.
        attacks: the attacks that may be run.
        device: "cpu", "cuda" or "mps".
        batch_size: batch size, see `ScanOptions`.
        guard: the countermeasure that the model is asked behind.

    Raises:
        TargetError: it cannot be loaded, or is for other documents or another task.
        ManifestError: the documents lack what it reads, or give no attack anything to try.
    """
    target = opening.target_of(folder, whole, device, batch_size, batch_size)
    opening.check(target, whole)
    data = AuditedData.for_model(whole, target)
    return CheckedModel(
        target, data, find_trials(attacks, defended_case(guard, target, data.corpus))
    )


def find_trials(attacks: Sequence[Attack], case: Case) -> Listing:
    """List what each attack that the model can be put to finds to try.

    Raises:
        ManifestError: the data set gives none of them anything to try.
    """
    applicable = tuple(attack for attack in attacks if why_inapplicable(attack, case) is None)
    trials: dict[str, Sequence[Trial]] = {attack.name: attack.trials(case) for attack in applicable}
    if applicable and not any(trials.values()):
        reasons = {attack.name: nothing_to_try(attack, case) for attack in applicable}
        problems = [f"{name}: {reason.why}" for name, reason in reasons.items()]
        raise ManifestError(problems, next(iter(reasons.values())).fix)
    return Listing(case, applicable, trials)


def open_target(
    model_dir: Path, corpus: Corpus, references: Mapping[str, Sequence[Path]]
) -> CheckpointFolder:
    """Open the folder of the audited model; an adapter's base may be among the references."""
    return opening.open_model(model_dir, corpus, next(iter(references.get("pretrained", ())), None))


def usable_references(attacks: Sequence[Attack], target: Target) -> set[str]:
    """List the references that these attacks need or take and that the target can be compared with.

    Attacks that can do without the public model take it beside a masked language model only, which
    alone can be asked the same.
    """
    references: set[str] = set()
    for attack in attacks:
        if target.card.is_model or not text_of(attack.name).needs_model:
            references.update(attack.needs, attack.uses)
    is_needed = any("auxiliary" in attack.needs for attack in attacks)
    if MaskedLoss not in target.answers and not is_needed:
        references.discard("auxiliary")
    return references


def doubt_draw(model: CheckpointFolder, corpus: Corpus) -> tuple[str, ...]:
    """Warn of weights that are older than the draw of membership.

    They cannot have been trained on it. The days of files are weak evidence, for copying changes
    them: the warning says so, and nothing is refused.
    """
    membership = corpus.manifest.membership
    written = model.weights_written
    if membership.drawn is None or written is None or str(written) >= membership.drawn:
        return ()
    return (
        TEXTS["before_draw"].format(
            day=membership.drawn, by=membership.drawn_by, model=model, written=written
        ),
    )


def hold_weights(folder: CheckpointFolder, dtype: str) -> CheckpointFolder:
    """Return the folder of a model that answers, to be loaded in a number format.

    Encoders keep float32 weights: attacks take their gradients, and compare losses that rounding
    would hide.

    Raises:
        UsageError: the weights are quantised.
    """
    if dtype == "auto" or not (is_answering(folder) or is_extractive(folder)):
        return folder
    if method_of(folder.config) is not None:
        raise UsageError(f"--dtype {dtype}: the weights of {folder} are quantised", "leave it out")
    return in_format(folder, cast("NumberFormat", dtype))
