"""One contract for every encoder under each of its heads: what an answer is, and that it depends on its query alone.

A family joins by its name in the zoo of encoders, or in `tiny` where it sees pages or links
entities.
"""

from collections.abc import Sequence
from dataclasses import replace
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
from audit.targets import TABLE
from audit.targets import interface as ask
from audit.targets.batching import STEP
from audit.targets.encoded_page import NO_LINK, NOT_READ, Encoding
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget, best_first

SPADE_PAIRS = [(family, head) for family in tiny.SPADE_FAMILIES for head in tiny.SPADE_HEADS]
SEEING = (*tiny.IMAGE_FAMILIES, "layoutlmv3")
PAIRS = [
    *encoder_zoo.PAIRS,
    *((family, head) for family in tiny.IMAGE_FAMILIES for head in tiny.HEADS),
    ("layoutlmv3 with its pictures", "token-classification"),
    *SPADE_PAIRS,
]
"""Families and heads; each row is a checkpoint that is asked everything below."""
SOME_TOKENS = np.array([7, 8, 40])
Array = np.ndarray[Any, Any]


def opened(folder: Path) -> EncoderTarget:
    """The checkpoint, for a corpus whose documents have images.

    Every tiny checkpoint names its own labels.
    """
    return load(folder, images=tiny.page_image)


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def target(request, checkpoints, tmp_path_factory):
    family, head = request.param
    if (family, head) in encoder_zoo.PAIRS:
        return opened(encoder_zoo.write_encoder(tmp_path_factory.mktemp("model"), family, head))
    return opened(checkpoints(family.partition(" ")[0], head))


Asked = dict[type[ask.Query[Any]], tuple[Sequence[ask.Query[Any]], Sequence[Any]]]


@pytest.fixture(scope="module")
def asked(target):
    """By kind: queries, and what the target answers to all of them at once."""
    queries = {
        kind: queries_of(target, kind)
        for kind in sorted(target.answers, key=lambda kind: kind.__name__)
    }
    return {kind: (own, target.ask(own)) for kind, own in queries.items()}


def pages_of(target: EncoderTarget) -> list[tuple[Encoding, int]]:
    """Pages of 3 to 127 tokens, each with the position of a token of its own."""
    rng = np.random.default_rng(1)
    documents = [*tiny.documents(4, 0, 0)]
    for n_words in (1, 1, 2, 5, 8, 30, 60):
        texts = [
            "".join(rng.choice(list(tiny.CHARACTERS), int(rng.integers(1, 6))))
            for _ in range(n_words)
        ]
        documents.append(Document(f"d{n_words}", "member", tiny.laid_out(texts), size=tiny.SIZE))
    shown = [
        replace(one, image=f"{one.id}.png", label=encoder_zoo.CLASSES[number % 3])
        for number, one in enumerate(documents)
    ]
    pages = [target.encode(document) for document in shown]
    return [(page, int(rng.integers(1, len(page.ids) - 1))) for page in pages if page is not None]


def own_tokens(target: EncoderTarget) -> Array:
    """The ids of the tokens that are not special, in order."""
    tokenizer = target.encoder.tokenizer
    return np.setdiff1d(
        np.arange(len(tokenizer)), [*tokenizer.all_special_ids, tokenizer.unk_token_id]
    )


def query_of(target: EncoderTarget, kind: Any, n: int, page: Encoding, at: int) -> ask.Query[Any]:
    """A query of this kind about a page, at this position, up to it, or on the one to three positions up to it."""
    ids = own_tokens(target)
    rng = np.random.default_rng(n)
    hidden = tuple(range(1, at + 1))
    if kind is ask.FillMask:
        return ask.FillMask(page.masked([at]), at, 1 + n)
    if kind in (ask.BestTokens, ask.MaskedLoss):
        return kind(page.masked(hidden) if kind is ask.BestTokens else page, hidden)
    if kind in (ask.CandidateLogits, ask.TrainingLoss):
        return kind(
            page.masked([at]) if kind is ask.CandidateLogits else page, at, ids[n : n + 1 + n % 5]
        )
    if kind in (ask.CompletionLoss, ask.MaskedCompletionLoss):
        return kind(page, hidden[-3:], rng.choice(ids, (n % 4, len(hidden[-3:]))))
    if kind is ask.RelaxedLoss:
        candidates = ids[: 5 + n % 2]  # two sets of candidates in turn
        weights = rng.dirichlet(np.ones(len(candidates)), len(hidden[-3:]))
        return ask.RelaxedLoss(page, hidden[-3:], candidates, weights)
    return kind(page)


def queries_of(target: EncoderTarget, kind: type[ask.Query[Any]]) -> Sequence[ask.Query[Any]]:
    return [query_of(target, kind, number, *page) for number, page in enumerate(pages_of(target))]


def plain(answer: Any) -> Any:
    if isinstance(answer, ask.Relaxed):
        return np.array([answer.loss, *answer.gradient.ravel()])
    return (
        np.concatenate([answer.ids, answer.logits])
        if isinstance(answer, ask.Candidates)
        else answer
    )


def same_answers(kind: type[ask.Query[Any]], found: Any, expected: Any) -> None:
    """Bit for bit; but gradients up to rounding.

    The kernels of a backward pass are not held to full blocks as those of a forward pass are. A
    mixture is only a step on the way to tokens.
    """
    if kind is ask.RelaxedLoss:
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


def loss_inputs(target: EncoderTarget, page: Encoding) -> dict[str, torch.Tensor]:
    """What the family's own forward pass takes to compute the loss of one page."""
    inputs = own_inputs(target, page)
    if page.links is None:
        labels = (
            torch.tensor([page.page_class])
            if page.labels is None
            else torch.tensor(page.labels)[None]
        )
        return {**inputs, "labels": labels}
    none = len(page.ids)
    links = torch.tensor(np.where(page.links == NO_LINK, none, page.links))[None]
    first = torch.tensor(np.append(False, page.words[1:] != page.words[:-1]) & (page.words >= 0))[
        None
    ]
    inputs |= {
        "attention_mask": torch.ones(1, none, dtype=torch.int64),
        "bbox_first_token_mask": first,
    }
    if page.labels is None:
        return {**inputs, "labels": links}
    return {
        **inputs,
        "initial_token_labels": torch.tensor(page.labels)[None],
        "subsequent_token_labels": links,
    }


def own_output(target: EncoderTarget, page: Encoding, *, taught: bool = False) -> Any:
    with torch.inference_mode():
        return target.model(
            **(loss_inputs if taught or page.links is not None else own_inputs)(target, page)
        )


def log_softmax(scores: Array) -> Array:
    best = scores.max(axis=-1, keepdims=True)
    return scores - best - np.log(np.exp(scores - best).sum(axis=-1, keepdims=True))


def test_an_answer_does_not_depend_on_what_is_asked_beside_it(target, asked, threads, monkeypatch):
    for kind, (queries, _) in asked.items():
        alone = [plain(target.ask([query])[0]) for query in queries]
        for batch_tokens in (128, 4096):
            monkeypatch.setattr(target.forward.batch, "size", batch_tokens)
            order = np.random.default_rng(batch_tokens).permutation(len(queries))
            together = target.ask([queries[place] for place in order])
            for place, answer in zip(order, together, strict=True):
                same_answers(kind, plain(answer), alone[place])


def test_batches_of_fixed_size_as_on_a_gpu_give_the_same_answers(target, asked, monkeypatch):
    monkeypatch.setattr(target.forward, "fixed_rows", True)
    monkeypatch.setattr(target.forward.batch, "size", 512)
    for kind, (queries, answers) in asked.items():
        for query, together, expected in zip(
            queries[::3], target.ask(queries)[::3], answers[::3], strict=True
        ):
            same_answers(kind, plain(together), plain(target.ask([query])[0]))
            np.testing.assert_allclose(plain(expected), plain(together), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", TABLE["splits_last"])
def test_the_last_layer_computes_the_places_that_are_read_alone(family, tmp_path):
    target = opened(encoder_zoo.write_encoder(tmp_path, family, "mlm"))
    queries = queries_of(target, ask.MaskedLoss)
    rows = list[int]()
    last = target.forward._last
    last.intermediate.register_forward_hook(
        lambda _, given, __: rows.append(given[0].shape[:-1].numel())
    )
    found = target.ask(queries)
    assert (
        sum(rows)
        < sum(map(len, found)) + STEP * len(rows)
        < sum(len(query.page.ids) for query in queries)
    )
    target.forward._last = None
    assert all(map(np.array_equal, found, target.ask(queries)))


def shape_of(query: Any, target: EncoderTarget) -> tuple[int, ...]:
    """The shape that the answer is promised to have."""
    if isinstance(query, ask.BestTokens | ask.MaskedLoss):
        return (len(query.positions),)
    if isinstance(query, ask.CompletionLoss | ask.MaskedCompletionLoss):
        return (len(query.completions),)
    if isinstance(query, ask.TrainingLoss | ask.CandidateLogits):
        return query.candidates.shape
    if isinstance(query, ask.RelaxedLoss):
        return query.weights.shape
    return (
        query.page.ids.shape
        if isinstance(query, ask.BestLinks)
        else (len(query.page.ids), len(target.labels))
    )


def test_answers_are_numpy_in_double_precision_and_of_the_promised_shape(target, asked):
    for kind, (queries, answers) in asked.items():
        for query, answer in zip(queries, answers, strict=True):
            if kind is ask.BestClass:
                assert type(answer) is int
            elif kind is ask.FillMask:
                assert plain(answer).dtype == np.float64
            else:
                found = answer.gradient if kind is ask.RelaxedLoss else answer
                assert found.shape == shape_of(query, target)
                assert found.dtype == (
                    np.int64 if kind in (ask.BestTokens, ask.BestLinks) else np.float64
                )


def test_queries_that_it_cannot_answer_or_mixed_ones_are_refused(target):
    assert target.ask([]) == []
    kinds = {
        ask.FillMask,
        ask.MaskedLoss,
        ask.TrainingLoss,
        ask.CompletionLoss,
        ask.RelaxedLoss,
        ask.TagProbabilities,
        ask.BestLinks,
        ask.BestTokens,
    }
    every = [query_of(target, kind, 1, *pages_of(target)[0]) for kind in kinds]
    for query in every:
        if type(query) not in target.answers:
            with pytest.raises(ValueError, match="cannot answer"):
                target.ask([query])
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([query for query in every if type(query) in target.answers])


def test_scores_and_losses_are_those_of_the_models_own_forward_pass(target):
    for page, at in pages_of(target)[::3]:
        output = own_output(target, page)
        scores = getattr(output, "logits", None)
        logits = None if scores is None else scores[0].double().numpy()
        if ask.FillMask in target.answers:
            assert logits is not None
            (candidates,) = target.ask([ask.FillMask(page, at, 1000)])
            np.testing.assert_array_equal(np.sort(candidates.ids), own_tokens(target))
            np.testing.assert_allclose(
                candidates.logits, logits[at, candidates.ids], rtol=1e-4, atol=1e-4
            )
            assert (np.diff(candidates.logits) <= 0).all()
            (few,) = target.ask([ask.FillMask(page, at, 7)])
            (found,) = target.ask([ask.CandidateLogits(page, at, SOME_TOKENS)])
            np.testing.assert_array_equal(few.ids, candidates.ids[:7])
            np.testing.assert_allclose(found, logits[at, SOME_TOKENS], rtol=1e-4, atol=1e-4)
            (best,) = target.ask([ask.BestTokens(page, (1, at))])
            (hidden,) = target.ask([ask.MaskedLoss(page, (1, at))])
            np.testing.assert_array_equal(best, logits[[1, at]].argmax(axis=-1))
            own = log_softmax(own_output(target, page.masked([1, at])).logits[0].double().numpy())
            np.testing.assert_allclose(
                hidden, -own[[1, at], page.ids[[1, at]]], rtol=1e-4, atol=1e-4
            )
            continue
        if ask.BestClass in target.answers:
            assert target.ask([ask.BestClass(page)]) == [int(scores.argmax())]
        if ask.TagProbabilities in target.answers:
            own = getattr(output, "initial_token_logits", scores)[0].double().numpy()
            (probabilities,) = target.ask([ask.TagProbabilities(page)])
            np.testing.assert_allclose(
                np.log(probabilities), log_softmax(own), rtol=1e-4, atol=1e-4
            )
        if ask.BestLinks in target.answers:
            assert page.links is not None
            (best,) = target.ask([ask.BestLinks(page)])
            read = page.links != NOT_READ
            own = getattr(output, "subsequent_token_logits", scores)[0].argmax(dim=-1).numpy()
            np.testing.assert_array_equal(
                best[read], np.where(own == len(read), NO_LINK, own)[read]
            )
            assert read.sum() == (
                len(read) if page.labels is not None else len(set(page.words)) - 1
            )
            assert (best[~read] == NOT_READ).all()
            assert (best != np.arange(len(best))).all(), "no token leads to itself"
            assert read[best[best >= 0]].all()
        (losses,) = target.ask([ask.TrainingLoss(page, at, SOME_TOKENS)])
        recomputed = [
            float(own_output(target, page.with_tokens([at], [token]), taught=True).loss)
            for token in SOME_TOKENS
        ]
        np.testing.assert_allclose(losses, recomputed, rtol=1e-4, atol=1e-5)


def test_mixtures_follow_the_loss(target):
    if ask.TrainingLoss not in target.answers:
        assert target.card.task == "mlm"
        return
    page, _ = pages_of(target)[0]
    candidates = np.array([int(page.ids[1]), 40, 41])
    (exact,) = target.ask([ask.TrainingLoss(page, 1, candidates)])
    for number, row in enumerate(np.eye(3)[:2]):
        (mixed,) = target.ask([ask.RelaxedLoss(page, (1,), candidates, row[None])])
        assert mixed.loss == pytest.approx(exact[number], rel=1e-5)
        step = 1e-3 * np.array([1.0, -0.5, -0.5])
        (ahead,) = target.ask([ask.RelaxedLoss(page, (1,), candidates, row[None] + step)])
        (behind,) = target.ask([ask.RelaxedLoss(page, (1,), candidates, row[None] - step)])
        slope = float(mixed.gradient[0] @ step)
        assert (ahead.loss - behind.loss) / 2 == pytest.approx(slope, rel=0.1, abs=2e-5)


def test_a_page_as_long_as_can_be_is_read(target):
    document = Document(
        "d", "member", tiny.laid_out(["a"] * 300), image="d.png", size=tiny.SIZE, label="form"
    )
    page = target.encode(document)
    assert page is not None
    # LayoutLMv3's 5 visual tokens fill the last block.
    longest = (
        122
        if page.page_image is not None and target.family.name == "LayoutLMv3"
        else tiny.POSITIONS - 1
    )
    assert len(page.ids) == target.card.max_tokens == longest
    kind = ask.MaskedLoss if ask.MaskedLoss in target.answers else ask.TrainingLoss
    assert np.isfinite(target.ask([query_of(target, kind, 1, page, 2)])[0]).all()


def asked_at(target: EncoderTarget, position: int, page: Encoding) -> Any:
    """What an attack learns about this position: the best candidates, or the loss of a few."""
    query = (
        ask.FillMask(page, position, 9)
        if target.card.task == "mlm"
        else ask.TrainingLoss(page, position, SOME_TOKENS)
    )
    return plain(target.ask([query])[0])


def test_layout_and_images_are_read_by_the_families_that_have_them(target):
    page, position = pages_of(target)[3]
    moved = replace(page, boxes=page.boxes[::-1].copy())
    same = np.array_equal(*(asked_at(target, position, seen) for seen in (page, moved)))
    assert same == (target.family.boxes is None)
    sees = target.model.config.model_type in SEEING and getattr(
        target.model.config, "visual_embed", True
    )
    assert (page.page_image is not None) == sees
    patched = replace(page, page_image=page.scrubbed([position]).page_image)
    assert np.array_equal(*(asked_at(target, position, seen) for seen in (page, patched))) != sees


def test_labels_and_links_are_read_where_the_task_has_them(target):
    page, _ = pages_of(target)[0]
    task = target.card.task
    named = (
        tiny.LABELS_OF.get(task, ()) if task != "document-classification" else encoder_zoo.CLASSES
    )
    assert (target.labels, page.labels is None) == (
        named,
        task not in ("token-classification", "spade-extraction"),
    )
    assert page.labels is None or (page.labels[[0, -1]] == NOT_READ).all()
    assert (page.links is None) == (not task.startswith("spade"))


def test_tokens_are_turned_back_into_text(target):
    page = target.encode(Document("d", "member", tiny.laid_out(["ab1", "c"]), size=tiny.SIZE))
    assert page is not None
    assert target.token_strings(page.ids[1:-1].tolist()) == "ab1 c"


@pytest.mark.parametrize("family", ["bert", "roberta", "docaudit-layoutlm-image"])
def test_ties_go_to_the_lower_id(family, checkpoints):
    tied = opened(checkpoints(family, "mlm"))
    decoder = tied.model.get_output_embeddings()
    page, position = pages_of(tied)[0]
    with torch.no_grad():
        decoder.weight.zero_()
        decoder.bias.zero_()
        decoder.bias[[40, 11, 23]] = 1.0
        decoder.bias[[page.unknown_id, page.mask_id]] = 9.0  # they are no candidates, however good
    (candidates,) = tied.ask([ask.FillMask(page, position, 6)])
    assert candidates.ids.tolist() == [11, 23, 40, *own_tokens(tied)[:3]]
    (best,) = tied.ask([ask.BestTokens(page, (position,))])
    assert best.tolist() == [min(page.unknown_id, page.mask_id)]


def test_outputs_beyond_the_vocabulary_are_no_candidates(tmp_path):
    model = tiny.model("bert", "mlm")
    model.resize_token_embeddings(len(tiny.VOCABULARY) + 4)
    with torch.no_grad():
        model.cls.predictions.bias[-4:] = 100.0
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    padded = load(tmp_path)
    page, position = pages_of(padded)[0]
    (candidates,) = padded.ask([ask.FillMask(page, position, 1000)])
    assert (candidates.ids.max(), padded.card.vocabulary) == (
        len(tiny.VOCABULARY) - 1,
        len(tiny.VOCABULARY),
    )


@given(
    arrays(
        np.float64, st.integers(1, 30), elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0])
    ),
    st.integers(0, 40),
)
def test_best_first_sorts_by_score_then_by_index(scores, n):
    expected = sorted(
        (i for i in range(len(scores)) if np.isfinite(scores[i])), key=lambda i: (-scores[i], i)
    )[:n]
    assert best_first(scores, n).tolist() == expected
