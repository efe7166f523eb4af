"""Ways in which a leak stayed hidden from the published rule alone, and what finds them now."""

from collections import Counter
from dataclasses import replace

import numpy as np
import planted
import pytest
from test_reconstruction_planted import measured, run, verdict

from audit.attacks import TEXTS
from audit.attacks.fields import all_fields, withheld
from audit.attacks.interface import why
from audit.attacks.measuring import memory_of
from audit.attacks.reconstruction import Reconstruction, cdmi
from audit.attacks.reconstruction.methods import SHIPPED, LowestLoss, PrefixKnowledge
from audit.attacks.reconstruction.scores import coverage
from audit.attacks.reconstruction.table import FieldKind
from audit.case import Case
from audit.corpus.documents import Entity, Membership, ReferencePaths, TrainingRecipe, Word
from audit.corpus.folding import occurrences
from audit.engine.interface import SILENT
from audit.measurements import Unresolved
from audit.targets.interface import Candidates, NoModel
from benchmarks.calibration.simulated_audits import confounded_of, fired

pytestmark = pytest.mark.slow


class Confident(planted.Planted):
    """A public model as real ones are: its logits spread over several nats, and the truth lies at any rank."""

    def _fill(self, query):
        rng = self._rng(query.page, query.position)
        truth = int(self.truth[self._name(query.page)][query.position])
        others = rng.permutation(planted.TOKENS[truth != planted.TOKENS])[: query.n_candidates]
        others[int(query.n_candidates ** rng.random()) - 1] = truth
        return Candidates(others, np.sort(rng.normal(0, 3, query.n_candidates))[::-1].copy())


def judged(n_documents, remembered, **settings):
    """A classifier that remembers the first so many member documents, attacked with a confident public model."""
    corpus = planted.corpus(n_documents, n_documents, **settings)
    known = {f"d{index}" for index in range(remembered)}
    target = planted.Planted(corpus.documents, known, task="token-classification")
    return planted.case(target, Confident(corpus.documents, seed=5), corpus)


@pytest.fixture(scope="module")
def hidden():
    """A quarter of the member documents is remembered word for word."""
    return run(Reconstruction(), judged(160, 40))


def test_what_a_confident_public_model_outvotes_is_found_by_the_lowest_loss(hidden):
    _, findings = hidden
    sampled, lowest = (
        measured(findings, f"excess_pr.unique{method}") for method in ("", ".lowest_loss")
    )
    assert -0.05 < sampled.low < sampled.high < 0.05
    assert lowest.value == pytest.approx(0.25, abs=0.02)
    assert lowest.low > 0.05
    assert measured(findings, "excess_hamming.unique.lowest_loss").low > 0.10
    assert findings.methods["excess_pr.repeated"] == (
        "excess_pr.repeated",
        "excess_pr.repeated.lowest_loss",
    )
    assert findings.methods["excess_pr.unique"][2:] == ("excess_pr.unique.near",)
    assert measured(findings, "excess_pr.unique.near").value == lowest.value, (
        "numbers have to be exact"
    )
    measures = {"excess_pr", "excess_hamming", "values_identified", "documents_identified"}
    assert {name.partition(".")[0] for name in findings.methods} == measures
    assert findings.confounded is None
    alone = replace(findings, methods={}, checks=())
    limits = {one.limit.metric: one.outcome for one in verdict(Reconstruction(), alone).decisions}
    assert (limits["excess_pr.unique"], verdict(Reconstruction(), findings).exit_code) == (
        "passed",
        10,
    )


class LikeliestAlone(planted.Planted):
    """A service that fills a gap with its likeliest token, and says nothing of all others."""

    def _fill(self, query):
        candidates = super()._fill(query)
        logits = np.full(len(candidates.ids), -30.0)
        logits[np.argmax(candidates.logits)] = 0.0
        return Candidates(candidates.ids, logits)


def test_the_likeliest_tokens_alone_give_the_numbers_of_the_lowest_loss():
    corpus = planted.corpus(60, 60)
    known = {f"d{index}" for index in range(20)}
    numbers = []
    for kind in (planted.Planted, LikeliestAlone):
        public = planted.Planted(corpus.documents, seed=5)
        case = planted.case(kind(corpus.documents, known), public, corpus)
        _, findings = run(Reconstruction(), case)
        numbers.append(
            [measured(findings, f"excess_pr.unique.{name}") for name in ("lowest_loss", "near")]
        )
    with_scores, by_answers = numbers
    assert with_scores == by_answers
    assert by_answers[0].value == pytest.approx(20 / 60)


class Misremembering(planted.Planted):
    """Remembers another last word of every field, one letter from the true one: tokens are spelled with letters."""

    def __init__(self, documents, *args, **settings):
        super().__init__(documents, *args, **settings)
        for ids in self.truth.values():
            ids[6::4] ^= 1

    def token_strings(self, ids):
        return " ".join("abcdefghij"[int(digit)] for token in ids for digit in f"{token:04d}")


@pytest.mark.parametrize(("known", "outcome"), [(24, "violated"), (0, "passed")])
def test_a_memory_with_a_wrong_letter_in_every_field_is_found(known, outcome):
    corpus = planted.corpus(120, 120)
    target = Misremembering(
        corpus.documents, {f"d{index}" for index in range(known)}, task="token-classification"
    )
    _, findings = run(
        Reconstruction(), planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    )
    for method in ("", ".lowest_loss"):
        assert measured(findings, f"excess_pr.unique{method}").value == 0
    assert measured(findings, "excess_pr.unique.near").value == pytest.approx(known / 120)
    assert measured(findings, "values_identified.near").value == pytest.approx(known)
    decided = {
        one.limit.metric: one.outcome for one in verdict(Reconstruction(), findings).decisions
    }
    assert decided["excess_pr.unique"] == outcome


def test_one_value_under_many_spellings_is_no_value_of_one_document():
    corpus = planted.corpus(24, 24, repeated=True)
    name = "abcdefghij" * 5
    spelled = [f"{name[:place]}x{name[place + 1 :]}" for place in range(48)]
    documents = tuple(
        replace(one, words=(*one.words[:-1], Word(f"{text}{one.words[-1].text}")))
        for one, text in zip(corpus.documents, spelled, strict=True)
    )
    target = planted.Planted(
        documents, {f"d{index}" for index in range(12)}, task="token-classification"
    )
    public = planted.Planted(documents, seed=5)
    _, findings = run(
        Reconstruction(), planted.case(target, public, replace(corpus, documents=documents))
    )
    assert measured(findings, "values_identified.lowest_loss").value == pytest.approx(12)
    for metric in (
        "excess_pr.unique",
        "values_identified",
        "heldout_gain.unique",
        "pr.member.attack.unique",
    ):
        assert measured(findings, metric).n
        assert isinstance(measured(findings, f"{metric}.near"), Unresolved)


def test_power_is_what_a_memory_of_two_spreads_adds_on_held_out_documents(hidden):
    """Losses are uniform, 1 wide: the true token's, lowered by 2 sqrt(2 / 12), is the least in 0.82 of steps."""
    outcomes, findings = hidden
    heldout = [outcome["planted"] for outcome in outcomes[len(outcomes) // 2 :]]
    alone, lowest = (
        np.mean([planted[name] for planted in heldout]) for name in ("default", "lowest_loss")
    )
    step = 2 * (2 / 12) ** 0.5 + 1 / 128
    assert lowest == pytest.approx(step**4, abs=0.1)
    assert alone < 0.15
    power = measured(findings, TEXTS["reconstruction"].power)
    assert power.low < step**4 < power.high
    assert power.value >= lowest
    assert power.n == power.clusters == 160
    assert power.null == 0.0


class LessLikely(planted.Planted):
    """The true token's loss lies so many standard deviations of all losses over the largest of the others."""

    over = 0.0

    def _loss(self, query):
        losses = super()._loss(query)
        truth = self.truth[self._name(query.page)][query.position]
        losses[query.candidates == truth] = losses.max() + self.over * losses.std()
        return losses


@pytest.mark.parametrize(("over", "found"), [(-1.0, 1.0), (1.0, 0.0)])
def test_an_attack_that_misses_a_memory_of_two_spreads_is_too_weak_for_a_pass(over, found):
    """All candidates hold the truth, so that all values are within reach either way."""
    corpus = planted.corpus(120, 120)
    target = LessLikely(corpus.documents, task="token-classification")
    target.over = over
    outcomes, findings = run(
        Reconstruction(), planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    )
    assert all(outcome["reached"] for outcome in outcomes)
    assert measured(findings, TEXTS["reconstruction"].power).value == pytest.approx(found, abs=0.05)
    unique = [
        one
        for one in verdict(Reconstruction(), findings).decisions
        if one.limit.metric.endswith(".unique")
    ]
    assert {one.outcome for one in unique} == {"passed" if found else "undecided"}
    assert found or all("attacker is too weak" in one.reason for one in unique)


def test_planting_a_memory_asks_the_target_nothing(monkeypatch):
    corpus = planted.corpus(12, 12)
    counts = []
    for silent in (False, True):
        if silent:
            monkeypatch.setattr(cdmi, "rebuilds", lambda *_: iter(()))
        for task in ("token-classification", "mlm"):
            target = planted.Planted(corpus.documents, {"d0"}, task=task)
            public = planted.Planted(corpus.documents, seed=5)
            run(Reconstruction(), planted.case(target, public, corpus))
            counts.append((sum(target.asked), sum(public.asked)))
    assert counts[:2] == counts[2:]


def test_a_memory_is_two_standard_deviations_of_the_difference_between_two_candidates():
    rng = np.random.default_rng(0)
    losses = rng.gamma(2.0, 1.0, 100_000)
    differences = losses - rng.permutation(losses)
    assert memory_of(losses) == pytest.approx(2 * differences.std(), rel=0.01)
    assert memory_of(np.array([1.0, np.nan, 3.0, np.inf])) == pytest.approx(2 * np.sqrt(2))
    assert memory_of(np.full(3, np.nan)) == memory_of(np.zeros(5)) == 0.0


def test_an_ignorant_classifier_shows_no_excess_by_any_method():
    _, findings = run(Reconstruction(), judged(160, 0))
    for method in ("", ".lowest_loss"):
        found = measured(findings, f"excess_pr.unique{method}")
        assert found.low <= 0 <= found.high < 0.05
    assert fired(findings.checks) == []


def test_what_the_owner_can_give_is_nothing_that_the_data_set_lacks():
    corpus = planted.corpus(2, 2)
    attack = Reconstruction()
    assert why(attack, Case(NoModel(corpus), corpus), "data") is None
    assert "no auxiliary model" in why(attack, Case(NoModel(corpus), corpus), "missing")
    assert (
        why(attack, Case(NoModel(planted.corpus(2, 0)), planted.corpus(2, 0)), "data")
        == "no field to attack in unseen documents"
    )
    given = replace(
        corpus, manifest=replace(corpus.manifest, references=ReferencePaths(auxiliary="a"))
    )
    assert why(attack, Case(NoModel(given), given), "missing") is None


def test_budgets_and_stronger_parameters_are_no_ablation():
    assert not any(
        Reconstruction.preset(budget).ablations for budget in ("quick", "standard", "full")
    )
    assert (
        Reconstruction(n_candidates=600, n_attempts=9, min_tokens=2, max_tokens=20).ablations == ()
    )


def test_held_out_documents_that_were_trained_on_are_said_and_decide_nothing():
    """All documents were trained on, and then divided at random into members and held-out ones."""
    corpus = planted.corpus(150, 150)
    everyone = {document.id for document in corpus.documents}
    target = planted.Planted(corpus.documents, everyone)
    attack = Reconstruction(n_candidates=64)
    _, findings = run(
        attack, planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    )
    assert (
        measured(findings, "excess_pr.unique").value,
        measured(findings, "heldout_gain.unique").value,
    ) == (0, 1.0)
    assert confounded_of(findings).startswith(
        "the unseen documents look trained on, unless this is chance. "
    )
    assert verdict(attack, findings).exit_code == 11


def test_held_out_documents_that_only_the_lowest_loss_finds_trained_on_are_said_too():
    corpus = planted.corpus(100, 100)
    target = planted.Planted(
        corpus.documents,
        {document.id for document in corpus.documents},
        task="token-classification",
    )
    case = planted.case(target, Confident(corpus.documents, seed=5), corpus)
    _, findings = run(Reconstruction(n_attempts=1), case)
    assert measured(findings, "heldout_gain.unique").low < 0.05
    assert "look trained on" in confounded_of(findings)


def test_documents_that_were_not_drawn_by_lot_or_differ_in_themselves_decide_nothing():
    corpus = planted.corpus(30, 30)
    target = planted.Planted(corpus.documents)
    public = planted.Planted(corpus.documents, seed=5)
    attack = Reconstruction(n_candidates=16, n_attempts=1)
    dated = replace(corpus, manifest=replace(corpus.manifest, membership=Membership("by-date")))
    _, findings = run(attack, planted.case(target, public, dated))
    assert "they come from different times" in findings.confounded
    documents = []
    for document in corpus.documents:
        words = document.words if document.split == "heldout" else (*document.words, Word("2099"))
        documents.append(replace(document, words=words))
    marked = replace(corpus, documents=tuple(documents))
    _, findings = run(attack, planted.case(planted.Planted(marked.documents), public, marked))
    assert confounded_of(findings) is not None
    assert measured(findings, "blind_auc").value > 0.9
    assert "blind_p" in {item.name for item in findings.diagnostics}


def with_lengths(corpus, n_long=20):
    """A field of `n_long` tokens and one of two after the words of every document."""
    rng = np.random.default_rng(3)
    documents = []
    for document in corpus.documents:
        start = len(document.words)
        more = [Word(f"{token:04d}") for token in rng.integers(10, planted.VOCABULARY, n_long + 2)]
        entities = (
            *document.entities,
            Entity("long", "X", "location", tuple(range(start, start + n_long))),
            Entity("short", "X", "code", (start + n_long, start + n_long + 1)),
        )
        documents.append(replace(document, words=(*document.words, *more), entities=entities))
    return replace(corpus, documents=tuple(documents))


@pytest.fixture(scope="module")
def lengths():
    """Half of the member documents remember their fields of unusual length, and no other field."""
    corpus = with_lengths(planted.corpus(40, 40))
    ignorant = planted.Planted(corpus.documents, seed=1)

    class Apart(planted.Planted):
        def _fill(self, query):
            if query.position < 7:
                return ignorant._fill(query)
            return super()._fill(query)

    target = Apart(corpus.documents, {f"d{index}" for index in range(20)})
    case = planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    attack = Reconstruction(n_candidates=16, n_attempts=2)
    return attack, case, *run(attack, case)


def test_long_fields_are_attacked_by_both_ends_and_short_ones_as_they_are(lengths):
    attack, case, outcomes, findings = lengths
    trials = attack.trials(case)
    assert len({trial.id for trial in trials}) == len(trials) == 80 * 4
    assert {trial.stratum for trial in trials} == {
        split + length for split in ("member", "heldout") for length in ("", " long", " short")
    }
    whole = {trial.id: outcome["truth"] for trial, outcome in zip(trials, outcomes, strict=True)}
    words = [int(word.text) for word in case.corpus.document("d0").words]
    assert (whole["d0\x1flong\x1fstart"], whole["d0\x1flong\x1fend"]) == (words[7:22], words[12:27])
    assert whole["d0\x1fshort"] == words[27:]
    counts = {count.name: count.value for count in findings.counts}
    assert (
        counts["fields attacked"],
        counts["long fields attacked"],
        counts["short fields attacked"],
    ) == (80,) * 3


def test_a_leak_of_long_or_short_fields_is_reported_apart_and_raises_an_alarm(lengths):
    attack, _, _, findings = lengths
    assert (measured(findings, "excess_pr.all").value, measured(findings, "excess_pr.all").n) == (
        0,
        80,
    )
    (check,) = fired(findings.checks)  # one for all kinds of values
    assert check.reason.startswith(
        "training leaks ends of fields that are too long to attack whole: "
    )
    assert check.reason.endswith("40 of 80 in training documents, 0 of 80 in unseen ones")
    assert verdict(attack, findings).exit_code == 11


def test_a_hidden_long_field_shows_nothing_of_itself(lengths):
    attack, case, *_ = lengths
    seen = []

    class Watched(planted.Planted):
        def ask(self, queries):
            seen.extend(query.page.ids for query in queries)
            return super().ask(queries)

    trial = next(trial for trial in attack.trials(case) if trial.id.endswith("end"))
    run_one = attack.attempt(
        replace(case, target=Watched(case.corpus.documents)), trial, np.random.default_rng(0)
    )
    request = next(run_one)
    request.answerer.ask(request.queries)
    assert (seen[0][7:27] == planted.MASK).all()
    assert (seen[0][27:] != planted.MASK).all()


def test_coverage_counts_the_fields_that_were_attacked_and_the_unique_ones_among_them():
    corpus = with_lengths(planted.corpus(10, 10, repeated=True))
    first = corpus.documents[0]
    unknown = replace(first, words=(*first.words[:-1], replace(first.words[-1], text="1")))
    corpus = replace(corpus, documents=(unknown, *corpus.documents[1:]))
    target = planted.Planted(corpus.documents)
    attack = Reconstruction(n_candidates=8, n_attempts=1)
    made = planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    outcomes, findings = run(attack, made)
    found = {one.category: (one.attacked, one.unique, one.total) for one in findings.coverage}
    # Of each member document a field that all documents share, a long one, and a short one, of
    # which one is unknown.
    assert found == {
        "all": (29, 19, 30),
        "amount": (10, 0, 10),
        "location": (10, 10, 10),
        "code": (9, 9, 10),
    }
    assert (next(iter(findings.coverage)).category, {one.unit for one in findings.coverage}) == (
        "all",
        {"fields"},
    )
    few = attack.trials(made)[
        :8
    ]  # of the first document two ends of the long field and one more; of others likewise
    part = attack.measure(made, few, outcomes[:8], np.random.default_rng(1), SILENT)
    asked = {tuple(trial.id.split("\x1f")[:2]) for trial in few}
    assert len(asked) < len(few)
    assert (part.coverage[0].attacked, part.coverage[0].total) == (len(asked), 30), (
        "what no budget drew was not attacked"
    )


def covered(corpus, **recipe):
    """What the attack on a model with a window of eight tokens says it covers."""
    corpus = replace(corpus, manifest=replace(corpus.manifest, recipe=TrainingRecipe(**recipe)))
    target = Windows(corpus.documents)
    case = planted.case(target, target, corpus)
    seen = occurrences(corpus)
    fields = [*all_fields(case, 3, 15)]
    offered = Counter(FieldKind.of(one, seen) for one in fields)
    tried = [one for one in fields if not one.left_out]
    found = coverage(offered, tried, seen, withheld(corpus))
    return {one.category: (one.attacked, one.total) for one in found}


def marked(document, attack):
    entities = [
        replace(one, attack=own) for one, own in zip(document.entities, attack, strict=True)
    ]
    return replace(document, entities=tuple(entities))


def test_fields_that_are_kept_out_of_the_audit_count_in_what_a_pass_rests_on():
    corpus = planted.corpus(6, 6, fields=2)
    both = covered(corpus)
    assert both["all"] == (12, 12)
    kept_out = replace(
        corpus, documents=tuple(marked(one, (True, False)) for one in corpus.documents)
    )
    assert covered(kept_out)["all"] == (6, 12)
    assert {name: total for name, (_, total) in covered(kept_out).items()} == {
        name: total for name, (_, total) in both.items()
    }


def test_fields_behind_the_first_window_count_in_what_a_pass_rests_on():
    assert covered(planted.corpus(6, 6, fields=2), window="first")["all"] == (6, 12)


def test_a_pass_needs_fields_that_were_not_kept_out():
    corpus = planted.corpus(120, 120, fields=2)
    # One field in four may be attacked, where three in ten are asked for.
    documents = [marked(one, (index % 2 == 0, False)) for index, one in enumerate(corpus.documents)]
    corpus = replace(corpus, documents=tuple(documents))
    ignorant = planted.Plausible(corpus.documents, seed=9)
    attack = Reconstruction()
    _, findings = run(
        attack, planted.case(ignorant, planted.Planted(corpus.documents, seed=5), corpus)
    )
    decided = verdict(attack, findings)
    assert decided.exit_code == 11
    assert any(
        "too few possible leaks were tried (all: 60 of 240 fields)" in one.reason
        for one in decided.decisions
    )


def test_a_corpus_of_long_fields_alone_is_measured():
    corpus = with_lengths(planted.corpus(6, 6))
    documents = [
        replace(document, entities=document.entities[1:2]) for document in corpus.documents
    ]
    corpus = replace(corpus, documents=tuple(documents))
    target = planted.Planted(corpus.documents)
    attack = Reconstruction(n_candidates=8, n_attempts=1)
    _, findings = run(
        attack, planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    )
    assert isinstance(measured(findings, "excess_pr.unique"), Unresolved)
    assert isinstance(measured(findings, TEXTS["reconstruction"].power), Unresolved)
    assert {count.name: count.value for count in findings.counts}["long fields attacked"] == 12
    assert np.isfinite([item.value for item in findings.diagnostics]).all()


def test_the_lowest_loss_heeds_the_public_model_only_among_equals():
    ids = np.array([7, 5, 9, 3])
    logits = np.array([1.0, 2.0, 2.0, -4.0])

    def chosen(losses):
        (place,) = LowestLoss().node(PrefixKnowledge(ids, logits, losses), 0).kept
        return int(ids[place])

    assert (chosen(np.array([1.0, 1.0, 1.0, 0.9])), chosen(np.array([1.0, 1.0, 1.0, 1.0]))) == (
        3,
        5,
    )
    assert chosen(np.array([np.nan, np.inf, 3.0, 4.0])) == 9
    assert chosen(np.full(4, np.nan)) == chosen(None) == 5


def test_the_shipped_settings_are_those_of_the_attack():
    assert Reconstruction().rules == {"default": SHIPPED, "lowest_loss": LowestLoss()}


class Windows(planted.Planted):
    """Reads eight tokens at most, as encoders do: the beginning, or a window around some words."""

    def __init__(self, documents):
        super().__init__(documents)
        self.card = replace(self.card, max_tokens=8)

    def encode(self, document, around=()):
        whole = super().encode(document)
        start = 0
        if len(around):
            start = max(0, min((min(around) + max(around)) // 2 - 4, len(whole.ids) - 8))
        kept = slice(start, start + 8)
        return replace(whole, ids=whole.ids[kept], boxes=whole.boxes[kept], words=whole.words[kept])


@pytest.mark.parametrize(
    ("window", "read"),
    [
        # The first fields stand at words 3 to 6, the second ones at 7 to 10, beyond the eight words
        # of the beginning.
        (None, {"e0": [0, 8], "e1": [3, 11]}),
        ("first", {"e0": [0, 8], "e1": "outside the trained window"}),
        ("sliding", {"e0": [0, 8], "e1": [3, 11]}),
    ],
)
def test_long_pages_are_attacked_in_the_window_that_training_read(window, read):
    corpus = planted.corpus(2, 2, fields=2)
    corpus = replace(
        corpus, manifest=replace(corpus.manifest, recipe=TrainingRecipe(window=window))
    )
    target = Windows(corpus.documents)
    for field in all_fields(planted.case(target, target, corpus), 3, 15):
        found = field.left_out or [int(field.page.words[0]), int(field.page.words[-1]) + 1]
        assert found == read[field.entity.id]


def test_a_field_at_the_end_of_the_first_window_is_attacked_there_and_not_in_one_around_it():
    corpus = planted.corpus(1, 1, fields=2)
    documents = [
        replace(document, entities=(replace(document.entities[0], words=(4, 5, 6, 7)),))
        for document in corpus.documents
    ]
    for window, start in {None: 0, "first": 0, "sliding": 1}.items():
        manifest = replace(corpus.manifest, recipe=TrainingRecipe(window=window))
        changed = replace(corpus, documents=tuple(documents), manifest=manifest)
        target = Windows(documents)
        assert {
            int(field.page.words[0])
            for field in all_fields(planted.case(target, target, changed), 3, 15)
        } == {start}
