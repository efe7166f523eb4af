"""Recompute from the journal how well used and unused companies are told apart.

Both sides are first cut to as many documents and questions a company, as the method says
(methods/provider-membership.md). Forests are drawn anew, so that their number is near the printed
one and not the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from scipy.stats import norm

from audit.arrays import Floats
from audit.corpus.folding import fold
from benchmarks.tools import recount_intervals as intervals
from benchmarks.tools.recount_intervals import Ends
from benchmarks.tools.recount_scan import Scan

FEATURES = ("accuracy", "similarity", "loss", "confidence")
CHANGED = ("loss", "confidence")
N_FORESTS = 40
N_TREES = 50
N_CLUSTERINGS = 5
KNOWN = 0.15
"""Share of the companies that the attacker with forests knows."""
FORESTS = 0.4
"""Share of an interval's width by which other forests may move an end."""
Pages = list[dict[str, Any]]
Sizes = tuple[int, ...]


def areas_of_companies(scan: Scan) -> dict[str, tuple[float, Ends]]:
    """Return area and interval by score: the loss, its change by training, answers off the page."""
    used, unused = _sides(scan)
    areas = {}
    for score in ("loss", "loss_change", "memory_similarity"):
        sides = []
        for side in (used, unused):
            sign = -1.0 if score == "memory_similarity" else 1.0
            sides.append([sign * row[score] for row in side])
        if np.isfinite([*sides[0], *sides[1]]).all():
            areas[score] = intervals.area(*sides)
    return areas


def sorted_by_forests(scan: Scan) -> dict[str, tuple[float, Ends]]:
    """Return the balanced accuracy of random forests that know some companies, with its interval.

    The interval takes the forests as they are.
    """
    from sklearn.ensemble import RandomForestClassifier

    used, unused = _sides(scan)
    names = [*FEATURES, *(f"{name}_change" for name in CHANGED)]
    columns = np.array([[row[name] for name in names] for row in (*used, *unused)], float)
    columns = columns[:, np.isfinite(columns).all(axis=0)]
    labels = np.array([True] * len(used) + [False] * len(unused))
    n_each = max(2, round(KNOWN * labels.size / 2))
    if min(len(used), len(unused)) < 2 * n_each or not columns.size:
        return {}
    rng = np.random.default_rng(20261129)
    calls = np.full((N_FORESTS, labels.size), np.nan)
    for number in range(N_FORESTS):
        sides = [rng.permutation(np.flatnonzero(labels == side))[:n_each] for side in (True, False)]
        trained = np.concatenate(sides)
        judged = np.setdiff1d(np.arange(labels.size), trained)
        forest = RandomForestClassifier(N_TREES, random_state=number)
        forest.fit(columns[trained], labels[trained])
        calls[number, judged] = forest.predict_proba(columns[judged])[:, 1] > 0.5
    called = np.nanmean(calls, axis=0)
    return {"random forests": _sorted_right(called[labels], called[~labels], "forests")}


def _sorted_right(used: Floats, unused: Floats, what: str) -> tuple[float, Ends]:
    """Return the balanced accuracy of calls, with a normal interval over companies.

    Args:
        used: share of the calls that call each used company used.
        unused: the same of each unused company.
        what: what called them; the interval takes it as it is.
    """
    share = float(0.5 + (used.mean() - unused.mean()) / 2)
    variance = used.var(ddof=1) / used.size + unused.var(ddof=1) / unused.size
    reach = float(norm.isf(intervals.TAIL)) * float(variance) ** 0.5 / 2
    return share, Ends(share - reach, share + reach, f"normal, {what} as they are", FORESTS)


def sorted_by_clusters(scan: Scan) -> dict[str, tuple[float, Ends]]:
    """Return the balanced accuracy of two clusters of answers; empty where they cannot be made.

    The more accurate cluster is called used. The attacker knows no company.
    """
    from sklearn.cluster import KMeans

    used, unused = _sides(scan)
    points = np.array([[row[name] for name in FEATURES[:2]] for row in (*used, *unused)], float)
    if not points.size or not np.isfinite(points).all() or len(np.unique(points, axis=0)) < 2:
        return {}
    calls = []
    for seed in range(N_CLUSTERINGS):
        labels = KMeans(n_clusters=2, n_init=10, random_state=seed).fit(points).labels_
        means = [points[labels == label].mean(axis=0).tolist() for label in (0, 1)]
        calls.append(labels == int(means[1] > means[0]))
    called = np.mean(calls, axis=0)
    sides = (called[: len(used)], called[len(used) :])
    return {"two clusters": _sorted_right(*sides, "clusters")}


def _sides(scan: Scan) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Return the features of used and of unused companies."""
    members = _used_companies(scan)
    pages: dict[str, Pages] = {}
    for (name, *_), outcome in scan.outcomes["provider_membership"].items():
        listed = [page for page in outcome["documents"] if page["questions"]]
        if listed:
            pages[name] = listed
    cut = _cut_alike(pages, members)
    sides: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for name, rows in cut.items():
        sides[name in members].append(_features(rows))
    return sides[True], sides[False]


def _used_companies(scan: Scan) -> set[str]:
    """Return the folded names of the companies whose documents were trained on."""
    members = set()
    for document in scan.documents.values():
        if document["split"] == "member":
            members.add(fold(document.get("provider") or ""))
    return members


def _cut_alike(pages: Mapping[str, Pages], members: set[str]) -> dict[str, list[dict[str, Any]]]:
    """Cut both sides to the same numbers of documents, then of questions, by company."""
    n_pages = {name: (len(listed),) for name, listed in pages.items()}
    fewer: dict[str, Pages] = {}
    for name, limit in _limits(n_pages, members).items():
        scattered = sorted(pages[name], key=lambda page: _hash(page["id"]))[: limit[0]]
        fewer[name] = sorted(scattered, key=lambda page: -len(page["questions"]))
    n_questions = {
        name: tuple(len(page["questions"]) for page in listed) for name, listed in fewer.items()
    }
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, limit in _limits(n_questions, members).items():
        rows[name] = []
        for page, most in zip(fewer[name], limit, strict=False):
            rows[name] += _scattered_questions(page, most)
    return rows


def _scattered_questions(page: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """Return as many questions of a document, those that hashes of their places put first."""
    places = range(len(page["questions"]))
    scattered = sorted(places, key=lambda place: _hash(f"{page['id']}\0{place}"))[:most]
    return [page["questions"][place] for place in sorted(scattered)]


def _limits(sizes: Mapping[str, Sizes], members: set[str]) -> dict[str, Sizes]:
    """Return the smaller of what each company and its partner of the other side have.

    The partner has the same rank by size, or the same quantile where the sides differ in number.
    """

    def rank(name: str) -> tuple[int, int, Sizes, bytes]:
        """Order companies by what there is of them."""
        return len(sizes[name]), sum(sizes[name]), sizes[name], _hash(name)

    used = sorted((name for name in sizes if name in members), key=rank)
    unused = sorted((name for name in sizes if name not in members), key=rank)
    limits = dict(sizes)
    if not used or not unused:
        return limits
    for side, partners in ((used, unused), (unused, used)):
        for place, name in enumerate(side):
            partner = partners[(2 * place + 1) * len(partners) // (2 * len(side))]
            limits[name] = tuple(map(min, sizes[name], sizes[partner]))
    return limits


def _hash(name: str) -> bytes:
    """Return a number for a name that says nothing of it."""
    return sha256(name.encode()).digest()


def _features(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the means of what was measured of a company's questions; NaN for what is lacking."""
    means = {}
    for name in (*FEATURES, "memory_similarity"):
        means[name] = _mean([row[name] for row in rows])
    for name in CHANGED:
        changes = []
        for row in rows:
            before = (row["pretrained"] or {}).get(name)
            if before is not None and row[name] is not None:
                changes.append(row[name] - before)
        means[f"{name}_change"] = _mean(changes)
    return means


def _mean(values: Sequence[float | None]) -> float:
    """Return the mean of the numbers that there are; NaN without any."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return float("nan")
    return float(np.mean(numbers))
