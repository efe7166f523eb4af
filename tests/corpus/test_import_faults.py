"""A fault of a source is one line with its place, and no data set is left of it.

Each case edits one file of a small source of `hostile_sources.SOURCES`.
"""

from pathlib import Path

import pytest
from small_sources import convert, lay_out, refused

from audit.errors import ManifestError, UsageError

HUGE = "9" * 400
VAST = "9" * 5_000


def refuse(kind: str, src: Path, problem: str) -> None:
    """Fail unless the import names the problem, repeats no value and leaves nothing."""
    dst = src.parent / "out"
    with pytest.raises((ManifestError, UsageError)) as caught:
        convert(kind, src, dst)
    problems = caught.value.problems
    assert any(problem in line for line in problems), problems
    assert "secret" not in str(caught.value)
    assert not dst.exists()


def overwrite(kind: str, file: str, content: str, folder: Path) -> Path:
    """Lay out a source of which one file has another content."""
    src = lay_out(kind, folder)
    assert (src / file).is_file()
    (src / file).write_text(content)
    return src


def change(kind: str, file: str, changes: dict[str, str], folder: Path) -> Path:
    """Lay out a source of which one file has new texts in place of old ones."""
    src = lay_out(kind, folder)
    text = (src / file).read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (src / file).write_text(text)
    return src


@pytest.mark.parametrize(
    ("kind", "file", "content", "problem"),
    [
        ("sroie", "key/p0.json", "{", "p0: p0.json is not JSON"),
        ("sroie", "key/p0.json", "[]", "p0: p0.json is not an object with the keys company"),
        ("sroie", "key/p0.json", '{"total": 9.0}', "p0: p0.json total: must be a text"),
        ("sroie", "box/p1.csv", "1,2,3,RED\n", "p1: p1.csv:1 is not x1,y1,...,TEXT with 8 numbers"),
        (
            "docvqa",
            "train_v1.0_withQT.json",
            "[]",
            "train_v1.0_withQT.json must be a table or object",
        ),
        ("docvqa", "spdocvqa_ocr/p0.json", "{", "data[0]: OCR: not JSON"),
        (
            "docvqa",
            "spdocvqa_ocr/p0.json",
            '{"recognitionResults": []}',
            "data[0]: OCR: 0 pages for one image",
        ),
        (
            "tab",
            "mentions.json",
            '{"001": [], "002": [], "003": []}',
            "mentions.json: no mention in any text",
        ),
        ("tab official", "echr_train.json", "{}", "echr_train.json Input should be a valid list"),
        (
            "snips",
            "train/label",
            "RateBook\n",
            "train: numbers of lines differ: seq.in 3, seq.out 3, label 1",
        ),
    ],
)
def test_another_content_of_a_papers_corpus_is_refused_with_its_place(
    kind: str, file: str, content: str, problem: str, tmp_path: Path
) -> None:
    refuse(kind, overwrite(kind, file, content, tmp_path / "src"), problem)


@pytest.mark.parametrize(
    ("kind", "file", "changes", "problem"),
    [
        (
            "funsd",
            "annotations/p0.json",
            {'"question"': '"title"'},
            "p0: p0.json form[0].label: Input should be",
        ),
        ("docvqa", "train_v1.0_withQT.json", {'["9.00"]': "[]"}, "withQT.json data[0]: no answer"),
        (
            "docvqa",
            "train_v1.0_withQT.json",
            {"What is the total?": " "},
            "data[0]: question 1: the question is empty",
        ),
        ("docvqa", "train_v1.0_withQT.json", {'"answers"': '"ans"'}, "data[0].answers: missing"),
        (
            "docvqa",
            "train_v1.0_withQT.json",
            {'p0.png"': '../p9.png"'},
            "data[0]: the image of its page is missing",
        ),
        (
            "docvqa",
            "spdocvqa_ocr/p0.json",
            {'"width": 60': '"width": 20'},
            "read from a page of 20 x 40, but the",
        ),
        (
            "docvqa",
            "spdocvqa_ocr/p0.json",
            {'"width": 60': '"width": NaN'},
            "has no width or height",
        ),
        (
            "pfl-docvqa",
            "blue_train.json",
            {"0.1, 0.1, 0.3": "0.1, 0.1, 1.3"},
            "not shares of the page between 0 and",
        ),
        (
            "pfl-docvqa",
            "blue_train.json",
            {"[0.1, 0.1, 0.3, 0.2], ": ""},
            "2 OCR tokens, but 1 boxes",
        ),
        (
            "pfl-docvqa",
            "blue_train.json",
            {'"answers": "9.00"': '"answers": [1]'},
            "blue_train.json[1] answers[0]: ",
        ),
        (
            "tab",
            "mentions.json",
            {"3, 10": "3, 99"},
            "document 1 by name mention 0: it is not within a text of 25 characters",
        ),
        (
            "tab",
            "mentions.json",
            {"3, 10": "5, 5"},
            "document 1 by name mention 0: it is not within",
        ),
        (
            "tab",
            "mentions.json",
            {"3, 10": "2, 3"},
            "document 1 by name mention 0: it is white space",
        ),
        (
            "tab",
            "mentions.json",
            {'"PERSON"': '"secret"'},
            "mentions.json (a name of the source)[0][2]: Input should be 'PERSON'",
        ),
        (
            "tab",
            "mentions.json",
            {'"002"': '"004"'},
            "texts.json: a document of mentions.json is missing",
        ),
        ("tab", "texts.json", {'"Nobody."': '" "'}, "document 3 by name text: empty"),
        (
            "tab official",
            "echr_train.json",
            {'"start_offset": 3': '"start_offset": 99'},
            "mention 0: it is not within",
        ),
        (
            "tab official",
            "echr_train.json",
            {'"PERSON"': '"ALIEN"'},
            "(a name of the source)[0][2]: Input should be 'PERSON'",
        ),
        (
            "tab official",
            "echr_train.json",
            {'"001-train"': '"001-dev"'},
            "echr_train.json[0]: another text or part than in an",
        ),
        (
            "snips",
            "test/seq.out",
            {"O O": "O X"},
            "test/seq.out:1: a tag is none of O, B-..., I-...",
        ),
    ],
)
def test_a_fault_in_a_papers_corpus_is_refused_with_its_place(
    kind: str, file: str, changes: dict[str, str], problem: str, tmp_path: Path
) -> None:
    refuse(kind, change(kind, file, changes, tmp_path / "src"), problem)


@pytest.mark.parametrize(
    ("kind", "file", "content", "problem"),
    [
        (
            "forms",
            "labels/p0.json",
            "[1]",
            "p0.png: p0.json is neither a list of items nor an object",
        ),
        ("forms", "labels/p0.json", "{", "p0.png: p0.json is not JSON"),
        ("chat", "train.jsonl", "[1]\n", "train.jsonl:1: not an object"),
        ("conll", "eng.testa", "# nothing", "eng.testa: no column holds tags, O or B-NAME"),
    ],
)
def test_another_content_of_annotations_is_refused_with_its_place(
    kind: str, file: str, content: str, problem: str, tmp_path: Path
) -> None:
    refuse(kind, overwrite(kind, file, content, tmp_path / "src"), problem)


@pytest.mark.parametrize(
    ("kind", "file", "changes", "problem"),
    [
        (
            "forms",
            "labels/p0.json",
            {'"text": "Total", ': ""},
            "not a word: items[0].words[0] (no 'text')",
        ),
        (
            "forms",
            "labels/p0.json",
            {"2, 2, 20, 10": "9, 9"},
            "items[0].words[0]: a box has 2 numbers, and 4 or 8",
        ),
        (
            "forms",
            "labels/p0.json",
            {"2, 2, 20, 10": f"{HUGE}, 2, 20, 10"},
            "an integer of 400 digits",
        ),
        (
            "hf",
            "metadata.jsonl",
            {"p0.png": "../p0.png"},
            "metadata.jsonl:1: the path of its image leaves the source",
        ),
        (
            "hf",
            "metadata.jsonl",
            {"p0.png": "p9.png"},
            "metadata.jsonl:1: its image: the file is missing",
        ),
        ("hf", "metadata.jsonl", {'["Total", "9.00"]': '"x"'}, "words: not a list of words"),
        ("hf", "metadata.jsonl", {"[2, 2, 400, 99], ": ""}, "bboxes: 1 for 2 words"),
        (
            "hf",
            "metadata.jsonl",
            {"2, 2, 400, 99": "9, 1, 2, 3"},
            "metadata.jsonl:1: a box's corners are out of order",
        ),
        (
            "hf",
            "metadata.jsonl",
            {'"words"': '"ner_tags": [0], "words"'},
            "ner_tags: 1 for 2 words",
        ),
        (
            "hf",
            "metadata.jsonl",
            {'"words"': '"ner_tags": [0, 3], "words"'},
            "a number is none of 0 names of labels: give th",
        ),
        (
            "hf",
            "metadata.jsonl",
            {'"words"': '"question": " ", "answers": ["x"], "words"'},
            "the question is empty",
        ),
        ("hf", "metadata.jsonl", {"2, 2, 400, 99": f"{HUGE}, 1, 2, 3"}, "an integer of 400 digits"),
        (
            "chat",
            "train.jsonl",
            {'"conversations"': '"talk"'},
            "and no prompt with a completion; its columns are id, image, 1 more",
        ),
        (
            "hf of prompts",
            "train.jsonl",
            {'"completion"': '"x"'},
            "train.jsonl: no column of words, a text, an image, turns, or a prompt with a "
            "completion; its columns are prompt, x",
        ),
        (
            "hf of prompts",
            "train.jsonl",
            {'" 9.01"': "9"},
            "no list of turns, and no texts of prompt and completion",
        ),
        (
            "chat",
            "train.jsonl",
            {"images/p": "none/q"},
            "train.jsonl:1: its image: the file is missing (3 times, also train.jsonl:2 and "
            "train.jsonl:3); no folder of SRC",
        ),
        (
            "chat",
            "train.jsonl",
            {"images/p0": "../p0"},
            "the path of its image leaves the source through '..'",
        ),
        ("chat", "train.jsonl", {"images/p0": "images/p9"}, "its image: the file is missing"),
        ("chat", "train.jsonl", {'"human"': '"oracle"'}, "turn 0: its role is none of system"),
        (
            "chat",
            "train.jsonl",
            {'"9.00"': "5"},
            "turn 1: its content is neither a text nor a list of parts",
        ),
        (
            "chat",
            "train.jsonl",
            {"images/p0.png": "data:image/png;base64,@@"},
            "an image is no valid base64",
        ),
        (
            "chat",
            "train.jsonl",
            {"images/p0.png": "data:x;base64,aGFsbG8="},
            "not readable as an image",
        ),
        (
            "conll",
            "eng.train",
            {"wrote VBD B-VP O": "wrote VBD O"},
            "eng.train: line 5: 3 columns, and 4 in the lines before",
        ),
        (
            "spans",
            "train.jsonl",
            {"9, 13": "9, 14"},
            "train.jsonl:1: span 1: it is not within a text of 13 characters",
        ),
        (
            "spans",
            "train.jsonl",
            {'"start"': '"x"'},
            "train.jsonl:2: not a span of start, end and label",
        ),
        (
            "spans",
            "train.jsonl",
            {'"label"': '"y"', '"data"': '"z"'},
            "no text with a list of spans; its columns are id, y, 1 more",
        ),
        (
            "label-studio",
            "export.json",
            {'"data"': '"x"'},
            'export.json[0]: not a task: it has no "data"',
        ),
        (
            "label-studio",
            "export.json",
            {"images/p0": "../../etc/p0"},
            "the path of its image leaves the source through '..'",
        ),
        (
            "label-studio",
            "export.json",
            {"images/p0": "images/none"},
            "its image: the file is missing",
        ),
        ("label-studio", "export.json", {'"value"': '"v"'}, "export.json[0]: result 0: no value"),
        (
            "label-studio",
            "export.json",
            {'"x": 2.0': '"x": "a"'},
            "not result 0: a region of numbers",
        ),
        ("label-studio", "export.json", {'"x": 2.0': f'"x": {HUGE}'}, "an integer of 400 digits"),
        (
            "label-studio",
            "export.json",
            {'"x": 2.0': '"x": 90.0'},
            "images/p0.png: a box is outside the page",
        ),
        (
            "label-studio",
            "export.json",
            {'["TOTAL"]': '[["A"]]'},
            "labels, choices and transcriptions are lists of ",
        ),
        (
            "label-studio",
            "export.json",
            {'"text": ["9.00"]': '"text": {"a": 1}'},
            "transcriptions are lists of texts",
        ),
        (
            "coco",
            "all.json",
            {'"p0.png"': '"z.png"'},
            "all.json: images.0: its image: the file is missing",
        ),
        ("coco", "all.json", {'"width": 60': '"width": 0'}, "has no width or height"),
        (
            "coco",
            "all.json",
            {'"image_id": 0': '"image_id": 7'},
            "annotations.0: no image has its image_id",
        ),
        (
            "coco",
            "all.json",
            {'"category_id": 3': '"category_id": 9'},
            "no category its category_id",
        ),
        (
            "csv",
            "values.csv",
            {"file,key": "x,key"},
            "values.csv: no column file, file_name, filename, image with another beside it; "
            "its columns are x, key, value",
        ),
        ("csv", "values.csv", {"p0.png": "z.png"}, "values.csv:2: its image: the file is missing"),
        ("csv", "values.csv", {"p0.png": "z.pdf"}, "values.csv:2: its PDF: the file is missing"),
        (
            "csv",
            "values.csv",
            {"p0.png": "../p0.png"},
            "values.csv:2: the path of its image leaves the source",
        ),
        (
            "csv",
            "values.csv",
            {"train,Shop": "train,Shop,2"},
            "values.csv:2: more cells than columns",
        ),
        ("csv", "values.csv", {"p0.png": ""}, "values.csv:2: no file is named"),
        ("csv", "p0.tsv", {"1\t1\t0": "2\t1\t0"}, "p0.tsv: line:3: a word before the first page"),
    ],
)
def test_a_fault_in_annotations_is_refused_with_its_place(
    kind: str, file: str, changes: dict[str, str], problem: str, tmp_path: Path
) -> None:
    refuse(kind, change(kind, file, changes, tmp_path / "src"), problem)


@pytest.mark.parametrize(
    ("kind", "file", "content", "problem"),
    [
        ("pdf", "p0.pdf", "%PDF-1.4 nothing", "p0.pdf: not readable as a PDF"),
        ("hocr", "p0.hocr", "<html>", "p0.hocr: no element of class ocr_page: not hOCR"),
        ("alto", "p0.xml", "<alto", "p0.xml: not XML at line 1"),
        (
            "alto",
            "p0.xml",
            '<!DOCTYPE a [<!ENTITY x "y">]><alto/>',
            "it declares a document type or entities",
        ),
        ("doctr", "p0.json", "{", "p0.json: not JSON"),
        ("doctr", "p0.json", '{"pages": []}', "p0.json: 0 pages for one image"),
    ],
)
def test_another_content_of_a_word_file_is_refused_with_its_place(
    kind: str, file: str, content: str, problem: str, tmp_path: Path
) -> None:
    refuse(kind, overwrite(kind, file, content, tmp_path / "src"), problem)


@pytest.mark.parametrize(
    ("kind", "file", "changes", "problem"),
    [
        ("hocr", "p0.hocr", {"bbox 2 2 22 10": "box"}, "p0.hocr: line 1: no bbox in the title"),
        (
            "hocr",
            "p0.hocr",
            {"bbox 0 0 60 40": "bbox 0 0 40 60"},
            "read from a page of 40 x 60, but the image has 60",
        ),
        ("hocr", "p0.hocr", {"9.00": f"&#{VAST};"}, "a reference to a character that there is not"),
        (
            "alto",
            "p0.xml",
            {'HPOS="2"': 'HPOS="x"'},
            "p0.xml: String: one of HPOS, VPOS, WIDTH, HEIGHT is no",
        ),
        ("doctr", "p0.json", {'"blocks"': '"x"'}, "p0.json: not docTR's export (no 'blocks')"),
        (
            "textract",
            "p0.json",
            {'"w2"]': '"z"]', '"LINE"': '"KEY_VALUE_SET", "EntityTypes": ["KEY"]'},
            "p0.json: a relation names a block that is not there",
        ),
        (
            "textract",
            "p0.json",
            {'"Left": 0.5': '"L": 0.5'},
            "p0.json: not Amazon Textract's response (no 'Left')",
        ),
        ("azure", "p0.json", {"polygon": "p"}, "p0.json: not Azure's result (no 'polygon')"),
        (
            "azure read",
            "p0.json",
            {'"width": 60': '"width": 6'},
            "the words were read from a page of 6 x 40",
        ),
        (
            "document-ai",
            "p0.json",
            {'"endIndex": "6"': '"x": 1'},
            "p0.json: not Google Document AI's document (no 'endIndex')",
        ),
        (
            "docling",
            "p0.json",
            {'coord_origin": "BOTTOM': 'c": "B', '"l": 2,': '"x": 2,'},
            "p0.json: not Docling's document (no 'l')",
        ),
        (
            "paddleocr",
            "p0.json",
            {"rec_polys": "polys", "rec_boxes": "boxes"},
            "p0.json: not PaddleOCR's result (no 'rec_polys')",
        ),
        (
            "paddleocr list",
            "p0.json",
            {"50.0, 2.0": "50.0"},
            "p0.json: box: a box is no list of numbers",
        ),
        ("page-xml", "p0.xml", {"24,2 50,2": "24 50,2"}, "p0.xml: not a place of PAGE: Coords"),
    ],
)
def test_a_fault_in_a_word_file_is_refused_with_its_place(
    kind: str, file: str, changes: dict[str, str], problem: str, tmp_path: Path
) -> None:
    refuse(kind, change(kind, file, changes, tmp_path / "src"), problem)


@pytest.mark.parametrize(
    ("kind", "file", "problem"),
    [
        ("sroie", "img/p1.jpg", "p1"),
        ("sroie", "box/p1.csv", "p1"),
        ("sroie", "key/p1.json", "p1"),
        ("funsd", "images/p1.png", "images/p1"),
        ("funsd", "annotations/p1.json", "annotations/p1"),
        ("docvqa", "spdocvqa_images/p1.png", "the image of its page is missing"),
        ("docvqa", "spdocvqa_ocr/p1.json", "the OCR result of its page is missing"),
        ("pfl-docvqa", "images/p1.jpg", "the image of its page is missing"),
        ("pfl-docvqa", "blue_train.json", "holds no records as .json or .jsonl"),
        ("tab", "mentions.json", "holds no mentions.json"),
        ("snips", "train", "has no folder train/"),
        ("snips", "train/seq.out", "train/seq.out: missing"),
        ("forms", "labels/p1.json", "p1.png: neither a .json nor a .txt has its name"),
        ("forms", "p1.png", "p1.json: its image is missing"),
        ("hf", "p1.png", "its image: the file is missing"),
        ("hocr", "p1.hocr", "p1.png: its word file is missing"),
        ("alto", "p1.xml", "p1.png: its word file is missing"),
        ("doctr", "p1.json", "p1.png: its word file is missing"),
        ("textract", "p1.json", "p1.png: its word file is missing"),
    ],
)
def test_a_source_without_one_of_its_files_is_refused(
    kind: str, file: str, problem: str, tmp_path: Path
) -> None:
    src = lay_out(kind, tmp_path / "src")
    (src / file).rename(tmp_path / "gone")
    assert problem in " ".join(refused(kind, src).split())
