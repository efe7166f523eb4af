"""`policies/frameworks.toml`: every attack is mapped, every clause has evidence or a reason, nothing is misspelt."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from audit import policy as policies
from audit.attacks import TEXTS, known_metrics
from audit.attacks.battery import BATTERY
from audit.attacks.interface import Attack
from audit.errors import PolicyError, RenderError
from audit.report.frameworks import FOR, frameworks, load
from audit.resources import folder

SHIPPED = (folder("policies") / "frameworks.toml").read_text(encoding="utf-8")
ALL = pytest.mark.parametrize("kind", BATTERY, ids=lambda kind: kind.name)


@ALL
def test_every_attack_is_evidence_for_a_clause_or_says_why_for_none(kind: type[Attack]) -> None:
    mapped = frameworks().of_attack(kind.name)
    assert mapped
    assert all(one.none or (one.clauses and one.role.startswith(FOR)) for one in mapped)


@ALL
def test_every_attack_states_its_threat_model_and_parameters_that_it_has(kind: type[Attack]) -> None:
    threat = TEXTS[kind.name].threat
    assert threat is not None
    assert threat.knowledge
    assert bool(threat.least) == bool(threat.least_for)
    assert {*threat.effort} <= {field.name for field in dataclasses.fields(kind)}


def test_the_classes_of_attack_of_the_opinion_are_all_there() -> None:
    classes = [clause.attack_class for clause in frameworks().clauses if clause.attack_class]
    assert [name.partition(" ")[0] for name in classes] == ["(i)", "(i)", "(ii)", "(iii)", "(iv)", "(v)"]
    assert all(clause.outside for clause in frameworks().clauses if clause.attack_class)


def changed(tmp_path: Path, old: str, new: str) -> Path:
    path = tmp_path / "frameworks.toml"
    assert old in SHIPPED
    path.write_text(SHIPPED.replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('attack = "canaries"', 'attack = "canary"', "canary: no attack is called that"),
        ('metrics = ["target_gain"]', 'metrics = ["target_gains"]', "redaction: there is no metric 'target_gains'"),
        ('clauses = ["edpb-58-e"]', 'clauses = ["edpb-58-f"]', "ratio: no clause is called 'edpb-58-f'"),
        ('clauses = ["edpb-58-e"]', 'clauses = ["edpb-55"]', "edpb-58-e: give it evidence, or say in `unmapped`"),
        ('part = "ratio"', 'part = "ratios"', "mappings"),
        ('framework = "GDPR"', 'framework = "GDRP"', "gdpr-5-2: no framework is called 'GDRP'"),
        ('id = "edpb-46"', 'id = "edpb-55"', "edpb-55: is there 2 times"),
        ("summary =", "summery =", "summery"),
        ("unmapped =", "quote =", "nistaml-034: give it evidence, or say in `unmapped`"),
        ('attack = "canaries"\n', "", "a mapping: name either an attack or a part"),
        ('role = "evidence for the resistance to extraction', 'role = "proof of resistance to', "has to begin with"),
        ('role = "evidence for the resistance to extraction', 'none = "', "canaries: give clauses and a role"),
        ("schema = 1", "schema = 1 1", "frameworks.toml"),
    ],
)
def test_what_is_misspelt_or_left_without_a_reason_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(RenderError, match="frameworks") as refused:
        load(changed(tmp_path, old, new), known_metrics())
    assert any(said in problem for problem in refused.value.problems), refused.value.problems


def test_an_attack_may_be_evidence_for_nothing_and_say_why(tmp_path: Path) -> None:
    path = tmp_path / "frameworks.toml"
    path.write_text(f'{SHIPPED}\n[[mappings]]\nattack = "loss_gap"\nnone = "it says nothing of people"\n')
    loaded = load(path, {**known_metrics(), "loss_gap": {}})
    assert [one.none for one in loaded.of_attack("loss_gap")] == ["it says nothing of people"]


def test_it_is_no_policy() -> None:
    with pytest.raises(PolicyError):
        policies.load("frameworks")
