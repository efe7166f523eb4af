"""Consistency of a record: one that contradicts itself cannot have been written by a scan and is not judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from audit.errors import RecordError
from audit.measurements import ALPHAS, Estimate
from audit.record import AuditRecord, Completed

LEVEL = 0.95
"""Two-sided confidence of every interval of a record."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_consistency(record: AuditRecord) -> None:
    """Refuse a record that no scan can have written.

    Raises:
        RecordError: every contradiction.
    """
    problems = [*_of_record(record), *(problem for result in record.attacks for problem in _of_attack(result))]
    if problems:
        raise RecordError([f"record: {problem}" for problem in problems], "give the record as docaudit scan wrote it")


def _of_record(record: AuditRecord) -> Iterator[str]:
    named = [result.attack for result in record.attacks] + [item.attack for item in record.left_out]
    for attack, times in Counter(named).items():
        if times > 1:
            yield f"{attack} has {times} results"
        if attack not in record.battery:
            yield f"{attack} is not in the battery"
    if not 0 < record.share <= 1:
        yield f"share {record.share:g} does not lie between 0 and 1"
    for what, digest in (("target", record.target.sha256), ("corpus", record.corpus.sha256)):
        if not _SHA256.fullmatch(digest):
            yield f"the {what}'s sha256 is none"
    if not record.target.is_model:
        yield from (f"{name} tells of a model, and there was none" for name in _of_model(record))
    if not record.target.name:
        yield "the target has no name"
    if not any(record.corpus.documents.values()):
        yield "the corpus has no documents"


def _of_model(record: AuditRecord) -> Iterator[str]:
    """Numbers that only a model can give."""
    yield from (item.name for item in record.utility)
    for result in record.attacks:
        if isinstance(result, Completed):
            numbers = (item.name for item in result.measurements if isinstance(item, Estimate))
            yield from (f"{result.attack} {name}" for name in numbers if name not in result.about_text)


def _of_attack(result: object) -> Iterator[str]:
    if not isinstance(result, Completed):
        return
    for name, times in Counter(item.name for item in result.measurements).items():
        if times > 1:
            yield f"{result.attack} {name} is measured {times} times"
    for item in result.measurements:
        if isinstance(item, Estimate):
            yield from (f"{result.attack} {item.name}: {problem}" for problem in _of_estimate(item))


def _of_estimate(item: Estimate) -> Iterator[str]:
    if item.low > item.high:
        yield f"low {item.low:g} is above high {item.high:g}"
    if item.level != LEVEL:
        yield f"level {item.level:g} is not {LEVEL:g}"
    if min(item.n, item.clusters) < 1:
        yield "it rests on nothing"
    alphas = [bound.alpha for bound in item.bounds]
    if len(set(alphas)) < len(alphas) or not set(alphas) <= set(ALPHAS):
        yield "its bounds are at other levels than those of a scan"
