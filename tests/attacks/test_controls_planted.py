"""Controls of confounded attacks on planted targets: a memoriser is violated, documents that differ are not."""

import datetime as dt
from dataclasses import replace

import pytest
import tiny
from test_membership_planted import SPREAD, Knowing, corpus, measured, normal, provided, run

from audit.attacks.membership import MembershipInference
from audit.case import Case, References
from audit.corpus.documents import Corpus
from audit.policy import Limit, Policy, evaluate
from audit.record import Result
from benchmarks.calibration.simulated_audits import completed

AUC = Limit("membership", "auc", "told apart", max=0.65)
ALONE = References()
BESIDE = References(baselines=(Knowing(seed=1),))


class Easier(Knowing):
    """Finds members easier than other documents, whatever it was trained on."""

    def logit(self, name: str, question: str) -> float:
        return SPREAD * normal(name) + normal(name, self.seed) + 6.0 * name.startswith("m")


def audited(target: Knowing, whole: Corpus, references: References) -> tuple[Result, str]:
    findings = run(MembershipInference(), Case(target, whole, references))[-1]
    record = replace(
        tiny.record(completed("membership", findings), battery=("membership",)),
        utility=(tiny.USEFUL,),
    )
    return findings, evaluate(record, Policy(1, "mine", (AUC,)), dt.date(2026, 1, 1)).overall


def official() -> Corpus:
    """Documents enough for a limit, and too few for the blind check."""
    return provided(
        corpus(60, 60, assigned="official"),
        lambda document: None,
        lambda document: f"{len(document.id)}",
    )


@pytest.mark.parametrize(
    ("references", "kinds"), [(ALONE, {"blind"}), (BESIDE, {"reference", "blind"})]
)
def test_a_memoriser_is_violated_whatever_is_stated_of_the_split(
    references: References, kinds: set[str]
) -> None:
    whole = official()
    known = Knowing([document.id for document in whole.of("member")], 30.0)
    findings, overall = audited(known, whole, references)
    assert "too weak" in (findings.confounded or "")
    assert ({control.kind for control in findings.controls}, overall) == (kinds, "violated")
    assert audited(Knowing(), whole, references)[1] == "undecided"


def test_documents_that_a_reference_finds_easier_too_are_no_leak() -> None:
    whole = official()
    findings, overall = audited(Easier(), whole, References(baselines=(Easier(seed=1),)))
    assert measured(findings, "auc.loss").value > 0.9
    assert overall == "undecided"


def test_no_control_is_recorded_where_nothing_is_in_doubt() -> None:
    findings, _ = audited(Knowing(), replace_rule(official(), "random"), BESIDE)
    assert findings.confounded is None
    assert findings.controls == ()


def replace_rule(whole: Corpus, rule: str) -> Corpus:
    membership = replace(whole.manifest.membership, assigned=rule)
    return replace(whole, manifest=replace(whole.manifest, membership=membership))


def test_a_control_bounds_what_the_reference_itself_separates() -> None:
    whole = official()
    findings, _ = audited(Knowing(), whole, BESIDE)
    (of_area,) = (
        one
        for one in findings.controls
        if one.kind == "reference" and "auc.loss" in one.measurements
    )
    bounds = {bound.alpha: (bound.lower, bound.upper) for bound in of_area.bounds}
    low, high = bounds[0.025]
    assert low < 0 < high, "it saw neither side"
    assert high - low < 0.3
