"""References that know audited documents are none: planted losses, by role, by split and by direction."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
import tiny
from attempts import measured, run
from scipy import stats
from test_membership_planted import NAMES, Knowing, corpus, split_models

from audit.attacks.canaries import Canaries
from audit.attacks.membership import MembershipInference, innocence, scan_checks
from audit.case import Case, References, SplitModel
from audit.corpus.documents import Corpus, Document, Split, Word
from audit.engine.interface import SILENT
from audit.measurements import Check
from audit.policy import Decision, Limit, Policy, evaluate
from audit.policy.checks import settle
from audit.record import AuditRecord
from benchmarks.calibration.simulated_audits import completed

SPLITS: tuple[Split, ...] = ("member", "heldout", "public")
UNSEEN = "knows the unseen documents"
TRAINING = "knows the training documents"


def examined(
    knows: Iterable[str], *, n_models: int = 1, public_words: str = "a"
) -> innocence.Knowledge:
    """Examine references of which the first has a lower loss on the splits that it knows, 80 documents of each."""
    rng = np.random.default_rng(0)
    documents: list[Document] = []
    losses: dict[str, list[float]] = {}
    for split in SPLITS:
        prefix = public_words if split == "public" else "a"
        for number in range(80):
            words = tuple(Word(f"{prefix}{word}") for word in rng.integers(40, size=6))
            documents.append(Document(f"{split}{number}", split, words))
            hard = 2 * rng.normal()
            own = [hard + rng.normal() for _ in range(n_models)]
            own[0] -= 2.5 * (split in knows)
            losses[documents[-1].id] = own
    found = innocence.examine(
        "baselines", innocence.ComparedDocuments(corpus(2, 2), tuple(documents)), losses
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("knows", "words"),
    [
        pytest.param({"member"}, TRAINING, id="members"),
        pytest.param({"heldout"}, UNSEEN, id="held-out"),
        pytest.param(
            {"member", "heldout"},
            "knows the unseen documents and training documents",
            id="last year's refit",
        ),
        pytest.param({"heldout", "public"}, UNSEEN, id="held-out and public"),
        pytest.param({"member", "public"}, TRAINING, id="members and public"),
        pytest.param(set(), None, id="none"),
        pytest.param({"public"}, None, id="public, as docaudit references trains it"),
        pytest.param({"member", "heldout", "public"}, None, id="all, which nothing shows"),
    ],
)
@pytest.mark.parametrize("n_models", [1, 3])
def test_a_reference_is_guilty_of_what_its_own_loss_separates(
    knows: set[str], words: str | None, n_models: int
) -> None:
    found = examined(knows, n_models=n_models)
    assert found.guilty == (words is not None)
    if words is not None:
        assert found.p_value <= 0.005
        assert f"the reference {words}, unless this is chance" in found.reason


@pytest.mark.parametrize("knows", [set(), {"public"}])
def test_innocent_references_are_rarely_taken_for_guilty(knows: set[str]) -> None:
    audits = 200
    alarms = 0
    for seed in range(audits):
        rng = np.random.default_rng(seed)
        scores = {split: rng.normal(3.0 * (split in knows), 1.0, 60) for split in SPLITS}
        signs = [innocence.compare_sides(scores, *pair) for pair in innocence.GUILTY]
        alarms += innocence.judge_signs("baselines", signs).guilty
    assert alarms <= stats.binom.ppf(0.999, audits, 0.05)


def test_public_documents_that_differ_in_themselves_prove_nothing() -> None:
    assert not examined({"member", "heldout"}, public_words="b").guilty
    assert examined({"heldout"}, public_words="b").guilty, (
        "held-out documents and members are alike all the same"
    )


class Reader(Knowing):
    """Reads capitals as it reads other letters, so that no way of writing fits it better."""

    def ask(self, queries):
        return [self.answer(query, NAMES[query.view.words[0].text.lower()]) for query in queries]


def whole(assigned: str = "random") -> Corpus:
    return corpus(150, 150, 60, assigned=assigned)


def ids(documents: Corpus, *splits: Split) -> list[str]:
    return [document.id for document in documents.of(*splits)]


def knowing(documents: Corpus, *splits: Split, seed: int = 1, leak: float = 3.0) -> Reader:
    """A model that was trained on splits."""
    return Reader(ids(documents, *splits), leak, seed)


def scanned(target: Reader, documents: Corpus, references: References) -> AuditRecord:
    """The record of a scan by document membership alone."""
    case = Case(target, documents, references)
    attack = MembershipInference()
    checks = scan_checks.check_scan(case, 64, SILENT, (attack,))
    result = completed("membership", run(attack, case)[-1])
    record = replace(tiny.record(result, battery=("membership",)), utility=(tiny.USEFUL,))
    return replace(record, checks=checks.checks, conditions=checks.conditions)


def decided(record: AuditRecord) -> Decision:
    limit = Limit("membership", "auc", "told apart", max=0.65)
    (decision,) = evaluate(record, Policy(1, "mine", (limit,)), dt.date(2026, 1, 1)).decisions
    return decision


def fired(record: AuditRecord) -> dict[str, Check]:
    settled = settle(record, ()).record
    checks = (*settled.checks, *settled.attacks[0].checks)
    return {check.name: check for check in checks if check.cause == "confounded" and check.fires}


ROLES = ("baselines", "pretrained")


@pytest.mark.parametrize("role", ROLES)
def test_a_refit_does_not_pass_beside_last_years_refit(role: str) -> None:
    documents = whole()
    target = knowing(documents, "member", "heldout", seed=0)
    last_year = knowing(documents, "member", "heldout")
    references = (
        References(baselines=(last_year,))
        if role == "baselines"
        else References(pretrained=last_year)
    )
    record = scanned(target, documents, references)
    assert measured(record.attacks[0], "auc").high < 0.65, "the numbers look clean"
    decision = decided(record)
    assert (decision.outcome, decision.cause) == ("undecided", "confounded")
    assert {"held-out documents", f"reference: {role}"} <= fired(record).keys()


@pytest.mark.parametrize("role", ROLES)
def test_a_clean_model_is_not_violated_beside_a_reference_that_knows_the_unseen_documents(
    role: str,
) -> None:
    documents = whole()
    guilty = knowing(documents, "heldout")
    references = (
        References(baselines=(guilty,)) if role == "baselines" else References(pretrained=guilty)
    )
    record = scanned(knowing(documents, seed=0), documents, references)
    assert measured(record.attacks[0], "auc").low > 0.65, (
        "the reference's knowledge looks like the target's"
    )
    decision = decided(record)
    assert (decision.outcome, decision.cause) == ("undecided", "confounded")
    assert UNSEEN in decision.reason


def test_split_models_that_know_the_unseen_documents_are_no_reference() -> None:
    documents = whole()
    honest = split_models(documents.of("member"), 4, 1.5, Reader)
    guilty = tuple(
        SplitModel(Reader([*one.members, *ids(documents, "heldout")], 3.0, 50 + place), one.members)
        for place, one in enumerate(honest)
    )
    baselines = (Reader(seed=1),)
    target = knowing(documents, seed=0)
    fair = scanned(target, documents, References(baselines=baselines, splits=honest))
    assert fired(fair) == {}
    record = scanned(target, documents, References(baselines=baselines, splits=guilty))
    (check,) = fired(record).values()
    assert (check.name, check.attacks) == ("reference: splits", ("membership",))
    assert "knows the unseen documents" in check.reason
    assert measured(record.attacks[0], "auc.lira").low > 0.65
    assert decided(record).outcome == "undecided"


def test_honest_references_leave_a_clean_and_a_leaking_model_alone() -> None:
    documents = whole()
    for splits in ((), ("member",)):
        record = scanned(
            knowing(documents, *splits, seed=0), documents, References(baselines=(Reader(seed=1),))
        )
        assert fired(record) == {}
        assert (decided(record).outcome == "violated") == bool(splits)


@pytest.mark.parametrize(
    ("assigned", "outcome"), [("random", "violated"), ("official", "undecided")]
)
def test_the_plain_loss_confirms_a_leak_beside_a_guilty_reference_where_a_lot_drew_the_members(
    assigned: str, outcome: str
) -> None:
    """Without a lot, what separates the reference's losses may be the documents themselves."""
    documents = whole(assigned)
    half = Reader(ids(documents, "member")[:75], 3.0, 1)
    record = scanned(
        knowing(documents, "member", seed=0, leak=6.0), documents, References(baselines=(half,))
    )
    assert "reference membership" in fired(record)
    decision = decided(record)
    assert decision.outcome == outcome
    if outcome == "violated":
        assert decision.measured is not None
        assert decision.measured.name == "auc.loss", "no score that uses the reference"


def test_a_reference_is_tested_for_the_attacks_that_compare_the_model_with_it() -> None:
    documents = whole()
    case = Case(
        knowing(documents, seed=0),
        documents,
        References(baselines=(knowing(documents, "heldout"),)),
    )
    names = {check.name for check in scan_checks.check_scan(case, 64, SILENT, (Canaries(),)).checks}
    assert not any(name.startswith("reference") for name in names)
    users = scan_checks.users_of(
        replace(case, references=References(pretrained=Reader())), (MembershipInference(),)
    )
    assert users == {
        "baselines": (),
        "pretrained": ("membership",),
        "auxiliary": (),
        "splits": ("membership",),
    }
