"""Engines of private training: every one gives the gradients of single units, or is refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import dp_learners
import numpy as np
import pytest
import torch
from dp_learners import NAMES, Line, learner_of, point
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.corpus.documents import Corpus
from audit.errors import TrainingError, UsageError
from audit.extensions.private.engines import grouped
from audit.extensions.private.engines.choose import FAST, choose_engine
from audit.extensions.private.engines.clipping import add_clipped, zeros_like
from audit.extensions.private.engines.exact import ExactEngine
from audit.extensions.private.engines.hooks import HooksEngine
from audit.extensions.private.engines.preflight import TOLERANCE, preflight
from audit.extensions.private.engines.vmap import VmapEngine
from audit.extensions.private.interface import ClippedSum, DrawnUnit, Engine, Learner, Parameters

ENGINES = (ExactEngine, VmapEngine, HooksEngine)
AFTER_MASKS = {"bros", "bert", "docaudit-bros-image", "roberta", "xlm-roberta", "layoutlmv3", "lilt"}
"""Families whose attention masks depend on values, which torch.func refuses."""
NO_VMAP = {
    *(name for name in NAMES if name.split()[0] in AFTER_MASKS),
    "pix2struct",
    "chat",
    "vt5",
    "vt5-blind",
    "udop",
    "nlu-characters",
}
RELATIONS_OF_BROS = {name for name in NAMES if name.startswith(("bros spade", "docaudit-bros-image spade"))}
"""Their heads have the sample as their second dimension."""
NO_HOOKS = {
    "projections": {*RELATIONS_OF_BROS, "donut", "vt5", "nlu", "nlu-characters"},
    "all": {
        *RELATIONS_OF_BROS,
        *(name for name in NAMES if name.endswith("mlm")),
        "layoutlmv3 token-classification",
        "donut",
        "vt5",
        "nlu",
        "nlu-characters",
    },
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`opened(name)`: a learner of this name, its data set, and units of unequal length."""

    @cache
    def found(name: str) -> tuple[Learner, Corpus, list[DrawnUnit]]:
        learner, corpus = learner_of(name, tmp_path_factory.mktemp("learner"))
        return learner, corpus, dp_learners.units_of(learner, dp_learners.of_unequal_length(corpus))

    return found


def state_of(model: torch.nn.Module) -> list[Any]:
    """Everything about a model that an engine could leave behind."""
    modules = [
        (sorted(vars(m)), m.training, len(m._forward_hooks), len(m._backward_hooks), m._is_full_backward_hook)
        for m in model.modules()
    ]
    weights = [(sorted(vars(w)), w.requires_grad, w.grad, w.detach().numpy().tobytes()) for w in model.parameters()]
    buffers = [buffer.numpy().tobytes() for buffer in model.buffers()]
    return [modules, weights, buffers]


@pytest.mark.parametrize("what", ["projections", "all"])
@pytest.mark.parametrize("name", NAMES)
def test_an_engine_equals_single_units_or_is_refused_and_leaves_the_model_as_it_was(opened, name, what):
    learner, _, units = opened(name)
    parameters = dp_learners.without_tables(learner.model)
    if what == "projections":
        parameters = dp_learners.attention_projections(learner.model) or parameters
    exact = ExactEngine(learner, parameters, 4)
    exact.unit_gradients(units[:1])  # transformers notes down at the first call what its models give
    before = state_of(learner.model)
    for engine, refused in ((VmapEngine, NO_VMAP), (HooksEngine, NO_HOOKS[what])):
        fast = engine(learner, parameters, 4)
        outcome = preflight(fast, exact, units)
        assert outcome.ok == (name not in refused), outcome
        assert outcome.ok == (not outcome.reason)
        if outcome.ok and what == "projections":
            found, true = (each.clipped_sum(units[::-1], 0.1) for each in (fast, exact))
            np.testing.assert_allclose(found.norms, true.norms, rtol=1e-4)
            assert all(float((found.total[key] - value).norm()) <= 1e-4 * 0.1 for key, value in true.total.items())
    assert state_of(learner.model) == before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [1, 2, 64])
def test_a_units_gradient_is_that_of_its_weighted_mean_loss_whatever_the_rows(engine, rows):
    learner = Line()
    parameters = dict(learner.model.named_parameters())
    samples = (((1.0, 2.0), 3.0), ((-1.0, 0.5), 1.0), ((0.5, 0.5), -2.0))
    units = [DrawnUnit(samples, (0.5, 0.25, 0.25)), point((2.0, 1.0), 0.0), DrawnUnit(samples[:2], (0.5, 0.5))]
    gradients = engine(learner, parameters, rows).unit_gradients(units)
    for index, unit in enumerate(units):
        loss = sum(
            weight * learner.losses(learner.collate([sample]))[0]
            for sample, weight in zip(unit.samples, unit.weights, strict=True)
        )
        for name, true in zip(parameters, torch.autograd.grad(loss, [*parameters.values()]), strict=True):
            torch.testing.assert_close(gradients[name][index], true)


@pytest.mark.parametrize("engine", ENGINES)
def test_only_what_is_trained_has_gradients_also_where_other_parameters_ask_for_them(engine):
    learner = Line()
    named = dict(learner.model.named_parameters())
    chosen = {name: named[name] for name in ("1.weight", "0.bias")}
    named["1.weight"].requires_grad_(False)
    before = state_of(learner.model)
    made = engine(learner, chosen).clipped_sum([point((1.0, 2.0), 0.5)], 1.0)
    assert set(made.total) == set(chosen)
    assert all(float(value.abs().sum()) > 0 for value in made.total.values())
    assert not any(value.requires_grad for value in made.total.values())
    assert state_of(learner.model) == before


def test_rounding_adds_nothing_to_what_one_of_many_units_moves_the_sum_by():
    rng = np.random.default_rng(0)
    learner = Line()
    parameters = dict(learner.model.named_parameters())
    rows = {name: torch.from_numpy(rng.normal(3, 1, (4000, *own.shape))).float() for name, own in parameters.items()}
    totals = [zeros_like(parameters) for _ in range(2)]
    for index in range(4000):
        one = {name: values[index : index + 1] for name, values in rows.items()}
        for total in totals[: 1 if index == 0 else 2]:
            add_clipped(total, one, 0.7)
    moved = torch.cat([(totals[0][name] - totals[1][name]).flatten() for name in parameters])
    assert float(moved.norm()) == pytest.approx(0.7, rel=1e-12)


numbers = st.floats(-1e4, 1e4, width=32)
points = st.lists(st.builds(lambda x, y, z: point((x, y), z), numbers, numbers, numbers), min_size=1, max_size=6)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=15)
@given(units=points, max_norm=st.floats(1e-3, 1e3))
def test_no_unit_moves_the_sum_by_more_than_the_norm(engine, units: Sequence[DrawnUnit], max_norm):
    learner = Line()
    made = engine(learner, dict(learner.model.named_parameters()), 2)
    whole = made.clipped_sum(units, max_norm)
    for left_out in range(len(units)):
        rest = made.clipped_sum([*units[:left_out], *units[left_out + 1 :]], max_norm)
        moved = torch.cat([(whole.total[name] - rest.total[name]).flatten() for name in whole.total])
        assert float(moved.norm()) <= max_norm * (1 + 1e-5 * len(units))


@pytest.mark.parametrize("engine", ENGINES)
def test_short_contributions_stay_as_they_are_and_an_infinite_norm_clips_nothing(engine):
    learner = Line()
    units = [point((1.0, 2.0), 30.0), point((-1.0, 0.1), 0.1)]
    made = engine(learner, dict(learner.model.named_parameters()))
    gradients = made.unit_gradients(units)
    free = made.clipped_sum(units, float("inf"))
    assert np.allclose(
        free.norms, [np.sqrt(sum(float((g[i] ** 2).sum()) for g in gradients.values())) for i in range(2)]
    )
    for name, value in free.total.items():
        torch.testing.assert_close(value, gradients[name].double().sum(dim=0))
    bound = float(free.norms.min())
    clipped = made.clipped_sum(units, bound)
    for name, value in clipped.total.items():
        factors = torch.tensor(bound / free.norms)
        torch.testing.assert_close(value, torch.tensordot(factors, gradients[name].double(), dims=1))


@pytest.mark.parametrize("engine", ENGINES)
def test_nobody_contributes_nothing(engine):
    learner = Line()
    parameters = dict(learner.model.named_parameters())
    made = engine(learner, parameters)
    nothing = made.clipped_sum([], 1.0)
    assert nothing.norms.shape == (0,)
    assert {name: value.shape for name, value in nothing.total.items()} == {n: p.shape for n, p in parameters.items()}
    assert not any(value.any() for value in nothing.total.values())
    assert {name: value.shape for name, value in made.unit_gradients([]).items()} == {
        name: (0, *parameter.shape) for name, parameter in parameters.items()
    }


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_contribution_that_is_not_finite_breaks_the_training_off(engine, broken):
    learner = Line()
    made = engine(learner, dict(learner.model.named_parameters()))
    with pytest.raises(TrainingError, match="not finite") as caught:
        made.clipped_sum([point((1.0, 1.0), 1.0), point((1.0, broken), 1.0)], 1.0)
    assert "learning rate" in caught.value.hint


def test_a_contribution_is_clipped_to_something():
    learner = Line()
    with pytest.raises(ValueError, match="clipped to 0"):
        ExactEngine(learner, dict(learner.model.named_parameters())).clipped_sum([point((1.0, 1.0), 1.0)], 0.0)


class Wrong(Engine):
    """Exact, but for what `spoil` does to the gradients."""

    name = "wrong"
    spoil: Any = None

    def unit_gradients(self, units: Sequence[DrawnUnit]) -> dict[str, torch.Tensor]:
        gradients = ExactEngine(self.learner, self.parameters, self.rows).unit_gradients(units)
        type(self).spoil(gradients)
        return gradients

    def clipped_sum(self, units: Sequence[DrawnUnit], max_norm: float) -> ClippedSum:
        raise AssertionError("a wrong engine was used")


def scaled(gradients: dict[str, torch.Tensor]) -> None:
    gradients["1.bias"] *= 1.001


def swapped(gradients: dict[str, torch.Tensor]) -> None:
    gradients["0.weight"][[0, 1]] = gradients["0.weight"][[1, 0]]


def averaged(gradients: dict[str, torch.Tensor]) -> None:
    gradients["0.bias"][:] = gradients["0.bias"].mean(dim=0)


def unwell(gradients: dict[str, torch.Tensor]) -> None:
    gradients["0.bias"][-1] = torch.nan


def short(gradients: dict[str, torch.Tensor]) -> None:
    gradients["0.bias"] = gradients["0.bias"][:1]


def absent(gradients: dict[str, torch.Tensor]) -> None:
    del gradients["0.bias"]


def failing(gradients: dict[str, torch.Tensor]) -> None:
    raise AttributeError("Per sample gradient is not initialized.\nNot updated in backward pass?")


LINES = [point((1.0, 2.0), 3.0), point((-1.0, 0.5), 1.0), point((0.3, 0.4), -2.0)]


@pytest.mark.parametrize("spoil", [scaled, swapped, averaged, unwell, short, absent, failing])
@pytest.mark.parametrize("asked", ["auto", "wrong"])
def test_a_wrong_engine_is_never_used_and_the_record_says_why(spoil, asked):
    learner = Line()
    parameters = dict(learner.model.named_parameters())
    engine = type("Spoilt", (Wrong,), {"spoil": staticmethod(spoil)})
    chosen = choose_engine(asked, learner, parameters, LINES, fast={"wrong": engine})
    assert isinstance(chosen.engine, ExactEngine)
    assert chosen.note.startswith("exact, one unit at a time: wrong refused (")
    assert "\n" not in chosen.note
    assert chosen.preflight_error is None
    outcome = preflight(engine(learner, parameters), ExactEngine(learner, parameters), LINES)
    assert outcome.error is None or outcome.error > TOLERANCE


def test_the_preflight_sees_gradients_that_are_zero_where_adapters_start():
    learner = Line()
    parameters = dict(learner.model.named_parameters())
    with torch.no_grad():
        parameters["1.weight"].zero_()  # so that the layer before it has no gradient
    engine = type("Spoilt", (Wrong,), {"spoil": staticmethod(averaged)})
    before = state_of(learner.model)
    outcome = preflight(engine(learner, parameters), ExactEngine(learner, parameters), LINES)
    assert not outcome.ok
    assert outcome.error > TOLERANCE
    assert state_of(learner.model) == before


def choose(name: str, learner: Learner, units: Sequence[DrawnUnit] = LINES, rows: int = 8) -> Any:
    parameters: Parameters = dict(learner.model.named_parameters())
    return choose_engine(name, learner, parameters, units, rows)


def test_auto_takes_the_first_that_passes_and_a_named_one_is_taken_when_it_passes():
    assert isinstance(choose("auto", Line()).engine, FAST["vmap"])  # type: ignore[arg-type]
    for name in FAST:
        chosen = choose(name, Line())
        assert (chosen.engine.name, chosen.note) == (name, f"{name}, equal to single units in a preflight")
        assert chosen.preflight_error <= TOLERANCE
    exact = choose("exact", Line())
    assert (exact.engine.name, exact.note, exact.preflight_error) == ("exact", "exact, one unit at a time", None)


def test_auto_computes_single_units_where_nothing_else_would_be_faster(monkeypatch):
    samples = LINES[0].samples * 6
    large = [DrawnUnit(samples, (1 / 6,) * 6)]
    assert choose("auto", Line(), large).note.endswith(": a unit's own samples fill a batch")
    assert choose("auto", Line(), LINES, rows=1).engine.name == "exact"
    monkeypatch.setitem(grouped.SAMPLE_GRADIENT_VALUES, "cpu", 10)
    assert choose("auto", Line()).note.endswith("too large for batches to be faster")


def test_without_units_to_compare_or_batches_to_share_an_engine_is_refused():
    assert choose("hooks", Line(), ()).engine.name == "exact"
    assert "no two samples share a batch" in choose("vmap", Line(), LINES, rows=1).note


def test_an_unknown_engine_is_refused():
    with pytest.raises(UsageError, match="no engine 'ghost'") as caught:
        choose("ghost", Line())
    assert caught.value.hint == "known: auto, exact, vmap, hooks"
