"""A small source of every format that can be imported: all of them are taken as they stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

SIZE = (60, 40)
_NAMES = ("p0", "p1", "p2")
_WORDS = (("Total", [2, 2, 20, 10]), ("9.00", [24, 2, 50, 10]))


def _pages(folder: Path, suffix: str = "png") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(_NAMES):
        Image.new("L", SIZE, 40 * number).save(folder / f"{name}.{suffix}")


def _json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def _text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def _sroie(src: Path) -> None:
    _pages(src / "img", "jpg")
    for number, name in enumerate(_NAMES):
        _text(src / "box" / f"{name}.csv", f"2,2,50,2,50,10,2,10,RED SHOP\n2,20,50,20,50,30,2,30,RM 9.0{number}\n")
        _json(src / "key" / f"{name}.json", {"company": "RED SHOP", "total": f"9.0{number}"})


def _item(number: int, label: str, link: list[list[int]]) -> dict[str, Any]:
    words = [{"text": text, "box": box} for text, box in _WORDS]
    return {"id": number, "label": label, "text": "Total 9.00", "words": words, "linking": link, "box": [2, 2, 50, 10]}


def _funsd(src: Path) -> None:
    _pages(src / "images")
    for name in _NAMES:
        form = [_item(0, "question", [[0, 1]]), _item(1, "answer", [[0, 1]])]
        _json(src / "annotations" / f"{name}.json", {"form": form})


def _forms(src: Path) -> None:
    _pages(src)
    for name in _NAMES:
        _json(src / "labels" / f"{name}.json", {"form": [_item(0, "invoice_total", [])]})


def _docvqa(src: Path) -> None:
    def word(text: str, x: int) -> dict[str, Any]:
        return {"boundingBox": [x, 2, x + 20, 2, x + 20, 10, x, 10], "text": text, "confidence": "Low"}

    _pages(src / "spdocvqa_images")
    records = []
    for number, name in enumerate(_NAMES):
        page = {"page": 1, "width": SIZE[0], "height": SIZE[1], "unit": "pixel", "clockwiseOrientation": 0.5}
        line = {"boundingBox": [0] * 8, "text": "TOTAL 9.00", "words": [word("TOTAL", 2), word("9.00", 30)]}
        ocr = {"status": "Succeeded", "recognitionResults": [{**page, "lines": [line]}]}
        _json(src / "spdocvqa_ocr" / f"{name}.json", ocr)
        asked = {"questionId": number, "question": "What is the total?", "answers": ["9.00"], "data_split": "train"}
        place = {"image": f"documents/{name}.png", "docId": number, "ucsf_document_id": name}
        records.append({**asked, **place, "ucsf_document_page_no": "1", "question_types": ["table/list"]})
    _json(src / "train_v1.0_withQT.json", {"dataset_name": "a", "dataset_version": "1.0", "data": records[:2]})
    _json(src / "val_v1.0_withQT.json", {"dataset_name": "a", "dataset_version": "1.0", "data": records[2:]})


def _pfl(src: Path) -> None:
    _pages(src / "images", "jpg")
    header = {"creation_time": 1.0, "version": 0.1, "dataset_type": "train", "has_answer": True}
    page = {"set_name": "train", "image_width": SIZE[0], "image_height": SIZE[1], "ocr_tokens": ["TOTAL", "9.00"]}
    records = [
        {
            **page,
            "question_id": number,
            "question": "What is the total?",
            "answers": "9.00",
            "image_name": name,
            "provider": f"shop {number}",
            "docid": name,
            "ocr_normalized_boxes": [[0.1, 0.1, 0.3, 0.2], [0.5, 0.1, 0.9, 0.2]],
        }
        for number, name in enumerate(_NAMES)
    ]
    _json(src / "blue_train.json", [header, *records])


def _tab(src: Path) -> None:
    _json(src / "texts.json", {"001": "Mr Ann Lee wrote in 1999.", "002": "No. 7/98 of Bob", "003": "Nobody."})
    _json(src / "mentions.json", {"001": [[3, 10, "PERSON"], [20, 24, "DATETIME"]], "002": [[4, 8, "CODE"]], "003": []})


def _tab_official(src: Path) -> None:
    def mention(text: str, start: int, end: int, kind: str) -> dict[str, Any]:
        place = {"start_offset": start, "end_offset": end, "span_text": text[start:end]}
        kinds = {"entity_type": kind, "identifier_type": "DIRECT", "confidential_status": "NOT_CONFIDENTIAL"}
        return {**place, **kinds, "entity_mention_id": f"m{start}", "entity_id": f"e{start}", "edit_type": "check"}

    text = "Mr Ann Lee wrote in 1999."
    marks = [mention(text, 3, 10, "PERSON"), mention(text, 20, 24, "DATETIME")]
    for part in ("train", "dev", "test"):
        one = {"doc_id": f"001-{part}", "text": text, "dataset_type": part, "quality_checked": True, "task": "Mask"}
        more = {"meta": {"year": 1999, "legal_branch": "CHAMBER"}, "annotations": {"a1": {"entity_mentions": marks}}}
        _json(src / f"echr_{part}.json", [{**one, **more}])


def _snips(src: Path) -> None:
    for part, first in (("train", 0), ("test", 5)):
        numbers = range(first, first + 3)
        _text(src / part / "seq.in", "".join(f"rate it {number}\n" for number in numbers))
        _text(src / part / "seq.out", "O O B-rating_value\n" * 3)
        _text(src / part / "label", "RateBook\n" * 3)


def _hf(src: Path) -> None:
    _pages(src)
    rows = [
        {"file_name": f"{name}.png", "words": ["Total", f"9.0{number}"], "bboxes": [[2, 2, 400, 99], [500, 2, 900, 99]]}
        for number, name in enumerate(_NAMES)
    ]
    _text(src / "metadata.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def _hf_parquet(src: Path) -> None:
    import pandas

    _pages(src / "images")
    pictures = [{"bytes": (src / "images" / f"{name}.png").read_bytes(), "path": f"{name}.png"} for name in _NAMES]
    rows = {"image": pictures, "question": ["What?"] * 3, "answers": [["9.00"], ["8"], ["7"]], "questionId": [1, 2, 3]}
    pandas.DataFrame(rows).to_parquet(src / "train-00000-of-00001.parquet")


def _hf_saved(src: Path) -> None:
    """As `save_to_disk` writes it, with images, addresses and other media at every depth."""
    import pyarrow

    _pages(src / "images")
    stored = pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()})
    pictures = [{"bytes": (src / "images" / f"{name}.png").read_bytes(), "path": f"{name}.png"} for name in _NAMES]
    named = {"bytes": None, "path": "http://127.0.0.1:9/x.png"}
    image, audio = {"_type": "Image"}, {"_type": "Audio"}
    depths: dict[str, tuple[Any, Any, Any]] = {
        "image": (image, stored, None),
        "words": ({"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"}, None, ["Total", "9.00"]),
        "ner_tags": ({"feature": {"names": ["O", "B-A"], "_type": "ClassLabel"}, "_type": "List"}, None, [0, 1]),
        "bboxes": ({"feature": {"_type": "List"}, "_type": "List"}, None, [[2, 2, 20, 10], [24, 2, 50, 10]]),
        "one": ({"pic": image}, pyarrow.struct({"pic": stored}), {"pic": named}),
        "several": ({"feature": image, "_type": "List"}, pyarrow.list_(stored), [named]),
        "large": ({"feature": audio, "_type": "LargeList"}, pyarrow.large_list(stored), [named]),
        "deep": (
            [{"a": {"feature": {"feature": image, "_type": "Sequence"}, "_type": "Sequence"}}],
            pyarrow.list_(pyarrow.struct({"a": pyarrow.list_(pyarrow.list_(stored))})),
            [{"a": [[named]]}],
        ),
    }
    columns = {name: pyarrow.array([value] * len(_NAMES), kind) for name, (_, kind, value) in depths.items()}
    rows = pyarrow.table({**columns, "image": pyarrow.array(pictures, stored)})
    file = "data-00000-of-00001.arrow"
    with pyarrow.OSFile(str(src / file), "wb") as stream, pyarrow.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    _json(src / "state.json", {"_data_files": [{"filename": file}], "_fingerprint": "a" * 16, "_split": "train"})
    _json(src / "dataset_info.json", {"features": {name: feature for name, (feature, _, _) in depths.items()}})


def _chat(src: Path) -> None:
    _pages(src / "images")
    for number, name in enumerate(_NAMES):
        turns = [
            {"from": "human", "value": "<image>\nWhat is the total?"},
            {"from": "gpt", "value": f"9.0{number}"},
        ]
        with (src / "train.jsonl").open("a") as stream:
            stream.write(json.dumps({"id": name, "image": f"images/{name}.png", "conversations": turns}) + "\n")


def _label_studio(src: Path) -> None:
    _pages(src / "images")
    tasks = []
    for number, name in enumerate(_NAMES):
        value = {"x": 2.0, "y": 2.0, "width": 50.0, "height": 40.0, "rotation": 0, "rectanglelabels": ["TOTAL"]}
        kind = {"id": "a", "type": "rectanglelabels", "from_name": "label", "to_name": "image", "origin": "manual"}
        region = {"original_width": SIZE[0], "original_height": SIZE[1], "image_rotation": 0, "value": value, **kind}
        text = {**region, "type": "textarea", "from_name": "text", "value": {**value, "text": ["9.00"]}}
        annotation = {"id": number, "completed_by": 1, "result": [region, text], "was_cancelled": False}
        tasks.append({"id": number, "data": {"image": f"images/{name}.png"}, "annotations": [annotation]})
    _json(src / "export.json", tasks)


_TSV = (
    "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
    "1\t1\t0\t0\t0\t0\t0\t0\t60\t40\t-1\t\n5\t1\t1\t1\t1\t1\t2\t2\t20\t8\t96.6\tTotal\n"
    "5\t1\t1\t1\t1\t2\t24\t2\t26\t8\t95.7\t9.00\n"
)


def _coco(src: Path) -> None:
    _pages(src)
    _text(src / "p0.tsv", _TSV)
    images = [
        {"id": number, "file_name": f"{name}.png", "width": SIZE[0], "height": SIZE[1]}
        for number, name in enumerate(_NAMES)
    ]
    mark = {"id": 1, "image_id": 0, "category_id": 3, "bbox": [24, 2, 26, 8], "area": 9, "iscrowd": 0}
    _json(src / "all.json", {"images": images, "annotations": [mark], "categories": [{"id": 3, "name": "total"}]})


def _csv(src: Path) -> None:
    _pages(src)
    _text(src / "p0.tsv", _TSV)
    rows = [f"{name}.png,total,9.00,train,Shop\n{name}.png,date,1 May,train,Shop\n" for name in _NAMES]
    _text(src / "values.csv", "file,key,value,split,provider\n" + "".join(rows))


def _pdf(src: Path) -> None:
    for name in _NAMES:
        drawn = f"BT /F1 12 Tf 20 50 Td (Total {name} 9.00) Tj ET".encode()
        parts = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Contents 4 0 R "
            b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        ]
        content, places = b"%PDF-1.4\n", []
        for number, part in enumerate(parts, 1):
            places.append(len(content))
            content += b"%d 0 obj\n%s\nendobj\n" % (number, part)
        table = b"".join(b"%010d 00000 n \n" % place for place in places)
        tail = b"xref\n0 5\n0000000000 65535 f \n%strailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        (src / f"{name}.pdf").write_bytes(content + tail % (table, len(content)))


def _hocr(src: Path) -> None:
    _pages(src)
    for name in _NAMES:
        words = "".join(
            f"<span class='ocrx_word' id='w{x}' title='bbox {x} 2 {x + 20} 10; x_wconf 96'>{text}</span>"
            for text, x in (("Total", 2), ("9.00", 30))
        )
        line = f"<span class='ocr_line' id='l' title='bbox 2 2 50 10; baseline 0.003 -1'>{words}</span>"
        page = f"<div class='ocr_page' id='page_1' title='image \"{name}.png\"; bbox 0 0 60 40; ppageno 0'>{line}</div>"
        _text(src / f"{name}.hocr", f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{page}</body></html>\n')


def _alto(src: Path) -> None:
    _pages(src)
    words = '<String ID="s0" HPOS="2" VPOS="2" WIDTH="20" HEIGHT="8" WC="0.96" CONTENT="Total"/>\n<SP WIDTH="2"/>\n'
    line = f'<TextBlock ID="b">\n<TextLine ID="l">\n{words}</TextLine>\n</TextBlock>\n'
    page = f'<Page WIDTH="60" HEIGHT="40" ID="page_0">\n<PrintSpace>\n{line}</PrintSpace>\n</Page>\n'
    unit = "<Description>\n<MeasurementUnit>pixel</MeasurementUnit>\n</Description>\n"
    inside = f"{unit}<Layout>\n{page}</Layout>\n"
    for name in _NAMES:
        _text(
            src / f"{name}.xml",
            f'<?xml version="1.0" encoding="UTF-8"?>\n<alto xmlns="http://www.loc.gov/standards/alto/ns-v3#">{inside}</alto>\n',
        )


def _doctr(src: Path) -> None:
    _pages(src)
    words = [
        {"value": text, "confidence": 0.9, "geometry": [[x, 0.3], [x + 0.2, 0.45]]}
        for text, x in (("Total", 0.1), ("9.00", 0.5))
    ]
    line = {"geometry": [[0.1, 0.3], [0.9, 0.45]], "words": words}
    block = {"geometry": [[0.1, 0.3], [0.9, 0.45]], "lines": [line], "artefacts": []}
    for name in _NAMES:
        page = {"page_idx": 0, "dimensions": [SIZE[1], SIZE[0]], "blocks": [block]}
        _json(src / f"{name}.json", {"pages": [page]})


def _textract(src: Path) -> None:
    def block(name: str, kind: str, left: float, text: str = "", *children: str) -> dict[str, Any]:
        place = {"Left": left, "Top": 0.1, "Width": 0.2, "Height": 0.1}
        related = [{"Type": "CHILD", "Ids": [*children]}] if children else []
        one = {"BlockType": kind, "Id": name, "Page": 1, "Confidence": 99.0, "Geometry": {"BoundingBox": place}}
        return {**one, "Relationships": related, **({"Text": text} if text else {})}

    _pages(src)
    for name in _NAMES:
        blocks = [
            block("page", "PAGE", 0.0, "", "line"),
            block("line", "LINE", 0.1, "Total 9.00", "w1", "w2"),
            block("w1", "WORD", 0.1, "Total"),
            block("w2", "WORD", 0.5, "9.00"),
        ]
        _json(src / f"{name}.json", {"DocumentMetadata": {"Pages": 1}, "Blocks": blocks})


SOURCES: Mapping[str, Callable[[Path], None]] = {
    "sroie": _sroie,
    "funsd": _funsd,
    "docvqa": _docvqa,
    "pfl-docvqa": _pfl,
    "tab": _tab,
    "tab official": _tab_official,
    "snips": _snips,
    "forms": _forms,
    "hf": _hf,
    "hf parquet": _hf_parquet,
    "hf saved": _hf_saved,
    "chat": _chat,
    "label-studio": _label_studio,
    "coco": _coco,
    "csv": _csv,
    "pdf": _pdf,
    "hocr": _hocr,
    "alto": _alto,
    "doctr": _doctr,
    "textract": _textract,
}
"""What writes a source into an existing folder, by its format; the first word is the name that the import takes."""
