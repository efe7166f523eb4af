"""What `docaudit fix` can do for a model behind a server, whose weights nobody has here."""

from __future__ import annotations

from audit.corpus import manifest
from audit.defenses.interface import Defense
from audit.defenses.remedy import Remedy
from audit.errors import UsageError, is_address
from audit.extensions.countermeasures.interface import TrainingDefense
from audit.report.commands import Commands
from audit.report.labels import LABELS
from audit.workflows.options import ScanOptions


def lacks_weights(options: ScanOptions) -> bool:
    """Test whether a scan is of a served model, and nobody named what it was fine-tuned from."""
    if not is_address(options.model_dir):
        return False
    if options.start is not None:
        return False
    if options.references.get("pretrained"):
        return False
    return manifest.load(options.data_dir).manifest.references.pretrained is None


def may_lift(remedy: Remedy, options: ScanOptions, *, is_weightless: bool) -> bool:
    """Test whether a remedy is tried on its own, as all are that need no weights of a server.

    Args:
        remedy: remedy that answers a violation.
        options: options of the scan.
        is_weightless: see `lacks_weights`.
    """
    if not remedy.lifts:
        return False
    if is_address(options.model_dir):
        if remedy.is_a_setting:
            return True
        if is_weightless:
            return False
    return not remedy.beside_only


def refuse_training(defense: Defense, options: ScanOptions, commands: Commands) -> None:
    """Refuse to train a model of which there are no weights.

    Raises:
        UsageError: it is such, and the countermeasure trains it.
    """
    if not isinstance(defense, TrainingDefense):
        return
    if lacks_weights(options):
        raise UsageError(
            f"{defense.name} trains weights, and a server gives none", way_out(commands)
        )


def way_out(commands: Commands) -> str:
    """Say what the owner of a served model does for its weights."""
    return f"audit the checkpoint behind the server, and fix that: {commands.scan_checkpoint()}"


def closing_line(commands: Commands) -> str:
    """Say that what changes questions leaves the weights as they are."""
    return LABELS["actions"]["weights_stay"].format(command=commands.scan_checkpoint())
