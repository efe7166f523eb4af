"""The dialogue of `docaudit init`: a person in a terminal is asked for what no option says."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import typer

from audit.cards import RELEASES, AuditSheet
from audit.cli import console
from audit.cli.dividing import StatedMembers
from audit.cli.options import HELP, Assignment
from audit.corpus.documents import Mask, Redaction
from audit.corpus.validation import entry_problem
from audit.importers.interface import Importer

FolderMeaning = Literal["provider", "label", "none"]
"""What the names of folders mean."""
UNTRAINED = "none"
"""The answer that names no training documents: the model is still to be trained."""


@dataclass(frozen=True)
class Statements:
    """What an owner says about the documents of a model, by options or in answers.

    Attributes:
        members: which documents the model was trained on.
        assigned: how they were chosen.
        mask: how values are hidden in redacted copies.
        provider_column: column or key that names who provided a document.
        folders: what the names of folders mean.
        is_untrained: whether the model is still to be trained.
        sheet: what only the owner knows of the audit, for page one of its report.
    """

    members: StatedMembers
    assigned: Assignment | None = None
    mask: Mask | None = None
    provider_column: str | None = None
    folders: FolderMeaning | None = None
    is_untrained: bool = False
    sheet: AuditSheet = field(default_factory=AuditSheet)

    @property
    def may_draw(self) -> bool:
        """Tell whether docaudit may draw the members by lot."""
        return self.is_untrained and self.assigned is None

    @property
    def provider(self) -> str | None:
        """Return what names the provider of a document, or says what folders mean."""
        return self.provider_column or self.folders

    @property
    def redaction(self) -> Redaction | None:
        """Return how values are hidden in what is shared."""
        return None if self.mask is None else Redaction(self.mask)


def in_terminal() -> bool:
    """Test whether a person is there to read and answer: a log may be read by anyone."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")


def ask_missing(statements: Statements, importer: Importer) -> Statements:
    """Ask the owner for what no option says, and return all statements.

    Args:
        statements: what options say.
        importer: importer of the source's format.
    """
    if not (statements.members.names_members or statements.members.official):
        statements = _ask_for_members(statements)
    if statements.assigned is None and not statements.is_untrained:
        statements = replace(statements, assigned=_ask("assigned", get_args(Assignment)))
    if statements.mask is None:
        statements = replace(statements, mask=_ask("mask", get_args(Mask)))
    names_providers = statements.provider_column is not None or statements.folders is not None
    if importer.providers and not names_providers:
        statements = replace(statements, provider_column=_ask("provider"))
    return replace(statements, sheet=_ask_for_sheet())


def _ask_for_sheet() -> AuditSheet:
    """Ask what only the owner knows, and page one of the report names; all may be left out."""
    name = _ask_for_entry("model_name")
    version = None
    if name is not None:
        version = _ask_for_entry("model_version")
    return AuditSheet(
        model_name=name,
        model_version=version,
        system=_ask_for_entry("system"),
        purpose=_ask_for_entry("purpose"),
        controller=_ask_for_entry("controller"),
        release=_ask("release", RELEASES),
    )


def _ask_for_entry(key: str) -> str | None:
    """Ask for an entry of the sheet until it is one that page one can show; None: not stated."""
    while True:
        answer: str | None = _ask(key)
        if answer is None:
            return None
        problem = entry_problem(answer)
        if not problem:
            return answer
        console.say(problem)


def _ask_for_members(statements: Statements) -> Statements:
    """Ask which documents the model was trained on."""
    answer = _ask("trained")
    if answer is None:
        return statements
    if answer == UNTRAINED:
        return replace(statements, is_untrained=True)
    path = Path(answer)
    if path.is_dir():
        members = replace(statements.members, heldout_from=path)
    else:
        members = replace(statements.members, members=path)
    return replace(statements, members=members)


def _ask(question: str, choices: Sequence[str] = ()) -> Any:
    """Ask until the answer is one of the choices, or its number; any is, where there are none.

    Returns:
        The answer; None for an empty one.
    """
    console.say("", HELP[f"ask.{question}"])
    for number, choice in enumerate(choices, start=1):
        console.say(f"  {number}. {choice}: {HELP[f'choice_of_{question}.{choice}']}")
    console.say(f"  {HELP['ask.enter'].format(HELP[f'ask.{question}_empty'])}")
    prompt = HELP["ask.choose"] if choices else ""
    while True:
        answer = typer.prompt(prompt, default="", show_default=False, prompt_suffix="> ").strip()
        if not answer:
            return None
        if not choices or answer in choices:
            return answer
        if answer.isdecimal() and 0 < int(answer[:3]) <= len(choices):
            return choices[int(answer[:3]) - 1]
        console.say(f"{answer} is none of {', '.join(choices)}")
