"""The sample of letters: redacted text whose values can be guessed from what is around them, and a tagger of it."""

import collections
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from audit.corpus import manifest
from audit.corpus.redaction import redacted_spans, sentence_starts

SAMPLE_MODELS = Path(__file__).parents[2] / "sample_models"
sys.path.append(str(SAMPLE_MODELS))  # the scripts there import each other by name

import build_letters as build  # noqa: E402
from letters_generator import LABELS, letter  # noqa: E402

SAMPLE = SAMPLE_MODELS / "letters"


@pytest.fixture(scope="module")
def corpus():
    return manifest.load(SAMPLE / "data")


@pytest.fixture(scope="module")
def letters():
    return [letter(5, number, f"l{number}", "public") for number in range(60)]


def test_a_seed_makes_the_same_letters_in_any_order(letters):
    assert [letter(5, number, f"l{number}", "public") for number in reversed(range(60))] == letters[::-1]
    assert letter(6, 0, "l0", "public") != letters[0]
    assert len({one.words for one in letters}) == len(letters)


def test_no_template_is_left_unfilled_and_no_word_belongs_to_two_values(letters):
    for one in letters:
        text = " ".join(word.text for word in one.words)
        assert not set("<>()|") & set(text), "wordings and kinds of values are replaced"
        held = [index for entity in one.entities for index in entity.words]
        assert len(held) == len(set(held))
        assert {index for entity in one.entities for index in entity.words} < set(range(len(one.words)))


def test_letters_have_a_heading_and_six_to_eleven_sentences_in_paragraphs(letters):
    for one in letters:
        words = [word.text for word in one.words]
        whole = {index for entity in one.entities for index in entity.words[1:]}
        starts = sentence_starts(words, one.paragraphs, whole)
        assert len(one.paragraphs) == 4
        assert set(one.paragraphs) <= set(starts)
        assert 1 + 6 <= len(starts) <= 1 + 11


def test_every_label_has_its_category_and_all_eight_occur(corpus):
    found = {(entity.label, entity.category) for one in corpus.documents for entity in one.entities}
    assert found == set(LABELS.items())
    assert all(entity.attack for one in corpus.documents for entity in one.entities)
    assert corpus.manifest.redaction.mask == "fixed"


def test_the_script_makes_the_data_that_is_committed(tmp_path):
    build.write_data(tmp_path, build.assigned())
    for name in ("documents.jsonl", "manifest.toml"):
        assert (tmp_path / name).read_bytes() == (SAMPLE / "data" / name).read_bytes()


def test_the_letters_of_the_baseline_are_in_no_split(corpus):
    listed = {one.words for one in corpus.documents}
    assert not listed & {one.words for one in build.assigned()[None]}


def test_the_sample_is_small_and_names_no_folder_of_its_maker():
    files = [path for path in SAMPLE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2_000_000
    for path in files:
        if path.name in ("config.json", "tokenizer_config.json"):
            assert "_name_or_path" not in json.loads(path.read_text())
        assert str(SAMPLE_MODELS.parent).encode() not in path.read_bytes()


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
    """A reader of words, on letters that it did not see; the attack of the scan is stronger than this one."""
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
