"""What asking for many canaries together saves: 64 canaries x 4 restarts as one batch, or one at a time.

A made-up data set of utterances gets 64 canaries of the audit design (four digits behind a nonsense
word, each behind a coin of its own, ten copies of those that are in). Two models are trained on it:
docaudit's NLU model, and a small BERT that tags words. The relaxed attack then goes over the same
canaries twice, from the same starting points: all of them in flight and all restarts of a canary
side by side, as a scan does it; and one canary after the other, one restart after the other, one
query a forward pass. Seconds are those of the attack alone, after a warm-up; where other work
shares the machine, the ratio of processor seconds says more than that of the clock.

    OMP_NUM_THREADS=1 python benchmarks/canaries_speed.py --steps 50    # writes
    benchmarks/canaries_speed.json python benchmarks/canaries_speed.py --steps 3 --canaries 16 --out
    /tmp/speed.json    # does it run?
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForTokenClassification, BertTokenizerFast

from audit.attacks.canaries.pages import Inversion, Readable, invert, read_page
from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.schema import PATTERNS, Canary, load_canaries
from audit.corpus.documents import Corpus, Document, Entity, Manifest, Membership, Task, Word
from audit.corpus.manifest import load, write
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Trial
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu
from audit.references.encoders import fit, save
from audit.references.recipes import Recipe
from audit.targets.interface import TokenTarget
from audit.targets.opening import check, target_of

HERE = Path(__file__).parent
Kind = Literal["intent-slots", "token-classification"]
SEED = 0
PATTERN, LENGTH, REPEAT = "pin", 4, 10
LABELS = ("O", "B-place", "I-place", "B-day", "I-day")
PLACES = ("oslo", "new delhi", "rome", "sao paulo", "lima", "kuala lumpur")
DAYS = ("today", "next monday", "on sunday", "tomorrow")
OPENINGS = ("what is the weather in", "book a table in", "find a film in", "play some songs from")
REQUIRED = 8.0
"""How much faster the batch must be."""


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--steps", type=int, default=Inversion().n_epochs, help="of the attack; 250 in the paper"
    )
    parser.add_argument("--canaries", type=int, default=64)
    parser.add_argument("--utterances", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=20, help="of training")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    parser.add_argument("--out", type=Path, default=HERE / "canaries_speed.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = Inversion(n_epochs=options.steps)
    rows = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, kind, trained in (
            ("NLU model (BiLSTM-CRF)", "intent-slots", nlu),
            ("BERT, 2 layers of 128", "token-classification", bert),
        ):
            corpus = canaried(Path(scratch) / kind, kind, options)
            target = trained(corpus, Path(scratch) / f"{kind}-model", options.epochs)
            rows[name] = compared(target, corpus, settings)
            print(name, json.dumps(rows[name], indent=1), flush=True)
    report = {
        "canaries": options.canaries,
        "pattern": PATTERN,
        "length": LENGTH,
        "copies of a canary": REPEAT,
        "settings": asdict(settings),
        "required": REQUIRED,
        "targets": rows,
        "machine": options.machine,
        "device": "cpu",
        "threads": options.threads,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def canaried(folder: Path, kind: Kind, options: argparse.Namespace) -> Corpus:
    """Made-up utterances with canaries among them."""
    rng = np.random.default_rng(SEED)
    documents = [utterance(f"u{number}", kind, rng) for number in range(options.utterances)]
    write(
        folder / "plain",
        Manifest(1, "utterances", Task(kind, LABELS), Membership("random")),
        documents,
    )
    out = folder / "canaried"
    insert(
        load(folder / "plain"),
        out,
        pattern=PATTERN,
        count=options.canaries,
        repeat=REPEAT,
        length=LENGTH,
        seed=SEED,
    )
    return load(out)


def utterance(name: str, kind: Kind, rng: np.random.Generator) -> Document:
    """A request with a place and a day.

    For taggers of text these are entities, for NLU models tags.
    """
    intent = int(rng.integers(len(OPENINGS)))
    parts = [
        OPENINGS[intent].split(),
        str(rng.choice(PLACES)).split(),
        str(rng.choice(DAYS)).split(),
    ]
    words = tuple(Word(text) for part in parts for text in part)
    starts = np.cumsum([0, *map(len, parts)])
    if kind == "token-classification":
        entities = tuple(
            Entity(label, label, category, tuple(range(start, end)))
            for label, category, start, end in (
                ("place", "location", starts[1], starts[2]),
                ("day", "datetime", starts[2], starts[3]),
            )
        )
        return Document(name, "member", words, entities=entities)
    tags = ["O"] * len(parts[0])
    for label, part in zip(("place", "day"), parts[1:], strict=True):
        tags += [f"B-{label}", *[f"I-{label}"] * (len(part) - 1)]
    return Document(name, "member", words, tags=tuple(tags), intent=f"Intent{intent}")


def nlu(corpus: Corpus, folder: Path, epochs: int) -> TokenTarget:
    """An NLU model trained on the members."""
    recipe = NluRecipe(epochs=epochs, seed=SEED)
    return fit_nlu(corpus.of("member"), (), recipe, folder, labels=corpus.manifest.task.labels)


def bert(corpus: Corpus, folder: Path, epochs: int) -> TokenTarget:
    """A small BERT trained to tag the members.

    Each of the corpus's words, and each of the candidates, is a token.

    Words that stand nowhere in the corpus, as the names of canaries that were left out, are unknown
    to it.
    """
    words = {word.text for document in corpus.documents for word in document.words} | {
        *PATTERNS[PATTERN].candidates
    }
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner = Tokenizer(
        models.WordPiece(
            {t: i for i, t in enumerate([*special, *sorted(words)])}, unk_token="[UNK]"
        )
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = BertTokenizerFast(tokenizer_object=inner, model_max_length=64)
    labels = corpus.manifest.task.labels
    torch.manual_seed(SEED)
    model = BertForTokenClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=256,
            max_position_embeddings=64,
            id2label=dict(enumerate(labels)),
            label2id={label: index for index, label in enumerate(labels)},
        )
    )
    save(model, tokenizer, folder)
    target = target_of(folder, corpus)
    pages = [
        page for document in corpus.of("member") if (page := target.encode(document)) is not None
    ]
    fit(
        model, tokenizer, pages, Recipe(epochs=epochs, learning_rate=1e-3, batch_size=32, seed=SEED)
    )
    save(model, tokenizer, folder)
    target = target_of(folder, corpus)
    check(target, corpus)
    return target


@dataclass(frozen=True)
class Inversions:
    """The relaxed attack on each canary.

    Its outcome is the tokens of each restart, and which of them won.

    Attributes:
        target: the model.
        pages: by canary.
        settings: of the attack.
        together: whether a canary's restarts go side by side.
    """

    target: TokenTarget
    pages: dict[str, Readable]
    settings: Inversion
    together: bool

    def attempt(self, trial: Trial) -> Attempt:
        """One canary.

        Either way the restarts begin at the same points, for they are drawn in the same order.
        """
        rng = randomness(trial.id)
        own = self.pages[trial.id]
        at_once = self.settings.n_restarts if self.together else 1
        tokens, losses = [], []
        for _ in range(self.settings.n_restarts // at_once):
            settings = replace(self.settings, n_restarts=at_once)
            numbers, found = yield from invert(
                self.target, own.page, own.positions, own.ids, settings, rng
            )
            tokens += own.ids[numbers].tolist()
            losses += found.tolist()
        return {"tokens": tokens, "losses": losses}


def randomness(canary: str) -> np.random.Generator:
    """A canary's own source of randomness."""
    return np.random.default_rng([SEED, *canary.encode()])


def starts(own: Readable, canary: str, settings: Inversion) -> list[list[int]]:
    """The likeliest tokens of each restart before its first step."""
    shape = (settings.n_restarts, len(own.positions), len(own.ids))
    tokens: list[list[int]] = own.ids[
        randomness(canary).normal(0.0, settings.spread, shape).argmax(axis=2)
    ].tolist()
    return tokens


def compared(target: TokenTarget, corpus: Corpus, settings: Inversion) -> dict[str, Any]:
    """Seconds of both ways, and whether they find the same."""
    canary_set = load_canaries(corpus)
    assert canary_set is not None
    pages = {}
    for canary in canary_set.canaries:
        found = read_page(target, corpus, canary)
        if not isinstance(found, Readable):
            raise SystemExit(
                f"the model lacks digits of canary {canary.id}: so few canaries do not hold all of them"
            )
        pages[canary.id] = found
    together = Inversions(target, pages, settings, together=True)
    alone = replace(together, together=False)
    attacked(
        replace(together, settings=replace(settings, n_epochs=2)), list(pages)[:4], 4
    )  # warm up
    batch, batch_time = attacked(together, list(pages), len(pages))
    single, single_time = attacked(alone, list(pages), 1)
    return {
        "seconds": {"batch": batch_time.clock, "one at a time": single_time.clock},
        "processor seconds": {
            "batch": batch_time.processor,
            "one at a time": single_time.processor,
        },
        "faster": single_time.clock / batch_time.clock,
        "faster in processor seconds": single_time.processor / batch_time.processor,
        "canaries with the same result": sum(best(batch[id]) == best(single[id]) for id in pages),
        "restarts with the same tokens": sum(
            a == b
            for id in pages
            for a, b in zip(batch[id]["tokens"], single[id]["tokens"], strict=True)
        ),
        "restarts that moved to other tokens": sum(
            a != b
            for id in pages
            for a, b in zip(batch[id]["tokens"], starts(pages[id], id, settings), strict=True)
        ),
        "restarts": len(pages) * settings.n_restarts,
        "largest difference of a loss, nats": max(
            abs(a - b)
            for id in pages
            for a, b in zip(batch[id]["losses"], single[id]["losses"], strict=True)
        ),
        **{
            name: told(canary_set.canaries, pages, batch, included)
            for name, included in COINS.items()
        },
    }


COINS = {"recovered of those put in": True, "recovered of those left out": False}


def told(
    canaries: Sequence[Canary], pages: dict[str, Readable], found: dict[str, Any], included: bool
) -> list[int]:
    """How many completions came out whole, of how many."""
    own = [canary for canary in canaries if canary.included == included]
    right = 0
    for canary in own:
        ids = dict(zip(pages[canary.id].words, pages[canary.id].ids.tolist(), strict=True))
        right += best(found[canary.id]) == [ids[word] for word in canary.completion]
    return [right, len(own)]


def best(outcome: dict[str, Any]) -> list[int]:
    """The tokens of the restart with the lowest loss, the first one of equals."""
    tokens: list[int] = outcome["tokens"][int(np.argmin(outcome["losses"]))]
    return tokens


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock and of this process's processors."""

    clock: float
    processor: float


def attacked(work: Inversions, canaries: Sequence[str], width: int) -> tuple[dict[str, Any], Spent]:
    """The outcome of each canary, and what it took."""
    clock, processor = time.perf_counter(), time.process_time()
    outcomes = dict(drive(work, [Trial(name, name) for name in canaries], width))
    return outcomes, Spent(time.perf_counter() - clock, time.process_time() - processor)


if __name__ == "__main__":
    main()
