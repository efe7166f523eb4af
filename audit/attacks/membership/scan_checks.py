"""Checks of a whole scan: held-out documents that were trained on, and pages written otherwise than in training.

Both bear on every attack, so that they are made once a scan, whichever attacks run (methods.md#checks-of-the-scan).
"""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from audit.arrays import Floats
from audit.attacks import blind_baseline
from audit.attacks.interface import loss_kind
from audit.attacks.membership.documents import first_by_name, left_out, query_document, reference_of, without_canaries
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Membership, Word
from audit.corpus.folding import fold
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Progress, Trial
from audit.measurements import Check
from audit.stats.paired import Ratios, UnitScores, area_change, ratio_difference
from audit.stats.roc import auc_interval
from audit.targets.interface import Answer, BestClass, BestLinks, BestTokens, TagProbabilities, Target, TokenTarget
from audit.targets.utility import usefulness_by_document

MOST = 200
"""Held-out and public documents that are compared, of each at most: they show an area of 0.6 in 9 of 10 scans."""
FEWEST = 20
"""Held-out and public documents without which nothing is compared."""
N_MEMBERS = 20
"""Members that are asked about in every way of writing, at most."""
FEWEST_CHANGED = 8
"""Members that a way of writing changes, without which it is not tested."""
BOX_SCALE = 1000
"""Layout models read boxes in thousandths of the page; pixels taken for thousandths are a common slip."""
_MASKS = 4
"""Masks of a page for masked language models: every second token is hidden, which takes seconds a scan."""
_LEVEL = 0.05
"""One-sided level at which a check can matter, whatever the other checks of the scan: then its conditions count."""
REDRAW = SENTENCES["redraw"]
MAX_GAP = 0.10
"""A reference reads as well as the target where their usefulness on held-out documents differs by at most so much (the
value that memorisation takes for its baseline): references trained too little have a power of 0.6 and hide a leak."""
MOST_READ = 100
"""Held-out documents that both are compared on, at most."""
_READING = frozenset({Answer, BestClass, BestLinks, BestTokens, TagProbabilities})
"""Queries that show how well a model does its task."""
_READING_SEED = 12
_SUBJECTS = ("training on the unseen documents", "pages written otherwise than in training")
Losses = Mapping[str, tuple[float, float]]
"""By the name of a document, the loss of the target and of its reference, nats; NaN where there is none."""
Transformation = Callable[[Document], Document]


@dataclass(frozen=True)
class ScanChecks:
    """Hold the checks of a whole scan.

    Attributes:
        checks: those that were made.
        untested: what was not tested and why, in sentences.
    """

    checks: tuple[Check, ...] = ()
    untested: tuple[str, ...] = ()


@dataclass(frozen=True)
class _LossWork:
    """Ask the target and its references for their losses of documents; implements `Work`, a trial for each document."""

    case: Case
    references: Sequence[Target]
    documents: Mapping[str, Document]

    def attempt(self, trial: Trial) -> Attempt:
        """Return the target's loss and the references' mean loss, nats; NaN for one that cannot be had."""
        losses: list[float] = []
        for model in (self.case.target, *self.references):
            found = yield from query_document(self.case, model, self.documents[trial.id], _MASKS)
            losses.append(np.nan if found is None else found["loss"])
        return losses[0], float(np.mean(losses[1:])) if self.references else np.nan


def check_scan(case: Case, width: int, progress: Progress) -> ScanChecks:
    """Make the checks of a whole scan.

    Args:
        case: the audit.
        width: documents that are asked about at a time.
        progress: advanced by every document.
    """
    if loss_kind(case.target) is None:
        return ScanChecks(untested=tuple(f"{subject}: the model gives no loss of a document" for subject in _SUBJECTS))
    role, references = reference_of(case)
    heldout, public = (_choose_documents(case, side, MOST) for side in select_comparable(case.corpus))
    members = _choose_documents(case, case.corpus.of("member"), N_MEMBERS)
    changed = rewrite_members(case, members)
    others = {f"{way}/{name}": other for way, documents in changed.items() for name, other in documents.items()}
    documents = {document.id: document for document in (*heldout, *public, *members)} | others
    progress.stage("checks of the scan", len(documents))
    losses: dict[str, tuple[float, float]] = {}
    for name, pair in drive(_LossWork(case, references, documents), [Trial(name, name) for name in documents], width):
        losses[name] = pair
        progress.advance()
    made = (
        check_heldout(case.corpus, [*heldout, *public], losses, role),
        check_writing(changed, losses, needs_reference=loss_kind(case.target) == "masks"),
    )
    return ScanChecks(
        tuple(found for found in made if isinstance(found, Check)),
        tuple(f"{subject}: {found}" for subject, found in zip(_SUBJECTS, made, strict=True) if isinstance(found, str)),
    )


def _choose_documents(case: Case, documents: Sequence[Document], count: int) -> list[Document]:
    """Choose at most `count` documents by their ids alone, without canaries and those that give no loss."""
    ordinary = without_canaries(case.corpus, documents)
    chosen = first_by_name(ordinary, count)
    return [document for document in ordinary if document.id in chosen and left_out(case, document) is None]


def select_comparable(corpus: Corpus) -> tuple[list[Document], list[Document]]:
    """Choose the held-out and public documents that can be compared.

    A model knows the companies of its training. So the documents of both sides are of companies that members name, or
    those of neither are, whichever leaves more.
    """
    known = {fold(one.provider) for one in corpus.of("member") if one.provider is not None}
    sides: list[tuple[list[Document], list[Document]]] = [([], []), ([], [])]
    for document in corpus.of("heldout", "public"):
        trained = document.provider is not None and fold(document.provider) in known
        sides[trained][document.split == "public"].append(document)
    return max(sides, key=lambda side: min(map(len, side)))


def check_heldout(corpus: Corpus, documents: Sequence[Document], losses: Losses, role: str) -> Check | str:
    """Test whether the target's loss on held-out documents is lower than on public ones, more than the reference's is.

    Both have to hold: the area of the target is over chance, and over the area of the reference. A reference that was
    trained on the public documents, as `docaudit references --train` does it, has a low area; then the first part
    decides, which is valid where both kinds of documents are alike. Documents that the blind check tells apart take a
    baseline that does not know the public ones.

    Args:
        corpus: the data set.
        documents: held-out and public ones.
        losses: of these.
        role: of the reference; empty without one.

    Returns:
        The check, or why it cannot be made.
    """
    known = [one for one in documents if np.isfinite(losses[one.id][0])]
    heldout = np.array([one.split == "heldout" for one in known], bool)
    counts = {"held-out": int(heldout.sum()), "public": int((~heldout).sum())}
    few = next((f"{count} {name} documents" for name, count in counts.items() if count < FEWEST), None)
    if few is not None:
        return f"only {few} can be compared, and {FEWEST} of each kind are needed"
    scores = -np.array([losses[one.id] for one in known]).T
    own = auc_interval(scores[0][heldout], scores[0][~heldout])
    p_value, beside, compared = own.p_above(0.5), None, ""
    if np.isfinite(scores[1]).all():
        beside = auc_interval(scores[1][heldout], scores[1][~heldout])
        names = [one.id for one in known]
        target, reference = (UnitScores(names, names, heldout, column, "auc") for column in scores)
        excess = area_change(reference, target)
        p_value = max(p_value, 1.0 if excess is None else excess.p_above(0.0))
        compared = f"; of its reference {beside.value:.3f}"
    # Only a baseline without the public documents shows what a difference in kind does.
    controlled = role == "baselines" and beside is not None and beside.high >= 0.5
    # The public documents were not drawn within providers, whatever the held-out ones were.
    as_drawn = replace(corpus, manifest=replace(corpus.manifest, membership=Membership("random")))
    if p_value <= _LEVEL and not controlled and blind_baseline.by_document(as_drawn, known, heldout).told_apart:
        return "public documents differ from unseen ones even without the model, and no baseline shows the effect"
    reason = SENTENCES["heldout_known"].format(own=own, compared=compared)
    return Check("held-out documents", p_value, "confounded", reason, REDRAW)


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


def check_reference_reading(case: Case) -> Iterator[Check]:
    """Test whether a reference does the task much worse or better than the target, on held-out documents.

    Args:
        case: the audit; nothing is tested where it has no reference that shows how it does the task.
    """
    models = [model for model in reference_of(case)[1] if _READING & model.answers]
    if not models or not _READING & case.target.answers:
        return
    chosen = first_by_name(case.corpus.of("heldout"), MOST_READ)
    documents = tuple(one for one in case.corpus.documents if one.split != "heldout" or one.id in chosen)
    corpus = replace(case.corpus, documents=documents)
    own = usefulness_by_document(case.target, corpus, _READING_SEED)
    gaps = [gap for model in models for gap in _compare(own, usefulness_by_document(model, corpus, _READING_SEED))]
    if gaps:
        p_value, reason = min(gaps)
        yield Check("reference reads otherwise", min(1.0, len(gaps) * p_value), "alarm", reason, SENTENCES["better"])


def _compare(own: dict[str, Ratios], other: dict[str, Ratios]) -> Iterator[tuple[float, str]]:
    """Compare two models by each measure of usefulness: the p of a difference beyond `MAX_GAP`, and its reason."""
    for name in own.keys() & other.keys():
        found = ratio_difference(own[name], other[name], None, np.random.default_rng(_READING_SEED))
        if found is None:
            continue
        gap = found.interval
        beyond = [alpha for alpha, low, high in gap.bounds if low > MAX_GAP or high < -MAX_GAP]
        word = "better" if gap.value > 0 else "worse"
        reason = (
            f"the reference reads unseen documents much {word} than the model ({name.replace('_', ' ')} differs by"
            f" {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}]). It does not show how hard they are"
        )
        yield min(1.0, 2 * min(beyond, default=1.0)), reason
