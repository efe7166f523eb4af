"""Models that write answers propose values for a hidden place themselves: what they remember is counted.

No limit is held against that. A small GPT-2 with a memory is in `test_decoys_gpt2`.
"""

from dataclasses import replace

import answering
import numpy as np
import pytest
import tiny
from answering import Answering, memory_of
from attempts import counts, measured
from test_reconstruction_planted import TODAY, run

from audit import policy as policies
from audit import record as records
from audit.attacks import TEXTS
from audit.attacks.interface import barrier, why
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.recollected import DOCUMENTS, EXCESSES, VALUES
from audit.attacks.reconstruction.recollection import would_restore
from audit.attacks.reconstruction.table import LIMITED
from audit.case import Case, References
from audit.measurements import Unresolved
from audit.record import Reason, Result
from audit.report.coverage import why_not_run
from audit.report.facts.questions import questions_of
from audit.report.html import html, report_context
from audit.report.residual import unexamined
from benchmarks.calibration.simulated_audits import completed

UNIQUE = "excess_pr.unique.recollected"


def case(target, corpus, pretrained=None):
    """The target, attacked beside what it was fine-tuned from."""
    return Case(target, corpus, References(pretrained=pretrained))


@pytest.mark.parametrize("k", [0, 1, 37, 100])
def test_k_of_n_remembered_answers_are_scored_k(k: int) -> None:
    corpus = answering.corpus(100, 100)
    target = Answering(memory_of(corpus.of("member")[:k]))
    _, result = run(Reconstruction(), case(target, corpus, Answering()))
    found = {item.name: item for item in result.measurements}
    assert found[UNIQUE].value == found["pr.member.attack.unique"].value == k / 100
    assert found["pr.heldout.attack"].value == found["pr.member.baseline"].value == 0
    assert found["heldout_gain.unique.recollected"].value == 0
    assert (found[UNIQUE].n, found[UNIQUE].null_kind) == (200, "held-out")
    assert found[VALUES].value == pytest.approx(k)
    assert found[DOCUMENTS].value <= k
    assert found.keys() <= TEXTS["reconstruction"].known
    assert counts(result)["member documents"] == 100
    assert result.coverage[0].attacked == result.coverage[0].total == 100
    assert not result.ablations
    assert not result.checks, "no check of the scan gets weaker by it"


def test_what_the_reference_knows_is_no_memory() -> None:
    corpus = answering.corpus(60, 60)
    known = Answering(memory_of(corpus.documents))
    _, result = run(Reconstruction(), case(known, corpus, Answering(memory_of(corpus.documents))))
    assert measured(result, "pr.member.attack").value == 1
    assert measured(result, UNIQUE).value == 0


def test_what_stands_on_the_page_is_no_proposal() -> None:
    corpus = answering.corpus(4, 4)
    outcomes, _ = run(Reconstruction(), case(Answering(), corpus))
    texts = {outcome["attack"]["text"] for outcome in outcomes}
    assert texts == {answering.NOTHING}, "a decoy that it reads is its own answer on that page"


def test_without_a_pretrained_model_the_target_ranks_alone_and_the_record_says_so() -> None:
    corpus = answering.corpus(60, 60)
    alone = case(Answering(memory_of(corpus.of("member"))), corpus)
    attack = Reconstruction()
    assert why(attack, alone, "model", "data") is None
    assert "pretrained" in (why(attack, alone, "weak") or "")
    _, result = run(attack, alone)
    assert measured(result, UNIQUE).value == 1
    assert result.ablations
    names = {item.name for item in result.measurements}
    assert not names & {"pr.member.baseline", "heldout_gain.unique.recollected"}


def test_no_limit_is_held_against_it_and_no_verdict_changes() -> None:
    corpus = answering.corpus(60, 60)
    leaky = Answering(memory_of(corpus.of("member")))
    _, found = run(Reconstruction(), case(leaky, corpus, Answering()))
    assert {item.name for item in found.measurements if isinstance(item, Unresolved)} >= {*LIMITED}
    policy = policies.load("default")

    def evaluated(result):
        """Hold a record of a model that answers questions against the default policy."""
        record = tiny.record(result)
        card = replace(record.target, task="question-answering")
        asked = replace(record, target=card)
        return asked, policies.evaluate(asked, policy, TODAY)

    record, verdict = evaluated(completed("reconstruction", found))
    _, barred = evaluated(Result("reconstruction", "inapplicable", Reason("model", "no token")))
    outcomes = [(item.limit.attack, item.limit.metric, item.outcome) for item in verdict.decisions]
    assert outcomes == [
        (item.limit.attack, item.limit.metric, item.outcome) for item in barred.decisions
    ]
    assert (verdict.exit_code, verdict.counts) == (barred.exit_code, barred.counts)
    shown = report_context(record, verdict, policy)
    assert shown["outcomes"] == {"reconstruction": ""}, "its finding is called no limit"
    assert "attempts at every value" not in html(record, verdict, policy)
    (row,) = questions_of(record, verdict)
    assert (row.outcome, row.decisions) == ("", ()), "page one calls it no limit"
    assert (row.trained.value, row.unseen.value) == (1, 0)


def test_a_quick_scan_leaves_it_out_and_says_so_without_changing_a_limit() -> None:
    asked = case(Answering(), answering.corpus(4, 4), Answering())
    quick = Reconstruction.preset("quick")
    reason = barrier(quick, asked)
    assert reason is not None
    assert (reason.kind, reason.why[:9]) == ("budget", "not tried")
    assert "quick scan" in reason.why
    assert barrier(Reconstruction.preset("standard"), asked) is None
    assert barrier(replace(quick, n_pages=2), asked) is None, "who asks for it gets it"
    record = tiny.record(Result("reconstruction", "skipped", reason))
    card = replace(record.target, task="question-answering")
    record = replace(record, target=card, battery=("reconstruction",))
    verdict = policies.evaluate(record, policies.load("default"), TODAY)
    decided = {item.outcome for item in verdict.decisions if item.limit.attack == "reconstruction"}
    assert decided == {"inapplicable"}
    assert why_not_run(record, "reconstruction") == ("not tested", reason.why, reason.fix)
    (gap, *_) = unexamined(record, verdict).gaps
    assert gap.reason == reason.why, "it is no test that is not possible"


def test_a_record_names_the_parameters_that_bear_on_the_model() -> None:
    corpus = answering.corpus(4, 4)
    attack = Reconstruction()
    assert attack.parameters_on(case(Answering(), corpus)) == {"n_pages": 8}
    others = attack.parameters_on(case(Answering(losses=False), corpus))
    assert "n_pages" not in others
    assert others["n_candidates"] == 128


def test_no_text_leaves_the_evidence() -> None:
    corpus = answering.corpus(4, 4)
    attacked = case(Answering(memory_of(corpus.of("member"))), corpus, Answering())
    attack = Reconstruction()
    outcomes, result = run(attack, attacked)
    text = records.dumps(tiny.record(completed("reconstruction", result)))
    values = [asked.answers[0] for page in corpus.documents for asked in page.questions]
    assert not [value for value in values if value in text]
    rows = [*attack.evidence(attacked, attack.trials(attacked), outcomes)]
    scored = rows[len(values) :]
    assert [row["value"] for row in rows[: len(values)]] == values
    assert [row["exact"] for row in rows[: len(values)]] == [True] * 4 + [False] * 4
    assert [name for name, _ in scored] == [*EXCESSES]


def test_a_planted_memory_counts_if_the_answer_is_proposed_and_ranks_first() -> None:
    plausible = [[np.array([1.0, 3.0, 5.0])]]
    scores = np.array([2.0, 1.0])
    is_rival = np.array([False, True])
    even = [np.array([2.0, 2.0])]
    assert would_restore(even, plausible, scores, is_rival)
    assert not would_restore([np.array([9.0, 0.1])], plausible, scores, is_rival), "not proposed"
    assert not would_restore(even, plausible, scores + np.array([9, 0]), is_rival), "not first"
    assert not would_restore(even, [], scores, is_rival), "no values to compare with"
    assert not would_restore(even, plausible, scores[:1], is_rival[:1]), "nothing to rank among"
    assert not would_restore(even, [[np.array([1.0, 1.0])]], scores, is_rival), "no spread"
