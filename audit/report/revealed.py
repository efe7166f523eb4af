"""The one report with recovered values, in `evidence/` for its owner alone; nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.attacks import text_of
from audit.errors import RenderError
from audit.files import EVIDENCE, write_atomically
from audit.policy import Policy, Verdict
from audit.record import AuditRecord
from audit.report.html import html

RECOVERED = "recovered.jsonl"
NAME = "report-revealed.html"
OWNER = "scan.json"
"""Which scan the evidence is of."""
EXACT = "exact"
"""The context of the memorisation attack with page and question as in training."""
_STRICT = ConfigDict(extra="forbid", hide_input_in_errors=True)


@strict_dataclass(frozen=True, config=_STRICT)
class Recovered:
    """One field: the true value, what the attack gave, and what it gave without the model.

    `exact_in_any_attempt` is for attacks that make several; `exact` and the texts are those of the first one.
    """

    attack: str
    document: str
    field: str
    category: str
    split: str
    value: str
    recovered: str
    baseline: str
    exact: bool
    exact_in_any_attempt: bool | None = None


@strict_dataclass(frozen=True, config=_STRICT)
class RevealedReply:
    """Replies of the audited model and each baseline in one context, and if the model gave the answer."""

    target: str
    baselines: tuple[str, ...]
    extracted: bool


@strict_dataclass(frozen=True, config=_STRICT)
class RevealedQuestion:
    """One question of the memorisation attack: its accepted answers, and the replies by context.

    `page` is the number under which the record draws the page; `status` is what became of the answer on it.
    """

    attack: str
    document: str
    question_id: str
    question: str
    split: str
    value: tuple[str, ...]
    status: str
    replies: dict[str, RevealedReply]
    page: int | None = None
    category: str | None = None

    @property
    def shown(self) -> list[tuple[str, RevealedReply]]:
        """The reply to the very question of training, and every other one that gave the answer."""
        return [(name, reply) for name, reply in self.replies.items() if name == EXACT or reply.extracted]


@strict_dataclass(frozen=True, config=_STRICT)
class Absent:
    """A value of training that the model answered with, about a document that has no such key."""

    document: str
    key: str
    answer: str


@strict_dataclass(frozen=True, config=_STRICT)
class RevealedProvider:
    """One provider of the provider membership attack: the key from its number to its name, and what was made of it.

    `training` is "in" or "out"; `scores` are in the attack's order, the one that ranks providers first; `ranks` are of
    scores and features (1 = most like a provider used for training).
    """

    attack: str
    provider: int
    name: str
    spellings: tuple[str, ...]
    training: str
    documents: int
    questions: int
    features: dict[str, float]
    scores: dict[str, float]
    ranks: dict[str, int]
    absent_key: tuple[Absent, ...]

    @property
    def order(self) -> float:
        """Its rank by the first score; behind all others without one."""
        return next((self.ranks[name] for name in self.scores if name in self.ranks), float("inf"))

    @property
    def judged(self) -> list[str]:
        """Each score with its rank."""
        return [
            f"{name.removeprefix('score.')} {value:.4g} (rank {self.ranks.get(name, '-')})"
            for name, value in self.scores.items()
        ]

    @property
    def signals(self) -> list[str]:
        """Each feature."""
        return [f"{name.replace('_', ' ')} {value:.4g}" for name, value in self.features.items()]


@dataclass(frozen=True)
class Revealed:
    """All evidence, by its shape; those of one shape in the order in which they are shown.

    Attributes:
        others: by any other attack the names of its values, and the values of each line in that order.
    """

    fields: Sequence[Recovered]
    questions: Sequence[RevealedQuestion]
    providers: Sequence[RevealedProvider]
    others: Mapping[str, tuple[list[str], list[list[str]]]]

    @property
    def several(self) -> bool:
        """True when any field was attempted several times."""
        return any(row.exact_in_any_attempt is not None for row in self.fields)


_SHAPES: dict[str, TypeAdapter[Any]] = {
    "field": TypeAdapter(Recovered),
    "question": TypeAdapter(RevealedQuestion),
    "provider": TypeAdapter(RevealedProvider),
    "values": TypeAdapter(dict[str, Any]),
}


def write_revealed(
    record: AuditRecord, verdict: Verdict, policy: Policy, out: Path, evidence: Path | None = None
) -> Path:
    """Write `report-revealed.html` (mode 0600) from `recovered.jsonl`, beside it.

    Args:
        record: the measurements.
        verdict: on them.
        policy: what it was reached by.
        out: the folder that the scan wrote.
        evidence: the folder of both files; None: `evidence/` in `out`.

    Returns:
        Its path.

    Raises:
        RenderError: the evidence is missing, damaged (values are never quoted) or of another scan, or a template is.
        EngineError: the file could not be written.
    """
    folder = evidence or out / EVIDENCE
    _refuse_another_scan(record, folder)
    rows = read_recovered(folder / RECOVERED)
    text = html(record, verdict, policy, revealed=rows)
    path = folder / NAME
    try:
        folder.chmod(0o700)  # so that the file is private from its first byte on
    except OSError as error:
        raise RenderError(f"{folder}: cannot be made private ({error.strerror})") from None
    write_atomically(path, text.encode(), mode=0o600)
    return path


def write_owner(record: AuditRecord, evidence: Path) -> None:
    """Write down which scan the evidence is of."""
    write_atomically(evidence / OWNER, json.dumps(_owner(record)).encode(), mode=0o600)


def _owner(record: AuditRecord) -> dict[str, str | float]:
    # Two short scans may begin within one second.
    settings = {"seed": record.seed, "seconds": record.timing.seconds}
    return {
        "model": record.target.sha256,
        "data": record.corpus.sha256,
        "started": record.timing.started,
        **settings,
    }


def _refuse_another_scan(record: AuditRecord, evidence: Path) -> None:
    """Refuse evidence that says that it is another scan's; a folder that says nothing is taken at its word."""
    try:
        found = json.loads((evidence / OWNER).read_bytes())
    except (OSError, ValueError):
        return
    if found != _owner(record):
        raise RenderError(f"{evidence}: the evidence of another scan than this record's", "name the folder of its own")


def read_recovered(path: Path) -> Revealed:
    """Read the evidence: recovered values first, members before others, then in the order of the file.

    Raises:
        RenderError: the file is missing, or every line that is not what is expected, by number.
    """
    hint = "scan again, or name the folder that was given as --evidence: a scan writes it beside its record otherwise"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RenderError(f"{path}: {error.strerror or 'cannot be read'}: nothing to reveal", hint) from None
    rows: dict[str, list[Any]] = {shape: [] for shape in _SHAPES}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            shape, row = _read(line)
            rows[shape].append(row)
        except (json.JSONDecodeError, UnicodeDecodeError):
            problems.append(f"{path.name}:{number} not JSON")
        except ValidationError as error:
            problems += [
                f"{path.name}:{number} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
            ]
    if problems:
        raise RenderError(problems, hint)
    return Revealed(
        sorted(rows["field"], key=lambda row: (not row.exact, not row.exact_in_any_attempt, row.split != "member")),
        sorted(
            rows["question"],
            key=lambda row: (not any(reply.extracted for reply in row.replies.values()), row.split != "member"),
        ),
        sorted(rows["provider"], key=lambda row: (row.order, row.provider)),
        _tables(rows["values"]),
    )


def _read(line: bytes) -> tuple[str, Any]:
    """Read a line in the shape of its attack; one that names none is held against that of a field."""
    row = json.loads(line)
    attack = row.get("attack") if isinstance(row, dict) else None
    shape = "field" if attack is None else text_of(str(attack)).evidence_shape
    if shape == "question":
        # The attack writes the replies in each context under the context's own name.
        replies = {name: value for name, value in row.items() if isinstance(value, dict)}
        row = {**{name: row[name] for name in row if name not in replies}, "replies": replies}
    return shape, _SHAPES[shape].validate_python(row)


def _tables(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Make a table for each attack; values that were nested carry both names."""
    flat: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        values: dict[str, Any] = {}
        for name, value in row.items():
            nested = value.items() if isinstance(value, dict) else ()
            values |= {f"{name} {inner}": own for inner, own in nested} if nested else {name: value}
        flat.setdefault(values.pop("attack"), []).append(values)
    tables = {}
    for attack, own in flat.items():
        names = list(dict.fromkeys(name for values in own for name in values))
        tables[attack] = (names, [[_written(values.get(name, "")) for name in names] for values in own])
    return tables


def _written(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
