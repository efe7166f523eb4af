"""Checks of a whole scan on trained models: held-out documents of training, and pages written otherwise than there."""

import dataclasses
import datetime as dt
import functools
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import noisy_utterances as noisy
import numpy as np
import pytest
import tiny
from commands import docaudit
from test_membership_planted import Knowing, corpus

from audit import policy as policies
from audit import record as records
from audit.attacks.interface import HELDOUT_GAIN
from audit.attacks.membership import innocence, refit, scan_checks
from audit.attacks.membership.reading import READS_ALIKE
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Word
from audit.engine.interface import SILENT
from audit.measurements import LABEL_ORDER, Check
from audit.policy import Verdict
from audit.policy.checks import settle
from audit.report.residual import unexamined
from audit.stats.blind import blind_check
from audit.targets.opening import Checkpoint, target_of

N = 150


@dataclasses.dataclass(frozen=True)
class World:
    """A data set with a baseline, and what each model of it is trained on."""

    folder: Path
    corpus: Corpus
    trained: dict[str, list[Document]]
    found: dict[tuple[str, str | None], dict[str, Check]]

    def model(self, name: str) -> Path:
        folder = self.folder / name
        return folder if folder.exists() else noisy.train(folder, self.trained[name], 2)

    def load(self, folder: Path) -> Checkpoint:
        return target_of(folder, self.corpus, "cpu", None)

    def checks(self, name: str, baseline: str | None = "data/baseline") -> dict[str, Check]:
        if (name, baseline) not in self.found:
            baselines = () if baseline is None else (self.load(self.folder / baseline),)
            case = Case(self.load(self.model(name)), self.corpus, References(baselines=baselines))
            found = scan_checks.check_scan(case, 64, SILENT)
            assert found.untested == ()
            self.found[name, baseline] = {check.name: check for check in found.checks}
        return self.found[name, baseline]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noisy")
    members = noisy.utterances("member", N, 0)
    heldout = noisy.utterances("heldout", N, 1000)
    public = noisy.utterances("public", 80, 2000)
    others = noisy.utterances("public", N, 4000)
    noisy.write_corpus(folder / "data", [*members, *heldout, *public])
    noisy.train(folder / "data/baseline", noisy.utterances("public", N, 3000), 1)
    noisy.train(folder / "data/of_public", [*public, *public], 1)
    trained = {"clean": others, "members": members, "refitted": [*members, *heldout]}
    trained |= {
        "half": [*members, *heldout[: N // 2]],
        "capitals": [*noisy.in_capitals(members), *others],
    }
    return World(
        folder,
        noisy.write_corpus(folder / "data", [*members, *heldout, *public], "baseline"),
        trained,
        {},
    )


@pytest.mark.parametrize("baseline", ["data/baseline", "data/of_public", None])
def test_held_out_documents_of_training_are_noticed_beside_any_reference(world, baseline):
    """`docaudit references --train` trains on the public documents: the reference then has a low loss on them."""
    p_values = {
        name: world.checks(name, baseline)["held-out documents"].p_value for name in world.trained
    }
    assert p_values["refitted"] <= 0.001
    assert p_values["half"] <= 0.001
    assert min(p_values["clean"], p_values["members"], p_values["capitals"]) > 0.05


@pytest.mark.parametrize("baseline", ["data/baseline", None])
def test_pages_in_another_case_than_in_training_are_noticed(world, baseline):
    found = {name: world.checks(name, baseline)["way of writing"] for name in world.trained}
    assert found["capitals"].p_value <= 0.001
    assert "pages written in capitals fit the model better" in found["capitals"].reason
    assert min(check.p_value for name, check in found.items() if name != "capitals") > 0.5


@pytest.mark.parametrize(
    ("model", "outcome", "cause", "words"),
    [
        pytest.param("clean", "passed", None, "within the limit", id="a clean model passes"),
        pytest.param("members", "violated", None, "confirmed", id="a model of its members leaks"),
        pytest.param(
            "refitted",
            "undecided",
            "confounded",
            "the unseen documents look trained on, unless this is chance",
            id="the unseen documents look trained on",
        ),
        pytest.param(
            "capitals",
            "undecided",
            "alarm",
            "pages written in capitals fit the model better",
            id="the way of writing raises an alarm",
        ),
    ],
)
def test_a_scan_is_decided_by_them(world, tmp_path, model, outcome, cause, words):
    given = [
        "scan",
        world.model(model),
        world.folder / "data",
        "--out",
        tmp_path / "out",
        "--only",
        "membership",
    ]
    code = docaudit(*given).exit_code
    record = records.read(tmp_path / "out")
    names = {"held-out documents", "way of writing", "resemblance", "reference: baselines"}
    assert {check.name for check in record.checks} == names | {LABEL_ORDER}
    left_out = record.results["canaries"].reason
    assert left_out is not None
    assert left_out.fix.startswith("plant some before training")
    assert left_out.fix.endswith(", and scan without --only")
    state = "unmet" if model == "refitted" else "met"
    assert [(one.name, one.state) for one in record.conditions] == [
        ("training on the unseen documents", state)
    ]
    decision = _verdict_on_membership_auc(record).decisions[0]
    assert (decision.outcome, decision.cause) == (outcome, cause), decision
    assert words in decision.reason
    assert (code == 10) == (outcome == "violated")
    assert code != 0 or outcome == "passed"


def _verdict_on_membership_auc(record: records.AuditRecord) -> Verdict:
    """Judge a record by a policy of one limit: membership's AUC of at most 0.65."""
    limit = policies.Limit("membership", "auc", "told apart", max=0.65)
    return policies.evaluate(record, policies.Policy(1, "mine", (limit,)), dt.date(2026, 1, 1))


def test_other_checks_of_the_scan_share_the_level(world):
    made = world.checks("refitted")
    record = dataclasses.replace(tiny.record(), checks=tuple(made.values()))
    settled = {check.name: check for check in settle(record, ()).record.checks}
    assert settled["held-out documents"].fires
    assert not settled["way of writing"].fires


def test_without_public_documents_it_is_said_that_this_was_not_tested(world):
    without = dataclasses.replace(world.corpus, documents=world.corpus.of("member", "heldout"))
    found = scan_checks.check_scan(Case(world.load(world.model("clean")), without), 64, SILENT)
    assert [check.name for check in found.checks] == ["way of writing", "resemblance"]
    (reason,) = found.untested
    assert reason.startswith("training on the unseen documents: only 0 public documents")
    record = dataclasses.replace(tiny.record(battery=()), untested=found.untested)
    verdict = Verdict("mine", "undecided", (), 11, "nothing", settle(record, ()))
    assert f"Not tested: {reason}." in unexamined(record, verdict).parts
    (condition,) = found.conditions
    assert (condition.state, condition.attacks) == ("unmeasured", ("membership",))
    assert condition.substitutes == (HELDOUT_GAIN, READS_ALIKE)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Held-out and public documents, with what the losses of target and reference are made of.

    Attributes:
        compared: the documents.
        parts: by document: how hard it is, and what the target and the reference add by chance.
    """

    compared: innocence.ComparedDocuments
    parts: dict[str, tuple[float, float, float]]


@functools.lru_cache(maxsize=2)
def _drawn(seed: int, words: tuple[str, str]) -> Drawn:
    """Draw 100 documents a side.

    Those of one seed are compared without a model once, for all losses.
    """
    rng = np.random.default_rng(seed)
    documents = []
    parts = {}
    for side, split in enumerate(("heldout", "public")):
        for number in range(100):
            text = tuple(Word(f"{words[side]}{word}") for word in rng.integers(40, size=6))
            documents.append(Document(f"{split}{number}", split, text))  # type: ignore[arg-type]
            parts[f"{split}{number}"] = tuple(rng.normal(size=3))
    return Drawn(innocence.ComparedDocuments(corpus(2, 2), tuple(documents)), parts)


def _checked(
    seed: int,
    shift: float,
    reference_shift: float | None,
    words: tuple[str, str] = ("a", "a"),
    role: str = "baselines",
) -> Check | str:
    """Return the check of losses that are higher by `shift` on public documents, or why not."""
    drawn = _drawn(seed, words)
    losses = {}
    beside = {}
    for name, (hard, own, other) in drawn.parts.items():
        is_public = name.startswith("public")
        losses[name] = [2 * hard + own + shift * is_public]
        if reference_shift is not None:
            beside[name] = [2 * hard + other + reference_shift * is_public]
    # Nothing is asked but whether p is at most 0.01, which holds at its level for any number of
    # permutations.
    with patch.dict(blind_check.__kwdefaults__, n_permutations=200):
        knowledge = innocence.examine(role, drawn.compared, beside) if beside else None
        return _check_of(
            refit.check_heldout(drawn.compared, losses, refit.Reference(role, beside, knowledge))
        )


def _check_of(outcome: refit.UnseenTest | str) -> Check | str:
    """Return the check of an outcome; a reason why it was not tested as it is."""
    return outcome if isinstance(outcome, str) else outcome.check


def test_public_documents_of_another_kind_are_no_sign():
    """They are harder for both models; without a baseline that shows it, nothing is said."""
    made = [_checked(seed, 3.0, 3.0, ("a", "b")) for seed in range(60)]
    assert (
        sum(isinstance(one, Check) and one.p_value <= 0.05 for one in made) <= 7
    )  # 3 are expected
    assert "differ from unseen ones even without the model" in str(
        _checked(1, 3.0, None, ("a", "b"), "")
    )
    assert "no baseline shows the effect" in str(_checked(1, 3.0, -3.0, ("a", "b")))
    alike = _checked(1, 3.0, -3.0)
    assert isinstance(alike, Check)
    assert alike.p_value <= 0.001


def test_a_reference_with_the_same_knowledge_excuses_nothing():
    """Last year's refit fits held-out documents as well as this year's: the target's own area decides."""
    shared = _checked(1, 3.0, 3.0)
    assert isinstance(shared, Check)
    assert shared.p_value <= 0.001
    assert "no baseline shows the effect" in str(_checked(1, 3.0, 3.0, ("a", "b"))), (
        "knowledge, or a harder kind?"
    )


def test_an_innocent_baseline_controls_public_documents_of_another_kind():
    found = _checked(1, 3.0, 0.0, ("a", "b"))
    assert isinstance(found, Check)
    assert found.p_value <= 0.001
    quiet = _checked(1, 0.0, 0.0, ("a", "b"))
    assert isinstance(quiet, Check)
    assert quiet.p_value > 0.05


def test_public_documents_of_other_companies_clear_a_target_and_accuse_none():
    """The target may know the companies of its held-out documents, and no baseline does."""

    def check(shift: float, reference_shift: float) -> Check | str:
        rng = np.random.default_rng(5)
        documents = tuple(
            Document(f"{split}{n}", split) for split in ("heldout", "public") for n in range(100)
        )
        hard = {one.id: rng.normal() for one in documents}
        own = {
            one.id: [2 * hard[one.id] + rng.normal() + shift * (one.split == "public")]
            for one in documents
        }
        known = {
            one.id: [2 * hard[one.id] + rng.normal() + reference_shift * (one.split == "public")]
            for one in documents
        }
        compared = innocence.ComparedDocuments(corpus(2, 2), documents, alike=False)
        return _check_of(
            refit.check_heldout(compared, own, refit.Reference("baselines", known, None))
        )

    assert isinstance(check(0.0, 0.0), Check)
    assert "of other companies" in str(check(3.0, 0.0))
    assert "no baseline shows the effect" in str(check(3.0, 3.0))


@pytest.mark.parametrize(
    ("n_public", "shift", "state"),
    [
        pytest.param(100, 0.0, "met", id="enough documents, nothing known"),
        pytest.param(20, 0.8, "unmet", id="a refit that twenty documents do not show"),
        pytest.param(100, 3.0, "unmet", id="a refit that shows"),
    ],
)
def test_a_pass_needs_training_on_unseen_documents_excluded(n_public, shift, state):
    """A test that was made and found nothing excludes nothing: the area has to be shown small."""
    rng = np.random.default_rng(3)
    documents = [Document(f"heldout{number}", "heldout") for number in range(100)]
    documents += [Document(f"public{number}", "public") for number in range(n_public)]
    losses = {
        document.id: [rng.normal() + shift * (document.split == "public")] for document in documents
    }
    compared = innocence.ComparedDocuments(corpus(2, 2), tuple(documents))
    outcome = refit.check_heldout(compared, losses)
    assert isinstance(outcome, refit.UnseenTest)
    condition = refit.condition_of(outcome)
    assert condition.state == state
    if state == "unmet":
        assert outcome.highest > refit.HIGHEST
        assert f"up to {outcome.highest:.2f}" in condition.reason


@pytest.mark.parametrize(("n_draws", "most"), [(20, 2), (50, 4), (200, 17)])
def test_false_alarms_are_as_rare_as_stated(n_draws, most):
    """At 5 % with documents alike, with a baseline that knows the public ones and without one."""
    alarms: Counter[float] = Counter()
    for seed in range(n_draws):
        for reference_shift in (0.0, -3.0):
            check = _checked(seed, 0.0, reference_shift)
            alarms[reference_shift] += isinstance(check, Check) and check.p_value <= 0.05
    assert max(alarms.values()) <= most, alarms  # one of twenty is expected


def test_documents_of_companies_of_training_are_not_compared_with_others():
    def of(split: str, provider: str | None, count: int) -> list[Document]:
        return [Document(f"{split}-{provider}-{n}", split, provider=provider) for n in range(count)]  # type: ignore[arg-type]

    documents = [*of("member", "Known", 5), *of("heldout", "known", 30), *of("heldout", "new", 25)]
    documents += [*of("public", "other", 40), *of("public", "Known", 3)]
    world = dataclasses.replace(corpus(1, 1), documents=tuple(documents))
    heldout, public = refit.select_comparable(world)
    assert ({one.provider for one in heldout}, {one.provider for one in public}) == (
        {"new"},
        {"other"},
    )


def test_a_model_that_gives_no_loss_is_not_tested():
    target = Knowing()
    target.answers = frozenset()
    found = scan_checks.check_scan(Case(target, corpus(60, 60, 30)), 8, SILENT)
    assert [check.name for check in found.checks] == ["resemblance"]
    assert all("gives no loss" in reason for reason in found.untested)
    assert len(found.untested) == 2
    assert [condition.state for condition in found.conditions] == ["unmeasured"]
