"""Two scans side by side: what must be the same, what is said to differ, and the change of one number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from audit.cards import ReferenceCard
from audit.measurements import Estimate, Measurement
from audit.policy.identity import PREFIX
from audit.record import AuditRecord, Result
from audit.report.comparison import Effect
from audit.stats.paired import Difference, UnitScores, joined_difference, paired_difference
from audit.targets.utility import estimate

ABOUT_TEXT = "says what the documents themselves give away, whatever the model"
NOT_RESOLVED = "not resolved"


def effect_of(effect: Effect, scores: tuple[UnitScores | None, UnitScores | None], rng: np.random.Generator) -> Effect:
    """Fill in the difference, or why there is none.

    Args:
        effect: with the number before and after.
        scores: the values by unit behind it, before and after; None: there are none.
        rng: the source of randomness.
    """
    one, other = effect.before, effect.after
    if not (isinstance(one, Estimate) and isinstance(other, Estimate)):
        return replace(effect, note=_why(one, other))
    before, after = scores
    paired = None
    if before is not None and after is not None:
        paired = paired_difference(before, after, rng)
    return filled(effect, paired or joined_difference(one, other), one)


def filled(effect: Effect, found: Difference, before: Estimate) -> Effect:
    """The effect with this difference."""
    difference = estimate(f"{effect.metric}.change", found.interval, before.unit, 0.0, "chance")
    return replace(effect, difference=difference, p=found.p, paired=found.paired, note="")


def measurement(result: Result, metric: str) -> Measurement | None:
    """A number of an attack; None where its record lacks it."""
    return next((item for item in result.measurements if item.name == metric), None)


def completed(record: AuditRecord, attack: str) -> Result | None:
    """The result of an attack that ran to its end."""
    return record.completed.get(attack)


def why_missing(record: AuditRecord, attack: str) -> str:
    """Why an attack did not run to its end; empty where it did."""
    found = next((one for one in record.attacks if one.attack == attack), None)
    if found is not None:
        return found.why
    if attack not in record.battery:
        return f"docaudit {record.environment.docaudit} had no such attack"
    return "it was not asked for"


def _why(*sides: Measurement | None) -> str:
    reasons = dict.fromkeys(_reason(item) for item in sides if not isinstance(item, Estimate))
    return "; ".join(reasons)


def _reason(item: Measurement | None) -> str:
    return "not measured" if item is None else f"{NOT_RESOLVED}: {getattr(item, 'reason', '')}"


def differences(old: AuditRecord, new: AuditRecord) -> list[str]:
    """List what differs between two scans and must not: then their numbers are not compared."""
    first, second = _conditions(old), _conditions(new)
    pairs = [(f"{name} differs", one, second[name]) for name, one in first.items()]
    results = new.completed
    for result in old.attacks:
        if result.status == "completed" and result.attack in results:
            pairs += _parameters(result, results[result.attack], _same_version(old, new))
    return [f"{name}: OLD {one}, NEW {other}" for name, one, other in pairs if one != other]


def _conditions(record: AuditRecord) -> dict[str, str]:
    """Return what must not differ, whatever the attacks, by label."""
    bounds = record.bounds
    side = "" if bounds is None else f"{bounds.documents or 'all'} documents, {bounds.part:.0%} of each side"
    return {
        "what was audited": "a model" if record.target.is_model else "the text alone",
        "the data set": f"{record.corpus.name} (sha256 {record.corpus.sha256[:PREFIX]})",
        "the seed": str(record.seed),
        "the budget": f"{record.budget} ({record.share:.0%} of the trials)",
        "the bound on trials": side or "none",
    }


def _parameters(old: Result, new: Result, same_version: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the parameters of an attack in both scans; those that only another version has are left out."""
    # As JSON: a record that was read has lists where one that was just made has tuples.
    first, second = ({key: json.dumps(own) for key, own in one.parameters.items()} for one in (old, new))
    names = first.keys() | second.keys() if same_version else first.keys() & second.keys()
    for name in sorted(names):
        yield f"{old.attack}: the parameter {name} differs", first.get(name, "none"), second.get(name, "none")


def notes_on(old: AuditRecord, new: AuditRecord) -> Iterator[str]:
    """Yield what differs and does not forbid a comparison, and whether both are of one record or model."""
    if old == new:
        yield "OLD and NEW are the same record: nothing can be told of a change"
    elif old.target.is_model and old.target.sha256 == new.target.sha256:
        yield "OLD and NEW are of the same model (same sha256)"
    if not _same_version(old, new):
        versions = f"OLD {old.environment.docaudit}, NEW {new.environment.docaudit}"
        yield f"docaudit differs: {versions}; versions may measure differently"
    if reason := other_reference(old, new):
        yield f"{reason}: nothing is called better"
    one, other = (f"{record.environment.device} in {record.target.dtype}" for record in (old, new))
    if one != other:
        yield f"the device differs: OLD {one}, NEW {other}"


def other_reference(old: AuditRecord, new: AuditRecord) -> str:
    """Say that both scans rest on other references, so that either attacker may be the weaker; empty if they do not."""
    first, second = ({card.role: _identity(card) for card in record.references} for record in (old, new))
    roles = [role for role in dict.fromkeys([*first, *second]) if first.get(role) != second.get(role)]
    if not roles or not (first and second):
        return ""
    return f"the references differ ({', '.join(roles)}), so that either attacker may be the weaker"


def _identity(card: ReferenceCard) -> str:
    """Identify a reference by its weights, or by its recipe and data: a GPU does not repeat the bits of a training."""
    if card.source == "trained" and card.recipe is not None:
        return json.dumps([card.recipe, card.corpus], sort_keys=True)
    return card.card.sha256


def _same_version(old: AuditRecord, new: AuditRecord) -> bool:
    return old.environment.docaudit == new.environment.docaudit
