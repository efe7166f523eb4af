"""Buckets depend on a row's own length, and every row is in exactly one batch."""

from hypothesis import given
from hypothesis import strategies as st

from audit.targets.batching import STEP, Buckets, batches, bucket_of, longest_row, padded_rows


@given(st.lists(st.integers(1, 600), max_size=60), st.integers(1, 5000), st.integers(0, 300))
def test_rows_are_grouped_by_their_own_length(
    lengths: list[int], batch_tokens: int, n_appended: int
) -> None:
    made = list(batches(lengths, batch_tokens, Buckets(n_appended)))
    assert sorted(row for _, rows in made for row in rows) == list(range(len(lengths)))
    for bucket, rows in made:
        assert rows == sorted(rows)
        assert {bucket_of(lengths[row], n_appended) for row in rows} == {bucket}
        assert len(rows) == 1 or len(rows) * (bucket + n_appended) <= batch_tokens


@given(st.integers(1, 5000), st.integers(0, 300))
def test_a_bucket_is_the_next_one_above_its_row_that_fills_blocks(
    n_tokens: int, n_appended: int
) -> None:
    assert (bucket_of(n_tokens, n_appended) + n_appended) % STEP == 0
    assert 0 < bucket_of(n_tokens, n_appended) - n_tokens <= STEP
    # What fills the text's last block is there: the model appended that much.
    assert (
        padded_rows(bucket_of(n_tokens, n_appended)) <= bucket_of(n_tokens, n_appended) + n_appended
    )


@given(st.integers(1, 600), st.integers(0, 300), st.integers(2, 8))
def test_a_coarse_bucket_is_the_next_one_that_the_model_has_places_for(
    n_tokens: int, n_appended: int, times: int
) -> None:
    step = times * STEP
    n_positions = bucket_of(600, n_appended)
    bucket = Buckets(n_appended, step, n_positions).of(n_tokens)
    assert n_tokens < bucket <= n_positions
    assert (bucket + n_appended) % step == 0 or bucket == bucket_of(n_tokens, n_appended)


@given(st.integers(STEP, 5000), st.integers(0, 300))
def test_the_longest_row_is_the_last_whose_bucket_fits(positions: int, n_appended: int) -> None:
    longest = longest_row(positions, n_appended)
    assert bucket_of(longest, n_appended) <= positions < bucket_of(longest + 1, n_appended)


@given(st.integers(0, 500))
def test_gathered_rows_are_filled_up_to_full_blocks(n_rows: int) -> None:
    assert 0 <= padded_rows(n_rows) - n_rows < STEP
    assert padded_rows(n_rows) % STEP == 0
