"""The model of utterances as a target, and its loading."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
import torch

from audit.arrays import Floats, Ints
from audit.cards import TargetCard
from audit.corpus.documents import Corpus, Document
from audit.errors import TargetError
from audit.extensions.papers.utterance_model import (
    UNKNOWN_ID,
    NluConfig,
    NluModel,
    NluOutput,
    Vocabulary,
    steady_product,
)
from audit.targets.batching import padded_rows
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_whole_model
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.forward import DTYPES, frozen
from audit.targets.interface import (
    BestIntent,
    CompletionLoss,
    Query,
    Relaxed,
    RelaxedLoss,
    TagProbabilities,
    TrainingLoss,
    type_asked,
)
from audit.targets.reference_rules import ReferenceRules

A = TypeVar("A")
BATCH_ROWS = {"cpu": 512, "mps": 512, "cuda": 4096}
"""Utterances of one forward pass, by kind of device."""
UNKNOWN_SHARE = 0.2
"""A vocabulary that lacks more than this share of the members' words is refused: training saw all
but rare ones."""
FAMILY = "BiLSTM-CRF"
TASK = "intent-slots"


def alike(keys: Sequence[Any]) -> Iterator[list[int]]:
    """Yield groups of indices of equal keys, in order of each key's first index."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        groups[key].append(index)
    yield from groups.values()


def truth_of(query: CompletionLoss | RelaxedLoss) -> tuple[Ints, int]:
    """Return the tags and the intent of a query's utterance.

    Raises:
        ValueError: it has none.
    """
    page = query.page
    if page.labels is None or page.intent is None:
        raise ValueError("the training loss reads tags and an intent, and this utterance has none")
    return page.labels, page.intent


def completed(query: CompletionLoss) -> tuple[Ints, Ints, Ints]:
    """Return ids, labels and intents of a query's utterance with each completion.

    Shapes (n, n_tokens), (n, n_tokens) and (n,).
    """
    labels, intent = truth_of(query)
    n = len(query.completions)
    ids = np.tile(query.page.ids, (n, 1))
    ids[:, list(query.positions)] = query.completions
    return ids, np.tile(labels, (n, 1)), np.full(n, intent)


class NluTarget(ReferenceRules):
    """Answers queries about utterances with one NLU model.

    Implements `audit.targets.interface.TokenTarget`.

    A word is a token, there are no special tokens, boxes are zero; [UNK] stands for words that the
    vocabulary lacks and for hidden ones.

    Rows of one length share a batch, without padding, and a batch is filled up to a multiple of
    `audit.targets.batching.STEP` rows (on a GPU to `batch_rows`): on a CPU an answer depends on its
    query alone, bit for bit, gradients too.

    Args:
        model: loaded; put into evaluation mode here.
        vocabulary: its words.
        card: what it is.
        batch_rows: utterances of one forward pass, at most; None: `BATCH_ROWS` of the device.
    """

    lowered = 0

    def __init__(
        self,
        model: NluModel,
        vocabulary: Vocabulary,
        card: TargetCard,
        batch_rows: int | None = None,
    ) -> None:
        """Put a model of utterances up for questions; `batch_rows` rows are run at a time."""
        self.model = model.eval()
        self.vocabulary = vocabulary
        self.card = card
        self.labels = tuple(
            str(model.config.id2label[index]) for index in range(model.config.num_labels)
        )
        self.intents = tuple(model.config.intents)
        self.answers: frozenset[type[Query[Any]]] = frozenset(
            {TagProbabilities, BestIntent, TrainingLoss, CompletionLoss, RelaxedLoss}
        )
        self.batch_rows = batch_rows or BATCH_ROWS[card.device]
        self._label_ids = {label: index for index, label in enumerate(self.labels)}
        self._intent_ids = {intent: index for index, intent in enumerate(self.intents)}
        with torch.no_grad():
            # All words at once, so that what a word shows does not depend on the others of a batch.
            self._table = model.input_table().detach().clone()
        self._bare = self._table.clone()
        self._bare[:, model.config.embedding_size :] = 0.0

    def rounded(self, dtype: str) -> NluTarget:
        """Return this model with its BiLSTMs computing in `dtype`.

        Weights are shared, heads and losses stay in float32.
        """
        return NluTarget(
            self.model, self.vocabulary, replace(self.card, dtype=dtype), self.batch_rows
        )

    def check(self, corpus: Corpus) -> None:
        """Refuse a corpus that the model cannot read.

        Raises:
            TargetError: the corpus is for another task, or the model lacks a tag or an intent of
                every member document (of every document, where there are no members), or too many
                of their words.
        """
        if corpus.manifest.task.kind != self.card.task:
            raise TargetError(
                f"the model names intents and slots, and the data set is for {corpus.manifest.task.kind}",
                f'give a data set with [task] kind = "{self.card.task}"',
            )
        documents = corpus.of("member") or corpus.documents
        unknown_names = self.unknown_names(documents)
        if documents and len(unknown_names) == len(documents):
            raise TargetError(
                f"the model has no tag or intent {', '.join(sorted(frozenset().union(*unknown_names.values())))}",
                f"it has {', '.join((*self.labels, *self.intents))}; use these names",
            )
        words = Counter(word.text for document in documents for word in document.words)
        ids = self.vocabulary.ids_of(words)
        unknown = sum(
            count for count, index in zip(words.values(), ids, strict=True) if index == UNKNOWN_ID
        )
        if unknown > UNKNOWN_SHARE * words.total():
            raise TargetError(
                f"the model's vocabulary lacks {unknown / words.total():.0%} of the corpus's {words.total()} words",
                "give the checkpoint its own vocabulary.json; words are compared as they are spelled",
            )

    def unknown_names(self, documents: Sequence[Document]) -> dict[str, frozenset[str]]:
        """Return, by document id, its tags and intent that the model does not have.

        A document without any is no key.
        """
        tags = {*self.labels}
        intents = {*self.intents, None}
        unknown: dict[str, frozenset[str]] = {}
        for document in documents:
            names = {*(document.tags or ())} - tags | {document.intent} - intents
            if names:
                unknown[document.id] = frozenset(map(str, names))
        return unknown

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding | None:
        """Encode an utterance, with labels and intent where the loss reads them.

        Labels and intent are both None unless the document has both, and the model knows them: it
        has a loss of no other utterance.
        """
        words = self._window(len(document.words), around)
        if words is None:
            return None
        labels, intent = self._truth(document)
        return Encoding(
            ids=self.vocabulary.ids_of(document.words[index].text for index in words),
            boxes=np.zeros((len(words), 4)),
            words=words,
            labels=None if labels is None else labels[words],
            mask_id=UNKNOWN_ID,
            unknown_id=UNKNOWN_ID,
            intent=intent,
        )

    def _window(self, n_words: int, around: Sequence[int]) -> Ints | None:
        """Return the words of an utterance that the model reads; None where it cannot read these.

        Args:
            n_words: words of the utterance.
            around: words that must be among them.
        """
        room = self.model.config.max_tokens
        first = 0
        last = 0
        centre = 0
        if around:
            first = min(around)
            last = max(around)
            centre = (first + last + 1) // 2
            if last - first >= room:
                return None
        if not n_words or last >= n_words:
            return None
        start = max(0, min(centre - room // 2, n_words - room))
        return np.arange(start, min(start + room, n_words))

    def _truth(self, document: Document) -> tuple[Ints | None, int | None]:
        """Return ids of a document's tags and intent; (None, None) unless all are known."""
        tags = [self._label_ids.get(tag) for tag in document.tags or ()]
        if not tags or None in tags or document.intent is None:
            return None, None
        intent = self._intent_ids.get(document.intent)
        if intent is None:
            return None, None
        return np.array(tags, np.int64), intent

    def token_strings(self, ids: Sequence[int]) -> str:
        """Return the words of these ids as a text."""
        return self.vocabulary.text_of(ids)

    def ask(self, queries: Sequence[Query[A]]) -> list[A]:
        """Answer queries about utterances, all of one type.

        Raises:
            ValueError: a query of a type this target cannot answer, queries of several types, or a
                loss of an utterance without tags and intent.
        """
        kind = type_asked(self, queries)
        if kind is None:
            return []
        answer: Any = {
            TagProbabilities: self._tag_probabilities,
            BestIntent: self._best_intent,
            TrainingLoss: lambda asked: self._completion_loss(
                [
                    CompletionLoss(query.page, (query.position,), query.candidates[:, None])
                    for query in asked
                ]
            ),
            CompletionLoss: self._completion_loss,
            RelaxedLoss: self._relaxed_loss,
        }[kind]
        with torch.no_grad():
            return cast("list[A]", answer(queries))

    def _best_intent(self, queries: Sequence[BestIntent]) -> list[int]:
        """Return the index of the likeliest intent for each query."""
        best: dict[int, int] = {}
        for rows, output in self._by_length([query.page for query in queries]):
            best |= zip(
                rows, output.intent_logits.cpu().numpy().argmax(axis=1).tolist(), strict=False
            )
        return [best[row] for row in range(len(queries))]

    def _tag_probabilities(self, queries: Sequence[TagProbabilities]) -> list[Floats]:
        """Return the probabilities of each query's tags: (n_tokens, n_tags)."""
        answers: list[Floats] = [np.empty(0)] * len(queries)
        for rows, output in self._by_length([query.page for query in queries]):
            tables = self.model.crf.marginals(output.emissions).cpu().double().numpy()
            for row, table in zip(rows, tables[: len(rows)], strict=True):
                answers[row] = table / table.sum(axis=1, keepdims=True)
        return answers

    def _by_length(self, pages: Sequence[Encoding]) -> Iterator[tuple[list[int], Any]]:
        """Yield (indices, model output) for each batch of pages of one length.

        It says the same of the rows that fill the batch up.
        """
        for rows in alike([len(page.ids) for page in pages]):
            for part in self._parts(len(rows)):
                own = rows[part]
                inputs = self._table[
                    torch.from_numpy(np.stack([pages[row].ids for row in own])).to(
                        self._table.device
                    )
                ]
                yield own, self._run(inputs)

    def _completion_loss(self, queries: Sequence[CompletionLoss]) -> list[Floats]:
        """Compute losses of completions, a row each; queries of one length share batches."""
        answers: list[Floats] = [np.empty(0)] * len(queries)
        for chosen in alike([len(query.page.ids) for query in queries]):
            blocks = [completed(queries[row]) for row in chosen]
            ids, labels, intents = map(np.concatenate, zip(*blocks, strict=True))
            losses = np.empty(len(ids))
            for part in self._parts(len(losses)):
                inputs = self._table[torch.from_numpy(ids[part]).to(self._table.device)]
                losses[part] = (
                    self._losses(inputs, labels[part], intents[part]).cpu().double().numpy()
                )
            ends = np.cumsum([len(block[0]) for block in blocks])[:-1]
            for row, own in zip(chosen, np.split(losses, ends), strict=True):
                answers[row] = own
        return answers

    def _relaxed_loss(self, queries: Sequence[RelaxedLoss]) -> list[Relaxed]:
        """Return losses and gradients of queries whose inputs are mixtures of words.

        Those of one length, number of positions and candidates share batches.
        """
        answers: list[Relaxed | None] = [None] * len(queries)
        keys = [
            (
                len(query.page.ids),
                len(query.positions),
                query.candidates.tobytes(),
                query.mix_characters,
            )
            for query in queries
        ]
        with frozen(self.model):
            for chosen in alike(keys):
                for part in self._parts(len(chosen)):
                    rows = chosen[part]
                    for row, answer in zip(
                        rows, self._mixed([queries[row] for row in rows]), strict=True
                    ):
                        answers[row] = answer
        return cast("list[Relaxed]", answers)

    def _mixed(self, queries: Sequence[RelaxedLoss]) -> Iterator[Relaxed]:
        """Return the answers to relaxed queries that make one batch."""
        table = self._table if queries[0].mix_characters else self._bare
        device = table.device
        filled = [*queries, *[queries[0]] * (self._n_rows(len(queries)) - len(queries))]
        labels, intents = map(np.array, zip(*map(truth_of, filled), strict=True))
        positions = torch.from_numpy(np.array([query.positions for query in filled], np.int64)).to(
            device
        )
        given = np.stack([query.weights for query in filled]).astype(np.float32)
        with torch.enable_grad():
            weights = torch.from_numpy(given).to(device).requires_grad_()
            mixed = steady_product(
                weights, table[torch.from_numpy(queries[0].candidates).to(device)]
            )
            inputs = self._table[
                torch.from_numpy(np.stack([query.page.ids for query in filled])).to(device)
            ]
            owners = torch.arange(len(filled), device=device)[:, None].expand_as(positions)
            inputs = inputs.index_put((owners, positions), mixed)
            losses = self._losses(inputs, labels, intents)
            (gradient,) = torch.autograd.grad(losses.sum(), weights)
        values = losses.detach().cpu().double().numpy()
        slopes = gradient.cpu().double().numpy()
        for row in range(len(queries)):
            yield Relaxed(float(values[row]), slopes[row])

    def _losses(self, inputs: torch.Tensor, labels: Ints, intents: Ints) -> torch.Tensor:
        """Return the losses of some rows, (n_rows,), whose inputs are given.

        Shape of the inputs: (n_rows, n_tokens, input_size).
        """
        losses = self._run(
            inputs, *(torch.from_numpy(true).to(inputs.device) for true in (labels, intents))
        ).losses
        assert losses is not None
        return losses[: len(inputs)]

    def _run(
        self,
        inputs: torch.Tensor,
        labels: torch.Tensor | None = None,
        intents: torch.Tensor | None = None,
    ) -> NluOutput:
        """Return the model's output for these inputs, (n, n_tokens, input_size).

        They are filled up here with the first row.
        """
        n = len(inputs)
        rows = torch.arange(self._n_rows(n), device=inputs.device)
        rows[n:] = 0
        with torch.autocast(
            inputs.device.type, DTYPES[self.card.dtype], enabled=self.card.dtype != "float32"
        ):
            states, (last, _) = self.model.lstm(inputs[rows])
        sentences = torch.cat([last[-2], last[-1]], dim=-1).float()
        if labels is not None and intents is not None:
            labels = labels[rows]
            intents = intents[rows]
        output: NluOutput = self.model.apply_heads(states.float(), sentences, labels, intents)
        return output

    def _parts(self, n: int) -> Iterator[slice]:
        """Yield slices that divide `n` rows into batches."""
        return (
            slice(start, min(start + self.batch_rows, n)) for start in range(0, n, self.batch_rows)
        )

    def _n_rows(self, n: int) -> int:
        """Return the rows that a batch of `n` is filled up to."""
        return padded_rows(n) if self.card.device == "cpu" else max(n, self.batch_rows)


def is_nlu(folder: AnyFolder) -> bool:
    """Return True for a checkpoint whose configuration is that of an NLU model.

    Raises:
        TargetError: the folder is no checkpoint, or is unsafe to load.
    """
    return open_checkpoint(folder).config.get("model_type") == NluConfig.model_type


def load_nlu(
    folder: AnyFolder,
    *,
    device: str = "cpu",
    labels: Sequence[str] = (),
    batch_rows: int | None = None,
) -> NluTarget:
    """Load an NLU model as a target.

    Args:
        folder: what `fit_nlu` wrote.
        device: "cpu", "cuda" or "mps".
        labels: the tags that the manifest names, if any; they must be the model's, in any order.
        batch_rows: number of rows of a batch, see `NluTarget`.

    Raises:
        TargetError: the folder holds no NLU model, or lacks weights or words, or its tags are not
            `labels`.
    """
    folder = open_checkpoint(folder)
    if not is_nlu(folder):
        raise TargetError(
            f"{folder}: no NLU model",
            f"its config.json must say model_type {NluConfig.model_type!r}",
        )
    model = load_whole_model(folder, NluModel)
    vocabulary = Vocabulary.load(folder.path)
    _check_sizes(folder, model, vocabulary)
    config = model.config
    tags = [str(config.id2label.get(index)) for index in range(config.num_labels)]
    if labels and sorted(labels) != sorted(tags):
        raise TargetError(
            f"{folder}: the model's labels are not the manifest's",
            f"the model has {', '.join(tags)}",
        )
    layer = ", character layer" if config.n_characters else ""
    card = folder.card(
        model,
        FAMILY,
        TASK,
        f"intent and slots{layer}",
        vocabulary=config.vocab_size,
        max_tokens=config.max_tokens,
        device=device,
    )
    return NluTarget(model.to(device), vocabulary, card, batch_rows)


def _check_sizes(folder: CheckpointFolder, model: NluModel, vocabulary: Vocabulary) -> None:
    """Refuse a checkpoint whose files contradict each other.

    Raises:
        TargetError: they do.
    """
    config = model.config
    if len(vocabulary.words) != config.vocab_size:
        raise TargetError(
            f"{folder}: the vocabulary has {len(vocabulary.words)} words, the model {config.vocab_size}"
        )
    if config.max_tokens < 1:
        raise TargetError(f"{folder}: the model reads no word", "correct max_tokens in config.json")
    left_over = sorted(folder.weight_names - model.state_dict().keys())
    if left_over:
        raise TargetError(
            f"{folder}: config.json describes less than the weights have, no {left_over[0]}"
        )
    if model.characters is None:
        return
    numbers = model.spellings
    if bool(((numbers < 0) | (numbers >= config.n_characters)).any()):
        raise TargetError(
            f"{folder}: the table of words' characters names characters that the model lacks"
        )


def fresh_model(
    vocabulary: Vocabulary,
    tags: Sequence[str],
    intents: Sequence[str],
    *,
    characters: bool,
    **sizes: Any,
) -> NluModel:
    """Return a model of these words, tags and intents, whose weights follow from torch's own seed.

    Args:
        vocabulary: its words.
        tags: tags in the order of its outputs.
        intents: likewise.
        characters: whether it has a character layer.
        **sizes: sizes of `NluConfig`.
    """
    config = NluConfig(
        vocab_size=len(vocabulary.words),
        n_characters=1 + len(vocabulary.characters) if characters else 0,
        intents=list(intents),
        id2label=dict(enumerate(tags)),
        label2id={tag: index for index, tag in enumerate(tags)},
        **sizes,
    )
    model = NluModel(config)
    if characters:
        model.spellings.copy_(torch.from_numpy(vocabulary.spellings(config.longest_word)))
    return model
