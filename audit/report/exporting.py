"""Choose what other tools get of an audit: limited numbers, names with their digests, and files.

An exporter is an entry point in the group `docaudit.exporters`. It gets a `TrackedAudit`, which
holds no text of a document. Persons of waivers are named by its files alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from audit import __version__
from audit.errors import UsageError
from audit.policy import Decision
from audit.report.facts.definitions import Facts
from audit.report.files import NAMES
from audit.report.numbers import bound_of
from audit.report.verdicts import Judged
from audit.report.verdicts.document import subject_of
from audit.report.verdicts.words import as_note

RECORD = "record.json"


class Exporter(Protocol):
    """Hands an audit over to another tool."""

    def __call__(self, audit: TrackedAudit, options: Mapping[str, str], *, network: bool) -> str:
        """Hand the audit over, and say where it is now.

        Args:
            audit: what the tool may get.
            options: KEY=VALUE of `--to NAME:KEY=VALUE,...`.
            network: whether the user allows the network; without, all has to stay on this machine.

        Raises:
            UsageError: an option is unknown or missing, the tool is not installed, or it needs the
                network.
        """
        ...


@dataclass(frozen=True)
class TrackedAudit:
    """An audit as other tools get it.

    Attributes:
        judged: the record, and the verdict on it.
        folder: folder of the record.
        has_reports: whether the reports in the folder are of this verdict.
    """

    judged: Judged
    folder: Path
    has_reports: bool

    @property
    def facts(self) -> Facts:
        """Return the facts that every output draws from."""
        return self.judged.facts

    @property
    def decisions(self) -> list[Decision]:
        """List the limits for which there is a number."""
        decisions = self.judged.verdict.decisions
        return [decision for decision in decisions if decision.measured is not None]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Return every limited number with interval and limit, the counts, and the exit code."""
        numbers: dict[str, float] = {}
        for decision in self.decisions:
            numbers |= _numbers_of(decision)
        counts = self.judged.verdict.counts
        numbers |= {
            "limits/exceeded": counts.violated,
            "limits/undecided": counts.undecided,
            "limits/waived": counts.waived,
            "limits/met": counts.met,
            "limits/unexamined": counts.unexamined,
            "exit_code": self.judged.verdict.exit_code,
        }
        return numbers

    @property
    def outcomes(self) -> dict[str, str]:
        """Return the outcome of every limit by its name, and that of the audit as "verdict"."""
        verdict = self.judged.verdict
        words = {_name_of(decision): str(decision.word) for decision in verdict.decisions}
        return {**words, "verdict": str(verdict.word)}

    @property
    def parameters(self) -> dict[str, str]:
        """Return what was audited how: names, digests, budget and seed."""
        record = self.judged.record
        verdict = self.judged.verdict
        subject = subject_of(record)
        digest = None
        if verdict.identity is not None:
            digest = verdict.identity.sha256
        values = {
            "model": subject.model,
            "model_sha256": subject.model_sha256,
            "data": subject.data,
            "data_sha256": subject.data_sha256,
            "policy": verdict.policy,
            "policy_sha256": digest,
            "budget": record.budget,
            "seed": record.seed,
            "scanned": subject.scanned,
            "docaudit": __version__,
        }
        return {name: str(value) for name, value in values.items() if value is not None}

    @property
    def name(self) -> str:
        """Return the name of a run: the model, or the data set where no model was audited."""
        subject = subject_of(self.judged.record)
        return subject.model or subject.data

    @property
    def note(self) -> str:
        """Return the verdict and what each attack reached, in Markdown."""
        return as_note(self.judged)

    @property
    def files(self) -> list[Path]:
        """List the files that may be shared; the evidence is never among them."""
        names = [RECORD]
        if self.has_reports:
            names += NAMES
        paths = [self.folder / name for name in names]
        return [path for path in paths if path.is_file() and not path.is_symlink()]


def _name_of(decision: Decision) -> str:
    """Name a limit as trackers do, with a slash between attack and metric."""
    return f"{decision.limit.attack}/{decision.limit.metric}"


def _numbers_of(decision: Decision) -> dict[str, float]:
    """Return a limited number, the ends of its interval, and the limit, by their names."""
    measured = decision.measured
    if measured is None:
        return {}
    name = _name_of(decision)
    numbers = {
        name: measured.value,
        f"{name}.low": measured.low,
        f"{name}.high": measured.high,
        f"{name}.limit": bound_of(decision.limit),
    }
    if measured.open_above:
        del numbers[f"{name}.high"]
    return numbers


def check_options(exporter: str, options: Mapping[str, str], known: Collection[str]) -> None:
    """Refuse options that an exporter does not take.

    Raises:
        UsageError: it does not take one.
    """
    for name in options:
        if name not in known:
            raise UsageError(
                f"--to {exporter}: it takes no option {name!r}", f"one of {', '.join(known)}"
            )


def load_tool(exporter: str, module: str, package: str) -> Any:
    """Import the module of a tool.

    Raises:
        UsageError: it is not installed.
    """
    tool = None
    with suppress(ImportError):
        tool = import_module(module)
    # A folder of this name, as wandb leaves one, is a module without a file.
    if tool is None or getattr(tool, "__file__", None) is None:
        raise UsageError(f"--to {exporter}: {module} is not installed", f"pip install {package}")
    return tool


def need_network(exporter: str, place: str, *, network: bool) -> None:
    """Refuse to send anything to another machine without leave.

    Raises:
        UsageError: the network is not allowed.
    """
    if not network:
        raise UsageError(
            f"--to {exporter}: {place} is on another machine",
            "add --allow-network to send it there",
        )
