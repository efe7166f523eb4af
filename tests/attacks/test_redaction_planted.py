"""The redaction attack on data sets of which it is known what the context tells, and how it divides them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import redacted
from attempts import counts, diagnostics, measured, outcomes_of, run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from audit.attacks import TEXTS
from audit.attacks.budget import FOLDS, sample
from audit.attacks.interface import nothing_to_try, why
from audit.attacks.redaction import RedactionContext
from audit.attacks.redaction.attack import (
    Predictions,
    gather,
    kinds_of,
    lift_share_of,
    worst_class_of,
)
from audit.attacks.redaction.contexts import Samples, groups_of, samples_of
from audit.attacks.redaction.target_gain import ELSE, categories_of_tags
from audit.attacks.redaction.target_gain import hide_values as hide
from audit.case import Case
from audit.corpus import manifest
from audit.corpus.documents import CATEGORIES, Document, Entity, Word
from audit.engine.interface import SILENT
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.measurements import Unresolved
from audit.targets.interface import NoModel

ROOT = Path(__file__).parents[2]
TAB = ROOT.parent / "shared" / "data" / "tab"
LIMITS = {"lift_share": 0.20, "worst_class": 0.30}
GAIN = 0.10
SPLITS = ("member", "heldout")


@pytest.fixture(scope="module")
def telling():
    """A context that tells the kind, under the mask of one length, beside a model that never saw a document."""
    data = redacted.texts(40, told=True)
    case = Case(redacted.Tagging(), data)
    return case, *run(RedactionContext(), case)


def test_what_the_text_gives_away_is_no_number_of_the_model(telling):
    found = telling[-1]
    assert measured(found, "accuracy").value > 0.98
    names = [item.name for item in found.measurements]
    assert len(set(names)) == len(names)
    assert set(names) <= set(TEXTS["redaction"].names)
    gains = {"target_gain", "target_gain.uncommon", *(f"target_gain.{split}" for split in SPLITS)}
    assert set(names) - set(found.about_text) == gains
    for name in ("lift_over_length", *LIMITS):
        lift = measured(found, name)
        assert lift.low > 0.5
        assert (lift.null, lift.null_kind, lift.clusters) == (0.0, "blind", 40)
        assert lift.low <= lift.value <= lift.high <= 1
    assert found.methods["target_gain"] == ("target_gain", "target_gain.uncommon")
    for name in gains:
        gain = measured(found, name)
        assert gain.low <= 0 <= gain.high
        assert gain.null_kind == ("blind" if name.endswith(SPLITS) else "held-out")


@pytest.mark.parametrize("mask", ["length", "all"])
def test_a_cue_that_tells_the_kind_is_found_under_every_mask(mask):
    found = redacted.findings(redacted.texts(30, told=True, mask=mask))
    assert measured(found, "accuracy").value > 0.98
    assert measured(found, "lift_share").low > 0.5


def test_without_a_cue_nothing_is_told():
    found = redacted.findings(redacted.texts(40, told=False, seed=3))
    accuracy = measured(found, "accuracy")
    lift = measured(found, "lift_share")
    assert accuracy.low < 1 / 3 < accuracy.high
    assert lift.low < 0 < lift.high
    assert accuracy.null_kind == "chance"


def test_what_the_length_tells_is_no_lift_over_length():
    found = redacted.findings(redacted.texts(30, told=False, lengths=True, mask="length"))
    assert measured(found, "accuracy").value > 0.95
    assert measured(found, "accuracy.length-only").value > 0.95
    lift = measured(found, "lift_over_length")
    assert lift.low <= 0 <= lift.high
    fixed = redacted.findings(redacted.texts(30, told=False, lengths=True, mask="fixed"))
    assert measured(fixed, "accuracy").value < 0.6
    assert measured(fixed, "lift_over_length").high < 0


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
    trials, outcomes, found = run(attack, case)
    told = gather(samples_of(case.corpus, "fixed", 5), list(zip(trials, outcomes, strict=True)))
    true = told.samples.classes
    said = told.told
    assert 0.5 < accuracy_score(true, said) < 0.9
    assert measured(found, "accuracy").value == pytest.approx(accuracy_score(true, said))
    prior = accuracy_score(true, told.prior)
    share = (accuracy_score(true, said) - prior) / (1 - prior)
    assert measured(found, "lift_share").value == pytest.approx(share)
    evidence = list(attack.evidence(case, trials, outcomes))
    assert np.mean([row["right"] for row in evidence]) == pytest.approx(accuracy_score(true, said))


def test_documents_of_equal_text_and_of_one_provider_are_not_divided():
    same = [("The", "court"), ("THE", "Court"), ("another", "one"), ("a", "third"), ("a", "fourth")]
    providers = [None, None, "Gardenia", " gardenia", None]
    documents = [
        Document(f"d{number}", "member", tuple(map(Word, words)), provider=provider)
        for number, (words, provider) in enumerate(zip(same, providers, strict=True))
    ]
    groups = groups_of(documents)
    assert (groups[0], groups[2], len(set(groups.tolist()))) == (groups[1], groups[3], 3)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=8, max_size=20),
)
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
    for keys in (
        samples.documents,
        [data.document(span.document).provider or span.document for span in samples.spans],
    ):
        for key in set(keys):
            assert (
                len(
                    {int(fold) for fold, own in zip(samples.folds, keys, strict=True) if own == key}
                )
                == 1
            )
    assert set(samples.folds.tolist()) == set(range(n_folds))
    training, held = samples.divided(0)
    assert not {span.document for span in training.spans} & {span.document for span in held.spans}
    assert [span.entity for span in samples_of(data, "all", n_folds).spans] == [
        s.entity for s in samples.spans
    ]


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
    case, trials, outcomes, found = telling
    attack = RedactionContext()
    for place in (4, 1, 20):
        assert outcomes_of(attack, case, [trials[place]]) == [outcomes[place]]
    assert attack.measure(case, trials, outcomes, np.random.default_rng(1), SILENT) == found


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
        documents.append(
            Document(f"d{number}", "member", tuple(map(Word, words)), entities=entities)
        )
    found = redacted.findings(redacted.corpus(documents, "all"))
    assert (counts(found)["values"], measured(found, "accuracy").value) == (48, 1.0)
    assert diagnostics(found)["leak_between_folds"] == 1.0


def test_a_kind_with_two_samples_spoils_nothing():
    data = redacted.texts(15, told=True)
    first, second, *rest = data.documents
    rare = [
        replace(one, entities=(replace(one.entities[0], category="url"), *one.entities[1:]))
        for one in (first, second)
    ]
    found = redacted.findings(replace(data, documents=(*rare, *rest)))
    assert counts(found)["rare kinds"] == 2
    assert measured(found, "accuracy").value > 0.9
    assert measured(found, "worst_class").value > 0.9


def changed(data, **changes):
    """The data with every entity changed."""
    documents = [
        replace(one, entities=tuple(replace(e, **changes) for e in one.entities))
        for one in data.documents
    ]
    return redacted.corpus(documents)


EIGHT = redacted.texts(8, told=True)
OF_ONE = redacted.corpus([replace(one, provider="one") for one in EIGHT.documents])
LACKING = {
    "does not declare redacted values": (redacted.corpus(EIGHT.documents, None), "[redaction]"),
    "no value is marked for attack": (changed(EIGHT, attack=False), "mark values"),
    "all redacted values are of one category": (changed(EIGHT, category="url"), "mark values"),
    "4 documents (or providers)": (redacted.corpus(EIGHT.documents[:4]), "as there are folds"),
    "1 documents (or providers)": (OF_ONE, "as there are folds"),
}


@pytest.mark.parametrize(
    ("reason", "data", "provide"), [(reason, *row) for reason, row in LACKING.items()]
)
def test_what_a_data_set_lacks_is_said_and_nothing_is_tried(data, reason, provide):
    attack = RedactionContext()
    case = Case(redacted.Silent(), data)
    assert reason in why(attack, Case(NoModel(data), data), "data")
    assert why(attack, case, "model") is None
    assert attack.trials(case) == []
    found = nothing_to_try(attack, case)
    assert reason in found.why
    assert provide in found.fix


def test_what_a_plan_counts_is_documents_by_what_each_metric_needs():
    rng = np.random.default_rng(0)
    documents = []
    for number in range(40):
        kinds = ["person"] * 9 + ["location"] * (number < 12) + ["url"] * (number < 3)
        sentences = [(["x", str(rng.integers(99))], kind, ["Xy"], ["said"]) for kind in kinds]
        documents.append(
            redacted.document(f"d{number}", sentences, ("member", "heldout")[number % 2])
        )
    data = redacted.corpus([*documents, Document("none", "member", (Word("nothing"),))])
    units = {unit.metric: unit for unit in RedactionContext().units(data)}
    assert (units["lift_over_length"].members, units["lift_over_length"].others) == (40, 0)
    assert (units["lift_share"].members, units["lift_share"].methods) == (12, 1)
    # Three web addresses are too few to be judged: people and places are left.
    worst = units["worst_class"]
    assert (worst.members, worst.others, worst.methods) == (12, 40, 2)
    assert (
        units["target_gain"].members,
        units["target_gain"].others,
        units["target_gain"].methods,
    ) == (6, 6, 2)
    assert [metric for metric, unit in units.items() if not unit.about_text] == ["target_gain"]
    assert set(units) <= {*TEXTS["redaction"].names}
    unredacted = RedactionContext().units(redacted.corpus(documents, None))
    assert {unit.members for unit in unredacted} == {0}


# What policies limit of the text


def told(classes, predicted):
    classes, predicted = (np.asarray(column, np.int64) for column in (classes, predicted))
    samples = Samples((), (), classes, np.arange(classes.size), np.zeros(classes.size, np.int64))
    prior = np.full(classes.size, np.bincount(classes).argmax())
    return Predictions(samples, predicted, length=prior, prior=prior)


def test_rare_kinds_are_judged_together_and_left_out_only_when_they_are_too_few_together():
    person, url, contact = (CATEGORIES.index(name) for name in ("person", "url", "contact"))
    both = told([person] * 60 + [url] * 6 + [contact] * 6, [person] * 60 + [url] * 12)
    assert worst_class_of(both).value == 1.0
    assert [(count.name, count.value) for count in kinds_of(both)] == [
        ("rare kinds", 12),
        ("told best: rare", 12),
    ]
    found = told(
        [person] * 60 + [contact] * 12 + [url] * 6, [person] * 60 + [contact] * 12 + [person] * 6
    )
    assert worst_class_of(found).value == 1.0
    few = told([person] * 60 + [url] * 6, [person] * 60 + [url] * 6)
    for measure in (worst_class_of, lift_share_of):
        gap = measure(few)
        assert isinstance(gap, Unresolved)
        assert (gap.n, gap.needed) == (6, 10)


def lopsided(data, category, kept):
    """The values of `category` marked for attack, and the first `kept` of the demographic ones."""
    documents = []
    found = 0
    for document in data.documents:
        entities = []
        for entity in document.entities:
            rare = entity.category == "demographic" and found < kept
            found += rare
            entities.append(replace(entity, attack=rare or entity.category == category))
        documents.append(replace(document, entities=tuple(entities)))
    return replace(data, documents=tuple(documents))


def test_personal_traits_that_are_told_nearly_all_do_not_hide_behind_dates():
    """Letters with 551 dates and 43 personal traits: 40 of the 43 are told, which hardly moves the accuracy."""
    found = redacted.findings(
        lopsided(manifest.load(ROOT / "sample_models" / "letters" / "data"), "datetime", 43)
    )
    accuracy = measured(found, "accuracy")
    assert accuracy.value > 0.99
    assert accuracy.high - accuracy.null <= 0.10
    for name, limit in LIMITS.items():
        # At this level Holm confirms the only violation among ten limits.
        assert (
            next(one.lower for one in measured(found, name).bounds if one.alpha == 0.005) > limit
        ), name
    assert counts(found)["told best: demographic"] == 43


def test_shuffled_answers_give_no_alarm_and_a_leak_of_twice_the_limit_never_passes():
    """A small version of benchmarks/calibration/redaction_calibration.py."""
    from benchmarks.calibration import redaction_calibration as benchmark

    assert benchmark.LIMITS == LIMITS
    for name, setting in benchmark.SETTINGS.items():
        decided = benchmark.decided(setting, 8)
        for limit in LIMITS:
            if "nothing told" in name:
                assert decided[limit]["confirmed"] == 0, (name, limit)
                assert decided[limit]["passed"] >= 6, (name, limit)
            elif "twice" in name and not (setting.rarest_only and limit == "lift_share"):
                assert decided[limit]["passed"] == 0, (name, limit)


def test_the_committed_calibration_is_nominal():
    written = json.loads(
        (ROOT / "benchmarks" / "calibration" / "redaction_calibration.json").read_text()
    )
    for name, row in written.items():
        assert row["audits"] == 1000
        for limit, decided in row["decided"].items():
            rare = row["setting"]["rarest_only"] and limit == "lift_share"
            if row["setting"]["told"] == 0:
                assert decided["confirmed"] == 0
                assert decided["passed"] >= 800, (name, limit)
            elif row["setting"]["told"] == 1:
                assert decided["confirmed"] <= 64, (name, limit)
            elif not rare:
                assert decided["passed"] <= 25, (name, limit)


# What the model adds


@pytest.mark.parametrize("kind", [redacted.Tagging, redacted.Filling])
@pytest.mark.parametrize("mask", ["fixed", "length"])
def test_a_model_that_remembers_its_members_makes_it_worse_for_them_alone(kind, mask):
    data = redacted.texts(40, told=False, seed=2, mask=mask)
    found = redacted.findings(data, kind(known=data.of("member")))
    member, heldout = (measured(found, f"target_gain.{split}") for split in SPLITS)
    assert member.low > 0.3
    assert heldout.low <= 0 <= heldout.high
    assert member.clusters == heldout.clusters == 20
    assert counts(found)["asked of the target"] == measured(found, "target_gain").n == 240
    assert measured(found, "target_gain").bounds[-1].lower > GAIN
    assert measured(found, "lift_share").high < 0.3  # no fault of the text


def test_a_model_that_remembers_rare_values_does_not_hide_behind_common_ones():
    rng = np.random.default_rng(4)
    documents = []
    for number in range(160):
        kinds = ["person"] * 17 + ["location"]
        sentences = [
            (["Then", *rng.choice(redacted.FILLERS, 3)], kind, ["Xy"], ["said"])
            for kind in rng.permutation(kinds)
        ]
        documents.append(
            redacted.document(f"d{number:03}", sentences, ("member", "heldout")[number % 2])
        )
    data = redacted.corpus(documents)
    found = redacted.findings(data, redacted.Tagging(known=data.of("member")))
    assert measured(found, "target_gain").high <= GAIN
    assert measured(found, "target_gain.uncommon").bounds[-1].lower > GAIN


def test_a_model_that_knows_the_language_alone_adds_to_both_splits_and_to_no_limit():
    data = redacted.texts(60, told=False, seed=5)
    found = redacted.findings(data, redacted.Tagging(known=data.documents))
    assert all(measured(found, f"target_gain.{split}").low > 0.3 for split in SPLITS)
    gain = measured(found, "target_gain")
    assert gain.low <= 0 <= gain.high


class Unreading(redacted.Tagging):
    """Cannot read any page."""

    def encode(self, one, around=()):
        return None


def of_split(split):
    return redacted.corpus(
        [replace(one, split=split) for one in redacted.texts(12, told=True).documents]
    )


UNRESOLVED = {
    "no such question": (
        of_split("member"),
        redacted.Silent,
        "neither labels nor hidden words",
        True,
    ),
    "only public documents": (
        of_split("public"),
        redacted.Tagging,
        "no training or unseen document",
        False,
    ),
    "no held-out documents": (of_split("member"), redacted.Tagging, "unseen", False),
    "nothing that it reads": (of_split("member"), Unreading, "in one fold", False),
}


@pytest.mark.parametrize(
    ("data", "kind", "reason", "inapplicable"), UNRESOLVED.values(), ids=UNRESOLVED
)
def test_what_the_model_adds_is_unresolved_with_the_reason(data, kind, reason, inapplicable):
    found = redacted.findings(data, kind())
    gap = measured(found, "target_gain")
    assert isinstance(gap, Unresolved)
    assert reason in gap.reason
    assert (gap.inapplicable, counts(found)["not read by the target"]) == (
        inapplicable,
        72 * (kind is Unreading),
    )


def test_a_tag_is_of_the_category_that_its_label_mostly_has():
    entities = [Entity("e", "Ort", category, (0,)) for category in ("location", "location", "misc")]
    documents = [
        Document(f"d{n}", "member", (Word("a"),), entities=(one,)) for n, one in enumerate(entities)
    ]
    place = CATEGORIES.index("location")
    found = categories_of_tags(redacted.corpus(documents), ("O", "B-Ort", "I-Ort", "Ort", "B-else"))
    assert found == (ELSE, place, place, place, ELSE)


def test_under_a_mask_of_one_length_no_word_of_a_value_is_left_to_count():
    texts = ("x", "Ann", "Lee", "of", "Bonn")
    words = tuple(Word(text, (10.0 * n, 0.0, 10.0 * n + 9, 8.0)) for n, text in enumerate(texts))
    entities = (Entity("a", "person", "person", (1, 2)), Entity("b", "location", "location", (4,)))
    one = Document("d", "member", words, size=(200, 20), entities=entities)
    hidden, places = hide(one, one.entities[:1], "fixed")
    assert ([word.text for word in hidden.words], places) == (["x", "*", "of", "Bonn"], ((1,),))
    # Behind the word before it; five characters, half as wide as high.
    assert (hidden.words[1].box, hidden.entities) == ((9.0, 0.0, 29.0, 8.0), ())
    every, places = hide(one, one.entities, "all")
    assert ([word.text for word in every.words], places) == (["x", "*", "of", "*"], ((1,), (3,)))
    same, places = hide(one, one.entities[:1], "length")
    assert (same.words, places) == (one.words, ((1, 2),))


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.skipif(not TAB.is_dir(), reason="the corpora are not here")
def test_tfidf_and_a_linear_svm_tell_three_kinds_in_four_of_tab_under_a_fixed_mask(tmp_path):
    """The Text Anonymization Benchmark: the anchors of methods/redaction-context.md."""
    FORMATS["tab"].convert(ImportRequest(TAB, tmp_path / "tab", {"member": 0.5, "heldout": 0.5}, 0))
    found = redacted.findings(manifest.load(tmp_path / "tab"))
    accuracy = measured(found, "accuracy")
    assert (accuracy.n, accuracy.clusters) == (7320, 127)
    assert 0.74 <= accuracy.value <= 0.90
    assert accuracy.null == pytest.approx(0.353, abs=0.002)
    assert measured(found, "accuracy.length-only").value == pytest.approx(0.566, abs=0.01)
    assert measured(found, "lift_over_length").low > 0.1
