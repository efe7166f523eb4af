"""Checkpoints that answer questions about a page, of every family that has a reader."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput

from audit.arrays import Floats
from audit.cards import TargetCard
from audit.corpus.documents import Corpus, Document
from audit.corpus.images import PageView
from audit.corpus.removal import cover
from audit.targets import TABLE, interface
from audit.targets.answering import reader as reading
from audit.targets.answering import rows as batched
from audit.targets.answering.layout import BOX_SCALE, boxes_of
from audit.targets.batching import STEP, Batch, bucket_of, unless_out_of_memory
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.families import OpenImage

CACHE = "past_key_values"
SHORTEST = 256
"""Tokens that rows about a page must begin with alike so that they are read once."""
SENTINEL = "<extra_id_0>"
"""What stands in T5's inputs where tokens are missing (Raffel et al. 2020, section 3.1.4)."""


@dataclass(frozen=True, eq=False)
class AskedPage(Encoding):
    """A page of words, and the questions about it that its training loss reads.

    Attributes:
        view: the page; `ids` replace the tokens of its words.
        asked: questions, each with the answer that training taught.
    """

    _: KW_ONLY
    view: PageView = field(default_factory=lambda: PageView(()))
    asked: tuple[tuple[str, str], ...] = ()

    @property
    def has_loss(self) -> bool:
        """See `Encoding.has_loss`."""
        return bool(self.asked)

    def scrubbed(self, positions: Sequence[int]) -> Self:
        """See `Encoding.scrubbed`; what is painted white are whole words, as in a removal."""
        words = sorted({int(word) for word in self.words[list(positions)] if word >= 0})
        return replace(self.masked(positions), view=cover(self.view, words))

    def samples(self) -> list[reading.Sample]:
        """Return the samples of a reader, one a question."""
        own = tuple(self.ids[self.words >= 0].tolist())
        return [reading.Sample(self.view, question, answer, own) for question, answer in self.asked]


def view_of(document: Document, images: OpenImage | None) -> PageView:
    """Return the view of a document's page, with its image where it has one and `images` opens it."""
    opener = None if document.image is None or images is None else partial(images, document)
    return PageView(document.words, document.size, opener)


def read_page(
    reader: reading.TokenReader,
    view: PageView,
    asked: tuple[tuple[str, str], ...],
    around: Sequence[int],
) -> AskedPage | None:
    """Return the page as far as a row of the reader holds it.

    Rows with longer questions may hold less of its end.

    Args:
        reader: lays out its rows.
        view: the page.
        asked: what is asked about it.
        around: indices of words.

    Returns:
        None when the page or these words have no tokens, or when a row does not hold all of theirs.
    """
    rows = [reader.page_tokens(view, question) for question, _ in asked]
    if not rows:
        rows = [reader.page_tokens(view, "")]
    longest = max(rows, key=lambda row: len(row.ids))
    shortest = min(rows, key=lambda row: len(row.ids))
    n_on_row = sum(word in around for word in shortest.words)
    # Words are tokenised one by one: alone they have the tokens that they have on their page.
    alone = reader.page_tokens(replace(view, words=tuple(view.words[word] for word in around)), "")
    if not longest.ids or n_on_row < len(alone.ids):
        return None
    if around and not n_on_row:
        return None
    return page_of(reader.tokenizer, view, longest, asked)


def page_of(
    tokenizer: Any,
    view: PageView,
    tokens: reading.PageTokens,
    asked: tuple[tuple[str, str], ...] = (),
) -> AskedPage:
    """Return the page of these tokens.

    Hidden tokens are T5's first sentinel, one for each, or [MASK] where the vocabulary has that.
    There, as in BERT's, the page begins and ends as its masked language models read it, which no
    reader does.
    """
    ids, words = [*tokens.ids], [*tokens.words]
    known = view.size is not None and all(word.box is not None for word in view.words)
    places = boxes_of(view) if known else [(0.0, 0.0, 0.0, 0.0)] * len(view.words)
    boxes = np.array(places, float).reshape(-1, 4)[words] / BOX_SCALE
    around = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    if tokenizer.mask_token_id is not None and None not in around:
        ids, words = [around[0], *ids, around[1]], [-1, *words, -1]
        boxes = np.concatenate([np.zeros((1, 4)), boxes, np.ones((1, 4))])
    masks = (tokenizer.get_vocab().get(SENTINEL), tokenizer.mask_token_id, tokenizer.unk_token_id)
    return AskedPage(
        ids=np.array(ids, np.int64),
        boxes=boxes,
        words=np.array(words, np.int64),
        labels=None,
        mask_id=int(next(token for token in masks if token is not None)),
        unknown_id=tokenizer.unk_token_id,
        view=view,
        asked=asked,
    )


class AnsweringTarget(batched.RowTarget):
    """Answers questions about page views with one generative checkpoint; implements `TokenTarget`.

    Where its reader reads a page's words as tokens, pages have a training loss too (`AskedPage`);
    otherwise it encodes none.

    A question is answered greedily by the model's own `generate`, under those of the checkpoint's
    own rules about tokens that keep no answer from being given (see
    `audit.targets.answering.reader`).

    Args:
        model: the transformers model, loaded; put into evaluation mode here, and set to greedy
            generation.
        reader: its way of reading.
        card: what it is.
        batch_rows: samples of one forward pass; None: what suits the device and the size of its
            images. Memory depends on it. Answers depend on it in their last bits only, and never on
            the queries beside them: on a CPU when it is 1 or a multiple of
            `audit.targets.batching.STEP`.
        images: opens the pages of documents that are encoded; None: they have none.
    """

    reader: reading.Reader

    def __init__(
        self,
        model: Any,
        reader: reading.Reader,
        card: TargetCard,
        batch_rows: int | None = None,
        images: OpenImage | None = None,
    ) -> None:
        self.model = model.eval()
        self.reader = reader
        self.card = card
        self.images = images
        if isinstance(reader, reading.TokenReader):
            self.answers |= {interface.TrainingLoss}
        if reader.whole_rows:
            self.answers |= {interface.RowLoss}
        self.rows = Batch(batch_rows or batched.rows_for(reader, card.device))
        self._shares = batched.share(reader)
        self._ends = reader.ends | reading.ids_of(model.generation_config.eos_token_id)
        self._unspoken = reader.forbidden | self._ends
        model.generation_config = reading.greedy(
            model.generation_config, self._ends, reader.forbidden
        )

    def check(self, corpus: Corpus) -> None:
        """Refuse a corpus whose pages the model cannot read.

        Raises:
            ManifestError: documents that are asked about have no image, or no words, and the model
                reads nothing else.
        """
        asked, name = [one for one in corpus.documents if one.questions], self.card.architecture
        if self.needs_image:
            lacking = [one for one in asked if one.image is None]
            batched.refuse_documents(
                lacking, f"no image; {name} reads pages from their images", batched.NO_IMAGE
            )
        if self.reader.needs_words:
            lacking = [one for one in asked if not one.words]
            batched.refuse_documents(
                lacking, f"no words; {name} reads pages as text", batched.NO_WORDS
            )

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """See `TokenTarget.encode`: the document's page with its questions, which decide how much of it is read."""
        if not isinstance(self.reader, reading.TokenReader):
            return None
        # Training takes the first of a question's answers.
        asked = tuple((one.question, one.answers[0]) for one in document.questions if one.answers)
        return read_page(self.reader, view_of(document, self.images), asked, around)

    @property
    def public_tokenizer(self) -> Any:
        """See `ReferenceRules`: that of a reader of words; a reader of pictures has none."""
        if isinstance(self.reader, reading.TokenReader):
            return self.reader.tokenizer
        return None

    @property
    def public_images(self) -> OpenImage | None:
        """See `ReferenceRules.public_images`."""
        return self.images

    def accepts_start(self, start: CheckpointFolder, own_folder: CheckpointFolder) -> str | None:
        """See `ReferenceRules`: such models begin as such, unless they begin as T5."""
        # Imported here, as denoisers are made of what stands in this module.
        from audit.targets.answering.denoiser import is_other_denoiser

        if is_other_denoiser(start, own_folder):
            return super().accepts_start(start, own_folder)
        return None

    def token_strings(self, ids: Sequence[int]) -> str:
        """See `TokenTarget.token_strings`."""
        return self.reader.text_of(ids)

    def _methods(self) -> dict[type[interface.Query[Any]], Callable[[Any], list[Any]]]:
        return {
            interface.Answer: self._replies,
            interface.AnswerLoss: self._log_probabilities,
            interface.RowLoss: self._log_probabilities,
            # One query at a time, for memory.
            interface.TrainingLoss: lambda asked: [*map(self._candidate_losses, asked)],
        }

    def _view_of(self, query: Any) -> PageView:
        return query.view if isinstance(query, interface.PageViewQuery) else asked_page(query).view

    def _replies(self, queries: Sequence[interface.Answer]) -> list[interface.Reply]:
        samples = [reading.Sample(query.view, query.question) for query in queries]
        return self._each(samples, self._generate)

    def _log_probabilities(self, queries: Sequence[interface.AnswerLoss]) -> list[Floats]:
        whole = interface.type_asked(self, queries) is interface.RowLoss
        samples = [
            reading.Sample(query.view, query.question, query.answer, whole=whole)
            for query in queries
        ]
        return self._each(samples, self.score_answers)

    def _candidate_losses(self, query: interface.TrainingLoss) -> Floats:
        """Compute the mean loss of the page's questions with each candidate in place."""
        page = asked_page(query)
        if not page.asked:
            raise ValueError("a page without questions has no training loss")
        pages = [page.with_tokens([query.position], [token]) for token in query.candidates.tolist()]
        samples = [sample for one in pages for sample in one.samples()]
        losses = np.array(
            [
                -log_probabilities.mean()
                for log_probabilities in self._each(samples, self.score_answers)
            ]
        )
        means: Floats = losses.reshape(len(pages), -1).mean(axis=1)
        return means

    def _each(self, samples: Sequence[reading.Sample], run: Any) -> list[Any]:
        """Return what `run` gives for each sample, in order."""
        parts: Iterable[Sequence[reading.Sample]] = [samples]
        if isinstance(self.reader, reading.PictureReader):
            parts = map(
                self._with_encoded_pages,
                batched.split_by_page(samples, batched.PAGES * self.rows.size),
            )
        elif reads_beginnings(self.model.config, self.card):
            parts = map(self._with_begun_rows, batched.split_by_page(samples, 1))
        return [reply for part in parts for reply in self._run(part, run, self._alike)]

    def _alike(self, sample: reading.Sample) -> object:
        begun = sample.encoded
        return (
            (id(begun.cache), begun.length)
            if isinstance(begun, reading.Begun)
            else self.reader.alike(sample)
        )

    def _with_begun_rows(self, samples: Sequence[reading.Sample]) -> list[reading.Sample]:
        """Return samples about one page.

        What their rows begin with is read once, where it is long enough.
        """
        caches: dict[tuple[int, ...], Any] = {}
        begun = []
        for sample in batched.unopened(samples):
            row = reading.unfilled(
                (self.reader.prompts if sample.answer is None else self.reader.taught)([sample])
            )
            ids = tuple(row["input_ids"][0].tolist())
            n_asked = (
                len(ids)
                if sample.answer is None
                else int((row["labels"][0] != NOT_READ).nonzero()[0])
            )
            n = self.reader.n_of_page(sample, ids, n_asked - 1)
            if n >= SHORTEST:
                if ids[:n] not in caches:
                    caches[ids[:n]] = unless_out_of_memory(partial(self._begin, row, n))
                    if caches[ids[:n]] is None:
                        self.rows.lower(0, self.card.device)
                # Where a layer sees the last tokens only, a gap would hide some.
                gapless = any(layer.is_sliding for layer in caches[ids[:n]].layers)
                length = len(ids) if gapless else n + bucket_of(len(ids) - n)
                sample = replace(
                    sample, encoded=reading.Begun(self._places(row), caches[ids[:n]], n, length)
                )
            begun.append(sample)
        return begun

    def _begin(self, row: reading.Inputs, n: int) -> Any:
        """Return the keys and values of a row's first `n` tokens, images among them."""
        own = {
            name: value[:, :n] if reading.is_of_tokens(value, row) else value
            for name, value in row.items()
        }
        given = {
            name: value.to(self.card.device) for name, value in own.items() if name != "labels"
        }
        with self._steady(1), self.computing():
            return self.model(**given, use_cache=True, logits_to_keep=1)[CACHE]

    def _places(self, row: reading.Inputs) -> reading.Inputs:
        """Return a row's tokens with the position of each: with three axes where the model places images so."""
        rope, mask = (
            getattr(self.model.base_model, "get_rope_index", None),
            torch.ones_like(row["input_ids"]),
        )
        taken = inspect.signature(rope).parameters if rope else ()
        places = (
            rope(**{name: row[name] for name in taken if name in row})[0]
            if rope
            else mask.cumsum(-1) - 1
        )
        own = {**row, "attention_mask": mask, "position_ids": places}
        return {
            name: own[name]
            for name in ("input_ids", "attention_mask", "position_ids", "labels")
            if name in own
        }

    def _with_encoded_pages(self, samples: Sequence[reading.Sample]) -> list[reading.Sample]:
        """Return the samples with their pages encoded, each page once."""
        pages = {id(sample.view): sample for sample in samples}
        encoded = dict(
            zip(
                pages, self._run([*pages.values()], self._encode_pages, lambda _: None), strict=True
            )
        )
        return [replace(sample, encoded=encoded[id(sample.view)]) for sample in samples]

    def _encode_pages(self, samples: Sequence[reading.Sample], n_rows: int) -> list[torch.Tensor]:
        """Return the pages of one batch as the model's encoder sees them."""
        assert isinstance(self.reader, reading.PictureReader)
        inputs = self._laid(self.reader.pictures, samples, n_rows)
        with self._steady(n_rows), self.computing():
            return [*self.model.get_encoder()(**inputs).last_hidden_state[: len(samples)]]

    def _generate(self, samples: Sequence[reading.Sample], n_rows: int) -> list[interface.Reply]:
        """Return the greedy answers to one batch."""
        with self._steady(n_rows), self.computing():
            out = self.model.generate(
                **self._laid(self.reader.prompts, samples, n_rows),
                max_new_tokens=self.reader.max_new_tokens,
                return_dict_in_generate=True,
                output_logits=True,
            )
        tokens = out.sequences[:, -len(out.logits) :]
        chosen = [
            _log_probabilities_of(step, column)
            for step, column in zip(out.logits, tokens.T, strict=True)
        ]
        log_probabilities = torch.stack(chosen, dim=1).cpu().double().numpy()
        rows = zip(tokens.tolist(), log_probabilities, strict=True)
        return [self._reply_of(ids, own) for (ids, own), _ in zip(rows, samples, strict=False)]

    def _reply_of(self, ids: list[int], log_probabilities: Floats) -> interface.Reply:
        """Return the answer that generated tokens spell before the first end, and its probability."""
        end = next((index for index, token in enumerate(ids) if token in self._ends), None)
        ids = ids[:end]
        spoken = [index for index, token in enumerate(ids) if token not in self._unspoken]
        return interface.Reply(
            text=self.reader.text_of(ids),
            confidence=float(np.exp(log_probabilities[spoken].sum())),
            n_tokens=len(spoken),
            ended=end is not None,
        )

    def score_answers(self, samples: Sequence[reading.Sample], n_rows: int) -> list[Floats]:
        """Return the log-probability of each token of the true answers of one batch, `n_rows` in a forward pass."""
        inputs = self._laid(self.reader.taught, samples, n_rows)
        labels = inputs["labels"]
        if not self.model.config.is_encoder_decoder:
            # A decoder's scores at one position are for the token at the next one.
            labels = torch.nn.functional.pad(inputs.pop("labels")[:, 1:], (0, 1), value=NOT_READ)
            read, keeps = (
                labels != NOT_READ,
                "logits_to_keep" in inspect.signature(self.model.forward).parameters,
            )
            if keeps and CACHE not in inputs:
                # The number follows from what samples of one batch share; full blocks keep the bits
                # of each score.
                first = (
                    max(0, labels.shape[1] - int(read.sum(dim=1).max()) - STEP - 1) // STEP * STEP
                )
                first = 0 if bool(read[:, :first].any()) else first
                inputs["logits_to_keep"], labels = labels.shape[1] - first, labels[:, first:]
        with self._steady(n_rows), self.computing():
            logits = self.model(**inputs).logits[:, : labels.shape[1]]
        read = labels != NOT_READ
        values = _log_probabilities_of(logits[read], labels[read]).cpu().double().numpy()
        return np.split(values, np.cumsum(read.sum(dim=1).cpu().numpy()))[: len(samples)]

    def _laid(
        self, lay_out: Callable[..., reading.Inputs], samples: Sequence[reading.Sample], n_rows: int
    ) -> Any:
        """Return the model's inputs of one batch, on its device.

        The first sample is repeated to `n_rows`.
        """
        begun = [sample.encoded for sample in samples if isinstance(sample.encoded, reading.Begun)]
        if begun:
            return self._continued([*begun, *begun[:1] * (n_rows - len(begun))])
        inputs = batched.fill_rows(lay_out(samples), len(samples), n_rows)
        rows: dict[str, Any] = {name: value.to(self.card.device) for name, value in inputs.items()}
        if reading.ENCODED in rows:
            rows["encoder_outputs"] = BaseModelOutput(last_hidden_state=rows.pop(reading.ENCODED))
        return rows

    def _continued(self, begun: Sequence[reading.Begun]) -> dict[str, Any]:
        """Return rows that begin alike as the inputs of one batch.

        They are filled up behind what was read of them.
        """
        cache, n = copy(begun[0].cache), begun[0].n
        cache.layers = [copy(layer) for layer in cache.layers]
        cache.batch_repeat_interleave(len(begun))
        inputs: dict[str, Any] = {CACHE: cache}
        for name, first in begun[0].row.items():
            fill = first.new_full(
                (*first.shape[:-1], begun[0].length), NOT_READ if name == "labels" else 0
            )
            rows = [one.row[name] for one in begun]
            filled = [
                torch.cat([row[..., :n], fill[..., row.shape[-1] :], row[..., n:]], dim=-1)
                for row in rows
            ]
            # Scoring takes the tokens that are not read yet, `generate` all of them.
            begin = n if "labels" in begun[0].row and name != "attention_mask" else 0
            inputs[name] = torch.cat(filled, dim=-2)[..., begin:].to(self.card.device)
        return inputs

    def _steady(self, n_rows: int) -> AbstractContextManager[None]:
        return batched.steady(self.card.device) if n_rows > 1 or not self._shares else nullcontext()

    def computing(self) -> AbstractContextManager[None]:
        """Within, the model computes in the card's dtype, but scores of tokens in float32."""
        return batched.computing(self.card, self.model.get_output_embeddings)


def asked_page(query: interface.Query[Any]) -> AskedPage:
    """Return the page of a query about pages, as `AnsweringTarget.encode` gives it."""
    assert isinstance(query, interface.PageQuery) and isinstance(query.page, AskedPage)  # noqa: PT018
    return query.page


def reads_beginnings(config: Any, card: TargetCard) -> bool:
    """Test whether what rows about a page begin with is read once, where a decoder reads it the same whatever follows.

    On a CPU in float32 it would change the last bits of answers.
    """
    text = config.get_text_config(decoder=True)
    stretched = {"dynamic", "longrope"} & {
        *re.findall(r"\w+", str(getattr(text, "rope_parameters", None)))
    }
    known = not stretched and {config.model_type, text.model_type} <= {
        *TABLE["answering"]["causal"]
    }
    return known and (card.device, card.dtype) != ("cpu", "float32")


def _log_probabilities_of(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Compute log-probabilities (n_rows,) in float32 from scores (n_rows, n_vocabulary) and ids (n_rows,)."""
    return torch.log_softmax(logits.float(), dim=-1).gather(-1, ids[:, None])[:, 0]
