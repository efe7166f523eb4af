"""Private training as a countermeasure: registered, its policy's epsilon, and the card in a record."""

import math
from pathlib import Path
from typing import Any

import dp_toy as toy
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.optimize import brentq

from audit.defenses.interface import DEFENSES
from audit.engine.interface import SILENT
from audit.errors import UsageError
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense
from audit.extensions.private import train as training
from audit.extensions.private.countermeasure import DpTraining, proof_of
from audit.extensions.private.options import DpOptions, Proves, settle
from audit.policy import Limit, Policy, load
from audit.stats.dp_bounds import Guarantee, auc
from audit.workflows.options import ScanOptions

DELTA = 1e-5


def policy(*limits: tuple[str, str, float]) -> Policy:
    return Policy(
        1,
        "ours",
        tuple(Limit(attack, metric, "because", max=most) for attack, metric, most in limits),
    )


def proof(limits: Policy, *, providers: bool) -> Proves:
    own = [toy.document("a", 1.0, 1.0, "p" if providers else None), toy.document("b", 1.0, 2.0)]
    return proof_of(limits, toy.corpus(own))


def provable_epsilon(limits: Policy, unit: Any, delta: float, *, providers: bool) -> float:
    """The largest epsilon that proves the limits at this delta alone."""
    proves = proof(limits, providers=providers)
    return float(
        brentq(lambda epsilon: proves(unit, Guarantee(epsilon, delta)) - 0.5, 0.0, 20.0, xtol=1e-9)
    )


def test_it_is_a_countermeasure_that_trains_and_keeps_the_baselines() -> None:
    defense = DEFENSES["dp"]
    blocking = DEFENSES["blocking"]
    assert isinstance(defense, DpTraining)
    assert isinstance(blocking, TrainingDefense)
    assert (defense.baselines_like, blocking.baselines_like) == (False, True)
    options = ScanOptions(Path("model"), Path("data"), Path("out"), seed=3)
    chosen = defense.with_settings({"epsilon": 2.0, "steps": "7", "trained": "head"}, options)
    assert chosen.options == DpOptions(epsilon=2.0, steps=7, trained="head", seed=3)
    assert (chosen.audited, defense.options) == (Path("model"), DpOptions())
    for settings, said in (
        ({"step": "7"}, "no setting of dp is called 'step'"),
        ({"steps": "many"}, "steps many"),
    ):
        with pytest.raises(UsageError, match=said):
            defense.with_settings(settings, options)


def test_a_limit_on_accuracy_gives_its_known_epsilon() -> None:
    # balanced accuracy 0.65: e^eps / (1 + e^eps) = 0.65
    found = provable_epsilon(
        policy(("provider_membership", "balanced_accuracy", 0.65)), "provider", 0.0, providers=True
    )
    assert found == pytest.approx(math.log(0.65 / 0.35), abs=1e-6)


def test_the_tightest_limit_decides() -> None:
    limits = policy(("membership", "auc", 0.65), ("membership", "low_fpr_advantage", 0.02))
    found = provable_epsilon(limits, "document", DELTA, providers=False)
    assert found == pytest.approx(
        math.log(1 + 0.02 / 0.1), abs=1e-3
    )  # at 10 % false alarms, the most that is asked
    alone = provable_epsilon(
        policy(("membership", "auc", 0.65)), "document", DELTA, providers=False
    )
    assert found < alone < 1.0
    at_ten_percent = policy(("membership", "tpr_at_fpr_10", 0.3))
    assert provable_epsilon(at_ten_percent, "document", 0.0, providers=False) == pytest.approx(
        math.log(3), abs=1e-6
    )


def test_documents_of_protected_providers_are_two_steps_away() -> None:
    limits = policy(("membership", "auc", 0.65))
    document = provable_epsilon(limits, "document", 0.0, providers=True)
    assert provable_epsilon(limits, "provider", 0.0, providers=True) == pytest.approx(
        document / 2, abs=1e-6
    )


def test_limits_on_providers_need_protected_providers() -> None:
    limits = policy(("membership", "auc", 0.9), ("provider_membership", "auc", 0.7))
    assert not proof(limits, providers=True)("document", Guarantee(0.0, 0.0))
    with pytest.raises(UsageError, match="no guarantee for a document proves"):
        settle(DpOptions(to_policy="ours"), "document", 300, proof(limits, providers=True))
    assert provable_epsilon(limits, "document", DELTA, providers=False) > 1


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        pytest.param(
            [["reconstruction", "excess_pr.unique", 0.05]],
            "no limit on membership",
            id="no limit on membership",
        ),
        pytest.param(
            [["membership", "auc", 0.499]], "no guarantee for a document proves", id="below a coin"
        ),
        pytest.param([["membership", "auc", 0.5]], "no noise gives so much privacy", id="a coin"),
    ],
)
def test_what_cannot_be_proved_is_refused(limits, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settle(
            DpOptions(to_policy="ours", steps=1),
            "document",
            300,
            proof(policy(*limits), providers=False),
        )


@pytest.mark.parametrize(("share", "steps", "one_point"), [(1.0, 1, 3.63), (0.25, 60, 7.15)])
def test_the_whole_curve_proves_an_area_with_about_half_the_noise(
    share: float, steps: int, one_point: float
) -> None:
    """Noise by the point at delta = N^-1.1 alone, as docaudit 0.13.2 asked for it."""
    options = DpOptions(to_policy="ours", expected_units=share * 300, steps=steps)
    proves = proof(policy(("membership", "auc", 0.65)), providers=False)
    plan = settle(options, "document", 300, proves)
    assert plan.noise_multiplier < 0.54 * one_point
    losses = pld.from_gaussian_mechanism(
        plan.noise_multiplier, sampling_prob=share, value_discretization_interval=1e-3
    ).self_compose(steps)
    epsilons = [step / 200 for step in range(1_200)]
    other = [(epsilon, losses.get_delta_for_epsilon(epsilon)) for epsilon in epsilons]
    # The other accountant's curve, point by point nearly: this noise proves the limit, and little
    # less would.
    assert 0.64 < auc(Guarantee(*other[0], tuple(other[1:]))) <= 0.65


def test_the_shipped_policies_can_be_proved() -> None:
    epsilons = [
        provable_epsilon(load(name), "provider", DELTA, providers=True)
        for name in ("default", "strict")
    ]
    assert 0 < epsilons[1] <= epsilons[0] < 1


def test_training_hands_the_owner_s_choice_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = {}

    def train_private(start, corpus, out, options, **rest):
        seen.update(rest, options=options)
        return out / "model"

    monkeypatch.setattr(training, "train_private", train_private)
    corpus = toy.corpus(
        [toy.document("a", 1.0, 1.0, "p"), toy.document("b", 1.0, 2.0, "q")], tmp_path
    )
    defense = DpTraining(DpOptions(epsilon=3.0), tmp_path / "audited")
    trained = defense.train(corpus, tmp_path / "start", tmp_path, device="cpu", progress=SILENT)
    assert (trained, seen["options"].epsilon) == (RetrainedModel(tmp_path / "model", tmp_path), 3.0)
    assert seen["audited"] == tmp_path / "audited"
    assert seen["proves"] is None
    proves = proof_of(load("default"), corpus)
    by_policy = DpTraining(DpOptions(to_policy="default"), None, proves)
    by_policy.train(corpus, tmp_path / "start", tmp_path, device="cpu", progress=SILENT)
    assert seen["proves"] is proves
