"""Memorisation and simplicity of single answers by split models (Pinto et al. 2024, appendix C).

    python -m benchmarks.papers.split_memorisation --work FOLDER

trains models of the questions sample, each on half of its training documents, and asks every model
all questions about pages without their answer. M of a question is the share of models that answer
it and were trained on its document, less the share of those that answer it and were not. S, the
simplicity, is the share of the latter. docaudit proves memory with one baseline instead; the
benchmark asks whether M agrees. What FOLDER holds already is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from audit import record as records
from audit.arrays import Bools, Floats, Ints
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.table import QuestionTable, build_table
from audit.corpus import manifest
from audit.progress import SILENT
from audit.references.training import train_splits
from audit.stats.intervals import Interval, proportion
from audit.workflows.options import ScanOptions, claim_folder
from audit.workflows.run import read_outcomes, run_scan
from audit.workflows.session import Session, open_session

SAMPLE = Path(__file__).parents[2] / "sample_models" / "questions"
HERE = Path(__file__).parent
SEED = 0
MEMORISED = 0.5
"""M above which a question counts as memorised: most models with its document answer it, and few
without."""


@dataclass(frozen=True)
class Answers:
    """Which questions of training documents a model answered, of those proven to be removed.

    Attributes:
        questions: document and question, by row.
        documents: document, by row.
        given: whether the model gave the answer, (n_questions,).
        given_by_baseline: whether the sample's baseline gave it, (n_questions,).
    """

    questions: tuple[str, ...]
    documents: tuple[str, ...]
    given: Bools
    given_by_baseline: Bools


@dataclass(frozen=True)
class Scores:
    """M and S of every question; each has shape (n_questions,)."""

    memorisation: Floats
    simplicity: Floats


@dataclass(frozen=True)
class Share:
    """A share of questions with its 95 % interval over documents."""

    hits: int
    tried: int
    low: float
    high: float


def main() -> None:
    """Train the models, ask them, and write the numbers."""
    options = _parse_options()
    began = time.process_time()
    corpus = manifest.load(SAMPLE / "data")
    splits = train_splits(
        None, corpus, options.work / "splits", count=options.models, seed=SEED, progress=SILENT
    )
    audited = answers_of(SAMPLE / "model", options.work / "audited")
    by_model = []
    trained_on = []
    for folder, members in splits:
        answers = answers_of(folder, options.work / f"asked-{folder.name}")
        if answers.questions != audited.questions:
            raise SystemExit(f"{folder} was asked other questions: give another --work")
        by_model.append(answers.given)
        trained_on.append([document in members for document in audited.documents])
        print(f"{folder.name}: {int(answers.given.sum())} of {answers.given.size}", flush=True)
    scores = scores_of(np.array(by_model, bool), np.array(trained_on, bool))
    content = {
        "models": len(splits),
        "machine": options.machine,
        "date": options.date,
        "processor_minutes": round((time.process_time() - began) / 60, 1),
        "rows": rows_of(audited, scores),
    }
    (options.out / "split_memorisation.json").write_text(json.dumps(content, indent=1) + "\n")
    (options.out / "split_memorisation.md").write_text(page_of(content))


def page_of(content: dict[str, Any]) -> str:
    """Write the page: what the models on halves say about what one baseline proves."""
    lines = [
        "# Memorisation of single answers, by models trained on halves",
        "",
        f"`python -m benchmarks.papers.split_memorisation` wrote this page: {content['date']}, "
        f"{content['machine']}, {content['processor_minutes']} minutes of processor time.",
        "",
        f"{content['models']} models of the questions sample, a small Donut, were each trained on",
        "half of its 80 training documents. All were asked all 320 questions about pages whose",
        "answer is proven to be gone. M is the share of models with the document that answer, less the share",
        "without it. S is the share without it (Pinto et al. 2024, appendix C, with 50 models and",
        "real documents). A question counts as memorised where M is above one half.",
        "",
        "| questions, by what the audit with one baseline says | n | memorised | mean M | mean S |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in content["rows"]:
        if not row["n"]:
            lines.append(f"| {row['questions']} | 0 |  |  |  |")
            continue
        share = row["memorised"]
        found = f"{share['hits']} of {share['tried']} [{share['low']:.3f}, {share['high']:.3f}]"
        numbers = f"{row['mean M']:.3f} | {row['mean S']:.3f}"
        lines.append(f"| {row['questions']} | {row['n']} | {found} | {numbers} |")
    lines += [
        "",
        "The proof with one baseline needs one more model, M needs ten. Documents are invented,",
        "and answers of one kind cannot be guessed, so that S says little here.",
    ]
    return "\n".join(lines) + "\n"


def _parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of models and scans")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the numbers")
    parser.add_argument("--models", type=int, default=10, help="split models, even (the paper: 50)")
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    parser.add_argument("--date", required=True, help="date of the run, YYYY-MM-DD")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def scores_of(given: Bools, trained_on: Bools) -> Scores:
    """Compute M and S of every question.

    Args:
        given: whether each model gave each answer, (n_models, n_questions).
        trained_on: whether each model was trained on the question's document, the same shape; every
            question needs a model of either kind.

    Example:
        >>> scores_of(np.array([[True], [False]]), np.array([[True], [False]])).memorisation
        array([1.])
    """
    inside = (given & trained_on).sum(axis=0) / trained_on.sum(axis=0)
    outside = (given & ~trained_on).sum(axis=0) / (~trained_on).sum(axis=0)
    return Scores(inside - outside, outside)


def rows_of(audited: Answers, scores: Scores) -> list[dict[str, Any]]:
    """Summarise M and S for groups of questions by what the audited model and the baseline gave."""
    groups = {
        "given by the model alone (proven memory)": audited.given & ~audited.given_by_baseline,
        "given by model and baseline": audited.given & audited.given_by_baseline,
        "not given by the model": ~audited.given,
    }
    clusters = np.unique(audited.documents, return_inverse=True)[1]
    rows: list[dict[str, Any]] = []
    for name, taken in groups.items():
        row: dict[str, Any] = {"questions": name, "n": int(taken.sum())}
        if taken.any():
            memorised = scores.memorisation[taken] > MEMORISED
            row["memorised"] = asdict(_share(memorised, clusters[taken]))
            row["mean M"] = round(float(scores.memorisation[taken].mean()), 3)
            row["mean S"] = round(float(scores.simplicity[taken].mean()), 3)
        rows.append(row)
    return rows


def _share(hits: Bools, clusters: Ints) -> Share:
    """Return a share of questions with its interval over documents."""
    interval: Interval = proportion(hits, clusters)
    return Share(int(hits.sum()), hits.size, round(interval.low, 3), round(interval.high, 3))


def answers_of(model: Path, out: Path) -> Answers:
    """Ask a model every question about a page without the answer; a finished scan is read again."""
    opened = _session_of(model, out)
    if not (out / "record.json").exists():
        with claim_folder(out):
            records.write(run_scan(opened, SILENT), out / "record.json")
    (attack,) = opened.attacks
    planned, outcomes = read_outcomes(opened, attack.name)
    table = build_table(planned.case, planned.trials, outcomes).split("member").proven
    results = table.results["exact"]
    return Answers(
        questions=tuple(f"{asked.document.id} {asked.question.id}" for asked in table.asked),
        documents=_documents_of(table),
        given=results.target > MEMORISED,
        given_by_baseline=results.baseline > MEMORISED,
    )


def _documents_of(table: QuestionTable) -> tuple[str, ...]:
    """Return the document of every row."""
    return tuple(asked.document.id for asked in table.asked)


def _session_of(model: Path, out: Path) -> Session:
    """Open a scan that asks all questions in the context of the training, and in no other."""
    opened = open_session(
        ScanOptions(
            model_dir=model,
            data_dir=SAMPLE / "data",
            out=out,
            only=("memorisation",),
            dtype="float32",
            references={"baselines": [SAMPLE / "baseline"]},
        )
    )
    sampling = replace(opened.sampling, budget="benchmark", share=1.0)
    return replace(opened, sampling=sampling, attacks=(Memorisation(contexts=("exact",)),))


if __name__ == "__main__":
    main()
