"""The recount of printed numbers: what it accounts for, and its intervals."""

import numpy as np
import pytest

from audit.stats import intervals, roc
from benchmarks.tools import recount_intervals
from benchmarks.tools.recount_claims import Expected, Sheet


def test_a_number_that_nobody_recomputes_is_unlisted() -> None:
    sheet = Sheet("page 1", "It got 19 of 40 answers.\nA new sentence counts 7 documents.")

    expected = [Expected(19), Expected(40)]
    sheet.compare_pattern(r"got \d+ of \d+", "answers given, of those asked for", expected)

    recounted, unlisted = sheet.close()
    assert recounted.state == "equal"
    assert unlisted.state == "unlisted"
    assert unlisted.printed == "7"


@pytest.mark.parametrize(
    ("printed", "value", "state"),
    [
        ("48 %", 47.5, "equal"),
        ("48 %", 47.4, "unequal"),
        ("1,280 values", 1280, "equal"),
        ("−4 points", -4.3, "equal"),
        ("1.1 %", 1.16, "unequal"),
    ],
)
def test_a_number_is_compared_to_its_last_printed_digit(
    printed: str, value: float, state: str
) -> None:
    sheet = Sheet("page 1", printed)

    sheet.compare(0, len(printed), "a number", [Expected(value)])

    (number,) = sheet.close()
    assert number.state == state


def test_resampling_may_move_an_end_by_its_slack_alone() -> None:
    sheet = Sheet("page 1", "from 52 to 72")

    sheet.compare(0, len(sheet.text), "ends", [Expected(53.5, slack=2), Expected(72.4, slack=2)])

    (number,) = sheet.close()
    assert number.state == "near"


def test_intervals_of_shares_and_areas_are_those_of_the_reports() -> None:
    rng = np.random.default_rng(3)
    documents = rng.integers(30, size=200)
    hits = rng.random(200) < 0.2 + 0.3 * (documents % 2)
    members = rng.normal(0.0, 1.0, 60)
    strangers = rng.normal(1.0, 1.0, 50)

    names = list(documents.astype(str))

    share = recount_intervals.korn_graubard(hits.astype(float), names)
    value, ends = recount_intervals.area(list(members), list(strangers))

    expected = intervals.proportion(hits, documents)
    assert share == pytest.approx((expected.low, expected.high))
    area = roc.auc_interval(-members, -strangers)
    assert (value, ends.low, ends.high) == pytest.approx((area.value, area.low, area.high))
