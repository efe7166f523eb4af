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
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from audit.corpus.documents import TrainingRecipe
from audit.errors import ManifestError
from audit.importers.columns import add_output
from audit.importers.files import TEXTS
from audit.importers.interface import Importer
from audit.importers.pages import Page, clean, part_of, replace_controls
from audit.importers.source import Source

TURNS = ("messages", "conversations", "conversation")
IMAGE_KEYS = ("image", "images", "image_path", "img")
MARKS = re.compile(r"<\|?/?(image|image_pad|vision_start|vision_end|img)\|?>")
"""Marks of the image in a text, which chat templates put there by themselves."""
QUESTION = "{question}"
MIN_COMMON = 4
"""Different questions that must share a beginning or an end for it to be the prompt's."""
_ROLES = {"system": "system", "user": "user", "human": "user"} | dict.fromkeys(("assistant", "gpt", "model"), "reply")
_Image = str | bytes
_Asked = tuple[Page, str, str]


class _Turn(NamedTuple):
    role: str
    text: str
    images: list[_Image]


class Chat(Importer):
    """One document an image, asked what its conversations ask; text common to all questions becomes the prompt."""

    name = "chat"
    description = ".json or .jsonl of conversations about images"
    marks = tuple((name, r'"(messages|conversations)":\s*\[') for name in ("*.jsonl", "*.json"))

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        pages: dict[_Image, Page] = {}
        systems: Counter[str] = Counter()
        asked: list[_Asked] = []
        for path in source.files(".json", ".jsonl", hint="give the file of conversations, or the folder that holds it"):
            with source.problems.catch():
                for place, row in source.records(path):
                    with source.problems.catch(f"{place}:"):
                        turns = _turns(row)
                        images: list[_Image] = []
                        for turn in turns:
                            images += [image for image in turn.images if image not in images]
                        if len(images) != 1:
                            source.notes["conversations about no image or several, left out"] += 1
                            continue
                        systems["\n".join(turn.text for turn in turns if turn.role == "system").strip()] += 1
                        page = _page(source, pages, path, row, images[0])
                        talk = [turn for turn in turns if turn.role != "system"]
                        for one, reply in zip(talk, [*talk[1:], _Turn("", "", [])], strict=True):
                            if one.role != "user":
                                continue
                            source.notes["turns of a user without an answer, left out"] += reply.role != "reply"
                            asked += [(page, one.text, reply.text)] if reply.role == "reply" else []
        system = _without_controls(next(iter(systems))) if len(systems) == 1 else ""
        if len(systems) > 1:
            total = systems.total()
            source.advice.append(TEXTS["systems"].format(n=total - systems[""], total=total))
        source.recipe = TrainingRecipe(prompt=_fill(source, asked), system=system or None)
        yield from pages.values()


def _page(source: Source, pages: dict[_Image, Page], file: str, row: Mapping[str, Any], image: _Image) -> Page:
    """Return the page of a conversation's image, which others may share."""
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


def _turns(row: Any) -> list[_Turn]:
    """Return the turns of a conversation; the first holds the images, and the system prompt, of the row itself.

    Raises:
        ManifestError: it has another form.
    """
    if not isinstance(row, dict):
        raise ManifestError("not an object")
    turns = next((row[key] for key in TURNS if key in row), None)
    if not isinstance(turns, list):
        raise ManifestError(f"no list of turns: none of {', '.join(TURNS)}")
    system = row.get("system")
    images = [*_images(next((row[key] for key in IMAGE_KEYS if row.get(key)), None))]
    first = _Turn("system", system if isinstance(system, str) else "", images)
    return [first, *(_turn(turn, number) for number, turn in enumerate(turns))]


def _turn(turn: Any, number: int) -> _Turn:
    if not isinstance(turn, dict):
        raise ManifestError(f"turn {number}: not an object")
    role = _ROLES.get(str(turn.get("role", turn.get("from"))).lower())
    if role is None:
        raise ManifestError(f"turn {number}: its role is none of {', '.join(_ROLES)}")
    content = turn.get("content", turn.get("value"))
    texts: list[str] = []
    images: list[_Image] = []
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            texts.append(text)
        elif isinstance(part, dict):
            images += _images(part.get("image", part.get("image_url", part.get("path", part.get("url")))))
        else:
            raise ManifestError(f"turn {number}: its content is neither a text nor a list of parts")
    return _Turn(role, MARKS.sub("", "\n".join(texts)).strip(), images)


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
    before, after = ("", "") if parsing else _common_text(texts)
    for page, question, answer in asked:
        with source.problems.catch(f"{page.name}:"):
            if parsing:
                add_output(page, answer)
            else:
                page.ask(question[len(before) : len(question) - len(after)], [answer])
    prompt = _without_controls(texts[0].replace(QUESTION, "") if parsing else f"{before}{QUESTION}{after}")
    if prompt in ("", QUESTION):
        return None
    if parsing:
        source.advice.append("Every conversation asks for JSON in the same words, so the task is parsing.")
    source.advice.append(f"Every question had this text around it, now [recipe] prompt of the manifest: {prompt!r}")
    return prompt


def _without_controls(text: str) -> str:
    """Replace control characters, but for line ends and tabs, which a manifest takes."""
    return re.sub(r"[^\n\t]+", lambda run: replace_controls(run[0]), text)


def _is_json(answer: str) -> bool:
    """Test whether an answer is an object or a list that holds something."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list) and bool(value)


def _common_text(texts: Sequence[str]) -> tuple[str, str]:
    """Return the text before and after all questions: up to a line's end or a colon, from the beginning of a line.

    Nothing where there are fewer than `MIN_COMMON` different questions, or where no question would be left of one.
    """
    before = _common_beginning(texts)
    before = before[: max(before.rfind("\n"), before.rfind(": ") + 1) + 1]
    after = _common_beginning([text[len(before) :][::-1] for text in texts])[::-1]
    after = after[after.find("\n") :] if "\n" in after else ""
    left = [text[len(before) : len(text) - len(after)].strip() for text in texts]
    if len(texts) < MIN_COMMON or not all(left) or any(QUESTION in text for text in texts):
        return "", ""
    return before, after


def _common_beginning(texts: Sequence[str]) -> str:
    first, last = min(texts, default=""), max(texts, default="")
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
