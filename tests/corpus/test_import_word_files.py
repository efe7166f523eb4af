"""Word files beside images, true to what Tesseract, docTR and Textract write: words, boxes, fields, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Split
from audit.errors import UsageError
from audit.importers.registry import FORMATS

ALL: dict[Split, float] = {"member": 1.0}
HOCR = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><body>
 <div class='ocr_page' id='page_1' title='image "p.png"; bbox 0 0 600 200; ppageno 0; scan_res 70 70'>
  <span class='ocr_line' id='line_1_1' title="bbox 24 59 323 90; baseline 0.003 -1">
   <span class='ocrx_word' id='word_1_1' title='bbox 24 61 149 90; x_wconf 96'>Invoice</span>
   <span class='ocrx_word' id='word_1_2' title='bbox 161 59 237 90; x_wconf 95'><strong>tot<em>al</em></strong></span>
   <span class='ocrx_word' id='word_1_3' title='bbox 249 60 323 90; x_wconf 95'>9.00 &amp; up</span>
   <span class='ocrx_word' id='word_1_4' title='bbox 0 0 9 9; x_wconf 5'> </span>
  </span>
 </div></body></html>
"""
ALTO = """<?xml version="1.0" encoding="UTF-8"?>
<alto xmlns="http://www.loc.gov/standards/alto/ns-v3#"><Description><MeasurementUnit>pixel</MeasurementUnit>
</Description><Layout><Page WIDTH="600" HEIGHT="200" PHYSICAL_IMG_NR="0" ID="page_0"><PrintSpace><TextBlock ID="b">
<TextLine ID="line_0"><String ID="string_0" HPOS="24" VPOS="61" WIDTH="125" HEIGHT="29" WC="0.96" CONTENT="Invoice"/>
<SP WIDTH="12" VPOS="61" HPOS="149"/><String ID="s1" HPOS="249" VPOS="60" WIDTH="74" HEIGHT="30" CONTENT="9.00"/>
</TextLine></TextBlock></PrintSpace></Page></Layout></alto>
"""
DOCTR: dict[str, Any] = {
    "pages": [
        {
            "page_idx": 0,
            "dimensions": [200, 600],
            "orientation": {"value": None, "confidence": None},
            "language": {"value": None, "confidence": None},
            "blocks": [
                {
                    "geometry": [[0.04, 0.3], [0.5, 0.45]],
                    "objectness_score": 0.9,
                    "lines": [
                        {
                            "geometry": [[0.04, 0.3], [0.5, 0.45]],
                            "words": [
                                {"value": "Invoice", "confidence": 0.9, "geometry": [[0.04, 0.3], [0.25, 0.45]]},
                                {
                                    "value": "9.00",
                                    "confidence": 0.9,
                                    "geometry": [[0.3, 0.3], [0.5, 0.3], [0.5, 0.45], [0.3, 0.45]],
                                },
                            ],
                        }
                    ],
                    "artefacts": [],
                }
            ],
        }
    ]
}


def block(identifier: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"BlockType": kind, "Id": identifier, "Page": 1, "Confidence": 99.0, **more}


def box(left: float, top: float, width: float, height: float) -> dict[str, Any]:
    return {"Geometry": {"BoundingBox": {"Left": left, "Top": top, "Width": width, "Height": height}, "Polygon": []}}


def children(kind: str, *ids: str) -> dict[str, Any]:
    return {"Type": kind, "Ids": [*ids]}


TEXTRACT = {
    "DocumentMetadata": {"Pages": 1},
    "AnalyzeDocumentModelVersion": "1.0",
    "Blocks": [
        block("page", "PAGE", **box(0, 0, 1, 1), Relationships=[children("CHILD", "line", "key")]),
        block(
            "line", "LINE", Text="Total: 9.00", **box(0.1, 0.1, 0.5, 0.1), Relationships=[children("CHILD", "w1", "w2")]
        ),
        block("w1", "WORD", Text="Total:", TextType="PRINTED", **box(0.1, 0.1, 0.2, 0.1)),
        block("w2", "WORD", Text="9.00", TextType="PRINTED", **box(0.4, 0.1, 0.2, 0.1)),
        block(
            "key",
            "KEY_VALUE_SET",
            EntityTypes=["KEY"],
            **box(0.1, 0.1, 0.2, 0.1),
            Relationships=[children("VALUE", "value"), children("CHILD", "w1")],
        ),
        block(
            "value",
            "KEY_VALUE_SET",
            EntityTypes=["VALUE"],
            **box(0.4, 0.1, 0.2, 0.1),
            Relationships=[children("CHILD", "w2")],
        ),
        block(
            "q",
            "QUERY",
            Query={"Text": "What is the total?", "Alias": "TOTAL"},
            Relationships=[children("ANSWER", "r")],
        ),
        block("r", "QUERY_RESULT", Text="9.00", **box(0.4, 0.1, 0.2, 0.1)),
        block("q2", "QUERY", Query={"Text": "Who paid?"}),
    ],
}


def lay_out(tmp_path: Path, name: str, content: str | dict[str, Any]) -> Path:
    src = tmp_path / "src"
    src.mkdir(exist_ok=True)
    Image.new("L", (600, 200), 250).save(src / "p.png")
    (src / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return src


def imported(form: str, src: Path, tmp_path: Path) -> Document:
    FORMATS[form].convert(src, tmp_path / "out", ALL, 1)
    (document,) = manifests.load(tmp_path / "out").documents
    return document


@pytest.mark.parametrize("name", ["p.hocr", "p.html", "p.png.hocr", "words/p.hocr"])
def test_hocr(name: str, tmp_path: Path) -> None:
    (tmp_path / "src" / "words").mkdir(parents=True)
    document = imported("hocr", lay_out(tmp_path, name, HOCR), tmp_path)
    assert [(word.text, word.box) for word in document.words] == [
        ("Invoice", (24, 61, 149, 90)),
        ("total", (161, 59, 237, 90)),
        ("9.00 & up", (249, 60, 323, 90)),
    ]
    assert document.id == "p"


def test_alto(tmp_path: Path) -> None:
    document = imported("alto", lay_out(tmp_path, "p.xml", ALTO), tmp_path)
    assert [(word.text, word.box) for word in document.words] == [
        ("Invoice", (24, 61, 149, 90)),
        ("9.00", (249, 60, 323, 90)),
    ]


@pytest.mark.parametrize("content", [DOCTR, DOCTR["pages"][0]])
def test_doctr(content: dict[str, Any], tmp_path: Path) -> None:
    document = imported("doctr", lay_out(tmp_path, "p.json", content), tmp_path)
    assert [(word.text, word.box) for word in document.words] == [
        ("Invoice", (24, 60, 150, 90)),
        ("9.00", (180, 60, 300, 90)),
    ]


def test_what_doctrs_kie_predictor_found_is_a_field(tmp_path: Path) -> None:
    word = {"value": "9.00", "confidence": 0.9, "geometry": [[0.1, 0.1], [0.2, 0.2]]}
    page = {"page_idx": 0, "dimensions": [200, 600], "predictions": {"total": [word]}}
    document = imported("doctr", lay_out(tmp_path, "p.json", {"pages": [page]}), tmp_path)
    assert [(one.label, document.text_of(one)) for one in document.entities] == [("total", "9.00")]


def test_textract(tmp_path: Path) -> None:
    src = lay_out(tmp_path, "p.json", TEXTRACT)
    document = imported("textract", src, tmp_path)
    assert [(word.text, word.box) for word in document.words] == [
        ("Total:", (60, 20, 180, 40)),
        ("9.00", (240, 20, 360, 40)),
    ]
    assert [(one.label, document.text_of(one), one.attack) for one in document.entities] == [
        ("key", "Total:", False),
        ("value", "9.00", True),
    ]
    assert [(one.id, one.question, one.answers) for one in document.questions] == [
        ("TOTAL", "What is the total?", ("9.00",))
    ]
    report = FORMATS["textract"].convert(src, tmp_path / "tags", ALL, 1, task="token-classification")
    assert report.fields == {"key": 1, "value": 1, "ANSWER": 1}


def test_no_word_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no \.json"):
        FORMATS["doctr"].convert(lay_out(tmp_path, "p.hocr", HOCR), tmp_path / "out", ALL, 1)
