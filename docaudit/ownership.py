"""Find out whether the package `audit` is docaudit's own: another distribution may bring one of that name."""

from __future__ import annotations

PROJECT = "docaudit"


def refuse_other_audit() -> None:
    """Refuse a package `audit` of somebody else, and name where it comes from.

    Raises:
        ImportError: it is in the place of docaudit's.
    """
    import audit

    if getattr(audit, "PROJECT", None) == PROJECT:
        return
    # Reads the metadata of every installed package.
    from importlib.metadata import packages_distributions

    owners = sorted({*packages_distributions().get("audit", [])} - {PROJECT})
    way_out = "remove it from the Python path"
    if owners:
        remove = f"pip uninstall {' '.join(owners)}"
        way_out = f"{remove}, then pip install --force-reinstall --no-deps {PROJECT}"
    raise ImportError(f"the package audit at {audit.__file__} is not docaudit's: {way_out}")
