"""What is drawn once a process: report and revealed report, and the reports of several scans, hold the same figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import CodeType
from typing import Any, ParamSpec

import jinja2
from jinja2.bccache import Bucket

P = ParamSpec("P")
MOST = 64
"""Figures that are kept (chosen here): those of a report with every attack, a few megabytes."""
_figures: dict[str, str] = {}


def drawn_once(draw: Callable[P, str]) -> Callable[P, str]:
    """Keep what a function of plain data has drawn; the same data again give the same text without drawing.

    Arguments are compared by their `repr`, which shows dataclasses, texts and numbers completely.
    """

    @wraps(draw)
    def look_up(*args: P.args, **kwargs: P.kwargs) -> str:
        key = f"{draw.__qualname__} {args!r} {kwargs!r}"
        if key not in _figures:
            drawn = draw(*args, **kwargs)
            while len(_figures) >= MOST:
                del _figures[next(iter(_figures))]
            _figures[key] = drawn
        return _figures[key]

    return look_up


def forget() -> None:
    """Have every figure drawn anew."""
    _figures.clear()


class CompiledTemplates(jinja2.BytecodeCache):
    """Compiled templates in memory, for every environment of the process; a changed source is compiled again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give a template's code where it was compiled from the same source."""
        code: Any = self._kept.get((bucket.key, bucket.checksum))
        bucket.code = code

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template's code."""
        assert bucket.code is not None
        self._kept[bucket.key, bucket.checksum] = bucket.code
