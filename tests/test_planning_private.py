"""`docaudit plan --epsilon`: the noise that private training would take, and what its guarantee would prove."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny
from typer.testing import CliRunner

from audit.cli import app
from audit.cli.plan_tables import private_legend, private_table
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Task
from audit.policy import Limit, Policy
from audit.stats.dp_bounds import Guarantee, auc, balanced_accuracy
from audit.workflows.plan import private as planning
from audit.workflows.plan.private import Mechanism, plan_private

LIMITS = (
    Limit("membership", "auc", "r", max=0.7),
    Limit("membership", "low_fpr_advantage", "r", max=0.15),
    Limit("provider_membership", "balanced_accuracy", "r", max=0.7),
    Limit("memorisation", "net", "r", max=0.05),
)


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    """Rules for the mechanism that are quick to follow: a quarter of the units a step, sigma 2 / epsilon."""

    def count_units(corpus, asked):
        members = corpus.of("member")
        kind = asked or ("provider" if all(one.provider for one in members) else "document")
        return kind, len({one.provider if kind == "provider" else one.id for one in members})

    def mechanism_of(epsilon, kind, n_units):
        return Mechanism(n_units**-1.1, 100, n_units / 4, 2 / epsilon)

    monkeypatch.setattr(planning, "count_units", count_units)
    monkeypatch.setattr(planning, "mechanism_of", mechanism_of)


def corpus(providers, documents=2):
    pages = tuple(
        Document(f"d{number}.{own}", "member", provider=name)
        for number, name in enumerate(providers)
        for own in range(documents)
    )
    return Corpus(Path("."), Manifest(1, "made", Task("mlm"), Membership("random")), pages, "0" * 64)


def planned(made, *epsilons, unit=None):
    return plan_private(made, Policy(1, "mine", LIMITS), epsilons, unit)


def test_noise_of_a_mean_falls_with_the_units_of_a_step_and_with_epsilon():
    few, many = (planned(corpus([f"p{i}" for i in range(n)]), 1.0, 4.0) for n in (40, 400))
    assert (few.unit, few.n_units, many.n_units) == ("provider", 40, 400)
    assert few.trainings[0].noise == pytest.approx(2 / 10)
    assert many.trainings[0].noise == pytest.approx(2 / 100)
    assert few.trainings[1].noise == pytest.approx(0.5 / 10)


def test_what_is_proved_of_one_unit_is_that_of_epsilon_and_delta():
    (training,) = planned(corpus([f"p{i}" for i in range(100)]), 0.4).trainings
    promised = Guarantee(0.4, 100**-1.1)
    assert training.auc == auc(promised)
    assert training.balanced_accuracy == balanced_accuracy(promised)
    assert training.mechanism.delta == pytest.approx(100**-1.1)


def test_what_is_proved_rests_on_the_whole_curve(monkeypatch):
    mechanism = Mechanism(100**-1.1, 100, 25, 2.0, ((0.0, 0.1), (0.5, 0.02)))
    monkeypatch.setattr(planning, "mechanism_of", lambda *_: mechanism)
    (training,) = planned(corpus([f"p{i}" for i in range(100)]), 1.5).trainings
    assert training.auc == auc(Guarantee(1.5, mechanism.delta, mechanism.curve)) < 0.6 < auc(Guarantee(1.5, 0.0))
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


def test_documents_without_a_provider_prove_nothing_of_providers():
    found = planned(corpus([None] * 50), 0.1)
    assert (found.unit, found.n_units, found.largest_provider) == ("document", 100, 0)
    assert found.trainings[0].unproved == (("provider_membership", "balanced_accuracy"),)


def test_the_table_has_a_row_for_each_epsilon_and_never_rounds_a_bound_down():
    made = planned(corpus([f"p{i}" for i in range(100)]), 1.0, 8.0, unit="document")
    title, columns, rows = private_table(made)
    assert "200 documents" in title
    assert all(len(row) == len(columns) for row in rows)
    assert [row[0] for row in rows] == ["1", "8"]
    assert rows[0][columns.index("noise")] == "0.04 C"
    assert float(rows[0][columns.index("AUC")].removeprefix("<= ")) >= made.trainings[0].auc
    assert rows[1][columns.index("balanced")] == "<= 0.99967"
    assert any("up to 2 documents" in line for line in private_legend(made))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.corpus(tmp_path_factory.mktemp("private") / "data")


def docaudit(*arguments):
    return CliRunner().invoke(app, [str(item) for item in arguments])


def test_the_command_prints_the_table_and_writes_it(data, tmp_path):
    out = tmp_path / "plan.json"
    done = docaudit("plan", data, "--epsilon", "1,2", "--epsilon", "8,2", "--unit", "document", "--out", out)
    assert done.exit_code == 0, done.output
    assert "What private training would take and prove" in done.output
    written = json.loads(out.read_text())["private"]
    assert [one["epsilon"] for one in written["trainings"]] == [1, 2, 8]
    assert written["unit"] == "document"
    assert {*written["trainings"][0]["mechanism"]} == {
        "delta",
        "steps",
        "expected_units",
        "noise_multiplier",
        "curve",
    }


def test_without_an_epsilon_the_plan_has_no_such_table(data, tmp_path):
    done = docaudit("plan", data, "--out", tmp_path / "plan.json")
    assert done.exit_code == 0, done.output
    assert "private" not in done.output
    assert json.loads((tmp_path / "plan.json").read_text())["private"] is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(("--epsilon", "1,much"), "not a list of numbers"), (("--unit", "document"), "--unit is for private training")],
)
def test_bad_options_are_one_line_and_exit_2(data, arguments, problem):
    refused = docaudit("plan", data, *arguments)
    assert refused.exit_code == 2
    assert problem in refused.output
