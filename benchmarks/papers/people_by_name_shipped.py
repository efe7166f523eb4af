"""Scan the writers of `people_by_name` as users scan theirs. See `people_by_name.md`.

    # trains the writers, writes people_by_name.json and the tables of people_by_name.md
    python -m benchmarks.papers.people_by_name --rule decoders --work FOLDER
    # scans them, and adds the numbers and the table of the scans
    python -m benchmarks.papers.people_by_name_shipped --work FOLDER

What is in the folder of `--work` already is not scanned again.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from audit import record as records
from audit.attacks.membership.by_name import AREA, RECOGNISED
from audit.corpus import manifest
from audit.corpus.documents import (
    Document,
    Manifest,
    Membership,
    Question,
    ReferencePaths,
    Task,
    TrainingRecipe,
)
from audit.measurements import Estimate
from audit.references.recipes import made_once
from audit.workflows.options import ScanOptions
from audit.workflows.session import open_session
from benchmarks.papers import membership_methods_models as models
from benchmarks.papers.pages import put_tables
from benchmarks.papers.people_by_name import HERE, MACHINE, RULES, STRENGTHS
from benchmarks.papers.people_by_name_models import FAMILIES, Family
from benchmarks.papers.people_by_name_report import tables
from benchmarks.tools.scanning import scan_once

ATTACK = "membership"
FAMILY = "writer"
PROMPT = "{text} Question : {question} Answer :"
"""How the writers were trained."""
TRAINED_ON = ("number", "date")
"""Whose questions the writers were trained on."""
MEASURES = {
    "area": AREA,
    "pretrained": f"{AREA}.pretrained",
    "member": f"{RECOGNISED}.member",
    "heldout": f"{RECOGNISED}.heldout",
    "answers": "auc",
    "pages": "auc.row",
}
"""Measurements of a scan that the page shows, by their names in the JSON file."""


def page_with_questions(document: Document, request: dict[str, str]) -> Document:
    """Add the questions that a writer was trained on to a page."""
    questions = [Question(name, models.ASKED[name], (request[name],)) for name in TRAINED_ON]
    return replace(document, questions=tuple(questions))


def write_data(folder: Path, family: Family, run: int, root: Path) -> None:
    """Write the documents of a run as a data set, with the pretrained start beside them."""
    documents: list[Document] = []
    numbers = family.numbers(run)
    for split in ("member", "heldout"):
        for number in numbers[split]:
            page = family.document(number, split)
            documents.append(page_with_questions(page, family.kind.document(number)))
    save(family.kind.start(root), folder / "references" / "pretrained")
    settings = Manifest(
        1,
        "requests",
        Task("question-answering"),
        Membership("random"),
        references=ReferencePaths(pretrained="references/pretrained"),
        recipe=TrainingRecipe(prompt=PROMPT),
    )
    manifest.write(folder, settings, documents)


def save(model: Any, folder: Path) -> None:
    """Write a checkpoint as transformers does, with its tokenizer.

    Answers end with the separator, as in the training, and a text has no other special token.
    """
    model.save_pretrained(folder)
    trained = models.tokenizer_of_requests()
    inner = Tokenizer.from_str(trained.backend_tokenizer.to_str())
    inner.post_processor = processors.TemplateProcessing(single="$A")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=trained.sep_token,
        pad_token=trained.pad_token,
        unk_token=trained.unk_token,
        model_max_length=trained.model_max_length,
    )
    tokenizer.save_pretrained(folder)


def scan(model: Path, data: Path, out: Path) -> dict[str, list[float]]:
    """Scan a model for membership with the usual parameters; a record that is there is read.

    Returns:
        Value and interval by `MEASURES`, and the seconds under "seconds".
    """
    options = ScanOptions(model_dir=model, data_dir=data, out=out, only=(ATTACK,), device="cpu")
    record = scan_once(open_session(options), out.name)
    return {**numbers_of(record), "seconds": [round(record.timing.seconds, 1)]}


def numbers_of(record: records.AuditRecord) -> dict[str, list[float]]:
    """Read value and interval of `MEASURES` from a record."""
    (attack,) = (result for result in record.attacks if result.attack == ATTACK)
    by_name = {item.name: item for item in attack.measurements}
    numbers: dict[str, list[float]] = {}
    for key, name in MEASURES.items():
        item = by_name[name]
        assert isinstance(item, Estimate), item
        numbers[key] = [round(float(bound), 3) for bound in (item.value, item.low, item.high)]
    return numbers


def scan_run(root: Path, run: int) -> dict[str, dict[str, list[float]]]:
    """Scan the writers of a run, by strength."""
    family = FAMILIES[FAMILY](root)
    data = root / f"run {run} data"
    made_once(data, partial(write_data, family=family, run=run, root=root))
    results: dict[str, dict[str, list[float]]] = {}
    for strength in STRENGTHS:
        checkpoint = root / f"run {run} {strength}"
        save(family.trained(root, run, strength), checkpoint)
        results[strength] = scan(checkpoint, data, root / f"run {run} {strength} report")
        print(run, strength, results[strength], flush=True)
    return results


def main() -> None:
    """Scan the writers of all runs of decoders, and write the numbers and the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    _, runs = RULES["decoders"]
    scans: Sequence[Any] = [scan_run(arguments.work / FAMILY, run) for run in runs]
    by_strength = {strength: [results[strength] for results in scans] for strength in STRENGTHS}
    place = HERE / "people_by_name.json"
    numbers = json.loads(place.read_text(encoding="utf-8"))
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    numbers["scans"] = {"date": today, "machine": MACHINE, **by_strength}
    place.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    put_tables(HERE / "people_by_name.md", tables(numbers))


if __name__ == "__main__":
    main()
