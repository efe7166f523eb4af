"""The formats that can be imported, by name, and the refusal of options that one of them does not take."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from audit import plugins
from audit.corpus.documents import TaskKind
from audit.errors import UsageError, listed
from audit.importers.chat import Chat
from audit.importers.coco import COCO
from audit.importers.csv_fields import FieldTable
from audit.importers.docvqa import DocVQA
from audit.importers.forms import Forms
from audit.importers.funsd import FUNSD
from audit.importers.hf import HuggingFace
from audit.importers.interface import Source
from audit.importers.label_studio import LabelStudio
from audit.importers.pdf import PDFFolder
from audit.importers.pfl_docvqa import PFLDocVQA
from audit.importers.snips import Snips
from audit.importers.sroie import SROIE
from audit.importers.tab import TAB
from audit.importers.word_folders import ALTO, HOCR, DocTR, Textract

_CORE: tuple[Source, ...] = (
    *(SROIE(), FUNSD(), DocVQA(), PFLDocVQA(), TAB(), Snips()),
    *(Forms(), HuggingFace(), Chat(), LabelStudio(), COCO(), FieldTable(), PDFFolder()),
    *(HOCR(), ALTO(), DocTR(), Textract()),
)
FORMATS: Mapping[str, Source] = plugins.extend({source.name: source for source in _CORE}, "docaudit.importers")
ASKS: TaskKind = "question-answering"
"""The task that has an option of its own."""
RECOGNISED = "recognised formats"
"""All sources that recognise tasks, columns and boxes, in the help and in messages."""


def choices(source: Source) -> tuple[TaskKind, ...]:
    """The tasks that `--task` names: without answering questions, unless the source recognises tasks; not of one."""
    if source.recognises:
        return source.tasks
    return tuple(task for task in source.tasks if task != ASKS) if len(source.tasks) > 1 else ()


def may_ask(source: Source) -> bool:
    """Test whether the owner can choose that the source asks questions."""
    return ASKS in source.tasks and len(source.tasks) > 1 and not source.recognises


def has_parts(source: Source) -> bool:
    """Test whether the source has a division of its own."""
    return "official" in source.divisions


def names_providers(source: Source) -> bool:
    """Test whether the source can be divided by provider."""
    return "by-provider" in source.divisions


def recognises(source: Source) -> bool:
    """Test whether the source reads tasks, columns and boxes off what it finds."""
    return source.recognises


def names_of(fits: Callable[[Source], object]) -> tuple[str, ...]:
    """The names of the formats that fit; those that recognise what they read, in one word where all of them fit."""
    strict = tuple(name for name, source in FORMATS.items() if fits(source) and not source.recognises)
    others = [source for source in FORMATS.values() if source.recognises]
    return (*strict, *((RECOGNISED,) if others and all(map(fits, others)) else ()))


def check_options(
    source: Source,
    *,
    task: str | None = None,
    questions: bool = False,
    official: bool = False,
    by_provider: bool = False,
    kept_aside: int | None = None,
    said: Mapping[str, object] | None = None,
) -> None:
    """Refuse options that the format knows nothing of: left unheeded, they would import something else than asked.

    Args:
        source: the format.
        task: of `--task`.
        questions: of `--questions`.
        official: of `--official`.
        by_provider: of `--by-provider`.
        kept_aside: of `--kept-aside`.
        said: by option, what the owner says of columns and boxes, None where nothing.

    Raises:
        UsageError: there is such an option, or two that contradict each other.
    """
    unheeded = [name for name, value in (said or {}).items() if value is not None and not source.recognises]
    if unheeded:
        those = listed(names_of(recognises), "and")
        raise UsageError(
            f"{source.name} has columns and boxes of one meaning: {listed(unheeded, 'and')} is for {those}"
        )
    asks_only = source.tasks == (ASKS,)
    if len(source.tasks) == 1 and (task or (questions and asks_only)):
        needless = "--task and --questions" if asks_only else "--task"
        raise UsageError(f"{source.name} holds {source.holds} only", f"leave out {needless}")
    if official and not has_parts(source):
        those = listed(names_of(has_parts), "and")
        raise UsageError(f"{source.name} has one part only: --official is for {those}")
    if questions and (not may_ask(source) or task):
        raise UsageError(f"--questions is for {listed(names_of(may_ask), 'and')}, and in place of --task")
    if by_provider and not names_providers(source):
        those = listed(names_of(names_providers), "and")
        raise UsageError(f"{source.name} names no providers: --by-provider is for {those}", "leave out --by-provider")
    if by_provider and official:
        raise UsageError(
            "--official keeps the source's own division, --by-provider draws one",
            "--official where your model was trained on the training part, else --by-provider",
        )
    if kept_aside is not None and not by_provider:
        raise UsageError("--kept-aside says how --by-provider divides", "add --by-provider, or leave it out")
