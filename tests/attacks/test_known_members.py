"""A reference that knows the audited documents hides a leak: nothing is decided with one."""

from dataclasses import replace

import answering
import numpy as np
import pytest
from answering import Answering, memory_of
from attempts import measured, run
from test_membership_planted import Knowing, corpus
from test_memorisation_planted import EXACT, Found, case

from audit.attacks.blind_baseline import Blind
from audit.attacks.measuring import Streams
from audit.attacks.membership import MembershipInference
from audit.attacks.membership.attack import check_reference_membership
from audit.attacks.membership.scores import ScoredDocuments
from audit.attacks.provider_membership.attack import check_reference
from audit.attacks.provider_membership.providers import IN, OUT, Matched
from audit.attacks.reconstruction.scores import check_public_model
from audit.attacks.reconstruction.table import METHODS, PLAYERS, named
from audit.case import Case, References
from audit.engine.interface import Trial
from audit.measurements import Check, Unresolved
from benchmarks.calibration.simulated_attacks import Fields
from benchmarks.calibration.simulated_audits import confounded_of, fired

PAGES = 60


def test_a_baseline_with_the_models_memory_leaves_memorisation_undecided() -> None:
    pages = answering.corpus(PAGES, PAGES)
    memory = memory_of(pages.of("member")[:20])
    found = Found(EXACT, case(Answering(memory), pages, Answering(dict(memory))))
    assert found.value("net") == 0
    assert "the baseline knows the training documents" in confounded_of(found.findings)


def test_a_baseline_that_guesses_as_often_everywhere_does_not() -> None:
    pages = answering.corpus(PAGES, PAGES)
    guesses = memory_of([*pages.of("member")[:9], *pages.of("heldout")[:7]])
    target = Answering(memory_of([*pages.of("member")[:24], *pages.of("heldout")[:7]]))
    assert confounded_of(Found(EXACT, case(target, pages, Answering(guesses))).findings) is None


SUBJECT = Case(Knowing(), corpus(2, 2), References(baselines=(Knowing(seed=1),)))
ALIKE = Blind(Unresolved("blind_auc", "no difference", 0), (), (), None, "random")


def test_a_baseline_that_knows_the_unseen_pages_leaves_memorisation_undecided() -> None:
    pages = answering.corpus(PAGES, PAGES)
    guilty = Answering(memory_of(pages.of("heldout")[:20]))
    found = Found(EXACT, case(Answering({}), pages, guilty))
    names = [check.name for check in fired(found.findings.checks)]
    assert {"baseline knows one side", "held-out net"} <= {*names}


@pytest.mark.parametrize(("leak", "known"), [(1.5, True), (0.0, False)])
def test_a_reference_that_tells_members_from_others_leaves_membership_undecided(
    leak: float, known: bool
) -> None:
    documents = corpus(150, 150)
    members = [document.id for document in documents.of("member")]
    reference = Knowing(members, leak, seed=1)
    subject = Case(Knowing(members, 1.5), documents, References(baselines=(reference,)))
    findings = run(MembershipInference(), subject)[-1]
    assert (measured(findings, "auc").high < 0.65) == known, (
        "the leak is hidden by a reference that has it too"
    )
    assert [check.name for check in fired(findings.checks)] == ["reference membership"] * known
    if known:
        assert "the reference knows the training documents" in fired(findings.checks)[0].reason


def test_references_that_saw_neither_are_rarely_taken_for_others() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(150) < 75
    alarms = 0
    for _ in range(400):
        losses, references = rng.gamma(2, 1, (2, 150))
        scored = ScoredDocuments(
            (), member, {"loss": -losses, "calibrated": references - losses}, {}, 0, ()
        )
        (check,) = check_reference_membership(SUBJECT, scored, ALIKE)
        alarms += check.p_value <= 0.005
    assert alarms <= 8  # 2 are expected


def test_without_a_reference_nothing_is_said() -> None:
    scored = ScoredDocuments((), np.ones(2, bool), {"loss": np.zeros(2)}, {}, 0, ())
    assert check_reference_membership(SUBJECT, scored, ALIKE) == ()


@pytest.mark.parametrize(
    ("of_members", "of_heldout", "words"),
    [
        (0.5, 0.0, "training documents"),
        (0.0, 0.5, "unseen documents"),
        (0.0, 0.0, None),
        (0.5, 0.5, None),
    ],
)
def test_a_public_model_that_restores_the_values_of_one_split_is_none(
    of_members: float, of_heldout: float, words: str | None
) -> None:
    rng = np.random.default_rng(2)
    n = 160
    member = np.arange(n) < 80
    known = rng.random(n) < np.where(member, of_members, of_heldout)
    columns = {
        named(player, method): known.astype(float) for player in PLAYERS for method in METHODS
    }
    table = Fields(
        member=member,
        unique=np.ones(n, bool),
        input_only=np.zeros(n, bool),
        category=np.array(["misc"] * n),
        cluster=np.arange(n),
        value=np.arange(n),
        weight=np.ones(n),
        near={"unique": np.ones(n, bool), "value": np.arange(n)},
        exact=columns,
        similar=columns,
        planted={},
        best={},
        chance=np.zeros(n),
    )
    (check,) = check_public_model(table, ALIKE, Streams(rng))
    assert check.cause == "confounded"
    assert (check.p_value <= 0.001) == (words is not None)
    if words is not None:
        assert f"the public model knows the {words}, unless this is chance" in check.reason
    apart = replace(
        ALIKE, checks=(Check("blind", 0.001, "confounded", "they differ", "divide them by lot"),)
    )
    assert check_public_model(table, apart, Streams(rng)) == (), (
        "the documents may explain it: it is a control"
    )


@pytest.mark.parametrize(("knows", "fires"), [("in", True), ("out", True), ("none", False)])
def test_a_reference_that_knows_the_providers_of_one_side_is_none(knows: str, fires: bool) -> None:
    rng = np.random.default_rng(3)
    trials = []
    outcomes = []
    for number in range(60):
        side = IN if number < 30 else OUT
        loss = 3 + rng.normal() - 3 * (side == {"in": IN, "out": OUT}.get(knows))
        trials.append(Trial(f"p{number}", f"p{number}", side))
        outcomes.append(
            {"documents": [{"id": f"d{number}", "questions": [{"pretrained": {"loss": loss}}]}]}
        )
    compared = Matched(tuple(trials), tuple(outcomes), (1,) * 60, 0)
    whole = corpus(2, 2, assigned="by-provider")
    (check,) = check_reference(whole, compared, ALIKE)
    assert (check.p_value <= 0.001) == fires
    assert "provider_membership.auc.loss" in check.spares, "the plain loss takes no reference"
    assert check_reference(corpus(2, 2), compared, ALIKE)[0].spares == (), (
        "no lot drew the providers"
    )
    if fires:
        assert f"the reference knows the documents of providers {knows}" in check.reason
