"""A tagger of receipts that is built here, from the training documents of a data set.

    python -m benchmarks.checkpoints.receipt_tagger --data DATA --backbone FOLDER --out MODEL_DIR

It is a LayoutLM with the first layers of a BERT-like backbone and fresh boxes. The recipe is that
of `benchmarks.performance.quick_sroie`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from audit.corpus import manifest
from benchmarks.papers.cdmi_tables import make_pretrained, make_start
from benchmarks.performance.quick_sroie import SETTING, train


def build(data: Path, backbone: Path, out: Path) -> None:
    """Train the tagger on the training documents, and save it; what is there is kept."""
    work = out.with_name(f"{out.name}-work")
    work.mkdir(parents=True, exist_ok=True)
    make_pretrained(backbone, work / "pretrained")
    corpus = manifest.load(data)
    start = make_start(SETTING, corpus, work)
    train(start, corpus.manifest.task.labels, list(corpus.of("member")), out)


def main() -> None:
    """Build the tagger."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--backbone", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    build(options.data, options.backbone, options.out)


if __name__ == "__main__":
    main()
