"""Canaries as outliers beside canaries behind a name, in a tagger and in a small GPT-2 of one recipe each.

Every design plants 64 pins of four digits, each in by a fair coin. Designs differ in the words
before the pin:

- named: the product's prefix, "pin of kodira is", with a nonsense word of its own;
- full name: the same with four nonsense words in place of one;
- names: four nonsense words of its own alone;
- outlier: 12 words drawn uniformly from the vocabulary of the training texts, the limit of sampling
  at a high temperature (Mitchell et al. 2026, arXiv 2606.10481), so that the whole canary is an
  outlier;
- named outlier: 8 such words, then the product's prefix.

The pin is ranked as in the product, among 100 fresh draws. Each number is of all models of a design
together. Epsilon is the bound of the product for each model, of all copies together. The GPT-2 also
gets the score of the paper: how far training lowered the loss of the whole canary. Private
trainings of the GPT-2 clip the gradient of every row, and of every canary with its copies, and add
noise for the stated epsilon.

    python benchmarks/canary_outliers.py --snips ../shared/data/snips    # writes
    benchmarks/canary_outliers.json
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import canary_designs as designs
import numpy as np
import torch
from canaries_gpt2 import forms, start
from canaries_snips_models import Settings, material
from canary_designs import scorer_of
from numpy.random import Generator
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

from audit.attacks.canaries.attack import measure_privacy
from audit.attacks.canaries.measures import Outcome, Ranked
from audit.corpus.canaries.schema import PATTERNS, Canary, CanarySet
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Trial
from audit.extensions.papers.utterance_target import NluTarget
from audit.measurements import Estimate
from audit.stats.epsilon import epsilon_bound

N_CANARIES, LENGTH, N_REFERENCES, DELTA = 64, 4, 100, 1e-5
DESIGNS = ("named", "full name", "names", "outlier", "named outlier")
CHECKPOINTS = (4, 10)
"""Epochs after which the GPT-2 is asked."""


def nonsense(rng: Generator) -> str:
    """A nonsense word of three syllables."""
    pairs = zip(rng.choice([*"bdfgklnprstvz"], 3), rng.choice([*"aeiou"], 3), strict=True)
    return "".join(one + other for one, other in pairs)


def drawn(design: str, words: Sequence[str], copies: int, seed: int) -> CanarySet:
    """The canaries of a design; pins and coins are the same for all designs of a seed."""
    pins, texts = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    coins = np.random.default_rng([seed, 2]).random(N_CANARIES) < 0.5
    pattern, made = PATTERNS["pin"], []
    for number, coin in enumerate(coins):
        pin = tuple(str(digit) for digit in pins.choice(pattern.candidates, LENGTH))
        named = pattern.prefix(nonsense(texts))
        prefix = {
            "named": named,
            "full name": (*pattern.words[:2], *(nonsense(texts) for _ in range(4)), "is"),
            "names": tuple(nonsense(texts) for _ in range(4)),
            "outlier": tuple(map(str, texts.choice(words, 12))),
            "named outlier": (*map(str, texts.choice(words, 8)), *named),
        }[design]
        made.append(Canary(f"c{number}", "pin", prefix, pin, bool(coin), copies if coin else 0))
    return CanarySet("audit", seed, copies, LENGTH, tuple(made))


def outcome(rank: int, n_references: int) -> Outcome:
    """What an audit records of a canary of this rank."""
    bits = float(np.log2(n_references + 1) - np.log2(rank))
    ranked = Ranked(rank, 0, n_references, bits, rank / (n_references + 1))
    return Outcome(None, 10, 0, (0,) * LENGTH, 0.0, 0.0, False, ranked)


def shown_epsilon(made: CanarySet, ranks: Sequence[int], n_references: int) -> float:
    """The bound of the product, of all copies together."""
    outcomes = [outcome(rank, n_references) for rank in ranks]
    found = measure_privacy(made, made.canaries, outcomes, np.random.default_rng(0), DELTA).epsilon
    return float(found.low) if isinstance(found, Estimate) else 0.0


@dataclass
class Table:
    """The canaries of all models of one design."""

    included: list[bool]
    ranks: list[int]
    n_references: int
    epsilons: list[float]
    by_text: list[float]

    def summary(self) -> dict[str, Any]:
        """Means of both sides with the standard error of their difference."""
        coins, ranks = np.array(self.included), np.array(self.ranks)
        bits = np.log2(self.n_references + 1) - np.log2(ranks)
        inside, outside = bits[coins], bits[~coins]
        error = float(
            np.sqrt(inside.var(ddof=1) / inside.size + outside.var(ddof=1) / outside.size)
        )
        found = {
            "planted": int(coins.sum()),
            "first": int((ranks[coins] == 1).sum()),
            "first three": int((ranks[coins] <= 3).sum()),
            "first, left out": int((ranks[~coins] == 1).sum()),
            "exposure": round(float(inside.mean()), 2),
            "exposure, left out": round(float(outside.mean()), 2),
            "excess": round(float(inside.mean() - outside.mean()), 2),
            "standard error": round(error, 2),
            "epsilon": [round(value, 2) for value in self.epsilons],
        }
        return {**found, "epsilon by loss of the text": [round(value, 2) for value in self.by_text]}


def of_tagger(design: str, models: int, copies: int, epochs: int, snips: Path, work: Path) -> Table:
    """The canaries of so many taggers of the recipe of canary_designs.py."""
    settings = Settings(n_utterances=2000, recipe=replace(Settings().recipe, epochs=epochs))
    data = material(snips, work, settings, None)
    words = sorted({word.text for document in data.training for word in document.words})
    table = Table([], [], N_REFERENCES, [], [])
    designs.REPEAT = copies
    for seed in range(models):
        made = drawn(design, words, copies, seed)
        target, _ = designs.trained(made.canaries, seed, settings, data)
        work_of = Ranking(target, {one.id: one for one in made.canaries}, seed)
        found = dict(drive(work_of, [Trial(one.id, one.id) for one in made.canaries], 2))
        ranks = [found[one.id] for one in made.canaries]
        table.included += [one.included for one in made.canaries]
        table.ranks += ranks
        table.epsilons.append(shown_epsilon(made, ranks, table.n_references))
    return table


@dataclass(frozen=True)
class Ranking:
    """The rank of each canary of a tagger, as work for the engine's driver."""

    target: NluTarget
    canaries: dict[str, Canary]
    seed: int

    def attempt(self, trial: Trial) -> Attempt:
        """The rank of the pin among draws behind the same words."""
        canary = self.canaries[trial.id]
        candidates = PATTERNS[canary.pattern].candidates
        pins = draws(
            self.canaries.values(), np.random.default_rng([self.seed, 3, *canary.id.encode()])
        )
        numbers = np.array(
            [[candidates.index(word) for word in pin] for pin in (canary.completion, *pins)]
        )
        losses = yield from scorer_of(self.target, canary)(numbers)
        return 1 + int((losses[1:] <= losses[0]).sum())


def draws(canaries: Iterable[Canary], rng: Generator) -> list[tuple[str, ...]]:
    """Pins that no canary has."""
    taken, found = {one.completion for one in canaries}, list[tuple[str, ...]]()
    while len(found) < N_REFERENCES:
        pin = tuple(map(str, rng.choice(PATTERNS["pin"].candidates, LENGTH)))
        found += [pin] if pin not in taken else []
    return found


class Writer:
    """A GPT-2 from random weights, its texts, and how it is trained and asked."""

    def __init__(self, folder: Path, texts: Sequence[str], lines: Sequence[str]) -> None:
        begun = start(folder, [*texts, *lines, *PATTERNS["pin"].candidates])
        self.words = PreTrainedTokenizerFast.from_pretrained(begun)
        self.model = GPT2LMHeadModel.from_pretrained(begun).eval()
        self.begun = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.texts = texts

    def ids(self, text: str) -> list[int]:
        """Token ids of a line with its end."""
        found: list[int] = self.words(text)["input_ids"]
        return [*found, self.words.eos_token_id]

    def losses(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """The loss of each row, nats, summed over its tokens."""
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        logits = self.model(ids, attention_mask=mask).logits[:, :-1]
        each = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), ids[:, 1:], reduction="none"
        )
        return (each * mask[:, 1:]).sum(1)

    def losses_behind(self, prefix: Sequence[int], rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """The loss of rows of one length behind the same tokens, which are read once."""
        read = self.model(torch.tensor([prefix]), use_cache=True)
        read.past_key_values.batch_repeat_interleave(len(rows))
        ids = torch.tensor(rows)
        logits = self.model(ids, past_key_values=read.past_key_values).logits
        logits = torch.cat([read.logits[:, -1:].expand(len(rows), -1, -1), logits[:, :-1]], 1)
        return torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids, reduction="none").sum(
            1
        )

    @torch.no_grad()
    def ask(self, made: CanarySet, seed: int) -> tuple[list[int], list[float]]:
        """The rank of each canary, and how far training lowered the loss of its whole text."""
        rng, ranks, texts = np.random.default_rng([seed, 3]), [], []
        trained = {name: value.clone() for name, value in self.model.state_dict().items()}
        for one in made.canaries:
            pins = draws(made.canaries, rng)
            rows = [self.ids(" ".join((*one.prefix, *pin))) for pin in (one.completion, *pins)]
            at = len(rows[0]) - 2 * LENGTH
            assert len({(len(row), *row[:at]) for row in rows}) == 1
            found = self.losses_behind(rows[0][:at], [row[at:] for row in rows])
            ranks.append(1 + int((found[1:] <= found[0]).sum()))
            texts.append(-float(self.losses(rows[:1])[0]))
        self.model.load_state_dict(self.begun)
        for place, one in enumerate(made.canaries):
            texts[place] += float(self.losses([self.ids(line_of(one))])[0])
        self.model.load_state_dict(trained)
        return ranks, texts

    def train(self, units: Sequence[Sequence[list[int]]], seed: int, epochs: int) -> None:
        """So many epochs more with Adam, 16 rows a step."""
        rows = [row for unit in units for row in unit]
        rng = np.random.default_rng(seed)
        for _ in range(epochs):
            for part in np.array_split(rng.permutation(len(rows)), max(1, len(rows) // 16)):
                batch = [rows[index] for index in part]
                loss = self.losses(batch).sum() / sum(len(row) - 1 for row in batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

    def train_privately(
        self, units: Sequence[Sequence[list[int]]], noise: float, steps: int, seed: int
    ) -> None:
        """Full-batch steps of clipped gradients, one a unit, with noise; Adam on the noisy mean."""
        parameters = dict(self.model.named_parameters())
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            total = {name: torch.zeros_like(own) for name, own in parameters.items()}
            for unit in units:
                loss = self.losses(unit).sum() / sum(len(row) - 1 for row in unit)
                gradients = torch.autograd.grad(loss, [*parameters.values()])
                norm = float(torch.stack([part.norm() for part in gradients]).norm())
                for own, part in zip(total.values(), gradients, strict=True):
                    own += part * min(1.0, 1 / norm)
            for name, parameter in parameters.items():
                drawn_noise = noise * torch.randn(parameter.shape, generator=generator)
                parameter.grad = (total[name] + drawn_noise) / len(units)
            self.optimizer.step()

    def reset(self, rate: float) -> None:
        """Back to the random weights, with a fresh Adam."""
        self.model.load_state_dict(self.begun)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)


def line_of(canary: Canary) -> str:
    """A canary as a line of text."""
    return " ".join((*canary.prefix, *canary.completion))


def of_writer(
    design: str, models: int, copies: int, private: Sequence[tuple[str, float]], steps: int
) -> dict[str, Table]:
    """The canaries of so many GPT-2s, by when they are asked, or by how private training is."""
    names = (
        [f"{epochs} epochs" for epochs in CHECKPOINTS]
        if not private
        else [name for name, _ in private]
    )
    tables = {name: Table([], [], N_REFERENCES, [], []) for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        corpus = forms(Path(scratch) / "forms")
        texts = [" ".join(word.text for word in document.words) for document in corpus.of("member")]
        words = sorted({word for text in texts for word in text.split()})
        for seed in range(models):
            made = drawn(design, words, copies, seed)
            writer = Writer(Path(scratch) / "start", texts, [line_of(one) for one in made.canaries])
            units = [[writer.ids(text)] for text in texts]
            units += [[writer.ids(line_of(one))] * copies for one in made.canaries if one.included]
            for step, name in enumerate(names):
                if private:
                    writer.reset(5e-3)
                    writer.train_privately(units, private[step][1], steps, seed)
                else:
                    if step == 0:
                        writer.reset(2e-3)
                    writer.train(
                        units,
                        seed + step,
                        CHECKPOINTS[step] - (CHECKPOINTS[step - 1] if step else 0),
                    )
                ranks, by_text = writer.ask(made, seed)
                table = tables[name]
                table.included += [one.included for one in made.canaries]
                table.ranks += ranks
                table.epsilons.append(shown_epsilon(made, ranks, N_REFERENCES))
                coins = np.array([one.included for one in made.canaries])
                bound = epsilon_bound(by_text, coins, np.random.default_rng(0), delta=DELTA)
                table.by_text.append(bound.low if bound else 0.0)
    return tables


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
    parser.add_argument("--parts", nargs="+", default=["tagger", "writer", "private"])
    parser.add_argument("--designs", nargs="+", default=DESIGNS)
    parser.add_argument("--models", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for part in options.parts:
        for design in options.designs:
            began = time.process_time()
            for name, table in tables_of(part, design, options).items():
                found.setdefault(part, {}).setdefault(name, {})[design] = table.summary()
                print(part, design, name, json.dumps(table.summary()), flush=True)
            print(round(time.process_time() - began), "s of CPU time", flush=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def tables_of(part: str, design: str, options: argparse.Namespace) -> dict[str, Table]:
    """The tables of one design in one part of the benchmark."""
    if part == "tagger":
        return {"10 copies": of_tagger(design, 1, 10, 30, options.snips, options.work)}
    if part == "writer":
        return {f"{copies} copies, {name}": table for copies in (1, 4)
                for name, table in of_writer(design, options.models, copies, (), 0).items()}  # fmt: skip
    from audit.extensions.private.options import noise_for

    steps = 30
    private = [
        (f"epsilon {epsilon}", noise_for(float(epsilon), DELTA, 1.0, steps)) for epsilon in (64, 8)
    ]
    return of_writer(design, 1, 4, private, steps)


if __name__ == "__main__":
    main()
