"""Document membership on targets of which it is known how much they know their members better."""

import dataclasses
import hashlib
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import planted
import pytest
from attempts import counts, diagnostics, measured, run
from scipy.stats import norm

from audit.attacks import TEXTS
from audit.attacks.interface import nothing_to_try, why
from audit.attacks.membership import MembershipInference
from audit.attacks.membership.documents import first_by_name
from audit.attacks.membership.scores import RATIO, SCORES, WORSE
from audit.case import Case, References, SplitModel
from audit.corpus.documents import Corpus, Document, Manifest, Question, Task, Word
from audit.corpus.documents import Membership as Assignment
from audit.measurements import Estimate, Unresolved
from audit.stats.roc import auc
from audit.targets.encoded_page import Encoding
from audit.targets.interface import AnswerLoss, FillMask, NoModel, RowLoss, TrainingLoss
from benchmarks.calibration.membership_calibration import Setting, share_of_alarms
from benchmarks.calibration.simulated_audits import confounded_of

SPREAD = 2.0
"""Of the documents' difficulty, as logit confidence; a model's own noise has spread 1."""


NAMES = {}
"""Which document a page is, by what stands on it: nothing that tells a member from another."""


def written(name):
    code = hashlib.sha256(name.encode()).hexdigest()[:12]
    NAMES[code] = name
    return code


def corpus(n_member, n_heldout, n_public=0, n_questions=2, assigned="random"):
    documents = []
    for split, n in (("member", n_member), ("heldout", n_heldout), ("public", n_public)):
        for number in range(n):
            questions = tuple(
                Question(f"q{place}", f"question {place}", ("yes",)) for place in range(n_questions)
            )
            name = f"{split[0]}{number}"
            documents.append(Document(name, split, (Word(written(name)),), questions=questions))
    manifest = Manifest(1, "planted", Task("question-answering"), Assignment(assigned))
    return Corpus(None, manifest, tuple(documents), "0" * 64)


@cache
def normal(name, seed=10**6):
    """A draw of this name's own."""
    return np.random.default_rng([*name.encode(), seed]).normal()


class Knowing:
    """Gives the documents it was trained on `leak` more logit confidence than it gives them otherwise.

    A document's difficulty is its own, the same for every model; what a model thinks of it besides
    is the model's own.
    """

    answers = frozenset({AnswerLoss})

    def __init__(self, trained=(), leak=0.0, seed=0):
        self.card = planted.card("question-answering")
        self.trained = frozenset(trained)
        self.leak = leak
        self.seed = seed
        self.asked = []

    def logit(self, name, question):
        of_question = 0.01 * float(len(question) + ord(question[-1]))
        known = self.leak * (name in self.trained)
        return SPREAD * normal(name) + normal(name, self.seed) + known + of_question

    def ask(self, queries):
        self.asked += [type(query) for query in queries]
        return [self.answer(query, NAMES[query.view.words[0].text]) for query in queries]

    def answer(self, query, name):
        loss = np.logaddexp(0, -self.logit(name, query.question))
        return -2 * loss * np.linspace(0, 1, 11)  # their mean is the loss


class KnowingPages(Knowing):
    """The same as a token classifier."""

    answers = frozenset({TrainingLoss})

    def encode(self, document, around=()):
        labels = np.full(3, -100 if document.id == "m0" else 0)
        ids = np.array([ord(letter) for letter in f"{document.id:3}"])
        return Encoding(ids, np.zeros((3, 4)), np.arange(3), labels, 0, 1)

    def ask(self, queries):
        self.asked += [type(query) for query in queries]
        return [self.of_page(query) for query in queries]

    def of_page(self, query):
        name = "".join(map(chr, query.page.ids)).strip()
        assert query.candidates.tolist() == [query.page.ids[query.position]]  # the page as it is
        return np.array([np.logaddexp(0, -self.logit(name, "page"))])


def split_models(documents, k, leak, kind=Knowing):
    """K models, each of these documents in exactly half of them."""
    rng = np.random.default_rng(5)
    order = [rng.permutation(k) for _ in documents]
    halves = [
        frozenset(
            document.id
            for document, own in zip(documents, order, strict=True)
            if own[place] < k // 2
        )
        for place in range(k)
    ]
    return tuple(
        SplitModel(kind(half, leak, 100 + place), half) for place, half in enumerate(halves)
    )


@pytest.fixture(scope="module")
def audit():
    """150 + 150 documents, 100 public ones, two baselines, eight split models, a leak of 1.5."""
    whole = corpus(150, 150, 100)
    members = whole.of("member")
    target = Knowing([document.id for document in members], 1.5)
    references = References(
        baselines=(Knowing(seed=1), Knowing(seed=2)),
        pretrained=Knowing(seed=3),
        splits=split_models(members, 8, 1.5),
    )
    case = Case(target, whole, references)
    attack = MembershipInference()
    return attack, case, *run(attack, case)


def test_the_area_is_what_the_leak_makes_it(audit):
    findings = audit[-1]
    # The loss sorts as the logit confidence does: a leak of 1.5 against a spread of difficulty 2
    # and noise 1.
    truth = norm.cdf(1.5 / np.sqrt(2 * (SPREAD**2 + 1)))
    found = measured(findings, "auc.loss")
    assert found.low <= truth <= found.high
    # What others say of a document takes its difficulty away.
    for score in ("calibrated", "lira"):
        assert measured(findings, f"auc.{score}").value > found.value + 0.05, score
    # Four models not trained on a document: the noise of the target and of their mean.
    best = norm.cdf(1.5 / np.sqrt(2 * (1 + 1 / 4)))
    assert measured(findings, "auc.lira").low <= best <= measured(findings, "auc.lira").high


def test_every_score_has_its_histogram_and_its_curve(audit):
    findings = audit[-1]
    drawn = {item.name for item in (*findings.histograms, *findings.curves)}
    assert {"primary_score", "roc"} < drawn
    for score in {*SCORES} - {"row"}:
        assert {f"primary_score.{score}", f"roc.{score}"} < drawn


def test_every_metric_is_measured_and_the_primary_score_is_the_calibrated_loss(audit):
    findings = audit[-1]
    assert {item.name for item in findings.measurements} == {*TEXTS["membership"].names} - {WORSE}
    assert json.dumps(dataclasses.asdict(findings), allow_nan=False)
    assert confounded_of(findings) is None
    for score in {*SCORES} - {RATIO, "row"}:
        found = measured(findings, f"auc.{score}")
        assert (found.null, found.null_kind, found.unit, found.n) == (
            0.5,
            "chance",
            "documents",
            300,
        )
    assert measured(findings, "auc") == replace(measured(findings, "auc.calibrated"), name="auc")
    curve = findings.curves[0]
    points = curve.series["members against held-out"]
    area = sum((b.x - a.x) * (a.value + b.value) / 2 for a, b in pairwise(points))
    assert area == pytest.approx(measured(findings, "auc").value, abs=0.01)
    histogram = findings.histograms[0]
    assert {label: sum(heights) for label, heights in histogram.counts.items()} == {
        "member": 150,
        "held-out": 150,
    }
    found = measured(findings, "tpr_at_fpr_10")
    # The noise of the target, and of the reference, whose loss the primary score takes off.
    assert found.low <= norm.sf(norm.isf(0.1) - 1.5 / np.sqrt(1 + 1)) <= found.high
    assert found.null == 0.1
    documents = {"member documents": 150, "held-out documents": 150}
    assert {name: n for name, n in counts(findings).items() if n} == {
        **documents,
        "split models": 8,
    }


def test_evidence_has_every_score_and_rank_of_member_and_held_out_documents_only(audit):
    attack, case, trials, outcomes, findings = audit
    entries = [row for row in attack.evidence(case, trials, outcomes) if isinstance(row, dict)]
    assert [entry["document"] for entry in entries] == [
        document.id for document in case.corpus.of("member", "heldout")
    ]
    assert json.dumps(entries, allow_nan=False)
    assert set(entries[0]["scores"]) == {*SCORES} - {"row"}
    for score in entries[0]["scores"]:
        by_rank = sorted(entries, key=lambda entry: entry["ranks"][score])
        assert [entry["scores"][score] for entry in by_rank] == sorted(
            (entry["scores"][score] for entry in entries), reverse=True
        )
    sides = [
        [entry["scores"]["lira"] for entry in entries if entry["split"] == name]
        for name in ("member", "heldout")
    ]
    assert auc(*sides) == pytest.approx(measured(findings, "auc.lira").value)


def test_outcomes_do_not_depend_on_how_many_are_in_flight():
    whole = corpus(6, 6, 3)
    references = References((), (Knowing(seed=1),), None, split_models(whole.of("member"), 4, 1.0))
    case = Case(Knowing(["m0"], 1.0), whole, references)
    attack = MembershipInference()
    assert run(attack, case, 1)[1] == run(attack, case, 50)[1]


def test_scores_without_their_references_say_what_they_need():
    case = Case(Knowing(), corpus(30, 30))
    _, _, findings = run(MembershipInference.preset("quick"), case)
    reasons = {
        item.name: item.reason
        for item in findings.measurements
        if isinstance(item, Unresolved) and item.name.startswith("auc")
    }
    assert set(reasons) == {"auc.calibrated", "auc.row", "auc.lira"}
    assert "references --train" in reasons["auc.calibrated"]
    assert "--train splits" in reasons["auc.lira"]
    assert measured(findings, "auc").value == measured(findings, "auc.loss").value


def test_held_out_documents_in_the_split_models_make_lira_online():
    whole = corpus(60, 60)
    splits = split_models(whole.of("member", "heldout"), 8, 1.5)
    target = Knowing([document.id for document in whole.of("member")], 1.5)
    _, _, findings = run(MembershipInference(), Case(target, whole, References(splits=splits)))
    assert measured(findings, "auc.lira").low > 0.5


def test_a_token_classifier_is_asked_for_the_loss_of_its_pages_as_they_are():
    whole = corpus(40, 40, 25, n_questions=0)
    members = whole.of("member")
    target = KnowingPages([document.id for document in members], 4.0)
    references = References(
        baselines=(KnowingPages(seed=1),), splits=split_models(members, 6, 4.0, KnowingPages)
    )
    case = Case(target, whole, references)
    attack = MembershipInference()
    trials, _, findings = run(attack, case)
    assert "m0" not in {trial.cluster for trial in trials}  # its loss reads nothing
    assert counts(findings)["left out: nothing to read"] == 1
    for score in ("calibrated", "lira"):
        assert measured(findings, f"auc.{score}").low > 0.5, score


ALL = ("loss", "calibrated", "lira")
GATED = [
    ({}, {}, ("loss",)),
    ({}, {"pretrained": Knowing(seed=1)}, ("loss", "calibrated")),
    ({}, {"pretrained": KnowingPages(seed=1)}, ("loss",)),
    ({}, {"baselines": (Knowing(seed=1),)}, ("loss", "calibrated")),
    ({}, {"baselines": (Knowing(seed=1),), "splits": True}, ALL),
]


@pytest.mark.parametrize(("parameters", "references", "gated"), GATED)
def test_a_limit_is_held_against_every_score_that_the_audit_can_have(parameters, references, gated):
    whole = corpus(30, 30, 25)
    if references.get("splits"):
        references = {**references, "splits": split_models(whole.of("member"), 4, 0.0)}
    findings = run(
        MembershipInference(**parameters), Case(Knowing(), whole, References(**references))
    )[-1]
    counted = (*gated, "ratio") if "calibrated" in gated else gated
    assert {name: [*methods] for name, methods in findings.methods.items()} == {
        "auc": [f"auc.{score}" for score in gated],
        "low_fpr_advantage": [f"low_fpr_advantage.{score}" for score in gated],
        "documents_identified": [f"documents_identified.{score}" for score in counted],
    }
    for name in findings.methods["auc"]:
        assert isinstance(measured(findings, name), Estimate)


class KnowingRows(Knowing):
    """A decoder that learnt the pages of its rows, and nothing of their answers."""

    answers = frozenset({AnswerLoss, RowLoss})

    def answer(self, query, name):
        if isinstance(query, RowLoss):
            return super().answer(query, name)
        return np.full(2, normal(name, self.seed) - 9.0)


@pytest.mark.parametrize(
    "references", [{}, {"pretrained": KnowingRows(seed=1)}, {"pretrained": Knowing(seed=1)}]
)
def test_a_decoder_that_remembers_pages_and_no_answers_is_found_by_its_whole_rows(references):
    whole = corpus(60, 60)
    target = KnowingRows([document.id for document in whole.of("member")], 4.0)
    findings = run(MembershipInference(), Case(target, whole, References(**references)))[-1]
    assert measured(findings, "auc.row").low > 0.65 > measured(findings, "auc.loss").value
    assert "auc.row" in findings.methods["auc"]
    assert "documents_identified.row" in findings.methods["documents_identified"]


class Sure(Knowing):
    """Knows some of its documents for certain and nothing of the others."""

    def logit(self, name, question):
        return 0.01 * ord(question[-1]) + (30 if name in self.trained else SPREAD * normal(name))


def test_documents_whose_loss_is_no_number_are_left_out_and_counted():
    class Broken(Knowing):
        def answer(self, query, name):
            return np.array([np.nan]) if name == "m1" else super().answer(query, name)

    _, _, findings = run(MembershipInference(), Case(Broken(), corpus(30, 30)))
    assert (counts(findings)["left out: no finite loss"], measured(findings, "auc").n) == (1, 59)


def provided(whole, provider_of, word_of=None):
    """The corpus with a provider for every document, and with a word more where there is one."""
    documents = []
    for document in whole.documents:
        words = document.words if word_of is None else (*document.words, Word(word_of(document)))
        documents.append(replace(document, provider=provider_of(document), words=words))
    return replace(whole, documents=tuple(documents))


def test_documents_that_differ_without_the_model_decide_nothing_though_drawn_by_lot():
    def year(document):
        late = document.split == "heldout" or int(document.id[1:]) % 4 == 0
        return "2019" if late else "2018"

    whole = provided(corpus(60, 60), lambda document: None, year)
    findings = run(MembershipInference(), Case(Knowing(), whole))[-1]
    assert "differ even without the model" in confounded_of(findings)
    assert "by their text" in confounded_of(findings)
    assert measured(findings, "blind_auc").low > 0.6
    assert diagnostics(findings)["blind_p"] <= 0.05
    assert diagnostics(findings)["blind_auc.words"] == pytest.approx(
        measured(findings, "blind_auc").value
    )


@pytest.mark.parametrize(
    ("assigned", "said"),
    [
        ("by-date", "come from different times"),
        ("official", "nobody stated that they were drawn"),
        ("random", ""),
    ],
)
def test_a_weak_blind_check_leaves_documents_that_were_not_drawn_undecided(assigned, said):
    findings = run(MembershipInference(), Case(Knowing(), corpus(5, 5, assigned=assigned)))[-1]
    assert (findings.confounded is None) == (not said)
    assert not said or (said in findings.confounded and "too weak" in findings.confounded)
    assert diagnostics(findings)["blind_power"] < 0.8


def test_by_provider_as_many_members_as_held_out_documents_of_each_are_compared():
    providers = [f"Shop {number}" for number in range(8)]

    def provider_of(document):
        number = int(document.id[1:])
        if (
            document.split == "member"
        ):  # six providers: twelve members each, and two that name no provider
            return None if number >= 72 else providers[number % 6]
        spelling = providers[number % 8]  # all eight: four each
        return spelling.upper() if number % 3 else spelling

    whole = provided(corpus(74, 32, assigned="by-provider"), provider_of)
    attack = MembershipInference()
    trials, _, findings = run(attack, Case(Knowing(), whole))
    kept = Counter(
        (whole.document(trial.cluster).provider.lower(), trial.stratum) for trial in trials
    )
    assert kept == {
        (name.lower(), split): 4 for name in providers[:6] for split in ("member", "heldout")
    }
    found = counts(findings)
    assert found["left out: no counterpart of the same provider"] == 106 - 48
    assert (found["member documents"], found["held-out documents"]) == (24, 24)
    assert (measured(findings, "auc").n, attack.trials(Case(Knowing(), whole))) == (48, trials)
    everything = replace(whole.manifest, membership=Assignment("random"))
    assert len(attack.trials(Case(Knowing(), replace(whole, manifest=everything)))) == 106


def test_what_tells_providers_apart_does_not_confound_documents_compared_within_them():
    def provider_of(document):
        number = int(document.id[1:])
        return f"shop{number % 20}"

    # The word says whose a document is.
    whole = provided(corpus(60, 60, assigned="by-provider"), provider_of, provider_of)
    assert confounded_of(run(MembershipInference(), Case(Knowing(), whole))[-1]) is None

    def stamped(document):
        return f"{provider_of(document)} {'kept' if document.split == 'heldout' else 'used'}"

    marked = provided(corpus(60, 60, assigned="by-provider"), provider_of, stamped)
    assert "without the model" in confounded_of(
        run(MembershipInference(), Case(Knowing(), marked))[-1]
    )


LACKING = {
    "no held-out documents": (corpus(2, 0), "data", "no unseen documents"),
    "no questions": (corpus(2, 2, n_questions=0), "data", "no question in training documents"),
    "no counterparts": (corpus(5, 5, assigned="by-provider"), "missing", ""),
}


@pytest.mark.parametrize(("whole", "kind", "reason"), LACKING.values(), ids=LACKING)
def test_what_a_data_set_lacks_is_said_and_nothing_is_tried(whole, kind, reason):
    attack = MembershipInference()
    case = Case(Knowing(), whole)
    assert {trial.stratum for trial in attack.trials(case)} <= {"member"}
    assert nothing_to_try(attack, case).kind == kind
    assert why(attack, Case(NoModel(whole), whole), "data") == (reason or None)


def test_a_model_without_a_loss_is_no_target_and_without_a_reference_nothing_passes():
    target = Knowing()
    target.answers = frozenset({FillMask})
    assert "no loss" in why(MembershipInference(), Case(target, corpus(2, 2)), "model")
    assert why(MembershipInference(), Case(Knowing(), corpus(2, 2)), "model") is None
    findings = run(MembershipInference(), Case(Knowing(), corpus(1, 5)))[-1]
    assert findings.ablations
    found = measured(findings, "auc")
    assert isinstance(found, Unresolved)
    assert "member" in found.reason


def test_members_and_held_out_documents_are_tried_and_the_first_ones_do_not_depend_on_their_order():
    whole = corpus(20, 20, 30)
    assert {trial.stratum for trial in MembershipInference().trials(Case(Knowing(), whole))} == {
        "member",
        "heldout",
    }
    few = first_by_name(whole.documents, 5)
    more = first_by_name(whole.documents[::-1], 20)
    assert few < more
    assert few != {document.id for document in whole.documents[:5]}


def test_false_alarms_on_leak_free_audits_and_power_on_leaky_ones():
    """A small version of `calibration.membership_calibration`, which has 1,000 audits of each kind."""
    audits = 60
    quiet = share_of_alarms(Setting(documents=80), audits)
    assert (
        max(quiet.values(), default=0) <= 9
    )  # 5 % of 60 is 3; more than 9 has a chance of 1 in 1,000
    loud = share_of_alarms(Setting(documents=80, leak=2.0), 10)
    assert all(loud[f"auc.{score}"] == 10 for score in ("calibrated", "lira"))
    assert loud["tpr_at_fpr_10.lira"] >= 8
