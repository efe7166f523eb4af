"""The redaction attack on data sets of which it is known what the context tells, and how it divides them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import redacted
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from audit.attacks import TEXTS
from audit.attacks.budget import FOLDS, sample
from audit.attacks.interface import nothing_to_try, why
from audit.attacks.redaction import RedactionContext
from audit.attacks.redaction.samples import groups_of, samples_of
from audit.attacks.redaction.text_leak import gather
from audit.case import Case
from audit.corpus.documents import Document, Entity, Word
from audit.record import Result
from audit.targets.interface import NoModel


@pytest.fixture(scope="module")
def telling():
    """A context that tells the kind, under the mask of one length."""
    data = redacted.texts(30, told=True)
    return data, *redacted.run(RedactionContext(), Case(redacted.Silent(), data))


@pytest.mark.parametrize("mask", ["length", "fixed", "all"])
def test_a_cue_that_tells_the_kind_is_found_under_every_mask(mask):
    found = redacted.findings(redacted.texts(30, told=True, mask=mask))
    assert redacted.measured(found, "accuracy").value > 0.98
    assert redacted.measured(found, "lift_share").low > 0.5
    assert redacted.measured(found, "lift_over_length").low > 0.5


def test_without_a_cue_nothing_is_told():
    found = redacted.findings(redacted.texts(40, told=False, seed=3))
    accuracy, lift = redacted.measured(found, "accuracy"), redacted.measured(found, "lift_share")
    assert accuracy.low < 1 / 3 < accuracy.high
    assert lift.low < 0 < lift.high
    assert accuracy.null_kind == "chance"


def test_what_the_length_tells_is_no_lift_over_length():
    found = redacted.findings(redacted.texts(30, told=False, lengths=True, mask="length"))
    assert redacted.measured(found, "accuracy").value > 0.95
    assert redacted.measured(found, "accuracy.length-only").value > 0.95
    lift = redacted.measured(found, "lift_over_length")
    assert lift.low <= 0 <= lift.high
    fixed = redacted.findings(redacted.texts(30, told=False, lengths=True, mask="fixed"))
    assert redacted.measured(fixed, "accuracy").value < 0.6
    assert redacted.measured(fixed, "lift_over_length").high < 0


def test_the_numbers_are_those_of_scikit_learn():
    data = redacted.texts(24, told=False, seed=5)
    # A cue that is right two times out of three.
    rng = np.random.default_rng(0)
    documents = []
    for one in data.documents:
        words = list(one.words)
        for entity in one.entities:
            kind = entity.category if rng.random() < 2 / 3 else redacted.KINDS[rng.integers(3)]
            words[entity.words[0] - 1] = Word(redacted.CUES[kind])
        documents.append(replace(one, words=tuple(words)))
    attack = RedactionContext()
    case = Case(redacted.Silent(), redacted.corpus(documents))
    trials, outcomes, found = redacted.run(attack, case)
    told = gather(samples_of(case.corpus, "fixed", 5), list(zip(trials, outcomes, strict=True)))
    true, said = told.samples.classes, told.told
    assert 0.5 < accuracy_score(true, said) < 0.9
    assert redacted.measured(found, "accuracy").value == pytest.approx(accuracy_score(true, said))
    prior = accuracy_score(true, told.prior)
    share = (accuracy_score(true, said) - prior) / (1 - prior)
    assert redacted.measured(found, "lift_share").value == pytest.approx(share)
    evidence = list(attack.evidence(case, trials, outcomes))
    assert np.mean([row["right"] for row in evidence]) == pytest.approx(accuracy_score(true, said))


def test_a_sentence_that_a_document_repeats_is_on_one_side_of_every_fold():
    """By sentence, each of them would be known from its copies; by document, nothing tells its kind."""
    rng = np.random.default_rng(1)
    documents = []
    for number in range(40):
        before = [f"name{number}", *rng.choice(redacted.FILLERS, 2)]
        kind = redacted.KINDS[rng.integers(3)]
        documents.append(redacted.document(f"d{number}", [(before, kind, ["Xy"], ["said"])] * 5))
    data = redacted.corpus(documents)
    accuracy = redacted.measured(redacted.findings(data), "accuracy")
    assert accuracy.low < 1 / 3 < accuracy.high
    assert accuracy.n == 200
    assert accuracy.clusters == 40


def test_documents_of_equal_text_and_of_one_provider_are_not_divided():
    same = [("The", "court"), ("THE", "Court"), ("another", "one"), ("a", "third"), ("a", "fourth")]
    providers = [None, None, "Gardenia", " gardenia", None]
    documents = [
        Document(f"d{number}", "member", tuple(map(Word, words)), provider=provider)
        for number, (words, provider) in enumerate(zip(same, providers, strict=True))
    ]
    groups = groups_of(documents)
    assert groups[0] == groups[1]
    assert groups[2] == groups[3]
    assert len(set(groups.tolist())) == 3


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=8, max_size=20))
def test_folds_never_share_a_document_or_a_provider(n_folds, shape):
    documents = [
        redacted.document(
            f"d{number}",
            [([f"w{number}"], redacted.KINDS[place % 3], ["Xy"], ["z"]) for place in range(size)],
            provider=f"p{provider}" if provider < 2 else None,
        )
        for number, (size, provider) in enumerate(shape)
    ]
    data = redacted.corpus(documents)
    attack = RedactionContext(n_folds=n_folds)
    assume(why(attack, Case(NoModel(data), data), "data") is None)
    samples = samples_of(data, "fixed", n_folds)
    for keys in (samples.documents, [data.document(span.document).provider or span.document for span in samples.spans]):
        for key in set(keys):
            assert len({int(fold) for fold, own in zip(samples.folds, keys, strict=True) if own == key}) == 1
    assert set(samples.folds.tolist()) == set(range(n_folds))
    training, held = samples.divided(0)
    assert not {span.document for span in training.spans} & {span.document for span in held.spans}
    assert [span.entity for span in samples_of(data, "all", n_folds).spans] == [s.entity for s in samples.spans]


def test_no_budget_samples_the_folds():
    data = redacted.texts(12, told=True)
    attack = RedactionContext()
    trials = attack.trials(Case(redacted.Tagging(), data))
    folds = [trial.id for trial in trials if trial.stratum == FOLDS]
    assert len(folds) == 5
    quick = sample(trials, 0.25, seed=7)
    assert sorted(folds) == [trial.id for trial in quick if trial.stratum == FOLDS]
    assert sum(trial.stratum == "member" for trial in quick) == 2  # of 6 documents


def test_outcomes_do_not_depend_on_what_runs_beside_them(telling):
    data, trials, outcomes, _ = telling
    case = Case(redacted.Silent(), data)
    attack = RedactionContext()
    for place in (4, 1):
        alone = redacted.drive(redacted.Work(attack, case), [trials[place]], 1)
        assert dict(alone)[trials[place].id] == outcomes[place]
    assert attack.measure(case, trials, outcomes, np.random.default_rng(1), redacted.SILENT) == telling[3]


def test_overlapping_values_and_values_without_a_context_are_told_too():
    documents = []
    for number in range(12):
        words = ("seen", "Dr", "Ann", "Lee", "of", "Bonn", ".", f"Xy{number}", ".")
        entities = (
            Entity("title", "person", "person", (1, 2, 3)),
            Entity("name", "person", "person", (2, 3)),
            Entity("town", "location", "location", (5,)),
            Entity("alone", "code", "code", (7,)),
        )
        documents.append(Document(f"d{number}", "member", tuple(map(Word, words)), entities=entities))
    data = redacted.corpus(documents, "all")
    found = redacted.findings(data)
    assert redacted.count(found, "values") == 48
    assert redacted.measured(found, "accuracy").value == 1.0
    leak = next(item for item in found.diagnostics if item.name == "leak_between_folds")
    assert leak.value == 1.0


def test_a_kind_with_two_samples_spoils_nothing():
    data = redacted.texts(15, told=True)
    first, second, *rest = data.documents
    rare = [
        replace(one, entities=(replace(one.entities[0], category="url"), *one.entities[1:])) for one in (first, second)
    ]
    found = redacted.findings(replace(data, documents=(*rare, *rest)))
    assert redacted.count(found, "rare kinds") == 2
    assert redacted.measured(found, "accuracy").value > 0.9
    assert redacted.measured(found, "worst_class").value > 0.9


@pytest.mark.parametrize(
    ("change", "reason", "provide"),
    [
        (lambda data: redacted.corpus(data.documents, None), "does not say that values are redacted", "[redaction]"),
        (
            lambda data: redacted.corpus(
                [replace(d, entities=tuple(replace(e, attack=False) for e in d.entities)) for d in data.documents]
            ),
            "no value is marked for attack",
            "mark values",
        ),
        (
            lambda data: redacted.corpus(
                [replace(d, entities=tuple(replace(e, category="url") for e in d.entities)) for d in data.documents]
            ),
            "all redacted values are of one category",
            "mark values",
        ),
        (lambda data: redacted.corpus(data.documents[:4]), "4 documents (or providers)", "as there are folds"),
        (
            lambda data: redacted.corpus([replace(d, provider="one") for d in data.documents]),
            "1 documents (or providers)",
            "as there are folds",
        ),
    ],
)
def test_what_a_data_set_lacks_is_said_and_nothing_is_tried(change, reason, provide):
    data = change(redacted.texts(8, told=True))
    attack, case = RedactionContext(), Case(redacted.Silent(), data)
    assert reason in why(attack, Case(NoModel(data), data), "data")
    assert why(attack, case, "model") is None
    assert attack.trials(case) == []
    found = nothing_to_try(attack, case)
    said, what = found.why, found.fix
    assert reason in said
    assert provide in what


def test_every_measurement_is_one_that_a_policy_may_ask_for(telling):
    found = telling[3]
    names = [item.name for item in found.measurements]
    assert len(set(names)) == len(names)
    assert set(names) <= set(TEXTS["redaction"].names)
    assert {f"target_gain.{split}" for split in ("member", "heldout")} <= set(names)
    Result(
        "redaction", parameters={}, measurements=found.measurements, counts=found.counts, diagnostics=found.diagnostics
    )


def test_what_a_plan_counts_is_documents_with_a_redacted_value():
    data = redacted.texts(9, told=True)
    empty = Document("none", "member", (Word("nothing"),))
    attack = RedactionContext()
    for documents, mask, n in (
        (data.documents, "fixed", 9),
        ((*data.documents, empty), "all", 9),
        (data.documents, None, 0),
    ):
        units = {unit.metric: unit for unit in attack.units(redacted.corpus(documents, mask))}
        assert (units["lift_over_length"].members, units["lift_over_length"].others) == (n, 0)


def test_what_a_plan_counts_for_the_share_the_kind_told_best_and_the_model():
    rng = np.random.default_rng(0)
    documents = []
    for number in range(40):
        kinds = ["person"] * 9 + ["location"] * (number < 12) + ["url"] * (number < 3)
        sentences = [(["x", str(rng.integers(99))], kind, ["Xy"], ["said"]) for kind in kinds]
        documents.append(redacted.document(f"d{number}", sentences, ("member", "heldout")[number % 2]))
    data = redacted.corpus(documents)
    units = {unit.metric: unit for unit in RedactionContext().units(data)}
    assert (units["lift_share"].members, units["lift_share"].methods) == (12, 1)
    # Three web addresses are too few to be judged: people and places are left.
    worst = units["worst_class"]
    assert (worst.members, worst.others, worst.methods) == (12, 40, 2)
    assert (units["target_gain"].members, units["target_gain"].others, units["target_gain"].methods) == (6, 6, 2)
    assert [metric for metric, unit in units.items() if not unit.about_text] == ["target_gain"]
    assert set(units) <= {*TEXTS["redaction"].names}
