"""Forward passes alone, by bucket: eager, compiled, with CUDA graphs.

Beside the device's own matmul rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import LayoutLMConfig

from audit.case import Case
from audit.targets.batching import out_of_memory
from audit.targets.encoders.compiling import compile_encoder
from audit.targets.encoders.target import EncoderTarget
from benchmarks.gpu.memory import peak_megabytes, reset_peak
from benchmarks.gpu.work import Json, Result, Work
from benchmarks.papers import cdmi_speed

BUCKETS = {False: (256, 512), True: (32, 64)}
"""Padded tokens of a row, by whether the run is tiny."""
EAGER = "eager"
WAYS: dict[str, dict[str, Any]] = {
    "compiled": {},
    "CUDA graphs": {"mode": "reduce-overhead"},
}
"""What torch.compile is given. On a CPU a tiny run traces only: its compiler takes longer than
everything else."""
TINY_WAYS: dict[str, dict[str, Any]] = {
    "traced": {"backend": "aot_eager"},
    "CUDA graphs": WAYS["CUDA graphs"],
}
SECONDS = {False: 2.0, True: 0.2}
"""Of each timing."""
TINY_BATCH = 256
"""Padded tokens."""
COMPILING = 60.0
"""Seconds that compiling may take."""


def paper_case(work: Work, n_fields: int) -> tuple[Case, EncoderTarget, str]:
    """The invented case at the paper's size (or tiny), its target as a scan on this device computes, and the format."""
    config = None
    if work.tiny:
        config = LayoutLMConfig(
            vocab_size=400,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
        )
    case = cdmi_speed.invented_case(n_fields, work.device, config, 40 if work.tiny else 240)
    target = case.target
    assert isinstance(target, EncoderTarget)
    if work.tiny:
        target.forward.batch.size = TINY_BATCH
        target.forward.fixed_rows = True  # as on a GPU
    dtype = "float32" if work.device == "cpu" else "bfloat16"
    return case, target if dtype == "float32" else target.rounded(dtype), dtype


def measure_passes(work: Work) -> Result:
    """Time every way in every bucket; what fails is a row that says so."""
    _, target, dtype = paper_case(work, 2)
    least = SECONDS[work.tiny]
    rate = work.step("rate", partial(cdmi_speed.matmul_rate, target, dtype, least))
    ways = TINY_WAYS if work.tiny else WAYS
    found: dict[str, dict[str, Json]] = {}
    for name in (EAGER, *ways):
        for bucket in BUCKETS[work.tiny]:
            given = ways.get(name)
            measure = partial(measure_way, target, given, bucket, least)
            step = f"{name.replace(' ', '-').replace(',', '')}-{bucket}"
            found.setdefault(name, {})[str(bucket)] = work.step(
                step, measure, 10.0 if given is None else COMPILING
            )
    values = {
        "dtype": dtype,
        "batch_tokens": target.batch_tokens,
        "matmul FLOP/s": rate,
        "ways": found,
    }
    return Result(values, lines(values, target))


def measure_way(
    target: EncoderTarget, given: dict[str, Any] | None, bucket: int, seconds: float
) -> Json:
    """One way in one bucket: seconds of the first pass and of the next ones, or why there are none."""
    if (
        given is not None
        and given.get("mode") == "reduce-overhead"
        and target.card.device != "cuda"
    ):
        return {"failure": "needs CUDA"}
    n_rows = max(1, target.batch_tokens // bucket)
    inputs = random_inputs(target, n_rows, bucket)
    own = target.forward._encoder
    device = target.card.device
    reset_peak(device)
    apart = None
    torch.compiler.reset()
    encoder = own if given is None else compiled(own, given)
    try:
        expected = run_pass(target, own, inputs).clone()
        taken, first, states = timed(partial(run_pass, target, encoder, inputs), device, seconds)
    except Exception as error:
        # Whatever compilers throw is the finding; of the eager way only that memory ran out.
        if given is None and not (isinstance(error, RuntimeError) and out_of_memory(error)):
            raise
        return {"failure": failure_of(error)}
    if given is not None:
        apart = float((states.float() - expected.float()).abs().max())
    return {
        "rows": n_rows,
        "first pass, seconds": first,
        "seconds": taken,
        "tokens per second": n_rows * bucket / taken,
        "FLOP": cdmi_speed.flop(target, [bucket] * n_rows),
        "largest difference from eager": apart,
        "peak memory MB": peak_megabytes(device),
    }


def failure_of(error: Exception) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')[:160]}"


def compiled(encoder: Any, given: dict[str, Any]) -> Callable[..., Any]:
    """The encoder through torch.compile.

    Outputs of CUDA graphs are overwritten by the next pass, and it is told so.
    """
    made = compile_encoder(encoder, **given)
    mark_step: Any = torch.compiler.cudagraph_mark_step_begin

    def call(**inputs: torch.Tensor) -> Any:
        mark_step()
        return made(**inputs)

    return call


def run_pass(
    target: EncoderTarget, encoder: Callable[..., Any], inputs: dict[str, torch.Tensor]
) -> torch.Tensor:
    """One pass as `Forward` does it: in inference mode, under autocast."""
    device = target.card.device
    dtype = target.card.dtype
    with (
        torch.inference_mode(),
        torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"),
    ):
        states: torch.Tensor = encoder(**inputs).last_hidden_state
    return states


def random_inputs(target: EncoderTarget, n_rows: int, bucket: int) -> dict[str, torch.Tensor]:
    """Rows that fill a bucket, but for the one token that keeps the attention mask."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, target.model.config.vocab_size, (n_rows, bucket))
    mask = np.ones_like(ids)
    corners = rng.integers(0, 900, (n_rows, bucket, 2))
    mask[:, -1] = 0
    boxes = np.concatenate([corners, corners + np.array([60, 12])], axis=2) / 1000
    return target.family.inputs(ids, mask, boxes, target.card.device)


def timed(
    run: Callable[[], torch.Tensor], device: str, seconds: float
) -> tuple[float, float, torch.Tensor]:
    """Seconds of a pass (mean over at least so many seconds), of the first one, and what the last one gave."""
    cdmi_speed.wait_for(device)
    began = time.perf_counter()
    run()
    cdmi_speed.wait_for(device)
    first = time.perf_counter() - began
    for _ in range(2):  # graphs are recorded by the second and third pass
        run()
    cdmi_speed.wait_for(device)
    done = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(3):
            states = run()
        cdmi_speed.wait_for(device)
        done += 3
    return (time.perf_counter() - began) / done, first, states


def lines(values: dict[str, Any], target: EncoderTarget) -> list[str]:
    """The table: rows are ways, columns buckets."""
    rate = values["matmul FLOP/s"]
    config = target.model.config
    text = [
        f"{config.num_hidden_layers} layers, {config.hidden_size} wide, {values['dtype']}, {values['batch_tokens']:,} "
        f"padded tokens a batch; the device's own matmul rate {rate / 1e12:.3g} TFLOP/s.",
        "",
        "| way | bucket | rows | tokens/s | share of the rate | first pass, s | difference from eager | peak MB |",
        "|---" * 8 + "|",
    ]
    for name, buckets in values["ways"].items():
        for bucket, found in buckets.items():
            if "failure" in found:
                text.append(
                    f"| {name} | {bucket} | failed: {found['failure'].replace('|', '/')} | | | | | |"
                )
                continue
            share = found["FLOP"] / found["seconds"] / rate
            apart = found["largest difference from eager"]
            text.append(
                f"| {name} | {bucket} | {found['rows']} | {found['tokens per second']:,.0f} | {share:.2f} | "
                f"{found['first pass, seconds']:.1f} | {'-' if apart is None else f'{apart:.1e}'} | "
                f"{found['peak memory MB']:,.0f} |"
            )
    return text
