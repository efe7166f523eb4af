"""`audit.importers.divide`: seeded, by share, equal images together."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from audit.corpus.documents import SPLITS, Split
from audit.errors import UsageError
from audit.importers.divide import assign, copies_of_trained, divide, equal_images
from audit.importers.pages import Part
from audit.stats.intervals import join_groups

PARTS: tuple[Part, ...] = ("train", "validation", "public")
OF_PART: dict[Part, tuple[Split, ...]] = {
    "train": ("member",),
    "validation": ("heldout", "public"),
    "public": ("public",),
}
SHARES: dict[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.4}


def singles(n: int) -> list[tuple[str, ...]]:
    return [(f"d{i:03}",) for i in range(n)]


def test_shares_are_met_exactly_with_documents_on_their_own() -> None:
    assert Counter(assign(singles(100), SHARES, 1).values()) == {
        "member": 40,
        "heldout": 20,
        "public": 40,
    }
    assert Counter(assign(singles(10), {"member": 0.5, "heldout": 0.2}, 1).values()) == {
        "member": 5,
        "heldout": 2,
    }


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=20),
    st.permutations([0.1, 0.3, 0.45]),
    st.integers(0, 5),
)
def test_groups_stay_together_and_sizes_are_close(
    sizes: list[int], shares: list[float], seed: int
) -> None:
    groups = [tuple(f"{i}.{j}" for j in range(size)) for i, size in enumerate(sizes)]
    drawn = assign(groups, dict(zip(SPLITS, shares, strict=True)), seed)
    for group in groups:
        assert len({drawn.get(name) for name in group}) == 1
    for split, share in zip(SPLITS, shares, strict=True):
        assert abs(sum(s == split for s in drawn.values()) - share * sum(sizes)) <= 1 + 2 * (
            max(sizes) - 1
        )


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
        counts.update(
            name for name, split in assign(groups, SHARES, seed).items() if split == "member"
        )
    rates = np.array([counts[name] for group in groups for name in group]) / 600
    assert np.all(np.abs(rates - 0.4) < 4 * np.sqrt(0.24 / 600))


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"member": 0.7, "public": 0.4}, "sum to 1.1"),
        ({"member": -0.1, "public": 0.4}, "share of member is not between"),
        ({"member": float("nan")}, "share of member is not between"),
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


# Groups of several kinds, and the source's own division


@given(st.lists(st.sets(st.integers(0, 12).map(str), min_size=1), min_size=1, max_size=10))
def test_joined_groups_are_connected_components(groups: list[set[str]]) -> None:
    names = sorted(set().union(*groups))
    rows, columns = zip(
        *[(names.index(min(g)), names.index(name)) for g in groups for name in g], strict=True
    )
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(names),) * 2)
    _, component = connected_components(graph, directed=False)
    expected = {
        tuple(n for n, c in zip(names, component, strict=True) if c == number)
        for number in set(component)
    }
    assert (set(join_groups(groups)), list(join_groups(groups))) == (expected, sorted(expected))


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 6), st.sampled_from(PARTS)),
        min_size=4,
        max_size=25,
    ),
    st.integers(0, 3),
)
def test_nothing_that_was_trained_on_is_held_out_or_public(
    pages: list[tuple[int, int, Part]], seed: int
) -> None:
    """Pages by image, document and part: the official division keeps parts, documents and images apart."""
    names = [f"p{number:02}" for number in range(len(pages))]
    parts = {name: part for name, (_, _, part) in zip(names, pages, strict=True)}
    images = [
        [n for n, page in zip(names, pages, strict=True) if page[0] == image] for image in range(4)
    ]
    sources = [
        [n for n, page in zip(names, pages, strict=True) if page[1] == source]
        for source in range(7)
    ]
    images = [g for g in images if g]
    sources = [g for g in sources if g]
    shares: dict[Split, float] = {"member": 1.0, "heldout": 0.5, "public": 0.5}
    drawn = divide(images, sources, parts, shares, seed, "official")
    group_of = {name: group for group in images for name in group}
    copies = copies_of_trained(images, parts)
    for name in names:
        assert (name in copies) == any(
            PARTS.index(parts[one]) < PARTS.index(parts[name]) for one in group_of[name]
        )
        assert drawn.get(name) in ((None,) if name in copies else OF_PART[parts[name]])
    for group in (*images, *sources):
        assert (
            len(
                {
                    drawn.get(name)
                    for name in group
                    if parts[name] == "validation" and name not in copies
                }
            )
            <= 1
        )
    assert len(drawn) == len(names) - len(copies), "nothing else is left out"


def test_the_official_division_needs_no_held_out_share() -> None:
    parts: dict[str, Part] = {"a": "train", "b": "validation"}
    assert divide([["a"], ["b"]], [], parts, {"member": 1.0}, 0, "official") == {"a": "member"}
    with pytest.raises(UsageError, match="no split has a share"):
        divide([["a"], ["b"]], [], parts, {"heldout": 1.0}, 0, "official")
