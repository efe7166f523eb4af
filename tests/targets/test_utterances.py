"""Models of utterances: what they answer, that an answer depends on its query alone, their CRF, what is refused."""

import copy
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import nlu_models
import numpy as np
import pytest
import tiny
import torch
from checkpoint_faults import Case, cases
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from audit.corpus.documents import Document, Word
from audit.errors import TargetError
from audit.extensions.papers.utterance_model import LinearChainCrf
from audit.extensions.papers.utterance_target import NluTarget, load_nlu
from audit.measurements import Estimate
from audit.targets import interface as ask
from audit.targets.encoded_page import Encoding
from audit.targets.opening import check, target_of
from audit.targets.utility import usefulness

KINDS: tuple[type[ask.Query[Any]], ...] = (
    ask.TagProbabilities,
    ask.BestIntent,
    ask.TrainingLoss,
    ask.CompletionLoss,
    ask.RelaxedLoss,
)


@pytest.fixture(scope="module", params=[False, True], ids=["words", "characters"])
def target(request, tmp_path_factory):
    return load_nlu(nlu_models.checkpoint(tmp_path_factory.mktemp("nlu"), characters=request.param))


def page_of(target: NluTarget, document: Document) -> Encoding:
    page = target.encode(document)
    assert page is not None
    return page


def secret(target: NluTarget, digits: str = "4071") -> tuple[Encoding, tuple[int, ...], np.ndarray]:
    """A pin's page, the positions of its digits, and the ids of all digits."""
    page = page_of(target, nlu_models.pin("s", digits))
    return page, tuple(range(3, 3 + len(digits))), target.vocabulary.ids_of(nlu_models.DIGITS)


def queries_of(target: NluTarget, kind: type[ask.Query[Any]]) -> Sequence[ask.Query[Any]]:
    rng = np.random.default_rng(3)
    queries: list[ask.Query[Any]] = []
    for document in nlu_models.documents():
        page = page_of(target, document)
        n = len(page.ids)
        candidates = np.arange(1, 4 + len(page.ids))
        if kind is ask.TagProbabilities:
            queries.append(ask.TagProbabilities(page))
        elif kind is ask.BestIntent:
            queries.append(ask.BestIntent(page))
        elif kind is ask.TrainingLoss:
            queries.append(ask.TrainingLoss(page, n - 1, candidates))
        elif kind is ask.CompletionLoss:
            queries.append(
                ask.CompletionLoss(
                    page, (0, n - 1), rng.integers(0, 20, (int(rng.integers(1, 40)), 2))
                )
            )
        else:
            weights = nlu_models.spread(rng, 2, len(candidates))
            queries.append(
                ask.RelaxedLoss(page, (0, n - 1), candidates, weights, bool(rng.integers(2)))
            )
    return queries


def plain(answer: Any) -> np.ndarray:
    return (
        np.append(answer.gradient, answer.loss)
        if isinstance(answer, ask.Relaxed)
        else np.asarray(answer)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_depends_on_its_query_alone(target, threads, kind):
    before = {name: value.clone() for name, value in target.model.state_dict().items()}
    queries = queries_of(target, kind)
    together = [plain(answer) for answer in target.ask(queries)]
    backwards = [plain(answer) for answer in target.ask(queries[::-1])][::-1]
    small = NluTarget(target.model, target.vocabulary, target.card, batch_rows=16)
    for query, a, b, c in zip(queries, together, backwards, small.ask(queries), strict=True):
        (alone,) = target.ask([query])
        for other in (b, plain(c), plain(alone)):
            np.testing.assert_array_equal(a, other)
    assert all(
        torch.equal(before[name], value) for name, value in target.model.state_dict().items()
    )
    assert all(
        parameter.grad is None and parameter.requires_grad
        for parameter in target.model.parameters()
    )


def test_losses_and_tags_are_the_models_own(target):
    for document in nlu_models.documents():
        page = page_of(target, document)
        with torch.no_grad():
            output = target.model(
                torch.from_numpy(page.ids)[None],
                torch.from_numpy(page.labels)[None],
                torch.tensor([page.intent]),
            )
        (losses,) = target.ask([ask.TrainingLoss(page, 0, page.ids[:1])])
        assert losses[0] == pytest.approx(float(output.losses), rel=1e-5)
        (tags,) = target.ask([ask.TagProbabilities(page)])
        np.testing.assert_allclose(
            tags, target.model.crf.marginals(output.emissions)[0].detach(), atol=1e-5
        )
        assert target.ask([ask.BestIntent(page)]) == [int(output.intent_logits.argmax())]


def test_one_hot_weights_say_what_completions_and_candidates_say(target):
    page, positions, digits = secret(target)
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(digits), (6, len(positions)))
    (completed,) = target.ask([ask.CompletionLoss(page, positions, digits[chosen])])
    relaxed = target.ask(
        [ask.RelaxedLoss(page, positions, digits, np.eye(len(digits))[row]) for row in chosen]
    )
    single = [
        target.ask([ask.TrainingLoss(page.with_tokens(positions, digits[row]), 0, page.ids[:1])])[
            0
        ][0]
        for row in chosen
    ]
    np.testing.assert_allclose([answer.loss for answer in relaxed], completed, rtol=1e-6)
    np.testing.assert_array_equal(single, completed)
    assert len({*np.round(completed, 6)}) > 1


def doubled_loss(target: NluTarget, query: ask.RelaxedLoss, weights: np.ndarray) -> float:
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
        labels = torch.from_numpy(page.labels)[None]
        intent = torch.tensor([page.intent])
        return float(double(None, labels, intent, inputs[None]).losses.detach())


@pytest.mark.parametrize("mixes", [True, False])
def test_the_gradient_is_that_of_finite_differences(target, mixes):
    page, positions, digits = secret(target, "407")
    weights = nlu_models.spread(np.random.default_rng(1), len(positions), len(digits))
    query = ask.RelaxedLoss(page, positions, digits, weights, mixes)
    (answer,) = target.ask([query])
    assert answer.loss == pytest.approx(doubled_loss(target, query, weights), rel=1e-5)
    step = 1e-5
    for place in np.ndindex(weights.shape):
        up = weights.copy()
        down = weights.copy()
        up[place] = weights[place] + step
        down[place] = weights[place] - step
        slope = (doubled_loss(target, query, up) - doubled_loss(target, query, down)) / (2 * step)
        assert answer.gradient[place] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_queries_that_it_cannot_answer_are_refused(target):
    page, positions, digits = secret(target)
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([ask.FillMask(page, 0, 3)])
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([ask.TagProbabilities(page), ask.TrainingLoss(page, 0, digits)])
    assert target.ask([]) == []
    untagged = replace(page, labels=None)
    with pytest.raises(ValueError, match="tags and an intent"):
        target.ask([ask.CompletionLoss(untagged, positions, digits[None, :4])])


def test_a_word_is_a_token_and_unknown_ones_are_one(target):
    document = nlu_models.utterance(
        "d", "play by nobody berg", ["O", "O", "B-artist", "I-artist"], "Play"
    )
    page = page_of(target, document)
    assert (target.token_strings(page.ids.tolist()), page.words.tolist()) == (
        "play by [UNK] berg",
        [0, 1, 2, 3],
    )
    assert [target.labels[label] for label in page.labels] == [*document.tags]
    assert target.intents[page.intent] == "Play"
    assert (page.boxes == 0).all()
    assert page.ids[2] == page.unknown_id == page.mask_id


def test_utterances_without_a_loss_have_no_labels(target):
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


def test_a_long_utterance_is_cut_to_the_window_around_the_words(tmp_path):
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


GOOD = nlu_models.documents()
UNREADABLE: dict[str, tuple[list[Document], str, str]] = {
    "another task": (GOOD, "token-classification", "token-classification"),
    "an unknown intent": (
        [replace(GOOD[0], intent="Sing")],
        "intent-slots",
        "no tag or intent Sing",
    ),
    "an unknown tag": (
        [replace(GOOD[-1], tags=("O", "O", "O", "B-canary", "O", "O", "O"))],
        "intent-slots",
        "no tag or intent B-canary",
    ),
    "other words": (
        [replace(one, words=tuple(Word(word.text.upper()) for word in one.words)) for one in GOOD],
        "intent-slots",
        "vocabulary lacks",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_corpus_that_it_cannot_read_is_refused(name, target):
    documents, kind, message = UNREADABLE[name]
    target.check(nlu_models.corpus(GOOD))
    with pytest.raises(TargetError, match=message):
        target.check(nlu_models.corpus(documents, kind=kind))


def test_its_utility_is_the_f1_of_slots_and_the_accuracy_of_intents(target):
    held_out = [replace(document, split="heldout") for document in nlu_models.documents()]
    slots, intents = usefulness(target, nlu_models.corpus(held_out), 0)
    assert slots.name == "entity_f1"
    pages = [page_of(target, document) for document in held_out]
    right = [
        answer == page.intent
        for answer, page in zip(target.ask([ask.BestIntent(p) for p in pages]), pages, strict=True)
    ]
    assert isinstance(intents, Estimate)
    assert (intents.name, intents.value, intents.n) == (
        "intent_accuracy",
        np.mean(right),
        len(held_out),
    )
    commonest = Counter(document.intent for document in held_out).most_common(1)[0][1]
    assert intents.null == pytest.approx(commonest / len(held_out))


@pytest.mark.parametrize("characters", [False, True])
def test_a_saved_model_is_the_same_model(tmp_path, characters):
    made, vocabulary = nlu_models.model(characters=characters)
    folder = nlu_models.checkpoint(tmp_path, characters=characters)
    loaded = load_nlu(folder)
    for name, value in made.state_dict().items():
        np.testing.assert_array_equal(value, loaded.model.state_dict()[name], err_msg=name)
    assert (loaded.vocabulary, loaded.labels, loaded.intents) == (
        vocabulary,
        nlu_models.TAGS,
        nlu_models.INTENTS,
    )
    assert (loaded.card.family, loaded.card.task) == ("BiLSTM-CRF", "intent-slots")
    assert loaded.card.vocabulary == len(vocabulary.words)
    assert ("character layer" in loaded.card.architecture) == characters
    assert not [path for path in folder.iterdir() if path.suffix not in (".json", ".safetensors")]


def test_it_is_opened_for_a_data_set_of_utterances(tmp_path):
    folder = nlu_models.checkpoint(tmp_path)
    corpus = nlu_models.corpus(nlu_models.documents())
    target = target_of(folder, corpus, batch_rows=32)
    assert isinstance(target, NluTarget)
    assert target.batch_rows == 32
    check(target, corpus)
    page = target.encode(corpus.documents[0])
    assert page is not None
    (losses,) = target.ask([ask.TrainingLoss(page, 0, page.ids[:1])])
    assert (losses.shape, load_nlu(folder, labels=nlu_models.TAGS[::-1]).labels) == (
        (1,),
        nlu_models.TAGS,
    )
    with pytest.raises(TargetError, match="labels are not the manifest's"):
        load_nlu(folder, labels=("O", "B-canary"))


def strange_characters(folder: Path) -> None:
    made, _ = nlu_models.model(characters=True)
    made.spellings[3, 0] = made.config.n_characters
    made.save_pretrained(folder)


SPOILT: dict[str, Case] = {
    **cases("utterances"),
    "unknown characters": (strange_characters, "characters that the model lacks"),
    "another model": (lambda folder: tiny.checkpoint(folder, "bert", "mlm"), "no NLU model"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_checkpoint_that_is_no_whole_model_of_utterances_is_refused(name, tmp_path):
    spoil, message = SPOILT[name]
    spoil(nlu_models.checkpoint(tmp_path, characters=name == "unknown characters"))
    with pytest.raises(TargetError, match=message):
        load_nlu(tmp_path)


def made(n_tags: int, seed: int, size: float = 1.0) -> LinearChainCrf:
    crf = LinearChainCrf(n_tags).double()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(std=size)
    return crf


def by_hand(crf: LinearChainCrf, emissions: np.ndarray) -> dict[tuple[int, ...], float]:
    """The score of every sequence of tags for one sentence."""
    transitions, starts, ends = (
        value.detach().numpy() for value in (crf.transitions, crf.starts, crf.ends)
    )
    scores = {}
    for tags in itertools.product(range(emissions.shape[1]), repeat=len(emissions)):
        followed = sum(transitions[a, b] for a, b in itertools.pairwise(tags))
        emitted = sum(emissions[place, tag] for place, tag in enumerate(tags))
        scores[tags] = starts[tags[0]] + emitted + followed + ends[tags[-1]]
    return scores


@settings(deadline=None, max_examples=40)
@given(
    n_tags=st.integers(1, 4),
    n_tokens=st.integers(1, 5),
    seed=st.integers(0, 99),
    size=st.sampled_from([0.1, 1.0, 8.0]),
)
def test_partition_costs_and_marginals_are_those_of_all_sequences(n_tags, n_tokens, seed, size):
    crf = made(n_tags, seed, size)
    emissions = size * torch.randn(3, n_tokens, n_tags, dtype=torch.float64)
    totals = crf.log_partition(emissions).detach()
    tables = crf.marginals(emissions).detach()
    for sentence, total, table in zip(emissions, totals, tables, strict=True):
        scores = by_hand(crf, sentence.numpy())
        expected = logsumexp([*scores.values()])
        assert float(total) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        own = np.zeros((n_tokens, n_tags))
        for tags, score in scores.items():
            own[range(n_tokens), tags] += np.exp(score - expected)
        np.testing.assert_allclose(table.numpy(), own, atol=1e-9)
        tags = max(scores, key=lambda key: scores[key])
        cost = crf.costs(sentence[None], torch.tensor(tags)[None]).detach()
        assert float(cost) == pytest.approx(expected - scores[tags], rel=1e-9, abs=1e-9)


def test_in_single_precision_large_scores_neither_overflow_nor_vanish():
    crf = made(6, 1, 5.0).float()
    emissions = 200 * torch.randn(4, 20, 6)
    with torch.no_grad():
        single = crf.log_partition(emissions)
        double = crf.double().log_partition(emissions.double())
    np.testing.assert_allclose(single, double, rtol=1e-5)


def test_the_gradient_of_the_partition_is_the_marginals():
    crf = made(3, 2)
    emissions = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(crf.log_partition(emissions).sum(), emissions)
    torch.testing.assert_close(gradient, crf.marginals(emissions).detach())
