"""A whole private training: defaults, the card, refusals, and a budget that a kill does not give back."""

import json
import math
import multiprocessing
import os
import shutil
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import dp_toy as toy
import pytest
import torch
from progress_log import ProgressLog
from pydantic import ValidationError

from audit.errors import EngineError, ManifestError, TargetError, UsageError
from audit.extensions.private import train as training
from audit.extensions.private.mechanism import Ledger
from audit.extensions.private.options import DpOptions, settle
from audit.extensions.private.train import train_private
from audit.stats.dp_bounds import Guarantee, auc
from audit.targets.checkpoint.folder import PRIVACY_FILE, privacy_card, stated_guarantee

QUICK = DpOptions(epsilon=8.0, trained="full", steps=5, expected_units=4)


POINTS = [
    *(toy.document(f"d{i}", float(i % 3), float(i % 5) + i / 100, f"p{i % 6}") for i in range(12)),
    toy.document("public", 1.0, 1.0, split="public"),
]


@pytest.fixture
def start(tmp_path):
    folder = tmp_path / "start"
    folder.mkdir()
    toy.ToyLearner().save(folder)
    return folder


@pytest.fixture
def corpus(tmp_path):
    return toy.corpus(POINTS, tmp_path)


def train(start: Path, corpus, out: Path, options: DpOptions = QUICK, **changes) -> Path:
    return train_private(start, corpus, out, options, **{"open_with": toy.open_toy, **changes})


def test_a_model_is_trained_once_with_its_guarantee_beside_it(start, corpus, tmp_path):
    model = train(start, corpus, tmp_path / "out")
    card = privacy_card(model)
    assert card is not None
    assert (card.unit, card.n_units) == ("provider", 6)
    assert card.epsilon is not None
    assert 7.9 < card.epsilon <= 8.0
    assert (card.delta, (card.steps, card.expected_units, card.max_norm)) == (
        pytest.approx(6**-1.1),
        (5, 4.0, 1.0),
    )
    assert card.secure
    assert (card.trained, card.embeddings) == ("full", False)
    assert (card.trained_parameters, card.frozen_parameters) == (2, 6)
    before = (model / "model.safetensors").read_bytes()
    assert (train(start, corpus, tmp_path / "out"), (model / "model.safetensors").read_bytes()) == (
        model,
        before,
    )
    assert train(start, corpus, tmp_path / "out", replace(QUICK, rows=3)) == model
    assert train(start, corpus, tmp_path / "out", replace(QUICK, epsilon=4.0)) != model


def test_a_seeded_training_can_be_repeated_and_has_no_epsilon(start, corpus, tmp_path):
    seeded = replace(QUICK, reproducible=True)
    first, second = (train(start, corpus, tmp_path / name, seeded) for name in ("one", "two"))
    weights = [(model / "model.safetensors").read_bytes() for model in (first, second)]
    assert weights[0] == weights[1]
    card = privacy_card(first)
    assert card is not None
    assert card.epsilon is None
    assert not card.secure
    secure = train(start, corpus, tmp_path / "three", QUICK)
    assert (secure / "model.safetensors").read_bytes() != weights[0]


def test_progress_tells_steps_and_nothing_of_the_members(start, corpus, tmp_path):
    progress = ProgressLog()
    train(start, corpus, tmp_path / "out", progress=progress)
    assert progress.calls == [("private training, steps", 5), 0, 1, 1, 1, 1, 1]


def test_members_that_make_no_sample_are_refused(start, corpus, tmp_path):
    class Deaf(toy.ToyLearner):
        def samples_of(self, document, rng):
            return () if document.split == "member" else super().samples_of(document, rng)

    for options in (QUICK, replace(QUICK, local_steps=1)):
        with pytest.raises(TargetError, match="no document makes a sample"):
            train(start, corpus, tmp_path / "out", options, open_with=lambda *_, **__: Deaf())


def test_local_steps_are_trained_and_stated(start, corpus, tmp_path):
    card = privacy_card(train(start, corpus, tmp_path / "out", replace(QUICK, local_steps=2)))
    assert card is not None
    assert (card.local_steps, (card.optimizer, card.learning_rate)) == (2, ("add", 0.0002))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"epsilon": None}, "one only", id="neither epsilon nor policy"),
        pytest.param({"to_policy": "default"}, "one only", id="both epsilon and policy"),
        pytest.param({"delta": 0.4}, "1/6", id="delta over one in the number of documents"),
        pytest.param(
            {"expected_units": 7}, "7 units a step", id="more units in a step than there are"
        ),
        pytest.param(
            {"client_rate": 0.5}, "without clients", id="a rate of clients without clients"
        ),
        pytest.param(
            {"unit": "document", "clients": Path("clients.toml")},
            "clients hold providers",
            id="clients of a training by document",
        ),
    ],
)
def test_options_without_sense_are_refused(start, corpus, tmp_path, changes, message):
    with pytest.raises(UsageError, match=message) as raised:
        train(start, corpus, tmp_path / "out", replace(QUICK, **changes))
    assert raised.value.exit_code == 2
    assert raised.value.hint
    assert not list((tmp_path / "out").glob("private-????????????????"))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"epsilon": 0.0}, id="epsilon of zero"),
        pytest.param({"epsilon": -3.0}, id="epsilon below zero"),
        pytest.param({"epsilon": math.nan}, id="epsilon is no number"),
        pytest.param({"max_norm": 0.0}, id="norm of zero"),
        pytest.param({"max_norm": math.inf}, id="endless norm"),
        pytest.param({"trained": "half"}, id="half of the model"),
        pytest.param({"trained": "lora"}, id="an adapter without a rank"),
        pytest.param({"trained": "lora:0"}, id="an adapter of rank zero"),
        pytest.param({"trained": "lora:x"}, id="an adapter of rank x"),
        pytest.param({"trained": "lora:-1"}, id="an adapter of rank below zero"),
        pytest.param({"trained": ""}, id="nothing trained"),
        pytest.param({"trained": "head:2"}, id="a rank of the head"),
        pytest.param({"expected_units": 0}, id="no expected units"),
        pytest.param({"learning_rate": -1.0}, id="a learning rate below zero"),
        pytest.param({"local_steps": -1}, id="local steps below zero"),
        pytest.param({"client_rate": 0.0}, id="a client rate of zero"),
        pytest.param({"steps": 0}, id="no steps"),
        pytest.param({"rows": 0}, id="no rows"),
        pytest.param({"per_unit": 0}, id="no documents of a unit"),
    ],
)
def test_numbers_out_of_range_are_refused(changes):
    with pytest.raises(ValidationError):
        replace(QUICK, **changes)


def test_members_without_a_provider_and_one_provider_are_refused(start, tmp_path):
    lonely = toy.corpus([toy.document(f"d{i}", float(i), 0.0, "one") for i in range(4)], tmp_path)
    with pytest.raises(ManifestError, match="1 provider to train on"):
        train(start, lonely, tmp_path / "out")
    nameless = toy.corpus(
        [toy.document(f"d{i}", float(i), 0.0, None if i else "one") for i in range(4)], tmp_path
    )
    with pytest.raises(ManifestError, match="name no provider"):
        train(start, nameless, tmp_path / "out", replace(QUICK, unit="provider"))


def test_the_audited_model_is_no_start(start, corpus, tmp_path):
    with pytest.raises(TargetError, match="nothing of the training is in it"):
        train(start, corpus, tmp_path / "out", audited=start)
    with pytest.raises(TargetError, match="no such folder"):
        train(tmp_path / "missing", corpus, tmp_path / "out")


def test_the_noise_of_a_policy_is_the_least_whose_curve_proves_it(start, corpus, tmp_path):
    asked = []

    def proves(kind, promised):
        asked.append((kind, promised))
        return auc(promised) <= 0.9

    options = replace(QUICK, epsilon=None, to_policy="default")
    card, _ = stated_guarantee(train(start, corpus, tmp_path / "out", options, proves=proves))
    assert card is not None
    assert {kind for kind, _ in asked} == {"provider"}
    assert all(promised.delta == pytest.approx(6**-1.1) for _, promised in asked[1:])
    assert 0.89 < auc(Guarantee(card.epsilon, card.delta, card.curve)) <= 0.9
    assert auc(Guarantee(card.epsilon, card.delta)) > 0.9


@pytest.mark.parametrize(("n", "expected"), [(20, 20), (100, 64), (400, 100), (4000, 1000)])
def test_the_rules_look_at_numbers_of_units_only(n, expected):
    card = settle(DpOptions(epsilon=math.inf), "document", n)
    assert card.expected_units == pytest.approx(expected)
    assert (card.steps, card.learning_rate, card.noise_multiplier, card.epsilon) == (
        100,
        2e-3,
        0.0,
        None,
    )


class _Interrupted(Exception):
    pass


class _Breaking(toy.ToyLearner):
    """Breaks down, or dies, in the third step."""

    deadly = False

    def samples_of(self, document, rng):
        if len(self.drawn) >= 25 + 1:
            if self.deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            raise _Interrupted
        return super().samples_of(document, rng)


class _Deadly(_Breaking):
    deadly = True


def _open_deadly(start, corpus, *, seed, device):
    return _Deadly()


ALL = replace(QUICK, expected_units=6)
"""Every unit in every step: twelve documents a step, after three at most that are looked at
before."""


def _die(start: Path, corpus, out: Path) -> None:
    train(start, corpus, out, ALL, open_with=_open_deadly)


def ledger_of(out: Path) -> Ledger:
    (folder,) = out.glob("*.ledger")
    return Ledger(folder)


@pytest.mark.parametrize("killed", [False, True])
def test_an_interrupted_training_goes_on_with_what_is_left_of_its_budget(
    start, corpus, tmp_path, killed, monkeypatch
):
    out = tmp_path / "out"
    if killed:
        process = multiprocessing.get_context("fork").Process(
            target=_die, args=(start, corpus, out)
        )
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    else:
        with pytest.raises(_Interrupted):
            train(start, corpus, out, ALL, open_with=lambda *_, **__: _Breaking())
    spent = ledger_of(out).spent
    assert 0 < spent < 5
    steps = Counter()
    monkeypatch.setattr(
        training,
        "_draw",
        lambda learner, seed, unit, step: steps.update([step]) or _first_draw(learner, unit, step),
    )
    model = train(start, corpus, out, ALL)
    assert (sorted(steps), ledger_of(out).spent) == (list(range(spent, 5)), 5)
    card = privacy_card(model)
    assert card is not None
    assert card.steps == 5


_first_draw = lambda learner, unit, step: training.draw_samples(learner, unit, step, 0)  # noqa: E731


def test_a_finished_training_spends_nothing_when_its_checkpoint_is_removed(start, corpus, tmp_path):
    import shutil

    model = train(start, corpus, tmp_path / "out")
    weights = (model / "model.safetensors").read_bytes()
    shutil.rmtree(model)
    assert (train(start, corpus, tmp_path / "out") / "model.safetensors").read_bytes() == weights
    assert ledger_of(tmp_path / "out").spent == 5


def test_the_ledger_keeps_parameters_and_the_optimizer(tmp_path):
    def fresh():
        line = toy.Line().line
        return dict(line.named_parameters()), torch.optim.Adam(line.parameters(), lr=0.1)

    def step(parameters, optimizer) -> None:
        for parameter in parameters.values():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    one = fresh()
    other = fresh()
    ledger = Ledger(tmp_path, every=0.0)
    for _ in range(3):
        ledger.spend()
        step(*one)
        ledger.keep(*one, last=False)
    assert Ledger(tmp_path).restore(*other) == 3
    for both in (one, other):
        step(*both)
    assert all(torch.equal(one[0][name], other[0][name]) for name in one[0])


def test_a_step_that_was_cut_short_is_spent_and_lost_steps_are_not_given_back(tmp_path):
    ledger = Ledger(tmp_path, every=3600)
    assert [ledger.spend(), ledger.spend()] == [0, 1]
    with (tmp_path / "spent").open("ab") as stream:
        stream.write(b"st")
    assert (Ledger(tmp_path).spent, Ledger(tmp_path).spend(), Ledger(tmp_path).spent) == (3, 3, 4)
    ledger.keep(dict(toy.Line().line.named_parameters()), None, last=False)
    assert not (tmp_path / "state.safetensors").exists()


def test_a_ledger_that_was_cut_back_is_refused(tmp_path):
    parameters = dict(toy.Line().line.named_parameters())
    ledger = Ledger(tmp_path)
    ledger.spend()
    ledger.keep(parameters, None, last=True)
    (tmp_path / "spent").write_bytes(b"")
    with pytest.raises(EngineError, match="more steps were kept than spent"):
        Ledger(tmp_path).restore(parameters, None)
    (tmp_path / "state.safetensors").write_bytes(b"nothing")
    with pytest.raises(EngineError, match="not the state"):
        Ledger(tmp_path).restore(parameters, None)


OTHER_WEIGHTS = "0" * 64
VAST = 10**400


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    toy.ToyLearner().save(folder)
    return train(folder, toy.corpus(POINTS, folder), folder / "out")


@pytest.fixture
def model(trained, tmp_path):
    """A model with its guarantee beside it, to be changed."""
    return Path(shutil.copytree(trained, tmp_path / "model"))


def stated(model: Path) -> dict:
    return json.loads((model / PRIVACY_FILE).read_text())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"weights": OTHER_WEIGHTS}, id="other weights"),
        pytest.param({"unit": "Jane Doe, 4 Elm Street"}, id="no such unit"),
        pytest.param({"accountant": "1.6 Jane Doe"}, id="no such accountant"),
        pytest.param({"curve": ((0.0, 0.1),)}, id="a curve with an order of zero"),
        pytest.param({"epsilon": math.nan}, id="epsilon is no number"),
        pytest.param({"epsilon": 0}, id="epsilon of zero"),
        pytest.param({"epsilon": None}, id="no epsilon"),
        pytest.param({"delta": 0.4}, id="delta too large"),
        pytest.param({"delta": -1}, id="delta below zero"),
        pytest.param({"note": "Jane Doe"}, id="an unknown key"),
        pytest.param({"secure": False}, id="not drawn securely"),
        pytest.param({"n_units": VAST}, id="more units than can be"),
        pytest.param({"trained": "lora:x"}, id="an adapter without a rank"),
    ],
)
def test_a_card_that_could_not_be_ours_or_is_of_other_weights_is_not_read(model, changes):
    (model / PRIVACY_FILE).write_text(json.dumps({**stated(model), **changes}))
    assert privacy_card(model) is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"epsilon": 1.0}, id="a smaller epsilon"),
        pytest.param({"noise_multiplier": 0.2}, id="little noise"),
        pytest.param({"noise_multiplier": 1e300}, id="endless noise"),
        pytest.param({"sample_rate": 1.0, "steps": 500}, id="every document in every step"),
        pytest.param({"steps": 2**53}, id="2**53 steps"),
        pytest.param({"delta": 1e-05}, id="another delta"),
        pytest.param({"client_rate": 0.3}, id="another rate of clients"),
    ],
)
def test_a_scan_believes_no_epsilon_that_the_cards_own_numbers_do_not_give(model, changes):
    card, warnings = stated_guarantee(model)
    assert card is not None
    assert replace(card, curve=()) == privacy_card(model)
    assert card.curve
    assert warnings == ()
    (model / PRIVACY_FILE).write_text(json.dumps({**stated(model), **changes}))
    card, (warning,) = stated_guarantee(model)
    assert card is None
    assert "its own numbers do not give" in warning


def test_a_scan_of_a_model_without_a_guarantee_says_nothing(start, corpus, tmp_path):
    assert stated_guarantee(start) == (None, ())
    seeded = train(start, corpus, tmp_path / "out", replace(QUICK, reproducible=True))
    assert stated_guarantee(seeded) == (privacy_card(seeded), ())


def test_a_checkpoint_without_a_readable_card_states_nothing(start, model):
    assert privacy_card(start) is None
    for content in (b"", b"[1]", b"\xff", b"[" * 10_000, b" " * 100_000):
        (model / PRIVACY_FILE).write_bytes(content)
        assert privacy_card(model) is None
