"""Membership of documents and of providers in masked language models of which it is known what they know."""

from dataclasses import replace

import numpy as np
import planted
import pytest
from attempts import counts, measured, run
from scipy.stats import norm
from test_membership_planted import NAMES, KnowingPages, normal, split_models, written

from audit.attacks.interface import why
from audit.attacks.membership import MembershipInference
from audit.attacks.membership.documents import N_MASKS, masked_losses, masks_of
from audit.attacks.provider_membership.attack import ProviderMembership
from audit.attacks.provider_membership.attack import reference_of as provider_reference_of
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Manifest, Task, Word
from audit.corpus.documents import Membership as Assignment
from audit.measurements import Unresolved
from audit.targets.encoded_page import Encoding
from audit.targets.interface import FillMask, MaskedLoss

N_TOKENS = 40
DIFFICULTY = 0.5
"""Spread of the documents' mean loss, nats, the same for every model; a model's own noise has
spread `NOISE`."""
NOISE = 0.1


def corpus(n_member, n_heldout, n_public=0, provider=None):
    documents = [
        Document(
            f"{split[0]}{number}",
            split,
            tuple(Word(written(f"{split[0]}{number}")) for _ in range(N_TOKENS)),
        )
        for split, n in (("member", n_member), ("heldout", n_heldout), ("public", n_public))
        for number in range(n)
    ]
    documents = [replace(one, provider=provider(one)) if provider else one for one in documents]
    assigned = "by-provider" if provider else "random"
    return Corpus(
        None, Manifest(1, "planted", Task("mlm"), Assignment(assigned)), tuple(documents), "0" * 64
    )


class KnowingMasks:
    """A masked language model whose loss is `leak` nats lower on the documents it was trained on.

    The loss of a token hangs on the document, on where it stands, and on the model; first and last
    tokens are special.
    """

    answers = frozenset({FillMask, MaskedLoss})
    labels = ()

    def __init__(self, trained=(), leak=0.0, seed=0, vocabulary=0):
        self.card = planted.card("mlm")
        self.trained = frozenset(trained)
        self.leak = leak
        self.seed = seed
        self.vocabulary = vocabulary
        self.asked = []

    def encode(self, document, around=()):
        if not document.words:
            return None
        ids = np.arange(N_TOKENS + 2) + self.vocabulary
        ids[1] = len(NAMES) and [*NAMES].index(document.words[0].text)
        words = np.array([-1, *range(N_TOKENS), -1])
        return Encoding(ids, np.zeros((len(ids), 4)), words, None, 0, 1)

    def mean_loss(self, name):
        noise = NOISE * normal(name, self.seed)
        return 3 + DIFFICULTY * normal(name) + noise - self.leak * (name in self.trained)

    def ask(self, queries):
        self.asked += queries
        return [self.losses(query) for query in queries]

    def losses(self, query):
        name = NAMES[[*NAMES][query.page.ids[1]]]
        return self.mean_loss(name) + 0.1 * np.sin(np.array(query.positions))


PUBLIC = KnowingMasks(seed=1)


@pytest.fixture(scope="module")
def audit():
    """150 + 150 documents, a public model for reference, a leak of 0.2 nats."""
    whole = corpus(150, 150)
    target = KnowingMasks([document.id for document in whole.of("member")], 0.2)
    case = Case(target, whole, References(auxiliary=PUBLIC))
    return case, *run(MembershipInference(), case)


def test_a_masked_language_model_is_asked_and_a_leak_found(audit):
    case, _, _, findings = audit
    assert why(MembershipInference(), case, "model") is None
    alone = norm.cdf(0.2 / np.sqrt(2 * (DIFFICULTY**2 + NOISE**2)))
    beside = norm.cdf(0.2 / np.sqrt(2 * 2 * NOISE**2))
    for name, truth in (("auc.loss", alone), ("auc.calibrated", beside), ("auc", beside)):
        found = measured(findings, name)
        assert found.low <= truth <= found.high, name
    assert measured(findings, "auc").low > 0.65
    assert findings.ablations == ()


def test_the_loss_is_the_mean_over_the_hidden_tokens_of_all_masks(audit):
    case, trials, outcomes, _ = audit
    hidden = np.concatenate(
        masks_of(trials[0].cluster, case.target.encode(case.corpus.documents[0]), N_MASKS)
    )
    expected = np.mean(case.target.mean_loss(trials[0].cluster) + 0.1 * np.sin(hidden))
    assert outcomes[0]["target"]["loss"] == pytest.approx(expected)


def test_masks_hide_all_tokens_alike_and_follow_from_the_documents_id_alone(audit):
    case, *_ = audit
    page = case.target.encode(case.corpus.documents[0])
    masks = masks_of("m0", page, N_MASKS)
    assert [len(set(mask)) for mask in masks] == [6] * N_MASKS  # 15 % of 40
    counts = np.bincount(np.concatenate(masks), minlength=len(page.ids))
    assert counts[[0, -1]].tolist() == [0, 0]  # the special tokens
    assert (set(counts[1:-1]), masks_of("m0", page, N_MASKS)) == ({2, 3}, masks)
    assert masks_of("m0", page, 7) == masks[:7]  # a larger budget adds masks
    assert masks_of("m1", page, N_MASKS) != masks
    asked = [
        {(query.page.ids[1], query.positions) for query in one.asked}
        for one in (case.target, PUBLIC)
    ]
    assert asked[0] == asked[1]  # the same for every model


def test_baselines_come_before_the_pretrained_model_and_that_before_the_public_one():
    whole = corpus(5, 5)
    baseline, pretrained, public = (KnowingMasks(seed=seed) for seed in (1, 2, 3))
    whoever = {"baselines": (baseline,), "pretrained": pretrained, "auxiliary": public}
    for name, asked in (("baselines", baseline), ("pretrained", pretrained), ("auxiliary", public)):
        run(MembershipInference(), Case(KnowingMasks(), whole, References(**whoever)))
        assert [bool(model.asked) for model in (baseline, pretrained, public)] == [
            model is asked for model in (baseline, pretrained, public)
        ]
        asked.asked.clear()
        del whoever[name]


def test_a_public_language_model_is_no_reference_for_a_tagger():
    public = KnowingMasks(seed=1)
    case = Case(KnowingPages(), corpus(5, 5), References(auxiliary=public, pretrained=public))
    findings = run(MembershipInference(), case)[-1]
    assert public.asked == []
    missing = measured(findings, "auc.calibrated")
    assert isinstance(missing, Unresolved)
    assert "pretrained model with a head for the task" in missing.reason
    assert findings.ablations


def test_a_reference_that_reads_other_tokens_is_not_compared():
    whole = corpus(20, 20)
    other = KnowingMasks(seed=1, vocabulary=500)
    document = whole.documents[0]
    asked = masked_losses(other, document, KnowingMasks().encode(document), 3)
    with pytest.raises(StopIteration) as ended:
        next(asked)
    assert ended.value.value is None
    findings = run(
        MembershipInference(), Case(KnowingMasks(), whole, References(pretrained=other))
    )[-1]
    assert isinstance(measured(findings, "auc.calibrated"), Unresolved)
    assert findings.ablations


def test_documents_without_a_token_to_hide_are_left_out_and_counted():
    whole = corpus(5, 5)
    empty = replace(whole, documents=(replace(whole.documents[0], words=()), *whole.documents[1:]))
    _, _, findings = run(MembershipInference(), Case(KnowingMasks(), empty))
    assert counts(findings)["left out: nothing to read"] == 1
    (coverage,) = findings.coverage
    assert (coverage.attacked, coverage.total, coverage.unit) == (4, 5, "documents")


def test_split_models_rank_documents_of_masked_language_models_too():
    whole = corpus(60, 60, 30)
    members = whole.of("member")
    target = KnowingMasks([document.id for document in members], 0.3)
    references = References(splits=split_models(members, 6, 0.3, KnowingMasks))
    findings = run(MembershipInference(), Case(target, whole, references))[-1]
    assert measured(findings, "auc.lira").low > 0.65
    assert findings.methods["auc"] == ("auc.loss", "auc.lira")


def provided(trained_from):
    """40 providers, 20 of them in training; three kept-aside documents each."""
    whole = corpus(
        20,
        120,
        provider=lambda one: f"shop {int(one.id[1:]) % (20 if one.split == 'member' else 40)}",
    )
    known = [one.id for one in whole.of("heldout") if int(one.id[1:]) % 40 < trained_from]
    return whole, known


@pytest.mark.parametrize(("leak", "found"), [(0.5, True), (0.0, False)])
def test_providers_of_masked_language_models_are_told_apart_by_their_mean_loss(leak, found):
    whole, known = provided(20)
    case = Case(KnowingMasks(known, leak), whole, References(pretrained=KnowingMasks(seed=1)))
    attack = ProviderMembership(n_seeds=2, share=0.3)
    assert why(attack, case, "model") is None
    assert provider_reference_of(case) is case.references.pretrained
    _, outcomes, findings = run(attack, case)
    ranked = measured(findings, "auc")  # user inference: the mean log ratio
    assert ranked.low > 0.65 if found else ranked.low < 0.5 < ranked.high
    first = outcomes[0]["documents"][0]
    (question,) = first["questions"]
    hidden = np.concatenate(
        masks_of(first["id"], case.target.encode(whole.document(first["id"])), N_MASKS)
    )
    assert question["loss"] == pytest.approx(
        np.mean(case.target.mean_loss(first["id"]) + 0.1 * np.sin(hidden))
    )
    assert question["accuracy"] is None


def test_outcomes_do_not_depend_on_how_many_are_in_flight_or_on_the_order_of_documents():
    whole = corpus(6, 6)
    case = Case(KnowingMasks(["m0"], 1.0), whole, References(pretrained=KnowingMasks(seed=1)))
    trials, outcomes, _ = run(MembershipInference(), case, 1)
    assert run(MembershipInference(), case, 50)[1] == outcomes
    turned = replace(case, corpus=replace(whole, documents=whole.documents[::-1]))
    again, others, _ = run(MembershipInference(), turned)
    assert dict(zip(again, others, strict=True)) == dict(zip(trials, outcomes, strict=True))
