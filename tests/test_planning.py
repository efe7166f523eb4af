"""`docaudit plan`: the units of a data set, what they decide, and what a scan costs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import asked_pages
import numpy as np
import pytest
import tiny
from typer.testing import CliRunner

from audit import policy as policies
from audit.attacks import known_metrics, text_of
from audit.attacks.battery import BATTERY
from audit.attacks.budget import SHARES, sample
from audit.attacks.membership import MembershipInference
from audit.attacks.memorisation import Memorisation
from audit.attacks.reconstruction import Reconstruction
from audit.case import Case
from audit.cli import app
from audit.cli.plan_tables import costs_table, limits_table, reasons
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Question,
    ReferencePaths,
    Task,
    Word,
)
from audit.corpus.documents import Membership as Assigned
from audit.engine.interface import Silent
from audit.errors import PolicyError
from audit.policy import Gap, Limit, Policy, check_names
from audit.workflows.options import ScanOptions
from audit.workflows.plan.audit import blind_checks
from audit.workflows.plan.costs import Cost, at_most
from audit.workflows.plan.limits import plan_limits
from audit.workflows.plan.summary import conclusion
from audit.workflows.setup import open_scan

pytestmark = pytest.mark.slow

GIVEN = ReferencePaths(pretrained="p", auxiliary="a", baselines=("b",))


def corpus(documents, kind="question-answering", assigned="random", references=GIVEN):
    manifest = Manifest(1, "made", Task(kind), Assigned(assigned), references=references)
    return Corpus(Path("."), manifest, tuple(documents), "0" * 64)


def page(name, split, values, *, provider=None, attack=True, questions=True):
    """A page whose words are `values`, each a field, and asked for."""
    return Document(
        name,
        split,
        words=tuple(Word(value) for value in values),
        entities=tuple(Entity(f"e{i}", "X", "person", (i,), attack=attack) for i in range(len(values))),
        questions=tuple(
            Question(f"q{i}", "?", (value,), entity=f"e{i}") for i, value in enumerate(values) if questions
        ),
        provider=provider,
    )


def pages(members, heldout, fields=1):
    sides = {"member": members, "heldout": heldout}
    return [
        page(f"{split}{i}", split, [f"{split}-{i}-{field}" for field in range(fields)])
        for split, count in sides.items()
        for i in range(count)
    ]


def units(attack, made):
    return {one.metric: (one.members, one.others) for one in attack.units(made)}


def limit(attack, metric, **settings):
    return Limit(attack=attack, metric=metric, rationale="r", **settings)


def checked(policy):
    check_names(policy, known_metrics())
    return policy


def planned(made, *limits, budget="standard", costs=None):
    policy = checked(Policy(1, "mine", limits))
    return plan_limits(made, policy, budget, at_most(made, budget) if costs is None else costs, {})


def checked_blindly(made, *limits, budget="standard"):
    """With the blind check, as on the command line."""
    policy = checked(Policy(1, "mine", limits))
    costs = at_most(made, budget)
    return plan_limits(made, policy, budget, costs, blind_checks(made, policy, budget, costs))


NET = limit("memorisation", "net", max=0.05)
AUC = limit("membership", "auc", max=0.65)
EXCESS = limit("reconstruction", "excess_pr.unique", max=0.05)


def test_reconstruction_counts_documents_with_a_field_of_the_group():
    made = corpus(
        [
            page("a", "member", ["onlyhere", "shared"]),
            page("b", "member", ["shared"]),
            page("c", "member", ["notattacked"], attack=False),
            page("d", "heldout", ["elsewhere", "another"]),
            page("e", "public", ["shared", "somethingelse"]),
        ]
    )
    found = units(Reconstruction(), made)
    assert found["excess_pr.unique"] == found["excess_hamming.unique"] == (1, 1)
    assert found["excess_pr.repeated"] == (2, 0)
    assert found["excess_pr.all"] == (2, 1)


def test_memorisation_counts_members_with_a_question_that_has_an_answer():
    made = corpus(
        [
            page("a", "member", ["onlyhere", "shared"]),
            page("b", "member", ["shared"]),
            page("c", "member", [" "]),
            page("d", "member", ["unasked"], questions=False),
            page("e", "heldout", ["elsewhere"]),
        ]
    )
    found = units(Memorisation.preset("quick"), made)
    assert found["net"] == found["net.paraphrased"] == (2, 0)
    assert (found["net.unique"], found["net.repeated"]) == ((1, 0), (2, 0))
    assert "net.no_text" not in found  # `quick` does not try this context
    assert "net.no_text" in units(Memorisation.preset("standard"), made)


def test_membership_counts_documents_that_are_compared():
    documents = [
        page("a", "member", ["x"], provider="Ada"),
        page("b", "member", ["y"], provider="ada "),
        page("c", "heldout", ["z"], provider="ADA"),
        page("d", "heldout", ["z"], provider="Bob"),
        page("e", "heldout", ["z"], provider="Bob", questions=False),
    ]
    assert units(MembershipInference(n_adapted=1), corpus(documents))["auc"] == (2, 2)
    assert units(MembershipInference(n_adapted=1), corpus(documents))["auc.docmia"] == (1, 1)
    assert units(MembershipInference(), corpus(documents, "token-classification"))["auc"] == (2, 3)
    # Whole providers were drawn: of Bob, who is out, there is nothing to compare with, and of Ada one each.
    assert units(MembershipInference(), corpus(documents, assigned="by-provider"))["auc"] == (1, 1)


@pytest.mark.parametrize("budget", sorted(SHARES))
def test_units_are_of_metrics_that_a_policy_may_ask_for(budget):
    made = corpus([replace(document, provider=document.id[-1]) for document in pages(12, 12)])
    for kind in BATTERY:
        found = units(kind.preset(budget), made)
        assert found
        assert set(found) <= set(text_of(kind.name).names)
        # What a plan knows of chance is that of shares.
        assert {text_of(kind.name).metric(metric).upper for metric in found} == {1.0}


def test_what_a_data_set_decides_and_what_not():
    made = corpus(pages(120, 120), "token-classification", references=replace(GIVEN, pretrained=None, auxiliary=None))
    chosen = (
        NET,
        AUC,
        EXCESS,
        limit("membership", "tpr_at_fpr_10", max=0.3),
        limit("reconstruction", "planted_detection.unique", min=0.5),
        limit("reconstruction", "excess_pr.repeated", max=0.05),
        limit("membership", "auc.docmia", max=0.5),
    )
    found = planned(made, *chosen)
    assert [one.outcome for one in found.limits] == [
        "decides",
        "decides",
        "too small",
        "no plan",
        "no plan",
        "lacks",
        "too small",
    ]
    net, auc, excess, _, _, repeated, docmia = found.limits
    assert (net.resolution.members, net.resolution.others, net.resolution.unit) == (120, 0, "documents")
    assert net.resolution.certified == pytest.approx(0.030, abs=0.001)
    assert (auc.resolution.members, auc.resolution.others) == (120, 120)
    assert auc.resolution.effect == pytest.approx(0.75)
    assert "no auxiliary model" in excess.reason
    assert f"about {excess.resolution.needed} documents a side" in excess.reason
    assert repeated.resolution is None
    assert docmia.resolution.needed is None
    assert "no number of documents" in docmia.reason


def providers(inside, outside):
    """Providers of one trained and one kept-aside document, or of one kept-aside document."""
    trained = [page(f"m{i}", "member", [f"v{i}"], provider=f"in {i}") for i in range(inside)]
    asked = [page(f"h{i}", "heldout", [f"w{i}"], provider=f"in {i}") for i in range(inside)]
    return [*trained, *asked, *(page(f"o{i}", "heldout", [f"u{i}"], provider=f"out {i}") for i in range(outside))]


def test_a_data_set_of_72_companies_is_too_small_to_ask_after_providers():
    asked = limit("provider_membership", "balanced_accuracy", max=0.65)
    small, large = (planned(corpus(providers(n, n), assigned="by-provider"), asked) for n in (36, 100))
    assert [one.limits[0].outcome for one in (small, large)] == ["too small", "decides"]
    found = small.limits[0].resolution
    assert (found.members, found.others, found.unit) == (36, 36, "providers")
    assert found.certified == pytest.approx(0.62, abs=0.005)
    assert f"about {found.needed} providers a side are needed" in small.limits[0].reason
    assert "too small for provider_membership balanced_accuracy" in conclusion(small)


def test_what_is_missing_is_named_and_what_it_would_open():
    made = corpus(pages(150, 150), references=ReferencePaths(pretrained="p"))
    found = planned(made, NET, AUC, replace(NET, metric="net.unique", required=False))
    assert [one.outcome for one in found.limits] == ["lacks", "decides", "lacks"]
    assert list(reasons(found)) == [
        # A reference can be given: its lack excuses no limit, required or not.
        "memorisation net, net.unique: lacks: no baselines in [references]: docaudit train-baseline makes one",
    ]
    assert "can decide 1 of 3 limits of the policy: membership auc." in conclusion(found)
    assert "With that it could decide memorisation net, memorisation net.unique." in conclusion(found)


def test_an_attack_without_its_optional_reference_passes_nothing():
    asked = limit("provider_membership", "balanced_accuracy", max=0.65, required=False)
    for references, outcomes in {
        ReferencePaths(): ["cannot pass", "cannot pass"],
        ReferencePaths(baselines=("b",)): ["decides", "decides"],
        ReferencePaths(pretrained="p"): ["decides", "decides"],
    }.items():
        # Compared by provider: 150 + 150 providers; document by document the 150 that were in.
        found = planned(corpus(providers(150, 150), assigned="by-provider", references=references), asked, AUC)
        assert [one.outcome for one in found.limits] == outcomes
    found = planned(corpus(providers(150, 150), assigned="by-provider", references=ReferencePaths()), asked, AUC)
    by_provider, auc = found.limits
    assert by_provider.reason.startswith(
        "no reference: no model that knows none of the providers to compare with (give "
    )
    assert "--reference pretrained=PATH" in by_provider.reason
    assert "docaudit train-baseline" in auc.reason
    assert "can decide 0 of 2 limits" in conclusion(found)
    assert "With that it could decide provider_membership balanced_accuracy, membership auc." in conclusion(found)
    # Baselines are trained on public documents: those of a provider that is asked about give it away.
    known = [*providers(150, 150), page("p", "public", ["v"], provider="out 3")]
    found = planned(corpus(known, assigned="by-provider", references=ReferencePaths(baselines=("b",))), asked)
    assert found.limits[0].outcome == "cannot pass"
    assert "baselines saw public documents" in found.limits[0].reason
    # A page of training that says not whose it is may be of a provider that counts as out.
    unnamed = [*providers(150, 150), page("p", "member", ["v"])]
    (found,) = planned(corpus(unnamed, assigned="by-provider", references=ReferencePaths(pretrained="p")), asked).limits
    assert found.outcome == "cannot pass"
    assert found.reason.startswith("1 document of training without a provider")
    small = planned(corpus(providers(20, 20), assigned="by-provider", references=ReferencePaths()), asked).limits[0]
    assert small.outcome == "too small"
    assert "; no reference: " in small.reason


def test_fewer_baselines_than_a_budget_wants_weaken_memorisation():
    full, standard = Memorisation.preset("full"), Memorisation.preset("standard")
    made = corpus(pages(150, 150))
    assert full.weakened(made, {"baselines": 1, "pretrained": 0}).startswith("1 of 3 baselines")
    assert full.weakened(made, {"baselines": 3, "pretrained": 0}) is None
    assert standard.weakened(made, {"baselines": 1, "pretrained": 0}) is None
    assert [planned(made, NET, budget=name).limits[0].outcome for name in ("standard", "full")] == [
        "decides",
        "cannot pass",
    ]


def same_words(found):
    """The same pages, their words as the lot would have them."""
    rng = np.random.default_rng(3)
    return [
        replace(
            document, words=tuple(Word(str(word)) for word in rng.choice(["tea", "milk", "rice", "salt", "oil"], 3))
        )
        for document in found
    ]


def test_the_plan_says_confounded_where_the_scan_will():
    told = checked_blindly(corpus(pages(130, 130)), AUC, NET)
    assert [one.outcome for one in told.limits] == ["confounded", "decides"]
    assert told.limits[0].reason.startswith("documents trained on and held-out documents can be told apart without")
    assert "Confounded, for what is compared differs without the model: membership auc." in conclusion(told)
    assert "can decide 1 of 2" in conclusion(told)
    alike = checked_blindly(corpus(same_words(pages(130, 130))), AUC, NET)
    assert [one.outcome for one in alike.limits] == ["decides", "decides"]


def test_a_blind_check_that_is_too_weak_decides_nothing_but_where_the_lot_did():
    documents = same_words(pages(25, 25))
    for assigned, outcome in {"random": "decides", "by-date": "blind check too weak"}.items():
        found = checked_blindly(corpus(documents, assigned=assigned), replace(AUC, max=0.9))
        assert found.limits[0].outcome == outcome
    assert "too weak to rule it out" in found.limits[0].reason
    assert "they come from different times" in found.limits[0].reason
    assert 'state assigned = "random" in manifest.toml' in conclusion(found)
    assert "can decide 0 of 1" in conclusion(found)


def test_providers_are_checked_as_providers():
    asked = limit("provider_membership", "balanced_accuracy", max=0.65)
    documents = providers(100, 100)
    assert checked_blindly(corpus(documents, assigned="by-provider"), asked).limits[0].outcome == "confounded"
    drawn = same_words(documents)
    assert checked_blindly(corpus(drawn, assigned="by-provider"), asked).limits[0].outcome == "decides"
    weak = checked_blindly(corpus(same_words(providers(25, 25))), replace(asked, max=0.9)).limits[0]
    assert weak.outcome == "blind check too weak"
    assert "documents were drawn by lot, providers were not" in weak.reason


def test_what_no_limit_asks_for_or_cannot_be_fed_is_not_checked():
    made = corpus(pages(40, 40))
    policy = checked(Policy(1, "mine", (AUC, limit("provider_membership", "balanced_accuracy", max=0.65))))
    told = []

    class Told(Silent):
        def stage(self, name, total=0):
            told.append(total)

    assert set(blind_checks(made, policy, "standard", at_most(made, "standard"), Told())) == {"membership"}
    assert set(blind_checks(made, policy, "quick", at_most(made, "quick"), Told())) == {"membership"}
    assert told == [80, 20]
    assert blind_checks(made, Policy(1, "mine", (NET,)), "quick", at_most(made, "quick")) == {}


def test_reconstruction_is_checked_blindly_on_documents_with_fields():
    made = corpus([*pages(40, 40), page("bare", "member", ["x"], attack=False)], "token-classification", "by-date")
    policy = checked(Policy(1, "mine", (EXCESS,)))
    told = []

    class Told(Silent):
        def stage(self, name, total=0):
            told.append(total)

    found = blind_checks(made, policy, "standard", at_most(made, "standard"), Told())
    assert set(found) == {"reconstruction"}
    assert told == [80]
    assert found["reconstruction"].confounded is not None
    assert checked_blindly(made, replace(EXCESS, max=0.2)).limits[0].outcome in ("confounded", "blind check too weak")


def test_a_missing_reference_is_said_and_is_nothing_that_the_data_set_lacks():
    made = corpus(pages(90, 90), "token-classification", references=ReferencePaths())
    assert Reconstruction().lacks(made) is None
    (cost,) = (one for one in at_most(made, "standard") if one.attack == "reconstruction")
    assert "no auxiliary model in [references]" in cost.lacks


def test_reconstruction_is_not_planned_for_models_that_answer_before_there_is_one():
    found = planned(corpus(pages(150, 150)), EXCESS).limits[0]
    reason = "applies to models that read pages as words only (VT5, UDOP): give --model; the policy permits no such gap"
    assert (found.outcome, found.reason) == ("inapplicable", reason)
    assert planned(corpus(pages(150, 150), "token-classification"), EXCESS).limits[0].outcome == "decides"


def test_a_gap_excuses_no_model_at_hand_that_can_be_attacked():
    made = corpus(pages(150, 150))
    gap = Gap("reconstruction", ("question-answering",), "it sees pixels")
    policy = checked(Policy(1, "mine", (EXCESS,), gaps=(gap,)))
    lacking = {"lacks": "it needs a reference", "inapplicable": None}
    for exact, outcome in ((False, "inapplicable"), (True, "lacks")):
        costs = [
            replace(cost, exact=exact, **lacking) if cost.attack == "reconstruction" else cost
            for cost in at_most(made, "standard")
        ]
        assert plan_limits(made, policy, "standard", costs, {}).limits[0].outcome == outcome


def test_a_budget_takes_fewer_trials_and_reaches_fewer_units():
    made = corpus(pages(100, 60, fields=2))
    for budget, reached in {"standard": (100, 60), "quick": (25, 15)}.items():
        found = planned(made, NET, AUC, budget=budget)
        net, auc = (one.resolution for one in found.limits)
        assert (auc.members, auc.others) == reached
        # One question of each page before a second of any: a quarter of two a page reaches half of them.
        assert net.members == min(100, 2 * reached[0])
        trials = {cost.attack: cost.trials for cost in found.costs}
        assert trials["memorisation"] == 2 * sum(reached)
        assert trials["reconstruction"] == 0
        assert trials["membership"] == sum(reached)


def test_a_leak_is_confirmed_less_often_among_more_limits():
    """Holm: the more limits are tested, the farther the only leak must lie over its own."""
    made = corpus(pages(90, 90), "token-classification")
    alone = planned(made, AUC).limits[0].resolution
    among = planned(made, AUC, NET, EXCESS, limit("membership", "auc.loss", max=0.65)).limits[0].resolution
    assert among.power < alone.power
    assert replace(among, power=alone.power) == alone
    # What has no units is no test: it costs nothing.
    untested = planned(made, AUC, limit("membership", "tpr_at_fpr_10", max=0.65)).limits[0].resolution
    assert untested == alone


def test_a_limit_beyond_what_can_be_is_planned_too():
    made = corpus(pages(50, 50), "token-classification")
    for highest in (0.0, 0.95, 1.0, 1.5):
        found = planned(made, replace(AUC, max=highest), replace(EXCESS, max=highest))
        assert [one.outcome for one in found.limits] == [("too small" if highest == 0 else "decides")] * 2


def test_a_model_that_cannot_be_attacked_is_not_counted():
    made = corpus(pages(150, 150))
    costs = tuple(
        Cost(cost.attack, 0, True, (0, 0), "no such head") if cost.attack == "reconstruction" else cost
        for cost in at_most(made, "standard")
    )
    found = planned(made, EXCESS, AUC, costs=costs)
    assert [one.outcome for one in found.limits] == ["inapplicable", "decides"]
    assert found.limits[0].resolution is None
    assert found.limits[1].resolution == planned(made, AUC).limits[0].resolution


def test_the_times_of_all_attacks_add_up():
    made = corpus(pages(5, 5))
    costs = [
        replace(cost, exact=True, seconds=600.0) if cost.attack in ("memorisation", "membership") else cost
        for cost in at_most(made, "standard")
    ]
    _, _, rows = costs_table(planned(made, AUC, costs=costs))
    assert rows[-1] == ("in all", "", "about 20 min")
    assert rows[0] == (
        "reconstruction",
        "at most 0",
        "applies to models that read pages as words only (VT5, UDOP): give --model",
    )
    _, columns, table = limits_table(planned(made, AUC, costs=costs))
    assert all(len(row) == len(columns) for row in table)


def test_a_misspelt_metric_is_an_error():
    with pytest.raises(PolicyError, match="did you mean 'auc"):
        checked(Policy(1, "mine", (limit("membership", "aucc", max=0.6),)))


# On the command line


def docaudit(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.corpus(tmp_path_factory.mktemp("plan") / "data", kind="mlm", members=3, heldout=3)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan-questions")
    made = asked_pages.corpus(folder / "data")
    return folder / "data", made, asked_pages.donut(folder / "model", 1), asked_pages.donut(folder / "baseline", 2)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Little is timed; adapting takes up to 200 training steps a document."""
    monkeypatch.setattr("audit.workflows.plan.timing.TRIALS", 1)
    monkeypatch.setattr("audit.attacks.membership.attack.N_ADAPTED", dict.fromkeys(SHARES, 1))


def listing(folder):
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))


def test_a_plan_without_a_model_exits_0_and_loads_no_torch(data):
    command = [sys.executable, "-X", "importtime", "-m", "audit", "plan", str(data)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    for name in ("torch", "transformers", "weasyprint"):
        assert f" {name}\n" not in found.stderr
    limits = policies.load("default").limits
    assert f"can decide 0 of {len(limits)} limits" in found.stdout
    assert all(one.metric in found.stdout for one in limits)


def test_the_plan_as_json_is_the_plan(data, tmp_path):
    out = tmp_path / "plan.json"
    assert docaudit("plan", data, "--out", out, "--budget", "quick", "--policy", "strict").exit_code == 0
    written = json.loads(out.read_text())
    assert (written["schema"], written["budget"], written["policy"]) == (1, "quick", "strict")
    assert [one["metric"] for one in written["limits"]] == [one.metric for one in policies.load("strict").limits]
    assert [one["attack"] for one in written["costs"]] == [kind.name for kind in BATTERY]
    assert not any(one["exact"] for one in written["costs"])


def test_a_model_s_trials_are_counted_and_timed_and_nothing_is_written(data, checkpoints, tmp_path):
    model, public = checkpoints("layoutlm", "mlm", 1), checkpoints("layoutlm", "mlm", 3)
    before = [listing(folder) for folder in (data, model, public, tmp_path)]
    for budget, extra in (("quick", ()), ("standard", ("--reference", f"auxiliary={public}"))):
        out = tmp_path / f"{budget}.json"
        result = docaudit("plan", data, "--model", model, "--budget", budget, "--out", out, "--device", "cpu", *extra)
        assert result.exit_code == 0, result.output
        costs = {one["attack"]: one for one in json.loads(out.read_text())["costs"]}
        opened = open_scan(ScanOptions(model, data, Path(), budget=budget, device="cpu"))
        everything = opened.attacks[0].trials(Case(opened.target, opened.corpus))
        tried = sample(everything, SHARES[budget], 0)
        assert costs["reconstruction"]["exact"]
        assert costs["reconstruction"]["trials"] == len(tried) > 0
        assert sum(costs["reconstruction"]["reached"]) == len({trial.unit for trial in tried})
        assert costs["memorisation"]["inapplicable"]
        out.unlink()
        seconds = costs["reconstruction"]["seconds"]
        if extra:
            assert seconds > 0
            assert "in all" in result.output
        else:
            assert seconds is None
            assert "it needs a reference (auxiliary)" in result.output.replace("\n", " ")
    assert [listing(folder) for folder in (data, model, public, tmp_path)] == before


def test_a_public_model_is_not_trained_for_a_plan(data, checkpoints, tmp_path):
    model, pretrained = checkpoints("layoutlm", "mlm", 1), checkpoints("layoutlm", "mlm", 2)
    out = tmp_path / "plan.json"
    result = docaudit("plan", data, "--model", model, "--reference", f"pretrained={pretrained}", "--out", out)
    assert result.exit_code == 0, result.output
    (cost,) = (one for one in json.loads(out.read_text())["costs"] if one["attack"] == "reconstruction")
    assert cost["seconds"] is None
    assert cost["lacks"] is None  # a scan would train it
    assert "first trains the public model" in cost["untimed"]


def test_a_reference_from_the_command_line_is_one(questions, tmp_path):
    data, made, model, baseline = questions
    for extra, lacks in (((), True), (("--reference", f"baselines={baseline}"), False)):
        out = tmp_path / "plan.json"
        result = docaudit("plan", data, "--model", model, "--budget", "quick", "--out", out, *extra)
        assert result.exit_code == 0, result.output
        found = json.loads(out.read_text())
        (cost,) = (one for one in found["costs"] if one["attack"] == "memorisation")
        assert (cost["lacks"] is not None, cost["seconds"] is None) == (lacks, lacks)
        (net,) = (one for one in found["limits"] if one["metric"] == "net")
        assert ("train-baseline" in net["reason"]) == lacks
    assert made.documents[0].questions[0].answers[0] not in out.read_text() + result.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--policy", "nosuch"), "policy nosuch"),
        (("--reference", "auxiliary=somewhere"), "add --model"),
        (("--out", "no/such/folder/plan.json"), "no file can be written there"),
        (("--model", "nowhere"), "nowhere"),
        (("--device", "abacus", "--model", "nowhere"), "abacus"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(data, arguments, problem):
    result = docaudit("plan", data, *arguments)
    assert result.exit_code == 2
    assert problem in result.output
    assert len([line for line in result.output.splitlines() if line.startswith("error:")]) == 1
    assert "can decide" not in result.output


def test_a_broken_data_set_and_a_model_that_does_not_fit_exit_2(data, checkpoints, tmp_path):
    broken = shutil.copytree(data, tmp_path / "broken")
    (broken / "documents.jsonl").write_text("{}\n")
    assert docaudit("plan", broken).exit_code == 2
    assert docaudit("plan", tmp_path / "nothing").exit_code == 2
    spade = tiny.corpus(tmp_path / "spade", kind="spade-extraction")
    unfit = docaudit("plan", spade, "--model", checkpoints("layoutlm", "token-classification", 2))
    assert unfit.exit_code == 2
    assert len([line for line in unfit.output.splitlines() if line.startswith("error:")]) == 1


SAMPLES = Path(__file__).parent.parent / "sample_models"
MODELS = sorted(folder.relative_to(SAMPLES) for folder in SAMPLES.glob("*/*") if (folder / "config.json").exists())


def agrees(model, data):
    """Before there is a model the task alone tells; `Attack.inapplicable` asks the model."""
    opened = open_scan(ScanOptions(model, data, model / "nothing is written"))
    case = Case(opened.defended(opened.target), opened.corpus)
    costs = {cost.attack: cost for cost in at_most(opened.corpus, "standard")}
    for attack in opened.attacks:
        told, found = costs[attack.name].inapplicable, attack.inapplicable(case)
        if attack.name == "memorisation" and found is not None:
            # A model that does not answer is not asked questions: that the data set has none is said instead.
            assert costs[attack.name].lacks.startswith("no question with an answer")
        else:
            assert (told is None) == (found is None), attack.name
    return costs


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_what_no_model_of_a_task_is_put_to_is_what_the_samples_models_say(model):
    costs = agrees(SAMPLES / model, SAMPLES / model.parent / "data")
    if model.parts[0] == "questions":  # of models that answer, some can be attacked: the plan says which
        assert costs["reconstruction"].inapplicable.endswith("(VT5, UDOP): give --model")


@pytest.mark.parametrize("head", [*tiny.HEADS, *tiny.SPADE_HEADS])
def test_what_no_model_of_a_task_is_put_to_is_what_a_model_with_each_head_says(head, checkpoints, tmp_path):
    costs = agrees(checkpoints("layoutlm", head, 1), tiny.corpus(tmp_path / "data", kind=head))
    assert (costs["canaries"].inapplicable is not None) == (head in tiny.SPADE_HEADS)
