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
from collections.abc import Sequence
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
from benchmarks.papers import vqa_sroie
from benchmarks.papers.pages import put_tables
from benchmarks.papers.vqa_sroie_findings import Audited, resolution_lines, words

HERE = Path(__file__).with_suffix("")
PAGE = Path(__file__).with_suffix(".md")
SIZES = ((64, 96), (96, 160), (128, 192))
"""Height and width in pixels; pages have 176 x 256, and the sample's model sees the first."""
READING = {
    "towns": build_questions.PRETRAINING,
    "towns and numbers": replace(build_questions.PRETRAINING, epochs=14),
}
"""What each design teaches first: as the sample, or twice as many questions in as many steps."""
CONTEXTS = ("exact",)
MACHINE = "2-core CPU, one thread"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="a folder for each design")
    parser.add_argument("--teach", choices=READING, default="towns")
    parser.add_argument("--size", type=int, action="append", help="number of a size, from 0")
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--report", action="store_true", help="write the tables alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.report:
        for number in options.size or range(len(SIZES)):
            audit_size(SIZES[number], options.teach, options.work)
    write_tables(options.date)


def folder_of(design: str) -> Path:
    """Return the folder of a design's records."""
    return HERE / design.replace(" ", "-")


def audit_size(size: tuple[int, int], design: str, work: Path) -> None:
    """Teach a Donut of one resolution to read, train it on the members, and audit it.

    Args:
        size: height and width of the images that it sees, pixels.
        design: what it is taught first.
        work: folder that keeps the design's models.
    """
    setting = vqa_sroie.Setting("donut", size)
    out = folder_of(design)
    options = argparse.Namespace(
        work=work, out=out, device="cpu", bf16=False, share=1.0, contexts=CONTEXTS
    )
    out.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    data = SAMPLES / "questions" / "data"
    reads = work / f"reads-{setting.name}"
    if not reads.exists():
        teach(size, design, work, reads)
    vqa_sroie.train(setting, data, reads, options)
    if not (out / f"{setting.name}.answers.json").exists():
        vqa_sroie.audit_model(setting, data, options)


def teach(size: tuple[int, int], design: str, work: Path, folder: Path) -> None:
    """Teach a fresh Donut to read forms of other clubs, and save it in a folder."""
    height, width = size
    start = work / f"start-{height}x{width}"
    shape = Size(height=height, width=width, n_pieces=400, positions=48)
    write_untrained(start, shape, [*QUESTIONS.values(), *TOWNS] * 50, build_questions.SEED)
    *_, others = build_questions.drawn_clubs()
    samples = []
    for number, club in enumerate([*others, *others]):
        page = form(build_questions.SEED + 1, number, club)
        view = PageView((), None, functools.partial(build_questions.opened, page))
        for label, question, value in page.asked():
            if label == "TOWN" or design != "towns":
                samples.append(Sample(view, question, value))
    recipe = READING[design]
    target = load_answering(start)
    began = time.monotonic()
    progress = vqa_sroie.Epochs(f"{height}x{width}, reading", recipe.epochs)
    losses = fit_answering(target, samples, recipe, progress)
    save_answering(target.model, start, folder)
    minutes = (time.monotonic() - began) / 60
    content = {"samples": len(samples), "losses": losses, "minutes": round(minutes, 1)}
    log = folder_of(design) / f"donut-{height}x{width}.reading.json"
    log.write_text(json.dumps(content, indent=1) + "\n")


def write_tables(date: str) -> None:
    """Put the tables of all designs, and sizes that were audited, into the page."""
    tables: dict[str, Sequence[str]] = {"made": [f"{MACHINE}, {date}."]}
    for design in READING:
        settings = []
        for height, width in SIZES:
            name = f"donut-{height}x{width}"
            if (folder_of(design) / f"{name}.answers.json").exists():
                settings.append(Audited.read(folder_of(design), name))
        tables[design] = table_of(settings)
        tables[f"trend, {design}"] = resolution_lines(settings)
    put_tables(PAGE, tables)


def table_of(settings: Sequence[Audited]) -> list[str]:
    """Return how each size reads, and what it memorised, as lines of Markdown."""
    head = ["size", "held-out ANLS", "best guess", "reads", "net", "unique answers", "unseen forms"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for audited in settings:
        reads = "yes" if audited.reads else "not shown"
        cells = [audited.name.removeprefix("donut-"), words(audited.anls)]
        cells += [f"{audited.best_guess[1]:.3f}", reads]
        for measure in ("net", "net.unique", "net.heldout"):
            cells.append(words(audited.measured(measure)))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
