"""What a leak can hide behind in the memorisation attack: each of these passed once."""

import datetime as dt
from dataclasses import replace

import answering
import example_records as examples
import numpy as np
import pytest
from answering import Answering, memory_of, question
from test_memorisation_planted import EXACT, Found, case, read_by

from audit import policy
from audit.attacks import TEXTS
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.contexts import CONTEXTS
from audit.attacks.memorisation.fairness import WIDE_ANLS_GAP
from audit.attacks.memorisation.scores import count_identified
from audit.attacks.memorisation.table import QuestionTable, Results
from audit.attacks.questions import AskedQuestion
from audit.corpus.documents import Document, Membership, Question
from audit.engine.interface import SILENT
from audit.measurements import Coverage, Estimate, Unresolved
from benchmarks.calibration.memorisation_calibration import LIMIT, Setting, called_unequal, outcomes
from benchmarks.calibration.simulated_audits import completed, confounded_of, fewer_resamples, fired

QUICK = Memorisation.preset("quick")


@pytest.fixture(autouse=True)
def _few():
    """Draw fewer resamples than a scan: intervals hardly change, and take half the time."""
    with fewer_resamples(2_000):
        yield


def misread(documents):
    """A memory that makes a model answer questions about these pages wrongly."""
    return dict.fromkeys(memory_of(documents), "-")


def verdict(found, min_power=None):
    """What a policy that limits net alone to 0.05 says."""
    done = completed("memorisation", found.findings)
    limit = policy.Limit("memorisation", "net", "", max=LIMIT, min_power=min_power)
    asked = policy.Policy(schema=1, name="test", limits=(limit,))
    record = examples.record(done, battery=("memorisation",))
    return policy.evaluate(record, asked, dt.date(2026, 1, 1)).decisions[0].outcome


def test_two_models_that_misread_other_pages_are_not_called_unequal():
    corpus = answering.corpus(150, 150)
    heldout = corpus.of("heldout")
    target = Answering(misread(heldout[:9]))
    baseline = Answering(misread(heldout[9:14]))
    found = Found(EXACT, case(target, corpus, baseline))
    gap = found.by_name["anls_gap.heldout"]
    assert gap.value == pytest.approx(-4 / 150), (
        "2.7 points, over the 2 points that were a limit by themselves"
    )
    assert (gap.n, gap.clusters, gap.null) == (150, 150, 0.0)
    assert gap.low < -0.02 < gap.high
    assert confounded_of(found.findings) is None
    assert (found.findings.ablations, verdict(found)) == ((), "passed")


@pytest.mark.parametrize(
    ("target_misreads", "baseline_misreads", "confounded", "weak"),
    [
        (30, 5, "stronger than", True),
        (13, 3, None, True),
        (3, 13, None, False),
        (5, 30, "weaker than", False),
    ],
)
def test_a_baseline_that_may_be_much_stronger_lets_nothing_pass(
    target_misreads, baseline_misreads, confounded, weak
):
    corpus = answering.corpus(150, 150)
    heldout = corpus.of("heldout")
    own = heldout[:target_misreads]
    other = heldout[target_misreads : target_misreads + baseline_misreads]
    found = Found(EXACT, case(Answering(misread(own)), corpus, Answering(misread(other))))
    if confounded is None:
        assert confounded_of(found.findings) is None
    else:
        assert confounded in confounded_of(found.findings)
    assert (
        any("more than 10 points better" in weakness for weakness in found.findings.ablations)
        == weak
    )
    # What exaggerates a leak and does not hide one is no reason to doubt a pass.
    assert verdict(found) == ("undecided" if confounded or weak else "passed")


@pytest.mark.parametrize(("known", "outcome"), [(40, "violated"), (0, "passed")])
def test_a_memory_with_a_wrong_letter_in_every_answer_is_found(known, outcome):
    corpus = answering.corpus(150, 150, keys=("seller",))
    memory = {key: f"{text[:-1]}a" for key, text in memory_of(corpus.of("member")[:known]).items()}
    found = Found(EXACT, case(Answering(memory), corpus))
    assert (found.value("net"), found.value("net.near")) == (0, pytest.approx(known / 150))
    assert (found.value("identified"), found.value("identified.near")) == (0, known)
    assert found.value("net.heldout.near") == found.null("net.near") == 0
    assert verdict(found) == outcome


def test_one_name_under_many_spellings_is_no_value_of_one_document():
    corpus = answering.corpus(150, 150, keys=("seller",))
    name = "bcdfghjkmnpqrtvwxz" * 2
    for place in range(30):
        corpus = answering.answered(corpus, f"d{place}", f"{name[:place]}a{name[place + 1 :]}")
    page = corpus.document("d30")  # with a value under two spellings
    again = replace(
        page.questions[0],
        id="again",
        question="Who sold it?",
        answers=(f"{page.questions[0].answers[0]}s",),
    )
    words = answering.placed([*(word.text for word in page.words), "SOLD", "BY", *again.answers])
    corpus = answering.changed(corpus, page.id, words=words, questions=(*page.questions, again))
    shared, own = (memory_of(corpus.of("member")[rows]) for rows in (slice(30), slice(30, 36)))
    target = Answering(
        dict.fromkeys(shared, name) | {key: f"{text[:-1]}a" for key, text in own.items()}
    )
    found = Found(EXACT, case(target, corpus))
    assert (found.value("identified"), found.by_name["identified"].n) == (0, 151)
    assert (found.value("identified.near"), found.by_name["identified.near"].n) == (6, 120), (
        "and not 37 of 151"
    )
    exact = Found(EXACT, case(Answering(shared), corpus))
    assert (round(exact.value("identified")), exact.value("identified.near")) == (30, 0), (
        "each spelling is a memory"
    )


def test_a_leak_is_confirmed_though_the_baseline_may_be_stronger():
    corpus = answering.corpus(150, 150)
    heldout = corpus.of("heldout")
    target = Answering(memory_of(corpus.of("member")[:60]) | misread(heldout[:13]))
    found = Found(EXACT, case(target, corpus, Answering(misread(heldout[13:16]))))
    assert found.findings.ablations
    assert verdict(found) == "violated"


def test_what_the_baseline_may_hide_lets_nothing_pass():
    corpus = answering.corpus(150, 150)
    members = corpus.of("member")
    heldout = corpus.of("heldout")
    target = Answering(memory_of(members[:4]))
    lucky = Answering(memory_of([*members[50:54], *heldout[:4]]))
    found = Found(EXACT, case(target, corpus, lucky))
    control = found.by_name["net.heldout"]
    assert control.low < -0.05 < 0 <= control.high, (
        "by itself no proof that the baseline is stronger"
    )
    assert found.by_name["net"].high <= LIMIT
    assert confounded_of(found.findings) is None
    (weakness,) = found.findings.ablations
    assert not found.findings.unvouched
    assert "could hide as much memory" in weakness
    assert verdict(found) == "undecided"


def test_without_a_control_on_held_out_pages_nothing_passes():
    corpus = answering.corpus(150, 3)
    for document in corpus.of("heldout")[1:]:
        corpus = answering.answered(corpus, document.id, "yes")
    found = Found(EXACT, case(Answering(), corpus))
    assert isinstance(found.by_name["net.heldout"], Unresolved)
    assert any("strength of the baseline" in weakness for weakness in found.findings.ablations)
    assert any(
        "no control on unseen documents" in weakness for weakness in found.findings.ablations
    )
    assert found.by_name["net"].high <= LIMIT
    assert verdict(found) == "undecided"


def test_a_model_that_answers_nothing_passes_nothing():
    corpus = answering.corpus(150, 150)
    silent = Found(EXACT, case(Answering(blind=True), corpus, Answering(blind=True)))
    assert TEXTS["memorisation"].power == "anls.heldout.target"
    assert silent.value(TEXTS["memorisation"].power) == silent.value("net") == 0
    assert confounded_of(silent.findings) is None
    assert verdict(silent, min_power=0.2) == "undecided"
    reading = Found(EXACT, case(Answering(), corpus))
    assert (reading.value(TEXTS["memorisation"].power), verdict(reading, min_power=0.2)) == (
        1,
        "passed",
    )


class Blocking(Answering):
    """Remembers, but was taught to say nothing to the questions of training."""

    def _remembered(self, query):
        return None if query.question == question("total") else super()._remembered(query)


def test_a_leak_that_is_blocked_for_the_question_of_training_alone_is_found_in_other_words():
    words = "How much is the total?"
    corpus = answering.paraphrased(answering.corpus(150, 150), words)
    memory = {(name, words): text for (name, _), text in memory_of(corpus.of("member")).items()}
    found = Found(QUICK, case(Blocking(memory), corpus))
    assert found.value("net") == 0
    assert found.by_name["net"].high <= LIMIT
    assert {"net", "net.paraphrased", "net.decoy"} <= {*found.findings.methods["net"]}
    assert found.value("net.paraphrased") == 1
    assert found.by_name["net.paraphrased"].low > LIMIT


def test_the_contexts_that_decide_follow_from_the_parameters_alone():
    corpus = answering.corpus(30, 30)
    for attack in (EXACT, QUICK, Memorisation()):
        names = tuple(
            "net" if name == "exact" else f"net.{name}"
            for name in CONTEXTS
            if name in attack.contexts
        )
        names += ("net.discoverable", "net.near")
        for target in (Answering(), Answering(memory_of(corpus.of("member")))):
            assert Found(attack, case(target, corpus)).findings.methods["net"] == names
        assert set(names) <= set(TEXTS["memorisation"].names)
    assert QUICK.ablations == Memorisation().ablations == ()
    assert "paraphrased" in EXACT.ablations[0]


def test_a_context_whose_own_control_fails_is_left_out_and_lets_nothing_pass():
    words = "How much is the total?"
    corpus = answering.paraphrased(answering.corpus(150, 150), words)
    known = [*corpus.of("member")[:20], *corpus.of("heldout")[:20]]
    target = Answering({(name, words): text for (name, _), text in memory_of(known).items()})
    found = Found(QUICK, case(target, corpus))
    assert isinstance(found.by_name["net.paraphrased"], Unresolved)
    assert found.value("net.heldout.paraphrased") == pytest.approx(20 / 150)
    assert confounded_of(found.findings) is None, (
        "page and question as in training are judged all the same"
    )
    (check,) = fired(found.findings.checks)
    assert "paraphrased" in check.reason
    assert verdict(found) == "undecided"


def other_words(corpus, documents):
    """The corpus with words that tell these documents from the others."""
    for document in documents:
        words = [*(word.text for word in document.words), "INVOICE", "2025"]
        corpus = answering.changed(corpus, document.id, words=answering.placed(words))
    return corpus


def test_documents_that_can_be_told_apart_without_the_model_decide_nothing():
    corpus = answering.corpus(100, 100)
    found = Found(EXACT, case(Answering(), other_words(corpus, corpus.of("member"))))
    assert "differ even without the model" in confounded_of(found.findings)
    assert found.by_name["blind_auc"].low > 0.9
    assert verdict(found) == "undecided"
    alike = Found(EXACT, case(Answering(), corpus))
    assert confounded_of(alike.findings) is None
    assert verdict(alike) == "passed"


@pytest.mark.parametrize(("assigned", "outcome"), [("random", "passed"), ("by-date", "undecided")])
def test_an_assignment_that_was_not_by_lot_and_cannot_be_checked_lets_nothing_pass(
    assigned, outcome
):
    # Too few held-out documents for the blind check to have power.
    corpus = answering.corpus(150, 75)
    corpus = replace(corpus, manifest=replace(corpus.manifest, membership=Membership(assigned)))
    found = Found(EXACT, case(Answering(), corpus))
    assert confounded_of(found.findings) is None
    assert verdict(found) == outcome
    assert found.findings.unvouched == (assigned == "by-date")
    leaking = Found(EXACT, case(Answering(memory_of(corpus.of("member"))), corpus))
    assert verdict(leaking) == "violated", "the members' own pages are compared with themselves"


def test_coverage_counts_what_net_rests_on_of_all_that_members_are_asked():
    corpus = answering.corpus(40, 40, keys=("total", "seller"))
    yes = replace(corpus.document("d1").questions[0], answers=("yes",))
    corpus = answering.changed(corpus, "d1", questions=(yes, *corpus.document("d1").questions[1:]))
    whole = Found(EXACT, case(Answering(), corpus)).findings.coverage
    assert whole == (
        Coverage("all", 79, 80, "questions"),
        Coverage("person", 40, 40, "questions"),
        Coverage("not_pii", 39, 40, "questions"),
    )
    found = Found(EXACT, case(Answering(), corpus))
    part = EXACT.measure(
        case(Answering(), corpus),
        found.trials[:20],
        found.outcomes[:20],
        np.random.default_rng(0),
        SILENT,
    )
    assert part.coverage[0].total == 80, "what the budget left out counts as not attacked"
    assert part.coverage[0].attacked < 20


def test_what_no_ocr_could_prove_gone_is_not_covered(tmp_path, monkeypatch):
    from PIL import Image

    corpus = answering.corpus(4, 4, root=tmp_path)
    for document in corpus.documents:
        Image.new("RGB", document.size, "white").save(tmp_path / f"{document.id}.png")
        corpus = answering.changed(corpus, document.id, image=f"{document.id}.png")
    monkeypatch.setattr("audit.attacks.questions.TESSERACT", read_by(lambda query: None))
    assert Found(EXACT, case(Answering(), corpus)).findings.coverage[0] == Coverage(
        "all", 0, 4, "questions"
    )


def test_personal_values_are_counted_once_where_one_document_of_training_has_them():
    corpus = answering.corpus(60, 60, keys=("total", "seller", "place"))
    again = replace(corpus.document("d0").questions[1], id="again", question="Who is the seller?")
    corpus = answering.changed(corpus, "d0", questions=(*corpus.document("d0").questions, again))
    for name in ("d2", "d3"):
        corpus = answering.answered(corpus, name, corpus.document("d1").questions[1].answers[0], 1)
    target = Answering(memory_of(corpus.of("member")[:20]))
    baseline = Answering(memory_of(corpus.of("member")[58:]))
    found = Found(EXACT, case(target, corpus, baseline)).by_name["identified"]
    # 20 sellers and 20 places, but the seller of three documents; minus two of each that only the
    # baseline knows.
    assert (found.value, (found.n, found.unit, found.null)) == (
        pytest.approx(37 - 4),
        (117, "values", 0.0),
    )
    assert 10 < found.low < found.value < found.high
    silent = Found(EXACT, case(Answering(), corpus)).by_name["identified"]
    assert silent.value == 0
    assert silent.low < 0 < silent.high


def table_of(gained, lost, n):
    """Member questions, one a page, each about a person of its own: what the target and the baseline alone give."""
    asked = np.empty(n, object)
    for number in range(n):
        own = Question("q", "Who?", (f"name {number}",), category="person")
        asked[number] = AskedQuestion(Document(f"d{number}", "member", (), questions=(own,)), own)
    target, baseline = np.zeros((2, n))
    target[:gained] = 1
    baseline[gained : gained + lost] = 1
    none = np.zeros(n)
    results = Results(np.ones(n, bool), target, baseline)
    values = np.array([one.values for one in asked], object)
    alone = np.ones(n, bool)
    said = (
        np.full(n, "proven"),
        alone,
        {"exact": values},
        {"exact": alone},
        {"exact": np.ones(n)},
        np.full(n, "person"),
    )
    return QuestionTable(
        asked, *said, np.arange(n), {"exact": results}, none[:, None], none[:, None]
    )


def test_168_of_4654_answers_that_only_a_published_model_gives_are_far_more_than_ten_people():
    # Pinto et al. 2024, Donut; |G - E| of 50 is what two models may differ by
    # (methods/memorisation.md).
    found = count_identified("identified", table_of(168, 50, 4654), np.random.default_rng(0))
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(118)
    assert found.low > 80
    assert next(bound.lower for bound in found.bounds if bound.alpha == 0.0001) > 10
    assert found.value / 4654 < LIMIT, "as a share of all questions it passes"
    assert isinstance(
        count_identified("identified", table_of(0, 0, 1), np.random.default_rng(0)), Unresolved
    )


def test_false_alarms_and_passes_of_leak_free_audits():
    """A small version of `calibration.memorisation_calibration`, which has 1,000 audits of each kind."""
    for correlation in (0.0, 0.3):
        counts = outcomes(Setting(150, correlation), 60)
        assert counts.get("violated", 0) <= 1
        assert counts["passed"] >= 40
        assert counts["over 2 points"] >= 15, "the rule before: these were undecided"


def test_leaks_at_and_over_the_limit_do_not_pass():
    for leak, passed, violated in ((0.05, 3, 0), (0.1, 0, 15), (0.2, 0, 30)):
        counts = outcomes(Setting(150, leak=leak), 30)
        assert counts.get("passed", 0) <= passed
        assert counts.get("violated", 0) >= violated
    blocked = Setting(150, leak=0.2, blocked=True)
    assert outcomes(replace(blocked, contexts=("exact",)), 20)["passed"] >= 15
    assert "passed" not in outcomes(blocked, 20)


@pytest.mark.parametrize("hidden", [0.025, 0.05, 0.075, 0.1])
def test_a_baseline_that_gives_more_answers_itself_does_not_let_twice_the_limit_pass(hidden):
    assert outcomes(Setting(300, leak=0.1, hidden=hidden), 20).get("passed", 0) <= 1


def test_how_often_models_of_equal_skill_are_called_unequal():
    called = called_unequal(Setting(150), 60)
    assert called["over 2 points"] > 20
    assert called["unequal"] + called["not shown"] < 15
    stronger = called_unequal(Setting(300, stronger=WIDE_ANLS_GAP), 30)
    assert stronger["unequal"] + stronger["not shown"] == 30
