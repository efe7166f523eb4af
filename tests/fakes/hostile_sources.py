"""A small source of every format that can be imported: all of them are taken as they stand."""

import json
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

_NAMES = ("p0", "p1", "p2")


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write texts by path, and images by their size; three where $n, for 0 to 2, is in the path."""
    for pattern, content in files.items():
        for number in range(3 if "$n" in pattern else 1):
            path = folder / pattern.replace("$n", str(number))
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in (".png", ".jpg"):
                width, height = map(int, content.split("x"))
                Image.new("L", (width, height), 40 * number).save(path)
            else:
                path.write_text(content.replace("$n", str(number)))


def _pictures(folder: Path) -> list[dict[str, Any]]:
    write_files({"images/p$n.png": "60x40"}, folder)
    return [
        {"bytes": (folder / "images" / f"{name}.png").read_bytes(), "path": f"{name}.png"}
        for name in _NAMES
    ]


def _hf_parquet(src: Path) -> None:
    import pandas

    pictures = _pictures(src)
    rows = {
        "image": pictures,
        "question": ["What?"] * 3,
        "answers": [["9.00"], ["8"], ["7"]],
        "questionId": [1, 2, 3],
    }
    pandas.DataFrame(rows).to_parquet(src / "train-00000-of-00001.parquet")


def _hf_saved(src: Path) -> None:
    """As `save_to_disk` writes it, with images, addresses and other media at every depth."""
    import pyarrow

    stored = pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()})
    pictures = _pictures(src)
    named = {"bytes": None, "path": "http://127.0.0.1:9/x.png"}
    image = {"_type": "Image"}
    audio = {"_type": "Audio"}
    depths: dict[str, tuple[Any, Any, Any]] = {
        "image": (image, stored, None),
        "words": (
            {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"},
            None,
            ["Total", "9.00"],
        ),
        "ner_tags": (
            {"feature": {"names": ["O", "B-A"], "_type": "ClassLabel"}, "_type": "List"},
            None,
            [0, 1],
        ),
        "bboxes": (
            {"feature": {"_type": "List"}, "_type": "List"},
            None,
            [[2, 2, 20, 10], [24, 2, 50, 10]],
        ),
        "one": ({"pic": image}, pyarrow.struct({"pic": stored}), {"pic": named}),
        "several": ({"feature": image, "_type": "List"}, pyarrow.list_(stored), [named]),
        "large": ({"feature": audio, "_type": "LargeList"}, pyarrow.large_list(stored), [named]),
        "deep": (
            [{"a": {"feature": {"feature": image, "_type": "Sequence"}, "_type": "Sequence"}}],
            pyarrow.list_(pyarrow.struct({"a": pyarrow.list_(pyarrow.list_(stored))})),
            [{"a": [[named]]}],
        ),
    }
    columns = {
        name: pyarrow.array([value] * len(_NAMES), kind)
        for name, (_, kind, value) in depths.items()
    }
    rows = pyarrow.table({**columns, "image": pyarrow.array(pictures, stored)})
    write_saved(src, rows, {name: feature for name, (feature, _, _) in depths.items()})


def write_saved(src: Path, rows: Any, features: Mapping[str, Any]) -> None:
    """Write the files of `save_to_disk`, which would itself open what values name."""
    import pyarrow

    file = "data-00000-of-00001.arrow"
    with (
        pyarrow.OSFile(str(src / file), "wb") as stream,
        pyarrow.ipc.new_stream(stream, rows.schema) as writer,
    ):
        writer.write_table(rows)
    state = {"_data_files": [{"filename": file}], "_fingerprint": "a" * 16, "_split": "train"}
    (src / "state.json").write_text(json.dumps(state))
    (src / "dataset_info.json").write_text(json.dumps({"features": features}))


def pdf(content: str, kids: int = 1, width: int = 200, height: int = 100) -> bytes:
    """A PDF that names one page, with this content, as often as it has kids."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {kids} /Kids [{'3 0 R ' * kids}] >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    text = "%PDF-1.4\n"
    offsets = []
    for number, one in enumerate(objects, start=1):
        offsets.append(len(text))
        text += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = (
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"
    )
    return f"{text}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def _pdf(src: Path) -> None:
    for name in _NAMES:
        (src / f"{name}.pdf").write_bytes(pdf(f"BT /F1 12 Tf 20 50 Td (Total {name} 9.00) Tj ET"))


_TEXTS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("sources.toml").read_text()
)
SOURCES: Mapping[str, Callable[[Path], None]] = {
    **{kind: partial(write_files, files) for kind, files in _TEXTS.items()},
    **{"hf parquet": _hf_parquet, "hf saved": _hf_saved, "pdf": _pdf},
}
"""What writes a source into an existing folder, by its format; the first word is the name that the
import takes."""
