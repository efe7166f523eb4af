"""Whose a page or a value is: kept from sources that say it, in no message and in no record."""

from pathlib import Path
from typing import Any

import pytest
from imported_files import import_files
from imported_sources import as_json, as_lines

from audit.importers.source import person_of

TABLE = "file,key,value,person_id\np0.png,TOTAL,9.00,client 7\np0.png,NAME,Anna,client 8\n"


def test_a_table_says_whose_each_value_is(tmp_path: Path) -> None:
    words = as_json(
        {
            "rec_texts": ["TOTAL", "9.00", "Anna"],
            "rec_boxes": [[10, 0, 60, 20], [10, 30, 60, 50], [10, 60, 60, 80]],
        }
    )
    files = {"t.csv": TABLE, "p0.png": "200x400", "p0.json": words}
    imported = import_files("csv", files, tmp_path)
    (document,) = imported.documents.values()
    total, name = document.entities
    assert (total.person, name.person) == ("client 7", "client 8")
    assert document.person is None


def test_a_row_with_a_column_for_each_field_says_whom_its_page_is_about(tmp_path: Path) -> None:
    files = {"t.csv": "file,data_subject,total\np0.png,client 7,9.00\n", "p0.png": "200x400"}
    imported = import_files("csv", files, tmp_path, task="question-answering")
    (document,) = imported.documents.values()
    assert document.person == "client 7"
    (question,) = document.questions
    assert question.answers == ("9.00",)


@pytest.mark.parametrize("format", ["spans", "hf"])
def test_a_row_says_whom_its_text_is_about(format: str, tmp_path: Path) -> None:
    row = {
        "text": "Anna pays",
        "spans": [{"start": 0, "end": 4, "label": "PERSON"}],
        "person_id": 17,
    }
    imported = import_files(format, {"docs.jsonl": as_lines(row)}, tmp_path)
    (document,) = imported.documents.values()
    assert document.person == "17"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param({"person_id": " A  1 "}, "A 1", id="spaces"),
        pytest.param({"data": {"data_subject": 4}}, "4", id="nested"),
        pytest.param({"subject_id": ["x"]}, None, id="a list"),
        pytest.param({"person": "Anna"}, None, id="a field of the page"),
        pytest.param(None, None, id="no record"),
    ],
)
def test_a_record_names_a_person_by_a_usual_key(record: Any, expected: str | None) -> None:
    assert person_of(record) == expected
