"""New users with their own models and data, from `save_model` to a verdict.

Each user has a small model, trained from random weights until it knows its documents, and the files
that it was trained on. The memoriser was trained on the documents declared as members, its twin on
other documents of the same source. Both are scanned with the commands below. The memoriser must
exceed a limit (exit code 10), the twin must not. A user with 40 documents and no unseen ones is
undecided (exit code 11), and so is one whose server refuses every question.

A served model is planted: it knows the answers of its documents by heart and reads those of others.

`--documents 160` lets a quick scan try all 80 documents of a side. A limit needs 72 of them. A
quarter, which is what `--budget quick` tries by itself, decides no limit. `init` and `import` print
the command with this option.

    python -m benchmarks.tools.strangers  # rewrites strangers.md
    python -m benchmarks.tools.strangers --only gpt2  # rewrites the rows of one case
    python -m benchmarks.tools.strangers --forked  # loads the libraries once, not for each command
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, chdir, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.tools import strangers_adapters as adapters
from benchmarks.tools import strangers_files as files
from benchmarks.tools import strangers_forks as forks
from benchmarks.tools import strangers_lines as lines
from benchmarks.tools import strangers_models as models
from benchmarks.tools import strangers_served as served
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
FORKED = "DOCAUDIT_STRANGERS_FORKED"
"""Names the variable that says that commands run in forks of this process."""
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
INSPECT = "inspect {model} data"
INIT_LINES = INIT.replace("train", "train.jsonl").replace("test", "test.jsonl")
INIT_SCANS = "init {model} scans/train --heldout-from scans/test"
OCR = "ocr data"
SCAN = f"scan {{model}} data --budget quick --documents {MEMBERS + OTHERS}"
SCAN_SERVED = f"{SCAN} --reference baselines={{baseline}}"


@dataclass(frozen=True)
class Case:
    """Describe a user: model, source and commands.

    Attributes:
        name: of the model and of what it was trained on.
        train: of a model's folder, on pages, with the vocabulary; None: it is served.
        write: makes the files of training and of unseen documents.
        commands: of docaudit, from the files to the verdict; the scan is the last.
        refused: the exit code of each command that says what to do instead, by its place.
        alone: the user has no unseen documents, and so no verdict.
        real: the pages are SROIE's where these are given.
        prompt: what the user writes into manifest.toml, where `init` asks for it.
        draw: makes the pages.
        fault: of the server, where the model is served and the server is not sound.
        verdicts: exit codes that a memoriser may end with.
    """

    name: str
    train: Trainer | None
    write: Writer
    commands: tuple[str, ...]
    refused: Mapping[int, int] = field(default_factory=dict)
    alone: bool = False
    real: bool = False
    prompt: str | None = None
    draw: Callable[[int, int], list[Page]] = sources.receipts
    fault: Callable[[], served.Fault] | None = None
    verdicts: tuple[int, ...] = (10,)

    @property
    def prepared(self) -> int:
        """The number of commands that make the data set, before the first scan."""
        scans = [command.startswith("scan ") for command in self.commands]
        return scans.index(True)


def served_case(name: str, fault: Callable[[], served.Fault], **more: Any) -> Case:
    """Describe a user whose model answers behind a server."""
    settings: dict[str, Any] = {"commands": (INIT_LINES, SCAN_SERVED), **more}
    return Case(
        f"Served model, {name}",
        None,
        files.write_chat_lines,
        draw=sources.labelled_receipts,
        fault=fault,
        **settings,
    )


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
        adapters.adapter_trainer("idefics3"),
        sources.write_chat,
        (INIT_LINES, INSPECT, SCAN),
    ),
    "qwen2_vl": Case(
        "LoRA over Qwen2-VL, conversations about images",
        adapters.adapter_trainer("qwen2_vl"),
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
        verdicts=(11,),
    ),
    "llama": Case(
        "LoRA over Llama, `messages` in Parquet",
        adapters.train_llama,
        files.write_chat_parquet,
        ("init {model} chats --out data --yes", INSPECT, SCAN),
    ),
    "paligemma": Case(
        "PaliGemma that writes JSON, images and JSON in Parquet",
        adapters.train_paligemma,
        files.write_json_parquet,
        ("init {model} bills --out data --yes", INSPECT, SCAN),
        prompt=adapters.PALIGEMMA_PROMPT,
    ),
    "layoutlmv3": Case(
        "LayoutLMv3, a DatasetDict and the Trainer's folder",
        models.train_layoutlmv3,
        files.write_dataset_dict,
        (
            "init {model} forms --out data --yes",
            "init {model}/checkpoint-420 forms --out data --yes",
            SCAN.replace("{model}", "{model}/checkpoint-420"),
        ),
        refused={0: 2},
    ),
    "spacy": Case(
        "BERT, spaCy's texts with entities",
        models.train_bert,
        files.write_spacy,
        (INIT.replace("train", "train.json").replace("test", "test.json"), INSPECT, SCAN),
    ),
    "tiffs": Case(
        "DistilBERT, classes of scanned TIFFs of two pages",
        models.train_classifier,
        files.write_tiffs,
        (
            f"{INIT_SCANS} --folders label --out data --yes --ocr eng",
            INSPECT,
            SCAN,
        ),
    ),
    "donut_lines": Case(
        "Donut, images of lines with `text`",
        lines.train_donut,
        files.write_line_images,
        (INIT, INSPECT, SCAN),
    ),
    "trocr": Case(
        "TrOCR, images of lines with `text`",
        lines.train_trocr,
        files.write_line_images,
        (INIT, INSPECT, SCAN),
    ),
    "pix2struct": Case(
        "Pix2Struct, images of lines with `text`",
        lines.train_pix2struct,
        files.write_line_images,
        (INIT, INSPECT, SCAN),
    ),
    "served_slow": served_case("half a second an answer", served.slow),
    "served_busy": served_case("with errors 429 and 500", served.busy),
    "served_stopping": served_case(
        "stops and is started again",
        served.stopping,
        commands=(INIT_LINES, SCAN_SERVED, SCAN_SERVED),
        refused={1: 1},
    ),
    "served_refusing": served_case("refuses every question", served.refusing, verdicts=(11,)),
}


def docaudit(*arguments: str, codes: Sequence[int] = (0,)) -> tuple[int, str]:
    """Run a command in the folder that holds the user's files, and give back its exit code and what it prints.

    Raises:
        SystemExit: its exit code is none of those that may come.
    """
    print(f"  docaudit {shlex.join(arguments)}", flush=True)
    run = _run_forked if FORKED in os.environ else _run
    code, text = run(arguments)
    print("".join(f"    | {line}\n" for line in text.splitlines()), end="", flush=True)
    if code not in codes:
        raise SystemExit(f"exit code {code}")
    return code, text


def _run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run a command in a process of its own, and return its exit code and what it prints."""
    command = [sys.executable, "-m", "audit", *arguments]
    if "DOCAUDIT_VISION" in os.environ:
        command = [sys.executable, "-c", VISION, *arguments]
    ran = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return ran.returncode, ran.stdout


def _run_forked(arguments: Sequence[str]) -> tuple[int, str]:
    """Run a command in a fork of this process, and return its exit code and what it prints."""
    log = Path("printed.txt")
    code = forks.run_forked(lambda: forks.command(arguments), log)
    return code, log.read_text()


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


@dataclass(frozen=True)
class Pages:
    """Hold the documents of a user.

    Attributes:
        members: that the memoriser learnt.
        elsewhere: that its twin learnt.
        others: that no model saw.
    """

    members: list[Page]
    elsewhere: list[Page]
    others: list[Page]


def walk(case: Case, work: Path, sroie: Path | None = None) -> Iterator[Walk]:
    """Train memoriser and twin, and go the user's path with each."""
    import torch

    torch.set_num_threads(1)
    n = ALONE if case.alone else MEMBERS
    vocabulary = sources.vocabulary(work / "vocabulary")
    every_page = pages_of(case, work, sroie, 2 * n + OTHERS)
    pages = Pages(every_page[:n], every_page[n : 2 * n], every_page[2 * n :])
    parts = {"train": pages.members}
    if not case.alone:
        parts["test"] = pages.others
    case.write(work, parts)
    prepared = None
    with chdir(work), _served(case, pages) as address:
        for role, learned in (("memoriser", pages.members), ("twin", pages.elsewhere)):
            trained = _train(case, role, learned, vocabulary)
            model = role if address is None else f"{address}#{role}"
            if prepared is None:  # the data set is the same for both
                prepared = _prepare(case, model)
            began = time.perf_counter()
            report = f"{role}-report"
            code, said = _scan(case, model, report)
            seconds = prepared + time.perf_counter() - began
            yield Walk(role, code, said, work / report, trained, seconds)


def _served(case: Case, pages: Pages) -> AbstractContextManager[str | None]:
    """Serve memoriser, twin and baseline where the user's model is served."""
    if case.train is not None:
        return nullcontext()
    models = {"memoriser": pages.members, "twin": pages.elsewhere, "baseline": []}
    return served.serving(models, case.fault and case.fault())


def _train(case: Case, role: str, learned: list[Page], vocabulary: Path) -> float:
    """Train a user's model, and return the seconds of the processor that it took."""
    import torch

    trainer = case.train
    if trainer is None:
        return 0.0

    def train() -> int:
        """Train, and leave the time that it took in a file."""
        torch.manual_seed(SEED)
        began = time.process_time()
        trainer(Path(role), learned, vocabulary)
        Path("trained.txt").write_text(str(time.process_time() - began))
        return 0

    if FORKED not in os.environ:
        train()
    elif forks.run_forked(train) != 0:
        raise SystemExit("the training failed")
    return float(Path("trained.txt").read_text())


def _prepare(case: Case, model: str) -> float:
    """Make the data set as the user does, and return the seconds that it took."""
    began = time.perf_counter()
    for place, command in enumerate(case.commands[: case.prepared]):
        docaudit(*filled(command, model), codes=(case.refused.get(place, 0),))
        if case.prompt is not None and command.startswith("init "):
            _write_prompt(Path("data", "manifest.toml"), case.prompt)
    return time.perf_counter() - began


def _write_prompt(manifest: Path, prompt: str) -> None:
    """Write the prompt of the training into a manifest, as its comments or `init` say."""
    text = manifest.read_text()
    line = f"prompt = {json.dumps(prompt)}\n"
    if "[recipe]\n" in text:
        manifest.write_text(text.replace("[recipe]\n", f"[recipe]\n{line}"))
    else:
        manifest.write_text(f"{text}\n[recipe]\n{line}")


def _scan(case: Case, model: str, report: str) -> tuple[int, str]:
    """Scan as the user does, and return the last exit code and what that scan printed."""
    result = (0, "")
    for place, command in enumerate(case.commands):
        if place >= case.prepared:
            codes = (case.refused[place],) if place in case.refused else (0, 10, 11)
            result = docaudit(*filled(command, model), "--out", report, codes=codes)
    return result


def right_codes(case: Case, role: str) -> tuple[int, ...]:
    """Return the exit codes of a right verdict on a memoriser or its twin."""
    if role == "memoriser":
        return case.verdicts
    return (0, 11)


def pages_of(case: Case, work: Path, sroie: Path | None, n: int) -> list[Page]:
    """Make so many pages, or read SROIE's in an order of chance."""
    if not case.real or sroie is None:
        return case.draw(n, SEED)
    return random.Random(SEED).sample(sources.real_receipts(sroie, work, n), n)


def filled(command: str, model: str) -> list[str]:
    """Split a command, its model, its baseline and its number of documents filled in."""
    address, _, _ = model.partition("#")
    return command.format(model=model, baseline=f"{address}#baseline").split()


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
    trained = "-" if case.train is None else f"{done.trained:.0f} s"
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
        listed += [shown(case, place) for place in range(len(case.commands))]
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


def walk_and_judge(name: str, work: Path, sroie: Path | None = None) -> tuple[list[str], list[str]]:
    """Go a user's path, and return its rows and what went wrong on it."""
    case = CASES[name]
    rows: list[str] = []
    problems: list[str] = []
    try:
        for done in walk(case, work, sroie):
            rows.append(row(case, done))
            print(rows[-1], flush=True)
            if done.code not in right_codes(case, done.role):
                problems.append(f"{name}, {done.role}: exit code {done.code}")
    except SystemExit as ended:
        problems.append(f"{name}: {ended}")
    return rows, problems


def shown(case: Case, place: int) -> str:
    """Return a command as the page lists it, and what it asks the user to do."""
    model = "my-model" if case.train is not None else "http://127.0.0.1:8000/v1#my-model"
    command = f"docaudit {shlex.join(filled(case.commands[place], model))}"
    if place in case.refused:
        command += f"  # exit code {case.refused[place]}"
    if case.prompt is not None and place == 0:
        command += f"\n# in data/manifest.toml, below [recipe]: prompt = {json.dumps(case.prompt)}"
    return command


def main() -> None:
    """Go the path of the users that are asked for, and write the table."""
    parser = argparse.ArgumentParser(
        description="Scan memorisers and their twins as new users would."
    )
    parser.add_argument(
        "--only", choices=CASES, nargs="+", help="these cases; the rows of all others stay"
    )
    parser.add_argument("--sroie", type=Path, help="a folder with SROIE's receipts, for LiLT")
    parser.add_argument("--work", type=Path, help="a folder to keep models and reports in")
    parser.add_argument(
        "--forked", action="store_true", help="load the libraries once, and fork for each command"
    )
    given = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    sys.path.append(str(FAKES))
    importlib.import_module("vision_operators").declare_when_imported()
    if given.forked:
        os.environ[FORKED] = "1"
        forks.load_libraries()
    work = given.work or Path(tempfile.mkdtemp())
    rows: list[str] = []
    wrong: list[str] = []
    for name in given.only or CASES:
        print(CASES[name].name, flush=True)
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).mkdir(parents=True)
        new_rows, problems = walk_and_judge(name, (work / name).resolve(), given.sroie)
        rows += new_rows
        wrong += problems
        write(rows)
    if given.work is None:
        shutil.rmtree(work)
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
