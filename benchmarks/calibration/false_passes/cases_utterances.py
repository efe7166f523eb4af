"""Constructions of utterances: findings 1, 2, 3, 6 and 8, and clean models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audit.corpus.documents import Document, Split
from benchmarks.calibration.false_passes import policies
from benchmarks.calibration.false_passes.lab import Lab, construction
from benchmarks.calibration.false_passes.scans import Audit, Numbers, Policy
from benchmarks.calibration.false_passes.utterances import Training, vary

MEMBERS = Training(("members",))
REFIT = Training(("members", "unseen"))
EARLIER_REFIT = Training(("members", "unseen"), epochs=25, seed=7)
OF_UNSEEN = Training(("unseen",), epochs=25, seed=8)
HONEST = Training(("more others",), seed=1)
CLEAN = Training(("others",))
TEN_EPOCHS = Training(("members",), epochs=10)
HONEST_FOR_TEN = Training(("further", "public"), epochs=10, seed=1)
SPLITS: dict[Split, str] = {"member": "members", "heldout": "unseen", "public": "public"}


def common_sides(lab: Lab) -> dict[Split, Sequence[Document]]:
    """Return the documents of each side of the common data set."""
    return {split: lab.utterances.pools[pool] for split, pool in SPLITS.items()}


def attack_directly(lab: Lab, model: Path) -> Numbers:
    """Attack a model directly: members and held-out utterances, each against utterances that are in no data set."""
    pools = lab.utterances.pools
    return {
        "members against strangers": lab.utterances_told_apart(
            model, pools["members"], pools["strangers"]
        ),
        "held-out against strangers": lab.utterances_told_apart(
            model, pools["unseen"], pools["strangers"]
        ),
    }


def _of_utterances(
    lab: Lab, name: str, training: Training, reference: Training, policy: Policy
) -> Audit:
    """Scan what these trainings make on the common data set, membership alone."""
    trained = lab.utterances.train(name, training)
    baseline = lab.utterances.train("reference", reference)
    return scan_of(lab, trained, baseline, policy, lab.utterances.write("snips", common_sides(lab)))


def scan_of(lab: Lab, model: Path, baseline: Path, policy: Policy, data: Path) -> Audit:
    """Scan a model of utterances beside a baseline, membership alone."""
    references = {"baselines": baseline}
    return Audit(
        "scan", model, data, policy, references, ("membership",), direct=attack_directly(lab, model)
    )


def _as_forget_check(audit: Audit, lab: Lab) -> Audit:
    """Return the audit as a forget-check of all members, under the shipped "forget" policy."""
    ids = tuple(document.id for document in lab.utterances.pools["members"])
    return replace(audit, command="forget-check", only=(), ids=ids, policy=Policy("forget"))


@construction("members", "", "leaks", "utterances, trained on the members alone; default policy")
def members(lab: Lab) -> Audit:
    """S_mem."""
    return _of_utterances(lab, "S_mem", MEMBERS, HONEST, Policy("default"))


@construction(
    "refit",
    "",
    "leaks",
    "trained on members and held-out utterances, honest baseline; default policy",
)
def refit(lab: Lab) -> Audit:
    """S_refit."""
    return _of_utterances(lab, "S_refit", REFIT, HONEST, Policy("default"))


@construction("refit-forget", "1", "leaks", "the same, an earlier refit as baseline; forget-check")
def refit_forget(lab: Lab) -> Audit:
    """S_refit beside S_refitB."""
    return _as_forget_check(
        _of_utterances(lab, "S_refit", REFIT, EARLIER_REFIT, Policy("forget")), lab
    )


@construction("refit-forget-honest", "1", "leaks", "the same, honest baseline; forget-check")
def refit_forget_honest(lab: Lab) -> Audit:
    """Forget-check the refitted model (S_refit) on all members, with an honest baseline."""
    return _as_forget_check(_of_utterances(lab, "S_refit", REFIT, HONEST, Policy("forget")), lab)


@construction("refit-scan", "1", "leaks", "the same, an earlier refit as baseline; scan, nlu-team")
def refit_scan(lab: Lab) -> Audit:
    """S_refit beside S_refitB."""
    return _of_utterances(lab, "S_refit", REFIT, EARLIER_REFIT, lab.nlu_team)


@construction(
    "heldout-baseline",
    "2",
    "unfair",
    "clean utterances, baseline of the held-out ones; default policy",
)
def heldout_baseline(lab: Lab) -> Audit:
    """S_clean beside S_heldbase."""
    return _of_utterances(lab, "S_clean", CLEAN, OF_UNSEEN, Policy("default"))


@construction("heldout-baseline-forget", "2", "unfair", "the same; forget-check")
def heldout_baseline_forget(lab: Lab) -> Audit:
    """S_clean beside S_heldbase."""
    return _as_forget_check(_of_utterances(lab, "S_clean", CLEAN, OF_UNSEEN, Policy("forget")), lab)


@construction(
    "strongest", "3", "leaks", 'members alone; a policy of `auc.lira` with `undecided = "warn"`'
)
def strongest(lab: Lab) -> Audit:
    """The record of S_mem under g.toml."""
    scanned = members(lab)
    policy = Policy("team-g", policies.STRONGEST)
    return Audit(
        "gate", scanned.model, scanned.data, policy, direct=scanned.direct, record_of=scanned
    )


def _of_variants(lab: Lab, public: bool, training: Training, reference: Training) -> Audit:
    """Scan a model whose held-out utterances are variants of its members."""
    pools = lab.utterances.pools
    variants = vary(pools["members"], pools["members"], seed=6)
    sides: dict[Split, Sequence[Document]] = {"member": pools["members"], "heldout": variants}
    if public:
        sides["public"] = pools["public"]
    model = lab.utterances.train("S_variants", training)
    strangers = pools["strangers"]
    return Audit(
        "scan",
        model,
        lab.utterances.write("snips-variants", sides),
        lab.nlu_team,
        {"baselines": lab.utterances.train("reference", reference)},
        ("membership",),
        direct={
            "members against strangers": lab.utterances_told_apart(
                model, pools["members"], strangers
            ),
            "members against held-out": lab.utterances_told_apart(
                model, pools["members"], variants
            ),
            "held-out against strangers": lab.utterances_told_apart(model, variants, strangers),
        },
    )


@construction(
    "variants",
    "6",
    "leaks",
    "10 epochs; held-out: members with one slot changed; no public; nlu-team",
)
def variants(lab: Lab) -> Audit:
    """S_variants."""
    return _of_variants(lab, False, TEN_EPOCHS, HONEST_FOR_TEN)


@construction("variants-public", "6", "leaks", "the same with 100 public utterances")
def variants_public(lab: Lab) -> Audit:
    """S_variants."""
    return _of_variants(lab, True, TEN_EPOCHS, HONEST_FOR_TEN)


@construction("variants-forty", "6", "leaks", "the same without public utterances, 40 epochs")
def variants_forty(lab: Lab) -> Audit:
    """S_mem against variants."""
    return _of_variants(lab, False, MEMBERS, HONEST)


@dataclass(frozen=True)
class CleanModel:
    """A model that saw no member, and its honest reference: the same recipe on other utterances."""

    name: str
    training: Training
    reference: Training


CLEAN_MODELS = (
    CleanModel("S_clean", CLEAN, HONEST),
    CleanModel("S_b10", replace(CLEAN, epochs=10), replace(HONEST, epochs=10)),
    CleanModel("S_b600", Training(("further",), 14), Training(("further again",), 14, seed=1)),
    CleanModel("S_seed", Training(("strangers",), seed=5), replace(HONEST, seed=6)),
    CleanModel("S_small", replace(CLEAN, hidden_size=24), replace(HONEST, hidden_size=24)),
    CleanModel("S_dropout", replace(CLEAN, dropout=True), replace(HONEST, dropout=True)),
    CleanModel(
        "S_spelled", replace(CLEAN, character_layer=True), replace(HONEST, character_layer=True)
    ),
    CleanModel("S_b1200", Training(("many",), 10), Training(("many again",), 10, seed=1)),
)
DRAWS = {100: 1, 150: 1, 300: 2}
"""Random draws of both sides of each model, by documents a side."""


def _clean_audit(lab: Lab, model: CleanModel, reference: Training, count: int, draw: int) -> Audit:
    """Return a scan of a model trained on neither side, with utterances of this draw."""
    sides = lab.utterances.draw(count, draw)
    folder = lab.utterances.train(model.name, model.training)
    return Audit(
        "scan",
        folder,
        lab.utterances.write(f"snips-{count}-{draw}", sides),
        lab.nlu_team,
        {"baselines": lab.utterances.train("reference", reference)},
        ("membership",),
        direct={
            "members against held-out": lab.utterances_told_apart(
                folder, sides["member"], sides["heldout"]
            )
        },
    )


def _enter_clean(model: CleanModel, count: int, draw: int) -> None:
    """Register a clean construction: this model, `count` utterances a side, one draw."""
    describe = f"{model.name}, {count} a side, draw {draw + 1}; nlu-team"
    name = f"{model.name}-{count}-{draw + 1}"
    construction(name, "", "clean", describe, count)(
        lambda lab: _clean_audit(lab, model, model.reference, count, draw)
    )


for _model in CLEAN_MODELS:
    for _count, _draws in DRAWS.items():
        for _draw in range(_draws):
            _enter_clean(_model, _count, _draw)


def _enter_worse(count: int, draw: int) -> None:
    """Register a scan of 10 epochs beside a baseline of 40, which is unfair."""
    ten = CLEAN_MODELS[1]
    describe = f"S_b10 (10 epochs) beside a baseline of 40, {count} a side; nlu-team"
    enter = construction(f"worse-{count}-{draw + 1}", "8", "unfair", describe)
    enter(lambda lab: _clean_audit(lab, ten, HONEST, count, draw))


for _count in DRAWS:
    _enter_worse(_count, 0)
