"""A public model for targets with T5's vocabulary.

It is a T5 or VT5 that puts back hidden spans, and proposes candidates.

T5 is trained to write what is missing (Raffel et al. 2020, section 3.1.4): each missing span of a
text is one sentinel of its own, `<extra_id_0>` for the first, `<extra_id_1>` for the next, and the
decoder gives `<extra_id_0>`, the tokens of the first span, `<extra_id_1>`, those of the second, and
so on. So the scores of the token that follows the decoder's `<extra_id_0>` are those of a masked
language model at the first token of a span. For the token at a position

- the hidden tokens from there on, as far as they stand side by side, are one span, `<extra_id_0>`:
  what CDMI has not reached yet is what is missing, and two sentinels never stand side by side, as
  in T5's own training;
- every other span of hidden tokens, such as a copy of the value, is the next sentinel, in the
  page's order (T5 numbers them from left to right, but begins to write with `<extra_id_0>`);
- the number of tokens of a span stays hidden, as always for T5. The published adversary knows it,
  and its masked language model sees so many masks: in this the one here is weaker.

The page's words are all that it reads, without a question; a VT5 also has their boxes, a span's
being the box around its tokens (as in its authors' own denoising), and the page's picture. The
checkpoint is taken as it is: nothing is trained on the data set's public documents, as the
published adversary's model is (PUB-MLM).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch
import transformers

from audit.arrays import Floats, Ints
from audit.cards import TargetCard
from audit.corpus.documents import Document
from audit.errors import TargetError
from audit.targets import wording
from audit.targets.answering import layout
from audit.targets.answering.loading import AnsweringFamily, find_family
from audit.targets.answering.pictures import image_processor_of
from audit.targets.answering.reader import Inputs, PageTokens, Sample, marks_of, special_tokens
from audit.targets.answering.target import AskedPage, asked_page, page_of, view_of
from audit.targets.answering.words_reader import encoder_decoder_reader
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_whole_model, place
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.families import OpenImage
from audit.targets.encoders.target import best_first
from audit.targets.interface import BestTokens, Candidates, FillMask, Query, type_asked

A = TypeVar("A")
DENOISING = "denoising"
"""The task on the card of such a model."""
T5 = AnsweringFamily(
    "T5", transformers.T5ForConditionalGeneration, encoder_decoder_reader, denoises=True
)
MAX_TOKENS = 512
"""The longest page that is read: that of T5's and VT5's training. Both would take longer ones."""


class Denoiser:
    """Proposes tokens for hidden positions of a page.

    Implements `audit.targets.interface.TokenTarget`.

    One page at a time, so that an answer depends on its query alone. Candidates are the tokens of
    its vocabulary that stand for text: no sentinels, no other special tokens, not the unknown one.

    Args:
        model: the transformers model, loaded; put into evaluation mode here.
        tokenizer: its tokenizer, with sentinels.
        card: what it is.
        page_image: makes the page's picture, for a model that sees it.
        images: opens the pages of documents that are encoded; None: they have none.
    """

    labels: tuple[str, ...] = ()

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        card: TargetCard,
        page_image: layout.PageImages | None = None,
        images: OpenImage | None = None,
    ) -> None:
        """Set the model to evaluation, and list the tokens that it may propose."""
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.card = card
        self.answers: frozenset[type[Query[Any]]] = frozenset({FillMask, BestTokens})
        self.text_tokens = text_tokens(tokenizer)
        self._picture = page_image
        self._images = images
        self._sentinels = _sentinels(tokenizer)
        self._never = np.setdiff1d(np.arange(model.config.vocab_size), [*self.text_tokens.values()])

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """Return the page's first tokens, as far as a row of the model holds them."""
        view = view_of(document, self._images)
        if self._picture is not None and view.open_page is None:
            return None
        read = layout.tokens_of_words(self.tokenizer, marks_of(self.tokenizer), view.words)
        tokens = PageTokens(read.ids[: MAX_TOKENS - 1], read.words[: MAX_TOKENS - 1])
        held = {*tokens.words} - {*read.words[len(tokens.words) :]}
        return page_of(self.tokenizer, view, tokens) if tokens.ids and {*around} <= held else None

    def token_strings(self, ids: Sequence[int]) -> str:
        """Decode token ids as the tokenizer spells them."""
        return str(self.tokenizer.decode(list(ids))).strip()

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """Return the tokens proposed for hidden positions of pages, one answer a query.

        Pages are those of a target that answers questions, or its own.

        Raises:
            ValueError: a query of a type this target cannot answer, or queries of several types.
        """
        kind = type_asked(self, queries)
        if kind is None:
            return []
        answer: Any = {FillMask: self._fill_mask, BestTokens: self._best_tokens}[kind]
        with torch.inference_mode():
            return cast("list[A]", [answer(query) for query in queries])

    def _fill_mask(self, query: FillMask) -> Candidates:
        """Return the likeliest tokens of text for one hidden position, with their scores."""
        scores = self._scores(asked_page(query), query.position)
        best = best_first(scores, min(query.n_candidates, len(self.text_tokens)))
        return Candidates(best, scores[best])

    def _best_tokens(self, query: BestTokens) -> Ints:
        """Return the id of the likeliest token of text at each hidden position of the query."""
        page = asked_page(query)
        best = [self._scores(page, position).argmax() for position in query.positions]
        return np.array(best, np.int64)

    def _scores(self, page: AskedPage, position: int) -> Floats:
        """Return the decoder's score of every token for the hidden token at `position`."""
        begun = torch.tensor([[self.model.config.decoder_start_token_id, self._sentinels[0]]])
        inputs = {**self._inputs(page, position), "decoder_input_ids": begun}
        out = self.model(**{name: value.to(self.card.device) for name, value in inputs.items()})
        scores: Floats = out.logits[0, -1].float().cpu().double().numpy()
        scores[self._never] = -np.inf
        return scores

    def _inputs(self, page: AskedPage, position: int) -> Inputs:
        """Return the encoder's inputs for a page, with a sentinel in place of each hidden span."""
        boxes = np.rint(page.boxes * layout.BOX_SCALE)
        ids, span_boxes = [], []
        others = iter(self._sentinels[1:])
        for span in _spans(page, position):
            if page.ids[span[0]] != page.mask_id:
                ids.append(int(page.ids[span[0]]))
            else:
                ids.append(
                    self._sentinels[0] if span[0] == position else next(others, self._sentinels[-1])
                )
            x0, y0 = boxes[span, :2].min(axis=0).tolist()
            x1, y1 = boxes[span, 2:].max(axis=0).tolist()
            span_boxes.append((x0, y0, x1, y1))
        ids, boxed = [*ids, self.model.config.eos_token_id], [*span_boxes, layout.NOWHERE]
        row = layout.SampleRow(ids, boxed, [None] * len(ids))
        inputs = layout.padded([row], len(row.ids), 0)
        if self.card.family == "T5":
            del inputs["bbox"]
        if self._picture is not None:
            inputs["pixel_values"] = self._picture([Sample(page.view, "")])
        return inputs


def _spans(page: AskedPage, position: int) -> Iterator[list[int]]:
    """Yield positions of tokens by span: a shown token alone, adjacent hidden ones together.

    A span that holds `position` begins there anew.
    """
    span: list[int] = []
    for index in np.flatnonzero(page.words >= 0).tolist():
        hidden = page.ids[index] == page.mask_id
        if span and (not hidden or index == position or page.ids[span[0]] != page.mask_id):
            yield span
            span = []
        span.append(index)
    if span:
        yield span


def text_tokens(tokenizer: Any) -> dict[str, int]:
    """Map each token of text to its id, without special tokens and sentinels."""
    silent = {
        *special_tokens(tokenizer).values(),
        *tokenizer.all_special_ids,
        *_sentinels(tokenizer),
    }
    return {
        token: number for token, number in tokenizer.get_vocab().items() if number not in silent
    }


def _sentinels(tokenizer: Any) -> list[int]:
    """Return the ids of `<extra_id_0>`, `<extra_id_1>` ..., as many as the vocabulary has."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    ids: list[int] = []
    while (token := f"<extra_id_{len(ids)}>") in vocabulary:
        ids.append(vocabulary[token])
    return ids


def is_denoiser(folder: AnyFolder) -> bool:
    """Return True for a checkpoint that may be a denoiser by its configuration: T5 or VT5.

    Raises:
        TargetError: the folder is no checkpoint, or is unsafe to load.
    """
    raw = open_checkpoint(folder).config
    family = _family_of(raw)
    return family is not None and family.model_class.__name__ in (raw.get("architectures") or [])


def _family_of(raw: dict[str, Any]) -> AnsweringFamily | None:
    """Return the family of a raw configuration; None where its models fill no hidden spans."""
    kind = str(raw.get("model_type"))
    family = T5 if kind == "t5" else find_family(kind)
    return family if family is not None and family.denoises else None


def load_denoiser(
    folder: AnyFolder, *, device: str = "cpu", images: OpenImage | None = None
) -> Denoiser:
    """Load a checkpoint as a public model that fills hidden spans of a page.

    Args:
        folder: a Hugging Face checkpoint on this machine; see `is_denoiser`.
        device: "cpu", "cuda" or "mps".
        images: images, see `Denoiser`.

    Raises:
        TargetError: it cannot be loaded, or its tokenizer has no sentinels.
    """
    folder = open_checkpoint(folder)
    family = _family_of(folder.config)
    assert family is not None
    model = load_whole_model(folder, family.model_class)
    config = model.config
    tokenizer = layout.load_fast_tokenizer(folder, config)
    if len(_sentinels(tokenizer)) < 2:
        raise TargetError(*wording("no_sentinels", folder=folder))
    visual = getattr(config, "visual", None)
    page_image = None
    if visual is not None:
        page_image = layout.PageImages(
            image_processor_of(folder), layout.side_lengths(visual.image_size)
        )
    card = folder.card(
        model,
        family.name,
        DENOISING,
        "puts back hidden spans; taken as it is",
        vocabulary=int(config.vocab_size),
        max_tokens=MAX_TOKENS,
        device=device,
        resolution=None if page_image is None else page_image.size,
    )
    return Denoiser(place(model, device), tokenizer, card, page_image, images)
