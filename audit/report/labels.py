"""Words for names in records and verdicts, and for measures of usefulness."""

import tomllib
from pathlib import Path

from audit.attacks.text import AttackText, Metric

_TABLES = tomllib.loads((Path(__file__).parent / "labels.toml").read_text(encoding="utf-8"))
UTILITY = AttackText(
    metrics={name: Metric(**metric) for name, metric in _TABLES.pop("utility").items()}
)
"""Labels of the measurements of what the model is good for."""
LABELS: dict[str, dict[str, str]] = _TABLES
"""Words for names in records and verdicts: by kind of name, then by name."""
