"""Imports for a model that was trained elsewhere: the owner names what it was trained on, and is told to."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from commands import docaudit
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.errors import ManifestError, UsageError
from audit.importers.divide import NamedMembers, divide
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.importers.source import Options as SourceOptions

funsd = FORMATS["funsd"]
snips = FORMATS["snips"]

HALVES: dict[Split, float] = {"member": 0.4, "heldout": 0.5, "public": 0.5}


@pytest.fixture
def forms(tmp_path):
    """Twelve forms f00 to f11; f03 has the image of f02."""
    source = tmp_path / "forms"
    for folder in ("annotations", "images"):
        (source / folder).mkdir(parents=True)
    for number in range(12):
        words = [{"text": f"NO. {number}", "box": [1, 1, 40, 9]}]
        item = {"id": 0, "label": "answer", "words": words, "linking": []}
        (source / "annotations" / f"f{number:02}.json").write_text(json.dumps({"form": [item]}))
        noise = np.random.default_rng(2 if number == 3 else number).integers(
            0, 256, (60, 50), np.uint8
        )
        Image.fromarray(noise).save(source / "images" / f"f{number:02}.png")
    return source


def imported(*arguments: object, text: str | None = None) -> str:
    result = docaudit("import", *arguments, input=text, terminal_width=1000)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_members_that_are_named_are_members_and_their_copies_are_left_out(forms, tmp_path):
    given = NamedMembers(("f00", "images/f01.png", "f02.json", "f10"))
    report = funsd.convert(ImportRequest(forms, tmp_path / "out", HALVES, 5, division=given))
    corpus = manifests.load(tmp_path / "out")
    assert {document.id for document in corpus.of("member")} == {"f00", "f01", "f02", "f10"}
    assert report.documents == {"member": 4, "heldout": 4, "public": 3, "left out": 1}
    assert "f03" not in {document.id for document in corpus.documents}, (
        "a copy of a trained page is no control"
    )
    assert corpus.manifest.membership.assigned == "official"


def test_a_name_that_no_document_has_is_refused(forms, tmp_path):
    with pytest.raises(
        ManifestError,
        match=r"1 of 2 names are those of no document of the source\. The first is name 2 of the file",
    ):
        funsd.convert(
            ImportRequest(
                forms, tmp_path / "out", HALVES, 5, division=NamedMembers(("f00", "f99.png"))
            )
        )
    assert not (tmp_path / "out").exists()


def test_a_source_with_its_own_division_takes_names_too(tmp_path):
    for part, count in (("train", 6), ("test", 4)):
        folder = tmp_path / "snips" / part
        folder.mkdir(parents=True)
        (folder / "seq.in").write_text(
            "".join(f"play {part} {number}\n" for number in range(count))
        )
        (folder / "seq.out").write_text("O B-track I-track\n" * count)
        (folder / "label").write_text("PlayMusic\n" * count)
    given = NamedMembers(("train-00001", "test-00003"))
    stated = SourceOptions(assigned="by-date")
    snips.convert(
        ImportRequest(tmp_path / "snips", tmp_path / "out", HALVES, 0, given, options=stated)
    )
    corpus = manifests.load(tmp_path / "out")
    assert {document.id for document in corpus.of("member")} == {"train-00001", "test-00003"}
    assert Counter(document.split for document in corpus.documents) == {
        "member": 2,
        "heldout": 4,
        "public": 4,
    }
    assert corpus.manifest.membership.assigned == "by-date"


def test_pages_of_a_members_document_are_left_out():
    drawn = divide(
        [["a"], ["b"], ["c"], ["d"]], [["a", "b"]], {}, {"heldout": 1.0}, 0, NamedMembers(("a",))
    )
    assert drawn == {"a": "member", "c": "heldout", "d": "heldout"}


def test_the_command_takes_a_file_of_names(forms, tmp_path):
    names = tmp_path / "members.txt"
    names.write_text("f04.png\n\n  f05\n", encoding="utf-8")
    said = imported(
        "funsd",
        forms,
        tmp_path / "out",
        "--members",
        names,
        "--assigned",
        "random",
        "--public",
        "0.25",
    )
    assert (
        "must have been trained on the 2 documents of split member, and on none of heldout" in said
    )
    assert "invents membership" not in said
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.membership.assigned == "random"
    assert {document.id for document in corpus.of("member")} == {"f04", "f05"}


def test_an_unstated_rule_is_named_with_the_setting_to_change(forms, tmp_path):
    (tmp_path / "members.txt").write_text("f04\n")
    said = imported("funsd", forms, tmp_path / "out", "--members", tmp_path / "members.txt")
    assert 'manifest.toml says assigned = "official", as nobody stated' in said
    assert "--assigned random" in said
    stated = imported(
        "funsd",
        forms,
        tmp_path / "two",
        "--members",
        tmp_path / "members.txt",
        "--assigned",
        "official",
    )
    assert "as nobody stated" not in stated


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("names.txt", "f04.png\nimages/f05.png\n", id="a list of names"),
        pytest.param(
            "names.csv", "score,file_name\n1,f04.png\n2,f05.png\n", id="a column of file names"
        ),
        pytest.param("names.tsv", "id\tx\nf04\t1\nf05\t2\n", id="a column of ids"),
        pytest.param(
            "names.json",
            '["f04", {"image": "/home/me/images/f05.png"}]',
            id="a list of names and entries",
        ),
        pytest.param(
            "names.jsonl",
            '{"images": ["images/f04.png"], "messages": []}\n{"id": "f05"}\n',
            id="lines of messages and entries",
        ),
    ],
)
def test_names_are_read_from_what_people_have(name, content, forms, tmp_path):
    (tmp_path / name).write_text(content)
    imported("funsd", forms, tmp_path / "out", "--members", tmp_path / name)
    assert {document.id for document in manifests.load(tmp_path / "out").of("member")} == {
        "f04",
        "f05",
    }


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param(
            "names.csv", "score,other\n1,2\n", "no column is called id", id="no column of names"
        ),
        pytest.param("names.json", '{"a": 1}', "not a list", id="not a list"),
        pytest.param("names.json", "[", "Expecting value", id="broken JSON"),
        pytest.param(
            "names.jsonl", '{"text": "x"}\n', "an entry has no name", id="an entry without a name"
        ),
    ],
)
def test_files_without_names_are_refused(name, content, problem, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=problem):
        NamedMembers.read(tmp_path / name)


def test_held_out_documents_may_be_named_too(forms, tmp_path):
    (tmp_path / "trained").write_text("f00\nf02\n")
    (tmp_path / "kept").write_text("f03\nf04\nf05\n")
    lists = ("--members", tmp_path / "trained", "--heldout", tmp_path / "kept")
    imported("funsd", forms, tmp_path / "out", *lists, "--public", "0.5")
    corpus = manifests.load(tmp_path / "out")
    assert {document.id for document in corpus.of("member")} == {"f00", "f02"}
    assert {document.id for document in corpus.of("heldout")} == {"f04", "f05"}, (
        "f03 is a copy of f02"
    )
    assert len(corpus.of("public")) in (3, 4)
    assert not {document.id for document in corpus.of("public")} & {
        "f03",
        "f00",
        "f02",
        "f04",
        "f05",
    }


def test_a_document_cannot_be_trained_on_and_kept_out(forms, tmp_path):
    given = NamedMembers(("f00", "f01"), heldout=("f01.png",))
    with pytest.raises(ManifestError, match="1 documents are in --members and in --heldout"):
        funsd.convert(ImportRequest(forms, tmp_path / "out", HALVES, 5, division=given))


def test_a_second_folder_was_not_trained_on(forms, tmp_path):
    second = tmp_path / "second"
    shutil.copytree(forms, second)
    for number in range(12):
        noise = np.random.default_rng(number if number < 2 else 50 + number).integers(
            0, 256, (60, 50), np.uint8
        )
        Image.fromarray(noise).save(second / "images" / f"f{number:02}.png")
    said = imported(
        "funsd",
        forms,
        tmp_path / "out",
        "--heldout-from",
        second,
        "--heldout",
        "1",
        "--public",
        "0",
    )
    assert "trained on the 12 documents of split member" in said
    corpus = manifests.load(tmp_path / "out")
    assert len(corpus.of("member")) == 12
    assert {document.id for document in corpus.of("heldout")} == {
        f"2-f{number:02}" for number in range(2, 12)
    }
    assert corpus.document("2-f02").image == "images/2-f02.png", (
        "pages of equal name are kept apart"
    )


def test_a_division_that_was_drawn_is_said_to_invent_membership(forms, tmp_path):
    said = imported("funsd", forms, tmp_path / "out")
    assert (
        "The audited model must have been trained on the 5 documents of split member, and on none of heldout"
        in said
    )
    assert (
        "This division was drawn just now. For a model that was trained before, it invents membership"
        in said
    )
    assert "--members FILE" in said
    assert "--official" not in said, "FUNSD has no division of its own"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--members", "{names}", "--member", "0.5"], "--members and --member say in several ways"),
        (["--members", "{names}", "--by-provider"], "No such option: --by-provider"),
        (["--assigned", "random"], "add --members FILE"),
        (["--heldout", "{names}"], "names held-out documents, but nothing names the members"),
        (["--heldout", "1.5"], "a share is between 0 and 1"),
        (
            ["--members", "{names}", "--heldout-from", "{names}"],
            "--members and --heldout-from say in several ways",
        ),
        (
            ["--heldout-from", "{names}", "--member", "0.5"],
            "--heldout-from and --member say in several ways",
        ),
        (["--members", "{nothing}"], "no document is named"),
        (["--members", "{missing}"], "missing: No such file or directory"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message, forms, tmp_path):
    (tmp_path / "names").write_text("f00\n")
    (tmp_path / "nothing").write_text("\n")
    places = {name: tmp_path / name for name in ("names", "nothing", "missing")}
    arguments = [option.format(**places) for option in options]
    result = docaudit("import", "funsd", forms, tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_a_file_of_names_is_read_as_text(tmp_path):
    (tmp_path / "latin").write_bytes("caf\xe9\n".encode("latin-1"))
    with pytest.raises(UsageError, match="latin: not UTF-8 text"):
        NamedMembers.read(tmp_path / "latin")
