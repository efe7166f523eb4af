"""Loading: what is taken, what is refused in one line, and that nothing from the folder is ever run."""

import ast
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from checkpoint_faults import Case, cases, change
from safetensors.torch import load_file, save_file

from audit import references, targets
from audit.errors import TargetError, UsageError
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.checkpoint.wrappers import may_be_of_lightning, renamings
from audit.targets.encoders.loading import load
from audit.targets.interface import TrainingLoss
from audit.targets.opening import device_named

Break = Callable[[Path], object]
CONFIG = "config.json"
TOKENIZER = "tokenizer_config.json"
WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(checkpoints, tmp_path):
    """A BERT checkpoint with a masked-language-model head, to be broken."""
    return Path(shutil.copytree(checkpoints("bert", "mlm"), tmp_path / "model"))


@pytest.fixture
def tagger(checkpoints, tmp_path):
    return Path(shutil.copytree(checkpoints("bert", "token-classification"), tmp_path / "tagger"))


def weights(replaced: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Break:
    def break_it(folder: Path) -> None:
        path = folder / WEIGHTS
        save_file(replaced(load_file(path)), path, metadata={"format": "pt"})

    return break_it


def truncated(keep: int) -> Break:
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:keep])


def instead(name: str) -> Break:
    """Another file in place of the weights."""

    def break_it(folder: Path) -> None:
        (folder / WEIGHTS).unlink()
        (folder / name).write_bytes(b"x")

    return break_it


def other_name(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "weights.safetensors")


def linked_outside(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere.safetensors"
    (folder / WEIGHTS).rename(elsewhere)
    (folder / WEIGHTS).symlink_to(elsewhere)


def not_a_number(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    name = "bert.encoder.layer.1.output.dense.bias"
    return {**tensors, name: torch.full_like(tensors[name], float("nan"))}


REFUSED: dict[str, Case] = {
    **cases("encoders"),
    "no folder": (shutil.rmtree, "no such folder"),
    "a data set": (
        lambda folder: (tiny.corpus(folder), (folder / CONFIG).unlink()),
        "is a data set",
        "before DATA_DIR",
    ),
    "GGUF alone": (
        lambda folder: (
            [path.unlink() for path in folder.iterdir()],
            (folder / "model.gguf").write_bytes(b"x"),
        ),
        r"holds weights for llama.cpp \(GGUF\) \(model.gguf\)",
        "llama-server",
    ),
    "weights in GGUF": (instead("model-Q4_K_M.gguf"), "llama.cpp", "llama-server -m .*Q4_K_M.gguf"),
    "weights in ONNX": (instead("model.onnx"), "for ONNX", "exported from"),
    "weights in TensorFlow": (instead("tf_model.h5"), "for TensorFlow", "from_tf=True"),
    "weights in Flax": (instead("flax_model.msgpack"), "for Flax", "from_flax=True"),
    "a Trainer's leftovers": (
        instead("training_args.bin"),
        "no model.safetensors$",
        "trainer.save_model",
    ),
    "deeply nested JSON": (
        lambda folder: (folder / CONFIG).write_text("[" * 200_000),
        "not readable as JSON",
    ),
    "only a pickle": (
        instead("pytorch_model.bin"),
        r"in a pickle.*\(pytorch_model.bin\)",
        "BertForMaskedLM as M.*save_pretrained",
    ),
    "a pickle beside weights of another name": (
        lambda folder: (
            torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin"),
            other_name(folder),
        ),
        "cannot be loaded: .*no file named model.safetensors",
    ),
    "encoder under a head's name": (
        weights(
            lambda tensors: {
                name: value for name, value in tensors.items() if not name.startswith("cls.")
            }
        ),
        "the weights of [0-9]+ parameters are missing, the first is cls.predictions",
    ),
    "not a number": (
        weights(not_a_number),
        "not finite, the first is bert.encoder.layer.1.output.dense.bias",
    ),
    "truncated at the end": (truncated(-100), "is cut off: it has [0-9,]+ of [0-9,]+ bytes"),
    "truncated in the header": (truncated(100), "is cut off: it has 100 of "),
    "empty weights": (truncated(0), "is cut off: it has 0 of 8 bytes"),
    "weights linked from outside": (linked_outside, "model.safetensors links out"),
    "a link that leads nowhere": (lambda folder: (folder / "a").symlink_to("a"), "a links out"),
    "names of a million outputs": (
        lambda folder: change(
            folder / CONFIG, id2label={number: f"B-{number:09}" for number in range(500_000)}
        ),
        "config.json: larger than 8 MiB",
    ),
}


def test_a_panic_of_the_tokenizers_library_is_one_sentence_and_prints_nothing(folder, capfd):
    charsmap = {"type": "Precompiled", "precompiled_charsmap": "////////////"}
    change(folder / "tokenizer.json", normalizer=charsmap)
    with pytest.raises(
        TargetError, match=r"the tokenizer cannot be loaded: .*precompiled_charsmap"
    ) as raised:
        load(folder)
    assert (raised.value.exit_code, len(raised.value.problems), bool(raised.value.hint)) == (
        2,
        1,
        True,
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_audited_is_refused_in_one_line(name, folder):
    break_it, message, *hints = REFUSED[name]
    break_it(folder)
    with pytest.raises(TargetError, match=message) as raised:
        load(folder)
    assert all(re.search(hint, raised.value.hint) for hint in hints), raised.value.hint
    assert (raised.value.exit_code, len(raised.value.problems)) == (2, 1)
    assert "\n" not in raised.value.problems[0]
    assert "\n" not in raised.value.hint


def test_the_unbroken_checkpoint_loads(folder):
    card = load(folder).card
    assert ((card.name, card.family, card.task), card.vocabulary) == (
        ("model", "BERT", "mlm"),
        len(tiny.VOCABULARY),
    )
    assert (card.max_tokens, card.dtype) == (tiny.POSITIONS - 1, "float32")
    assert card.parameters == sum(tensor.numel() for tensor in load_file(folder / WEIGHTS).values())


def test_a_sharded_checkpoint_is_the_same_model(folder, tmp_path):
    whole = load(folder)
    sharded = tmp_path / "sharded"
    whole.model.save_pretrained(sharded, max_shard_size="50KB")
    tiny.tokenizer().save_pretrained(sharded)
    assert len(list(sharded.glob("*.safetensors"))) > 1
    for (name, a), (_, b) in zip(
        whole.model.named_parameters(), load(sharded).model.named_parameters(), strict=True
    ):
        assert torch.equal(a, b), name


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def fail(*_: Any, **__: Any) -> None:
    raise AssertionError("a pickle was opened")


def test_no_pickle_is_opened_and_no_module_run(folder, tagger, tmp_path, monkeypatch):
    sentinel = tmp_path / "was-here"
    bomb = pickle.dumps(Bomb(sentinel))
    for place in (folder, tagger):
        for name in (
            "pytorch_model.bin",
            "model.pt",
            "training_args.bin",
            "optimizer.pt",
            "scheduler.pt",
            "vocab.pkl",
        ):
            (place / name).write_bytes(bomb)
        for name in (
            "modeling_x",
            "tokenization_x",
            "configuration_x",
            "modeling_bert",
            "__init__",
            "conftest",
        ):
            (place / f"{name}.py").write_text(f"import os\nos.mkdir({str(sentinel)!r})\n")
        (place / "chat_template.jinja").write_text("{{ ''.__class__.__mro__ }}")
    for module, name in (
        (torch, "load"),
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
    ):
        monkeypatch.setattr(module, name, fail)
    load(folder)
    load(tagger, labels=tiny.LABELS)
    for place in (folder, tagger):
        code = {"AutoConfig": "configuration_x.X", "AutoModelForMaskedLM": "modeling_x.X"}
        change(place / CONFIG, auto_map=code)
        change(place / TOKENIZER, auto_map={"AutoTokenizer": ["tokenization_x.X", None]})
        load(place, labels=tiny.LABELS if place == tagger else ())
        change(place / CONFIG, model_type="x")
        for attempt in (load, load_tokenizer):
            with pytest.raises(TargetError, match="its own code"):
                attempt(place)
        change(place / CONFIG, model_type="bert", auto_map=None)
        (place / WEIGHTS).unlink()
        with pytest.raises(TargetError, match=r"in a pickle"):
            load(place)
    assert not sentinel.exists()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_a_kernel_named_in_the_configuration_is_not_fetched(key, folder, monkeypatch):
    change(folder / CONFIG, **{key: "somebody/kernel"})
    monkeypatch.setattr("transformers.modeling_utils.lazy_import_flash_attention", fail)
    assert load(folder).model.config._attn_implementation in ("eager", "sdpa")


def test_the_hash_follows_content_and_names_but_not_other_files(folder, tmp_path):
    before = open_checkpoint(folder).sha256
    assert open_checkpoint(Path(shutil.copytree(folder, tmp_path / "copy"))).sha256 == before
    (folder / "README.md").write_text("other files do not matter")
    assert open_checkpoint(folder).sha256 == before
    for name in (WEIGHTS, CONFIG, "tokenizer.json"):
        original = (folder / name).read_bytes()
        (folder / name).write_bytes(original + b" ")
        assert open_checkpoint(folder).sha256 != before
        (folder / name).write_bytes(original)
    (folder / TOKENIZER).rename(folder / "other.json")
    assert open_checkpoint(folder).sha256 != before


def test_loading_says_nothing(folder, capfd):
    load(folder)
    assert capfd.readouterr() == ("", "")


def test_devices_are_named_or_refused(monkeypatch):
    present: set[str] = set()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in present)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in present)
    for expected in ("cpu", "mps", "cuda"):
        present |= {expected}
        assert device_named("auto") == device_named(expected) == expected
        for name in {"cuda", "mps", "tpu"} - present:
            with pytest.raises(UsageError, match=f"device '{name}'"):
                device_named(name)


def test_layoutlmv3_without_its_images_reads_text_and_layout_only(tmp_path):
    model = tiny.model("layoutlmv3", "token-classification")
    model.config.visual_embed = False
    type(model)(model.config).save_pretrained(tmp_path)
    tiny.tokenizer_of("layoutlmv3").save_pretrained(tmp_path)
    target = load(tmp_path, images=fail)
    page = target.encode(replace(tiny.documents(1, 0, 0)[0], image="m0.png"))
    assert page is not None
    assert page.page_image is None
    assert target.card.max_tokens == 127
    (losses,) = target.ask([TrainingLoss(page, 5, page.ids[1:3])])
    assert np.isfinite(losses).all()


def test_the_same_weights_are_known_under_any_name(folder, tagger, tmp_path):
    renamed = Path(shutil.copytree(folder, tmp_path / "renamed"))
    other_name(renamed)
    change(renamed / CONFIG, note="edited")
    assert open_checkpoint(renamed).weights == open_checkpoint(folder).weights
    assert not open_checkpoint(tagger).weights & open_checkpoint(folder).weights


def test_a_folder_of_runs_names_the_newest_checkpoint_first(folder, tmp_path):
    run = tmp_path / "run"
    for name in ("checkpoint-900", "checkpoint-1000", "logs", "model"):
        (run / name).mkdir(parents=True)
    for name in ("checkpoint-900", "checkpoint-1000", "model"):
        shutil.copyfile(folder / "config.json", run / name / "config.json")
    with pytest.raises(
        TargetError, match=r"inside it \(checkpoint-1000, checkpoint-900, model\)"
    ) as raised:
        open_checkpoint(run)
    assert raised.value.hint == f"docaudit scan {run / 'checkpoint-1000'} DATA_DIR"


def test_the_name_of_a_hub_model_is_answered_with_its_download(folder):
    for path, said in (("microsoft/layoutlmv3-base", True), ("/nowhere/at/all", False)):
        with pytest.raises(TargetError, match="no such folder") as raised:
            open_checkpoint(Path(path))
        assert (f"hf download {path} --local-dir DIR" in raised.value.hint) is said


WRAPPERS = {
    "torch.compile": "_orig_mod.",
    "DistributedDataParallel": "module.",
    "DistributedDataParallel around torch.compile": "module._orig_mod.",
    "Opacus": "_module.",
    "Opacus and torch.compile": "_orig_mod._module.",
    "FSDP": "_fsdp_wrapped_module.",
    "DeepSpeed": "_forward_module.",
    "DeepSpeed around DistributedDataParallel": "_forward_module.module.",
    "Lightning": "model.",
    "Lightning around DistributedDataParallel": "module.model.",
    "Lightning around torch.compile": "model._orig_mod.",
    "DeepSpeed around Lightning": "_forward_module.model.",
}
"""What stands before the names of all tensors, by what wrote them."""


def named(folder: Path, rename: Callable[[str], str]) -> None:
    """Write the weights of a folder again, under other names."""
    tensors = {rename(name): tensor for name, tensor in load_file(folder / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def same_weights(a: Any, b: Any) -> bool:
    pairs = zip(a.model.parameters(), b.model.parameters(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_tensors_named_by_a_wrapper_are_the_models(wrapper, folder):
    before = load(folder)
    named(folder, lambda name: WRAPPERS[wrapper] + name)
    assert same_weights(load(folder), before)


def test_wrappers_inside_the_names_of_tensors_are_left_out(folder, tmp_path):
    before = load(folder)
    inner = "_fsdp_wrapped_module._checkpoint_wrapped_module."
    named(
        folder, lambda name: "_fsdp_wrapped_module." + re.sub(r"(layer\.\d\.)", rf"\1{inner}", name)
    )
    after = load(folder)
    assert same_weights(after, before)
    after.model.save_pretrained(tmp_path / "saved")
    written = load_file(tmp_path / "saved" / WEIGHTS)
    assert not [name for name in written if "wrapped" in name or name.startswith(".")]


def test_a_part_of_the_model_that_is_called_as_lightnings_is_kept(folder):
    """The names fit as they are, though every one of them begins so."""
    assert may_be_of_lightning(["model.layers.0.weight", "model.norm.weight"])
    assert not may_be_of_lightning(load_file(folder / WEIGHTS))
    assert renamings(["model.layers.0.weight", "vision_module.a", "module.b"]) == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_trainers_folder_of_shards_in_half_precision_loads(dtype, folder, tmp_path):
    place = tmp_path / "run" / "checkpoint-12"
    load(folder).model.to(dtype).save_pretrained(place, max_shard_size="50KB")
    tiny.tokenizer().save_pretrained(place)
    (place / "trainer_state.json").write_text('{"epoch": 3.0, "global_step": 12}')
    for name in ("optimizer.pt", "scheduler.pt", "training_args.bin", "rng_state.pth"):
        (place / name).write_bytes(b"not to be opened")
    target = load(place)
    assert (target.card.dtype, target.card.step) == ("float32", 12)
    assert len(list(place.glob("model-*.safetensors"))) > 1


def snapshot(folder: Path, cache: Path) -> Path:
    """The checkpoint as the hub's cache keeps it: links into the blobs beside the snapshots."""
    place = cache / "models--org--name" / "snapshots" / "0a1b2c"
    blobs = cache / "models--org--name" / "blobs"
    place.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        shutil.copyfile(path, blobs / f"{number:040}")
        (place / path.name).symlink_to(os.path.join("..", "..", "blobs", f"{number:040}"))
    return place


def test_a_snapshot_of_the_hubs_cache_loads_and_no_other_link_does(folder, tmp_path):
    place = snapshot(folder, tmp_path / "hub")
    assert load(place).card.task == "mlm"
    (place / "extra.json").symlink_to(folder / "config.json")
    with pytest.raises(
        TargetError, match=r"extra\.json links out of the checkpoint's folder"
    ) as raised:
        load(place)
    assert "hf download NAME --local-dir DIR" in raised.value.hint
    (place / "extra.json").unlink()
    shutil.copytree(place.parent.parent, tmp_path / "elsewhere", symlinks=True)
    with pytest.raises(TargetError, match="links out"):
        load(tmp_path / "elsewhere" / "snapshots" / "0a1b2c")


@pytest.mark.parametrize(
    ("package", "texts"), [(targets, targets.TEXTS), (references, references.TEXTS["errors"])]
)
def test_every_error_in_the_table_is_raised_with_the_values_that_it_names(package, texts):
    paths = Path(package.__file__).parent.rglob("*.py")
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "wording"
    ]
    given = {ast.literal_eval(call.args[0]): {word.arg for word in call.keywords} for call in calls}
    fields = {
        key: {name for _, name, *_ in Formatter().parse("".join(own)) if name}
        for key, own in texts.items()
    }
    assert given == fields
