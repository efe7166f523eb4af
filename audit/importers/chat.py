"""Conversations as models are trained with, about images or texts: JSON lines, a list, or rows of a table.

LLaVA, ShareGPT: {"image", "conversations": [{"from": "human", "value"}, {"from": "gpt", "value"}]};
OpenAI, Qwen, TRL and LLaMA-Factory: {"messages": [{"role", "content"}]}, content a text or a list
of parts, images in the parts or in a list of the row; {"prompt", "completion"}, texts or turns. A
user's turn is a question, the next turn of the assistant its answer. Without an image, the first
turn of the user holds the document: `audit.importers.prompts` divides it.
"""

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from audit.corpus.documents import TrainingRecipe
from audit.errors import ManifestError
from audit.importers.columns import Columns, add_output
from audit.importers.files import TEXTS
from audit.importers.interface import Importer
from audit.importers.pages import Page, Part, clean, keep_lines, part_of, text_words
from audit.importers.prompts import QUESTION, divide_prompts, fill_prompt
from audit.importers.source import Source

IMAGE_KEYS = ("image", "images", "image_path", "img")
MARKS = re.compile(r"<\|?/?(image|image_pad|vision_start|vision_end|img)\|?>")
"""Marks of the image in a text, which chat templates put there by themselves."""
_ROLES = {"system": "system", "user": "user", "human": "user"} | dict.fromkeys(
    ("assistant", "gpt", "model"), "reply"
)
NO_IMAGE = "conversations about no image or several, left out"
REBUILT = "prompts whose white space is not as in the source"
_Image = str | bytes
_Asked = tuple[Page, str, str]


class _Turn(NamedTuple):
    role: str
    text: str
    images: list[_Image]


class Chat(Importer):
    """One document an image, asked what its conversations ask.

    Or a document a text, of rows without images.
    """

    name = "chat"
    description = (
        ".json or .jsonl of conversations, about images or texts, or of prompt and completion"
    )
    marks = tuple((name, r'"(messages|conversations)":\s*\[') for name in ("*.jsonl", "*.json"))

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        talks = Conversations(source)
        for path in source.files(
            ".json", ".jsonl", hint="give the file of conversations, or the folder that holds it"
        ):
            with source.problems.catch():
                for place, row in source.records(path):
                    with source.problems.catch(f"{place}:"):
                        if not isinstance(row, dict):
                            raise ManifestError("not an object")
                        columns = Columns(row, named=source.options.columns)
                        if not columns.talks:
                            raise columns.refusal(place, TEXTS["no_talk"])
                        talks.add(
                            place,
                            row,
                            columns,
                            PurePosixPath(path).parent.as_posix(),
                            part_of(path),
                        )
        yield from talks.pages()


class Conversations:
    """Yield the documents of conversations: images where any has one, else the texts in their prompts."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._systems: Mapping[bool, Counter[str]] = {True: Counter(), False: Counter()}
        self._images: dict[_Image, Page] = {}
        self._asked: list[_Asked] = []
        self._prompts: list[_Asked] = []

    def add(
        self, place: str, row: Mapping[str, Any], columns: Columns, folder: str, part: Part | None
    ) -> None:
        """Add a conversation.

        Args:
            place: of the row, for messages.
            row: of the source.
            columns: the meanings of its keys.
            folder: where paths of its images begin, within the source.
            part: of the source's division that it is of.

        Raises:
            ManifestError: it has another form.
        """
        turns = _turns(row, columns)
        images: list[_Image] = []
        for turn in turns:
            images += [image for image in turn.images if image not in images]
        if len(images) > 1:
            self._source.notes[NO_IMAGE] += 1
            return
        talk = [turn for turn in turns if turn.role != "system"]
        asked = [
            (a.text, b.text) for a, b in pairwise(talk) if (a.role, b.role) == ("user", "reply")
        ]
        unanswered = sum(turn.role == "user" for turn in talk) - len(asked)
        self._source.notes["turns of a user without an answer, left out"] += unanswered
        self._systems[bool(images)][
            "\n".join(turn.text for turn in turns if turn.role == "system").strip()
        ] += 1
        if images:
            page = self._page(row, columns, images[0], folder, part)
            page.place = page.place or place
            self._asked += [(page, *one) for one in asked]
        else:
            page = Page(
                _name(row, columns), part=part, provider=self._source.provider(row), place=place
            )
            self._prompts += [(page, *one) for one in asked[:1]]

    def pages(self) -> Iterator[Page]:
        """Yield the pages, with their questions, or with outputs where all are asked for JSON in the same words.

        The text that all questions share, also those of an import's first source, becomes the
        prompt of the manifest; a system turn that all have becomes its own.
        """
        if not any(self._systems.values()):
            return
        source, talks = self._source, self._source.kept
        talks.append(self)
        of_images = any(talk._images for talk in talks)
        source.notes[NO_IMAGE] += len(self._prompts) if of_images else 0
        asked = [
            (talk, *one) for talk in talks for one in (talk._asked if of_images else talk._prompts)
        ]
        template, divided = divide_prompts(
            [question for _, _, question, _ in asked], with_text=not of_images
        )
        for talk in talks:
            talk._source.advice.clear()
            talk._source.notes[REBUILT] = 0
        pages: dict[tuple[int, Part | None, str], Page] = {}
        filled: list[_Asked] = []
        for (talk, own, prompt, answer), (text, question) in zip(asked, divided, strict=True):
            page = own if of_images else pages.setdefault((id(talk), own.part, text), own)
            page.questions, page.output, page.unanswered = [], None, 0
            if not of_images:
                page.words = text_words(text)
                source.notes[REBUILT] += fill_prompt(template, page.words, question) != keep_lines(
                    prompt
                )
            filled.append((page, question, answer))
        systems = sum((talk._systems[of_images] for talk in talks), Counter[str]())
        source.recipe = TrainingRecipe(
            prompt=_fill(source, template, filled), system=_system(source, systems)
        )
        for talk in talks:
            talk._source.recipe = source.recipe
        texts = [page for (talk, _, _), page in pages.items() if talk == id(self)]
        if len({page.name for page in texts} - {""}) < len(texts):
            for number, page in enumerate(texts):
                page.name = f"text-{number:06d}"
        yield from self._images.values() if of_images else texts

    def _page(
        self,
        row: Mapping[str, Any],
        columns: Columns,
        image: _Image,
        folder: str,
        part: Part | None,
    ) -> Page:
        """Return the page of a conversation's image, which others may share."""
        source = self._source
        key = source.find_image(image, folder) if isinstance(image, str) else image
        if key not in self._images:
            if isinstance(key, str):
                page = Page(source.ids[key], source.root / key)
            else:
                name = _name(row, columns) or f"row-{len(self._images) + 1:06d}"
                page = Page(name, source.save_image(key))
            page.part = part
            page.provider = source.provider(row, key if isinstance(key, str) else None)
            self._images[key] = page
        return self._images[key]


def _system(source: Source, systems: Counter[str]) -> str | None:
    """Return the system turn of all conversations; None where there is none, or several."""
    if len(systems) > 1:
        total = systems.total()
        source.advice.append(TEXTS["systems"].format(n=total - systems[""], total=total))
        return None
    return keep_lines(next(iter(systems), "")) or None


def _name(row: Mapping[str, Any], columns: Columns) -> str:
    """Return the id of a row; empty where it has none."""
    given = columns.value(row, "name")
    return clean(str(given)) if isinstance(given, str | int) else ""


def _turns(row: Mapping[str, Any], columns: Columns) -> list[_Turn]:
    """Return the turns of a conversation.

    The first holds the images, and the system prompt, of the row itself.

    Raises:
        ManifestError: it has another form.
    """
    turns, prompt, completion = (
        columns.value(row, meaning) for meaning in ("turns", "prompt", "completion")
    )
    if columns["turns"]:
        prompt, completion = turns, []
    if isinstance(prompt, list) and isinstance(completion, list):
        talk = [_turn(turn, number) for number, turn in enumerate([*prompt, *completion])]
    elif isinstance(prompt, str) and isinstance(completion, str):
        talk = [_Turn("user", MARKS.sub("", prompt), []), _Turn("reply", completion, [])]
    else:
        raise ManifestError("no list of turns, and no texts of prompt and completion")
    system = row.get("system")
    images = [*_images(next((row[key] for key in IMAGE_KEYS if row.get(key)), None))]
    return [_Turn("system", system if isinstance(system, str) else "", images), *talk]


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
            images += _images(
                part.get("image", part.get("image_url", part.get("path", part.get("url"))))
            )
        else:
            raise ManifestError(f"turn {number}: its content is neither a text nor a list of parts")
    return _Turn(role, MARKS.sub("", "\n".join(texts)).strip(), images)


def _images(value: Any) -> Iterator[_Image]:
    """Yield the images that a value names: a path, an address, bytes, also in base64, or several."""
    if isinstance(value, list):
        for one in value:
            yield from _images(one)
    elif isinstance(value, dict):
        yield from _images(
            next((value[key] for key in ("bytes", "url", "path", "image") if value.get(key)), None)
        )
    elif isinstance(value, str) and value.startswith("data:"):
        try:
            yield base64.b64decode(value.partition(",")[2], validate=True)
        except (binascii.Error, ValueError):
            raise ManifestError("an image is no valid base64") from None
    elif isinstance(value, str | bytes) and value:
        yield value.removeprefix("file://") if isinstance(value, str) else value


def _fill(source: Source, template: str, asked: Sequence[_Asked]) -> str | None:
    """Give pages their questions, or their outputs where all are asked for JSON in the same words.

    Returns:
        The prompt that all questions stood in, or that asked for all outputs; None where there is
        none.
    """
    questions = {question for _, question, _ in asked}
    once = len(questions) == 1 and len(asked) == len({id(page) for page, _, _ in asked})
    parsing = (
        source.task in (None, "parsing")
        and once
        and all(_is_json(answer) for _, _, answer in asked)
    )
    for page, question, answer in asked:
        with source.problems.catch(f"{page.place}:"):
            if parsing:
                add_output(page, answer)
            else:
                page.ask(question, [answer])
    if parsing:
        template = template.replace(QUESTION, questions.pop().replace(QUESTION, ""))
    prompt = keep_lines(template)
    if prompt in ("", QUESTION):
        return None
    if parsing:
        source.advice.append(
            "Every conversation asks for JSON in the same words, so the task is parsing."
        )
    source.advice.append(TEXTS["prompt"].format(n=len(prompt)))
    return prompt


def _is_json(answer: str) -> bool:
    """Test whether an answer is an object or a list that holds something."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list) and bool(value)
