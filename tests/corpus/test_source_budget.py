"""Sources of a few kilobytes that stand for gigabytes, or for work without end: exit code 2 and a sentence.

Each runs in a process of its own with 4,000,000 KiB of address space and bounded time of the
processor.
"""

import itertools
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
from hypothesis import given
from hypothesis import strategies as st

from audit.importers import locate
from audit.importers.arrow_bounds import LARGEST_ROW
from audit.importers.formats import tab
from audit.importers.formats.tab import Label

MEMORY = 4_000_000 << 10
SECONDS = 90
"""Of the processor: with imports each case takes one to ten, and without a bound some would take
hours."""


def in_bounds() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))


def run_bounded(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run docaudit in bounds."""
    command = [sys.executable, "-m", "audit", *map(str, arguments)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_IO_THREADS": "1",
    }
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=in_bounds,
        env=environment,
        timeout=600,
    )


def parquet_of_one_text(src: Path) -> None:
    table = pa.table({"text": ["x" * (LARGEST_ROW + 1)], "label": ["a"]})
    # Neither a dictionary nor the least and the largest value are written: each holds the text
    # again.
    plainly = {"use_dictionary": False, "write_statistics": False}
    pq.write_table(table, src / "train.parquet", compression="zstd", **plainly)


def parquet_of_rows(src: Path) -> None:
    count = 3_000_000
    table = pa.table(
        {
            "text": pa.array(["x"] * count).dictionary_encode(),
            "label": pa.array([1] * count, pa.int8()),
        }
    )
    pq.write_table(table, src / "train.parquet", compression="zstd", row_group_size=count)


def saved(src: Path, table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> None:
    """Write what `save_to_disk` would, with buffers that it would not write."""
    path = str(src / "a.arrow")
    with (
        pa.OSFile(path, "wb") as stream,
        pa.ipc.new_stream(stream, table.schema, options=options) as writer,
    ):
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
    saved(
        src, pa.table({"words": pa.ListArray.from_arrays(pa.array([0, 20_000], pa.int32()), texts)})
    )


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
    vertices = [
        {"x": 0.1, "y": 0.1},
        {"x": 0.2, "y": 0.1},
        {"x": 0.2, "y": 0.2},
        {"x": 0.1, "y": 0.2},
    ]
    layout = {
        "textAnchor": {"textSegments": segments},
        "boundingPoly": {"normalizedVertices": vertices},
    }
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
    blocks.append(
        {
            "BlockType": "KEY_VALUE_SET",
            "Id": "value",
            "EntityTypes": ["VALUE"],
            "Relationships": children,
        }
    )
    values = [{"Type": "VALUE", "Ids": ["value"] * 50}]
    for number in range(2_000):
        key = {
            "BlockType": "KEY_VALUE_SET",
            "Id": f"k{number}",
            "EntityTypes": ["KEY"],
            "Relationships": values,
        }
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
    "Arrow of a compressed buffer": (
        "hf",
        arrow_of_a_compressed_buffer,
        "more than can be read at once",
    ),
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
        "import",
        format_name,
        src,
        tmp_path / "out",
        "--member",
        "1",
        "--heldout",
        "0",
        "--public",
        "0",
    )
    assert result.returncode == 2, result.stderr[-800:]
    assert "Traceback" not in result.stderr
    assert problem in result.stderr
    assert not (tmp_path / "out").exists()


def many_mentions(src: Path) -> None:
    text = "ab " * 60_000
    mentions = [[3 * number, 3 * number + 2, "PERSON"] for number in range(30_000)]
    write_json(src / "texts.json", {"d": text})
    write_json(src / "mentions.json", {"d": mentions + mentions})


def a_letter_again_and_again(src: Path) -> None:
    """Values of one letter on a page of the same letter: every place is nearly the right one."""
    one_image(src)
    words = [{"text": "a", "box": [1, 1, 2, 2]} for _ in range(20_000)]
    values = {
        f"name{number}": "a" * length for number, length in enumerate((150, 1_000, 4_999, 100_000))
    }
    values["company"] = "a" * 140 + "b"
    write_json(
        src / "p0.json",
        {"fields": [{"label": key, "text": value} for key, value in values.items()]},
    )
    (src / "p0.tsv").write_text(
        "level\tleft\ttop\twidth\theight\ttext\n1\t0\t0\t60\t40\t\n"
        + "".join(f"5\t1\t1\t1\t1\t{word['text']}\n" for word in words)
    )


def deep_marks(src: Path) -> None:
    one_image(src)
    output = "<s_a>" * 100_000 + "x" + "</s_b>" * 100_000 + "<" + "a" * 200_000
    (src / "metadata.jsonl").write_text(json.dumps({"file_name": "p0.png", "ground_truth": output}))


def many_pages(src: Path) -> None:
    """As many pages as blocks: each page looked at every block."""
    blocks = [{"BlockType": "LINE", "Id": f"b{number}", "Page": number} for number in range(30_000)]
    one_image(src)
    write_json(src / "p0.json", {"Blocks": blocks})


WORK: Mapping[str, tuple[str, Callable[[Path], None]]] = {
    "mentions": ("tab", many_mentions),
    "a letter": ("forms", a_letter_again_and_again),
    "marks": ("hf", deep_marks),
    "pages of blocks": ("textract", many_pages),
}


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are Linux's")
@pytest.mark.parametrize("name", WORK)
def test_work_grows_as_the_source_does(name: str, tmp_path: Path) -> None:
    """Each of these took minutes to hours.

    Here the kernel ends what takes longer than 90 s of the processor.
    """
    format_name, write = WORK[name]
    src = tmp_path / "src"
    src.mkdir()
    write(src)
    result = run_bounded(
        "import",
        format_name,
        src,
        tmp_path / "out",
        "--member",
        "1",
        "--heldout",
        "0",
        "--public",
        "0",
    )
    assert result.returncode in (0, 2), (result.returncode, result.stderr[-800:])
    assert "Traceback" not in result.stderr


def longest_first(mentions: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The mentions that are kept, by the rule of the format as it reads."""
    chosen: list[tuple[int, int, str]] = []
    for mention in sorted(mentions, key=lambda mention: (mention[0] - mention[1], mention[0])):
        if not any(mention[0] < end and start < mention[1] for start, end, _ in chosen):
            chosen.append(mention)
    return sorted(chosen)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 8), st.sampled_from(["LOC", "ORG"])),
        max_size=12,
    )
)
def test_overlapping_mentions_are_chosen_by_their_rule(drawn: list[tuple[int, int, Label]]) -> None:
    mentions = [(start, start + length, label) for start, length, label in drawn]
    chosen, lost = tab._without_overlaps(mentions)
    assert sorted(chosen) == longest_first(list(mentions))
    assert len(chosen) + len(lost) == len(mentions)


def joined_words(target: str, words: list[str]) -> list[tuple[int, int]]:
    """The spans of words that are a text when joined, by trying all."""
    spans = []
    for start, end in itertools.combinations(range(len(words) + 1), 2):
        if words[start] and words[end - 1] and "".join(words[start:end]) == target:
            spans.append((start, end))
    return spans


@given(st.text("ab", min_size=1, max_size=4), st.lists(st.text("ab", max_size=3), max_size=8))
def test_joined_words_are_found_as_by_trying_all(target: str, words: list[str]) -> None:
    assert list(locate._find_joined(target, words, str)) == joined_words(target, words)
