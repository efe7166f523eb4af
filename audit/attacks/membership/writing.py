"""Pages written otherwise than in training: do members fit the model better in another way of writing?

Method: methods.md#checks-of-the-scan.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from audit.arrays import Floats
from audit.attacks.interface import loss_kind
from audit.attacks.membership.documents import Losses
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Word
from audit.measurements import Check
from audit.targets.interface import TokenTarget

N_MEMBERS = 20
"""Members that are asked about in every way of writing, at most."""
FEWEST_CHANGED = 8
"""Members that a way of writing changes, without which it is not tested."""
BOX_SCALE = 1000
"""Layout models read boxes in thousandths of the page; pixels taken for thousandths are a common slip."""
Transformation = Callable[[Document], Document]


def rewrite_members(case: Case, members: Sequence[Document]) -> dict[str, dict[str, Document]]:
    """Rewrite members in each way of writing: by way, then by id, without documents whose encoding does not change."""
    return {
        way: {one.id: other for one in members if _reads_differently(case, one, other := transform(one))}
        for way, transform in ways_of_writing(case.corpus).items()
    }


def ways_of_writing(corpus: Corpus) -> dict[str, Transformation]:
    """Return the ways of writing that are tried for a task.

    Answers are found on the page by their spelling, so that questions keep their punctuation. The output of a parsing
    model is markup, which has no other case.
    """
    task = corpus.manifest.task
    ways: dict[str, Transformation] = {"with boxes in pixels": _in_pixels}
    if task.kind != "parsing":
        ways |= {"in capitals": partial(_spell, str.upper), "in lower case": partial(_spell, str.lower)}
    if not task.asks:
        ways["without punctuation"] = partial(_spell, lambda text: text.strip(string.punctuation) or text)
    return ways


def check_writing(
    changed: Mapping[str, Mapping[str, Document]], losses: Losses, *, needs_reference: bool
) -> Check | str:
    """Test whether members fit the target better in another way of writing than as they are.

    The change of the loss is paired by member (Wilcoxon signed-rank, one-sided). Beside a reference the change also has
    to exceed the reference's: some ways of writing are easier for every model. Bonferroni over the ways.

    Args:
        changed: see `rewrite_members`.
        losses: of the members and, under "way/id", of the changed ones.
        needs_reference: whether losses of other tokens compare beside a reference only.

    Returns:
        The check, or why it cannot be made.
    """
    gains = {way: _loss_decreases(way, documents, losses) for way, documents in changed.items()}
    if needs_reference and not any(np.isfinite(gain).all() for gain in gains.values()):
        return "losses of changed tokens need a reference, and there is none"
    tested = {way: _p_better(gain) for way, gain in gains.items() if len(gain) >= FEWEST_CHANGED and gain[:, 0].any()}
    if not tested:
        return "no other way of writing changes enough training documents for the model"
    best = min(tested, key=lambda way: tested[way])
    reason = SENTENCES["writing"].format(way=best, median=np.median(gains[best][:, 0]), n=len(gains[best]))
    return Check("way of writing", min(1.0, len(tested) * tested[best]), "alarm", reason, SENTENCES["match_writing"])


def _loss_decreases(way: str, names: Mapping[str, object], losses: Losses) -> Floats:
    """Compute the decrease of each member's loss when it is rewritten, under target and reference: (n, 2), nats."""
    rows = np.array([np.subtract(losses[name], losses[f"{way}/{name}"]) for name in names], np.float64).reshape(-1, 2)
    return rows[np.isfinite(rows[:, 0])]


def _p_better(gains: Floats) -> float:
    """Return the one-sided p-value that losses fall, and by more than the reference's (signed-rank tests)."""
    from scipy.stats import wilcoxon

    own, beside = gains[:, 0], gains[:, 1]
    columns = [own, own - beside] if np.isfinite(beside).all() else [own]
    moved = [differences[differences != 0] for differences in columns]
    return max(float(wilcoxon(one, alternative="greater").pvalue) if one.size else 1.0 for one in moved)


def _reads_differently(case: Case, document: Document, other: Document) -> bool:
    """Test whether two versions of a document give the target other input."""
    if document == other or loss_kind(case.target) == "answers":
        return document != other
    first, second = (cast("TokenTarget", case.target).encode(one) for one in (document, other))
    if first is None or second is None:
        return False
    return not (np.array_equal(first.ids, second.ids) and np.array_equal(first.boxes, second.boxes))


def _spell(spell: Callable[[str], str], document: Document) -> Document:
    """Apply a change of spelling to every word, question and answer."""
    words = tuple(replace(word, text=spell(word.text)) for word in document.words)
    questions = tuple(
        replace(one, question=spell(one.question), answers=tuple(map(spell, one.answers))) for one in document.questions
    )
    return replace(document, words=words, questions=questions)


def _in_pixels(document: Document) -> Document:
    """Replace boxes by what a model reads when pixels are taken for thousandths of the page, cut off at its edge."""
    if document.size is None:
        return document
    limits = np.array([*document.size, *document.size])

    def moved(word: Word) -> Word:
        if word.box is None:
            return word
        x0, y0, x1, y1 = np.minimum(np.array(word.box) * (limits / BOX_SCALE), limits).tolist()
        return replace(word, box=(x0, y0, x1, y1))

    return replace(document, words=tuple(map(moved, document.words)))
