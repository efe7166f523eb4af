"""How numbers are printed."""

from dataclasses import replace

import pytest
from example_records import mean, share
from hypothesis import given
from hypothesis import strategies as st

from audit.measurements import Estimate
from audit.report import numbers

NBSP = numbers.NBSP


def estimate(value: float, low: float, high: float, n: int = 150) -> Estimate:
    return Estimate("x", value, low, high, n, "fields", n, "by hand")


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.62, "62 %"),
        (0.0285, "2.9 %"),
        (0.0042, "0.42 %"),
        (1e-05, "0.0010 %"),
        (1e-09, "under 0.0001 %"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.9996, "99.96 %"),
        (0.0996, "10 %"),
        (-0.012, "−1.2 %"),
    ],
)
def test_a_share_is_printed_as_percent_with_sensible_digits(value: float, printed: str) -> None:
    assert numbers.show(value, "share").replace(NBSP, " ") == printed


@given(st.floats(min_value=1e-12, max_value=1, exclude_max=True))
def test_a_share_that_is_neither_none_nor_all_is_never_printed_as_one_of_them(value: float) -> None:
    number = numbers.bare(value, "share")
    assert number.strip("0.") != ""
    if value < 0.99999:
        assert number != "100"


@given(
    st.floats(min_value=-1e6, max_value=1e6).filter(lambda value: abs(value) >= 1e-3),
    st.integers(2, 4),
)
def test_a_printed_number_is_the_number_to_its_digits(value: float, digits: int) -> None:
    printed = numbers.plain(value, digits).replace(numbers.MINUS, "-").replace(",", "")
    assert float(printed) == pytest.approx(value, rel=10 ** (1 - digits))


def test_the_ends_of_an_interval_share_a_unit_and_are_no_finer_than_needed() -> None:
    assert (
        numbers.interval(estimate(0.62, 0.5494, 0.6911), "share").replace(NBSP, " ") == "55 to 69 %"
    )
    assert (
        numbers.interval(estimate(0.02, 0.0068, 0.057), "share").replace(NBSP, " ")
        == "0.7 to 5.7 %"
    )
    assert (
        numbers.interval(estimate(0.0, -0.0079, 0.0079), "points").replace(NBSP, " ")
        == "−0.79 to 0.79 points"
    )
    assert (
        numbers.interval(estimate(0.01, 0.00003, 0.02), "share").replace(NBSP, " ")
        == "0.003 to 2.0 %"
    )


def area(value: float, low: float, high: float) -> Estimate:
    return replace(estimate(value, low, high), null=0.5, null_kind="chance")


def test_the_ends_of_an_area_have_two_decimals_and_are_rounded_outwards() -> None:
    assert numbers.interval(area(1.0, 0.95, 1.0), "number") == "0.95 to 1.00"
    assert numbers.interval(area(1.0, 0.9119, 1.0), "number") == "0.91 to 1.00"
    assert numbers.interval(area(0.512, 0.3834, 0.6312), "number") == "0.38 to 0.64"
    assert numbers.interval(area(0.71, 0.29, 0.95), "number") == "0.29 to 0.95"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_no_interval_of_an_area_looks_narrower_than_it_is(
    one: float, two: float, three: float
) -> None:
    low, value, high = sorted((one, two, three))
    for form, whole in (("number", 1), ("share", 100)):
        ends = [
            float(text.removeprefix("under\u00a0"))
            for text in numbers.ends(area(value, low, high), form)
        ]
        assert ends[0] <= max(whole * low, numbers.SMALLEST)
        # 100 times 0.14 is a little more than 14.
        assert ends[1] >= whole * high - 1e-9


def test_an_area_wholly_under_chance_is_printed_with_its_mirror_image() -> None:
    under = area(0.17, 0.12, 0.24)
    assert numbers.amount(under, "number") == "0.17, as good as 0.83"
    assert numbers.amount(replace(under, high=0.51), "number") == "0.17"


def test_an_end_is_not_printed_like_the_estimate_from_which_it_differs() -> None:
    assert numbers.interval(area(1.0, 0.9972, 1.0), "number") == "0.99 to 1.00"
    # The value itself is printed as 0.91, which no end may contradict.
    assert numbers.interval(area(0.9146, 0.9142, 0.93), "number") == "0.91 to 0.93"
    assert (
        numbers.interval(estimate(0.31, 0.3071, 0.33), "share").replace(NBSP, " ") == "30.7 to 33 %"
    )
    assert numbers.interval(estimate(1.0, 1.0, 1.0), "share").replace(NBSP, " ") == "100 to 100 %"


@pytest.mark.parametrize("step", [1e-13, 1e-9, 1e-5])
def test_an_end_that_no_digit_tells_from_the_estimate_is_printed_like_it(step: float) -> None:
    count = estimate(-160.0, -160.0 - step, -3.0)
    assert numbers.between(count, "number") == "−160 to −3"


@pytest.mark.parametrize(
    ("value", "digits", "printed"),
    [(-0.02, 2, "0"), (0.4, 2, "0"), (8.2, 2, "8"), (8.2, 3, "8.20"), (1234.4, 2, "1,234")],
)
def test_a_count_is_whole_unless_more_digits_tell_it_from_a_limit(
    value: float, digits: int, printed: str
) -> None:
    assert numbers.bare(value, "count", digits) == printed


def test_a_count_above_its_limit_is_not_printed_like_it() -> None:
    count = estimate(8.2, -0.02, 9.6)
    digits = numbers.distinct_digits(count, 8, "count")
    assert numbers.bare(8.2, "count", digits) != numbers.limit_number(8, "count")
    assert numbers.between(count, "count") == "0 to 10"


def test_words_of_every_hundred_know_no_more_than_a_hundred() -> None:
    assert numbers.between(estimate(0.89, 0.62, 1.13), "points") == "62 to 100"
    assert numbers.between(estimate(-0.9, -1.2, 0.1), "points") == "−100 to 10"
    assert numbers.between(estimate(0.42, 0.36, 0.48), "share") == "36 to 48"


def test_a_share_of_whole_units_is_said_as_a_count() -> None:
    assert numbers.reached(share("pr", 93, 150)) == "93 of 150"
    assert numbers.reached(share("pr", 2500, 5000)) == "2,500 of 5,000"
    assert numbers.reached(estimate(0.6234, 0.5, 0.7)).replace(NBSP, " ") == "62 %"
    assert numbers.exact_count(mean("excess", -0.02, 0.01, 150)) is None


def test_what_differs_from_a_limit_is_not_printed_like_it() -> None:
    over = estimate(0.03, 0.01, 0.05004)
    digits = numbers.distinct_digits(over, 0.05, "points")
    assert numbers.interval(over, "points", digits).replace(NBSP, " ").endswith(" to 5.004 points")
    assert numbers.distinct_digits(estimate(0.05, 0.02, 0.09), 0.05, "points") == 2


def test_limits_are_printed_as_they_were_typed() -> None:
    assert numbers.limit_text(0.05, "points").replace(NBSP, " ") == "5 points"
    assert numbers.limit_text(0.125, "share").replace(NBSP, " ") == "12.5 %"
    assert numbers.limit_text(1.5, "ratio") == "1.5"


def test_times_are_written_for_people_and_unknown_formats_left_alone() -> None:
    assert numbers.moment("2026-03-02T09:17:31+00:00") == "2 March 2026, 09:17 UTC"
    assert numbers.day("2026-03-02T09:17:31") == "2 March 2026"
    assert numbers.moment("last Tuesday") == numbers.day("last Tuesday") == "last Tuesday"
    assert [numbers.duration(value).replace(NBSP, " ") for value in (4.21, 151.4, 7500)] == [
        "4.2 s",
        "2 min 31 s",
        "2 h 5 min",
    ]


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        pytest.param(1 / 160, "share", "0.63 %", id="one of 160"),
        pytest.param(0.405, "points", "41 points", id="half a point"),
        pytest.param(-0.405, "points", "−41 points", id="below zero"),
    ],
)
def test_halves_are_rounded_up_as_readers_round_them(value, form, shown) -> None:
    assert numbers.show(value, form).replace(numbers.NBSP, " ") == shown
