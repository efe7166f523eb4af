"""The verdict on a scan that was no full test of a useful model: every way that it can end."""

from dataclasses import replace

import pytest
from judged import (
    BOTH,
    EXTRACTS,
    INAPPLICABLE,
    LEAKY,
    OTHER,
    PLENTY,
    SAFE,
    SECOND,
    SPLITS,
    completed,
    estimate,
    limit,
)
from tiny import USEFUL
from verdict_cases import check_ending, ends, judging

from audit.cards import NO_MODEL, Bounds
from audit.measurements import Check, Count, Estimate, Unresolved

ALARM = Check("epsilon", 0.001, "alarm", "epsilon is at least 2.32", "train again")
ANLS = Estimate("anls", 0.0, 0.0, 0.05, 100, "questions", 50, "made up", 0.02, "chance")
TEXT = completed(LEAKY, attack="redaction", about_text=("leak",))
OF_TEXT = limit(attack="redaction")
SMALL = {"member": 100, "heldout": 40}
MANY_QUESTIONS = {"member": 40, "heldout": 40}
RARE = (limit(), limit("rare", required=False))
FEW_RARE = Unresolved("rare", "fewer than 72 held-out documents", 20, 72)
FEW = completed(SAFE, FEW_RARE)
OPEN = completed(estimate("leak", 0.03, 0.09), FEW_RARE)
UNCOUNTED = Unresolved("leak", "fewer than two held-out documents with such fields", 0, 72)
EMPTY = Unresolved("leak", "too few documents trained on with such values", 0, 72)
LEFT_OUT = Count(
    "left out: few plausible values", 240, "questions with fewer than 3 public answers"
)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # A wrong prompt or random weights: nothing is remembered, for nothing is said.
        pytest.param(
            judging(completed(SAFE), utility=(ANLS,)),
            ends(
                11,
                "undecided",
                words=(
                    "(useless) the model does not do its task: "
                    "held-out anls is 0.000 [0.000, 0.050]",
                ),
            ),
            id="useless",
        ),
        pytest.param(
            judging(completed(SAFE), utility=(USEFUL, replace(ANLS, name="intent_accuracy"))),
            ends(11, "undecided", words=("held-out intent accuracy",)),
            id="useless on one of two",
        ),
        pytest.param(
            judging(completed(SAFE), utility=(replace(ANLS, value=0.5, low=0.02, high=0.9),)),
            ends(11, "undecided", words=("the commonest answer scores 0.020",)),
            id="hardly useful",
        ),
        pytest.param(
            judging(completed(SAFE), utility=(Unresolved("entity_f1", "none", 0),)),
            ends(11, "undecided", words=("could not be measured (held-out entity f1: none)",)),
            id="usefulness unresolved",
        ),
        pytest.param(
            judging(completed(SAFE), utility=()),
            ends(11, "undecided", words=("the model's accuracy was not measured",)),
            id="usefulness not measured",
        ),
        pytest.param(
            judging(completed(LEAKY), utility=(ANLS,)), ends(10, "violated"), id="useless and over"
        ),
    ],
)
def test_a_useless_model_is_no_pass(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # A one-run bound on epsilon at its cap stood in the record beside "passed".
        pytest.param(
            judging(completed(SAFE, checks=(ALARM,))),
            ends(11, "undecided", words=("(alarm) epsilon is at least 2.32 -> train again",)),
            id="alarm",
        ),
        pytest.param(
            judging(completed(LEAKY, checks=(ALARM,))), ends(10, "violated"), id="alarm and over"
        ),
    ],
)
def test_an_alarm_is_no_pass(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(
            judging(completed(SAFE), TEXT, on=(limit(), OF_TEXT)),
            ends(0, "passed", "violated", words=("text: violated, 1 of 1 limits exceeded",)),
            id="text reported",
        ),
        pytest.param(
            judging(completed(SAFE), TEXT, on=(limit(), OF_TEXT), text="fail"),
            ends(10, "passed", "violated"),
            id="text counts",
        ),
        pytest.param(
            judging(TEXT, on=(OF_TEXT,)),
            ends(11, "violated", words=("text: violated",)),
            id="text and no number of the model",
        ),
        pytest.param(
            judging(replace(TEXT, measurements=(SAFE,)), on=(OF_TEXT,), utility=(ANLS,)),
            ends(11, "passed", words=("text: passed",)),
            id="text, whatever the model is good for",
        ),
        pytest.param(
            judging(
                completed(SAFE, OTHER, about_text=("other",)),
                on=(limit(), limit("other")),
                unread={"member": 90},
                documents=PLENTY,
                questions=MANY_QUESTIONS,
            ),
            ends(11, "undecided", "passed"),
            id="text, whatever was left out",
        ),
        pytest.param(
            judging(
                replace(TEXT, measurements=(SAFE,)),
                INAPPLICABLE,
                replace(INAPPLICABLE, attack="membership"),
                on=(OF_TEXT, *BOTH),
                utility=(),
                family=NO_MODEL,
                demands=(EXTRACTS,),
            ),
            ends(0, "passed", "inapplicable", "inapplicable"),
            id="text alone",
        ),
    ],
)
def test_what_the_text_gives_away_is_no_verdict_on_the_model(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # None of the documents that an audit did without may turn a leak into a pass.
        pytest.param(
            judging(
                completed(SAFE),
                unread={"member": 6, "heldout": 2},
                documents=PLENTY,
                questions=MANY_QUESTIONS,
            ),
            ends(0, "passed"),
            id="few documents left out",
        ),
        pytest.param(
            judging(
                completed(SAFE), unread={"public": 60}, documents=PLENTY, questions=MANY_QUESTIONS
            ),
            ends(0, "passed"),
            id="public documents left out",
        ),
        pytest.param(
            judging(
                completed(SAFE),
                unread_questions={"member": 40},
                documents=PLENTY,
                questions=MANY_QUESTIONS,
            ),
            ends(0, "passed"),
            id="half of the questions left out",
        ),
        pytest.param(
            judging(
                completed(SAFE), unread={"member": 60}, documents=PLENTY, questions=MANY_QUESTIONS
            ),
            ends(
                11,
                "undecided",
                words=(
                    "(uncovered)",
                    "were left out",
                ),
            ),
            id="members left out",
        ),
        pytest.param(
            judging(
                completed(SAFE), unread={"heldout": 60}, documents=PLENTY, questions=MANY_QUESTIONS
            ),
            ends(11, "undecided", words=("(uncovered)",)),
            id="held-out left out",
        ),
        pytest.param(
            judging(
                completed(SAFE),
                unread_questions={"member": 60},
                documents=PLENTY,
                questions=MANY_QUESTIONS,
            ),
            ends(11, "undecided", words=("(uncovered)",)),
            id="questions left out",
        ),
        pytest.param(
            judging(
                completed(LEAKY), unread={"member": 60}, documents=PLENTY, questions=MANY_QUESTIONS
            ),
            ends(10, "violated"),
            id="members left out, over",
        ),
    ],
)
def test_documents_that_were_left_out_turn_no_leak_into_a_pass(case, ending):
    check_ending(case, ending)


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        # A policy does without what a data set cannot give, and not without what nobody looked at.
        pytest.param(
            judging(FEW, on=RARE, documents=SMALL),
            ends(0, "passed", "not run"),
            id="too few documents",
        ),
        pytest.param(
            judging(FEW, on=RARE, documents=SMALL, share=0.25),
            ends(0, "passed", "not run"),
            id="too few documents, a part",
        ),
        pytest.param(
            judging(FEW, on=RARE, documents=PLENTY, bounds=Bounds(200, None, 1.0)),
            ends(0, "passed", "not run"),
            id="bound on all documents",
        ),
        pytest.param(
            judging(FEW, on=RARE, documents=PLENTY, bounds=Bounds(40, None, 1.0)),
            ends(11, "passed", "undecided", words=("among those tried",), warned=0),
            id="bound on documents",
        ),
        pytest.param(
            judging(FEW, on=RARE, documents=PLENTY, bounds=Bounds(None, 60.0, 0.2)),
            ends(11, "passed", "undecided", words=("tried",), warned=0),
            id="bound on time",
        ),
        pytest.param(
            judging(FEW, on=RARE, documents=PLENTY, share=0.25),
            ends(11, "passed", "undecided", words=("tried",), warned=0),
            id="a part",
        ),
        # A quick scan tries a quarter: nothing sends for documents before the rest was tried.
        pytest.param(
            judging(OPEN, on=(limit(), limit("rare")), documents=PLENTY, share=0.25),
            ends(
                11,
                "undecided",
                "undecided",
                words=("To decide 2 of 2 undecided limits: rerun without --budget quick.",),
                warned=0,
            ),
            id="first the rest of the budget",
        ),
        pytest.param(
            judging(
                OPEN,
                on=(limit(), limit("rare")),
                documents=PLENTY,
                share=0.25,
                bounds=Bounds(40, None, 0.2),
            ),
            ends(
                11,
                "undecided",
                "undecided",
                words=(
                    "To decide 2 of 2 undecided limits: rerun without --budget quick, --documents "
                    "and --time.",
                ),
                warned=0,
            ),
            id="first without bounds",
        ),
        pytest.param(
            judging(
                completed(SAFE, ablations=("no image",)),
                completed(estimate("leak", 0.03, 0.09), attack="membership"),
                on=BOTH,
                documents=PLENTY,
                share=0.25,
            ),
            ends(
                11,
                "undecided",
                "undecided",
                words=("first: To decide 1 of 2 undecided limits: rerun without --budget quick.",),
            ),
            id="first all documents, then a stronger attacker",
        ),
        pytest.param(
            judging(completed(estimate("leak", 0.03, 0.09)), documents=PLENTY),
            ends(
                11,
                "undecided",
                words=(
                    "first: To decide 1 of 1 undecided limit: add documents to the data set, "
                    "as docaudit plan counts them, and scan again.",
                ),
                warned=0,
            ),
            id="all was tried",
        ),
        pytest.param(
            judging(
                completed(estimate("leak", 0.03, 0.09), attack="membership"),
                on=(SECOND,),
                documents=PLENTY,
            ),
            ends(
                11,
                "undecided",
                words=(
                    "(wide) the interval crosses the limit -> train split models",
                    "or add documents",
                ),
                warned=0,
            ),
            id="membership without split models",
        ),
        pytest.param(
            judging(
                completed(estimate("leak", 0.03, 0.09), attack="membership"),
                on=(SECOND,),
                documents=PLENTY,
                references=SPLITS,
            ),
            ends(11, "undecided", words=("-> add documents",), warned=0),
            id="membership with split models",
        ),
        pytest.param(
            judging(completed(UNCOUNTED), documents={"member": 40}),
            ends(
                11,
                "undecided",
                words=(
                    "-> add unseen documents from the same source",
                    "--heldout-from",
                ),
                warned=0,
            ),
            id="no held-out documents",
        ),
        pytest.param(
            judging(completed(estimate("leak", 0.03, 0.09)), documents={"member": 40}),
            ends(
                11,
                "undecided",
                words=("first: To decide 1 of 1 undecided limit: add unseen documents",),
                warned=0,
            ),
            id="a wide interval without held-out documents",
        ),
        pytest.param(
            judging(
                completed(SAFE),
                documents={"member": 40},
                utility=(Unresolved("entity_f1", "none", 0),),
            ),
            ends(
                11,
                "undecided",
                words=(
                    "accuracy could not be measured",
                    "-> add unseen documents",
                ),
            ),
            id="no accuracy without held-out documents",
        ),
        pytest.param(
            judging(completed(UNCOUNTED), documents={"member": 40, "heldout": 30}),
            ends(11, "undecided", words=("-> add documents",), warned=0),
            id="too few held-out documents",
        ),
        pytest.param(
            judging(completed(EMPTY, counts=(LEFT_OUT,)), documents={"member": 40, "heldout": 30}),
            ends(
                11,
                "undecided",
                words=(
                    "left out: 240 questions with fewer than 3 public answers",
                    "-> add documents of which this can be measured, and scan again",
                ),
                warned=0,
            ),
            id="everything was left out",
        ),
    ],
)
def test_a_policy_does_without_what_a_data_set_cannot_give(case, ending):
    check_ending(case, ending)
