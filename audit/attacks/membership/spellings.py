"""The test whether the model was trained on pages that were written otherwise: in capitals, without punctuation, ..."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from audit.arrays import Floats
from audit.attacks.usable import loss_kind
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Word
from audit.measurements import Check
from audit.targets.interface import TokenTarget

N_MEMBERS = 20
"""Members that are asked about in every way of writing, at most (ours)."""
FEWEST = 8
"""Members that a way of writing changes, without which it is not tested (ours)."""
BOX_SCALE = 1000
"""Layout models read boxes in thousandths of the page; pixels taken for thousandths are a common slip."""
MATCH = "write the documents as the model was trained on them, and scan again"
Transformation = Callable[[Document], Document]


@dataclass(frozen=True)
class Respelled:
    """Members in other ways of writing.

    Attributes:
        documents: the changed documents by a name of their own.
        pairs: by the way of writing, (id of the member, name of its changed document).
        needs_reference: whether losses of other tokens compare beside a reference only.
    """

    documents: Mapping[str, Document]
    pairs: Mapping[str, tuple[tuple[str, str], ...]]
    needs_reference: bool


def respelled(case: Case, members: Sequence[Document]) -> Respelled:
    """Write members in other ways; documents that the target reads alike all the same are left out."""
    documents: dict[str, Document] = {}
    pairs: dict[str, tuple[tuple[str, str], ...]] = {}
    for way, transform in transformations(case.corpus).items():
        changed = {f"{way}/{one.id}": (one, transform(one)) for one in members}
        differing = {name: pair for name, pair in changed.items() if _read_otherwise(case, *pair)}
        pairs[way] = tuple((one.id, name) for name, (one, _) in differing.items())
        documents |= {name: other for name, (_, other) in differing.items()}
    return Respelled(documents, pairs, loss_kind(case.target) == "masks")


def transformations(corpus: Corpus) -> dict[str, Transformation]:
    """Return the ways of writing that are tried for a task.

    Answers are found on the page by their spelling, so that questions keep their punctuation. The output of a parsing
    model is markup, which has no other case.
    """
    task = corpus.manifest.task
    ways: dict[str, Transformation] = {"with boxes in pixels": _in_pixels}
    if task.kind != "parsing":
        ways |= {"in capitals": _spelled(str.upper), "in lower case": _spelled(str.lower)}
    if not task.asks:
        ways["without punctuation"] = _spelled(lambda text: text.strip(string.punctuation) or text)
    return ways


def check_spellings(changed: Respelled, losses: Mapping[str, tuple[float, float]]) -> Check | str:
    """Test whether members fit the target better in another way of writing than as they are.

    The change of the loss is paired by member (Wilcoxon signed-rank, one-sided). Beside a reference the change also has
    to exceed the reference's: some ways of writing are easier for every model. Bonferroni over the ways.

    Args:
        changed: the members in other ways of writing.
        losses: of the target and its reference, nats, by the name of a document; NaN where there is none.

    Returns:
        The check, or why it cannot be made.
    """
    gains = {way: _gains(pairs, losses) for way, pairs in changed.pairs.items()}
    if changed.needs_reference and not any(np.isfinite(gain).all() for gain in gains.values()):
        return "losses of other tokens compare beside a reference only, and there is none"
    tested = {way: _p_better(gain) for way, gain in gains.items() if len(gain) >= FEWEST and gain[:, 0].any()}
    if not tested:
        return "no other way of writing changes what the model reads of enough members"
    best = min(tested, key=lambda way: tested[way])
    reason = (
        f"pages written {best} fit the model better than as they are (loss lower by {np.median(gains[best][:, 0]):.2f}"
        f" nats in the middle of {len(gains[best])} members): the audit asks for pages other than those of training"
    )
    return Check("way of writing", min(1.0, len(tested) * tested[best]), "alarm", reason, MATCH)


def _gains(pairs: Sequence[tuple[str, str]], losses: Mapping[str, tuple[float, float]]) -> Floats:
    """By how much the loss of each member is lower when it is changed, target and reference: (n, 2), nats."""
    rows = np.array([np.subtract(losses[member], losses[name]) for member, name in pairs], np.float64).reshape(-1, 2)
    return rows[np.isfinite(rows[:, 0])]


def _p_better(gains: Floats) -> float:
    own, beside = gains[:, 0], gains[:, 1]
    columns = [own, own - beside] if np.isfinite(beside).all() else [own]
    return max(map(_signed_rank, columns))


def _signed_rank(differences: Floats) -> float:
    """The one-sided p of the Wilcoxon signed-rank test that the differences are not above 0."""
    from scipy.stats import wilcoxon

    moved = differences[differences != 0]
    return float(wilcoxon(moved, alternative="greater").pvalue) if moved.size else 1.0


def _read_otherwise(case: Case, document: Document, other: Document) -> bool:
    """Test whether the target reads the two differently, as far as its settings show it."""
    if document == other or loss_kind(case.target) == "answers":
        return document != other
    pages = [cast("TokenTarget", case.target).encode(one) for one in (document, other)]
    first, second = pages
    if first is None or second is None:
        return False
    return not (np.array_equal(first.ids, second.ids) and np.array_equal(first.boxes, second.boxes))


def _spelled(spell: Callable[[str], str]) -> Transformation:
    """Spell every word, question and answer otherwise."""

    def transform(document: Document) -> Document:
        words = tuple(replace(word, text=spell(word.text)) for word in document.words)
        questions = tuple(
            replace(one, question=spell(one.question), answers=tuple(map(spell, one.answers)))
            for one in document.questions
        )
        return replace(document, words=words, questions=questions)

    return transform


def _in_pixels(document: Document) -> Document:
    """Move the boxes so that scaling them to the page gives their pixels, cut off at its edge."""
    if document.size is None:
        return document
    width, height = document.size
    ratios = np.array([width, height, width, height]) / BOX_SCALE

    def moved(word: Word) -> Word:
        if word.box is None:
            return word
        x0, y0, x1, y1 = np.minimum(np.array(word.box) * ratios, (width, height, width, height)).tolist()
        return replace(word, box=(x0, y0, x1, y1))

    return replace(document, words=tuple(map(moved, document.words)))
