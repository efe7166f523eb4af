"""Conversations and prompts, and the data sets that an import makes of them.

`DOCAUDIT_WRITE_TEXTS=1` rewrites the texts that they are compared with.
"""

from typing import Any

import pytest
from imported_sources import (
    Source,
    as_json,
    as_lines,
    check_import,
    check_refusal,
    imported,
    refused,
)

CHAT_OF_JSON_IS_PARSING = {
    "src/images/p$n.png": "20x40",
    "src/train.jsonl": as_lines(
        {
            "id": "x",
            "image": "images/p0.png",
            "conversations": [
                {"from": "human", "value": "Extract the fields as JSON."},
                {"from": "gpt", "value": '{"total": "0.00"}'},
            ],
        },
        {
            "id": "x",
            "image": "images/p1.png",
            "conversations": [
                {"from": "human", "value": "Extract the fields as JSON."},
                {"from": "gpt", "value": '{"total": "1.00"}'},
            ],
        },
        {
            "id": "x",
            "image": "images/p2.png",
            "conversations": [
                {"from": "human", "value": "Extract the fields as JSON."},
                {"from": "gpt", "value": '{"total": "2.00"}'},
            ],
        },
    ),
}

WHITE_IMAGE = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAABQAAAAoCAIAAABxU02MAAAAJUlEQVR4nO3LoQEAAAgDILXt/4f9"
    "wSp0epK6mvOUZVmWZVl+nxdFVwBk/W/CAQAAAABJRU5ErkJggg=="
)


def asked_clerk(number: int) -> dict[str, Any]:
    """Return turns in parts: a system prompt, one of three pages with a question, an answer."""
    place = number % 3
    question = f"Read the page.\nQuestion: Word {number}?\nAnswer with one word."
    page = {"type": "image", "image": f"file://images/p{place}.png"}
    return {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "You are a clerk."}]},
            {"role": "user", "content": [page, {"type": "text", "text": question}]},
            {"role": "assistant", "content": [{"type": "text", "text": f"answer {place}"}]},
        ]
    }


@pytest.mark.parametrize(
    ("name", "source"),
    [
        imported(
            "chat of llava",
            "chat",
            {
                "src/images/p$n.png": "20x40",
                "src/train.jsonl": as_lines(
                    {
                        "id": "x",
                        "image": "images/p0.png",
                        "conversations": [
                            {"from": "human", "value": "<image>\nWhat is the total?"},
                            {"from": "gpt", "value": "9.00"},
                            {"from": "human", "value": "When?"},
                            {"from": "gpt", "value": "May"},
                            {"from": "human", "value": "Where?"},
                        ],
                    },
                    {
                        "id": "x",
                        "image": "p0.png",
                        "conversations": [
                            {"from": "human", "value": "<image>\nWho?"},
                            {"from": "gpt", "value": "Ann"},
                        ],
                    },
                    {
                        "id": "x",
                        "image": "/data/elsewhere/p1.png",
                        "conversations": [
                            {"from": "human", "value": "Who?<image>"},
                            {"from": "gpt", "value": "Bob"},
                        ],
                    },
                ),
            },
        ),
        imported(
            "chat of parts with a prompt around every question",
            "chat",
            {
                "src/images/p$n.png": "20x40",
                "src/train.jsonl": as_lines(*(asked_clerk(number) for number in range(5))),
            },
        ),
        imported("chat of JSON is parsing", "chat", CHAT_OF_JSON_IS_PARSING),
        imported(
            "chat of JSON as questions",
            "chat",
            CHAT_OF_JSON_IS_PARSING,
            arguments=["--task", "question-answering"],
        ),
        imported(
            "chat of no image or several",
            "chat",
            {
                "src/images/p$n.png": "20x40",
                "src/train.json": as_json(
                    [
                        {
                            "messages": [
                                {"role": "user", "content": "Hi?"},
                                {"role": "assistant", "content": "Ho"},
                            ]
                        },
                        {
                            "images": ["images/p0.png", "images/p1.png"],
                            "messages": [
                                {"role": "user", "content": "Hi?"},
                                {"role": "assistant", "content": "Ho"},
                            ],
                        },
                        {
                            "images": ["images/p0.png"],
                            "messages": [
                                {"role": "user", "content": "Hi?"},
                                {"role": "assistant", "content": "Ho"},
                            ],
                            "system": "You are a cook.",
                        },
                    ]
                ),
            },
        ),
        imported(
            "chat in parts",
            "chat",
            {
                "src/images/p$n.png": "20x40",
                "src/train.jsonl": as_lines(
                    {
                        "id": "x",
                        "image": "images/p0.png",
                        "conversations": [
                            {"from": "human", "value": "Who?"},
                            {"from": "gpt", "value": "Ann"},
                        ],
                    }
                ),
                "src/val.jsonl": as_lines(
                    {
                        "id": "x",
                        "image": "images/p1.png",
                        "conversations": [
                            {"from": "human", "value": "Who?"},
                            {"from": "gpt", "value": "Bob"},
                        ],
                    }
                ),
            },
            arguments=["--official", "--heldout", "1"],
        ),
        imported(
            "chat with images in the rows",
            "chat",
            {
                "src/train.jsonl": as_lines(
                    {
                        "messages": [
                            {
                                "role": "user",
                                "content": [
                                    {
                                        "type": "image_url",
                                        "image_url": {"url": WHITE_IMAGE},
                                    },
                                    {"type": "text", "text": "?"},
                                ],
                            },
                            {"role": "assistant", "content": "yes"},
                        ]
                    }
                )
            },
            source="src/train.jsonl",
        ),
        imported(
            "chat with other system prompts",
            "chat",
            {
                "src/images/p$n.png": "20x40",
                "src/train.jsonl": as_lines(
                    {
                        "image": "images/p0.png",
                        "conversations": [
                            {"from": "human", "value": "Who?"},
                            {"from": "gpt", "value": "Ann"},
                        ],
                    },
                    {
                        "image": "images/p1.png",
                        "system": "You are a clerk.",
                        "conversations": [
                            {"from": "human", "value": "Who?"},
                            {"from": "gpt", "value": "Ann"},
                        ],
                    },
                    {
                        "image": "images/p2.png",
                        "system": "You are a cook.",
                        "conversations": [
                            {"from": "human", "value": "Who?"},
                            {"from": "gpt", "value": "Ann"},
                        ],
                    },
                ),
            },
        ),
        imported(
            "chat with a system turn before the reply",
            "chat",
            {
                "src/images/p$n.png": "20x40",
                "src/train.jsonl": as_lines(
                    {
                        "images": ["images/p0.png"],
                        "messages": [
                            {"role": "user", "content": "Who?"},
                            {"role": "system", "content": "Be brief."},
                            {"role": "assistant", "content": "Ann"},
                            {"role": "user", "content": "When?"},
                            {"role": "user", "content": "Where?"},
                            {"role": "assistant", "content": "Here"},
                        ],
                    }
                ),
            },
        ),
        imported(
            "hf of prompts around a text",
            "hf",
            {
                "src/train.jsonl": as_lines(
                    {
                        "id": "r0",
                        "prompt": (
                            "Read the bill.\n\n"
                            "Shop 0\n"
                            "Tea   2\n"
                            "\tTotal 0.50\n\n"
                            "What is the total?\n"
                            "Answer: "
                        ),
                        "completion": "0.50",
                    },
                    {
                        "id": "r1",
                        "prompt": (
                            "Read the bill.\n\n"
                            "Shop 1\n"
                            "Tea   2\n"
                            "\tTotal 1.50\n\n"
                            "What is the total?\n"
                            "Answer: "
                        ),
                        "completion": "1.50",
                    },
                    {
                        "id": "r2",
                        "prompt": (
                            "Read the bill.\n\n"
                            "Shop 2\n"
                            "Tea   2\n"
                            "\tTotal 2.50\n\n"
                            "What is the total?\n"
                            "Answer: "
                        ),
                        "completion": "2.50",
                    },
                    {
                        "id": "r3",
                        "prompt": (
                            "Read the bill.\n\n"
                            "Shop 3\n"
                            "Tea   2\n"
                            "\tTotal 3.50\n\n"
                            "What is the total?\n"
                            "Answer: "
                        ),
                        "completion": "3.50",
                    },
                    {
                        "id": "r4",
                        "prompt": (
                            "Read the bill.\n\n"
                            "Shop 4\n"
                            "Tea   2\n"
                            "\tTotal 4.50\n\n"
                            "What is the total?\n"
                            "Answer: "
                        ),
                        "completion": "4.50",
                    },
                )
            },
        ),
        imported(
            "hf of prompts with a question behind the text",
            "hf",
            {
                "src/train.jsonl": as_lines(
                    {
                        "input": (
                            "Context: Shop 0\n"
                            "Tea   2\n"
                            "\tTotal 0.50\n\n"
                            "### Question:\n"
                            "What is the total?\n\n"
                            "### Answer:\n"
                        ),
                        "output": "0.50",
                    },
                    {
                        "input": (
                            "Context: Shop 0\n"
                            "Tea   2\n"
                            "\tTotal 0.50\n\n"
                            "### Question:\n"
                            "What is due?\n\n"
                            "### Answer:\n"
                        ),
                        "output": "0.50",
                    },
                    {
                        "input": (
                            "Context: Shop 1\n"
                            "Tea   2\n"
                            "\tTotal 1.50\n\n"
                            "### Question:\n"
                            "What is the total?\n\n"
                            "### Answer:\n"
                        ),
                        "output": "1.50",
                    },
                    {
                        "input": (
                            "Context: Shop 1\n"
                            "Tea   2\n"
                            "\tTotal 1.50\n\n"
                            "### Question:\n"
                            "What is due?\n\n"
                            "### Answer:\n"
                        ),
                        "output": "1.50",
                    },
                    {
                        "input": (
                            "Context: Shop 2\n"
                            "Tea   2\n"
                            "\tTotal 2.50\n\n"
                            "### Question:\n"
                            "What is the total?\n\n"
                            "### Answer:\n"
                        ),
                        "output": "2.50",
                    },
                )
            },
        ),
        imported(
            "hf of prompts with a question before the text",
            "hf",
            {
                "src/train.jsonl": as_lines(
                    {
                        "prompt": "question: What of 0? context: Shop 0\nTea   2\n\tTotal 0.50",
                        "response": "0.50",
                    },
                    {
                        "prompt": "question: What of 1? context: Shop 1\nTea   2\n\tTotal 1.50",
                        "response": "1.50",
                    },
                    {
                        "prompt": "question: What of 2? context: Shop 2\nTea   2\n\tTotal 2.50",
                        "response": "2.50",
                    },
                    {
                        "prompt": "question: What of 3? context: Shop 3\nTea   2\n\tTotal 3.50",
                        "response": "3.50",
                    },
                    {
                        "prompt": "question: What of 4? context: Shop 4\nTea   2\n\tTotal 4.50",
                        "response": "4.50",
                    },
                )
            },
        ),
        imported(
            "hf of prompts without words of their own",
            "hf",
            {
                "src/train.jsonl": as_lines(
                    {"source": "Shop 0\nTea   2\n\tTotal 0.50", "target": "0.50"},
                    {"source": "Shop 1\nTea   2\n\tTotal 1.50", "target": "1.50"},
                )
            },
            arguments=["--columns", "prompt=source,completion=target"],
        ),
        imported(
            "hf of instructions",
            "hf",
            {
                "src/train.jsonl": as_lines(
                    {
                        "instruction": "What is the total?",
                        "input": "Shop 0\nTea   2\n\tTotal 0.50",
                        "output": "0.50",
                    },
                    {
                        "instruction": "What is the total?",
                        "input": "Shop 1\nTea   2\n\tTotal 1.50",
                        "output": "1.50",
                    },
                )
            },
        ),
        imported(
            "chat of texts",
            "chat",
            {
                "src/train.json": as_json(
                    [
                        {
                            "conversations": [
                                {"from": "system", "value": "You read bills."},
                                {
                                    "from": "human",
                                    "value": "Shop 0\nTea   2\n\tTotal 0.50\nHow much is it?",
                                },
                                {"from": "gpt", "value": "0.50"},
                                {"from": "human", "value": "Sure?"},
                                {"from": "gpt", "value": "Yes."},
                            ]
                        },
                        {
                            "conversations": [
                                {"from": "system", "value": "You read bills."},
                                {
                                    "from": "human",
                                    "value": "Shop 1\nTea   2\n\tTotal 1.50\nHow much is it?",
                                },
                                {"from": "gpt", "value": "1.50"},
                                {"from": "human", "value": "Sure?"},
                                {"from": "gpt", "value": "Yes."},
                            ]
                        },
                    ]
                )
            },
        ),
        imported(
            "chat of texts that ask for JSON",
            "chat",
            {
                "src/train.jsonl": as_lines(
                    {
                        "messages": [
                            {
                                "role": "user",
                                "content": "Shop 0\nTea   2\n\tTotal 0.50\n\nExtract.",
                            },
                            {"role": "assistant", "content": '{"total": "0.50"}'},
                        ]
                    },
                    {
                        "messages": [
                            {
                                "role": "user",
                                "content": "Shop 1\nTea   2\n\tTotal 1.50\n\nExtract.",
                            },
                            {"role": "assistant", "content": '{"total": "1.50"}'},
                        ]
                    },
                    {
                        "messages": [
                            {
                                "role": "user",
                                "content": "Shop 2\nTea   2\n\tTotal 2.50\n\nExtract.",
                            },
                            {"role": "assistant", "content": '{"total": "2.50"}'},
                        ]
                    },
                    {
                        "messages": [
                            {
                                "role": "user",
                                "content": "Shop 3\nTea   2\n\tTotal 3.50\n\nExtract.",
                            },
                            {"role": "assistant", "content": '{"total": "3.50"}'},
                        ]
                    },
                )
            },
        ),
    ],
)
def test_a_source_becomes_its_data_set(name: str, source: Source, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_import(name, source, tmp_path)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        refused(
            "chat without conversations",
            "chat",
            {"src/a.txt": "x"},
            problem="holds no .json or .jsonl",
        ),
        refused(
            "chat that is not JSON",
            "chat",
            {"src/train.jsonl": "{"},
            problem="train.jsonl:1 is not JSON",
        ),
        refused(
            "hf of columns that nobody knows",
            "hf",
            {"src/train.jsonl": as_lines({"source": "a", "aim": "b"})},
            problem="--columns prompt=COLUMN,completion=COLUMN (meanings: words, boxes",
        ),
        refused(
            "hf with a meaning that nobody knows",
            "hf",
            {"src/train.jsonl": as_lines({"source": "a", "aim": "b"})},
            arguments=["--columns", "ask=source"],
            problem="--columns ask=source: not MEANING=NAME",
        ),
    ],
)
def test_a_source_that_cannot_be_meant_is_refused(
    source: Source, problem: str, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_refusal(source, problem, tmp_path)
