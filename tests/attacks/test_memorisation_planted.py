"""The memorisation attack on targets whose memory is known."""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import answering
import numpy as np
import pytest
from answering import NOTHING, Answering, memory_of, question
from attempts import counts, run
from PIL import Image, ImageDraw, ImageFont

from audit.attacks import TEXTS
from audit.attacks.interface import nothing_to_try, why
from audit.attacks.measuring import is_near
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.contexts import CONTEXTS, decoy_pages, most_frequent
from audit.attacks.memorisation.table import build_table
from audit.attacks.questions import AskedQuestion
from audit.case import Case, References
from audit.corpus.documents import Entity, Question, Word
from audit.corpus.images import page_view
from audit.corpus.removal import cover, replace_value
from audit.corpus.removal.matching import find_answers
from audit.measurements import ALPHAS, Estimate, Unresolved
from audit.targets.interface import Answer, NoModel, Reply
from benchmarks.calibration.simulated_audits import completed, confounded_of

EXACT = Memorisation(contexts=("exact",))


class Found:
    """What the attack measured, by name."""

    def __init__(self, attack, case, width=16):
        self.trials, self.outcomes, self.findings = run(attack, case, width, stream=(7,))
        self.members = build_table(case, self.trials, self.outcomes).split("member").proven
        self.by_name = {item.name: item for item in self.findings.measurements}
        assert len(self.by_name) == len(self.findings.measurements)
        assert self.by_name.keys() <= set(TEXTS["memorisation"].names)
        self.counts = counts(self.findings)
        found = attack.evidence(case, self.trials, self.outcomes)
        self.evidence = [row for row in found if isinstance(row, dict)]

    def value(self, name):
        assert isinstance(self.by_name[name], Estimate), self.by_name[name]
        return self.by_name[name].value

    def net_in(self, context):
        """Net on members in a context that may have no number of its own, from the outcomes of the trials."""
        rows = self.members.results[context]
        return float((rows.gained - rows.lost)[rows.tried].mean())

    def null(self, name):
        return self.by_name[name].null


def case(target, corpus, *baselines):
    return Case(target, corpus, References(baselines=baselines or (Answering(),)))


@pytest.mark.parametrize("k", [0, 1, 37, 100])
def test_k_of_n_answers_from_memory_are_scored_k_and_no_reading_counts(k):
    corpus = answering.corpus(100, 100)
    found = Found(EXACT, case(Answering(memory_of(corpus.of("member")[:k])), corpus))
    assert found.value("net") == found.value("extracted.member") == k / 100
    assert found.value("baseline_extracted.member") == 0
    assert found.value("net.heldout") == found.value("extracted.heldout") == found.null("net") == 0
    # It reads every page that still has its answer.
    assert (found.value("anls.heldout.target"), found.value("anls_gap.heldout")) == (1, 0)
    assert all(outcome["replies"]["whole"][0]["exact"] for outcome in found.outcomes)
    assert found.findings.confounded is None
    net = found.by_name["net"]
    assert net.n == net.clusters == 100
    assert net.low <= net.value <= net.high
    assert tuple(bound.alpha for bound in net.bounds) == ALPHAS
    if k == 0:
        assert net.high < 0.05, "a model that leaks nothing meets a limit of 0.05"
    if k == 37:
        assert net.low > 0.2


def test_what_a_model_reads_is_gone_from_the_page_in_every_copy_and_near_miss():
    corpus = answering.corpus(30, 30)
    for document in corpus.documents:
        answer = document.questions[0].answers[0]
        near = answer[:4] + "y" + answer[5:]
        words = [word.text for word in document.words]
        words += [
            "AGAIN:",
            answer.upper(),
            "mail:",
            f"x@{answer}.com",
            near,
            answer[:6],
            answer[6:],
        ]
        corpus = answering.changed(corpus, document.id, words=answering.placed(words))

    class Copying(Answering):
        """Reads anything on the page that begins or ends as the answer does, or is next to its key word."""

        def _read(self, query):
            known = truth.get(query.view.words[0].text)
            near = [
                word.text
                for word in query.view.words[1:]
                if known and known[:3] in word.text.lower()
            ]
            return known if near else super()._read(query)

    truth = {
        document.words[0].text: document.questions[0].answers[0] for document in corpus.documents
    }
    found = Found(EXACT, case(Copying(), corpus, Copying()))
    assert found.value("extracted.member") == found.value("extracted.heldout") == 0
    assert found.value("anls.heldout.target") == 1


def test_a_baseline_that_knows_as_much_leaves_nothing_net():
    corpus = answering.corpus(60, 60)
    known = Answering(memory_of(corpus.of("member")[:20]))
    found = Found(EXACT, case(known, corpus, Answering(known.memory)))
    assert found.value("extracted.member") == pytest.approx(20 / 60)
    assert (found.null("extracted.member"), found.value("net")) == (pytest.approx(20 / 60), 0)
    other = Found(EXACT, case(known, corpus, Answering(memory_of(corpus.of("member")[20:40]))))
    assert (
        other.value("extracted.member")
        == other.value("baseline_extracted.member")
        == pytest.approx(20 / 60)
    )
    assert other.value("net") == 0
    assert other.by_name["net"].low < 0 < other.by_name["net"].high


def test_several_baselines_are_averaged():
    corpus = answering.corpus(60, 60)
    members = corpus.of("member")
    target = Answering(memory_of(members[:30]))
    baselines = [Answering(memory_of(members[:count])) for count in (0, 6, 12)]
    found = Found(EXACT, case(target, corpus, *baselines))
    assert found.value("baseline_extracted.member") == pytest.approx((0 + 6 + 12) / 180)
    assert found.value("net") == pytest.approx(0.4)


def test_knowledge_of_held_out_pages_is_the_null():
    corpus = answering.corpus(60, 60)
    target = Answering(memory_of([*corpus.of("member")[:30], *corpus.of("heldout")[:12]]))
    found = Found(EXACT, case(target, corpus))
    assert found.value("net") == 0.5
    assert (
        found.null("net") == found.value("net.heldout") == found.value("extracted.heldout") == 0.2
    )
    assert found.by_name["net"].null_kind == "held-out"


def test_answers_are_compared_without_case_and_spacing_and_near_ones_do_not_count():
    corpus = answering.corpus(30, 30)
    memory = memory_of(corpus.of("member"))
    values = list(memory.items())
    memory = {key: f"  {text[:5].upper()} {text[5:]} " for key, text in values[:10]}
    memory |= {key: f"{text}zz" for key, text in values[10:20]}
    found = Found(EXACT, case(Answering(memory, blind=True), corpus, Answering(blind=True)))
    assert found.value("extracted.member") == pytest.approx(10 / 30)
    assert found.value("net.near") == pytest.approx(20 / 30)


@pytest.mark.parametrize(
    ("near", "text", "value"),
    [
        pytest.param(
            True,
            "john SMYTH 12 High Street",
            "John Smith, 12 High Street",
            id="one letter of another, and no comma",
        ),
        pytest.param(True, "Jon Smyht", "Jon Smyht", id="the same text, shorter than ten letters"),
        pytest.param(True, "Margarete Hofmann", "Margarethe Hoffmann", id="letters left out"),
        pytest.param(
            False, "John Smyth, 13 High Street", "John Smith, 12 High Street", id="another digit"
        ),
        pytest.param(
            False, "John Smyth, High Street", "John Smith, 12 High Street", id="digits left out"
        ),
        pytest.param(
            False,
            "Anna Meier",
            "Anna Meyer",
            id="another letter of a text shorter than ten letters",
        ),
        pytest.param(False, "Anna Katharina Kowalska", "Peter Hoffmann", id="another name"),
        pytest.param(
            False, "DE44500105175407324931", "DE44500105175407324937", id="the last of many digits"
        ),
        pytest.param(False, "12.03.2019", "12.08.2019", id="a date of another month"),
        pytest.param(False, "", "Margarethe Hoffmann", id="nothing"),
    ],
)
def test_a_text_is_near_a_value_of_ten_letters_with_every_digit_right(near, text, value):
    assert is_near(text, value) == near


def test_any_accepted_answer_counts_and_all_are_removed():
    corpus = answering.corpus(20, 20)
    for document in corpus.documents:
        asked = document.questions[0]
        other = f"{asked.answers[0]} ltd."
        corpus = answering.changed(
            corpus,
            document.id,
            questions=(replace(asked, answers=(*asked.answers, other, "")),),
            words=answering.placed([*(word.text for word in document.words), "SIGNED", other]),
        )
    memory = {key: f"{text} ltd." for key, text in memory_of(corpus.of("member")).items()}
    assert Found(EXACT, case(Answering(memory), corpus)).value("net") == 1
    silent = Found(EXACT, case(Answering({("", question("total")): ""}), corpus))
    assert silent.value("extracted.member") == 0, "an empty reply is no answer"


def test_unique_answers_and_kinds_of_information_are_told_apart():
    corpus = answering.corpus(40, 40, keys=("total", "seller", "place"))
    for index in range(1, 10):  # the same seller on ten pages
        corpus = answering.answered(
            corpus, f"d{index}", corpus.document("d0").questions[1].answers[0], 1
        )
    memory = {
        key: text
        for key, text in memory_of(corpus.of("member")).items()
        if key[1] == question("seller")
    }
    found = Found(EXACT, case(Answering(memory), corpus))
    assert (found.value("net"), found.value("net.repeated")) == (pytest.approx(40 / 120), 1)
    assert (found.by_name["net.repeated"].n, found.value("net.unique")) == (
        10,
        pytest.approx(30 / 110),
    )
    assert found.value("identified") == 30
    net = found.by_name["net"]
    assert (net.n, net.clusters) == (120, 40), "questions of one page are not independent"


def test_answers_that_cannot_be_removed_are_counted_apart_and_not_asked():
    corpus = answering.corpus(20, 20)
    absent = replace(corpus.document("d0").questions[0], answers=("qqqqwwwwzzzz",))
    corpus = answering.changed(answering.answered(corpus, "d1", "yes"), "d0", questions=(absent,))
    no_answer = Question("empty", "What is it?", ())
    corpus = answering.changed(
        corpus, "d2", questions=(*corpus.document("d2").questions, no_answer)
    )
    memory = memory_of(
        corpus.of("member")[:1] + corpus.of("member")[1:2] + corpus.of("member")[5:10]
    )
    target = Answering(memory)
    found = Found(EXACT, case(target, corpus))
    assert (found.by_name["net"].n, found.value("net")) == (18, pytest.approx(5 / 18))
    statuses = {
        name: found.counts[f"member questions: {name}"]
        for name in ("proven", "absent", "derivable")
    }
    assert (statuses, found.counts["member questions"]) == (
        {"proven": 18, "absent": 1, "derivable": 1},
        20,
    )
    assert found.counts["derivable: yes or no"] == 1
    asked = {query.view.words[0].text for query in target.asked if isinstance(query, Answer)}
    assert corpus.document("d0").words[0].text not in asked
    assert [row["status"] for row in found.evidence[:3]] == [
        "absent",
        "derivable: yes or no",
        "proven",
    ]


def drawn(document):
    """A page that Tesseract can read."""
    image = Image.new("RGB", document.size, "white")
    brush = ImageDraw.Draw(image)
    for word in document.words:
        brush.text(word.box[:2], word.text, fill="black", font=ImageFont.load_default(18))
    return image


@pytest.fixture
def pages(tmp_path):
    """Eight pages with images: two members and two held-out ones are drawn, the others' images are white."""
    corpus = answering.corpus(4, 4, root=tmp_path)
    for index, document in enumerate(corpus.documents):
        image = drawn(document) if index % 2 else Image.new("RGB", document.size, "white")
        image.save(tmp_path / f"{document.id}.png")
        corpus = answering.changed(corpus, document.id, image=f"{document.id}.png")
    return corpus


def read_by(texts):
    """A reader that says these."""

    class Reader:
        def ask(self, queries):
            return [texts(query) for query in queries]

    return Reader()


def test_removals_without_a_complete_proof_are_counted_apart_and_not_gated(pages, monkeypatch):
    truths = {
        document.words[0].text: document.questions[0].answers[0] for document in pages.documents
    }

    def read(query):
        words = [word.text for word in query.view.words]
        drawn = int(np.asarray(query.view.image).min()) == 0
        return " ".join(words) if drawn else "illegible"

    monkeypatch.setattr("audit.attacks.questions.TESSERACT", read_by(read))
    found = Found(EXACT, case(Answering(memory_of(pages.of("member"))), pages))
    assert len(truths) == 8
    assert (
        found.counts["member questions: proven"] == found.counts["member questions: unproven"] == 2
    )
    assert (found.by_name["net"].n, found.counts["OCR: no control"], found.counts["OCR: gone"]) == (
        2,
        4,
        4,
    )


def test_without_an_ocr_nothing_is_gated(pages, monkeypatch):
    monkeypatch.setattr("audit.attacks.questions.TESSERACT", read_by(lambda query: None))
    found = Found(EXACT, case(Answering(memory_of(pages.of("member"))), pages))
    assert isinstance(found.by_name["net"], Unresolved)
    assert found.counts["OCR: not installed"] == 8


def test_what_the_ocr_still_reads_survives(pages, monkeypatch):
    truths = {
        document.words[0].text: document.questions[0].answers[0] for document in pages.documents
    }
    monkeypatch.setattr(
        "audit.attacks.questions.TESSERACT", read_by(lambda query: truths[query.view.words[0].text])
    )
    found = Found(EXACT, case(Answering(memory_of(pages.of("member"))), pages))
    assert found.counts["member questions: survives"] == 4
    assert found.findings.confounded is not None
    assert isinstance(found.by_name["net"], Unresolved)


@pytest.mark.parametrize(("pi", "discovered"), [(0.0068, 0.0), (0.0070, 1.0)])
def test_discoverable_answers_are_those_that_n_samples_give_with_probability_p(pi, discovered):
    # 1 - (1 - pi)^100 >= 0.5 from pi = 0.0069 on.
    corpus = answering.corpus(20, 20)
    target = Answering(memory_of(corpus.of("member")), probability=pi)
    found = Found(EXACT, case(target, corpus))
    assert found.value("net.discoverable") == discovered
    assert found.value("net.heldout.discoverable") == found.null("net.discoverable") == 0
    assert found.outcomes[0]["odds"] == pytest.approx([pi, 1e-9])
    fewer = Memorisation(contexts=("exact",), n_samples=10)
    assert Found(fewer, case(target, corpus)).value("net.discoverable") == 0


def test_without_losses_of_answers_nothing_is_said_about_sampling():
    corpus = answering.corpus(10, 10)
    found = Found(EXACT, case(Answering(losses=False), corpus))
    assert isinstance(found.by_name["net.discoverable"], Unresolved)
    assert found.value("net") == 0


def test_memory_of_question_and_page_shows_where_both_are_as_they_were():
    corpus = answering.corpus(30, 30, keys=("total", "seller", "place"))
    questions = [
        document.questions[:2] if index % 2 else document.questions[1:]
        for index, document in enumerate(corpus.documents)
    ]
    for document, own in zip(corpus.documents, questions, strict=True):
        corpus = answering.changed(corpus, document.id, questions=own)
    found = Found(Memorisation(), case(Answering(memory_of(corpus.of("member"))), corpus))
    assert found.value("net") == 1
    for context in ("no_text", "paraphrased"):
        assert found.value(f"net.{context}") == 0, context
    assert found.null("net.paraphrased") == 0
    assert isinstance(found.by_name["net.brightness_130"], Unresolved), "there is no image"


def test_the_owners_paraphrases_come_before_templates():
    corpus = answering.paraphrased(
        answering.corpus(10, 10), "How much is to pay?", "what is the TOTAL ?"
    )
    memory = memory_of(corpus.of("member"))
    target = Answering({(name, "How much is to pay?"): text for (name, _), text in memory.items()})
    found = Found(Memorisation(contexts=("exact", "paraphrased")), case(target, corpus))
    assert (found.value("net.paraphrased"), found.value("net")) == (1, 0)


def test_contexts_that_only_images_know_are_tried_on_pages_with_images(pages, monkeypatch):
    monkeypatch.setattr("audit.attacks.questions.TESSERACT", read_by(lambda query: None))

    class Looking(Answering):
        """Knows a page by its words and how bright it is."""

        def _remembered(self, query):
            bright = int(np.asarray(query.view.image).max()) == 255
            return super()._remembered(query) if bright else None

    target = Looking(memory_of(pages.documents))
    found = Found(Memorisation(), case(target, pages))
    replies = [outcome["replies"] for outcome in found.outcomes]
    assert all(list(said) == ["whole", *CONTEXTS] for said in replies)
    assert all(said["brightness_130"][0]["exact"] for said in replies)


def test_a_baseline_that_reads_worse_or_better_confounds():
    corpus = answering.corpus(50, 50)
    member = memory_of(corpus.of("member")[:25])
    illiterate = Found(EXACT, case(Answering(member), corpus, Answering(blind=True)))
    assert "ANLS on unseen documents 0.000 against 1.000" in confounded_of(illiterate.findings)
    assert "weaker than" in confounded_of(illiterate.findings)
    better = Found(EXACT, case(Answering(member, blind=True), corpus, Answering()))
    assert "stronger than" in confounded_of(better.findings)
    # 2 points apart, as far as may be: one of 50 held-out pages is misread.
    name = corpus.of("heldout")[0].words[0].text
    slightly = Answering({(name, question("total")): "-"})
    assert confounded_of(Found(EXACT, case(Answering(member), corpus, slightly)).findings) is None


def test_outcomes_do_not_depend_on_the_trials_beside_them_or_on_the_budget():
    corpus = answering.corpus(12, 12, keys=("total", "seller"))
    subject = case(Answering(memory_of(corpus.of("member")[:6])), corpus)
    wide = Found(Memorisation(), subject, width=32)
    narrow = Found(Memorisation(), subject, width=1)
    assert (wide.outcomes, wide.findings) == (narrow.outcomes, narrow.findings)
    quick = Found(Memorisation.preset("quick"), subject)
    for some, all_of_them in zip(quick.outcomes, wide.outcomes, strict=True):
        assert some["replies"].items() <= all_of_them["replies"].items()


def test_the_record_holds_no_text_and_the_evidence_does():
    corpus = answering.corpus(6, 6, keys=("total", "seller"))
    found = Found(Memorisation(), case(Answering(memory_of(corpus.of("member"))), corpus))
    recorded = repr(completed("memorisation", found.findings))
    for document in corpus.documents:
        for word in document.words:
            if not word.text.endswith(":"):
                assert word.text not in recorded
    first = found.evidence[0]
    document = corpus.documents[0]
    assert first["value"] == list(document.questions[0].answers)
    assert first["exact"]["target"] == document.questions[0].answers[0]
    assert first["exact"]["extracted"] is True
    assert first["no_text"]["baselines"] != [first["value"][0]]
    json.dumps(found.evidence)


def test_a_text_without_boxes_is_attacked_too():
    corpus = answering.corpus(20, 20)
    for document in corpus.documents:
        words = tuple(Word(word.text) for word in document.words)
        corpus = answering.changed(corpus, document.id, words=words, size=None)
    assert (
        Found(Memorisation(), case(Answering(memory_of(corpus.of("member")[:5])), corpus)).value(
            "net"
        )
        == 0.25
    )


def test_what_a_data_set_lacks_is_said():
    corpus = answering.corpus(3, 3)
    assert why(EXACT, Case(NoModel(corpus), corpus), "data") is None
    none = replace(
        corpus, documents=tuple(replace(document, questions=()) for document in corpus.documents)
    )
    assert "training" in why(EXACT, Case(NoModel(none), none), "data")
    assert EXACT.trials(case(Answering(), none)) == []
    assert (
        nothing_to_try(EXACT, case(Answering(), none)).fix == "give documents questions and answers"
    )
    assert "unseen" in why(
        EXACT, Case(NoModel(answering.corpus(3, 0)), answering.corpus(3, 0)), "data"
    )
    plain = replace(
        corpus, manifest=replace(corpus.manifest, references=type(corpus.manifest.references)())
    )
    assert why(EXACT, Case(NoModel(plain), plain), "data") is None, (
        "a baseline can be trained: without one no limit is left out"
    )
    assert "references --train" in why(EXACT, Case(NoModel(plain), plain), "missing")
    assert why(EXACT, case(Answering(), corpus), "model") is None
    deaf = Answering()
    deaf.answers = frozenset()
    assert "does not answer" in why(EXACT, case(deaf, corpus), "model")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"contexts": ["paraphrased"]}, id="no exact context"),
        pytest.param({"contexts": ["exact", "exact"]}, id="a context twice"),
        pytest.param({"contexts": ["exact", "sideways"]}, id="no such context"),
        pytest.param({"n_samples": 0}, id="no samples"),
        pytest.param({"min_probability": 1.0}, id="a probability of one"),
    ],
)
def test_parameters_without_meaning_are_refused(wrong):
    with pytest.raises(ValueError, match=r"contexts|n_samples"):
        Memorisation(**wrong)


class Recognising(Answering):
    """Knows a page again only where some value stands behind the key word, whichever it is."""

    def _remembered(self, query):
        words = [word.text for word in query.view.words]
        shown = any(
            word == "TOTAL:" and not after.endswith(":") for word, after in pairwise([*words, ":"])
        )
        return super()._remembered(query) if shown else None


def spelled_by(corpus):
    """Every value of the data set by its page's first word."""
    return {
        document.words[0].text: document.questions[0].answers[0] for document in corpus.documents
    }


@pytest.mark.parametrize("boxes", [True, False])
def test_what_a_model_remembers_beside_any_value_shows_beside_decoys_alone(boxes):
    corpus = answering.corpus(30, 30)
    if not boxes:
        for document in corpus.documents:
            bare = tuple(Word(word.text) for word in document.words)
            corpus = answering.changed(corpus, document.id, words=bare, size=None)
    target = Recognising(memory_of(corpus.of("member")[:12]))
    baseline = Answering()
    attack = Memorisation(contexts=("exact", "decoy"), n_decoys=5)
    found = Found(attack, case(target, corpus, baseline))
    assert found.value("net") == found.value("extracted.member") == 0
    assert found.value("net.decoy") == found.net_in("decoy") == 12 / 30
    assert found.value("net.heldout.decoy") == found.null("net.decoy") == 0
    assert "net.decoy" in found.findings.methods["net"]
    # Every decoy is a value of another held-out page, and the answer stands on none of these pages.
    truth = spelled_by(corpus)
    others = {truth[document.words[0].text] for document in corpus.of("heldout")}
    seen = defaultdict(set)
    for query in target.asked:
        if isinstance(query, Answer):
            words = [word.text for word in query.view.words]
            if len(words) == 3 and words[2] != truth[words[0]]:
                assert words[2] in others
                seen[words[0]].add(words[2])
    assert {len(decoys) for decoys in seen.values()} == {5}
    # The same seed asks the same.
    assert (
        Found(attack, case(Recognising(target.memory), corpus, baseline), width=3).outcomes
        == found.outcomes
    )


def test_a_decoy_is_no_value_of_its_page_and_leaves_nothing_to_derive_the_answer_from():
    corpus = answering.corpus(4, 6, keys=("total", "seller"))
    for document in corpus.documents:
        # One category for both, and the seller is asked about on the page of the total.
        asked = tuple(replace(one, category="code") for one in document.questions)
        corpus = answering.changed(corpus, document.id, questions=asked)
    page = corpus.of("member")[0]
    near = page.questions[0].answers[0][:-1] + "b"
    odd = corpus.of("heldout")[0]
    corpus = answering.changed(
        corpus, odd.id, questions=(replace(odd.questions[0], answers=(near,)),)
    )
    asked = AskedQuestion(page, page.questions[0])
    view = page_view(corpus, page)
    made = list(decoy_pages(corpus, asked, view, (2,), np.random.default_rng(0)))
    assert len(made) == 10, (
        "five held-out pages with two values, a sixth whose value is nearly the answer"
    )
    own = {answer for one in page.questions for answer in one.answers}
    for decoy, changed in made:
        assert decoy not in own
        assert decoy != near
        assert [word.text for word in changed.words] == [
            *(w.text for w in view.words[:2]),
            decoy,
            *(w.text for w in view.words[3:]),
        ]


def test_the_most_frequent_answer_counts_and_no_decoy_of_its_own_page():
    assert most_frequent(["a", "b", "B ", "c"], ["x"] * 4) == "b"
    assert most_frequent(["a", "a", "b"], ["a", "A", "x"]) == "b"
    assert most_frequent(["a", "b"], ["b", "a"]) == "a", (
        "another page's decoy may be the answer to this one"
    )
    assert most_frequent(["x", ""], ["x", "y"]) == ""


def test_decoys_are_drawn_on_images_in_place_of_the_value_or_not_at_all(pages, monkeypatch):
    monkeypatch.setattr("audit.attacks.questions.TESSERACT", read_by(lambda query: None))
    target = Answering(memory_of(pages.documents))
    left_out = Found(
        Memorisation(contexts=("exact", "decoy"), n_drawn_decoys=0), case(target, pages)
    )
    assert isinstance(left_out.by_name["net.decoy"], Unresolved)
    document = pages.documents[0]
    asked = AskedQuestion(document, document.questions[0])
    page = page_view(pages, document)
    words = find_answers([word.text for word in page.words], asked.spellings)
    view = replace_value(page, words, "zzzzzz")
    before = np.asarray(page.image)
    after = np.asarray(view.image)
    x0, y0, x1, y1 = map(int, page.words[words[0]].box)
    blank = np.asarray(cover(page, words).image)
    changed = (after != blank).any(axis=2)
    assert changed.any()
    ys, xs = np.nonzero(changed)
    assert x0 <= xs.min() <= xs.max() <= x1, "letters stay in the value's box"
    assert y0 <= ys.min() <= ys.max() <= y1
    assert (before != after).any()
    tiny = replace(
        page, words=tuple(replace(word, box=(0.0, 0.0, 3.0, 3.0)) for word in page.words)
    )
    assert replace_value(tiny, words, "zzzzzz") is None, "nobody could read it"


def test_answers_that_only_sampling_gives_are_net_of_the_baselines():
    corpus = answering.corpus(40, 40)

    # One sample gives the answer with a probability of 2 %, and 100 samples with 87 %.
    class Sampling(Answering):
        def _given(self, query):
            return Reply(NOTHING, 1.0, 1, True)

    target = Sampling(memory_of(corpus.of("member")[:20]), probability=0.02)
    baseline = Sampling(memory_of(corpus.of("member")[15:20]), probability=0.02)
    found = Found(EXACT, case(target, corpus, baseline))
    assert (found.value("net"), found.value("net.discoverable")) == (0, 15 / 40)
    assert found.value("net.heldout.discoverable") == found.null("net.discoverable") == 0
    assert "net.discoverable" in found.findings.methods["net"]


def test_a_value_that_no_question_asks_for_is_asked_for_and_held_to_the_limit():
    corpus = answering.corpus(100, 100, keys=("total", "seller"))
    for document in corpus.documents:
        # The sellers of all pages but one are values that only the input holds.
        kept = document.questions if document.id == "d0" else document.questions[:1]
        seller = Entity("s", "SELLER", "person", (4,))
        kept = tuple(replace(one, entity="s") if one.id == "seller" else one for one in kept)
        corpus = answering.changed(corpus, document.id, questions=kept, entities=(seller,))
    sellers = {
        (one.words[0].text, question("seller")): one.words[4].text
        for one in corpus.of("member")[:60]
    }
    found = Found(EXACT, case(Answering(sellers), corpus))
    assert (found.value("net.unasked"), found.by_name["net.unasked"].n) == (
        pytest.approx(59 / 99),
        99,
    )
    assert found.value("net") == pytest.approx(1 / 101), "what training asked for is measured apart"
    assert found.value("net.heldout.unasked") == found.null("net.unasked") == 0
    assert "net.unasked" in found.findings.methods["net"]
    assert found.findings.coverage[0].total == 101
    asked = [row for row in found.evidence if row["question_id"] == "s"]
    assert sum(row["unasked"]["extracted"] for row in asked) == 59
    twin = Found(EXACT, case(Answering(), corpus))
    assert twin.by_name["net.unasked"].high < 0.05
