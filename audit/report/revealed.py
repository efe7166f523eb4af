"""The one report with recovered values: it lies in `evidence/`, only its owner can read it; nothing else changes."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit.errors import RenderError
from audit.policy import Policy, Verdict
from audit.record import AuditRecord, write_atomically
from audit.report.page import html

EVIDENCE = "evidence"
RECOVERED = "recovered.jsonl"
NAME = "report-revealed.html"


@dataclass(frozen=True, config=ConfigDict(extra="forbid", hide_input_in_errors=True))
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


_ROW: TypeAdapter[Recovered] = TypeAdapter(Recovered)


def write_revealed(record: AuditRecord, verdict: Verdict, policy: Policy, out: Path) -> Path:
    """Write `evidence/report-revealed.html` (mode 0600) from `evidence/recovered.jsonl`.

    Returns:
        Where it lies.

    Raises:
        RenderError: the evidence is missing or damaged (values are never quoted), or a template is.
        EngineError: the file could not be written.
    """
    rows = read_recovered(out / EVIDENCE / RECOVERED)
    text = html(record, verdict, policy, revealed=rows)
    path = out / EVIDENCE / NAME
    try:
        (out / EVIDENCE).chmod(0o700)  # so that the file is private from its first byte on
    except OSError as error:
        raise RenderError(f"{out / EVIDENCE}: cannot be made private ({error.strerror})") from None
    write_atomically(path, text.encode(), mode=0o600)
    return path


def read_recovered(path: Path) -> tuple[Recovered, ...]:
    """The fields: recovered ones first, members before others, then in the order of the file.

    Raises:
        RenderError: the file is missing, or every line that is not what is expected, by number.
    """
    hint = "scan again: a scan writes the evidence beside its record"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RenderError(f"{path}: {error.strerror or 'cannot be read'}: nothing to reveal", hint) from None
    rows: list[Recovered] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_ROW.validate_json(line))
        except ValidationError as error:
            problems += [
                f"{path.name}:{number} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
            ]
    if problems:
        raise RenderError(problems, hint)
    return tuple(sorted(rows, key=lambda row: (not row.exact, not row.exact_in_any_attempt, row.split != "member")))
