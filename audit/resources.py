"""Where `templates/` and `policies/` are: inside the package when installed from a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder of shipped files called `name` ("templates" or "policies").

    Raises:
        FileNotFoundError: the installation lacks it.
    """
    for place in (_PACKAGE / name, _PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"docaudit's {name}/ folder is missing from this installation: install it again")
