"""The importer of Snips on small files of its shape: what becomes an utterance, what is refused, how it is divided."""

import json
from pathlib import Path

import pytest

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.errors import ManifestError, UsageError
from audit.importers.formats.snips import FILES
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

MANIFEST = """
schema = 1
name = "u"
[task]
kind = "intent-slots"
labels = ["B-name", "O"]
[membership]
assigned = "random"
"""
DOCUMENT = {
    "id": "u1",
    "split": "member",
    "words": [
        {"text": "play"},
        {"text": "ella"},
        {"text": "now"},
    ],
    "tags": ["O", "B-name", "O"],
    "intent": "Play",
    "paragraphs": [0, 2],
}

snips = FORMATS["snips"]

ALL_MEMBERS: dict[Split, float] = {"member": 1.0}
OFFICIAL: dict[Split, float] = {"member": 1.0, "heldout": 0.6, "public": 0.4}
Line = tuple[str, str, str]
PLAY: Line = ("play some ella fitzgerald ", "O O B-artist I-artist ", "PlayMusic")
RATE: Line = ("rate it five", "O O B-rating_value", "RateBook")


def lay_out(src: Path, **parts: list[Line]) -> Path:
    for part, lines in parts.items():
        (src / part).mkdir(parents=True, exist_ok=True)
        for name, column in zip(FILES, zip(*lines, strict=True), strict=True):
            (src / part / name).write_text(
                "".join(f"{text}\n" for text in column), encoding="utf-8"
            )
    return src


def numbered(first: int, count: int) -> list[Line]:
    return [
        (f"rate it {number}", "O O B-rating_value", "RateBook")
        for number in range(first, first + count)
    ]


def test_utterances_tags_intents_and_labels(tmp_path: Path) -> None:
    src = lay_out(tmp_path / "src", train=[PLAY, RATE], test=[("añade  esto", "O B-item", "Add")])
    report = snips.convert(ImportRequest(src, tmp_path / "dst", ALL_MEMBERS, seed=1))
    corpus = manifests.load(tmp_path / "dst")
    assert [document.id for document in corpus.documents] == [
        "train-00001",
        "train-00002",
        "test-00001",
    ]
    first, _, last = corpus.documents
    assert [word.text for word in first.words] == ["play", "some", "ella", "fitzgerald"]
    assert (first.tags, first.intent) == (("O", "O", "B-artist", "I-artist"), "PlayMusic")
    assert ([word.text for word in last.words], corpus.manifest.task.kind) == (
        ["añade", "esto"],
        "intent-slots",
    )
    assert corpus.manifest.task.labels == ("B-artist", "B-item", "B-rating_value", "I-artist", "O")
    assert corpus.manifest.membership.assigned == "random"
    assert report.fields == {"artist": 1, "item": 1, "rating_value": 1}
    assert report.notes["utterances with spaces at an end or doubled, which were dropped"] == 2
    assert (
        json.loads((tmp_path / "dst" / "import-report.json").read_text(encoding="utf-8"))["fields"]
        == report.fields
    )


def test_lines_that_make_no_utterance_are_counted_and_left_out(tmp_path: Path) -> None:
    lines = [
        RATE,
        ("play ella", "O B-artist I-artist", "PlayMusic"),
        ("", "", ""),
        ("play ella", "O B-artist", " "),
        ("play it now", "O O", "PlayMusic"),
        ("", "", "PlayMusic"),
        ("play ella now", "O I-artist I-song", "PlayMusic"),
    ]
    report = snips.convert(
        ImportRequest(lay_out(tmp_path / "src", train=lines), tmp_path / "dst", ALL_MEMBERS, seed=1)
    )
    assert [d.id for d in manifests.load(tmp_path / "dst").documents] == [
        "train-00001",
        "train-00007",
    ]
    assert report.documents == {"member": 2, "heldout": 0, "public": 0, "left out": 4}
    assert report.notes["empty lines, left out"] == 1
    assert report.notes["utterances left out: another number of tags than words"] == 2
    assert (
        report.notes["utterances left out: no intent"],
        report.notes["utterances left out: no words"],
    ) == (1, 1)
    assert report.fields == {"artist": 3, "rating_value": 1, "song": 1}
    assert report.not_located["artist"] == {"another number of tags than words": 1, "no intent": 1}
    assert report.unlocated == [
        ("train-00002", "artist", "another number of tags than words"),
        ("train-00004", "artist", "no intent"),
    ]


def test_a_line_that_is_not_utf8_is_read_as_latin1_by_itself(tmp_path: Path) -> None:
    src = lay_out(tmp_path / "src", train=[PLAY, RATE, RATE])
    lines = ["joué", "\ufeffjoué", "naïve\u2028\x85 x"]
    content = lines[0].encode("latin-1") + b"\r\n" + lines[1].encode() + b"\n" + lines[2].encode()
    (src / "train" / "seq.in").write_bytes(b"\xef\xbb\xbf" + content)
    (src / "train" / "seq.out").write_text("O\nO\nO O\n")
    report = snips.convert(ImportRequest(src, tmp_path / "dst", ALL_MEMBERS, seed=1))
    found = [
        [word.text for word in document.words]
        for document in manifests.load(tmp_path / "dst").documents
    ]
    assert found == [["joué"], ["\ufeffjoué"], ["naïve", "x"]]
    assert report.notes["lines that are not UTF-8, read as Latin-1"] == 1
    assert (
        report.notes["utterances with spaces at an end or doubled, which were dropped"] == 1
    )  # not the CRLF


def test_equal_utterances_stay_together(tmp_path: Path) -> None:
    lines = numbered(0, 10)
    src = lay_out(
        tmp_path / "src",
        train=[*lines, lines[0]],
        valid=[("Rate  it 0", *lines[0][1:])],
        test=[lines[3]],
    )
    shares: dict[Split, float] = {"member": 0.4, "heldout": 0.3, "public": 0.3}
    seen = set()
    for seed in range(8):
        report = snips.convert(ImportRequest(src, tmp_path / f"{seed}", shares, seed))
        splits = {
            document.id: document.split
            for document in manifests.load(tmp_path / f"{seed}").documents
        }
        assert splits["train-00001"] == splits["train-00011"] == splits["valid-00001"]
        assert splits["train-00004"] == splits["test-00001"]
        assert report.notes["texts that occur several times, never in two splits"] == 2
        assert [report.documents[split] for split in shares] == [5, 4, 4]
        seen.add(splits["train-00001"])
    assert len(seen) > 1


def test_the_official_division(tmp_path: Path) -> None:
    src = lay_out(
        tmp_path / "src",
        train=numbered(0, 10),
        valid=[*numbered(20, 2), *numbered(0, 1)],
        test=numbered(30, 3),
    )
    report = snips.convert(
        ImportRequest(src, tmp_path / "dst", OFFICIAL, seed=1, division="official")
    )
    corpus = manifests.load(tmp_path / "dst")
    assert corpus.manifest.membership.assigned == "official"
    assert {document.id.split("-")[0] for document in corpus.of("member")} == {"train"}
    assert {document.id for document in corpus.of("heldout", "public")} == {
        *("valid-00001", "valid-00002"),
        *("test-00001", "test-00002", "test-00003"),
    }
    assert report.documents == {"member": 10, "heldout": 3, "public": 2, "left out": 1}
    assert report.notes["copies of documents of the training part, left out"] == 1
    with pytest.raises(UsageError, match="one part only"):
        snips.convert(
            ImportRequest(
                lay_out(tmp_path / "train", train=[RATE]),
                tmp_path / "no",
                OFFICIAL,
                seed=1,
                division="official",
            )
        )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(
            {"intent": None}, "intent: missing, and task.kind is intent-slots", id="no intent"
        ),
        pytest.param({"tags": None}, "tags: missing, and task.kind is intent-slots", id="no tags"),
        pytest.param(
            {"tags": ("O", "B-name", "I-other")},
            "tags[2]: I-other not among task.labels of the manifest",
            id="a tag that the manifest lacks",
        ),
        pytest.param(
            {"tags": ("O", "name", "O")},
            "tags[1]: none of O, B-..., I-...",
            id="a tag without a prefix",
        ),
        pytest.param(
            {"paragraphs": (1, 2)},
            "paragraphs: give increasing indices of the 3 words, the first 0",
            id="paragraphs that skip the first word",
        ),
        pytest.param(
            {"paragraphs": (0, 2, 2)},
            "paragraphs: give increasing indices of the 3 words, the first 0",
            id="paragraphs that do not increase",
        ),
        pytest.param(
            {"paragraphs": (0, 3)},
            "paragraphs: give increasing indices of the 3 words, the first 0",
            id="paragraphs beyond the words",
        ),
    ],
)
def test_what_an_utterance_needs(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    """The rules of a data set, importer or not: tags and intent, and paragraphs that cover all words."""
    (tmp_path / "manifest.toml").write_text(MANIFEST)
    (tmp_path / "documents.jsonl").write_text(json.dumps(DOCUMENT))
    assert manifests.load(tmp_path).documents[0].paragraphs == (0, 2)
    (tmp_path / "documents.jsonl").write_text(json.dumps(DOCUMENT | change))
    with pytest.raises(ManifestError) as caught:
        manifests.load(tmp_path)
    assert caught.value.problems == (f"documents.jsonl:1 {problem}",)
