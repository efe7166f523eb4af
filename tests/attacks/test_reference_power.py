"""A reference that does not calibrate hides a leak: with one nothing is passed, and the reason names a remedy."""

import datetime as dt
from pathlib import Path

import noisy_utterances as noisy
import numpy as np
import pytest
import tiny
from commands import docaudit
from scipy.stats import spearmanr

from audit import policy as policies
from audit import record as records
from audit.attacks.membership.reading import READS_ALIKE
from audit.attacks.membership.scores import ScoredDocuments, reference_power
from audit.measurements import Check, Condition, Estimate, Unresolved
from audit.policy import Decision
from audit.policy.facts import power_of
from audit.record import Result
from audit.stats.ranking import rank_correlation

N = 150
AUC = next(
    one
    for one in policies.load("default").limits
    if (one.attack, one.metric) == ("membership", "auc")
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set, a model that saw neither split, and baselines of 40, 2 and no epochs."""
    folder = tmp_path_factory.mktemp("noisy")
    splits = [noisy.utterances("member", N, 0), noisy.utterances("heldout", N, 1000)]
    noisy.write_corpus(
        folder / "data", [*splits[0], *splits[1], *noisy.utterances("public", 40, 2000)]
    )
    noisy.train(folder / "clean", noisy.utterances("public", N, 4000), 2)
    for name, epochs in (("honest", 40), ("early", 2), ("random", 0)):
        noisy.train(folder / name, noisy.utterances("public", N, 3000), 1, epochs)
    return folder


def scan(
    world: Path, out: Path, *given: str | Path
) -> tuple[records.AuditRecord, Result, Decision]:
    """Scan the clean model for membership; the decision is on the default limit on the area."""
    command = [
        "scan",
        world / "clean",
        world / "data",
        "--out",
        out,
        "--only",
        "membership",
        *given,
    ]
    assert docaudit(*command).exit_code in (0, 11)
    record = records.read(out)
    (result,) = record.attacks
    assert result.status == "completed"
    verdict = policies.evaluate(record, policies.Policy(1, "mine", (AUC,)), dt.date(2026, 1, 1))
    return record, result, verdict.decisions[0]


def reading(result: Result) -> Condition:
    return next(condition for condition in result.conditions if condition.name == READS_ALIKE)


def check(result: Result) -> Check:
    return next(check for check in result.checks if check.name == "reference reads otherwise")


def test_an_honest_baseline_calibrates(world: Path, tmp_path: Path) -> None:
    _, result, decision = scan(
        world, tmp_path / "out", "--reference", f"baselines={world / 'honest'}"
    )
    power = power_of(result)
    assert power is not None
    assert power.value > 0.5
    assert reading(result).state == "met"
    assert check(result).p_value > 0.05
    assert decision.outcome == "passed", decision


def test_random_weights_calibrate_nothing(world: Path, tmp_path: Path) -> None:
    _, result, decision = scan(
        world, tmp_path / "out", "--reference", f"baselines={world / 'random'}"
    )
    power = power_of(result)
    assert power is not None
    assert power.value < 0.3
    assert (decision.outcome, decision.cause) == ("undecided", "weak")
    assert decision.reason.startswith("the attacker is too weak: reference power")
    assert "docaudit references" in decision.remedy
    assert reading(result).state == "unmet"
    assert check(result).p_value <= 0.001


def test_a_baseline_that_reads_much_worse_than_the_model_passes_nothing(
    world: Path, tmp_path: Path
) -> None:
    _, result, decision = scan(
        world, tmp_path / "out", "--reference", f"baselines={world / 'early'}"
    )
    assert reading(result).state == "unmet"
    assert check(result).p_value <= 0.001
    assert decision.outcome == "undecided"
    assert decision.cause in ("weak", "alarm")
    assert "reads unseen documents much worse than the model" in reading(result).reason
    assert "docaudit references" in reading(result).remedy


def test_without_a_reference_the_reason_says_so(world: Path, tmp_path: Path) -> None:
    _, result, decision = scan(world, tmp_path / "out")
    assert power_of(result) is None
    assert decision.cause == "weakened"
    assert result.conditions == ()
    assert "no model to compare with that never saw the documents" in decision.reason
    assert "did not count" not in decision.reason


def test_a_reference_with_another_head_is_named_as_not_counted(tmp_path: Path) -> None:
    data = tiny.corpus(
        tmp_path / "data", members=30, heldout=30, public=5, kind="token-classification"
    )
    model = tiny.checkpoint(tmp_path / "model", "bert", "token-classification")
    start = tiny.checkpoint(tmp_path / "bert-base", "bert", "mlm")
    command = [
        "scan",
        model,
        data,
        "--out",
        tmp_path / "out",
        "--only",
        "membership",
        "--budget",
        "quick",
    ]
    command += ["--reference", f"pretrained={start}"]
    docaudit(*command)
    (result,) = records.read(tmp_path / "out").attacks
    assert result.status == "completed"
    (ablation,) = result.ablations
    assert (
        "pretrained (bert-base) did not count: it is BERT, masked language model, the target BERT, token"
        in ablation
    )
    missing = next(item for item in result.measurements if item.name == "reference_power")
    assert isinstance(missing, Unresolved)
    assert "did not count" in missing.reason


def test_a_reference_that_cannot_be_opened_is_not_named_twice(tmp_path: Path) -> None:
    data = tiny.corpus(
        tmp_path / "data", members=30, heldout=30, public=5, kind="token-classification"
    )
    model = tiny.checkpoint(tmp_path / "model", "bert", "token-classification")
    unnamed = [f"LABEL_{number}" for number in range(3)]
    start = tiny.checkpoint(tmp_path / "bert-base", "bert", "token-classification", 1, unnamed)
    scan = ["scan", model, data, "--only", "membership", "--budget", "quick"]
    docaudit(*scan, "--reference", f"pretrained={start}", "--out", tmp_path / "out")
    (result,) = records.read(tmp_path / "out").attacks
    (ablation,) = result.ablations
    assert "pretrained (bert-base) did not count: the model has 3 unnamed labels" in ablation


def test_power_is_the_rank_correlation_of_held_out_losses_alone() -> None:
    rng = np.random.default_rng(4)
    own, other = rng.gamma(2, 1, (2, 120))
    other[60:] = own[60:] ** 3  # the same order, far from a line
    member = np.arange(120) < 60
    scored = ScoredDocuments((), member, {"loss": -own, "calibrated": other - own}, {}, 0, ())
    found = reference_power(scored)
    assert isinstance(found, Estimate)
    assert (found.value, found.n) == (pytest.approx(1.0), 60)
    other[60:] = rng.permutation(other[60:])
    again = reference_power(
        ScoredDocuments((), member, {"loss": -own, "calibrated": other - own}, {}, 0, ())
    )
    assert isinstance(again, Estimate)
    assert again.value == pytest.approx(spearmanr(own[60:], other[60:])[0])


def test_intervals_of_rank_correlation_cover() -> None:
    rng = np.random.default_rng(5)
    truth = 6 / np.pi * np.arcsin(0.6 / 2)  # of bivariate normal pairs with correlation 0.6
    covered = 0
    for _ in range(400):
        first, noise = rng.normal(size=(2, 80))
        found = rank_correlation(first, 0.6 * first + 0.8 * noise)
        covered += found.low <= truth <= found.high
    assert covered >= 368  # 380 are expected
    assert rank_correlation(np.ones(9), np.arange(9)).value == 0.0
    with pytest.raises(ValueError, match="5 pairs"):
        rank_correlation([1, 2], [1, 2])
