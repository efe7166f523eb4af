r"""Redaction-context leakage on TAB: the paper's classifiers by document, and under the paper's own protocol.

    python -m benchmarks.papers.redaction_tab --tab tab \
        --embedder minilm-l6-h384 --jobs 2

Every classifier x embedding x mask in five folds by document; the same without the precautions, one
after the other, so that it shows how much of the paper's numbers is protocol; character evasion
with the attackers who know of it. Each cell leaves a line in `--work`/cells.jsonl and its
predictions beside it, and is not done again. `--only` takes patterns of cells,
PROTOCOL.EMBEDDING.MASK.TRAINED.FOLD.CLASSIFIER: `--only 'document.tfidf.*.linear-svm'`. Set
OMP_NUM_THREADS=1, and `--jobs` to the number of cores.

The two networks take most of the time. By default they are fitted in the first `--slow-folds` folds
and draws only, by document under the mask of one length only, and the convolutional one not on
TF-IDF; the embedder is fine-tuned in as many draws of the paper's protocol, by document in all
folds. `--full` does everything, in many hours: also the fine-tuned embedder under the other masks
and trained on evaded text.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path
from typing import get_args

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

from audit.corpus.documents import Mask
from benchmarks.papers.redaction_tab_cells import (
    NETWORKS,
    Embedding,
    Group,
    Settings,
    prediction_of,
    run_group,
)
from benchmarks.papers.redaction_tab_classifiers import CLASSIFIERS
from benchmarks.papers.redaction_tab_report import write_report
from benchmarks.papers.redaction_tab_samples import N_FOLDS, import_tab

HERE = Path(__file__).parent
MASKS: tuple[Mask, ...] = get_args(Mask)
MAIN: Mask = "fixed"
"""What most tables are under: nothing of the value shows but its context."""
PAPER: Mask = "length"
"""The paper's mask: as many asterisks as characters (table 1)."""
EMBEDDINGS: tuple[Embedding, ...] = get_args(Embedding)
SMOKE_DOCUMENTS = 6
SMOKE_FOLDS = 2
SMOKE_EPOCHS = 2


def main() -> None:
    """See the module's docstring."""
    options = _options()
    settings = Settings(
        data=import_tab(options.tab, options.work),
        embedder=options.embedder.resolve(),
        work=options.work,
        n_documents=SMOKE_DOCUMENTS if options.smoke else None,
        epochs=SMOKE_EPOCHS if options.smoke else 200,
    )
    folds = SMOKE_FOLDS if options.smoke else N_FOLDS
    if "run" in (options.stage or ("run",)):
        run(
            settings,
            [
                *jobs(
                    folds,
                    slow=N_FOLDS if options.full else options.slow_folds,
                    full=options.full,
                    only=options.only,
                )
            ],
            options.jobs,
        )
    if "report" in (options.stage or ("report",)):
        write_report(settings, options.out, options.machine)


def _options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tab", type=Path, required=True, help="the folder with texts.json and mentions.json"
    )
    parser.add_argument(
        "--embedder", type=Path, required=True, help="MiniLM's folder, of sentence-transformers"
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/redaction"))
    parser.add_argument(
        "--out", type=Path, default=HERE / "redaction_tab", help="README and results"
    )
    parser.add_argument(
        "--stage", choices=("run", "report"), action="append", help="may be repeated; default: both"
    )
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="of cells; may be repeated; default: all"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--slow-folds", type=int, default=2, metavar="N", help="of the networks, see above"
    )
    parser.add_argument("--full", action="store_true", help="everything, see above")
    parser.add_argument(
        "--smoke", action="store_true", help="a few documents, two folds: does everything run?"
    )
    parser.add_argument(
        "--machine", default="2-core CPU", help="the machine in general terms, for the README"
    )
    options = parser.parse_args()
    if options.smoke:
        options.work = options.work.with_name(f"{options.work.name}-smoke")
        options.out = options.work / "out"
    return options


Job = list[tuple[Group, list[str]]]


def jobs(n_folds: int, *, slow: int, full: bool, only: Sequence[str] | None) -> Iterator[Job]:
    """What one process does after the other: groups that have slow features in common, with their classifiers.

    Args:
        n_folds: of everything that is quick.
        slow: folds, or draws, of what is slow.
        full: leave nothing out.
        only: patterns of cells; None: all.
    """
    for several in _groups(n_folds, slow, full):
        job = [
            (group, [name for name in CLASSIFIERS if _wanted(group, name, slow, full, only)])
            for group in several
        ]
        if any(names for _, names in job):
            yield [(group, names) for group, names in job if names]


def _groups(n_folds: int, slow: int, full: bool) -> Iterator[tuple[Group, ...]]:
    for embedding in EMBEDDINGS:
        tuned = embedding == "minilm-tuned"
        for fold in range(n_folds):
            yield (
                Group("document", embedding, MAIN, "clean", ("clean", "evaded", "folded"), fold),
            )
            if fold < slow or not tuned:
                yield (Group("balanced", embedding, PAPER, "clean", ("clean",), fold),)
                yield tuple(
                    Group(protocol, embedding, PAPER, "clean", ("clean",), fold)
                    for protocol in ("sentence", "flawed")
                )
            if tuned and not full:
                continue
            yield (Group("document", embedding, MAIN, "evaded", ("evaded",), fold),)
            for mask in MASKS:
                if mask != MAIN:
                    yield (Group("document", embedding, mask, "clean", ("clean",), fold),)


def _wanted(
    group: Group, classifier: str, slow: int, full: bool, only: Sequence[str] | None
) -> bool:
    """Return True if `only` selects this fit and the default set has it, or `full` is given."""
    if classifier in NETWORKS and not full and not _of_networks(group, classifier, slow):
        return False
    return only is None or any(
        fnmatchcase(f"{group.name}.{classifier}", pattern) for pattern in only
    )


def _of_networks(group: Group, classifier: str, slow: int) -> bool:
    """Whether a network is fitted without `--full`."""
    if group.fold >= slow or (group.protocol == "document" and group.mask != MAIN):
        return False
    if group.embedding == "tfidf":
        return classifier == "mlp" and group.protocol == "document" and group.trained == "clean"
    return group.trained == "clean" or classifier == "mlp"


def run(settings: Settings, todo: Sequence[Job], n_jobs: int) -> None:
    """Do the cells that are not done."""
    left = [
        job
        for job in todo
        if any(
            not prediction_of(settings, group, name).exists()
            for group, names in job
            for name in names
        )
    ]
    print(f"{len(todo) - len(left)} of {len(todo)} jobs are done already", flush=True)
    began = time.monotonic()
    for number, job in enumerate(_finished(settings, left, n_jobs), start=1):
        minutes = (time.monotonic() - began) / 60
        names = ", ".join(group.name for group, _ in job)
        print(f"{number} of {len(left)}, {minutes:.1f} min: {names}", flush=True)


def _finished(settings: Settings, left: Sequence[Job], n_jobs: int) -> Iterator[Job]:
    """Every job when it is done."""
    if n_jobs == 1:
        for job in left:
            _do(settings, job)
            yield job
        return
    # Frozen embeddings are shared by the folds: the first fold makes them before others look for
    # them.
    first = [job for job in left if job[0][0].fold == 0]
    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool:
        for part in (first, [job for job in left if job[0][0].fold]):
            running = {pool.submit(_do, settings, job): job for job in part}
            for future in as_completed(running):
                future.result()
                yield running[future]


def _do(settings: Settings, job: Job) -> None:
    for group, names in job:
        run_group(settings, group, names)


if __name__ == "__main__":
    main()
