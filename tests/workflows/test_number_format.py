"""The number format of the encoder, which a scan settles on before any trial."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import answering
import numpy as np
import planted
import pytest
import tiny

from audit.attacks.interface import Attack
from audit.attacks.memorisation import Memorisation
from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.engine.driver import drive
from audit.engine.interface import SILENT
from audit.errors import UsageError
from audit.record import Result
from audit.targets import interface as ask
from audit.targets.encoders.compiling import COMPILED, COMPILED_STEP
from audit.targets.encoders.loading import load
from audit.workflows import number_format
from audit.workflows.execution import AttackWork
from audit.workflows.options import ScanOptions, claim_folder
from audit.workflows.run import run_scan
from audit.workflows.session import open_session

pytestmark = pytest.mark.usefixtures("few_candidates")


@pytest.fixture(scope="module")
def scanned(checkpoints, tmp_path_factory):
    """Scans the same tagger and corpus with an option changed; gives the attack's result."""
    data = tiny.corpus(tmp_path_factory.mktemp("corpus"))

    def scan(**changed: Any) -> Result:
        out = tmp_path_factory.mktemp("out")
        given = {
            "only": ("reconstruction",),
            "references": {"auxiliary": [checkpoints("layoutlm", "mlm")]},
        }
        model = checkpoints("layoutlm", "token-classification")
        options = ScanOptions(model, data, out, budget="quick", **given, **changed)
        with claim_folder(out):
            (result,) = run_scan(open_session(options), SILENT).attacks
        assert result.status == "completed", result
        return result

    return scan


def agreement(result: Result) -> float | None:
    return next(
        (item.value for item in result.diagnostics if item.name == "bfloat16 agreement"), None
    )


def test_a_cpu_computes_in_float32_unless_it_is_asked(scanned):
    result = scanned()
    assert (result.dtype, agreement(result)) == ("float32", None)


@pytest.mark.parametrize(("needed", "dtype"), [(0.0, "bfloat16"), (1.01, "float32")])
def test_bfloat16_is_kept_only_when_the_preflight_agrees(scanned, needed, dtype, monkeypatch):
    monkeypatch.setattr(number_format, "MIN_AGREEMENT", needed)
    result = scanned(dtype="bfloat16")
    found = agreement(result)
    assert found is not None
    assert 0 <= found <= 1
    assert result.dtype == dtype


def test_the_preflight_takes_members_and_held_out_fields_in_turn(scanned, monkeypatch):
    seen = []
    taken = number_format.Preflight.attempt

    def noted(self: number_format.Preflight, trial: Any) -> Any:
        seen.append(trial.stratum)
        return taken(self, trial)

    monkeypatch.setattr(number_format.Preflight, "attempt", noted)
    scanned(dtype="bfloat16")
    assert len(seen) > 1
    assert abs(seen.count("member") - seen.count("heldout")) <= 1


def reconstructed(task: str) -> Iterator[Case]:
    data = planted.corpus(2, 2)
    for seed in (3, 99):
        target = planted.Planted(data.documents, task=task, seed=seed)
        yield planted.case(target, planted.Planted(data.documents, seed=5), data)


def memorised() -> Iterator[Case]:
    data = answering.corpus(2, 2)
    for known in (data.documents, ()):
        yield Case(
            answering.Answering(answering.memory_of(known)),
            data,
            References(baselines=(answering.Answering(),)),
        )


CASES: dict[str, tuple[Attack, Callable[[], Iterator[Case]]]] = {
    "losses of candidates": (
        Reconstruction(n_candidates=20),
        partial(reconstructed, "token-classification"),
    ),
    "best candidates": (Reconstruction(n_candidates=20), partial(reconstructed, "mlm")),
    "replies": (Memorisation(contexts=("exact",)), memorised),
}


@pytest.mark.parametrize("kind", CASES)
def test_the_preflight_tells_a_target_from_another_by_what_an_attack_asks(kind):
    attack, make = CASES[kind]
    case, other = make()

    def compared(rounded: ask.Target) -> list[float]:
        work = number_format.Preflight(AttackWork(attack, case, 0), case.target, rounded)
        found = dict(drive(work, attack.trials(case), 2))
        assert all(len(outcome.alike) >= 1 for outcome in found.values())
        return [alike for outcome in found.values() for alike in outcome.alike]

    assert set(compared(case.target)) == {1.0}
    assert np.mean(compared(other.target)) < number_format.MIN_AGREEMENT


LOSSES = np.array([1e-5, 1.0, 1.2])


@pytest.mark.parametrize(
    ("query", "exact", "coarse", "alike"),
    [
        (ask.TrainingLoss, LOSSES, LOSSES * 1.004, 1),
        (
            ask.TrainingLoss,
            LOSSES,
            np.array([0.02, 0.0, 1.2]),
            0,
        ),  # a remembered candidate is no longer the best
        (ask.TrainingLoss, np.array([2.0]), np.array([2.01]), 1),
        (ask.TrainingLoss, np.array([2.0]), np.array([2.1]), 0),
        (ask.TrainingLoss, np.array([2.0]), np.array([np.nan]), 0),
        (ask.AnswerLoss, np.array([-1.0, -3.0]), np.array([-1.5, -2.5]), 1),  # the mean is the loss
        (ask.BestTokens, np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5]), 0.75),
        (
            ask.TagProbabilities,
            np.array([[0.9, 0.1], [0.4, 0.6]]),
            np.array([[0.8, 0.2], [0.6, 0.4]]),
            0.5,
        ),
        (ask.Answer, ask.Reply("Bonn", 1, 1, True), ask.Reply("bonn", 0.9, 1, True), 1),
        (ask.RelaxedLoss, ask.Relaxed(1.0, LOSSES), ask.Relaxed(1.2, LOSSES), 0),
    ],
)
def test_answers_are_alike_where_an_attack_decides_alike(query, exact, coarse, alike):
    assert number_format.likeness(object.__new__(query), exact, coarse) == alike


def test_an_unknown_number_format_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no such number format"):
        open_session(ScanOptions(tmp_path, tmp_path, tmp_path, dtype="float8"))


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Have an encoder's scan choose formats as on a GPU, with a compiler that runs it as it is."""
    shapes: set[tuple[int, ...]] = set()

    def compile_encoder(encoder: Any) -> Callable[..., Any]:
        def run(**inputs: Any) -> Any:
            shapes.add(tuple(inputs["input_ids"].shape))
            return encoder(**inputs)

        return run

    monkeypatch.setattr("audit.targets.encoders.forward.compile_encoder", compile_encoder)
    monkeypatch.setattr(number_format, "COMPILED_ON", "cpu")
    monkeypatch.setattr(number_format, "wanted_format", lambda session: "bfloat16")
    monkeypatch.setattr(number_format, "MIN_AGREEMENT", 0.0)
    return shapes


def test_an_attack_that_reads_much_on_a_gpu_has_its_encoder_compiled(
    scanned, on_a_gpu, monkeypatch
):
    monkeypatch.setattr(number_format, "WORTH_TOKENS", 1)
    result = scanned()
    assert result.dtype == COMPILED
    assert on_a_gpu
    for _, bucket in on_a_gpu:
        assert bucket % COMPILED_STEP == 0
    names = [diagnostic.name for diagnostic in result.diagnostics]
    assert f"{COMPILED} agreement" in names
    assert "bfloat16 agreement" not in names


def test_a_short_attack_and_a_format_that_was_asked_for_are_not_compiled(
    scanned, on_a_gpu, monkeypatch
):
    assert scanned().dtype == "bfloat16"
    monkeypatch.setattr(number_format, "WORTH_TOKENS", 1)
    assert scanned(dtype="bfloat16").dtype == "bfloat16"
    assert not on_a_gpu


def test_where_the_compiler_fails_the_encoder_runs_as_it_is(scanned, on_a_gpu, monkeypatch):
    def broken(encoder: Any) -> Callable[..., Any]:
        def run(**inputs: Any) -> Any:
            raise RuntimeError("no C compiler")

        return run

    monkeypatch.setattr("audit.targets.encoders.forward.compile_encoder", broken)
    monkeypatch.setattr(number_format, "WORTH_TOKENS", 1)
    assert scanned().dtype == "bfloat16"


def test_the_tokens_of_a_query_are_those_of_all_its_rows(checkpoints):
    target = load(checkpoints("layoutlm", "token-classification"))
    page = target.encode(tiny.documents(1, 0, 0)[0])
    assert page is not None
    n_tokens = len(page.ids)
    tokens = np.array([7, 8, 40])
    assert number_format.count_tokens(ask.TrainingLoss(page, 2, tokens)) == 3 * n_tokens
    completions = np.array([[7, 8], [40, 7]])
    assert number_format.count_tokens(ask.CompletionLoss(page, (2, 3), completions)) == 2 * n_tokens
    assert number_format.count_tokens(ask.TagProbabilities(page)) == n_tokens
