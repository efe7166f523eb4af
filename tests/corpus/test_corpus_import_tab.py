"""The importer of the Text Anonymization Benchmark on small files of its shape: what a span is, what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Redaction, Split
from audit.errors import ManifestError, UsageError
from audit.importers.assemble import ImportReport
from audit.importers.formats.tab import page_of
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

tab = FORMATS["tab"]

ALL_MEMBERS: dict[Split, float] = {"member": 1.0}
Spans = list[list[Any]]


def marked(text: str) -> tuple[str, Spans]:
    """A text without its marks, `[PERSON:Ann]`, and what they mark; marks do not nest."""
    plain = ""
    spans = []
    for piece in re.split(r"(\[[A-Z]+:[^\]]*\])", text):
        found = re.fullmatch(r"\[([A-Z]+):([^\]]*)\]", piece)
        if found:
            spans.append([len(plain), len(plain) + len(found[2]), found[1]])
        plain += found[2] if found else piece
    return plain, spans


def lay_out(folder: Path, texts: dict[str, Any], mentions: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    (folder / "mentions.json").write_text(json.dumps(mentions), encoding="utf-8")
    return folder


def imported(folder: Path, text: str, spans: Spans) -> tuple[ImportReport, Document]:
    """The one document of a source with this text."""
    report = tab.convert(
        ImportRequest(
            lay_out(folder / "src", {"001": text}, {"001": spans}),
            folder / "dst",
            ALL_MEMBERS,
            seed=1,
        )
    )
    return report, manifests.load(folder / "dst").document("001")


def texts_of(document: Document) -> list[str]:
    return [word.text for word in document.words]


def test_spans_are_whole_words_and_what_stands_beside_them_is_kept(tmp_path: Path) -> None:
    text, spans = marked(
        "PROCEDURE\n\nMr [PERSON:Ann Lee] (“[ORG:the Bank]”) wrote on [DATETIME:2 May\n1999]’s eve, no. [CODE:7/98]."
        "\n\nShe is [DEM:Turkish]."
    )
    report, document = imported(tmp_path, text, spans)
    assert texts_of(document) == [
        *(
            "PROCEDURE",
            "Mr",
            "Ann",
            "Lee",
            "(“",
            "the",
            "Bank",
            "”)",
            "wrote",
            "on",
            "2",
            "May",
            "1999",
            "’s",
            "eve,",
        ),
        *("no.", "7/98", ".", "She", "is", "Turkish", "."),
    ]
    assert [
        (entity.label, entity.category, document.text_of(entity)) for entity in document.entities
    ] == [
        ("PERSON", "person", "Ann Lee"),
        ("ORG", "organization", "the Bank"),
        ("DATETIME", "datetime", "2 May 1999"),
        ("CODE", "code", "7/98"),
        ("DEM", "demographic", "Turkish"),
    ]
    assert all(entity.attack for entity in document.entities)
    assert [document.words[index].text for index in document.paragraphs] == [
        "PROCEDURE",
        "Mr",
        "She",
    ]
    assert document.image is document.size is document.words[0].box is None
    assert report.fields["PERSON"] == 1
    assert report.located["PERSON"] == report.located["CODE"] == {"exact": 1}
    assert "mentions that begin or end inside a word" not in report.notes


@given(st.data())
def test_every_character_is_kept_and_every_span_is_itself(data: st.DataObject) -> None:
    """Words joined are the text without white space, and the words of a span the span, wherever spans are."""
    text = data.draw(st.text("aé.( \n", min_size=1, max_size=40).filter(str.strip))
    edges = data.draw(st.lists(st.integers(0, len(text)), unique=True, max_size=8).map(sorted))
    spans = [
        (a, b, "MISC") for a, b in zip(edges[::2], edges[1::2], strict=False) if text[a:b].strip()
    ]
    found = page_of("t", text, spans)
    assert "".join(word.text for word in found.words) == "".join(text.split())
    values = ["".join(found.words[index].text for index in entity.words) for entity in found.fields]
    assert (values, found.paragraphs[0]) == (
        ["".join(text[span[0] : span[1]].split()) for span in spans],
        0,
    )
    inner = {index for entity in found.fields for index in entity.words[1:]}
    assert inner.isdisjoint(found.paragraphs)


def test_the_longest_of_overlapping_mentions_is_kept(tmp_path: Path) -> None:
    text = "Serco Limited (“Serco”) of London"
    spans: Spans = [
        [16, 21, "ORG"],
        [0, 23, "ORG"],
        [0, 23, "ORG"],
        [27, 33, "LOC"],
        [27, 33, "MISC"],
        [24, 30, "DEM"],
    ]
    report, document = imported(tmp_path, text, spans)
    assert [
        (entity.id, entity.label, document.text_of(entity)) for entity in document.entities
    ] == [
        ("m1", "ORG", "Serco Limited (“Serco”)"),
        ("m2", "DEM", "of Lon"),  # as long as the two after it, and the first in the text
    ]
    assert (report.fields["ORG"], report.not_located["ORG"]) == (
        3,
        {"repeated": 1, "overlapping": 1},
    )
    assert report.not_located["LOC"] == report.not_located["MISC"] == {"overlapping": 1}
    assert sorted(report.unlocated) == [
        ("001", "LOC", "overlapping"),
        ("001", "MISC", "overlapping"),
        ("001", "ORG", "overlapping"),
        ("001", "ORG", "repeated"),
    ]
    assert report.notes["mentions that begin or end inside a word"] == 1


def test_characters_are_counted_not_bytes_nor_code_units(tmp_path: Path) -> None:
    text, spans = marked("Ça 😀 \x07 é\u2028[PERSON:Çağlayan]\r\n\r\nand [LOC:Łódź].")
    _, document = imported(tmp_path, text, spans)
    assert texts_of(document) == ["Ça", "😀", "é", "Çağlayan", "and", "Łódź", "."]
    assert [document.text_of(entity) for entity in document.entities] == ["Çağlayan", "Łódź"]
    assert document.paragraphs == (0, 4)  # a line separator is no blank line, two CRLF are one


def test_offsets_that_fit_another_text_are_refused(tmp_path: Path) -> None:
    plain, spans = marked("The\n[PERSON:Ann]\n[ORG:Bank]\nand\n[LOC:Paris]\n[LOC:Rome]\n")
    fitting = imported(tmp_path, plain, spans)[1]
    assert [fitting.text_of(entity) for entity in fitting.entities] == [
        "Ann",
        "Bank",
        "Paris",
        "Rome",
    ]
    shifted = lay_out(tmp_path / "shifted", {"001": plain.replace("\n", "\r\n")}, {"001": spans})
    with pytest.raises(
        ManifestError,
        match="document 1 by name 4 of 4 mentions begin or end inside a word: offsets must count",
    ):
        tab.convert(ImportRequest(shifted, tmp_path / "no", ALL_MEMBERS, seed=1))
    accented, spans = marked("ééé [PERSON:Ann] [ORG:Bank] and [LOC:Paris]\n[LOC:Rome]")
    in_bytes = [
        [len(accented[:offset].encode()) for offset in span[:2]] + span[2:] for span in spans[:3]
    ]
    counted = lay_out(tmp_path / "bytes", {"001": accented}, {"001": in_bytes})
    with pytest.raises(ManifestError, match="offsets must count characters"):
        tab.convert(ImportRequest(counted, tmp_path / "no", ALL_MEMBERS, seed=1))


def test_the_manifest_and_the_splits(tmp_path: Path) -> None:
    texts = {f"{number:03}": f"Number {number} is Ann" for number in range(8)} | {
        "900": "Same Ann",
        "901": "same  ANN",
    }
    mentions: dict[str, Any] = {
        name: [[len(text) - 3, len(text), "PERSON"]] for name, text in texts.items()
    }
    mentions["003"] = []
    src = lay_out(tmp_path / "src", texts, mentions)
    shares: dict[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.2}
    for seed in range(6):
        report = tab.convert(ImportRequest(src, tmp_path / f"{seed}", shares, seed))
        corpus = manifests.load(tmp_path / f"{seed}")
        assert report.documents == {"member": 4, "heldout": 2, "public": 2, "left out": 2}
        both = [document.split for document in corpus.documents if document.id in ("900", "901")]
        assert len(both) in (0, 2)
        assert len(set(both)) < 2
        assert report.notes["texts that occur several times, never in two splits"] == 1
        assert report.notes["documents without a mention"] == 1
    assert corpus.manifest.task.kind == "token-classification"
    assert corpus.manifest.task.labels[:5] == ("O", "B-PERSON", "I-PERSON", "B-CODE", "I-CODE")
    assert (len(corpus.manifest.task.labels), corpus.manifest.membership.assigned) == (17, "random")
    assert corpus.manifest.redaction == Redaction("fixed")
    written = json.loads((tmp_path / "5" / "import-report.json").read_text(encoding="utf-8"))
    assert written["documents"] == report.documents
    tab.convert(ImportRequest(src, tmp_path / "mlm", ALL_MEMBERS, seed=1, task="mlm"))
    assert manifests.load(tmp_path / "mlm").manifest.task.labels == ()
    with pytest.raises(UsageError, match="cannot teach the task spade-extraction"):
        tab.convert(
            ImportRequest(src, tmp_path / "no", ALL_MEMBERS, seed=1, task="spade-extraction")
        )


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    src = lay_out(tmp_path / "src", {"a": "Ann"}, {"a": [[0, 3, "PERSON"]]})
    (src / "texts.json").write_bytes('{"a": "Ann é"}'.encode("latin-1"))
    with pytest.raises(
        ManifestError, match=r"texts\.json is not UTF-8 at byte 11: save it as UTF-8"
    ):
        tab.convert(ImportRequest(src, tmp_path / "dst", ALL_MEMBERS, seed=1))
    (src / "texts.json").write_bytes(b"\xef\xbb\xbf" + '{"a":\r\n"Ann é"}'.encode())
    tab.convert(ImportRequest(src, tmp_path / "dst", ALL_MEMBERS, seed=1))
    assert texts_of(manifests.load(tmp_path / "dst").document("a")) == ["Ann", "é"]
    (src / "mentions.json").write_text("{")
    with pytest.raises(ManifestError, match=r"mentions\.json is not JSON"):
        tab.convert(ImportRequest(src, tmp_path / "no", ALL_MEMBERS, seed=1))


def case(name: str, annotations: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A case of the official files: its mentions by annotator, each with its place, its kind and what it identifies."""
    marks = {
        annotator: [
            {
                "start_offset": start,
                "end_offset": end,
                "entity_type": kind,
                "identifier_type": identifies,
            }
            for start, end, kind, identifies in own
        ]
        for annotator, own in annotations.items()
    }
    inside = {annotator: {"entity_mentions": own} for annotator, own in marks.items()}
    shape = (
        {"annotations": inside}
        if "annotator_id" not in more
        else {"entity_mentions": next(iter(marks.values()))}
    )
    return {"doc_id": name, "text": f"Mr Ann Lee wrote on 2 May 1999. {name}", **shape, **more}


NAME = (3, 10, "PERSON", "DIRECT")
DATE = (20, 30, "DATETIME", "QUASI")


def official(folder: Path, **parts: list[dict[str, Any]]) -> Path:
    (folder / "src").mkdir()
    for part, cases in parts.items():
        (folder / "src" / f"echr_{part}.json").write_text(json.dumps(cases), encoding="utf-8")
    return folder / "src"


def test_officially_what_one_annotator_would_mask_is_hidden_and_dev_and_test_are_held_out(
    tmp_path: Path,
) -> None:
    kept = (0, 2, "MISC", "NO_MASK")
    src = official(
        tmp_path,
        train=[
            case("1", {"first": [NAME, DATE, kept], "second": [kept]}),
            case("2", {"first": [NAME]}),
        ],
        dev=[case("3", {"first": [NAME]})],
        test=[case("4", {"first": [DATE]})],
    )
    report = tab.convert(
        ImportRequest(src, tmp_path / "out", {"member": 1.0, "heldout": 1.0}, 1, "official")
    )
    corpus = manifests.load(tmp_path / "out")
    assert [document.split for document in corpus.documents] == [
        "member",
        "member",
        "heldout",
        "heldout",
    ]
    first = corpus.document("1")
    assert [(one.label, first.text_of(one)) for one in first.entities] == [
        ("PERSON", "Ann Lee"),
        ("DATETIME", "2 May 1999"),
    ]
    assert {label: count for label, count in report.fields.items() if count} == {
        "PERSON": 3,
        "DATETIME": 2,
    }
    assert corpus.manifest.redaction == Redaction("fixed")


def test_of_an_entry_for_each_annotator_the_checked_one_counts(tmp_path: Path) -> None:
    entries = [
        case("1", {"a": []}, annotator_id="a", quality_checked=False),
        case("1", {"b": [NAME]}, annotator_id="b", quality_checked=True),
        case("1", {"c": [DATE]}, annotator_id="c", quality_checked=False),
    ]
    tab.convert(ImportRequest(official(tmp_path, train=entries), tmp_path / "out", ALL_MEMBERS, 1))
    (document,) = manifests.load(tmp_path / "out").documents
    assert [document.text_of(one) for one in document.entities] == ["Ann Lee"]
