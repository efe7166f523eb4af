"""Large data sets: contents stay in the file, everything computed from them is the same, and nothing grows unasked."""

import gc
import itertools
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny

from audit.corpus import images, manifest
from audit.corpus.documents import Document, Word
from audit.corpus.folding import occurrences
from audit.corpus.images import StoredDocument
from audit.corpus.near_copies import MIN_ALIKE, alike_sets, find_copies
from audit.corpus.summary import summarise
from audit.engine.interface import SILENT
from audit.errors import EngineError
from audit.record import dumps
from audit.workflows.options import ScanOptions
from audit.workflows.planning import plan_audit
from audit.workflows.run import run_scan
from audit.workflows.session import open_session

N = 200
KEPT = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.corpus(tmp_path_factory.mktemp("large"), members=N // 2, heldout=N // 2, public=4)


@pytest.fixture
def large(data, monkeypatch):
    """The data set, read as one that is too large for memory."""
    monkeypatch.setattr(manifest, "LARGE", 1)
    monkeypatch.setattr(images, "KEPT", KEPT)
    return manifest.load(data)


def alive() -> int:
    gc.collect()
    return sum(type(thing) is Word for thing in gc.get_objects())


def test_documents_are_the_same_wherever_their_contents_are(data, large, monkeypatch):
    monkeypatch.undo()
    small = manifest.load(data)
    assert {type(document) for document in large.documents} == {StoredDocument}
    assert {type(document) for document in small.documents} == {Document}
    whole = [pickle.loads(pickle.dumps(document)) for document in large.documents]
    assert {type(document) for document in whole} == {Document}
    assert [*large.documents] == [*small.documents] == whole
    assert [*map(hash, large.documents)] == [*map(hash, whole)]
    changed = replace(large.documents[0], provider="another")
    assert type(changed) is Document
    assert changed == replace(whole[0], provider="another") != large.documents[0]


def test_what_is_counted_and_planned_does_not_depend_on_it(data, large, monkeypatch):
    plans = [[*plan_audit(ScanOptions(Path(), data, Path(), "quick", documents=20), "default")]]
    monkeypatch.undo()
    small = manifest.load(data)
    assert type(small.documents[0]) is Document
    assert (summarise(large), occurrences(large)) == (summarise(small), occurrences(small))
    assert [
        *plan_audit(ScanOptions(Path(), data, Path(), "quick", documents=20), "default")
    ] == plans[0]


def test_no_more_contents_are_in_memory_than_are_kept(large):
    before = alive()
    summarise(large)
    assert sum(len(document.words) for document in large.documents) > 10 * N
    most = max(len(document.words) for document in large.documents)
    assert alive() - before <= KEPT * most


def test_looking_for_copies_reads_each_document_once(large):
    assert find_copies(large).pairs == ()
    document = large.documents[0]
    assert isinstance(document, StoredDocument)
    assert document._file.contents.cache_info().misses <= len(large.documents)


def test_a_file_that_is_changed_in_place_is_not_read_again_and_one_that_is_replaced_stays(
    data, tmp_path, monkeypatch
):
    monkeypatch.setattr(manifest, "LARGE", 1)
    for path in ("manifest.toml", "documents.jsonl"):
        (tmp_path / path).write_bytes((data / path).read_bytes())
    file = tmp_path / "documents.jsonl"
    corpus = manifest.load(tmp_path)
    first = manifest.load(data).documents[0]
    file.with_suffix(".new").write_text("{}\n")
    os.replace(file.with_suffix(".new"), file)
    assert corpus.documents[0].words == first.words
    file.write_bytes((data / "documents.jsonl").read_bytes())
    corpus = manifest.load(tmp_path)
    with file.open("r+b") as stream:
        stream.readline()
        stream.write(b" ")
    with pytest.raises(EngineError, match="has changed since it was read") as raised:
        _ = corpus.documents[1].words
    assert first.words[0].text not in str(raised.value)


def test_sets_that_share_half_are_found_also_among_many_that_share_what_is_printed_on_all():
    rng = np.random.default_rng(0)
    printed = rng.integers(2**62, size=12)
    sets = [np.union1d(printed, rng.integers(2**62, size=rng.integers(1, 30))) for _ in range(60)]
    sets += [
        np.union1d(one[: rng.integers(4, len(one))], rng.integers(2**62, size=6)) for one in sets
    ]
    one = sets[::2]
    two = sets[1::2]
    alike = {
        (row, column)
        for (row, first), (column, second) in itertools.product(enumerate(one), enumerate(two))
        if len(np.intersect1d(first, second)) >= MIN_ALIKE * len(np.union1d(first, second))
    }
    assert 20 < len(alike) < len(one) * len(two) / 2
    assert {*alike_sets(one, two)} == alike


def test_what_a_scan_writes_does_not_grow_with_the_documents_that_are_there(checkpoints, tmp_path):
    sizes = []
    model = checkpoints("layoutlm", "token-classification", 2)
    for n in (10, 100):
        data = tiny.corpus(tmp_path / f"data-{n}", members=n, heldout=n, public=0)
        out = tmp_path / f"out-{n}"
        (out / "evidence").mkdir(parents=True)
        opened = open_session(
            ScanOptions(model, data, out, only=("membership",), documents=12, budget="quick")
        )
        record = run_scan(replace(opened, sampling=replace(opened.sampling, budget="tiny")), SILENT)
        assert [attack.status for attack in record.attacks] == ["completed"]
        (journal,) = (out / "evidence").glob("journal-*.jsonl")
        assert len(journal.read_text().splitlines()) == 12
        written = [
            path.stat().st_size for path in (out / "evidence").iterdir() if path.suffix == ".jsonl"
        ]
        sizes.append(len(dumps(record)) + sum(written))
    assert sizes[1] < 1.05 * sizes[0]
