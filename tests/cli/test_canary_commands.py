"""`docaudit canary insert` as a user meets it: what it prints, what it writes, and how it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import asked_pages
import numpy as np
import pytest
import tiny
import typer
from typer.testing import CliRunner

from audit.cli import app as docaudit
from audit.cli.references import canary
from audit.corpus import manifest as manifests
from audit.corpus.canaries.pages import sheet_of
from audit.corpus.canaries.schema import load_canaries
from audit.corpus.documents import ReferencePaths
from audit.corpus.images import page_view

app = typer.Typer()
app.add_typer(canary, name="canary")


def insert(*arguments: object):
    words = ["canary", "insert", *map(str, arguments)]
    return CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "200"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.corpus(tmp_path / "data", images=True)


def test_says_what_was_put_in_what_it_can_show_and_what_is_next(data: Path, tmp_path: Path) -> None:
    corpus = manifests.load(data)
    named = replace(corpus.manifest, references=ReferencePaths(pretrained="start"))
    manifests.write(data, named, corpus.documents)
    out = tmp_path / "out"
    result = insert(data, out, "--repeat", 2)
    assert result.exit_code == 0
    canaries = json.loads((out / "canaries.json").read_text())["canaries"]
    included = sum(canary["included"] for canary in canaries)
    assert len(canaries) == 64
    text = " ".join(result.output.split())
    assert f"put {included} of them in and left {64 - included} out" in text
    assert f"{2 * included} training documents were added, 2 for each" in text
    assert "copies of 6 member pages" in text
    assert "epsilon of at most 2.32" in text
    assert "2 records together, 1.2 of each" in text
    assert "B-canary and I-canary are at the end of task.labels" in text
    assert f"pretrained of {data}" in text
    assert f"docaudit scan MODEL_DIR {out}" in text
    assert not any(canary["prefix"][2] in text for canary in canaries)
    inspected = CliRunner().invoke(docaudit, ["inspect", str(out)], env={"COLUMNS": "200"})
    assert (
        f"canaries: 64 of pattern pin, {included} of them in {2 * included} documents"
        in inspected.output
    )


def test_few_canaries_and_coins_that_all_fall_alike_are_told(data: Path, tmp_path: Path) -> None:
    seed = next(
        seed
        for seed in range(20)
        if insert(data, tmp_path / f"o{seed}", "--count", 2, "--seed", seed).exit_code == 0
        and len(
            {
                c["included"]
                for c in json.loads((tmp_path / f"o{seed}/canaries.json").read_text())["canaries"]
            }
        )
        == 1
    )
    result = insert(data, tmp_path / "again", "--count", 2, "--seed", seed)
    assert result.exit_code == 0
    assert "all coins fell the same way" in result.output
    assert "Too few to bound epsilon from below: that takes at least 9." in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--count", 1], "--count"),
        (["--length", 11], "--length"),
        (["--length", 0], "--length"),
        (["--repeat", 0], "--repeat"),
        (["--pattern", "iban"], "--pattern"),
        (["--pattern", "color", "--length", 10], "no blank place on any member page"),
    ],
)
def test_options_that_cannot_be_honoured(
    options: tuple[object, ...], message: str, data: Path, tmp_path: Path
) -> None:
    result = insert(data, tmp_path / "out", *options)
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_a_data_set_with_canaries_is_refused_and_so_is_a_full_folder(
    data: Path, tmp_path: Path
) -> None:
    assert insert(data, tmp_path / "out", "--count", 4).exit_code == 0
    twice = insert(tmp_path / "out", tmp_path / "twice")
    assert twice.exit_code == 2
    assert "the data set has canaries already" in twice.output
    full = insert(data, tmp_path / "out")
    assert full.exit_code == 2
    assert "is DATA_DIR, which is audited as it is" in full.output


def test_data_of_questions_gets_secrets_of_several_kinds_that_no_page_prints(
    tmp_path: Path,
) -> None:
    pages = asked_pages.corpus(tmp_path / "data", labels=("TOTAL",)).root
    result = insert(pages, tmp_path / "out", "--count", 18, "--length", 2)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "18 canaries of pattern pin, names, mixed" in text
    assert "1 or 4 or 16 for each" in text
    assert "Train with CanaryCallback" in text
    corpus = manifests.load(tmp_path / "out")
    drawn = load_canaries(corpus)
    assert drawn is not None
    assert drawn.tiers == (1, 4, 16)
    included = [one for one in drawn.canaries if one.included]
    assert {one.copies for one in included} <= {1, 4, 16}
    for one in included:
        for name in one.documents:
            document = corpus.document(name)
            (asked,) = document.questions
            assert asked.answers == (" ".join(one.completion),)
            assert [word.text for word in document.words][-len(one.prefix) :] == [*one.prefix]
            # What is asked about after the training is the page of the training.
            sheet = sheet_of(corpus, one)
            assert sheet.words == document.words
            assert np.array_equal(
                np.asarray(sheet.image), np.asarray(page_view(corpus, document).image)
            )
