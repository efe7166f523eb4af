"""Attacks on a model outside of docaudit: its own loss of documents that it learnt against documents it never saw.

Nothing of `audit.attacks` is used. Models are called as transformers calls them; docaudit only
turns pages into tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from audit.corpus.documents import Document
from audit.extensions.papers.utterance_model import NluModel, Vocabulary
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget

Scores = NDArray[np.float64]
MASKS = 6
"""Masks of a page: each hides every sixth token, so that each token is hidden once."""
BATCH_PAGES = 32


def area(members: Scores, unseen: Scores) -> float:
    """Compute the share of pairs in which the member scores higher; a tie counts one half."""
    wins = (members[:, None] > unseen[None, :]).mean()
    ties = (members[:, None] == unseen[None, :]).mean()
    return float(wins + ties / 2)


@torch.no_grad()
def utterance_scores(folder: Path, documents: Sequence[Document]) -> Scores:
    """Score utterances by the negative loss of a model of utterances, (n,)."""
    model = NluModel.from_pretrained(folder, local_files_only=True).eval()
    vocabulary = Vocabulary.load(folder)
    tag_ids = {tag: index for index, tag in model.config.id2label.items()}
    intent_ids = {intent: index for index, intent in enumerate(model.config.intents)}
    scores = []
    for document in documents:
        words = [word.text for word in document.words]
        ids = torch.from_numpy(vocabulary.ids_of(words))[None]
        assert document.tags is not None
        tags = torch.tensor([[tag_ids[tag] for tag in document.tags]])
        intent = torch.tensor([intent_ids[str(document.intent)]])
        scores.append(-float(model(ids, tags, intent).losses[0]))
    return np.array(scores)


@dataclass(frozen=True)
class Page:
    """A page as the model reads it, beside its document."""

    document: Document
    encoding: Encoding


def _pages(target: EncoderTarget, documents: Sequence[Document]) -> list[Page]:
    """Return the documents that the target can encode, each with its encoding."""
    pages = []
    for document in documents:
        encoding = target.encode(document)
        if encoding is not None:
            pages.append(Page(document, encoding))
    return pages


def _logits(
    target: EncoderTarget, rows: Sequence[NDArray[np.int64]], pages: Sequence[Page]
) -> Iterator[torch.Tensor]:
    """Yield the model's scores of every token, (n_tokens, n_outputs), for token ids in place of each page's own."""
    for start in range(0, len(rows), BATCH_PAGES):
        chosen = rows[start : start + BATCH_PAGES]
        longest = max(map(len, chosen))
        ids = np.full((len(chosen), longest), target.encoder.tokenizer.pad_token_id, np.int64)
        attention = np.zeros_like(ids)
        boxes = np.zeros((*ids.shape, 4))
        for row, tokens in enumerate(chosen):
            ids[row, : len(tokens)] = tokens
            attention[row, : len(tokens)] = 1
            boxes[row, : len(tokens)] = pages[start + row].encoding.boxes
        logits = target.model(**target.family.inputs(ids, attention, boxes, "cpu")).logits
        for row, tokens in enumerate(chosen):
            yield logits[row, : len(tokens)]


@torch.no_grad()
def tagger_scores(folder: Path, documents: Sequence[Document], labels: Sequence[str]) -> Scores:
    """Score pages by the mean log-likelihood of their tags under a tagger, (n,)."""
    target = load(folder, labels=labels)
    pages = _pages(target, documents)
    scores = []
    for page, logits in zip(
        pages, _logits(target, [page.encoding.ids for page in pages], pages), strict=True
    ):
        tags = torch.from_numpy(np.asarray(page.encoding.labels, np.int64))
        scores.append(-float(torch.nn.functional.cross_entropy(logits, tags, ignore_index=-100)))
    return np.array(scores)


@torch.no_grad()
def masked_scores(folder: Path, documents: Sequence[Document]) -> Scores:
    """Score pages by the mean log-likelihood of hidden tokens under a masked language model, (n,)."""
    target = load(folder)
    pages = _pages(target, documents)
    likelihoods: dict[str, list[float]] = defaultdict(list)
    for mask in range(MASKS):
        hidden = []
        for page in pages:
            places = np.flatnonzero(page.encoding.words >= 0)[mask::MASKS]
            hidden.append(places)
        rows = []
        for page, places in zip(pages, hidden, strict=True):
            ids = page.encoding.ids.copy()
            ids[places] = target.encoder.tokenizer.mask_token_id
            rows.append(ids)
        for page, places, logits in zip(pages, hidden, _logits(target, rows, pages), strict=True):
            true = torch.from_numpy(page.encoding.ids[places].astype(np.int64))
            hidden_tokens = torch.log_softmax(logits[places], -1).gather(1, true[:, None])
            likelihoods[page.document.id] += hidden_tokens[:, 0].tolist()
    return np.array([np.mean(likelihoods[page.document.id]) for page in pages])


@torch.no_grad()
def restored_names(folder: Path, documents: Sequence[Document], label: str) -> list[bool]:
    """Test for each page with a value of this label whether the model writes it, word for word, once it is hidden.

    All of the value's tokens are hidden. The most certain one is written first, then the next, as
    often as needed.
    """
    target = load(folder)
    restored = []
    for page in _pages(target, documents):
        value = next((entity for entity in page.document.entities if entity.label == label), None)
        if value is None:
            continue
        places = np.flatnonzero(np.isin(page.encoding.words, value.words))
        if len(places) == 0:
            continue
        restored.append(_restores_tokens(target, page, places))
    return restored


def _restores_tokens(target: EncoderTarget, page: Page, places: NDArray[np.int64]) -> bool:
    """Test whether a model restores all masked tokens, the surest token first."""
    mask = target.encoder.tokenizer.mask_token_id
    ids = page.encoding.ids.copy()
    ids[places] = mask
    while (ids[places] == mask).any():
        (logits,) = _logits(target, [ids], [page])
        open_places = places[ids[places] == mask]
        probabilities = torch.softmax(logits[open_places], -1)
        best = int(probabilities.max(-1).values.argmax())
        token = int(probabilities[best].argmax())
        if token == mask:
            return False
        ids[open_places[best]] = token
    return bool((ids[places] == page.encoding.ids[places]).all())
