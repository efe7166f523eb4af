"""Eight kinds of new users with their own models and data, from `save_model` to a verdict.

Each user has a small model, trained from random weights until it knows its documents, and the files
that it was trained on. The memoriser was trained on the documents declared as members, its twin on
other documents of the same source. Both are scanned with the commands below. The memoriser must be
violated (exit code 10), the twin must not. The last user has 40 documents and no unseen ones, so
both must be undecided (exit code 11).

`--documents 160` lets a quick scan try all 80 documents of a side. A limit needs 72 of them. A
quarter, which is what `--budget quick` tries by itself, decides no limit. `init` and `import` print
the command with this option.

    python -m benchmarks.tools.strangers  # rewrites strangers.md
    python -m benchmarks.tools.strangers --only gpt2  # rewrites the rows of one case
    # LiLT reads SROIE's receipts, not invented ones
    python -m benchmarks.tools.strangers --sroie DIR
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.tools import strangers_models as models
from benchmarks.tools import strangers_sources as sources
from benchmarks.tools.strangers_models import SEED, Trainer
from benchmarks.tools.strangers_sources import Page, Writer

MEMBERS = 80
OTHERS = 80
"""Documents of training, and those that the model never saw: over the 72 a side that a limit asks
for."""
ALONE = 40
"""Documents of the user without unseen ones."""
RESULTS = Path(__file__).with_suffix(".md")
FAKES = Path(__file__).parents[2] / "tests" / "fakes"
VISION = f"""
import runpy, sys
sys.path.append({str(FAKES)!r})
import vision_operators
vision_operators.declare_when_imported()
runpy.run_module("audit", run_name="__main__", alter_sys=True)
"""
"""Runs docaudit where torchvision was built for another torch."""
INIT = "init {model} train --heldout-from test --out data --yes"
INSPECT = "inspect data --model {model}"
INIT_LINES = INIT.replace("train", "train.jsonl").replace("test", "test.jsonl")
OCR = "ocr data"
SCAN = f"scan {{model}} data --budget quick --documents {MEMBERS + OTHERS}"


@dataclass(frozen=True)
class Case:
    """Describe a user: model, source and commands.

    Attributes:
        name: of the model and of what it was trained on.
        train: of a model's folder, on pages, with the vocabulary.
        write: makes the files of training and of unseen documents.
        commands: of docaudit, from the files to the verdict; the scan is the last.
        alone: the user has no unseen documents, and so no verdict.
        real: the pages are SROIE's where these are given.
    """

    name: str
    train: Trainer
    write: Writer
    commands: tuple[str, ...]
    alone: bool = False
    real: bool = False


CASES = {
    "lilt": Case(
        "LiLT, tags as a Hugging Face data set",
        models.train_lilt,
        sources.write_tags,
        (INIT, INSPECT, SCAN),
        real=True,
    ),
    "idefics3": Case(
        "LoRA over Idefics3, conversations about images",
        models.adapter_trainer("idefics3"),
        sources.write_chat,
        (INIT_LINES, INSPECT, SCAN),
    ),
    "qwen2_vl": Case(
        "LoRA over Qwen2-VL, conversations about images",
        models.adapter_trainer("qwen2_vl"),
        sources.write_chat,
        (INIT_LINES, INSPECT, SCAN),
    ),
    "donut": Case(
        "Donut, `gt_parse` in `metadata.jsonl`",
        models.train_parser,
        sources.write_parses,
        (INIT, INSPECT, SCAN),
    ),
    "bert": Case(
        "BERT, CoNLL 2003",
        models.train_bert,
        sources.write_conll,
        ("init {model} train.conll --heldout-from test.conll --out data --yes", INSPECT, SCAN),
    ),
    "gpt2": Case(
        "GPT-2, prompts and completions in JSONL",
        models.train_gpt2,
        sources.write_completions,
        (INIT_LINES, INSPECT, SCAN),
    ),
    "scans": Case(
        "LayoutLM, CSV and scanned PDFs",
        models.train_layoutlm,
        sources.write_scans,
        (f"{INIT} --ocr eng", INSPECT, SCAN),
    ),
    "docvqa": Case(
        "Donut, DocVQA without OCR",
        models.train_reader,
        sources.write_docvqa,
        ("init {model} docvqa --out data --yes", OCR, SCAN),
    ),
    "alone": Case(
        f"BERT, {ALONE} documents and no unseen ones",
        models.train_bert,
        sources.write_conll,
        ("init {model} train.conll --out data --yes", INSPECT, "scan {model} data --budget quick"),
        alone=True,
    ),
}


def docaudit(*arguments: str, codes: Sequence[int] = (0,)) -> tuple[int, str]:
    """Run a command in the folder that holds the user's files, and give back its exit code and what it prints.

    Raises:
        SystemExit: its exit code is none of those that may come.
    """
    command = [sys.executable, "-m", "audit", *arguments]
    if "DOCAUDIT_VISION" in os.environ:
        command = [sys.executable, "-c", VISION, *arguments]
    print(f"  docaudit {shlex.join(arguments)}", flush=True)
    ran = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if ran.returncode not in codes:
        raise SystemExit(f"exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
    print("".join(f"    | {line}\n" for line in ran.stdout.splitlines()), end="")
    return ran.returncode, ran.stdout


@dataclass(frozen=True)
class Walk:
    """Hold the results of a user's commands.

    Attributes:
        role: "memoriser" or "twin".
        code: the exit code of the scan.
        said: what the scan printed.
        report: the folder that it wrote.
        trained: seconds of the processor for the training.
        seconds: elapsed from the first command to the verdict.
    """

    role: str
    code: int
    said: str
    report: Path
    trained: float
    seconds: float


def walk(case: Case, work: Path, sroie: Path | None = None) -> Iterator[Walk]:
    """Train memoriser and twin, and go the user's path with each."""
    import torch

    torch.set_num_threads(1)
    n = ALONE if case.alone else MEMBERS
    vocabulary = sources.vocabulary(work / "vocabulary")
    pages = pages_of(case, work, sroie, 2 * n + OTHERS)
    members = pages[:n]
    elsewhere = pages[n : 2 * n]
    others = pages[2 * n :]
    case.write(work, {"train": members} if case.alone else {"train": members, "test": others})
    prepared = None
    with chdir(work):
        for role, learned in (("memoriser", members), ("twin", elsewhere)):
            torch.manual_seed(SEED)
            began = time.process_time()
            case.train(Path(role), learned, vocabulary)
            trained = time.process_time() - began
            began = time.perf_counter()
            if prepared is None:  # the data set is the same for both
                for command in case.commands[:-1]:
                    docaudit(*filled(command, role))
                prepared = time.perf_counter() - began
                began = time.perf_counter()
            report = f"{role}-report"
            code, said = docaudit(
                *filled(case.commands[-1], role), "--out", report, codes=(0, 10, 11)
            )
            yield Walk(
                role, code, said, work / report, trained, prepared + time.perf_counter() - began
            )


def pages_of(case: Case, work: Path, sroie: Path | None, n: int) -> list[Page]:
    """Make so many pages, or read SROIE's in an order of chance."""
    if not case.real or sroie is None:
        return sources.receipts(n, SEED)
    return random.Random(SEED).sample(sources.real_receipts(sroie, work, n), n)


def filled(command: str, model: str) -> list[str]:
    """Split a command, its model and its number of documents filled in."""
    return command.format(model=model).split()


def row(case: Case, done: Walk) -> str:
    """Make one model's row."""
    found = json.loads((done.report / "record.json").read_text())
    numbers = {
        f"{attack['attack']} {one['name']}": one
        for attack in found["attacks"]
        for one in attack.get("measurements", ())
        if one["kind"] == "estimate"
    }
    shown = [
        "-" if one is None else f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"
        for one in map(numbers.get, ("membership auc", "attribute_inference excess.unique"))
    ]
    minutes = f"{done.seconds / 60:.1f}"
    trained = f"{done.trained:.0f} s"
    today = datetime.now(UTC).date()
    cells = (case.name, done.role, done.code, len(case.commands), minutes, *shown, trained, today)
    return f"| {' | '.join(map(str, cells))} |"


def write(rows: Sequence[str]) -> None:
    """Write the table; rows of cases that were not run now stay as they are."""
    names = [case.name for case in CASES.values()]
    old = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    new = {line.split(" | ")[0] for line in rows}
    kept = [line for line in old if line.split(" | ")[0] in {f"| {name}" for name in names} - new]
    rows = sorted(
        [*kept, *rows], key=lambda line: names.index(line.split(" | ")[0].removeprefix("| "))
    )
    missing = [name for name in names if not any(line.startswith(f"| {name} |") for line in rows)]
    columns = (
        *("user", "role", "exit code", "commands", "minutes"),
        *("membership `auc`", "`excess.unique`", "training", "date"),
    )
    listed = []
    for case in CASES.values():
        listed += ["", case.name, "", "```sh"]
        listed += [
            f"docaudit {shlex.join(filled(command, 'my-model'))}" for command in case.commands
        ]
        listed += ["```"]
    text = [
        "# Strangers",
        "",
        (__doc__ or "").split("\n\n    python")[0].replace("\n", " ").replace("  ", "\n\n"),
        "",
        f"`python -m benchmarks.tools.strangers` wrote this page. The machine has {os.cpu_count()} CPU cores "
        f"({platform.machine()}), and other work ran beside it. The seed is {SEED}. Minutes are elapsed time from "
        "the first command to the verdict. Training is processor time. "
        f"{MEMBERS} documents are members; {OTHERS} are held out.",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *rows,
        *([f"\nNot scanned yet: {', '.join(missing)}."] if missing else []),
        "",
        "## Commands",
        *listed,
    ]
    RESULTS.write_text("\n".join(text) + "\n")


def main() -> None:
    """Go the path of the users that are asked for, and write the table."""
    parser = argparse.ArgumentParser(
        description="Scan memorisers and their twins as eight kinds of users would."
    )
    parser.add_argument(
        "--only", choices=CASES, nargs="+", help="these cases; the rows of all others stay"
    )
    parser.add_argument("--sroie", type=Path, help="a folder with SROIE's receipts, for LiLT")
    parser.add_argument("--work", type=Path, help="a folder to keep models and reports in")
    given = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    sys.path.append(str(FAKES))
    importlib.import_module("vision_operators").declare_when_imported()
    work = given.work or Path(tempfile.mkdtemp())
    rows: list[str] = []
    for name in given.only or CASES:
        print(CASES[name].name, flush=True)
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).mkdir(parents=True)
        path = walk(CASES[name], (work / name).resolve(), given.sroie)
        rows += [row(CASES[name], done) for done in path]
        write(rows)
    print("\n".join(rows))
    if given.work is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
