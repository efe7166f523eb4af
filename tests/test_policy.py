"""The verdict: a table of every way that it can end, under a policy that fails and one that warns, and its laws."""

from __future__ import annotations

import datetime as dt
import itertools
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from audit.cards import NO_MODEL, Bounds, CorpusCard
from audit.cli import console
from audit.errors import PolicyError
from audit.measurements import ALPHAS, Bound, Check, Count, Coverage, Estimate, Measurement, Unresolved
from audit.policy import EXIT_CODES, Counts, Demand, Gap, Limit, Policy, Verdict, Waiver, evaluate, load
from audit.record import AuditRecord, Reason, Result
from audit.report.answer import decides_most
from audit.stats.p_values import holm

TODAY = dt.date(2026, 3, 2)
OVERALL = {0: ("passed", "waived"), 10: ("violated",), 11: ("undecided",)}


def estimate(name: str, low: float, high: float, *, lower_p: float = 1.0, upper_p: float = 1.0, edge: float = 0.05):
    """An interval whose one-sided bounds lie over (under) `edge` at every level from `lower_p` (`upper_p`) on.

    Value and interval lie within them, as a scan's do.
    """
    bounds = tuple(
        Bound(
            alpha,
            edge + 1e-6 if alpha >= lower_p else min(low, edge),
            edge - 1e-6 if alpha >= upper_p else max(high, edge),
        )
        for alpha in ALPHAS
    )
    (own,) = (bound for bound in bounds if bound.alpha == 0.025)
    widest = max(bounds, key=lambda bound: bound.alpha)
    value = min(max((low + high) / 2, widest.lower), widest.upper)
    low, high = max(low, own.lower), min(high, own.upper)
    return Estimate(name, value, low, high, 100, "fields", 50, "made up", 0.0, "held-out", bounds=bounds)


def measured(name: str, low: float, high: float, n: int = 100, unit: str = "fields", **more: Any) -> Estimate:
    """An interval that is its own bound at every level."""
    bounds = tuple(Bound(alpha, low, high) for alpha in ALPHAS)
    return Estimate(name, (low + high) / 2, low, high, n, unit, n, "made up", bounds=bounds, **more)


def normal(name: str, value: float, error: float, null: float | None = None) -> Estimate:
    """A coherent estimate with normal bounds of standard error `error`; `null` is of held-out documents."""
    z = NormalDist().inv_cdf
    bounds = tuple(Bound(alpha, value - z(1 - alpha) * error, value + z(1 - alpha) * error) for alpha in ALPHAS)
    reach, kind = z(0.975) * error, None if null is None else "held-out"
    low, high = value - reach, value + reach
    return Estimate(name, value, low, high, 100, "fields", 50, "normal", null, kind, bounds=bounds)  # type: ignore[arg-type]


def area(name: str, value: float, error: float = 0.02) -> Estimate:
    """An area under the curve: chance is 0.5."""
    return replace(normal(name, value, error), null=0.5, null_kind="chance")


def power(value: float) -> Estimate:
    return measured("power", value - 0.05, value + 0.05)


def completed(*measurements: Measurement, attack: str = "reconstruction", **more: Any) -> Result:
    return Result(attack, measurements=measurements, **{"power": "power", **more})


def gone(status: Any, kind: Any, why: str, fix: str = "", attack: str = "reconstruction") -> Result:
    """A result without numbers."""
    return Result(attack, status=status, reason=Reason(kind, why, fix))


def limit(metric: str = "leak", attack: str = "reconstruction", **settings: Any) -> Limit:
    asked = {"max": 0.05} if not {"max", "min"} & set(settings) else {}
    return Limit(attack, metric, "because", **asked, **settings)


GAPS = (Gap("reconstruction", ("mlm",), "made up"),)
"""Attacks that the model of these records cannot be put to, and that the policies of these tests do without."""
OF_RECORD, OF_CORPUS = ({field.name for field in fields(kind)} for kind in (AuditRecord, CorpusCard))


def judged(results: Sequence[Result], *limits: Limit, **settings: Any) -> tuple[AuditRecord, Verdict]:
    """Hold results against limits; `settings` are fields of the policy, the record, its data set or its target."""
    battery = dict.fromkeys(["reconstruction", *(one.attack for one in limits)])
    record = replace(tiny.record(*results, battery=(*battery,)), target=replace(tiny.record().target))
    corpus = {name: settings.pop(name) for name in [*settings] if name in OF_CORPUS - {"name", "task"}}
    target = {name: settings.pop(name) for name in [*settings] if name in ("family", "task")}
    changes = {name: settings.pop(name) for name in [*settings] if name in OF_RECORD - {"policy"}}
    record = replace(
        record, corpus=replace(record.corpus, **corpus), target=replace(record.target, **target), **changes
    )
    policy = Policy(schema=1, name="test", limits=limits or (limit(),), **{"gaps": GAPS, **settings})
    return record, evaluate(record, policy, TODAY)


def judge(results: Sequence[Result], *limits: Limit, **settings: Any) -> Verdict:
    return judged(results, *limits, **settings)[1]


SAFE = estimate("leak", -0.01, 0.05)
LEAKY = estimate("leak", 0.2, 0.3, lower_p=0.001)
WIDE = estimate("leak", 0.0, 0.0501)
OTHER = estimate("other", 0.0, 0.01)
STRONG, WEAK = power(0.5), power(0.49)
NONE = Unresolved("leak", "fewer than two documents", 1, 20)
NO_POWER = Unresolved("power", "no such field", 0)
INAPPLICABLE = gone("inapplicable", "model", "no such head")
SKIPPED = gone("skipped", "missing", "it needs a reference", "--reference auxiliary=PATH")
NO_DATA = gone("skipped", "data", "no canaries", "plant some")
FAILED = gone("failed", "error", "IndexError at audit/x.py:3")
ABLATED = {"ablations": ("no image",)}
ASKS_POWER, OPTIONAL = limit(min_power=0.5), limit(required=False)
ACCURATE, ACCURACY = limit("accuracy", min=0.7), estimate("accuracy", 0.7, 0.9, edge=0.7)
BARELY, ALMOST = (estimate("leak", 0.04, 0.3, lower_p=p) for p in (0.05, 0.1))
SECOND = limit(attack="membership")
OTHER_SAFE, OTHER_LEAKY = completed(SAFE, attack="membership"), completed(LEAKY, attack="membership")
OTHER_NO_DATA = replace(NO_DATA, attack="membership")
BOTH, EITHER = (limit(), SECOND), (limit(), replace(SECOND, required=False))
METHODS = {"leak": ("leak", "leak.strong")}
STRONGER, WIDER = replace(LEAKY, name="leak.strong"), estimate("leak.strong", 0.0, 0.06)
ALARM = Check("epsilon", 0.001, "alarm", "epsilon is at least 2.32", "train again")
COVERED = {"coverage": (Coverage("all", 32, 100), Coverage("location", 3, 100), Coverage("amount", 60, 100))}
UNIQUE = completed(measured("leak.unique", -0.01, 0.01), coverage=(Coverage("all", 90, 100, unique=20),))
ANLS = Estimate("anls", 0.0, 0.0, 0.05, 100, "questions", 50, "made up", 0.02, "chance")
OTHERS = tuple(normal(f"other{number}", 0.0, 0.01) for number in range(6))
LIMITED = tuple(limit(one.name, max=0.5) for one in OTHERS)
LIRA = Unresolved("leak.lira", "no split models", 0)
TEXT = completed(LEAKY, attack="redaction", about_text=("leak",))
OF_TEXT = limit(attack="redaction")
PLENTY, SMALL = {"member": 100, "heldout": 100}, {"member": 100, "heldout": 40}
KNOWN = {"documents": PLENTY, "questions": {"member": 40, "heldout": 40}}
RARE = (limit(), limit("rare", required=False))
FEW = completed(SAFE, Unresolved("rare", "fewer than 72 held-out documents", 20, 72))
OPEN = completed(estimate("leak", 0.03, 0.09), Unresolved("rare", "fewer than 72 held-out documents", 20, 72))
ALL_LEFT = "To decide 2 of 2 undecided limits: rerun without --budget quick"
UNCOUNTED = Unresolved("leak", "fewer than two held-out documents with such fields", 0, 72)
EMPTY = Unresolved("leak", "too few documents trained on with such values", 0, 72)
LEFT_OUT = Count("left out: few plausible values", 240, "questions with fewer than 3 public answers")
TENTH = limit(max=10.0, holds="lower")


def counted(n: int, low: float = 0.0, high: float = 3.0) -> Result:
    return completed(measured("leak", low, high, n, "values", null=0.0, null_kind="held-out"))


def waiver(days: int, metric: str = "leak", owner: str = "A. Officer", attack: str = "reconstruction") -> Waiver:
    end = TODAY + dt.timedelta(days)
    return Waiver(attack, metric, owner, "head of data", "the weights stay here", "one locked machine", end)


EXTRACTS = Demand("repeated text", ("reconstruction", "memorisation", "canaries"), "why")
RECOGNISES = Demand("whom it was trained on", ("membership",), "why")
ASKED = (
    limit(), limit(attack="memorisation"), SECOND,
    limit(attack="canaries", required=False), limit("other", attack="canaries", required=False),
)  # fmt: skip
DEMANDING = {
    "demands": (EXTRACTS, RECOGNISES),
    "gaps": (Gap("reconstruction", ("mlm",), "no such head"), Gap("memorisation", ("mlm",), "no answers")),
}
PERMITTING = {**DEMANDING, "gaps": (*DEMANDING["gaps"], Gap("canaries", ("mlm",), "ranks nothing"))}
NO_ANSWERS = gone("inapplicable", "model", "the model answers nothing", attack="memorisation")
NO_CANARIES = gone("skipped", "data", "no canaries", "docaudit canary insert", "canaries")
NO_RANKS = gone("inapplicable", "model", "ranks nothing", attack="canaries")
CANARIES, SECRETS = (completed(one, replace(OTHER, high=0.05), attack="canaries") for one in (SAFE, LEAKY))
UNASKED = [INAPPLICABLE, NO_ANSWERS, OTHER_SAFE]
NOT_ASKED = ("inapplicable", "inapplicable", "passed")


class Ending(NamedTuple):
    """What is judged, the outcome of each limit, the exit code, and words that the verdict holds.

    `warned` is the exit code under a policy that warns of undecided limits.
    """

    results: Sequence[Result]
    limits: Sequence[Limit]
    outcomes: Sequence[str]
    code: int
    says: Sequence[str]
    warned: int
    settings: dict[str, Any]


def ends(results: Any, outcomes: Any, code: int, *says: str, on: Any = None, warned: int = -1, **more: Any) -> Ending:
    given = [
        (one,) if isinstance(one, kind) else tuple(one)
        for one, kind in ((results, Result), (on or limit(), Limit), (outcomes, str))
    ]
    return Ending(*given, code, says, code if warned < 0 else warned, more)


ENDINGS: dict[str, Ending] = {
    "within": ends(completed(SAFE), "passed", 0, "the whole interval is within the limit"),
    "within, strong": ends(completed(SAFE, STRONG), "passed", 0, on=ASKS_POWER),
    "within, weak": ends(
        completed(SAFE, WEAK), "undecided", 11, "(weak) the attacker is too weak: power 0.49; the", on=ASKS_POWER,
    ),
    "power unresolved": ends(
        completed(SAFE, NO_POWER), "undecided", 11, "its strength could not be measured", on=ASKS_POWER,
    ),
    "power missing": ends(completed(SAFE), "undecided", 11, "its strength could not be measured", on=ASKS_POWER),
    "attack without power": ends(completed(SAFE, power=None), "undecided", 11, "could not be measured", on=ASKS_POWER),
    "weak, nothing asked": ends(completed(SAFE, WEAK), "passed", 0),
    "strength above one, too little": ends(completed(SAFE, power(4.9)), "undecided", 11, on=limit(min_power=5)),
    "strength above one": ends(completed(SAFE, power(5.0)), "passed", 0, on=limit(min_power=5)),
    "weakened": ends(completed(SAFE, **ABLATED), "undecided", 11, "(weakened) the attacker was weakened: no image"),
    "weakened, over": ends(completed(LEAKY, **ABLATED), "violated", 10, "the leak above the limit is confirmed"),
    "reaches over": ends(completed(WIDE), "undecided", 11, "(wide) the interval crosses the limit", warned=0),
    "reaches over, strong": ends(completed(WIDE, STRONG), "undecided", 11, "crosses the", on=ASKS_POWER, warned=0),
    "over": ends(completed(LEAKY), "violated", 10, "the leak above the limit is confirmed"),
    "over, weak attacker": ends(completed(LEAKY, WEAK), "violated", 10, on=ASKS_POWER),
    "over, not required": ends(completed(LEAKY), "violated", 10, on=OPTIONAL),
    "over, at 0.05": ends(completed(BARELY), "violated", 10),
    "over, at 0.1 only": ends(completed(ALMOST), "undecided", 11, "crosses the limit", warned=0),
    "wholly over, not confirmed": ends(
        completed(estimate("leak", 0.06, 0.3, lower_p=0.1)), "undecided", 11,
        "p = 0.1 after Holm's correction, at most 0.05 needed -> audit more documents",
    ),
    "over, alone": ends(completed(normal("leak", 0.3, 0.05)), "violated", 10, on=limit(max=0.2)),
    "over, beside others": ends(
        completed(normal("leak", 0.31, 0.05), *OTHERS, **ABLATED), ["undecided"] * 7, 11,
        "(wide) the interval lies above the limit, but the leak is not confirmed", on=(limit(max=0.2), *LIMITED),
    ),
    "area over, beside others": ends(
        completed(area("leak", 0.69, 0.05), *OTHERS), ["undecided", *["passed"] * 6], 11, "after Holm's correction",
        on=(limit(max=0.58), *LIMITED),
    ),
    "area under chance, beside others": ends(
        completed(area("leak", 0.31, 0.05), *OTHERS), ["undecided", *["passed"] * 6], 11, "after Holm's correction",
        on=(limit(max=0.58), *LIMITED),
    ),
    "least missed, beside others": ends(
        completed(normal("leak", 0.39, 0.05), *OTHERS), ["undecided", *["passed"] * 6], 11, "after Holm's correction",
        on=(limit(min=0.5), *LIMITED),
    ),
    "unresolved": ends(completed(NONE), "undecided", 11, "(unresolved) fewer than two documents (n = 1; 20", warned=0),
    "unresolved, optional": ends(completed(NONE), "not run", 11, "fewer than two documents", on=OPTIONAL),
    "unresolved for another reason, optional": ends(
        completed(replace(NONE, needed=None)), "undecided", 11, "fewer than two", on=OPTIONAL, warned=0,
    ),
    "unresolved, weakened, optional": ends(completed(NONE, **ABLATED), "undecided", 11, on=OPTIONAL, warned=0),
    "not in the record": ends(completed(STRONG), "undecided", 11, "(unmeasured) the record lacks this number"),
    "skipped": ends(SKIPPED, "undecided", 11, "(unmeasured) skipped: it needs a reference -> --reference"),
    "skipped, optional": ends(SKIPPED, "undecided", 11, on=OPTIONAL),
    "no data": ends(NO_DATA, "undecided", 11, "(unmeasured) skipped: no canaries", gaps=()),
    "no data, permitted": ends(NO_DATA, "not run", 11, "no limit of the policy could be checked"),
    "no data, optional": ends(NO_DATA, "not run", 11, "no canaries", on=OPTIONAL),
    "failed": ends(FAILED, "undecided", 11, "(unmeasured) the attack failed (IndexError at audit/x.py:3)"),
    "failed, optional": ends(FAILED, "undecided", 11, on=OPTIONAL),
    "not run": ends((), "undecided", 11, "(unmeasured) this attack was not run -> scan without --only"),
    "not run, optional": ends((), "undecided", 11, on=OPTIONAL),
    "a metric taken at its word": ends((), "undecided", 11, on=limit("anything")),
    "inapplicable": ends(INAPPLICABLE, "inapplicable", 11, "no such head"),
    "inapplicable, not permitted": ends(
        INAPPLICABLE, "undecided", 11, "(gap)", "the policy permits no such gap: no such head", "[[gaps]]", gaps=(),
    ),
    "attack of a later version": ends(
        completed(SAFE), "undecided", 11, "the docaudit version of this record had no such attack",
        on=limit("auc", attack="membership"), battery=("reconstruction",),
    ),
    "at least": ends(completed(ACCURACY), "passed", 0, on=ACCURATE),
    "at least, reaches under": ends(
        completed(estimate("accuracy", 0.69, 0.9, edge=0.7)), "undecided", 11, on=ACCURATE, warned=0,
    ),
    "at least, confirmed under": ends(
        completed(estimate("accuracy", 0.3, 0.5, upper_p=0.01, edge=0.7)), "violated", 10, on=ACCURATE,
    ),
    "at least, bounds over it say nothing": ends(
        completed(estimate("accuracy", 0.3, 0.9, lower_p=0.05, edge=0.7)), "undecided", 11, on=ACCURATE, warned=0,
    ),
    "at least a negative number": ends(
        completed(estimate("accuracy", -0.9, 0.9, edge=-1.0)), "passed", 0, on=limit("accuracy", min=-1.0),
    ),
    # The worst limit wins.
    "both within": ends((completed(SAFE), OTHER_SAFE), ("passed",) * 2, 0, "2 of 2 limits met", on=BOTH),
    "one inapplicable": ends(
        (INAPPLICABLE, OTHER_SAFE), ("inapplicable", "passed"), 0,
        "1 of 2 limits met, 1 not applicable (reconstruction)", on=BOTH,
    ),
    "one inapplicable, no gap": ends((INAPPLICABLE, OTHER_SAFE), ("undecided", "passed"), 11, on=BOTH, gaps=()),
    "inapplicable and over": ends(
        (INAPPLICABLE, OTHER_LEAKY), ("inapplicable", "violated"), 10, "1 of 2 limits exceeded", on=BOTH,
    ),
    "wide and within": ends(
        (completed(WIDE), OTHER_SAFE), ("undecided", "passed"), 11, "1 of 2 limits undecided", on=BOTH, warned=0,
    ),
    "wide and over": ends((completed(WIDE), OTHER_LEAKY), ("undecided", "violated"), 10, on=BOTH),
    "wide and confounded": ends(
        (completed(WIDE), replace(OTHER_SAFE, confounded="easier")), ("undecided",) * 2, 11, "(confounded) easier",
        on=BOTH,
    ),
    "skipped and over": ends((SKIPPED, OTHER_LEAKY), ("undecided", "violated"), 10, on=BOTH),
    # A MemoryError of the canary attack let a model pass that gives 28 of 34 secrets away.
    "failed and within": ends((FAILED, OTHER_SAFE), ("undecided", "passed"), 11, on=(OPTIONAL, SECOND)),
    "both over": ends((completed(LEAKY), OTHER_LEAKY), ("violated",) * 2, 10, "2 of 2 limits exceeded", on=BOTH),
    "one not run": ends(completed(SAFE), ("passed", "undecided"), 11, on=BOTH),
    "one not run, optional": ends(completed(SAFE), ("passed", "undecided"), 11, on=EITHER),
    "one without data, optional": ends(
        (completed(SAFE), OTHER_NO_DATA), ("passed", "not run"), 0, "1 of 2 limits met, 1 not tested", on=EITHER,
    ),
    "nothing decided": ends(
        (INAPPLICABLE, OTHER_NO_DATA), ("inapplicable", "not run"), 11, "no limit of the policy could", on=EITHER,
    ),
    # --only and a limit that is not required passed, though the data set could have fed the attack.
    "left out": ends(
        completed(SAFE), ("passed", "undecided"), 11, on=EITHER,
        left_out=(gone("left out", "left out", "this attack was not run", "scan without --only", "membership"),),
    ),
    "left out, no data": ends(
        completed(SAFE), ("passed", "not run"), 0, on=EITHER,
        left_out=(gone("left out", "data", "no canaries", attack="membership"),),
    ),
    "left out, no such model": ends(
        completed(SAFE), ("passed", "undecided"), 11, on=EITHER,
        left_out=(gone("left out", "model", "no such head", attack="membership"),),
    ),
    # Swapped splits gave AUC 0.071 [0.040, 0.121], an unlearned model 0.015, and both passed "at most 0.65".
    "area far under chance": ends(
        completed(area("leak", 0.071)), "violated", 10, "have the opposite sign", on=limit(max=0.65),
    ),
    "area at 0.015": ends(completed(area("leak", 0.015)), "violated", 10, on=limit(max=0.65)),
    "area a little under chance": ends(
        completed(area("leak", 0.45)), "undecided", 11, "(confounded) an AUC below 0.5 also distinguishes",
        on=limit(max=0.65),
    ),
    "area over chance": ends(completed(area("leak", 0.53)), "passed", 0, on=limit(max=0.65)),
    "area at chance": ends(completed(area("leak", 0.5)), "passed", 0, on=limit(max=0.65)),
    "area hardly under chance": ends(completed(area("leak", 0.48)), "passed", 0, on=limit(max=0.65)),
    "area that may lie beyond the mirrored limit": ends(
        completed(area("leak", 0.5, 0.1)), "undecided", 11, "(wide) the interval crosses", on=limit(max=0.65),
        warned=0,
    ),
    # Members and held-out documents exchanged: -0.427 [-0.504, -0.346] passed "at most 0.05".
    "splits exchanged": ends(
        completed(normal("leak", -0.427, 0.04, 0.0)), "undecided", 11,
        "the unseen documents look trained on, unless this is chance", "draw other unseen documents",
    ),
    "a null above zero counts as zero": ends(completed(normal("leak", 0.0, 0.005, 0.02)), "passed", 0),
    # A wrong prompt or random weights: nothing is remembered, for nothing is said.
    "useless": ends(
        completed(SAFE), "undecided", 11,
        "(useless) the model does not do its task: held-out anls is 0.000 [0.000, 0.050]", utility=(ANLS,),
    ),
    "useless on one of two": ends(
        completed(SAFE), "undecided", 11, "held-out intent accuracy",
        utility=(tiny.USEFUL, replace(ANLS, name="intent_accuracy")),
    ),
    "hardly useful": ends(
        completed(SAFE), "undecided", 11, "the commonest answer scores 0.020",
        utility=(replace(ANLS, value=0.5, low=0.02, high=0.9),),
    ),
    "usefulness unresolved": ends(
        completed(SAFE), "undecided", 11, "could not be measured (held-out entity f1: none)",
        utility=(Unresolved("entity_f1", "none", 0),),
    ),
    "usefulness not measured": ends(
        completed(SAFE), "undecided", 11, "the model's accuracy was not measured", utility=(),
    ),
    "useless and over": ends(completed(LEAKY), "violated", 10, utility=(ANLS,)),
    # Areas of 1.000 stood in the record beside a primary method of 0.497, which passed.
    "strongest method over": ends(completed(SAFE, STRONGER, methods=METHODS), "violated", 10),
    "a number that is no method": ends(completed(SAFE, STRONGER), "passed", 0),
    "one method reaches over": ends(completed(SAFE, WIDER, methods=METHODS), "undecided", 11, "(wide)", warned=0),
    "a method that this case cannot have": ends(
        completed(SAFE, LIRA, methods={"leak": ("leak", "leak.lira")}), "passed", 0,
    ),
    "no method that this case can have": ends(completed(SAFE, LIRA, methods={"leak": ("leak.lira",)}), "passed", 0),
    # A one-run bound on epsilon at its cap stood in the record beside "passed".
    "alarm": ends(completed(SAFE, checks=(ALARM,)), "undecided", 11, "(alarm) epsilon is at least 2.32 -> train again"),
    "alarm and over": ends(completed(LEAKY, checks=(ALARM,)), "violated", 10),
    # On real receipts 18 of 623 addresses were tried, and "passed" did not say so.
    "covered": ends(
        completed(SAFE, **COVERED), "passed", 0,
        "for 32 of 100 fields in training documents; only 3 of 100 of category location", on=limit(min_coverage=0.3),
    ),
    "uncovered": ends(
        completed(SAFE, **COVERED), "undecided", 11, "(uncovered)", "all: 32 of 100 fields", on=limit(min_coverage=0.4),
    ),
    "category covered": ends(completed(SAFE, **COVERED), "passed", 0, on=limit(min_category_coverage=0.03)),
    "category uncovered": ends(
        completed(SAFE, **COVERED), "undecided", 11, "(location: 3 of 100 fields); the policy asks for 10%",
        on=limit(min_category_coverage=0.1),
    ),
    "coverage not recorded": ends(completed(SAFE), "undecided", 11, "(uncovered)", on=limit(min_coverage=0.1)),
    "unique values uncovered": ends(
        UNIQUE, "undecided", 11, "(uncovered)", "all: 20 of 100 fields", "--budget full",
        on=limit("leak.unique", min_coverage=0.3),
    ),
    "unique values covered": ends(
        UNIQUE, "passed", 0, "for 20 of 100 fields", on=limit("leak.unique", min_coverage=0.2),
    ),
    # 168 answers of 4,654 are a share of 3.6 %, and 100 people.
    "count over": ends(counted(4654, 60, 160), "violated", 10, on=TENTH),
    "count within": ends(counted(4654, 2, 40), "passed", 0, "only the lower bound counts", on=TENTH),
    "count that could not exceed its limit": ends(
        counted(10), "not run", 11, "10 values were tried: the count cannot exceed 10",
        on=replace(TENTH, required=False),
    ),
    "count that could": ends(counted(11), "passed", 0, on=replace(TENTH, required=False)),
    "required count that could not": ends(counted(10), "undecided", 11, "(unresolved)", on=TENTH, warned=0),
    # What the documents' own text gives away is no verdict on the model.
    "text reported": ends(
        (completed(SAFE), TEXT), ("passed", "violated"), 0, "text: violated, 1 of 1 limits exceeded",
        on=(limit(), OF_TEXT),
    ),
    "text counts": ends((completed(SAFE), TEXT), ("passed", "violated"), 10, on=(limit(), OF_TEXT), text="fail"),
    "text and no number of the model": ends(TEXT, "violated", 11, "text: violated", on=OF_TEXT),
    "text, whatever the model is good for": ends(
        replace(TEXT, measurements=(SAFE,)), "passed", 11, "text: passed", on=OF_TEXT, utility=(ANLS,),
    ),
    "text, whatever was left out": ends(
        completed(SAFE, OTHER, about_text=("other",)), ("undecided", "passed"), 11, on=(limit(), limit("other")),
        unread={"member": 90}, **KNOWN,
    ),
    "text alone": ends(
        (replace(TEXT, measurements=(SAFE,)), INAPPLICABLE, replace(INAPPLICABLE, attack="membership")),
        ("passed", "inapplicable", "inapplicable"), 0, on=(OF_TEXT, *BOTH), utility=(), family=NO_MODEL,
        demands=(EXTRACTS,),
    ),
    # None of the documents that an audit did without may turn a leak into a pass.
    "few documents left out": ends(completed(SAFE), "passed", 0, unread={"member": 6, "heldout": 2}, **KNOWN),
    "public documents left out": ends(completed(SAFE), "passed", 0, unread={"public": 60}, **KNOWN),
    "half of the questions left out": ends(completed(SAFE), "passed", 0, unread_questions={"member": 40}, **KNOWN),
    "members left out": ends(
        completed(SAFE), "undecided", 11, "(uncovered)", "were left out", unread={"member": 60}, **KNOWN,
    ),
    "held-out left out": ends(completed(SAFE), "undecided", 11, "(uncovered)", unread={"heldout": 60}, **KNOWN),
    "questions left out": ends(
        completed(SAFE), "undecided", 11, "(uncovered)", unread_questions={"member": 60}, **KNOWN,
    ),
    "members left out, over": ends(completed(LEAKY), "violated", 10, unread={"member": 60}, **KNOWN),
    # A policy does without what a data set cannot give, and not without what nobody looked at.
    "too few documents": ends(FEW, ("passed", "not run"), 0, on=RARE, documents=SMALL),
    "too few documents, a part": ends(FEW, ("passed", "not run"), 0, on=RARE, documents=SMALL, share=0.25),
    "bound on all documents": ends(
        FEW, ("passed", "not run"), 0, on=RARE, documents=PLENTY, bounds=Bounds(200, None, 1.0),
    ),
    "bound on documents": ends(
        FEW, ("passed", "undecided"), 11, "among those tried", on=RARE, documents=PLENTY,
        bounds=Bounds(40, None, 1.0), warned=0,
    ),
    "bound on time": ends(
        FEW, ("passed", "undecided"), 11, "tried", on=RARE, documents=PLENTY, bounds=Bounds(None, 60.0, 0.2), warned=0,
    ),
    "a part": ends(FEW, ("passed", "undecided"), 11, "tried", on=RARE, documents=PLENTY, share=0.25, warned=0),
    # A quick scan tries a quarter: nothing sends for documents before the rest was tried.
    "first the rest of the budget": ends(
        OPEN, ("undecided",) * 2, 11, f"{ALL_LEFT}.", on=(limit(), limit("rare")),
        documents=PLENTY, share=0.25, warned=0,
    ),
    "first without bounds": ends(
        OPEN, ("undecided",) * 2, 11, f"{ALL_LEFT}, --documents and --time.",
        on=(limit(), limit("rare")), documents=PLENTY, share=0.25, bounds=Bounds(40, None, 0.2), warned=0,
    ),
    "first all documents, then a stronger attacker": ends(
        (completed(SAFE, **ABLATED), completed(estimate("leak", 0.03, 0.09), attack="membership")),
        ("undecided",) * 2, 11,
        "first: To decide 1 of 2 undecided limits: rerun without --budget quick.",
        on=BOTH, documents=PLENTY, share=0.25,
    ),
    "all was tried": ends(
        completed(estimate("leak", 0.03, 0.09)), "undecided", 11,
        "first: To decide 1 of 1 undecided limit: audit more documents.", documents=PLENTY, warned=0,
    ),
    "no held-out documents": ends(
        completed(UNCOUNTED), "undecided", 11, "-> add unseen documents from the same source",
        "--heldout-from",
        documents={"member": 40}, warned=0,
    ),
    "too few held-out documents": ends(
        completed(UNCOUNTED), "undecided", 11, "-> audit more documents", documents={"member": 40, "heldout": 30},
        warned=0,
    ),
    "everything was left out": ends(
        completed(EMPTY, counts=(LEFT_OUT,)), "undecided", 11,
        "left out: 240 questions with fewer than 3 public answers", "-> fix this and scan again",
        documents={"member": 40, "heldout": 30}, warned=0,
    ),
    # Questions that a pass must answer.
    "recognition alone": ends(
        (*UNASKED, NO_CANARIES), (*NOT_ASKED, "undecided", "undecided"), 11,
        "(unmeasured)",
        "a pass needs a decided limit on repeated text: reconstruction or memorisation or canaries -> docaudit canary",
        "headline: 2 of 5 limits undecided, 1 met, 2 not applicable", on=ASKED, **DEMANDING,
    ),
    "recognition alone, nothing demanded": ends(
        (*UNASKED, NO_CANARIES), (*NOT_ASKED, "not run", "not run"), 0, "2 not tested (canaries: no canaries)",
        on=ASKED, gaps=DEMANDING["gaps"],
    ),
    "recognition alone, canaries left out": ends(
        UNASKED, (*NOT_ASKED, "undecided", "undecided"), 11, on=ASKED, **DEMANDING,
        left_out=(gone("left out", "data", "no canaries", "scan without --only", "canaries"),),
    ),
    "extraction alone": ends(
        (*UNASKED[:2], gone("skipped", "data", "no public documents", "add public documents", "membership"), CANARIES),
        ("inapplicable", "inapplicable", "undecided", "passed", "passed"), 11, "-> add public documents",
        on=(*ASKED[:2], replace(SECOND, required=False), *ASKED[3:]), **DEMANDING,
    ),
    "both answered": ends(
        (*UNASKED, CANARIES), (*NOT_ASKED, "passed", "passed"), 0,
        "headline: 3 of 5 limits met, 2 not applicable (reconstruction, memorisation)", on=ASKED, **DEMANDING,
    ),
    "answered in part": ends(
        (*UNASKED, completed(SAFE, replace(NONE, name="other"), attack="canaries")),
        (*NOT_ASKED, "passed", "not run"), 0,
        "1 not tested (canaries in part: fewer than two documents (n = 1; 20 needed))", on=ASKED, **DEMANDING,
    ),
    "answered by a leak": ends((*UNASKED, SECRETS), (*NOT_ASKED, "violated", "passed"), 10, on=ASKED, **DEMANDING),
    "too few units answer nothing": ends(
        (*UNASKED, completed(NONE, replace(NONE, name="other"), attack="canaries")),
        (*NOT_ASKED, "undecided", "undecided"), 11,
        on=ASKED, **DEMANDING,
    ),
    "violated, and not answered": ends(
        (*UNASKED[:2], OTHER_LEAKY, NO_CANARIES), (*NOT_ASKED[:2], "violated", "undecided", "undecided"), 10,
        on=ASKED, **DEMANDING,
    ),
    "no attack can answer": ends(
        (*UNASKED, NO_RANKS), (*NOT_ASKED, "inapplicable", "inapplicable"), 0,
        "no attack on repeated text applies to this kind of model, as the policy permits", on=ASKED,
        **PERMITTING,
    ),
    "no attack need answer": ends(
        (*UNASKED, NO_CANARIES), (*NOT_ASKED, "not run", "not run"), 0, "as the policy permits", on=ASKED, **PERMITTING,
    ),
    "every missing attack needs a gap": ends(
        (*UNASKED, NO_RANKS), (*NOT_ASKED, "undecided", "undecided"), 11, "(gap)", on=ASKED, **DEMANDING,
    ),
    "the first attack that can be asked": ends(
        (INAPPLICABLE, replace(NO_DATA, attack="memorisation"), OTHER_SAFE, NO_CANARIES),
        ("inapplicable", "undecided", "passed", "not run", "not run"), 11, "-> plant some", demands=(EXTRACTS,),
        on=(ASKED[0], replace(ASKED[1], required=False), *ASKED[2:]), gaps=DEMANDING["gaps"][:1],
    ),
    # Waivers: only a violation can be waived, not ignorance.
    "waived on its last day": ends(
        completed(LEAKY), "waived", 0, "1 of 1 limits exceeded and waived", waivers=(waiver(0),),
    ),
    "waived for a year": ends(completed(LEAKY), "waived", 0, waivers=(waiver(366),)),
    "waiver expired": ends(
        completed(LEAKY), "violated", 10, "(head of data) expired on 2026-03-01 and has no effect",
        waivers=(waiver(-1),),
    ),
    "waiver for more than a year": ends(
        completed(LEAKY), "violated", 10, "ends on 2027-03-04, more than 12 months ahead, and has no effect",
        waivers=(waiver(367),),
    ),
    "waiver of another limit": ends(
        completed(LEAKY, OTHER), ("violated", "passed"), 10, on=(limit(), limit("other")),
        waivers=(waiver(9, "other"),),
    ),
    "waiver of what does not apply": ends(INAPPLICABLE, "inapplicable", 11, waivers=(waiver(9),)),
    **{
        f"no waiver of ignorance {place}": ends(found, "undecided", 11, waivers=(waiver(9),), warned=11 * (place > 1))
        for place, found in enumerate((completed(WIDE), completed(NONE), SKIPPED, FAILED, ()))
    },
}  # fmt: skip


def words_of(record: AuditRecord, verdict: Verdict) -> str:
    """All that a verdict says: a line for each limit and waiver, the headline, and what would decide most."""
    lines = [f"({one.cause}) {one.reason} -> {one.remedy}" for one in verdict.decisions]
    lines += [entry.sentence for entry in verdict.waivers]
    said = f"headline: {verdict.reason}", f"text: {verdict.text}, {verdict.text_reason}"
    return "\n".join([*lines, *said, f"first: {decides_most(record, verdict)}"])


@pytest.mark.parametrize("name", ENDINGS)
def test_every_way_a_verdict_can_end(name: str) -> None:
    row = ENDINGS[name]
    for turn in (1, -1):
        record, verdict = judged(row.results, *row.limits[::turn], **row.settings)
        assert [one.outcome for one in verdict.decisions] == [*row.outcomes[::turn]]
        assert (verdict.exit_code, verdict.overall in OVERALL[row.code]) == (row.code, True) or verdict.text_counts
    record, verdict = judged(row.results, *row.limits, **row.settings)
    for said in row.says:
        assert said in words_of(record, verdict)
    for one in verdict.decisions:
        assert (one.outcome == "undecided") == bool(one.cause)
        assert one.remedy or one.outcome != "undecided"
        assert one.measured is not None or one.outcome not in ("passed", "violated", "waived")
    warned = judge(row.results, *row.limits, **row.settings, undecided="warn")
    assert (warned.overall, warned.exit_code) == (verdict.overall, row.warned)
    assert ('; undecided = "warn" covers only wide intervals, not ' in warned.reason) == (row.warned == 11)


def test_the_numbers_that_decide_stand_in_the_decision() -> None:
    for found, worst in ((STRONGER, STRONGER), (WIDER, WIDER)):
        (decision,) = judge([completed(SAFE, found, methods=METHODS)]).decisions
        assert decision.measured == worst
    (decision,) = judge([completed(LEAKY)], waivers=(waiver(9),)).decisions
    assert (decision.measured, decision.waiver, decision.reason) == (
        LEAKY, waiver(9), "the leak above the limit is confirmed",
    )  # fmt: skip


def test_exit_codes_are_those_of_the_design() -> None:
    assert EXIT_CODES == {"passed": 0, "waived": 0, "violated": 10, "undecided": 11}


def test_the_counts_name_the_worst_first() -> None:
    counts = Counts(met=3, waived=2, violated=1, undecided=4, not_tested=3, inapplicable=2)
    assert counts.sentence == (
        "1 of 15 limits exceeded, 4 undecided, 2 exceeded and waived, 3 met, 3 not tested, 2 not applicable"
    )
    assert (counts.limits, counts.examined, Counts().sentence) == (15, 6, "0 of 0 limits met")


@pytest.mark.parametrize("p", [*ALPHAS, 1.0])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_p_value_is_the_smallest_level_whose_bound_is_beyond_the_limit(p: float, kind: str) -> None:
    # Between two levels of the record the larger one is read.
    reading = {"lower_p": p} if kind == "max" else {"upper_p": p}
    (decision,) = judge([completed(estimate("leak", 0.0, 1.0, **reading))], limit(**{kind: 0.05})).decisions
    assert decision.p_value == p
    assert (decision.outcome == "violated") == (p <= 0.05)


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ([0.05], [0.05]),
        ([0.05, 0.05], [0.1, 0.1]),
        ([0.025, 0.05], [0.05, 0.05]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # R: p.adjust(c(.01, .04, .03, .005), "holm")
        ([0.5, 0.9, 0.001], [1.0, 1.0, 0.003]),
        ([1.0, 1.0], [1.0, 1.0]),
    ],
)
def test_holm_by_hand(raw: list[float], adjusted: list[float]) -> None:
    assert holm(dict(enumerate(raw))) == pytest.approx(dict(enumerate(adjusted)))


@given(st.lists(st.floats(0, 1) | st.none(), max_size=8))
def test_holm_raises_every_p_and_keeps_their_order(raw: list[float | None]) -> None:
    adjusted = holm(dict(enumerate(raw)))
    tested = {index: p for index, p in enumerate(raw) if p is not None}
    assert set(adjusted) == set(tested)
    for index, p in tested.items():
        # Its definition: the largest step of all that are no later.
        earlier = [other for other in tested.values() if other <= p]
        steps = [min(1.0, other * sum(third >= other for third in tested.values())) for other in earlier]
        assert adjusted[index] == pytest.approx(max(steps))
    for (i, p), (j, q) in itertools.combinations(tested.items(), 2):
        if p < q:
            assert adjusted[i] <= adjusted[j]


def test_holm_runs_over_all_limits_and_methods_that_have_a_number() -> None:
    other = replace(BARELY, name="other")
    both = judge([completed(BARELY, other)], limit(), limit("other"))
    assert [(one.outcome, one.p_value) for one in both.decisions] == [("undecided", 0.1)] * 2
    unresolved = judge([completed(BARELY, Unresolved("other", "few", 1))], limit(), limit("other"))
    assert [decision.outcome for decision in unresolved.decisions] == ["violated", "undecided"]
    barely = [replace(BARELY, name=f"leak.{index}") for index in range(4)]
    names = tuple(one.name for one in barely)
    assert judge([completed(SAFE, barely[0], methods={"leak": names[:1]})]).overall == "violated"
    assert judge([completed(SAFE, *barely, methods={"leak": names})]).overall == "undecided"


numbers = st.builds(normal, st.just("x"), st.floats(-0.1, 0.4), st.floats(0.001, 0.1))
one_limit = st.tuples(numbers, st.floats(0.0, 0.3), st.sampled_from(["max", "min"]))
gated = st.lists(one_limit, min_size=1, max_size=5)
RANK = {"passed": 0, "undecided": 1, "violated": 2}


def verdict_of(chosen: Sequence[tuple[Estimate, float, str]]) -> Verdict:
    names = [f"m{index}" for index in range(len(chosen))]
    found = [replace(number, name=name) for name, (number, _, _) in zip(names, chosen, strict=True)]
    return judge(
        [completed(*found)], *(limit(name, **{kind: edge}) for name, (_, edge, kind) in zip(names, chosen, strict=True))
    )


@given(gated, one_limit, st.data())
def test_no_limit_that_is_added_and_no_order_makes_a_verdict_better(
    chosen: list[tuple[Estimate, float, str]], added: tuple[Estimate, float, str], data: st.DataObject
) -> None:
    verdict, larger = verdict_of(chosen), verdict_of([*chosen, added])
    for one in (verdict, larger):
        assert RANK[one.overall] == max(RANK[decision.outcome] for decision in one.decisions)
        assert one.exit_code == EXIT_CODES[one.overall]
    # A limit that is violated alone may be undecided beside others (Holm), but nothing passes that did not before.
    if verdict.overall != "passed" or verdict_of([added]).overall == "violated":
        assert larger.overall != "passed"
    assert verdict_of(data.draw(st.permutations(chosen))).overall == verdict.overall


@given(st.lists(numbers, min_size=1, max_size=5), st.floats(0.0, 0.3))
def test_more_methods_never_make_a_pass(chosen: list[Estimate], edge: float) -> None:
    named = [replace(item, name="leak" if not index else f"leak.{index}") for index, item in enumerate(chosen)]
    alone = judge([completed(named[0])], limit(max=edge))
    methods = {"leak": tuple(item.name for item in named)}
    if judge([completed(*named, methods=methods)], limit(max=edge)).overall == "passed":
        assert alone.overall == "passed"
        assert all(item.high <= edge for item in named)


@given(st.floats(-0.5, 0.5), st.floats(0.001, 0.1))
def test_nothing_wholly_on_the_wrong_side_of_its_null_is_passed(value: float, error: float) -> None:
    number = normal("leak", value, error, 0.0)
    verdict = judge([completed(number)], limit(max=0.05))
    if number.high < 0:
        assert verdict.overall == "undecided"
    elif number.high <= 0.05:
        assert verdict.overall == "passed"


@given(st.integers(0, 200), st.integers(1, 200))
def test_a_pass_rests_on_nine_tenths_of_either_side(left: int, kept: int) -> None:
    for split, other in (("member", "heldout"), ("heldout", "member")):
        verdict = judge([completed(SAFE)], documents={split: kept, other: 50}, unread={split: left})
        assert (verdict.overall == "passed") == (10 * left <= left + kept)


@pytest.mark.parametrize(
    ("result", "waivers", "states"),
    [
        (LEAKY, (31,), ["in force"]),
        (LEAKY, (30,), ["ending"]),
        (LEAKY, (1,), ["ending"]),
        (LEAKY, (-1,), ["expired"]),
        (LEAKY, (367,), ["too long"]),
        (LEAKY, (9, 999), ["ending", "too long"]),
        (LEAKY, (-9, 9, -1), ["expired", "ending", "expired"]),
        (SAFE, (9,), ["not needed"]),
    ],
)
def test_the_register_says_what_each_waiver_does_whatever_the_order(
    result: Estimate, waivers: tuple[int, ...], states: list[str]
) -> None:
    for order in itertools.permutations(zip(waivers, states, strict=True)):
        verdict = judge([completed(result)], waivers=tuple(waiver(days, owner=f"Owner {days}") for days, _ in order))
        assert [(entry.days, entry.state) for entry in verdict.waivers] == [*order]
        holding = [days for days, state in order if state in ("in force", "ending")]
        (decision,) = verdict.decisions
        assert (decision.waiver is not None and decision.waiver.owner) == (bool(holding) and f"Owner {holding[0]}")


def test_a_clock_that_is_set_back_revives_no_waiver() -> None:
    record = tiny.record(completed(LEAKY))
    day = dt.date.fromisoformat(record.timing.finished[:10])
    policy = Policy(1, "test", (limit(),), waivers=(replace(waiver(0), expires=day - dt.timedelta(1)),))
    verdict = evaluate(record, policy, day - dt.timedelta(60))
    assert (verdict.overall, verdict.waivers[0].state) == ("violated", "expired")


def test_a_name_close_to_an_attack_of_an_older_record_is_a_mistake() -> None:
    with pytest.raises(PolicyError, match="no attack is called 'reconstructon'"):
        judge([completed(SAFE)], limit(attack="reconstructon"), battery=("reconstruction",))


def test_a_waived_verdict_has_a_stamp_of_its_own() -> None:
    waivers = (waiver(9), waiver(40, attack="membership"))
    stamps = [judge([completed(LEAKY)], waivers=waivers[:1]).stamp]
    stamps.append(judge([completed(LEAKY), OTHER_LEAKY], *BOTH, waivers=waivers).stamp)
    assert stamps == ["PASSED WITH 1 WAIVER", "PASSED WITH 2 WAIVERS"]
    assert (judge([completed(SAFE)]).stamp, judge([completed(LEAKY)]).stamp) == ("PASSED", "EXCEEDED")


@pytest.mark.parametrize("changes", [{"n": 0}, {"n": -7}, {"clusters": 0}])
def test_a_number_rests_on_something(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        replace(SAFE, **changes)


def test_a_record_cannot_write_a_verdict_of_its_own_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    # ESC [2J and "PASSED ... exit code 0" in a reason, or a newline and "PASSED", looked like a verdict.
    false = "\x1b[2J\nPASSED  every limit that applies is met  (policy default, exit code 0)"
    results = [replace(INAPPLICABLE, reason=Reason("model", false))]
    console.show_verdict(replace(judge(results, gaps=()), policy=f"mine{false}"))
    printed = capsys.readouterr().out
    assert "\x1b[2J" not in printed
    assert not any(line.startswith("PASSED") for line in printed.splitlines())
    assert "UNDECIDED" in printed


def test_the_default_policy_limits_values_of_several_documents() -> None:
    # Regular customers' values, 0.151 [0.109, 0.193] over those of held-out documents, were gated by nothing.
    asked = [item for item in load("default").limits if item.metric == "excess_pr.repeated"]
    found = completed(normal("excess_pr.repeated", 0.151, 0.0214, 0.0), power(0.9))
    assert judge([found], *asked).overall in ("violated", "undecided")


def test_a_verdict_is_reached_without_heavy_libraries() -> None:
    program = (
        "import sys, audit.policy\n"
        "heavy = {'torch', 'transformers', 'scipy', 'sklearn', 'matplotlib', 'weasyprint'} & set(sys.modules)\n"
        "sys.exit(str(sorted(heavy)) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
