"""Progress on standard error: one line that moves on a terminal, plain lines now and then in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from rich.text import Text

from audit.cli.console.forecast import Forecast, Stage
from audit.cli.console.terminal import before_printing, duration, is_plain, raw_console, warn
from audit.corpus.paths import printable
from audit.progress import observed_by

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live

T = TypeVar("T")
LOG_SECONDS = 10.0
"""In a log, one line of progress in so many seconds."""
SHOWN_SECONDS = 2.0
"""A stage that was over sooner leaves no line."""
_WIDEST_BAR = 40


class Reporter:
    """A `Progress` that draws a bar with the time left on a terminal, plain lines elsewhere.

    Use as a context manager: within it, it observes all that tells of its progress (`audit.progress`). Everything goes
    to standard error, so that standard output stays the verdict's.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, beats: bool = True, quiet: bool = False) -> None:
        """Begin with nothing.

        Args:
            clock: seconds that only grow.
            quiet: say nothing at all.
            beats: print lines for a log by itself as time goes by; False: only `beat` does.
        """
        self._clock, self._beats = clock, beats
        self._console = raw_console(stderr=True)
        self._plain, self._quiet = quiet or is_plain(stderr=True), quiet
        self._run: Forecast | None = None
        self._stage: Stage | None = None
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._printed = clock()
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self._held.enter_context(observed_by(self))
        self._held.callback(before_printing(self._rest))
        if self._plain and self._beats:
            thread = threading.Thread(target=self._beat_on, daemon=True)
            thread.start()
            self._held.callback(thread.join, 1.0)
            self._held.callback(self._over.set)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self._end_stage()
        self._stage = None
        self._rest()
        self._held.close()

    def follow(self, steps: Iterable[str | T]) -> Iterator[T]:
        """Print the warnings among the steps of a workflow as they come, and pass on its results."""
        for step in steps:
            self._rest()
            if isinstance(step, str):
                warn(step)
            else:
                yield step

    def plan(self, title: str, parts: Mapping[str, float]) -> None:
        """See `Progress.plan`."""
        with self._lock:
            self._end_stage()
            if self._run is not None and not parts and self._run.elapsed >= SHOWN_SECONDS:
                self._print(f"{self._run.title}: 100 %, done after {duration(self._run.elapsed)}")
            self._run = Forecast(title, parts, self._clock) if parts else None
        if parts:
            self._draw()

    def part(self, name: str) -> None:
        """See `Progress.part`."""
        with self._lock:
            self._end_stage()
            if self._run is not None:
                self._run.part(name)
            self._stage = Stage(name, 0, self._clock())
        self._draw()

    def stage(self, name: str, total: int) -> None:
        """See `Progress.stage`."""
        with self._lock:
            self._end_stage()
            self._stage = Stage(name, total, self._clock())
        self._draw()

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        if self._stage is not None:
            self._stage.done += steps

    def beat(self) -> None:
        """Print a line for a log, if the last one is long enough ago and something is under way."""
        with self._lock:
            text = self.line()
            if text and self._clock() - self._printed >= LOG_SECONDS:
                self._print(text)

    def line(self) -> str:
        """What is under way, in a line; empty where nothing is."""
        now = self._clock()
        parts = [text for text in (self._told_of_stage(now), self._told_of_run()) if text]
        return "; ".join(parts)

    def _told_of_stage(self, now: float) -> str:
        stage = self._stage
        if stage is None:
            return ""
        name, passed = printable(stage.name), duration(now - stage.began)
        if not stage.total:
            return f"{name}: {passed}"
        left = stage.left(now) if self._run is None else None
        told = "" if left is None or stage.share == 1 else f", about {duration(left)} left"
        return f"{name}: {stage.done:,} of {stage.total:,}, {passed}{told}"

    def _told_of_run(self) -> str:
        if self._run is None:
            return ""
        left = duration(self._run.left(self._stage))
        return f"{printable(self._run.title)} {self._percent()} after {duration(self._run.elapsed)}, about {left} left"

    def _percent(self) -> str:
        assert self._run is not None
        return f"{self._run.share(self._stage):.0%}".replace("%", " %")

    def _end_stage(self) -> None:
        """Leave a line of a stage that took its time; on a terminal the run's bar says enough."""
        stage, self._stage = self._stage, None
        if stage is None or self._clock() - stage.began < SHOWN_SECONDS:
            return
        if self._plain or self._run is None:
            self._stage = stage
            text = self.line() if self._plain else self._told_of_stage(self._clock())
            self._stage = None
            self._print(text)

    def _print(self, text: str) -> None:
        self._printed = self._clock()
        if self._quiet:
            return
        console = self._live.console if self._live is not None else self._console
        console.print(Text(text), soft_wrap=True)

    def _beat_on(self) -> None:
        while not self._over.wait(0.5):
            self.beat()

    def _draw(self) -> None:
        """Show the line that moves, on a terminal."""
        if self._plain or self._live is not None:
            return
        from rich.live import Live

        self._live = Live(
            self,
            console=self._console,
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def _rest(self) -> None:
        """Take the line that moves away, so that something else can be printed; the next stage brings it back."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line that moves, and under that of a run the stage that is under way."""
        now, stage, run = self._clock(), self._stage, self._run
        if run is not None:
            yield self._bar(printable(run.title), run.share(stage), run.elapsed, run.left(stage), options.max_width)
        if stage is None:
            return
        if run is None:
            if not stage.total:
                yield Text(f"{printable(stage.name)}  {duration(now - stage.began)}")
                return
            left = stage.left(now)
            counted = f"{printable(stage.name)}: {stage.done:,} of {stage.total:,}"
            yield self._bar(counted, stage.share if stage.total else 0.0, now - stage.began, left, options.max_width)
            return
        of = f": {stage.done:,} of {stage.total:,}" if stage.total else ""
        line = Text(f"  {printable(stage.name)}{of}", style="dim")
        line.truncate(options.max_width, overflow="ellipsis")
        yield line

    @staticmethod
    def _bar(name: str, share: float, elapsed: float, left: float | None, width: int) -> Text:
        """A name, a bar, the share done and times, on one line."""
        told = f" {share:4.0%}".replace("%", " %") + f"  {duration(elapsed)}"
        told += "" if left is None else f", about {duration(left)} left"
        room = min(_WIDEST_BAR, width - len(name) - len(told) - 1)
        line = Text(name)
        if room >= 5:
            filled = round(share * room)
            line.append(" ")
            line.append("━" * filled, style="green")
            line.append("━" * (room - filled), style="bright_black")
        line.append(told)
        line.truncate(width, overflow="ellipsis")
        return line
