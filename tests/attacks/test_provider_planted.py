"""Provider membership on models of which it is known what they know of their providers.

Method: methods/provider-membership.md.
"""

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest
from answering import NOTHING, Answering, placed, value
from attempts import counts, measured, outcomes_of, run

from audit.attacks import TEXTS
from audit.attacks.interface import nothing_to_try, why
from audit.attacks.provider_membership import methods
from audit.attacks.provider_membership.attack import NO_REFERENCE, ProviderMembership, reference_of
from audit.attacks.provider_membership.measures import NO_NUMBER, STRONGEST
from audit.attacks.provider_membership.methods import METHODS
from audit.attacks.provider_membership.providers import match_sides
from audit.attacks.provider_membership.providers import table_of as table_of_matched
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Question, Task
from audit.corpus.folding import fold
from audit.measurements import Estimate
from audit.stats.roc import auc
from audit.targets.interface import FillMask, NoModel, Reply

QUICK = ProviderMembership(n_seeds=1, share=0.3)
KEYS = {"tax": "code", "total": "amount", "iban": "contact"}
CONSTANT = ("tax", "iban")
"""The same on all documents of a provider."""
READS = 0.5
"""The share of the values on pages that a model reads right."""


def question(key):
    return f"What is the {key}?"


def documents_of(provider, splits, rng, lacking=("iban",)):
    """A provider's documents; kept-aside ones lack the keys in `lacking`."""
    mark = value(rng)
    constants = {key: value(rng) for key in CONSTANT}
    for number, split in enumerate(splits):
        words = [mark]
        questions = []
        for key, category in KEYS.items():
            answer = constants.get(key) or value(rng)
            if split == "heldout" and key in lacking:
                continue
            words += [f"{key.upper()}:", answer]
            questions.append(Question(key, question(key), (answer,), category=category))
        name = f"{provider}-{number}"
        yield Document(
            name,
            split,
            placed(words),
            size=(800, 600),
            provider=provider,
            questions=tuple(questions),
        )


def corpus(n_in=30, n_out=30, n_heldout=3, lacking=("iban",), assigned="by-provider", seed=0):
    rng = np.random.default_rng(seed)
    documents = []
    for number in range(n_in + n_out):
        own = ["member"] * 2 if number < n_in else []
        # The order of names says nothing about the side.
        name = f"company {number * 37 % 101:03d}"
        documents += documents_of(name, [*own, *["heldout"] * n_heldout], rng, lacking)
    return whole(documents, assigned)


def whole(documents, assigned="by-provider"):
    manifest = Manifest(1, "planted", Task("question-answering"), Membership(assigned))
    return Corpus(None, manifest, tuple(documents), "0" * 64)


def known_of(corpus, providers):
    """What there is to know by heart of these providers: their constants, by mark and question."""
    return {
        (document.words[0].text, asked.question): asked.answers[0]
        for document in corpus.documents
        if document.provider in providers
        for asked in document.questions
        if asked.id in CONSTANT
    }


def providers_in(corpus):
    return sorted({document.provider for document in corpus.of("member")})


class Reader(Answering):
    """Knows constants by heart; reads half of what it does not know.

    Asked nothing, it says the tax number.
    """

    def __init__(self, memory=(), seed=0):
        super().__init__(dict(memory))
        self.seed = seed

    def _draw(self, query):
        page = [word.text for word in query.view.words]
        return np.random.default_rng(
            [self.seed, *" ".join([*page, query.question]).encode()]
        ).random()

    def _given(self, query):
        asked = query if query.question else replace(query, question=question("tax"))
        known = self._remembered(asked)
        if known is not None:
            return Reply(known, 0.9, 1, True)
        read = query.question == "" or self._draw(query) < READS
        return Reply(self._found(asked) if read else NOTHING, 0.5 * self._draw(query), 1, True)

    def _found(self, query):
        words = [word.text for word in query.view.words]
        for key in KEYS:
            label = f"{key.upper()}:"
            if query.question == question(key) and label in words[:-1]:
                found = words[words.index(label) + 1]
                return NOTHING if found.endswith(":") else found
        return NOTHING

    def _losses(self, query):
        known = self._remembered(query) == query.answer
        return np.full(2, -0.1 if known else -1 - self._draw(query))


def table_of(trials, outcomes):
    return table_of_matched(match_sides(trials, outcomes))


@pytest.fixture(scope="module")
def audit():
    """A model that knows the constants of all 30 providers in; 30 are out."""
    data = corpus()
    case = Case(
        Reader(known_of(data, providers_in(data))), data, References(pretrained=Reader(seed=1))
    )
    return case, *run(QUICK, case)


def test_a_model_that_knows_its_providers_is_found_and_its_result_names_none(audit):
    case, *_, findings = audit
    assert {item.name for item in findings.measurements} == {*TEXTS["provider_membership"].names}
    assert findings.ablations == ()
    assert (
        findings.confounded is None
    )  # drawn by lot; too few for the blind check to carry anything
    assert isinstance(measured(findings, "blind_auc"), Estimate)
    written = json.dumps(dataclasses.asdict(findings), allow_nan=False)
    assert not any(
        one.provider in written or one.words[0].text in written for one in case.corpus.documents
    )
    names = (
        "balanced_accuracy",
        *(f"balanced_accuracy.{method}" for method in METHODS),
        "auc",
        "auc.apk",
    )
    for name in (*names, "auc.loss", "auc.memory_similarity"):
        assert measured(findings, name).low > 0.5, name
    # With the answer gone, nobody else says it: the test tells all 30 from the others.
    assert measured(findings, "auc.memory_similarity").value == 1
    assert (
        measured(findings, "balanced_accuracy.apk").value
        == measured(findings, "balanced_accuracy").value
        > 0.9
    )


def test_providers_are_named_in_the_evidence_with_what_speaks_for_each(audit):
    case, trials, outcomes, _ = audit
    entries = [*QUICK.evidence(case, trials, outcomes)]
    assert json.dumps(entries, allow_nan=False)
    assert sorted(entry["name"] for entry in entries) == sorted(
        {one.provider for one in case.corpus.documents}
    )
    surest = sorted(entries, key=lambda entry: entry["ranks"].get("score.apk", np.inf))[:10]
    assert {entry["training"] for entry in surest} == {"in"}
    for feature, best in (("loss", min), ("memory_change", min), ("confidence_change", max)):
        first = next(entry for entry in entries if entry["ranks"][feature] == 1)
        assert first["features"][feature] == best(entry["features"][feature] for entry in entries)


def test_the_evidence_trains_no_forest_again(audit, monkeypatch):
    case, trials, outcomes, _ = audit
    shown = [*QUICK.evidence(case, trials, outcomes)]
    monkeypatch.setattr(methods, "partial_knowledge", None)
    assert [*QUICK.evidence(case, trials, outcomes)] == shown
    with pytest.raises(TypeError):
        [*QUICK.evidence(case, trials[:-1], outcomes[:-1])]


def test_a_cut_that_starves_the_attacker_passes_nothing():
    """One document of providers out kept aside, six of those in: a leak that six of each violate passed on one each."""
    data = corpus(20, 20, n_heldout=6, lacking=())
    inside = set(providers_in(data))
    few = whole([one for one in data.documents if one.provider in inside or one.id.endswith("-0")])
    references = References(pretrained=Reader(seed=1))
    *_, findings = run(QUICK, Case(Reader(known_of(few, inside)), few, references))
    assert findings.ablations == (
        "only 3 of 18 questions about a used provider were compared (medians): fewer documents of unused "
        "providers were kept aside. Keep more of theirs aside",
    )
    found = measured(findings, TEXTS["provider_membership"].power)
    assert (found.value, found.low, found.high, found.n, found.unit, found.null) == (
        3,
        3,
        3,
        40,
        "providers",
        None,
    )
    *_, even = run(QUICK, Case(Reader(known_of(data, inside)), data, references))
    assert (even.ablations, measured(even, TEXTS["provider_membership"].power).value) == ((), 18)


def test_documents_that_training_took_away_starve_nobody():
    """The attacker has what is left of providers in; of those out there is more, which is cut."""
    data = corpus(8, 8, n_heldout=4, lacking=())
    inside = set(providers_in(data))
    kept = whole(
        [one for one in data.documents if one.provider not in inside or one.id[-1] in "012"]
    )
    *_, findings = run(QUICK, Case(Reader(), kept, References(pretrained=Reader(seed=1))))
    assert (findings.ablations, counts(findings)["questions"]) == ((), 2 * 8 * 3)


def test_exactly_the_known_providers_are_told_apart():
    """Of 20 in, 7 are known: with the answer gone they alone have a similarity over 0."""
    data = corpus(20, 20)
    known = providers_in(data)[:7]
    case = Case(Reader(known_of(data, known)), data, References(pretrained=Reader(seed=1)))
    trials = QUICK.trials(case)
    table = table_of(trials, outcomes_of(QUICK, case, trials))
    remembered = {
        name
        for name, value in zip(table.names, table.features["memory_similarity"], strict=True)
        if value
    }
    assert remembered == {fold(name) for name in known}
    sides = (
        table.features["memory_similarity"][table.member],
        table.features["memory_similarity"][~table.member],
    )
    assert auc(*sides) == pytest.approx(0.5 + 0.5 * 7 / 20)


def test_outcomes_do_not_depend_on_how_many_are_in_flight():
    data = corpus(4, 4)
    case = Case(
        Reader(known_of(data, providers_in(data))), data, References(pretrained=Reader(seed=1))
    )
    trials = QUICK.trials(case)
    assert outcomes_of(QUICK, case, trials, 1) == outcomes_of(QUICK, case, trials[::-1], 50)[::-1]


def test_names_that_differ_by_case_or_spacing_only_are_one_provider():
    data = corpus(3, 3)
    spelled = ("Company  {}", "COMPANY {}", "company {}")
    written = [
        replace(document, provider=spelled[place % 3].format(document.provider.split()[1]))
        for place, document in enumerate(data.documents)
    ]
    case = Case(Reader(), whole(written))
    plain = Case(Reader(), data)
    trials = QUICK.trials(case)
    assert (trials, outcomes_of(QUICK, case, trials)) == (
        QUICK.trials(plain),
        outcomes_of(QUICK, plain, trials),
    )
    outside = next(
        document for document in data.documents if document.provider not in providers_in(data)
    )
    shouted = replace(outside, id="shouted", split="member", provider=outside.provider.upper())
    strata = {
        one.cluster: one.stratum
        for one in QUICK.trials(Case(Reader(), whole([*data.documents, shouted])))
    }
    assert (sorted(strata.values()), strata[fold(outside.provider)]) == (
        ["in"] * 4 + ["out"] * 2,
        "in",
    )


def test_documents_of_training_without_a_provider_are_a_weakness():
    """Companies that count as out may be in, which hides a leak."""
    data = corpus(8, 8)
    nameless = [
        replace(document, id=f"scan {number}", split="member", provider=None)
        for number, document in enumerate(data.of("heldout")[:3])
    ]
    findings = run(
        QUICK,
        Case(Reader(), whole([*data.documents, *nameless]), References(pretrained=Reader(seed=1))),
    )[-1]
    assert findings.ablations == (
        "3 training documents without a provider may belong to an “unused” one: name each provider",
    )
    assert counts(findings)["in training: no provider"] == 3


HEADLESS = Reader()
FIRST = Reader(seed=1)
SECOND = Reader(seed=2)
HEADLESS.answers = frozenset({FillMask})
SAW = "baselines saw public"
REFERENCES = {
    "none": (References(), None, None, NO_REFERENCE),
    "a pretrained model": (References(None, (FIRST,), SECOND), None, SECOND, None),
    "a pretrained model without the head": (
        References(pretrained=HEADLESS),
        None,
        None,
        NO_REFERENCE,
    ),
    "baselines": (References(None, (HEADLESS, FIRST, SECOND)), None, FIRST, None),
    "baselines beside it": (References(None, (FIRST,), HEADLESS), "somebody else", FIRST, None),
    "baselines that saw one": (
        References(None, (FIRST,)),
        "COMPANY 000 ",
        None,
        f"{NO_REFERENCE}: {SAW}",
    ),
}


@pytest.mark.parametrize(
    ("references", "public", "expected", "weak"), REFERENCES.values(), ids=REFERENCES
)
def test_the_reference_is_a_model_that_knows_no_provider(references, public, expected, weak):
    data = corpus(4, 4)
    assert data.documents[0].provider == "company 000"
    if public is not None:
        data = whole(
            [
                *data.documents,
                replace(data.documents[0], id="public", split="public", provider=public),
            ]
        )
    case = Case(Reader(), data, references)
    assert reference_of(case) is expected
    said = why(QUICK, case, "weak")
    assert said is None if weak is None else said.startswith(weak)
    assert {"pretrained", "baselines"} == {*QUICK.uses}


def test_a_reference_without_a_finite_number_is_said_and_the_primary_method_stays():
    class Overflowing(Reader):
        def _given(self, query):
            return replace(super()._given(query), confidence=float("nan"))

        def _losses(self, query):
            return np.full(2, np.nan)

    data = corpus(8, 8)
    case = Case(
        Reader(known_of(data, providers_in(data))), data, References(pretrained=Overflowing())
    )
    _, _, findings = run(QUICK, case)
    assert (findings.ablations, measured(findings, "auc").reason) == ((NO_NUMBER,), NO_NUMBER)
    assert (
        measured(findings, "balanced_accuracy").value
        == measured(findings, "balanced_accuracy.apk").value
    )
    assert (
        measured(findings, "balanced_accuracy").value
        != measured(findings, "balanced_accuracy.azk").value
    )


def test_documents_without_a_provider_and_providers_without_one_to_ask_about_are_counted():
    data = corpus(3, 3)
    rng = np.random.default_rng(9)
    extra = [
        *documents_of("only in training", ["member"], rng),
        *(replace(one, questions=()) for one in documents_of("silent", ["heldout"], rng)),
        *(replace(one, provider=None) for one in documents_of("nobody", ["heldout"], rng)),
    ]
    _, _, findings = run(QUICK, Case(Reader(), whole([*data.documents, *extra])))
    found = counts(findings)
    assert (found["left out: no kept-aside document"], found["left out: nothing to ask"]) == (1, 1)
    assert found["left out: no provider"] == 1
    assert (found["providers in"], found["documents"], found["questions"]) == (3, 18, 36)


def without(data, **changes):
    return whole([replace(document, **changes) for document in data.documents])


def split(data, **splits):
    return whole(
        [
            replace(document, split=splits.get(document.split, document.split))
            for document in data.documents
        ]
    )


LACKING = {
    "no names": (lambda: without(corpus(3, 3), provider=None), "no document names a provider"),
    "one provider": (lambda: without(corpus(3, 3), provider="Gardenia"), "1 of 1 used and 0 of 0"),
    "all members": (lambda: corpus(6, 0), "6 of 6 used and 0 of 0 unused"),
    "none in": (lambda: split(corpus(3, 3), member="public"), "0 of 0 used and 6 of 6"),
    "none of in": (
        lambda: whole(
            [
                one
                for one in corpus(3, 3).documents
                if one.split != "heldout" or one.provider not in INSIDE
            ]
        ),
        "0 of 3 used and 3 of 3 unused",
    ),
    "no questions": (lambda: without(corpus(3, 3), questions=()), "0 of 3 used and 0 of 3"),
    "one of a side": (lambda: corpus(3, 1), "3 of 3 used and 1 of 1 unused"),
}
INSIDE = providers_in(corpus(3, 3))


@pytest.mark.parametrize(("make", "told"), LACKING.values(), ids=LACKING)
def test_what_a_corpus_lacks_is_said_with_what_to_add(make, told):
    data = make()
    case = Case(Reader(), data)
    assert QUICK.trials(case) == []
    found = nothing_to_try(QUICK, case)
    reason = found.why
    provide = found.fix
    assert told in reason
    assert len(provide) > 20
    assert why(QUICK, Case(NoModel(data), data), "data") == reason


def test_the_plan_is_told_how_many_providers_there_are():
    assert why(QUICK, Case(NoModel(corpus(5, 4)), corpus(5, 4)), "data") is None
    units = {found.metric: found for found in QUICK.units(corpus(5, 4))}
    assert (units["balanced_accuracy"].members, units["balanced_accuracy"].others) == (5, 4)
    assert units["balanced_accuracy"].unit == units["auc"].unit == "providers"
    assert {*units} <= {*TEXTS["provider_membership"].names}
    assert {metric: one.methods for metric, one in units.items()} == {
        metric: len(STRONGEST[metric]) for metric in units
    }
    task = Task("token-classification", labels=("O",))
    pages = replace(corpus(5, 4), manifest=replace(corpus(5, 4).manifest, task=task))
    few = {found.metric: found.methods for found in QUICK.units(pages)}
    assert few == {"balanced_accuracy": 2, "auc": 3, "low_fpr_advantage": 2}


def test_a_model_that_gives_no_loss_is_no_target():
    target = Reader()
    target.answers = frozenset({FillMask})
    assert "nor gives a page’s loss" in why(QUICK, Case(target, corpus(2, 2)), "model")
    assert why(QUICK, Case(Reader(), corpus(2, 2)), "model") is None
