"""Policies read from files or records, and the rules that one has to keep so that its verdict says something."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from pydantic import TypeAdapter, ValidationError

from audit.cards import DeclaredPolicy
from audit.errors import PolicyError
from audit.files import read_file, read_toml
from audit.policy.limits import Limit, Origin, Policy, Waiver
from audit.printable import holds_unseen, letters, shown
from audit.resources import folder

MISSPELT = 0.8
"""Likeness of two names from which one is taken for a mistake: provider_membership and membership are less."""
HINT = "what a policy may say stands in docs/policies.md; docaudit's own limits are the starting point"

LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_RATIONALE = 64, 1000, 2000
"""Characters: what a headline, page one and a table of a report hold."""
NAME_RULE = (
    f"a name has 1 to {LONGEST_NAME} of a-z, A-Z, 0-9, space, point, - and _, the first and last a letter or digit"
)
UNSEEN = "holds a character that cannot be seen, or that turns the direction of text"
FEWEST_LETTERS = 2
"""Letters of a name, a role or a reason: the shortest names have two."""
_NOBODY = frozenset({"anyone", "na", "nobody", "noone", "none", "tba", "tbd", "todo", "unknown"})
_NAME = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{{0,{LONGEST_NAME - 2}}}[A-Za-z0-9])?")
_LOOK_ALIKE = str.maketrans("1i0", "llo")


def contradictions(policy: Policy, shipped: Collection[str]) -> list[str]:
    """List what no policy may say, whatever attacks there are, each with its place.

    Args:
        policy: what to check.
        shipped: names of the policies that docaudit ships.
    """
    problems = [*_name_problems(policy.name, shipped), *_text_problems(policy)]
    if not policy.limits:
        problems.append("limits: there is none, so nothing could ever be violated")
    for index, limit in enumerate(policy.limits):
        if (limit.max is None) == (limit.min is None):
            problems.append(f"limits.{index}: give either max or min")
        if limit.holds == "lower" and limit.max is None:
            problems.append(f"limits.{index}: holds: a lower bound is held against a max")
    limited = {limit.attack for limit in policy.limits}
    problems += [
        f"demands.{index}.any_of: no limit on {attack}"
        for index, demand in enumerate(policy.demands)
        for attack in demand.any_of
        if attack not in limited
    ]
    for index, one in enumerate(policy.waivers):
        problems += [f"waivers.{index}.{problem}" for problem in _waiver_problems(one)]
    problems += _repeated(policy)
    gated = {(limit.attack, limit.metric) for limit in policy.limits}
    problems += [
        f"waivers.{index}: no limit on {waiver.attack} {waiver.metric}"
        for index, waiver in enumerate(policy.waivers)
        if (waiver.attack, waiver.metric) not in gated
    ]
    return problems


def _name_problems(name: str, shipped: Collection[str]) -> Iterator[str]:
    """Why a name is none, or reads like that of a shipped policy."""
    if not _NAME.fullmatch(name):
        yield f"name: “{shown(name[:LONGEST_NAME])}”: {NAME_RULE}"
        return
    if name not in shipped:
        alike = next((one for one in shipped if _folded(one) == _folded(name)), None)
        if alike is not None:
            yield f"name: {name!r} reads like {alike!r}, which docaudit ships: another policy needs another name"


def _folded(name: str) -> str:
    """A name as a hurried reader sees it: without case and punctuation, and of signs that look alike one."""
    return re.sub(r"[^a-z0-9]", "", name.replace("I", "l").casefold().translate(_LOOK_ALIKE))


def _text_problems(policy: Policy) -> Iterator[str]:
    """Why a text of a policy does not go into a report: nothing in it may hide, and all of it has an end."""
    texts = {"description": (policy.description, LONGEST_DESCRIPTION)}
    for index, limit in enumerate(policy.limits):
        texts |= {f"limits.{index}.{name}": (getattr(limit, name), LONGEST_NAME) for name in ("attack", "metric")}
        texts[f"limits.{index}.rationale"] = limit.rationale, LONGEST_RATIONALE
    for index, demand in enumerate(policy.demands):
        texts[f"demands.{index}.question"] = demand.question, LONGEST_NAME
        texts[f"demands.{index}.rationale"] = demand.rationale, LONGEST_RATIONALE
    texts |= {f"gaps.{index}.rationale": (gap.rationale, LONGEST_RATIONALE) for index, gap in enumerate(policy.gaps)}
    for place, (text, most) in texts.items():
        if len(text) > most:
            yield f"{place}: longer than {most} characters"
        if holds_unseen(re.sub(r"[\t\r\n]", " ", text)):
            yield f"{place}: {UNSEEN}"


def _repeated(policy: Policy) -> Iterator[str]:
    """Limits on a metric that is limited already: each would count once more in every headline."""
    first: dict[tuple[str, str, bool], int] = {}
    for index, limit in enumerate(policy.limits):
        before = first.setdefault((limit.attack, limit.metric, limit.max is None), index)
        if before != index:
            yield f"limits.{index}: the same metric is limited in limits.{before} already: one limit on it counts"


def _waiver_problems(waiver: Waiver) -> Iterator[str]:
    """Why nobody could be held to a waiver: who answers, and for what, has to be readable."""
    for name, most in {"owner": 100, "role": 100, "reason": 500, "measure": 500}.items():
        text = getattr(waiver, name)
        if holds_unseen(text):
            yield f"{name}: {UNSEEN}"
        elif letters(text) < FEWEST_LETTERS:
            yield f"{name}: holds no word"
        elif name in ("owner", "role") and re.sub(r"[^a-z]", "", text.casefold()) in _NOBODY:
            yield f"{name}: names nobody who could answer for it"
        if len(text) > most:
            yield f"{name}: longer than {most} characters"


def check_names(policy: Policy, metrics: Mapping[str, Collection[str]], complete: bool = True) -> None:
    """Refuse a policy that misspells something; called before a scan too, which may take hours.

    Args:
        policy: what to check.
        metrics: the metrics a policy may ask for, by attack.
        complete: whether these are all the attacks there are. An older record does not know those that came later: only
            a name close to one that it knows is then taken for a mistake.

    Raises:
        PolicyError: the policy names an attack or a metric that does not exist.
    """
    problems = []
    for limit in policy.limits:
        if limit.attack not in metrics and (complete or get_close_matches(limit.attack, metrics, 1, MISSPELT)):
            problems.append(f"policy {policy.name}: no attack is called {limit.attack!r}")
        elif limit.attack in metrics and limit.metric not in metrics[limit.attack]:
            close = get_close_matches(limit.metric, metrics[limit.attack], 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            problems.append(f"policy {policy.name}: {limit.attack} has no metric {limit.metric!r}{meant}")
    if problems:
        raise PolicyError(problems, f"attacks: {', '.join(metrics)}")


def check_ranges(
    policy: Policy,
    metrics: Mapping[str, Mapping[str, float | None]],
    caps: Mapping[str, Mapping[str, float | None]] = MappingProxyType({}),
) -> None:
    """Refuse limits that a metric can never reach: 65 where 65 % is meant would pass every model, as 1 would.

    Args:
        policy: what to check.
        metrics: the most that a metric can be, by attack and metric: 1 for shares and areas; None: any number. One that
            is not among them is taken for a share.
        caps: the value that a limit must stay under, by attack and metric, where there is a lower one.

    Raises:
        PolicyError: every limit at or beyond the end of its metric's range.
    """
    problems = []
    for index, limit in enumerate(policy.limits):
        upper = metrics.get(limit.attack, {}).get(limit.metric, 1.0)
        problem = _out_of_range(limit, upper) or _beyond(limit, caps.get(limit.attack, {}).get(limit.metric))
        if problem:
            problems.append(f"policy {policy.name} limits.{index}: {problem}")
    if problems:
        raise PolicyError(problems, HINT)


def _out_of_range(limit: Limit, upper: float | None) -> str:
    """Say that nothing could violate a limit, or nothing meet it; empty where that is not so."""
    name, bound = ("max", limit.max) if limit.max is not None else ("min", limit.min)
    if bound is None:
        return ""
    if upper is not None and not 0 <= bound <= upper:
        percent = ", so that 65 % is 0.65" if upper == 1 else ""
        return f"{name} {bound:g}: {limit.metric} lies between 0 and {upper:g}{percent}"
    if name == "max" and bound == upper:
        return f"max {bound:g}: {limit.metric} is never more than {upper:g}, so that nothing could violate it"
    if name == "min" and bound <= 0:
        return f"min {bound:g}: {limit.metric} is never less than 0, so that nothing could violate it"
    return ""


def _beyond(limit: Limit, cap: float | None) -> str:
    if cap is None or limit.max is None or limit.max < cap:
        return ""
    return f"max {limit.max:g}: {limit.metric} need not be able to exceed {cap:g}, so that nothing could violate it"


def check_lower_bounds(policy: Policy, tallies: Mapping[str, Collection[str]], powers: Collection[str]) -> None:
    """Refuse `holds = "lower"` where a pass would rest on too little having been tried.

    Args:
        policy: what to check.
        tallies: by attack, the metrics that count what was found.
        powers: the attacks that measure their strength.

    Raises:
        PolicyError: a lower bound of another metric, or one that asks for no strength of the attacker.
    """
    problems = []
    for index, limit in enumerate(policy.limits):
        place = f"policy {policy.name} limits.{index}: holds"
        if limit.holds == "lower" and limit.metric not in tallies.get(limit.attack, ()):
            problems.append(f"{place}: {limit.metric} is no count of what was found: its whole interval has to be held")
        elif limit.holds == "lower" and not limit.min_power and limit.attack in powers:
            problems.append(f"{place}: a lower bound says nothing of a weak attacker: give min_power as well")
    if problems:
        counts = ", ".join(f"{attack} {metric}" for attack, metrics in tallies.items() for metric in metrics)
        raise PolicyError(problems, f'holds = "lower" is for counts ({counts}); {HINT}')


def check_sides(policy: Policy, leaks: Mapping[str, Collection[str]]) -> None:
    """Refuse limits that hold a leak against the wrong end: a leaking model would meet them.

    Args:
        policy: what to check.
        leaks: by attack, the metrics that grow with the leak; those of their methods have further parts in the name.

    Raises:
        PolicyError: every such limit.
    """
    problems = [
        f"policy {policy.name} limits.{index}: min: {limit.metric} grows with the leak: limit it with max"
        for index, limit in enumerate(policy.limits)
        if limit.min is not None
        and any(limit.metric == one or limit.metric.startswith(f"{one}.") for one in leaks.get(limit.attack, ()))
    ]
    if problems:
        raise PolicyError(problems, HINT)


POLICY: TypeAdapter[Policy] = TypeAdapter(Policy)


def shipped_policies() -> dict[str, Path]:
    """The shipped policies, by name."""
    others = ("defenses", "frameworks")
    return {item.stem: item for item in folder("policies").glob("*.toml") if item.stem not in others}


def path_of(name_or_path: str) -> Path:
    """The file of a policy: of a shipped one by its name, else the path itself."""
    return shipped_policies().get(name_or_path, Path(name_or_path))


def load(name_or_path: str) -> Policy:
    """Read a policy: the name of a shipped one ("default", "strict") or the path of a TOML file.

    Raises:
        PolicyError: every problem of the file.
    """
    shipped, path = shipped_policies(), path_of(name_or_path)
    try:
        written = read_file(path)
        content = read_toml(written)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise PolicyError(f"policy {path}: {reason}", f"shipped policies: {', '.join(sorted(shipped))}") from None
    except ValueError as error:  # TOMLDecodeError, and a number of thousands of digits
        raise PolicyError(f"policy {path}: not TOML: {error}") from None
    try:
        policy = POLICY.validate_python(content)
    except ValidationError as error:
        raise PolicyError(
            [f"policy {path} {'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
        ) from None
    problems = contradictions(policy, shipped)
    if policy.origin is not None:
        problems.append("origin: is written by docaudit, not by a policy")
    original = shipped.get(policy.name)
    if original is not None and original.read_bytes() != written:
        waived = ", as by waivers," if policy.waivers else ""
        problems.append(
            f"name: docaudit ships a policy {policy.name!r}; one that differs from it{waived} needs another name"
        )
    if problems:
        own = original is not None or any(problem.startswith("name: ") for problem in problems)
        suggested = f"{policy.name}-own" if original is not None else "team-receipts"
        hint = f'say name = "{suggested}" in it, and give --policy FILE' if own else HINT
        raise PolicyError([f"policy {path} {problem}" for problem in problems], hint)
    return replace(policy, origin=Origin(written.decode(), shipped=original is not None))


def read_declared(declared: DeclaredPolicy) -> Policy:
    """Read the policy that a record declares, whatever this version ships under its name.

    Raises:
        PolicyError: the text is no policy, or not the one that the record names.
    """
    where = "the record's policy"
    try:
        policy = POLICY.validate_python(read_toml(declared.toml.encode()))
    except ValueError as error:
        if isinstance(error, ValidationError):
            problems = [f"{where} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
            raise PolicyError(problems) from None
        raise PolicyError(f"{where}: not TOML: {error}") from None
    problems = contradictions(policy, shipped_policies())
    if policy.origin is not None:
        problems.append("origin: is written by docaudit, not by a policy")
    if policy.name != declared.name:
        problems.append("has another name than the record says")
    if hashlib.sha256(declared.toml.encode()).hexdigest() != declared.sha256:
        problems.append("has another sha256 than the record says")
    if problems:
        raise PolicyError([f"{where} {problem}" for problem in problems], HINT)
    return replace(policy, origin=Origin(declared.toml, declared.shipped))
