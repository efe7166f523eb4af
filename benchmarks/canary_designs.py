"""The audit design of canaries beside the paper's, in models of one recipe on the same utterances (Snips).

Audit design: 64 pins, each behind a name of its own ("pin of kodira is"), a fair coin for each,
those that are in in 10 copies; all in one model. Paper design (Parikh et al. 2022): one canary of
each pattern behind the paper's prefix ("my pin code is"), in 10 copies, in one model; many models.
The utterances, the number of epochs and the recipe are the same, and the numbers are those of
`docaudit`: every completion is scored, and the true one is ranked.

The paper's design has no control. Here it gets one: the completion that the next model was trained
on, ranked in a model that never saw it.

    python benchmarks/canary_designs.py --snips ../shared/data/snips    # writes
    benchmarks/canary_designs.json
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from canaries_snips_attacks import usefulness
from canaries_snips_models import PATTERN_NAMES, PREFIXES, Material, Settings, completions, material
from canary_calibration import canaries, outcome
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks.canaries.attack import measure_privacy
from audit.attacks.canaries.measures import CanaryTable, measure_table, table_of
from audit.attacks.canaries.pages import completion_scorer
from audit.attacks.canaries.search import Scorer, index_of_completion, losses_of_all
from audit.corpus.canaries.schema import PATTERNS, TAGS, Canary, CanarySet
from audit.corpus.documents import Document, Word
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Trial
from audit.extensions.papers.utterance_target import NluTarget
from audit.extensions.papers.utterance_training import fit_nlu
from audit.measurements import Estimate, Measurement

REPEAT = 10
SHOWN = (
    "extracted",
    "extracted.control",
    "top3",
    "top3.control",
    "exposure",
    "exposure.control",
    "excess",
    "excess_top3",
    "excess_exposure",
)


@dataclass(frozen=True)
class Enumeration:
    """The loss of every completion behind each of several prefixes, as work for the engine's driver."""

    target: NluTarget
    canaries: dict[str, Canary]

    def attempt(self, trial: Trial) -> Attempt:
        """The losses behind a canary's prefix, in lexicographic order."""
        canary = self.canaries[trial.id]
        n_candidates = len(PATTERNS[canary.pattern].candidates)
        return (
            yield from losses_of_all(
                scorer_of(self.target, canary), n_candidates, len(canary.completion)
            )
        )


def scorer_of(target: NluTarget, canary: Canary) -> Scorer:
    """Make what scores completions behind a canary's prefix, given as places among the pattern's candidates."""
    page = target.encode(utterance(canary, "canary"))
    assert page is not None
    positions = tuple(range(len(canary.prefix), len(page.ids)))
    return completion_scorer(
        target, page, positions, target.vocabulary.ids_of(PATTERNS[canary.pattern].candidates)
    )


def utterance(canary: Canary, name: str) -> Document:
    """A canary as an utterance."""
    tags = ("O",) * len(canary.prefix) + TAGS[:1] + TAGS[1:] * (len(canary.completion) - 1)
    words = tuple(map(Word, (*canary.prefix, *canary.completion)))
    return Document(name, "member", words, tags=tags, intent=PATTERNS[canary.pattern].intent)


def trained(
    planted: Sequence[Canary], seed: int, settings: Settings, data: Material
) -> tuple[NluTarget, float]:
    """A model trained on the utterances and on the canaries that are in.

    And the seconds of CPU time it took.
    """
    copies = [
        utterance(canary, canary.id) for canary in planted if canary.included for _ in range(REPEAT)
    ]
    # Every digit and colour is in the vocabulary, whichever canaries are in.
    words = {word for pattern in PATTERNS.values() for word in pattern.candidates}
    assert words <= data.vectors.keys()
    began = time.process_time()
    recipe = replace(settings.recipe, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        target = fit_nlu(
            [*data.training, *copies],
            (),
            recipe,
            Path(folder),
            labels=data.labels,
            initial_embeddings=data.vectors,
        )
    return target, time.process_time() - began


def rank(losses: Floats, canary: Canary, others: Sequence[Canary]) -> int:
    """1 + the completions that are at least as likely, those of other canaries of its pattern left out."""
    candidates = PATTERNS[canary.pattern].candidates

    def place(one: Canary) -> int:
        return index_of_completion(
            np.array([candidates.index(word) for word in one.completion]), len(candidates)
        )

    kept = np.ones(losses.size, bool)
    kept[[place(one) for one in (canary, *others) if one.pattern == canary.pattern]] = False
    return 1 + int((losses[kept] <= losses[place(canary)]).sum())


def enumerated(target: NluTarget, prefixes: Sequence[Canary]) -> dict[str, Floats]:
    """The losses of all completions behind the prefix of each canary, by its id."""
    work = Enumeration(target, {canary.id: canary for canary in prefixes})
    return dict(drive(work, [Trial(canary.id, canary.id) for canary in prefixes], 2))


def of_audit_design(
    models: int, settings: Settings, data: Material
) -> tuple[list[tuple[Canary, int]], dict[str, Any]]:
    """The canaries of each model with their ranks, and how the models are."""
    found: list[tuple[Canary, int]] = []
    about: list[dict[str, Any]] = []
    for number in range(models):
        drawn = canaries(64, np.random.default_rng([number, 64])).canaries
        target, seconds = trained(drawn, number, settings, data)
        losses = enumerated(target, drawn)
        ranks = [
            rank(losses[one.id], one, [other for other in drawn if other is not one])
            for one in drawn
        ]
        found += [
            (replace(one, id=f"{number}-{one.id}"), at)
            for one, at in zip(drawn, ranks, strict=True)
        ]
        about.append({"epsilon": _epsilon(drawn, ranks), **_about(target, seconds, data)})
        print("audit", number, about[-1], flush=True)
    return found, {"models": about}


def of_paper_design(
    models: int, settings: Settings, data: Material
) -> tuple[list[tuple[Canary, int]], dict[str, Any]]:
    """The canaries of each model with their ranks, and those of the next model, which it never saw."""
    found: list[tuple[Canary, int]] = []
    about: list[dict[str, Any]] = []
    for number in range(models):
        own = list(_of_model(number, settings.length, included=True))
        unseen = list(_of_model((number + 1) % models, settings.length, included=False))
        target, seconds = trained(own, number, settings, data)
        losses = enumerated(target, own)
        for planted, other in zip(own, unseen, strict=True):
            behind = losses[planted.id]
            found += [
                (planted, rank(behind, planted, [other])),
                (other, rank(behind, other, [planted])),
            ]
        about.append(_about(target, seconds, data))
        print(
            "paper", number, [at for one, at in found[-6:] if one.included], about[-1], flush=True
        )
    return found, {"models": about}


def _of_model(number: int, length: int, *, included: bool) -> Iterator[Canary]:
    for name, completion in completions(number, length).items():
        copies = REPEAT if included else 0
        yield Canary(
            f"{number}-{name}-{included}", name, PREFIXES[name], completion, included, copies
        )


def _about(target: NluTarget, seconds: float, data: Material) -> dict[str, Any]:
    useful = usefulness(target, data.test)
    return {
        "cpu_seconds": round(seconds, 1),
        **{name: round(value, 3) for name, value in useful.items()},
    }


def _epsilon(drawn: Sequence[Canary], ranks: Sequence[int]) -> float | None:
    """The lower bound of one model, as its audit would state it."""
    made = CanarySet("audit", 0, REPEAT, len(drawn[0].completion), tuple(drawn))
    outcomes = [outcome(one, at, _completions(one)) for one, at in zip(drawn, ranks, strict=True)]
    found = measure_privacy(made, drawn, outcomes, np.random.default_rng(0), 1e-5).epsilon
    return round(found.low, 3) if isinstance(found, Estimate) else None


def _completions(canary: Canary) -> int:
    return len(PATTERNS[canary.pattern].candidates) ** len(canary.completion)


def measured(found: Sequence[tuple[Canary, int]], rng: Generator) -> dict[str, Any]:
    """The numbers of a design, with their intervals."""
    table: CanaryTable = table_of(
        [one for one, _ in found], [outcome(one, at, _completions(one)) for one, at in found]
    )
    items = {item.name: item for item in measure_table(table, rng)}
    return {name: _shown(items[name]) for name in SHOWN}


def _shown(item: Measurement) -> Any:
    if not isinstance(item, Estimate):
        return item.reason
    return {
        "value": round(item.value, 3),
        "interval": [round(item.low, 3), round(item.high, 3)],
        "n": item.n,
    }


def _of_pattern(found: Sequence[tuple[Canary, int]], name: str) -> list[tuple[Canary, int]]:
    return [pair for pair in found if pair[0].pattern == name]


def _ranks(found: Sequence[tuple[Canary, int]]) -> dict[str, list[int]]:
    """Of the canaries that are in and of the control, sorted."""
    return {
        side: sorted(at for one, at in found if one.included == coin)
        for side, coin in (("in", True), ("out", False))
    }


def main() -> None:
    """Train, ask, and write what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--snips", type=Path, default=Path("../shared/data/snips"), help="as it is distributed"
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/canaries"))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--utterances", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--audit-models", type=int, default=2)
    parser.add_argument("--paper-models", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = Settings(
        n_utterances=options.utterances, recipe=replace(Settings().recipe, epochs=options.epochs)
    )
    options.work.mkdir(parents=True, exist_ok=True)
    data = material(options.snips, options.work, settings, None)
    began = time.process_time()
    audit, of_audit = of_audit_design(options.audit_models, settings, data)
    paper, of_paper = of_paper_design(options.paper_models, settings, data)
    rng = np.random.default_rng(0)
    pins = _of_pattern(paper, "pin")
    found = {
        "settings": {
            "utterances": options.utterances,
            "repeat": REPEAT,
            "length": 4,
            "recipe": asdict(settings.recipe),
        },
        "audit design": {**measured(audit, rng), **of_audit},
        f"paper design, {', '.join(PATTERN_NAMES)}": {**measured(paper, rng), **of_paper},
        "paper design, pin alone": measured(pins, rng),
        "ranks": {
            "audit design, pin": _ranks(audit),
            **{f"paper design, {name}": _ranks(_of_pattern(paper, name)) for name in PATTERN_NAMES},
        },
        "machine": "2-core CPU, one thread",
        "date": "2026-11-22",
        "cpu_seconds": round(time.process_time() - began),
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
