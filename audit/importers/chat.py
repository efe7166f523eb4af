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
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from audit.corpus.documents import TrainingRecipe
from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.contents import ImportRequest, SourceContents
from audit.importers.gathering.assembly import Assembly
from audit.importers.gathering.choosing import TASKS
from audit.importers.gathering.drafts import DraftPage, clean, names_of
from audit.importers.gathering.files import ImageFinder, json_lines, provider_of, relative_files, save_image
from audit.importers.gathering.outputs import write_output
from audit.importers.gathering.parts import check_parts, part_of
from audit.importers.interface import Source
from audit.importers.source_files import replace_controls

TURNS = ("messages", "conversations", "conversation")
IMAGE_KEYS = ("image", "images", "image_path", "img")
MARKS = ("<image>", "<|image|>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<img>", "</img>")
"""Marks of the image in a text, which chat templates put there by themselves."""
SEVERAL, WITHOUT, UNANSWERED = (
    "conversations about several images, left out",
    "conversations without an image, left out",
    "turns of a user without an answer, left out",
)
PROMPT = "questions from which the text common to all was taken, now in [recipe] prompt"
QUESTION = "{question}"
MIN_COMMON = 4
"""Ours: different questions that must share a beginning or an end for it to be the prompt's."""
SYSTEM_ADVICE = (
    "{n} of {total} conversations begin with a system prompt, and not all with the same: the audit gives none; the "
    "one that the model was trained with most belongs into [recipe] system of the manifest."
)
PARSING_ADVICE = (
    "Every conversation asks for JSON in the same words, so the task is parsing; they are now [recipe] prompt of the "
    "manifest: {prompt!r}"
)


@dataclass(frozen=True)
class _Row:
    """One conversation.

    Attributes:
        images: paths, addresses or bytes, in order.
        system: the system prompt.
        asked: pairs of a user's text and the assistant's reply.
        dangling: turns without a reply.
    """

    images: tuple[str | bytes, ...]
    system: str
    asked: tuple[tuple[str, str], ...]
    dangling: int


class Chat(Source):
    """One document an image, asked what its conversations ask; text common to all questions becomes the prompt."""

    name = "chat"
    description = ".json or .jsonl of conversations about images"
    tasks = TASKS
    divisions = frozenset({"official", "by-provider"})
    recognises = True

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        problems = Problems()
        folder, files = _files(src)
        reader = _Reader(folder, request, problems)
        for path in files:
            with problems.catch():
                for place, value in json_lines(inside(folder.resolve(), path)):
                    with problems.catch(f"{place}:"):
                        reader.add(path, value)
        check_parts(src, reader.pages, request)
        asks = request.task_given and request.task != "parsing"
        prompt, told = _fill(reader.asked, problems, may_parse=not asks)
        if prompt is not None and QUESTION in prompt:
            reader.notes[PROMPT] = len(reader.asked)
        system = reader.common_system
        total = reader.systems.total()
        without = reader.systems[""]
        advice = [told] if told else []
        if system is None and without < total:
            advice.append(SYSTEM_ADVICE.format(n=total - without, total=total))
        assembly = Assembly(self.name, reader.pages, request, problems)
        return assembly.contents(reader.notes, TrainingRecipe(prompt=prompt, system=system), advice)


class _Reader:
    """Pages of the conversations of all files."""

    def __init__(self, src: Path, request: ImportRequest, problems: Problems) -> None:
        self._finder, self._request, self._problems = ImageFinder(src), request, problems
        self._names = names_of(self._finder.paths)
        self._pages: dict[str | bytes, DraftPage] = {}
        self.systems: Counter[str] = Counter()
        self.asked: list[tuple[DraftPage, str, str]] = []
        self.notes: Counter[str] = Counter()

    @property
    def pages(self) -> list[DraftPage]:
        """The pages so far."""
        return [*self._pages.values()]

    @property
    def common_system(self) -> str | None:
        """The system prompt that every conversation begins with; None where there is none."""
        only = next(iter(self.systems), "") if len(self.systems) == 1 else ""
        return _wording(only) or None

    def add(self, file: str, value: Any) -> None:
        """Read one conversation.

        Raises:
            ManifestError: it has another form, or its image is not there.
        """
        if not isinstance(value, dict):
            raise ManifestError("not an object")
        row = _row(value)
        if row.dangling:
            self.notes[UNANSWERED] += row.dangling
        if len(row.images) != 1:
            self.notes[SEVERAL if row.images else WITHOUT] += 1
            return
        self.systems[row.system] += 1
        page = self._page(file, value, row.images[0])
        self.asked += [(page, question, answer) for question, answer in row.asked]

    def _page(self, file: str, value: Mapping[str, Any], image: str | bytes) -> DraftPage:
        key: str | bytes = image
        if isinstance(image, str):
            key = self._finder.find(image, PurePosixPath(file).parent.as_posix())
        if key not in self._pages:
            where = key if isinstance(key, str) else None
            if isinstance(key, str):
                page = DraftPage(self._names[key], self._finder.at(key))
            else:
                number = len(self._pages) + 1
                given = value.get("id")
                name = clean(str(given)) if isinstance(given, str | int) else f"row-{number:06d}"
                page = DraftPage(name, save_image(key, self._request.scratch, number))
            page.part = part_of(file)
            page.provider = provider_of(self._request.options.provider, value, where)
            self._pages[key] = page
        return self._pages[key]


def _files(src: Path) -> tuple[Path, list[str]]:
    """The folder of the source and its files of conversations; `src` may be the one file itself.

    Raises:
        UsageError: there is none.
    """
    if src.is_file():
        return src.parent, [src.name]
    files = [path for path in relative_files(src, (".jsonl", ".json")) if not path.endswith("dataset_info.json")]
    if not files:
        raise UsageError(
            f"{src} holds no .json or .jsonl", "give the file of conversations, or the folder that holds it"
        )
    return src, files


def _row(value: Mapping[str, Any]) -> _Row:
    turns = next((value[key] for key in TURNS if key in value), None)
    if not isinstance(turns, list):
        raise ManifestError(f"no list of turns: none of {', '.join(TURNS)}")
    images = [*_images(next((value[key] for key in IMAGE_KEYS if value.get(key)), None))]
    system: list[str] = [text] if isinstance(text := value.get("system"), str) and text.strip() else []
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
    return _Row(tuple(images), "\n".join(system).strip(), tuple(asked), dangling + (waiting is not None))


def _turn(turn: Any, number: int) -> tuple[str, str, list[str | bytes]]:
    """Role, text and images of a turn."""
    if not isinstance(turn, dict):
        raise ManifestError(f"turn {number}: not an object")
    role = _ROLES.get(str(turn.get("role", turn.get("from"))).lower())
    if role is None:
        raise ManifestError(f"turn {number}: its role is none of {', '.join(_ROLES)}")
    content = turn.get("content", turn.get("value"))
    texts: list[str] = []
    images: list[str | bytes] = []
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


_ROLES: Mapping[str, str] = {
    "system": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
}


def _images(value: Any) -> Iterator[str | bytes]:
    """Images that a value names: a path, an address, bytes in base64, or several."""
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


def _fill(
    asked: Sequence[tuple[DraftPage, str, str]], problems: Problems, *, may_parse: bool
) -> tuple[str | None, str]:
    """Give pages their questions, or their outputs where all are asked for JSON in the same words (`may_parse`).

    Returns:
        The prompt that all questions stood in, or that asked for all outputs, None where there is none, and what the
        owner should know of it.
    """
    texts = list(dict.fromkeys(question for _, question, _ in asked))
    once = len(texts) == 1 and len(asked) == len({id(page) for page, _, _ in asked})
    if may_parse and once and all(_is_json(answer) for _, _, answer in asked):
        for page, _, answer in asked:
            with problems.catch(f"{page.name}:"):
                write_output(page, answer)
        prompt = _wording(texts[0]).replace(QUESTION, "")
        return prompt or None, PARSING_ADVICE.format(prompt=prompt) if prompt else ""
    before, after = _wrapping(texts)
    for page, question, answer in asked:
        with problems.catch(f"{page.name}:"):
            page.ask(question[len(before) : len(question) - len(after)], [answer])
    if not before and not after:
        return None, ""
    prompt = _wording(f"{before}{QUESTION}{after}")
    return prompt, f"Every question stood in this text, now [recipe] prompt of the manifest: {prompt!r}"


def _wording(text: str) -> str:
    """A text as a manifest takes it: of control characters it has line ends and tabs alone."""
    return re.sub(r"[^\n\t]+", lambda run: replace_controls(run[0]), text)


def _is_json(answer: str) -> bool:
    """Whether an answer is an object or a list that holds something."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list) and bool(value)


def _wrapping(texts: Sequence[str]) -> tuple[str, str]:
    """The text before and after all questions alike: up to the end of a line or a colon, from the beginning of a line.

    Nothing where there are fewer than `MIN_COMMON` different questions, or where no question would be left of one.
    """
    if len(texts) < MIN_COMMON or any(QUESTION in text for text in texts):
        return "", ""
    before = _shared(texts)
    before = before[: max(before.rfind("\n"), before.rfind(": ") + 1) + 1]
    after = _shared([text[len(before) :][::-1] for text in texts])[::-1]
    after = after[after.find("\n") :] if "\n" in after else ""
    if any(not text[len(before) : len(text) - len(after)].strip() for text in texts):
        return "", ""
    return before, after


def _shared(texts: Sequence[str]) -> str:
    """The longest beginning that all texts share."""
    first, last = min(texts), max(texts)
    number = next((number for number, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:number]
