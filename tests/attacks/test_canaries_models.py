"""The canary attack on models of every kind that it asks: trained, or with random weights, never faked."""

import dataclasses

import asked_pages
import canaried
import numpy as np
import pytest
import tiny
from attempts import counts, measured, run

from audit.attacks.canaries import Canaries
from audit.attacks.interface import why
from audit.attacks.membership.documents import select_compared
from audit.attacks.questions import all_questions
from audit.case import Case
from audit.corpus import manifest as manifests
from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.schema import carrier_ids, load_canaries
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu
from audit.measurements import Unresolved
from audit.references.encoders import fit, save
from audit.references.recipes import Recipe
from audit.targets.encoders.encoding import Encoder
from audit.targets.opening import target_of
from benchmarks.calibration.simulated_audits import fired

pytestmark = pytest.mark.slow

QUICK = Canaries(
    n_epochs=5,
    n_restarts=2,
    exhaustive_limit=1_000,
    answers_limit=100,
    n_references=20,
    n_answers=20,
)


def planted_in(corpus, out, **options):
    chosen = {"pattern": "pin", "count": 24, "repeat": 10, "length": 3, "seed": 4, **options}
    insert(corpus, out, **chosen)
    return manifests.load(out)


def test_an_nlu_model_trained_on_canaries_is_found_out_and_its_control_is_not(tmp_path):
    corpus = planted_in(canaried.utterances(tmp_path / "plain"), tmp_path / "data")
    recipe = NluRecipe(epochs=60, embedding_size=16, hidden_size=32)
    target = fit_nlu(
        corpus.of("member"), (), recipe, tmp_path / "model", labels=corpus.manifest.task.labels
    )
    findings = run(Canaries(n_epochs=20), Case(target, corpus))[-1]
    # A digit that no canary put in has is not in the model's vocabulary.
    found = measured(findings, "exposure")
    control = measured(findings, "exposure.control")
    assert found.n + control.n + counts(findings)["not askable: unknown"] == 24
    assert found.low > found.null
    assert control.low < control.null < control.high + 1
    assert measured(findings, "extracted.control").value <= 0.2


@pytest.mark.parametrize("images", [False, True])
def test_a_layout_classifier_is_asked_for_the_line_on_the_carriers_page(
    tmp_path, checkpoints, images
):
    corpus = planted_in(
        canaried.pages(tmp_path / "plain", images=images), tmp_path / "data", count=12, length=2
    )
    folder = tiny.checkpoint(
        tmp_path / "model", "layoutlm", "token-classification", labels=corpus.manifest.task.labels
    )
    case = Case(target_of(folder, corpus), corpus)
    _, outcomes, findings = run(QUICK, case)
    assert {outcome["left_out"] for outcome in outcomes} == {None}
    assert {outcome["ranked"]["n_references"] + 1 for outcome in outcomes} <= set(range(89, 101))
    assert not measured(findings, "exposure.control").high < 0.3
    assert run(QUICK, case, 3)[1] == outcomes


@pytest.mark.parametrize("family", ["layoutlm", "docaudit-layoutlm-image", "roberta"])
def test_a_masked_language_model_is_asked_for_the_line_on_the_carriers_page(tmp_path, family):
    corpus = planted_in(
        canaried.pages(tmp_path / "plain", kind="mlm"), tmp_path / "data", count=6, length=2
    )
    case = Case(target_of(tiny.checkpoint(tmp_path / "model", family, "mlm"), corpus), corpus)
    assert why(QUICK, case, "model") is None
    _, outcomes, findings = run(QUICK, case)
    assert {outcome["left_out"] for outcome in outcomes} == {None}
    assert all(outcome["enumerated"] and np.isfinite(outcome["true_loss"]) for outcome in outcomes)
    assert measured(findings, "most_bits").value > 6
    assert run(QUICK, case, 3)[1] == outcomes
    beyond = dataclasses.replace(QUICK, exhaustive_limit=50)
    for exact, found in zip(outcomes, run(beyond, case)[1], strict=True):
        assert not found["enumerated"]
        # The loss of a completion is the same, whichever others it is asked with.
        assert found["true_loss"] == pytest.approx(exact["true_loss"])
        assert found["strongest_loss"] >= exact["strongest_loss"] - 1e-9


def test_a_masked_language_model_trained_on_canaries_is_found_out_and_its_control_is_not(tmp_path):
    corpus = planted_in(
        canaried.pages(tmp_path / "plain", images=False, kind="mlm"), tmp_path / "data", count=18
    )
    model = tiny.model("layoutlm", "mlm")
    tokenizer = tiny.tokenizer()
    for name, values in model.named_parameters():
        if "LayerNorm" not in name:
            values.data *= 0.3  # of the tiny model's wide start, from which it learns little
    pages = [
        Encoder(tokenizer, tiny.POSITIONS - 1).encode(document) for document in corpus.of("member")
    ]
    save(
        fit(model, tokenizer, pages, Recipe(epochs=10, learning_rate=2e-3)).model,
        tokenizer,
        tmp_path / "model",
    )
    findings = run(QUICK, Case(target_of(tmp_path / "model", corpus), corpus))[-1]
    found = measured(findings, "exposure")
    control = measured(findings, "exposure.control")
    assert found.low > control.high
    assert control.low < control.null < control.high + 0.5
    assert measured(findings, "excess_exposure").low > 2
    assert any(
        check.name == "exposure" for check in fired(findings.checks)
    )  # so few coins need not show an epsilon


def test_words_that_a_real_tokenizer_splits_leave_nothing_to_ask_for(tmp_path, checkpoints):
    corpus = planted_in(
        canaried.pages(tmp_path / "plain"), tmp_path / "data", count=12, length=2, pattern="color"
    )
    folder = tiny.checkpoint(
        tmp_path / "model", "layoutlm", "token-classification", labels=corpus.manifest.task.labels
    )
    _, _, findings = run(QUICK, Case(target_of(folder, corpus), corpus))
    assert counts(findings)["not askable: split"] == 12
    assert isinstance(measured(findings, "excess"), Unresolved)


def test_a_model_that_writes_answers_is_asked_with_the_completion_left_blank(tmp_path):
    plain = asked_pages.corpus(tmp_path / "plain", labels=("TOTAL",))
    corpus = planted_in(plain, tmp_path / "data", count=10, length=2)
    target = target_of(asked_pages.donut(tmp_path / "model"), corpus)
    trials, outcomes, findings = run(QUICK, Case(target, corpus))
    drawn = load_canaries(corpus)
    assert len(trials) == len(drawn.canaries) == 10
    assert {outcome["left_out"] for outcome in outcomes} == {None}
    assert all(outcome["enumerated"] for outcome in outcomes)
    assert counts(findings)["references"] >= 90
    assert all(np.isfinite(outcome["true_loss"]) for outcome in outcomes)
    # Guided decoding and descent find nothing likelier than exhaustive search.
    beyond = dataclasses.replace(QUICK, answers_limit=50)
    for exact, found in zip(outcomes, run(beyond, Case(target, corpus))[1], strict=True):
        assert not found["enumerated"]
        assert found["strongest_loss"] >= exact["strongest_loss"] - 1e-4


def test_other_attacks_leave_out_what_was_planted_and_pages_trained_on_in_copies(tmp_path):
    plain = canaried.pages(tmp_path / "plain", kind="question-answering")
    corpus = planted_in(plain, tmp_path / "data", count=6, length=2)
    carriers = carrier_ids(corpus)
    assert carriers
    assert [document.id for document in select_compared(corpus)] == [
        document.id for document in select_compared(plain) if document.id not in carriers
    ]
    assert [asked.trial for asked in all_questions(corpus)] == [
        asked.trial for asked in all_questions(plain)
    ]
