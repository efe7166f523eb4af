"""The README of `vqa_sroie.py`: our numbers beside the paper's, every one from the files in the same folder."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from audit.measurements import Estimate
from benchmarks.papers.paired_extraction import Extraction
from benchmarks.papers.vqa_sroie_findings import Audited, question_lines, resolution_lines, words

HEAD = """# Question-answering models on SROIE: what they still answer when the answer is gone

Made by `vqa_sroie.py` on a {machine} ({system}, torch {torch}), other jobs running beside it; the last scan
ended on {date}. {documents}, drawn at random. Each of a receipt's four values is a question, in one of six phrasings.

- **Donut-shaped**: a Donut Swin of three stages (32, 64 and 128 wide, 4 blocks) and an MBart decoder of two layers, 128
  wide. Every weight starts fresh, with a standard deviation of 0.1: with the usual 0.02 a model this narrow does not
  begin to learn. There is no pre-training, neither on pages nor on text.
- **VT5-shaped**: docaudit's VT5 with two encoder and two decoder layers, 384 wide. Word embeddings, and with them the
  tied head, start as MiniLM's (all-MiniLM-L6, scaled to T5's size); everything else, the visual branch (BEiT's
  architecture, two layers, 96 wide, patches of 16 pixels) included, starts fresh. It reads the first 256 tokens of
  words and boxes, so that both resolutions read the same text and differ in the picture alone.
- Both use MiniLM's vocabulary, cut to what receipts outside all splits use and to ASCII characters ({vocabulary}
  tokens); words are parted at spaces, so that answers are spelled as they are written, but for case. No dropout.
- The baseline f_G starts from the same weights and has the same recipe and number of samples, of public documents.

The paper fine-tuned pretrained models on 40,000 questions and counted 4,654 hand-checked canaries. Ours are far smaller
and see far less, the epochs below are all they had, and one model and one baseline make a row: intervals (95 %) are
over documents, not over trainings.
"""
GUESSING = """Without looking: "commonest" gives the members' commonest answer to every question (the null of the
record's utility), "by field" the commonest one of each field, "best by field" the member answer most like the others,
which has the format of a date or an amount and with it half its characters. A model has read only where its interval
lies above all three."""
SETS = """Questions whose answer is proven to be off the page (pixels, words, and Tesseract where it is installed). Net
is (|E - G| - |G - E|) / n, its null the net on held-out questions. "Undecided": the baseline's held-out ANLS is not
within 2 points of the model's."""
PAPER = """*Paper:* |M| of Donut is 63, 109, 168 and 756 of 4,654 (1.4 %, 2.3 %, 3.6 %, 16.2 %) as resolution falls from
2560 x 1920 pixels."""
PAPER_CONTEXTS = """*Paper (appendix D)*, |M| of 4,654: Donut without text 26, shuffled 4, image only 0; Pix2Struct from
about 94 in the exact context to 27 without text, 21 shuffled, 0 image only. Under changed brightness much remains,
under rotation and shift less, and under each of them more than under a paraphrased question."""


def write_report(folder: Path, machine: str) -> None:
    """`README.md` in the folder of the records; settings that were not audited are left out.

    Args:
        folder: holds NAME.json, NAME.training.json and NAME.answers.json.
        machine: in general terms.
    """
    settings = [
        Audited.read(folder, path.name.removesuffix(".answers.json"))
        for path in folder.glob("*.answers.json")
    ]
    settings.sort(key=lambda one: (one.shape, -one.pixels))
    if not settings:
        print("no setting has been audited: nothing to report")
        return
    lines = [_head(settings, machine), "## Training", "", *_training(settings), ""]
    lines += ["## Held-out ANLS", "", GUESSING, "", *readings(settings), ""]
    lines += ["## Extraction with the exact question", "", SETS, "", *sets(settings), "", PAPER, ""]
    lines += [
        "## By context",
        "",
        "|M| of the questions asked, and net.",
        "",
        *_contexts(settings),
        "",
        PAPER_CONTEXTS,
        "",
    ]
    lines += ["## Does memorisation grow as resolution falls?", "", *resolution_lines(settings), ""]
    lines += [
        "## Does the question matter more than the exact scan?",
        "",
        QUESTION,
        "",
        *question_lines(settings),
        "",
    ]
    (folder / "README.md").write_text("\n".join(lines).rstrip() + "\n")
    print(f"wrote {folder / 'README.md'}")


QUESTION = """|M| with the page rotated, shifted or darkened against |M| with the question paraphrased or put to another
page, paired by question. VT5 reads words and boxes, which brightness does not touch and rotation and shift move along.
Intervals stand each for itself, not for all comparisons together."""


def _head(settings: Sequence[Audited], machine: str) -> str:
    corpus = settings[0].record.corpus
    documents = "Receipts: " + ", ".join(
        f"{n} {split}" for split, n in corpus.documents.items() if n
    )
    date = max(one.record.timing.finished for one in settings)[:10]
    vocabulary = " and ".join(sorted({f"{one.training['vocabulary']:,}" for one in settings}))
    return HEAD.format(
        machine=machine,
        system=platform.system(),
        torch=torch.__version__,
        date=date,
        documents=documents,
        vocabulary=vocabulary,
    )


def _training(settings: Sequence[Audited]) -> list[str]:
    rows = []
    for one in settings:
        log = one.training
        seconds = [log["seconds"], log["baseline_seconds"]]
        minutes = " and ".join("?" if value is None else f"{value / 60:.1f}" for value in seconds)
        rows.append(
            [
                one.name,
                f"{one.record.target.parameters / 1e6:.1f} million",
                str(log["samples"]),
                f"{log['epochs']} ({log['batch_size']} a step, {log['learning_rate']:g})",
                "bfloat16" if log["bf16"] else "float32",
                f"{log['losses'][0]:.2f} to {log['losses'][-1]:.2f}",
                minutes,
            ]
        )
    head = [
        "setting",
        "parameters",
        "samples",
        "epochs",
        "computed in",
        "loss, nats a token",
        "minutes: model, baseline",
    ]
    return _table(head, rows)


def readings(settings: Sequence[Audited]) -> list[str]:
    """Held-out ANLS, beside every way to guess."""
    rows = []
    for one in settings:
        guessed = one.answers["guesses"]
        rows.append(
            [
                one.name,
                words(one.anls),
                words(one.measured("anls.heldout.target")),
                words(one.measured("anls.heldout.baseline")),
                *(
                    f"{guessed[way]:.3f}"
                    for way in ("commonest", "commonest_by_field", "best_by_field")
                ),
                "yes" if one.reads else "not shown",
            ]
        )
    head = [
        "setting",
        "model, all questions",
        "model, questions asked",
        "baseline, questions asked",
        "commonest",
    ]
    return _table([*head, "by field", "best by field", "reads"], rows)


def sets(settings: Sequence[Audited]) -> list[str]:
    """E, G, M and net in the exact context."""
    rows = []
    for one in settings:
        counts = {count.name: count.value for count in one.result.counts}
        net = one.measured("net")
        size = "0" if net is None else f"{net.n} ({net.clusters})"
        sets = sizes_of_sets(one.extraction("exact"))
        # Records since 0.13 count no personal values of M.
        personal = [str(counts.get(name, "-")) for name in ("M: PII", "M: unique PII")]
        found = [words(net), words(one.measured("net.heldout")), words(one.measured("net.unique"))]
        rows.append(
            [
                one.name,
                size,
                *sets,
                *found,
                *personal,
                "undecided" if one.result.confounded else "as strong",
            ]
        )
    head = [
        "setting",
        "questions (documents)",
        "\\|E\\|",
        "\\|G\\|",
        "\\|M\\|",
        "\\|G - E\\|",
        "net",
        "held-out net",
    ]
    return _table([*head, "net, unique answers", "PII in M", "unique PII", "baseline"], rows)


def sizes_of_sets(extraction: Extraction) -> list[str]:
    """Return the sizes of E, G, M and G - E: answers by the model, the baseline, or one alone."""
    by_model = np.asarray(extraction.target, bool)
    by_baseline = np.asarray(extraction.baseline, bool)
    sets = (by_model, by_baseline, by_model & ~by_baseline, by_baseline & ~by_model)
    return [str(int(answers.sum())) for answers in sets]


def _contexts(settings: Sequence[Audited]) -> list[str]:
    names = list(dict.fromkeys(name for one in settings for name in one.contexts))
    rows = [[one.name, *(_in_context(one, name) for name in names)] for one in settings]
    return _table(["setting", *names], rows)


def _in_context(one: Audited, context: str) -> str:
    memorised, net = (one.in_context(metric, context) for metric in ("memorised", "net"))
    if memorised is None:
        return "not asked"
    return f"{_count(memorised)}; {words(net)}"


def _count(share: Estimate) -> str:
    """|M| of how many; with one baseline the share is of whole questions."""
    return f"{round(share.value * share.n)} of {share.n}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
