"""Conversations as models are trained with: JSON lines, a list, or rows of a table.

They are about images or texts.

LLaVA, ShareGPT: {"image", "conversations": [{"from": "human", "value"}, {"from": "gpt", "value"}]};
OpenAI, Qwen, TRL and LLaMA-Factory: {"messages": [{"role", "content"}]}, content a text or a list
of parts, images in the parts or in a list of the row; {"prompt", "completion"}, texts or turns. A
user's turn is a question, the next turn of the assistant its answer. Without an image, the first
turn of the user holds the document: `audit.importers.prompts` divides it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
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


class _Answered(NamedTuple):
    """A question about a page, and its answer; the question may stand in a prompt."""

    page: Page
    question: str
    answer: str


class ConversationRow(NamedTuple):
    """A row of a source with the place that messages name.

    Attributes:
        place: place of the row.
        values: what the row holds.
        columns: the meanings of its keys.
        folder: folder where paths of its images begin, within the source.
        part: the part of the source's division that it is of.
    """

    place: str
    values: Mapping[str, Any]
    columns: Columns
    folder: str
    part: Part | None

    @property
    def name(self) -> str:
        """Return the id of the row; empty where it has none."""
        name = self.columns.value(self.values, "name")
        return clean(str(name)) if isinstance(name, str | int) else ""


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
        """Yield the pages of conversations about images."""
        talks = Conversations(source)
        hint = "give the file of conversations, or the folder that holds it"
        for path in source.files(".json", ".jsonl", hint=hint):
            folder = PurePosixPath(path).parent.as_posix()
            with source.problems.catch():
                for place, row in source.records(path):
                    with source.problems.catch(f"{place}:"):
                        columns = _columns_of(place, row, source)
                        talks.add(ConversationRow(place, row, columns, folder, part_of(path)))
        yield from talks.pages()


def _columns_of(place: str, row: Any, source: Source) -> Columns:
    """Return which keys of a row hold the parts of a conversation; refuse a row without one.

    Raises:
        ManifestError: the row is no object.
        UsageError: it is no conversation.
    """
    if not isinstance(row, dict):
        raise ManifestError("not an object")
    columns = Columns(row, named=source.options.columns)
    if not columns.talks:
        raise columns.refusal(place, TEXTS["no_talk"])
    return columns


class Conversations:
    """Yields the documents of conversations.

    They are images where any conversation has one, else the texts in their prompts.
    """

    def __init__(self, source: Source) -> None:
        """Start without conversations; their images are found within the source."""
        self._source = source
        self._systems: Mapping[bool, Counter[str]] = {True: Counter(), False: Counter()}
        self._images: dict[_Image, Page] = {}
        self._about_images: list[_Answered] = []
        self._prompts: list[_Answered] = []

    def add(self, row: ConversationRow) -> None:
        """Add the conversation of a row.

        Raises:
            ManifestError: it has another form.
        """
        turns = _turns(row.values, row.columns)
        images = _different_images(turns)
        if len(images) > 1:
            self._source.notes[NO_IMAGE] += 1
            return
        answered = _answered_turns(turns)
        n_questions = sum(turn.role == "user" for turn in turns)
        n_unanswered = n_questions - len(answered)
        self._source.notes["turns of a user without an answer, left out"] += n_unanswered
        system = "\n".join(turn.text for turn in turns if turn.role == "system").strip()
        self._systems[bool(images)][system] += 1
        if images:
            page = self._page(row, images[0])
            page.place = page.place or row.place
            self._about_images += [_Answered(page, *texts) for texts in answered]
        else:
            provider = self._source.provider(row.values)
            page = Page(row.name, part=row.part, provider=provider, place=row.place)
            self._prompts += [_Answered(page, *texts) for texts in answered[:1]]

    def pages(self) -> Iterator[Page]:
        """Yield the pages, with their questions.

        They have outputs where all are asked for JSON in the same words. The text that all
        questions share, also those of an import's first source, becomes the prompt of the manifest;
        a system turn that all have becomes its own.
        """
        if not any(self._systems.values()):
            return
        source = self._source
        talks: list[Conversations] = source.kept
        talks.append(self)
        of_images = any(talk._images for talk in talks)
        source.notes[NO_IMAGE] += len(self._prompts) if of_images else 0
        answered: list[tuple[Conversations, _Answered]] = []
        for talk in talks:
            of_talk = talk._about_images if of_images else talk._prompts
            answered += zip(repeat(talk), of_talk)
            talk._source.advice.clear()
            talk._source.notes[REBUILT] = 0
        if of_images:
            template, questions = _questions_about_images(answered)
            pages = list(self._images.values())
        else:
            template, questions, pages = self._questions_about_texts(answered)
        systems = Counter[str]()
        for talk in talks:
            systems += talk._systems[of_images]
        source.recipe = TrainingRecipe(
            prompt=_fill_pages(source, template, questions), system=_system(source, systems)
        )
        for talk in talks:
            talk._source.recipe = source.recipe
        if not of_images:
            _number_unnamed(pages)
        yield from pages

    def _questions_about_texts(
        self, answered: Sequence[tuple[Conversations, _Answered]]
    ) -> tuple[str, list[_Answered], list[Page]]:
        """Divide the prompts of all conversations into texts and questions.

        Prompts of one text and part share a page.

        Args:
            answered: each prompt with its answer, and the conversations that it is of.

        Returns:
            The prompt of all, the questions, and the pages of these conversations.
        """
        prompts = [each.question for _, each in answered]
        template, divided = divide_prompts(prompts, with_text=True)
        pages: dict[tuple[int, Part | None, str], Page] = {}
        questions: list[_Answered] = []
        for (talk, each), (text, question) in zip(answered, divided, strict=True):
            page = pages.setdefault((id(talk), each.page.part, text), each.page)
            _forget_questions(page)
            page.words = text_words(text)
            rebuilt = fill_prompt(template, page.words, question)
            self._source.notes[REBUILT] += rebuilt != keep_lines(each.question)
            questions.append(_Answered(page, question, each.answer))
        pages_of_self = [page for (talk_id, _, _), page in pages.items() if talk_id == id(self)]
        return template, questions, pages_of_self

    def _page(self, row: ConversationRow, image: _Image) -> Page:
        """Return the page of a conversation's image; conversations about one image share it."""
        source = self._source
        if isinstance(image, str):
            image = source.find_image(image, row.folder)
        if image not in self._images:
            if isinstance(image, str):
                page = Page(source.ids[image], source.root / image)
                page.provider = source.provider(row.values, image)
            else:
                name = row.name or f"row-{len(self._images) + 1:06d}"
                page = Page(name, source.save_image(image))
                page.provider = source.provider(row.values)
            page.part = row.part
            self._images[image] = page
        return self._images[image]


def _different_images(turns: Sequence[_Turn]) -> list[_Image]:
    """List the images of a conversation's turns, each once."""
    images: list[_Image] = []
    for turn in turns:
        images += [image for image in turn.images if image not in images]
    return images


def _answered_turns(turns: Sequence[_Turn]) -> list[tuple[str, str]]:
    """List pairs of a user's turn and the reply to it; turns of the system are left out."""
    talk = [turn for turn in turns if turn.role != "system"]
    return [
        (turn.text, reply.text)
        for turn, reply in pairwise(talk)
        if (turn.role, reply.role) == ("user", "reply")
    ]


def _forget_questions(page: Page) -> None:
    """Remove from a page the questions and the output that an earlier source gave it."""
    page.questions = []
    page.output = None
    page.unanswered = 0


def _questions_about_images(
    answered: Sequence[tuple[Conversations, _Answered]],
) -> tuple[str, list[_Answered]]:
    """Divide prompts about images into the words that all share, and the questions."""
    template, divided = divide_prompts([each.question for _, each in answered], with_text=False)
    questions: list[_Answered] = []
    for (_, each), (_, question) in zip(answered, divided, strict=True):
        _forget_questions(each.page)
        questions.append(_Answered(each.page, question, each.answer))
    return template, questions


def _number_unnamed(pages: Sequence[Page]) -> None:
    """Name the pages by their number, unless each has a name of its own."""
    if len({page.name for page in pages} - {""}) < len(pages):
        for number, page in enumerate(pages):
            page.name = f"text-{number:06d}"


def _system(source: Source, systems: Counter[str]) -> str | None:
    """Return the system turn that all conversations share; None where none or several are used."""
    if len(systems) > 1:
        total = systems.total()
        source.advice.append(TEXTS["systems"].format(n=total - systems[""], total=total))
        return None
    return keep_lines(next(iter(systems), "")) or None


def _turns(row: Mapping[str, Any], columns: Columns) -> list[_Turn]:
    """Return the turns of the conversation that a row holds.

    The first holds the images, and the system prompt, of the row itself.

    Raises:
        ManifestError: it has another form.
    """
    prompt = columns.value(row, "prompt")
    completion = columns.value(row, "completion")
    if columns["turns"]:
        prompt = columns.value(row, "turns")
        completion = []
    if isinstance(prompt, list) and isinstance(completion, list):
        talk = [_turn(turn, number) for number, turn in enumerate([*prompt, *completion])]
    elif isinstance(prompt, str) and isinstance(completion, str):
        talk = [_Turn("user", MARKS.sub("", prompt), []), _Turn("reply", completion, [])]
    else:
        raise ManifestError("no list of turns, and no texts of prompt and completion")
    system = row.get("system")
    if not isinstance(system, str):
        system = ""
    return [_Turn("system", system, list(_images(_first_value(row, IMAGE_KEYS)))), *talk]


def _first_value(table: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Return the value of the first of these keys that has one in a table; None without any."""
    return next((table[key] for key in keys if table.get(key)), None)


def _turn(turn: Any, number: int) -> _Turn:
    """Read a turn of a conversation.

    Raises:
        ManifestError: it has another form.
    """
    if not isinstance(turn, dict):
        raise ManifestError(f"turn {number}: not an object")
    role = _ROLES.get(str(turn.get("role", turn.get("from"))).lower())
    if role is None:
        raise ManifestError(f"turn {number}: its role is none of {', '.join(_ROLES)}")
    content = turn.get("content", turn.get("value"))
    texts: list[str] = []
    images: list[_Image] = []
    for piece in content if isinstance(content, list) else [content]:
        text = piece.get("text") if isinstance(piece, dict) else piece
        if isinstance(text, str):
            texts.append(text)
        elif isinstance(piece, dict):
            images += _images(
                piece.get("image", piece.get("image_url", piece.get("path", piece.get("url"))))
            )
        else:
            raise ManifestError(f"turn {number}: its content is neither a text nor a list of parts")
    return _Turn(role, MARKS.sub("", "\n".join(texts)).strip(), images)


def _images(value: Any) -> Iterator[_Image]:
    """Yield the images that a value names.

    It is a path, an address, bytes, also in base64, or a list of several.
    """
    if isinstance(value, list):
        for inner in value:
            yield from _images(inner)
    elif isinstance(value, dict):
        yield from _images(_first_value(value, ("bytes", "url", "path", "image")))
    elif isinstance(value, str) and value.startswith("data:"):
        yield _image_of_address(value)
    elif isinstance(value, str) and value:
        yield value.removeprefix("file://")
    elif isinstance(value, bytes) and value:
        yield value


def _image_of_address(address: str) -> bytes:
    """Decode an image that is written into its own address (data:...).

    Raises:
        ManifestError: it is no valid base64.
    """
    try:
        return base64.b64decode(address.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        raise ManifestError("an image is no valid base64") from None


def _fill_pages(source: Source, template: str, answered: Sequence[_Answered]) -> str | None:
    """Give pages their questions; or outputs, where all are asked for JSON in the same words.

    Returns:
        The prompt that all questions stood in, or that asked for all outputs; None where there is
        none.
    """
    parsing = source.task in (None, "parsing") and _all_ask_for_json(answered)
    for page, question, answer in answered:
        with source.problems.catch(f"{page.place}:"):
            if parsing:
                add_output(page, answer)
            else:
                page.ask(question, [answer])
    if parsing:
        question = answered[0].question
        template = template.replace(QUESTION, question.replace(QUESTION, ""))
    prompt = keep_lines(template)
    if prompt in ("", QUESTION):
        return None
    if parsing:
        source.advice.append(
            "Every conversation asks for JSON in the same words, so the task is parsing."
        )
    source.advice.append(TEXTS["prompt"].format(n=len(prompt)))
    return prompt


def _all_ask_for_json(answered: Sequence[_Answered]) -> bool:
    """Test whether every page is asked once, in the same words, and answered by JSON."""
    questions = {each.question for each in answered}
    pages = {id(each.page) for each in answered}
    if len(questions) != 1 or len(pages) != len(answered):
        return False
    return all(_is_json(each.answer) for each in answered)


def _is_json(answer: str) -> bool:
    """Test whether an answer is JSON: an object or a list that is not empty."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list) and bool(value)
