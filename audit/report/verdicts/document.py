"""A verdict as JSON: `verdict.schema.json` is its schema.

Types of its own, so that a change inside docaudit changes no pipeline that reads this.
"""

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from audit import __version__
from audit.attacks.text import Access
from audit.cards import SERVED, DerivedFrom
from audit.measurements import STRICT
from audit.policy import WORDS, Cause, PolicyIdentity, Word
from audit.policy.decision import Baseline, WaiverState
from audit.record import AuditRecord, Result, Status
from audit.report.facts.attackers import AccessRow, AccessState, Release
from audit.report.verdicts import Check, Judged

T = TypeVar("T")


@dataclass(frozen=True, config=STRICT)
class Number:
    """A measurement: its name, value, the ends of its interval, and what it is compared with (`null`)."""

    name: str
    value: float
    low: float
    high: float
    level: float
    n: int
    unit: str
    clusters: int
    method: str
    null: float | None
    null_kind: str | None


@dataclass(frozen=True, config=STRICT)
class WaiverEntry:
    """A waiver, with what it does on the day of the verdict; `days` are left until its end."""

    attack: str
    metric: str
    owner: str
    role: str
    reason: str
    measure: str
    expires: dt.date
    state: WaiverState
    days: int


@dataclass(frozen=True, config=STRICT)
class LimitOutcome:
    """What became of one limit.

    Attributes:
        counts: whether an open outcome has its part in the exit code.
        about_text: whether it is a finding about the documents' own text, whatever the model.
        p_value: one-sided, against the limit, after Holm.
        waived_by: who answers for a waived violation.
    """

    attack: str
    metric: str
    max: float | None
    min: float | None
    required: bool
    outcome: Word
    counts: bool
    reason: str
    remedy: str
    cause: Cause | None
    about_text: bool
    measured: Number | None
    power: Number | None
    p_value: float | None
    waived_by: str | None


@dataclass(frozen=True, config=STRICT)
class AttackState:
    """What became of an attack that was asked for; `reason` where it did not run to its end."""

    attack: str
    status: Status
    reason: str


@dataclass(frozen=True, config=STRICT)
class Subject:
    """What was audited.

    No model where the text was audited alone, no digest of one behind a server.
    """

    model: str | None
    model_sha256: str | None
    data: str
    data_sha256: str
    scanned: str


@dataclass(frozen=True, config=STRICT)
class LimitCounts:
    """Limits that the verdict is reached on, by what became of them."""

    limits: int
    met: int
    waived: int
    exceeded: int
    undecided: int
    unexamined: int


@dataclass(frozen=True, config=STRICT)
class Outside:
    """A finding that no limit of the policy is about."""

    attack: str
    metric: str
    measured: Number


@dataclass(frozen=True, config=STRICT)
class AccessEntry:
    """What an attack found with one kind of access to the model, or with less.

    Attributes:
        state: whether a leak was shown; "not shown" is no proof of the contrary.
        outcome: the worst outcome of the limits on these numbers; None where none limits one.
        measured: the number that shows it, or that the limit was held against.
    """

    attack: str
    access: Access
    state: AccessState
    outcome: Word | None
    measured: Number | None


@dataclass(frozen=True, config=STRICT)
class ReleaseEntry:
    """What follows for one way to give the model away: names of attacks by what was found.

    Attributes:
        exceeded: of `shown`, those by which a limit is exceeded and not waived.
        undecided: of `not_shown`, those with an undecided limit.
        by_server: of `not_tested`, those that a scan of a server would try.
        with_scores: shown to outsiders who get scores, and not to those who get answers alone.
    """

    release: Release
    shown: tuple[str, ...]
    exceeded: tuple[str, ...]
    not_shown: tuple[str, ...]
    undecided: tuple[str, ...]
    not_tested: tuple[str, ...]
    by_server: tuple[str, ...]
    with_scores: tuple[str, ...]


@dataclass(frozen=True, config=STRICT)
class VerdictDocument:
    """The verdict on a record.

    Attributes:
        docaudit: the version that reached it.
        exit_code: of `docaudit gate`, unless it is given --no-exit-code.
        text_verdict: on what the documents' own text gives away; None where the policy has no limit
            on that.
        contradicted: why the guarantee that the training claims is false; None where it is not.
        outside_policy: findings that no limit is about.
        baseline: the earlier scan that it was held against too; None: against none.
        derived_from: the audited model that this one is an export of, and whether it leaks more.
        access: who can do it, by access to the model.
        releases: what follows for a model that stays internal, is hosted or is shared.
    """

    schema_version: Literal[2]
    docaudit: str
    verdict: Word
    stamp: str
    exit_code: int
    reason: str
    text_verdict: Word | None
    text_reason: str
    contradicted: str | None
    subject: Subject
    policy: PolicyIdentity | None
    counts: LimitCounts
    limits: tuple[LimitOutcome, ...]
    attacks: tuple[AttackState, ...]
    waivers: tuple[WaiverEntry, ...]
    outside_policy: tuple[Outside, ...]
    baseline: Baseline | None
    derived_from: DerivedFrom | None
    access: tuple[AccessEntry, ...]
    releases: tuple[ReleaseEntry, ...]


_DOCUMENT: TypeAdapter[VerdictDocument] = TypeAdapter(VerdictDocument)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the verdict."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_DOCUMENT.json_schema(mode="serialization"),
    }


def as_json(judged: Judged) -> str:
    """Draw the verdict as JSON text."""
    content = _DOCUMENT.dump_python(document(judged), mode="json")
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def document(judged: Judged) -> VerdictDocument:
    """Return the verdict in the types of the JSON format."""
    record = judged.record
    verdict = judged.verdict
    return _fill_entry(
        VerdictDocument,
        verdict,
        schema_version=2,
        docaudit=__version__,
        verdict=verdict.word,
        text_verdict=None if verdict.text is None else WORDS[verdict.text],
        subject=subject_of(record),
        derived_from=record.derived_from,
        policy=verdict.identity,
        counts=_fill_entry(LimitCounts, verdict.counts, exceeded=verdict.counts.violated),
        limits=tuple(map(_limit_entry, judged.limits)),
        attacks=tuple(
            AttackState(result.attack, result.status, _attack_reason(result))
            for result in record.attacks
        ),
        waivers=tuple(_fill_entry(WaiverEntry, item.waiver, item) for item in verdict.waivers),
        outside_policy=tuple(
            Outside(leak.attack, leak.metric, _fill_entry(Number, leak.measured))
            for leak in judged.facts.outside
        ),
        access=tuple(_access_entries(judged.facts.access)),
        releases=tuple(_fill_entry(ReleaseEntry, line) for line in judged.facts.releases),
    )


def _access_entries(rows: Sequence[AccessRow]) -> Iterator[AccessEntry]:
    """Yield an entry for each attack and access."""
    for row in rows:
        for access, cell in row.cells.items():
            measured = None
            if cell.measured is not None:
                measured = _fill_entry(Number, cell.measured)
            outcome = WORDS[cell.outcome] if cell.outcome else None
            yield AccessEntry(row.attack, access, cell.state, outcome, measured)


def subject_of(record: AuditRecord) -> Subject:
    """Return what was audited, as the format names it."""
    target = record.target
    corpus = record.corpus
    name = target.name if target.is_model else None
    digest = target.sha256 if target.is_model and target.family != SERVED else None
    return Subject(name, digest, corpus.name, corpus.sha256, record.timing.started)


def _fill_entry(kind: type[T], *sources: object, **given: object) -> T:
    """Make an entry of given values, and of attributes of sources.

    A field without a value has that of the first source with an attribute of its name.
    """
    values = dict(given)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in given:
            source = next(source for source in sources if hasattr(source, field.name))
            values[field.name] = getattr(source, field.name)
    return kind(**values)


def _limit_entry(check: Check) -> LimitOutcome:
    """Return the entry of the JSON verdict for the check of a limit."""
    decision = check.decision
    assert decision is not None
    return _fill_entry(
        LimitOutcome,
        decision.limit,
        decision,
        check,
        outcome=check.word,
        measured=None if decision.measured is None else _fill_entry(Number, decision.measured),
        power=None if decision.power is None else _fill_entry(Number, decision.power),
        waived_by=None if decision.waiver is None else decision.waiver.owner,
    )


def _attack_reason(result: Result) -> str:
    """Say why an attack did not run to its end; empty where it did."""
    if result.reason is None:
        return ""
    if result.status == "skipped":
        return f"{result.reason.why}; to run it: {result.reason.fix}"
    return result.reason.why
