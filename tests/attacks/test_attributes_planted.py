"""Attribute inference on targets whose memory is known: the true value among plausible ones of its category."""

import datetime as dt
import zlib
from dataclasses import replace
from functools import cache

import answering
import example_records as examples
import numpy as np
import planted
import pytest
from attempts import counts, run
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from audit import policy
from audit.attacks import TEXTS
from audit.attacks.attributes import AttributeInference
from audit.attacks.attributes.attack import values_of
from audit.attacks.attributes.hidden import FEW, select_plausible
from audit.attacks.attributes.measures import calibrate, chance_of_first, rank_of_first
from audit.attacks.interface import nothing_to_try, why
from audit.attacks.questions import PROVEN
from audit.case import Case, References
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Question,
    Task,
    Word,
)
from audit.engine.interface import SILENT
from audit.measurements import Unresolved
from audit.targets.encoded_page import Encoding
from audit.targets.interface import (
    CompletionLoss,
    FillMask,
    MaskedCompletionLoss,
    MaskedLoss,
    NoModel,
    TrainingLoss,
)
from benchmarks.calibration.simulated_audits import completed

CATEGORIES = ("person", "code")
LENGTHS = {"person": 2, "code": 3}


def corpus(n_member=60, n_heldout=60, n_public=40, seed=0, task="mlm"):
    """Pages of a name of three words, and a value of two and one of three words.

    A word is the number of its token.
    """
    rng = np.random.default_rng(seed)
    documents = []
    splits = ["member"] * n_member + ["heldout"] * n_heldout + ["public"] * n_public
    for index, split in enumerate(splits):
        words = [*rng.integers(10, 10**6, 3)]
        entities = []
        for category in CATEGORIES:
            span = tuple(range(len(words), len(words) + LENGTHS[category]))
            words += [*rng.integers(10, 10**6, len(span))]
            entities.append(Entity(category, category, category, span))
        texts = tuple(Word(f"{word:06d}") for word in words)
        documents.append(Document(f"d{index:03}", split, texts, entities=tuple(entities)))
    return Corpus(
        None, Manifest(1, "planted", Task(task), Membership("random")), tuple(documents), "0" * 64
    )


@cache
def _drawn(seed, tokens, page=()):
    """A number from a normal distribution for each value, or value on a page."""
    return np.random.default_rng([seed, *page, *tokens]).normal()


class Knowing:
    """Gives every value a loss of its own, the same on every page, and takes `memory` off that of those it remembers.

    Attributes:
        asked: the queries, in order.
    """

    labels = ()

    def __init__(
        self, data, remembered=(), kind=MaskedCompletionLoss, seed=0, prior=None, memory=100.0
    ):
        self.card = planted.card(data.manifest.task.kind)
        self.answers = frozenset({kind})
        self.seed = seed
        self.prior = seed if prior is None else prior
        self.memory = memory
        self.asked = []
        self.known = {
            (
                tuple(self.encode(one).ids[:3].tolist()),
                tuple(self.encode(one).ids[list(entity.words)].tolist()),
            )
            for one in data.documents
            if one.id in {*remembered}
            for entity in one.entities
        }

    def encode(self, document, around=()):
        ids = np.array([int(word.text) for word in document.words])
        return Encoding(ids, np.zeros((len(ids), 4)), np.arange(len(ids)), None, 0, 1)

    def ask(self, queries):
        self.asked += queries
        return [
            np.array([self._loss(query, tuple(row)) for row in query.completions.tolist()])
            for query in queries
        ]

    def _loss(self, query, tokens):
        assert all(query.page.ids[list(query.positions)] == query.page.mask_id), (
            "the value must be hidden"
        )
        name = tuple(query.page.ids[:3].tolist())
        prior = _drawn(self.prior, tokens)
        own = _drawn(self.seed, tokens, name)
        return 10 + 3 * prior + 0.1 * own - self.memory * ((name, tokens) in self.known)


class Found:
    """What the attack measured, by name."""

    def __init__(self, target, data, attack=None, **references):
        attack = attack or AttributeInference()
        self.case = case = Case(target, data, References(**references))
        assert why(attack, case, "model") is None
        self.trials, self.outcomes, self.findings = run(attack, case)
        self.by_name = {item.name: item for item in self.findings.measurements}
        assert len(self.by_name) == len(self.findings.measurements)
        assert self.by_name.keys() <= {*TEXTS["attribute_inference"].names}
        self.counts = counts(self.findings)
        found = attack.evidence(case, self.trials, self.outcomes)
        self.evidence = [row for row in found if isinstance(row, dict)]

    def __getitem__(self, name):
        return self.by_name[name]

    def outcome(self, metric="excess.unique", limit=0.15):
        """What a policy that limits one number says."""
        done = completed("attribute_inference", self.findings)
        asked = policy.Limit(
            "attribute_inference", metric, "", max=limit, min_power=0.3, min_coverage=0.3
        )
        made = policy.Policy(schema=1, name="test", limits=(asked,))
        record = examples.record(done, battery=("attribute_inference",))
        return policy.evaluate(record, made, dt.date(2026, 1, 1)).decisions[0].outcome


def ids(data, split):
    return [document.id for document in data.of(split)]


@pytest.mark.parametrize("kind", [MaskedCompletionLoss, CompletionLoss])
def test_what_a_model_remembers_is_picked_on_member_pages_alone(kind):
    data = corpus()
    found = Found(
        Knowing(data, ids(data, "member"), kind),
        data,
        baselines=(Knowing(data, kind=kind, seed=1),),
    )
    assert found["chosen.member"].value == 1
    assert found["chosen.heldout"].value < 0.2
    assert found["excess.unique"].low > 0.5
    (known,) = (check for check in found.findings.checks if check.name == "known values")
    assert known.p_value < 0.001, "values of each category are known"
    assert found["candidates"].value == 16
    assert found.outcome() == found.outcome("excess.all") == "violated"
    assert found.counts["member values"] == found.counts["member values, unique"] == 120
    assert [line["place"]["loss"] for line in found.evidence if line["split"] == "member"] == [
        1.0
    ] * 120
    assert found.findings.coverage[0].attacked == found.findings.coverage[0].total == 120


def test_values_that_no_budget_drew_were_not_asked_about():
    data = corpus()
    found = Found(Knowing(data), data, auxiliary=Knowing(data, seed=1))
    few = [row for row, trial in enumerate(found.trials) if trial.stratum.startswith("member")][:10]
    rows = ([whole[row] for row in few] for whole in (found.trials, found.outcomes))
    part = AttributeInference().measure(found.case, *rows, np.random.default_rng(1), SILENT)
    assert (part.coverage[0].attacked, part.coverage[0].unique, part.coverage[0].total) == (
        10,
        10,
        120,
    )


def test_values_that_are_kept_out_of_the_audit_count_in_what_a_pass_rests_on():
    data = corpus()
    documents = tuple(
        replace(
            one,
            entities=tuple(replace(own, attack=own.category == "person") for own in one.entities),
        )
        for one in data.documents
    )
    found = Found(
        Knowing(data, [], CompletionLoss), replace(data, documents=documents)
    ).findings.coverage
    assert (found[0].attacked, found[0].total) == (60, 120)
    assert {one.category: (one.attacked, one.total) for one in found[1:]} == {
        "code": (0, 60),
        "person": (60, 60),
    }


def test_a_model_that_remembers_nothing_passes():
    data = corpus(150, 150, 60)
    found = Found(Knowing(data), data, auxiliary=Knowing(data, seed=1))
    assert found["excess.unique"].low <= 0 <= found["excess.unique"].high
    assert found.findings.confounded is None
    assert found.findings.ablations == ()
    assert found.outcome() == found.outcome("excess.all") == "passed"
    # By lot one of 16 is picked, with the model and without it.
    assert found["chosen.heldout"].low <= 1 / 16 <= found["chosen.heldout"].high
    assert abs(found["chosen.heldout"].null - 1 / 16) < 0.03


def test_power_is_what_a_memory_of_two_spreads_adds_on_held_out_pages():
    """Losses of 16 values are drawn alike.

    The true one's is lowered by two deviations of a difference of two.
    """
    data = corpus(150, 150, 60)
    found = Found(Knowing(data), data, auxiliary=Knowing(data, seed=1))
    power = found[TEXTS["attribute_inference"].power]
    assert 0.6 < power.low < power.value < 0.95
    assert power.n == found.counts["held-out values"]
    everything = Found(Knowing(data, ids(data, "heldout")), data, auxiliary=Knowing(data, seed=1))
    assert everything[TEXTS["attribute_inference"].power].value == 0, (
        "what is picked anyway shows no memory"
    )


def test_a_share_of_the_members_remembered_is_what_is_measured():
    data = corpus(100, 100)
    found = Found(Knowing(data, ids(data, "member")[:30]), data, auxiliary=Knowing(data, seed=1))
    assert found["excess.unique"].low <= 0.3 * 15 / 16 <= found["excess.unique"].high
    assert found.outcome(limit=0.15) == "violated"


def test_memory_that_a_prior_hides_shows_beside_the_public_model():
    data = corpus(100, 100)
    target = Knowing(data, ids(data, "member"), prior=7, memory=1.5)
    found = Found(target, data, auxiliary=Knowing(data, seed=1, prior=7))
    assert found["chosen.member"].value < 0.4, "the loss alone follows what is likely anyway"
    assert found["excess.unique.calibrated"].low > 0.5
    assert found.findings.methods["excess.unique"] == ("excess.unique", "excess.unique.calibrated")
    assert found.outcome() == "violated", "the strongest method decides"


def test_a_tagger_is_held_against_the_public_language_model_when_no_tagger_was_given():
    data = corpus(task="token-classification")
    tagger = Knowing(data, ids(data, "member"), CompletionLoss)
    auxiliary = Knowing(data, seed=1)
    assert Found(tagger, data, auxiliary=auxiliary)["excess.unique.calibrated"].low > 0.3
    assert {type(query) for query in auxiliary.asked} == {MaskedCompletionLoss}
    baseline = Knowing(data, kind=CompletionLoss, seed=2)
    Found(tagger, data, auxiliary=auxiliary, baselines=(baseline,))
    assert baseline.asked, "another tagger is asked the same and comes first"


def test_a_plan_knows_that_a_tagger_is_held_against_the_public_language_model():
    data = corpus(4, 4, task="token-classification")
    tagger = Knowing(data, kind=CompletionLoss)
    auxiliary = Knowing(data, seed=1)
    # As a tagger and a masked language model answer: neither gives the loss of a page that the
    # other gives.
    tagger.answers |= {TrainingLoss}
    auxiliary.answers |= {MaskedLoss}
    assert (
        why(AttributeInference(), Case(tagger, data, References(auxiliary=auxiliary)), "weak")
        is None
    )
    assert "no reference" in why(AttributeInference(), Case(tagger, data), "weak")


def test_a_model_that_finds_all_values_alike_is_right_by_lot():
    data = corpus()

    class Constant(Knowing):
        def _loss(self, query, tokens):
            return 1.0

    found = Found(Constant(data), data, auxiliary=Constant(data))
    assert found["chosen.member"].value == found["chosen.heldout"].value == 1 / 16
    assert (found["excess.unique"].value, {line["place"]["loss"] for line in found.evidence}) == (
        0,
        {8.5},
    )


def test_losses_that_are_no_numbers_come_last():
    data = corpus()

    class Broken(Knowing):
        def _loss(self, query, tokens):
            return np.nan

    found = Found(Broken(data), data, auxiliary=Knowing(data, seed=1))
    assert (found["chosen.member"].value, found.outcomes[0]["target"]) == (1 / 16, [None] * 16)


def test_the_list_holds_public_values_of_the_category_and_length_once_and_nothing_from_the_page():
    data = corpus(4, 4, 12)
    member = data.documents[0]
    public = data.of("public")
    # A public value that stands on the member's page too, outside any field.
    shared = public[0].text_of(public[0].entities[0]).split()
    member = replace(member, words=(*member.words, *map(Word, shared)))
    data = replace(data, documents=(member, *data.documents[1:]))
    target = Knowing(data)
    Found(target, data)
    texts = [(entity.category, one.text_of(entity)) for one in public for entity in one.entities]
    values = {
        name: {tuple(map(int, text.split())) for own, text in texts if own == name}
        for name in CATEGORIES
    }
    truths = {
        tuple(int(w) for w in one.text_of(entity).split())
        for one in data.documents
        for entity in one.entities
    }
    assert len(target.asked) == 2 * 8
    for query in target.asked:
        truth, *others = map(tuple, query.completions.tolist())
        category = CATEGORIES[len(truth) == 3]
        assert truth in truths
        assert truth not in others
        assert {*others} <= values[category]
        assert (
            len({*others})
            == len(others)
            == (11 if len(query.page.ids) > 8 and category == "person" else 12)
        )


def test_values_without_plausible_others_are_left_out_and_counted():
    data = corpus(10, 10, 2)
    case = Case(Knowing(data), data)
    assert (AttributeInference().trials(case), nothing_to_try(AttributeInference(), case).kind) == (
        [],
        "missing",
    )
    assert {hidden.left_out for hidden in values_of(case).all()} == {FEW}


def test_a_document_gives_no_more_values_than_asked_for():
    data = corpus(10, 10)
    case = Case(Knowing(data), data)
    trials = AttributeInference(n_per_document=1).trials(case)
    assert sorted(trial.cluster for trial in trials) == ids(data, "member") + ids(data, "heldout")
    assert len(AttributeInference().trials(case)) == 40
    assert AttributeInference(n_per_document=1).ablations
    assert not AttributeInference.preset("quick").ablations


def test_few_documents_leave_the_limits_undecided_and_say_how_many_are_needed():
    data = corpus(19, 60)
    gap = Found(Knowing(data), data, auxiliary=Knowing(data, seed=1))["excess.unique"]
    assert isinstance(gap, Unresolved)
    assert (gap.n, gap.needed) == (19, 72)


def test_without_any_other_model_nothing_passes():
    data = corpus(150, 150)
    found = Found(Knowing(data), data)
    assert found.findings.ablations
    assert found.findings.methods["excess.unique"] == ("excess.unique",)
    assert (found["chosen.member"].null, found.outcome()) == (1 / 16, "undecided")


def test_what_a_data_set_and_a_model_must_have_is_said():
    attack = AttributeInference()
    data = corpus(5, 5)
    assert why(attack, Case(NoModel(data), data), "data") is None
    bare = replace(data, documents=data.of("member", "heldout"))
    assert "whose kind occurs in public documents" in why(attack, Case(NoModel(bare), bare), "data")
    units = {one.metric: one for one in attack.units(data)}
    assert (
        units["excess.unique"].members,
        units["excess.unique"].others,
        units["excess.all"].members,
    ) == (5, 5, 5)
    silent = Knowing(data, kind=FillMask)
    assert "no loss of a value" in why(attack, Case(silent, data), "model")


class Unsure(answering.Answering):
    """Likes one answer a little better than another, whatever the page."""

    def _losses(self, query):
        return super()._losses(query) * (1 + zlib.crc32(query.answer.encode()) / 2**34)


class TestAnswers:
    """Models that answer questions."""

    def data(self, n=60, category="amount"):
        made = answering.corpus(n, n)
        public = answering.corpus(30, 0, seed=5)
        renamed = tuple(replace(one, id=f"p{one.id}", split="public") for one in public.documents)
        asked = [
            replace(
                one,
                questions=tuple(replace(question, category=category) for question in one.questions),
            )
            for one in (*made.documents, *renamed)
        ]
        return replace(made, documents=tuple(asked))

    def test_a_remembered_answer_is_picked_when_it_is_off_the_page(self):
        data = self.data()
        target = answering.Answering(answering.memory_of(data.of("member")))
        found = Found(target, data, baselines=(answering.Answering(),))
        assert ({outcome["lost"] for outcome in found.outcomes}, found["chosen.member"].value) == (
            {None},
            1,
        )
        assert found["chosen.heldout"].value == found["chosen.member"].null == 1 / 16
        assert found.outcome() == "violated"

    def test_a_model_without_memory_passes_nothing_but_a_limit(self):
        data = self.data(100)
        found = Found(Unsure(), data, baselines=(Unsure(),))
        assert (found["excess.all"].value, found.outcome()) == (0, "passed")

    def test_a_model_that_likes_all_values_alike_shows_no_memory_and_passes_nothing(self):
        data = self.data(100)
        found = Found(answering.Answering(), data, baselines=(answering.Answering(),))
        assert found["excess.all"].value == found[TEXTS["attribute_inference"].power].value == 0
        assert found.outcome() == "undecided"

    def test_a_value_that_no_question_asks_for_is_picked_with_a_question_of_its_own(self):
        data = self.data(90)
        value = Entity("e", "total", "amount", (2,))
        documents = tuple(
            replace(one, entities=(value,), questions=one.questions if number % 2 else ())
            for number, one in enumerate(data.documents)
        )
        memory = answering.memory_of(data.of("member"))
        hidden = [*values_of(Case(answering.Answering(), replace(data, documents=documents))).all()]
        assert [one.input_only for one in hidden].count(True) == 90
        found = Found(
            answering.Answering(memory), replace(data, documents=documents), baselines=(Unsure(),)
        )
        assert (found.counts["member values, input only"], found["chosen.member"].value) == (45, 1)

    def test_answers_without_a_category_are_compared_with_answers_to_the_same_question(self):
        data = self.data(20, category=None)
        hidden = [*values_of(Case(answering.Answering(), data)).all()]
        assert ({one.category for one in hidden}, {one.left_out for one in hidden}) == (
            {"whatisthetotal?"},
            {None},
        )

    def test_an_answer_that_is_not_proven_to_be_gone_is_not_asked_about(self):
        data = self.data(50)
        derivable = data.documents[0]
        # The answer stands on no page: there is nothing to hide.
        gone = replace(
            derivable,
            questions=(
                Question("q", answering.question("total"), ("absentvalue",), category="amount"),
            ),
        )
        data = replace(data, documents=(gone, *data.documents[1:]))
        found = Found(answering.Answering(), data, baselines=(answering.Answering(),))
        assert (found.counts["left out: absent"], found.counts["member values"]) == (1, 49)
        assert f"left out: {PROVEN}" not in found.counts


def test_what_is_left_on_the_page_is_no_candidate():
    pool = {"anna": 1, "berta": 2, "annaberta": 3, "clara": 4}
    assert select_plausible(pool, {"clara"}, ["Anna", "Berta", "x"]) == []
    assert select_plausible(pool, {"anna"}, ["x", "Bertold"]) == [3, 2, 4]


losses = st.lists(st.sampled_from([0.0, 1.0, 2.5, np.inf]), min_size=1, max_size=20).map(np.array)


@given(losses)
def test_ranks_are_scipys_and_shares_of_equals_add_up_to_one(values):
    assert rank_of_first(values) == rankdata(values)[0]
    total = sum(chance_of_first(np.roll(values, shift)) for shift in range(len(values)))
    assert total == pytest.approx(1)


@given(losses, losses)
def test_a_calibrated_loss_prefers_what_the_target_alone_likes(target, public):
    n = min(len(target), len(public))
    target = target[:n]
    public = public[:n]
    np.testing.assert_array_equal(calibrate(target, None, alike=True), target)
    with np.errstate(invalid="ignore"):
        difference = target - public
    found = calibrate(target, public, alike=True)
    finite = np.isfinite(difference)
    np.testing.assert_array_equal(found[finite], difference[finite])
    assert np.isposinf(found[~finite]).all()
    combined = calibrate(target, np.zeros(n), alike=False)
    if np.isfinite(target).all() and np.median(target) > 0:
        assert (np.argsort(combined, kind="stable") == np.argsort(target, kind="stable")).all()


def test_values_that_no_label_names_have_a_number_under_the_same_limit():
    data = corpus(150, 150, task="token-classification")
    named = {category: category for category in CATEGORIES} | {"code": "O"}
    outside = tuple(
        replace(one, entities=tuple(replace(own, label=named[own.label]) for own in one.entities))
        for one in data.documents
    )
    data = replace(data, documents=outside)
    codes = [replace(one, entities=one.entities[1:]) for one in data.of("member")]
    memory = replace(data, documents=tuple(codes))
    found = Found(Knowing(memory, ids(data, "member"), CompletionLoss), data)
    assert found["excess.input_only"].low > 0.5
    assert found["excess.all"].high < 0.15, "values with a label are measured apart"
    assert (found.outcome("excess.all"), found.counts["member values, input only"]) == (
        "violated",
        150,
    )
    ignorant = Found(
        Knowing(data, kind=CompletionLoss),
        data,
        auxiliary=Knowing(data, kind=CompletionLoss, seed=1),
    )
    assert ignorant.outcome("excess.all") != "violated"
    few = replace(
        data, documents=(*data.of("member")[:30], *data.of("heldout")[:30], *data.of("public"))
    )
    alarm = Found(Knowing(memory, ids(data, "member"), CompletionLoss), few)
    assert "excess.input_only" not in alarm.by_name
    (known,) = (check for check in alarm.findings.checks if check.name == "known values")
    assert known.p_value < 0.001
