"""Character evasion measured on a planted data set: an unaware attacker is stopped, one who folds is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audit.corpus import manifest
from audit.corpus.documents import Category, Document, Entity, Manifest, Membership, Redaction, Task, Word
from audit.errors import ManifestError, UsageError
from audit.extensions.countermeasures.attackers import (
    Attacked,
    Evaluation,
    readings,
    rewrite_and_measure,
    verdict,
)
from audit.extensions.countermeasures.evasion import evade

N_DOCUMENTS = 30
PLANTED: tuple[tuple[Category, str], ...] = (("person", "anno"), ("location", "noon"), ("datetime", "ionian"))
"""The word before a value tells its category exactly, and consists of exchanged letters; all values are as long."""


def _document(number: int) -> Document:
    """A document of its own: equal ones would all fall into one fold."""
    words = ["Case", str(number), "."]
    entities = []
    for place in np.random.default_rng(number).permutation(len(PLANTED)):
        category, before = PLANTED[place]
        entities.append(Entity(f"e{place}", category.upper(), category, (len(words) + 2, len(words) + 3)))
        words += ["They", before, "Secret", f"v{number:02}", "."]
    return Document(id=f"d{number}", split="member", words=tuple(map(Word, words)), entities=tuple(entities))


def _write(folder: Path, documents: list[Document]) -> Path:
    settings = Manifest(
        schema=1,
        name="planted",
        task=Task("mlm"),
        membership=Membership("random"),
        redaction=Redaction("fixed"),
    )
    manifest.write(folder, settings, documents)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("evading") / "data", [_document(number) for number in range(N_DOCUMENTS)])


@pytest.fixture(scope="module")
def measured(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Evaluation, Path]:
    out = tmp_path_factory.mktemp("evaded")
    return rewrite_and_measure(data, out), out


def _by_name(found: Evaluation) -> dict[str, Attacked]:
    return {one.attacker.name: one for one in found.attacked}


def test_the_unaware_attacker_is_stopped_and_the_adaptive_ones_are_not(measured: tuple[Evaluation, Path]) -> None:
    found = _by_name(measured[0])
    assert found["clean"].accuracy.value == 1.0
    assert found["unaware"].accuracy.value < 0.7
    assert found["unaware"].change is not None
    assert found["unaware"].change.high < 0
    assert found["unaware"].p is not None
    assert found["unaware"].p < 0.01
    for name in ("folding", "retrained"):
        assert found[name].accuracy.value == 1.0
        assert found[name].lift_over_length == replace(found["clean"].lift_over_length, name=f"lift_over_length.{name}")
        assert found[name].change is not None
        assert found[name].change.value == 0.0


def test_evasion_that_stops_only_the_unaware_is_not_recommended(measured: tuple[Evaluation, Path]) -> None:
    found = measured[0]
    assert not found.recommended
    assert found.sentence.startswith("Not recommended: an attacker who knows of it")
    assert "breaks search and screen readers" in found.sentence


def test_it_is_recommended_only_when_every_adaptive_attacker_falls(measured: tuple[Evaluation, Path]) -> None:
    found = measured[0]
    fallen = found.attacked[1].change
    assert fallen is not None
    stopped = [replace(one, change=fallen) if one.attacker.adaptive else one for one in found.attacked]
    assert verdict(stopped, found.cost)[0]
    assert verdict(stopped, found.cost)[1].startswith("Recommended")
    one_left = [*stopped[:3], found.attacked[3]]
    assert not verdict(one_left, found.cost)[0]


def test_the_copy_is_a_data_set_in_other_letters_and_the_numbers_are_on_disk(
    data: Path, measured: tuple[Evaluation, Path]
) -> None:
    found, out = measured
    before, after = manifest.load(data), manifest.load(out / "data")
    assert [[word.text for word in document.words] for document in after.documents] == [
        [evade(word.text) for word in document.words] for document in before.documents
    ]
    assert after.manifest.redaction == before.manifest.redaction
    assert [document.entities for document in after.documents] == [document.entities for document in before.documents]
    content = json.loads((out / "comparison.json").read_text())
    assert content["recommended"] is found.recommended
    assert [one["attacker"]["name"] for one in content["attacked"]] == ["clean", "unaware", "folding", "retrained"]
    assert content["cost"]["lost"] == found.cost.lost > 0
    assert not any(word in (out / "comparison.json").read_text() for word in ("Secret", "ionian"))


def test_folding_gives_the_spans_back_exactly_and_before_sentences_are_divided() -> None:
    # "no." is an abbreviation in ordinary letters alone: in exchanged ones a sentence would end there.
    words = ["he", "lodged", "an", "application", "in", "no.", "12", "Main", "Street", ".", "Then", "he", "left"]
    document = Document(
        id="d",
        split="member",
        words=tuple(map(Word, words)),
        entities=(Entity("e", "CODE", "code", (6,)),),
    )
    found = readings([document], "length")
    assert found["folded"] == found["clean"]
    assert found["evaded"][0].before != evade(found["clean"][0].before)
    assert found["evaded"][0].mask == found["clean"][0].mask


def test_the_mask_is_what_is_seen_and_is_not_folded() -> None:
    ligature = Document(
        id="d",
        split="member",
        words=(Word("called"), Word("O\ufb03ce"), Word("today")),  # one character that folding makes three of
        entities=(Entity("e", "ORG", "organization", (1,)),),
    )
    (span,) = readings([ligature], "length")["folded"]
    assert (span.mask, span.n_characters) == ("****", 4)


def test_a_corpus_without_redactions_is_refused(tmp_path: Path) -> None:
    bare = [replace(_document(number), entities=()) for number in range(N_DOCUMENTS)]
    with pytest.raises(ManifestError, match="nothing is redacted"):
        rewrite_and_measure(_write(tmp_path / "data", bare), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_corpus_that_does_not_say_how_it_is_redacted_is_refused(data: Path, tmp_path: Path) -> None:
    corpus = manifest.load(data)
    manifest.write(tmp_path / "data", replace(corpus.manifest, redaction=None), corpus.documents)
    with pytest.raises(ManifestError, match="does not say"):
        rewrite_and_measure(tmp_path / "data", tmp_path / "out")


def test_text_without_the_letters_is_refused(tmp_path: Path) -> None:
    capitals = [
        replace(document, words=tuple(Word(word.text.upper()) for word in document.words))
        for document in map(_document, range(N_DOCUMENTS))
    ]
    with pytest.raises(ManifestError, match="nothing to exchange"):
        rewrite_and_measure(_write(tmp_path / "data", capitals), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_text_that_is_not_utf8_is_refused(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    copy.mkdir()
    (copy / "manifest.toml").write_bytes((data / "manifest.toml").read_bytes())
    lines = (data / "documents.jsonl").read_bytes()
    (copy / "documents.jsonl").write_bytes(lines.replace(b"Secret", b"S\xe9cret"))
    with pytest.raises(ManifestError, match=r"documents\.jsonl:1"):
        rewrite_and_measure(copy, tmp_path / "out")


def test_a_folder_that_holds_something_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        rewrite_and_measure(data, tmp_path)
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"
