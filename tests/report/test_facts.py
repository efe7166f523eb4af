"""Every number that an output shows is one of the facts, which define it once."""

import dataclasses
import re
from collections.abc import Callable, Iterator

import example_answers as answers
import example_canaries
import example_providers as providers
import example_records as examples
import pytest
from example_records import Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shown_pages import Seen, decision

from audit.attacks.figure_text import Form
from audit.cli import console
from audit.measurements import Count, Coverage, Estimate, Histogram
from audit.policy import Limit, Policy
from audit.record import Result
from audit.report import numbers
from audit.report.decision import decision_view
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import Facts, QuestionFacts
from audit.report.verdicts import Judged, render

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")
IDENTITY = re.compile(r"DA-\S+|\b[0-9a-f]{16,64}\b")
"""The number of a report, and fingerprints of files."""
FORMS: tuple[Form, ...] = ("share", "points", "ratio", "count", "number")
OF_TEMPLATES = {
    "95",
    "5",
    "10",
    "50",
    "100",
    "99",
    "0.50",
    "28",
    "2024",
    "2025",
    "55",
    "22",
    "35",
    "7",
}
"""Levels, chance and numbers of clauses, which the pages state whatever was measured."""
CASES: dict[str, Callable[[], Case]] = {
    **examples.CASES,
    **{f"providers {name}": make for name, make in providers.CASES.items()},
    "answers leaky": answers.leaky,
    "answers clean": answers.clean,
}


def counted(leak: float, n: int) -> Case:
    """A model that gives back so many values, with documents and kinds counted."""
    result = examples.reconstruction(leak, n=n)
    histogram = Histogram(
        "returned",
        "values that came back",
        (-0.5, 0.5, 1.5),
        {"member": (n - round(leak * n), round(leak * n)), "held-out": (n - 1, 1)},
    )
    coverage = (Coverage("all", n, 3 * n, "values"), Coverage("person", n, 3 * n, "values"))
    counts = (*result.counts, Count("returned: person", 7, ""))
    result = dataclasses.replace(result, histograms=(histogram,), coverage=coverage, counts=counts)
    return examples.judged(examples.record(result, documents=2 * n))


def tokens(text: str) -> set[str]:
    """Collect the numbers of a text as they are written, without signs and commas at their ends."""
    text = IDENTITY.sub(" ", text.replace(numbers.NBSP, " ").replace(numbers.MINUS, " "))
    return {token.strip(",") for token in NUMBER.findall(text)}


def texts_of(item: Estimate) -> Iterator[str]:
    """Write a number of the facts in every form and with every count of digits that outputs use."""
    yield f"{item.n:,} {item.clusters:,} {numbers.basis(item)} {numbers.reached(item)}"
    yield f"{item.value:.3f} {item.low:.3f} {item.high:.3f} {item.n} {item.total}"
    if item.null is not None:
        yield from (numbers.show(item.null, form) for form in FORMS)
    for form in FORMS:
        for digits in range(2, 8):
            for number in (item, numbers.cut(item, form)):
                yield numbers.amount(number, form, digits)
                yield numbers.interval(number, form, digits)


def row_in_words(row: QuestionFacts) -> Iterator[str]:
    """Write every number of what one attack found."""
    yield f"{row.n_limits} {row.n_alike} {row.under_bars} {row.bars}"
    if row.returned is not None:
        yield " ".join(f"{count:,}" for count in dataclasses.astuple(row.returned))
    shown = (row.measured, row.trained, row.unseen, row.plainest, row.plainest_unseen)
    for item in filter(None, shown):
        yield from texts_of(item)
    if row.trained is not None and row.trained_without is not None:
        yield from texts_of(dataclasses.replace(row.trained, value=row.trained_without))
    if row.tried is not None:
        yield f"{row.tried.attacked:,} {row.tried.total:,} {row.tried.unique}"


def facts_in_words(facts: Facts) -> Iterator[str]:
    """Write every number of the facts."""
    for row in facts.rows:
        yield from row_in_words(row)
    for people in facts.people:
        if people.trained is not None:
            yield from texts_of(people.trained)
    for kind in facts.kinds:
        yield f"{kind.came_back:,} {kind.of_member} {kind.n_heldout} {kind.of_heldout}"
        if kind.rate is not None:
            yield numbers.show(kind.rate, "share")
    yield from people_in_words(facts)
    yield from access_in_words(facts)
    yield str(sum(kind.came_back for kind in facts.kinds))
    yield f"{len(facts.open)} {len(facts.accepted)} {len(facts.outside)} {len(facts.actions)}"
    for leak in (*facts.accepted, *facts.outside):
        yield from texts_of(leak.measured)
        yield from texts_of(leak.shown)
    yield from limits_in_words(facts)


def access_in_words(facts: Facts) -> Iterator[str]:
    """Write the number of each kind of access."""
    for row in facts.access:
        for cell in row.cells.values():
            if cell.measured is not None:
                yield from texts_of(cell.measured)


def people_in_words(facts: Facts) -> Iterator[str]:
    """Write the shares of people."""
    for people in facts.people:
        for item in filter(None, (people.trained, people.unseen)):
            yield from texts_of(item)


def limits_in_words(facts: Facts) -> Iterator[str]:
    """Write the counts of limits, and each limit with its decision."""
    verdict = facts.verdict
    yield " ".join(str(count) for count in dataclasses.astuple(verdict.counts))
    yield f"{verdict.counts.limits} {verdict.exit_code} {verdict.stamp} {verdict.reason}"
    yield f"{verdict.text_reason} {verdict.contradicted}"
    for registered in verdict.waivers:
        yield registered.sentence
    for limit in verdict.decisions:
        yield f"{limit.reason} {limit.remedy} {limit.count_range} {limit.p_value} {limit.waiver}"
        for bound in filter(None, (limit.limit.max, limit.limit.min, limit.limit.min_power)):
            yield f"{bound:g}"
            yield from (numbers.limit_text(bound, form) for form in FORMS)
        for item in filter(None, (limit.measured, limit.power)):
            yield from texts_of(item)


def cards_in_words(facts: Facts) -> str:
    """Write names, dates and sizes of the record, which are stated and not computed."""
    record = facts.record
    stated = (record.target, record.corpus, record.timing, record.environment, record.audit)
    days = f"{numbers.day(record.timing.finished)} {numbers.duration(record.timing.seconds)}"
    sizes = " ".join(f"{count:,}" for count in record.corpus.documents.values())
    reasons = " ".join(result.why for result in record.results.values())
    return f"{stated} {days} {sizes} {record.seed} {record.budget} {reasons}"


def foreign(text: str, facts: Facts) -> set[str]:
    """Return the numbers of a text that no fact is, and no card of the record states."""
    known = tokens(" ".join(facts_in_words(facts))) | tokens(cards_in_words(facts)) | OF_TEMPLATES
    return tokens(text) - known


def terminal(case: Case, capsys: pytest.CaptureFixture[str]) -> str:
    record, verdict, _ = case
    capsys.readouterr()
    console.show_verdict(verdict, record=record)
    return capsys.readouterr().out


def what_page_one_measures(case: Case) -> str:
    """Return page one without the plan, whose places to fill in and sources are no measurements."""
    page = decision(case).partition("</section>")[0]
    return Seen(re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)).text.partition("What to do")[0]


@pytest.mark.parametrize("name", CASES)
def test_page_one_terminal_and_markdown_show_no_number_but_those_of_the_facts(name, capsys):
    record, verdict, _ = case = CASES[name]()
    facts = facts_of(record, verdict)
    assert foreign(what_page_one_measures(case), facts) == set()
    assert foreign(terminal(case, capsys), facts) == set()
    for form in ("markdown", "comment", "badge"):
        assert foreign(render(form, Judged(record, verdict)), facts) == set(), form


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(leak=st.sampled_from((0.0, 0.03, 0.2, 0.61)), n=st.integers(40, 700))
def test_whatever_leaks_page_one_and_terminal_show_the_same_number(leak, n, capsys):
    record, verdict, _ = case = counted(leak, n)
    facts = facts_of(record, verdict)
    (row,) = facts.rows
    page = what_page_one_measures(case)
    assert foreign(page, facts) == set()
    assert foreign(terminal(case, capsys), facts) == set()
    assert row.returned is not None
    n_member = row.returned.n_member
    n_tried = row.returned.of_member
    counted_documents = f"from {n_member:,} of the {n_tried:,} training documents of which"
    assert row.measured is not None
    # What came back without a leak is no memory, and no list of kinds says so.
    assert (counted_documents in page) is (n_member > 0 and row.measured.low > 0)
    assert row.deciding is not None
    digits = numbers.digits_of(row.deciding, "points")
    assert numbers.amount(row.measured, "points", digits).replace(numbers.NBSP, " ") in page


def test_kinds_and_people_are_those_of_the_method_that_decides():
    record, verdict, _ = examples.divided()
    facts = facts_of(record, verdict)
    (row,) = facts.rows
    assert row.measured is not None
    assert row.measured.name == "excess_pr.unique.lowest_loss"
    assert row.groups["kind"].method == ".lowest_loss"
    assert [dataclasses.astuple(kind) for kind in facts.kinds] == [
        ("person", 37, True, 43, 0, 41),
        ("amount", 2, True, 50, 1, 48),
    ]
    assert facts.kinds[0].rate == pytest.approx(37 / 43)
    (people,) = facts.people
    assert (people.attack, people.recognised, people.declared) == ("reconstruction", False, False)
    assert people.trained is not None
    assert people.trained.value == pytest.approx(37 / 43)


def test_a_record_of_an_older_version_has_kinds_without_a_denominator():
    record, verdict, _ = counted(0.2, 100)
    (person,) = facts_of(record, verdict).kinds
    assert (person.came_back, person.of_member, person.rate) == (7, None, None)
    assert facts_of(record, verdict).people == ()


def changed(result: Result, name: str, value: float) -> Result:
    """Replace the value of a measurement."""
    items = []
    for item in result.measurements:
        if item.name == name and isinstance(item, Estimate):
            item = dataclasses.replace(item, value=value)
        items.append(item)
    return dataclasses.replace(result, measurements=tuple(items))


def by_lot() -> Case:
    """A leak that is the plain difference of both sides, as where a lot drew the split."""
    result = examples.reconstruction(0.6, n=600)
    shares = {item.name: item.value for item in result.measurements if isinstance(item, Estimate)}
    difference = shares["pr.member.attack.unique"] - shares["pr.heldout.attack.unique"]
    leaking = changed(result, "excess_pr.unique", difference)
    return examples.judged(examples.record(leaking, documents=600))


def gain_without_the_model() -> Case:
    """A leak that leaves out a part of the difference: what is gained without the model."""
    result = changed(examples.reconstruction(0.6, n=600), "excess_pr.unique", 0.55)
    return examples.judged(examples.record(result, documents=600))


def answers_back() -> Case:
    """Answers that came back, less what the same questions give without the model."""
    result = changed(answers.memorisation(), "extracted.heldout", 0.2)
    return examples.judged(examples.record(result, documents=125))


@pytest.mark.parametrize(
    ("make", "subtracts", "sentence"),
    [
        pytest.param(
            by_lot,
            "unseen",
            "Leak: the share on training documents less that on unseen ones.",
            id="a lot drew the split",
        ),
        pytest.param(
            gain_without_the_model,
            "both",
            "Leak: the share on training documents less that on unseen ones and what an attacker "
            "gains without this model.",
            id="what is found without the model is taken off",
        ),
        pytest.param(
            answers_back,
            "without",
            "Leak: the share on training documents less that without this model.",
            id="answers of the same questions without the model",
        ),
    ],
)
def test_page_one_says_what_is_taken_off_the_share_on_training_documents(make, subtracts, sentence):
    record, verdict, _ = case = make()
    row = facts_of(record, verdict).rows[0]
    assert row.subtracts == subtracts
    assert sentence in what_page_one_measures(case)


def test_page_one_names_the_row_of_which_a_gain_without_the_model_is_taken_off():
    record, _, policy = gain_without_the_model()
    attacks = (*record.attacks, example_canaries.canaries(0.8))
    record = dataclasses.replace(record, attacks=attacks, battery=("reconstruction", "canaries"))
    facts = facts_of(record, examples.judged(record, policy)[1])
    assert [(row.attack, row.subtracts) for row in facts.rows] == [
        ("reconstruction", "both"),
        ("canaries", "unseen"),
    ]
    leak = (
        "Leak: the share on training documents, in row 1 less that on unseen ones and what an "
        "attacker gains without this model, in row 2 less that on unseen ones."
    )
    assert leak in decision_view(facts).leak


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_keeps_its_counts_apart_from_the_rest_of_its_reason(name):
    verdict = CASES[name]()[1]
    assert verdict.reason_with(verdict.counted) == verdict.reason
    assert ", ".join(verdict.counts.clauses) == verdict.counts.sentence
    for limit in verdict.decisions:
        assert limit.reason.startswith(limit.restates)


def redaction_with_a_limit_on_the_model(counts_text: bool) -> Case:
    """The text reveals kinds over a limit; what the model adds to it is within another one."""
    result = Result(
        "redaction",
        measurements=(
            examples.share("lift_share", 450, 500, 0.0, "chance"),
            examples.mean("target_gain", 0.0, 0.005, 500, 0.0, "chance"),
        ),
        about_text=("lift_share",),
    )
    limits = (
        Limit("redaction", "lift_share", "made up", max=0.2),
        Limit("redaction", "target_gain", "made up", max=0.1),
    )
    policy = Policy(1, "both", limits, text="fail" if counts_text else "report")
    return examples.judged(examples.record(result, battery=("redaction",)), policy)


def test_page_one_shows_what_the_model_adds_where_the_verdict_leaves_the_text_aside() -> None:
    record, verdict, _ = redaction_with_a_limit_on_the_model(counts_text=False)
    facts = facts_of(record, verdict)
    view = decision_view(facts)
    assert [(row.attack, row.outcome) for row in facts.rows_on_model] == [("redaction", "passed")]
    assert [question.word for question in view.questions] == ["Met"]
    assert view.text_note.startswith("1 of 1 limits exceeded.")
    assert "The stamp does not count this." in view.text_note


def test_page_one_shows_the_text_in_its_rows_where_the_verdict_counts_it() -> None:
    record, verdict, _ = redaction_with_a_limit_on_the_model(counts_text=True)
    facts = facts_of(record, verdict)
    assert facts.rows_on_model == facts.rows
    assert [question.word for question in decision_view(facts).questions] == ["Exceeded"]
    assert "The stamp does not count this." not in decision_view(facts).text_note
