"""From what a newcomer has to a first verdict, counted in commands.

And the ways in which newcomers err.
"""

import json
import shutil
from types import SimpleNamespace

import pytest
import strangers
import tiny
import vlm_zoo
from commands import docaudit

from audit import record as records
from audit.corpus import manifest as manifests

pytestmark = [pytest.mark.usefixtures("few_candidates")]

COMMANDS = 3
"""At most so many lead to a first verdict."""


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """Annotated pages in train/ and test/, a LayoutLMv3 that `Trainer.save_model` wrote, and a tiny RoBERTa."""
    root = tmp_path_factory.mktemp("forms")
    divided = strangers.pages(8, 8)
    return SimpleNamespace(
        root=root,
        data=strangers.write_forms(root / "forms", divided),
        model=strangers.train_tagger(root / "my-layoutlmv3", divided["train"], 20),
        roberta=tiny.checkpoint(root / "my-roberta", "roberta", "mlm", 3),
    )


@pytest.fixture(scope="module")
def chats(tmp_path_factory):
    """Conversations about images in train.jsonl and test.jsonl, and a LoRA that `Trainer.save_model` wrote."""
    pytest.importorskip("peft")
    vlm_zoo.skip_unless_readable("llava")
    root = tmp_path_factory.mktemp("chats")
    divided = strangers.pages(4, 4)
    return SimpleNamespace(
        root=root,
        data=strangers.write_chat(root / "chats", divided),
        base=root / "my-llava",
        model=strangers.train_adapter(root / "my-lora", root / "my-llava", divided["train"], 2),
    )


def flat(result):
    return " ".join(result.output.split())


def walk(*commands):
    """Run the commands, few enough, and give what the last printed: a verdict."""
    assert len(commands) <= COMMANDS
    results = [docaudit(*command) for command in commands]
    codes = [result.exit_code for result in results[:-1]]
    assert codes == [0] * (len(commands) - 1), results[-2].output
    assert results[-1].exit_code == 11, results[-1].output
    return flat(results[-1])


def refused(*arguments):
    result = docaudit(*arguments)
    assert result.exit_code == 2, result.output
    return flat(result)


def test_a_tagger_of_the_trainer_and_annotated_forms(forms, tmp_path):
    data = tmp_path / "data"
    out = tmp_path / "first-look"
    said = walk(
        (
            "import",
            "forms",
            forms.data / "train",
            data,
            "--heldout-from",
            forms.data / "test",
            "--labels",
            forms.model,
        ),
        ("inspect", data, "--model", forms.model),
        (
            "scan",
            forms.model,
            data,
            "--documents",
            4,
            "--out",
            out,
            "-v",
            "--reference",
            f"auxiliary={forms.roberta}",
        ),
    )
    assert "UNDECIDED" in said
    assert "Findings so far" in said
    assert "To decide" not in said or "fix this" not in said[said.index("Findings so far") :]
    assert "Fix: The model does not do its task" in said, "an alarm comes before more documents"
    record = records.read(out)
    assert {"reconstruction", "membership"} <= {*record.completed}
    assert record.corpus.documents["member"] == 8
    assert (
        "At most 4 of the documents trained on and never seen were tried"
        in (out / "report.html").read_text()
    )


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="Tesseract is not installed")
def test_a_lora_of_the_trainer_and_conversations(chats, tmp_path):
    data = tmp_path / "data"
    out = tmp_path / "first-look"
    said = walk(
        (
            "import",
            "chat",
            chats.data / "train.jsonl",
            data,
            "--heldout-from",
            chats.data / "test.jsonl",
        ),
        ("ocr", data),
        ("scan", chats.model, data, "--documents", 4, "--out", out),
    )
    assert "UNDECIDED" in said
    record = records.read(out)
    assert "membership" in {*record.completed}
    assert [one.role for one in record.references] == ["pretrained"]


@pytest.fixture(scope="module")
def data(forms, tmp_path_factory):
    place = tmp_path_factory.mktemp("imported") / "data"
    arguments = (
        forms.data / "train",
        place,
        "--heldout-from",
        forms.data / "test",
        "--labels",
        forms.model,
    )
    assert docaudit("import", "forms", *arguments).exit_code == 0
    return place


def test_init_takes_what_imports_take(forms, chats, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, task in ((forms, "token-classification"), (chats, "question-answering")):
        said = flat(docaudit("init", given.model, given.data))
        made = manifests.load(tmp_path / f"{given.data.name}-audit")
        assert (made.manifest.task.kind, made.manifest.name) == (task, given.data.name)
        assert {len(made.of("member")), len(made.of("heldout"))} == {8 if given is forms else 4}
        assert not made.of("public")
        assert f"docaudit scan {given.model} {given.data.name}-audit" in said
    labels = json.loads((forms.model / "config.json").read_text())["id2label"].values()
    assert manifests.load(tmp_path / "forms-audit").manifest.task.labels == (*labels,)
    assert "the model, which comes first" in refused("init", forms.data, forms.model)
    assert "no documents are given" in refused("init", forms.model)


def test_an_adapter_without_its_base_is_told_how_to_give_it(chats, tmp_path):
    adapter = tmp_path / "adapter"
    shutil.copytree(chats.model, adapter)
    settings = json.loads((adapter / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = "me/base"
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    docaudit("import", "chat", chats.data, tmp_path / "data")
    said = refused("scan", adapter, tmp_path / "data", "--out", tmp_path / "out")
    assert "hf download me/base --local-dir BASE" in said
    assert "--reference pretrained=BASE" in said


def test_references_know_an_adapters_base_and_offer_no_other_kind_of_model(
    forms, chats, data, tmp_path
):
    docaudit("import", "chat", chats.data, tmp_path / "chat")
    found = references(tmp_path / "chat", chats.model)
    assert (found["pretrained"]["state"], found["pretrained"]["folders"]) == (
        "there",
        [str(chats.base)],
    )
    order = f"docaudit references {chats.model} {tmp_path / 'chat'} --train baselines"
    assert found["baselines"]["how"].endswith(order)
    shutil.copytree(chats.base, forms.root / "base")
    assert references(data, forms.model)["pretrained"]["state"] == "missing"


def references(data, model):
    result = docaudit("references", data, model, "--json")
    assert result.exit_code == 0, result.output
    return {one["name"]: one for one in json.loads(result.stdout)["references"]}


def test_an_import_names_the_next_commands(forms, tmp_path):
    said = flat(docaudit("import", "forms", forms.data, tmp_path / "data"))
    assert said.index("Next:") < said.index(f"docaudit inspect MODEL_DIR {tmp_path / 'data'}")
    assert f"docaudit scan MODEL_DIR {tmp_path / 'data'} --budget quick --documents " in said


def test_labels_in_another_case_are_told_the_option(forms, tmp_path):
    docaudit(
        "import",
        "forms",
        forms.data / "train",
        tmp_path / "data",
        "--heldout-from",
        forms.data / "test",
    )
    said = refused("scan", forms.model, tmp_path / "data", "--out", tmp_path / "out")
    assert "no tag for entities labelled answer, header" in said
    assert "--labels MODEL_DIR" in said


def test_a_run_folder_names_its_checkpoints(forms, data, tmp_path):
    shutil.copytree(forms.model, tmp_path / "run" / "checkpoint-20")
    run = tmp_path / "run"
    last = tmp_path / "run" / "checkpoint-20"
    for command in (("scan", run, data, "--out", tmp_path / "out"), ("init", run, data)):
        said = refused(*command)
        assert "the checkpoints are in folders inside it (checkpoint-20)" in said
        assert f"docaudit {command[0]} {last} {data}" in said


def test_the_training_file_names_the_members(chats, tmp_path):
    pages = tmp_path / "chats"
    shutil.copytree(chats.data, pages)
    result = docaudit(
        "import", "chat", pages, tmp_path / "data", "--members", pages / "train.jsonl"
    )
    assert result.exit_code == 0, result.output
    members = [
        json.loads(line)
        for line in (tmp_path / "data" / "documents.jsonl").read_text().splitlines()
    ]
    assert sorted(one["id"] for one in members if one["split"] == "member") == [
        f"m{number}" for number in range(4)
    ]


def test_the_training_pages_given_as_held_out_are_noticed(forms, tmp_path):
    train = forms.data / "train"
    assert "No unseen document" in flat(
        docaudit("import", "forms", train, tmp_path / "data", "--heldout-from", train)
    )
