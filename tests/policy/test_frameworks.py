"""`policies/frameworks.toml`: every attack is mapped, every clause has evidence or a reason, nothing is misspelt."""

import dataclasses
from pathlib import Path

import example_records as examples
import pytest

from audit.attacks import TEXTS, known_metrics
from audit.attacks.battery import BATTERY
from audit.attacks.interface import Attack
from audit.errors import RenderError
from audit.files import shipped_folder
from audit.record import AuditRecord
from audit.report.coverage import FOR, coverage, frameworks
from audit.report.facts.build import facts_of

SHIPPED = (shipped_folder("policies") / "frameworks.toml").read_text(encoding="utf-8")
ALL = pytest.mark.parametrize("kind", BATTERY, ids=lambda kind: kind.name)


@ALL
def test_every_attack_is_evidence_for_a_clause_or_says_why_for_none(kind: type[Attack]) -> None:
    mapped = frameworks().of_attack(kind.name)
    assert mapped
    assert all(one.none or (one.clauses and one.role.startswith(FOR)) for one in mapped)


@ALL
def test_every_attack_states_its_threat_model_and_parameters_that_it_has(
    kind: type[Attack],
) -> None:
    threat = TEXTS[kind.name].threat
    assert threat is not None
    assert threat.knowledge
    assert bool(threat.least) == bool(threat.least_for)
    assert {*threat.effort} <= {field.name for field in dataclasses.fields(kind)}


def test_every_clause_has_evidence_or_a_reason_why_it_has_none() -> None:
    known = frameworks()
    names = [clause.id for clause in known.clauses]
    assert len(names) == len(set(names))
    assert {name for one in known.mappings for name in one.clauses} <= set(names)
    assert {clause.framework for clause in known.clauses} == {one.name for one in known.frameworks}
    assert all(
        bool(known.of_clause(clause.id)) != bool(clause.unmapped) for clause in known.clauses
    )


def test_every_mapping_is_of_an_attack_or_a_part_with_clauses_and_a_role_or_a_reason() -> None:
    metrics = known_metrics()
    for one in frameworks().mappings:
        assert (one.attack is None) != (one.part is None), one
        assert one.attack is None or {*one.metrics} <= {*metrics[one.attack]}, one
        assert bool(one.none) != bool(one.clauses), one
        assert bool(one.role) == bool(one.clauses), one
        assert one.attack is None or not one.role or one.role.startswith(FOR), one


@pytest.mark.parametrize(
    ("old", "new"), [("summary =", "summery ="), ('part = "ratio"', 'part = "ratios"'), ("[", "")]
)
def test_a_file_that_is_broken_is_refused(
    tmp_path: Path, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "frameworks.toml"
    path.write_text(SHIPPED.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr("audit.report.remedies.shipped_folder", lambda _: tmp_path)
    with pytest.raises(RenderError, match="frameworks"):
        frameworks.__wrapped__()


def test_every_place_in_the_record_exists() -> None:
    roots = {field.name for field in dataclasses.fields(AuditRecord)}
    for mapping in frameworks().mappings:
        for place in mapping.place.split(", "):
            root = place.partition(".")[0].partition("[")[0]
            assert not place or root in roots or mapping.attack, place


@pytest.mark.parametrize(
    ("clause", "attacks"),
    [
        ("aisvs-11-2-5", {"membership", "provider_membership"}),
        ("nist-600-1-2-10-001", {*TEXTS} - {"redaction"}),
        ("dpia-inherent", {*TEXTS}),
    ],
)
def test_a_clause_on_tests_names_the_attacks_that_answer_it(clause: str, attacks: set[str]) -> None:
    mapped = {one.attack for one in frameworks().of_clause(clause) if one.attack}
    assert mapped == attacks


def test_a_requirement_that_no_attack_tests_is_no_class_of_attack() -> None:
    rows = coverage(facts_of(*examples.violated()[:2]))
    assert not any("atermark" in row.name for row in rows)
