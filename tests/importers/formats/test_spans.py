"""Texts with spans as spaCy and GLiNER write them."""

import sys
from pathlib import Path
from typing import Any

import pytest
from imported_files import import_files, refusal_of
from imported_sources import as_json, as_lines

from audit.importers.formats import tagged_text
from audit.workflows.init import guess_format

DOC = {"text": "Anna pays", "ents": [{"start": 0, "end": 4, "label": "PERSON"}], "tokens": []}
GLINER = {"tokenized_text": ["Anna", "Lee", "pays"], "ner": [[0, 1, "person"]]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("doc.json", as_json(DOC), id="one document"),
        pytest.param("docs.json", as_json([DOC]), id="a list"),
        pytest.param("docs.jsonl", as_lines(DOC), id="lines"),
    ],
)
def test_json_of_spacy_is_a_text_with_spans(name: str, content: str, tmp_path: Path) -> None:
    imported = import_files("spans", {name: content}, tmp_path)
    (document,) = imported.documents
    assert imported.text(document) == "Anna pays"
    assert imported.fields(document) == [("PERSON", "Anna")]


def test_groups_of_spans_beside_the_entities_are_counted(tmp_path: Path) -> None:
    row = {**DOC, "spans": {"sc": [{"start": 5, "end": 9, "label": "VERB"}]}}
    imported = import_files("spans", {"docs.jsonl": as_lines(row)}, tmp_path)
    assert imported.notes == {tagged_text.GROUPS: 1}


@pytest.mark.parametrize("format", ["spans", "hf"])
def test_spans_of_words_hold_their_last_word(format: str, tmp_path: Path) -> None:
    rows = [GLINER, {"tokenized_text": ["Bert", "sleeps"], "ner": []}]
    imported = import_files(format, {"train.json": as_json(rows)}, tmp_path)
    first, second = imported.documents
    assert imported.fields(first) == [("person", "Anna Lee")]
    assert (imported.text(second), imported.fields(second)) == ("Bert sleeps", [])


@pytest.mark.parametrize(
    ("span", "problem"),
    [
        pytest.param([0, 3, "x"], "a span is not within 3 words", id="behind the end"),
        pytest.param([2, 1, "x"], "a span is not within 3 words", id="backwards"),
        pytest.param([0, 1, 7], "not spans of words", id="no label"),
    ],
)
def test_a_span_of_no_words_is_refused(span: list[Any], problem: str, tmp_path: Path) -> None:
    files = {"train.json": as_json([{**GLINER, "ner": [span]}])}
    assert problem in refusal_of("spans", files, tmp_path)


def test_a_binary_file_needs_spacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy.tokens", None)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.spacy").write_bytes(b"x\x9cK\x04\x00\x00b\x00b")
    problem = refusal_of("spans", {}, tmp_path)
    assert "spaCy's binary files need spaCy, which is not installed" in problem


def test_what_is_no_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.spacy").write_bytes(b"no file of spaCy's")
    assert "not spaCy's DocBin" in refusal_of("spans", {}, tmp_path)


def test_a_binary_file_of_spacy_is_read(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    document = spacy.blank("en")("Anna pays")
    document.ents = [spacy.tokens.Span(document, 0, 1, label="PERSON")]
    (tmp_path / "src").mkdir()
    spacy.tokens.DocBin(docs=[document]).to_disk(tmp_path / "src" / "train.spacy")
    imported = import_files("spans", {}, tmp_path)
    (name,) = imported.documents
    assert imported.fields(name) == [("PERSON", "Anna")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("doc.json", as_json(DOC), id="spaCy"),
        pytest.param("train.json", as_json([GLINER]), id="GLiNER"),
        pytest.param("train.spacy", "", id="DocBin"),
    ],
)
def test_init_recognises_spans(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert guess_format(tmp_path) == "spans"
