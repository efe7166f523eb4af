"""Several attempts at a field: shared prefixes, membership scores, and what the model is shown."""

from dataclasses import replace

import numpy as np
import planted
import pytest
from attempts import outcomes_of

from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.methods import Shot, best, most_likely
from audit.engine.driver import drive
from audit.engine.interface import SILENT
from audit.measurements import Estimate
from audit.targets.encoded_page import PageImage
from audit.targets.interface import TrainingLoss
from benchmarks.papers.cdmi_numbers import numbers_of


def attempted(attack, case, trials=None):
    trials = attack.trials(case) if trials is None else trials
    return trials, outcomes_of(attack, case, trials, 5, stream=(7,))


def tokens_of(shots):
    return [shot["tokens"] for shot in shots]


def tried(outcome):
    """What every attempt with the target spelt, by any method: they share one trie."""
    return [*tokens_of(outcome["attack"]), *tokens_of(outcome["methods"]["lowest_loss"]["attack"])]


class Counting:
    """Passes questions on and keeps the prefix of every one that scores candidates."""

    def __init__(self, target, field_starts_at=3):
        self._target = target
        self._start = field_starts_at
        self.asked = []

    def __getattr__(self, name):
        return getattr(self._target, name)

    def ask(self, queries):
        for query in queries:
            if isinstance(query, TrainingLoss):
                self.asked.append(
                    (tuple(query.page.ids[: self._start]), tuple(query.page.ids[self._start :]))
                )
        return self._target.ask(queries)


@pytest.fixture(scope="module")
def judged():
    corpus = planted.corpus(6, 6)
    target = planted.Planted(corpus.documents, {"d0", "d1"}, task="token-classification")
    return planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)


@pytest.fixture(scope="module")
def masked():
    corpus = planted.corpus(6, 6)
    target = planted.Planted(corpus.documents, {"d0", "d1"})
    return planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)


@pytest.mark.parametrize("kind", ["judged", "masked"])
def test_the_first_attempt_is_the_one_shot_attack(kind, request):
    case = request.getfixturevalue(kind)
    _, one = attempted(Reconstruction(n_candidates=20, n_attempts=1), case)
    _, eight = attempted(Reconstruction(n_candidates=20, n_attempts=8), case)
    for player in ("attack", "baseline"):
        assert [found[player] for found in one] == [found[player][:1] for found in eight]
        assert all(len(found[player]) == 8 for found in eight)


def test_attempts_that_share_a_prefix_ask_for_its_candidates_once(judged):
    counting = Counting(judged.target)
    attack = Reconstruction(n_candidates=20)
    _, outcomes = attempted(attack, replace(judged, target=counting))
    trie = sum(
        len({tuple(shot[:step]) for shot in tried(found) for step in range(len(shot))})
        for found in outcomes
    )
    everything = sum(len(shot) for found in outcomes for shot in tried(found))
    assert len(counting.asked) == len(set(counting.asked)) == trie
    assert trie < everything


def test_sharing_prefixes_changes_no_attempt(judged):
    """Each attempt alone, with the source of randomness it has among the others."""

    class Alone:
        def __init__(self, number):
            self.number = number

        def spawn(self, n):
            return [np.random.default_rng([7]).spawn(8)[self.number]][:n]

    from audit.attacks.fields import field_of
    from audit.attacks.reconstruction.cdmi import reconstruct
    from audit.attacks.reconstruction.methods import SHIPPED

    attack = Reconstruction(n_candidates=20)
    trial = attack.trials(judged)[0]
    field = field_of(judged, trial, 3, 15)
    page = field.scrubbed()

    class One:
        def __init__(self, rng, n_attempts):
            self.rng = rng
            self.n_attempts = n_attempts

        def attempt(self, _):
            player = attack._attacker(judged, page, field.positions)
            return (yield from reconstruct(player, SHIPPED, self.n_attempts, self.rng))

    (_, together) = next(drive(One(np.random.default_rng([7]), 8), [trial], 1))
    for number in range(8):
        (_, alone) = next(drive(One(Alone(number), 1), [trial], 1))
        assert alone.shots == [together.shots[number]]


def test_an_attempt_is_ranked_by_the_perplexity_ratio_of_section_4_3():
    target = np.log([0.5, 0.8, 0.1])
    public = np.log([0.25, 0.1, 0.2])
    ppl_target = (0.5 * 0.8 * 0.1) ** (-1 / 3)
    ppl_public = (0.25 * 0.1 * 0.2) ** (-1 / 3)
    shots = [Shot((1, 2, 3), tuple(target), tuple(public))]
    assert np.exp(best(shots, with_target=True)[1]) == pytest.approx(ppl_public / ppl_target)
    assert np.exp(-best(shots, with_target=False)[1]) == pytest.approx(ppl_public)


def test_the_best_attempt_is_the_first_of_equals():
    shots = [
        Shot((1,), (-1.0,), (-2.0,)),
        Shot((2,), (-0.5,), (-2.0,)),
        Shot((3,), (-0.5,), (-2.0,)),
    ]
    chosen, score = best(shots, with_target=True)
    assert (chosen.tokens, score) == ((2,), pytest.approx(1.5))


def test_a_memoriser_is_surest_of_what_it_remembers():
    corpus = planted.corpus(40, 40)
    remembered = {f"d{number}" for number in range(10)}
    target = planted.Planted(corpus.documents, remembered)
    case = planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    attack = Reconstruction(n_candidates=30)
    trials, outcomes = attempted(attack, case)
    findings = attack.measure(case, trials, outcomes, np.random.default_rng(1), SILENT)
    found = {item.name: item for item in findings.measurements if isinstance(item, Estimate)}
    assert found["acc_at_5.member.attack"].value == 1.0
    assert found["acc_at_5.heldout.attack"].value == 0.0 < found["acc_at_5.heldout.attack"].high
    assert found["acc_at_5.member.baseline"].value == 0.0
    numbers = numbers_of(attack, case, trials, outcomes, 0)
    # The ten come first: At(m) is 1 up to m = 10 and 10 / m after it.
    assert numbers["accauc.member.attack"].value == pytest.approx(
        (10 + sum(10 / m for m in range(11, 41))) / 40
    )
    assert numbers["ipf.member"].low > 1
    assert numbers["acc_at_100.member.attack"].value == pytest.approx(10 / 40)
    assert numbers["acc_at_1.member.attack"].value == numbers["candidate_recall"].value == 1
    assert numbers["excess_accauc.all"].low > 0


class Seeing(planted.Planted):
    """Keeps the picture of every page it is shown."""

    def __init__(self, *rest, **named):
        super().__init__(*rest, **named)
        self.page_images = []

    def encode(self, document, around=()):
        page = super().encode(document, around)
        boxes = np.array(
            [[0.1 * place, 0.2, 0.1 * place + 0.1, 0.4] for place in range(len(page.ids))]
        )
        return replace(
            page,
            boxes=boxes,
            page_image=PageImage(lambda: np.zeros((3, 20, 20), np.uint8), (20, 20)),
        )

    def ask(self, queries):
        self.page_images += [query.page.page_image for query in queries]
        return super().ask(queries)


def test_the_white_patch_covers_the_field_and_stays_while_it_is_rebuilt():
    corpus = planted.corpus(2, 2)
    target = Seeing(corpus.documents, task="token-classification")
    case = planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    attack = Reconstruction(n_candidates=10)
    trial = attack.trials(case)[0]
    target.page_images.clear()
    attempted(attack, case, [trial])
    assert len({page_image.pixels.tobytes() for page_image in target.page_images}) == 1
    seen = target.page_images[0].pixels
    assert (seen[:, 4:8, 6:14] == 255).all()  # the field's four words
    # The patch reaches half a pixel further, where resizing may have left traces of the field.
    assert (seen[:, :3] == 0).all()
    assert (seen[:, 9:] == 0).all()
    assert (seen[:, :, :5] == 0).all()


def test_the_most_likely_come_first_and_ties_go_to_the_lower_id():
    assert most_likely(np.array([0.1, 0.4, 0.1, 0.4]), np.array([9, 8, 3, 7])).tolist() == [
        3,
        1,
        2,
        0,
    ]
