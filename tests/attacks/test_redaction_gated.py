"""What policies limit of redactions: the text's numbers, and what the model adds because it was trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import redacted

from audit.attacks.redaction.samples import Samples
from audit.attacks.redaction.text_leak import Predictions, find_best_kind, lift_share_of, worst_class_of
from audit.corpus import manifest
from audit.corpus.documents import CATEGORIES
from audit.measurements import Estimate, Unresolved

ROOT = Path(__file__).parents[2]
LIMITS = {"lift_share": 0.20, "worst_class": 0.30}
GAIN = 0.10


def lopsided(data, category, kept):
    """The values of `category` marked for attack, and the first `kept` of the demographic ones."""
    documents, found = [], 0
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
    data = lopsided(manifest.load(ROOT / "sample_models" / "letters" / "data"), "datetime", 43)
    found = redacted.findings(data)
    assert redacted.measured(found, "accuracy").value > 0.99
    accuracy = redacted.measured(found, "accuracy")
    assert accuracy.high - accuracy.null <= 0.10
    for name, limit in LIMITS.items():
        measured = redacted.measured(found, name)
        # At this level Holm confirms the only violation among ten limits.
        assert next(bound.lower for bound in measured.bounds if bound.alpha == 0.005) > limit, name
        assert (measured.null, measured.null_kind) == (0.0, "blind")
    assert redacted.count(found, "told best: demographic") == 43


def test_what_the_text_gives_away_is_no_number_of_the_model():
    """The text tells two thirds more than guessing, and the model that never saw a document adds nothing."""
    found = redacted.findings(redacted.texts(150, told=True), redacted.Tagging())
    assert redacted.measured(found, "lift_share").low > 0.5
    names = {item.name for item in found.measurements}
    text = set(found.about_text)
    assert {"accuracy", "lift_over_length", *LIMITS} <= text
    assert names - text == {"target_gain", "target_gain.uncommon", "target_gain.member", "target_gain.heldout"}
    for name in found.methods["target_gain"]:
        gain = redacted.measured(found, name)
        assert gain.high <= GAIN, name
        assert gain.null_kind == "held-out"


def test_a_model_that_remembers_is_no_fault_of_the_text():
    data = redacted.texts(40, told=False, seed=2)
    found = redacted.findings(data, redacted.Tagging(known=data.of("member")))
    assert redacted.measured(found, "target_gain").bounds[-1].lower > GAIN
    assert redacted.measured(found, "lift_share").high < 0.3
    assert redacted.measured(found, "target_gain").n == 240


def test_a_model_that_remembers_rare_values_does_not_hide_behind_common_ones():
    rng = np.random.default_rng(4)
    documents = []
    for number in range(160):
        kinds = ["person"] * 17 + ["location"]
        sentences = [
            (["Then", *rng.choice(redacted.FILLERS, 3)], kind, ["Xy"], ["said"]) for kind in rng.permutation(kinds)
        ]
        documents.append(redacted.document(f"d{number:03}", sentences, ("member", "heldout")[number % 2]))
    data = redacted.corpus(documents)
    found = redacted.findings(data, redacted.Tagging(known=data.of("member")))
    assert redacted.measured(found, "target_gain").high <= GAIN
    assert redacted.measured(found, "target_gain.uncommon").bounds[-1].lower > GAIN
    assert found.methods["target_gain"] == ("target_gain", "target_gain.uncommon")


def test_a_model_that_knows_the_language_alone_adds_to_both_splits_and_to_no_limit():
    data = redacted.texts(60, told=False, seed=5)
    found = redacted.findings(data, redacted.Tagging(known=data.documents))
    assert redacted.measured(found, "target_gain.member").low > 0.3
    assert redacted.measured(found, "target_gain.heldout").low > 0.3
    gain = redacted.measured(found, "target_gain")
    assert gain.low <= 0 <= gain.high


def test_without_held_out_documents_what_the_model_adds_is_not_resolved():
    data = redacted.texts(12, told=False)
    alone = replace(data, documents=tuple(replace(one, split="member") for one in data.documents))
    gap = redacted.measured(redacted.findings(alone, redacted.Tagging()), "target_gain")
    assert isinstance(gap, Unresolved)
    assert "heldout" in gap.reason


def told(classes, predicted, per=1):
    classes, predicted = (np.asarray(column, np.int64) for column in (classes, predicted))
    folds = np.zeros(classes.size, np.int64)
    samples = Samples((), (), classes, np.arange(classes.size) // per, folds)
    prior = np.full(classes.size, np.bincount(classes).argmax())
    return Predictions(samples, predicted, length=prior, prior=prior)


def test_rare_kinds_are_judged_together_and_left_out_only_when_they_are_too_few_together():
    person, url, contact = (CATEGORIES.index(name) for name in ("person", "url", "contact"))
    classes = [person] * 60 + [url] * 6 + [contact] * 6
    both = told(classes, [person] * 60 + [url] * 12)
    assert worst_class_of(both).value == 1.0
    assert find_best_kind(both) == len(CATEGORIES)
    few = told([person] * 60 + [url] * 6, [person] * 60 + [url] * 6)
    for measure in (worst_class_of, lift_share_of):
        gap = measure(few)
        assert isinstance(gap, Unresolved)
        assert (gap.n, gap.needed) == (6, 10)


def test_shuffled_answers_give_no_alarm_and_a_leak_of_twice_the_limit_never_passes():
    """A small version of benchmarks/redaction_calibration.py."""
    from benchmarks import redaction_calibration as benchmark

    assert benchmark.LIMITS == LIMITS
    for name, setting in benchmark.SETTINGS.items():
        counts = benchmark.decided(setting, 8)
        for limit in LIMITS:
            if "nothing told" in name:
                assert counts[limit]["confirmed"] == 0, (name, limit)
                assert counts[limit]["passed"] >= 6, (name, limit)
            elif "twice" in name and not (setting.rarest_only and limit == "lift_share"):
                assert counts[limit]["passed"] == 0, (name, limit)


def test_the_committed_calibration_is_nominal():
    written = json.loads((ROOT / "benchmarks" / "redaction_calibration.json").read_text())
    for name, row in written.items():
        assert row["audits"] == 1000
        for limit, counts in row["decided"].items():
            rare = row["setting"]["rarest_only"] and limit == "lift_share"
            if row["setting"]["told"] == 0:
                assert counts["confirmed"] == 0
                assert counts["passed"] >= 800, (name, limit)
            elif row["setting"]["told"] == 1:
                assert counts["confirmed"] <= 64, (name, limit)
            elif not rare:
                assert counts["passed"] <= 25, (name, limit)


def test_the_interval_of_what_is_told_encloses_its_value():
    found = redacted.findings(redacted.texts(30, told=False, seed=9))
    for name in LIMITS:
        measured = redacted.measured(found, name)
        assert isinstance(measured, Estimate)
        assert measured.low <= measured.value <= measured.high <= 1
        assert measured.clusters == 30
