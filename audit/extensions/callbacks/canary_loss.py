"""Proof, while a model is trained, that planted secrets have a loss.

It is a callback for the Trainer of transformers.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from transformers import Trainer, TrainerCallback

from audit.corpus import manifest
from audit.corpus.canaries.schema import (
    LOSS_FILE,
    PATTERNS,
    LossProof,
    canaries_sha256,
    load_canaries,
)
from audit.corpus.documents import Corpus
from audit.errors import UsageError
from audit.files import write_atomically

LOG = logging.getLogger("docaudit")
NO_LOSS = -100
"""The label of a token without a loss, in transformers."""


def write_proof(folder: Path, proof: LossProof) -> None:
    """Write the proof that canaries had a loss into the folder of a model.

    Raises:
        EngineError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / LOSS_FILE, TypeAdapter(LossProof).dump_json(proof, indent=1) + b"\n")


@dataclass
class CanaryWatch:
    """Counts examples in which every token of a planted secret has a loss.

    A secret counts in an example that names its canary: it follows the name in the tokens that have
    a loss, before the name of another canary, whatever white space and case the training's own text
    has.

    Attributes:
        corpus: corpus of questions, with canaries.
        tokenizer: tokenizer of the model.
        rows: examples by id of the canary.
    """

    corpus: Corpus
    tokenizer: Any
    rows: Counter[str] = field(default_factory=Counter)
    _secrets: dict[str, tuple[str, str]] = field(init=False, default_factory=dict)
    _names: re.Pattern[str] = field(init=False)
    _pieces: dict[int, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Look up the canaries' names and secrets; refuse a data set without any.

        Raises:
            UsageError: the data set has no canaries, or asks no questions.
        """
        drawn = load_canaries(self.corpus)
        if drawn is None or self.corpus.manifest.task.kind != "question-answering":
            raise UsageError(
                "the data set has no planted answers",
                "docaudit canary insert DATA_DIR OUT puts some in",
            )
        for canary in drawn.canaries:
            name = PATTERNS[canary.pattern].name_in(canary.prefix)
            assert name is not None
            self._secrets[name] = canary.id, "".join(canary.completion).casefold()
            if canary.included:
                self.rows[canary.id] = 0
        self._names = re.compile("|".join(map(re.escape, self._secrets)))

    def see(self, inputs: Mapping[str, Any], *, encoder_decoder: bool = False) -> None:
        """Count the rows of one training batch in which a canary's secret has a loss.

        Args:
            inputs: `labels`, (n_rows, n_labels), and `input_ids` or `decoder_input_ids` where there
                are some.
            encoder_decoder: whether labels are a text of their own, and not those of `input_ids`.
        """
        labels = inputs.get("labels")
        if labels is None or labels.ndim != 2:
            return
        tensors = [inputs.get(name) for name in ("input_ids", "decoder_input_ids")]
        context = [ids.tolist() for ids in tensors if ids is not None]
        for row, row_labels in enumerate(labels.tolist()):
            texts = [ids[row] for ids in context]
            are_two = encoder_decoder or not texts
            tokens = _two_texts(texts, row_labels) if are_two else _one_text(texts[0], row_labels)
            self.rows.update(set(self._with_loss(tokens)))

    def _with_loss(self, tokens: Sequence[tuple[int, bool]]) -> Iterator[str]:
        """Yield the canaries whose secret has a loss in an example.

        Args:
            tokens: the tokens of the example, and which of them have a loss.
        """
        text = ""
        losses: list[bool] = []
        for number, loss in tokens:
            piece = self._piece(number)
            text += piece
            losses += [loss] * len(piece)
        matches = [*self._names.finditer(text)]
        for index, match in enumerate(matches):
            canary_id, secret = self._secrets[match[0]]
            later = (after.start() for after in matches[index + 1 :] if after[0] != match[0])
            end = next(later, len(text))
            for hit in re.finditer(re.escape(secret), text[match.end() : end]):
                if all(losses[match.end() + hit.start() : match.end() + hit.end()]):
                    yield canary_id

    def _piece(self, number: int) -> str:
        """Return the letters of a token, folded and without white space."""
        if number not in self._pieces:
            text = self.tokenizer.decode([max(number, 0)], skip_special_tokens=True)
            self._pieces[number] = "".join(text.removeprefix("##").split()).casefold()
        return self._pieces[number]


def _one_text(text: Sequence[int], labels: Sequence[int]) -> list[tuple[int, bool]]:
    """Return (token, has a loss) of a text; labels that repeat its tokens mark a loss."""
    pairs = zip(text, labels, strict=False)
    return [(number, number == label) for number, label in pairs]


def _two_texts(texts: Sequence[Sequence[int]], labels: Sequence[int]) -> list[tuple[int, bool]]:
    """Return (token, has a loss) of the input texts, without, and of the label text, with.

    Those of labels have a loss.
    """
    tokens = [(number, False) for number in chain(*texts)]
    tokens += [(number, True) for number in labels if number != NO_LOSS]
    return tokens


def _sum_over_processes(rows: Counter[str]) -> Counter[str]:
    """Sum the counts of all processes of a training."""
    from accelerate.utils import gather_object

    of_processes = gather_object([dict(rows)])
    sums: Counter[str] = Counter()
    for name in rows:
        sums[name] = sum(counts[name] for counts in of_processes)
    return sums


class CanaryCallback(TrainerCallback):  # type: ignore[misc]
    """Watches the batches of the first epoch and writes `docaudit_canaries.json` beside the model.

        trainer.add_callback(CanaryCallback(trainer, "data-with-canaries"))

    What is looked at is what the Trainer feeds the model: after masking, truncation, packing and
    collation. A canary without a loss is not counted by `docaudit scan`; a scan of a model without
    the file passes no limit on canaries.
    """

    def __init__(self, trainer: Trainer, data: str | Path) -> None:
        """Load the canaries of the data set that `trainer` trains on.

        Args:
            trainer: trainer that the callback is added to; it saves with its `processing_class`.
            data: the folder that `docaudit canary insert` wrote.

        Raises:
            DocauditError: the folder holds no data set of questions with canaries, or the Trainer
                has no tokenizer.
        """
        words = getattr(trainer, "processing_class", None)
        if words is None:
            raise UsageError("the Trainer has no tokenizer", "give Trainer(processing_class=...)")
        self._trainer = trainer
        self.watch = CanaryWatch(manifest.load(Path(data)), getattr(words, "tokenizer", words))
        self._unwatched: Any = None
        self._before: list[float] = []
        self._epochs = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin to watch the batches."""
        self._before = self._sums()
        original = self._unwatched = self._trainer.compute_loss
        two_texts = bool(getattr(self._trainer.model.config, "is_encoder_decoder", False))

        def compute_loss(model: Any, inputs: Mapping[str, Any], *rest: Any, **options: Any) -> Any:
            """Show a training batch to the watch, and return what the Trainer computes."""
            if model.training:
                self.watch.see(inputs, encoder_decoder=two_texts)
            return original(model, inputs, *rest, **options)

        self._trainer.compute_loss = compute_loss

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop watching after the first epoch, and say which canaries had no loss."""
        if self._unwatched is None:
            return
        self._trainer.compute_loss = self._unwatched
        self._unwatched = None
        self._epochs = float(state.epoch or 0.0)
        rows = self.watch.rows
        if args.world_size > 1:
            rows = self.watch.rows = _sum_over_processes(rows)
        lost = sum(not count for count in rows.values())
        if lost and state.is_world_process_zero:
            LOG.warning(
                "docaudit: %d of %d planted canaries had no loss in this epoch, masked or cut off",
                lost,
                len(rows),
            )

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the proof of the canaries' losses beside the checkpoint."""
        if state.is_world_process_zero:
            self.write(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the proof of the canaries' losses beside the model."""
        self.on_epoch_end(args, state, control)
        if state.is_world_process_zero:
            self.write(Path(args.output_dir))

    def write(self, folder: Path) -> None:
        """Write the proof into the folder of a model.

        Raises:
            EngineError: the folder cannot be written.
        """
        changed = sum(
            before != after for before, after in zip(self._before, self._sums(), strict=True)
        )
        sha256 = canaries_sha256(self.watch.corpus)
        write_proof(
            folder,
            LossProof(sha256, self._epochs, dict(self.watch.rows), len(self._before), changed),
        )

    def _sums(self) -> list[float]:
        """Return the sum of each tensor that training may change."""
        return [
            float(parameter.detach().double().sum())
            for parameter in self._trainer.model.parameters()
            if parameter.requires_grad
        ]
