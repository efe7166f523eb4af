"""Who can do it: what is shown, not shown and not tested, by the attacker's access to the model."""

import dataclasses
import json

import example_answers as answers
import example_records as examples
import pytest
from example_records import Case, gone
from shown_pages import Seen, decision, page_one

from audit.attacks.text import Access
from audit.cards import SERVED, AuditSheet
from audit.measurements import Estimate
from audit.policy import Limit
from audit.record import Result
from audit.report.access import access_view
from audit.report.facts.attackers import AccessRow, Release, ReleaseFacts
from audit.report.facts.build import facts_of
from audit.report.html import html
from audit.report.markdown import dpia
from audit.report.verdicts import Judged, render

pytestmark = pytest.mark.usefixtures("undrawn")


def row_of(case: Case, attack: str) -> AccessRow:
    """Return the row of an attack."""
    for row in facts_of(*case[:2]).access:
        if row.attack == attack:
            return row
    raise AssertionError(attack)


def states(case: Case, attack: str) -> list[str]:
    """Return the states of an attack's row, most access first."""
    return [cell.state for cell in row_of(case, attack).cells.values()]


def release_of(case: Case, name: Release) -> ReleaseFacts:
    """Return what follows for one kind of release."""
    for line in facts_of(*case[:2]).releases:
        if line.release == name:
            return line
    raise AssertionError(name)


def served(case: Case) -> Case:
    """The same record of a model behind a server, which gave answers alone."""
    record, _, policy = case
    target = dataclasses.replace(record.target, family=SERVED)
    return examples.judged(dataclasses.replace(record, target=target), policy)


def providers(azk: float, apk: float) -> Case:
    """Companies sorted by answers alone, and by scores."""

    def sorted_rightly(name: str, value: float) -> Estimate:
        return examples.mean(f"balanced_accuracy{name}", value, 0.02, 600, 0.5, "chance")

    result = Result(
        "provider_membership",
        measurements=(
            sorted_rightly("", apk),
            sorted_rightly(".azk", azk),
            sorted_rightly(".apk", apk),
        ),
        methods={"balanced_accuracy": ("balanced_accuracy.azk", "balanced_accuracy.apk")},
    )
    limit = Limit("provider_membership", "balanced_accuracy", "made up", max=0.6)
    policy = dataclasses.replace(examples.policy(), limits=(limit,))
    return examples.judged(examples.record(result, battery=("provider_membership",)), policy)


def lowest_loss(task: str) -> Case:
    """Values that the lowest loss restores more often than the published rule."""
    published = examples.reconstruction(0.6)
    lowest = examples.mean("excess_pr.unique.lowest_loss", 0.7, 0.02, 300, 0.0, "held-out")
    result = dataclasses.replace(
        published,
        measurements=(*published.measurements, lowest),
        methods={"excess_pr.unique": ("excess_pr.unique", lowest.name)},
    )
    record = examples.record(result)
    record = dataclasses.replace(record, target=dataclasses.replace(record.target, task=task))
    limit = Limit("reconstruction", "excess_pr.unique", "made up", max=0.65)
    return examples.judged(record, dataclasses.replace(examples.policy(), limits=(limit,)))


def text_alone() -> Case:
    """A leak of the text under the bars, and no number on the model."""
    result = Result(
        "redaction",
        measurements=(examples.share("lift_share", 90, 100, 0.0, "chance"),),
        about_text=("lift_share",),
    )
    limit = Limit("redaction", "lift_share", "made up", max=0.2)
    policy = dataclasses.replace(examples.policy(), limits=(limit,))
    return examples.judged(examples.record(result, battery=("redaction",)), policy)


def test_a_leak_by_scores_is_shown_for_scores_and_file_and_not_tested_by_answers() -> None:
    case = examples.violated()
    assert states(case, "reconstruction") == ["shown", "shown", "not tested", "needs the model"]
    cell = row_of(case, "reconstruction").cells["scores"]
    assert cell.measured is not None
    assert cell.measured.name == "excess_pr.unique"
    assert cell.outcome == "violated"


def test_what_was_met_is_not_shown() -> None:
    case = examples.passed()
    assert states(case, "reconstruction")[:2] == ["not shown", "not shown"]
    assert row_of(case, "reconstruction").cells["weights"].outcome == "passed"


def test_what_is_undecided_is_not_shown_and_says_so() -> None:
    cell = row_of(examples.wide(), "reconstruction").cells["weights"]
    assert (cell.state, cell.outcome) == ("not shown", "undecided")
    (row,) = access_view(facts_of(*examples.wide()[:2])).rows
    assert row.cells[0].word == "Undecided"


def test_answers_that_come_back_are_shown_whoever_has_more() -> None:
    case = answers.leaky()
    assert states(case, "memorisation")[:3] == ["shown", "shown", "shown"]


@pytest.mark.parametrize(
    ("azk", "expected"),
    [
        (0.9, ["shown", "shown", "shown", "needs the model"]),
        (0.5, ["shown", "shown", "not shown", "needs the model"]),
    ],
)
def test_each_method_counts_for_the_access_that_it_needs(azk: float, expected: list[str]) -> None:
    assert states(providers(azk, 0.9), "provider_membership") == expected


@pytest.mark.parametrize(
    ("task", "by_answers", "holder"),
    [
        ("mlm", "shown", "Someone with this model’s answers"),
        ("token-classification", "not tested", "Someone with this model’s scores"),
    ],
)
def test_the_likeliest_word_of_a_masked_model_is_an_answer(
    task: str, by_answers: str, holder: str
) -> None:
    case = lowest_loss(task)
    assert states(case, "reconstruction") == ["shown", "shown", by_answers, "needs the model"]
    assert holder in page_one(case)


def test_page_one_says_which_row_needs_what() -> None:
    page = page_one(answers.leaky())
    assert "Row 1 needs answers alone, row 2 needs scores." in page


def test_a_server_that_gave_answers_alone_says_nothing_of_the_file() -> None:
    case = served(providers(0.5, 0.5))
    assert states(case, "provider_membership")[:3] == ["not tested", "not tested", "not shown"]


def test_a_leak_of_the_text_needs_no_model() -> None:
    assert states(text_alone(), "redaction") == ["shown"] * 4


@pytest.mark.parametrize("release", ["internal", "hosted", "shared"])
def test_a_leak_of_redacted_copies_is_no_reason_against_a_release(release: Release) -> None:
    facts = release_of(text_alone(), release)
    assert (facts.shown, facts.exceeded) == ((), ())


def test_an_attack_that_did_not_run_is_tested_for_nobody() -> None:
    case = examples.skipped()
    expected = ["not tested", "not tested", "not tested", "needs the model"]
    assert states(case, "reconstruction") == expected
    assert row_of(case, "reconstruction").reason == "no public language model"


def test_an_attack_that_cannot_apply_to_the_model_has_no_row() -> None:
    assert facts_of(*examples.inapplicable()[:2]).access == ()


def test_an_attack_of_somebody_else_that_declares_nothing_needs_the_file() -> None:
    result = Result("loss_gap", measurements=(examples.mean("gap", 0.2, 0.01, 40, 0.0, "chance"),))
    limit = Limit("loss_gap", "gap", "made up", max=0.1)
    policy = dataclasses.replace(examples.policy(), limits=(limit,))
    case = examples.judged(examples.record(result, battery=("loss_gap",)), policy)
    expected = ["shown", "not tested", "not tested", "needs the model"]
    assert states(case, "loss_gap") == expected


def test_each_release_says_which_questions_are_shown_and_which_were_not_tested() -> None:
    case = examples.violated()
    shared = release_of(case, "shared")
    assert shared.shown == ("reconstruction",)
    assert shared.n_exceeded == sum(item.outcome == "violated" for item in case[1].decisions)
    hosted = release_of(case, "hosted")
    assert hosted.shown == ()
    assert hosted.n_exceeded == 0
    assert hosted.with_scores == ("reconstruction",)
    assert hosted.not_tested == ("reconstruction",)
    assert release_of(case, "internal").shown == ("reconstruction",)


def test_a_gap_leaves_every_release_open() -> None:
    record, _, policy = examples.passed()
    skipped = gone("memorisation", "skipped", "missing", "no baseline", "")
    whole = dataclasses.replace(record, attacks=(*record.attacks, skipped))
    case = examples.judged(whole, policy)
    access: Access = "weights"
    assert row_of(case, "memorisation").cells[access].state == "not tested"
    assert release_of(case, "shared").not_tested == ("memorisation",)


def test_every_output_says_who_can_do_it() -> None:
    case = answers.leaky()
    shown = "Users who get answers alone can: get an answer that was removed from the page."
    assert shown in Seen(decision(case)).text
    assert shown in Seen(html(*case)).text
    assert shown in render("markdown", Judged(*case[:2]))
    assert shown in dpia(*case)


@pytest.mark.parametrize("stated", ["internal", "api", "open-weights"])
def test_the_release_that_the_owner_states_is_marked_once(stated: str) -> None:
    record, _, policy = answers.leaky()
    sheet = AuditSheet(release=stated)  # type: ignore[arg-type]
    case = examples.judged(dataclasses.replace(record, audit=sheet), policy)
    assert Seen(decision(case)).text.count("This is the release that the owner states.") == 1


def test_the_json_verdict_holds_the_table_and_the_releases() -> None:
    content = json.loads(render("json", Judged(*answers.leaky()[:2])))
    (entry,) = [
        item
        for item in content["access"]
        if (item["attack"], item["access"]) == ("membership", "answers")
    ]
    assert (entry["state"], entry["outcome"]) == ("not tested", None)
    hosted = content["releases"][1]
    assert (hosted["release"], hosted["shown"]) == ("hosted", ["memorisation"])
    assert hosted["with_scores"] == ["membership"]


def test_a_leak_that_is_waived_or_not_limited_is_shown_and_left_to_the_reader() -> None:
    assert release_of(examples.violated(), "shared").exceeded == ("reconstruction",)
    case = examples.waived()
    shared = release_of(case, "shared")
    assert (shared.shown, shared.exceeded) == (("reconstruction",), ())
    text = Seen(decision(case)).text
    assert "decide whether you accept it." in text
    assert "Do not hand it out." not in text


def test_page_one_does_not_count_a_single_exceeded_limit() -> None:
    record, _, policy = lowest_loss("mlm")
    sheet = AuditSheet(release="api")
    case = examples.judged(dataclasses.replace(record, audit=sheet), policy)
    assert release_of(case, "hosted").n_exceeded == 1
    assert "Answers alone are enough for the exceeded limit" in page_one(case)
