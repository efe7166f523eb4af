"""Compute what each attack found, by the method that decides its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from audit.attacks import TEXTS, text_of
from audit.attacks.text import Access
from audit.measurements import Breakdown, By, Coverage, Estimate, Histogram, PeopleCount
from audit.policy import Decision, Verdict
from audit.record import AuditRecord, Result
from audit.report.facts.access import needed_access
from audit.report.facts.definitions import (
    DOCUMENTS,
    LEAK_ORDER,
    NEARLY,
    RETURNING,
    WORST_FIRST,
    QuestionFacts,
    ReturnedDocuments,
    Subtracted,
    is_plain_difference,
    leaves_text_aside,
    worst_outcome,
)
from audit.report.facts.scale import scale_of

RETURNED = "returned"
"""The histogram of documents by how many of their values came back, and the first word of counts by
kind."""
LOWEST_LOSS = ".lowest_loss"
"""The end of the names of the same counts without a wrong letter."""


def questions_of(record: AuditRecord, verdict: Verdict) -> tuple[QuestionFacts, ...]:
    """Return what each attack that ran to its end found, the worst first."""
    rows = [_question_of(record, result, verdict) for result in record.completed.values()]
    return tuple(sorted(rows, key=lambda row: LEAK_ORDER.index(row.outcome)))


def questions_on_model(
    record: AuditRecord, verdict: Verdict, rows: tuple[QuestionFacts, ...]
) -> tuple[QuestionFacts, ...]:
    """Return questions as the limits on the model answer them, the worst first.

    An attack on the text of the documents has a row only where a limit on the model has a number.
    """
    if not leaves_text_aside(record, verdict):
        return rows
    on_model = []
    for row in rows:
        if not row.about_text:
            on_model.append(row)
            continue
        decisions = tuple(decision for decision in row.decisions if not decision.about_text)
        deciding = deciding_of(decisions)
        if deciding is not None:
            on_model.append(_without_text(row, decisions, deciding))
    return tuple(sorted(on_model, key=lambda row: LEAK_ORDER.index(row.outcome)))


def _without_text(
    row: QuestionFacts, decisions: tuple[Decision, ...], deciding: Decision
) -> QuestionFacts:
    """Leave out what an attack read from the text alone: limits, and what it found on a side."""
    return replace(
        row,
        outcome=worst_outcome(decisions),
        decisions=decisions,
        deciding=deciding,
        trained=None,
        unseen=None,
        word_for_word=None,
        trained_without=None,
        scale=scale_of(deciding),
        about_text=False,
        adds_to_text=True,
    )


def _question_of(record: AuditRecord, result: Result, verdict: Verdict) -> QuestionFacts:
    """Collect the facts about one attack's result: outcome, deciding number and both sides."""
    decisions = tuple(one for one in verdict.decisions if one.limit.attack == result.attack)
    if worst_outcome(decisions) == "inapplicable":
        # It ran, and gave numbers that no limit is about.
        decisions = ()
    outcome = worst_outcome(decisions)
    deciding = deciding_of(decisions)
    trained, unseen = _sides_of(result, deciding)
    plainest = _plainest_of(result, verdict, trained)
    explained = verdict.settled.confounded(result.attack)
    if outcome in ("violated", "waived"):
        explained = None
    counts = {count.name: count.value for count in result.counts}
    groups = _groups_of(result, deciding)
    return QuestionFacts(
        attack=result.attack,
        outcome=outcome,
        decisions=decisions,
        deciding=deciding,
        access=_access_of(record, result.attack, deciding),
        trained=trained,
        unseen=unseen,
        subtracts=_subtracted(result, deciding, trained, unseen),
        returned=_returned_documents(result, groups),
        leaking=_leaking_documents(result, decisions),
        plainest=plainest,
        plainest_unseen=_on_unseen(result, plainest),
        word_for_word=_word_for_word(result, trained),
        trained_without=_public_share(trained),
        tried=_tried(result),
        scale=scale_of(deciding),
        without_model=_without_model(result, plainest),
        explained=explained,
        under_bars=counts.get("text under the box", 0),
        bars=counts.get("looked at under the box", 0),
        about_text=bool(result.about_text),
        method=_ending_of_sides(result, deciding),
        groups=groups,
        people=_people_of(result, deciding),
    )


def _access_of(record: AuditRecord, attack: str, deciding: Decision | None) -> Access:
    """Return the access to the model that the deciding number of an attack needs."""
    if deciding is None:
        return needed_access(record, attack, None)
    return needed_access(record, attack, deciding.measured)


def deciding_of(decisions: tuple[Decision, ...]) -> Decision | None:
    """Return the first of the worst decisions on an attack for which there is a number."""
    measured = [decision for decision in decisions if decision.measured is not None]
    return min(measured, key=lambda decision: WORST_FIRST.index(decision.outcome), default=None)


def deciding_numbers(verdict: Verdict | None) -> dict[tuple[str, str], Estimate]:
    """Return the number that decides each limit by attack and metric, under the metric's name.

    It is that of the method that decides, whatever the method.
    """
    if verdict is None:
        return {}
    deciding = {}
    for decision in verdict.decisions:
        limit = decision.limit
        if decision.measured is not None:
            deciding[limit.attack, limit.metric] = replace(decision.measured, name=limit.metric)
    return deciding


def _plainest_of(result: Result, verdict: Verdict, trained: Estimate | None) -> Estimate | None:
    """Return the number that says most plainly what an attack found, by the method that decides.

    That is the share that it reached on training documents where it finds values, else what sums it
    up.
    """
    text = TEXTS.get(result.attack)
    if text is not None and text.found and trained is not None:
        return trained
    estimates = _estimates_of(result)
    for (attack, metric), measured in deciding_numbers(verdict).items():
        if attack == result.attack:
            estimates[metric] = measured
    names = list(text_of(result.attack).names)
    if text is not None:
        names = [text.found, *text.trend.summary.values(), *names]
    for name in names:
        if name in estimates:
            return estimates[name]
    return None


def _estimates_of(result: Result) -> dict[str, Estimate]:
    """Return the measurements of a result that have a value, by name."""
    return {item.name: item for item in result.measurements if isinstance(item, Estimate)}


def _sides_of(result: Result, deciding: Decision | None) -> tuple[Estimate | None, Estimate | None]:
    """Return what the attack reached on both sides, training first, by the method that decides."""
    method = _method_of(deciding)
    estimates = _estimates_of(result)
    sides = []
    for name in text_of(result.attack).consequence_of:
        side = estimates.get(f"{name}{method}", estimates.get(name))
        if side is not None:
            sides.append(side)
    trained = sides[0] if sides else None
    unseen = sides[1] if len(sides) > 1 else None
    return trained, unseen


def _word_for_word(result: Result, trained: Estimate | None) -> Estimate | None:
    """Return the share of the lowest loss where a few wrong letters are allowed to it."""
    if trained is None or not trained.name.endswith(NEARLY):
        return None
    return _estimates_of(result).get(f"{trained.name.removesuffix(NEARLY)}{LOWEST_LOSS}")


def _ending_of_sides(result: Result, deciding: Decision | None) -> str:
    """Return the method's end of the names of the sides' measurements; see `_sides_of`."""
    method = _method_of(deciding)
    estimates = _estimates_of(result)
    sides = text_of(result.attack).consequence_of
    if any(f"{name}{method}" in estimates for name in sides):
        return method
    return ""


def _groups_of(result: Result, deciding: Decision | None) -> dict[By, Breakdown]:
    """Return the result's groups by the method that decides."""
    method = _ending_of_sides(result, deciding)
    return {groups.by: groups for groups in result.breakdowns if groups.method == method}


def _people_of(result: Result, deciding: Decision | None) -> PeopleCount | None:
    """Return the people that the method that decides reached; None where no person is known."""
    method = _ending_of_sides(result, deciding)
    by_method = {people.method: people for people in result.people}
    return by_method.get(method)


def _subtracted(
    result: Result, deciding: Decision | None, trained: Estimate | None, unseen: Estimate | None
) -> Subtracted | None:
    """Tell what leaks by the deciding method leave out of the share on training documents.

    Where a lot drew the split an attack takes off what is found without the model only if that
    makes the difference more exact. None where no leak is a difference.
    """
    if trained is None or unseen is None:
        return None
    differences = _differences_of(result, deciding)
    if not differences:
        return None
    if any(is_plain_difference(leak, trained, unseen) for leak in differences):
        return "unseen"
    without = _public_share(trained)
    if without is not None:
        on_same_pages = replace(trained, value=without)
        if any(is_plain_difference(leak, trained, on_same_pages) for leak in differences):
            return "without"
    return "both"


def _differences_of(result: Result, deciding: Decision | None) -> list[Estimate]:
    """List the leaks in points by the deciding method."""
    method = _method_of(deciding)
    text = text_of(result.attack)
    differences = []
    for metric in text.names:
        leak = _estimates_of(result).get(f"{metric}{method}")
        if leak is not None and text.metric(metric).form == "points":
            differences.append(leak)
    return differences


def _method_of(deciding: Decision | None) -> str:
    """Return the end of a decision's measurement name, which stands for the method.

    Empty for the first one.
    """
    if deciding is None or deciding.measured is None:
        return ""
    return deciding.measured.name.removeprefix(deciding.limit.metric)


def _on_unseen(result: Result, measured: Estimate | None) -> Estimate | None:
    """Return a share's measurement on unseen documents; None for no share, or without one."""
    if measured is None or not _is_share(result, measured):
        return None
    name = measured.name.replace(".member", ".heldout")
    if name == measured.name:
        return None
    return _estimates_of(result).get(name)


def _without_model(result: Result, measured: Estimate | None) -> float | None:
    """Return what someone without the model reaches of a share.

    None where the share is not compared with that.
    """
    if measured is None or not _is_share(result, measured):
        return None
    return _public_share(measured)


def _public_share(measured: Estimate | None) -> float | None:
    """Return what a public model reaches of a share; None where it is not compared with one."""
    if measured is None or measured.null_kind != "public model":
        return None
    return measured.null


def _tried(result: Result) -> Coverage | None:
    """Return how much of what the training documents hold an attack tried; None without a count."""
    for coverage in result.coverage:
        if coverage.category == "all":
            return coverage
    return None


def _is_share(result: Result, measured: Estimate) -> bool:
    """Test whether the attack's texts call a measurement a share of units."""
    text = TEXTS.get(result.attack)
    return text is not None and text.metric(measured.name).form == "share"


def _returned_documents(result: Result, groups: Mapping[By, Breakdown]) -> ReturnedDocuments | None:
    """Count documents that gave back values of their own; None where nothing counts both sides.

    Records of older versions count them by the method that got most of them.
    """
    if result.attack not in RETURNING:
        return None
    if "documents" in groups:
        return _documents_with_hits(groups["documents"])
    histogram = returned_histogram(result)
    if histogram is None or not {"member", "held-out"} <= set(histogram.counts):
        return None
    member = histogram.counts["member"]
    heldout = histogram.counts["held-out"]
    return ReturnedDocuments(
        n_member=sum(member[1:]),
        of_member=sum(member),
        n_heldout=sum(heldout[1:]),
        of_heldout=sum(heldout),
    )


def _leaking_documents(result: Result, decisions: tuple[Decision, ...]) -> ReturnedDocuments | None:
    """Count the documents of both sides that the count of leaking documents compares.

    That count has a method of its own: the one by which most documents leak for certain.
    """
    for decision in decisions:
        counted = decision.measured
        if decision.limit.metric != DOCUMENTS or counted is None:
            continue
        method = counted.name.removeprefix(DOCUMENTS)
        for groups in result.breakdowns:
            if groups.by == "documents" and groups.method == method:
                documents = _documents_with_hits(groups)
                if documents is not None and documents.of_member == counted.n:
                    return documents
    return None


def _documents_with_hits(documents: Breakdown) -> ReturnedDocuments | None:
    """Count documents by whether any value came back, of those divided by how many did."""
    if not documents.groups:
        return None
    member = documents.groups[0].member
    heldout = documents.groups[0].heldout
    return ReturnedDocuments(
        n_member=member.tried - round(member.hits),
        of_member=member.tried,
        n_heldout=heldout.tried - round(heldout.hits),
        of_heldout=heldout.tried,
    )


def returned_histogram(result: Result) -> Histogram | None:
    """Return the histogram of documents by how many of their values came back; None without one."""
    for histogram in result.histograms:
        if histogram.name == RETURNED:
            return histogram
    return None
