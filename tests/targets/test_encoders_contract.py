"""The contract of `test_targets_contract.py` for every family that transformers knows, under each of its heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import encoder_zoo
import numpy as np
import pytest
import test_targets_contract
import tiny
import torch
from test_targets_contract import own_inputs, plain, queries_of, same_answers

from audit.corpus.documents import Document
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import (
    AdaptationRule,
    BestClass,
    BestTokens,
    CandidateLogits,
    MaskedLoss,
    PageAdaptation,
    Query,
    RelaxedLoss,
    TagProbabilities,
    TrainingLoss,
)

RULE = AdaptationRule(threshold=1e-9, max_steps=3, learning_rate=1e-2)


@pytest.fixture(scope="module", params=encoder_zoo.PAIRS, ids="-".join)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EncoderTarget:
    return load(encoder_zoo.write_encoder(tmp_path_factory.mktemp("model"), *request.param))


def pages_of(target: EncoderTarget) -> list[Encoding]:
    """Pages of different lengths, with a class where the model classifies pages."""
    return [page for page, _ in test_targets_contract.pages_of(target)[::3]]


def own_logits(target: EncoderTarget, page: Encoding) -> np.ndarray[Any, Any]:
    with torch.inference_mode():
        return target.model(**own_inputs(target, page)).logits[0].double().numpy()


def own_loss(target: EncoderTarget, page: Encoding) -> float:
    labels = torch.tensor([page.page_class]) if page.labels is None else torch.tensor(page.labels)[None]
    with torch.inference_mode():
        return float(target.model(**own_inputs(target, page), labels=labels).loss)


def log_softmax(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    best = scores.max(axis=-1, keepdims=True)
    return scores - best - np.log(np.exp(scores - best).sum(axis=-1, keepdims=True))


def test_an_answer_does_not_depend_on_what_is_asked_beside_it(
    target: EncoderTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in target.answers:
        queries = queries_of(target, kind)[::3]
        alone = [plain(target.ask([query])[0]) for query in queries]
        for batch_tokens in (128, 4096):
            monkeypatch.setattr(target.forward.batch, "size", batch_tokens)
            together = target.ask(queries[::-1])[::-1]
            for a, b in zip(alone, together, strict=True):
                same_answers(kind, plain(b), a)


def test_scores_and_losses_are_those_of_the_models_own_forward_pass(target: EncoderTarget) -> None:
    for page in pages_of(target)[::2]:
        logits = own_logits(target, page)
        if target.card.task == "mlm":
            (found,) = target.ask([CandidateLogits(page, 2, np.arange(20))])
            np.testing.assert_allclose(found, logits[2, :20], rtol=1e-4, atol=1e-4)
            (best,) = target.ask([BestTokens(page, (1, 3))])
            np.testing.assert_array_equal(best, logits[[1, 3]].argmax(axis=-1))
            (hidden,) = target.ask([MaskedLoss(page, (1, 3))])
            own = log_softmax(own_logits(target, page.masked([1, 3])))
            np.testing.assert_allclose(hidden, -own[[1, 3], page.ids[[1, 3]]], rtol=1e-4, atol=1e-4)
            continue
        if target.card.task == "document-classification":
            (best,) = target.ask([BestClass(page)])
            assert best == logits.argmax()
        else:
            (probabilities,) = target.ask([TagProbabilities(page)])
            np.testing.assert_allclose(np.log(probabilities), log_softmax(logits), rtol=1e-4, atol=1e-4)
        candidates = np.array([40, 41])
        (losses,) = target.ask([TrainingLoss(page, 1, candidates)])
        recomputed = [own_loss(target, page.with_tokens([1], [token])) for token in candidates.tolist()]
        np.testing.assert_allclose(losses, recomputed, rtol=1e-4, atol=1e-5)


def test_mixtures_follow_the_loss(target: EncoderTarget) -> None:
    if TrainingLoss not in target.answers:
        assert target.card.task == "mlm"
        return
    page = pages_of(target)[0]
    candidates = np.array([int(page.ids[1]), 40, 41])
    (exact,) = target.ask([TrainingLoss(page, 1, candidates)])
    for number, row in enumerate(np.eye(3)[:2]):
        (mixed,) = target.ask([RelaxedLoss(page, (1,), candidates, row[None])])
        assert mixed.loss == pytest.approx(exact[number], rel=1e-5)
        step = 1e-3 * np.array([1.0, -0.5, -0.5])
        (ahead,) = target.ask([RelaxedLoss(page, (1,), candidates, row[None] + step)])
        (behind,) = target.ask([RelaxedLoss(page, (1,), candidates, row[None] - step)])
        slope = float(mixed.gradient[0] @ step)
        assert (ahead.loss - behind.loss) / 2 == pytest.approx(slope, rel=0.1, abs=2e-5)


def test_a_page_is_adapted_to_and_the_model_is_put_back(target: EncoderTarget) -> None:
    if PageAdaptation not in target.answers:
        assert target.card.task == "mlm"
        return
    page = pages_of(target)[0]
    before = {name: value.clone() for name, value in target.model.state_dict().items()}
    (found,) = target.ask([PageAdaptation(page, RULE)])
    (loss,) = target.ask([TrainingLoss(page, 0, page.ids[:1])])
    assert found.losses[0] == pytest.approx(float(loss[0]), rel=1e-5)
    assert found.losses[-1] < found.losses[0]
    assert found.distance > 0
    assert all(torch.equal(value, before[name]) for name, value in target.model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in target.model.parameters())
    assert not [part for part in target.model.modules() if "forward" in vars(part)]


def test_a_page_as_long_as_can_be_is_read(target: EncoderTarget) -> None:
    page = target.encode(Document("d", "member", tiny.laid_out(["a"] * 300), size=tiny.SIZE, label="form"))
    assert page is not None
    assert len(page.ids) == target.card.max_tokens == encoder_zoo.POSITIONS - 1
    kind: Sequence[type[Query[Any]]] = [one for one in (MaskedLoss, TrainingLoss) if one in target.answers]
    (answer,) = target.ask([MaskedLoss(page, (1,)) if kind[0] is MaskedLoss else TrainingLoss(page, 1, page.ids[:2])])
    assert np.isfinite(answer).all()
