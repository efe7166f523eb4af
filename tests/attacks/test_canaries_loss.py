"""What has to be known of canaries before any limit passes: enough of each side, and that training gave them a loss."""

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
from audit.corpus.canaries.pages import page_of
from audit.corpus.canaries.schema import LOSS_FILE, LossProof, canaries_sha256, read_proof, write_proof
from audit.corpus.canaries.validation import set_problems
from audit.engine.interface import SILENT
from audit.measurements import Estimate
from audit.policy import Limit, Policy, evaluate
from audit.record import Result

HALF = [True, False] * 24
ASKS = "question-answering"


def judged(findings, *limits):
    result = Result(
        "canaries",
        parameters={},
        measurements=findings.measurements,
        power=TEXTS["canaries"].power,
        ablations=findings.ablations,
        checks=findings.checks,
    )
    policy = Policy(1, "canaries", tuple(Limit("canaries", name, "a limit", max=most) for name, most in limits))
    return evaluate(tiny.record(result, battery=("canaries",)), policy, dt.date(2026, 1, 1))


def test_a_question_asks_for_a_secret_that_no_page_prints(tmp_path):
    drawn = canary_set(48, 2, included=HALF, printed=False)
    corpus = planted.corpus(tmp_path, drawn, ASKS)
    page = page_of(corpus, drawn.canaries[0], drawn.canaries[0].completion)
    assert [word.text for word in page.words] == [*drawn.canaries[0].prefix]
    assert page.questions[0].answers == (" ".join(drawn.canaries[0].completion),)
    for other in (planted.corpus(tmp_path, drawn, "mlm"), planted.corpus(tmp_path, canary_set(48, 2), ASKS)):
        secrets = drawn if other.manifest.task.kind == "mlm" else canary_set(48, 2)
        assert any("are not printed on pages" in problem for problem in set_problems(secrets, other))


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
        (reason,) = findings.ablations
        assert "8 canaries that were planted and 8 that were not are too few: 20 of each" in reason


def proof_of(corpus, drawn, lost=(), changed=3):
    rows = {one.id: 0 if one in lost else 4 for one in drawn.canaries if one.included}
    return LossProof(canaries_sha256(corpus), 1.0, rows, 3, changed)


def test_without_proof_of_a_loss_no_limit_passes_and_secrets_without_one_do_not_count(tmp_path):
    drawn = canary_set(48, included=HALF, printed=False)
    included = [one for one in drawn.canaries if one.included]
    case = case_of(tmp_path, drawn, remembering(drawn, included[:12], Writing), ASKS)
    unknown = run(QUICK, case)[-1]
    assert any("nothing shows that training gave the planted answers a loss" in one for one in unknown.ablations)
    assert measured(unknown, "extracted").n == 24
    known = run(QUICK, dataclasses.replace(case, canary_loss=proof_of(case.corpus, drawn)))[-1]
    assert known.ablations == ()
    assert measured(known, "extracted").value == 12 / 24
    # The twelve others were cut off: all that was learned comes out.
    part = run(QUICK, dataclasses.replace(case, canary_loss=proof_of(case.corpus, drawn, included[12:])))[-1]
    assert counts(part)["without loss"] == 12
    assert (measured(part, "extracted").value, measured(part, "extracted").n) == (1.0, 12)
    assert any("12 canaries that were planted and 24 that were not are too few" in one for one in part.ablations)
    # A training that changed nothing proves nothing.
    frozen = run(QUICK, dataclasses.replace(case, canary_loss=proof_of(case.corpus, drawn, changed=0)))[-1]
    assert counts(frozen)["without loss"] == 24
    assert not isinstance(measured(frozen, "excess"), Estimate)
    # Utterances have no answers.
    said = dataclasses.replace(drawn, canaries=tuple(dataclasses.replace(one, printed=True) for one in drawn.canaries))
    assert run(QUICK, Case(remembering(said, ()), planted.corpus(tmp_path, said)))[-1].ablations == ()


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
