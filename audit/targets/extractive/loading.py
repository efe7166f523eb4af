"""Loading a checkpoint that points at answers, as safely as `audit.targets.encoders.loading` does for encoders."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_DOCUMENT_QUESTION_ANSWERING_MAPPING_NAMES,
    MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
)

from audit.errors import TargetError
from audit.targets.answering.layout import PageImages
from audit.targets.answering.processed import VOCABULARIES, image_processor_of
from audit.targets.answering.reader import Sample
from audit.targets.answering.rows import trial_sample
from audit.targets.batching import longest_row
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.safety import DAMAGE, method_of, one_line
from audit.targets.checkpoint.tokenizer import check_vocabulary, open_tokenizer
from audit.targets.checkpoint.weights import load_model, load_whole_model, place, score_exactly
from audit.targets.extractive.spans import Inputs, SpanReader, head_of
from audit.targets.extractive.target import ExtractiveTarget
from audit.targets.interface import Answer
from audit.targets.table import TABLE

TASK = "extractive-qa"
HEADS: dict[str, str] = {
    **MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    **MODEL_FOR_DOCUMENT_QUESTION_ANSWERING_MAPPING_NAMES,
}
"""The class of a model with the head, by the `model_type` of its configuration: all that transformers has."""
_POSITIONS = ("max_position_embeddings", "n_positions", "max_encoder_position_embeddings")
_USUAL_TOKENS = 512
"""The longest row of a model that names none (ours)."""
_MIN_TOKENS = 16


def is_extractive(folder: AnyFolder) -> bool:
    """True for a checkpoint with a head that points at answers.

    Raises:
        TargetError: the folder is no checkpoint, or is unsafe to load.
    """
    config = open_checkpoint(folder).config
    named = config.get("architectures")
    return isinstance(named, list) and HEADS.get(str(config.get("model_type"))) in named


def may_point(folder: AnyFolder) -> bool:
    """True for a checkpoint of a family that transformers has such a head for, whatever its own head.

    Raises:
        TargetError: the folder is no checkpoint, or is unsafe to load.
    """
    return str(open_checkpoint(folder).config.get("model_type")) in HEADS


def load_extractive(
    folder: AnyFolder, *, device: str = "cpu", batch_rows: int | None = None, fresh_head: int | None = None
) -> ExtractiveTarget:
    """Load a checkpoint as a target that points at answers.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        device: "cpu", "cuda" or "mps".
        batch_rows: see `ExtractiveTarget`.
        fresh_head: the seed of a head that the folder lacks, to train it; None: a checkpoint without one is refused.

    Raises:
        TargetError: the folder has no such head, cannot be read by docaudit, would run code, or lacks weights, a
            tokenizer or the processor of the images that it sees.
    """
    folder = open_checkpoint(folder)
    kind = str(folder.config.get("model_type"))
    model_class = _class_of(folder, kind)
    if fresh_head is None:
        model = _with_its_head(folder, model_class)
    else:
        model = _with_fresh_head(folder, model_class, fresh_head)
    tokenizer = open_tokenizer(folder, ("pad",), VOCABULARIES)
    check_vocabulary(folder, tokenizer, model.config.vocab_size)
    inputs = _inputs_of(model, tokenizer)
    images = _images_of(folder, model.config) if inputs.n_appended else None
    reader = SpanReader(tokenizer, _longest(model, tokenizer, inputs.n_appended), inputs, images)
    name = model_class.__name__.partition("For")[0]
    card = folder.card(
        model,
        family=name,
        task=TASK,
        architecture=f"{name}, extractive question answering",
        vocabulary=len(tokenizer),
        max_tokens=reader.max_tokens,
        device=device,
    )
    card = replace(card, resolution=None if images is None else images.size)
    target = ExtractiveTarget(place(model, device), reader, card, batch_rows)
    _try(target, folder)
    return target


def _class_of(folder: CheckpointFolder, kind: str) -> Any:
    if kind in TABLE["extractive"]["unreadable"]:
        why = TABLE["extractive"]["unreadable"][kind]
        raise TargetError(f"{folder}: {HEADS[kind]} cannot be audited: {why}")
    if kind not in HEADS:
        raise TargetError(
            f"{folder}: {kind!r} is no model that points at answers",
            "docaudit knows all that transformers can load as AutoModelForQuestionAnswering",
        )
    return getattr(transformers, HEADS[kind])


def _with_its_head(folder: CheckpointFolder, model_class: Any) -> Any:
    """The whole model; the layer that gives beginnings and ends in float32."""
    model = load_whole_model(folder, model_class)
    if method_of(folder.config) is None:
        score_exactly(head_of(model))
    return model


def _with_fresh_head(folder: CheckpointFolder, model_class: Any, seed: int) -> Any:
    """The model; only its head, and a pooler that nothing reads, may be missing in its files."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, missing = load_model(folder, model_class)
    inner = f"{model.base_model_prefix}."
    lost = [name for name in missing if name.startswith(inner) and not name.startswith(f"{inner}pooler.")]
    if lost:
        raise TargetError(f"{folder}: the encoder lacks {len(lost)} parameters, the first is {lost[0]}")
    return model


def _inputs_of(model: Any, tokenizer: Any) -> Inputs:
    """What the model takes, by the names of its own arguments."""
    takes = inspect.signature(model.forward).parameters
    config = model.config
    # Where positions follow from it, padding is what the model takes for it.
    pad_id = tokenizer.pad_token_id if _counted_from(model) is None else config.pad_token_id
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


def _counted_from(model: Any) -> int | None:
    """The padding that positions are counted from, as in RoBERTa; None where they begin at 0."""
    tables = [
        layer.padding_idx
        for name, layer in model.named_modules()
        if name.endswith(".position_embeddings") and isinstance(layer, torch.nn.Embedding)
    ]
    return next((padding for padding in tables if padding is not None), None)


def _longest(model: Any, tokenizer: Any, n_appended: int) -> int:
    """The longest row that model and tokenizer take, special tokens included."""
    named = [getattr(model.config, name, None) for name in _POSITIONS]
    positions = next((int(n) for n in named if isinstance(n, int) and n > 0), _USUAL_TOKENS)
    padding = _counted_from(model)
    limit = tokenizer.model_max_length
    longest = longest_row(positions - (0 if padding is None else padding + 1), n_appended)
    longest = min(longest, limit) if isinstance(limit, int) else longest
    if longest < _MIN_TOKENS:
        raise TargetError(
            f"the checkpoint takes rows of at most {max(0, longest)} tokens",
            "correct max_position_embeddings in config.json or model_max_length in tokenizer_config.json",
        )
    return longest


def _images_of(folder: CheckpointFolder, config: Any) -> PageImages:
    processor = image_processor_of(folder)
    # The words are the data set's own.
    if hasattr(processor, "apply_ocr"):
        processor.apply_ocr = False
    return PageImages(processor, (config.input_size, config.input_size))


def _try(target: ExtractiveTarget, folder: CheckpointFolder) -> None:
    """Ask one question, so that a checkpoint that cannot be run is found now."""
    sample: Sample = trial_sample()
    queries: Sequence[Answer] = [Answer(sample.view, sample.question)]
    try:
        target.ask(queries)
    except DAMAGE as error:
        raise TargetError(
            f"{folder}: it cannot be asked about a page: {one_line(error)}",
            "docaudit reads models that take token ids, boxes and an image, and give start and end logits",
        ) from None
