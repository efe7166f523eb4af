"""Conversations as Qwen-VL, ms-swift and LLaMA-Factory write them, about images and texts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from imported_files import import_files, refusal_of
from imported_sources import as_json, as_lines

from audit.importers import chat
from audit.workflows.init import guess_format

IMAGES = {"pages/p$n.png": "200x400"}
ASKED = "What is the total?"
TURN = {"from": "user", "value": f"Picture 1: <img>pages/p0.png</img>\n{ASKED}"}
REPLY = {"from": "assistant", "value": "14.20"}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"conversations": [TURN, REPLY]}, id="Qwen-VL"),
        pytest.param({"query": f"<img>pages/p0.png</img>{ASKED}", "response": "14.20"}, id="query"),
        pytest.param(
            {"query": f"<image>{ASKED}", "response": "14.20", "images": ["pages/p0.png"]},
            id="ms-swift",
        ),
        pytest.param(
            {
                "conversation": [{"human": ASKED, "assistant": "14.20"}],
                "images": ["pages/p0.png"],
            },
            id="ms-swift by role",
        ),
        pytest.param(
            {"instruction": ASKED, "input": "", "output": "14.20", "images": ["pages/p0.png"]},
            id="Alpaca",
        ),
        pytest.param(
            {"prompt": f"![page](pages/p0.png)\n{ASKED}", "completion": "14.20"}, id="Markdown"
        ),
        pytest.param(
            {"prompt": f'<img src="pages/p0.png"/>\n{ASKED}', "completion": "14.20"}, id="HTML"
        ),
        pytest.param({"prompt": f"pages/p0.png\n{ASKED}", "completion": "14.20"}, id="a path"),
    ],
)
def test_an_image_that_a_conversation_names_is_its_page(
    row: Mapping[str, Any], tmp_path: Path
) -> None:
    files = {**IMAGES, "train.json": as_json([row])}
    imported = import_files("chat", files, tmp_path)
    (document,) = imported.documents.values()
    assert document.image is not None
    assert imported.questions(document.id) == [(ASKED, ("14.20",))]


def test_a_path_of_no_image_of_the_source_stays_text(tmp_path: Path) -> None:
    rows = [{"prompt": f"![logo](logo.png) Shop {n}\n{ASKED}", "completion": "1"} for n in range(2)]
    imported = import_files("chat", {"train.json": as_json(rows)}, tmp_path)
    for name in imported.documents:
        assert "![logo](logo.png)" in imported.text(name)


def test_history_stands_before_the_question(tmp_path: Path) -> None:
    row = {"query": ASKED, "response": "14.20", "images": ["pages/p0.png"]}
    row["history"] = [["Whose is it?", "Shop"]]
    imported = import_files("chat", {**IMAGES, "train.json": as_json([row])}, tmp_path)
    assert imported.questions("p0") == [("Whose is it?", ("Shop",)), (ASKED, ("14.20",))]
    assert imported.notes[chat.LATER_TURNS] == 1


def test_history_of_another_form_is_refused(tmp_path: Path) -> None:
    row = {"query": ASKED, "response": "14.20", "images": ["pages/p0.png"], "history": ["x"]}
    files = {**IMAGES, "train.json": as_json([row])}
    assert "not pairs of a question and an answer: history" in refusal_of("chat", files, tmp_path)


def test_an_instruction_is_about_its_input(tmp_path: Path) -> None:
    row = {"instruction": ASKED, "output": "14.20"}
    rows = [{**row, "input": f"Shop {number} 14.20"} for number in range(4)]
    imported = import_files("chat", {"train.json": as_json(rows)}, tmp_path)
    texts = sorted(map(imported.text, imported.documents))
    assert texts == ["Shop 0 14.20", "Shop 1 14.20", "Shop 2 14.20", "Shop 3 14.20"]


def test_llama_factory_says_which_columns_a_file_has(tmp_path: Path) -> None:
    columns = {"messages": "talk", "images": "scans"}
    turns = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "14.20"}]
    files = {
        **IMAGES,
        "dataset_info.json": as_json({"mine": {"file_name": "a.json", "columns": columns}}),
        "a.json": as_json([{"talk": turns, "scans": ["pages/p1.png"]}]),
    }
    assert import_files("chat", files, tmp_path).questions("p1") == [(ASKED, ("14.20",))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.jsonl", as_lines({"query": ASKED, "response": "1"}), id="lines"),
        pytest.param("a.json", as_json([{"query": ASKED, "response": "1"}]), id="list"),
        pytest.param("a.json", as_json([{"conversation": [{"human": "a"}]}]), id="by role"),
        pytest.param("a.json", as_json([{"instruction": "a", "output": "b"}]), id="Alpaca"),
    ],
)
def test_init_recognises_conversations(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert guess_format(tmp_path) == "chat"
