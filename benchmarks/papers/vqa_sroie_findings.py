"""The paper's two findings, tested on the audited settings of `vqa_sroie.py`.

Every word follows from a number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from audit import record as records
from audit.attacks.measuring import Streams, estimate_without_null
from audit.measurements import Estimate
from audit.record import AuditRecord, Result
from audit.stats.rates import net, rate
from benchmarks.papers.paired_extraction import Change, Extraction, extraction_changes

QUESTION_CHANGED = ("paraphrased", "shuffled")
PAGE_CHANGED = ("rotation_", "shift_", "brightness_")
"""Beginnings of the names of contexts that show the same page from another scanner."""


@dataclass(frozen=True)
class Audited:
    """One setting, audited.

    Attributes:
        name: shape and resolution, such as "donut-128x64".
        record: the scan's.
        training: how model and baseline were trained.
        answers: "guesses" and, by split, which question was answered by whom
            (`vqa_sroie.answers_of`).
    """

    name: str
    record: AuditRecord
    training: Mapping[str, Any]
    answers: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path, name: str) -> Audited:
        """From the files of a setting."""
        training, answers = (
            json.loads((folder / f"{name}.{part}.json").read_text())
            for part in ("training", "answers")
        )
        return cls(name, records.read(folder / f"{name}.json"), training, answers)

    @property
    def shape(self) -> str:
        """One of `vqa_sroie_models.Shape`."""
        return self.name.split("-")[0]

    @property
    def pixels(self) -> int:
        """Of the images that the model sees."""
        height, width = map(int, self.name.split("-")[1].split("x"))
        return height * width

    @property
    def result(self) -> Result:
        """The memorisation attack's."""
        (result,) = self.record.attacks
        assert result.status == "completed", result
        return result

    @property
    def contexts(self) -> tuple[str, ...]:
        """Name the contexts that members were asked in ('exact', 'no_text', ...), as tried."""
        return tuple(self.answers["splits"]["member"]["contexts"])

    @property
    def best_guess(self) -> tuple[str, float]:
        """The strongest way to guess without a page, and its held-out ANLS."""
        reached: dict[str, float] = self.answers["guesses"]
        return max(reached.items(), key=lambda item: item[1])

    @property
    def anls(self) -> Estimate | None:
        """Held-out ANLS of the model; None where it is unresolved."""
        (found,) = self.record.utility
        if isinstance(found, Estimate):
            return found
        return None

    @property
    def reads(self) -> bool:
        """Whether the model is shown to be better than any guess."""
        return self.anls is not None and self.anls.low > self.best_guess[1]

    def measured(self, name: str) -> Estimate | None:
        """An estimate by name; None where it is unresolved."""
        found = [item for item in self.result.measurements if item.name == name]
        if found and isinstance(found[0], Estimate):
            return found[0]
        return None

    def in_context(self, metric: str, context: str) -> Estimate | None:
        """Return "memorised" or "net" on members in a context: of the record, else of the answers."""
        if context not in self.contexts:
            return None
        parts = (
            metric,
            *(["member"] if metric == "memorised" else []),
            *([] if context == "exact" else [context]),
        )
        known = {item.name: item for item in self.result.measurements}
        if (name := ".".join(parts)) in known:
            return self.measured(name)
        rows = self.extraction(context)
        target = np.asarray(rows.target, float)
        baseline = np.asarray(rows.baseline, float)
        documents = np.unique(np.array(rows.documents, np.str_), return_inverse=True)[1]
        if np.unique(documents).size < 2:
            return None
        gained = target * (1 - baseline)
        lost = (1 - target) * baseline
        rng = Streams(np.random.default_rng([self.record.seed, *b"memorisation"]))[name]
        found = (
            net(gained, lost, documents, rng) if metric == "net" else rate(gained, documents, rng)
        )
        return estimate_without_null(name, found, "questions")

    def extraction(self, context: str) -> Extraction:
        """What model and baseline gave on members in a context, where it could be asked."""
        rows = self.answers["splits"]["member"]
        given = rows["contexts"][context]
        taken = [
            (question, int(by_target), int(by_baseline))
            for question, by_target, by_baseline in zip(
                rows["questions"], given["target"], given["baseline"], strict=True
            )
            if by_target != "-"
        ]
        names = [name for name, _, _ in taken]
        pages = [name.split()[0] for name in names]
        return Extraction(
            names, pages, [one for _, one, _ in taken], [other for _, _, other in taken]
        )


def words(found: Estimate | None, digits: int = 3) -> str:
    """An estimate with its interval."""
    if found is None:
        return "unresolved"
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def significance(p: float) -> str:
    """A p-value; of 10,000 flips, none under a thousandth is told apart."""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}"


def compared(one: Extraction, other: Extraction) -> tuple[Change, Change] | None:
    """What differs from `one` to `other`, "memorised" and "net", over the questions of both.

    None without any.
    """
    shared = {*one.questions} & {*other.questions}
    if not shared:
        return None
    sides = [_only(extraction, shared) for extraction in (one, other)]
    memorised, net = extraction_changes({"": sides[0]}, {"": sides[1]}, np.random.default_rng(0))
    return memorised, net


def _only(extraction: Extraction, names: set[str]) -> Extraction:
    kept = [place for place, name in enumerate(extraction.questions) if name in names]
    target = np.asarray(extraction.target)[kept]
    baseline = np.asarray(extraction.baseline)[kept]
    return Extraction(
        [extraction.questions[place] for place in kept],
        [extraction.documents[place] for place in kept],
        target,
        baseline,
    )


def resolution_lines(settings: Sequence[Audited]) -> list[str]:
    """Finding 1, for every two neighbouring resolutions of a shape."""
    lines = []
    for shape in dict.fromkeys(one.shape for one in settings):
        ordered = sorted(
            (one for one in settings if one.shape == shape), key=lambda one: one.pixels
        )
        lines += [
            f"- {low.name} against {high.name}: {_resolution(low, high)}"
            for low, high in pairwise(ordered)
        ]
    return lines or ["- no two resolutions of one shape were audited."]


def _resolution(low: Audited, high: Audited) -> str:
    numbers = _numbers(low, high)
    blind = []
    unfair = []
    for audited in (low, high):
        if not audited.reads:
            guess = audited.best_guess[1]
            blind.append(
                f"{audited.name} has a held-out ANLS of {words(audited.anls)}, and guessing "
                f"reaches {guess:.3f}"
            )
        if audited.result.confounded:
            unfair.append(f"{audited.name}: {audited.result.confounded}")
    if blind:
        return f"**not testable**: {'; '.join(blind)}. {numbers}"
    if unfair:
        return f"**undecided**: {'; '.join(unfair)}. {numbers}"
    change = compared(high.extraction("exact"), low.extraction("exact"))
    if change is None:
        return f"**undecided**: the two have no question in common. {numbers}"
    difference = change[1].difference
    if difference.low > 0:
        verdict = "**shown**: more is memorised at the lower resolution"
    elif difference.high < 0:
        verdict = "**the opposite is shown**: less is memorised at the lower resolution"
    else:
        verdict = "**not shown**"
    return f"{verdict}. {numbers}"


def _numbers(low: Audited, high: Audited) -> str:
    """The nets of both, whether their intervals overlap, and the paired difference."""
    nets = [one.measured("net") for one in (low, high)]
    if nets[0] is None or nets[1] is None:
        return "Net is unresolved."
    overlap = nets[0].low <= nets[1].high and nets[1].low <= nets[0].high
    text = f"Net is {words(nets[0])} at the lower resolution and {words(nets[1])} at the higher one; the intervals "
    text += "overlap" if overlap else "lie apart"
    change = compared(high.extraction("exact"), low.extraction("exact"))
    if change is None:
        return text + "."
    difference = change[1].difference
    p = change[1].p
    paired = f"{words(difference)} ({significance(p)}, {difference.n} questions)"
    return f"{text}. Paired by question, lower minus higher: {paired}."


def question_lines(settings: Sequence[Audited]) -> list[str]:
    """Finding 2, for every setting."""
    return [f"- {one.name}: {_question(one)}" for one in settings]


def _question(one: Audited) -> str:
    """Whether more of what is memorised survives a changed page than a changed question."""
    net = one.measured("net")
    if net is None or net.low <= 0:
        return (
            f"**not testable**: no memorisation is shown in the exact context (net {words(net)})."
        )
    changes = _changes(one)
    if not changes:
        return "**not tested**: no changed question and changed page were tried together."
    n_more = sum(change.difference.low > 0 for change in changes.values())
    n_less = sum(change.difference.high < 0 for change in changes.values())
    verdict = _verdict_on_pages(n_more, n_less, len(changes))
    text = (
        f"**{verdict}**: the page changed leaves more than the question changed in {n_more} of "
        f"{len(changes)} comparisons, less in {n_less}; in the others the interval holds 0.\n"
    )
    return text + "\n".join(
        _pair(page, question, change) for (page, question), change in changes.items()
    )


def _changes(audited: Audited) -> dict[tuple[str, str], Change]:
    """Compare what each changed question leaves with what each changed page leaves."""
    pages = [context for context in audited.contexts if context.startswith(PAGE_CHANGED)]
    changes = {}
    for question in QUESTION_CHANGED:
        if question not in audited.contexts:
            continue
        for page in pages:
            change = compared(audited.extraction(question), audited.extraction(page))
            if change is not None:
                changes[page, question] = change[0]
    return changes


def _verdict_on_pages(n_more: int, n_less: int, n_all: int) -> str:
    """Say whether a changed page leaves more than a changed question."""
    if n_less == n_all:
        return "the opposite is shown"
    if n_less:
        return "contradictory"
    if n_more == n_all:
        return "shown"
    if n_more:
        return "shown in part"
    return "not shown"


def _pair(page: str, question: str, change: Change) -> str:
    left, survived = (round(side.value * side.n) for side in (change.before, change.after))
    return (
        f"  - {page} {survived}, {question} {left} of {change.difference.n}: difference of the shares "
        f"{words(change.difference)} ({significance(change.p)})"
    )
