"""Canaries beside decoys, in several kinds and numbers of copies, and what has to be known before any limit passes."""

from __future__ import annotations

import dataclasses
import datetime as dt

import numpy as np
import planted_canaries as planted
import pytest
import tiny
from planted_canaries import QUICK, Writing, canary_set, case_of, counts, measured, remembering, run

from audit.attacks import TEXTS
from audit.attacks.canaries import Canaries
from audit.case import Case
from audit.corpus.canaries.loss_proof import LOSS_FILE, LossProof, canaries_sha256, read_proof, write_proof
from audit.corpus.canaries.schema import page_of, question_of
from audit.corpus.canaries.validation import set_problems
from audit.engine.interface import SILENT
from audit.measurements import Estimate
from audit.policy import Limit, Policy, evaluate
from audit.record import Completed
from audit.targets.interface import Answer, AnswerLoss, Reply

HALF = [True, False] * 24
ASKS = "question-answering"


class Recalling(Writing):
    """Writes what it remembers of a line only where some completion stands in it; otherwise it copies what stands."""

    answers = frozenset({AnswerLoss, Answer})

    def __init__(self, drawn, known):
        super().__init__(drawn)
        self.known = {question_of(canary): " ".join(canary.completion) for canary in known}
        self.seen = []

    def answer(self, query):
        if isinstance(query, AnswerLoss):
            return super().answer(query)
        words = [word.text for word in query.view.words]
        shown = words[len(self.prefixes[query.question]) :]
        self.seen.append((query.question, tuple(shown)))
        text = self.known.get(query.question, " ".join(shown)) if shown else ""
        return Reply(text, 1.0, 1, True)


def judged(findings, *limits):
    result = Completed(
        "canaries",
        TEXTS["canaries"].names,
        {},
        findings.measurements,
        power=TEXTS["canaries"].power,
        ablations=findings.weaknesses,
        methods=dict(findings.methods),
        checks=findings.checks,
    )
    policy = Policy(1, "canaries", tuple(Limit("canaries", name, "a limit", max=most) for name, most in limits))
    return evaluate(tiny.record(result, battery=("canaries",)), policy, dt.date(2026, 1, 1))


def test_secrets_that_come_out_beside_decoys_alone_violate_the_limit_on_the_excess(tmp_path):
    drawn = canary_set(48, 4, included=HALF)
    known = [canary for canary in drawn.canaries if canary.included][:18]
    target = Recalling(drawn, known)
    attack = dataclasses.replace(QUICK, exhaustive_limit=1, answers_limit=1, n_references=20, n_answers=20, n_decoys=5)
    case = case_of(tmp_path, drawn, target, ASKS)
    trials, outcomes, findings = run(attack, case)
    assert measured(findings, "extracted").value == measured(findings, "excess").value == 0
    assert measured(findings, "extracted.decoy").value == measured(findings, "excess.decoy").value == 18 / 24
    assert measured(findings, "extracted.control.decoy").value == 0
    assert findings.methods == {"excess": ("excess", "excess.decoy")}
    verdict = judged(findings, ("excess", 0.2))
    assert verdict.overall == "violated"
    assert verdict.decisions[0].measured.name == "excess.decoy"
    # No page shows the secret, or more than half of it.
    truth = {question_of(canary): canary.completion for canary in drawn.canaries}
    assert all(len(shown) == 4 for _, shown in target.seen)
    assert all(sum(map(str.__eq__, shown, truth[asked])) <= 2 for asked, shown in target.seen)
    assert run(attack, case, width=3)[1] == outcomes
    (scores,) = [attack.paired_scores(case, trials, outcomes)["excess.decoy"]]
    assert sum(scores.values) == 18


def test_a_model_that_copies_what_stands_there_gives_nothing(tmp_path):
    drawn = canary_set(48, 4, included=HALF)
    target = Recalling(drawn, ())
    findings = run(QUICK, case_of(tmp_path, drawn, target, ASKS))[-1]
    assert measured(findings, "excess.decoy").value == measured(findings, "extracted.decoy").value == 0


def test_no_decoys_are_asked_of_a_secret_that_no_page_prints(tmp_path):
    drawn = canary_set(48, 2, included=HALF)
    drawn = dataclasses.replace(
        drawn, canaries=tuple(dataclasses.replace(one, printed=False) for one in drawn.canaries)
    )
    target = Recalling(drawn, drawn.canaries)
    findings = run(QUICK, case_of(tmp_path, drawn, target, ASKS))[-1]
    assert not target.seen
    assert not findings.methods
    corpus = planted.corpus(tmp_path, drawn, ASKS)
    page = page_of(corpus, drawn.canaries[0], drawn.canaries[0].completion)
    assert [word.text for word in page.words] == [*drawn.canaries[0].prefix]
    assert page.questions[0].answers == (" ".join(drawn.canaries[0].completion),)
    other = planted.corpus(tmp_path, drawn, "mlm")
    assert any("remembered without being printed" in problem for problem in set_problems(drawn, other))


def test_each_number_of_copies_is_measured_against_all_secrets_that_were_left_out(tmp_path):
    drawn = canary_set(48, included=HALF)
    tiers = (1, 4, 16)
    canaries = tuple(
        dataclasses.replace(one, copies=tiers[number // 2 % 3] if one.included else 0)
        for number, one in enumerate(drawn.canaries)
    )
    drawn = dataclasses.replace(drawn, canaries=canaries, tiers=tiers, repeat=16)
    known = [one for one in canaries if one.copies == 16]
    findings = run(QUICK, case_of(tmp_path, drawn, remembering(drawn, known)))[-1]
    assert [measured(findings, f"extracted.x{n}").value for n in tiers] == [0, 0, 1]
    assert [measured(findings, f"extracted.x{n}").n for n in tiers] == [8, 8, 8]
    assert measured(findings, "excess.x16").value == 1
    assert measured(findings, "extracted.control.x1").n == 24
    assert measured(findings, "excess").value == pytest.approx(1 / 3)


@pytest.mark.parametrize("n", [16, 64])
def test_nothing_is_passed_on_few_canaries_and_the_reason_says_how_many_are_needed(n, tmp_path):
    drawn = canary_set(n, 4, included=([True, False] * 32)[:n])
    outcomes = planted.outcomes_of(drawn, np.random.default_rng(5), 0.0)
    case = case_of(tmp_path, drawn, planted.Knowing())
    attack = Canaries.preset("standard")
    made = [one.as_json() for one in outcomes]
    findings = attack.measure(case, attack.trials(case), made, np.random.default_rng(0), SILENT)
    verdict = judged(findings, ("excess_exposure", 7.0))
    assert measured(findings, "excess_exposure").high <= 7.0
    assert verdict.overall == ("undecided" if n == 16 else "passed")
    if n == 16:
        (reason,) = findings.weaknesses
        assert "8 canaries that were planted and 8 that were not are too few: 20 of each" in reason


def proof_of(corpus, drawn, lost=(), changed=3):
    rows = {one.id: 0 if one in lost else 4 for one in drawn.canaries if one.included}
    return LossProof(canaries_sha256(corpus), 1.0, rows, 3, changed)


def test_without_proof_of_a_loss_no_limit_passes_and_secrets_without_one_do_not_count(tmp_path):
    drawn = canary_set(48, included=HALF)
    included = [one for one in drawn.canaries if one.included]
    case = case_of(tmp_path, drawn, remembering(drawn, included[:12], Writing), ASKS)
    unknown = run(QUICK, case)[-1]
    assert any("nothing shows that training gave the planted answers a loss" in one for one in unknown.weaknesses)
    assert measured(unknown, "extracted").n == 24
    known = run(QUICK, dataclasses.replace(case, canary_loss=proof_of(case.corpus, drawn)))[-1]
    assert known.weaknesses == ()
    assert measured(known, "extracted").value == 12 / 24
    # The twelve others were cut off: all that was learned comes out.
    part = run(QUICK, dataclasses.replace(case, canary_loss=proof_of(case.corpus, drawn, included[12:])))[-1]
    assert counts(part)["without loss"] == 12
    assert (measured(part, "extracted").value, measured(part, "extracted").n) == (1.0, 12)
    assert any("12 canaries that were planted and 24 that were not are too few" in one for one in part.weaknesses)
    # A training that changed nothing proves nothing.
    frozen = run(QUICK, dataclasses.replace(case, canary_loss=proof_of(case.corpus, drawn, changed=0)))[-1]
    assert counts(frozen)["without loss"] == 24
    assert not isinstance(measured(frozen, "excess"), Estimate)
    # Utterances have no answers.
    assert run(QUICK, Case(remembering(drawn, ()), planted.corpus(tmp_path, drawn)))[-1].weaknesses == ()


def test_a_proof_is_read_beside_the_model_and_only_of_these_canaries(tmp_path):
    drawn = canary_set(4, included=HALF[:4])
    corpus = planted.corpus(tmp_path, drawn, ASKS)
    proof = proof_of(corpus, drawn)
    write_proof(tmp_path / "model", proof)
    assert read_proof(tmp_path / "model", corpus) == proof
    (tmp_path / "model" / LOSS_FILE).write_text('{"canaries": 1}')
    assert read_proof(tmp_path / "model", corpus) is None
    write_proof(tmp_path / "model", dataclasses.replace(proof, canaries="0" * 64))
    assert read_proof(tmp_path / "model", corpus) is None
    assert read_proof(tmp_path / "nowhere", corpus) is None
