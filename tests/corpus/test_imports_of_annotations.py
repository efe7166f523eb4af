"""Annotated pages and texts, and the data sets that an import makes of them.

`DOCAUDIT_WRITE_TEXTS=1` rewrites the texts that they are compared with.
"""

import pytest
from imported_sources import (
    TESSERACT_WORDS,
    Source,
    as_json,
    check_import,
    check_refusal,
    imported,
    refused,
)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        imported(
            "label-studio regions",
            "label-studio",
            {
                "src/images/p$n.png": "600x200",
                "src/images/p0.tsv": TESSERACT_WORDS,
                "src/export.json": as_json(
                    [
                        {
                            "id": 1,
                            "data": {
                                "image": "/data/local-files/?d=images/p0.png",
                                "issuer": "Shop",
                            },
                            "annotations": [
                                {
                                    "id": 1,
                                    "was_cancelled": False,
                                    "result": [
                                        {
                                            "original_width": 600,
                                            "image_rotation": 0,
                                            "id": "a",
                                            "type": "rectanglelabels",
                                            "from_name": "label",
                                            "to_name": "image",
                                            "value": {
                                                "x": 40,
                                                "y": 25,
                                                "width": 20,
                                                "height": 25,
                                                "rotation": 0,
                                                "rectanglelabels": ["Total"],
                                            },
                                        },
                                        {
                                            "value": {"choices": ["invoice"]},
                                            "id": "c",
                                            "type": "choices",
                                            "from_name": "k",
                                            "to_name": "image",
                                        },
                                    ],
                                }
                            ],
                            "predictions": [],
                        },
                        {
                            "id": 2,
                            "data": {"image": "/data/upload/1/0a1b2c3d-p1.png"},
                            "annotations": [
                                {"id": 2, "was_cancelled": True, "result": [{}]},
                                {
                                    "id": 3,
                                    "result": [
                                        {
                                            "id": "b",
                                            "type": "rectangle",
                                            "value": {"x": 0, "y": 0, "width": 50, "height": 10},
                                        },
                                        {
                                            "id": "b",
                                            "type": "labels",
                                            "value": {
                                                "x": 0,
                                                "y": 0,
                                                "width": 50,
                                                "height": 10,
                                                "labels": ["Name"],
                                            },
                                        },
                                        {
                                            "id": "b",
                                            "type": "textarea",
                                            "value": {
                                                "x": 0,
                                                "y": 0,
                                                "width": 50,
                                                "height": 10,
                                                "text": ["Ann Lee"],
                                            },
                                        },
                                        {
                                            "id": "d",
                                            "type": "rectangle",
                                            "value": {"x": 0, "y": 50, "width": 50, "height": 10},
                                        },
                                        {
                                            "id": "d",
                                            "type": "textarea",
                                            "value": {
                                                "x": 0,
                                                "y": 50,
                                                "width": 50,
                                                "height": 10,
                                                "text": "printed",
                                            },
                                        },
                                        {
                                            "from_id": "b",
                                            "to_id": "d",
                                            "type": "relation",
                                            "direction": "right",
                                        },
                                    ],
                                },
                            ],
                        },
                    ]
                ),
            },
            arguments=["--provider-column", "issuer"],
        ),
        imported(
            "label-studio spans",
            "label-studio",
            {
                "src/export.json": as_json(
                    [
                        {
                            "id": 7,
                            "data": {"text": "Hello Ann, bye"},
                            "annotations": [
                                {
                                    "result": [
                                        {
                                            "value": {
                                                "start": 6,
                                                "end": 9,
                                                "text": "Ann",
                                                "labels": ["PER"],
                                            },
                                            "id": "x",
                                            "type": "labels",
                                        }
                                    ]
                                }
                            ],
                        }
                    ]
                )
            },
        ),
        imported(
            "coco",
            "coco",
            {
                "src/images/p$n.png": "600x200",
                "src/images/p0.tsv": TESSERACT_WORDS,
                "src/instances_train.json": as_json(
                    {
                        "info": {},
                        "licenses": [],
                        "categories": [{"id": 3, "name": "total", "supercategory": "field"}],
                        "images": [
                            {"id": 1, "file_name": "p0.png", "width": 300, "height": 100},
                            {"id": 2, "file_name": "images/p1.png", "width": 600, "height": 200},
                        ],
                        "annotations": [
                            {
                                "id": 1,
                                "image_id": 1,
                                "category_id": 3,
                                "bbox": [120, 25, 50, 25],
                                "area": 9,
                                "iscrowd": 0,
                                "segmentation": [],
                            },
                            {
                                "id": 2,
                                "image_id": 1,
                                "category_id": 3,
                                "bbox": [0, 90, 5, 5],
                                "area": 9,
                                "iscrowd": 0,
                                "segmentation": [],
                            },
                            {
                                "id": 3,
                                "image_id": 2,
                                "category_id": 3,
                                "bbox": [0, 90, 5, 5],
                                "area": 9,
                                "iscrowd": 0,
                                "segmentation": [],
                            },
                        ],
                    }
                ),
            },
        ),
        imported(
            "csv of keys and values",
            "csv",
            {
                "src/images/p$n.png": "600x200",
                "src/images/p0.tsv": TESSERACT_WORDS,
                "src/values.csv": """\
file,key,value,split,provider
p0.png,total,9.00,train,Shop
p0.png,date,1 May,train,Shop
images/p1.png,total,5.00,test,Bank""",
            },
            arguments=["--official", "--heldout", "1"],
        ),
        imported(
            "csv of a column a field",
            "csv",
            {
                "src/images/p$n.png": "600x200",
                "src/images/p0.tsv": TESSERACT_WORDS,
                "src/values.csv": "file;invoiceTotal;date\np0.png;9.00;1 May\np1.png;;2 May",
            },
            arguments=["--task", "question-answering"],
        ),
        imported(
            "forms with labels and boxes of any kind",
            "forms",
            {
                "src/p.png": "500x400",
                "src/labels/p.json": as_json(
                    {
                        "form": [
                            {
                                "label": "invoice_no",
                                "text": "No. 77",
                                "words": [
                                    {"text": "No.", "box": [0, 0, 100, 20]},
                                    {"text": "77", "box": [120, 0, 1000, 20]},
                                ],
                            },
                            {
                                "label": "other",
                                "text": "Thanks",
                                "words": [{"text": "Thanks", "box": [0, 900, 100, 990]}],
                            },
                        ]
                    }
                ),
            },
        ),
        imported(
            "forms with labels of the model",
            "forms",
            {
                "src/p.png": "500x400",
                "src/p.json": as_json(
                    [
                        {
                            "label": "total",
                            "text": "9.00",
                            "words": [{"text": "9.00", "box": [1, 2, 3, 4]}],
                        },
                        {
                            "label": "Stamp",
                            "text": "PAID",
                            "words": [{"text": "PAID", "box": [5, 6, 7, 8]}],
                        },
                    ]
                ),
                "model/config.json": as_json(
                    {"id2label": {"0": "O", "2": "I-TOTAL", "1": "B-TOTAL", "10": "B-DATE"}}
                ),
            },
            arguments=["--labels", "model"],
        ),
        imported(
            "forms of items without words",
            "forms",
            {
                "src/p.png": "500x400",
                "src/p.json": as_json(
                    [{"label": "name", "text": "Ann Lee", "bbox": [10, 10, 80, 20]}]
                ),
            },
        ),
        imported(
            "forms of boxes and values",
            "forms",
            {
                "src/p.png": "500x400",
                "src/ocr/p.txt": "10,10,90,10,90,20,10,20,RED SHOP\n10,70,60,80,RM 9.00, paid",
                "src/entities/p.json": as_json(
                    {"company": "Red Shop", "grand": {"total": "9.00"}, "date": "", "paid": True}
                ),
            },
        ),
        imported(
            "forms of columns",
            "forms",
            {
                "src/p.png": "500x400",
                "src/p.json": as_json(
                    {
                        "words": ["Ann", "9"],
                        "bboxes": [[1, 2, 3, 4], [5, 6, 400, 390]],
                        "ner_tags": ["S-NAME", "O"],
                    }
                ),
            },
        ),
        imported(
            "conll of universal dependencies",
            "conll",
            {
                "src/a.conllu": """\
# newdoc id = d1
# sent_id = 1
1-2\tVom\t_\t_\t_\t_\t_\t_\t_\t_
1\tvon\tvon\tADP\t_\t_\t0\troot\t_\t_
2\tdem\tder\tDET\t_\t_\t0\troot\t_\t_
3\tAnn\tAnn\tPROPN\t_\t_\t0\troot\t_\tNER=B-PER
4\tLee\tLee\tPROPN\t_\t_\t1\tflat\t_\tSpaceAfter=No|NER=I-PER

# sent_id = 2
1\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_

# newdoc
1\tBob\tBob\tPROPN\t_\t_\t0\troot\t_\tname=B-PER""",
                "src/b.iob2": (
                    "# sent_id = 1\n0\tAnn\tB-PER\t-\t-\n1\tO\tO\t-\t-\n\n0\tBern\tB-LOC\t-\t-"
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
            "forms without annotations",
            "forms",
            {"src/p.png": "500x400"},
            problem="holds neither .json nor .txt",
        ),
        refused(
            "forms with a line of three numbers",
            "forms",
            {"src/p.png": "500x400", "src/p.txt": "1,2,3,RED"},
            problem="p.png: p.txt:1 is not x1,y1,...,TEXT with 4 or 8 numbers",
        ),
        refused(
            "forms with two annotations",
            "forms",
            {"src/p.png": "500x400", "src/a/p.json": "{}", "src/b/p.json": "{}"},
            problem="p.png: its annotation: several files may be it: a/p.json, b/p.json",
        ),
        refused(
            "conll without tags",
            "conll",
            {"src/words.txt": "Der\nHund"},
            problem="words.txt: no column holds tags, O or B-NAME",
        ),
    ],
)
def test_a_source_that_cannot_be_meant_is_refused(
    source: Source, problem: str, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_refusal(source, problem, tmp_path)
