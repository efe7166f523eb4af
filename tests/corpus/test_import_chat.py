"""Conversations about images, in the forms that training scripts take: questions, prompts, outputs, refusals."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.errors import ManifestError, UsageError
from audit.importers.registry import FORMATS

chat = FORMATS["chat"]
ALL: dict[Split, float] = {"member": 1.0}


@pytest.fixture
def src(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "images").mkdir(parents=True)
    for number in range(3):
        Image.new("RGB", (20, 40), (number, 9, 9)).save(folder / "images" / f"p{number}.png")
    return folder


def write(src: Path, *rows: Any, name: str = "train.jsonl") -> None:
    (src / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def llava(image: str, *turns: str) -> dict[str, Any]:
    roles = ("human", "gpt")
    return {
        "id": "x",
        "image": image,
        "conversations": [{"from": roles[number % 2], "value": text} for number, text in enumerate(turns)],
    }


def test_llava_conversations_of_several_turns(src: Path, tmp_path: Path) -> None:
    write(
        src,
        llava("images/p0.png", "<image>\nWhat is the total?", "9.00", "When?", "May", "Where?"),
        llava("p0.png", "<image>\nWho?", "Ann"),
        llava("/data/elsewhere/p1.png", "Who?<image>", "Bob"),
    )
    report = chat.convert(src, tmp_path / "out", ALL, 1)
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.task.kind == "question-answering"
    assert corpus.manifest.recipe.prompt is None
    assert [(one.question, one.answers) for one in corpus.document("p0").questions] == [
        ("What is the total?", ("9.00",)),
        ("When?", ("May",)),
        ("Who?", ("Ann",)),
    ]
    assert [document.id for document in corpus.documents] == ["p0", "p1"]
    assert report.notes == {"turns of a user without an answer, left out": 1}
    assert report.fields == {"ANSWER": 4}
    assert any("2 of 2 pages have no words" in sentence and "docaudit ocr" in sentence for sentence in report.warnings)
    assert report.warnings[0].startswith("The audited model must have been trained on the 2 documents of split member")
    assert report.warnings[1].startswith("This division was drawn just now")
    saved = json.loads((tmp_path / "out" / "import-report.json").read_text())
    assert saved["warnings"] == list(report.warnings)
    assert (tmp_path / "out" / "manifest.toml").read_text().startswith("# The audited model must have been trained on")


def test_messages_with_parts_and_a_prompt_around_every_question(src: Path, tmp_path: Path) -> None:
    def row(number: int, question: str) -> dict[str, Any]:
        text = f"Read the page.\nQuestion: {question}\nAnswer with one word."
        return {
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "You are a clerk."}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "image": f"file://images/p{number}.png"},
                        {"type": "text", "text": text},
                    ],
                },
                {"role": "assistant", "content": [{"type": "text", "text": f"answer {number}"}]},
            ]
        }

    write(src, *(row(number % 3, f"Word {number}?") for number in range(5)))
    report = chat.convert(src, tmp_path / "out", ALL, 1)
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.recipe.prompt == "Read the page.\nQuestion: {question}\nAnswer with one word."
    assert [one.question for one in corpus.document("p0").questions] == ["Word 0?", "Word 3?"]
    assert corpus.manifest.recipe.system == "You are a clerk."
    assert not any("system prompt" in sentence for sentence in report.warnings)
    assert any("[recipe] prompt of the manifest" in sentence for sentence in report.warnings)


def test_images_in_the_rows_themselves(src: Path, tmp_path: Path) -> None:
    content = base64.b64encode((src / "images" / "p2.png").read_bytes()).decode()
    user = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{content}"}},
        {"type": "text", "text": "?"},
    ]
    write(src, {"messages": [{"role": "user", "content": user}, {"role": "assistant", "content": "yes"}]})
    chat.convert(src / "train.jsonl", tmp_path / "out", ALL, 1)
    (document,) = manifests.load(tmp_path / "out").documents
    assert (document.id, document.size, document.questions[0].answers) == ("row-000001", (20, 40), ("yes",))


def test_everybody_asked_for_json_is_parsing(src: Path, tmp_path: Path) -> None:
    write(
        src,
        *(
            llava(f"images/p{number}.png", "Extract the fields as JSON.", f'{{"total": "{number}.00"}}')
            for number in range(3)
        ),
    )
    report = chat.convert(src, tmp_path / "out", ALL, 1)
    corpus = manifests.load(tmp_path / "out")
    assert corpus.manifest.task.kind == "parsing"
    assert corpus.document("p2").output == '{"total": "2.00"}'
    assert corpus.document("p2").questions[0].answers == ("2.00",)
    assert any("Extract the fields as JSON." in sentence for sentence in report.warnings)
    assert corpus.manifest.recipe.prompt == "Extract the fields as JSON."


def test_who_calls_pages_of_json_questions_gets_their_one_question(src: Path, tmp_path: Path) -> None:
    write(src, *(llava(f"images/p{number}.png", "Fields?", f'{{"total": "{number}.00"}}') for number in range(3)))
    chat.convert(src, tmp_path / "out", ALL, 1, task="question-answering")
    corpus = manifests.load(tmp_path / "out")
    assert (corpus.manifest.task.kind, corpus.manifest.recipe.prompt) == ("question-answering", None)
    assert corpus.document("p1").questions[0].answers == ('{"total": "1.00"}',)


def test_system_prompts_that_differ_are_counted(src: Path, tmp_path: Path) -> None:
    rows = [llava(f"images/p{number}.png", "Who?", "Ann") for number in range(3)]
    write(src, rows[0], {**rows[1], "system": "You are a clerk."}, {**rows[2], "system": "You are a cook."})
    report = chat.convert(src, tmp_path / "out", ALL, 1)
    assert manifests.load(tmp_path / "out").manifest.recipe.system is None
    assert any("2 of 3 conversations begin with a system prompt" in sentence for sentence in report.warnings)


def test_conversations_of_no_or_several_images_are_counted(src: Path, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Ho"}]
    write(
        src,
        {"messages": turns},
        {"images": ["images/p0.png", "images/p1.png"], "messages": turns},
        {"images": ["images/p0.png"], "messages": turns},
    )
    report = chat.convert(src, tmp_path / "out", ALL, 1)
    assert report.notes == {"conversations about no image or several, left out": 2}
    assert report.documents["member"] == 1


def test_files_of_parts_are_the_official_division(src: Path, tmp_path: Path) -> None:
    write(src, llava("images/p0.png", "Who?", "Ann"))
    write(src, llava("images/p1.png", "Who?", "Bob"), name="val.jsonl")
    chat.convert(src, tmp_path / "out", {"member": 1.0, "heldout": 1.0}, 1, "official")
    corpus = manifests.load(tmp_path / "out")
    assert {document.id: document.split for document in corpus.documents} == {"p0": "member", "p1": "heldout"}


def test_files_that_are_no_conversations(src: Path, tmp_path: Path) -> None:
    (src / "train.jsonl").write_text("{")
    with pytest.raises(ManifestError, match=r"train\.jsonl:1 is not JSON"):
        chat.convert(src, tmp_path / "out", ALL, 1)
    (src / "train.jsonl").unlink()
    with pytest.raises(UsageError, match=r"holds no \.json or \.jsonl"):
        chat.convert(src, tmp_path / "out", ALL, 1)
