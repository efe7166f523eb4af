"""Corpora of membership_methods: starts and runs share no document with what is audited."""

from benchmarks.papers.membership_methods_models import SEED, pools, request


def test_the_start_of_requests_saw_no_audited_request():
    """A start is trained on the requests of another seed."""
    audited = {request(SEED, number)["text"] for number in range(200)}
    started = {request(SEED + 1, number)["text"] for number in range(200)}
    assert not audited & started


def test_runs_share_no_document():
    numbers = []
    for run in range(3):
        by_pool = pools(lambda number: number, run)
        numbers.append(set().union(*by_pool.values()))
    assert not numbers[0] & numbers[1]
    assert not numbers[1] & numbers[2]
    assert len(numbers[0]) == len(numbers[2]) > 1_000
