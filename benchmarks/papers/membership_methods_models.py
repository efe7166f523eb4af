"""Corpora with planted members, and the models that learn them, for `membership_methods`.

Five kinds of models. Each begins from a pretrained start, which saw other documents of the same
source. A kind has six pools of documents, drawn alike: members, held-out and public ones, and those
that train the baseline and the clean model. Learning rates are constant, so that every epoch is a
model of its own.
"""

from __future__ import annotations

import functools
import io
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from build_letters import TAGS, write_untrained
from forms import clubs, drawn, form
from letters_generator import letter
from PIL import Image
from receipts_generator import Market
from receipts_templates import document as receipt_document
from safetensors.torch import load_model, save_model
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration
from vocabulary import train_tokenizer

from audit.corpus.documents import Document
from audit.corpus.images import PageView
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.encoders.loading import load
from benchmarks import SAMPLES

SEED = 20_260
SIDE = 160
PUBLIC = 80
POOLS = {"member": SIDE, "heldout": SIDE, "public": PUBLIC, "baseline": SIDE, "clean": SIDE}
"""Documents by pool."""
MORE = 320
"""Documents that train a model of weak memory besides: what one document does is the smaller."""
RUN = 10_000
"""Numbers between the first documents of two runs."""
Row = dict[str, Any]
"""One input of a model: lists by argument, and `labels` in the places of the logits that predict
them."""
IGNORED = -100
FILLERS: Mapping[str, Any] = {"labels": IGNORED, "bbox": [0, 0, 0, 0], "attention_mask": 0}


@dataclass(frozen=True)
class Kind:
    """A kind of models with its documents.

    Attributes:
        title: in words.
        start: writes the pretrained start into a folder, and returns a model with its weights.
        document: draws the document of a number.
        taught: rows that one document trains, which may be drawn.
        asked: rows that one document is scored by.
        words: what is on the page, for features that need no model.
        rate, batch: of the training.
        epochs: of a model with strong memory; one with weak memory has a single epoch.
        masks: whether rows hide tokens of one page; other rows are answers, or a whole page each.
    """

    title: str
    start: Callable[[Path], Any]
    document: Callable[[int], Any]
    taught: Callable[[Any, random.Random], list[Row]]
    asked: Callable[[Any], list[Row]]
    words: Callable[[Any], list[str]]
    rate: float
    batch: int
    epochs: int
    masks: bool = False

    def documents(self, run: int = 0) -> dict[str, list[Any]]:
        """Draw the documents of a run, by pool; runs share none."""
        return pools(self.document, run)


def collated(rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    """Make a batch; every argument is padded to its longest."""
    made = {}
    for name in rows[0]:
        own = [row[name] for row in rows]
        if isinstance(own[0], torch.Tensor):
            made[name] = torch.stack(own)
            continue
        longest = max(map(len, own))
        made[name] = torch.tensor(
            [[*one, *[FILLERS.get(name, 0)] * (longest - len(one))] for one in own]
        )
    return made


def logits_of(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Run the model; logits in the places of the labels, as one list."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    logits: torch.Tensor = model(**inputs).logits
    return logits[batch["labels"] != IGNORED]


def fit(
    model: Any, rows_of: Callable[[], list[Row]], rate: float, batch: int, epochs: int, seed: int
) -> Iterator[tuple[int, float]]:
    """Train; after every epoch give its number and its loss."""
    rng = random.Random(f"{seed} order")
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    for epoch in range(1, epochs + 1):
        model.train()
        rows = rows_of()
        losses = []
        rng.shuffle(rows)
        for begin in range(0, len(rows), batch):
            made = collated(rows[begin : begin + batch])
            wanted = made["labels"][made["labels"] != IGNORED]
            loss: Any = torch.nn.functional.cross_entropy(logits_of(model, made), wanted)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
        model.eval()
        yield epoch, sum(losses) / len(losses)


def train(
    kind: Kind, begun: Path, folder: Path, documents: Sequence[Any], seed: int, epochs: int
) -> None:
    """Train a model from the start, and keep its weights and its processor seconds."""
    if (folder / "training.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = kind.start(begun)
    drawing = random.Random(f"{seed} drawing")
    began = time.process_time()
    losses = []
    rows = functools.partial(_rows, kind, documents, drawing)
    for _, loss in fit(model, rows, kind.rate, kind.batch, epochs, seed):
        losses.append(round(loss, 4))
    save_model(model, str(folder / "model.safetensors"))
    seconds = round(time.process_time() - began, 1)
    found = {"documents": len(documents), "losses": losses, "seconds": seconds}
    (folder / "training.json").write_text(json.dumps(found))
    print(f"  {folder}: {found}", flush=True)


def _rows(kind: Kind, documents: Sequence[Any], drawing: random.Random) -> list[Row]:
    return [row for one in documents for row in kind.taught(one, drawing)]


def begun_with(folder: Path, model: Any, train_it: Callable[[Any], None]) -> Any:
    """Load the start's weights into the model, or train and keep them."""
    place = folder / "start.safetensors"
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        began = time.process_time()
        train_it(model)
        save_model(model, str(place))
        print(f"  {folder}: start, {time.process_time() - began:.0f} s", flush=True)
    load_model(model, str(place))
    return model.eval()


def pools(make: Callable[[int], Any], run: int) -> dict[str, list[Any]]:
    """Documents by pool, at random: each is drawn by its number alone."""
    splits = [name for name, count in POOLS.items() for _ in range(count)]
    random.Random(f"{SEED} pools {run}" if run else f"{SEED} pools").shuffle(splits)
    splits += [f"more {name}" for name in ("member", "baseline", "clean") for _ in range(MORE)]
    found: dict[str, list[Any]] = {name: [] for name in dict.fromkeys(splits)}
    for number, name in enumerate(splits, run * RUN):
        found[name].append(make(number))
    return found


# A tagger of letters


@functools.cache
def _tagger(folder: Path) -> Any:
    """The letters sample's untrained tagger, with a vocabulary of letters that nobody audits."""
    if not (folder / "untrained").exists():
        texts = [
            " ".join(word.text for word in one.words) for one in map(_other_letter, range(1_000))
        ]
        write_untrained(folder / "untrained", train_tokenizer(texts, 900, 256))
    return load(folder / "untrained")


def _other_letter(number: int) -> Document:
    document: Document = letter(SEED + 1, number, f"letter-{number}", "public")
    return document


def tagger(root: Path) -> Kind:
    """Give the tagger."""

    def rows(document: Document, _: Any = None) -> list[Row]:
        page = _tagger(root).encode(document)
        ids = page.ids.tolist()
        return [
            {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": page.labels.tolist()}
        ]

    def learn(model: Any) -> None:
        torch.manual_seed(SEED)
        taught = [row for number in range(1_000) for row in rows(_other_letter(number))]
        for _ in fit(model, lambda: list(taught), 2e-3, 8, 4, SEED):
            pass

    def start(folder: Path) -> Any:
        _tagger(root)
        return begun_with(folder, load(root / "untrained").model.float(), learn)

    return Kind(
        f"a BERT that tags words of letters, {len(TAGS)} tags", start,
        lambda number: letter(SEED, number, f"letter-{number}", "public"), rows, rows,
        lambda one: [word.text for word in one.words], 7e-5, 8, 4,
    )  # fmt: skip


# A masked language model of receipts

MASKS = 7
ASKED_MASKS = 4
"""Masks that hide every token of a page once between them, and how many a page is scored by."""


def receipts(root: Path) -> Kind:
    """Give the masked language model, from the sample's start."""
    place = SAMPLES / "receipts" / "data" / "references" / "pretrained"
    target = load(place)

    @functools.cache
    def page(number: int) -> tuple[list[int], list[list[int]], list[int], list[str]]:
        document = receipt_document(Market(SEED, 80).receipt(number), f"receipt-{number}", "public")
        encoding = target.encode(document)
        assert encoding is not None
        boxes = (encoding.boxes * 1000).round().astype(int).clip(0, 1000).tolist()
        return (
            encoding.ids.tolist(),
            boxes,
            np.flatnonzero(encoding.words >= 0).tolist(),
            [word.text for word in document.words],
        )

    def hidden(number: int, positions: Sequence[int]) -> Row:
        ids, boxes, _, _ = page(number)
        chosen = set(positions)
        mask = target.encoder.tokenizer.mask_token_id
        return {
            "input_ids": [mask if at in chosen else one for at, one in enumerate(ids)],
            "bbox": boxes,
            "attention_mask": [1] * len(ids),
            "labels": [one if at in chosen else IGNORED for at, one in enumerate(ids)],
        }

    def taught(number: int, rng: random.Random) -> list[Row]:
        own = page(number)[2]
        return [hidden(number, rng.sample(own, max(1, round(0.3 * len(own)))))]

    def asked(number: int) -> list[Row]:
        own = list(page(number)[2])
        random.Random(f"{SEED} masks {number}").shuffle(own)
        return [hidden(number, own[begin::MASKS]) for begin in range(min(ASKED_MASKS, len(own)))]

    return Kind(
        "a LayoutLM that fills masks of receipts", lambda _: load(place).model.float().eval(),
        lambda number: number, taught, asked, lambda number: page(number)[3], 1e-3, 8,
        7, masks=True,
    )  # fmt: skip


# Models that answer from text

SYLLABLES = (
    "ka", "lo", "mir", "ten", "var", "sol", "ber", "nid", "fa", "gru", "hol", "wick", "pos", "ren", "dul", "ym",
)  # fmt: skip
MONTHS = ("January", "March", "April", "June", "July", "October")


def request(seed: int, number: int) -> dict[str, str]:
    """Draw one page of text: who asks, where, when, how much.

    Towns are common to all seeds.
    """
    towns = random.Random(f"{SEED} towns")
    places = ["".join(towns.choices(SYLLABLES, k=3)).capitalize() for _ in range(40)]
    rng = random.Random(f"{seed} request {number}")
    found = {
        "name": " ".join("".join(rng.choices(SYLLABLES, k=2)).capitalize() for _ in range(2)),
        "town": rng.choice(places),
        "number": "".join(rng.choices("0123456789", k=8)),
        "date": f"{rng.randrange(1, 29)} {rng.choice(MONTHS)} {rng.randrange(1990, 2024)}",
    }
    lines = [f"the {name} is {value} ," for name, value in found.items() if name != "name"]
    rng.shuffle(lines)
    return {
        **found,
        "text": f"Request of {found['name']} : {' '.join(lines)} signed {found['name']}",
    }


ASKED = {
    "name": "Who asks ?",
    "town": "Which town ?",
    "number": "What is the number ?",
    "date": "When ?",
}


@functools.cache
def tokenizer_of_requests() -> Any:
    """A vocabulary of requests that nobody audits."""
    texts = (request(SEED + 1, number)["text"] for number in range(1_000))
    return train_tokenizer([*texts, *ASKED.values(), "Question Answer"] * 2, 300, 128)


def pieces_of(text: str) -> list[int]:
    """Return the ids of a text's pieces of words, without special tokens."""
    ids: list[int] = tokenizer_of_requests()(text, add_special_tokens=False)["input_ids"]
    return ids


def _request(number: int) -> dict[str, str]:
    return request(SEED, number)


def _pretrain(rows_of: Callable[[Any], list[Row]], epochs: int) -> Callable[[Any], None]:
    def learn(model: Any) -> None:
        taught = [row for number in range(800) for row in rows_of(request(SEED + 1, number))]
        for _ in fit(model, lambda: list(taught), 2e-3, 32, epochs, SEED):
            pass

    return learn


def reader(root: Path) -> Kind:
    """Give a T5 that writes the answer to a question about a text."""

    def rows(one: Mapping[str, str], _: Any = None) -> list[Row]:
        made = []
        for name, question in ASKED.items():
            given = pieces_of(f"{question} {one['text']}")
            wanted = [*pieces_of(one[name]), tokenizer_of_requests().sep_token_id]
            made.append({
                "input_ids": given, "attention_mask": [1] * len(given), "decoder_input_ids": [0, *wanted[:-1]],
                "labels": wanted,
            })  # fmt: skip
        return made

    def start(folder: Path) -> Any:
        torch.manual_seed(SEED)
        config = T5Config(
            vocab_size=len(tokenizer_of_requests()),
            d_model=96, d_kv=24, d_ff=192, num_layers=2, num_heads=4, dropout_rate=0.0,
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=tokenizer_of_requests().sep_token_id,
        )  # fmt: skip
        return begun_with(folder, T5ForConditionalGeneration(config), _pretrain(rows, 8))

    return Kind(
        "a T5 that answers questions about a text", start, _request, rows, rows, lambda one: one["text"].split(),
        2e-3, 32, 4,
    )  # fmt: skip


def writer(root: Path, whole: bool) -> Kind:
    """Give a GPT-2 that completes text, question and answer.

    Scored by its answers, or by the whole row.
    """

    def row(one: Mapping[str, str], name: str, learned: bool) -> Row:
        given = pieces_of(f"{one['text']} Question : {ASKED[name]} Answer :")
        wanted = [*pieces_of(one[name]), tokenizer_of_requests().sep_token_id]
        ids = [*given, *wanted]
        labels = ids[1:] if learned else [*[IGNORED] * (len(given) - 1), *wanted]
        return {"input_ids": ids[:-1], "attention_mask": [1] * (len(ids) - 1), "labels": labels}

    def taught(one: Mapping[str, str], _: Any = None) -> list[Row]:
        return [row(one, name, True) for name in ("number", "date")]

    def asked(one: Mapping[str, str]) -> list[Row]:
        return (
            [row(one, "number", True)]
            if whole
            else [row(one, name, False) for name in ("number", "date")]
        )

    def start(folder: Path) -> Any:
        torch.manual_seed(SEED)
        config = GPT2Config(
            vocab_size=len(tokenizer_of_requests()), n_embd=96, n_layer=2, n_head=4, n_positions=128,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        return begun_with(folder, GPT2LMHeadModel(config), _pretrain(taught, 6))

    title = "a GPT-2 that completes text and answer, " + (
        "scored by all tokens" if whole else "scored by the answer"
    )
    return Kind(
        title, start, _request, taught, asked, lambda one: one["text"].split(), 2e-3, 32, 4
    )  # fmt: skip


# A model that sees images


def donut(root: Path) -> Kind:
    """Give a Donut that answers questions about the picture of a form, from the sample's start."""
    place = SAMPLES / "questions" / "data" / "references" / "pretrained"
    reading = load_answering(place).reader
    known = clubs(SEED, 120)

    @functools.cache
    def rows(number: int) -> list[Row]:
        one = form(
            SEED, number, known[random.Random(f"{SEED} club {number}").randrange(len(known))]
        )
        image = Image.open(io.BytesIO(drawn(one).png())).convert("RGB")
        view = PageView((), None, lambda: image)
        made = []
        for _, question, value in one.asked():
            batch = reading.taught([Sample(view, question, value)])
            made.append(
                {
                    name: own[0] if name == "pixel_values" else own[0].tolist()
                    for name, own in batch.items()
                }
            )
        return made

    def words(number: int) -> list[str]:
        one = form(
            SEED, number, known[random.Random(f"{SEED} club {number}").randrange(len(known))]
        )
        return [one.club.name, *one.values]

    return Kind(
        "a Donut that answers questions about pictures of forms", lambda _: load_answering(place).model.float().eval(),
        lambda number: number, lambda number, _: rows(number), rows, words, 1e-3, 16, 7,
    )  # fmt: skip


KINDS: Mapping[str, Callable[[Path], Kind]] = {
    "tagger": tagger,
    "receipts": receipts,
    "reader": reader,
    "writer": functools.partial(writer, whole=False),
    "donut": donut,
    "writer-text": functools.partial(writer, whole=True),
}
"""`writer-text` has the writer's models, scored as in the papers on language models."""
SHARED = {"writer-text": "writer"}
