"""Lay out the kinds of values that came back, and whose they are, as page one does."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from audit.attacks.text import CATEGORY_LABELS
from audit.report import numbers
from audit.report.facts.definitions import RETURNING, Facts, KindFacts, QuestionFacts, row_of_kinds
from audit.report.labels import LABELS

VALUES = "values_identified"
"""The metric that estimates how many values of all training documents come back."""


@dataclass(frozen=True)
class KindRow:
    """Hold a kind of values that came back: how many, of how many that were tried.

    Attributes:
        share: of the values that were tried, 0 to 1; None where those were not counted.
    """

    label: str
    came_back: str
    percent: str
    share: float | None


def count_kinds(facts: Facts) -> int:
    """Count the kinds of values that came back; 0 where no more came back than without memory."""
    measured = [row.measured for row in facts.rows if row.attack in RETURNING]
    if not any(number is not None and number.low > 0 for number in measured):
        return 0
    return sum(kind.came_back > 0 for kind in facts.kinds)


def kind_rows(facts: Facts, n_rows: int) -> Iterator[KindRow]:
    """Lay out the kinds of values that came back, most of them first; the others are summed up.

    Args:
        facts: what the reports show of the audit.
        n_rows: rows that the page has room for; 0: none.
    """
    if not n_rows:
        return
    came_back = [kind for kind in facts.kinds if kind.came_back]
    n_listed = n_rows if len(came_back) <= n_rows else n_rows - 1
    for kind in came_back[:n_listed]:
        yield _kind_row(kind_label(kind), [kind])
    if len(came_back) > n_listed:
        yield _kind_row("other kinds", came_back[n_listed:])


def kinds_sum(facts: Facts) -> str:
    """Add up the kinds of values, and say on how many documents they stand."""
    words = LABELS["kinds"]
    n_values = sum(kind.came_back for kind in facts.kinds)
    for row in facts.rows:
        if row.returned is None or not row.returned.n_member:
            continue
        returned = asdict(row.returned)
        sentences = [words["documents"].format(n_values=n_values, **returned)]
        sentences += _estimated_sum(row)
        return " ".join(sentences)
    return words["sum"].format(n_values=n_values)


def kinds_on_both_sides(facts: Facts, attack: str) -> str:
    """Say how many values of each kind came back from training and from unseen documents.

    Empty for other attacks than that whose values the kinds count, and where nothing came back.
    """
    row = row_of_kinds(facts.rows)
    if row is None or row.attack != attack or not count_kinds(facts):
        return ""
    words = LABELS["kinds"]
    clauses = []
    for kind in facts.kinds:
        if kind.of_member and kind.n_heldout is not None:
            counts = asdict(kind)
            counts["of_heldout"] = kind.of_heldout or 0
            clauses.append(words["both sides"].format(label=kind_label(kind), **counts))
    if not clauses:
        return ""
    return words["by kind"].format(clauses="; ".join(clauses))


def _estimated_sum(row: QuestionFacts) -> Iterator[str]:
    """Yield how many values would come back of all, where a part of them was tried."""
    counted = row.held_against(VALUES)
    if counted is None or counted.total is None or counted.n >= counted.total:
        return
    yield LABELS["kinds"]["estimate"].format(amount=numbers.amount(counted, "count"))


def people_sentence(facts: Facts) -> str:
    """Say of how many people values came back; empty where no person is known.

    Attacks that pick values from a list or recognise documents are left out: nothing comes back.
    """
    for row in facts.rows:
        if row.attack in RETURNING:
            return _people_reached(facts, row.attack)
    return ""


def _people_reached(facts: Facts, attack: str) -> str:
    """Say of how many people an attack got a value back; empty where no person is known."""
    words = LABELS["kinds"]
    for people in facts.people:
        trained = people.trained
        if people.attack != attack or trained is None:
            continue
        n_people = numbers.exact_count(trained)
        if n_people:
            sentence = words["declared people" if people.declared else "people by name"]
            return sentence.format(n_people=n_people, of_people=trained.n)
    return ""


def _kind_row(label: str, kinds: Sequence[KindFacts]) -> KindRow:
    """Lay out kinds as one row: how many of them came back, of how many that were tried."""
    came_back = sum(kind.came_back for kind in kinds)
    total = sum(kind.of_member or 0 for kind in kinds)
    if not total:
        return KindRow(label, f"{came_back:,}", "", None)
    share = came_back / total
    return KindRow(label, f"{came_back:,} of {total:,}", numbers.show(share, "share"), share)


def kind_label(kind: KindFacts) -> str:
    """Return the label of a category of values; the category itself where it has none."""
    return CATEGORY_LABELS.get(kind.category, kind.category)
