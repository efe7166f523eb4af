"""`audit.corpus.importers.splits`: seeded, by share, equal images together."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from audit.corpus.documents import SPLITS, Split
from audit.corpus.importers.splits import assign, equal_images
from audit.errors import UsageError

SHARES: dict[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.4}


def singles(n: int) -> list[tuple[str, ...]]:
    return [(f"d{i:03}",) for i in range(n)]


def test_shares_are_met_exactly_with_documents_on_their_own() -> None:
    assert Counter(assign(singles(100), SHARES, 1).values()) == {"member": 40, "heldout": 20, "public": 40}
    assert Counter(assign(singles(10), {"member": 0.5, "heldout": 0.2}, 1).values()) == {"member": 5, "heldout": 2}


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=20),
    st.permutations([0.1, 0.3, 0.45]),
    st.integers(0, 5),
)
def test_groups_stay_together_and_sizes_are_close(sizes: list[int], shares: list[float], seed: int) -> None:
    groups = [tuple(f"{i}.{j}" for j in range(size)) for i, size in enumerate(sizes)]
    drawn = assign(groups, dict(zip(SPLITS, shares, strict=True)), seed)
    for group in groups:
        assert len({drawn.get(name) for name in group}) == 1
    for split, share in zip(SPLITS, shares, strict=True):
        assert abs(sum(s == split for s in drawn.values()) - share * sum(sizes)) <= 1 + 2 * (max(sizes) - 1)


def test_the_seed_decides_and_the_order_of_input_does_not() -> None:
    groups = [*singles(50), ("x", "y"), ("z", "u", "v")]
    shuffled = [tuple(reversed(group)) for group in groups]
    random.Random(3).shuffle(shuffled)
    assert assign(groups, SHARES, 7) == assign(shuffled, SHARES, 7)
    assert assign(groups, SHARES, 7) != assign(groups, SHARES, 8)
    assert assign(groups, SHARES, 7) == assign(groups, dict(reversed(SHARES.items())), 7)


def test_every_document_is_a_member_equally_often() -> None:
    groups = [*singles(16), ("x", "y"), ("z", "u")]
    counts: Counter[str] = Counter()
    for seed in range(600):
        counts.update(name for name, split in assign(groups, SHARES, seed).items() if split == "member")
    rates = np.array([counts[name] for group in groups for name in group]) / 600
    assert np.all(np.abs(rates - 0.4) < 4 * np.sqrt(0.24 / 600))


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"member": 0.7, "public": 0.4}, "sum to 1.1"),
        ({"member": -0.1, "public": 0.4}, "share of member is not between"),
        ({"member": float("nan")}, "share of member is not between"),
        ({"train": 0.5}, "no split is called 'train'"),
        ({"member": 0.0}, "nothing would be imported"),
        ({}, "nothing would be imported"),
    ],
)
def test_shares_that_cannot_be_honoured(shares: dict[Split, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        assign(singles(3), shares, 0)


def test_images_are_grouped_by_bytes_and_by_pixels(tmp_path: Path) -> None:
    for name, gray in (("a", 10), ("b", 20), ("e", 30)):
        Image.new("L", (8, 8), gray).save(tmp_path / f"{name}.png")
    (tmp_path / "c.png").write_bytes((tmp_path / "a.png").read_bytes())
    Image.new("L", (8, 8), 20).save(tmp_path / "d.tiff")  # the same pixels in another file
    Image.new("L", (4, 16), 30).save(tmp_path / "f.png")  # the same pixel bytes in another shape
    images = {path.stem: path for path in tmp_path.iterdir()}
    assert equal_images(images) == (("a", "c"), ("b", "d"), ("e",), ("f",))
