"""The attack on targets whose memory is known."""

import datetime as dt
from dataclasses import replace

import attempts
import numpy as np
import planted
import pytest
import tiny
from attempts import counts, measured

from audit import policy as policies
from audit.attacks import TEXTS
from audit.attacks.reconstruction import Reconstruction
from audit.corpus.documents import Task
from audit.measurements import Estimate, Unresolved
from benchmarks.calibration.simulated_audits import completed

pytestmark = pytest.mark.slow

TODAY = dt.date(2026, 1, 1)


def run(attack, case, width=16):
    return attempts.run(attack, case, width, stream=(7,))[1:]


def verdict(attack, findings, policy="default"):
    chosen = policies.load(policy)
    own = tuple(limit for limit in chosen.limits if limit.attack == attack.name)
    result = replace(completed(attack.name, findings), ablations=attack.ablations)
    return policies.evaluate(tiny.record(result), replace(chosen, limits=own), TODAY)


@pytest.mark.parametrize("k", [0, 1, 5, 20])
def test_a_memoriser_of_k_of_n_fields_is_scored_k_of_n(k):
    corpus = planted.corpus(20, 20)
    public = planted.Planted(corpus.documents, seed=5)
    target = planted.Planted(corpus.documents, remembered={f"d{index}" for index in range(k)})
    _, findings = run(Reconstruction(), planted.case(target, public, corpus))
    found = measured(findings, "pr.member.attack")
    assert found.value == pytest.approx(k / 20)
    assert found.n == found.clusters == 20
    assert measured(findings, "pr.heldout.attack").value == 0
    assert measured(findings, "excess_pr.unique").value == pytest.approx(k / 20)


def test_a_classifier_that_remembers_k_documents_is_scored_k_of_n_through_its_loss():
    corpus = planted.corpus(24, 24)
    public = planted.Planted(corpus.documents, seed=5)
    target = planted.Planted(
        corpus.documents, {f"d{index}" for index in range(8)}, task="token-classification"
    )
    attack = Reconstruction(target_weight=1.0)
    outcomes, findings = run(attack, planted.case(target, public, corpus))
    assert measured(findings, "excess_pr.unique").value == pytest.approx(8 / 24)
    assert measured(findings, "excess_pr.unique.lowest_loss").value == pytest.approx(8 / 24)
    assert all(outcome["reached"] for outcome in outcomes)


def test_the_excess_does_not_count_what_a_better_language_model_gets_on_held_out_pages_too():
    corpus = planted.corpus(30, 30)
    everyone = {document.id for document in corpus.documents}
    target = planted.Planted(corpus.documents, remembered=everyone)
    _, findings = run(
        Reconstruction(), planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    )
    assert (
        measured(findings, "pr.member.attack").value,
        measured(findings, "excess_pr.unique").value,
    ) == (1.0, 0.0)
    # What is rebuilt without memory hides any: such an attack shows nothing.
    assert measured(findings, TEXTS["reconstruction"].power).value == 0.0


def test_a_leaky_model_violates_and_an_ignorant_one_passes():
    corpus = planted.corpus(120, 120)
    public = planted.Planted(corpus.documents, seed=5)
    leaky = planted.Planted(corpus.documents, {f"d{index}" for index in range(32)})
    attack = Reconstruction()
    assert verdict(attack, run(attack, planted.case(leaky, public, corpus))[1]).exit_code == 10
    ignorant = planted.Plausible(corpus.documents, seed=9)
    _, findings = run(attack, planted.case(ignorant, public, corpus))
    assert verdict(attack, findings).exit_code == 0
    for name in ("excess_pr.unique", "excess_hamming.unique"):
        excess = measured(findings, name)
        assert excess.low <= 0 <= excess.high
    attack_pr = measured(findings, "pr.member.attack")
    assert attack_pr.low <= attack_pr.null <= attack_pr.high
    assert attack_pr.null == measured(findings, "pr.member.baseline").value


@pytest.mark.parametrize(
    ("target_weight", "reason"),
    [(0.4, "attacker is too weak"), (1.0, "the attacker was weakened")],
    ids=["0.4", "1.0"],
)
def test_a_leaky_classifier_attacked_through_a_useless_public_model_is_undecided(
    target_weight, reason
):
    corpus = planted.corpus(120, 120)
    useless = planted.Planted(corpus.documents, reach=0.0, seed=5)
    leaky = planted.Planted(
        corpus.documents, {document.id for document in corpus.of("member")}, "token-classification"
    )
    attack = Reconstruction(target_weight=target_weight)
    outcomes, findings = run(attack, planted.case(leaky, useless, corpus))
    assert not any(outcome["reached"] for outcome in outcomes)
    assert measured(findings, TEXTS["reconstruction"].power).value == 0.0
    decided = verdict(attack, findings)
    assert decided.exit_code == 11
    tried = [
        decision for decision in decided.decisions if decision.limit.metric.endswith(".unique")
    ]
    assert len(tried) == 2
    assert all(reason in decision.reason for decision in tried)


def test_more_memory_never_lowers_the_leak():
    corpus = planted.corpus(24, 16)
    public = planted.Planted(corpus.documents, seed=5)
    values = []
    for k in (0, 4, 10, 24):
        target = planted.Planted(
            corpus.documents, {f"d{index}" for index in range(k)}, task="token-classification"
        )
        _, findings = run(Reconstruction(), planted.case(target, public, corpus))
        values.append(
            (
                measured(findings, "pr.member.attack").value,
                measured(findings, "excess_hamming.all").value,
            )
        )
    assert values == sorted(values)


def test_outcomes_do_not_depend_on_how_many_attempts_are_in_flight():
    corpus = planted.corpus(6, 6, fields=2)
    public = planted.Planted(corpus.documents, seed=5)
    target = planted.Planted(corpus.documents, {"d1", "d2"}, task="token-classification")
    case = planted.case(target, public, corpus)
    reference = run(Reconstruction(), case, width=1)
    for width in (2, 7, 100):
        outcomes, findings = run(Reconstruction(), case, width=width)
        assert (outcomes, findings.measurements) == (reference[0], reference[1].measurements)


def test_repeated_values_are_a_row_of_their_own():
    corpus = planted.corpus(40, 40, repeated=True)
    target = planted.Planted(corpus.documents, {document.id for document in corpus.of("member")})
    _, findings = run(
        Reconstruction(), planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    )
    assert isinstance(measured(findings, "excess_pr.unique"), Unresolved)
    assert measured(findings, "excess_pr.repeated").value == 1.0
    assert (
        counts(findings)["member fields, repeated"],
        counts(findings)["member fields, unique"],
    ) == (40, 0)


def test_without_held_out_documents_nothing_is_decided():
    corpus = planted.corpus(80, 0)
    target = planted.Planted(corpus.documents)
    attack = Reconstruction()
    _, findings = run(
        attack, planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    )
    assert isinstance(measured(findings, "excess_pr.unique"), Unresolved)
    assert verdict(attack, findings).exit_code == 11


def test_fields_that_cannot_be_spelt_are_left_out_and_counted_and_those_out_of_range_apart():
    corpus = planted.corpus(10, 10)
    short, long, unknown = (corpus.documents[index] for index in (0, 1, 2))
    entity = short.entities[0]
    changed = [
        replace(short, entities=(replace(entity, words=entity.words[:2]),)),
        replace(long, words=long.words * 4, entities=(replace(entity, words=tuple(range(3, 19))),)),
        replace(unknown, words=(*unknown.words[:-1], replace(unknown.words[-1], text="1"))),
        *corpus.documents[3:],
    ]
    corpus = replace(corpus, documents=tuple(changed))
    target = planted.Planted(corpus.documents)
    case = planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    attack = Reconstruction()
    assert len(attack.trials(case)) == 17 + 1 + 2
    found = counts(run(attack, case)[1])
    assert found["fields attacked"] == found["fields within reach"] == 17
    assert (
        found["short fields attacked"]
        == found["long fields attacked"]
        == found["left out: unknown tokens"]
        == 1
    )


def test_every_number_has_its_interval_n_and_null():
    corpus = planted.corpus(30, 30, fields=2)
    target = planted.Planted(corpus.documents, {"d0", "d1"})
    _, findings = run(
        Reconstruction(), planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    )
    names = {item.name for item in findings.measurements}
    assert len(names) == len(findings.measurements)
    assert names <= set(TEXTS["reconstruction"].names)
    for item in findings.measurements:
        if isinstance(item, Estimate):
            assert item.low <= item.value <= item.high, item.name
            # The top 1 % of few fields is a single one.
            assert item.n >= item.clusters >= (1 if "_at_" in item.name else 2)
            assert item.null is not None
            assert item.null_kind
            assert item.bounds


class Saturated(planted.Planted):
    """Remembers everything, so surely that its training loss is 0 whatever the candidate."""

    def _loss(self, query):
        return np.zeros(len(query.candidates))


def test_losses_that_say_nothing_are_no_power_and_never_a_pass():
    corpus = planted.corpus(120, 120)
    public = planted.Planted(corpus.documents, seed=5)
    attack = Reconstruction()
    target = Saturated(corpus.documents, task="token-classification")
    outcomes, findings = run(attack, planted.case(target, public, corpus))
    diagnostics = {item.name: item.value for item in findings.diagnostics}
    assert diagnostics["unusable losses"] == 1.0
    assert not any(outcome["reached"] for outcome in outcomes)
    assert (
        measured(findings, TEXTS["reconstruction"].power).value,
        verdict(attack, findings).exit_code,
    ) == (0.0, 11)


def test_ids_with_slashes_do_not_meet():
    corpus = planted.corpus(2, 0)
    first, second = corpus.documents
    documents = (
        replace(first, id="a/b", entities=(replace(first.entities[0], id="c"),)),
        replace(second, id="a", entities=(replace(second.entities[0], id="b/c"),)),
    )
    corpus = replace(corpus, documents=documents)
    target = planted.Planted(corpus.documents)
    trials = Reconstruction().trials(planted.case(target, target, corpus))
    assert len({trial.id for trial in trials}) == 2


def test_values_that_no_label_names_are_held_to_the_limits_by_themselves(monkeypatch):
    corpus = planted.corpus(80, 80, fields=2)
    manifest = replace(corpus.manifest, task=Task("token-classification", ("O", "B-X", "I-X")))
    documents = tuple(
        replace(one, entities=(one.entities[0], replace(one.entities[1], label="O")))
        for one in corpus.documents
    )
    corpus = replace(corpus, manifest=manifest, documents=documents)
    public = planted.Planted(corpus.documents, seed=5)

    class OfInputs(planted.Planted):
        """Remembers the values without a label, which begin at the eighth word."""

        def _loss(self, query):
            known = query.position >= 7 or self._name(query.page) not in self.remembered
            return (
                super()._loss(query)
                if known
                else self._rng(query.page, 0).uniform(0.5, 1.5, len(query.candidates))
            )

    attack = Reconstruction()
    monkeypatch.setattr("audit.attacks.reconstruction.table.FEWEST_ALONE", 72)
    target = OfInputs(
        corpus.documents, {f"d{index}" for index in range(40)}, "token-classification"
    )
    _, findings = run(attack, planted.case(target, public, corpus))
    assert measured(findings, "excess_pr.input_only.lowest_loss").value == pytest.approx(40 / 80)
    assert measured(findings, "excess_pr.unique.lowest_loss").value == 0
    assert (
        measured(findings, "pr.member.attack.unique").n
        == counts(findings)["member fields, input only"]
        == 80
    )
    decided = {one.limit.metric: one for one in verdict(attack, findings).decisions}
    assert decided["excess_pr.unique"].outcome == "violated"
    assert decided["excess_pr.unique"].measured.name == "excess_pr.input_only.lowest_loss"
    ignorant = planted.Plausible(corpus.documents, task="token-classification", seed=9)
    _, findings = run(attack, planted.case(ignorant, public, corpus))
    assert measured(findings, "excess_pr.input_only.lowest_loss").high <= 0.07
