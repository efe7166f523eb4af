"""Count by kind of value what came back."""

from collections import Counter
from collections.abc import Sequence

from audit.attacks.text import CATEGORY_LABELS
from audit.measurements import Breakdown, Group
from audit.record import AuditRecord
from audit.report.facts.definitions import KindFacts, QuestionFacts, row_of_kinds
from audit.report.facts.questions import RETURNED, returned_histogram


def kinds_of(record: AuditRecord, rows: Sequence[QuestionFacts]) -> tuple[KindFacts, ...]:
    """Return the kinds of values that came back, most of them first, then those that were tried.

    Args:
        record: the scan.
        rows: what each attack found; the first that gives values back counts.
    """
    tried = _tried_categories(record)
    divided = _division_by_kind(rows)
    if divided is None:
        return _kinds_of_older_record(record, tried)
    groups = sorted(divided.groups, key=lambda group: (-group.member.hits, group.name))
    kinds = [_kind_of(group) for group in groups]
    divided_kinds = {group.name for group in groups}
    kinds += [KindFacts(category, 0, True) for category in tried if category not in divided_kinds]
    return tuple(kinds)


def _division_by_kind(rows: Sequence[QuestionFacts]) -> Breakdown | None:
    """Return the kinds of values of the first row that gives values back; None without one."""
    row = row_of_kinds(rows)
    return None if row is None else row.groups["kind"]


def _kind_of(group: Group) -> KindFacts:
    """Return a kind of values with its counts on both sides."""
    return KindFacts(
        category=group.name,
        came_back=round(group.member.hits),
        tried=True,
        of_member=group.member.tried,
        n_heldout=round(group.heldout.hits),
        of_heldout=group.heldout.tried,
    )


def _kinds_of_older_record(record: AuditRecord, tried: Sequence[str]) -> tuple[KindFacts, ...]:
    """Return the kinds of a record whose attacks divide no values: what came back of each."""
    came_back = _count_returned_values(record)
    ranked = sorted(came_back, key=lambda category: (-came_back[category], category))
    categories = dict.fromkeys([*ranked, *tried])
    return tuple(
        KindFacts(category, came_back[category], category in tried) for category in categories
    )


def nothing_returned(record: AuditRecord) -> bool:
    """Tell whether documents were counted by how many of their values came back, and none did."""
    histograms = [returned_histogram(result) for result in record.completed.values()]
    counted = [histogram for histogram in histograms if histogram is not None]
    return bool(counted) and not any(sum(one.counts.get("member", ())[1:]) for one in counted)


def _count_returned_values(record: AuditRecord) -> Counter[str]:
    """Count the values of training documents that came back, by category."""
    came_back: Counter[str] = Counter()
    for result in record.completed.values():
        for count in result.counts:
            first_word, _, category = count.name.partition(": ")
            if first_word == RETURNED and category and count.value:
                came_back[category] += count.value
    return came_back


def _tried_categories(record: AuditRecord) -> list[str]:
    """List the categories of which any attack tried a value, as readers know them."""
    tried: dict[str, None] = {}
    for result in record.completed.values():
        for row in result.coverage:
            if row.category in CATEGORY_LABELS and row.attacked:
                tried[row.category] = None
    return list(tried)
