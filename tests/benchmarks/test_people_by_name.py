"""People by name: aggregation and areas with known answers, and no prompt chosen on its person."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from audit.attacks.membership import by_name
from audit.corpus.documents import Corpus, Document, Entity, Manifest, Membership, Task, Word
from benchmarks.papers import people_by_name_report as report
from benchmarks.papers import people_by_name_scores as scores

FOLDER = Path(report.__file__).parent
CANDIDATE = "calibrated, mean"


@pytest.fixture
def rng():
    return np.random.default_rng(57)


def page(name, split, *people):
    """Make a page that names people."""
    words = []
    entities = []
    for number, person in enumerate(people):
        places = tuple(range(len(words), len(words) + len(person.split())))
        words += person.split()
        entities.append(Entity(f"e{number}", "PERSON", "person", places))
    return Document(name, split, words=tuple(map(Word, words)), entities=tuple(entities))


def corpus_of(*documents):
    manifest = Manifest(1, "people", Task("mlm"), Membership("random"))
    return Corpus(Path(), manifest, documents, "")


# People


def test_people_of_both_sides_are_not_judged_and_others_keep_their_names():
    corpus = corpus_of(
        page("a", "member", "Ada Bell", "Ms Bell"),
        page("b", "member", "Cora Dunn"),
        page("c", "heldout", "Cora Dunn", "Eva Frey"),
    )
    assert scores.judged_people(corpus, 0) == {"adabell": "Ada Bell", "evafrey": "Eva Frey"}


def test_of_people_who_share_documents_one_is_judged():
    corpus = corpus_of(
        page("a", "member", "Ada Bell", "Cora Dunn"),
        page("b", "member", "Cora Dunn", "Eva Frey"),
        page("c", "member", "Gil Hart"),
    )
    judged = scores.judged_people(corpus, 0)
    assert len(judged) == 2
    assert "gilhart" in judged


def test_a_person_has_the_largest_score_of_the_pages():
    corpus = corpus_of(
        page("a", "member", "Ada Bell"),
        page("b", "member", "Ada Bell", "Ms Hart"),
        page("c", "heldout", "Eva Frey"),
    )
    judged = ["adabell", "evafrey"]
    by_page = {"a": 1.0, "b": 3.0, "c": 2.0}
    assert scores.page_scores(corpus, judged, by_page).tolist() == [3.0, 2.0]
    counted = scores.naming_only(corpus, judged)
    assert [len(document.entities) for document in counted.documents] == [1, 1, 1]


# Prompts


def test_the_best_prompt_is_that_with_the_largest_area():
    member = np.array([True, True, False, False])
    by_prompt = np.array([[1.0, 5.0], [2.0, 4.0], [1.5, 1.0], [3.0, 0.0]])
    assert by_name.best_prompt(by_prompt, member) == 1


def test_each_fold_takes_the_prompt_that_is_best_on_the_other():
    member = np.array([True, False, True, False])
    folds = np.array([0, 0, 1, 1])
    # Prompt 0 is right in fold 0 alone, prompt 1 in fold 1 alone.
    by_prompt = np.array([[9.0, 1.0], [0.0, 2.0], [3.0, 8.0], [4.0, 0.0]])
    assert by_name.chosen_scores(by_prompt, member, folds).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_what_a_person_scores_never_chooses_that_persons_prompt(rng):
    member = np.arange(40) % 2 == 0
    folds = scores.folds_of(member, 3)
    by_prompt = rng.normal(size=(40, 8))
    before = by_name.chosen_scores(by_prompt, member, folds)
    for person in range(40):
        changed = by_prompt.copy()
        changed[person] += np.arange(8) * 100
        after = by_name.chosen_scores(changed, member, folds)
        same_fold = (folds == folds[person]) & (np.arange(40) != person)
        assert np.array_equal(before[same_fold], after[same_fold])
        prompt = np.flatnonzero(by_prompt[person] == before[person])[0]
        assert after[person] == changed[person, prompt]


def test_folds_hold_as_many_of_each_side():
    member = np.array([True] * 10 + [False] * 6)
    folds = scores.folds_of(member, 1)
    assert np.bincount(folds[member]).tolist() == [5, 5]
    assert np.bincount(folds[~member]).tolist() == [3, 3]


# Areas


def test_the_area_is_that_of_scikit_learn(rng):
    member = rng.random(200) < 0.5
    values = np.round(rng.normal(size=200) + member, 1)
    area, low, high = scores.area_of(values, member, np.zeros(200, int))
    assert area == pytest.approx(roc_auc_score(member, values), abs=5e-4)
    assert low < area < high


def test_the_area_of_folds_is_their_mean(rng):
    member = np.arange(200) % 2 == 0
    folds = np.arange(200) // 100
    values = rng.normal(size=200) + member
    areas = [roc_auc_score(member[folds == number], values[folds == number]) for number in range(2)]
    assert scores.area_of(values, member, folds)[0] == pytest.approx(np.mean(areas), abs=5e-4)


def test_the_gain_is_the_difference_of_areas_and_zero_over_itself(rng):
    member = np.arange(120) % 2 == 0
    noise = rng.normal(size=120)
    signal = noise + 2 * member
    folds = np.zeros(120, int)
    value, low, high = scores.gain_of(signal, noise, member, folds)
    expected = roc_auc_score(member, signal) - roc_auc_score(member, noise)
    assert value == pytest.approx(expected, abs=1e-3)
    assert 0 < low < value < high
    assert scores.gain_of(signal, signal, member, folds) == [0, 0, 0]


def test_a_tenth_of_unseen_people_is_recognised_at_most():
    member = np.arange(40) < 20
    values = np.concatenate([np.arange(20) + 10.0, np.arange(20.0)])
    inside, outside = scores.recognised(values, member, np.zeros(40, int))
    assert (inside, outside) == (0.55, 0.05)


# Decision


def run_of(area=0.8, control=0.5, gain=0.3, shares=(0.6, 0.1)):
    """Make the numbers of one run."""
    half = 0.08
    return {
        "areas": {
            CANDIDATE: [area, area - half, area + half],
            "pretrained, mean": [control, control - half, control + half],
        },
        "gains": {CANDIDATE: [gain, gain - half, gain + half]},
        "recognised": {CANDIDATE: list(shares)},
        "pages": {"recognised": {"loss": [0.3, 0.1], "calibrated": [0.4, 0.1]}},
    }


def families_with(strength="leaky", **changes):
    """Make two families that meet the rule, but for changes to one run of a strength."""
    family = {
        "leaky": [run_of()] * 3,
        "weak": [run_of(area=0.6)] * 3,
        "clean": [run_of(area=0.5, gain=0.0)] * 3,
    }
    first = family[strength][0]
    changed = {**family, strength: [{**first, **run_of(**changes)}, *family[strength][1:]]}
    return {"tagger": family, "writer": changed}


BREAKING = [
    ("leaks", {"area": 0.55}),
    ("control", {"control": 0.7}),
    ("more than the names", {"gain": 0.05}),
    ("clean", {"strength": "clean", "area": 0.75}),
]
"""Conditions, each with a change to one run that breaks it alone, by either rule."""


def test_a_candidate_that_meets_the_rule_meets_every_condition():
    assert set(report.conditions(families_with(), CANDIDATE).values()) == {True}


@pytest.mark.parametrize(
    ("condition", "changes"),
    BREAKING,
)
def test_one_run_that_fails_a_condition_fails_it_alone(condition, changes):
    met = report.conditions(families_with(**changes), CANDIDATE)
    assert [name for name, holds in met.items() if not holds] == [condition]


def test_two_clean_intervals_may_not_leave_chance_out():
    families = families_with("clean", area=0.6)
    assert report.conditions(families, CANDIDATE)["clean"]
    twice = {"tagger": families["writer"], "writer": families["writer"]}
    assert not report.conditions(twice, CANDIDATE)["clean"]


def test_a_lift_under_that_of_pages_does_not_join():
    families = families_with()
    for family in families.values():
        for strength in ("leaky", "weak"):
            family[strength] = [run_of(shares=(0.35, 0.1))] * 3
    assert not report.conditions(families, CANDIDATE)["more than pages"]


# Decision on decoders


def decoders_with(strength="leaky", **changes):
    """Make decoders that meet their rule, but for changes to one run of a strength."""
    return families_with(strength, **changes)["writer"]


def test_decoders_that_meet_their_rule_meet_every_condition():
    assert set(report.decoder_conditions(decoders_with(), CANDIDATE).values()) == {True}


@pytest.mark.parametrize(
    ("condition", "changes"),
    [
        *BREAKING,
        ("clean", {"strength": "clean", "area": 0.3}),
        ("reach", {"shares": (0.1, 0.9)}),
    ],
)
def test_one_decoder_that_fails_a_condition_fails_it_alone(condition, changes):
    met = report.decoder_conditions(decoders_with(**changes), CANDIDATE)
    assert [name for name, holds in met.items() if not holds] == [condition]


def test_two_clean_decoders_over_chance_are_not_clean():
    decoders = decoders_with()
    decoders["clean"] = [run_of(area=0.59), run_of(area=0.59), run_of(area=0.4)]
    assert not report.decoder_conditions(decoders, CANDIDATE)["clean"]


def test_a_reach_of_exactly_the_limit_is_enough():
    decoders = decoders_with()
    decoders["leaky"] = [run_of(shares=(0.2, 0.1))] * 3
    assert report.decoder_conditions(decoders, CANDIDATE)["reach"]


def test_the_runs_of_decoders_are_no_runs_seen_before():
    from benchmarks.papers.people_by_name import RULES

    _, seen = RULES["families"]
    _, fresh = RULES["decoders"]
    assert not {*seen, 3} & {*fresh}


# Scans


def scan_of(area=0.9, pretrained=0.5, member=0.7, heldout=0.1):
    """Make what a scan measured, with an interval of 0.05 either way."""
    values = {"area": area, "pretrained": pretrained, "member": member, "heldout": heldout}
    numbers = {name: [value, value - 0.05, value + 0.05] for name, value in values.items()}
    pages = [1.0, 0.99, 1.0]
    return {**numbers, "answers": pages, "pages": pages, "seconds": [60.0]}


def scans_with(**leaky):
    """Make nine scans that meet the conditions, but for changes to a leaky one."""
    return {
        "leaky": [scan_of(), scan_of(), scan_of(**leaky)],
        "weak": [scan_of(area=0.6)] * 3,
        "clean": [scan_of(area=0.5, member=0.1)] * 3,
    }


@pytest.mark.parametrize(
    ("condition", "changes"),
    [
        (None, {}),
        ("leaks", {"area": 0.54}),
        ("control", {"pretrained": 0.8}),
        ("reach", {"member": -1.2}),
    ],
)
def test_a_leaky_scan_that_fails_a_condition_fails_it_alone(condition, changes):
    met = report.scan_conditions(scans_with(**changes))
    assert [name for name, holds in met.items() if not holds] == [condition] * bool(condition)


@pytest.mark.parametrize("areas", [(0.71, 0.5, 0.5), (0.4, 0.6, 0.5), (0.59, 0.54, 0.54)])
def test_clean_scans_over_the_limit_or_away_from_chance_are_not_clean(areas):
    scans = scans_with()
    scans["clean"] = [scan_of(area=area) for area in areas]
    assert not report.scan_conditions(scans)["clean"]


# The page


def test_the_page_has_the_tables_of_its_numbers():
    numbers = json.loads((FOLDER / "people_by_name.json").read_text(encoding="utf-8"))
    text = (FOLDER / "people_by_name.md").read_text(encoding="utf-8")
    for name, lines in report.tables(numbers).items():
        assert f"<!-- {name} -->\n\n" + "\n".join(lines) + "\n" in text


def test_a_prompt_is_a_page_whose_name_is_its_only_entity():
    from benchmarks.papers.people_by_name_models import prompt_document

    document = prompt_document("As for {name} , no answer came .", "Ada Bell")
    assert [document.text_of(entity) for entity in document.entities] == ["Ada Bell"]
    assert " ".join(word.text for word in document.words) == "As for Ada Bell , no answer came ."
