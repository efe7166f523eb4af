"""Say what a scan tried of each class of attack, and which clauses that is evidence for."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Literal

from pydantic import StringConstraints, TypeAdapter
from pydantic.dataclasses import dataclass

from audit.attacks import text_of
from audit.attacks.text import ACCESS_LABELS, Threat
from audit.measurements import STRICT, Coverage, Estimate
from audit.record import AuditRecord, Result
from audit.report.facts.definitions import Facts, title_of
from audit.report.labels import LABELS
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
    "guarantee",
    "access",
    "origin",
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
        measure: whether it asks for a measure, which is no class of attack.
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
    measure: bool = False


@dataclass(frozen=True, config=STRICT)
class Evidence:
    """What an attack, or a part of the report, is evidence for.

    Attributes:
        role: in words, without a full stop; that of an attack begins with `FOR`.
        clauses: their ids.
        metrics: those of the attack that count; empty: all of it.
        field: where record.json holds a part of the report; empty: nowhere.
        none: why an attack is evidence for no clause; then it has neither role nor clauses.
    """

    role: str = ""
    clauses: tuple[Written, ...] = ()
    attack: Written | None = None
    part: Part | None = None
    metrics: tuple[Written, ...] = ()
    field: str = ""
    none: str = ""

    @property
    def place(self) -> str:
        """Return where record.json holds the evidence; empty where it does not."""
        if self.attack is None:
            return self.field
        names = ", ".join(self.metrics)
        return f"attacks[{self.attack}].measurements{f'[{names}]' if names else ''}"


@dataclass(frozen=True, config=STRICT)
class Frameworks:
    """Laws and taxonomies, their clauses, and all evidence, as `policies/frameworks.toml` has them.

    Each keeps its order there. A test keeps that every attack is mapped, and that every clause has
    evidence or a reason why it has none.
    """

    schema: Literal[1]
    frameworks: tuple[Framework, ...]
    clauses: tuple[Clause, ...]
    mappings: tuple[Evidence, ...]

    def of_clause(self, clause: str) -> tuple[Evidence, ...]:
        """Return what is evidence for a clause."""
        return tuple(evidence for evidence in self.mappings if clause in evidence.clauses)

    def alike(self, clause: Clause) -> dict[str, tuple[str, ...]]:
        """Return the places that name the same attacks as a clause, by framework.

        The clause itself is among them.
        """
        ids = {clause.id, *clause.alike}
        places: dict[str, tuple[str, ...]] = {}
        for item in self.clauses:
            if item.id in ids:
                place = item.short or item.clause
                places[item.framework] = (*places.get(item.framework, ()), place)
        return places

    def of_attack(self, attack: str) -> tuple[Evidence, ...]:
        """Return what an attack is evidence for; empty for one that nobody has mapped."""
        return tuple(evidence for evidence in self.mappings if evidence.attack == attack)


@cache
def frameworks() -> Frameworks:
    """Read the shipped clauses and mappings.

    Raises:
        RenderError: the file cannot be read, with every problem of its fields.
    """
    return read_shipped("frameworks.toml", TypeAdapter(Frameworks))


State = Literal[
    "leak found", "tested", "tested in part", "not tested", "not applicable", "out of scope"
]
NOT_STATED = "not stated"
RELEASES = LABELS["releases"]
OUTCOMES = LABELS["coverage_outcomes"]
"""What became of an attack's limits in words, the worst first."""
LEAKING = {"passed": "passed, leaking", "unlimited": "unlimited, leaking"}
"""The same where what was measured speaks for a leak by itself."""
LEAKS = frozenset({"violated", "waived", *LEAKING.values()})
"""What became of an attack that found a leak, whatever the limits say of it."""
SPEAKS = LABELS["speaks"]
"""The beginning of a sentence on evidence, by what came of the attack."""


@dataclass(frozen=True)
class Examined:
    """What a scan did with one attack.

    Attributes:
        note: how much it tried, or why not.
        outcome: what became of its limits, by name; empty where it was not examined.
    """

    attack: str
    title: str
    state: State
    note: str
    outcome: str = ""

    @property
    def sentence(self) -> str:
        """Join state, note and outcome on one line."""
        return f"{self.state}: {'; '.join(filter(None, [self.note, self.result]))}"

    @property
    def result(self) -> str:
        """Say what became of its limits; empty where it was not examined."""
        return OUTCOMES.get(self.outcome, "")


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


def legal_view(facts: Facts) -> LegalView:
    """Say what of a record is evidence for which clause.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    record = facts.record
    shipped = frameworks()
    names = [*record.battery, *(result.attack for result in record.attacks)]
    attacks = list(dict.fromkeys(names))
    return LegalView(
        quote=_quote(shipped),
        coverage=coverage(facts),
        threats=tuple(_threat_row(facts, attack) for attack in attacks),
        release=release(record),
        ratio=ratio(facts),
        clauses={framework: _clauses_of(facts, framework) for framework in shipped.frameworks},
        unmapped=tuple(title_of(attack) for attack in attacks if not shipped.of_attack(attack)),
    )


def _quote(shipped: Frameworks) -> str:
    """Return what EDPB Opinion 28/2024, paragraph 55, says of what testing can show."""
    for clause in shipped.clauses:
        if clause.id == "edpb-55":
            return clause.quote
    return ""


def _clauses_of(facts: Facts, framework: Framework) -> list[tuple[Clause, list[str]]]:
    """Return the clauses of a framework, each with sentences on what is evidence for it."""
    shipped = frameworks()
    clauses = [clause for clause in shipped.clauses if clause.framework == framework.name]
    return [(clause, list(_sentences(facts, shipped.of_clause(clause.id)))) for clause in clauses]


def coverage(facts: Facts) -> tuple[CoverageRow, ...]:
    """Return a row for each class of attack.

    These are those of EDPB Opinion 28/2024, and those that nobody tries here.

    Raises:
        RenderError: `policies/frameworks.toml` is broken.
    """
    shipped = frameworks()
    rows = [_class_row(facts, clause) for clause in shipped.clauses if clause.attack_class]
    elsewhere: set[str] = set()
    for clause in shipped.clauses:
        elsewhere.update(clause.alike)
    for clause in shipped.clauses:
        if clause.unmapped and not clause.measure and clause.id not in elsewhere:
            name = clause.summary.partition(":")[0].rstrip(".")
            alike = shipped.alike(clause)
            rows.append(CoverageRow(name, "out of scope", (), clause.unmapped, alike))
    return tuple(rows)


def _class_row(facts: Facts, clause: Clause) -> CoverageRow:
    """Return what was tried of the class of attack that a clause names."""
    shipped = frameworks()
    tried = tuple(
        examined(facts, evidence) for evidence in shipped.of_clause(clause.id) if evidence.attack
    )
    state = _combine_states(tried)
    return CoverageRow(clause.attack_class, state, tried, clause.outside, shipped.alike(clause))


def _combine_states(tried: Sequence[Examined]) -> State:
    """Combine the states of the attacks of a class: a leak weighs more than a gap.

    One that does not apply to a model is no gap.
    """
    if any(attack.outcome in LEAKS for attack in tried):
        return "leak found"
    states = {attack.state for attack in tried} - {"not applicable"}
    if not tried:
        return "out of scope"
    if not states:
        return "not applicable"
    return "tested in part" if len(states) > 1 else states.pop()


def examined(facts: Facts, evidence: Evidence) -> Examined:
    """Say what a scan did with an attack, or with those of its metrics that count."""
    attack = evidence.attack or ""
    result = facts.record.results.get(attack)
    if result is not None and result.status == "completed":
        return _describe_completed(facts, evidence, result)
    state, note, _ = why_not_run(facts.record, attack)
    return Examined(attack, title_of(attack), state, note)


def why_not_run(record: AuditRecord, attack: str) -> tuple[State, str, str]:
    """Return state, reason and remedy of an attack that gave no numbers."""
    result = record.results.get(attack)
    if result is None and attack not in record.battery:
        return "not tested", "not in the version that scanned", "scan again"
    scan_all = "scan without --only"
    if record.corpus.forgotten:
        scan_all = "docaudit scan MODEL_DIR DATA_DIR"
    if result is None or result.reason is None or result.reason.kind == "left out":
        return "not tested", "not asked for in this scan", scan_all
    why = result.reason.why
    fix = result.reason.fix
    if result.reason.kind == "model":
        return "not applicable", why, fix
    if result.status == "failed":
        return "not tested", f"broke down ({why})", "report this failure with the record"
    if result.status == "left out":
        return "not tested", f"not asked for in this scan; {why}", scan_all
    return "not tested", why, fix


def _describe_completed(facts: Facts, evidence: Evidence, result: Result) -> Examined:
    """Say how much an attack tried, what weakens its numbers, and its limits' outcomes."""
    title = title_of(result.attack)
    if evidence.metrics:
        # Limits on the attack's other metrics may have come out otherwise.
        text = text_of(result.attack)
        labels = [f"“{text.label(metric)}”" for metric in evidence.metrics]
        title = ", ".join([title, *labels])
    if not _has_numbers(evidence, result):
        return Examined(
            result.attack, title, "not tested", "the attack ran and could not measure this"
        )
    notes = [amount_tried(facts, result)]
    confounded = facts.verdict.settled.confounded(result.attack)
    if confounded is not None:
        notes.append(f"no limit can be met on its numbers: {confounded}")
    notes += [f"with the attacker weakened: {ablation}" for ablation in result.ablations]
    outcome = _outcome_for(facts, evidence, result.attack)
    return Examined(result.attack, title, "tested", "; ".join(filter(None, notes)), outcome)


def _has_numbers(evidence: Evidence, result: Result) -> bool:
    """Tell whether an attack measured anything that the evidence is about."""
    estimates = {item.name for item in result.measurements if isinstance(item, Estimate)}
    if evidence.metrics:
        return not estimates.isdisjoint(evidence.metrics)
    return bool(estimates)


def _outcome_for(facts: Facts, evidence: Evidence, attack: str) -> str:
    """Return what became of the limits that the evidence is about, the worst first.

    It may leak all the same.
    """
    outcomes = {
        decision.outcome
        for decision in facts.by_attack[attack].decisions
        if _metric_counts(evidence, decision.limit.metric)
    }
    worst = "unlimited"
    for outcome in OUTCOMES:
        if outcome in outcomes:
            worst = outcome
            break
    for leak in (*facts.accepted, *facts.outside):
        if leak.attack == attack and _metric_counts(evidence, leak.metric):
            return LEAKING.get(worst, worst)
    return worst


def _metric_counts(evidence: Evidence, metric: str) -> bool:
    """Test whether the evidence is about a metric: it names the metric, or names none at all."""
    return not evidence.metrics or metric in evidence.metrics


def amount_tried(facts: Facts, result: Result) -> str:
    """Say how much an attack tried; empty where the record does not say."""
    row = coverage_of(result)
    if row is not None:
        return f"{row.attacked:,} of {row.total:,} {row.unit} of training"
    measured = facts.by_attack[result.attack].plainest
    return "" if measured is None else f"{measured.n:,} {measured.unit}"


def coverage_of(result: Result) -> Coverage | None:
    """Return how much of all that could leak an attack tried; None where it does not say."""
    for row in result.coverage:
        if row.category == "all":
            return row
    return None


def _threat_row(facts: Facts, attack: str) -> ThreatRow:
    """Make a table row of what an attacker needs: access, knowledge and cost of the attack."""
    threat = text_of(attack).threat
    title = title_of(attack)
    result = facts.record.completed.get(attack)
    cost = "not tested"
    if result is not None:
        cost = describe_cost(facts, threat, result)
    if threat is None:
        return ThreatRow(title, NOT_STATED, "", NOT_STATED, cost)
    least = ""
    if threat.least is not None:
        least = f"with {ACCESS_LABELS[threat.least]}: {threat.least_for}"
    return ThreatRow(title, ACCESS_LABELS[threat.access], least, threat.knowledge, cost)


def describe_cost(facts: Facts, threat: Threat | None, result: Result) -> str:
    """Describe the cost of an attack: how much was tried, and the parameters of one trial."""
    parts = [amount_tried(facts, result)]
    effort = {} if threat is None else threat.effort
    for name, label in effort.items():
        number = result.parameters.get(name)
        if isinstance(number, int) and not isinstance(number, bool):
            parts.append(f"{number:,} {label}")
    return "; ".join(filter(None, parts)) or NOT_STATED


def ratio(facts: Facts) -> str:
    """Return the ratio of declared training data to parameters; empty where there is no model."""
    each = facts.parameters_per_document
    if each is None:
        return ""
    corpus = facts.record.corpus
    values = {
        "marked values": sum(corpus.fields.get("member", {}).values()),
        "questions": corpus.questions.get("member", 0),
    }
    counted = " and ".join(f"{count:,} {name}" for name, count in values.items() if count)
    more = f" (those that were audited hold {counted})" if counted else ""
    return LABELS["ratio"]["declared"].format(
        members=facts.n_declared,
        more=more,
        parameters=facts.record.target.parameters,
        each=each,
    )


def release(record: AuditRecord) -> str:
    """Write to whom the owner gives the model, and which access that makes likely."""
    stated = record.audit.release
    return (
        f"Release, as the owner states it: {RELEASES[stated]}."
        if stated
        else f"Release: {NOT_STATED}."
    )


def _sentences(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[str]:
    """Yield a sentence for each part of the report.

    All attacks with the same outcome share one.
    """
    roles: dict[str, list[str]] = {}
    for item in evidence:
        if item.attack is None:
            yield item.role
            continue
        beginning = _speaks(examined(facts, item))
        roles.setdefault(beginning, []).append(item.role.removeprefix(FOR).strip())
    order = [*SPEAKS.values(), *roles]
    for beginning in sorted(roles, key=order.index):
        yield f"{beginning} {'; '.join(roles[beginning])}"
    places = [item.place for item in evidence if item.place]
    if places:
        yield f"in record.json: {'; '.join(places)}"


def _speaks(attack: Examined) -> str:
    """Return the beginning of a sentence on what the result of an attack is evidence for."""
    return SPEAKS.get(attack.outcome) or SPEAKS[attack.state]
