"""What must not differ between two scans that are compared, and what differs all the same."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from audit.cards import EXPORT_WORDS, ReferenceCard
from audit.policy.reading import PREFIX
from audit.record import AuditRecord, Result

OLD = "OLD"
"""The name of the earlier scan in sentences."""
NEW = "NEW"
"""The name of the later scan in sentences."""


class Condition(NamedTuple):
    """Something that must not differ, as both scans have it."""

    sentence: str
    old: str
    new: str


def differences(
    old: AuditRecord, new: AuditRecord, names: tuple[str, str] = (OLD, NEW)
) -> list[str]:
    """List what differs between two scans and must not: then their numbers are not compared.

    Args:
        old: record of the earlier scan.
        new: record of the later scan.
        names: names of both scans in the sentences.
    """
    earlier = _conditions(old)
    later = _conditions(new)
    conditions = [Condition(f"{name} differs", text, later[name]) for name, text in earlier.items()]
    for result in old.attacks:
        if result.status == "completed" and result.attack in new.completed:
            conditions += _parameters(result, new.completed[result.attack], same_version(old, new))
            if old.budget == new.budget:
                conditions.append(_attack_shares(result.attack, old, new))
    differing = [condition for condition in conditions if condition.old != condition.new]
    earlier_name, later_name = names
    return [
        f"{item.sentence}: {earlier_name} {item.old}, {later_name} {item.new}" for item in differing
    ]


def _conditions(record: AuditRecord) -> dict[str, str]:
    """Return what must not differ, whatever the attacks, by label."""
    bound = "none"
    if record.bounds is not None:
        documents = record.bounds.documents or "all"
        bound = f"{documents} documents, {record.bounds.part:.0%} of each side"
    audited = "the text alone"
    if record.target.is_model:
        audited = "a model"
    forgotten = "none"
    if record.corpus.forgotten:
        forgotten = record.corpus.forgotten.sha256
    return {
        "what was audited": audited,
        "the documents to be forgotten": forgotten,
        "the data set": f"{record.corpus.name} (sha256 {record.corpus.sha256[:PREFIX]})",
        "the seed": str(record.seed),
        "the budget": record.budget,
        "the bound on trials": bound,
    }


def _attack_shares(attack: str, old: AuditRecord, new: AuditRecord) -> Condition:
    """Return the shares of an attack's trials that one budget took in both scans."""
    sentence = f"{attack}: the share of its trials differs (--budget standard takes all)"
    return Condition(sentence, f"{old.share_of(attack):.0%}", f"{new.share_of(attack):.0%}")


def _parameters(old: Result, new: Result, same: bool) -> Iterator[Condition]:
    """Yield the parameters of an attack in both scans.

    Those that only another version has are left out.

    Args:
        old: result of the earlier scan.
        new: result of the later scan.
        same: whether both scans are of the same version.
    """
    earlier = _as_json(old)
    later = _as_json(new)
    names = earlier.keys() & later.keys()
    if same:
        names = earlier.keys() | later.keys()
    for name in sorted(names):
        sentence = f"{old.attack}: the parameter {name} differs"
        yield Condition(sentence, earlier.get(name, "none"), later.get(name, "none"))


def _as_json(result: Result) -> dict[str, str]:
    """Return parameters as JSON.

    A record that was read has lists where one that was just made has tuples.
    """
    return {name: json.dumps(value) for name, value in result.parameters.items()}


def notes_on(old: AuditRecord, new: AuditRecord) -> Iterator[str]:
    """Yield what differs and does not forbid a comparison.

    Also whether both scans are of one record or model.
    """
    if old == new:
        yield f"{OLD} and {NEW} are the same record: there is no change to measure"
    elif old.target.is_model and old.target.sha256 == new.target.sha256:
        yield f"{OLD} and {NEW} are of the same model (same sha256)"
    derived = new.derived_from
    if derived is not None and derived.model_sha256 == old.target.sha256:
        yield f"{NEW} is an export of {derived.subject}: {EXPORT_WORDS[derived.outcome]}"
    if not same_version(old, new):
        versions = f"{OLD} {old.environment.docaudit}, {NEW} {new.environment.docaudit}"
        yield f"docaudit differs: {versions}; versions may measure differently"
    references = other_reference(old, new)
    if references:
        yield f"{references}: nothing is called better"
    earlier = _device_and_format(old)
    later = _device_and_format(new)
    if earlier != later:
        yield f"the device differs: {OLD} {earlier}, {NEW} {later}"


def _device_and_format(record: AuditRecord) -> str:
    """Write device and number format of a scan: "cuda in float16"."""
    return f"{record.environment.device} in {record.target.dtype}"


def other_reference(old: AuditRecord, new: AuditRecord) -> str:
    """Say that both scans rest on other references, so that either attacker may be the weaker.

    Empty if they do not.
    """
    earlier = _references(old)
    later = _references(new)
    if not earlier or not later:
        return ""
    roles = [
        role for role in dict.fromkeys([*earlier, *later]) if earlier.get(role) != later.get(role)
    ]
    if not roles:
        return ""
    return f"the references differ ({', '.join(roles)}), so that either attacker may be the weaker"


def _references(record: AuditRecord) -> dict[str, str]:
    """Return the identity of each reference by role."""
    return {card.role: _identity(card) for card in record.references}


def _identity(card: ReferenceCard) -> str:
    """Identify a reference by its weights, or by its recipe and data.

    A GPU does not repeat the bits of a training.
    """
    if card.source == "trained" and card.recipe is not None:
        return json.dumps([card.recipe, card.corpus], sort_keys=True)
    return card.card.sha256


def same_version(old: AuditRecord, new: AuditRecord) -> bool:
    """Test whether the same version of docaudit wrote both records."""
    return old.environment.docaudit == new.environment.docaudit


def why_missing(record: AuditRecord, attack: str) -> str:
    """Explain why an attack did not complete; empty where it completed."""
    for result in record.attacks:
        if result.attack == attack:
            return result.why
    if attack not in record.battery:
        return f"docaudit {record.environment.docaudit} had no such attack"
    return "it was not asked for"


def both_reasons(old: str, new: str) -> str:
    """Join the reasons of both scans; one stands alone where they are the same."""
    if old == new:
        return old
    reasons = [f"{name}: {reason}" for name, reason in ((OLD, old), (NEW, new)) if reason]
    return "; ".join(reasons)
