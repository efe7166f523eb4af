"""The guarantee of a training in the report, proved beside measured.

A guarantee that planted secrets contradict.
"""

import dataclasses
import re
from html import unescape

import example_canaries
import example_private as examples
import pytest
from commands import docaudit
from example_records import TODAY
from policy_texts import write_policy
from pydantic import ValidationError

from audit import record as records
from audit.attacks import TEXTS
from audit.cards import PrivacyCard
from audit.extensions.private.countermeasure import asked_of_training, bound, provable, proves
from audit.policy import Limit, Waiver, contradiction, evaluate, load
from audit.policy.checks import settle
from audit.report.facts.recommend import recommend
from audit.report.html import html
from audit.stats.dp_bounds import Guarantee
from audit.stats.epsilon import lower_bound

AUC, LOW, ACCURACY, AREA, EXCESS, EXPOSURE = examples.LIMITS


def section(case):
    """The section on the guarantee, as text; empty where the report has none."""
    found = re.search(
        r'<section id="guarantee">(.*?)</section>', html(*without_drawings(case)), re.DOTALL
    )
    return (
        "" if found is None else " ".join(unescape(re.sub(r"<[^>]*>", " ", found.group(1))).split())
    )


def without_drawings(case):
    audited, verdict, policy = case
    plain = (dataclasses.replace(one, histograms=(), curves=()) for one in audited.attacks)
    return dataclasses.replace(audited, attacks=tuple(plain)), verdict, policy


@pytest.mark.parametrize("name", ["default", "strict"])
def test_limits_on_membership_and_providers_have_a_bound(name):
    limits = [
        one for one in load(name).limits if one.attack in ("membership", "provider_membership")
    ]
    assert len(limits) > 3
    assert all(
        provable(one.attack, one.metric) is not None for one in limits if one.holds == "interval"
    )
    assert provable("membership", "auc.lira") == provable("membership", "auc")
    assert provable("memorisation", "net") is provable("canaries", "excess") is None


def test_no_epsilon_proves_a_limit_on_providers_for_single_documents_or_one_under_chance():
    assert not proves(asked_of_training(examples.LIMITS), "document", Guarantee(0.0, 0.0))
    under_chance = asked_of_training([Limit("membership", "auc", "r", max=0.49)])
    assert not proves(under_chance, "document", Guarantee(0.0, 0.0))
    assert asked_of_training([Limit("memorisation", "net", "r", max=0.01)]) == []


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(PrivacyCard)])
def test_a_card_can_hold_no_text_of_its_own(field):
    with pytest.raises(ValidationError):
        dataclasses.replace(examples.card(1.0), **{field: "<script>alert(1)</script>"})


def test_there_is_no_section_without_a_card():
    assert section(examples.held(None, examples.membership())) == ""


def contradiction_of(case) -> str | None:
    """What contradicts the guarantee of a record that is held against limits."""
    return contradiction(settle(case[0], ()))


def test_planted_secrets_contradict_a_guarantee_that_they_exceed():
    audited, verdict, _ = examples.contradicted()
    assert "contradict" not in section(examples.private(8.0)).replace("do not contradict", "")
    assert verdict.contradicted == contradiction(settle(audited, ()))
    assert "epsilon 0.5" in verdict.contradicted
    assert verdict.overall == "violated"
    assert verdict.reason.startswith(verdict.contradicted)
    assert "The guarantee is false." in section(examples.contradicted())
    assert "The training of this model claims a privacy guarantee that does not hold." in html(
        *without_drawings(examples.contradicted())
    )


def test_the_claim_is_held_against_the_bound_of_the_same_copies_and_delta():
    """The bound at the claim's own delta is compared with what group privacy makes of the claim."""
    secrets = example_canaries.canaries(1.0, n=256, repeat=10)
    guessed = {count.name: count.value for count in secrets.counts}
    counts = [guessed[f"epsilon: {name}"] for name in ("evaluated", "guessed", "right")]
    for delta in (1e-7, 1e-5):
        for claimed in (0.05, 0.3, 0.38, 0.41, 3.0):
            group = Guarantee(claimed, delta).of_group(10)
            exceeded = group.delta < 1 and lower_bound(*counts, delta=group.delta) > group.epsilon
            case = examples.held(examples.card(claimed, delta), secrets)
            assert (contradiction_of(case) is not None) == exceeded, (claimed, delta)
    assert contradiction_of(examples.held(examples.card(0.05, 1e-7), secrets)) is not None
    assert contradiction_of(examples.held(examples.card(3.0, 1e-7), secrets)) is None
    assert (
        contradiction_of(examples.held(examples.card(0.05, 0.05), secrets)) is None
    )  # such a delta tells everything


def test_what_shows_nothing_contradicts_nothing():
    quiet = example_canaries.canaries(0.0, n=256, repeat=1)
    loud = example_canaries.canaries(1.0, n=256, repeat=1)
    assert contradiction_of(examples.held(examples.card(0.1, 1e-5), quiet)) is None
    assert contradiction_of(examples.held(None, loud)) is None
    assert contradiction_of(examples.held(examples.card(None), loud)) is None
    assert contradiction_of(examples.held(examples.card(0.1), examples.membership())) is None
    uncounted = dataclasses.replace(loud, counts=())
    assert contradiction_of(examples.held(examples.card(0.1), uncounted)) is None
    undrawn = example_canaries.canaries(1.0, n=4, repeat=1)
    assert contradiction_of(examples.held(examples.card(0.1), undrawn)) is None


def met_otherwise(**settings):
    """A record that contradicts its guarantee and meets every limit."""
    loud = example_canaries.canaries(1.0, n=256, repeat=1)
    return examples.held(
        examples.card(0.5, 1e-5), examples.membership(), loud, limits=(AUC, LOW), **settings
    )


def test_a_contradicted_guarantee_never_passes_whatever_the_limits(tmp_path):
    for case in (met_otherwise(), met_otherwise(undecided="warn")):
        assert {decision.outcome for decision in case[1].decisions} == {"passed"}
        assert (case[1].overall, case[1].exit_code) == ("violated", 10)
    audited, _, policy = met_otherwise()
    waivers = tuple(
        Waiver(one.attack, one.metric, "Anna", "Ben", "measured twice", "RISK-1", TODAY)
        for one in policy.limits
    )
    waived = evaluate(audited, dataclasses.replace(policy, waivers=waivers), TODAY)
    assert waived.exit_code == 10


def test_a_contradicted_guarantee_is_a_finding_that_countermeasures_answer():
    audited, verdict, _ = met_otherwise()
    answers = [finding for item in recommend(audited, verdict) for finding in item.findings]
    assert ("canaries", "epsilon", "alarm") in [
        (one.attack, one.metric, one.state) for one in answers
    ]


def test_gate_refuses_a_record_whose_guarantee_is_contradicted(tmp_path):
    audited = met_otherwise()[0]
    # As a scan would write it: the noise is enough for what is claimed, and the model is one for
    # these documents.
    enough = dataclasses.replace(audited.dp, noise_multiplier=60.0)
    target = dataclasses.replace(audited.target, task=audited.corpus.task)
    audited = dataclasses.replace(audited, dp=enough, target=target)
    records.write(audited, tmp_path / "record.json")
    path = write_policy(tmp_path / "policy.toml", "membership auc max = 0.65")
    refused = docaudit("gate", tmp_path / "record.json", "--policy", path)
    assert refused.exit_code == 10, refused.output
    assert "claims epsilon 0.5" in refused.output
    true = dataclasses.replace(examples.card(8.0), noise_multiplier=60.0)
    records.write(dataclasses.replace(audited, dp=true), tmp_path / "record.json")
    assert docaudit("gate", tmp_path / "record.json", "--policy", path).exit_code == 0


def test_bounds_do_not_fall_with_epsilon():
    for text in TEXTS.values():
        for declared in text.provable.values():
            values = [bound(declared, Guarantee(epsilon, 1e-5)) for epsilon in (0, 0.1, 1, 4, 16)]
            assert values == sorted(values)
