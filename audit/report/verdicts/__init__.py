"""Machine formats of a verdict: a module each, all drawn from the one `Verdict`, none with a criterion of its own.

json         verdict.schema.json
markdown     the summary of a job, a comment
junit        JUnit XML: a test suite an attack, a test case a limit
sarif        SARIF 2.1.0: open limits at their line of the policy
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from audit.report.verdicts.judged import Judged

__all__ = ["FORMATS", "Judged", "render"]

FORMATS = {
    "json": "document:as_json",
    "markdown": "markdown:as_markdown",
    "junit": "junit:as_junit",
    "sarif": "sarif:as_sarif",
}
"""The function that draws a format, by the format's name; its module is imported when it is asked for."""


def render(name: str, judged: Judged) -> str:
    """Draw a verdict in a format.

    Raises:
        RenderError: the format cannot hold this verdict, see `sarif.as_sarif`.
    """
    module, _, function = FORMATS[name].partition(":")
    draw: Callable[[Judged], str] = getattr(import_module(f"{__name__}.{module}"), function)
    return draw(judged)
