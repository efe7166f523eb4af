"""Values by unit: they make up the metric that they are named after, and two scans differ by what was planted."""

from collections.abc import Iterator, Mapping

import answering
import numpy as np
import planted
import planted_canaries
import pytest
import test_attributes_planted as attributes
from answering import Answering, memory_of
from attempts import run

from audit.attacks.attributes import AttributeInference
from audit.attacks.interface import Attack
from audit.attacks.membership import MembershipInference
from audit.attacks.memorisation import Memorisation
from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Question, Task, Word
from audit.measurements import Estimate
from audit.stats.paired import UnitScores, paired_difference
from audit.stats.roc import auc
from audit.targets.interface import AnswerLoss

Scan = tuple[Mapping[str, UnitScores], Mapping[str, Estimate]]


def scan(attack: Attack, case: Case) -> Scan:
    trials, outcomes, findings = run(attack, case)
    estimates = {item.name: item for item in findings.measurements if isinstance(item, Estimate)}
    return dict(
        item for item in attack.evidence(case, trials, outcomes) if isinstance(item, tuple)
    ), estimates


def memorised() -> Iterator[Scan]:
    data = answering.corpus(40, 40)
    attack = Memorisation(contexts=("exact", "paraphrased"))
    for count in (20, 8):
        target = Answering(memory_of(data.of("member")[:count]))
        yield scan(attack, Case(target, data, References(baselines=(Answering(),))))


def reconstructed() -> Iterator[Scan]:
    data = planted.corpus(25, 25)
    attack = Reconstruction(n_candidates=8, n_attempts=1)
    public = planted.Planted(data.documents, seed=5)
    for count in (20, 5):
        target = planted.Planted(data.documents, remembered={f"d{index}" for index in range(count)})
        yield scan(attack, planted.case(target, public, data))


def inferred() -> Iterator[Scan]:
    data = attributes.corpus(30, 30)
    for count in (30, 15):
        target = attributes.Knowing(data, attributes.ids(data, "member")[:count])
        yield scan(
            AttributeInference(),
            Case(target, data, References(auxiliary=attributes.Knowing(data, seed=1))),
        )


class Losing:
    """Gives the answer of each page a loss of its own, lower by `leak` on those it was trained on."""

    answers = frozenset({AnswerLoss})

    def __init__(self, trained=(), leak=0.0, seed=0) -> None:
        self.card = planted.card("question-answering")
        self.trained = frozenset(trained)
        self.leak = leak
        self.seed = seed

    def ask(self, queries):
        pages = [query.view.words[0].text for query in queries]
        return [np.array([-self._loss(page)]) for page in pages]  # log-probabilities

    def _loss(self, page: str) -> float:
        own, noise = (
            np.random.default_rng([*page.encode(), seed]).exponential()
            for seed in (0, 1 + self.seed)
        )
        return 5 + own + 0.5 * noise - self.leak * (page in self.trained)


def told() -> Iterator[Scan]:
    splits = ["member"] * 40 + ["heldout"] * 40
    pages = [
        Document(
            f"d{number}", split, (Word(f"w{number}"),), questions=(Question("q", "what", ("yes",)),)
        )
        for number, split in enumerate(splits)
    ]
    settings = Manifest(1, "planted", Task("question-answering"), Membership("random"))
    data = Corpus(None, settings, tuple(pages), "0" * 64)
    for leak in (3.0, 0.5):
        target = Losing([f"w{number}" for number in range(40)], leak)
        yield scan(MembershipInference(), Case(target, data, References(pretrained=Losing(seed=3))))


def planted_secrets(root) -> Iterator[Scan]:
    drawn = planted_canaries.canary_set(40, included=[place % 2 == 0 for place in range(40)])
    known = [canary for canary in drawn.canaries if canary.included]
    for count in (15, 4):
        target = planted_canaries.remembering(drawn, known[:count])
        yield scan(planted_canaries.QUICK, planted_canaries.case_of(root, drawn, target))


REBUILT = ("excess_pr.unique", "excess_hamming.all", "excess_pr.unique.lowest_loss")
SCANS = {
    "memorisation": (memorised, ("net",), -12 / 40),
    "reconstruction": (reconstructed, REBUILT, -15 / 25),
    "attribute_inference": (
        inferred,
        ("excess.unique", "excess.all", "excess.unique.calibrated"),
        None,
    ),
    "membership": (told, ("auc", "auc.loss", "auc.calibrated"), None),
    "canaries": (planted_secrets, ("excess", "excess_top3", "excess_exposure"), -11 / 20),
}


@pytest.fixture(scope="module", params=[*SCANS])
def scans(request, tmp_path_factory):
    make, metrics, change = SCANS[request.param]
    root = (tmp_path_factory.mktemp("canaries"),) if make is planted_secrets else ()
    return [*make(*root)], metrics, change


def value_of(scores: UnitScores) -> float:
    inside = scores.values[scores.member]
    outside = scores.values[~scores.member]
    if scores.kind == "auc":
        return auc(inside, outside)
    return float(inside.mean() - (outside.mean() if outside.size else 0.0))


def test_values_by_unit_make_up_the_metric(scans) -> None:
    for scores, estimates in scans[0]:
        assert scores.keys() <= estimates.keys() | {name for name in scores if "repeated" in name}
        for name in set(scans[1]) | (scores.keys() & estimates.keys()):
            assert value_of(scores[name]) == pytest.approx(estimates[name].value, abs=1e-12), name
            low, high = scores[name].limits
            assert scores[name].kind == "auc" or np.array_equal(
                scores[name].values.clip(low, high), scores[name].values
            )


def test_the_planted_difference_is_covered_and_never_by_chance(scans) -> None:
    (before, first), (after, second) = scans[0]
    for name in scans[1]:
        found = paired_difference(before[name], after[name], np.random.default_rng(0))
        assert found is not None
        assert found.interval.value == pytest.approx(
            second[name].value - first[name].value, abs=1e-12
        )
        assert found.p < 0.01
        assert found.interval.high < 0
    if scans[2] is not None:
        found = paired_difference(before[scans[1][0]], after[scans[1][0]], np.random.default_rng(0))
        assert found.interval.low <= scans[2] <= found.interval.high


def test_identical_scans_differ_by_nothing(scans) -> None:
    before, _ = scans[0][0]
    for name in scans[1]:
        if before[name].kind == "mean":
            found = paired_difference(before[name], before[name], np.random.default_rng(0))
            assert (found.interval.value, found.p) == (0, 1)
