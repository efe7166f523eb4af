"""Parts of an installation: `pip install docaudit` brings the light one, extras add the rest.

The light part gates, compares, reports and verifies records. It opens no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from audit.errors import UsageError, listed

SCAN = "scan"
"""The extra that opens, attacks and trains models, and draws the PDF."""
DIFF = "diff"
"""The extra that compares the values of two scans unit by unit."""
EXTRA_OF: Mapping[str, str] = {
    "accelerate": SCAN,
    "filelock": SCAN,
    "huggingface_hub": SCAN,
    "opacus": SCAN,
    "safetensors": SCAN,
    "scipy": DIFF,
    "sklearn": SCAN,
    "tokenizers": SCAN,
    "torch": SCAN,
    "transformers": SCAN,
    "weasyprint": SCAN,
}
"""The smallest extra that brings a module which the light part lacks."""
_MODEL_MODULES = ("torch", "transformers")


def pip_install(extra: str) -> str:
    """Return the command that adds an extra."""
    return f"pip install 'docaudit[{extra}]'"


def missing_module(module: str) -> UsageError | None:
    """Describe a module that an extra would bring; None for a module of no extra."""
    extra = EXTRA_OF.get(module.partition(".")[0])
    return None if extra is None else _lacking((module,), extra)


def require_models() -> None:
    """Refuse to go on where docaudit cannot open a model; nothing is imported.

    Raises:
        UsageError: the extra `scan` is not installed.
    """
    absent = [module for module in _MODEL_MODULES if find_spec(module) is None]
    if absent:
        raise _lacking(absent, SCAN)


def _lacking(modules: Sequence[str], extra: str) -> UsageError:
    """Name modules that are not installed, and the command that adds them."""
    names = listed(modules, "and")
    return UsageError(
        f"this needs {names}, which the light docaudit leaves out", pip_install(extra)
    )
