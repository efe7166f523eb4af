"""Checkpoints that point at the answer on a page.

They are of every family that transformers has such a head for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
import transformers
from transformers.models.auto import modeling_auto

from audit.arrays import Floats
from audit.cards import TargetCard
from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import places_of
from audit.errors import ManifestError, TargetError
from audit.targets import TABLE, wording
from audit.targets.answering.layout import PageImages
from audit.targets.answering.pictures import image_processor_of
from audit.targets.answering.reader import Sample, positions_of
from audit.targets.answering.rows import (
    NO_IMAGE,
    NO_WORDS,
    RowTarget,
    computing,
    fill_rows,
    refuse_documents,
    trial_sample,
)
from audit.targets.batching import Batch, bucket_of, longest_row
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import (
    load_model,
    load_whole_model,
    open_tokenizer,
    place,
    score_exactly,
)
from audit.targets.checkpoint.safety import DAMAGE, method_of, one_line
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.families import counts_from_padding
from audit.targets.interface import Answer, AnswerLoss, PageViewQuery, Query, Reply
from audit.targets.spans import (
    Inputs,
    Scores,
    SpanReader,
    Window,
    WindowSample,
    head_of,
    located,
    reply_of,
    scores_of,
)

MOST_ROWS = {"cpu": 4, "mps": 16, "cuda": 64}
"""Windows of one forward pass, by kind of device."""
AT_ONCE = 64
"""Questions whose windows are laid out together: bounds memory."""


class ExtractiveTarget(RowTarget):
    """Answers questions about page views by pointing at a span of their words.

    Implements `TokenTarget`.

    It encodes no pages: its loss is that of an answer. The training loss of an answer that does not
    stand on the page is that of "no answer", as training teaches it (transformers' run_qa.py); it
    says nothing of the answer itself.

    Args:
        model: the transformers model, loaded; put into evaluation mode here.
        reader: lays questions and pages before it.
        card: what it is.
        batch_rows: windows of one forward pass; None: what suits the device. On a CPU no answer
            depends on it.
    """

    reader: SpanReader

    def __init__(
        self, model: Any, reader: SpanReader, card: TargetCard, batch_rows: int | None = None
    ) -> None:
        """Set the model to evaluation, and choose how many rows a batch has."""
        self.model = model.eval()
        self.reader = reader
        self.card = card
        alone = reader.inputs.alone and card.device == "cpu"
        self.rows = Batch(1 if alone else batch_rows or MOST_ROWS[card.device])

    def check(self, corpus: Corpus) -> None:
        """Refuse a corpus whose pages the model cannot read.

        Raises:
            ManifestError: the data set asks nothing, or documents that are asked about have no
                words, or lack the boxes or images that the model reads, or no answer of a member
                stands on its page.
        """
        if not corpus.manifest.task.asks:
            raise ManifestError(*wording("asks_nothing", kind=corpus.manifest.task.kind))
        asked = [document for document in corpus.documents if document.questions]
        self._check_pages(asked)
        members = [document for document in asked if document.split == "member"]
        if members and not any(map(_holds_an_answer, members)):
            raise ManifestError(*wording("answers_off_page", name=self.card.architecture))

    def _check_pages(self, asked: Sequence[Document]) -> None:
        """Refuse pages without the words, boxes or images that the model reads.

        Raises:
            ManifestError: see `check`.
        """
        name = self.card.architecture
        refuse_documents(
            [document for document in asked if not document.words],
            f"no words; {name} points at words",
            NO_WORDS,
        )
        if self.reader.inputs.boxes:
            lacking = [document for document in asked if not _has_layout(document)]
            refuse_documents(lacking, f"no boxes; {name} reads layout", "add boxes and sizes")
        if self.needs_image:
            refuse_documents(
                [document for document in asked if document.image is None],
                f"no image; {name} sees pages",
                NO_IMAGE,
            )

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """Return None: extractive models are asked questions, not about a page's tokens."""
        return None

    def accepts_start(
        self, start: CheckpointFolder, own_folder: CheckpointFolder, *, denoises: bool
    ) -> str | None:
        """Return why a pretrained start cannot point at answers; None where it can.

        Such models mostly begin as masked language models or bare encoders.
        """
        return None if is_extractive(start) else "it points at no answers"

    def token_strings(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, as the tokenizer decodes them."""
        return str(self.reader.tokenizer.decode(list(ids))).strip()

    def _methods(self) -> dict[type[Query[Any]], Callable[[Any], list[Any]]]:
        """Map each type of query to the method that answers queries of that type."""
        return {Answer: self._replies, AnswerLoss: self._losses}

    def _replies(self, queries: Sequence[Answer]) -> list[Reply]:
        """Return the best span of the page as the answer to each question, in order."""
        return [
            reply_of(query.view, windows, scores)
            for query, (windows, scores) in zip(queries, self._read(queries), strict=True)
        ]

    def _losses(self, queries: Sequence[AnswerLoss]) -> list[Floats]:
        """Return log-probabilities of an answer's begin and end, where it is likeliest."""
        likeliest = []
        for query, (windows, scores) in zip(queries, self._read(queries), strict=True):
            scores_of_window = dict(zip(map(id, windows), scores, strict=True))
            losses = [
                scores_of_window[id(window)].of_span(*span)
                for window, span in located(windows, query.view, query.answer)
            ]
            likeliest.append(max(losses, key=lambda loss: float(loss.sum())))
        return likeliest

    def _read(
        self, queries: Sequence[PageViewQuery[Any]]
    ) -> Iterator[tuple[list[Window], list[Scores]]]:
        """Yield per query its windows of the page, and the model's scores of each."""
        for start in range(0, len(queries), AT_ONCE):
            together = queries[start : start + AT_ONCE]
            rows = [self.reader.windows(query.view, query.question) for query in together]
            samples: list[WindowSample] = []
            for query, windows in zip(together, rows, strict=True):
                samples += [
                    WindowSample(query.view, query.question, window=window) for window in windows
                ]
            scores = iter(self._run(samples, self._score, self._bucket))
            for windows in rows:
                yield windows, [next(scores) for _ in windows]

    def _bucket(self, sample: Sample) -> int:
        """Return the padded length of a row, which is its batching key."""
        return bucket_of(
            len(cast("WindowSample", sample).window.ids), self.reader.inputs.n_appended
        )

    def _score(self, samples: Sequence[Sample], n_rows: int) -> list[Scores]:
        """Return the scores of begin and end for each window of one batch."""
        rows = cast("Sequence[WindowSample]", samples)
        length = self._bucket(rows[0])
        inputs = self.reader.batch(rows, length)
        if self.card.device != "cpu":
            # CUDA kernels depend on the number of rows, so there it is always the same.
            inputs = fill_rows(inputs, len(rows), n_rows)
        with self._computing():
            out = self.model(**{name: value.to(self.card.device) for name, value in inputs.items()})
        begins = out.start_logits.float().cpu().double().numpy()
        ends = out.end_logits.float().cpu().double().numpy()
        return [
            scores_of(begins[number], ends[number], len(row.window.ids), length)
            for number, row in enumerate(rows)
        ]

    def _computing(self) -> AbstractContextManager[None]:
        """Compute within in the card's dtype, but the head in float32."""
        return computing(self.card, lambda: head_of(self.model))


def _has_layout(document: Document) -> bool:
    """Test whether a document has a size, and all of its words have boxes."""
    return document.size is not None and all(word.box is not None for word in document.words)


def _holds_an_answer(document: Document) -> bool:
    """Test whether one of a document's questions has its first answer on the page."""
    return any(
        places_of(question.answers[0], document.words)
        for question in document.questions
        if question.answers
    )


TASK = "extractive-qa"
HEADS: dict[str, str] = {
    **modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    **modeling_auto.MODEL_FOR_DOCUMENT_QUESTION_ANSWERING_MAPPING_NAMES,
}
"""The class of a model with the head, by the `model_type` of its configuration: all that
transformers has."""
_POSITIONS = ("max_position_embeddings", "n_positions", "max_encoder_position_embeddings")
_USUAL_TOKENS = 512
"""The longest row of a model that names none."""
_MIN_TOKENS = 16


def is_extractive(folder: AnyFolder) -> bool:
    """Test whether a checkpoint has a head that points at answers.

    Raises:
        TargetError: the folder is no checkpoint, or is unsafe to load.
    """
    config = open_checkpoint(folder).config
    architectures = config.get("architectures")
    if not isinstance(architectures, list):
        return False
    return HEADS.get(str(config.get("model_type"))) in architectures


def may_point(folder: AnyFolder) -> bool:
    """Test whether a checkpoint's family has a head that points at answers.

    Raises:
        TargetError: the folder is no checkpoint, or is unsafe to load.
    """
    return str(open_checkpoint(folder).config.get("model_type")) in HEADS


def load_extractive(
    folder: AnyFolder,
    *,
    device: str = "cpu",
    batch_rows: int | None = None,
    fresh_head: int | None = None,
) -> ExtractiveTarget:
    """Return a checkpoint loaded as a target that points at answers.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        device: "cpu", "cuda" or "mps".
        batch_rows: number of rows of a batch, see `ExtractiveTarget`.
        fresh_head: the seed of a head that the folder lacks, to train it; None: a checkpoint
            without one is refused.

    Raises:
        TargetError: the folder has no such head, cannot be read by docaudit, would run code, or
            lacks weights, a tokenizer or the processor of the images that it sees.
    """
    folder = open_checkpoint(folder)
    model_class = _class_of(folder)
    if fresh_head is not None:
        model = _with_fresh_head(folder, model_class, fresh_head)
    else:
        model = load_whole_model(folder, model_class)
        if method_of(folder.config) is None:
            score_exactly(head_of(model))
    tokenizer = open_tokenizer(folder, ("pad",), model.config.vocab_size)
    inputs = _inputs_of(model, tokenizer)
    images = None
    if inputs.n_appended:
        processor = image_processor_of(folder)
        processor.apply_ocr = False  # the words are the data set's own
        images = PageImages(processor, (model.config.input_size, model.config.input_size))
    reader = SpanReader(
        tokenizer, _longest_row(model, tokenizer, inputs.n_appended), inputs, images
    )
    card = folder.card(
        model,
        model_class.__name__.partition("For")[0],
        TASK,
        "extractive question answering",
        vocabulary=len(tokenizer),
        max_tokens=reader.max_tokens,
        device=device,
        resolution=None if images is None else images.size,
    )
    target = ExtractiveTarget(place(model, device), reader, card, batch_rows)
    trial = trial_sample()
    try:
        target.ask([Answer(trial.view, trial.question)])
    except DAMAGE as error:
        raise TargetError(
            *wording("cannot_be_asked", folder=folder, reason=one_line(error))
        ) from None
    return target


def _class_of(folder: CheckpointFolder) -> Any:
    """Return the transformers class of a checkpoint's model, with a head that points.

    Raises:
        TargetError: it has none that points at answers, or docaudit cannot audit it.
    """
    kind = str(folder.config.get("model_type"))
    if kind in TABLE["extractive"]["unreadable"]:
        why = TABLE["extractive"]["unreadable"][kind]
        raise TargetError(f"{folder}: {HEADS[kind]} cannot be audited: {why}")
    if kind not in HEADS:
        raise TargetError(*wording("points_at_nothing", folder=folder, kind=kind))
    return getattr(transformers, HEADS[kind])


def _with_fresh_head(folder: CheckpointFolder, model_class: Any, seed: int) -> Any:
    """Return the model, with a head drawn from `seed` where its files lack one.

    Only its head, and a pooler that nothing reads, may be missing in its files.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, missing = load_model(folder, model_class)
    inner = f"{model.base_model_prefix}."
    lost = [
        name
        for name in missing
        if name.startswith(inner) and not name.startswith(f"{inner}pooler.")
    ]
    if lost:
        raise TargetError(
            f"{folder}: the encoder lacks {len(lost)} parameters, the first is {lost[0]}"
        )
    return model


def _inputs_of(model: Any, tokenizer: Any) -> Inputs:
    """Return how the model is called: the inputs it takes, its padding and its patches."""
    takes = inspect.signature(model.forward).parameters
    config = model.config
    # Where positions follow from it, padding is what the model takes for it.
    pad_id = config.pad_token_id if counts_from_padding(type(model)) else tokenizer.pad_token_id
    patches = 0
    if "pixel_values" in takes and getattr(config, "visual_embed", False):
        patches = (config.input_size // config.patch_size) ** 2 + 1
    return Inputs(
        attention="attention_mask" in takes,
        types="token_type_ids" in takes and "token_type_ids" in tokenizer.model_input_names,
        boxes="bbox" in takes,
        n_types=max(1, int(getattr(config, "type_vocab_size", 0) or 2)),
        pad_id=int(pad_id),
        n_appended=patches,
        alone=config.model_type in TABLE["extractive"]["chunked"],
    )


def _longest_row(model: Any, tokenizer: Any, n_appended: int) -> int:
    """Return the most tokens of a row for model and tokenizer, special ones included."""
    positions = positions_of(model.config, _POSITIONS) or _USUAL_TOKENS
    limit = tokenizer.model_max_length
    unused = model.config.pad_token_id + 1 if counts_from_padding(type(model)) else 0
    longest = longest_row(positions - unused, n_appended)
    longest = min(longest, limit) if isinstance(limit, int) else longest
    if longest < _MIN_TOKENS:
        raise TargetError(*wording("short_rows", n=max(0, longest)))
    return longest
