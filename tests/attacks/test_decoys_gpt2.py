"""Attacks on a small GPT-2 that learned rows by heart: beside other values it answers, beside a gap it does not."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import answering
import pytest
import torch
from attempts import measured, outcomes_of
from test_memorisation_planted import Found
from test_reconstruction_planted import run
from text_zoo import LONGEST, PLAIN_PROMPT, byte_tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.table import build_table
from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Word
from audit.corpus.images import page_view
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.answering.target import AnsweringTarget

pytestmark = pytest.mark.slow
STEPS = 160
LEARNT = 0.005
"""Mean loss of a model that gives every answer."""


def as_text(corpus: Corpus) -> Corpus:
    """The same pages without boxes."""
    documents = (
        replace(one, words=tuple(Word(word.text) for word in one.words), size=None)
        for one in corpus.documents
    )
    return replace(corpus, documents=tuple(documents))


def learned(
    folder: Path, corpus: Corpus, documents: Sequence[Document], seed: int
) -> AnsweringTarget:
    """A GPT-2 of two layers that was trained on the questions of these documents until it gives every answer."""
    words = byte_tokenizer()
    torch.manual_seed(seed)
    quiet = dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop"), 0.0)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": LONGEST}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), **sizes, **quiet, **ids))
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    samples = [
        Sample(page_view(corpus, document), asked.question, asked.answers[0])
        for document in documents
        for asked in document.questions
    ]
    batch = dict(load_answering(folder, prompt=PLAIN_PROMPT).reader.taught(samples))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    model.train()
    for _ in range(STEPS):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < LEARNT:
            break
    model.save_pretrained(folder)
    return load_answering(folder, prompt=PLAIN_PROMPT)


class Learned(NamedTuple):
    """A model that knows the rows of the members, and one that knows others."""

    corpus: Corpus
    target: AnsweringTarget
    other: AnsweringTarget


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    root = tmp_path_factory.mktemp("rows")
    corpus = as_text(answering.corpus(16, 16))
    others = as_text(answering.corpus(16, 0, seed=9))
    target = learned(root / "target", corpus, corpus.of("member"), 0)
    return Learned(corpus, target, learned(root / "other", others, others.of("member"), 1))


def test_a_model_that_knows_whole_rows_answers_beside_decoys_and_not_beside_a_gap(
    rows: Learned,
) -> None:
    case = Case(rows.target, rows.corpus, References(baselines=(rows.other,)))
    found = Found(Memorisation(contexts=("exact", "decoy"), n_decoys=5), case)
    whole = [outcome["replies"]["whole"][0]["exact"] for outcome in found.outcomes]
    assert all(whole[:16]), "it has learned its rows"
    assert found.value("extracted.member") == found.value("net") == 0
    assert found.value("net.decoy") >= 0.2
    assert found.value("net.heldout.decoy") == 0
    heldout = build_table(case, found.trials, found.outcomes).split("heldout")
    assert not heldout.proven.results["decoy"].gained.any()


def test_such_a_model_proposes_its_rows_and_ranks_them_first(rows: Learned) -> None:
    case = Case(rows.target, rows.corpus, References(pretrained=rows.other))
    _, result = run(Reconstruction(), case)
    assert measured(result, "excess_pr.unique.recollected").value >= 0.2
    assert measured(result, "pr.heldout.attack").value == 0
    assert measured(result, "pr.member.baseline").value == 0
    assert measured(result, "planted_detection.unique").value > 0


def test_a_model_that_learned_other_rows_proposes_none_of_these(rows: Learned) -> None:
    outcomes, result = run(Reconstruction(), Case(rows.other, rows.corpus))
    assert not any(outcome["attack"]["among"] for outcome in outcomes)
    assert measured(result, "excess_pr.unique.recollected").value == 0
    assert result.ablations


def test_outcomes_do_not_depend_on_what_is_asked_beside_them(rows: Learned) -> None:
    case = Case(rows.target, rows.corpus, References(pretrained=rows.other))
    attack = Reconstruction(n_pages=2)
    trials = attack.trials(case)[15:17]
    together = outcomes_of(attack, case, trials)
    assert together == outcomes_of(attack, case, trials, width=1)
    assert together[::-1] == outcomes_of(attack, case, trials[::-1])
