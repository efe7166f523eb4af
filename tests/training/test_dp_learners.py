"""Learners of private training: what they learn from a document, and the loss of each sample."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import dp_learners
import nlu_models
import numpy as np
import pytest
import tiny
import torch
from dp_learners import NAMES, learner_of

from audit.corpus.documents import Corpus
from audit.corpus.manifest import load
from audit.errors import ManifestError, TargetError
from audit.extensions.papers.utterance_model import Vocabulary
from audit.extensions.private.learners import open_learner
from audit.extensions.private.units import Learner
from audit.references.encoders import Collator
from audit.targets.encoded_page import NOT_READ
from audit.targets.encoders.families import family_named
from audit.targets.opening import check, target_of


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`opened(name)`: a learner of this name, its data set, and samples of unequal length."""

    @cache
    def found(name: str) -> tuple[Learner, Corpus, list[Any]]:
        learner, corpus = learner_of(name, tmp_path_factory.mktemp("learner"))
        units = dp_learners.units_of(learner, dp_learners.of_unequal_length(corpus))
        return learner, corpus, [sample for unit in units for sample in unit.samples]

    return found


def own_loss(name: str, learner: Any, sample: Any) -> torch.Tensor:
    """The loss that the model itself gives for a batch of this sample alone."""
    if name in dp_learners.NLU or name in dp_learners.ANSWERING:
        output = learner.model(**learner.collate([sample]))
        return output.losses[0] if name in dp_learners.NLU else output.loss
    family = name.split()[0]
    known = family_named(family)
    sees = known.sight_of(learner.model.config) is not None
    return learner.model(**Collator(known, tiny.tokenizer_of(family), 0.15, 0, sees)([sample])).loss  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_samples_loss_is_what_its_model_would_have_of_it_alone_whatever_shares_its_batch(
    opened, name
):
    learner, _, samples = opened(name)
    groups: dict[Any, list[Any]] = defaultdict(list)
    for sample in samples:
        groups[learner.alike(sample)].append(sample)
    assert len(samples) > 1
    with torch.no_grad():
        for group in groups.values():
            together = learner.losses(learner.collate(group))
            own = torch.stack([own_loss(name, learner, sample) for sample in group])
            torch.testing.assert_close(together, own, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["layoutlm mlm", "donut", "nlu-characters", "udop", "docaudit-bros-image spade-linking"]
)
def test_a_loss_is_the_same_every_time_and_every_tensor_of_a_batch_has_its_samples_first(
    opened, name
):
    learner, _, samples = opened(name)
    alike = [sample for sample in samples if learner.alike(sample) == learner.alike(samples[0])]
    batch = learner.collate(alike)
    assert {len(value) for value in batch.values()} == {len(alike)}
    assert not any(module.training for module in learner.model.modules())
    torch.testing.assert_close(learner.losses(batch), learner.losses(batch), rtol=0, atol=0)


@pytest.mark.parametrize(
    "name", ["bert token-classification", "layoutlmv3 token-classification", "vt5", "nlu"]
)
def test_what_is_saved_loads_as_an_ordinary_checkpoint_with_the_same_weights(
    opened, name, tmp_path
):
    learner, corpus, _ = opened(name)
    learner.save(tmp_path / "saved")
    target = target_of(tmp_path / "saved", corpus)
    check(target, corpus)
    stored = target.model.state_dict()
    assert all(torch.equal(stored[key], value) for key, value in learner.model.state_dict().items())


def test_a_model_that_ran_away_is_not_saved(tmp_path):
    learner, _ = learner_of("nlu", tmp_path)
    with torch.no_grad():
        next(iter(learner.model.parameters())).fill_(torch.nan)
    with pytest.raises(TargetError, match="not finite"):
        learner.save(tmp_path / "saved")


def test_masks_are_drawn_anew_follow_the_generator_and_always_hide_something(opened):
    learner, corpus, _ = opened("bert mlm")
    document = corpus.documents[0]

    def mask(seed: int, n_words: int | None = None) -> np.ndarray:
        shown = document if n_words is None else replace(document, words=document.words[:n_words])
        (sample,) = learner.samples_of(shown, np.random.default_rng(seed))
        return sample.labels != NOT_READ

    assert np.array_equal(mask(1), mask(1))
    assert not np.array_equal(mask(1), mask(2))
    assert all(mask(seed, n_words=1).any() for seed in range(30))


@pytest.mark.parametrize("name", ["bert mlm", "bert token-classification", "vt5", "nlu"])
def test_a_document_that_says_nothing_makes_no_sample(opened, name):
    learner, corpus, _ = opened(name)
    bare = replace(corpus.documents[0], words=(), entities=(), links=(), questions=(), tags=None)
    assert learner.samples_of(bare, np.random.default_rng(0)) == ()


def test_every_question_with_an_answer_is_a_sample(opened):
    learner, corpus, _ = opened("vt5-blind")
    document = corpus.documents[0]
    first, *others = document.questions
    samples = learner.samples_of(
        replace(document, questions=(replace(first, answers=()), *others)), None
    )
    assert [sample.question for sample in samples] == [question.question for question in others]


def test_an_nlu_model_knows_the_words_tags_and_intents_of_public_utterances_only(tmp_path):
    start = nlu_models.checkpoint(tmp_path / "start", embedding_size=11, hidden_size=5)
    corpus = dp_learners.utterances()
    learner = open_learner(start, corpus, seed=3)
    learner.save(tmp_path / "saved")
    public = {word.text for document in corpus.of("public") for word in document.words}
    assert {*Vocabulary.load(tmp_path / "saved").words} == {"[UNK]", *public}
    assert (
        "tom" in {word.text for document in corpus.of("member") for word in document.words} - public
    )
    config = learner.model.config
    assert (config.embedding_size, config.hidden_size) == (11, 5)
    tom = nlu_models.play("x", "tom okoro")
    (sample,) = learner.samples_of(tom, np.random.default_rng(0))
    assert [int(index) for index in sample[0][2:]] == [0, 0]
    again, other = (
        open_learner(start, corpus, seed=seed).model.lstm.weight_hh_l0 for seed in (3, 4)
    )
    assert torch.equal(learner.model.lstm.weight_hh_l0, again)
    assert not torch.equal(again, other)


def test_an_intent_or_a_tag_that_only_private_utterances_have_is_refused(tmp_path):
    start = nlu_models.checkpoint(tmp_path / "start")
    corpus = dp_learners.utterances()
    without_pins = replace(
        corpus, documents=tuple(each for each in corpus.documents if each.id != "q2")
    )
    with pytest.raises(
        ManifestError, match="1 tags or intents occur in no public utterance, the first is Pin"
    ):
        open_learner(start, without_pins)
    private = replace(corpus, documents=corpus.of("member"))
    with pytest.raises(ManifestError, match="no public utterance"):
        open_learner(start, private)


def test_public_utterances_with_few_of_the_members_words_are_refused_before_a_training(tmp_path):
    start = nlu_models.checkpoint(tmp_path / "start")
    corpus = dp_learners.utterances()
    strange = [nlu_models.play(f"x{index}", "kylie minogue and nick cave") for index in range(20)]
    with pytest.raises(
        ManifestError, match=r"the public utterances lack 5\d% of the members' words"
    ):
        open_learner(start, replace(corpus, documents=(*corpus.documents, *strange)))


def test_pages_without_the_pictures_that_a_model_sees_are_refused(tmp_path):
    corpus = load(tiny.corpus(tmp_path / "data", members=1, heldout=1, public=1))
    start = tiny.checkpoint(tmp_path / "model", "layoutlmv3", "token-classification")
    with pytest.raises(TargetError, match="sees page images"):
        open_learner(start, corpus)


def test_a_head_that_the_start_lacks_is_fresh_from_the_seed(tmp_path):
    corpus = load(tiny.corpus(tmp_path / "data", members=1, heldout=1, public=1))
    start = tiny.checkpoint(Path(tmp_path / "model"), "bert", "mlm")
    first, again, other = (
        open_learner(start, corpus, seed=seed).model.classifier.weight for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
