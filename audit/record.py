"""The audit record: what every report, gate and exit code is drawn from.

It has no field for text of documents or of models: values appear as their category and whether they were recovered,
errors as type and place. Every number is an `Estimate` with interval, n and null, or `Unresolved` with the reason.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from audit import __version__
from audit.cards import (
    AuditSheet,
    Bounds,
    CorpusCard,
    DeclaredPolicy,
    Environment,
    PrivacyCard,
    ReferenceCard,
    TargetCard,
    Timing,
)
from audit.errors import RecordError
from audit.files import read_file, write_atomically
from audit.measurements import (
    STRICT,
    Check,
    Control,
    Count,
    Coverage,
    Curve,
    Diagnostic,
    Histogram,
    Measurement,
)


@dataclass(frozen=True, config=STRICT)
class Completed:
    """An attack that ran to its end.

    Attributes:
        metrics: every metric name a policy may ask for.
        power: the name of the measurement that says how strong the attacker was, when the attack has one.
        parameters: the attack's parameters, by name.
        categories: the field categories that were attacked.
        dtype: what the target's encoder computed in; heads and losses are float32 always.
        ablations: how the attacker was weakened, on purpose or for want of a reference; with any, no limit is passed.
        parameters_file: sha256 of the file that set parameters, when one did.
        pages: a few of the attacked pages.
        confounded: what else can explain these numbers; a leak is confirmed over `controls` alone. None: nothing.
        controls: bounds on what such an explanation can amount to; empty where there are none.
        methods: for a metric that policies limit, the measurements that a limit on it is held against, one for each
            method of the attack, itself among them, fixed before the scan; a metric that is no key stands for itself.
        coverage: how much of what could leak was tried, in all and by category.
        about_text: metrics that say what the documents themselves give away, whatever the model.
        checks: tests that can only leave limits undecided, with their p-values (`audit.policy.checks`).
    """

    attack: str
    metrics: tuple[str, ...]
    parameters: dict[str, Any]
    measurements: tuple[Measurement, ...]
    counts: tuple[Count, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    curves: tuple[Curve, ...] = ()
    categories: tuple[str, ...] = ()
    power: str | None = None
    dtype: str = "float32"
    ablations: tuple[str, ...] = ()
    parameters_file: str | None = None
    confounded: str | None = None
    methods: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    coverage: tuple[Coverage, ...] = ()
    about_text: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    controls: tuple[Control, ...] = ()
    status: Literal["completed"] = "completed"


@dataclass(frozen=True, config=STRICT)
class Inapplicable:
    """This kind of target or corpus cannot be attacked this way."""

    attack: str
    metrics: tuple[str, ...]
    reason: str
    status: Literal["inapplicable"] = "inapplicable"


@dataclass(frozen=True, config=STRICT)
class Skipped:
    """The attack lacked something that the owner can provide.

    Attributes:
        by_data: whether the data set itself does not hold what the attack is about (no canaries, no providers): only
            that excuses a limit that is not required.
    """

    attack: str
    metrics: tuple[str, ...]
    reason: str
    provide: str
    by_data: bool = False
    status: Literal["skipped"] = "skipped"


@dataclass(frozen=True, config=STRICT)
class Failed:
    """The attack broke down: the type of the error and the place in docaudit's code, never its message."""

    attack: str
    metrics: tuple[str, ...]
    type: str
    place: str
    status: Literal["failed"] = "failed"


@dataclass(frozen=True, config=STRICT)
class LeftOut:
    """An attack of the battery that was not asked for (`--only`).

    Attributes:
        lacks: what the data set does not hold for it, whatever the model; None: it could have been fed.
        inapplicable: why this kind of target cannot be attacked this way; None: it could have been.
    """

    attack: str
    metrics: tuple[str, ...]
    lacks: str | None = None
    inapplicable: str | None = None


AttackResult = Annotated[Completed | Inapplicable | Skipped | Failed, Field(discriminator="status")]


@dataclass(frozen=True, config=STRICT)
class AuditRecord:
    """One scan, whole.

    Attributes:
        battery: every attack this version knows, so that a policy that misspells one is told.
        share: of the trials that could be tried, the part that the budget took.
        attacks: exactly one result for every attack asked for.
        derived_by: the commands that made the target out of another one (a countermeasure), oldest first.
        left_out: the attacks of the battery that were not asked for.
        dp: the guarantee that the target's training claims, when its checkpoint states one.
        bounds: what bounded the trials beside the budget, when something did.
        policy: declared before the first trial; None in records of older versions.
        audit: the circumstances, as the owner states them.
        checks: tests on the whole scan that can only leave limits undecided; they bear on every attack.
        untested: what such tests could not be made of and why, in sentences without a full stop.
    """

    schema_version: Literal[1]
    target: TargetCard
    corpus: CorpusCard
    references: tuple[ReferenceCard, ...]
    budget: str
    share: float
    seed: int
    battery: tuple[str, ...]
    attacks: tuple[AttackResult, ...]
    utility: tuple[Measurement, ...]
    environment: Environment
    timing: Timing
    derived_by: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    dp: PrivacyCard | None = None
    bounds: Bounds | None = None
    policy: DeclaredPolicy | None = None
    audit: AuditSheet = AuditSheet()
    checks: tuple[Check, ...] = ()
    untested: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The name of what was audited: of the model, or of the data set where its text was audited alone."""
        return self.target.name if self.target.is_model else self.corpus.name


_RECORD: TypeAdapter[AuditRecord] = TypeAdapter(AuditRecord)


def schema() -> dict[str, Any]:
    """The JSON Schema of `record.json`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_RECORD.json_schema(mode="serialization"),
    }


def dumps(record: AuditRecord) -> str:
    """The record as JSON text: keys in a fixed order, floats in full precision, a newline at the end."""
    return json.dumps(_RECORD.dump_python(record), indent=1, allow_nan=False) + "\n"


def loads(text: str | bytes, source: str = "record.json") -> AuditRecord:
    """Read a record.

    Raises:
        RecordError: every place where the text is not what the schema asks for.
    """
    try:
        return _RECORD.validate_json(text, strict=True)
    except ValidationError as error:
        problems = [f"{source}{_place_and_message(item)}" for item in error.errors()]
        raise RecordError(problems, _hint_for(text)) from None


def _hint_for(text: str | bytes) -> str:
    """Name the version that wrote a record which this one cannot read; only a plain version is repeated."""
    try:
        version = str(json.loads(text)["environment"]["docaudit"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return "give the record.json of a scan, or the folder that holds it"
    if version != __version__ and re.fullmatch(r"\d+\.\d+\.\d+", version, re.ASCII):
        return f"docaudit {version} wrote it: gate it with that version, or scan again"
    return "give a record.json that this version of docaudit wrote"


def _place_and_message(problem: ErrorDetails) -> str:
    """Where something is wrong and what, without the value that is."""
    message = problem["msg"]
    if problem["type"] == "union_tag_invalid":
        message = f"{problem['ctx']['discriminator']} is none of {problem['ctx']['expected_tags']}"
    place = ".".join(str(part) for part in problem["loc"])
    return f" {place}: {message}" if place else f": {message}"


def file_of(path: Path) -> Path:
    """The file of a record, given itself or the folder a scan wrote."""
    return path / "record.json" if path.is_dir() else path


def read(path: Path) -> AuditRecord:
    """Read a record from a file, or from the folder a scan wrote."""
    file_path = file_of(path)
    try:
        text = read_file(file_path)
    except OSError as error:
        shut = isinstance(error, PermissionError)
        hint = "make it readable for the user who runs docaudit" if shut else "give the record.json of a scan"
        raise RecordError(f"{file_path}: {error.strerror or 'cannot be read'}", hint) from None
    return loads(text, file_path.name)


def write(record: AuditRecord, path: Path) -> None:
    """Write the record, whole or not at all."""
    write_atomically(path, dumps(record).encode())
