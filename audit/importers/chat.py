"""Chat data as vision-language models are trained with: rows of an image and a conversation, JSON lines or a list.

LLaVA: {"image", "conversations": [{"from": "human", "value"}, {"from": "gpt", "value"}]}; OpenAI, Qwen, TRL and
LLaMA-Factory: {"messages": [{"role", "content"}]}, content a text or a list of parts, images in the parts or in a list
of the row. A user's turn is a question, the next turn of the assistant its answer.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from audit.corpus.documents import TrainingRecipe
from audit.errors import ManifestError
from audit.importers.interface import Importer
from audit.importers.pages import Page, clean, part_of, replace_controls
from audit.importers.records import write_output
from audit.importers.source import Source

TURNS = ("messages", "conversations", "conversation")
IMAGE_KEYS = ("image", "images", "image_path", "img")
MARKS = ("<image>", "<|image|>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<img>", "</img>")
"""Marks of the image in a text, which chat templates put there by themselves."""
SEVERAL, WITHOUT, UNANSWERED = (
    "conversations about several images, left out",
    "conversations without an image, left out",
    "turns of a user without an answer, left out",
)
QUESTION = "{question}"
MIN_COMMON = 4
"""Different questions that must share a beginning or an end for it to be the prompt's."""
SYSTEM_ADVICE = (
    "{n} of {total} conversations begin with a system prompt, and not all with the same: the audit gives none; the "
    "one that the model was trained with most belongs into [recipe] system of the manifest."
)
PARSING_ADVICE = (
    "Every conversation asks for JSON in the same words, so the task is parsing; they are now [recipe] prompt of the "
    "manifest: {prompt!r}"
)
_ROLES = {"system": "system"} | dict.fromkeys(("user", "human"), "user")
_ROLES |= dict.fromkeys(("assistant", "gpt", "model"), "assistant")
_Image = str | bytes
_Asked = tuple[Page, str, str]


class _Row(NamedTuple):
    """A conversation: its images, its system prompt, pairs of a user's text and the reply, turns without a reply."""

    images: list[_Image]
    system: str
    asked: list[tuple[str, str]]
    dangling: int


class Chat(Importer):
    """One document an image, asked what its conversations ask; text common to all questions becomes the prompt."""

    name = "chat"
    description = ".json or .jsonl of conversations about images"
    marks = tuple((name, r'"(messages|conversations)":\s*\[') for name in ("*.jsonl", "*.json"))

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        hint = "give the file of conversations, or the folder that holds it"
        pages: dict[_Image, Page] = {}
        systems: Counter[str] = Counter()
        asked: list[_Asked] = []
        for path in source.files(".json", ".jsonl", hint=hint):
            if path.endswith("dataset_info.json"):
                continue
            with source.problems.catch():
                for place, value in source.records(path):
                    with source.problems.catch(f"{place}:"):
                        if not isinstance(value, dict):
                            raise ManifestError("not an object")
                        row = _row(value)
                        source.notes[UNANSWERED] += row.dangling
                        if len(row.images) != 1:
                            source.notes[SEVERAL if row.images else WITHOUT] += 1
                            continue
                        systems[row.system] += 1
                        page = _page(source, pages, path, value, row.images[0])
                        asked += [(page, question, answer) for question, answer in row.asked]
        prompt = _fill(source, asked)
        only = next(iter(systems), "") if len(systems) == 1 else ""
        total, without = systems.total(), systems[""]
        if len(systems) > 1 and without < total:
            source.advice.append(SYSTEM_ADVICE.format(n=total - without, total=total))
        source.recipe = TrainingRecipe(prompt=prompt, system=_wording(only) or None)
        yield from pages.values()


def _page(source: Source, pages: dict[_Image, Page], file: str, row: Mapping[str, Any], image: _Image) -> Page:
    """The page of a conversation's image, which others may share."""
    key = source.find_image(image, PurePosixPath(file).parent.as_posix()) if isinstance(image, str) else image
    if key not in pages:
        if isinstance(key, str):
            page = Page(source.ids[key], source.root / key)
        else:
            given = row.get("id")
            name = clean(str(given)) if isinstance(given, str | int) else f"row-{len(pages) + 1:06d}"
            page = Page(name, source.save_image(key))
        page.part = part_of(file)
        page.provider = source.provider(row, key if isinstance(key, str) else None)
        pages[key] = page
    return pages[key]


def _row(value: Mapping[str, Any]) -> _Row:
    turns = next((value[key] for key in TURNS if key in value), None)
    if not isinstance(turns, list):
        raise ManifestError(f"no list of turns: none of {', '.join(TURNS)}")
    images = [*_images(next((value[key] for key in IMAGE_KEYS if value.get(key)), None))]
    system = [text] if isinstance(text := value.get("system"), str) and text.strip() else []
    asked: list[tuple[str, str]] = []
    waiting: str | None = None
    dangling = 0
    for number, turn in enumerate(turns):
        role, text, inner = _turn(turn, number)
        images += [image for image in inner if image not in images]
        if role == "system":
            system.append(text)
        elif role == "user":
            dangling += waiting is not None
            waiting = text
        elif waiting is not None:
            asked.append((waiting, text))
            waiting = None
    return _Row(images, "\n".join(system).strip(), asked, dangling + (waiting is not None))


def _turn(turn: Any, number: int) -> tuple[str, str, list[_Image]]:
    """Role, text and images of a turn."""
    if not isinstance(turn, dict):
        raise ManifestError(f"turn {number}: not an object")
    role = _ROLES.get(str(turn.get("role", turn.get("from"))).lower())
    if role is None:
        raise ManifestError(f"turn {number}: its role is none of {', '.join(_ROLES)}")
    content = turn.get("content", turn.get("value"))
    texts: list[str] = []
    images: list[_Image] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict):
            images += _images(part.get("image", part.get("image_url", part.get("path", part.get("url")))))
        else:
            raise ManifestError(f"turn {number}: its content is neither a text nor a list of parts")
    text = "\n".join(texts)
    for mark in MARKS:
        text = text.replace(mark, "")
    return role, text.strip(), images


def _images(value: Any) -> Iterator[_Image]:
    """Yield the images that a value names: a path, an address, bytes in base64, or several."""
    if isinstance(value, list):
        for one in value:
            yield from _images(one)
    elif isinstance(value, dict):
        yield from _images(value.get("url", value.get("path", value.get("image", value.get("bytes")))))
    elif isinstance(value, str) and value.startswith("data:"):
        try:
            yield base64.b64decode(value.partition(",")[2], validate=True)
        except (binascii.Error, ValueError):
            raise ManifestError("an image is no valid base64") from None
    elif isinstance(value, str) and value:
        yield value.removeprefix("file://")


def _fill(source: Source, asked: Sequence[_Asked]) -> str | None:
    """Give pages their questions, or their outputs where all are asked for JSON in the same words.

    Returns:
        The prompt that all questions stood in, or that asked for all outputs; None where there is none.
    """
    texts = list(dict.fromkeys(question for _, question, _ in asked))
    once = len(texts) == 1 and len(asked) == len({id(page) for page, _, _ in asked})
    parsing = source.task in (None, "parsing") and once and all(_is_json(answer) for _, _, answer in asked)
    before, after = ("", "") if parsing else _wrapping(texts)
    for page, question, answer in asked:
        with source.problems.catch(f"{page.name}:"):
            if parsing:
                write_output(page, answer)
            else:
                page.ask(question[len(before) : len(question) - len(after)], [answer])
    if parsing:
        prompt = _wording(texts[0]).replace(QUESTION, "")
        source.advice += [PARSING_ADVICE.format(prompt=prompt)] if prompt else []
        return prompt or None
    if not before and not after:
        return None
    prompt = _wording(f"{before}{QUESTION}{after}")
    source.advice.append(f"Every question stood in this text, now [recipe] prompt of the manifest: {prompt!r}")
    return prompt


def _wording(text: str) -> str:
    """A text as a manifest takes it: of control characters it has line ends and tabs alone."""
    return re.sub(r"[^\n\t]+", lambda run: replace_controls(run[0]), text)


def _is_json(answer: str) -> bool:
    """Test whether an answer is an object or a list that holds something."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list) and bool(value)


def _wrapping(texts: Sequence[str]) -> tuple[str, str]:
    """The text before and after all questions alike: up to the end of a line or a colon, from the beginning of a line.

    Nothing where there are fewer than `MIN_COMMON` different questions, or where no question would be left of one.
    """
    before = _beginning(texts)
    before = before[: max(before.rfind("\n"), before.rfind(": ") + 1) + 1]
    after = _beginning([text[len(before) :][::-1] for text in texts])[::-1]
    after = after[after.find("\n") :] if "\n" in after else ""
    left = [text[len(before) : len(text) - len(after)].strip() for text in texts]
    if len(texts) < MIN_COMMON or not all(left) or any(QUESTION in text for text in texts):
        return "", ""
    return before, after


def _beginning(texts: Sequence[str]) -> str:
    """The longest beginning that all texts share."""
    first, last = min(texts, default=""), max(texts, default="")
    number = next((number for number, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:number]
