"""Columns that an import gives no meaning: which are outputs, and how the others are named."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pytest
from commands import docaudit
from PIL import Image
from strange_models import safetensors
from typer.testing import Result

from audit.corpus.documents import Corpus, Document
from audit.corpus.manifest import load

RECEIPT = json.dumps({"total": "9.00", "shop": "Acme"})
MARKED = "<s_total>9.00</s_total><s_shop>Acme</s_shop>"
DONUT = "VisionEncoderDecoderModel"


def image_folder(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Images with metadata.jsonl, a row each."""
    folder.mkdir()
    lines: list[str] = []
    for number, row in enumerate(rows):
        Image.new("L", (40, 20), 10 * number).save(folder / f"{number}.png")
        lines.append(json.dumps({"file_name": f"{number}.png", **row}))
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    return folder


def parquet(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A Parquet file of images as bytes, as on the Hub."""
    folder.mkdir()
    with_images: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        with_images.append({"image": Image.new("L", (40, 20), 10 * number), **row})
    table = datasets.Dataset.from_list(with_images).cast_column("image", datasets.Image())
    table.to_parquet(str(folder / "train.parquet"))
    return folder


def model(folder: Path, architecture: str, model_type: str) -> Path:
    """What `init` reads of a checkpoint."""
    folder.mkdir()
    config = {"architectures": [architecture], "model_type": model_type}
    (folder / "config.json").write_text(json.dumps(config))
    safetensors(folder / "model.safetensors")
    return folder


def imported(source: Path, *options: object) -> Corpus:
    """Import as members all that a source holds."""
    out = source.parent / "out"
    shares = ("--member", 1, "--heldout", 0, "--public", 0)
    ran = docaudit("import", "hf", source, out, *shares, *options)
    assert ran.exit_code == 0, ran.output
    return load(out)


def refused(*command: object) -> str:
    """Run a command that ends with exit code 2, and return what it prints."""
    ran = docaudit(*command)
    assert ran.exit_code == 2, ran.output
    return " ".join(ran.output.split())


def started(model_dir: Path, source: Path) -> Result:
    """Run `init` on a source whose first document is the member."""
    (source.parent / "members.txt").write_text("0.png\n")
    out = source.parent / "out"
    members = source.parent / "members.txt"
    return docaudit("init", model_dir, source, "--yes", "--members", members, "--out", out)


def answers(document: Document) -> dict[str, str]:
    return {question.question: question.answers[0] for question in document.questions}


def outputs(corpus: Corpus) -> list[str | None]:
    return [document.output for document in corpus.documents]


@pytest.mark.parametrize("written", [RECEIPT, MARKED], ids=["JSON", "Donut's marks"])
@pytest.mark.parametrize("name", ["json", "belegdaten", "text", "label", "answer"])
def test_a_column_of_json_or_marks_is_an_output_whatever_its_name(
    name: str, written: str, tmp_path: Path
) -> None:
    corpus = imported(image_folder(tmp_path / "src", [{name: written}] * 4))
    assert corpus.manifest.task.kind == "parsing"
    assert answers(corpus.documents[0]) == {"total": "9.00", "shop": "Acme"}


def test_a_column_of_json_in_parquet_is_an_output(tmp_path: Path) -> None:
    corpus = imported(parquet(tmp_path / "src", [{"belegdaten": RECEIPT, "nr": 7}] * 4))
    assert corpus.manifest.task.kind == "parsing"
    assert answers(corpus.documents[0]) == {"total": "9.00", "shop": "Acme"}


def test_most_values_decide_what_a_column_is(tmp_path: Path) -> None:
    rows = [{"daten": RECEIPT}, {"daten": RECEIPT}, {"daten": "unreadable"}]
    corpus = imported(image_folder(tmp_path / "src", rows))
    assert outputs(corpus) == [RECEIPT, RECEIPT, "unreadable"]


def test_json_beside_classes_is_no_output(tmp_path: Path) -> None:
    bill = {"label": "bill", "meta": json.dumps({"dpi": 300})}
    rows = [bill, bill, {**bill, "label": "letter"}]
    corpus = imported(image_folder(tmp_path / "src", rows))
    assert corpus.manifest.task.kind == "document-classification"


def test_the_owner_says_what_a_column_of_json_is(tmp_path: Path) -> None:
    rows = [{"daten": RECEIPT, "other": "Acme"}] * 4
    corpus = imported(image_folder(tmp_path / "src", rows), "--columns", "output=other")
    assert corpus.documents[0].output == "Acme"


def test_of_two_columns_of_json_none_is_taken_and_both_are_named(tmp_path: Path) -> None:
    rows = [{"json": RECEIPT, "meta": json.dumps({"dpi": 300})}] * 4
    message = refused("import", "hf", image_folder(tmp_path / "src", rows), tmp_path / "out")
    assert "columns that were not read: json (JSON), meta (JSON)" in message
    assert "JSON may be output" in message
    assert "--ocr" not in message


def test_a_text_that_was_not_read_is_named_in_place_of_ocr(tmp_path: Path) -> None:
    source = image_folder(tmp_path / "src", [{"caption": "Total 9.00", "score": 0.5}] * 4)
    ran = started(model(tmp_path / "m", DONUT, "vision-encoder-decoder"), source)
    assert ran.exit_code == 2
    message = " ".join(ran.output.split())
    assert "nothing to learn the task question-answering or parsing from" in message
    assert "columns that were not read: caption (texts), column 3 (numbers)" in message
    assert "texts may be output, text, label, question or answers; numbers may be label" in message
    assert "--ocr" not in message


def test_names_that_only_the_source_knows_are_numbers(tmp_path: Path) -> None:
    source = image_folder(tmp_path / "src", [{"Erika Mustermann": "Berlin"}] * 4)
    message = refused("import", "hf", source, tmp_path / "out")
    assert "column 2 (texts)" in message
    assert "Mustermann" not in message
    assert "Berlin" not in message


def test_ocr_is_advised_where_words_are_all_that_is_missing(tmp_path: Path) -> None:
    message = refused("import", "hf", image_folder(tmp_path / "src", [{}] * 4), tmp_path / "out")
    assert "import again with --ocr eng" in message
    assert "not read" not in message


@pytest.mark.parametrize(
    ("architecture", "kind", "tasks"),
    [
        (DONUT, "vision-encoder-decoder", "question-answering or parsing"),
        ("PaliGemmaForConditionalGeneration", "paligemma", "question-answering or parsing"),
        ("UdopForConditionalGeneration", "udop", "question-answering"),
    ],
)
def test_a_model_that_writes_is_offered_no_ocr_and_no_other_task(
    architecture: str, kind: str, tasks: str, tmp_path: Path
) -> None:
    source = image_folder(tmp_path / "src", [{}] * 4)
    ran = started(model(tmp_path / "m", architecture, kind), source)
    assert ran.exit_code == 2
    message = " ".join(ran.output.split())
    assert f"nothing to learn the task {tasks} from" in message
    assert "question-answering needs questions with answers" in message
    assert "--ocr" not in message
    assert "--task" not in message


def test_a_tagger_is_offered_no_task_of_another_head(tmp_path: Path) -> None:
    tagger = model(tmp_path / "m", "BertForTokenClassification", "bert")
    source = image_folder(tmp_path / "src", [{"text": "Total 9.00"}] * 4)
    ran = started(tagger, source)
    assert ran.exit_code == 2
    message = " ".join(ran.output.split())
    assert "token-classification needs words, and tags or fields" in message
    assert "mlm" not in message


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        (DONUT, "vision-encoder-decoder"),
        ("Pix2StructForConditionalGeneration", "pix2struct"),
    ],
)
def test_the_text_beside_an_image_is_what_a_model_that_writes_transcribes(
    architecture: str, kind: str, tmp_path: Path
) -> None:
    rows = [{"text": "Rechnung Nr. 17"}, {"text": "12.50"}, {"text": "true"}]
    source = image_folder(tmp_path / "src", rows)
    ran = started(model(tmp_path / "m", architecture, kind), source)
    assert ran.exit_code == 0, ran.output
    message = " ".join(ran.output.split())
    assert "Taken for what the model writes about each page: text" in message
    assert "docaudit scan" in message
    corpus = load(tmp_path / "out")
    assert corpus.manifest.task.kind == "parsing"
    assert sorted(map(str, outputs(corpus))) == ["12.50", "Rechnung Nr. 17", "true"]
    for document in corpus.documents:
        assert answers(document) == {"text": document.output}


def test_a_text_beside_an_image_is_its_words_for_other_models(tmp_path: Path) -> None:
    source = image_folder(tmp_path / "src", [{"text": "Total 9.00"}] * 4)
    corpus = imported(source)
    assert corpus.manifest.task.kind == "mlm"
    assert len(corpus.documents[0].words) == 2


def test_a_table_of_files_and_texts_is_a_table_of_outputs(tmp_path: Path) -> None:
    source = image_folder(tmp_path / "src", [{}] * 3)
    (source / "metadata.jsonl").unlink()
    (source / "labels.csv").write_text("file_name,text\n0.png,Rechnung 17\n1.png,Summe\n2.png,\n")
    shares = ("--member", 1, "--heldout", 0, "--public", 0)
    ran = docaudit("import", "csv", source, tmp_path / "out", *shares)
    assert ran.exit_code == 0, ran.output
    assert outputs(load(tmp_path / "out")) == ["Rechnung 17", "Summe", None]


def test_a_prompt_of_a_parsing_model_holds_no_question(tmp_path: Path) -> None:
    source = image_folder(tmp_path / "src", [{"json": RECEIPT}] * 3)
    ran = started(model(tmp_path / "m", "PaliGemmaForConditionalGeneration", "paligemma"), source)
    message = " ".join(ran.output.split())
    assert "[recipe] prompt: the files of the model do not say it" in message
    assert "{question}" not in message
