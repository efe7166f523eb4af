"""What a scan tried of each class of attack, against which attacker, and which clauses that is evidence for."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Literal

from pydantic import StringConstraints, TypeAdapter
from pydantic.dataclasses import dataclass

from audit.attacks import text_of
from audit.attacks.text import ACCESS_LABELS, Threat
from audit.measurements import STRICT, Estimate
from audit.policy import Verdict
from audit.record import AuditRecord, Result
from audit.report.answer import LABELS, plainest
from audit.report.leaks import unlimited, within
from audit.report.remedies import read_shipped

Written = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
FOR = LABELS["speaks"]["passed"]
"""The beginning of the role of every attack: no test can be evidence for more."""
Part = Literal[
    "coverage",
    "threat models",
    "ratio",
    "limits",
    "record",
    "sign-off",
    "countermeasures",
    "residual risk",
]
"""A part of the report that is evidence itself, whatever the attacks found."""


@dataclass(frozen=True, config=STRICT)
class Framework:
    """A law or a taxonomy, and the document that holds it."""

    name: Written
    source: Written


@dataclass(frozen=True, config=STRICT)
class Clause:
    """A place in a law or a taxonomy.

    Attributes:
        framework: its name.
        summary: what it asks, in our words.
        quote: its own words, only where these matter.
        read: the day on which it was read.
        seen: how, where that was not in the source itself.
        attack_class: the class of attack it names, of EDPB Opinion 28/2024, paragraph 55.
        outside: what of that class no attack of docaudit tries.
        unmapped: why nothing in a report is evidence for it.
        alike: ids of places in other frameworks that name the same attacks.
        short: its name in a narrow column; empty: `clause`.
    """

    id: Written
    framework: Written
    clause: Written
    summary: Written
    read: dt.date
    seen: Literal[
        "", "as quoted elsewhere", "as summarised elsewhere", "in a copy on another site"
    ] = ""
    quote: str = ""
    attack_class: str = ""
    outside: str = ""
    unmapped: str = ""
    alike: tuple[Written, ...] = ()
    short: str = ""


@dataclass(frozen=True, config=STRICT)
class Evidence:
    """What an attack, or a part of the report, is evidence for.

    Attributes:
        role: in words, without a full stop; that of an attack begins with `FOR`.
        clauses: their ids.
        metrics: those of the attack that count; empty: all of it.
        none: why an attack is evidence for no clause; then it has neither role nor clauses.
    """

    role: str = ""
    clauses: tuple[Written, ...] = ()
    attack: Written | None = None
    part: Part | None = None
    metrics: tuple[Written, ...] = ()
    none: str = ""


@dataclass(frozen=True, config=STRICT)
class Frameworks:
    """Laws and taxonomies, their clauses, each in its order, and all evidence, as `policies/frameworks.toml` has them.

    A test keeps that every attack is mapped and every clause has evidence or a reason why it has
    none.
    """

    schema: Literal[1]
    frameworks: tuple[Framework, ...]
    clauses: tuple[Clause, ...]
    mappings: tuple[Evidence, ...]

    def of_clause(self, clause: str) -> tuple[Evidence, ...]:
        """Return what is evidence for a clause."""
        return tuple(one for one in self.mappings if clause in one.clauses)

    def alike(self, clause: Clause) -> dict[str, tuple[str, ...]]:
        """Return the places that name the same attacks as a clause, itself included, by framework."""
        same = [one for one in self.clauses if one.id == clause.id or one.id in clause.alike]
        return {
            name: tuple(one.short or one.clause for one in same if one.framework == name)
            for name in dict.fromkeys(one.framework for one in same)
        }

    def of_attack(self, attack: str) -> tuple[Evidence, ...]:
        """Return what an attack is evidence for; empty for one that nobody has mapped."""
        return tuple(one for one in self.mappings if one.attack == attack)


@cache
def frameworks() -> Frameworks:
    """Read the shipped clauses and mappings.

    Raises:
        RenderError: the file cannot be read, with every problem of its fields.
    """
    return read_shipped("frameworks.toml", TypeAdapter(Frameworks))


State = Literal["tested", "tested in part", "not tested", "not applicable", "out of scope"]
NOT_STATED = "not stated"
RELEASES = LABELS["releases"]
OUTCOMES = LABELS["coverage_outcomes"]
"""What became of an attack's limits, the worst first."""
UNLIMITED = OUTCOMES["unlimited"]
LEAKING = {OUTCOMES[name]: OUTCOMES[f"{name}, leaking"] for name in ("passed", "unlimited")}
"""The same where what was measured speaks for a leak by itself."""
SPEAKS = {OUTCOMES.get(name, name): text for name, text in LABELS["speaks"].items()}
"""The beginning of a sentence on evidence, by what came of the attack."""


@dataclass(frozen=True)
class Examined:
    """What a scan did with one attack.

    Attributes:
        note: how much it tried, or why not.
        outcome: what became of its limits; empty where it was not examined.
    """

    attack: str
    title: str
    state: State
    note: str
    outcome: str = ""

    @property
    def sentence(self) -> str:
        """Join state, note and outcome on one line."""
        return f"{self.state}: {'; '.join(part for part in (self.note, self.outcome) if part)}"


@dataclass(frozen=True)
class CoverageRow:
    """A class of attack: what this scan tried of it, and what no attack of docaudit tries.

    Attributes:
        name: as EDPB Opinion 28/2024 lists it, or in our words where another framework alone names
            it.
        alike: by framework, the places that name the same attacks.
    """

    name: str
    state: State
    tried: tuple[Examined, ...]
    outside: str
    alike: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class ThreatRow:
    """An attack's threat model, in words."""

    title: str
    access: str
    least: str
    knowledge: str
    cost: str


@dataclass(frozen=True)
class LegalView:
    """Coverage, threat models, ratio of training data to parameters, and clauses, of one record.

    Attributes:
        quote: of EDPB Opinion 28/2024, paragraph 55, on what testing can show.
        clauses: of each law or taxonomy, with sentences on what of this report is evidence for
            each.
        release: to whom the model goes, as its owner states it, and which of the threat models that
            makes likely.
        unmapped: titles of attacks that nobody has mapped to a clause.
    """

    quote: str
    coverage: tuple[CoverageRow, ...]
    threats: tuple[ThreatRow, ...]
    release: str
    ratio: str
    clauses: Mapping[Framework, Sequence[tuple[Clause, Sequence[str]]]]
    unmapped: tuple[str, ...]


def legal_view(record: AuditRecord, verdict: Verdict) -> LegalView:
    """Say what of a record is evidence for which clause.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    known = frameworks()
    attacks = list(dict.fromkeys([*record.battery, *(result.attack for result in record.attacks)]))
    return LegalView(
        quote=next((clause.quote for clause in known.clauses if clause.id == "edpb-55"), ""),
        coverage=coverage(record, verdict),
        threats=tuple(_threat_row(record, attack) for attack in attacks),
        release=release(record),
        ratio=ratio(record),
        clauses={
            framework: [
                (clause, [*_sentences(record, verdict, known.of_clause(clause.id))])
                for clause in known.clauses
                if clause.framework == framework.name
            ]
            for framework in known.frameworks
        },
        unmapped=tuple(
            text_of(attack).title or attack for attack in attacks if not known.of_attack(attack)
        ),
    )


def coverage(record: AuditRecord, verdict: Verdict) -> tuple[CoverageRow, ...]:
    """Return a row for each class of attack that EDPB Opinion 28/2024 names, and one for each that nobody tries here.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    known = frameworks()
    rows = []
    for clause in (one for one in known.clauses if one.attack_class):
        tried = tuple(
            examined(record, verdict, one) for one in known.of_clause(clause.id) if one.attack
        )
        state, alike = _combine_states(tried), known.alike(clause)
        rows.append(CoverageRow(clause.attack_class, state, tried, clause.outside, alike))
    named = {name for clause in known.clauses for name in clause.alike}
    rows += [
        CoverageRow(
            clause.summary.partition(":")[0].rstrip("."),
            "out of scope",
            (),
            clause.unmapped,
            known.alike(clause),
        )
        for clause in known.clauses
        if clause.unmapped and clause.id not in named
    ]
    return tuple(rows)


def _combine_states(tried: Sequence[Examined]) -> State:
    """Combine the states of the attacks of a class.

    One that does not apply to a model is no gap.
    """
    states = {one.state for one in tried} - {"not applicable"}
    if not tried:
        return "out of scope"
    if not states:
        return "not applicable"
    return "tested in part" if len(states) > 1 else states.pop()


def examined(record: AuditRecord, verdict: Verdict, evidence: Evidence) -> Examined:
    """Say what a scan did with an attack, or with those of its metrics that count."""
    attack = evidence.attack or ""
    title = text_of(attack).title or attack
    result = record.results.get(attack)
    if result is not None and result.status == "completed":
        return _describe_completed(record, verdict, evidence, result, title)
    state, note, _ = why_not_run(record, attack)
    return Examined(attack, title, state, note)


def why_not_run(record: AuditRecord, attack: str) -> tuple[State, str, str]:
    """Return state, reason and remedy of an attack that gave no numbers."""
    result = record.results.get(attack)
    ask = "docaudit scan MODEL_DIR DATA_DIR" if record.corpus.forgotten else "scan without --only"
    if result is None and attack not in record.battery:
        return "not tested", "not in the version that scanned", "scan again"
    if result is None or result.reason is None or result.reason.kind == "left out":
        return "not tested", "not asked for in this scan", ask
    why, fix = result.reason.why, result.reason.fix
    if result.reason.kind == "model":
        return "not applicable", why, fix
    if result.status == "failed":
        return "not tested", f"broke down ({why})", "report this failure with the record"
    if result.status == "left out":
        return "not tested", f"not asked for in this scan; {why}", ask
    return "not tested", why, fix


def _describe_completed(
    record: AuditRecord, verdict: Verdict, evidence: Evidence, result: Result, title: str
) -> Examined:
    estimates = {item.name for item in result.measurements if isinstance(item, Estimate)}
    if evidence.metrics:
        # Limits on the attack's other metrics may have come out otherwise.
        title = ", ".join(
            [title, *(f"“{text_of(result.attack).label(one)}”" for one in evidence.metrics)]
        )
    if not (estimates & {*evidence.metrics} if evidence.metrics else estimates):
        return Examined(
            result.attack, title, "not tested", "the attack ran and could not measure this"
        )
    notes = [amount_tried(record, result)]
    if result.confounded is not None:
        notes.append(f"no limit can be met on its numbers: {result.confounded}")
    notes += [f"with the attacker weakened: {ablation}" for ablation in result.ablations]
    outcomes = {
        decision.outcome
        for decision in verdict.decisions
        if decision.limit.attack == result.attack
        and _metric_counts(evidence, decision.limit.metric)
    }
    outcome = next((text for name, text in OUTCOMES.items() if name in outcomes), UNLIMITED)
    found = (*within(record, verdict), *unlimited(record, verdict))
    if any(
        leak.attack == result.attack and _metric_counts(evidence, leak.metric) for leak in found
    ):
        outcome = LEAKING.get(outcome, outcome)
    return Examined(result.attack, title, "tested", "; ".join(filter(None, notes)), outcome)


def _metric_counts(evidence: Evidence, metric: str) -> bool:
    return not evidence.metrics or metric in evidence.metrics


def amount_tried(record: AuditRecord, result: Result) -> str:
    """Say how much an attack tried; empty where the record does not say."""
    for one in result.coverage:
        if one.category == "all":
            return f"{one.attacked:,} of {one.total:,} {one.unit} of training"
    measured = plainest(result)
    return "" if measured is None else f"{measured.n:,} {measured.unit}"


def _threat_row(record: AuditRecord, attack: str) -> ThreatRow:
    report = text_of(attack)
    threat, title = report.threat, report.title or attack
    result = record.completed.get(attack)
    cost = _describe_cost(record, threat, result) if result is not None else "not run"
    if threat is None:
        return ThreatRow(title, NOT_STATED, "", NOT_STATED, cost)
    least = (
        f"with {ACCESS_LABELS[threat.least]}: {threat.least_for}"
        if threat.least is not None
        else ""
    )
    return ThreatRow(title, ACCESS_LABELS[threat.access], least, threat.knowledge, cost)


def _describe_cost(record: AuditRecord, threat: Threat | None, result: Result) -> str:
    """Describe the cost of an attack: how much was tried, and the parameters of one trial."""
    parts = [amount_tried(record, result)]
    for name, label in (threat.effort if threat is not None else {}).items():
        number = result.parameters.get(name)
        if isinstance(number, int) and not isinstance(number, bool):
            parts.append(f"{number:,} {label}")
    return "; ".join(filter(None, parts)) or NOT_STATED


def ratio(record: AuditRecord) -> str:
    """Return the ratio of declared training data to parameters; empty where there is no model."""
    corpus = record.corpus
    members = sum(
        counts.get("member", 0) for counts in (corpus.documents, corpus.near_copies, corpus.unread)
    )
    parameters = record.target.parameters
    if not record.target.is_model or not members or not parameters:
        return ""
    values = {
        "marked values": sum(corpus.fields.get("member", {}).values()),
        "questions": corpus.questions.get("member", 0),
    }
    held = " and ".join(f"{count:,} {name}" for name, count in values.items() if count)
    more = f" (those that were audited hold {held})" if held else ""
    each = parameters / members
    return LABELS["ratio"]["declared"].format(
        members=members, more=more, parameters=parameters, each=each
    )


def release(record: AuditRecord) -> str:
    """Say to whom the model goes, as its owner states it, and which access that makes likely."""
    stated = record.audit.release
    return (
        f"Release, as the owner states it: {RELEASES[stated]}."
        if stated
        else f"Release: {NOT_STATED}."
    )


def _sentences(
    record: AuditRecord, verdict: Verdict, evidence: Sequence[Evidence]
) -> Iterator[str]:
    """Yield a sentence for each part of the report, and one for all attacks with the same outcome."""
    alike: dict[str, list[str]] = {}
    for one in evidence:
        if one.attack is None:
            yield one.role
        else:
            alike.setdefault(_speaks(examined(record, verdict, one)), []).append(
                one.role.removeprefix(FOR).strip()
            )
    order = [*SPEAKS.values(), *alike]
    yield from (f"{how} {'; '.join(alike[how])}" for how in sorted(alike, key=order.index))


def _speaks(done: Examined) -> str:
    """Return the beginning of a sentence on what the result of an attack is evidence for."""
    return SPEAKS.get(done.outcome) or SPEAKS[done.state]
