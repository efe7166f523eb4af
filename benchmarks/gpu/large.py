"""Models of 3 to 8 billion parameters with random weights: loading, memory, answers and losses a second, a short scan.

Random weights end no answer, so every answer has as many tokens as it may. Tokenizers are of
characters.
"""

from __future__ import annotations

import gc
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image

from audit.corpus.documents import Word
from audit.corpus.images import PageView
from audit.errors import TargetError
from audit.targets.answering import loading as answering
from audit.targets.answering import target as targets
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint import loading
from audit.targets.interface import Answer, AnswerLoss, Query
from benchmarks.gpu.memory import peak_megabytes, reset_peak
from benchmarks.gpu.shapes import FAKES, SHAPES, write_shape
from benchmarks.gpu.work import Json, NotTestedError, Result, Work

PAGE = {False: (1008, 1400), True: (56, 84)}
"""Width and height in pixels of a page, by whether the run is tiny: 1,800 tokens of Qwen2.5-VL."""
WORDS = {False: 300, True: 20}
"""Of a page, of four letters and a space each: 1,500 tokens of characters."""
PAGES = {False: 4, True: 2}
QUESTIONS = {False: 8, True: 2}
"""Pages, and questions about each."""
NEW_TOKENS = 16
ANSWER = "1,234.56"


def measure(work: Work, *, argument: str) -> Result:
    """Measure one shape; its weights are removed once everything is measured."""
    folder = work.folder / "model"
    found = {
        "written": work.step(
            "write", partial(write_shape, folder, argument, work.device, tiny=work.tiny), 40.0
        )
    }

    @cache
    def target() -> Any:
        return load(folder, work.device)

    found["loaded"] = work.step("load", lambda: timed_load(target, work.device), 60.0)
    asked = pages(work.tiny)
    queries: dict[str, list[Query[Any]]] = {
        "answers": [
            Answer(view, f"what is field {n}?")
            for view in asked
            for n in range(QUESTIONS[work.tiny])
        ],
        "losses": [
            AnswerLoss(view, f"what is field {n}?", ANSWER)
            for view in asked
            for n in range(QUESTIONS[work.tiny])
        ],
    }
    ways = {"answers": nothing, "losses": nothing, "losses, every page read anew": read_anew}
    if torch.cuda.device_count() > 1:
        ways["losses, over two GPUs"] = nothing
    for name, way in ways.items():
        kind = name.partition(",")[0]
        over = (lambda: spread(folder)) if "GPUs" in name else target
        found[name] = work.step(
            name.replace(", ", "-").replace(" ", "-"),
            partial(timed, over, queries[kind], way),
            20.0,
        )
    if SHAPES[argument]["kind"] == "llama":
        found["scan"] = work.step("scan", partial(scan, work, folder), 60.0)
    target.cache_clear()
    gc.collect()
    shutil.rmtree(folder, ignore_errors=True)
    return Result(found, lines(argument, found))


def load(folder: Path, device: str) -> Any:
    """Load the checkpoint as a scan does; its answers are as long as those of forms."""
    if str(FAKES) not in sys.path:
        sys.path.append(str(FAKES))
    from vision_operators import declare_when_imported

    declare_when_imported()
    try:
        target = load_answering(folder, device=device)
    except TargetError as error:
        raise NotTestedError(f"it cannot be loaded: {error}") from None
    target.reader.max_new_tokens = NEW_TOKENS
    return target


def spread(folder: Path) -> Any:
    """Load the checkpoint over two GPUs, whatever one would hold."""

    def place(model: Any, device: str, row: int, n_rows: int) -> Any:
        share = int(0.7 * model.get_memory_footprint())
        return loading.spread(model, loading.places_of(model, {0: share, 1: share}, 0, 1))

    with mock.patch.object(answering, "place", place):
        return load(folder, "cuda")


def timed_load(target: Callable[[], Any], device: str) -> Json:
    """Load the model.

    Its files were just written, so that most of them lie in the cache of the disk.
    """
    reset_peak(device)
    began = time.perf_counter()
    made = target()
    seconds = time.perf_counter() - began
    places = {str(weights.device) for weights in made.model.parameters()}
    return {
        "seconds": seconds,
        "peak memory MB": peak_megabytes(device),
        "host peak MB": peak_megabytes("cpu"),
        "weights MB": made.model.get_memory_footprint() / 2**20,
        "dtype": made.card.dtype,
        "rows of a batch": made.batch_rows,
        "devices": sorted(places),
    }


def pages(tiny: bool) -> list[PageView]:
    """Make pages of words, with noise for an image."""
    rng = np.random.default_rng(0)
    width, height = PAGE[tiny]
    made = []
    for _ in range(PAGES[tiny]):
        letters = rng.integers(97, 123, (WORDS[tiny], 4), dtype=np.uint8)
        words = tuple(Word(bytes(own).decode(), (1.0, 1.0, 20.0, 10.0)) for own in letters)
        pixels = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
        made.append(PageView(words, (width, height), partial(Image.fromarray, pixels)))
    return made


def timed(target: Callable[[], Any], queries: list[Query[Any]], way: Callable[[], Any]) -> Json:
    """Time some queries, after the first few of them, which warm up."""
    made = target()
    with way():
        made.ask(queries[:2])
        reset_peak(made.card.device)
        began = time.perf_counter()
        made.ask(queries)
        seconds = time.perf_counter() - began
    return {
        "rows": len(queries),
        "seconds": seconds,
        "rows per second": len(queries) / seconds,
        "peak memory MB": peak_megabytes(made.card.device),
        "rows of a batch": made.batch_rows,
        "times lowered": made.lowered,
    }


@contextmanager
def nothing() -> Iterator[None]:
    """Change nothing."""
    yield


@contextmanager
def read_anew() -> Iterator[None]:
    """Within, every row is read from its beginning."""
    with mock.patch.object(targets, "SHORTEST", sys.maxsize, create=True):
        yield


def scan(work: Work, folder: Path) -> Json:
    """Scan the model for memorisation, with few documents."""
    import asked_pages

    from audit.progress import Progress
    from audit.workflows.options import ScanOptions, claim_folder
    from audit.workflows.run import run_scan
    from audit.workflows.session import open_session

    data = work.folder / "data"
    out = work.folder / "scan"
    for place in (data, out):
        shutil.rmtree(place, ignore_errors=True)
    asked_pages.corpus(data, members=4, heldout=4, images=False)
    began = time.perf_counter()
    options = ScanOptions(
        folder, data, out, budget="quick", only=("memorisation",), device=work.device
    )
    opened = open_session(options)
    with claim_folder(out):
        record = run_scan(opened, Progress())
    return {
        "seconds": time.perf_counter() - began,
        "device": record.environment.device,
        "dtype": record.target.dtype,
    }


def lines(name: str, found: dict[str, Any]) -> list[str]:
    """Write the table."""
    written = found["written"]
    loaded = found["loaded"]
    text = [
        f"{written['parameters']:,} parameters, {written['bytes'] / 1e9:.1f} GB on disk, held in {loaded['dtype']} on "
        f"{', '.join(loaded['devices'])}: {loaded['weights MB']:,.0f} MB of weights. Loaded, hashed and checked in "
        f"{loaded['seconds']:.1f} s; the peak was {loaded['peak memory MB']:,.0f} MB on the device and "
        f"{loaded['host peak MB']:,.0f} MB of the process.",
        "",
        f"Answers have {NEW_TOKENS} tokens; losses are of answers of {len(ANSWER)} characters.",
        "",
        "| | rows | rows a second | rows of a batch | times lowered | peak MB |",
        "|---" * 6 + "|",
    ]
    for way in timings(found):
        own = found[way]
        text.append(
            f"| {way} | {own['rows']} | {own['rows per second']:.2f} | {own['rows of a batch']} | "
            f"{own['times lowered']} | {own['peak memory MB']:,.0f} |"
        )
    if "scan" in found:
        text += [
            "",
            f"A quick scan for memorisation of 4 documents took {found['scan']['seconds']:.0f} s.",
        ]
    return text


def timings(found: dict[str, Any]) -> list[str]:
    """Name what was timed."""
    return [name for name, own in found.items() if "rows per second" in own]
