"""`docaudit import --without LIST` leaves listed documents out of the next training set."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from commands import docaudit

from audit.corpus.documents import Split
from audit.corpus.manifest import load
from audit.corpus.summary import card

N_DOCUMENTS = 8
COPY = "copy of note 3"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Eight texts of different words, and a copy of the fourth."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(N_DOCUMENTS):
        (folder / f"note{number}.txt").write_text(f"note {number} of shop {number * 17}")
    (folder / f"{COPY}.txt").write_text("note 3 of shop 51")
    return folder


def run_import(source: Path, listed: str, *options: object) -> tuple[Path, Result]:
    """Import texts without those of a list; the first six and the copy are members."""
    names = source.with_name("members.txt")
    names.write_text("".join(f"note{number}\n" for number in range(6)) + f"{COPY}\n")
    path = source.with_name("list.txt")
    path.write_text(listed)
    data = source.with_name("data")
    named = options or ("--members", names)
    ran = docaudit("import", "pages", source, data, "--task", "mlm", "--without", path, *named)
    return data, ran


def ids_of(data: Path, split: Split) -> set[str]:
    return {document.id for document in load(data).of(split)}


def members_of(data: Path) -> set[str]:
    return ids_of(data, "member")


def test_listed_documents_are_in_no_split(source: Path) -> None:
    data, ran = run_import(source, "note1\nnote4.txt\n")
    assert ran.exit_code == 0, ran.output
    assert members_of(data) == {"note0", "note2", "note3", "note5", COPY}
    assert ids_of(data, "heldout") == {"note6", "note7"}


def test_a_copy_of_a_listed_document_goes_with_it(source: Path) -> None:
    data, ran = run_import(source, "note3\n")
    assert members_of(data) == {"note0", "note1", "note2", "note4", "note5"}
    assert "left out by --without: 1" in ran.output
    assert "copies of these, left out too: 1" in ran.output


def test_the_manifest_and_the_record_count_them(source: Path) -> None:
    data, _ = run_import(source, "note3\nnote1\n")
    membership = load(data).manifest.membership
    assert (membership.assigned, membership.left_out) == ("official", 3)
    assert "left_out = 3" in (data / "manifest.toml").read_text()
    assert card(load(data)).left_out == 3


def test_a_chosen_training_set_is_no_random_draw(source: Path) -> None:
    names = source.with_name("members.txt")
    data, _ = run_import(source, "note1\n", "--members", names, "--assigned", "random")
    assert load(data).manifest.membership.assigned == "official"


def test_the_training_documents_are_written_for_their_owner(source: Path) -> None:
    data, ran = run_import(source, "note1\n")
    names = (data / "training-documents.txt").read_text().splitlines()
    assert set(names) == members_of(data)
    assert "training-documents.txt" in ran.output
    again = source.with_name("again")
    members = ("--members", data / "training-documents.txt")
    ran = docaudit("import", "pages", source, again, "--task", "mlm", *members)
    assert ran.exit_code == 0, ran.output
    assert members_of(again) == set(names)


def test_a_drawn_division_stays_the_same_but_for_the_listed(source: Path) -> None:
    shares = ("--member", 0.5, "--heldout", 0.5, "--public", 0, "--seed", 3)
    before = source.with_name("before")
    docaudit("import", "pages", source, before, "--task", "mlm", *shares)
    first = min(members_of(before) - {"note3", COPY})
    data, ran = run_import(source, f"{first}\n", *shares)
    assert ran.exit_code == 0, ran.output
    assert members_of(data) == members_of(before) - {first}
    assert ids_of(data, "heldout") == ids_of(before, "heldout")


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        pytest.param("note1\nnote99\n", "--without: 1 of 2 names are those of no", id="unknown"),
        pytest.param("note1\nnote99\n", "The first is name 2 of the file", id="unknown's place"),
        pytest.param("note1\nnote99\n", "hint: give file names of the source", id="unknown's hint"),
        pytest.param("note1\nnote7\n", "--without: 1 of 2 documents are no training", id="unseen"),
        pytest.param("note1\nnote7.txt\n", "The first is name 2 of", id="unseen's place"),
        pytest.param("\n", "no document is named", id="empty"),
        pytest.param(
            "".join(f"note{number}\n" for number in range(6)),
            "leaves no training document",
            id="all",
        ),
    ],
)
def test_a_list_that_does_not_fit_is_refused(source: Path, listed: str, message: str) -> None:
    data, ran = run_import(source, listed)
    assert ran.exit_code == 2
    assert message in " ".join(ran.output.split())
    assert "note99" not in ran.output
    assert not data.exists()


def test_a_draw_of_providers_takes_no_list(source: Path) -> None:
    _, ran = run_import(source, "note1\n", "--by-provider")
    assert ran.exit_code == 2
    assert "--members FILE" in ran.output


def test_the_report_of_the_import_counts_them(source: Path) -> None:
    data, _ = run_import(source, "note1\n")
    table = json.loads((data / "import-report.json").read_text())
    assert table["without"] == 1
