"""Controls of confounded attacks: bounds on what the documents alone can explain (methods.md#blind-baseline)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from audit.attacks.blind_baseline import Blind
from audit.measurements import Bound, Control, Estimate, Measurement


def blind_controls(blind: Blind, areas: Iterable[str], shares: Iterable[str] = ()) -> tuple[Control, ...]:
    """Bound what the documents explain by the blind check; empty where nothing is in doubt, or no check was made.

    Whoever ranks units with an area A finds no share, and no mean of values in [0, 1], that differs by more than
    2 A - 1 between the sides: with a concave ROC curve Youden's index is at most that.

    Args:
        blind: the check of the documents that are compared.
        areas: measurements with a chance of 0.5: areas, balanced accuracies.
        shares: differences between the two sides.
    """
    if not blind.in_doubt or not isinstance(blind.estimate, Estimate):
        return ()
    kinds = ((tuple(areas), 1.0), (tuple(shares), 2.0))
    return tuple(Control("blind", names, _centred(blind.estimate, 0.5, scale)) for names, scale in kinds if names)


def reference_control(measurements: Sequence[str], measured: Measurement) -> tuple[Control, ...]:
    """Bound what the documents explain by a model that saw neither side; empty where it could not be measured.

    Args:
        measurements: names of the target's measurements.
        measured: the same of the reference.
    """
    if not isinstance(measured, Estimate):
        return ()
    return (Control("reference", tuple(measurements), _centred(measured, 0.5 if measured.is_area else 0.0, 1.0)),)


def _centred(measured: Estimate, null: float, scale: float) -> tuple[Bound, ...]:
    """Return bounds on the distance from a null, times `scale`."""
    return tuple(
        Bound(bound.alpha, scale * (bound.lower - null), scale * (bound.upper - null)) for bound in measured.bounds
    )
