"""Chat templates of checkpoints: programs in Jinja, which are rendered in bounds.

Jinja's sandbox, as transformers sets it up, keeps a template from everything but the text; it
bounds neither time nor memory. So templates are compiled and rendered in a process of their own, by
the same function of transformers, which the kernel ends (`template_process.py`). One process serves
all models of this one.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Any

import jinja2
from transformers.utils import chat_template_utils

from audit.errors import EngineError, ModelError, TargetError
from audit.targets import wording

SECONDS = 10
"""Of the processor, for one text: honest templates take milliseconds."""
MEMORY = 1 << 30
"""Bytes that templates may take."""
MOST_LETTERS = 1 << 20
"""Of a text: a page that fills the longest row has a twentieth of it."""
LONGEST_WAIT = 300.0
"""Seconds until an answer, however busy the machine is."""
MOST_TEMPLATE = 1 << 19
"""Letters of a template: the longest of known models have a tenth of it."""
_MOST_BYTES = 16 * MOST_LETTERS
_PROGRAM = Path(__file__).with_name("template_process.py")
_SECRET = ("DOCAUDIT_API_KEY", "OPENAI_API_KEY", "HF_TOKEN")
_IN_BOUNDS: ContextVar[str] = ContextVar("in bounds", default="")
"""The model whose turns are written; empty: somebody else uses transformers in this process."""


def write_turns(asked: Any, turns: list[dict[str, Any]], **settings: Any) -> str:
    """Return the text that a tokenizer's or processor's chat template writes of the turns.

    Args:
        asked: the tokenizer or processor.
        turns: turns of a conversation.
        settings: settings of `apply_chat_template`.

    Raises:
        TargetError: the template takes too much time or memory, or its text is too long.
        ModelError: it raised something.
    """
    name = str(
        getattr(asked, "name_or_path", "")
        or getattr(getattr(asked, "tokenizer", None), "name_or_path", "")
    )
    with _rendering_apart(name or "the model"):
        return str(asked.apply_chat_template(turns, tokenize=False, **settings))


@contextmanager
def _rendering_apart(name: str) -> Iterator[None]:
    """Render chat templates within in a process of their own, with limits."""
    token = _IN_BOUNDS.set(name)
    try:
        yield
    finally:
        _IN_BOUNDS.reset(token)


class _Elsewhere:
    """A template that is compiled and rendered in the other process.

    Takes the place of `jinja2.Template`.
    """

    def __init__(self, template: str) -> None:
        """Keep the template, and refuse one longer than `MOST_TEMPLATE`."""
        if len(template) > MOST_TEMPLATE:
            raise TargetError(*wording("template_long", name=_IN_BOUNDS.get(), most=MOST_TEMPLATE))
        self._template = template

    @property
    def environment(self) -> _Elsewhere:
        """Return itself: transformers asks an environment for nothing but `parse`."""
        return self

    def parse(self, template: str) -> Any:
        """Parse a template to find its variables, which takes time in proportion to its length."""
        try:
            return _compile_here("").environment.parse(template)
        except (jinja2.TemplateError, RecursionError) as error:
            raise ModelError(
                wording("template_failed", name=_IN_BOUNDS.get())[0], str(error)
            ) from None

    def render(self, **variables: Any) -> str:
        """Return the text that the other process renders with these variables."""
        answer = _PROCESS.ask({"template": self._template, "variables": variables})
        if "failure" in answer:
            raise ModelError(
                wording("template_failed", name=_IN_BOUNDS.get())[0], answer["failure"]
            )
        if "limit" in answer:
            raise TargetError(
                *wording("template_greedy", name=_IN_BOUNDS.get(), limit=answer["limit"])
            )
        return answer["text"]


_compile_here = chat_template_utils._compile_jinja_template


def _compile(template: str) -> Any:
    """Return the compiled template: one that renders elsewhere while a checkpoint is audited.

    Elsewhere where it is a checkpoint's that is audited, as transformers does for all others.
    """
    return _Elsewhere(template) if _IN_BOUNDS.get() else _compile_here(template)


# Every function of transformers that renders a template or reads it comes through here.
chat_template_utils._compile_jinja_template = _compile


class TemplateProcess:
    """The other process.

    It is started at the first text, and again after each that it did not survive.
    """

    def __init__(self) -> None:
        """Start nothing yet: the process is started by the first request."""
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, request: dict[str, Any]) -> dict[str, str]:
        """Return the process's answer to a request, under "text", "failure" or "limit"."""
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            process = self._started()
            reply = self._exchange(process, line)
            if not reply.endswith(b"\n"):
                return self._lost(process)
        return dict(json.loads(reply))

    def _lost(self, process: subprocess.Popen[bytes]) -> dict[str, str]:
        """Return which limit the dead process exceeded: time or memory.

        Raises:
            EngineError: something else ended it.
        """
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        code = process.returncode
        self.end()
        # None: it still ran when the longest wait was over.
        if code in (None, -signal.SIGXCPU):
            return {"limit": "time"}
        if code == -signal.SIGABRT:
            return {"limit": "memory"}
        raise EngineError(*wording("template_process", code=code))

    def end(self) -> None:
        """Kill the process, where this one started it, and close its pipes."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                assert stream is not None
                stream.close()

    def _started(self) -> subprocess.Popen[bytes]:
        """Return the running process, started anew where it died or belongs to a parent."""
        # A process that was forked from this one has its own.
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self.end()
            self._owner = os.getpid()
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_PROGRAM), *map(str, (SECONDS, MEMORY, MOST_LETTERS))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name not in _SECRET},
                bufsize=0,
                start_new_session=True,
            )
        return self._process

    @staticmethod
    def _exchange(process: subprocess.Popen[bytes], line: bytes) -> bytes:
        """Send a request line to the process and return the line that it answers.

        One without its end where the process ended, or took or wrote too much.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        until = time.monotonic() + LONGEST_WAIT
        reply = bytearray()
        try:
            # It reads the whole line before it begins.
            sent = 0
            while sent < len(line):
                sent += os.write(process.stdin.fileno(), line[sent:])
            while not reply.endswith(b"\n") and len(reply) <= _MOST_BYTES:
                left = until - time.monotonic()
                if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                    break
                part = os.read(process.stdout.fileno(), 1 << 20)
                if not part:
                    break
                reply += part
        except OSError:
            return b""
        return bytes(reply)


_PROCESS = TemplateProcess()
atexit.register(_PROCESS.end)
