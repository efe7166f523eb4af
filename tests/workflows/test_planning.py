"""`docaudit plan`: the units of a data set, what they decide, and what a scan costs."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import redacted
from progress_log import ProgressLog

from audit.attacks import known_metrics, text_of
from audit.attacks.battery import BATTERY
from audit.attacks.budget import SHARES
from audit.attacks.membership import MembershipInference
from audit.attacks.memorisation import Memorisation
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.redaction import RedactionContext
from audit.cli.plan import as_json, attacks_table, conclusion, limits_table, reasons
from audit.corpus import manifest as manifests
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
from audit.engine.interface import Trial
from audit.policy import Demand, Gap, Limit, Policy, check_names
from audit.targets import machine
from audit.workflows import planning
from audit.workflows.outlook import SmallestLeaks
from audit.workflows.plan import at_most, plan_limits
from audit.workflows.planning import blind_checks

pytestmark = pytest.mark.slow
SAMPLES = Path(__file__).parents[2] / "sample_models"

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
        entities=tuple(
            Entity(f"e{i}", "X", "person", (i,), attack=attack) for i in range(len(values))
        ),
        questions=tuple(
            Question(f"q{i}", "?", (value,), f"e{i}") for i, value in enumerate(values) if questions
        ),
        provider=provider,
    )


def pages(members, heldout, fields=1):
    sides = {"member": members, "heldout": heldout}
    names = ((split, i) for split, count in sides.items() for i in range(count))
    return [
        page(f"{split}{i}", split, [f"{split}-{i}-{field}" for field in range(fields)])
        for split, i in names
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


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Little is timed."""
    monkeypatch.setattr("audit.workflows.planning.TRIALS", 1)


def test_reconstruction_counts_documents_with_a_field_of_the_group():
    members = [page("a", "member", ["onlyhere", "shared"]), page("b", "member", ["shared"])]
    members.append(page("c", "member", ["notattacked"], attack=False))
    rest = [
        page("d", "heldout", ["elsewhere", "another"]),
        page("e", "public", ["shared", "somethingelse"]),
    ]
    made = corpus([*members, *rest])
    found = units(Reconstruction(), made)
    assert found["excess_pr.unique"] == found["excess_hamming.unique"] == (1, 1)
    assert (found["excess_pr.repeated"], found["excess_pr.all"]) == ((2, 0), (2, 1))


def test_memorisation_counts_members_with_a_question_that_has_an_answer():
    texts = {"a": ["onlyhere", "shared"], "b": ["shared"], "c": [" "]}
    members = [page(name, "member", values) for name, values in texts.items()]
    members.append(page("d", "member", ["unasked"], questions=False))
    made = corpus([*members, page("e", "heldout", ["elsewhere"])])
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
    assert units(MembershipInference(), corpus(documents))["auc"] == (2, 2)
    assert units(MembershipInference(), corpus(documents, "token-classification"))["auc"] == (2, 3)
    # Whole providers were drawn: of Bob, who is out, there is nothing to compare with, and of Ada
    # one each.
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


def providers(inside, outside):
    """Providers of one trained and one kept-aside document, or of one kept-aside document."""
    trained = [page(f"m{i}", "member", [f"v{i}"], provider=f"in {i}") for i in range(inside)]
    asked = [page(f"h{i}", "heldout", [f"w{i}"], provider=f"in {i}") for i in range(inside)]
    return [
        *trained,
        *asked,
        *(page(f"o{i}", "heldout", [f"u{i}"], provider=f"out {i}") for i in range(outside)),
    ]


def classes(made, **references):
    return corpus(made, "token-classification", references=ReferencePaths(**references))


BALANCED = limit("provider_membership", "balanced_accuracy", max=0.65, required=False)
TAGGED = classes(pages(120, 120), baselines=("b",))
SHARED = providers(150, 150)


@pytest.mark.parametrize(
    ("data_set", "limits", "outcomes", "words"),
    [
        pytest.param(
            TAGGED,
            (NET, AUC),
            ("decides", "decides"),
            "can confirm 2 of 2 limits as met",
            id="enough documents",
        ),
        pytest.param(
            TAGGED,
            (EXCESS,),
            ("lacks",),
            "[references] names no auxiliary model",
            id="no auxiliary model",
        ),
        pytest.param(
            TAGGED,
            (limit("membership", "tpr_at_fpr_10", max=0.3),),
            ("no plan",),
            "no plan for this metric",
            id="no plan for a metric",
        ),
        pytest.param(
            TAGGED,
            (limit("reconstruction", "planted_detection.unique", min=0.5),),
            ("no plan",),
            "least value",
            id="no plan for a least value",
        ),
        pytest.param(
            TAGGED,
            (limit("reconstruction", "excess_pr.repeated", max=0.05),),
            ("lacks",),
            "no auxiliary model",
            id="no auxiliary model for repeated values",
        ),
        pytest.param(
            TAGGED,
            (limit("membership", "auc.loss", max=0.5),),
            ("too small",),
            "no number of documents",
            id="a limit at chance",
        ),
        pytest.param(
            corpus(providers(36, 36), assigned="by-provider"),
            (BALANCED,),
            ("too small",),
            "providers a side are needed",
            id="too few providers",
        ),
        pytest.param(
            corpus(providers(100, 100), assigned="by-provider"),
            (BALANCED,),
            ("decides",),
            "can confirm 1 of 1 limits as met",
            id="enough providers",
        ),
        pytest.param(
            corpus(pages(150, 150), references=ReferencePaths(pretrained="p")),
            (NET, AUC),
            ("lacks", "decides"),
            "With that it could decide memorisation net.",
            id="no auxiliary model for memorisation",
        ),
        pytest.param(
            corpus(SHARED, assigned="by-provider", references=ReferencePaths()),
            (BALANCED, AUC),
            ("cannot pass", "cannot pass"),
            "With that it could decide provider_membership balanced_accuracy, membership auc.",
            id="providers whose documents are on both sides",
        ),
        # Baselines are trained on public documents: those of a provider that is asked about give it away.
        pytest.param(
            corpus(
                (*SHARED, page("p", "public", ("v",), provider="out 3")),
                assigned="by-provider",
                references=ReferencePaths(baselines=("b",)),
            ),
            (BALANCED,),
            ("cannot pass",),
            "baselines saw public documents",
            id="baselines are trained on documents of a provider that is asked about",
        ),
        # A page of training that says not whose it is may be of a provider that counts as out.
        pytest.param(
            corpus((*SHARED, page("p", "member", ("v",))), assigned="by-provider"),
            (BALANCED,),
            ("cannot pass",),
            "1 training document without a provider",
            id="a training document that may be of a provider that counts as out",
        ),
        pytest.param(
            corpus(pages(150, 150)),
            (EXCESS,),
            ("not applicable",),
            "depends on the model: give --model; the policy permits no such",
            id="a kind of model without the attack",
        ),
        pytest.param(
            classes(pages(150, 150), auxiliary="a"),
            (EXCESS,),
            ("decides",),
            "can confirm 1 of 1 limits as met",
            id="classes of documents",
        ),
    ],
)
def test_what_a_data_set_decides_and_why_not(data_set, limits, outcomes, words):
    found = planned(data_set, *limits)
    assert tuple(one.outcome for one in found.limits) == outcomes
    assert words in " ".join([*reasons(found), conclusion(found)])
    for _, columns, rows in (limits_table(found), attacks_table(found)):
        assert all(len(row) == len(columns) <= 8 for row in rows)


def test_a_plan_that_is_too_small_says_which_leaks_it_still_confirms():
    plan = planned(classes(pages(40, 40), baselines=("b",)), AUC, EXCESS)
    area, excess = (limit.resolution for limit in plan.limits)
    assert plan.leaks == SmallestLeaks(area.confirms, excess.confirms)
    assert AUC.max < area.confirms < 1
    assert EXCESS.max < excess.confirms < 0.5
    assert conclusion(plan).endswith(
        " These documents still confirm strong leaks. An attacker must distinguish at least"
        f" {100 * area.confirms:.0f} % of pairs (guessing: 50 %). Values must leak from at least"
        f" {100 * excess.confirms:.0f} % more training documents than unseen ones."
    )


def test_very_few_documents_seldom_confirm_a_leak():
    plan = planned(classes(pages(4, 4), baselines=("b",)), AUC, EXCESS)
    assert plan.leaks == SmallestLeaks(None, None)
    assert conclusion(plan).endswith(" These documents seldom confirm a leak.")


def test_what_so_many_units_show():
    net, auc, excess = (one.resolution for one in planned(TAGGED, NET, AUC, EXCESS).limits)
    assert (net.members, net.others, net.unit) == (120, 0, "documents")
    assert (net.certified, (auc.members, auc.others)) == (
        pytest.approx(0.0247, abs=0.001),
        (120, 120),
    )
    assert auc.needed <= excess.needed <= 120
    plan = planned(corpus(providers(36, 36), assigned="by-provider"), BALANCED)
    small = plan.limits[0].resolution
    assert small.certified == pytest.approx(0.604, abs=0.005)
    assert conclusion(plan, detailed=False).endswith(
        f" Too small: get {small.needed} providers a side."
    )


def test_fewer_baselines_than_a_budget_wants_weaken_memorisation():
    outcomes = [
        planned(corpus(pages(150, 150)), NET, budget=name).limits[0]
        for name in ("standard", "full")
    ]
    assert [one.outcome for one in outcomes] == ["decides", "cannot pass"]
    assert outcomes[1].reason.startswith("1 of 3 baselines")


def same_words(found):
    """The same pages, their words as the lot would have them."""
    rng = np.random.default_rng(3)
    names = ["tea", "milk", "rice", "salt", "oil"]
    return [
        replace(one, words=tuple(Word(str(word)) for word in rng.choice(names, 3))) for one in found
    ]


def test_the_plan_says_confounded_where_the_scan_will():
    told = checked_blindly(corpus(pages(130, 130)), AUC, NET)
    assert [one.outcome for one in told.limits] == ["confounded", "decides"]
    assert told.limits[0].reason.startswith("training and unseen documents differ even without")
    assert "The groups differ without the model (confounded): membership auc." in conclusion(told)
    assert "can confirm 1 of 2 limits as met" in conclusion(told)
    alike = checked_blindly(corpus(same_words(pages(130, 130))), AUC, NET)
    assert [one.outcome for one in alike.limits] == ["decides", "decides"]


def test_a_blind_check_that_is_too_weak_decides_nothing_but_where_the_lot_did():
    documents = same_words(pages(25, 25))
    for assigned, outcome in {"random": "decides", "by-date": "blind check too weak"}.items():
        found = checked_blindly(corpus(documents, assigned=assigned), replace(AUC, max=0.9))
        assert found.limits[0].outcome == outcome
    assert "too weak to exclude this" in found.limits[0].reason
    assert "they come from different times" in found.limits[0].reason
    assert 'state assigned = "random" in manifest.toml' in conclusion(found)
    assert "can confirm 0 of 1 limits as met" in conclusion(found)


def test_what_no_limit_asks_for_or_cannot_be_fed_is_not_checked():
    made = corpus(pages(40, 40))
    policy = checked(
        Policy(1, "mine", (AUC, limit("provider_membership", "balanced_accuracy", max=0.65)))
    )
    progress = ProgressLog()
    for budget in ("standard", "quick"):
        assert set(blind_checks(made, policy, budget, at_most(made, budget), progress)) == {
            "membership"
        }
    assert [total for _, total in progress.stages] == [80, 20]
    assert blind_checks(made, Policy(1, "mine", (NET,)), "quick", at_most(made, "quick")) == {}


def test_a_gap_excuses_no_model_at_hand_that_can_be_attacked():
    made = corpus(pages(150, 150))
    gap = Gap("reconstruction", ("question-answering",), "it sees pixels")
    policy = checked(Policy(1, "mine", (EXCESS,), gaps=(gap,)))
    lacking = {"lacks": "it needs a reference", "inapplicable": None}
    for exact, outcome in ((False, "not applicable"), (True, "lacks")):
        every = {cost.attack: cost for cost in at_most(made, "standard")}
        costs = [
            *(
                every | {"reconstruction": replace(every["reconstruction"], exact=exact, **lacking)}
            ).values()
        ]
        assert plan_limits(made, policy, "standard", costs, {}).limits[0].outcome == outcome


def test_a_budget_takes_fewer_trials_and_reaches_fewer_units():
    made = corpus(pages(100, 60, fields=2))
    for budget, reached in {"standard": (100, 60), "quick": (25, 15)}.items():
        found = planned(made, NET, AUC, budget=budget)
        net, auc = (one.resolution for one in found.limits)
        assert (auc.members, auc.others) == reached
        # One question of each page before a second of any: a quarter of two a page reaches half of
        # them.
        assert net.members == min(100, 2 * reached[0])
        trials = {cost.attack: cost.trials for cost in found.costs}
        assert (trials["memorisation"], trials["reconstruction"]) == (2 * sum(reached), 0)
        assert trials["membership"] == sum(reached)


LIFT = limit("redaction", "lift_over_length", max=0.10, required=False)
SHARE = replace(LIFT, metric="lift_share", max=0.20)
WORST = replace(LIFT, metric="worst_class", max=0.30)
GAIN = replace(LIFT, metric="target_gain", max=0.10)


def test_limits_on_the_text_are_apart_from_those_on_the_model():
    found = planned(manifests.load(SAMPLES / "letters" / "data"), LIFT, SHARE, WORST, GAIN)
    assert [one.metric for one in found.limits if one.about_text] == [
        "lift_over_length",
        "lift_share",
        "worst_class",
    ]
    assert ([one.metric for one in found.joint.limits], found.limits[0].outcome) == (
        ["target_gain"],
        "decides",
    )


def test_all_methods_of_a_question_must_pass(monkeypatch):
    made = manifests.load(SAMPLES / "letters" / "data")
    units = RedactionContext.units

    def resolution(methods):
        def several(attack, data):
            return tuple(replace(unit, methods=methods) for unit in units(attack, data))

        monkeypatch.setattr(RedactionContext, "units", several)
        return planned(made, SHARE).limits[0].resolution

    one = resolution(1)
    four = resolution(4)
    assert (one.at_least, four.at_least) == (False, True)
    assert four.pass_power == pytest.approx(1 - 4 * (1 - one.pass_power))
    assert four.needed >= one.needed
    for methods, least in ((1, False), (4, True)):
        resolution(methods)
        row = limits_table(planned(redacted.texts(20, told=True), SHARE))[2][0]
        assert row[3].startswith(">= ") == least


def test_the_chance_to_pass_the_whole_policy_is_one_number_with_the_checks_share():
    made = corpus(pages(150, 150), "token-classification")
    found = planned(made, AUC, EXCESS, limit("reconstruction", "excess_hamming.unique", max=0.1))
    chances = [one.resolution.pass_power for one in found.limits]
    whole = found.joint
    assert whole.chance == pytest.approx(0.95 * chances[0] * chances[1] * chances[2])
    assert not whole.blocked
    said = (
        f"A leak-free model would pass all 3 limits in about {100 * whole.chance:.0f} % of audits."
    )
    assert conclusion(found).count("of audits") == conclusion(found).count(said) == 1
    # More documents cure width, and no false alarm.
    many = planned(corpus(pages(3_000, 3_000), "token-classification"), AUC).joint
    assert many.chance == pytest.approx(0.95 * many.limits[0].resolution.pass_power)
    assert many.chance <= 0.95


def test_a_set_that_is_too_small_is_told_how_many_documents_would_do_for_all_limits_together():
    made = corpus(pages(60, 60), "token-classification")
    found = planned(made, AUC, EXCESS)
    enough = found.enough
    assert enough.members == 60 + enough.more_members
    more = corpus(pages(enough.members, enough.others), "token-classification")
    assert planned(more, AUC, EXCESS).joint.chance >= 0.8
    fewer = corpus(
        pages(int(0.94 * enough.members), int(0.94 * enough.others)), "token-classification"
    )
    assert planned(fewer, AUC, EXCESS).joint.chance < 0.8
    said = f"About {enough.members} + {enough.others} documents ({enough.more_members} + {enough.more_others} more)"
    assert said in conclusion(found)


def test_a_set_that_is_large_enough_is_told_no_number():
    assert planned(corpus(pages(300, 300), "token-classification"), AUC, EXCESS).enough is None


def test_a_policy_that_no_model_passes_here_is_said_to_be_one():
    made = corpus(
        pages(150, 150),
        "token-classification",
        references=replace(GIVEN, auxiliary=None, pretrained=None),
    )
    found = planned(made, AUC, EXCESS, limit("canaries", "excess", max=0.2, required=False))
    assert [one.attack for one in found.joint.blocked] == ["reconstruction"]
    assert (
        "As it is, no model passes the whole policy: see reconstruction excess_pr.unique."
        in conclusion(found)
    )
    said = f"Once that is fixed, a leak-free model would pass all 2 limits in about {100 * found.joint.chance:.0f} %"
    assert said in conclusion(found)


def test_a_plan_says_what_a_pass_needs_to_be_able_to_ask():
    made = corpus(pages(150, 150), "intent-slots")
    canary = limit("canaries", "excess", max=0.2, required=False)
    demand = Demand("repeated text", ("reconstruction", "canaries"), "r")
    gaps = (Gap("reconstruction", ("intent-slots",), "r"),)
    for demands, blocked in (((), []), ((demand,), ["canaries"])):
        policy = checked(Policy(1, "mine", (AUC, EXCESS, canary), gaps=gaps, demands=demands))
        found = plan_limits(made, policy, "standard", at_most(made, "standard"), {})
        assert [one.attack for one in found.joint.blocked] == blocked
    assert found.limits[2].reason == (
        "the data set holds no canaries; a pass needs a decided limit on repeated text: reconstruction or canaries"
    )
    gaps = (*gaps, Gap("canaries", ("intent-slots",), "r"))
    policy = checked(Policy(1, "mine", (AUC, EXCESS, canary), gaps=gaps, demands=(demand,)))
    assert not plan_limits(made, policy, "standard", at_most(made, "standard"), {}).joint.blocked


def test_the_json_holds_what_is_required_all_that_blocks_and_the_time_of_all():
    made = corpus(
        providers(20, 20),
        assigned="by-provider",
        references=replace(GIVEN, baselines=(), pretrained=None),
    )
    asked = limit("provider_membership", "auc", max=0.65, required=False)
    costs = [
        replace(cost, seconds=60.0) if cost.attack == "membership" else cost
        for cost in at_most(made, "standard")
    ]
    found = planned(made, asked, NET, costs=costs)
    written = json.loads(as_json(found))
    auc, net = written["limits"]
    assert [auc["required"], net["required"]] == [False, True]
    assert [outcome for outcome, _ in auc["blockers"]] == ["too small", "cannot pass"]
    assert found.limits[0].blockers[1] == ("cannot pass", auc["blockers"][1][1])
    assert (auc["reason"], written["time"]) == (
        "; ".join(why for _, why in auc["blockers"]),
        {"seconds": 60.0},
    )
    assert set(written["joint"]) == {"limits", "chance", "blocked"}
    assert json.loads(as_json(planned(made, NET)))["time"] is None
    of_forgetting = [Policy(1, "mine", (own,), forgets=True) for own in (NET, AUC)]
    assert [
        plan_limits(made, own, "standard", costs, {}).total_seconds for own in of_forgetting
    ] == [None, 60.0]


class Slow:
    """Work whose trials take so many seconds."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.trials = 0

    def attempt(self, trial):
        self.trials += 1
        time.sleep(self.seconds)
        return {}
        yield


TRIALS = [
    Trial(f"t{number}", f"t{number}", ("member", "heldout")[number % 2]) for number in range(40)
]


@pytest.mark.parametrize("limit", [0.5, 20.0])
def test_about_ten_trials_or_as_many_as_fit_are_run_and_multiplied(limit, monkeypatch):
    monkeypatch.setattr(planning, "TRIALS", 10)
    work = Slow(0.05)
    seconds = planning.estimate(work, TRIALS, 8, limit)
    assert 40 * 0.05 <= seconds < 2 * 40 * 0.05
    assert 1 <= work.trials <= 2 + planning.TRIALS
    assert work.trials == 2 + planning.TRIALS or limit < 1


def test_a_full_width_of_short_trials_is_timed_and_ten_of_long_ones(monkeypatch):
    monkeypatch.setattr(planning, "TRIALS", 10)
    for seconds, tried in ((0.001, 2 + 20), (0.12, 2 + 10)):
        work = Slow(seconds)
        planning.estimate(work, TRIALS, 20, 20.0)
        assert work.trials == tried


def test_the_peak_of_memory_is_that_since_it_was_restarted():
    machine.peak_memory("cpu", restart=True)
    before = machine.peak_memory("cpu")
    np.ones(40_000_000)
    assert machine.peak_memory("cpu", restart=True) >= before + 300_000_000
    assert machine.peak_memory("cpu") < before + 100_000_000
