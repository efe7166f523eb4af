"""How a draw divides a source whose owner names no shares, whatever its size."""

from collections import Counter
from pathlib import Path

import pytest
from commands import docaudit
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from audit.corpus.documents import Split
from audit.corpus.summary import MIN_DOCUMENTS, MIN_PUBLIC, PASSING, size_warning
from audit.importers.divide import DRAWN, divide, quotas, usual_sizes
from audit.policy import Limit
from audit.stats.power import needed
from audit.workflows.gate import load_policy

TOTALS = st.integers(0, 5000)
MEMBERSHIP_KINDS = {"auc": "auc", "low_fpr_advantage": "low advantage"}
"""What the metrics of membership are, by name, as `audit.stats.power` has them."""


def limits_of_membership() -> list[Limit]:
    limits = load_policy("default").limits
    return [
        limit
        for limit in limits
        if limit.attack == "membership" and limit.metric in MEMBERSHIP_KINDS
    ]


def test_both_sides_get_what_a_plan_says_that_membership_needs() -> None:
    limits = limits_of_membership()
    assert len(limits) == len(MEMBERSHIP_KINDS)
    for limit in limits:
        assert limit.max is not None
        enough = needed(MEMBERSHIP_KINDS[limit.metric], limit.max)  # type: ignore[arg-type]
        assert enough is not None
        assert enough <= MIN_DOCUMENTS


def test_receipts_of_sroie_give_both_sides_enough() -> None:
    assert usual_sizes(626) == {"member": 238, "heldout": 150, "public": 238}


@given(TOTALS)
def test_every_document_gets_a_split(total: int) -> None:
    sizes = usual_sizes(total)
    assert sum(sizes.values()) == total
    assert min(sizes.values()) >= 0


@given(st.integers(PASSING, 5000))
def test_a_source_that_is_large_enough_gives_what_a_pass_takes(total: int) -> None:
    sizes = usual_sizes(total)
    assert min(sizes["member"], sizes["heldout"]) >= MIN_DOCUMENTS
    assert sizes["public"] >= MIN_PUBLIC
    assert size_warning(sizes, is_drawn=True) == ""


@given(TOTALS)
def test_public_documents_beyond_those_of_a_pass_come_last(total: int) -> None:
    sizes = usual_sizes(total)
    if min(sizes["member"], sizes["heldout"]) < MIN_DOCUMENTS:
        assert sizes["public"] <= MIN_PUBLIC
        assert abs(sizes["member"] - sizes["heldout"]) <= 1


@given(TOTALS)
def test_a_larger_source_gives_no_split_fewer(total: int) -> None:
    smaller = usual_sizes(total)
    larger = usual_sizes(total + 1)
    for split, size in smaller.items():
        assert larger[split] >= size - 1


@given(st.integers(750, 20_000))
def test_a_large_source_is_divided_by_shares(total: int) -> None:
    by_share = quotas(total, DRAWN)
    for split, size in usual_sizes(total).items():
        assert abs(size - by_share[split]) <= 1


@given(
    st.lists(st.integers(1, 6), min_size=100, max_size=400),
    st.integers(0, 3),
)
def test_groups_that_stay_together_leave_both_sides_enough(sizes: list[int], seed: int) -> None:
    groups: list[tuple[str, ...]] = []
    for number, size in enumerate(sizes):
        groups.append(tuple(f"{number}.{place}" for place in range(size)))
    splits = divide(groups, (), {}, {}, seed, "drawn")
    counts = Counter(splits.values())
    total = sum(sizes)
    assert counts.total() == total
    if total >= PASSING + 3 * (max(sizes) - 1):
        assert min(counts["member"], counts["heldout"]) >= MIN_DOCUMENTS
        assert counts["public"] >= MIN_PUBLIC


def test_the_sample_below_a_pass_is_explained_by_its_source() -> None:
    sizes: dict[Split, int] = usual_sizes(100)
    assert sizes == {"member": 40, "heldout": 40, "public": 20}
    assert "The source has 100 documents, and a pass takes about 320" in size_warning(
        sizes, is_drawn=True
    )
    assert "40 training and 40 unseen documents" in size_warning(sizes, is_drawn=False)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        pytest.param((), {"member": 150, "heldout": 150, "public": 60}, id="nothing stated"),
        pytest.param(
            ("--member", 0.5, "--heldout", 0.1, "--public", 0.4),
            {"member": 180, "heldout": 36, "public": 144},
            id="shares stated",
        ),
        pytest.param(
            ("--public", 0.1), {"member": 144, "heldout": 72, "public": 36}, id="one share stated"
        ),
    ],
)
def test_shares_of_the_owner_outrank_the_usual_division(
    options: tuple[object, ...], sizes: dict[str, int], tmp_path: Path
) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for number in range(360):
        Image.new("1", (number + 8, 8)).save(source / f"{number}.png")
    command = ("import", "pages", source, tmp_path / "out", "--task", "mlm", *options)
    ran = docaudit(*command, terminal_width=1000)
    assert ran.exit_code == 0, ran.output
    lines = [line.split() for line in ran.output.splitlines()]
    for split, size in sizes.items():
        assert [split, str(size)] in lines
    assert ("seldom passes" in ran.output) == (min(sizes["member"], sizes["heldout"]) < 150)
