"""How an audit was run, how its counts fit, and what an assessment of the risk takes from it."""

import dataclasses

import example_records as examples
import pytest
from shown_pages import decision

from audit.cards import Forgotten
from audit.policy import Limit
from audit.record import Result
from audit.report.assessment import AssessmentView, assessment_view
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import KindFacts, ReturnedDocuments
from audit.report.numbers import NBSP

pytestmark = pytest.mark.usefixtures("undrawn")


def view_of(case: examples.Case) -> AssessmentView:
    """Return what the decision report says for an assessment."""
    return assessment_view(facts_of(*case[:2]))


def test_every_attack_that_ran_says_what_it_does_with_what_and_how_much() -> None:
    (test,) = view_of(examples.violated()).tests
    assert test.title == "Restoring blacked-out values"
    assert test.procedure.startswith("One value of a page is blacked out.")
    assert test.has.startswith("the model’s scores")
    assert test.effort == "150 fields; 128 candidates per word piece; 8 attempts per value"


def test_nothing_is_told_of_attacks_that_did_not_run() -> None:
    assert view_of(examples.skipped()).tests == ()
    assert "No attack ran to its end." in decision(examples.skipped())


def counted(attack: str, metric: str, value: float, total: int) -> examples.Case:
    """A count of an attack over its limit."""
    number = dataclasses.replace(
        examples.mean(metric, value, 1.0, total, 0.0, "chance"), unit="documents", total=total
    )
    limit = Limit(attack, metric, "made up", max=10.0)
    policy = dataclasses.replace(examples.policy(), limits=(limit,))
    result = Result(attack, measurements=(number,))
    return examples.judged(examples.record(result, battery=(attack,)), policy)


def test_documents_that_gave_a_value_back_become_those_because_of_training() -> None:
    facts = facts_of(*counted("reconstruction", "documents_identified", 137.0, 160)[:2])
    (row,) = facts.rows
    returned = ReturnedDocuments(n_member=138, of_member=159, n_heldout=3, of_heldout=160)
    facts = dataclasses.replace(facts, rows=(dataclasses.replace(row, returned=returned),))
    (sentence,) = assessment_view(facts).counts
    assert "159 of 150 training documents hold a value that was tried" in sentence
    assert "138 of them gave one back" in sentence
    assert "3 of 160 did" in sentence
    assert "137 of all are “because of training”" in sentence


def test_values_with_wrong_letters_stand_beside_those_that_came_back_word_for_word() -> None:
    facts = facts_of(*examples.violated()[:2])
    (row,) = facts.rows
    trained = examples.share("pr.member.attack.unique.near", 90, 150)
    exactly = examples.share("pr.member.attack.unique.lowest_loss", 80, 152)
    row = dataclasses.replace(row, trained=trained, word_for_word=exactly, method=".near")
    counts = assessment_view(dataclasses.replace(facts, rows=(row,))).counts
    assert counts[0] == (
        "Restoring blacked-out values: 80 of 152 training values came back word for word. "
        "With a few wrong letters allowed it is 90 of 150, which page one counts."
    )


def test_recognised_documents_stand_beside_the_share_of_pairs() -> None:
    facts = facts_of(*counted("membership", "documents_identified", 158.0, 160)[:2])
    area = counted("membership", "auc", 0.99, 320)[1].decisions[0]
    (row,) = facts.rows
    decisions = (area, *row.decisions)
    facts = dataclasses.replace(
        facts, rows=(dataclasses.replace(row, decisions=decisions, deciding=area),)
    )
    (sentence,) = assessment_view(facts).counts
    assert "158 of 160 score above all but one unseen document" in sentence


def test_means_are_named_only_where_a_leak_is_confirmed() -> None:
    matters = dict(view_of(examples.violated()).matters)
    assert "No live service was asked. The scan took 2 min 31 s (cpu)." in matters["Means"].replace(
        NBSP, " "
    )
    assert "Means" not in dict(view_of(examples.passed()).matters)


def test_the_kinds_that_the_owner_states_stand_beside_those_that_were_tried() -> None:
    record, verdict, _ = examples.violated()
    facts = facts_of(record, verdict)
    kinds = (KindFacts("person", 3, True, of_member=40), KindFacts("code", 0, False))
    stated = dataclasses.replace(record.audit, data_categories=("names", "purchases"))
    record = dataclasses.replace(record, audit=stated)
    facts = dataclasses.replace(facts, record=record, kinds=kinds)
    matters = dict(assessment_view(facts).matters)
    assert matters["Personal data"] == (
        "Stated: “names, purchases”. Tried: people (40). Other kinds were not tested."
    )


def test_a_treatment_names_the_attacks_that_it_is_against() -> None:
    record, verdict, _ = examples.violated()
    action = facts_of(record, verdict).lifting_model[0]
    assert action.against == ("Restoring blacked-out values",)
    assert "Against: Restoring blacked-out values." in decision(examples.violated())


def test_limits_that_the_owner_wrote_are_the_owners() -> None:
    matters = dict(view_of(examples.violated()).matters)
    assert matters["Limits"].startswith("The owner set them")


def test_a_list_of_documents_to_be_forgotten_has_no_assessment() -> None:
    facts = facts_of(*examples.passed()[:2])
    listed = Forgotten(listed=20, sha256="0" * 64, shown={})
    corpus = dataclasses.replace(facts.record.corpus, forgotten=listed)
    record = dataclasses.replace(facts.record, corpus=corpus)
    assert assessment_view(dataclasses.replace(facts, record=record)).matters == ()
