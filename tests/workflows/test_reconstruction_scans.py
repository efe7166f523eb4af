"""Scans of models that answer questions from a page's words: the public model is found, asked, and named."""

import shutil
from dataclasses import replace

import pytest
import tiny
from answering_checkpoints import make_donut
from asked_pages import corpus
from commands import docaudit
from scanned_by_engines import opened_elsewhere, work_of
from text_answering_checkpoints import (
    make_sentinel_vt5,
    make_t5,
    make_udop,
    make_vt5,
    spelling_tokenizer,
    vt5_model,
)

from audit import record as records
from audit.attacks.interface import why_inapplicable
from audit.attacks.reconstruction.recollection import recollects
from audit.corpus.documents import ReferencePaths
from audit.corpus.manifest import write
from audit.engine.driver import drive
from audit.engine.interface import SILENT
from audit.workflows.attacking import fill_references
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session
from audit.workflows.workers import AttackWork

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data set with two questions a page and one field to attack, a VT5, a T5 and other models: random weights."""
    root = tmp_path_factory.mktemp("asked")
    makers = {
        "vt5": make_sentinel_vt5,
        "t5": make_t5,
        "pretrained": make_sentinel_vt5,
        "donut": make_donut,
    }
    for seed, (name, make) in enumerate(makers.items()):
        make(root / name, seed)
    made = corpus(root / "data", members=2, heldout=2)
    write(
        root / "data",
        made.manifest,
        [with_one_field(document, "TOTAL") for document in made.documents],
    )
    (root / "parameters.toml").write_text("[reconstruction]\nn_candidates = 8\nn_attempts = 2\n")
    return root


def with_one_field(document, label):
    """The document with the field of this label alone to attack."""
    fields = (replace(entity, attack=entity.label == label) for entity in document.entities)
    return replace(document, entities=tuple(fields))


def scan(place, out, *more, model="vt5"):
    only = ("--only", "reconstruction", "--attack-parameters", place / "parameters.toml")
    found = docaudit("scan", place / model, place / "data", "--out", out, *only, *more)
    assert found.exit_code in (0, 10, 11), found.output
    record = records.read(out)
    (result,) = record.attacks
    return record, result


def opened(place, out, *, model="vt5", defense=None, **given):
    references = {name: [path] for name, path in given.items()}
    options = ScanOptions(
        place / model,
        place / "data",
        out,
        "quick",
        ("reconstruction",),
        references=references,
        defense=defense,
    )
    return open_session(options)


def outcomes_of(found, n_trials):
    """What comes of the first so many trials of a scan with one attempt a field."""
    attack = replace(found.attacks[0], n_candidates=6, n_attempts=1)
    case = found.case_with(fill_references(found, SILENT))
    return [
        *dict(drive(AttackWork(attack, case, 0), attack.trials(case)[:n_trials], n_trials)).values()
    ]


def test_a_scan_of_a_vt5_with_a_t5_completes_the_reconstruction(place, tmp_path):
    record, result = scan(place, tmp_path / "out", "--reference", f"auxiliary={place / 't5'}")
    assert result.status == "completed"
    (card,) = record.references
    assert (card.role, card.source, card.recipe) == ("auxiliary", "command line", None)
    assert card.card.architecture == "T5, puts back hidden spans; taken as it is"
    counts = {count.name: count.value for count in result.counts}
    assert (counts["fields attacked"], counts["left out: no question"]) == (4, 0)
    names = {item.name for item in result.measurements if item.kind == "estimate"}
    assert {"pr.member.attack", "acc_at_5.member.attack"} <= names


def test_without_a_public_model_the_attack_is_skipped_and_says_what_to_give(place, tmp_path):
    _, result = scan(place, tmp_path / "out")
    assert result.status == "skipped"
    assert "T5" in result.reason.fix
    start = make_vt5(tmp_path / "start", 5)
    assert opened(place, tmp_path / "no", pretrained=start).prepared.auxiliary is None


def test_a_public_model_with_other_tokens_or_the_targets_own_weights_is_refused(place, tmp_path):
    other = make_t5(tmp_path / "other")
    vocabulary = (other / "tokenizer.json").read_text().replace('"▁a"', '"▁aa"')
    (other / "tokenizer.json").write_text(vocabulary)
    short = tiny.checkpoint(tmp_path / "bert", "bert")
    for name, words in (
        (other, "other tokens"),
        (place / "vt5", "own weights"),
        (short, "reads shorter pages"),
    ):
        more = ("--reference", f"auxiliary={name}", "--out", tmp_path / "out")
        found = docaudit("scan", place / "vt5", place / "data", *more)
        assert found.exit_code == 2, found.output
        assert words in " ".join(found.output.split())


def test_workers_elsewhere_open_the_same_public_model(place, tmp_path):
    found = opened(place, tmp_path / "out", auxiliary=place / "t5")
    (attack,) = found.attacks
    attack = replace(attack, n_candidates=8, n_attempts=2)
    filled = fill_references(found, SILENT)
    source = work_of(found, filled, attack=attack)
    trials = attack.trials(source.here.case)[:2]
    elsewhere = opened_elsewhere(source, tmp_path / "copies")
    assert dict(drive(elsewhere, trials, 2)) == dict(drive(source.here, trials, 1))


def test_a_udop_takes_the_same_public_model(place, tmp_path):
    shutil.copytree(place / "data", tmp_path / "data")
    make_udop(tmp_path / "udop")
    (outcome,) = outcomes_of(
        opened(tmp_path, tmp_path / "out", model="udop", auxiliary=place / "t5"), 1
    )
    assert len(outcome["attack"][0]["tokens"]) == len(outcome["truth"])


def test_a_masked_language_model_with_the_targets_vocabulary_proposes_too(place, tmp_path):
    words = tiny.tokenizer()
    settings = {
        "max_input_tokens": tiny.POSITIONS - 1,
        "decoder_start_token_id": words.pad_token_id,
    }
    ends = {"pad_token_id": words.pad_token_id, "eos_token_id": words.sep_token_id}
    model = vt5_model(3, visual=False, vocab_size=len(words), **settings, **ends)
    for part in (model, spelling_tokenizer(words)):
        part.save_pretrained(tmp_path / "vt5")
    made = corpus(tmp_path / "data", members=2, heldout=2)
    # Vendors have letters alone, whose every piece the tiny vocabulary has.
    write(
        tmp_path / "data",
        made.manifest,
        [with_one_field(document, "VENDOR") for document in made.documents],
    )
    outcomes = outcomes_of(
        opened(tmp_path, tmp_path / "out", auxiliary=tiny.checkpoint(tmp_path / "bert", "bert")), 5
    )
    assert len(outcomes) == 4
    special = {
        words.mask_token_id,
        words.unk_token_id,
        words.cls_token_id,
        words.sep_token_id,
        words.pad_token_id,
    }
    for outcome in outcomes:
        for player in ("attack", "baseline"):
            assert not special & {*outcome[player][0]["tokens"]}
        assert not outcome["unusable"]


def test_behind_a_countermeasure_that_rewords_questions_the_model_proposes_values(place, tmp_path):
    """No candidate takes the place of a token there, and answers are still written."""
    found = opened(place, tmp_path, defense="random-after", auxiliary=place / "t5")
    (attack,) = found.attacks
    assert recollects(found.case)
    assert attack.unlimited(found.case) is not None
    assert why_inapplicable(attack, found.case).startswith("not tried, as in every quick scan")


def test_the_manifest_or_what_the_target_was_fine_tuned_from_names_the_public_model(
    place, tmp_path
):
    make_t5(tmp_path / "data" / "references" / "t5", 7)
    corpus(
        tmp_path / "data",
        members=2,
        heldout=2,
        references=ReferencePaths(auxiliary="references/t5"),
    )
    found = open_session(
        ScanOptions(place / "vt5", tmp_path / "data", tmp_path / "out", "quick")
    ).prepared
    assert found.auxiliary.source == "manifest"
    found = opened(
        place, tmp_path / "out", pretrained=place / "t5"
    ).prepared  # a T5 is asked no question
    assert (found.auxiliary is None, found.same_kind) == (False, ())
