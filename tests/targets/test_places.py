"""What a path is: each refusal is one sentence with one way out, and loads no library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import docaudit
from strange_models import (
    STRANGE,
    adapter,
    checkpoint,
    configured,
    data_set,
    safetensors,
    write_json,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from audit.cli.commands import make_app
from audit.cli.places import FORMS
from audit.errors import DocauditError, typed
from audit.targets.native import native_types
from audit.targets.places import what_is
from audit.workflows.places import check_places

NO_MODEL = "docaudit scan --no-model DATA_DIR"
REFUSALS = [
    (
        "the folder of a run",
        "(checkpoint-1300, checkpoint-295)",
        "docaudit scan given/checkpoint-1300 DATA_DIR",
    ),
    ("an empty folder", "is empty", "docaudit scan FOLDER DATA_DIR"),
    ("a GGUF file", "llama.cpp", "llama-server -m given/model-Q4_K_M.gguf"),
    ("a folder with a GGUF file", "llama.cpp", "llama-server -m given/model.gguf"),
    ("ONNX", "for ONNX (model.onnx)", "docaudit scan CHECKPOINT DATA_DIR"),
    (
        "ONNX in a folder of its own",
        "for ONNX (onnx/model.onnx)",
        "docaudit scan CHECKPOINT DATA_DIR",
    ),
    (
        "TensorFlow",
        "for TensorFlow",
        "BertForTokenClassification as M; M.from_pretrained('given', from_tf=True)",
    ),
    (
        "Flax",
        "for Flax",
        "BertForTokenClassification as M; M.from_pretrained('given', from_flax=True)",
    ),
    ("PyTorch's pickle", "in a pickle", "M.from_pretrained('given').save_pretrained('given')"),
    ("OpenVINO", "for OpenVINO", "docaudit scan CHECKPOINT DATA_DIR"),
    ("MLX", "for MLX", "mlx_lm.server --model given"),
    ("TensorRT", "of TensorRT", "trtllm-serve given"),
    ("Keras", "of Keras", NO_MODEL),
    ("a SavedModel", "of Keras", NO_MODEL),
    ("scikit-learn", "scikit-learn", NO_MODEL),
    ("spaCy", "spaCy", NO_MODEL),
    ("GLiNER", "GLiNER", NO_MODEL),
    ("flair", "flair", NO_MODEL),
    ("YOLO", "YOLO", NO_MODEL),
    ("YOLO's file", "YOLO", NO_MODEL),
    ("PaddleOCR", "PaddlePaddle", NO_MODEL),
    ("a diffusion model", "draws pictures", NO_MODEL),
    ("a bare state", "without the model's settings", "model.save_pretrained('DIR')"),
    ("Lightning", "Lightning", "M.load_from_checkpoint('given/epoch=3-step=100.ckpt')"),
    ("DeepSpeed", "DeepSpeed", "python given/zero_to_fp32.py given given --safe_serialization"),
    ("FSDP", "FSDP", "accelerate merge-weights given/pytorch_model_fsdp_0 given"),
    ("an archive", "packed into one", "python -m tarfile -e given/model.tar.gz DIR"),
    ("MLflow", "MLflow", "docaudit scan given/model DATA_DIR"),
    ("sentence-transformers", "gives texts vectors", NO_MODEL),
    ("ColPali's adapter", "finds pages", NO_MODEL),
    (
        "an adapter of 4 bits",
        "quantised weights",
        "hf download unsloth/Qwen2.5-VL-3B-Instruct --local-dir BASE",
    ),
    (
        "an adapter in a pickle",
        "in a pickle",
        "torch.load('given/adapter_model.bin', weights_only=True)",
    ),
    (
        "code of its own",
        "its own code",
        "hf download deepseek-community/DeepSeek-OCR-2 --local-dir DIR",
    ),
    ("a tokenizer alone", "a tokenizer and no model", "trainer.save_model(given)"),
    ("the file of the weights", "one file of a model", "docaudit scan given DATA_DIR"),
    ("a Git pointer", "a pointer of Git LFS", "git -C given lfs pull"),
    ("weights that are cut off", "it has 79 of 82 bytes", "sha256sum given/model.safetensors"),
    ("shards without an index", "is a shard", "trainer.save_model(given)"),
    (
        "the Hub's cache",
        "in a snapshot inside it",
        "docaudit scan given/models--org--name/snapshots/0a0a",
    ),
    ("a data set", "is a data set", "docaudit scan MODEL_DIR given"),
    ("documents", "holds documents", "docaudit init MODEL_DIR given"),
]
"""What was given, a part of the sentence, and the command."""


def refusal(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> DocauditError:
    monkeypatch.chdir(folder)
    with pytest.raises(DocauditError) as raised:
        check_places(STRANGE[name](Path("given")), None)
    return raised.value


def test_every_strange_model_has_its_refusal() -> None:
    assert {name for name, _, _ in REFUSALS} == {*STRANGE}
    assert len(REFUSALS) >= 20


@pytest.mark.parametrize(("name", "part", "command"), REFUSALS)
def test_a_refusal_is_one_sentence_with_one_way_out(
    name: str, part: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refusal(name, monkeypatch, tmp_path)
    assert len(error.problems) == 1
    assert part in error.problems[0]
    assert command in error.hint
    assert "\n" not in error.problems[0] + error.hint


PROGRAM = """
import sys
from pathlib import Path
from strange_models import STRANGE
from audit.errors import DocauditError
from audit.workflows.places import check_places
for number, make in enumerate(STRANGE.values()):
    try:
        check_places(make(Path(str(number), "given")), None)
    except DocauditError as error:
        print(len(error.problems))
print(sorted({"torch", "transformers", "safetensors"} & sys.modules.keys()))
"""


def test_refusals_import_neither_torch_nor_transformers(tmp_path: Path) -> None:
    paths = f"import sys; sys.path[:0] = {sys.path!r}\n"
    ran = subprocess.run(
        [sys.executable, "-c", paths + PROGRAM], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["1"] * len(STRANGE) + ["[]"]


COMMANDS = [
    ("scan", "{model}", "{data}"),
    ("forget-check", "{model}", "{data}", "--ids", "ids.txt"),
    ("defend", "scrub", "{model}", "{data}"),
    ("inspect", "{model}", "{data}"),
    ("plan", "{model}", "{data}"),
    ("references", "{model}", "{data}"),
    ("init", "{model}", "{data}"),
]
"""Commands that take a model and a data set."""
IN_ONE_ORDER = [command for command in COMMANDS if command[0] != "references"]
"""Commands that never took the data set first."""


def told(command: tuple[str, ...], model: Path, data: Path) -> str:
    result = docaudit(*(part.format(model=model, data=data) for part in command))
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_refuses_the_folder_of_a_run_with_its_last_checkpoint(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ids.txt").write_text("a\n")
    run = STRANGE["the folder of a run"](Path("run"))
    said = told(command, run, data_set(Path("data")))
    assert "the checkpoints are in folders inside it" in said
    last = "run/checkpoint-1300"
    assert f"hint: docaudit {command[0]}" in said
    assert said.endswith(" ".join(command[-2:]).format(model=last, data="data")) or last in said


@pytest.mark.parametrize("command", IN_ONE_ORDER, ids=lambda command: command[0])
def test_every_command_says_that_model_and_data_are_swapped(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ids.txt").write_text("a\n")
    model = checkpoint(Path("model"))
    data = data_set(Path("data"))
    said = told(command, data, model)
    if command[0] == "init":
        assert "model is the model, which comes first" in said
        assert "docaudit init model data" in said
    else:
        assert "data is a data set and model a model: they are swapped" in said
        form = next(form for form in FORMS.values() if form.startswith(f"docaudit {command[0]} "))
        assert form.format(model="model", data="data") in said


def test_a_model_in_place_of_a_data_set_is_named(tmp_path: Path) -> None:
    said = told(("ocr", "{data}"), tmp_path, checkpoint(tmp_path / "model"))
    assert "model is a model, and a data set was asked for" in said
    said = told(
        ("scan", "{data}", "{model}"), Path("http://127.0.0.1:1/v1"), checkpoint(tmp_path / "m")
    )
    assert "http://127.0.0.1:1/v1 is a model" in said


def test_every_command_with_a_model_or_a_data_set_asks_first() -> None:
    takes = {"model", "model_dir", "folders", "data_dir", "data"}
    for app in (make_app(), *(group.typer_instance for group in make_app().registered_groups)):
        for command in app.registered_commands:
            names = command.callback.__wrapped__.__name__
            parameters = command.callback.__signature__.parameters
            if takes & parameters.keys():
                assert names in {*FORMS, "init"}, names


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda folder: Path("http://127.0.0.1:8101/v1"), "address"),
        (checkpoint, "checkpoint"),
        (adapter, "adapter"),
        (data_set, "data set"),
    ],
)
def test_what_docaudit_opens_is_known(make, kind: str, tmp_path: Path) -> None:
    place = what_is(make(tmp_path / "given"))
    assert place.kind == kind
    assert bool(place.problem) is (kind == "data set")


def test_an_address_is_printed_with_both_slashes() -> None:
    assert typed(Path("http://127.0.0.1:8101/v1")) == "http://127.0.0.1:8101/v1"


def test_the_kinds_of_transformers_are_those_of_its_own_tables() -> None:
    assert native_types() == {*CONFIG_MAPPING_NAMES}


def test_code_of_a_native_kind_is_no_reason_to_refuse(tmp_path: Path) -> None:
    model = checkpoint(tmp_path, auto_map={"AutoModel": "modeling_bert.BertModel"})
    assert what_is(model).problem == ""


def test_a_base_in_full_precision_beside_an_adapter_of_4_bits_is_taken(tmp_path: Path) -> None:
    model = STRANGE["an adapter of 4 bits"](tmp_path / "adapter")
    full = checkpoint(tmp_path / "full")
    rounded = checkpoint(tmp_path / "rounded")
    check_places(model, None, {"pretrained": [full]})
    write_json(rounded / "config.json", {"model_type": "bert", "quantization_config": {}})
    with pytest.raises(DocauditError, match="a base with quantised weights"):
        check_places(model, None, {"pretrained": [rounded]})
    data = data_set(tmp_path / "data")
    with (data / "manifest.toml").open("a") as manifest:
        manifest.write('[references]\npretrained = "../full"\n')
    check_places(model, data)


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({"model_type": "nobodys"}, "unknown architecture 'nobodys'"),
        ({"model_type": None}, "unknown architecture None"),
        ({"model_type": ["bert"]}, "unknown architecture ['bert']"),
        ({"architectures": ["BertModel"]}, "has no head for a task"),
        ({"model_type": "layoutlmv2"}, "unknown architecture 'layoutlmv2'"),
        ({"model_type": "colqwen2", "architectures": ["ColQwen2ForRetrieval"]}, "finds pages"),
    ],
)
def test_models_that_no_attack_asks_are_told_without_loading(
    config: dict[str, object], part: str, tmp_path: Path
) -> None:
    place = what_is(checkpoint(tmp_path, **config))
    assert part in place.problem
    assert place.hint


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[1]", "\xff"])
def test_damaged_settings_are_left_to_whoever_opens_the_folder(text: str, tmp_path: Path) -> None:
    checkpoint(tmp_path)
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    assert what_is(tmp_path).problem == ""


@pytest.mark.parametrize(
    "header", [b"\xff" * 8, b"\x02" + bytes(7) + b"[]", b"\x08" + bytes(7) + b'{"a": 1}']
)
def test_weights_with_a_header_of_another_form_are_left_to_the_loader(
    header: bytes, tmp_path: Path
) -> None:
    configured(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(header)
    assert what_is(tmp_path).problem == ""


def test_weights_of_many_files_are_each_looked_at(tmp_path: Path) -> None:
    configured(tmp_path)
    weight_map = {}
    for number in (1, 2):
        name = f"model-{number:05}-of-00002.safetensors"
        safetensors(tmp_path / name, "a", n_missing=number - 1)
        weight_map[str(number)] = name
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": weight_map})
    assert "model-00002-of-00002.safetensors is cut off" in what_is(tmp_path).problem
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bert"
