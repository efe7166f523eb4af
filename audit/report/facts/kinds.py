"""Count by kind of value what came back."""

from collections import Counter

from audit.attacks.text import CATEGORY_LABELS
from audit.record import AuditRecord
from audit.report.facts.definitions import KindFacts
from audit.report.facts.questions import RETURNED, returned_histogram


def kinds_of(record: AuditRecord) -> tuple[KindFacts, ...]:
    """Return the kinds of values that came back, most of them first, then those that were tried."""
    came_back = _count_returned_values(record)
    tried = _tried_categories(record)
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
