"""Sources of a few kilobytes that stand for gigabytes, or for work without end: exit code 2 and a sentence.

Each runs in a process of its own with 4,000,000 KiB of address space and bounded time of the processor.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import hostile_sources
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MEMORY = 4_000_000 << 10
SECONDS = 90
"""Of the processor: with imports each case takes one to ten, and without a bound some would take hours."""


def in_bounds() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))


def run_bounded(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run docaudit in bounds."""
    command = [sys.executable, "-m", "audit", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=in_bounds, env=environment, timeout=600
    )


def parquet_of_one_text(src: Path) -> None:
    table = pa.table({"text": ["x" * (512 << 20)], "label": ["a"]})
    pq.write_table(table, src / "train.parquet", compression="zstd")


def parquet_of_rows(src: Path) -> None:
    count = 3_000_000
    table = pa.table({"text": pa.array(["x"] * count).dictionary_encode(), "label": pa.array([1] * count, pa.int8())})
    pq.write_table(table, src / "train.parquet", compression="zstd", row_group_size=count)


def saved(src: Path, table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> None:
    """Write what `save_to_disk` would, with buffers that it would not write."""
    path = str(src / "a.arrow")
    with pa.OSFile(path, "wb") as stream, pa.ipc.new_stream(stream, table.schema, options=options) as writer:
        writer.write_table(table)
    (src / "state.json").write_text('{"_data_files": [{"filename": "a.arrow"}], "_split": "train"}')
    (src / "dataset_info.json").write_text("{}")


def arrow_of_a_run(src: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["x"]))
    saved(src, pa.table({"text": runs}))


def arrow_of_nothings(src: Path) -> None:
    nothings = pa.ListArray.from_arrays(pa.array([0, 2**31 - 2], pa.int32()), pa.nulls(2**31 - 2))
    saved(src, pa.table({"words": nothings, "text": ["x"]}))


def arrow_of_a_dictionary(src: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int8()), ["x" * 1_000_000])
    saved(src, pa.table({"words": pa.ListArray.from_arrays(pa.array([0, 20_000], pa.int32()), texts)}))


def arrow_of_a_compressed_buffer(src: Path) -> None:
    saved(src, pa.table({"text": ["x" * (600 << 20)]}), pa.ipc.IpcWriteOptions(compression="zstd"))


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def one_image(src: Path) -> None:
    hostile_sources.write_files({"p0.png": "60x40"}, src)


def document_ai(src: Path) -> None:
    """3,000 tokens, each of which names the text of the document 20 times."""
    text = "a b " * 50_000
    segments = [{"endIndex": len(text)}] * 20
    vertices = [{"x": 0.1, "y": 0.1}, {"x": 0.2, "y": 0.1}, {"x": 0.2, "y": 0.2}, {"x": 0.1, "y": 0.2}]
    layout = {"textAnchor": {"textSegments": segments}, "boundingPoly": {"normalizedVertices": vertices}}
    page = {"dimension": {"width": 60, "height": 40}, "tokens": [{"layout": layout}] * 3_000}
    one_image(src)
    write_json(src / "p0.json", {"text": text, "pages": [page]})


def forms(src: Path) -> None:
    """A key of 200 KB around 20,000 others."""
    one_image(src)
    write_json(src / "p0.json", {"k" * 200_000: {f"a{number}": "x" for number in range(20_000)}})


def ground_truth(src: Path) -> None:
    one_image(src)
    parse = {"k" * 200_000: {f"a{number}": "x" for number in range(20_000)}}
    row = {"file_name": "p0.png", "ground_truth": json.dumps({"gt_parse": parse})}
    (src / "metadata.jsonl").write_text(json.dumps(row))


def textract(src: Path) -> None:
    """2,000 keys, each of which names one value 50 times, which names 6,000 words."""
    box = {"BoundingBox": {"Left": 0.1, "Top": 0.1, "Width": 0.1, "Height": 0.1}}
    names = [f"w{number}" for number in range(6_000)]
    blocks: list[dict[str, object]] = [
        {"BlockType": "WORD", "Id": name, "Text": "x", "Geometry": box} for name in names
    ]
    children = [{"Type": "CHILD", "Ids": names}]
    blocks.append({"BlockType": "KEY_VALUE_SET", "Id": "value", "EntityTypes": ["VALUE"], "Relationships": children})
    values = [{"Type": "VALUE", "Ids": ["value"] * 50}]
    for number in range(2_000):
        key = {"BlockType": "KEY_VALUE_SET", "Id": f"k{number}", "EntityTypes": ["KEY"], "Relationships": values}
        blocks.append(key)
    one_image(src)
    write_json(src / "p0.json", {"Blocks": blocks})


def spans(src: Path) -> None:
    """20,000 spans, each of the whole text."""
    text = "word " * 40_000
    row = {"text": text, "spans": [{"start": 0, "end": len(text) - 1, "label": "A"}] * 20_000}
    (src / "train.jsonl").write_text(json.dumps(row))


BOMBS: Mapping[str, tuple[str, Callable[[Path], None], str]] = {
    "Parquet of one text": ("hf", parquet_of_one_text, "more than can be read at once"),
    "Parquet of rows": ("hf", parquet_of_rows, "rows in files of"),
    "Arrow of a run": ("hf", arrow_of_a_run, "rows in files of"),
    "Arrow of nothings": ("hf", arrow_of_nothings, "more than can be read at once"),
    "Arrow of a dictionary": ("hf", arrow_of_a_dictionary, "more than can be read at once"),
    "Arrow of a compressed buffer": ("hf", arrow_of_a_compressed_buffer, "more than can be read at once"),
    "Document AI": ("document-ai", document_ai, "words, fields and questions"),
    "forms": ("forms", forms, "a key of more than"),
    "ground truth": ("hf", ground_truth, "no document of split member has questions"),
    "Textract": ("textract", textract, "words, fields and questions"),
    "spans": ("spans", spans, "words, fields and questions"),
}


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are Linux's")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_bounds(name: str, tmp_path: Path) -> None:
    format_name, write, problem = BOMBS[name]
    src = tmp_path / "src"
    src.mkdir()
    write(src)
    size = sum(path.stat().st_size for path in src.iterdir())
    assert size < 6_000_000, "a bomb is small"
    result = run_bounded(
        "import", format_name, src, tmp_path / "out", "--member", "1", "--heldout", "0", "--public", "0"
    )
    assert result.returncode == 2, result.stderr[-800:]
    assert "Traceback" not in result.stderr
    assert problem in result.stderr
    assert not (tmp_path / "out").exists()
