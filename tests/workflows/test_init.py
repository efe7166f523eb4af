"""`docaudit init`: from a model and its documents, in any format, to a data set that validates."""

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from commands import docaudit
from PIL import Image
from strange_models import adapter, safetensors
from typer.testing import Result
from watching import watched

from audit.cards import AuditSheet
from audit.cli import asking
from audit.cli.options import Assignment
from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, Corpus
from audit.errors import TargetError
from audit.targets import TABLE
from audit.targets.checkpoint.content import recognise_task
from audit.workflows.init import FIRST_COMMANDS, guess_format, task_of

BIO = {"0": "O", "1": "B-TOTAL", "2": "I-TOTAL"}


def page(path: Path, shade: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (60, 40), shade).save(path)


def pages(root: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        page(root / name, 10 + number)
    return root


def model(folder: Path, architecture: str | None, **config: Any) -> Path:
    """Write what looks like a checkpoint: its configuration, and weights of no tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    classes = {} if architecture is None else {"architectures": [architecture]}
    settings = {"model_type": "bert", **classes, **config}
    (folder / "config.json").write_text(json.dumps(settings))
    safetensors(folder / "model.safetensors")
    return folder


def run(*options: object) -> Result:
    return docaudit("init", *options)


def refused(*options: object) -> str:
    ran = run(*options)
    assert ran.exit_code == 2, ran.output
    return " ".join(ran.output.split())


def made(root: Path) -> Corpus:
    return manifests.load(root)


def splits(root: Path) -> dict[str, str]:
    return {document.id: document.split for document in made(root).documents}


def test_folders_say_splits_and_providers_and_the_model_says_the_task(tmp_path: Path) -> None:
    root = pages(
        tmp_path / "data", "train/acme/a.png", "train/bolt/b.png", "test/acme/c.png", "other/d.png"
    )
    words = [{"text": "TOTAL", "box": [1, 1, 20, 9]}, {"text": "9.00", "box": [22, 1, 40, 9]}]
    (root / "train/acme/a.json").write_text(json.dumps(words))
    entity = {"id": "e", "label": "TOTAL", "category": "amount", "words": [1]}
    (root / "train/bolt/b.json").write_text(json.dumps({"words": words, "entities": [entity]}))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    tagger = model(tmp_path / "model", "LayoutLMv3ForTokenClassification", id2label=BIO)
    ran = run(tagger, root)
    assert ran.exit_code == 0, ran.output
    corpus = made(root)
    assert corpus.manifest.task.kind == "token-classification"
    assert corpus.manifest.task.labels == ("O", "B-TOTAL", "I-TOTAL")
    assert (corpus.manifest.name, corpus.manifest.membership.assigned) == ("data", "official")
    assert splits(root) == {"a": "member", "b": "member", "c": "heldout", "d": "public"}
    assert [document.provider for document in corpus.documents] == ["other", "acme", "acme", "bolt"]
    assert corpus.document("b").text_of(corpus.document("b").entities[0]) == "9.00"
    assert corpus.document("c").size == (60, 40)
    for line in (
        f"docaudit ocr {root}",
        f"docaudit inspect {tagger} {root}",
        f"docaudit plan {tagger} {root}",
        f"docaudit scan {tagger} {root}",
    ):
        assert line in ran.output.replace("\n", "")
    assert {path: path.read_bytes() for path in before} == before


def test_files_name_the_members_and_the_held_out_pages(tmp_path: Path) -> None:
    root = pages(tmp_path / "data", "a.png", "b.png", "c.png", "d.png")
    (tmp_path / "in.txt").write_text("a\nb.png\n\n")
    (tmp_path / "out.jsonl").write_text('{"file_name": "c.png"}\n')
    ran = run(
        root,
        "--task",
        "mlm",
        "--members",
        tmp_path / "in.txt",
        "--heldout",
        tmp_path / "out.jsonl",
        "--name",
        "mine",
    )
    assert ran.exit_code == 0, ran.output
    assert splits(root) == {"a": "member", "b": "member", "c": "heldout", "d": "public"}
    assert made(root).manifest.name == "mine"
    assert "invents membership" not in ran.output


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    root = pages(tmp_path / "data", "a.png", "x/a.png", "b.png")
    (tmp_path / "in.txt").write_text("a.png\n")
    assert "name 1 of the file is that of 2 pages" in refused(
        root, "--task", "mlm", "--members", tmp_path / "in.txt"
    )
    (tmp_path / "in.txt").write_text("x/a.png\n")
    assert run(root, "--task", "mlm", "--members", tmp_path / "in.txt").exit_code == 0
    assert splits(root) == {"a": "heldout", "b": "heldout", "x-a": "member"}


def test_the_stated_rule_is_written_and_an_unstated_one_is_named(tmp_path: Path) -> None:
    root = pages(tmp_path / "stated", "train/a.png", "test/b.png")
    ran = run(root, "--task", "mlm", "--assigned", "random", "--yes")
    assert ran.exit_code == 0, ran.output
    assert made(root).manifest.membership.assigned == "random"
    assert "as nobody stated" not in " ".join(ran.output.split())
    root = pages(tmp_path / "unstated", "train/a.png", "test/b.png")
    said = " ".join(run(root, "--task", "mlm", "--yes").output.split())
    assert made(root).manifest.membership.assigned == "official"
    assert 'says assigned = "official", as nobody stated' in said
    assert "--assigned random" in said
    assert "add --public 0.5" in said, (
        "nothing is left to train references on, and nobody asked for that"
    )


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        pytest.param({}, [], "init needs MODEL or --task KIND", id="no model and no task"),
        pytest.param(
            {}, ["--yes"], "nothing to learn a task from", id="nothing to learn a task from"
        ),
        pytest.param(
            {}, ["--task", "mlm"], "name them: --members FILE", id="nobody names the members"
        ),
        pytest.param(
            {},
            ["--task", "mlm", "--yes", "--members", "{}/missing.txt"],
            "missing.txt: No such file or directory",
            id="a missing list of members",
        ),
        pytest.param(
            {},
            ["--task", "mlm", "--yes", "--heldout", "{}/names.txt"],
            "name those that were trained on: --members FILE",
            id="held-out documents without members",
        ),
        pytest.param(
            {},
            ["--task", "mlm", "--yes", "--members", "{}/names.txt"],
            "no document of the source. The first is name 1 of the file",
            id="names that are no documents",
        ),
        pytest.param(
            {},
            ["--task", "mlm", "--yes", "--assigned", "official"],
            "name them: --members FILE",
            id="official parts without members",
        ),
        pytest.param(
            {}, ["{}/bert", "--yes"], "name them: --members FILE", id="a model without members"
        ),
        pytest.param(
            {}, ["{}/strange", "--yes"], "unknown architecture StrangeModel", id="an unknown class"
        ),
        pytest.param(
            {}, ["{}/unstated", "--yes"], "give --task KIND", id="a model that states no class"
        ),
        pytest.param(
            {},
            ["--task", "mlm", "--format", "papyrus"],
            "--format papyrus: no format has this name",
            id="no such format",
        ),
        pytest.param(
            {"manifest.toml": "schema = 1"},
            ["--task", "mlm", "--yes"],
            "has a manifest.toml already",
            id="a manifest is there",
        ),
        pytest.param(
            {"manifest.toml": "schema = 1"},
            ["--task", "mlm", "--yes", "--overwrite"],
            "more than a data set that docaudit",
            id="a manifest that docaudit did not write",
        ),
        pytest.param(
            {"a.json": '{"wordz": []}'},
            ["--task", "mlm", "--yes"],
            "a.json: (a name of the source): unknown key",
            id="an unknown key",
        ),
        pytest.param(
            {"b.png": "no image"},
            ["--task", "mlm", "--yes"],
            "b.png: not readable as an image",
            id="no image",
        ),
    ],
)
def test_what_init_refuses(
    files: dict[str, str], options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    root = pages(tmp_path / "data", "a.png")
    (tmp_path / "names.txt").write_text("nobody\n")
    model(tmp_path / "bert", "BertForMaskedLM")
    model(tmp_path / "strange", "StrangeModel")
    model(tmp_path / "unstated", None, model_type="qwen2_vl")
    for name, text in files.items():
        (root / name).write_text(text)
    given = [option.format(tmp_path) for option in options]
    place = 1 if given and not given[0].startswith("-") else 0
    assert message in refused(*given[:place], root, *given[place:]).replace(" : ", ": ")
    assert {path.name for path in root.iterdir()} == {"a.png", *files}


def test_the_stated_task_wins_over_a_model_that_names_none(tmp_path: Path) -> None:
    root = pages(tmp_path / "data", "train/a.png", "test/b.png")
    unknown = model(tmp_path / "m", None, model_type="qwen2_vl")
    ran = run(unknown, root, "--task", "question-answering", "--yes")
    assert ran.exit_code == 0, ran.output
    assert 'kind = "question-answering"' in (root / manifests.FILE_NAME).read_text()


def test_a_drawn_division_says_so_and_keeps_equal_pages_together(tmp_path: Path) -> None:
    root = pages(tmp_path / "data", *(f"{number}.png" for number in range(20)))
    for number in (0, 7, 13):
        page(root / f"{number}.png", 200)
    ran = run(root, "--task", "mlm", "--yes")
    assert ran.exit_code == 0, ran.output
    assert "invents membership" in ran.output
    found = splits(root)
    assert len({found[name] for name in ("0", "7", "13")}) == 1
    assert set(found.values()) == {"member", "heldout", "public"}
    assert made(root).manifest.membership.assigned == "random"


def test_classes_from_folders_and_what_is_still_missing(tmp_path: Path) -> None:
    root = pages(tmp_path / "classes", "train/letter/a.png", "train/form/b.png", "val/letter/c.png")
    ran = run(model(tmp_path / "m", "BertForSequenceClassification"), root)
    assert ran.exit_code == 0, ran.output
    assert made(root).manifest.task.labels == ("form", "letter")
    assert [document.label for document in made(root).documents] == ["form", "letter", "letter"]
    root = pages(tmp_path / "asked", "train/a.png", "test/b.png")
    ran = run(root, "--task", "question-answering")
    assert ran.exit_code == 0
    assert "to fill in:" in ran.output
    assert "no document of split member has questions" in " ".join(ran.output.split())


def test_pages_with_outputs_are_to_be_parsed_though_the_model_answers_questions_too(
    tmp_path: Path,
) -> None:
    root = pages(tmp_path / "data", "train/a.png", "test/b.png")
    for name in ("train/a.json", "test/b.json"):
        (root / name).write_text(json.dumps({"output": '{"total": "9.00"}'}))
    donut = model(tmp_path / "donut", "VisionEncoderDecoderModel")
    ran = run(donut, root)
    assert ran.exit_code == 0, ran.output
    assert made(root).manifest.task.kind == "parsing"


def test_what_is_to_be_filled_in_comes_before_a_scan(tmp_path: Path) -> None:
    root = pages(tmp_path / "asked", "train/a.png", "test/b.png")
    for part in ("train/a", "test/b"):
        question = {"id": "q", "question": "Total?", "answers": ["9.00"]}
        (root / f"{part}.json").write_text(json.dumps({"questions": [question]}))
    silent = model(tmp_path / "m", "LlavaForConditionalGeneration", vision_config={})
    ran = run(silent, root, "--task", "question-answering")
    said = " ".join(ran.output.split())
    assert "manifest.toml [recipe] prompt: the files of the model do not say it" in said
    assert "When that is filled in:" in said
    assert "docaudit inspect" in said
    assert "docaudit plan" not in said
    assert "docaudit scan" not in said
    (silent / "chat_template.jinja").write_text("{{ messages }}")
    said = " ".join(run(silent, root, "--task", "question-answering", "--overwrite").output.split())
    assert "to fill in" not in said
    assert f"docaudit scan {silent} {root}" in said


def test_a_model_that_a_scan_refuses_is_refused_before_a_data_set_is_made(tmp_path: Path) -> None:
    root = pages(tmp_path / "data", "train/a.png", "test/b.png")
    exported = model(tmp_path / "onnx", "BertForTokenClassification")
    (exported / "model.safetensors").rename(exported / "model.onnx")
    said = refused(exported, root)
    assert "holds weights for ONNX (model.onnx)" in said
    assert "docaudit scan CHECKPOINT DATA_DIR" in said
    assert not (root / manifests.FILE_NAME).exists()
    assert "the model, which comes first" in refused(root, exported)


def test_an_address_is_a_model_that_answers_questions(tmp_path: Path) -> None:
    address = "http://127.0.0.1:8101/v1"
    told = task_of(Path(address), None)
    assert (told.kind, told.possible) == (None, ("question-answering", "parsing"))
    lines = tmp_path / "lines"
    lines.mkdir()
    for part, first in (("train", 0), ("test", 10)):
        rows = [{"prompt": f"Bill {first + n}\nWho?\n", "completion": f"Ada {n}"} for n in range(4)]
        (lines / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = run(address, lines, "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert f"docaudit scan {address} {tmp_path / 'out'}" in " ".join(ran.output.split())


def test_an_adapter_without_its_base_is_followed_by_the_download(tmp_path: Path) -> None:
    lora = adapter(tmp_path / "lora", task_type="TOKEN_CLS", base_model_name_or_path="org/b-4bit")
    root = pages(tmp_path / "data", "train/a.png", "test/b.png")
    words = {"words": [{"text": "9.00", "box": [1, 1, 20, 9]}]}
    entity = {"id": "e", "label": "TOTAL", "category": "amount", "words": [0]}
    for part in ("train/a", "test/b"):
        (root / f"{part}.json").write_text(json.dumps({**words, "entities": [entity]}))
    said = " ".join(run(lora, root, "--labels", "O,B-TOTAL,I-TOTAL").output.split())
    assert "hf download org/b --local-dir BASE" in said
    assert f"docaudit scan {lora} {root}" in said
    assert said.count("--reference pretrained=BASE") == len(FIRST_COMMANDS)


def test_texts_for_an_audit_without_a_model(tmp_path: Path) -> None:
    root = tmp_path / "letters"
    for split in ("train", "test"):
        (root / split).mkdir(parents=True)
        (root / split / "a.txt").write_text(f"Dear Ada,\nsee you in {split}.\n")
    ran = run(root, "--task", "token-classification", "--mask", "fixed")
    assert ran.exit_code == 0, ran.output
    corpus = made(root)
    assert [document.id for document in corpus.documents] == ["test-a", "train-a"]
    assert [word.text for word in corpus.documents[0].words][:2] == ["Dear", "Ada,"]
    assert corpus.manifest.redaction is not None
    assert f"docaudit scan --no-model {root}" in ran.output.replace("\n", "")
    assert "audited model" not in ran.output, "nobody audits one"


ROWS = json.loads(Path("docs/reference/models.json").read_text())
"""The table of models that docaudit supports, by task and family."""
KINDS = {name: kind for kind, own in TABLE["encoders"].items() for name in [own["name"]]}
KINDS |= {name: kind for kind, name in TABLE["answering"]["seeing"].items()}
KINDS |= {
    name: kind
    for kind, name in tomllib.loads(Path("tests/matrix/matrix_names.toml").read_text()).items()
}
TABLES_OF_TASKS = {
    "mlm": ["MASKED_LM"],
    "token-classification": ["TOKEN_CLASSIFICATION"],
    "extractive-qa": ["QUESTION_ANSWERING"],
    "document-classification": ["SEQUENCE_CLASSIFICATION"],
    "question-answering": ["IMAGE_TEXT_TO_TEXT", "CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM"],
}
"""The tables of transformers that name the class of a family, by task."""
CLASSES_OF_TASKS = {
    "mlm": "XForMaskedLM",
    "token-classification": "XForTokenClassification",
    "extractive-qa": "XForQuestionAnswering",
    "spade-extraction": "LayoutLMSpadeForExtraction",
    "spade-linking": "BrosSpadeELForTokenClassification",
    "question-answering": "VisionEncoderDecoderModel",
}
"""Classes of families that those tables lack."""
ADAPTERS = {
    "BERT": {"task_type": "TOKEN_CLS"},
    "Qwen2/2.5": {"task_type": "CAUSAL_LM"},
    "LLaVA": {
        "auto_mapping": {"base_model_class": "LlavaForConditionalGeneration"},
    },
}
"""The settings of adapters, by family."""


def written(folder: Path, task: str, family: str) -> Path:
    """Write what says the task of a model of the table."""
    from transformers.models.auto import modeling_auto

    if family.startswith("LoRA over "):
        folder.mkdir()
        settings = ADAPTERS[family.removeprefix("LoRA over ")]
        (folder / "adapter_config.json").write_text(json.dumps({"task_type": None, **settings}))
        return folder
    kind = KINDS.get(family, family)
    if task == "intent-slots":
        return model(folder, "UtteranceModel", model_type="docaudit-nlu")
    tables = [
        getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES")
        for name in TABLES_OF_TASKS.get(task, ())
    ]
    named = next((table[kind] for table in tables if kind in table), CLASSES_OF_TASKS.get(task))
    assert isinstance(named, str), family
    return model(folder, named, model_type=kind)


@pytest.mark.parametrize("row", ROWS)
def test_every_model_of_the_table_has_its_task(row: str, tmp_path: Path) -> None:
    task, family = row.split(": ", 1)
    told = task_of(
        written(tmp_path / "m", "question-answering" if task == "parsing" else task, family), None
    )
    asked_only = TABLE["tasks"]["asked_only"]
    is_asked = task == "question-answering" and KINDS.get(family, family) in asked_only
    if task in ("parsing", "question-answering") and not is_asked:
        assert told.possible == ("question-answering", "parsing"), "the source tells which"
        assert told.kind is None
    else:
        assert told.possible == (task,)
        assert told.kind == task


@pytest.mark.parametrize("family", ["GPT-2", "Llama", "T5", "BART"])
def test_models_of_text_take_prompts(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines").mkdir()
    for part, first in (("train", 0), ("test", 10)):
        rows = (
            {"prompt": f"Bill {first + n} of Ada\nWho paid?\n", "completion": f"Ada {first + n}"}
            for n in range(4)
        )
        (Path("lines") / f"{part}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
    ran = run(written(tmp_path / "m", "question-answering", family), "lines")
    assert ran.exit_code == 0, ran.output
    corpus = made(tmp_path / "lines-audit")
    assert corpus.manifest.task.kind == "question-answering"
    assert {split: len(corpus.of(split)) for split in SPLITS} == {
        "member": 4,
        "heldout": 4,
        "public": 0,
    }
    assert "--public 0.5" in ran.output
    assert "Ada" not in ran.output, "a log shows no text of a document"


def test_a_terminal_is_asked_and_shown_three_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.cli.asking.in_terminal", lambda: True)
    root = tmp_path / "letters"
    root.mkdir()
    for number in range(6):
        (root / f"l{number}.txt").write_text(f"Dear Ada, pay {number} now.")
    (tmp_path / "in.txt").write_text("l0\nl1\nl2\n")
    bert = model(tmp_path / "m", "BertForMaskedLM")
    about_documents = f"{tmp_path / 'in.txt'}\nsometimes\nby-date\nfixed\n\n"
    about_audit = f"Letters\n2\nMail room\n{'x' * 161}\nSorts letters\n\nmaybe\napi\n"
    ran = docaudit("init", bert, root, input=about_documents + about_audit)
    assert ran.exit_code == 0, ran.output
    corpus = made(root)
    assert splits(root) == {
        f"l{number}": "member" if number < 3 else "heldout" for number in range(6)
    }
    assert corpus.manifest.membership.assigned == "by-date"
    assert corpus.manifest.redaction is not None
    assert corpus.manifest.audit == AuditSheet(
        model_name="Letters",
        model_version="2",
        system="Mail room",
        purpose="Sorts letters",
        release="api",
    )
    for shown in (
        "Dear Ada, pay 0 now.",
        "Dear Ada, pay 3 now.",
        "Which documents was the model trained on?",
    ):
        assert shown in ran.output
    assert "as nobody stated" not in ran.output
    ran = docaudit("init", bert, root, "--overwrite", input="none\n" + 10 * "\n")
    assert made(root).manifest.membership.drawn is not None, ran.output


def test_questions_fit_80_columns_and_a_choice_is_taken_by_its_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "3")
    assert asking._ask("assigned", get_args(Assignment)) == "by-date"
    lines = capsys.readouterr().out.splitlines()
    assert "  1. random: by lot, as train_test_split does" in lines
    assert "  Enter: not known, official" in lines
    asking._ask("trained")
    shown = capsys.readouterr().out
    assert "Which documents was the model trained on? A file that names them, a folder of" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_only_a_data_set_of_docaudit_is_replaced(tmp_path: Path) -> None:
    root = pages(tmp_path / "pages", "train/a.png", "test/b.png")
    out = tmp_path / "out"
    given = ("--task", "mlm", "--out", out)
    assert (run(root, *given).exit_code, made(out).document("a").image) == (0, "images/a.png")
    assert "is not empty" in refused(root, *given)
    page(root / "test" / "c.png", 99)
    assert (run(root, *given, "--overwrite").exit_code, len(made(out).documents)) == (0, 3)
    (root / "test" / "d.png").write_text("no image")
    refused(root, *given, "--overwrite")
    assert len(made(out).documents) == 3, "what fails leaves the old one"
    (out / "notes.txt").write_text("mine")
    assert "holds more than a data set that docaudit wrote: notes.txt" in refused(
        root, *given, "--overwrite"
    )
    (root / "test" / "d.png").unlink()
    (out / "notes.txt").unlink()
    manifest = out / manifests.FILE_NAME
    manifest.write_text(manifest.read_text().split("\n", 1)[1])
    assert "holds more than" in refused(root, *given, "--overwrite"), "somebody else wrote it"


def test_recognition_follows_no_link_out_of_a_source_or_model(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    talk = '{"messages": []}'
    for name in ("talk.json", "config.json"):
        (private / name).write_text(talk)
    source = pages(tmp_path / "pages", "train/a.png", "test/b.png")
    (source / "talk.json").symlink_to(private / "talk.json")
    (source / "folder").symlink_to(private)
    (source / "loop.json").symlink_to("loop.json")
    linked = tmp_path / "model"
    linked.mkdir()
    (linked / "config.json").symlink_to(private / "config.json")
    with watched() as seen:
        assert guess_format(source) is None
        refused(source, "--task", "mlm", "--format", "coco")
        docaudit("import", "coco", source, tmp_path / "out")
        with pytest.raises(TargetError, match="links out"):
            recognise_task(linked)
    assert not [path for path in seen.opened if path.resolve().is_relative_to(private)]
    (source / "talk.json").unlink()
    (source / "inside.json").write_text(talk)
    (source / "talk.json").symlink_to("inside.json")
    assert guess_format(source) == "chat"


def test_labels_that_say_nothing_are_left_out_and_adapters_are_recognised(tmp_path: Path) -> None:
    named = model(
        tmp_path / "a", "BertForTokenClassification", id2label={"0": "LABEL_0", "1": "LABEL_1"}
    )
    assert recognise_task(named).task.labels == ()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "adapter_config.json").write_text('{"task_type": "CAUSAL_LM"}')
    assert recognise_task(tmp_path / "b").task.kind == "question-answering"
    with pytest.raises(TargetError, match="does not state its task"):
        recognise_task(model(tmp_path / "c", "BertModel"))


def test_a_new_manifest_ends_in_an_audit_sheet_to_fill_in(tmp_path: Path) -> None:
    root = pages(tmp_path / "data", "train/a.png", "test/b.png")
    assert run(root, "--task", "mlm", "--yes").exit_code == 0
    path = root / manifests.FILE_NAME
    written = path.read_text()
    before = made(root)
    assert before.manifest.audit == AuditSheet()
    head, sheet = written.split("# [audit]\n")
    filled = "".join(
        line.removeprefix("# ") for line in sheet.splitlines(keepends=True) if " = " in line
    )
    path.write_text(f"{head}[audit]\n{filled}")
    after = made(root)
    assert None not in vars(after.manifest.audit).values()
    assert (after.manifest.audit.release, after.sha256) == ("internal", before.sha256)


def test_boxes_of_plain_pages_may_be_shares(tmp_path: Path) -> None:
    root = pages(tmp_path / "data", "train/a.png", "test/b.png")
    for name in ("train/a.json", "test/b.json"):
        (root / name).write_text(json.dumps([{"text": "TOTAL", "box": [0.1, 0.1, 0.5, 0.5]}]))
    assert (run(root, "--task", "mlm").exit_code, made(root).document("a").words[0].box) == (
        0,
        (6, 4, 30, 20),
    )


def test_documents_without_unseen_ones_are_told_what_is_missing(tmp_path: Path) -> None:
    root = pages(tmp_path / "data", *(f"train/{number}.png" for number in range(4)))
    said = " ".join(run(model(tmp_path / "m", "BertForMaskedLM"), root).output.split())
    assert set(splits(root).values()) == {"member"}
    assert "No unseen document (split heldout). No limit on the model can be met" in said
    assert "assigned" not in said, "there is no comparison that the rule could be about"
    assert "--heldout-from SRC2" in said
