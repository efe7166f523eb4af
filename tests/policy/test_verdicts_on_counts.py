"""The verdict on a count, and on what was tried of all fields: every way that it can end."""

from dataclasses import replace

import pytest
from judged import (
    METHODS,
    PLENTY,
    SAFE,
    completed,
    counted,
    limit,
    measured,
)
from verdict_cases import check_ending, ends, judging

from audit.measurements import Coverage

COVERED = (Coverage("all", 32, 100), Coverage("location", 3, 100), Coverage("amount", 60, 100))
UNIQUE = completed(
    measured("leak.unique", -0.01, 0.01), coverage=(Coverage("all", 90, 100, unique=20),)
)
TENTH = limit(max=10.0, holds="estimate")
OLDER_TENTH = limit(max=10.0, holds="lower")


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # On real receipts 18 of 623 addresses were tried, and "passed" did not say so.
        pytest.param(
            judging(completed(SAFE, coverage=COVERED), on=(limit(min_coverage=0.3),)),
            ends(
                0,
                "passed",
                words=(
                    "for 32 of 100 fields in training documents; "
                    "only 3 of 100 of category location",
                ),
            ),
            id="covered",
        ),
        pytest.param(
            judging(completed(SAFE, coverage=COVERED), on=(limit(min_coverage=0.4),)),
            ends(
                11,
                "undecided",
                words=(
                    "(uncovered)",
                    "all: 32 of 100 fields",
                ),
            ),
            id="uncovered",
        ),
        pytest.param(
            judging(completed(SAFE, coverage=COVERED), on=(limit(min_category_coverage=0.03),)),
            ends(0, "passed"),
            id="category covered",
        ),
        pytest.param(
            judging(completed(SAFE, coverage=COVERED), on=(limit(min_category_coverage=0.1),)),
            ends(11, "undecided", words=("(location: 3 of 100 fields); the policy asks for 10%",)),
            id="category uncovered",
        ),
        pytest.param(
            judging(completed(SAFE), on=(limit(min_coverage=0.1),)),
            ends(11, "undecided", words=("(uncovered)",)),
            id="coverage not recorded",
        ),
        pytest.param(
            judging(UNIQUE, on=(limit("leak.unique", min_coverage=0.3),)),
            ends(
                11,
                "undecided",
                words=(
                    "(uncovered)",
                    "all: 20 of 100 fields",
                    "--budget full",
                ),
            ),
            id="unique values uncovered",
        ),
        pytest.param(
            judging(UNIQUE, on=(limit("leak.unique", min_coverage=0.2),)),
            ends(0, "passed", words=("for 20 of 100 fields",)),
            id="unique values covered",
        ),
    ],
)
def test_a_pass_asks_for_coverage(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # 168 answers of 4,654 are a share of 3.6 %, and 100 people.
        pytest.param(
            judging(counted(4654, 60, 160), on=(TENTH,)), ends(10, "violated"), id="count over"
        ),
        pytest.param(
            judging(counted(4654, 0, 18.5), on=(TENTH,)),
            ends(
                0,
                "passed",
                words=("the estimate is within the limit; between 0 and 19",),
            ),
            id="count within",
        ),
        pytest.param(
            judging(counted(4654, 2, 18), on=(TENTH,)),
            ends(0, "passed", words=("between 2 and 18",)),
            id="count at its limit",
        ),
        pytest.param(
            judging(counted(4654, 2, 40), on=(TENTH,), documents=PLENTY),
            ends(
                11,
                "undecided",
                words=(
                    "(wide) the estimate is over the limit, but no leak above it is confirmed; "
                    "between 2 and 40",
                    "-> add documents",
                ),
                warned=0,
            ),
            id="count over, not confirmed",
        ),
        pytest.param(
            judging(counted(4654, 2, 40), on=(OLDER_TENTH,)),
            ends(11, "undecided", words=("and 40",), warned=0),
            id="count under a policy of an older version",
        ),
        pytest.param(
            judging(counted(4654, 2, 40), on=(TENTH,), documents=PLENTY, share=0.25),
            ends(
                11,
                "undecided",
                words=(
                    "(wide) the estimate is over",
                    "-> rerun without --budget quick",
                ),
                warned=0,
            ),
            id="count over, a part tried",
        ),
        pytest.param(
            judging(
                completed(
                    measured("leak", 0, 4, 4654),
                    measured("leak.strong", 2, 40, 4654),
                    methods=METHODS,
                ),
                on=(TENTH,),
            ),
            ends(11, "undecided", words=("between 2 and 40",), warned=0),
            id="count of which one method is over",
        ),
        pytest.param(
            judging(counted(10), on=(replace(TENTH, required=False),)),
            ends(11, "not run", words=("only 10 values: the count cannot exceed 10",)),
            id="count that could not exceed its limit",
        ),
        pytest.param(
            judging(counted(11), on=(replace(TENTH, required=False),)),
            ends(0, "passed"),
            id="count that could",
        ),
        pytest.param(
            judging(counted(10), on=(TENTH,)),
            ends(11, "undecided", words=("(unresolved)",), warned=0),
            id="required count that could not",
        ),
        pytest.param(
            judging(counted(10), on=(replace(TENTH, holds="interval"),)),
            ends(11, "undecided", words=("the count cannot exceed 10",), warned=0),
            id="count by its interval that could not",
        ),
    ],
)
def test_a_count_is_held_by_its_estimate(case, ending):
    check_ending(case, ending)
