"""Sentence embedders: an encoder whose last hidden states are pooled into one vector for a text.

Safety is that of `audit.targets.encoders.loading`: safetensors only, no code from the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers

from audit.cards import TargetCard
from audit.errors import TargetError
from audit.targets.batching import longest_row
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import (
    check_vocabulary,
    load_model,
    not_finite,
    open_tokenizer,
    place,
)
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.families import Family
from audit.targets.encoders.forward import BATCH_TOKENS, Forward

Pooling = Literal["mean", "cls"]

_MODULES = "modules.json"
_POOLING_FOLDER = "1_Pooling"
_SETTINGS = ("sentence_bert_config.json", "config_sentence_transformers.json")
_POOLINGS: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
}
_SAVE_ANEW = "docaudit reads a Transformer, mean or [CLS] pooling and normalisation, as most sentence embedders are"


@dataclass(frozen=True)
class Reading:
    """How an embedder turns a text into a vector.

    Attributes:
        pooling: the mean of the hidden states of all tokens, special ones included, or the state of
            the first token.
        normalised: whether vectors are scaled to length 1.
        lowered: whether texts are put into lower case before they are cut into tokens.
        max_tokens: the longest text, special tokens included; what comes after is cut off, as
            sentence-transformers do.
    """

    pooling: Pooling
    normalised: bool
    lowered: bool
    max_tokens: int


def reading_of(folder: Path, longest: int) -> Reading:
    """The settings by which the embedder in a folder reads.

    Args:
        folder: of sentence-transformers, or a bare checkpoint.
        longest: tokens that model and tokenizer take.

    Raises:
        TargetError: it pools in another way than by mean or [CLS], or its settings cannot be read.
    """
    pooling, normalised = _pooling(folder)
    settings, own = (_object(folder / name) for name in _SETTINGS)
    if own.get("default_prompt_name") is not None:
        raise TargetError(
            f"{folder}: the embedder puts a prompt of its own before texts", _SAVE_ANEW
        )
    limit = settings.get("max_seq_length")
    if limit is not None and (not isinstance(limit, int) or limit < 3):
        raise TargetError(
            f"{folder / _SETTINGS[0]}: max_seq_length is {limit!r}", "it must be a number of tokens"
        )
    lowered = settings.get("do_lower_case") is True
    return Reading(pooling, normalised, lowered, min(longest, limit or longest))


def _pooling(folder: Path) -> tuple[Pooling, bool]:
    """How vectors are pooled, and whether they are normalised."""
    modules = _modules(folder)
    file = pooling_file(folder)
    normalised = modules is None or any(kind == "Normalize" for kind, _ in modules)
    if file is None:
        return "mean", normalised
    settings = _object(folder / file)
    modes = _modes_in(settings)
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise TargetError(f"{folder / file}: pools by {', '.join(modes) or 'nothing'}", _SAVE_ANEW)
    return _POOLINGS[modes[0]], normalised


def _modes_in(settings: dict[str, Any]) -> list[str]:
    """List the ways of pooling that settings name, in their old form."""
    modes = []
    for name, chosen in settings.items():
        if name.startswith("pooling_mode_") and chosen is True:
            modes.append(name)
    mode = settings.get("pooling_mode")
    if mode == "cls":
        modes.append("pooling_mode_cls_token")
    elif mode is not None:
        modes.append(f"pooling_mode_{mode}_tokens")
    return modes


def pooling_file(folder: Path) -> str | None:
    """The pooling module's settings, by path within the folder.

    None when nothing says how the checkpoint pools.

    Raises:
        TargetError: the file is missing or lies elsewhere, or see `reading_of`.
    """
    modules = _modules(folder)
    if modules is None:
        file = f"{_POOLING_FOLDER}/config.json"
        if not (folder / file).is_file():
            return None
    else:
        file = f"{modules[1][1]}/config.json"
    path = folder / file
    if not path.is_file():
        raise TargetError(f"{folder}: no {file}", "save the whole embedder")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise TargetError(
            f"{folder}: {file} leads out of the checkpoint's folder", "copy the files themselves"
        )
    return file


def _modules(folder: Path) -> list[tuple[str, str]] | None:
    """Kind and folder of each module that sentence-transformers would run, in order.

    None when the folder names none.

    Raises:
        TargetError: they are not an encoder in the folder itself, a pooling, and perhaps a
            normalisation.
    """
    path = folder / _MODULES
    if not path.is_file():
        return None
    listed = _json(path)
    try:
        modules = [
            (str(module["type"]).rpartition(".")[2], str(module["path"])) for module in listed
        ]
    except (KeyError, TypeError):
        raise TargetError(f"{path}: not a list of modules") from None
    kinds = [kind for kind, _ in modules]
    if (
        kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
        or modules[0][1]
    ):
        raise TargetError(f"{path}: modules {', '.join(kinds) or 'none'}", _SAVE_ANEW)
    return modules


def _object(path: Path) -> dict[str, Any]:
    """A file of settings; empty when there is none."""
    settings = _json(path) if path.is_file() else {}
    if not isinstance(settings, dict):
        raise TargetError(f"{path}: not a JSON object")
    return settings


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise TargetError(f"{path}: not readable as JSON") from None


TASK = "sentence embedding"
ENCODERS = {
    # `base_model` of a bare encoder is the encoder itself.
    kind: Family(name, "base_model", {}, None, counts_from_padding=counts)
    for kind, name, counts in (
        ("bert", "BERT", False),
        ("distilbert", "DistilBERT", False),
        ("mpnet", "MPNet", True),
        ("roberta", "RoBERTa", True),
        ("xlm-roberta", "XLM-RoBERTa", True),
    )
}
"""The encoders that most sentence embedders are made of, by `model_type`."""
_SMALLEST_NORM = 1e-12
_TRAINED_TOGETHER = 4
"""Texts of one pass in training (ours: of a few tried on two CPU cores the fastest on contexts of
TAB)."""


class EmbedderTarget:
    """A loaded sentence embedder.

    Args:
        model: the bare encoder, loaded; put into evaluation mode here.
        tokenizer: its fast tokenizer.
        reading: how it reads.
        card: what it is.
        batch_tokens: padded tokens a forward pass may hold; None: what suits the device. Memory
            depends on it, answers do not.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        reading: Reading,
        card: TargetCard,
        batch_tokens: int | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.reading = reading
        self.card = card
        family = ENCODERS[model.config.model_type]
        self._pad_id = (
            model.config.pad_token_id if family.counts_from_padding else tokenizer.pad_token_id
        )
        self.forward = Forward(
            model, family, self._pad_id, card.device, batch_tokens or BATCH_TOKENS[card.device]
        )

    def embed(self, distinct: Sequence[str]) -> list[Any]:
        """The embedding of each text: (n_dimensions,); of unit length where the model says so."""
        texts = self._read(distinct)
        answers: list[Any] = [None] * len(texts)
        with torch.inference_mode():
            for rows, states in self.forward.hidden(
                [len(text.ids) for text in texts], texts.__getitem__
            ):
                own = states.cpu().double()[: len(rows)]
                vectors = self._pooled(own, [len(texts[row].ids) for row in rows]).numpy()
                for row, vector in zip(rows, vectors, strict=True):
                    answers[row] = vector
        return answers

    def vectors(self, texts: Sequence[str]) -> torch.Tensor:
        """The embeddings of some texts, (n_texts, n_dimensions), float32.

        Differentiable, for training.

        Texts of about one length share a pass: one long text would pad all others to its length.
        """
        pages = self._read(texts)
        order = sorted(range(len(pages)), key=lambda row: len(pages[row].ids))
        parts = [
            order[start : start + _TRAINED_TOGETHER]
            for start in range(0, len(order), _TRAINED_TOGETHER)
        ]
        vectors = torch.cat([self._differentiable([pages[row] for row in part]) for part in parts])
        return vectors[torch.from_numpy(np.argsort(order)).to(vectors.device)]

    def _differentiable(self, pages: Sequence[Encoding]) -> torch.Tensor:
        ids = np.full((len(pages), max(len(page.ids) for page in pages)), self._pad_id, np.int64)
        for row, page in zip(ids, pages, strict=True):
            row[: len(page.ids)] = page.ids
        lengths = [len(page.ids) for page in pages]
        mask = (np.arange(ids.shape[1]) < np.array(lengths)[:, None]).astype(np.int64)
        inputs = self.forward.family.inputs(ids, mask, np.zeros((*ids.shape, 4)), self.card.device)
        return self._pooled(self.model(**inputs).last_hidden_state, lengths)

    def _read(self, texts: Sequence[str]) -> list[Encoding]:
        if not texts:
            return []
        own = [text.lower() for text in texts] if self.reading.lowered else list(texts)
        encoded = self.tokenizer(
            own, padding=False, truncation=True, max_length=self.reading.max_tokens
        )
        return [self._page(np.array(ids, np.int64)) for ids in encoded["input_ids"]]

    def _page(self, ids: np.ndarray[Any, np.dtype[np.int64]]) -> Encoding:
        """A text as `Forward` takes it: a page without layout and labels.

        Nothing in it is ever masked.
        """
        return Encoding(
            ids,
            np.zeros((len(ids), 4)),
            np.full(len(ids), -1, np.int64),
            None,
            mask_id=-1,
            unknown_id=-1,
        )

    def _pooled(self, states: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """One vector a row: each from the states of the row's own tokens alone."""
        if self.reading.pooling == "cls":
            vectors = states[:, 0]
        else:
            vectors = torch.stack(
                [row[:length].mean(dim=0) for row, length in zip(states, lengths, strict=True)]
            )
        if not self.reading.normalised:
            return vectors
        return torch.nn.functional.normalize(vectors, dim=1, eps=_SMALLEST_NORM)


def load_embedder(
    folder: AnyFolder, device: str = "cpu", batch_tokens: int | None = None
) -> EmbedderTarget:
    """Load a sentence embedder; it computes in float32, whatever its weights are stored in.

    Args:
        folder: of sentence-transformers, or a Hugging Face checkpoint of one of `ENCODERS`, on this
            machine.
        device: "cpu", "cuda" or "mps".
        batch_tokens: see `EmbedderTarget`.

    Raises:
        TargetError: the folder is no such checkpoint, would run code, lacks weights, or pools in
            another way.
    """
    folder = open_checkpoint(folder)
    kind = folder.config.get("model_type")
    if kind not in ENCODERS:
        raise TargetError(
            f"{folder}: {kind!r} is no encoder of sentences that docaudit knows",
            f"it knows {', '.join(family.name for family in ENCODERS.values())}",
        )
    model = _encoder(folder)
    tokenizer = open_tokenizer(folder, ("pad", "unk"))
    check_vocabulary(folder, tokenizer, model.config.vocab_size)
    reading = reading_of(folder.path, _longest(model.config, tokenizer))
    family = ENCODERS[model.config.model_type]
    card = folder.card(
        model,
        family=family.name,
        task=TASK,
        words=TASK,
        vocabulary=len(tokenizer),
        max_tokens=reading.max_tokens,
        device=device,
    )
    # The pooling module's file lies in a folder of its own, which the checkpoint's sha256 leaves
    # out.
    card = replace(card, sha256=hashlib.sha256(f"{card.sha256} {reading}".encode()).hexdigest())
    return EmbedderTarget(place(model, device), tokenizer, reading, card, batch_tokens)


def _encoder(folder: CheckpointFolder) -> Any:
    """The bare encoder in float32.

    Only a pooling layer, which no embedder here uses, may be missing.
    """
    model, missing = load_model(folder, transformers.AutoModel)
    missing = [name for name in missing if not name.startswith("pooler.")]
    if missing:
        raise TargetError(
            f"{folder}: the weights of {len(missing)} parameters are missing, the first is {missing[0]}",
            "save the whole embedder",
        )
    broken = not_finite(model)
    if broken:
        raise TargetError(
            f"{folder}: {len(broken)} parameters hold numbers that are not finite, first {broken[0]}"
        )
    return model


def _longest(config: Any, tokenizer: Any) -> int:
    """The longest text that model and tokenizer take, special tokens included."""
    limit = tokenizer.model_max_length
    n_positions = ENCODERS[config.model_type].n_positions(config)
    return min(longest_row(n_positions), limit if isinstance(limit, int) else n_positions)


def with_model(embedder: EmbedderTarget, model: Any, name: str) -> EmbedderTarget:
    """The same embedder with other weights.

    Args:
        embedder: what it was.
        model: an encoder of the same shape, on the same device.
        name: what its card calls it.
    """
    digest = hashlib.sha256()
    for key, weights in model.state_dict().items():
        digest.update(key.encode() + b"\0" + weights.detach().cpu().numpy().tobytes())
    card = replace(embedder.card, name=name, sha256=digest.hexdigest())
    return EmbedderTarget(
        model, embedder.tokenizer, embedder.reading, card, embedder.forward.batch.size
    )
