"""The blind baseline of membership results.

Whether what an attack compares can be told apart without the model
(methods/checks.md#blind-baseline). The check has a seed of its own and looks at the documents in
the order of their ids, so it says the same of the same documents whatever the scan's seed; it
describes the documents that an attack compares, which a budget may have drawn.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from audit.arrays import Bools, Ints
from audit.attacks.budget import SEED as USUAL
from audit.attacks.budget import sample
from audit.attacks.text import SENTENCES, SHARED
from audit.corpus.documents import Assignment, Corpus, Document
from audit.corpus.features import describe
from audit.corpus.folding import fold
from audit.engine.interface import SILENT, Progress, Trial
from audit.measurements import (
    Bound,
    Check,
    Condition,
    Control,
    Diagnostic,
    Estimate,
    Measurement,
    Unresolved,
)
from audit.record import Result
from audit.stats.blind import ADVERSARY, MIN_UNITS, SIGNIFICANT, BlindCheck, blind_check
from audit.stats.estimates import estimate
from audit.stats.intervals import join_groups

Unit = Literal["document", "provider"]

NAME = "blind_auc"
"""The measurement; the diagnostics are `blind_p`, `blind_power` and `blind_auc.<block>`."""
ENOUGH_POWER = 0.8
"""Power for an AUC of 0.65 under which the blind check is too weak.

See methods/checks.md#blind-baseline."""
SEED = 5
"""Of folds, permutations and, beyond `MAX_UNITS`, of which units are described."""
MAX_UNITS = 1_000
"""Units a side that are described, drawn by lot.

Of receipts they find an AUC of 0.55 in 83 of 100 data sets. The regressions take seconds, opening
the images of A4 pages at 200 dpi two minutes for 2,000.
"""
MAX_DOCUMENTS = 3
"""Documents of a provider that are described, drawn by lot where there are more.

Their mean says how its documents look, more of them cost their time and say little more, and 2,000
providers stay within 6,000 pages.
"""
MAX_PAGES = 50
"""More documents than these whose ids differ in a number at the end are a series, not one
document's pages."""
RANDOM: dict[Unit, frozenset[Assignment]] = {
    "document": frozenset({"random", "by-provider"}),
    "provider": frozenset({"by-provider"}),
}
"""Assignments that were drawn by lot, by what is compared.

With these a check without power decides nothing, for the comparison rests on the lot. By provider,
providers are drawn, and of each the documents that were kept aside.
"""
ASSIGNED: Mapping[Assignment, str] = SHARED["unlike"]["assigned"]
ALIKE = "the documents do not differ in any tested feature"
"""Why there is nothing to find: then nothing was ruled out either."""
SIDES: Mapping[Unit, str] = SHARED["unlike"]["sides"]
BLOCKS: Mapping[str, str] = SHARED["unlike"]["blocks"]
"""What tells them apart, in words, by block of `corpus.describe`."""
WEIGHT = 4.0
"""Share of the blind check among the checks of a scan: it needs the most documents, and everything
rests on it."""
MAX_GAP = 0.10
"""How far the interval of a difference from a reference on held-out documents may reach from 0."""
REDRAW = "split the documents by lot, or keep similar ones of the same time aside, then scan again"
_PAGE = re.compile(r"(.+)[-_.]p?\d+")


@dataclass(frozen=True)
class Blind:
    """What came of a blind check.

    Attributes:
        estimate: the measurement `blind_auc`.
        diagnostics: `blind_p`, `blind_power`, and the AUC of each kind of features.
        checks: the test for a difference; empty where none could be made.
        confounded: why membership results decide nothing where the test has too little power and
            documents were not assigned by lot, in a sentence for `Result.confounded`; None
            otherwise.
        assigned: rule by which documents were assigned to the splits.
    """

    estimate: Measurement
    diagnostics: tuple[Diagnostic, ...]
    checks: tuple[Check, ...]
    confounded: str | None
    assigned: Assignment

    @property
    def by_lot(self) -> bool:
        """Test whether a lot chose the members, as far as the check can tell.

        It finds nothing that speaks against it.
        """
        return self.assigned == "random" and not self.told_apart

    @property
    def told_apart(self) -> bool:
        """Test whether the check alone finds a difference.

        The scan's verdict counts all of its checks.
        """
        return any(check.p_value <= SIGNIFICANT for check in self.checks)

    @property
    def in_doubt(self) -> bool:
        """Test whether the documents themselves may explain what an attack finds.

        Then it needs controls.
        """
        return self.confounded is not None or self.told_apart

    def beside(self, result: Result, areas: Iterable[str], shares: Iterable[str] = ()) -> Result:
        """Return an attack's result with this check, its diagnostics and its controls added."""
        return replace(
            result,
            measurements=(*result.measurements, self.estimate),
            diagnostics=(*result.diagnostics, *self.diagnostics),
            confounded=self.confounded,
            unvouched=self.confounded is not None,
            checks=(*self.checks, *result.checks),
            controls=(*result.controls, *blind_controls(self, areas, shares)),
        )


def by_document(
    corpus: Corpus,
    documents: Sequence[Document],
    member: npt.ArrayLike,
    progress: Progress = SILENT,
    providers: Sequence[str] | None = None,
) -> Blind:
    """Check whether both sides differ without the model; no check of a data set is made twice.

    Documents that the split kept together count as one: those with equal images, and pages of one
    source (ids that differ in a number at the end only), if no such group is divided. Where the
    data set was assigned by provider, documents are compared within providers, among which they
    were drawn.

    Args:
        corpus: data set that the documents are from.
        documents: documents that are compared, or by which the attacker knows providers.
        member: (n_documents,) bool, whether the document is a member, or its provider is in.
        progress: advanced for every document described.
        providers: (n_documents,) the provider of each, where providers are compared.

    Raises:
        ManifestError: an image is missing, damaged or too large.
        ValueError: a provider is both in and out.
    """
    unit: Unit = "document" if providers is None else "provider"
    names = providers or [document.id for document in documents]
    labels = np.asarray(member, bool)
    key = (unit, tuple(document.id for document in documents), tuple(names), labels.tobytes())
    return corpus.once(
        ("blind check", key), lambda: _examine(corpus, documents, names, labels, unit, progress)
    )


def by_split(corpus: Corpus, documents: Iterable[Document], progress: Progress = SILENT) -> Blind:
    """Check whether member and held-out documents, each taken once, differ without the model.

    Raises:
        ManifestError: an image is missing, damaged or too large.
    """
    distinct = [*{document.id: document for document in documents}.values()]
    return by_document(
        corpus, distinct, [document.split == "member" for document in distinct], progress
    )


def of_trials(
    corpus: Corpus, trials: Sequence[Trial], share: float, unit: str, progress: Progress = SILENT
) -> Blind:
    """Check the documents that a budget's trials are about.

    Args:
        corpus: data set that the documents are from.
        trials: about documents, or about providers, whose documents that were kept aside are asked
            about.
        share: share of the trials, which the budget takes.
        unit: "documents" or "providers".
        progress: advanced for every document described.

    Raises:
        ManifestError: an image is missing, damaged or too large.
    """
    strata = {trial.cluster: trial.stratum for trial in sample(trials, share, USUAL)}
    if unit == "documents":
        tried = [document for document in corpus.documents if document.id in strata]
        return by_split(corpus, tried, progress)
    owned: list[Document] = []
    providers: list[str] = []
    for document in corpus.of("heldout"):
        provider = fold(document.provider or "")
        if provider in strata:
            owned.append(document)
            providers.append(provider)
    member = [strata[provider] == "in" for provider in providers]
    return by_document(corpus, owned, member, progress, providers)


def _examine(
    corpus: Corpus,
    documents: Sequence[Document],
    names: Sequence[str],
    labels: Bools,
    unit: Unit,
    progress: Progress,
) -> Blind:
    """Draw some of the documents, describe them, and check whether both sides differ.

    Args:
        corpus: data set that the documents are from.
        documents: documents that are compared.
        names: the unit of each document.
        labels: (n_documents,) whether each is a member, or its provider is in.
        unit: what is a member or not.
        progress: advanced for every document described.
    """
    rng = np.random.default_rng(SEED)
    chosen = _drawn(documents, names, labels, rng)
    described = [documents[index] for index in chosen]
    labels = labels[chosen]
    units = _numbered([names[index] for index in chosen])
    assigned = corpus.manifest.membership.assigned
    sides = [len(np.unique(units[labels == side])) for side in (True, False)]
    if min(sides) < MIN_UNITS:
        return _conclude(None, min(sides), assigned, unit)
    progress.stage("blind check: documents", len(described))
    description = describe(corpus, described, progress.advance)
    strata = None
    if unit == "document":
        units = _kept_together(described, labels, description.same_image)
        if assigned == "by-provider":
            # Each row takes the stratum of its unit's first row, so that strata divide no unit.
            _, first, index = np.unique(units, return_index=True, return_inverse=True)
            providers = _numbered([fold(document.provider or "") for document in described])
            strata = providers[first][index]
    check = blind_check(description.blocks, labels, units, rng, strata=strata)
    return _conclude(check, min(sides), assigned, unit)


def _drawn(
    documents: Sequence[Document], names: Sequence[str], member: Bools, rng: np.random.Generator
) -> Ints:
    """Draw documents to describe, in the order of their ids.

    They are at most `MAX_UNITS` units a side, and `MAX_DOCUMENTS` of each.
    """
    owned: dict[bool, dict[str, list[int]]] = {True: defaultdict(list), False: defaultdict(list)}
    for index in sorted(range(len(documents)), key=lambda index: documents[index].id):
        owned[bool(member[index])][names[index]].append(index)
    chosen: list[int] = []
    for side in owned.values():
        units = [side[name] for name in sorted(side)]
        for number in rng.permutation(len(units))[:MAX_UNITS]:
            rows = units[number]
            chosen += [rows[index] for index in rng.permutation(len(rows))[:MAX_DOCUMENTS]]
    return np.array(sorted(chosen, key=lambda index: documents[index].id), np.int64)


def _kept_together(documents: Sequence[Document], member: Bools, same_image: Ints) -> Ints:
    """Number the unit of each document, (n_documents,); pages of one source may share a unit.

    A group that the assignment tore nowhere apart is one unit.
    """
    together: list[list[str]] = []
    for groups in (_groups(same_image), _pages(documents)):
        if all(len(np.unique(member[group])) == 1 for group in groups):
            together += [[*map(str, group)] for group in groups]
    units: Ints = np.arange(len(documents))
    for unit, group in enumerate(join_groups(together)):
        units[[*map(int, group)]] = len(documents) + unit
    enough = all(len(np.unique(units[member == side])) >= MIN_UNITS for side in (True, False))
    return units if enough else np.arange(len(documents))


def _groups(numbers: Ints) -> list[list[int]]:
    """Return the indices of equal numbers, one list for each distinct number."""
    return [np.flatnonzero(numbers == number).tolist() for number in np.unique(numbers)]


def _pages(documents: Sequence[Document]) -> list[list[int]]:
    """Group the indices of documents that look like pages of one source.

    Importers name them so: `x_1`, `x_2`.
    """
    sources: dict[str, list[int]] = defaultdict(list)
    for index, document in enumerate(documents):
        page = _PAGE.fullmatch(document.id)
        if page is not None:
            sources[page.group(1)].append(index)
    return [group for group in sources.values() if len(group) <= MAX_PAGES]


def _numbered(names: Sequence[str]) -> Ints:
    """Replace each name by its place among the sorted distinct names: (n_names,)."""
    return np.unique(np.asarray(names, str), return_inverse=True)[1].astype(np.int64)


def _conclude(check: BlindCheck | None, smaller: int, assigned: Assignment, unit: Unit) -> Blind:
    """Conclude from a check, or from None for want of units.

    A weak one confounds what no lot assigned; then the conclusion says why.
    """
    if check is None:
        few = f"too few {unit}s of a side for a check without the model"
        meaning, confounded = _judge_power(0.0, assigned, unit, alike=False)
        power = Diagnostic("blind_power", 0.0, meaning)
        return Blind(Unresolved(NAME, few, smaller, MIN_UNITS), (power,), (), confounded, assigned)
    alike = not check.by_block
    meaning, confounded = _judge_power(check.power, assigned, unit, alike=alike)
    power = Diagnostic("blind_power", check.power, meaning)
    if alike:
        return Blind(Unresolved(NAME, ALIKE, check.auc.n), (power,), (), confounded, assigned)
    shuffled = (
        f"share of {check.n_permutations} shuffled assignments of {unit}s in which {NAME}"
        " is as large"
    )
    by_block = [
        Diagnostic(f"{NAME}.{name}", value, f"the AUC without the model {BLOCKS[name]}")
        for name, value in check.by_block.items()
    ]
    best = max(check.by_block, key=lambda name: check.by_block[name])
    told_apart = SENTENCES["blind_apart"].format(
        auc=check.auc, p=check.p_value, sides=SIDES[unit], block=BLOCKS[best]
    )
    return Blind(
        estimate(NAME, check.auc, f"{unit}s", check.chance, "chance"),
        (Diagnostic("blind_p", check.p_value, shuffled), power, *by_block),
        (Check("blind", check.p_value, "confounded", told_apart, REDRAW, weight=WEIGHT),),
        confounded,
        assigned,
    )


def _judge_power(
    power: float, assigned: Assignment, unit: Unit, *, alike: bool
) -> tuple[str, str | None]:
    """Return what the power of a check means, and why a weak one confounds; None where it does not.

    Args:
        power: power of the check, 0 without one.
        assigned: rule by which the data set was assigned.
        unit: what is a member or not.
        alike: whether a check was made, and the documents are all alike.
    """
    meaning = SENTENCES["blind_power"].format(adversary=ADVERSARY, significant=SIGNIFICANT)
    if power >= ENOUGH_POWER:
        return meaning, None
    why = ALIKE
    if not alike:
        why = SENTENCES["blind_weak"].format(
            unit=unit, adversary=ADVERSARY, power=100 * power, enough=100 * ENOUGH_POWER
        )
    if assigned in RANDOM[unit]:
        return meaning + SENTENCES["blind_lot"].format(why=why, unit=unit), None
    confounded = SENTENCES["blind_confounded"].format(
        why=why, sides=SIDES[unit], how=ASSIGNED[assigned]
    )
    return meaning, confounded


def blind_controls(
    blind: Blind, areas: Iterable[str], shares: Iterable[str] = ()
) -> tuple[Control, ...]:
    """Bound what the documents explain by the blind check.

    Empty where nothing is in doubt, or no check was made.

    Whoever ranks units with an area A finds no share, and no mean of values in [0, 1], that differs
    by more than 2 A - 1 between the sides: with a concave ROC curve Youden's index is at most that.

    Args:
        blind: the check of the documents that are compared.
        areas: measurements with a chance of 0.5: areas, balanced accuracies.
        shares: differences between the two sides.
    """
    if not blind.in_doubt or not isinstance(blind.estimate, Estimate):
        return ()
    kinds = ((tuple(areas), 1.0), (tuple(shares), 2.0))
    return tuple(
        Control("blind", names, _centred(blind.estimate, 0.5, scale))
        for names, scale in kinds
        if names
    )


def reference_control(
    measurements: Sequence[str], measured: Measurement, condition: str = ""
) -> tuple[Control, ...]:
    """Bound what the documents explain by a model that saw neither side.

    Empty where it could not be measured.

    Args:
        measurements: names of the target's measurements.
        measured: the same of the reference.
        condition: condition, see `Control`.
    """
    if not isinstance(measured, Estimate):
        return ()
    bounds = _centred(measured, 0.5 if measured.is_area else 0.0, 1.0)
    return (Control("reference", tuple(measurements), bounds, condition),)


def heldout_condition(name: str, gaps: Iterable[Estimate], attack: str) -> Condition:
    """Say whether the target does as much with held-out documents as a reference.

    That is no more, and no less, as far as it is shown. It only stands in for other conditions, and
    lets `reference_control` serve.

    Args:
        name: name of the condition.
        gaps: gaps on held-out documents, the target's number less the reference's, by every method.
        attack: attack in words, for the reason.
    """
    widest = max(gaps, key=lambda gap: max(abs(gap.low), abs(gap.high)), default=None)
    if widest is None:
        return Condition(
            name, "unmeasured", reason=f"{attack} could not be compared on unseen documents"
        )
    reason = (
        f"{attack} differs by {widest.value:.3f} [{widest.low:.3f}, {widest.high:.3f}]"
        " on unseen documents"
    )
    if max(abs(widest.low), abs(widest.high)) > MAX_GAP:
        return Condition(name, "unmet", reason=reason)
    return Condition(name, "met", reason=reason)


def _centred(measured: Estimate, null: float, scale: float) -> tuple[Bound, ...]:
    """Return the bounds of an estimate with `null` subtracted, times `scale`."""
    return tuple(
        Bound(bound.alpha, scale * (bound.lower - null), scale * (bound.upper - null))
        for bound in measured.bounds
    )
