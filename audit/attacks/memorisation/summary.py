"""Counts, coverage, the distribution of scores, drawn pages and paired scores of the attack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.memorisation.contexts import IDENTIFIED, WHOLE
from audit.attacks.memorisation.measures import by_value, identifying
from audit.attacks.memorisation.table import QuestionTable
from audit.attacks.questions import CLASSES, PII_CLASSES, AskedQuestion, all_questions, distinct_answers
from audit.attacks.removal import STATUSES, UNPROVEN
from audit.attacks.splits import LABELS
from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import fold
from audit.corpus.page_view import page_view
from audit.corpus.removal.proof import Reading
from audit.corpus.removal.redact import remove
from audit.measurements import Count, Coverage, Diagnostic, DrawnPage, Histogram
from audit.stats.distances import anls
from audit.stats.paired import UnitScores

MAX_PAGES = 4
READINGS: Mapping[Reading, str] = {
    "gone": "questions whose answer an OCR read before it was removed, and not after",
    "still read": "questions whose answer an OCR still read after it was removed",
    "no control": "positive controls that failed: the OCR did not read the answer before, so that silence says nothing",
    "not installed": "questions that no OCR could be asked about: Tesseract is not installed",
    "no image": "questions about pages without an image, where words are all there is to read",
}
_STEPS = 20


def counts(table: QuestionTable) -> tuple[Count, ...]:
    """Questions by what became of their answers, the sets E, G and M, and what is in M.

    With several baselines an answer is in G when at least half of them give it.
    """
    found = []
    for split, label in LABELS.items():
        rows = table.split(split)
        found.append(Count(f"{label} questions", len(rows), f"questions about {label} pages that this budget tried"))
        found += [
            Count(f"{label} questions: {status}", int((rows.status == status).sum()), meaning)
            for status, meaning in STATUSES.items()
        ]
        found += _sets(rows.proven, label)
    members = table.split("member")
    found += _memorised(members.proven)
    unproven = members.where(members.status == UNPROVEN)
    found += _sets(unproven, "unproven member")
    reasons = sorted(Counter(table.reason[table.reason != ""].tolist()).items())
    found += [Count(f"derivable: {reason}", number, "of the questions not asked") for reason, number in reasons]
    found += [
        Count(f"OCR: {reading}", int((table.reading == reading).sum()), meaning)
        for reading, meaning in READINGS.items()
    ]
    return tuple(found)


def _sets(rows: QuestionTable, label: str) -> list[Count]:
    extracted, generalised = _given(rows)
    return [
        Count(f"{label} E", int(extracted.sum()), "answers that the model gives when the answer is gone"),
        Count(f"{label} G", int(generalised.sum()), "answers that a model which never saw the page gives"),
        Count(f"{label} M", int((extracted & ~generalised).sum()), "E - G: that the model alone gives"),
        Count(
            f"{label} G - E", int((~extracted & generalised).sum()), "that only a model which never saw the page gives"
        ),
    ]


def _given(rows: QuestionTable) -> tuple[Bools, Bools]:
    """Which questions are in E and which in G."""
    results = rows.results.get("exact")
    if results is None:
        return np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    return results.target > 0, results.baseline >= 0.5


def _memorised(members: QuestionTable) -> Iterator[Count]:
    extracted, generalised = _given(members)
    rows = members.where(extracted & ~generalised)
    personal = rows.where(np.isin(rows.pii, PII_CLASSES))
    values = len({fold(one.answers[0]) for one in rows.asked})
    yield Count("M: distinct values", values, "distinct answers in M")
    yield Count("M: unique", int(rows.unique.sum()), "answers in M that training saw on one page alone")
    yield Count("M: PII", len(personal), "answers in M that are personal information")
    yield Count("M: unique PII", int(personal.unique.sum()), "of these, those that training saw on one page alone")
    by_class = Counter(rows.pii.tolist())
    for name in CLASSES:
        yield Count(f"M: {name}", by_class[name], "answers in M of this class")


def diagnostics(table: QuestionTable, n_baselines: int) -> tuple[Diagnostic, ...]:
    """Count the baselines, and the questions that each context could be tried on."""
    return (
        Diagnostic("baselines", n_baselines, "models that never saw the audited pages, which G is averaged over"),
        *(
            Diagnostic(f"{context} tried", float(results.tried.sum()), "questions that could be asked in this context")
            for context, results in table.results.items()
        ),
    )


def histograms(table: QuestionTable) -> tuple[Histogram, ...]:
    """Return M_E of appendix C, of all member questions, those in M and those in G (figure 5); none without splits."""
    members = table.split("member").proven
    rows = members.where(~np.isnan(members.inside))
    if not len(rows):
        return ()
    extracted, generalised = _given(rows)
    series = {"all": np.ones(len(rows), bool), "M": extracted & ~generalised, "G": generalised}
    edges = tuple(round(-1.0 + 2 * step / _STEPS, 1) for step in range(_STEPS + 1))
    values = np.round(rows.inside - rows.outside, 9)
    heights = {
        label: tuple(int(height) for height in np.histogram(values[mask], bins=edges)[0])
        for label, mask in series.items()
    }
    return (Histogram("extractable_memorisation", "extractable memorisation", edges, heights),)


def coverage(table: QuestionTable, corpus: Corpus) -> tuple[Coverage, ...]:
    """Count the members' questions that net rests on, of all that have an answer: those proven to be off the page.

    In all and by class of personal information; questions that the budget left out, whose answer could not be removed,
    or whose removal could not be proven, are in the totals alone.
    """
    total = Counter(asked.pii for asked in all_questions(corpus) if asked.document.split == "member")
    attacked = Counter(table.split("member").proven.pii.tolist())
    return (
        Coverage("all", attacked.total(), total.total(), "questions"),
        *(Coverage(name, attacked[name], total[name], "questions") for name in CLASSES if total[name]),
    )


def commonest_anls(table: QuestionTable, corpus: Corpus) -> Floats:
    """ANLS of the members' commonest answer (the first of equals) on each question, shape (n_questions,)."""
    answers = Counter(
        answers[0]
        for document in corpus.of("member")
        for question in document.questions
        if (answers := distinct_answers(question.answers))
    )
    if not answers:
        return np.zeros(len(table))
    ((commonest, _),) = answers.most_common(1)
    return np.array([anls(commonest, one.answers) for one in table.asked], float)


def page_number(corpus: Corpus, document: Document) -> int:
    """The document's number in the record: its position in the data set, from 1."""
    return 1 + corpus.documents.index(document)


def drawn_pages(corpus: Corpus, table: QuestionTable, *, fuzzy: bool) -> tuple[DrawnPage, ...]:
    """Up to four member pages as boxes: those of memorised answers first, then other attacked ones."""
    rows = table.split("member").proven
    extracted, generalised = _given(rows)
    first = np.argsort(~(extracted & ~generalised), kind="stable")
    pages: dict[str, DrawnPage] = {}
    for row in first:
        asked = rows.asked[row]
        if len(pages) < MAX_PAGES and asked.document.id not in pages:
            page = _drawn(corpus, asked, fuzzy=fuzzy)
            if page is not None:
                pages[asked.document.id] = page
    return tuple(pages.values())


def _drawn(corpus: Corpus, asked: AskedQuestion, *, fuzzy: bool) -> DrawnPage | None:
    """A page as boxes; None where words have no place on it."""
    page = page_view(corpus, asked.document)
    boxes = [(index, word.box) for index, word in enumerate(page.words) if word.box is not None]
    if page.size is None or not boxes:
        return None
    width, height = page.size
    gone = frozenset(remove(page, asked.spellings, fuzzy=fuzzy).words)
    return DrawnPage(
        page_number(corpus, asked.document),
        height / width,
        tuple((x0 / width, y0 / height, x1 / width, y1 / height) for _, (x0, y0, x1, y1) in boxes),
        tuple(index in gone for index, _ in boxes),
    )


def paired_by_question(table: QuestionTable) -> Mapping[str, UnitScores]:
    """E - G of each member question in every context, as "net"; and of each personal value, as "identified".

    Args:
        table: of all trials.
    """
    members = table.split("member").proven
    found = {}
    for context, results in members.results.items():
        rows = members.where(results.tried)
        if context == WHOLE or not len(rows):
            continue
        own = rows.results[context]
        name = "net" if context == "exact" else f"net.{context}"
        found[name] = _scores(
            [f"{asked.document.id}/{asked.question.id}" for asked in rows.asked],
            [asked.document.id for asked in rows.asked],
            own.gained - own.lost,
        )
    return found | _identified(identifying(table))


def _identified(rows: QuestionTable) -> dict[str, UnitScores]:
    """Each personal value times their number, so that the mean is a count."""
    if not len(rows) or "exact" not in rows.results:
        return {}
    document_of = dict(zip(rows.cluster.tolist(), (asked.document.id for asked in rows.asked), strict=True))
    gained, lost, clusters = by_value(rows)
    values = list(dict.fromkeys((int(own), asked.values) for own, asked in zip(rows.cluster, rows.asked, strict=True)))
    documents = [document_of[int(cluster)] for cluster in clusters]
    names = [f"{name}/{'/'.join(sorted(own))}" for name, (_, own) in zip(documents, values, strict=True)]
    n = float(len(names))
    return {IDENTIFIED: _scores(names, documents, (gained - lost) * n, n)}


def _scores(units: list[str], documents: list[str], values: Floats, most: float = 1.0) -> UnitScores:
    return UnitScores(units, documents, np.ones(len(units), bool), values, limits=(-most, most))
