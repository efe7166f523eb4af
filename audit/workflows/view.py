"""The page over all records of a folder, for `docaudit view`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit import policy as policies
from audit.errors import DocauditError, RecordError, command_line
from audit.files import check_folder, write_output
from audit.policy import Policy
from audit.progress import steps
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import Facts
from audit.report.view.audits import Audits, Run, pairs_of, series_of
from audit.report.view.page import NAME, render
from audit.workflows.apart import refuse_audited
from audit.workflows.gate import load_policy
from audit.workflows.record_files import FolderSearch, RecordFile, read, reason_of, search

SHOWN = 5
"""Reasons that an error names."""


@dataclass(frozen=True)
class Page:
    """The page as it was drawn.

    Attributes:
        html: the page.
        audits: what it shows.
    """

    html: str
    audits: Audits


class View:
    """The page of one folder, drawn again where its records have changed."""

    def __init__(self, folder: Path, policy: str) -> None:
        """Take the folder with the scans and the policy of all verdicts.

        Raises:
            DocauditError: the policy cannot be read.
        """
        self._folder = folder
        self._policy = load_policy(policy, complete=False)
        self._files: Sequence[RecordFile] | None = None
        self._page: Page | None = None

    def page(self) -> Page:
        """Return the page; a folder without any record keeps the page that was drawn before.

        Raises:
            DocauditError: there is no folder, or it never held a record that can be read.
        """
        found = search(self._folder)
        if self._page is not None and found.files == self._files:
            return self._page
        try:
            audits = collect(found, self._policy)
        except RecordError:
            if self._page is None:
                raise
            return self._page
        self._page = Page(render(audits), audits)
        self._files = list(found.files)
        return self._page


def collect(found: FolderSearch, policy: Policy) -> Audits:
    """Read the records of a search, judge each, and compare those that are alike.

    Raises:
        RecordError: none of them can be read.
    """
    judged: list[tuple[str, Facts]] = []
    for file in steps("reading records", found.files, len(found.files)):
        try:
            record = read(file)
            verdict = policies.evaluate(record, policy, policies.today())
            judged.append((file.name, facts_of(record, verdict)))
        except DocauditError as error:
            found.leave_out(file.name, reason_of(error))
    if not judged:
        raise _nothing_to_show(found)
    judged.sort(key=lambda scan: scan[1].record.timing.finished, reverse=True)
    runs = [Run(number, name, facts) for number, (name, facts) in enumerate(judged, 1)]
    series = series_of(runs)
    return Audits(
        folder=found.folder.resolve().name or found.folder.resolve().as_posix(),
        policy=policy,
        runs=tuple(runs),
        series=series,
        pairs=pairs_of(series, policy),
        left_out=tuple(found.left_out),
        n_more=found.n_more,
    )


def _nothing_to_show(found: FolderSearch) -> RecordError:
    """Return the error of a folder without any record that can be read."""
    problems = [f"{found.folder}: no record.json that can be read"]
    problems += [f"{item.name}: {item.reason}" for item in found.left_out[:SHOWN]]
    return RecordError(problems, f"name a folder that holds scans: {command_line('view', 'DIR')}")


def write_page(folder: Path, policy: str, out: Path) -> tuple[Path, Page]:
    """Write the page of a folder into the folder `out`, and return its path too.

    Raises:
        DocauditError: as `View.page`, or nothing can be written there.
    """
    refuse_audited("--out", out)
    check_folder("--out", out)
    page = View(folder, policy).page()
    path = out / NAME
    write_output(path, page.html.encode("utf-8", errors="replace"))
    return path, page
