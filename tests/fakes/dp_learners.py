"""Tiny learners of every family under every head, and units of their samples, for tests of private training."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import answering_checkpoints
import asked_pages
import nlu_models
import numpy as np
import text_answering_checkpoints
import tiny
import torch

from audit.corpus.documents import Corpus, Document
from audit.corpus.manifest import load
from audit.extensions.private.learners import open_learner
from audit.extensions.private.units import DrawnUnit, Learner, Parameters

ANSWERING: dict[str, Callable[[Path], Path]] = {
    "donut": answering_checkpoints.make_donut,
    "vit-decoder": answering_checkpoints.make_vit_decoder,
    "pix2struct": answering_checkpoints.make_pix2struct,
    "chat": answering_checkpoints.make_chat,
    "vt5": text_answering_checkpoints.make_vt5,
    "vt5-blind": lambda folder: text_answering_checkpoints.make_vt5(folder, visual=False),
    "udop": text_answering_checkpoints.make_udop,
}
NLU = {"nlu": False, "nlu-characters": True}
ENCODERS = [
    *((family, head) for head in tiny.HEADS for family in (*tiny.FAMILIES, *tiny.IMAGE_FAMILIES)),
    *((family, "mlm") for family in ("roberta", "xlm-roberta")),
    *((family, "token-classification") for family in tiny.BPE_FAMILIES),
    *((family, head) for head in tiny.SPADE_HEADS for family in tiny.SPADE_FAMILIES),
]
NAMES = [*(f"{family} {head}" for family, head in ENCODERS), *ANSWERING, *NLU]
"""Every kind of learner."""


def learner_of(name: str, folder: Path) -> tuple[Learner, Corpus]:
    """A learner of this name whose data set and checkpoint are made in `folder`, with random weights."""
    if name in NLU:
        start = nlu_models.checkpoint(folder / "model", characters=NLU[name])
        corpus = utterances()
    elif name in ANSWERING:
        corpus = asked_pages.corpus(folder / "data", members=2, heldout=1, public=1)
        if name == "vit-decoder":
            recipe = replace(corpus.manifest.recipe, prompt="question: {question} answer:")
            corpus = replace(corpus, manifest=replace(corpus.manifest, recipe=recipe))
        start = ANSWERING[name](folder / "model")
    else:
        family, head = name.split()
        corpus = load(
            tiny.corpus(folder / "data", members=2, heldout=1, public=1, kind=head, images=True)
        )  # type: ignore[arg-type]
        start = tiny.checkpoint(folder / "model", family, head)  # type: ignore[arg-type]
    return open_learner(start, corpus, seed=0), corpus


def utterances() -> Corpus:
    """Members and public utterances of 3 to 7 words.

    The public ones have every intent, and not every word.
    """
    documents = nlu_models.documents()
    public = [nlu_models.play("q0", "anna berg", "public"), nlu_models.rate("q1", "5", "public")]
    return nlu_models.corpus([*documents, *public, nlu_models.pin("q2", "407125", "public")])


def units_of(learner: Learner, documents: Sequence[Document], seed: int = 0) -> list[DrawnUnit]:
    """A unit of each document that makes a sample."""
    rng = np.random.default_rng(seed)
    drawn = [learner.samples_of(document, rng) for document in documents]
    return [DrawnUnit(samples, (1 / len(samples),) * len(samples)) for samples in drawn if samples]


def of_unequal_length(corpus: Corpus, n: int = 2) -> list[Document]:
    """The first members, cut to unequal numbers of words and of questions.

    Utterances stay whole.
    """
    members = corpus.of("member")[:n]
    if corpus.manifest.task.kind == "intent-slots":
        return [members[0], corpus.of("member")[5]]
    cuts = [cut(document, 9 + 2 * index) for index, document in enumerate(members)]
    return [
        replace(document, questions=document.questions[index:])
        for index, document in enumerate(cuts)
    ]


def cut(document: Document, n_words: int) -> Document:
    """The first words of a document, and the entities, links and questions that lie there."""
    entities = tuple(entity for entity in document.entities if max(entity.words) < n_words)
    known = {entity.id for entity in entities}
    links = tuple(link for link in document.links if {*link} <= known)
    return replace(document, words=document.words[:n_words], entities=entities, links=links)


def without_tables(model: Any) -> Parameters:
    """All parameters but those of embeddings and what is tied to them."""
    tables = {
        id(layer.weight) for layer in model.modules() if isinstance(layer, torch.nn.Embedding)
    }
    return {
        name: weights
        for name, weights in model.named_parameters()
        if id(weights) not in tables and "embed" not in name
    }


class Line(Learner):
    """A line through points: a sample is (x, y) and its loss the squared error."""

    def __init__(self, n_inputs: int = 2) -> None:
        torch.manual_seed(0)
        self.model: Any = torch.nn.Sequential(
            torch.nn.Linear(n_inputs, 2), torch.nn.Linear(2, 1)
        ).eval()
        self.device = "cpu"

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Any, ...]:
        return ()

    def alike(self, sample: Any) -> bool:
        return bool(sample[0][0] > 0)

    def collate(self, samples: Sequence[Any]) -> dict[str, torch.Tensor]:
        return {
            "x": torch.tensor([x for x, _ in samples], dtype=torch.float32),
            "y": torch.tensor([y for _, y in samples], dtype=torch.float32),
        }

    def losses(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return (self.model(batch["x"])[:, 0] - batch["y"]) ** 2

    def save(self, folder: Path, *, half: bool = False) -> None:
        raise NotImplementedError


def point(x: Sequence[float], y: float) -> DrawnUnit:
    """A unit of one point."""
    return DrawnUnit(((tuple(x), y),), (1.0,))
