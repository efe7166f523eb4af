"""Files of words and their pages, and the data sets that an import makes of them.

`DOCAUDIT_WRITE_TEXTS=1` rewrites the texts that they are compared with.
"""

import pytest
from imported_sources import (
    Source,
    as_json,
    check_import,
    check_refusal,
    imported,
    refused,
)

TEXTRACT = {
    "src/p.png": "600x200",
    "src/p.json": as_json(
        {
            "DocumentMetadata": {"Pages": 1},
            "AnalyzeDocumentModelVersion": "1.0",
            "Blocks": [
                {
                    "BlockType": "PAGE",
                    "Id": "page",
                    "Relationships": [{"Type": "CHILD", "Ids": ["line", "key"]}],
                    "Geometry": {"BoundingBox": {"Left": 0, "Top": 0, "Width": 1, "Height": 1}},
                },
                {
                    "BlockType": "LINE",
                    "Id": "line",
                    "Page": 1,
                    "Text": "Total: 9.00",
                    "Relationships": [{"Type": "CHILD", "Ids": ["w1", "w2"]}],
                },
                {
                    "BlockType": "WORD",
                    "Id": "w1",
                    "Page": 1,
                    "Text": "Total:",
                    "Geometry": {
                        "BoundingBox": {"Left": 0.1, "Top": 0.1, "Width": 0.2, "Height": 0.1}
                    },
                },
                {
                    "BlockType": "WORD",
                    "Id": "w2",
                    "Page": 1,
                    "Text": "9.00",
                    "Geometry": {
                        "BoundingBox": {"Left": 0.4, "Top": 0.1, "Width": 0.2, "Height": 0.1}
                    },
                },
                {
                    "BlockType": "KEY_VALUE_SET",
                    "Id": "key",
                    "Page": 1,
                    "EntityTypes": ["KEY"],
                    "Relationships": [
                        {"Type": "VALUE", "Ids": ["value"]},
                        {"Type": "CHILD", "Ids": ["w1"]},
                    ],
                },
                {
                    "BlockType": "KEY_VALUE_SET",
                    "Id": "value",
                    "Page": 1,
                    "EntityTypes": ["VALUE"],
                    "Relationships": [{"Type": "CHILD", "Ids": ["w2"]}],
                },
                {
                    "BlockType": "QUERY",
                    "Id": "q",
                    "Page": 1,
                    "Query": {"Text": "What is the total?", "Alias": "TOTAL"},
                    "Relationships": [{"Type": "ANSWER", "Ids": ["r"]}],
                },
                {"BlockType": "QUERY_RESULT", "Id": "r", "Page": 1, "Text": "9.00"},
                {"BlockType": "QUERY", "Id": "q2", "Page": 1, "Query": {"Text": "Who paid?"}},
            ],
        }
    ),
}
HOCR = {
    "src/p.png": "600x200",
    "src/p.hocr": """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"
 "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><body>
 <div class='ocr_page' id='page_1'
  title='image "p.png"; bbox 0 0 600 200; ppageno 0; scan_res 70 70'>
  <span class='ocr_line' id='line_1_1' title="bbox 24 59 323 90; baseline 0.003 -1">
   <span class='ocrx_word' id='word_1_1' title='bbox 24 61 149 90; x_wconf 96'>Invoice</span>
   <span class='ocrx_word' id='word_1_2'
    title='bbox 161 59 237 90; x_wconf 95'><strong>tot<em>al</em></strong></span>
   <span class='ocrx_word' id='word_1_3' title='bbox 249 60 323 90; x_wconf 95'>9.00 &amp; up</span>
   <span class='ocrx_word' id='word_1_4' title='bbox 0 0 9 9; x_wconf 5'> </span>
  </span>
 </div></body></html>""",
}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        imported(
            "hocr",
            "hocr",
            HOCR,
        ),
        imported(
            "alto",
            "alto",
            {
                "src/p.png": "600x200",
                "src/p.xml": """\
<?xml version="1.0" encoding="UTF-8"?>
<alto xmlns="http://www.loc.gov/standards/alto/ns-v3#">
<Description><MeasurementUnit>pixel</MeasurementUnit>
</Description><Layout><Page WIDTH="600" HEIGHT="200" PHYSICAL_IMG_NR="0"
 ID="page_0"><PrintSpace><TextBlock ID="b">
<TextLine ID="line_0"><String ID="string_0" HPOS="24" VPOS="61" WIDTH="125"
 HEIGHT="29" WC="0.96" CONTENT="Invoice"/>
<SP WIDTH="12" VPOS="61" HPOS="149"/>
<String ID="s1" HPOS="249" VPOS="60" WIDTH="74" HEIGHT="30" CONTENT="9.00"/>
</TextLine></TextBlock></PrintSpace></Page></Layout></alto>""",
            },
        ),
        imported(
            "doctr",
            "doctr",
            {
                "src/p.png": "600x200",
                "src/p.json": as_json(
                    {
                        "page_idx": 0,
                        "dimensions": [200, 600],
                        "orientation": {"value": None, "confidence": None},
                        "blocks": [
                            {
                                "geometry": [[0.04, 0.3], [0.5, 0.45]],
                                "objectness_score": 0.9,
                                "artefacts": [],
                                "lines": [
                                    {
                                        "geometry": [[0.04, 0.3], [0.5, 0.45]],
                                        "words": [
                                            {
                                                "value": "Invoice",
                                                "confidence": 0.9,
                                                "geometry": [[0.04, 0.3], [0.25, 0.45]],
                                            },
                                            {
                                                "value": "9.00",
                                                "confidence": 0.9,
                                                "geometry": [
                                                    [0.3, 0.3],
                                                    [0.5, 0.3],
                                                    [0.5, 0.45],
                                                    [0.3, 0.45],
                                                ],
                                            },
                                        ],
                                    }
                                ],
                            }
                        ],
                    }
                ),
            },
        ),
        imported("textract", "textract", TEXTRACT),
        imported(
            "textract for a tagger",
            "textract",
            TEXTRACT,
            arguments=["--task", "token-classification"],
        ),
        imported(
            "doctr of pages",
            "doctr",
            {
                "src/p.png": "600x200",
                "src/p.json": as_json(
                    {
                        "pages": [
                            {
                                "page_idx": 0,
                                "dimensions": [200, 600],
                                "blocks": [
                                    {
                                        "geometry": [[0.04, 0.3], [0.5, 0.45]],
                                        "artefacts": [],
                                        "lines": [
                                            {
                                                "geometry": [[0.04, 0.3], [0.5, 0.45]],
                                                "words": [
                                                    {
                                                        "value": "Invoice",
                                                        "confidence": 0.9,
                                                        "geometry": [[0.04, 0.3], [0.25, 0.45]],
                                                    }
                                                ],
                                            }
                                        ],
                                    }
                                ],
                            }
                        ]
                    }
                ),
            },
        ),
        imported(
            "doctr of a KIE predictor",
            "doctr",
            {
                "src/p.png": "600x200",
                "src/p.json": as_json(
                    {
                        "pages": [
                            {
                                "page_idx": 0,
                                "dimensions": [200, 600],
                                "predictions": {
                                    "total": [
                                        {
                                            "value": "9.00",
                                            "confidence": 0.9,
                                            "geometry": [[0.1, 0.1], [0.2, 0.2]],
                                        }
                                    ]
                                },
                            }
                        ]
                    }
                ),
            },
        ),
    ],
)
def test_a_source_becomes_its_data_set(name: str, source: Source, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_import(name, source, tmp_path)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        refused(
            "doctr without its files",
            "doctr",
            {"src/p.png": "600x200", "src/p.hocr": "<html>"},
            problem="holds no .json",
        ),
    ],
)
def test_a_source_that_cannot_be_meant_is_refused(
    source: Source, problem: str, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_refusal(source, problem, tmp_path)


@pytest.mark.parametrize("path", ["p.html", "p.png.hocr", "words/p.hocr"])
def test_a_word_file_has_the_name_of_its_image(path: str, tmp_path, monkeypatch) -> None:
    files = {"src/p.png": HOCR["src/p.png"], f"src/{path}": HOCR["src/p.hocr"]}
    monkeypatch.chdir(tmp_path)
    check_import("hocr", Source("hocr", files), tmp_path)
