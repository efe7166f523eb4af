"""Large data sets: copies are found among many, and what a scan writes does not grow with the documents."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tiny

from audit.corpus.near_copies import MIN_ALIKE, alike_sets
from audit.engine.interface import SILENT
from audit.record import dumps
from audit.workflows.options import ScanOptions
from audit.workflows.scan import run_scan
from audit.workflows.setup import open_scan


def test_sets_that_share_half_are_found_also_among_many_that_share_what_is_printed_on_all() -> None:
    rng = np.random.default_rng(0)
    printed = rng.integers(2**62, size=12)
    sets = [np.union1d(printed, rng.integers(2**62, size=rng.integers(1, 30))) for _ in range(60)]
    sets += [np.union1d(one[: rng.integers(4, len(one))], rng.integers(2**62, size=6)) for one in sets]
    one, two = sets[::2], sets[1::2]
    alike = {
        (row, column)
        for (row, first), (column, second) in itertools.product(enumerate(one), enumerate(two))
        if len(np.intersect1d(first, second)) >= MIN_ALIKE * len(np.union1d(first, second))
    }
    assert 20 < len(alike) < len(one) * len(two) / 2
    assert {*alike_sets(one, two)} == alike


def test_what_a_scan_writes_does_not_grow_with_the_documents_that_are_there(checkpoints: Any, tmp_path: Path) -> None:
    sizes, model = [], checkpoints("layoutlm", "token-classification", 2)
    for n in (10, 100):
        data = tiny.corpus(tmp_path / f"data-{n}", members=n, heldout=n, public=0)
        out = tmp_path / f"out-{n}"
        (out / "evidence").mkdir(parents=True)
        opened = open_scan(ScanOptions(model, data, out, only=("membership",), documents=12, budget="quick"))
        (attack,) = opened.attacks
        record = run_scan(replace(opened, attacks=(replace(attack, n_adapted=0),), budget="tiny"), SILENT)
        assert [attack.status for attack in record.attacks] == ["completed"]
        (journal,) = (out / "evidence").glob("journal-*.jsonl")
        assert len(journal.read_text().splitlines()) == 12
        written = [path.stat().st_size for path in (out / "evidence").iterdir() if path.suffix == ".jsonl"]
        sizes.append(len(dumps(record)) + sum(written))
    assert sizes[1] < 1.05 * sizes[0]
