"""The audit record: what every report, gate and exit code is drawn from.

It has no field for text of documents or of models: values appear as their category and whether they
were recovered, errors as type and place. Every number is an `Estimate` with interval, n and null,
or `Unresolved` with the reason.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from audit import __version__, cards
from audit.errors import RecordError
from audit.files import read_file, write_atomically
from audit.measurements import (
    STRICT,
    Breakdown,
    Check,
    Condition,
    Control,
    Count,
    Coverage,
    Curve,
    Diagnostic,
    Histogram,
    Measurement,
    PeopleCount,
)

Status = Literal["completed", "inapplicable", "skipped", "failed", "left out"]
SIGNIFICANCE = 0.05
"""Family-wise level at which violations of a policy are confirmed."""


@dataclass(frozen=True, config=STRICT)
class Reason:
    """Why an attack did not run, or does not count in full.

    Attributes:
        kind: "model": this kind of target cannot be attacked this way; "data": the data set does
            not hold what the attack is about, which excuses a limit that is not required;
            "missing": the owner can provide it; "weak": the attacker lacks something, so that no
            limit is passed; "left out": nobody asked for the attack; "budget": no limit is held
            against it on this model, and the budget leaves such attacks out; "error": it broke
            down.
        why: one clause; of an error its type and the place in docaudit's code, never its message.
        fix: what would help; empty where nothing does.
    """

    kind: Literal["model", "data", "missing", "weak", "left out", "budget", "error"]
    why: str
    fix: str = ""


@dataclass(frozen=True, config=STRICT)
class Result:
    """What an attack found, or why it found nothing.

    Attributes:
        status: "completed": it ran to its end; "inapplicable": this kind of target cannot be
            attacked this way; "skipped": it lacked something, or the budget leaves it out;
            "failed": it broke down; "left out": `--only` named others.
        reason: why it did not run to its end; None where it did.
        parameters: the attack's parameters, by name.
        power: the name of the measurement that says how strong the attacker was, when the attack
            has one.
        dtype: what the target's encoder computed in; heads and losses are float32 always.
        ablations: how the attacker was weakened, on purpose or for want of a reference; with any,
            no limit is passed.
        parameters_file: sha256 of the file that set parameters, when one did.
        confounded: what else can explain these numbers; a leak is confirmed over `controls` alone.
            None: nothing.
        unvouched: whether `confounded`, or the only one of `ablations`, says that a blind check
            over too few units cannot vouch for the comparison, where nothing else confounds it.
        controls: bounds on what such an explanation can amount to; empty where there are none.
        methods: measurements that a limit is held against, by the metric that policies limit: one
            for each method of the attack, itself among them, fixed before the scan; a metric that
            is no key stands for itself.
        coverage: how much of what could leak was tried, in all and by category.
        about_text: metrics that say what the documents themselves give away, whatever the model.
        checks: tests that can only leave limits undecided, with their p-values
            (`audit.policy.checks`).
        conditions: what a pass rests on, and whether the attack showed it.
        breakdowns: where the attack found something, by each of its methods.
        people: whom it reached, by each of its methods.
    """

    attack: str
    status: Status = "completed"
    reason: Reason | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()
    counts: tuple[Count, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    curves: tuple[Curve, ...] = ()
    power: str | None = None
    dtype: str = "float32"
    ablations: tuple[str, ...] = ()
    parameters_file: str | None = None
    confounded: str | None = None
    unvouched: bool = False
    methods: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    coverage: tuple[Coverage, ...] = ()
    about_text: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    controls: tuple[Control, ...] = ()
    conditions: tuple[Condition, ...] = ()
    breakdowns: tuple[Breakdown, ...] = ()
    people: tuple[PeopleCount, ...] = ()

    @property
    def lifts_limits(self) -> bool:
        """Test whether it was not run, and no limit on it could be held against this model."""
        return self.reason is not None and self.reason.kind in ("model", "budget")

    @property
    def why(self) -> str:
        """Explain why the attack did not run to its end; empty where it did."""
        why = "" if self.reason is None else self.reason.why
        return f"it failed ({why})" if self.status == "failed" else why


@dataclass(frozen=True, config=STRICT)
class AuditRecord:
    """One scan, whole.

    Attributes:
        battery: every attack this version knows, so that a policy that misspells one is told.
        share: share of the trials that could be tried, the least part that the budget took of an
            attack.
        shares: shares by attack, where the budget took a larger part.
        attacks: exactly one result for every attack asked for.
        derived_by: titles of the countermeasures that made the target out of another model, oldest
            first.
        derived_from: the audited model that the target is an export of, and whether the export
            leaks more (`docaudit scan --derived-from`); None: the target was scanned on its own.
        left_out: the attacks of the battery that were not asked for; the reason says whether they
            could have been run.
        dp: the guarantee that the target's training claims, when its checkpoint states one.
        bounds: what bounded the trials beside the budget, when something did.
        policy: declared before the first trial; None in records of older versions.
        audit: the circumstances, as the owner states them.
        checks: tests on the whole scan that can only leave limits undecided; they bear on every
            attack.
        conditions: what a pass rests on beside its attack, and whether the scan showed it.
        untested: what such tests could not be made of and why, in sentences without a full stop.
    """

    schema_version: Literal[2]
    target: cards.TargetCard
    corpus: cards.CorpusCard
    references: tuple[cards.ReferenceCard, ...]
    budget: str
    share: float
    seed: int
    battery: tuple[str, ...]
    attacks: tuple[Result, ...]
    utility: tuple[Measurement, ...]
    environment: cards.Environment
    timing: cards.Timing
    derived_by: tuple[str, ...] = ()
    left_out: tuple[Result, ...] = ()
    dp: cards.PrivacyCard | None = None
    bounds: cards.Bounds | None = None
    policy: cards.DeclaredPolicy | None = None
    audit: cards.AuditSheet = cards.AuditSheet()
    checks: tuple[Check, ...] = ()
    conditions: tuple[Condition, ...] = ()
    untested: tuple[str, ...] = ()
    shares: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=dict)
    derived_from: cards.DerivedFrom | None = None

    def share_of(self, attack: str) -> float:
        """Return the part that the budget took of the trials of an attack."""
        return self.shares.get(attack, self.share)

    def _bounding_options(self) -> list[str]:
        """Return the bounds that left untried what the data set holds, as options of a scan."""
        options: list[str] = []
        if self.bounds is None:
            return options
        documents = self.corpus.documents
        n_compared = documents.get("member", 0) + documents.get("heldout", 0)
        bound = self.bounds.documents
        if bound is None:
            bound = n_compared
        if bound < n_compared:
            options.append("--documents")
        if self.bounds.part < 1:
            options.append("--time")
        return options

    def limiting_options(self, attack: str) -> list[str]:
        """Return the options that left untried what the data set holds for an attack."""
        options = self._bounding_options()
        if self.share_of(attack) == 1:
            return options
        if not self._tried_every_unit(attack):
            options.insert(0, "--budget quick")
        return options

    def left_untried(self, attack: str) -> bool:
        """Test whether a bound or the budget left untried what the data set holds for an attack."""
        return bool(self.limiting_options(attack))

    def _tried_every_unit(self, attack: str) -> bool:
        """Test whether an attack was put to each document or question.

        `--documents` takes at least one trial of each document, whatever the budget's share.
        """
        result = self.completed.get(attack)
        if result is None:
            return False
        for item in result.coverage:
            if item.category == "all" and item.unit in ("documents", "questions"):
                return item.attacked >= item.total
        return False

    @property
    def every_condition(self) -> list[Condition]:
        """Return the conditions of the scan, then those of its attacks."""
        conditions = [*self.conditions]
        for result in self.completed.values():
            conditions += result.conditions
        return conditions

    @property
    def met_conditions(self) -> frozenset[str]:
        """Return the names of the conditions that the scan shows."""
        names = set()
        for condition in self.every_condition:
            if condition.state == "met":
                names.add(condition.name)
        return frozenset(names)

    @property
    def completed(self) -> dict[str, Result]:
        """Return the results of the attacks that ran to their end, by attack."""
        return {result.attack: result for result in self.attacks if result.status == "completed"}

    @property
    def results(self) -> dict[str, Result]:
        """Return every result by attack, those of attacks that were not asked for among them."""
        return {result.attack: result for result in (*self.left_out, *self.attacks)}

    @property
    def subject(self) -> str:
        """Return the name of what was audited.

        That is the model, or the data set where its text was audited alone.
        """
        return self.target.name if self.target.is_model else self.corpus.name


_RECORD: TypeAdapter[AuditRecord] = TypeAdapter(AuditRecord)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of `record.json`."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _RECORD.json_schema(
        mode="serialization"
    )


def dumps(record: AuditRecord) -> str:
    """Write a record as JSON text: keys in a fixed order, floats in full precision.

    A newline stands at the end.
    """
    return json.dumps(_RECORD.dump_python(record), indent=1, allow_nan=False) + "\n"


def loads(text: str | bytes, source: str = "record.json") -> AuditRecord:
    """Read a record.

    Raises:
        RecordError: it has another version of the schema, or every place where it is not what the
            schema asks for.
    """
    try:
        return _RECORD.validate_json(text, strict=True)
    except ValidationError as error:
        problems = [f"{source}{_place_and_message(item)}" for item in error.errors()]
        if any(item["loc"] == ("schema_version",) for item in error.errors()):
            problems = [
                f"{source} schema_version: docaudit {__version__} reads records of schema 2 only"
            ]
        raise _unreadable(problems, text) from None


class OtherVersionError(RecordError):
    """Another version wrote the record, and this one cannot read it.

    Attributes:
        version: that version.
    """

    def __init__(self, problems: list[str], version: str) -> None:
        """Take the problems of the record, and the version that wrote it."""
        hint = f"docaudit {version} wrote it: gate it with that version, or scan again"
        super().__init__(problems, hint)
        self.version = version


def _unreadable(problems: list[str], text: str | bytes) -> RecordError:
    """Return the error of a record that cannot be read, with the version that wrote it.

    Only a plain version is repeated.
    """
    try:
        version = str(json.loads(text)["environment"]["docaudit"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return RecordError(problems, "give the record.json of a scan, or the folder that holds it")
    if version != __version__ and re.fullmatch(r"\d+\.\d+\.\d+", version, re.ASCII):
        return OtherVersionError(problems, version)
    return RecordError(problems, "give a record.json that this version of docaudit wrote")


def _place_and_message(problem: ErrorDetails) -> str:
    """Format the place and message of a problem, without the invalid value."""
    message = problem["msg"]
    if problem["type"] == "union_tag_invalid":
        message = f"{problem['ctx']['discriminator']} is none of {problem['ctx']['expected_tags']}"
    place = ".".join(str(step) for step in problem["loc"])
    return f" {place}: {message}" if place else f": {message}"


BEFORE = "before"
"""The folder of a scan without a countermeasure, beside those of the measured ones."""
AFTER = "after"
"""The folder of the scan with a countermeasure, below that of the countermeasure."""
CONFIRMED = "confirmed"
"""The folder of the scan at the budget that can pass, below that of the countermeasure."""
FOLDERS = ("", CONFIRMED, AFTER)
"""Where the record of a folder lies: of a scan in itself, of a countermeasure below it, the scan at
the budget that can pass first."""
BEST = "best.txt"
"""Names the folder of the countermeasure that `docaudit fix` chose."""


def file_of(path: Path) -> Path:
    """Return the file of a record, given itself or a folder.

    That is the folder of a scan, of a measured countermeasure, or of all that `docaudit fix` tried.
    """
    if not path.is_dir():
        return path
    best = path / BEST
    if best.is_file():
        path = path / Path(best.read_text(encoding="utf-8").strip()).name
    for folder in FOLDERS:
        file = path / folder / "record.json"
        if file.is_file():
            return file
    return path / "record.json"


def read(path: Path) -> AuditRecord:
    """Read a record from a file, or from the folder a scan wrote."""
    file_path = file_of(path)
    try:
        text = read_file(file_path)
    except OSError as error:
        shut = isinstance(error, PermissionError)
        hint = (
            "make it readable for the user who runs docaudit"
            if shut
            else "give the record.json of a scan"
        )
        raise RecordError(f"{file_path}: {error.strerror or 'cannot be read'}", hint) from None
    return loads(text, file_path.name)


def write(record: AuditRecord, path: Path) -> None:
    """Write the record, whole or not at all."""
    write_atomically(path, dumps(record).encode())
