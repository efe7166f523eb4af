"""Conversations as models are trained with: JSON lines, a list, or rows of a table.

They are about images or texts.

LLaVA, ShareGPT: {"image", "conversations": [{"from": "human", "value"}, {"from": "gpt", "value"}]};
OpenAI, Qwen, TRL and LLaMA-Factory: {"messages": [{"role", "content"}]}, content a text or a list
of parts, images in the parts or in a list of the row; {"prompt", "completion"}, texts or turns. A
user's turn is a question, the next turn of the assistant its answer. Without an image, the first
turn of the user holds the document: `audit.importers.prompts` divides it.

ms-swift, Alpaca: {"query" or "instruction", "input", "response" or "output", "system", "history"};
turns {"human", "assistant"}. Qwen-VL names an image within the text: <img>PATH</img>.
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
from audit.importers.files import TEXTS, form_of, parse_json, read_text
from audit.importers.interface import Importer
from audit.importers.pages import Page, Part, clean, keep_lines, part_of, text_words
from audit.importers.prompts import QUESTION, divide_prompts, fill_prompt
from audit.importers.source import Source, person_of

IMAGE_KEYS = ("image", "images", "image_path", "img")
MARKS = re.compile(r"<\|?/?(image|image_pad|vision_start|vision_end|img)\|?>")
"""Marks of the image in a text, which chat templates put there by themselves."""
_INLINE = re.compile(r"(?:\b(?:Picture|Image) ?\d{1,3}: ?)?<img>([^<>\n]{1,999})</img>\n?")
"""An image that is named within a text, as Qwen-VL has it."""
_NAMED_IMAGE = re.compile(
    r"!\[[^\[\]\n]{0,99}\]\(([^()\s]{1,999})\)"
    r"|<img [^<>]{0,99}src=[\"']([^\"'<>]{1,999})[\"'][^<>]{0,99}>"
    r"|^[ \t]*([^\s<>]{1,999}\.(?:png|jpe?g|tiff?|webp))[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""What is an image where the source has it: of Markdown, of HTML, or a path as a line."""
INFO = "dataset_info.json"
"""LLaMA-Factory's list of data sets, which names their columns."""
_INFO_MEANINGS = {"messages": "turns", "prompt": "prompt", "response": "completion"} | {
    "images": "image"
}
_ROLES = {"system": "system", "user": "user", "human": "user"} | dict.fromkeys(
    ("assistant", "gpt", "model", "bot"), "reply"
)
NO_IMAGE = "conversations about no image or several, left out"
UNANSWERED = "turns of a user without an answer, left out"
LATER_TURNS = "questions of a later turn, which are asked without the turns before them"
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
    marks = (
        *((name, r'"(messages|conversations?)":\s*\[') for name in ("*.jsonl", "*.json")),
        ("*.jsonl", r'^\s*\{[^{}]*"query":'),
        ("*.json", r'^\s*\[\s*\{[^{}]*"(response|output)":'),
    )

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of conversations about images."""
        talks = Conversations(source)
        hint = "give the file of conversations, or the folder that holds it"
        files = source.files(".json", ".jsonl", hint=hint)
        columns_by_file = _columns_of_info(source, files)
        for path in files:
            if PurePosixPath(path).name == INFO and len(files) > 1:
                continue
            folder = PurePosixPath(path).parent.as_posix()
            by_info = columns_by_file.get(PurePosixPath(path).name, {})
            named_columns = {**by_info, **source.options.columns}
            with source.problems.catch():
                for place, row in source.records(path):
                    with source.problems.catch(f"{place}:"):
                        columns = _columns_of(place, row, named_columns)
                        source.unread.note(columns.names, columns.used, row)
                        talks.add(ConversationRow(place, row, columns, folder, part_of(path)))
        yield from talks.pages()


def _columns_of_info(source: Source, files: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what LLaMA-Factory's list of data sets says of columns, by meaning, by file."""
    columns: dict[str, dict[str, str]] = {}
    for path in files:
        if PurePosixPath(path).name != INFO:
            continue
        with source.problems.catch(f"{path}:"), form_of("LLaMA-Factory's list of data sets"):
            table = parse_json(read_text(source.at(path)), "not JSON")
            for entry in table.values():
                names = entry.get("columns", {})
                of_file = {
                    meaning: names[key] for key, meaning in _INFO_MEANINGS.items() if key in names
                }
                columns[PurePosixPath(entry.get("file_name", "")).name] = of_file
    return columns


def _columns_of(place: str, row: Any, named: Mapping[str, str]) -> Columns:
    """Return which keys of a row hold the parts of a conversation; refuse a row without one.

    Raises:
        ManifestError: the row is no object.
        UsageError: it is no conversation.
    """
    if not isinstance(row, dict):
        raise ManifestError("not an object")
    columns = Columns(row, named=named)
    if not (columns.talks or columns.asks):
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
        turns = [self._with_images(turn, row) for turn in _turns(row.values, row.columns)]
        images = _different_images(turns)
        if len(images) > 1:
            self._source.notes[NO_IMAGE] += 1
            return
        answered = _answered_turns(turns)
        n_questions = sum(turn.role == "user" for turn in turns)
        self._source.notes[UNANSWERED] += n_questions - len(answered)
        system = "\n".join(turn.text for turn in turns if turn.role == "system").strip()
        self._systems[bool(images)][system] += 1
        if images:
            page = self._page(row, images[0])
            page.place = page.place or row.place
            self._source.notes[LATER_TURNS] += len(answered[1:])
            self._about_images += [_Answered(page, *texts) for texts in answered]
        else:
            provider = self._source.provider(row.values)
            page = Page(row.name, part=row.part, provider=provider, place=row.place)
            page.person = person_of(row.values)
            self._prompts += [_Answered(page, *texts) for texts in answered[:1]]

    def _with_images(self, turn: _Turn, row: ConversationRow) -> _Turn:
        """Return a user's turn with the images of the source that its text names."""
        if turn.role != "user":
            return turn
        images: list[_Image] = []
        text = ""
        end = 0
        for match in _NAMED_IMAGE.finditer(turn.text):
            name = next(filter(None, match.groups()))
            if self._source.has_image(name, row.folder):
                images.append(name)
                text += turn.text[end : match.start()]
                end = match.end()
        if not images:
            return turn
        return _Turn(turn.role, (text + turn.text[end:]).strip(), [*turn.images, *images])

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
            page.person = person_of(row.values)
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
    if columns["turns"]:
        talk = _talk(columns.value(row, "turns"))
    else:
        talk = [*_history(row), *_prompt_and_completion(row, columns)]
    system = row.get("system")
    if not isinstance(system, str):
        system = ""
    keys = [columns["image"], *IMAGE_KEYS]
    return [_Turn("system", system, list(_images(_first_value(row, keys)))), *talk]


def _talk(turns: Any) -> list[_Turn]:
    """Return the turns of a list of them.

    Raises:
        ManifestError: it is none.
    """
    if not isinstance(turns, list):
        raise ManifestError("no list of turns, and no texts of prompt and completion")
    talk: list[_Turn] = []
    for number, turn in enumerate(turns):
        talk += _turns_of(turn, number)
    return talk


def _turns_of(turn: Any, number: int) -> list[_Turn]:
    """Return the turn that an entry is, or those that it has by role.

    Raises:
        ManifestError: it has another form.
    """
    if isinstance(turn, dict) and turn and {key.lower() for key in turn} <= _ROLES.keys():
        return [_text_turn(_ROLES[role.lower()], text, number) for role, text in turn.items()]
    return [_turn(turn, number)]


def _history(row: Mapping[str, Any]) -> list[_Turn]:
    """Return the turns before the prompt of a row: pairs of a question and its answer.

    Raises:
        ManifestError: they have another form.
    """
    talk: list[_Turn] = []
    with form_of("pairs of a question and an answer: history"):
        for number, (question, answer) in enumerate(row.get("history") or ()):
            talk.append(_text_turn("user", question, number))
            talk.append(_text_turn("reply", answer, number))
    return talk


def _prompt_and_completion(row: Mapping[str, Any], columns: Columns) -> list[_Turn]:
    """Return the turns of a prompt and its completion; of an instruction, with its input.

    Raises:
        ManifestError: they are neither texts nor turns.
    """
    prompt_column = columns["prompt"] or columns["question"]
    prompt = row.get(prompt_column)
    completion = row.get(columns["completion"] or columns["answers"])
    if isinstance(prompt, list) and isinstance(completion, list):
        return _talk([*prompt, *completion])
    document = row.get("input")
    if prompt_column == "instruction" and isinstance(document, str) and document.strip():
        prompt = f"{prompt}\n{document}"
    if not (isinstance(prompt, str) and isinstance(completion, str)):
        raise ManifestError("no list of turns, and no texts of prompt and completion")
    text, images = _take_inline(prompt)
    return [_Turn("user", MARKS.sub("", text), images), _Turn("reply", completion, [])]


def _text_turn(role: str, text: Any, number: int) -> _Turn:
    """Return a turn of one text.

    Raises:
        ManifestError: it is none.
    """
    if not isinstance(text, str):
        raise ManifestError(f"turn {number}: its content is neither a text nor a list of parts")
    rest, images = _take_inline(text)
    return _Turn(role, MARKS.sub("", rest).strip(), images)


def _take_inline(text: str) -> tuple[str, list[_Image]]:
    """Return a text without the images that stand in it between marks, and their names."""
    images: list[_Image] = [match[1].strip() for match in _INLINE.finditer(text)]
    return _INLINE.sub("", text), images


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
    joined_text, inline_images = _take_inline("\n".join(texts))
    return _Turn(role, MARKS.sub("", joined_text).strip(), [*images, *inline_images])


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
