"""Models behind a server that strangers have, and what goes wrong with such servers.

A served model is planted: it knows the answers of its documents by heart, and reads those of
others.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.tools.strangers_sources import QUESTIONS, Page

NOTHING = "it does not say"
REFUSAL = "I'm sorry, but I can't help with that."
SLOW = 0.5
"""Seconds that a slow server takes for an answer."""
BUSY_EVERY = 10
FAILS_EVERY = 7
STOPS_AFTER = 30
SCANNED = ("memoriser", "twin")
"""Names of the models that scans audit."""
"""Questions after which a server stops, until it is started again."""
Reply = tuple[int, Any, Mapping[str, str]]
Fault = Callable[[str, Any], Reply | None]
"""Answers a request by its path and content, or leaves it to the model."""
BUSY: Reply = (429, {"error": {"message": "Rate limit reached"}}, {"Retry-After": "1"})
FAILED: Reply = (500, {"error": {"message": "Internal server error"}}, {})


def planted(pages: Sequence[Page]) -> Callable[[str], str]:
    """Return a model that knows the fields of these pages, and reads them on any other page."""
    memory = {}
    for page in pages:
        for name, question in QUESTIONS.items():
            memory[page.words[0], question] = page.value(name)

    def answer(content: str) -> str:
        """Answer a question about the text above it."""
        text, _, question = content.rpartition("\n\n")
        words = text.split()
        remembered = memory.get((words[0], question)) if words else None
        return remembered or _read(words, question)

    return answer


def _read(words: Sequence[str], question: str) -> str:
    """Return the word behind the name of the field that a question asks for."""
    for name, asked in QUESTIONS.items():
        if asked == question and f"{name}:" in words[:-1]:
            return words[words.index(f"{name}:") + 1]
    return NOTHING


@contextmanager
def serving(models: Mapping[str, Sequence[Page]], fault: Fault | None) -> Iterator[str]:
    """Serve a planted model for each name, and yield the server's address."""
    import served

    running: dict[str, Callable[[str], str]] = {}
    for name, pages in models.items():
        running[name] = planted(pages)
    with served.serve(**running) as handler:
        if fault is not None:
            handler.script = staticmethod(fault)
        yield handler.address


def slow() -> Fault:
    """Make a server that takes its time for each answer."""

    def fault(path: str, body: Any) -> Reply | None:
        """Wait, and leave the answer to the model."""
        if body is not None:
            time.sleep(SLOW)
        return None

    return fault


def busy() -> Fault:
    """Make a server that is busy now and then, and fails now and then."""
    numbers = itertools.count(1)

    def fault(path: str, body: Any) -> Reply | None:
        """Refuse some of the requests."""
        number = next(numbers)
        if number % BUSY_EVERY == 0:
            return BUSY
        if number % FAILS_EVERY == 0:
            return FAILED
        return None

    return fault


def refusing() -> Fault:
    """Make a server whose model refuses every question."""

    def fault(path: str, body: Any) -> Reply | None:
        """Refuse politely."""
        if body is None:
            return None
        choice = {"message": {"content": REFUSAL}, "finish_reason": "stop"}
        return (200, {"choices": [choice]}, {})

    return fault


def stopping() -> Fault:
    """Make a server that stops once a scan, and answers again when asked for its models."""
    n_asked: Counter[str] = Counter()
    stopped = [False]

    def fault(path: str, body: Any) -> Reply | None:
        """Fail from some question on, until a new command begins."""
        if body is None:
            stopped[0] = False
            return None
        model = str(body.get("model"))
        n_asked[model] += 1
        # Counted by model: the stop of one scan does not spare the next one.
        if model in SCANNED and n_asked[model] == STOPS_AFTER:
            stopped[0] = True
        return FAILED if stopped[0] else None

    return fault
