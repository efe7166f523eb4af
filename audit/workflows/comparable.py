"""Whether two scans can be compared: what must be the same, and what may differ and is said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from audit.cards import ReferenceCard
from audit.policy.identity import PREFIX
from audit.record import AuditRecord, Completed


def conditions(record: AuditRecord) -> dict[str, object]:
    """What must not differ, whatever the attacks, by label."""
    return {
        "the data set": record.corpus.sha256,
        "the seed": record.seed,
        "the budget": (record.budget, record.share),
    }


def differences(old: AuditRecord, new: AuditRecord) -> list[str]:
    """List all that differs between two scans and must not: then their numbers are not compared."""
    first, second = conditions(old), conditions(new)
    problems = [
        f"{label} differs: OLD {_shown(label, old)}, NEW {_shown(label, new)}"
        for label, own in first.items()
        if own != second[label]
    ]
    if old.target.is_model != new.target.is_model:
        problems.append("what was audited differs: one is of a model, the other of the text alone")
    if _bounds(old) != _bounds(new):
        problems.append(f"the bounds on trials differ: OLD {_told(old)}, NEW {_told(new)}")
    results = {result.attack: result for result in new.attacks if isinstance(result, Completed)}
    for result in old.attacks:
        if isinstance(result, Completed) and result.attack in results:
            problems += _of_parameters(result, results[result.attack], _same_version(old, new))
    return problems


def notes_on(old: AuditRecord, new: AuditRecord) -> Iterator[str]:
    """Say what differs all the same, and what does not."""
    if old == new:
        yield "OLD and NEW are the same record: nothing can be told of a change"
    elif old.target.is_model and old.target.sha256 == new.target.sha256:
        yield "OLD and NEW are of the same model (same sha256)"
    if not _same_version(old, new):
        yield (
            f"docaudit differs: OLD {old.environment.docaudit}, NEW {new.environment.docaudit}; versions may measure "
            "differently"
        )
        for result in new.attacks:
            yield from _new_parameters(old, result) if isinstance(result, Completed) else ()
    if (reason := other_reference(old, new)) != "":
        yield f"{reason}: nothing is called better"
    for label, one, other in (
        ("commands that made the model", list(old.derived_by), list(new.derived_by)),
        ("the device", _device(old), _device(new)),
        ("near copies left out", old.corpus.near_copies, new.corpus.near_copies),
        ("documents left out because the model cannot read them", old.corpus.unread, new.corpus.unread),
    ):
        if one != other:
            yield f"{label} differ: OLD {_plain(one)}, NEW {_plain(other)}".replace("device differ:", "device differs:")


def other_reference(old: AuditRecord, new: AuditRecord) -> str:
    """That both scans rest on other references, so that either attacker may be the weaker; empty where they do not."""
    first, second = ({card.role: _reference(card) for card in record.references} for record in (old, new))
    roles = [role for role in dict.fromkeys([*first, *second]) if first.get(role) != second.get(role)]
    if not roles or not (first and second):
        return ""
    named = ", ".join(roles)
    return f"the references differ ({named}), so that either attacker may be the weaker"


def _reference(card: ReferenceCard) -> str:
    """What a reference is: its weights, or how docaudit trained it, whose bits a GPU does not repeat."""
    if card.source == "trained" and card.recipe is not None:
        return json.dumps([card.recipe, card.corpus], sort_keys=True)
    return card.card.sha256


def _same_version(old: AuditRecord, new: AuditRecord) -> bool:
    return old.environment.docaudit == new.environment.docaudit


def _shown(label: str, record: AuditRecord) -> str:
    return {
        "the data set": f"{record.corpus.name} (sha256 {record.corpus.sha256[:PREFIX]})",
        "the seed": str(record.seed),
        "the budget": f"{record.budget} ({record.share:.0%} of the trials)",
    }[label]


def _bounds(record: AuditRecord) -> Any:
    """What bounded the trials, without the time that was meant to be enough for them."""
    if record.bounds is None:
        return None
    own = asdict(record.bounds)
    own.pop("seconds")
    return own


def _told(record: AuditRecord) -> str:
    bounds = record.bounds
    if bounds is None:
        return "none"
    tried = ", ".join(f"{own.attack} {own.tried} of {own.planned}" for own in bounds.trials)
    return f"{bounds.documents or 'all'} documents, {bounds.part:.0%} of each side; tried {tried or 'none'}"


def _of_parameters(old: Completed, new: Completed, same_version: bool) -> Iterator[str]:
    """The parameters of an attack that differ; those that one version does not know are said elsewhere."""
    first, second = _json(old.parameters), _json(new.parameters)
    names = first.keys() | second.keys() if same_version else first.keys() & second.keys()
    for name in sorted(names):
        if name not in first or name not in second or first[name] != second[name]:
            one, other = (_plain(own[name]) if name in own else "none" for own in (first, second))
            yield f"{old.attack}: the parameter {name} differs: OLD {one}, NEW {other}"


def _new_parameters(old: AuditRecord, new: Completed) -> Iterator[str]:
    """The parameters that only one of two versions of an attack has."""
    before = next((one for one in old.attacks if isinstance(one, Completed) and one.attack == new.attack), None)
    if before is None:
        return
    others = sorted(before.parameters.keys() ^ new.parameters.keys())
    if others:
        yield f"{new.attack}: only one of both versions has the parameters {', '.join(others)}"


def _json(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON: a record that was read has lists where one that was just made has tuples."""
    read: dict[str, Any] = json.loads(json.dumps(parameters))
    return read


def _device(record: AuditRecord) -> str:
    return f"{record.environment.device} in {record.target.dtype}"


def _plain(value: object) -> str:
    return json.dumps(value) if value else "none"
