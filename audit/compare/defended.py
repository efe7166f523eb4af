"""A countermeasure's measured effect, as `comparison.json` holds it.

It has no text of documents.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit.errors import RecordError
from audit.files import write_atomically
from audit.measurements import STRICT, Estimate, Measurement
from audit.policy.decision import WORDS, word_of

FILE_NAME = "comparison.json"
OLDER_SCHEMA = 2
OUTCOMES: Mapping[str, str] = {word: outcome for outcome, word in WORDS.items()}
"""Outcomes by their words."""
Kind = Literal["query", "data", "training"]
KINDS: tuple[Kind, ...] = ("query", "data", "training")
"""The cheapest first: a question is changed at once, a data set rewritten, a model trained
again."""


@dataclass(frozen=True, config=STRICT)
class Effect:
    """A number before and after.

    Attributes:
        attack: empty for usefulness.
        before, after: as either scan measured it; None where its attack did not run to an end.
        difference: after minus before, null 0; None where there is none.
        p: two-sided, not corrected for the number of metrics.
        paired: whether units were compared one by one; False: both intervals were joined, which is
            wider.
        note: why there is no difference; or empty.
    """

    attack: str
    metric: str
    before: Measurement | None
    after: Measurement | None
    difference: Estimate | None = None
    p: float | None = None
    paired: bool = False
    note: str = ""


@dataclass(frozen=True, config=STRICT)
class LimitUse:
    """How far a number uses its limit up: 1 is the limit, 0 no leak.

    Attributes:
        outcome: of the decision.
        value: of the number itself; None where nothing was decided on one.
        reach: of the end of its interval that the policy looks at: at most 1 where the limit is
            met.
        number: the number itself, of the method that decides; None where nothing was decided on
            one, and in files of older versions.
    """

    outcome: str
    value: float | None = None
    reach: float | None = None
    number: float | None = None


@dataclass(frozen=True, config=STRICT)
class LimitChange:
    """A limit of the policy before and after."""

    attack: str
    metric: str
    before: LimitUse
    after: LimitUse


@dataclass(frozen=True, config=STRICT)
class MeasuredDefense:
    """One countermeasure against the model as it was.

    Attributes:
        name, title, kind: of the countermeasure.
        key: of all that the comparison depends on; another key is another comparison.
        policy: its name.
        target, data, result: sha256 of the audited model, of the data set, and of the model with
            the countermeasure.
        verdict_before, verdict_after: outcomes, as `audit.policy.decision.Overall` has them; the
            file holds their words.
        limits: every limit of the policy.
        effects: what the policy limits and what speaks for a leak; of areas, differences of their
            distance from chance.
        usefulness: measures of the model's own task.
        missing: attacks that are not compared, with the reasons; OLD is the model as it was.
        side_channel: AUC of "the model says that the answer is not there" as a sign of membership;
            None: not measured.
    """

    schema_version: Literal[3]
    docaudit: str
    name: str
    title: str
    kind: Kind
    key: str
    policy: str
    target: str
    data: str
    result: str
    budget: str
    seed: int
    verdict_before: str
    verdict_after: str
    limits: tuple[LimitChange, ...]
    effects: tuple[Effect, ...]
    usefulness: tuple[Effect, ...]
    missing: tuple[str, ...]
    side_channel: Estimate | None = None

    @property
    def largest_loss(self) -> float:
        """Return the largest relative loss of usefulness by any measure, at least 0."""
        largest = 0.0
        for effect in self.usefulness:
            before = effect.before
            after = effect.after
            if not isinstance(before, Estimate) or before.value <= 0:
                continue
            if isinstance(after, Estimate):
                largest = max(largest, 1 - after.value / before.value)
        return largest

    def effect(self, attack: str, metric: str) -> Effect | None:
        """Return the effect on one metric."""
        for effect in self.effects:
            if (effect.attack, effect.metric) == (attack, metric):
                return effect
        return None

    def deciding_numbers(self, attack: str, metric: str) -> tuple[float, float] | None:
        """Return the number that decides a limit before and after; None where either is unknown.

        Each is of the method that decides in its scan.
        """
        for change in self.limits:
            if (change.attack, change.metric) != (attack, metric):
                continue
            if change.before.number is None or change.after.number is None:
                return None
            return change.before.number, change.after.number
        return None


_MEASURED: TypeAdapter[MeasuredDefense] = TypeAdapter(MeasuredDefense)


def write(measured: MeasuredDefense, folder: Path) -> None:
    """Write `comparison.json` into a folder, whole or not at all."""
    content = _MEASURED.dump_python(measured, mode="json")
    _replace_outcomes(content, word_of)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    write_atomically(folder / FILE_NAME, f"{text}\n".encode())


def _outcome_of(word: str) -> str:
    """Return the outcome that a word stands for; the outcome itself where it is one."""
    return OUTCOMES.get(word, word)


def _replace_outcomes(content: dict[str, Any], translate: Callable[[str], str]) -> None:
    """Translate every outcome of a comparison in place."""
    for name in ("verdict_before", "verdict_after"):
        content[name] = translate(content[name])
    for limit in content["limits"]:
        for side in ("before", "after"):
            use = limit[side]
            use["outcome"] = translate(use["outcome"])


def _loads(text: bytes) -> MeasuredDefense:
    """Read a comparison of this schema, or of schema 2, which held outcomes by other words."""
    try:
        content = json.loads(text)
        _replace_outcomes(content, _outcome_of)
        if content["schema_version"] == OLDER_SCHEMA:
            content["schema_version"] = OLDER_SCHEMA + 1
        text = json.dumps(content).encode()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # The validation below says what is wrong.
    return _MEASURED.validate_json(text, strict=True)


def read(path: Path) -> MeasuredDefense:
    """Read a comparison from a file, or from the folder that `docaudit defend` wrote.

    Raises:
        RecordError: there is none, or another version wrote it.
    """
    file_path = path / FILE_NAME if path.is_dir() else path
    try:
        return _loads(file_path.read_bytes())
    except OSError as error:
        hint = "give the --out of docaudit defend"
        raise RecordError(f"{file_path}: {error.strerror or 'cannot be read'}", hint) from None
    except ValidationError:
        hint = "measure again with this version of docaudit defend"
        problem = f"{file_path}: no comparison of a countermeasure on a model"
        raise RecordError(problem, hint) from None


def read_all(path: Path) -> tuple[MeasuredDefense, ...]:
    """Read the comparison of a folder, or those of its folders.

    There are several where several countermeasures were measured.

    Raises:
        RecordError: there is none, or one cannot be read.
    """
    if path.is_dir() and not (path / FILE_NAME).exists():
        several = sorted(path.glob(f"*/{FILE_NAME}"))
        if several:
            return tuple(map(read, several))
    return (read(path),)
