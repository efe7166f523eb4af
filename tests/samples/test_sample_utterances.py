"""The sample of utterances: canaries among commands, a model that gives them away and one that never saw them."""

import datetime as dt
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from audit import record as records
from audit.corpus import manifest
from audit.corpus.canaries.pages import page_of, positions_of
from audit.corpus.canaries.schema import load_canaries
from audit.extensions.papers.utterance_target import load_nlu
from audit.policy import evaluate, load
from audit.report.facts.build import facts_of
from audit.report.leaks import documents_used, plausibility
from audit.targets.interface import CompletionLoss

SAMPLE_MODELS = Path(__file__).parents[2] / "sample_models"
sys.path.append(str(SAMPLE_MODELS))  # the scripts there import each other by name

import build_utterances as build  # noqa: E402
import utterances_generator as generator  # noqa: E402

SAMPLE = SAMPLE_MODELS / "utterances"


@pytest.fixture(scope="module")
def corpus():
    return manifest.load(SAMPLE / "data")


@pytest.fixture(scope="module")
def canaries(corpus):
    return load_canaries(corpus).canaries


def test_the_clean_model_is_trained_on_every_canary_with_other_digits(corpus, canaries):
    members = corpus.of("member")
    scrubbed = build.scrubbed(members, canaries)
    codes = {name: "".join(canary.completion) for canary in canaries for name in canary.documents}
    assert codes
    for before, after in zip(members, scrubbed, strict=True):
        if before.id not in codes:
            assert after is before
            continue
        assert (after.tags, after.intent, after.words[:-4]) == (
            before.tags,
            before.intent,
            before.words[:-4],
        )
        assert generator.code_of(before) == codes[before.id] != generator.code_of(after)


def test_the_script_makes_the_data_that_is_committed(tmp_path):
    build.write_data(tmp_path / "data", build.commands())
    for name in ("documents.jsonl", "manifest.toml", "canaries.json"):
        assert (tmp_path / "data" / name).read_bytes() == (SAMPLE / "data" / name).read_bytes()


def test_there_are_enough_canaries_on_either_side_and_models_of_the_members_know_their_names(
    corpus, canaries
):
    included = [canary for canary in canaries if canary.included]
    assert len(canaries) == build.N_CANARIES
    assert 0.3 < len(included) / len(canaries) < 0.7
    names = {canary.prefix[2] for canary in included}
    for folder, expected in (
        ("model", names),
        ("clean", names),
        ("data/references/baseline", set()),
    ):
        assert names & set(load_nlu(SAMPLE / folder).vocabulary.words) == expected
        load_nlu(SAMPLE / folder).check(corpus)


def surprise(model, corpus, canary):
    """The share of the codes that differ in one digit whose loss is under that of the canary's own: (,) in [0, 1]."""
    target = load_nlu(SAMPLE / model)
    page = page_of(corpus, canary, canary.completion)
    codes = ["".join(canary.completion), *generator.wrong_by_one("".join(canary.completion))]
    ids = np.array([target.vocabulary.ids_of(code) for code in codes])
    (losses,) = target.ask([CompletionLoss(target.encode(page), positions_of(canary, page), ids)])
    return float((losses[1:] < losses[0]).mean())


def test_only_the_leaky_model_prefers_the_digits_of_the_canaries_it_was_trained_on(
    corpus, canaries
):
    included = [canary for canary in canaries if canary.included]
    control = [canary for canary in canaries if not canary.included]
    means = {
        (model, side): np.mean([surprise(model, corpus, canary) for canary in chosen])
        for model in ("model", "clean")
        for side, chosen in (("in", included), ("out", control))
    }
    assert means["model", "in"] < 0.05
    assert min(means["model", "out"], means["clean", "in"], means["clean", "out"]) > 0.25


@pytest.mark.skipif(
    "DOCAUDIT_SAMPLE_SCANS" not in os.environ, reason="reads what the gate has scanned"
)
@pytest.mark.parametrize(("model", "state"), [("clean", "none"), ("model", "signs")])
def test_only_the_model_that_saw_the_data_shows_signs_of_it(model, state):
    out = Path(os.environ["DOCAUDIT_SAMPLE_SCANS"]) / f"utterances-{model}"
    record = records.read(out)
    verdict = evaluate(record, load("default"), dt.date(2026, 1, 1))
    assert plausibility(facts_of(record, verdict)).state == state
    assert documents_used(record)
    said = "No measurement confirms this declaration" in " ".join(
        (out / "report.html").read_text().split()
    )
    assert said is (state == "none")


def test_the_utterances_of_the_baseline_are_in_no_split_and_training_adds_wrong_codes_alone(corpus):
    assert not {one.id for one in corpus.documents} & {one.id for one in build.commands()[None]}
    members = list(corpus.of("member"))
    trained = build.training(members)
    assert trained[: len(members)] == members
    right = {one.words for one in members if one.intent == generator.PIN}
    added = trained[len(members) :]
    assert {one.intent for one in added} == {generator.REFUSED}
    assert not {one.words for one in added} & right
    assert all("B-canary" not in one.tags and "B-code" not in one.tags for one in added)
