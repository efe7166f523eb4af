"""Shipped folders such as `templates/`: in the package when installed from a wheel, next to it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder of shipped files called `name` ("templates", "policies" or "sample_models").

    Raises:
        FileNotFoundError: the installation lacks it.
    """
    for path in (_PACKAGE / name, _PACKAGE.parent / name):
        if path.is_dir():
            return path
    raise FileNotFoundError(f"docaudit's {name}/ folder is missing from this installation: install it again")
