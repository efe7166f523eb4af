"""Recollect and rank on small models that know their rows, know them a little, or know others.

Three families: a GPT-2 that reads pages as text, a Donut and a LLaVA that see pictures of pages.
One of each learns public rows: that is the pretrained model. Three go on from there: "leaky" learns
the audited rows until it gives every answer, "weak" stops at a loss of 0.5, and "clean" learns
others. Each is attacked with as many unseen rows as the control. The memorisation attack, with the
pretrained model as its baseline, is made beside it.

The rule was fixed before these runs. A family shows what the attack is for where at least two of
its three leaky models give back a hidden answer. The attack is refuted where a clean model gives
back one, or where more than 1 % of the unseen answers come back. Pilots on other rows chose the
settings of the attack, and sizes and rates of the models. No limit follows either way.

    # writes recollect.json and recollect.md
    python -m benchmarks.calibration.recollect
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from audit.attacks import questions
from audit.attacks.interface import Attack
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.table import build_table
from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.corpus.documents import Corpus, Word
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Json, Trial
from audit.measurements import Estimate
from audit.targets.answering.target import AnsweringTarget
from audit.targets.interface import Reply

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "fakes"))
answering = import_module("answering")
pictured_pages = import_module("pictured_pages")
text_zoo = import_module("text_zoo")

PLACE = Path(__file__).parent
SEEDS = (4, 5, 6)
STEPS = 60
"""Of the pretrained model; the others stop at their loss, or after three times as many."""
STOPS = {"leaky": 0.005, "weak": 0.5, "clean": 0.005}
"""Mean loss of a token at which training ends."""
WIDTH = 16
LEAKS = 2
"""Leaky models of a family that must give back an answer."""
FALSE_ALARMS = 0.01
"""Share of the unseen answers that may come back."""


def as_text(corpus: Corpus, folder: Path) -> Corpus:
    """Take the boxes off the pages; nothing is written to the folder."""
    documents = []
    for document in corpus.documents:
        words = tuple(Word(word.text) for word in document.words)
        documents.append(replace(document, words=words, size=None))
    return replace(corpus, documents=tuple(documents))


def write_gpt2(folder: Path, seed: int) -> Path:
    """Write a GPT-2 of two layers with fresh weights."""
    tokenizer = text_zoo.byte_tokenizer()
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=text_zoo.LONGEST,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class Family:
    """A kind of model.

    Attributes:
        rows: audited rows, and as many unseen ones.
        public: rows of the pretrained model.
        draw: makes of a data set what the model reads, in a folder.
        write: writes an untrained model of a seed.
        prompt: prompt of a model that reads text.
    """

    rows: int
    public: int
    draw: Callable[[Corpus, Path], Corpus]
    write: Callable[[Path, int], Path]
    prompt: str | None = None


FAMILIES = {
    "GPT-2": Family(16, 24, as_text, write_gpt2, text_zoo.PLAIN_PROMPT),
    "Donut": Family(8, 8, pictured_pages.pictured, pictured_pages.untrained_donut),
    "LLaVA": Family(8, 8, pictured_pages.pictured, pictured_pages.untrained_llava),
}


COLUMNS = (
    *("family", "seed", "model", "proposed", "found", "missed", "false alarms"),
    *("excess, 95 % interval", "power", "tokens", "seconds"),
    *("memorisation: found", "false alarms", "tokens", "seconds"),
)


class Count:
    """Counts the tokens that models write or score."""

    def __init__(self, *models: AnsweringTarget) -> None:
        """Count of these models, whatever asks them."""
        self.tokens = 0
        for model in models:
            model.ask = self._counted(type(model).ask.__get__(model))  # type: ignore[method-assign]

    def _counted(self, ask: Any) -> Any:
        """Return a way to ask that counts."""

        def asked(queries: Sequence[Any]) -> Any:
            answers = ask(queries)
            for answer in answers:
                self.tokens += answer.n_tokens if isinstance(answer, Reply) else np.size(answer)
            return answers

        return asked


@dataclass(frozen=True)
class Attacked:
    """An attack on a model: its trials, their outcomes, and what it took."""

    trials: Sequence[Trial]
    outcomes: Sequence[Json]
    tokens: int
    seconds: float


def run(attack: Attack, case: Case, models: Sequence[AnsweringTarget]) -> Attacked:
    """Run all trials of an attack, each with a source of randomness that follows from its id."""
    trials = attack.trials(case)
    count = Count(*models)

    def attempt(trial: Trial) -> Any:
        return attack.attempt(case, trial, np.random.default_rng([*trial.id.encode()]))

    began = time.perf_counter()
    found = dict(drive(SimpleNamespace(attempt=attempt), trials, WIDTH))
    seconds = round(time.perf_counter() - began, 1)
    return Attacked(trials, [found[trial.id] for trial in trials], count.tokens, seconds)


def recollect(case: Case, models: Sequence[AnsweringTarget]) -> Json:
    """Attack a model by recollection, and count what came back."""
    attack = Reconstruction()
    attacked = run(attack, case, models)
    outcomes = attacked.outcomes
    rng = np.random.default_rng(0)
    result = attack.measure(case, attacked.trials, outcomes, rng, SILENT)
    measured = {item.name: item for item in result.measurements if isinstance(item, Estimate)}
    excess = measured["excess_pr.unique.recollected"]
    n_members = len(case.corpus.of("member"))
    members = outcomes[:n_members]
    return {
        "proposed": sum(outcome["attack"]["among"] for outcome in members),
        "found": sum(outcome["attack"]["exact"] for outcome in members),
        "false alarms": sum(outcome["attack"]["exact"] for outcome in outcomes[n_members:]),
        "excess": [excess.value, excess.low, excess.high],
        "power": measured["planted_detection.unique"].value,
        "tokens": attacked.tokens,
        "seconds": attacked.seconds,
    }


def ask_for_answers(case: Case, models: Sequence[AnsweringTarget]) -> Json:
    """Attack a model by memorisation, and count answers that its baseline did not give."""
    attacked = run(Memorisation.preset("standard"), case, models)
    table = build_table(case, attacked.trials, attacked.outcomes)
    came_back = {}
    for split in ("member", "heldout"):
        proven = table.split(split).proven
        gained = [results.gained > 0 for results in proven.results.values()]
        came_back[split] = int(np.any(gained, axis=0).sum())
    return {
        "found": came_back["member"],
        "false alarms": came_back["heldout"],
        "tokens": attacked.tokens,
        "seconds": attacked.seconds,
    }


def run_seed(family: Family, seed: int, root: Path) -> dict[str, Json]:
    """Train the models of one family and seed, and attack each."""
    drawn = {}
    sizes = {"audited": (family.rows, family.rows), "public": (family.public, 0)}
    sizes["others"] = (family.rows, 0)
    for place, (name, (n_member, n_heldout)) in enumerate(sizes.items()):
        corpus = answering.corpus(n_member, n_heldout, seed=100 * seed + place)
        drawn[name] = family.draw(corpus, root / name)
    start = family.write(root / "untrained", seed)

    def teach(source: Path, name: str, corpus: Corpus, stop: float, most: int) -> AnsweringTarget:
        samples = pictured_pages.samples_of(corpus, corpus.of("member"))
        taught: AnsweringTarget = pictured_pages.teach(
            source, root / name, samples, stop=stop, most=most, prompt=family.prompt
        )
        return taught

    pretrained = teach(start, "pretrained", drawn["public"], 0.0, STEPS)
    rows = {}
    for name, stop in STOPS.items():
        learnt = drawn["others" if name == "clean" else "audited"]
        target = teach(root / "pretrained", name, learnt, stop, 3 * STEPS)
        models = (target, pretrained)
        audited = drawn["audited"]
        recollected = recollect(Case(target, audited, References(pretrained=pretrained)), models)
        case = Case(target, audited, References(baselines=(pretrained,)))
        rows[name] = {**recollected, "memorisation": ask_for_answers(case, models)}
    return rows


def judge(families: dict[str, Any]) -> list[str]:
    """Hold the numbers against the rule, in a sentence each."""
    sentences = []
    of_clean = 0
    unseen = 0
    alarms = 0
    for name, seeds in families.items():
        leaks = sum(rows["leaky"]["found"] > 0 for rows in seeds.values())
        word = "shows" if leaks >= LEAKS else "does not show"
        sentences.append(
            f"{name} {word} it: {leaks} of {len(seeds)} leaky models gave back answers."
        )
        for rows in seeds.values():
            of_clean += rows["clean"]["found"]
            unseen += FAMILIES[name].rows * len(rows)
            alarms += sum(row["false alarms"] for row in rows.values())
    refuted = of_clean > 0 or alarms > FALSE_ALARMS * unseen
    word = "refuted" if refuted else "not refuted"
    sentences.append(
        f"The attack is {word}: clean models gave back {of_clean} answers, "
        f"all models {alarms} of {unseen} unseen ones."
    )
    return [*sentences, _compare(families)]


def _compare(families: dict[str, Any]) -> str:
    """Say in how many models each attack found more than the other."""
    models: list[Any] = []
    for seeds in families.values():
        for rows in seeds.values():
            models += rows.values()
    differences = [row["found"] - row["memorisation"]["found"] for row in models]
    more = sum(difference > 0 for difference in differences)
    fewer = sum(difference < 0 for difference in differences)
    return (
        f"Recollection found more than memorisation in {more} of {len(models)} models, "
        f"and fewer in {fewer}."
    )


def render(results: dict[str, Any]) -> str:
    """Write the table."""
    lines = [
        "# Recollect and rank on small models",
        "",
        "`python -m benchmarks.calibration.recollect` wrote this page on a busy machine:",
        f"{results['machine']}.",
        "",
        "Pilots chose the settings. That of the GPT-2 found 11 of 48 answers of leaky models.",
        "The rule was fixed before the runs (see the script).",
        *results["judged"],
        "No limit is held against these numbers, so none is calibrated.",
        "",
        "“Memorisation” is that attack on the same model, with the pretrained one as its baseline.",
        "Tokens are those that models wrote or scored.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    for family, seeds in results["families"].items():
        for seed, rows in seeds.items():
            for name, row in rows.items():
                lines.append(_line(family, seed, name, row))
    return "\n".join(lines) + "\n"


def _line(family: str, seed: str, name: str, row: dict[str, Any]) -> str:
    """Write a row of the table."""
    value, low, high = row["excess"]
    asked = row["memorisation"]
    missed = FAMILIES[family].rows - row["found"]
    cells = [family, seed, name, row["proposed"], row["found"], missed, row["false alarms"]]
    cells += [f"{value:.2f} [{low:.2f}, {high:.2f}]", f"{row['power']:.2f}"]
    cells += [f"{row['tokens']:,}", row["seconds"], asked["found"], asked["false alarms"]]
    cells += [f"{asked['tokens']:,}", asked["seconds"]]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Measure all seeds of all families, and write both files."""
    torch.set_num_threads(1)
    questions.TESSERACT = pictured_pages.Sharp()
    families: dict[str, Any] = {}
    for name, family in FAMILIES.items():
        families[name] = {}
        for seed in SEEDS:
            with TemporaryDirectory() as folder:
                families[name][str(seed)] = run_seed(family, seed, Path(folder))
            print(name, seed, families[name][str(seed)], flush=True)
    day = dt.datetime.now(dt.UTC).date()
    machine = f"{day}, {os.cpu_count()}-core {platform.machine()}"
    results = {"machine": machine, "judged": judge(families), "families": families}
    (PLACE / "recollect.json").write_text(json.dumps(results, indent=1) + "\n")
    (PLACE / "recollect.md").write_text(render(results))


if __name__ == "__main__":
    main()
