"""A policy, which states what an owner accepts."""

import datetime as dt
import hashlib
import math
import re
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from audit.cards import Forgotten
from audit.errors import count_visible_letters, has_unseen_characters
from audit.files import table_beside
from audit.measurements import STRICT, Estimate

TEXTS: dict[str, str] = table_beside(__file__, "texts.toml")
"""Sentences of verdicts; names in braces are filled in."""
LONGEST_WAIVER = dt.timedelta(days=366)
"""How far ahead a waiver may end, from the day it is held against: a year later somebody looks
again."""
_UNSEEN = PydanticCustomError(
    "unseen", "contains an invisible character, or one that changes the text direction"
)
_NOBODY = frozenset({"anyone", "na", "nobody", "noone", "none", "tba", "tbd", "todo", "unknown"})


def _check_visible(text: str) -> str:
    """Return a text unchanged; refuse one with characters that nobody can see."""
    if has_unseen_characters(re.sub(r"[\t\r\n]", " ", text)):
        raise _UNSEEN
    return text


def _check_words(text: str) -> str:
    """Refuse a text of a waiver that nobody can read as a name or a reason.

    The shortest names have two letters.
    """
    if has_unseen_characters(text):
        raise _UNSEEN
    if count_visible_letters(text) < 2:
        raise PydanticCustomError("wordless", "holds no word")
    return text


def _check_person(text: str) -> str:
    """Return the owner of a waiver unchanged; refuse words such as "nobody" for a person."""
    if re.sub(r"[^a-z]", "", text.casefold()) in _NOBODY:
        raise PydanticCustomError("nobody", "names no responsible person")
    return text


def _read_holds(written: object) -> object:
    """Read the word of policies before 0.14, under which a count passed whatever its estimate."""
    if written == "lower":
        return "estimate"
    return written


Written = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text that says something."""
# The lengths are what a headline, page one and a table of a report hold, in characters.
Name = Annotated[str, Field(max_length=64), AfterValidator(_check_visible)]
Description = Annotated[str, Field(max_length=1000), AfterValidator(_check_visible)]
Rationale = Annotated[str, Field(max_length=2000), AfterValidator(_check_visible)]
Question = Annotated[Written, Field(max_length=64), AfterValidator(_check_visible)]
Reasons = Annotated[Written, Field(max_length=2000), AfterValidator(_check_visible)]
Words = Annotated[Written, Field(max_length=500), AfterValidator(_check_words)]
Person = Annotated[
    Written, Field(max_length=100), AfterValidator(_check_words), AfterValidator(_check_person)
]
"""Who answers for a waiver, in words that can be read."""


@dataclass(frozen=True, config=STRICT)
class Limit:
    """One thing the policy asks: `metric` of `attack` at most `max` (or at least `min`).

    A metric names a question. The limit is held against every method of the attack that answers it
    (`record.Result.methods`), and the strongest decides.

    Attributes:
        required: False: a data set that does not hold what the attack is about (no canaries, no
            providers) leaves the limit out. Nothing else excuses it: an attack that failed, was
            left out or was weakened decides nothing.
        min_power: the attack's own strength under which nothing can be passed.
        share: of a count, the share of all that it is a count of (`Estimate.total`) that may leak;
            `max` is the most in any case, and `floor` the least that the limit asks for, however
            few there are. See `applied`.
        floor: see `share`.
        min_coverage: the share of what could leak that a pass must rest on, see `record.Coverage`.
        min_category_coverage: the same for each category of values that the documents of training
            hold.
        holds: what has to be within the limit for a pass. "interval": the whole interval.
            "estimate": the number itself, as of a count of people who can be named; its interval is
            printed as the range of the interval. "lower" in policies of older
            versions is read as "estimate". A violation is the same for both: a lower bound that is
            confirmed over the limit.
        rationale: why this limit, printed in the report.
    """

    attack: Name
    metric: Name
    rationale: Rationale
    max: float | None = Field(default=None, strict=True)
    min: float | None = Field(default=None, strict=True)
    share: float | None = Field(default=None, gt=0, lt=1, strict=True)
    floor: float | None = Field(default=None, ge=0, strict=True)
    required: bool = Field(default=True, strict=True)
    min_power: float | None = Field(default=None, ge=0, strict=True)
    min_coverage: float | None = Field(default=None, ge=0, le=1, strict=True)
    min_category_coverage: float | None = Field(default=None, ge=0, le=1, strict=True)
    holds: Annotated[Literal["interval", "estimate"], BeforeValidator(_read_holds)] = "interval"

    def applied(self, measured: Estimate | None) -> "Limit":
        """Return the limit with the maximum that applies to a count.

        That is the larger of `floor` and the smaller of `max` and the share of what is counted.
        Other limits stay as they are, and so does one whose count could not be had.

        Args:
            measured: the count. Of an older record, which scaled no count, the share is that of
                what was tried.
        """
        if self.share is None or self.max is None or measured is None:
            return self
        total = measured.n
        if measured.total is not None:
            total = measured.total
        most = min(self.max, math.floor(self.share * total))
        return replace(self, max=max(self.floor or 0.0, most))

    def encloses(self, lower: float, upper: float, *, is_area: bool) -> bool:
        """Tell whether all numbers between two are within the limit.

        Areas count on both sides of chance.

        Args:
            lower: the smallest number.
            upper: the largest number.
            is_area: whether 0.5 is chance (`Estimate.is_area`).
        """
        if self.max is None:
            assert self.min is not None
            return lower >= self.min
        return upper <= self.max and (not is_area or lower >= 1 - self.max)

    def holds_value(self, measured: Estimate) -> bool:
        """Tell whether a number itself is within the limit, whatever its interval."""
        return self.encloses(measured.value, measured.value, is_area=measured.is_area)

    def is_met_by(self, measured: Estimate) -> bool:
        """Tell whether a number meets the limit: its interval, or its value as `holds` says."""
        if self.holds == "estimate":
            return self.holds_value(measured)
        bound = measured.pass_bound
        return self.encloses(bound.lower, bound.upper, is_area=measured.is_area)

    def reach(self, measured: Estimate) -> float:
        """Measure how far what has to be within the limit reaches towards and over it.

        Larger = worse.
        """
        if self.holds == "estimate":
            return measured.value
        bound = measured.pass_bound
        if self.max is None:
            return -bound.lower
        if measured.is_area:
            return max(bound.upper, 1 - bound.lower)
        return bound.upper

    def excess(self, measured: Estimate) -> float:
        """Measure how far a whole interval lies over the limit; 0 or less where it does not."""
        if self.max is None:
            assert self.min is not None
            return self.min - measured.high
        above = measured.low - self.max
        if measured.is_area:
            return max(above, 1 - self.max - measured.high)
        return above

    @property
    def rule(self) -> str:
        """Say in a clause how the maximum of a count follows from what is counted.

        Empty of other limits.
        """
        if self.share is None:
            return ""
        return TEXTS["share"].format(share=100 * self.share, floor=self.floor or 0.0, max=self.max)

    @property
    def test(self) -> str:
        """Return the limit as the name of a test: attack, metric and bound."""
        if self.max is None:
            return f"{self.attack} {self.metric} >= {self.min:g}"
        return f"{self.attack} {self.metric} <= {self.max:g}"


@dataclass(frozen=True, config=STRICT)
class Demand:
    """A question of which a pass needs an answer, by one attack at least.

    Attributes:
        question: what the attacks ask, in a few words ("text that the model repeats").
        any_of: the attacks; where none was decided, the first that can be asked names the remedy.
        rationale: why a pass needs the answer.
    """

    question: Question
    any_of: Annotated[tuple[str, ...], Field(min_length=1)]
    rationale: Reasons

    @property
    def sentence(self) -> str:
        """Return the demand as a clause: the question, and the attacks that decide it."""
        names = " or ".join(attack.replace("_", " ") for attack in self.any_of)
        return f"a pass needs a decided limit on {self.question}: {names}"


@dataclass(frozen=True, config=STRICT)
class Gap:
    """An attack that kinds of models cannot be put to, and that the policy does without for them.

    Attributes:
        tasks: of the models, as their card has them ("mlm", "token-classification", ...).
        rationale: why nothing is lost, printed in the report.
    """

    attack: str
    tasks: tuple[str, ...]
    rationale: Reasons


@dataclass(frozen=True, config=STRICT)
class Waiver:
    """A violation that somebody takes responsibility for.

    Until a day at most a year ahead (`LONGEST_WAIVER`).

    Attributes:
        owner: who answers for it.
        role: of the owner, so that a reader can tell whether it was theirs to decide.
        reason: why the leak is accepted.
        measure: what is done instead of mending it.
        expires: the last day that it holds.
    """

    attack: str
    metric: str
    owner: Person
    role: Person
    reason: Words
    measure: Words
    expires: dt.date


@dataclass(frozen=True, config=STRICT)
class Origin:
    """The file that a policy was read from.

    Attributes:
        toml: its whole text.
        shipped: whether docaudit ships this very file.
        looser: how it asks less than the shipped policy, in clauses; empty where it does not.
    """

    toml: str
    shipped: bool
    looser: str = ""

    @property
    def sha256(self) -> str:
        """Return the sha256 of the policy's file, as `sha256sum` prints it."""
        return hashlib.sha256(self.toml.encode()).hexdigest()


@dataclass(frozen=True, config=STRICT)
class Policy:
    """What an owner accepts.

    Attributes:
        undecided: "warn" lets an audit exit 0 that is undecided by width alone; the default fails
            closed.
        text: what limits on the documents' own text (`record.Result.about_text`) do. They have a
            verdict of their own; with "fail" the exit code is that of the worse one of both.
        gaps: attacks that models of some kinds cannot be put to. An inapplicable attack without one
            is undecided.
        demands: questions that a pass must answer; one that the gaps permit to stay open altogether
            is none.
        forgets: it judges whether a model has forgotten documents, and no other records.
        origin: the file it was read from; `load` sets it, a file cannot.
    """

    schema: Literal[1]
    name: str
    limits: tuple[Limit, ...]
    description: Description = ""
    undecided: Literal["fail", "warn"] = "fail"
    text: Literal["report", "fail"] = "report"
    gaps: tuple[Gap, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    demands: tuple[Demand, ...] = ()
    forgets: bool = Field(default=False, strict=True)
    origin: Origin | None = None


def warn_of_few(forgotten: Forgotten | None, policy: Policy) -> tuple[str, ...]:
    """Warn of limits that no model can be shown to meet with so few of the listed documents."""
    if forgotten is None:
        return ()
    few = []
    for limit in policy.limits:
        least = forgotten.shown.get(limit.metric, 0.0)
        if limit.max is not None and least > limit.max:
            few.append(f"{limit.metric} {least:.3f} (the policy has {limit.max:g})")
    if not few:
        return ()
    return (TEXTS["few"].format(named=", ".join(few), policy=policy.name),)
