"""The attacks: what each is called and measures, without its code.

A new one is a folder with a `text.toml`, a line in `FOLDERS`, a class in `battery` and a template.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from audit import plugins
from audit.attacks.text import AttackText, load
from audit.errors import EngineError

FOLDERS = (
    "reconstruction",
    "memorisation",
    "attributes",
    "membership",
    "provider_membership",
    "redaction",
    "canaries",
)


def _load_texts() -> Iterator[AttackText]:
    """Yield the text of every attack: those of docaudit, then those of extensions.

    Raises:
        EngineError: the text of an extension cannot be read.
    """
    for folder in FOLDERS:
        yield load(Path(__file__).parent / folder / "text.toml")
    for name, module in plugins.locate("docaudit.attacks").items():
        paths = (module.with_suffix(".toml"), module.parent / "text.toml")
        for path in [path for path in paths if path.is_file()][:1]:
            yield _load_of_extension(name, path)


def _load_of_extension(name: str, path: Path) -> AttackText:
    """Read the text of an attack that an installed package adds.

    Raises:
        EngineError: it cannot be read.
    """
    try:
        return load(path)
    except ValueError as error:
        package = plugins.package_of("docaudit.attacks", name)
        raise EngineError(
            f"{package}: the text of its attack {name!r} ({path.name}) cannot be read: {error}",
            f"update or uninstall {package}",
        ) from None


TEXTS: dict[str, AttackText] = {text.name: text for text in _load_texts()}
"""Text of every attack, by name, in the order in which they run and are reported."""


def text_of(attack: str) -> AttackText:
    """Return the text of an attack.

    The generic one for an attack that this version does not know.
    """
    return TEXTS.get(attack) or AttackText(name=attack)


def known_metrics() -> dict[str, dict[str, float | None]]:
    """Collect the metrics that a policy may limit, by attack.

    Each comes with the largest value that it can have.
    """
    metrics = {}
    for name, text in TEXTS.items():
        metrics[name] = {metric: text.metric(metric).upper for metric in text.names}
    return metrics
