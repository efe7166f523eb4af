"""Hugging Face data sets whose values name addresses, files and media: nothing in them is decoded or followed."""

import io
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import hostile_sources
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import docaudit
from PIL import Image
from watching import Listener, watched

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

hf = FORMATS["hf"]
ALL: dict[Split, float] = {"member": 1.0}
STORED = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def picture(number: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (40, 30), (number, 9, 9)).save(stream, "PNG")
    return stream.getvalue()


def nested(kind: str, media: Any, value: Any) -> tuple[Any, pa.DataType, Any]:
    """A feature that holds media, its Arrow type, and a value of it."""
    listed = datasets.List(media)
    return {
        "plain": (media, STORED, value),
        "struct": ({"pic": media}, pa.struct({"pic": STORED}), {"pic": value}),
        "list": (listed, pa.list_(STORED), [value]),
        "large list": (datasets.LargeList(media), pa.large_list(STORED), [value]),
        "list of list": (datasets.List(listed), pa.list_(pa.list_(STORED)), [[value]]),
        "list of struct": (
            datasets.List({"pic": media}),
            pa.list_(pa.struct({"pic": STORED})),
            [{"pic": value}],
        ),
        "struct of list": (
            {"pics": listed},
            pa.struct({"pics": pa.list_(STORED)}),
            {"pics": [value]},
        ),
        "deep": (
            datasets.List({"a": {"b": datasets.List(listed)}}),
            pa.list_(pa.struct({"a": pa.struct({"b": pa.list_(pa.list_(STORED))})})),
            [{"a": {"b": [[value]]}}],
        ),
    }[kind]


KINDS = (
    "plain",
    "struct",
    "list",
    "large list",
    "list of list",
    "list of struct",
    "struct of list",
    "deep",
)


def table(
    column: str, kind: str, media: Any, path: str, n: int = 3
) -> tuple[datasets.Features, pa.Table]:
    """Rows with an honest image and text, and media at `path` in another column."""
    feature, stored, value = nested(kind, media, {"bytes": None, "path": path})
    features = datasets.Features(
        {"image": datasets.Image(), "text": datasets.Value("string"), column: feature}
    )
    rows = {
        "image": pa.array(
            [{"bytes": picture(number), "path": None} for number in range(n)], STORED
        ),
        "text": pa.array([f"Total {number}.00" for number in range(n)]),
        column: pa.array([value] * n, stored),
    }
    info = {"info": {"features": features.to_dict()}}
    return features, pa.table(rows).replace_schema_metadata({"huggingface": json.dumps(info)})


def write_parquet(src: Path, features: datasets.Features, rows: pa.Table) -> None:
    src.mkdir()
    pq.write_table(rows, src / "train-00000-of-00001.parquet")


def write_saved(src: Path, features: datasets.Features, rows: pa.Table) -> None:
    src.mkdir()
    hostile_sources.write_saved(src, rows, features.to_dict())


LAYOUTS: dict[str, Callable[[Path, datasets.Features, pa.Table], None]] = {
    "save_to_disk": write_saved,
    "Parquet": write_parquet,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["http", "ftp"])
def test_no_address_in_a_data_set_is_connected_to(
    scheme: str, kind: str, layout: str, tmp_path: Path
) -> None:
    with Listener() as listener:
        address = f"{scheme}://127.0.0.1:{listener.port}/x.png"
        LAYOUTS[layout](tmp_path / "src", *table("extra", kind, datasets.Image(), address))
        with watched() as seen:
            hf.convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1, task="mlm"))
        assert (listener.accepted, seen.connections) == (0, [])
    assert len(manifests.load(tmp_path / "out").documents) == 3


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_outside_the_source_is_opened(kind: str, layout: str, tmp_path: Path) -> None:
    outside = tmp_path / "private.png"
    outside.write_bytes(picture(99))
    LAYOUTS[layout](tmp_path / "src", *table("extra", kind, datasets.Image(), str(outside)))
    with watched() as seen:
        hf.convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1, task="mlm"))
    assert outside not in seen.opened
    assert len(manifests.load(tmp_path / "out").documents) == 3


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "path", ["http://127.0.0.1:{port}/x.png", "ftp://127.0.0.1:{port}/x.png", "{outside}"]
)
@pytest.mark.parametrize("kind", ["plain", "list"])
def test_an_address_in_the_column_of_images_is_refused(
    kind: str, path: str, layout: str, tmp_path: Path
) -> None:
    """Of a path elsewhere the file's name counts, and no such file lies in the source."""
    outside = tmp_path / "private.png"
    outside.write_bytes(picture(99))
    with Listener() as listener:
        named = path.format(port=listener.port, outside=outside)
        features, rows = table("extra", kind, datasets.Image(), named)
        features["image"] = features.pop("extra")
        rows = rows.set_column(0, "image", rows["extra"]).drop_columns("extra")
        LAYOUTS[layout](tmp_path / "src", features, rows)
        with watched() as seen:
            result = docaudit("import", "hf", tmp_path / "src", tmp_path / "out")
        assert (listener.accepted, seen.connections) == (0, [])
    assert result.exit_code == 2, result.output
    assert outside not in seen.opened
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("media", ["Audio", "Video", "Pdf", "Nifti"])
@pytest.mark.parametrize("column", ["extra", "image"])
def test_media_are_not_decoded(column: str, media: str, layout: str, tmp_path: Path) -> None:
    """Their libraries are not asked for, and a column of images that holds other media is refused."""
    features, rows = table("extra", "plain", getattr(datasets, media)(), "http://127.0.0.1:1/a.wav")
    if column == "image":
        features["image"] = features.pop("extra")
        rows = rows.set_column(0, "image", rows["extra"]).drop_columns("extra")
    LAYOUTS[layout](tmp_path / "src", features, rows)
    everything = ["--task", "mlm", "--member", "1", "--heldout", "0", "--public", "0"]
    with watched() as seen:
        result = docaudit("import", "hf", tmp_path / "src", tmp_path / "out", *everything)
    assert seen.connections == []
    assert result.exit_code == (2 if column == "image" else 0), result.output


def test_names_of_classes_are_not_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("secret\nother\n")
    features, rows = table("extra", "plain", datasets.Image(), "x.png")
    rows = rows.append_column("label", pa.array([0, 1, 0]))
    write_saved(tmp_path / "src", features, rows)
    told = features.to_dict() | {
        "label": {"_type": "ClassLabel", "names_file": str(tmp_path / "names")}
    }
    (tmp_path / "src" / "dataset_info.json").write_text(json.dumps({"features": told}))
    with watched() as seen:
        hf.convert(
            ImportRequest(
                tmp_path / "src", tmp_path / "out", ALL, 1, task="document-classification"
            )
        )
    assert tmp_path / "names" not in seen.opened
    assert {document.label for document in manifests.load(tmp_path / "out").documents} == {"0", "1"}


def test_arrow_whose_offsets_lead_out_of_its_buffers_is_refused(tmp_path: Path) -> None:
    """Arrow trusts them unless it is asked to check: memory of this process would be read."""
    features, rows = table("extra", "plain", datasets.Image(), "x.png")
    write_saved(tmp_path / "src", features, rows)
    path = tmp_path / "src" / "data-00000-of-00001.arrow"
    content = path.read_bytes()
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 10, 20, 30))
    assert content.count(offsets) == 1
    path.write_bytes(
        content.replace(offsets, offsets[:4] + (2**30).to_bytes(4, "little") + offsets[8:])
    )
    result = docaudit("import", "hf", tmp_path / "src", tmp_path / "out")
    assert result.exit_code == 2, result.output
    assert "not readable as Arrow" in result.output


def test_shards_with_other_columns_are_refused(tmp_path: Path) -> None:
    features, rows = table("extra", "plain", datasets.Image(), "x.png")
    (tmp_path / "src").mkdir()
    write_parquet(tmp_path / "src" / "train", features, rows)
    pq.write_table(
        rows.drop_columns("text"), tmp_path / "src" / "train" / "train-00001-of-00002.parquet"
    )
    result = docaudit("import", "hf", tmp_path / "src", tmp_path / "out")
    assert result.exit_code == 2, result.output
    assert "its columns are not those of" in result.output


def test_the_watcher_sees_a_connection(tmp_path: Path) -> None:
    with Listener() as listener, watched() as seen:
        socket.create_connection(("127.0.0.1", listener.port)).close()
        (tmp_path / "a").write_text("x")
    assert any(str(listener.port) in one for one in seen.connections)
    assert tmp_path / "a" in seen.opened
