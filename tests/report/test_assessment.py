"""How an audit was run, how its counts fit, and what an assessment of the risk takes from it."""

import dataclasses

import example_records as examples
import pytest
from shown_pages import decision

from audit.cards import Forgotten
from audit.measurements import Breakdown, Group, Share
from audit.policy import Limit
from audit.record import Result
from audit.report.assessment import AssessmentView, CountRow, assessment_view
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
    assert test.effort.startswith("150 fields; 128 candidates of the public model per word piece")
    assert test.effort.endswith("; 8 attempts per value (counted: the first)")


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
    leaking = ReturnedDocuments(n_member=138, of_member=159, n_heldout=3, of_heldout=160)
    facts = dataclasses.replace(facts, rows=(dataclasses.replace(row, leaking=leaking),))
    view = assessment_view(facts)
    (group,) = view.counts
    assert group.title == "Restoring blacked-out values"
    assert group.rows == (CountRow("documents", "138 of 159", "3 of 160", "137 of 160"),)
    assert view.count_notes[0].startswith("Of documents, training less unseen")


def test_values_with_wrong_letters_stand_beside_those_that_came_back_word_for_word() -> None:
    facts = facts_of(*examples.violated()[:2])
    (row,) = facts.rows
    trained = examples.share("pr.member.attack.unique.near", 90, 150)
    exactly = examples.share("pr.member.attack.unique.lowest_loss", 80, 152)
    row = dataclasses.replace(row, trained=trained, word_for_word=exactly, method=".near")
    (group,) = assessment_view(dataclasses.replace(facts, rows=(row,))).counts
    word_for_word, nearly = group.rows
    assert word_for_word == CountRow("word for word", "80 of 152", "–", "–")
    assert nearly.counted == "nearly right (page one)"
    assert nearly.training == "90 of 150"


def test_recognised_documents_stand_beside_the_share_of_pairs() -> None:
    facts = facts_of(*counted("membership", "documents_identified", 158.0, 160)[:2])
    area = counted("membership", "auc", 0.99, 320)[1].decisions[0]
    (row,) = facts.rows
    decisions = (area, *row.decisions)
    facts = dataclasses.replace(
        facts, rows=(dataclasses.replace(row, decisions=decisions, deciding=area),)
    )
    view = assessment_view(facts)
    (group,) = view.counts
    assert group.rows == (CountRow("documents", "–", "–", "158 of 160"),)
    assert view.count_notes[-1].startswith(
        "A recognised document scores above all but one unseen one"
    )


def test_counts_say_that_each_attack_draws_its_own_values_only_where_several_count_some() -> None:
    assert "Each attack draws its own values." not in view_of(examples.violated()).count_notes


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


def test_one_count_alone_is_no_table() -> None:
    assert not view_of(examples.violated()).reconciles
    assert "How the counts fit together" not in decision(examples.violated())


def returned_by(method: str, hits: int, unseen: int) -> Breakdown:
    """Return a division of 160 documents a side by whether a value came back."""
    none = Group("0", Share(160 - hits, 160), Share(160 - unseen, 160))
    some = Group("1", Share(hits, 160), Share(unseen, 160))
    return Breakdown("documents", method, "documents", (none, some))


def test_documents_of_both_sides_are_those_of_the_method_that_counts_them() -> None:
    """Page one counts values by one method, and documents leak for certain by another."""
    names = ("documents_identified", "documents_identified.lowest_loss")
    numbers = []
    for name, value in zip(names, (120.0, 156.0), strict=True):
        number = examples.mean(name, value, 1.0, 160, 0.0, "chance")
        numbers.append(dataclasses.replace(number, unit="documents", total=160))
    limit = Limit("reconstruction", "documents_identified", "made up", max=10.0)
    result = Result(
        "reconstruction",
        measurements=tuple(numbers),
        methods={"documents_identified": names},
        breakdowns=(returned_by(".near", 157, 5), returned_by(".lowest_loss", 156, 1)),
    )
    policy = dataclasses.replace(examples.policy(), limits=(limit,))
    record = examples.record(result, battery=("reconstruction",))
    (group,) = view_of(examples.judged(record, policy)).counts
    assert group.rows == (CountRow("documents", "156 of 160", "1 of 160", "156 of 160"),)


def test_values_that_training_never_named_are_said_to_count() -> None:
    """The count of values covers more than page one, where training named a part of them."""
    facts = facts_of(*counted("attribute_inference", "values_identified", 54.0, 161)[:2])
    (row,) = facts.rows
    trained = examples.share("chosen.member.unique", 37, 41)
    facts = dataclasses.replace(facts, rows=(dataclasses.replace(row, trained=trained),))
    view = assessment_view(facts)
    (group,) = view.counts
    assert group.rows[-1].counted == "and never named ones"
    assert "Never named: in no label or question of the training." in view.count_notes
