"""The guarantee of a training in the report, proved beside measured; a guarantee that planted secrets contradict."""

from __future__ import annotations

import dataclasses
import re
from html import unescape

import example_canaries
import example_private as examples
import pytest
from example_records import TODAY
from pydantic import ValidationError
from typer.testing import CliRunner

from audit import record as records
from audit.attacks import TEXTS
from audit.attacks.battery import BATTERY
from audit.attacks.privacy_bounds import asked_of_training, bound, provable, prove, proves
from audit.cards import PrivacyCard
from audit.cli import app
from audit.defenses.measured import Comparison
from audit.extensions.countermeasures import page as defended
from audit.policy import Limit, Waiver, contradiction, evaluate, load
from audit.report.guarantee import plain_words, shown_upwards
from audit.report.html import html
from audit.report.recommend import recommend
from audit.stats.dp_bounds import Guarantee, balanced_accuracy
from audit.stats.epsilon import lower_bound

AUC, LOW, ACCURACY, AREA, EXCESS, EXPOSURE = examples.LIMITS


def section(case):
    """The section on the guarantee, as text; empty where the report has none."""
    found = re.search(r'<section id="guarantee">(.*?)</section>', html(*without_drawings(case)), re.DOTALL)
    return "" if found is None else " ".join(unescape(re.sub(r"<[^>]*>", " ", found.group(1))).split())


def without_drawings(case):
    audited, verdict, policy = case
    plain = (dataclasses.replace(one, histograms=(), curves=()) for one in audited.attacks)
    return dataclasses.replace(audited, attacks=tuple(plain)), verdict, policy


def proof(case, limit):
    audited = case[0]
    result = next((one for one in audited.attacks if one.attack == limit.attack), None)
    return prove(limit.attack, limit.metric, audited.dp, result)


def test_attacks_declare_bounds_of_metrics_that_they_have():
    for kind in BATTERY:
        assert {*TEXTS[kind.name].provable} <= {*TEXTS[kind.name].metrics}
        for found in TEXTS[kind.name].provable.values():
            assert {*found.bits_in} <= {field.name for field in dataclasses.fields(kind)}
            assert not found.fpr_in or any(name.startswith(found.fpr_in) for name in ("low_fpr",))
    assert provable("membership", "auc.lira") == provable("membership", "auc")
    assert provable("memorisation", "net") is None
    assert provable("canaries", "hdt") is None


@pytest.mark.parametrize("name", ["default", "strict"])
def test_limits_on_membership_providers_and_canaries_have_a_bound(name):
    limits = [one for one in load(name).limits if one.attack in ("membership", "provider_membership", "canaries")]
    assert len(limits) > 4
    assert all(provable(one.attack, one.metric) is not None for one in limits if one.holds == "interval")


def test_a_document_is_its_own_unit_and_part_of_a_provider():
    of_documents, of_providers = examples.private(1.0), examples.private(1.0, unit="provider")
    assert proof(of_documents, AUC).most == pytest.approx(0.7312, abs=1e-3)
    assert proof(of_providers, AUC).group == 2
    assert proof(of_providers, AUC).most == pytest.approx(0.8812, abs=1e-3)
    assert proof(of_providers, ACCURACY).most == pytest.approx(0.7312, abs=1e-3)
    assert proof(of_documents, ACCURACY).most is None
    assert "m times" in proof(of_documents, ACCURACY).reason


def test_rates_are_those_of_the_scan_or_the_largest_there_is():
    case = examples.private(1.0)
    assert proof(case, LOW).most == pytest.approx(0.01 * 1.71828 + 6.4e-4, abs=1e-5)
    assert prove("membership", LOW.metric, case[0].dp, None).most == pytest.approx(0.171828 + 6.4e-4, abs=1e-5)


@pytest.mark.parametrize("repeat", [1, 3])
def test_a_planted_secret_is_as_many_documents_as_it_has_copies(repeat):
    case = examples.private(1.0, repeat=repeat)
    promised = Guarantee(1.0, 6.4e-4).of_group(repeat)
    chance = 10.0**-4
    assert proof(case, EXCESS).most == pytest.approx(promised.odds * chance + promised.delta - chance)
    assert proof(case, EXCESS).group == repeat
    assert proof(examples.private(1.0, unit="provider", repeat=repeat), EXCESS).group == 2
    assert 1 < proof(case, EXPOSURE).most < 14


def test_nothing_is_proved_without_an_epsilon_or_without_a_bound():
    case = examples.private(None)
    assert all(proof(case, limit).most is None for limit in examples.LIMITS)
    assert prove("memorisation", "net", examples.card(), None).most is None
    assert prove("canaries", "excess", examples.card(), None).most is None


@pytest.mark.parametrize(("limits", "unit"), [((AUC, LOW), "document"), (examples.LIMITS, "provider")])
@pytest.mark.parametrize("others", [(), ((0.0, 0.02), (0.2, 0.01))])
def test_a_guarantee_proves_the_limits_that_its_card_proves(limits, unit, others):
    asked = [one for one in limits if one.attack != "canaries"]
    answers = []
    for epsilon in (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 2.0):
        card = dataclasses.replace(examples.card(epsilon, 1e-4, unit=unit), curve=others)
        by_card = all(prove(one.attack, one.metric, card, None).most <= one.max for one in asked)
        answers.append(proves(asked_of_training(limits), unit, Guarantee(epsilon, 1e-4, others)))
        assert answers[-1] == by_card
    assert answers[0]
    assert answers[-1] == bool(others)


def test_every_bound_is_at_most_that_of_each_point_of_the_curve():
    points = ((8.0, 6.4e-4), (4.0, 0.01), (1.0, 0.05), (1e-9, 0.2))
    for unit, limits in (("document", (AUC, LOW)), ("provider", examples.LIMITS)):
        audited = examples.private(8.0, unit=unit)[0]
        cards = [dataclasses.replace(audited.dp, epsilon=epsilon, delta=delta) for epsilon, delta in points]
        whole = dataclasses.replace(audited.dp, curve=points[1:])
        for limit in limits:
            result = next(one for one in audited.attacks if one.attack == limit.attack)
            most, *each = (prove(limit.attack, limit.metric, card, result).most for card in (whole, *cards))
            assert most <= min(each) + 1e-12
        assert prove("membership", "auc", whole, None).most < prove("membership", "auc", cards[0], None).most - 0.05


def test_no_epsilon_proves_a_limit_on_providers_for_single_documents_or_one_under_chance():
    assert not proves(asked_of_training(examples.LIMITS), "document", Guarantee(0.0, 0.0))
    under_chance = asked_of_training([Limit("membership", "auc", "r", max=0.49)])
    assert not proves(under_chance, "document", Guarantee(0.0, 0.0))
    assert asked_of_training([Limit("memorisation", "net", "r", max=0.01)]) == []


def test_the_report_says_what_is_promised_to_whom_and_what_that_proves():
    text = section(examples.private(0.5, unit="provider"))
    assert "docaudit cannot verify it from the model" in text
    assert "each provider, with all its documents" in text.lower()
    assert "Epsilon 0.5, delta 0.00064 (1 in 1,562)" in text
    assert "at most 62 % of such guesses are right".replace(" %", "\u00a0%") in text or "62 %" in text
    assert "Whatever else is released from the same documents" in text
    assert "0.0064 C in each coordinate" in text
    assert text.count("Yes: proved") == 5
    assert "2 providers change together: epsilon 1)" in text
    assert "do not contradict" in text


def test_the_report_says_where_nothing_is_proved():
    text = section(examples.private(8.0))
    assert "leaves room for nearly everything" in text
    assert text.count("a provider's m documents together have m times its epsilon") == 2
    assert "0.9997" in text
    assert "Yes:" not in text


def test_the_report_of_a_seeded_training_promises_nothing():
    text = section(examples.private(None))
    assert "coins and noise came from a seed" in text
    assert "epsilon 8" not in text.lower()


def test_the_report_of_a_training_without_noise_says_so_and_claims_no_privacy():
    card = dataclasses.replace(examples.card(None), noise_multiplier=0.0, secure=True)
    text = section(examples.held(card, examples.membership()))
    assert "None: no noise was added" in text
    assert "It proves nothing: no noise was added to the training" in text
    assert "seed" not in text
    assert "claims differential privacy" not in text
    assert "no guarantee that planted secrets could refute" in text
    assert "trained with the means of differential privacy" in section(examples.private(None))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (examples.private(0.5, unit="provider"), ("epsilon 0.5, delta 0.00064", "cannot verify it from the model")),
        (examples.private(None), ("coins and noise came from a seed",)),
    ],
)
def test_the_comparison_of_countermeasures_has_the_guarantee_of_each_training(case, said):
    record = without_drawings(case)[0]
    measured = Comparison(
        2, "1", "dp", "Private", "training", "k", "default", "0" * 64, "1" * 64, "2" * 64, "quick", 0, "violated",
        "passed", (), (), (), (),
    )  # fmt: skip
    page = " ".join(unescape(re.sub(r"<[^>]*>", " ", defended.html(record, [(measured, record)], {}))).split())
    assert "Private: guarantee of the training" in page
    assert all(words in page.replace("Epsilon", "epsilon") for words in said)


def test_the_report_of_a_federated_training_names_clients_rounds_and_bounds():
    card = dataclasses.replace(
        examples.card(1.0, unit="provider"),
        clients=10,
        client_rate=0.2,
        local_steps=2,
        per_unit=50,
    )
    text = section(examples.held(card, examples.membership())).replace("\u00a0", " ")
    assert "10 clients; each takes part in a round with probability 20 %" in text
    assert "its change by 2 passes over its documents is cut to length C = 1" in text
    assert "at most 50 documents of each were used" in text


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(PrivacyCard)])
def test_a_card_can_hold_no_text_of_its_own(field):
    with pytest.raises(ValidationError):
        dataclasses.replace(examples.card(1.0), **{field: "<script>alert(1)</script>"})


def test_there_is_no_section_without_a_card():
    assert section(examples.held(None, examples.membership())) == ""


def test_limits_on_what_was_not_measured_are_listed_too():
    text = section(examples.held(examples.card(0.5), examples.membership()))
    assert text.count("not measured") == 4
    assert "no planted secrets that tell epsilon" in text


def test_epsilon_in_plain_words_is_the_share_of_right_guesses():
    assert balanced_accuracy(Guarantee(8, 0)) == pytest.approx(0.99966, abs=1e-5)
    words = plain_words("document", Guarantee(8, 1e-5))
    assert "99.97" in words
    assert "2,981 times" in words
    assert "2.7 times" in plain_words("document", Guarantee(1, 1e-5))


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [(0.73101, "number", "0.732"), (0.99967, "number", "0.9997"), (1.0, "number", "1.00"), (12.51, "number", "12.6")],
)
def test_bounds_are_never_rounded_down(value, form, shown):
    assert shown_upwards(value, form) == shown


def test_planted_secrets_contradict_a_guarantee_that_they_exceed():
    audited, verdict, _ = examples.contradicted()
    assert "contradict" not in section(examples.private(8.0)).replace("do not contradict", "")
    assert verdict.contradicted == contradiction(audited)
    assert "epsilon 0.5" in verdict.contradicted
    assert verdict.overall == "violated"
    assert verdict.reason.startswith(verdict.contradicted)
    text = section(examples.contradicted())
    assert "The guarantee is false." in text
    assert "Yes:" not in text
    assert text.count("It proves nothing: it is false") == len(examples.LIMITS)
    assert "delta 1e-05 (1 in 100,000)" in text
    assert "The guarantee that this model’s training claims is false." in html(
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
            assert (contradiction(case[0]) is not None) == exceeded, (claimed, delta)
    assert contradiction(examples.held(examples.card(0.05, 1e-7), secrets)[0]) is not None
    assert contradiction(examples.held(examples.card(3.0, 1e-7), secrets)[0]) is None
    assert contradiction(examples.held(examples.card(0.05, 0.05), secrets)[0]) is None  # such a delta tells everything


def test_what_shows_nothing_contradicts_nothing():
    quiet = example_canaries.canaries(0.0, n=256, repeat=1)
    loud = example_canaries.canaries(1.0, n=256, repeat=1)
    assert contradiction(examples.held(examples.card(0.1, 1e-5), quiet)[0]) is None
    assert contradiction(examples.held(None, loud)[0]) is None
    assert contradiction(examples.held(examples.card(None), loud)[0]) is None
    assert contradiction(examples.held(examples.card(0.1), examples.membership())[0]) is None
    uncounted = dataclasses.replace(loud, counts=())
    assert contradiction(examples.held(examples.card(0.1), uncounted)[0]) is None
    undrawn = example_canaries.canaries(1.0, n=4, repeat=1, design="paper")
    assert contradiction(examples.held(examples.card(0.1), undrawn)[0]) is None


def met_otherwise(**settings):
    """A record that contradicts its guarantee and meets every limit."""
    loud = example_canaries.canaries(1.0, n=256, repeat=1)
    return examples.held(examples.card(0.5, 1e-5), examples.membership(), loud, limits=(AUC, LOW), **settings)


def test_a_contradicted_guarantee_never_passes_whatever_the_limits(tmp_path):
    for case in (met_otherwise(), met_otherwise(undecided="warn")):
        assert {decision.outcome for decision in case[1].decisions} == {"passed"}
        assert case[1].overall == "violated"
        assert case[1].exit_code == 10
    audited, _, policy = met_otherwise()
    waivers = tuple(Waiver(one.attack, one.metric, "A", "B", "C", "D", TODAY) for one in policy.limits)
    waived = evaluate(audited, dataclasses.replace(policy, waivers=waivers), TODAY)
    assert waived.exit_code == 10


def test_a_contradicted_guarantee_is_a_finding_that_countermeasures_answer():
    audited, verdict, _ = met_otherwise()
    answers = [finding for item in recommend(audited, verdict) for finding in item.findings]
    assert ("canaries", "epsilon", "alarm") in [(one.attack, one.metric, one.state) for one in answers]


def test_gate_refuses_a_record_whose_guarantee_is_contradicted(tmp_path):
    audited = met_otherwise()[0]
    # As a scan would write it: the noise is enough for what is claimed, and the model is one for these documents.
    enough = dataclasses.replace(audited.dp, noise_multiplier=60.0)
    target = dataclasses.replace(audited.target, task=audited.corpus.task)
    audited = dataclasses.replace(audited, dp=enough, target=target)
    records.write(audited, tmp_path / "record.json")
    path = tmp_path / "policy.toml"
    path.write_text(
        'schema = 1\nname = "mine"\n[[limits]]\nattack = "membership"\nmetric = "auc"\nmax = 0.65\nrationale = "r"\n'
    )
    refused = CliRunner().invoke(app, ["gate", str(tmp_path / "record.json"), "--policy", str(path)])
    assert refused.exit_code == 10, refused.output
    assert "claims epsilon 0.5" in refused.output
    true = dataclasses.replace(examples.card(8.0), noise_multiplier=60.0)
    records.write(dataclasses.replace(audited, dp=true), tmp_path / "record.json")
    assert CliRunner().invoke(app, ["gate", str(tmp_path / "record.json"), "--policy", str(path)]).exit_code == 0


def test_bounds_do_not_fall_with_epsilon():
    for text in TEXTS.values():
        for declared in text.provable.values():
            values = [bound(declared, Guarantee(epsilon, 1e-5)) for epsilon in (0, 0.1, 1, 4, 16)]
            assert values == sorted(values)
