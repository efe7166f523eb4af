"""The tokenizer of a checkpoint's folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import transformers
from tokenizers import normalizers
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.pre_tokenizers import Sequence as SplitterSequence

from audit.errors import TargetError
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.safety import DAMAGE, one_line, quiet

_VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
_LENGTHS = ("padding", "truncation", "max_length", "pad_to_multiple_of", "stride")
_UNUSUAL = "\N{SNOWMAN}"
_SAVE_TOKENIZER = "save the tokenizer that the model was trained with beside it: tokenizer.save_pretrained(DIR)"


def load_tokenizer(folder: AnyFolder) -> Any:
    """The checkpoint's own fast tokenizer, for an encoder.

    Raises:
        TargetError: there is none, or it lacks [MASK], [PAD], or [UNK] where it is not one of bytes.
    """
    tokenizer = open_tokenizer(folder, ("mask", "pad"))
    of_bytes = _by_words(tokenizer.backend_tokenizer)
    if tokenizer.unk_token_id is None and not of_bytes:
        raise TargetError(f"{folder}: the tokenizer lacks the unk token", _SAVE_TOKENIZER)
    return tokenizer


def _by_words(backend: Any) -> bool:
    """Have each word spelled as one that begins; True for a tokenizer of bytes, which knows every word.

    Words come one by one here: without it each would be spelled as if it continued the one before.
    """
    splitter: Any = backend.pre_tokenizer
    if isinstance(splitter, ByteLevel):
        splitter.add_prefix_space = True
        return True
    of_bytes = isinstance(splitter, SplitterSequence) and any(isinstance(part, ByteLevel) for part in iter(splitter))
    normalizer = backend.normalizer
    if of_bytes and (normalizer is None or not normalizer.normalize_str("a").startswith(" ")):
        # Its own switch would put a space before every piece that the splitters before it cut from a word.
        before = [] if normalizer is None else [normalizer]
        backend.normalizer = normalizers.Sequence([*before, normalizers.Prepend(" ")])
    return of_bytes


def open_tokenizer(folder: AnyFolder, needed: Sequence[str], files: Sequence[str] = _VOCABULARIES) -> Any:
    """The checkpoint's own fast tokenizer.

    Args:
        folder: the checkpoint.
        needed: the special tokens it must have, such as "pad".
        files: it must lie in one of these.

    Raises:
        TargetError: there is none, or it lacks a special token.
    """
    folder = open_checkpoint(folder)
    if not any((folder.path / name).is_file() for name in files):
        # transformers would make up a tokenizer without a vocabulary.
        raise TargetError(f"{folder}: no {' or '.join(files)}", _SAVE_TOKENIZER)
    _check_convertible(folder)
    with quiet():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder.path, local_files_only=True, trust_remote_code=False, use_fast=True
            )
            # A vocabulary without its own unknown token is found out here, not at the first word that it lacks.
            if tokenizer.is_fast:
                unpadded(tokenizer).encode(_UNUSUAL)
        except Exception as error:
            # The tokenizers library raises bare `Exception`s; anything of another class goes on as a bug.
            if not (isinstance(error, DAMAGE) or type(error) is Exception):
                raise
            raise TargetError(f"{folder}: the tokenizer cannot be loaded: {one_line(error)}") from None
    lacking = [name for name in needed if getattr(tokenizer, f"{name}_token_id") is None]
    if lacking or not tokenizer.is_fast:
        what = f"lacks the {', '.join(lacking)} token" if lacking else "is not a fast tokenizer"
        raise TargetError(f"{folder}: the tokenizer {what}", _SAVE_TOKENIZER)
    return tokenizer


def unpadded(tokenizer: Any) -> Any:
    """Take from a tokenizer the padding and truncation that its files or an earlier call set.

    A few bytes of tokenizer.json or tokenizer_config.json may ask for padding of gigabytes.

    Returns:
        The inner tokenizer.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    for name in _LENGTHS:
        # A processor takes them for its calls of the tokenizer.
        tokenizer.init_kwargs.pop(name, None)
    return backend


def check_vocabulary(folder: AnyFolder, tokenizer: Any, n_tokens: int) -> None:
    """Refuse a tokenizer with tokens, or numbers of them, that the model has no embedding of.

    Raises:
        TargetError: it has some.
    """
    if len(tokenizer) > n_tokens:
        raise TargetError(f"{folder}: the tokenizer has {len(tokenizer)} tokens, the model {n_tokens}")
    # What is put around a text is numbered in a place of its own.
    around = unpadded(tokenizer).encode(_UNUSUAL).ids
    last = max([*tokenizer.get_vocab().values(), *around], default=0)
    if last >= n_tokens:
        raise TargetError(f"{folder}: a token of the tokenizer has the number {last}, the model {n_tokens} tokens")


def _check_convertible(folder: CheckpointFolder) -> None:
    """Refuse files of a slow tokenizer that no fast one can be made of.

    Raises:
        TargetError: the library that reads them is missing, or one of them is.
    """
    names = {path.name for path in folder.path.iterdir()}
    if "tokenizer.json" in names or "vocab.txt" in names:
        return
    if "vocab.json" in names and "merges.txt" not in names:
        raise TargetError(f"{folder}: vocab.json without merges.txt", _SAVE_TOKENIZER)
    if "vocab.json" not in names and find_spec("sentencepiece") is None:
        raise TargetError(
            f"{folder}: its tokenizer is a SentencePiece model without a tokenizer.json",
            "pip install 'docaudit[sentencepiece]', or save the tokenizer with save_pretrained",
        )
