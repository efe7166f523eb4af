"""One contract for every target: what an answer is, and that it depends on its query alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import encoder_zoo
import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from audit.corpus.documents import Document
from audit.targets.encoded_page import NO_LINK, NOT_READ, Encoding
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget, best_first
from audit.targets.interface import (
    AdaptationRule,
    Adapted,
    BestLinks,
    BestTokens,
    CandidateLogits,
    Candidates,
    CompletionLoss,
    FillMask,
    MaskedCompletionLoss,
    MaskedLoss,
    PageAdaptation,
    Query,
    Relaxed,
    RelaxedLoss,
    TagProbabilities,
    TrainingLoss,
)

SPADE_PAIRS = [(family, head) for family in tiny.SPADE_FAMILIES for head in tiny.SPADE_HEADS]
PAIRS = [
    *((family, "mlm") for family in tiny.MASKED_FAMILIES),
    *((family, "token-classification") for family in tiny.TAGGING_FAMILIES),
    *SPADE_PAIRS,
]


def opened(folder: Path) -> EncoderTarget:
    """The checkpoint, for a corpus whose documents have images; every tiny checkpoint names its own labels."""
    return load(folder, images=tiny.page_image)


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-".join(pair))
def target(request: pytest.FixtureRequest, checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints(*request.param))


Asked = dict[type[Query[Any]], tuple[Sequence[Query[Any]], Sequence[Any]]]


@pytest.fixture(scope="module")
def asked(target: EncoderTarget) -> Asked:
    """By kind: queries, and what the target answers to all of them at once."""
    found: Asked = {}
    for kind in sorted(target.answers, key=lambda kind: kind.__name__):
        queries = queries_of(target, kind)
        found[kind] = (queries, target.ask(queries))
    return found


@pytest.fixture(scope="module", params=tiny.MASKED_FAMILIES)
def masked_model(request: pytest.FixtureRequest, checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints(request.param, "mlm"))


@pytest.fixture(scope="module", params=SPADE_PAIRS, ids=lambda pair: "-".join(pair))
def spade(request: pytest.FixtureRequest, checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints(*request.param))


def pages_of(target: EncoderTarget) -> list[tuple[Encoding, int]]:
    """Pages of 3 to 127 tokens, each with the position of a token of its own."""
    rng = np.random.default_rng(1)
    documents = [*tiny.documents(4, 0, 0)]
    for n_words in (1, 1, 2, 5, 8, 30, 60):
        texts = ["".join(rng.choice(list(tiny.CHARACTERS), int(rng.integers(1, 6)))) for _ in range(n_words)]
        documents.append(Document(f"d{n_words}", "member", tiny.laid_out(texts), size=tiny.SIZE))
    shown = [
        replace(one, image=f"{one.id}.png", label=encoder_zoo.CLASSES[number % 3])
        for number, one in enumerate(documents)
    ]
    pages = [target.encode(document) for document in shown]
    return [(page, int(rng.integers(1, len(page.ids) - 1))) for page in pages if page is not None]


def own_tokens(target: EncoderTarget) -> np.ndarray[Any, Any]:
    """The ids of the tokens that are not special, in order."""
    tokenizer = target.encoder.tokenizer
    return np.setdiff1d(np.arange(len(tokenizer)), [*tokenizer.all_special_ids, tokenizer.unk_token_id])


def queries_of(target: EncoderTarget, kind: type[Query[Any]]) -> Sequence[Query[Any]]:
    """A query of this kind about each page, at the page's position or up to it."""
    ids = own_tokens(target)
    made: dict[type[Query[Any]], Callable[[int, Encoding, int], Query[Any]]] = {
        FillMask: lambda n, page, at: FillMask(page.masked([at]), at, 1 + n),
        BestTokens: lambda n, page, at: BestTokens(page.masked(range(1, at + 1)), tuple(range(1, at + 1))),
        CandidateLogits: lambda n, page, at: CandidateLogits(page.masked([at]), at, ids[n : n + 2 + n % 5]),
        MaskedLoss: lambda n, page, at: MaskedLoss(page, tuple(range(1, at + 1))),
        TrainingLoss: lambda n, page, at: TrainingLoss(page, at, ids[n : n + 1 + n % 5]),
        PageAdaptation: lambda n, page, at: PageAdaptation(page, AdaptationRule(max_steps=1)),
        **{
            own: partial(lambda own, n, page, at: several_tokens(own, n, page, at, ids), own)
            for own in (CompletionLoss, MaskedCompletionLoss, RelaxedLoss)
        },
    }
    make = made.get(kind, lambda n, page, at: kind(page))
    return [make(number, page, position) for number, (page, position) in enumerate(pages_of(target))]


def several_tokens(kind: Any, number: int, page: Encoding, last: int, ids: np.ndarray[Any, Any]) -> Query[Any]:
    """A query about the one to three positions up to `last`; two sets of candidates in turn."""
    rng = np.random.default_rng(number)
    positions = tuple(range(max(1, last - 2), last + 1))
    if kind in (CompletionLoss, MaskedCompletionLoss):
        return kind(page, positions, rng.choice(ids, (number % 4, len(positions))))
    candidates = ids[: 5 + number % 2]
    return RelaxedLoss(page, positions, candidates, rng.dirichlet(np.ones(len(candidates)), len(positions)))


def plain(answer: Any) -> Any:
    if isinstance(answer, Adapted):
        return np.array([answer.distance, *answer.losses, *answer.similarities])
    if isinstance(answer, Relaxed):
        return np.array([answer.loss, *answer.gradient.ravel()])
    return np.concatenate([answer.ids, answer.logits]) if isinstance(answer, Candidates) else answer


def same_answers(kind: type[Query[Any]], found: Any, expected: Any) -> None:
    """Bit for bit; but gradients up to rounding.

    The kernels of a backward pass are not held to full blocks as those of a forward pass are. A mixture
    is only a step on the way to tokens.
    """
    if kind is RelaxedLoss:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


def own_inputs(target: EncoderTarget, page: Encoding) -> dict[str, torch.Tensor]:
    """The page as the family's documentation asks for it, alone and without padding."""
    kind = target.model.config.model_type
    inputs = {"input_ids": torch.tensor(page.ids)[None]}
    if kind in ("layoutlm", "docaudit-layoutlm-image", "layoutlmv3", "lilt"):
        inputs["bbox"] = torch.tensor(np.floor(page.boxes * 1000 + 1e-6).astype(np.int64))[None]
    if kind in ("bros", "docaudit-bros-image"):
        inputs["bbox"] = torch.tensor(page.boxes, dtype=torch.float32)[None]
    if page.page_image is not None:
        inputs["pixel_values"] = torch.tensor(page.page_image.pixels)[None] / 127.5 - 1
    return inputs


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_an_answer_does_not_depend_on_what_is_asked_beside_it(
    target: EncoderTarget, asked: Asked, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, (queries, _) in asked.items():
        alone = [plain(target.ask([query])[0]) for query in queries]
        for batch_tokens in (64, 512, 4096):
            monkeypatch.setattr(target.forward.batch, "size", batch_tokens)
            order = np.random.default_rng(batch_tokens).permutation(len(queries))
            together = target.ask([queries[place] for place in order])
            for place, answer in zip(order, together, strict=True):
                same_answers(kind, plain(answer), alone[place])


def test_batches_of_fixed_size_as_on_a_gpu_give_the_same_answers(
    target: EncoderTarget, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, (queries, answers) in asked.items():
        expected = [plain(answer) for answer in answers]
        with monkeypatch.context() as patch:
            patch.setattr(target.forward, "fixed_rows", True)
            patch.setattr(target.forward.batch, "size", 512)
            together = [plain(answer) for answer in target.ask(queries)]
            alone = [plain(target.ask([query])[0]) for query in queries]
        for a, b, c in zip(expected, together, alone, strict=True):
            same_answers(kind, b, c)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def shape_of(query: Query[Any], target: EncoderTarget) -> tuple[int, ...]:
    """The shape that the answer is promised to have."""
    if isinstance(query, BestTokens | MaskedLoss):
        return (len(query.positions),)
    if isinstance(query, CompletionLoss | MaskedCompletionLoss):
        return (len(query.completions),)
    if isinstance(query, TrainingLoss | CandidateLogits):
        return query.candidates.shape
    if isinstance(query, RelaxedLoss):
        return query.weights.shape
    page: Encoding = query.page  # type: ignore[attr-defined]
    return page.ids.shape if isinstance(query, BestLinks) else (len(page.ids), len(target.labels))


def test_answers_are_numpy_in_double_precision_and_of_the_promised_shape(target: EncoderTarget, asked: Asked) -> None:
    for kind, (queries, answers) in asked.items():
        for query, answer in zip(queries, answers, strict=True):
            if isinstance(query, FillMask | PageAdaptation):
                assert plain(answer).dtype == np.float64
                continue
            found = answer.gradient if isinstance(query, RelaxedLoss) else answer
            assert found.shape == shape_of(query, target)
            assert found.dtype == (np.int64 if kind in (BestTokens, BestLinks) else np.float64)


def test_queries_that_it_cannot_answer_or_mixed_ones_are_refused(target: EncoderTarget) -> None:
    assert target.ask([]) == []
    page, position = pages_of(target)[0]
    every: list[Query[Any]] = [
        FillMask(page, position, 3),
        BestTokens(page, (position,)),
        MaskedLoss(page, (position,)),
        TrainingLoss(page, position, np.array([7])),
        CompletionLoss(page, (position,), np.array([[7]])),
        RelaxedLoss(page, (position,), np.array([7]), np.ones((1, 1))),
        TagProbabilities(page),
        BestLinks(page),
    ]
    for query in every:
        if type(query) not in target.answers:
            with pytest.raises(ValueError, match="cannot answer"):
                target.ask([query])
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([query for query in every if type(query) in target.answers])


def test_candidates_are_the_models_own_best_without_special_and_unknown_tokens(masked_model: EncoderTarget) -> None:
    for page, position in pages_of(masked_model)[::3]:
        asked = page.masked([position])
        (candidates,) = masked_model.ask([FillMask(asked, position, 1000)])
        with torch.inference_mode():
            own = masked_model.model(**own_inputs(masked_model, asked)).logits[0, position].double().numpy()
        np.testing.assert_array_equal(np.sort(candidates.ids), own_tokens(masked_model))
        np.testing.assert_allclose(candidates.logits, own[candidates.ids], rtol=1e-4, atol=1e-4)
        assert (np.diff(candidates.logits) <= 0).all()
        (few,) = masked_model.ask([FillMask(asked, position, 7)])
        np.testing.assert_array_equal(few.ids, candidates.ids[:7])


def test_ties_go_to_the_lower_id(masked_model: EncoderTarget, checkpoints: Any) -> None:
    tied = opened(checkpoints(masked_model.model.config.model_type, "mlm"))
    decoder = tied.model.get_output_embeddings()
    page, position = pages_of(tied)[0]
    with torch.no_grad():
        decoder.weight.zero_()
        decoder.bias.zero_()
        decoder.bias[[40, 11, 23]] = 1.0
        decoder.bias[[page.unknown_id, page.mask_id]] = 9.0  # they are no candidates, however good
    (candidates,) = tied.ask([FillMask(page, position, 6)])
    assert candidates.ids.tolist() == [11, 23, 40, *own_tokens(tied)[:3]]
    (best,) = tied.ask([BestTokens(page, (position,))])
    assert best.tolist() == [min(page.unknown_id, page.mask_id)]


def test_outputs_beyond_the_vocabulary_are_no_candidates(tmp_path: Path) -> None:
    model = tiny.model("bert", "mlm")
    model.resize_token_embeddings(len(tiny.VOCABULARY) + 4)
    with torch.no_grad():
        model.cls.predictions.bias[-4:] = 100.0
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    padded = load(tmp_path)
    page, position = pages_of(padded)[0]
    (candidates,) = padded.ask([FillMask(page, position, 1000)])
    assert candidates.ids.max() == len(tiny.VOCABULARY) - 1
    assert padded.card.vocabulary == len(tiny.VOCABULARY)


@pytest.mark.parametrize("family", tiny.IMAGE_FAMILIES)
def test_answers_of_a_model_that_sees_pages_are_its_own(family: tiny.FamilyName, checkpoints: Any) -> None:
    """The other families are compared in test_encoders_contract.py."""
    masked_model = opened(checkpoints(family, "mlm"))
    for query in queries_of(masked_model, MaskedLoss)[::3]:
        assert isinstance(query, MaskedLoss)
        page, hidden = query.page, list(query.positions)
        (best,) = masked_model.ask([BestTokens(page, query.positions)])
        (losses,) = masked_model.ask([query])
        labels = torch.full((1, len(page.ids)), NOT_READ)
        labels[0, hidden] = torch.from_numpy(page.ids[hidden])
        with torch.inference_mode():
            own = masked_model.model(**own_inputs(masked_model, page)).logits[0, hidden]
            own_loss = masked_model.model(**own_inputs(masked_model, page.masked(hidden)), labels=labels).loss
        np.testing.assert_array_equal(best, own.argmax(dim=-1).numpy())
        assert losses.mean() == pytest.approx(float(own_loss), rel=1e-5, abs=1e-5)
    tagger = opened(checkpoints(family, "token-classification"))
    for page, position in pages_of(tagger)[::3]:
        candidates = np.array([7, 8, 40])
        (losses,) = tagger.ask([TrainingLoss(page, position, candidates)])
        (probabilities,) = tagger.ask([TagProbabilities(page)])
        with torch.inference_mode():
            own = torch.softmax(tagger.model(**own_inputs(tagger, page)).logits[0], dim=-1)
            for candidate, loss in zip(candidates, losses, strict=True):
                inputs = own_inputs(tagger, page.with_tokens([position], [candidate]))
                own_loss = tagger.model(**inputs, labels=torch.tensor(page.labels)[None]).loss
                assert loss == pytest.approx(float(own_loss), rel=1e-5, abs=1e-5)
        np.testing.assert_allclose(probabilities, own.numpy(), atol=1e-5)


def spade_inputs(target: EncoderTarget, page: Encoding) -> dict[str, torch.Tensor]:
    """What the family's own forward pass takes to compute the loss of one page."""
    none = len(page.ids)
    assert page.links is not None
    links = torch.tensor(np.where(page.links == NO_LINK, none, page.links))[None]
    first = torch.tensor(np.append(False, page.words[1:] != page.words[:-1]) & (page.words >= 0))[None]
    inputs = {
        **own_inputs(target, page),
        "attention_mask": torch.ones(1, none, dtype=torch.int64),
        "bbox_first_token_mask": first,
    }
    if target.card.task == "spade-linking":
        return {**inputs, "labels": links}
    return {**inputs, "initial_token_labels": torch.tensor(page.labels)[None], "subsequent_token_labels": links}


def test_the_training_loss_of_spade_is_the_models_own(spade: EncoderTarget) -> None:
    for page, position in pages_of(spade)[::3]:
        candidates = np.array([7, 8, 40])
        (losses,) = spade.ask([TrainingLoss(page, position, candidates)])
        for candidate, loss in zip(candidates, losses, strict=True):
            with torch.inference_mode():
                own = spade.model(**spade_inputs(spade, page.with_tokens([position], [candidate]))).loss
            assert loss == pytest.approx(float(own), rel=1e-5, abs=1e-5)


def test_best_links_are_the_models_own_and_never_lead_to_themselves(spade: EncoderTarget) -> None:
    for page, _ in pages_of(spade)[::3]:
        (best,) = spade.ask([BestLinks(page)])
        with torch.inference_mode():
            output = spade.model(**spade_inputs(spade, page))
        logits = output.logits if spade.card.task == "spade-linking" else output.subsequent_token_logits
        read = page.links != NOT_READ
        assert read.sum() == (len(read) if spade.card.task == "spade-extraction" else len(set(page.words)) - 1)
        own = logits[0].argmax(dim=-1).numpy()
        np.testing.assert_array_equal(best[read], np.where(own == len(read), NO_LINK, own)[read])
        assert (best[~read] == NOT_READ).all()
        assert (best != np.arange(len(best))).all()
        assert read[best[best >= 0]].all()


def test_classes_of_spade_are_the_models_own(spade: EncoderTarget) -> None:
    if TagProbabilities not in spade.answers:
        assert spade.card.task == "spade-linking"
        return
    page, _ = pages_of(spade)[0]
    (probabilities,) = spade.ask([TagProbabilities(page)])
    with torch.inference_mode():
        own = torch.softmax(spade.model(**spade_inputs(spade, page)).initial_token_logits[0], dim=-1)
    np.testing.assert_allclose(probabilities, own.numpy(), atol=1e-5)


def asked_at(target: EncoderTarget, position: int, page: Encoding) -> Any:
    """What an attack learns about this position: the best candidates, or the loss of a few."""
    if target.card.task == "mlm":
        return plain(target.ask([FillMask(page, position, 9)])[0])
    return target.ask([TrainingLoss(page, position, own_tokens(target)[:3])])[0]


def test_layout_is_read_by_the_families_that_have_it(target: EncoderTarget) -> None:
    page, position = pages_of(target)[3]
    moved = replace(page, boxes=page.boxes[::-1].copy())
    a, b = (asked_at(target, position, seen) for seen in (page, moved))
    assert np.array_equal(a, b) == (target.model.config.model_type in ("bert", "roberta", "xlm-roberta"))


def test_images_are_seen_by_the_families_that_see_them(target: EncoderTarget) -> None:
    page, position = pages_of(target)[3]
    sees = target.model.config.model_type in (*tiny.IMAGE_FAMILIES, "layoutlmv3")
    assert (page.page_image is not None) == sees
    patched = replace(page, page_image=page.scrubbed([position]).page_image)
    a, b = (asked_at(target, position, seen) for seen in (page, patched))
    assert np.array_equal(a, b) != sees


def test_labels_and_links_are_read_where_the_task_has_them(target: EncoderTarget) -> None:
    page, _ = pages_of(target)[0]
    task = target.card.task
    assert target.labels == tiny.LABELS_OF.get(task, ())
    if task in ("token-classification", "spade-extraction"):
        assert page.labels is not None
        assert (page.labels[[0, -1]] == NOT_READ).all()
    else:
        assert page.labels is None
    assert (page.links is None) == (not task.startswith("spade"))


def test_tokens_are_turned_back_into_text(target: EncoderTarget) -> None:
    document = Document("d", "member", tiny.laid_out(["ab1", "c"]), size=tiny.SIZE)
    page = target.encode(document)
    assert page is not None
    assert target.token_strings(page.ids[1:-1].tolist()) == "ab1 c"


@given(
    arrays(np.float64, st.integers(1, 30), elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0])), st.integers(0, 40)
)
def test_best_first_sorts_by_score_then_by_index(scores: Any, n: int) -> None:
    expected = sorted((i for i in range(len(scores)) if np.isfinite(scores[i])), key=lambda i: (-scores[i], i))[:n]
    assert best_first(scores, n).tolist() == expected
