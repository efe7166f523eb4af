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
from audit.targets.reference_rules import same_type

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
        """Test whether the page has questions: the training loss reads their answers."""
        return bool(self.asked)

    def scrubbed(self, positions: Sequence[int]) -> Self:
        """Return the page with the words of these tokens painted white, as in a removal."""
        words = sorted({int(word) for word in self.words[list(positions)] if word >= 0})
        return replace(self.masked(positions), view=cover(self.view, words))

    def samples(self) -> list[reading.Sample]:
        """Return one sample for the reader for each question of the page."""
        tokens = tuple(self.ids[self.words >= 0].tolist())
        return [
            reading.Sample(self.view, question, answer, tokens) for question, answer in self.asked
        ]


def view_of(document: Document, images: OpenImage | None) -> PageView:
    """Return the view of a document's page, with its image where `images` opens it."""
    opener = None if document.image is None or images is None else partial(images, document)
    return PageView(document.words, document.size, opener)


def read_page(
    reader: reading.TokenReader,
    view: PageView,
    asked: tuple[tuple[str, str], ...],
    around: Sequence[int],
) -> AskedPage | None:
    """Return as much of a page as a row holds beside its questions; None where that is nothing.

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
    """Return a page of these tokens, with boxes and questions, as attacks read it.

    Hidden tokens are T5's first sentinel, one for each, or [MASK] where the vocabulary has that.
    There, as in BERT's, the page begins and ends as its masked language models read it, which no
    reader does.
    """
    ids = [*tokens.ids]
    words = [*tokens.words]
    has_layout = view.size is not None and all(word.box is not None for word in view.words)
    places = boxes_of(view) if has_layout else [(0.0, 0.0, 0.0, 0.0)] * len(view.words)
    boxes = np.array(places, float).reshape(-1, 4)[words] / BOX_SCALE
    around = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    if tokenizer.mask_token_id is not None and None not in around:
        ids = [around[0], *ids, around[1]]
        words = [-1, *words, -1]
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
        """Set the model to greedy answers, and list the types of queries that it answers."""
        self.model = model.eval()
        self.reader = reader
        self.card = card
        self.images = images
        if isinstance(reader, reading.TokenReader):
            self.answers |= {interface.TrainingLoss}
        if reader.whole_rows:
            self.answers |= {interface.RowLoss, interface.PageEndLoss}
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
        asked = [document for document in corpus.documents if document.questions]
        name = self.card.architecture
        if self.needs_image:
            lacking = [document for document in asked if document.image is None]
            batched.refuse_documents(
                lacking, f"no image; {name} reads pages from their images", batched.NO_IMAGE
            )
        if self.reader.needs_words:
            lacking = [document for document in asked if not document.words]
            batched.refuse_documents(
                lacking, f"no words; {name} reads pages as text", batched.NO_WORDS
            )

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """Encode a page with its questions, which decide how much is read."""
        if not isinstance(self.reader, reading.TokenReader):
            return None
        # Training takes the first of a question's answers.
        asked = tuple(
            (question.question, question.answers[0])
            for question in document.questions
            if question.answers
        )
        return read_page(self.reader, view_of(document, self.images), asked, around)

    @property
    def public_tokenizer(self) -> Any:
        """Return the tokenizer that a public model must share; None for readers of images."""
        if isinstance(self.reader, reading.TokenReader):
            return self.reader.tokenizer
        return None

    @property
    def public_images(self) -> OpenImage | None:
        """Return the function that opens pages' images."""
        return self.images

    def accepts_start(
        self, start: CheckpointFolder, own_folder: CheckpointFolder, *, denoises: bool
    ) -> str | None:
        """Return why the model's pretrained start cannot be asked the same; None where it can.

        Such models begin as such, unless they begin as T5.
        """
        if denoises and not same_type(start, own_folder):
            return super().accepts_start(start, own_folder, denoises=denoises)
        return None

    def token_strings(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, as the reader decodes them."""
        return self.reader.text_of(ids)

    def _methods(self) -> dict[type[interface.Query[Any]], Callable[[Any], list[Any]]]:
        """Map each type of query to the method that answers it; losses of tokens one by one."""
        return {
            interface.Answer: self._replies,
            interface.AnswerLoss: self._log_probabilities,
            interface.RowLoss: self._log_probabilities,
            interface.PageEndLoss: self._log_probabilities,
            # One query at a time, for memory.
            interface.TrainingLoss: lambda queries: [*map(self._candidate_losses, queries)],
        }

    def _view_of(self, query: Any) -> PageView:
        """Return the page view of a query about a page's image or about its tokens."""
        return query.view if isinstance(query, interface.PageViewQuery) else asked_page(query).view

    def _replies(self, queries: Sequence[interface.Answer]) -> list[interface.Reply]:
        """Return the model's greedy answer to each question, in order."""
        samples = [reading.Sample(query.view, query.question) for query in queries]
        return self._each(samples, self._generate)

    def _log_probabilities(self, queries: Sequence[interface.AnswerLoss]) -> list[Floats]:
        """Return log-probabilities of the tokens of each true answer, or of whole rows."""
        kind = interface.type_asked(self, queries)
        of_rows = kind is interface.RowLoss
        at_page_end = kind is interface.PageEndLoss
        samples: list[reading.Sample] = []
        for query in queries:
            sample = reading.Sample(query.view, query.question, query.answer)
            samples.append(replace(sample, whole=of_rows, at_page_end=at_page_end))
        return self._each(samples, self.score_answers)

    def _candidate_losses(self, query: interface.TrainingLoss) -> Floats:
        """Return the mean loss of a page's questions with each candidate token in place."""
        page = asked_page(query)
        if not page.asked:
            raise ValueError("a page without questions has no training loss")
        pages = [page.with_tokens([query.position], [token]) for token in query.candidates.tolist()]
        samples: list[reading.Sample] = []
        for candidate in pages:
            samples += candidate.samples()
        scores = self._each(samples, self.score_answers)
        losses = np.array([-log_probabilities.mean() for log_probabilities in scores])
        means: Floats = losses.reshape(len(pages), -1).mean(axis=1)
        return means

    def _each(self, samples: Sequence[reading.Sample], run: Any) -> list[Any]:
        """Return what `run` returns for each sample; a page's beginning is read once.

        Args:
            samples: the samples.
            run: answers one batch, given its samples and a number of rows.
        """
        parts: Iterable[Sequence[reading.Sample]] = [samples]
        if isinstance(self.reader, reading.PictureReader):
            parts = map(
                self._with_encoded_pages,
                batched.split_by_page(samples, batched.PAGES * self.rows.size),
            )
        elif reads_beginnings(self.model.config, self.card):
            parts = map(self._with_begun_rows, batched.split_by_page(samples, 1))
        replies: list[Any] = []
        for together in parts:
            replies += self._run(together, run, self._alike)
        return replies

    def _alike(self, sample: reading.Sample) -> object:
        """Return a batching key; rows whose beginning was read share it by that beginning."""
        row = sample.encoded
        if isinstance(row, reading.Begun):
            return id(row.cache), row.length
        return self.reader.alike(sample)

    def _with_begun_rows(self, samples: Sequence[reading.Sample]) -> list[reading.Sample]:
        """Return one page's samples, with the common beginning of their rows read once.

        Beginnings shorter than `SHORTEST` are left to each row.

        What their rows begin with is read once, where it is long enough.
        """
        caches: dict[tuple[int, ...], Any] = {}
        return [self._with_begun_row(sample, caches) for sample in batched.unopened(samples)]

    def _with_begun_row(
        self, sample: reading.Sample, caches: dict[tuple[int, ...], Any]
    ) -> reading.Sample:
        """Return a sample with the keys and values of its row's beginning, if that is long.

        Args:
            sample: the sample.
            caches: what was read, by the tokens of beginnings; a new one is added.
        """
        lay_out = self.reader.prompts if sample.answer is None else self.reader.taught
        row = reading.unfilled(lay_out([sample]))
        ids = tuple(row["input_ids"][0].tolist())
        n_asked = len(ids)
        if sample.answer is not None:
            n_asked = int((row["labels"][0] != NOT_READ).nonzero()[0])
        n = self.reader.n_of_page(sample, ids, n_asked - 1)
        if n < SHORTEST:
            return sample
        beginning = ids[:n]
        if beginning not in caches:
            caches[beginning] = unless_out_of_memory(partial(self._begin, row, n))
            if caches[beginning] is None:
                self.rows.lower(0, self.card.device)
        cache = caches[beginning]
        # Where a layer sees the last tokens only, a gap would hide some.
        gapless = any(layer.is_sliding for layer in cache.layers)
        length = len(ids) if gapless else n + bucket_of(len(ids) - n)
        return replace(sample, encoded=reading.Begun(self._places(row), cache, n, length))

    def _begin(self, row: reading.Inputs, n: int) -> Any:
        """Return the model's keys and values (its cache) of a row's first `n` tokens."""
        inputs: dict[str, torch.Tensor] = {}
        for name, value in row.items():
            if name != "labels":
                cut = value[:, :n] if reading.is_of_tokens(value, row) else value
                inputs[name] = cut.to(self.card.device)
        with self._steady(1), self.computing():
            return self.model(**inputs, use_cache=True, logits_to_keep=1)[CACHE]

    def _places(self, row: reading.Inputs) -> reading.Inputs:
        """Return a row with its attention mask and the position of each token.

        Positions have three axes where the model places images so.
        """
        rope = getattr(self.model.base_model, "get_rope_index", None)
        mask = torch.ones_like(row["input_ids"])
        if rope:
            parameters = inspect.signature(rope).parameters
            positions = rope(**{name: row[name] for name in parameters if name in row})[0]
        else:
            positions = mask.cumsum(-1) - 1
        tokens = {**row, "attention_mask": mask, "position_ids": positions}
        names = ("input_ids", "attention_mask", "position_ids", "labels")
        return {name: tokens[name] for name in names if name in tokens}

    def _with_encoded_pages(self, samples: Sequence[reading.Sample]) -> list[reading.Sample]:
        """Return the samples with their pages' encoder states; each page is encoded once."""
        pages = {id(sample.view): sample for sample in samples}
        states = self._run([*pages.values()], self._encode_pages, lambda _: None)
        encoded = dict(zip(pages, states, strict=True))
        return [replace(sample, encoded=encoded[id(sample.view)]) for sample in samples]

    def _encode_pages(self, samples: Sequence[reading.Sample], n_rows: int) -> list[torch.Tensor]:
        """Return the encoder's last hidden states of each page image of one batch."""
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
        return [
            self._reply_of(ids, of_tokens)
            for (ids, of_tokens), _ in zip(rows, samples, strict=False)
        ]

    def _reply_of(self, ids: list[int], log_probabilities: Floats) -> interface.Reply:
        """Return the answer that generated tokens spell before the first end token.

        It comes with its probability.
        """
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
        """Return the log-probability of each token of the true answers of one batch.

        Args:
            samples: samples of the batch.
            n_rows: rows of the forward pass.
        """
        inputs = self._laid(self.reader.taught, samples, n_rows)
        labels = inputs["labels"]
        if not self.model.config.is_encoder_decoder:
            # A decoder's scores at one position are for the token at the next one.
            labels = torch.nn.functional.pad(inputs.pop("labels")[:, 1:], (0, 1), value=NOT_READ)
            if CACHE not in inputs and self._keeps_some_logits():
                first = _first_scored(labels)
                inputs["logits_to_keep"] = labels.shape[1] - first
                labels = labels[:, first:]
        with self._steady(n_rows), self.computing():
            logits = self.model(**inputs).logits[:, : labels.shape[1]]
        taught = labels != NOT_READ
        values = _log_probabilities_of(logits[taught], labels[taught]).cpu().double().numpy()
        return np.split(values, np.cumsum(taught.sum(dim=1).cpu().numpy()))[: len(samples)]

    def _keeps_some_logits(self) -> bool:
        """Test whether the model can compute scores for a row's last tokens alone."""
        return "logits_to_keep" in inspect.signature(self.model.forward).parameters

    def _laid(
        self, lay_out: Callable[..., reading.Inputs], samples: Sequence[reading.Sample], n_rows: int
    ) -> Any:
        """Return the model's inputs of one batch on its device, padded to `n_rows` rows.

        The first sample is repeated to `n_rows`.

        Args:
            lay_out: makes the inputs of samples, as the reader's `prompts` or `taught`.
            samples: samples of the batch.
            n_rows: rows of the forward pass.
        """
        begun = [sample.encoded for sample in samples if isinstance(sample.encoded, reading.Begun)]
        if begun:
            return self._continued([*begun, *begun[:1] * (n_rows - len(begun))])
        inputs = batched.fill_rows(lay_out(samples), len(samples), n_rows, self.reader.packed)
        rows: dict[str, Any] = {name: value.to(self.card.device) for name, value in inputs.items()}
        if reading.ENCODED in rows:
            rows["encoder_outputs"] = BaseModelOutput(last_hidden_state=rows.pop(reading.ENCODED))
        return rows

    def _continued(self, begun: Sequence[reading.Begun]) -> dict[str, Any]:
        """Return the inputs of rows with one cached beginning as one batch.

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
            rows = [sample_row.row[name] for sample_row in begun]
            filled = [
                torch.cat([row[..., :n], fill[..., row.shape[-1] :], row[..., n:]], dim=-1)
                for row in rows
            ]
            # Scoring takes the tokens that are not read yet, `generate` all of them.
            begin = n if "labels" in begun[0].row and name != "attention_mask" else 0
            inputs[name] = torch.cat(filled, dim=-2)[..., begin:].to(self.card.device)
        return inputs

    def _steady(self, n_rows: int) -> AbstractContextManager[None]:
        """Return a context that runs batches of several rows on one thread of a CPU."""
        return batched.steady(self.card.device) if n_rows > 1 or not self._shares else nullcontext()

    def computing(self) -> AbstractContextManager[None]:
        """Compute within in the card's dtype, but the scores of tokens in float32."""
        return batched.computing(self.card, self.model.get_output_embeddings)


def _first_scored(labels: torch.Tensor) -> int:
    """Return the first position that is scored, so that all labels are scored.

    It follows from what samples of one batch share; full blocks keep the bits of each score.
    """
    taught = labels != NOT_READ
    n_last = int(taught.sum(dim=1).max()) + STEP + 1
    first = max(0, labels.shape[1] - n_last) // STEP * STEP
    return 0 if bool(taught[:, :first].any()) else first


def asked_page(query: interface.Query[Any]) -> AskedPage:
    """Return the page of a query that was built on `AnsweringTarget.encode`."""
    assert isinstance(query, interface.PageQuery) and isinstance(query.page, AskedPage)  # noqa: PT018
    return query.page


def reads_beginnings(config: Any, card: TargetCard) -> bool:
    """Test whether the common beginning of a page's rows may be computed only once.

    That is where a decoder reads it the same whatever follows. On a CPU in float32 it would change
    the last bits of answers.
    """
    text = config.get_text_config(decoder=True)
    stretched = {"dynamic", "longrope"} & {
        *re.findall(r"\w+", str(getattr(text, "rope_parameters", None)))
    }
    if stretched or (card.device, card.dtype) == ("cpu", "float32"):
        return False
    return {config.model_type, text.model_type} <= {*TABLE["answering"]["causal"]}


def _log_probabilities_of(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of one token id per row of logits, in float32.

    Args:
        logits: scores, (n_rows, n_vocabulary).
        ids: token ids, (n_rows,).

    Returns:
        Shape (n_rows,).
    """
    return torch.log_softmax(logits.float(), dim=-1).gather(-1, ids[:, None])[:, 0]
