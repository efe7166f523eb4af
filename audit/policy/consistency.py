"""Consistency of a record: one that contradicts itself cannot have been written by a scan and is not judged."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from audit import __version__
from audit.cards import Bounds, CorpusCard, DeclaredPolicy, TargetCard, Timing
from audit.errors import RecordError
from audit.files import digest_of_files
from audit.measurements import ALPHAS, Bound, Curve, DrawnPage, Estimate, Histogram, Measurement, ResultTable
from audit.record import AttackResult, AuditRecord, Completed

_Drawn = Histogram | Curve | DrawnPage | ResultTable
LEVEL = 0.95
"""Two-sided confidence of every interval of a record."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ROUNDING = 1e-9
"""Relative: numbers that are computed along different ways differ by less."""
_NARROWING = 0.01
"""Of an interval's width (ours): older versions let widened bounds of two levels cross by less."""
_BASE = "base/"
_MOST_PROBLEMS = 20
"""So many contradictions are named one by one."""
_TAIL = (1 - LEVEL) / 2


def check_consistency(record: AuditRecord) -> None:
    """Refuse a record that no scan can have written.

    Raises:
        RecordError: every contradiction.
    """
    problems = [*_of_record(record), *(problem for result in record.attacks for problem in _of_attack(result))]
    _refuse(problems)


def check_values(record: AuditRecord, metrics: Mapping[str, Mapping[str, float | None]]) -> None:
    """Refuse a record that this version's attacks cannot have given.

    A value is none that its metric can take (a share, or a difference of shares, over 1), or the battery of a record of
    this very version lacks an attack: a policy that does without it would not miss it.

    Args:
        record: what to check; attacks and metrics that are not in `metrics` are left alone.
        metrics: the most that a metric can be, by attack and metric: 1 for shares and areas; None: any number.

    Raises:
        RecordError: every such value and attack.
    """
    own = record.environment.docaudit == __version__
    missing = [name for name in metrics if name not in record.battery] if own else []
    problems = [f"{name} is missing from the battery of docaudit {__version__}" for name in missing]
    for result in record.attacks:
        if isinstance(result, Completed):
            known = metrics.get(result.attack, {})
            for item in result.measurements:
                most = known.get(item.name)
                if isinstance(item, Estimate) and most is not None and abs(item.value) > most + _ROUNDING:
                    problems.append(f"{result.attack} {item.name}: value {item.value:g} is beyond {most:g}")
    _refuse(problems)


def _refuse(problems: Iterable[str]) -> None:
    listed = [f"record: {problem}" for problem in problems]
    if len(listed) > _MOST_PROBLEMS:
        listed[_MOST_PROBLEMS:] = [f"record: and {len(listed) - _MOST_PROBLEMS} more contradictions"]
    if listed:
        raise RecordError(listed, "give the record as docaudit scan wrote it")


def _of_record(record: AuditRecord) -> Iterator[str]:
    yield from _of_battery(record)
    if not 0 < record.share <= 1:
        yield f"share {record.share:g} does not lie between 0 and 1"
    yield from _of_target(record.target)
    yield from _of_corpus(record.corpus)
    for reference in record.references:
        yield from (f"reference {reference.role}: {problem}" for problem in _of_digest("the model", reference.card))
    if not record.target.is_model:
        yield from (f"{name} tells of a model, and there was none" for name in _of_model(record))
    yield from of_measurements("usefulness", record.utility)
    yield from _of_timing(record.timing)
    if record.bounds is not None:
        yield from _of_bounds(record.bounds)
    if record.policy is not None:
        yield from _of_policy(record.policy)


def _of_battery(record: AuditRecord) -> Iterator[str]:
    named = Counter([*(result.attack for result in record.attacks), *(item.attack for item in record.left_out)])
    for attack, times in named.items():
        if times > 1:
            yield f"{attack} has {times} results"
        if attack not in record.battery:
            yield f"{attack} is not in the battery"
    for attack, times in Counter(record.battery).items():
        if times > 1:
            yield f"the battery names {attack} {times} times"
        # Versions that did not list what was left out wrote no list of files either.
        if attack not in named and (record.left_out or record.target.files):
            yield f"{attack} is in the battery and has no result"


def _of_target(target: TargetCard) -> Iterator[str]:
    yield from _of_digest("the target", target)
    if not target.name:
        yield "the target has no name"
    if min(target.parameters, target.vocabulary, target.max_tokens) < 0:
        yield "the target has a negative size"
    broken = [name for name, digest in target.files.items() if not _SHA256.fullmatch(digest)]
    yield from (f"the sha256 of the target's file {name} is none" for name in broken)
    if target.files and not broken and _digest_of(target.files) != target.sha256:
        yield "the target's sha256 is not that of its files"


def _digest_of(files: Mapping[str, str]) -> str:
    """The sha256 of a checkpoint from those of its files."""
    own = {name: digest for name, digest in files.items() if not name.startswith(_BASE)}
    base = {name.removeprefix(_BASE): digest for name, digest in files.items() if name.startswith(_BASE)}
    return digest_of_files(own, digest_of_files(base) if base else None)


def _of_digest(what: str, card: TargetCard | CorpusCard) -> Iterator[str]:
    if not _SHA256.fullmatch(card.sha256):
        yield f"{what}'s sha256 is none"


def _of_corpus(corpus: CorpusCard) -> Iterator[str]:
    yield from _of_digest("the corpus", corpus)
    if not any(corpus.documents.values()):
        yield "the corpus has no documents"
    by_split = (corpus.documents, corpus.questions, corpus.near_copies, corpus.unread, corpus.unread_questions)
    counts = [*(count for counts in (*by_split, *corpus.fields.values()) for count in counts.values())]
    if min((*counts, corpus.providers, corpus.images)) < 0:
        yield "the corpus has a negative count"


def _of_timing(timing: Timing) -> Iterator[str]:
    times = []
    for what, text in (("started", timing.started), ("finished", timing.finished)):
        try:
            times.append(_time(text))
        except ValueError:
            yield f"the time when the scan {what} is none"
    if len(times) == 2 and times[1] < times[0]:
        yield "the scan finished before it started"
    if timing.seconds < 0:
        yield "the scan took less than no time"
    yield from _of_resumed(timing, times)


def _of_resumed(timing: Timing, times: list[dt.datetime]) -> Iterator[str]:
    """What came from a journal, which was written before the scan that read it was over."""
    if not 0 <= timing.resumed <= timing.outcomes:
        yield f"{timing.resumed} of {timing.outcomes} outcomes were read from a journal"
    if (timing.newest is None) != (timing.resumed == 0) or (timing.oldest is not None and timing.newest is None):
        yield "the outcomes that were read from a journal and their times do not go together"
    if timing.same_policy and not timing.resumed:
        yield "the policy of earlier runs is named, and no outcome is of one"
    kept = [time for time in (timing.oldest, timing.newest) if time is not None]
    try:
        dated = [*map(_time, kept), *times[-1:]]
    except ValueError:
        yield "the time of the journal's outcomes is none"
        return
    if any(earlier > later for earlier, later in pairwise(dated)):
        yield "the journal's outcomes were computed in another order, or after the scan was over"


def _time(text: str) -> dt.datetime:
    time = dt.datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def _of_bounds(bounds: Bounds) -> Iterator[str]:
    if not 0 < bounds.part <= 1:
        yield f"part {bounds.part:g} does not lie between 0 and 1"
    for attack, times in Counter(one.attack for one in bounds.trials).items():
        if times > 1:
            yield f"the trials of {attack} are counted {times} times"
    for one in bounds.trials:
        if not 0 <= one.tried <= one.planned:
            yield f"{one.attack} tried {one.tried} of {one.planned} trials"


def _of_policy(policy: DeclaredPolicy) -> Iterator[str]:
    if hashlib.sha256(policy.toml.encode("utf-8", "replace")).hexdigest() != policy.sha256:
        yield "the declared policy's sha256 is not that of its text"


def _of_model(record: AuditRecord) -> Iterator[str]:
    """Numbers that only a model can give."""
    yield from (item.name for item in record.utility)
    for result in record.attacks:
        if isinstance(result, Completed):
            numbers = (item.name for item in result.measurements if isinstance(item, Estimate))
            yield from (f"{result.attack} {name}" for name in numbers if name not in result.about_text)


def _of_attack(result: AttackResult) -> Iterator[str]:
    for name, times in Counter(result.metrics).items():
        if times > 1:
            yield f"{result.attack} lists {name} {times} times"
    if not isinstance(result, Completed):
        return
    yield from of_measurements(result.attack, result.measurements)
    for item in result.measurements:
        if isinstance(item, Estimate) and item.name in result.metrics and len(item.bounds) < len(ALPHAS):
            yield f"{result.attack} {item.name}: it has bounds at {len(item.bounds)} of {len(ALPHAS)} levels"
    yield from (f"{result.attack}: {problem}" for problem in (*_of_names(result), *_of_counts(result)))
    figures: list[_Drawn] = [*result.histograms, *result.curves, *result.pages, *result.tables]
    for drawn in figures:
        yield from (f"{result.attack}: {problem}" for problem in _of_drawn(drawn))


def _of_names(result: Completed) -> Iterator[str]:
    """Names of measurements that are no metric of the attack, so that nothing could be held against them."""
    known = {*result.metrics, *(item.name for item in result.measurements)}
    named = {*result.about_text, *result.methods, *(name for names in result.methods.values() for name in names)}
    yield from (f"{name} is none of its metrics" for name in sorted(named - known))
    yield from (f"no method stands for {metric}" for metric, names in result.methods.items() if not names)


def _of_counts(result: Completed) -> Iterator[str]:
    yield from (f"the count of {count.name} is negative" for count in result.counts if count.value < 0)
    for item in result.coverage:
        if not 0 <= item.attacked <= item.total or not 0 <= (item.unique or 0) <= item.attacked:
            yield f"it covers {item.attacked} of {item.total} {item.unit} of {item.category}"
    lists = {
        "counts": [item.name for item in result.counts],
        "diagnostics": [item.name for item in result.diagnostics],
        "tables": [item.name for item in result.tables],
    }
    for what, names in lists.items():
        for name, times in Counter(names).items():
            if times > 1:
                yield f"its {what} hold {name} {times} times"
    for category, times in Counter(item.category for item in result.coverage).items():
        if times > 1:
            yield f"its coverage of {category} stands there {times} times"


def of_measurements(source: str, measurements: Iterable[Measurement]) -> Iterator[str]:
    """Name what is wrong with the numbers of an attack."""
    listed = list(measurements)
    for name, times in Counter(item.name for item in listed).items():
        if times > 1:
            yield f"{source} {name} is measured {times} times"
    for item in listed:
        problems = _of_estimate(item) if isinstance(item, Estimate) else ["n is negative"] * (item.n < 0)
        yield from (f"{source} {item.name}: {problem}" for problem in problems)


def _of_estimate(item: Estimate) -> Iterator[str]:
    if item.low > item.high:
        yield f"low {item.low:g} is above high {item.high:g}"
    elif not _ascending(item.low, item.value, item.high):
        yield f"value {item.value:g} lies outside its interval from {item.low:g} to {item.high:g}"
    if item.level != LEVEL:
        yield f"level {item.level:g} is not {LEVEL:g}"
    if min(item.n, item.clusters) < 1:
        yield "it rests on nothing"
    elif item.clusters > item.n:
        yield f"{item.n} {item.unit} come from {item.clusters} independent ones"
    if (item.null is None) != (item.null_kind is None):
        yield "its null and the kind of its null do not go together"
    alphas = [bound.alpha for bound in item.bounds]
    if len(set(alphas)) < len(alphas) or not set(alphas) <= set(ALPHAS):
        yield "its bounds are at other levels than those of a scan"
    yield from _of_one_sided(item)


def _of_one_sided(item: Estimate) -> Iterator[str]:
    """A smaller alpha is a bound farther out, and the one of the interval's own level encloses the interval."""
    bounds = sorted(item.bounds, key=lambda bound: bound.alpha)
    slack = _NARROWING * (item.high - item.low)
    if not all(_encloses(outer, inner.lower + slack, inner.upper - slack) for outer, inner in pairwise(bounds)):
        yield "its bounds do not nest"
    if any(not _ascending(bound.lower, item.value, bound.upper) for bound in bounds):
        yield f"value {item.value:g} lies outside its bounds"
    own = [bound for bound in bounds if math.isclose(bound.alpha, _TAIL)]
    if not all(_encloses(bound, item.low, item.high) for bound in own):
        yield f"its interval from {item.low:g} to {item.high:g} is wider than its bounds at {_TAIL:g}"


def _encloses(bound: Bound, low: float, high: float) -> bool:
    return _at_most(bound.lower, low) and _at_most(high, bound.upper)


def _ascending(*numbers: float) -> bool:
    return all(map(_at_most, numbers, numbers[1:]))


def _at_most(one: float, other: float) -> bool:
    return one <= other or one <= other + _ROUNDING * max(1.0, abs(one))


def _of_drawn(drawn: _Drawn) -> Iterator[str]:
    if isinstance(drawn, Histogram):
        lengths = {len(counts) for counts in drawn.counts.values()}
        if lengths - {len(drawn.edges) - 1} or any(min(counts, default=0) < 0 for counts in drawn.counts.values()):
            yield f"the counts of the figure {drawn.name} do not fit its bins"
    elif isinstance(drawn, Curve):
        points = [point for series in drawn.series.values() for point in series]
        if not all(point.n >= 1 and _ascending(point.low, point.value, point.high) for point in points):
            yield f"a point of the figure {drawn.name} lies outside its interval, or rests on nothing"
    elif isinstance(drawn, DrawnPage):
        if len(drawn.boxes) != len(drawn.removed) or drawn.ratio <= 0:
            yield f"the drawing of page {drawn.document} does not hold together"
    elif any(len(row) != len(drawn.columns) for row in drawn.rows.values()):
        yield f"rows of the table {drawn.name} do not fit its columns"
