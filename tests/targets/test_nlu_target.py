"""What NLU models answer, and that an answer depends on its query alone."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import nlu_models
import numpy as np
import pytest
import torch

from audit.corpus.documents import Document, Word
from audit.errors import TargetError
from audit.extensions.papers.utterance_target import NluTarget, load_nlu
from audit.measurements import Estimate
from audit.targets.encoded_page import Encoding
from audit.targets.interface import (
    BestIntent,
    CompletionLoss,
    FillMask,
    Query,
    Relaxed,
    RelaxedLoss,
    TagProbabilities,
    TrainingLoss,
)
from audit.targets.utility import usefulness

KINDS: tuple[type[Query[Any]], ...] = (TagProbabilities, BestIntent, TrainingLoss, CompletionLoss, RelaxedLoss)


@pytest.fixture(scope="module", params=[False, True], ids=["words", "characters"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NluTarget:
    return load_nlu(nlu_models.checkpoint(tmp_path_factory.mktemp("nlu"), characters=request.param))


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def page_of(target: NluTarget, document: Document) -> Encoding:
    page = target.encode(document)
    assert page is not None
    return page


def secret(target: NluTarget, digits: str = "4071") -> tuple[Encoding, tuple[int, ...], np.ndarray]:
    """A pin's page, the positions of its digits, and the ids of all digits."""
    page = page_of(target, nlu_models.pin("s", digits))
    return page, tuple(range(3, 3 + len(digits))), target.vocabulary.ids_of(nlu_models.DIGITS)


def queries_of(target: NluTarget, kind: type[Query[Any]]) -> Sequence[Query[Any]]:
    rng = np.random.default_rng(3)
    queries: list[Query[Any]] = []
    for document in nlu_models.documents():
        page = page_of(target, document)
        n, candidates = len(page.ids), np.arange(1, 4 + len(page.ids))
        if kind is TagProbabilities:
            queries.append(TagProbabilities(page))
        elif kind is BestIntent:
            queries.append(BestIntent(page))
        elif kind is TrainingLoss:
            queries.append(TrainingLoss(page, n - 1, candidates))
        elif kind is CompletionLoss:
            queries.append(CompletionLoss(page, (0, n - 1), rng.integers(0, 20, (int(rng.integers(1, 40)), 2))))
        else:
            weights = nlu_models.spread(rng, 2, len(candidates))
            queries.append(RelaxedLoss(page, (0, n - 1), candidates, weights, bool(rng.integers(2))))
    return queries


def plain(answer: Any) -> np.ndarray:
    return np.append(answer.gradient, answer.loss) if isinstance(answer, Relaxed) else np.asarray(answer)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_depends_on_its_query_alone(target: NluTarget, threads: int, kind: type[Query[Any]]) -> None:
    queries = queries_of(target, kind)
    together = [plain(answer) for answer in target.ask(queries)]
    backwards = [plain(answer) for answer in target.ask(queries[::-1])][::-1]
    small = NluTarget(target.model, target.vocabulary, target.card, batch_rows=16)
    for query, a, b, c in zip(queries, together, backwards, small.ask(queries), strict=True):
        (alone,) = target.ask([query])
        for other in (b, plain(c), plain(alone)):
            np.testing.assert_array_equal(a, other)


def test_losses_and_tags_are_the_models_own(target: NluTarget) -> None:
    for document in nlu_models.documents():
        page = page_of(target, document)
        with torch.no_grad():
            output = target.model(
                torch.from_numpy(page.ids)[None], torch.from_numpy(page.labels)[None], torch.tensor([page.intent])
            )
        (losses,) = target.ask([TrainingLoss(page, 0, page.ids[:1])])
        assert losses[0] == pytest.approx(float(output.losses), rel=1e-5)
        (tags,) = target.ask([TagProbabilities(page)])
        np.testing.assert_allclose(tags, target.model.crf.marginals(output.emissions)[0].detach(), atol=1e-5)
        assert target.ask([BestIntent(page)]) == [int(output.intent_logits.argmax())]


def test_one_hot_weights_say_what_completions_and_candidates_say(target: NluTarget) -> None:
    page, positions, digits = secret(target)
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(digits), (6, len(positions)))
    (completed,) = target.ask([CompletionLoss(page, positions, digits[chosen])])
    relaxed = target.ask([RelaxedLoss(page, positions, digits, np.eye(len(digits))[row]) for row in chosen])
    single = [
        target.ask([TrainingLoss(page.with_tokens(positions, digits[row]), 0, page.ids[:1])])[0][0] for row in chosen
    ]
    np.testing.assert_allclose([answer.loss for answer in relaxed], completed, rtol=1e-6)
    np.testing.assert_array_equal(single, completed)
    assert len({*np.round(completed, 6)}) > 1


def doubled_loss(target: NluTarget, query: RelaxedLoss, weights: np.ndarray) -> float:
    """The same loss in double precision, computed the plain way."""
    double = copy.deepcopy(target.model).double()
    page = query.page
    with torch.no_grad():
        table = double.input_table()
        inputs = table[torch.from_numpy(page.ids)].clone()
        shown = table[torch.from_numpy(query.candidates)].clone()
        if not query.mix_characters:
            shown[:, double.config.embedding_size :] = 0.0
        inputs[list(query.positions)] = torch.from_numpy(weights) @ shown
        labels, intent = torch.from_numpy(page.labels)[None], torch.tensor([page.intent])
        return float(double(None, labels, intent, inputs[None]).losses.detach())


@pytest.mark.parametrize("mixes", [True, False])
def test_the_gradient_is_that_of_finite_differences(target: NluTarget, mixes: bool) -> None:
    page, positions, digits = secret(target, "407")
    weights = nlu_models.spread(np.random.default_rng(1), len(positions), len(digits))
    query = RelaxedLoss(page, positions, digits, weights, mixes)
    (answer,) = target.ask([query])
    assert answer.loss == pytest.approx(doubled_loss(target, query, weights), rel=1e-5)
    step = 1e-5
    for place in np.ndindex(weights.shape):
        up, down = weights.copy(), weights.copy()
        up[place], down[place] = weights[place] + step, weights[place] - step
        slope = (doubled_loss(target, query, up) - doubled_loss(target, query, down)) / (2 * step)
        assert answer.gradient[place] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_the_model_keeps_its_weights_and_collects_no_gradient(target: NluTarget) -> None:
    before = {name: value.clone() for name, value in target.model.state_dict().items()}
    for kind in KINDS:
        target.ask(queries_of(target, kind))
    assert all(torch.equal(before[name], value) for name, value in target.model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in target.model.parameters())


def test_queries_that_it_cannot_answer_are_refused(target: NluTarget) -> None:
    page, positions, digits = secret(target)
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([FillMask(page, 0, 3)])
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([TagProbabilities(page), TrainingLoss(page, 0, digits)])
    assert target.ask([]) == []
    untagged = replace(page, labels=None)
    with pytest.raises(ValueError, match="tags and an intent"):
        target.ask([CompletionLoss(untagged, positions, digits[None, :4])])


def test_a_word_is_a_token_and_unknown_ones_are_one(target: NluTarget) -> None:
    document = nlu_models.utterance("d", "play by nobody berg", ["O", "O", "B-artist", "I-artist"], "Play")
    page = page_of(target, document)
    assert target.token_strings(page.ids.tolist()) == "play by [UNK] berg"
    assert page.words.tolist() == [0, 1, 2, 3]
    assert [target.labels[label] for label in page.labels] == [*document.tags]
    assert target.intents[page.intent] == "Play"
    assert (page.boxes == 0).all()
    assert page.ids[2] == page.unknown_id == page.mask_id


def test_utterances_without_a_loss_have_no_labels(target: NluTarget) -> None:
    document = nlu_models.pin("s", "12")
    lacking = [
        replace(document, tags=None),
        replace(document, intent=None),
        replace(document, intent="Sing"),
        replace(document, tags=("O", "O", "O", "B-canary", "I-canary")),
    ]
    for other in lacking:
        page = page_of(target, other)
        assert page.labels is None
        assert page.intent is None
        assert not page.has_loss
    assert target.encode(Document("empty", "member")) is None


def test_a_long_utterance_is_cut_to_the_window_around_the_words(tmp_path: Path) -> None:
    made, vocabulary = nlu_models.model()
    made.config.max_tokens = 10
    made.save_pretrained(tmp_path)
    vocabulary.save(tmp_path)
    short = load_nlu(tmp_path)
    document = Document("long", "member", tuple(Word(str(place % 10)) for place in range(40)))
    assert page_of(short, document).words.tolist() == [*range(10)]
    for around in ([0], [39], [17, 18, 20], [5, 14]):
        page = short.encode(document, around)
        assert page is not None
        assert len(page.ids) == 10
        assert {*around} <= {*page.words}
    assert short.encode(document, [5, 15]) is None
    assert short.encode(document, [40]) is None


def test_a_corpus_that_it_cannot_read_is_refused(target: NluTarget) -> None:
    good = nlu_models.documents()
    target.check(nlu_models.corpus(good))
    with pytest.raises(TargetError, match="token-classification"):
        target.check(nlu_models.corpus(good, kind="token-classification"))
    with pytest.raises(TargetError, match="no tag or intent Sing"):
        target.check(nlu_models.corpus([replace(good[0], intent="Sing")]))
    with pytest.raises(TargetError, match="no tag or intent B-canary"):
        target.check(nlu_models.corpus([replace(good[-1], tags=("O", "O", "O", "B-canary", "O", "O", "O"))]))
    strange = [replace(document, words=tuple(Word(word.text.upper()) for word in document.words)) for document in good]
    with pytest.raises(TargetError, match="vocabulary lacks"):
        target.check(nlu_models.corpus(strange))


def test_its_utility_is_the_f1_of_slots_and_the_accuracy_of_intents(target: NluTarget) -> None:
    held_out = [replace(document, split="heldout") for document in nlu_models.documents()]
    slots, intents = usefulness(target, nlu_models.corpus(held_out), 0)
    assert slots.name == "entity_f1"
    pages = [page_of(target, document) for document in held_out]
    right = [
        answer == page.intent for answer, page in zip(target.ask([BestIntent(p) for p in pages]), pages, strict=True)
    ]
    assert isinstance(intents, Estimate)
    assert (intents.name, intents.value, intents.n) == ("intent_accuracy", np.mean(right), len(held_out))
    commonest = Counter(document.intent for document in held_out).most_common(1)[0][1]
    assert intents.null == pytest.approx(commonest / len(held_out))
