"""The report: a record and a verdict, drawn as HTML and PDF. It computes nothing and knows no model."""

from __future__ import annotations

from audit.report.files import write
from audit.report.revealed import write_revealed

__all__ = ["write", "write_revealed"]
