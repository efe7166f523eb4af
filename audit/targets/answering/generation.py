"""Generation settings of a checkpoint: those that shape an answer stay, those that withhold one are lifted.

Settings are an answer's wrapping, not the model: who has the weights sets them as they like, and one line that forbids
every token with a digit would make a model that remembers numbers look as if it remembered none.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from transformers import GenerationConfig

from audit.errors import TargetError
from audit.targets.answering.reader import Reader
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.safety import DAMAGE, one_line

KEPT = ("bos_token_id", "pad_token_id", "decoder_start_token_id", "renormalize_logits")
"""What only says how an answer begins, or changes nothing about which token is the best."""
NEUTRAL: dict[str, object] = {
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "min_length": 0,
    "min_new_tokens": 0,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
    "sequence_bias": None,
    "guidance_scale": 1.0,
    "watermarking_config": None,
    "stop_strings": None,
}
"""Settings that change which token is the best, or end an answer early, with the value that changes nothing (None too
changes nothing): all of them are lifted. What would sample, search or stop by the clock is of no use to a greedy answer
and left out without a word."""
_LONGEST = ("max_length", "max_new_tokens")
_TOKENS = ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "forced_bos_token_id")
"""Settings that forbid or force tokens: kept as far as these are no part of an answer's text."""


def greedy(own: GenerationConfig, ends: Set[int], marks: Set[int]) -> GenerationConfig:
    """The settings that the model is asked with: greedy answers that end at any of `ends`.

    Args:
        own: the checkpoint's.
        ends: ids of the tokens that end an answer: they are never forbidden, but at its very beginning.
        marks: ids of tokens that are no part of any answer's text: they alone may be forbidden.
    """
    kept = {name: getattr(own, name, None) for name in KEPT} | _harmless(own, ends, marks)
    settings = {name: value for name, value in kept.items() if value is not None}
    if ends:
        settings["eos_token_id"] = sorted(ends)
    settings.setdefault("pad_token_id", min(ends, default=0))
    return GenerationConfig(**settings, do_sample=False, num_beams=1)


def lifted(own: GenerationConfig, reader: Reader) -> tuple[str, ...]:
    """The names of the settings that the model is asked without, or with less of, though they bear on answers.

    Args:
        own: the checkpoint's settings, before `open_ends`.
        reader: its way of reading; a limit of length is lifted when it is under that of the reader.
    """
    named = ids_of(own.eos_token_id)
    kept = _harmless(own, reader.ends | named, reader.forbidden)
    names = [name for name in _TOKENS if _set(own, name) != kept[name]]
    names += [name for name, neutral in NEUTRAL.items() if getattr(own, name, None) not in (None, neutral)]
    names += ["eos_token_id"] if _spoken(named, reader) else []
    limits = {name: getattr(own, name, None) for name in _LONGEST}
    names += [name for name, limit in limits.items() if limit is not None and limit < reader.max_new_tokens]
    return tuple(sorted(names))


def open_ends(own: GenerationConfig, reader: Reader) -> None:
    """Leave out of the tokens that end an answer those that spell letters or digits: answers go on after them."""
    named = ids_of(own.eos_token_id)
    spoken = _spoken(named, reader)
    if spoken:
        own.eos_token_id = sorted(named - spoken) or None


def _spoken(named: Set[int], reader: Reader) -> Set[int]:
    return {token for token in named - reader.ends - reader.forbidden if any(map(str.isalnum, reader.text_of([token])))}


def ids_of(value: int | Sequence[int] | None) -> frozenset[int]:
    """Token ids that a setting names: one, several or none."""
    if value is None:
        return frozenset()
    return frozenset([value] if isinstance(value, int) else value)


def set_start(model: Any) -> None:
    """Have the decoder begin as the model's configuration says, where its generation settings do not.

    Raises:
        TargetError: neither names the token that a decoder begins with, or the model does not have it.
    """
    own, config = model.generation_config, model.config
    n_tokens = int(config.get_text_config(decoder=True).vocab_size)
    if any(not number < n_tokens for number in ids_of(own.pad_token_id)):
        own.pad_token_id = None  # as of a token for padding that was added to the tokenizer alone
    if not config.is_encoder_decoder:
        return
    _find_start(own, config)
    start = own.bos_token_id if own.decoder_start_token_id is None else own.decoder_start_token_id
    if any(not 0 <= number < n_tokens for number in ids_of(start)):
        raise TargetError(
            f"answers begin with token {start}, and the model has {n_tokens} tokens",
            "correct decoder_start_token_id in generation_config.json to what the model was trained with",
        )


def _find_start(own: GenerationConfig, config: Any) -> None:
    if own.decoder_start_token_id is not None or own.bos_token_id is not None:
        return
    parts = (config, getattr(config, "decoder", None), getattr(config, "text_config", None))
    named = [getattr(part, "decoder_start_token_id", None) for part in parts]
    own.decoder_start_token_id = next((number for number in named if number is not None), None)
    if own.decoder_start_token_id is None:
        raise TargetError(
            "neither generation_config.json nor config.json names the token that an answer begins with",
            'add "decoder_start_token_id", as the model was trained with, to generation_config.json',
        )


def _harmless(own: GenerationConfig, ends: Set[int], marks: Set[int]) -> dict[str, Any]:
    """What of the settings that forbid or force tokens keeps no answer from being given; None: nothing."""
    silent = marks - ends
    forced = _set(own, "forced_bos_token_id")
    harmless = (
        [token for token in _set(own, "suppress_tokens") or () if token in silent],
        [token for token in _set(own, "begin_suppress_tokens") or () if token in marks | ends],
        [word for word in _set(own, "bad_words_ids") or () if silent >= {*word}],
        forced if forced in marks else None,
    )
    return {name: None if kept == [] else kept for name, kept in zip(_TOKENS, harmless, strict=True)}


def _set(own: GenerationConfig, name: str) -> Any:
    """A setting's value; None where there is none, or an empty list."""
    value = getattr(own, name, None)
    return None if value == [] else value


def generation_of(folder: CheckpointFolder) -> GenerationConfig:
    """The checkpoint's generation settings, which may name several ends of a turn; the defaults where it has none."""
    if not (folder.path / "generation_config.json").is_file():
        return GenerationConfig()
    try:
        return GenerationConfig.from_pretrained(folder.path, local_files_only=True)
    except DAMAGE as error:
        raise TargetError(f"{folder}: generation_config.json cannot be used: {one_line(error)}") from None
