"""Are people told from others by their names alone? See `people_by_name.md`.

    # writes people_by_name.json, and the tables of people_by_name.md
    python -m benchmarks.papers.people_by_name [--rule decoders] --work FOLDER

What is in the folder of `--work` already is not trained again.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.arrays import Bools, Floats
from audit.attacks.membership.by_name import chosen_scores
from audit.attacks.people import count_recognised, people_of
from audit.corpus.documents import Corpus
from audit.measurements import Estimate, Measurement
from benchmarks.papers.pages import put_tables
from benchmarks.papers.people_by_name_models import FAMILIES, Family, ask_names, ask_pages
from benchmarks.papers.people_by_name_report import tables
from benchmarks.papers.people_by_name_scores import (
    area_of,
    folds_of,
    gain_of,
    judged_people,
    naming_only,
    page_scores,
    recognised,
)

HERE = Path(__file__).parent
RULES = {"families": (("writer", "tagger"), (0, 1, 2)), "decoders": (("writer",), (4, 5, 6))}
"""Families and numbers of runs, by rule; trainings of run 3 chose the epochs."""
STRENGTHS = ("leaky", "weak", "clean")
MACHINE = "2-core CPU, one thread"
PAGE_SCORES = ("loss", "calibrated")


@dataclass(frozen=True)
class Asked:
    """What a run asks of every model of a family.

    Attributes:
        corpus: documents of members and unseen ones; judged people are its only entities.
        people: the judged people, as of `people_of`.
        written: their names as they are written.
        member: whether members' documents name them, (n_people,).
        numbers: numbers of the documents, in the order of the corpus.
        seed: of the folds.
    """

    corpus: Corpus
    people: Sequence[str]
    written: Sequence[str]
    member: Bools
    numbers: Sequence[int]
    seed: int


@dataclass(frozen=True)
class Answers:
    """Losses by a model: of names (n_people, n_prompts), and of documents (n_documents,)."""

    names: Floats
    pages: Floats


def prepare(family: Family, run: int) -> Asked:
    """Draw the documents of a run, and the people who are judged."""
    whole_corpus = family.corpus(run)
    judged = judged_people(whole_corpus, run)
    corpus = naming_only(whole_corpus, judged)
    side = people_of(corpus).side
    member = np.array([side[person] == "member" for person in judged])
    numbers = family.numbers(run)
    return Asked(
        corpus,
        list(judged),
        list(judged.values()),
        member,
        [*numbers["member"], *numbers["heldout"]],
        run,
    )


def ask(family: Family, model: Any, asked_of: Asked) -> Answers:
    """Ask a model for the names and the pages of a run."""
    return Answers(
        ask_names(family, model, asked_of.written), ask_pages(family, model, asked_of.numbers)
    )


def by_name(family: Family, run: Asked, target: Answers, start: Answers) -> dict[str, Any]:
    """Measure what the names tell: areas, gains, recognised people, and areas by prompt."""
    columns = {
        "loss": -target.names,
        "calibrated": start.names - target.names,
        "pretrained": -start.names,
    }
    halves = folds_of(run.member, run.seed)
    undivided = np.zeros_like(halves)
    areas: dict[str, list[float]] = {}
    gains: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    for aggregation, folds in {"mean": undivided, "chosen": halves}.items():
        by_score: dict[str, Floats] = {}
        for name, scores in columns.items():
            values = scores.mean(axis=1)
            if aggregation == "chosen":
                values = chosen_scores(scores, run.member, folds)
            by_score[name] = values
            areas[f"{name}, {aggregation}"] = area_of(values, run.member, folds)
            shares[f"{name}, {aggregation}"] = recognised(values, run.member, folds)
        gains[f"calibrated, {aggregation}"] = gain_of(
            by_score["calibrated"], by_score["pretrained"], run.member, folds
        )
    prompts: dict[str, list[float]] = {}
    for prompt, column in zip(family.prompts, columns["calibrated"].T, strict=True):
        prompts[prompt] = area_of(column, run.member, undivided)
    return {"areas": areas, "gains": gains, "recognised": shares, "prompts": prompts}


def by_page(run: Asked, target: Answers, start: Answers) -> dict[str, Any]:
    """Measure what the pages tell of the same people, counted as the audit counts them."""
    ids = [document.id for document in run.corpus.documents]
    columns = {"loss": -target.pages, "calibrated": start.pages - target.pages}
    undivided = np.zeros(len(run.member), np.int64)
    areas: dict[str, list[float]] = {}
    for name, column in columns.items():
        of_documents = dict(zip(ids, column.tolist(), strict=True))
        scores = page_scores(run.corpus, run.people, of_documents)
        areas[name] = area_of(scores, run.member, undivided)
    shares: dict[str, list[float]] = {}
    for count in count_recognised(run.corpus, ids, columns):
        shares[count.method] = [_share(count.member), _share(count.heldout)]
    return {"areas": areas, "recognised": shares}


def _share(measurement: Measurement) -> float:
    """Return the share of people who were recognised."""
    assert isinstance(measurement, Estimate)
    return round(measurement.value, 3)


def measure_run(name: str, root: Path, number: int) -> dict[str, dict[str, Any]]:
    """Measure a run of a family, by strength; what was measured already is read."""
    place = root / f"run {number}.json"
    if place.exists():
        stored: dict[str, dict[str, Any]] = json.loads(place.read_text())
        return stored
    family = FAMILIES[name](root)
    run = prepare(family, number)
    start = ask(family, family.kind.start(root).eval(), run)
    sides = [int(run.member.sum()), int((~run.member).sum())]
    results: dict[str, dict[str, Any]] = {}
    for strength in STRENGTHS:
        target = ask(family, family.trained(root, number, strength), run)
        measured = by_name(family, run, target, start)
        measured["pages"] = by_page(run, target, start)
        results[strength] = {"people": sides, **measured}
        print(name, number, strength, measured["areas"], flush=True)
    place.write_text(json.dumps(results))
    return results


def main() -> None:
    """Measure what a rule asks for run by run, and write the numbers and the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rule", choices=RULES, default="families")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names, runs = RULES[arguments.rule]
    families: dict[str, dict[str, list[Any]]] = {}
    for number in runs:
        for name in names:
            results = measure_run(name, arguments.work / name, number)
            by_strength = families.setdefault(name, {strength: [] for strength in STRENGTHS})
            for strength, measured in results.items():
                by_strength[strength].append(measured)
        _write(arguments.rule, families)


def _write(rule: str, families: Mapping[str, Any]) -> None:
    """Write what a rule measured, beside what another one did, and the tables of the page."""
    place = HERE / "people_by_name.json"
    numbers = json.loads(place.read_text(encoding="utf-8"))
    numbers["date"] = dt.datetime.now(tz=dt.UTC).date().isoformat()
    numbers["machine"] = MACHINE
    numbers[rule] = families
    place.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    put_tables(HERE / "people_by_name.md", tables(numbers))


if __name__ == "__main__":
    main()
