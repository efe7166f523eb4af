"""A verdict as OpenMetrics text: gauges for each limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import get_args

from audit.corpus.paths import printable
from audit.policy import Outcome, Overall
from audit.report.verdicts.judged import Check, Judged

Sample = tuple[dict[str, str], float]
Family = tuple[str, str, Iterable[Sample]]


def as_openmetrics(judged: Judged) -> str:
    """Draw the verdict and every limit as gauges, in the text format of OpenMetrics 1.0."""
    lines = [line for family in _families(judged) for line in _lines(*family)]
    return "\n".join([*lines, "# EOF", ""])


def _families(judged: Judged) -> Iterator[Family]:
    record, verdict, checks = judged.record, judged.verdict, judged.checks
    subject = {"model": record.target.name, "data": record.corpus.name, "policy": verdict.policy}

    def labels(check: Check) -> dict[str, str]:
        return {**subject, "attack": check.attack, "metric": check.metric}

    def states(own: dict[str, str], outcome: Outcome, among: object = Overall) -> Iterator[Sample]:
        for state in get_args(among):
            yield {**own, "outcome": state}, float(state == outcome)

    known = [(labels(check), measured) for check in checks if (measured := check.decision.measured) is not None]
    yield "docaudit_estimate", "Measured leak.", [(own, one.value) for own, one in known]
    yield "docaudit_estimate_low", "Lower end of its interval.", [(own, one.low) for own, one in known]
    yield "docaudit_estimate_high", "Upper end of its interval.", [(own, one.high) for own, one in known]
    yield "docaudit_estimate_units", "Units that it rests on.", [(own, one.n) for own, one in known]
    yield "docaudit_limit", "Limit of the policy.", [_limit(labels(check), check) for check in checks]
    by_limit = [sample for check in checks for sample in states(labels(check), check.decision.outcome, Outcome)]
    yield "docaudit_limit_outcome", "1 for the outcome of the limit, 0 for all others.", by_limit
    yield "docaudit_verdict", "1 for the verdict, 0 for all others.", states(subject, verdict.overall)
    if verdict.text is not None:
        yield "docaudit_text_verdict", "The same of the documents' own text.", states(subject, verdict.text)
    yield "docaudit_exit_code", "Exit code of docaudit gate.", [(subject, verdict.exit_code)]
    finished = datetime.fromisoformat(record.timing.finished).timestamp()
    yield "docaudit_scan_finished_seconds", "End of the scan, since 1970.", [(subject, finished)]


def _limit(own: dict[str, str], check: Check) -> Sample:
    limit = check.decision.limit
    if limit.max is not None:
        return {**own, "bound": "max"}, limit.max
    assert limit.min is not None
    return {**own, "bound": "min"}, limit.min


def _lines(name: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} {meaning}"
    for labels, value in samples:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{pairs}}} {float(value)!r}"


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
