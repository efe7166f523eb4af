"""The task that a source teaches, and what its owner can do where it teaches none."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from audit.corpus.documents import TaskKind
from audit.errors import UsageError, listed
from audit.importers.pages import Page
from audit.importers.unread import UnreadColumns

WORDS_FIRST = (
    "import again with --ocr eng (Tesseract), or with word files of another OCR beside the images"
)


@dataclass(frozen=True)
class _Need:
    """What a task is learned from.

    Attributes:
        is_met: tests the counts of `_CONTENTS`.
        sentence: what it needs, for a message.
    """

    is_met: Callable[[Counter[str]], object]
    sentence: str


_NEEDS: Mapping[TaskKind, _Need] = {
    "parsing": _Need(lambda counts: counts["an output"], "an output for each page"),
    "question-answering": _Need(
        lambda counts: counts["questions"] or counts["values"], "questions with answers, or values"
    ),
    "extractive-qa": _Need(
        lambda counts: (counts["questions"] or counts["values"]) and counts["words"],
        "words, and questions with answers or values",
    ),
    "token-classification": _Need(
        lambda counts: counts["fields"] and counts["words"], "words, and tags or fields"
    ),
    "spade-extraction": _Need(
        lambda counts: counts["fields"] and counts["words"], "words, and tags or fields"
    ),
    "document-classification": _Need(lambda counts: counts["a class"], "the class of each page"),
    "mlm": _Need(lambda counts: counts["words"], "words"),
}
TASKS: tuple[TaskKind, ...] = tuple(_NEEDS)
"""Every task that a source may be made into whose task is recognised."""
_CONTENTS: Mapping[str, Callable[[Page], object]] = {
    "words": lambda page: page.words,
    "fields": lambda page: page.fields,
    "questions": lambda page: page.questions,
    "a class": lambda page: page.label is not None,
    "an output": lambda page: page.output is not None,
    "values": lambda page: any(field.value for field in page.fields),
}
"""Tests of what a page has to learn from, by its name in messages."""


@dataclass(frozen=True)
class TaskChoice:
    """The tasks that a source may be made into.

    Attributes:
        task: the owner's task, or the model's; None where the source tells it.
        possible: tasks that the model can have; empty: any.
    """

    task: TaskKind | None = None
    possible: tuple[TaskKind, ...] = ()

    @property
    def tasks(self) -> tuple[TaskKind, ...]:
        """Return all of them."""
        if self.task is not None:
            return (self.task,)
        return self.possible or TASKS

    @property
    def phrase(self) -> str:
        """Name them for a message."""
        if self.task is None and not self.possible:
            return "a task"
        return f"the task {listed(self.tasks, 'or')}"


def choose_task(
    name: str, pages: Sequence[Page], choice: TaskChoice, unread: UnreadColumns
) -> TaskKind:
    """Return the task: the owner's, else the first that the source's contents allow.

    Outputs to be written come first, then questions, labelled words, classes; fields without words
    are asked for.

    Args:
        name: name of the format.
        pages: pages of the source.
        choice: the tasks that it may be.
        unread: columns of the source that were not read.

    Raises:
        UsageError: the source has nothing to learn the task from, or nothing at all.
    """
    counts = _count_contents(pages)
    fitting = _fitting(counts)
    order = _task_order(counts) if choice.task is None else [choice.task]
    for kind in order:
        if kind in choice.tasks and kind in fitting:
            return kind
    problems = [f"{name}: nothing to learn {choice.phrase} from: {_summary(counts, len(pages))}"]
    columns = str(unread)
    if columns:
        problems.append(f"{name}: columns that were not read: {columns}")
    raise UsageError(problems, _hint(counts, fitting, choice, unread))


def _fitting(counts: Counter[str]) -> list[TaskKind]:
    """List the tasks that can be learned from pages with these contents."""
    return [kind for kind, need in _NEEDS.items() if need.is_met(counts)]


def _count_contents(pages: Sequence[Page]) -> Counter[str]:
    """Count the pages that have each of `_CONTENTS`."""
    counts = Counter[str]()
    for content, has_content in _CONTENTS.items():
        counts[content] = sum(bool(has_content(page)) for page in pages)
    return counts


def _summary(counts: Counter[str], n_pages: int) -> str:
    """Say how many pages have what."""
    present = [f"{count} have {content}" for content, count in counts.items() if count]
    absent = [content for content, count in counts.items() if not count]
    if absent:
        present.append(f"none has {listed(absent, 'or')}")
    return f"of {n_pages} pages, {', '.join(present)}"


def _hint(
    counts: Counter[str], fitting: Sequence[TaskKind], choice: TaskChoice, unread: UnreadColumns
) -> str:
    """Return what an owner can do about a source that lacks what a task needs."""
    hints: list[str] = []
    meanings = unread.meanings
    if meanings:
        hints.append(f"say what they mean, as --columns output=NAME does: {meanings}")
    if not unread.hold_texts and _lacks_words_alone(counts, choice):
        hints.append(WORDS_FIRST)
    if not hints:
        hints += _needs_of(choice)
    allowed = [kind for kind in fitting if kind in (choice.possible or TASKS)]
    if allowed:
        hints.append(f"--task {listed(allowed, 'or')}")
    return "; or ".join(hints)


def _needs_of(choice: TaskChoice) -> list[str]:
    """Say what each chosen task needs; nothing where any task is welcome."""
    if choice.tasks == TASKS:
        return []
    return [f"{kind} needs {_NEEDS[kind].sentence}" for kind in choice.tasks]


def _lacks_words_alone(counts: Counter[str], choice: TaskChoice) -> bool:
    """Test whether words would do what a task lacks."""
    if counts["words"]:
        return False
    with_words = _fitting(counts | Counter({"words": 1}))
    return any(kind in with_words for kind in choice.tasks)


def _task_order(counts: Counter[str]) -> list[TaskKind]:
    """Return the tasks in the order in which they are tried for a source of these contents."""
    order: list[TaskKind] = ["parsing"]
    if not counts["questions"]:
        order += ["token-classification", "document-classification"]
    order += ["question-answering", "document-classification", "mlm"]
    return order
