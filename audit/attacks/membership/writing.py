"""Pages written otherwise than in training.

Do members fit the model better in another way of writing? Some members search among many ways of
writing, others confirm the best one. So the level of the test holds however many ways are tried
(methods/checks.md#checks-of-the-documents).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast, get_args

import numpy as np

from audit.arrays import Floats
from audit.attacks.interface import loss_kind
from audit.attacks.membership.documents import first_by_name, reference_of
from audit.attacks.membership.losses import MASKS, LossWork, Version, ask_losses
from audit.attacks.membership.rewriting import Kind, Way, ways_of_writing
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Document
from audit.engine.interface import Progress
from audit.measurements import WAY_OF_WRITING, Check
from audit.targets.interface import TokenTarget

N_SEARCHING = 6
"""Members that are asked about in every way of writing, at most."""
N_CONFIRMING = 20
"""Members that are asked about in the best way of each kind, at most."""
N_MEMBERS = N_SEARCHING + N_CONFIRMING
FEWEST_CHANGED = 8
"""Members that a way of writing changes, without which it is not confirmed."""
SEARCHING_MASKS = 2
CLEAR_SHARE = 0.05
"""A way of writing fits clearly better where it takes more than this share off the loss, and more than `CLEAR_NATS`.
Both are ours: smaller gains occur by chance of the weights, and hide no more than the loss itself
moves."""
CLEAR_NATS = 0.02
AS_IS = Way("as they are", "text")
UNCHANGED = "no other way of writing changes enough training documents for the model"


@dataclass(frozen=True)
class Gain:
    """Losses of the documents that a way of writing changes, as they are and in this way.

    Attributes:
        way: way of writing.
        target: (n_documents, 2) losses of the target as it is and in this way, nats.
        reference: likewise, of the references; None where they play no part.
    """

    way: Way
    target: Floats
    reference: Floats | None = None

    @property
    def decrease(self) -> Floats:
        """Return the decrease of the target's loss: (n_documents,), nats."""
        return self.target[:, 0] - self.target[:, 1]

    @property
    def excesses(self) -> list[Floats]:
        """Return what has to be positive: the decrease over a clear one, and over the references'.

        (n_documents,) each.

        Tokens stay the same when boxes and pictures change. References then learnt on the same
        boxes as the audited pages have, whichever the target learnt on, and would hide the gain.
        """
        over_clear = self.decrease - np.maximum(CLEAR_SHARE * self.target[:, 0], CLEAR_NATS)
        if self.reference is None:
            return [over_clear]
        return [over_clear, self.decrease - (self.reference[:, 0] - self.reference[:, 1])]

    @property
    def score(self) -> float:
        """Return the median of the smallest excess of each document, nats.

        What a search chooses by.
        """
        return float(np.median(np.min(self.excesses, axis=0)))

    @property
    def p_value(self) -> float:
        """Compute the one-sided p-value that all excesses are positive.

        It is that of signed-rank tests, paired by document.
        """
        from scipy.stats import wilcoxon

        p_values = []
        for excess in self.excesses:
            moved = excess[excess != 0]
            p_values.append(
                float(wilcoxon(moved, alternative="greater").pvalue) if moved.size else 1.0
            )
        return max(p_values)


class Asking(NamedTuple):
    """How the target is asked, see `ask_losses`."""

    case: Case
    width: int
    progress: Progress


def check_writing(asking: Asking, members: Sequence[Document]) -> Iterator[Check | str]:
    """Test whether members fit the target clearly better in another way of writing.

    A few members choose the best way of each kind, and the others test it: the change of the loss
    is paired by member, with Bonferroni's rule over the kinds. Where words are changed, the change
    also has to exceed the reference's, as some ways of writing are easier for every model.

    Args:
        asking: how the target is asked.
        members: members that can be asked about, `N_MEMBERS` at most.

    Yields:
        The check, and in sentences what cannot be tested.
    """
    searching_ids = first_by_name(members, min(N_SEARCHING, len(members) // 4))
    searching = [document for document in members if document.id in searching_ids]
    confirming = [document for document in members if document.id not in searching_ids]
    if len(confirming) < FEWEST_CHANGED:
        yield UNCHANGED
        return
    ways = ways_of_writing(asking.case.corpus)
    if loss_kind(asking.case.target) == "masks" and not _references_read(asking, searching[0]):
        yield "losses of changed tokens need a reference, and there is none"
        ways = _without_changed_words(ways)
    tried = search_ways(asking, ways, searching)
    if not tried:
        yield UNCHANGED
        return
    yield confirm_ways(asking, best_ways(tried), confirming)


def _without_changed_words(ways: Sequence[Way]) -> list[Way]:
    """Leave out the ways of writing that change words."""
    return [way for way in ways if way.kind != "text"]


def _references_read(asking: Asking, document: Document) -> bool:
    """Test whether there are references, which read the tokens that the target reads."""
    references = reference_of(asking.case)[1]
    work = LossWork(asking.case, references, {document.id: Version(document)}, SEARCHING_MASKS)
    return bool(np.isfinite(ask_losses(work, asking.width, asking.progress)[document.id][1]))


def search_ways(asking: Asking, ways: Sequence[Way], documents: Sequence[Document]) -> list[Gain]:
    """Try all ways of writing on a few documents.

    Leave out kinds that the target does not look at.
    """
    gains: list[Gain] = []
    for kind in get_args(Kind):
        candidates = [way for way in ways if way.kind == kind]
        strong = [way for way in candidates if way.strong]
        if strong:
            first_gains = ask_gains(asking, strong, documents[:2])
            if not any(gain.decrease.any() for gain in first_gains):
                continue
        gains += ask_gains(asking, candidates, documents)
    return gains


def best_ways(gains: Iterable[Gain]) -> list[Way]:
    """Choose, for each kind of change, the way of writing that fits clearly better and best."""
    best: dict[Kind, Gain] = {}
    for gain in gains:
        leader = best.get(gain.way.kind)
        if gain.score > 0 and (leader is None or gain.score > leader.score):
            best[gain.way.kind] = gain
    return [gain.way for gain in best.values()]


def confirm_ways(asking: Asking, ways: Sequence[Way], documents: Sequence[Document]) -> Check:
    """Test the chosen ways on documents that did not choose them."""
    gains = [
        gain
        for gain in ask_gains(asking, ways, documents, MASKS)
        if len(gain.target) >= FEWEST_CHANGED
    ]
    return judge_gains(gains, len(documents))


def judge_gains(gains: Sequence[Gain], n_documents: int) -> Check:
    """Make the check of the ways that were tested; its p-value is 1 where a search chose none."""
    if not gains:
        reason = SENTENCES["written_alike"].format(n=n_documents)
        return Check(
            WAY_OF_WRITING, 1.0, "alarm", reason, SENTENCES["match_writing"].format(way=AS_IS.name)
        )
    best = min(gains, key=lambda gain: gain.p_value)
    p_value = min(1.0, len(gains) * best.p_value)
    median = float(np.median(best.decrease))
    reason = SENTENCES["writing"].format(way=best.way.name, median=median, n=len(best.target))
    return Check(
        WAY_OF_WRITING,
        p_value,
        "alarm",
        reason,
        SENTENCES["match_writing"].format(way=best.way.name),
    )


def ask_gains(
    asking: Asking, ways: Sequence[Way], documents: Sequence[Document], masks: int = SEARCHING_MASKS
) -> list[Gain]:
    """Measure how much the losses of documents fall in each way of writing.

    References are asked where words change alone.
    """
    of_text = [way for way in ways if way.kind == "text"]
    of_pages = [way for way in ways if way.kind != "text"]
    references = reference_of(asking.case)[1]
    gains = _ask_beside(asking, of_text, documents, LossWork(asking.case, references, {}, masks))
    return gains + _ask_beside(asking, of_pages, documents, LossWork(asking.case, (), {}, masks))


def _ask_beside(
    asking: Asking, ways: Sequence[Way], documents: Sequence[Document], work: LossWork
) -> list[Gain]:
    """Measure how much losses fall in each way of writing, with the models that `work` asks."""
    versions: dict[str, Version] = {}
    changed: dict[str, list[str]] = {}
    for way in ways:
        rewritten = rewrite(asking.case, way, documents)
        changed[way.name] = list(rewritten)
        versions |= {f"{way.name}/{name}": version for name, version in rewritten.items()}
    if not versions:
        return []
    versions |= {f"{AS_IS.name}/{document.id}": Version(document) for document in documents}
    asking.progress.stage("checks of the scan: ways of writing", len(versions))
    losses = ask_losses(replace(work, versions=versions), asking.width, asking.progress)
    gains: list[Gain] = []
    for way in ways:
        pairs = [
            (losses[f"{AS_IS.name}/{name}"], losses[f"{way.name}/{name}"])
            for name in changed[way.name]
        ]
        gains += _gain_of(way, np.array(pairs, np.float64).reshape(-1, 2, 2))
    return gains


def _gain_of(way: Way, losses: Floats) -> list[Gain]:
    """Return the gain of a way from losses of shape (n_documents, 2 versions, 2 models).

    None without a finite loss.
    """
    losses = losses[np.isfinite(losses[:, :, 0]).all(axis=1)]
    if not len(losses):
        return []
    beside = losses[:, :, 1]
    return [Gain(way, losses[:, :, 0], beside if np.isfinite(beside).all() else None)]


def rewrite(case: Case, way: Way, documents: Sequence[Document]) -> dict[str, Version]:
    """Return documents by id as a way writes them, without those that the target reads alike."""
    versions = {}
    for document in documents:
        rewritten = way.rewrite(document)
        if way.change_picture is not None:
            if document.image is not None:
                versions[document.id] = Version(document, way.change_picture)
        elif _reads_differently(case, document, rewritten):
            versions[document.id] = Version(rewritten)
    return versions


def _reads_differently(case: Case, document: Document, other: Document) -> bool:
    """Test whether two versions of a document give the target other input."""
    if document == other or loss_kind(case.target) == "answers":
        return document != other
    target = cast("TokenTarget", case.target)
    first = target.encode(document)
    second = target.encode(other)
    if first is None or second is None:
        return False
    return not (np.array_equal(first.ids, second.ids) and np.array_equal(first.boxes, second.boxes))
