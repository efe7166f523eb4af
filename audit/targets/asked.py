"""Whether the files of a checkpoint say how it is asked, told without loading it.

Loading it refuses the same checkpoints, with the words of their family.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.corpus.documents import TaskKind
from audit.targets.checkpoint.content import named_base, read_settings
from audit.targets.ecosystems import classes_of

DONUT_MARKS = ("<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>")
"""Tokens of a Donut that was trained to answer questions."""
PROMPTLESS = "pix2struct"
"""The `model_type` of a model that may be given a page alone."""
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates")
_SETTINGS = ("tokenizer_config.json", "processor_config.json")
_DECODERS = ("ForCausalLM", "LMHeadModel")
"""How the classes of decoders of text end."""
_DONUT = "vision-encoder-decoder"


def lacks_prompt(folder: Path, task: TaskKind) -> bool:
    """Test whether a scan asks for `[recipe] prompt` of a checkpoint, as nothing says its prompt.

    False where that is not seen in its files.

    Args:
        folder: checkpoint, or an adapter with its base on this machine.
        task: task of the data set.
    """
    base = named_base(folder)
    config = read_settings((base or folder) / "config.json", damaged_is_empty=True)
    if not config or task not in ("question-answering", "parsing"):
        return False
    is_donut = config.get("model_type") == _DONUT
    if task == "parsing":
        return not (is_donut or config.get("model_type") == PROMPTLESS)
    if is_donut:
        return not _knows_marks(folder)
    return _takes_template(config) and not (_has_template(folder) or _has_template(base))


def _takes_template(config: Mapping[str, Any]) -> bool:
    """Test whether a model that answers is asked through a chat template."""
    decodes = any(name.endswith(_DECODERS) for name in classes_of(config))
    return decodes or "vision_config" in config


def _knows_marks(folder: Path) -> bool:
    """Test whether the tokenizer of a Donut has the marks of a question."""
    try:
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return True
    return all(f'"{mark}"' in text for mark in DONUT_MARKS)


def _has_template(folder: Path | None) -> bool:
    """Test whether a folder holds a chat template; there may be none."""
    if folder is None:
        return False
    if any((folder / name).exists() for name in _TEMPLATES):
        return True
    settings = (read_settings(folder / name, damaged_is_empty=True) for name in _SETTINGS)
    return any("chat_template" in values for values in settings)
