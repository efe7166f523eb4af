"""A dry run of large document models: memory, devices and bytes, without their weights.

    python -m benchmarks.performance.large_model

The shapes are those of published checkpoints (`gpu/shapes.toml`), on torch's meta device. Nothing
is downloaded or computed: every number follows from shapes and from docaudit's own choice of
devices. Writes large_model.md.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

import audit
from audit.errors import TargetError
from audit.targets.batching import STEP
from audit.targets.checkpoint.loading import LEAST_ROWS, bytes_of_row, places_of, score_exactly
from audit.targets.checkpoint.safety import quiet
from benchmarks.gpu.shapes import SHAPES, config_of, empty_model

OUT = Path(__file__).with_suffix(".md")
GB = 1e9
NAMES = ("qwen-3b", "qwen-7b", "qwen-32b", "qwen-72b")
MAIN = "qwen-7b"
PARTS = {
    "vision tower": "model.visual.",
    "token embeddings": "model.language_model.embed_tokens.",
    "language layers": "model.language_model.",
    "head": "lm_head.",
}
"""The beginnings of the names of each part's tensors; the first that fits counts."""
CONTEXT = 1.0
HOST = 256.0
"""Gigabytes of a GPU that CUDA and its kernels take, and those of the machine that are free."""
GPUS = (1, 2, 8)
MEMORIES = (24.0, 80.0)
PAGES = {"letter, 100 dpi": (850, 1100), "A4, 200 dpi": (1654, 2339)}
TOKEN = 28
"""Pixels of a side of what becomes one token: two patches of 14."""
PROMPT = 60
ANSWER = 5
LONGEST = 128
ROWS = 16
"""Tokens of a prompt beside the page, of an answer, of the longest answer; rows of a batch."""
ATTACKS = 3
MODELS = 2
WORKERS = (1, 8)
"""Attacks of a scan with workers; models that each needs, the target and its base; workers on one
node."""


def model_of(name: str, dtype: torch.dtype = torch.bfloat16) -> Any:
    """Make the model as docaudit holds it, its head in float32, without its weights."""
    model = empty_model(config_of(name)[0], dtype)
    score_exactly(model.get_output_embeddings())
    return model


def sizes_of(model: Any) -> dict[str, tuple[int, int]]:
    """Count the parameters and the bytes of each part."""
    counts = Counter[str]()
    sizes = Counter[str]()
    for name, weights in model.named_parameters():
        part = next(part for part, beginning in PARTS.items() if name.startswith(beginning))
        counts[part] += weights.numel()
        sizes[part] += weights.numel() * weights.element_size()
    return {part: (counts[part], sizes[part]) for part in PARTS}


def n_tokens(page: tuple[int, int]) -> int:
    """Count the tokens of a page in pixels: its processor rounds both sides."""
    return round(page[0] / TOKEN) * round(page[1] / TOKEN)


def n_scored(length: int) -> int:
    """Count the positions of a row whose scores are computed with `logits_to_keep`, in whole blocks."""
    return length - max(0, length - ANSWER - STEP - 1) // STEP * STEP


def row_of(model: Any, page: tuple[int, int]) -> int:
    """Estimate the bytes of a row about a page."""
    return bytes_of_row(model.config, n_tokens(page) + PROMPT, LONGEST)


def memory_lines() -> Iterator[str]:
    """Write the memory of the main model by part."""
    half = sizes_of(model_of(MAIN))
    full = sizes_of(model_of(MAIN, torch.float32))
    yield from ("| part | parameters | bfloat16, GB | float32, GB |", "|---|---|---|---|")
    for part, (count, size) in half.items():
        yield f"| {part} | {count:,} | {size / GB:.2f} | {full[part][1] / GB:.2f} |"
    totals = [
        sum(own[place] for own in table.values())
        for table, place in ((half, 0), (half, 1), (full, 1))
    ]
    yield f"| **all** | {totals[0]:,} | {totals[1] / GB:.2f} | {totals[2] / GB:.2f} |"
    assert totals[0] == SHAPES[MAIN]["parameters"]


def row_memory_table(models: Mapping[str, Any]) -> Iterator[str]:
    """Yield a Markdown table of the GB that one row takes, by model and page."""
    yield (
        "| model | page | tokens | a row beside the weights, GB | scores of all positions, GB | "
        "scores with `logits_to_keep`, GB | keys and values of the page, GB |"
    )
    yield "|---" * 7 + "|"
    for name, model in models.items():
        text = model.config.get_text_config()
        for page, size in PAGES.items():
            length = n_tokens(size) + PROMPT + ANSWER
            everything, kept = (4 * text.vocab_size * n / GB for n in (length, n_scored(length)))
            cached = (
                2
                * 2
                * text.num_hidden_layers
                * text.num_key_value_heads
                * text.head_dim
                * n_tokens(size)
                / GB
            )
            row = row_of(model, size) / GB
            yield f"| {name} | {page} | {n_tokens(size):,} | {row:.2f} | {everything:.2f} | {kept:.3f} | {cached:.2f} |"


def place_lines(models: Mapping[str, Any]) -> Iterator[str]:
    """Write where docaudit puts each model."""
    yield from (
        "| model | GPUs | each | weights on each GPU | peak of a GPU |",
        "|---|---|---|---|---|",
    )
    for name, model in models.items():
        row = row_of(model, PAGES["letter, 100 dpi"])
        for memory in MEMORIES:
            for n in GPUS:
                free: dict[int | str, int] = {gpu: int((memory - CONTEXT) * GB) for gpu in range(n)}
                try:
                    with quiet():
                        places = places_of(model, {**free, "cpu": int(HOST * GB)}, row, ROWS)
                except TargetError as error:
                    yield f"| {name} | {n} | {memory:.0f} GB | refused: {error} | |"
                    continue
                taken = sizes_by_place(model, places)
                host = taken.pop("cpu", 0)
                shown = " + ".join(f"{size / GB:.1f}" for size in taken.values())
                more = f", {host / GB:.1f} GB in memory" if host else ""
                fitting = min(ROWS, int((free[0] - max(taken.values())) // row))
                peak = CONTEXT + (max(taken.values()) + fitting * row) / GB
                yield f"| {name} | {n} | {memory:.0f} GB | {shown} GB{more} | {peak:.0f} GB with {fitting} rows |"


def sizes_by_place(model: Any, places: Mapping[str, int | str]) -> dict[str, int]:
    """Count the bytes of the weights at each place."""
    taken = Counter[str]()
    for name, weights in model.named_parameters():
        place = next(
            place for part, place in places.items() if not part or f"{name}.".startswith(f"{part}.")
        )
        taken[str(place)] += weights.numel() * weights.element_size()
    return dict(taken)


def sent_lines() -> Iterator[str]:
    """Write what workers on a node are sent and what lies on its disk, for the target and its base."""
    size = 2 * SHAPES[MAIN]["parameters"] * MODELS / GB
    yield "| workers on a node | | bytes sent to the node | copies on its disk, at once | copies written in a scan |"
    yield "|---|---|---|---|---|"
    for n in WORKERS:
        before = f"{ATTACKS * size:.0f} GB"
        after = f"{size:.0f} GB"
        at_once = f"{n * size:.0f} GB"
        written = f"{n * ATTACKS * size:.0f} GB"
        yield f"| {n} | a copy for each worker and attack (before) | {before} | {at_once} | {written} |"
        yield f"| {n} | a pool, files sent once to each node | {after} | {after} | {after} |"
        yield f"| {n} | a pool on this machine, or `shared=DIR` | 0 | 0 | 0 |"


def main() -> None:
    """Write the page."""
    models = {name: model_of(name) for name in NAMES}
    letter = row_of(models[MAIN], PAGES["letter, 100 dpi"])
    both = CONTEXT + (MODELS * models[MAIN].get_memory_footprint() + ROWS * letter) / GB
    text = [
        "# A dry run of large models",
        "",
        "`python -m benchmarks.performance.large_model` writes this page from the shapes of published",
        "Qwen2.5-VL checkpoints, on torch's meta device. Nothing was loaded or computed: no",
        "number here was measured on a GPU.",
        "",
        f"{platform.machine()}, {time.strftime('%Y-%m-%d')}, docaudit {audit.__version__}, torch {torch.__version__},",
        f"transformers {transformers.__version__}.",
        "",
        f"## Memory of {MAIN}",
        "",
        "docaudit holds these weights in bfloat16 and the head, which scores tokens, in float32. An adapter is merged",
        "in float32, and the merged model stays in it.",
        "",
        *memory_lines(),
        "",
        "Files in bfloat16 are mapped, not copied: they take no memory of the process on their way to a GPU. Weights",
        "that change their format are in the machine's memory once.",
        "",
        "## A row of a batch",
        "",
        f"A prompt has {PROMPT} tokens beside the page, an answer {ANSWER}. What a row takes beside the weights is an",
        f"estimate from the shape (`bytes_of_row`), for answers of up to {LONGEST} tokens. The scores of all positions",
        "come on top where a model takes no `logits_to_keep`.",
        "",
        *row_memory_table(models),
        "",
        "## Devices",
        "",
        f"A batch has at most {ROWS} rows about letters at 100 dpi; of {MAIN} such a row takes {letter / GB:.2f} GB. A",
        f"model lies on one GPU where {LEAST_ROWS} rows fit beside it. Else it lies in whole layers on as few GPUs as",
        f"hold it beside all rows, a half of them, and so on to {LEAST_ROWS}. Each GPU has {CONTEXT:.0f} GB less than",
        f"its name says, and the machine has {HOST:.0f} GB free. The peak is that of the fullest GPU, an estimate.",
        "",
        *place_lines(models),
        "",
        "## Workers",
        "",
        f"The target {MAIN} and its base, {ATTACKS} attacks. Each worker holds both on its own GPU, in {both:.0f} GB",
        f"with {ROWS} rows of a batch. The table counts weights alone, from the sizes of files.",
        "",
        *sent_lines(),
        "",
    ]
    OUT.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
