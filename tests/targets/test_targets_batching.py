"""Buckets depend on a row's own length, and every row is in exactly one batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from audit.targets.batching import STEP, batches, bucket_of, longest_row, padded_rows


@given(st.lists(st.integers(1, 600), max_size=60), st.integers(1, 5000))
def test_rows_are_grouped_by_their_own_length(lengths: list[int], batch_tokens: int) -> None:
    made = list(batches(lengths, batch_tokens))
    assert sorted(row for _, rows in made for row in rows) == list(range(len(lengths)))
    for bucket, rows in made:
        assert rows == sorted(rows)
        assert {bucket_of(lengths[row]) for row in rows} == {bucket}
        assert len(rows) == 1 or len(rows) * bucket <= batch_tokens


@given(st.integers(1, 5000))
def test_a_bucket_is_the_next_multiple_above_its_row(n_tokens: int) -> None:
    assert bucket_of(n_tokens) % STEP == 0
    assert 0 < bucket_of(n_tokens) - n_tokens <= STEP


@given(st.integers(STEP, 5000))
def test_the_longest_row_is_the_last_whose_bucket_fits(positions: int) -> None:
    assert bucket_of(longest_row(positions)) <= positions < bucket_of(longest_row(positions) + 1)


@given(st.integers(0, 500))
def test_gathered_rows_are_filled_up_to_full_blocks(n_rows: int) -> None:
    assert 0 <= padded_rows(n_rows) - n_rows < STEP
    assert padded_rows(n_rows) % STEP == 0
