"""The task of a checkpoint, told from its configuration alone: nothing is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit import plugins
from audit.corpus.documents import Task, TaskKind
from audit.corpus.validation import label_problems
from audit.errors import TargetError

HEADS: Mapping[str, TaskKind] = {
    "BrosSpadeEEForTokenClassification": "spade-extraction",
    "SpadeForExtraction": "spade-extraction",
    "BrosSpadeELForTokenClassification": "spade-linking",
    "SpadeForLinking": "spade-linking",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "mlm",
    "ForQuestionAnswering": "extractive-qa",
    "ForSequenceClassification": "document-classification",
    "ForImageClassification": "document-classification",
    "ForConditionalGeneration": "question-answering",
    "ForCausalLM": "question-answering",
    "LMHeadModel": "question-answering",
    "ForVision2Seq": "question-answering",
    "ForImageTextToText": "question-answering",
    "VisionEncoderDecoderModel": "question-answering",
}
"""By how the name of an architecture ends; the first that fits."""
ADAPTERS: Mapping[str, TaskKind] = {
    "TOKEN_CLS": "token-classification",
    "SEQ_CLS": "document-classification",
    "QUESTION_ANS": "extractive-qa",
    "CAUSAL_LM": "question-answering",
    "SEQ_2_SEQ_LM": "question-answering",
}
"""By the task type of a PEFT adapter."""
LABELLED: tuple[TaskKind, ...] = ("token-classification", "spade-extraction", "document-classification", "intent-slots")
_PLACEHOLDER = re.compile(r"LABEL_\d+")


@dataclass(frozen=True)
class RecognisedTask:
    """The task of a checkpoint.

    Attributes:
        task: its kind, and its labels where the checkpoint names them and a manifest can.
        architecture: what it was told by.
    """

    task: Task
    architecture: str


def recognise_task(folder: Path) -> RecognisedTask:
    """Tell a checkpoint's task from its config.json, or an adapter's from its adapter_config.json.

    Raises:
        TargetError: there is neither, or what it says is no task that docaudit knows.
    """
    if not folder.is_dir():
        raise TargetError(f"{folder}: no such folder", "give a local Hugging Face checkpoint")
    config = _settings(folder / "config.json")
    named = config.get("architectures")
    for architecture in map(str, named if isinstance(named, list) else ()):
        kind = next((kind for ending, kind in HEADS.items() if architecture.endswith(ending)), None)
        if kind is not None:
            return RecognisedTask(Task(kind, _labels(config, kind)), architecture)
    model_type = str(config.get("model_type"))
    task: TaskKind | None = getattr(plugins.find("docaudit.targets", model_type), "task", None)
    if task is not None:
        return RecognisedTask(Task(task, _labels(config, task)), model_type)
    adapter = str(_settings(folder / "adapter_config.json").get("task_type"))
    if adapter in ADAPTERS:
        return RecognisedTask(Task(ADAPTERS[adapter]), f"an adapter for {adapter}")
    found = ", ".join(map(str, named)) if isinstance(named, list) and named else "no architecture"
    raise TargetError(f"{folder}: its task cannot be told from its configuration ({found})", "give --task KIND")


def _settings(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        raise TargetError(f"{path}: not readable as JSON") from None
    return content if isinstance(content, dict) else {}


def _labels(config: Mapping[str, Any], kind: TaskKind) -> tuple[str, ...]:
    """The labels in the order of the outputs; none where they are placeholders, or a manifest cannot name them."""
    named = config.get("id2label")
    if kind not in LABELLED or not isinstance(named, dict):
        return ()
    labels = tuple(str(named.get(str(number), "")) for number in range(len(named)))
    if any(not label.strip() or _PLACEHOLDER.fullmatch(label) for label in labels):
        return ()
    return () if any(label_problems(Task(kind, labels))) else labels
