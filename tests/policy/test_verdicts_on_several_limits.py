"""The verdict on several limits: every way that they end together."""

from dataclasses import replace

import pytest
from judged import (
    BOTH,
    EXTRACTS,
    FAILED,
    INAPPLICABLE,
    LEAKY,
    NO_DATA,
    NONE,
    OPTIONAL,
    OTHER,
    OTHER_LEAKY,
    OTHER_SAFE,
    SAFE,
    SECOND,
    SKIPPED,
    WIDE,
    completed,
    gone,
    limit,
    waiver,
)
from verdict_cases import check_ending, ends, judging

from audit.policy import Demand, Gap

LEFT = gone("left out", "left out", "this attack was not run", "scan without --only", "membership")
CANARIES_LEFT = gone("left out", "data", "no canaries", "scan without --only", "canaries")
NO_PUBLIC = gone("skipped", "data", "no public documents", "add public documents", "membership")
OTHER_NO_DATA = replace(NO_DATA, attack="membership")
EITHER = (limit(), replace(SECOND, required=False))
DEMANDS = (EXTRACTS, Demand("whom it was trained on", ("membership",), "why"))
MEMORISED = limit(attack="memorisation")
CANARY_LIMITS = (
    limit(attack="canaries", required=False),
    limit("other", attack="canaries", required=False),
)
ASKED = (limit(), MEMORISED, SECOND, *CANARY_LIMITS)
NO_HEAD = Gap("reconstruction", ("mlm",), "no such head")
LACKING = (NO_HEAD, Gap("memorisation", ("mlm",), "no answers"))
ALL_LACKING = (*LACKING, Gap("canaries", ("mlm",), "ranks nothing"))
NO_ANSWERS = gone("inapplicable", "model", "the model answers nothing", attack="memorisation")
NO_CANARIES = gone("skipped", "data", "no canaries", "docaudit canary insert", "canaries")
NO_RANKS = gone("inapplicable", "model", "ranks nothing", attack="canaries")
OTHER_FINE = replace(OTHER, high=0.05)
CANARIES = completed(SAFE, OTHER_FINE, attack="canaries")
SECRETS = completed(LEAKY, OTHER_FINE, attack="canaries")
UNASKED = (INAPPLICABLE, NO_ANSWERS, OTHER_SAFE)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(
            judging(completed(SAFE), OTHER_SAFE, on=BOTH),
            ends(0, "passed", "passed", words=("2 of 2 limits met",)),
            id="both within",
        ),
        pytest.param(
            judging(INAPPLICABLE, OTHER_SAFE, on=BOTH),
            ends(
                0,
                "inapplicable",
                "passed",
                words=("1 of 2 limits met, 1 not applicable (reconstruction)",),
            ),
            id="inapplicable and within",
        ),
        pytest.param(
            judging(INAPPLICABLE, OTHER_SAFE, on=BOTH, gaps=()),
            ends(11, "undecided", "passed"),
            id="one inapplicable, no gap",
        ),
        pytest.param(
            judging(INAPPLICABLE, OTHER_LEAKY, on=BOTH),
            ends(10, "inapplicable", "violated", words=("1 of 2 limits exceeded",)),
            id="inapplicable and over",
        ),
        pytest.param(
            judging(completed(WIDE), OTHER_SAFE, on=BOTH),
            ends(11, "undecided", "passed", words=("1 of 2 limits undecided",), warned=0),
            id="wide and within",
        ),
        pytest.param(
            judging(completed(WIDE), OTHER_LEAKY, on=BOTH),
            ends(10, "undecided", "violated"),
            id="wide and over",
        ),
        pytest.param(
            judging(completed(WIDE), replace(OTHER_SAFE, confounded="easier"), on=BOTH),
            ends(11, "undecided", "undecided", words=("(confounded) easier",)),
            id="wide and confounded",
        ),
        pytest.param(
            judging(SKIPPED, OTHER_LEAKY, on=BOTH),
            ends(10, "undecided", "violated"),
            id="skipped and over",
        ),
        # A MemoryError of the canary attack let a model pass that gives 28 of 34 secrets away.
        pytest.param(
            judging(FAILED, OTHER_SAFE, on=(OPTIONAL, SECOND)),
            ends(11, "undecided", "passed"),
            id="failed and within",
        ),
        pytest.param(
            judging(completed(LEAKY), OTHER_LEAKY, on=BOTH),
            ends(10, "violated", "violated", words=("2 of 2 limits exceeded",)),
            id="both over",
        ),
        pytest.param(
            judging(completed(SAFE), on=BOTH), ends(11, "passed", "undecided"), id="one not run"
        ),
        pytest.param(
            judging(completed(SAFE), on=EITHER),
            ends(11, "passed", "undecided"),
            id="one not run, optional",
        ),
        pytest.param(
            judging(completed(SAFE), OTHER_NO_DATA, on=EITHER),
            ends(0, "passed", "not run", words=("1 of 2 limits met, 1 not tested",)),
            id="one without data, optional",
        ),
        pytest.param(
            judging(INAPPLICABLE, OTHER_NO_DATA, on=EITHER),
            ends(11, "inapplicable", "not run", words=("no limit of the policy could",)),
            id="nothing decided",
        ),
    ],
)
def test_the_worst_limit_wins(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # --only and a limit that is not required passed, though the data set could have fed the
        # attack.
        pytest.param(
            judging(completed(SAFE), on=EITHER, left_out=(LEFT,)),
            ends(11, "passed", "undecided"),
            id="left out",
        ),
        pytest.param(
            judging(
                completed(SAFE),
                on=EITHER,
                left_out=(gone("left out", "data", "no canaries", attack="membership"),),
            ),
            ends(0, "passed", "not run"),
            id="left out, no data",
        ),
        pytest.param(
            judging(
                completed(SAFE),
                on=EITHER,
                left_out=(gone("left out", "model", "no such head", attack="membership"),),
            ),
            ends(11, "passed", "undecided"),
            id="left out, no such model",
        ),
    ],
)
def test_what_was_left_out_by_choice_is_no_gap(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(
            judging(*UNASKED, NO_CANARIES, on=ASKED, demands=DEMANDS, gaps=LACKING),
            ends(
                11,
                "inapplicable",
                "inapplicable",
                "passed",
                "undecided",
                "undecided",
                words=(
                    "(unmeasured)",
                    "a pass needs a decided limit on repeated text: reconstruction or memorisation "
                    "or canaries -> docaudit canary",
                    "headline: 2 of 5 limits undecided, 1 met, 2 not applicable",
                ),
            ),
            id="recognition alone",
        ),
        pytest.param(
            judging(*UNASKED, NO_CANARIES, on=ASKED, gaps=LACKING),
            ends(
                0,
                "inapplicable",
                "inapplicable",
                "passed",
                "not run",
                "not run",
                words=("2 not tested (canaries: no canaries)",),
            ),
            id="recognition alone, nothing demanded",
        ),
        pytest.param(
            judging(*UNASKED, on=ASKED, demands=DEMANDS, gaps=LACKING, left_out=(CANARIES_LEFT,)),
            ends(11, "inapplicable", "inapplicable", "passed", "undecided", "undecided"),
            id="recognition alone, canaries left out",
        ),
        pytest.param(
            judging(
                INAPPLICABLE,
                NO_ANSWERS,
                NO_PUBLIC,
                CANARIES,
                on=(limit(), MEMORISED, replace(SECOND, required=False), *CANARY_LIMITS),
                demands=DEMANDS,
                gaps=LACKING,
            ),
            ends(
                11,
                "inapplicable",
                "inapplicable",
                "undecided",
                "passed",
                "passed",
                words=("-> add public documents",),
            ),
            id="extraction alone",
        ),
        pytest.param(
            judging(*UNASKED, CANARIES, on=ASKED, demands=DEMANDS, gaps=LACKING),
            ends(
                0,
                "inapplicable",
                "inapplicable",
                "passed",
                "passed",
                "passed",
                words=(
                    "headline: 3 of 5 limits met, 2 not applicable (reconstruction, memorisation)",
                ),
            ),
            id="both answered",
        ),
        pytest.param(
            judging(
                *UNASKED,
                completed(SAFE, replace(NONE, name="other"), attack="canaries"),
                on=ASKED,
                demands=DEMANDS,
                gaps=LACKING,
            ),
            ends(
                0,
                "inapplicable",
                "inapplicable",
                "passed",
                "passed",
                "not run",
                words=(
                    "1 not tested (canaries in part: fewer than two documents (n = 1; 20 needed))",
                ),
            ),
            id="answered in part",
        ),
        pytest.param(
            judging(*UNASKED, SECRETS, on=ASKED, demands=DEMANDS, gaps=LACKING),
            ends(10, "inapplicable", "inapplicable", "passed", "violated", "passed"),
            id="answered by a leak",
        ),
        pytest.param(
            judging(
                *UNASKED,
                completed(NONE, replace(NONE, name="other"), attack="canaries"),
                on=ASKED,
                demands=DEMANDS,
                gaps=LACKING,
            ),
            ends(11, "inapplicable", "inapplicable", "passed", "undecided", "undecided"),
            id="too few units answer nothing",
        ),
        pytest.param(
            judging(
                INAPPLICABLE,
                NO_ANSWERS,
                OTHER_LEAKY,
                NO_CANARIES,
                on=ASKED,
                demands=DEMANDS,
                gaps=LACKING,
            ),
            ends(10, "inapplicable", "inapplicable", "violated", "undecided", "undecided"),
            id="violated, and not answered",
        ),
        pytest.param(
            judging(*UNASKED, NO_RANKS, on=ASKED, demands=DEMANDS, gaps=ALL_LACKING),
            ends(
                0,
                "inapplicable",
                "inapplicable",
                "passed",
                "inapplicable",
                "inapplicable",
                words=(
                    "no attack on repeated text applies to this kind of model, "
                    "as the policy permits",
                ),
            ),
            id="no attack can answer",
        ),
        pytest.param(
            judging(*UNASKED, NO_CANARIES, on=ASKED, demands=DEMANDS, gaps=ALL_LACKING),
            ends(
                0,
                "inapplicable",
                "inapplicable",
                "passed",
                "not run",
                "not run",
                words=("as the policy permits",),
            ),
            id="no attack need answer",
        ),
        pytest.param(
            judging(*UNASKED, NO_RANKS, on=ASKED, demands=DEMANDS, gaps=LACKING),
            ends(
                11,
                "inapplicable",
                "inapplicable",
                "passed",
                "undecided",
                "undecided",
                words=("(gap)",),
            ),
            id="every missing attack needs a gap",
        ),
        pytest.param(
            judging(
                INAPPLICABLE,
                replace(NO_DATA, attack="memorisation"),
                OTHER_SAFE,
                NO_CANARIES,
                on=(limit(), replace(MEMORISED, required=False), SECOND, *CANARY_LIMITS),
                demands=(EXTRACTS,),
                gaps=(NO_HEAD,),
            ),
            ends(
                11,
                "inapplicable",
                "undecided",
                "passed",
                "not run",
                "not run",
                words=("-> plant some",),
            ),
            id="the first attack that can be asked",
        ),
    ],
)
def test_a_pass_answers_the_questions_that_the_policy_demands(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(
            judging(completed(LEAKY), waivers=(waiver(0),)),
            ends(0, "waived", words=("1 of 1 limits exceeded and waived",)),
            id="waived on its last day",
        ),
        pytest.param(
            judging(completed(LEAKY), waivers=(waiver(366),)),
            ends(0, "waived"),
            id="waived for a year",
        ),
        pytest.param(
            judging(completed(LEAKY), waivers=(waiver(-1),)),
            ends(10, "violated", words=("(head of data) expired on 2026-03-01 and has no effect",)),
            id="waiver expired",
        ),
        pytest.param(
            judging(completed(LEAKY), waivers=(waiver(367),)),
            ends(
                10,
                "violated",
                words=("ends on 2027-03-04, more than 12 months ahead, and has no effect",),
            ),
            id="waiver for more than a year",
        ),
        pytest.param(
            judging(
                completed(LEAKY, OTHER), on=(limit(), limit("other")), waivers=(waiver(9, "other"),)
            ),
            ends(10, "violated", "passed"),
            id="waiver of another limit",
        ),
        pytest.param(
            judging(INAPPLICABLE, waivers=(waiver(9),)),
            ends(11, "inapplicable"),
            id="waiver of what does not apply",
        ),
        pytest.param(
            judging(completed(WIDE), waivers=(waiver(9),)),
            ends(11, "undecided", warned=0),
            id="no waiver of a wide interval",
        ),
        pytest.param(
            judging(completed(NONE), waivers=(waiver(9),)),
            ends(11, "undecided", warned=0),
            id="no waiver of an unresolved number",
        ),
        pytest.param(
            judging(SKIPPED, waivers=(waiver(9),)),
            ends(11, "undecided", warned=11),
            id="no waiver of a skipped attack",
        ),
        pytest.param(
            judging(FAILED, waivers=(waiver(9),)),
            ends(11, "undecided", warned=11),
            id="no waiver of a failed attack",
        ),
        pytest.param(
            judging(waivers=(waiver(9),)),
            ends(11, "undecided", warned=11),
            id="no waiver of an attack that was not run",
        ),
    ],
)
def test_only_a_violation_can_be_waived(case, ending):
    check_ending(case, ending)
