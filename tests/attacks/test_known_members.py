"""A reference that knows the audited documents hides a leak: nothing is decided with one."""

import answering
import numpy as np
import pytest
from answering import Answering, memory_of
from attempts import measured, run
from test_membership_planted import Knowing, corpus
from test_memorisation_planted import EXACT, Found, case

from audit.attacks.membership import MembershipInference
from audit.attacks.membership.attack import check_reference_membership
from audit.attacks.membership.scores import ScoredDocuments
from audit.case import Case, References
from benchmarks.simulated_audits import confounded_of, fired

PAGES = 60


def test_a_baseline_with_the_models_memory_leaves_memorisation_undecided() -> None:
    pages = answering.corpus(PAGES, PAGES)
    memory = memory_of(pages.of("member")[:20])
    found = Found(EXACT, case(Answering(memory), pages, Answering(dict(memory))))
    assert found.value("net") == 0
    assert "the baseline looks trained on the audited documents" in confounded_of(found.findings)


def test_a_baseline_that_guesses_as_often_everywhere_does_not() -> None:
    pages = answering.corpus(PAGES, PAGES)
    guesses = memory_of([*pages.of("member")[:9], *pages.of("heldout")[:7]])
    target = Answering(memory_of([*pages.of("member")[:24], *pages.of("heldout")[:7]]))
    assert confounded_of(Found(EXACT, case(target, pages, Answering(guesses))).findings) is None


@pytest.mark.parametrize(("leak", "known"), [(1.5, True), (0.0, False)])
def test_a_reference_that_tells_members_from_others_leaves_membership_undecided(leak: float, known: bool) -> None:
    documents = corpus(150, 150)
    members = [document.id for document in documents.of("member")]
    reference = Knowing(members, leak, seed=1)
    subject = Case(Knowing(members, 1.5), documents, References(baselines=(reference,)))
    findings = run(MembershipInference(), subject)[-1]
    assert (measured(findings, "auc").high < 0.65) == known, "the leak is hidden by a reference that has it too"
    assert [check.name for check in fired(findings.checks)] == ["reference knows members"] * known
    if known:
        assert "the reference looks trained on the audited documents" in fired(findings.checks)[0].reason


def test_references_that_saw_neither_are_rarely_taken_for_others() -> None:
    rng, member, alarms = np.random.default_rng(0), np.arange(150) < 75, 0
    for _ in range(400):
        losses, references = rng.gamma(2, 1, (2, 150))
        scored = ScoredDocuments((), member, {"loss": -losses, "calibrated": references - losses}, {}, 0, ())
        (check,) = check_reference_membership(scored)
        alarms += check.p_value <= 0.005
    assert alarms <= 8  # 2 are expected


def test_without_a_reference_nothing_is_said() -> None:
    assert check_reference_membership(ScoredDocuments((), np.ones(2, bool), {"loss": np.zeros(2)}, {}, 0, ())) == ()
