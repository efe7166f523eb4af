"""Types of Arrow that JSON does not have: an honest table has dates and decimals, and they are read as text."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Split
from audit.errors import ManifestError, UsageError
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

ALL: dict[Split, float] = {"member": 1.0}
DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
VALUES = [
    pytest.param(pa.array([DAY] * 3), "2024-02-29", id="date"),
    pytest.param(
        pa.array([NOON] * 3, pa.timestamp("us", "UTC")), "2024-02-29T12:30:00+00:00", id="timestamp"
    ),
    pytest.param(pa.array([NOON.time()] * 3), "12:30:00", id="time"),
    pytest.param(pa.array([datetime.timedelta(days=3)] * 3), "3 days, 0:00:00", id="duration"),
    pytest.param(pa.array([Decimal("12.40")] * 3), "12.40", id="decimal"),
    pytest.param(pa.array([b"total"] * 3), "total", id="bytes of text"),
    pytest.param(pa.array([7] * 3), "7", id="number"),
]


def imported(tmp_path: Path, **columns: Any) -> tuple[Document, ...]:
    """The documents of a Parquet file of these columns and a text."""
    (tmp_path / "src").mkdir()
    texts = [f"text {number} of 2024" for number in range(3)]
    pq.write_table(pa.table({"text": texts, **columns}), tmp_path / "src" / "train.parquet")
    FORMATS["hf"].convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1))
    return manifests.load(tmp_path / "out").documents


@pytest.mark.parametrize(("column", "text"), VALUES)
@pytest.mark.parametrize("name", ["label", "category"])
def test_a_class_of_any_type_is_read_as_text(
    name: str, column: pa.Array, text: str, tmp_path: Path
) -> None:
    assert [document.label for document in imported(tmp_path, **{name: column})] == [text] * 3


@pytest.mark.parametrize(("column", "text"), VALUES)
def test_a_question_of_any_type_is_read_as_text(
    column: pa.Array, text: str, tmp_path: Path
) -> None:
    words = pa.array([["a"], ["b"], ["c"]])
    documents = imported(tmp_path, words=words, question=column, answers=pa.array(["x"] * 3))
    assert documents[0].questions[0].question == text


def test_dates_in_an_output_are_read_as_text(tmp_path: Path) -> None:
    output = pa.array([{"date": DAY, "total": Decimal("9.00")}] * 3)
    assert (
        imported(tmp_path, ground_truth=output)[0].output
        == '{"date": "2024-02-29", "total": "9.00"}'
    )


def test_bytes_that_are_no_text_are_refused_by_their_row(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"train\[0\]: bytes that are no text in UTF-8"):
        imported(tmp_path, label=pa.array([b"\xff\xfe"] * 3))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "src" / "train.parquet")
    with pytest.raises(UsageError, match="two columns of one name: text; rename one of them"):
        FORMATS["hf"].convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1))
