"""Guards around transformers and its libraries: the errors that damaged files raise, and log lines kept back."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

DAMAGE = (
    OSError,
    ValueError,
    TypeError,
    RuntimeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    ImportError,
    StrictDataclassError,
    SafetensorError,
)
"""What transformers and its libraries raise on damaged files; none of them documents a closed list."""


def one_line(error: BaseException) -> str:
    """The message of an error, on one line of at most 200 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


@contextmanager
def quiet(*, warn: bool = False) -> Iterator[None]:
    """Keep the libraries' log lines out of the user's terminal; what matters is raised as an error.

    Args:
        warn: let Python's warnings through.
    """
    loggers = [logging.getLogger(name) for name in ("transformers", "accelerate")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    with ExitStack() as stack:
        if not warn:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
