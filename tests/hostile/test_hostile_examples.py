"""Inputs that once ended in a traceback, hung or took all memory, and others that could: refused in a sentence."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hostile_edits import Edit
from hostile_surfaces import SURFACES, fresh, run

NAMED = {surface.name: surface for surface in SURFACES}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and pidfd are Linux's"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


def said(server, root, name, change):
    """What standard error says once a surface's folder was changed; all else is asserted."""
    surface = NAMED[name]
    if name not in _WARM:
        folder = surface.folder(root)
        for arguments in surface.commands:
            server.run(folder, arguments, fresh(root / "scratch"), warm=True)
        _WARM.add(name)
    folder = surface.folder(root)
    change(folder)
    assert run(server, surface, folder, root) == []
    return (root / "scratch" / "stderr").read_text()


_WARM: set[str] = set()


def edited(path: str, kind: str):
    return lambda folder: Edit(0, kind).apply([folder / path])


def replaced(path: str, old: str, new: str):
    def change(folder: Path) -> None:
        text = (folder / path).read_text()
        assert old in text
        (folder / path).write_text(text.replace(old, new))

    return change


def settings(path: str, **values: object):
    def change(folder: Path) -> None:
        (folder / path).write_text(
            json.dumps({**json.loads((folder / path).read_text()), **values})
        )

    return change


@pytest.mark.parametrize(
    "kind", ["pipe", "device", "folder", "link to itself", "link to nothing", "missing", "empty"]
)
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("policy", "policy.toml"),
        ("record gated", "record.json"),
        ("names in json", "members.json"),
        ("data of receipts", "data/manifest.toml"),
        ("data of utterances", "data/canaries.json"),
        ("page images", "data/images/m0.png"),
        ("import snips", "src/train/seq.in"),
    ],
)
def test_what_is_no_file_is_refused(name, path, kind, server, root):
    said(server, root, name, edited(path, kind))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "import tab official",
            edited("src/echr_dev.json", "link to nothing"),
            "echr_dev.json: cannot be read",
        ),
        ("import alto", replaced("src/p1.xml", "UTF-8", "UTF0.0"), "not XML"),
        (
            "data of receipts",
            replaced("data/manifest.toml", "schema = 1", f"schema = {'9' * 5_000}"),
            "broken TOML",
        ),
        (
            "data of receipts",
            replaced("data/documents.jsonl", "[200, 260]", f"[{'9' * 400}, 260]"),
            "size",
        ),
        ("data of receipts", replaced("data/documents.jsonl", "[200, 260]", "[" * 100_000), "JSON"),
        (
            "policy",
            replaced("policy.toml", "[[limits]]", "[[limits]]\nx = 1\n" * 3_000 + "[[limits]]"),
            "more of them",
        ),
        (
            "data of utterances",
            replaced("data/manifest.toml", "canaries.json", "c" * 5_000),
            "more than 255 bytes",
        ),
        ("report folder", edited("out/report.pdf", "pipe"), "not a regular file"),
        ("record gated", replaced("record.json", '"', "[" * 1_000), "error: "),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_cannot_be_read_is_named(name, change, message, server, root):
    assert message in said(server, root, name, change)


def vocabulary(edit: Callable[[dict[str, int]], object]) -> Callable[[Path], None]:
    """Edit the vocabulary of tokenizer.json."""

    def change(folder: Path) -> None:
        path = folder / "model" / "tokenizer.json"
        content = json.loads(path.read_text())
        edit(content["model"]["vocab"])
        path.write_text(json.dumps(content))

    return change


def _beyond_the_model(words: dict[str, int]) -> None:
    words[next(word for word in words if word[0] != "[")] = 4_742


def _sparse(folder: Path, name: str) -> None:
    """Three GB of zeros that take no place on the disk."""
    (folder / "model" / name).touch()
    os.truncate(folder / "model" / name, 3 << 30)


PADDING = {
    "direction": "Right",
    "pad_id": 0,
    "pad_type_id": 0,
    "pad_token": "[PAD]",
    "pad_to_multiple_of": None,
}
CUT = {"direction": "Right", "strategy": "LongestFirst", "max_length": 8, "stride": 0}
PADDINGS = (
    {"padding": {**PADDING, "strategy": {"Fixed": 10**9}}},
    {"padding": {**PADDING, "strategy": {"Fixed": 2**63}}},
    {"padding": {**PADDING, "strategy": "BatchLongest", "pad_to_multiple_of": 2**33}},
    {"padding": {**PADDING, "strategy": "BatchLongest", "pad_token": "x" * 10_000_000}},
    {"truncation": {**CUT, "max_length": 0}},
    {"truncation": {**CUT, "max_length": 2**63, "stride": 2**62}},
    {"truncation": {**CUT, "stride": 9}},
)
TOKENIZED = ("bert", "layoutlmv3", "donut", "t5", "vt5")


@pytest.mark.parametrize("change", PADDINGS, ids=lambda one: ascii(one)[:60])
@pytest.mark.parametrize("kind", TOKENIZED)
def test_padding_and_truncation_of_a_tokenizer_take_no_memory(kind, change, server, root):
    """60 bytes asked for gigabytes, which ended the process: it is set aside, or the tokenizer is refused."""
    said(server, root, f"checkpoint {kind}", settings("model/tokenizer.json", **change))


MODELS = [
    ("checkpoint bert", vocabulary(_beyond_the_model), "has the number 4742"),
    ("checkpoint extractive", vocabulary(_beyond_the_model), "has the number 4742"),
    (
        "checkpoint extractive",
        vocabulary(lambda words: words.pop("[UNK]")),
        "the tokenizer cannot be loaded",
    ),
    (
        "checkpoint donut",
        settings("model/generation_config.json", eos_token_id=1.5),
        "generation settings",
    ),
    ("checkpoint donut", settings("model/generation_config.json", suppress_tokens="all"), None),
    (
        "checkpoint pix2struct",
        lambda folder: _without(folder / "model/config.json", "vision_config"),
        "error: ",
    ),
    ("checkpoint bert", settings("model/config.json", num_hidden_layers=10**6), "error: "),
    ("checkpoint donut", edited("model/model.safetensors", "pipe"), "error: "),
    ("checkpoint bert", edited("model/tokenizer.json", "pipe"), "error: "),
    (
        "checkpoint bert",
        lambda folder: os.mkfifo(folder / "model/model.safetensors.index.json"),
        None,
    ),
    ("checkpoint bert", lambda folder: os.mkfifo(folder / "model/docaudit-origin.json"), None),
    (
        "checkpoint bert",
        lambda folder: (folder / "model/docaudit-origin.json").write_text("[" * 100_000),
        None,
    ),
    ("checkpoint bert", settings("model/config.json", hidden_dropout_prob=float("nan")), None),
    (
        "checkpoint bert",
        settings("model/config.json", attention_probs_dropout_prob=float("nan")),
        None,
    ),
    ("checkpoint t5", settings("model/config.json", dropout_rate=float("nan")), None),
    *(
        ("checkpoint bert", partial(_sparse, name=name), "larger than")
        for name in (
            "tokenizer.json",
            "generation_config.json",
            "model.safetensors.index.json",
            "vocab.txt",
            "x.model",
        )
    ),
    (
        "checkpoint idefics2",
        settings("model/processor_config.json", image_seq_length=10**9),
        "image_seq_length is",
    ),
    (
        "checkpoint idefics2",
        settings("model/preprocessor_config.json", num_image_tokens=10**9),
        "num_image_tokens is",
    ),
    *(
        (f"checkpoint {kind}", settings("model/tokenizer_config.json", **more), None)
        for kind in ("bert", "donut", "idefics2")
        for more in (
            {"padding": "max_length", "max_length": 10**9},
            {"padding": True, "pad_to_multiple_of": 10**9},
        )
    ),
]


def _without(path: Path, name: str) -> None:
    content = json.loads(path.read_text())
    del content[name]
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(("name", "change", "message"), MODELS)
def test_checkpoints_that_would_hang_or_break_are_refused(name, change, message, server, root):
    assert message is None or message in said(server, root, name, change)
