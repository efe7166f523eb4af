"""No loader reads a file of a checkpoint that its hashes leave out, nor one outside of it.

What could be is refused.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import adapters
import attested
import encoder_zoo
import pytest
import text_answering_checkpoints
import text_zoo
import tiny
from answering_checkpoints import make_chat, make_donut
from checkpoint_faults import change
from commands import docaudit
from safetensors import safe_open
from watching import opened_below, watched

from audit import record as records
from audit.errors import TargetError
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint.content import TRAINER_STATE, hash_files
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.checkpoint.loading import open_tokenizer
from audit.targets.checkpoint.tree import files_of
from audit.targets.encoders.loading import load
from audit.targets.extractive import load_extractive
from audit.workflows.gate import other_model, warn_uncompared

Make = Callable[[Path], object]
Load = Callable[[Path], Any]
TEMPLATES = "additional_chat_templates"


def adapter(folder: Path) -> None:
    """A LoRA over a model beside it, with a tokenizer of its own."""
    base = tiny.checkpoint(folder.parent / "base", "bert", "mlm")
    adapters.tagger(base, folder)
    tiny.tokenizer_of("bert").save_pretrained(folder)


KINDS: dict[str, tuple[Make, Load]] = {
    "WordPiece": (lambda folder: tiny.checkpoint(folder, "bert", "mlm"), load),
    "BPE of bytes": (lambda folder: tiny.checkpoint(folder, "roberta", "mlm"), load),
    "unigrams": (lambda folder: tiny.checkpoint(folder, "xlm-roberta", "mlm"), load),
    "words and pictures": (
        lambda folder: tiny.checkpoint(folder, "layoutlmv3", "token-classification"),
        load,
    ),
    "points at answers": (
        lambda folder: encoder_zoo.write_extractive(folder, "bert"),
        load_extractive,
    ),
    "Donut": (make_donut, load_answering),
    "LLaVA": (make_chat, load_answering),
    "T5": (text_answering_checkpoints.make_t5, load_answering),
    "VT5": (text_answering_checkpoints.make_vt5, load_answering),
    "GPT-2": (
        lambda folder: text_zoo.write_text_model(folder, "gpt2"),
        lambda folder: load_answering(folder, prompt="{text} {question}"),
    ),
    "adapter": (adapter, lambda folder: load(folder, labels=tiny.LABELS)),
}


def crowd(folder: Path) -> None:
    """Put copies of a checkpoint's files where no loader of it looks, beside files for people and of a training."""
    copies = [path for path in folder.iterdir() if path.is_file()]
    for name in ("checkpoint-5", ".cache", ".git", "onnx", "original", "runs", "1_Pooling"):
        (folder / name).mkdir()
        for path in copies:
            shutil.copyfile(path, folder / name / path.name)
    for name in (
        "README.md",
        "LICENSE",
        "training.log",
        "training_args.bin",
        "optimizer.pt",
        "rng_state_0.pth",
    ):
        (folder / name).write_text("not to be opened")
    if (folder / "chat_template.jinja").exists():
        (folder / TEMPLATES).mkdir()
        (folder / TEMPLATES / "tools.jinja").write_text("{{ messages }}")
    for name in (
        "modeling_own.py",
        "pytorch_model.bin",
        "model.onnx",
        "tf_model.h5",
        "trainer_state.json",
    ):
        (folder / name).write_text("not to be loaded")


def is_of_python(path: Path, world: Path) -> bool:
    """Test whether an opened file belongs to installed code, the system, or what an adapter was assembled into."""
    own = [
        Path(folder)
        for folder in (*sys.path, sys.prefix, sys.base_prefix, "/proc", "/dev", "/sys")
        if folder
    ]
    assembled = Path(tempfile.gettempdir(), "docaudit-")
    return any(path.is_relative_to(folder) for folder in (world, *own)) or str(path).startswith(
        str(assembled)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_opens_only_files_that_the_record_hashes(kind: str, tmp_path: Path) -> None:
    make, load_it = KINDS[kind]
    folder = tmp_path / "model"
    make(folder)
    plain = hash_files(folder)
    crowd(folder)
    with opened_below(tmp_path) as opened, watched() as seen:
        card = load_it(folder).card
    hashes = dict(card.files)
    allowed = {f"model/{name}" for name in hashes} | {f"model/{TRAINER_STATE}"}
    if kind == "adapter":
        allowed |= {name for name in hashes if name.startswith("base/")}
    assert "model/config.json" in opened or kind == "adapter"
    assert opened <= allowed
    assert not [
        path for path in seen.opened if path.is_absolute() and not is_of_python(path, tmp_path)
    ]
    assert hashes == hash_files(folder)
    assert hashes.keys() - plain.keys() <= {f"{TEMPLATES}/tools.jinja"}


OUTSIDE = "{outside}"
Setting = tuple[str, dict[str, Any]]
REFUSED: dict[str, Setting] = {
    "a tokenizer of another folder": (
        "tokenizer_config.json",
        {"fast_tokenizer_files": ["../outside/tokenizer.4.0.json"]},
    ),
    "a tokenizer of an earlier state": (
        "tokenizer_config.json",
        {"fast_tokenizer_files": ["checkpoint-5/tokenizer.4.0.json"]},
    ),
    "weights of an earlier state": (
        "config.json",
        {"transformers_weights": "checkpoint-5/model.safetensors"},
    ),
    "weights of another folder": (
        "config.json",
        {"transformers_weights": "../outside/model.safetensors"},
    ),
    "a model of sound": (
        "processor_config.json",
        {
            "audio_tokenizer": {
                "audio_tokenizer_class": "DacModel",
                "audio_tokenizer_name_or_path": OUTSIDE,
            }
        },
    ),
}
IGNORED: dict[str, Setting] = {
    "a tokenizer's file": (
        "tokenizer_config.json",
        {"tokenizer_file": f"{OUTSIDE}/tokenizer.json"},
    ),
    "a vocabulary": (
        "tokenizer_config.json",
        {"vocab_file": f"{OUTSIDE}/vocab.json", "merges_file": OUTSIDE},
    ),
    "a tokenizer's origin": ("tokenizer_config.json", {"name_or_path": OUTSIDE}),
    "a model's origin": ("config.json", {"_name_or_path": OUTSIDE}),
    "a file in the folder": ("tokenizer_config.json", {"fast_tokenizer_files": ["tokenizer.json"]}),
}


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_chat(tmp_path_factory.mktemp("chat") / "model")


def misled(chat: Path, place: Path, setting: Setting) -> Path:
    """A checkpoint with a setting that names files elsewhere, where copies of its own lie."""
    folder = Path(shutil.copytree(chat, place / "model"))
    for copy in (place / "outside", folder / "checkpoint-5"):
        shutil.copytree(chat, copy)
        shutil.copyfile(copy / "tokenizer.json", copy / "tokenizer.4.0.json")
    file, settings = setting
    written = json.dumps(settings).replace(OUTSIDE, str(place / "outside"))
    change(folder / file, **json.loads(written))
    return folder


@pytest.mark.parametrize("name", REFUSED)
def test_a_setting_that_would_have_another_file_read_is_refused(
    name: str, chat: Path, tmp_path: Path
) -> None:
    folder = misled(chat, tmp_path, REFUSED[name])
    file, settings = REFUSED[name]
    with (
        opened_below(tmp_path) as opened,
        pytest.raises(TargetError, match=rf"{file}: {next(iter(settings))}") as error,
    ):
        load_answering(folder)
    assert (len(error.value.problems), bool(error.value.hint)) == (1, True)
    assert opened <= {f"model/{name}" for name in files_of(folder)}


def test_no_index_of_weights_that_a_setting_chooses_leads_elsewhere(
    chat: Path, tmp_path: Path
) -> None:
    name = "other.safetensors.index.json"
    folder = misled(chat, tmp_path, ("config.json", {"transformers_weights": name}))
    weights = safe_open(folder / "model.safetensors", "pt")
    for shard in ("../outside/model.safetensors", "checkpoint-5/model.safetensors"):
        (folder / name).write_text(
            json.dumps({"metadata": {}, "weight_map": dict.fromkeys(weights.keys(), shard)})
        )
        with (
            opened_below(tmp_path) as opened,
            pytest.raises(TargetError, match=f"the shard {shard} is missing or lies"),
        ):
            load_answering(folder)
        assert opened <= {f"model/{name}" for name in files_of(folder)}
    change(folder / "config.json", transformers_weights=None)
    (folder / name).write_text(
        json.dumps({"weight_map": dict.fromkeys(weights.keys(), "consolidated.safetensors")})
    )
    load_answering(folder)


@pytest.mark.parametrize("name", IGNORED)
def test_a_setting_that_transformers_does_not_follow_changes_nothing(
    name: str, chat: Path, tmp_path: Path
) -> None:
    folder = misled(chat, tmp_path, IGNORED[name])
    with opened_below(tmp_path) as opened:
        load_answering(folder)
    assert opened <= {f"model/{name}" for name in files_of(folder)}


def in_a_folder(name: str) -> Make:
    """Put a template into a folder inside the checkpoint's."""

    def put(folder: Path) -> None:
        (folder / name).mkdir(parents=True)
        (folder / name / "default.jinja").write_text("{{ 'x' }}")

    return put


def linked(name: str, target: str) -> Make:
    """Put a link into the checkpoint's folder; `outside/` lies beside that."""

    def put(folder: Path) -> None:
        outside = folder.parent / "outside"
        outside.mkdir()
        (outside / "default.jinja").write_text("{{ 'x' }}")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(target.format(outside=outside))

    return put


STRAYS: dict[str, tuple[Make, str]] = {
    "an unknown folder": (
        in_a_folder("templates"),
        "does not know what the folder templates is for",
    ),
    "a folder in one that is read": (
        in_a_folder(f"{TEMPLATES}/old"),
        f"the folder {TEMPLATES}/old is for",
    ),
    "a template that is a link": (
        linked(f"{TEMPLATES}/default.jinja", "{outside}/default.jinja"),
        "links out",
    ),
    "a folder that is a link": (linked(TEMPLATES, "{outside}"), f"{TEMPLATES} links out"),
    "a link to a known folder": (linked(TEMPLATES, "checkpoint-5"), f"{TEMPLATES} links out"),
    "a link under an inert name": (
        linked("README.md", "{outside}/default.jinja"),
        r"README\.md links out",
    ),
    "a link that leads nowhere": (linked(f"{TEMPLATES}/a.jinja", "a.jinja"), "links out"),
    "a pipe": (lambda folder: os.mkfifo(folder / "chat_template.jinja"), "is no regular file"),
}


@pytest.mark.parametrize("name", STRAYS)
def test_what_no_hash_can_cover_is_refused_by_a_scan_and_by_gate(
    name: str, tmp_path: Path, tiny_corpus: Path
) -> None:
    put, problem = STRAYS[name]
    folder = tiny.checkpoint(tmp_path / "model", "bert", "mlm")
    (folder / "checkpoint-5").mkdir()
    put(folder)
    with opened_below(tmp_path) as opened, pytest.raises(TargetError, match=problem) as raised:
        open_checkpoint(folder)
    assert (len(raised.value.problems), bool(raised.value.hint)) == (1, True)
    assert not any("default.jinja" in path for path in opened)
    scanned = attested.folder(tmp_path / "scanned", tiny_corpus)
    result = docaudit("gate", scanned, "--model", folder)
    assert result.exit_code == 2
    assert raised.value.problems[0].partition(": ")[2] in " ".join(result.output.split())


ADDED = [
    f"{TEMPLATES}/default.jinja",
    "chat_template.jinja",
    "tokenizer.model",
    "notes",
    "spm.vocabulary",
    "x.JSON",
]


@pytest.mark.parametrize("name", ADDED)
def test_gate_refuses_a_model_with_a_file_that_the_scan_did_not_hash(
    name: str, tmp_path: Path, tiny_corpus: Path
) -> None:
    scanned = attested.folder(tmp_path, tiny_corpus)
    model = scanned.parent / "model"
    assert docaudit("gate", scanned, "--model", model).exit_code == 10
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text("{{ 'x' }}")
    result = docaudit("gate", scanned, "--model", model)
    assert result.exit_code == 2
    assert f"{name} is there, and not in the record" in " ".join(result.output.split())


def test_a_template_beside_the_default_one_is_part_of_what_is_hashed(
    chat: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(chat, tmp_path / "model"))
    before = open_checkpoint(folder).sha256
    in_a_folder(TEMPLATES)(folder)
    assert open_tokenizer(folder, ()).chat_template == "{{ 'x' }}", "transformers takes this one"
    assert open_checkpoint(folder).sha256 != before
    assert f"{TEMPLATES}/default.jinja" in hash_files(folder)


def test_an_adapters_own_tokenizer_and_template_are_compared_by_gate_as_a_scan_hashes_them(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "adapter"
    adapter(folder)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    opened = open_checkpoint(folder)
    assert opened.file_hashes == hash_files(folder)
    assert {
        "chat_template.jinja",
        "tokenizer.json",
        "base/config.json",
    } <= opened.file_hashes.keys()
    for name in ("chat_template.jinja", "tokenizer_config.json", f"{TEMPLATES}/default.jinja"):
        (folder / name).parent.mkdir(exist_ok=True)
        before = hash_files(folder)
        (folder / name).write_text("{ }")
        assert hash_files(folder) != before
        assert open_checkpoint(folder).sha256 != opened.sha256


def test_gate_says_where_the_base_of_an_adapter_lies_elsewhere_and_was_not_compared(
    tmp_path: Path, tiny_corpus: Path
) -> None:
    folder = tmp_path / "adapter"
    adapter(folder)
    scanned = records.read(attested.folder(tmp_path / "scanned", tiny_corpus))
    record = replace(scanned, target=replace(scanned.target, files=hash_files(folder)))
    assert other_model(record, folder) == []
    assert warn_uncompared(record, folder) == []
    shutil.rmtree(tmp_path / "base")
    assert other_model(record, folder) == []
    (warning,) = warn_uncompared(record, folder)
    assert "the base of the adapter was not compared" in warning


@pytest.mark.parametrize("brings", ["chat_template.jinja", f"{TEMPLATES}/default.jinja"])
def test_an_adapters_templates_take_the_place_of_all_of_its_bases(
    brings: str, tmp_path: Path
) -> None:
    folder = tmp_path / "adapter"
    adapter(folder)
    base = tmp_path / "base"
    in_a_folder(TEMPLATES)(base)
    (base / "chat_template.jinja").write_text("of the base")
    opened = open_checkpoint(folder)
    assert len([*opened.path.rglob("*.jinja")]) == 2
    (folder / brings).parent.mkdir(exist_ok=True)
    (folder / brings).write_text("of the adapter")
    opened = open_checkpoint(folder)
    templates = [path.read_text() for path in opened.path.rglob("*.jinja")]
    assert templates == ["of the adapter"]
