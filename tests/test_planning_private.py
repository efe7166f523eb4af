"""`docaudit plan-dp`: the noise that private training would take, and what its guarantee would prove."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import example_private
import pytest
import tiny
from typer.testing import CliRunner

from audit.cli import app
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Task, Word
from audit.extensions.private import planning
from audit.extensions.private.planning import plan_private
from audit.policy import Limit, Policy
from audit.stats import dp_accounting
from audit.stats.dp_bounds import Guarantee, auc

LIMITS = (
    Limit("membership", "auc", "r", max=0.7),
    Limit("membership", "low_fpr_advantage", "r", max=0.15),
    Limit("provider_membership", "balanced_accuracy", "r", max=0.7),
    Limit("memorisation", "net", "r", max=0.05),
)


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    """Rules for the mechanism that are quick to follow: a quarter of the units a step, sigma 2 / epsilon."""

    def settle(options, kind, n_units):
        numbers = {"n_units": n_units, "delta": n_units**-1.1, "sample_rate": 0.25, "steps": 100, "unit": kind}
        return replace(example_private.card(options.epsilon), noise_multiplier=2 / options.epsilon, **numbers)

    monkeypatch.setattr(planning, "settle", settle)
    monkeypatch.setattr(dp_accounting, "privacy_curve", lambda sigma, delta, *_: ((2 / sigma, delta),))


def corpus(providers, documents=2):
    pages = tuple(
        Document(f"d{number}.{own}", "member", words=(Word(f"w{number}.{own}"),), provider=name)
        for number, name in enumerate(providers)
        for own in range(documents)
    )
    return Corpus(Path("."), Manifest(1, "made", Task("mlm"), Membership("random")), pages, "0" * 64)


def planned(made, *epsilons, unit=None):
    return plan_private(made, Policy(1, "mine", LIMITS), epsilons, unit)


def test_what_is_proved_of_one_unit_is_that_of_epsilon_and_delta():
    (training,) = planned(corpus([f"p{i}" for i in range(100)]), 0.4).trainings
    assert training.promised == Guarantee(0.4, 100**-1.1)
    assert training.card.delta == pytest.approx(100**-1.1)


def test_what_is_proved_rests_on_the_whole_curve(monkeypatch):
    curve = ((1.5, 100**-1.1), (0.0, 0.1), (0.5, 0.02))
    monkeypatch.setattr(dp_accounting, "privacy_curve", lambda *_: curve)
    (training,) = planned(corpus([f"p{i}" for i in range(100)]), 1.5).trainings
    assert training.promised == Guarantee(*curve[0], curve[1:])
    assert auc(training.promised) < 0.6 < auc(Guarantee(1.5, 0.0))
    assert ("provider_membership", "balanced_accuracy") in training.proved


def test_limits_on_membership_are_proved_of_the_unit_and_of_what_it_is_part_of():
    made = corpus([f"p{i}" for i in range(200)], documents=3)
    of_providers = planned(made, 0.3, 0.7, 8.0, unit="provider").trainings
    assert of_providers[0].unproved == ()
    assert of_providers[1].proved == (("provider_membership", "balanced_accuracy"),)
    assert of_providers[2].proved == ()
    assert all(("memorisation", "net") not in (*one.proved, *one.unproved) for one in of_providers)
    of_documents = planned(made, 0.2, 0.5, unit="document")
    assert of_documents.largest_provider == 3
    assert of_documents.trainings[0].unproved == ()
    assert of_documents.trainings[1].unproved == (("provider_membership", "balanced_accuracy"),)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.corpus(tmp_path_factory.mktemp("private") / "data")


def docaudit(*arguments):
    return CliRunner().invoke(app, [str(item) for item in arguments], env={"COLUMNS": "200"})


def test_the_command_prints_a_row_for_each_epsilon(data, monkeypatch):
    monkeypatch.undo()
    done = docaudit("plan-dp", data, "--epsilon", "1,2", "--epsilon", "8,2", "--unit", "document")
    assert done.exit_code == 0, done.output
    assert "What private training would take and prove" in done.output
    rows = [line.split() for line in done.output.splitlines() if re.search(r" \d+ of \d+", line)]
    assert [row[0] for row in rows] == ["1", "2", "8"]
    assert "sigma / (q N)" in done.output
    refused = docaudit("plan-dp", data, "--epsilon", "1,much")
    assert refused.exit_code == 2
    assert "not a list of numbers" in refused.output


def test_documents_without_a_provider_prove_nothing_of_providers():
    found = planned(corpus([None] * 50), 0.1)
    assert (found.unit, found.n_units, found.largest_provider) == ("document", 100, 0)
    assert found.trainings[0].unproved == (("provider_membership", "balanced_accuracy"),)
