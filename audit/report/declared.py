"""What rests on the owner's word: whether the model was trained on the documents that are declared as trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from audit.attacks import TEXTS
from audit.policy import Verdict
from audit.record import AuditRecord, Completed
from audit.report.leaks import FAMILY, leaks, untested
from audit.report.numbers import show

SHOWN = 2
"""Signs that the sentence gives with their number (ours); others are only counted."""
_TITLES = {name: text.title or name for name, text in TEXTS.items()}
_LEFT_OUT = "left out: "
_SPLITS = {
    "member": ("member documents", "declared as trained on"),
    "heldout": ("held-out documents", "declared as never seen"),
}
"""By split, the count of an attack, and the words for it."""


@dataclass(frozen=True)
class Plausibility:
    """Whether anything that was measured shows that the model saw the documents declared as trained on.

    Attributes:
        state: "signs": something does; "none": nothing does; "open": nothing does, and not all that would show it was
            decided; "unmeasured": nothing that could was measured.
        sentence: the same in plain words.
    """

    state: Literal["signs", "none", "open", "unmeasured"]
    sentence: str


def plausibility(record: AuditRecord, verdict: Verdict) -> Plausibility | None:
    """Look for signs that the model saw the documents which its owner declares as trained on.

    Any measurement on these documents that lies beyond what it would be without them is a sign (at 1 % false alarms
    on each side, for all of them together). None says nothing against the owner, but then a wrong list of documents
    would have given the same report.

    Returns:
        None where no model was audited.
    """
    if not record.target.is_model:
        return None
    signs = [leak for leak in leaks(record, FAMILY) if not leak.about_text and leak.confounded is None]
    if signs:
        told = "; ".join(leak.sentence for leak in signs[:SHOWN])
        more = f"; and {len(signs) - SHOWN} more" if len(signs) > SHOWN else ""
        sentence = f"There are signs that the model saw the documents declared as trained on: {told}{more}."
        return Plausibility("signs", sentence)
    if not any(isinstance(result, Completed) and result.confounded is None for result in record.attacks):
        return Plausibility(
            "unmeasured",
            "Nothing was measured that could show whether the model saw the documents declared as trained on: that it "
            "did is the owner's word alone.",
        )
    if gap := untested(verdict):
        return Plausibility(
            "open",
            f"Whether the model saw the documents declared as trained on is open: it was not examined {gap}. That it "
            "did is the owner's word alone.",
        )
    return Plausibility(
        "none",
        "No sign that the model saw the documents declared as trained on: nothing measured shows it. A model that "
        "keeps nothing looks the same as one that never saw them, so a pass rests on the owner's word.",
    )


def documents_used(record: AuditRecord) -> list[str]:
    """Say of each attack that used fewer documents than the data set holds how many, and why."""
    return [
        f"{_TITLES.get(result.attack, result.attack)}: {line}"
        for result in record.attacks
        if isinstance(result, Completed) and (line := _used(record, result))
    ]


def tried_in_part(record: AuditRecord) -> str:
    """Say that a budget or a bound left a part untried, with the documents of training that each attack used.

    Returns:
        Empty where all that could be tried was tried.
    """
    bounds = record.bounds
    if record.share >= 1 and (bounds is None or (bounds.documents is None and bounds.part >= 1)):
        return ""
    used = [_part_of(record, result) for result in record.attacks if isinstance(result, Completed)]
    told = f"Of the documents of training: {'; '.join(filter(None, used))}." if any(used) else ""
    budget = f"The budget “{record.budget}” took {show(record.share, 'share')} of what could be tried. "
    return f"{budget if record.share < 1 else 'A bound was set. '}{told}".strip()


def _part_of(record: AuditRecord, result: Completed) -> str:
    """The documents of training that an attack used, and what it attacked in them; empty where it counts none."""
    used = next((count.value for count in result.counts if count.name == _SPLITS["member"][0]), None)
    inside = next((one for one in result.coverage if one.category == "all" and one.unit != "documents"), None)
    parts = [f"{used:,} of {record.corpus.documents.get('member', 0):,}"] if used is not None else []
    parts += [f"{inside.attacked:,} of {inside.total:,} {inside.unit}"] if inside else []
    return f"{_TITLES.get(result.attack, result.attack)}, {', '.join(parts)}" if parts else ""


def _used(record: AuditRecord, result: Completed) -> str:
    counts = {count.name: count.value for count in result.counts}
    short, parts = False, []
    for split, (name, words) in _SPLITS.items():
        held = record.corpus.documents.get(split, 0)
        if name in counts:
            short = short or counts[name] < held
            parts.append(f"{counts[name]:,} of {held:,} {words}")
    reasons = "; ".join(_reasons(counts))
    why = f" ({reasons})" if reasons else ""
    return f"used {' and '.join(parts)}{why}" if short else ""


def _reasons(counts: dict[str, int]) -> Iterator[str]:
    for name, value in counts.items():
        if name.startswith(_LEFT_OUT) and value:
            yield f"{value:,} {name}"
