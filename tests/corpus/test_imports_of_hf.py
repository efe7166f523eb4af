"""Data sets of Hugging Face, and the data sets that an import makes of them.

`DOCAUDIT_WRITE_TEXTS=1` rewrites the texts that they are compared with.
"""

import pytest
from imported_sources import (
    Source,
    as_lines,
    check_import,
    check_refusal,
    imported,
    refused,
)

HF_BOXES_IN_PIXELS = {
    "src/a.png": "200x400",
    "src/metadata.jsonl": as_lines(
        {"file_name": "a.png", "words": ["May"], "bboxes": [[20, 200, 40, 390]]}
    ),
}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        imported(
            "hf for parsing",
            "hf",
            {
                "src/train/r$n.png": "200x400",
                "src/train/metadata.jsonl": as_lines(
                    {
                        "file_name": "r0.png",
                        "ground_truth": (
                            '{"gt_parse": {"menu": [{"nm": "Tea", "price": "0.50"}], "total": '
                            '{"cash": 5}}}'
                        ),
                    },
                    {
                        "file_name": "r1.png",
                        "ground_truth": (
                            '{"gt_parse": {"menu": [{"nm": "Tea", "price": "1.50"}], "total": '
                            '{"cash": 5}}}'
                        ),
                    },
                ),
            },
        ),
        imported(
            "hf of classes by folder",
            "hf",
            {"src/train/letter/p$n.png": "200x400", "src/train/invoice/q.png": "200x390"},
        ),
        imported(
            "hf with numbers of tags",
            "hf",
            {
                "src/a.png": "200x400",
                "src/metadata.jsonl": as_lines(
                    {"file_name": "a.png", "words": ["May", "5"], "ner_tags": [1, 2]}
                ),
            },
            arguments=["--labels", "O,B-DATE,I-DATE"],
        ),
        imported(
            "hf boxes in shares",
            "hf",
            {
                "src/a.png": "200x400",
                "src/metadata.jsonl": as_lines(
                    {"file_name": "a.png", "words": ["May"], "bboxes": [[0.1, 0.5, 0.2, 0.6]]}
                ),
            },
        ),
        imported(
            "hf boxes in thousandths",
            "hf",
            {
                "src/a.png": "200x400",
                "src/metadata.jsonl": as_lines(
                    {"file_name": "a.png", "words": ["May"], "bboxes": [[100, 500, 200, 990]]}
                ),
            },
        ),
        imported("hf boxes in pixels", "hf", HF_BOXES_IN_PIXELS),
        imported(
            "hf boxes in pixels as thousandths",
            "hf",
            HF_BOXES_IN_PIXELS,
            arguments=["--boxes", "thousandths"],
        ),
        imported(
            "hf boxes of corners",
            "hf",
            {
                "src/a.png": "200x400",
                "src/metadata.jsonl": as_lines(
                    {
                        "file_name": "a.png",
                        "words": ["May", "5"],
                        "bboxes": [[20, 200, 40, 200, 40, 390, 20, 390], [[20, 200], [40, 390]]],
                    }
                ),
            },
        ),
        imported(
            "hf of several metadata files",
            "hf",
            {
                "src/train/a/p$n.png": "200x400",
                "src/train/b/q$n.png": "200x390",
                "src/train/a/metadata.jsonl": as_lines(
                    {"file_name": "p0.png", "words": ["May"]},
                    {"file_name": "p1.png", "words": ["June"]},
                ),
                "src/train/b/metadata.jsonl": as_lines(
                    {"file_name": "q0.png", "words": ["July"]},
                    {"file_name": "q1.png", "words": ["August"]},
                ),
            },
        ),
        imported(
            "hf of a text with spans",
            "hf",
            {
                "src/train.jsonl": as_lines(
                    {
                        "source_text": "Ann Lee paid",
                        "privacy_mask": [
                            {"value": "Ann Lee", "start": 0, "end": 7, "label": "NAME"}
                        ],
                    }
                )
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
            "hf without a data set",
            "hf",
            {"src/a.txt": "x"},
            problem="holds no Hugging Face data set",
        ),
        refused(
            "hf that cannot be parsed",
            "hf",
            HF_BOXES_IN_PIXELS,
            arguments=["--task", "parsing"],
            problem="hf: nothing to learn the task parsing from: of 1 pages, 1 have words",
        ),
        refused(
            "hf of broken Parquet",
            "hf",
            {"src/train.parquet": "PAR1 nothing"},
            problem="not readable as Parquet",
        ),
        refused(
            "conll given to another format",
            "hf",
            {"src/train.txt": "-DOCSTART- -X- -X- O\n\nAnn NNP B-NP B-PER"},
            problem=("or metadata.csv; or src looks like conll: docaudit import conll src out"),
        ),
    ],
)
def test_a_source_that_cannot_be_meant_is_refused(
    source: Source, problem: str, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_refusal(source, problem, tmp_path)
