"""A VT5 that reads invoices: what it gives away about providers, beside tables 1, 2, A3 to A6 of Tito et al. 2024."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from vocabulary import train_tokenizer

from audit import record as records
from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.provider_membership.providers import questions_of
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.extensions.papers.vt5 import VT5Config, VT5ForConditionalGeneration
from audit.references.recipes import AnsweringRecipe, made_once
from audit.references.trainer import samples_of
from audit.workflows.options import claim_folder
from audit.workflows.run import read_outcomes
from benchmarks.gpu.learning import (
    draw_samples,
    learn_to_read,
    read,
    round_lines,
    texts_of,
    write_others,
)
from benchmarks.gpu.work import Json, Result, Work
from benchmarks.papers import invoices_read, provider_invoices, provider_invoices_report
from benchmarks.papers.provider_invoices_data import Sizes
from benchmarks.papers.provider_invoices_training import fit

SIZES = {False: Sizes(330, 40, 6000), True: Sizes(4, 2, 4)}
"""Providers in (as many are out), public ones, and those that the model learns to read from."""
SHAPE = {
    False: {"d_model": 512, "d_kv": 64, "num_heads": 8, "d_ff": 2048, "num_layers": 6},
    True: {"d_model": 32, "d_kv": 16, "num_heads": 2, "d_ff": 32, "num_layers": 1},
}
"""T5-small's (62 million parameters with its vocabulary); no picture: words and boxes alone."""
PIECES = 4000
TOKENS = 384
READS = 0.55
"""The held-out ANLS, its interval's lower end, from which anything is measured."""
ROUND = 50_000
MOST_ROUNDS = 12
EPOCHS = {False: 1, True: 6}
RATE = {False: 5e-4, True: 1e-2}
BATCH = {False: 64, True: 8}
"""Of a round; a tiny model learns at least where answers end, so that it is soon done with them."""
FINE_RATE = 2e-4
FINE_EPOCHS = {False: 10, True: 1}
NOTE = (
    "VT5 of T5-small's size without a picture, weights fresh, taught to read invoices of other providers, then for 10 "
    "epochs the members' (two invoices of each provider in). Intervals are 95 %, over providers; one training."
)
PAPER_KEYS = (
    "*Paper (tables A3 and A4)*, answer removed: provider names ACC 3.55, ANLS 11.64 among those in, 0.17 and 5.05 "
    "among those out; e-mail addresses 13.09 and 32.65 in, 0 and 39.91 out."
)


def teach(work: Work) -> Result:
    """Teach the model to read, in rounds."""
    corpus, others = shared_data(work)
    start = work.folder / "start"
    work.step("start", partial(write_start, start, others, work))
    recipe = AnsweringRecipe(
        epochs=EPOCHS[work.tiny],
        learning_rate=RATE[work.tiny],
        batch_size=BATCH[work.tiny],
        bf16=work.device == "cuda",
    )

    def draw(number: int) -> Any:
        return draw_samples(others, number, 200 if work.tiny else ROUND)

    folder, reached = learn_to_read(work, start, draw, corpus, recipe, reads_well, MOST_ROUNDS)
    pretrained = corpus.root / "references" / "pretrained"
    pretrained.parent.mkdir(exist_ok=True)
    made_once(pretrained, partial(shutil.copytree, folder, dirs_exist_ok=True))
    return Result({"rounds": reached}, round_lines(reached))


def attack(work: Work) -> Result:
    """Fine-tune on the members and attack: table A6, the gap of tables 1 and A5, and the memorisation test by key."""
    corpus, _ = shared_data(work)
    model = work.folder / "model"
    out = work.folder / "report"
    result = work.folder / "model.json"
    log = work.folder / "model.training.json"
    recipe = AnsweringRecipe(
        epochs=FINE_EPOCHS[work.tiny],
        learning_rate=FINE_RATE,
        batch_size=BATCH[work.tiny],
        bf16=work.device == "cuda",
    )
    pretrained = corpus.root / "references" / "pretrained"

    def train() -> Json:
        fit(pretrained, model, samples_of(corpus, corpus.of("member")), recipe, log, work.device)
        return json.loads(log.read_text())

    work.step("train", train, 200.0)
    work.step("read", partial(read, model, corpus, work.device), 60.0)

    def audit() -> Json:
        provider_invoices.audit(model, corpus.root, out, result, work.device, attack_of(work))
        return {}

    work.step("audit", audit)
    keys = work.step("keys", partial(by_key, model, corpus, out, work))
    scanned = provider_invoices_report.Scanned(
        "model", records.read(result), json.loads(log.read_text())
    )
    anls = work.step("read", dict)
    text = [
        NOTE,
        "",
        f"Held-out ANLS {anls['anls']:.3f} [{anls['low']:.3f}, {anls['high']:.3f}].",
        "",
    ]
    text += [*provider_invoices_report.attacks(scanned), "", *provider_invoices_report.paper(), ""]
    text += key_lines(keys)
    return Result(
        {"attacks": json.loads(result.read_text())["attacks"], "keys": keys, "anls": anls}, text
    )


def attack_of(work: Work) -> ProviderMembership | None:
    """The attack with its usual parameters (None), or so that a tiny run is soon over."""
    return ProviderMembership(n_seeds=2) if work.tiny else None


def reads_well(reached: Json) -> bool:
    """Whether the model reads well enough for anything to be measured of it."""
    return bool(reached["low"] > max(READS, reached["guess"]))


def shared_data(work: Work) -> tuple[Corpus, Corpus]:
    """The audited invoices and those of other providers, as an OCR reads them; made once."""
    kept = work.folder_of("reading")
    sizes = SIZES[work.tiny]
    data = kept / "data"
    others = kept / "others"
    made_once(data, partial(invoices_read.make_data, sizes=sizes, kind="question-answering"))
    change = partial(invoices_read.misread, seed=1)
    made_once(others, partial(write_others, sizes=sizes, drawn=False, change=change))
    return manifest.load(data), manifest.load(others)


def write_start(folder: Path, others: Corpus, work: Work) -> Json:
    """Write the fresh VT5 of this piece, and count its parameters."""
    return {"parameters": write_vt5(folder, others, SHAPE[work.tiny], PIECES, TOKENS)}


def write_vt5(
    folder: Path, others: Corpus, shape: Mapping[str, int], n_pieces: int, max_tokens: int
) -> int:
    """Write a VT5 with fresh weights; its vocabulary is learnt from invoices that nobody audits.

    Args:
        folder: a new one.
        others: the invoices.
        shape: widths, heads and layers, by the names of T5's configuration.
        n_pieces: learned entries of the vocabulary.
        max_tokens: tokens that it reads of a page.

    Returns:
        The number of its parameters.
    """
    tokenizer = train_tokenizer(texts_of(others), n_pieces=n_pieces, max_tokens=max_tokens)
    tokenizer.bos_token = tokenizer.cls_token
    tokenizer.eos_token = tokenizer.sep_token
    config = VT5Config(
        vocab_size=len(tokenizer),
        dropout_rate=0.0,
        max_input_tokens=max_tokens,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
        **shape,
    )
    torch.manual_seed(0)
    model = VT5ForConditionalGeneration(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(one.numel() for one in model.parameters())


def by_key(model: Path, corpus: Corpus, out: Path, work: Work) -> Json:
    """From the scan's journal, by key and side: accuracy and similarity with the page, and with the answer removed."""
    opened = provider_invoices.opened_scan(model, corpus.root, out, work.device, attack_of(work))
    with claim_folder(out):
        _, outcomes = read_outcomes(opened, provider_invoices.ATTACK)
    trained = {document.provider for document in corpus.of("member")}
    values: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for outcome in outcomes:
        for asked in outcome["documents"]:
            document = corpus.document(asked["id"])
            side = "in" if document.provider in trained else "out"
            for question, scores in zip(questions_of(document), asked["questions"], strict=True):
                values[question.id, side].append({**scores, "provider": document.provider})
    return {f"{key} {side}": summary(rows) for (key, side), rows in sorted(values.items())}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over questions, in per cent.

    ACC of the removed answer counts replies that are the answer.
    """
    memory = [row["memory_similarity"] for row in rows if row["memory_similarity"] is not None]
    return {
        "questions": len(rows),
        "providers": len({row["provider"] for row in rows}),
        "ACC": 100 * mean([row["accuracy"] for row in rows]),
        "NLS": 100 * mean([row["similarity"] for row in rows]),
        "removed": len(memory),
        "ACC removed": 100 * mean([float(value >= 1.0) for value in memory]),
        "NLS removed": 100 * mean(memory),
    }


def mean(values: list[float]) -> float:
    """Of what there is; 0 of nothing, beside a count of 0."""
    return sum(values) / len(values) if values else 0.0


def key_lines(keys: Json) -> list[str]:
    """Tables 1, A5, 2, A3 and A4 in one: with the page, and with the answer removed, in and out."""
    text = [
        "By key and side, per cent, over questions: with the page (tables 1 and A5), and with the answer taken off it "
        "(tables 2, A3, A4). The first three keys have one answer for all documents of a provider.",
        "",
        "| key, side | questions (providers) | ACC | NLS | ACC, removed | NLS, removed |",
        "|---" * 6 + "|",
    ]
    for name, one in keys.items():
        text.append(
            f"| {name} | {one['questions']} ({one['providers']}) | {one['ACC']:.1f} | {one['NLS']:.1f} | "
            f"{one['ACC removed']:.1f} | {one['NLS removed']:.1f} |"
        )
    return [*text, "", PAPER_KEYS]
