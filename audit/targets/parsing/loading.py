"""Loading a checkpoint that writes a page as JSON or markup, of any family of models that answer questions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from audit.errors import TargetError
from audit.targets.answering.generation import generation_of
from audit.targets.answering.loading import known_families, load_answering
from audit.targets.answering.processed import VOCABULARIES
from audit.targets.answering.reader import Reader
from audit.targets.answering.rows import trial_sample
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.tokenizer import open_tokenizer
from audit.targets.encoders.page_images import OpenImage
from audit.targets.parsing.target import ParsingTarget, parsing_reader

LONGEST_OUTPUT = 4096
"""Tokens of the longest output where neither recipe nor checkpoint names one (ours): a densely written page."""
_POSITIONS = ("max_decoder_position_embeddings", "max_position_embeddings", "n_positions", "max_target_positions")
_OFFSET = 2
"""Positions that some decoders (RoBERTa's and its kin) count before the first token."""
_UNSET_LENGTH = 20
"""What transformers takes for the longest text where a checkpoint's settings name none."""


def load_parsing(
    folder: AnyFolder,
    *,
    device: str = "cpu",
    prompt: str | None = None,
    system: str | None = None,
    max_new_tokens: int | None = None,
    batch_rows: int | None = None,
    images: OpenImage | None = None,
) -> ParsingTarget:
    """Load a checkpoint as a target that writes pages.

    Args:
        folder: a Hugging Face checkpoint on this machine, of any family that `load_answering` knows.
        device: "cpu", "cuda" or "mps".
        prompt: what the model is given beside the page, such as "<s_cord-v2>" or an instruction; None: the token that
            its decoder begins with, for vision encoder-decoders only.
        system: see `load_answering`.
        max_new_tokens: tokens of the longest output; None: what its generation settings name, or its positions allow.
        batch_rows: see `AnsweringTarget`.
        images: see `AnsweringTarget`.

    Raises:
        TargetError: see `load_answering`; or nothing says what the model is given.
    """
    folder = open_checkpoint(folder)
    family = known_families().get(str(folder.config.get("model_type")))
    if family is not None and not family.parses:
        raise TargetError(
            f"{folder}: docaudit asks {folder.config['model_type']} questions only, and task.kind is parsing",
            'set [task] kind = "question-answering" in manifest.toml, and give documents questions',
        )
    own = _first_token(folder) if prompt is None else prompt
    target = load_answering(folder, device=device, prompt=own, system=system, task="parsing", images=images)
    tokenizer = open_tokenizer(folder, ("eos",), VOCABULARIES)
    decodes = not target.model.config.is_encoder_decoder
    room = _room(target.model.config, target.reader, decodes=decodes)
    longest = max(1, min(max_new_tokens or _named_length(folder) or LONGEST_OUTPUT, room))
    reader = parsing_reader(target.reader, tokenizer, decodes=decodes, longest=longest)
    card = replace(target.card, task="parsing", architecture=f"{target.card.family}, parsing")
    return ParsingTarget(target.model, reader, card, batch_rows, images)


def _first_token(folder: CheckpointFolder) -> str:
    """The token that a vision encoder-decoder begins with, where nothing else says what it is given."""
    config = folder.config
    if config.get("model_type") != "vision-encoder-decoder":
        raise TargetError(
            "nothing says what the parsing model is given",
            'write in manifest.toml, below [recipe], the text that it was trained with: prompt = "..."',
        )
    named = [part.get("decoder_start_token_id") for part in (config, config.get("decoder") or {})]
    start = next((number for number in named if number is not None), None)
    tokenizer = open_tokenizer(folder, ("eos",), VOCABULARIES)
    return str(tokenizer.convert_ids_to_tokens(tokenizer.eos_token_id if start is None else int(start)))


def _named_length(folder: CheckpointFolder) -> int | None:
    """The longest output that the checkpoint's generation settings name."""
    settings = generation_of(folder)
    length = settings.max_length if settings.max_length != _UNSET_LENGTH else None
    named = settings.max_new_tokens or length
    return named if isinstance(named, int) and named > 0 else None


def _room(config: Any, reader: Reader, *, decodes: bool) -> int:
    """Tokens that an output may have in the model's positions, beside the prompt."""
    text = config.get_text_config(decoder=True)
    named = [getattr(text, name, None) for name in _POSITIONS]
    positions = next((number for number in named if isinstance(number, int) and number > 0), None)
    if decodes:
        # The page, as tokens or patches, stands in the same row.
        return (positions or 2 * LONGEST_OUTPUT) // 2
    if positions is None:
        return LONGEST_OUTPUT
    prompt = reader.prompts([trial_sample()]).get("decoder_input_ids")
    return positions - _OFFSET - (0 if prompt is None else int(prompt.shape[1]))
