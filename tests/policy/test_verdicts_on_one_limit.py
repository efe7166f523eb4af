"""The verdict on one limit: every way that it can end."""

from dataclasses import replace

import pytest
from judged import (
    BARELY,
    FAILED,
    INAPPLICABLE,
    LEAKY,
    LIMITED,
    METHODS,
    NO_DATA,
    NONE,
    OPTIONAL,
    OTHERS,
    PLENTY,
    SAFE,
    SKIPPED,
    STRONGER,
    WIDE,
    WIDER,
    area,
    completed,
    estimate,
    limit,
    normal,
    power,
)
from verdict_cases import check_ending, ends, judging

from audit.measurements import Unresolved

STRONG = power(0.5)
WEAK = power(0.49)
NO_POWER = Unresolved("power", "no such field", 0)
ASKS_POWER = limit(min_power=0.5)
ACCURATE = limit("accuracy", min=0.7)
ACCURACY = estimate("accuracy", 0.7, 0.9, edge=0.7)
ALMOST = estimate("leak", 0.04, 0.3, lower_p=0.1)
LIRA = Unresolved("leak.lira", "no split models", 0)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(
            judging(completed(SAFE)),
            ends(0, "passed", words=("the one-sided 97.5 % bound, 0.050, is within the limit",)),
            id="within",
        ),
        pytest.param(
            judging(completed(SAFE, STRONG), on=(ASKS_POWER,)),
            ends(0, "passed"),
            id="within, strong",
        ),
        pytest.param(
            judging(completed(SAFE, WEAK), on=(ASKS_POWER,)),
            ends(11, "undecided", words=("(weak) the attacker is too weak: power 0.49; the",)),
            id="within, weak",
        ),
        pytest.param(
            judging(completed(SAFE, NO_POWER), on=(ASKS_POWER,)),
            ends(11, "undecided", words=("its strength could not be measured",)),
            id="power unresolved",
        ),
        pytest.param(
            judging(completed(SAFE), on=(ASKS_POWER,)),
            ends(11, "undecided", words=("its strength could not be measured",)),
            id="power missing",
        ),
        pytest.param(
            judging(completed(SAFE, power=None), on=(ASKS_POWER,)),
            ends(11, "undecided", words=("could not be measured",)),
            id="attack without power",
        ),
        pytest.param(judging(completed(SAFE, WEAK)), ends(0, "passed"), id="weak, nothing asked"),
        pytest.param(
            judging(completed(SAFE, power(4.9)), on=(limit(min_power=5),)),
            ends(11, "undecided"),
            id="strength above one, too little",
        ),
        pytest.param(
            judging(completed(SAFE, power(5.0)), on=(limit(min_power=5),)),
            ends(0, "passed"),
            id="strength above one",
        ),
        pytest.param(
            judging(completed(SAFE, ablations=("no image",))),
            ends(11, "undecided", words=("(weakened) the attacker was weakened: no image",)),
            id="weakened",
        ),
        pytest.param(
            judging(completed(LEAKY, ablations=("no image",))),
            ends(10, "violated", words=("the leak above the limit is confirmed",)),
            id="weakened, over",
        ),
    ],
)
def test_a_pass_asks_for_a_strong_and_whole_attacker(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(
            judging(completed(WIDE)),
            ends(11, "undecided", words=("(wide) the interval crosses the limit",), warned=0),
            id="reaches over",
        ),
        pytest.param(
            judging(completed(WIDE, STRONG), on=(ASKS_POWER,)),
            ends(11, "undecided", words=("crosses the",), warned=0),
            id="reaches over, strong",
        ),
        pytest.param(
            judging(completed(LEAKY)),
            ends(10, "violated", words=("the leak above the limit is confirmed",)),
            id="over",
        ),
        pytest.param(
            judging(completed(LEAKY, WEAK), on=(ASKS_POWER,)),
            ends(10, "violated"),
            id="over, weak attacker",
        ),
        pytest.param(
            judging(completed(LEAKY), on=(OPTIONAL,)), ends(10, "violated"), id="over, not required"
        ),
        pytest.param(judging(completed(BARELY)), ends(10, "violated"), id="over, at 0.05"),
        pytest.param(
            judging(completed(ALMOST)),
            ends(11, "undecided", words=("crosses the limit",), warned=0),
            id="over, at 0.1 only",
        ),
        pytest.param(
            judging(completed(estimate("leak", 0.06, 0.3, lower_p=0.1)), documents=PLENTY),
            ends(
                11,
                "undecided",
                words=("p = 0.1, corrected for all limits (Holm); at most 0.05 is needed -> add",),
            ),
            id="wholly over, not confirmed",
        ),
        pytest.param(
            judging(completed(normal("leak", 0.3, 0.05)), on=(limit(max=0.2),)),
            ends(10, "violated"),
            id="over, alone",
        ),
        pytest.param(
            judging(
                completed(normal("leak", 0.31, 0.05), *OTHERS, ablations=("no image",)),
                on=(limit(max=0.2), *LIMITED),
            ),
            ends(
                11,
                *["undecided"] * 7,
                words=(
                    "(wide) the interval lies above the limit, but no leak above it is confirmed",
                ),
            ),
            id="over, beside others",
        ),
        pytest.param(
            judging(completed(area("leak", 0.69, 0.05), *OTHERS), on=(limit(max=0.58), *LIMITED)),
            ends(
                11,
                "undecided",
                *["passed"] * 6,
                words=("corrected for all limits (Holm)",),
            ),
            id="area over, beside others",
        ),
        pytest.param(
            judging(completed(area("leak", 0.31, 0.05), *OTHERS), on=(limit(max=0.58), *LIMITED)),
            ends(
                11,
                "undecided",
                *["passed"] * 6,
                words=("corrected for all limits (Holm)",),
            ),
            id="area under chance, beside others",
        ),
        pytest.param(
            judging(completed(normal("leak", 0.39, 0.05), *OTHERS), on=(limit(min=0.5), *LIMITED)),
            ends(
                11,
                "undecided",
                *["passed"] * 6,
                words=("corrected for all limits (Holm)",),
            ),
            id="least missed, beside others",
        ),
    ],
)
def test_a_leak_is_confirmed_beside_all_other_limits(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(
            judging(completed(NONE)),
            ends(
                11,
                "undecided",
                words=("(unresolved) fewer than two documents (n = 1; 20",),
                warned=0,
            ),
            id="unresolved",
        ),
        pytest.param(
            judging(completed(NONE), on=(OPTIONAL,)),
            ends(11, "not run", words=("fewer than two documents",)),
            id="unresolved, optional",
        ),
        pytest.param(
            judging(completed(replace(NONE, needed=None)), on=(OPTIONAL,)),
            ends(11, "undecided", words=("(unmeasured) fewer than two",)),
            id="unresolved for another reason, optional",
        ),
        pytest.param(
            judging(completed(NONE, ablations=("no image",)), on=(OPTIONAL,)),
            ends(11, "undecided", warned=0),
            id="unresolved, weakened, optional",
        ),
        pytest.param(
            judging(completed(STRONG)),
            ends(11, "undecided", words=("(unmeasured) the record lacks this number",)),
            id="not in the record",
        ),
        pytest.param(
            judging(SKIPPED),
            ends(
                11,
                "undecided",
                words=("(unmeasured) skipped: it needs a reference -> --reference",),
            ),
            id="skipped",
        ),
        pytest.param(
            judging(SKIPPED, on=(OPTIONAL,)), ends(11, "undecided"), id="skipped, optional"
        ),
        pytest.param(
            judging(NO_DATA, gaps=()),
            ends(11, "undecided", words=("(unmeasured) skipped: no canaries",)),
            id="no data",
        ),
        pytest.param(
            judging(NO_DATA),
            ends(11, "not run", words=("no limit of the policy could be checked",)),
            id="no data, permitted",
        ),
        pytest.param(
            judging(NO_DATA, on=(OPTIONAL,)),
            ends(11, "not run", words=("no canaries",)),
            id="no data, optional",
        ),
        pytest.param(
            judging(FAILED),
            ends(
                11,
                "undecided",
                words=("(unmeasured) the attack failed (IndexError at audit/x.py:3)",),
            ),
            id="failed",
        ),
        pytest.param(judging(FAILED, on=(OPTIONAL,)), ends(11, "undecided"), id="failed, optional"),
        pytest.param(
            judging(),
            ends(
                11,
                "undecided",
                words=("(unmeasured) this attack was not run -> scan without --only",),
            ),
            id="not run",
        ),
        pytest.param(judging(on=(OPTIONAL,)), ends(11, "undecided"), id="not run, optional"),
        pytest.param(
            judging(on=(limit("anything"),)), ends(11, "undecided"), id="a metric taken at its word"
        ),
        pytest.param(
            judging(INAPPLICABLE),
            ends(11, "inapplicable", words=("no such head",)),
            id="inapplicable",
        ),
        pytest.param(
            judging(INAPPLICABLE, gaps=()),
            ends(
                11,
                "undecided",
                words=(
                    "(gap)",
                    "the policy permits no such gap: no such head",
                    "-> limit another attack that asks the same question: memorisation",
                ),
            ),
            id="inapplicable, not permitted",
        ),
        pytest.param(
            judging(
                completed(SAFE),
                on=(limit("auc", attack="membership"),),
                battery=("reconstruction",),
            ),
            ends(
                11, "undecided", words=("the docaudit version of this record had no such attack",)
            ),
            id="attack of a later version",
        ),
    ],
)
def test_a_number_that_is_missing_is_no_pass(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(
            judging(completed(ACCURACY), on=(ACCURATE,)), ends(0, "passed"), id="at least"
        ),
        pytest.param(
            judging(completed(estimate("accuracy", 0.69, 0.9, edge=0.7)), on=(ACCURATE,)),
            ends(11, "undecided", warned=0),
            id="at least, reaches under",
        ),
        pytest.param(
            judging(
                completed(estimate("accuracy", 0.3, 0.5, upper_p=0.01, edge=0.7)), on=(ACCURATE,)
            ),
            ends(10, "violated"),
            id="at least, confirmed under",
        ),
        pytest.param(
            judging(
                completed(estimate("accuracy", 0.3, 0.9, lower_p=0.05, edge=0.7)), on=(ACCURATE,)
            ),
            ends(11, "undecided", warned=0),
            id="at least, bounds over it say nothing",
        ),
        pytest.param(
            judging(
                completed(estimate("accuracy", -0.9, 0.9, edge=-1.0)),
                on=(limit("accuracy", min=-1.0),),
            ),
            ends(0, "passed"),
            id="at least a negative number",
        ),
    ],
)
def test_a_least_value_is_held_as_a_greatest_one_is(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # Swapped splits gave AUC 0.071 [0.040, 0.121], an unlearned model 0.015. Both passed
        # "at most 0.65".
        pytest.param(
            judging(completed(area("leak", 0.071)), on=(limit(max=0.65),)),
            ends(10, "violated", words=("knows the unseen fields better than those of training",)),
            id="area far under chance",
        ),
        pytest.param(
            judging(completed(area("leak", 0.015)), on=(limit(max=0.65),)),
            ends(10, "violated"),
            id="area at 0.015",
        ),
        pytest.param(
            judging(completed(area("leak", 0.45)), on=(limit(max=0.65),)),
            ends(11, "undecided", words=("(confounded) the model knows the unseen fields better",)),
            id="area a little under chance",
        ),
        pytest.param(
            judging(completed(area("leak", 0.53)), on=(limit(max=0.65),)),
            ends(0, "passed"),
            id="area over chance",
        ),
        pytest.param(
            judging(completed(area("leak", 0.5)), on=(limit(max=0.65),)),
            ends(0, "passed"),
            id="area at chance",
        ),
        pytest.param(
            judging(completed(area("leak", 0.48)), on=(limit(max=0.65),)),
            ends(0, "passed"),
            id="area hardly under chance",
        ),
        pytest.param(
            judging(completed(area("leak", 0.48, 0.08)), on=(limit(max=0.65),)),
            ends(11, "undecided", words=("(wide) the interval crosses",), warned=0),
            id="area of which only the mirror image may lie beyond the limit",
        ),
        pytest.param(
            judging(completed(area("leak", 0.5, 0.1)), on=(limit(max=0.65),)),
            ends(11, "undecided", words=("(wide) the interval crosses",), warned=0),
            id="area that may lie beyond the mirrored limit",
        ),
        # Members and held-out documents exchanged: -0.427 [-0.504, -0.346] passed "at most 0.05".
        pytest.param(
            judging(completed(normal("leak", -0.427, 0.04, 0.0))),
            ends(
                11,
                "undecided",
                words=(
                    "the unseen documents look trained on, unless this is chance",
                    "draw other unseen documents",
                ),
            ),
            id="splits exchanged",
        ),
        pytest.param(
            judging(completed(normal("leak", 0.0, 0.005, 0.02))),
            ends(0, "passed"),
            id="a null above zero counts as zero",
        ),
    ],
)
def test_an_effect_of_the_opposite_sign_is_no_pass(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # Areas of 1.000 stood in the record beside a primary method of 0.497, which passed.
        pytest.param(
            judging(completed(SAFE, STRONGER, methods=METHODS)),
            ends(10, "violated"),
            id="strongest method over",
        ),
        pytest.param(
            judging(completed(SAFE, STRONGER)), ends(0, "passed"), id="a number that is no method"
        ),
        pytest.param(
            judging(completed(SAFE, WIDER, methods=METHODS)),
            ends(11, "undecided", words=("(wide)",), warned=0),
            id="one method reaches over",
        ),
        pytest.param(
            judging(completed(SAFE, LIRA, methods={"leak": ("leak", "leak.lira")})),
            ends(0, "passed"),
            id="a method that this case cannot have",
        ),
        pytest.param(
            judging(completed(SAFE, LIRA, methods={"leak": ("leak.lira",)})),
            ends(0, "passed"),
            id="no method that this case can have",
        ),
    ],
)
def test_the_strongest_method_counts(case, ending):
    check_ending(case, ending)
