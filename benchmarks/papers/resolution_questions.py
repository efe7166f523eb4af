"""Is more memorised at a lower resolution? See `resolution_questions.md`.

    # writes resolution_questions/ and the tables of resolution_questions.md
    python -m benchmarks.papers.resolution_questions --work FOLDER

The questions sample at three resolutions. What is in the folder of `--work` already is not trained
again.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from dataclasses import replace
from pathlib import Path

import build_questions
import torch
from forms import QUESTIONS, TOWNS, form
from small_donut import Size, write_untrained

from audit.corpus.images import PageView
from audit.references.trainer import fit_answering, save_answering
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from benchmarks import SAMPLES
from benchmarks.papers import vqa_sroie, vqa_sroie_report
from benchmarks.papers.pages import put_tables
from benchmarks.papers.vqa_sroie_findings import Audited, resolution_lines

HERE = Path(__file__).with_suffix("")
PAGE = Path(__file__).with_suffix(".md")
SIZES = ((64, 96), (96, 160), (128, 192))
"""Height and width in pixels; pages have 176 x 256, and the sample's model sees the first."""
READING = replace(build_questions.PRETRAINING, epochs=14)
"""Half the epochs of the sample's, of twice as many questions: as many steps."""
CONTEXTS = ("exact",)
MACHINE = "2-core CPU, one thread"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--report", action="store_true", help="write the tables alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.report:
        for size in SIZES:
            audit_size(size, options.work)
    write_tables(options.date)


def audit_size(size: tuple[int, int], work: Path) -> None:
    """Teach a Donut of one resolution to read, train it on the members, and audit it.

    Args:
        size: height and width of the images that it sees, pixels.
        work: folder that keeps its models.
    """
    setting = vqa_sroie.Setting("donut", size)
    options = argparse.Namespace(
        work=work, out=HERE, device="cpu", bf16=False, share=1.0, contexts=CONTEXTS
    )
    HERE.mkdir(exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    data = SAMPLES / "questions" / "data"
    reads = work / f"reads-{setting.name}"
    if not reads.exists():
        teach(size, work, reads)
    vqa_sroie.train(setting, data, reads, options)
    if not (HERE / f"{setting.name}.answers.json").exists():
        vqa_sroie.audit_model(setting, data, options)


def teach(size: tuple[int, int], work: Path, folder: Path) -> None:
    """Teach a fresh Donut the towns and numbers of other clubs' forms, and save it in a folder."""
    height, width = size
    start = work / f"start-{height}x{width}"
    shape = Size(height=height, width=width, n_pieces=400, positions=48)
    write_untrained(start, shape, [*QUESTIONS.values(), *TOWNS] * 50, build_questions.SEED)
    *_, others = build_questions.drawn_clubs()
    samples = []
    for number, club in enumerate([*others, *others]):
        page = form(build_questions.SEED + 1, number, club)
        view = PageView((), None, functools.partial(build_questions.opened, page))
        for _, question, value in page.asked():
            samples.append(Sample(view, question, value))
    target = load_answering(start)
    began = time.monotonic()
    progress = vqa_sroie.Epochs(f"{height}x{width}, reading", READING.epochs)
    losses = fit_answering(target, samples, READING, progress)
    save_answering(target.model, start, folder)
    minutes = (time.monotonic() - began) / 60
    content = {"samples": len(samples), "losses": losses, "minutes": round(minutes, 1)}
    (HERE / f"donut-{height}x{width}.reading.json").write_text(json.dumps(content, indent=1) + "\n")


def write_tables(date: str) -> None:
    """Put the tables of all sizes that were audited into the page."""
    settings = []
    for height, width in SIZES:
        name = f"donut-{height}x{width}"
        if (HERE / f"{name}.answers.json").exists():
            settings.append(Audited.read(HERE, name))
    tables = {
        "readings": vqa_sroie_report.readings(settings),
        "sets": vqa_sroie_report.sets(settings),
        "trend": resolution_lines(settings),
        "made": [f"{MACHINE}, {date}."],
    }
    put_tables(PAGE, tables)


if __name__ == "__main__":
    main()
