"""The task that a source can teach, by what was found in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from audit.corpus.documents import TaskKind
from audit.errors import UsageError, listed
from audit.importers.gathering.drafts import DraftPage


@dataclass(frozen=True)
class Found:
    """Numbers of pages of a source with words, fields, questions, a class and an output."""

    pages: int
    words: int
    fields: int
    values: int
    questions: int
    labels: int
    outputs: int

    @classmethod
    def among(cls, pages: Sequence[DraftPage]) -> Found:
        """Count them."""
        return cls(
            len(pages),
            sum(bool(page.words) for page in pages),
            sum(bool(page.fields) for page in pages),
            sum(any(field.value for field in page.fields) for page in pages),
            sum(bool(page.questions) for page in pages),
            sum(page.label is not None for page in pages),
            sum(page.output is not None for page in pages),
        )

    def __str__(self) -> str:
        return (
            f"of {self.pages} pages, {self.words} have words, {self.fields} fields, {self.questions} questions, "
            f"{self.labels} a class, {self.outputs} an output"
        )


_TEACHES: Mapping[TaskKind, Callable[[Found], object]] = {
    "parsing": lambda found: found.outputs,
    "question-answering": lambda found: found.questions or found.values,
    "extractive-qa": lambda found: (found.questions or found.values) and found.words,
    "token-classification": lambda found: found.fields and found.words,
    "spade-extraction": lambda found: found.fields and found.words,
    "document-classification": lambda found: found.labels,
    "mlm": lambda found: found.words,
}
WORDS_FIRST = "write word files beside the images (tesseract PAGE.png PAGE hocr makes PAGE.hocr) and import again"
TASKS: tuple[TaskKind, ...] = tuple(_TEACHES)
"""Every task that a recognising source may be made into."""


def choose_task(name: str, pages: Sequence[DraftPage], wanted: TaskKind | None) -> TaskKind:
    """Choose the task: the owner's, else the first that the source speaks of.

    Outputs to be written come first, then questions, labelled words, classes; fields without words are asked for.

    Args:
        name: of the format.
        pages: of the source.
        wanted: None where the owner named none.

    Raises:
        UsageError: the source has nothing to learn the task from, or nothing at all.
    """
    found = Found.among(pages)
    fitting = [task for task, teaches in _TEACHES.items() if teaches(found)]
    if wanted is not None:
        if wanted not in fitting:
            problem = f"{name}: nothing to learn the task {wanted} from: {found}"
            hints = [WORDS_FIRST] if found.fields and not found.words else []
            hints += [f"--task {listed(fitting, 'or')}"] if fitting else []
            raise UsageError(problem, "; or ".join(hints))
        return wanted
    usual: list[TaskKind] = [] if found.questions else ["token-classification", "document-classification"]
    order: list[TaskKind] = ["parsing", *usual, "question-answering", "document-classification", "mlm"]
    chosen = next((task for task in order if task in fitting), None)
    if chosen is None:
        raise UsageError(f"{name}: nothing to learn a task from: {found}")
    return chosen
