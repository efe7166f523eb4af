"""What attacks ask of a model, and which access to the model that needs."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import audit.attacks
from audit.attacks import FOLDERS, TEXTS
from audit.attacks.text import QUERY_ACCESS, Ask, Threat
from audit.targets import interface

FOLDER = Path(audit.attacks.__file__).parent
NAME_OF = {text.name: folder for text, folder in zip(TEXTS.values(), FOLDERS, strict=False)}
LOOKED_FOR = {"canaries": {"BestLinks", "TrainingLoss"}}
"""Queries that an attack looks for in a model and never asks."""
BESIDE = {"reconstruction": {"Answer"}}
"""Queries that an attack asks only beside others that need more: without these it does not run."""
ASKED_OF_NO_ATTACK = {"membership/reading.py"}
"""Modules that ask how well a model does its task, which is no attack."""


def queries() -> set[str]:
    """Name the query types of docaudit, without those that others extend."""
    names = set()
    for name, kind in vars(interface).items():
        if isinstance(kind, type) and issubclass(kind, interface.Query):
            names.add(name)
    return names - {"Query", "PageQuery", "PageViewQuery"}


def names_in(folder: Path) -> Iterator[str]:
    """Yield the names that the modules of a folder use."""
    for path in sorted(folder.glob("*.py")):
        if f"{folder.name}/{path.name}" in ASKED_OF_NO_ATTACK:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name):
                yield node.id
            if isinstance(node, ast.Attribute):
                yield node.attr


def threat_of(attack: str) -> Threat:
    """Return the threat model that an attack states."""
    threat = TEXTS[attack].threat
    assert threat is not None
    return threat


def test_every_query_type_says_what_an_attacker_needs_for_it() -> None:
    assert set(QUERY_ACCESS) == queries()


@pytest.mark.parametrize("attack", NAME_OF)
def test_an_attack_declares_every_query_that_its_code_names(attack: str) -> None:
    declared: set[str] = set()
    for asked in threat_of(attack).asks:
        declared.update(asked.queries)
    used = {*names_in(FOLDER / NAME_OF[attack])} & queries()
    implied = LOOKED_FOR.get(attack, set()) | BESIDE.get(attack, set())
    assert used - implied <= declared


@pytest.mark.parametrize(
    ("attack", "metric", "task", "access"),
    [
        ("reconstruction", "excess_pr.unique", "token-classification", "scores"),
        ("reconstruction", "excess_pr.unique.near", "token-classification", "scores"),
        ("reconstruction", "excess_pr.unique", "mlm", "scores"),
        ("reconstruction", "excess_pr.unique.near", "mlm", "answers"),
        ("reconstruction", "values_identified.lowest_loss", "mlm", "answers"),
        ("memorisation", "net", "question-answering", "answers"),
        ("memorisation", "net.discoverable", "question-answering", "scores"),
        ("provider_membership", "balanced_accuracy.azk", "question-answering", "answers"),
        ("provider_membership", "balanced_accuracy.azk_ensemble", "question-answering", "answers"),
        ("provider_membership", "balanced_accuracy.apk", "question-answering", "scores"),
        ("canaries", "extracted", "token-classification", "weights"),
        ("canaries", "extracted", "question-answering", "scores"),
        ("redaction", "lift_share", "mlm", "copies"),
        ("redaction", "target_gain.uncommon", "mlm", "scores"),
    ],
)
def test_access_follows_from_what_is_asked(
    attack: str, metric: str, task: str, access: str
) -> None:
    assert threat_of(attack).access_of(metric, task) == access


def test_an_attack_that_declares_nothing_needs_the_file() -> None:
    assert Threat(knowledge="nothing").access_of("gap", "mlm") == "weights"
    assert Threat(knowledge="nothing").access == "weights"


def test_a_query_that_docaudit_does_not_know_needs_the_file() -> None:
    asked = Ask(queries=("Answer", "Gradient"))
    assert asked.access == "weights"


def test_least_is_less_than_what_all_of_the_attack_needs() -> None:
    part = Ask(queries=("Answer",), metrics=("few",))
    threat = Threat(knowledge="", asks=(Ask(queries=("AnswerLoss",)), part))
    assert threat.access == "scores"
    assert threat.least == "answers"
