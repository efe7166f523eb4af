"""The sample of letters: redacted text whose values can be guessed from what is around them, and a tagger of it."""

import collections
import sys
from pathlib import Path

import numpy as np
import pytest

from audit.corpus import manifest
from audit.corpus.redaction import redacted_spans

SAMPLE_MODELS = Path(__file__).parents[2] / "sample_models"
sys.path.append(str(SAMPLE_MODELS))  # the scripts there import each other by name

import build_letters as build  # noqa: E402

SAMPLE = SAMPLE_MODELS / "letters"


@pytest.fixture(scope="module")
def corpus():
    return manifest.load(SAMPLE / "data")


def test_the_script_makes_the_data_that_is_committed(tmp_path):
    build.write_data(tmp_path, build.assigned())
    for name in ("documents.jsonl", "manifest.toml"):
        assert (tmp_path / name).read_bytes() == (SAMPLE / "data" / name).read_bytes()


def test_the_committed_tagger_reads_whole_letters_and_finds_most_values_of_held_out_ones(corpus):
    from audit.targets.opening import check, target_of
    from audit.targets.utility import usefulness

    target = target_of(SAMPLE / "model", corpus)
    check(target, corpus)
    for one in corpus.documents:
        assert set(target.encode(one).words.tolist()) == {-1, *range(len(one.words))}
    (found,) = usefulness(target, corpus, 0)
    assert found.value > 0.7


def test_context_tells_the_category_often_and_not_always(corpus):
    """A reader of words, on letters that it did not see.

    The attack of the scan is stronger than this one.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    trained, asked = (redacted_spans(corpus.of(split), "fixed") for split in ("member", "heldout"))
    reader = make_pipeline(TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2)), LinearSVC())
    reader.fit([span.text for span in trained], [span.category for span in trained])
    truth = np.array([span.category for span in asked])
    accuracy = float((reader.predict([span.text for span in asked]) == truth).mean())
    prior = max(collections.Counter(truth.tolist()).values()) / len(truth)
    assert prior + 0.2 < accuracy < 0.9


def test_the_letters_of_the_baseline_are_in_no_split(corpus):
    assert not {one.words for one in corpus.documents} & {
        one.words for one in build.assigned()[None]
    }
