"""The pieces, in order of worth: the first ones are what a loan of a few minutes should be spent on."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.gpu.work import Result, Work

MOST_SECONDS = 480.0
"""A piece is given no more in one go; one that needs more keeps its steps and goes on later."""

N_CHECKPOINTS = 4
"""Of one training, attacked one by one."""


@dataclass(frozen=True)
class Piece:
    """Something to measure.

    Attributes:
        name: of its folder and its table.
        shows: one line about it.
        module, function: where it is; imported in its own process only.
        argument: given to the function beside the work.
        needs: folders that a person must give; see `Inputs`.
        after: pieces whose tables it needs.
        whatever: whether tables that say "not tested" serve, too.
    """

    name: str
    shows: str
    module: str
    function: str
    argument: object = None
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    whatever: bool = False

    @property
    def run(self) -> Callable[[Work], Result]:
        """What it does."""
        function = getattr(importlib.import_module(self.module), self.function)
        return function if self.argument is None else partial(function, argument=self.argument)


LARGE = tuple(
    Piece(
        f"large-{name}",
        f"{shows} with random weights: loading, peak memory, answers and losses a second with and without one reading "
        "of a page",
        "benchmarks.gpu.large",
        "measure",
        name,
    )
    for name, shows in (
        ("qwen-7b", "a Qwen2.5-VL of 7B"),
        ("llama-8b", "a Llama of 8B and a short scan of it,"),
        ("idefics3-8b", "an Idefics3 of 8B"),
        ("qwen-3b", "a Qwen2.5-VL of 3B"),
        ("donut-base", "a Donut of base size"),
    )
)
SPEED = (
    Piece(
        "speed-passes",
        "forward passes of LayoutLM-base by bucket: eager, torch.compile, CUDA graphs, beside the matmul rate",
        "benchmarks.gpu.passes",
        "measure_passes",
    ),
    Piece(
        "speed-attack",
        "the attack at the paper's size, 790 fields, N_c 128, one-shot and 8 attempts: seconds, share of the matmul "
        "rate, bfloat16 preflight, peak memory",
        "benchmarks.gpu.speed",
        "measure_attack",
    ),
    Piece(
        "speed-ways",
        "a block of that attack by one worker and two, with a plain and a compiled encoder, and "
        "without its passes",
        "benchmarks.gpu.ways",
        "measure_ways",
    ),
)


def _cdmi(corpus: str, task: str, modality: str, shows: str) -> Piece:
    return Piece(
        f"cdmi-{corpus}-{task}-{modality}",
        shows,
        "benchmarks.gpu.cdmi",
        "attack_model",
        (corpus, task, modality == "bimodal"),
        ("backbone", corpus),
        (f"cdmi-{corpus}-public",),
    )


def _public(corpus: str) -> Piece:
    return Piece(
        f"cdmi-{corpus}-public",
        f"the adversary's masked language model on {corpus.upper()}",
        "benchmarks.gpu.cdmi",
        "train_public",
        corpus,
        ("backbone", corpus),
    )


CDMI = (
    _public("sroie"),
    _cdmi(
        "sroie",
        "mlm",
        "unimodal",
        "CDMI on SROIE: MLM, unimodal, both criteria, all fields, beside table 5",
    ),
    _cdmi("sroie", "mlm", "bimodal", "CDMI on SROIE: MLM, bimodal, and with noise for the image"),
    _cdmi("sroie", "token-classification", "unimodal", "CDMI on SROIE: EE-BIO, unimodal"),
    _cdmi("sroie", "token-classification", "bimodal", "CDMI on SROIE: EE-BIO, bimodal"),
    _public("funsd"),
    _cdmi("funsd", "mlm", "unimodal", "CDMI on FUNSD: MLM, unimodal"),
    _cdmi("funsd", "mlm", "bimodal", "CDMI on FUNSD: MLM, bimodal, and with noise for the image"),
)
EPOCHS = tuple(
    piece
    for corpus in ("sroie", "funsd")
    for piece in (
        Piece(
            f"epochs-{corpus}-train",
            f"CDMI's figure 7 on {corpus.upper()}: one training of 300 epochs and its checkpoints",
            "benchmarks.gpu.epochs",
            "train_checkpoints",
            corpus,
            ("backbone", corpus),
        ),
        *(
            Piece(
                f"epochs-{corpus}-{place + 1}",
                f"CDMI's figure 7 on {corpus.upper()}: the attack on checkpoint {place + 1}",
                "benchmarks.gpu.epochs",
                "attack_checkpoint",
                (corpus, place),
                ("backbone", corpus),
                (f"epochs-{corpus}-train", f"cdmi-{corpus}-public"),
            )
            for place in range(N_CHECKPOINTS)
        ),
        Piece(
            f"epochs-{corpus}-trend",
            f"CDMI's figure 7 on {corpus.upper()}: exact recovery by epoch",
            "benchmarks.gpu.epochs",
            "compare_epochs",
            corpus,
            after=tuple(f"epochs-{corpus}-{place + 1}" for place in range(N_CHECKPOINTS)),
        ),
    )
)
DONUT = (
    *(
        Piece(
            f"donut-{name}",
            f"a Donut-shaped model at the {name} of three resolutions: taught to read, then what it memorises",
            "benchmarks.gpu.donut",
            "audit_resolution",
            name,
        )
        for name in ("low", "middle", "high")
    ),
    Piece(
        "donut-trend",
        "memorisation by resolution, paired by question",
        "benchmarks.gpu.donut",
        "trend",
        after=("donut-low", "donut-middle", "donut-high"),
        whatever=True,
    ),
)
READING = (
    Piece(
        "reading-pretrain",
        "a VT5 taught to read invoices of providers that nobody audits, until its held-out ANLS is over 0.55",
        "benchmarks.gpu.reading",
        "teach",
    ),
    Piece(
        "reading-attack",
        "provider membership and the memorisation test of that VT5, beside tables 1, 2 and A3 to A6",
        "benchmarks.gpu.reading",
        "attack",
        after=("reading-pretrain",),
    ),
)
PRIVATE = tuple(
    Piece(
        f"private-{where}-{epsilon:g}",
        f"that VT5 trained with differential privacy for providers: {where}, epsilon {epsilon:g}",
        "benchmarks.gpu.private",
        "train_and_attack",
        (where, epsilon),
        after=("reading-attack",),
    )
    for where, epsilon in (
        ("central", 8.0),
        ("central", math.inf),
        ("central", 1.0),
        ("central", 4.0),
        ("clients", 8.0),
        ("clients", math.inf),
    )
)
PIECES: tuple[Piece, ...] = (*LARGE, *SPEED, *CDMI, *EPOCHS, *DONUT, *READING, *PRIVATE)
